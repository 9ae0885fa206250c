/* Sizes that are bound from data: a sym_bind node in the middle of a program.
 *
 * The binds of a graph cut it into stages: stage k has the nodes between bind k-1 and bind k. A
 * node can state a size only after its bind, so kernels do not mix stages, and outputs and values
 * of a stage get their memory when it begins. A bind is a step between kernels that reads the few
 * elements and writes the call's syms; so an emitter's memory must be the host's. */
#include "codegen/lower/lower.h"
#include "codegen/run/exe.h"

#include <stator/ops.h>
#include <string.h>

#define UNSET INT64_MIN /* in a call's syms: not bound yet */

/* ---- compile ---- */

stator_status cg_find_binds(cg_unit *unit, stator_diag **err)
{
    const stator_graph_view *v = unit->view;
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        if (stator_node_at(v, node)->op != STATOR_OPCODE_sym_bind) {
            continue;
        }
        stator_ref *at = st_vec_push(unit->mem, &unit->binds);
        if (at == NULL) {
            return st_fail_oom(err);
        }
        *at = node;
    }
    return STATOR_OK;
}

uint32_t cg_stage_of(const cg_unit *unit, stator_ref node)
{
    uint32_t stage = unit->binds.count;
    while (node && stage > 0 && unit->binds.data[stage - 1u] >= node) {
        stage--;
    }
    return stage;
}

int cg_is_bind(const cg_unit *unit, stator_ref node)
{
    const uint32_t stage = cg_stage_of(unit, node);
    return stage < unit->binds.count && unit->binds.data[stage] == node;
}

st_loop_ref cg_sym_bind(cg_nest *nest, const cg_node *node, uint32_t result, const uint32_t *index)
{
    (void)result;
    return cg_at(nest, cg_operand(node, 0), index);
}

static stator_status make_bound(cg_unit *unit, stator_ref graph_sym, st_cg_exe *exe, cg_bound *out,
                                stator_diag **err)
{
    const stator_atom_row *atom = stator_sym_as_symbol(unit->view, graph_sym);
    const uint32_t sym = cg_sym(unit, graph_sym);
    const st_sym_cols cols = st_sym_columns(&exe->syms.tab);
    if (sym == 0) {
        return st_fail(err, STATOR_UNSUPPORTED, "a size exceeds the limit of 16 terms, depth 4");
    }
    *out = (cg_bound){.index = atom ? atom->index : UINT32_MAX,
                      .lo = atom ? atom->lo : 0,
                      .hi = atom ? atom->hi : INT64_MAX,
                      .divisor = atom && atom->divisor > 0 ? atom->divisor : 1};
    return st_symprog_init(&out->sym, exe->config.mem, &cols, sym) ? STATOR_OK : st_fail_oom(err);
}

static stator_status write_text(const cg_node *node, st_cg_exe *exe, cg_launch *launch,
                                stator_diag **err)
{
    st_str text;
    char name[32];
    st_str_init(&text, exe->config.mem);
    cg_buffer_name(node->unit, node->out->buffer, name);
    for (uint32_t i = 0; i < cg_attr(node, STATOR_sym_bind_syms)->count; i++) {
        st_str_add(&text, i ? ", " : "bind ");
        st_loop_sym_print(&exe->syms, cg_attr_dim(node, STATOR_sym_bind_syms, i), &text);
    }
    st_str_addf(&text, " = %s\n", name);
    launch->text = st_str_ok(&text) ? st_arena_strndup(&exe->arena, text.data, text.len) : NULL;
    st_str_deinit(&text);
    return launch->text ? STATOR_OK : st_fail_oom(err);
}

stator_status cg_make_bind(cg_unit *unit, uint32_t k, st_cg_exe *exe, cg_launch *launch,
                           stator_diag **err)
{
    const cg_node node = cg_node_of(unit, unit->binds.data[k]);
    const stator_attr_row *syms = cg_attr(&node, STATOR_sym_bind_syms);
    const stator_origin_row *origin =
        node.row->origin ? stator_column_at(&unit->view->origins, node.row->origin) : NULL;
    const char *name = origin ? stator_string_at(unit->view, origin->name) : "";
    cg_size_bind *bind = st_vec_push(exe->config.mem, &exe->binds);
    if (bind == NULL) {
        return st_fail_oom(err);
    }
    *bind = (cg_size_bind){.n = 0};
    bind->name = st_arena_strndup(&exe->arena, name, strlen(name));
    bind->sizes = st_arena_zalloc(&exe->arena, (uint64_t)syms->count + 1u, sizeof *bind->sizes);
    if (bind->name == NULL || bind->sizes == NULL) {
        return st_fail_oom(err);
    }
    for (uint32_t i = 0; i < syms->count; i++) {
        const stator_ref sym = stator_ref_at(unit->view, syms->begin + i);
        ST_TRY(make_bound(unit, sym, exe, &bind->sizes[i], err));
        bind->n = i + 1u;
    }
    launch->bind = exe->binds.count;
    return write_text(&node, exe, launch, err);
}

void cg_bind_deinit(cg_size_bind *bind, st_mem *mem)
{
    for (uint32_t i = 0; i < bind->n; i++) {
        st_symprog_deinit(&bind->sizes[i].sym, mem);
    }
}

/* ---- run ---- */

stator_status cg_run_bind(const cg_size_bind *bind, const int64_t *elements, int64_t *syms,
                          stator_diag **err)
{
    for (uint32_t i = 0; i < bind->n; i++) {
        const cg_bound *b = &bind->sizes[i];
        const int64_t value = elements[i];
        int64_t known = 0;
        if (b->index == UINT32_MAX || syms[b->index] != UNSET) {
            if (st_symprog_eval(&b->sym, syms, &known) && known != value) {
                return st_fail(err, STATOR_INVALID_ARGUMENT,
                               "sym_bind %s: size %u is %lld, but it must be %lld", bind->name, i,
                               (long long)value, (long long)known);
            }
            continue;
        }
        if (value < b->lo || value > b->hi || value % b->divisor != 0) {
            return st_fail(err, STATOR_OUT_OF_RANGE,
                           "sym_bind %s: a size is %lld, but it must lie in [%lld, %lld] and be a "
                           "multiple of %lld",
                           bind->name, (long long)value, (long long)b->lo, (long long)b->hi,
                           (long long)b->divisor);
        }
        syms[b->index] = value;
    }
    return STATOR_OK;
}

uint32_t cg_unbound(const st_cg_exe *exe, const int64_t *syms, uint32_t out[CG_STEP_SIZES_MAX])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < exe->binds.count; i++) {
        const cg_size_bind *bind = &exe->binds.data[i];
        for (uint32_t k = 0; k < bind->n; k++) {
            const uint32_t index = bind->sizes[k].index;
            if (index != UINT32_MAX && syms[index] == UNSET && n < CG_STEP_SIZES_MAX) {
                out[n++] = index;
            }
        }
    }
    return n;
}

void cg_unbind(int64_t *syms, const uint32_t *indices, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        syms[indices[i]] = UNSET;
    }
}
