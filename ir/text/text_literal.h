/* Elements of constants and float attributes as text, exact in both directions (docs/stir.md). */
#ifndef STATOR_IR_TEXT_LITERAL_H
#define STATOR_IR_TEXT_LITERAL_H

#include "ir/text/text_lex.h"

/* Number formats of the C library follow the thread's locale; between these two calls it is "C".
 * Nothing is allocated. */
typedef struct st_c_locale {
    void *before;
} st_c_locale;
st_c_locale st_c_locale_enter(void);
void st_c_locale_leave(st_c_locale locale);

/* Appends element i of dense data. */
void st_literal_print(st_str *out, uint32_t dtype, const void *data, uint64_t i);
void st_literal_print_f64(st_str *out, double value);
/* Reads one element into place i of data (the buffer zeroed before). */
stator_status st_literal_parse(st_lexer *lex, uint32_t dtype, void *data, uint64_t i);
stator_status st_literal_parse_f64(st_lexer *lex, double *out);

#endif
