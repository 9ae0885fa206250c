/* Losses, optimizers and schedules by name, and the values of their options; see optim.h. */
#include "ir/optim.h"

#include "core/base/convert.h"
#include "core/base/str.h"
#include "ir/expr/expr.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define OPTIM_ROW(kind_, name_, ...) {.kind = ST_OPTIM_##kind_, .name = #name_, __VA_ARGS__},
static const st_optim_row rows[] = {
#include "ir/optim.def"
};
#undef OPTIM_ROW

#define N_ROWS (uint32_t)(sizeof rows / sizeof rows[0])

const st_optim_row *st_optim_at(uint32_t index)
{
    return index < N_ROWS ? &rows[index] : NULL;
}

const st_optim_row *st_optim_find(st_optim_kind kind, const char *name)
{
    for (uint32_t i = 0; i < N_ROWS; i++) {
        if (rows[i].kind == kind && strcmp(rows[i].name, name) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

const char *st_optim_kind_name(st_optim_kind kind)
{
    static const char *const names[] = {[ST_OPTIM_LOSS] = "loss",
                                        [ST_OPTIM_STEP] = "step",
                                        [ST_OPTIM_OPTIMIZER] = "optimizer",
                                        [ST_OPTIM_SCHEDULE] = "schedule"};
    return names[kind];
}

/* "a, b, c", or with another word before the last "a, b and c", as far as there is room. */
static void join(const char *const *names, uint32_t n, const char *last, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < n && used + strlen(names[i]) + 6u < size; i++) {
        const char *between = i == 0 ? "" : i + 1u == n ? last : ", ";
        used += (size_t)snprintf(text + used, size - used, "%s%s", between, names[i]);
    }
}

static stator_status fail_name(const char *what, const char *name, const char *const *names,
                               uint32_t n, stator_diag **err)
{
    char all[400];
    const char *near = st_nearest(name, names, n);
    join(names, n, ", ", all, sizeof all);
    return st_fail(err, STATOR_NOT_FOUND, "there is no %s '%s'%s%s%s (%s)", what, name,
                   near != NULL ? "; did you mean '" : "", near != NULL ? near : "",
                   near != NULL ? "'?" : "", n != 0 ? all : "none is known");
}

stator_status st_optim_fail_unknown(st_optim_kind kind, const char *name, stator_diag **err)
{
    const char *names[N_ROWS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < N_ROWS; i++) {
        if (rows[i].kind == kind) {
            names[n++] = rows[i].name;
        }
    }
    return fail_name(st_optim_kind_name(kind), name, names, n, err);
}

/* What stands behind `name` in its entry of "name...; name..."; NULL: it has none. */
static const char *entry_of(const char *list, const char *name)
{
    const size_t n = strlen(name);
    for (const char *p = list != NULL ? list : ""; *p != '\0'; p += strcspn(p, ";")) {
        p += strspn(p, "; ");
        if (strncmp(p, name, n) == 0 && strchr(": ", p[n]) != NULL) {
            return p + n;
        }
    }
    return NULL;
}

/* ---- ranges ---- */

/* Is the number in "[low, high)"? A parenthesis excludes its bound, and what f32 rounds to it. */
static bool is_in_range(const char *range, double number)
{
    const char *low_end = NULL, *high_end = NULL;
    double low = 0, high = 0;
    const double rounded = st_fits_f32(number) ? (double)(float)number : number;
    return st_parse_number(range + 1, &low, &low_end) &&
           st_parse_number(low_end + 2, &high, &high_end) &&
           (*range == '(' ? number > low && rounded > low : number >= low) &&
           (*high_end == ')' ? number < high && rounded < high : number <= high);
}

static bool are_in_range(const char *range, const double *numbers, uint32_t n)
{
    for (uint32_t i = 0; range != NULL && i < n; i++) {
        if (!is_in_range(range, numbers[i])) {
            return false;
        }
    }
    return true;
}

/* ---- values ---- */

static stator_status set_list(stator_attr *attr, st_arena *arena, const double *numbers, uint32_t n,
                              stator_diag **err)
{
    double *copy = st_arena_alloc(arena, (n + 1u) * sizeof *copy, sizeof(double));
    ST_TRY_MEM(copy, err);
    memcpy(copy, numbers, n * sizeof *copy);
    attr->list = copy;
    attr->count = n;
    return STATOR_OK;
}

static stator_status set_default(stator_attr *attr, st_arena *arena, const stator_attr_desc *desc,
                                 stator_diag **err)
{
    double numbers[16];
    uint32_t n = 0;
    *attr = (stator_attr){.name = desc->name};
    if (desc->is_required || st_attr_default_is_absent(desc)) {
        return STATOR_OK;
    }
    attr->kind = desc->kind;
    attr->i = desc->i;
    attr->f = desc->f;
    attr->s = desc->s;
    if (desc->kind == STATOR_ATTR_FLOATS) {
        ST_FAIL_IF(!st_attr_default_list(desc, numbers, 16, &n), err, STATOR_INTERNAL,
                   "option %s: cannot read its default", desc->name);
        return set_list(attr, arena, numbers, n, err);
    }
    return STATOR_OK;
}

stator_attr *st_optim_value(st_optim_values *values, const char *name)
{
    for (uint32_t i = 0; i < values->count; i++) {
        if (strcmp(values->descs[i].name, name) == 0) {
            return &values->attrs[i];
        }
    }
    return NULL;
}

stator_status st_optim_values_add(st_optim_values *values, st_arena *arena, const st_optim_row *row,
                                  stator_diag **err)
{
    stator_attr_desc *list = NULL;
    uint32_t n = 0;
    ST_TRY(st_attr_schema_read(arena, row->name, row->options, &list, &n, err));
    for (uint32_t i = 0; i < n; i++) {
        if (st_optim_value(values, list[i].name) != NULL) {
            continue;
        }
        ST_FAIL_IF(values->count == ST_OPTIM_VALUES_MAX, err, STATOR_INTERNAL,
                   "%s: more than %u options", row->name, ST_OPTIM_VALUES_MAX);
        const char *range = entry_of(row->ranges, list[i].name);
        values->descs[values->count] = list[i];
        values->ranges[values->count] = range != NULL ? strpbrk(range, "[(") : NULL;
        ST_TRY(set_default(&values->attrs[values->count], arena, &list[i], err));
        values->count++;
    }
    return STATOR_OK;
}

/* Reads numbers with commas between; 0: one is no finite number. */
static uint32_t read_numbers(const char *text, double *out, uint32_t capacity)
{
    uint32_t n = 0;
    for (;;) {
        const char *end = NULL;
        if (n == capacity || !st_parse_number(text, &out[n], &end) || !isfinite(out[n])) {
            return 0;
        }
        n++;
        if (*end == '\0') {
            return n;
        }
        if (*end != ',') {
            return 0;
        }
        text = end + 1;
    }
}

/* Says what a value is: "a number in [0, 1)". */
static stator_status fail_value(const st_optim_values *values, uint32_t at, const char *text,
                                stator_diag **err)
{
    const stator_attr_desc *desc = &values->descs[at];
    const char *range = values->ranges[at];
    char what[32] = "a number";
    if (desc->kind == STATOR_ATTR_FLOATS) {
        (void)snprintf(what, sizeof what, "%u numbers", values->attrs[at].count);
    }
    return st_fail(err, STATOR_INVALID_ARGUMENT, "option %s is '%s', expected %s%s%.*s%s",
                   desc->name, text, desc->kind == STATOR_ATTR_INT ? "a whole number" : what,
                   range != NULL ? " in " : "", range != NULL ? (int)strcspn(range, ")]") + 1 : 0,
                   range != NULL ? range : "",
                   desc->kind == STATOR_ATTR_FLOATS ? " with commas between" : "");
}

/* Programs compute with the numbers in the dtype of a gradient, and f32 is the usual one. */
static stator_status check_f32(const char *key, const char *text, const double *numbers, uint32_t n,
                               stator_diag **err)
{
    for (uint32_t i = 0; i < n; i++) {
        ST_FAIL_IF(!st_fits_f32(numbers[i]), err, STATOR_INVALID_ARGUMENT,
                   "option %s is '%s', and f32 cannot hold %g: it would be %g", key, text,
                   numbers[i], (double)(float)numbers[i]);
    }
    return STATOR_OK;
}

/* The rows of a kind that have the option, "the optimizers adam and adamw"; how many there are. */
static uint32_t name_group(st_optim_kind kind, const char *key, char *text, size_t size)
{
    const char *names[N_ROWS];
    char list[160];
    uint32_t n = 0;
    for (uint32_t i = 0; i < N_ROWS; i++) {
        if (rows[i].kind == kind && entry_of(rows[i].options, key) != NULL) {
            names[n++] = rows[i].owner != NULL ? rows[i].owner : rows[i].name;
        }
    }
    join(names, n, " and ", list, sizeof list);
    if (kind == ST_OPTIM_STEP) {
        (void)snprintf(text, size, "%s", list);
    } else {
        const char *plural = n < 2 ? "" : kind == ST_OPTIM_LOSS ? "es" : "s";
        (void)snprintf(text, size, "the %s%s %s", st_optim_kind_name(kind), plural, list);
    }
    return n;
}

/* Whose option it is: "the optimizers adam and adamw have". */
static void name_owners(const char *key, char *text, size_t size)
{
    char groups[ST_OPTIM_SCHEDULE + 1][200];
    const char *parts[ST_OPTIM_SCHEDULE + 1];
    uint32_t n_parts = 0, n_rows = 0;
    for (uint32_t kind = ST_OPTIM_LOSS; kind <= ST_OPTIM_SCHEDULE; kind++) {
        const uint32_t n = name_group((st_optim_kind)kind, key, groups[n_parts], sizeof groups[0]);
        parts[n_parts] = groups[n_parts];
        n_parts += n != 0;
        n_rows += n;
    }
    join(parts, n_parts, " and ", text, size - sizeof " have");
    (void)strcat(text, n_rows == 1 ? " has" : " have");
}

/* Names of the options of all rows, those of the step first: where two are equally near, that is
 * the one that is meant. */
static uint32_t list_options(const st_optim_values *values, st_arena *arena, const char **names,
                             uint32_t capacity)
{
    uint32_t n = 0;
    for (; n < values->count; n++) {
        names[n] = values->descs[n].name;
    }
    for (uint32_t i = 0; i < N_ROWS; i++) {
        for (const char *p = rows[i].options; p != NULL && *p != '\0' && n < capacity;) {
            p += strspn(p, "; ");
            names[n] = st_arena_strndup(arena, p, strcspn(p, ":"));
            n += names[n] != NULL;
            p += strcspn(p, ";");
        }
    }
    return n;
}

/* No row of the step has the option: another of the table may, as betas beside sgd. */
static stator_status fail_option(const st_optim_values *values, st_arena *arena, const char *key,
                                 stator_diag **err)
{
    const char *names[4u * ST_OPTIM_VALUES_MAX];
    char owners[400];
    ST_FAIL_IF(strcmp(key, "lr") == 0, err, STATOR_NOT_FOUND,
               "there is no option 'lr': the rate is an input of the step, and --lr of 'stator "
               "train' gives it");
    const uint32_t n = list_options(values, arena, names, sizeof names / sizeof names[0]);
    const char *near = st_nearest(key, names, n);
    bool is_own = near == NULL;
    for (uint32_t i = 0; i < values->count; i++) {
        is_own = is_own || near == names[i];
    }
    if (is_own) {
        return fail_name("option", key, names, values->count, err);
    }
    name_owners(near, owners, sizeof owners);
    ST_FAIL_IF(strcmp(near, key) == 0, err, STATOR_NOT_FOUND,
               "there is no option '%s' in this step: %s it", key, owners);
    return st_fail(err, STATOR_NOT_FOUND,
                   "there is no option '%s' in this step; did you mean '%s', which %s?", key, near,
                   owners);
}

stator_status st_optim_values_set(st_optim_values *values, st_arena *arena, const char *key,
                                  const char *text, stator_diag **err)
{
    double numbers[16];
    stator_attr *attr = st_optim_value(values, key);
    if (attr == NULL) {
        return fail_option(values, arena, key, err);
    }
    const uint32_t at = (uint32_t)(attr - values->attrs);
    const stator_attr_desc *desc = &values->descs[at];
    const uint32_t wanted = desc->kind == STATOR_ATTR_FLOATS ? attr->count : 1;
    attr->kind = desc->kind;
    values->is_given[at] = 1;
    if (desc->kind == STATOR_ATTR_STRING) {
        attr->s = st_arena_strndup(arena, text, strlen(text));
        ST_TRY_MEM(attr->s, err);
        return STATOR_OK;
    }
    const uint32_t n = read_numbers(text, numbers, 16);
    const bool is_whole = n != 0 && numbers[0] == trunc(numbers[0]) && fabs(numbers[0]) < 0x1p53;
    if (n != wanted || (desc->kind == STATOR_ATTR_INT && !is_whole) ||
        !are_in_range(values->ranges[at], numbers, n)) {
        return fail_value(values, at, text, err);
    }
    ST_TRY(check_f32(key, text, numbers, n, err));
    attr->f = numbers[0];
    attr->i = desc->kind == STATOR_ATTR_INT ? (int64_t)numbers[0] : 0;
    return desc->kind == STATOR_ATTR_FLOATS ? set_list(attr, arena, numbers, n, err) : STATOR_OK;
}

stator_status st_optim_values_check(const st_optim_values *values, stator_diag **err)
{
    for (uint32_t i = 0; i < values->count; i++) {
        ST_FAIL_IF(values->descs[i].is_required && !values->is_given[i], err,
                   STATOR_INVALID_ARGUMENT, "option %s has no default: give it",
                   values->descs[i].name);
    }
    return STATOR_OK;
}

bool st_optim_is_on(const st_optim_values *values, const char *name)
{
    for (uint32_t i = 0; i < values->count; i++) {
        const stator_attr *attr = &values->attrs[i];
        if (strcmp(values->descs[i].name, name) == 0) {
            return attr->kind == STATOR_ATTR_INT ? attr->i != 0 : attr->f != 0;
        }
    }
    return false;
}
