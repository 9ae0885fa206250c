/* A program from a seed, and the contents of its inputs. */
#include "gf_make.h"

#include "core/base/convert.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- programs ---- */

static gf_dim random_dim(gf_program *p)
{
    static const int64_t common[] = {2, 3, 4, 5, 6, 7, 8, 16, 17};
    static const int64_t edges[] = {0, 1, 1, 1, 33, 64, 100};
    static const int64_t large[] = {31, 64, 100, 129, 257, 1000};
    const int64_t kind = gf_below(p, 10);
    if (kind < 2 && p->is_used[0]) {
        return (gf_dim){0, 1, 0};
    }
    if (kind == 2 && p->is_used[1]) {
        return (gf_dim){0, 0, 1};
    }
    if (p->is_large && kind > 4) {
        return gf_const(large[gf_below(p, 6)]);
    }
    return kind < 8 ? gf_const(common[gf_below(p, 9)]) : gf_const(edges[gf_below(p, 7)]);
}

static void add_inputs(gf_program *p)
{
    static const uint8_t dtypes[] = {STATOR_F32, STATOR_F32,  STATOR_F32, STATOR_F32,
                                     STATOR_F16, STATOR_BF16, STATOR_F64, STATOR_I32,
                                     STATOR_I64, STATOR_U8,   STATOR_I8,  STATOR_BOOL};
    const int n = 1 + (int)gf_below(p, 2);
    for (int made = 0, tries = 0; made < n && tries < 20; tries++) {
        gf_dim dims[GF_RANK];
        const int rank = p->chains         ? 2 + (int)gf_below(p, 3)
                         : gf_chance(p, 5) ? 0
                                           : 1 + (int)gf_below(p, 4);
        for (int a = 0; a < rank; a++) {
            dims[a] = random_dim(p);
        }
        made += gf_input(p, dtypes[gf_below(p, p->chains ? 6 : 12)], rank, dims) >= 0;
    }
}

/* What nothing reads is an output; the newest of them. */
static void choose_outputs(gf_program *p)
{
    uint8_t is_read[GF_VALUES] = {0};
    for (int k = 0; k < p->n_nodes; k++) {
        for (int i = 0; i < p->nodes[k].n_args; i++) {
            if (p->nodes[k].args[i] >= 0) {
                is_read[p->nodes[k].args[i]] = 1;
            }
        }
    }
    for (int v = p->n_values - 1; v >= 0 && p->n_outputs < GF_GROWN_OUTPUTS; v--) {
        if (!p->values[v].is_input && (!is_read[v] || gf_chance(p, 8))) {
            p->outputs[p->n_outputs++] = v;
        }
    }
    if (p->n_outputs == 0) {
        p->outputs[p->n_outputs++] = p->n_values - 1;
    }
}

/* Outputs that share: the same value twice, an input, a view of an output or of an input. */
static void share_outputs(gf_program *p)
{
    static const gf_maker views[] = {gf_make_transpose, gf_make_reshape, gf_make_slice};
    for (int k = 0; k < 2 && p->n_outputs < GF_GROWN_OUTPUTS && gf_chance(p, 40); k++) {
        const int is_input = gf_chance(p, 30);
        const int v = is_input ? (int)gf_below(p, 1) : p->outputs[gf_below(p, p->n_outputs)];
        p->next = v + 1;
        const int is_view = gf_chance(p, 60) && views[gf_below(p, 3)](p);
        p->next = 0;
        p->outputs[p->n_outputs++] = is_view ? gf_newest(p)->first : v;
    }
}

void gf_generate(gf_program *p, uint64_t seed)
{
    static const int64_t sizes[] = {1, 2, 3, 5, 8, 17, 33, 0};
    memset(p, 0, sizeof *p);
    p->seed = seed;
    p->state = seed * UINT64_C(0xd1342543de82ef95) + 1;
    for (int k = 0; k < 2; k++) {
        p->is_used[k] = gf_chance(p, 35);
        p->sizes[k] = sizes[gf_below(p, 8)];
        p->lowest[k] = p->sizes[k] > 0 && gf_chance(p, 50) ? 1 : 0;
    }
    p->chains = getenv("GF_CHAINS") != NULL;
    p->specials = gf_chance(p, 30);
    p->is_large = gf_chance(p, 6);
    do {
        add_inputs(p);
    } while (p->n_values == 0);
    const int least = p->chains ? 4 : 1;
    const int n = least + (int)gf_below(p, gf_chance(p, 20) ? 25 : 9);
    for (int made = 0, tries = 0; made < n && tries < 60; tries++) {
        made += gf_grow(p);
    }
    choose_outputs(p);
    if (gf_chance(p, 30)) {
        share_outputs(p);
    }
}

/* ---- contents ---- */

static uint64_t mixed(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t state = a * UINT64_C(0x9e3779b97f4a7c15) ^ (b << 32) ^ c;
    (void)gf_next(&state);
    return gf_next(&state);
}

static double unit(uint64_t bits) /* in [-1, 1) */
{
    return (double)(int64_t)bits * 0x1p-63;
}

/* Is it an operand of such an op, in the first letters of its name? */
static int is_operand(const gf_program *p, int number, const char *op, int place)
{
    for (int k = 0; k < p->n_nodes; k++) {
        const gf_node *node = &p->nodes[k];
        if (node->n_args > place && node->args[place] == number &&
            strncmp(node->op, op, strlen(op)) == 0) {
            return 1;
        }
    }
    return 0;
}

static int is_masked(const gf_program *p, int number)
{
    for (int k = 0; k < p->n_nodes; k++) {
        const gf_node *node = &p->nodes[k];
        if (strcmp(node->op, "sdpa") == 0 && node->n_args > 3 &&
            (node->args[0] == number || node->args[1] == number)) {
            return 1;
        }
    }
    return 0;
}

/* Of a recurrent layer: what is rounded within is multiplied by weights, 1 - sigmoid of much is 0
 * in f32, and 0 times an infinite state no number. */
static int is_within_layer(const gf_program *p, int number)
{
    static const char *const ops[] = {"rnn", "gru", "lstm"};
    for (int k = 0; k < 3; k++) {
        for (int place = 1; place < GF_ARGS; place++) {
            if (is_operand(p, number, ops[k], place)) {
                return 1;
            }
        }
    }
    return 0;
}

/* Whether a transposed convolution multiplies the zeros between its inputs by an infinite weight is
 * nobody's business, nor whether sdpa multiplies the value of a key that is not attended to by 0,
 * or adds its mask of -inf to a score that is none. */
static int is_finite_only(const gf_program *p, int number)
{
    return is_operand(p, number, "conv_transpose", 1) || is_operand(p, number, "sdpa", 2) ||
           is_masked(p, number) || is_within_layer(p, number);
}

static double float_of(int specials, uint64_t bits)
{
    /* Not so large that f32 sums overflow where wider ones do not. */
    static const double special[] = {NAN, INFINITY, -INFINITY, -0.0, 0.0, 1e9, -1e-40, 65504.0};
    const uint64_t kind = (bits >> 8) % 16;
    if (specials && kind == 0) {
        return special[bits % 8];
    }
    if (kind < 4) {
        return (double)((int64_t)(bits >> 16) % 5); /* equal ones, zeros */
    }
    return unit(bits * UINT64_C(0x2545f4914f6cdd1d)) * 3.0;
}

static int64_t int_of(const gf_program *p, const gf_value *v, uint64_t bits)
{
    if (v->is_index) {
        const int64_t n = gf_size(p, v->below);
        return n > 0 ? (int64_t)(bits % (uint64_t)(2 * n)) - n : 0;
    }
    if (v->dtype == STATOR_BOOL) {
        return (int64_t)(bits & 1u);
    }
    return p->specials && bits % 8 == 0
               ? (int64_t)((bits >> 3) * (bits >> 60))
               : (int64_t)((bits >> 8) % 11) - (v->dtype >= STATOR_U8 ? 0 : 5);
}

static int is_witness(int number)
{
    return number == -GF_WITNESS || number == -GF_WITNESS - 1;
}

static void fill(const gf_program *p, int number, uint64_t variant, uint8_t dtype, int64_t n,
                 void *data)
{
    const int specials = p->specials && !is_finite_only(p, number);
    const int is_score = is_operand(p, number, "sdpa", 0) || is_operand(p, number, "sdpa", 1) ||
                         is_operand(p, number, "sdpa", 3); /* huge ones lose what they differ by */
    const int is_mask = is_operand(p, number, "sdpa", 3);
    for (int64_t i = 0; i < n; i++) {
        const uint64_t bits =
            mixed(p->seed + variant * 977, (uint64_t)(int64_t)number, (uint64_t)i);
        if (is_witness(number)) {
            st_store_i64(dtype, data, i, 0);
        } else if (number < 0) {
            st_store_f64(dtype, data, i, gf_noise_number(p, number, variant, unit(bits)));
        } else if (dtype >= STATOR_BF16) {
            double x = float_of(specials, bits);
            x = is_score && x > 100 && isfinite(x) ? 100 : x;
            x = is_mask && !isfinite(x) ? -INFINITY : x; /* others may meet the -inf of causality */
            /* Rounding to bf16 flushes subnormal numbers on some processors. */
            st_store_f64(dtype, data, i, dtype == STATOR_BF16 && x == -1e-40 ? -1e-37 : x);
        } else {
            st_store_i64(dtype, data, i, int_of(p, &p->values[number], bits));
        }
    }
}

stator_status gf_tensor(stator_ctx *ctx, const gf_program *p, int number, uint64_t variant,
                        stator_tensor **out)
{
    int64_t shape[GF_RANK];
    gf_value v = {.dtype = STATOR_BOOL, .rank = 1};
    if (is_witness(number)) {
        v.dims[0] = number == -GF_WITNESS ? (gf_dim){0, 1, 0} : (gf_dim){0, 0, 1};
    } else if (number < 0) {
        v = gf_noise_type(p, number);
    } else {
        v = p->values[number];
    }
    for (int a = 0; a < v.rank; a++) {
        shape[a] = gf_size(p, v.dims[a]);
    }
    const stator_status status = stator_tensor_create(ctx, v.dtype, v.rank, shape, out);
    if (status == STATOR_OK) {
        fill(p, number, variant, v.dtype, gf_numel(p, &v), stator_tensor_data(*out));
    }
    return status;
}
