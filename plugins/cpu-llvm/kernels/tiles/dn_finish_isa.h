/* The epilogue of tiles for one width of vectors. Before: LANES, INLINE, and
 *
 *   vec                            LANES floats, an intrinsic's type
 *   load_some(buffer, dtype, at, mask)   elements of an operand as f32, where the mask has lanes
 *   load_one(buffer, dtype, at)    one of them in all lanes
 *   least_of(a, b), greatest_of(a, b)    with b where either is a NaN
 *   rounded(v)                     to whole numbers, halves to the even one
 *   others(kind, v)                what this width alone has
 *
 * Behind it the file defines finish_vectors. `n` vectors at a time stay in registers
 * from the sums to the output; `n` and is_across are constants where these are inlined, and
 * the first is an even one. */
#include "plugins/cpu-llvm/kernels/tiles/dn_tiles.h"

/* Place in the output of vector i. */
INLINE int64_t place_of(const dn_finish *f, int64_t i, const bool is_across)
{
    return is_across ? f->out + i / 2 * f->step + i % 2 * LANES : f->out + i * f->step;
}

/* Operands of the epilogue's row for vector i and those that follow. */
INLINE void load_operands(const dn_finish *f, const st_epilogue *e, const void *buffer, int64_t i,
                          vec *o, const int n, const bool is_across)
{
    if (e->kind == ST_EPILOGUE_TIMES_ONE) {
        o[0] = load_one(buffer, e->dtype, 0);
#pragma GCC unroll 8
        for (int k = 1; k < n; k++) {
            o[k] = o[0];
        }
    } else if (e->kind == ST_EPILOGUE_ADD) {
#pragma GCC unroll 8
        for (int k = 0; k < n; k++) {
            o[k] = load_some(buffer, e->dtype, place_of(f, i + k, is_across), f->mask[k % 2]);
        }
    } else if (is_across) {
        o[0] = load_some(buffer, e->dtype, f->feature, f->mask[0]);
#pragma GCC unroll 8
        for (int k = 1; k < n; k++) {
            o[k] = k == 1 ? load_some(buffer, e->dtype, f->feature + LANES, f->mask[1]) : o[k % 2];
        }
    } else {
#pragma GCC unroll 8
        for (int k = 0; k < n; k++) {
            o[k] = load_one(buffer, e->dtype, f->feature + i + k);
        }
    }
}

/* A row without an operand. */
INLINE void apply_number(const st_epilogue *e, vec *v, const int n)
{
    const vec value = (float)e->value - (vec){0};
    const vec value2 = (float)e->value2 - (vec){0};
#define EACH(expression)                                                                           \
    _Pragma("GCC unroll 8") for (int k = 0; k < n; k++)                                            \
    {                                                                                              \
        v[k] = expression;                                                                         \
    }
    switch (e->kind) {
    case ST_EPILOGUE_RELU:
        EACH(greatest_of((vec){0}, v[k]))
        break;
    case ST_EPILOGUE_SCALE:
        EACH(v[k] * value)
        break;
    case ST_EPILOGUE_DIVIDE:
        EACH(v[k] / value)
        break;
    case ST_EPILOGUE_ROUND:
        EACH(rounded(v[k]))
        break;
    case ST_EPILOGUE_OFFSET:
        EACH(v[k] + value)
        break;
    case ST_EPILOGUE_CLIP:
        EACH(least_of(value2, greatest_of(value, v[k])))
        break;
    default:
        EACH(others(e->kind, v[k]))
        break;
    }
#undef EACH
}

INLINE void apply_row(const dn_finish *f, uint32_t place, int64_t i, vec *v, const int n,
                      const bool is_across)
{
    const st_epilogue *e = &f->contraction->epilogue[place];
    vec o[DN_FINISH_VECTORS];
    if (!st_epilogue_has_buffer(e->kind)) {
        apply_number(e, v, n);
        return;
    }
    load_operands(f, e, f->at[DN_POST + place], i, o, n, is_across);
    const bool is_factor = e->kind == ST_EPILOGUE_TIMES || e->kind == ST_EPILOGUE_TIMES_ONE;
#pragma GCC unroll 8
    for (int k = 0; k < n; k++) {
        v[k] = is_factor ? v[k] * o[k] : v[k] + o[k];
    }
}

INLINE void apply_rows(const dn_finish *f, int64_t i, vec *v, const int n, const bool is_across)
{
    for (uint32_t place = f->first_row; place < f->contraction->n_epilogue; place++) {
        apply_row(f, place, i, v, n, is_across);
    }
}

/* Finishes the sums of vectors i to i + n - 1 and writes them to the output. */
INLINE void finish_vectors(const dn_finish *f, int64_t i, const int n, const bool is_across);

INLINE void finish_all(const dn_finish *f, const bool is_across)
{
    int64_t i = 0;
    for (; i + DN_FINISH_VECTORS <= f->n; i += DN_FINISH_VECTORS) {
        finish_vectors(f, i, DN_FINISH_VECTORS, is_across);
    }
    for (; i + 2 <= f->n; i += 2) {
        finish_vectors(f, i, 2, is_across);
    }
    if (i < f->n) {
        finish_vectors(f, i, 1, is_across);
    }
}

static void finish(const dn_finish *f)
{
    if (f->is_across) {
        finish_all(f, true);
    } else {
        finish_all(f, false);
    }
}
