/* One option's text turned into a typed value and checked against its schema row. */
#ifndef STATOR_PLUGINS_OPTION_VALUE_H
#define STATOR_PLUGINS_OPTION_VALUE_H

#include "core/base/arena.h"
#include "core/base/diag.h"
#include <stator/plugin.h>

typedef struct st_option_value {
    int64_t i;     /* BOOL, I64, BYTES */
    double f;      /* F64 */
    const char *s; /* STR, ENUM, LIST; in the arena */
} st_option_value;

/* INVALID_ARGUMENT: "option 'x' of 'eager': ..." naming the type, the range or the choices. `where`
 * says where the text came from ("" when given directly). */
stator_status st_option_parse(const stator_option_desc *row, const char *item, const char *where,
                              const char *text, st_arena *arena, st_option_value *out_value,
                              stator_diag **err);
const char *st_option_type_name(uint32_t type); /* "a whole number", NULL unknown */
/* Splits "a,b,c" into at most `max` words in the arena; NULL when memory runs out. */
const char *const *st_option_words(const char *list, st_arena *arena, uint32_t max,
                                   uint32_t *out_count);

#endif
