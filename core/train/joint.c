/* What joint models, their parts and training steps share; see joint.h. */
#include "core/train/joint.h"

#include "core/base/check.h"
#include "core/base/str.h"
#include "ir/passes/pass.h"
#include "ir/sizes/bound_symbols.h"

#include <stator/ops.h>
#include <stdio.h>
#include <string.h>

/* ---- names ---- */

const char *st_joint_output_name(const stator_graph_view *v, uint32_t k, char made[24])
{
    const char *name = stator_string_at(v, stator_ref_at(v, v->output_name_begin + k));
    (void)snprintf(made, 24, "output_%u", k);
    return name[0] != '\0' ? name : made;
}

stator_status st_joint_fail_unknown(const char *what, const char *name, const char *const *names,
                                    uint32_t n, stator_diag **err)
{
    const char *near = st_nearest(name, names, n);
    return st_fail(err, STATOR_NOT_FOUND, "the model has no %s '%s'%s%s%s", what, name,
                   near != NULL ? ", did you mean '" : "", near != NULL ? near : "",
                   near != NULL ? "'?" : "");
}

stator_status st_joint_find_output(const stator_graph *graph, const char *name, uint32_t *out,
                                   stator_diag **err)
{
    const stator_graph_view *v = st_graph_view(graph);
    st_mem *mem = graph->module->mem;
    const char **names = st_calloc(mem, v->n_outputs + UINT64_C(1), sizeof *names);
    char(*made)[24] = st_calloc(mem, v->n_outputs + UINT64_C(1), sizeof *made);
    stator_status status = names != NULL && made != NULL ? STATOR_OK : st_fail_oom(err);
    *out = v->n_outputs;
    for (uint32_t k = 0; status == STATOR_OK && k < v->n_outputs; k++) {
        names[k] = st_joint_output_name(v, k, made[k]);
        *out = strcmp(names[k], name) == 0 ? k : *out;
    }
    if (status == STATOR_OK && *out == v->n_outputs) {
        status = st_joint_fail_unknown("output", name, names, v->n_outputs, err);
    }
    st_free(mem, (void *)(uintptr_t)names);
    st_free(mem, made);
    return status;
}

stator_ref st_joint_find_value(const stator_graph *graph, const char *name)
{
    uint32_t k = 0;
    const stator_graph_view *v = st_graph_view(graph);
    if (st_joint_find_output(graph, name, &k, NULL) == STATOR_OK) {
        return stator_output_at(v, k);
    }
    stator_ref found = 0; /* inputs come first, and what a node makes is taken before one */
    for (stator_ref value = 1; value <= v->n_values; value++) {
        const stator_value_row *row = stator_value_at(v, value);
        if ((found == 0 || (row->node != 0 && stator_value_at(v, found)->node == 0)) &&
            strcmp(stator_string_at(v, row->name), name) == 0) {
            found = value;
        }
    }
    return found;
}

stator_status st_joint_fail_no_value(const stator_graph *graph, const char *name, stator_diag **err)
{
    char made[24];
    const stator_graph_view *v = st_graph_view(graph);
    const char **names =
        st_calloc(graph->module->mem, v->n_outputs + UINT64_C(1) + v->n_values, sizeof *names);
    uint32_t n = 0;
    ST_TRY_MEM(names, err);
    for (uint32_t k = 0; k < v->n_outputs; k++) {
        const char *text = st_joint_output_name(v, k, made);
        if (text != made) {
            names[n++] = text;
        }
    }
    for (stator_ref value = 1; value <= v->n_values; value++) {
        const char *text = stator_string_at(v, stator_value_at(v, value)->name);
        if (text[0] != '\0') {
            names[n++] = text;
        }
    }
    const stator_status status = st_joint_fail_unknown("output or value", name, names, n, err);
    st_free(graph->module->mem, (void *)(uintptr_t)names);
    return status;
}

uint32_t st_joint_port_name(stator_builder *b, const char *prefix, const char *name,
                            const st_map *outputs)
{
    st_str text;
    uint32_t string = 0;
    st_str_init(&text, b->module->mem);
    st_str_addf(&text, "%s_%s", prefix, name);
    for (;;) {
        string = st_str_ok(&text) ? st_module_string(b->module, text.data, text.len) : 0;
        if (string == 0 || (outputs != NULL ? st_map_get(outputs, string) == 0
                                            : !st_build_has_input(b, text.data))) {
            break;
        }
        st_str_add(&text, "_");
    }
    st_str_deinit(&text);
    return string;
}

/* ---- the two parts ---- */

void st_joint_begin_backward(stator_builder *b, const stator_graph *from, stator_ref value)
{
    const stator_graph_view *v = st_graph_view(from);
    const stator_value_row *made = stator_value_at(v, value);
    const stator_node_row *row = made->node != 0 ? stator_node_at(v, made->node) : NULL;
    const char *what =
        row != NULL ? stator_op_at(v, row->op)->name : stator_string_at(v, made->name);
    st_build_set_origin_ref(
        b, st_module_origin_backward(b->module, row != NULL ? row->origin : 0, what));
}

/* ---- before differentiation ---- */

static bool is_attention(const stator_graph_view *v, stator_ref node)
{
    return stator_node_at(v, node)->op == STATOR_OPCODE_sdpa;
}

static int32_t keeps_attention(void *self, const stator_graph *graph, stator_ref node)
{
    (void)self;
    return is_attention(st_graph_view(graph), node);
}

/* Nodes of attention, also in regions. */
static uint32_t count_attention(const stator_graph *graph)
{
    const stator_graph_view *v = st_graph_view(graph);
    uint32_t n = 0;
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(v, node);
        n += is_attention(v, node);
        for (uint32_t k = 0; k < row->region_count; k++) {
            n += count_attention(stator_region_at(v, row, k));
        }
    }
    return n;
}

/* A value inside that `read` names becomes an output of that name, behind the model's own, so that
 * no pass does away with it. */
static stator_status keep_read(st_module *module, const char *read, stator_diag **err)
{
    uint32_t k = 0;
    const stator_graph *from = module->root;
    const stator_graph_view *v = st_graph_view(from);
    const stator_ref value = read != NULL ? st_joint_find_value(from, read) : 0;
    if (value == 0 || st_joint_find_output(from, read, &k, NULL) == STATOR_OK) {
        return STATOR_OK;
    }
    stator_builder *b = NULL;
    stator_ref *map = st_calloc(module->mem, v->n_values + UINT64_C(1), sizeof *map);
    stator_status status = map != NULL ? STATOR_OK : st_fail_oom(err);
    ST_THEN(status, st_builder_create(module, stator_string_at(v, v->name), &b, err));
    ST_THEN(status, st_build_clone_inputs(b, from, map, err));
    ST_THEN(status, v->n_nodes != 0 ? st_build_clone(b, from, 1, v->n_nodes, map, err) : STATOR_OK);
    ST_THEN(status, st_build_clone_outputs(b, from, map, err));
    ST_THEN(status, st_build_output(b, read, map[value], err));
    st_free(module->mem, map);
    if (status != STATOR_OK && b != NULL) {
        st_builder_abort(b);
    }
    return status == STATOR_OK ? st_builder_finish(b, &module->root, err) : status;
}

/* The place of fuel: a call that is a checkpoint is not written out before its gradient is, which
 * computes it again. */
static int32_t leaves_checkpoints(void *self, uint32_t kind, const char *rule, stator_ref node)
{
    const stator_graph *const *asked = self;
    const stator_attr_row *attr = st_graph_attr(*asked, node, "checkpoint");
    (void)kind;
    (void)rule;
    return attr == NULL || attr->i == 0;
}

static void note_asked(void *self, const stator_graph *graph)
{
    const stator_graph **asked = self;
    *asked = graph;
}

/* The graph in its normal form. */
static stator_status normalise(st_module *module, stator_graph **out, stator_diag **err)
{
    const stator_graph *asked = module->root;
    const st_pass_ctx ctx = {.mem = module->mem,
                             .may_apply = leaves_checkpoints,
                             .fuel_self = &asked,
                             .about = note_asked};
    return st_pass_run(st_pass_find("canonicalize"), &ctx, module->root, out, err);
}

/* Attention that is written out becomes one node, whose gradient keeps q, k and v and no
 * probabilities. *out_plain is the graph in its normal form, in which attention is looked for; a
 * graph that has none is that, or stays as it is. */
static stator_status find_attention(st_module *module, bool is_normal, stator_graph **out_plain,
                                    stator_diag **err)
{
    const st_pass_ctx ctx = {.mem = module->mem, .keep = keeps_attention};
    stator_graph *const whole = module->root;
    stator_graph *plain = NULL, *found = NULL;
    ST_TRY(normalise(module, &plain, err));
    ST_TRY(st_pass_run(st_pass_find("recompose"), &ctx, plain, &found, err));
    const bool is_found = count_attention(found) > count_attention(plain);
    module->root = is_found ? found : is_normal ? plain : whole; /* a pass leaves what it wrote */
    *out_plain = plain;
    return STATOR_OK;
}

stator_status st_joint_prepare(st_module *module, const st_joint_wishes *wishes, stator_diag **err)
{
    const st_pass_ctx ctx = {.mem = module->mem};
    stator_graph *plain = NULL;
    ST_TRY(st_pass_run(st_pass_find("functionalize"), &ctx, module->root, &module->root, err));
    ST_TRY(keep_read(module, wishes->read, err));
    ST_TRY(find_attention(module, wishes->is_normal, &plain, err));
    if (wishes->autocast != NULL) {
        ST_TRY(st_pass_run(st_pass_find(wishes->autocast), &ctx, module->root, &module->root, err));
    }
    ST_TRY(st_pass_run(st_pass_find("autodiff"), &ctx, module->root, &module->root, err));
    return !wishes->is_normal || module->root == plain ? STATOR_OK
                                                       : normalise(module, &module->root, err);
}

static void own_witnesses(stator_graph *root)
{
    for (stator_ref i = 1; i < root->values.count; i++) {
        ((stator_value_row *)st_seg_at(&root->values, i))->witness = i;
    }
}

stator_status st_joint_tidy(st_module *module, stator_diag **err)
{
    const st_pass_ctx ctx = {.mem = module->mem};
    ST_TRY(st_pass_run(st_pass_find("dce"), &ctx, module->root, &module->root, err));
    own_witnesses(module->root);
    return st_check_symbols_bound(module->root, err);
}

stator_status st_joint_finish(stator_builder *b, stator_status status, stator_diag **err)
{
    st_module *module = b->module;
    if (status != STATOR_OK) {
        st_builder_abort(b);
        return status;
    }
    ST_TRY(st_builder_finish(b, &module->root, err));
    return st_joint_tidy(module, err);
}

typedef struct note {
    stator_ctx *ctx;
    bool is_capped;
} note;

static void on_note(void *self, const char *text)
{
    note *n = self;
    n->is_capped = true;
    st_log(n->ctx, "passes", 1, "%s", text);
}

stator_status st_joint_rematerialise(st_module *module, const st_keep_limits *limits,
                                     stator_ctx *ctx, bool *out_is_capped, stator_diag **err)
{
    note noted = {.ctx = ctx};
    const st_pass_ctx pass = {
        .mem = module->mem, .keep_limits = limits, .note = on_note, .note_self = &noted};
    ST_TRY(st_pass_run(st_pass_find("rematerialise"), &pass, module->root, &module->root, err));
    if (out_is_capped != NULL) {
        *out_is_capped = noted.is_capped;
    }
    return st_joint_tidy(module, err);
}
