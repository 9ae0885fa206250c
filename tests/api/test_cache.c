/* The compile cache from C: a second context loads what the first has kept, the flags that switch
 * it off do, threads that compile the same and different graphs at once on one folder get right
 * answers, and packed weights that find no room are made again by the next. Entries are written
 * behind the first call: they are there without another call, a process that is killed meanwhile
 * leaves nothing broken, and a child made by fork waits for no thread of its parent's. */
#define _GNU_SOURCE
#include "api_check.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADS 6
#define ROUNDS 4

static const char text[] = "stir 1\n"
                           "graph @main(%%x: f32[2, 3], %%y: f32[2, 3]) {\n"
                           "  %%c = constant {value = f32[] {%d}}\n"
                           "  %%a = mul(%%x, %%c)\n"
                           "  %%b = add(%%a, %%y)\n"
                           "  return b: %%b\n"
                           "}\n";

typedef struct heard {
    pthread_mutex_t lock;
    int hits, kept;
} heard;

static void on_log(void *self, const char *channel, uint32_t level, const char *line)
{
    heard *h = self;
    (void)level;
    if (strcmp(channel, "cache") == 0) {
        (void)pthread_mutex_lock(&h->lock);
        h->hits += strncmp(line, "hit ", 4) == 0;
        h->kept += strncmp(line, "kept ", 5) == 0;
        (void)pthread_mutex_unlock(&h->lock);
    }
}

static stator_ctx *open_ctx(heard *h, uint32_t flags)
{
    const stator_ctx_options options = {
        .struct_size = sizeof options, .flags = flags, .threads = 1, .log = on_log, .log_self = h};
    stator_ctx *ctx = NULL;
    CHECK(stator_ctx_create(&options, &ctx) == STATOR_OK);
    return ctx;
}

/* Compiles "x * k + y" anew and calls it. */
static void run(stator_ctx *ctx, int k, uint32_t flags)
{
    const float values[6] = {1, 2, 3, 4, 5, 6};
    char graph[512];
    (void)snprintf(graph, sizeof graph, text, k);
    stator_model *model = load_text(ctx, graph);
    const stator_compile_options options = {
        .struct_size = sizeof options, .backend = "inductor-cpu", .flags = flags};
    stator_function *function = NULL;
    CHECK_OK(ctx, stator_compile(model, &options, &function));
    stator_tensor *in[2] = {tensor_2d(ctx, 2, 3, values), tensor_2d(ctx, 2, 3, values)};
    stator_tensor *out[1] = {NULL};
    CHECK_OK(ctx, stator_call_tensors(function, 2, in, 1, out));
    for (int i = 0; i < 6; i++) {
        CHECK(((const float *)stator_tensor_data(out[0]))[i] == values[i] * (float)(k + 1));
    }
    stator_tensor_release(out[0]);
    stator_tensor_release(in[0]);
    stator_tensor_release(in[1]);
    stator_function_destroy(function);
    stator_model_destroy(model);
}

static void expect(heard *h, int hits, int kept)
{
    CHECK(h->hits == hits && h->kept == kept);
    h->hits = h->kept = 0;
}

static int is_available(stator_ctx *ctx)
{
    stator_model *model = load_text(ctx, "stir 1\ngraph @main(%x: f32[2]) {\n  return x: %x\n}\n");
    const stator_compile_options options = {.struct_size = sizeof options,
                                            .backend = "inductor-cpu"};
    stator_function *function = NULL;
    const int is_ok = stator_compile(model, &options, &function) == STATOR_OK;
    stator_function_destroy(function);
    stator_model_destroy(model);
    return is_ok;
}

static void test_flags(heard *h)
{
    stator_ctx *first = open_ctx(h, 0);
    run(first, 1, 0);
    expect(h, 0, 1);
    run(first, 1, 0);
    expect(h, 1, 0);
    run(first, 1, STATOR_COMPILE_NO_CACHE);
    expect(h, 0, 0);
    run(first, 2, 0); /* another constant */
    expect(h, 0, 1);
    stator_ctx_destroy(first);
    stator_ctx *second = open_ctx(h, 0);
    run(second, 1, 0);
    expect(h, 1, 0);
    stator_ctx_destroy(second);
    stator_ctx *none = open_ctx(h, STATOR_CTX_NO_CACHE);
    run(none, 3, 0);
    run(none, 3, 0);
    expect(h, 0, 0);
    stator_ctx_destroy(none);
}

typedef struct worker {
    stator_ctx *ctx;
    int number;
} worker;

static void *work(void *self)
{
    const worker *w = self;
    for (int round = 0; round < ROUNDS; round++) {
        run(w->ctx, 10 + (w->number + round) % 3, 0);
    }
    return NULL;
}

/* Two contexts on one folder. */
static void test_threads(heard *h)
{
    pthread_t threads[THREADS];
    worker workers[THREADS];
    stator_ctx *ctx[2] = {open_ctx(h, 0), open_ctx(h, 0)};
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){ctx[i % 2], i};
        CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    CHECK(h->hits + h->kept == THREADS * ROUNDS && h->kept >= 3);
    stator_ctx_destroy(ctx[0]);
    stator_ctx_destroy(ctx[1]);
}

/* ---- packed weights ---- */

#define SIDE 160

static int count_data(const char *folder)
{
    char path[96];
    int n = 0;
    (void)snprintf(path, sizeof path, "%s/programs", folder);
    DIR *dir = opendir(path);
    CHECK(dir != NULL);
    for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        n += strstr(e->d_name, ".data") != NULL;
        CHECK(strncmp(e->d_name, ".tmp-", 5) != 0);
    }
    (void)closedir(dir);
    return n;
}

/* x[SIDE, SIDE] times weights that are `shift` on and above the diagonal, -1 below. */
static char *product_text(int shift)
{
    char *graph = malloc(SIDE * SIDE * 8 + 400);
    CHECK(graph != NULL);
    int n = sprintf(graph,
                    "stir 1\ngraph @main(%%x: f32[%d, %d]) {\n"
                    "  %%w = constant {value = f32[%d, %d] {",
                    SIDE, SIDE, SIDE, SIDE);
    for (int i = 0; i < SIDE * SIDE; i++) {
        n += sprintf(graph + n, "%s%d", i ? ", " : "", i % SIDE >= i / SIDE ? shift : -1);
    }
    (void)sprintf(graph + n, "}}\n  %%y = matmul(%%x, %%w)\n  return y: %%y\n}\n");
    return graph;
}

/* Compiles and calls it with a unit matrix; the bytes of packed weights. */
static uint64_t run_product(stator_ctx *ctx, int shift)
{
    static float unit[SIDE * SIDE];
    stator_x_memory sum = {.struct_size = sizeof sum};
    char *graph = product_text(shift);
    stator_model *model = load_text(ctx, graph);
    const stator_compile_options options = {.struct_size = sizeof options,
                                            .backend = "inductor-cpu"};
    stator_function *function = NULL;
    stator_tensor *out[1] = {NULL};
    for (int i = 0; i < SIDE; i++) {
        unit[i * SIDE + i] = 1;
    }
    CHECK_OK(ctx, stator_compile(model, &options, &function));
    stator_tensor *in[1] = {tensor_2d(ctx, SIDE, SIDE, unit)};
    CHECK_OK(ctx, stator_call_tensors(function, 1, in, 1, out));
    for (int i = 0; i < SIDE * SIDE; i++) {
        CHECK(((const float *)stator_tensor_data(out[0]))[i] ==
              (float)(i % SIDE >= i / SIDE ? shift : -1));
    }
    stator_x_memory_of(function, &sum);
    stator_tensor_release(out[0]);
    stator_tensor_release(in[0]);
    stator_function_destroy(function);
    stator_model_destroy(model);
    free(graph);
    return sum.packed_bytes;
}

/* No file may grow past so many bytes; 0: as before. */
static void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = bytes != 0 ? bytes : limit.rlim_max;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

/* Kept, and mapped by others; then on a disk on which code has room and weights have not. */
static void test_packs(heard *h, const char *folder)
{
    int n = count_data(folder);
    sigset_t pending;
    h->hits = h->kept = 0;
    stator_ctx *ctx = open_ctx(h, 0);
    const uint64_t packed = run_product(ctx, 20);
    expect(h, 0, 1);
    n += packed != 0;
    CHECK(count_data(folder) == n);
    CHECK(run_product(ctx, 20) == packed);
    expect(h, 1, 0);
    stator_ctx_destroy(ctx);
    ctx = open_ctx(h, 0);
    CHECK(run_product(ctx, 20) == packed);
    expect(h, 1, 0);
    limit_files(60000); /* and SIGXFSZ would end this process */
    CHECK(run_product(ctx, 21) == packed);
    expect(h, 0, 1);
    CHECK(count_data(folder) == n);
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 0);
    limit_files(0);
    stator_ctx_destroy(ctx);
    ctx = open_ctx(h, 0);
    CHECK(run_product(ctx, 21) == packed);
    expect(h, 1, 0);
    CHECK(count_data(folder) == n + (packed != 0));
    stator_ctx_destroy(ctx);
}

/* ---- behind the first call ---- */

typedef struct product {
    stator_model *model;
    stator_function *function;
    stator_tensor *in[1];
    stator_tensor *out[1];
} product;

/* Compiles the product and calls it; the function stays. */
static void open_product(stator_ctx *ctx, int shift, product *p)
{
    static float ones[SIDE * SIDE];
    const stator_compile_options options = {.struct_size = sizeof options,
                                            .backend = "inductor-cpu"};
    char *graph = product_text(shift);
    p->model = load_text(ctx, graph);
    p->out[0] = NULL;
    for (int i = 0; i < SIDE * SIDE; i++) {
        ones[i] = 1;
    }
    CHECK_OK(ctx, stator_compile(p->model, &options, &p->function));
    p->in[0] = tensor_2d(ctx, SIDE, SIDE, ones);
    CHECK_OK(ctx, stator_call_tensors(p->function, 1, p->in, 1, p->out));
    free(graph);
}

static void close_product(product *p)
{
    stator_tensor_release(p->in[0]);
    stator_tensor_release(p->out[0]);
    stator_function_destroy(p->function);
    stator_model_destroy(p->model);
}

static int kept(heard *h)
{
    (void)pthread_mutex_lock(&h->lock);
    const int n = h->kept;
    (void)pthread_mutex_unlock(&h->lock);
    return n;
}

static void wait_ms(long ms)
{
    const struct timespec wait = {0, ms * 1000000};
    (void)nanosleep(&wait, NULL);
}

/* Nothing else is asked of the library until the entry is there; then it is a hit for another
 * context while the first function lives. */
static void test_behind(heard *h)
{
    product first;
    product second;
    stator_ctx *ctx = open_ctx(h, 0);
    stator_ctx *other = open_ctx(h, 0);
    h->hits = h->kept = 0;
    open_product(ctx, 30, &first);
    while (kept(h) == 0) {
        wait_ms(1);
    }
    open_product(other, 30, &second);
    expect(h, 1, 1);
    close_product(&second);
    close_product(&first);
    open_product(ctx, 31, &first); /* and one that is asked for while it waits */
    open_product(ctx, 31, &second);
    expect(h, 1, 1);
    close_product(&second);
    close_product(&first);
    stator_ctx_destroy(other);
    stator_ctx_destroy(ctx);
}

/* The child of a fork ends what it has of its parent's. */
static void test_fork(heard *h)
{
    product p;
    int status = -1;
    stator_ctx *ctx = open_ctx(h, 0);
    open_product(ctx, 32, &p);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close_product(&p);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    close_product(&p);
    stator_ctx_destroy(ctx);
}

/* Killed at any time behind the first call: the next process has right answers. */
static void test_killed(heard *h)
{
    for (int round = 0; round < 24; round++) {
        int ready[2];
        char byte = 0;
        CHECK(pipe(ready) == 0);
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            product p;
            open_product(open_ctx(h, 0), 40 + round, &p);
            CHECK(write(ready[1], &byte, 1) == 1);
            for (;;) {
                (void)pause();
            }
        }
        CHECK(read(ready[0], &byte, 1) == 1);
        const struct timespec wait = {0, round * 50000};
        (void)nanosleep(&wait, NULL);
        CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
        (void)close(ready[0]);
        (void)close(ready[1]);
        h->hits = h->kept = 0;
        stator_ctx *ctx = open_ctx(h, 0);
        (void)run_product(ctx, 40 + round);
        (void)run_product(ctx, 40 + round);
        CHECK(h->hits + h->kept == 2 && h->hits >= 1);
        stator_ctx_destroy(ctx);
    }
}

int main(void)
{
    char folder[] = "/tmp/stator-api-cache-XXXXXX";
    char command[96];
    heard h = {.lock = PTHREAD_MUTEX_INITIALIZER};
    CHECK(mkdtemp(folder) != NULL);
    CHECK(setenv("STATOR_CACHE_DIR", folder, 1) == 0 && unsetenv("STATOR_CACHE") == 0 &&
          setenv("STATOR_LOGS", "cache", 1) == 0);
    stator_ctx *ctx = open_ctx(&h, 0);
    const int is_here = is_available(ctx);
    stator_ctx_destroy(ctx);
    h.hits = h.kept = 0;
    if (is_here) {
        test_flags(&h);
        test_threads(&h);
        test_packs(&h, folder);
        test_behind(&h);
        test_fork(&h);
        test_killed(&h);
    } else {
        (void)puts("inductor-cpu is not available here: nothing is kept");
    }
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    CHECK(system(command) == 0);
    return 0;
}
