/* Runs of a model in child processes; see bisect_child.h.
 *
 * The child fills its report at the end, and appends each application to the list before it
 * happens. */
#define _GNU_SOURCE
#include "tools/bisect/bisect_child.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NO_LIMIT_IN_SCOPE INT64_MAX

/* The part of an outcome that crosses from the child. */
typedef struct report {
    uint32_t verdict;
    uint32_t is_whole; /* written last: the record is whole */
    double max_abs;
    child_error error;
    stator_x_place place;
} report;

/* ---- in the child ---- */

typedef struct worker {
    const bisect_setup *setup;
    const bisect_job *job;
    const child *c;
    report *r;
    stator_ctx *ctx;
    stator_model *model;
    stator_tensor **in;
    uint32_t n_in;
} worker;

static void take_error(worker *w, uint32_t verdict)
{
    w->r->verdict = verdict;
    child_take_error(w->ctx, &w->r->error);
}

static void write_step(void *self, const stator_x_fuel_row *row)
{
    const worker *w = self;
    bisect_step step = {
        .scope = row->scope, .kind = row->kind, .n = row->n, .witness = row->witness};
    (void)snprintf(step.rule, sizeof step.rule, "%s", row->rule);
    (void)snprintf(step.pass, sizeof step.pass, "%s", row->pass);
    (void)snprintf(step.node, sizeof step.node, "%s", row->node_name);
    const ssize_t n = write(w->c->files[CHILD_LIST], &step, sizeof step);
    (void)n; /* a short list is found out by its reader */
}

static void compare_results(worker *w, const bisect_results *results)
{
    const child_tensors *want = &w->setup->want;
    const uint32_t count = results->n_out + results->n_in;
    w->r->verdict = count == want->count ? BISECT_AGREES : BISECT_DIFFERS;
    for (uint32_t i = 0; i < count && i < want->count; i++) {
        st_difference d;
        st_compare(stator_tensor_view(results->tensors[i]), &want->tensors[i], &w->setup->tolerance,
                   &d);
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
    if (!bisect_call(function, w->n_in, w->in, stator_model_output_count(w->model), &results)) {
        (void)cli_fail_ctx(w->ctx, -1);
        take_error(w, BISECT_FAILS);
        return;
    }
    if (w->job->task == BISECT_KEEP) {
        w->r->verdict = BISECT_AGREES;
        if (!child_tensors_write(w->c->files[CHILD_KEPT], results.n_out + results.n_in,
                                 results.tensors)) {
            (void)cli_fail(-1, "RESOURCE_EXHAUSTED", NULL, "no memory to keep the outputs: %s",
                           strerror(errno));
            take_error(w, BISECT_REFUSED);
        }
    } else {
        compare_results(w, &results);
    }
    if (w->r->verdict == BISECT_DIFFERS) { /* one step of a rounding is no wrong answer */
        const bisect_limit all = {.kind = BISECT_ALL};
        char good[16];
        const bisect_pair pair = {.model = w->model,
                                  .in = w->in,
                                  .n_in = w->n_in,
                                  .good = recipe_of(w, w->setup->good, &all, good),
                                  .bad = recipe,
                                  .tolerance = w->setup->tolerance};
        w->r->verdict = bisect_is_rounding(&pair, &w->r->place) ? BISECT_AGREES : BISECT_DIFFERS;
    }
}

static void observe(worker *w)
{
    const bisect_limit all = {.kind = BISECT_ALL};
    char scope[2][16];
    const bisect_pair pair = {.model = w->model,
                              .in = w->in,
                              .n_in = w->n_in,
                              .good = recipe_of(w, w->setup->good, &all, scope[0]),
                              .bad = recipe_of(w, w->job->backend, &w->job->limit, scope[1]),
                              .tolerance = w->setup->tolerance};
    bisect_observe(&pair, w->job->wanted, &w->r->place);
    w->r->verdict = BISECT_AGREES;
}

bool bisect_load(const bisect_setup *setup, stator_ctx **ctx, stator_model **model,
                 stator_tensor ***in, uint32_t *n_in)
{
    if (cli_open(&setup->common, ctx) != STATOR_OK ||
        stator_model_load(*ctx, setup->path, NULL, model) != STATOR_OK) {
        return cli_fail_ctx(*ctx, -1) == CLI_OK;
    }
    return cli_load_inputs(*ctx, *model, &setup->inputs, -1, in, n_in);
}

static void work(worker *w)
{
    if (!bisect_load(w->setup, &w->ctx, &w->model, &w->in, &w->n_in)) {
        take_error(w, BISECT_REFUSED);
        return;
    }
    if (w->job->task == BISECT_DESCRIBE) {
        w->r->place.struct_size = sizeof w->r->place;
        (void)!stator_x_describe(w->model, w->job->wanted, &w->r->place);
        w->r->verdict = BISECT_AGREES;
    } else if (w->job->task == BISECT_OBSERVE) {
        observe(w);
    } else {
        run_once(w);
    }
}

/* The whole of a child's life. */
static bool child_main(void *self, const child *c)
{
    worker *w = self;
    w->r = calloc(1, sizeof *w->r);
    if (w->r == NULL) {
        return false;
    }
    w->c = c;
    work(w);
    w->r->is_whole = 1;
    return child_write(c->files[CHILD_REPORT], w->r, sizeof *w->r, 0);
}

/* ---- in the parent ---- */

static void read_report(const child *c, bisect_outcome *out)
{
    report r = {0};
    if (child_report(c, &r, sizeof r) && r.is_whole) {
        out->verdict = r.verdict;
        out->max_abs = r.max_abs;
        out->place = r.place;
        out->error = r.error;
        return;
    }
    out->verdict = BISECT_CRASHES;
    child_death(c, &out->error);
}

static int by_serial(const void *a, const void *b)
{
    const bisect_step *x = a;
    const bisect_step *y = b;
    return x->scope != y->scope ? (x->scope > y->scope) - (x->scope < y->scope)
                                : (x->n > y->n) - (x->n < y->n);
}

static bool read_steps(const child *c, bisect_outcome *out)
{
    const int fd = c->files[CHILD_LIST];
    struct stat st;
    if (fstat(fd, &st) != 0 || st.st_size < (off_t)sizeof *out->steps) {
        return true;
    }
    const size_t count = (size_t)st.st_size / sizeof *out->steps;
    const size_t bytes = count * sizeof *out->steps;
    out->steps = malloc(bytes);
    if (out->steps == NULL || pread(fd, out->steps, bytes, 0) != (ssize_t)bytes) {
        return false;
    }
    out->n_steps = (uint32_t)count;
    qsort(out->steps, count, sizeof *out->steps, by_serial);
    return true;
}

void bisect_outcome_free(bisect_outcome *outcome)
{
    free(outcome->steps);
    outcome->steps = NULL;
    outcome->n_steps = 0;
}

bool bisect_child(bisect_setup *setup, const bisect_job *job, bisect_outcome *out)
{
    child c;
    worker w = {.setup = setup, .job = job};
    /* Only the runs in which the user's backends run as they are may write to stderr. */
    const child_work todo = {.run = child_main,
                             .self = &w,
                             .timeout_s = setup->timeout_s,
                             .is_quiet = job->task != BISECT_KEEP && job->task != BISECT_LIST};
    *out = (bisect_outcome){0};
    bool ok = child_run(&c, &todo);
    if (ok) {
        read_report(&c, out);
        ok = read_steps(&c, out) &&
             (job->task != BISECT_KEEP || child_tensors_map(c.files[CHILD_KEPT], &setup->want));
    }
    const int number = errno;
    child_close(&c);
    if (!ok) {
        bisect_outcome_free(out);
        errno = number;
        (void)child_failed(setup->common.json);
    }
    return ok;
}
