/* Convolutions with a group for each channel, plane by plane (dn_planes.c), against plain loops in
 * f64, with vectors of 64 bytes and of 32. */
#include "dnnl_support.h"

#include "core/base/convert.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

TestSuite(dnnl_planes, .init = dnnl_begin_tiles, .fini = dnnl_end);

/* Widths below, at and above those of vectors, so wide that a line is several tiles; strides and
 * dilations with and without common divisors; windows of one line, of even sizes, wider than the
 * image; pads that differ; several features a channel; one axis; planes of several blocks. Channels
 * that fill vectors, whole and in part, of short lines and of strides, also of planes so large that
 * only some lines of them lie in scratch. */
static const conv_case planes[] = {
    {2, 2, 24, 24, 24, {7, 7}, {5, 5}, {1, 1}, {1, 1}, {2, 2}, {2, 2}},
    {2, 1, 37, 37, 37, {28, 27}, {3, 4}, {1, 1}, {1, 2}, {0, 3}, {2, 1}},
    {2, 2, 17, 17, 17, {113, 112}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
    {2, 1, 9, 27, 9, {90, 31}, {5, 3}, {3, 2}, {4, 3}, {9, 0}, {0, 5}},
    {2, 1, 32, 32, 32, {13, 9}, {3, 1}, {1, 1}, {1, 1}, {5, 2}, {4, 1}},
    {2, 2, 8, 8, 8, {112, 112}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 1, 3, 3, 3, {20, 16}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 2, 5, 5, 5, {7, 7}, {5, 5}, {1, 1}, {1, 1}, {2, 2}, {2, 2}},
    {2, 1, 20, 20, 20, {14, 14}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 1, 40, 40, 40, {15, 13}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
    {2, 1, 4, 4, 4, {9, 300}, {1, 7}, {1, 1}, {1, 1}, {0, 3}, {0, 3}},
    {2, 1, 6, 6, 6, {31, 45}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
    {2, 1, 6, 6, 6, {30, 90}, {4, 2}, {3, 3}, {1, 1}, {1, 0}, {2, 1}},
    {2, 1, 4, 4, 4, {40, 40}, {3, 3}, {1, 1}, {2, 3}, {2, 3}, {2, 3}},
    {2, 1, 4, 4, 4, {80, 61}, {3, 3}, {2, 4}, {3, 6}, {3, 7}, {0, 1}},
    {2, 2, 4, 12, 4, {17, 33}, {3, 3}, {1, 2}, {1, 1}, {1, 0}, {0, 1}},
    {2, 1, 2, 2, 2, {12, 14}, {31, 31}, {1, 1}, {1, 1}, {15, 15}, {15, 15}},
    {2, 1, 4, 4, 4, {3, 2}, {2, 2}, {1, 1}, {1, 1}, {6, 20}, {5, 30}},
    {1, 3, 16, 16, 16, {500}, {9}, {1}, {1}, {8}, {0}},
    {1, 1, 6, 12, 6, {1999}, {4}, {5}, {2}, {1}, {2}}};
#define PLANES (sizeof planes / sizeof planes[0])

/* Transposed: strides of 1, 2 and more, that differ, with and without dilations; output past the
 * last pixel that is met; several features a channel; one axis; planes of several blocks. */
static const struct {
    conv_case c;
    int64_t more[2];
} transposed[] = {{{2, 2, 8, 8, 8, {28, 28}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {1, 1}}, {0, 0}},
                  {{2, 1, 30, 30, 30, {7, 5}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}}, {1, 1}},
                  {{2, 1, 10, 30, 10, {9, 20}, {2, 5}, {3, 1}, {1, 2}, {0, 3}, {1, 8}}, {2, 0}},
                  {{2, 2, 99, 99, 99, {6, 3}, {3, 2}, {1, 4}, {2, 3}, {4, 0}, {0, 3}}, {0, 3}},
                  {{2, 1, 33, 33, 33, {200, 3}, {7, 3}, {3, 2}, {2, 1}, {5, 1}, {0, 1}}, {1, 0}},
                  {{2, 1, 2, 2, 2, {70, 90}, {2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}}, {0, 0}},
                  {{1, 2, 12, 12, 12, {300}, {8}, {4}, {1}, {2}, {2}}, {0}}};
#define TRANSPOSED (sizeof transposed / sizeof transposed[0])

/* With and without an operand that is added. */
static void run_all(int is_added)
{
    for (size_t i = 0; i < PLANES + TRANSPOSED; i++) {
        for (int32_t threads = 1; threads <= 2; threads++) {
            char name[64];
            problem p;
            (void)snprintf(name, sizeof name, "planes %zu, %d threads", i, (int)threads);
            f.threads = threads;
            if (i < PLANES) {
                conv(&p, STATOR_F32, STATOR_F32, &planes[i], 0, 0);
            } else {
                conv_transpose(&p, &transposed[i - PLANES].c, transposed[i - PLANES].more, 0, 0);
            }
            with_constant(&p);
            run_as(&p, name, 1, "planes");
            epilogue(&p, threads == 1 ? ST_EPILOGUE_BIAS : ST_EPILOGUE_OFFSET, 0.5, 0);
            epilogue(&p, ST_EPILOGUE_SCALE, 0.75, 0);
            if (is_added) {
                epilogue(&p, ST_EPILOGUE_ADD, 0, 0);
            }
            epilogue(&p, ST_EPILOGUE_TIMES, 0, 0);
            epilogue(&p, ST_EPILOGUE_OFFSET, 0.25, 0);
            epilogue(&p, i % 2 ? ST_EPILOGUE_RELU : ST_EPILOGUE_CLIP, -0.5, 3);
            fill(&p); /* weights that come with the call */
            run_as(&p, name, 1, "planes");
        }
    }
}

Test(dnnl_planes, wide)
{
    run_all(0);
    run_all(1);
}

Test(dnnl_planes, narrow)
{
    if (!dnnl_begin_narrow(0)) {
        cr_skip_test("this processor has no AVX2");
    }
    run_all(0);
    run_all(1);
}

/* Channels last are others'. */
Test(dnnl_planes, channels_last_are_refused)
{
    problem p;
    conv(&p, STATOR_F32, STATOR_F32, &planes[0], 1, 1);
    with_constant(&p);
    void *op = create(&p, "channels last");
    call(&p, op);
    cr_assert_str_neq(api->describe(op), "planes");
    lib->destroy(lib->self, op);
    empty(&p);
}

/* What lies between the pixels of a transposed convolution meets no weight. */
Test(dnnl_planes, transposed_conv_ignores_infinite_weights_between_pixels)
{
    for (uint32_t i = 0; i < TRANSPOSED; i++) {
        problem p;
        conv_transpose(&p, &transposed[i].c, transposed[i].more, 0, 0);
        fill(&p);
        st_store_f64(STATOR_F32, p.buffers[Y], 1, INFINITY);
        st_store_f64(STATOR_F32, p.buffers[Y], p.elements[Y] - 1, NAN);
        set_constant(&p);
        run_as(&p, "weights that are not finite", 1, "planes");
    }
}
