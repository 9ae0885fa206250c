/* Substitution of symbolic sizes: numbers in every graph of a module, or anything piece by piece.
 */
#ifndef STATOR_IR_BIND_SIZES_H
#define STATOR_IR_BIND_SIZES_H

#include "ir/module.h"

/* Replaces the symbols with these names by these values in all types and attributes. The module
 * must be one that nobody else reads yet (a fresh clone): rows change in place.
 * INVALID_ARGUMENT: no symbol of that name (the text lists them), or a value outside its range. */
stator_status st_bind_sizes(st_module *m, uint32_t n, const char *const *names,
                            const int64_t *values, stator_diag **err);

/* The same for symbols by their atoms, the unbacked ones too: no node may define them any more. */
stator_status st_bind_atoms(st_module *m, uint32_t n, const uint32_t *atoms, const int64_t *values,
                            stator_diag **err);

/* A substitution in the making. Symbols without a value stay themselves. */
typedef struct st_binding {
    st_module *m;
    const st_module *from; /* whose sizes and types are substituted: m, or another module */
    st_map values;         /* atom of `from` -> sym of its value */
    st_map done;           /* sym of `from` -> sym */
    bool failed;           /* memory, or a value past 64 bits or a limit of the symbolic engine */
} st_binding;

void st_binding_init(st_binding *b, st_module *m);
/* What `from` has becomes of m; each symbol of `from` that is met needs a value. */
void st_binding_init_between(st_binding *b, const st_module *from, st_module *m);
void st_binding_deinit(st_binding *b);
/* The symbol `atom` has the value `sym` from here on; 0: out of memory. */
bool st_binding_set(st_binding *b, uint32_t atom, stator_ref sym);
/* The sym or type itself when it fails, which sets `failed`. */
stator_ref st_binding_sym(st_binding *b, stator_ref sym);
stator_ref st_binding_type(st_binding *b, stator_ref type);

#endif
