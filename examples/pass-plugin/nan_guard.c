/* The pass "nan_guard": after each op with a float result it adds a check that stops the program
 * where NaN first appears, with the name of the node:
 *
 *     before   %2 = log(%x)                 after   %2 = log(%x)
 *              %3 = exp(%2)                         %3 = is_nan(%2)
 *              return %3                            %4 = bit_not(%3)
 *                                                   %5 = check(%4) {message = "nan_guard: ..."}
 *                                                   %6 = exp(%2) ...
 *
 *     stator opt --pass nan_guard model.onnx --plugin-dir build       to see the graph
 *     stator run model.onnx --backend aot_eager --plugin-dir build    to find the node
 *     stator run ... --pass-option nan_guard:only=log,div             guards behind these ops alone
 *
 * It shows what a pass of a third party does: it reads one graph and writes a whole new one
 * (inputs, nodes, write-backs, outputs), takes an option, asks for fuel before each thing it
 * adds, and keeps witnesses and origins by cloning what it does not change. It is added to every
 * pipeline that has its phase. */
#include <stator/plugin.h>

#include <stdio.h>
#include <string.h>

#define VERSION "1.0.0"
#define ABOUT "stops a program where NaN first appears"
#define PREFIX "nan_guard: "

/* One run of the pass. */
typedef struct work {
    const stator_host *host;
    const stator_graph *in;
    const stator_graph_view *v; /* view of `in` */
    const char *only;           /* ops that are guarded, with commas between; "": all */
    stator_builder *out;
    stator_fuel_scope *fuel;
    stator_ref *map; /* value of in -> value of out */
    stator_diag **err;
} work;

#define TRY(expr)                                                                                  \
    do {                                                                                           \
        const stator_status try_status = (expr);                                                   \
        if (try_status != STATOR_OK) {                                                             \
            return try_status;                                                                     \
        }                                                                                          \
    } while (0)

/* ---- what is copied ---- */

static stator_status copy_inputs(work *w)
{
    const stator_build_api *build = w->host->build;
    for (stator_ref value = 1; value <= w->v->n_inputs; value++) {
        const stator_value_row *row = stator_value_at(w->v, value);
        const char *name = stator_string_at(w->v, row->name);
        if (row->flags & STATOR_VALUE_PARAM) {
            stator_blob *blob = w->host->cst->of_value(w->in, value);
            TRY(build->param(w->out, name, row->type, blob, &w->map[value], w->err));
        } else {
            TRY(build->input(w->out, name, row->type, &w->map[value], w->err));
        }
        build->set_witness(w->out, w->map[value], row->witness);
    }
    return STATOR_OK;
}

static stator_status copy_outputs(work *w)
{
    const stator_build_api *build = w->host->build;
    for (uint32_t i = 0; i < w->v->n_write_backs; i++) {
        const stator_write_back_row *row = stator_column_at(&w->v->write_backs, i);
        TRY(build->write_back(w->out, w->map[row->input], w->map[row->value], w->err));
    }
    for (uint32_t i = 0; i < w->v->n_outputs; i++) {
        const char *name = stator_string_at(w->v, stator_ref_at(w->v, w->v->output_name_begin + i));
        TRY(build->output(w->out, name, w->map[stator_output_at(w->v, i)], w->err));
    }
    return STATOR_OK;
}

/* ---- what is added ---- */

static stator_status add_op(work *w, const char *op, stator_ref operand, const stator_attr *attr,
                            stator_ref *out)
{
    const stator_node_desc desc = {.struct_size = sizeof desc,
                                   .op = w->host->ir->find_op(w->host->ctx, op),
                                   .operands = &operand,
                                   .operand_count = 1,
                                   .attrs = attr,
                                   .attr_count = attr ? 1 : 0};
    return w->host->build->node(w->out, &desc, out, w->err);
}

/* "nan_guard: NaN in result 0 of log (Log_3)" */
static stator_status add_guard(work *w, const stator_node_row *row, uint32_t k)
{
    char message[256];
    const char *name = "";
    stator_ref value = w->map[row->result_begin + k];
    if (row->origin != 0) {
        const stator_origin_row *origin = stator_column_at(&w->v->origins, row->origin);
        name = stator_string_at(w->v, origin->name);
    }
    (void)snprintf(message, sizeof message, PREFIX "NaN in result %u of %s (%s)", k,
                   stator_op_at(w->v, row->op)->name, name);
    const stator_attr attr = {.name = "message", .kind = STATOR_ATTR_STRING, .s = message};
    w->host->build->set_origin_ref(w->out, row->origin);
    TRY(add_op(w, "is_nan", value, NULL, &value));
    TRY(add_op(w, "bit_not", value, NULL, &value));
    return add_op(w, "check", value, &attr, &value);
}

static int is_float(const stator_type_row *type)
{
    return type->dtype >= STATOR_F8E4M3FN && type->dtype <= STATOR_F64;
}

/* Is it a word of the list? */
static int is_listed(const char *list, const char *name)
{
    const size_t n = strlen(name);
    while (*list != '\0') {
        const size_t len = strcspn(list, ",");
        if (len == n && strncmp(list, name, n) == 0) {
            return 1;
        }
        list += len + (list[len] == ',');
    }
    return 0;
}

/* Constants hold what they hold, and views move what was checked already. */
static int is_wanted(const work *w, const stator_node_row *row)
{
    const stator_op_desc *op = stator_op_at(w->v, row->op);
    return (op->flags & (STATOR_OP_CONSTANT | STATOR_OP_VIEW)) == 0 &&
           (w->only[0] == '\0' || is_listed(w->only, op->name));
}

static stator_status copy_node(work *w, stator_ref node)
{
    const stator_node_row *row = stator_node_at(w->v, node);
    TRY(w->host->build->clone(w->out, w->in, node, node, w->map, w->err));
    for (uint32_t k = 0; is_wanted(w, row) && k < row->result_count; k++) {
        const stator_type_row *type = stator_value_type(w->v, row->result_begin + k);
        if (is_float(type) &&
            w->host->fuel->may_apply(w->fuel, STATOR_FUEL_REWRITE, "nan_guard", node)) {
            TRY(add_guard(w, row, k));
        }
    }
    return STATOR_OK;
}

/* Has the graph guards already? Then there is nothing to do. */
static int is_guarded(const work *w)
{
    for (stator_ref node = 1; node <= w->v->n_nodes; node++) {
        const stator_attr_row *attr = w->host->ir->attr(w->in, node, "message");
        if (attr != NULL && attr->kind == STATOR_ATTR_STRING &&
            strncmp(stator_string_at(w->v, attr->begin), PREFIX, strlen(PREFIX)) == 0) {
            return 1;
        }
    }
    return 0;
}

static stator_status rewrite(work *w)
{
    TRY(copy_inputs(w));
    for (stator_ref node = 1; node <= w->v->n_nodes; node++) {
        TRY(copy_node(w, node));
    }
    return copy_outputs(w);
}

static stator_status run_with(void *self, const stator_graph *in, const stator_options *options,
                              stator_builder *out, stator_fuel_scope *fuel, uint32_t *out_result,
                              stator_diag **err)
{
    const stator_host *host = self;
    work w = {.host = host,
              .in = in,
              .v = host->ir->view(in),
              .only = host->opt->get_str(options, "only"),
              .out = out,
              .fuel = fuel,
              .err = err};
    *out_result = STATOR_PASS_SAME;
    if (is_guarded(&w)) {
        return STATOR_OK;
    }
    const uint64_t bytes = ((uint64_t)w.v->n_values + 1u) * sizeof *w.map;
    w.map = host->mem->alloc(host->ctx, bytes, 16);
    if (w.map == NULL) {
        return STATOR_RESOURCE_EXHAUSTED;
    }
    memset(w.map, 0, (size_t)bytes);
    const stator_status status = rewrite(&w);
    host->mem->free(host->ctx, w.map);
    *out_result = STATOR_PASS_CHANGED;
    return status;
}

/* ---- the plugin ---- */

static const stator_option_desc options[] = {
    {.struct_size = sizeof(stator_option_desc),
     .type = STATOR_OPTION_LIST,
     .flags = STATOR_OPTION_AFFECTS_CODE,
     .key = "only",
     .default_text = "",
     .help = "guard the results of these ops alone"},
};

static const stator_pass pass = {
    .item = STATOR_ITEM_OPTIONS(stator_pass, STATOR_KIND_PASS, "nan_guard", ABOUT, options),
    .phase = STATOR_PHASE_PRE_GRAD, /* before ops are decomposed: messages name imported ops */
    .flags = STATOR_PASS_DETERMINISTIC,
    .run_with = run_with,
};

static const stator_item *const items[] = {&pass.item};

STATOR_PLUGIN("nan_guard", VERSION, "Stator examples", "[\"pass\"]",
              ",\"description\":\"" ABOUT "\"", items, stator_init_host, NULL);
