/* Which training a checkpoint is of: all that has to be the same for the same bits, as JSON. Hashes
 * of the model, of its frozen parameters and of the data; the settings, with options by value: 0.1
 * and 1e-1 are one number, and one that is not given is its default. */
#define _GNU_SOURCE
#include "tools/train/training.h"

#include "core/base/map.h"

#include <stdlib.h>
#include <string.h>

#define OPTIONS "options"
#define FREEZE "freeze"
#define FROZEN "frozen parameters"
#define TEMPERATURE "temperature"

/* Settings of a word, and what stands for one that is not given. is_later: checkpoints of older
 * builds lack it, which did the usual. */
static const struct {
    const char *key, *usual;
    bool is_later;
} words[] = {
    {"train_mode", "model", true},  {"teacher", "none", true}, {"teacher_output", "", true},
    {"teacher_loss", "none", true}, {"budget", "none", true},  {"loss", "", false},
    {"output", "", false},          {"optimizer", "", false},  {"schedule", "constant", false},
    {"amp", "none", false},         {FREEZE, "", false},       {"shuffle", "on", false},
    {"last", "keep", false},
};

/* ---- hashes ---- */

/* Continues a hash with more bytes. */
static void add_hash(uint8_t hash[16], const void *data, uint64_t size)
{
    uint8_t both[32];
    memcpy(both, hash, 16);
    st_hash128(data, size, both + 16);
    st_hash128(both, sizeof both, hash);
}

static void add_hash_json(cJSON *object, const char *key, const uint8_t hash[16])
{
    char text[33];
    for (uint32_t i = 0; i < 16; i++) {
        (void)snprintf(text + (size_t)2 * i, 3, "%02x", hash[i]);
    }
    cJSON_AddStringToObject(object, key, text);
}

/* Continues the hash with a name and the contents of a parameter or a constant. */
static cli_status hash_value(const train *t, const char *name, stator_blob *blob, uint8_t hash[16])
{
    uint8_t part[16];
    CLI_FAIL_IF(stator_ctx_host(t->ctx)->cst->hash(blob, part, NULL) != STATOR_OK,
                t->settings->common.json, "UNAVAILABLE", NULL,
                "the contents of '%s' cannot be read", name);
    add_hash(hash, name, strlen(name));
    add_hash(hash, part, sizeof part);
    return CLI_OK;
}

/* A model: its graph, names of its inputs, constants; with_params: what its parameters hold,
 * too. */
static cli_status add_model(const train *t, cJSON *object, const char *key,
                            const stator_model *model, bool with_params)
{
    const stator_host *host = stator_ctx_host(t->ctx);
    const stator_graph *graph = stator_model_graph(model);
    uint8_t hash[16] = {0};
    CLI_FAIL_IF(graph == NULL, t->settings->common.json, "FAILED_PRECONDITION", NULL,
                "the %s has no graph", key);
    const stator_graph_view *v = host->ir->view(graph);
    host->ir->structural_hash(graph, hash);
    for (stator_ref value = 1; value <= v->n_values; value++) {
        const char *name = stator_string_at(v, stator_value_at(v, value)->name);
        stator_blob *blob =
            value > v->n_inputs || with_params ? host->cst->of_value(graph, value) : NULL;
        if (value <= v->n_inputs) {
            add_hash(hash, name, strlen(name));
        }
        if (blob != NULL) {
            CLI_TRY(hash_value(t, name, blob, hash));
        }
    }
    add_hash_json(object, key, hash);
    return CLI_OK;
}

/* Parameters that the training leaves as they are, also those of a teacher. */
static cli_status add_frozen(const train *t, cJSON *object)
{
    const stator_graph *graph = stator_model_graph(t->step.model);
    const stator_host *host = stator_ctx_host(t->ctx);
    const stator_graph_view *v = host->ir->view(graph);
    uint8_t hash[16] = {0};
    for (stator_ref input = 1; input <= v->n_inputs; input++) {
        stator_blob *blob = host->cst->of_value(graph, input);
        if (blob != NULL) {
            CLI_TRY(
                hash_value(t, stator_string_at(v, stator_value_at(v, input)->name), blob, hash));
        }
    }
    add_hash_json(object, FROZEN, hash);
    return CLI_OK;
}

static void add_data(const train *t, cJSON *object)
{
    uint8_t hash[16] = {0};
    for (uint32_t k = 0; k < t->data.n_ports; k++) {
        const train_port *port = &t->data.ports[k];
        add_hash(hash, port->info.name, strlen(port->info.name));
        add_hash(hash, stator_tensor_data(port->array), stator_tensor_size_bytes(port->array));
    }
    add_hash_json(object, "data", hash);
}

/* ---- options ---- */

/* What was given for an option; NULL: nothing. */
static const char *given_value(const train_settings *s, const char *name, size_t n)
{
    const char *value = NULL;
    for (uint32_t k = 0; k < s->options.option_count; k++) {
        const char *key = s->options.option_keys[k];
        value =
            strlen(key) == n && strncmp(key, name, n) == 0 ? s->options.option_values[k] : value;
    }
    return value;
}

/* The number that the whole text is, or the text ("none"). */
static cJSON *number_or_text(const char *text, bool is_whole)
{
    char *end = NULL;
    cJSON *number =
        is_whole ? cli_json_size(strtoll(text, &end, 10)) : cli_json_number(strtod(text, &end));
    if (end != text && *end == '\0') {
        return number;
    }
    cJSON_Delete(number);
    return cJSON_CreateString(text);
}

/* Numbers with commas between, in brackets or not. */
static cJSON *numbers(const char *text)
{
    cJSON *array = cJSON_CreateArray();
    char *end = NULL;
    for (const char *p = text; *p != '\0'; p = end) {
        p += strspn(p, "[], ");
        const double value = strtod(p, &end);
        if (end == p) {
            break;
        }
        cJSON_AddItemToArray(array, cli_json_number(value));
    }
    return array;
}

/* "name:kind=default": its value in this training, by its kind. */
static void add_option(const train_settings *s, const char *item, cJSON *options)
{
    char name[64], kind[16], text[256];
    const char *colon = strchr(item, ':');
    const size_t n = colon != NULL ? (size_t)(colon - item) : strlen(item);
    const char *rest = colon != NULL ? colon + 1 : "";
    const size_t m = strcspn(rest, "=");
    const char *value = given_value(s, item, n);
    (void)snprintf(name, sizeof name, "%.*s", (int)n, item);
    (void)snprintf(kind, sizeof kind, "%.*s", (int)m, rest);
    (void)snprintf(text, sizeof text, "%s", rest[m] == '=' ? rest + m + 1 : "");
    value = value != NULL ? value : text;
    cJSON_AddItemToObject(options, name,
                          strcmp(kind, "string") == 0   ? cJSON_CreateString(value)
                          : strcmp(kind, "floats") == 0 ? numbers(value)
                                                        : number_or_text(value, kind[0] == 'i'));
}

/* Options of a row of the table: "name:kind=default; ..." */
static void add_row(const train_settings *s, const stator_train_item *row, cJSON *options)
{
    for (const char *p = row->options; *p != '\0';) {
        char item[256];
        p += strspn(p, "; ");
        const size_t n = strcspn(p, ";");
        (void)snprintf(item, sizeof item, "%.*s", (int)n, p);
        if (n != 0) {
            add_option(s, item, options);
        }
        p += n;
    }
}

static const char *teacher_loss(const train_settings *s)
{
    return s->options.teacher_loss != NULL ? s->options.teacher_loss : STATOR_TEACHER_LOSS;
}

/* Beside a teacher a temperature that is not given is 1, but in a loss of the model's own. */
static void set_temperature(const train_settings *s, cJSON *options)
{
    const cJSON *temperature = cJSON_GetObjectItemCaseSensitive(options, TEMPERATURE);
    const bool is_taught = s->teacher != NULL && (s->options.loss == NULL ||
                                                  strcmp(s->options.loss, teacher_loss(s)) != 0);
    if (is_taught && cJSON_IsString(temperature)) {
        cJSON_ReplaceItemInObjectCaseSensitive(options, TEMPERATURE, cli_json_number(1));
    }
}

/* Those of the step and of the losses, optimizer and schedule that it is made of: with all
 * defaults, which another Stator may have otherwise. */
static void add_options(const train *t, cJSON *object)
{
    const train_settings *s = t->settings;
    cJSON *options = cJSON_AddObjectToObject(object, OPTIONS);
    const bool is_taught = s->teacher != NULL;
    const bool is_scaled = s->options.amp != NULL && strcmp(s->options.amp, "f16") == 0;
    const struct {
        uint32_t kind;
        const char *name; /* NULL: none */
    } used[] = {{STATOR_TRAIN_LOSS, s->options.loss},
                {STATOR_TRAIN_LOSS, is_taught ? teacher_loss(s) : NULL},
                {STATOR_TRAIN_STEP, "step"},
                {STATOR_TRAIN_STEP, is_taught ? "teacher" : NULL},
                {STATOR_TRAIN_STEP, is_scaled ? "f16" : NULL},
                {STATOR_TRAIN_OPTIMIZER, s->options.optimizer},
                {STATOR_TRAIN_SCHEDULE, s->options.schedule}};
    stator_train_item row = {.struct_size = sizeof row};
    for (uint32_t i = 0; stator_train_item_info(t->ctx, i, &row) == STATOR_OK; i++) {
        for (uint32_t k = 0; k < sizeof used / sizeof used[0]; k++) {
            if (row.kind == used[k].kind && used[k].name != NULL &&
                strcmp(used[k].name, row.name) == 0) {
                add_row(s, &row, options);
                break;
            }
        }
    }
    set_temperature(s, options);
}

/* ---- the whole ---- */

/* word NULL: not given. */
static void add_word(cJSON *object, const char *key, const char *word)
{
    for (size_t k = 0; word == NULL && k < sizeof words / sizeof words[0]; k++) {
        word = strcmp(words[k].key, key) == 0 ? words[k].usual : NULL;
    }
    cJSON_AddStringToObject(object, key, word);
}

cJSON *train_identity(const train *t)
{
    const train_settings *s = t->settings;
    cJSON *object = cJSON_CreateObject();
    add_word(object, "train_mode", s->train_mode ? "on" : NULL);
    cli_status status = add_model(t, object, "model", t->model, false);
    if (status == CLI_OK && t->teacher != NULL) {
        status = add_model(t, object, "teacher", t->teacher, true);
    } else {
        add_word(object, "teacher", NULL);
    }
    add_word(object, "teacher_output", s->options.teacher_output);
    add_word(object, "teacher_loss", t->teacher != NULL ? teacher_loss(s) : NULL);
    add_word(object, "loss", s->options.loss);
    add_word(object, "output", s->options.output);
    add_word(object, "optimizer", s->options.optimizer);
    add_word(object, "schedule", s->options.schedule);
    add_word(object, "amp", s->options.amp);
    if ((s->options.flags & STATOR_TRAIN_BUDGET) != 0) {
        cJSON_AddItemToObject(object, "budget", cli_json_number(s->options.budget));
    } else {
        add_word(object, "budget", NULL);
    }
    add_word(object, FREEZE, s->options.freeze);
    add_options(t, object);
    cJSON_AddItemToObject(object, "lr", cli_json_number(s->lr));
    cJSON_AddItemToObject(object, "batch", cli_json_size(s->batch));
    cJSON_AddItemToObject(object, "accumulate", cli_json_size(s->accumulate));
    cJSON_AddItemToObject(object, "seed", cli_json_size(s->seed));
    add_word(object, "shuffle", s->shuffle);
    add_word(object, "last", s->last);
    add_data(t, object);
    status = status == CLI_OK ? add_frozen(t, object) : status;
    if (status != CLI_OK) {
        cJSON_Delete(object);
        return NULL;
    }
    return object;
}

/* ---- comparing ---- */

/* By their texts, which have all digits of a number. */
static bool is_same(const cJSON *want, const cJSON *have)
{
    char *is = want != NULL ? cJSON_PrintUnformatted(want) : NULL;
    char *was = have != NULL ? cJSON_PrintUnformatted(have) : NULL;
    const bool is_equal = is != NULL && was != NULL && strcmp(is, was) == 0;
    cJSON_free(is);
    cJSON_free(was);
    return is_equal;
}

/* Is it what a build did that did not know the setting? */
static bool was_usual(const cJSON *want)
{
    bool is_usual = false;
    for (size_t k = 0; cJSON_IsString(want) && k < sizeof words / sizeof words[0]; k++) {
        is_usual |= words[k].is_later && strcmp(want->string, words[k].key) == 0 &&
                    strcmp(want->valuestring, words[k].usual) == 0;
    }
    return is_usual;
}

static cli_status say_other(const train *t, const char *what, const char *name, const cJSON *want,
                            const cJSON *have)
{
    char hint[160] = "go on with the settings that it was made with, or name another folder";
    char *is = cJSON_PrintUnformatted(want);
    char *was = have != NULL ? cJSON_PrintUnformatted(have) : NULL;
    if (t->settings->ends_with_epochs && strcmp(name, "total_steps") == 0 && was != NULL) {
        (void)snprintf(hint, sizeof hint,
                       "the schedule ends with the last step, which --epochs moves; --opt "
                       "total_steps=%.20s keeps the rates that it began with",
                       was);
    }
    const cli_status status =
        cli_fail(t->settings->common.json, "FAILED_PRECONDITION", hint,
                 "%s is of another training: %s%s is %s there and %s here", t->checkpoint.path,
                 what, name, was != NULL ? was : "not said", is != NULL ? is : "?");
    cJSON_free(is);
    cJSON_free(was);
    return status;
}

static cli_status compare_all(const train *t, const cJSON *there, const cJSON *here,
                              const char *what)
{
    /* Other globs may name the same parameters: what is frozen is a hash of its own. */
    const bool may_freeze = is_same(cJSON_GetObjectItemCaseSensitive(here, FROZEN),
                                    cJSON_GetObjectItemCaseSensitive(there, FROZEN));
    for (const cJSON *want = here->child; want != NULL; want = want->next) {
        const cJSON *have = cJSON_GetObjectItemCaseSensitive(there, want->string);
        if (cJSON_IsObject(want) && cJSON_IsObject(have)) {
            CLI_TRY(compare_all(t, have, want, "option "));
        } else if (!is_same(want, have) && !(have == NULL && was_usual(want)) &&
                   !(may_freeze && strcmp(want->string, FREEZE) == 0)) {
            return say_other(t, what, want->string, want, have);
        }
    }
    return CLI_OK;
}

/* Older builds wrote "none" for a temperature that was not given, which counted as 1 then, too. */
cli_status train_compare_identity(const train *t, const cJSON *there)
{
    cJSON *here = train_identity(t);
    cJSON *known = cJSON_Duplicate(there, 1);
    set_temperature(t->settings, cJSON_GetObjectItemCaseSensitive(known, OPTIONS));
    const cli_status status = here != NULL ? compare_all(t, known, here, "") : CLI_FAILED;
    cJSON_Delete(here);
    cJSON_Delete(known);
    return status;
}
