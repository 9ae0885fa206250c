/* pad: constant, reflect, edge, wrap. Negative amounts cut off. */
#include "plugins/eager/kernels/ek_move.h"

/* Index in [0, n) that position p of the padded axis shows, p counted from the first element. */
static int64_t mirrored(int64_t p, int64_t n)
{
    if (n == 1) {
        return 0;
    }
    const int64_t period = 2 * (n - 1);
    const int64_t q = st_floormod(p, period);
    return q < n ? q : period - q;
}

static int64_t clamped(int64_t p, int64_t n)
{
    return p < 0 ? 0 : p >= n ? n - 1 : p;
}

static int64_t wrapped(int64_t p, int64_t n)
{
    return st_floormod(p, n);
}

typedef struct pad_job {
    const ek_call *c;
    ek_bytes_view view;
    const int64_t *map[STATOR_RANK_MAX]; /* by axis: source offset in elements of each position */
} pad_job;

static void pad_rows(void *self, int64_t begin, int64_t end)
{
    const pad_job *job = self;
    const ek_tensor *out = &job->c->out[0];
    const uint32_t last = out->rank - 1u;
    const int64_t inner = out->dims[last];
    const int64_t *columns = job->map[last];
    for (int64_t r = begin; r < end; r++) {
        int64_t rest = r;
        int64_t at = 0;
        for (uint32_t a = last; a-- > 0;) {
            at += job->map[a][rest % out->dims[a]];
            rest /= out->dims[a];
        }
        for (int64_t i = 0; i < inner; i++) {
            ek_view_copy(&job->view, r * inner + i, at + columns[i], 1);
        }
    }
}

/* Every mode but constant: one table of source positions an axis. */
static stator_status pad_mapped(const ek_call *c, int64_t (*map)(int64_t, int64_t),
                                stator_diag **err)
{
    const ek_tensor *in = &c->in[0];
    const ek_tensor *out = &c->out[0];
    pad_job job = {.c = c};
    int64_t strides[STATOR_RANK_MAX];
    ST_TRY(ek_view_bytes(c, &job.view, err));
    if (out->rank == 0) {
        ek_view_copy(&job.view, 0, 0, 1);
        ek_pack_out(c, job.view.out);
        return STATOR_OK;
    }
    ek_strides(in->dims, in->rank, strides);
    for (uint32_t a = 0; a < out->rank; a++) {
        int64_t *list;
        ST_TRY(EK_SCRATCH(c, list, out->dims[a], err));
        EK_FAIL_IF(in->dims[a] == 0 && out->dims[a] > 0, c, err, STATOR_INVALID_ARGUMENT,
                   "axis %u is empty: only mode constant can pad it", a);
        const int64_t low = ek_int_at(c, STATOR_pad_low, a, 0);
        for (int64_t i = 0; i < out->dims[a]; i++) {
            list[i] = map(i - low, in->dims[a]) * strides[a];
        }
        job.map[a] = list;
    }
    if (out->numel > 0) {
        const int64_t inner = out->dims[out->rank - 1u];
        ek_parallel(c, out->numel / inner, 4096 / inner + 1, pad_rows, &job);
    }
    ek_pack_out(c, job.view.out);
    return STATOR_OK;
}

static stator_status pad_constant(const ek_call *c, stator_diag **err)
{
    const ek_tensor *in = &c->in[0];
    const ek_tensor *out = &c->out[0];
    const char zero[16] = {0};
    const char *value = ek_has_in(c, 1) ? ek_unpacked_in(c, 1) : zero;
    ek_copy m = {.size = st_element_bytes(out->dtype)};
    int64_t from[STATOR_RANK_MAX];
    int64_t to[STATOR_RANK_MAX];
    m.from = ek_unpacked_in(c, 0);
    m.to = ek_unpacked_out(c);
    EK_TRY_MEM(m.from && m.to && value, c, err);
    EK_FAIL_IF(ek_has_in(c, 1) && c->in[1].numel != 1, c, err, STATOR_INVALID_ARGUMENT,
               "the value has %lld elements, expected 1", (long long)c->in[1].numel);
    char *begin = m.to;
    ek_fill(m.to, value, m.size, out->numel);
    ek_strides(in->dims, in->rank, from);
    ek_strides(out->dims, out->rank, to);
    for (uint32_t a = 0; a < out->rank; a++) {
        const int64_t low = ek_int_at(c, STATOR_pad_low, a, 0);
        const int64_t first = low < 0 ? -low : 0; /* first element of the input */
        const int64_t place = low < 0 ? 0 : low;  /* in the result */
        int64_t n = in->dims[a] - first;
        n = n > out->dims[a] - place ? out->dims[a] - place : n;
        if (n <= 0) {
            ek_pack_out(c, begin);
            return STATOR_OK;
        }
        m.from += first * from[a] * (int64_t)m.size;
        m.to += place * to[a] * (int64_t)m.size;
        ek_copy_axis(&m, n, to[a], from[a]);
    }
    ek_copy_run(c, &m);
    ek_pack_out(c, begin);
    return STATOR_OK;
}

stator_status ek_pad(const ek_call *c, stator_diag **err)
{
    if (ek_str_is(c, STATOR_pad_mode, "constant")) {
        return pad_constant(c, err);
    }
    if (ek_str_is(c, STATOR_pad_mode, "reflect")) {
        return pad_mapped(c, mirrored, err);
    }
    if (ek_str_is(c, STATOR_pad_mode, "edge")) {
        return pad_mapped(c, clamped, err);
    }
    if (ek_str_is(c, STATOR_pad_mode, "wrap")) {
        return pad_mapped(c, wrapped, err);
    }
    return ek_fail(c, err, STATOR_INVALID_ARGUMENT,
                   "unknown mode '%s' (known: constant, reflect, edge, wrap)",
                   ek_str(c, STATOR_pad_mode));
}
