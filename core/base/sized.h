/* Structs that begin with `uint32_t struct_size`, which the side that owns the storage sets to the
 * sizeof of its own headers. The other side may know a shorter or a longer version: it reads and
 * writes through these two, so that there is one rule for all of them.
 *
 * INVALID_ARGUMENT, with the struct's name: the pointer is NULL, or struct_size is not set (0, or
 * too small to hold a member beside it). */
#ifndef STATOR_BASE_SIZED_H
#define STATOR_BASE_SIZED_H

#include "core/base/diag.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Copies a struct of type `type` that the other side filled to *out; members past its end are zero,
 * struct_size is ours. Also refused: a longer one whose members that we do not know are not zero.
 */
#define ST_SIZED_READ(type, out, given, err) st_sized_read((out), sizeof(type), (given), #type, err)
/* Copies *from, a whole struct, to the other side's *out; its bytes past our end are left alone. */
#define ST_SIZED_WRITE(type, out, from, err) st_sized_write((out), (from), sizeof(type), #type, err)

stator_status st_sized_read(void *out, uint32_t size, const void *given, const char *type,
                            stator_diag **err);
stator_status st_sized_write(void *out, const void *from, uint32_t size, const char *type,
                             stator_diag **err);

/* Flags of such a struct: INVALID_ARGUMENT, naming the bits, where there are others than those
 * of `known`. A flag that a reader does not know cannot be left out in silence: it asks for
 * something. */
stator_status st_check_flags(uint32_t flags, uint32_t known, const char *type, stator_diag **err);

#ifdef __cplusplus
}
#endif
#endif
