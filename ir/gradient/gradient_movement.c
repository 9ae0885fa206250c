/* The gradients of dot_general and of ops that move elements: transpose, slice, pad, concat. See
 * gradient.h for what each function gets and gives. */
#include "core/base/check.h"
#include "ir/gradient/gradient_rules.h"
#include <stator/ops.h>
#include <string.h>

static uint32_t rest_axes(const stator_attr *batch, const stator_attr *contract, uint32_t rank,
                          int64_t *out)
{
    uint32_t n = 0;
    for (uint32_t a = 0; a < rank; a++) {
        bool taken = false;
        for (uint32_t i = 0; i < batch->count; i++) {
            const int64_t at = ((const int64_t *)batch->list)[i];
            taken |= st_normalize_axis(at, rank) == a;
        }
        for (uint32_t i = 0; i < contract->count; i++) {
            const int64_t at = ((const int64_t *)contract->list)[i];
            taken |= st_normalize_axis(at, rank) == a;
        }
        if (!taken) {
            out[n++] = a;
        }
    }
    return n;
}

/* Axis numbers first..first+n-1. */
static void count_up(int64_t *out, uint32_t first, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        out[i] = first + i;
    }
}

/* z[batch, rest of x, rest of y]; the gradient to one side contracts z's gradient with the other
 * side over the other side's rest: [batch, own rest, contracted in the other side's order], which
 * is then brought into the own order of axes. */
static stator_ref dot_side(stator_emitter *e, const st_gradient_node *v, int is_y)
{
    const stator_attr *a = v->of->attrs;
    const stator_attr *batch[] = {&a[STATOR_dot_general_batch_x], &a[STATOR_dot_general_batch_y]};
    const stator_attr *contract[] = {&a[STATOR_dot_general_contract_x],
                                     &a[STATOR_dot_general_contract_y]};
    const int own = is_y, other = !is_y;
    int64_t rests[2][STATOR_RANK_MAX], z_batch[STATOR_RANK_MAX], z_rest[STATOR_RANK_MAX];
    const uint32_t ranks[] = {stator_emit_rank(e, v->of->operands[0]),
                              stator_emit_rank(e, v->of->operands[1])};
    const uint32_t n_rest[] = {rest_axes(batch[0], contract[0], ranks[0], rests[0]),
                               rest_axes(batch[1], contract[1], ranks[1], rests[1])};
    const uint32_t nb = batch[0]->count, nc = contract[0]->count, n = n_rest[own];
    count_up(z_batch, 0, nb);
    count_up(z_rest, nb + (is_y ? 0 : n_rest[0]), n_rest[other]);
    stator_ref part =
        stator_emit_op(e, "dot_general", 2, (stator_ref[]){v->grads[0], v->of->operands[other]},
                       STATOR_AT(STATOR_A_INTS("batch_x", nb, z_batch),
                                 STATOR_A_INTS("batch_y", nb, batch[other]->list),
                                 STATOR_A_INTS("contract_x", n_rest[other], z_rest),
                                 STATOR_A_INTS("contract_y", n_rest[other], rests[other])));
    /* Axis j of the other side's contracted ones, in its own order of axes, is number `place`. */
    int64_t perm[STATOR_RANK_MAX];
    const int64_t *mine = contract[own]->list, *theirs = contract[other]->list;
    for (uint32_t i = 0; i < nb; i++) {
        const int64_t at = ((const int64_t *)batch[own]->list)[i];
        perm[st_normalize_axis(at, ranks[own])] = i;
    }
    for (uint32_t i = 0; i < n; i++) {
        perm[rests[own][i]] = nb + i;
    }
    for (uint32_t i = 0; i < nc; i++) {
        uint32_t place = 0;
        for (uint32_t j = 0; j < nc; j++) {
            const int64_t r = ranks[other];
            place += (theirs[j] < 0 ? theirs[j] + r : theirs[j]) <
                     (theirs[i] < 0 ? theirs[i] + r : theirs[i]);
        }
        perm[mine[i] < 0 ? mine[i] + ranks[own] : mine[i]] = nb + n + place;
    }
    return stator_emit_transpose(e, part, ranks[own], perm);
}

stator_status st_grad_dot_general(stator_builder *b, const st_gradient_node *v,
                                  stator_ref *in_grads, stator_diag **err)
{
    stator_emitter e = st_op_emitter(b, err);
    in_grads[0] = dot_side(&e, v, 0);
    in_grads[1] = dot_side(&e, v, 1);
    return e.status;
}

stator_status st_grad_transpose(stator_builder *b, const st_gradient_node *v, stator_ref *in_grads,
                                stator_diag **err)
{
    stator_emitter e = st_op_emitter(b, err);
    const stator_attr *perm = &v->of->attrs[STATOR_transpose_perm];
    int64_t inverse[STATOR_RANK_MAX];
    for (uint32_t i = 0; i < perm->count; i++) {
        const int64_t at = ((const int64_t *)perm->list)[i];
        inverse[st_normalize_axis(at, perm->count)] = i;
    }
    in_grads[0] = stator_emit_transpose(&e, v->grads[0], perm->count, inverse);
    return e.status;
}

/* zeros with `size` elements along the axis, to which g's slices are added at `index`. */
static stator_ref scatter_along(stator_emitter *e, stator_ref g, uint32_t axis, stator_ref size,
                                stator_ref index)
{
    return stator_emit_expr(
        e,
        "s = shape(g); z = expand(scalar(0, g), shape=s[0:a] + n + s[a + 1:]);"
        "j = reshape(i, shape=repeat(1, a) + [s[a]] + repeat(1, rank(g) - a - 1));"
        "scatter_elements(z, expand(j, shape=s), g, axis=a, reduction='add')",
        "g,i", 2, (const stator_ref[]){g, index},
        STATOR_AT(STATOR_A_INT("a", axis), STATOR_A_DIMS("n", 1, &size)));
}

/* Element k of an axis came from starts + k * steps; where steps are 1, zeros around do. */
stator_status st_grad_slice(stator_builder *b, const st_gradient_node *v, stator_ref *in_grads,
                            stator_diag **err)
{
    stator_emitter e = st_op_emitter(b, err);
    const stator_attr *starts = &v->of->attrs[STATOR_slice_starts];
    const int64_t *steps = v->of->attrs[STATOR_slice_steps].list;
    stator_ref grad = v->grads[0], low[STATOR_RANK_MAX], high[STATOR_RANK_MAX];
    for (uint32_t a = 0; a < starts->count; a++) {
        const stator_ref start = ((const stator_ref *)starts->list)[a];
        const stator_ref size = stator_emit_dim(&e, v->of->operands[0], a);
        low[a] = high[a] = stator_emit_size(&e, 0);
        if (steps[a] == 1) {
            low[a] = start;
            high[a] = stator_emit_sym(&e, STATOR_SYM_SUB,
                                      stator_emit_sym(&e, STATOR_SYM_SUB, size, start),
                                      stator_emit_dim(&e, grad, a));
            continue;
        }
        const stator_ref index =
            stator_emit_expr(&e, "iota(shape=[dim(g, a)]) * step + start[0]", "g", 1, &grad,
                             STATOR_AT(STATOR_A_INT("a", a), STATOR_A_DIMS("start", 1, &start),
                                       STATOR_A_INT("step", steps[a])));
        grad = scatter_along(&e, grad, a, size, index);
    }
    in_grads[0] = stator_emit_op(&e, "pad", 1, &grad,
                                 STATOR_AT(STATOR_A_DIMS("low", starts->count, low),
                                           STATOR_A_DIMS("high", starts->count, high)));
    return e.status;
}

/* Constant: the inner part is x's, what is around it the value's. Other modes: every element is
 * added where it was copied from, axis by axis. */
stator_status st_grad_pad(stator_builder *b, const st_gradient_node *v, stator_ref *in_grads,
                          stator_diag **err)
{
    stator_emitter e = st_op_emitter(b, err);
    static const char *const modes[][2] = {
        {"edge", "k = iota(shape=[dim(g, a)]) - low[0]; max(min(k, n[0] - 1), 0)"},
        {"wrap", "(iota(shape=[dim(g, a)]) - low[0]) % n[0]"},
        {"reflect", "p = n[0] * 2 - 2; q = (iota(shape=[dim(g, a)]) - low[0]) % p; min(q, p - q)"}};
    stator_ref grad = v->grads[0];
    const stator_ref x = v->of->operands[0];
    const stator_attr *low = &v->of->attrs[STATOR_pad_low];
    const char *program = NULL;
    for (uint32_t m = 0; m < 3; m++) {
        program = strcmp(v->of->attrs[STATOR_pad_mode].s, modes[m][0]) == 0 ? modes[m][1] : program;
    }
    if (program == NULL) {
        const stator_ref values[] = {grad, x};
        const stator_ref inner =
            stator_emit_expr(&e, "pad(g, low=each('*', low, -1), high=each('*', high, -1))", "g", 1,
                             &grad, 2, v->of->attrs);
        const stator_ref around =
            stator_emit_expr(&e,
                             "m = pad(zeros_like(x), scalar(1, x), low=low, high=high);"
                             "reduce_sum(select(m == 1, g, 0), axes=range(rank(g)))",
                             "g,x", 2, values, 2, v->of->attrs);
        in_grads[0] = inner;
        if (v->of->n_operands > 1) {
            in_grads[1] = around;
        }
        return e.status;
    }
    for (uint32_t a = 0; a < low->count; a++) {
        const stator_ref size = stator_emit_dim(&e, x, a);
        const stator_ref index =
            stator_emit_expr(&e, program, "g", 1, &grad,
                             STATOR_AT(STATOR_A_INT("a", a), STATOR_A_DIMS("n", 1, &size),
                                       STATOR_A_DIMS("low", 1, (const stator_ref *)low->list + a)));
        grad = scatter_along(&e, grad, a, size, index);
    }
    in_grads[0] = grad;
    return e.status;
}

stator_status st_grad_concat(stator_builder *b, const st_gradient_node *v, stator_ref *in_grads,
                             stator_diag **err)
{
    stator_emitter e = st_op_emitter(b, err);
    const stator_ref grad = v->grads[0];
    const int64_t given = v->of->attrs[STATOR_concat_axis].i, rank = stator_emit_rank(&e, grad);
    const int64_t axis = st_normalize_axis(given, rank);
    stator_ref start = stator_emit_size(&e, 0);
    for (uint32_t i = 0; i < v->of->n_operands; i++) {
        in_grads[i] = stator_emit_expr(
            &e,
            "slice(g, starts=repeat(0, a) + start + repeat(0, rank(g) - a - 1), sizes=shape(x),"
            "steps=repeat(1, rank(g)))",
            "g,x", 2, (const stator_ref[]){grad, v->of->operands[i]},
            STATOR_AT(STATOR_A_INT("a", axis), STATOR_A_DIMS("start", 1, &start)));
        start = stator_emit_sym(&e, STATOR_SYM_ADD, start,
                                stator_emit_dim(&e, v->of->operands[i], (uint32_t)axis));
    }
    return e.status;
}
