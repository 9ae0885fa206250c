/* graph_fuzz: random graphs on `eager` and another backend, compared.
 *
 *   graph_fuzz BACKEND FIRST COUNT [FOLDER]   seeds FIRST ..; failures, made small, go to FOLDER
 *   graph_fuzz BACKEND replay FILE...         those again
 *   graph_fuzz BACKEND print SEED             its text
 *   graph_fuzz BACKEND bits FIRST COUNT [CALLS]  for each seed what the backend computes: a hash,
 *                                             how many of the calls (2) changed it, and how many
 *                                             nodes other backends had; or a sentence
 *
 * Environment: GF_PLUGINS, a folder of plugins; GF_BOUNDS, kernels of inductor-cpu check each
 * index; GF_MODE, the backend's mode; GF_KEY and GF_VALUE, an option of it (or some: A,B);
 * GF_THREADS, how many (2); GF_CHAINS, other graphs: contractions and what may be done in them;
 * GF_GRADIENTS, joint graphs of the graphs: seeds are gone through until COUNT of them have one;
 * GF_INVALID, a line for each program that eager refuses; GF_NOISE, print writes the noisy variant.
 *
 * Programs run in a child process, so that a crash is one failure. Status 0: no failure. */
#define _GNU_SOURCE
#include "gf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define TIME_LIMIT_S 60 /* of the processors */
#define CLOCK_LIMIT_S                                                                              \
    600 /* that a busy machine keeps, and a program that waits for ever does not */
#define CRASHED 9
#define NO_GRADIENT 8
#define FAILURES_MAX 20 /* more say nothing new */
#define INVALID_SHARE 50u

typedef struct board { /* shared with the child */
    uint64_t seed;
    int verdict;
    uint64_t counts[10];
    uint64_t left;  /* programs to judge */
    uint64_t nodes; /* of those that were judged */
    char why[512];
    char text[GF_TEXT]; /* of the program that is judged, where GF_GRADIENTS made it */
} board;

typedef struct fuzzer {
    const char *backend;
    const char *folder;
    board *shared;
    char why[512];
} fuzzer;

static stator_ctx *open_context(void)
{
    stator_ctx *ctx = NULL;
    static const char *dirs[1];
    stator_ctx_options options = {.struct_size = sizeof options, .threads = 2};
    const char *threads = getenv("GF_THREADS");
    if (threads) {
        options.threads = (int32_t)strtol(threads, NULL, 10);
    }
    dirs[0] = getenv("GF_PLUGINS");
    if (dirs[0]) {
        options.plugin_dirs = dirs;
        options.plugin_dir_count = 1;
    }
    if (stator_ctx_create(&options, &ctx) != STATOR_OK) {
        (void)fprintf(stderr, "cannot make a context\n");
        exit(3);
    }
    return ctx;
}

static void limit_time(void)
{
    const struct itimerval limit = {.it_value = {.tv_sec = TIME_LIMIT_S}};
    (void)setitimer(ITIMER_PROF, &limit, NULL);
    (void)alarm(CLOCK_LIMIT_S);
}

/* ---- one program in a child ---- */

static int judge_apart(const fuzzer *f, const gf_program *p, char why[512])
{
    (void)fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        limit_time();
        stator_ctx *ctx = open_context();
        f->shared->verdict = gf_judge(ctx, p, f->backend, f->shared->why);
        _exit(0);
    }
    int status = 0;
    (void)waitpid(pid, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        (void)snprintf(why, 512, "crashed: %s",
                       WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "a sanitizer");
        return CRASHED;
    }
    (void)snprintf(why, 512, "%s", f->shared->why);
    return f->shared->verdict;
}

typedef struct shrinking {
    fuzzer *f;
    int verdict;
} shrinking;

static int fails_alike(void *self, const gf_program *p)
{
    const shrinking *s = self;
    char why[512] = "";
    return judge_apart(s->f, p, why) == s->verdict;
}

/* The program of a seed, or its joint one, whose text the board then has; what gf_differentiate
 * says. */
static int make(const fuzzer *f, stator_ctx *ctx, uint64_t seed, gf_program *p, char why[512])
{
    gf_generate(p, seed);
    if (getenv("GF_GRADIENTS") == NULL) {
        return 1;
    }
    (void)gf_write(p, 0, f->shared->text);
    const int answer = gf_differentiate(ctx, p, why);
    (void)(answer == 1 && gf_write(p, 0, f->shared->text));
    return answer;
}

static void report(fuzzer *f, uint64_t seed, int verdict, const char *why)
{
    static const char *const names[] = {"agrees", "DIFFERS", "invalid", "FAILED", "refused"};
    static gf_program p;
    static char text[GF_TEXT];
    shrinking s = {f, verdict};
    (void)printf("seed %" PRIu64 ": %s: %s\n", seed,
                 verdict == CRASHED ? "CRASHED" : names[verdict], why);
    if (getenv("GF_GRADIENTS") == NULL || !gf_read(f->shared->text, &p)) {
        gf_generate(&p, seed);
    }
    gf_shrink(&p, fails_alike, &s);
    (void)judge_apart(f, &p, f->why);
    (void)gf_write(&p, 0, text);
    (void)printf("shrunk: %s\n%s\n", f->why, text);
    if (f->folder) {
        char path[4096];
        (void)snprintf(path, sizeof path, "%s/seed_%" PRIu64 ".stir", f->folder, seed);
        FILE *out = fopen(path, "w");
        if (out) {
            (void)fputs(text, out);
            (void)fclose(out);
        }
    }
}

/* ---- many ---- */

/* Is the text read back as it was written? Then a kept case is the program that failed. */
static int is_read_back(const gf_program *p)
{
    static gf_program again;
    static char text[GF_TEXT];
    static char second[GF_TEXT];
    return gf_write(p, 0, text) && gf_read(text, &again) && gf_write(&again, 0, second) &&
           strcmp(text, second) == 0;
}

static void run_seeds(const fuzzer *f, uint64_t first)
{
    stator_ctx *ctx = open_context();
    static gf_program p;
    char why[512];
    for (uint64_t seed = first; f->shared->left > 0; seed++) {
        f->shared->seed = seed;
        limit_time();
        why[0] = '\0';
        const int made = make(f, ctx, seed, &p, why);
        if (made == 0) {
            f->shared->counts[NO_GRADIENT]++;
            continue;
        }
        f->shared->left--;
        int verdict = GF_FAILED;
        if (made < 0) {
            /* `why` says it */
        } else if (is_read_back(&p)) {
            verdict = gf_judge(ctx, &p, f->backend, why);
        } else {
            (void)snprintf(why, sizeof why, "its text is not read back");
        }
        f->shared->counts[verdict]++;
        f->shared->nodes += (uint64_t)p.n_nodes;
        if (verdict == GF_INVALID && getenv("GF_INVALID")) {
            (void)printf("seed %" PRIu64 " invalid: %s\n", seed, why);
        }
        if (verdict == GF_DIFFERS || verdict == GF_FAILED) {
            f->shared->verdict = verdict;
            memcpy(f->shared->why, why, sizeof why);
            _exit(1);
        }
    }
    stator_ctx_destroy(ctx);
    (void)fflush(NULL);
    _exit(0);
}

static int fuzz(fuzzer *f, uint64_t first, uint64_t count)
{
    uint64_t failures = 0;
    board *b = f->shared;
    b->left = count;
    for (uint64_t seed = first; b->left > 0 && failures < FAILURES_MAX;) {
        int status = 0;
        (void)fflush(NULL);
        const pid_t pid = fork();
        if (pid == 0) {
            run_seeds(f, seed);
        }
        (void)waitpid(pid, &status, 0);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
            break;
        }
        const int is_verdict = WIFEXITED(status) && WEXITSTATUS(status) == 1;
        char why[512];
        (void)snprintf(why, sizeof why, "%s",
                       is_verdict            ? b->why
                       : WIFSIGNALED(status) ? strsignal(WTERMSIG(status))
                                             : "ended early");
        failures++;
        seed = b->seed;
        report(f, seed, is_verdict ? b->verdict : CRASHED, why);
        seed++;
    }
    const uint64_t invalid = b->counts[GF_INVALID] + b->counts[GF_REFUSED];
    (void)printf("%s: %" PRIu64 " graphs from seed %" PRIu64 ": %" PRIu64 " agree, %" PRIu64
                 " failures%s, %" PRIu64 " invalid\n",
                 f->backend, count, first, b->counts[GF_AGREES], failures,
                 failures < FAILURES_MAX ? "" : " (stopped)", invalid);
    if (b->counts[NO_GRADIENT] > 0) {
        (void)printf("joint graphs of %" PRIu64 " nodes; %" PRIu64 " graphs have none\n", b->nodes,
                     b->counts[NO_GRADIENT]);
    }
    /* What eager refuses tests nothing: some are bad luck, many a broken generator. */
    return failures || invalid * INVALID_SHARE > count ? 1 : 0;
}

static int replay(fuzzer *f, int n, char **files)
{
    static gf_program p;
    static char text[GF_TEXT];
    int bad = 0;
    for (int i = 0; i < n; i++) {
        FILE *in = fopen(files[i], "r");
        const size_t len = in ? fread(text, 1, GF_TEXT - 1, in) : 0;
        text[len] = '\0';
        if (in) {
            (void)fclose(in);
        }
        char why[512] = "the file cannot be read";
        const int verdict = gf_read(text, &p) ? judge_apart(f, &p, why) : GF_INVALID;
        if (verdict != GF_AGREES && verdict != GF_REFUSED) {
            (void)printf("BAD %s: %s\n", files[i], why);
            bad++;
        }
    }
    (void)printf("%s: %d graphs, %d failures\n", f->backend, n, bad);
    return bad ? 1 : 0;
}

/* ---- bits for another machine to compare with ---- */

static void print_lines(const fuzzer *f, uint64_t first, uint64_t end, int calls)
{
    stator_ctx *ctx = open_context();
    static gf_program p;
    for (uint64_t seed = first; seed < end; seed++) {
        gf_answer answer;
        char why[512] = "";
        f->shared->seed = seed;
        limit_time();
        if (make(f, ctx, seed, &p, why) != 1) {
            continue;
        }
        if (gf_bits(ctx, &p, f->backend, calls, &answer, why)) {
            (void)printf("%" PRIu64 " %016" PRIx64 " %d %u\n", seed, answer.bits, answer.changes,
                         answer.others);
        } else {
            (void)printf("%" PRIu64 " error: %.*s\n", seed, (int)strcspn(why, "\n"), why);
        }
        (void)fflush(stdout);
    }
    stator_ctx_destroy(ctx);
    _exit(0);
}

static int print_bits(const fuzzer *f, uint64_t first, uint64_t count, int calls)
{
    int status = 0;
    for (uint64_t seed = first; seed < first + count;) {
        (void)fflush(NULL);
        const pid_t pid = fork();
        if (pid == 0) {
            print_lines(f, seed, first + count, calls);
        }
        (void)waitpid(pid, &status, 0);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
            break;
        }
        (void)printf("%" PRIu64 " error: crashed: %s\n", f->shared->seed,
                     WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "ended early");
        seed = f->shared->seed + 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        (void)fprintf(stderr,
                      "usage: graph_fuzz BACKEND FIRST COUNT [FOLDER] | BACKEND replay FILE... "
                      "| BACKEND print SEED | BACKEND bits FIRST COUNT [CALLS]\n");
        return 2;
    }
    if (!gf_has_sound_options(argv[1])) {
        (void)fprintf(stderr,
                      "GF_KEY and GF_VALUE: as many keys as values are wanted, 5 at most\n");
        return 2;
    }
    fuzzer f = {.backend = argv[1], .folder = argc > 4 ? argv[4] : NULL};
    f.shared =
        mmap(NULL, sizeof *f.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (f.shared == MAP_FAILED) {
        return 3;
    }
    memset(f.shared, 0, sizeof *f.shared);
    if (strcmp(argv[2], "replay") == 0) {
        return replay(&f, argc - 3, argv + 3);
    }
    if (strcmp(argv[2], "print") == 0) {
        static gf_program p;
        static char text[GF_TEXT];
        char why[512] = "";
        stator_ctx *ctx = open_context();
        if (make(&f, ctx, strtoull(argv[3], NULL, 10), &p, why) != 1) {
            (void)fprintf(stderr, "no joint graph: %s\n", why);
        }
        stator_ctx_destroy(ctx);
        (void)gf_write(&p, getenv("GF_NOISE") != NULL, text);
        (void)fputs(text, stdout);
        return 0;
    }
    if (strcmp(argv[2], "bits") == 0) {
        const long calls = argc > 5 ? strtol(argv[5], NULL, 10) : 2;
        return print_bits(&f, strtoull(argv[3], NULL, 10),
                          argc > 4 ? strtoull(argv[4], NULL, 10) : 1, calls > 0 ? (int)calls : 1);
    }
    return fuzz(&f, strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
}
