/* Writing decompositions in few lines: a builder with a sticky failure. After the first failure
 * every call returns 0 and does nothing; test st_kit.status once at the end. */
#ifndef STATOR_IR_OPS_KIT_H
#define STATOR_IR_OPS_KIT_H

#include "ir/infer.h"

typedef struct st_kit {
    stator_builder *b;
    stator_diag **err;
    stator_status status;
} st_kit;

/* Attributes. */
#define ST_KIT_INT(name_, value)                                                                   \
    (stator_attr)                                                                                  \
    {                                                                                              \
        .name = (name_), .kind = STATOR_ATTR_INT, .i = (value)                                     \
    }
#define ST_KIT_STR(name_, value)                                                                   \
    (stator_attr)                                                                                  \
    {                                                                                              \
        .name = (name_), .kind = STATOR_ATTR_STRING, .s = (value)                                  \
    }
#define ST_KIT_INTS(name_, list_, n)                                                               \
    (stator_attr)                                                                                  \
    {                                                                                              \
        .name = (name_), .kind = STATOR_ATTR_INTS, .count = (n), .list = (list_)                   \
    }
#define ST_KIT_DIMS(name_, list_, n)                                                               \
    (stator_attr)                                                                                  \
    {                                                                                              \
        .name = (name_), .kind = STATOR_ATTR_DIMS, .count = (n), .list = (list_)                   \
    }
#define ST_KIT_DTYPE(name_, value)                                                                 \
    (stator_attr)                                                                                  \
    {                                                                                              \
        .name = (name_), .kind = STATOR_ATTR_DTYPE, .i = (value)                                   \
    }
#define ST_KIT_FLOAT(name_, value)                                                                 \
    (stator_attr)                                                                                  \
    {                                                                                              \
        .name = (name_), .kind = STATOR_ATTR_FLOAT, .f = (value)                                   \
    }

/* Fails with a text (the first failure stays); returns 0. */
stator_ref st_kit_fail(st_kit *k, stator_status code, const char *format, ...) STATOR_PRINTF(3, 4);
/* A one-result op. */
stator_ref st_kit_op(st_kit *k, const char *op, uint32_t n, const stator_ref *operands,
                     uint32_t n_attrs, const stator_attr *attrs);
stator_ref st_kit_unary(st_kit *k, const char *op, stator_ref x);
stator_ref st_kit_binary(st_kit *k, const char *op, stator_ref x, stator_ref y);
/* A program with operands named by a comma-separated list: st_kit_expr(k, "a * b + c", "a,b,c",
 * (stator_ref[]){...}, n_attrs, attrs). Value 0: an absent operand. */
stator_ref st_kit_expr(st_kit *k, const char *program, const char *names, const stator_ref *values,
                       uint32_t n_attrs, const stator_attr *attrs);
stator_ref st_kit_reshape(st_kit *k, stator_ref x, const stator_ref *dims, uint32_t rank);
stator_ref st_kit_expand(st_kit *k, stator_ref x, const stator_ref *dims, uint32_t rank);
/* The identity permutation gives x itself. */
stator_ref st_kit_transpose(st_kit *k, stator_ref x, const int64_t *perm, uint32_t rank);
stator_ref st_kit_cast(st_kit *k, stator_ref x, stator_dtype dtype); /* x itself when it has it */
stator_ref st_kit_wide(st_kit *k, stator_ref x);                     /* narrow floats as f32 */
stator_ref st_kit_gather(st_kit *k, stator_ref x, stator_ref index, int64_t axis);
stator_ref st_kit_scalar(st_kit *k, double value, stator_dtype dtype);
/* A size as a scalar of this dtype. */
stator_ref st_kit_size_scalar(st_kit *k, stator_ref sym, stator_dtype dtype);

/* Types; of value 0 they are 0. */
stator_dtype st_kit_dtype(const st_kit *k, stator_ref x);
uint32_t st_kit_rank(const st_kit *k, stator_ref x);
stator_ref st_kit_dim(st_kit *k, stator_ref x, uint32_t axis);
void st_kit_dims(st_kit *k, stator_ref x, stator_ref out[STATOR_RANK_MAX]);

/* Sizes. A limit of the symbolic engine is UNIMPLEMENTED: the node stays as it is. */
stator_ref st_kit_size(st_kit *k, int64_t value);
stator_ref st_kit_sym(st_kit *k, uint32_t op, stator_ref a, stator_ref b);
stator_ref st_kit_sym_int(st_kit *k, uint32_t op, stator_ref a, int64_t b);
/* The size that a and b broadcast to. A formula beyond a limit becomes an unbacked symbol that the
 * running program binds. */
stator_ref st_kit_broadcast(st_kit *k, stator_ref a, stator_ref b);
int st_kit_const(const st_kit *k, stator_ref sym, int64_t *out);
int st_kit_is(const st_kit *k, stator_ref sym, int64_t value); /* the plain integer `value` */

#endif
