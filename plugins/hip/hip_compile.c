/* Starts the helper, hands it the text and reads its answer.
 *
 *   stator-hiprtc version FILE                     FILE: hiprtc's, "" is looked for
 *   stator-hiprtc compile FILE ARCH WARP NAME      the text is its standard input
 *
 * The answer comes through file descriptor 3: a letter, then what it announces, to the end.
 *
 *   V "6 2"   I image   L log   M reason, a line feed, hint: hiprtc is missing   E error */
#define _GNU_SOURCE
#include "hip_compile.h"

#include "codegen/gpu/gpu_native.h"
#include "core/base/diag.h"
#include "core/base/dso.h"
#include "core/base/fdio.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define HELPER "/../libexec/stator-hiprtc"

enum { ANSWER_FD = 3, HELPER_BYTES = 1024, CHUNK_BYTES = 65536, ARGUMENTS_MAX = 8 };

typedef struct compiler {
    const char *file;
} compiler;

/* What hiprtc's file answered last: a process asks once, however many devices it opens. */
static struct {
    pthread_mutex_t mutex; /* guards the rest */
    bool is_known;
    char file[ST_GPU_PATH_BYTES];
    int major;
    int minor;
} answered = {.mutex = PTHREAD_MUTEX_INITIALIZER};

void *hip_compiler_create(const char *file)
{
    compiler *c = st_process_alloc(sizeof *c);
    if (c != NULL) {
        *c = (compiler){.file = file != NULL ? file : ""};
    }
    return c;
}

void hip_compiler_destroy(void *compiler_)
{
    st_process_free(compiler_);
}

/* ---- the child ---- */

static stator_status find_helper(char out[HELPER_BYTES], stator_diag **err)
{
    const bool is_found =
        st_dso_folder_of((const void *)(uintptr_t)&hip_compile, out, HELPER_BYTES - sizeof HELPER);
    if (is_found) {
        strcat(out, HELPER); /* there is room */
    }
    ST_FAIL_IF(!is_found || access(out, X_OK) != 0, err, STATOR_NOT_FOUND,
               "the helper that runs hiprtc is missing: expected %s; install Stator anew",
               is_found ? out : "libexec/stator-hiprtc");
    return STATOR_OK;
}

/* A file of no name with the text, at its beginning; -1: none could be made. */
static st_fd put_text(const char *text, uint64_t bytes)
{
    const st_fd fd = memfd_create("kernel", MFD_CLOEXEC);
    if (fd >= 0 && (!st_write_all(fd, text, bytes) || lseek(fd, 0, SEEK_SET) != 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool read_answer(st_fd fd, st_str *out)
{
    for (;;) {
        char *at = st_str_extend(out, CHUNK_BYTES);
        ST_NEED(at != NULL);
        ssize_t n = 0;
        do {
            n = read(fd, at, CHUNK_BYTES);
        } while (n < 0 && errno == EINTR);
        out->len -= CHUNK_BYTES - (uint64_t)(n > 0 ? n : 0);
        if (n <= 0) {
            return n == 0;
        }
    }
}

static stator_status say_ended(const char *arguments[], pid_t child, st_str *answer,
                               stator_diag **err)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    ST_FAIL_IF(WIFSIGNALED(status), err, STATOR_INTERNAL,
               "hiprtc ended its process with signal %d (%s) while '%s' was compiled; install "
               "another release of ROCm, and report this",
               WTERMSIG(status), strsignal(WTERMSIG(status)), arguments[2]);
    ST_FAIL_IF(answer->len == 0, err, STATOR_INTERNAL,
               "the helper %s ended with status %d and gave no answer", arguments[0],
               WEXITSTATUS(status));
    return STATOR_OK;
}

static stator_status start(const char *arguments[], st_fd text, st_fd answer, pid_t *out,
                           stator_diag **err)
{
    posix_spawn_file_actions_t actions;
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, text, 0);
    (void)posix_spawn_file_actions_adddup2(&actions, answer, ANSWER_FD);
    (void)posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    const int failed = posix_spawn(out, arguments[0], &actions, NULL,
                                   (char *const *)(uintptr_t)arguments, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    ST_FAIL_IF(failed != 0, err, STATOR_INTERNAL, "the helper %s cannot be started: %s",
               arguments[0], strerror(failed));
    return STATOR_OK;
}

/* Runs the helper with the text as its input; its answer is appended. arguments[0] is its place. */
static stator_status run_helper(const char *arguments[ARGUMENTS_MAX], const char *text,
                                uint64_t bytes, st_str *answer, stator_diag **err)
{
    char helper[HELPER_BYTES];
    st_fd ends[2];
    pid_t child = 0;
    ST_TRY(find_helper(helper, err));
    arguments[0] = helper;
    const st_fd input = put_text(text, bytes);
    ST_FAIL_IF(input < 0, err, STATOR_RESOURCE_EXHAUSTED, "no file for a kernel's text: %s",
               strerror(errno));
    if (pipe2(ends, O_CLOEXEC) != 0) {
        close(input);
        return st_fail(err, STATOR_RESOURCE_EXHAUSTED, "no pipe for hiprtc: %s", strerror(errno));
    }
    const stator_status status = start(arguments, input, ends[1], &child, err);
    close(input);
    close(ends[1]);
    const bool is_read = status == STATOR_OK && read_answer(ends[0], answer);
    close(ends[0]);
    ST_TRY(status);
    ST_TRY(say_ended(arguments, child, answer, err));
    ST_FAIL_IF(!is_read, err, STATOR_RESOURCE_EXHAUSTED, "hiprtc's answer cannot be read");
    return STATOR_OK;
}

/* ---- answers ---- */

/* Any answer but the one hoped for; its text ends with a 0. */
static stator_status say_refused(const char *answer, stator_status missing, stator_diag **err)
{
    const char *hint = strchr(answer, '\n');
    if (answer[0] != 'M' || hint == NULL) {
        return st_fail(err, STATOR_INTERNAL, "%s", answer[0] == 'E' ? answer + 1 : "hiprtc failed");
    }
    (void)st_fail(err, missing, "%.*s", (int)(hint - answer - 1), answer + 1);
    if (err != NULL) {
        st_diag_set_hint(*err, "%s", hint + 1);
    }
    return missing;
}

/* Fills `answered`, under its lock. */
static stator_status ask_version(const compiler *c, stator_diag **err)
{
    const char *arguments[ARGUMENTS_MAX] = {NULL, "version", c->file, NULL};
    st_mem mem;
    st_str answer;
    st_mem_init(&mem, NULL, NULL, NULL, 0);
    st_str_init(&answer, &mem);
    stator_status status = run_helper(arguments, "", 0, &answer, err);
    st_str_add(&answer, "");
    if (status == STATOR_OK && st_str_ok(&answer)) {
        answered.is_known = sscanf(answer.data, "V%d %d", &answered.major, &answered.minor) == 2;
        (void)snprintf(answered.file, sizeof answered.file, "%s", c->file);
        status = answered.is_known ? STATOR_OK : say_refused(answer.data, STATOR_NOT_FOUND, err);
    }
    st_str_deinit(&answer);
    return status;
}

stator_status hip_compiler_version(void *compiler_, int *major, int *minor, stator_diag **err)
{
    const compiler *c = compiler_;
    (void)pthread_mutex_lock(&answered.mutex);
    const bool is_known = answered.is_known && strcmp(answered.file, c->file) == 0;
    const stator_status status = is_known ? STATOR_OK : ask_version(c, err);
    *major = status == STATOR_OK ? answered.major : 0;
    *minor = status == STATOR_OK ? answered.minor : 0;
    (void)pthread_mutex_unlock(&answered.mutex);
    return status;
}

/* The log and the text, each line of which is numbered as the log names it. */
static stator_status say_log(const char *name, const char *arch, const char *log, const char *text,
                             uint64_t text_bytes, st_mem *mem, stator_diag **err)
{
    st_str all;
    st_str_init(&all, mem);
    st_gpu_add_log(&all, log);
    st_gpu_add_numbered(&all, text, text_bytes);
    const stator_status status =
        st_fail(err, STATOR_INTERNAL,
                "hiprtc cannot compile the kernel '%s' for %s; report this, with its log and the "
                "kernel's text:%s",
                name, arch, st_str_ok(&all) ? all.data : "(no memory)");
    st_str_deinit(&all);
    return status;
}

stator_status hip_compile(void *compiler_, const st_gpu_device *device, const char *name,
                          const char *text, uint64_t text_bytes, st_str *out, stator_diag **err)
{
    const compiler *c = compiler_;
    char warp[16];
    st_str answer;
    const char *arguments[ARGUMENTS_MAX] = {NULL, "compile", c->file, device->arch, warp, name};
    (void)snprintf(warp, sizeof warp, "%u", device->warp_size);
    st_str_init(&answer, out->mem);
    stator_status status = run_helper(arguments, text, text_bytes, &answer, err);
    if (status == STATOR_OK && answer.data[0] == 'I') {
        st_str_addn(out, answer.data + 1, answer.len - 1);
        status = st_str_ok(out) ? STATOR_OK : st_fail_oom(err);
    } else if (status == STATOR_OK) {
        st_str_add(&answer, "");
        status = answer.data[0] == 'L'
                     ? say_log(name, device->arch, answer.data + 1, text, text_bytes, out->mem, err)
                     : say_refused(answer.data, STATOR_UNAVAILABLE, err);
    }
    st_str_deinit(&answer);
    return status;
}
