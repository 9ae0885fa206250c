/* nms: ONNX NonMaxSuppression. For each image and class the boxes whose score exceeds the threshold
 * are taken by falling score (equal scores: lower index first) and kept unless their overlap with a
 * box kept before exceeds the iou threshold, up to max_out boxes. Result: rows of image, class,
 * box.
 *
 * Overlaps are computed in f64 and rounded to the boxes' dtype before they are compared, so that an
 * overlap equal to the threshold is kept. Without max_out nothing is kept; without a score
 * threshold every box takes part (ONNX's text and its reference implementation).
 *
 * Classes are shared among the threads, a batch at a time. Of a class the boxes with the highest
 * scores are put in order first, the others only when those are used up. */
#include "plugins/eager/eager.h"

#include "core/base/order/order.h"

#include <math.h>

#define BATCH_BYTES (64 * 1024 * 1024) /* kept boxes that wait for the result */
#define FIRST_MIN 256                  /* boxes put in order at first, */
#define FIRST_EACH 4                   /* and for each that may be kept */
#define CHUNKS_EACH 4                  /* chunks of a batch, for a thread */
/* Below iou * (1 - margin) a quotient stays below iou when it is rounded to the boxes' dtype: f8
 * has three bits at least, from 2^-6 on. */
#define SURE_IOU 0x1p-4
#define MARGIN_F32 0x1p-20
#define MARGIN_NARROW 0.25

/* Boxes as columns: y1 x1 y2 x2, the smaller corner first. */
typedef struct columns {
    double *at[4];
} columns;

/* The room of one chunk. */
typedef struct chunk_room {
    int64_t *order;
    columns kept; /* copies of the boxes kept of the current class */
    double *areas;
    void *scratch; /* scratch of `order` */
} chunk_room;

typedef struct suppression {
    const ek_call *call;
    int64_t images, classes, boxes;
    int64_t max_out; /* most boxes of a class */
    double iou;
    double least_score;
    bool has_least_score;
    double sure_margin;
    columns corners; /* corners of all images */
    int64_t chunks;
    chunk_room *rooms;
    int64_t first, batch; /* classes of all images, counted through, that are done now */
    int64_t *kept;        /* max_out a class of the batch */
    int64_t *n_kept;
    int64_t *result; /* rows so far */
    int64_t count, capacity;
} suppression;

/* Corners of boxes [begin, end) of all images. */
static void read_boxes(void *self, int64_t begin, int64_t end)
{
    const suppression *s = self;
    const ek_tensor *t = &s->call->in[0];
    const bool is_centre = ek_int(s->call, STATOR_nms_center_point) != 0;
    double *const *c = s->corners.at;
    for (int64_t i = begin; i < end; i++) {
        double v[4];
        st_load_f64_block(t->dtype, t->data, i * 4, 4, v);
        if (is_centre) { /* x, y, width, height */
            c[0][i] = v[1] - v[3] / 2.0;
            c[1][i] = v[0] - v[2] / 2.0;
            c[2][i] = v[1] + v[3] / 2.0;
            c[3][i] = v[0] + v[2] / 2.0;
        } else {
            c[0][i] = v[0] < v[2] ? v[0] : v[2];
            c[1][i] = v[1] < v[3] ? v[1] : v[3];
            c[2][i] = v[0] < v[2] ? v[2] : v[0];
            c[3][i] = v[1] < v[3] ? v[3] : v[1];
        }
    }
}

/* ---- overlaps ---- */

typedef struct box {
    double at[4], area;
} box;

static box box_at(const columns *c, int64_t i)
{
    box b = {{c->at[0][i], c->at[1][i], c->at[2][i], c->at[3][i]}, 0};
    b.area = (b.at[2] - b.at[0]) * (b.at[3] - b.at[1]);
    return b;
}

static inline double shared_area(const double p[4], const double q[4])
{
    const double height = (p[2] < q[2] ? p[2] : q[2]) - (p[0] > q[0] ? p[0] : q[0]);
    const double width = (p[3] < q[3] ? p[3] : q[3]) - (p[1] > q[1] ? p[1] : q[1]);
    return height > 0.0 && width > 0.0 ? height * width : 0.0;
}

/* Intersection over union, 0 for boxes that do not overlap, in the boxes' precision. */
static double overlap(const suppression *s, const box *p, const box *q)
{
    const double shared = shared_area(p->at, q->at);
    const double all = p->area + q->area - shared;
    uint64_t bits = 0;
    st_store_f64(s->call->in[0].dtype, &bits, 0, all > 0.0 && shared > 0.0 ? shared / all : 0.0);
    return st_load_f64(s->call->in[0].dtype, &bits, 0);
}

/* How many of the kept boxes [begin, begin + 8) overlap this one by more than `iou`? */
#define FAR_OVERLAPS(name, attribute)                                                              \
    attribute static int64_t name(const chunk_room *in, int64_t begin, const box *b, double iou)   \
    {                                                                                              \
        int64_t n = 0;                                                                             \
        for (int64_t k = begin; k < begin + 8; k++) {                                              \
            const double q[4] = {in->kept.at[0][k], in->kept.at[1][k], in->kept.at[2][k],          \
                                 in->kept.at[3][k]};                                               \
            const double shared = shared_area(b->at, q);                                           \
            n += !(shared <= iou * (b->area + in->areas[k] - shared));                             \
        }                                                                                          \
        return n;                                                                                  \
    }

FAR_OVERLAPS(far_overlaps, )
#if defined(__x86_64__)
FAR_OVERLAPS(far_overlaps_avx2, __attribute__((target("avx2"))))
#endif

static int64_t count_far(const chunk_room *in, int64_t begin, const box *b, double iou)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        return far_overlaps_avx2(in, begin, b, iou);
    }
#endif
    return far_overlaps(in, begin, b, iou);
}

static bool is_suppressed(const suppression *s, const chunk_room *in, const box *b, int64_t n_kept)
{
    const bool is_sure = s->iou >= SURE_IOU && s->iou <= 1.0;
    const double iou = s->iou * (1.0 - s->sure_margin);
    for (int64_t k = 0; k < n_kept; k += 8) {
        const int64_t end = n_kept - k < 8 ? n_kept : k + 8;
        if (is_sure && end == k + 8 && count_far(in, k, b, iou) == 0) {
            continue;
        }
        for (int64_t i = k; i < end; i++) {
            const box other = box_at(&in->kept, i);
            if (overlap(s, b, &other) > s->iou) {
                return true;
            }
        }
    }
    return false;
}

/* ---- a class ---- */

/* Numbers of the `take` boxes with the highest scores, NaN first. */
static void put_in_order(const suppression *s, int64_t class_index, int64_t take, chunk_room *in)
{
    const ek_tensor *t = &s->call->in[1];
    const st_order_threads one = {.count = 1};
    uint64_t bytes = ek_bytes(t->dtype, 1);
    const st_order_job job = {.dtype = t->dtype,
                              .is_falling = 1,
                              .size = s->boxes,
                              .take = take,
                              .x_step = 1,
                              .indices_step = 1,
                              .x = (const char *)t->data +
                                   (uint64_t)(class_index * s->boxes) * bytes,
                              .indices = in->order};
    st_order_run(&job, &one, in->scratch);
}

static int64_t first_take(const suppression *s)
{
    const int64_t first = s->max_out > INT64_MAX / FIRST_EACH ? s->boxes : FIRST_EACH * s->max_out;
    const int64_t wanted = first > FIRST_MIN ? first : FIRST_MIN;
    return wanted < s->boxes / 2 ? wanted : s->boxes;
}

/* Keeps what it may of in->order[begin, end); *out_is_done: no more can be kept of the class. */
static int64_t keep_some(const suppression *s, int64_t class_index, chunk_room *in,
                         int64_t range[2], int64_t n_kept, bool *out_is_done)
{
    const ek_tensor *t = &s->call->in[1];
    const int64_t image = class_index / s->classes;
    int64_t *kept = s->kept + (class_index - s->first) * s->max_out;
    for (int64_t i = range[0]; i < range[1] && n_kept < s->max_out; i++) {
        const int64_t number = in->order[i];
        const double score = ek_get(t, class_index * s->boxes + number);
        if (s->has_least_score && isnan(score)) {
            continue;
        }
        if (s->has_least_score && !(score > s->least_score)) {
            *out_is_done = true;
            return n_kept;
        }
        const box b = box_at(&s->corners, image * s->boxes + number);
        if (!is_suppressed(s, in, &b, n_kept)) {
            for (int k = 0; k < 4; k++) {
                in->kept.at[k][n_kept] = b.at[k];
            }
            in->areas[n_kept] = b.area;
            kept[n_kept++] = number;
        }
    }
    *out_is_done = n_kept == s->max_out;
    return n_kept;
}

static void do_class(const suppression *s, int64_t class_index, chunk_room *in)
{
    int64_t range[2] = {0, first_take(s)};
    int64_t n_kept = 0;
    bool is_done = false;
    while (!is_done && range[0] < s->boxes) {
        put_in_order(s, class_index, range[1], in);
        n_kept = keep_some(s, class_index, in, range, n_kept, &is_done);
        range[0] = range[1];
        range[1] = s->boxes;
    }
    s->n_kept[class_index - s->first] = n_kept;
}

/* Chunks [begin, end) of the batch. */
static void do_chunks(void *self, int64_t begin, int64_t end)
{
    const suppression *s = self;
    for (int64_t chunk = begin; chunk < end; chunk++) {
        for (int64_t k = s->batch * chunk / s->chunks; k < s->batch * (chunk + 1) / s->chunks;
             k++) {
            do_class(s, s->first + k, &s->rooms[chunk]);
        }
    }
}

/* ---- the result ---- */

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

/* Rows of the batch, class after class. */
static stator_status add_batch(suppression *s, stator_diag **err)
{
    for (int64_t k = 0; k < s->batch; k++) {
        ST_TRY(reserve(s, s->n_kept[k], err));
        for (int64_t i = 0; i < s->n_kept[k]; i++) {
            int64_t *row = s->result + s->count++ * 3;
            row[0] = (s->first + k) / s->classes;
            row[1] = (s->first + k) % s->classes;
            row[2] = s->kept[k * s->max_out + i];
        }
    }
    return STATOR_OK;
}

static stator_status check_sizes(const suppression *s, stator_diag **err)
{
    const ek_call *c = s->call;
    EK_FAIL_IF(
        c->in[0].dims[2] != 4 || c->in[1].dims[0] != s->images || c->in[1].dims[2] != s->boxes, c,
        err, STATOR_INVALID_ARGUMENT, "boxes[%lld, %lld, 4] need scores[%lld, classes, %lld]",
        (long long)s->images, (long long)s->boxes, (long long)s->images, (long long)s->boxes);
    for (uint32_t k = 2; k < 5; k++) {
        EK_FAIL_IF(ek_has_in(c, k) && c->in[k].numel != 1, c, err, STATOR_INVALID_ARGUMENT,
                   "operand %u has %lld elements, expected one", k, (long long)c->in[k].numel);
    }
    return STATOR_OK;
}

/* Room for n doubles in each column; 0: out of memory. */
static bool make_columns(const ek_call *c, int64_t n, columns *out)
{
    for (int k = 0; k < 4; k++) {
        out->at[k] = ek_scratch(c, n, sizeof *out->at[k]);
        if (out->at[k] == NULL) {
            return false;
        }
    }
    return true;
}

static bool make_room(const suppression *s, chunk_room *out)
{
    const ek_call *c = s->call;
    const st_order_job job = {.dtype = c->in[1].dtype, .size = s->boxes, .take = s->boxes};
    st_order_job first = job;
    first.take = first_take(s);
    const uint64_t all = st_order_scratch(&job, 1);
    const uint64_t few = st_order_scratch(&first, 1);
    const uint64_t bytes = all > few ? all : few;
    out->order = ek_scratch(c, s->boxes + 1, sizeof *out->order);
    out->areas = ek_scratch(c, s->max_out + 1, sizeof *out->areas);
    out->scratch = bytes < INT64_MAX ? ek_scratch(c, (int64_t)bytes + 1, 1) : NULL;
    return out->order && out->areas && out->scratch && make_columns(c, s->max_out + 1, &out->kept);
}

static stator_status make_scratch(suppression *s, stator_diag **err)
{
    const ek_call *c = s->call;
    const stator_host *host = c->self->host;
    const int64_t each = (s->max_out + 1) * (int64_t)sizeof *s->kept;
    const int64_t all = s->images * s->classes;
    s->batch = BATCH_BYTES / each > 0 ? BATCH_BYTES / each : 1;
    s->batch = s->batch < all ? s->batch : all;
    s->chunks = host->thr->thread_count(host->ctx) * CHUNKS_EACH;
    s->chunks = s->chunks < s->batch ? s->chunks : s->batch;
    s->rooms = ek_scratch(c, s->chunks + 1, sizeof *s->rooms);
    s->kept = ek_scratch(c, s->batch + 1, (uint64_t)each);
    s->n_kept = ek_scratch(c, s->batch + 1, sizeof *s->n_kept);
    bool is_well =
        s->rooms && s->kept && s->n_kept && make_columns(c, s->images * s->boxes + 1, &s->corners);
    for (int64_t chunk = 0; is_well && chunk < s->chunks; chunk++) {
        is_well = make_room(s, &s->rooms[chunk]);
    }
    return is_well ? STATOR_OK : ek_oom(c, err);
}

static double scalar_or(const ek_call *c, uint32_t k, double other)
{
    return ek_has_in(c, k) ? ek_get(&c->in[k], 0) : other;
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
    s.max_out = s.max_out < 0 ? 0 : s.max_out < s.boxes ? s.max_out : s.boxes;
    s.sure_margin =
        c->in[0].dtype == STATOR_F32 || c->in[0].dtype == STATOR_F64 ? MARGIN_F32 : MARGIN_NARROW;
    const int64_t all = s.max_out > 0 ? s.images * s.classes : 0;
    if (all > 0) {
        ST_TRY(make_scratch(&s, err));
        ek_parallel(c, s.images * s.boxes, 4096, read_boxes, &s);
    }
    for (const int64_t most = s.batch; s.first < all; s.first += s.batch) {
        s.batch = all - s.first < most ? all - s.first : most;
        s.chunks = s.chunks < s.batch ? s.chunks : s.batch;
        ek_parallel(c, s.chunks, 1, do_chunks, &s);
        ST_TRY(add_batch(&s, err));
    }
    const int64_t dims[2] = {s.count, 3};
    ST_TRY(ek_alloc_out(c, 0, dims, err));
    if (s.count > 0) {
        memcpy(c->out[0].data, s.result, (uint64_t)s.count * 3 * sizeof *s.result);
    }
    return STATOR_OK;
}
