/* Folders and files of STATOR_DUMP; see the header. Names of files are made of letters, digits,
 * '-', '_' and '.', whatever a model or a plugin calls things, so that nothing leaves the folder.
 */
#define _GNU_SOURCE
#include "core/context/dump.h"

#include "core/base/blob.h"
#include "core/base/fdio.h"
#include "core/base/str.h"
#include "ir/text/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOB_FILE "constants.blob"
#define NAME_BYTES 128u
#define FOLDERS_MAX 10000u /* dump folders in one STATOR_DUMP */
#define SAME_NAME_MAX 1000u
#define BLOB_ALIGN 64u

/* ---- writing ---- */

/* `name` as a file's: what is no letter, digit, '-', '_' or '.' becomes '_', a '.' in front too. */
static void plain_name(const char *name, char out[NAME_BYTES])
{
    uint32_t n = 0;
    for (; name[n] != '\0' && n < NAME_BYTES - 1u; n++) {
        const char c = name[n];
        const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        const bool is_plain =
            is_letter || (c >= '0' && c <= '9') || c == '-' || c == '_' || (c == '.' && n > 0);
        out[n] = (char)(is_plain ? c : '_');
    }
    out[n] = '\0';
    if (n == 0) {
        (void)snprintf(out, NAME_BYTES, "unnamed");
    }
}

static void say_full(st_dump *dump, const char *name)
{
    if (!atomic_exchange(&dump->is_full, true)) {
        char text[96] = "";
        st_log(dump->handle.ctx, "dump", 1, "STATOR_DUMP: cannot write %s: %s", name,
               strerror_r(errno, text, sizeof text));
    }
}

/* A new file; where there is one of that name, "name-2.ending" and so on. */
static st_fd create_file(int folder, const char *name)
{
    char other[NAME_BYTES + 16u];
    const char *dot = strchr(name, '.');
    const int stem = dot != NULL ? (int)(dot - name) : (int)strlen(name);
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    for (uint32_t i = 2; fd < 0 && errno == EEXIST && i < SAME_NAME_MAX; i++) {
        (void)snprintf(other, sizeof other, "%.*s-%u%s", stem, name, i, name + stem);
        fd = openat(folder, other, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    }
    return fd;
}

static void write_file(st_dump *dump, int folder, const char *given, const void *bytes, uint64_t n)
{
    char name[NAME_BYTES];
    plain_name(given, name);
    const int fd = create_file(folder, name);
    const bool is_written = fd >= 0 && st_write_all(fd, bytes, n);
    if (!is_written) {
        say_full(dump, name);
    }
    if (fd >= 0 && close(fd) != 0 && is_written) {
        say_full(dump, name);
    }
}

/* ---- graphs ---- */

static void close_blobs(st_dump *dump)
{
    if (dump->blob_fd >= 0) {
        (void)close(dump->blob_fd);
        dump->blob_fd = -1;
    }
}

/* Where the constant's bytes lie in the blob file; each blob is written once. */
static stator_status place_blob(void *self, stator_blob *blob, const char **out_path,
                                uint64_t *out_offset, stator_diag **err)
{
    static const char zeros[BLOB_ALIGN];
    st_dump *dump = self;
    const void *data = NULL;
    const uint64_t size = st_blob_size(blob);
    const uint64_t gap = (BLOB_ALIGN - dump->blob_bytes % BLOB_ALIGN) % BLOB_ALIGN;
    const uint32_t known = st_map_get(&dump->places, (uint64_t)(uintptr_t)blob);
    *out_path = BLOB_FILE;
    if (known) {
        *out_offset = dump->offsets.data[known - 1u];
        return STATOR_OK;
    }
    ST_TRY(st_blob_get(blob, &data, err));
    if (dump->blob_fd < 0 || !st_write_all(dump->blob_fd, zeros, gap) ||
        !st_write_all(dump->blob_fd, data, size)) {
        const int why = errno;
        close_blobs(dump); /* where it ends is not known any more */
        errno = why;
        return st_fail(err, STATOR_UNAVAILABLE, "cannot write '%s': %m", BLOB_FILE);
    }
    *out_offset = dump->blob_bytes + gap;
    dump->blob_bytes += gap + size;
    uint64_t *at = st_vec_push(&dump->handle.ctx->mem, &dump->offsets);
    ST_TRY_MEM(at, err);
    *at = *out_offset;
    return st_map_put(&dump->places, (uint64_t)(uintptr_t)blob, dump->offsets.count)
               ? STATOR_OK
               : st_fail_oom(err);
}

static void write_graph(st_dump *dump, const char *name, const stator_graph *graph)
{
    const st_print_options options = {.place = place_blob, .self = dump};
    stator_diag *why = NULL;
    st_str text;
    st_str_init(&text, &dump->handle.ctx->mem);
    if (st_print_graph(graph, &options, &text, &why) == STATOR_OK && st_str_ok(&text)) {
        write_file(dump, dump->fd, name, text.data, text.len);
    } else {
        st_log(dump->handle.ctx, "dump", 1, "STATOR_DUMP: %s: %s", name,
               why != NULL ? st_diag_text(why) : "out of memory");
    }
    st_diag_release(why);
    st_str_deinit(&text);
}

void st_dump_stage(stator_ctx *ctx, const char *stage, const stator_graph *graph)
{
    char name[NAME_BYTES];
    st_dump *dump = st_compile_of(ctx).dump;
    if (dump != NULL) {
        (void)snprintf(name, sizeof name, "%02u-%.64s.stir", dump->n_stages++, stage);
        write_graph(dump, name, graph);
    }
}

void st_dump_part_begin(stator_ctx *ctx, const char *backend, const stator_graph *graph)
{
    char name[NAME_BYTES];
    char folder[NAME_BYTES];
    st_dump *dump = st_compile_of(ctx).dump;
    if (dump == NULL) {
        return;
    }
    (void)snprintf(name, sizeof name, "part-%u-%.64s.stir", dump->n_parts, backend);
    write_graph(dump, name, graph);
    (void)snprintf(name, sizeof name, "part-%u-%.64s", dump->n_parts++, backend);
    plain_name(name, folder);
    if (mkdirat(dump->fd, folder, 0777) == 0) {
        dump->part_fd = openat(dump->fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    } else {
        say_full(dump, folder);
    }
}

void st_dump_part_end(stator_ctx *ctx)
{
    st_dump *dump = st_compile_of(ctx).dump;
    if (dump != NULL && dump->part_fd >= 0) {
        (void)close(dump->part_fd);
        dump->part_fd = -1;
    }
}

/* ---- what plugins hand over ---- */

int32_t st_dump_is_on(stator_ctx *ctx)
{
    return st_compile_of(ctx).dump != NULL;
}

void st_dump_file(stator_ctx *ctx, const char *name, const void *bytes, uint64_t size_bytes)
{
    st_dump *dump = st_compile_of(ctx).dump;
    if (dump != NULL) {
        write_file(dump, dump->part_fd >= 0 ? dump->part_fd : dump->fd, name, bytes, size_bytes);
    }
}

/* ---- what is said ---- */

const char *const st_compile_channels[ST_COMPILE_CHANNELS] = {"passes", "dispatch", "fusion",
                                                              ST_HINTS};

bool st_dump_hears(const stator_ctx *ctx, const char *channel, uint32_t level)
{
    bool is_heard = false;
    for (uint32_t i = 0; level <= 2 && i < ST_COMPILE_CHANNELS; i++) {
        is_heard |= strcmp(st_compile_channels[i], channel) == 0;
    }
    return is_heard && st_compile_of(ctx).dump != NULL;
}

void st_dump_line(stator_ctx *ctx, const char *channel, const char *text)
{
    char name[NAME_BYTES];
    st_dump *dump = st_compile_of(ctx).dump;
    if (dump == NULL) {
        return;
    }
    (void)snprintf(name, sizeof name, "%.64s.log", channel);
    const int fd =
        openat(dump->fd, name, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666);
    (void)pthread_mutex_lock(&ctx->lock); /* helpers of one compile write whole lines */
    const bool is_written =
        fd >= 0 && st_write_all(fd, text, strlen(text)) && st_write_all(fd, "\n", 1);
    (void)pthread_mutex_unlock(&ctx->lock);
    if (!is_written) {
        say_full(dump, name);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
}

/* ---- a compile ---- */

/* The first free number; the folder's descriptor or -1. */
static st_fd make_folder(int root, const char *title)
{
    char name[NAME_BYTES];
    for (uint32_t i = 1; i < FOLDERS_MAX; i++) {
        (void)snprintf(name, sizeof name, "%03u-%.100s", i, title);
        if (mkdirat(root, name, 0777) == 0) {
            return openat(root, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        }
        if (errno != EEXIST) {
            return -1;
        }
    }
    return -1;
}

static void name_compile(const stator_graph *graph, const char *backend, char out[NAME_BYTES])
{
    char title[NAME_BYTES];
    const stator_graph_view *v = st_graph_view(graph);
    (void)snprintf(title, sizeof title, "%.48s-%.48s", stator_string_at(v, v->name), backend);
    plain_name(title, out);
}

stator_status st_dump_begin(st_dump *dump, stator_ctx *ctx, const stator_graph *graph,
                            const char *backend, stator_diag **err)
{
    char title[NAME_BYTES];
    const char *root = (ctx->flags & STATOR_CTX_NO_ENV) == 0 ? secure_getenv("STATOR_DUMP") : NULL;
    *dump = (st_dump){.fd = -1, .part_fd = -1, .blob_fd = -1};
    if (root == NULL || root[0] == '\0') {
        return STATOR_OK;
    }
    const bool is_there = mkdir(root, 0777) == 0 || errno == EEXIST;
    const int at = is_there ? open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    name_compile(graph, backend, title);
    dump->fd = at >= 0 ? make_folder(at, title) : -1;
    if (dump->fd < 0) {
        const stator_status status =
            st_fail(err, STATOR_UNAVAILABLE, "STATOR_DUMP: cannot make a folder in '%s': %m", root);
        if (at >= 0) {
            (void)close(at);
        }
        return status;
    }
    (void)close(at);
    dump->blob_fd = create_file(dump->fd, BLOB_FILE);
    st_map_init(&dump->places, &ctx->mem);
    st_compile_enter(&dump->handle, ctx);
    dump->handle.dump = dump;
    return STATOR_OK;
}

void st_dump_end(st_dump *dump)
{
    if (dump->fd < 0) {
        return;
    }
    st_dump_part_end(dump->handle.ctx);
    st_compile_leave(&dump->handle);
    close_blobs(dump);
    if (dump->blob_bytes == 0) {
        (void)unlinkat(dump->fd, BLOB_FILE, 0);
    }
    (void)close(dump->fd);
    st_map_deinit(&dump->places);
    st_vec_free(&dump->handle.ctx->mem, &dump->offsets);
    dump->fd = -1;
}
