/* What becomes of sums of rows of a product, in vectors of LANES columns, for inner loops that are
 * one text for every width (dn_skinny_isa.h, dn_quant_isa.h). f32; the epilogue's rows are those of
 * dn_rows_has_epilogue. */
#ifndef STATOR_CPU_LLVM_DN_ROWS_ISA_H
#define STATOR_CPU_LLVM_DN_ROWS_ISA_H

#include "plugins/cpu-llvm/kernels/dn.h"
#include "plugins/cpu-llvm/kernels/dn_vec.h"

#define COLUMNS (2 * LANES) /* columns of a panel */

/* The output that sums become. */
typedef struct rows_out {
    const st_contraction *contraction;
    const dn_sizes *s; /* as a product */
    void *const *at;
} rows_out;

INLINE vec load_some(const float *from, int64_t count)
{
    vec v = {0};
    if (count >= LANES) {
        return load(from);
    }
    memcpy(&v, from, (size_t)count * sizeof *from);
    return v;
}

/* Applies the epilogue to `count` sums at `column`, which go to element `out`. NaN is kept. */
INLINE vec finish(const rows_out *r, vec v, int64_t out, int64_t column, int64_t count)
{
    const st_contraction *contraction = r->contraction;
    for (uint32_t i = 0; i < contraction->n_epilogue; i++) {
        const st_epilogue *e = &contraction->epilogue[i];
        const float *buffer = r->at[DN_POST + i];
        const vec value = splat((float)e->value);
        const vec value2 = splat((float)e->value2);
        switch (e->kind) {
        case ST_EPILOGUE_BIAS:
            v += load_some(buffer + column, count);
            break;
        case ST_EPILOGUE_ADD:
            v += load_some(buffer + out, count);
            break;
        case ST_EPILOGUE_SCALE:
            v *= value;
            break;
        case ST_EPILOGUE_OFFSET:
            v += value;
            break;
        case ST_EPILOGUE_RELU:
            v = choose(v < 0.0f, (vec){0}, v);
            break;
        default: /* CLIP */
            v = choose(v < value, value, v);
            v = choose(v > value2, value2, v);
            break;
        }
    }
    return v;
}

/* Stores a vector of sums of row i, those of columns that there are. */
INLINE void store(const rows_out *r, vec sum, int64_t i, int64_t column)
{
    const int64_t left = r->s->n - column;
    const int64_t at = i * r->s->out.stride[0] + column;
    float *out = r->at[DN_OUT];
    if (left >= LANES) {
        sum = finish(r, sum, at, column, LANES);
        memcpy(out + at, &sum, sizeof sum);
    } else if (left > 0) {
        sum = finish(r, sum, at, column, left);
        memcpy(out + at, &sum, (size_t)left * sizeof *out);
    }
}

#endif
