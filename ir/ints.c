/* Symbolic contents of small integer tensors: what a shape computation is known to give.
 *
 * In: a value of a graph being built. Out: its elements as syms, found by walking back through
 * constants, `dims`, arithmetic and movement (rules in ints_ops.c) without folding anything.
 * Results are remembered per builder. So Shape -> Gather -> Unsqueeze -> Concat -> Reshape comes
 * out fully symbolic. Floats are followed while they hold rationals with small denominators, as in
 * floor(H * 0.5); sizes are taken to be exact in the float type (below 2^24 for f32).
 *
 * What stays unknown becomes an unbacked symbol when a caller insists (st_build_as_dims): a
 * `sym_bind` node defines it while the program runs. */
#include "ir/ints.h"
#include "core/base/blob.h"
#include "core/base/check.h"
#include "core/base/convert.h"
#include <math.h>
#include <stator/ops.h>
#include <string.h>

#define DEPTH_MAX 160u
#define DENOMINATOR_MAX 4096

#define NOTHING_KNOWN 1u /* in the memo; otherwise begin + 2 of pairs in the module's refs */

st_int_elem st_int_const(const st_ints_eval *at, int64_t value)
{
    return (st_int_elem){st_sym_int(&at->b->module->symtab, value), 1};
}

bool st_int_is_const(const st_ints_eval *at, st_int_elem e, int64_t *out)
{
    *out = 0;
    return e.sym != 0 && e.den == 1 && st_sym_const(&at->b->module->symtab, e.sym, out);
}

/* Sets dtype, dims and n from the value's type; 0 when it is not static and small. */
static bool shape_of(const st_ints_eval *at, stator_ref value, st_ints *out)
{
    const stator_type_row *type = stator_value_type(at->v, value);
    uint64_t n = 0;
    out->dtype = type->dtype;
    out->rank = type->rank;
    for (uint32_t i = 0; i < type->rank; i++) {
        if (!stator_sym_is_const(at->v, stator_dim_at(at->v, type, i), &out->dims[i])) {
            return false;
        }
    }
    if (!st_numel(out->dims, out->rank, &n) || n > ST_INTS_MAX) {
        return false;
    }
    out->n = (uint32_t)n;
    memset(out->e, 0, sizeof out->e);
    const uint32_t kind = st_dtype_class(out->dtype);
    return kind != 0 && kind != STATOR_CLASS_COMPLEX;
}

/* A double as a rational with a small denominator; unknown when it is none. */
static st_int_elem elem_of_f64(const st_ints_eval *at, double x)
{
    for (int64_t den = 1; den <= DENOMINATOR_MAX; den *= 2) {
        const double scaled = x * (double)den;
        if (fabs(scaled) < 4503599627370496.0 && scaled == floor(scaled)) {
            return (st_int_elem){st_sym_int(&at->b->module->symtab, (int64_t)scaled),
                                 (uint32_t)den};
        }
    }
    return (st_int_elem){0, 0};
}

static bool read_blob(const st_ints_eval *at, stator_ref value, st_ints *out)
{
    stator_blob *blob = st_graph_value_blob(at->b->graph, value);
    uint64_t bytes = 0;
    const void *data = NULL;
    if (blob == NULL || !st_dtype_bytes(out->dtype, out->n, &bytes) || st_blob_size(blob) < bytes ||
        st_blob_get(blob, &data, NULL) != STATOR_OK) {
        return false;
    }
    const bool is_float = st_dtype_class(out->dtype) == STATOR_CLASS_FLOAT;
    for (uint32_t i = 0; i < out->n; i++) {
        out->e[i] = is_float ? elem_of_f64(at, st_load_f64(out->dtype, data, i))
                             : st_int_const(at, st_load_i64(out->dtype, data, i));
    }
    return true;
}

static bool recall(const st_ints_eval *at, uint32_t memo, st_ints *out)
{
    if (memo == NOTHING_KNOWN) {
        return false;
    }
    for (uint32_t i = 0; i < out->n; i++) {
        out->e[i].sym = stator_ref_at(at->v, memo - 2u + 2u * i);
        out->e[i].den = stator_ref_at(at->v, memo - 1u + 2u * i);
    }
    return true;
}

static void remember(stator_builder *b, stator_ref value, const st_ints *ints)
{
    uint32_t pairs[2 * ST_INTS_MAX];
    uint32_t begin = UINT32_MAX;
    for (uint32_t i = 0; ints != NULL && i < ints->n; i++) {
        pairs[2 * i] = ints->e[i].sym;
        pairs[2 * i + 1] = ints->e[i].den;
    }
    if (ints != NULL) {
        begin = st_module_refs(b->module, pairs, 2 * ints->n);
    }
    /* Without memory the answer is found again next time. */
    (void)st_map_put(&b->known, value, begin < UINT32_MAX - 2u ? begin + 2u : NOTHING_KNOWN);
}

/* Unsigned and narrow types wrap: what may not fit is unknown. */
static void drop_what_wraps(const st_ints_eval *at, st_ints *ints)
{
    const uint32_t kind = st_dtype_class(ints->dtype);
    const uint32_t bits = st_dtype_bits(ints->dtype);
    if (kind == STATOR_CLASS_FLOAT || ints->dtype == STATOR_I64 || ints->dtype == STATOR_BOOL) {
        return;
    }
    const bool is_signed = kind == STATOR_CLASS_INT;
    const uint32_t value_bits = is_signed ? bits - 1u : bits;
    const int64_t hi = value_bits >= 63 ? INT64_MAX : (INT64_C(1) << value_bits) - 1;
    const int64_t lo = is_signed ? -hi - 1 : 0;
    for (uint32_t i = 0; i < ints->n; i++) {
        int64_t c = 0;
        int64_t least = 0;
        int64_t most = 0;
        if (ints->e[i].sym == 0) {
            continue;
        }
        if (st_int_is_const(at, ints->e[i], &c)) {
            ints->e[i].sym = c < lo || c > hi ? 0 : ints->e[i].sym;
            continue;
        }
        /* An open upper end is a size: those fit in 31 bits. */
        st_sym_range(&at->b->module->symtab, ints->e[i].sym, &least, &most);
        if (least < lo || bits < 32 || (most > hi && most != INT64_MAX)) {
            ints->e[i].sym = 0;
        }
    }
}

static bool evaluate(const st_ints_eval *at, stator_ref value, st_ints *out)
{
    const stator_value_row *row = stator_value_at(at->v, value);
    if (row->node == 0) {
        return false; /* an input; a parameter may be replaced and counts as unknown too */
    }
    if (st_value_is_constant(at->b->graph, value)) {
        return read_blob(at, value, out);
    }
    const st_ints_eval inner = {at->b, at->v, stator_node_at(at->v, row->node), row->index,
                                at->depth + 1u};
    if (inner.depth > DEPTH_MAX || !st_ints_apply_rule(&inner, out)) {
        return false;
    }
    drop_what_wraps(at, out);
    return true;
}

bool st_ints_of(const st_ints_eval *at, stator_ref value, st_ints *out)
{
    if (value == 0 || value > at->v->n_values || !shape_of(at, value, out)) {
        return false;
    }
    const uint32_t memo = st_map_get(&at->b->known, value);
    if (memo != 0) {
        return recall(at, memo, out);
    }
    const bool ok = evaluate(at, value, out);
    if (ok || at->depth < DEPTH_MAX / 2u) {
        remember(at->b, value, ok ? out : NULL);
    }
    return ok;
}

bool st_ints_operand(const st_ints_eval *at, uint32_t k, st_ints *out)
{
    return st_ints_of(at, stator_operand(at->v, at->node, k), out);
}

/* ---- builder slots ---- */

int32_t st_build_known_ints(stator_builder *b, stator_ref value, uint32_t n, stator_ref *out_syms)
{
    const st_ints_eval at = {.b = b, .v = st_graph_view(b->graph)};
    st_ints ints;
    if ((out_syms == NULL && n != 0) || !st_ints_of(&at, value, &ints) || ints.n != n) {
        return 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (ints.e[i].sym == 0 || ints.e[i].den != 1) {
            return 0;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        out_syms[i] = ints.e[i].sym;
    }
    return 1;
}

/* The value as i64 of rank 0 or 1, as sym_bind takes it. */
static stator_status as_i64_list(stator_builder *b, stator_ref value, const st_ints *ints,
                                 stator_ref *out, stator_diag **err)
{
    *out = value;
    if (ints->dtype != STATOR_I64) {
        const stator_attr dtype = {.name = "dtype", .kind = STATOR_ATTR_DTYPE, .i = STATOR_I64};
        ST_TRY(st_build_op(b, "cast", 1, out, 1, &dtype, 1, out, err));
    }
    if (ints->rank > 1) {
        const int64_t n = ints->n;
        const stator_attr shape = {
            .name = "shape", .kind = STATOR_ATTR_INTS, .count = 1, .list = &n};
        ST_TRY(st_build_op(b, "reshape", 1, out, 1, &shape, 1, out, err));
    }
    return STATOR_OK;
}

static stator_status bind_unknown(stator_builder *b, stator_ref value, st_ints *ints,
                                  stator_diag **err)
{
    stator_ref fresh[ST_INTS_MAX];
    stator_ref list = 0;
    stator_ref bound = 0;
    for (uint32_t i = 0; i < ints->n; i++) {
        fresh[i] = st_sym_symbol(&b->module->symtab, 0, INT64_MIN, INT64_MAX, 1, 1u);
        ST_TRY_MEM(fresh[i], err);
    }
    ST_TRY(as_i64_list(b, value, ints, &list, err));
    const stator_attr syms = {
        .name = "syms", .kind = STATOR_ATTR_DIMS, .count = ints->n, .list = fresh};
    ST_TRY(st_build_op(b, "sym_bind", 1, &list, 1, &syms, 1, &bound, err));
    for (uint32_t i = 0; i < ints->n; i++) {
        if (ints->e[i].sym == 0 || ints->e[i].den != 1) {
            ints->e[i] = (st_int_elem){fresh[i], 1};
        }
    }
    remember(b, value, ints);
    return STATOR_OK;
}

stator_status st_build_as_dims(stator_builder *b, stator_ref value, uint32_t n,
                               stator_ref *out_syms, stator_diag **err)
{
    const st_ints_eval at = {.b = b, .v = st_graph_view(b->graph)};
    st_ints ints;
    ST_REQUIRE_LIST(out_syms, n, err);
    if (st_build_known_ints(b, value, n, out_syms)) {
        return STATOR_OK;
    }
    if (value == 0 || value > at.v->n_values || !shape_of(&at, value, &ints) || ints.n != n ||
        st_dtype_class(ints.dtype) == STATOR_CLASS_FLOAT) {
        return st_fail(err, STATOR_INVALID_ARGUMENT,
                       "a list of %u sizes was expected as an integer tensor of that many "
                       "elements (at most %u), known when the graph is built",
                       n, ST_INTS_MAX);
    }
    st_ints known;
    if (st_ints_of(&at, value, &known)) {
        ints = known;
    }
    ST_TRY(bind_unknown(b, value, &ints, err));
    for (uint32_t i = 0; i < n; i++) {
        out_syms[i] = ints.e[i].sym;
    }
    return STATOR_OK;
}

/* 1 and the values when all syms are plain integers. */
static bool all_const(const st_module *m, const stator_ref *syms, uint32_t n, int64_t *out)
{
    for (uint32_t i = 0; i < n; i++) {
        if (syms[i] == 0 || syms[i] >= m->symtab.syms.count ||
            !st_sym_const(&m->symtab, syms[i], &out[i])) {
            return false;
        }
    }
    return true;
}

stator_status st_build_from_dims(stator_builder *b, const stator_ref *syms, uint32_t n,
                                 stator_ref *out, stator_diag **err)
{
    const bool is_scalar = n == UINT32_MAX;
    const uint32_t count = is_scalar ? 1u : n;
    int64_t values[ST_INTS_MAX];
    *out = 0;
    ST_REQUIRE_LIST(syms, count, err);
    if (count <= ST_INTS_MAX && all_const(b->module, syms, count, values)) {
        const stator_ref dim = st_sym_int(&b->module->symtab, count);
        const stator_ref type = st_module_type(b->module, STATOR_I64, is_scalar ? 0 : 1, &dim);
        return st_build_constant(b, type, values, count * sizeof values[0], out, err);
    }
    const stator_attr attrs[] = {
        {.name = "values", .kind = STATOR_ATTR_DIMS, .count = count, .list = syms},
        {.name = "scalar", .kind = STATOR_ATTR_INT, .i = is_scalar}};
    return st_build_op(b, "dims", 0, NULL, 2, attrs, 1, out, err);
}
