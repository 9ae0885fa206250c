/* A fusion group becomes the loops of a kernel.
 *
 *     loop over the outer axes                 parallel
 *       level 0: loop over the inner axes      folds that need nothing of the row, full stores
 *       level 0: stores of one value a row
 *       level 1: loop over the inner axes      folds and stores that need level 0's folds
 *       ...
 *
 * Before: roots with their levels set. After: a kernel whose stores are those asked for; axes are
 * not yet merged and none is a vector. */
#include "codegen/lower/unit.h"

#include <stdio.h>
#include <string.h>

#define NAME_OPS_MAX 4u

/* ---- the element of a fold ---- */

static void update_fold(cg_nest *nest, uint32_t root_index)
{
    const cg_unit *unit = nest->unit;
    const cg_root *root = &unit->roots.data[root_index];
    const cg_node node = cg_node_of(nest->unit, root->node);
    uint32_t index[CG_RANK_MAX];
    uint32_t inner[CG_RANK_MAX];
    cg_element element = {0, 0, 0};
    cg_own_index(nest, root, index);
    uint32_t k = 0;
    for (uint32_t i = 0; i < root->fold.n_inner; i++) {
        inner[i] = cg_int(nest, 0);
        if (cg_is_one(unit, root->fold.inner[i])) {
            continue;
        }
        while (k < nest->group->rank && !nest->group->inner[k]) {
            k++;
        }
        inner[i] = nest->axis[k++];
    }
    nest->b.origin = root->node;
    root->lowering->element(nest, &node, index, inner, &element);
    if (element.value) {
        st_loop_update(&nest->b, st_map_get(&nest->acc_memo, root_index + 1u), element.value,
                       element.index, element.mask);
    }
}

/* ---- stores ---- */

static void store_root(cg_nest *nest, uint32_t root_index, bool is_stored)
{
    cg_unit *unit = nest->unit;
    const cg_root *root = &unit->roots.data[root_index];
    const cg_value *v = &unit->values[root->value];
    const uint32_t local = st_map_get(&nest->local_memo, root_index + 1u);
    uint32_t index[CG_RANK_MAX];
    if (!is_stored && !local) {
        return;
    }
    cg_own_index(nest, root, index);
    nest->b.origin = root->node;
    const st_loop_ref inst = cg_at(nest, root->value, index);
    if (inst == 0) {
        return;
    }
    if (is_stored) {
        const uint32_t buffer =
            cg_kernel_buffer(nest, v->buffer, ST_BUFFER_WRITTEN | ST_BUFFER_UNIQUE);
        st_loop_store(&nest->b, buffer, cg_address(nest, root->value, index), inst, 0);
    }
    if (local) {
        st_loop_store(&nest->b, local - 1u, cg_row_index(nest), inst, 0);
    }
}

/* ---- levels ---- */

/* Does this level need a loop over the row? */
static bool has_inner_work(const cg_nest *nest)
{
    const cg_unit *unit = nest->unit;
    for (uint32_t i = 0; i < nest->group->roots.count; i++) {
        const uint32_t root_index = nest->group->roots.data[i];
        const cg_root *root = &unit->roots.data[root_index];
        const bool is_needed = cg_is_stored(unit, root_index) || root->local;
        const bool is_store =
            is_needed && nest->group->n_inner > 0 && cg_is_full(unit, nest->group, root);
        if (root->level == nest->level && (root->is_fold || is_store)) {
            return true;
        }
    }
    return false;
}

static void open_inner(cg_nest *nest)
{
    for (uint32_t k = 0; k < nest->group->rank; k++) {
        if (nest->group->inner[k]) {
            const uint32_t axis =
                st_loop_axis_add(&nest->b, nest->group->extent[k], ST_AXIS_REDUCE);
            nest->axis[k] = nest->kernel->failed ? 0 : nest->kernel->axes.data[axis].sym;
            st_loop_open(&nest->b, axis);
        }
    }
}

static void write_row_loop(cg_nest *nest)
{
    const cg_unit *unit = nest->unit;
    const cg_fusion_group *group = nest->group;
    for (uint32_t i = 0; i < group->roots.count; i++) {
        const cg_root *root = &unit->roots.data[group->roots.data[i]];
        if (root->is_fold && root->level == nest->level) {
            const st_loop_ref acc = st_loop_acc(&nest->b, root->fold.acc, root->fold.dtype, 0);
            if (acc && !st_map_put(&nest->acc_memo, group->roots.data[i] + 1u, acc)) {
                nest->kernel->failed = STATOR_RESOURCE_EXHAUSTED;
            }
        }
    }
    open_inner(nest);
    for (uint32_t i = 0; i < group->roots.count && !nest->kernel->failed; i++) {
        const uint32_t root_index = group->roots.data[i];
        const cg_root *root = &unit->roots.data[root_index];
        if (root->level != nest->level) {
            continue;
        }
        if (root->is_fold) {
            update_fold(nest, root_index);
        } else if (group->n_inner > 0 && cg_is_full(unit, group, root)) {
            store_root(nest, root_index, cg_is_stored(unit, root_index));
        }
    }
    for (uint32_t k = 0; k < group->n_inner; k++) {
        st_loop_close(&nest->b);
    }
}

static void write_level(cg_nest *nest)
{
    const cg_unit *unit = nest->unit;
    const cg_fusion_group *group = nest->group;
    const uint32_t level = nest->level;
    if (has_inner_work(nest)) {
        write_row_loop(nest);
    }
    nest->level = level + 1u; /* this level's folds can be read now */
    for (uint32_t i = 0; i < group->roots.count && !nest->kernel->failed; i++) {
        const uint32_t root_index = group->roots.data[i];
        const cg_root *root = &unit->roots.data[root_index];
        const bool is_row = group->n_inner == 0 || root->is_fold || !cg_is_full(unit, group, root);
        if (root->level == level && is_row) {
            store_root(nest, root_index, cg_is_stored(unit, root_index));
        }
    }
}

/* The outer axes of the group in loop order: as the first value that is not row-major is stored, so
 * that the innermost loop walks neighbours. Returns how many. */
static uint32_t loop_order(const cg_nest *nest, uint32_t *out)
{
    const cg_unit *unit = nest->unit;
    const cg_fusion_group *group = nest->group;
    const cg_value *ordered = NULL;
    uint32_t outer[CG_RANK_MAX];
    uint32_t n = 0;
    uint32_t wide = 0;
    for (uint32_t k = 0; k < group->rank; k++) {
        if (!group->inner[k]) {
            outer[n++] = k;
        }
    }
    memcpy(out, outer, n * sizeof *out);
    for (uint32_t i = 0; i < group->roots.count && ordered == NULL; i++) {
        const cg_value *v = &unit->values[unit->roots.data[group->roots.data[i]].value];
        ordered = v->order ? v : NULL;
    }
    if (ordered == NULL || cg_wide_axes(unit, ordered->dims, ordered->rank) != n) {
        return n;
    }
    /* Axis a of the value is outer axis number (wide axes before a). */
    for (uint32_t k = 0; k < ordered->rank; k++) {
        if (!cg_is_one(unit, ordered->dims[ordered->order[k]])) {
            out[wide++] = outer[cg_wide_axes(unit, ordered->dims, ordered->order[k])];
        }
    }
    return n;
}

static void write_levels(cg_nest *nest)
{
    const cg_fusion_group *group = nest->group;
    uint32_t top = 0;
    for (uint32_t i = 0; i < group->roots.count; i++) {
        const uint32_t level = nest->unit->roots.data[group->roots.data[i]].level;
        top = level > top ? level : top;
    }
    for (uint32_t level = 0; level <= top && !nest->kernel->failed && !nest->refusal; level++) {
        nest->level = level;
        write_level(nest);
    }
}

/* The loops from index i on, the outermost is 0; the one that is split comes piece by piece. */
static void write_loops(cg_nest *nest, const uint32_t *order, uint32_t n, uint32_t i)
{
    if (i == n) {
        write_levels(nest);
        return;
    }
    const uint32_t whole = nest->group->extent[order[i]];
    const uint32_t n_points = nest->points.loop == i ? nest->points.n : 0;
    uint32_t from = cg_int(nest, 0);
    for (uint32_t k = 0; k <= n_points && !nest->kernel->failed; k++) {
        const uint32_t to = k < n_points ? cg_int(nest, nest->points.at[k]) : whole;
        const uint32_t flags = i == 0 ? ST_AXIS_PARALLEL : 0;
        const uint32_t axis = st_loop_axis_add(&nest->b, cg_sub(nest, to, from), flags);
        if (nest->kernel->failed) {
            return;
        }
        nest->axis[order[i]] = cg_add(nest, nest->kernel->axes.data[axis].sym, from);
        st_loop_open(&nest->b, axis);
        write_loops(nest, order, n, i + 1u);
        st_loop_close(&nest->b);
        from = to;
    }
}

static void write_outer(cg_nest *nest)
{
    uint32_t order[CG_RANK_MAX];
    const uint32_t n = loop_order(nest, order);
    write_loops(nest, order, n, 0);
}

/* ---- rows kept between levels ---- */

static uint32_t dtype_bytes(uint32_t dtype)
{
    return dtype == STATOR_F64 || dtype == STATOR_I64 || dtype == STATOR_U64 ? 8u : 4u;
}

/* Do neighbours of the row lie side by side? Lanes of a CPU walk other rows (the pixels of one
 * channel, channels last) many at a time, and a buffer would have to hold as many. */
static bool is_dense_row(const cg_unit *unit, const cg_fusion_group *group, const cg_value *v)
{
    uint32_t last = 0; /* the axis of neighbours: the last one of more than one element */
    for (uint32_t i = 0; i < v->rank; i++) {
        const uint32_t a = v->order ? v->order[i] : i;
        last = cg_is_one(unit, v->dims[a]) ? last : a;
    }
    return unit->config->emitter->target.kind == ST_TARGET_GPU ||
           group->inner[cg_wide_axes(unit, v->dims, last)];
}

static void add_locals(cg_nest *nest)
{
    const cg_unit *unit = nest->unit;
    const cg_fusion_group *group = nest->group;
    uint64_t bytes = 0;
    int64_t row = 1;
    for (uint32_t k = 0; k < group->rank; k++) {
        int64_t extent = 0;
        if (group->inner[k] && (!st_sym_const(&unit->syms->tab, group->extent[k], &extent) ||
                                extent == 0 || extent > (int64_t)ST_LOCAL_BYTES_MAX / row)) {
            return;
        }
        row *= group->inner[k] ? extent : 1;
    }
    for (uint32_t i = 0; i < group->roots.count; i++) {
        const uint32_t root_index = group->roots.data[i];
        const cg_root *root = &unit->roots.data[root_index];
        const uint32_t dtype = unit->values[root->value].dtype;
        char name[24];
        if (!root->local || !cg_is_full(unit, group, root) || group->n_inner == 0 ||
            !is_dense_row(unit, group, &unit->values[root->value])) {
            continue;
        }
        bytes += (uint64_t)row * dtype_bytes(dtype);
        if (bytes > ST_LOCAL_BYTES_MAX) {
            return;
        }
        (void)snprintf(name, sizeof name, "row%u", root_index);
        const uint32_t buffer = st_loop_buffer_add(
            &nest->b, name, dtype, cg_int(nest, row),
            ST_BUFFER_LOCAL | ST_BUFFER_READ | ST_BUFFER_WRITTEN | ST_BUFFER_UNIQUE, 0);
        if (!st_map_put(&nest->local_memo, root_index + 1u, buffer + 1u)) {
            nest->kernel->failed = STATOR_RESOURCE_EXHAUSTED;
        }
    }
}

/* ---- the kernel ---- */

/* "softmax"-like names are gone by now: the ops of the roots, the last few of them. */
static void kernel_name(const cg_unit *unit, const cg_fusion_group *group, char *out, size_t size)
{
    static const char *const parts[] = {"", "_keep", "_copy", "_restore", "_update"};
    const uint32_t n = group->roots.count;
    const uint32_t from = n > NAME_OPS_MAX ? n - NAME_OPS_MAX : 0;
    const uint32_t number = (uint32_t)(group - unit->groups.data);
    size_t used = (size_t)snprintf(out, size, "%sk%u", unit->scope, number);
    for (uint32_t i = from; i < n && used < size; i++) {
        const cg_root *root = &unit->roots.data[group->roots.data[i]];
        const char *op =
            root->node ? stator_op_at(unit->view, stator_node_at(unit->view, root->node)->op)->name
                       : "copy";
        used += (size_t)snprintf(out + used, size - used, "_%s", op);
    }
    if (used < size) {
        (void)snprintf(out + used, size - used, "%s", parts[group->part]);
    }
}

bool cg_nest_init(cg_nest *nest, cg_unit *unit, uint32_t group, const char *name, st_kernel *kernel)
{
    *nest = (cg_nest){.unit = unit, .group_index = group, .kernel = kernel};
    nest->group = group < unit->groups.count ? &unit->groups.data[group] : NULL;
    if (!st_kernel_init(kernel, unit->mem, unit->syms, name)) {
        return false;
    }
    st_loop_builder_init(&nest->b, kernel);
    st_map_init(&nest->buffer_memo, unit->mem);
    st_map_init(&nest->local_memo, unit->mem);
    st_hashset_init(&nest->at_memo, unit->mem);
    st_map_init(&nest->acc_memo, unit->mem);
    return true;
}

void cg_nest_deinit(cg_nest *nest)
{
    st_mem *mem = nest->unit->mem;
    st_loop_builder_deinit(&nest->b);
    st_map_deinit(&nest->buffer_memo);
    st_map_deinit(&nest->local_memo);
    st_hashset_deinit(&nest->at_memo);
    st_vec_free(mem, &nest->known);
    st_vec_free(mem, &nest->splits);
    st_map_deinit(&nest->acc_memo);
}

/* Has no value that the group makes an element? */
static bool makes_nothing(cg_unit *unit, const cg_fusion_group *group)
{
    for (uint32_t i = 0; i < group->roots.count; i++) {
        const uint32_t numel = cg_numel(unit, unit->roots.data[group->roots.data[i]].value);
        if (numel == 0 || st_loop_known_or(&unit->syms->tab, numel, 1) != 0) {
            return false;
        }
    }
    return true;
}

stator_status cg_write_kernel(cg_unit *unit, uint32_t group, const cg_split_points *points,
                              st_kernel *out, const char **out_refusal)
{
    char name[128];
    cg_nest nest;
    kernel_name(unit, &unit->groups.data[group], name, sizeof name);
    *out_refusal = NULL;
    if (!cg_nest_init(&nest, unit, group, name, out)) {
        return STATOR_RESOURCE_EXHAUSTED;
    }
    nest.points = *points;
    if (makes_nothing(unit, nest.group)) {
        /* The kernel stays empty: indices of an axis without elements may be anything. */
    } else if (nest.group->is_alone) {
        const cg_root *root = &unit->roots.data[nest.group->roots.data[0]];
        const cg_node node = cg_node_of(unit, root->node);
        nest.b.origin = root->node;
        root->lowering->write(&nest, &node);
    } else {
        add_locals(&nest);
        write_outer(&nest);
    }
    const stator_status failed = (stator_status)out->failed;
    *out_refusal = nest.refusal;
    cg_nest_deinit(&nest);
    if (failed == STATOR_OK && *out_refusal == NULL) {
        return STATOR_OK;
    }
    st_kernel_deinit(out);
    return failed == STATOR_OK ? STATOR_UNSUPPORTED : failed;
}

stator_status cg_build_kernel(cg_unit *unit, uint32_t group, st_kernel *out,
                              const char **out_refusal, stator_diag **err)
{
    char name[128];
    const cg_split_points none = {.n = 0};
    const stator_status status = cg_write_kernel(unit, group, &none, out, out_refusal);
    if (status == STATOR_OK) {
        return STATOR_OK;
    }
    if (status != STATOR_UNSUPPORTED && *out_refusal == NULL) {
        kernel_name(unit, &unit->groups.data[group], name, sizeof name);
        return status == STATOR_RESOURCE_EXHAUSTED
                   ? st_fail_oom(err)
                   : st_fail(err, status, "kernel %s could not be built", name);
    }
    *out_refusal = *out_refusal ? *out_refusal : "an index exceeds the limit of 16 terms, depth 4";
    return STATOR_UNSUPPORTED;
}
