/* Files of other makers' formats that people hand to Stator, and what to do with them. */
#ifndef STATOR_HOST_FOREIGN_FORMAT_H
#define STATOR_HOST_FOREIGN_FORMAT_H

#include <stdint.h>

typedef struct st_foreign_format {
    const char *extensions; /* comma-separated */
    const char *magic;      /* at byte magic_at of the file, or NULL */
    uint32_t magic_at;
    const char *what; /* "a file of TensorFlow Lite" */
    const char *hint; /* how to make an ONNX file of it, or of what it was made from */
} st_foreign_format;

/* The format of a file, by its extension (without the dot, or NULL), else by its first bytes; NULL:
 * an unknown one. */
const st_foreign_format *st_foreign_format_of(const char *extension, const void *bytes,
                                              uint64_t size);

#endif
