/* Transposed convolutions by kernels of our own: their phases. Bytes: every result exact. */
#include "dnnl_support.h"

#include "core/base/convert.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

TestSuite(dnnl_transposed, .init = dnnl_begin_tiles, .fini = dnnl_end);

typedef struct transposed_case {
    conv_case c;
    int64_t more[3]; /* of the output, what the stride leaves open */
} transposed_case;

/* Strides of 1, 2, 3 and more; windows shorter than the stride, as long and longer; pads that
 * differ, larger ones than phases reach back; dilation that has divisors in common with the stride
 * and not; few features, of which the places are contiguous; one axis and two; images of one
 * pixel, wider than a chunk, and of which not all lines are in scratch at a time. */
static const transposed_case images[] = {
    {{2, 2, 32, 16, 1, {7, 9}, {2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}}, {0, 0}},
    {{2, 1, 16, 40, 1, {8, 8}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {1, 1}}, {0, 0}},
    {{2, 3, 17, 33, 1, {8, 7}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}}, {1, 1}},
    {{2, 1, 16, 16, 1, {8, 8}, {3, 2}, {1, 3}, {1, 1}, {0, 1}, {1, 0}}, {0, 2}},
    {{2, 1, 12, 31, 1, {5, 6}, {2, 5}, {3, 3}, {1, 1}, {0, 2}, {1, 0}}, {2, 1}},
    {{2, 1, 16, 32, 1, {9, 9}, {3, 3}, {1, 1}, {2, 2}, {0, 0}, {0, 0}}, {0, 0}},
    {{2, 2, 9, 17, 1, {6, 7}, {3, 4}, {2, 4}, {2, 6}, {2, 3}, {0, 1}}, {1, 3}},
    {{2, 1, 8, 24, 1, {6, 5}, {4, 3}, {3, 2}, {2, 3}, {5, 1}, {2, 4}}, {0, 1}},
    {{2, 1, 8, 20, 1, {9, 8}, {3, 3}, {1, 1}, {1, 1}, {2, 1}, {0, 2}}, {0, 0}},
    {{2, 1, 35, 50, 1, {7, 7}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}}, {0, 0}},
    {{2, 1, 35, 50, 1, {7, 7}, {1, 1}, {2, 3}, {1, 1}, {0, 0}, {0, 0}}, {1, 2}},
    {{2, 4, 50, 48, 1, {1, 1}, {4, 4}, {1, 1}, {1, 1}, {0, 0}, {0, 0}}, {0, 0}},
    {{2, 1, 3, 8, 1, {5, 170}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}}, {1, 1}},
    {{2, 1, 6, 8, 1, {12, 5}, {7, 9}, {1, 2}, {1, 1}, {4, 7}, {5, 7}}, {0, 1}},
    {{2, 1, 126, 1, 1, {64, 30}, {3, 2}, {2, 2}, {1, 1}, {1, 0}, {1, 0}}, {1, 0}},
    {{2, 2, 16, 3, 1, {9, 70}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {1, 1}}, {0, 0}}, /* few features */
    {{2, 1, 9, 1, 1, {6, 7}, {3, 5}, {1, 2}, {2, 3}, {2, 0}, {1, 3}}, {0, 1}},
    {{2, 1, 8, 6, 1, {5, 6}, {2, 3}, {3, 4}, {1, 2}, {0, 1}, {0, 0}}, {1, 2}},
    {{1, 2, 12, 7, 1, {300}, {5}, {3}, {2}, {1}, {2}}, {1}},
    {{1, 2, 32, 16, 1, {20}, {4}, {2}, {1}, {1}, {1}}, {0}},
    {{1, 1, 10, 24, 1, {90}, {16}, {8}, {1}, {4}, {4}}, {0}},
    {{1, 1, 6, 16, 1, {40}, {3}, {16}, {5}, {0}, {0}}, {7}}};
#define IMAGES (sizeof images / sizeof images[0])

/* Three axes: depth phases of one input slice and of more, also of different numbers of them; outer
 * slices in the padding; dilation; few features; lines that do not stay in scratch together. */
static const transposed_case volumes[] = {
    {{3, 1, 32, 32, 1, {4, 7, 7}, {2, 2, 2}, {2, 2, 2}, {1, 1, 1}, {0}, {0}}, {0}},
    {{3, 2, 16, 40, 1, {3, 5, 6}, {3, 3, 3}, {2, 2, 2}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
     {1, 1, 1}},
    {{3, 2, 12, 33, 1, {4, 5, 5}, {4, 4, 4}, {2, 2, 2}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}}, {0}},
    {{3, 1, 10, 16, 1, {5, 4, 6}, {3, 2, 3}, {1, 1, 1}, {1, 1, 1}, {2, 0, 1}, {0, 1, 1}}, {0}},
    {{3, 1, 9, 17, 1, {3, 4, 5}, {5, 3, 2}, {3, 2, 1}, {2, 1, 2}, {4, 1, 0}, {2, 0, 0}}, {2, 1, 0}},
    {{3, 2, 7, 20, 1, {1, 3, 4}, {3, 3, 3}, {2, 1, 2}, {1, 1, 1}, {0, 1, 1}, {0, 1, 0}}, {1, 0, 1}},
    {{3, 1, 24, 3, 1, {4, 9, 8}, {4, 4, 4}, {2, 2, 2}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}}, {0}},
    {{3, 1, 64, 9, 1, {2, 30, 40}, {3, 2, 2}, {2, 2, 2}, {1, 1, 1}, {0}, {0}}, {0}},
    {{3, 1, 20, 24, 1, {3, 6, 5}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 0, 0}, {0}}, {0}}};
#define VOLUMES (sizeof volumes / sizeof volumes[0])

static const transposed_case grouped_volume = {
    {3, 2, 24, 54, 3, {3, 6, 5}, {2, 3, 3}, {2, 2, 2}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}}, {0, 1, 1}};

/* Groups of at most eight features, whose windows have one place. */
static const transposed_case grouped_places[] = {
    {{2, 2, 40, 8, 2, {24, 20}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}}, {0, 0}},
    {{2, 1, 16, 16, 2, {9, 30}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}}, {0, 0}},
    {{1, 2, 24, 12, 3, {100}, {1}, {1}, {1}, {0}, {0}}, {0}}};

/* Groups: of four channels and features, in chunks of four groups and not; and of others. */
static const transposed_case grouped[] = {
    {{2, 2, 64, 64, 16, {7, 6}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}}, {1, 1}},
    {{2, 1, 48, 48, 12, {5, 6}, {3, 2}, {1, 1}, {1, 2}, {0, 0}, {1, 0}}, {0, 0}},
    {{2, 1, 20, 20, 5, {8, 7}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {1, 1}}, {0, 0}},
    {{2, 1, 24, 54, 3, {8, 8}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}}, {1, 1}},
    {{2, 2, 40, 72, 2, {6, 5}, {1, 3}, {2, 3}, {1, 2}, {0, 1}, {0, 1}}, {1, 0}},
    {{1, 2, 12, 24, 6, {60}, {5}, {2}, {1}, {2}, {1}}, {1}}};
#define GROUPED (sizeof grouped / sizeof grouped[0])

/* A transposed convolution of these dtypes. */
static void transpose(problem *p, const transposed_case *c, const uint32_t dtypes[3],
                      uint32_t order)
{
    conv_transpose(p, &c->c, c->more, order & 1, order >> 1 & 1);
    p->contraction.x.dtype = dtypes[0];
    p->contraction.y.dtype = dtypes[1];
    p->contraction.out.dtype = dtypes[2];
    p->contraction.acc_dtype =
        dtypes[0] == STATOR_F32 || dtypes[0] == STATOR_BF16 ? STATOR_F32 : STATOR_I32;
}

/* Every order of both images, alone and with an epilogue. */
static void check_floats(const transposed_case *all, size_t n, const char *by)
{
    static const uint32_t floats[3] = {STATOR_F32, STATOR_F32, STATOR_F32};
    for (uint32_t i = 0; i < 4 * n; i++) {
        char name[64];
        problem p;
        (void)snprintf(name, sizeof name, "transposed %u, orders %u", i / 4, i % 4);
        f.threads = 1 + (int32_t)(i % 3);
        transpose(&p, &all[i / 4], floats, i % 4);
        with_constant(&p);
        run_as(&p, name, 1, by);
        transpose(&p, &all[i / 4], floats, i % 4);
        epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
        epilogue(&p, ST_EPILOGUE_TIMES, 0, 0);
        epilogue(&p, ST_EPILOGUE_ADD, 0, 0);
        epilogue(&p, i % 3 ? ST_EPILOGUE_RELU : ST_EPILOGUE_CLIP, -0.5, 2);
        with_constant(&p);
        run_as(&p, name, 1, "tiles"); /* oneDNN is slow with so many rows */
    }
}

Test(dnnl_transposed, floats)
{
    if (!dnnl_begin_narrow(0)) {
        cr_skip_test("this processor has no AVX2");
    }
    check_floats(images, IMAGES, "tiles");
    check_floats(volumes, VOLUMES, "tiles");
}

Test(dnnl_transposed, groups_of_floats)
{
    if (!dnnl_begin_narrow(0)) {
        cr_skip_test("this processor has no AVX2");
    }
    check_floats(grouped, GROUPED, NULL);
    check_floats(&grouped_volume, 1, NULL);
    check_floats(grouped_places, sizeof grouped_places / sizeof grouped_places[0], NULL);
}

/* Windows of one place, strides of 1, batches of 1 and 2, one axis and two: where both images have
 * their channels last the pixels are rows of a product, else up to 8 features are col2im's. Weights
 * are packed in panels for the one and in rows for the other. */
static void check_one_place(void)
{
    for (int64_t i = 0; i < 36; i++) {
        transposed_case c = {.c = {.n_spatial = 1 + (uint32_t)(i / 18),
                                   .images = 1 + i / 9 % 2,
                                   .channels = 8 + i % 5,
                                   .features = 1 + i % 9,
                                   .groups = 1}};
        for (uint32_t k = 0; k < c.c.n_spatial; k++) {
            c.c.in[k] = k ? 2 : 1030 / c.c.features; /* work enough for a library */
            c.c.kernel[k] = c.c.stride[k] = c.c.dilation[k] = 1;
        }
        check_floats(&c, 1, "tiles");
    }
}

Test(dnnl_transposed, window_of_one_place_and_few_features)
{
    if (has_wide(STATOR_F32)) {
        check_one_place();
    }
    if (!dnnl_begin_narrow(0)) {
        cr_skip_test("this processor has no AVX2");
    }
    check_one_place();
}

/* Transposed ones that are a plain convolution of the mirrored taps: pads of 0 to 2 that differ,
 * odd sizes, images of one pixel, few channels and features, several images at a time. Then what
 * the library takes with constant weights alone: what a padding of the output adds; and a pad
 * that leaves less than the image, which is none of Winograd's. */
static const transposed_case mirrored[] = {
    {{2, 2, 32, 16, 1, {7, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, {0, 0}},
    {{2, 1, 17, 33, 1, {20, 23}, {3, 3}, {1, 1}, {1, 1}, {0, 2}, {1, 0}}, {0, 0}},
    {{2, 5, 70, 24, 1, {7, 7}, {3, 3}, {1, 1}, {1, 1}, {2, 1}, {2, 1}}, {0, 0}},
    {{2, 3, 16, 3, 1, {13, 18}, {3, 3}, {1, 1}, {1, 1}, {1, 0}, {0, 2}}, {0, 0}},
    {{2, 1, 3, 40, 1, {11, 10}, {3, 3}, {1, 1}, {1, 1}, {2, 2}, {0, 0}}, {0, 0}},
    {{2, 4, 8, 16, 1, {1, 2}, {3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}}, {0, 0}},
    {{2, 1, 9, 16, 1, {6, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, {0, 2}},
    {{2, 1, 16, 20, 1, {12, 9}, {3, 3}, {1, 1}, {1, 1}, {3, 1}, {1, 1}}, {0, 0}}};
#define MIRRORED (sizeof mirrored / sizeof mirrored[0])

/* Every order of both images, with weights that come with the call or constants. */
static void check_mirrored(size_t n, int is_constant, const char *by)
{
    static const uint32_t floats[3] = {STATOR_F32, STATOR_F32, STATOR_F32};
    for (uint32_t i = 0; i < 4 * n; i++) {
        char name[64];
        problem p;
        (void)snprintf(name, sizeof name, "mirrored %u, orders %u", i / 4, i % 4);
        f.threads = 1 + (int32_t)(i % 3);
        transpose(&p, &mirrored[i / 4], floats, i % 4);
        if (is_constant) {
            epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
            epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
        }
        (is_constant ? with_constant : fill)(&p);
        run_as(&p, name, 40, i / 4 + 1 < MIRRORED ? by : "tiles");
    }
}

Test(dnnl_transposed, winograd)
{
    if (!dnnl_begin_narrow(DNNL_WINOGRAD | DNNL_WINOGRAD_FIRST)) {
        cr_skip_test("this processor has no AVX2");
    }
    check_mirrored(MIRRORED - 2, 0, "tiles, winograd");
    check_mirrored(MIRRORED, 1, "tiles, winograd");
}

/* With vectors of 64 bytes. */
Test(dnnl_transposed, floats_wide)
{
    if (!has_wide(STATOR_F32)) {
        cr_skip_test("this processor has no AVX-512");
    }
    check_floats(images, IMAGES, "tiles");
    check_floats(volumes, VOLUMES, "tiles");
}

/* A number that is none changes what its windows meet alone: not what other phases, lines or
 * channels have. */
Test(dnnl_transposed, infinity_reaches_only_its_own_windows)
{
    static const uint32_t floats[3] = {STATOR_F32, STATOR_F32, STATOR_F32};
    if (!dnnl_begin_narrow(0)) {
        cr_skip_test("this processor has no AVX2");
    }
    for (uint32_t i = 0; i < 2 * (IMAGES + VOLUMES); i++) {
        problem p;
        transpose(&p, i / 2 < IMAGES ? &images[i / 2] : &volumes[i / 2 - IMAGES], floats, i);
        epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
        with_constant(&p);
        st_store_f64(STATOR_F32, p.buffers[X], p.elements[X] / 2, i % 2 ? INFINITY : NAN);
        st_store_f64(STATOR_F32, p.buffers[X], p.elements[X] - 1, INFINITY);
        run_as(&p, "one infinity", 1, "tiles");
    }
}

/* Both signs of both operands; zero points: none, of x, of both, one for each feature. Weights with
 * zero points and groups are not for tiles. */
static void check_bytes(const transposed_case *c, uint32_t kind, uint32_t order)
{
    const uint32_t dtypes[3] = {kind % 2 ? STATOR_I8 : STATOR_U8,
                                c->c.groups > 1 || kind / 2 % 2 ? STATOR_I8 : STATOR_U8,
                                STATOR_I32};
    problem p;
    f.threads = 1 + (int32_t)(kind % 3);
    transpose(&p, c, dtypes, order);
    p.contraction.x_zero.value = kind / 4 ? 17 : 0;
    p.contraction.y_zero.value = kind / 4 > 1 && c->c.groups == 1 ? 5 : 0;
    if (kind / 4 == 3 && c->c.groups == 1) {
        p.contraction.y_zero =
            (st_contraction_zero){.has_buffer = 1, .is_each = 1, .buffer = 3, .dtype = dtypes[1]};
        p.contraction.n_buffers = 4;
    }
    with_constant(&p);
    run_as(&p, "a transposed convolution of bytes", 0, "tiles");
    if (kind % 3) {
        return;
    }
    transpose(&p, c, dtypes, order);
    p.contraction.out.dtype = dtypes[1];
    p.contraction.x_zero.value = kind / 4 ? 17 : 0;
    epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
    p.contraction.epilogue[0].dtype = STATOR_I32;
    epilogue(&p, ST_EPILOGUE_SCALE, 0.015625, 0);
    epilogue(&p, ST_EPILOGUE_ROUND, 0, 0);
    with_constant(&p);
    for (int64_t i = 0; i < c->c.features; i++) {
        st_store_f64(STATOR_I32, p.buffers[p.contraction.epilogue[0].buffer], i,
                     (double)(i % 9 * 1000));
    }
    run_as(&p, "a transposed convolution of bytes to bytes", 0, "tiles");
}

/* AVX-512 takes channels first alone. */
static void check_all_bytes(int is_wide)
{
    for (uint32_t i = 0; i < 16 * (IMAGES + GROUPED); i++) {
        const uint32_t at = i / 16;
        const transposed_case *c = at < IMAGES ? &images[at] : &grouped[at - IMAGES];
        const int is_whole = c->c.channels / c->c.groups % 4 == 0;
        if ((i + at) % 2 && (!is_wide || c->c.groups == 1 || is_whole)) { /* half of the kinds */
            check_bytes(c, i % 16, is_wide ? 0 : i / 3 % 4);
        }
    }
}

Test(dnnl_transposed, bytes)
{
    if (has_wide(STATOR_U8)) {
        check_all_bytes(1);
    }
    if (!dnnl_begin_narrow(0)) {
        cr_skip_test("this processor has no AVX2");
    }
    check_all_bytes(0);
}

Test(dnnl_transposed, halves)
{
    static const uint32_t halves[3] = {STATOR_BF16, STATOR_BF16, STATOR_BF16};
    if (!has_wide(STATOR_BF16)) {
        cr_skip_test("this processor has no bf16");
    }
    for (uint32_t i = 0; i < IMAGES; i++) {
        problem p;
        transpose(&p, &images[i], halves, 0);
        epilogue(&p, ST_EPILOGUE_BIAS, 0, 0);
        epilogue(&p, ST_EPILOGUE_RELU, 0, 0);
        with_constant(&p);
        run_as(&p, "a transposed convolution of bf16", 1, "tiles");
    }
}

/* The same constant for two strides, which pack it each in its way. */
Test(dnnl_transposed, one_constant_is_packed_for_two_strides)
{
    static const uint32_t floats[3] = {STATOR_F32, STATOR_F32, STATOR_F32};
    transposed_case c = {{2, 1, 8, 16, 1, {5, 5}, {4, 4}, {2, 2}, {1, 1}, {0, 0}, {0, 0}}, {0, 0}};
    uint8_t hash[16];
    void *ops[2];
    problem p[2];
    if (!dnnl_begin_narrow(0)) {
        cr_skip_test("this processor has no AVX2");
    }
    for (uint32_t i = 0; i < 2; i++) {
        c.c.stride[0] = 2 + (int64_t)i;
        transpose(&p[i], &c, floats, 0);
        with_constant(&p[i]);
        if (i) {
            memcpy(p[1].buffers[Y], p[0].buffers[Y], (size_t)p[0].elements[Y] * sizeof(float));
            memcpy(p[1].contraction.y_hash, hash, sizeof hash);
        }
        memcpy(hash, p[i].contraction.y_hash, sizeof hash);
        ops[i] = create(&p[i], "one constant");
    }
    for (uint32_t i = 0; i < 2; i++) {
        call(&p[i], ops[i]);
        compare(&p[i], "one constant, two strides", 1);
        lib->destroy(lib->self, ops[i]);
        empty(&p[i]);
    }
}
