/* stator: the command. Finds the subcommand and calls it; see cli.h. */
#include "cli.h"

#include "core/base/str.h"

#include <string.h>

typedef struct command {
    const char *name;
    int (*function)(int argc, char **argv);
    const char *help;
} command;

static const command commands[] = {
#define CLI_COMMAND(name, function, help) {name, function, help},
#include "commands.def"
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

int main(int argc, char **argv)
{
    cli_log_begin();
    if (argc < 2) {
        print_help(stderr);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return CLI_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        (void)printf("stator %s (plugin ABI %s)\n", stator_version(), STATOR_ABI_TEXT);
        return CLI_OK;
    }
    const char *names[COMMAND_COUNT];
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        names[i] = commands[i].name;
        if (strcmp(argv[1], commands[i].name) == 0) {
            return commands[i].function(argc - 1, argv + 1);
        }
    }
    const char *near = st_nearest(argv[1], names, COMMAND_COUNT);
    (void)fprintf(stderr, "stator: there is no command '%s'%s%s%s; see stator --help\n", argv[1],
                  near != NULL ? ", did you mean '" : "", near != NULL ? near : "",
                  near != NULL ? "'?" : "");
    return CLI_USAGE;
}
