/* Structs whose size the other side states; see sized.h. */
#include "core/base/sized.h"

#include <string.h>

/* No struct of the border has a member that ends before this, and none is longer than SANE_SIZE_MAX
 * in any version: a size past it was never written. */
enum { SIZE_MIN = 8, SANE_SIZE_MAX = 4096 };

static stator_status check(const void *given, const char *type, uint32_t *out_size,
                           stator_diag **err)
{
    ST_FAIL_IF(given == NULL, err, STATOR_INVALID_ARGUMENT, "the %s is NULL", type);
    memcpy(out_size, given, sizeof *out_size);
    ST_FAIL_IF(*out_size < SIZE_MIN || *out_size > SANE_SIZE_MAX, err, STATOR_INVALID_ARGUMENT,
               "struct_size of the %s is %u; set it to sizeof(%s)", type, *out_size, type);
    return STATOR_OK;
}

stator_status st_sized_read(void *out, uint32_t size, const void *given, const char *type,
                            stator_diag **err)
{
    uint32_t theirs = 0;
    memset(out, 0, size);
    memcpy(out, &size, sizeof size);
    ST_TRY(check(given, type, &theirs, err));
    const unsigned char *bytes = given;
    for (uint32_t i = size; i < theirs; i++) {
        ST_FAIL_IF(bytes[i] != 0, err, STATOR_INVALID_ARGUMENT,
                   "the %s sets a member that Stator " STATOR_VERSION " does not know", type);
    }
    memcpy(out, given, theirs < size ? theirs : size);
    memcpy(out, &size, sizeof size);
    return STATOR_OK;
}

stator_status st_sized_write(void *out, const void *from, uint32_t size, const char *type,
                             stator_diag **err)
{
    uint32_t theirs = 0;
    ST_TRY(check(out, type, &theirs, err));
    memcpy(out, from, theirs < size ? theirs : size);
    memcpy(out, &theirs, sizeof theirs);
    return STATOR_OK;
}

stator_status st_check_flags(uint32_t flags, uint32_t known, const char *type, stator_diag **err)
{
    return (flags & ~known) == 0
               ? STATOR_OK
               : st_fail(err, STATOR_INVALID_ARGUMENT,
                         "flags of the %s have the bits 0x%x, which Stator " STATOR_VERSION
                         " does not know; leave them out",
                         type, flags & ~known);
}
