/* Child processes; see child.h. */
#define _GNU_SOURCE
#include "tools/child.h"

#include "core/base/threads/threads.h"
#include "tools/cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define TIMEOUT_S_MAX INT64_C(1000000000) /* thirty years */

/* ---- in the child ---- */

bool child_write(int fd, const void *data, uint64_t size, uint64_t offset)
{
    const char *p = data;
    while (size > 0) {
        const ssize_t n = pwrite(fd, p, size, (off_t)offset);
        ST_NEED(n > 0);
        p += n;
        size -= (uint64_t)n;
        offset += (uint64_t)n;
    }
    return true;
}

void child_take_error(stator_ctx *ctx, child_error *out)
{
    const char *text = cli_last_error();
    const char *colon = strstr(text, ": ");
    const char *message = colon != NULL ? colon + 2 : text;
    const char *hint = ctx != NULL ? stator_ctx_error_hint(ctx) : "";
    (void)snprintf(out->code, sizeof out->code, "%.*s", colon != NULL ? (int)(colon - text) : 8,
                   colon != NULL ? text : "INTERNAL");
    (void)snprintf(out->message, sizeof out->message, "%.1000s", message);
    (void)snprintf(out->hint, sizeof out->hint, "%.500s", hint != NULL ? hint : "");
}

/* Output of plugins must not mix with the answer. */
static void quiet_streams(bool is_quiet)
{
    const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    (void)dup2(null, STDOUT_FILENO);
    if (is_quiet) {
        (void)dup2(null, STDERR_FILENO);
    }
}

static void child_main(const child *c, const child_work *work)
{
    const struct rlimit no_core = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &no_core);
    (void)unsetenv("STATOR_FUEL");
    quiet_streams(work->is_quiet);
    _exit(work->run(work->self, c) ? 0 : 1);
}

/* ---- in the parent ---- */

void child_close(child *c)
{
    const int all[] = {c->files[CHILD_REPORT], c->files[CHILD_LIST], c->files[CHILD_KEPT],
                       c->alive[0], c->alive[1]};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (all[i] >= 0) {
            (void)close(all[i]);
        }
    }
    *c = (child){.files = {-1, -1, -1}, .alive = {-1, -1}};
}

static bool open_files(child *c)
{
    static const char *const names[CHILD_FILES] = {"report", "list", "kept"};
    *c = (child){.files = {-1, -1, -1}, .alive = {-1, -1}};
    bool ok = true;
    for (uint32_t i = 0; ok && i < CHILD_FILES; i++) {
        c->files[i] = memfd_create(names[i], MFD_CLOEXEC);
        ok = c->files[i] >= 0;
    }
    return ok && pipe2(c->alive, O_CLOEXEC) == 0;
}

/* Waits until the child ends; 0 when it was killed after the time was up. The pipe wakes us at
 * once; a grandchild may hold it open, so the child itself is asked every second. */
static bool wait_child(pid_t pid, int alive, int64_t timeout_s, int *out_status)
{
    const uint64_t seconds = (uint64_t)(timeout_s < TIMEOUT_S_MAX ? timeout_s : TIMEOUT_S_MAX);
    const uint64_t end = st_now_ns() + seconds * UINT64_C(1000000000);
    bool in_time = true;
    for (;;) {
        struct pollfd p = {.fd = alive, .events = POLLIN};
        if (poll(&p, 1, 1000) > 0) {
            break;
        }
        const pid_t ended = waitpid(pid, out_status, WNOHANG);
        if (ended == pid) {
            return true;
        }
        if (st_now_ns() >= end) {
            (void)kill(pid, SIGKILL);
            in_time = false;
            break;
        }
    }
    while (waitpid(pid, out_status, 0) < 0 && errno == EINTR) {
    }
    return in_time;
}

bool child_run(child *c, const child_work *work)
{
    ST_NEED(open_files(c));
    (void)fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        (void)close(c->alive[0]);
        child_main(c, work);
    }
    (void)close(c->alive[1]);
    c->alive[1] = -1;
    ST_NEED(pid >= 0);
    c->in_time = wait_child(pid, c->alive[0], work->timeout_s, &c->status);
    return true;
}

bool child_report(const child *c, void *report, uint64_t size)
{
    return pread(c->files[CHILD_REPORT], report, size, 0) == (ssize_t)size;
}

bool child_failed(int json)
{
    return cli_fail(json, "RESOURCE_EXHAUSTED", NULL, "cannot run a child process: %s",
                    strerror(errno)) == CLI_OK;
}

void child_death(const child *c, child_error *out)
{
    *out = (child_error){.hint = ""};
    (void)snprintf(out->code, sizeof out->code, "%s", c->in_time ? "CRASH" : "TIMEOUT");
    if (!c->in_time) {
        (void)snprintf(out->message, sizeof out->message, "no answer in time");
    } else if (WIFSIGNALED(c->status)) {
        (void)snprintf(out->message, sizeof out->message, "ended by signal %d (%s)",
                       WTERMSIG(c->status), strsignal(WTERMSIG(c->status)));
    } else {
        (void)snprintf(out->message, sizeof out->message, "the process exited with status %d",
                       WEXITSTATUS(c->status));
    }
}
