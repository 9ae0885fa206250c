/* Facts as JSON, and numbers of such facts as text. See cli.h. */
#include "cli.h"

#include "core/base/threads.h"

#include <math.h>
#include <stdlib.h>

void cli_print_json(cJSON *value)
{
    char *text = cJSON_Print(value);
    (void)printf("%s\n", text != NULL ? text : "{\"error\": {\"code\": \"RESOURCE_EXHAUSTED\"}}");
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
    return isinf(value) ? cJSON_CreateString("inf") : cJSON_CreateNumber(value);
}

cJSON *cli_json_shape(const DLTensor *view)
{
    cJSON *array = cJSON_CreateArray();
    for (int32_t axis = 0; axis < view->ndim; axis++) {
        cJSON_AddItemToArray(array, cJSON_CreateNumber((double)view->shape[axis]));
    }
    return array;
}

cJSON *cli_json_coverage(stator_function *function)
{
    stator_coverage rows[CLI_MAX_COVERAGE];
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
    return coverage;
}

uint32_t cli_coverage(stator_function *function, stator_coverage rows[CLI_MAX_COVERAGE])
{
    const uint32_t n = stator_function_coverage(function, CLI_MAX_COVERAGE, rows);
    return n < CLI_MAX_COVERAGE ? n : CLI_MAX_COVERAGE;
}

const char *cli_number_text(const cJSON *number, char out[32])
{
    if (cJSON_IsString(number)) {
        return cJSON_GetStringValue(number);
    }
    (void)snprintf(out, 32, "%.6g", cJSON_GetNumberValue(number));
    return out;
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
