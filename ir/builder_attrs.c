/* Attributes of a node: names checked against the op's schema, kinds converted, defaults filled.
 *
 * In: the attributes a caller gives, in any order. Out: one row per attribute of the schema, in
 * schema order; lists are interned in the module's pools. Conversions: INT or BOOL to FLOAT, INTS
 * to FLOATS, INTS and INT to DIMS, constant DIMS to INTS, an empty list to any list. */
#include "core/base/str.h"
#include "ir/builder.h"
#include <string.h>

#define DEFAULT_LIST_MAX 64u

static const char *const kind_names[] = {
    "none",           "an int",           "a float",         "a string",  "a dtype",
    "a list of ints", "a list of floats", "a list of sizes", "a constant"};

static const char *kind_name(uint32_t kind)
{
    return kind <= STATOR_ATTR_BLOB ? kind_names[kind] : "of an unknown kind";
}

static stator_status wrong_kind(const st_op *op, const stator_attr_desc *schema, uint32_t given,
                                stator_diag **err)
{
    return st_fail(err, STATOR_INVALID_ARGUMENT, "%s: attribute '%s' is %s, expected %s",
                   op->desc.name, schema->name, kind_name(given), kind_name(schema->kind));
}

static stator_status unknown_name(const st_op *op, const char *name, stator_diag **err)
{
    const char *names[ST_ATTRS_MAX];
    uint32_t n = 0;
    for (; n < op->desc.attr_count && n < ST_ATTRS_MAX; n++) {
        names[n] = op->desc.attrs[n].name;
    }
    const char *near = st_nearest(name, names, n);
    const stator_status status = st_fail(err, STATOR_INVALID_ARGUMENT,
                                         "%s: no attribute is named '%s'", op->desc.name, name);
    if (err != NULL && *err != NULL && near != NULL) {
        st_diag_set_hint(*err, "did you mean '%s'?", near);
    }
    return status;
}

/* ---- lists ---- */

static bool floats_of_ints(st_module *m, const int64_t *from, uint32_t n, uint32_t *out)
{
    double *to = st_calloc(m->mem, (uint64_t)n + 1u, sizeof *to);
    if (to == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        to[i] = (double)from[i];
    }
    const bool ok = st_module_f64_list(m, to, n, out);
    st_free(m->mem, to);
    return ok;
}

static bool dims_of_ints(st_module *m, const int64_t *from, uint32_t n, uint32_t *out)
{
    uint32_t *to = st_calloc(m->mem, (uint64_t)n + 1u, sizeof *to);
    bool ok = to != NULL;
    for (uint32_t i = 0; ok && i < n; i++) {
        to[i] = st_sym_int(&m->symtab, from[i]);
        ok = to[i] != 0;
    }
    ok = ok && st_module_ref_list(m, to, n, out);
    st_free(m->mem, to);
    return ok;
}

static stator_status ints_of_dims(st_module *m, const st_op *op, const stator_attr_desc *schema,
                                  const stator_attr *given, stator_attr_row *row, stator_diag **err)
{
    int64_t *to = st_calloc(m->mem, (uint64_t)given->count + 1u, sizeof *to);
    ST_TRY_MEM(to, err);
    const uint32_t *from = given->list;
    bool is_const = true;
    for (uint32_t i = 0; is_const && i < given->count; i++) {
        is_const = st_sym_const(&m->symtab, from[i], &to[i]);
    }
    const bool ok = is_const && st_module_i64_list(m, to, given->count, &row->begin);
    st_free(m->mem, to);
    if (!is_const) {
        return wrong_kind(op, schema, given->kind, err);
    }
    return ok ? STATOR_OK : st_fail_oom(err);
}

static stator_status check_syms(const st_module *m, const st_op *op, const stator_attr_desc *schema,
                                const stator_attr *given, stator_diag **err)
{
    const uint32_t *syms = given->list;
    for (uint32_t i = 0; i < given->count; i++) {
        ST_FAIL_IF(syms[i] == 0 || syms[i] >= m->symtab.syms.count, err, STATOR_INVALID_ARGUMENT,
                   "%s: attribute '%s': element %u is no size of this module (ref %u); a "
                   "size of 0 refs comes from a limit of the symbolic engine",
                   op->desc.name, schema->name, i, syms[i]);
    }
    return STATOR_OK;
}

static stator_status set_list(stator_builder *b, const st_op *op, const stator_attr_desc *schema,
                              const stator_attr *given, stator_attr_row *row, stator_diag **err)
{
    st_module *m = b->module;
    const uint32_t to = schema->kind;
    const bool is_list = st_attr_is_list(given->kind);
    bool ok = true;
    row->count = is_list ? given->count : 1u;
    ST_FAIL_IF(is_list && given->count != 0 && given->list == NULL, err, STATOR_INVALID_ARGUMENT,
               "%s: attribute '%s' has no list", op->desc.name, schema->name);
    if (is_list && given->count == 0) {
        return STATOR_OK;
    }
    if (given->kind == STATOR_ATTR_DIMS) {
        ST_TRY(check_syms(m, op, schema, given, err));
        if (to == STATOR_ATTR_INTS) {
            return ints_of_dims(m, op, schema, given, row, err);
        }
    }
    if (given->kind == to && to == STATOR_ATTR_DIMS) {
        ok = st_module_ref_list(m, given->list, given->count, &row->begin);
    } else if (given->kind == to && to == STATOR_ATTR_INTS) {
        ok = st_module_i64_list(m, given->list, given->count, &row->begin);
    } else if (given->kind == to) {
        ok = st_module_f64_list(m, given->list, given->count, &row->begin);
    } else if (given->kind == STATOR_ATTR_INTS && to == STATOR_ATTR_FLOATS) {
        ok = floats_of_ints(m, given->list, given->count, &row->begin);
    } else if (given->kind == STATOR_ATTR_INTS && to == STATOR_ATTR_DIMS) {
        ok = dims_of_ints(m, given->list, given->count, &row->begin);
    } else if (given->kind == STATOR_ATTR_INT && to == STATOR_ATTR_DIMS) {
        ok = dims_of_ints(m, &given->i, 1, &row->begin);
    } else {
        return wrong_kind(op, schema, given->kind, err);
    }
    return ok ? STATOR_OK : st_fail_oom(err);
}

/* ---- one attribute ---- */

static stator_status set_string(stator_builder *b, const char *s, stator_attr_row *row,
                                stator_diag **err)
{
    const uint64_t n = s != NULL ? strlen(s) : 0;
    row->begin = st_module_string(b->module, s, n);
    return row->begin != 0 || n == 0 ? STATOR_OK : st_fail_oom(err);
}

static stator_status set_blob(stator_builder *b, const st_op *op, const stator_attr_desc *schema,
                              const stator_attr *given, stator_attr_row *row, stator_diag **err)
{
    ST_FAIL_IF(given->blob == NULL || given->i <= 0 || given->i >= (int64_t)b->module->types.count,
               err, STATOR_INVALID_ARGUMENT,
               "%s: attribute '%s' needs a blob and, in `i`, the type of its contents",
               op->desc.name, schema->name);
    row->begin = st_module_blob(b->module, given->blob);
    row->i = given->i;
    return row->begin != 0 ? STATOR_OK : st_fail_oom(err);
}

static stator_status set_given(stator_builder *b, const st_op *op, const stator_attr_desc *schema,
                               const stator_attr *given, stator_attr_row *row, stator_diag **err)
{
    if (given->kind == STATOR_ATTR_NONE && st_attr_default_is_absent(schema)) {
        row->kind = STATOR_ATTR_NONE;
        return STATOR_OK;
    }
    if (st_attr_is_list(schema->kind)) {
        return set_list(b, op, schema, given, row, err);
    }
    if (schema->kind == STATOR_ATTR_FLOAT && given->kind == STATOR_ATTR_INT) {
        row->f = (double)given->i;
        return STATOR_OK;
    }
    if (given->kind != schema->kind) {
        return wrong_kind(op, schema, given->kind, err);
    }
    switch (schema->kind) {
    case STATOR_ATTR_STRING:
        return set_string(b, given->s, row, err);
    case STATOR_ATTR_BLOB:
        return set_blob(b, op, schema, given, row, err);
    case STATOR_ATTR_DTYPE:
        ST_FAIL_IF(given->i <= 0 || given->i >= STATOR_DTYPE_COUNT, err, STATOR_INVALID_ARGUMENT,
                   "%s: attribute '%s': no dtype has id %lld", op->desc.name, schema->name,
                   (long long)given->i);
        break;
    default:
        break;
    }
    row->i = schema->kind == STATOR_ATTR_FLOAT ? 0 : given->i;
    row->f = schema->kind == STATOR_ATTR_FLOAT ? given->f : 0;
    return STATOR_OK;
}

static stator_status set_default_list(stator_builder *b, const st_op *op,
                                      const stator_attr_desc *schema, stator_attr_row *row,
                                      stator_diag **err)
{
    double list[DEFAULT_LIST_MAX];
    int64_t ints[DEFAULT_LIST_MAX];
    uint32_t n = 0;
    ST_FAIL_IF(schema->s != NULL && !st_attr_default_list(schema, list, DEFAULT_LIST_MAX, &n), err,
               STATOR_INVALID_ARGUMENT, "%s: attribute '%s': cannot read the default '%s'",
               op->desc.name, schema->name, schema->s);
    for (uint32_t i = 0; i < n; i++) {
        ints[i] = (int64_t)list[i];
    }
    const bool is_float = schema->kind == STATOR_ATTR_FLOATS;
    const stator_attr given = {.kind = is_float ? STATOR_ATTR_FLOATS : STATOR_ATTR_INTS,
                               .count = n,
                               .list = is_float ? (const void *)list : (const void *)ints};
    return set_list(b, op, schema, &given, row, err);
}

static stator_status set_default(stator_builder *b, const st_op *op, const stator_attr_desc *schema,
                                 stator_attr_row *row, stator_diag **err)
{
    ST_FAIL_IF(schema->is_required, err, STATOR_INVALID_ARGUMENT,
               "%s: attribute '%s' (%s) is missing", op->desc.name, schema->name,
               kind_name(schema->kind));
    if (st_attr_default_is_absent(schema) || schema->kind == STATOR_ATTR_BLOB) {
        row->kind = STATOR_ATTR_NONE;
        return STATOR_OK;
    }
    if (st_attr_is_list(schema->kind)) {
        return set_default_list(b, op, schema, row, err);
    }
    if (schema->kind == STATOR_ATTR_STRING) {
        return set_string(b, schema->s, row, err);
    }
    row->i = schema->kind == STATOR_ATTR_FLOAT ? 0 : schema->i;
    row->f = schema->kind == STATOR_ATTR_FLOAT ? schema->f : 0;
    return STATOR_OK;
}

/* ---- all of them ---- */

static uint32_t place_of(const st_op *op, const char *name)
{
    for (uint32_t k = 0; k < op->desc.attr_count; k++) {
        if (strcmp(op->desc.attrs[k].name, name) == 0) {
            return k;
        }
    }
    return UINT32_MAX;
}

stator_status st_build_attr_rows(stator_builder *b, const st_op *op, const stator_node_desc *desc,
                                 stator_attr_row *rows, stator_diag **err)
{
    const stator_attr *given[ST_ATTRS_MAX] = {NULL};
    for (uint32_t i = 0; i < desc->attr_count; i++) {
        const char *name = desc->attrs[i].name;
        const uint32_t place = name != NULL ? place_of(op, name) : UINT32_MAX;
        if (place == UINT32_MAX) {
            return unknown_name(op, name != NULL ? name : "", err);
        }
        ST_FAIL_IF(given[place] != NULL, err, STATOR_INVALID_ARGUMENT,
                   "%s: attribute '%s' is given twice", op->desc.name, name);
        given[place] = &desc->attrs[i];
    }
    for (uint32_t k = 0; k < op->desc.attr_count; k++) {
        const stator_attr_desc *schema = &op->desc.attrs[k];
        rows[k] = (stator_attr_row){.kind = schema->kind};
        rows[k].name = st_module_string(b->module, schema->name, strlen(schema->name));
        ST_TRY_MEM(rows[k].name, err);
        ST_TRY(given[k] != NULL ? set_given(b, op, schema, given[k], &rows[k], err)
                                : set_default(b, op, schema, &rows[k], err));
    }
    return STATOR_OK;
}
