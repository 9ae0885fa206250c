/* Options of training steps from C: what a step refuses, and the table of losses, optimizers and
 * schedules. */
#define _GNU_SOURCE
#include "train_refused.h"

#include <math.h>
#include <stator/train.h>

static const char PROGRAM[] =
    "stir 1\n"
    "graph @main(%x: f32[4, 3], param %w \"w\": f32[3, 1] = {1, 2, 3}) {\n"
    "  %y = matmul(%x, %w)\n"
    "  return y: %y\n"
    "}\n";

static void expect_option_refused(stator_ctx *ctx, const stator_model *model, const char *key,
                                  const char *value, stator_status code, const char *words)
{
    const stator_train_options o = {.struct_size = sizeof o,
                                    .loss = "mse",
                                    .optimizer = "adamw",
                                    .option_keys = &key,
                                    .option_values = &value,
                                    .option_count = 1};
    expect_refused(ctx, model, &o, code, words);
}

/* Values that are none beside each other. */
static void expect_pairs_refused(stator_ctx *ctx, const stator_model *model)
{
    static const struct {
        const char *schedule, *keys[3], *values[3], *words; /* NULL: it is accepted */
    } cases[] = {
        {NULL,
         {"nesterov"},
         {"1"},
         "nesterov needs a momentum and no dampening, and momentum is 0"},
        {NULL,
         {"nesterov", "momentum", "dampening"},
         {"1", "0.9", "0.1"},
         "nesterov needs a momentum and no dampening, and dampening is not 0"},
        {NULL, {"nesterov", "dampening"}, {"0", "0.1"}, NULL},
        {"linear",
         {"warmup", "total_steps"},
         {"4", "3"},
         "option warmup is 4, more than total_steps, which is 3: the rate would not have risen"},
        {"cosine", {"total_steps", "warmup"}, {"3", "4"}, "option warmup is 4, more than total"},
        {"cosine", {"total_steps", "warmup"}, {"3", "3"}, NULL},
        {"warmup", {"warmup"}, {"4"}, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const stator_train_options o = {.struct_size = sizeof o,
                                        .loss = "mse",
                                        .optimizer = "sgd",
                                        .schedule = cases[i].schedule,
                                        .option_keys = cases[i].keys,
                                        .option_values = cases[i].values,
                                        .option_count = cases[i].keys[1] == NULL   ? 1
                                                        : cases[i].keys[2] == NULL ? 2
                                                                                   : 3};
        stator_model *step = NULL;
        if (cases[i].words != NULL) {
            expect_refused(ctx, model, &o, STATOR_INVALID_ARGUMENT, cases[i].words);
        } else {
            CHECK_OK(ctx, stator_model_train_step(model, &o, &step));
            stator_model_destroy(step);
        }
    }
}

/* Values that are numbers of the option's kind, and make no sense. */
static void expect_ranges_refused(stator_ctx *ctx, const stator_model *model)
{
    static const struct {
        const char *optimizer, *schedule, *loss, *key, *value, *words;
    } cases[] = {
        {"sgd", "linear", "mse", "total_steps", "0", "'0', expected a whole number in [1, inf)"},
        {"sgd", "cosine", "mse", "total_steps", "-1", "expected a whole number in [1, inf)"},
        {"sgd", "warmup", "mse", "warmup", "-1", "expected a whole number in [0, inf)"},
        {"sgd", "cosine", "mse", "min_lr", "-0.1", "expected a number in [0, inf)"},
        {"sgd", NULL, "mse", "clip_norm", "-1", "expected a number in [0, inf)"},
        {"sgd", NULL, "mse", "clip_value", "-1", "expected a number in [0, inf)"},
        {"sgd", NULL, "mse", "momentum", "-0.9", "expected a number in [0, inf)"},
        {"sgd", NULL, "mse", "dampening", "1.5", "expected a number in [0, 1]"},
        {"sgd", NULL, "mse", "nesterov", "2", "expected a whole number in [0, 1]"},
        {"sgd", NULL, "mse", "weight_decay", "-1", "expected a number in [0, inf)"},
        {"adam", NULL, "mse", "betas", "0.9,1", "expected 2 numbers in [0, 1) with commas"},
        {"adamw", NULL, "mse", "betas", "-0.1,0.9", "expected 2 numbers in [0, 1) with commas"},
        {"adamw", NULL, "mse", "eps", "-1e-8", "expected a number in [0, inf)"},
        {"rmsprop", NULL, "mse", "alpha", "1", "expected a number in [0, 1)"},
        {"sgd", NULL, "huber", "delta", "0", "expected a number in (0, inf)"},
        {"sgd", NULL, "kl_div", "temperature", "0", "expected a number in [1e-18, 1e18]"},
        {"sgd", NULL, "kl_div", "temperature", "1e30", "expected a number in [1e-18, 1e18]"},
        {"sgd", NULL, "kl_div", "temperature", "1e-300", "expected a number in [1e-18, 1e18]"},
        {"sgd", NULL, "cross_entropy_probs", "label_smoothing", "1.1", "a number in [0, 1]"},
        {"rmsprop", NULL, "mse", "alpha", "0.99999999999", "expected a number in [0, 1)"},
        {"adam", NULL, "mse", "betas", "0.9,0.99999999999", "expected 2 numbers in [0, 1)"},
        {"sgd", NULL, "huber", "delta", "1e-300", "f32 cannot hold 1e-300: it would be 0"},
        {"sgd", NULL, "mse", "momentum", "3.5e38", "f32 cannot hold 3.5e+38: it would be inf"},
        {"sgd", NULL, "mse", "clip_norm", "1e-46", "f32 cannot hold 1e-46: it would be 0"},
        {"sgd", "cosine", "mse", "min_lr", "1e-300", "f32 cannot hold 1e-300: it would be 0"},
        {"adam", NULL, "mse", "betas", "0.9,1e-99", "f32 cannot hold 1e-99: it would be 0"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const stator_train_options o = {.struct_size = sizeof o,
                                        .loss = cases[i].loss,
                                        .optimizer = cases[i].optimizer,
                                        .schedule = cases[i].schedule,
                                        .option_keys = &cases[i].key,
                                        .option_values = &cases[i].value,
                                        .option_count = 1};
        char words[160];
        (void)snprintf(words, sizeof words, "option %s is '%s'", cases[i].key, cases[i].value);
        expect_refused(ctx, model, &o, STATOR_INVALID_ARGUMENT, words);
        expect_refused(ctx, model, &o, STATOR_INVALID_ARGUMENT, cases[i].words);
    }
}

/* Names that are options of other rows, or nearly so: all of these are said. */
static void expect_owners(stator_ctx *ctx, const stator_model *model)
{
    static const char *const cases[][2] = {
        {"momentum", "'momentum' in this step: the optimizers sgd and rmsprop have it"},
        {"alpha", "'alpha' in this step: the optimizer rmsprop has it"},
        {"label_smoothing", "the losses cross_entropy and cross_entropy_probs have it"},
        {"warmup", "the schedules warmup, linear and cosine have it"},
        {"init_scale", "'init_scale' in this step: a step with amp f16 has it"},
        {"warmpu", "did you mean 'warmup', which the schedules warmup, linear and cosine have?"},
        {"temprature", "did you mean 'temperature', which the loss kl_div has?"},
        {"teacher_wait", "did you mean 'teacher_weight', which a step with a teacher has?"},
        {"clipnorm", "there is no option 'clipnorm'; did you mean 'clip_norm'? (clip_norm, "},
        {"lr", "there is no option 'lr': the rate is an input of the step"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect_option_refused(ctx, model, cases[i][0], "1", STATOR_NOT_FOUND, cases[i][1]);
    }
}

static void expect_refusals(stator_ctx *ctx, const stator_model *model)
{
    stator_train_options o = {.struct_size = sizeof o, .loss = "mss", .optimizer = "adamw"};
    stator_model *step = NULL;
    expect_refused(ctx, model, &o, STATOR_NOT_FOUND, "no loss 'mss'; did you mean 'mse'?");
    o.loss = "mse";
    o.optimizer = "adamm";
    expect_refused(ctx, model, &o, STATOR_NOT_FOUND, "no optimizer 'adamm'; did you mean 'adam'?");
    o.optimizer = "adamw";
    o.schedule = "cosin";
    expect_refused(ctx, model, &o, STATOR_NOT_FOUND, "no schedule 'cosin'; did you mean 'cosine'?");
    o.schedule = "cosine";
    expect_refused(ctx, model, &o, STATOR_INVALID_ARGUMENT, "option total_steps has no default");
    o.schedule = NULL;
    o.freeze = "*";
    expect_refused(ctx, model, &o, STATOR_INVALID_ARGUMENT, "no parameter is left to train");
    o.freeze = NULL;
    o.output = "yy";
    expect_refused(ctx, model, &o, STATOR_NOT_FOUND, "no output or value 'yy', did you mean 'y'?");
    o.output = "y";
    o.loss = "y";
    expect_refused(ctx, model, &o, STATOR_INVALID_ARGUMENT,
                   "output is given, which names what a loss of the table reads, and the loss 'y'");
    o.teacher = model;
    CHECK_OK(ctx, stator_model_train_step(model, &o, &step));
    stator_model_destroy(step);
    o.teacher = NULL;
    o.output = NULL;
    o.loss = NULL;
    expect_refused(ctx, model, &o, STATOR_INVALID_ARGUMENT, "loss is NULL");
    o = (stator_train_options){.struct_size = 0};
    expect_refused(ctx, model, &o, STATOR_INVALID_ARGUMENT, "stator_train_options");
    expect_option_refused(ctx, model, "beta", "0.9", STATOR_NOT_FOUND,
                          "no option 'beta'; did you mean 'betas'?");
    expect_option_refused(
        ctx, model, "betas", "0.9", STATOR_INVALID_ARGUMENT,
        "option betas is '0.9', expected 2 numbers in [0, 1) with commas between");
    expect_option_refused(ctx, model, "amsgrad", "0.5", STATOR_INVALID_ARGUMENT,
                          "expected a whole number");
    expect_option_refused(ctx, model, "eps", "nan", STATOR_INVALID_ARGUMENT, "expected a number");
    expect_ranges_refused(ctx, model);
    expect_pairs_refused(ctx, model);
    expect_owners(ctx, model);
}

/* ---- the table ---- */

#define VALUES_MAX 4u

/* One option of a row, "name:kind=default"; of one without a default, or whose default is none, a
 * single value that is not known. */
typedef struct option {
    char name[48], kind[16];
    uint32_t n_values;
    int has_default;
    double values[VALUES_MAX];
    int has_range, is_open[2];
    double bounds[2];
} option;

static void read_default(const char *text, option *o)
{
    o->n_values = 0;
    for (const char *p = text + strspn(text, "[, "); *p != '\0' && strchr("];", *p) == NULL;) {
        char *end = NULL;
        CHECK(o->n_values < VALUES_MAX);
        o->values[o->n_values++] = strtod(p, &end);
        CHECK(end != p);
        p = end + strspn(end, ", ");
    }
}

/* The entry "name in [low, high)" of the row; a name that another begins with is another. */
static void read_range(const char *ranges, option *o)
{
    char name[48], open[2], close[2];
    for (const char *p = ranges; *p != '\0'; p += strcspn(p, ";")) {
        p += strspn(p, "; ");
        CHECK(sscanf(p, "%47s in %1[[(]%lf, %lf%1[])]", name, open, &o->bounds[0], &o->bounds[1],
                     close) == 5);
        if (strcmp(name, o->name) == 0) {
            CHECK(!o->has_range && o->bounds[0] < o->bounds[1]);
            o->has_range = 1;
            o->is_open[0] = *open == '(';
            o->is_open[1] = *close == ')';
            return;
        }
    }
}

/* Reads the option at *text, one of the row's, and moves behind it; 0: there is none. */
static int next_option(const stator_train_item *item, const char **text, option *o)
{
    const char *p = *text + strspn(*text, "; ");
    const size_t n = strcspn(p, ";"), value = strcspn(p, "=;");
    *o = (option){.n_values = 1};
    if (*p == '\0') {
        return 0;
    }
    CHECK(sscanf(p, "%47[^:]:%15[^=;]", o->name, o->kind) == 2);
    o->has_default =
        strcmp(o->kind, "string") != 0 && value < n && strncmp(p + value, "=none", 5) != 0;
    if (o->has_default) {
        read_default(p + value + 1, o);
    }
    read_range(item->ranges, o);
    *text = p + n;
    return 1;
}

/* A step of the row with the option set: is it refused for this value? */
static int is_refused(stator_ctx *ctx, const stator_model *model, const stator_train_item *item,
                      const char *name, const char *text)
{
    const int is_step = item->kind == STATOR_TRAIN_STEP;
    const stator_train_options o = {
        .struct_size = sizeof o,
        .loss = item->kind == STATOR_TRAIN_LOSS ? item->name : "mse",
        .optimizer = item->kind == STATOR_TRAIN_OPTIMIZER ? item->name : "sgd",
        .schedule = item->kind == STATOR_TRAIN_SCHEDULE ? item->name : NULL,
        .amp = is_step ? "f16" : NULL,
        .teacher = is_step ? model : NULL,
        .option_keys = &name,
        .option_values = &text,
        .option_count = 1};
    char words[200];
    stator_model *step = NULL;
    const stator_status status = stator_model_train_step(model, &o, &step);
    stator_model_destroy(step);
    (void)snprintf(words, sizeof words, "option %s is '%s'", name, text);
    return status == STATOR_INVALID_ARGUMENT && strstr(stator_ctx_error_text(ctx), words) != NULL;
}

/* Of several values one at a time is the number, the others are the default's. */
static void expect_value_refused(stator_ctx *ctx, const stator_model *model,
                                 const stator_train_item *item, const option *o, const char *number)
{
    for (uint32_t at = 0; at < o->n_values; at++) {
        char text[160] = "";
        for (uint32_t i = 0; i < o->n_values; i++) {
            char one[40];
            (void)snprintf(one, sizeof one, "%.17g", o->values[i]);
            (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s",
                           i != 0 ? "," : "", i == at ? number : one);
        }
        if (!is_refused(ctx, model, item, o->name, text)) {
            (void)fprintf(stderr, "%s takes %s=%s: %s\n", item->name, o->name, text,
                          stator_ctx_error_text(ctx));
            CHECK(0);
        }
    }
}

/* Numbers outside, and bounds that are none of it. */
static void expect_range(stator_ctx *ctx, const stator_model *model, const stator_train_item *item,
                         const option *o)
{
    for (int i = 0; i < 2; i++) {
        const double bound = o->bounds[i], beyond = bound + (i == 0 ? -1 : 1) * (fabs(bound) + 1);
        char text[40];
        (void)snprintf(text, sizeof text, "%.17g", beyond);
        expect_value_refused(ctx, model, item, o, text);
        if (o->is_open[i]) {
            (void)snprintf(text, sizeof text, "%.17g", bound);
            expect_value_refused(ctx, model, item, o, text);
        }
    }
    for (uint32_t i = 0; o->has_default && i < o->n_values; i++) {
        const double v = o->values[i];
        CHECK((o->is_open[0] ? v > o->bounds[0] : v >= o->bounds[0]) &&
              (o->is_open[1] ? v < o->bounds[1] : v <= o->bounds[1]));
    }
}

/* Each option of the row and each of its values; how many have a range. */
static uint32_t expect_options(stator_ctx *ctx, const stator_model *model,
                               const stator_train_item *item)
{
    static const char *const never[] = {"nan", "-nan", "inf", "-inf", "1e39", "-1e39", "1e-46"};
    option o;
    uint32_t n = 0, n_ranges = item->ranges[0] != '\0';
    for (const char *text = item->options; next_option(item, &text, &o);) {
        for (size_t i = 0; strcmp(o.kind, "string") != 0 && i < sizeof never / sizeof *never; i++) {
            expect_value_refused(ctx, model, item, &o, never[i]);
        }
        if (o.has_range) {
            expect_range(ctx, model, item, &o);
            n++;
        }
    }
    for (const char *p = item->ranges; *p != '\0'; p++) {
        n_ranges += *p == ';';
    }
    CHECK(n == n_ranges); /* each range is one of an option of the row */
    return n;
}

/* Every row of the table can be asked about. */
static void expect_table(stator_ctx *ctx, const stator_model *model)
{
    stator_train_item item = {.struct_size = sizeof item};
    uint32_t n = 0, n_ranges = 0, kinds[4] = {0};
    while (stator_train_item_info(ctx, n, &item) == STATOR_OK) {
        CHECK(item.name[0] != '\0' && item.doc[0] != '\0' && item.kind < 4);
        kinds[item.kind]++;
        n_ranges += expect_options(ctx, model, &item);
        n++;
    }
    CHECK(kinds[STATOR_TRAIN_LOSS] == 8 && kinds[STATOR_TRAIN_STEP] == 3 &&
          kinds[STATOR_TRAIN_OPTIMIZER] == 4 && kinds[STATOR_TRAIN_SCHEDULE] == 4);
    CHECK(n_ranges == 36);
}

int main(void)
{
    stator_ctx *ctx = NULL;
    CHECK(stator_ctx_create(NULL, &ctx) == STATOR_OK);
    stator_model *model = load_text(ctx, PROGRAM);
    expect_refusals(ctx, model);
    expect_table(ctx, model);
    stator_model_destroy(model);
    stator_ctx_destroy(ctx);
    return 0;
}
