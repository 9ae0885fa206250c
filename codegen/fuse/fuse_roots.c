/* Which roots share a kernel.
 *
 * Each root begins with a fusion group of its own. In topological order a root's group is joined
 * with those of the roots it reads and with the newest one of the same domain that reads what it
 * reads, when the domains fit, no other kernel stands between them, fuel allows it and the joined
 * kernel can be written. A refused join leaves a line in the log channel `fusion`.
 *
 *   before  max: rows x K -> rows     e = exp(x - max)     sum: rows x K -> rows     y = e / sum
 *   after   one group, outer rows, inner K, levels 0 1 1 2 */
#include "codegen/fuse/fuse.h"
#include "codegen/match/match_contraction.h"

#include <string.h>

#define WALK_MAX 512u   /* groups looked through for a path; past it a join is refused */
#define LONG_ROW 32768  /* elements that one thread should not do alone */
#define PAGE_BYTES 4096 /* rows of so many bytes lie in pages of their own */
#define PAGES_MIN 256   /* pages that the processor does not find again fast */
#define SIBLINGS_MAX 8u /* groups tried as siblings */
#define GROUP_ROOTS_MAX 64u

typedef struct joiner {
    cg_unit *unit;
    st_vec(uint32_t) stack;
} joiner;

/* ---- domains ---- */

static void add_axis(cg_unit *unit, cg_fusion_group *group, uint32_t extent, bool is_inner)
{
    if (cg_is_one(unit, extent) || group->rank >= CG_RANK_MAX) {
        return;
    }
    group->extent[group->rank] = extent;
    group->inner[group->rank] = (uint8_t)is_inner;
    group->n_inner += is_inner != 0;
    group->rank++;
}

void cg_domain_of(cg_unit *unit, const cg_root *root, cg_fusion_group *group)
{
    const cg_value *v = &unit->values[root->value];
    const cg_fold *fold = root->is_fold ? &root->fold : NULL;
    if (fold && fold->is_reduction) {
        const cg_node node = cg_node_of(unit, root->node);
        const cg_value *x = &unit->values[cg_operand(&node, 0)];
        uint32_t next = 0;
        for (uint32_t a = 0; a < x->rank; a++) {
            const bool is_inner = next < fold->n_inner && fold->at[next] == a;
            next += (uint32_t)is_inner;
            add_axis(unit, group, x->dims[a], is_inner);
        }
        return;
    }
    for (uint32_t a = 0; a < v->rank; a++) {
        add_axis(unit, group, v->dims[a], false);
    }
    for (uint32_t k = 0; fold && k < fold->n_inner; k++) {
        add_axis(unit, group, fold->inner[k], true);
    }
}

static bool same_extents(const cg_fusion_group *a, const cg_fusion_group *b)
{
    return a->rank == b->rank && memcmp(a->extent, b->extent, a->rank * sizeof a->extent[0]) == 0;
}

/* Are b's axes (none of them inner) the outer axes of a? */
static bool is_row_domain(const cg_fusion_group *a, const cg_fusion_group *b)
{
    uint32_t k = 0;
    for (uint32_t i = 0; i < a->rank; i++) {
        if (a->inner[i]) {
            continue;
        }
        if (k >= b->rank || b->extent[k] != a->extent[i]) {
            return false;
        }
        k++;
    }
    return k == b->rank;
}

/* The group whose domain serves both, or NULL. */
static const cg_fusion_group *wider(const cg_fusion_group *a, const cg_fusion_group *b)
{
    if (a->n_inner == 0 && b->n_inner == 0) {
        return same_extents(a, b) ? a : NULL;
    }
    if (a->n_inner && b->n_inner) {
        return same_extents(a, b) && memcmp(a->inner, b->inner, a->rank) == 0 ? a : NULL;
    }
    const cg_fusion_group *row = a->n_inner ? a : b;
    const cg_fusion_group *flat = a->n_inner ? b : a;
    return same_extents(row, flat) || is_row_domain(row, flat) ? row : NULL;
}

/* Would one thread have to do a long row alone, which kernels of their own would share out? */
static bool is_one_long_row(const cg_unit *unit, const cg_fusion_group *group)
{
    int64_t outer = 1;
    int64_t inner = 1;
    for (uint32_t k = 0; k < group->rank; k++) {
        const int64_t extent = st_sym_size_hint(&unit->syms->tab, group->extent[k]);
        int64_t *product = group->inner[k] ? &inner : &outer;
        *product = *product > LONG_ROW ? *product : *product * extent;
    }
    return outer < (int64_t)unit->config->emitter->target.threads && inner > LONG_ROW;
}

/* Would loops that sum columns of wide rows also make `flat`, element by element? Each step down
 * then touches another page of each operand, and vectors of few neighbours: gelu's gradient and its
 * sum over [1576, 3072] take 16.5 ms as one kernel, 8.9 ms as two. */
static bool is_down_pages(const cg_unit *unit, const cg_fusion_group *flat,
                          const cg_fusion_group *row)
{
    const cg_value *v = &unit->values[unit->roots.data[flat->roots.data[0]].value];
    int64_t bytes = (int64_t)st_element_bytes(v->dtype);
    int64_t steps = 1;
    bool is_run = true;
    if (cg_wide_axes(unit, v->dims, v->rank) != row->rank ||
        unit->config->emitter->target.kind == ST_TARGET_GPU) {
        return false;
    }
    for (uint32_t i = v->rank; i-- > 0;) {
        const uint32_t axis = v->order ? v->order[i] : i;
        const int64_t extent = st_sym_size_hint(&unit->syms->tab, v->dims[axis]);
        const bool is_inner =
            !cg_is_one(unit, v->dims[axis]) && row->inner[cg_wide_axes(unit, v->dims, axis)];
        is_run = is_run && !is_inner;
        bytes = is_run && bytes < PAGE_BYTES ? bytes * extent : bytes;
        steps = is_inner && steps < PAGES_MIN ? steps * extent : steps;
    }
    return bytes >= PAGE_BYTES && steps >= PAGES_MIN;
}

/* ---- paths between groups ---- */

static bool push_needs(joiner *j, const cg_fusion_group *group)
{
    const cg_unit *unit = j->unit;
    for (uint32_t i = 0; i < group->roots.count; i++) {
        const cg_root *root = &unit->roots.data[group->roots.data[i]];
        for (uint32_t k = 0; k < root->n_needs; k++) {
            uint32_t *at = st_vec_push(unit->mem, &j->stack);
            if (at == NULL) {
                j->unit->is_oom = true;
                return false;
            }
            *at = unit->roots.data[unit->needs.data[root->first_need + k]].group;
        }
    }
    return true;
}

/* Does `from` read `to` through a third group? 1 also when it is too far to say. */
static bool has_detour(joiner *j, uint32_t from, uint32_t to)
{
    cg_unit *unit = j->unit;
    uint32_t visited = 0;
    unit->stamp++;
    j->stack.count = 0;
    if (!push_needs(j, &unit->groups.data[from])) {
        return true;
    }
    /* Direct edges are what the join removes. */
    uint32_t kept = 0;
    for (uint32_t i = 0; i < j->stack.count; i++) {
        if (j->stack.data[i] != to && j->stack.data[i] != from) {
            j->stack.data[kept++] = j->stack.data[i];
        }
    }
    j->stack.count = kept;
    while (j->stack.count > 0) {
        const uint32_t at = j->stack.data[--j->stack.count];
        if (at == to) {
            return true;
        }
        if (unit->groups.data[at].stamp == unit->stamp) {
            continue;
        }
        unit->groups.data[at].stamp = unit->stamp;
        if (++visited > WALK_MAX || !push_needs(j, &unit->groups.data[at])) {
            return true;
        }
    }
    return false;
}

/* ---- levels ---- */

static bool is_dear(const cg_unit *unit, const cg_root *root)
{
    return !root->is_fold && unit->values[root->value].cost > 4u;
}

/* Levels of the group's roots, and which of them are worth a buffer of the row. */
static void set_levels(cg_unit *unit, cg_fusion_group *group)
{
    const uint32_t self = (uint32_t)(group - unit->groups.data);
    for (uint32_t i = 0; i < group->roots.count; i++) {
        cg_root *root = &unit->roots.data[group->roots.data[i]];
        root->level = 0;
        root->local = 0;
        for (uint32_t k = 0; k < root->n_needs; k++) {
            cg_root *need = &unit->roots.data[unit->needs.data[root->first_need + k]];
            if (need->group == self) {
                const uint32_t after = need->level + need->is_fold;
                root->level = after > root->level ? after : root->level;
            }
        }
    }
    for (uint32_t i = 0; i < group->roots.count; i++) {
        const cg_root *root = &unit->roots.data[group->roots.data[i]];
        for (uint32_t k = 0; k < root->n_needs; k++) {
            cg_root *need = &unit->roots.data[unit->needs.data[root->first_need + k]];
            if (need->group == self && need->level < root->level && is_dear(unit, need)) {
                need->local = 1;
            }
        }
    }
}

/* ---- joining ---- */

static void log_refusal(const cg_unit *unit, const cg_fusion_group *a, const cg_fusion_group *b,
                        const char *why)
{
    const stator_host *host = unit->host;
    if (!host->log->enabled(host->ctx, "fusion", 2)) {
        return;
    }
    const stator_graph_view *v = unit->view;
    st_str line;
    st_str_init(&line, unit->mem);
    const cg_fusion_group *groups[2] = {a, b};
    for (uint32_t k = 0; k < 2; k++) {
        const cg_root *root = &unit->roots.data[groups[k]->roots.data[groups[k]->roots.count - 1u]];
        st_str_addf(&line, "%s%s (node %u)", k ? " and " : "not joined: ",
                    root->node ? stator_op_at(v, stator_node_at(v, root->node)->op)->name : "copy",
                    root->node);
    }
    st_str_addf(&line, ": %s", why);
    if (st_str_ok(&line)) {
        host->log->write(host->ctx, "fusion", 2, line.data);
    }
    st_str_deinit(&line);
}

/* Moves b's roots into a, in topological order; 0: out of memory. */
static bool move_roots(cg_unit *unit, uint32_t a, uint32_t b)
{
    cg_fusion_group *to = &unit->groups.data[a];
    cg_fusion_group *from = &unit->groups.data[b];
    for (uint32_t i = 0; i < from->roots.count; i++) {
        const uint32_t root_index = from->roots.data[i];
        uint32_t *at = st_vec_push(unit->mem, &to->roots);
        if (at == NULL) {
            return false;
        }
        uint32_t k = to->roots.count - 1u;
        for (; k > 0 && to->roots.data[k - 1u] > root_index; k--) {
            to->roots.data[k] = to->roots.data[k - 1u];
        }
        to->roots.data[k] = root_index;
        unit->roots.data[root_index].group = a;
    }
    return true;
}

/* Takes the roots of b out of a again. */
static void undo_join(cg_unit *unit, uint32_t a, uint32_t b, const cg_fusion_group *old)
{
    cg_fusion_group *joined = &unit->groups.data[a];
    const cg_fusion_group *moved = &unit->groups.data[b];
    uint32_t kept = 0;
    for (uint32_t i = 0; i < moved->roots.count; i++) {
        unit->roots.data[moved->roots.data[i]].group = b;
    }
    for (uint32_t i = 0; i < joined->roots.count; i++) {
        if (unit->roots.data[joined->roots.data[i]].group == a) {
            joined->roots.data[kept++] = joined->roots.data[i];
        }
    }
    joined->roots.count = kept;
    joined->is_library = old->is_library;
    joined->rank = old->rank;
    joined->n_inner = old->n_inner;
    memcpy(joined->extent, old->extent, sizeof joined->extent);
    memcpy(joined->inner, old->inner, sizeof joined->inner);
    set_levels(unit, joined);
    set_levels(unit, &unit->groups.data[b]);
}

/* Does the group, which has no inner axes, fold all the same? Over axes of size 1, then: inside
 * the rows of another group each element would be folded once for each element of the row. */
static bool folds_nothing(const cg_unit *unit, const cg_fusion_group *group)
{
    for (uint32_t i = 0; i < group->roots.count; i++) {
        if (unit->roots.data[group->roots.data[i]].is_fold) {
            return true;
        }
    }
    return false;
}

/* Would the join keep results that are written over inputs from coming last? That is dearer than
 * the join: each of them would be written to a buffer of its own and copied. */
static bool keeps_from_sinking(const cg_unit *unit, const cg_fusion_group *a,
                               const cg_fusion_group *b)
{
    const cg_fusion_group *groups[2] = {a, b};
    bool may_sink[2] = {true, true};
    bool is_written[2] = {false, false};
    for (uint32_t g = 0; g < 2 && unit->view->n_write_backs != 0; g++) {
        for (uint32_t i = 0; i < groups[g]->roots.count; i++) {
            const cg_root *root = &unit->roots.data[groups[g]->roots.data[i]];
            may_sink[g] = may_sink[g] && root->may_sink;
            is_written[g] = is_written[g] || root->is_written;
        }
    }
    return may_sink[0] != may_sink[1] && is_written[may_sink[0] ? 0 : 1];
}

static const char *why_not(joiner *j, uint32_t a, uint32_t b, const cg_fusion_group *domain)
{
    const cg_unit *unit = j->unit;
    const cg_fusion_group *pa = &unit->groups.data[a];
    const cg_fusion_group *pb = &unit->groups.data[b];
    if (pa->is_alone || pb->is_alone) {
        return "one of them writes its own loops";
    }
    if (unit->roots.data[pa->roots.data[0]].stage != unit->roots.data[pb->roots.data[0]].stage) {
        return "a size is bound from data between them";
    }
    if (domain == NULL) {
        return "their domains differ";
    }
    if ((pa->n_inner == 0) != (pb->n_inner == 0) && folds_nothing(unit, pa->n_inner ? pb : pa)) {
        return "one of them folds axes of size 1 alone";
    }
    if (pa->roots.count + pb->roots.count > GROUP_ROOTS_MAX) {
        return "the kernel would store too much";
    }
    if (keeps_from_sinking(unit, pa, pb)) {
        return "one of them is written over inputs when nothing can fail any more";
    }
    if (is_one_long_row(unit, domain)) {
        return "one thread would have to do a long row alone";
    }
    if ((pa->n_inner == 0) != (pb->n_inner == 0) &&
        is_down_pages(unit, pa->n_inner ? pb : pa, pa->n_inner ? pa : pb)) {
        return "one of them would be made down the columns of wide rows";
    }
    if (has_detour(j, b, a) || has_detour(j, a, b)) {
        return "another kernel stands between them";
    }
    return NULL;
}

/* Writes the group's kernel on trial, and asks whether it is one for the library. */
static stator_status try_kernel(joiner *j, uint32_t group, const char **out_why, stator_diag **err)
{
    cg_unit *unit = j->unit;
    st_kernel trial;
    st_contraction contraction;
    ST_TRY(cg_build_kernel(unit, group, &trial, out_why, err));
    bool is_taken = false;
    const stator_status status = cg_match(unit, group, &trial, &contraction, &is_taken, err);
    unit->groups.data[group].is_library = is_taken;
    st_kernel_deinit(&trial);
    return status;
}

/* Joins group b into group a when that is possible; *out_joined says so. */
static stator_status try_join(joiner *j, uint32_t a, uint32_t b, bool *out_joined,
                              stator_diag **err)
{
    cg_unit *unit = j->unit;
    *out_joined = false;
    const cg_fusion_group old = unit->groups.data[a];
    const cg_fusion_group *domain = wider(&unit->groups.data[a], &unit->groups.data[b]);
    const char *why = why_not(j, a, b, domain);
    ST_TRY_MEM(!unit->is_oom, err);
    const cg_root *last = &unit->roots.data[unit->groups.data[b].roots.data[0]];
    if (!why && !unit->host->fuel->may_apply(unit->fuel, STATOR_FUEL_FUSION, "join", last->node)) {
        why = "fuel has run out";
    }
    if (why) {
        log_refusal(unit, &unit->groups.data[a], &unit->groups.data[b], why);
        return STATOR_OK;
    }
    cg_fusion_group *to = &unit->groups.data[a];
    const cg_fusion_group wide = *domain;
    ST_TRY_MEM(move_roots(unit, a, b), err);
    to->rank = wide.rank;
    to->n_inner = wide.n_inner;
    memcpy(to->extent, wide.extent, sizeof to->extent);
    memcpy(to->inner, wide.inner, sizeof to->inner);
    set_levels(unit, to);
    const bool was_library = to->is_library || unit->groups.data[b].is_library;
    stator_status status = try_kernel(j, a, &why, err);
    if (status == STATOR_OK && was_library && !to->is_library) {
        status = STATOR_UNSUPPORTED;
        why = "the library that does the contraction has no such epilogue";
    }
    if (status == STATOR_OK) {
        unit->groups.data[b].is_dead = 1;
        *out_joined = true;
        return STATOR_OK;
    }
    if (status != STATOR_UNSUPPORTED) {
        return status;
    }
    undo_join(unit, a, b, &old);
    log_refusal(unit, &unit->groups.data[a], &unit->groups.data[b], why);
    return STATOR_OK;
}

/* The results of a node that writes its own loops share a group; 0: the root is none, or the
 * first. */
static bool is_second_result(const cg_unit *unit, uint32_t root_index)
{
    const cg_root *root = &unit->roots.data[root_index];
    return root_index > 0 && root->lowering && root->lowering->write &&
           unit->roots.data[root_index - 1u].node == root->node;
}

static stator_status add_group(joiner *j, uint32_t root_index, stator_diag **err)
{
    cg_unit *unit = j->unit;
    if (is_second_result(unit, root_index)) {
        const uint32_t shared = unit->roots.data[root_index - 1u].group;
        uint32_t *next = st_vec_push(unit->mem, &unit->groups.data[shared].roots);
        ST_TRY_MEM(next, err);
        *next = root_index;
        unit->roots.data[root_index].group = shared;
        return STATOR_OK;
    }
    cg_fusion_group *group = st_vec_push(unit->mem, &unit->groups);
    ST_TRY_MEM(group, err);
    *group = (cg_fusion_group){.rank = 0};
    uint32_t *at = st_vec_push(unit->mem, &group->roots);
    ST_TRY_MEM(at, err);
    *at = root_index;
    unit->roots.data[root_index].group = unit->groups.count - 1u;
    cg_domain_of(unit, &unit->roots.data[root_index], group);
    set_levels(unit, group);
    const cg_root *root = &unit->roots.data[root_index];
    group->is_alone = root->lowering && root->lowering->write;
    if (cg_may_be_library(unit, root)) {
        const char *why = NULL;
        const stator_status status = try_kernel(j, unit->groups.count - 1u, &why, err);
        return status == STATOR_UNSUPPORTED && why ? STATOR_OK : status;
    }
    return STATOR_OK;
}

/* Joins the group of root `root_index` with the groups of what it reads, the newest first. */
static stator_status join_needs(joiner *j, uint32_t root_index, stator_diag **err)
{
    cg_unit *unit = j->unit;
    const cg_root *root = &unit->roots.data[root_index];
    const uint32_t first = root->first_need;
    const uint32_t n = root->n_needs;
    for (uint32_t k = 0; k < n && k < SIBLINGS_MAX; k++) {
        const uint32_t from = unit->roots.data[unit->needs.data[first + k]].group;
        const uint32_t own = unit->roots.data[root_index].group;
        bool is_joined = false;
        if (from != own) {
            /* The older group takes the newer one in. */
            ST_TRY(try_join(j, from < own ? from : own, from < own ? own : from, &is_joined, err));
        }
    }
    return STATOR_OK;
}

/* Do the two roots read a common root? Siblings over nothing in common gain nothing by a join. */
static bool share_a_need(const cg_unit *unit, const cg_root *a, const cg_root *b)
{
    for (uint32_t i = 0; i < a->n_needs; i++) {
        for (uint32_t k = 0; k < b->n_needs; k++) {
            if (unit->needs.data[a->first_need + i] == unit->needs.data[b->first_need + k]) {
                return true;
            }
        }
    }
    return a->n_needs == 0 && b->n_needs == 0;
}

static stator_status join_siblings(joiner *j, uint32_t root_index, stator_diag **err)
{
    cg_unit *unit = j->unit;
    for (uint32_t back = 1; back <= SIBLINGS_MAX && back <= root_index; back++) {
        const uint32_t other = root_index - back;
        const uint32_t from = unit->roots.data[other].group;
        const uint32_t own = unit->roots.data[root_index].group;
        bool is_joined = false;
        if (from == own || !wider(&unit->groups.data[from], &unit->groups.data[own]) ||
            !share_a_need(unit, &unit->roots.data[other], &unit->roots.data[root_index])) {
            continue;
        }
        ST_TRY(try_join(j, from < own ? from : own, from < own ? own : from, &is_joined, err));
    }
    return STATOR_OK;
}

stator_status cg_join_roots(cg_unit *unit, stator_diag **err)
{
    joiner j = {.unit = unit};
    stator_status status = STATOR_OK;
    for (uint32_t root_index = 0; root_index < unit->roots.count; root_index++) {
        ST_TRY_DONE(add_group(&j, root_index, err));
        ST_TRY_DONE(join_needs(&j, root_index, err));
        ST_TRY_DONE(join_siblings(&j, root_index, err));
    }
done:
    st_vec_free(unit->mem, &j.stack);
    return status;
}
