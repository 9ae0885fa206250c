/* Simpler data for the nodes that are left; see minify.h.
 *
 *   random inputs             no file of inputs
 *   parameters and large constants as random inputs too          no .blob either
 *
 * What the values are seldom matters to a compiler; where it does, they stay as they are. */
#include "tools/minify/minify.h"

#include <stdlib.h>
#include <string.h>

#define SINGLE_MAX 32u /* data that are tried one by one */

typedef struct simplify {
    minify *m;
    uint8_t *is_kept;  /* by node */
    uint8_t *is_given; /* by value */
    stator_ref *large;
    uint32_t n_large;
    stator_ref *outputs;
    uint32_t n_outputs;
} simplify;

/* The large parameters and constants that kept nodes read. */
static void list_large(simplify *s)
{
    const minify_graph *g = &s->m->graph;
    const minify_cut *best = &s->m->best;
    for (uint32_t k = 0; k < best->n_nodes; k++) {
        const minify_node *row = &g->nodes[best->nodes[k]];
        s->is_kept[best->nodes[k]] = 1;
        for (uint32_t i = 0; i < row->operand_count; i++) {
            const stator_ref value = g->refs[row->operand_begin + i];
            if ((g->values[value].flags & MINIFY_LARGE) != 0 && !s->is_given[value]) {
                s->is_given[value] = 1;
                s->large[s->n_large++] = value;
            }
        }
    }
    memset(s->is_given, 0, g->n_values + (size_t)1);
}

static bool try_given(simplify *s)
{
    const minify_cut_spec spec = {.is_kept = s->is_kept,
                                  .outputs = s->outputs,
                                  .n_outputs = s->n_outputs,
                                  .is_given = s->is_given};
    minify_cut cut;
    ST_NEED(minify_cut_make(&s->m->graph, &spec, &cut));
    cut.is_random = 1;
    return minify_try(s->m, &cut);
}

static void try_all(simplify *s)
{
    for (uint32_t k = 0; k < s->n_large; k++) {
        s->is_given[s->large[k]] = 1;
    }
    if (try_given(s) || s->n_large == 0) {
        return;
    }
    memset(s->is_given, 0, s->m->graph.n_values + (size_t)1);
    if (s->m->best.n_inputs > 0 && !try_given(s)) {
        return;
    }
    for (uint32_t k = 0; k < s->n_large && k < SINGLE_MAX && s->n_large > 1; k++) {
        s->is_given[s->large[k]] = 1;
        s->is_given[s->large[k]] = (uint8_t)try_given(s);
    }
}

/* A copy of the best form, for the case that a simpler one does not come back from its file. */
static bool keep_exact(minify *m)
{
    minify_cut *to = &m->exact;
    *to = m->best;
    to->nodes = malloc((to->n_nodes + (size_t)1) * sizeof *to->nodes);
    to->inputs = malloc((to->n_inputs + (size_t)1) * sizeof *to->inputs);
    to->outputs = malloc((to->n_outputs + (size_t)1) * sizeof *to->outputs);
    if (to->nodes == NULL || to->inputs == NULL || to->outputs == NULL) {
        minify_cut_free(to);
        return false;
    }
    memcpy(to->nodes, m->best.nodes, to->n_nodes * sizeof *to->nodes);
    memcpy(to->inputs, m->best.inputs, to->n_inputs * sizeof *to->inputs);
    memcpy(to->outputs, m->best.outputs, to->n_outputs * sizeof *to->outputs);
    return true;
}

void minify_simplify(minify *m)
{
    const minify_graph *g = &m->graph;
    simplify s = {.m = m, .n_outputs = m->best.n_outputs};
    if (m->best.is_whole || m->best.has_symbols) {
        return; /* random inputs would have other sizes */
    }
    s.is_kept = calloc(g->n_nodes + (size_t)1, 1);
    s.is_given = calloc(g->n_values + (size_t)1, 1);
    s.large = calloc(g->n_values + (size_t)1, sizeof *s.large);
    s.outputs = calloc(s.n_outputs + (size_t)1, sizeof *s.outputs);
    if (s.is_kept != NULL && s.is_given != NULL && s.large != NULL && s.outputs != NULL) {
        memcpy(s.outputs, m->best.outputs, s.n_outputs * sizeof *s.outputs);
        list_large(&s);
        if ((m->best.n_inputs > 0 || s.n_large > 0) && keep_exact(m)) {
            try_all(&s);
            if (m->best.hash == m->exact.hash && m->best.is_random == m->exact.is_random) {
                minify_cut_free(&m->exact); /* nothing was made simpler */
            }
        }
    }
    free(s.is_kept);
    free(s.is_given);
    free(s.large);
    free(s.outputs);
}
