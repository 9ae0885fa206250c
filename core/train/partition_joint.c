/* The two parts of a joint model as models of their own, and before that the plan of what is kept
 * between them; see stator/train.h.
 *
 * In: a joint graph, whose nodes say which of them are backward. Out: the forward graph, which also
 * gives what the backward graph reads of it (the saved values), and the backward graph, which takes
 * them as inputs. Both list the saved values in the same order under the same names.
 *
 *   (%x, %t) { %s = sin(%x)  %y = exp(%s)   %1 = mul(%t, %y)  %2 = cos(%x)  %grad_x = mul(%1, %2) }
 *
 *   forward  (%x) -> y, saved..          backward  (%x, %t, saved..) -> grad_x
 */
#include "core/base/sized.h"
#include "core/base/str.h"
#include "core/host/model.h"
#include "core/train/joint.h"
#include "ir/builder.h"
#include "ir/passes/pass.h"
#include <stator/train.h>

#include <string.h>

typedef struct halves {
    st_module *module; /* a copy, which becomes one of the parts */
    const stator_graph *from;
    const stator_graph_view *v;
    st_mem *mem;
    uint8_t *forward, *backward; /* by value: does that part read it? */
    uint8_t *constant;           /* by node: both parts have it, nothing is saved for it */
    stator_ref *saved;           /* values */
    uint32_t *names;             /* strings */
    uint32_t n_saved;
    st_map taken; /* names of ports */
    stator_builder *b;
    stator_ref *map;
} halves;

/* ---- who reads what ---- */

static bool is_backward(const halves *h, stator_ref value)
{
    const stator_ref node = stator_value_at(h->v, value)->node;
    return node != 0 && stator_node_is_backward(h->v, node);
}

/* Is the node made of constants and sizes alone? Both parts have it, so that what it tells of types
 * (the trips of a loop, say) is told in both, and nothing is saved for it. */
static bool is_constant(const halves *h, stator_ref node)
{
    const stator_node_row *row = stator_node_at(h->v, node);
    const uint64_t never = STATOR_OP_RANDOM | STATOR_OP_EFFECT | STATOR_OP_REGIONS |
                           STATOR_OP_UNBACKED | STATOR_OP_CONTRACTS | STATOR_OP_WRITES;
    bool is_made =
        (stator_op_at(h->v, row->op)->flags & never) == 0 && !st_node_holds_unbacked(h->from, row);
    for (uint32_t k = 0; is_made && k < row->operand_count; k++) {
        const stator_ref value = stator_operand(h->v, row, k);
        is_made = value == 0 || h->constant[stator_value_at(h->v, value)->node];
    }
    return is_made;
}

static void mark_readers(halves *h)
{
    for (stator_ref node = 1; node <= h->v->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(h->v, node);
        h->constant[node] = is_constant(h, node);
        uint8_t *reads = stator_node_is_backward(h->v, node) ? h->backward : h->forward;
        for (uint32_t k = 0; k < row->operand_count; k++) {
            reads[stator_operand(h->v, row, k)] = 1; /* of an absent one: place 0 */
        }
    }
    for (uint32_t k = 0; k < h->v->n_outputs; k++) {
        const stator_ref value = stator_output_at(h->v, k);
        h->forward[value] |= !is_backward(h, value);
    }
}

static uint32_t output_name_of(const halves *h, stator_ref value)
{
    for (uint32_t k = 0; k < h->v->n_outputs; k++) {
        if (stator_output_at(h->v, k) == value) {
            return stator_ref_at(h->v, h->v->output_name_begin + k);
        }
    }
    return 0;
}

/* saved_NAME, or the number of the value, with `_` at its end as long as a port has the name. */
static uint32_t free_name(halves *h, stator_ref value)
{
    const char *own = stator_string_at(h->v, stator_value_at(h->v, value)->name);
    st_str text;
    uint32_t string = 0;
    st_str_init(&text, h->mem);
    if (own[0] != '\0') {
        st_str_addf(&text, "saved_%s", own);
    } else {
        st_str_addf(&text, "saved_%u", value);
    }
    for (;;) {
        string = st_str_ok(&text) ? st_module_string(h->module, text.data, text.len) : 0;
        if (string == 0 || st_map_get(&h->taken, string) == 0) {
            break;
        }
        st_str_add(&text, "_");
    }
    st_str_deinit(&text);
    return string != 0 && st_map_put(&h->taken, string, 1) ? string : 0;
}

static stator_status list_saved(halves *h, stator_diag **err)
{
    bool ok = true;
    for (stator_ref i = 1; ok && i <= h->v->n_inputs; i++) {
        const uint32_t name = stator_value_at(h->v, i)->name;
        ok = name == 0 || st_map_put(&h->taken, name, 1);
    }
    for (uint32_t k = 0; ok && k < h->v->n_outputs; k++) {
        const uint32_t name = stator_ref_at(h->v, h->v->output_name_begin + k);
        ok = name == 0 || st_map_put(&h->taken, name, 1);
    }
    for (stator_ref value = h->v->n_inputs + 1u; ok && value <= h->v->n_values; value++) {
        if (h->backward[value] && !is_backward(h, value) &&
            !h->constant[stator_value_at(h->v, value)->node]) {
            const uint32_t name = output_name_of(h, value);
            h->saved[h->n_saved] = value;
            h->names[h->n_saved] = name != 0 ? name : free_name(h, value);
            ok = h->names[h->n_saved++] != 0;
        }
    }
    return ok ? STATOR_OK : st_fail_oom(err);
}

/* ---- one part ---- */

/* `sizes`: inputs that tell a size are wanted as well, apart from parameters. */
static bool wants_input(const halves *h, stator_ref input, bool backward, bool sizes)
{
    const bool is_param = (stator_value_at(h->v, input)->flags & STATOR_VALUE_PARAM) != 0;
    if (backward) {
        return h->backward[input] || (sizes && !is_param);
    }
    return h->forward[input] || !h->backward[input];
}

static stator_status write_inputs(halves *h, bool backward, bool sizes, stator_diag **err)
{
    for (stator_ref i = 1; i <= h->v->n_inputs; i++) {
        if (wants_input(h, i, backward, sizes)) {
            ST_TRY(st_build_clone_input(h->b, h->from, i, h->map, err));
        }
    }
    for (uint32_t k = 0; backward && k < h->n_saved; k++) {
        ST_TRY(st_build_input(h->b, st_module_str(h->module, h->names[k]),
                              stator_value_at(h->v, h->saved[k])->type, &h->map[h->saved[k]], err));
    }
    return STATOR_OK;
}

static stator_status write_outputs(halves *h, bool backward, stator_diag **err)
{
    for (uint32_t k = 0; k < h->v->n_outputs; k++) {
        const stator_ref value = stator_output_at(h->v, k);
        const uint32_t name = stator_ref_at(h->v, h->v->output_name_begin + k);
        if (is_backward(h, value) == backward) {
            ST_TRY(st_build_output(h->b, st_module_str(h->module, name), h->map[value], err));
        }
    }
    for (uint32_t k = 0; !backward && k < h->n_saved; k++) {
        if (output_name_of(h, h->saved[k]) == 0) {
            ST_TRY(st_build_output(h->b, st_module_str(h->module, h->names[k]), h->map[h->saved[k]],
                                   err));
        }
    }
    for (uint32_t k = 0; k < h->v->n_write_backs; k++) {
        const stator_write_back_row *row = stator_write_back_at(h->v, k);
        if (is_backward(h, row->value) == backward && h->map[row->input] != 0) {
            ST_TRY(st_build_write_back(h->b, h->map[row->input], h->map[row->value], err));
        }
    }
    return STATOR_OK;
}

static stator_status write_part(halves *h, bool backward, bool sizes, stator_diag **err)
{
    ST_TRY(write_inputs(h, backward, sizes, err));
    for (stator_ref node = 1; node <= h->v->n_nodes; node++) {
        if (stator_node_is_backward(h->v, node) == backward || h->constant[node]) {
            ST_TRY(st_build_clone_node(h->b, h->from, node, NULL, h->map, err));
        }
    }
    return write_outputs(h, backward, err);
}

static stator_status build_part(halves *h, bool backward, bool sizes, stator_diag **err)
{
    ST_TRY(st_builder_create(h->module, stator_string_at(h->v, h->v->name), &h->b, err));
    memset(h->map, 0, (h->v->n_values + UINT64_C(1)) * sizeof *h->map);
    const stator_status status = write_part(h, backward, sizes, err);
    return st_joint_finish(h->b, status, err);
}

/* Sizes that only the forward part's inputs tell make these inputs of the backward part. */
static stator_status try_part(halves *h, bool backward, stator_diag **err)
{
    stator_diag *why = NULL;
    const stator_status status = build_part(h, backward, false, &why);
    const bool again = backward && status == STATOR_INVALID_ARGUMENT;
    if (again || status == STATOR_OK) {
        st_diag_release(why);
        return again ? build_part(h, backward, true, err) : STATOR_OK;
    }
    *err = why;
    return status;
}

static stator_status part_module(st_module *module, bool backward, stator_diag **err)
{
    halves h = {.module = module,
                .from = module->root,
                .v = st_graph_view(module->root),
                .mem = module->mem};
    const uint64_t n = h.v->n_values + UINT64_C(1);
    st_map_init(&h.taken, h.mem);
    h.forward = st_calloc(h.mem, n * 2u + h.v->n_nodes + 1u, 1);
    h.saved = st_calloc(h.mem, n * 3u, sizeof *h.saved);
    stator_status status = STATOR_OK;
    if (h.forward == NULL || h.saved == NULL) {
        status = st_fail_oom(err);
    } else {
        h.backward = h.forward + n;
        h.constant = h.backward + n;
        h.names = h.saved + n;
        h.map = h.names + n;
        mark_readers(&h);
        status = list_saved(&h, err);
    }
    ST_THEN(status, try_part(&h, backward, err));
    st_map_deinit(&h.taken);
    st_free(h.mem, h.forward);
    st_free(h.mem, h.saved);
    return status;
}

/* ---- the plan ---- */

typedef struct plan {
    stator_partition_options options;
    st_keep_limits limits;
    bool is_min_cut;
    bool is_capped;
    stator_ctx *ctx;
} plan;

static stator_status read_options(const stator_partition_options *given, plan *out,
                                  stator_diag **err)
{
    static const stator_partition_options nothing = {.struct_size = sizeof nothing};
    stator_partition_options *o = &out->options;
    ST_TRY(ST_SIZED_READ(stator_partition_options, o, given != NULL ? given : &nothing, err));
    ST_TRY(st_check_flags(
        o->flags, STATOR_PARTITION_BUDGET | STATOR_PARTITION_CONTRACTIONS | STATOR_PARTITION_RANDOM,
        "stator_partition_options", err));
    out->is_min_cut = o->plan != NULL && strcmp(o->plan, "min-cut") == 0;
    ST_FAIL_IF(o->plan != NULL && !out->is_min_cut && strcmp(o->plan, "default") != 0, err,
               STATOR_INVALID_ARGUMENT, "the plan '%s' is none of default and min-cut", o->plan);
    const bool has_budget = (o->flags & STATOR_PARTITION_BUDGET) != 0;
    out->limits.budget = has_budget ? o->budget : 1;
    ST_FAIL_IF(!(out->limits.budget >= 0 && out->limits.budget <= 1), err, STATOR_INVALID_ARGUMENT,
               "the budget %g is not from 0 to 1", out->limits.budget);
    ST_FAIL_IF(has_budget && !out->is_min_cut, err, STATOR_INVALID_ARGUMENT,
               "a budget is one of the plan 'min-cut'");
    out->limits.allowed =
        ((o->flags & STATOR_PARTITION_CONTRACTIONS) != 0 ? ST_RECOMPUTE_ALLOW_HEAVY : 0u) |
        ((o->flags & STATOR_PARTITION_RANDOM) != 0 ? ST_RECOMPUTE_ALLOW_RANDOM : 0u);
    return STATOR_OK;
}

static bool has_backward_output(const stator_graph *graph)
{
    const stator_graph_view *v = st_graph_view(graph);
    bool found = false;
    for (uint32_t k = 0; k < v->n_outputs; k++) {
        const stator_ref node = stator_value_at(v, stator_output_at(v, k))->node;
        found |= node != 0 && stator_node_is_backward(v, node);
    }
    return found;
}

static stator_status rematerialise_module(st_module *module, plan *p, stator_diag **err)
{
    ST_FAIL_IF(!has_backward_output(module->root), err, STATOR_INVALID_ARGUMENT,
               "the model has no gradient among its outputs; stator_model_differentiate makes one "
               "that has");
    return p->is_min_cut ? st_joint_rematerialise(module, &p->limits, p->ctx, &p->is_capped, err)
                         : STATOR_OK;
}

static stator_status fill_facts(const plan *p, const stator_model *joint, stator_diag **err)
{
    const stator_graph_view *v = st_graph_view(stator_model_graph(joint));
    stator_partition_facts facts = {.is_capped = p->is_capped};
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        facts.recomputed += stator_node_is_recomputed(v, node);
    }
    return p->options.facts == NULL
               ? STATOR_OK
               : ST_SIZED_WRITE(stator_partition_facts, p->options.facts, &facts, err);
}

/* ---- the whole ---- */

stator_status stator_model_rematerialise(const stator_model *joint,
                                         const stator_partition_options *options,
                                         stator_model **out_model)
{
    *out_model = NULL;
    plan p = {.ctx = joint->ctx};
    stator_diag *diag = NULL;
    st_module *copy = NULL;
    stator_status status = read_options(options, &p, &diag);
    ST_THEN(status, st_model_copy(joint, &copy, &diag));
    ST_THEN(status, rematerialise_module(copy, &p, &diag));
    ST_TRY(st_model_end_copy(joint, copy, status, out_model, diag));
    const stator_status filled = fill_facts(&p, *out_model, &diag);
    if (filled != STATOR_OK) {
        stator_model_destroy(*out_model);
        *out_model = NULL;
        return st_ctx_fail(joint->ctx, filled, diag);
    }
    return STATOR_OK;
}

static stator_status make_part(const stator_model *joint, bool backward, stator_model **out)
{
    stator_diag *diag = NULL;
    st_module *copy = NULL;
    stator_status status = st_model_copy(joint, &copy, &diag);
    ST_THEN(status, part_module(copy, backward, &diag));
    return st_model_end_copy(joint, copy, status, out, diag);
}

stator_status stator_model_partition(const stator_model *joint,
                                     const stator_partition_options *options,
                                     stator_model **out_forward, stator_model **out_backward)
{
    *out_forward = NULL;
    *out_backward = NULL;
    stator_model *planned = NULL;
    ST_TRY(stator_model_rematerialise(joint, options, &planned));
    stator_status status = make_part(planned, false, out_forward);
    ST_THEN(status, make_part(planned, true, out_backward));
    if (status != STATOR_OK) {
        stator_model_destroy(*out_forward);
        *out_forward = NULL;
    }
    stator_model_destroy(planned);
    return status;
}
