/* Runs of a model in child processes; see bisect_child.h.
 *
 * The child reports through files without a name (memfd): one that it fills at the end, one that it
 * appends each application to before it happens, one for kept answers. What a dead child wrote
 * stays. */
#define _GNU_SOURCE
#include "bisect_child.h"

#include "core/base/check.h"
#include "core/base/threads.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALIGNMENT 64u
#define NO_LIMIT_IN_SCOPE INT64_MAX

/* The part of an outcome that crosses from the child. */
typedef struct report {
    uint32_t verdict;
    uint32_t is_whole; /* the last thing written */
    double max_abs;
    char code[64];
    char message[1024];
    char hint[512];
    stator_x_place place;
} report;

typedef struct pipes {
    int report;
    int steps;
    int kept;
    int alive[2]; /* closed by the kernel when the child ends */
} pipes;

/* One kept tensor in the file: this head, then the data at the next multiple of ALIGNMENT. */
typedef struct kept_head {
    uint64_t size_bytes;
    DLDataType dtype;
    int32_t rank;
    int64_t shape[STATOR_MAX_RANK];
} kept_head;

/* ---- in the child ---- */

typedef struct worker {
    const bisect_setup *setup;
    const bisect_job *job;
    const pipes *fds;
    report *r;
    stator_ctx *ctx;
    stator_model *model;
    stator_tensor **in;
    uint32_t n_in;
} worker;

/* The last error, which the command's helpers keep as "CODE: message". */
static void take_error(worker *w, uint32_t verdict)
{
    const char *text = cli_last_error();
    const char *colon = strstr(text, ": ");
    const char *message = colon != NULL ? colon + 2 : text;
    const char *hint = w->ctx != NULL ? stator_ctx_error_hint(w->ctx) : "";
    w->r->verdict = verdict;
    (void)snprintf(w->r->code, sizeof w->r->code, "%.*s", colon != NULL ? (int)(colon - text) : 8,
                   colon != NULL ? text : "INTERNAL");
    (void)snprintf(w->r->message, sizeof w->r->message, "%.1000s", message);
    (void)snprintf(w->r->hint, sizeof w->r->hint, "%.500s", hint != NULL ? hint : "");
}

static void take_ctx_error(worker *w, uint32_t verdict)
{
    (void)cli_fail_ctx(w->ctx, -1);
    take_error(w, verdict);
}

static void write_step(void *self, const stator_x_fuel_row *row)
{
    const worker *w = self;
    bisect_step step = {
        .scope = row->scope, .kind = row->kind, .n = row->n, .witness = row->witness};
    (void)snprintf(step.rule, sizeof step.rule, "%s", row->rule);
    (void)snprintf(step.pass, sizeof step.pass, "%s", row->pass);
    (void)snprintf(step.node, sizeof step.node, "%s", row->node_name);
    const ssize_t n = write(w->fds->steps, &step, sizeof step);
    (void)n; /* a short list is found out by its reader */
}

static int write_at(int fd, const void *data, uint64_t size, uint64_t offset)
{
    const char *p = data;
    while (size > 0) {
        const ssize_t n = pwrite(fd, p, size, (off_t)offset);
        if (n <= 0) {
            return 0;
        }
        p += n;
        size -= (uint64_t)n;
        offset += (uint64_t)n;
    }
    return 1;
}

static int keep_results(const worker *w, const bisect_results *results)
{
    uint64_t offset = 0;
    for (uint32_t i = 0; i < results->n_out + results->n_in; i++) {
        const DLTensor *view = stator_tensor_view(results->tensors[i]);
        kept_head head = {.size_bytes = stator_tensor_size_bytes(results->tensors[i]),
                          .dtype = view->dtype,
                          .rank = view->ndim};
        if (view->ndim > 0) {
            memcpy(head.shape, view->shape, (size_t)view->ndim * sizeof head.shape[0]);
        }
        const uint64_t data_at = (offset + sizeof head + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        const uint64_t end = (data_at + head.size_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        if (!write_at(w->fds->kept, &head, sizeof head, offset) ||
            !write_at(w->fds->kept, stator_tensor_data(results->tensors[i]), head.size_bytes,
                      data_at) ||
            ftruncate(w->fds->kept, (off_t)end) != 0) {
            return 0;
        }
        offset = end;
    }
    return 1;
}

static void compare_results(worker *w, const bisect_results *results)
{
    const bisect_reference *want = &w->setup->want;
    const uint32_t count = results->n_out + results->n_in;
    w->r->verdict = count == want->count ? BISECT_AGREES : BISECT_DIFFERS;
    for (uint32_t i = 0; i < count && i < want->count; i++) {
        st_difference d;
        st_compare_runs(stator_tensor_view(results->tensors[i]), &want->tensors[i],
                        &w->setup->tolerance, &d);
        if (!d.ok && w->r->verdict == BISECT_AGREES) { /* the first output that differs counts */
            w->r->verdict = BISECT_DIFFERS;
            w->r->max_abs = d.max_abs;
        }
    }
}

static bisect_recipe recipe_of(const worker *w, const char *backend, const bisect_limit *limit,
                               char scope[16])
{
    const bisect_setup *s = w->setup;
    bisect_recipe recipe = {.backend = backend,
                            .flags = strcmp(backend, s->bad) == 0 ? &s->compile : NULL};
    if (limit->kind == BISECT_NOTHING) {
        recipe.compile_flags = STATOR_COMPILE_NO_FUEL;
    } else if (limit->kind == BISECT_UP_TO) {
        (void)snprintf(scope, 16, "%u", limit->scope);
        recipe.fuel_scope = scope;
        recipe.fuel = limit->n == UINT64_MAX ? NO_LIMIT_IN_SCOPE : (int64_t)limit->n;
    }
    return recipe;
}

static void run_once(worker *w)
{
    char scope[16];
    const bisect_recipe recipe = recipe_of(w, w->job->backend, &w->job->limit, scope);
    stator_function *function = bisect_compile(w->ctx, w->model, &recipe);
    if (function == NULL) {
        take_error(w, BISECT_REFUSED);
        return;
    }
    if (w->job->task == BISECT_LIST) {
        stator_x_fuel_watch(function, write_step, w);
    }
    bisect_results results;
    if (!bisect_call(w->ctx, function, w->n_in, w->in, stator_model_output_count(w->model),
                     &results)) {
        take_ctx_error(w, BISECT_FAILS);
        return;
    }
    if (w->job->task == BISECT_KEEP) {
        w->r->verdict = BISECT_AGREES;
        if (!keep_results(w, &results)) {
            (void)cli_fail(-1, "RESOURCE_EXHAUSTED", NULL, "no memory to keep the outputs: %s",
                           strerror(errno));
            take_error(w, BISECT_REFUSED);
        }
    } else {
        compare_results(w, &results);
    }
}

static void observe(worker *w)
{
    const bisect_limit all = {.kind = BISECT_ALL};
    char scope[2][16];
    const bisect_pair pair = {.ctx = w->ctx,
                              .model = w->model,
                              .in = w->in,
                              .n_in = w->n_in,
                              .good = recipe_of(w, w->setup->good, &all, scope[0]),
                              .bad = recipe_of(w, w->job->backend, &w->job->limit, scope[1]),
                              .tolerance = w->setup->tolerance};
    bisect_observe(&pair, w->job->wanted, &w->r->place);
    w->r->verdict = BISECT_AGREES;
}

static void work(worker *w)
{
    if (cli_open(&w->setup->common, &w->ctx) != STATOR_OK ||
        stator_model_load(w->ctx, w->setup->path, NULL, &w->model) != STATOR_OK) {
        take_ctx_error(w, BISECT_REFUSED);
        return;
    }
    if (!cli_load_inputs(w->ctx, w->model, &w->setup->inputs, -1, &w->in, &w->n_in)) {
        take_error(w, BISECT_REFUSED);
        return;
    }
    if (w->job->task == BISECT_DESCRIBE) {
        stator_x_describe(w->model, w->job->wanted, &w->r->place);
        w->r->verdict = BISECT_AGREES;
    } else if (w->job->task == BISECT_OBSERVE) {
        observe(w);
    } else {
        run_once(w);
    }
}

/* What a plugin prints must not mix with the answer; only the runs in which the user's backends run
 * as they are may write to stderr. */
static void quiet_streams(uint32_t task)
{
    const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    (void)dup2(null, STDOUT_FILENO);
    if (task != BISECT_KEEP && task != BISECT_LIST) {
        (void)dup2(null, STDERR_FILENO);
    }
}

static void child_main(const bisect_setup *setup, const bisect_job *job, const pipes *fds)
{
    const struct rlimit no_core = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &no_core);
    (void)unsetenv("STATOR_FUEL");
    quiet_streams(job->task);
    report *r = calloc(1, sizeof *r);
    if (r == NULL) {
        _exit(1);
    }
    worker w = {.setup = setup, .job = job, .fds = fds, .r = r};
    work(&w);
    r->is_whole = 1;
    _exit(write_at(fds->report, r, sizeof *r, 0) ? 0 : 1);
}

/* ---- in the parent ---- */

static void close_pipes(pipes *fds)
{
    const int all[] = {fds->report, fds->steps, fds->kept, fds->alive[0], fds->alive[1]};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (all[i] >= 0) {
            (void)close(all[i]);
        }
    }
}

static int open_pipes(pipes *fds)
{
    *fds = (pipes){.report = memfd_create("report", MFD_CLOEXEC),
                   .steps = memfd_create("steps", MFD_CLOEXEC),
                   .kept = memfd_create("kept", MFD_CLOEXEC),
                   .alive = {-1, -1}};
    if (fds->report < 0 || fds->steps < 0 || fds->kept < 0 || pipe2(fds->alive, O_CLOEXEC) != 0) {
        close_pipes(fds);
        return 0;
    }
    return 1;
}

/* Waits until the child ends; 0 when it was killed after the time was up. The pipe wakes us at
 * once; a grandchild may hold it open, so the child itself is asked every second. */
static int wait_child(pid_t pid, int alive, int64_t timeout_s, int *out_status)
{
    const uint64_t end = st_now_ns() + (uint64_t)timeout_s * UINT64_C(1000000000);
    int in_time = 1;
    for (;;) {
        struct pollfd p = {.fd = alive, .events = POLLIN};
        if (poll(&p, 1, 1000) > 0) {
            break;
        }
        const pid_t ended = waitpid(pid, out_status, WNOHANG);
        if (ended == pid) {
            return 1;
        }
        if (st_now_ns() >= end) {
            (void)kill(pid, SIGKILL);
            in_time = 0;
            break;
        }
    }
    while (waitpid(pid, out_status, 0) < 0 && errno == EINTR) {
    }
    return in_time;
}

static void read_report(const pipes *fds, int in_time, int wait_status, bisect_outcome *out)
{
    report r = {0};
    const ssize_t n = pread(fds->report, &r, sizeof r, 0);
    if (n == (ssize_t)sizeof r && r.is_whole) {
        out->verdict = r.verdict;
        out->max_abs = r.max_abs;
        out->place = r.place;
        memcpy(out->code, r.code, sizeof out->code);
        memcpy(out->message, r.message, sizeof out->message);
        memcpy(out->hint, r.hint, sizeof out->hint);
        return;
    }
    out->verdict = BISECT_CRASHES;
    (void)snprintf(out->code, sizeof out->code, "%s", in_time ? "CRASH" : "TIMEOUT");
    if (!in_time) {
        (void)snprintf(out->message, sizeof out->message, "no answer in time");
    } else if (WIFSIGNALED(wait_status)) {
        (void)snprintf(out->message, sizeof out->message, "ended by signal %d (%s)",
                       WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)));
    } else {
        (void)snprintf(out->message, sizeof out->message, "the process exited with status %d",
                       WEXITSTATUS(wait_status));
    }
}

static int by_serial(const void *a, const void *b)
{
    const bisect_step *x = a;
    const bisect_step *y = b;
    return x->scope != y->scope ? (x->scope > y->scope) - (x->scope < y->scope)
                                : (x->n > y->n) - (x->n < y->n);
}

static int read_steps(const pipes *fds, bisect_outcome *out)
{
    struct stat st;
    if (fstat(fds->steps, &st) != 0 || st.st_size < (off_t)sizeof *out->steps) {
        return 1;
    }
    const size_t count = (size_t)st.st_size / sizeof *out->steps;
    const size_t bytes = count * sizeof *out->steps;
    out->steps = malloc(bytes);
    if (out->steps == NULL || pread(fds->steps, out->steps, bytes, 0) != (ssize_t)bytes) {
        return 0;
    }
    out->n_steps = (uint32_t)count;
    qsort(out->steps, count, sizeof *out->steps, by_serial);
    return 1;
}

/* Fills the views over the mapping; the child that wrote it is our own. */
static int read_heads(bisect_reference *ref)
{
    uint64_t offset = 0;
    char *base = ref->mapping;
    while (offset + sizeof(kept_head) <= ref->size) {
        kept_head head;
        memcpy(&head, base + offset, sizeof head);
        DLTensor *tensors = realloc(ref->tensors, (ref->count + 1u) * sizeof *tensors);
        if (tensors != NULL) {
            ref->tensors = tensors;
        }
        int64_t (*shapes)[STATOR_MAX_RANK] =
            realloc(ref->shapes, (ref->count + 1u) * sizeof *shapes);
        if (shapes != NULL) {
            ref->shapes = shapes;
        }
        if (tensors == NULL || shapes == NULL) {
            return 0;
        }
        const uint64_t data_at = (offset + sizeof head + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        memcpy(shapes[ref->count], head.shape, sizeof head.shape);
        tensors[ref->count++] = (DLTensor){.data = base + data_at,
                                           .device = {.device_type = kDLCPU},
                                           .ndim = head.rank,
                                           .dtype = head.dtype};
        offset = (data_at + head.size_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    for (uint32_t i = 0; i < ref->count; i++) {
        ref->tensors[i].shape = ref->shapes[i];
    }
    return 1;
}

static int read_kept(const pipes *fds, bisect_reference *ref)
{
    struct stat st;
    if (fstat(fds->kept, &st) != 0) {
        return 0;
    }
    ref->size = (size_t)st.st_size;
    if (ref->size == 0) {
        return 1;
    }
    ref->mapping = mmap(NULL, ref->size, PROT_READ, MAP_SHARED, fds->kept, 0);
    if (ref->mapping == MAP_FAILED) {
        ref->mapping = NULL;
        return 0;
    }
    return read_heads(ref);
}

void bisect_reference_free(bisect_reference *reference)
{
    if (reference->mapping != NULL) {
        (void)munmap(reference->mapping, reference->size);
    }
    free(reference->tensors);
    free(reference->shapes);
    *reference = (bisect_reference){0};
}

void bisect_outcome_free(bisect_outcome *outcome)
{
    free(outcome->steps);
    outcome->steps = NULL;
    outcome->n_steps = 0;
}

int bisect_child(bisect_setup *setup, const bisect_job *job, bisect_outcome *out)
{
    pipes fds;
    *out = (bisect_outcome){0};
    if (!open_pipes(&fds)) {
        (void)cli_fail(setup->common.json, "RESOURCE_EXHAUSTED", NULL, "no files left: %s",
                       strerror(errno));
        return 0;
    }
    (void)fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        (void)close(fds.alive[0]);
        child_main(setup, job, &fds);
    }
    (void)close(fds.alive[1]);
    fds.alive[1] = -1;
    int ok = pid > 0;
    if (ok) {
        int wait_status = 0;
        const int in_time = wait_child(pid, fds.alive[0], setup->timeout_s, &wait_status);
        read_report(&fds, in_time, wait_status, out);
        ok = read_steps(&fds, out) && (job->task != BISECT_KEEP || read_kept(&fds, &setup->want));
    }
    close_pipes(&fds);
    if (!ok) {
        bisect_outcome_free(out);
        (void)cli_fail(setup->common.json, "RESOURCE_EXHAUSTED", NULL,
                       "cannot run a child process: %s", strerror(errno));
    }
    return ok;
}
