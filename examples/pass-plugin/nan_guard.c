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
#include <stator/emit.h>

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
    stator_emitter e;           /* over the new graph */
    stator_fuel_scope *fuel;
    stator_ref *map; /* value of in -> value of the new graph */
} work;

/* ---- what is copied ---- */

static void copy_inputs(work *w)
{
    for (stator_ref value = 1; value <= w->v->n_inputs; value++) {
        const stator_value_row *row = stator_value_at(w->v, value);
        const char *name = stator_string_at(w->v, row->name);
        if ((row->flags & STATOR_VALUE_PARAM) != 0) {
            w->map[value] =
                stator_emit_param(&w->e, name, row->type, w->host->cst->of_value(w->in, value));
        } else {
            w->map[value] = stator_emit_input(&w->e, name, row->type);
        }
        w->e.build->set_witness(w->e.b, w->map[value], row->witness);
    }
}

static void copy_outputs(work *w)
{
    for (uint32_t i = 0; i < w->v->n_write_backs; i++) {
        const stator_write_back_row *row = stator_write_back_at(w->v, i);
        stator_emit_write_back(&w->e, w->map[row->input], w->map[row->value]);
    }
    for (uint32_t i = 0; i < w->v->n_outputs; i++) {
        const char *name = stator_string_at(w->v, stator_ref_at(w->v, w->v->output_name_begin + i));
        stator_emit_output(&w->e, name, w->map[stator_output_at(w->v, i)]);
    }
}

/* ---- what is added ---- */

/* "nan_guard: NaN in result 0 of log (Log_3)" */
static void add_guard(work *w, const stator_node_row *row, uint32_t k)
{
    char message[256];
    const char *name = "";
    if (row->origin != 0) {
        const stator_origin_row *origin = stator_origin_at(w->v, row->origin);
        name = stator_string_at(w->v, origin->name);
    }
    (void)snprintf(message, sizeof message, PREFIX "NaN in result %u of %s (%s)", k,
                   stator_op_at(w->v, row->op)->name, name);
    w->e.build->set_origin_ref(w->e.b, row->origin);
    const stator_ref is_nan = stator_emit_unary(&w->e, "is_nan", w->map[row->result_begin + k]);
    stator_emit_op(&w->e, "check", STATOR_IN(stator_emit_unary(&w->e, "bit_not", is_nan)),
                   STATOR_AT(STATOR_A_STR("message", message)));
}

static bool is_float(const stator_type_row *type)
{
    return type->dtype >= STATOR_F8E4M3FN && type->dtype <= STATOR_F64;
}

/* Is it a word of the list? */
static bool is_listed(const char *list, const char *name)
{
    const size_t n = strlen(name);
    while (*list != '\0') {
        const size_t len = strcspn(list, ",");
        if (len == n && strncmp(list, name, n) == 0) {
            return true;
        }
        list += len + (list[len] == ',');
    }
    return false;
}

/* Constants hold what they hold, and views move what was checked already. */
static bool is_wanted(const work *w, const stator_node_row *row)
{
    const stator_op_desc *op = stator_op_at(w->v, row->op);
    return (op->flags & (STATOR_OP_CONSTANT | STATOR_OP_VIEW)) == 0 &&
           (w->only[0] == '\0' || is_listed(w->only, op->name));
}

static void copy_node(work *w, stator_ref node)
{
    const stator_node_row *row = stator_node_at(w->v, node);
    stator_emit_clone(&w->e, w->in, node, node, w->map);
    for (uint32_t k = 0; is_wanted(w, row) && k < row->result_count; k++) {
        const stator_type_row *type = stator_value_type(w->v, row->result_begin + k);
        if (is_float(type) &&
            w->host->fuel->may_apply(w->fuel, STATOR_FUEL_REWRITE, "nan_guard", node)) {
            add_guard(w, row, k);
        }
    }
}

/* Has the graph guards already? Then there is nothing to do. */
static bool is_guarded(const work *w)
{
    for (stator_ref node = 1; node <= w->v->n_nodes; node++) {
        const stator_attr_row *attr = w->host->ir->attr(w->in, node, "message");
        if (attr != NULL && attr->kind == STATOR_ATTR_STRING &&
            strncmp(stator_string_at(w->v, attr->begin), PREFIX, strlen(PREFIX)) == 0) {
            return true;
        }
    }
    return false;
}

static void rewrite(work *w)
{
    copy_inputs(w);
    for (stator_ref node = 1; node <= w->v->n_nodes; node++) {
        copy_node(w, node);
    }
    copy_outputs(w);
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
              .e = stator_emitter_of(host, out, err),
              .fuel = fuel};
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
    rewrite(&w);
    host->mem->free(host->ctx, w.map);
    *out_result = STATOR_PASS_CHANGED;
    return w.e.status;
}

/* ---- the plugin ---- */

static const stator_option_desc options[] = {
    STATOR_OPTION_ROW(STATOR_OPTION_LIST, STATOR_OPTION_AFFECTS_CODE, "only", "",
                      "guard the results of these ops alone"),
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
