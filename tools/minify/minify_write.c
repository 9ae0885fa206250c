/* The folder that minify leaves; see minify.h.
 *
 *   repro.stir (+ .blob)   the program
 *   inputs.npz             its inputs, unless random ones do
 *   expected.npz           what the good backend gives
 *   repeat.sh              the command that shows the failure
 *
 * It is written beside its place, or inside a folder that is there, and moved when a child has
 * loaded the program from it and seen the same failure, so that it is there whole or not at all. */
#define _GNU_SOURCE
#include "tools/minify/minify.h"

#include "core/base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 4096u
#define FILE_BYTES (PATH_BYTES + 300u)
#define PLAIN                                                                                      \
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=,:+@%-" /* to a shell */

static const char *const names[] = {"repro.stir",   "repro.blob", "inputs.npz",
                                    "expected.npz", "repeat.sh",  NULL};

static bool fail_path(const char *what, const char *path, int json)
{
    return cli_fail(json, errno == ENOENT ? "NOT_FOUND" : "UNAVAILABLE", NULL, "%s '%s': %s", what,
                    path, strerror(errno)) == CLI_OK;
}

/* ---- before ---- */

static bool is_empty(const char *folder)
{
    DIR *dir = opendir(folder);
    int n = 0;
    for (const struct dirent *at; dir != NULL && (at = readdir(dir)) != NULL;) {
        n += strcmp(at->d_name, ".") != 0 && strcmp(at->d_name, "..") != 0;
    }
    if (dir == NULL) {
        return false;
    }
    (void)closedir(dir);
    return n == 0;
}

/* The folder's name without the slashes at its end. */
static void name_folder(const char *folder, char out[PATH_BYTES])
{
    size_t len = strlen(folder);
    while (len > 1 && folder[len - 1] == '/') {
        len--;
    }
    (void)snprintf(out, PATH_BYTES, "%.*s", (int)len, folder);
}

/* "DIR.123.part" beside the folder; "DIR/123.part" in one that is there, since what is around it
 * may be another file system, or not ours to write. 0: the path is too long. */
static bool part_of(const char *folder, char out[PATH_BYTES])
{
    char name[PATH_BYTES];
    struct stat there;
    name_folder(folder, name);
    const int n = snprintf(out, PATH_BYTES, "%s%s%ld.part", name,
                           stat(folder, &there) == 0 ? "/" : ".", (long)getpid());
    errno = ENAMETOOLONG;
    return n > 0 && (size_t)n + 32u < PATH_BYTES;
}

bool minify_folder_check(const char *folder, int json)
{
    char part[PATH_BYTES], name[PATH_BYTES];
    struct stat there;
    name_folder(folder, name);
    if (stat(folder, &there) == 0 ? !is_empty(folder) : lstat(name, &there) == 0) {
        return cli_fail(json, "ALREADY_EXISTS", "name a new folder",
                        "'%s' is there and is no empty folder", folder) == CLI_OK;
    }
    /* The search takes a while; that there is no such place is told before it. */
    if (!part_of(folder, part) || mkdir(part, 0777) != 0) {
        return fail_path("cannot make the folder", folder, json);
    }
    (void)rmdir(part);
    return true;
}

/* ---- the command ---- */

static void add_quoted(st_str *out, const char *text)
{
    if (text[0] != '\0' && strspn(text, PLAIN) == strlen(text)) {
        st_str_add(out, text);
        return;
    }
    st_str_add(out, "'");
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '\'') {
            st_str_add(out, "'\\''");
        } else {
            st_str_addn(out, c, 1);
        }
    }
    st_str_add(out, "'");
}

/* NULL: the folder of the script. */
static void add_path(st_str *out, const char *folder, const char *name)
{
    char path[PATH_BYTES];
    if (folder == NULL) {
        st_str_addf(out, "\"$here\"/%s", name);
        return;
    }
    const size_t len = strlen(folder);
    (void)snprintf(path, sizeof path, "%s%s%s", folder,
                   len > 0 && folder[len - 1] == '/' ? "" : "/", name);
    add_quoted(out, path);
}

static void add_option(st_str *out, const char *name, const char *value)
{
    if (value != NULL) {
        st_str_addf(out, " %s ", name);
        add_quoted(out, value);
    }
}

static void add_real(st_str *out, const char *name, double value)
{
    char text[32];
    if (value >= 0) {
        add_option(out, name, st_format_f64(value, text));
    }
}

static void add_compile_flags(st_str *out, const bisect_setup *s)
{
    char *path = NULL;
    add_option(out, "--mode", s->compile.mode);
    for (uint32_t i = 0; i < s->compile.options.count; i++) {
        add_option(out, "--backend-option", s->compile.options.items[i]);
    }
    st_str_add(out, s->compile.strict ? " --strict" : "");
    add_option(out, "--fallback", s->compile.fallback);
    add_option(out, "--node-fallbacks", s->compile.node_fallbacks);
    add_option(out, "--device", s->compile.device);
    if (s->common.threads > 0) {
        st_str_addf(out, " --threads %lld", (long long)s->common.threads);
    }
    for (uint32_t i = 0; i < s->common.plugin_dirs.count; i++) {
        path = realpath(s->common.plugin_dirs.items[i], NULL);
        add_option(out, "--plugin-dir", path != NULL ? path : s->common.plugin_dirs.items[i]);
        free(path);
    }
}

bool minify_has_inputs(const minify *m)
{
    const minify_graph *g = &m->graph;
    uint32_t n = m->best.n_inputs;
    for (stator_ref value = 1; m->best.is_whole && value <= g->n_values; value++) {
        n += g->values[value].node == 0 && (g->values[value].flags & MINIFY_PARAM) == 0;
    }
    return n > 0 && !m->best.is_random;
}

/* compare knows what may differ between two right answers; but its options are of both backends. */
void minify_command(const minify *m, const char *folder, st_str *out)
{
    const bisect_setup *s = &m->setup;
    const bool compares = s->compile.options.count == 0 && s->compile.mode == NULL &&
                          !s->compile.strict && s->compile.fallback == NULL &&
                          s->compile.node_fallbacks == NULL && s->compile.device == NULL;
    if (strcmp(m->whole.error.code, "TIMEOUT") == 0) {
        st_str_addf(out, "timeout %lld ", (long long)s->timeout_s);
    }
    st_str_add(out, compares ? "stator compare " : "stator run ");
    add_path(out, folder, "repro.stir");
    st_str_add(out, compares ? " --backends " : " --backend ");
    if (compares) {
        add_quoted(out, s->good);
        st_str_add(out, ",");
    }
    add_quoted(out, s->bad);
    if (minify_has_inputs(m)) {
        st_str_add(out, " --inputs ");
        add_path(out, folder, "inputs.npz");
    }
    if (!compares) {
        st_str_add(out, " --expect ");
        add_path(out, folder, "expected.npz");
    }
    add_real(out, "--rtol", s->tolerance.rtol);
    add_real(out, "--atol", s->tolerance.atol);
    add_compile_flags(out, s);
}

static bool write_script(const minify *m, const char *part)
{
    const int json = m->setup.common.json;
    char path[FILE_BYTES];
    st_mem mem;
    st_str text;
    (void)snprintf(path, sizeof path, "%s/repeat.sh", part);
    st_mem_init(&mem, NULL, NULL, NULL, 0);
    st_str_init(&text, &mem);
    st_str_addf(&text,
                "#!/bin/sh\n# Shows the failure; made by stator minify. expected.npz holds the "
                "answers of %s.\nhere=$(dirname \"$0\")\nSTATOR_CACHE=0\nexport STATOR_CACHE\n",
                m->setup.good);
    minify_command(m, NULL, &text);
    st_str_add(&text, "\n");
    bool ok = st_str_ok(&text)
                  ? cli_write_file(path, text.data, text.len, json)
                  : cli_fail(json, "RESOURCE_EXHAUSTED", NULL, "out of memory") == CLI_OK;
    st_str_deinit(&text);
    if (ok && chmod(path, 0755) != 0) {
        ok = cli_fail(json, "UNAVAILABLE", NULL, "'%s' cannot be made a program: %s", path,
                      strerror(errno)) == CLI_OK;
    }
    return ok;
}

/* ---- writing ---- */

static void remove_part(const char *part)
{
    char path[FILE_BYTES];
    DIR *dir = opendir(part);
    for (const struct dirent *at; dir != NULL && (at = readdir(dir)) != NULL;) {
        (void)snprintf(path, sizeof path, "%s/%s", part, at->d_name);
        (void)unlink(path);
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    (void)rmdir(part);
}

/* The files of m->best; 0 with the reason in *out. */
static bool write_files(minify *m, const char *part, minify_outcome *out)
{
    const minify_job job = {
        .task = MINIFY_WRITE, .setup = &m->setup, .cut = &m->best, .folder = part};
    child c;
    const bool ok = minify_child(m, &job, &c, out);
    child_close(&c);
    return ok && out->verdict == BISECT_AGREES;
}

/* Loaded from its files, does it fail as the whole model did? */
static bool fails_again(minify *m, const char *part)
{
    char program[FILE_BYTES], inputs[FILE_BYTES];
    bisect_setup setup = m->setup;
    const minify_cut whole = {.is_whole = true};
    const minify_job job = {.task = MINIFY_TRIAL, .setup = &setup, .cut = &whole};
    minify_outcome outcome;
    child c;
    (void)snprintf(program, sizeof program, "%s/repro.stir", part);
    (void)snprintf(inputs, sizeof inputs, "%s/inputs.npz", part);
    setup.path = program;
    setup.inputs = (cli_inputs){.inputs = access(inputs, F_OK) == 0 ? inputs : NULL, .random = -1};
    const bool ok = minify_child(m, &job, &c, &outcome);
    child_close(&c);
    m->trials++;
    m->last = outcome;
    return ok && minify_is_same(&m->whole, &outcome);
}

/* The next larger form; 0: there is none. */
static bool take_larger(minify *m)
{
    ST_NEED(!m->best.is_whole);
    minify_cut_free(&m->best);
    if (m->exact.n_nodes != 0) {
        m->best = m->exact;
        m->exact = (minify_cut){.n_ops = 0};
        minify_add_note(m, "with simpler data it failed only before it was written");
    } else {
        m->best.is_whole = true;
        minify_add_note(m, "the model is kept whole: cut out it failed only before it was written");
    }
    return true;
}

/* Into a folder that is there, and stays the one that it is: somebody may stand in it. */
static bool move_files(const char *part, const char *folder)
{
    char from[FILE_BYTES], to[FILE_BYTES];
    for (uint32_t i = 0; names[i] != NULL; i++) {
        (void)snprintf(from, sizeof from, "%s/%s", part, names[i]);
        (void)snprintf(to, sizeof to, "%.4000s/%s", folder, names[i]);
        if (access(from, F_OK) == 0 && rename(from, to) != 0) {
            const int number = errno;
            while (i-- > 0) {
                (void)snprintf(to, sizeof to, "%.4000s/%s", folder, names[i]);
                (void)unlink(to);
            }
            errno = number;
            return false;
        }
    }
    return rmdir(part) == 0;
}

static bool move_part(const char *part, const char *folder, int json)
{
    char place[PATH_BYTES];
    struct stat there;
    name_folder(folder, place);
    const bool ok = stat(folder, &there) == 0 ? move_files(part, folder) : rename(part, place) == 0;
    return ok || fail_path("cannot write to the folder", folder, json);
}

static bool write_form(minify *m, const char *part)
{
    const int json = m->setup.common.json;
    minify_outcome outcome;
    for (;;) {
        if (mkdir(part, 0777) != 0) {
            return fail_path("cannot make the folder", m->folder, json);
        }
        const bool is_written = write_files(m, part, &outcome);
        if (is_written && fails_again(m, part)) {
            return write_script(m, part) && move_part(part, m->folder, json);
        }
        remove_part(part);
        ST_NEED(!m->is_broken);
        if (!take_larger(m)) {
            return is_written
                       ? cli_fail(json, "DATA_LOSS", NULL,
                                  "written to files and loaded again the program does not fail in "
                                  "the same way; is the failure there each time?") == CLI_OK
                       : cli_fail(json, outcome.error.code, outcome.error.hint, "%s",
                                  outcome.error.message) == CLI_OK;
        }
    }
}

cli_status minify_write(minify *m, const char *out_files[8])
{
    char part[PATH_BYTES];
    char path[FILE_BYTES];
    uint32_t n = 0;
    if (!part_of(m->folder, part)) {
        (void)fail_path("cannot make the folder", m->folder, m->setup.common.json);
        return CLI_FAILED;
    }
    if (!write_form(m, part)) {
        remove_part(part);
        return CLI_FAILED;
    }
    for (uint32_t i = 0; names[i] != NULL; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", m->folder, names[i]);
        if (access(path, F_OK) == 0) {
            out_files[n++] = names[i];
        }
    }
    out_files[n] = NULL;
    return CLI_OK;
}
