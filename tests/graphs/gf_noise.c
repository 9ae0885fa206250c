/* Rounding noise: where a float may be rounded otherwise than eager does, the noisy variant of a
 * program has more inputs, and nodes that mix them in.
 *
 * FUNCTION: the result times 1 and a few units.
 *
 * FOLD: an operand likewise, both of a contraction, more where more elements meet; what cancels but
 * for a few units is 0.
 *
 * COMPOSITE: both, and 1e-6 at most added to the result (in f64 as much less as its units are),
 * which is 0 where less is left.
 *
 * EXACT: nothing, but where add, sub, eq and ne have operands that are rounded and a few units
 * apart, these are equal: what is left is divided by, and noise does not hit 0.
 *
 * Every third variant has little of it all: large noise seldom makes the small change that matters
 * to what cancels within a node (a softmax of huge scores that are a unit apart).
 *
 * Every sixth one has none of it, but operands of COMPOSITE have a few bits less: what is a few
 * units apart becomes equal, all of it at once, which random units never make of a row (the layer
 * norm of a row whose values differ by rounding alone). To the results the same is added, so that
 * all of a row may be on one side of what should be 0: a mean that is rounded does that. What FOLD
 * sums is off one way too, all of it: sums of equal terms are rounded alike.
 *
 * A sum of bytes that is 0 is so with its scale's sign: at random.
 *
 * A convolution's padding is multiplied by weights (in conv_weight_grad by the result's gradient)
 * or left out (docs/ops.md). Where these are infinite or NaN the first is NaN, and the second may
 * take its place: everywhere in every other variant, else at random.
 *
 * In the same manner a row of attention that is not finite makes gradients of the keys that it does
 * not attend to NaN, or leaves them as they are without it (docs/ops.md).
 *
 * Overflow of f32 where eager has f64: an operand of a contraction past 2^100 may be as good as
 * infinite. Subnormal results of functions and contractions are off by units, for each product
 * one. In contractions of bf16 a subnormal operand may count as 0. Underflow: a square below
 * the smallest normal number may count as zero, so an operand that small may too (norms of order
 * 2). Each partial product of n factors is off by one subnormal unit u at most, which the factors
 * still to come enlarge; so a product is off by n * u * (the product of max(|x|, 1)), whatever the
 * order. */
#include "gf.h"
#include "gf_write.h"

#include "core/base/check.h"

#include <string.h>

#define FINE 3u   /* every third variant has little noise */
#define COARSE 6u /* every sixth one has less bits, */
#define FIRST_COARSE 4u
#define UNROUNDED                                                                                  \
    8.0                /* times as much in a body of numerics=fused, whose nodes are not in sight  \
                        */
#define COARSE_BITS 5u /* so many less at most: 16 units, what COMPOSITE may be off by */

enum { ON_OPERAND = 1, ADDED = 20001, ON_RESULT = 40001, STEP = GF_STEP };

_Static_assert(GF_NODES <= STEP && GF_ARGS * STEP < ADDED &&
                   ADDED + GF_RESULTS * STEP < ON_RESULT &&
                   ON_RESULT + GF_RESULTS * STEP < GF_WITNESS,
               "numbers overlap");

static int kind_of(int number)
{
    return number <= -ON_RESULT ? ON_RESULT : number <= -ADDED ? ADDED : ON_OPERAND;
}

static int node_of(int number)
{
    return (-kind_of(number) - number) % STEP;
}

/* The value that has the noise's shape. */
static const gf_value *shaped_as(const gf_program *p, int number)
{
    const gf_node *node = &p->nodes[node_of(number)];
    const int place = (-kind_of(number) - number) / STEP;
    return &p->values[kind_of(number) == ON_OPERAND ? node->args[place] : node->first + place];
}

static int is_float(uint8_t dtype)
{
    return dtype >= STATOR_BF16 && dtype <= STATOR_F64;
}

static int is_narrow(uint8_t dtype)
{
    return dtype == STATOR_F16 || dtype == STATOR_BF16;
}

static int is_one_of(const char *op, const char *const *list)
{
    for (; *list; list++) {
        if (strcmp(op, *list) == 0) {
            return 1;
        }
    }
    return 0;
}

static int is_product(const gf_node *node)
{
    static const char *const ops[] = {"reduce_prod", "cumprod", NULL};
    return is_one_of(node->op, ops);
}

/* Squares of f16 are no small numbers of f32. */
static int is_of_squares(const gf_program *p, const gf_node *node)
{
    static const char *const ops[] = {"lp_norm", "reduce_l2", "lp_pool", NULL};
    return is_one_of(node->op, ops) && p->values[node->args[0]].dtype != STATOR_F16;
}

static int is_contraction(const gf_node *node)
{
    static const char *const ops[] = {"matmul", "einsum",        "conv",        "conv_transpose",
                                      "sdpa",   "sdpa_gradient", "dot_general", "conv_weight_grad",
                                      NULL};
    return is_one_of(node->op, ops);
}

static int is_attention_gradient(const gf_node *node)
{
    return strcmp(node->op, "sdpa_gradient") == 0;
}

/* Does it read outside its input, at some sizes at least? */
static int is_padded(const gf_node *node)
{
    static const char *const ops[] = {"conv", "conv_weight_grad", NULL};
    const char *pads = is_one_of(node->op, ops) ? strstr(node->attrs, "pads = [") : NULL;
    return pads != NULL && pads[8 + strspn(pads + 8, "0, ")] != ']';
}

/* Is it made of bytes by what is exact? */
static int is_of_bytes(const gf_program *p, int value)
{
    uint8_t marks[GF_VALUES] = {0};
    for (int v = 0; v <= value; v++) {
        const gf_value *at = &p->values[v];
        const gf_node *node = at->is_input || at->node < 0 ? NULL : &p->nodes[at->node];
        marks[v] = at->dtype == STATOR_I8 || at->dtype == STATOR_U8;
        for (int i = 0; node && node->noise == GF_EXACT && i < node->n_args; i++) {
            marks[v] |= node->args[i] >= 0 && marks[node->args[i]];
        }
    }
    return marks[value];
}

/* Its sum may be one of bytes, times a scale. */
static int is_scaled(const gf_program *p, const gf_node *node)
{
    return is_contraction(node) && node->noise == GF_FOLD && node->n_args > 1 &&
           is_of_bytes(p, node->args[0]) && is_of_bytes(p, node->args[1]);
}

static int is_sum(const gf_node *node)
{
    return node->noise == GF_FOLD && (is_contraction(node) || strcmp(node->op, "reduce_sum") == 0);
}

/* A subnormal result is off by units, which are large beside it. */
static int has_units(const gf_node *node)
{
    return node->noise == GF_FUNCTION || is_sum(node);
}

/* Sums of products in f32: one of them may be infinite. */
static int may_overflow(const gf_program *p, const gf_node *node, int place)
{
    const uint8_t dtype = p->values[node->args[place]].dtype;
    return is_contraction(node) && (dtype == STATOR_F32 || dtype == STATOR_BF16);
}

/* The most noise (gf_noise) among what made the value. */
static int noise_before(const gf_program *p, int value)
{
    uint8_t marks[GF_VALUES] = {0};
    for (int k = 0; k <= p->values[value].node; k++) {
        const gf_node *node = &p->nodes[k];
        uint8_t noise = (uint8_t)node->noise;
        for (int i = 0; i < node->n_args; i++) {
            if (node->args[i] >= 0 && marks[node->args[i]] > noise) {
                noise = marks[node->args[i]];
            }
        }
        for (int i = 0; i < node->n_results; i++) {
            marks[node->first + i] = p->values[node->first + i].is_input ? GF_EXACT : noise;
        }
    }
    return marks[value];
}

/* May the second operand be the first one, or what takes it away, but for rounding? */
static int may_cancel(const gf_program *p, const gf_node *node, int place)
{
    static const char *const ops[] = {"add", "sub", "eq", "ne", NULL};
    return place == 1 && node->noise == GF_EXACT && is_one_of(node->op, ops) &&
           is_float(p->values[node->args[1]].dtype) &&
           (noise_before(p, node->args[0]) || noise_before(p, node->args[1]) ||
            gf_is_unrounded(p, node, 0) || gf_is_unrounded(p, node, 1));
}

/* Rounding within a body shows at any operand. In a contraction that of one alone would move all
 * results of a row alike, ties and differences of scores with them. The gradient of attention has a
 * second product, of dy with v, from which its mean is taken. */
static int operands_with_noise(const gf_node *node)
{
    if (is_attention_gradient(node)) {
        return 4;
    }
    return node->body[0] ? GF_ARGS : is_contraction(node) ? 2 : 1;
}

/* Of the operand or the result at a place. */
static int has_noise(const gf_program *p, const gf_node *node, int kind, int place)
{
    const int is_composite = node->noise == GF_COMPOSITE;
    if (kind == ON_OPERAND && place < node->n_args &&
        (may_cancel(p, node, place) || gf_is_unrounded(p, node, place))) {
        return 1;
    }
    if (kind == ON_OPERAND) {
        return place < operands_with_noise(node) && (is_composite || node->noise == GF_FOLD) &&
               place < node->n_args && node->args[place] >= 0 &&
               is_float(p->values[node->args[place]].dtype);
    }
    if (place >= node->n_results || !is_float(p->values[node->first + place].dtype)) {
        return 0;
    }
    return kind == ADDED ? is_composite || is_product(node) || has_units(node)
                         : is_composite || node->noise == GF_FUNCTION;
}

int gf_noise_inputs(const gf_program *p, int k, int *out)
{
    static const int kinds[] = {ON_OPERAND, ADDED, ON_RESULT};
    int n = 0;
    for (int i = 0; i < 3; i++) {
        for (int place = 0; place < (i == 0 ? GF_ARGS : GF_RESULTS); place++) {
            if (has_noise(p, &p->nodes[k], kinds[i], place)) {
                out[n++] = -kinds[i] - k - STEP * place;
            }
        }
    }
    return n;
}

/* ---- contents ---- */

gf_value gf_noise_type(const gf_program *p, int number)
{
    gf_value v = *shaped_as(p, number);
    if (kind_of(number) == ADDED && is_product(&p->nodes[node_of(number)]) && is_narrow(v.dtype)) {
        v.dtype = STATOR_F32; /* which products of small dtypes are made in */
    }
    return v;
}

static double epsilon(uint8_t dtype)
{
    return dtype == STATOR_F64   ? 0x1p-52
           : dtype == STATOR_F32 ? 0x1p-23
           : dtype == STATOR_F16 ? 0x1p-10
                                 : 0x1p-7;
}

static double smallest(uint8_t dtype)
{
    return dtype == STATOR_F64   ? 0x1p-1074
           : dtype == STATOR_F32 ? 0x1p-149
           : dtype == STATOR_F16 ? 0x1p-24
                                 : 0x1p-133;
}

/* What is added to 1 in f32, in another dtype: narrower ones are made in f32. */
static double in_dtype(double in_f32, uint8_t dtype)
{
    return dtype == STATOR_F64 ? in_f32 * 0x1p-29 : in_f32;
}

/* Does the operand lose bits in some variants? */
static int is_coarsened(const gf_program *p, const gf_node *node, int place)
{
    return node->noise == GF_COMPOSITE && !is_of_squares(p, node) && !may_overflow(p, node, place);
}

/* Units of a random factor. */
static double ulps_of(const gf_node *node, uint8_t dtype)
{
    const double ulps = node->noise == GF_FOLD        ? 1.0 + (double)node->folded / 8.0
                        : node->noise == GF_COMPOSITE ? 16.0 + (double)node->folded / 8.0
                                                      : 4.0;
    return is_narrow(dtype) ? 1.0 + ulps / 64.0 : ulps;
}

/* Of such a variant: 1 + 2^k on an operand that loses k bits; on results of COMPOSITE, the same to
 * all, one way, the other or none, and so on what FOLD sums; else no noise. */
static double coarse_number(const gf_program *p, int number, uint64_t variant)
{
    const int kind = kind_of(number);
    const int place = kind == ON_OPERAND ? (-kind - number) / STEP : 0;
    const gf_node *node = &p->nodes[node_of(number)];
    const uint8_t dtype = gf_noise_type(p, number).dtype;
    const uint64_t round = variant / COARSE;
    const uint64_t bits = is_narrow(dtype) ? 2 : COARSE_BITS;
    if (kind == ON_OPERAND && is_coarsened(p, node, place)) {
        return 1 + (double)(UINT64_C(1) << (bits - round % bits));
    }
    if (kind == ADDED && node->noise == GF_COMPOSITE) {
        return (round % 3 == 2 ? -1 : (double)(round % 3)) * in_dtype(1e-6, dtype);
    }
    if (kind == ON_OPERAND && place == 0 && node->noise == GF_FOLD) {
        const double way = round % 3 == 2 ? -1 : (double)(round % 3);
        return 1 + way * ulps_of(node, dtype) * epsilon(dtype);
    }
    return kind == ADDED ? 0 : 1;
}

double gf_noise_number(const gf_program *p, int number, uint64_t variant, double unit)
{
    const gf_node *node = &p->nodes[node_of(number)];
    const uint8_t dtype = gf_noise_type(p, number).dtype;
    const int is_fine = variant % FINE == 0;
    if (variant % COARSE == FIRST_COARSE) {
        return coarse_number(p, number, variant);
    }
    if (kind_of(number) == ADDED) {
        const int64_t units = is_narrow(dtype) ? 1 : 1 + node->folded; /* its sums are in f32 */
        return has_units(node) || is_product(node) ? unit * (double)units * smallest(dtype)
                                                   : unit * in_dtype(is_fine ? 1e-7 : 1e-6, dtype);
    }
    double ulps = ulps_of(node, dtype);
    ulps = is_fine && !is_narrow(dtype) ? 1.0 + ulps / 64.0 : ulps;
    ulps *= p->is_fused && is_narrow(dtype) && node->body[0] && !is_fine ? UNROUNDED : 1.0;
    return 1.0 + unit * ulps * epsilon(dtype);
}

/* ---- text ---- */

void gf_write_noise_input(const gf_program *p, gf_writer *w, int number)
{
    const int kind = kind_of(number);
    const gf_value v = gf_noise_type(p, number);
    gf_add(w, "%%%c%d: ", kind == ON_RESULT ? 'r' : kind == ADDED ? 'a' : 'z', -kind - number);
    gf_add_type(w, &v);
}

int gf_is_noisy_operand(const gf_program *p, int k, int place)
{
    return has_noise(p, &p->nodes[k], ON_OPERAND, place);
}

int gf_is_noisy_result(const gf_program *p, int k, int result)
{
    return has_noise(p, &p->nodes[k], ADDED, result) ||
           has_noise(p, &p->nodes[k], ON_RESULT, result);
}

/* A subnormal operand, as random as its factor, is 0. */
static void write_flushed(gf_writer *w, int at)
{
    gf_add(w, "  %%k%d = constant {value = bf16[] {0x1p-126}}\n  %%k%d_ = lt(%%f%d_, %%k%d)\n", at,
           at, at, at);
    gf_add(w, "  %%o%d = constant {value = bf16[] {0}}\n  %%o%d_ = bit_and(%%k%d_, %%l%d_)\n", at,
           at, at, at);
    gf_add(w, "  %%y%d = select(%%o%d_, %%o%d, %%x%d)\n", at, at, at, at);
}

/* Where the operand times its noise is on the wrong side of a limit, `other` times it, which is as
 * random as the factor. */
static void write_limited(const gf_program *p, gf_writer *w, int at, int value, const char *side,
                          const char *limit, const char *other)
{
    const char *name = st_dtype_name(p->values[value].dtype);
    const int is_flushed = p->values[value].dtype == STATOR_BF16;
    gf_add(w, "  %%f%d = mul(%%v%d, %%z%d)\n  %%f%d_ = abs(%%f%d)\n", at, value, at, at, at);
    gf_add(w, "  %%b%d = constant {value = %s[] {%s}}\n", at, name, limit);
    gf_add(w, "  %%b%d_ = constant {value = %s[] {1}}\n  %%n%d = constant {value = %s[] {%s}}\n",
           at, name, at, name, other);
    gf_add(w, "  %%l%d = %s(%%f%d_, %%b%d)\n  %%l%d_ = lt(%%z%d, %%b%d_)\n", at, side, at, at, at,
           at, at);
    gf_add(w, "  %%c%d = bit_and(%%l%d, %%l%d_)\n  %%f%d__ = mul(%%f%d, %%n%d)\n", at, at, at, at,
           at, at);
    gf_add(w, "  %%%c%d = select(%%c%d, %%f%d__, %%f%d)\n", is_flushed ? 'x' : 'y', at, at, at, at);
    if (is_flushed) {
        write_flushed(w, at);
    }
}

/* Where the operands are a few units apart, or what composites add to both, what makes them equal,
 * as random as the factor. */
static void write_cancelled(const gf_program *p, gf_writer *w, int k, int at)
{
    const gf_node *node = &p->nodes[k];
    const int x = node->args[0];
    const int y = node->args[1];
    const char *name = st_dtype_name(p->values[y].dtype);
    const int is_sum = strcmp(node->op, "add") == 0;
    const int is_composite =
        noise_before(p, x) == GF_COMPOSITE || noise_before(p, y) == GF_COMPOSITE;
    const double share = (is_narrow(p->values[y].dtype) ? 2 : 16) * epsilon(p->values[y].dtype);
    /* The first operand as it is used, which is another one where it may be unrounded. */
    const char first = gf_is_noisy_operand(p, k, 0) ? 'y' : 'v';
    const int first_at = first == 'y' ? k : x;
    gf_add(w, "  %%f%d = %s(%%v%d, %%v%d)\n  %%f%d_ = abs(%%f%d)\n", at, is_sum ? "add" : "sub", x,
           y, at, at);
    gf_add(w, "  %%l%d = abs(%%v%d)\n  %%l%d_ = abs(%%v%d)\n  %%b%d = max(%%l%d, %%l%d_)\n", at, x,
           at, y, at, at, at);
    gf_add(w, "  %%n%d = constant {value = %s[] {%a}}\n  %%b%d_ = mul(%%b%d, %%n%d)\n", at, name,
           share, at, at, at);
    gf_add(w, "  %%n%d_ = constant {value = %s[] {%g}}\n  %%m%d = add(%%b%d_, %%n%d_)\n", at, name,
           is_composite ? in_dtype(4e-6, p->values[y].dtype) : 0.0, at, at, at);
    gf_add(w, "  %%c%d = lt(%%f%d_, %%m%d)\n  %%g%d = constant {value = %s[] {1}}\n", at, at, at,
           at, name);
    gf_add(w, "  %%d%d = lt(%%z%d, %%g%d)\n  %%e%d = bit_and(%%c%d, %%d%d)\n", at, at, at, at, at,
           at);
    if (is_sum) {
        gf_add(w, "  %%h%d = neg(%%%c%d)\n", at, first, first_at);
    }
    const int is_unrounded = gf_is_unrounded(p, node, 1);
    if (is_unrounded) {
        gf_write_unrounded(p, w, at, y, 'q');
    }
    gf_add(w, "  %%y%d = select(%%e%d, %%%c%d, %%%c%d)\n", at, at, is_sum ? 'h' : first,
           is_sum ? at : first_at, is_unrounded ? 'q' : 'v', is_unrounded ? at : y);
}

/* The operand times %z; where that is 1 + 2^k, the operand with k bits less (Veltkamp, 1968). */
static void write_coarse(const gf_program *p, gf_writer *w, int at, int value)
{
    gf_add(w, "  %%f%d = mul(%%v%d, %%z%d)\n  %%f%d_ = sub(%%f%d, %%v%d)\n", at, value, at, at, at,
           value);
    gf_add(w, "  %%x%d = sub(%%f%d, %%f%d_)\n  %%x%d_ = is_finite(%%x%d)\n", at, at, at, at, at);
    gf_add(w, "  %%n%d = select(%%x%d_, %%x%d, %%v%d)\n", at, at, at, value);
    gf_add(w, "  %%b%d = constant {value = %s[] {2}}\n  %%l%d = gt(%%z%d, %%b%d)\n", at,
           st_dtype_name(p->values[value].dtype), at, at, at);
    gf_add(w, "  %%y%d = select(%%l%d, %%n%d, %%f%d)\n", at, at, at, at);
}

void gf_write_noisy_operand(const gf_program *p, gf_writer *w, int k, int place)
{
    const gf_node *node = &p->nodes[k];
    const int value = node->args[place];
    const int at = k + STEP * place;
    if (may_cancel(p, node, place)) {
        write_cancelled(p, w, k, at);
    } else if (is_of_squares(p, node)) {
        const int is_wide = p->values[value].dtype == STATOR_F64;
        write_limited(p, w, at, value, "lt", is_wide ? "0x1p-511" : "0x1p-63", "0");
    } else if (may_overflow(p, node, place)) {
        write_limited(p, w, at, value, "gt", "0x1p100", "inf");
    } else if (is_coarsened(p, node, place)) {
        write_coarse(p, w, at, value);
    } else if (gf_is_unrounded(p, node, place)) {
        gf_write_unrounded(p, w, at, value, 'y');
    } else {
        gf_add(w, "  %%y%d = mul(%%v%d, %%z%d)\n", at, value, at);
    }
}

/* %w + %a * op(max(|x|, 1)), in f32 at least. Where that is infinite, so may a partial product be,
 * or none is: every other variant. */
static void write_noisy_product(const gf_program *p, gf_writer *w, int k)
{
    const gf_node *node = &p->nodes[k];
    const gf_value *v = &p->values[node->first];
    const char *wide = v->dtype == STATOR_F64 ? "f64" : "f32";
    gf_add(w, "  %%f%d = abs(%%v%d)\n  %%f%d_ = cast(%%f%d) {dtype = %s}\n", k, node->args[0], k, k,
           wide);
    gf_add(w, "  %%b%d = constant {value = %s[] {1}}\n  %%m%d = max(%%f%d_, %%b%d)\n", k, wide, k,
           k, k);
    gf_add(w, "  %%q%d = %s(%%m%d) {%s}\n  %%u%d = mul(%%q%d, %%a%d)\n", k, node->op, k,
           node->attrs, k, k, k);
    gf_add(w, "  %%e%d = cast(%%z%d) {dtype = %s}\n  %%d%d = sub(%%e%d, %%b%d)\n", k, k, wide, k, k,
           k);
    gf_add(w, "  %%e%d_ = reduce_sum(%%d%d) {axes = [", k, k);
    for (int a = 0; a < p->values[node->args[0]].rank; a++) {
        gf_add(w, "%s%d", a ? ", " : "", a);
    }
    gf_add(w, "]}\n  %%l%d_ = constant {value = %s[] {0}}\n  %%g%d = lt(%%e%d_, %%l%d_)\n", k, wide,
           k, k, k);
    gf_add(w, "  %%c%d = is_finite(%%u%d)\n  %%c%d_ = bit_or(%%c%d, %%g%d)\n", k, k, k, k, k);
    gf_add(w, "  %%h%d = select(%%c%d_, %%u%d, %%l%d_)\n", k, k, k, k);
    gf_add(w, "  %%u%d_ = cast(%%w%d) {dtype = %s}\n  %%n%d = add(%%u%d_, %%h%d)\n", k, k, wide, k,
           k, k);
    gf_add(w, "  %%v%d = cast(%%n%d) {dtype = %s}\n", node->first, k, st_dtype_name(v->dtype));
}

/* Text with @ for a number, # for that of operand 1, $ for a word: a dtype or an op. */
static void add_numbered(gf_writer *w, const char *text, int at, const char *word)
{
    for (; *text; text++) {
        if (*text == '@' || *text == '#') {
            gf_add(w, "%d", *text == '@' ? at : at + STEP);
        } else if (*text == '$') {
            gf_add(w, "%s", word);
        } else {
            gf_add(w, "%c", *text);
        }
    }
}

/* %wd: the weights, infinite ones and NaN as 1 or -1. %wf, %wg, %wh: the sign of infinite ones,
 * that without its sign, 1 for NaN. %xd, %xe, %xf, %xg: the sign of x, 1 where it has one, 1 where
 * it has none, 1. */
static const char left_out_operands[] =
    "  %ca@ = constant {value = $[] {0}}\n  %cb@ = constant {value = $[] {1}}\n"
    "  %cc@ = constant {value = $[] {-1}}\n  %cd@ = constant {value = f32[] {0}}\n"
    "  %ce@ = constant {value = f32[] {1}}\n  %cf@ = constant {value = f32[] {-1}}\n"
    "  %wa@ = is_finite(%y#)\n  %wb@ = lt(%y#, %ca@)\n  %wc@ = select(%wb@, %cc@, %cb@)\n"
    "  %wd@ = select(%wa@, %y#, %wc@)\n  %we@ = select(%wb@, %cf@, %ce@)\n"
    "  %wi@ = is_inf(%y#)\n  %wf@ = select(%wi@, %we@, %cd@)\n  %wg@ = abs(%wf@)\n"
    "  %wj@ = is_nan(%y#)\n  %wh@ = select(%wj@, %ce@, %cd@)\n"
    "  %xa@ = gt(%y@, %ca@)\n  %xb@ = lt(%y@, %ca@)\n  %xc@ = select(%xb@, %cf@, %cd@)\n"
    "  %xd@ = select(%xa@, %ce@, %xc@)\n  %xe@ = abs(%xd@)\n  %xf@ = sub(%ce@, %xe@)\n"
    "  %xg@ = add(%xe@, %xf@)\n";

/* %zk: what is summed without padding. Products that are +inf, -inf and NaN by their weights are
 * counted. */
static const char left_out_sum[] =
    "  %za@ = add(%yb@, %yc@)\n  %zb@ = gt(%za@, %cd@)\n  %zc@ = sub(%yc@, %yb@)\n"
    "  %zd@ = gt(%zc@, %cd@)\n  %ze@ = add(%yd@, %ye@)\n  %zf@ = gt(%ze@, %cd@)\n"
    "  %cg@ = constant {value = $[] {inf}}\n  %ch@ = constant {value = $[] {-inf}}\n"
    "  %ci@ = constant {value = $[] {nan}}\n  %zg@ = select(%zb@, %cg@, %ca@)\n"
    "  %zh@ = select(%zd@, %ch@, %ca@)\n  %zi@ = add(%zg@, %zh@)\n"
    "  %zj@ = select(%zf@, %ci@, %zi@)\n  %zk@ = add(%ya@, %zj@)\n";

/* %m: %w, or %zk where this is NaN: everywhere by the sum of %z, else as random as %a. */
static const char choice[] =
    "  %zs@ = constant {value = $[] {0}}\n"
    "  %zm@ = lt(%zl@, %zs@)\n  %zn@ = gt(%a@, %zs@)\n  %zo@ = bit_or(%zm@, %zn@)\n"
    "  %zp@ = is_nan(%w@)\n  %zq@ = bit_and(%zo@, %zp@)\n  %m@ = select(%zq@, %zk@, %w@)\n";

static void write_choice(const gf_program *p, gf_writer *w, const gf_node *node, int at)
{
    const int k = (int)(node - p->nodes);
    const char *name = st_dtype_name(p->values[node->first].dtype);
    gf_add(w, "  %%zt%d = constant {value = %s[] {1}}\n  %%zr%d = sub(%%z%d, %%zt%d)\n", at, name,
           at, k, at);
    gf_add(w, "  %%zl%d = reduce_sum(%%zr%d) {axes = [", at, at);
    for (int a = 0; a < p->values[node->args[0]].rank; a++) {
        gf_add(w, "%s%d", a ? ", " : "", a);
    }
    gf_add(w, "]}\n");
    add_numbered(w, choice, at, name);
}

static void write_left_out(const gf_program *p, gf_writer *w, int k)
{
    static const char *const sums[] = {"%ya@ = $(%y@, %wd@", "%yb@ = $(%xd@, %wf@",
                                       "%yc@ = $(%xe@, %wg@", "%yd@ = $(%xf@, %wg@",
                                       "%ye@ = $(%xg@, %wh@"};
    const gf_node *node = &p->nodes[k];
    const char *name = st_dtype_name(p->values[node->first].dtype);
    add_numbered(w, left_out_operands, k, name);
    for (int i = 0; i < 5; i++) {
        gf_add(w, "  ");
        add_numbered(w, sums[i], k, node->op);
        if (i == 0 && node->n_args > 2 && node->args[2] >= 0) {
            gf_add(w, ", %%v%d", node->args[2]);
        }
        gf_add(w, ") {%s}\n", node->attrs);
    }
    add_numbered(w, left_out_sum, k, name);
    write_choice(p, w, node, k);
}

/* An operand as the node reads it. */
static void add_operand(const gf_program *p, gf_writer *w, const gf_node *node, int place)
{
    const int k = (int)(node - p->nodes);
    const int is_noisy = gf_is_noisy_operand(p, k, place);
    gf_add(w, "%%%c%d", is_noisy ? 'y' : 'v', is_noisy ? k + STEP * place : node->args[place]);
}

/* The gradient of attention of other operands: their name and that of its results are followed by
 * their places. */
static void write_gradients(const gf_program *p, gf_writer *w, const gf_node *node, int at,
                            const char *results, const char *operands)
{
    for (int i = 0; i < 3; i++) {
        gf_add(w, "%s%%%s%d_%d", i ? ", " : "  ", results, i, at);
    }
    for (int i = 0; i < 4; i++) {
        gf_add(w, "%s%%%s%d_%d", i ? ", " : " = sdpa_gradient(", operands, i, at);
    }
    if (node->n_args > 4 && node->args[4] >= 0) {
        gf_add(w, ", ");
        add_operand(p, w, node, 4);
    }
    gf_add(w, ")%s%s%s\n", node->attrs[0] ? " {" : "", node->attrs, node->attrs[0] ? "}" : "");
}

/* %gu3: 1 in rows whose dq is not finite, else 0, as dy. */
static const char marked_rows[] =
    "  %gs@ = select(%gq@, %gz@, %go@)\n  %gt@ = reduce_max(%gs@) {axes = [3], keepdims = 1}\n"
    "  %gu3_@ = add(%gt@, %gn3_@)\n";

/* %gw: the keys that such a row attends to. Where each row attends to all its keys alike and dy
 * is 1 in these rows alone, these keys have a gradient of their values, %gm2. */
static const char attended_keys[] =
    "  %gv@ = reduce_max(%gm2_@) {axes = [3], keepdims = 1}\n  %gw@ = gt(%gv@, %gz@)\n";

/* %m of dk or dv: %w, or without those rows, of keys that none of them attends to. In %gc the
 * operands' elements that are not finite are 0. */
static void write_without_rows(const gf_program *p, gf_writer *w, const gf_node *node, int at)
{
    const int is_cut = p->values[node->first].is_input;
    const char *name = st_dtype_name(p->values[node->first].dtype);
    gf_add(w, "  %%gz%d = constant {value = %s[] {0}}\n  %%go%d = constant {value = %s[] {1}}\n",
           at, name, at, name);
    for (int i = 0; i < 4; i++) {
        gf_add(w, "  %%gf%d_%d = is_finite(", i, at);
        add_operand(p, w, node, i);
        gf_add(w, ")\n  %%gc%d_%d = select(%%gf%d_%d, ", i, at, i, at);
        add_operand(p, w, node, i);
        gf_add(w, ", %%gz%d)\n  %%g%c%d_%d = mul(%%gc%d_%d, %%gz%d)\n", at, i < 3 ? 'u' : 'n', i,
               at, i, at, at);
    }
    gf_add(w, "  %%gq%d = is_finite(%%%c%d)\n", at, is_cut ? 'x' : 'w',
           is_cut ? node->first : (int)(node - p->nodes));
    add_numbered(w, marked_rows, at, name);
    write_gradients(p, w, node, at, "gm", "gu");
    add_numbered(w, attended_keys, at, name);
    write_gradients(p, w, node, at, "gl", "gc");
    gf_add(w, "  %%zk%d = select(%%gw%d, %%w%d, %%gl%d_%d)\n", at, at, at, at / STEP, at);
    write_choice(p, w, node, at);
}

/* The name of what is added: %a; of the gradient of attention a %tg, as much larger as products
 * of dy with v are: their mean in a row is taken from each of them, and where one key has nearly
 * all of the attention, what is left is their rounding. That is multiplied by keys in dq, by
 * queries in dk. Elements that are not finite do not count: what they make is no matter of
 * rounding. The limit keeps one huge element from making noise of all the others. */
static const char *write_added(const gf_program *p, gf_writer *w, int at, const gf_node *node)
{
    const int result = at / STEP;
    const int factors[] = {2, 3, result == 0 ? 1 : 0};
    const int n_factors = result == 2 ? 2 : 3;
    const char *name = st_dtype_name(p->values[node->first].dtype);
    if (!is_attention_gradient(node)) {
        return "a";
    }
    gf_add(w, "  %%tc%d = constant {value = %s[] {1}}\n", at, name);
    gf_add(w, "  %%tl%d = constant {value = %s[] {10000}}\n  %%tp0_%d = abs(%%tc%d)\n", at, name,
           at, at);
    for (int i = 0; i < n_factors; i++) {
        gf_add(w, "  %%ta%d_%d = abs(%%v%d)\n  %%tb%d_%d = is_finite(%%ta%d_%d)\n", i, at,
               node->args[factors[i]], i, at, i, at);
        gf_add(w, "  %%td%d_%d = select(%%tb%d_%d, %%ta%d_%d, %%tc%d)\n", i, at, i, at, i, at, at);
        gf_add(w, "  %%te%d_%d = reduce_max(%%td%d_%d) {axes = [0, 1, 2, 3]}\n", i, at, i, at);
        gf_add(w, "  %%tf%d_%d = max(%%te%d_%d, %%tc%d)\n", i, at, i, at, at);
        gf_add(w, "  %%tp%d_%d = mul(%%tp%d_%d, %%tf%d_%d)\n", i + 1, at, i, at, i, at);
    }
    gf_add(w, "  %%tm%d = min(%%tp%d_%d, %%tl%d)\n  %%tg%d = mul(%%a%d, %%tm%d)\n", at, n_factors,
           at, at, at, at, at);
    return "tg";
}

/* %w (or %m) * %r + %a (write_added); where that is near zero, by 8 times %a, and as random as %r,
 * zero: a number that is divided by itself shows no noise but this. */
static void write_noisy_composite(const gf_program *p, gf_writer *w, int at, int v)
{
    const char *name = st_dtype_name(p->values[v].dtype);
    const gf_node *node = &p->nodes[p->values[v].node];
    const char *a = write_added(p, w, at, node);
    const int may_lack_rows = is_attention_gradient(node) && at >= STEP;
    if (may_lack_rows) {
        write_without_rows(p, w, node, at);
    }
    gf_add(w, "  %%u%d = mul(%%%c%d, %%r%d)\n  %%n%d_ = add(%%u%d, %%%s%d)\n", at,
           may_lack_rows ? 'm' : 'w', at, at, at, at, a, at);
    gf_add(w, "  %%e%d = constant {value = %s[] {0.125}}\n  %%e%d_ = mul(%%u%d, %%e%d)\n", at, name,
           at, at, at);
    gf_add(w, "  %%u%d_ = abs(%%e%d_)\n  %%a%d_ = abs(%%%s%d)\n  %%w%d_ = lt(%%u%d_, %%a%d_)\n", at,
           at, at, a, at, at, at, at);
    gf_add(w, "  %%g%d = constant {value = %s[] {1}}\n  %%g%d_ = lt(%%r%d, %%g%d)\n", at, name, at,
           at, at);
    gf_add(w, "  %%h%d = bit_and(%%w%d_, %%g%d_)\n  %%h%d_ = constant {value = %s[] {0}}\n", at, at,
           at, at, name);
    gf_add(w, "  %%v%d = select(%%h%d, %%h%d_, %%n%d_)\n", v, at, at, at);
}

/* %t: %w (or %m), or as random as %a, 0 where that is less than a few units of the sum of what is
 * added without its signs: what cancels may do so wholly. */
static void write_cancelled_sum(const gf_program *p, gf_writer *w, const gf_node *node, int at)
{
    const char u = is_padded(node) ? 'm' : 'w';
    const int k = (int)(node - p->nodes);
    const uint8_t dtype = p->values[node->first].dtype;
    const char *name = st_dtype_name(dtype);
    for (int i = 0; i < node->n_args; i++) {
        gf_add(w, "  %%i%d = abs(", k + STEP * i);
        add_operand(p, w, node, i);
        gf_add(w, ")\n");
    }
    gf_add(w, "  %%j%d = %s(%%i%d", at, node->op, k);
    for (int i = 1; i < node->n_args; i++) {
        gf_add(w, ", %%i%d", k + STEP * i);
    }
    gf_add(w, ")%s%s%s\n", node->attrs[0] ? " {" : "", node->attrs, node->attrs[0] ? "}" : "");
    gf_add(w, "  %%j%d_ = constant {value = %s[] {%a}}\n  %%p%d = mul(%%j%d, %%j%d_)\n", at, name,
           4 * epsilon(dtype), at, at, at);
    gf_add(w, "  %%p%d_ = abs(%%%c%d)\n  %%q%d = lt(%%p%d_, %%p%d)\n", at, u, at, at, at, at);
    gf_add(w, "  %%q%d_ = is_finite(%%p%d)\n  %%s%d = constant {value = %s[] {0}}\n", at, at, at,
           name);
    gf_add(w, "  %%s%d_ = gt(%%a%d, %%s%d)\n  %%o%d = bit_and(%%q%d, %%q%d_)\n", at, at, at, at, at,
           at);
    gf_add(w, "  %%o%d_ = bit_and(%%o%d, %%s%d_)\n  %%t%d = select(%%o%d_, %%s%d, %%%c%d)\n", at,
           at, at, at, at, at, u, at);
}

/* %w, times %r where there is one; and %a, where that is subnormal. */
static void write_noisy_units(const gf_program *p, gf_writer *w, const gf_node *node, int at, int v)
{
    static const char *const least[] = {"0x1p-126", "0x1p-14", "0x1p-126", "0x1p-1022"};
    const uint8_t dtype = p->values[v].dtype;
    const char *name = st_dtype_name(dtype);
    const int is_cancelled = is_sum(node) && !is_narrow(dtype);
    const char u = node->noise == GF_FUNCTION ? 'u'
                   : is_cancelled             ? 't'
                   : is_padded(node)          ? 'm'
                                              : 'w';
    if (is_padded(node)) {
        write_left_out(p, w, at);
    }
    if (is_cancelled) {
        write_cancelled_sum(p, w, node, at);
    }
    if (node->noise == GF_FUNCTION) {
        gf_add(w, "  %%u%d = mul(%%w%d, %%r%d)\n", at, at, at);
    }
    gf_add(w, "  %%n%d_ = add(%%%c%d, %%a%d)\n  %%u%d_ = abs(%%%c%d)\n", at, u, at, at, at, u, at);
    gf_add(w, "  %%e%d = constant {value = %s[] {%s}}\n  %%e%d_ = lt(%%u%d_, %%e%d)\n", at, name,
           least[dtype - STATOR_BF16], at, at, at);
    gf_add(w, "  %%g%d = constant {value = %s[] {0}}\n  %%g%d_ = gt(%%u%d_, %%g%d)\n", at, name, at,
           at, at);
    gf_add(w, "  %%h%d = bit_and(%%e%d_, %%g%d_)\n  %%%s%d = select(%%h%d, %%n%d_, %%%c%d)\n", at,
           at, at, is_scaled(p, node) ? "va" : "v", is_scaled(p, node) ? at : v, at, at, u, at);
    if (is_scaled(p, node)) {
        gf_add(w, "  %%vb%d = eq(%%va%d, %%g%d)\n  %%vc%d = gt(%%a%d, %%g%d)\n", at, at, at, at, at,
               at);
        gf_add(w, "  %%vd%d = bit_and(%%vb%d, %%vc%d)\n  %%ve%d = neg(%%va%d)\n", at, at, at, at,
               at);
        gf_add(w, "  %%v%d = select(%%vd%d, %%ve%d, %%va%d)\n", v, at, at, at);
    }
}

void gf_write_noisy_result(const gf_program *p, gf_writer *w, int k, int result)
{
    const gf_node *node = &p->nodes[k];
    const int at = k + STEP * result;
    const int v = node->first + result;
    if (is_product(node)) {
        write_noisy_product(p, w, k);
    } else if (has_units(node)) {
        write_noisy_units(p, w, node, at, v);
    } else if (has_noise(p, node, ADDED, result)) {
        write_noisy_composite(p, w, at, v);
    } else {
        gf_add(w, "  %%v%d = mul(%%w%d, %%r%d)\n", v, at, at);
    }
}
