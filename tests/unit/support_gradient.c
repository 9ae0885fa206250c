/* Gradients of the cases as texts: see support_gradient.h. */
#include "tests/unit/support_gradient.h"

#include "core/base/diag.h"
#include "ir/gradient/gradient.h"
#include "ir/op_emitter.h"
#include <stator/plugin.h>

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#define X "%x: f64[2, 3]"
#define XY "%x: f64[2, 3], %z: f64[3]"
#define XT "%x: f64[3, 4], %t: f64[3, 4]"
#define INDICES "%t = constant {value = i64[3] {1, -100, 0}} "
#define ONE "%one = constant {value = f64[] {1.0}} %s = sub(%x, %one) "

const gradient_case gradient_cases[] = {
#define GRADIENT(group_, inputs_, lines_) {#group_, inputs_, lines_, "", ""},
#define GRADIENT_FIXED(group_, inputs_, lines_, fixed_, why_)                                      \
    {#group_, inputs_, lines_, fixed_, why_},
#include "gradient_cases.def"
#undef GRADIENT
#undef GRADIENT_FIXED
};
const uint32_t gradient_case_count = sizeof gradient_cases / sizeof *gradient_cases;

/* z = sum over the inputs and their elements of x * gradient, whose own gradient is one of second
 * order. */
static stator_status output_second(stator_builder *b, uint32_t n, const stator_ref *xs,
                                   const stator_ref *grads, stator_diag **err)
{
    stator_emitter e = st_op_emitter(b, err);
    stator_ref z = 0;
    for (uint32_t i = 0; i < n; i++) {
        const stator_ref part = stator_emit_expr(&e, "reduce_sum(x * g, axes=range(rank(x)))",
                                                 "x,g", STATOR_IN(xs[i], grads[i]), STATOR_NONE);
        z = z == 0 ? part : stator_emit_binary(&e, "add", z, part);
    }
    stator_emit_output(&e, "z", z);
    return e.status;
}

/* Appends input "seed" of y's type, and the gradients as outputs; or, of order 2, what is made of
 * them alone. */
static stator_status extend(stator_builder *b, const stator_graph *from, stator_ref *map,
                            uint32_t order, stator_diag **err)
{
    const stator_graph_view *v = st_graph_view(from);
    stator_ref xs[GRADIENT_INPUTS_MAX], grads[GRADIENT_INPUTS_MAX], seed;
    const stator_ref y = stator_output_at(v, 0);
    ST_TRY(st_build_clone_inputs(b, from, map, err));
    ST_TRY(st_build_input(b, st_build_has_input(b, "seed") ? "seed_" : "seed",
                          stator_value_at(v, y)->type, &seed, err));
    ST_TRY(st_build_clone(b, from, 1, v->n_nodes, map, err));
    for (uint32_t i = 0; i < v->n_inputs; i++) {
        xs[i] = map[i + 1u];
    }
    ST_TRY(st_gradient(b, map[y], seed, v->n_inputs, xs, grads, err));
    for (uint32_t i = 0; i < v->n_inputs; i++) {
        const stator_graph_view *bv = st_graph_view(b->graph);
        if (stator_value_at(bv, grads[i])->type != stator_value_at(bv, xs[i])->type) {
            return st_fail(err, STATOR_INTERNAL, "gradient %u has another type than its input", i);
        }
    }
    if (order == 2) {
        return output_second(b, v->n_inputs, xs, grads, err);
    }
    ST_TRY(st_build_output(b, "y", map[y], err));
    for (uint32_t i = 0; i < v->n_inputs; i++) {
        ST_TRY(st_build_output(b, "", grads[i], err));
    }
    return STATOR_OK;
}

char *gradient_text_of_order(text_world *w, const char *text, uint32_t order, stator_diag **err)
{
    text_graph g;
    stator_builder *b = NULL;
    stator_graph *out = NULL;
    uint64_t len = 0;
    if (text_read(w, text, strlen(text), NULL, NULL, &g, err) != STATOR_OK) {
        return NULL;
    }
    stator_ref *map = st_calloc(&w->mem, st_graph_view(g.graph)->n_values + 1u, sizeof *map);
    char *printed = NULL;
    cr_assert_not_null(map);
    stator_status status = st_builder_create(g.module, "gradient", &b, err);
    if (status == STATOR_OK) {
        status = extend(b, g.graph, map, order, err);
        if (status == STATOR_OK) {
            status = st_builder_finish(b, &out, err);
        } else {
            st_builder_abort(b);
        }
    }
    if (status == STATOR_OK) {
        printed = text_print(w, out, &len, err);
    }
    st_free(&w->mem, map);
    text_graph_free(&g);
    return printed;
}

char *gradient_text(text_world *w, const char *text, stator_diag **err)
{
    return gradient_text_of_order(w, text, 1, err);
}

uint64_t gradient_element_count(stator_tensor *t)
{
    return stator_tensor_size_bytes(t) / sizeof(double);
}

double *gradient_data(stator_tensor *t)
{
    return stator_tensor_data(t);
}

stator_tensor *gradient_values(stator_ctx *ctx, uint32_t rank, const int64_t *shape, uint32_t salt)
{
    stator_tensor *t = NULL;
    cr_assert_eq(stator_tensor_create(ctx, STATOR_F64, rank, shape, &t), STATOR_OK);
    for (uint64_t k = 0; k < gradient_element_count(t); k++) {
        gradient_data(t)[k] = 1 + 0.8 * sin(1.7 * (double)k + salt + 0.3);
    }
    return t;
}
