/* Guard tables; see guard.h. */
#include "core/runtime/guard.h"

#include "core/base/check.h"
#include "core/runtime/tensor.h"

#include <string.h>

static st_sym_cols view_columns(const stator_graph_view *v)
{
    return (st_sym_cols){.syms = v->syms, .terms = v->terms, .atoms = v->atoms};
}

static stator_status size_init(st_guard *guard, const stator_graph_view *v, stator_ref sym,
                               uint8_t *bound, st_guard_size *out, stator_diag **err)
{
    int64_t value = 0;
    if (stator_sym_is_const(v, sym, &value)) {
        *out = (st_guard_size){.kind = ST_SIZE_CONST, .lo = value};
        return STATOR_OK;
    }
    const stator_atom_row *atom = stator_sym_as_symbol(v, sym);
    if (atom != NULL && !bound[atom->index]) {
        bound[atom->index] = 1;
        *out = (st_guard_size){.kind = ST_SIZE_BIND,
                               .symbol = atom->index,
                               .lo = atom->lo,
                               .hi = atom->hi,
                               .divisor = atom->divisor > 0 ? atom->divisor : 1};
        return STATOR_OK;
    }
    *out = (st_guard_size){.kind = ST_SIZE_EXPR};
    guard->n_exprs++;
    const st_sym_cols cols = view_columns(v);
    return st_symprog_init(&out->prog, guard->mem, &cols, sym) ? STATOR_OK : st_fail_oom(err);
}

static uint32_t total_rank(const stator_graph_view *v, const stator_ref *values, uint32_t n)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += stator_value_type(v, values[i])->rank;
    }
    return sum;
}

stator_status st_guard_init(st_guard *guard, st_mem *mem, const stator_graph_view *v,
                            const stator_ref *values, uint32_t n_values, stator_diag **err)
{
    *guard = (st_guard){.mem = mem, .n_inputs = n_values, .n_symbols = v->n_symbols};
    const uint32_t n_sizes = total_rank(v, values, n_values);
    guard->inputs = st_calloc(mem, n_values + 1u, sizeof *guard->inputs);
    guard->sizes = st_calloc(mem, n_sizes + 1u, sizeof *guard->sizes);
    uint8_t *bound = st_calloc(mem, v->n_symbols + 1u, 1);
    stator_status status = STATOR_OK;
    if (guard->inputs == NULL || guard->sizes == NULL || bound == NULL) {
        status = st_fail_oom(err);
        goto done;
    }
    for (uint32_t i = 0; i < n_values; i++) {
        const stator_type_row *type = stator_value_type(v, values[i]);
        guard->inputs[i] =
            (st_guard_input){.dtype = st_dtype_to_dl(type->dtype),
                             .rank = type->rank,
                             .size_begin = guard->n_sizes,
                             .name = stator_string_at(v, stator_value_at(v, values[i])->name)};
        for (uint32_t axis = 0; axis < type->rank; axis++) {
            st_guard_size *size = &guard->sizes[guard->n_sizes++];
            ST_TRY_DONE(size_init(guard, v, stator_dim_at(v, type, axis), bound, size, err));
        }
    }
done:
    st_free(mem, bound);
    if (status != STATOR_OK) {
        st_guard_deinit(guard);
    }
    return status;
}

void st_guard_deinit(st_guard *guard)
{
    if (guard->mem == NULL) {
        return;
    }
    for (uint32_t i = 0; guard->sizes != NULL && i < guard->n_sizes; i++) {
        if (guard->sizes[i].kind == ST_SIZE_EXPR) {
            st_symprog_deinit(&guard->sizes[i].prog, guard->mem);
        }
        st_free(guard->mem, guard->sizes[i].text);
    }
    for (uint32_t i = 0; i < guard->n_shape_constraints; i++) {
        for (uint32_t k = 0; k < 3; k++) {
            st_symprog_deinit(&guard->shape_constraints[i].size[k], guard->mem);
        }
        st_free(guard->mem, guard->shape_constraints[i].text);
    }
    st_free(guard->mem, guard->shape_constraints);
    st_free(guard->mem, guard->inputs);
    st_free(guard->mem, guard->sizes);
    *guard = (st_guard){0};
}

static bool size_fits(const st_guard_size *size, int64_t actual, int64_t *syms)
{
    if (size->kind == ST_SIZE_CONST) {
        return actual == size->lo;
    }
    if (size->kind == ST_SIZE_BIND) {
        syms[size->symbol] = actual;
        return actual >= size->lo && actual <= size->hi && actual % size->divisor == 0;
    }
    return true; /* expressions wait until every symbol is bound */
}

static bool input_fits(const st_guard *guard, const st_guard_input *input, const DLTensor *t,
                       int64_t *syms)
{
    if (memcmp(&t->dtype, &input->dtype, sizeof t->dtype) != 0 ||
        (uint32_t)t->ndim != input->rank) {
        return false;
    }
    for (uint32_t axis = 0; axis < input->rank; axis++) {
        if (!size_fits(&guard->sizes[input->size_begin + axis], t->shape[axis], syms)) {
            return false;
        }
    }
    if (input->value_shape == NULL) {
        return true;
    }
    /* A symbolic size lets other shapes come this far; the contents are as long as the shape says.
     */
    return (input->rank == 0 ||
            memcmp(t->shape, input->value_shape, input->rank * sizeof *t->shape) == 0) &&
           (input->value_bytes == 0 ||
            memcmp((const char *)t->data + t->byte_offset, input->value, input->value_bytes) == 0);
}

static bool exprs_fit(const st_guard *guard, const DLTensor *in, const int64_t *syms)
{
    for (uint32_t i = 0; i < guard->n_inputs; i++) {
        const st_guard_input *input = &guard->inputs[i];
        for (uint32_t axis = 0; axis < input->rank; axis++) {
            const st_guard_size *size = &guard->sizes[input->size_begin + axis];
            int64_t expected = 0;
            if (size->kind == ST_SIZE_EXPR &&
                (!st_symprog_eval(&size->prog, syms, &expected) || expected != in[i].shape[axis])) {
                return false;
            }
        }
    }
    return true;
}

bool st_guard_check(const st_guard *guard, const DLTensor *in, int64_t *syms)
{
    for (uint32_t i = 0; i < guard->n_symbols; i++) {
        syms[i] = INT64_MIN;
    }
    for (uint32_t i = 0; i < guard->n_inputs; i++) {
        if (!input_fits(guard, &guard->inputs[i], &in[i], syms)) {
            return false;
        }
    }
    return guard->n_exprs == 0 || exprs_fit(guard, in, syms);
}

/* ---- explaining ---- */

static const char *text_of(const st_guard_size *size)
{
    return size->text != NULL ? size->text : "?";
}

static const st_guard_size *sizes_of(const st_guard *guard, const st_guard_input *input)
{
    return &guard->sizes[input->size_begin];
}

void st_guard_print_expected(const st_guard *guard, uint32_t i, st_str *out)
{
    const st_guard_input *input = &guard->inputs[i];
    st_str_addf(out, "%s[", st_dtype_name(st_dtype_from_dl(input->dtype)));
    for (uint32_t axis = 0; axis < input->rank; axis++) {
        const st_guard_size *size = &sizes_of(guard, input)[axis];
        st_str_add(out, axis == 0 ? "" : ", ");
        if (size->kind == ST_SIZE_CONST || size->kind == ST_SIZE_ANY) {
            st_str_addf(out, "%lld", (long long)size->lo);
        } else {
            st_str_add(out, text_of(size));
        }
    }
    st_str_add(out, "]");
}

/* "input 'x' is f32[2, 4], expected f32[N, 3]" */
static void print_mismatch(const st_guard *guard, const st_guard_input *input, const DLTensor *t,
                           st_str *out)
{
    st_str_addf(out, "input '%s' is %s[", input->name, st_dtype_name(st_dtype_from_dl(t->dtype)));
    for (int32_t axis = 0; axis < t->ndim; axis++) {
        st_str_addf(out, "%s%lld", axis == 0 ? "" : ", ", (long long)t->shape[axis]);
    }
    st_str_add(out, "], expected ");
    st_guard_print_expected(guard, (uint32_t)(input - guard->inputs), out);
}

void st_guard_print_input(const st_guard *guard, uint32_t input, const DLTensor *t, st_str *out)
{
    print_mismatch(guard, &guard->inputs[input], t, out);
}

void st_guard_print_range(const st_guard_size *size, st_str *out)
{
    if (size->hi == INT64_MAX) {
        st_str_addf(out, "%lld or more", (long long)size->lo);
    } else {
        st_str_addf(out, "in %lld..%lld", (long long)size->lo, (long long)size->hi);
    }
    if (size->divisor > 1) {
        st_str_addf(out, " and a multiple of %lld", (long long)size->divisor);
    }
}

/* The first axis whose size does not fit by itself; UINT32_MAX when all do. Binds symbols. */
static uint32_t bad_axis(const st_guard *guard, const st_guard_input *input, const DLTensor *t,
                         int64_t *syms)
{
    for (uint32_t axis = 0; axis < input->rank; axis++) {
        if (!size_fits(&sizes_of(guard, input)[axis], t->shape[axis], syms)) {
            return axis;
        }
    }
    return UINT32_MAX;
}

/* An input with a wrong dtype, rank or size; 1 when there is one. */
static bool explain_input(const st_guard *guard, uint32_t i, const DLTensor *t, int64_t *syms,
                          st_str *out)
{
    const st_guard_input *input = &guard->inputs[i];
    if (memcmp(&t->dtype, &input->dtype, sizeof t->dtype) != 0 ||
        (uint32_t)t->ndim != input->rank) {
        print_mismatch(guard, input, t, out);
        return true;
    }
    const uint32_t axis = bad_axis(guard, input, t, syms);
    if (axis == UINT32_MAX) {
        return false;
    }
    print_mismatch(guard, input, t, out);
    if (sizes_of(guard, input)[axis].kind == ST_SIZE_BIND) {
        st_str_addf(out, ": size %s must be ", text_of(&sizes_of(guard, input)[axis]));
        st_guard_print_range(&sizes_of(guard, input)[axis], out);
    }
    return true;
}

/* A size that another one decides; every symbol is bound. */
static bool explain_expr(const st_guard *guard, uint32_t i, const DLTensor *t, const int64_t *syms,
                         st_str *out)
{
    const st_guard_input *input = &guard->inputs[i];
    for (uint32_t axis = 0; axis < input->rank; axis++) {
        const st_guard_size *size = &sizes_of(guard, input)[axis];
        int64_t expected = 0;
        if (size->kind == ST_SIZE_EXPR &&
            (!st_symprog_eval(&size->prog, syms, &expected) || expected != t->shape[axis])) {
            print_mismatch(guard, input, t, out);
            st_str_addf(out, ": size %s is %lld, as other sizes of the inputs say", text_of(size),
                        (long long)expected);
            return true;
        }
    }
    return false;
}

void st_guard_explain(const st_guard *guard, const DLTensor *in, st_str *out)
{
    int64_t *syms = st_alloc(guard->mem, (guard->n_symbols + UINT64_C(1)) * sizeof *syms, 8);
    for (uint32_t i = 0; syms != NULL && i < guard->n_symbols; i++) {
        syms[i] = INT64_MIN;
    }
    bool is_found = false;
    for (uint32_t i = 0; syms != NULL && !is_found && i < guard->n_inputs; i++) {
        is_found = explain_input(guard, i, &in[i], syms, out);
    }
    for (uint32_t i = 0; syms != NULL && !is_found && i < guard->n_inputs; i++) {
        is_found = explain_expr(guard, i, &in[i], syms, out);
    }
    if (!is_found) {
        st_str_add(out, "the contents of an input differ from those that the model was compiled "
                        "for, or sizes of the inputs contradict each other");
    }
    st_free(guard->mem, syms);
}

/* ---- shape constraints ---- */

static stator_status check_shape_constraint(const st_guard_shape_constraint *constraint,
                                            const int64_t *syms, stator_diag **err)
{
    int64_t size[3] = {0, 0, 0};
    for (uint32_t k = 0; k < st_shape_constraint_sizes(constraint->kind); k++) {
        if (!st_symprog_eval(&constraint->size[k], syms, &size[k])) {
            return STATOR_OK;
        }
    }
    return st_shape_constraint_check(constraint->kind, size, constraint->step, constraint->text,
                                     err);
}

stator_status st_guard_check_shape_constraints(const st_guard *guard, const int64_t *syms,
                                               stator_diag **err)
{
    for (uint32_t i = 0; i < guard->n_shape_constraints; i++) {
        ST_TRY(check_shape_constraint(&guard->shape_constraints[i], syms, err));
    }
    return STATOR_OK;
}
