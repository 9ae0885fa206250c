/* Copies by strides: transpose, expand, slice, concat, tile, pad, trilu, one_hot. */
#include "plugins/eager/kernels/ek_move.h"
#include "core/base/check.h"

/* ---- two-a-byte types ---- */

const char *ek_unpacked_in(const ek_call *c, uint32_t k)
{
    const ek_tensor *t = &c->in[k];
    if (st_dtype_bits(t->dtype) >= 8) {
        return t->data;
    }
    uint8_t *bytes = ek_scratch(c, t->numel, 1);
    for (int64_t i = 0; bytes && i < t->numel; i++) {
        bytes[i] = (uint8_t)(st_load_i64(t->dtype, t->data, i) & 15);
    }
    return (const char *)bytes;
}

char *ek_unpacked_out(const ek_call *c)
{
    if (st_dtype_bits(c->out[0].dtype) >= 8) {
        return c->out[0].data;
    }
    return ek_scratch(c, c->out[0].numel, 1);
}

void ek_pack_out(const ek_call *c, const char *bytes)
{
    const ek_tensor *out = &c->out[0];
    if (st_dtype_bits(out->dtype) >= 8) {
        return;
    }
    memset(out->data, 0, ek_bytes(out->dtype, out->numel));
    for (int64_t i = 0; i < out->numel; i++) {
        st_store_i64(out->dtype, out->data, i, bytes[i]);
    }
}

stator_status ek_view_bytes(const ek_call *c, ek_bytes_view *out, stator_diag **err)
{
    *out =
        (ek_bytes_view){ek_unpacked_in(c, 0), ek_unpacked_out(c), st_element_bytes(c->in[0].dtype)};
    return out->in != NULL && out->out != NULL ? STATOR_OK : ek_oom(c, err);
}

/* ---- filling and copying runs ---- */

#define FILL(T)                                                                                    \
    {                                                                                              \
        T x;                                                                                       \
        memcpy(&x, element, sizeof x);                                                             \
        for (int64_t i = 0; i < n; i++) {                                                          \
            ((T *)(void *)to)[i] = x;                                                              \
        }                                                                                          \
    }

void ek_fill(char *to, const char *element, uint32_t size, int64_t n)
{
    EK_BY_SIZE(size, FILL)
}

#define STRIDED(T)                                                                                 \
    for (int64_t i = 0; i < n; i++) {                                                              \
        ((T *)(void *)to)[i * to_step] = ((const T *)(const void *)from)[i * from_step];           \
    }

static void copy_run(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n,
                     uint32_t size)
{
    if (to_step == 1 && from_step == 1) {
        memcpy(to, from, (uint64_t)n * size);
        return;
    }
    if (to_step == 1 && from_step == 0) {
        ek_fill(to, from, size, n);
        return;
    }
    EK_BY_SIZE(size, STRIDED)
}

/* Drops axes of size 1 and merges neighbours that both sides walk through. */
static void merge_axes(ek_copy *m)
{
    uint32_t n = 0;
    for (uint32_t a = 0; a < m->rank; a++) {
        const int64_t size = m->sizes[a];
        if (size == 1) {
            continue;
        }
        if (n > 0 && m->to_strides[n - 1] == m->to_strides[a] * size &&
            m->from_strides[n - 1] == m->from_strides[a] * size) {
            m->sizes[n - 1] *= size;
        } else {
            m->sizes[n++] = size;
        }
        m->to_strides[n - 1] = m->to_strides[a];
        m->from_strides[n - 1] = m->from_strides[a];
    }
    m->rank = n;
}

typedef struct copy_job {
    const ek_copy *m;
    uint32_t outer; /* axes walked row by row */
    int64_t to_step, from_step, inner;
} copy_job;

static void copy_rows(void *job_, int64_t begin, int64_t end)
{
    const copy_job *job = job_;
    const ek_copy *m = job->m;
    int64_t index[EK_COPY_RANK];
    int64_t to = 0;
    int64_t from = 0;
    int64_t rest = begin;
    for (uint32_t a = job->outer; a-- > 0;) {
        index[a] = rest % m->sizes[a];
        rest /= m->sizes[a];
        to += index[a] * m->to_strides[a];
        from += index[a] * m->from_strides[a];
    }
    for (int64_t r = begin; r < end; r++) {
        copy_run(m->to + to * (int64_t)m->size, job->to_step, m->from + from * (int64_t)m->size,
                 job->from_step, job->inner, m->size);
        for (uint32_t a = job->outer; a-- > 0;) {
            to += m->to_strides[a];
            from += m->from_strides[a];
            if (++index[a] < m->sizes[a]) {
                break;
            }
            to -= m->to_strides[a] * m->sizes[a];
            from -= m->from_strides[a] * m->sizes[a];
            index[a] = 0;
        }
    }
}

/* ---- transposing copies, in tiles that stay in the cache ---- */

#define TILE 32

#define TILE_LOOP(T)                                                                               \
    for (int64_t i = 0; i < t.rows; i++) {                                                         \
        for (int64_t k = 0; k < t.columns; k++) {                                                  \
            ((T *)(void *)t.to)[i * t.to_row + k * t.to_column] =                                  \
                ((const T *)(const void *)t.from)[i + k * t.from_column];                          \
        }                                                                                          \
    }

/* rows by columns elements; the source is dense along the rows. */
typedef struct tile {
    char *to;
    const char *from;
    int64_t to_row, to_column, from_column; /* strides */
    int64_t rows, columns;
} tile;

static void copy_tile(tile t, uint32_t size)
{
    EK_BY_SIZE(size, TILE_LOOP)
}

typedef struct tile_job {
    const ek_copy *m;
    uint32_t row_axis; /* the source is dense along it */
    uint32_t column_axis;
    int64_t tiles; /* tiles of rows */
} tile_job;

/* Task t: tile t % tiles of the rows at position t / tiles of the other axes. */
static void copy_tiles(void *job_, int64_t begin, int64_t end)
{
    const tile_job *job = job_;
    const ek_copy *m = job->m;
    for (int64_t t = begin; t < end; t++) {
        const int64_t first = t % job->tiles * TILE;
        int64_t rest = t / job->tiles;
        int64_t to = first * m->to_strides[job->row_axis];
        int64_t from = first;
        for (uint32_t a = m->rank; a-- > 0;) {
            if (a != job->row_axis && a != job->column_axis) {
                to += rest % m->sizes[a] * m->to_strides[a];
                from += rest % m->sizes[a] * m->from_strides[a];
                rest /= m->sizes[a];
            }
        }
        const int64_t left = m->sizes[job->row_axis] - first;
        const int64_t all = m->sizes[job->column_axis];
        tile next = {.to_row = m->to_strides[job->row_axis],
                     .to_column = m->to_strides[job->column_axis],
                     .from_column = m->from_strides[job->column_axis],
                     .rows = left < TILE ? left : TILE};
        for (int64_t k = 0; k < all; k += TILE) {
            next.to = m->to + (to + k * next.to_column) * (int64_t)m->size;
            next.from = m->from + (from + k * next.from_column) * (int64_t)m->size;
            next.columns = all - k < TILE ? all - k : TILE;
            copy_tile(next, m->size);
        }
    }
}

/* 1 when the target is dense along one axis and the source along another: done in tiles. */
static bool copy_transposing(const ek_call *c, const ek_copy *m)
{
    tile_job job = {.m = m, .column_axis = m->rank - 1u};
    if (m->rank < 2 || m->to_strides[job.column_axis] != 1 ||
        m->from_strides[job.column_axis] <= 1) {
        return false;
    }
    while (job.row_axis < job.column_axis && m->from_strides[job.row_axis] != 1) {
        job.row_axis++;
    }
    ST_NEED(job.row_axis != job.column_axis);
    job.tiles = (m->sizes[job.row_axis] + TILE - 1) / TILE;
    int64_t tasks = job.tiles;
    for (uint32_t a = 0; a < job.column_axis; a++) {
        tasks *= a == job.row_axis ? 1 : m->sizes[a];
    }
    const int64_t work = TILE * m->sizes[job.column_axis];
    ek_parallel(c, tasks, 16384 / work + 1, copy_tiles, &job);
    return true;
}

void ek_copy_run(const ek_call *c, ek_copy *m)
{
    for (uint32_t a = 0; a < m->rank; a++) {
        if (m->sizes[a] <= 0) {
            return;
        }
    }
    merge_axes(m);
    if (copy_transposing(c, m)) {
        return;
    }
    copy_job job = {.m = m, .inner = 1, .to_step = 1, .from_step = 1};
    int64_t rows = 1;
    if (m->rank > 0) {
        job.outer = m->rank - 1u;
        job.inner = m->sizes[job.outer];
        job.to_step = m->to_strides[job.outer];
        job.from_step = m->from_strides[job.outer];
    }
    for (uint32_t a = 0; a < job.outer; a++) {
        rows *= m->sizes[a];
    }
    ek_parallel(c, rows, job.inner >= 16384 ? 1 : 16384 / job.inner + 1, copy_rows, &job);
}

/* A copy whose target is the dense result and whose source is operand 0, whose axes the kernel
 * then appends. */
typedef struct whole_copy {
    ek_copy m;
    const ek_tensor *in, *out;
    int64_t from[STATOR_RANK_MAX]; /* row-major strides of in and out */
    int64_t to[STATOR_RANK_MAX];
    char *begin;
} whole_copy;

static stator_status begin_copy(const ek_call *c, whole_copy *w, stator_diag **err)
{
    *w = (whole_copy){.in = &c->in[0], .out = &c->out[0]};
    w->m.size = st_element_bytes(w->out->dtype);
    w->m.from = ek_unpacked_in(c, 0);
    w->m.to = w->begin = ek_unpacked_out(c);
    ek_strides(w->in->dims, w->in->rank, w->from);
    ek_strides(w->out->dims, w->out->rank, w->to);
    return w->m.from && w->m.to ? STATOR_OK : ek_oom(c, err);
}

static stator_status end_copy(const ek_call *c, whole_copy *w)
{
    ek_copy_run(c, &w->m);
    ek_pack_out(c, w->begin);
    return STATOR_OK;
}

/* ---- transpose, expand, slice ---- */

stator_status ek_transpose(const ek_call *c, stator_diag **err)
{
    whole_copy w;
    ST_TRY(begin_copy(c, &w, err));
    const ek_tensor *in = w.in, *out = w.out;
    for (uint32_t a = 0; a < out->rank; a++) {
        const int64_t axis = ek_int_at(c, STATOR_transpose_perm, a, a);
        ek_copy_axis(&w.m, out->dims[a], w.to[a], w.from[st_normalize_axis(axis, in->rank)]);
    }
    return end_copy(c, &w);
}

stator_status ek_expand(const ek_call *c, stator_diag **err)
{
    whole_copy w;
    ST_TRY(begin_copy(c, &w, err));
    const ek_tensor *in = w.in, *out = w.out;
    for (uint32_t a = 0; a < out->rank; a++) {
        int64_t stride = 0;
        if (a + in->rank >= out->rank) {
            const uint32_t own = a + in->rank - out->rank;
            EK_FAIL_IF(in->dims[own] != 1 && in->dims[own] != out->dims[a], c, err,
                       STATOR_INVALID_ARGUMENT, "size %lld of axis %u cannot be expanded to %lld",
                       (long long)in->dims[own], own, (long long)out->dims[a]);
            stride = in->dims[own] == 1 ? 0 : w.from[own];
        }
        ek_copy_axis(&w.m, out->dims[a], w.to[a], stride);
    }
    return end_copy(c, &w);
}

stator_status ek_slice(const ek_call *c, stator_diag **err)
{
    whole_copy w;
    ST_TRY(begin_copy(c, &w, err));
    const ek_tensor *in = w.in, *out = w.out;
    for (uint32_t a = 0; a < out->rank; a++) {
        const int64_t start = ek_int_at(c, STATOR_slice_starts, a, 0);
        const int64_t step = ek_int_at(c, STATOR_slice_steps, a, 1);
        const int64_t size = out->dims[a];
        int64_t last = 0;
        const bool fits =
            size == 0 || (st_mul_i64(size - 1, step, &last) && st_add_i64(last, start, &last) &&
                          start >= 0 && start < in->dims[a] && last >= 0 && last < in->dims[a]);
        EK_FAIL_IF(!fits, c, err, STATOR_OUT_OF_RANGE,
                   "axis %u: %lld elements from %lld by %lld leave its size %lld", a,
                   (long long)size, (long long)start, (long long)step, (long long)in->dims[a]);
        w.m.from += size ? start * w.from[a] * (int64_t)w.m.size : 0;
        ek_copy_axis(&w.m, size, w.to[a], w.from[a] * step);
    }
    return end_copy(c, &w);
}

/* ---- concat, tile ---- */

stator_status ek_concat(const ek_call *c, stator_diag **err)
{
    const ek_tensor *out = &c->out[0];
    const uint32_t axis = ek_axis(c, STATOR_concat_axis, out->rank);
    const uint32_t size = st_element_bytes(out->dtype);
    const int64_t inner = ek_product(out->dims, axis + 1u, out->rank);
    const int64_t outer = ek_product(out->dims, 0, axis);
    char *to = ek_unpacked_out(c);
    int64_t at = 0;
    EK_TRY_MEM(to, c, err);
    for (uint32_t k = 0; k < c->n_in; k++) {
        const ek_tensor *in = &c->in[k];
        for (uint32_t a = 0; a < out->rank; a++) {
            EK_FAIL_IF(a != axis && in->dims[a] != out->dims[a], c, err, STATOR_INVALID_ARGUMENT,
                       "operand %u has size %lld on axis %u, expected %lld", k,
                       (long long)in->dims[a], a, (long long)out->dims[a]);
        }
        if (at + in->dims[axis] > out->dims[axis]) {
            break;
        }
        ek_copy m = {.size = size, .from = ek_unpacked_in(c, k)};
        EK_TRY_MEM(m.from, c, err);
        m.to = to + at * inner * (int64_t)size;
        ek_copy_axis(&m, outer, out->dims[axis] * inner, in->dims[axis] * inner);
        ek_copy_axis(&m, in->dims[axis] * inner, 1, 1);
        ek_copy_run(c, &m);
        at += in->dims[axis];
    }
    EK_FAIL_IF(at != out->dims[axis], c, err, STATOR_INVALID_ARGUMENT,
               "the operands' sizes on axis %u do not add up to %lld", axis,
               (long long)out->dims[axis]);
    ek_pack_out(c, to);
    return STATOR_OK;
}

stator_status ek_tile(const ek_call *c, stator_diag **err)
{
    whole_copy w;
    ST_TRY(begin_copy(c, &w, err));
    const ek_tensor *in = w.in, *out = w.out;
    for (uint32_t a = 0; a < out->rank; a++) {
        const int64_t repeats = ek_int_at(c, STATOR_tile_repeats, a, 1);
        EK_FAIL_IF(repeats < 0 || repeats * in->dims[a] != out->dims[a], c, err,
                   STATOR_INVALID_ARGUMENT, "axis %u: %lld repeats of %lld elements are not %lld",
                   a, (long long)repeats, (long long)in->dims[a], (long long)out->dims[a]);
        ek_copy_axis(&w.m, repeats, w.to[a] * in->dims[a], 0);
        ek_copy_axis(&w.m, in->dims[a], w.to[a], w.from[a]);
    }
    return end_copy(c, &w);
}

/* ---- trilu, one_hot ---- */

stator_status ek_trilu(const ek_call *c, stator_diag **err)
{
    const ek_tensor *in = &c->in[0];
    const uint32_t size = st_element_bytes(in->dtype);
    const bool upper = ek_int(c, STATOR_trilu_upper) != 0;
    const int64_t k = ek_int_at(c, STATOR_trilu_k, 0, 0);
    const int64_t rows = in->dims[in->rank - 2u];
    const int64_t columns = in->dims[in->rank - 1u];
    (void)err;
    for (int64_t r = 0; r < ek_product(in->dims, 0, in->rank - 1u); r++) {
        const int64_t i = r % rows;
        /* Columns below `cut` are on the lower side: j < i + k, or j <= i + k for lower. */
        int64_t cut = columns;
        if (k <= columns && i + k + !upper <= columns) {
            cut = k < -rows || i + k + !upper < 0 ? 0 : i + k + !upper;
        }
        char *to = (char *)c->out[0].data + (uint64_t)(r * columns) * size;
        const char *from = (const char *)in->data + (uint64_t)(r * columns) * size;
        const uint64_t low = (uint64_t)cut * size;
        const uint64_t all = (uint64_t)columns * size;
        if (upper) {
            memset(to, 0, low);
            memcpy(to + low, from + low, all - low);
        } else {
            memcpy(to, from, low);
            memset(to + low, 0, all - low);
        }
    }
    return STATOR_OK;
}

stator_status ek_one_hot(const ek_call *c, stator_diag **err)
{
    const ek_tensor *index = &c->in[0];
    const ek_tensor *out = &c->out[0];
    const int64_t given = ek_int(c, STATOR_one_hot_axis);
    const uint32_t axis = (uint32_t)st_normalize_axis(given, out->rank);
    const int64_t depth = out->dims[axis];
    const int64_t inner = ek_product(out->dims, axis + 1u, out->rank);
    const uint32_t size = st_element_bytes(out->dtype);
    char *to = out->data;
    EK_FAIL_IF(c->in[1].numel != 1 || c->in[2].numel != 1, c, err, STATOR_INVALID_ARGUMENT,
               "the off and on values must be scalars");
    ek_fill(to, c->in[1].data, size, out->numel);
    for (int64_t i = 0; i < index->numel; i++) {
        int64_t at = st_load_i64(index->dtype, index->data, i);
        at += at < 0 ? depth : 0;
        if (at >= 0 && at < depth) {
            const int64_t e = (i / inner * depth + at) * inner + i % inner;
            memcpy(to + (uint64_t)e * size, c->in[2].data, size);
        }
    }
    return STATOR_OK;
}
