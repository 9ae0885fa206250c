/* Normalisations. What the operator texts compute in a wider type (stash_type) is computed so. */
#include "frontends/onnx/onnx.h"

static double epsilon_of(ox_node *n)
{
    return ox_attr_float(n, "epsilon", 1e-5);
}

static bool same_dtypes(ox_node *n, const stator_ref *v, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        if (ox_dtype(n, v[i]) != ox_dtype(n, v[0])) {
            return false;
        }
    }
    return true;
}

/* Operands of batch norm in one dtype; returns the dtype of x. */
static stator_dtype unify(ox_node *n, stator_ref *v, uint32_t count)
{
    const stator_dtype own = ox_dtype(n, v[0]);
    stator_dtype wide = STATOR_F32;
    if (same_dtypes(n, v, count)) {
        return own;
    }
    for (uint32_t i = 0; i < count; i++) {
        wide = ox_dtype(n, v[i]) == STATOR_F64 ? STATOR_F64 : wide;
    }
    for (uint32_t i = 0; i < count; i++) {
        v[i] = ox_cast(n, v[i], wide);
    }
    return own;
}

static void batch_norm_train(ox_node *n, const stator_ref *v, stator_dtype own,
                             const stator_dtype stats[2])
{
    stator_ref out[3];
    stator_emit_node(&n->e, "batch_norm_train", 5, v,
                     STATOR_AT(STATOR_A_FLOAT("eps", epsilon_of(n)),
                               STATOR_A_FLOAT("momentum", ox_attr_float(n, "momentum", 0.9))),
                     0, NULL, 3, out);
    ox_out(n, 0, ox_cast(n, out[0], own));
    ox_out(n, 1, ox_wants(n, 1) ? ox_cast(n, out[1], stats[0]) : 0);
    ox_out(n, 2, ox_wants(n, 2) ? ox_cast(n, out[2], stats[1]) : 0);
}

/* The running statistics stay, where the model is one for training as well. */
static void batch_norm(ox_node *n, const stator_ref *v, stator_dtype own,
                       const stator_dtype stats[2])
{
    const stator_ref y =
        ox_op(n, "batch_norm", 5, v, STATOR_AT(STATOR_A_FLOAT("eps", epsilon_of(n))));
    ox_out(n, 0, ox_cast(n, y, own));
    for (uint32_t i = 1; i < 3; i++) {
        ox_out(n, i, ox_wants(n, i) ? ox_cast(n, v[i + 2], stats[i - 1]) : 0);
    }
}

/* Statistics for each activation instead of each channel (spatial = 0, operator sets below 9). */
static stator_ref batch_norm_each(ox_node *n, const stator_ref *v)
{
    const stator_ref eps = ox_like(n, v[4], epsilon_of(n));
    const stator_ref rstd = ox_un(n, "rsqrt", ox_add(n, v[4], eps));
    const stator_ref centred = ox_mul(n, ox_sub(n, v[0], v[3]), rstd);
    return ox_add(n, ox_mul(n, centred, v[1]), v[2]);
}

void ox_batch_norm(ox_node *n)
{
    stator_ref v[5];
    for (uint32_t i = 0; i < 5; i++) {
        v[i] = ox_need(n, i);
    }
    bool is_training = n->version >= 14 ? ox_attr_int(n, "training_mode", 0) != 0 : ox_wants(n, 1);
    if (n->version < 7) {
        is_training = is_training && ox_attr_int(n, "is_test", 0) == 0;
    }
    const stator_dtype stats[2] = {ox_dtype(n, v[3]), ox_dtype(n, v[4])};
    const stator_dtype own = unify(n, v, 5);
    const bool is_each = n->version < 9 && ox_attr_int(n, "spatial", 1) == 0;
    if (ox_is_training(n, is_training)) {
        OX_NEED(n, !is_each,
                "spatial is 0: statistics of each activation have no mode for training here");
        batch_norm_train(n, v, own, stats);
    } else if (is_each) {
        ox_out(n, 0, ox_cast(n, batch_norm_each(n, v), own));
    } else {
        batch_norm(n, v, own, stats);
    }
}

/* One number a group to one a channel (GroupNormalization before operator set 21). */
static stator_ref by_channel(ox_node *n, stator_ref v, stator_ref channels, int64_t groups)
{
    const stator_ref g = ox_sym(n, groups);
    const stator_ref each = ox_sym_op(n, STATOR_SYM_FLOORDIV, channels, g);
    const stator_ref column[2] = {g, ox_sym(n, 1)};
    const stator_ref wide[2] = {g, each};
    return ox_reshape(n, ox_expand(n, ox_reshape(n, v, 2, column), 2, wide), 1, &channels);
}

void ox_group_norm(ox_node *n)
{
    stator_ref v[3] = {ox_need(n, 0), ox_need(n, 1), ox_need(n, 2)};
    const int64_t groups = ox_attr_int_need(n, "num_groups");
    ox_expect(n, groups >= 1, "attribute 'num_groups' is %lld", (long long)groups);
    if (n->version < 21) {
        const stator_ref channels = ox_dim(n, v[0], 1);
        v[1] = by_channel(n, v[1], channels, groups);
        v[2] = by_channel(n, v[2], channels, groups);
    }
    ox_out(n, 0,
           ox_op(n, "group_norm", 3, v,
                 STATOR_AT(STATOR_A_INT("groups", groups), STATOR_A_FLOAT("eps", epsilon_of(n)))));
}

void ox_instance_norm(ox_node *n)
{
    const stator_ref v[3] = {ox_need(n, 0), ox_need(n, 1), ox_need(n, 2)};
    const int64_t channels = ox_dim_need(n, v[1], 0, "the number of channels");
    ox_out(
        n, 0,
        ox_op(n, "group_norm", 3, v,
              STATOR_AT(STATOR_A_INT("groups", channels), STATOR_A_FLOAT("eps", epsilon_of(n)))));
}

/* Does w have exactly the normalised axes of x? Otherwise it is broadcast after the norm. */
static bool fits_axes(ox_node *n, stator_ref x, stator_ref w, uint32_t axis)
{
    const uint32_t rank = ox_rank(n, x);
    if (ox_rank(n, w) != rank - axis) {
        return false;
    }
    for (uint32_t i = axis; i < rank; i++) {
        if (ox_dim(n, x, i) != ox_dim(n, w, (int64_t)i - axis)) {
            return false;
        }
    }
    return true;
}

void ox_layer_norm(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    const stator_ref w = ox_need(n, 1);
    const stator_ref b = ox_in(n, 2);
    const uint32_t axis = ox_axis(n, ox_attr_int(n, "axis", -1), ox_rank(n, x));
    const stator_dtype stash = ox_dtype_of(n, ox_attr_int(n, "stash_type", 1));
    stator_ref out[3];
    const bool fits = ox_dtype(n, x) == ox_dtype(n, w) && fits_axes(n, x, w, axis) &&
                      (b == 0 || fits_axes(n, x, b, axis));
    stator_emit_node(&n->e, "layer_norm", STATOR_IN(x, fits ? w : 0, fits ? b : 0),
                     STATOR_AT(STATOR_A_INT("axis", axis), STATOR_A_FLOAT("eps", epsilon_of(n))), 0,
                     NULL, 3, out);
    if (!fits) {
        out[0] = ox_mul(n, out[0], ox_cast(n, w, ox_dtype(n, x)));
        out[0] = b != 0 ? ox_add(n, out[0], ox_cast(n, b, ox_dtype(n, x))) : out[0];
    }
    ox_out(n, 0, out[0]);
    ox_out(n, 1, ox_wants(n, 1) ? ox_cast(n, out[1], stash) : 0);
    ox_out(n, 2, ox_wants(n, 2) ? ox_cast(n, out[2], stash) : 0);
}

void ox_rms_norm(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    const stator_ref w = ox_need(n, 1);
    const uint32_t axis = ox_axis(n, ox_attr_int(n, "axis", -1), ox_rank(n, x));
    const bool fits = ox_dtype(n, x) == ox_dtype(n, w) && fits_axes(n, x, w, axis);
    stator_ref y =
        ox_op(n, "rms_norm", STATOR_IN(x, fits ? w : 0),
              STATOR_AT(STATOR_A_INT("axis", axis), STATOR_A_FLOAT("eps", epsilon_of(n))));
    if (!fits) { /* ONNX gives the result the weight's dtype */
        y = ox_mul(n, ox_cast(n, y, ox_dtype(n, w)), w);
    }
    ox_out(n, 0, y);
}

/* (x - mean) / (sqrt(E[x^2] - mean^2) + 1e-9) */
void ox_mean_variance_norm(ox_node *n)
{
    static const int64_t usual[3] = {0, 2, 3};
    const stator_ref x = ox_need(n, 0);
    const uint32_t rank = ox_rank(n, x);
    uint32_t count;
    int64_t axes[STATOR_RANK_MAX];
    const int64_t *given = ox_attr_ints(n, "axes", &count);
    if (given == NULL) {
        given = usual;
        count = 3;
    }
    OX_NEED(n, count <= rank, "%u axes for an input of rank %u", count, rank);
    for (uint32_t i = 0; i < count; i++) {
        axes[i] = ox_axis(n, given[i], rank);
    }
    const stator_ref mean = ox_reduce(n, "reduce_mean", x, count, axes, true);
    const stator_ref square = ox_reduce(n, "reduce_mean", ox_mul(n, x, x), count, axes, true);
    const stator_ref deviation = ox_un(n, "sqrt", ox_sub(n, square, ox_mul(n, mean, mean)));
    const stator_ref y = ox_div(n, ox_sub(n, x, mean), ox_add(n, deviation, ox_like(n, x, 1e-9)));
    ox_out(n, 0, y);
}
