/* What writers of a program's text share: gf_program.c and gf_noise.c. */
#ifndef STATOR_TESTS_GF_WRITE_H
#define STATOR_TESTS_GF_WRITE_H

#include "gf.h"

typedef struct gf_writer {
    char *out; /* of GF_TEXT bytes; what finds no room is dropped */
    size_t len;
} gf_writer;

__attribute__((format(printf, 2, 3))) void gf_add(gf_writer *w, const char *format, ...);
void gf_add_type(gf_writer *w, const gf_value *v);

/* ---- gf_noise.c ---- */
/* The inputs that the node's noise needs, as numbers of gf_inputs; how many. */
int gf_noise_inputs(const gf_program *p, int k, int *out);
void gf_write_noise_input(const gf_program *p, gf_writer *w, int number);
/* Node k reads %yN in place of such an operand, and makes %wN in place of such a result (N: k + 100
 * times its place). */
int gf_is_noisy_operand(const gf_program *p, int k, int place);
int gf_is_noisy_result(const gf_program *p, int k, int result);
void gf_write_noisy_operand(const gf_program *p, gf_writer *w, int k, int place);
void gf_write_noisy_result(const gf_program *p, gf_writer *w, int k, int result);

/* ---- gf_body.c ---- */
/* Regions, with noise where they say the types of their nodes. */
void gf_write_noisy_body(gf_writer *w, const char *body);

/* ---- gf_fused.c ---- */
/* Of a program under numerics=fused: may the operand come without its last rounding? */
int gf_is_unrounded(const gf_program *p, const gf_node *node, int place);
/* The operand as %N, N: its name and `at`. */
void gf_write_unrounded(const gf_program *p, gf_writer *w, int at, int value, char name);

#endif
