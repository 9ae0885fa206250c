/* dot_general and matmul: operands are packed into wide matrices X[batch, m, k] and Y[batch, n, k],
 * each batch is cut into tiles of fixed size, results are rounded once. */
#include "plugins/eager/kernels/ek_dot.h"

#define TILE_M 128
#define TILE_N 256

typedef struct packing {
    const ek_tensor *t;
    const ek_axes *batch, *row, *k;
    int64_t n_rows, n_k;
    ek_wide *out;
} packing;

/* Rows [begin, end) over batch * row of a packed matrix; the last k axis is the inner loop. */
static void pack_rows(void *self, int64_t begin, int64_t end)
{
    const packing *p = self;
    ek_axes outer = *p->k;
    const int64_t inner = outer.n > 0 ? outer.size[outer.n - 1] : 1;
    const int64_t step = outer.n > 0 ? outer.stride[outer.n - 1] : 0;
    outer.n -= outer.n > 0;
    const int64_t n_outer = inner > 0 ? p->n_k / inner : 0;
    for (int64_t r = begin; r < end; r++) {
        const int64_t base =
            ek_axes_offset(p->batch, r / p->n_rows) + ek_axes_offset(p->row, r % p->n_rows);
        for (int64_t o = 0; o < n_outer; o++) {
            ek_load_wide(p->t, base + ek_axes_offset(&outer, o), step, inner,
                         p->out + r * p->n_k + o * inner);
        }
    }
}

static void do_tile(void *self, int64_t task, int64_t worker)
{
    const ek_contraction *c = self;
    const int64_t batch = task / (c->tiles_m * c->tiles_n);
    const int64_t tile = task % (c->tiles_m * c->tiles_n);
    const int64_t m0 = tile / c->tiles_n * TILE_M;
    const int64_t n0 = tile % c->tiles_n * TILE_N;
    const int64_t m = c->n_m - m0 < TILE_M ? c->n_m - m0 : TILE_M;
    const int64_t n = c->n_n - n0 < TILE_N ? c->n_n - n0 : TILE_N;
    ek_wide *out = c->scratch + worker * TILE_M * TILE_N;
    const ek_matrix_tile t = {.m = m,
                              .n = n,
                              .k = c->n_k,
                              .a = c->packed_x + (batch * c->n_m + m0) * c->n_k,
                              .lda = c->n_k > 0 ? c->n_k : 1,
                              .b = c->packed_y + (batch * c->n_n + n0) * c->n_k,
                              .ldb = c->n_k > 0 ? c->n_k : 1,
                              .c = out,
                              .ldc = n,
                              .is_int = c->is_int,
                              .b_transposed = 1};
    ek_gemm_tile(c->call, &t);
    for (int64_t i = 0; i < m; i++) {
        ek_store_wide(c->z, (batch * c->n_m + m0 + i) * c->n_n + n0, n, out + i * n);
    }
}

stator_status ek_contract(ek_contraction *c, stator_diag **err)
{
    const ek_call *call = c->call;
    c->n_batch = ek_axes_count(&c->batch_x);
    c->n_m = ek_axes_count(&c->m);
    c->n_n = ek_axes_count(&c->n);
    c->n_k = ek_axes_count(&c->k_x);
    c->is_int = (uint8_t)ek_is_int_math(c->x->dtype);
    if (c->n_batch * c->n_m * c->n_n == 0) {
        return STATOR_OK;
    }
    c->tiles_m = (c->n_m + TILE_M - 1) / TILE_M;
    c->tiles_n = (c->n_n + TILE_N - 1) / TILE_N;
    const int64_t n_tasks = c->n_batch * c->tiles_m * c->tiles_n;
    const int64_t workers = ek_worker_count(call, n_tasks);
    ST_TRY(EK_SCRATCH(call, c->packed_x, c->n_batch * c->n_m * c->n_k + 1, err));
    ST_TRY(EK_SCRATCH(call, c->packed_y, c->n_batch * c->n_n * c->n_k + 1, err));
    ST_TRY(EK_SCRATCH(call, c->scratch, workers * TILE_M * TILE_N, err));
    ek_gemm_prepare(call);
    packing px = {c->x, &c->batch_x, &c->m, &c->k_x, c->n_m, c->n_k, c->packed_x};
    packing py = {c->y, &c->batch_y, &c->n, &c->k_y, c->n_n, c->n_k, c->packed_y};
    const int64_t grain = 1 + 16384 / (c->n_k + 1);
    ek_parallel(call, c->n_batch * c->n_m, grain, pack_rows, &px);
    ek_parallel(call, c->n_batch * c->n_n, grain, pack_rows, &py);
    ek_workers(call, workers, n_tasks, do_tile, c);
    return STATOR_OK;
}

/* ---- dot_general ---- */

static bool in_list(const int64_t *list, uint32_t n, uint32_t rank, uint32_t axis)
{
    for (uint32_t i = 0; i < n; i++) {
        if (list[i] == (int64_t)axis || list[i] + (int64_t)rank == (int64_t)axis) {
            return true;
        }
    }
    return false;
}

static void take_axes(ek_axes *out, const ek_tensor *t, const int64_t *strides, const int64_t *list,
                      uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const int64_t axis = list[i] < 0 ? list[i] + (int64_t)t->rank : list[i];
        ek_axes_add(out, t->dims[axis], strides[axis]);
    }
}

/* Batch, contracted and remaining axes of an operand. */
typedef struct axis_split {
    ek_axes *batch, *contracted, *rest;
} axis_split;

static void split_axes(const ek_call *c, uint32_t k, axis_split to)
{
    const ek_tensor *t = &c->in[k];
    int64_t strides[STATOR_RANK_MAX];
    uint32_t n_batch = 0;
    uint32_t n_contract = 0;
    const int64_t *b =
        ek_ints(c, k == 0 ? STATOR_dot_general_batch_x : STATOR_dot_general_batch_y, &n_batch);
    const int64_t *d = ek_ints(
        c, k == 0 ? STATOR_dot_general_contract_x : STATOR_dot_general_contract_y, &n_contract);
    ek_strides(t->dims, t->rank, strides);
    take_axes(to.batch, t, strides, b, n_batch);
    take_axes(to.contracted, t, strides, d, n_contract);
    for (uint32_t axis = 0; axis < t->rank; axis++) {
        if (!in_list(b, n_batch, t->rank, axis) && !in_list(d, n_contract, t->rank, axis)) {
            ek_axes_add(to.rest, t->dims[axis], strides[axis]);
        }
    }
}

static stator_status check_pairs(const ek_call *c, const ek_axes *x, const ek_axes *y,
                                 const char *what, stator_diag **err)
{
    for (uint32_t i = 0; i < x->n; i++) {
        EK_FAIL_IF(i >= y->n || x->size[i] != y->size[i], c, err, STATOR_INVALID_ARGUMENT,
                   "%s sizes of the operands differ: %lld and %lld", what, (long long)x->size[i],
                   i < y->n ? (long long)y->size[i] : -1LL);
    }
    return STATOR_OK;
}

stator_status ek_dot_general(const ek_call *call, stator_diag **err)
{
    ek_contraction c = {.call = call, .x = &call->in[0], .y = &call->in[1], .z = &call->out[0]};
    split_axes(call, 0, (axis_split){&c.batch_x, &c.k_x, &c.m});
    split_axes(call, 1, (axis_split){&c.batch_y, &c.k_y, &c.n});
    stator_status status = check_pairs(call, &c.batch_x, &c.batch_y, "batch", err);
    ST_THEN(status, check_pairs(call, &c.k_x, &c.k_y, "contracted", err));
    return status == STATOR_OK ? ek_contract(&c, err) : status;
}

/* ---- matmul ---- */

stator_status ek_matmul(const ek_call *call, stator_diag **err)
{
    ek_contraction c = {.call = call, .x = &call->in[0], .y = &call->in[1], .z = &call->out[0]};
    const ek_tensor *x = &call->in[0];
    const ek_tensor *y = &call->in[1];
    int64_t sx[STATOR_RANK_MAX];
    int64_t sy[STATOR_RANK_MAX];
    ek_strides(x->dims, x->rank, sx);
    ek_strides(y->dims, y->rank, sy);
    const uint32_t bx = x->rank > 2 ? x->rank - 2 : 0;
    const uint32_t by = y->rank > 2 ? y->rank - 2 : 0;
    const uint32_t n_batch = bx > by ? bx : by;
    for (uint32_t i = 0; i < n_batch; i++) {
        const bool has_x = i + bx >= n_batch;
        const bool has_y = i + by >= n_batch;
        const uint32_t ax = i + bx - n_batch;
        const uint32_t ay = i + by - n_batch;
        const int64_t dx = has_x ? x->dims[ax] : 1;
        const int64_t dy = has_y ? y->dims[ay] : 1;
        EK_FAIL_IF(dx != dy && dx != 1 && dy != 1, call, err, STATOR_INVALID_ARGUMENT,
                   "batch sizes %lld and %lld do not broadcast", (long long)dx, (long long)dy);
        const int64_t size = dx == 1 ? dy : dx;
        ek_axes_add(&c.batch_x, size, has_x && dx != 1 ? sx[ax] : 0);
        ek_axes_add(&c.batch_y, size, has_y && dy != 1 ? sy[ay] : 0);
    }
    if (x->rank > 1) {
        ek_axes_add(&c.m, x->dims[x->rank - 2], sx[x->rank - 2]);
    }
    if (y->rank > 1) {
        ek_axes_add(&c.n, y->dims[y->rank - 1], sy[y->rank - 1]);
    }
    const uint32_t ky = y->rank > 1 ? y->rank - 2 : 0;
    ek_axes_add(&c.k_x, x->dims[x->rank - 1], sx[x->rank - 1]);
    ek_axes_add(&c.k_y, y->dims[ky], sy[ky]);
    const stator_status status = check_pairs(call, &c.k_x, &c.k_y, "inner", err);
    return status == STATOR_OK ? ek_contract(&c, err) : status;
}
