/* dft: X[k] = sum over n of x[n] e^(-2 pi i k n / L), the inverse with + and divided by L, in f64.
 *
 *     L <= 64             the sum as it stands, twiddles from a table by (k n) mod L
 *     L a power of two    radix-2 decimation in time (Cooley and Tukey, 1965)
 *     else                Bluestein, 1970: k n = (k^2 + n^2 - (k-n)^2) / 2 turns the sum into a
 *                         convolution, done by three transforms of a power of two M >= 2L - 1
 *
 * The input is cut or padded with zeros to L along the axis (to L/2 + 1 for the one-sided inverse,
 * whose other half is the conjugate mirror). Lines are transformed independently of each other. */
#include "plugins/eager/kernels/ek_gemm.h"

#include <math.h>

#define DIRECT_MAX 64
#define TWO_PI 6.28318530717958647692

typedef struct complex_f64 {
    double re, im;
} complex_f64;

typedef struct dft {
    const ek_call *call;
    int64_t n_in, n_out, inner; /* sizes of the axis, elements after it (without the last axis) */
    int64_t in_parts, out_parts;
    int64_t length;
    int64_t padded; /* M of Bluestein, or 0 */
    int64_t power;  /* size of the power-of-two transform, or 0 */
    bool inverse, onesided;
    complex_f64 *twiddle;  /* [power / 2] with -, or direct: [length] with the sign wanted */
    complex_f64 *chirp;    /* Bluestein: e^(-+ pi i k^2 / L) */
    complex_f64 *spectrum; /* Bluestein: transform of the conjugate chirp, [padded] */
    complex_f64 *scratch;  /* per worker: line and work */
    int64_t work;          /* elements of each of the two */
} dft;

static complex_f64 multiply(complex_f64 a, complex_f64 b)
{
    return (complex_f64){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* e^(sign 2 pi i k / n) for 0 <= k < n. */
static complex_f64 root(int64_t k, int64_t n, double sign)
{
    const double angle = TWO_PI * ((double)k / (double)n);
    return (complex_f64){cos(angle), sign * sin(angle)};
}

/* In place, forward; n a power of two, twiddle[k] = e^(-2 pi i k / n) for k < n/2. */
static void transform_power(complex_f64 *x, int64_t n, const complex_f64 *twiddle)
{
    for (int64_t i = 1, j = 0; i < n; i++) {
        int64_t bit = n >> 1;
        for (; j & bit; bit >>= 1) {
            j ^= bit;
        }
        j ^= bit;
        if (i < j) {
            const complex_f64 t = x[i];
            x[i] = x[j];
            x[j] = t;
        }
    }
    for (int64_t half = 1; half < n; half *= 2) {
        const int64_t step = n / (2 * half);
        for (int64_t begin = 0; begin < n; begin += 2 * half) {
            for (int64_t k = 0; k < half; k++) {
                complex_f64 *a = &x[begin + k];
                complex_f64 *b = &x[begin + k + half];
                const complex_f64 t = multiply(*b, twiddle[k * step]);
                *b = (complex_f64){a->re - t.re, a->im - t.im};
                *a = (complex_f64){a->re + t.re, a->im + t.im};
            }
        }
    }
}

static void conjugate(complex_f64 *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        x[i].im = -x[i].im;
    }
}

/* ---- one line: x[length] to y[length], without the factor 1/length ---- */

static void direct(const dft *d, const complex_f64 *x, complex_f64 *y)
{
    for (int64_t k = 0; k < d->length; k++) {
        complex_f64 sum = {0.0, 0.0};
        int64_t at = 0;
        for (int64_t n = 0; n < d->length; n++) {
            const complex_f64 t = multiply(x[n], d->twiddle[at]);
            sum = (complex_f64){sum.re + t.re, sum.im + t.im};
            at += k;
            at -= at >= d->length ? d->length : 0;
        }
        y[k] = sum;
    }
}

/* The inverse by conjugating before and after. */
static void by_power(const dft *d, complex_f64 *x, complex_f64 *y)
{
    memcpy(y, x, (uint64_t)d->length * sizeof *y);
    if (d->inverse) {
        conjugate(y, d->length);
    }
    transform_power(y, d->power, d->twiddle);
    if (d->inverse) {
        conjugate(y, d->length);
    }
}

static void bluestein(const dft *d, const complex_f64 *x, complex_f64 *y)
{
    for (int64_t k = 0; k < d->padded; k++) {
        y[k] = k < d->length ? multiply(x[k], d->chirp[k]) : (complex_f64){0.0, 0.0};
    }
    transform_power(y, d->padded, d->twiddle);
    for (int64_t k = 0; k < d->padded; k++) {
        y[k] = multiply(y[k], d->spectrum[k]);
    }
    conjugate(y, d->padded); /* the inverse, as above */
    transform_power(y, d->padded, d->twiddle);
    conjugate(y, d->padded);
    for (int64_t k = 0; k < d->length; k++) {
        y[k] = multiply(y[k], d->chirp[k]);
        y[k].re /= (double)d->padded;
        y[k].im /= (double)d->padded;
    }
}

/* Loads the line that begins at element `at` (counted without the last axis). */
static void load_line(const dft *d, int64_t at, complex_f64 *x)
{
    const ek_tensor *t = &d->call->in[0];
    const bool mirrors = d->onesided && d->inverse;
    const int64_t wanted = mirrors ? d->length / 2 + 1 : d->length;
    const int64_t n = d->n_in < wanted ? d->n_in : wanted;
    memset(x, 0, (uint64_t)d->length * sizeof *x);
    for (int64_t k = 0; k < n; k++) {
        const int64_t i = (at + k * d->inner) * d->in_parts;
        x[k].re = ek_get(t, i);
        x[k].im = d->in_parts == 2 ? ek_get(t, i + 1) : 0.0;
    }
    for (int64_t k = wanted; k < d->length; k++) {
        x[k] = (complex_f64){x[d->length - k].re, -x[d->length - k].im};
    }
}

static void do_line(void *self, int64_t line, int64_t worker)
{
    const dft *d = self;
    const ek_tensor *out = &d->call->out[0];
    complex_f64 *x = d->scratch + worker * 2 * d->work;
    complex_f64 *y = x + d->work;
    const double scale = d->inverse ? (double)d->length : 1.0;
    const int64_t outer = line / d->inner;
    load_line(d, outer * d->n_in * d->inner + line % d->inner, x);
    if (d->padded != 0) {
        bluestein(d, x, y);
    } else if (d->power != 0) {
        by_power(d, x, y);
    } else {
        direct(d, x, y);
    }
    for (int64_t k = 0; k < d->n_out; k++) {
        const int64_t i = ((outer * d->n_out + k) * d->inner + line % d->inner) * d->out_parts;
        ek_put(out, i, y[k].re / scale);
        if (d->out_parts == 2) {
            ek_put(out, i + 1, y[k].im / scale);
        }
    }
}

/* ---- tables ---- */

static stator_status make_chirp(dft *d, stator_diag **err)
{
    const double sign = d->inverse ? 1.0 : -1.0;
    ST_TRY(EK_SCRATCH(d->call, d->chirp, d->length, err));
    ST_TRY(EK_SCRATCH(d->call, d->spectrum, d->padded, err));
    memset(d->spectrum, 0, (uint64_t)d->padded * sizeof *d->spectrum);
    int64_t square = 0; /* k^2 mod 2L */
    for (int64_t k = 0; k < d->length; k++) {
        d->chirp[k] = root(square, 2 * d->length, sign);
        d->spectrum[k] = (complex_f64){d->chirp[k].re, -d->chirp[k].im};
        if (k > 0) {
            d->spectrum[d->padded - k] = d->spectrum[k];
        }
        square = (square + 2 * k + 1) % (2 * d->length);
    }
    transform_power(d->spectrum, d->padded, d->twiddle);
    return STATOR_OK;
}

static stator_status make_tables(dft *d, stator_diag **err)
{
    const bool is_power = (d->length & (d->length - 1)) == 0;
    if (d->length > DIRECT_MAX) {
        for (d->power = 1; d->power < (is_power ? d->length : 2 * d->length - 1);) {
            d->power *= 2;
        }
        d->padded = is_power ? 0 : d->power;
    }
    const int64_t n = d->power != 0 ? d->power : d->length;
    const int64_t count = d->power != 0 ? n / 2 : n;
    const double sign = d->power == 0 && d->inverse ? 1.0 : -1.0;
    ST_TRY(EK_SCRATCH(d->call, d->twiddle, count, err));
    for (int64_t k = 0; k < count; k++) {
        d->twiddle[k] = root(k, n, sign);
    }
    d->work = n;
    return d->padded != 0 ? make_chirp(d, err) : STATOR_OK;
}

static stator_status check_sizes(const dft *d, stator_diag **err)
{
    const int64_t n_out = d->onesided && !d->inverse ? d->length / 2 + 1 : d->length;
    EK_FAIL_IF(d->length < 1 || d->length > (INT64_C(1) << 32), d->call, err,
               STATOR_INVALID_ARGUMENT, "the length is %lld, expected 1 to 2^32",
               (long long)d->length);
    EK_FAIL_IF((d->in_parts != 1 && d->in_parts != 2) || d->n_out != n_out ||
                   d->out_parts != (d->onesided && d->inverse ? 1 : 2),
               d->call, err, STATOR_INVALID_ARGUMENT,
               "the last axis has size %lld, expected 1 (real) or 2 (complex)",
               (long long)d->in_parts);
    return STATOR_OK;
}

stator_status ek_dft(const ek_call *c, stator_diag **err)
{
    const ek_tensor *x = &c->in[0];
    const ek_tensor *y = &c->out[0];
    const uint32_t axis = ek_axis(c, STATOR_dft_axis, x->rank);
    dft d = {.call = c,
             .n_in = x->dims[axis],
             .n_out = y->dims[axis],
             .inner = ek_product(x->dims, axis + 1u, x->rank - 1u),
             .in_parts = x->dims[x->rank - 1u],
             .out_parts = y->dims[y->rank - 1u],
             .length = ek_int_at(c, STATOR_dft_length, 0, 0),
             .inverse = ek_int(c, STATOR_dft_inverse) != 0,
             .onesided = ek_int(c, STATOR_dft_onesided) != 0};
    ST_TRY(check_sizes(&d, err));
    if (y->numel == 0) {
        return STATOR_OK;
    }
    ST_TRY(make_tables(&d, err));
    const int64_t lines = ek_product(x->dims, 0, axis) * d.inner;
    const int64_t workers = ek_worker_count(c, lines);
    ST_TRY(EK_SCRATCH(c, d.scratch, workers * 2 * d.work, err));
    ek_workers(c, workers, lines, do_line, &d);
    return STATOR_OK;
}
