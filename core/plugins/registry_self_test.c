/* Which self tests have passed, in the file `self_tests` beside the compiled programs, one line
 * each:
 *
 *   BUILD-ID \t ITEM \t DEVICE-STAMP \t COMPAT-KEY
 *
 * A line counts for that build of the plugin (its prelude is part of it), that device and compiler
 * (the compat key) and those drivers (the stamp of registry_devices.c). A failure is not
 * remembered: whoever comes next looks again. */
#define _GNU_SOURCE
#include "core/plugins/registry_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINES_MAX 64u

static const char file_name[] = "self_tests";

/* The line without its end; nothing of a plugin that cannot be told from other builds. */
static bool make_line(const st_loaded *loaded, const char *key, st_str *out)
{
    char stamp[ST_DEVICES_STAMP];
    ST_NEED(loaded->build_id != NULL);
    st_devices_stamp(stamp);
    st_str_addf(out, "%s\t%s\t%s\t", loaded->build_id, loaded->desc->name, stamp);
    st_memory_file_field(out, key);
    return st_str_ok(out);
}

/* The number of lines, and whether `line` is one of them. */
static uint32_t count_lines(const char *text, const st_str *line, bool *out_has)
{
    uint32_t n = 0;
    *out_has = false;
    for (const char *at = text; at != NULL && *at != '\0'; n++) {
        const size_t length = strcspn(at, "\n");
        *out_has |= length == line->len && memcmp(at, line->data, length) == 0;
        at += length + (at[length] == '\n');
    }
    return n;
}

bool st_registry_is_self_tested(const st_registry *registry, const st_loaded *loaded,
                                const char *key)
{
    char path[ST_MEMORY_PATH];
    bool is_found = false;
    st_str line;
    st_str_init(&line, registry->mem);
    if (make_line(loaded, key, &line) && st_memory_file_path(registry, file_name, false, path)) {
        char *text = st_memory_file_read(registry->mem, path);
        (void)count_lines(text, &line, &is_found);
        st_free(registry->mem, text);
    }
    st_str_deinit(&line);
    return is_found;
}

/* The new line behind the others; the first of them goes where they are many. */
static void add_line(const st_registry *registry, const char *path, const st_str *line)
{
    bool is_there = false;
    char *old = st_memory_file_read(registry->mem, path);
    const uint32_t n = count_lines(old, line, &is_there);
    if (!is_there) {
        const char *kept = old != NULL ? old : "";
        const char *second = strchr(kept, '\n');
        kept = n >= LINES_MAX && second != NULL ? second + 1 : kept;
        st_str text;
        st_str_init(&text, registry->mem);
        st_str_addf(&text, "%s%s\n", kept, line->data);
        if (st_str_ok(&text)) {
            st_memory_file_replace(path, &text);
        }
        st_str_deinit(&text);
    }
    st_free(registry->mem, old);
}

void st_registry_note_self_test(const st_registry *registry, const st_loaded *loaded,
                                const char *key)
{
    char path[ST_MEMORY_PATH];
    st_str line;
    st_str_init(&line, registry->mem);
    if (make_line(loaded, key, &line) && st_memory_file_path(registry, file_name, true, path)) {
        add_line(registry, path, &line);
    }
    st_str_deinit(&line);
}
