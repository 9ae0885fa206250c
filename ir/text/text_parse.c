/* Parses the text form (docs/stir.md) into a builder.
 *
 * In: any bytes. Out: the graph, built through the same functions that frontends use, or one error
 * with line and column. Recursion is bounded by REGIONS_MAX, memory by the length of the text:
 * everything temporary lies in one arena that grows with what was read. */
#include "core/base/check.h"
#include "ir/builder.h"
#include "ir/rebuild.h"
#include "ir/text/text.h"
#include "ir/text/text_data.h"
#include "ir/text/text_literal.h"
#include "ir/text/text_sym.h"

#include <stdio.h>
#include <string.h>

#define REGIONS_MAX 64u /* regions inside regions */
#define TEXT_VERSION 1u
#define NOT_WRITTEN UINT32_MAX /* a witness that is not written */

/* A list in the arena that grows by doubling. */
typedef struct list {
    void *data;
    uint32_t count, capacity;
} list;

typedef struct parser {
    st_lexer lex;
    st_module *m;
    st_arena arena;
    st_rebuild rebuild;
    st_text_files files;
    st_vec(stator_blob *) blobs; /* references held until the end */
    uint32_t depth;
} parser;

/* One graph while it is read. */
typedef struct scope {
    stator_builder *b;
    st_map labels; /* see label_key -> value */
    bool is_root;
} scope;

typedef struct result {
    uint64_t key;
    uint64_t offset;  /* position of its label */
    const char *name; /* NULL when it has none */
} result;

typedef struct node {
    uint32_t op;
    uint64_t offset; /* position of the op's name, for messages */
    list results, operands, attrs, types, witnesses, regions;
    uint32_t origin;
} node;

static stator_status parse_graph(parser *p, scope *s);

/* ---- small things ---- */

/* Room for one more element of `size` bytes; NULL when out of memory. */
static void *list_push(parser *p, list *l, uint64_t size)
{
    if (l->count == l->capacity) {
        const uint32_t capacity = l->capacity ? l->capacity * 2u : 4u;
        void *data = capacity > l->capacity ? st_arena_zalloc(&p->arena, capacity, size) : NULL;
        if (data == NULL) {
            return NULL;
        }
        if (l->count) {
            memcpy(data, l->data, l->count * size);
        }
        l->data = data;
        l->capacity = capacity;
    }
    return (char *)l->data + (uint64_t)l->count++ * size;
}

static stator_status push_ref(parser *p, list *l, uint32_t ref)
{
    uint32_t *slot = list_push(p, l, sizeof *slot);
    ST_TRY_MEM(slot, p->lex.err);
    *slot = ref;
    return STATOR_OK;
}

static stator_status next(parser *p)
{
    return st_lex_next(&p->lex);
}

static stator_status expect(parser *p, char punct)
{
    return st_lex_expect(&p->lex, punct);
}

static stator_status accept(parser *p, char punct, bool *out_found)
{
    return st_lex_accept(&p->lex, punct, out_found);
}

/* A builder's failure gets the place of the statement. */
static stator_status at_place(parser *p, uint64_t offset, stator_status status)
{
    uint32_t line, column;
    if (status != STATOR_OK && p->lex.err != NULL && *p->lex.err != NULL) {
        st_lex_place(&p->lex, offset, &line, &column);
        st_diag_prefix(*p->lex.err, "%s:%u:%u", p->lex.file_name, line, column);
    }
    return status;
}

/* The string (or identifier, when is_name) at the current token, in the arena. */
static stator_status parse_string(parser *p, const char *what, bool is_name, const char **out)
{
    st_str text;
    st_str_init(&text, p->m->mem);
    stator_status status = st_lex_string(&p->lex, what, is_name, &text);
    if (status == STATOR_OK) {
        *out = st_arena_strndup(&p->arena, text.data ? text.data : "", text.len);
        status = *out ? STATOR_OK : st_fail_oom(p->lex.err);
    }
    st_str_deinit(&text);
    return status;
}

/* ---- labels ---- */

/* Numbers are their own keys, identifiers are interned as strings. 0: out of memory. */
static uint64_t label_key(parser *p, const st_token *token)
{
    uint64_t number = 0;
    bool is_number = token->len <= 9;
    for (uint64_t i = 0; i < token->len && is_number; i++) {
        is_number = token->text[i] >= '0' && token->text[i] <= '9';
        number = number * 10u + (uint64_t)(token->text[i] - '0');
    }
    if (is_number) {
        return number + 1u;
    }
    const uint32_t name = st_module_string(p->m, token->text, token->len);
    return name ? (UINT64_C(1) << 63) | name : 0;
}

/* VALUE [STRING]: a definition. */
static stator_status parse_definition(parser *p, result *out)
{
    const st_token label = p->lex.token;
    ST_FAIL_BY_IF(st_lex_expected, label.kind != ST_TEXT_VALUE, &p->lex,
                  "a value such as %1 or %x");
    *out = (result){.key = label_key(p, &label), .offset = label.offset};
    ST_TRY_MEM(out->key, p->lex.err);
    if (out->key >> 63) {
        out->name = st_module_str(p->m, (uint32_t)out->key);
    }
    ST_TRY(next(p));
    return p->lex.token.kind == ST_TEXT_STRING ? parse_string(p, "a name", false, &out->name)
                                               : STATOR_OK;
}

static stator_status define(parser *p, scope *s, const result *r, stator_ref value)
{
    ST_LEX_FAIL_AT_IF(st_map_get(&s->labels, r->key) != 0, &p->lex, r->offset,
                      "this value is defined twice");
    return st_map_put(&s->labels, r->key, value) ? STATOR_OK : st_fail_oom(p->lex.err);
}

/* VALUE: a use. */
static stator_status parse_use(parser *p, const scope *s, stator_ref *out)
{
    const st_token *label = &p->lex.token;
    ST_FAIL_BY_IF(st_lex_expected, label->kind != ST_TEXT_VALUE, &p->lex,
                  "a value such as %1 or %x");
    const uint64_t key = label_key(p, label);
    *out = st_map_get(&s->labels, key);
    if (*out == 0) {
        return key == 0 ? st_fail_oom(p->lex.err)
                        : st_lex_fail(&p->lex, "no value of this graph is called %%%.*s here%s",
                                      label->len < 60 ? (int)label->len : 60, label->text,
                                      s->is_root ? "" : "; a region sees its own inputs only");
    }
    return next(p);
}

static stator_status parse_witness(parser *p, uint32_t *out)
{
    bool found;
    uint64_t number = 0;
    *out = NOT_WRITTEN;
    ST_TRY(accept(p, '^', &found));
    if (found) {
        ST_TRY(st_lex_u64(&p->lex, "a value number", UINT32_MAX - 1u, &number));
        *out = (uint32_t)number;
    }
    return STATOR_OK;
}

static void set_witness(const scope *s, stator_ref value, uint32_t written)
{
    st_build_set_witness(s->b, value, written != NOT_WRITTEN ? written : s->is_root ? value : 0);
}

/* ---- inputs ---- */

static stator_status hold_blob(parser *p, stator_blob *blob)
{
    stator_blob **slot = st_vec_push(p->m->mem, &p->blobs);
    if (slot == NULL) {
        st_blob_release(blob);
        return st_fail_oom(p->lex.err);
    }
    *slot = blob;
    return STATOR_OK;
}

static stator_status parse_data(parser *p, stator_ref type, stator_blob **out)
{
    ST_TRY(st_text_parse_data(&p->lex, p->m, &p->files, type, out));
    return hold_blob(p, *out);
}

static stator_status parse_input(parser *p, scope *s)
{
    bool is_param;
    result r;
    uint32_t type = 0, witness = 0;
    stator_ref value = 0;
    stator_blob *blob = NULL;
    ST_TRY(st_lex_accept_word(&p->lex, "param", &is_param));
    ST_TRY(parse_definition(p, &r));
    ST_TRY(expect(p, ':'));
    ST_TRY(st_text_parse_type(&p->lex, p->m, &type));
    ST_TRY(parse_witness(p, &witness));
    if (is_param) {
        ST_TRY(expect(p, '='));
        ST_TRY(parse_data(p, type, &blob));
    }
    const stator_status status = is_param
                                     ? st_build_param(s->b, r.name, type, blob, &value, p->lex.err)
                                     : st_build_input(s->b, r.name, type, &value, p->lex.err);
    ST_TRY(at_place(p, r.offset, status));
    set_witness(s, value, witness);
    return define(p, s, &r, value);
}

static stator_status parse_inputs(parser *p, scope *s)
{
    ST_TRY(expect(p, '('));
    for (bool is_first = true; !st_lex_is(&p->lex, ')'); is_first = false) {
        if (!is_first) {
            ST_TRY(expect(p, ','));
        }
        ST_TRY(parse_input(p, s));
    }
    return next(p);
}

/* ---- attributes ---- */

static stator_status parse_list_item(parser *p, uint32_t kind, list *l)
{
    const uint64_t size = kind == STATOR_ATTR_DIMS ? sizeof(uint32_t) : sizeof(int64_t);
    void *slot = list_push(p, l, size);
    ST_TRY_MEM(slot, p->lex.err);
    if (kind == STATOR_ATTR_INTS) {
        return st_lex_i64(&p->lex, "an integer", slot);
    }
    if (kind == STATOR_ATTR_FLOATS) {
        return st_literal_parse_f64(&p->lex, slot);
    }
    return st_text_parse_sym(&p->lex, p->m, slot);
}

static stator_status parse_list(parser *p, stator_attr *attr)
{
    list l = {0};
    ST_TRY(expect(p, '['));
    for (bool is_first = true; !st_lex_is(&p->lex, ']'); is_first = false) {
        if (!is_first) {
            ST_TRY(expect(p, ','));
        }
        ST_TRY(parse_list_item(p, attr->kind, &l));
    }
    attr->list = l.data;
    attr->count = l.count;
    return next(p);
}

static stator_status parse_attr_value(parser *p, stator_attr *attr)
{
    uint32_t type = 0;
    switch (attr->kind) {
    case STATOR_ATTR_INT:
        return st_lex_i64(&p->lex, "an integer", &attr->i);
    case STATOR_ATTR_FLOAT:
        return st_literal_parse_f64(&p->lex, &attr->f);
    case STATOR_ATTR_STRING:
        return parse_string(p, "a string in quotes", false, &attr->s);
    case STATOR_ATTR_DTYPE:
        attr->i = p->lex.token.kind == ST_TEXT_IDENT
                      ? st_dtype_parse(p->lex.token.text, p->lex.token.len)
                      : 0;
        return attr->i ? next(p) : st_lex_expected(&p->lex, "a dtype such as f32");
    case STATOR_ATTR_BLOB:
        ST_TRY(st_text_parse_type(&p->lex, p->m, &type));
        attr->i = type;
        return parse_data(p, type, &attr->blob);
    default:
        return parse_list(p, attr);
    }
}

/* Fails for a name that is none of `names`, with the nearest one as a hint. */
static stator_status fail_unknown(parser *p, uint64_t offset, const char *what, const char *name,
                                  const char *const *names, uint32_t n)
{
    const char *near = st_nearest(name, names, n);
    const stator_status status = st_lex_fail_at(&p->lex, offset, "%s named '%s'", what, name);
    if (near != NULL && p->lex.err != NULL && *p->lex.err != NULL) {
        st_diag_set_hint(*p->lex.err, "did you mean '%s'?", near);
    }
    return status;
}

static stator_status fail_unknown_attr(parser *p, const st_op *op, uint64_t offset,
                                       const char *name)
{
    const char *names[ST_ATTRS_MAX];
    char what[96];
    uint32_t n = 0;
    for (; n < op->desc.attr_count && n < ST_ATTRS_MAX; n++) {
        names[n] = op->desc.attrs[n].name;
    }
    (void)snprintf(what, sizeof what, "%s has no attribute", op->desc.name);
    return fail_unknown(p, offset, what, name, names, n);
}

static stator_status parse_attr(parser *p, node *n)
{
    const st_op *op = st_optable_at(p->m->ops, n->op);
    const uint64_t offset = p->lex.token.offset;
    const char *name = NULL;
    ST_TRY(parse_string(p, "the name of an attribute", true, &name));
    const stator_attr_desc *schema = NULL;
    for (uint32_t k = 0; k < op->desc.attr_count; k++) {
        schema = strcmp(op->desc.attrs[k].name, name) == 0 ? &op->desc.attrs[k] : schema;
    }
    if (schema == NULL) {
        return fail_unknown_attr(p, op, offset, name);
    }
    stator_attr *attrs = n->attrs.data;
    for (uint32_t k = 0; k < n->attrs.count; k++) {
        ST_LEX_FAIL_AT_IF(strcmp(attrs[k].name, name) == 0, &p->lex, offset,
                          "the attribute '%s' is given twice", name);
    }
    stator_attr *attr = list_push(p, &n->attrs, sizeof *attr);
    ST_TRY_MEM(attr, p->lex.err);
    *attr = (stator_attr){.name = schema->name, .kind = schema->kind};
    ST_TRY(expect(p, '='));
    return parse_attr_value(p, attr);
}

static stator_status parse_attrs(parser *p, node *n)
{
    bool found;
    ST_TRY(accept(p, '{', &found));
    if (!found) {
        return STATOR_OK;
    }
    for (bool is_first = true; !st_lex_is(&p->lex, '}'); is_first = false) {
        if (!is_first) {
            ST_TRY(expect(p, ','));
        }
        ST_TRY(parse_attr(p, n));
    }
    return next(p);
}

/* ---- nodes ---- */

static stator_status fail_unknown_op(parser *p, uint64_t offset, const char *name)
{
    const uint32_t n = st_optable_count(p->m->ops);
    const char **names = st_arena_zalloc(&p->arena, n + 1u, sizeof *names);
    for (uint32_t k = 0; names != NULL && k < n; k++) {
        names[k] = st_optable_at(p->m->ops, k + 1u)->desc.name;
    }
    return fail_unknown(p, offset, "there is no op", name, names, names ? n : 0);
}

static stator_status parse_op(parser *p, node *n)
{
    const char *name = NULL;
    bool found;
    uint64_t version = 1;
    n->offset = p->lex.token.offset;
    ST_TRY(parse_string(p, "an op, 'write' or 'return'", true, &name));
    n->op = st_optable_find(p->m->ops, name);
    if (n->op == 0) {
        return fail_unknown_op(p, n->offset, name);
    }
    ST_TRY(accept(p, '@', &found));
    if (found) {
        ST_TRY(st_lex_u64(&p->lex, "the version of the op", UINT32_MAX, &version));
    }
    const uint32_t known = st_optable_at(p->m->ops, n->op)->desc.version;
    return version == known ? STATOR_OK
                            : st_lex_fail_at(&p->lex, n->offset,
                                             "op %s is written in version %u, here it has %u", name,
                                             (uint32_t)version, known);
}

static stator_status parse_results(parser *p, node *n)
{
    if (p->lex.token.kind != ST_TEXT_VALUE) {
        return STATOR_OK;
    }
    for (bool more = true; more;) {
        result *r = list_push(p, &n->results, sizeof *r);
        ST_TRY_MEM(r, p->lex.err);
        ST_LEX_FAIL_IF(n->results.count > ST_RESULTS_MAX, &p->lex, "a node has at most %u results",
                       ST_RESULTS_MAX);
        ST_TRY(parse_definition(p, r));
        ST_TRY(accept(p, ',', &more));
    }
    return expect(p, '=');
}

static stator_status parse_operands(parser *p, const scope *s, node *n)
{
    bool found;
    ST_TRY(accept(p, '(', &found));
    if (!found) {
        return STATOR_OK;
    }
    for (bool is_first = true; !st_lex_is(&p->lex, ')'); is_first = false) {
        stator_ref value = 0;
        bool is_absent;
        if (!is_first) {
            ST_TRY(expect(p, ','));
        }
        ST_TRY(st_lex_accept_word(&p->lex, "_", &is_absent));
        if (!is_absent) {
            ST_TRY(parse_use(p, s, &value));
        }
        ST_TRY(push_ref(p, &n->operands, value));
    }
    return next(p);
}

/* ":" and types, one a result; none at all leaves them to inference. */
static stator_status parse_types(parser *p, node *n)
{
    bool found;
    ST_TRY(accept(p, ':', &found));
    for (uint32_t k = 0; k < n->results.count; k++) {
        uint32_t type = 0, witness = NOT_WRITTEN;
        if (found && k > 0) {
            ST_TRY(expect(p, ','));
        }
        if (found) {
            ST_TRY(st_text_parse_type(&p->lex, p->m, &type));
            ST_TRY(parse_witness(p, &witness));
        }
        ST_TRY(push_ref(p, &n->types, type));
        ST_TRY(push_ref(p, &n->witnesses, witness));
    }
    return STATOR_OK;
}

/* @ STRING [":" name] ["in" STRING [":" INT]], as a row that the caller links. */
static stator_status parse_origin(parser *p, uint32_t *out)
{
    const char *name = NULL, *kind = "", *file = "";
    uint64_t line = 0;
    bool found;
    ST_TRY(parse_string(p, "the name of a node in quotes", false, &name));
    ST_TRY(accept(p, ':', &found));
    if (found) {
        ST_TRY(parse_string(p, "the kind of a node", true, &kind));
    }
    ST_TRY(st_lex_accept_word(&p->lex, "in", &found));
    if (found) {
        ST_TRY(parse_string(p, "the name of a file in quotes", false, &file));
        ST_TRY(accept(p, ':', &found));
        if (found) {
            ST_TRY(st_lex_u64(&p->lex, "a line number", UINT32_MAX, &line));
        }
    }
    *out = st_module_origin(p->m, name, kind, file, (uint32_t)line);
    return STATOR_OK;
}

static stator_status parse_origins(parser *p, node *n)
{
    for (;;) {
        bool found;
        uint32_t origin = 0;
        ST_TRY(accept(p, '@', &found));
        if (!found) {
            return STATOR_OK;
        }
        ST_TRY(parse_origin(p, &origin));
        n->origin = st_module_origin_merge(p->m, n->origin, origin);
    }
}

static stator_status parse_region(parser *p, scope *s, stator_graph **out)
{
    scope inner = {0};
    ST_LEX_FAIL_IF(p->depth == REGIONS_MAX, &p->lex, "regions are nested deeper than %u",
                   REGIONS_MAX);
    const uint32_t mark = st_rebuild_enter(&p->rebuild);
    const uint64_t offset = p->lex.token.offset;
    ST_TRY(st_build_region_begin(s->b, NULL, &inner.b, p->lex.err));
    p->depth++;
    const stator_status status = parse_graph(p, &inner);
    p->depth--;
    st_rebuild_leave(&p->rebuild, mark);
    if (status != STATOR_OK) {
        st_build_region_abort(inner.b);
        return status;
    }
    return at_place(p, offset, st_build_region_end(inner.b, out, p->lex.err));
}

static stator_status parse_regions(parser *p, scope *s, node *n)
{
    for (;;) {
        bool found;
        ST_TRY(st_lex_accept_word(&p->lex, "region", &found));
        if (!found) {
            return STATOR_OK;
        }
        stator_graph *graph = NULL;
        ST_TRY(parse_region(p, s, &graph));
        stator_graph **slot = list_push(p, &n->regions, sizeof(stator_graph *));
        ST_TRY_MEM(slot, p->lex.err);
        *slot = graph;
    }
}

static stator_status build_node(parser *p, scope *s, const node *n)
{
    const stator_node_desc desc = {.struct_size = sizeof desc,
                                   .op = n->op,
                                   .operands = n->operands.data,
                                   .operand_count = n->operands.count,
                                   .attrs = n->attrs.data,
                                   .attr_count = n->attrs.count,
                                   .regions = n->regions.data,
                                   .region_count = n->regions.count,
                                   .result_count = n->results.count};
    const result *results = n->results.data;
    const uint32_t *witnesses = n->witnesses.data;
    stator_ref values[ST_RESULTS_MAX] = {0};
    st_build_set_origin_ref(s->b, n->origin);
    ST_TRY(at_place(p, n->offset,
                    st_rebuild_node(&p->rebuild, s->b, &desc, n->types.data, values, p->lex.err)));
    for (uint32_t k = 0; k < n->results.count; k++) {
        if (results[k].name != NULL) {
            st_build_set_name(s->b, values[k], results[k].name);
        }
        set_witness(s, values[k], witnesses[k]);
        ST_TRY(define(p, s, &results[k], values[k]));
    }
    return STATOR_OK;
}

static stator_status parse_node(parser *p, scope *s)
{
    node n = {0};
    ST_TRY(parse_results(p, &n));
    ST_TRY(parse_op(p, &n));
    ST_TRY(parse_operands(p, s, &n));
    ST_TRY(parse_attrs(p, &n));
    ST_TRY(parse_types(p, &n));
    ST_TRY(parse_origins(p, &n));
    ST_TRY(parse_regions(p, s, &n));
    return build_node(p, s, &n);
}

/* ---- graphs ---- */

static stator_status parse_write(parser *p, scope *s)
{
    const uint64_t offset = p->lex.token.offset;
    stator_ref input = 0, value = 0;
    ST_TRY(parse_use(p, s, &input));
    ST_TRY(expect(p, '='));
    ST_TRY(parse_use(p, s, &value));
    return at_place(p, offset, st_build_write_back(s->b, input, value, p->lex.err));
}

static stator_status parse_output(parser *p, scope *s)
{
    const uint64_t offset = p->lex.token.offset;
    const char *name = NULL;
    stator_ref value = 0;
    if (p->lex.token.kind != ST_TEXT_VALUE) {
        ST_TRY(parse_string(p, "an output: %value or name: %value", true, &name));
        ST_TRY(expect(p, ':'));
    }
    ST_TRY(parse_use(p, s, &value));
    return at_place(p, offset, st_build_output(s->b, name, value, p->lex.err));
}

static stator_status parse_outputs(parser *p, scope *s)
{
    for (bool is_first = true; !st_lex_is(&p->lex, '}'); is_first = false) {
        if (!is_first) {
            ST_TRY(expect(p, ','));
        }
        ST_TRY(parse_output(p, s));
    }
    return next(p);
}

static stator_status parse_statements(parser *p, scope *s)
{
    ST_TRY(expect(p, '{'));
    for (;;) {
        bool is_write, is_return;
        ST_TRY(st_lex_accept_word(&p->lex, "return", &is_return));
        if (is_return) {
            return parse_outputs(p, s);
        }
        ST_TRY(st_lex_accept_word(&p->lex, "write", &is_write));
        ST_TRY(is_write ? parse_write(p, s) : parse_node(p, s));
    }
}

static stator_status parse_graph(parser *p, scope *s)
{
    bool found;
    const char *name = "";
    ST_TRY(accept(p, '@', &found));
    if (found) {
        ST_TRY(parse_string(p, "the name of the graph", true, &name));
    }
    s->b->graph->name = st_module_string(p->m, name, strlen(name));
    st_map_init(&s->labels, p->m->mem);
    stator_status status = parse_inputs(p, s);
    ST_THEN(status, parse_statements(p, s));
    st_map_deinit(&s->labels);
    return status;
}

static stator_status parse_file(parser *p, stator_builder *b)
{
    scope root = {.b = b, .is_root = true};
    uint64_t version = 0;
    ST_TRY(next(p));
    ST_TRY(st_lex_expect_word(&p->lex, "stir"));
    const st_lexer at = p->lex;
    ST_TRY(st_lex_u64(&p->lex, "the version of the form", UINT32_MAX, &version));
    ST_LEX_FAIL_IF(version == 0 || version > TEXT_VERSION, &at,
                   "this text is of version %u, this program reads version %u", (uint32_t)version,
                   TEXT_VERSION);
    for (;;) {
        bool found;
        ST_TRY(st_lex_accept_word(&p->lex, "sym", &found));
        if (!found) {
            break;
        }
        ST_TRY(st_text_parse_symbol(&p->lex, p->m));
    }
    ST_TRY(st_lex_expect_word(&p->lex, "graph"));
    b->graph->has_witnesses = 1;
    ST_TRY(parse_graph(p, &root));
    return p->lex.token.kind == ST_TEXT_END ? STATOR_OK
                                            : st_lex_expected(&p->lex, "the end of the text");
}

stator_status st_parse_text(stator_builder *b, const char *text, uint64_t len,
                            const char *file_name, const char *dir, stator_diag **err)
{
    const st_c_locale locale = st_c_locale_enter();
    stator_diag *own = NULL; /* messages are completed on the way out, so there is always one */
    parser p = {.m = b->module, .files = {.mem = b->module->mem, .dir = dir}};
    st_lexer_init(&p.lex, text, len, file_name);
    p.lex.err = err != NULL && *err == NULL ? err : &own;
    st_arena_init(&p.arena, p.m->mem);
    st_rebuild_init(&p.rebuild, p.m);
    const stator_status status = parse_file(&p, b);
    for (uint32_t i = 0; i < p.blobs.count; i++) {
        st_blob_release(p.blobs.data[i]);
    }
    st_vec_free(p.m->mem, &p.blobs);
    st_text_files_deinit(&p.files);
    st_rebuild_deinit(&p.rebuild);
    st_arena_deinit(&p.arena);
    st_diag_release(own);
    st_c_locale_leave(locale);
    return status;
}
