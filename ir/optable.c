/* The op table: turns the rows of ir/ops.def and the ops of libraries into st_op rows.
 *
 * In: st_op_def rows (text columns) or stator_oplib_op descriptors. Out: st_op rows whose `desc`
 * has parsed attributes, operand counts and flags, found by id (from 1) or by name. Rows never
 * move. An attribute "name:kind" is required, "name:kind=default" is not. "=none" means absent
 * unless given (kinds other than string, where it is the word itself); desc.s is then "none". A
 * list default keeps its text in desc.s and is read with st_attr_default_list. */
#include "ir/optable.h"

#include "core/base/check.h"
#include "ir/expr/expr.h"
#include "ir/gradient/gradient_rules.h"
#include "ir/ops/rules.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define ATTRS_MAX 32u

/* clang-format off */
static const st_op_def op_defs[] = {
#define STATOR_OP(name_, ...) {.name = #name_, __VA_ARGS__},
#include "ir/ops.def"
#undef STATOR_OP
};
/* clang-format on */

static const char *const kind_names[] = {NULL,   "int",    "float", "string", "dtype",
                                         "ints", "floats", "dims",  "blob"};

const st_op_def *st_op_defs(uint32_t *out_count)
{
    *out_count = (uint32_t)(sizeof op_defs / sizeof op_defs[0]);
    return op_defs;
}

static const char *skip_space(const char *p)
{
    while (isspace((unsigned char)*p)) {
        p++;
    }
    return p;
}

static const char *skip_word(const char *p)
{
    while (isalnum((unsigned char)*p) || *p == '_') {
        p++;
    }
    return p;
}

static uint32_t kind_of_name(const char *s, uint64_t n)
{
    for (uint32_t k = STATOR_ATTR_INT; k <= STATOR_ATTR_BLOB; k++) {
        if (strlen(kind_names[k]) == n && memcmp(kind_names[k], s, n) == 0) {
            return k;
        }
    }
    return STATOR_ATTR_NONE;
}

bool st_attr_is_list(uint32_t kind)
{
    return kind == STATOR_ATTR_INTS || kind == STATOR_ATTR_FLOATS || kind == STATOR_ATTR_DIMS;
}

bool st_attr_default_is_absent(const stator_attr_desc *desc)
{
    return !desc->is_required && desc->kind != STATOR_ATTR_STRING && desc->s != NULL &&
           strcmp(desc->s, "none") == 0;
}

bool st_attr_default_list(const stator_attr_desc *desc, double *out, uint32_t capacity,
                          uint32_t *out_count)
{
    const char *p = desc->s ? skip_space(desc->s) : "";
    uint32_t n = 0;
    *out_count = 0;
    if (*p != '[') {
        return false;
    }
    for (p = skip_space(p + 1); *p != ']';) {
        const char *end = NULL;
        double x = 0;
        if (!st_parse_number(p, &x, &end) || n == capacity) {
            return false;
        }
        out[n++] = x;
        p = skip_space(end);
        if (*p == ',') {
            p = skip_space(p + 1);
        } else if (*p != ']') {
            return false;
        }
    }
    *out_count = n;
    return *skip_space(p + 1) == '\0';
}

/* Reads the text after '=' into desc. */
static bool read_default(const char *text, stator_attr_desc *desc)
{
    const char *end = NULL;
    double list[64];
    double number = 0;
    uint32_t n = 0;
    desc->is_required = 0;
    desc->s = text;
    if (st_attr_default_is_absent(desc)) {
        return true;
    }
    switch (desc->kind) {
    case STATOR_ATTR_STRING:
        return true;
    case STATOR_ATTR_INT:
    case STATOR_ATTR_FLOAT:
        if (!st_parse_number(text, &number, &end) || *end != '\0') {
            return false;
        }
        desc->i = desc->kind == STATOR_ATTR_INT ? (int64_t)number : 0;
        desc->f = desc->kind == STATOR_ATTR_FLOAT ? number : 0;
        desc->s = NULL;
        return true;
    case STATOR_ATTR_DTYPE:
        desc->i = st_dtype_parse(text, strlen(text));
        desc->s = NULL;
        return desc->i != STATOR_DTYPE_NONE;
    case STATOR_ATTR_BLOB:
        return false;
    default:
        return st_attr_default_list(desc, list, 64, &n);
    }
}

/* Reads one "name:kind[=default]" at *p, which ends at ';' or the end of the text. */
static stator_status read_attr(st_arena *arena, const char **p, stator_attr_desc *out)
{
    const char *begin = skip_space(*p);
    const char *end = skip_word(begin);
    const char *kind = end + 1;
    if (end == begin || *end != ':') {
        return STATOR_INVALID_ARGUMENT;
    }
    const char *kind_end = skip_word(kind);
    *out = (stator_attr_desc){.kind = kind_of_name(kind, (uint64_t)(kind_end - kind)),
                              .is_required = 1};
    const char *next = strchr(kind_end, ';');
    next = next ? next : kind_end + strlen(kind_end);
    *p = *next ? next + 1 : next;
    const bool has_default = *kind_end == '=';
    if (out->kind == STATOR_ATTR_NONE || (!has_default && skip_space(kind_end) != next)) {
        return STATOR_INVALID_ARGUMENT;
    }
    out->name = st_arena_strndup(arena, begin, (uint64_t)(end - begin));
    const char *text =
        has_default ? st_arena_strndup(arena, kind_end + 1, (uint64_t)(next - kind_end) - 1u) : "";
    if (out->name == NULL || text == NULL) {
        return STATOR_RESOURCE_EXHAUSTED;
    }
    return has_default && !read_default(text, out) ? STATOR_INVALID_ARGUMENT : STATOR_OK;
}

stator_status st_attr_schema_read(st_arena *arena, const char *whose, const char *text,
                                  stator_attr_desc **out, uint32_t *out_count, stator_diag **err)
{
    stator_attr_desc list[ATTRS_MAX];
    uint32_t n = 0;
    const char *p = text != NULL ? text : "";
    for (p = skip_space(p); *p; p = skip_space(p)) {
        const char *at = p;
        const stator_status status =
            n < ATTRS_MAX ? read_attr(arena, &p, &list[n]) : STATOR_INVALID_ARGUMENT;
        ST_TRY_MEM(status != STATOR_RESOURCE_EXHAUSTED, err);
        ST_FAIL_IF(status != STATOR_OK, err, STATOR_INVALID_ARGUMENT,
                   "%s: cannot read the attribute at '%.40s', expected "
                   "name:kind or name:kind=default",
                   whose, at);
        n++;
    }
    *out = st_arena_zalloc(arena, n + 1u, sizeof **out);
    ST_TRY_MEM(*out, err);
    memcpy(*out, list, n * sizeof **out);
    *out_count = n;
    return STATOR_OK;
}

static stator_status read_attrs(st_arena *arena, const st_op_def *def, stator_op_desc *desc,
                                stator_diag **err)
{
    char whose[64];
    stator_attr_desc *list = NULL;
    (void)snprintf(whose, sizeof whose, "op %s", def->name);
    ST_TRY(st_attr_schema_read(arena, whose, def->attrs, &list, &desc->attr_count, err));
    desc->attrs = list;
    return STATOR_OK;
}

void st_name_counts(const char *names, uint32_t *out_min, uint32_t *out_max)
{
    *out_min = 0;
    *out_max = 0;
    for (const char *p = skip_space(names); *p; p = skip_space(p)) {
        p = skip_word(p);
        if (*p == '*') {
            *out_max = UINT32_MAX;
        } else if (*out_max != UINT32_MAX) {
            *out_max += 1;
        }
        *out_min += *p != '?' && *p != '*';
        while (*p && *p != ',') {
            p++;
        }
        p += *p == ',';
    }
}

static bool is_name(const char *s)
{
    return s != NULL && (isalpha((unsigned char)*s) || *s == '_') && *skip_word(s) == '\0';
}

static uint64_t hash_name(const char *name)
{
    return st_hash64(name, strlen(name), 0);
}

typedef struct find_query {
    const st_optable *table;
    const char *name;
} find_query;

static bool has_name(void *self, uint32_t id)
{
    const find_query *query = self;
    return strcmp(st_optable_at(query->table, id)->desc.name, query->name) == 0;
}

uint32_t st_optable_find(const st_optable *table, const char *name)
{
    find_query query = {table, name};
    return name ? st_hashset_find(&table->by_name, hash_name(name), has_name, &query) : 0;
}

const st_op *st_optable_at(const st_optable *table, uint32_t op)
{
    return *(const st_op *const *)st_seg_at(&table->ops, op);
}

uint32_t st_optable_count(const st_optable *table)
{
    return table->ops.count ? table->ops.count - 1u : 0;
}

st_recompute st_op_recompute(const st_op *op)
{
    static const struct {
        uint64_t flags;
        st_recompute cost;
    } costs[] = {
        {STATOR_OP_EFFECT | STATOR_OP_WRITES | STATOR_OP_REGIONS | STATOR_OP_UNBACKED,
         ST_RECOMPUTE_NEVER},
        {STATOR_OP_RANDOM, ST_RECOMPUTE_RANDOM},
        {STATOR_OP_NO_RECOMPUTE, ST_RECOMPUTE_NEVER},
        {STATOR_OP_CONTRACTS, ST_RECOMPUTE_HEAVY},
        {STATOR_OP_VIEW | STATOR_OP_CONSTANT, ST_RECOMPUTE_FREE},
        {STATOR_OP_REDUCES, ST_RECOMPUTE_SWEEP},
        {STATOR_OP_POINTWISE, ST_RECOMPUTE_POINTWISE},
    };
    if (op->def != NULL && op->def->recompute != ST_RECOMPUTE_BY_FLAGS) {
        return op->def->recompute;
    }
    for (uint32_t k = 0; k < sizeof costs / sizeof costs[0]; k++) {
        if ((op->desc.flags & costs[k].flags) != 0) {
            return costs[k].cost;
        }
    }
    return ST_RECOMPUTE_HEAVY;
}

static stator_status publish(st_optable *table, const st_op *op, stator_diag **err)
{
    uint32_t id = 0;
    const st_op **slot = st_seg_push(&table->ops, &id);
    ST_TRY_MEM(slot, err);
    *slot = op;
    if (!st_hashset_add(&table->by_name, hash_name(op->desc.name), id)) {
        st_seg_truncate(&table->ops, id);
        return st_fail_oom(err);
    }
    return STATOR_OK;
}

static stator_status add_def(st_optable *table, const st_op_def *def, stator_diag **err)
{
    st_op *op = st_arena_zalloc(&table->arena, 1, sizeof *op);
    ST_TRY_MEM(op, err);
    op->def = def;
    op->infer = def->infer;
    op->decompose = def->decompose;
    op->unify_sizes = def->unify_sizes;
    op->size_requirements = def->size_requirements;
    op->desc = (stator_op_desc){
        .struct_size = sizeof op->desc,
        .version = def->version ? def->version : 1u,
        .name = def->name,
        .operands = def->operands,
        .results = def->results,
        .doc = def->doc,
        .body = def->body,
        .region_count = def->regions,
        .flags = def->flags,
    };
    st_name_counts(def->operands, &op->desc.operand_min, &op->desc.operand_max);
    ST_TRY(read_attrs(&table->arena, def, &op->desc, err));
    return publish(table, op, err);
}

/* ---- ops of libraries ---- */

static stator_status check_lib_desc(const stator_op_desc *desc, stator_diag **err)
{
    ST_FAIL_IF(!is_name(desc->name), err, STATOR_INVALID_ARGUMENT,
               "op library: '%s' is no op name, expected letters, digits and _",
               desc->name ? desc->name : "(null)");
    ST_FAIL_IF(desc->operands == NULL || desc->results == NULL || desc->doc == NULL, err,
               STATOR_INVALID_ARGUMENT, "op %s: operands, results and doc must be set", desc->name);
    uint32_t least = 0;
    uint32_t most = 0;
    st_name_counts(desc->results, &least, &most);
    if (least == 0) { /* a node without results would be part of no program */
        return st_fail(err, STATOR_INVALID_ARGUMENT,
                       "op %s: has no result that is always there; one that is run for its effect "
                       "gives an operand back",
                       desc->name);
    }
    ST_FAIL_IF((desc->flags & STATOR_OP_CONSTANT) != 0 && desc->operands[0] != '\0', err,
               STATOR_INVALID_ARGUMENT, "op %s: is flagged as a constant and has operands",
               desc->name);
    const uint64_t autocast =
        desc->flags & (STATOR_OP_AUTOCAST_LOW | STATOR_OP_AUTOCAST_F32 | STATOR_OP_AUTOCAST_WIDEST);
    ST_FAIL_IF((autocast & (autocast - 1u)) != 0, err, STATOR_INVALID_ARGUMENT,
               "op %s: has more than one of the flags AUTOCAST", desc->name);
    ST_FAIL_IF(desc->attr_count > ATTRS_MAX || (desc->attr_count > 0 && desc->attrs == NULL), err,
               STATOR_INVALID_ARGUMENT, "op %s: has %u attributes, at most %u", desc->name,
               desc->attr_count, ATTRS_MAX);
    for (uint32_t k = 0; k < desc->attr_count; k++) {
        const stator_attr_desc *attr = &desc->attrs[k];
        if (!is_name(attr->name) || attr->kind == STATOR_ATTR_NONE ||
            attr->kind > STATOR_ATTR_BLOB) {
            return st_fail(err, STATOR_INVALID_ARGUMENT,
                           "op %s: attribute %u has no valid name or kind", desc->name, k);
        }
    }
    return STATOR_OK;
}

/* Copies the part of the descriptor that both sides know; operand counts come from the names. */
static stator_status copy_lib_desc(const stator_oplib_op *from, st_op *op, stator_diag **err)
{
    const uint32_t size = from->desc.struct_size;
    ST_FAIL_IF(size < offsetof(stator_op_desc, flags) + sizeof(uint64_t), err,
               STATOR_INVALID_ARGUMENT,
               "op library: op descriptor of %u bytes, expected at least %u", size,
               (uint32_t)sizeof(stator_op_desc));
    op->desc = from->desc;
    op->desc.struct_size = sizeof op->desc;
    ST_TRY(check_lib_desc(&op->desc, err));
    if ((op->desc.flags & STATOR_OP_COMPOSITE) != 0 && op->desc.body == NULL &&
        from->decompose == NULL) {
        return st_fail(err, STATOR_INVALID_ARGUMENT,
                       "op %s: is flagged as a composite and has neither body nor decompose",
                       op->desc.name);
    }
    st_name_counts(op->desc.operands, &op->desc.operand_min, &op->desc.operand_max);
    if (op->desc.version == 0) {
        op->desc.version = 1;
    }
    if (op->desc.body != NULL || from->decompose != NULL) {
        op->desc.flags |= STATOR_OP_COMPOSITE;
    }
    return STATOR_OK;
}

stator_status st_optable_add(st_optable *table, const char *plugin, const void *oplib_op,
                             void *self, stator_diag **err)
{
    const stator_oplib_op *from = oplib_op;
    st_op *op = st_arena_zalloc(&table->arena, 1, sizeof *op);
    ST_TRY_MEM(op, err);
    ST_TRY(copy_lib_desc(from, op, err));
    ST_FAIL_IF(st_optable_find(table, op->desc.name) != 0, err, STATOR_ALREADY_EXISTS,
               "op library: an op named '%s' exists already; use a prefix of your own",
               op->desc.name);
    ST_FAIL_IF(from->infer == NULL, err, STATOR_INVALID_ARGUMENT, "op %s: has no infer function",
               op->desc.name);
    op->oplib_op = from;
    op->oplib_self = self;
    op->plugin = plugin;
    op->infer = st_infer_oplib;
    op->decompose = from->decompose ? st_dec_oplib : NULL;
    return publish(table, op, err);
}

stator_status st_optable_init(st_optable *table, st_mem *mem, stator_diag **err)
{
    *table = (st_optable){.mem = mem};
    st_arena_init(&table->arena, mem);
    st_seg_init(&table->ops, mem, sizeof(const st_op *));
    st_hashset_init(&table->by_name, mem);
    stator_status status = STATOR_OK;
    if (st_seg_push(&table->ops, NULL) == NULL) { /* id 0 names no op */
        status = st_fail_oom(err);
    }
    for (uint32_t i = 0; status == STATOR_OK && i < sizeof op_defs / sizeof op_defs[0]; i++) {
        status = add_def(table, &op_defs[i], err);
    }
    if (status != STATOR_OK) {
        st_optable_deinit(table);
    }
    return status;
}

void st_optable_deinit(st_optable *table)
{
    st_hashset_deinit(&table->by_name);
    st_seg_deinit(&table->ops);
    st_arena_deinit(&table->arena);
}
