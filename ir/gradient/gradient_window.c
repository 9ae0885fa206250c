/* The gradient of reduce_window. In: gradients g of the windows' results. Out: gradients of x.
 *
 * A sum gives every element the sum of the g of the windows that it lies in. With s - 1 zeros
 * behind each g (the stride) and zeros around, these are windows again, of stride 1:
 *
 *     x: 5, window 3, stride 2    g: a b    ->    0 0 a 0 b 0 0    ->    a a a+b b b
 *
 * A maximum gives g to the first of the largest elements, which max_pool names (as PyTorch does); a
 * minimum is the maximum of -x. */
#include "ir/gradient/gradient_rules.h"

#include <stator/ops.h>
#include <string.h>

/* Along one axis of g: zeros between (stride s), then around, so that windows of stride 1 are as
 * many as x has elements. */
static stator_ref spread_axis(stator_emitter *e, stator_ref g, const st_gradient_node *v,
                              uint32_t i)
{
    const stator_attr *attrs = v->of->attrs, *pads = &attrs[STATOR_reduce_window_pads];
    const uint32_t n = attrs[STATOR_reduce_window_window].count;
    const stator_ref x = v->of->operands[0];
    const uint32_t axis = stator_emit_rank(e, x) - n + i;
    const stator_ref size = stator_emit_dim(e, x, axis);
    const stator_ref low = ((const stator_ref *)pads->list)[i];
    const int64_t *window = attrs[STATOR_reduce_window_window].list;
    const int64_t *strides = attrs[STATOR_reduce_window_strides].list;
    const int64_t *dilations = attrs[STATOR_reduce_window_dilations].list;
    const stator_attr at[] = {STATOR_A_INT("a", axis), STATOR_A_INT("s", strides[i]),
                              STATOR_A_INT("k", (window[i] - 1) * dilations[i]),
                              STATOR_A_DIMS("low", 1, &low), STATOR_A_DIMS("size", 1, &size)};
    if (strides[i] != 1) {
        g = stator_emit_expr(e,
                             "z = repeat(0, a + 1); r = repeat(0, rank(g) - a - 1);"
                             "t = reshape(g, shape=shape(g)[0:a + 1] + [1] + shape(g)[a + 1:]);"
                             "p = pad(t, low=repeat(0, rank(t)), high=z + [s - 1] + r);"
                             "reshape(p, shape=shape(g)[0:a] + [dim(g, a) * s] + shape(g)[a + 1:])",
                             "g", 1, &g, 5, at);
    }
    return stator_emit_expr(e,
                            "z = repeat(0, a); r = repeat(0, rank(g) - a - 1);"
                            "pad(g, low=z + [k - low[0]] + r,"
                            "high=z + [size[0] - dim(g, a) + low[0]] + r)",
                            "g", 1, &g, 5, at);
}

static stator_ref of_sum(stator_emitter *e, const st_gradient_node *v)
{
    stator_ref g = v->grads[0];
    for (uint32_t i = 0; i < v->of->attrs[STATOR_reduce_window_window].count; i++) {
        g = spread_axis(e, g, v, i);
    }
    return stator_emit_expr(e,
                            "n = len(window); reduce_window(g, kind='sum', window=window,"
                            "strides=repeat(1, n), pads=repeat(0, 2 * n), dilations=dilations)",
                            "g", 1, &g, v->of->n_attrs, v->of->attrs);
}

static stator_ref of_extreme(stator_emitter *e, const st_gradient_node *v, bool is_max)
{
    const char *program =
        "r = rank(x) - len(window); t = reshape(x, shape=[1, product(shape(x)[0:r])] + "
        "shape(x)[r:]);"
        "v, i = max_pool(sign == 1 ? t : -t, window=window, strides=strides, pads=pads,"
        "dilations=dilations); n = numel(g);"
        "z = expand(scalar(0, x), shape=[numel(x)]);"
        "reshape(scatter_elements(z, reshape(i, shape=[n]), reshape(g, shape=[n]), axis=0,"
        "reduction='add'), shape=shape(x))";
    stator_attr attrs[STATOR_reduce_window_dilations + 2u];
    memcpy(attrs, v->of->attrs, v->of->n_attrs * sizeof *attrs);
    attrs[v->of->n_attrs] = STATOR_A_INT("sign", is_max ? 1 : -1);
    return stator_emit_expr(e, program, "x,g", STATOR_IN(v->of->operands[0], v->grads[0]),
                            v->of->n_attrs + 1u, attrs);
}

stator_status st_grad_reduce_window(stator_builder *b, const st_gradient_node *v,
                                    stator_ref *in_grads, stator_diag **err)
{
    stator_emitter e = st_op_emitter(b, err);
    static const char *const kinds[] = {"sum", "min", "max"};
    uint32_t kind = 0;
    while (strcmp(kinds[kind], v->of->attrs[STATOR_reduce_window_kind].s) != 0) {
        kind++;
    }
    in_grads[0] = kind == 0 ? of_sum(&e, v) : of_extreme(&e, v, kind == 2);
    return e.status;
}
