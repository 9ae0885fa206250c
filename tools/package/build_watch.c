/* A build that is interrupted: SIGINT, SIGTERM and SIGHUP end the compiler with all that it has
 * started, remove the folder of the build, weights and all, and then end the command as they would
 * have.
 *
 * One thread waits for them, and all others have them blocked; a lock keeps it and the build apart,
 * and is not given back after a signal, so that nothing is made any more. The compiler is a process
 * group of its own: the driver would end without its assembler and linker. A signal that was
 * ignored when the command began (nohup) stays so. */
#define _GNU_SOURCE
#include "tools/package/build.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define END SIGURG        /* ends the thread when the build is done; means nothing to others */
#define PATIENCE_MS 2000u /* a compiler removes its own files when it is asked to end */

struct build_watch {
    build_folder *folder;
    pthread_t thread;
    pthread_mutex_t lock;
    sigset_t before, waited;
    pid_t child; /* a process group; 0: none runs */
    atomic_int is_over;
};

/* ---- the thread ---- */

static void end_child(build_watch *watch)
{
    int status = 0;
    if (watch->child == 0) {
        return;
    }
    (void)kill(-watch->child, SIGTERM);
    for (uint32_t ms = 0; ms < PATIENCE_MS && kill(-watch->child, 0) == 0; ms += 10u) {
        (void)waitpid(watch->child, &status, WNOHANG); /* unless the build has seen its end */
        (void)usleep(10000);
    }
    (void)kill(-watch->child, SIGKILL);
}

static void *wait_for_signals(void *watch_)
{
    build_watch *watch = watch_;
    int number = END;
    while (sigwait(&watch->waited, &number) == 0 && number == END &&
           !atomic_load(&watch->is_over)) {
    }
    if (number == END) {
        return NULL;
    }
    (void)pthread_mutex_lock(&watch->lock);
    end_child(watch);
    build_folder_remove(watch->folder); /* its memory may be in use; the process ends */
    (void)signal(number, SIG_DFL);
    (void)pthread_sigmask(SIG_UNBLOCK, &watch->waited, NULL);
    (void)raise(number);
    return NULL;
}

/* ---- the build ---- */

static void choose_signals(sigset_t *out)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    (void)sigemptyset(out);
    (void)sigaddset(out, END);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct sigaction now;
        if (sigaction(numbers[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN) {
            (void)sigaddset(out, numbers[i]);
        }
    }
}

bool build_watch_begin(build_folder *folder)
{
    build_watch *watch = calloc(1, sizeof *watch);
    if (watch == NULL) {
        return false;
    }
    watch->folder = folder;
    choose_signals(&watch->waited);
    (void)pthread_mutex_init(&watch->lock, NULL);
    (void)pthread_sigmask(SIG_BLOCK, &watch->waited, &watch->before);
    if (pthread_create(&watch->thread, NULL, wait_for_signals, watch) != 0) {
        (void)pthread_sigmask(SIG_SETMASK, &watch->before, NULL);
        (void)pthread_mutex_destroy(&watch->lock);
        free(watch);
        return false;
    }
    folder->watch = watch;
    return true;
}

void build_watch_end(build_folder *folder)
{
    build_watch *watch = folder->watch;
    if (watch == NULL) {
        return;
    }
    atomic_store(&watch->is_over, 1);
    (void)pthread_kill(watch->thread, END);
    (void)pthread_join(watch->thread, NULL); /* a signal that came before ends the command here */
    (void)pthread_sigmask(SIG_SETMASK, &watch->before, NULL);
    (void)pthread_mutex_destroy(&watch->lock);
    free(watch);
    folder->watch = NULL;
}

void build_watch_lock(build_folder *folder)
{
    (void)pthread_mutex_lock(&folder->watch->lock);
}

void build_watch_unlock(build_folder *folder)
{
    (void)pthread_mutex_unlock(&folder->watch->lock);
}

/* The child gets the signals as the command had them, in a group of its own. */
static int32_t set_attributes(const build_watch *watch, posix_spawnattr_t *attributes)
{
    sigset_t usual;
    (void)sigemptyset(&usual);
    (void)sigaddset(&usual, SIGXFSZ); /* main ignores it */
    int rc = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                                      POSIX_SPAWN_SETSIGDEF);
    rc = rc != 0 ? rc : posix_spawnattr_setpgroup(attributes, 0);
    rc = rc != 0 ? rc : posix_spawnattr_setsigmask(attributes, &watch->before);
    return rc != 0 ? rc : posix_spawnattr_setsigdefault(attributes, &usual);
}

int32_t build_watch_run(build_folder *folder, const posix_spawn_file_actions_t *actions,
                        char *const *argv, int *out_status)
{
    build_watch *watch = folder->watch;
    posix_spawnattr_t attributes;
    pid_t pid = 0;
    if (posix_spawnattr_init(&attributes) != 0) {
        return ENOMEM;
    }
    int rc = set_attributes(watch, &attributes);
    build_watch_lock(folder);
    rc = rc != 0 ? rc : posix_spawnp(&pid, argv[0], actions, &attributes, argv, environ);
    watch->child = rc == 0 ? pid : 0;
    build_watch_unlock(folder);
    (void)posix_spawnattr_destroy(&attributes);
    while (rc == 0 && waitpid(pid, out_status, 0) < 0) {
        rc = errno == EINTR ? 0 : errno;
    }
    build_watch_lock(folder);
    watch->child = 0;
    build_watch_unlock(folder);
    return rc;
}
