/* RNN, GRU and LSTM: the ops of the same names work in layout 0; layout 1 is transposed around
 * them. */
#include "frontends/onnx/onnx.h"

#include <string.h>

static stator_ref swap_first_axes(ox_node *n, stator_ref x)
{
    int64_t perm[STATOR_RANK_MAX];
    const uint32_t rank = ox_rank(n, x);
    for (uint32_t i = 0; i < rank; i++) {
        perm[i] = i < 2 ? 1 - (int64_t)i : (int64_t)i;
    }
    return rank >= 2 ? ox_transpose(n, x, perm) : x;
}

/* The activation names as one comma-separated list. */
static const char *activations_of(ox_node *n)
{
    uint32_t count;
    const char *const *names = ox_attr_strs(n, "activations", &count);
    size_t size = 1;
    for (uint32_t i = 0; names != NULL && i < count; i++) {
        size += strlen(names[i]) + 1;
    }
    char *list = ox_alloc(n, size, 1);
    for (uint32_t i = 0; list != NULL && names != NULL && i < count; i++) {
        strcat(list, i == 0 ? "" : ",");
        strcat(list, names[i]);
    }
    return list != NULL ? list : "";
}

/* Results that depend on the layout: y[T,D,N,H] to [N,T,D,H], states [D,N,H] to [N,D,H]. */
static void give_results(ox_node *n, const stator_ref *out, uint32_t count, bool is_batch_first)
{
    static const int64_t batch_first[4] = {2, 0, 1, 3};
    for (uint32_t i = 0; i < count; i++) {
        if (!ox_wants(n, i)) {
            continue;
        }
        if (!is_batch_first) {
            ox_out(n, i, out[i]);
        } else {
            ox_out(n, i,
                   i == 0 ? ox_transpose(n, out[0], batch_first) : swap_first_axes(n, out[i]));
        }
    }
}

void ox_recurrent(ox_node *n)
{
    const char *name = n->row->name;
    const bool is_lstm = strcmp(name, "LSTM") == 0;
    const bool is_gru = strcmp(name, "GRU") == 0;
    const bool is_batch_first = ox_attr_int(n, "layout", 0) != 0;
    stator_ref in[8] = {ox_need(n, 0), ox_need(n, 1), ox_need(n, 2),
                        ox_in(n, 3),   ox_in(n, 4),   ox_in(n, 5)};
    in[6] = is_lstm ? ox_in(n, 6) : 0;
    in[7] = is_lstm ? ox_in(n, 7) : 0;
    if (is_batch_first) {
        in[0] = swap_first_axes(n, in[0]);
        in[5] = in[5] != 0 ? swap_first_axes(n, in[5]) : 0;
        in[6] = in[6] != 0 ? swap_first_axes(n, in[6]) : 0;
    }
    const int64_t hidden = ox_has_attr(n, "hidden_size")
                               ? ox_attr_int(n, "hidden_size", 0)
                               : ox_dim_need(n, in[2], 2, "the hidden size");
    uint32_t alpha_count;
    uint32_t beta_count;
    const double *alpha = ox_attr_floats(n, "activation_alpha", &alpha_count);
    const double *beta = ox_attr_floats(n, "activation_beta", &beta_count);
    stator_attr attrs[8] = {
        STATOR_A_INT("hidden", hidden),
        STATOR_A_STR("direction", ox_attr_str(n, "direction", "forward")),
        STATOR_A_STR("activations", activations_of(n)),
        STATOR_A_FLOATS("alpha", alpha_count, alpha),
        STATOR_A_FLOATS("beta", beta_count, beta),
        STATOR_A_FLOAT("clip", ox_attr_float(n, "clip", 0)),
    };
    uint32_t count = 6;
    if (is_lstm) {
        const int64_t forget = ox_attr_int(n, "input_forget", 0) != 0;
        attrs[count++] = STATOR_A_INT("input_forget", forget);
    } else if (is_gru) {
        const int64_t reset = ox_attr_int(n, "linear_before_reset", 0) != 0;
        attrs[count++] = STATOR_A_INT("linear_before_reset", reset);
    }
    stator_ref out[3] = {0};
    const char *op = is_lstm ? "lstm" : is_gru ? "gru" : "rnn";
    stator_emit_node(&n->e, op, 8, in, count, attrs, 0, NULL, is_lstm ? 3 : 2, out);
    give_results(n, out, is_lstm ? 3 : 2, is_batch_first);
}
