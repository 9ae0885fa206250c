/* Stator's side of bench/peers.py: one model in one process, timed on demand.
 *
 *     peer_worker MODEL [--backend B] [--threads N] [--mode M] [--option KEY=VALUE]...
 *                 [--call new|bound] [--keep-denormals] [--train RATE [--teacher MODEL]]
 *                 [--amp DTYPE] [--train-option KEY=VALUE]... [--input DTYPE DIMS FILE]...
 *
 * An input is its dtype, its sizes between commas ("" for a scalar) and a file of its bytes, in the
 * model's order. Commands come on stdin, one a line; each is answered by one line of JSON:
 *
 *     start      loads, compiles, calls once; times of the three and what they took of memory;
 *                of the plan: workspace and outputs, constants read in place, packed weights and
 *                scratch
 *     dump DIR   writes the last call's outputs to DIR/out_<k>.bin, answers dtypes and shapes
 *     run N      N calls, answers the seconds they took together
 *     stats      memory now, and compile time as the library counts it
 *     quit
 *
 * A call of kind `new` makes new output tensors and releases them after it, as a caller in
 * Python does with the peers; `bound` reuses inputs and outputs bound before. Denormals are
 * flushed unless kept: the flag is set before any thread starts, and threads inherit it. With
 * --train a call is a step of AdamW by the cross entropy of the model's output and the last
 * input, with --teacher by the divergence from what that model computes, too; with --amp in mixed
 * precision. */
#define _GNU_SOURCE
#include "core/base/check.h"
#include "core/base/diag.h"

#include <stator/inspect.h>
#include <stator/train.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#define FLUSH_TO_ZERO_AND_DENORMALS_ARE_ZERO 0x8040u
#endif

#define PORTS_MAX 1024
#define OPTIONS_MAX 16

typedef struct worker {
    stator_ctx *ctx;
    stator_model *model;
    stator_function *function;
    stator_bound_call *call;
    stator_tensor *in[PORTS_MAX], *out[PORTS_MAX];
    uint32_t n_in, n_out;
    const char *path, *teacher, *amp;
    int bound;
    double rate; /* of training steps; 0: none */
    int32_t threads;
    stator_compile_options options;
    const char *keys[OPTIONS_MAX], *values[OPTIONS_MAX];
    const char *train_keys[OPTIONS_MAX], *train_values[OPTIONS_MAX];
    uint32_t n_train_options;
} worker;

static double now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- answers ---- */

static void put_string(const char *text)
{
    (void)putchar('"');
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\') {
            (void)printf("\\%c", *c);
        } else if ((unsigned char)*c < 0x20) {
            (void)printf("\\u%04x", (unsigned)*c);
        } else {
            (void)putchar(*c);
        }
    }
    (void)putchar('"');
}

static void answer_error(const worker *w, const char *text)
{
    const char *why = w->ctx != NULL ? stator_ctx_error_text(w->ctx) : "";
    (void)printf("{\"error\": ");
    put_string(why[0] != '\0' ? why : text);
    (void)printf("}\n");
}

/* A field of /proc/self/status in bytes, 0 when there is none. */
static unsigned long long process_bytes(const char *field)
{
    unsigned long long kb = 0;
    char line[256];
    FILE *f = fopen("/proc/self/status", "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, field, strlen(field)) == 0) {
            kb = strtoull(line + strlen(field) + 1, NULL, 10);
            break;
        }
    }
    if (f != NULL) {
        (void)fclose(f);
    }
    return kb * 1024u;
}

static stator_mem_stats host_memory(const worker *w)
{
    stator_mem_stats stats = {.struct_size = sizeof stats};
    stator_ctx_mem_stats(w->ctx, &stats);
    return stats;
}

/* ---- the command line ---- */

static int read_bytes(const char *path, void *data, uint64_t size)
{
    FILE *f = fopen(path, "rb");
    const int good = f != NULL && fread(data, 1, size, f) == size && fgetc(f) == EOF;
    if (f != NULL) {
        (void)fclose(f);
    }
    return good;
}

static int add_input(worker *w, const char *dtype, const char *dims, const char *path)
{
    int64_t shape[STATOR_RANK_MAX];
    uint32_t rank = 0;
    for (const char *at = dims; *at != '\0';) {
        char *end = NULL;
        const long long size = strtoll(at, &end, 10);
        if (end == at || size < 0 || rank == STATOR_RANK_MAX) {
            return 0;
        }
        shape[rank++] = size;
        at = *end == ',' ? end + 1 : end;
    }
    const stator_dtype type = st_dtype_parse(dtype, strlen(dtype));
    if (type == 0 || w->n_in == PORTS_MAX ||
        stator_tensor_create(w->ctx, type, rank, shape, &w->in[w->n_in]) != STATOR_OK) {
        return 0;
    }
    stator_tensor *t = w->in[w->n_in++];
    return read_bytes(path, stator_tensor_data(t), stator_tensor_size_bytes(t));
}

static int add_option(char *text, const char **keys, const char **values, uint32_t *n)
{
    char *equals = strchr(text, '=');
    if (equals == NULL || *n == OPTIONS_MAX) {
        return 0;
    }
    *equals = '\0';
    keys[*n] = text;
    values[(*n)++] = equals + 1;
    return 1;
}

/* An option of the backend, or of the training. */
static int take_option(worker *w, const char *flag, char *text)
{
    if (strcmp(flag, "--train-option") == 0) {
        return add_option(text, w->train_keys, w->train_values, &w->n_train_options);
    }
    return strcmp(flag, "--option") == 0 &&
           add_option(text, w->keys, w->values, &w->options.option_count);
}

/* Flags that need no context; the inputs come in the second pass. */
static int parse_flags(worker *w, int argc, char **argv, int *out_flush)
{
    *out_flush = 1;
    for (int i = 2; i < argc; i++) {
        const char *flag = argv[i];
        const int has_value = i + 1 < argc;
        if (strcmp(flag, "--keep-denormals") == 0) {
            *out_flush = 0;
        } else if (strcmp(flag, "--input") == 0 && i + 3 < argc) {
            i += 3;
        } else if (strcmp(flag, "--backend") == 0 && has_value) {
            w->options.backend = argv[++i];
        } else if (strcmp(flag, "--mode") == 0 && has_value) {
            w->options.mode = argv[++i];
        } else if (strcmp(flag, "--threads") == 0 && has_value) {
            w->threads = (int32_t)strtol(argv[++i], NULL, 10);
        } else if (strcmp(flag, "--train") == 0 && has_value) {
            w->rate = strtod(argv[++i], NULL);
        } else if (strcmp(flag, "--call") == 0 && has_value) {
            w->bound = strcmp(argv[++i], "bound") == 0;
        } else if (strcmp(flag, "--teacher") == 0 && has_value) {
            w->teacher = argv[++i];
        } else if (strcmp(flag, "--amp") == 0 && has_value) {
            w->amp = argv[++i];
        } else if (!has_value || !take_option(w, flag, argv[++i])) {
            (void)fprintf(stderr, "peer_worker: cannot use '%s'; the file's head says how\n", flag);
            return 0;
        }
    }
    return 1;
}

static int parse_inputs(worker *w, int argc, char **argv)
{
    for (int i = 2; i + 3 < argc; i++) {
        if (strcmp(argv[i], "--input") == 0) {
            if (!add_input(w, argv[i + 1], argv[i + 2], argv[i + 3])) {
                (void)fprintf(stderr, "peer_worker: bad input '%s %s %s'\n", argv[i + 1],
                              argv[i + 2], argv[i + 3]);
                return 0;
            }
            i += 3;
        }
    }
    return 1;
}

/* ---- commands ---- */

static void release_outputs(worker *w)
{
    for (uint32_t k = 0; k < w->n_out; k++) {
        stator_tensor_release(w->out[k]);
        w->out[k] = NULL;
    }
}

static stator_status call_new(worker *w)
{
    release_outputs(w);
    return stator_call_tensors(w->function, w->n_in, w->in, w->n_out, w->out);
}

static stator_status first_call(worker *w)
{
    const stator_status status = call_new(w);
    if (status != STATOR_OK || !w->bound) {
        return status;
    }
    return stator_bind(w->function, w->n_in, w->in, w->n_out, w->out, &w->call);
}

/* The plan's own figures, for a call's workspace and outputs and for what stays. */
static void put_plan(const worker *w)
{
    stator_x_memory m = {.struct_size = sizeof m};
    uint64_t outputs = 0;
    stator_x_memory_of(w->function, &m);
    for (uint32_t k = 0; k < w->n_out; k++) {
        outputs += stator_tensor_size_bytes(w->out[k]);
    }
    (void)printf(", \"workspace_bytes\": %llu, \"output_bytes\": %llu, \"scratch_bytes\": %llu, "
                 "\"constant_bytes\": %llu, \"packed_bytes\": %llu, \"winograd_bytes\": %llu",
                 (unsigned long long)m.workspace_bytes, (unsigned long long)outputs,
                 (unsigned long long)m.scratch_bytes, (unsigned long long)m.constant_bytes,
                 (unsigned long long)m.packed_bytes, (unsigned long long)m.winograd_bytes);
}

/* Scalars that a step takes beside the model's inputs: the rate and, where there is one, a seed. */
static stator_status add_scalars(worker *w, const stator_model *step)
{
    const int64_t seed = 1;
    const void *values[2] = {&w->rate, &seed};
    const char *names[2] = {"lr", "seed"};
    const stator_dtype dtypes[2] = {STATOR_F64, STATOR_I64};
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t at = 0;
        if (stator_model_find_input(step, names[k], &at) != STATOR_OK || at >= PORTS_MAX) {
            continue; /* no random numbers */
        }
        ST_TRY(stator_tensor_create(w->ctx, dtypes[k], 0, NULL, &w->in[at]));
        memcpy(stator_tensor_data(w->in[at]), values[k], 8);
    }
    return STATOR_OK;
}

/* Replaces the model by its training step, whose parameters and states become inputs. */
static stator_status make_step(worker *w)
{
    stator_model *step = NULL, *teacher = NULL;
    if (w->teacher != NULL) {
        ST_TRY(stator_model_load(w->ctx, w->teacher, NULL, &teacher));
    }
    const stator_train_options options = {.struct_size = sizeof options,
                                          .loss = "cross_entropy",
                                          .optimizer = "adamw",
                                          .option_keys = w->train_keys,
                                          .option_values = w->train_values,
                                          .option_count = w->n_train_options,
                                          .teacher = teacher,
                                          .amp = w->amp};
    stator_status status = stator_model_train_step(w->model, &options, &step);
    stator_model_destroy(teacher);
    ST_TRY(status);
    w->n_in = stator_model_input_count(step);
    status = w->n_in <= PORTS_MAX ? add_scalars(w, step) : STATOR_OUT_OF_RANGE;
    if (status == STATOR_OK) {
        status = stator_train_state(w->model, step, NULL, w->n_in, w->in);
    }
    stator_model_destroy(w->model);
    w->model = step;
    return status;
}

static void command_start(worker *w)
{
    const stator_mem_stats before = host_memory(w);
    const double t0 = now_s();
    if (stator_model_load(w->ctx, w->path, NULL, &w->model) != STATOR_OK ||
        (w->rate != 0 && make_step(w) != STATOR_OK) ||
        stator_model_specialise(w->model, w->n_in, w->in) != STATOR_OK) {
        answer_error(w, "the model did not load");
        return;
    }
    w->n_out = stator_model_output_count(w->model);
    if (w->n_out > PORTS_MAX || stator_model_input_count(w->model) != w->n_in) {
        answer_error(w, "the model has other inputs than were given, or too many outputs");
        return;
    }
    const double t1 = now_s();
    if (stator_compile(w->model, &w->options, &w->function) != STATOR_OK ||
        stator_x_prepare(w->function, w->n_in, w->in) != STATOR_OK) {
        answer_error(w, "the model did not compile");
        return;
    }
    const double t2 = now_s();
    const stator_mem_stats compiled = host_memory(w);
    stator_ctx_mem_reset_peak(w->ctx);
    if (first_call(w) != STATOR_OK) {
        answer_error(w, "the call failed");
        return;
    }
    const double t3 = now_s();
    const stator_mem_stats called = host_memory(w);
    (void)printf("{\"load_s\": %.6f, \"compile_s\": %.6f, \"first_call_s\": %.6f, "
                 "\"resident_bytes\": %llu, \"call_bytes\": %llu",
                 t1 - t0, t2 - t1, t3 - t2,
                 (unsigned long long)(compiled.live_bytes - before.live_bytes),
                 (unsigned long long)(called.peak_bytes - compiled.live_bytes));
    put_plan(w);
    (void)printf("}\n");
}

static void command_run(worker *w, long n)
{
    stator_status status = STATOR_OK;
    if (w->function == NULL) {
        answer_error(w, "nothing is compiled");
        return;
    }
    const double start = now_s();
    for (long i = 0; i < n && status == STATOR_OK; i++) {
        status = w->call != NULL ? stator_bound_call_run(w->call) : call_new(w);
    }
    const double seconds = now_s() - start;
    if (status != STATOR_OK) {
        answer_error(w, "a call failed");
        return;
    }
    (void)printf("{\"seconds\": %.9f}\n", seconds);
}

static int write_output(const worker *w, const char *dir, uint32_t k)
{
    char path[4096];
    const int length = snprintf(path, sizeof path, "%s/out_%u.bin", dir, k);
    FILE *f = length > 0 && (size_t)length < sizeof path ? fopen(path, "wb") : NULL;
    const uint64_t size = stator_tensor_size_bytes(w->out[k]);
    const int good = f != NULL && fwrite(stator_tensor_data(w->out[k]), 1, size, f) == size;
    return (f == NULL || fclose(f) == 0) && good;
}

static void command_dump(const worker *w, const char *dir)
{
    for (uint32_t k = 0; k < w->n_out; k++) {
        if (w->out[k] == NULL || !write_output(w, dir, k)) {
            answer_error(w, "an output could not be written");
            return;
        }
    }
    (void)printf("{\"outputs\": [");
    for (uint32_t k = 0; k < w->n_out; k++) {
        const DLTensor *view = stator_tensor_view(w->out[k]);
        (void)printf("%s{\"dtype\": \"%s\", \"shape\": [", k > 0 ? ", " : "",
                     st_dtype_name(stator_tensor_dtype(w->out[k])));
        for (int32_t i = 0; i < view->ndim; i++) {
            (void)printf("%s%lld", i > 0 ? ", " : "", (long long)view->shape[i]);
        }
        (void)printf("]}");
    }
    (void)printf("]}\n");
}

/* The parts that the compile made, by backend: how much of the model ran where. */
static void put_coverage(const worker *w)
{
    stator_coverage rows[8];
    const uint32_t n = w->function != NULL ? stator_function_coverage(w->function, 8, rows) : 0;
    (void)printf(", \"coverage\": [");
    for (uint32_t i = 0; i < n && i < 8; i++) {
        (void)printf("%s{\"backend\": \"%s\", \"nodes\": %u, \"partitions\": %u}",
                     i > 0 ? ", " : "", rows[i].backend, rows[i].nodes, rows[i].partitions);
    }
    (void)printf("]");
}

static void command_stats(const worker *w)
{
    const stator_mem_stats host = host_memory(w);
    (void)printf(
        "{\"peak_rss\": %llu, \"rss\": %llu, \"host_live\": %llu, \"compile_ns\": %llu",
        process_bytes("VmHWM:"), process_bytes("VmRSS:"), (unsigned long long)host.live_bytes,
        w->function != NULL ? (unsigned long long)stator_function_compile_ns(w->function) : 0ull);
    put_coverage(w);
    (void)printf("}\n");
}

static int serve(worker *w)
{
    char line[4096];
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strcmp(line, "quit") == 0) {
            break;
        }
        if (strcmp(line, "start") == 0) {
            command_start(w);
        } else if (strncmp(line, "run ", 4) == 0) {
            command_run(w, strtol(line + 4, NULL, 10));
        } else if (strncmp(line, "dump ", 5) == 0) {
            command_dump(w, line + 5);
        } else if (strcmp(line, "stats") == 0) {
            command_stats(w);
        } else {
            answer_error(w, "unknown command");
        }
        if (fflush(stdout) != 0) {
            return 1;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    worker w = {.path = argc > 1 ? argv[1] : NULL};
    int flush = 1;
    w.options.struct_size = sizeof w.options;
    w.options.option_keys = w.keys;
    w.options.option_values = w.values;
    if (w.path == NULL || !parse_flags(&w, argc, argv, &flush)) {
        return 2;
    }
#if defined(__x86_64__)
    if (flush) {
        _mm_setcsr(_mm_getcsr() | FLUSH_TO_ZERO_AND_DENORMALS_ARE_ZERO);
    }
#endif
    const stator_ctx_options ctx = {.struct_size = sizeof ctx, .threads = w.threads};
    if (stator_ctx_create(&ctx, &w.ctx) != STATOR_OK || !parse_inputs(&w, argc, argv)) {
        return 3;
    }
    const int status = serve(&w);
    stator_bound_call_destroy(w.call);
    release_outputs(&w);
    for (uint32_t i = 0; i < w.n_in; i++) {
        stator_tensor_release(w.in[i]);
    }
    stator_function_destroy(w.function);
    stator_model_destroy(w.model);
    stator_ctx_destroy(w.ctx);
    return status;
}
