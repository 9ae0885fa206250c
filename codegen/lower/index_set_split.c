/* Index-set splitting: the loop over an axis along which values were concatenated becomes one loop
 * for each of the values.
 *
 *   before  loop i < 96 { c = i < 64; z[i] = c ? load x[i] : load y[i - 64] }
 *   after   loop i < 64 { z[i] = load x[i] }  loop j < 32 { z[j + 64] = load y[j] }
 *
 * In: a kernel as it was written at first. Out: the points at which a loop is to be split when the
 * kernel is written again; in each piece the tests along that axis are decided, so no operand is
 * asked for in vain. The points are the bounds that indices are tested against. Pieces of less than
 * a vector are no gain, and the outermost loop is the one that threads share. */
#include "codegen/lower/unit.h"

#define INSTS_MAX 2000 /* instructions of all pieces together: each repeats the whole body */

/* The point at which the test of axis + rest against a bound changes, 0: it is no such test. */
static int64_t point_of(const st_kernel *kernel, const st_loop_axis *axis, const st_loop_inst *test)
{
    st_symtab *tab = &kernel->syms->tab;
    const st_loop_inst *index = st_loop_at(kernel, test->args[0]);
    const st_loop_inst *bound = st_loop_at(kernel, test->args[1]);
    uint32_t coef = 0;
    uint32_t rest = 0;
    int64_t step = 0;
    int64_t offset = 0;
    if ((test->code != ST_LOOP_lt && test->code != ST_LOOP_ge) || index->code != ST_LOOP_INDEX ||
        bound->code != ST_LOOP_CONST ||
        !st_loop_linear(kernel->syms, index->sym, axis->symbol, &coef, &rest) ||
        !st_sym_const(tab, coef, &step) || !st_sym_const(tab, rest, &offset) || step != 1) {
        return 0;
    }
    return bound->imm.i - offset; /* both are small: they are sizes of what is in memory */
}

/* Puts the point among those before the end, in order; 0: there is no room. */
static bool add_point(cg_split_points *points, int64_t point)
{
    uint32_t k = points->n;
    for (uint32_t i = 0; i < points->n; i++) {
        if (points->at[i] == point) {
            return true;
        }
    }
    if (k == CG_SPLIT_POINTS_MAX) {
        return false;
    }
    for (; k > 0 && points->at[k - 1u] > point; k--) {
        points->at[k] = points->at[k - 1u];
    }
    points->at[k] = point;
    points->n++;
    return true;
}

/* Is each piece as long as a vector? */
static bool are_long(const cg_unit *unit, const cg_split_points *points, int64_t extent)
{
    const int64_t lanes = (int64_t)(unit->config->emitter->target.vector_bytes / sizeof(float));
    int64_t from = 0;
    for (uint32_t i = 0; i <= points->n; i++) {
        const int64_t to = i < points->n ? points->at[i] : extent;
        if (to - from < lanes) {
            return false;
        }
        from = to;
    }
    return true;
}

static bool split_points_of(const cg_unit *unit, const st_kernel *kernel, uint32_t loop,
                            cg_split_points *out)
{
    const st_loop_axis *axis = &kernel->axes.data[loop];
    const int64_t extent = st_loop_known_or(&unit->syms->tab, axis->extent, 0);
    *out = (cg_split_points){.loop = loop};
    for (st_loop_ref ref = 1; ref < kernel->insts.count && extent > 0; ref++) {
        const int64_t point = point_of(kernel, axis, st_loop_at(kernel, ref));
        if (point > 0 && point < extent && !add_point(out, point)) {
            return false;
        }
    }
    return out->n > 0 && kernel->insts.count * (out->n + 1u) <= INSTS_MAX &&
           are_long(unit, out, extent);
}

/* Where a loop of the group's kernel, written whole, is to be split. 0: nowhere. */
static bool find_split_points(const cg_unit *unit, const cg_fusion_group *group,
                              const st_kernel *kernel, cg_split_points *out)
{
    if (group->n_inner > 0 || group->is_alone) {
        return false;
    }
    for (uint32_t i = 0; i < group->roots.count; i++) {
        if (unit->roots.data[group->roots.data[i]].is_fold) {
            return false;
        }
    }
    /* The loops are nested, one an axis: the innermost one that there is something to split. */
    for (uint32_t loop = kernel->axes.count; loop-- > 1u;) {
        if (split_points_of(unit, kernel, loop, out)) {
            return true;
        }
    }
    return false;
}

stator_status cg_split_index_set(cg_unit *unit, uint32_t group, st_kernel *kernel,
                                 stator_diag **err)
{
    cg_split_points points = {.n = 0};
    st_kernel split;
    const char *refusal = NULL;
    if (!find_split_points(unit, &unit->groups.data[group], kernel, &points)) {
        return STATOR_OK;
    }
    const stator_status status = cg_write_kernel(unit, group, &points, &split, &refusal);
    if (status == STATOR_OK) {
        st_kernel_deinit(kernel);
        *kernel = split;
    }
    return status == STATOR_RESOURCE_EXHAUSTED && refusal == NULL ? st_fail_oom(err) : STATOR_OK;
}
