/* Numbers of the binary form that writer and reader share (docs/stirb.md). */
#ifndef STATOR_IR_BINARY_FORMAT_H
#define STATOR_IR_BINARY_FORMAT_H

#include <stdint.h>

#define ST_STIRB_VERSION 1u
#define ST_STIRB_HEAD_BYTES 32u
#define ST_STIRB_ROW_BYTES 24u /* size of an entry of the section table */
#define ST_STIRB_SECTIONS_MAX 64u
#define ST_STIRB_DATA_ALIGN 64u
#define ST_STIRB_REGIONS_MAX 64u /* regions inside regions */

enum st_stirb_section {
    ST_STIRB_STRINGS = 1,
    ST_STIRB_SYMBOLS = 2,
    ST_STIRB_SYMS = 3,
    ST_STIRB_TYPES = 4,
    ST_STIRB_ORIGINS = 5,
    ST_STIRB_BLOBS = 6,
    ST_STIRB_GRAPH = 7,
    ST_STIRB_DATA = 8,
    ST_STIRB_SECTIONS = 9 /* one past the last */
};

/* Entries of SYMS; 2 to 6 are the atom kinds of stator/ir.h. */
enum st_stirb_sym { ST_STIRB_SYM_SYMBOL = 1, ST_STIRB_SYM_SUM = 7 };
enum st_stirb_blob { ST_STIRB_BLOB_DATA = 1, ST_STIRB_BLOB_HASH = 2 };
enum st_stirb_input { ST_STIRB_INPUT_PARAM = 1u << 0 };

#endif
