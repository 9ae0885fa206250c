/* The sticky builder of decompositions (op_kit.h). In: values of one builder's graph. Out: nodes in
 * it; the first failure is kept and everything after it does nothing. */
#include "ir/ops/op_kit.h"

#include "core/base/check.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define NAMES_MAX 16u

stator_ref st_kit_fail(st_kit *k, stator_status code, const char *format, ...)
{
    char text[256];
    va_list args;
    if (k->status != STATOR_OK) {
        return 0;
    }
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    k->status = st_fail(k->err, code, "%s", text);
    return 0;
}

stator_ref st_kit_op(st_kit *k, const char *op, uint32_t n, const stator_ref *operands,
                     uint32_t n_attrs, const stator_attr *attrs)
{
    stator_ref y = 0;
    if (k->status == STATOR_OK) {
        k->status = st_build_op(k->b, op, n, operands, n_attrs, attrs, 1, &y, k->err);
    }
    return k->status == STATOR_OK ? y : 0;
}

stator_ref st_kit_unary(st_kit *k, const char *op, stator_ref x)
{
    return st_kit_op(k, op, 1, &x, 0, NULL);
}

stator_ref st_kit_binary(st_kit *k, const char *op, stator_ref x, stator_ref y)
{
    return st_kit_op(k, op, 2, (const stator_ref[2]){x, y}, 0, NULL);
}

stator_ref st_kit_expr(st_kit *k, const char *program, const char *names, const stator_ref *values,
                       uint32_t n_attrs, const stator_attr *attrs)
{
    char text[128];
    const char *list[NAMES_MAX];
    uint32_t n = 0;
    stator_ref y = 0;
    snprintf(text, sizeof text, "%s", names);
    for (char *p = text; *p != '\0' && n < NAMES_MAX;) {
        char *end = p + strcspn(p, ",");
        list[n++] = p;
        p = end + (*end != '\0');
        *end = '\0';
    }
    if (k->status == STATOR_OK) {
        k->status = st_build_expr(k->b, program, n, list, values, n_attrs, attrs, 1, &y, k->err);
    }
    return k->status == STATOR_OK ? y : 0;
}

stator_ref st_kit_reshape(st_kit *k, stator_ref x, const stator_ref *dims, uint32_t rank)
{
    return st_kit_op(k, "reshape", 1, &x, 1, &ST_KIT_DIMS("shape", dims, rank));
}

stator_ref st_kit_expand(st_kit *k, stator_ref x, const stator_ref *dims, uint32_t rank)
{
    return st_kit_op(k, "expand", 1, &x, 1, &ST_KIT_DIMS("shape", dims, rank));
}

stator_ref st_kit_transpose(st_kit *k, stator_ref x, const int64_t *perm, uint32_t rank)
{
    int is_identity = 1;
    for (uint32_t i = 0; i < rank; i++) {
        is_identity = is_identity && perm[i] == (int64_t)i;
    }
    return is_identity ? x : st_kit_op(k, "transpose", 1, &x, 1, &ST_KIT_INTS("perm", perm, rank));
}

stator_ref st_kit_cast(st_kit *k, stator_ref x, stator_dtype dtype)
{
    return st_kit_dtype(k, x) == dtype
               ? x
               : st_kit_op(k, "cast", 1, &x, 1, &ST_KIT_DTYPE("dtype", dtype));
}

stator_ref st_kit_wide(st_kit *k, stator_ref x)
{
    const stator_dtype dtype = st_kit_dtype(k, x);
    const int is_narrow = st_dtype_class(dtype) == STATOR_CLASS_FLOAT && st_dtype_bits(dtype) < 32;
    return is_narrow ? st_kit_cast(k, x, STATOR_F32) : x;
}

stator_ref st_kit_gather(st_kit *k, stator_ref x, stator_ref index, int64_t axis)
{
    return st_kit_op(k, "gather", 2, (const stator_ref[2]){x, index}, 1, &ST_KIT_INT("axis", axis));
}

stator_ref st_kit_scalar(st_kit *k, double value, stator_dtype dtype)
{
    const stator_attr attrs[2] = {ST_KIT_FLOAT("value", value), ST_KIT_DTYPE("type", dtype)};
    return st_kit_expr(k, "scalar(value, type)", "", NULL, 2, attrs);
}

stator_ref st_kit_size_scalar(st_kit *k, stator_ref sym, stator_dtype dtype)
{
    const stator_attr attrs[2] = {ST_KIT_DIMS("size", &sym, 1), ST_KIT_DTYPE("type", dtype)};
    return st_kit_expr(k, "scalar(size[0], type)", "", NULL, 2, attrs);
}

/* ---- types ---- */

static const stator_type_row *type_of(const st_kit *k, stator_ref x)
{
    return stator_value_type(st_graph_view(k->b->graph), x);
}

stator_dtype st_kit_dtype(const st_kit *k, stator_ref x)
{
    return x ? type_of(k, x)->dtype : STATOR_DTYPE_NONE;
}

uint32_t st_kit_rank(const st_kit *k, stator_ref x)
{
    return x ? type_of(k, x)->rank : 0;
}

stator_ref st_kit_dim(st_kit *k, stator_ref x, uint32_t axis)
{
    return x ? stator_dim_at(st_graph_view(k->b->graph), type_of(k, x), axis) : st_kit_size(k, 0);
}

void st_kit_dims(st_kit *k, stator_ref x, stator_ref out[STATOR_RANK_MAX])
{
    for (uint32_t i = 0; i < st_kit_rank(k, x); i++) {
        out[i] = st_kit_dim(k, x, i);
    }
}

/* ---- sizes ---- */

stator_ref st_kit_size(st_kit *k, int64_t value)
{
    const stator_ref sym = st_sym_int(&k->b->module->symtab, value);
    if (sym == 0 && k->status == STATOR_OK) {
        k->status = st_fail_oom(k->err);
    }
    return sym;
}

stator_ref st_kit_sym(st_kit *k, uint32_t op, stator_ref a, stator_ref b)
{
    const stator_ref sym = a && b ? st_sym_op(&k->b->module->symtab, op, a, b) : 0;
    if (sym == 0) {
        return st_kit_fail(k, STATOR_UNIMPLEMENTED,
                           "a size is past a limit of the symbolic engine");
    }
    return sym;
}

stator_ref st_kit_sym_int(st_kit *k, uint32_t op, stator_ref a, int64_t b)
{
    return st_kit_sym(k, op, a, st_kit_size(k, b));
}

stator_ref st_kit_broadcast(st_kit *k, stator_ref a, stator_ref b)
{
    const st_infer in = {.m = k->b->module};
    stator_ref sym = k->status == STATOR_OK ? st_in_broadcast_dim(&in, a, b) : 0;
    if (sym != 0 || k->status != STATOR_OK) {
        return sym;
    }
    const stator_attr sizes[2] = {ST_KIT_DIMS("p", &a, 1), ST_KIT_DIMS("q", &b, 1)};
    const stator_ref size = st_kit_expr(
        k, "s = scalar(p[0], i64); select(s == 1, scalar(q[0], i64), s)", "", NULL, 2, sizes);
    if (k->status == STATOR_OK) {
        k->status = st_build_as_dims(k->b, size, 1, &sym, k->err);
    }
    return k->status == STATOR_OK ? sym : 0;
}

int st_kit_const(const st_kit *k, stator_ref sym, int64_t *out)
{
    return sym != 0 && st_sym_const(&k->b->module->symtab, sym, out);
}

int st_kit_is(const st_kit *k, stator_ref sym, int64_t value)
{
    int64_t x;
    return st_kit_const(k, sym, &x) && x == value;
}
