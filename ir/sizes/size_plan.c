/* Plans of sizes; see size_plan.h. */
#include "ir/sizes/size_plan.h"

#include <inttypes.h>
#include <string.h>

void st_size_plan_init(st_size_plan *plan, st_mem *mem)
{
    *plan = (st_size_plan){.mem = mem};
}

void st_size_plan_deinit(st_size_plan *plan)
{
    for (uint32_t i = 0; i < plan->ranges.count; i++) {
        st_free(plan->mem, plan->ranges.data[i].name);
    }
    if (plan->mem != NULL) {
        st_vec_free(plan->mem, &plan->ranges);
        st_vec_free(plan->mem, &plan->axes);
    }
}

bool st_size_plan_copy(st_size_plan *to, st_mem *mem, const st_size_plan *from)
{
    st_size_plan_init(to, mem);
    bool ok = true;
    for (uint32_t i = 0; ok && i < from->ranges.count; i++) {
        const st_plan_range *r = &from->ranges.data[i];
        ok = st_size_plan_range(to, r->name, r->lo, r->hi);
        if (ok) {
            to->ranges.data[i].baked_in = r->baked_in;
        }
    }
    for (uint32_t i = 0; ok && i < from->axes.count; i++) {
        st_plan_axis *slot = st_vec_push(mem, &to->axes);
        ok = slot != NULL;
        if (ok) {
            *slot = from->axes.data[i];
        }
    }
    if (!ok) {
        st_size_plan_deinit(to);
        st_size_plan_init(to, mem);
    }
    return ok;
}

st_plan_range *st_size_plan_find(const st_size_plan *plan, const char *name)
{
    for (uint32_t i = 0; i < plan->ranges.count; i++) {
        if (strcmp(plan->ranges.data[i].name, name) == 0) {
            return &plan->ranges.data[i];
        }
    }
    return NULL;
}

bool st_size_plan_range(st_size_plan *plan, const char *name, int64_t lo, int64_t hi)
{
    st_plan_range *known = st_size_plan_find(plan, name);
    if (known != NULL) {
        known->lo = lo > known->lo ? lo : known->lo;
        known->hi = hi < known->hi ? hi : known->hi;
        return true;
    }
    char *copy = st_strdup(plan->mem, name);
    st_plan_range *slot = copy != NULL ? st_vec_push(plan->mem, &plan->ranges) : NULL;
    if (slot == NULL) {
        st_free(plan->mem, copy);
        return false;
    }
    *slot = (st_plan_range){.name = copy, .lo = lo, .hi = hi};
    return true;
}

bool st_size_plan_axis(st_size_plan *plan, uint32_t input, uint32_t axis,
                       const st_plan_range *range)
{
    const bool is_new = st_size_plan_find(plan, range->name) == NULL;
    if (!st_size_plan_range(plan, range->name, range->lo, range->hi)) {
        return false;
    }
    st_plan_range *own = st_size_plan_find(plan, range->name);
    own->baked_in = is_new || own->baked_in == range->baked_in ? range->baked_in : 0;
    st_plan_axis *slot = st_vec_push(plan->mem, &plan->axes);
    if (slot == NULL) {
        return false;
    }
    *slot = (st_plan_axis){
        .input = input,
        .axis = axis,
        .range = (uint32_t)(own - plan->ranges.data),
    };
    return true;
}

bool st_size_plan_equal(const st_size_plan *a, const st_size_plan *b)
{
    if (a->ranges.count != b->ranges.count || a->axes.count != b->axes.count) {
        return false;
    }
    for (uint32_t i = 0; i < a->ranges.count; i++) {
        const st_plan_range *x = &a->ranges.data[i], *y = &b->ranges.data[i];
        if (x->lo != y->lo || x->hi != y->hi || strcmp(x->name, y->name) != 0) {
            return false;
        }
    }
    return a->axes.count == 0 ||
           memcmp(a->axes.data, b->axes.data, a->axes.count * sizeof *a->axes.data) == 0;
}

void st_size_plan_print(const st_size_plan *plan, st_str *out)
{
    for (uint32_t i = 0; i < plan->ranges.count; i++) {
        const st_plan_range *r = &plan->ranges.data[i];
        st_str_addf(out, "%s%s", i == 0 ? "" : ", ", r->name);
        if (r->lo == r->hi) {
            st_str_addf(out, " = %" PRId64, r->lo);
        } else if (r->hi >= ST_PLAN_SIZE_MAX) {
            st_str_addf(out, " in [%" PRId64 ", inf]", r->lo);
        } else {
            st_str_addf(out, " in [%" PRId64 ", %" PRId64 "]", r->lo, r->hi);
        }
    }
}

static stator_ref symbol_of(st_module *m, const st_plan_range *r)
{
    const uint32_t name = st_module_string(m, r->name, strlen(r->name));
    if (r->lo == r->hi) {
        return st_sym_int(&m->symtab, r->lo);
    }
    const stator_ref sym = name != 0 ? st_sym_symbol(&m->symtab, name, r->lo, r->hi, 1, 0) : 0;
    const uint32_t atom = sym != 0 ? st_sym_as_symbol(&m->symtab, sym) : 0;
    if (atom != 0 && r->baked_in > 1) { /* a 1 may stand for itself: nothing is read of it */
        ((stator_atom_row *)st_seg_at(&m->symtab.atoms, atom))->hint = r->baked_in;
    }
    return sym;
}

stator_ref st_size_plan_type(const st_size_plan *plan, st_module *m, uint32_t input,
                             stator_ref type)
{
    const stator_type_row row = *(const stator_type_row *)st_seg_at(&m->types, type);
    stator_ref dims[STATOR_RANK_MAX];
    bool is_same = true;
    for (uint32_t i = 0; i < row.rank; i++) {
        dims[i] = *(const stator_ref *)st_seg_at(&m->refs, row.dims_begin + i);
    }
    for (uint32_t i = 0; i < plan->axes.count; i++) {
        const st_plan_axis *axis = &plan->axes.data[i];
        if (axis->input != input) {
            continue;
        }
        const stator_ref sym =
            axis->axis < row.rank ? symbol_of(m, &plan->ranges.data[axis->range]) : 0;
        if (sym == 0) {
            return 0;
        }
        dims[axis->axis] = sym;
        is_same = false;
    }
    return is_same ? type : st_module_type(m, row.dtype, row.rank, dims);
}
