/* Contractions by oneDNN against plain loops in f64: forms built by hand, without a graph. Skipped,
 * with a line that says so, where the build or the machine is without libdnnl. */
#include "plugins/cpu-llvm/dnnl/dnnl_api.h"

#include "core/base/blob.h"
#include "core/base/check.h"
#include "core/base/convert.h"
#include "core/base/diag.h"
#include "core/base/dso.h"
#include "core/base/threads.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define BUFFERS 8u
#define AXES 8u

/* ---- a host of what the library asks for ---- */

typedef struct fake {
    st_mem mem;
    int32_t threads;
    uint32_t packs; /* made, not found */
    uint32_t n_known;
    struct {
        uint8_t hash[16];
        char key[64];
        stator_blob *blob;
    } known[512];
} fake;

static void fake_parallel_for(stator_ctx *ctx, int64_t n, int64_t grain, stator_range_fn fn,
                              void *self)
{
    st_parallel_for(((fake *)ctx)->threads, n, grain, fn, self);
}

static int32_t fake_count(stator_ctx *ctx)
{
    return ((fake *)ctx)->threads;
}

static stator_status fake_pack(stator_ctx *ctx, const uint8_t hash[16], const char *key,
                               uint64_t size,
                               stator_status (*fill)(void *self, void *dst, uint64_t size),
                               void *self, stator_blob **out, stator_diag **err)
{
    fake *f = (fake *)ctx;
    void *data = NULL;
    *out = NULL;
    for (uint32_t i = 0; i < f->n_known; i++) {
        if (memcmp(f->known[i].hash, hash, 16) == 0 && strcmp(f->known[i].key, key) == 0) {
            st_blob_retain(f->known[i].blob);
            *out = f->known[i].blob;
            return STATOR_OK;
        }
    }
    stator_blob *blob = st_blob_alloc(&f->mem, size, &data);
    if (blob == NULL) {
        return st_fail_oom(err);
    }
    const stator_status status = fill(self, data, size);
    if (status != STATOR_OK || f->n_known == 512u) {
        st_blob_release(blob);
        return status != STATOR_OK ? status : STATOR_INTERNAL;
    }
    memcpy(f->known[f->n_known].hash, hash, 16);
    (void)snprintf(f->known[f->n_known].key, sizeof f->known[0].key, "%s", key);
    f->known[f->n_known++].blob = blob;
    st_blob_retain(blob);
    f->packs++;
    *out = blob;
    return STATOR_OK;
}

static stator_status fake_get(stator_blob *blob, stator_blob_info *out, stator_diag **err)
{
    const void *data = NULL;
    ST_TRY(st_blob_get(blob, &data, err));
    out->data = data;
    out->size_bytes = st_blob_size(blob);
    return STATOR_OK;
}

static const stator_thr_api fake_thr = {.struct_size = sizeof fake_thr,
                                        .parallel_for = fake_parallel_for,
                                        .thread_count = fake_count};
static const stator_cst_api fake_cst = {.struct_size = sizeof fake_cst,
                                        .get = fake_get,
                                        .retain = st_blob_retain,
                                        .release = st_blob_release,
                                        .pack = fake_pack};

/* ---- the world of a test ---- */

static fake f;
static stator_host host;
static st_mem mem;
static st_loop_syms syms;
static const dnnl_api *api;
static const st_library *lib;
static uint64_t seed;

static void open_with(uint32_t flags)
{
    char text[512] = "";
    cr_assert_eq(api->open(&host, &mem, flags, &lib, text, sizeof text), STATOR_OK, "%s", text);
}

static void begin(void)
{
    char text[512] = "";
    memset(&f, 0, sizeof f);
    st_mem_init(&f.mem, NULL, NULL, NULL, 0);
    st_mem_init(&mem, NULL, NULL, NULL, 0);
    cr_assert(st_loop_syms_init(&syms, &f.mem));
    f.threads = 2;
    host = (stator_host){.struct_size = sizeof host,
                         .ctx = (stator_ctx *)&f,
                         .thr = &fake_thr,
                         .cst = &fake_cst};
    seed = 42;
    void *dso = st_dso_open(ST_TEST_BUILD "/lib/stator/jit/cpu_llvm_dnnl.so", text, sizeof text);
    if (dso == NULL) {
        cr_skip_test("oneDNN is not there: %s", text);
    }
    const dnnl_query_fn query = (dnnl_query_fn)(uintptr_t)st_dso_symbol(dso, DNNL_QUERY_NAME);
    cr_assert(query != NULL);
    api = query();
    cr_assert_eq(api->struct_size, sizeof *api);
    open_with(0);
}

static void end(void)
{
    if (api) {
        api->close(lib);
    }
    for (uint32_t i = 0; i < f.n_known; i++) {
        st_blob_release(f.known[i].blob);
    }
    st_loop_syms_deinit(&syms);
    cr_assert_eq(mem.live_blocks, 0, "%llu blocks of the library left",
                 (unsigned long long)mem.live_blocks);
    cr_assert_eq(f.mem.live_blocks, 0);
}

TestSuite(dnnl, .init = begin, .fini = end);

/* ---- forms ---- */

typedef struct problem {
    st_form form;
    int64_t numbers[ST_FORM_NUMBERS_MAX];
    int64_t sizes[8]; /* values of symbols, by index */
    void *buffers[BUFFERS];
    void *blocks[BUFFERS];
    int64_t elements[BUFFERS];
    uint32_t dtypes[BUFFERS];
    uint32_t fill_like_zero; /* of buffers: what they hold does not matter */
    uint32_t misalign;
} problem;

static uint32_t num(int64_t value)
{
    return st_sym_int(&syms.tab, value);
}

static uint32_t sym(const char *name)
{
    return st_loop_symbol_add(&syms, ST_SYMBOL_SIZE, syms.symbols.count, 0, name, 0, 1 << 20, 1);
}

enum { X = 0, Y = 1, OUT = 2, EXTRA = 3 };

static void begin_form(problem *p, uint32_t kind, uint32_t in, uint32_t out)
{
    memset(p, 0, sizeof *p);
    const uint32_t offset = num(0);
    p->form.kind = kind;
    p->form.acc_dtype = out == STATOR_I32 ? STATOR_I32 : STATOR_F32;
    p->form.x = (st_form_operand){.buffer = X, .dtype = in, .offset = offset};
    p->form.y = (st_form_operand){
        .buffer = Y, .dtype = in == STATOR_U8 ? STATOR_I8 : in, .offset = offset};
    p->form.out = (st_form_operand){.buffer = OUT, .dtype = out, .offset = offset};
    p->form.n_buffers = 3;
    p->form.groups = 1;
    p->form.syms = &syms;
}

static void epilogue(problem *p, uint32_t kind, double value, double value2)
{
    st_epilogue *e = &p->form.epilogue[p->form.n_epilogue++];
    *e = (st_epilogue){.kind = kind, .value = value, .value2 = value2};
    if (kind == ST_EPILOGUE_BIAS || kind == ST_EPILOGUE_ADD) {
        e->buffer = p->form.n_buffers++;
    }
}

/* Dense m x k, k x n, m x n. */
static void gemm(problem *p, uint32_t in, uint32_t out, uint32_t m, uint32_t n, uint32_t k)
{
    begin_form(p, ST_FORM_GEMM, in, out);
    p->form.m = m;
    p->form.n = n;
    p->form.k = k;
    p->form.x.stride[0] = k;
    p->form.x.stride[1] = num(1);
    p->form.y.stride[0] = n;
    p->form.y.stride[1] = num(1);
    p->form.out.stride[0] = n;
    p->form.out.stride[1] = num(1);
}

static void strides(st_form_operand *operand, int64_t a, int64_t b)
{
    operand->stride[0] = num(a);
    operand->stride[1] = num(b);
}

static void batch(problem *p, int64_t extent, int64_t x, int64_t y, int64_t out)
{
    const uint32_t i = p->form.n_batch++;
    p->form.batch[i] = num(extent);
    p->form.x.batch[i] = num(x);
    p->form.y.batch[i] = num(y);
    p->form.out.batch[i] = num(out);
}

typedef struct conv_case {
    uint32_t n_spatial;
    int64_t images, channels, features, groups;
    int64_t in[3], kernel[3], stride[3], dilation[3], low[3], high[3];
} conv_case;

static void image_strides(uint32_t *to, const int64_t *dims, uint32_t rank, int is_last)
{
    int64_t stride = 1;
    if (is_last) {
        to[1] = num(1);
        stride = dims[1];
    }
    for (uint32_t i = rank; i-- > 0;) {
        if (is_last && i == 1) {
            continue;
        }
        to[i] = num(stride);
        stride *= dims[i];
    }
}

static void conv(problem *p, uint32_t in, uint32_t out, const conv_case *c, int x_last,
                 int out_last)
{
    int64_t x[5] = {c->images, c->channels};
    int64_t w[5] = {c->features, c->channels / c->groups};
    int64_t o[5] = {c->images, c->features};
    begin_form(p, ST_FORM_CONV, in, out);
    st_form *form = &p->form;
    form->n_spatial = c->n_spatial;
    form->images = num(c->images);
    form->channels = num(c->channels);
    form->features = num(c->features);
    form->groups = c->groups;
    for (uint32_t i = 0; i < c->n_spatial; i++) {
        const int64_t span = (c->kernel[i] - 1) * c->dilation[i] + 1;
        x[2 + i] = c->in[i];
        w[2 + i] = c->kernel[i];
        o[2 + i] = (c->in[i] + c->low[i] + c->high[i] - span) / c->stride[i] + 1;
        form->in[i] = num(x[2 + i]);
        form->kernel[i] = num(w[2 + i]);
        form->out_size[i] = num(o[2 + i]);
        form->pad_low[i] = num(c->low[i]);
        form->pad_high[i] = num(c->high[i]);
        form->stride[i] = c->stride[i];
        form->dilation[i] = c->dilation[i];
    }
    image_strides(form->x.dims, x, 2u + c->n_spatial, x_last);
    image_strides(form->y.dims, w, 2u + c->n_spatial, 0);
    image_strides(form->out.dims, o, 2u + c->n_spatial, out_last);
}

/* ---- walking a form in the test's own way ---- */

typedef struct walk {
    uint32_t n; /* axes of the output */
    int64_t extent[AXES], x[AXES], y[AXES], out[AXES];
    uint32_t feature;
} walk;

static int64_t value(const problem *p, uint32_t s)
{
    int64_t out = 0;
    if (st_sym_const(&syms.tab, s, &out)) {
        return out;
    }
    const st_sym_cols cols = st_sym_columns(&syms.tab);
    cr_assert(st_sym_eval(&cols, s, p->sizes, &out));
    return out;
}

static walk walk_of(const problem *p)
{
    walk w = {.n = 0};
    const st_form *form = &p->form;
    if (form->kind == ST_FORM_GEMM) {
        for (uint32_t i = 0; i < form->n_batch; i++, w.n++) {
            w.extent[i] = value(p, form->batch[i]);
            w.x[i] = value(p, form->x.batch[i]);
            w.y[i] = value(p, form->y.batch[i]);
            w.out[i] = value(p, form->out.batch[i]);
        }
        w.extent[w.n] = value(p, form->m);
        w.x[w.n] = value(p, form->x.stride[0]);
        w.out[w.n++] = value(p, form->out.stride[0]);
        w.extent[w.n] = value(p, form->n);
        w.y[w.n] = value(p, form->y.stride[1]);
        w.out[w.n] = value(p, form->out.stride[1]);
        w.feature = w.n++;
        return w;
    }
    w.extent[0] = value(p, form->images);
    w.extent[1] = value(p, form->features);
    w.feature = 1;
    w.n = 2u + form->n_spatial;
    for (uint32_t i = 0; i < w.n; i++) {
        w.extent[i] = i >= 2 ? value(p, form->out_size[i - 2]) : w.extent[i];
        w.out[i] = value(p, form->out.dims[i]);
    }
    return w;
}

typedef struct total {
    double value;
    double size; /* sum of absolute values: what rounding is relative to */
} total;

static double at(const problem *p, uint32_t buffer, int64_t i)
{
    cr_assert(i >= 0 && i < p->elements[buffer], "buffer %u, element %lld of %lld", buffer,
              (long long)i, (long long)p->elements[buffer]);
    return st_load_f64(p->dtypes[buffer], p->buffers[buffer], i);
}

static void add(total *t, double product)
{
    t->value += product;
    t->size += fabs(product);
}

static total gemm_at(const problem *p, const walk *w, const int64_t *index)
{
    total t = {0, 0};
    int64_t x = value(p, p->form.x.offset);
    int64_t y = value(p, p->form.y.offset);
    const int64_t dx = value(p, p->form.x.stride[1]);
    const int64_t dy = value(p, p->form.y.stride[0]);
    const int64_t k = value(p, p->form.k);
    for (uint32_t i = 0; i < w->n; i++) {
        x += index[i] * w->x[i];
        y += index[i] * w->y[i];
    }
    for (int64_t i = 0; i < k; i++) {
        add(&t, at(p, X, x + i * dx) * at(p, Y, y + i * dy));
    }
    return t;
}

static total conv_at(const problem *p, const int64_t *index)
{
    const st_form *form = &p->form;
    const int64_t channels = value(p, form->channels) / form->groups;
    const int64_t group = index[1] / (value(p, form->features) / form->groups);
    int64_t extent[4] = {channels, 1, 1, 1};
    total t = {0, 0};
    for (uint32_t i = 0; i < form->n_spatial; i++) {
        extent[1 + i] = value(p, form->kernel[i]);
    }
    for (int64_t n = 0; n < extent[0] * extent[1] * extent[2] * extent[3]; n++) {
        const int64_t c = n / (extent[1] * extent[2] * extent[3]);
        const int64_t k[3] = {n / (extent[2] * extent[3]) % extent[1], n / extent[3] % extent[2],
                              n % extent[3]};
        int64_t x = value(p, form->x.offset) + index[0] * value(p, form->x.dims[0]) +
                    (group * channels + c) * value(p, form->x.dims[1]);
        int64_t y = index[1] * value(p, form->y.dims[0]) + c * value(p, form->y.dims[1]);
        int is_inside = 1;
        for (uint32_t i = 0; i < form->n_spatial; i++) {
            const int64_t place = index[2 + i] * form->stride[i] + k[i] * form->dilation[i] -
                                  value(p, form->pad_low[i]);
            is_inside = is_inside && place >= 0 && place < value(p, form->in[i]);
            x += place * value(p, form->x.dims[2 + i]);
            y += k[i] * value(p, form->y.dims[2 + i]);
        }
        if (is_inside) {
            add(&t, at(p, X, x) * at(p, Y, y));
        }
    }
    return t;
}

static void finish(const problem *p, total *t, int64_t feature, int64_t out)
{
    for (uint32_t i = 0; i < p->form.n_epilogue; i++) {
        const st_epilogue *e = &p->form.epilogue[i];
        const double v = t->value;
        switch (e->kind) {
        case ST_EPILOGUE_BIAS:
            add(t, at(p, e->buffer, feature));
            break;
        case ST_EPILOGUE_ADD:
            add(t, at(p, e->buffer, out));
            break;
        case ST_EPILOGUE_RELU:
            t->value = v < 0 ? 0 : v;
            break;
        case ST_EPILOGUE_SCALE:
            t->value = v * e->value;
            t->size *= fabs(e->value);
            break;
        case ST_EPILOGUE_CLIP:
            t->value = v < e->value ? e->value : v > e->value2 ? e->value2 : v;
            break;
        case ST_EPILOGUE_GELU_ERF:
            t->value = 0.5 * v * (1 + erf(v * 0.70710678118654752));
            break;
        case ST_EPILOGUE_GELU_TANH:
            t->value = 0.5 * v * (1 + tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
            break;
        case ST_EPILOGUE_SIGMOID:
            t->value = 1 / (1 + exp(-v));
            break;
        case ST_EPILOGUE_TANH:
            t->value = tanh(v);
            break;
        default:
            t->value = v / (1 + exp(-v));
        }
    }
}

/* ---- running ---- */

static double next(void)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(seed >> 40) / (double)(1 << 24) * 2 - 1;
}

static int64_t span_of(const problem *p, const st_form_operand *o, const walk *w, uint32_t role)
{
    const st_form *form = &p->form;
    int64_t last = value(p, o->offset);
    if (form->kind == ST_FORM_GEMM) {
        const int64_t *step = role == X ? w->x : role == Y ? w->y : w->out;
        for (uint32_t i = 0; i < w->n; i++) {
            last += (w->extent[i] - 1) * step[i];
        }
        const int64_t k = value(p, form->k) - 1;
        return last + 1 +
               (role == X   ? k * value(p, o->stride[1])
                : role == Y ? k * value(p, o->stride[0])
                            : 0);
    }
    const int64_t first[3][2] = {
        {value(p, form->images), value(p, form->channels)},
        {value(p, form->features), value(p, form->channels) / form->groups},
        {value(p, form->images), value(p, form->features)}};
    const uint32_t *spatial = role == X ? form->in : role == Y ? form->kernel : form->out_size;
    last += (first[role][0] - 1) * value(p, o->dims[0]) +
            (first[role][1] - 1) * value(p, o->dims[1]);
    for (uint32_t i = 0; i < form->n_spatial; i++) {
        last += (value(p, spatial[i]) - 1) * value(p, o->dims[2 + i]);
    }
    return last + 1;
}

static void make_buffer(problem *p, uint32_t b, uint32_t dtype, int64_t elements)
{
    p->elements[b] = elements > 0 ? elements : 0;
    p->dtypes[b] = dtype;
    p->blocks[b] = st_alloc(&f.mem, (uint64_t)p->elements[b] * 4u + 128u, 64);
    cr_assert(p->blocks[b] != NULL);
    p->buffers[b] = (char *)p->blocks[b] + p->misalign;
    for (int64_t i = 0; i < p->elements[b]; i++) {
        const double x = next();
        if (dtype == STATOR_I8 || dtype == STATOR_U8) {
            st_store_i64(dtype, p->buffers[b], i,
                         dtype == STATOR_U8 ? (int64_t)(x * 127 + 127) : (int64_t)(x * 127));
        } else {
            st_store_f64(dtype, p->buffers[b], i, dtype == STATOR_I32 ? 0 : x);
        }
    }
}

static void fill(problem *p)
{
    const walk w = walk_of(p);
    uint32_t numbers[ST_FORM_NUMBERS_MAX];
    const uint32_t n = st_form_numbers(&p->form, numbers);
    for (uint32_t i = 0; i < n; i++) {
        p->numbers[i] = value(p, numbers[i]);
    }
    make_buffer(p, X, p->form.x.dtype, span_of(p, &p->form.x, &w, X));
    make_buffer(p, Y, p->form.y.dtype, span_of(p, &p->form.y, &w, Y));
    const int64_t out = span_of(p, &p->form.out, &w, OUT);
    make_buffer(p, OUT, p->form.out.dtype, out);
    for (uint32_t i = 0; i < p->form.n_epilogue; i++) {
        const st_epilogue *e = &p->form.epilogue[i];
        if (e->buffer) {
            make_buffer(p, e->buffer, STATOR_F32,
                        e->kind == ST_EPILOGUE_ADD ? out : w.extent[w.feature]);
        }
    }
}

static void empty(problem *p)
{
    for (uint32_t b = 0; b < BUFFERS; b++) {
        st_free(&f.mem, p->blocks[b]);
        p->blocks[b] = NULL;
    }
}

static void call(const problem *p, void *op)
{
    stator_diag *err = NULL;
    const st_library_call c = {.buffers = p->buffers, .numbers = p->numbers};
    const stator_status status = lib->run(lib->self, op, &c, &err);
    cr_assert_eq(status, STATOR_OK, "%s", st_diag_text(err));
}

/* Rounding of one product each and of sums, in the output's dtype once more. `slack`: times as much. */
static double allowed(const problem *p, const total *t, double slack)
{
    const double k = 40;
    const double unit = p->form.out.dtype == STATOR_BF16 ? 0x1p-8 * fabs(t->value) : 0;
    return slack * (k * 0x1p-24 * (t->size + fabs(t->value))) + unit + 1e-30;
}

static void compare(const problem *p, const char *what, double slack)
{
    const walk w = walk_of(p);
    int64_t index[AXES] = {0};
    int64_t elements = 1;
    for (uint32_t i = 0; i < w.n; i++) {
        elements *= w.extent[i];
    }
    /* Every element of small outputs, a sample of large ones. */
    const int64_t step = elements > 20000 ? elements / 5000 | 1 : 1;
    for (int64_t e = 0; e < elements; e += step) {
        int64_t rest = e;
        int64_t out = value(p, p->form.out.offset);
        for (uint32_t i = w.n; i-- > 0;) {
            index[i] = rest % w.extent[i];
            rest /= w.extent[i];
            out += index[i] * w.out[i];
        }
        total t = p->form.kind == ST_FORM_GEMM ? gemm_at(p, &w, index) : conv_at(p, index);
        finish(p, &t, index[w.feature], out);
        const double got = at(p, OUT, out);
        const int is_same = isnan(t.value) ? isnan(got)
                                           : got == t.value ||
                                                 fabs(got - t.value) <= allowed(p, &t, slack);
        cr_assert(is_same, "%s: element %lld is %.9g, expected %.9g, allowed %.3g", what,
                  (long long)e, got, t.value, allowed(p, &t, slack));
    }
}

static void set_constant(problem *p)
{
    p->form.y_data = p->buffers[Y];
    for (uint32_t i = 0; i < 16; i++) {
        p->form.y_hash[i] = (uint8_t)(next() * 127);
    }
}

static void *create(problem *p, const char *what)
{
    void *op = NULL;
    stator_diag *err = NULL;
    cr_assert_eq(lib->takes(lib->self, &p->form), 1, "%s is not taken", what);
    const stator_status status = lib->create(lib->self, &p->form, &op, &err);
    cr_assert_eq(status, STATOR_OK, "%s: %s", what, st_diag_text(err));
    return op;
}

/* With y as an input and as a constant. `fast`: not by plain loops. */
static void check_slack(problem *p, const char *what, double slack)
{
    for (uint32_t is_constant = 0; is_constant < 2; is_constant++) {
        fill(p);
        p->form.y_data = NULL;
        if (is_constant) {
            set_constant(p);
        }
        void *op = create(p, what);
        call(p, op);
        compare(p, what, slack);
        cr_assert_str_neq(api->describe(op), "plain", "%s", what);
        cr_assert(strstr(api->describe(op), "ref") == NULL, "%s", what);
        lib->destroy(lib->self, op);
        empty(p);
    }
}

static void check(problem *p, const char *what)
{
    check_slack(p, what, 1);
}

/* ---- GEMM ---- */

Test(dnnl, gemm_orders)
{
    static const struct {
        const char *name;
        int64_t x[2], y[2], out[2];
    } cases[] = {{"dense", {50, 1}, {70, 1}, {70, 1}},
                 {"x transposed", {1, 37}, {70, 1}, {70, 1}},
                 {"y transposed", {50, 1}, {1, 50}, {70, 1}},
                 {"both transposed", {1, 37}, {1, 50}, {70, 1}},
                 {"out transposed", {50, 1}, {70, 1}, {1, 37}},
                 {"all transposed", {1, 37}, {1, 50}, {1, 37}},
                 {"rows apart", {64, 1}, {96, 1}, {80, 1}},
                 {"every second", {100, 2}, {140, 2}, {140, 2}}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        problem p;
        gemm(&p, STATOR_F32, STATOR_F32, num(37), num(70), num(50));
        strides(&p.form.x, cases[i].x[0], cases[i].x[1]);
        strides(&p.form.y, cases[i].y[0], cases[i].y[1]);
        strides(&p.form.out, cases[i].out[0], cases[i].out[1]);
        check(&p, cases[i].name);
        epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
        epilogue(&p, ST_EPILOGUE_ADD, 0, 0);
        epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
        p.form.x.offset = num(3);
        p.form.y.offset = num(5);
        p.form.out.offset = num(7);
        check(&p, cases[i].name);
    }
}

Test(dnnl, gemm_shapes)
{
    static const int64_t shapes[][3] = {{1, 1000, 512}, {1000, 1, 512},  {8, 3072, 768},
                                        {197, 64, 197}, {33, 65, 1},     {256, 256, 256},
                                        {5, 9, 2000},   {17, 100, 1000}, {1, 1, 9000}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        problem p;
        char name[64];
        (void)snprintf(name, sizeof name, "%lld x %lld x %lld", (long long)shapes[i][0],
                       (long long)shapes[i][1], (long long)shapes[i][2]);
        gemm(&p, STATOR_F32, STATOR_F32, num(shapes[i][0]), num(shapes[i][1]), num(shapes[i][2]));
        if (shapes[i][0] * shapes[i][1] * shapes[i][2] >= 8192) {
            check(&p, name);
        } else {
            cr_assert_eq(lib->takes(lib->self, &p.form), 0, "%s is too small to be taken", name);
        }
    }
}

Test(dnnl, gemm_batches)
{
    problem p;
    gemm(&p, STATOR_F32, STATOR_F32, num(16), num(24), num(40));
    batch(&p, 3, 16 * 40, 40 * 24, 16 * 24);
    check(&p, "batch");
    gemm(&p, STATOR_F32, STATOR_F32, num(16), num(24), num(40));
    batch(&p, 3, 16 * 40, 0, 16 * 24);
    check(&p, "y for all, rows that join");
    gemm(&p, STATOR_F32, STATOR_F32, num(16), num(24), num(40));
    batch(&p, 3, 20 * 40, 0, 16 * 24);
    check(&p, "y for all, rows apart");
    gemm(&p, STATOR_F32, STATOR_F32, num(16), num(24), num(40));
    batch(&p, 3, 0, 40 * 24, 16 * 24);
    check(&p, "x for all");
    gemm(&p, STATOR_F32, STATOR_F32, num(16), num(24), num(40));
    batch(&p, 2, 3 * 16 * 40, 0, 3 * 16 * 24);
    batch(&p, 3, 16 * 40, 40 * 24, 16 * 24);
    check(&p, "two, one of them for all");
    gemm(&p, STATOR_F32, STATOR_F32, num(1), num(24), num(40));
    batch(&p, 30, 40, 0, 24);
    epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
    check(&p, "a batch of rows");
    gemm(&p, STATOR_F32, STATOR_F32, num(8), num(9), num(10));
    batch(&p, 2, 1, 1, 9000);
    batch(&p, 1, 7, 7, 7);
    batch(&p, 3, 200, 300, 1000);
    batch(&p, 2, 1000, 2000, 100);
    strides(&p.form.x, 20, 2);
    strides(&p.form.y, 27, 3);
    check(&p, "four, strides of their own");
}

/* Heads of attention out of one tensor of queries, keys and values. */
Test(dnnl, gemm_heads)
{
    enum { S = 20, H = 3, D = 16, W = 3 * H * D };
    problem p;
    gemm(&p, STATOR_F32, STATOR_F32, num(S), num(S), num(D));
    strides(&p.form.x, W, 1);
    strides(&p.form.y, 1, W);
    batch(&p, 2, (int64_t)S * W, (int64_t)S * W, (int64_t)H * S * S);
    batch(&p, H, D, D, (int64_t)S * S);
    p.form.y.offset = num(H * D);
    epilogue(&p, ST_EPILOGUE_SCALE, 0.25, 0);
    check(&p, "queries by keys");
    gemm(&p, STATOR_F32, STATOR_F32, num(S), num(D), num(S));
    strides(&p.form.y, W, 1);
    strides(&p.form.out, H * D, 1);
    batch(&p, 2, (int64_t)H * S * S, (int64_t)S * W, (int64_t)S * H * D);
    batch(&p, H, (int64_t)S * S, D, D);
    p.form.y.offset = num(2 * H * D);
    check(&p, "weights by values");
}

Test(dnnl, epilogues)
{
    static const uint32_t exact[] = {ST_EPILOGUE_RELU, ST_EPILOGUE_SCALE, ST_EPILOGUE_CLIP,
                                     ST_EPILOGUE_GELU_TANH, ST_EPILOGUE_TANH};
    static const uint32_t rough[] = {ST_EPILOGUE_GELU_ERF, ST_EPILOGUE_SIGMOID, ST_EPILOGUE_SILU};
    for (size_t i = 0; i < 5 + 3; i++) {
        const uint32_t kind = i < 5 ? exact[i] : rough[i - 5];
        problem p;
        gemm(&p, STATOR_F32, STATOR_F32, num(40), num(50), num(30));
        epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
        epilogue(&p, kind, -0.5, 2);
        epilogue(&p, ST_EPILOGUE_ADD, 0, 0);
        epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
        epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
        epilogue(&p, ST_EPILOGUE_ADD, 0, 0);
        if (i == 5) {
            cr_assert_eq(lib->takes(lib->self, &p.form), 0, "beyond 2 ulp: refused when exact");
            api->close(lib);
            open_with(DNNL_FUSED);
        }
        check(&p, "epilogue");
    }
}

Test(dnnl, what_is_refused)
{
    problem p;
    gemm(&p, STATOR_F32, STATOR_F32, num(64), num(64), num(64));
    cr_assert_eq(lib->takes(lib->self, &p.form), 1);
    epilogue(&p, ST_EPILOGUE_SCALE, 0.1, 0);
    cr_assert_eq(lib->takes(lib->self, &p.form), 0, "0.1 is no f32");
    gemm(&p, STATOR_F32, STATOR_F32, num(64), num(64), num(64));
    epilogue(&p, ST_EPILOGUE_CLIP, 2, 1);
    cr_assert_eq(lib->takes(lib->self, &p.form), 0);
    gemm(&p, STATOR_F64, STATOR_F64, num(64), num(64), num(64));
    p.form.acc_dtype = STATOR_F64;
    cr_assert_eq(lib->takes(lib->self, &p.form), 0);
    gemm(&p, STATOR_F32, STATOR_F32, num(64), num(64), num(64));
    strides(&p.form.x, 1, 1);
    cr_assert_eq(lib->takes(lib->self, &p.form), 0, "rows that overlap");
    gemm(&p, STATOR_F32, STATOR_F32, num(64), num(64), num(64));
    strides(&p.form.x, 64, -1);
    cr_assert_eq(lib->takes(lib->self, &p.form), 0, "rows that run backwards");
}

Test(dnnl, bf16)
{
    problem p;
    gemm(&p, STATOR_BF16, STATOR_F32, num(60), num(80), num(128));
    if (lib->takes(lib->self, &p.form) != 1) {
        cr_skip_test("this processor has no fast bf16");
    }
    check(&p, "bf16 to f32");
    gemm(&p, STATOR_BF16, STATOR_BF16, num(60), num(80), num(128));
    epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
    epilogue(&p, ST_EPILOGUE_ADD, 0, 0);
    epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
    check(&p, "bf16 to bf16");
    const conv_case c = {2, 2, 32, 48, 1, {14, 14}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
    conv(&p, STATOR_BF16, STATOR_BF16, &c, 1, 1);
    epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
    epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
    check(&p, "bf16 convolution");
}

/* Sums beyond 2^24, which f32 would round. */
Test(dnnl, integers)
{
    static const uint32_t dtypes[] = {STATOR_U8, STATOR_I8};
    for (uint32_t i = 0; i < 2; i++) {
        problem p;
        gemm(&p, dtypes[i], STATOR_I32, num(20), num(30), num(3000));
        if (lib->takes(lib->self, &p.form) != 1) {
            cr_skip_test("this processor has no VNNI");
        }
        for (uint32_t is_constant = 0; is_constant < 2; is_constant++) {
            fill(&p);
            for (int64_t k = 0; k < p.elements[X]; k++) {
                st_store_i64(dtypes[i], p.buffers[X], k, 127 - k % 3);
            }
            for (int64_t k = 0; k < p.elements[Y]; k++) {
                st_store_i64(STATOR_I8, p.buffers[Y], k, 127 - k % 2);
            }
            p.form.y_data = NULL;
            if (is_constant) {
                set_constant(&p);
            }
            void *op = create(&p, "integers");
            call(&p, op);
            const walk w = walk_of(&p);
            for (int64_t e = 0; e < 600; e++) {
                const int64_t index[2] = {e / 30, e % 30};
                const total t = gemm_at(&p, &w, index);
                cr_assert_eq(st_load_i64(STATOR_I32, p.buffers[OUT], e), (int64_t)t.value);
            }
            lib->destroy(lib->self, op);
            empty(&p);
        }
    }
}

/* ---- convolutions ---- */

static const conv_case convs[] = {
    {2, 2, 16, 32, 1, {9, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 2, 16, 32, 1, {9, 11}, {3, 2}, {2, 1}, {1, 1}, {0, 1}, {2, 0}}, /* pads not alike */
    {2, 1, 3, 64, 1, {33, 33}, {7, 7}, {2, 2}, {1, 1}, {3, 3}, {3, 3}}, /* a stem */
    {2, 1, 64, 40, 1, {14, 14}, {1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
    {2, 2, 24, 24, 24, {12, 12}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, /* depthwise */
    {2, 1, 24, 48, 24, {12, 12}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, /* two a channel */
    {2, 1, 24, 36, 3, {12, 12}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},  /* groups */
    {2, 1, 16, 16, 1, {15, 15}, {3, 3}, {1, 1}, {2, 3}, {2, 3}, {2, 3}},  /* dilated */
    {2, 1, 5, 7, 1, {10, 10}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 3, 64, 64, 1, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {2, 1, 1, 16, 1, {28, 28}, {5, 5}, {1, 1}, {1, 1}, {2, 2}, {2, 2}},
    {1, 2, 16, 32, 1, {40}, {5}, {2}, {1}, {2}, {1}},
    {3, 1, 8, 16, 1, {6, 7, 8}, {3, 3, 3}, {1, 1, 2}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}}};

Test(dnnl, convs)
{
    for (size_t i = 0; i < sizeof convs / sizeof convs[0]; i++) {
        for (uint32_t order = 0; order < 4; order++) {
            char name[64];
            problem p;
            (void)snprintf(name, sizeof name, "convolution %zu, orders %u", i, order);
            conv(&p, STATOR_F32, STATOR_F32, &convs[i], order & 1, order >> 1);
            p.misalign = 16;
            check(&p, name);
            epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
            epilogue(&p, ST_EPILOGUE_ADD, 0, 0);
            epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
            check(&p, name);
        }
    }
}

/* Channels that are a part of a wider tensor's. */
Test(dnnl, conv_slices)
{
    problem p;
    conv(&p, STATOR_F32, STATOR_F32, &convs[0], 1, 1);
    for (uint32_t i = 0; i < 4; i++) {
        if (i != 1) {
            p.form.x.dims[i] = st_sym_mul(&syms.tab, p.form.x.dims[i], num(2));
            p.form.out.dims[i] = st_sym_mul(&syms.tab, p.form.out.dims[i], num(3));
        }
    }
    p.form.x.offset = num(16);
    p.form.out.offset = num(32);
    epilogue(&p, ST_EPILOGUE_ADD, 0, 0);
    epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
    check(&p, "slices");
}

Test(dnnl, measured)
{
    static const conv_case cases[] = {
        {2, 2, 32, 32, 1, {28, 28}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
        {2, 1, 64, 64, 1, {14, 14}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
        {2, 1, 3, 64, 1, {64, 64}, {7, 7}, {2, 2}, {1, 1}, {3, 3}, {3, 3}}};
    api->close(lib);
    open_with(DNNL_TUNE | DNNL_WINOGRAD);
    for (size_t i = 0; i < 3; i++) {
        for (int last = 0; last < 2; last++) {
            problem p;
            conv(&p, STATOR_F32, STATOR_F32, &cases[i], last, last);
            epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
            epilogue(&p, ST_EPILOGUE_ADD, 0, 0);
            epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
            check(&p, "measured");
        }
    }
    problem p;
    gemm(&p, STATOR_F32, STATOR_F32, num(128), num(256), num(128));
    strides(&p.form.x, 200, 1);
    check(&p, "measured product");
}

/* ---- values that are not finite ---- */

Test(dnnl, nan_stays)
{
    static const int32_t threads[] = {1, 2, 4};
    static const float odd[] = {NAN, INFINITY, -INFINITY, 3e38f};
    for (size_t t = 0; t < 3 * 4; t++) {
        f.threads = threads[t / 4];
        for (uint32_t kind = 0; kind < 3; kind++) {
            problem p;
            if (kind == 2) {
                conv(&p, STATOR_F32, STATOR_F32, &convs[0], 1, 1);
            } else {
                gemm(&p, STATOR_F32, kind ? STATOR_BF16 : STATOR_F32, num(64), num(48), num(32));
                p.form.out.dtype = STATOR_F32;
            }
            epilogue(&p, ST_EPILOGUE_ADD, 0, 0);
            if (kind == 1) {
                epilogue(&p, ST_EPILOGUE_CLIP, -1, 1);
            } else {
                epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
            }
            epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
            fill(&p);
            set_constant(&p);
            void *op = create(&p, "not finite");
            call(&p, op);
            compare(&p, "finite", 1);
            for (uint32_t place = 0; place < 3; place++) {
                float *x = p.buffers[place == 2 ? EXTRA : X];
                const int64_t i = place == 1 ? p.elements[X] - 1 : 7;
                const float before = x[i];
                x[i] = odd[t % 4];
                call(&p, op);
                compare(&p, "not finite", 1);
                x[i] = before;
            }
            call(&p, op);
            compare(&p, "finite again", 1);
            lib->destroy(lib->self, op);
            empty(&p);
        }
    }
}

/* ---- sizes that change ---- */

static void set_size(problem *p, int64_t m)
{
    empty(p);
    p->sizes[0] = m;
    fill(p);
}

Test(dnnl, symbolic_rows)
{
    problem p;
    const uint32_t m = sym("m");
    gemm(&p, STATOR_F32, STATOR_F32, m, num(96), num(64));
    epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
    epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
    p.sizes[0] = 5;
    fill(&p);
    void *weights = st_alloc(&f.mem, 64 * 96 * 4, 64);
    memcpy(weights, p.buffers[Y], 64 * 96 * 4);
    p.form.y_data = weights;
    p.form.y_hash[0] = 1;
    void *op = create(&p, "rows");
    for (int64_t i = 0; i < 60; i++) {
        set_size(&p, i * 7 % 40);
        memcpy(p.buffers[Y], weights, 64 * 96 * 4);
        call(&p, op);
        compare(&p, "rows", 1);
    }
    cr_assert_eq(f.packs, 1, "one form of the weights for all sizes, not %u", f.packs);
    cr_assert_geq(lib->packed_bytes(lib->self, op), 64 * 96 * 4);
    lib->destroy(lib->self, op);
    empty(&p);
    st_free(&f.mem, weights);
}

Test(dnnl, symbolic_inner)
{
    problem p;
    const uint32_t n = sym("n");
    gemm(&p, STATOR_F32, STATOR_F32, n, n, n);
    void *op = create(&p, "inner");
    for (int64_t i = 0; i < 40; i += 3) {
        set_size(&p, i);
        call(&p, op);
        compare(&p, "inner", 1);
    }
    lib->destroy(lib->self, op);
    empty(&p);
}

/* Nothing to sum over: the epilogue of 0. */
Test(dnnl, nothing_to_sum)
{
    problem p;
    const uint32_t k = sym("k");
    gemm(&p, STATOR_F32, STATOR_F32, num(30), num(40), k);
    epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
    epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
    void *op = create(&p, "nothing");
    p.sizes[0] = 0;
    p.elements[X] = p.elements[Y] = 0;
    set_size(&p, 20);
    call(&p, op);
    compare(&p, "something", 1);
    p.sizes[0] = 0;
    uint32_t numbers[ST_FORM_NUMBERS_MAX];
    for (uint32_t i = 0; i < st_form_numbers(&p.form, numbers); i++) {
        p.numbers[i] = value(&p, numbers[i]);
    }
    call(&p, op);
    compare(&p, "nothing", 1);
    lib->destroy(lib->self, op);
    empty(&p);
}

/* Strides of a later call that oneDNN has no primitive for. */
Test(dnnl, plain_loops)
{
    problem p;
    const uint32_t s = sym("s");
    gemm(&p, STATOR_F32, STATOR_F32, num(40), num(40), num(40));
    p.form.x.stride[0] = s;
    epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
    void *op = create(&p, "plain");
    for (int64_t i = 0; i < 50; i += 10) {
        set_size(&p, i);
        call(&p, op);
        compare(&p, "plain", 1);
        cr_assert_eq(strcmp(api->describe(op), "plain") == 0, i < 40);
    }
    lib->destroy(lib->self, op);
    empty(&p);
}

/* ---- threads and memory ---- */

typedef struct caller {
    problem p;
    void *op;
    uint32_t rounds;
} caller;

static void *call_often(void *self)
{
    caller *c = self;
    for (uint32_t i = 0; i < c->rounds; i++) {
        call(&c->p, c->op);
    }
    return NULL;
}

static uint32_t thread_count(void)
{
    uint32_t n = 0;
    DIR *dir = opendir("/proc/self/task");
    for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
        n += e->d_name[0] != '.';
    }
    (void)(dir ? closedir(dir) : 0);
    return n;
}

Test(dnnl, threads_share_an_op)
{
    static caller callers[4];
    pthread_t threads[4];
    problem p;
    const uint32_t m = sym("m");
    gemm(&p, STATOR_F32, STATOR_F32, m, num(96), num(64));
    p.form.x.stride[0] = num(100); /* rows apart: some sizes are moved to scratch */
    epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
    void *op = create(&p, "shared");
    for (uint32_t i = 0; i < 4; i++) {
        callers[i].p = p;
        callers[i].op = op;
        callers[i].rounds = 50;
        set_size(&callers[i].p, 20 + 30 * (i / 2)); /* two by two of one size */
    }
    for (uint32_t i = 0; i < 4; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, call_often, &callers[i]), 0);
    }
    for (uint32_t i = 0; i < 4; i++) {
        (void)pthread_join(threads[i], NULL);
        compare(&callers[i].p, "shared", 1);
        empty(&callers[i].p);
    }
    lib->destroy(lib->self, op);
}

/* One thread when the host has one: no other comes to life. */
Test(dnnl, threads_are_the_hosts)
{
    problem p;
    const uint32_t before = thread_count();
    f.threads = 1;
    gemm(&p, STATOR_F32, STATOR_F32, num(256), num(256), num(256));
    fill(&p);
    set_constant(&p);
    void *op = create(&p, "one thread");
    call(&p, op);
    cr_assert_eq(thread_count(), before);
    f.threads = 2;
    call(&p, op);
    compare(&p, "two threads", 1);
    cr_assert_eq(thread_count(), before + 1);
    f.threads = 3;
    call(&p, op);
    compare(&p, "three threads", 1);
    lib->destroy(lib->self, op);
    empty(&p);
}

static void call_in_range(void *self, int64_t first, int64_t last)
{
    caller *c = self;
    for (int64_t i = first; i < last; i++) {
        call_often(&c[i]);
    }
}

/* Inside a parallel region a call has one thread, and must not count on more. */
Test(dnnl, threads_inside_a_region)
{
    static caller callers[2];
    problem p;
    gemm(&p, STATOR_F32, STATOR_F32, num(128), num(128), num(512));
    epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
    void *op = create(&p, "region");
    for (uint32_t i = 0; i < 2; i++) {
        callers[i].p = p;
        callers[i].op = op;
        callers[i].rounds = 2;
        fill(&callers[i].p);
    }
    st_parallel_for(2, 2, 1, call_in_range, callers);
    for (uint32_t i = 0; i < 2; i++) {
        compare(&callers[i].p, "region", 1);
        empty(&callers[i].p);
    }
    lib->destroy(lib->self, op);
}

Test(dnnl, steady_calls_allocate_nothing)
{
    problem p;
    conv(&p, STATOR_F32, STATOR_F32, &convs[0], 0, 0);
    epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
    fill(&p);
    set_constant(&p);
    void *op = create(&p, "steady");
    call(&p, op);
    const uint64_t requests = mem.requests;
    for (uint32_t i = 0; i < 10; i++) {
        call(&p, op);
    }
    cr_assert_eq(mem.requests, requests);
    lib->destroy(lib->self, op);
    empty(&p);
}

Test(dnnl, packed_weights_are_shared)
{
    problem p;
    gemm(&p, STATOR_F32, STATOR_F32, num(64), num(64), num(64));
    fill(&p);
    set_constant(&p);
    void *first = create(&p, "first");
    void *second = create(&p, "second");
    cr_assert_eq(f.packs, 1);
    p.form.y.offset = num(0);
    p.form.y_hash[3] ^= 1;
    void *third = create(&p, "third");
    cr_assert_eq(f.packs, 2);
    lib->destroy(lib->self, first);
    call(&p, second);
    compare(&p, "second", 1);
    lib->destroy(lib->self, second);
    lib->destroy(lib->self, third);
    empty(&p);
}

Test(dnnl, every_allocation_may_fail)
{
    problem p;
    conv(&p, STATOR_F32, STATOR_F32, &convs[0], 0, 1);
    epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
    fill(&p);
    set_constant(&p);
    host.cst = NULL; /* packs in the library's account */
    uint32_t failures = 0;
    for (uint64_t at_request = 1; at_request < 100; at_request++) {
        void *op = NULL;
        stator_diag *err = NULL;
        mem.requests = 0;
        mem.fail_at = at_request;
        stator_status status = lib->create(lib->self, &p.form, &op, &err);
        if (status == STATOR_OK) {
            const st_library_call c = {.buffers = p.buffers, .numbers = p.numbers};
            status = lib->run(lib->self, op, &c, &err);
        }
        mem.fail_at = 0;
        lib->destroy(lib->self, op);
        if (status == STATOR_OK) {
            break;
        }
        cr_assert_eq(status, STATOR_RESOURCE_EXHAUSTED);
        st_diag_release(err);
        failures++;
    }
    cr_assert_geq(failures, 3);
    empty(&p);
}
