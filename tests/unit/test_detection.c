/* roi_align and nms of eager beyond their case files: many channels give the bits of few, NMS keeps
 * what its definition keeps, on one thread and on several. */
#include "tests/unit/support_run.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- roi_align ---- */

/* 150 channels are 3 that repeat: blocks of 64, registers of 16 and what is left. */
static const char roi[] =
    "stir 1\ngraph @m() {\n"
    "  %%s = constant {value = i64[] {7}}\n"
    "  %%o = constant {value = i64[] {3}}\n"
    "  %%f = rng_normal(%%s, %%o) {shape = [2, 3, 9, 11], dtype = f32}\n"
    "  %%x = cast(%%f) {dtype = %s}\n"
    "  %%q = rng_uniform(%%o, %%s) {shape = [17, 4], dtype = f32, low = -3.0, high = 12.0}\n"
    "  %%r = cast(%%q) {dtype = %s}\n"
    "  %%u = rng_uniform(%%s, %%s) {shape = [17], dtype = f32, low = 0.0, high = 2.0}\n"
    "  %%b = cast(%%u) {dtype = i64}\n"
    "  %%n = iota() {shape = [150], dtype = i64, axis = 0}\n"
    "  %%m = constant {value = i64[1] {3}}\n"
    "  %%i = mod(%%n, %%m)\n"
    "  %%w = gather(%%x, %%i) {axis = 1}\n"
    "  %%1 = roi_align(%%w, %%r, %%b) {%s}\n"
    "  %%y = roi_align(%%x, %%r, %%b) {%s}\n"
    "  %%2 = gather(%%y, %%i) {axis = 1}\n"
    "  return %%1, %%2\n}\n";

Test(detection, roi_align_of_many_channels_equals_single_ones)
{
    static const char *const dtypes[] = {"f32", "f16", "f64"};
    static const char *const attrs[] = {
        "height = 3, width = 4, sampling_ratio = 2, half_pixel = 1",
        "height = 2, width = 5, sampling_ratio = 0, half_pixel = 0, scale = 0.7",
        "height = 2, width = 2, sampling_ratio = 9, half_pixel = 1, scale = 2.0",
        "height = 3, width = 3, sampling_ratio = 2, half_pixel = 1, mode = \"max\""};
    stator_ctx *ctx = run_context();
    for (int d = 0; d < 3; d++) {
        for (int k = 0; k < 4; k++) {
            char text[2048];
            (void)snprintf(text, sizeof text, roi, dtypes[d], dtypes[d], attrs[k], attrs[k]);
            cr_expect_eq(run_pairs(ctx, "eager", 0, text, strlen(text), attrs[k]), 0, "%s: %s",
                         dtypes[d], attrs[k]);
        }
    }
    stator_ctx_destroy(ctx);
}

/* ---- nms ---- */

#define BOXES 700
#define CLASSES 3
#define IMAGES 2

static float boxes[IMAGES][BOXES][4], scores[IMAGES][CLASSES][BOXES];

typedef struct limits {
    int64_t most;
    float iou, score;
    int is_centre, has_score;
} limits;

static uint32_t seed;

static float draw(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (float)(seed >> 8) / 16777216.0f;
}

/* Coordinates on a grid, so that overlaps equal thresholds; scores that tie, some NaN and
 * infinite. */
static void fill(void)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, -0.0f, 0.0f};
    seed = 5;
    for (int i = 0; i < IMAGES * BOXES * 4; i++) {
        (&boxes[0][0][0])[i] = floorf(draw() * 16.0f) / 2.0f;
    }
    for (int i = 0; i < IMAGES * CLASSES * BOXES; i++) {
        const float r = draw();
        (&scores[0][0][0])[i] = r < 0.02f ? odd[(int)(r * 250.0f)] : floorf(r * 60.0f) / 64.0f;
    }
}

static void corners_of(const float box[4], int is_centre, double out[4])
{
    if (is_centre) {
        out[0] = box[1] - box[3] / 2.0;
        out[1] = box[0] - box[2] / 2.0;
        out[2] = box[1] + box[3] / 2.0;
        out[3] = box[0] + box[2] / 2.0;
        return;
    }
    for (int k = 0; k < 2; k++) {
        out[k] = fmin(box[k], box[k + 2]);
        out[k + 2] = fmax(box[k], box[k + 2]);
    }
}

static float overlap(const double p[4], const double q[4])
{
    const double height = fmin(p[2], q[2]) - fmax(p[0], q[0]);
    const double width = fmin(p[3], q[3]) - fmax(p[1], q[1]);
    if (!(height > 0) || !(width > 0)) {
        return 0;
    }
    const double all = (p[2] - p[0]) * (p[3] - p[1]) + (q[2] - q[0]) * (q[3] - q[1]);
    return (float)(height * width / (all - height * width));
}

/* NaN before all, then by falling score, then by index. */
static int stands_before(float a, float b)
{
    return isnan(a) ? !isnan(b) : a > b;
}

/* By definition, the best of those left again and again; returns how many rows. */
static int64_t by_definition(const limits *l, int64_t (*rows)[3])
{
    int64_t n = 0;
    for (int64_t k = 0; k < (int64_t)IMAGES * CLASSES; k++) {
        const float *s = scores[k / CLASSES][k % CLASSES];
        uint8_t is_done[BOXES] = {0};
        const int64_t first = n;
        while (n - first < l->most) {
            int64_t best = -1;
            for (int64_t i = 0; i < BOXES; i++) {
                if (!is_done[i] && (!l->has_score || s[i] > l->score) &&
                    (best < 0 || stands_before(s[i], s[best]))) {
                    best = i;
                }
            }
            if (best < 0) {
                break;
            }
            is_done[best] = 1;
            double p[4];
            corners_of(boxes[k / CLASSES][best], l->is_centre, p);
            int is_kept = 1;
            for (int64_t i = first; i < n && is_kept; i++) {
                double q[4];
                corners_of(boxes[k / CLASSES][rows[i][2]], l->is_centre, q);
                is_kept = !(overlap(p, q) > l->iou);
            }
            if (is_kept) {
                rows[n][0] = k / CLASSES;
                rows[n][1] = k % CLASSES;
                rows[n++][2] = best;
            }
        }
    }
    return n;
}

static void check_nms(const limits *l, int32_t threads)
{
    static const char *const dirs[] = {ST_TEST_BUILD "/lib/stator/plugins-1"};
    static int64_t want[IMAGES * CLASSES * BOXES][3];
    const stator_ctx_options options = {.struct_size = sizeof options,
                                        .flags = STATOR_CTX_NO_ENV,
                                        .threads = threads,
                                        .plugin_dir_count = 1,
                                        .plugin_dirs = dirs};
    stator_ctx *ctx = NULL;
    char text[512];
    cr_assert_eq(stator_ctx_create(&options, &ctx), STATOR_OK);
    (void)snprintf(text, sizeof text,
                   "stir 1\nsym u unbacked in [0, 5000]\n"
                   "graph @m(%%b: f32[2, 700, 4], %%s: f32[2, 3, 700]) {\n"
                   "  %%m = constant {value = i64[] {%lld}}\n"
                   "  %%i = constant {value = f32[] {%.9g}}\n"
                   "  %%t = constant {value = f32[] {%.9g}}\n"
                   "  %%1 = nms(%%b, %%s, %%m, %%i%s) {center_point = %d} : i64[u, 3]\n"
                   "  return %%1\n}\n",
                   (long long)l->most, (double)l->iou, (double)l->score, l->has_score ? ", %t" : "",
                   l->is_centre);
    stator_function *f = run_compile(ctx, "eager", text, "nms");
    cr_assert_not_null(f);
    stator_tensor *in[2] = {run_tensor(ctx, STATOR_F32, 3, (int64_t[]){2, 700, 4}, boxes),
                            run_tensor(ctx, STATOR_F32, 3, (int64_t[]){2, 3, 700}, scores)};
    stator_tensor *y = NULL;
    cr_assert_eq(stator_call_tensors(f, 2, in, 1, &y), STATOR_OK, "%s", stator_ctx_error_text(ctx));
    const int64_t n = by_definition(l, want);
    cr_expect_eq(stator_tensor_view(y)->shape[0], n, "most %lld iou %g: %lld rows, not %lld",
                 (long long)l->most, (double)l->iou, (long long)stator_tensor_view(y)->shape[0],
                 (long long)n);
    cr_expect(stator_tensor_view(y)->shape[0] == n &&
                  memcmp(stator_tensor_data(y), want, (size_t)n * sizeof want[0]) == 0,
              "most %lld, iou %g, score %g, centre %d, %d threads", (long long)l->most,
              (double)l->iou, (double)l->score, l->is_centre, threads);
    stator_tensor_release(y);
    stator_tensor_release(in[0]);
    stator_tensor_release(in[1]);
    stator_function_destroy(f);
    stator_ctx_destroy(ctx);
}

Test(detection, nms_equals_a_plain_reference, .timeout = 120)
{
    static const limits list[] = {{5, 0.5f, 0, 0, 0},    {40, 0.25f, 0.3f, 0, 1},
                                  {700, 0.5f, -1, 0, 1}, {1000, 1.0f / 3, 0.1f, 1, 1},
                                  {9, 0, 0, 0, 1},       {200, 1, 0, 1, 0},
                                  {60, 0.01f, 0, 0, 0},  {0, 0.5f, 0, 0, 0}};
    fill();
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        check_nms(&list[i], 1);
        check_nms(&list[i], 4);
    }
}
