/* A small strict JSON reader for plugin notes (RFC 8259), which are hostile input: depth, length
 * and number of values are limited, strings must be UTF-8 without control characters or NUL,
 * members of an object must differ. Independent of the locale; allocates in the caller's arena
 * only. */
#ifndef STATOR_PLUGINS_NOTE_JSON_H
#define STATOR_PLUGINS_NOTE_JSON_H

#include "core/base/arena.h"
#include "core/base/diag.h"

enum st_json_type {
    ST_JSON_NULL = 1,
    ST_JSON_BOOL,
    ST_JSON_INT,   /* a whole number that fits int64_t */
    ST_JSON_FLOAT, /* any other number; its value is not kept */
    ST_JSON_STRING,
    ST_JSON_ARRAY,
    ST_JSON_OBJECT
};

typedef struct st_json {
    uint32_t type;
    uint32_t count;   /* number of children */
    const char *key;  /* inside an object */
    const char *text; /* STRING, NUL-terminated */
    int64_t number;   /* INT, BOOL */
    struct st_json *first;
    struct st_json *next;
} st_json;

#define ST_JSON_DEPTH_MAX 8u
#define ST_JSON_VALUES_MAX 4096u

/* DATA_LOSS with the byte position when the text is not one JSON value. */
stator_status st_json_parse(const char *text, uint64_t len, st_arena *arena, st_json **out_value,
                            stator_diag **err);
/* Member of an object, NULL when there is none (or object is no object). */
const st_json *st_json_member(const st_json *object, const char *key);

#endif
