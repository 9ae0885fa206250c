/* The software device's options, from the environment; docs/softgpu.md has the list. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "soft_device.h"

/* For tests, beside the API: how often what STATOR_SOFT_FAIL calls "alloc" and so on was asked
 * for. */
SOFT_EXPORT uint64_t softGetCalls(const char *what);

#define GIB (1ull << 30)

static const soft_chip chips[] = {
    {.key = "sm_90",
     .name = "Stator software device (sm_90)",
     .major = 9,
     .minor = 0,
     .multiprocessors = 132,
     .warp = 32,
     .block_threads_max = 1024,
     .registers = 65536,
     .shared_bytes = 48 << 10,
     .shared_optin_bytes = 227 << 10,
     .argument_bytes_max = 4096,
     .l2_bytes = 50 << 20,
     .memory_bytes = 16 * GIB},
    {.key = "small",
     .name = "Stator software device (small)",
     .major = 7,
     .minor = 5,
     .multiprocessors = 1,
     .warp = 32,
     .block_threads_max = 1024,
     .registers = 32768,
     .shared_bytes = 48 << 10,
     .shared_optin_bytes = 48 << 10,
     .argument_bytes_max = 4096,
     .l2_bytes = 256 << 10,
     .memory_bytes = GIB / 4},
    {.key = "wave64",
     .name = "Stator software device (wave64)",
     .major = 9,
     .minor = 0,
     .multiprocessors = 110,
     .warp = 64,
     .block_threads_max = 1024,
     .registers = 131072,
     .shared_bytes = 64 << 10,
     .shared_optin_bytes = 64 << 10,
     .argument_bytes_max = 4096,
     .l2_bytes = 8 << 20,
     .memory_bytes = 16 * GIB},
};

static const char *const failures[SOFT_N_FAILURES] = {
    "alloc", "pinned", "launch", "lost", "copy", "module", "context", "image", "unload"};

static void say_wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say_wrong(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(soft.wrong_option, sizeof(soft.wrong_option), format, arguments);
    va_end(arguments);
    soft_say("%s", soft.wrong_option);
}

static bool read_chip(soft_options *out)
{
    const char *key = getenv("STATOR_SOFT_CHIP");
    out->chip = &chips[0];
    if (key == NULL || *key == '\0') {
        return true;
    }
    for (size_t i = 0; i < sizeof(chips) / sizeof(chips[0]); i++) {
        if (strcmp(chips[i].key, key) == 0) {
            out->chip = &chips[i];
            return true;
        }
    }
    say_wrong("STATOR_SOFT_CHIP is '%.64s'; expected sm_90, small or wave64", key);
    return false;
}

static bool read_order(soft_options *out)
{
    const char *order = getenv("STATOR_SOFT_ORDER");
    out->order = SOFT_RANDOM;
    out->seed = 1;
    if (order == NULL || *order == '\0' || strcmp(order, "random") == 0) {
        return true;
    }
    if (strncmp(order, "random:", 7) == 0 && order[7] != '\0') {
        char *end = NULL;
        out->seed = strtoull(order + 7, &end, 10);
        if (*end == '\0') {
            return true;
        }
    }
    out->order = strcmp(order, "ascending") == 0 ? SOFT_ASCENDING : SOFT_DESCENDING;
    if (strcmp(order, "ascending") == 0 || strcmp(order, "descending") == 0) {
        return true;
    }
    say_wrong("STATOR_SOFT_ORDER is '%.64s'; expected ascending, descending or random:SEED", order);
    return false;
}

/* One "alloc:7" or "alloc:7-9" of the list. */
static bool read_failure(soft_options *out, const char *item, size_t length)
{
    for (unsigned i = 0; i < SOFT_N_FAILURES; i++) {
        const size_t n = strlen(failures[i]);
        if (length > n + 1 && strncmp(item, failures[i], n) == 0 && item[n] == ':') {
            char *end = NULL;
            out->fail_at[i] = out->fail_until[i] = strtoull(item + n + 1, &end, 10);
            if (*end == '-') {
                out->fail_until[i] = strtoull(end + 1, &end, 10);
            }
            return end == item + length && out->fail_at[i] > 0 &&
                   out->fail_until[i] >= out->fail_at[i];
        }
    }
    return false;
}

static bool read_failures(soft_options *out)
{
    const char *list = getenv("STATOR_SOFT_FAIL");
    while (list != NULL && *list != '\0') {
        const size_t length = strcspn(list, ",");
        if (!read_failure(out, list, length)) {
            say_wrong(
                "STATOR_SOFT_FAIL has '%.*s'; expected alloc:N, pinned:N, launch:N, lost:N, "
                "copy:N, module:N, context:N, image:N or unload:N, N from 1, or N-M for several",
                length < 64 ? (int)length : 64, list);
            return false;
        }
        list += length + (list[length] == ',');
    }
    return true;
}

/* A count from the environment; `otherwise` when the variable is not set. */
static bool read_count(const char *name, unsigned min, unsigned max, unsigned otherwise,
                       unsigned *out)
{
    const char *text = getenv(name);
    *out = otherwise;
    if (text == NULL || *text == '\0') {
        return true;
    }
    char *end = NULL;
    const unsigned long n = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || n < min || n > max) {
        say_wrong("%s is '%.64s'; expected a number from %u to %u", name, text, min, max);
        return false;
    }
    *out = (unsigned)n;
    return true;
}

/* CUDA_VISIBLE_DEVICES: the devices that a process sees, up to the first number that is none. As
 * they are all alike, only how many counts. */
static void hide_devices(soft_options *out)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    unsigned n = 0;
    while (list != NULL && *list >= '0' && *list <= '9') {
        char *end = NULL;
        if (strtoul(list, &end, 10) >= out->n_devices) {
            break;
        }
        n++;
        list = *end == ',' ? end + 1 : end;
    }
    out->n_devices =
        getenv("CUDA_VISIBLE_DEVICES") == NULL || n > out->n_devices ? out->n_devices : n;
}

bool soft_options_read(soft_options *out)
{
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned leaks = 0;
    unsigned debug = 0;
    *out = (soft_options){.n_devices = 1};
    if (!read_chip(out) || !read_order(out) || !read_failures(out) ||
        !read_count("STATOR_SOFT_DEVICES", 0, SOFT_DEVICES_MAX, 1, &out->n_devices) ||
        !read_count("STATOR_SOFT_LEAKS", 0, 1, 1, &leaks) ||
        !read_count("STATOR_SOFT_DEBUG", 0, 1, 0, &debug) ||
        !read_count("STATOR_SOFT_THREADS", 1, 2, debug != 0 || cpus < 2 ? 1 : 2, &out->n_workers)) {
        return false;
    }
    hide_devices(out);
    out->reports_leaks = leaks != 0;
    out->keeps_objects = debug != 0;
    return true;
}

bool soft_is_to_fail(enum soft_failure what)
{
    const uint64_t n = ++soft.options.calls[what];
    return n >= soft.options.fail_at[what] && n <= soft.options.fail_until[what];
}

uint64_t softGetCalls(const char *what)
{
    uint64_t n = 0;
    if (soft_enter() != CUDA_SUCCESS) {
        return 0;
    }
    for (unsigned i = 0; i < SOFT_N_FAILURES; i++) {
        n = strcmp(failures[i], what) == 0 ? soft.options.calls[i] : n;
    }
    (void)soft_leave(CUDA_SUCCESS);
    return n;
}
