/* Error texts. A failing function stores one stator_diag through `err` and returns its code. */
#ifndef STATOR_BASE_DIAG_H
#define STATOR_BASE_DIAG_H

#include "core/base/alloc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a diag with a formatted text, stores it in *err (when err is not NULL and *err is NULL) and
 * returns code: `return st_fail(err, STATOR_NOT_FOUND, "no op named '%s'", name);`. Never fails
 * itself: out of memory gives a static text. Diags are plain malloc memory (st_process_alloc),
 * so that a context's end does not take its last error away. */
stator_status st_fail(stator_diag **err, stator_status code, const char *format, ...)
    STATOR_PRINTF(3, 4);
/* Out of memory: code RESOURCE_EXHAUSTED, static text, allocates nothing. */
stator_status st_fail_oom(stator_diag **err);
stator_diag *st_diag_create(stator_status code, const char *text, uint64_t len);
void st_diag_note(stator_diag *diag, const char *node, const char *file, uint32_t line,
                  const char *text);
void st_diag_set_hint(stator_diag *diag, const char *format, ...) STATOR_PRINTF(2, 3);
/* Puts "prefix: " before the text (which stage or file an inner failure belongs to). */
void st_diag_prefix(stator_diag *diag, const char *format, ...) STATOR_PRINTF(2, 3);
/* Names a node of the graph that the failing call was given, and what is wrong with it. */
void st_diag_add_node(stator_diag *diag, stator_ref node, const char *reason);
/* The nodes named, in order; NULL when there are none (or no diag). */
typedef struct st_diag_node {
    struct st_diag_node *next;
    stator_ref node;
    const char *reason; /* "" when none was given */
} st_diag_node;
const st_diag_node *st_diag_nodes(const stator_diag *diag);
const char *st_diag_text(const stator_diag *diag); /* "" for NULL; notes included */
const char *st_diag_hint(const stator_diag *diag); /* NULL when none */
stator_status st_diag_code(const stator_diag *diag);
/* One more of the same; NULL of NULL. */
stator_diag *st_diag_copy(const stator_diag *diag);
void st_diag_release(stator_diag *diag);
/* Hands `diag` to who asked, or releases it where that has one or wants none; returns `status`. */
stator_status st_diag_give(stator_status status, stator_diag *diag, stator_diag **err);
extern const stator_diag_api st_diag_api; /* the host table's `diag` */

#define ST_TRY(expr)                                                                               \
    do {                                                                                           \
        const stator_status st_try_status_ = (expr);                                               \
        if (st_try_status_ != STATOR_OK) {                                                         \
            return st_try_status_;                                                                 \
        }                                                                                          \
    } while (0)
/* The same of a step that says yes or no: returns false unless the condition holds. */
#define ST_NEED(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            return false;                                                                          \
        }                                                                                          \
    } while (0)
/* Does the next step of several unless one before it failed; `status` is a variable. */
#define ST_THEN(status, expr) ((status) = (status) == STATOR_OK ? (expr) : (status))
/* Where the condition holds, returns what `fail` gives for the other arguments: a function that
 * keeps the reason, most often with a place that it knows. ST_FAIL_IF is the one of st_fail. */
#define ST_FAIL_BY_IF(fail, condition, ...)                                                        \
    do {                                                                                           \
        if (condition) {                                                                           \
            return fail(__VA_ARGS__);                                                              \
        }                                                                                          \
    } while (0)
#define ST_FAIL_IF(condition, ...) ST_FAIL_BY_IF(st_fail, condition, __VA_ARGS__)
/* Returns RESOURCE_EXHAUSTED unless what an allocation made is there. */
#define ST_TRY_MEM(is_made, err) ST_FAIL_BY_IF(st_fail_oom, !(is_made), err)
/* Returns INVALID_ARGUMENT when a pointer from the other side of a border is NULL; of a list only
 * when it is said to have elements. */
#define ST_REQUIRE(pointer, err)                                                                   \
    ST_FAIL_IF((pointer) == NULL, (err), STATOR_INVALID_ARGUMENT, "%s is NULL", #pointer)
#define ST_REQUIRE_LIST(list, count, err)                                                          \
    ST_FAIL_IF((list) == NULL && (count) != 0, (err), STATOR_INVALID_ARGUMENT,                     \
               "%s is NULL, %llu elements were to be there", #list, (unsigned long long)(count))
/* The same with cleanup at the label `done`; needs `stator_status status` in scope. */
#define ST_TRY_DONE(expr)                                                                          \
    do {                                                                                           \
        status = (expr);                                                                           \
        if (status != STATOR_OK) {                                                                 \
            goto done;                                                                             \
        }                                                                                          \
    } while (0)

#ifdef __cplusplus
}
#endif
#endif
