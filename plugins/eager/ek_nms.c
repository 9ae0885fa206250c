/* nms: ONNX NonMaxSuppression. For each image and class the boxes whose score exceeds the threshold
 * are taken by falling score (equal scores: lower index first) and kept unless their overlap with a
 * box kept before exceeds the iou threshold, up to max_out boxes. Result: rows of image, class,
 * box.
 *
 * Overlaps are computed in f64 and rounded to the boxes' dtype before they are compared, so that an
 * overlap equal to the threshold is kept. Without max_out nothing is kept; without a score
 * threshold every box takes part (ONNX's text and its reference implementation). */
#include "ek_order.h"

#include <math.h>

typedef struct suppression {
    const ek_call *call;
    int64_t images, classes, boxes;
    int64_t max_out;
    double iou;
    double least_score;
    int has_least_score;
    double *corners; /* of one image: y1 x1 y2 x2, ordered */
    int64_t *keys, *order, *spare;
    int64_t *kept;   /* boxes kept of the current class */
    int64_t *result; /* rows so far */
    int64_t count, capacity;
} suppression;

/* Corners of every box of an image, the smaller ones first. */
static void read_boxes(suppression *s, int64_t image)
{
    const ek_tensor *t = &s->call->in[0];
    const int is_centre = ek_int(s->call, STATOR_nms_center_point) != 0;
    for (int64_t i = 0; i < s->boxes; i++) {
        double v[4];
        st_load_f64_block(t->dtype, t->data, (image * s->boxes + i) * 4, 4, v);
        double *c = s->corners + i * 4;
        if (is_centre) { /* x, y, width, height */
            c[0] = v[1] - v[3] / 2.0;
            c[1] = v[0] - v[2] / 2.0;
            c[2] = v[1] + v[3] / 2.0;
            c[3] = v[0] + v[2] / 2.0;
        } else {
            c[0] = v[0] < v[2] ? v[0] : v[2];
            c[1] = v[1] < v[3] ? v[1] : v[3];
            c[2] = v[0] < v[2] ? v[2] : v[0];
            c[3] = v[1] < v[3] ? v[3] : v[1];
        }
    }
}

/* Intersection over union, 0 for boxes that do not overlap, in the boxes' precision. */
static double overlap(const suppression *s, int64_t a, int64_t b)
{
    const double *p = s->corners + a * 4;
    const double *q = s->corners + b * 4;
    const double height = (p[2] < q[2] ? p[2] : q[2]) - (p[0] > q[0] ? p[0] : q[0]);
    const double width = (p[3] < q[3] ? p[3] : q[3]) - (p[1] > q[1] ? p[1] : q[1]);
    if (!(height > 0.0) || !(width > 0.0)) {
        return 0.0;
    }
    const double shared = height * width;
    const double all = (p[2] - p[0]) * (p[3] - p[1]) + (q[2] - q[0]) * (q[3] - q[1]) - shared;
    uint64_t bits = 0;
    st_store_f64(s->call->in[0].dtype, &bits, 0, all > 0.0 ? shared / all : 0.0);
    return st_load_f64(s->call->in[0].dtype, &bits, 0);
}

static int is_suppressed(const suppression *s, int64_t box, int64_t n_kept)
{
    for (int64_t k = 0; k < n_kept; k++) {
        if (overlap(s, box, s->kept[k]) > s->iou) {
            return 1;
        }
    }
    return 0;
}

/* Candidates of one class by falling score; returns how many. */
static int64_t sort_candidates(suppression *s, int64_t first)
{
    const ek_tensor *t = &s->call->in[1];
    int64_t n = 0;
    ek_order_keys(t->dtype, t->data, first, 1, s->boxes, s->keys);
    for (int64_t i = 0; i < s->boxes; i++) {
        s->keys[i] = ~s->keys[i];
        if (!s->has_least_score || st_load_f64(t->dtype, t->data, first + i) > s->least_score) {
            s->order[n++] = i;
        }
    }
    ek_order_sort(s->keys, 1, s->order, s->spare, n);
    return n;
}

/* Makes room for n more rows. The old rows stay in scratch until the kernel returns. */
static stator_status reserve(suppression *s, int64_t n, stator_diag **err)
{
    if (s->count + n <= s->capacity) {
        return STATOR_OK;
    }
    const int64_t capacity = 2 * (s->count + n) + 64;
    int64_t *rows = ek_scratch(s->call, capacity, 3 * sizeof *rows);
    if (rows == NULL) {
        return ek_oom(s->call, err);
    }
    if (s->count > 0) {
        memcpy(rows, s->result, (uint64_t)s->count * 3 * sizeof *rows);
    }
    s->result = rows;
    s->capacity = capacity;
    return STATOR_OK;
}

static stator_status do_class(suppression *s, int64_t image, int64_t class_index, stator_diag **err)
{
    const int64_t n = sort_candidates(s, (image * s->classes + class_index) * s->boxes);
    int64_t n_kept = 0;
    for (int64_t i = 0; i < n && n_kept < s->max_out; i++) {
        if (!is_suppressed(s, s->order[i], n_kept)) {
            s->kept[n_kept++] = s->order[i];
        }
    }
    ST_TRY(reserve(s, n_kept, err));
    for (int64_t k = 0; k < n_kept; k++) {
        int64_t *row = s->result + s->count++ * 3;
        row[0] = image;
        row[1] = class_index;
        row[2] = s->kept[k];
    }
    return STATOR_OK;
}

static stator_status check_sizes(const suppression *s, stator_diag **err)
{
    const ek_call *c = s->call;
    if (c->in[0].dims[2] != 4 || c->in[1].dims[0] != s->images || c->in[1].dims[2] != s->boxes) {
        return ek_fail(c, err, STATOR_INVALID_ARGUMENT,
                       "boxes[%lld, %lld, 4] need scores[%lld, classes, %lld]",
                       (long long)s->images, (long long)s->boxes, (long long)s->images,
                       (long long)s->boxes);
    }
    for (uint32_t k = 2; k < 5; k++) {
        if (ek_has_in(c, k) && c->in[k].numel != 1) {
            return ek_fail(c, err, STATOR_INVALID_ARGUMENT,
                           "operand %u has %lld elements, expected one", k,
                           (long long)c->in[k].numel);
        }
    }
    return STATOR_OK;
}

static stator_status make_scratch(suppression *s, stator_diag **err)
{
    s->corners = ek_scratch(s->call, s->boxes + 1, 4 * sizeof *s->corners);
    s->keys = ek_scratch(s->call, s->boxes + 1, sizeof *s->keys);
    s->order = ek_scratch(s->call, s->boxes + 1, sizeof *s->order);
    s->spare = ek_scratch(s->call, s->boxes + 1, sizeof *s->spare);
    s->kept = ek_scratch(s->call, s->boxes + 1, sizeof *s->kept);
    return s->corners && s->keys && s->order && s->spare && s->kept ? STATOR_OK
                                                                    : ek_oom(s->call, err);
}

static double scalar_or(const ek_call *c, uint32_t k, double other)
{
    return ek_has_in(c, k) ? st_load_f64(c->in[k].dtype, c->in[k].data, 0) : other;
}

stator_status ek_nms(const ek_call *c, stator_diag **err)
{
    suppression s = {.call = c,
                     .images = c->in[0].dims[0],
                     .classes = c->in[1].dims[1],
                     .boxes = c->in[0].dims[1],
                     .has_least_score = ek_has_in(c, 4)};
    ST_TRY(check_sizes(&s, err));
    s.max_out = ek_has_in(c, 2) ? st_load_i64(c->in[2].dtype, c->in[2].data, 0) : 0;
    s.iou = scalar_or(c, 3, 0.0);
    s.least_score = scalar_or(c, 4, 0.0);
    ST_TRY(make_scratch(&s, err));
    for (int64_t image = 0; image < s.images; image++) {
        read_boxes(&s, image);
        for (int64_t k = 0; k < s.classes; k++) {
            ST_TRY(do_class(&s, image, k, err));
        }
    }
    const int64_t dims[2] = {s.count, 3};
    ST_TRY(ek_alloc_out(c, 0, dims, err));
    if (s.count > 0) {
        memcpy(c->out[0].data, s.result, (uint64_t)s.count * 3 * sizeof *s.result);
    }
    return STATOR_OK;
}
