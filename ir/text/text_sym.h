/* Symbolic sizes of the text form: printing in an order that does not depend on how a module was
 * built, and reading with the place of each error. */
#ifndef STATOR_IR_TEXT_SYM_H
#define STATOR_IR_TEXT_SYM_H

#include "ir/module.h"
#include "ir/text/text_lex.h"

/* Prints sizes and remembers which symbols it named. */
typedef struct st_sym_printer {
    const st_module *m;
    st_map used; /* symbol number + 1 -> atom */
    uint32_t failed;
} st_sym_printer;

void st_sym_printer_init(st_sym_printer *p, const st_module *m);
void st_sym_printer_deinit(st_sym_printer *p);
void st_text_print_sym(st_sym_printer *p, uint32_t sym, st_str *out);
void st_text_print_type(st_sym_printer *p, uint32_t type, st_str *out);
/* Name of a symbol that has none of its own: "$" and its number. */
void st_text_symbol_name(const st_sym_printer *p, const stator_atom_row *row, char out[24]);
/* The `sym` lines of all symbols named so far, in order of their numbers. */
void st_text_print_symbols(const st_sym_printer *p, st_str *out);

/* One `sym` line, at the word behind "sym". */
stator_status st_text_parse_symbol(st_lexer *lex, st_module *m);
stator_status st_text_parse_sym(st_lexer *lex, st_module *m, uint32_t *out);
/* "[" list(size) "]" of at most `max` sizes. */
stator_status st_text_parse_type(st_lexer *lex, st_module *m, uint32_t *out);

#endif
