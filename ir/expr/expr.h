/* The expression language of op bodies and importer maps (docs/expr.md): text, tokens, tree,
 * evaluation. A program is parsed into a tree in an arena and evaluated against a builder; both
 * recursions are bounded. st_build_expr (graph.h) is the entry; what is here is shared by the
 * three source files expr_lex.c, expr_parse.c, expr.c and by decompose.c. */
#ifndef STATOR_IR_EXPR_H
#define STATOR_IR_EXPR_H

#include "ir/graph.h"

/* ---- tokens ---- */

enum st_expr_token_kind {
    ST_TOKEN_END = 0,
    ST_TOKEN_NAME,
    ST_TOKEN_INT,
    ST_TOKEN_FLOAT,
    ST_TOKEN_STRING, /* text without its quotes */
    ST_TOKEN_PUNCT,  /* text of one or two characters */
    ST_TOKEN_BAD
};

typedef struct st_expr_token {
    uint32_t kind;
    uint32_t column; /* offset in the program */
    const char *text;
    uint32_t len;
    int64_t i;
    double f;
} st_expr_token;

/* The token at *p, which moves behind it. */
st_expr_token st_expr_next(const char *program, const char **p);
/* A decimal number, independent of the locale: [+-]digits[.digits][e[+-]digits] or inf, nan. 1 and
 * *out_end behind it, or 0. */
bool st_parse_number(const char *s, double *out, const char **out_end);

/* ---- tree ---- */

enum st_expr_kind {
    ST_EXPR_INT = 1,
    ST_EXPR_FLOAT,
    ST_EXPR_STRING,
    ST_EXPR_NAME,
    ST_EXPR_LIST,   /* kids */
    ST_EXPR_UNARY,  /* op, kids[0] */
    ST_EXPR_BINARY, /* op, kids[0], kids[1] */
    ST_EXPR_COND,   /* kids[0] ? kids[1] : kids[2] */
    ST_EXPR_CALL,   /* text(kids..., key=value...); keys[k] NULL for a positional argument */
    ST_EXPR_INDEX,  /* kids[0][kids[1]] */
    ST_EXPR_RANGE   /* kids[0][kids[1]:kids[2]], either bound may be NULL */
};

typedef struct st_expr_node {
    uint32_t kind;
    uint32_t column;
    char op[4]; /* operator text */
    uint32_t n_kids;
    struct st_expr_node **kids;
    const char **keys; /* keys of a CALL, one a kid */
    const char *text;  /* name or string */
    int64_t i;
    double f;
} st_expr_node;

typedef struct st_expr_statement {
    const char **names; /* assigned names; NULL for the closing statement */
    uint32_t n_names;
    uint32_t column;
    st_expr_node **values; /* one when names are assigned, results otherwise */
    uint32_t n_values;
} st_expr_statement;

typedef struct st_expr_program {
    const char *text;
    st_expr_statement *statements; /* the last one holds the results */
    uint32_t n_statements;
} st_expr_program;

#define ST_EXPR_DEPTH_MAX 64u
#define ST_EXPR_NODES_MAX 4096u

/* Parses a program; everything lies in the arena. INVALID_ARGUMENT names program and column. */
stator_status st_expr_parse(st_arena *arena, const char *text, st_expr_program *out,
                            stator_diag **err);
/* Fails with "expression `...`, column 12: <text>". */
stator_status st_expr_fail(stator_diag **err, const char *program, uint32_t column,
                           const char *format, ...) STATOR_PRINTF(4, 5);

#endif
