/* Devices that a probe has found, as the file of probes keeps them, and what tells that they may be
 * others now; see registry_probe.c. */
#define _GNU_SOURCE
#include "core/plugins/registry_internal.h"

#include "core/base/map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEVICES_MAX 64u
#define NODES_MAX 16u /* /dev/nvidia0 to 15, and as many of amdgpu */

/* ---- the stamp ---- */

static void add_file(st_str *text, const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0) {
        st_str_addf(text, "%s %llx %lld\n", path, (unsigned long long)st.st_rdev,
                    (long long)st.st_ctim.tv_sec);
    }
}

static void add_first_line(st_str *text, const char *path)
{
    char line[128] = "";
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return;
    }
    if (fgets(line, sizeof line, file) != NULL) {
        st_str_add(text, line);
    }
    (void)fclose(file);
}

static void add_variable(st_str *text, const char *name)
{
    const char *value = getenv(name);
    if (value != NULL) {
        st_str_addf(text, "%s=%s\n", name, value);
    }
}

static void add_facts(st_str *text)
{
    static const char *const variables[] = {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER",
                                            "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
                                            "ROCR_VISIBLE_DEVICES"};
    char path[64];
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        add_variable(text, variables[i]);
    }
    add_first_line(text, "/sys/module/nvidia/version");
    add_first_line(text, "/sys/module/amdgpu/version");
    add_file(text, "/dev/nvidiactl");
    add_file(text, "/dev/dxg");
    add_file(text, "/dev/kfd");
    for (uint32_t i = 0; i < NODES_MAX; i++) {
        (void)snprintf(path, sizeof path, "/dev/nvidia%u", i);
        add_file(text, path);
        (void)snprintf(path, sizeof path, "/dev/dri/renderD%u", 128u + i);
        add_file(text, path);
    }
}

void st_devices_stamp(char out[ST_DEVICES_STAMP])
{
    st_mem mem;
    st_str text;
    st_mem_init(&mem, NULL, NULL, NULL, 0);
    st_str_init(&text, &mem);
    add_facts(&text);
    const uint64_t hash = text.len != 0 ? st_hash64(text.data, text.len, 0) : 0;
    (void)snprintf(out, ST_DEVICES_STAMP, "%016llx", (unsigned long long)hash);
    st_str_deinit(&text);
}

/* ---- a field: "ID,BYTES,ARCH,NAME" with ';' between ---- */

static void add_word(st_str *out, const char *text)
{
    for (; text != NULL && *text != '\0'; text++) {
        st_str_addn(out, strchr("\t\n,;", *text) != NULL ? " " : text, 1);
    }
}

void st_devices_write(const st_registry_item *item, st_str *out)
{
    for (uint32_t i = 0; item->devices != NULL && i < item->device_count; i++) {
        const stator_device_info *d = &item->devices[i];
        st_str_addf(out, "%s%u,%llu,", i != 0 ? ";" : "", d->id,
                    (unsigned long long)d->memory_bytes);
        add_word(out, d->arch);
        st_str_add(out, ",");
        add_word(out, d->name);
    }
}

static bool parse_device(st_registry *registry, char *text, stator_device_info *out)
{
    const char *id = strsep(&text, ",");
    const char *bytes = strsep(&text, ",");
    const char *arch = strsep(&text, ",");
    if (text == NULL || *id == '\0') {
        return false;
    }
    *out = (stator_device_info){.struct_size = sizeof *out,
                                .id = (uint32_t)strtoul(id, NULL, 10),
                                .memory_bytes = strtoull(bytes, NULL, 10),
                                .arch = st_registry_textf(registry, "%s", arch),
                                .name = st_registry_textf(registry, "%s", text)};
    return true;
}

void st_devices_parse(st_registry *registry, char *text, st_registry_item *item)
{
    stator_device_info *rows = st_arena_zalloc(&registry->arena, DEVICES_MAX, sizeof *rows);
    uint32_t n = 0;
    while (rows != NULL && text != NULL && n < DEVICES_MAX) {
        n += parse_device(registry, strsep(&text, ";"), &rows[n]);
    }
    item->devices = n != 0 ? rows : NULL;
    item->device_count = n;
}
