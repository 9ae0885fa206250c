/* Threads on one device, the software one through cuda_soft: callers of one function with
 * tensors on the device and streams of their own, the application's streams, models compiled and
 * ended meanwhile, contexts that come and go, calls that fail beside calls that do not. Each
 * result is compared with what one thread computed. It is of the set that runs under tsan. */
#define _GNU_SOURCE
#include "api_check.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

enum { ROWS = 24, COLUMNS = 40, N = ROWS * COLUMNS, CALLERS = 8, ROUNDS = 12 };

static const char shared_text[] = "stir 1\n"
                                  "sym n in [1, 64]\n"
                                  "graph @main(%x: f32[n, 40]) {\n"
                                  "  %a = softmax(%x) {axis = 1}\n"
                                  "  %b = cumsum(%a) {axis = 0}\n"
                                  "  %c = add(%b, %x)\n"
                                  "  return %c\n"
                                  "}\n";
/* The index comes with the call; beyond 23 a check of the kernel fails. */
static const char checked_text[] = "stir 1\n"
                                   "graph @main(%x: f32[24, 40], %i: i64[2]) {\n"
                                   "  %y = gather(%x, %i) {axis = 0}\n"
                                   "  return %y\n"
                                   "}\n";

typedef struct job {
    stator_ctx *ctx;
    stator_function *shared, *checked;
    stator_tensor *on_device; /* read by all */
    void *stream;             /* the application's; NULL: none */
    int number;
} job;

static float values[N];
static float expected[N];

static stator_ctx *open_ctx(void)
{
    stator_ctx *ctx = NULL;
    const stator_ctx_options options = {.struct_size = sizeof options,
                                        .flags = STATOR_CTX_NO_CACHE};
    CHECK(stator_ctx_create(&options, &ctx) == STATOR_OK);
    return ctx;
}

static stator_function *compile_text(stator_ctx *ctx, const char *text)
{
    stator_model *model = load_text(ctx, text);
    stator_function *f = compile_for(ctx, model, "cuda_soft");
    stator_model_destroy(model);
    return f;
}

static stator_tensor *put_on_device(stator_ctx *ctx)
{
    static const int64_t shape[2] = {ROWS, COLUMNS};
    stator_tensor *host = tensor_2d(ctx, ROWS, COLUMNS, values);
    stator_tensor *tensor = NULL;
    CHECK_OK(ctx, stator_tensor_create_on(ctx, "cuda_soft:0", STATOR_F32, 2, shape, &tensor));
    CHECK_OK(ctx, stator_tensor_copy(ctx, tensor, host));
    stator_tensor_release(host);
    return tensor;
}

/* Reads a result, wherever it lies, and releases it. */
static void read_result(stator_ctx *ctx, stator_tensor *result, float *out)
{
    stator_tensor *host = tensor_2d(ctx, ROWS, COLUMNS, values);
    CHECK_OK(ctx, stator_tensor_copy(ctx, host, result));
    memcpy(out, stator_tensor_data(host), sizeof values);
    stator_tensor_release(host);
    stator_tensor_release(result);
}

static void expect(stator_ctx *ctx, stator_tensor *result)
{
    float got[N];
    read_result(ctx, result, got);
    CHECK(memcmp(got, expected, sizeof got) == 0);
}

/* ---- what the threads do ---- */

/* Tensors of the host and of the device by turns, on the caller's stream if it has one. */
static void *call_shared(void *self)
{
    const job *j = self;
    const stator_call_options options = {.struct_size = sizeof options, .stream = j->stream};
    for (int round = 0; round < ROUNDS; round++) {
        stator_tensor *host = tensor_2d(j->ctx, ROWS, COLUMNS, values);
        stator_tensor *in = (round + j->number) % 3 == 0 ? host : j->on_device;
        stator_tensor *out = NULL;
        CHECK_OK(j->ctx, stator_call_with(j->shared, 1, &in, 1, &out, &options));
        if (round % 4 == 1) {
            CHECK_OK(j->ctx, stator_function_wait(j->shared));
        }
        expect(j->ctx, out);
        stator_tensor_release(host);
    }
    return NULL;
}

/* Every other call has an index that is not there: it fails, and no other one does. */
static void *call_checked(void *self)
{
    static const int64_t shape[1] = {2};
    const job *j = self;
    for (int round = 0; round < ROUNDS; round++) {
        stator_tensor *in[2] = {tensor_2d(j->ctx, ROWS, COLUMNS, values), NULL};
        stator_tensor *out = NULL;
        CHECK_OK(j->ctx, stator_tensor_create(j->ctx, STATOR_I64, 1, shape, &in[1]));
        int64_t *indices = stator_tensor_data(in[1]);
        indices[0] = j->number;
        indices[1] = round % 2 == 0 ? 7 : 99;
        const stator_status status = stator_call_tensors(j->checked, 2, in, 1, &out);
        if (round % 2 == 0) {
            CHECK_OK(j->ctx, status);
            const float *got = stator_tensor_data(out);
            CHECK(got[1] == values[j->number * COLUMNS + 1] && got[COLUMNS] == values[7 * COLUMNS]);
        } else {
            CHECK(status == STATOR_OUT_OF_RANGE);
            CHECK(strstr(stator_ctx_error_text(j->ctx), "an index is outside its axis") != NULL);
        }
        stator_tensor_release(out);
        stator_tensor_release(in[0]);
        stator_tensor_release(in[1]);
    }
    return NULL;
}

/* A function of the thread's own, ended while its results are still to come. */
static void *compile_own(void *self)
{
    const job *j = self;
    for (int round = 0; round < ROUNDS / 4; round++) {
        stator_function *f = compile_text(j->ctx, shared_text);
        stator_tensor *in = j->on_device;
        stator_tensor *out = NULL;
        stator_device_stats stats = {.struct_size = sizeof stats};
        CHECK_OK(j->ctx, stator_call_tensors(f, 1, &in, 1, &out));
        stator_function_destroy(f);
        CHECK_OK(j->ctx, stator_ctx_device_stats(j->ctx, "cuda_soft:0", &stats));
        CHECK(stats.n_copies > 0);
        expect(j->ctx, out);
    }
    return NULL;
}

/* A context of the thread's own: the backend's device is opened and closed beside the others. */
static void *open_own(void *self)
{
    (void)self;
    for (int round = 0; round < ROUNDS / 4; round++) {
        stator_ctx *ctx = open_ctx();
        stator_function *f = compile_text(ctx, shared_text);
        stator_tensor *in = put_on_device(ctx);
        stator_tensor *out = NULL;
        CHECK_OK(ctx, stator_call_tensors(f, 1, &in, 1, &out));
        expect(ctx, out);
        stator_tensor_release(in);
        stator_function_destroy(f);
        stator_ctx_destroy(ctx);
    }
    return NULL;
}

/* ---- a tensor goes from thread to thread ---- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    stator_tensor *tensor;
} place = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void *make_results(void *self)
{
    const job *j = self;
    for (int round = 0; round < ROUNDS; round++) {
        stator_tensor *in = j->on_device;
        stator_tensor *out = NULL;
        CHECK_OK(j->ctx, stator_call_tensors(j->shared, 1, &in, 1, &out));
        (void)pthread_mutex_lock(&place.lock);
        while (place.tensor != NULL) {
            (void)pthread_cond_wait(&place.changed, &place.lock);
        }
        place.tensor = out;
        (void)pthread_cond_broadcast(&place.changed);
        (void)pthread_mutex_unlock(&place.lock);
    }
    return NULL;
}

static void *take_results(void *self)
{
    const job *j = self;
    for (int round = 0; round < ROUNDS; round++) {
        (void)pthread_mutex_lock(&place.lock);
        while (place.tensor == NULL) {
            (void)pthread_cond_wait(&place.changed, &place.lock);
        }
        stator_tensor *got = place.tensor;
        place.tensor = NULL;
        (void)pthread_cond_broadcast(&place.changed);
        (void)pthread_mutex_unlock(&place.lock);
        expect(j->ctx, got);
    }
    return NULL;
}

/* ---- streams of the application's ---- */

static int (*stream_create)(void **, unsigned);
static int (*stream_destroy)(void *);

static void bind(void *library, const char *name, void *out)
{
    void *found = dlsym(library, name);
    CHECK(found != NULL);
    memcpy(out, &found, sizeof found);
}

/* The primary context, which the backend has open, becomes this thread's. */
static void open_driver(void)
{
    int (*retain)(void **, int) = NULL;
    int (*release)(int) = NULL;
    int (*set)(void *) = NULL;
    void *context = NULL;
    void *library = dlopen(ST_TEST_BUILD "/tests/softgpu/libcuda.so.1", RTLD_NOW);
    CHECK(library != NULL);
    bind(library, "cuDevicePrimaryCtxRetain", &retain);
    bind(library, "cuDevicePrimaryCtxRelease_v2", &release);
    bind(library, "cuCtxSetCurrent", &set);
    bind(library, "cuStreamCreate", &stream_create);
    bind(library, "cuStreamDestroy_v2", &stream_destroy);
    CHECK(retain(&context, 0) == 0 && release(0) == 0 && set(context) == 0);
}

int main(void)
{
    static void *(*const work[])(void *) = {call_shared,  call_checked, compile_own,
                                            open_own,     make_results, take_results,
                                            call_checked, compile_own,  open_own};
    enum { OTHERS = sizeof work / sizeof work[0] };
    pthread_t threads[CALLERS + OTHERS];
    job jobs[CALLERS + OTHERS];
    if (access(ST_TEST_BUILD "/tests/softgpu/libcuda.so.1", F_OK) != 0) {
        (void)puts("this build is without the software device");
        return 0;
    }
    CHECK(setenv("STATOR_SOFT_DEVICE", "1", 1) == 0);
    for (int i = 0; i < N; i++) {
        values[i] = (float)((i * 7) % 23) * 0.25f - 2.0f;
    }
    stator_ctx *ctx = open_ctx();
    job all = {.ctx = ctx,
               .shared = compile_text(ctx, shared_text),
               .checked = compile_text(ctx, checked_text),
               .on_device = put_on_device(ctx)};
    stator_tensor *first = NULL;
    CHECK_OK(ctx, stator_call_tensors(all.shared, 1, &all.on_device, 1, &first));
    read_result(ctx, first, expected);
    open_driver();
    for (int i = 0; i < CALLERS + OTHERS; i++) {
        jobs[i] = all;
        jobs[i].number = i;
        if (i < CALLERS && i % 2 == 0) {
            CHECK(stream_create(&jobs[i].stream, 1) == 0);
        }
        CHECK(pthread_create(&threads[i], NULL, i < CALLERS ? call_shared : work[i - CALLERS],
                             &jobs[i]) == 0);
    }
    for (int i = 0; i < CALLERS + OTHERS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    stator_tensor_release(all.on_device);
    stator_function_destroy(all.shared); /* waits for its calls: their streams may end then */
    stator_function_destroy(all.checked);
    for (int i = 0; i < CALLERS; i++) {
        CHECK(jobs[i].stream == NULL || stream_destroy(jobs[i].stream) == 0);
    }
    stator_ctx_destroy(ctx);
    return 0;
}
