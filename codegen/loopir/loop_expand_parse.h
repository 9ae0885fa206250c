/* Expansion programs as trees; the language is described in codegen/loopir/loop_expand.h.
 *
 *     program = { name "=" choice ";" } choice
 *     choice  = conj { "||" conj }          conj = equal { "&&" equal }
 *     equal   = order [ ("==" | "!=") order ]
 *     order   = sum [ ("<" | "<=" | ">" | ">=") sum ]
 *     sum     = product { ("+" | "-") product }
 *     product = unary { ("*" | "/") unary }
 *     unary   = ("-" | "!") unary | primary
 *     primary = number | name | name "(" choice { "," choice } ")" | "(" choice ")"
 *             | "{" program "}"
 *     number  = decimal | hexadecimal integer or float, as in C | "inf" | "nan" */
#ifndef STATOR_CODEGEN_LOOP_EXPAND_PARSE_H
#define STATOR_CODEGEN_LOOP_EXPAND_PARSE_H

#include "codegen/loopir/loop.h"

enum st_expr_kind {
    ST_EXPR_NUMBER = 1, /* number, and i when is_int */
    ST_EXPR_OPERAND,    /* i: 0 x, 1 y, 2 z */
    ST_EXPR_OP,         /* code, args */
    ST_EXPR_CAST,       /* code: the dtype; args[0] */
    ST_EXPR_AS_INT,     /* args[0] */
    ST_EXPR_AS_FLOAT,   /* args[0] */
    ST_EXPR_BITS,       /* args[0] */
    ST_EXPR_LOOKUP,     /* args[0]; args[1]: a NUMBER, the table */
    ST_EXPR_RARE,       /* args: condition, value where it holds, value elsewhere */
    ST_EXPR_LET,        /* args[0]: the value; next */
    ST_EXPR_USE,        /* args[0]: a LET */
    ST_EXPR_BLOCK       /* args[0]: the first LET or 0; args[1]: the result */
};

typedef struct st_expr {
    uint16_t kind;
    uint16_t is_int;
    uint32_t code;
    uint32_t args[3];
    uint32_t next;
    int64_t i;
    double number;
    const char *name; /* LET, not NUL-terminated */
    uint32_t name_len;
} st_expr;

typedef struct st_expansion {
    st_mem *mem;
    st_vec(st_expr) nodes; /* 0 is none */
    uint32_t root;         /* a BLOCK */
} st_expansion;

/* INTERNAL with the position of the first fault; the program is deinitialised by the caller
 * always. */
stator_status st_expansion_parse(st_expansion *program, st_mem *mem, const char *text,
                                 stator_diag **err);
void st_expansion_deinit(st_expansion *program);

#endif
