/* stator: the command. Finds the subcommand and calls it; see cli.h. */
#define _GNU_SOURCE
#include "tools/cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

typedef struct command {
    const char *name;
    cli_status (*function)(int argc, char **argv);
    const char *help;
} command;

static const command commands[] = {
#define CLI_COMMAND(name, function, help, positional, summary) {name, function, help},
#include "tools/commands.def"
#undef CLI_COMMAND
};
#define COMMAND_COUNT (sizeof commands / sizeof commands[0])

static void print_help(FILE *out)
{
    (void)fprintf(out,
                  "stator %s: tensor compiler with swappable backends\n\n"
                  "usage: stator COMMAND [ARGUMENTS]; stator COMMAND --help\n\n",
                  stator_version());
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        (void)fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].help);
    }
}

static const command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(name, commands[i].name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

static cli_status unknown_command(const char *name)
{
    const char *names[COMMAND_COUNT];
    char near[96];
    char shown[CLI_CLEAN_BYTES];
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        names[i] = commands[i].name;
    }
    (void)fprintf(stderr, "stator: there is no command '%s'%s; see stator --help\n",
                  cli_clean(name, shown), cli_did_you_mean(name, names, COMMAND_COUNT, near));
    return CLI_USAGE;
}

static cli_status run_line(int argc, char **argv)
{
    static char help[] = "--help";
    if (argc < 2) {
        print_help(stderr);
        return CLI_USAGE;
    }
    const bool is_help = strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
                         strcmp(argv[1], "help") == 0;
    if (is_help && argc > 2) { /* stator help run */
        const command *about = find_command(argv[2]);
        return about != NULL ? about->function(2, (char *[]){argv[2], help, NULL})
                             : unknown_command(argv[2]);
    }
    if (is_help) {
        print_help(stdout);
        return CLI_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        (void)printf("stator %s (plugin ABI %s)\n", stator_version(), STATOR_ABI_TEXT);
        return CLI_OK;
    }
    const command *wanted = find_command(argv[1]);
    return wanted != NULL ? wanted->function(argc - 1, argv + 1) : unknown_command(argv[1]);
}

/* A standard stream that is closed would be the next file that is opened, and written to. What is
 * written to /dev/full fails, as it would have. Was stdout closed? */
static bool open_streams(void)
{
    static const char *const stand_ins[] = {"/dev/null", "/dev/full", "/dev/null"};
    const bool is_closed = fcntl(STDOUT_FILENO, F_GETFD) < 0;
    for (int fd = 0; fd < 3; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open(stand_ins[fd], fd == 0 ? O_RDONLY : O_WRONLY) != fd) {
            (void)open("/dev/null", O_RDWR);
        }
    }
    return is_closed;
}

int main(int argc, char **argv)
{
    const bool is_closed = open_streams();
    cli_status status = CLI_FAILED;
    (void)signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is a failure of writing to it */
    cli_log_begin();
    cli_culprit_begin();
    pthread_cleanup_push(cli_culprit_thread_ended, NULL);
    status = run_line(argc, argv);
    pthread_cleanup_pop(0);
    cli_culprit_end();
    errno = 0;
    if ((fflush(stdout) != 0 || ferror(stdout)) && status != CLI_USAGE) {
        (void)fprintf(stderr, "stator: cannot write to stdout: %s\n",
                      is_closed    ? "it is closed"
                      : errno != 0 ? strerror(errno)
                                   : "an earlier write failed");
        return CLI_FAILED;
    }
    return status;
}
