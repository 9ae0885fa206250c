/* Lists of needs; see needs.h. In: what infer rules state. Out: rows, each once. */
#include "ir/needs.h"

#include "core/base/str.h"

#include <string.h>

void st_needs_init(st_needs *needs, st_mem *mem)
{
    *needs = (st_needs){.mem = mem, .rows = ST_VEC_INIT};
}

void st_needs_deinit(st_needs *needs)
{
    for (uint32_t i = 0; i < needs->rows.count; i++) {
        st_free(needs->mem, needs->rows.data[i].text);
    }
    st_vec_free(needs->mem, &needs->rows);
}

static int is_unbacked(const void *self, const stator_atom_row *row, uint32_t atom)
{
    (void)self;
    (void)atom;
    return row->kind == STATOR_ATOM_SYMBOL && (row->flags & 1u) != 0;
}

int st_sym_holds_unbacked(const st_symtab *tab, uint32_t sym)
{
    return st_sym_find_atom(tab, sym, is_unbacked, NULL) != 0;
}

static int can_be_told(const st_symtab *tab, const st_need *need)
{
    for (uint32_t i = 0; i < st_need_sizes(need->kind); i++) {
        if (need->size[i] == 0 || st_sym_holds_unbacked(tab, need->size[i])) {
            return 0;
        }
    }
    return 1;
}

static int is_known(const st_needs *needs, const st_need *need)
{
    for (uint32_t i = 0; i < needs->rows.count; i++) {
        const st_need *row = &needs->rows.data[i];
        if (row->kind == need->kind && row->step == need->step &&
            memcmp(row->size, need->size, sizeof row->size) == 0) {
            return 1;
        }
    }
    return 0;
}

void st_needs_add(st_needs *needs, st_symtab *tab, const st_need *need, const char *op,
                  const char *what)
{
    if (!can_be_told(tab, need) || is_known(needs, need)) {
        return;
    }
    st_str text;
    st_str_init(&text, needs->mem);
    st_str_add(&text, op);
    if (needs->node != NULL && needs->node[0] != '\0') {
        st_str_addf(&text, " '%.200s'", needs->node);
    }
    st_str_addf(&text, ": %s", what);
    st_need *row = st_str_ok(&text) ? st_vec_push(needs->mem, &needs->rows) : NULL;
    if (row != NULL) {
        *row = *need;
        row->text = st_strdup(needs->mem, text.data);
    }
    needs->is_oom |= row == NULL || row->text == NULL;
    st_str_deinit(&text);
}
