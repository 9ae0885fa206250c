/* The gradients of gather_nd, scatter_elements and scatter_nd. What one of the scatters writes to,
 * its gather reads from, so that one set of programs does for both.
 *
 * reduction none: an element that was replaced has no gradient any more, the update has all of it
 * (of several at one place each, as in PyTorch). mul: the product of the other factors, 0 factors
 * counted apart, so that nothing is divided by 0. min, max: shared among equal ones. */
#include "ir/gradient/gradient_rules.h"

#include <stator/ops.h>
#include <string.h>

#define MUL                                                                                        \
    "a = x == 0; b = updates == 0; p = select(a, 1, x); q = select(b, 1, updates);"                \
    "n = SCATTER(cast(a, x), index, cast(b, x), 'add'); w = SCATTER(p, index, q, 'mul');"          \
    "h = grad * w; m = GATHER(n, index); k = GATHER(h, index);"                                    \
    "select(n == 0, h / p, select(bit_and(a, n == 1), h, 0)),"                                     \
    "select(m == 0, k / q, select(bit_and(b, m == 1), k, 0))"
#define EXTREME                                                                                    \
    "a = cast(x == y, x); b = cast(updates == GATHER(y, index), x);"                               \
    "h = grad / max(SCATTER(a, index, b, 'add'), 1); c = GATHER(h, index);"                        \
    "a * h, b * c"

typedef struct scatter_program {
    const char *reduction;
    const char *text; /* gradients of x and of updates */
} scatter_program;

static const scatter_program programs[] = {
    {"none", "SCATTER(grad, index, zeros_like(updates), 'none'), GATHER(grad, index)"},
    {"add", "grad, GATHER(grad, index)"},
    {"mul", MUL},
    {"min", EXTREME},
    {"max", EXTREME}};

/* The text with the ops' names: SCATTER(x, i, u, 'r') as scatter_nd(x, i, u, reduction='r'). */
static bool write_program(const char *text, bool is_nd, st_str *out)
{
    while (*text != '\0') {
        if (strncmp(text, "SCATTER", 7) == 0) {
            st_str_add(out, is_nd ? "scatter_nd" : "scatter_elements");
            text += 7;
        } else if (strncmp(text, "GATHER", 6) == 0) {
            st_str_add(out, is_nd ? "gather_nd" : "gather_elements");
            text += 6;
        } else if (strncmp(text, ", index)", 8) == 0 && !is_nd) {
            st_str_add(out, ", index, axis=axis)");
            text += 8;
        } else if (*text == '\'' && strncmp(text - 2, ", ", 2) == 0) {
            const size_t n = strcspn(text + 1, "'") + 2u;
            st_str_addf(out, "%sreduction=%.*s", is_nd ? "" : "axis=axis, ", (int)n, text);
            text += n;
        } else {
            st_str_addf(out, "%c", *text++);
        }
    }
    return st_str_ok(out);
}

static stator_status run(stator_builder *b, const st_gradient_node *v, const char *text,
                         stator_ref *in_grads, stator_diag **err)
{
    const char *const names[] = {"x", "index", "updates", "y", "grad"};
    const stator_ref *operands = v->of->operands;
    const stator_ref values[] = {operands[0], operands[1], operands[2], v->results[0], v->grads[0]};
    stator_ref grads[2] = {0};
    ST_TRY(st_build_expr(b, text, 5, names, values, v->of->n_attrs, v->of->attrs, 2, grads, err));
    in_grads[0] = grads[0];
    in_grads[2] = grads[1];
    return STATOR_OK;
}

static stator_status scatter(stator_builder *b, const st_gradient_node *v, bool is_nd,
                             stator_ref *in_grads, stator_diag **err)
{
    const uint32_t place =
        is_nd ? (uint32_t)STATOR_scatter_nd_reduction : (uint32_t)STATOR_scatter_elements_reduction;
    const char *reduction = v->of->attrs[place].s;
    st_str text;
    uint32_t i = 0;
    while (strcmp(programs[i].reduction, reduction) != 0) {
        i++;
    }
    st_str_init(&text, b->module->mem);
    const stator_status status = write_program(programs[i].text, is_nd, &text)
                                     ? run(b, v, text.data, in_grads, err)
                                     : st_fail_oom(err);
    st_str_deinit(&text);
    return status;
}

stator_status st_grad_scatter_elements(stator_builder *b, const st_gradient_node *v,
                                       stator_ref *in_grads, stator_diag **err)
{
    return scatter(b, v, false, in_grads, err);
}

stator_status st_grad_scatter_nd(stator_builder *b, const st_gradient_node *v, stator_ref *in_grads,
                                 stator_diag **err)
{
    return scatter(b, v, true, in_grads, err);
}

/* Each slice is added where it was read; scatter_nd has no shared axes, so their places stand in
 * front of the index tuples. */
stator_status st_grad_gather_nd(stator_builder *b, const st_gradient_node *v, stator_ref *in_grads,
                                stator_diag **err)
{
    stator_emitter e = st_op_emitter(b, err);
    stator_ref index =
        stator_emit_expr(&e, "cast(i, i64)", "i", STATOR_IN(v->of->operands[1]), STATOR_NONE);
    for (int64_t axis = v->of->attrs[STATOR_gather_nd_batch_dims].i; axis > 0; axis--) {
        index = stator_emit_expr(
            &e, "concat(iota(shape=shape(i)[0:rank(i) - 1] + [1], axis=a), i, axis=rank(i) - 1)",
            "i", STATOR_IN(index), STATOR_AT(STATOR_A_INT("a", axis - 1)));
    }
    in_grads[0] = stator_emit_expr(&e, "scatter_nd(zeros_like(x), i, g, reduction='add')", "x,i,g",
                                   STATOR_IN(v->of->operands[0], index, v->grads[0]), STATOR_NONE);
    return e.status;
}
