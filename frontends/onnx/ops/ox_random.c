/* Random numbers, from the counter-based generator. A node without a seed gets one from its place
 * in the model, so that a model gives the same numbers each time it is loaded and called. */
#include "frontends/onnx/ops/ox_random.h"
#include "frontends/onnx/ox_import.h"

#include <string.h>

static stator_ref seed_of(ox_node *n)
{
    int64_t seed = 0;
    if (ox_has_attr(n, "seed")) {
        const float given = (float)ox_attr_float(n, "seed", 0);
        uint32_t bits;
        memcpy(&bits, &given, sizeof bits);
        seed = (int64_t)bits;
    } else {
        seed = (int64_t)(st_hash64(&n->im->node_count, sizeof n->im->node_count, 0) >> 1);
    }
    return ox_int(n, seed);
}

stator_ref ox_uniform(ox_node *n, uint32_t rank, const stator_ref *dims, double low, double high)
{
    return ox_op(n, "rng_uniform", STATOR_IN(seed_of(n), ox_int(n, 0)),
                 STATOR_AT(STATOR_A_DIMS("shape", rank, dims), STATOR_A_FLOAT("low", low),
                           STATOR_A_FLOAT("high", high)));
}

static stator_ref normal(ox_node *n, uint32_t rank, const stator_ref *dims)
{
    return ox_op(n, "rng_normal", STATOR_IN(seed_of(n), ox_int(n, 0)),
                 STATOR_AT(STATOR_A_DIMS("shape", rank, dims),
                           STATOR_A_FLOAT("mean", ox_attr_float(n, "mean", 0)),
                           STATOR_A_FLOAT("scale", ox_attr_float(n, "scale", 1))));
}

/* dtype attribute, else that of `like`, else f32. */
static stator_dtype random_dtype(ox_node *n, stator_ref like)
{
    if (ox_has_attr(n, "dtype")) {
        return ox_dtype_of(n, ox_attr_int(n, "dtype", 1));
    }
    return like != 0 ? ox_dtype(n, like) : STATOR_F32;
}

void ox_random(ox_node *n)
{
    const char *name = n->row->name;
    const bool is_like = strstr(name, "Like") != NULL;
    stator_ref dims[STATOR_RANK_MAX];
    uint32_t rank = 0;
    if (is_like) {
        rank = ox_dims(n, ox_need(n, 0), dims);
    } else {
        const int64_t *shape = ox_attr_ints(n, "shape", &rank);
        OX_NEED(n, shape != NULL && rank <= STATOR_RANK_MAX, "'shape' has %u entries", rank);
        for (uint32_t i = 0; i < rank; i++) {
            dims[i] = ox_sym(n, shape[i]);
        }
    }
    const stator_ref y =
        strstr(name, "Uniform") != NULL
            ? ox_uniform(n, rank, dims, ox_attr_float(n, "low", 0), ox_attr_float(n, "high", 1))
            : normal(n, rank, dims);
    ox_out(n, 0, ox_cast(n, y, random_dtype(n, is_like ? ox_in(n, 0) : 0)));
}

void ox_bernoulli(ox_node *n)
{
    const stator_ref p = ox_need(n, 0);
    stator_ref dims[STATOR_RANK_MAX];
    const uint32_t rank = ox_dims(n, p, dims);
    const stator_ref draw = ox_uniform(n, rank, dims, 0, 1);
    const stator_ref hit = ox_bin(n, "lt", draw, ox_cast(n, p, STATOR_F32));
    ox_out(n, 0, ox_cast(n, hit, random_dtype(n, p)));
}

/* Draws by inverting the running sum of the probabilities. */
void ox_multinomial(ox_node *n)
{
    static const int64_t last[1] = {-1};
    const stator_ref logits = ox_cast(n, ox_need(n, 0), STATOR_F32);
    const stator_dtype dtype = ox_dtype_of(n, ox_attr_int(n, "dtype", 6));
    ox_check_rank(n, logits, 2, 2, "the input");
    const stator_ref samples = ox_sym(n, ox_attr_int(n, "sample_size", 1));
    const stator_ref p = ox_op(n, "softmax", STATOR_IN(logits), STATOR_AT(STATOR_A_INT("axis", 1)));
    const stator_ref sums = ox_op(n, "cumsum", STATOR_IN(p), STATOR_AT(STATOR_A_INT("axis", 1)));
    const stator_ref dims[3] = {ox_dim(n, logits, 0), samples, ox_sym(n, 1)};
    const stator_ref draw = ox_uniform(n, 3, dims, 0, 1);
    const stator_ref below = ox_bin(n, "le", ox_unsqueeze(n, sums, 1), draw);
    const stator_ref index =
        ox_reduce(n, "reduce_sum", ox_cast(n, below, STATOR_I64), 1, last, false);
    const stator_ref top =
        ox_from_dim(n, ox_sym_op(n, STATOR_SYM_SUB, ox_dim(n, logits, 1), ox_sym(n, 1)));
    ox_out(n, 0, ox_cast(n, ox_bin(n, "min", index, top), dtype));
}

/* ---- Dropout ---- */

/* The share that is dropped: an operand since operator set 12, an attribute before. */
static stator_ref ratio_of(ox_node *n)
{
    if (n->version >= 12 && ox_in(n, 1) != 0) {
        return ox_cast(n, ox_reshape(n, ox_in(n, 1), 0, NULL), STATOR_F32);
    }
    return ox_scalar(n, STATOR_F32, n->version < 12 ? ox_attr_float(n, "ratio", 0.5) : 0.5);
}

/* Is the ratio known, and what is it? */
static bool is_ratio_known(ox_node *n, double *out)
{
    uint32_t count = 0;
    const double *ratio = NULL;
    if (n->version < 12) {
        *out = ox_attr_float(n, "ratio", 0.5);
        return true;
    }
    ratio = ox_in(n, 1) != 0 ? ox_known_floats(n, ox_in(n, 1), &count) : NULL;
    *out = ratio != NULL && count == 1 ? ratio[0] : 0.5;
    return ox_in(n, 1) == 0 || (ratio != NULL && count == 1);
}

/* x by the share that is kept. Where nothing is, 1 stands for it, so that no 0 / 0 reaches a
 * gradient: those of PyTorch are 0 then. */
static stator_ref scale_up(ox_node *n, stator_ref x, stator_ref ratio)
{
    double known = 0;
    const bool is_known = is_ratio_known(n, &known);
    if (is_known && known == 1) {
        return x;
    }
    const stator_ref share = ox_sub(n, ox_scalar(n, STATOR_F32, 1), ratio);
    const stator_ref keep = ox_cast(n, share, ox_dtype(n, x));
    const stator_ref is_none = is_known ? 0 : ox_bin(n, "eq", keep, ox_like(n, x, 0));
    return ox_div(n, x, is_known ? keep : ox_select(n, is_none, ox_like(n, x, 1), keep));
}

void ox_dropout(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    stator_ref dims[STATOR_RANK_MAX];
    double known = 0;
    const uint32_t rank = ox_dims(n, x, dims);
    const stator_dtype mask_dtype = n->version < 10 ? ox_dtype(n, x) : STATOR_BOOL;
    const bool is_training = n->version >= 12 && ox_in(n, 2) != 0 &&
                             ox_need_int(n, ox_in(n, 2), "the training mode") != 0;
    const bool drops_nothing = is_ratio_known(n, &known) && known == 0;
    if (drops_nothing || !ox_is_training(n, is_training)) {
        ox_out(n, 0, x);
        ox_out(n, 1, ox_wants(n, 1) ? ox_expand(n, ox_scalar(n, mask_dtype, 1), rank, dims) : 0);
        return;
    }
    const stator_ref ratio = ratio_of(n);
    const stator_ref mask = ox_bin(n, "ge", ox_uniform(n, rank, dims, 0, 1), ratio);
    ox_out(n, 0, ox_select(n, mask, scale_up(n, x, ratio), ox_like(n, x, 0)));
    ox_out(n, 1, ox_wants(n, 1) ? ox_cast(n, mask, mask_dtype) : 0);
}
