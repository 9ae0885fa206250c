/* Who ended the command: when a signal, exit or pthread_exit comes while a plugin's code runs, one
 * line on stderr names plugin and slot. A signal then goes its way, to whoever had it before (a
 * sanitizer, the shell's core file); an exit becomes status 3, as its caller has not answered and
 * its 0 would pass for success. `_exit` cannot be caught.
 *
 * The library offers the record (stator_x_running_slot) and installs nothing: in an application's
 * process signals are the application's. Handlers have no argument to carry state in, so it is
 * static here. */
#define _GNU_SOURCE
#include "tools/cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <stator/inspect.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STACK_BYTES 65536u /* stack of a handler, for when the thread's own is full */

typedef struct caught {
    int number;
    const char *name;
    bool is_fault; /* raised by an instruction, which raises it again when the handler returns */
} caught;

static const caught signals[] = {
    {SIGSEGV, "SIGSEGV", true},  {SIGBUS, "SIGBUS", true},    {SIGFPE, "SIGFPE", true},
    {SIGILL, "SIGILL", true},    {SIGABRT, "SIGABRT", false}, {SIGTRAP, "SIGTRAP", false},
    {SIGSYS, "SIGSYS", false},   {SIGINT, "SIGINT", false},   {SIGTERM, "SIGTERM", false},
    {SIGXCPU, "SIGXCPU", false},
};
#define SIGNAL_COUNT (sizeof signals / sizeof signals[0])

static struct sigaction previous[SIGNAL_COUNT];
static volatile sig_atomic_t is_ending;

/* "stator: WHAT in plugin X, slot Y", without stdio, which may be in the middle of something. 0: no
 * slot runs on this thread, nothing is said. */
static bool say(const char *what)
{
    char line[512] = "stator: ";
    const char *plugin = NULL;
    const char *slot = NULL;
    ST_NEED(stator_x_running_slot(&plugin, &slot));
    const char *const parts[] = {what, " in plugin ", plugin, ", slot ", slot, "\n"};
    size_t n = strlen(line);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const size_t len = strlen(parts[i]);
        const size_t room = sizeof line - n;
        memcpy(line + n, parts[i], len < room ? len : room);
        n += len < room ? len : room;
    }
    return write(STDERR_FILENO, line, n) >= 0;
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    const int saved = errno;
    size_t i = 0;
    (void)context;
    while (i + 1 < SIGNAL_COUNT && signals[i].number != number) {
        i++;
    }
    (void)say(signals[i].name);
    (void)sigaction(number, &previous[i], NULL);
    if (!signals[i].is_fault || info->si_code <= 0) {
        (void)raise(number); /* delivered when this handler returns */
    }
    errno = saved;
}

static void on_exit_called(void)
{
    if (is_ending) {
        return;
    }
    if (!say("exit was called")) {
        static const char text[] = "stator: exit was called before the command had ended\n";
        (void)!write(STDERR_FILENO, text, sizeof text - 1);
    }
    _exit(CLI_FAILED);
}

void cli_culprit_thread_ended(void *unused)
{
    (void)unused;
    (void)say("pthread_exit was called");
    _exit(CLI_FAILED);
}

void cli_culprit_begin(void)
{
    static char stack[STACK_BYTES];
    const stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    (void)sigaltstack(&alternate, NULL);
    for (size_t i = 0; i < SIGNAL_COUNT; i++) {
        if (sigaction(signals[i].number, NULL, &previous[i]) == 0 &&
            previous[i].sa_handler != SIG_IGN) {
            (void)sigaction(signals[i].number, &action, NULL);
        }
    }
    (void)atexit(on_exit_called);
    (void)at_quick_exit(on_exit_called);
}

void cli_culprit_end(void)
{
    is_ending = 1;
}
