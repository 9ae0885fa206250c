/* Epilogues that make bytes of sums of integers, as QuantizeLinear behind a contraction does, in
 * one go (dn_bytes_256.c):
 *
 *     sum -> times numbers -> + bias -> / divisor -> nearest whole number -> + offset -> byte
 *
 * In: a form. Out: its epilogue as dn_to_bytes, where it is of that kind. The byte is the one that
 * the rows give one after the other. What is divided is multiplied with the reciprocal in two
 * parts; that this rounds to the same whole numbers is tried for the divisor that there is, at
 * each place where the whole number changes. Both ways never fall where the dividend grows, so
 * between those places they agree as well. */
#include "dn.h"

#include <math.h>
#include <string.h>

/* Numbers before the offset that can still become different bytes. */
#define WHOLE_MOST 256
#define STEPS 4              /* of a float on either side of where it changes */
#define DIVISOR_MOST 0x1p60f /* all products are normal numbers, or become the outermost bytes */

/* ---- quotients ---- */

/* Divided and multiplied alike next to the dividend at which `below` becomes below + 1? */
static int is_edge_alike(const dn_to_bytes *to, float divisor, int below)
{
    float at = ((float)below + 0.5f) * divisor;
    for (int i = 0; i < STEPS; i++) {
        at = nextafterf(at, -INFINITY);
    }
    for (int i = -STEPS; i <= STEPS; i++, at = nextafterf(at, INFINITY)) {
        const float whole = rintf(at / divisor);
        if (whole != rintf(fmaf(at, to->high, at * to->low)) ||
            (i == -STEPS && whole != (float)below) || (i == STEPS && whole != (float)(below + 1))) {
            return 0;
        }
    }
    return 1;
}

static int set_divisor(dn_to_bytes *to, double divisor_)
{
    const float divisor = (float)divisor_;
    if (!(divisor > 1 / DIVISOR_MOST && divisor < DIVISOR_MOST)) {
        return 0;
    }
    const double reciprocal = 1.0 / (double)divisor;
    to->high = (float)reciprocal;
    to->low = (float)(reciprocal - (double)to->high);
    to->most = 2 * WHOLE_MOST * divisor;
    for (int k = -WHOLE_MOST; k < WHOLE_MOST; k++) {
        if (!is_edge_alike(to, divisor, k)) {
            return 0;
        }
    }
    return 1;
}

/* ---- the rows ---- */

static int is_whole(double value)
{
    return value == rint(value);
}

/* What follows the rounding: an offset that the dtype has, and bounds. */
static int set_whole(const st_form *form, uint32_t at, dn_to_bytes *to)
{
    const st_epilogue *e = &form->epilogue[at];
    if (at < form->n_epilogue && e->kind == ST_EPILOGUE_OFFSET) {
        if (!(e->value >= to->least && e->value <= to->greatest)) {
            return 0;
        }
        to->offset = (int16_t)e->value;
        e++;
        at++;
    }
    if (to->is_positive && to->offset > to->least) {
        to->least = to->offset;
    }
    if (at < form->n_epilogue && e->kind == ST_EPILOGUE_CLIP) {
        if (!is_whole(e->value) || !is_whole(e->value2) || e->value < to->least ||
            e->value2 > to->greatest || e->value > e->value2) {
            return 0;
        }
        to->least = (int16_t)e->value;
        to->greatest = (int16_t)e->value2;
        at++;
    }
    return at == form->n_epilogue;
}

/* The row, where it is of the kind: *at goes on. */
static const st_epilogue *next_of(const st_form *form, uint32_t *at, uint32_t kind)
{
    const st_epilogue *e = &form->epilogue[*at];
    const int is_next = *at < form->n_epilogue && e->kind == kind;
    *at += (uint32_t)is_next;
    return is_next ? e : NULL;
}

static int set_rows(const st_form *form, dn_to_bytes *to)
{
    uint32_t at = 0;
    if (next_of(form, &at, ST_EPILOGUE_BIAS) && form->epilogue[0].dtype != STATOR_I32) {
        at = 0;
    }
    const st_epilogue *scale = next_of(form, &at, ST_EPILOGUE_SCALE);
    to->scale = scale ? (float)scale->value : 1.0f;
    to->times = next_of(form, &at, ST_EPILOGUE_TIMES) ? at : 0;
    const st_epilogue *bias = next_of(form, &at, ST_EPILOGUE_BIAS);
    to->bias = bias ? at : 0;
    to->is_positive = next_of(form, &at, ST_EPILOGUE_RELU) != NULL;
    const st_epilogue *divisor = next_of(form, &at, ST_EPILOGUE_DIVIDE);
    return (bias == NULL || bias->dtype == STATOR_F32) && next_of(form, &at, ST_EPILOGUE_ROUND) &&
           set_whole(form, at, to) && set_divisor(to, divisor ? divisor->value : 1);
}

void dn_to_bytes_of(const st_form *form, dn_to_bytes *out)
{
    const int is_signed = form->out.dtype == STATOR_I8;
    memset(out, 0, sizeof *out);
    if (form->acc_dtype != STATOR_I32 || (!is_signed && form->out.dtype != STATOR_U8)) {
        return;
    }
    out->is_signed = is_signed;
    out->least = is_signed ? -128 : 0;
    out->greatest = is_signed ? 127 : 255;
    out->is_done = set_rows(form, out);
}
