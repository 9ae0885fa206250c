/* Layers that a model has as one op: recurrent ones, attention with heads and masks; and attention
 * spelled out, which recompose finds. */
#include "gf_make.h"

#include <inttypes.h>

#define N(list) ((int64_t)(sizeof(list) / sizeof((list)[0])))

/* A symbol, where one may be used, or one of the sizes. */
static gf_dim length(gf_program *p, int symbol)
{
    static const int64_t sizes[] = {1, 2, 3, 5, 8, 17};
    return p->is_used[symbol] && gf_chance(p, 50) ? (gf_dim){0, symbol == 0, symbol == 1}
                                                  : gf_const(sizes[gf_below(p, N(sizes))]);
}

/* ---- recurrent layers ---- */

/* Lengths of sequences, 0 to all of it. */
static int lengths(gf_program *p, gf_dim batch, gf_dim steps)
{
    const gf_dim below = {steps.c + 1, steps.a, steps.b};
    const int any = gf_index_input(p, 1, &batch, below);
    if (any < 0) {
        return -1;
    }
    const uint8_t dtype = p->values[any].dtype;
    const int args[2] = {any, gf_scalar(p, dtype, 0)};
    return gf_node_add(p, "max", 2, args, dtype, 1, &batch);
}

static int maybe(gf_program *p, int percent, uint8_t dtype, int rank, const gf_dim *dims)
{
    return gf_chance(p, percent) ? gf_weights(p, dtype, rank, dims) : GF_ABSENT;
}

int gf_make_recurrent(gf_program *p)
{
    static const char *const ops[] = {"rnn", "gru", "lstm"};
    static const char *const directions[] = {"forward", "reverse", "bidirectional"};
    const int op = (int)gf_below(p, 3);
    const int direction = (int)gf_below(p, 3);
    const int64_t hidden = 1 + gf_below(p, gf_chance(p, 20) ? 20 : 6);
    const int64_t gates = op == 0 ? 1 : op == 1 ? 3 : 4;
    const gf_dim d = gf_const(direction == 2 ? 2 : 1);
    const gf_dim sizes[3] = {length(p, 0), length(p, 1), gf_const(1 + gf_below(p, 6))};
    int x = gf_chance(p, 30) ? gf_pick(p, gf_is_float, 3) : gf_input(p, STATOR_F32, 3, sizes);
    if (x < 0 || p->values[x].rank != 3 || gf_has_symbol(p->values[x].dims[2])) {
        return 0;
    }
    const gf_value t = gf_type_of(p, x);
    if (t.dims[2].c == 0) {
        return 0;
    }
    const gf_dim h = gf_const(hidden);
    const gf_dim all = gf_const(gates * hidden);
    const int args[8] = {
        x,
        gf_weights(p, t.dtype, 3, (const gf_dim[3]){d, all, t.dims[2]}),
        gf_weights(p, t.dtype, 3, (const gf_dim[3]){d, all, h}),
        maybe(p, 60, t.dtype, 2, (const gf_dim[2]){d, gf_const(all.c * 2)}),
        gf_chance(p, 30) ? lengths(p, t.dims[1], t.dims[0]) : GF_ABSENT,
        maybe(p, 40, t.dtype, 3, (const gf_dim[3]){d, t.dims[1], h}),
        op < 2 ? GF_ABSENT : maybe(p, 40, t.dtype, 3, (const gf_dim[3]){d, t.dims[1], h}),
        op < 2 ? GF_ABSENT : maybe(p, 30, t.dtype, 2, (const gf_dim[2]){d, gf_const(3 * hidden)})};
    const gf_dim y[4] = {t.dims[0], d, t.dims[1], h};
    if (gf_node_add(p, ops[op], 8, args, t.dtype, 4, y) < 0) {
        return 0;
    }
    gf_attrs(p, "hidden = %" PRId64 ", direction = \"%s\"%s%s", hidden, directions[direction],
             gf_chance(p, 20) ? ", clip = 0.75" : "",
             op == 0 || gf_chance(p, 50) ? ""
             : op == 1                   ? ", linear_before_reset = 1"
                                         : ", input_forget = 1");
    gf_set_noise(p, GF_COMPOSITE, gf_size(p, t.dims[0]) * 16 + t.dims[2].c + hidden);
    return gf_result_add(p, t.dtype, 3, y + 1) >= 0 &&
           (op < 2 || gf_result_add(p, t.dtype, 3, y + 1) >= 0);
}

/* ---- attention ---- */

/* Broadcasts to [batch, heads, queries, keys]. */
static int mask_of(gf_program *p, uint8_t dtype, const gf_dim *full)
{
    gf_dim dims[4];
    const int rank = gf_chance(p, 50) ? 2 : 1 + (int)gf_below(p, 4);
    for (int a = 0; a < rank; a++) {
        dims[a] = gf_chance(p, 30) ? gf_const(1) : full[4 - rank + a];
    }
    return gf_input(p, gf_chance(p, 60) ? STATOR_BOOL : dtype, rank, dims);
}

int gf_make_heads(gf_program *p)
{
    static const uint8_t dtypes[] = {STATOR_F32, STATOR_F32, STATOR_BF16, STATOR_F16};
    static const int64_t depths[] = {1, 2, 4, 5, 8, 16, 17};
    const uint8_t dtype = dtypes[gf_below(p, N(dtypes))];
    const int64_t groups = 1 + gf_below(p, 2);
    const gf_dim batch = gf_const(1 + gf_below(p, 2));
    const gf_dim heads = gf_const(groups * (1 + gf_below(p, 3)));
    const gf_dim queries = length(p, 0);
    const gf_dim keys = gf_chance(p, 40) ? queries : length(p, 1);
    const gf_dim depth = gf_const(depths[gf_below(p, N(depths))]);
    const gf_dim wide = gf_const(depths[gf_below(p, N(depths))]);
    const gf_dim q[4] = {batch, heads, queries, depth};
    const gf_dim k[4] = {batch, gf_const(groups), keys, depth};
    const gf_dim v[4] = {batch, gf_const(groups), keys, wide};
    const gf_dim out[4] = {batch, heads, queries, wide};
    const gf_dim full[4] = {batch, heads, queries, keys};
    const int has_mask = gf_chance(p, 50);
    const int args[4] = {gf_input(p, dtype, 4, q), gf_input(p, dtype, 4, k),
                         gf_input(p, dtype, 4, v), has_mask ? mask_of(p, dtype, full) : GF_ABSENT};
    if (gf_node_add(p, "sdpa", 3 + has_mask, args, dtype, 4, out) < 0) {
        return 0;
    }
    gf_attrs(p, "is_causal = %d%s", gf_chance(p, 40), gf_chance(p, 20) ? ", scale = 0.25" : "");
    gf_set_noise(p, GF_COMPOSITE, 17);
    return 1;
}

static int matmul(gf_program *p, int x, int y, const gf_dim *dims, gf_dim folded)
{
    const int args[2] = {x, y};
    const int z = gf_node_add(p, "matmul", 2, args, STATOR_F32, 4, dims);
    if (z >= 0) {
        gf_set_noise(p, GF_FOLD, gf_size(p, folded));
    }
    return z;
}

static int finite_input(gf_program *p, int rank, const gf_dim *dims)
{
    const int v = gf_input(p, STATOR_F32, rank, dims);
    return v >= 0 && p->specials ? gf_finite_of(p, v) : v;
}

/* softmax(q k^T * scale + mask) v, node by node. Finite, since recompose makes it an sdpa, where a
 * key of weight 0 counts nothing and a row of -inf gives 0. */
int gf_make_spelled(gf_program *p)
{
    const gf_dim b = gf_const(1 + gf_below(p, 2));
    const gf_dim h = gf_const(1 + gf_below(p, 3));
    const gf_dim t = length(p, 0);
    const gf_dim s = gf_chance(p, 50) ? t : length(p, 1);
    const gf_dim d = gf_const(1 + gf_below(p, 8));
    const gf_dim scores[4] = {b, h, t, s};
    const gf_dim transposed[4] = {b, h, d, s};
    const int q = finite_input(p, 4, (const gf_dim[4]){b, h, t, d});
    int k = finite_input(
        p, 4, gf_chance(p, 50) ? (const gf_dim[4]){b, h, s, d} : (const gf_dim[4]){b, s, h, d});
    const int v = finite_input(p, 4, (const gf_dim[4]){b, h, s, d});
    if (q < 0 || k < 0 || v < 0 || gf_size(p, s) == 0) {
        return 0;
    }
    const int is_apart = gf_same_dim(p->values[k].dims[1], h); /* heads before the sequence */
    k = gf_node_add(p, "transpose", 1, &k, STATOR_F32, 4, transposed);
    if (k < 0) {
        return 0;
    }
    gf_attrs(p, "perm = %s", is_apart ? "[0, 1, 3, 2]" : "[0, 2, 3, 1]");
    int x = matmul(p, q, k, scores, d);
    x = gf_node_add(p, gf_chance(p, 50) ? "mul" : "div", 2,
                    (const int[2]){x, gf_scalar(p, STATOR_F32, 2)}, STATOR_F32, 4, scores);
    if (gf_chance(p, 50)) {
        const int mask = finite_input(p, 2, scores + 2);
        x = gf_node_add(p, "add", 2, (const int[2]){x, mask}, STATOR_F32, 4, scores);
    }
    x = gf_node_add(p, "softmax", 1, &x, STATOR_F32, 4, scores);
    if (x < 0) {
        return 0;
    }
    gf_attrs(p, "axis = -1");
    gf_set_noise(p, GF_COMPOSITE, gf_size(p, s));
    return matmul(p, x, v, (const gf_dim[4]){b, h, t, d}, s) >= 0;
}
