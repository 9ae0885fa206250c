/* stator conform: test cases on a backend, in child processes, so that a crash is one failure and
 * not the end of the run. A child runs one case, or with --batch several in one context, for
 * devices whose contexts are slow to make; it ends at the first that fails, so that what a case
 * leaves behind harms no other. Needs no source tree: cases come from --cases DIR in ONNX's test
 * layout, a skip list lies beside the plugin (<name>.skip: a case name, blanks, the reason), others
 * come with --skip. A skipped case that passes is a failure, as is an unsupported op. What the
 * reference's list names is skipped for every backend that fails it. */
#define _GNU_SOURCE
#include "tools/cli/cli.h"

#include "tools/conform_cases.h"

#include "core/base/fdio.h"
#include "core/base/map.h"
#include "core/base/threads/threads.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define REASON_SIZE 1024u
#define RECORD_SIZE (REASON_SIZE + 64u) /* what a child says of a case, with the 0 behind it */
#define JOBS_MAX 64u
#define TRIES_MAX 5u /* tries to make a child while none runs, 0.2 s apart */

typedef struct child {
    pid_t pid; /* 0: slot is free */
    int fd;
    uint32_t index; /* the case that it runs */
    uint32_t end;   /* behind its last case; those up to there are left if it ends before */
    uint64_t start_ns;
    char text[RECORD_SIZE]; /* of the case's record, what has been read */
    size_t len;
    bool has_told; /* of a case at least */
} child;

typedef struct run_state {
    child slots[JOBS_MAX];
    uint32_t n_slots;
    uint32_t next; /* the next case to start */
    uint32_t running;
    uint32_t tries; /* failed starts in a row while no child ran */
} run_state;

typedef struct conform {
    cli_common common;
    cli_compile compile;
    const char *cases_dir;
    int64_t jobs;
    int64_t batch;
    int64_t timeout_s;
    case_list cases;
    skip_list skips;
    skip_list reference_skips; /* cases that may pass */
    cli_list skip_files;
    uint32_t passed, failed, skipped;
    uint32_t compiled, whole; /* cases; those with every node on the backend itself */
    cJSON **rows;             /* with --json: one a case, in the order of the cases */
} conform;

/* ---- in the child ---- */

/* Takes the results into a hash of all that a case computes. */
static void hash_bits(stator_tensor *const *out, uint32_t n_out, uint64_t *bits)
{
    for (uint32_t k = 0; k < n_out; k++) {
        const void *data = stator_tensor_data(out[k]);
        if (data != NULL) {
            *bits = st_hash64(data, stator_tensor_size_bytes(out[k]), *bits);
        }
    }
}

/* A case's model, compiled. */
typedef struct opened {
    stator_ctx *ctx;
    stator_model *model;
    stator_function *function;
} opened;

/* Runs one data set; 1 when every output matches, else a reason. */
static bool run_set(const opened *o, const test_case *c, uint32_t set, uint64_t *bits, char *reason)
{
    stator_ctx *ctx = o->ctx;
    char dir[4096];
    cli_tensors want = {.ctx = ctx};
    (void)snprintf(dir, sizeof dir, "%s/test_data_set_%u", c->path, set);
    stator_tensor **in = NULL;
    uint32_t n_in = 0;
    const cli_inputs flags = {.inputs = dir, .random = -1};
    if (!cli_load_inputs(ctx, o->model, &flags, -1, &in, &n_in)) {
        (void)snprintf(reason, REASON_SIZE, "%s", cli_last_error());
        return false;
    }
    char errbuf[512];
    if (!cli_read_pb_folder(ctx, dir, "output", &want, errbuf)) {
        (void)snprintf(reason, REASON_SIZE, "%s", errbuf);
        return false;
    }
    const uint32_t n_out = stator_model_output_count(o->model);
    stator_tensor **out = calloc(n_out + 1u, sizeof(stator_tensor *));
    if (out == NULL || stator_call_tensors(o->function, n_in, in, n_out, out) != STATOR_OK) {
        (void)snprintf(reason, REASON_SIZE, "%s: %s",
                       stator_status_name(stator_ctx_error_code(ctx)), stator_ctx_error_text(ctx));
        return false;
    }
    if (want.count == 0) {
        (void)snprintf(reason, REASON_SIZE, "set %u holds no output_0.pb to compare with", set);
        return false;
    }
    if (want.count > n_out) {
        (void)snprintf(reason, REASON_SIZE, "%u outputs, expected %u", n_out, want.count);
        return false;
    }
    hash_bits(out, n_out, bits);
    for (uint32_t k = 0; k < want.count; k++) {
        st_difference d;
        st_compare(stator_tensor_view(out[k]), stator_tensor_view(want.tensors[k]), &c->tolerance,
                   &d);
        if (!d.ok) {
            (void)snprintf(reason, REASON_SIZE,
                           "set %u, output %u differs in %s%s%s (max abs error %g, rel %g)", set, k,
                           d.reason, d.detail[0] != '\0' ? ": " : "", d.detail, d.max_abs,
                           d.max_rel);
            return false;
        }
    }
    cli_free_inputs(in, n_in);
    cli_free_inputs(out, n_out);
    cli_tensors_free(&want);
    return true;
}

/* Nodes that the backend runs itself, and those that others run for it. */
typedef struct shares {
    unsigned own, others;
    unsigned made; /* 1: the case was compiled */
    uint64_t bits; /* hash of the results; 0: there are none */
} shares;

static void count_shares(const conform *s, stator_function *function, shares *out)
{
    stator_coverage rows[CLI_COVERAGE_MAX];
    const uint32_t n = cli_coverage(function, rows);
    out->made = 1;
    for (uint32_t i = 0; i < n; i++) {
        const bool is_own = strcmp(rows[i].backend, s->compile.backend) == 0;
        *(is_own ? &out->own : &out->others) += rows[i].nodes;
    }
}

static bool run_case(const conform *s, stator_ctx *ctx, const test_case *c, shares *out_shares,
                     char *reason)
{
    stator_model *model = NULL;
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/model.onnx", c->path);
    if (stator_model_load(ctx, path, NULL, &model) != STATOR_OK) {
        (void)snprintf(reason, REASON_SIZE, "%s: %s",
                       stator_status_name(stator_ctx_error_code(ctx)), stator_ctx_error_text(ctx));
        return false;
    }
    stator_function *function = cli_compile_model(ctx, model, &s->compile, s->compile.backend, -1);
    bool ok = function != NULL;
    if (!ok) {
        (void)snprintf(reason, REASON_SIZE, "%s", cli_last_error());
    }
    const opened o = {.ctx = ctx, .model = model, .function = function};
    for (uint32_t set = 0; ok && set < c->n_sets; set++) {
        ok = run_set(&o, c, set, &out_shares->bits, reason);
    }
    if (function != NULL) {
        count_shares(s, function, out_shares);
    }
    stator_function_destroy(function);
    stator_model_destroy(model);
    return ok;
}

/* Tells the parent how a case ended: a record of text that ends with a 0. */
static bool tell(int fd, bool ok, const shares *nodes, const char *reason)
{
    char record[RECORD_SIZE];
    (void)snprintf(record, sizeof record, "%s%u %u %u %" PRIx64 ";%s", ok ? "P" : "F", nodes->made,
                   nodes->own, nodes->others, nodes->bits, reason);
    return st_write_all(fd, record, strlen(record) + 1);
}

static _Noreturn void child_main(const conform *s, uint32_t first, uint32_t end, int fd)
{
    stator_ctx *ctx = NULL;
    bool ok = true;
    bool is_told = true;
    const bool is_open = cli_open(&s->common, &ctx) == STATOR_OK;
    for (uint32_t i = first; i < end && ok && is_told; i++) {
        char reason[REASON_SIZE] = "cannot make a context";
        shares nodes = {0};
        if (is_open) {
            reason[0] = '\0';
        }
        ok = is_open && run_case(s, ctx, &s->cases.items[i], &nodes, reason);
        is_told = tell(fd, ok, &nodes, reason);
    }
    _exit(is_told ? 0 : 1);
}

/* ---- in the parent ---- */

/* 1, or 0 with errno. */
static bool start_child(const conform *s, child *slot, uint32_t first, uint32_t end)
{
    int fds[2];
    ST_NEED(pipe(fds) == 0);
    (void)fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        (void)close(fds[0]);
        child_main(s, first, end, fds[1]);
    }
    const int why = errno;
    (void)close(fds[1]);
    if (pid < 0) {
        (void)close(fds[0]);
        errno = why;
        return false;
    }
    *slot = (child){.pid = pid, .fd = fds[0], .index = first, .end = end, .start_ns = st_now_ns()};
    return true;
}

static void one_line(char *text)
{
    for (char *p = text; *p != '\0'; p++) {
        *p = *p == '\n' ? ' ' : *p;
    }
}

static void report(conform *s, uint32_t index, const char *status, const shares *nodes,
                   const char *reason)
{
    const char *name = s->cases.items[index].name;
    s->compiled += nodes->made;
    s->whole += nodes->made && nodes->others == 0;
    if (s->common.json) {
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "name", name);
        cJSON_AddStringToObject(row, "status", status);
        cJSON_AddNumberToObject(row, "nodes", nodes->own + nodes->others);
        cJSON_AddNumberToObject(row, "elsewhere", nodes->others);
        char bits[20];
        (void)snprintf(bits, sizeof bits, "%016" PRIx64, nodes->bits);
        cli_json_text(row, "bits", nodes->bits != 0 ? bits : NULL);
        cli_json_text(row, "reason", reason[0] != '\0' ? reason : NULL);
        s->rows[index] = row;
    } else {
        char clean[CLI_CLEAN_BYTES], why[CLI_CLEAN_BYTES];
        (void)printf("%s %s%s%s\n", status, cli_clean(name, clean), reason[0] != '\0' ? ": " : "",
                     cli_clean(reason, why));
    }
}

/* Judges the case that a child has told of, or at which it has ended. */
static void judge(conform *s, child *slot, int wait_status)
{
    char reason[RECORD_SIZE] = "";
    shares nodes = {0};
    bool ok = false;
    if (WIFSIGNALED(wait_status)) {
        (void)snprintf(reason, sizeof reason, "crashed: %s", strsignal(WTERMSIG(wait_status)));
    } else if (slot->len == 0) {
        (void)snprintf(reason, sizeof reason, "ended with status %d and no result",
                       WEXITSTATUS(wait_status));
    } else {
        ok = slot->text[0] == 'P';
        (void)sscanf(slot->text + 1, "%u %u %u %" SCNx64, &nodes.made, &nodes.own, &nodes.others,
                     &nodes.bits);
        const char *why = strchr(slot->text, ';');
        (void)snprintf(reason, sizeof reason, "%s", why ? why + 1 : slot->text + 1);
    }
    one_line(reason);
    const char *name = s->cases.items[slot->index].name;
    const char *own = skip_reason(&s->skips, name);
    const char *skip = own != NULL ? own : skip_reason(&s->reference_skips, name);
    if (skip == NULL || (ok && own == NULL)) {
        report(s, slot->index, ok ? "PASS" : "FAIL", &nodes, reason);
        *(ok ? &s->passed : &s->failed) += 1;
    } else if (ok) {
        report(s, slot->index, "FAIL", &nodes, "is on the skip list but passes: remove it there");
        s->failed++;
    } else {
        report(s, slot->index, "SKIP", &nodes, skip);
        s->skipped++;
    }
    slot->index++;
    slot->len = 0;
    slot->start_ns = st_now_ns();
}

/* Takes the child's end, and judges the case at which it ended unless it ended between two. */
static void end_child(conform *s, child *slot)
{
    int wait_status = 0;
    (void)close(slot->fd);
    (void)waitpid(slot->pid, &wait_status, 0);
    const bool is_crash = !WIFEXITED(wait_status) || WEXITSTATUS(wait_status) != 0;
    if (slot->index < slot->end && (is_crash || !slot->has_told)) {
        slot->len = 0;
        judge(s, slot, wait_status);
    }
    slot->pid = 0;
}

/* Reads what a child says; 1 when it has ended. */
static bool read_child(conform *s, child *slot)
{
    char bytes[RECORD_SIZE];
    const ssize_t n = read(slot->fd, bytes, sizeof bytes);
    ST_NEED(n >= 0 || errno != EINTR);
    for (ssize_t i = 0; i < n; i++) {
        slot->text[slot->len] = bytes[i];
        if (bytes[i] == '\0' && slot->index < slot->end) {
            slot->has_told = true;
            judge(s, slot, 0);
        } else if (slot->len < RECORD_SIZE - 1) {
            slot->len++;
        }
    }
    if (n <= 0) {
        end_child(s, slot);
    }
    return n <= 0;
}

static void kill_hung(conform *s, child *slot)
{
    if ((st_now_ns() - slot->start_ns) / 1000000000u > (uint64_t)s->timeout_s) {
        int wait_status = 0;
        (void)kill(slot->pid, SIGKILL);
        (void)close(slot->fd);
        (void)waitpid(slot->pid, &wait_status, 0);
        slot->len = (size_t)snprintf(slot->text, RECORD_SIZE, "F0 0 0 0;no answer after %lld s",
                                     (long long)s->timeout_s);
        judge(s, slot, 0);
        slot->pid = 0;
    }
}

/* The cases that a free slot runs next: what its last child has left, else the next ones, fewer
 * towards the end so that all slots end at once. False: there are none. */
static bool choose_cases(const conform *s, const run_state *r, const child *slot,
                         uint32_t *out_first, uint32_t *out_end)
{
    const uint32_t left = s->cases.count - r->next;
    const uint32_t fair = left / (2 * r->n_slots) + 1;
    const uint32_t n = (uint32_t)s->batch < fair ? (uint32_t)s->batch : fair;
    const bool has_rest = slot->index < slot->end;
    *out_first = has_rest ? slot->index : r->next;
    *out_end = has_rest ? slot->end : r->next + n;
    return has_rest || left > 0;
}

/* Fills the free slots. A child that cannot be made now may be made when others have ended; when
 * none runs, a few tries later it cannot be helped. */
static cli_status fill_slots(const conform *s, run_state *r)
{
    for (uint32_t i = 0; i < r->n_slots; i++) {
        uint32_t first = 0;
        uint32_t end = 0;
        if (r->slots[i].pid != 0 || !choose_cases(s, r, &r->slots[i], &first, &end)) {
            continue;
        }
        if (start_child(s, &r->slots[i], first, end)) {
            r->next = first == r->next ? end : r->next;
            r->running++;
            r->tries = 0;
            continue;
        }
        CLI_FAIL_IF(r->running == 0 && ++r->tries == TRIES_MAX, s->common.json,
                    "RESOURCE_EXHAUSTED",
                    "fewer --jobs, or higher limits of processes and open files (ulimit)",
                    "cannot start a child process for case '%s': %s", s->cases.items[first].name,
                    strerror(errno));
        break;
    }
    return CLI_OK;
}

/* Cases that no child has been given, or that one has left. */
static bool has_cases_left(const conform *s, const run_state *r)
{
    bool is_left = r->next < s->cases.count;
    for (uint32_t i = 0; i < r->n_slots && !is_left; i++) {
        is_left = r->slots[i].index < r->slots[i].end;
    }
    return is_left;
}

/* Waits until a child says something, and hears it. */
static void hear_children(conform *s, run_state *r)
{
    struct pollfd fds[JOBS_MAX];
    child *which[JOBS_MAX];
    nfds_t n = 0;
    for (uint32_t i = 0; i < r->n_slots; i++) {
        if (r->slots[i].pid != 0) {
            fds[n] = (struct pollfd){.fd = r->slots[i].fd, .events = POLLIN};
            which[n++] = &r->slots[i];
        }
    }
    (void)poll(fds, n, n > 0 ? 1000 : 200);
    for (nfds_t i = 0; i < n; i++) {
        if (fds[i].revents != 0) {
            r->running -= (uint32_t)read_child(s, which[i]);
        } else {
            kill_hung(s, which[i]);
            r->running -= which[i]->pid == 0;
        }
    }
}

static cli_status run_cases(conform *s)
{
    run_state r = {.n_slots = s->jobs < 1 ? 1u : s->jobs < JOBS_MAX ? (uint32_t)s->jobs : JOBS_MAX};
    const int is_shown = isatty(STDERR_FILENO);
    while (has_cases_left(s, &r) || r.running > 0) {
        CLI_TRY(fill_slots(s, &r));
        hear_children(s, &r);
        if (is_shown) {
            (void)fprintf(stderr, "\r%u of %u ", s->passed + s->failed + s->skipped,
                          s->cases.count);
        }
    }
    if (is_shown) {
        (void)fprintf(stderr, "\n");
    }
    return CLI_OK;
}

static void print_summary(conform *s)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddNumberToObject(root, "passed", s->passed);
    cJSON_AddNumberToObject(root, "failed", s->failed);
    cJSON_AddNumberToObject(root, "skipped", s->skipped);
    cJSON_AddNumberToObject(root, "compiled", s->compiled);
    cJSON_AddNumberToObject(root, "whole", s->whole);
    cJSON *cases = cJSON_AddArrayToObject(root, "cases");
    for (uint32_t i = 0; i < s->cases.count; i++) {
        cJSON_AddItemToArray(cases, s->rows[i]);
        s->rows[i] = NULL;
    }
    cli_print_json(root);
}

static cli_status conform_backend(conform *s, const char *backend)
{
    char errbuf[512];
    skip_paths paths;
    CLI_TRY(find_conform_backend(&s->common, backend, s->compile.fallback != NULL,
                                 &s->compile.backend, &paths));
    CLI_FAIL_IF(
        s->cases_dir == NULL || !find_cases(s->cases_dir, &s->cases, errbuf) || s->cases.count == 0,
        s->common.json, "NOT_FOUND", "--cases DIR is searched for model.onnx",
        "no test case found in '%s'", s->cases_dir != NULL ? s->cases_dir : "(no --cases given)");
    (void)read_skips(paths.own, &s->skips); /* there need be none */
    (void)read_skips(paths.reference, &s->reference_skips);
    for (uint32_t i = 0; i < s->skip_files.count; i++) {
        CLI_FAIL_IF(!read_skips(s->skip_files.items[i], &s->skips), s->common.json, "NOT_FOUND",
                    "a line of the file is a case's name, blanks and the reason",
                    "the skip list '%s' cannot be read", s->skip_files.items[i]);
    }
    s->rows = calloc(s->cases.count, sizeof(cJSON *));
    CLI_FAIL_IF(s->rows == NULL, s->common.json, "RESOURCE_EXHAUSTED", NULL, "out of memory");
    const cli_status ran = run_cases(s);
    if (ran != CLI_OK) {
        return ran;
    }
    if (s->common.json) {
        print_summary(s);
    } else {
        (void)printf("%u of %u cases have every node on %s\n", s->whole, s->compiled,
                     s->compile.backend);
        (void)printf("%u passed, %u failed, %u skipped\n", s->passed, s->failed, s->skipped);
    }
    return s->failed == 0 ? CLI_OK : CLI_WRONG;
}

cli_status cmd_conform(int argc, char **argv)
{
    conform s = {.jobs = st_cpu_count(),
                 .batch = 1,
                 .timeout_s = 600,
                 .common = {.threads = 1},
                 .compile = {.compile_flags = STATOR_COMPILE_FILL_OUTPUTS}};
    const cli_option own[] = {
        {"--cases", CLI_TEXT, &s.cases_dir, "DIR", "folder searched for test cases"},
        {"--skip", CLI_LIST, &s.skip_files, "FILE",
         "also skip the cases listed there, with reasons"},
        {"--jobs", CLI_NUMBER, &s.jobs, "N", "cases at once (all cores)"},
        {"--batch", CLI_NUMBER, &s.batch, "N", "cases a child process runs, one by one (1)"},
        {"--timeout", CLI_NUMBER, &s.timeout_s, "S", "seconds before a case counts as hung (600)"},
        CLI_END};
    cli_usage usage = {.own = own, .compile = &s.compile, .common = &s.common};
    const char *backend = NULL;
    cli_status status = cli_parse(&usage, argc, argv, &backend);
    if (status == CLI_GO_ON && (s.batch < 1 || s.batch > 1000)) {
        status = cli_misused(&usage, "--batch is from 1 to 1000 cases");
    }
    if (status == CLI_GO_ON && s.timeout_s < 1) {
        status = cli_misused(&usage, "--timeout is from 1 second");
    }
    if (status == CLI_GO_ON) {
        status = conform_backend(&s, backend);
        for (uint32_t i = 0; s.rows != NULL && i < s.cases.count; i++) {
            cJSON_Delete(s.rows[i]);
        }
        free(s.rows);
        free_cases(&s.cases);
        free_skips(&s.skips);
        free_skips(&s.reference_skips);
    }
    return status;
}
