/* nonzero: places of the elements that are not zero, whose number only the data tells.
 *
 * Chunks are counted, then each writes its places behind those of the chunks before. Elements
 * are looked at as bits, 32 at a time: of a float all but the sign, so that -0 is zero and NaN
 * is not. */
#include "plugins/eager/eager.h"

#define CHUNK 16384
#define MASK 32

typedef struct search {
    const ek_tensor *x;
    int64_t count;   /* nonzero elements in all */
    int64_t *counts; /* by chunk; then places before it */
    int64_t *out;    /* [rank, count] */
} search;

/* Bit j: element j has a bit that counts. n up to MASK. */
#define MASK_OF(type)                                                                              \
    static uint32_t mask_of_##type(const void *data, int64_t n, type counts)                       \
    {                                                                                              \
        const type *x = data;                                                                      \
        uint32_t mask = 0;                                                                         \
        for (uint32_t j = 0; j < MASK && n == MASK; j++) {                                         \
            mask |= (uint32_t)((x[j] & counts) != 0) << j;                                         \
        }                                                                                          \
        for (uint32_t j = 0; (int64_t)j < n && n < MASK; j++) {                                    \
            mask |= (uint32_t)((x[j] & counts) != 0) << j;                                         \
        }                                                                                          \
        return mask;                                                                               \
    }

MASK_OF(uint8_t)
MASK_OF(uint16_t)
MASK_OF(uint32_t)
MASK_OF(uint64_t)

static uint32_t mask_of_complex(const ek_tensor *t, int64_t first, int64_t n)
{
    uint32_t mask = 0;
    for (int64_t j = 0; j < n; j++) {
        double x[2];
        st_load_c128(t->dtype, t->data, first + j, x);
        mask |= (uint32_t)(x[0] != 0 || x[1] != 0) << j;
    }
    return mask;
}

static uint32_t mask_at(const ek_tensor *t, int64_t first, int64_t n)
{
    const uint64_t bytes = st_element_bytes(t->dtype);
    const char *data = (const char *)t->data + (uint64_t)first * bytes;
    const uint64_t sign = ek_is_float(t->dtype) ? UINT64_C(1) << (bytes * 8u - 1u) : 0;
    if ((EK_COMPLEX >> t->dtype) & 1u) {
        return mask_of_complex(t, first, n);
    }
    switch (bytes) {
    case 1:
        return mask_of_uint8_t(data, n, (uint8_t)~sign);
    case 2:
        return mask_of_uint16_t(data, n, (uint16_t)~sign);
    case 4:
        return mask_of_uint32_t(data, n, (uint32_t)~sign);
    default:
        return mask_of_uint64_t(data, n, ~sign);
    }
}

static int64_t end_of(const search *s, int64_t chunk)
{
    return s->x->numel - chunk * CHUNK < CHUNK ? s->x->numel : (chunk + 1) * CHUNK;
}

/* Chunks [begin, end). */
static void count_range(void *self, int64_t begin, int64_t end)
{
    const search *s = self;
    for (int64_t c = begin; c < end; c++) {
        const int64_t last = end_of(s, c);
        int64_t n = 0;
        for (int64_t i = c * CHUNK; i < last; i += MASK) {
            n += __builtin_popcount(mask_at(s->x, i, last - i < MASK ? last - i : MASK));
        }
        s->counts[c] = n;
    }
}

/* The row along the last axis that an element is in, and where it begins. */
typedef struct row {
    int64_t begin, end;
    int64_t at[STATOR_RANK_MAX]; /* along all axes but the last */
} row;

static void find_row(const ek_tensor *x, int64_t i, row *out)
{
    const uint32_t last = x->rank - 1u;
    const int64_t number = i / x->dims[last];
    out->begin = number * x->dims[last];
    out->end = out->begin + x->dims[last];
    ek_unflatten(number, x->dims, last, out->at);
}

static void write_range(void *self, int64_t begin, int64_t end)
{
    const search *s = self;
    const uint32_t rank = s->x->rank;
    for (int64_t c = begin; c < end; c++) {
        const int64_t last = end_of(s, c);
        int64_t to = s->counts[c];
        row in = {.end = 0};
        for (int64_t i = c * CHUNK; i < last && rank > 0; i += MASK) {
            uint32_t mask = mask_at(s->x, i, last - i < MASK ? last - i : MASK);
            for (; mask; mask &= mask - 1u) {
                const int64_t at = i + (int64_t)__builtin_ctz(mask);
                if (at >= in.end) {
                    find_row(s->x, at, &in);
                }
                for (uint32_t a = 0; a + 1u < rank; a++) {
                    s->out[a * s->count + to] = in.at[a];
                }
                s->out[(rank - 1u) * s->count + to++] = at - in.begin;
            }
        }
    }
}

stator_status ek_nonzero(const ek_call *c, stator_diag **err)
{
    const ek_tensor *x = &c->in[0];
    const int64_t chunks = (x->numel + CHUNK - 1) / CHUNK;
    search s = {.x = x, .counts = ek_scratch(c, chunks + 1, sizeof *s.counts)};
    EK_TRY_MEM(s.counts != NULL, c, err);
    ek_parallel(c, chunks, 4, count_range, &s);
    for (int64_t i = 0; i < chunks; i++) {
        const int64_t n = s.counts[i];
        s.counts[i] = s.count;
        s.count += n;
    }
    const int64_t dims[2] = {x->rank, s.count};
    ST_TRY(ek_alloc_out(c, 0, dims, err));
    s.out = c->out[0].data;
    ek_parallel(c, chunks, 2, write_range, &s);
    return STATOR_OK;
}
