/* Contents of constants in the text form: inline elements, ranges of files, hashes. */
#ifndef STATOR_IR_TEXT_DATA_H
#define STATOR_IR_TEXT_DATA_H

#include "core/base/blob.h"
#include "core/base/vec.h"
#include "ir/text/text.h"
#include "ir/text/text_lex.h"

#define ST_TEXT_INLINE_MAX 64u /* elements; larger constants are not written inline */

/* Files that file("...") named so far, and the folder they must lie in. */
typedef struct st_text_files {
    st_mem *mem;
    const char *dir; /* NULL: file("...") is refused */
    st_vec(st_file *) files;
} st_text_files;

void st_text_files_deinit(st_text_files *files);

/* Reads `data` of the grammar for a constant of this type. The caller gets one reference. */
stator_status st_text_parse_data(st_lexer *lex, const st_module *m, st_text_files *files,
                                 stator_ref type, stator_blob **out);
/* Appends it. */
stator_status st_text_print_data(const st_module *m, const st_print_options *options,
                                 stator_ref type, stator_blob *blob, st_str *out,
                                 stator_diag **err);

#endif
