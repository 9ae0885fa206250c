/* Values of the good backend, kept as trials need them; see minify.h.
 *
 * A call of the good backend gives many values at once, so what lies near the one that is needed is
 * kept with it: as a rule the search stays there. */
#include "tools/minify/minify.h"

#include <stdlib.h>

#define GROUP_VALUES 512u
#define GROUP_BYTES (UINT64_C(256) << 20)
#define PLENTY_BYTES (UINT64_C(1) << 30) /* past this only what is needed is kept */
#define BYTES_MAX (UINT64_C(4) << 30)

/* Neighbours in topological order, as many as fit. Constants and parameters need no call but when
 * they become inputs, which is seldom. */
static bool make_groups(minify *m)
{
    const minify_graph *g = &m->graph;
    minify_record *r = &m->record;
    uint32_t group = 0;
    uint32_t count = 0;
    uint64_t bytes = 0;
    r->known = calloc(g->n_values + (size_t)1, sizeof(DLTensor *));
    r->group_of = calloc(g->n_values + (size_t)1, sizeof *r->group_of);
    r->is_tried = calloc(g->n_values + (size_t)1, 1);
    if (r->known == NULL || r->group_of == NULL || r->is_tried == NULL) {
        return false;
    }
    for (stator_ref value = 1; value <= g->n_values; value++) {
        if (count == GROUP_VALUES || bytes + g->values[value].size_bytes > GROUP_BYTES) {
            group++;
            count = 0;
            bytes = 0;
        }
        r->group_of[value] = group;
        count++;
        bytes += g->values[value].size_bytes;
    }
    return true;
}

/* Takes the tensors that a child kept, one for each of the values. */
static bool take_group(minify_record *r, const child *c, uint32_t n, const stator_ref *values)
{
    child_tensors *groups = realloc(r->groups, (r->n_groups + 1u) * sizeof *groups);
    ST_NEED(groups != NULL);
    r->groups = groups;
    child_tensors *group = &groups[r->n_groups++];
    if (!child_tensors_map(c->files[CHILD_KEPT], group) || group->count < n) {
        return false;
    }
    for (uint32_t k = 0; k < n; k++) {
        r->known[values[k]] = &group->tensors[k];
    }
    r->size_bytes += group->size;
    return true;
}

static bool record(minify *m, uint32_t n, const stator_ref *values)
{
    const minify_job job = {
        .task = MINIFY_RECORD, .setup = &m->setup, .values = values, .n_values = n};
    minify_outcome outcome;
    child c;
    bool ok = n == 0;
    if (n > 0 && m->record.size_bytes < BYTES_MAX) {
        ok = minify_child(m, &job, &c, &outcome) && outcome.verdict == BISECT_AGREES &&
             take_group(&m->record, &c, n, values);
        child_close(&c);
    }
    return ok;
}

/* The values that are not known yet, or all of the groups that they are of; their number. */
static uint32_t list_missing(const minify *m, uint32_t n, const stator_ref *values,
                             bool whole_groups, stator_ref *out)
{
    const minify_graph *g = &m->graph;
    const minify_record *r = &m->record;
    uint8_t *is_wanted = calloc(g->n_values + (size_t)1, 1);
    uint32_t count = 0;
    for (uint32_t k = 0; is_wanted != NULL && k < n; k++) {
        is_wanted[r->group_of[values[k]]] |= r->known[values[k]] == NULL;
    }
    for (stator_ref value = 1; is_wanted != NULL && whole_groups && value <= g->n_values; value++) {
        const minify_value *row = &g->values[value];
        const bool is_of_node = row->node != 0 && (row->flags & MINIFY_CONSTANT) == 0;
        if (is_wanted[r->group_of[value]] && !r->is_tried[r->group_of[value]] && is_of_node &&
            (row->flags & MINIFY_READ) != 0 && r->known[value] == NULL) {
            out[count++] = value;
        }
    }
    for (uint32_t k = 0; !whole_groups && k < n; k++) {
        if (r->known[values[k]] == NULL) {
            out[count++] = values[k];
        }
    }
    free(is_wanted);
    return count;
}

bool minify_record_need(minify *m, uint32_t n, const stator_ref *values)
{
    minify_record *r = &m->record;
    stator_ref *missing = calloc(m->graph.n_values + (size_t)n + 1u, sizeof *missing);
    bool ok = missing != NULL;
    if (ok && list_missing(m, n, values, false, missing) > 0 && r->size_bytes < PLENTY_BYTES) {
        const uint32_t count = list_missing(m, n, values, true, missing);
        (void)record(m, count, missing); /* else the few that are needed are tried */
        for (uint32_t k = 0; k < count; k++) {
            r->is_tried[r->group_of[missing[k]]] = 1;
        }
    }
    ok = ok && record(m, list_missing(m, n, values, false, missing), missing);
    free(missing);
    return ok;
}

/* The inputs of the model, and what sizes are told by: values whose nodes must have run. */
bool minify_record_begin(minify *m, child *survey)
{
    const minify_graph *g = &m->graph;
    stator_ref *values = calloc(g->n_values + (size_t)1, sizeof *values);
    uint32_t n = 0;
    bool ok = values != NULL && make_groups(m);
    for (stator_ref value = 1; ok && value <= g->n_values; value++) {
        if (g->values[value].node == 0 && (g->values[value].flags & MINIFY_PARAM) == 0) {
            values[n++] = value;
        }
    }
    ok = ok && take_group(&m->record, survey, n, values);
    n = 0;
    for (stator_ref value = 1; ok && value <= g->n_values; value++) {
        if ((g->values[value].flags & MINIFY_UNBACKED) != 0) {
            values[n++] = value;
        }
    }
    if (ok && n > 0) {
        (void)record(m, n, values); /* without them fewer cuts can be made */
    }
    free(values);
    return ok;
}

void minify_record_free(minify_record *r)
{
    for (uint32_t i = 0; i < r->n_groups; i++) {
        child_tensors_free(&r->groups[i]);
    }
    free(r->groups);
    free(r->known);
    free(r->group_of);
    free(r->is_tried);
    *r = (minify_record){.n_groups = 0};
}
