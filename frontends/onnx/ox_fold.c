/* A small evaluator over nodes already built: what shapes, axes, scales and conditions are computed
 * from is often constants and static sizes by way of casts, arithmetic, slices and joins, and the
 * import must know the result. At most OX_FOLD_MAX elements a tensor and STEPS nodes a question.
 * Values are long double (64-bit mantissa), rounded to the dtype after each op. */
#include "frontends/onnx/ox_fold.h"

#include "core/base/convert.h"

#include <math.h>
#include <string.h>

#define STEPS 4000u
#define DEPTH 200u
#define ARGS_MAX 64u

typedef struct folder {
    ox_import *im;
    uint32_t steps;
} folder;

typedef struct fold_node {
    const stator_graph_view *view;
    const stator_node_row *row;
    const stator_op_desc *desc;
    uint32_t n_args;
    ox_folded *args;
} fold_node;

/* Out of range and NaN give the smallest integer, as the conversion of the op does. */
int64_t ox_fold_int(long double x)
{
    return x >= -9223372036854775808.0L && x < 9223372036854775808.0L ? (int64_t)x : INT64_MIN;
}

static long double round_to_dtype(stator_dtype dtype, long double x)
{
    uint64_t room[2] = {0, 0};
    switch (st_dtype_class(dtype)) {
    case STATOR_CLASS_BOOL:
        return x != 0;
    case STATOR_CLASS_INT:
    case STATOR_CLASS_UINT:
        if (dtype == STATOR_U64) {
            return x >= 0 && x < 18446744073709551616.0L ? truncl(x) : 0;
        }
        st_store_i64(dtype, room, 0, ox_fold_int(x));
        return (long double)st_load_i64(dtype, room, 0);
    default:
        st_store_f64(dtype, room, 0, (double)x);
        return (long double)st_load_f64(dtype, room, 0);
    }
}

static bool make(folder *f, ox_folded *out, stator_dtype dtype, uint32_t rank, const int64_t *dims)
{
    uint64_t count;
    ST_NEED(st_numel(dims, rank, &count) && count <= OX_FOLD_MAX);
    out->dtype = dtype;
    out->rank = rank;
    out->count = (uint32_t)count;
    if (rank != 0) {
        memcpy(out->dims, dims, rank * sizeof *dims);
    }
    out->x = st_arena_zalloc(&f->im->scratch, count + 1u, sizeof *out->x);
    return out->x != NULL;
}

/* Shape of value v when static. */
static bool static_shape(const stator_graph_view *view, stator_ref v, stator_dtype *dtype,
                         uint32_t *rank, int64_t dims[STATOR_RANK_MAX])
{
    const stator_type_row *t = stator_value_type(view, v);
    *dtype = t->dtype;
    *rank = t->rank;
    for (uint32_t i = 0; i < t->rank; i++) {
        ST_NEED(stator_sym_is_const(view, stator_dim_at(view, t, i), &dims[i]));
    }
    return true;
}

static bool read_data(folder *f, const ox_data *data, ox_folded *out)
{
    if (st_dtype_class(data->dtype) == STATOR_CLASS_COMPLEX ||
        !make(f, out, data->dtype, data->rank, data->dims)) {
        return false;
    }
    const uint32_t class_ = st_dtype_class(data->dtype);
    for (uint32_t i = 0; i < out->count; i++) {
        const int64_t bits =
            class_ == STATOR_CLASS_FLOAT ? 0 : st_load_i64(data->dtype, data->bytes, i);
        out->x[i] = class_ == STATOR_CLASS_FLOAT
                        ? (long double)st_load_f64(data->dtype, data->bytes, i)
                    : data->dtype == STATOR_U64 ? (long double)(uint64_t)bits
                                                : (long double)bits;
    }
    return true;
}

static const stator_attr_row *attr_of(const fold_node *n, const char *name)
{
    for (uint32_t i = 0; i < n->desc->attr_count; i++) {
        if (strcmp(n->desc->attrs[i].name, name) == 0) {
            return stator_attr_at(n->view, n->row, i);
        }
    }
    return NULL;
}

/* A DIMS or INTS attribute as plain integers. */
static bool attr_list(const fold_node *n, const char *name, int64_t *out, uint32_t *out_count)
{
    const stator_attr_row *a = attr_of(n, name);
    if (a == NULL || a->count > OX_FOLD_MAX) {
        return false;
    }
    *out_count = a->count;
    for (uint32_t i = 0; i < a->count; i++) {
        if (a->kind == STATOR_ATTR_INTS) {
            out[i] = stator_attr_int_at(n->view, a, i);
        } else if (!stator_sym_is_const(n->view, stator_ref_at(n->view, a->begin + i), &out[i])) {
            return false;
        }
    }
    return true;
}

static int64_t attr_int(const fold_node *n, const char *name)
{
    const stator_attr_row *a = attr_of(n, name);
    return a != NULL ? a->i : 0;
}

/* ---- pointwise ---- */

typedef long double (*unary_fn)(long double);
static long double f_neg(long double x)
{
    return -x;
}
static long double f_sign(long double x)
{
    return x > 0 ? 1 : x < 0 ? -1 : x;
}
static long double f_recip(long double x)
{
    return 1 / x;
}
static long double f_not(long double x)
{
    return x == 0;
}
static long double f_same(long double x)
{
    return x;
}

static const struct {
    const char *name;
    unary_fn fn;
} UNARY[] = {
    {"neg", f_neg},       {"abs", fabsl},    {"ceil", ceill},         {"floor", floorl},
    {"round", rintl},     {"trunc", truncl}, {"sqrt", sqrtl},         {"exp", expl},
    {"log", logl},        {"sign", f_sign},  {"reciprocal", f_recip}, {"bit_not", f_not},
    {"sym_bind", f_same}, {"check", f_same}, {"cast", f_same},
};

static long double f_mod(long double x, long double y)
{
    return y == 0 ? 0 : x - y * floorl(x / y);
}

typedef struct named_value {
    const char *op;
    long double value;
} named_value;

static bool value_of(const char *op, const named_value *rows, size_t n, long double *out)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(rows[i].op, op) == 0) {
            *out = rows[i].value;
            return true;
        }
    }
    return false;
}

/* One binary op on rounded values; 0 when the name is unknown. */
static bool binary(const char *op, bool is_int, long double x, long double y, long double *out)
{
    const named_value rows[] = {
        {"add", x + y},         {"sub", x - y},
        {"mul", x * y},         {"div", is_int ? (y == 0 ? 0 : truncl(x / y)) : x / y},
        {"mod", f_mod(x, y)},   {"pow", powl(x, y)},
        {"min", x < y ? x : y}, {"max", x > y ? x : y},
        {"eq", x == y},         {"ne", x != y},
        {"lt", x < y},          {"le", x <= y},
        {"gt", x > y},          {"ge", x >= y}};
    return value_of(op, rows, sizeof rows / sizeof rows[0], out);
}

static bool logical(const char *op, long double x, long double y, long double *out)
{
    const named_value rows[] = {{"bit_and", x != 0 && y != 0},
                                {"bit_or", x != 0 || y != 0},
                                {"bit_xor", (x != 0) != (y != 0)}};
    return value_of(op, rows, sizeof rows / sizeof rows[0], out);
}

/* Position in `from` of element i of `to`, numpy broadcasting. */
static uint32_t broadcast_at(const ox_folded *to, const ox_folded *from, uint32_t i)
{
    uint32_t at = 0;
    uint32_t scale = 1;
    for (uint32_t k = 0; k < from->rank; k++) {
        const int64_t to_size = to->dims[to->rank - 1u - k];
        const int64_t size = from->dims[from->rank - 1u - k];
        const uint32_t index = to_size > 0 ? i % (uint32_t)to_size : 0;
        i = to_size > 0 ? i / (uint32_t)to_size : 0;
        at += (size == 1 ? 0 : index) * scale;
        scale *= (uint32_t)size;
    }
    return at;
}

static bool fold_pointwise(const fold_node *n, ox_folded *out)
{
    const char *op = n->desc->name;
    for (uint32_t k = 0; k < n->n_args; k++) {
        if (n->args[k].rank > out->rank) {
            return false;
        }
    }
    for (uint32_t i = 0; i < out->count; i++) {
        long double a[3] = {0, 0, 0};
        for (uint32_t k = 0; k < n->n_args && k < 3; k++) {
            a[k] = n->args[k].x[broadcast_at(out, &n->args[k], i)];
        }
        long double y = 0;
        const bool is_int = st_dtype_class(out->dtype) != STATOR_CLASS_FLOAT;
        if (n->n_args == 3) {
            y = a[0] != 0 ? a[1] : a[2];
        } else if (n->n_args == 2) {
            if (!binary(op, is_int, a[0], a[1], &y) &&
                (out->dtype != STATOR_BOOL || !logical(op, a[0], a[1], &y))) {
                return false;
            }
        } else {
            unary_fn fn = NULL;
            for (size_t k = 0; k < sizeof UNARY / sizeof UNARY[0]; k++) {
                fn = strcmp(UNARY[k].name, op) == 0 ? UNARY[k].fn : fn;
            }
            if (fn == NULL || (fn == f_not && out->dtype != STATOR_BOOL)) {
                return false;
            }
            const bool truncates = strcmp(op, "cast") == 0 && is_int && out->dtype != STATOR_BOOL;
            y = truncates ? truncl(a[0]) : fn(a[0]);
        }
        out->x[i] = round_to_dtype(out->dtype, y);
    }
    return true;
}

/* ---- movement ---- */

static bool fold_copy(const fold_node *n, ox_folded *out)
{
    if (n->args[0].count != out->count) {
        return false;
    }
    memcpy(out->x, n->args[0].x, out->count * sizeof *out->x);
    return true;
}

static bool fold_expand(const fold_node *n, ox_folded *out)
{
    for (uint32_t i = 0; i < out->count; i++) {
        out->x[i] = n->args[0].x[broadcast_at(out, &n->args[0], i)];
    }
    return true;
}

static bool fold_concat(const fold_node *n, ox_folded *out)
{
    if (out->rank != 1) {
        return false;
    }
    uint32_t at = 0;
    for (uint32_t k = 0; k < n->n_args; k++) {
        if (n->args[k].count > out->count - at) {
            return false;
        }
        memcpy(out->x + at, n->args[k].x, n->args[k].count * sizeof *out->x);
        at += n->args[k].count;
    }
    return at == out->count;
}

static bool fold_slice(const fold_node *n, ox_folded *out)
{
    int64_t start[OX_FOLD_MAX];
    int64_t step[OX_FOLD_MAX];
    uint32_t a, b;
    if (out->rank != 1 || n->args[0].rank != 1 || !attr_list(n, "starts", start, &a) ||
        !attr_list(n, "steps", step, &b) || a != 1 || b != 1) {
        return false;
    }
    for (uint32_t i = 0; i < out->count; i++) {
        const int64_t at = start[0] + (int64_t)i * step[0];
        if (at < 0 || at >= n->args[0].count) {
            return false;
        }
        out->x[i] = n->args[0].x[at];
    }
    return true;
}

static bool fold_gather(const fold_node *n, ox_folded *out)
{
    if (n->args[0].rank != 1 || n->args[1].count != out->count) {
        return false;
    }
    for (uint32_t i = 0; i < out->count; i++) {
        int64_t at = ox_fold_int(n->args[1].x[i]);
        at += at < 0 ? n->args[0].count : 0;
        if (at < 0 || at >= n->args[0].count) {
            return false;
        }
        out->x[i] = n->args[0].x[at];
    }
    return true;
}

/* Reductions of everything (all axes, or rank 1). */
static bool fold_reduce(const fold_node *n, ox_folded *out)
{
    const char *op = n->desc->name;
    const ox_folded *x = &n->args[0];
    const bool is_prod = strcmp(op, "reduce_prod") == 0;
    if (out->count != 1 || x->count == 0) {
        return false;
    }
    long double y = is_prod ? 1 : strcmp(op, "reduce_sum") == 0 ? 0 : x->x[0];
    for (uint32_t i = 0; i < x->count; i++) {
        const long double v = x->x[i];
        y = is_prod                         ? y * v
            : strcmp(op, "reduce_sum") == 0 ? y + v
            : strcmp(op, "reduce_max") == 0 ? (v > y ? v : y)
                                            : (v < y ? v : y);
    }
    out->x[0] = round_to_dtype(out->dtype, y);
    return true;
}

static bool fold_dims(const fold_node *n, ox_folded *out)
{
    int64_t list[OX_FOLD_MAX];
    uint32_t count;
    if (!attr_list(n, "values", list, &count) || count != out->count) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        out->x[i] = (long double)list[i];
    }
    return true;
}

static bool fold_iota(const fold_node *n, ox_folded *out)
{
    if (out->rank != 1 || attr_int(n, "axis") != 0) {
        return false;
    }
    for (uint32_t i = 0; i < out->count; i++) {
        out->x[i] = round_to_dtype(out->dtype, (long double)i);
    }
    return true;
}

static const struct {
    const char *name;
    bool (*fn)(const fold_node *n, ox_folded *out);
} OTHERS[] = {
    {"reshape", fold_copy},       {"expand", fold_expand},     {"concat", fold_concat},
    {"slice", fold_slice},        {"gather", fold_gather},     {"reduce_sum", fold_reduce},
    {"reduce_prod", fold_reduce}, {"reduce_max", fold_reduce}, {"reduce_min", fold_reduce},
    {"dims", fold_dims},          {"iota", fold_iota},
};

static bool fold(folder *f, const ox_region *r, stator_ref v, uint32_t depth, ox_folded *out);

static bool fold_args(folder *f, const ox_region *r, fold_node *n, uint32_t depth)
{
    n->n_args = n->row->operand_count;
    if (n->n_args > ARGS_MAX || n->row->region_count != 0) {
        return false;
    }
    n->args = st_arena_zalloc(&f->im->scratch, n->n_args + 1u, sizeof *n->args);
    for (uint32_t k = 0; n->args != NULL && k < n->n_args; k++) {
        const stator_ref arg = stator_operand(n->view, n->row, k);
        ST_NEED(arg != 0 && fold(f, r, arg, depth + 1u, &n->args[k]));
    }
    return n->args != NULL;
}

static bool fold_known_node(folder *f, const ox_region *r, fold_node *n, uint32_t depth,
                            ox_folded *out)
{
    for (size_t k = 0; k < sizeof OTHERS / sizeof OTHERS[0]; k++) {
        if (strcmp(OTHERS[k].name, n->desc->name) == 0) {
            return fold_args(f, r, n, depth) && OTHERS[k].fn(n, out);
        }
    }
    if ((n->desc->flags & STATOR_OP_POINTWISE) == 0 && strcmp(n->desc->name, "sym_bind") != 0 &&
        strcmp(n->desc->name, "check") != 0) {
        return false;
    }
    if (n->row->operand_count == 3 && strcmp(n->desc->name, "select") != 0) {
        return false;
    }
    return n->row->operand_count >= 1 && fold_args(f, r, n, depth) && fold_pointwise(n, out);
}

static bool fold(folder *f, const ox_region *r, stator_ref v, uint32_t depth, ox_folded *out)
{
    if (++f->steps > STEPS || depth > DEPTH) {
        return false;
    }
    const ox_data *data = ox_region_data(r, v);
    if (data != NULL) {
        return read_data(f, data, out);
    }
    fold_node n = {.view = f->im->host->build->view(r->b)};
    const stator_value_row *value = stator_value_at(n.view, v);
    if (value->node == 0) {
        const stator_ref k = v - r->first_captured;
        return r->captured_count != 0 && v >= r->first_captured && k < r->captured_count &&
               r->parent != NULL && fold(f, r->parent, r->captured[k], depth + 1u, out);
    }
    stator_dtype dtype;
    uint32_t rank;
    int64_t dims[STATOR_RANK_MAX];
    n.row = stator_node_at(n.view, value->node);
    n.desc = stator_op_at(n.view, n.row->op);
    ST_NEED(static_shape(n.view, v, &dtype, &rank, dims) &&
            st_dtype_class(dtype) != STATOR_CLASS_COMPLEX && make(f, out, dtype, rank, dims));
    return n.row->result_count == 1 && fold_known_node(f, r, &n, depth, out);
}

bool ox_fold(ox_import *im, const ox_region *region, stator_ref v, ox_folded *out)
{
    folder f = {im, 0};
    memset(out, 0, sizeof *out);
    const bool is_known = im->status == STATOR_OK && v != 0 && fold(&f, region, v, 0, out);
    long double *x = is_known ? st_arena_zalloc(&im->arena, out->count + 1u, sizeof *x) : NULL;
    if (x != NULL) {
        memcpy(x, out->x, out->count * sizeof *x);
    }
    out->x = x;
    st_arena_reset(&im->scratch);
    return x != NULL;
}
