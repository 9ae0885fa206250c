/* Epilogues that make bytes of sums of integers, as QuantizeLinear behind a contraction does, in
 * one go (dn_bytes_256.c, dn_bytes_512.c):
 *
 *     sum -> times numbers -> + bias -> / divisor -> nearest whole number -> + offset -> byte
 *
 * In: a contraction. Out: its epilogue as dn_to_bytes, where it is of that kind. What the sum is
 * multiplied with, and the bias, are divided beforehand, in f64; so the quotient is rounded
 * once, where the rows one after the other round up to five times. The byte is the same but
 * where the quotient comes within those roundings of a half: there it may be the neighbouring
 * one. */
#include "plugins/cpu-llvm/kernels/dn.h"

#include <math.h>
#include <string.h>

#define DIVISOR_MAX 0x1p60

/* ---- the rows ---- */

static bool is_whole(double value)
{
    return value == rint(value);
}

/* Rows after the rounding: an offset within the dtype, and bounds. */
static bool set_whole(const st_contraction *contraction, uint32_t at, dn_to_bytes *to)
{
    const st_epilogue *e = &contraction->epilogue[at];
    if (at < contraction->n_epilogue && e->kind == ST_EPILOGUE_OFFSET) {
        if (!(e->value >= to->least && e->value <= to->greatest)) {
            return false;
        }
        to->offset = (int16_t)e->value;
        e++;
        at++;
    }
    if (to->is_positive && to->offset > to->least) {
        to->least = to->offset;
    }
    if (at < contraction->n_epilogue && e->kind == ST_EPILOGUE_CLIP) {
        if (!is_whole(e->value) || !is_whole(e->value2) || e->value < to->least ||
            e->value2 > to->greatest || e->value > e->value2) {
            return false;
        }
        to->least = (int16_t)e->value;
        to->greatest = (int16_t)e->value2;
        at++;
    }
    return at == contraction->n_epilogue;
}

/* The row, where it is of the kind: *at goes on. */
static const st_epilogue *next_of(const st_contraction *contraction, uint32_t *at, uint32_t kind)
{
    const st_epilogue *e = &contraction->epilogue[*at];
    const bool is_next = *at < contraction->n_epilogue && e->kind == kind;
    *at += (uint32_t)is_next;
    return is_next ? e : NULL;
}

static bool set_rows(const st_contraction *contraction, dn_to_bytes *to)
{
    uint32_t at = 0;
    if (next_of(contraction, &at, ST_EPILOGUE_BIAS) &&
        contraction->epilogue[0].dtype != STATOR_I32) {
        at = 0;
    }
    const st_epilogue *scale = next_of(contraction, &at, ST_EPILOGUE_SCALE);
    to->times = next_of(contraction, &at, ST_EPILOGUE_TIMES) ? at : 0;
    const st_epilogue *bias = next_of(contraction, &at, ST_EPILOGUE_BIAS);
    to->bias = bias ? at : 0;
    to->is_positive = next_of(contraction, &at, ST_EPILOGUE_RELU) != NULL;
    const st_epilogue *row = next_of(contraction, &at, ST_EPILOGUE_DIVIDE);
    const double divisor = row ? (double)(float)row->value : 1;
    to->factor = (scale ? (double)(float)scale->value : 1) / divisor;
    to->bias_factor = 1 / divisor;
    return (bias == NULL || bias->dtype == STATOR_F32) &&
           next_of(contraction, &at, ST_EPILOGUE_ROUND) && set_whole(contraction, at, to) &&
           divisor > 1 / DIVISOR_MAX && divisor < DIVISOR_MAX;
}

void dn_to_bytes_of(const st_contraction *contraction, dn_to_bytes *out)
{
    const bool is_signed = contraction->out.dtype == STATOR_I8;
    memset(out, 0, sizeof *out);
    if (contraction->acc_dtype != STATOR_I32 ||
        (!is_signed && contraction->out.dtype != STATOR_U8)) {
        return;
    }
    out->is_signed = is_signed;
    out->least = is_signed ? -128 : 0;
    out->greatest = is_signed ? 127 : 255;
    out->is_done = set_rows(contraction, out);
}
