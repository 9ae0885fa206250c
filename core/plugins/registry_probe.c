/* Probing in a child process, and remembering what it found: when somebody asks for a probe, and
 * before code of a stranger's plugin runs here that nobody named.
 *
 * The child is libexec/stator-probe, started with exec (a GPU driver does not survive fork alone).
 * It loads the one item and writes lines to a pipe:
 *
 *   state\tNO_DEVICE\n  reason\t...\n  hint\t...\n  device\tID\tBYTES\tNAME\tARCH\n  end\n
 *
 * No "end", a signal or no answer in time: CRASHED_IN_PROBE.
 *
 * A refusal, and that all went well with which devices, is remembered in the file `probes` beside
 * the compiled programs, one line each:
 *
 *   BUILD-ID \t PATH \t ITEM \t STAMP \t DEVICE-STAMP \t STATE \t REASON \t HINT \t DEVICES
 *
 * It counts while build id, path and stamps are the same. The stamp changes with a boot and with
 * each run of ldconfig, which installing a driver brings; lines of another one are dropped. The
 * other one (registry_devices.c) changes with the GPU drivers, their device files, and the
 * variables that choose devices: a line of another one waits for the next probe. Every probe
 * replaces the line, and a use that goes well removes a refusal. The file can refuse a plugin or
 * spare it another trial, never make one usable. */
#define _GNU_SOURCE
#include "core/plugins/registry_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    PATH_SIZE = ST_MEMORY_PATH,
    ANSWER_MAX = 256 * 1024,
    PROBE_TIMEOUT_MS = 30000, /* somebody asked for it and waits */
    TRIAL_TIMEOUT_MS = 5000,  /* nobody did */
    DEVICES_MAX = 1024,
    FIELDS = 9, /* of a line that is remembered */
    CHILD_FD = 3
};

/* ---- memory of refusals ---- */

/* Stamp of version, boot and library cache: a recorded refusal holds while it is unchanged. */
static void make_stamp(char out[96])
{
    char boot[40] = "";
    struct stat st;
    const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        const ssize_t n = read(fd, boot, sizeof boot - 1);
        boot[n > 0 ? n : 0] = '\0';
        boot[strcspn(boot, "\n")] = '\0';
        close(fd);
    }
    const bool has_cache = stat("/etc/ld.so.cache", &st) == 0;
    snprintf(out, 96, "%s:%s:%lld.%09ld", STATOR_VERSION, boot,
             has_cache ? (long long)st.st_mtim.tv_sec : 0LL,
             has_cache ? (long)st.st_mtim.tv_nsec : 0L);
}

/* Is the record about this item, of whichever build? */
static bool is_line_of(char **fields, const st_registry_item *item)
{
    return strcmp(fields[1], item->plugin->path) == 0 && strcmp(fields[2], item->name) == 0;
}

static bool is_refusal(uint32_t state)
{
    return state == ST_STATE_NO_DEVICE || state == ST_STATE_MISSING_DEPENDENCY ||
           state == ST_STATE_INIT_FAILED || state == ST_STATE_CRASHED_IN_PROBE;
}

/* 1: the line is the item's. */
static bool take_line(st_registry *registry, char *line, const char *stamp, st_registry_item *item)
{
    char *f[FIELDS + 1];
    if (st_memory_file_split(line, f, FIELDS + 1) != FIELDS ||
        strcmp(f[0], item->plugin->build_id) != 0 || !is_line_of(f, item) ||
        strcmp(f[3], stamp) != 0 || strcmp(f[4], registry->device_stamp) != 0) {
        return false;
    }
    const uint32_t state = st_state_parse(f[5]);
    item->is_tried = state == ST_STATE_AVAILABLE;
    if (item->is_tried) {
        st_devices_parse(registry, f[8], item);
    }
    if (is_refusal(state)) {
        item->verdict = (st_verdict){
            state, st_registry_textf(registry, "%s (remembered from an earlier probe)", f[6]),
            st_registry_textf(registry, "%s; 'stator backends --probe' looks again", f[7])};
        item->is_recalled = 1;
        item->probed = 1;
    }
    return true;
}

void st_probe_recall(st_registry *registry, st_registry_item *item)
{
    const st_plugin *plugin = item->plugin;
    char path[PATH_SIZE];
    char stamp[96];
    if (plugin->build_id == NULL || plugin->path == NULL) {
        return;
    }
    if (!registry->is_memory_read) {
        char *text = st_memory_file_path(registry, "probes", false, path)
                         ? st_memory_file_read(registry->mem, path)
                         : NULL;
        registry->is_memory_read = 1;
        st_devices_stamp(registry->device_stamp);
        registry->probe_memory =
            text != NULL ? st_arena_strndup(&registry->arena, text, strlen(text)) : NULL;
        st_free(registry->mem, text);
    }
    if (registry->probe_memory == NULL ||
        strstr(registry->probe_memory, plugin->build_id) == NULL) {
        return;
    }
    make_stamp(stamp);
    char *copy = st_strdup(registry->mem, registry->probe_memory);
    bool is_found = false;
    char *rest = copy;
    while (rest != NULL && *rest != '\0' && !is_found) {
        is_found = take_line(registry, strsep(&rest, "\n"), stamp, item);
    }
    st_free(registry->mem, copy);
}

/* All lines of this stamp but the one of this item. */
static void keep_other_lines(st_str *out, char *text, const char *stamp,
                             const st_registry_item *item)
{
    while (text != NULL && *text != '\0') {
        char *line = strsep(&text, "\n");
        char *f[FIELDS + 1];
        const size_t n = strlen(line);
        const uint64_t at = out->len;
        st_str_addn(out, line, n);
        st_str_add(out, "\n");
        if (st_memory_file_split(line, f, FIELDS + 1) != FIELDS || strcmp(f[3], stamp) != 0 ||
            is_line_of(f, item)) {
            out->len = at;
        }
    }
}

static void add_line(st_str *out, const char *stamp, const st_registry_item *item,
                     const st_verdict *verdict)
{
    char devices[ST_DEVICES_STAMP];
    st_devices_stamp(devices);
    st_str_addf(out, "%s\t%s\t%s\t%s\t%s\t%s\t", item->plugin->build_id, item->plugin->path,
                item->name, stamp, devices, st_state_name(verdict->state));
    st_memory_file_field(out, verdict->reason);
    st_str_add(out, "\t");
    st_memory_file_field(out, verdict->hint);
    st_str_add(out, "\t");
    st_devices_write(item, out);
    st_str_add(out, "\n");
}

/* Replaces the item's line by one of the verdict; NULL, or one that is found without a probe: by
 * none. What cannot be written is not remembered. */
static void remember(const st_registry *registry, const st_registry_item *item,
                     const st_verdict *verdict)
{
    char path[PATH_SIZE];
    char stamp[96];
    const st_plugin *plugin = item->plugin;
    const bool is_kept =
        verdict != NULL && (is_refusal(verdict->state) || verdict->state == ST_STATE_AVAILABLE);
    if (plugin->build_id == NULL || strpbrk(plugin->path, "\t\n") != NULL ||
        !st_memory_file_path(registry, "probes", is_kept, path)) {
        return;
    }
    char *old = st_memory_file_read(registry->mem, path);
    st_str text;
    st_str_init(&text, registry->mem);
    make_stamp(stamp);
    if (is_kept || (old != NULL && strstr(old, plugin->path) != NULL)) {
        keep_other_lines(&text, old, stamp, item);
        if (is_kept) {
            add_line(&text, stamp, item, verdict);
        }
        if (st_str_ok(&text)) {
            st_memory_file_replace(path, &text);
        }
    }
    st_str_deinit(&text);
    st_free(registry->mem, old);
}

void st_probe_forget(st_registry *registry, const st_registry_item *item)
{
    remember(registry, item, NULL);
}

/* ---- the child ---- */

typedef struct child_result {
    int64_t timeout_ms;
    st_str answer;
    int exit_status; /* status of waitpid */
    bool timed_out;
} child_result;

/* The child's environment: ours, but the one plugin file alone. *out_list is st_free'd by the
 * caller, the strings of ours are shared. */
static stator_status make_environment(st_registry *registry, const st_plugin *plugin, char *files,
                                      size_t files_size, char ***out_list, stator_diag **err)
{
    uint64_t n = 0;
    while (environ != NULL && environ[n] != NULL) {
        n++;
    }
    char **list = st_calloc(registry->mem, n + 2, sizeof *list);
    ST_TRY_MEM(list, err);
    uint64_t kept = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (strncmp(environ[i], "STATOR_PLUGIN_", 14) != 0 ||
            strncmp(environ[i], "STATOR_PLUGIN_ALLOW=", 20) == 0) {
            list[kept++] = environ[i];
        }
    }
    if (strchr(plugin->path, ':') == NULL) {
        snprintf(files, files_size, "STATOR_PLUGIN_FILES=%s", plugin->path);
        list[kept++] = files;
    }
    *out_list = list;
    return STATOR_OK;
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Reads until the pipe closes; 0 when the time is over. */
static bool read_answer(int fd, int64_t timeout_ms, st_str *answer)
{
    const int64_t end = now_ms() + timeout_ms;
    char chunk[4096];
    for (;;) {
        const int64_t left = end - now_ms();
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        const int ready = left > 0 ? poll(&wait, 1, (int)left) : 0;
        ST_NEED(ready != 0);
        const ssize_t n = ready > 0 ? read(fd, chunk, sizeof chunk) : -1;
        if (n == 0) {
            return true;
        }
        if (n < 0 && errno != EINTR) {
            return true;
        }
        if (n > 0 && answer->len + (uint64_t)n <= ANSWER_MAX) {
            st_str_addn(answer, chunk, (uint64_t)n);
        }
    }
}

/* What waitpid says of the child, -1 past the limit; a limit below 0 is none. */
static int32_t wait_for(pid_t pid, int64_t limit_ms)
{
    const int64_t end = now_ms() + limit_ms;
    int status = 0;
    for (;;) {
        const pid_t got = waitpid(pid, &status, limit_ms < 0 ? 0 : WNOHANG);
        if (got == pid) {
            return status;
        }
        if (got < 0 && errno != EINTR) {
            return 0; /* someone else took it; the answer alone decides */
        }
        if (limit_ms >= 0 && now_ms() >= end) {
            return -1;
        }
        if (got == 0) {
            nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        }
    }
}

/* 0, or the number of the error as errno has them. */
static int32_t spawn_child(char *const argv[], char *const env[], int write_fd, pid_t *out_pid)
{
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0) {
        return ENOMEM;
    }
    int rc = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    rc = rc != 0 ? rc : posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    rc = rc != 0 ? rc : posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    rc = rc != 0 ? rc : posix_spawn_file_actions_adddup2(&actions, write_fd, CHILD_FD);
    rc = rc != 0 ? rc : posix_spawn(out_pid, argv[0], &actions, NULL, argv, env);
    posix_spawn_file_actions_destroy(&actions);
    return rc;
}

static stator_status run_child(st_mem *mem, char *const argv[], char *const env[],
                               child_result *out, stator_diag **err)
{
    int fds[2];
    pid_t pid = 0;
    st_str_init(&out->answer, mem);
    ST_FAIL_IF(pipe2(fds, O_CLOEXEC) != 0, err, STATOR_RESOURCE_EXHAUSTED,
               "no pipe for the probe: %s", strerror(errno));
    const int32_t rc = spawn_child(argv, env, fds[1], &pid);
    close(fds[1]);
    if (rc != 0) {
        close(fds[0]);
        return st_fail(err, STATOR_INTERNAL, "the probe helper %s cannot be started: %s", argv[0],
                       strerror(rc));
    }
    out->timed_out = !read_answer(fds[0], out->timeout_ms, &out->answer);
    close(fds[0]);
    int status = out->timed_out ? -1 : wait_for(pid, out->timeout_ms);
    if (status == -1) {
        out->timed_out = true;
        kill(pid, SIGKILL);
        status = wait_for(pid, -1);
    }
    out->exit_status = status;
    return st_str_ok(&out->answer) ? STATOR_OK : st_fail_oom(err);
}

/* ---- the answer ---- */

typedef struct probe_answer {
    st_verdict verdict;
    const char *reason;
    const char *hint;
    bool is_complete;
    uint32_t device_count;
    stator_device_info devices[DEVICES_MAX];
} probe_answer;

static void take_answer_line(st_registry *registry, probe_answer *answer, char *line)
{
    char *f[6] = {NULL};
    const uint32_t n = st_memory_file_split(line, f, 6);
    if (n == 2 && strcmp(f[0], "state") == 0) {
        answer->verdict.state = st_state_parse(f[1]);
    } else if (n == 2 && strcmp(f[0], "reason") == 0) {
        answer->verdict.reason = st_registry_textf(registry, "%s", f[1]);
    } else if (n == 2 && strcmp(f[0], "hint") == 0) {
        answer->verdict.hint = st_registry_textf(registry, "%s", f[1]);
    } else if (n == 5 && strcmp(f[0], "device") == 0 && answer->device_count < DEVICES_MAX) {
        answer->devices[answer->device_count++] =
            (stator_device_info){.struct_size = sizeof(stator_device_info),
                                 .id = (uint32_t)strtoul(f[1], NULL, 10),
                                 .memory_bytes = strtoull(f[2], NULL, 10),
                                 .name = st_registry_textf(registry, "%s", f[3]),
                                 .arch = st_registry_textf(registry, "%s", f[4])};
    } else if (n == 1 && strcmp(f[0], "end") == 0) {
        answer->is_complete = true;
    }
}

static st_verdict crash_verdict(st_registry *registry, const child_result *child)
{
    st_verdict v = {.state = ST_STATE_CRASHED_IN_PROBE,
                    .hint = "report this to the plugin's maker, with its version and build id"};
    if (child->timed_out) {
        v.reason = st_registry_textf(registry, "it gave no answer within %d s when probed",
                                     (int)(child->timeout_ms / 1000));
    } else if (WIFSIGNALED(child->exit_status)) {
        const int number = WTERMSIG(child->exit_status);
        const char *name = sigabbrev_np(number);
        v.reason = st_registry_textf(registry, "signal %d (SIG%s) ended the process that probed it",
                                     number, name != NULL ? name : "?");
    } else {
        v.reason = st_registry_textf(registry,
                                     "the process that probed it ended with status %d "
                                     "before it could answer",
                                     WEXITSTATUS(child->exit_status));
    }
    return v;
}

/* Turns what the child said into the row's state. Lock held. */
static stator_status apply_answer(st_registry *registry, st_registry_item *item,
                                  child_result *child, stator_diag **err)
{
    probe_answer *answer = st_calloc(registry->mem, 1, sizeof *answer);
    ST_TRY_MEM(answer, err);
    char *rest = child->answer.data;
    while (rest != NULL && *rest != '\0') {
        take_answer_line(registry, answer, strsep(&rest, "\n"));
    }
    const bool crashed = child->timed_out || WIFSIGNALED(child->exit_status) ||
                         !answer->is_complete || answer->verdict.state >= ST_STATE_COUNT;
    item->verdict = crashed ? crash_verdict(registry, child) : answer->verdict;
    item->is_recalled = 0;
    item->probed = 1;
    item->device_count = 0;
    stator_device_info *rows =
        st_arena_zalloc(&registry->arena, answer->device_count + 1u, sizeof *rows);
    if (rows != NULL && !crashed) {
        memcpy(rows, answer->devices, answer->device_count * sizeof *rows);
        item->devices = rows;
        item->device_count = answer->device_count;
    }
    item->is_tried = item->verdict.state == ST_STATE_AVAILABLE;
    remember(registry, item, &item->verdict);
    st_free(registry->mem, answer);
    return rows != NULL ? STATOR_OK : st_fail_oom(err);
}

static stator_status find_helper(const st_registry *registry, char out[PATH_SIZE],
                                 stator_diag **err)
{
    char why[1024];
    struct stat st;
    const int n =
        registry->lib_dir != NULL
            ? snprintf(out, PATH_SIZE, "%s/stator/libexec/stator-probe", registry->lib_dir)
            : 0;
    ST_FAIL_IF(getauxval(AT_SECURE) != 0, err, STATOR_FAILED_PRECONDITION,
               "plugins are not probed by a program with raised rights");
    ST_FAIL_IF(n <= 0 || n >= PATH_SIZE || lstat(out, &st) != 0 || !S_ISREG(st.st_mode), err,
               STATOR_NOT_FOUND, "the probe helper stator-probe is not in %s/stator/libexec",
               registry->lib_dir != NULL ? registry->lib_dir : "the folder of libstator");
    char folder[PATH_SIZE];
    snprintf(folder, sizeof folder, "%s/stator/libexec", registry->lib_dir);
    ST_FAIL_IF(!st_trust_check_folder(&registry->trust, folder, why, sizeof why) ||
                   !st_trust_check_stat(&registry->trust, &st, out, false, why, sizeof why),
               err, STATOR_PERMISSION_DENIED, "the probe helper is not trusted: %s", why);
    return STATOR_OK;
}

static stator_status probe_in_child(st_registry *registry, st_registry_item *item,
                                    int64_t timeout_ms, stator_diag **err)
{
    char helper[PATH_SIZE];
    char files[PATH_SIZE + 32];
    char **env = NULL;
    const st_plugin *plugin = item->plugin;
    ST_TRY(find_helper(registry, helper, err));
    ST_TRY(make_environment(registry, plugin, files, sizeof files, &env, err));
    char *const argv[] = {helper, (char *)(uintptr_t)plugin->path,
                          (char *)(uintptr_t)st_kind_name(item->kind),
                          (char *)(uintptr_t)item->name, NULL};
    child_result child = {.timeout_ms = timeout_ms};
    stator_status status = run_child(registry->mem, argv, env, &child, err);
    if (status == STATOR_OK) {
        pthread_mutex_lock(&registry->lock);
        status = apply_answer(registry, item, &child, err);
        pthread_mutex_unlock(&registry->lock);
    }
    st_str_deinit(&child.answer);
    st_free(registry->mem, env);
    return status;
}

stator_status st_registry_probe(st_registry *registry, const st_registry_item *item,
                                stator_diag **err)
{
    st_registry_item *own = (st_registry_item *)(uintptr_t)item; /* rows are the registry's */
    pthread_mutex_lock(&registry->lock);
    const bool was_usable = item->found.state == ST_STATE_AVAILABLE;
    const bool is_here = item->plugin->path == NULL ||
                         (registry->flags & STATOR_CTX_PROBE_HERE) != 0 ||
                         item->plugin->load_state == ST_LOAD_DONE;
    const bool is_lost = item->plugin->load_state == ST_LOAD_FAILED;
    pthread_mutex_unlock(&registry->lock);
    if (!was_usable || is_lost) {
        return STATOR_OK; /* the listing has already said why it cannot be used */
    }
    return is_here ? st_registry_probe_here(registry, own, err)
                   : probe_in_child(registry, own, PROBE_TIMEOUT_MS, err);
}

/* ---- what nobody named ---- */

void st_registry_try(st_registry *registry, st_registry_item *item)
{
    stator_diag *why = NULL;
    pthread_mutex_lock(&registry->lock);
    const bool is_wanted = item->plugin->path != NULL && !st_plugin_is_ours(item->plugin) &&
                           (registry->flags & STATOR_CTX_PROBE_HERE) == 0 && !item->is_tried &&
                           !item->is_recalled && item->verdict.state == ST_STATE_AVAILABLE &&
                           item->plugin->load_state == ST_LOAD_NONE;
    pthread_mutex_unlock(&registry->lock);
    if (is_wanted) {
        (void)probe_in_child(registry, item, TRIAL_TIMEOUT_MS, &why);
        st_diag_release(why);
    }
}
