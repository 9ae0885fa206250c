/* Windows along an axis: the one formula of convolutions, pools and blocks. In: sizes as syms, any
 * of them 0. Out: a sym; 0 as everywhere: it exceeds the limits or 64 bits. */
#include "core/base/sym/sym.h"

uint32_t st_sym_window_reach(st_symtab *tab, const st_sym_window *w)
{
    const uint32_t one = st_sym_int(tab, 1);
    const uint32_t steps = st_sym_sub(tab, w->taps, one);
    return st_sym_add(tab, st_sym_mul(tab, steps, st_sym_int(tab, w->dilation)), one);
}

uint32_t st_sym_window_count(st_symtab *tab, const st_sym_window *w)
{
    const uint32_t padded = st_sym_add(tab, st_sym_add(tab, w->size, w->low), w->high);
    const uint32_t room = st_sym_sub(tab, padded, st_sym_window_reach(tab, w));
    const uint32_t steps = st_sym_floordiv(tab, room, st_sym_int(tab, w->stride));
    return st_sym_add(tab, steps, st_sym_int(tab, 1));
}
