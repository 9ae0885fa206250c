/* einsum: operands are taken from left to right, two at a time, by the contraction engine of
 * ek_dot.
 *
 *     "bij,bjk,k->i":  x y over j gives b,i,k;  b is summed away;  times the third over k gives i
 *
 * An operand is a list of strides by label: a label that occurs twice adds its strides (the
 * diagonal), an axis of size 1 is left out (it broadcasts). Labels that neither the result nor
 * another operand still needs are summed away before a product. Intermediates are f64 or wrapping
 * 64-bit integers; the result is rounded once. Equation: numpy.einsum and ONNX Einsum; labels 0 to
 * 25 are a to z, 26 to 51 A to Z, from 52 on the axes of an ellipsis, counted from the last. */
#include "plugins/eager/kernels/ek_dot.h"

#include <ctype.h>

#define OPERANDS_MAX 64u
#define LETTERS 52u
#define LABELS (LETTERS + STATOR_RANK_MAX)

/* A tensor seen through labels. */
typedef struct view {
    ek_tensor t;
    uint8_t has[LABELS];
    int64_t stride[LABELS];
} view;

typedef struct einsum {
    const ek_call *call;
    uint8_t terms[OPERANDS_MAX][STATOR_RANK_MAX]; /* labels of each operand's axes */
    uint8_t out[LABELS];
    uint32_t n_out;
    uint32_t uses[LABELS]; /* operands from the current one on, and the result, that need it */
    int64_t size[LABELS];
} einsum;

/* ---- the equation; the infer rule has accepted it for these ranks ---- */

/* Reads a term up to ',' or '-' or the end; an ellipsis stands for the labels the rank leaves. */
static uint32_t read_term(const char **p, uint32_t rank, uint8_t *labels, uint32_t capacity)
{
    uint32_t letters = 0;
    uint32_t n = 0;
    for (const char *q = *p; *q != '\0' && *q != ',' && *q != '-'; q++) {
        letters += isalpha((unsigned char)*q) != 0;
    }
    const uint32_t extra = rank > letters ? rank - letters : 0;
    while (**p != '\0' && **p != ',' && **p != '-') {
        const char c = *(*p)++;
        if (isalpha((unsigned char)c) && n < capacity) {
            labels[n++] = (uint8_t)(islower((unsigned char)c) ? c - 'a' : c - 'A' + 26);
        } else if (c == '.' && (*p)[0] == '.' && (*p)[1] == '.') {
            *p += 2;
            for (uint32_t i = extra; i-- > 0 && n < capacity;) {
                labels[n++] = (uint8_t)(LETTERS + i);
            }
        }
    }
    return n;
}

/* Without "->": the ellipsis, then the letters used once, A to Z before a to z. */
static void implicit_out(einsum *e, const uint32_t *seen)
{
    for (uint32_t i = STATOR_RANK_MAX; i-- > 0;) {
        if (seen[LETTERS + i] > 0) {
            e->out[e->n_out++] = (uint8_t)(LETTERS + i);
        }
    }
    for (uint32_t i = 0; i < LETTERS; i++) {
        const uint32_t label = (i + 26u) % LETTERS;
        if (seen[label] == 1) {
            e->out[e->n_out++] = (uint8_t)label;
        }
    }
}

static stator_status read_equation(einsum *e, stator_diag **err)
{
    const ek_call *c = e->call;
    const char *p = ek_str(c, STATOR_einsum_equation);
    uint32_t seen[LABELS] = {0};
    for (uint32_t k = 0; k < c->n_in; k++) {
        const uint32_t rank = c->in[k].rank;
        EK_FAIL_IF(read_term(&p, rank, e->terms[k], STATOR_RANK_MAX) != rank, c, err,
                   STATOR_INVALID_ARGUMENT, "equation '%.100s' does not fit operand %u of rank %u",
                   ek_str(c, STATOR_einsum_equation), k, rank);
        p += *p == ',';
        for (uint32_t i = 0; i < rank; i++) {
            seen[e->terms[k][i]]++;
        }
    }
    if (*p == '\0') {
        implicit_out(e, seen);
    } else {
        p += p[1] == '>' ? 2 : 1;
        e->n_out = read_term(&p, c->out[0].rank, e->out, LABELS);
    }
    return e->n_out == c->out[0].rank
               ? STATOR_OK
               : ek_fail(c, err, STATOR_INVALID_ARGUMENT, "equation '%.100s' gives rank %u, not %u",
                         ek_str(c, STATOR_einsum_equation), e->n_out, c->out[0].rank);
}

/* Sizes of the labels and the operands that use them. */
static stator_status read_sizes(einsum *e, stator_diag **err)
{
    const ek_call *c = e->call;
    for (uint32_t label = 0; label < LABELS; label++) {
        e->size[label] = 1;
    }
    for (uint32_t k = 0; k < c->n_in; k++) {
        uint8_t is_here[LABELS] = {0};
        for (uint32_t i = 0; i < c->in[k].rank; i++) {
            const uint32_t label = e->terms[k][i];
            const int64_t size = c->in[k].dims[i];
            EK_FAIL_IF(size != 1 && e->size[label] != 1 && size != e->size[label], c, err,
                       STATOR_INVALID_ARGUMENT,
                       "axis %u of operand %u has size %lld, the same label elsewhere %lld", i, k,
                       (long long)size, (long long)e->size[label]);
            e->size[label] = size != 1 ? size : e->size[label];
            is_here[label] |= size != 1;
        }
        for (uint32_t label = 0; label < LABELS; label++) {
            e->uses[label] += is_here[label];
        }
    }
    return STATOR_OK;
}

/* Uses by the result, whose sizes must be the labels'. */
static stator_status read_result(einsum *e, stator_diag **err)
{
    const ek_call *c = e->call;
    for (uint32_t i = 0; i < e->n_out; i++) {
        e->uses[e->out[i]]++;
        EK_FAIL_IF(c->out[0].dims[i] != e->size[e->out[i]], c, err, STATOR_INVALID_ARGUMENT,
                   "axis %u of the result has size %lld, the operands give %lld", i,
                   (long long)c->out[0].dims[i], (long long)e->size[e->out[i]]);
    }
    return STATOR_OK;
}

/* ---- views ---- */

static void view_operand(const einsum *e, uint32_t k, view *out)
{
    int64_t strides[STATOR_RANK_MAX];
    *out = (view){.t = e->call->in[k]};
    ek_strides(out->t.dims, out->t.rank, strides);
    for (uint32_t i = 0; i < out->t.rank; i++) {
        if (out->t.dims[i] != 1) {
            out->has[e->terms[k][i]] = 1;
            out->stride[e->terms[k][i]] += strides[i];
        }
    }
}

/* A dense intermediate over these axes' labels; its data is scratch. */
static stator_status make_dense(const einsum *e, const uint8_t *labels, uint32_t n, view *out,
                                stator_diag **err)
{
    *out = (view){
        .t = {.dtype = ek_is_int_math(e->call->in[0].dtype) ? STATOR_I64 : STATOR_F64, .numel = 1}};
    for (uint32_t i = n; i-- > 0;) {
        out->has[labels[i]] = 1;
        out->stride[labels[i]] = out->t.numel;
        if (!st_mul_i64(out->t.numel, e->size[labels[i]], &out->t.numel)) {
            return ek_oom(e->call, err);
        }
    }
    out->t.data = ek_scratch(e->call, out->t.numel, sizeof(ek_wide));
    return out->t.data != NULL ? STATOR_OK : ek_oom(e->call, err);
}

typedef struct summing {
    const view *x;
    const ek_tensor *to;
    ek_axes kept, summed;
    int64_t n_summed;
} summing;

/* Elements [begin, end) of the dense result; the last summed axis is the inner loop. */
static void sum_range(void *self, int64_t begin, int64_t end)
{
    const summing *s = self;
    ek_axes outer = s->summed;
    const int64_t inner = outer.n > 0 ? outer.size[outer.n - 1u] : 1;
    const int64_t step = outer.n > 0 ? outer.stride[outer.n - 1u] : 0;
    const bool is_int = ek_is_int_math(s->x->t.dtype);
    outer.n -= outer.n > 0;
    for (int64_t i = begin; i < end; i++) {
        const int64_t base = ek_axes_offset(&s->kept, i);
        ek_wide sum = {.i = 0};
        for (int64_t o = 0; o < s->n_summed / inner; o++) {
            const int64_t first = base + ek_axes_offset(&outer, o);
            for (int64_t at = 0; at < inner; at += 128) {
                ek_wide block[128];
                const int64_t n = inner - at < 128 ? inner - at : 128;
                ek_load_wide(&s->x->t, first + at * step, step, n, block);
                for (int64_t k = 0; k < n && is_int; k++) {
                    sum.i = (int64_t)((uint64_t)sum.i + (uint64_t)block[k].i);
                }
                for (int64_t k = 0; k < n && !is_int; k++) {
                    sum.f += block[k].f;
                }
            }
        }
        ek_store_wide(s->to, i, 1, &sum);
    }
}

/* Nothing is summed: rows along the last kept axis are copied in blocks. */
static void copy_range(void *self, int64_t begin, int64_t end)
{
    const summing *s = self;
    ek_axes outer = s->kept;
    const int64_t inner = outer.n > 0 ? outer.size[outer.n - 1u] : 1;
    const int64_t step = outer.n > 0 ? outer.stride[outer.n - 1u] : 0;
    outer.n -= outer.n > 0;
    for (int64_t row = begin; row < end; row++) {
        const int64_t first = ek_axes_offset(&outer, row);
        for (int64_t at = 0; at < inner; at += 128) {
            ek_wide block[128];
            const int64_t n = inner - at < 128 ? inner - at : 128;
            ek_load_wide(&s->x->t, first + at * step, step, n, block);
            ek_store_wide(s->to, row * inner + at, n, block);
        }
    }
}

/* to = x summed over the labels that are not listed. */
static void reduce(const einsum *e, const view *x, const uint8_t *labels, uint32_t n,
                   const ek_tensor *to)
{
    summing s = {.x = x, .to = to};
    uint8_t is_kept[LABELS] = {0};
    for (uint32_t i = 0; i < n; i++) {
        is_kept[labels[i]] = 1;
        if (e->size[labels[i]] != 1) {
            ek_axes_add(&s.kept, e->size[labels[i]], x->stride[labels[i]]);
        }
    }
    for (uint32_t label = 0; label < LABELS; label++) {
        if (x->has[label] && !is_kept[label]) {
            ek_axes_add(&s.summed, e->size[label], x->stride[label]);
        }
    }
    s.n_summed = ek_axes_count(&s.summed);
    const int64_t width = s.kept.n > 0 ? s.kept.size[s.kept.n - 1u] : 1;
    if (s.summed.n == 0) {
        ek_parallel(e->call, to->numel / width, 1 + 16384 / width, copy_range, &s);
    } else {
        ek_parallel(e->call, to->numel, 1 + 16384 / s.n_summed, sum_range, &s);
    }
}

/* Sums the labels of x away that nothing else needs. */
static stator_status drop_unused(const einsum *e, view *x, stator_diag **err)
{
    uint8_t kept[LABELS];
    uint32_t n = 0;
    uint32_t dropped = 0;
    for (uint32_t label = 0; label < LABELS; label++) {
        if (x->has[label] && e->uses[label] > 1) {
            kept[n++] = (uint8_t)label;
        }
        dropped += x->has[label] && e->uses[label] <= 1;
    }
    if (dropped == 0) {
        return STATOR_OK;
    }
    view dense;
    ST_TRY(make_dense(e, kept, n, &dense, err));
    reduce(e, x, kept, n, &dense.t);
    *x = dense;
    return STATOR_OK;
}

/* x = x * y, summed over the labels that only these two have. */
static stator_status multiply(einsum *e, view *x, const view *y, stator_diag **err)
{
    ek_contraction c = {.call = e->call, .x = &x->t, .y = &y->t};
    uint8_t order[3][LABELS]; /* batch, m, n */
    uint32_t n[3] = {0, 0, 0};
    for (uint32_t label = 0; label < LABELS; label++) {
        const int64_t size = e->size[label];
        const int64_t sx = x->stride[label];
        const int64_t sy = y->stride[label];
        if (x->has[label] && y->has[label] && e->uses[label] == 2) {
            ek_axes_add(&c.k_x, size, sx);
            ek_axes_add(&c.k_y, size, sy);
        } else if (x->has[label] && y->has[label]) {
            ek_axes_add(&c.batch_x, size, sx);
            ek_axes_add(&c.batch_y, size, sy);
            order[0][n[0]++] = (uint8_t)label;
            e->uses[label]--; /* the product needs it once */
        } else if (x->has[label]) {
            ek_axes_add(&c.m, size, sx);
            order[1][n[1]++] = (uint8_t)label;
        } else if (y->has[label]) {
            ek_axes_add(&c.n, size, sy);
            order[2][n[2]++] = (uint8_t)label;
        }
    }
    memcpy(order[0] + n[0], order[1], n[1]);
    memcpy(order[0] + n[0] + n[1], order[2], n[2]);
    view z;
    ST_TRY(make_dense(e, order[0], n[0] + n[1] + n[2], &z, err));
    c.z = &z.t;
    ST_TRY(ek_contract(&c, err));
    *x = z;
    return STATOR_OK;
}

bool ek_einsum_shape(const ek_call *c, int64_t *out_dims)
{
    einsum e = {.call = c};
    if (c->n_in > OPERANDS_MAX || read_equation(&e, NULL) != STATOR_OK ||
        read_sizes(&e, NULL) != STATOR_OK) {
        return false;
    }
    for (uint32_t i = 0; i < e.n_out; i++) {
        out_dims[i] = e.size[e.out[i]];
    }
    return true;
}

stator_status ek_einsum(const ek_call *c, stator_diag **err)
{
    einsum e = {.call = c};
    view x, y;
    EK_FAIL_IF(c->n_in > OPERANDS_MAX, c, err, STATOR_UNSUPPORTED,
               "%u operands; at most %u are supported", c->n_in, OPERANDS_MAX);
    ST_TRY(read_equation(&e, err));
    ST_TRY(read_sizes(&e, err));
    ST_TRY(read_result(&e, err));
    for (uint32_t label = 0; label < LABELS; label++) {
        if (e.size[label] == 0) { /* a sum of nothing */
            memset(c->out[0].data, 0, ek_bytes(c->out[0].dtype, c->out[0].numel));
            return STATOR_OK;
        }
    }
    view_operand(&e, 0, &x);
    for (uint32_t k = 1; k < c->n_in; k++) {
        view_operand(&e, k, &y);
        ST_TRY(drop_unused(&e, &x, err));
        ST_TRY(drop_unused(&e, &y, err));
        ST_TRY(multiply(&e, &x, &y, err));
    }
    reduce(&e, &x, e.out, e.n_out, &c->out[0]);
    return STATOR_OK;
}
