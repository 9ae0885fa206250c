/* The inner loops of depthwise convolutions whose lanes are channels (dn_blocked.c), for one width
 * of vectors. Before: what dn_planes_isa.h asks for, and LOAD_FOURS, STORE_FOURS, UNPACK_LOW,
 * UNPACK_HIGH and SHUFFLE.
 *
 * Vectors of pixels are made of four pixels of each row at a time: vector k holds those of rows k,
 * k + 4, k + 8, ..., in which four by four elements are transposed. The last four of a row begin so
 * much earlier, and what they share with those before is done twice. */

/* Four by four elements of each sixteen bytes. */
INLINE void transpose_fours(vec v[4])
{
    const vec low01 = UNPACK_LOW(v[0], v[1]);
    const vec high01 = UNPACK_HIGH(v[0], v[1]);
    const vec low23 = UNPACK_LOW(v[2], v[3]);
    const vec high23 = UNPACK_HIGH(v[2], v[3]);
    v[0] = SHUFFLE(low01, low23, 0x44);
    v[1] = SHUFFLE(low01, low23, 0xee);
    v[2] = SHUFFLE(high01, high23, 0x44);
    v[3] = SHUFFLE(high01, high23, 0xee);
}

static void to_vectors(const float *const *rows, int64_t first, int64_t n, const int64_t *place,
                       float *to)
{
    for (int64_t i = 0; i < n && n < 4; i++) {
        for (int64_t lane = 0; lane < LANES; lane++) {
            to[place[i] * LANES + lane] = rows[lane][first + i];
        }
    }
    for (int64_t i = 0; i < n && n >= 4; i += 4) {
        const int64_t at = i + 4 <= n ? i : n - 4;
        vec v[4];
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            v[k] = LOAD_FOURS(rows + k, first + at);
        }
        transpose_fours(v);
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            memcpy(to + place[at + k] * LANES, &v[k], sizeof v[k]);
        }
    }
}

static void to_rows(const float *from, int64_t first, int64_t n, float *const *rows)
{
    for (int64_t i = 0; i < n && n < 4; i++) {
        for (int64_t lane = 0; lane < LANES; lane++) {
            rows[lane][first + i] = from[i * LANES + lane];
        }
    }
    for (int64_t i = 0; i < n && n >= 4; i += 4) {
        const int64_t at = i + 4 <= n ? i : n - 4;
        vec v[4];
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            v[k] = load(from + (at + k) * LANES);
        }
        transpose_fours(v);
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            STORE_FOURS(rows + k, first + at, v[k]);
        }
    }
}

/* Each lane's feature's number. */
INLINE vec load_features(const dn_block *b, const float *buffer)
{
    float lanes[LANES];
    if (b->count == LANES) {
        return load(buffer + b->feature);
    }
    for (int64_t i = 0; i < LANES; i++) {
        lanes[i] = buffer[b->feature + (i < b->count ? i : b->count - 1)];
    }
    return load(lanes);
}

/* One row of the epilogue over n vectors. A bound is not chosen over NaN. */
INLINE void apply_lanes(const dn_block *b, uint32_t place, vec *v, const int n)
{
    const st_epilogue *e = &b->p->op->contraction.epilogue[place];
    const float *buffer = b->p->at[DN_POST + place];
    const vec value = splat((float)e->value);
    const vec value2 = splat((float)e->value2);
    vec lanes = {0};
    if (e->kind == ST_EPILOGUE_BIAS || e->kind == ST_EPILOGUE_TIMES) {
        lanes = load_features(b, buffer);
    } else if (e->kind == ST_EPILOGUE_TIMES_ONE) {
        lanes = splat(buffer[0]);
    }
#define EACH(expression)                                                                           \
    _Pragma("GCC unroll 8") for (int k = 0; k < n; k++)                                            \
    {                                                                                              \
        v[k] = expression;                                                                         \
    }
    switch (e->kind) {
    case ST_EPILOGUE_BIAS:
        EACH(v[k] + lanes)
        break;
    case ST_EPILOGUE_TIMES:
    case ST_EPILOGUE_TIMES_ONE:
        EACH(v[k] * lanes)
        break;
    case ST_EPILOGUE_SCALE:
        EACH(v[k] * value)
        break;
    case ST_EPILOGUE_OFFSET:
        EACH(v[k] + value)
        break;
    case ST_EPILOGUE_RELU:
        EACH(choose(v[k] < 0.0f, (vec){0}, v[k]))
        break;
    default: /* CLIP */
        EACH(choose(v[k] < value, value, v[k]))
        EACH(choose(v[k] > value2, value2, v[k]))
        break;
    }
#undef EACH
}

/* The lines of the window that a line of the output meets. */
typedef struct met_lines {
    int64_t begin, end;
    int64_t x; /* place of the float that place 0 of line 0 meets for a tile's first pixel */
    float *out;
} met_lines;

/* n pixels of a line, the floats `step` apart that they meet. */
INLINE void sum_pixels(const dn_block *b, const met_lines *met, int64_t step, const int n)
{
    const dn_planes *p = b->p;
    const int64_t down = p->dilation[0] * p->pitch * LANES;
    const int64_t across = p->dilation[1] * LANES;
    vec sum[TILE] = {{0}};
    for (int64_t i = met->begin; i < met->end; i++) {
        const float *x = b->x + (met->x + i * down);
        const float *weights = b->weights + i * p->kernel[1] * LANES;
        for (int64_t j = 0; j < p->kernel[1]; j++, x += across, weights += LANES) {
            const vec weight = load(weights);
#pragma GCC unroll 8
            for (int k = 0; k < n; k++) {
                sum[k] += load(x + k * step) * weight;
            }
        }
    }
    for (uint32_t i = 0; i < p->op->contraction.n_epilogue; i++) {
        apply_lanes(b, i, sum, n);
    }
#pragma GCC unroll 8
    for (int k = 0; k < n; k++) {
        memcpy(met->out + k * LANES, &sum[k], sizeof sum[k]);
    }
}

#define PIXELS(n)                                                                                  \
    static __attribute__((noinline)) void sum_pixels_##n(const dn_block *b, const met_lines *met)  \
    {                                                                                              \
        if (b->p->stride[1] == 1) {                                                                \
            sum_pixels(b, met, LANES, n);                                                          \
        } else {                                                                                   \
            sum_pixels(b, met, b->p->stride[1] * LANES, n);                                        \
        }                                                                                          \
    }
PIXELS(1)
PIXELS(2)
PIXELS(3)
PIXELS(4)
PIXELS(5)
PIXELS(6)
#if TILE == 8
PIXELS(7)
PIXELS(8)
#endif
#undef PIXELS

static void run_block(const dn_block *b)
{
    static void (*const all[TILE])(const dn_block *b, const met_lines *met) = {
        sum_pixels_1,
        sum_pixels_2,
        sum_pixels_3,
        sum_pixels_4,
        sum_pixels_5,
        sum_pixels_6,
#if TILE == 8
        sum_pixels_7,
        sum_pixels_8
#endif
    };
    const dn_planes *p = b->p;
    const int64_t tiles = (p->out[1] + TILE - 1) / TILE;
    for (int64_t line = 0; line < b->out_lines; line++) {
        /* Line i of the window meets line top + i * dilation. */
        const int64_t top = b->top + line * p->stride[0];
        const int64_t above = top < 0 ? (-top + p->dilation[0] - 1) / p->dilation[0] : 0;
        const int64_t there = top < b->lines ? (b->lines - 1 - top) / p->dilation[0] + 1 : 0;
        met_lines met = {.begin = above, .end = there < p->kernel[0] ? there : p->kernel[0]};
        for (int64_t i = 0; i < tiles; i++) {
            const int64_t at = p->out[1] * i / tiles;
            met.x = (top * p->pitch + at * p->stride[1]) * LANES;
            met.out = b->out + (line * p->out[1] + at) * LANES;
            all[p->out[1] * (i + 1) / tiles - at - 1](b, &met);
        }
    }
}
