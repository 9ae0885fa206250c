/* What makers of nodes share: operands that fit, attributes as text. */
#include "gf_make.h"

#include <stdarg.h>
#include <stdio.h>

#define N(list) ((int64_t)(sizeof(list) / sizeof((list)[0])))

int gf_is_float(uint8_t d)
{
    return d >= STATOR_BF16 && d <= STATOR_F64;
}

int gf_is_int(uint8_t d)
{
    return d >= STATOR_I8 && d <= STATOR_U64;
}

int gf_is_number(uint8_t d)
{
    return gf_is_float(d) || gf_is_int(d);
}

int gf_is_bool(uint8_t d)
{
    return d == STATOR_BOOL;
}

int gf_is_any(uint8_t d)
{
    return d != 0;
}

/* A value of such a dtype and of at least this rank, newer ones more often; -1: none. What is
 * wanted next is taken whatever its dtype. */
int gf_pick(gf_program *p, int (*fits)(uint8_t), int rank)
{
    const int next = p->next - 1;
    p->next = 0;
    if (next >= 0) {
        return p->values[next].rank >= rank ? next : -1;
    }
    for (int tries = 0; tries < 12; tries++) {
        const int64_t back = gf_below(p, 1 + gf_below(p, p->n_values));
        const int v = p->n_values - 1 - (int)back;
        if (fits(p->values[v].dtype) && p->values[v].rank >= rank && !p->values[v].is_index) {
            return v;
        }
    }
    return -1;
}

int gf_pick_axis(gf_program *p, const gf_value *v)
{
    return (int)gf_below(p, v->rank);
}

void gf_attrs(gf_program *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(gf_newest(p)->attrs, GF_LONG, format, args);
    va_end(args);
}

/* "[a, b]" of sizes. */
const char *gf_list(const gf_dim *dims, int n, char out[GF_ATTRS])
{
    size_t len = (size_t)snprintf(out, GF_ATTRS, "[");
    for (int i = 0; i < n; i++) {
        char text[64];
        gf_dim_text(dims[i], text);
        len += (size_t)snprintf(out + len, GF_ATTRS - len, "%s%s", i ? ", " : "", text);
    }
    (void)snprintf(out + len, GF_ATTRS - len, "]");
    return out;
}

const char *gf_ints(const int64_t *list, int n, char out[GF_ATTRS])
{
    gf_dim dims[2 * GF_RANK] = {{0, 0, 0}};
    for (int i = 0; i < n; i++) {
        dims[i] = gf_const(list[i]);
    }
    return gf_list(dims, n, out);
}

/* A copy of a value's type: the array may move while nodes are added. */
gf_value gf_type_of(const gf_program *p, int v)
{
    return p->values[v];
}

void gf_set_noise(gf_program *p, int noise, int64_t folded)
{
    gf_newest(p)->noise = noise;
    gf_newest(p)->folded = folded;
}

/* A partner of the same dtype that broadcasts with v: a value there is, a scalar, or an input that
 * lacks some of v's axes. */
int gf_partner(gf_program *p, int v)
{
    const gf_value t = gf_type_of(p, v);
    for (int tries = 0; tries < 8; tries++) {
        const int u = (int)gf_below(p, p->n_values);
        const gf_value *o = &p->values[u];
        int fits = o->dtype == t.dtype && !o->is_index;
        for (int k = 1; fits && k <= o->rank && k <= t.rank; k++) {
            const gf_dim x = t.dims[t.rank - k];
            const gf_dim y = o->dims[o->rank - k];
            fits = gf_same_dim(x, y) || gf_is_const(x, 1) || gf_is_const(y, 1);
        }
        if (fits) {
            return u;
        }
    }
    if (gf_chance(p, 25)) {
        static const double numbers[] = {0, 1, 2, 3, 7};
        return gf_scalar(p, t.dtype, numbers[gf_below(p, N(numbers))]);
    }
    const int dropped = (int)gf_below(p, t.rank + 1);
    gf_dim dims[GF_RANK] = {{0, 0, 0}};
    for (int a = dropped; a < t.rank; a++) {
        dims[a - dropped] = gf_chance(p, 25) ? gf_const(1) : t.dims[a];
    }
    return gf_input(p, t.dtype, t.rank - dropped, dims);
}

int gf_broadcast(const gf_program *p, const int *args, int n, gf_dim *dims)
{
    int rank = 0;
    for (int k = 0; k < n; k++) {
        rank = p->values[args[k]].rank > rank ? p->values[args[k]].rank : rank;
    }
    for (int a = 0; a < rank; a++) {
        dims[a] = gf_const(1);
    }
    for (int k = 0; k < n; k++) {
        const gf_value *v = &p->values[args[k]];
        for (int a = 0; a < v->rank; a++) {
            gf_dim *d = &dims[rank - v->rank + a];
            *d = gf_is_const(*d, 1) ? v->dims[a] : *d;
        }
    }
    return rank;
}
