/* Parser of the expression language: text to tree (docs/expr.md has the grammar).
 *
 * In: a program. Out: statements in an arena. Recursive descent; nesting is bounded by
 * ST_EXPR_DEPTH_MAX and size by ST_EXPR_NODES_MAX, so that hostile text costs little. */
#include "ir/expr/expr.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ITEMS_MAX 256u /* items of a list, a call or a program */

typedef struct expr_parser {
    st_arena *arena;
    const char *text;
    const char *p;       /* behind `token` */
    st_expr_token token; /* not yet consumed */
    uint32_t depth;
    uint32_t n_nodes;
    stator_diag **err;
} expr_parser;

typedef struct node_list {
    st_expr_node *items[ITEMS_MAX];
    const char *keys[ITEMS_MAX];
    uint32_t n;
} node_list;

stator_status st_expr_fail(stator_diag **err, const char *program, uint32_t column,
                           const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const size_t len = strlen(program);
    const uint32_t from = len > 160 && column > 80 ? column - 80 : 0;
    return st_fail(err, STATOR_INVALID_ARGUMENT, "expression `%s%.160s%s`, column %u: %s",
                   from ? "..." : "", program + from, len - from > 160 ? "..." : "", column + 1u,
                   text);
}

static stator_status expected(const expr_parser *r, const char *what)
{
    if (r->token.kind == ST_TOKEN_END) {
        return st_expr_fail(r->err, r->text, r->token.column, "expected %s, the program ends here",
                            what);
    }
    return st_expr_fail(r->err, r->text, r->token.column, "expected %s, found '%.*s'", what,
                        (int)(r->token.len ? r->token.len : 1u), r->token.text);
}

static void advance(expr_parser *r)
{
    r->token = st_expr_next(r->text, &r->p);
}

static bool at(const expr_parser *r, const char *punct)
{
    return r->token.kind == ST_TOKEN_PUNCT && strlen(punct) == r->token.len &&
           memcmp(r->token.text, punct, r->token.len) == 0;
}

static bool accept(expr_parser *r, const char *punct)
{
    if (!at(r, punct)) {
        return false;
    }
    advance(r);
    return true;
}

static stator_status make_node(expr_parser *r, uint32_t kind, const node_list *kids,
                               st_expr_node **out)
{
    *out = NULL;
    if (++r->n_nodes > ST_EXPR_NODES_MAX) {
        return st_expr_fail(r->err, r->text, r->token.column, "the program has more than %u parts",
                            ST_EXPR_NODES_MAX);
    }
    st_expr_node *node = st_arena_zalloc(r->arena, 1, sizeof *node);
    const uint32_t n = kids ? kids->n : 0;
    st_expr_node **list = st_arena_zalloc(r->arena, n + 1u, sizeof *list);
    const char **keys = st_arena_zalloc(r->arena, n + 1u, sizeof *keys);
    ST_TRY_MEM(node && list && keys, r->err);
    for (uint32_t i = 0; i < n; i++) {
        list[i] = kids->items[i];
        keys[i] = kids->keys[i];
    }
    *node = (st_expr_node){
        .kind = kind, .column = r->token.column, .n_kids = n, .kids = list, .keys = keys};
    *out = node;
    return STATOR_OK;
}

static stator_status make_op(expr_parser *r, uint32_t kind, const st_expr_token *op,
                             st_expr_node *const *kids, uint32_t n, st_expr_node **out)
{
    node_list list = {.n = n};
    for (uint32_t i = 0; i < n; i++) {
        list.items[i] = kids[i];
    }
    ST_TRY(make_node(r, kind, &list, out));
    (*out)->column = op->column;
    memcpy((*out)->op, op->text, op->len < 3u ? op->len : 3u);
    return STATOR_OK;
}

static stator_status token_text(expr_parser *r, const char **out)
{
    *out = st_arena_strndup(r->arena, r->token.text, r->token.len);
    return *out ? STATOR_OK : st_fail_oom(r->err);
}

static stator_status parse_cond(expr_parser *r, st_expr_node **out);

/* Is the token a name with '=' (not '==') behind it? */
static bool at_key(const expr_parser *r)
{
    const char *p = r->p;
    const st_expr_token next = st_expr_next(r->text, &p);
    return r->token.kind == ST_TOKEN_NAME && next.kind == ST_TOKEN_PUNCT && next.len == 1 &&
           next.text[0] == '=';
}

/* Comma-separated expressions up to `close`, with key=value when keys are allowed. */
static stator_status parse_items(expr_parser *r, const char *close, bool keys, node_list *out)
{
    out->n = 0;
    while (!at(r, close)) {
        const char *key = NULL;
        ST_FAIL_BY_IF(expected, out->n == ITEMS_MAX, r, "at most 256 items");
        if (keys && at_key(r)) {
            ST_TRY(token_text(r, &key));
            advance(r);
            advance(r);
        } else if (out->n > 0 && out->keys[out->n - 1u] != NULL) {
            return expected(r, "key=value: operands stand before attributes");
        }
        ST_TRY(parse_cond(r, &out->items[out->n]));
        out->keys[out->n++] = key;
        ST_FAIL_BY_IF(expected, !at(r, close) && !accept(r, ","), r,
                      close[0] == ')' ? "',' or ')'" : "',' or ']'");
    }
    advance(r);
    return STATOR_OK;
}

static stator_status parse_name(expr_parser *r, st_expr_node **out)
{
    const uint32_t column = r->token.column;
    const char *name = NULL;
    ST_TRY(token_text(r, &name));
    advance(r);
    if (!accept(r, "(")) {
        ST_TRY(make_node(r, ST_EXPR_NAME, NULL, out));
    } else {
        node_list args;
        ST_TRY(parse_items(r, ")", true, &args));
        ST_TRY(make_node(r, ST_EXPR_CALL, &args, out));
    }
    (*out)->text = name;
    (*out)->column = column;
    return STATOR_OK;
}

static stator_status parse_literal(expr_parser *r, uint32_t kind, st_expr_node **out)
{
    ST_TRY(make_node(r, kind, NULL, out));
    (*out)->i = r->token.i;
    (*out)->f = r->token.f;
    if (kind == ST_EXPR_STRING) {
        ST_TRY(token_text(r, &(*out)->text));
    }
    advance(r);
    return STATOR_OK;
}

static stator_status parse_primary(expr_parser *r, st_expr_node **out)
{
    switch (r->token.kind) {
    case ST_TOKEN_INT:
        return parse_literal(r, ST_EXPR_INT, out);
    case ST_TOKEN_FLOAT:
        return parse_literal(r, ST_EXPR_FLOAT, out);
    case ST_TOKEN_STRING:
        return parse_literal(r, ST_EXPR_STRING, out);
    case ST_TOKEN_NAME:
        return parse_name(r, out);
    default:
        break;
    }
    if (accept(r, "(")) {
        ST_TRY(parse_cond(r, out));
        return accept(r, ")") ? STATOR_OK : expected(r, "')'");
    }
    if (at(r, "[")) {
        const uint32_t column = r->token.column;
        node_list items;
        advance(r);
        ST_TRY(parse_items(r, "]", false, &items));
        ST_TRY(make_node(r, ST_EXPR_LIST, &items, out));
        (*out)->column = column;
        return STATOR_OK;
    }
    return expected(r, "a name, a number, a string, '(' or '['");
}

/* value[i], value[a:b] behind a primary. */
static stator_status parse_postfix(expr_parser *r, st_expr_node **out)
{
    ST_TRY(parse_primary(r, out));
    while (at(r, "[")) {
        const st_expr_token open = r->token;
        st_expr_node *kids[3] = {*out, NULL, NULL};
        uint32_t kind = ST_EXPR_INDEX;
        advance(r);
        if (!at(r, ":")) {
            ST_TRY(parse_cond(r, &kids[1]));
        }
        if (accept(r, ":")) {
            kind = ST_EXPR_RANGE;
            if (!at(r, "]")) {
                ST_TRY(parse_cond(r, &kids[2]));
            }
        }
        ST_FAIL_BY_IF(expected, !accept(r, "]"), r, "']'");
        ST_TRY(make_op(r, kind, &open, kids, kind == ST_EXPR_RANGE ? 3 : 2, out));
    }
    return STATOR_OK;
}

static stator_status parse_unary(expr_parser *r, st_expr_node **out)
{
    const st_expr_token op = r->token;
    if (!at(r, "-") && !at(r, "+") && !at(r, "!")) {
        return parse_postfix(r, out);
    }
    if (++r->depth > ST_EXPR_DEPTH_MAX) {
        return expected(r, "less nesting");
    }
    st_expr_node *kid = NULL;
    advance(r);
    ST_TRY(parse_unary(r, &kid));
    r->depth--;
    return make_op(r, ST_EXPR_UNARY, &op, &kid, 1, out);
}

/* Binary operators from weakest to strongest; each level is left-associative. */
static const char *const levels[][7] = {
    {"||", NULL},     {"&&", NULL},          {"==", "!=", "<=", ">=", "<", ">", NULL},
    {"+", "-", NULL}, {"*", "/", "%", NULL},
};
#define LEVELS ((uint32_t)(sizeof levels / sizeof levels[0]))

static bool at_level(const expr_parser *r, uint32_t level)
{
    for (uint32_t i = 0; levels[level][i] != NULL; i++) {
        if (at(r, levels[level][i])) {
            return true;
        }
    }
    return false;
}

static stator_status parse_binary(expr_parser *r, uint32_t level, st_expr_node **out)
{
    if (level == LEVELS) {
        return parse_unary(r, out);
    }
    ST_TRY(parse_binary(r, level + 1u, out));
    for (uint32_t n = 0; at_level(r, level); n++) {
        const st_expr_token op = r->token;
        st_expr_node *kids[2] = {*out, NULL};
        ST_FAIL_BY_IF(expected, n == ITEMS_MAX, r, "a shorter chain of operators");
        advance(r);
        ST_TRY(parse_binary(r, level + 1u, &kids[1]));
        ST_TRY(make_op(r, ST_EXPR_BINARY, &op, kids, 2, out));
    }
    return STATOR_OK;
}

static stator_status parse_cond(expr_parser *r, st_expr_node **out)
{
    st_expr_node *kids[3] = {NULL, NULL, NULL};
    if (++r->depth > ST_EXPR_DEPTH_MAX) {
        return expected(r, "less nesting");
    }
    ST_TRY(parse_binary(r, 0, out));
    if (at(r, "?")) {
        const st_expr_token op = r->token;
        advance(r);
        kids[0] = *out;
        ST_TRY(parse_cond(r, &kids[1]));
        ST_FAIL_BY_IF(expected, !accept(r, ":"), r, "':' of the '?'");
        ST_TRY(parse_cond(r, &kids[2]));
        ST_TRY(make_op(r, ST_EXPR_COND, &op, kids, 3, out));
    }
    r->depth--;
    return STATOR_OK;
}

/* Do names and an '=' stand here? *out_n is their number. */
static bool at_assignment(const expr_parser *r, uint32_t *out_n)
{
    const char *p = r->p;
    st_expr_token token = r->token;
    for (*out_n = 1; token.kind == ST_TOKEN_NAME; ++*out_n) {
        token = st_expr_next(r->text, &p);
        if (token.kind != ST_TOKEN_PUNCT || token.len != 1) {
            return false;
        }
        if (token.text[0] == '=') {
            return true;
        }
        if (token.text[0] != ',') {
            return false;
        }
        token = st_expr_next(r->text, &p);
    }
    return false;
}

static stator_status parse_statement(expr_parser *r, st_expr_statement *out)
{
    node_list values = {.n = 0};
    *out = (st_expr_statement){.column = r->token.column};
    if (at_assignment(r, &out->n_names)) {
        out->names = st_arena_zalloc(r->arena, out->n_names, sizeof *out->names);
        ST_TRY_MEM(out->names, r->err);
        for (uint32_t i = 0; i < out->n_names; i++) {
            ST_TRY(token_text(r, &out->names[i]));
            advance(r);
            advance(r);
        }
        ST_TRY(parse_cond(r, &values.items[values.n++]));
    } else {
        out->n_names = 0;
        do {
            ST_FAIL_BY_IF(expected, values.n == ITEMS_MAX, r, "at most 256 results");
            ST_TRY(parse_cond(r, &values.items[values.n++]));
        } while (accept(r, ","));
    }
    out->n_values = values.n;
    out->values = st_arena_zalloc(r->arena, values.n, sizeof *out->values);
    ST_TRY_MEM(out->values, r->err);
    memcpy(out->values, values.items, values.n * sizeof *out->values);
    return STATOR_OK;
}

stator_status st_expr_parse(st_arena *arena, const char *text, st_expr_program *out,
                            stator_diag **err)
{
    expr_parser r = {.arena = arena, .text = text, .p = text, .err = err};
    st_expr_statement list[ITEMS_MAX];
    uint32_t n = 0;
    *out = (st_expr_program){.text = text};
    advance(&r);
    do {
        if (r.token.kind == ST_TOKEN_END && n > 0) {
            break;
        }
        ST_FAIL_BY_IF(expected, n == ITEMS_MAX, &r, "at most 256 statements");
        ST_FAIL_BY_IF(expected, n > 0 && list[n - 1u].names == NULL, &r,
                      "the end: results are the last statement");
        ST_TRY(parse_statement(&r, &list[n++]));
    } while (accept(&r, ";"));
    ST_FAIL_BY_IF(expected, r.token.kind != ST_TOKEN_END, &r, "';' or the end");
    ST_FAIL_BY_IF(expected, list[n - 1u].names != NULL, &r, "results after the last assignment");
    out->statements = st_arena_zalloc(arena, n, sizeof *out->statements);
    ST_TRY_MEM(out->statements, err);
    memcpy(out->statements, list, n * sizeof *list);
    out->n_statements = n;
    return STATOR_OK;
}
