/* Numbers in place of symbolic sizes, in every graph of a module. */
#ifndef STATOR_IR_BIND_SIZES_H
#define STATOR_IR_BIND_SIZES_H

#include "ir/module.h"

/* Replaces the symbols with these names by these values in all types and attributes. The module
 * must be one that nobody else reads yet (a fresh clone): rows change in place.
 * INVALID_ARGUMENT: no symbol of that name (the text lists them), or a value outside its range. */
stator_status st_bind_sizes(st_module *m, uint32_t n, const char *const *names,
                            const int64_t *values, stator_diag **err);

#endif
