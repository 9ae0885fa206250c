/* Copies of the growing containers: segmented array, hash set, symbol table.
 *
 * In: a container that nobody writes meanwhile. Out: one with equal contents in another account;
 * indices, ids and refs mean the same in both. */
#include "core/base/sym/sym.h"
#include <string.h>

bool st_seg_clone(st_seg *to, st_mem *mem, const st_seg *from)
{
    st_seg_init(to, mem, from->stride);
    uint32_t first = 0;
    if (from->count != 0 && !st_seg_grow(to, from->count, &first)) {
        st_seg_deinit(to);
        return false;
    }
    uint32_t begin = 0;
    for (uint32_t k = 0; begin < from->count; k++) {
        const uint32_t room = 1u << (STATOR_COLUMN_BASE_LOG2 + k);
        const uint32_t left = from->count - begin;
        const uint32_t n = left < room ? left : room;
        memcpy(st_seg_at(to, begin), st_seg_at(from, begin), (uint64_t)n * from->stride);
        begin += n;
    }
    return true;
}

bool st_hashset_clone(st_hashset *to, st_mem *mem, const st_hashset *from)
{
    st_hashset_init(to, mem);
    for (uint32_t i = 0; i < from->capacity; i++) {
        if (from->ids[i] != 0 && !st_hashset_add(to, from->hashes[i], from->ids[i])) {
            st_hashset_deinit(to);
            return false;
        }
    }
    return true;
}

bool st_symtab_clone(st_symtab *to, st_mem *mem, const st_symtab *from)
{
    *to = (st_symtab){.mem = mem, .n_symbols = from->n_symbols};
    const struct {
        st_seg *to;
        const st_seg *from;
    } segs[] = {{&to->syms, &from->syms},
                {&to->terms, &from->terms},
                {&to->atoms, &from->atoms},
                {&to->depths, &from->depths}};
    bool ok = true;
    for (uint32_t i = 0; i < 4; i++) {
        st_seg_init(segs[i].to, mem, segs[i].from->stride);
        ok = ok && st_seg_clone(segs[i].to, mem, segs[i].from);
    }
    st_hashset_init(&to->sym_set, mem);
    st_hashset_init(&to->atom_set, mem);
    ok = ok && st_hashset_clone(&to->sym_set, mem, &from->sym_set) &&
         st_hashset_clone(&to->atom_set, mem, &from->atom_set);
    if (!ok) {
        st_symtab_deinit(to);
    }
    return ok;
}
