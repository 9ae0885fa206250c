/* Times one graph on a backend with tensors that stay where the backend computes.
 *
 *     gpu_bench GRAPH [--backend cuda] [--device cuda:0] [--option KEY=VALUE]... [--seed 1]
 *               [--integers 100] [--calls 100] [--rounds 5] [--bits N] [--ask]
 *
 * GRAPH is a .stir or .onnx whose sizes are numbers. The inputs are made from the seed: uniform in
 * [-1, 1) for floats, 0 to 99 (or below what --integers says) for integers. They are
 * copied to the device once; outputs are written again at every call. A round is so many calls one
 * behind the other and a wait for the last; its time divided by the calls is the time of a call.
 * With --ask a round is run for each number read from standard input, which says how many calls,
 * and its milliseconds are answered on a line: another program takes turns with this one.
 * --bits N: afterwards N calls more, each judged by the bits of all outputs.
 * The last line is JSON: times in milliseconds, bytes of inputs and outputs, copies and waits of a
 * call, a hash of the outputs. Status 3 and a sentence on failure. */
#define _GNU_SOURCE
#include <stator/stator.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TENSORS_MAX = 16, OPTIONS_MAX = 16, ROUNDS_MAX = 1000, WARM_CALLS = 3 };

typedef struct settings {
    const char *graph;
    const char *backend;
    const char *device;
    const char *keys[OPTIONS_MAX];
    const char *values[OPTIONS_MAX];
    uint32_t n_options;
    uint64_t seed;
    uint64_t integers; /* inputs of integers are below */
    uint32_t calls;
    uint32_t rounds;
    uint32_t bits; /* calls whose results are compared bit by bit */
    bool ask;
} settings;

typedef struct subject {
    stator_ctx *ctx;
    stator_model *model;
    stator_function *function;
    stator_tensor *in[TENSORS_MAX];
    stator_tensor *out[TENSORS_MAX];
    uint32_t n_in, n_out;
    uint64_t bytes_in, bytes_out;
    double first_ms; /* the first call, which compiles */
} subject;

static double now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* ---- inputs ---- */

static uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* A float's upper 16 bits, rounded to nearest even: bf16. */
static uint16_t bf16_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

static void put_element(stator_dtype dtype, void *data, uint64_t i, uint64_t random,
                        uint64_t integers)
{
    const double unit = (double)(random >> 11) * 0x1p-52 - 1.0; /* [-1, 1) */
    switch (dtype) {
    case STATOR_F64:
        ((double *)data)[i] = unit;
        return;
    case STATOR_F32:
        ((float *)data)[i] = (float)unit;
        return;
    case STATOR_BF16:
        ((uint16_t *)data)[i] = bf16_of((float)unit);
        return;
    case STATOR_F16:
        ((_Float16 *)data)[i] = (_Float16)unit;
        return;
    case STATOR_I64:
        ((int64_t *)data)[i] = (int64_t)(random % integers);
        return;
    case STATOR_I32:
        ((int32_t *)data)[i] = (int32_t)(random % integers);
        return;
    default:
        return;
    }
}

static bool is_made(stator_dtype dtype)
{
    return dtype == STATOR_F64 || dtype == STATOR_F32 || dtype == STATOR_BF16 ||
           dtype == STATOR_F16 || dtype == STATOR_I64 || dtype == STATOR_I32;
}

static void fill(stator_tensor *tensor, uint64_t seed, uint64_t integers)
{
    enum { CHUNK = 1 << 16 };
    const stator_dtype dtype = stator_tensor_dtype(tensor);
    const DLTensor *view = stator_tensor_view(tensor);
    void *data = stator_tensor_data(tensor);
    int64_t n = 1;
    for (int32_t d = 0; d < view->ndim; d++) {
        n *= view->shape[d];
    }
    /* Chunks have seeds of their own: the values do not depend on the number of threads. */
#pragma omp parallel for
    for (int64_t chunk = 0; chunk < (n + CHUNK - 1) / CHUNK; chunk++) {
        const int64_t end = (chunk + 1) * CHUNK < n ? (chunk + 1) * CHUNK : n;
        uint64_t state = seed * 0x2545f4914f6cdd1du + (uint64_t)chunk;
        state = next_random(&state);
        for (int64_t i = chunk * CHUNK; i < end; i++) {
            put_element(dtype, data, (uint64_t)i, next_random(&state), integers);
        }
    }
}

/* An input: filled on the host, then on the device. */
static stator_status make_input(const settings *s, subject *b, uint32_t index)
{
    stator_port_info port = {.struct_size = sizeof port};
    stator_tensor *host = NULL;
    stator_status status = stator_model_input_info(b->model, index, &port);
    if (status == STATOR_OK && !is_made(port.dtype)) {
        (void)fprintf(stderr, "gpu_bench: input '%s' has a dtype that is not made here\n",
                      port.name);
        return STATOR_UNSUPPORTED;
    }
    if (status == STATOR_OK) {
        status = stator_tensor_create(b->ctx, port.dtype, port.rank, port.dims, &host);
    }
    if (status == STATOR_OK) {
        fill(host, s->seed + index, s->integers);
        status = stator_tensor_create_on(b->ctx, s->device, port.dtype, port.rank, port.dims,
                                         &b->in[index]);
    }
    if (status == STATOR_OK) {
        status = stator_tensor_copy(b->ctx, b->in[index], host);
        b->bytes_in += stator_tensor_size_bytes(host);
    }
    if (status == STATOR_OK) {
        status = stator_tensor_wait(b->ctx, b->in[index]);
    }
    stator_tensor_release(host);
    return status;
}

/* ---- calls ---- */

/* All outputs are made by the last of the calls. */
static stator_status call(subject *b, uint32_t calls, double *out_ms)
{
    stator_status status = STATOR_OK;
    const double start = now_ms();
    for (uint32_t i = 0; i < calls && status == STATOR_OK; i++) {
        status = stator_call_tensors(b->function, b->n_in, b->in, b->n_out, b->out);
    }
    for (uint32_t k = 0; k < b->n_out && status == STATOR_OK; k++) {
        status = stator_tensor_wait(b->ctx, b->out[k]);
    }
    *out_ms = now_ms() - start;
    return status;
}

static stator_status prepare(const settings *s, subject *b)
{
    const stator_compile_options options = {.struct_size = sizeof options,
                                            .backend = s->backend,
                                            .device = s->device,
                                            .option_keys = s->keys,
                                            .option_values = s->values,
                                            .option_count = s->n_options};
    stator_status status = stator_model_load(b->ctx, s->graph, NULL, &b->model);
    if (status != STATOR_OK) {
        return status;
    }
    b->n_in = stator_model_input_count(b->model);
    b->n_out = stator_model_output_count(b->model);
    if (b->n_in > TENSORS_MAX || b->n_out > TENSORS_MAX) {
        (void)fprintf(stderr, "gpu_bench: %u inputs and %u outputs; at most %d of each\n", b->n_in,
                      b->n_out, TENSORS_MAX);
        return STATOR_UNSUPPORTED;
    }
    status = stator_compile(b->model, &options, &b->function);
    for (uint32_t k = 0; k < b->n_in && status == STATOR_OK; k++) {
        status = make_input(s, b, k);
    }
    if (status == STATOR_OK) {
        status = call(b, 1, &b->first_ms);
    }
    for (uint32_t k = 0; k < b->n_out && status == STATOR_OK; k++) {
        b->bytes_out += stator_tensor_size_bytes(b->out[k]);
    }
    double warm_ms;
    return status == STATOR_OK ? call(b, WARM_CALLS, &warm_ms) : status;
}

/* ---- bits ---- */

static uint64_t hash_bytes(const void *data, uint64_t n, uint64_t hash)
{
    const uint8_t *bytes = data;
    uint64_t i = 0;
    for (; i + 8u <= n; i += 8u) {
        uint64_t word;
        memcpy(&word, bytes + i, sizeof word);
        hash = (hash ^ word) * 0x9fb21c651e98df25u;
        hash ^= hash >> 29;
    }
    for (; i < n; i++) {
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    }
    return hash;
}

static stator_status hash_outputs(subject *b, uint64_t *out_hash)
{
    stator_status status = STATOR_OK;
    uint64_t hash = 0xcbf29ce484222325u;
    for (uint32_t k = 0; k < b->n_out && status == STATOR_OK; k++) {
        const DLTensor *view = stator_tensor_view(b->out[k]);
        stator_tensor *host = NULL;
        status = stator_tensor_create(b->ctx, stator_tensor_dtype(b->out[k]), (uint32_t)view->ndim,
                                      view->shape, &host);
        if (status == STATOR_OK) {
            status = stator_tensor_copy(b->ctx, host, b->out[k]);
        }
        if (status == STATOR_OK) {
            hash = hash_bytes(stator_tensor_data(host), stator_tensor_size_bytes(host), hash);
        }
        stator_tensor_release(host);
    }
    *out_hash = hash;
    return status;
}

/* How many of so many calls leave other bits than the last call before. */
static stator_status count_changes(subject *b, uint32_t calls, uint64_t *out_hash,
                                   uint32_t *out_changes)
{
    stator_status status = hash_outputs(b, out_hash);
    *out_changes = 0;
    for (uint32_t i = 0; i < calls && status == STATOR_OK; i++) {
        double ms;
        uint64_t hash = 0;
        status = call(b, 1, &ms);
        if (status == STATOR_OK) {
            status = hash_outputs(b, &hash);
        }
        *out_changes += status == STATOR_OK && hash != *out_hash;
    }
    return status;
}

/* ---- rounds ---- */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Rounds as they are asked for, until the input ends. */
static stator_status answer_rounds(subject *b, double *ms, uint32_t *out_n)
{
    stator_status status = STATOR_OK;
    char line[64];
    uint32_t n = 0;
    (void)printf("ready %.6f\n", b->first_ms);
    (void)fflush(stdout);
    while (status == STATOR_OK && n < ROUNDS_MAX && fgets(line, sizeof line, stdin) != NULL) {
        const long calls = strtol(line, NULL, 10);
        if (calls < 1) {
            break;
        }
        status = call(b, (uint32_t)calls, &ms[n]);
        ms[n] /= (double)calls;
        if (status == STATOR_OK) {
            (void)printf("%.6f\n", ms[n++]);
            (void)fflush(stdout);
        }
    }
    *out_n = n;
    return status;
}

static stator_status run_rounds(const settings *s, subject *b, double *ms, uint32_t *out_n)
{
    stator_status status = STATOR_OK;
    if (s->ask) {
        return answer_rounds(b, ms, out_n);
    }
    for (uint32_t i = 0; i < s->rounds && status == STATOR_OK; i++) {
        status = call(b, s->calls, &ms[i]);
        ms[i] /= s->calls;
    }
    *out_n = s->rounds;
    return status;
}

static stator_status measure(const settings *s, subject *b)
{
    static double ms[ROUNDS_MAX];
    uint32_t n = 0;
    uint32_t changes = 0;
    uint64_t hash = 0;
    stator_copy_info copies = {.struct_size = sizeof copies};
    stator_coverage parts[8];
    stator_status status = run_rounds(s, b, ms, &n);
    if (status == STATOR_OK) {
        status = stator_function_copies(b->function, &copies);
    }
    if (status == STATOR_OK) {
        status = count_changes(b, s->bits, &hash, &changes);
    }
    if (status != STATOR_OK) {
        return status;
    }
    qsort(ms, n, sizeof *ms, by_value);
    const uint32_t n_parts = stator_function_coverage(b->function, 8, parts);
    const char *device = b->n_out > 0 ? stator_tensor_device(b->out[0]) : "";
    (void)printf("{\"device\": \"%s\", \"ms\": %.6f, \"min_ms\": %.6f, \"rounds\": %u, "
                 "\"first_ms\": %.3f, \"compile_ms\": %.3f, \"bytes_in\": %" PRIu64
                 ", \"bytes_out\": %" PRIu64 ", \"copies\": %u, \"waits\": %u, "
                 "\"bits\": \"%016" PRIx64 "\", \"bit_calls\": %u, \"bit_changes\": %u, "
                 "\"parts\": {",
                 device, n > 0 ? ms[n / 2] : 0.0, n > 0 ? ms[0] : 0.0, n, b->first_ms,
                 (double)stator_function_compile_ns(b->function) * 1e-6, b->bytes_in, b->bytes_out,
                 copies.n_copies, copies.n_waits, hash, s->bits, changes);
    for (uint32_t i = 0; i < n_parts && i < 8; i++) {
        (void)printf("%s\"%s\": %u", i > 0 ? ", " : "", parts[i].backend, parts[i].nodes);
    }
    (void)printf("}}\n");
    return STATOR_OK;
}

/* ---- the command ---- */

static bool read_number(const char *text, uint64_t most, uint64_t *out)
{
    char *end = NULL;
    *out = strtoull(text, &end, 10);
    return end != text && *end == '\0' && *out <= most;
}

static bool read_option(settings *s, char *text)
{
    char *sign = strchr(text, '=');
    if (sign == NULL || s->n_options == OPTIONS_MAX) {
        return false;
    }
    *sign = '\0';
    s->keys[s->n_options] = text;
    s->values[s->n_options++] = sign + 1;
    return true;
}

static bool read_argument(settings *s, const char *name, char *value)
{
    uint64_t n = 0;
    if (strcmp(name, "--backend") == 0) {
        s->backend = value;
    } else if (strcmp(name, "--device") == 0) {
        s->device = value;
    } else if (strcmp(name, "--option") == 0) {
        return read_option(s, value);
    } else if (strcmp(name, "--seed") == 0) {
        return read_number(value, UINT64_MAX, &s->seed);
    } else if (strcmp(name, "--integers") == 0) {
        return read_number(value, INT32_MAX, &s->integers) && s->integers > 0;
    } else if (strcmp(name, "--calls") == 0 && read_number(value, UINT32_MAX, &n) && n > 0) {
        s->calls = (uint32_t)n;
    } else if (strcmp(name, "--rounds") == 0 && read_number(value, ROUNDS_MAX, &n) && n > 0) {
        s->rounds = (uint32_t)n;
    } else if (strcmp(name, "--bits") == 0 && read_number(value, UINT32_MAX, &n)) {
        s->bits = (uint32_t)n;
    } else {
        return false;
    }
    return true;
}

static bool read_arguments(settings *s, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--ask") == 0) {
            s->ask = true;
        } else if (argv[i][0] != '-' && s->graph == NULL) {
            s->graph = argv[i];
        } else if (i + 1 < argc && read_argument(s, argv[i], argv[i + 1])) {
            i++;
        } else {
            (void)fprintf(stderr, "gpu_bench: '%s' is no option, or its value is not one\n",
                          argv[i]);
            return false;
        }
    }
    if (s->graph == NULL) {
        (void)fprintf(stderr, "usage: gpu_bench GRAPH [--backend NAME] [--device NAME:N] "
                              "[--option KEY=VALUE] [--seed N] [--integers N] [--calls N] "
                              "[--rounds N] [--bits N] [--ask]\n");
    }
    return s->graph != NULL;
}

static void dispose(subject *b)
{
    for (uint32_t k = 0; k < TENSORS_MAX; k++) {
        stator_tensor_release(b->in[k]);
        stator_tensor_release(b->out[k]);
    }
    stator_function_destroy(b->function);
    stator_model_destroy(b->model);
    stator_ctx_destroy(b->ctx);
}

int main(int argc, char **argv)
{
    settings s = {.backend = "cuda", .seed = 1, .integers = 100, .calls = 100, .rounds = 5};
    subject b = {0};
    char device[64];
    if (!read_arguments(&s, argc, argv)) {
        return 2;
    }
    if (s.device == NULL) {
        (void)snprintf(device, sizeof device, "%s:0", s.backend);
        s.device = device;
    }
    stator_status status = stator_ctx_create(NULL, &b.ctx);
    if (status != STATOR_OK) {
        (void)fprintf(stderr, "gpu_bench: no context can be made\n");
        return 3;
    }
    status = prepare(&s, &b);
    if (status == STATOR_OK) {
        status = measure(&s, &b);
    }
    if (status != STATOR_OK) {
        (void)fprintf(stderr, "gpu_bench: %s: %s\n", s.graph, stator_ctx_error_text(b.ctx));
    }
    dispose(&b);
    return status == STATOR_OK ? 0 : 3;
}
