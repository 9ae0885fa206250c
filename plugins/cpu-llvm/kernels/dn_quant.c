/* Products against constant weights of four or eight bits, out[m, n] = x[m, k] * w[k, n] with w =
 * (number - zero point) * scale, a scale and a zero point for each block of k
 * (contraction.weights).
 *
 * Weights stay as small as they are: they are put into panels (dn_quant.h) once, or, where the
 * library may not hold them, one panel at a time in each call. Few rows are bound by reading
 * them, and meet them as they are widened in registers; more rows share a chunk of a panel made
 * f32. Sums are f32, in another order than the graph's; few rows multiply the sum of a block
 * with its scale. x whose numbers of k are apart, and results whose columns are, are transposed
 * in scratch. Threads take panels concurrently, and chunks of rows. f32 with AVX-512 or AVX2;
 * the epilogue keeps NaN. */
#include "plugins/cpu-llvm/kernels/dn_quant.h"

#include "core/base/check.h"
#include "core/base/convert.h"
#include "core/base/diag.h"

#include <math.h>
#include <string.h>

#define GRAIN_BYTES ((int64_t)32 << 10) /* weights that are worth a thread */
#define ALIGN 64
#define COLUMNS_MAX 32
#define SPAN_MAX ((int64_t)1 << 40)
#define TRANSPOSE_ROWS 16 /* a line of the cache, where rows are contiguous */

/* ---- what is known of weights ---- */

/* NULL: this processor has none. */
static const dn_quant_isa *isa_of(const dn_lib *lib)
{
#if defined(__x86_64__)
    if (dn_vector_bytes(lib) == 32 && !__builtin_cpu_supports("f16c")) {
        return NULL;
    }
#endif
    return DN_ISA_OF(lib, dn_quant);
}

static bool is_signed(uint32_t dtype)
{
    return dtype == STATOR_I4 || dtype == STATOR_I8;
}

/* Bits of a number, 0: the weights are of another dtype. */
static int64_t bits_of(uint32_t dtype)
{
    const bool is_byte = dtype == STATOR_I8 || dtype == STATOR_U8;
    return dtype == STATOR_I4 || dtype == STATOR_U4 ? 4 : is_byte ? 8 : 0;
}

/* Offset that makes signed numbers unsigned. */
static int32_t bias_of(uint32_t dtype)
{
    return is_signed(dtype) ? 1 << (bits_of(dtype) - 1) : 0;
}

/* Numbers of k that share one of these. */
static int64_t share_of(const st_contraction_blocks *of, int64_t k)
{
    return of->buffer == UINT32_MAX || of->stride[0] == 0 || of->block[0] > k ? k : of->block[0];
}

/* 0: blocks are none that panels have. */
static bool order_of(const dn_op *op, const dn_sizes *s, const dn_quant_isa *isa,
                     dn_quant_order *out)
{
    const st_contraction_weights *weights = &op->contraction.weights;
    const int64_t shares[2] = {share_of(&weights->scale, s->k), share_of(&weights->zero, s->k)};
    *out = (dn_quant_order){.bits = bits_of(op->contraction.y.dtype),
                            .k = s->k,
                            .columns = isa->columns,
                            .has_zeros = weights->zero.buffer != UINT32_MAX,
                            .zero = (float)weights->zero.value +
                                    (float)bias_of(op->contraction.y.dtype),
                            .dtype = weights->dtype};
    out->together = DN_QUANT_BITS_A_WORD / out->bits;
    out->block = shares[0] < shares[1] ? shares[0] : shares[1];
    out->head = out->columns * (int64_t)(sizeof(float) + (out->has_zeros ? 1u : 0u));
    out->panels = (s->n + out->columns - 1) / out->columns;
    const int64_t word = out->columns * (int64_t)sizeof(uint32_t);
    const int64_t whole = s->k / out->block;
    const int64_t rest = s->k % out->block;
    out->panel = whole * (out->head + (out->block + out->together - 1) / out->together * word) +
                 (rest ? out->head + (rest + out->together - 1) / out->together * word : 0);
    return (shares[0] == out->block || shares[0] >= s->k) &&
           (shares[1] == out->block || shares[1] >= s->k) &&
           (out->block >= s->k || out->block % out->together == 0);
}

/* ---- panels ---- */

/* The constants' addresses; elements of y count from the first of its buffer on. */
typedef struct sources {
    const uint8_t *y;
    const void *scale, *zero;
} sources;

typedef struct packing {
    const dn_op *op;
    const dn_sizes *s;
    dn_quant_order order;
    sources from;
    char *to;
} packing;

/* The number as it lies in a panel. */
static uint32_t number_at(const packing *p, int64_t at)
{
    const uint32_t bias = (uint32_t)bias_of(p->op->contraction.y.dtype);
    const uint32_t number =
        p->order.bits == 8 ? p->from.y[at] : p->from.y[at / 2] >> at % 2 * 4 & 15u;
    return number ^ bias;
}

/* The numbers of each column at k, contiguous in the buffer, to place `shift` of the words. */
static void put_row(const packing *p, int64_t at, int64_t columns, uint32_t shift, uint32_t *words)
{
    const uint8_t *y = p->from.y;
    const uint32_t bias = (uint32_t)bias_of(p->op->contraction.y.dtype);
    int64_t c = 0;
    if (p->order.bits == 8) {
        for (; c < columns; c++) {
            words[c] |= (y[at + c] ^ bias) << shift;
        }
    } else if (at % 2 == 0) {
        for (; c + 1 < columns; c += 2) {
            const uint32_t pair = y[(at + c) / 2];
            words[c] |= ((pair & 15u) ^ bias) << shift;
            words[c + 1] |= (pair >> 4 ^ bias) << shift;
        }
    }
    for (; c < columns; c++) {
        words[c] |= number_at(p, at + c) << shift;
    }
}

/* One column's numbers, as many as a word has, contiguous from a whole byte on. */
static uint32_t whole_word(const packing *p, int64_t at)
{
    uint32_t word;
    const uint32_t bias = (uint32_t)bias_of(p->op->contraction.y.dtype);
    memcpy(&word, p->from.y + (p->order.bits == 8 ? at : at / 2), sizeof word);
    return word ^ bias * (p->order.bits == 8 ? 0x01010101u : 0x11111111u);
}

/* `count` numbers from k on, a word of each column. */
static void put_words(const packing *p, int64_t column, int64_t columns, int64_t k, int64_t count,
                      uint32_t *to)
{
    const int64_t *stride = p->s->y.stride;
    const int64_t first = p->s->y.offset + k * stride[0] + column * stride[1];
    uint32_t words[COLUMNS_MAX] = {0};
    const bool is_whole = stride[0] == 1 && count == p->order.together;
    for (int64_t c = 0; stride[1] != 1 && c < columns; c++) {
        const int64_t at = first + c * stride[1];
        if (is_whole && (p->order.bits == 8 || at % 2 == 0)) {
            words[c] = whole_word(p, at);
            continue;
        }
        for (int64_t j = 0; j < count; j++) {
            words[c] |= number_at(p, at + j * stride[0]) << j * p->order.bits;
        }
    }
    for (int64_t j = 0; stride[1] == 1 && j < count; j++) {
        put_row(p, first + j * stride[0], columns, (uint32_t)(j * p->order.bits), words);
    }
    memcpy(to, words, (size_t)p->order.columns * sizeof *to);
}

/* Scales and zero points of a block; of columns that there are not, 0. */
static void put_head(const packing *p, int64_t column, int64_t columns, int64_t k, char *to)
{
    const st_contraction_weights *weights = &p->op->contraction.weights;
    const dn_quant_order *order = &p->order;
    const int64_t bias = bias_of(p->op->contraction.y.dtype);
    float *scales = (float *)(void *)to;
    uint8_t *zeros = (uint8_t *)to + order->columns * (int64_t)sizeof *scales;
    memset(to, 0, (size_t)order->head);
    for (int64_t c = 0; c < columns; c++) {
        const st_contraction_blocks *s = &weights->scale;
        const st_contraction_blocks *z = &weights->zero;
        scales[c] = s->buffer == UINT32_MAX
                        ? (float)s->value
                        : (float)st_load_f64(s->dtype, p->from.scale,
                                             (uint64_t)st_contraction_block_at(s, k, column + c));
        if (order->has_zeros) {
            const int64_t zero = st_load_i64(z->dtype, p->from.zero,
                                             (uint64_t)st_contraction_block_at(z, k, column + c));
            zeros[c] = (uint8_t)(zero + bias);
        }
    }
}

static void pack_panel(const packing *p, int64_t panel, char *to)
{
    const dn_quant_order *order = &p->order;
    const int64_t column = panel * order->columns;
    const int64_t left = p->s->n - column;
    const int64_t columns = left < order->columns ? left : order->columns;
    for (int64_t k = 0; k < order->k; k += order->block) {
        const int64_t end = order->k - k < order->block ? order->k : k + order->block;
        put_head(p, column, columns, k, to);
        to += order->head;
        for (int64_t i = k; i < end; i += order->together) {
            const int64_t count = end - i < order->together ? end - i : order->together;
            put_words(p, column, columns, i, count, (uint32_t *)(void *)to);
            to += order->columns * (int64_t)sizeof(uint32_t);
        }
    }
}

static void pack_range(void *self, int64_t begin, int64_t end)
{
    const packing *p = self;
    for (int64_t i = begin; i < end; i++) {
        pack_panel(p, i, p->to + i * p->order.panel);
    }
}

/* The last element of y; INT64_MAX where it is past what a number can say. */
static int64_t last_of_y(const dn_op *op, const dn_sizes *s)
{
    int64_t last = 0;
    return __builtin_add_overflow(s->y.offset, dn_span(&op->contraction, s, DN_Y) - 1, &last)
               ? INT64_MAX
               : last;
}

/* The last scale or zero point, as st_contraction_block_at has it; INT64_MAX likewise. */
static int64_t last_of_blocks(const st_contraction_blocks *of, const dn_sizes *s)
{
    int64_t last = of->offset;
    const int64_t steps[2] = {(s->k - 1) / of->block[0], (s->n - 1) / of->block[1]};
    for (uint32_t i = 0; i < 2; i++) {
        int64_t more = 0;
        if (__builtin_mul_overflow(steps[i], of->stride[i], &more) ||
            __builtin_add_overflow(last, more, &last)) {
            return INT64_MAX;
        }
    }
    return last;
}

/* Contents of a constant of an op that comes from the cache; all `last` + 1 elements are there. */
static stator_status read_blob(const dn_op *op, stator_blob *blob, uint32_t dtype, int64_t last,
                               const void **out)
{
    const stator_cst_api *cst = op->lib->host->cst;
    stator_blob_info info = {.struct_size = sizeof info};
    uint64_t bytes = 0;
    ST_TRY(STATOR_HAS(cst, peek) ? cst->peek(blob, &info, NULL) : cst->get(blob, &info, NULL));
    *out = info.data;
    return last >= 0 && last < INT64_MAX && st_dtype_bytes(dtype, (uint64_t)last + 1u, &bytes) &&
                   bytes <= info.size_bytes
               ? STATOR_OK
               : STATOR_DATA_LOSS;
}

static stator_status read_blocks(const dn_op *op, const dn_sizes *s, uint32_t k, const void **out)
{
    const st_contraction_weights *weights = &op->contraction.weights;
    const st_contraction_blocks *of = k ? &weights->zero : &weights->scale;
    *out = of->data;
    if (of->buffer == UINT32_MAX || of->data) {
        return STATOR_OK;
    }
    return op->block_blobs[k] == NULL
               ? STATOR_INTERNAL
               : read_blob(op, op->block_blobs[k], of->dtype, last_of_blocks(of, s), out);
}

stator_status dn_quant_check(const dn_op *op, const dn_sizes *sizes)
{
    const void *data = NULL;
    if (!op->contraction.weights.is_scaled || sizes->k < 1 || sizes->n < 1) {
        return STATOR_OK;
    }
    if (sizes->y.offset < 0 || sizes->y.stride[0] < 0 || sizes->y.stride[1] < 0) {
        return STATOR_DATA_LOSS;
    }
    ST_TRY(read_blob(op, op->y_blob, op->contraction.y.dtype, last_of_y(op, sizes), &data));
    ST_TRY(read_blocks(op, sizes, 0, &data));
    return read_blocks(op, sizes, 1, &data);
}

stator_status dn_quant_pack(const dn_op *op, const dn_sizes *sizes, const void *y, void *dst,
                            stator_ctx *ctx)
{
    dn_sizes s = *sizes;
    dn_simplify(&op->contraction, &s);
    packing p = {.op = op, .s = &s, .from.y = y, .to = dst};
    if (!order_of(op, &s, isa_of(op->lib), &p.order)) {
        return STATOR_INTERNAL;
    }
    if (y == NULL) {
        const void *data = NULL;
        ST_TRY(read_blob(op, op->y_blob, op->contraction.y.dtype, last_of_y(op, &s), &data));
        p.from.y = data;
    }
    ST_TRY(read_blocks(op, &s, 0, &p.from.scale));
    ST_TRY(read_blocks(op, &s, 1, &p.from.zero));
    dn_parallel(ctx ? op->lib->host : NULL, ctx, p.order.panels, 1, pack_range, &p);
    return STATOR_OK;
}

/* ---- a call ---- */

/* Rows are divided into so many chunks, each of which meets all panels. */
static int64_t chunks_of(const dn_quant *q)
{
    return (q->s->m + DN_QUANT_ROWS - 1) / DN_QUANT_ROWS;
}

static int64_t scratch_floats(const dn_quant *q)
{
    const int64_t chunks = chunks_of(q);
    return q->isa->scratch_floats((q->s->m + chunks - 1) / chunks);
}

static void run_range(void *self, int64_t begin, int64_t end)
{
    dn_quant *q = self;
    const int64_t chunks = chunks_of(q);
    dn_scratch *scratch = dn_scratch_take(q->op->lib, (uint64_t)q->scratch);
    if (scratch == NULL) {
        q->has_failed = 1;
        return;
    }
    dn_quant_part part = {.q = q, .scratch = dn_scratch_data(scratch)};
    char *made = (char *)(part.scratch + scratch_floats(q));
    const packing p = {.op = q->op,
                       .s = q->s,
                       .order = q->order,
                       .from = {q->at[DN_Y], q->at[DN_SCALE], q->at[DN_ZERO + 1]}};
    for (int64_t i = begin; i < end; i++) {
        const int64_t chunk = i / q->order.panels;
        const int64_t panel = i % q->order.panels;
        part.row = q->s->m * chunk / chunks;
        part.rows = q->s->m * (chunk + 1) / chunks - part.row;
        part.column = panel * q->order.columns;
        part.panel = q->weights + panel * q->order.panel;
        if (q->weights == NULL) {
            pack_panel(&p, panel, made);
            part.panel = made;
        }
        q->isa->run(&part);
    }
    dn_scratch_give(q->op->lib, scratch);
}

/* A call whose rows of x, and rows of results, are contiguous. */
static stator_status run_rows(const dn_op *op, const dn_plan *plan, const dn_sizes *sizes,
                              void *const at[DN_ROLES], stator_ctx *ctx, stator_diag **err)
{
    const dn_sizes s = *sizes;
    void *packed = NULL;
    dn_quant q = {.isa = isa_of(op->lib), .op = op, .s = &s, .at = at};
    (void)order_of(op, &s, q.isa, &q.order); /* succeeds: it was described */
    if (plan->is_packed) {
        (void)dnnl_memory_get_data_handle(plan->packed, &packed);
    }
    q.weights = packed;
    q.scratch = scratch_floats(&q) * (int64_t)sizeof(float) + (packed ? 0 : q.order.panel);
    const int64_t n = chunks_of(&q) * q.order.panels;
    const int64_t grain = s.m > 1 ? 1 : GRAIN_BYTES / q.order.panel + 1;
    dn_scratch_reserve(op->lib, (uint64_t)q.scratch, n < s.threads ? n : s.threads);
    dn_parallel(s.threads > 1 ? op->lib->host : NULL, ctx, n, grain, run_range, &q);
    return q.has_failed ? st_fail_oom(err) : STATOR_OK;
}

/* ---- operands that are transposed ---- */

/* A matrix to other strides. */
typedef struct transposition {
    const float *from;
    float *to;
    int64_t rows, columns;
    int64_t from_step[2], to_step[2]; /* elements to the next row, and column */
} transposition;

static void transpose_range(void *self, int64_t begin, int64_t end)
{
    const transposition *t = self;
    const int64_t last = end * TRANSPOSE_ROWS < t->rows ? end * TRANSPOSE_ROWS : t->rows;
    for (int64_t first = begin * TRANSPOSE_ROWS; first < last; first += TRANSPOSE_ROWS) {
        const int64_t n = last - first < TRANSPOSE_ROWS ? last - first : TRANSPOSE_ROWS;
        for (int64_t c = 0; c < t->columns; c++) {
            const float *from = t->from + first * t->from_step[0] + c * t->from_step[1];
            float *to = t->to + first * t->to_step[0] + c * t->to_step[1];
            for (int64_t r = 0; r < n; r++) {
                to[r * t->to_step[0]] = from[r * t->from_step[0]];
            }
        }
    }
}

static void transpose(const dn_op *op, transposition *t, int64_t threads, stator_ctx *ctx)
{
    const int64_t n = (t->rows + TRANSPOSE_ROWS - 1) / TRANSPOSE_ROWS;
    dn_parallel(threads > 1 ? op->lib->host : NULL, ctx, n, 1, transpose_range, t);
}

static bool is_x_transposed(const dn_sizes *s)
{
    return s->x.stride[1] != 1 && s->k > 1;
}

static bool is_out_transposed(const dn_sizes *s)
{
    return s->out.stride[1] != 1 && s->n > 1;
}

static int64_t rounded(int64_t floats)
{
    return (floats + ALIGN - 1) / ALIGN * ALIGN;
}

stator_status dn_quant_run(const dn_op *op, const dn_plan *plan, const dn_sizes *sizes,
                           void *const at[DN_ROLES], stator_ctx *ctx, stator_diag **err)
{
    dn_sizes s = *sizes;
    void *transposed[DN_ROLES];
    dn_simplify(&op->contraction, &s);
    const dn_sizes caller = s;
    const int64_t x_floats = is_x_transposed(&s) ? rounded(s.m * s.k) : 0;
    const int64_t out_floats = is_out_transposed(&s) ? rounded(s.m * s.n) : 0;
    if (x_floats + out_floats == 0) {
        return run_rows(op, plan, &s, at, ctx, err);
    }
    dn_scratch *scratch =
        dn_scratch_take(op->lib, (uint64_t)(x_floats + out_floats) * sizeof(float));
    ST_TRY_MEM(scratch, err);
    float *const data = dn_scratch_data(scratch);
    memcpy(transposed, at, sizeof transposed);
    if (x_floats) {
        transposition t = {at[DN_X], data, s.m, s.k, {s.x.stride[0], s.x.stride[1]}, {s.k, 1}};
        transpose(op, &t, s.threads, ctx);
        transposed[DN_X] = data;
        s.x.stride[0] = s.k;
        s.x.stride[1] = 1;
    }
    if (out_floats) {
        transposed[DN_OUT] = data + x_floats;
        s.out.stride[0] = s.n;
        s.out.stride[1] = 1;
    }
    const stator_status status = run_rows(op, plan, &s, transposed, ctx, err);
    if (status == STATOR_OK && out_floats) {
        const int64_t *to = caller.out.stride;
        transposition t = {data + x_floats, at[DN_OUT], s.m, s.n, {s.n, 1}, {to[0], to[1]}};
        transpose(op, &t, s.threads, ctx);
    }
    dn_scratch_give(op->lib, scratch);
    return status;
}

/* ---- which ---- */

bool dn_quant_takes(const st_contraction *contraction)
{
    const st_contraction_weights *w = &contraction->weights;
    return contraction->kind == ST_CONTRACTION_GEMM && contraction->x.dtype == STATOR_F32 &&
           contraction->out.dtype == STATOR_F32 && contraction->acc_dtype == STATOR_F32 &&
           bits_of(contraction->y.dtype) != 0 &&
           (w->zero.buffer == UINT32_MAX || w->zero.dtype == contraction->y.dtype ||
            w->zero.dtype == STATOR_I32) &&
           dn_rows_has_epilogue(contraction);
}

/* Are zero points numbers that weights have too? Subtracting others, as 0.5, is not exact here.
 * Those of more bits than the weights, as folding leaves a few, are looked at while they are at
 * hand: before the op is made. */
static bool are_zeros_small(const st_contraction *contraction, const dn_sizes *s)
{
    const st_contraction_blocks *zero = &contraction->weights.zero;
    const int64_t bias = bias_of(contraction->y.dtype);
    const int64_t end = (int64_t)1 << bits_of(contraction->y.dtype);
    if (zero->buffer == UINT32_MAX) {
        const double number = zero->value + (double)bias;
        return number >= 0 && number < (double)end && number == floor(number);
    }
    if (zero->data == NULL || zero->dtype == contraction->y.dtype) {
        return true;
    }
    for (int64_t k = 0; k < s->k; k += share_of(zero, s->k)) {
        for (int64_t n = 0; n < s->n; n++) {
            const uint64_t at = (uint64_t)st_contraction_block_at(zero, k, n);
            const int64_t number = st_load_i64(zero->dtype, zero->data, at) + bias;
            if (number < 0 || number >= end) {
                return false;
            }
        }
    }
    return true;
}

double dn_quant_weight(const st_contraction *contraction, void *const at[DN_ROLES], double y,
                       int64_t k, int64_t n)
{
    const st_contraction_weights *w = &contraction->weights;
    const double scale = w->scale.buffer == UINT32_MAX
                             ? w->scale.value
                             : st_load_f64(w->scale.dtype, at[DN_SCALE],
                                           (uint64_t)st_contraction_block_at(&w->scale, k, n));
    const double zero = w->zero.buffer == UINT32_MAX
                            ? w->zero.value
                            : st_load_f64(w->zero.dtype, at[DN_ZERO + 1],
                                          (uint64_t)st_contraction_block_at(&w->zero, k, n));
    char rounded[sizeof(double)];
    st_store_f64(w->dtype, rounded, 0, (y - zero) * scale);
    return st_load_f64(w->dtype, rounded, 0);
}

bool dn_quant_describe(const dn_op *op, const dn_sizes *s, dn_desc *out)
{
    const st_contraction *contraction = &op->contraction;
    const dn_quant_isa *isa = isa_of(op->lib);
    dn_quant_order order;
    memset(out, 0, sizeof *out);
    if (!contraction->weights.is_scaled || !dn_quant_takes(contraction) || isa == NULL ||
        s->is_bare || s->n_batch != 0 || s->m < 1 || s->n < 1 || s->k < 1 ||
        (is_out_transposed(s) && (dn_epilogue_kinds(contraction) & DN_KIND(ADD))) ||
        s->m > SPAN_MAX / s->k || s->m > SPAN_MAX / s->n || s->y.stride[0] < 0 ||
        s->y.stride[1] < 0 || !are_zeros_small(contraction, s) || !order_of(op, s, isa, &order)) {
        return false;
    }
    const dnnl_dims_t panels = {order.panels, order.panel};
    const dnnl_dims_t steps = {order.panel, 1};
    const dnnl_dims_t dims = {s->k, s->n};
    const dnnl_dims_t strides = {s->y.stride[0] ? s->y.stride[0] : 1,
                                 s->y.stride[1] ? s->y.stride[1] : 1};
    out->name = "quant";
    out->class_ = DN_GOOD;
    out->how.is_quant = 1;
    return order.panel < SPAN_MAX / order.panels &&
           dn_strided(2, dims, dnnl_u8, strides, &out->md[DN_Y]) &&
           dn_strided(2, panels, dnnl_u8, steps, &out->md[DN_Y2]);
}
