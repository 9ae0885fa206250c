/* What a call does about sizes: it binds those that data states, and tests the shape constraints
 * that the compile could not prove (plan_shape_constraints.c), stage by stage. */
#include "codegen/run/exe.h"

#include "core/base/check.h"

#define UNSET INT64_MIN /* in a call's syms: not bound yet */

/* ---- sizes from data ---- */

stator_status cg_run_bind(const cg_size_bind *bind, const int64_t *elements, int64_t *syms,
                          stator_diag **err)
{
    for (uint32_t i = 0; i < bind->n; i++) {
        const cg_bound *b = &bind->sizes[i];
        const int64_t value = elements[i];
        int64_t known = 0;
        if (b->index == UINT32_MAX || syms[b->index] != UNSET) {
            ST_FAIL_IF(st_symprog_eval(&b->sym, syms, &known) && known != value, err,
                       STATOR_INVALID_ARGUMENT, "sym_bind %s: size %u is %lld, but it must be %lld",
                       bind->name, i, (long long)value, (long long)known);
            continue;
        }
        ST_FAIL_IF(value < b->lo || value > b->hi || value % b->divisor != 0, err,
                   STATOR_OUT_OF_RANGE,
                   "sym_bind %s: a size is %lld, but it must lie in [%lld, %lld] and be a "
                   "multiple of %lld",
                   bind->name, (long long)value, (long long)b->lo, (long long)b->hi,
                   (long long)b->divisor);
        syms[b->index] = value;
    }
    return STATOR_OK;
}

uint32_t cg_unbound(const st_cg_exe *exe, const int64_t *syms, uint32_t out[CG_STEP_SIZES_MAX])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < exe->binds.count; i++) {
        const cg_size_bind *bind = &exe->binds.data[i];
        for (uint32_t k = 0; k < bind->n; k++) {
            const uint32_t index = bind->sizes[k].index;
            if (index != UINT32_MAX && syms[index] == UNSET && n < CG_STEP_SIZES_MAX) {
                out[n++] = index;
            }
        }
    }
    return n;
}

void cg_unbind(int64_t *syms, const uint32_t *indices, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        syms[indices[i]] = UNSET;
    }
}

/* ---- shape constraints ---- */

/* Negative sizes count nothing; a size of 0 makes any others good. */
static bool is_counted(const int64_t *size, uint32_t n, int64_t bytes)
{
    bool is_empty = bytes == 0;
    for (uint32_t i = 0; i < n; i++) {
        if (size[i] < 0) {
            return false;
        }
        is_empty |= size[i] == 0;
    }
    for (uint32_t i = 0; i < n && !is_empty; i++) {
        if (!st_mul_i64(bytes, size[i], &bytes) || bytes > CG_BYTES_MAX) {
            return false;
        }
    }
    return true;
}

static stator_status check_one(const cg_shape_constraint *a, const int64_t *syms, stator_diag **err)
{
    int64_t n[CG_RANK_MAX] = {0};
    for (uint32_t i = 0; i < a->n_sizes; i++) {
        ST_FAIL_IF(!st_symprog_eval(&a->size[i], syms, &n[i]), err, STATOR_OUT_OF_RANGE,
                   "%s: a size cannot be computed", a->text);
    }
    if (a->kind != CG_SHAPE_CONSTRAINT_NUMEL) {
        return st_shape_constraint_check(a->kind, n, a->step, a->text, err);
    }
    return is_counted(n, a->n_sizes, a->step)
               ? STATOR_OK
               : st_fail(err, STATOR_OUT_OF_RANGE, "%s is negative or larger than memory", a->text);
}

stator_status cg_check_shape_constraints(const st_cg_exe *exe, uint32_t stage, const int64_t *syms,
                                         stator_diag **err)
{
    for (uint32_t i = 0; i < exe->shape_constraints.count; i++) {
        if (exe->shape_constraints.data[i].stage == stage) {
            ST_TRY(check_one(&exe->shape_constraints.data[i], syms, err));
        }
    }
    return STATOR_OK;
}
