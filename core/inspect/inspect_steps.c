/* Steps of a part, fallback nodes and the guard of a function's programs; see stator/inspect.h. */
#include "core/compile/divide.h"
#include "core/host/function.h"

#include "core/base/map.h"
#include "core/base/sized.h"
#include "core/base/str.h"
#include "ir/recompute/node_flops.h"

#include <stator/inspect.h>

/* ---- steps ---- */

typedef struct teller {
    st_mem *mem;
    const stator_graph_view *v; /* NULL: nobody knows the graph any more */
    st_vec(const char *) names; /* operand names of the current step */
    stator_x_step_fn fn;
    void *self;
    stator_diag *err;
} teller;

/* The imported node's name, else the value's, else the op's. */
static const char *name_of(const stator_graph_view *v, stator_ref node)
{
    const stator_node_row *row = stator_node_at(v, node);
    const char *name = stator_node_origin(v, node);
    if (name[0] == '\0' && row->result_count != 0) {
        name = stator_string_at(v, stator_value_at(v, row->result_begin)->name);
    }
    return name[0] != '\0' ? name : stator_op_at(v, row->op)->name;
}

/* Nodes of constants say nothing; of the others each name once. */
static bool list_names(teller *t, const stator_exe_step *step)
{
    st_map seen; /* addresses of interned names */
    bool ok = true;
    t->names.count = 0;
    st_map_init(&seen, t->mem);
    for (uint32_t i = 0; t->v != NULL && ok && i < step->n_nodes; i++) {
        const stator_ref node = step->nodes[i];
        if (node == 0 || node > t->v->n_nodes ||
            (stator_op_at(t->v, stator_node_at(t->v, node)->op)->flags & STATOR_OP_CONSTANT) != 0) {
            continue;
        }
        const char *name = name_of(t->v, node);
        if (st_map_get(&seen, (uint64_t)(uintptr_t)name) == 0) {
            const char **slot = st_vec_push(t->mem, &t->names);
            ok = slot != NULL && st_map_put(&seen, (uint64_t)(uintptr_t)name, 1);
            if (slot != NULL) {
                *slot = name;
            }
        }
    }
    st_map_deinit(&seen);
    return ok;
}

static stator_status take_step(void *self, const stator_exe_step *given)
{
    teller *t = self;
    stator_exe_step whole;
    const stator_exe_step *step = &whole;
    ST_TRY(ST_SIZED_READ(stator_exe_step, &whole, given, &t->err));
    ST_TRY_MEM(list_names(t, step), &t->err);
    uint64_t flops = 0;
    for (uint32_t i = 0; t->v != NULL && i < step->n_nodes; i++) {
        const stator_ref node = step->nodes[i];
        flops += node != 0 && node <= t->v->n_nodes ? st_node_flops(t->v, node, NULL) : 0;
    }
    const stator_x_step row = {.struct_size = sizeof row,
                               .kind = step->kind,
                               .flags = step->flags,
                               .depth = step->depth,
                               .n_nodes = t->names.count,
                               .nodes = t->names.data,
                               .name = step->name != NULL ? step->name : "",
                               .read_bytes = step->read_bytes,
                               .written_bytes = step->written_bytes,
                               .flops = flops};
    t->fn(t->self, &row);
    return STATOR_OK;
}

static stator_status tell_steps(const st_step *step, teller *t)
{
    stator_instance *instance = step->self;
    const stator_step_sink sink = {.struct_size = sizeof sink, .self = t, .step = take_step};
    return st_instance_steps(instance, step->exe, &sink, &t->err);
}

stator_status stator_x_part_steps(stator_function *function, uint32_t index, stator_x_step_fn fn,
                                  void *self)
{
    const st_step *step = NULL;
    stator_ctx *ctx = st_function_ctx(function);
    ST_TRY(st_part_step(function, index, &step));
    teller t = {.mem = &ctx->mem,
                .v = step->graph != NULL ? st_graph_view(step->graph) : NULL,
                .fn = fn,
                .self = self};
    const stator_status status = tell_steps(step, &t);
    st_vec_free(t.mem, &t.names);
    if (status == STATOR_OK) {
        st_diag_release(t.err);
        return STATOR_OK;
    }
    return st_ctx_fail(ctx, status, t.err);
}

/* ---- fallback nodes ---- */

void stator_x_fallback_nodes(stator_function *function, stator_x_fallback_fn fn, void *self)
{
    const st_compiled *compiled = st_function_entry(function, 0);
    for (uint32_t i = 0; compiled != NULL && i < compiled->fallback_nodes.entries.count; i++) {
        const st_fallback_entry *from = &compiled->fallback_nodes.entries.data[i];
        const stator_x_fallback_entry row = {.struct_size = sizeof row,
                                             .count = from->count,
                                             .op = from->op,
                                             .name = from->name,
                                             .reason = from->reason};
        fn(self, &row);
    }
}

/* ---- the guard ---- */

typedef struct guard_teller {
    const st_guard *guard;
    stator_x_guard_fn fn;
    void *self;
    bool failed; /* no memory */
} guard_teller;

/* Gives the row and frees its text. */
static void tell_guard(guard_teller *t, uint32_t kind, const char *subject, st_str *text)
{
    const stator_x_guard row = {.struct_size = sizeof row,
                                .kind = kind,
                                .subject = subject != NULL ? subject : "",
                                .text = text->data != NULL ? text->data : ""};
    if (st_str_ok(text)) {
        t->fn(t->self, &row);
    }
    t->failed |= !st_str_ok(text);
    st_str_deinit(text);
}

static void tell_inputs(guard_teller *t)
{
    const st_guard *guard = t->guard;
    for (uint32_t i = 0; i < guard->n_inputs; i++) {
        st_str text;
        st_str_init(&text, guard->mem);
        st_guard_print_expected(guard, i, &text);
        if (guard->inputs[i].value != NULL) {
            st_str_add(&text, ", of the values that it was compiled for");
        }
        tell_guard(t, STATOR_X_GUARD_INPUT, guard->inputs[i].name, &text);
    }
}

static void tell_sizes(guard_teller *t)
{
    for (uint32_t i = 0; i < t->guard->n_sizes; i++) {
        const st_guard_size *size = &t->guard->sizes[i];
        if (size->kind == ST_SIZE_BIND) {
            st_str text;
            st_str_init(&text, t->guard->mem);
            st_guard_print_range(size, &text);
            tell_guard(t, STATOR_X_GUARD_SIZE, size->text, &text);
        }
    }
}

static void tell_shape_constraints(guard_teller *t)
{
    for (uint32_t i = 0; i < t->guard->n_shape_constraints; i++) {
        st_str text;
        st_str_init(&text, t->guard->mem);
        st_str_add(&text, t->guard->shape_constraints[i].text);
        tell_guard(t, STATOR_X_GUARD_NEED, "", &text);
    }
}

stator_status stator_x_guards(stator_function *function, stator_x_guard_fn fn, void *self)
{
    const st_compiled *compiled = st_function_entry(function, 0);
    if (compiled == NULL) {
        return STATOR_OK;
    }
    guard_teller t = {.guard = &compiled->guard, .fn = fn, .self = self};
    stator_diag *diag = NULL;
    tell_inputs(&t);
    tell_sizes(&t);
    tell_shape_constraints(&t);
    return t.failed ? st_ctx_fail(st_function_ctx(function), st_fail_oom(&diag), diag) : STATOR_OK;
}
