/* Option values: parsed and validated by the host alone, against the schema of the item they are
 * for.
 *
 * In: a schema (stator_option_desc rows), "key=value" pairs, the environment. Out:
 * stator_options, a table with one typed value per schema row. Precedence: given pairs, then the
 * variable STATOR_OPT_<ITEM>_<KEY> (upper case, every character that is not a letter or digit
 * becomes '_'), then the default. A key "other.key" is checked against the schema of the backend
 * or frontend `other`, "PASS:key" against the schema of the pass PASS; both are then left out,
 * so that one set of options serves several backends and the passes before them, and kept for
 * who opens `other` or runs PASS (st_options_foreign). A pass has a sign of its own because its
 * name may contain dots. Invariants: every value has its row's type and lies in its range; the
 * plugin never sees text that was not checked. */
#ifndef STATOR_PLUGINS_OPTIONS_H
#define STATOR_PLUGINS_OPTIONS_H

#include "core/base/alloc.h"
#include "core/base/diag.h"
#include "core/base/str.h"
#include <stator/plugin.h>

typedef struct st_option_schema {
    const stator_option_desc *options; /* full-size rows, one after the other */
    uint32_t count;
    /* When the item cannot be loaded: what its note lists, comma-separated (NULL: anything goes).
     */
    const char *names_only;
    uint32_t is_names_only;
} st_option_schema;

typedef struct st_options_request {
    const char *item; /* name of the backend, frontend or pass the values are for */
    const stator_option_desc *schema;
    uint32_t schema_count;
    uint32_t count; /* number of keys and values */
    const char *const *keys;
    const char *const *values;
    uint32_t use_env; /* 0: look at no STATOR_OPT_ variable */
    uint32_t kind;    /* STATOR_KIND_PASS: item is a pass; 0: a backend or frontend */
    /* Schema of another item of such a kind: 1 known, 0 there is none. NULL: no foreign key is
     * accepted. See st_registry_option_schema. */
    bool (*foreign)(void *self, uint32_t kind, const char *name, st_option_schema *out);
    void *foreign_self;
} st_options_request;

/* Validates and makes the table. INVALID_ARGUMENT with did-you-mean, or naming type or range. */
stator_status st_options_create(st_mem *mem, const st_options_request *request,
                                stator_options **out_options, stator_diag **err);
void st_options_destroy(stator_options *options);
/* Warnings about deprecated or renamed keys, one sentence a line; "": none. */
const char *st_options_warnings(const stator_options *options);
/* Appends "key=value\n" of every row flagged AFFECTS_CODE, in schema order, in normal form; a
 * value holds no blank and no line end, and other values give another text. A pass does nothing
 * but change code: of its rows all count but those flagged SECRET alone. */
void st_options_code_key(const stator_options *options, st_str *out);

/* Options of other namespaces as the pairs with which `item` (a pass, or with kind 0 a backend or
 * frontend) is created: its own keys without the namespace, the others with it. Free with
 * st_option_pairs_deinit; the strings are those of `options`. */
typedef struct st_option_pairs {
    st_mem *mem; /* NULL: the caller's own lists */
    uint32_t count;
    const char *const *keys;
    const char *const *values;
} st_option_pairs;
stator_status st_options_foreign(const stator_options *options, uint32_t kind, const char *item,
                                 st_option_pairs *out_pairs, stator_diag **err);
void st_option_pairs_deinit(st_option_pairs *pairs);

/* Checks a schema itself: names, types, ranges, defaults. INVALID_ARGUMENT says which row is wrong.
 */
stator_status st_options_check_schema(const stator_option_desc *schema, uint32_t count,
                                      stator_diag **err);

/* Serves stator_host.opt. A key outside the schema, or of another type, gives the zero value. */
extern const stator_opt_api st_opt_api;

#endif
