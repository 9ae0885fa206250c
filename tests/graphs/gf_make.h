/* What makers of nodes share; gf_ops.c and gf_composite.c hold the makers. Each picks operands that
 * fit, makes inputs where none does, and gives 0 when nothing fitted. */
#ifndef STATOR_TESTS_GF_MAKE_H
#define STATOR_TESTS_GF_MAKE_H

#include "gf.h"

typedef int (*gf_maker)(gf_program *p);

/* ---- gf_pick.c ---- */
int gf_is_float(uint8_t d);
int gf_is_int(uint8_t d);
int gf_is_number(uint8_t d);
int gf_is_bool(uint8_t d);
int gf_is_any(uint8_t d);
/* A value of such a dtype and of at least this rank, newer ones more often; -1: none. What is
 * wanted next (gf_program's `next`) is taken whatever its dtype. */
int gf_pick(gf_program *p, int (*fits)(uint8_t), int rank);
int gf_pick_axis(gf_program *p, const gf_value *v);
/* Of the newest node. */
__attribute__((format(printf, 2, 3))) void gf_attrs(gf_program *p, const char *format, ...);
void gf_set_noise(gf_program *p, int noise, int64_t folded);
/* "[a, b]" of sizes, of numbers. */
const char *gf_list(const gf_dim *dims, int n, char out[GF_ATTRS]);
const char *gf_ints(const int64_t *list, int n, char out[GF_ATTRS]);
/* A copy of a value's type: the array may move while nodes are added. */
gf_value gf_type_of(const gf_program *p, int v);
/* A partner of the same dtype that broadcasts with v: a value there is, a scalar, or an input that
 * lacks some of v's axes. */
int gf_partner(gf_program *p, int v);
/* The rank of what the values broadcast to; its sizes to dims. */
int gf_broadcast(const gf_program *p, const int *args, int n, gf_dim *dims);

/* ---- gf_ops.c ---- */
int gf_make_unary(gf_program *p);
int gf_make_binary(gf_program *p);
int gf_make_dot(gf_program *p);
int gf_make_conv(gf_program *p);
int gf_make_reshape(gf_program *p);
int gf_make_transpose(gf_program *p);
int gf_make_slice(gf_program *p);

/* ---- gf_composite.c ---- */
extern const gf_maker gf_composites[];
extern const int64_t gf_composite_count;
int gf_make_max_pool(gf_program *p);
int gf_make_pool(gf_program *p);
int gf_make_conv_transpose(gf_program *p);
int gf_make_einsum(gf_program *p);
/* v, cut to +-1e9 where it may be larger: squares of f32 overflow where wider ones do not. */
int gf_modest_of(gf_program *p, int v);
/* v with 0 in place of NaN and inf. */
int gf_finite_of(gf_program *p, int v);

/* ---- gf_quant.c ---- */
/* Weights of a contraction: an input, a constant, or bytes behind a scale. */
int gf_weights(gf_program *p, uint8_t dtype, int rank, const gf_dim *dims);
int gf_make_quantised(gf_program *p);
int gf_make_dynamic(gf_program *p);

/* ---- gf_control.c: cond, call, while, scan ---- */
int gf_make_control(gf_program *p);

/* ---- gf_layers.c ---- */
int gf_make_recurrent(gf_program *p);
int gf_make_heads(gf_program *p);
int gf_make_spelled(gf_program *p);

#endif
