/* The rows of a kernel as the text of a language like C: what the C11 text (loop_c.h) and the text
 * of a GPU (codegen/gpu) have in common. A frame prints the head, the buffers and the loops, and
 * calls these for the rest; what the languages spell differently stands in a table.
 *
 * In: a verified kernel that went through st_loop_expand. Instruction r is v<r>, an accumulator
 * a<r> with its index in at<r>, axis k is i<k>, the value bound by instruction r is n<r>, size k is
 * s<k>, buffer k is b<k>, a pointer or an array. The text uses ST_MIN, ST_MAX, ST_BETTER,
 * st_floordiv, st_mod, st_i4, st_u4, st_i32_of, st_i32_of_f32, st_i64_of and st_u64_of, which the
 * frame defines. */
#ifndef STATOR_CODEGEN_LOOP_TEXT_H
#define STATOR_CODEGEN_LOOP_TEXT_H

#include "codegen/loopir/loop.h"

/* Which of two is meant where a table has an entry for f32 and one for f64. */
enum st_loop_width { ST_LOOP_F32 = 0, ST_LOOP_F64 = 1 };

/* An operation as a pattern: 1, 2, 3 stand for the operands, # for the suffix of its dtype. */
typedef struct st_loop_pattern {
    uint16_t code;
    const char *text;
} st_loop_pattern;

typedef struct st_loop_spelling {
    const char *types[STATOR_DTYPE_COUNT]; /* of values; storage types are their bits */
    const char *least[STATOR_DTYPE_COUNT]; /* the least and the greatest value of each */
    const char *greatest[STATOR_DTYPE_COUNT];
    const char *index_type;        /* of axes, sizes and bound values */
    const char *index_literal[2];  /* what stands around a decimal number of this type */
    const char *bits_literal[2];   /* what stands around a hexadecimal number of 64 bits */
    const char *nan[2];            /* by st_loop_width */
    const char *infinity[2];       /* by st_loop_width */
    const char *minus_infinity[2]; /* by st_loop_width */
    const char *of_bits[2];        /* functions from and to bits, by st_loop_width */
    const char *to_bits[2];
    const char *suffix[2]; /* of a function's name, by st_loop_width */
    /* Functions that combine two f32 of a minimum and of a maximum; NULL: ST_MIN and ST_MAX do. */
    const char *extremes_f32[2];
    const char *round_bf16;  /* function that rounds an f32 to a bf16; NULL: two casts do it */
    const char *libm_prefix; /* before the name of a function of libm */
    const st_loop_pattern *functions; /* abs, ceil, ...: what is no operator of C */
    uint32_t n_functions;
    bool is_wrapping;          /* signed integers wrap; else sums go through unsigned ones */
    const char *unused;        /* before a value that may have no use */
    const char *set_status[2]; /* what stands around the number of a failed check */
} st_loop_spelling;

/* Where the frame has the element of a LOAD or STORE. */
enum st_loop_stage {
    ST_LOOP_IN_MEMORY = 0, /* b<buffer>[its index] */
    ST_LOOP_STAGED = 1,    /* x<r>[e] */
    ST_LOOP_OWN = 2        /* r<buffer>[e] */
};

typedef struct st_loop_text {
    const st_kernel *kernel;
    const st_loop_spelling *spelling;
    st_str *out;
    uint32_t depth; /* of indentation */
    void *frame;
    /* st_loop_stage by LOAD and STORE; NULL: all are in memory. */
    const uint8_t *is_staged;
    /* Prints a LOOP instruction, whose line has been begun, and what is inside. */
    void (*put_loop)(struct st_loop_text *t, const st_loop_inst *inst);
} st_loop_text;

void st_loop_text_put(st_loop_text *t, const char *format, ...) STATOR_PRINTF(2, 3);
void st_loop_text_indent(st_loop_text *t); /* begins a line */
void st_loop_text_sym(st_loop_text *t, uint32_t sym);
/* The type of a value; in memory a bool is a byte, and so are two integers of four bits. */
const char *st_loop_text_type(const st_loop_text *t, uint32_t dtype);
const char *st_loop_text_memory_type(const st_loop_text *t, uint32_t dtype);
/* One instruction with the end of its line, its line begun; a LOOP by t->put_loop. */
void st_loop_text_inst(st_loop_text *t, st_loop_ref ref);
/* The instructions of a block, a line each, one deeper than the text stands. */
void st_loop_text_body(st_loop_text *t, uint32_t block);
void st_loop_text_block(st_loop_text *t, uint32_t block);

/* ---- accumulators ---- */
bool st_loop_has_index(const st_loop_inst *acc); /* ARGMIN, ARGMAX */
/* The value that an update leaves as it is. */
void st_loop_text_identity(st_loop_text *t, const st_loop_inst *acc);
/* `old` becomes old and value combined: "old = ...;" with the end of the line, of an accumulator
 * with an index those of old and value too. */
typedef struct st_loop_operands {
    const char *old, *old_index, *value, *value_index;
} st_loop_operands;
void st_loop_text_combine(st_loop_text *t, const st_loop_inst *acc, const st_loop_operands *o);

#endif
