/* Calls that fail when they have returned, on the software device: an index out of range is seen
 * by the kernel, and told to whoever uses the result, by whatever way it comes: a wait, a copy
 * to the host or to another place, a call that takes it, on the same stream or another, or the
 * calls behind that one. Nobody gets numbers. Results of other calls are right, and a chain of
 * calls that go well waits for nothing. */
#define _GNU_SOURCE
#include "soft_driver.h"

enum { ROWS = 3, COLUMNS = 3, N = ROWS * COLUMNS, OK_INDEX = 1, BAD_INDEX = 9, STREAMS = 6 };

static const char rows_text[] = "stir 1\n"
                                "graph @main(%x: f32[3, 3], %i: i64[3]) {\n"
                                "  %y = gather(%x, %i) {axis = 0}\n"
                                "  return %y\n"
                                "}\n";
static const char twice_text[] = "stir 1\n"
                                 "graph @main(%x: f32[3, 3]) {\n"
                                 "  %y = add(%x, %x)\n"
                                 "  return %y\n"
                                 "}\n";
/* No device has det: eager is in the middle, and the device goes on behind it. */
static const char middle_text[] = "stir 1\n"
                                  "graph @main(%x: f32[3, 3]) {\n"
                                  "  %d = det(%x)\n"
                                  "  %y = mul(%x, %d)\n"
                                  "  return %y\n"
                                  "}\n";
static const char rows_and_middle_text[] = "stir 1\n"
                                           "graph @main(%x: f32[3, 3], %i: i64[3]) {\n"
                                           "  %g = gather(%x, %i) {axis = 0}\n"
                                           "  %d = det(%g)\n"
                                           "  %y = mul(%g, %d)\n"
                                           "  return %y\n"
                                           "}\n";
static const char step_text[] = "stir 1\n"
                                "graph @main(%p: f32[3, 3], %g: f32[3, 3]) {\n"
                                "  %q = sub(%p, %g)\n"
                                "  %w = assign(%p, %q)\n"
                                "  return %g\n"
                                "}\n";
static const char sum_text[] = "stir 1\n"
                               "graph @main(%a: f32[3, 3], %b: f32[3, 3], %c: f32[3, 3],\n"
                               "            %d: f32[3, 3], %e: f32[3, 3], %f: f32[3, 3]) {\n"
                               "  %1 = add(%a, %b)\n"
                               "  %2 = add(%c, %d)\n"
                               "  %3 = add(%e, %f)\n"
                               "  %4 = add(%1, %2)\n"
                               "  %5 = add(%3, %4)\n"
                               "  return %5\n"
                               "}\n";
static const char branch_text[] = "stir 1\n"
                                  "graph @main(%x: f32[3, 3]) {\n"
                                  "  %s = reduce_sum(%x) {axes = [0, 1], keepdims = 0}\n"
                                  "  %z = constant {value = f32[] {0}}\n"
                                  "  %p = lt(%s, %z)\n"
                                  "  %y = cond(%p, %x) {}\n"
                                  "    region @then(%v: f32[3, 3]) {\n"
                                  "      %n = neg(%v)\n"
                                  "      return %n\n"
                                  "    }\n"
                                  "    region @else(%v: f32[3, 3]) {\n"
                                  "      %m = add(%v, %v)\n"
                                  "      return %m\n"
                                  "    }\n"
                                  "  return %y\n"
                                  "}\n";

static const float values[N] = {1, 2, 3, 4, 5, 6, 7, 8, 10};

static struct world {
    const char *backend;
    char device[2][32];
    stator_ctx *ctx;
    stator_function *rows, *twice;
    stator_tensor *x;
    stator_tensor *index[2]; /* right, and out of range */
    handle stream, other_stream;
} w;

/* ---- helpers ---- */

static stator_function *compile(const char *text, uint32_t verify, const char *device)
{
    stator_model *model = load_text(w.ctx, text);
    const stator_compile_options options = {
        .struct_size = sizeof options, .backend = w.backend, .device = device, .verify = verify};
    stator_function *f = NULL;
    CHECK_OK(w.ctx, stator_compile(model, &options, &f));
    stator_model_destroy(model);
    return f;
}

static stator_tensor *on(const char *device, const DLTensor *like, stator_dtype dtype)
{
    stator_tensor *tensor = NULL;
    CHECK_OK(w.ctx, stator_tensor_create_on(w.ctx, device, dtype, (uint32_t)like->ndim, like->shape,
                                            &tensor));
    return tensor;
}

static stator_tensor *numbers_on(const char *device)
{
    stator_tensor *host = tensor_2d(w.ctx, ROWS, COLUMNS, values);
    stator_tensor *tensor = on(device, stator_tensor_view(host), STATOR_F32);
    CHECK_OK(w.ctx, stator_tensor_copy(w.ctx, tensor, host));
    stator_tensor_release(host);
    return tensor;
}

static stator_tensor *index_of(int64_t last)
{
    static const int64_t shape[1] = {ROWS};
    stator_tensor *host = NULL;
    CHECK_OK(w.ctx, stator_tensor_create(w.ctx, STATOR_I64, 1, shape, &host));
    int64_t *at = stator_tensor_data(host);
    at[0] = 0;
    at[1] = 2;
    at[2] = last;
    stator_tensor *tensor = on(w.device[0], stator_tensor_view(host), STATOR_I64);
    CHECK_OK(w.ctx, stator_tensor_copy(w.ctx, tensor, host));
    stator_tensor_release(host);
    return tensor;
}

static stator_status call(stator_function *f, uint32_t n, stator_tensor *const *in, handle stream,
                          stator_tensor **out)
{
    const stator_call_options options = {.struct_size = sizeof options, .stream = stream};
    return stator_call_with(f, n, in, 1, out, &options);
}

/* A result whose call fails late (is_bad), or not. */
static stator_tensor *rows_on(bool is_bad, handle stream)
{
    stator_tensor *in[2] = {w.x, w.index[is_bad]};
    stator_tensor *out = NULL;
    CHECK_OK(w.ctx, call(w.rows, 2, in, stream, &out));
    return out;
}

static stator_tensor *bad_rows(void)
{
    return rows_on(true, NULL);
}

static void expect_told(stator_status status)
{
    const char *said = stator_ctx_error_text(w.ctx);
    if (status != STATOR_OUT_OF_RANGE || strstr(said, "gather") == NULL ||
        strstr(said, "an index is outside its axis (in call ") == NULL) {
        (void)fprintf(stderr, "%s: status %d says '%s'\n", w.backend, (int)status, said);
        abort();
    }
}

static stator_status read_rows(stator_tensor *tensor, float *out)
{
    stator_tensor *host = tensor_2d(w.ctx, ROWS, COLUMNS, values);
    const stator_status status = stator_tensor_copy(w.ctx, host, tensor);
    memcpy(out, stator_tensor_data(host), sizeof values);
    stator_tensor_release(host);
    return status;
}

/* No numbers come out of it, however often they are asked for; it is released. */
static void expect_bad(stator_tensor *tensor)
{
    float got[N];
    for (int i = 0; i < 2; i++) {
        expect_told(read_rows(tensor, got));
        expect_told(stator_tensor_wait(w.ctx, tensor));
    }
    stator_tensor_release(tensor);
}

/* Row k is row at[k] of the values, times the factor; it is released. */
static void expect_rows(stator_tensor *tensor, int last, float factor)
{
    const int at[ROWS] = {0, 2, last};
    float got[N];
    CHECK_OK(w.ctx, read_rows(tensor, got));
    for (int i = 0; i < N; i++) {
        CHECK(got[i] == factor * values[at[i / COLUMNS] * COLUMNS + i % COLUMNS]);
    }
    stator_tensor_release(tensor);
}

static uint64_t waits(void)
{
    stator_device_stats stats = {.struct_size = sizeof stats};
    CHECK_OK(w.ctx, stator_ctx_device_stats(w.ctx, w.device[0], &stats));
    return stats.n_waits;
}

/* ---- by which ways ---- */

static void check_reads(void)
{
    float got[N];
    stator_tensor *bad = bad_rows();
    expect_told(read_rows(bad, got)); /* nobody has waited before */
    expect_bad(bad);
    bad = bad_rows();
    expect_told(stator_tensor_wait(w.ctx, bad));
    expect_bad(bad);

    bad = bad_rows();
    expect_told(stator_function_wait(w.rows));
    CHECK_OK(w.ctx, stator_function_wait(w.rows));
    expect_bad(bad);
}

/* A copy on the device goes the way of what is copied, until something else is written there. */
static void check_copies(void)
{
    stator_tensor *bad = bad_rows();
    stator_tensor *copy = numbers_on(w.device[0]);
    stator_tensor *elsewhere = numbers_on(w.device[1]);
    CHECK_OK(w.ctx, stator_tensor_copy(w.ctx, copy, bad));
    expect_told(stator_tensor_copy(w.ctx, elsewhere, bad));
    expect_told(stator_tensor_copy(w.ctx, elsewhere, copy));
    expect_told(stator_tensor_copy(w.ctx, elsewhere, bad));
    stator_tensor_retain(copy);
    expect_bad(copy);
    stator_tensor *good = rows_on(false, NULL);
    CHECK_OK(w.ctx, stator_tensor_copy(w.ctx, copy, good));
    expect_rows(copy, OK_INDEX, 1);
    CHECK_OK(w.ctx, stator_tensor_copy(w.ctx, elsewhere, good));
    expect_rows(elsewhere, OK_INDEX, 1);
    stator_tensor_release(good);
    expect_bad(bad);
}

/* As a result that a call writes where another one failed. */
static void check_given_results(void)
{
    stator_tensor *bad = bad_rows();
    stator_tensor *in[2] = {w.x, w.index[0]};
    CHECK_OK(w.ctx, call(w.rows, 2, in, NULL, &bad));
    expect_rows(bad, OK_INDEX, 1);
    bad = rows_on(false, NULL);
    in[1] = w.index[1];
    CHECK_OK(w.ctx, call(w.rows, 2, in, NULL, &bad));
    expect_bad(bad);
}

/* Through capsules, and with strides. */
static void check_capsules(void)
{
    static int64_t strides[2] = {1, COLUMNS};
    DLManagedTensorVersioned *capsule = NULL;
    stator_tensor *bad = rows_on(true, w.stream);
    CHECK(stator_tensor_to_dlpack_on(bad, w.stream, &capsule) == STATOR_OK);
    capsule->dl_tensor.strides = strides;
    stator_tensor *turned = NULL;
    CHECK_OK(w.ctx, stator_tensor_from_dlpack_on(w.ctx, capsule, w.stream, &turned));
    stator_tensor *dense = numbers_on(w.device[0]);
    stator_tensor *out = NULL;
    CHECK_OK(w.ctx, stator_tensor_copy(w.ctx, dense, turned));
    CHECK_OK(w.ctx, call(w.twice, 1, &turned, NULL, &out));
    expect_bad(out);
    expect_bad(dense);
    expect_bad(turned);
    expect_told(stator_tensor_to_dlpack_on(bad, w.stream, &capsule));
    expect_told(stator_tensor_to_dlpack(bad, &capsule));
    stator_tensor_release(bad);
    bad = bad_rows();
    expect_told(stator_tensor_to_dlpack(bad, &capsule));
    CHECK(capsule == NULL);
    expect_bad(bad);
}

/* Calls that take it, and calls that take what those have made. */
static void check_chains(void)
{
    const handle streams[] = {NULL, w.stream, w.other_stream};
    for (int first = 0; first < 3; first++) {
        for (int second = 0; second < 3; second++) {
            stator_tensor *chain[3] = {rows_on(true, streams[first]), NULL, NULL};
            stator_tensor *good = rows_on(false, streams[first]);
            const uint64_t before = waits();
            CHECK_OK(w.ctx, call(w.twice, 1, &chain[0], streams[second], &chain[1]));
            CHECK_OK(w.ctx, call(w.twice, 1, &chain[1], streams[first], &chain[2]));
            CHECK(waits() == before);
            expect_bad(chain[2]);
            stator_tensor *out = NULL;
            expect_told(call(w.twice, 1, &chain[0], streams[second], &out)); /* it is known now */
            CHECK(out == NULL);
            expect_bad(chain[1]);
            expect_bad(chain[0]);
            expect_rows(good, OK_INDEX, 1);
        }
    }
}

/* Functions that need the host: the call itself fails. */
static void check_hosts(void)
{
    static const char *const texts[] = {middle_text, branch_text};
    for (int i = 0; i < 2; i++) {
        stator_function *f = compile(texts[i], 0, NULL);
        for (int k = 0; k < 2; k++) {
            stator_tensor *bad = bad_rows();
            stator_tensor *out = NULL;
            expect_told(call(f, 1, &bad, k == 0 ? NULL : w.stream, &out));
            CHECK(out == NULL);
            expect_bad(bad);
        }
        stator_tensor *good = rows_on(false, NULL);
        stator_tensor *out = NULL;
        CHECK_OK(w.ctx, call(f, 1, &good, NULL, &out));
        stator_tensor_release(out);
        stator_tensor_release(good);
        stator_function_destroy(f);
    }

    stator_tensor *bad = bad_rows();
    stator_tensor *out = NULL;
    const stator_call_options options = {.struct_size = sizeof options,
                                         .outputs = STATOR_OUTPUTS_HOST};
    expect_told(stator_call_with(w.twice, 1, &bad, 1, &out, &options));
    CHECK(out == NULL);
    stator_tensor_release(bad);

    stator_function *f = compile(rows_and_middle_text, 0, NULL);
    stator_tensor *in[2] = {w.x, w.index[1]};
    expect_told(call(f, 2, in, NULL, &out));
    CHECK(out == NULL);
    in[1] = w.index[0];
    CHECK_OK(w.ctx, call(f, 2, in, NULL, &out));
    stator_tensor_release(out);
    stator_function_destroy(f);
}

/* Functions of another backend or device, for which it comes through the host. */
static void check_elsewhere(void)
{
    stator_model *model = load_text(w.ctx, twice_text);
    stator_function *others[2] = {compile_for(w.ctx, model, "eager"),
                                  compile(twice_text, 0, w.device[1])};
    for (int i = 0; i < 2; i++) {
        stator_tensor *bad = bad_rows();
        stator_tensor *out = NULL;
        expect_told(call(others[i], 1, &bad, NULL, &out));
        CHECK(out == NULL);
        expect_bad(bad);
        stator_function_destroy(others[i]);
    }
    stator_model_destroy(model);
    stator_function *verified = compile(twice_text, 2, NULL);
    stator_tensor *bad = bad_rows();
    stator_tensor *out = NULL;
    expect_told(call(verified, 1, &bad, NULL, &out));
    expect_bad(bad);
    stator_function_destroy(verified);
}

/* What the caller holds: a bound call, and a result that outlives its function. */
static void check_holders(void)
{
    stator_tensor *bad = bad_rows();
    stator_tensor *out = NULL;
    stator_bound_call *bound = NULL;
    CHECK_OK(w.ctx, stator_bind(w.twice, 1, &bad, 1, &out, &bound));
    expect_told(stator_tensor_wait(w.ctx, out));
    expect_told(stator_bound_call_run(bound));
    stator_tensor *good = rows_on(false, NULL);
    CHECK_OK(w.ctx, stator_tensor_copy(w.ctx, bad, good));
    CHECK_OK(w.ctx, stator_bound_call_run(bound));
    expect_rows(out, OK_INDEX, 2);
    stator_bound_call_destroy(bound);
    stator_tensor_release(good);
    stator_tensor_release(bad);

    stator_function *rows = compile(rows_text, 0, NULL);
    stator_tensor *in[2] = {w.x, w.index[1]};
    stator_tensor *left = NULL;
    CHECK_OK(w.ctx, call(rows, 2, in, NULL, &left));
    stator_function_destroy(rows);
    expect_bad(left);
}

/* A step that writes its input with a bad value: nobody reads what it has left there. */
static void check_written(void)
{
    stator_function *step = compile(step_text, 0, NULL);
    stator_tensor *in[2] = {numbers_on(w.device[0]), bad_rows()};
    stator_tensor *out = NULL;
    CHECK_OK(w.ctx, call(step, 2, in, NULL, &out));
    expect_bad(out);
    stator_tensor_retain(in[0]);
    expect_bad(in[0]);
    CHECK_OK(w.ctx, stator_tensor_copy(w.ctx, in[0], w.x));
    float got[N];
    CHECK_OK(w.ctx, read_rows(in[0], got));
    CHECK(memcmp(got, values, sizeof got) == 0);
    out = NULL;
    expect_told(call(step, 2, in, NULL, &out)); /* known: it is not begun */
    CHECK_OK(w.ctx, read_rows(in[0], got));
    CHECK(memcmp(got, values, sizeof got) == 0);
    stator_tensor_release(in[0]);
    stator_tensor_release(in[1]);
    stator_function_destroy(step);
}

/* ---- what is right ---- */

/* Others of the same function and stream, before and behind. */
static void check_neighbours(void)
{
    const handle streams[] = {NULL, w.stream};
    for (int i = 0; i < 2; i++) {
        stator_tensor *results[9];
        for (int k = 0; k < 9; k++) {
            results[k] = rows_on(k % 3 == 1, streams[i]);
        }
        for (int k = 8; k >= 0; k--) {
            if (k % 3 == 1) {
                expect_bad(results[k]);
            } else {
                expect_rows(results[k], OK_INDEX, 1);
            }
        }
    }
}

/* More failures than a stream keeps: none is lost. */
static void check_many(void)
{
    enum { MANY = 50 };
    stator_tensor *results[MANY];
    for (int k = 0; k < MANY; k++) {
        results[k] = rows_on(true, w.stream);
    }
    for (int k = 0; k < MANY; k++) {
        expect_bad(results[k]);
    }
    expect_rows(rows_on(false, w.stream), OK_INDEX, 1);
}

/* Results of more streams than a tensor remembers one by one. */
static void check_many_streams(void)
{
    handle streams[STREAMS];
    stator_status status = STATOR_OK;
    stator_function *sum = compile(sum_text, 0, NULL);
    for (int i = 0; i < STREAMS; i++) {
        streams[i] = new_stream(0);
    }
    for (int bad = -1; bad < STREAMS; bad++) {
        stator_tensor *in[STREAMS];
        stator_tensor *out = NULL;
        for (int i = 0; i < STREAMS; i++) {
            in[i] = rows_on(i == bad, streams[i]);
        }
        CHECK_OK(w.ctx, call(sum, STREAMS, in, NULL, &out));
        if (bad < 0) {
            expect_rows(out, OK_INDEX, STREAMS);
        } else {
            expect_bad(out);
        }
        for (int i = 0; i < STREAMS; i++) {
            stator_tensor_release(in[i]);
        }
    }
    stator_function_destroy(sum);
    while ((status = stator_function_wait(w.rows)) != STATOR_OK) {
        expect_told(status); /* of a result that was written over before anybody asked */
    }
    for (int i = 0; i < STREAMS; i++) {
        CHECK(cu.stream_destroy(streams[i]) == 0);
    }
}

/* A chain of calls that may all fail waits for nothing, and its end is right. */
static void check_waits(void)
{
    stator_tensor *x = rows_on(false, NULL);
    const uint64_t before = waits();
    for (int i = 0; i < 100; i++) {
        stator_tensor *in[2] = {x, w.index[0]};
        stator_tensor *out = NULL;
        CHECK_OK(w.ctx, call(w.rows, 2, in, i % 3 == 0 ? w.stream : NULL, &out));
        stator_tensor_release(x);
        x = out;
    }
    CHECK(waits() == before);
    float got[N];
    CHECK_OK(w.ctx, read_rows(x, got));
    CHECK(waits() == before + 1);
    CHECK(memcmp(got, values, COLUMNS * sizeof *values) == 0);
    stator_tensor_release(x);
}

static void check_backend(const char *backend)
{
    static void (*const checks[])(void) = {
        check_reads, check_copies,       check_given_results, check_capsules, check_chains,
        check_hosts, check_elsewhere,    check_holders,       check_written,  check_neighbours,
        check_many,  check_many_streams, check_waits};
    const stator_ctx_options options = {.struct_size = sizeof options,
                                        .flags = STATOR_CTX_NO_CACHE};
    w = (struct world){.backend = backend};
    CHECK(stator_ctx_create(&options, &w.ctx) == STATOR_OK);
    for (int i = 0; i < 2; i++) {
        (void)snprintf(w.device[i], sizeof w.device[i], "%s:%d", backend, i);
    }
    w.rows = compile(rows_text, 0, NULL);
    w.twice = compile(twice_text, 0, NULL);
    w.x = numbers_on(w.device[0]);
    w.index[0] = index_of(OK_INDEX);
    w.index[1] = index_of(BAD_INDEX);
    w.stream = new_stream(0);
    w.other_stream = new_stream(0);
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        checks[i]();
    }
    stator_tensor_release(w.x);
    stator_tensor_release(w.index[0]);
    stator_tensor_release(w.index[1]);
    stator_function_destroy(w.rows);
    stator_function_destroy(w.twice);
    CHECK(cu.stream_destroy(w.stream) == 0 && cu.stream_destroy(w.other_stream) == 0);
    stator_ctx_destroy(w.ctx);
}

int main(void)
{
    if (access(SOFT_DRIVER, F_OK) != 0) {
        (void)puts("this build is without the software device");
        return 0;
    }
    CHECK(setenv("STATOR_SOFT_DEVICE", "1", 1) == 0);
    CHECK(setenv("STATOR_SOFT_DEVICES", "2", 1) == 0);
    open_driver();
    check_backend("cuda_soft");
    if (access(ST_TEST_BUILD "/tests/softgpu/libamdhip64.so.6", F_OK) == 0) {
        check_backend("hip_soft");
    }
    return 0;
}
