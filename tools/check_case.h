/* One op as a program: `stator check`'s CASE becomes a graph in the text form.
 *
 *     case    = operand { ";" operand } { attribute }     words, separated by blanks
 *     operand = dtype [dims] | "_"                        "_": an absent optional operand
 *     dims    = size { "x" size }                         none: a scalar
 *     size    = number | name                             a name is a symbolic size
 *     attribute = key "=" value                           value: 1, 0.5, [2, 2], nearest, f16
 *
 * "f32 4x16; f32 16 axis=1" */
#ifndef STATOR_CHECK_CASE_H
#define STATOR_CHECK_CASE_H

#include "core/base/diag.h"
#include "core/base/str.h"

#include <stator/plugin.h>

/* Appends the text of a graph @main with one input an operand. INVALID_ARGUMENT: the case cannot be
 * read, or does not fit the op; UNSUPPORTED: an op with regions or without operands. */
stator_status check_case_text(const stator_op_desc *op, const char *text, st_str *out,
                              stator_diag **err);

#endif
