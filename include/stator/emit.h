/* The emitter: builds nodes with one check at the end, for frontends, op libraries and passes.
 *
 *     stator_emitter e = stator_emitter_of(host, builder, err);
 *     const stator_ref size = stator_emit_dim(&e, x, 0);
 *     const stator_ref y = stator_emit_op(&e, "slice", STATOR_IN(x),
 *                                         STATOR_AT(STATOR_A_DIMS("sizes", 1, &size), ...));
 *     out[0] = stator_emit_expr(&e, "a * tanh(b)", "a, b", STATOR_IN(y, x), STATOR_NONE);
 *     return e.status;
 *
 * The error is sticky, as the error state of a stream is. The first failure is kept in `status` and
 * its diag in *err; every later call builds nothing and returns 0, or its operand where there is
 * nothing to build, so straight code needs no tests between its calls. A value of 0 is an absent
 * operand where an op takes one; the types of value 0 are dtype NONE and rank 0. Only a loop whose
 * end depends on a value, and an array that is read at a place that a value gives, must look at
 * `status` before.
 *
 * Everything here is inline over the host's `build`, `types` and `diag` tables. An emitter belongs
 * to one thread and lives no longer than its builder. All of it since 0.9. */
#ifndef STATOR_EMIT_H
#define STATOR_EMIT_H

#include <stator/plugin.h>

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stator_emitter {
    const stator_build_api *build;
    const stator_types_api *types;
    const stator_diag_api *diag;
    stator_builder *b;    /* where nodes go; may be set to another builder of the same module */
    stator_diag **err;    /* receives the first failure's diag; may be NULL */
    stator_status status; /* of the first failure */
    uint32_t reserved;
} stator_emitter;

/* ---- lists of arguments (C alone: compound literals) ---- */

#define STATOR_COUNT_(type, ...) ((uint32_t)(sizeof((type[]){__VA_ARGS__}) / sizeof(type)))
/* clang-format off */
/* Operands: two arguments, their number and the array. */
#define STATOR_IN(...) STATOR_COUNT_(stator_ref, __VA_ARGS__), (const stator_ref[]){__VA_ARGS__}
/* Attributes: likewise. */
#define STATOR_AT(...) STATOR_COUNT_(stator_attr, __VA_ARGS__), (const stator_attr[]){__VA_ARGS__}
/* Neither operands nor attributes. */
#define STATOR_NONE 0u, NULL
#define STATOR_A_INT(name_, value_)                                                                \
    ((stator_attr){.name = (name_), .kind = STATOR_ATTR_INT, .i = (value_)})
#define STATOR_A_FLOAT(name_, value_)                                                              \
    ((stator_attr){.name = (name_), .kind = STATOR_ATTR_FLOAT, .f = (value_)})
#define STATOR_A_STR(name_, value_)                                                                \
    ((stator_attr){.name = (name_), .kind = STATOR_ATTR_STRING, .s = (value_)})
#define STATOR_A_DTYPE(name_, value_)                                                              \
    ((stator_attr){.name = (name_), .kind = STATOR_ATTR_DTYPE, .i = (int64_t)(value_)})
#define STATOR_A_INTS(name_, count_, list_)                                                        \
    ((stator_attr){.name = (name_), .kind = STATOR_ATTR_INTS, .count = (count_), .list = (list_)})
#define STATOR_A_FLOATS(name_, count_, list_)                                                      \
    ((stator_attr){.name = (name_), .kind = STATOR_ATTR_FLOATS, .count = (count_), .list = (list_)})
#define STATOR_A_DIMS(name_, count_, list_)                                                        \
    ((stator_attr){.name = (name_), .kind = STATOR_ATTR_DIMS, .count = (count_), .list = (list_)})
/* clang-format on */

/* ---- state ---- */

/* An emitter of a plugin; err may be NULL, else *err must be NULL or a diag that is kept. */
static inline stator_emitter stator_emitter_of(const stator_host *host, stator_builder *b,
                                               stator_diag **err)
{
    const stator_emitter e = {host->build, host->types, host->diag, b, err, STATOR_OK, 0};
    return e;
}

/* Keeps the failure of a call that was made beside the emitter. True while there is none. */
static inline bool stator_emit_check(stator_emitter *e, stator_status status)
{
    if (e->status == STATOR_OK) {
        e->status = status;
    }
    return e->status == STATOR_OK;
}

/* Fails with a text of at most 511 bytes, unless something failed before. Returns 0. */
STATOR_PRINTF(3, 4)
static inline stator_ref stator_emit_fail(stator_emitter *e, stator_status code, const char *format,
                                          ...)
{
    char text[512];
    va_list args;
    if (stator_emit_check(e, code) || e->err == NULL || *e->err != NULL || e->status != code) {
        return 0;
    }
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    *e->err = e->diag->create(code, text, strlen(text));
    return 0;
}

/* ---- types; of no value they are NONE, 0 and nothing ---- */

/* NULL where x names no value of the builder. */
static inline const stator_type_row *stator_emit_type(const stator_emitter *e, stator_ref x)
{
    const stator_graph_view *v = e->build->view(e->b);
    return x != 0 && x <= v->n_values ? stator_value_type(v, x) : NULL;
}
static inline stator_dtype stator_emit_dtype(const stator_emitter *e, stator_ref x)
{
    const stator_type_row *type = stator_emit_type(e, x);
    return type != NULL ? type->dtype : (stator_dtype)STATOR_DTYPE_NONE;
}
static inline uint32_t stator_emit_rank(const stator_emitter *e, stator_ref x)
{
    const stator_type_row *type = stator_emit_type(e, x);
    return type != NULL ? type->rank : 0;
}
/* Size of an axis of x, as a sym; 0 past its rank. */
static inline stator_ref stator_emit_dim(const stator_emitter *e, stator_ref x, uint32_t axis)
{
    const stator_type_row *type = stator_emit_type(e, x);
    return type != NULL && axis < type->rank ? stator_dim_at(e->build->view(e->b), type, axis) : 0;
}
/* All sizes of x into out; returns its rank. */
static inline uint32_t stator_emit_dims(const stator_emitter *e, stator_ref x,
                                        stator_ref out[STATOR_RANK_MAX])
{
    const uint32_t rank = stator_emit_rank(e, x);
    for (uint32_t i = 0; i < rank; i++) {
        out[i] = stator_emit_dim(e, x, i);
    }
    return rank;
}

/* ---- sizes ---- */

static inline stator_ref stator_emit_size(stator_emitter *e, int64_t value)
{
    const stator_ref sym = e->status == STATOR_OK ? e->types->sym_int(e->b, value) : 0;
    return sym != 0 ? sym : stator_emit_fail(e, STATOR_RESOURCE_EXHAUSTED, "out of memory");
}
/* op as in stator_types_api.sym_op; 0 without a failure where a limit of the symbolic engine is
 * exceeded. */
static inline stator_ref stator_emit_sym_try(stator_emitter *e, uint32_t op, stator_ref a,
                                             stator_ref b)
{
    return e->status == STATOR_OK && a != 0 && b != 0 ? e->types->sym_op(e->b, op, a, b) : 0;
}
/* The same; UNIMPLEMENTED beyond a limit. */
static inline stator_ref stator_emit_sym(stator_emitter *e, uint32_t op, stator_ref a, stator_ref b)
{
    const stator_ref sym = stator_emit_sym_try(e, op, a, b);
    return sym != 0 ? sym
                    : stator_emit_fail(e, STATOR_UNIMPLEMENTED,
                                       "a size exceeds a limit of the symbolic engine");
}
static inline stator_ref stator_emit_sym_int(stator_emitter *e, uint32_t op, stator_ref a,
                                             int64_t b)
{
    return stator_emit_sym(e, op, a, stator_emit_size(e, b));
}
/* Product of sizes; 1 when there are none. */
static inline stator_ref stator_emit_sym_product(stator_emitter *e, uint32_t count,
                                                 const stator_ref *syms)
{
    stator_ref product = stator_emit_size(e, 1);
    for (uint32_t i = 0; i < count; i++) {
        product = stator_emit_sym(e, STATOR_SYM_MUL, product, syms[i]);
    }
    return product;
}
/* Is the size a plain integer? Then *out is it, else 0. */
static inline bool stator_emit_const(const stator_emitter *e, stator_ref sym, int64_t *out)
{
    *out = 0;
    return sym != 0 && stator_sym_is_const(e->build->view(e->b), sym, out);
}
static inline bool stator_emit_is(const stator_emitter *e, stator_ref sym, int64_t value)
{
    int64_t known;
    return stator_emit_const(e, sym, &known) && known == value;
}

/* ---- nodes ---- */

/* A node with any number of results, and regions that region_end gave. Sets out[0..n_out), to 0
 * after a failure. */
static inline void stator_emit_node(stator_emitter *e, const char *op, uint32_t n_in,
                                    const stator_ref *in, uint32_t n_attrs,
                                    const stator_attr *attrs, uint32_t n_regions,
                                    stator_graph *const *regions, uint32_t n_out, stator_ref *out)
{
    stator_node_desc desc;
    memset(out, 0, n_out * sizeof *out);
    if (e->status != STATOR_OK) {
        return;
    }
    memset(&desc, 0, sizeof desc);
    desc.struct_size = sizeof desc;
    desc.op = e->build->find_op(e->b, op);
    desc.operands = in;
    desc.operand_count = n_in;
    desc.attr_count = n_attrs;
    desc.attrs = attrs;
    desc.regions = regions;
    desc.region_count = n_regions;
    desc.result_count = n_out;
    if (desc.op == 0) {
        stator_emit_fail(e, STATOR_INTERNAL, "the op table has no '%s'", op);
    } else if (!stator_emit_check(e, e->build->node(e->b, &desc, out, e->err))) {
        memset(out, 0, n_out * sizeof *out);
    }
}
/* A node with one result. */
static inline stator_ref stator_emit_op(stator_emitter *e, const char *op, uint32_t n_in,
                                        const stator_ref *in, uint32_t n_attrs,
                                        const stator_attr *attrs)
{
    stator_ref y = 0;
    stator_emit_node(e, op, n_in, in, n_attrs, attrs, 0, NULL, 1, &y);
    return y;
}
static inline stator_ref stator_emit_unary(stator_emitter *e, const char *op, stator_ref x)
{
    return stator_emit_op(e, op, 1, &x, 0, NULL);
}
static inline stator_ref stator_emit_binary(stator_emitter *e, const char *op, stator_ref x,
                                            stator_ref y)
{
    const stator_ref in[2] = {x, y};
    return stator_emit_op(e, op, 2, in, 0, NULL);
}
/* An expression program (docs/expr.md) with one result. `names` has a name for each operand, with
 * commas between; attributes are visible by name. At most 16 operands, 255 bytes of names. */
static inline stator_ref stator_emit_expr(stator_emitter *e, const char *program, const char *names,
                                          uint32_t n_in, const stator_ref *in, uint32_t n_attrs,
                                          const stator_attr *attrs)
{
    char text[256];
    const char *list[16];
    char *p = text;
    uint32_t n = 0;
    stator_ref y = 0;
    (void)snprintf(text, sizeof text, "%s", names);
    while (p[0] != '\0' && n < 16) {
        list[n++] = p;
        p += strcspn(p, ",");
        if (*p != '\0') {
            *p++ = '\0';
            p += strspn(p, " ");
        }
    }
    if (n != n_in || strlen(names) >= sizeof text) {
        return stator_emit_fail(e, STATOR_INTERNAL, "%u operands are named '%s'", n_in, names);
    }
    if (e->status != STATOR_OK ||
        !stator_emit_check(
            e, e->build->expr(e->b, program, n, list, in, n_attrs, attrs, 1, &y, e->err))) {
        return 0;
    }
    return y;
}
/* The i64 tensor of rank 1 (rank 0 when n is UINT32_MAX: one sym) of these sizes. */
static inline stator_ref stator_emit_from_dims(stator_emitter *e, uint32_t n,
                                               const stator_ref *syms)
{
    stator_ref y = 0;
    if (e->status == STATOR_OK) {
        stator_emit_check(e, e->build->from_dims(e->b, syms, n, &y, e->err));
    }
    return y;
}

/* x itself when it has the dtype. */
static inline stator_ref stator_emit_cast(stator_emitter *e, stator_ref x, stator_dtype dtype)
{
    stator_attr attr = {"dtype", STATOR_ATTR_DTYPE, 0, (int64_t)dtype, 0, NULL, NULL, NULL};
    return stator_emit_dtype(e, x) == dtype ? x : stator_emit_op(e, "cast", 1, &x, 1, &attr);
}
/* x with narrow floats as f32. */
static inline stator_ref stator_emit_wide(stator_emitter *e, stator_ref x)
{
    const stator_dtype dtype = stator_emit_dtype(e, x);
    return dtype >= STATOR_F8E4M3FN && dtype < STATOR_F32 ? stator_emit_cast(e, x, STATOR_F32) : x;
}
static inline stator_ref stator_emit_reshape(stator_emitter *e, stator_ref x, uint32_t rank,
                                             const stator_ref *dims)
{
    stator_attr attr = {"shape", STATOR_ATTR_DIMS, rank, 0, 0, NULL, dims, NULL};
    return stator_emit_op(e, "reshape", 1, &x, 1, &attr);
}
static inline stator_ref stator_emit_expand(stator_emitter *e, stator_ref x, uint32_t rank,
                                            const stator_ref *dims)
{
    stator_attr attr = {"shape", STATOR_ATTR_DIMS, rank, 0, 0, NULL, dims, NULL};
    return stator_emit_op(e, "expand", 1, &x, 1, &attr);
}
/* The identity permutation gives x itself. */
static inline stator_ref stator_emit_transpose(stator_emitter *e, stator_ref x, uint32_t rank,
                                               const int64_t *perm)
{
    stator_attr attr = {"perm", STATOR_ATTR_INTS, rank, 0, 0, NULL, perm, NULL};
    uint32_t i = 0;
    while (i < rank && perm[i] == (int64_t)i) {
        i++;
    }
    return i == rank ? x : stator_emit_op(e, "transpose", 1, &x, 1, &attr);
}
static inline stator_ref stator_emit_gather(stator_emitter *e, stator_ref x, stator_ref index,
                                            int64_t axis)
{
    const stator_ref in[2] = {x, index};
    stator_attr attr = {"axis", STATOR_ATTR_INT, 0, axis, 0, NULL, NULL, NULL};
    return stator_emit_op(e, "gather", 2, in, 1, &attr);
}
/* xs[0] itself when it is alone. */
static inline stator_ref stator_emit_concat(stator_emitter *e, int64_t axis, uint32_t count,
                                            const stator_ref *xs)
{
    stator_attr attr = {"axis", STATOR_ATTR_INT, 0, axis, 0, NULL, NULL, NULL};
    return count == 1 ? xs[0] : stator_emit_op(e, "concat", count, xs, 1, &attr);
}
/* x[start + i * step], 0 <= i < size, along an axis below x's rank. */
static inline stator_ref stator_emit_slice(stator_emitter *e, stator_ref x, uint32_t axis,
                                           stator_ref start, stator_ref size, int64_t step)
{
    stator_ref starts[STATOR_RANK_MAX], sizes[STATOR_RANK_MAX];
    int64_t steps[STATOR_RANK_MAX];
    const uint32_t rank = stator_emit_dims(e, x, sizes);
    const stator_attr attrs[3] = {{"starts", STATOR_ATTR_DIMS, rank, 0, 0, NULL, starts, NULL},
                                  {"sizes", STATOR_ATTR_DIMS, rank, 0, 0, NULL, sizes, NULL},
                                  {"steps", STATOR_ATTR_INTS, rank, 0, 0, NULL, steps, NULL}};
    if (axis >= rank) {
        return stator_emit_fail(e, STATOR_INVALID_ARGUMENT, "axis %u is outside rank %u", axis,
                                rank);
    }
    for (uint32_t i = 0; i < rank; i++) {
        starts[i] = stator_emit_size(e, 0);
        steps[i] = 1;
    }
    starts[axis] = start;
    sizes[axis] = size;
    steps[axis] = step;
    return stator_emit_op(e, "slice", 1, &x, 3, attrs);
}
/* One of the ops reduce_*, over `count` axes. */
static inline stator_ref stator_emit_reduce(stator_emitter *e, const char *op, stator_ref x,
                                            uint32_t count, const int64_t *axes, bool keepdims)
{
    const stator_attr attrs[2] = {{"axes", STATOR_ATTR_INTS, count, 0, 0, NULL, axes, NULL},
                                  {"keepdims", STATOR_ATTR_INT, 0, keepdims, 0, NULL, NULL, NULL}};
    return stator_emit_op(e, op, 1, &x, 2, attrs);
}
/* The index along `axis` at every element of a tensor of these sizes. */
static inline stator_ref stator_emit_iota(stator_emitter *e, stator_dtype dtype, uint32_t rank,
                                          const stator_ref *dims, uint32_t axis)
{
    const stator_attr attrs[3] = {
        {"shape", STATOR_ATTR_DIMS, rank, 0, 0, NULL, dims, NULL},
        {"axis", STATOR_ATTR_INT, 0, axis, 0, NULL, NULL, NULL},
        {"dtype", STATOR_ATTR_DTYPE, 0, (int64_t)dtype, 0, NULL, NULL, NULL}};
    return stator_emit_op(e, "iota", 0, NULL, 3, attrs);
}
static inline stator_ref stator_emit_scalar(stator_emitter *e, double value, stator_dtype dtype)
{
    const stator_attr attrs[2] = {
        {"value", STATOR_ATTR_FLOAT, 0, 0, value, NULL, NULL, NULL},
        {"type", STATOR_ATTR_DTYPE, 0, (int64_t)dtype, 0, NULL, NULL, NULL}};
    return stator_emit_expr(e, "scalar(value, type)", "", 0, NULL, 2, attrs);
}
/* A size as a scalar of this dtype. */
static inline stator_ref stator_emit_size_scalar(stator_emitter *e, stator_ref sym,
                                                 stator_dtype dtype)
{
    const stator_attr attrs[2] = {
        {"size", STATOR_ATTR_DIMS, 1, 0, 0, NULL, &sym, NULL},
        {"type", STATOR_ATTR_DTYPE, 0, (int64_t)dtype, 0, NULL, NULL, NULL}};
    return stator_emit_expr(e, "scalar(size[0], type)", "", 0, NULL, 2, attrs);
}

/* ---- graphs ---- */

/* An input of this type; 0 when the type is 0. */
static inline stator_ref stator_emit_input(stator_emitter *e, const char *name, stator_ref type)
{
    stator_ref value = 0;
    if (e->status == STATOR_OK && type != 0) {
        stator_emit_check(e, e->build->input(e->b, name, type, &value, e->err));
    }
    return e->status == STATOR_OK ? value : 0;
}
/* A parameter: an input with a default; retains the blob. */
static inline stator_ref stator_emit_param(stator_emitter *e, const char *name, stator_ref type,
                                           stator_blob *blob)
{
    stator_ref value = 0;
    if (e->status == STATOR_OK) {
        stator_emit_check(e, e->build->param(e->b, name, type, blob, &value, e->err));
    }
    return e->status == STATOR_OK ? value : 0;
}
static inline void stator_emit_output(stator_emitter *e, const char *name, stator_ref value)
{
    if (e->status == STATOR_OK) {
        stator_emit_check(e, e->build->output(e->b, name, value, e->err));
    }
}
/* The input's buffer receives `value` when the call ends. */
static inline void stator_emit_write_back(stator_emitter *e, stator_ref input, stator_ref value)
{
    if (e->status == STATOR_OK) {
        stator_emit_check(e, e->build->write_back(e->b, input, value, e->err));
    }
}
/* Copies nodes first..last of a graph of the same module (stator_build_api.clone). */
static inline void stator_emit_clone(stator_emitter *e, const stator_graph *from, stator_ref first,
                                     stator_ref last, stator_ref *map)
{
    if (e->status == STATOR_OK && first <= last) {
        stator_emit_check(e, e->build->clone(e->b, from, first, last, map, e->err));
    }
}
/* Begins a region and turns the emitter to it. Returns the builder around, which region_end takes;
 * NULL after a failure. */
static inline stator_builder *stator_emit_region_begin(stator_emitter *e, const char *name)
{
    stator_builder *around = e->b, *region = NULL;
    if (e->status != STATOR_OK ||
        !stator_emit_check(e, e->build->region_begin(around, name, &region, e->err))) {
        return NULL;
    }
    e->b = region;
    return around;
}
/* Ends the region and turns the emitter back to the builder around it (NULL: there is no region).
 * Returns the graph for stator_emit_node; after a failure the region is dropped: NULL. */
static inline stator_graph *stator_emit_region_end(stator_emitter *e, stator_builder *around)
{
    stator_builder *region = e->b;
    stator_graph *graph = NULL;
    if (around == NULL) {
        return NULL;
    }
    e->b = around;
    if (e->status != STATOR_OK) {
        e->build->region_abort(region);
    } else if (!stator_emit_check(e, e->build->region_end(region, &graph, e->err))) {
        graph = NULL;
    }
    return graph;
}

#ifdef __cplusplus
}
#endif
#endif
