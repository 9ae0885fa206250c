/* The gradient of attention by the library of inductor-cpu against the definition in f64, for
 * vectors of each width. Skipped where the build or the machine is without libdnnl. */
#include "dnnl_support.h"

#include "core/base/convert.h"
#include "core/base/diag.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

TestSuite(attention_gradient, .init = dnnl_begin, .fini = dnnl_end);

enum { Q, K, V, DY, M, DQ, DK, DV, N };

#define KEYS_MAX 2200

typedef struct attend {
    const char *name;
    int64_t batch, heads, groups, queries, keys, depth, width;
    uint32_t mask;   /* dtype, 0: none */
    int64_t mask_of; /* bits: its axes that are not 1, 8 B .. 1 S */
    int is_causal;
    int is_interleaved; /* heads lie within the rows: B T H D; else B H T D */
    int is_turned;      /* elements of a row lie a row's length apart */
    double scale;       /* 0: the usual one */
    int is_finite;
} attend;

typedef struct world {
    st_contraction contraction;
    int64_t numbers[ST_CONTRACTION_NUMBERS_MAX];
    int64_t strides[N][4];
    int64_t elements[N];
    void *data[N];
    double *want[3]; /* dq, dk, dv, dense */
} world;

static uint64_t state = 11;

static double noise(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(state >> 33) / (double)(1u << 30) - 1.0;
}

static st_contraction_operand *operand_of(world *w, int of)
{
    st_contraction_sdpa *s = &w->contraction.sdpa;
    st_contraction_operand *const operands[N] = {
        &w->contraction.x, &w->contraction.y,   &s->v,  &s->dy,
        &s->mask,          &w->contraction.out, &s->dk, &s->dv};
    return operands[of];
}

static void operand(world *w, const attend *a, int of, const int64_t dims[4])
{
    int64_t *s = w->strides[of];
    const int is_row = of != M && a->is_interleaved;
    s[3] = 1;
    s[2] = is_row ? dims[1] * dims[3] : dims[3];
    s[1] = is_row ? dims[3] : dims[2] * dims[3];
    s[0] = dims[1] * dims[2] * dims[3];
    if (a->is_turned && of != M && !is_row) {
        s[3] = dims[2];
        s[2] = 1;
    }
    w->elements[of] = dims[0] * s[0];
    *operand_of(w, of) = (st_contraction_operand){
        .buffer = (uint32_t)of, .dtype = of == M ? a->mask : STATOR_F32, .offset = num(0)};
    for (int i = 0; i < 4; i++) {
        s[i] = of == M && dims[i] == 1 ? 0 : s[i];
        operand_of(w, of)->dims[i] = num(s[i]);
    }
    w->data[of] = st_calloc(&f.mem, (uint64_t)w->elements[of] + 16u, 8);
    cr_assert(w->data[of] != NULL);
    for (int64_t i = 0; of < DQ && i < w->elements[of]; i++) {
        const double x = noise();
        const double added = a->mask == STATOR_BOOL ? x > -0.5 : x > 0.7 ? -INFINITY : 2 * x;
        st_store_f64(of == M ? a->mask : STATOR_F32, w->data[of], i, of == M ? added : x);
    }
}

static void world_init(world *w, const attend *a)
{
    const int64_t q[4] = {a->batch, a->heads, a->queries, a->depth};
    const int64_t k[4] = {a->batch, a->groups, a->keys, a->depth};
    const int64_t v[4] = {a->batch, a->groups, a->keys, a->width};
    const int64_t y[4] = {a->batch, a->heads, a->queries, a->width};
    const int64_t m[4] = {a->mask_of & 8 ? a->batch : 1, a->mask_of & 4 ? a->heads : 1,
                          a->mask_of & 2 ? a->queries : 1, a->mask_of & 1 ? a->keys : 1};
    const int64_t *const dims[N] = {q, k, v, y, m, q, k, v};
    *w =
        (world){.contraction = {
                    .kind = ST_CONTRACTION_SDPA_GRADIENT, .acc_dtype = STATOR_F32, .n_buffers = N}};
    w->contraction.syms = &syms;
    w->contraction.sdpa = (st_contraction_sdpa){.batch = num(a->batch),
                                                .heads = num(a->heads),
                                                .groups = num(a->groups),
                                                .queries = num(a->queries),
                                                .keys = num(a->keys),
                                                .depth = num(a->depth),
                                                .width = num(a->width),
                                                .has_mask = a->mask != 0,
                                                .is_finite = (uint32_t)a->is_finite,
                                                .is_causal = (uint32_t)a->is_causal,
                                                .has_scale = a->scale != 0,
                                                .scale = a->scale};
    for (int of = 0; of < N; of++) {
        operand(w, a, of, dims[of]);
    }
    for (int r = 0; r < 3; r++) {
        w->want[r] = st_calloc(&f.mem, (uint64_t)w->elements[DQ + r] + 1u, sizeof(double));
        cr_assert(w->want[r] != NULL);
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
    for (int r = 0; r < 3; r++) {
        st_free(&f.mem, w->want[r]);
    }
}

static int64_t place(const world *w, int of, int64_t b, int64_t h, int64_t t, int64_t d)
{
    const int64_t *s = w->strides[of];
    return b * s[0] + h * s[1] + t * s[2] + d * s[3];
}

static double at(const world *w, int of, int64_t b, int64_t h, int64_t t, int64_t d)
{
    const uint32_t dtype = of == M ? w->contraction.sdpa.mask.dtype : (uint32_t)STATOR_F32;
    return st_load_f64(dtype, w->data[of], place(w, of, b, h, t, d));
}

static double finite(double x)
{
    return isfinite(x) ? x : 0;
}

/* -INFINITY: not attended to. */
static double score(const world *w, const attend *a, int64_t b, int64_t h, int64_t t, int64_t s)
{
    double sum = 0;
    for (int64_t d = 0; d < a->depth; d++) {
        sum += at(w, Q, b, h, t, d) * at(w, K, b, h / (a->heads / a->groups), s, d);
    }
    sum *= a->scale != 0 ? a->scale : 1 / sqrt((double)a->depth);
    const double mask = a->mask ? at(w, M, b, h, t, s) : 0;
    if ((a->is_causal && s > t) || (a->mask == STATOR_BOOL && mask == 0) || mask == -INFINITY) {
        return -INFINITY;
    }
    return a->mask && a->mask != STATOR_BOOL ? sum + mask : sum;
}

/* What a row of queries adds to the gradients. */
static void add_row(world *w, const attend *a, int64_t b, int64_t h, int64_t t)
{
    static double p[KEYS_MAX], dp[KEYS_MAX];
    const int64_t g = h / (a->heads / a->groups);
    const double scale = a->scale != 0 ? a->scale : 1 / sqrt((double)a->depth);
    double max = -INFINITY, n = 0, mean = 0;
    for (int64_t s = 0; s < a->keys; s++) {
        p[s] = score(w, a, b, h, t, s);
        max = p[s] > max ? p[s] : max;
    }
    for (int64_t s = 0; s < a->keys; s++) {
        p[s] = exp(p[s] - (max == -INFINITY ? 0 : max));
        n += p[s];
    }
    for (int64_t s = 0; s < a->keys; s++) {
        p[s] /= n == 0 ? 1 : n;
        dp[s] = 0;
        for (int64_t e = 0; e < a->width; e++) {
            dp[s] += at(w, DY, b, h, t, e) * finite(at(w, V, b, g, s, e));
        }
        mean += p[s] * dp[s];
    }
    for (int64_t s = 0; s < a->keys; s++) {
        const double ds = scale * p[s] * (dp[s] - mean);
        for (int64_t d = 0; d < a->depth; d++) {
            w->want[0][place(w, DQ, b, h, t, d)] += ds * finite(at(w, K, b, g, s, d));
            w->want[1][place(w, DK, b, g, s, d)] += ds * finite(at(w, Q, b, h, t, d));
        }
        for (int64_t e = 0; e < a->width; e++) {
            w->want[2][place(w, DV, b, g, s, e)] += p[s] * at(w, DY, b, h, t, e);
        }
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
    cr_assert_str_eq(api->describe(op), "gradient of attention");
    lib->destroy(lib->self, op);
}

/* Sums of f32 of up to as many products as rows or keys, all below 2. */
static void compare_all(world *w, const attend *a)
{
    static const char *const names[] = {"dq", "dk", "dv"};
    for (int64_t i = 0; i < a->batch * a->heads * a->queries; i++) {
        add_row(w, a, i / a->queries / a->heads, i / a->queries % a->heads, i % a->queries);
    }
    run(w, a);
    for (int r = 0; r < 3; r++) {
        for (int64_t i = 0; i < w->elements[DQ + r]; i++) {
            const double want = w->want[r][i];
            const double got = st_load_f64(STATOR_F32, w->data[DQ + r], i);
            cr_assert((isnan(want) && isnan(got)) || fabs(got - want) <= 4e-6 + 4e-6 * fabs(want),
                      "%s: %s[%lld] is %.9g, not %.9g", a->name, names[r], (long long)i, got, want);
        }
    }
}

static const attend cases[] = {
    {"one of all", 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0},
    {"one query", 2, 3, 3, 1, 31, 64, 64, 0, 0, 0, 0, 0, 0, 1},
    {"few queries, causal", 1, 2, 1, 3, 9, 32, 32, 0, 0, 1, 0, 0, 0, 0},
    {"bert", 2, 3, 3, 128, 128, 64, 64, STATOR_F32, 9, 0, 1, 0, 0, 1},
    {"vit", 1, 3, 3, 197, 197, 64, 64, 0, 0, 0, 1, 0, 0.125, 1},
    {"odd sizes", 1, 2, 2, 67, 45, 19, 37, 0, 0, 0, 0, 0, 0, 0},
    {"many keys", 1, 2, 1, 66, 1500, 16, 40, 0, 0, 0, 0, 0, 0, 0},
    {"more keys than that, causal", 1, 1, 1, 300, 2100, 8, 8, 0, 0, 1, 0, 0, 0, 0},
    {"causal", 1, 2, 2, 300, 300, 24, 24, 0, 0, 1, 1, 0, 0, 1},
    {"causal, fewer keys", 1, 1, 1, 100, 40, 8, 8, 0, 0, 1, 0, 0, 0, 0},
    {"grouped, causal", 2, 6, 2, 50, 50, 32, 32, 0, 0, 1, 1, 0, 0, 0},
    {"grouped, turned", 1, 4, 1, 30, 70, 33, 20, 0, 0, 0, 0, 1, 0, 0},
    {"mask of truth values", 2, 2, 2, 40, 65, 16, 16, STATOR_BOOL, 15, 0, 0, 0, 0, 0},
    {"keys masked", 2, 2, 2, 40, 65, 16, 16, STATOR_BOOL, 9, 0, 0, 0, 0, 1},
    {"mask of rows", 2, 2, 1, 70, 64, 16, 16, STATOR_F32, 7, 1, 0, 0, 0, 0},
    {"one mask for all keys", 1, 2, 2, 20, 64, 16, 16, STATOR_BOOL, 2, 0, 0, 0, 0, 0},
    {"negative scale", 1, 1, 1, 9, 33, 8, 8, 0, 0, 0, 0, 0, -0.5, 0},
    {"no keys", 1, 2, 2, 5, 0, 8, 8, 0, 0, 0, 0, 0, 0, 0},
    {"no queries", 1, 2, 2, 0, 5, 8, 8, 0, 0, 0, 0, 0, 0, 0},
};

static void check_all(uint32_t flags)
{
    api->close(lib);
    open_with(flags);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        world w;
        f.threads = 1 + (int32_t)(i % 3);
        world_init(&w, &cases[i]);
        compare_all(&w, &cases[i]);
        world_deinit(&w);
    }
}

Test(attention_gradient, widest_vectors_of_the_processor)
{
    check_all(0);
}

Test(attention_gradient, vectors_of_32_bytes)
{
    check_all(DNNL_VECTORS_32);
}

Test(attention_gradient, vectors_of_16_bytes)
{
    check_all(DNNL_VECTORS_16);
}

/* Whatever a key and its value are that nobody attends to, they count nothing; a row that attends
 * to nothing gives 0. */
Test(attention_gradient, keys_and_rows_of_no_weight)
{
    static const attend a = {"no weight", 1, 2, 1, 70, 90, 16, 40, STATOR_BOOL, 3, 0, 0, 0, 0, 0};
    world w;
    world_init(&w, &a);
    for (int64_t t = 0; t < a.queries; t++) {
        for (int64_t s = 0; s < a.keys; s++) {
            ((uint8_t *)w.data[M])[t * a.keys + s] = t != 5 && t != 66 && s != 3 && s != 80;
        }
    }
    st_store_f64(STATOR_F32, w.data[K], place(&w, K, 0, 0, 3, 2), NAN);
    st_store_f64(STATOR_F32, w.data[K], place(&w, K, 0, 0, 80, 0), -INFINITY);
    st_store_f64(STATOR_F32, w.data[V], place(&w, V, 0, 0, 3, 39), INFINITY);
    st_store_f64(STATOR_F32, w.data[V], place(&w, V, 0, 0, 80, 7), NAN);
    compare_all(&w, &a);
    for (int64_t d = 0; d < a.depth; d++) {
        cr_expect_eq(at(&w, DQ, 0, 1, 66, d), 0);
        cr_expect_eq(at(&w, DK, 0, 0, 80, d), 0);
    }
    world_deinit(&w);
}

/* A head has one thread: equal bits with any number of them. */
Test(attention_gradient, bits_are_those_of_one_thread)
{
    static const attend a = {"bits", 2, 6, 3, 130, 150, 32, 24, 0, 0, 1, 0, 0, 0, 1};
    world w;
    world_init(&w, &a);
    void *first[3];
    for (int r = 0; r < 3; r++) {
        first[r] = st_calloc(&f.mem, (uint64_t)w.elements[DQ + r], sizeof(float));
        cr_assert(first[r] != NULL);
    }
    for (int32_t threads = 1; threads <= 4; threads++) {
        f.threads = threads;
        run(&w, &a);
        for (int r = 0; r < 3; r++) {
            const size_t bytes = (size_t)w.elements[DQ + r] * sizeof(float);
            if (threads == 1) {
                memcpy(first[r], w.data[DQ + r], bytes);
            }
            cr_expect_eq(memcmp(first[r], w.data[DQ + r], bytes), 0, "%d threads", threads);
        }
    }
    for (int r = 0; r < 3; r++) {
        st_free(&f.mem, first[r]);
    }
    world_deinit(&w);
}

/* What nobody reads has no buffer. */
Test(attention_gradient, results_that_nobody_reads)
{
    static const attend a = {"unread", 1, 2, 2, 33, 40, 16, 24, 0, 0, 0, 0, 0, 0, 1};
    for (int unread = DQ; unread < N; unread++) {
        world w;
        world_init(&w, &a);
        operand_of(&w, unread)->buffer = UINT32_MAX;
        run(&w, &a);
        for (int of = DQ; of < N; of++) {
            int64_t n_set = 0;
            for (int64_t i = 0; i < w.elements[of]; i++) {
                n_set += ((const float *)w.data[of])[i] != 0;
            }
            cr_expect_eq(n_set != 0, of != unread);
        }
        world_deinit(&w);
    }
}

/* Operands that are expanded have few bytes and any number of keys: no scratch holds those. */
Test(attention_gradient, keys_that_no_memory_holds)
{
    static const attend a = {"many keys", 1, 2, 2, 33, 40, 16, 24, 0, 0, 0, 0, 0, 0, 1};
    const int64_t many[] = {INT64_C(1) << 40, INT64_C(1) << 58};
    world w;
    world_init(&w, &a);
    for (size_t i = 0; i < sizeof many / sizeof many[0]; i++) {
        void *op = NULL;
        stator_diag *err = NULL;
        const st_library_call c = {.buffers = w.data, .numbers = w.numbers};
        w.numbers[4] = many[i];
        cr_assert_eq(lib->create(lib->self, &w.contraction, &op, &err), STATOR_OK);
        cr_expect_eq(lib->run(lib->self, op, &c, &err), STATOR_RESOURCE_EXHAUSTED);
        st_diag_release(err);
        lib->destroy(lib->self, op);
    }
    world_deinit(&w);
}
