/* Random graphs, run on several backends and compared: a program as data, its text, its judge.
 *
 * A program is a list of nodes over values whose sizes are linear in two symbols A and B. It is
 * written as text (docs/stir.md), run on `eager` and on the backend under test, and where
 * the results differ eager runs it again with rounding noise put in wherever a float may be rounded
 * otherwise: a difference that such noise makes as well is no mismatch. So no tolerance is guessed,
 * and comparisons, roundings and sorts of inexact values need no exception. */
#ifndef STATOR_TESTS_GF_H
#define STATOR_TESTS_GF_H

#include <stator/stator.h>
#include <stdint.h>

#define GF_GROWN_VALUES 160 /* of a program from a seed, without gradients */
#define GF_GROWN_NODES 96
#define GF_GROWN_OUTPUTS 6
#define GF_VALUES 1024 /* of any program */
#define GF_NODES 600
#define GF_OUTPUTS 24
#define GF_RANK 5
#define GF_ARGS 16
#define GF_ATTRS 256   /* one list of an attribute */
#define GF_LONG 2048   /* all attributes of a node, with the elements of a constant */
#define GF_BODY 6144   /* its regions */
#define GF_ABSENT (-2) /* an operand that is left out */
#define GF_TEXT 524288
#define GF_RESULTS 19 /* of a node */
#define GF_STEP 1000  /* numbers of two operands of a node are so far apart in names of noise */
#define GF_WITNESS 60000
#define GF_FOLDED 64 /* elements that meet in one, where a text does not say */
#define GF_INPUTS (GF_VALUES + (GF_ARGS + 2 * GF_RESULTS) * GF_NODES + 2)
#define GF_NUMEL 6000   /* elements of one value, at most */
#define GF_LARGE 120000 /* where sizes are such that threads share the work */

typedef struct gf_dim {
    int64_t c, a, b; /* c + a*A + b*B */
} gf_dim;

typedef struct gf_value {
    uint8_t dtype;
    uint8_t rank;
    uint8_t is_input;
    uint8_t is_index; /* an input of integers in [-below, below) */
    gf_dim below;
    gf_dim dims[GF_RANK];
    int node; /* that makes it, -1 none */
} gf_value;

enum gf_noise { GF_EXACT = 0, GF_FUNCTION = 1, GF_FOLD = 2, GF_COMPOSITE = 3 };

typedef struct gf_node {
    const char *op;
    int args[GF_ARGS]; /* values, or GF_ABSENT */
    int n_args;
    int first; /* of its results */
    int n_results;
    int noise;      /* gf_noise */
    int64_t folded; /* FOLD: elements that meet in one */
    char attrs[GF_LONG];
    char body[GF_BODY]; /* regions as text; they see their own values alone */
} gf_node;

typedef struct gf_program {
    uint64_t seed;
    uint64_t state; /* of the random numbers */
    int64_t sizes[2];
    int64_t lowest[2];
    int is_used[2]; /* the symbol may be used */
    int specials;   /* inputs hold NaN, inf, -0, huge and tiny numbers */
    int is_large;
    int next;     /* 1 + the value that the next pick takes; 0: any */
    int chains;   /* contractions, and what may be done in them, one after the other */
    int is_fused; /* judged under numerics=fused */
    int bytes;    /* makers take weights that are bytes behind a scale */
    gf_value values[GF_VALUES];
    int n_values;
    gf_node nodes[GF_NODES];
    int n_nodes;
    int outputs[GF_OUTPUTS];
    int n_outputs;
} gf_program;

/* ---- gf_program.c ---- */
uint64_t gf_next(uint64_t *state);
uint64_t gf_random(gf_program *p);
int64_t gf_below(gf_program *p, int64_t n); /* 0 .. n-1 */
int gf_chance(gf_program *p, int percent);
int64_t gf_size(const gf_program *p, gf_dim d);
int64_t gf_numel(const gf_program *p, const gf_value *v);
gf_dim gf_const(int64_t n);
int gf_same_dim(gf_dim x, gf_dim y);
int gf_is_const(gf_dim d, int64_t n);
int gf_has_symbol(gf_dim d);
void gf_dim_text(gf_dim d, char out[64]);
/* A new value; -1: no room, or too many elements. */
int gf_input(gf_program *p, uint8_t dtype, int rank, const gf_dim *dims);
int gf_index_input(gf_program *p, int rank, const gf_dim *dims, gf_dim below);
/* A new node with one result; its value, or -1. */
int gf_node_add(gf_program *p, const char *op, int n_args, const int *args, uint8_t dtype, int rank,
                const gf_dim *dims);
/* Another result of the newest node. */
int gf_result_add(gf_program *p, uint8_t dtype, int rank, const gf_dim *dims);
gf_node *gf_newest(gf_program *p);
int gf_scalar(gf_program *p, uint8_t dtype, double x);
/* The text; with_noise: the variant that eager runs to learn how much rounding moves the results.
 */
int gf_write(const gf_program *p, int with_noise, char out[GF_TEXT]);
/* Marks values that the outputs need. */
void gf_live(const gf_program *p, uint8_t live[GF_VALUES]);
/* Inputs of the text in order: the number of a value, -GF_WITNESS - k: the witness of symbol k, or
 * noise of node n: -1 - n - GF_STEP i factors of its operand i, -20001 - n - GF_STEP r: what is
 * added to its result r, -40001 - n - GF_STEP r factors of its result. Returns how many. */
int gf_inputs(const gf_program *p, int with_noise, int out[GF_INPUTS]);

/* ---- gf_read.c ---- */
/* Reads a text that gf_write made (without noise). 0: it cannot be read. */
int gf_read(const char *text, gf_program *out);

/* ---- gf_noise.c ---- */
/* Of a noise's number: its dtype and sizes; the element that the random `unit` in [-1, 1) gives. */
gf_value gf_noise_type(const gf_program *p, int number);
double gf_noise_number(const gf_program *p, int number, uint64_t variant, double unit);

/* ---- gf_ops.c, with gf_composite.c and gf_pick.c ---- */
/* Adds a random node, or some; 0: nothing fitted. */
int gf_grow(gf_program *p);

/* ---- gf_generate.c ---- */
void gf_generate(gf_program *p, uint64_t seed);
stator_status gf_tensor(stator_ctx *ctx, const gf_program *p, int number, uint64_t variant,
                        stator_tensor **out);

/* ---- gf_joint.c ---- */
/* Makes of a program its joint graph (docs/grad.md), of second order at times: what it computes,
 * and gradients of its outputs by some of its inputs. 0: it has none, or is too large for a
 * gf_program, and `why` says so; -1: differentiating it fails as it may not. */
int gf_differentiate(stator_ctx *ctx, gf_program *p, char why[512]);

/* ---- gf_judge.c ---- */
/* REFUSED: both backends fail with the same status when called. */
enum gf_verdict { GF_AGREES = 0, GF_DIFFERS = 1, GF_INVALID = 2, GF_FAILED = 3, GF_REFUSED = 4 };
/* Are GF_KEY and GF_VALUE lists of the same length, 5 long at most (with GF_BOUNDS, 4)? */
int gf_has_sound_options(const char *backend);
/* FAILED: something that eager runs does not run; or results differ and how far they may is not
 * known. why: a line; also written when the graph is invalid. */
int gf_judge(stator_ctx *ctx, const gf_program *p, const char *backend, char why[512]);
typedef struct gf_answer {
    uint64_t bits;   /* a hash of the results in which all NaN are one */
    int changes;     /* calls whose bits are not those of the call before */
    uint32_t others; /* nodes that other backends have computed */
} gf_answer;
/* What the backend alone computes in so many calls; 0: it answers an error, which `why` says. */
int gf_bits(stator_ctx *ctx, const gf_program *p, const char *backend, int calls, gf_answer *out,
            char why[512]);

/* ---- gf_shrink.c ---- */
/* Makes the program smaller as long as still_fails(self, p). */
void gf_shrink(gf_program *p, int (*still_fails)(void *self, const gf_program *p), void *self);

#endif
