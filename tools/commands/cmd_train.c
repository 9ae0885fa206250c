/* stator train: a model's parameters by a loss, an optimizer and a data set. docs/train.md. */
#define _GNU_SOURCE
#include "tools/train/training.h"

#include "core/base/convert.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define INVALID "INVALID_ARGUMENT"

typedef struct train_command {
    train_settings s;
    train t;
    cli_list pairs; /* --opt KEY=VALUE */
    cli_options_room room;
    const char *keys[CLI_OPTIONS_MAX + 2u], *values[CLI_OPTIONS_MAX + 2u];
    char total_steps[24];
    const char *clip_norm, *budget;
    const char *step_file; /* write the step and end */
    bool has_modes;        /* nodes of the model compute otherwise in training */
} train_command;

/* ---- what is asked for ---- */

static cli_status check_word(const train_command *c, const char *option, const char *word,
                             const char *first, const char *second)
{
    CLI_FAIL_IF(word != NULL && strcmp(word, first) != 0 && strcmp(word, second) != 0,
                c->s.common.json, INVALID, NULL, "%s is '%s', expected %s or %s", option, word,
                first, second);
    return CLI_OK;
}

static cli_status check_count(const train_command *c, const char *option, int64_t value)
{
    CLI_FAIL_IF(value < 1 || value > INT32_MAX, c->s.common.json, INVALID, NULL,
                "%s is %lld, expected 1 to %d", option, (long long)value, INT32_MAX);
    return CLI_OK;
}

static cli_status check_words(const train_command *c)
{
    const int json = c->s.common.json;
    CLI_TRY(check_word(c, "--amp", c->s.options.amp, "bf16", "f16"));
    CLI_TRY(check_word(c, "--init", c->s.init, "keep", "random"));
    CLI_TRY(check_word(c, "--shuffle", c->s.shuffle, "on", "off"));
    CLI_TRY(check_word(c, "--last", c->s.last, "keep", "drop"));
    CLI_FAIL_IF(c->s.options.loss == NULL && c->s.teacher == NULL, json, INVALID,
                "'stator optimizers' lists losses",
                "--loss is missing: a loss, or an output of the model");
    CLI_FAIL_IF(c->s.teacher == NULL &&
                    (c->s.options.teacher_output != NULL || c->s.options.teacher_loss != NULL),
                json, INVALID, NULL, "--teacher-output and --teacher-loss need --teacher, a model");
    CLI_FAIL_IF(c->s.data == NULL && c->step_file == NULL, json, INVALID, NULL,
                "--data is missing: an .npz with the model's inputs and 'target'");
    CLI_TRY(check_count(c, "--batch", c->s.batch));
    CLI_TRY(check_count(c, "--epochs", c->s.epochs));
    CLI_TRY(check_count(c, "--accumulate", c->s.accumulate));
    CLI_TRY(c->s.every >= 0 ? check_count(c, "--every", c->s.every) : CLI_OK);
    CLI_FAIL_IF(c->s.accumulate > 1 && c->s.nan_check, json, "UNIMPLEMENTED",
                "--accumulate 1 with the same --batch finds the node",
                "--nan-check looks at steps of one batch");
    CLI_FAIL_IF(c->s.checkpoint == NULL && (c->s.every >= 0 || c->s.resume), json, INVALID, NULL,
                "--every and --resume need --checkpoint, a folder");
    CLI_FAIL_IF(!isfinite(c->s.lr), json, INVALID, NULL, "--lr is no finite number");
    CLI_FAIL_IF(!st_fits_f32(c->s.lr), json, INVALID, NULL,
                "--lr is %g, which f32 cannot hold: it would be %g", c->s.lr,
                (double)(float)c->s.lr);
    return CLI_OK;
}

static void add_option(train_command *c, const char *key, const char *value)
{
    stator_train_options *o = &c->s.options;
    c->keys[o->option_count] = key;
    c->values[o->option_count++] = value;
}

/* Does a schedule fall until a step that nobody has named? */
static bool needs_total(const train_command *c)
{
    stator_train_item item = {.struct_size = sizeof item};
    const stator_train_options *o = &c->s.options;
    bool needs = false;
    for (uint32_t i = 0; stator_train_item_info(c->t.ctx, i, &item) == STATOR_OK; i++) {
        needs |= item.kind == STATOR_TRAIN_SCHEDULE && o->schedule != NULL &&
                 strcmp(item.name, o->schedule) == 0 && strstr(item.options, "total_steps") != NULL;
    }
    for (uint32_t k = 0; k < o->option_count; k++) {
        needs = needs && strcmp(c->keys[k], "total_steps") != 0;
    }
    return needs;
}

/* Rows of the data set, for the number of steps. */
static cli_status count_rows(const train_command *c, int64_t *out_rows)
{
    char errbuf[512];
    cli_tensors arrays = {.ctx = c->t.ctx};
    const bool is_read = cli_read_npz(c->t.ctx, c->s.data, &arrays, errbuf);
    const bool is_there = is_read && arrays.count != 0;
    const DLTensor *view = is_there ? stator_tensor_view(arrays.tensors[0]) : NULL;
    *out_rows = view != NULL && view->ndim != 0 ? view->shape[0] : 0;
    cli_tensors_free(&arrays);
    CLI_FAIL_IF(view == NULL, c->s.common.json, INVALID, NULL, "%s: %s", c->s.data,
                is_read ? "it holds no array" : errbuf);
    return CLI_OK;
}

static cli_status read_options(train_command *c)
{
    stator_train_options *o = &c->s.options;
    int64_t rows = 0;
    CLI_NEED(cli_split_options(&c->pairs, c->s.common.json, &c->room));
    for (uint32_t k = 0; k < c->pairs.count; k++) {
        add_option(c, c->room.keys[k], c->room.values[k]);
    }
    if (c->clip_norm != NULL) {
        add_option(c, "clip_norm", c->clip_norm);
    }
    if (c->budget != NULL) {
        o->flags |= STATOR_TRAIN_BUDGET;
        CLI_TRY(cli_read_budget(c->budget, c->s.common.json, &o->budget));
    }
    if (needs_total(c)) {
        CLI_FAIL_IF(c->s.data == NULL, c->s.common.json, INVALID, NULL,
                    "the schedule ends with the last step, which --data or total_steps would tell");
        CLI_TRY(count_rows(c, &rows));
        const bool is_dropped = c->s.last != NULL && strcmp(c->s.last, "drop") == 0;
        const int64_t batches = (rows + (is_dropped ? 0 : c->s.batch - 1)) / c->s.batch;
        const int64_t steps = (batches + c->s.accumulate - 1) / c->s.accumulate;
        (void)snprintf(c->total_steps, sizeof c->total_steps, "%lld",
                       (long long)(steps * c->s.epochs));
        add_option(c, "total_steps", c->total_steps);
        c->s.ends_with_epochs = true;
    }
    o->option_keys = c->keys;
    o->option_values = c->values;
    return CLI_OK;
}

/* ---- the report ---- */

static cJSON *known(double value)
{
    return isnan(value) ? cJSON_CreateNull() : cJSON_CreateNumber(value);
}

static void print_report(const train_command *c)
{
    const train_report *r = &c->t.report;
    const train_position *at = &c->t.at;
    if (!c->s.common.json) {
        char first[32], last[32];
        (void)printf("%lld step%s: loss %s, then %s; %.3f ms a step\n", (long long)at->steps,
                     at->steps == 1 ? "" : "s", cli_double_text(at->first_loss, first),
                     cli_double_text(at->last_loss, last), r->median_ms);
        return;
    }
    cJSON *root = cJSON_CreateObject();
    cJSON_AddItemToObject(root, "steps", cli_json_size(at->steps));
    cJSON_AddItemToObject(root, "first_loss", cli_json_number(at->first_loss));
    cJSON_AddItemToObject(root, "last_loss", cli_json_number(at->last_loss));
    cJSON *val = c->s.val != NULL && r->stopped_at < 0 ? cJSON_CreateObject() : cJSON_CreateNull();
    if (cJSON_IsObject(val)) {
        cJSON_AddItemToObject(val, "loss", cli_json_number(r->val_loss));
        cJSON_AddItemToObject(val, "accuracy", known(r->val_accuracy));
    }
    cJSON_AddItemToObject(root, "val", val);
    cJSON_AddNumberToObject(root, "median_ms", r->median_ms);
    cJSON_AddNumberToObject(root, "compile_ms", r->compile_ms);
    cJSON_AddNumberToObject(root, "peak_bytes", (double)r->peak_bytes);
    cJSON_AddItemToObject(root, "dropped_rows", cli_json_size(r->dropped_rows));
    cJSON_AddItemToObject(root, "stopped_at",
                          r->stopped_at >= 0 ? cli_json_size(r->stopped_at) : cJSON_CreateNull());
    cJSON_AddItemToObject(root, "resumed_at",
                          r->resumed_at > 0 ? cli_json_size(r->resumed_at) : cJSON_CreateNull());
    cJSON_AddItemToObject(root, "coverage", cli_json_coverage(c->t.step.function));
    cli_print_json(root);
}

/* ---- the command ---- */

static cli_status write_step(const train_command *c)
{
    stator_model *step = NULL;
    CLI_TRY_CTX(c->t.ctx, c->s.common.json,
                stator_model_train_step(c->t.model, &c->s.options, &step));
    const stator_status status = stator_x_model_write(step, c->step_file);
    stator_model_destroy(step);
    CLI_TRY_CTX(c->t.ctx, c->s.common.json, status);
    return CLI_OK;
}

static void note_modes(void *self, const char *kind, const char *name, const char *value)
{
    (void)name;
    (void)value;
    *(bool *)self |= strcmp(kind, "training") == 0;
}

/* The file is read now, and once, as a training may take days: what somebody writes into it
 * meanwhile, or cuts off, is neither trained nor saved. */
static stator_status load(train_command *c)
{
    static const char *const keys[] = {"training"}, *const on[] = {"on"}, *const off[] = {"off"};
    stator_load_options options = {.struct_size = sizeof options,
                                   .flags = 1,
                                   .option_keys = keys,
                                   .option_values = on,
                                   .option_count = c->s.train_mode ? 1u : 0};
    stator_status status = stator_model_load(c->t.ctx, c->s.path, &options, &c->t.model);
    if (status == STATOR_OK) {
        stator_x_model_facts(c->t.model, note_modes, &c->has_modes);
    }
    if (status == STATOR_OK && c->has_modes && c->s.val != NULL) {
        options.option_values = off;
        options.option_count = 1;
        status = stator_x_model_load_again(c->t.model, &options, &c->t.inference);
    }
    return status;
}

/* The teacher as it is used, whatever its file says. */
static cli_status load_teacher(train_command *c)
{
    static const char *const keys[] = {"training"}, *const off[] = {"off"};
    stator_load_options options = {
        .struct_size = sizeof options, .flags = 1, .option_keys = keys, .option_values = off};
    stator_model *used = NULL;
    bool has_modes = false;
    if (c->s.teacher == NULL) {
        return CLI_OK;
    }
    CLI_TRY_CTX(c->t.ctx, c->s.common.json,
                stator_model_load(c->t.ctx, c->s.teacher, &options, &c->t.teacher));
    stator_x_model_facts(c->t.teacher, note_modes, &has_modes);
    if (has_modes) {
        options.option_count = 1;
        CLI_TRY_CTX(c->t.ctx, c->s.common.json,
                    stator_x_model_load_again(c->t.teacher, &options, &used));
        stator_model_destroy(c->t.teacher);
        c->t.teacher = used;
    }
    c->s.options.teacher = c->t.teacher;
    return CLI_OK;
}

/* The model as it trains, and where its nodes would compute otherwise then, as it is used. */
static cli_status load_model(train_command *c)
{
    const bool is_ok = cli_open(&c->s.common, &c->t.ctx) == STATOR_OK && load(c) == STATOR_OK;
    CLI_NEED(is_ok || cli_fail_ctx(c->t.ctx, c->s.common.json) == CLI_OK);
    CLI_FAIL_IF(c->s.train_mode && !c->has_modes, c->s.common.json, INVALID,
                "what exports for inference often folds BatchNormalization into other weights and "
                "leaves Dropout out; a Dropout of ratio 0 drops nothing",
                "--train-mode: no node of %s computes otherwise in training", c->s.path);
    return load_teacher(c);
}

static cli_status run_train(train_command *c)
{
    CLI_TRY(check_words(c));
    CLI_TRY(train_check_places(&c->s, c->step_file));
    CLI_TRY(load_model(c));
    CLI_TRY(train_check_data_files(&c->t, c->step_file));
    CLI_TRY(read_options(c));
    if (c->step_file != NULL) {
        return write_step(c);
    }
    CLI_NEED(c->s.log == NULL || cli_file_check(c->s.log, c->s.common.json));
    CLI_NEED(c->s.plot == NULL || cli_file_check(c->s.plot, c->s.common.json));
    CLI_TRY(train_open(&c->t));
    CLI_TRY(c->s.save != NULL ? train_save_check(&c->t, c->s.save) : CLI_OK);
    cli_status status = train_run(&c->t);
    if (status == CLI_OK && c->s.save != NULL) {
        status = train_save(&c->t, c->s.save);
    }
    if (status == CLI_OK || status == CLI_WRONG) {
        print_report(c);
    }
    return status;
}

cli_status cmd_train(int argc, char **argv)
{
    train_command c = {.s = {.options = {.struct_size = sizeof c.s.options, .optimizer = "adamw"},
                             .compile = {.strict_sizes = 1, .outputs = STATOR_OUTPUTS_HOST},
                             .lr = 1e-3,
                             .epochs = 1,
                             .batch = 32,
                             .accumulate = 1,
                             .every = -1}};
    train_settings *s = &c.s;
    const cli_option own[] = {
        {"--loss", CLI_TEXT, &s->options.loss, "LOSS", "a loss, or an output of the model"},
        {"--output", CLI_TEXT, &s->options.output, "NAME",
         "what the loss reads: an output, or a value inside (the first output)"},
        {"--teacher", CLI_TEXT, &s->teacher, "MODEL",
         "a model that stays as it is, whose output the loss compares with the model's"},
        {"--teacher-output", CLI_TEXT, &s->options.teacher_output, "NAME",
         "what it says: an output of the teacher, or a value inside (the first output)"},
        {"--teacher-loss", CLI_TEXT, &s->options.teacher_loss, "LOSS",
         "what compares the two (kl_div, of scores); beside --loss it counts teacher_weight"},
        {"--optimizer", CLI_TEXT, &s->options.optimizer, "NAME", "see 'stator optimizers' (adamw)"},
        {"--lr", CLI_REAL, &s->lr, "R", "the rate (0.001)"},
        {"--schedule", CLI_TEXT, &s->options.schedule, "NAME", "how the rate changes (constant)"},
        {"--opt", CLI_PAIRS, &c.pairs, "KEY=VALUE",
         "option of the optimizer, the loss or the schedule"},
        {"--clip-norm", CLI_TEXT, &c.clip_norm, "X", "the largest norm of all gradients together"},
        {"--amp", CLI_TEXT, &s->options.amp, "DTYPE", "mixed precision: bf16 or f16"},
        {"--budget", CLI_TEXT, &c.budget, "B",
         "0 to 1: compute forward values again, down to this share of what need be kept"},
        {"--freeze", CLI_TEXT, &s->options.freeze, "GLOBS",
         "parameters that stay as they are, with commas between"},
        {"--data", CLI_TEXT, &s->data, "F.npz", "the model's inputs and 'target', row by row"},
        {"--val", CLI_TEXT, &s->val, "F.npz", "the same, to validate after each epoch"},
        {"--epochs", CLI_NUMBER, &s->epochs, "N", "how often the data are gone through (1)"},
        {"--batch", CLI_NUMBER, &s->batch, "B", "rows of a step (32)"},
        {"--accumulate", CLI_NUMBER, &s->accumulate, "N",
         "batches whose gradients a step adds up (1)"},
        {"--seed", CLI_NUMBER, &s->seed, "S", "of the order, random weights and dropout (0)"},
        {"--init", CLI_TEXT, &s->init, "HOW", "parameters at first: keep (the model's) or random"},
        {"--train-mode", CLI_FLAG, &s->train_mode, NULL,
         "normalise by the batch and drop out, in a model exported for inference too"},
        {"--shuffle", CLI_TEXT, &s->shuffle, "HOW", "on (another order in each epoch) or off"},
        {"--last", CLI_TEXT, &s->last, "HOW", "a last batch with fewer rows: keep or drop"},
        {"--log", CLI_TEXT, &s->log, "F.jsonl", "a line for each step"},
        {"--write-step", CLI_TEXT, &c.step_file, "FILE",
         "write the step as a model, FILE.stir (and .blob) or FILE.stirb, and end"},
        {"--plot", CLI_TEXT, &s->plot, "F.svg", "a picture of the losses"},
        {"--nan-check", CLI_FLAG, &s->nan_check, NULL,
         "name the first node that made a NaN or an infinity of finite operands"},
        {"--checkpoint", CLI_TEXT, &s->checkpoint, "DIR", "keep where the training stands here"},
        {"--every", CLI_NUMBER, &s->every, "N", "steps between checkpoints (those of an epoch)"},
        {"--resume", CLI_FLAG, &s->resume, NULL, "go on from the checkpoint, where there is one"},
        {"--save", CLI_TEXT, &s->save, "OUT",
         "a copy of the model's file with the trained values; OUT.npz: all of the step's state"},
        CLI_END};
    cli_usage usage = {
        .own = own, .backend = &s->compile.backend, .compile = &s->compile, .common = &s->common};
    CLI_PARSE(&usage, &s->path);
    c.t.settings = s;
    const cli_status status = run_train(&c);
    train_close(&c.t);
    return status;
}
