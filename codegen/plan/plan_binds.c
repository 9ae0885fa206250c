/* The steps that bind sizes from data (size_binds.c): what each reads, and what it says in a
 * log. */
#include "codegen/plan/plan.h"

#include <stator/ops.h>
#include <string.h>

static stator_status make_bound(cg_unit *unit, stator_ref graph_sym, st_cg_exe *exe, cg_bound *out,
                                stator_diag **err)
{
    const stator_atom_row *atom = stator_sym_as_symbol(unit->view, graph_sym);
    const uint32_t sym = cg_sym(unit, graph_sym);
    const st_sym_cols cols = st_sym_columns(&exe->syms.tab);
    ST_FAIL_IF(sym == 0, err, STATOR_UNSUPPORTED, "a size exceeds the limit of 16 terms, depth 4");
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
    launch->text = cg_keep_text(exe, &text);
    return launch->text ? STATOR_OK : st_fail_oom(err);
}

stator_status cg_make_bind(cg_unit *unit, uint32_t k, st_cg_exe *exe, cg_launch *launch,
                           stator_diag **err)
{
    const cg_node node = cg_node_of(unit, unit->binds.data[k]);
    const stator_attr_row *syms = cg_attr(&node, STATOR_sym_bind_syms);
    const char *name = stator_node_origin(unit->view, node.ref);
    cg_size_bind *bind = st_vec_push(exe->config.mem, &exe->binds);
    ST_TRY_MEM(bind, err);
    *bind = (cg_size_bind){.n = 0};
    bind->name = st_arena_strndup(&exe->arena, name, strlen(name));
    bind->sizes = st_arena_zalloc(&exe->arena, (uint64_t)syms->count + 1u, sizeof *bind->sizes);
    ST_TRY_MEM(bind->name && bind->sizes, err);
    for (uint32_t i = 0; i < syms->count; i++) {
        const stator_ref sym = stator_ref_at(unit->view, syms->begin + i);
        ST_TRY(make_bound(unit, sym, exe, &bind->sizes[i], err));
        bind->n = i + 1u;
    }
    launch->bind = exe->binds.count;
    return write_text(&node, exe, launch, err);
}
