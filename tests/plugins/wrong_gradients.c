/* An op library for tests of `stator grad --check`: x * x * y of x[n, n] and y[n], whose gradient
 * has one mistake, by the attribute `mistake`; "none" is right.
 *
 *     off_gradient(x, y) {mistake = "sign"}
 *     off_twin(x)         x, with a gradient of 2: the mistake of a second derivative */
#include <stator/emit.h>

#include <string.h>

typedef struct mistake {
    const char *name;
    const char *program; /* gradients to x and y from g, x, y */
} mistake;

#define TO_X "2 * g * x * y, "
#define TO_Y "reduce_sum(g * x * x, axes=[0])"

static const mistake mistakes[] = {
    {"none", TO_X TO_Y},
    {"sign", "-2 * g * x * y, " TO_Y},
    {"factor", "g * x * y, " TO_Y},
    {"axis", TO_X "reduce_sum(g * x * x, axes=[1])"},
    {"operand", "2 * g * x * x, " TO_Y},
    {"mask", "select(x > 0, 2 * g * x * y, 0), " TO_Y},
    {"recompute", "2 * g * tanh(x) * y, " TO_Y},
    {"lost", TO_X "zeros_like(y)"},
    {"tangent", "2 * x * y, " TO_Y},
    {"place", TO_X "reduce_sum(g, axes=[0]) * reduce_sum(x * x, axes=[0])"},
    {"thousandth", TO_X TO_Y " * 1.001"},
    {"second", "2 * g * off_twin(x) * y, " TO_Y},
};

static stator_status infer_same(void *self, stator_builder *b, const stator_node_desc *node,
                                stator_ref *out_types, uint32_t n_types, stator_diag **err)
{
    const stator_host *host = self;
    (void)n_types, (void)err;
    out_types[0] = stator_value_at(host->build->view(b), node->operands[0])->type;
    return STATOR_OK;
}

static stator_status gradient(void *self, stator_builder *b, const stator_node_desc *node,
                              const stator_ref *out_grads, stator_ref *in_grads, stator_diag **err)
{
    const stator_host *host = self;
    const char *const names[] = {"g", "x", "y"};
    const stator_ref values[] = {out_grads[0], node->operands[0], node->operands[1]};
    const char *program = NULL;
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        program = strcmp(node->attrs[0].s, mistakes[i].name) == 0 ? mistakes[i].program : program;
    }
    return program == NULL
               ? stator_fail(host, err, STATOR_INVALID_ARGUMENT, "no such mistake")
               : host->build->expr(b, program, 3, names, values, 0, NULL, 2, in_grads, err);
}

static stator_status gradient_of_twin(void *self, stator_builder *b, const stator_node_desc *node,
                                      const stator_ref *out_grads, stator_ref *in_grads,
                                      stator_diag **err)
{
    const stator_host *host = self;
    const char *const names[] = {"g"};
    (void)node;
    return host->build->expr(b, "2 * g", 1, names, out_grads, 0, NULL, 1, in_grads, err);
}

static const stator_attr_desc attrs[] = {
    {.name = "mistake", .kind = STATOR_ATTR_STRING, .is_required = 1}};

#define DESC(name_, operands_, doc_, body_)                                                        \
    .struct_size = sizeof(stator_op_desc), .version = 1, .name = (name_), .operands = (operands_), \
    .results = "z", .doc = (doc_), .body = (body_)

static const stator_oplib_op ops[] = {
    {.desc = {DESC("off_gradient", "x, y", "x * x * y", "x * x * y"), .attrs = attrs,
              .attr_count = 1},
     .infer = infer_same,
     .gradient = gradient},
    {.desc = {DESC("off_twin", "x", "x", "x * 1")},
     .infer = infer_same,
     .gradient = gradient_of_twin},
};

static const stator_oplib library = {
    .item = STATOR_ITEM(stator_oplib, STATOR_KIND_OPLIB, "wrong_gradients",
                        "ops whose gradients are wrong"),
    .ops = ops,
    .op_count = sizeof ops / sizeof ops[0],
    .op_stride = sizeof(stator_oplib_op),
};

static const stator_item *const items[] = {&library.item};

STATOR_PLUGIN("wrong_gradients", "1.0.0", "", "[\"oplib\"]", "", items, stator_init_host, NULL);
