/* Copies between the memories of devices, and the nodes that force them; see stator/inspect.h. */
#include "core/host/function.h"

#include <stator/inspect.h>

/* The first node of the part that reads its input `k`; false when the graph is not known. */
static bool find_reader(const st_step *step, uint32_t k, stator_x_copy *row)
{
    const stator_graph_view *v = step->graph != NULL ? st_graph_view(step->graph) : NULL;
    for (stator_ref node = 1; v != NULL && node <= v->n_nodes; node++) {
        const stator_node_row *reader = stator_node_at(v, node);
        for (uint32_t i = 0; i < reader->operand_count; i++) {
            if (stator_operand(v, reader, i) == k + 1u) {
                row->node = stator_node_origin(v, node);
                row->op = stator_op_at(v, reader->op)->name;
                return true;
            }
        }
    }
    return false;
}

static void describe_reader(const st_program *p, uint32_t copy, uint32_t first, stator_x_copy *row)
{
    for (uint32_t s = first; s < p->n_steps; s++) {
        const st_step *step = &p->steps[s];
        for (uint32_t k = 0; k < step->n_in; k++) {
            if (step->in[k] == copy) {
                row->backend = step->backend != NULL ? step->backend : "";
                (void)find_reader(step, k, row);
                return;
            }
        }
    }
}

static const char *memory_name(const st_program *p, uint32_t domain)
{
    return domain != 0 ? p->domains[domain - 1u]->name : "cpu";
}

static void tell_copies(const st_program *p, stator_x_copy_fn fn, void *self)
{
    for (uint32_t s = 0; s < p->n_steps; s++) {
        const st_step *step = &p->steps[s];
        if (step->kind != ST_STEP_COPY) {
            continue;
        }
        const st_slot *slot = &p->slots[step->in[0]];
        const bool is_border = st_program_is_varying(p, step->in[0]);
        stator_x_copy row = {.struct_size = sizeof row,
                             .is_border = is_border,
                             .value = slot->name != NULL ? slot->name : "",
                             .from = is_border ? "" : memory_name(p, slot->domain),
                             .to = memory_name(p, step->domain),
                             .backend = "",
                             .node = "",
                             .op = ""};
        describe_reader(p, step->out[0], s, &row);
        fn(self, &row);
    }
}

void stator_x_copies(stator_function *function, stator_x_copy_fn fn, void *self)
{
    const st_compiled *compiled = st_function_entry(function, 0);
    if (compiled != NULL) {
        tell_copies(&compiled->program, fn, self);
        for (uint32_t i = 0; i < compiled->n_bodies; i++) {
            tell_copies(compiled->bodies[i], fn, self);
        }
    }
}
