/* cuBLASLt as a library of contractions: what it takes, its ops and their calls.
 *
 * An op has a plan for each layout that its calls have had. Those of known sizes are made with the
 * op and their algorithms kept with it in the compile cache; others with the first call that needs
 * them. A call holds the op's lock while it queues, since a bias is part of a descriptor. */
#include "cuda_gemm.h"

#include "core/base/bytes.h"
#include "core/base/diag.h"

#include <stdio.h>
#include <string.h>

#define NO_BUFFER UINT32_MAX
#define PLANS_MAX 8u
#define ALIGNMENT_MAX 256u /* of what the device's allocator gives; more is never asked for */
#define SKINNY_MAX 24   /* rows or columns that codegen/gpu makes no tiles of 8 by 8 results of */
#define BATCH_MAX 65535 /* products of one call: a grid's third size */

/* An algorithm from the compile cache. */
typedef struct kept_plan {
    gemm_key key;
    cublaslt_algo algo;
} kept_plan;

typedef struct gemm_op {
    gemm_operands operands;
    pthread_mutex_t mutex; /* guards the rest */
    uint32_t n_plans;
    uint32_t next; /* the plan that gives way to another */
    gemm_plan plans[PLANS_MAX];
    uint32_t n_kept;
    kept_plan kept[PLANS_MAX];
} gemm_op;

/* ---- takes ---- */

static bool are_dtypes_taken(const st_contraction *c)
{
    const uint32_t in = c->x.dtype;
    const bool is_wide = in == STATOR_F32 || in == STATOR_F64;
    const bool is_narrow = in == STATOR_BF16 || in == STATOR_F16;
    const bool is_split = in == STATOR_F32 && c->f32_products != ST_F32_STRICT &&
                          c->f32_products != ST_F32_TF32; /* those are generated */
    if (c->y.dtype != in || c->weights.is_scaled || is_split) {
        return false;
    }
    return (is_wide && c->acc_dtype == in && c->out.dtype == in) ||
           (is_narrow && c->acc_dtype == STATOR_F32 &&
            (c->out.dtype == in || c->out.dtype == STATOR_F32));
}

/* Nothing, or one bias of f32: t + bias is rounded once, as the loops do. */
static bool is_epilogue_taken(const st_contraction *c)
{
    return c->n_epilogue == 0 || (c->n_epilogue == 1 && c->epilogue[0].kind == ST_EPILOGUE_BIAS &&
                                  c->epilogue[0].dtype == STATOR_F32 && c->x.dtype == STATOR_F32);
}

static bool has_zero(const st_contraction_zero *zero)
{
    return zero->has_buffer || zero->is_each || zero->value != 0;
}

static gemm_operands operands_of(const st_contraction *c)
{
    return (gemm_operands){.n_batch = c->n_batch,
                           .in = c->x.dtype,
                           .out = c->out.dtype,
                           .is_tf32 = c->x.dtype == STATOR_F32 && c->f32_products == ST_F32_TF32,
                           .x = c->x.buffer,
                           .y = c->y.buffer,
                           .d = c->out.buffer,
                           .bias = c->n_epilogue ? c->epilogue[0].buffer : NO_BUFFER};
}

/* The contraction's numbers as values; false: not all are known. */
static bool know_sizes(const st_contraction *c, const gemm_operands *operands, gemm_sizes *out)
{
    uint32_t syms[ST_CONTRACTION_NUMBERS_MAX];
    int64_t numbers[ST_CONTRACTION_NUMBERS_MAX];
    const uint32_t n = st_contraction_numbers(c, syms);
    for (uint32_t i = 0; i < n; i++) {
        ST_NEED(st_sym_const(&c->syms->tab, syms[i], &numbers[i]));
    }
    gemm_read_sizes(operands, numbers, out);
    return true;
}

/* Is it a product of matrices for all values of its sizes? */
static bool is_layout_taken(const st_contraction *c, const gemm_operands *operands)
{
    uint32_t syms[ST_CONTRACTION_NUMBERS_MAX];
    int64_t numbers[ST_CONTRACTION_NUMBERS_MAX];
    gemm_sizes sizes;
    gemm_key key;
    bool is_swapped = false;
    const uint32_t n = st_contraction_numbers(c, syms);
    for (uint32_t i = 0; i < n; i++) {
        numbers[i] = syms[i];
    }
    gemm_read_sizes(operands, numbers, &sizes);
    return gemm_describe(operands, &sizes, &c->syms->tab, &key, &is_swapped);
}

/* ---- calls ---- */

/* The device's memory as the library of a call is given it. */
typedef struct gemm_call {
    const cuda_gemm_library *library;
    gemm_op *op;
    void *device_call;
    gemm_key key;
    bool is_swapped;
    uint32_t axis; /* the batch axis of one call of the library; n_batch: none */
    const gemm_sizes *sizes;
    st_gpu_address x, y, d, bias; /* first elements */
} gemm_call;

static uint64_t bytes_of(uint32_t dtype)
{
    return dtype == STATOR_F64 ? 8u : dtype == STATOR_F32 ? 4u : 2u;
}

static uint32_t alignment_of(st_gpu_address address)
{
    const uint64_t lowest = address & (~address + 1u);
    return lowest == 0 || lowest > ALIGNMENT_MAX ? ALIGNMENT_MAX : (uint32_t)lowest;
}

/* Is there nothing to store? */
static bool is_empty(const gemm_operands *operands, const gemm_sizes *s)
{
    bool is_any = s->m <= 0 || s->n <= 0;
    for (uint32_t i = 0; i < operands->n_batch; i++) {
        is_any = is_any || s->batch[i] <= 0;
    }
    return is_any;
}

/* An empty sum is that of one zero: a column and a row of zeros. */
static void describe_zeros(gemm_key *key)
{
    key->a = (gemm_matrix){.rows = key->d.rows, .columns = 1, .leading = key->d.rows};
    key->b = (gemm_matrix){.rows = 1, .columns = key->d.columns, .leading = 1};
}

/* Fills the key but for alignments, which are those of addresses. */
static bool set_key(gemm_call *call)
{
    const gemm_operands *operands = &call->op->operands;
    const gemm_sizes *s = call->sizes;
    ST_NEED(gemm_describe(operands, s, NULL, &call->key, &call->is_swapped));
    call->axis = operands->n_batch;
    for (uint32_t i = 0; i < operands->n_batch; i++) {
        if (s->batch[i] > 1 &&
            (call->axis == operands->n_batch || s->batch[i] > s->batch[call->axis])) {
            call->axis = i;
        }
    }
    const uint32_t axis = call->axis;
    if (axis < operands->n_batch) {
        call->key.a.batch_stride = call->is_swapped ? s->y.batch[axis] : s->x.batch[axis];
        call->key.b.batch_stride = call->is_swapped ? s->x.batch[axis] : s->y.batch[axis];
        call->key.d.batch_stride = s->out.batch[axis];
    }
    if (s->k == 0) {
        describe_zeros(&call->key);
    }
    return true;
}

static bool is_for(const gemm_key *made, const gemm_key *wanted)
{
    gemm_key like = *wanted;
    like.a.alignment = made->a.alignment;
    like.b.alignment = made->b.alignment;
    like.d.alignment = made->d.alignment;
    return memcmp(&like, made, sizeof like) == 0 && made->a.alignment <= wanted->a.alignment &&
           made->b.alignment <= wanted->b.alignment && made->d.alignment <= wanted->d.alignment;
}

static const cublaslt_algo *find_kept(const gemm_op *op, const gemm_key *key)
{
    for (uint32_t i = 0; i < op->n_kept; i++) {
        if (is_for(&op->kept[i].key, key)) {
            return &op->kept[i].algo;
        }
    }
    return NULL;
}

/* The op's plan for the key, made where there is none yet. Under the op's lock. */
static stator_status find_plan(const cuda_gemm_library *library, gemm_op *op, const gemm_key *key,
                               gemm_plan **out, stator_diag **err)
{
    gemm_plan made;
    for (uint32_t i = 0; i < op->n_plans; i++) {
        if (is_for(&op->plans[i].key, key)) {
            *out = &op->plans[i];
            return STATOR_OK;
        }
    }
    ST_TRY(gemm_plan_make(library, &op->operands, key, find_kept(op, key), &made, err));
    gemm_plan *at = &op->plans[op->n_plans < PLANS_MAX ? op->n_plans : op->next];
    if (op->n_plans < PLANS_MAX) {
        op->n_plans++;
    } else {
        gemm_plan_destroy(library, at);
        op->next = (op->next + 1u) % PLANS_MAX;
    }
    *at = made;
    *out = at;
    return STATOR_OK;
}

/* The handle is made when a context is current for the first time. */
static stator_status find_handle(cuda_gemm_library *library, stator_diag **err)
{
    cublaslt_status status = CUBLASLT_STATUS_SUCCESS;
    (void)pthread_mutex_lock(&library->mutex);
    if (library->handle == NULL) {
        status = library->api.create(&library->handle);
        library->handle = status == CUBLASLT_STATUS_SUCCESS ? library->handle : NULL;
    }
    (void)pthread_mutex_unlock(&library->mutex);
    return status == CUBLASLT_STATUS_SUCCESS ? STATOR_OK
                                             : gemm_fail(library, "its beginning", status, err);
}

/* Queues a * b of the plan. */
static stator_status multiply(const gemm_call *call, const gemm_plan *plan, st_gpu_address a,
                              st_gpu_address b, st_gpu_address d, void *workspace,
                              stator_diag **err)
{
    static const float one = 1, zero = 0;
    static const double one_f64 = 1, zero_f64 = 0;
    const cuda_gemm_library *library = call->library;
    const bool is_f64 = call->op->operands.in == STATOR_F64;
    const void *bias = (const void *)(uintptr_t)call->bias;
    cublaslt_status status = CUBLASLT_STATUS_SUCCESS;
    if (bias != NULL) {
        status = library->api.desc_set(plan->desc, CUBLASLT_DESC_BIAS_POINTER, &bias, sizeof bias);
    }
    if (status == CUBLASLT_STATUS_SUCCESS) {
        status = library->api.matmul(
            library->handle, plan->desc, is_f64 ? (const void *)&one_f64 : &one,
            (const void *)(uintptr_t)a, plan->a, (const void *)(uintptr_t)b, plan->b,
            is_f64 ? (const void *)&zero_f64 : &zero, (void *)(uintptr_t)d, plan->d,
            (void *)(uintptr_t)d, plan->d, &plan->algo, workspace, plan->workspace_bytes,
            st_gpu_call_stream(call->device_call));
    }
    return status == CUBLASLT_STATUS_SUCCESS ? STATOR_OK
                                             : gemm_fail(library, "a product", status, err);
}

/* Scratch of one call of the library: its workspace, and behind it the zeros of an empty sum. */
static stator_status queue(const gemm_call *call, const gemm_plan *plan, st_gpu_address a,
                           st_gpu_address b, st_gpu_address d, stator_diag **err)
{
    const st_device_memory *memory = call->library->memory;
    const st_gpu_driver *driver = &call->library->context->table;
    const gemm_matrix *out = &plan->key.d;
    const uint64_t longest = (uint64_t)(out->rows > out->columns ? out->rows : out->columns);
    const uint64_t zeros = call->sizes->k == 0 ? longest * bytes_of(call->op->operands.in) : 0;
    const uint64_t room = (plan->workspace_bytes + ALIGNMENT_MAX - 1u) & ~(ALIGNMENT_MAX - 1ull);
    void *scratch = NULL;
    stator_status status = STATOR_OK;
    if (room + zeros != 0) {
        ST_TRY(memory->take(memory->self, call->device_call, room + zeros, &scratch, err));
    }
    if (zeros != 0) {
        a = (st_gpu_address)(uintptr_t)scratch + room;
        b = a;
        status =
            driver->fill(driver->self, a, 0, zeros, st_gpu_call_stream(call->device_call), err);
    }
    ST_THEN(status, multiply(call, plan, a, b, d, scratch, err));
    memory->give(memory->self, call->device_call, scratch);
    return status;
}

/* The products from `first` on along the call's own batch axis, `n` of them, whose operands begin
 * at these elements. */
static stator_status run_batch(gemm_call *call, const int64_t at[3], int64_t n, stator_diag **err)
{
    const gemm_operands *operands = &call->op->operands;
    const st_gpu_address x = call->x + (uint64_t)at[0] * bytes_of(operands->in);
    const st_gpu_address y = call->y + (uint64_t)at[1] * bytes_of(operands->in);
    const st_gpu_address d = call->d + (uint64_t)at[2] * bytes_of(operands->out);
    const st_gpu_address a = call->is_swapped ? y : x;
    const st_gpu_address b = call->is_swapped ? x : y;
    gemm_plan *plan = NULL;
    call->key.count = n;
    call->key.a.alignment = call->sizes->k == 0 ? ALIGNMENT_MAX : alignment_of(a);
    call->key.b.alignment = call->sizes->k == 0 ? ALIGNMENT_MAX : alignment_of(b);
    call->key.d.alignment = alignment_of(d | call->bias);
    ST_TRY(find_plan(call->library, call->op, &call->key, &plan, err));
    return queue(call, plan, a, b, d, err);
}

/* All products: a loop over the other batch axes. */
static stator_status run_all(gemm_call *call, stator_diag **err)
{
    const uint32_t n_batch = call->op->operands.n_batch;
    const gemm_sizes *s = call->sizes;
    const gemm_side *const sides[3] = {&s->x, &s->y, &s->out};
    const int64_t inner = call->axis < n_batch ? s->batch[call->axis] : 1;
    int64_t outer = 1;
    for (uint32_t i = 0; i < n_batch; i++) {
        outer *= i == call->axis ? 1 : s->batch[i];
    }
    for (int64_t step = 0; step < outer; step++) {
        int64_t at[3] = {s->x.offset, s->y.offset, s->out.offset};
        int64_t rest = step;
        for (uint32_t i = n_batch; i-- > 0;) {
            const int64_t index = i == call->axis ? 0 : rest % s->batch[i];
            rest = i == call->axis ? rest : rest / s->batch[i];
            for (uint32_t k = 0; k < 3; k++) {
                at[k] += index * sides[k]->batch[i];
            }
        }
        for (int64_t first = 0; first < inner; first += BATCH_MAX) {
            const int64_t n = inner - first < BATCH_MAX ? inner - first : BATCH_MAX;
            ST_TRY(run_batch(call, at, n, err));
            for (uint32_t k = 0; k < 3 && call->axis < n_batch; k++) {
                at[k] += n * sides[k]->batch[call->axis];
            }
        }
    }
    return STATOR_OK;
}

static st_gpu_address address_of(const st_library_call *call, uint32_t buffer)
{
    return buffer == NO_BUFFER ? 0 : (st_gpu_address)(uintptr_t)call->buffers[buffer];
}

static stator_status run(void *self, void *op_, const st_library_call *of, stator_diag **err)
{
    cuda_gemm_library *library = self;
    gemm_op *op = op_;
    gemm_sizes sizes;
    st_gpu_scope scope;
    gemm_read_sizes(&op->operands, of->numbers, &sizes);
    gemm_call call = {.library = library,
                      .op = op,
                      .device_call = of->device_call,
                      .sizes = &sizes,
                      .x = address_of(of, op->operands.x),
                      .y = address_of(of, op->operands.y),
                      .d = address_of(of, op->operands.d),
                      .bias = address_of(of, op->operands.bias)};
    if (is_empty(&op->operands, &sizes)) {
        return STATOR_OK;
    }
    ST_FAIL_IF(!set_key(&call), err, STATOR_INTERNAL,
               "cuBLASLt: a product's operands are no matrices for these sizes");
    ST_TRY(st_gpu_enter(library->context, &scope, err));
    stator_status status = find_handle(library, err);
    (void)pthread_mutex_lock(&op->mutex);
    ST_THEN(status, run_all(&call, err));
    (void)pthread_mutex_unlock(&op->mutex);
    (void)st_gpu_leave(library->context, &scope, ST_GPU_RESULT_SUCCESS, "a product", NULL);
    return status;
}

/* ---- ops ---- */

static void destroy(void *self, void *op_)
{
    cuda_gemm_library *library = self;
    gemm_op *op = op_;
    for (uint32_t i = 0; op != NULL && i < op->n_plans; i++) {
        gemm_plan_destroy(library, &op->plans[i]);
    }
    if (op != NULL) {
        (void)pthread_mutex_destroy(&op->mutex);
        st_free(library->mem, op);
    }
}

static gemm_op *new_op(cuda_gemm_library *library, stator_diag **err)
{
    gemm_op *op = st_calloc(library->mem, 1, sizeof *op);
    if (op == NULL) {
        (void)st_fail_oom(err);
    } else {
        (void)pthread_mutex_init(&op->mutex, NULL);
    }
    return op;
}

/* Makes the plan of the first call of these sizes, with memory as the device's allocator gives
 * it. */
static stator_status prepare(cuda_gemm_library *library, gemm_op *op, const gemm_sizes *sizes,
                             stator_diag **err)
{
    st_gpu_scope scope;
    gemm_plan *plan = NULL;
    gemm_call call = {.library = library, .op = op, .sizes = sizes};
    if (is_empty(&op->operands, sizes)) {
        return STATOR_OK;
    }
    ST_FAIL_IF(!set_key(&call), err, STATOR_INTERNAL,
               "cuBLASLt: a product's operands are no matrices");
    const uint64_t in = bytes_of(op->operands.in);
    const st_gpu_address x = (uint64_t)sizes->x.offset * in;
    const st_gpu_address y = (uint64_t)sizes->y.offset * in;
    const int64_t n = call.axis < op->operands.n_batch ? sizes->batch[call.axis] : 1;
    call.key.count = n < BATCH_MAX ? n : BATCH_MAX;
    call.key.a.alignment = alignment_of(call.is_swapped ? y : x);
    call.key.b.alignment = alignment_of(call.is_swapped ? x : y);
    call.key.d.alignment = alignment_of((uint64_t)sizes->out.offset * bytes_of(op->operands.out));
    ST_TRY(st_gpu_enter(library->context, &scope, err));
    stator_status status = find_handle(library, err);
    ST_THEN(status, find_plan(library, op, &call.key, &plan, err));
    (void)st_gpu_leave(library->context, &scope, ST_GPU_RESULT_SUCCESS, "a product", NULL);
    return status;
}

static stator_status create(void *self, const st_contraction *contraction, void **out_op,
                            stator_diag **err)
{
    cuda_gemm_library *library = self;
    gemm_sizes sizes;
    *out_op = NULL;
    gemm_op *op = new_op(library, err);
    if (op == NULL) {
        return STATOR_RESOURCE_EXHAUSTED;
    }
    op->operands = operands_of(contraction);
    const stator_status status = know_sizes(contraction, &op->operands, &sizes)
                                     ? prepare(library, op, &sizes, err)
                                     : STATOR_OK;
    if (status != STATOR_OK) {
        destroy(library, op);
        return status;
    }
    *out_op = op;
    return STATOR_OK;
}

/* Is it a product of f32 with few rows or columns? A generated kernel takes 0.3 to 1 of the
 * library's time (docs/decisions/009-skinny-products.md), and does what follows too. */
static bool is_skinny(const st_contraction *c, const gemm_sizes *sizes)
{
    const int64_t narrow = sizes->m < sizes->n ? sizes->m : sizes->n;
    return c->x.dtype == STATOR_F32 && narrow < SKINNY_MAX;
}

/* Where all sizes are known the library itself is asked, so that what it refuses becomes loops. */
static int32_t takes(void *self, const st_contraction *c)
{
    gemm_sizes sizes;
    void *op = NULL;
    if (c->kind != ST_CONTRACTION_GEMM || !are_dtypes_taken(c) || !is_epilogue_taken(c) ||
        has_zero(&c->x_zero) || has_zero(&c->y_zero)) {
        return 0;
    }
    const gemm_operands operands = operands_of(c);
    if (!is_layout_taken(c, &operands)) {
        return 0;
    }
    if (!know_sizes(c, &operands, &sizes)) {
        return 1;
    }
    if (is_skinny(c, &sizes)) {
        return 0;
    }
    const bool is_made = create(self, c, &op, NULL) == STATOR_OK;
    destroy(self, op);
    return is_made;
}

/* ---- the compile cache ---- */

static stator_status op_save(void *self, void *op_, st_str *out, stator_diag **err)
{
    const cuda_gemm_library *library = self;
    gemm_op *op = op_;
    (void)err;
    (void)pthread_mutex_lock(&op->mutex);
    st_put_block(out, &op->operands, sizeof op->operands);
    st_put_u32(out, library->version);
    st_put_u32(out, op->n_plans);
    for (uint32_t i = 0; i < op->n_plans; i++) {
        st_put_block(out, &op->plans[i].key, sizeof op->plans[i].key);
        st_put_block(out, &op->plans[i].algo, sizeof op->plans[i].algo);
    }
    (void)pthread_mutex_unlock(&op->mutex);
    return STATOR_OK;
}

static void read_struct(st_reader *r, void *out, uint64_t size)
{
    uint64_t n = 0;
    const void *bytes = st_read_block(r, &n);
    r->failed |= n != size;
    if (!r->failed) {
        memcpy(out, bytes, (size_t)size);
    }
}

static bool are_operands_sound(const gemm_operands *operands, const st_library_kept *kept)
{
    const st_contraction like = {.x.dtype = operands->in,
                                 .y.dtype = operands->in,
                                 .out.dtype = operands->out,
                                 .acc_dtype = operands->in == STATOR_F64 ? STATOR_F64 : STATOR_F32};
    const uint32_t n = operands->n_batch;
    return n <= ST_CONTRACTION_BATCH_MAX && kept->n_numbers == n + 3u + 3u * (n + 3u) &&
           are_dtypes_taken(&like) && operands->x < kept->n_buffers &&
           operands->y < kept->n_buffers && operands->d < kept->n_buffers &&
           (operands->bias == NO_BUFFER ||
            (operands->bias < kept->n_buffers && operands->in == STATOR_F32));
}

/* Algorithms of another version of the library are left out: they are chosen anew. */
static bool load(const cuda_gemm_library *library, const st_library_kept *kept, gemm_op *op)
{
    st_reader r = st_reader_of(kept->bytes, kept->size_bytes);
    read_struct(&r, &op->operands, sizeof op->operands);
    const bool is_same = st_read_u32(&r) == library->version;
    const uint32_t n = st_read_below(&r, PLANS_MAX + 1u);
    for (uint32_t i = 0; i < n && !r.failed; i++) {
        read_struct(&r, &op->kept[i].key, sizeof op->kept[i].key);
        read_struct(&r, &op->kept[i].algo, sizeof op->kept[i].algo);
    }
    op->n_kept = is_same ? n : 0;
    return !r.failed && r.left == 0 && are_operands_sound(&op->operands, kept);
}

static stator_status op_load(void *self, const st_library_kept *kept, void **out_op,
                             uint32_t *out_unread, stator_diag **err)
{
    cuda_gemm_library *library = self;
    *out_unread = NO_BUFFER;
    *out_op = NULL;
    gemm_op *op = new_op(library, err);
    if (op == NULL) {
        return STATOR_RESOURCE_EXHAUSTED;
    }
    if (!load(library, kept, op)) {
        destroy(library, op);
        return st_fail(err, STATOR_DATA_LOSS, "cuBLASLt: a kept product is damaged");
    }
    *out_op = op;
    return STATOR_OK;
}

/* ---- opening and closing ---- */

static const st_gpu_library cublaslt_library = {
    .what = "cuBLASLt, CUDA's library of matrix products,",
    .option = "cublaslt",
    .sonames = {"libcublasLt.so.13", "libcublasLt.so.12"},
    .folders = {"@/nvidia/*/lib", "$VIRTUAL_ENV/lib/python3*/site-packages/nvidia/*/lib",
                "$CONDA_PREFIX/lib/python3*/site-packages/nvidia/*/lib", "$CONDA_PREFIX/lib",
                "$CUDA_HOME/lib64", "$CUDA_PATH/lib64", "/usr/local/cuda/lib64",
                "/usr/local/cuda/targets/*/lib"},
    .install = "install it (Debian: libcublas12; Python: pip install nvidia-cublas), or name its "
               "file with the option cublaslt",
    .too_old = "install cuBLAS of CUDA 12 or newer"};

#define CUDA_FUNCTION(field, symbol, arguments) symbol,
static const char *const cublaslt_names[] = {
#include "cuda_cublaslt_functions.def"
};
#undef CUDA_FUNCTION
_Static_assert(sizeof(cuda_cublaslt_api) == sizeof cublaslt_names, "a pointer for each name");

static uint32_t version_of(const cuda_cublaslt_api *api)
{
    int parts[3] = {0, 0, 0};
    for (int32_t i = CUBLASLT_PROPERTY_MAJOR; i <= CUBLASLT_PROPERTY_PATCH; i++) {
        (void)api->property(i, &parts[i]);
    }
    return (uint32_t)(parts[0] * 10000 + parts[1] * 100 + parts[2]);
}

/* Numbers of attributes and structs of the caller's are those of two releases; another one may have
 * others, and nothing in it tells. */
static bool is_known(const cuda_gemm_library *library, st_gpu_missing *why)
{
    const uint32_t major = library->version / 10000u;
    if (major >= CUBLASLT_MAJOR_MIN && major <= CUBLASLT_MAJOR_MAX) {
        return true;
    }
    (void)snprintf(why->reason, sizeof why->reason,
                   "cuBLASLt in %.600s is of version %u.%u, which is not known here: expected one "
                   "of %u to %u",
                   library->path, major, library->version / 100u % 100u, CUBLASLT_MAJOR_MIN,
                   CUBLASLT_MAJOR_MAX);
    (void)snprintf(why->hint, sizeof why->hint, "%s", cublaslt_library.install);
    return false;
}

/* Path, functions and version. */
static bool open_functions(cuda_gemm_library *library, const char *file, st_gpu_missing *why)
{
    void *dso = NULL;
    ST_NEED(st_gpu_open_library(&cublaslt_library, file, why, &dso, library->path));
    ST_NEED(st_gpu_fill_functions(&cublaslt_library, dso, library->path, cublaslt_names,
                                  sizeof cublaslt_names / sizeof cublaslt_names[0], &library->api,
                                  why));
    library->version = version_of(&library->api);
    return is_known(library, why);
}

static bool gemm_check(const char *file, st_gpu_missing *why)
{
    cuda_gemm_library library;
    memset(&library, 0, sizeof library);
    return open_functions(&library, file, why);
}

static const st_library *gemm_open(const char *file, st_gpu_context *context,
                                   const st_device_memory *memory, st_mem *mem,
                                   uint32_t *out_version, st_gpu_missing *why)
{
    cuda_gemm_library *library = st_calloc(mem, 1, sizeof *library);
    if (library == NULL) {
        *why = (st_gpu_missing){.reason = "no memory to open cuBLASLt"};
        return NULL;
    }
    if (!open_functions(library, file, why)) {
        st_free(mem, library);
        return NULL;
    }
    library->context = context;
    library->memory = memory;
    library->mem = mem;
    (void)pthread_mutex_init(&library->mutex, NULL);
    library->table = (st_library){.struct_size = sizeof library->table,
                                  .self = library,
                                  .takes = takes,
                                  .create = create,
                                  .run = run,
                                  .destroy = destroy,
                                  .op_save = op_save,
                                  .op_load = op_load};
    *out_version = library->version;
    return &library->table;
}

static void gemm_close(const st_library *table)
{
    cuda_gemm_library *library = table->self;
    st_gpu_scope scope;
    const stator_status entered = st_gpu_enter(library->context, &scope, NULL);
    /* A lost device's handle is still host memory to give back. A child of fork has no right to
     * its parent's, and where the driver has ended the library may have. */
    const bool is_ended = atomic_load(&library->context->lost) == ST_GPU_RESULT_DEINITIALIZED;
    if (library->handle != NULL && entered != STATOR_FAILED_PRECONDITION && !is_ended) {
        (void)library->api.destroy(library->handle);
    }
    if (entered == STATOR_OK) {
        (void)st_gpu_leave(library->context, &scope, ST_GPU_RESULT_SUCCESS, "closing cuBLASLt",
                           NULL);
    }
    (void)pthread_mutex_destroy(&library->mutex);
    st_free(library->mem, library);
}

const st_gpu_contractions cuda_cublaslt = {
    .option = "cublaslt", .check = gemm_check, .open = gemm_open, .close = gemm_close};
