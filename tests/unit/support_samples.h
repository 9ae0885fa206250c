/* Sample nodes of every op: good ones with the result types that they must have, bad ones with a
 * part of the text that refuses them. Written as .stir pieces. */
#ifndef STATOR_TEST_SUPPORT_SAMPLES_H
#define STATOR_TEST_SUPPORT_SAMPLES_H

#include "tests/unit/support_text.h"

typedef struct op_sample {
    const char *inputs;   /* types of %a, %b, ... separated by ';' */
    const char *node;     /* "softmax(%a) {axis = 1} : f32[2, 3]", regions included */
    const char *syms;     /* sym lines, or NULL */
    const char *expected; /* bad samples: part of the error; NULL for good ones */
} op_sample;

const op_sample *op_samples(uint32_t *out_count);
const op_sample *op_bad_samples(uint32_t *out_count);
/* Name of the sample's op into buf. */
const char *op_sample_name(const op_sample *s, char buf[64]);
/* Reads the sample as a graph of one node whose results are all returned. */
stator_status op_sample_read(text_world *w, const op_sample *s, text_graph *out, stator_diag **err);

#endif
