/* Where a training writes: each file has a place of its own, which is none of what it reads. */
#include "tools/train/training.h"

#include <string.h>

#define STDOUT "stdout"

typedef struct place {
    const char *option;
    const char *path; /* NULL: not asked for */
    bool is_written;
} place;

static cli_status check_pair(const place *a, const place *b, int json)
{
    if (a->path == NULL || b->path == NULL || !st_out_is_same(a->path, b->path)) {
        return CLI_OK;
    }
    CLI_FAIL_IF(strcmp(b->option, STDOUT) == 0, json, "INVALID_ARGUMENT",
                "name a file, or another descriptor: /dev/fd/3 with 3>FILE",
                "%s '%s' is stdout, which has the report", a->option, a->path);
    CLI_FAIL_IF(b->is_written, json, "INVALID_ARGUMENT", NULL, "%s and %s write to one place, '%s'",
                a->option, b->option, a->path);
    return cli_fail(json, "INVALID_ARGUMENT", NULL, "%s '%s' would be written over %s", a->option,
                    a->path, b->option);
}

cli_status train_check_places(const train_settings *s, const char *step_file)
{
    char checkpoint[ST_PATH_BYTES] = "";
    if (s->checkpoint != NULL) {
        (void)snprintf(checkpoint, sizeof checkpoint, "%s/" TRAIN_CHECKPOINT, s->checkpoint);
    }
    const place places[] = {
        {"--save", s->save, true},
        {"--log", s->log, true},
        {"--plot", s->plot, true},
        {"--write-step", step_file, true},
        {"--checkpoint", s->checkpoint != NULL ? checkpoint : NULL, true},
        {STDOUT, step_file == NULL ? "/dev/stdout" : NULL, true},
        {"--data", s->data, false},
        {"--val", s->val, false},
        {"--teacher", s->teacher, false},
        {"the model", s->path, false},
    };
    const size_t n = sizeof places / sizeof places[0];
    for (size_t i = 0; strcmp(places[i].option, STDOUT) != 0; i++) {
        for (size_t k = i + 1; k < n; k++) {
            const bool is_itself = i == 0 && k + 1 == n; /* the model, with other values */
            CLI_TRY(is_itself ? CLI_OK : check_pair(&places[i], &places[k], s->common.json));
        }
    }
    return CLI_OK;
}
