/* A model's inputs from the command line, and compiling with the command line's flags. See cli.h.
 */
#define _GNU_SOURCE
#include "tools/cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define ERROR_SIZE 512u

typedef struct loader {
    stator_ctx *ctx;
    stator_model *model;
    const cli_inputs *flags;
    int json;
    stator_port_info *ports;
    stator_tensor **in;
    uint32_t n;
} loader;

bool cli_has_input_files(const cli_inputs *flags)
{
    return flags->inputs != NULL || flags->input.count > 0 || flags->image.count > 0;
}

static int64_t find_port(const loader *l, const char *name, size_t len)
{
    for (uint32_t i = 0; i < l->n; i++) {
        if (strlen(l->ports[i].name) == len && strncmp(l->ports[i].name, name, len) == 0) {
            return i;
        }
    }
    return -1;
}

static bool unknown_input(const loader *l, const char *name, size_t len)
{
    char names[1024] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < l->n && used < sizeof names - 80; i++) {
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%.60s", i > 0 ? ", " : "",
                                 l->ports[i].name);
    }
    return cli_fail(l->json, "NOT_FOUND", NULL, "the model has no input '%.*s' (it has: %s)",
                    (int)len, name, l->n > 0 ? names : "none") == CLI_OK;
}

/* Takes the tensor over; 0 when out of memory. */
static bool set_input(loader *l, uint32_t i, stator_tensor *tensor)
{
    stator_tensor_release(l->in[i]);
    l->in[i] = cli_from_numpy(l->ctx, l->ports[i].dtype, tensor);
    return l->in[i] != NULL || cli_fail_ctx(l->ctx, l->json) == CLI_OK;
}

/* Splits NAME=FILE; without a name the only input is meant. */
static bool split(const loader *l, const char *arg, int64_t *out_port, const char **out_path)
{
    const char *equals = strchr(arg, '=');
    if (equals == NULL && l->n == 1) {
        *out_port = 0;
        *out_path = arg;
        return true;
    }
    if (equals == NULL || equals[1] == '\0') {
        return cli_fail(l->json, "INVALID_ARGUMENT", NULL,
                        "'%s': write NAME=FILE, the model has %u input%s", arg, l->n,
                        l->n == 1 ? "" : "s") == CLI_OK;
    }
    *out_port = find_port(l, arg, (size_t)(equals - arg));
    *out_path = equals + 1;
    return *out_port >= 0 || unknown_input(l, arg, (size_t)(equals - arg));
}

static bool load_single(loader *l)
{
    char errbuf[ERROR_SIZE];
    for (uint32_t k = 0; k < l->flags->input.count; k++) {
        int64_t port = 0;
        const char *path = NULL;
        stator_tensor *tensor = NULL;
        ST_NEED(split(l, l->flags->input.items[k], &port, &path));
        if (!cli_read_npy(l->ctx, path, &tensor, errbuf)) {
            return cli_fail(l->json, "INVALID_ARGUMENT", NULL, "%s: %s", path, errbuf) == CLI_OK;
        }
        ST_NEED(set_input(l, (uint32_t)port, tensor));
    }
    return true;
}

/* A comma list of at most four numbers; 0 and a message when it is none or holds a forbidden 0. */
static bool parse_floats(const loader *l, const char *flag, const char *list, bool allow_zero,
                         float out[4], uint32_t *out_count)
{
    *out_count = 0;
    for (const char *at = list; at != NULL;) {
        char *end = NULL;
        const float value = *out_count < 4 ? strtof(at, &end) : 0.0f;
        if (end == NULL || end == at || (*end != ',' && *end != '\0') ||
            (value == 0.0f && !allow_zero)) {
            return cli_fail(l->json, "INVALID_ARGUMENT", NULL,
                            "%s '%s': write one number, or one a channel between commas%s", flag,
                            list, allow_zero ? "" : ", none of them 0") == CLI_OK;
        }
        out[(*out_count)++] = value;
        at = *end == ',' ? end + 1 : NULL;
    }
    return true;
}

/* Brings 1xCxHxW to the input's rank: a rank 3 input has no batch axis. */
static stator_tensor *fit_rank(loader *l, uint32_t i, stator_tensor *tensor)
{
    if (l->ports[i].rank != 3) {
        return tensor;
    }
    const DLTensor *view = stator_tensor_view(tensor);
    stator_tensor *out = NULL;
    if (stator_tensor_create(l->ctx, STATOR_F32, 3, view->shape + 1, &out) != STATOR_OK) {
        return tensor;
    }
    memcpy(stator_tensor_data(out), stator_tensor_data(tensor), stator_tensor_size_bytes(tensor));
    stator_tensor_release(tensor);
    return out;
}

static bool fail_channels(const loader *l, const char *name, uint32_t channels)
{
    if (channels == 1) {
        (void)cli_fail(l->json, "INVALID_ARGUMENT", NULL,
                       "input '%s' is gray: give --mean and --std one number", name);
    } else {
        (void)cli_fail(l->json, "INVALID_ARGUMENT", NULL,
                       "input '%s' has %u channels: give --mean and --std one number or %u", name,
                       channels, channels);
    }
    return false;
}

static bool load_images(loader *l)
{
    cli_image_norm norm = {0};
    char errbuf[ERROR_SIZE];
    ST_NEED(parse_floats(l, "--mean", l->flags->mean, true, norm.mean, &norm.n_mean) &&
            parse_floats(l, "--std", l->flags->std, false, norm.std, &norm.n_std));
    for (uint32_t k = 0; k < l->flags->image.count; k++) {
        int64_t port = 0;
        const char *path = NULL;
        stator_tensor *tensor = NULL;
        ST_NEED(split(l, l->flags->image.items[k], &port, &path));
        const stator_port_info *p = &l->ports[port];
        if (p->dtype != STATOR_F32 || (p->rank != 3 && p->rank != 4)) {
            return cli_fail(l->json, "INVALID_ARGUMENT", NULL,
                            "input '%s' is %s of rank %u; a picture becomes f32 of rank 3 or 4",
                            p->name, cli_dtype_name(p->dtype), p->rank) == CLI_OK;
        }
        const int64_t wanted = p->dims[p->rank - 3];
        const uint32_t channels = wanted > 0 && wanted < 100 ? (uint32_t)wanted : 3u;
        if ((norm.n_mean > 1 && norm.n_mean != channels) ||
            (norm.n_std > 1 && norm.n_std != channels)) {
            return fail_channels(l, p->name, channels);
        }
        if (!cli_read_png(l->ctx, path, channels, &norm, &tensor, errbuf)) {
            return cli_fail(l->json, "INVALID_ARGUMENT", NULL, "%s: %s", path, errbuf) == CLI_OK;
        }
        ST_NEED(set_input(l, (uint32_t)port, fit_rank(l, (uint32_t)port, tensor)));
    }
    return true;
}

/* Moves the tensors of a list into the inputs, by name or, without names, by place. */
static bool take_list(loader *l, cli_tensors *list, const char *from)
{
    for (uint32_t k = 0; k < list->count; k++) {
        int64_t port = (int)k;
        if (list->names[k] != NULL) {
            port = find_port(l, list->names[k], strlen(list->names[k]));
            if (port < 0) {
                return unknown_input(l, list->names[k], strlen(list->names[k]));
            }
        } else if (k >= l->n) {
            return cli_fail(l->json, "INVALID_ARGUMENT", NULL,
                            "'%s' holds %u inputs, the model has %u", from, list->count,
                            l->n) == CLI_OK;
        }
        stator_tensor *tensor = list->tensors[k];
        list->tensors[k] = NULL;
        ST_NEED(set_input(l, (uint32_t)port, tensor));
    }
    return true;
}

static bool load_bundle(loader *l)
{
    const char *path = l->flags->inputs;
    struct stat st;
    char errbuf[ERROR_SIZE] = "";
    cli_tensors list = {.ctx = l->ctx};
    if (path == NULL) {
        return true;
    }
    const bool is_dir = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    bool ok = is_dir ? cli_read_pb_folder(l->ctx, path, "input", &list, errbuf)
                     : cli_read_npz(l->ctx, path, &list, errbuf);
    if (!ok) {
        (void)cli_fail(l->json, "INVALID_ARGUMENT", NULL, "%s: %s", path, errbuf);
    }
    ok = ok && take_list(l, &list, path);
    cli_tensors_free(&list);
    return ok;
}

/* --dim N=8 of a symbolic dimension; 1 when not given. */
static int64_t dim_of(const cli_dims *dims, const char *name)
{
    for (uint32_t k = 0; name != NULL && k < dims->count; k++) {
        if (strcmp(dims->names[k], name) == 0) {
            return dims->values[k];
        }
    }
    return 1;
}

/* Is it the size of some input? */
static bool has_dim(const loader *l, const char *name)
{
    for (uint32_t i = 0; i < l->n; i++) {
        for (uint32_t axis = 0; axis < l->ports[i].rank; axis++) {
            const char *dim = l->ports[i].dim_names[axis];
            if (dim != NULL && strcmp(dim, name) == 0) {
                return true;
            }
        }
    }
    return false;
}

static bool bad_dim(const char *arg, int json)
{
    (void)cli_fail(json, "INVALID_ARGUMENT", NULL, "--dim '%s': write NAME=SIZE, as in N=8", arg);
    return false;
}

bool cli_parse_dims(const cli_list *flags, cli_dims *out, int json)
{
    *out = (cli_dims){0};
    for (uint32_t k = 0; k < flags->count; k++) {
        const char *arg = flags->items[k]; /* NAME=SIZE: CLI_SIZES */
        const size_t len = strcspn(arg, "=");
        if (len >= sizeof out->text[0]) {
            return bad_dim(arg, json);
        }
        (void)snprintf(out->text[k], sizeof out->text[k], "%.*s", (int)len, arg);
        out->names[k] = out->text[k];
        for (uint32_t i = 0; i < k; i++) {
            if (strcmp(out->names[i], out->names[k]) == 0) {
                (void)cli_fail(json, "INVALID_ARGUMENT", NULL, "--dim %s is given twice",
                               out->names[k]);
                return false;
            }
        }
        out->values[k] = strtoll(arg + len + 1, NULL, 10);
        out->count = k + 1;
    }
    return true;
}

static bool read_dims(const loader *l, cli_dims *out_dims)
{
    ST_NEED(cli_parse_dims(&l->flags->dim, out_dims, l->json));
    for (uint32_t k = 0; k < out_dims->count; k++) {
        if (!has_dim(l, out_dims->names[k])) {
            return cli_fail(l->json, "INVALID_ARGUMENT", "`stator print MODEL` shows the inputs",
                            "--dim %s: no input has a symbolic size of that name",
                            out_dims->names[k]) == CLI_OK;
        }
    }
    return true;
}

static bool fill_random(loader *l, const cli_dims *dims)
{
    const uint64_t seed = l->flags->random >= 0 ? (uint64_t)l->flags->random : 0;
    for (uint32_t i = 0; i < l->n; i++) {
        const stator_port_info *p = &l->ports[i];
        int64_t shape[STATOR_RANK_MAX];
        for (uint32_t axis = 0; axis < p->rank; axis++) {
            shape[axis] = p->dims[axis] >= 0 ? p->dims[axis] : dim_of(dims, p->dim_names[axis]);
        }
        if (stator_tensor_create(l->ctx, p->dtype, p->rank, shape, &l->in[i]) != STATOR_OK) {
            return cli_fail_ctx(l->ctx, l->json) == CLI_OK;
        }
        cli_fill_random(l->in[i], seed, i);
    }
    return true;
}

/* --dim beside inputs from files says what is true already, or is wrong. */
static bool check_dims(const loader *l, const cli_dims *dims)
{
    for (uint32_t k = 0; k < dims->count; k++) {
        for (uint32_t i = 0; i < l->n; i++) {
            const DLTensor *view = stator_tensor_view(l->in[i]);
            for (uint32_t axis = 0; axis < l->ports[i].rank && axis < (uint32_t)view->ndim;
                 axis++) {
                const char *name = l->ports[i].dim_names[axis];
                if (name != NULL && strcmp(name, dims->names[k]) == 0 &&
                    view->shape[axis] != dims->values[k]) {
                    return cli_fail(l->json, "INVALID_ARGUMENT", "inputs from files set the sizes",
                                    "--dim %s=%lld, but axis %u of input '%s' has size %lld", name,
                                    (long long)dims->values[k], axis, l->ports[i].name,
                                    (long long)view->shape[axis]) == CLI_OK;
                }
            }
        }
    }
    return true;
}

static bool check_complete(const loader *l)
{
    for (uint32_t i = 0; i < l->n; i++) {
        if (l->in[i] == NULL) {
            return cli_fail(l->json, "INVALID_ARGUMENT",
                            "give it with --inputs, --input or --image, or use --random alone",
                            "input '%s' is missing", l->ports[i].name) == CLI_OK;
        }
    }
    return true;
}

static bool load_all(loader *l)
{
    const cli_inputs *f = l->flags;
    cli_dims dims;
    for (uint32_t i = 0; i < l->n; i++) {
        l->ports[i].struct_size = sizeof l->ports[i];
        if (stator_model_input_info(l->model, i, &l->ports[i]) != STATOR_OK) {
            return cli_fail_ctx(l->ctx, l->json) == CLI_OK;
        }
    }
    ST_NEED(read_dims(l, &dims));
    if (!cli_has_input_files(f)) {
        return fill_random(l, &dims);
    }
    return load_bundle(l) && load_single(l) && load_images(l) && check_complete(l) &&
           check_dims(l, &dims);
}

/* The graph of such a model depends on the values of inputs; made-up ones may not fit. */
static cli_status fail_import(const loader *l)
{
    return !cli_has_input_files(l->flags)
               ? cli_fail(l->json, stator_status_name(stator_ctx_error_code(l->ctx)),
                          "the graph depends on the values of inputs and these were random; give "
                          "them with --input or --inputs",
                          "%s", stator_ctx_error_text(l->ctx))
               : cli_fail_ctx(l->ctx, l->json);
}

bool cli_load_inputs(stator_ctx *ctx, stator_model *model, const cli_inputs *flags, int json,
                     stator_tensor ***out_in, uint32_t *out_count)
{
    loader l = {.ctx = ctx, .model = model, .flags = flags, .json = json};
    l.n = stator_model_input_count(model);
    l.ports = calloc(l.n + 1u, sizeof *l.ports);
    l.in = calloc(l.n + 1u, sizeof(stator_tensor *));
    bool ok = l.ports != NULL && l.in != NULL;
    if (!ok) {
        (void)cli_fail(json, "RESOURCE_EXHAUSTED", NULL, "out of memory");
    }
    ok = ok && load_all(&l);
    if (ok && stator_model_specialise(model, l.n, l.in) != STATOR_OK) {
        (void)fail_import(&l);
        ok = false;
    }
    free(l.ports);
    *out_in = l.in;
    *out_count = l.n;
    if (!ok) {
        cli_free_inputs(l.in, l.n);
        *out_in = NULL;
        *out_count = 0;
    }
    return ok;
}

void cli_free_inputs(stator_tensor **in, uint32_t n)
{
    for (uint32_t i = 0; in != NULL && i < n; i++) {
        stator_tensor_release(in[i]);
    }
    free(in);
}

const char *cli_output_name(const stator_model *model, uint32_t k, char out[32])
{
    stator_port_info port = {.struct_size = sizeof port};
    if (stator_model_output_info(model, k, &port) == STATOR_OK && port.name[0] != '\0') {
        return port.name;
    }
    (void)snprintf(out, 32, "output_%u", k);
    return out;
}

/* ---- compiling ---- */

/* A misspelt --fallback is found out also when nothing falls back. */
static bool check_fallback(stator_ctx *ctx, const char *name, int json)
{
    if (name == NULL || stator_ctx_scan(ctx) != STATOR_OK) {
        return true; /* an error of the scan comes again */
    }
    const uint32_t count = stator_ctx_item_count(ctx);
    for (uint32_t i = 0; i < count; i++) {
        stator_item_info info = {.struct_size = sizeof info};
        if (stator_ctx_item_info(ctx, i, &info) == STATOR_OK && strcmp(info.name, name) == 0) {
            return true;
        }
    }
    return cli_unknown_backend(ctx, name, json) == CLI_OK;
}

cli_status cli_read_budget(const char *text, int json, double *out_budget)
{
    char *end = NULL;
    *out_budget = strtod(text, &end);
    CLI_FAIL_IF(end == text || *end != '\0', json, "INVALID_ARGUMENT", NULL,
                "--budget '%s' is no number from 0 to 1", text);
    return CLI_OK;
}

bool cli_split_options(const cli_list *pairs, int json, cli_options_room *room)
{
    for (uint32_t k = 0; k < pairs->count; k++) {
        const char *arg = pairs->items[k]; /* KEY=VALUE: CLI_PAIRS */
        const size_t len = strcspn(arg, "=");
        if (len >= sizeof room->texts[0]) {
            return cli_fail(json, "INVALID_ARGUMENT", NULL, "option '%s': write KEY=VALUE", arg) ==
                   CLI_OK;
        }
        (void)snprintf(room->texts[k], sizeof room->texts[k], "%.*s", (int)len, arg);
        room->keys[k] = room->texts[k];
        room->values[k] = arg + len + 1;
    }
    return true;
}

bool cli_compile_options(const cli_compile *flags, const char *backend, int json,
                         cli_options_room *room, stator_compile_options *out)
{
    ST_NEED(cli_split_options(&flags->options, json, room));
    const uint32_t strict = (flags->strict ? STATOR_COMPILE_STRICT : 0) |
                            (flags->strict_sizes ? STATOR_COMPILE_STRICT_SIZES : 0) |
                            (flags->strict_copies ? STATOR_COMPILE_STRICT_COPIES : 0);
    *out = (stator_compile_options){
        .struct_size = sizeof *out,
        .flags = flags->compile_flags | strict,
        .backend = backend,
        .mode = flags->mode,
        .fallback = flags->fallback,
        .node_fallbacks = flags->node_fallbacks,
        .device = flags->device,
        .outputs = flags->outputs,
        .option_keys = room->keys,
        .option_values = room->values,
        .option_count = flags->options.count,
        .fuel = flags->fuel,
        .fuel_scope = flags->fuel_scope,
        .verify = (uint32_t)(flags->verify < UINT32_MAX ? flags->verify : UINT32_MAX)};
    return true;
}

stator_function *cli_compile_model(stator_ctx *ctx, stator_model *model, const cli_compile *flags,
                                   const char *backend, int json)
{
    cli_options_room room;
    stator_compile_options options;
    if (!cli_compile_options(flags, backend, json, &room, &options)) {
        return NULL;
    }
    stator_function *function = NULL;
    if (!check_fallback(ctx, flags->fallback, json)) {
        return NULL;
    }
    const stator_status status = stator_compile(model, &options, &function);
    if (status != STATOR_OK) {
        (void)cli_fail_ctx(ctx, json);
        return NULL;
    }
    return function;
}
