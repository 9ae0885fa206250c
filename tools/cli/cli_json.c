/* Facts as JSON, and numbers of such facts as text. See cli.h. */
#include "tools/cli/cli.h"

#include "core/base/threads/threads.h"
#include "core/base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void cli_put_utf8(FILE *to, const char *text)
{
    const char *end = text + strlen(text);
    while (text < end) {
        size_t n = 0;
        for (uint32_t one = 1; one > 0; n += one) {
            one = st_utf8_length(text + n, (uint64_t)(end - text) - n);
        }
        (void)fwrite(text, 1, n, to);
        text += n;
        if (text < end) {
            (void)fputs("\xef\xbf\xbd", to);
            text++;
        }
    }
}

void cli_print_json(cJSON *value)
{
    char *text = cJSON_Print(value);
    cli_put_utf8(stdout, text != NULL ? text : "{\"error\": {\"code\": \"RESOURCE_EXHAUSTED\"}}");
    (void)printf("\n");
    cJSON_free(text);
    cJSON_Delete(value);
}

void cli_json_text(cJSON *object, const char *key, const char *text)
{
    if (text != NULL) {
        cJSON_AddStringToObject(object, key, text);
    } else {
        cJSON_AddNullToObject(object, key);
    }
}

cJSON *cli_json_number(double value)
{
    if (isnan(value)) {
        return cJSON_CreateString("nan");
    }
    return isinf(value) ? cJSON_CreateString(value > 0 ? "inf" : "-inf")
                        : cJSON_CreateNumber(value);
}

/* Exact: as a double it would be rounded from 2^53 on. */
cJSON *cli_json_size(int64_t size)
{
    char number[24];
    (void)snprintf(number, sizeof number, "%lld", (long long)size);
    return cJSON_CreateRaw(number);
}

cJSON *cli_json_shape(const DLTensor *view)
{
    cJSON *array = cJSON_CreateArray();
    for (int32_t axis = 0; axis < view->ndim; axis++) {
        cJSON_AddItemToArray(array, cli_json_size(view->shape[axis]));
    }
    return array;
}

cJSON *cli_json_coverage(stator_function *function)
{
    stator_coverage rows[CLI_COVERAGE_MAX];
    const uint32_t n = cli_coverage(function, rows);
    cJSON *coverage = cJSON_CreateObject();
    cJSON *by_backend = cJSON_CreateObject();
    uint32_t total = 0;
    for (uint32_t i = 0; i < n; i++) {
        cJSON_AddNumberToObject(by_backend, rows[i].backend, rows[i].nodes);
        total += rows[i].nodes;
    }
    cJSON_AddNumberToObject(coverage, "total", total);
    cJSON_AddItemToObject(coverage, "by_backend", by_backend);
    stator_copy_info copies = {.struct_size = sizeof copies};
    const bool is_known =
        stator_function_copies(function, &copies) == STATOR_OK && copies.n_calls != 0;
    if (is_known && copies.n_devices != 0) {
        cJSON_AddNumberToObject(coverage, "copies", copies.n_copies);
        cJSON_AddNumberToObject(coverage, "copy_bytes", (double)copies.bytes);
        cJSON_AddNumberToObject(coverage, "waits", copies.n_waits);
    }
    if (is_known && copies.n_write_backs != 0) {
        cJSON_AddNumberToObject(coverage, "write_backs", copies.n_write_backs);
        cJSON_AddNumberToObject(coverage, "write_back_copies", copies.n_write_back_copies);
        cJSON_AddNumberToObject(coverage, "write_back_bytes", (double)copies.write_back_bytes);
    }
    return coverage;
}

uint32_t cli_coverage(stator_function *function, stator_coverage rows[CLI_COVERAGE_MAX])
{
    const uint32_t n = stator_function_coverage(function, CLI_COVERAGE_MAX, rows);
    return n < CLI_COVERAGE_MAX ? n : CLI_COVERAGE_MAX;
}

void cli_print_coverage(stator_function *function)
{
    stator_coverage rows[CLI_COVERAGE_MAX];
    const uint32_t n = cli_coverage(function, rows);
    for (uint32_t i = 0; i < n; i++) {
        (void)printf("%s%s: %u node%s in %u partition%s", i > 0 ? "; " : "", rows[i].backend,
                     rows[i].nodes, rows[i].nodes == 1 ? "" : "s", rows[i].partitions,
                     rows[i].partitions == 1 ? "" : "s");
    }
    stator_copy_info copies = {.struct_size = sizeof copies};
    const bool is_known =
        stator_function_copies(function, &copies) == STATOR_OK && copies.n_calls != 0;
    if (is_known && copies.n_devices != 0) {
        stator_x_memory memory = {.struct_size = sizeof memory};
        stator_x_memory_of(function, &memory);
        (void)printf("; copies %u, %llu bytes, %u waits a call; device memory %llu bytes",
                     copies.n_copies, (unsigned long long)copies.bytes, copies.n_waits,
                     (unsigned long long)memory.device_peak_bytes);
    }
    if (is_known && copies.n_write_backs != 0) {
        (void)printf("; %u of %u inputs written in place, %llu bytes copied",
                     copies.n_write_backs - copies.n_write_back_copies, copies.n_write_backs,
                     (unsigned long long)copies.write_back_bytes);
    }
    (void)printf("\n");
}

cJSON *cli_json_memory(stator_function *function)
{
    stator_x_memory m = {.struct_size = sizeof m};
    cJSON *memory = cJSON_CreateObject();
    stator_x_memory_of(function, &m);
    cJSON_AddNumberToObject(memory, "workspace_bytes", (double)m.workspace_bytes);
    cJSON_AddNumberToObject(memory, "output_bytes", (double)m.output_bytes);
    cJSON_AddNumberToObject(memory, "scratch_bytes", (double)m.scratch_bytes);
    cJSON_AddNumberToObject(memory, "constant_bytes", (double)m.constant_bytes);
    cJSON_AddNumberToObject(memory, "packed_bytes", (double)m.packed_bytes);
    cJSON_AddNumberToObject(memory, "winograd_bytes", (double)m.winograd_bytes);
    if (m.device_peak_bytes != 0) {
        cJSON_AddNumberToObject(memory, "device_bytes", (double)m.device_bytes);
        cJSON_AddNumberToObject(memory, "device_peak_bytes", (double)m.device_peak_bytes);
    }
    return memory;
}

const char *cli_double_text(double value, char out[32])
{
    (void)snprintf(out, 32, isnan(value) ? "nan" : "%.6g", value);
    return out;
}

const char *cli_number_text(const cJSON *number, char out[32])
{
    return cJSON_IsString(number) ? cJSON_GetStringValue(number)
                                  : cli_double_text(cJSON_GetNumberValue(number), out);
}

/* ---- times ---- */

double cli_ms_since(uint64_t start_ns)
{
    return (double)(st_now_ns() - start_ns) / 1e6;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

void cli_sort(double *values, size_t n)
{
    qsort(values, n, sizeof *values, by_value);
}
