#include "dnnl_support.h"

#include "core/base/blob.h"
#include "core/base/convert.h"
#include "core/base/diag.h"
#include "core/base/dso.h"
#include "core/base/threads/threads.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- a host of what the library asks for ---- */

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
                               stator_status (*pack)(void *self, void *dst, uint64_t size),
                               void *self, stator_blob **out, stator_diag **err)
{
    fake *world = (fake *)ctx;
    void *data = NULL;
    *out = NULL;
    for (uint32_t i = 0; i < world->n_known; i++) {
        if (memcmp(world->known[i].hash, hash, 16) == 0 && strcmp(world->known[i].key, key) == 0) {
            st_blob_retain(world->known[i].blob);
            *out = world->known[i].blob;
            return STATOR_OK;
        }
    }
    stator_blob *blob = st_blob_alloc(&world->mem, size, &data);
    if (blob == NULL) {
        return st_fail_oom(err);
    }
    const stator_status status = pack(self, data, size);
    if (status != STATOR_OK || world->n_known == 512u) {
        st_blob_release(blob);
        return status != STATOR_OK ? status : STATOR_INTERNAL;
    }
    memcpy(world->known[world->n_known].hash, hash, 16);
    (void)snprintf(world->known[world->n_known].key, sizeof world->known[0].key, "%s", key);
    world->known[world->n_known++].blob = blob;
    st_blob_retain(blob);
    world->packs++;
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

static int32_t fake_is_contended(stator_ctx *ctx)
{
    return ((fake *)ctx)->is_contended;
}

static void fake_note_team(stator_ctx *ctx, uint64_t team_ns, uint64_t alone_ns)
{
    cr_assert_gt(team_ns, 0);
    cr_assert_gt(alone_ns, 0);
    ((fake *)ctx)->team_notes++;
}

static const stator_thr_api fake_thr = {.struct_size = sizeof fake_thr,
                                        .parallel_for = fake_parallel_for,
                                        .thread_count = fake_count,
                                        .is_contended = fake_is_contended,
                                        .note_team = fake_note_team};
static const stator_cst_api fake_cst = {.struct_size = sizeof fake_cst,
                                        .get = fake_get,
                                        .retain = st_blob_retain,
                                        .release = st_blob_release,
                                        .pack = fake_pack};

/* ---- the world of a test ---- */

fake f;
stator_host host;
st_mem mem;
st_loop_syms syms;
const dnnl_api *api;
const st_library *lib;
static uint64_t seed;

/* What was packed for a library that has ended. */
static void forget_packs(void)
{
    for (uint32_t i = 0; i < f.n_known; i++) {
        st_blob_release(f.known[i].blob);
    }
    f.n_known = 0;
}

void open_with(uint32_t flags)
{
    char text[512] = "";
    forget_packs();
    cr_assert_eq(api->open(&host, &mem, flags, &lib, text, sizeof text), STATOR_OK, "%s", text);
}

void dnnl_begin(void)
{
    char text[512] = "";
    memset(&f, 0, sizeof f);
    st_mem_init(&f.mem, NULL, NULL, NULL, 0);
    st_mem_init(&mem, NULL, NULL, NULL, 0);
    cr_assert(st_loop_syms_init(&syms, &f.mem));
    f.threads = 2;
    host = (stator_host){
        .struct_size = sizeof host, .ctx = (stator_ctx *)&f, .thr = &fake_thr, .cst = &fake_cst};
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

void dnnl_begin_tiles(void)
{
    dnnl_begin();
    api->close(lib);
    open_with(DNNL_TILES_FIRST);
}

int dnnl_begin_narrow(uint32_t flags)
{
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        return 0;
    }
    api->close(lib);
    open_with(flags | DNNL_VECTORS_32);
    return 1;
}

void dnnl_end(void)
{
    if (api) {
        api->close(lib);
    }
    forget_packs();
    st_loop_syms_deinit(&syms);
    cr_assert_eq(mem.live_blocks, 0, "%llu blocks of the library left",
                 (unsigned long long)mem.live_blocks);
    cr_assert_eq(f.mem.live_blocks, 0);
}

/* ---- contractions ---- */

uint32_t num(int64_t value)
{
    return st_sym_int(&syms.tab, value);
}

uint32_t sym(const char *name)
{
    const st_loop_symbol size = {.kind = ST_SYMBOL_SIZE, .id = syms.symbols.count, .name = name};
    return st_loop_symbol_add(&syms, &size, 0, 1 << 20, 1);
}

static void begin_contraction(problem *p, uint32_t kind, uint32_t in, uint32_t out)
{
    memset(p, 0, sizeof *p);
    const uint32_t offset = num(0);
    p->contraction.kind = kind;
    p->contraction.acc_dtype = in == STATOR_U8 || in == STATOR_I8 ? STATOR_I32 : STATOR_F32;
    p->contraction.x = (st_contraction_operand){.buffer = X, .dtype = in, .offset = offset};
    p->contraction.y = (st_contraction_operand){
        .buffer = Y, .dtype = in == STATOR_U8 ? STATOR_I8 : in, .offset = offset};
    p->contraction.out = (st_contraction_operand){.buffer = OUT, .dtype = out, .offset = offset};
    p->contraction.n_buffers = 3;
    p->contraction.groups = 1;
    p->contraction.syms = &syms;
}

void epilogue(problem *p, uint32_t kind, double value, double value2)
{
    st_epilogue *e = &p->contraction.epilogue[p->contraction.n_epilogue++];
    *e = (st_epilogue){.kind = kind, .value = value, .value2 = value2};
    if (st_epilogue_has_buffer(kind)) {
        e->buffer = p->contraction.n_buffers++;
        e->dtype = STATOR_F32;
    }
}

/* Dense m x k, k x n, m x n. */
void gemm(problem *p, uint32_t in, uint32_t out, uint32_t m, uint32_t n, uint32_t k)
{
    begin_contraction(p, ST_CONTRACTION_GEMM, in, out);
    p->contraction.m = m;
    p->contraction.n = n;
    p->contraction.k = k;
    p->contraction.x.stride[0] = k;
    p->contraction.x.stride[1] = num(1);
    p->contraction.y.stride[0] = n;
    p->contraction.y.stride[1] = num(1);
    p->contraction.out.stride[0] = n;
    p->contraction.out.stride[1] = num(1);
}

void strides(st_contraction_operand *operand, int64_t a, int64_t b)
{
    operand->stride[0] = num(a);
    operand->stride[1] = num(b);
}

void batch(problem *p, int64_t extent, int64_t x, int64_t y, int64_t out)
{
    const uint32_t i = p->contraction.n_batch++;
    p->contraction.batch[i] = num(extent);
    p->contraction.x.batch[i] = num(x);
    p->contraction.y.batch[i] = num(y);
    p->contraction.out.batch[i] = num(out);
}

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

/* All but the strides and the output's size. */
static void begin_conv(problem *p, uint32_t in, uint32_t out, const conv_case *c)
{
    begin_contraction(p, ST_CONTRACTION_CONV, in, out);
    st_contraction *contraction = &p->contraction;
    contraction->n_spatial = c->n_spatial;
    contraction->images = num(c->images);
    contraction->channels = num(c->channels);
    contraction->features = num(c->features);
    contraction->groups = c->groups;
    for (uint32_t i = 0; i < c->n_spatial; i++) {
        contraction->in[i] = num(c->in[i]);
        contraction->kernel[i] = num(c->kernel[i]);
        contraction->pad_low[i] = num(c->low[i]);
        contraction->pad_high[i] = num(c->high[i]);
        contraction->stride[i] = c->stride[i];
        contraction->dilation[i] = c->dilation[i];
    }
}

static int64_t span_of_kernel(const conv_case *c, uint32_t i)
{
    return (c->kernel[i] - 1) * c->dilation[i] + 1;
}

void conv(problem *p, uint32_t in, uint32_t out, const conv_case *c, int x_last, int out_last)
{
    int64_t x[5] = {c->images, c->channels};
    int64_t w[5] = {c->features, c->channels / c->groups};
    int64_t o[5] = {c->images, c->features};
    begin_conv(p, in, out, c);
    for (uint32_t i = 0; i < c->n_spatial; i++) {
        x[2 + i] = c->in[i];
        w[2 + i] = c->kernel[i];
        o[2 + i] = (c->in[i] + c->low[i] + c->high[i] - span_of_kernel(c, i)) / c->stride[i] + 1;
        p->contraction.out_size[i] = num(o[2 + i]);
    }
    image_strides(p->contraction.x.dims, x, 2u + c->n_spatial, x_last);
    image_strides(p->contraction.y.dims, w, 2u + c->n_spatial, 0);
    image_strides(p->contraction.out.dims, o, 2u + c->n_spatial, out_last);
}

void conv_transpose(problem *p, const conv_case *c, const int64_t *more, int x_last, int out_last)
{
    int64_t x[5] = {c->images, c->channels};
    int64_t w[5] = {c->channels, c->features / c->groups};
    int64_t o[5] = {c->images, c->features};
    begin_conv(p, STATOR_F32, STATOR_F32, c);
    p->contraction.is_transposed = 1;
    for (uint32_t i = 0; i < c->n_spatial; i++) {
        x[2 + i] = c->in[i];
        w[2 + i] = c->kernel[i];
        o[2 + i] =
            (c->in[i] - 1) * c->stride[i] + span_of_kernel(c, i) - c->low[i] - c->high[i] + more[i];
        p->contraction.out_size[i] = num(o[2 + i]);
    }
    image_strides(p->contraction.x.dims, x, 2u + c->n_spatial, x_last);
    image_strides(p->contraction.y.dims, w, 2u + c->n_spatial, 0);
    image_strides(p->contraction.out.dims, o, 2u + c->n_spatial, out_last);
    const uint32_t channel = p->contraction.y.dims[0];
    p->contraction.y.dims[0] = p->contraction.y.dims[1];
    p->contraction.y.dims[1] = channel;
}

void conv_weight_grad(problem *p, uint32_t dtype, const conv_case *c, int x_last, int y_last)
{
    conv(p, dtype, dtype, c, x_last, y_last);
    const st_contraction_operand weight = p->contraction.y;
    memcpy(p->contraction.y.dims, p->contraction.out.dims, sizeof weight.dims);
    memcpy(p->contraction.out.dims, weight.dims, sizeof weight.dims);
    p->contraction.is_weight_grad = 1;
}

/* ---- walking a contraction in the test's own way ---- */

int64_t value(const problem *p, uint32_t s)
{
    int64_t out = 0;
    if (st_sym_const(&syms.tab, s, &out)) {
        return out;
    }
    const st_sym_cols cols = st_sym_columns(&syms.tab);
    cr_assert(st_sym_eval(&cols, s, p->sizes, &out));
    return out;
}

walk walk_of(const problem *p)
{
    walk w = {.n = 0};
    const st_contraction *contraction = &p->contraction;
    if (contraction->kind == ST_CONTRACTION_GEMM) {
        for (uint32_t i = 0; i < contraction->n_batch; i++, w.n++) {
            w.extent[i] = value(p, contraction->batch[i]);
            w.x[i] = value(p, contraction->x.batch[i]);
            w.y[i] = value(p, contraction->y.batch[i]);
            w.out[i] = value(p, contraction->out.batch[i]);
        }
        w.extent[w.n] = value(p, contraction->m);
        w.x[w.n] = value(p, contraction->x.stride[0]);
        w.out[w.n++] = value(p, contraction->out.stride[0]);
        w.extent[w.n] = value(p, contraction->n);
        w.y[w.n] = value(p, contraction->y.stride[1]);
        w.out[w.n] = value(p, contraction->out.stride[1]);
        w.feature = w.n++;
        return w;
    }
    const int is_weight = contraction->is_weight_grad != 0;
    const int64_t channels = value(p, contraction->channels) / contraction->groups;
    const uint32_t *spatial = is_weight ? contraction->kernel : contraction->out_size;
    w.extent[0] = value(p, is_weight ? contraction->features : contraction->images);
    w.extent[1] = is_weight ? channels : value(p, contraction->features);
    w.feature = 1;
    w.n = 2u + contraction->n_spatial;
    for (uint32_t i = 0; i < w.n; i++) {
        w.extent[i] = i >= 2 ? value(p, spatial[i - 2]) : w.extent[i];
        w.out[i] = value(p, contraction->out.dims[i]);
    }
    return w;
}

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

/* `each`: which one, where there are more. */
static double zero_of(const problem *p, const st_contraction_zero *zero, int64_t each)
{
    return zero->has_buffer ? at(p, zero->buffer, zero->is_each ? each : 0) : zero->value;
}

static double product(const problem *p, int64_t x, int64_t y, int64_t row, int64_t feature)
{
    return (at(p, X, x) - zero_of(p, &p->contraction.x_zero, row)) *
           (at(p, Y, y) - zero_of(p, &p->contraction.y_zero, feature));
}

total gemm_at(const problem *p, const walk *w, const int64_t *index)
{
    total t = {0, 0};
    int64_t x = value(p, p->contraction.x.offset);
    int64_t y = value(p, p->contraction.y.offset);
    const int64_t dx = value(p, p->contraction.x.stride[1]);
    const int64_t dy = value(p, p->contraction.y.stride[0]);
    const int64_t k = value(p, p->contraction.k);
    for (uint32_t i = 0; i < w->n; i++) {
        x += index[i] * w->x[i];
        y += index[i] * w->y[i];
    }
    for (int64_t i = 0; i < k; i++) {
        add(&t, product(p, x + i * dx, y + i * dy, index[w->n - 2], index[w->n - 1]));
    }
    return t;
}

static total conv_at(const problem *p, const int64_t *index)
{
    const st_contraction *contraction = &p->contraction;
    const int64_t channels = value(p, contraction->channels) / contraction->groups;
    const int64_t features = value(p, contraction->features) / contraction->groups;
    const int64_t group = index[1] / features;
    int64_t extent[4] = {channels, 1, 1, 1};
    total t = {0, 0};
    for (uint32_t i = 0; i < contraction->n_spatial; i++) {
        extent[1 + i] = value(p, contraction->kernel[i]);
    }
    for (int64_t n = 0; n < extent[0] * extent[1] * extent[2] * extent[3]; n++) {
        const int64_t c = n / (extent[1] * extent[2] * extent[3]);
        const int64_t k[3] = {n / (extent[2] * extent[3]) % extent[1], n / extent[3] % extent[2],
                              n % extent[3]};
        int64_t x = value(p, contraction->x.offset) + index[0] * value(p, contraction->x.dims[0]) +
                    (group * channels + c) * value(p, contraction->x.dims[1]);
        const int64_t row = contraction->is_transposed ? index[1] % features : index[1];
        const int64_t column = contraction->is_transposed ? group * channels + c : c;
        int64_t y =
            row * value(p, contraction->y.dims[0]) + column * value(p, contraction->y.dims[1]);
        int is_inside = 1;
        for (uint32_t i = 0; i < contraction->n_spatial; i++) {
            const int64_t low = value(p, contraction->pad_low[i]);
            const int64_t reached = index[2 + i] + low - k[i] * contraction->dilation[i];
            int64_t place =
                index[2 + i] * contraction->stride[i] + k[i] * contraction->dilation[i] - low;
            if (contraction->is_transposed) {
                is_inside = is_inside && reached % contraction->stride[i] == 0;
                place = reached / contraction->stride[i];
            }
            is_inside = is_inside && place >= 0 && place < value(p, contraction->in[i]);
            x += place * value(p, contraction->x.dims[2 + i]);
            y += k[i] * value(p, contraction->y.dims[2 + i]);
        }
        if (is_inside) {
            add(&t, product(p, x, y, 0, index[1]));
        }
    }
    return t;
}

/* Each image and position of y by itself. */
static total weight_grad_at(const problem *p, const int64_t *index)
{
    const st_contraction *contraction = &p->contraction;
    const int64_t features = value(p, contraction->features) / contraction->groups;
    const int64_t channels = value(p, contraction->channels) / contraction->groups;
    const int64_t channel = index[0] / features * channels + index[1];
    const int64_t first_x =
        value(p, contraction->x.offset) + channel * value(p, contraction->x.dims[1]);
    const int64_t first_y =
        value(p, contraction->y.offset) + index[0] * value(p, contraction->y.dims[1]);
    const int64_t image_x = value(p, contraction->x.dims[0]);
    const int64_t image_y = value(p, contraction->y.dims[0]);
    int64_t extent[4] = {value(p, contraction->images), 1, 1, 1};
    int64_t step_x[3] = {0}, step_y[3] = {0}, first[3] = {0}, in[3] = {0};
    total t = {0, 0};
    for (uint32_t i = 0; i < contraction->n_spatial; i++) {
        extent[1 + i] = value(p, contraction->out_size[i]);
        step_x[i] = value(p, contraction->x.dims[2 + i]);
        step_y[i] = value(p, contraction->y.dims[2 + i]);
        first[i] = index[2 + i] * contraction->dilation[i] - value(p, contraction->pad_low[i]);
        in[i] = value(p, contraction->in[i]);
    }
    for (int64_t n = 0; n < extent[0] * extent[1] * extent[2] * extent[3]; n++) {
        const int64_t image = n / (extent[1] * extent[2] * extent[3]);
        const int64_t o[3] = {n / (extent[2] * extent[3]) % extent[1], n / extent[3] % extent[2],
                              n % extent[3]};
        int64_t x = first_x + image * image_x;
        int64_t y = first_y + image * image_y;
        int is_inside = 1;
        for (uint32_t i = 0; i < contraction->n_spatial; i++) {
            const int64_t place = o[i] * contraction->stride[i] + first[i];
            is_inside = is_inside && place >= 0 && place < in[i];
            x += place * step_x[i];
            y += o[i] * step_y[i];
        }
        if (is_inside) {
            add(&t, product(p, x, y, 0, 0));
        }
    }
    return t;
}

#define UNITS 40 /* of 2^-24 of what is summed, that the sum may be off */

static void finish(const problem *p, total *t, int64_t feature, int64_t out)
{
    for (uint32_t i = 0; i < p->contraction.n_epilogue; i++) {
        const st_epilogue *e = &p->contraction.epilogue[i];
        const double v = t->value;
        switch (e->kind) {
        case ST_EPILOGUE_BIAS:
            add(t, at(p, e->buffer, feature));
            break;
        case ST_EPILOGUE_ADD:
            add(t, at(p, e->buffer, out));
            break;
        case ST_EPILOGUE_TIMES:
        case ST_EPILOGUE_TIMES_ONE: {
            const double factor = at(p, e->buffer, e->kind == ST_EPILOGUE_TIMES ? feature : 0);
            t->value = v * factor;
            t->size *= fabs(factor);
            break;
        }
        case ST_EPILOGUE_RELU:
            t->value = v < 0 ? 0 : v;
            break;
        case ST_EPILOGUE_SCALE:
            t->value = v * e->value;
            t->size *= fabs(e->value);
            break;
        case ST_EPILOGUE_DIVIDE:
            t->value = v / e->value;
            t->size /= fabs(e->value);
            break;
        case ST_EPILOGUE_ROUND:
            t->value = rint(v);
            break;
        case ST_EPILOGUE_OFFSET:
            add(t, e->value);
            break;
        case ST_EPILOGUE_NARROW: {
            char element[sizeof v];
            st_store_f64(p->contraction.out.dtype, element, 0, v);
            t->value = st_load_f64(p->contraction.out.dtype, element, 0);
            t->size += fabs(v) * 0x1p-8 / (UNITS * 0x1p-24); /* to the other side */
            break;
        }
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
    const uint32_t out_type = p->contraction.out.dtype;
    if (out_type == STATOR_I8 || out_type == STATOR_U8) {
        const double least = out_type == STATOR_I8 ? -128 : 0;
        t->value = fmin(fmax(t->value, least), least + 255);
    }
}

/* ---- running ---- */

static double next(void)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(seed >> 40) / (double)(1 << 24) * 2 - 1;
}

static int64_t span_of(const problem *p, const st_contraction_operand *o, const walk *w,
                       uint32_t role)
{
    const st_contraction *contraction = &p->contraction;
    int64_t last = value(p, o->offset);
    if (contraction->kind == ST_CONTRACTION_GEMM) {
        const int64_t *step = role == X ? w->x : role == Y ? w->y : w->out;
        for (uint32_t i = 0; i < w->n; i++) {
            last += (w->extent[i] - 1) * step[i];
        }
        const int64_t k = value(p, contraction->k) - 1;
        return last + 1 +
               (role == X   ? k * value(p, o->stride[1])
                : role == Y ? k * value(p, o->stride[0])
                            : 0);
    }
    role =
        contraction->is_weight_grad && role != X ? Y + OUT - role : role; /* in forward's order */
    const int64_t first[3][2] = {
        {value(p, contraction->images), value(p, contraction->channels)},
        {value(p, contraction->features) / (contraction->is_transposed ? contraction->groups : 1),
         value(p, contraction->channels) / (contraction->is_transposed ? 1 : contraction->groups)},
        {value(p, contraction->images), value(p, contraction->features)}};
    const uint32_t *spatial = role == X   ? contraction->in
                              : role == Y ? contraction->kernel
                                          : contraction->out_size;
    last +=
        (first[role][0] - 1) * value(p, o->dims[0]) + (first[role][1] - 1) * value(p, o->dims[1]);
    for (uint32_t i = 0; i < contraction->n_spatial; i++) {
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

void fill(problem *p)
{
    const walk w = walk_of(p);
    uint32_t numbers[ST_CONTRACTION_NUMBERS_MAX];
    const uint32_t n = st_contraction_numbers(&p->contraction, numbers);
    for (uint32_t i = 0; i < n; i++) {
        p->numbers[i] = value(p, numbers[i]);
    }
    make_buffer(p, X, p->contraction.x.dtype, span_of(p, &p->contraction.x, &w, X));
    make_buffer(p, Y, p->contraction.y.dtype, span_of(p, &p->contraction.y, &w, Y));
    const int64_t out = span_of(p, &p->contraction.out, &w, OUT);
    make_buffer(p, OUT, p->contraction.out.dtype, out);
    const st_contraction_zero *const zeros[2] = {&p->contraction.x_zero, &p->contraction.y_zero};
    for (uint32_t i = 0; i < 2; i++) {
        if (zeros[i]->has_buffer) {
            const int64_t each = w.extent[i ? w.feature : w.n - 2];
            make_buffer(p, zeros[i]->buffer, zeros[i]->dtype, zeros[i]->is_each ? each : 1);
        }
    }
    for (uint32_t i = 0; i < p->contraction.n_epilogue; i++) {
        const st_epilogue *e = &p->contraction.epilogue[i];
        if (e->buffer) {
            make_buffer(p, e->buffer, e->dtype,
                        e->kind == ST_EPILOGUE_ADD ? out : w.extent[w.feature]);
        }
    }
}

void empty(problem *p)
{
    for (uint32_t b = 0; b < BUFFERS; b++) {
        st_free(&f.mem, p->blocks[b]);
        p->blocks[b] = NULL;
    }
}

void call(const problem *p, void *op)
{
    stator_diag *err = NULL;
    const st_library_call c = {.buffers = p->buffers, .numbers = p->numbers};
    const stator_status status = lib->run(lib->self, op, &c, &err);
    cr_assert_eq(status, STATOR_OK, "%s", st_diag_text(err));
}

/* Rounding of one product each and of sums, in the output's dtype once more. `slack`: times as
 * much. */
static double allowed(const problem *p, const total *t, double slack)
{
    const double k = UNITS;
    const double unit = p->contraction.out.dtype == STATOR_BF16  ? 0x1p-8 * fabs(t->value)
                        : p->contraction.out.dtype == STATOR_F16 ? 0x1p-11 * fabs(t->value)
                                                                 : 0;
    return slack * (k * 0x1p-24 * (t->size + fabs(t->value))) + unit + 1e-30;
}

void compare(const problem *p, const char *what, double slack)
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
        int64_t out = value(p, p->contraction.out.offset);
        for (uint32_t i = w.n; i-- > 0;) {
            index[i] = rest % w.extent[i];
            rest /= w.extent[i];
            out += index[i] * w.out[i];
        }
        total t = p->contraction.kind == ST_CONTRACTION_GEMM ? gemm_at(p, &w, index)
                  : p->contraction.is_weight_grad            ? weight_grad_at(p, index)
                                                             : conv_at(p, index);
        finish(p, &t, index[w.feature], out);
        const double got = at(p, OUT, out);
        const int is_same = isnan(t.value)
                                ? isnan(got)
                                : got == t.value || fabs(got - t.value) <= allowed(p, &t, slack);
        cr_assert(is_same, "%s: element %lld is %.9g, expected %.9g, allowed %.3g", what,
                  (long long)e, got, t.value, allowed(p, &t, slack));
    }
}

void set_constant(problem *p)
{
    p->contraction.y_data = p->buffers[Y];
    for (uint32_t i = 0; i < 16; i++) {
        p->contraction.y_hash[i] = (uint8_t)(next() * 127);
    }
}

void *create(problem *p, const char *what)
{
    void *op = NULL;
    stator_diag *err = NULL;
    cr_assert_eq(lib->takes(lib->self, &p->contraction), 1, "%s is not taken", what);
    const stator_status status = lib->create(lib->self, &p->contraction, &op, &err);
    cr_assert_eq(status, STATOR_OK, "%s: %s", what, st_diag_text(err));
    return op;
}

/* With y as an input and as a constant. `fast`: not by plain loops. */
static void check_slack(problem *p, const char *what, double slack)
{
    for (uint32_t is_constant = 0; is_constant < 2; is_constant++) {
        fill(p);
        p->contraction.y_data = NULL;
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

void check(problem *p, const char *what)
{
    check_slack(p, what, 1);
}

void with_constant(problem *p)
{
    fill(p);
    set_constant(p);
}

void run_as(problem *p, const char *what, double slack, const char *by)
{
    void *op = create(p, what);
    call(p, op);
    compare(p, what, slack);
    if (by) {
        cr_assert_str_eq(api->describe(op), by, "%s by %s", what, api->describe(op));
    }
    lib->destroy(lib->self, op);
    empty(p);
}

int has_wide(uint32_t dtype)
{
    const int has_vectors = __builtin_cpu_supports("avx512bw") &&
                            __builtin_cpu_supports("avx512dq") &&
                            __builtin_cpu_supports("avx512vl");
    return has_vectors && (dtype == STATOR_BF16 ? __builtin_cpu_supports("avx512bf16") != 0
                                                : __builtin_cpu_supports("avx512vnni") != 0);
}

uint32_t thread_count(void)
{
    uint32_t n = 0;
    DIR *dir = opendir("/proc/self/task");
    for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
        n += e->d_name[0] != '.';
    }
    (void)(dir ? closedir(dir) : 0);
    return n;
}

void fail_allocations(problem *p)
{
    uint32_t failures = 0;
    for (uint64_t at_request = 1; at_request < 100; at_request++) {
        void *op = NULL;
        stator_diag *err = NULL;
        mem.requests = 0;
        mem.fail_at = at_request;
        stator_status status = lib->create(lib->self, &p->contraction, &op, &err);
        if (status == STATOR_OK) {
            const st_library_call c = {.buffers = p->buffers, .numbers = p->numbers};
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
}

void check_scratch(problem *p, uint32_t flags)
{
    st_library_memory told;
    f.threads = 1;
    fail_allocations(p);
    api->close(lib);
    open_with(flags);
    void *op = create(p, "a contraction with scratch");
    const uint64_t before = mem.live_bytes;
    call(p, op);
    lib->memory(lib->self, op, &told);
    const uint64_t taken = mem.live_bytes - before;
    cr_assert(taken >= told.scratch_bytes && taken <= told.scratch_bytes + 512,
              "%llu bytes, not %llu", (unsigned long long)taken,
              (unsigned long long)told.scratch_bytes);
    lib->destroy(lib->self, op);
}
