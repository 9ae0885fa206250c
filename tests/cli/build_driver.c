/* Runs a package that test_build.sh made of f: (x: f32[N, 4], at: i64[3]) -> (y: f32[N + 1, 4] and
 * z: f32[3, 4], rows of a table): every status, sizes, metadata, threads. Status 0 when all holds.
 */
#define _POSIX_C_SOURCE 200809L
#include <f.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1000, THREADS = 8 };

static int bad;

static void expect(int got, int want, const char *what)
{
    if (got != want) {
        printf("BAD %s: %d (%s), expected %d\n", what, got, f_status_text(got), want);
        bad = 1;
    }
}

typedef struct world {
    f_inputs in;
    f_outputs out;
    uint64_t workspace_bytes;
    void *workspace;
} world;

static void *aligned(uint64_t bytes)
{
    void *p = NULL;
    return posix_memalign(&p, 64, bytes + 64) == 0 ? p : NULL;
}

static void open_world(world *w)
{
    static const int64_t at[3] = {2, 0, 4};
    float *x = aligned(N * 4 * sizeof *x);
    int64_t *index = aligned(sizeof at);
    for (int i = 0; i < N * 4; i++) {
        x[i] = (float)(i % 97) / 97.0f;
    }
    memcpy(index, at, sizeof at);
    memset(w, 0, sizeof *w);
    w->in.x.shape[0] = N;
    w->in.x.shape[1] = 4;
    w->in.at.shape[0] = 3;
    expect(f_sizes(&w->in, &w->out, &w->workspace_bytes), F_STATUS_OK, "sizes without data");
    w->in.x.data = x;
    w->in.at.data = index;
    w->out.y.data = aligned(w->out.y.bytes);
    w->out.z.data = aligned(w->out.z.bytes);
    w->workspace = aligned(w->workspace_bytes);
}

static void close_world(world *w)
{
    free((void *)(uintptr_t)w->in.x.data);
    free((void *)(uintptr_t)w->in.at.data);
    free(w->out.y.data);
    free(w->out.z.data);
    free(w->workspace);
}

static void check_values(const world *w)
{
    for (int i = 0; i < (N + 1) * 4; i++) {
        const double want = i < N * 4 ? tanh((double)w->in.x.data[i]) : 7.0;
        if (fabs((double)w->out.y.data[i] - want) > 1e-5) {
            printf("BAD y[%d]: %g, expected %g\n", i, (double)w->out.y.data[i], want);
            bad = 1;
            return;
        }
    }
    for (int i = 0; i < 12; i++) {
        const float want = (float)(w->in.at.data[i / 4] * 4 + i % 4);
        if (w->out.z.data[i] != want) {
            printf("BAD z[%d]: %g, expected %g\n", i, (double)w->out.z.data[i], (double)want);
            bad = 1;
        }
    }
}

static int run(const world *w)
{
    f_outputs out = w->out;
    return f_run(&w->in, &out, NULL, 0);
}

static void check_right(world *w)
{
    expect((int)w->out.y.shape[0], N + 1, "rows of y");
    expect((int)w->out.y.bytes, (N + 1) * 16, "bytes of y");
    memset(w->out.y.data, 0xff, w->out.y.bytes);
    expect(f_run(&w->in, &w->out, NULL, 0), F_STATUS_OK, "run");
    check_values(w);
    memset(w->out.y.data, 0xff, w->out.y.bytes);
    expect(f_run(&w->in, &w->out, w->workspace, w->workspace_bytes), F_STATUS_OK, "own workspace");
    check_values(w);
    world small = *w;
    small.in.x.shape[0] = 0;
    small.in.x.data = NULL;
    expect(f_sizes(&small.in, &small.out, NULL), F_STATUS_OK, "sizes of an empty input");
    expect((int)small.out.y.shape[0], 1, "rows of y of an empty input");
    expect(f_run(&small.in, &small.out, NULL, 0), F_STATUS_OK, "an empty input");
}

static void check_shapes(const world *w)
{
    world b = *w;
    b.in.x.shape[1] = 5;
    expect(run(&b), F_STATUS_BAD_SHAPE, "a number that differs");
    b = *w;
    b.in.x.shape[0] = -1;
    expect(run(&b), F_STATUS_BAD_SHAPE, "a size below 0");
    b.in.x.shape[0] = INT64_MAX;
    expect(run(&b), F_STATUS_BAD_SHAPE, "a size past all memory");
    expect(f_sizes(&b.in, &b.out, NULL), F_STATUS_BAD_SHAPE, "sizes of such");
}

static void check_pointers(const world *w)
{
    f_outputs out = w->out;
    expect(f_run(NULL, &out, NULL, 0), F_STATUS_NULL_POINTER, "no inputs");
    expect(f_run(&w->in, NULL, NULL, 0), F_STATUS_NULL_POINTER, "no outputs");
    expect(f_sizes(NULL, &out, NULL), F_STATUS_NULL_POINTER, "sizes of no inputs");
    world b = *w;
    b.in.x.data = NULL;
    expect(run(&b), F_STATUS_NULL_POINTER, "an input without data");
    b = *w;
    b.out.z.data = NULL;
    expect(run(&b), F_STATUS_NULL_POINTER, "an output without data");
    b = *w;
    b.in.x.data++;
    expect(run(&b), F_STATUS_NOT_ALIGNED, "an input at 4");
    b = *w;
    b.out.y.bytes--;
    expect(run(&b), F_STATUS_NO_ROOM, "an output that is too small");
    b = *w;
    b.out.y.data = (float *)(uintptr_t)w->in.x.data + 4;
    expect(run(&b), F_STATUS_OVERLAP, "an output in an input");
    b = *w;
    b.out.z.data = w->out.y.data + 4;
    expect(run(&b), F_STATUS_OVERLAP, "an output in another");
    expect(f_run(&w->in, &out, (char *)w->workspace + 16, w->workspace_bytes), F_STATUS_NOT_ALIGNED,
           "a workspace at 16");
    if (w->workspace_bytes > 0) {
        expect(f_run(&w->in, &out, w->workspace, w->workspace_bytes - 1), F_STATUS_NO_ROOM,
               "a workspace that is too small");
        expect(f_run(&w->in, &out, w->out.y.data, w->workspace_bytes), F_STATUS_OVERLAP,
               "a workspace in an output");
    }
}

static void check_indices(world *w)
{
    int64_t *at = (int64_t *)(uintptr_t)w->in.at.data;
    at[1] = 5;
    expect(run(w), F_STATUS_BAD_INDEX, "an index past the end");
    at[1] = INT64_MIN;
    expect(run(w), F_STATUS_BAD_INDEX, "an index far below");
    at[1] = 0;
    expect(run(w), F_STATUS_OK, "a good one again");
}

static void check_ports(void)
{
    expect((int)f_input_count(), 2, "inputs");
    expect((int)f_output_count(), 2, "outputs");
    const f_port *x = f_input(0);
    const f_port *y = f_output(0);
    const int ok = strcmp(x->name, "x") == 0 && strcmp(x->dtype, "f32") == 0 && x->bytes == 4 &&
                   x->rank == 2 && x->dims[0] == -1 && x->dims[1] == 4 &&
                   strcmp(x->dim_names[0], "N") == 0 && x->dim_names[1] == NULL &&
                   strcmp(y->dim_names[0], "N + 1") == 0 && f_input(2) == NULL &&
                   f_output(2) == NULL && f_output(UINT32_MAX) == NULL;
    expect(ok, 1, "metadata");
    expect(strcmp(f_status_text(-1), "unknown status"), 0, "text of a status that is none");
    expect(strcmp(f_status_text(F_STATUS_OK), "ok"), 0, "text of ok");
}

static void *thread_main(void *self)
{
    world *w = self;
    for (int i = 0; i < 20; i++) {
        expect(f_run(&w->in, &w->out, NULL, 0), F_STATUS_OK, "run in a thread");
        check_values(w);
    }
    return NULL;
}

static void check_threads(void)
{
    static world worlds[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        open_world(&worlds[i]);
        expect(pthread_create(&threads[i], NULL, thread_main, &worlds[i]), 0, "thread");
    }
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(threads[i], NULL);
        close_world(&worlds[i]);
    }
}

int main(int argc, char **argv)
{
    world w;
    (void)argv;
    open_world(&w);
    if (argc > 1) { /* the processor check was made to fail */
        expect(run(&w), F_STATUS_BAD_CPU, "a processor that lacks something");
    } else {
        check_right(&w);
        check_shapes(&w);
        check_pointers(&w);
        check_indices(&w);
        check_ports();
        check_threads();
    }
    close_world(&w);
    return bad;
}
