/* Where a training writes: each file has a place of its own, which is none of what it reads. */
#include "tools/train/training.h"

#include <string.h>

#define STDOUT "stdout"
#define PLACES_MAX 8u

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

/* What a training may write: each option of that kind, by its place in the list below. */
typedef struct written {
    char checkpoint[ST_PATH_BYTES], blob[ST_PATH_BYTES];
    place places[PLACES_MAX]; /* the first is --save; the last stdout */
    size_t n;
} written;

static void list_written(const train_settings *s, const char *step_file, written *w)
{
    (void)snprintf(w->checkpoint, sizeof w->checkpoint, "%s/" TRAIN_CHECKPOINT,
                   s->checkpoint != NULL ? s->checkpoint : "");
    const size_t n = step_file != NULL ? strlen(step_file) : 0;
    const bool is_text = n > 5 && strcmp(step_file + n - 5, ".stir") == 0;
    (void)snprintf(w->blob, sizeof w->blob, "%.*s.blob", is_text ? (int)(n - 5) : 0,
                   is_text ? step_file : "");
    const place places[] = {
        {"--save", s->save, true},
        {"--log", s->log, true},
        {"--plot", s->plot, true},
        {"--write-step", step_file, true},
        {"the constants of --write-step", is_text ? w->blob : NULL, true},
        {"--checkpoint", s->checkpoint != NULL ? w->checkpoint : NULL, true},
        {STDOUT, step_file == NULL ? "/dev/stdout" : NULL, true},
    };
    w->n = sizeof places / sizeof places[0];
    memcpy(w->places, places, sizeof places);
}

cli_status train_check_places(const train_settings *s, const char *step_file)
{
    written w;
    list_written(s, step_file, &w);
    const place read[] = {
        {"--data", s->data, false},
        {"--val", s->val, false},
        {"--teacher", s->teacher, false},
        {"the model", s->path, false},
    };
    const size_t n_read = sizeof read / sizeof read[0];
    for (size_t i = 0; i + 1 < w.n; i++) {
        for (size_t k = i + 1; k < w.n; k++) {
            CLI_TRY(check_pair(&w.places[i], &w.places[k], s->common.json));
        }
        for (size_t k = 0; k < n_read; k++) {
            const bool is_itself = i == 0 && k + 1 == n_read; /* the model, with other values */
            CLI_TRY(is_itself ? CLI_OK : check_pair(&w.places[i], &read[k], s->common.json));
        }
    }
    return CLI_OK;
}

typedef struct data_check {
    written w;
    const char *whose;
    int json;
    cli_status status;
} data_check;

static void check_data_file(void *self, const char *kind, const char *name, const char *path)
{
    data_check *c = self;
    const place data = {c->whose, path, false};
    (void)name;
    if (strcmp(kind, "data") != 0) {
        return;
    }
    for (size_t i = 0; c->status == CLI_OK && i + 1 < c->w.n; i++) {
        c->status = check_pair(&c->w.places[i], &data, c->json);
    }
}

cli_status train_check_data_files(const train *t, const char *step_file)
{
    data_check c = {.whose = "data of the model", .json = t->settings->common.json};
    list_written(t->settings, step_file, &c.w);
    stator_x_model_facts(t->model, check_data_file, &c);
    if (t->teacher != NULL) {
        c.whose = "data of the teacher";
        stator_x_model_facts(t->teacher, check_data_file, &c);
    }
    return c.status;
}
