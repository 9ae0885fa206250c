/* cast and bitcast.
 *
 * Integers go through 64 bits and wrap; everything else through f64 (u64 apart, which has its own
 * range), rounded once. To bool: x != 0. To complex: imaginary part 0; from complex: real part.
 * f8 saturates when asked to; round = up takes the next number away from zero when inexact. */
#include "plugins/eager/kernels/ek_loop.h"

#include <math.h>

typedef struct cast {
    const ek_call *c;
    bool saturate;
    bool up;
} cast;

static bool is_complex(uint32_t dtype)
{
    return (EK_COMPLEX >> dtype) & 1u;
}

static bool is_f8(uint32_t dtype)
{
    return (EK_F8 >> dtype) & 1u;
}

static void int_range(void *self, int64_t begin, int64_t end)
{
    const cast *s = self;
    const ek_tensor *in = &s->c->in[0];
    const ek_tensor *out = &s->c->out[0];
    int64_t x[EK_BLOCK];
    for (int64_t i = begin; i < end; i += EK_BLOCK) {
        const int64_t m = end - i < EK_BLOCK ? end - i : EK_BLOCK;
        st_load_i64_block(in->dtype, in->data, i, m, x);
        st_store_i64_block(out->dtype, out->data, i, m, x);
    }
}

/* u64 to f64 and f32, rounded once. */
static void u64_range(void *self, int64_t begin, int64_t end)
{
    const cast *s = self;
    const uint64_t *x = s->c->in[0].data;
    void *out = s->c->out[0].data;
    for (int64_t i = begin; i < end; i++) {
        if (s->c->out[0].dtype == STATOR_F32) {
            ((float *)out)[i] = (float)x[i];
        } else {
            ((double *)out)[i] = (double)x[i];
        }
    }
}

static void complex_range(void *self, int64_t begin, int64_t end)
{
    const cast *s = self;
    const ek_tensor *in = &s->c->in[0];
    const ek_tensor *out = &s->c->out[0];
    for (int64_t i = begin; i < end; i++) {
        double x[2];
        st_load_c128(in->dtype, in->data, i, x);
        if (out->dtype == STATOR_BOOL) {
            ((uint8_t *)out->data)[i] = x[0] != 0 || x[1] != 0;
        } else {
            st_store_c128(out->dtype, out->data, i, x);
        }
    }
}

static void store_f8(const ek_tensor *out, int64_t at, int64_t m, const double *x, bool saturate)
{
    uint8_t *z = (uint8_t *)out->data + at;
    for (int64_t k = 0; k < m; k++) {
        z[k] = out->dtype == STATOR_F8E4M3FN ? st_f64_to_f8e4m3fn(x[k], saturate)
                                             : st_f64_to_f8e5m2(x[k], saturate);
    }
}

/* Moves results that were rounded toward zero one place away from it. Bit patterns of one sign are
 * ordered like their values. */
static void round_up(const ek_tensor *out, int64_t at, int64_t m, const double *x)
{
    for (int64_t k = 0; k < m; k++) {
        const double got = ek_get(out, at + k);
        if (!(fabs(got) < fabs(x[k])) || isinf(x[k])) {
            continue;
        }
        if (out->dtype == STATOR_F32) {
            ((float *)out->data)[at + k] = nextafterf((float)got, copysignf(INFINITY, (float)x[k]));
        } else if (is_f8(out->dtype)) {
            ((uint8_t *)out->data)[at + k]++;
        } else if (out->dtype != STATOR_F64) {
            ((uint16_t *)out->data)[at + k]++;
        }
    }
}

static void float_range(void *self, int64_t begin, int64_t end)
{
    const cast *s = self;
    const ek_tensor *in = &s->c->in[0];
    const ek_tensor *out = &s->c->out[0];
    double x[EK_BLOCK];
    for (int64_t i = begin; i < end; i += EK_BLOCK) {
        const int64_t m = end - i < EK_BLOCK ? end - i : EK_BLOCK;
        st_load_f64_block(in->dtype, in->data, i, m, x);
        if (is_f8(out->dtype)) {
            store_f8(out, i, m, x, s->saturate);
        } else {
            st_store_f64_block(out->dtype, out->data, i, m, x);
        }
        if (s->up) {
            round_up(out, i, m, x);
        }
    }
}

stator_status ek_cast(const ek_call *c, stator_diag **err)
{
    const uint32_t from = c->in[0].dtype;
    const uint32_t to = c->out[0].dtype;
    cast s = {c, ek_int(c, STATOR_cast_saturate) != 0,
              ek_is_float(to) && ek_str_is(c, STATOR_cast_round, "up")};
    (void)err;
    if (from == to) {
        memmove(c->out[0].data, c->in[0].data, ek_bytes(to, c->in[0].numel));
        return STATOR_OK;
    }
    stator_range_fn fn = float_range;
    if (is_complex(from) || is_complex(to)) {
        fn = complex_range;
    } else if (!ek_is_float(from) && (to == STATOR_F64 || to == STATOR_F32)) {
        fn = from == STATOR_U64 ? u64_range : int_range;
    } else if (!ek_is_float(from) && !ek_is_float(to)) {
        fn = int_range;
    }
    /* Two elements of a byte must not be written by two threads. */
    ek_parallel(c, c->in[0].numel, st_dtype_bits(to) < 8 ? INT64_MAX : 16384, fn, &s);
    return STATOR_OK;
}

stator_status ek_bitcast(const ek_call *c, stator_diag **err)
{
    (void)err;
    memmove(c->out[0].data, c->in[0].data, ek_bytes(c->in[0].dtype, c->in[0].numel));
    return STATOR_OK;
}
