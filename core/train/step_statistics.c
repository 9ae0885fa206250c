/* Running statistics of normalisations in a training step: they are no parameters to train, and
 * a call writes back what the normalisation makes of them. Which operands are statistics, and
 * which results become of them, the op table says. A parameter is looked for behind ops that lose
 * nothing, which the way back undoes, and through the operands of control flow; one that any other
 * op stands before is refused unless it is frozen (statistic_source.c). Where two nodes share one,
 * each updates what the one before made of it, as two calls of one module in PyTorch do.
 *
 *   %r = reshape(%mean)  %y, %m, %v = batch_norm_train(.., %r, ..)    writes back  reshape(%m) */
#include "core/base/check.h"
#include "core/base/str.h"
#include "core/train/statistic_source.h"
#include "ir/optable.h"

#include <stator/ops.h>
#include <stdio.h>
#include <string.h>

static const st_op_def *def_of(const st_train_step *s, const stator_node_row *row)
{
    return st_optable_at(s->module->ops, row->op)->def;
}

/* ---- which parameters they are ---- */

/* The statistics of operand k are updated: is that something that a step can do? */
static stator_status check_update(const st_train_step *s, const st_scope *at, stator_ref node,
                                  uint32_t k, stator_diag **err)
{
    char name[48];
    const stator_node_row *row = stator_node_at(at->v, node);
    const st_op_def *def = def_of(s, row);
    const stator_ref parameter = st_scope_parameter(at, stator_operand(at->v, row, k));
    const char *text = st_step_value_name(s, parameter);
    ST_FAIL_IF(at->outer != NULL, err, STATOR_UNSUPPORTED,
               "node '%s' stands in a branch or a body, from which a step cannot write its new "
               "running statistics back to '%s': the option freeze keeps '%s' as it is",
               st_step_node_name(at->v, node), text, text);
    for (uint32_t i = 0; i < k; i++) {
        ST_FAIL_IF(st_statistic_name(def, i, name) != NULL &&
                       st_scope_parameter(at, stator_operand(at->v, row, i)) == parameter,
                   err, STATOR_UNSUPPORTED,
                   "node '%s' has '%s' as two of its running statistics, which become two values: "
                   "the option freeze keeps it as it is",
                   st_step_node_name(at->v, node), text);
    }
    return STATOR_OK;
}

/* Statistics that are no parameter, and that an op makes of one: a step would train it. A node for
 * inference may as well normalise by what it makes of its data. */
static stator_status check_made(const st_train_step *s, const st_scope *at, stator_ref node,
                                uint32_t k, bool is_updated, stator_diag **err)
{
    const st_source *made = &at->made[stator_operand(at->v, stator_node_at(at->v, node), k)];
    if (s->optimizer == NULL || made->parameter == 0 || (made->has_data && !is_updated)) {
        return STATOR_OK;
    }
    const char *text = st_step_value_name(s, made->parameter);
    return st_fail(err, STATOR_UNSUPPORTED,
                   "node '%s' has running statistics that the op %s makes of the parameter '%s', "
                   "so that a step can neither train it nor write it back: the option freeze keeps "
                   "'%s' as it is",
                   st_step_node_name(at->v, node), made->op, text, text);
}

static stator_status find_of_node(st_train_step *s, const st_scope *at, stator_ref node,
                                  stator_diag **err)
{
    char name[48];
    const stator_node_row *row = stator_node_at(at->v, node);
    const st_op_def *def = def_of(s, row);
    for (uint32_t k = 0; k < row->operand_count; k++) {
        if (st_statistic_name(def, k, name) == NULL) {
            continue;
        }
        const bool becomes = st_statistic_result(row, def, name) != 0;
        const stator_ref parameter = st_scope_parameter(at, stator_operand(at->v, row, k));
        if (parameter == 0) {
            ST_TRY(check_made(s, at, node, k, becomes, err));
            continue;
        }
        s->is_statistic[parameter] = 1;
        if (becomes && s->optimizer != NULL &&
            !st_step_matches(s->options.freeze, st_step_value_name(s, parameter))) {
            ST_TRY(check_update(s, at, node, k, err));
        }
    }
    return STATOR_OK;
}

static stator_status find_in(st_train_step *s, st_scope *at, stator_diag **err)
{
    ST_TRY(st_scope_trace(s, at, err));
    for (stator_ref node = 1; node <= at->v->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(at->v, node);
        ST_TRY(find_of_node(s, at, node, err));
        for (uint32_t k = 0; k < row->region_count; k++) {
            st_scope inner = {
                .outer = at, .node = row, .v = st_graph_view(stator_region_at(at->v, row, k))};
            ST_TRY(find_in(s, &inner, err));
        }
    }
    return STATOR_OK;
}

stator_status st_step_find_statistics(st_train_step *s, stator_diag **err)
{
    st_scope root = {.v = s->v};
    return find_in(s, &root, err);
}

/* ---- what becomes of them ---- */

/* Does a call write this parameter's statistics? Not where the model does that itself. */
static bool is_updated(const st_train_step *s, stator_ref parameter)
{
    return parameter != 0 && s->uses[parameter] == ST_INPUT_KEPT && s->e.status == STATOR_OK &&
           (stator_value_at(s->v, parameter)->flags & STATOR_VALUE_WRITTEN) == 0;
}

/* The statistics of operand k that the node updates; 0: none. *out_becomes: the result. */
static stator_ref updated(const st_train_step *s, const stator_node_row *row, uint32_t k,
                          stator_ref *out_becomes)
{
    char name[48];
    const st_scope root = {.v = s->v};
    const st_op_def *def = def_of(s, row);
    *out_becomes =
        st_statistic_name(def, k, name) != NULL ? st_statistic_result(row, def, name) : 0;
    const stator_ref parameter =
        *out_becomes != 0 ? st_scope_parameter(&root, stator_operand(s->v, row, k)) : 0;
    return is_updated(s, parameter) ? parameter : 0;
}

/* Puts what the statistics are by now into the places of the node's operands; is any other than at
 * first? */
static bool put_latest(st_train_step *s, const stator_node_row *row, const stator_ref *latest,
                       stator_ref *before)
{
    bool is_any = false;
    for (uint32_t k = 0; k < row->operand_count; k++) {
        stator_ref becomes = 0;
        const stator_ref operand = stator_operand(s->v, row, k);
        const stator_ref parameter = updated(s, row, k, &becomes);
        before[k] = s->map[operand];
        if (parameter != 0 && latest[parameter] != 0) {
            s->map[operand] = st_step_shown(s, operand, latest[parameter]);
            is_any = true;
        }
    }
    return is_any;
}

/* What becomes of the node's statistics. Where a node before has changed them it stands once more,
 * on what that made; its other results are those of the first. */
static void update_of_node(st_train_step *s, stator_ref node, stator_ref *latest)
{
    const stator_node_row *row = stator_node_at(s->v, node);
    stator_ref *before =
        st_arena_zalloc(&s->arena, row->operand_count + UINT64_C(1), sizeof *before);
    stator_ref *results =
        st_arena_zalloc(&s->arena, row->result_count + UINT64_C(1), sizeof *results);
    stator_ref *made = s->map + row->result_begin;
    if (!stator_emit_check(&s->e, before && results ? STATOR_OK : st_fail_oom(s->e.err))) {
        return;
    }
    memcpy(results, made, row->result_count * sizeof *made);
    if (put_latest(s, row, latest, before)) {
        stator_emit_clone(&s->e, s->from, node, node, s->map);
    }
    for (uint32_t k = row->operand_count; k-- > 0;) {
        s->map[stator_operand(s->v, row, k)] = before[k];
    }
    for (uint32_t k = 0; k < row->operand_count; k++) {
        stator_ref becomes = 0;
        const stator_ref parameter = updated(s, row, k, &becomes);
        if (parameter != 0) {
            latest[parameter] = st_step_unshown(s, stator_operand(s->v, row, k), s->map[becomes]);
        }
    }
    memcpy(made, results, row->result_count * sizeof *made);
}

void st_step_write_statistics(st_train_step *s)
{
    stator_ref *latest = st_arena_zalloc(&s->arena, s->v->n_inputs + UINT64_C(1), sizeof *latest);
    if (!stator_emit_check(&s->e, latest != NULL ? STATOR_OK : st_fail_oom(s->e.err))) {
        return;
    }
    for (stator_ref node = 1; s->e.status == STATOR_OK && node <= s->v->n_nodes; node++) {
        const st_op_def *def = def_of(s, stator_node_at(s->v, node));
        if (def != NULL && def->statistics != NULL) {
            update_of_node(s, node, latest);
        }
    }
    for (stator_ref input = 1; s->e.status == STATOR_OK && input <= s->v->n_inputs; input++) {
        if (latest[input] != 0) {
            st_step_write(s, s->map[input], latest[input]);
        }
    }
}
