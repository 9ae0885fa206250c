/* Weights in Winograd's form: the same bits as oneDNN's own reorder gives, from weights in any
 * order of axes; forms that are not known are left alone. */
#include "plugins/cpu-llvm/kernels/dn.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

typedef struct layer {
    int64_t out, in, side;
} layer;

static dnnl_engine_t engine;

static void begin(void)
{
    cr_assert_eq(dnnl_engine_create(&engine, dnnl_cpu, 0), dnnl_success);
}

static void end(void)
{
    (void)dnnl_engine_destroy(engine);
}

TestSuite(winograd, .init = begin, .fini = end);

/* The form of weights that a Winograd convolution of oneDNN asks for here; 0: there is none. */
static int form_of(const layer *l, int64_t images, dnnl_memory_desc_t *out)
{
    const dnnl_dims_t x_dims = {images, l->in, l->side, l->side};
    const dnnl_dims_t w_dims = {l->out, l->in, 3, 3};
    const dnnl_dims_t out_dims = {images, l->out, l->side, l->side};
    const dnnl_dims_t ones = {1, 1};
    dnnl_memory_desc_t x, w, y;
    dnnl_convolution_desc_t what;
    dnnl_primitive_desc_t primitive = NULL;
    (void)dnnl_memory_desc_init_by_tag(&x, 4, x_dims, dnnl_f32, dnnl_format_tag_any);
    (void)dnnl_memory_desc_init_by_tag(&w, 4, w_dims, dnnl_f32, dnnl_format_tag_any);
    (void)dnnl_memory_desc_init_by_tag(&y, 4, out_dims, dnnl_f32, dnnl_format_tag_any);
    (void)dnnl_convolution_forward_desc_init(&what, dnnl_forward_inference,
                                             dnnl_convolution_winograd, &x, &w, NULL, &y, ones,
                                             ones, ones);
    if (dnnl_primitive_desc_create(&primitive, &what, NULL, engine, NULL) != dnnl_success) {
        return 0;
    }
    *out = *dnnl_primitive_desc_query_md(primitive, dnnl_query_weights_md, 0);
    (void)dnnl_primitive_desc_destroy(primitive);
    return 1;
}

static void reorder(const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to, float *y,
                    float *dst)
{
    dnnl_memory_t in = NULL;
    dnnl_memory_t out = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t primitive = NULL;
    dnnl_stream_t stream = NULL;
    cr_assert_eq(dnnl_memory_create(&in, from, engine, y), dnnl_success);
    cr_assert_eq(dnnl_memory_create(&out, to, engine, dst), dnnl_success);
    cr_assert_eq(dnnl_reorder_primitive_desc_create(&pd, from, engine, to, engine, NULL),
                 dnnl_success);
    cr_assert_eq(dnnl_primitive_create(&primitive, pd), dnnl_success);
    cr_assert_eq(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags), dnnl_success);
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, in}, {DNNL_ARG_TO, out}};
    cr_assert_eq(dnnl_primitive_execute(primitive, stream, 2, args), dnnl_success);
    (void)dnnl_stream_wait(stream);
    (void)dnnl_stream_destroy(stream);
    (void)dnnl_primitive_destroy(primitive);
    (void)dnnl_primitive_desc_destroy(pd);
    (void)dnnl_memory_destroy(in);
    (void)dnnl_memory_destroy(out);
}

static float *random_weights(int64_t n)
{
    float *y = malloc((size_t)n * sizeof *y);
    uint32_t seed = 12345;
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        y[i] = (float)(int32_t)seed * 0x1p-31F;
    }
    y[n / 2] = 1e30F; /* nothing is lost of large and small ones */
    y[n / 3] = 1e-38F;
    return y;
}

/* 1: the form is known and the bits are right. */
static int check(const layer *l, const dnnl_memory_desc_t *to, dnnl_format_tag_t order)
{
    static dn_lib lib;
    const dn_op op = {.lib = &lib};
    const dnnl_dims_t dims = {l->out, l->in, 3, 3};
    const size_t bytes = dnnl_memory_desc_get_size(to);
    dnnl_memory_desc_t from;
    float *y = random_weights(l->out * l->in * 9);
    float *want = aligned_alloc(64, bytes);
    float *got = aligned_alloc(64, bytes);
    (void)dnnl_memory_desc_init_by_tag(&from, 4, dims, dnnl_f32, order);
    memset(got, 0x55, bytes);
    const int is_known = dn_winograd_pack(&op, &from, to, y, got);
    if (is_known && order == dnnl_oihw) { /* oneDNN's reads no other order */
        reorder(&from, to, y, want);
        cr_assert_eq(memcmp(got, want, bytes), 0, "%lld x %lld", (long long)l->out,
                     (long long)l->in);
    }
    free(y);
    free(want);
    free(got);
    return is_known;
}

Test(winograd, weights_equal_onednns_bit_for_bit)
{
    static const layer layers[] = {{64, 64, 56},  {128, 128, 28}, {256, 256, 14}, {512, 512, 7},
                                   {96, 160, 20}, {32, 64, 30},   {128, 64, 28},  {48, 48, 12}};
    uint32_t known = 0;
    uint32_t large = 0;
    for (uint32_t i = 0; i < sizeof layers / sizeof layers[0]; i++) {
        for (int64_t images = 1; images <= 16; images += 15) {
            dnnl_memory_desc_t to;
            if (form_of(&layers[i], images, &to)) {
                const int is_large =
                    to.format_desc.wino_desc.wino_format == dnnl_wino_wei_OBaaIBOIio;
                const int is_known = check(&layers[i], &to, dnnl_oihw);
                cr_assert(is_large || !is_known);
                known += (uint32_t)is_known;
                large += (uint32_t)is_large;
            }
        }
    }
    cr_assert_eq(known, large, "a form of tiles of 4x4 is left to oneDNN");
    cr_log_info("%u forms", known);
}

Test(winograd, weights_of_any_axis_order)
{
    const layer l = {32, 64, 30};
    static dn_lib lib;
    const dn_op op = {.lib = &lib};
    dnnl_memory_desc_t to, plain, last;
    if (!form_of(&l, 16, &to)) {
        cr_log_info("this processor has no Winograd convolution in oneDNN");
        return;
    }
    const dnnl_dims_t dims = {l.out, l.in, 3, 3};
    (void)dnnl_memory_desc_init_by_tag(&plain, 4, dims, dnnl_f32, dnnl_oihw);
    (void)dnnl_memory_desc_init_by_tag(&last, 4, dims, dnnl_f32, dnnl_hwio);
    const size_t bytes = dnnl_memory_desc_get_size(&to);
    const size_t n = (size_t)(l.out * l.in * 9);
    float *y = random_weights((int64_t)n);
    float *moved = malloc(n * sizeof *moved);
    float *a = aligned_alloc(64, bytes);
    float *b = aligned_alloc(64, bytes);
    for (int64_t o = 0; o < l.out; o++) {
        for (int64_t i = 0; i < l.in; i++) {
            for (int64_t k = 0; k < 9; k++) {
                moved[(k * l.in + i) * l.out + o] = y[(o * l.in + i) * 9 + k];
            }
        }
    }
    if (dn_winograd_pack(&op, &plain, &to, y, a)) {
        cr_assert(dn_winograd_pack(&op, &last, &to, moved, b));
        cr_assert_eq(memcmp(a, b, bytes), 0);
    }
    free(y);
    free(moved);
    free(a);
    free(b);
}

/* What is not exactly the form is oneDNN's business. */
Test(winograd, other_weight_formats_are_refused)
{
    const layer l = {32, 64, 30};
    dnnl_memory_desc_t to;
    if (!form_of(&l, 16, &to) || to.format_desc.wino_desc.wino_format != dnnl_wino_wei_OBaaIBOIio) {
        cr_log_info("this processor has no such convolution in oneDNN");
        return;
    }
    dnnl_memory_desc_t other = to;
    other.format_desc.wino_desc.adj_scale = 0.5F;
    cr_assert_not(check(&l, &other, dnnl_oihw));
    other = to;
    other.format_desc.wino_desc.ic_block = 8;
    cr_assert_not(check(&l, &other, dnnl_oihw));
    other = to;
    other.format_desc.wino_desc.oc = 16;
    cr_assert_not(check(&l, &other, dnnl_oihw));
    cr_assert_not(check(&l, &to, dnnl_OIhw16i16o)); /* the source is blocked */
    cr_assert(check(&l, &to, dnnl_oihw));
}
