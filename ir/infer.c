/* Helpers of the infer rules (ir/ops/op_*.c): reading operands and attributes, size arithmetic,
 * checks with texts, setting results.
 *
 * In: a st_infer that the builder filled; `attrs` has a row for every attribute of the schema.
 * Out: type refs in in->types. Sizes are syms; the ref 0 stands for a size beyond a limit of the
 * symbolic engine and turns into an unbacked symbol in st_in_set. A check fails only for what is
 * proved wrong; what is unknown is stated as a shape constraint (shape_constraint_list.h),
 * tested at the call. */
#include "ir/infer.h"

#include "core/base/check.h"
#include "core/base/str.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- reading ---- */

bool st_in_has(const st_infer *in, uint32_t k)
{
    return k < in->n_operands && in->operands[k] != 0;
}

static const stator_type_row *type_of(const st_infer *in, uint32_t k)
{
    return stator_value_type(in->v, in->operands[k]);
}

stator_dtype st_in_dtype(const st_infer *in, uint32_t k)
{
    return st_in_has(in, k) ? type_of(in, k)->dtype : STATOR_DTYPE_NONE;
}

uint32_t st_in_rank(const st_infer *in, uint32_t k)
{
    return st_in_has(in, k) ? type_of(in, k)->rank : 0;
}

stator_ref st_in_dim(const st_infer *in, uint32_t k, uint32_t axis)
{
    return stator_dim_at(in->v, type_of(in, k), axis);
}

const stator_ref *st_in_dims(const st_infer *in, uint32_t k, stator_ref out[STATOR_RANK_MAX])
{
    const uint32_t rank = st_in_rank(in, k);
    for (uint32_t i = 0; i < rank; i++) {
        out[i] = st_in_dim(in, k, i);
    }
    return out;
}

bool st_in_has_attr(const st_infer *in, uint32_t a)
{
    return in->attrs[a]->kind != STATOR_ATTR_NONE;
}

uint32_t st_in_place(const st_infer *in, const char *name)
{
    const stator_op_desc *desc = &in->op->desc;
    uint32_t a = 0;
    while (a + 1u < desc->attr_count && strcmp(desc->attrs[a].name, name) != 0) {
        a++;
    }
    return a;
}

bool st_in_is(const st_infer *in, uint32_t opcode)
{
    return in->op == st_optable_at(in->m->ops, opcode);
}

int64_t st_in_int(const st_infer *in, uint32_t a)
{
    return in->attrs[a]->i;
}

const char *st_in_string(const st_infer *in, uint32_t a)
{
    const stator_attr_row *row = in->attrs[a];
    return row->kind == STATOR_ATTR_STRING ? stator_string_at(in->v, row->begin) : "";
}

bool st_in_string_is(const st_infer *in, uint32_t a, const char *word)
{
    return strcmp(st_in_string(in, a), word) == 0;
}

uint32_t st_in_list(const st_infer *in, uint32_t a, int64_t *out, uint32_t capacity)
{
    const stator_attr_row *row = in->attrs[a];
    if (row->kind != STATOR_ATTR_INTS) {
        return 0;
    }
    for (uint32_t i = 0; i < row->count && i < capacity; i++) {
        out[i] = stator_attr_int_at(in->v, row, i);
    }
    return row->count;
}

uint32_t st_in_syms(const st_infer *in, uint32_t a, stator_ref *out, uint32_t capacity)
{
    const stator_attr_row *row = in->attrs[a];
    if (row->kind != STATOR_ATTR_DIMS) {
        return 0;
    }
    for (uint32_t i = 0; i < row->count && i < capacity; i++) {
        out[i] = stator_ref_at(in->v, row->begin + i);
    }
    return row->count;
}

const char *st_in_operand_name(const st_infer *in, uint32_t k, char buf[32])
{
    const char *p = in->op->desc.operands;
    for (uint32_t i = 0; i < k && strchr(p, ',') != NULL; i++) {
        p = strchr(p, ',') + 1;
    }
    p += strspn(p, " ");
    const int n = (int)strcspn(p, " ,?*");
    if (p[n] == '*') {
        snprintf(buf, 32, "%.*s[%u]", n > 16 ? 16 : n, p, k);
    } else {
        snprintf(buf, 32, "%.*s", n > 24 ? 24 : n, p);
    }
    return buf;
}

static const char *symbol_name(void *self, uint32_t name)
{
    return st_module_str(self, name);
}

const char *st_in_sym_text(const st_infer *in, stator_ref sym, char buf[96])
{
    st_str text;
    st_str_init(&text, in->m->mem);
    if (sym != 0) {
        st_sym_print(&in->m->symtab, sym, symbol_name, in->m, &text);
    }
    snprintf(buf, 96, "%s", st_str_ok(&text) && text.data ? text.data : "?");
    st_str_deinit(&text);
    return buf;
}

/* ---- failing ---- */

stator_status st_in_fail(const st_infer *in, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return st_fail(in->err, STATOR_INVALID_ARGUMENT, "%s: %s", in->op->desc.name, text);
}

stator_status st_in_axis(const st_infer *in, int64_t axis, uint32_t rank, uint32_t *out)
{
    *out = 0;
    ST_IN_FAIL_IF(axis < -(int64_t)rank || axis >= (int64_t)rank, in,
                  "axis %lld is outside [%d, %d) of a tensor of rank %u", (long long)axis,
                  -(int)rank, (int)rank, rank);
    *out = (uint32_t)st_normalize_axis(axis, rank);
    return STATOR_OK;
}

stator_status st_in_rank_is(const st_infer *in, uint32_t k, uint32_t lo, uint32_t hi)
{
    char name[32];
    const uint32_t rank = st_in_rank(in, k);
    if (rank >= lo && rank <= hi) {
        return STATOR_OK;
    }
    st_in_operand_name(in, k, name);
    ST_IN_FAIL_IF(lo == hi, in, "%s has rank %u, expected %u", name, rank, lo);
    return hi >= STATOR_RANK_MAX
               ? st_in_fail(in, "%s has rank %u, expected at least %u", name, rank, lo)
               : st_in_fail(in, "%s has rank %u, expected %u to %u", name, rank, lo, hi);
}

stator_status st_in_same_dtype(const st_infer *in, uint32_t a, uint32_t b)
{
    char a_name[32], b_name[32];
    if (!st_in_has(in, a) || !st_in_has(in, b) || st_in_dtype(in, a) == st_in_dtype(in, b)) {
        return STATOR_OK;
    }
    return st_in_fail(in, "%s is %s and %s is %s, expected equal dtypes (cast one of them)",
                      st_in_operand_name(in, a, a_name), st_dtype_name(st_in_dtype(in, a)),
                      st_in_operand_name(in, b, b_name), st_dtype_name(st_in_dtype(in, b)));
}

stator_status st_in_dtype_is(const st_infer *in, uint32_t k, stator_dtype dtype)
{
    char name[32];
    if (!st_in_has(in, k) || st_in_dtype(in, k) == dtype) {
        return STATOR_OK;
    }
    return st_in_fail(in, "%s is %s, expected %s", st_in_operand_name(in, k, name),
                      st_dtype_name(st_in_dtype(in, k)), st_dtype_name(dtype));
}

stator_status st_in_class_is(const st_infer *in, uint32_t k, uint32_t classes, const char *what)
{
    char name[32];
    if (!st_in_has(in, k) || (classes >> st_dtype_class(st_in_dtype(in, k)) & 1u) != 0) {
        return STATOR_OK;
    }
    return st_in_fail(in, "%s is %s, expected %s", st_in_operand_name(in, k, name),
                      st_dtype_name(st_in_dtype(in, k)), what);
}

stator_status st_in_index_dtype(const st_infer *in, uint32_t k)
{
    const stator_dtype dtype = st_in_dtype(in, k);
    char name[32];
    if (dtype == STATOR_I64 || dtype == STATOR_I32) {
        return STATOR_OK;
    }
    return st_in_fail(in, "%s is %s, expected i32 or i64", st_in_operand_name(in, k, name),
                      st_dtype_name(dtype));
}

stator_status st_in_scalar(const st_infer *in, uint32_t k, bool one_ok)
{
    char name[32];
    const uint32_t rank = st_in_rank(in, k);
    if (!st_in_has(in, k) || rank == 0) {
        return STATOR_OK;
    }
    if (one_ok && rank == 1) {
        return st_in_same_dim(in, st_in_dim(in, k, 0), st_in_size(in, 1),
                              st_in_operand_name(in, k, name));
    }
    return st_in_fail(in, "%s has rank %u, expected a scalar", st_in_operand_name(in, k, name),
                      rank);
}

stator_status st_in_one_of(const st_infer *in, uint32_t a, const char *words)
{
    const char *word = st_in_string(in, a);
    if (st_list_has(words, word)) {
        return STATOR_OK;
    }
    return st_in_fail(in, "%s is '%s', expected one of %s", in->op->desc.attrs[a].name, word,
                      words);
}

stator_status st_in_list_count(const st_infer *in, uint32_t a, uint32_t n)
{
    const uint32_t count = in->attrs[a]->count;
    if (count == n) {
        return STATOR_OK;
    }
    return st_in_fail(in, "%s has %u entries, expected %u", in->op->desc.attrs[a].name, count, n);
}

stator_status st_in_axes(const st_infer *in, uint32_t a, uint32_t rank, uint32_t *out_set)
{
    int64_t axes[STATOR_RANK_MAX];
    const uint32_t n = st_in_list(in, a, axes, STATOR_RANK_MAX);
    uint32_t set = 0;
    *out_set = 0;
    ST_IN_FAIL_IF(n > rank, in, "%s has %u entries, x has rank %u", in->op->desc.attrs[a].name, n,
                  rank);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t axis = 0;
        ST_TRY(st_in_axis(in, axes[i], rank, &axis));
        ST_IN_FAIL_IF(set >> axis & 1u, in, "%s names axis %u twice", in->op->desc.attrs[a].name,
                      axis);
        set |= 1u << axis;
    }
    *out_set = set;
    return STATOR_OK;
}

/* ---- sizes ---- */

stator_ref st_in_size(const st_infer *in, int64_t value)
{
    return st_sym_int(&in->m->symtab, value);
}

stator_ref st_in_op(const st_infer *in, uint32_t op, stator_ref a, stator_ref b)
{
    return a != 0 && b != 0 ? st_sym_op(&in->m->symtab, op, a, b) : 0;
}

stator_ref st_in_op_int(const st_infer *in, uint32_t op, stator_ref a, int64_t b)
{
    return st_in_op(in, op, a, st_in_size(in, b));
}

stator_ref st_in_product(const st_infer *in, const stator_ref *dims, uint32_t n)
{
    stator_ref product = st_in_size(in, 1);
    for (uint32_t i = 0; i < n; i++) {
        product = st_in_op(in, STATOR_SYM_MUL, product, dims[i]);
    }
    return product;
}

bool st_in_const(const st_infer *in, stator_ref sym, int64_t *out)
{
    return sym != 0 && st_sym_const(&in->m->symtab, sym, out);
}

void st_in_range(const st_infer *in, stator_ref sym, int64_t *out_lo, int64_t *out_hi)
{
    *out_lo = 0;
    *out_hi = INT64_MAX;
    if (sym != 0) {
        st_sym_range(&in->m->symtab, sym, out_lo, out_hi);
    }
}

/* The declared size of result k's axis, or 0. */
static stator_ref given_dim(const st_infer *in, uint32_t k, uint32_t axis)
{
    if (in->given_types == NULL || k >= in->n_results || in->given_types[k] == 0) {
        return 0;
    }
    const stator_type_row *type = stator_type_at(in->v, in->given_types[k]);
    return axis < type->rank ? stator_dim_at(in->v, type, axis) : 0;
}

stator_ref st_in_unbacked(const st_infer *in, uint32_t k, uint32_t axis, int64_t hi)
{
    const stator_ref given = given_dim(in, k, axis);
    return given ? given : st_sym_symbol(&in->m->symtab, 0, 0, hi, 1, 1u);
}

int64_t st_in_numel_bound(const st_infer *in, uint32_t k)
{
    int64_t bound = 1;
    for (uint32_t i = 0; i < st_in_rank(in, k); i++) {
        int64_t lo, hi;
        st_in_range(in, st_in_dim(in, k, i), &lo, &hi);
        if (hi == INT64_MAX || !st_mul_i64(bound, hi, &bound)) {
            return INT64_MAX;
        }
    }
    return bound < 0 ? INT64_MAX : bound;
}

void st_in_shape_constraint(const st_infer *in, uint32_t kind, stator_ref a, stator_ref b,
                            const char *what)
{
    const st_shape_constraint constraint = {.kind = kind, .size = {a, b, 0}};
    if (in->shape_constraints != NULL) {
        st_shape_constraints_add(in->shape_constraints, &in->m->symtab, &constraint,
                                 in->op->desc.name, what);
    }
}

stator_status st_in_same_dim(const st_infer *in, stator_ref a, stator_ref b, const char *what)
{
    char a_text[96], b_text[96];
    const int answer = a == 0 || b == 0 ? -1 : st_sym_eq(&in->m->symtab, a, b);
    if (answer != 0) {
        if (answer < 0) {
            st_in_shape_constraint(in, ST_SHAPE_CONSTRAINT_EQUAL, a, b, what);
        }
        return STATOR_OK;
    }
    return st_in_fail(in, "%s: sizes %s and %s differ", what, st_in_sym_text(in, a, a_text),
                      st_in_sym_text(in, b, b_text));
}

stator_status st_in_fits(const st_infer *in, stator_ref a, stator_ref b, const char *name,
                         uint32_t axis)
{
    char a_text[96], b_text[96], what[96];
    if (a == 0 || b == 0) {
        return STATOR_OK;
    }
    const int is_one = st_sym_eq(&in->m->symtab, a, st_in_size(in, 1));
    const int is_same = st_sym_eq(&in->m->symtab, a, b);
    ST_IN_FAIL_IF(is_one == 0 && is_same == 0, in,
                  "axis %u of %s has size %s, which does not broadcast to %s", axis, name,
                  st_in_sym_text(in, a, a_text), st_in_sym_text(in, b, b_text));
    if (is_one != 1 && is_same != 1) {
        (void)snprintf(what, sizeof what, "axis %u of %s", axis, name);
        st_in_shape_constraint(in, ST_SHAPE_CONSTRAINT_FITS, a, b, what);
    }
    return STATOR_OK;
}

stator_status st_in_at_most(const st_infer *in, stator_ref a, stator_ref b, const char *what)
{
    char a_text[96], b_text[96];
    const int answer = a == 0 || b == 0 ? -1 : st_sym_le(&in->m->symtab, a, b);
    ST_IN_FAIL_IF(answer == 0, in, "%s: %s is more than %s", what, st_in_sym_text(in, a, a_text),
                  st_in_sym_text(in, b, b_text));
    if (answer < 0) {
        st_in_shape_constraint(in, ST_SHAPE_CONSTRAINT_AT_MOST, a, b, what);
    }
    return STATOR_OK;
}

stator_status st_in_filled(const st_infer *in, stator_ref least, stator_ref size, const char *what)
{
    const int answer = least == 0 || size == 0 ? -1 : st_sym_le(&in->m->symtab, least, size);
    ST_IN_FAIL_IF(answer == 0, in, "%s", what);
    if (answer < 0) {
        st_in_shape_constraint(in, ST_SHAPE_CONSTRAINT_FILLED, least, size, what);
    }
    return STATOR_OK;
}

stator_status st_in_multiple(const st_infer *in, stator_ref a, stator_ref b, const char *what)
{
    char a_text[96], b_text[96];
    int64_t divisor = 0;
    int64_t left = 0;
    const bool is_number = st_in_const(in, b, &divisor);
    const bool is_known =
        is_number && divisor >= 1 && st_in_const(in, st_in_op(in, STATOR_SYM_MOD, a, b), &left);
    ST_IN_FAIL_IF(is_number ? divisor < 1 || (is_known && left != 0) : 0, in,
                  "%s: %s is no multiple of %s", what, st_in_sym_text(in, a, a_text),
                  st_in_sym_text(in, b, b_text));
    if (!is_known) {
        st_in_shape_constraint(in, ST_SHAPE_CONSTRAINT_MULTIPLE, a, b, what);
    }
    return STATOR_OK;
}

/* Two sizes that broadcast to one another. */
static stator_status broadcasts(const st_infer *in, stator_ref x, stator_ref y, uint32_t axis,
                                uint32_t rank)
{
    char x_text[96], y_text[96], what[64];
    int64_t lo, hi, y_lo, y_hi;
    if (x == 0 || y == 0) {
        return STATOR_OK;
    }
    st_in_range(in, x, &lo, &hi);
    st_in_range(in, y, &y_lo, &y_hi);
    const bool never_one = (lo > 1 || hi < 1) && (y_lo > 1 || y_hi < 1);
    const bool is_one = (lo == 1 && hi == 1) || (y_lo == 1 && y_hi == 1);
    const int is_same = is_one ? 1 : st_sym_eq(&in->m->symtab, x, y);
    ST_IN_FAIL_IF(never_one && is_same == 0, in,
                  "sizes %s and %s of axis %u (of %u) do not broadcast",
                  st_in_sym_text(in, x, x_text), st_in_sym_text(in, y, y_text), axis, rank);
    if (is_same != 1) {
        (void)snprintf(what, sizeof what, "axis %u of %u", axis, rank);
        st_in_shape_constraint(in, ST_SHAPE_CONSTRAINT_BROADCAST, x, y, what);
    }
    return STATOR_OK;
}

/* Is `small` at most `large`, and 0 only with it? Where the two broadcast, `large` is the result
 * then, a 1 among them or not: min(S, 512) beside S, a table of positions cut to the length S. */
static bool gives_way(const st_infer *in, stator_ref small, stator_ref large)
{
    const stator_ref one = st_in_op_int(in, STATOR_SYM_MIN, large, 1);
    return one != 0 && one == st_in_op_int(in, STATOR_SYM_MIN, small, 1) &&
           st_sym_le(&in->m->symtab, small, large) == 1;
}

/* Is `floored` max(size, 1)? Where the two broadcast, `size` is the result: 1 beside its 0 gives 0.
 * Exporters write such a size as (S - 1) / 2 + 1, rounded toward zero. */
static bool is_floored_at_one(const st_infer *in, stator_ref floored, stator_ref size)
{
    return st_in_op_int(in, STATOR_SYM_MAX, size, 1) == floored;
}

/* Known cases first; else the formula max(a, b), which is the result when neither is 0; a 0 against
 * a 1 gives 0, so the factor min(a, b, 1) is added where 0 may occur. */
stator_ref st_in_broadcast_dim(const st_infer *in, stator_ref a, stator_ref b)
{
    int64_t a_lo, a_hi, b_lo, b_hi, value;
    if (a == b || a == 0 || (st_in_const(in, b, &value) && value == 1)) {
        return a;
    }
    if (b == 0 || (st_in_const(in, a, &value) && value == 1)) {
        return b;
    }
    if (st_sym_eq(&in->m->symtab, a, b) == 1) {
        return a;
    }
    st_in_range(in, a, &a_lo, &a_hi);
    st_in_range(in, b, &b_lo, &b_hi);
    if (a_lo >= 2 || a_hi == 0) {
        return a;
    }
    if (b_lo >= 2 || b_hi == 0) {
        return b;
    }
    if (gives_way(in, b, a) || is_floored_at_one(in, b, a)) {
        return a;
    }
    if (gives_way(in, a, b) || is_floored_at_one(in, a, b)) {
        return b;
    }
    const stator_ref larger = st_in_op(in, STATOR_SYM_MAX, a, b);
    if (a_lo >= 1 && b_lo >= 1) {
        return larger;
    }
    const stator_ref smaller =
        st_in_op_int(in, STATOR_SYM_MIN, st_in_op(in, STATOR_SYM_MIN, a, b), 1);
    return st_in_op(in, STATOR_SYM_MUL, larger, smaller);
}

stator_status st_in_broadcast(const st_infer *in, const stator_ref *a, uint32_t a_rank,
                              const stator_ref *b, uint32_t b_rank, stator_ref *out,
                              uint32_t *out_rank)
{
    const uint32_t rank = a_rank > b_rank ? a_rank : b_rank;
    const stator_ref one = st_in_size(in, 1);
    stator_ref dims[STATOR_RANK_MAX];
    for (uint32_t i = 0; i < rank; i++) {
        const stator_ref x = i + a_rank >= rank ? a[i + a_rank - rank] : one;
        const stator_ref y = i + b_rank >= rank ? b[i + b_rank - rank] : one;
        ST_TRY(broadcasts(in, x, y, i, rank));
        dims[i] = st_in_broadcast_dim(in, x, y);
    }
    memcpy(out, dims, rank * sizeof *out);
    *out_rank = rank;
    return STATOR_OK;
}

stator_status st_in_window_count(const st_infer *in, const st_sym_window *w, uint32_t axis,
                                 stator_ref *out)
{
    int64_t known = 0;
    *out = 0;
    ST_IN_FAIL_IF(w->stride < 1 || w->dilation < 1, in,
                  "stride %lld and dilation %lld of axis %u must be at least 1",
                  (long long)w->stride, (long long)w->dilation, axis);
    *out = st_sym_window_count(&in->m->symtab, w);
    if (*out == 0 && st_in_const(in, w->size, &known) && st_in_const(in, w->low, &known) &&
        st_in_const(in, w->high, &known) && st_in_const(in, w->taps, &known)) {
        return st_in_fail(in, "axis %u: window and padding pass 64 bits", axis);
    }
    return STATOR_OK;
}

stator_status st_in_window_size(const st_infer *in, const st_sym_window *w, uint32_t axis,
                                stator_ref *out)
{
    char size_text[96], window_text[96];
    ST_TRY(st_in_window_count(in, w, axis, out));
    const stator_ref padded =
        st_in_op(in, STATOR_SYM_ADD, st_in_op(in, STATOR_SYM_ADD, w->size, w->low), w->high);
    const stator_ref reach = st_sym_window_reach(&in->m->symtab, w);
    ST_IN_FAIL_IF(padded != 0 && reach != 0 && st_sym_le(&in->m->symtab, reach, padded) == 0, in,
                  "axis %u: the window reaches over %s elements, the padded size is %s", axis,
                  st_in_sym_text(in, reach, window_text), st_in_sym_text(in, padded, size_text));
    return st_in_at_most(in, reach, padded, "what a window reaches over and the padded size");
}

/* ---- results ---- */

stator_status st_in_set(st_infer *in, uint32_t k, stator_dtype dtype, uint32_t rank,
                        const stator_ref *dims)
{
    stator_ref sizes[STATOR_RANK_MAX];
    ST_IN_FAIL_IF(rank > STATOR_RANK_MAX, in,
                  "the result would have rank %u, at most %d are possible", rank, STATOR_RANK_MAX);
    for (uint32_t i = 0; i < rank; i++) {
        int64_t lo, hi;
        char text[96];
        sizes[i] = dims[i] ? dims[i] : st_in_unbacked(in, k, i, INT64_MAX);
        ST_TRY_MEM(sizes[i], in->err);
        st_in_range(in, sizes[i], &lo, &hi);
        ST_IN_FAIL_IF(hi < 0, in, "axis %u of the result would have size %s", i,
                      st_in_sym_text(in, sizes[i], text));
    }
    in->types[k] = st_module_type(in->m, dtype, rank, sizes);
    return in->types[k] ? STATOR_OK : st_fail_oom(in->err);
}

stator_status st_in_like(st_infer *in, uint32_t k, uint32_t j, stator_dtype dtype)
{
    stator_ref dims[STATOR_RANK_MAX];
    return st_in_set(in, k, dtype ? dtype : st_in_dtype(in, j), st_in_rank(in, j),
                     st_in_dims(in, j, dims));
}

/* ---- rows as attributes ---- */

stator_status st_attr_from_row(const stator_graph_view *v, const st_module *m, st_arena *arena,
                               const char *name, const stator_attr_row *row, stator_attr *out,
                               stator_diag **err)
{
    *out = (stator_attr){.name = name, .kind = row->kind, .i = row->i, .f = row->f};
    if (row->kind == STATOR_ATTR_STRING) {
        out->s = stator_string_at(v, row->begin);
        return STATOR_OK;
    }
    if (row->kind == STATOR_ATTR_BLOB) {
        out->blob = st_module_blob_at(m, row->begin);
        return STATOR_OK;
    }
    if (!st_attr_is_list(row->kind)) {
        return STATOR_OK;
    }
    const uint32_t size = row->kind == STATOR_ATTR_DIMS ? 4u : 8u;
    const stator_column *column = row->kind == STATOR_ATTR_INTS     ? &v->i64s
                                  : row->kind == STATOR_ATTR_FLOATS ? &v->f64s
                                                                    : &v->refs;
    char *list = st_arena_alloc(arena, (uint64_t)row->count * size + 1u, 16);
    ST_TRY_MEM(list, err);
    for (uint32_t i = 0; i < row->count; i++) {
        memcpy(list + (size_t)i * size, stator_column_at(column, row->begin + i), size);
    }
    out->count = row->count;
    out->list = list;
    return STATOR_OK;
}
