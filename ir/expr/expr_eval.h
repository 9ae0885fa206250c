/* Evaluation of expression programs: values, and what expr.c (statements, operators, op calls),
 * expr_value.c (conversions) and expr_helpers.c (helper functions) share. */
#ifndef STATOR_IR_EXPR_EVAL_H
#define STATOR_IR_EXPR_EVAL_H

#include "ir/expr/expr.h"

enum st_xkind {
    ST_X_NONE = 0, /* an absent attribute */
    ST_X_INT,
    ST_X_FLOAT,
    ST_X_BOOL,
    ST_X_SYM,    /* a size that is no plain integer: ref */
    ST_X_STRING, /* s */
    ST_X_DTYPE,  /* i */
    ST_X_LIST,   /* items, n */
    ST_X_TENSOR, /* ref; 0: an absent optional operand */
    ST_X_TUPLE   /* items, n: tensors */
};

typedef struct st_xvalue {
    uint32_t kind;
    stator_ref ref;
    int64_t i;
    double f;
    const char *s;
    const struct st_xvalue *items;
    uint32_t n;
} st_xvalue;

typedef struct st_xlocal {
    const char *name;
    st_xvalue value;
} st_xlocal;

typedef struct st_expr_inputs { /* as st_build_expr receives them */
    const char *program;
    uint32_t n_names;
    const char *const *names; /* a name given more than once is a tuple */
    const stator_ref *values;
    uint32_t n_attrs;
    const stator_attr *attrs;
    bool gives_none; /* a result may be `none`: 0 */
} st_expr_inputs;

typedef struct st_xeval {
    stator_builder *b;
    st_arena arena;
    const st_expr_inputs *in;
    st_xlocal locals[256];
    uint32_t n_locals;
    uint32_t depth;
    stator_diag **err;
} st_xeval;

/* Runs the program. With `fewer` the program may give more results than n_out; the first ones are
 * taken. */
stator_status st_expr_run(stator_builder *b, const st_expr_inputs *in, bool fewer, uint32_t n_out,
                          stator_ref *out, stator_diag **err);

/* Evaluates a node; `want` is how many results an op call is asked for. */
stator_status st_xeval_node(st_xeval *e, const st_expr_node *node, uint32_t want, st_xvalue *out);
/* Fails at a node. */
stator_status st_xfail(const st_xeval *e, const st_expr_node *node, const char *format, ...)
    STATOR_PRINTF(3, 4);
#define ST_XFAIL_IF(condition, ...) ST_FAIL_BY_IF(st_xfail, condition, __VA_ARGS__)
const char *st_xkind_name(const st_xvalue *v);

/* ---- values (expr_value.c) ---- */

static inline st_xvalue st_xint(int64_t i)
{
    return (st_xvalue){.kind = ST_X_INT, .i = i};
}
static inline st_xvalue st_xfloat(double f)
{
    return (st_xvalue){.kind = ST_X_FLOAT, .f = f};
}
static inline st_xvalue st_xbool(int b)
{
    return (st_xvalue){.kind = ST_X_BOOL, .i = b != 0};
}
static inline st_xvalue st_xtensor(stator_ref ref)
{
    return (st_xvalue){.kind = ST_X_TENSOR, .ref = ref};
}
bool st_xis_number(const st_xvalue *v);  /* INT, FLOAT, BOOL or SYM */
bool st_xis_size(const st_xvalue *v);    /* INT or SYM */
double st_xto_float(const st_xvalue *v); /* INT, BOOL or FLOAT as a double */
/* INT when the sym is a plain integer, else SYM. */
st_xvalue st_xsize(const st_xeval *e, stator_ref sym);
stator_ref st_xsym(st_xeval *e, const st_xvalue *size); /* 0: out of memory */
const stator_type_row *st_xtype(const st_xeval *e, stator_ref value);
/* Room for n items; NULL: out of memory. */
st_xvalue *st_xitems(st_xeval *e, uint32_t n);
/* A value as a tensor: numbers become constants of `dtype` (sizes without one: i64), lists of sizes
 * i64 tensors. An absent operand is refused unless `optional`. */
stator_status st_xto_tensor(st_xeval *e, const st_expr_node *at, const st_xvalue *v,
                            stator_dtype dtype, bool optional, stator_ref *out);
stator_status st_xcast(st_xeval *e, stator_ref x, stator_dtype dtype, stator_ref *out);
stator_status st_xto_attr(st_xeval *e, const st_expr_node *at, const st_xvalue *v,
                          const stator_attr_desc *schema, stator_attr *out);
st_xvalue st_xfrom_attr(st_xeval *e, const stator_attr *attr);
/* Arithmetic on numbers and sizes; op is the operator's text. */
stator_status st_xarith(st_xeval *e, const st_expr_node *at, const char *op, const st_xvalue *a,
                        const st_xvalue *b, st_xvalue *out);
stator_status st_xcompare(st_xeval *e, const st_expr_node *at, const char *op, const st_xvalue *a,
                          const st_xvalue *b, st_xvalue *out);

/* ---- op calls and helpers ---- */

/* Calls the op named by node->text on evaluated arguments (keys in node->keys). */
stator_status st_xcall_op(st_xeval *e, const st_expr_node *node, const st_xvalue *args,
                          uint32_t want, st_xvalue *out);
/* A one-result op on tensors. */
stator_status st_xop(st_xeval *e, const char *op, uint32_t n, const stator_ref *operands,
                     uint32_t n_attrs, const stator_attr *attrs, stator_ref *out);
/* Is this the name of a helper function? Then calls it (NOT_FOUND otherwise, with no text). */
stator_status st_xcall_helper(st_xeval *e, const st_expr_node *node, const st_xvalue *args,
                              st_xvalue *out);
bool st_xis_helper(const char *name);
/* Words for docs and did-you-mean: helper names, NULL past the end. */
const char *st_xhelper_name(uint32_t i);

#endif
