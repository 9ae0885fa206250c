/* Losses over class scores: input [N, C, d..], target [N, d..]. */
#include "frontends/onnx/onnx.h"

static void nll(ox_node *n, stator_ref logp)
{
    stator_attr attrs[2] = {STATOR_A_STR("reduction", ox_attr_str(n, "reduction", "mean"))};
    uint32_t count = 1;
    if (ox_has_attr(n, "ignore_index")) {
        attrs[count++] = STATOR_A_INT("ignore_index", ox_attr_int(n, "ignore_index", 0));
    }
    const stator_ref target = ox_need(n, 1);
    ox_out(n, 0, ox_op(n, "nll_loss", STATOR_IN(logp, target, ox_in(n, 2)), count, attrs));
}

void ox_nll_loss(ox_node *n)
{
    nll(n, ox_need(n, 0));
}

void ox_softmax_cross_entropy(ox_node *n)
{
    const stator_ref logp =
        ox_op(n, "log_softmax", STATOR_IN(ox_need(n, 0)), STATOR_AT(STATOR_A_INT("axis", 1)));
    nll(n, logp);
    ox_out(n, 1, logp);
}
