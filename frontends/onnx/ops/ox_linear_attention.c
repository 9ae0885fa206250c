/* LinearAttention: a scan over time with the state S[B, G, K, V] carried, in f32.
 *
 *   S = exp(g) * S                      (gated rules)
 *   v = beta * (v - S^T k)              (delta rules)
 *   S = S + k v^T ;  o = S^T (scale * q)
 *
 * Query heads are grouped: q[B, G, H/G, K], so that every group reads its own state. */
#include "frontends/onnx/ox_body.h"

#include <string.h>

typedef struct linear_attention {
    bool has_decay;
    bool has_beta;
    int64_t groups; /* key and value heads */
    int64_t heads;
} linear_attention;

/* x[B, T, ..] with the last axis split as given, f32; B and T are those of q. */
static stator_ref split_last(ox_node *n, stator_ref q, stator_ref x, uint32_t count,
                             const stator_ref *last)
{
    stator_ref dims[STATOR_RANK_MAX];
    ox_check_rank(n, x, 3, 3, "an input");
    ox_dims(n, q, dims);
    if (!ox_ok(n)) {
        return 0;
    }
    memcpy(dims + 2, last, count * sizeof *last);
    return ox_reshape(n, ox_cast(n, x, STATOR_F32), 2u + count, dims);
}

/* The same, and the last two sizes brought to `wide`, so that nothing broadcasts in the region. */
static stator_ref split_wide(ox_node *n, stator_ref q, stator_ref x, const stator_ref last[2],
                             const stator_ref wide[2])
{
    const stator_ref dims[4] = {ox_dim(n, q, 0), ox_dim(n, q, 1), wide[0], wide[1]};
    const stator_ref split = split_last(n, q, x, 2, last);
    return last[0] == wide[0] && last[1] == wide[1] ? split : ox_expand(n, split, 4, dims);
}

/* One step inside the region; in[]: state, q, k, v, then decay and beta where they are used. */
static void step(ox_node *b, const linear_attention *l, const stator_ref *in, stator_ref out[2])
{
    static const int64_t swap[4] = {0, 1, 3, 2};
    stator_ref state = in[0];
    const stator_ref q = in[1];                     /* [B, G, H/G, K] */
    const stator_ref k = ox_unsqueeze(b, in[2], 3); /* [B, G, K, 1] */
    stator_ref v = ox_unsqueeze(b, in[3], 2);       /* [B, G, 1, V] */
    uint32_t next = 4;
    if (l->has_decay) { /* [B, G, K] */
        state = ox_mul(b, state, ox_unsqueeze(b, ox_un(b, "exp", in[next++]), 3));
    }
    if (l->has_beta) { /* [B, G, 1] */
        const stator_ref found = ox_matmul(b, ox_transpose(b, k, swap), state);
        v = ox_mul(b, ox_unsqueeze(b, in[next], 3), ox_sub(b, v, found));
    }
    state = ox_add(b, state, ox_mul(b, k, v));
    out[0] = state;
    out[1] = ox_matmul(b, q, state);
}

static stator_graph *build_step(ox_node *n, const linear_attention *l, uint32_t count,
                                const stator_ref *values)
{
    static const char *const names[6] = {"state", "q", "k", "v", "g", "b"};
    stator_ref in[6];
    stator_ref out[2];
    ox_body body;
    ox_body_begin(n, &body, "step");
    for (uint32_t i = 0; ox_ok(n) && i < count; i++) {
        const stator_ref type =
            i == 0 ? ox_type_of(n, values[0]) : ox_type_without(n, values[i], 1);
        in[i] = ox_body_input(&body, names[i], type);
    }
    if (ox_ok(n)) {
        step(&body.node, l, in, out);
        ox_body_output(&body, "state", out[0]);
        ox_body_output(&body, "y", out[1]);
    }
    return ox_body_end(&body, true);
}

static bool read_rule(ox_node *n, linear_attention *l)
{
    const char *rule = ox_attr_str(n, "update_rule", "gated_delta");
    l->has_decay = strncmp(rule, "gated", 5) == 0;
    l->has_beta = strcmp(rule, "delta") == 0 || strcmp(rule, "gated_delta") == 0;
    ox_expect(n, strcmp(rule, "linear") == 0 || strcmp(rule, "gated") == 0 || l->has_beta,
              "attribute 'update_rule' is '%s'", rule);
    l->heads = ox_attr_int_need(n, "q_num_heads");
    l->groups = ox_attr_int_need(n, "kv_num_heads");
    ox_expect(n, l->groups >= 1 && l->heads >= l->groups && l->heads % l->groups == 0,
              "%lld query heads for %lld key heads", (long long)l->heads, (long long)l->groups);
    ox_expect(n, l->has_decay == (ox_in(n, 4) != 0) && l->has_beta == (ox_in(n, 5) != 0),
              "the rule '%s' does not go with its decay and beta inputs", rule);
    return ox_ok(n);
}

/* The scale, which the queries are multiplied with before the scan: given, or 1 / sqrt(K). */
static stator_ref scale_of(ox_node *n, stator_ref k_size)
{
    const double scale = ox_attr_float(n, "scale", 0);
    if (scale != 0) {
        return ox_scalar(n, STATOR_F32, scale);
    }
    return ox_un(n, "rsqrt", ox_cast(n, ox_from_dim(n, k_size), STATOR_F32));
}

void ox_linear_attention(ox_node *n)
{
    linear_attention l = {false};
    if (!read_rule(n, &l)) {
        return;
    }
    static const int64_t ones[6] = {1, 1, 1, 1, 1, 1};
    const stator_ref q = ox_need(n, 0);
    const stator_ref groups = ox_sym(n, l.groups);
    const stator_ref one = ox_sym(n, 1);
    const stator_ref k_size =
        ox_sym_op(n, STATOR_SYM_FLOORDIV, ox_dim(n, ox_need(n, 1), 2), groups);
    const stator_ref v_size =
        ox_sym_op(n, STATOR_SYM_FLOORDIV, ox_dim(n, ox_need(n, 2), 2), groups);
    const stator_ref state_dims[4] = {ox_dim(n, q, 0), groups, k_size, v_size};
    const stator_ref past = ox_in(n, 3);
    const stator_dtype state_dtype = past != 0 ? ox_dtype(n, past) : ox_dtype(n, q);
    stator_ref values[6];
    uint32_t count = 4;
    values[0] = past != 0 ? ox_reshape(n, ox_cast(n, past, STATOR_F32), 4, state_dims)
                          : ox_expand(n, ox_scalar(n, STATOR_F32, 0), 4, state_dims);
    values[1] = split_last(n, q, q, STATOR_IN(groups, ox_sym(n, l.heads / l.groups), k_size));
    values[1] = ox_mul(n, values[1], scale_of(n, k_size));
    values[2] = split_last(n, q, ox_need(n, 1), STATOR_IN(groups, k_size));
    values[3] = split_last(n, q, ox_need(n, 2), STATOR_IN(groups, v_size));
    if (l.has_decay) {
        const stator_ref width =
            ox_sym_op(n, STATOR_SYM_FLOORDIV, ox_dim(n, ox_in(n, 4), 2), groups);
        values[count++] = split_wide(n, q, ox_in(n, 4), (const stator_ref[]){groups, width},
                                     (const stator_ref[]){groups, k_size});
    }
    if (l.has_beta) {
        const stator_ref width = ox_dim(n, ox_in(n, 5), 2);
        values[count++] = split_wide(n, q, ox_in(n, 5), (const stator_ref[]){width, one},
                                     (const stator_ref[]){groups, one});
    }
    stator_graph *region = build_step(n, &l, count, values);
    stator_ref out[2];
    stator_emit_node(&n->e, "scan", count, values,
                     STATOR_AT(STATOR_A_INT("carried", 1), STATOR_A_INT("scanned", count - 1),
                               STATOR_A_INT("stacked", 1), STATOR_A_INTS("axes", count - 1, ones),
                               STATOR_A_INTS("out_axes", 1, ones)),
                     1, &region, 2, out);
    /* [B, T, G, H/G, V] to [B, T, H*V] */
    const stator_ref flat[3] = {ox_dim(n, q, 0), ox_dim(n, q, 1),
                                ox_sym_op(n, STATOR_SYM_MUL, v_size, ox_sym(n, l.heads))};
    ox_out(n, 0, ox_cast(n, ox_reshape(n, out[1], 3, flat), ox_dtype(n, q)));
    ox_out(n, 1, ox_cast(n, out[0], state_dtype));
}
