/* Attention by the library of inductor-cpu against the definition in f64, for vectors of each
 * width. Skipped where the build or the machine is without libdnnl. */
#include "dnnl_support.h"

#include "core/base/convert.h"
#include "core/base/diag.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

TestSuite(attention, .init = dnnl_begin, .fini = dnnl_end);

enum { Q = 0, K = 1, O = 2, V = 3, M = 4, N = 5 };

typedef struct attend {
    const char *name;
    int64_t batch, heads, groups, queries, keys, depth, width;
    uint32_t dtype;
    uint32_t mask;   /* dtype, 0: none */
    int64_t mask_of; /* bits: its axes that are not 1, 8 B .. 1 S */
    int is_causal;
    int is_interleaved; /* heads lie within the rows: B T H D, of one tensor; else B H T D */
    double scale;       /* 0: the usual one */
    double amplitude;   /* of q; 0: 1 */
} attend;

typedef struct world {
    st_contraction contraction;
    int64_t numbers[ST_CONTRACTION_NUMBERS_MAX];
    int64_t strides[N][4];
    int64_t elements[N];
    void *data[N];
} world;

static uint64_t state = 7;

static double noise(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(state >> 33) / (double)(1u << 30) - 1.0;
}

static void operand(world *w, int of, uint32_t dtype, const int64_t dims[4], int is_interleaved)
{
    st_contraction_operand *const operands[N] = {&w->contraction.x, &w->contraction.y,
                                                 &w->contraction.out, &w->contraction.sdpa.v,
                                                 &w->contraction.sdpa.mask};
    int64_t *s = w->strides[of];
    s[3] = 1;
    s[2] = is_interleaved ? dims[1] * dims[3] : dims[3];
    s[1] = is_interleaved ? dims[3] : dims[2] * dims[3];
    s[0] = dims[1] * dims[2] * dims[3];
    w->elements[of] = dims[0] * s[0];
    *operands[of] =
        (st_contraction_operand){.buffer = (uint32_t)of, .dtype = dtype, .offset = num(0)};
    for (int i = 0; i < 4; i++) {
        s[i] = of == M && dims[i] == 1 ? 0 : s[i];
        operands[of]->dims[i] = num(s[i]);
    }
}

static void fill_operand(world *w, const attend *a, int of, uint32_t dtype)
{
    w->data[of] = st_calloc(&f.mem, (uint64_t)w->elements[of] + 16u, 8);
    cr_assert(w->data[of] != NULL);
    for (int64_t i = 0; i < w->elements[of]; i++) {
        double x = noise() * (of == Q && a->amplitude != 0 ? a->amplitude : 1);
        if (of == M) {
            x = dtype == STATOR_BOOL ? x > -0.5 : x > 0.7 ? -INFINITY : 2 * x;
        }
        st_store_f64(dtype, w->data[of], i, x);
    }
}

static void world_init(world *w, const attend *a)
{
    const int64_t q[4] = {a->batch, a->heads, a->queries, a->depth};
    const int64_t k[4] = {a->batch, a->groups, a->keys, a->depth};
    const int64_t v[4] = {a->batch, a->groups, a->keys, a->width};
    const int64_t o[4] = {a->batch, a->heads, a->queries, a->width};
    const int64_t m[4] = {a->mask_of & 8 ? a->batch : 1, a->mask_of & 4 ? a->heads : 1,
                          a->mask_of & 2 ? a->queries : 1, a->mask_of & 1 ? a->keys : 1};
    *w = (world){
        .contraction = {.kind = ST_CONTRACTION_SDPA, .acc_dtype = STATOR_F32, .n_buffers = N}};
    w->contraction.syms = &syms;
    w->contraction.sdpa = (st_contraction_sdpa){.batch = num(a->batch),
                                                .heads = num(a->heads),
                                                .groups = num(a->groups),
                                                .queries = num(a->queries),
                                                .keys = num(a->keys),
                                                .depth = num(a->depth),
                                                .width = num(a->width),
                                                .has_mask = a->mask != 0,
                                                .is_causal = (uint32_t)a->is_causal,
                                                .has_scale = a->scale != 0,
                                                .scale = a->scale};
    operand(w, Q, a->dtype, q, a->is_interleaved);
    operand(w, K, a->dtype, k, a->is_interleaved);
    operand(w, V, a->dtype, v, a->is_interleaved);
    operand(w, O, a->dtype, o, a->is_interleaved);
    operand(w, M, a->mask, m, 0);
    for (int of = 0; of < N; of++) {
        fill_operand(w, a, of, of == M ? a->mask : a->dtype);
    }
    uint32_t numbers[ST_CONTRACTION_NUMBERS_MAX];
    const uint32_t n = st_contraction_numbers(&w->contraction, numbers);
    for (uint32_t i = 0; i < n; i++) {
        cr_assert(st_sym_const(&syms.tab, numbers[i], &w->numbers[i]));
    }
}

static void world_deinit(world *w)
{
    for (int of = 0; of < N; of++) {
        st_free(&f.mem, w->data[of]);
    }
}

static double at(const world *w, int of, uint32_t dtype, int64_t b, int64_t h, int64_t t, int64_t d)
{
    const int64_t *s = w->strides[of];
    return st_load_f64(dtype, w->data[of], b * s[0] + h * s[1] + t * s[2] + d * s[3]);
}

/* -INFINITY: not attended to. */
static double score(const world *w, const attend *a, int64_t b, int64_t h, int64_t t, int64_t s)
{
    const int64_t g = h / (a->heads / a->groups);
    double sum = 0;
    for (int64_t d = 0; d < a->depth; d++) {
        sum += at(w, Q, a->dtype, b, h, t, d) * at(w, K, a->dtype, b, g, s, d);
    }
    sum *= a->scale != 0 ? a->scale : 1 / sqrt((double)a->depth);
    const double mask = a->mask ? at(w, M, a->mask, b, h, t, s) : 0;
    if ((a->is_causal && s > t) || (a->mask == STATOR_BOOL && mask == 0) || mask == -INFINITY) {
        return -INFINITY;
    }
    return a->mask && a->mask != STATOR_BOOL ? sum + mask : sum;
}

static void compare_row(const world *w, const attend *a, int64_t b, int64_t h, int64_t t)
{
    const int64_t g = h / (a->heads / a->groups);
    const double unit = a->dtype == STATOR_BF16 ? 0x1p-8 : a->dtype == STATOR_F16 ? 0x1p-11 : 0;
    double x[2200];
    double max = -INFINITY;
    double n = 0;
    for (int64_t s = 0; s < a->keys; s++) {
        x[s] = score(w, a, b, h, t, s);
        max = x[s] > max || isnan(x[s]) ? x[s] : max;
    }
    for (int64_t s = 0; s < a->keys; s++) {
        x[s] = exp(x[s] - (max == -INFINITY ? 0 : max));
        n += x[s];
    }
    for (int64_t e = 0; e < a->width; e++) {
        double want = 0;
        for (int64_t s = 0; s < a->keys; s++) {
            want += x[s] == 0 ? 0 : x[s] * at(w, V, a->dtype, b, g, s, e);
        }
        want /= n == 0 ? 1 : n;
        const double got = at(w, O, a->dtype, b, h, t, e);
        const double error = fabs(got - want);
        cr_assert((isnan(want) && isnan(got)) || got == want || error <= 4e-6 + unit * fabs(want),
                  "%s: [%lld %lld %lld %lld] is %.9g, not %.9g", a->name, (long long)b,
                  (long long)h, (long long)t, (long long)e, got, want);
    }
}

static void run(const world *w, const attend *a)
{
    void *op = NULL;
    stator_diag *err = NULL;
    const st_library_call c = {.buffers = w->data, .numbers = w->numbers};
    cr_assert_eq(lib->takes(lib->self, &w->contraction), 1, "%s is not taken", a->name);
    cr_assert_eq(lib->create(lib->self, &w->contraction, &op, &err), STATOR_OK);
    cr_assert_eq(lib->run(lib->self, op, &c, &err), STATOR_OK, "%s", st_diag_text(err));
    cr_assert_str_eq(api->describe(op), "attention");
    lib->destroy(lib->self, op);
}

static void check_attention(const attend *a)
{
    world w;
    world_init(&w, a);
    run(&w, a);
    for (int64_t i = 0; i < a->batch * a->heads * a->queries; i++) {
        compare_row(&w, a, i / a->queries / a->heads, i / a->queries % a->heads, i % a->queries);
    }
    world_deinit(&w);
}

static const attend cases[] = {
    {"one of all", 1, 1, 1, 1, 1, 1, 1, STATOR_F32, 0, 0, 0, 0, 0, 0},
    {"one query, one block", 2, 3, 3, 1, 31, 64, 64, STATOR_F32, 0, 0, 0, 0, 0, 0},
    {"decoding", 1, 8, 2, 1, 600, 64, 64, STATOR_F32, 0, 0, 0, 0, 0, 0},
    {"decoding, odd depth", 1, 4, 2, 1, 70, 20, 20, STATOR_F32, 0, 0, 0, 1, 0, 0},
    {"few queries, causal", 1, 2, 1, 3, 9, 32, 32, STATOR_F32, 0, 0, 1, 0, 0, 0},
    {"eight", 1, 12, 12, 8, 8, 64, 64, STATOR_F32, 0, 0, 0, 1, 0, 0},
    {"bert", 2, 3, 3, 128, 128, 64, 64, STATOR_F32, STATOR_F32, 9, 0, 1, 0, 0},
    {"vit", 1, 3, 3, 197, 197, 64, 64, STATOR_F32, 0, 0, 0, 1, 0.125, 0},
    {"long", 1, 1, 1, 66, 530, 16, 40, STATOR_F32, 0, 0, 0, 0, 0, 0},
    {"many keys in panels", 1, 2, 1, 66, 1500, 16, 40, STATOR_F32, 0, 0, 0, 0, 0, 0},
    {"more keys than that", 1, 1, 1, 70, 2100, 16, 8, STATOR_F32, 0, 0, 0, 0, 0, 0},
    {"more keys than that, causal", 1, 1, 1, 2100, 2100, 8, 8, STATOR_F32, 0, 0, 1, 0, 0, 0},
    {"large scores", 1, 2, 2, 70, 300, 16, 8, STATOR_F32, 0, 0, 0, 0, 0, 60},
    {"causal", 1, 2, 2, 300, 300, 24, 24, STATOR_F32, 0, 0, 1, 1, 0, 0},
    {"causal, fewer keys", 1, 1, 1, 100, 40, 8, 8, STATOR_F32, 0, 0, 1, 0, 0, 0},
    {"grouped, causal", 2, 6, 2, 50, 50, 32, 32, STATOR_F32, 0, 0, 1, 1, 0, 0},
    {"mask of truth values", 2, 2, 2, 40, 65, 16, 16, STATOR_F32, STATOR_BOOL, 15, 0, 0, 0, 0},
    {"keys masked", 2, 2, 2, 40, 65, 16, 16, STATOR_F32, STATOR_BOOL, 9, 0, 0, 0, 0},
    {"mask of rows", 2, 2, 1, 70, 64, 16, 16, STATOR_F32, STATOR_F32, 7, 1, 0, 0, 0},
    {"one mask for all keys", 1, 2, 2, 20, 64, 16, 16, STATOR_F32, STATOR_BOOL, 2, 0, 0, 0, 0},
    {"negative scale", 1, 1, 1, 9, 33, 8, 8, STATOR_F32, 0, 0, 0, 0, -0.5, 0},
    {"bf16", 1, 2, 2, 70, 80, 64, 64, STATOR_BF16, STATOR_BF16, 3, 0, 1, 0, 0},
    {"bf16, one query", 1, 2, 2, 1, 80, 64, 64, STATOR_BF16, 0, 0, 0, 0, 0, 0},
    {"f16", 1, 2, 1, 33, 40, 20, 12, STATOR_F16, STATOR_F16, 1, 0, 0, 0, 0},
    {"no keys", 1, 2, 2, 5, 0, 8, 8, STATOR_F32, 0, 0, 0, 0, 0, 0},
    {"no queries", 1, 2, 2, 0, 5, 8, 8, STATOR_F32, 0, 0, 0, 0, 0, 0},
    /* Panels that several blocks of queries use, on three threads, one and two. */
    {"kept, causal", 2, 4, 4, 300, 300, 16, 24, STATOR_F32, 0, 0, 1, 1, 0, 0},
    {"kept", 1, 4, 4, 150, 500, 16, 40, STATOR_F32, 0, 0, 0, 0, 0, 0},
    {"kept, grouped", 1, 4, 1, 150, 290, 16, 16, STATOR_F32, 0, 0, 0, 1, 0, 0},
    {"rows a page apart", 1, 16, 16, 16, 40, 64, 64, STATOR_F32, 0, 0, 0, 1, 0, 0},
    /* So many heads that each asks for the next one's rows, in parts too. */
    {"heads ahead", 4, 24, 24, 64, 80, 64, 32, STATOR_F32, STATOR_F32, 9, 0, 1, 0, 0},
    {"grouped heads ahead", 1, 12, 2, 130, 512, 320, 320, STATOR_F32, 0, 0, 0, 1, 0, 0},
};

static void check_all(uint32_t flags)
{
    api->close(lib);
    open_with(flags);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        f.threads = 1 + (int32_t)(i % 3);
        check_attention(&cases[i]);
    }
}

Test(attention, widest_vectors_of_the_processor)
{
    check_all(0);
}

Test(attention, vectors_of_32_bytes)
{
    check_all(DNNL_VECTORS_32);
}

Test(attention, vectors_of_16_bytes)
{
    check_all(DNNL_VECTORS_16);
}

/* What a key holds that is not attended to does not matter; NaN and inf that are do. */
static void check_not_finite(const attend *a, int is_masked)
{
    static const struct {
        int of;
        int64_t row, column;
        double value;
    } plants[] = {{V, 5, 3, NAN},        {V, 299, 0, INFINITY}, {K, 7, 0, NAN},
                  {K, 260, 2, INFINITY}, {Q, 3, 0, NAN},        {Q, 2, 8, -INFINITY}};
    for (size_t i = 0; i < sizeof plants / sizeof plants[0]; i++) {
        world w;
        world_init(&w, a);
        const int64_t place = plants[i].row * w.strides[plants[i].of][2] + plants[i].column;
        st_store_f64(STATOR_F32, w.data[plants[i].of], place, plants[i].value);
        for (int64_t s = 0; s < a->keys; s++) {
            const int is_planted = s == 5 || s == 299 || s == 7 || s == 260;
            ((uint8_t *)w.data[M])[s] = !(is_masked && is_planted);
        }
        run(&w, a);
        for (int64_t row = 0; row < a->heads * a->queries; row++) {
            compare_row(&w, a, 0, row / a->queries, row % a->queries);
        }
        world_deinit(&w);
    }
}

/* Quotients of 32 columns go straight to the output, of 8 by way of scratch. */
Test(attention, infinities_and_nan_propagate)
{
    static const uint32_t vectors[] = {0, DNNL_VECTORS_32, DNNL_VECTORS_16};
    attend a = {"not finite", 1, 2, 2, 70, 300, 16, 8, STATOR_F32, STATOR_BOOL, 9, 0, 0, 0, 0};
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        api->close(lib);
        open_with(vectors[i]);
        for (a.width = 8; a.width <= 32; a.width += 24) {
            check_not_finite(&a, 0);
            check_not_finite(&a, 1);
        }
    }
}

/* Exporters write -1e9 and the like where a key is not attended to. */
Test(attention, large_negative_mask_attends_to_nothing)
{
    static const uint32_t vectors[] = {0, DNNL_VECTORS_32, DNNL_VECTORS_16};
    static const double numbers[] = {-1e4, -1e9, -3.4028234e38};
    static const attend a = {"large",    1,          2, 2, 20, 300, 16, 8,
                             STATOR_F32, STATOR_F32, 9, 0, 0,  0,   0};
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        world w;
        api->close(lib);
        open_with(vectors[i]);
        world_init(&w, &a);
        for (int64_t k = 0; k < w.elements[M]; k++) {
            if (isinf(st_load_f64(STATOR_F32, w.data[M], k))) {
                st_store_f64(STATOR_F32, w.data[M], k, numbers[k % 3]);
            }
        }
        run(&w, &a);
        for (int64_t row = 0; row < a.heads * a.queries; row++) {
            compare_row(&w, &a, 0, row / a.queries, row % a.queries);
        }
        world_deinit(&w);
    }
}

/* Rows that attend to nothing are 0. */
Test(attention, fully_masked_rows_are_zero)
{
    static const attend a = {"nothing",  1,           1, 1, 4, 40, 8, 8,
                             STATOR_F32, STATOR_BOOL, 3, 0, 0, 0,  0};
    world w;
    world_init(&w, &a);
    memset(w.data[M], 0, 2 * 40); /* the first two rows */
    run(&w, &a);
    for (int64_t i = 0; i < 16; i++) {
        cr_assert_eq(((const float *)w.data[O])[i], 0.0f);
    }
    compare_row(&w, &a, 0, 0, 3);
    world_deinit(&w);
}

Test(attention, f64_is_refused)
{
    static const attend wide = {"f64", 1, 1, 1, 4, 4, 8, 8, STATOR_F64, 0, 0, 0, 0, 0, 0};
    world w;
    world_init(&w, &wide);
    cr_assert_eq(lib->takes(lib->self, &w.contraction), 0);
    world_deinit(&w);
}

/* The contraction as the compile cache keeps it. */
Test(attention, contraction_round_trips_through_the_compile_cache)
{
    const attend *a = &cases[6];
    stator_diag *err = NULL;
    uint32_t numbers[ST_CONTRACTION_NUMBERS_MAX];
    uint32_t unread = 0;
    void *op = NULL;
    void *again = NULL;
    st_str bytes;
    world w;
    world_init(&w, a);
    st_str_init(&bytes, &f.mem);
    cr_assert_eq(lib->create(lib->self, &w.contraction, &op, &err), STATOR_OK);
    cr_assert_eq(lib->op_save(lib->self, op, &bytes, &err), STATOR_OK);
    st_library_kept kept = {.bytes = bytes.data,
                            .size_bytes = bytes.len,
                            .n_buffers = N,
                            .n_numbers = st_contraction_numbers(&w.contraction, numbers),
                            .numbers = w.numbers,
                            .is_static = 1};
    cr_assert_eq(lib->op_load(lib->self, &kept, &again, &unread, &err), STATOR_OK, "%s",
                 st_diag_text(err));
    cr_assert_eq(unread, UINT32_MAX);
    const st_library_call c = {.buffers = w.data, .numbers = w.numbers};
    cr_assert_eq(lib->run(lib->self, again, &c, &err), STATOR_OK);
    compare_row(&w, a, 1, 2, 77);
    lib->destroy(lib->self, again);
    kept.n_buffers = 3; /* v and the mask are not there then */
    cr_assert_eq(lib->op_load(lib->self, &kept, &again, &unread, &err), STATOR_DATA_LOSS);
    st_diag_release(err);
    err = NULL;
    kept.n_buffers = N; /* an epilogue, which attention has not, however long */
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t counts[3] = {1, ST_CONTRACTION_EPILOGUE_MAX + 1u, UINT32_MAX};
        memcpy(bytes.data + sizeof(uint64_t) + offsetof(st_contraction, n_epilogue), &counts[i],
               sizeof counts[i]);
        cr_assert_eq(lib->op_load(lib->self, &kept, &again, &unread, &err), STATOR_DATA_LOSS);
        st_diag_release(err);
        err = NULL;
    }
    lib->destroy(lib->self, op);
    st_str_deinit(&bytes);
    world_deinit(&w);
}
