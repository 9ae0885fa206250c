/* Lists of shape constraints; see shape_constraint_list.h. In: what infer rules state. Out:
 * rows, each once. */
#include "ir/sizes/shape_constraint_list.h"

#include "core/base/str.h"

#include <string.h>

void st_shape_constraints_init(st_shape_constraints *shape_constraints, st_mem *mem)
{
    *shape_constraints = (st_shape_constraints){.mem = mem, .rows = ST_VEC_INIT};
}

void st_shape_constraints_deinit(st_shape_constraints *shape_constraints)
{
    for (uint32_t i = 0; i < shape_constraints->rows.count; i++) {
        st_free(shape_constraints->mem, shape_constraints->rows.data[i].text);
    }
    st_vec_free(shape_constraints->mem, &shape_constraints->rows);
}

static bool is_unbacked(const void *self, const stator_atom_row *row, uint32_t atom)
{
    (void)self;
    (void)atom;
    return row->kind == STATOR_ATOM_SYMBOL && (row->flags & STATOR_ATOM_UNBACKED) != 0;
}

bool st_sym_holds_unbacked(const st_symtab *tab, uint32_t sym)
{
    return st_sym_find_atom(tab, sym, is_unbacked, NULL) != 0;
}

static bool can_be_bound(const st_symtab *tab, const st_shape_constraint *constraint)
{
    for (uint32_t i = 0; i < st_shape_constraint_sizes(constraint->kind); i++) {
        if (constraint->size[i] == 0 || st_sym_holds_unbacked(tab, constraint->size[i])) {
            return false;
        }
    }
    return true;
}

static bool is_known(const st_shape_constraints *shape_constraints,
                     const st_shape_constraint *constraint)
{
    for (uint32_t i = 0; i < shape_constraints->rows.count; i++) {
        const st_shape_constraint *row = &shape_constraints->rows.data[i];
        if (row->kind == constraint->kind && row->step == constraint->step &&
            memcmp(row->size, constraint->size, sizeof row->size) == 0) {
            return true;
        }
    }
    return false;
}

void st_shape_constraints_add(st_shape_constraints *shape_constraints, st_symtab *tab,
                              const st_shape_constraint *constraint, const char *op,
                              const char *what)
{
    if (!can_be_bound(tab, constraint) || is_known(shape_constraints, constraint)) {
        return;
    }
    st_str text;
    st_str_init(&text, shape_constraints->mem);
    st_str_add(&text, op);
    if (shape_constraints->node != NULL && shape_constraints->node[0] != '\0') {
        st_str_addf(&text, " '%.200s'", shape_constraints->node);
    }
    st_str_addf(&text, ": %s", what);
    st_shape_constraint *row =
        st_str_ok(&text) ? st_vec_push(shape_constraints->mem, &shape_constraints->rows) : NULL;
    if (row != NULL) {
        *row = *constraint;
        row->text = st_strdup(shape_constraints->mem, text.data);
    }
    shape_constraints->is_oom |= row == NULL || row->text == NULL;
    st_str_deinit(&text);
}
