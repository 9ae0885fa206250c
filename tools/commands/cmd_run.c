/* stator run: a model on a backend, once or many times; checks against expected outputs, shows
 * classes, saves outputs. */
#define _GNU_SOURCE
#include "tools/cli/cli.h"
#include "tools/conform_cases.h"

#include "core/base/check.h"
#include "core/base/convert.h"
#include "core/base/threads/threads.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define ERROR_SIZE 512u

typedef struct run {
    cli_common common;
    cli_inputs inputs;
    cli_compile compile;
    const char *expect;
    st_tolerance tolerance;
    const char *save;
    int64_t repeat;
    const char *outputs; /* host, device; NULL: as the call has them */
    const char *labels;
    int64_t top;
    char **names; /* names of the classes, from labels */
    uint32_t n_names;
    cli_program p;
    stator_tensor **out;
    uint32_t n_out;
    cli_tensors want;
    double compile_ms, first_ms;
    double median_ms, min_ms; /* times of the calls of --repeat, if any */
    const char *profile_path;
    cli_profile *profile;
} run;

/* Results of a call on a device may still be computed when it returns: they are waited for. */
static stator_status call_once(const run *r, stator_bound_call *bound)
{
    const stator_status status =
        bound != NULL ? stator_bound_call_run(bound)
                      : stator_call_tensors(r->p.function, r->p.n_in, r->p.in, r->n_out, r->out);
    return status == STATOR_OK && r->compile.outputs == STATOR_OUTPUTS_DEVICE
               ? stator_function_wait(r->p.function)
               : status;
}

/* Calls again and again with the outputs reused, bound once in mode reduce-overhead. */
static stator_status call_more(run *r, double *times, uint64_t n)
{
    const char *mode = r->compile.mode;
    const bool is_bound = mode != NULL && strcmp(mode, "reduce-overhead") == 0;
    stator_bound_call *bound = NULL;
    stator_status status =
        is_bound ? stator_bind(r->p.function, r->p.n_in, r->p.in, r->n_out, r->out, &bound)
                 : STATOR_OK;
    for (uint64_t i = 0; status == STATOR_OK && i < n; i++) {
        const uint64_t begin = st_now_ns();
        status = call_once(r, bound);
        times[i] = cli_ms_since(begin);
    }
    stator_bound_call_destroy(bound);
    return status;
}

/* Prints why; a call that --verify found wrong is a wrong answer. */
static cli_status call_failed(const run *r, stator_status status)
{
    const cli_status failed = cli_fail_ctx(r->p.ctx, r->common.json);
    return status == STATOR_DATA_LOSS && r->compile.verify != 0 ? CLI_WRONG : failed;
}

/* Calls once, then --repeat times more. */
static cli_status call_all(run *r)
{
    const uint64_t start = st_now_ns();
    stator_status status = call_once(r, NULL);
    if (status != STATOR_OK) {
        return call_failed(r, status);
    }
    r->compile_ms = (double)stator_function_compile_ns(r->p.function) / 1e6;
    r->first_ms = cli_ms_since(start);
    if (r->profile != NULL && r->repeat > 0) {
        stator_x_profile_start(r->p.ctx); /* anew: the first call also makes ready */
    }
    if (r->repeat == 0) {
        return CLI_OK;
    }
    const uint64_t n = (uint64_t)r->repeat;
    double *times = calloc(n, sizeof *times);
    CLI_FAIL_IF(times == NULL, r->common.json, "RESOURCE_EXHAUSTED", NULL, "out of memory");
    status = call_more(r, times, n);
    if (status != STATOR_OK) {
        free(times);
        return call_failed(r, status);
    }
    cli_sort(times, n);
    r->median_ms = times[n / 2];
    r->min_ms = times[0];
    free(times);
    return CLI_OK;
}

/* Results that lie on a device come to the host, once all calls are done. */
static cli_status fetch_outputs(run *r)
{
    for (uint32_t k = 0; k < r->n_out; k++) {
        stator_tensor *here = NULL;
        CLI_TRY_CTX(r->p.ctx, r->common.json, cli_on_host(r->p.ctx, r->out[k], &here));
        stator_tensor_release(r->out[k]);
        r->out[k] = here;
    }
    return CLI_OK;
}

/* The same, with --profile timed step by step. */
static cli_status call_profiled(run *r)
{
    if (r->profile_path == NULL) {
        return call_all(r);
    }
    r->profile = cli_profile_start(r->p.ctx, r->profile_path, r->common.json);
    if (r->profile == NULL) {
        return CLI_FAILED;
    }
    CLI_TRY(call_all(r));
    return cli_profile_stop(r->profile, &r->p, r->profile_path, r->common.json);
}

/* What the command line leaves open is that of the case, as for conform: case.json lies beside the
 * folder of a data set. */
static void choose_tolerance(run *r, bool is_dir)
{
    char folder[4096];
    if (!is_dir) {
        return;
    }
    (void)snprintf(folder, sizeof folder, "%.4000s/..", r->expect);
    const st_tolerance usual = read_tolerance(folder);
    r->tolerance.rtol = r->tolerance.rtol < 0 ? usual.rtol : r->tolerance.rtol;
    r->tolerance.atol = r->tolerance.atol < 0 ? usual.atol : r->tolerance.atol;
}

static cli_status load_expected(run *r)
{
    struct stat st;
    char errbuf[ERROR_SIZE];
    if (r->expect == NULL) {
        return CLI_OK;
    }
    const bool is_dir = stat(r->expect, &st) == 0 && S_ISDIR(st.st_mode);
    choose_tolerance(r, is_dir);
    const bool ok = is_dir ? cli_read_pb_folder(r->p.ctx, r->expect, "output", &r->want, errbuf)
                           : cli_read_npz(r->p.ctx, r->expect, &r->want, errbuf);
    CLI_FAIL_IF(!ok, r->common.json, "INVALID_ARGUMENT", NULL, "%s: %s", r->expect, errbuf);
    CLI_FAIL_IF(r->want.count == 0, r->common.json, "INVALID_ARGUMENT",
                "a folder of output_I.pb, or an .npz with the outputs' names",
                "'%s' holds no output", r->expect);
    return CLI_OK;
}

static cli_status unknown_output(const run *r, const char *name)
{
    char list[512] = "";
    size_t n = 0;
    for (uint32_t k = 0; k < r->n_out && n < sizeof list; k++) {
        char own[32];
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", k != 0 ? ", " : "",
                              cli_output_name(r->p.model, k, own));
    }
    return cli_fail(r->common.json, "NOT_FOUND", "name the arrays of the archive as the outputs",
                    "%s: the model has no output '%s'; its outputs are %s%s", r->expect, name, list,
                    n >= sizeof list ? "..." : "");
}

/* Everything expected is of some output: a misspelt name would only look like a missing one. */
static cli_status check_expected(const run *r)
{
    for (uint32_t i = 0; i < r->want.count; i++) {
        bool is_known = r->want.names[i] == NULL && i < r->n_out;
        for (uint32_t k = 0; r->want.names[i] != NULL && k < r->n_out; k++) {
            char name[32];
            is_known |= strcmp(r->want.names[i], cli_output_name(r->p.model, k, name)) == 0;
        }
        if (!is_known && r->want.names[i] != NULL) {
            return unknown_output(r, r->want.names[i]);
        }
        CLI_FAIL_IF(!is_known, r->common.json, "INVALID_ARGUMENT", NULL,
                    "'%s' holds %u outputs, the model has %u", r->expect, r->want.count, r->n_out);
    }
    return CLI_OK;
}

/* The expected tensor of output k: by name, or by place where the file gives no names. Its dtype is
 * brought to the output's where NumPy has none for it. */
static const stator_tensor *expected_of(const run *r, uint32_t k, const char *name)
{
    for (uint32_t i = 0; i < r->want.count; i++) {
        if (r->want.tensors[i] != NULL &&
            (r->want.names[i] != NULL ? strcmp(r->want.names[i], name) == 0 : i == k)) {
            r->want.tensors[i] =
                cli_from_numpy(r->p.ctx, stator_tensor_dtype(r->out[k]), r->want.tensors[i]);
            return r->want.tensors[i];
        }
    }
    return NULL;
}

/* One row of "outputs"; clears *all_ok on a wrong one. */
static cJSON *output_json(const run *r, uint32_t k, int *all_ok)
{
    char buffer[32];
    const char *name = cli_output_name(r->p.model, k, buffer);
    const DLTensor *view = stator_tensor_view(r->out[k]);
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "name", name);
    cJSON_AddStringToObject(row, "dtype", cli_dtype_name(stator_tensor_dtype(r->out[k])));
    cJSON_AddItemToObject(row, "shape", cli_json_shape(view));
    const stator_tensor *want = expected_of(r, k, name);
    if (r->expect == NULL) {
        cJSON_AddNullToObject(row, "max_abs_err");
        cJSON_AddNullToObject(row, "max_rel_err");
        cJSON_AddNullToObject(row, "ok");
        return row;
    }
    st_difference d = {.max_abs = 0.0 / 0.0, .max_rel = 0.0 / 0.0, .reason = "name"};
    if (want != NULL) {
        st_compare(view, stator_tensor_view(want), &r->tolerance, &d);
    }
    cli_json_difference(row, &d);
    *all_ok &= d.ok;
    return row;
}

/* ---- classes ---- */

/* Takes the text over; 0 when out of memory. */
static bool add_label(run *r, char *text)
{
    char **names = realloc(r->names, (r->n_names + 1u) * sizeof *names);
    if (names == NULL) {
        free(text);
        return false;
    }
    r->names = names;
    text[strcspn(text, "\r\n")] = '\0';
    r->names[r->n_names++] = text;
    return true;
}

static cli_status load_labels(run *r)
{
    if (r->labels == NULL) {
        return CLI_OK;
    }
    FILE *file = fopen(r->labels, "r");
    struct stat st;
    CLI_FAIL_IF(file == NULL || fstat(fileno(file), &st) != 0, r->common.json, "NOT_FOUND", NULL,
                "cannot open '%s': %s", r->labels, strerror(errno));
    if (!S_ISREG(st.st_mode)) {
        (void)fclose(file);
        return cli_fail(r->common.json, "INVALID_ARGUMENT", "name a file of one name a line",
                        "'%s' is %s", r->labels,
                        S_ISDIR(st.st_mode) ? "a folder" : "no regular file");
    }
    bool is_read = true;
    for (bool more = true; more;) {
        char *line = NULL;
        size_t size = 0;
        more = getline(&line, &size, file) >= 0;
        if (!more) {
            free(line);
            is_read &= feof(file) != 0;
        } else if (!add_label(r, line)) {
            more = false;
            is_read = false;
        }
    }
    (void)fclose(file);
    return is_read && r->n_names > 0
               ? CLI_OK
               : cli_fail(r->common.json, "INVALID_ARGUMENT", "write one name a line",
                          "'%s' holds no labels", r->labels);
}

typedef struct class_score {
    int64_t index;
    double score;
} class_score;

/* Descending; NaN last; equal ones in the order of the classes. */
static int by_score(const void *a, const void *b)
{
    const class_score *x = a;
    const class_score *y = b;
    const int x_nan = x->score != x->score;
    const int y_nan = y->score != y->score;
    if (x_nan != y_nan) {
        return x_nan - y_nan;
    }
    const int order = (x->score < y->score) - (x->score > y->score);
    return order != 0 ? order : (x->index > y->index) - (x->index < y->index);
}

/* The K highest scores of row `row` of the first output. */
static cJSON *top_of_row(const run *r, int64_t row, int64_t classes)
{
    const stator_tensor *scores = r->out[0];
    const stator_dtype dtype = stator_tensor_dtype(scores);
    cJSON *array = cJSON_CreateArray();
    class_score *all = calloc((size_t)classes, sizeof *all);
    for (int64_t i = 0; all != NULL && i < classes; i++) {
        all[i] =
            (class_score){i, st_load_f64(dtype, stator_tensor_data(scores), row * classes + i)};
    }
    if (all != NULL) {
        qsort(all, (size_t)classes, sizeof *all, by_score);
    }
    for (int64_t rank = 0; all != NULL && rank < r->top && rank < classes; rank++) {
        const int64_t index = all[rank].index;
        cJSON *item = cJSON_CreateObject();
        cJSON_AddNumberToObject(item, "index", (double)index);
        cJSON_AddStringToObject(item, "label", (uint64_t)index < r->n_names ? r->names[index] : "");
        cJSON_AddItemToObject(item, "score", cli_json_number(all[rank].score));
        cJSON_AddItemToArray(array, item);
    }
    free(all);
    return array;
}

static cJSON *top_json(const run *r)
{
    const DLTensor *view = stator_tensor_view(r->out[0]);
    const int64_t classes = view->ndim > 0 ? view->shape[view->ndim - 1] : 1;
    int64_t rows = 1;
    for (int32_t axis = 0; axis + 1 < view->ndim; axis++) {
        rows *= view->shape[axis];
    }
    if ((int64_t)r->n_names != classes) {
        (void)fprintf(stderr, "stator: warning: '%s' has %u labels, the output %lld classes\n",
                      r->labels, r->n_names, (long long)classes);
    }
    cJSON *array = cJSON_CreateArray();
    for (int64_t row = 0; row < rows && classes > 0; row++) {
        cJSON_AddItemToArray(array, top_of_row(r, row, classes));
    }
    return array;
}

/* ---- reporting ---- */

static cJSON *report_json(const run *r, int *all_ok)
{
    stator_mem_stats stats = {.struct_size = sizeof stats};
    stator_coverage first = {.backend = ""};
    (void)stator_function_coverage(r->p.function, 1, &first);
    stator_ctx_mem_stats(r->p.ctx, &stats);
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "backend", first.backend);
    cJSON_AddNumberToObject(root, "compile_ms", r->compile_ms);
    cJSON_AddNumberToObject(root, "first_ms", r->first_ms);
    cJSON_AddItemToObject(root, "median_ms",
                          r->repeat > 0 ? cJSON_CreateNumber(r->median_ms) : cJSON_CreateNull());
    cJSON_AddItemToObject(root, "min_ms",
                          r->repeat > 0 ? cJSON_CreateNumber(r->min_ms) : cJSON_CreateNull());
    cJSON_AddNumberToObject(root, "peak_bytes", (double)stats.peak_bytes);
    cJSON_AddItemToObject(root, "memory", cli_json_memory(r->p.function));
    cJSON_AddItemToObject(root, "coverage", cli_json_coverage(r->p.function));
    cJSON *outputs = cJSON_AddArrayToObject(root, "outputs");
    for (uint32_t k = 0; k < r->n_out; k++) {
        cJSON_AddItemToArray(outputs, output_json(r, k, all_ok));
    }
    if (r->labels != NULL && r->n_out > 0) {
        cJSON_AddItemToObject(root, "top", top_json(r));
    }
    if (r->profile != NULL) {
        cJSON_AddItemToObject(root, "profile", cli_profile_json(r->profile));
    }
    return root;
}

static void print_values(const stator_tensor *tensor)
{
    const stator_dtype dtype = stator_tensor_dtype(tensor);
    const DLTensor *view = stator_tensor_view(tensor);
    uint64_t count = 0;
    (void)st_numel(view->shape, (uint32_t)view->ndim, &count);
    const uint32_t class_ = st_dtype_class(dtype);
    for (int64_t i = 0; i < (int64_t)count && i < 8; i++) {
        if (class_ == STATOR_CLASS_FLOAT || class_ == STATOR_CLASS_COMPLEX) {
            (void)printf(" %.6g", st_load_f64(dtype, stator_tensor_data(tensor), i));
        } else if (class_ == STATOR_CLASS_UINT) {
            (void)printf(" %llu",
                         (unsigned long long)st_load_i64(dtype, stator_tensor_data(tensor), i));
        } else {
            (void)printf(" %lld", (long long)st_load_i64(dtype, stator_tensor_data(tensor), i));
        }
    }
    (void)printf("%s\n", count > 8 ? " ..." : "");
}

static void print_top(const cJSON *top)
{
    const cJSON *row = NULL;
    cJSON_ArrayForEach(row, top)
    {
        const cJSON *item = NULL;
        cJSON_ArrayForEach(item, row)
        {
            char number[32];
            char label[CLI_CLEAN_BYTES];
            (void)printf("  %-24s %s\n",
                         cli_clean(cJSON_GetStringValue(cJSON_GetObjectItem(item, "label")), label),
                         cli_number_text(cJSON_GetObjectItem(item, "score"), number));
        }
    }
}

/* "probabilities: f32[1,10] ok, max error 1e-07 0.1 0.2 ..." */
static void print_output(const run *r, uint32_t k, const cJSON *row)
{
    char *shape = cJSON_PrintUnformatted(cJSON_GetObjectItem(row, "shape"));
    cli_put(stdout, cJSON_GetStringValue(cJSON_GetObjectItem(row, "name")));
    (void)printf(": %s%s", cJSON_GetStringValue(cJSON_GetObjectItem(row, "dtype")),
                 shape != NULL ? shape : "");
    cJSON_free(shape);
    if (r->expect != NULL) {
        char number[32];
        const char *reason = cJSON_GetStringValue(cJSON_GetObjectItem(row, "reason"));
        const char *detail = cJSON_GetStringValue(cJSON_GetObjectItem(row, "detail"));
        (void)printf(" %s%s", reason != NULL ? "WRONG in " : "ok", reason != NULL ? reason : "");
        if (detail != NULL) { /* dtype or shape differ: there is no error to print */
            (void)printf(": %s;", detail);
        } else {
            (void)printf(", max error %s",
                         cli_number_text(cJSON_GetObjectItem(row, "max_abs_err"), number));
        }
    }
    print_values(r->out[k]);
}

static void print_report(const run *r, const cJSON *report)
{
    cli_print_coverage(r->p.function);
    (void)printf("compile %.3f ms, first call %.3f ms", r->compile_ms, r->first_ms);
    if (r->repeat > 0) { /* the first call prepares: its time says nothing of later ones */
        (void)printf(", median %.3f ms, min %.3f ms", r->median_ms, r->min_ms);
    }
    (void)printf("\n");
    for (uint32_t k = 0; k < r->n_out; k++) {
        print_output(r, k, cJSON_GetArrayItem(cJSON_GetObjectItem(report, "outputs"), (int)k));
    }
    print_top(cJSON_GetObjectItem(report, "top"));
    if (r->profile != NULL) {
        cli_profile_print(r->profile);
    }
}

static cli_status save_outputs(const run *r)
{
    cli_tensors list = {.ctx = r->p.ctx};
    char errbuf[ERROR_SIZE] = "out of memory";
    bool ok = true;
    for (uint32_t k = 0; ok && k < r->n_out; k++) {
        char name[32];
        stator_tensor_retain(r->out[k]);
        ok = cli_tensors_add(&list, cli_output_name(r->p.model, k, name), r->out[k]);
    }
    ok = ok && cli_write_npz(r->save, &list, errbuf);
    cli_tensors_free(&list);
    return ok ? CLI_OK : cli_fail(r->common.json, "UNAVAILABLE", NULL, "%s", errbuf);
}

/* A file that is written has the ending of its kind, so that no model is written over by mistake.
 */
static cli_status check_ending(const run *r, const char *flag, const char *path, const char *ending)
{
    const size_t n = strlen(ending);
    const size_t len = path != NULL ? strlen(path) : 0;
    return path == NULL || (len > n && strcmp(path + len - n, ending) == 0)
               ? CLI_OK
               : cli_fail(r->common.json, "INVALID_ARGUMENT", NULL, "%s '%s' does not end in %s",
                          flag, path, ending);
}

static cli_status check_files(const run *r)
{
    CLI_TRY(check_ending(r, "--save", r->save, ".npz"));
    return check_ending(r, "--profile", r->profile_path, ".json");
}

static cli_status run_model(run *r, const char *path)
{
    CLI_NEED(check_files(r) == CLI_OK);
    const cli_program_flags flags = {&r->common, &r->inputs, &r->compile, r->compile.backend};
    CLI_TRY(cli_program_open(&r->p, &flags, path));
    r->n_out = stator_model_output_count(r->p.model);
    r->out = calloc(r->n_out + 1u, sizeof(stator_tensor *));
    CLI_FAIL_IF(r->out == NULL, r->common.json, "RESOURCE_EXHAUSTED", NULL, "out of memory");
    CLI_TRY(load_expected(r));
    CLI_TRY(check_expected(r));
    CLI_TRY(load_labels(r));
    CLI_TRY(call_profiled(r));
    CLI_TRY(fetch_outputs(r));
    CLI_TRY(r->save != NULL ? save_outputs(r) : CLI_OK);
    int all_ok = 1;
    cJSON *report = report_json(r, &all_ok);
    if (r->common.json) {
        cli_print_json(report);
    } else {
        print_report(r, report);
        cJSON_Delete(report);
    }
    return all_ok ? CLI_OK : CLI_WRONG;
}

static void end_run(run *r)
{
    cli_free_inputs(r->out, r->n_out);
    cli_tensors_free(&r->want);
    for (uint32_t i = 0; i < r->n_names; i++) {
        free(r->names[i]);
    }
    free(r->names);
    cli_profile_free(r->profile);
    cli_program_close(&r->p);
}

static bool choose_outputs(run *r)
{
    const bool is_host = r->outputs != NULL && strcmp(r->outputs, "host") == 0;
    const bool is_device = r->outputs != NULL && strcmp(r->outputs, "device") == 0;
    r->compile.outputs = is_host     ? STATOR_OUTPUTS_HOST
                         : is_device ? STATOR_OUTPUTS_DEVICE
                                     : STATOR_OUTPUTS_AUTO;
    return r->outputs == NULL || is_host || is_device;
}

cli_status cmd_run(int argc, char **argv)
{
    run r = {.tolerance = ST_TOLERANCE_CHOSEN, .top = 1, .inputs = {.random = -1}};
    const cli_option own[] = {
        {"--expect", CLI_TEXT, &r.expect, "DIR|FILE.npz", "compare with these outputs"},
        {"--save", CLI_TEXT, &r.save, "FILE.npz", "write the outputs"},
        {"--repeat", CLI_NUMBER, &r.repeat, "N", "call N times more and time"},
        {"--outputs", CLI_TEXT, &r.outputs, "host|device",
         "where calls leave their results (host); shown are they all the same"},
        {"--labels", CLI_TEXT, &r.labels, "FILE", "names of the classes, one a line"},
        {"--profile", CLI_TEXT, &r.profile_path, "FILE.json",
         "time each step: a table, and a trace"},
        {"--top", CLI_NUMBER, &r.top, "K", "classes to show (1)"},
        {"--verify", CLI_NUMBER, &r.compile.verify, "N",
         "compare the first N calls with eager; status 1 where one differs"},
        CLI_END};
    cli_usage usage = {.own = own,
                       .tolerance = &r.tolerance,
                       .inputs = &r.inputs,
                       .backend = &r.compile.backend,
                       .compile = &r.compile,
                       .common = &r.common};
    const char *path = NULL;
    cli_status status = cli_parse(&usage, argc, argv, &path);
    if (status == CLI_GO_ON && r.top == 0) {
        status = cli_misused(&usage, "--top is 1 or more");
    }
    if (status == CLI_GO_ON && !choose_outputs(&r)) {
        status = cli_misused(&usage, "--outputs is host or device");
    }
    if (status == CLI_GO_ON) {
        /* a program from the cache does not know what nodes its steps compute */
        r.compile.compile_flags = r.profile_path != NULL ? STATOR_COMPILE_NO_CACHE : 0;
        status = run_model(&r, path);
        end_run(&r);
    }
    return status;
}
