/* A pass that leaves every graph as it is, in variants: the CMake file beside it builds one plugin
 * for each set of MUTANT_ macros. */
#include "mutant_init.h"

#include <stator/ir.h>
#include <stator/plugin.h>
#include <stddef.h>

#ifndef MUTANT_NAME
#error "MUTANT_NAME is the plugin's name"
#endif
#ifndef MUTANT_PASS_NAME
#define MUTANT_PASS_NAME MUTANT_NAME
#endif
#ifndef MUTANT_PHASE
#define MUTANT_PHASE STATOR_PHASE_POST_GRAD
#endif
#ifndef MUTANT_BEFORE
#define MUTANT_BEFORE NULL
#endif

#ifdef MUTANT_NO_RUN
#define MUTANT_RUN (1 ? NULL : run)
#else
#define MUTANT_RUN run
#endif

#ifdef MUTANT_ESCAPE
#define MUTANT_DOC "changes \x1b[31m nothing"
#else
#define MUTANT_DOC "changes nothing"
#endif

/* Options of the pass: the first MUTANT_ROWS of two rows. */
#ifndef MUTANT_ROWS
#define MUTANT_ROWS 0
#endif
#ifndef MUTANT_KEY
#define MUTANT_KEY "limit"
#endif
#ifndef MUTANT_DEFAULT
#define MUTANT_DEFAULT "2"
#endif
#ifndef MUTANT_STRIDE
#define MUTANT_STRIDE sizeof(stator_option_desc)
#endif
#ifndef MUTANT_SIZE
#define MUTANT_SIZE sizeof(stator_pass)
#endif
#if MUTANT_ROWS
static const stator_option_desc rows[2] = {{.struct_size = sizeof(stator_option_desc),
                                            .type = STATOR_OPTION_I64,
                                            .key = "limit",
                                            .default_text = MUTANT_ROWS == 1 ? MUTANT_DEFAULT : "1",
                                            .min_i64 = 1,
                                            .max_i64 = 8,
                                            .help = "how many negations are added"},
                                           {.struct_size = sizeof(stator_option_desc),
                                            .type = STATOR_OPTION_I64,
                                            .key = MUTANT_KEY,
                                            .help = "another"}};
#define MUTANT_OPTIONS (MUTANT_ROWS > 2 ? NULL : rows)
#else
#define MUTANT_OPTIONS NULL
#endif

#ifdef MUTANT_ADDS
/* `count` negations behind the last value, of a graph with one output and few values. */
static stator_status add(const stator_host *host, const stator_graph *in, int64_t count,
                         stator_builder *out, stator_diag **err)
{
    stator_ref map[64] = {0};
    const stator_graph_view *v = host->ir->view(in);
    stator_status status = v->n_values < 64 ? STATOR_OK : STATOR_UNIMPLEMENTED;
    for (stator_ref i = 1; status == STATOR_OK && i <= v->n_inputs; i++) {
        const stator_value_row *row = stator_value_at(v, i);
        status = host->build->input(out, stator_string_at(v, row->name), row->type, &map[i], err);
    }
    if (status == STATOR_OK) {
        status = host->build->clone(out, in, 1, v->n_nodes, map, err);
    }
    stator_ref value = map[stator_output_at(v, 0)];
    for (int i = 0; status == STATOR_OK && i < count; i++) {
        const stator_ref operand = value;
        const stator_node_desc node = {.struct_size = sizeof node,
                                       .op = host->ir->find_op(host->ctx, "neg"),
                                       .operands = &operand,
                                       .operand_count = 1};
        status = host->build->node(out, &node, &value, err);
    }
    return status == STATOR_OK ? host->build->output(out, "y", value, err) : status;
}
#endif

static stator_status run(void *self, const stator_graph *in, stator_builder *out,
                         stator_fuel_scope *fuel, uint32_t *out_result, stator_diag **err)
{
    (void)fuel;
#ifdef MUTANT_ADDS
    *out_result = STATOR_PASS_CHANGED;
    return add(self, in, 2, out, err);
#else
    (void)self;
    (void)in;
    (void)out;
    (void)err;
    *out_result = STATOR_PASS_SAME;
    return STATOR_OK;
#endif
}

#ifdef MUTANT_RUN_WITH
static stator_status run_with(void *self, const stator_graph *in, const stator_options *options,
                              stator_builder *out, stator_fuel_scope *fuel, uint32_t *out_result,
                              stator_diag **err)
{
    const stator_host *host = self;
    (void)fuel;
    *out_result = STATOR_PASS_CHANGED;
    return add(host, in, host->opt->get_i64(options, "limit"), out, err);
}
#endif

static const stator_pass pass = {
    .item = {.struct_size = MUTANT_SIZE,
             .kind = STATOR_KIND_PASS,
             .abi_major = STATOR_ABI_MAJOR,
             .abi_minor_min = STATOR_ABI_MINOR,
             .abi_minor_built = STATOR_ABI_MINOR,
             .name = MUTANT_PASS_NAME,
             .doc = MUTANT_DOC,
             .options = MUTANT_OPTIONS,
             .option_count = MUTANT_ROWS,
             .option_stride = MUTANT_STRIDE},
    .phase = MUTANT_PHASE,
    .flags = STATOR_PASS_DETERMINISTIC,
    .before = MUTANT_BEFORE,
    .run = MUTANT_RUN,
#ifdef MUTANT_RUN_WITH
    .run_with = run_with,
#endif
};

static const stator_item *const items[] = {&pass.item};

STATOR_PLUGIN(MUTANT_NAME, "1.0.0", "Stator's tests", "[\"pass\"]", "", items, init, NULL);
