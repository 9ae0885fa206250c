/* Running statistics of normalisations in a training step: they are no parameters to train, and
 * a call writes back what the normalisation makes of them. Which operands are statistics, and
 * which results become of them, the op table says. */
#include "core/base/str.h"
#include "core/train/train_step.h"
#include "ir/optable.h"

#include <stdio.h>
#include <string.h>

/* Is operand k of the node statistics that its row names? */
static const char *statistic(const st_op_def *def, uint32_t k, char name[48])
{
    uint32_t len = 0;
    char mark = 0;
    const char *text = def != NULL ? st_list_name(def->operands, k, &len, &mark) : NULL;
    (void)snprintf(name, 48, "%.*s", text != NULL ? (int)len : 0, text != NULL ? text : "");
    return text != NULL && def->statistics != NULL && st_list_has(def->statistics, name) ? name
                                                                                         : NULL;
}

/* The result of the node that becomes of these statistics; 0: none. */
static stator_ref new_statistic(const stator_node_row *row, const st_op_def *def, const char *name)
{
    char wanted[56], mark = 0;
    uint32_t len = 0;
    (void)snprintf(wanted, sizeof wanted, "new_%s", name);
    for (uint32_t k = 0; k < row->result_count; k++) {
        const char *text = st_list_name(def->results, k, &len, &mark);
        if (text != NULL && strlen(wanted) == len && strncmp(text, wanted, len) == 0) {
            return row->result_begin + k;
        }
    }
    return 0;
}

typedef void (*statistic_fn)(st_train_step *s, stator_ref input, stator_ref becomes);

/* Calls fn for each parameter that is a running statistic of a node. */
static void each_statistic(st_train_step *s, statistic_fn fn)
{
    for (stator_ref node = 1; node <= s->v->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(s->v, node);
        const st_op_def *def = st_optable_at(s->module->ops, row->op)->def;
        for (uint32_t k = 0; k < row->operand_count; k++) {
            char name[48];
            const stator_ref input = stator_operand(s->v, row, k);
            if (input != 0 && input <= s->v->n_inputs &&
                (stator_value_at(s->v, input)->flags & STATOR_VALUE_PARAM) != 0 &&
                statistic(def, k, name) != NULL) {
                fn(s, input, new_statistic(row, def, name));
            }
        }
    }
}

static void keep_statistic(st_train_step *s, stator_ref input, stator_ref becomes)
{
    (void)becomes;
    s->uses[input] = ST_INPUT_KEPT;
}

static bool is_written(const st_train_step *s, stator_ref input)
{
    return s->e.status != STATOR_OK ||
           (stator_value_at(st_graph_view(s->e.b->graph), input)->flags & STATOR_VALUE_WRITTEN) !=
               0;
}

static void write_statistic(st_train_step *s, stator_ref input, stator_ref becomes)
{
    if (becomes != 0 && !is_written(s, s->map[input])) {
        st_step_write(s, s->map[input], s->map[becomes]);
    }
}

void st_step_keep_statistics(st_train_step *s)
{
    each_statistic(s, keep_statistic);
}

void st_step_write_statistics(st_train_step *s)
{
    each_statistic(s, write_statistic);
}
