/* .npz archives: zip files of .npy members, through libzip. */
#define _GNU_SOURCE
#include "tools/cli/cli_npy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ERROR_SIZE 512u
#define NAME_BYTES_MAX 65531u /* of an array: a member's name has 16 bits of length, with .npy */
/* A member may not unpack to more than this: zip bombs end here. */
#define MEMBER_BYTES_MAX (UINT64_C(8) << 30)

#if ST_HAVE_ZIP
#include <zip.h>

/* The whole member and nothing more; the read past its end also checks its sum. */
static bool unpack(zip_t *archive, zip_uint64_t index, char *bytes, uint64_t size)
{
    zip_file_t *file = zip_fopen_index(archive, index, 0);
    char more = 0;
    const bool ok = file != NULL && zip_fread(file, bytes, size) == (zip_int64_t)size &&
                    zip_fread(file, &more, 1) == 0;
    if (file != NULL) {
        (void)zip_fclose(file);
    }
    return ok;
}

static bool read_member(stator_ctx *ctx, zip_t *archive, uint64_t archive_size, zip_uint64_t index,
                        cli_tensors *out, char *errbuf)
{
    zip_stat_t st;
    if (zip_stat_index(archive, index, 0, &st) != 0 || (st.valid & ZIP_STAT_SIZE) == 0 ||
        (st.valid & ZIP_STAT_NAME) == 0 || st.size > MEMBER_BYTES_MAX) {
        (void)snprintf(errbuf, ERROR_SIZE, "member %llu has no usable size",
                       (unsigned long long)index);
        return false;
    }
    /* Deflate packs at most about 1:1032, so a larger claim is a lie. */
    if ((st.valid & ZIP_STAT_COMP_SIZE) == 0 || st.comp_size > archive_size ||
        st.size / 1100u > st.comp_size + 64u) {
        (void)snprintf(errbuf, ERROR_SIZE, "member '%s' claims an impossible size", st.name);
        return false;
    }
    char *bytes = malloc(st.size + 1u);
    bool ok = bytes != NULL && unpack(archive, index, bytes, st.size);
    stator_tensor *tensor = NULL;
    char inner[ERROR_SIZE] = "cannot be unpacked";
    ok = ok && cli_parse_npy(ctx, bytes, st.size, &tensor, inner);
    free(bytes);
    if (!ok) {
        (void)snprintf(errbuf, ERROR_SIZE, "member '%.100s': %.380s", st.name, inner);
        return false;
    }
    const size_t len = strlen(st.name);
    const size_t ending = len > 4 && strcmp(st.name + len - 4, ".npy") == 0 ? 4 : 0;
    char *name = strndup(st.name, len - ending);
    ok = name != NULL && cli_tensors_add(out, name, tensor);
    if (!ok) {
        (void)snprintf(errbuf, ERROR_SIZE, "out of memory");
    }
    free(name);
    return ok;
}

static zip_t *open_archive(const void *bytes, uint64_t size, char *errbuf)
{
    zip_error_t error;
    zip_error_init(&error);
    zip_source_t *source = zip_source_buffer_create(bytes, size, 0, &error);
    zip_t *archive = source != NULL ? zip_open_from_source(source, ZIP_RDONLY, &error) : NULL;
    if (archive == NULL) {
        (void)snprintf(errbuf, ERROR_SIZE, "not a readable .npz: %s", zip_error_strerror(&error));
        zip_source_free(source);
    }
    zip_error_fini(&error);
    return archive;
}

bool cli_parse_npz(stator_ctx *ctx, const void *bytes, uint64_t size, cli_tensors *out,
                   char *errbuf)
{
    zip_t *archive = open_archive(bytes, size, errbuf);
    ST_NEED(archive != NULL);
    bool ok = true;
    const zip_int64_t count = zip_get_num_entries(archive, 0);
    for (zip_int64_t i = 0; ok && i < count; i++) {
        ok = read_member(ctx, archive, size, (zip_uint64_t)i, out, errbuf);
    }
    zip_discard(archive);
    return ok;
}

/* ---- writing ---- */

/* What libzip writes an archive into: the file of out->file, from its beginning. */
typedef struct sink {
    st_out_file *out;
    zip_error_t error;
} sink;

static zip_int64_t refuse(sink *s, int code, int number)
{
    zip_error_set(&s->error, code, number);
    return -1;
}

static zip_int64_t seek_write(sink *s, void *data, zip_uint64_t len)
{
    const off_t now = ftello(s->out->file);
    const off_t end = fseeko(s->out->file, 0, SEEK_END) == 0 ? ftello(s->out->file) : -1;
    if (now < 0 || end < 0) {
        return refuse(s, ZIP_ER_SEEK, errno);
    }
    const zip_int64_t at =
        zip_source_seek_compute_offset((zip_uint64_t)now, (zip_uint64_t)end, data, len, &s->error);
    if (at < 0) {
        return -1;
    }
    return fseeko(s->out->file, (off_t)at, SEEK_SET) == 0 ? 0 : refuse(s, ZIP_ER_SEEK, errno);
}

/* The file is new and only written: there is nothing to read, and its end is its owner's. */
static zip_int64_t on_command(void *self, void *data, zip_uint64_t len, zip_source_cmd_t command)
{
    sink *s = self;
    switch (command) {
    case ZIP_SOURCE_SUPPORTS:
        return zip_source_make_command_bitmap(
            ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE, ZIP_SOURCE_STAT, ZIP_SOURCE_ERROR,
            ZIP_SOURCE_FREE, ZIP_SOURCE_SEEK, ZIP_SOURCE_TELL, ZIP_SOURCE_BEGIN_WRITE,
            ZIP_SOURCE_COMMIT_WRITE, ZIP_SOURCE_ROLLBACK_WRITE, ZIP_SOURCE_SEEK_WRITE,
            ZIP_SOURCE_TELL_WRITE, ZIP_SOURCE_REMOVE, ZIP_SOURCE_WRITE, -1);
    case ZIP_SOURCE_STAT:
        zip_stat_init(data);
        return 0;
    case ZIP_SOURCE_ERROR:
        return zip_error_to_data(&s->error, data, len);
    case ZIP_SOURCE_WRITE:
        return fwrite(data, 1, (size_t)len, s->out->file) == len ? (zip_int64_t)len
                                                                 : refuse(s, ZIP_ER_WRITE, errno);
    case ZIP_SOURCE_SEEK_WRITE:
        return seek_write(s, data, len);
    case ZIP_SOURCE_TELL_WRITE:
        return (zip_int64_t)ftello(s->out->file);
    case ZIP_SOURCE_OPEN:
    case ZIP_SOURCE_CLOSE:
    case ZIP_SOURCE_FREE:
    case ZIP_SOURCE_BEGIN_WRITE:
    case ZIP_SOURCE_COMMIT_WRITE:
    case ZIP_SOURCE_ROLLBACK_WRITE:
    case ZIP_SOURCE_REMOVE: /* an archive without members */
        return 0;
    default:
        return refuse(s, ZIP_ER_OPNOTSUPP, 0);
    }
}

static const char *name_of(const cli_tensors *tensors, uint32_t i, char fallback[32])
{
    (void)snprintf(fallback, 32, "arr_%u", i);
    return tensors->names[i] != NULL ? tensors->names[i] : fallback;
}

/* Is a tensor before i of that name? Then one of its values, or of others. */
typedef enum presence { MEMBER_NONE, MEMBER_SAME, MEMBER_OTHER } presence;

static presence find_member(const cli_tensors *tensors, uint32_t i)
{
    char fallbacks[2][32];
    const char *name = name_of(tensors, i, fallbacks[0]);
    const uint64_t size = stator_tensor_size_bytes(tensors->tensors[i]);
    for (uint32_t k = 0; k < i; k++) {
        if (strcmp(name, name_of(tensors, k, fallbacks[1])) == 0) {
            return stator_tensor_size_bytes(tensors->tensors[k]) == size &&
                           (size == 0 ||
                            memcmp(stator_tensor_data(tensors->tensors[k]),
                                   stator_tensor_data(tensors->tensors[i]), (size_t)size) == 0)
                       ? MEMBER_SAME
                       : MEMBER_OTHER;
        }
    }
    return MEMBER_NONE;
}

/* NumPy's date of a member, 1 January 1980 in the bits of DOS: equal arrays make equal files. */
#define MEMBER_DATE 0x21

/* The member NAME.npy with these bytes, which are taken. */
static bool add_bytes(zip_t *archive, const char *name, char *bytes, uint64_t size)
{
    const size_t n = strlen(name) + sizeof ".npy";
    char *member = n <= NAME_BYTES_MAX + sizeof ".npy" ? malloc(n) : NULL;
    zip_source_t *source = member != NULL ? zip_source_buffer(archive, bytes, size, 1) : NULL;
    if (source == NULL) {
        free(bytes);
        free(member);
        return false;
    }
    (void)snprintf(member, n, "%s.npy", name);
    const zip_int64_t index = zip_file_add(archive, member, source, ZIP_FL_ENC_UTF_8);
    free(member);
    if (index < 0) {
        zip_source_free(source);
        return false;
    }
    return zip_set_file_compression(archive, (zip_uint64_t)index, ZIP_CM_STORE, 0) == 0 &&
           zip_file_set_dostime(archive, (zip_uint64_t)index, 0, MEMBER_DATE, 0) == 0;
}

static bool add_member(zip_t *archive, const char *name, const stator_tensor *tensor)
{
    char header[512];
    const uint32_t header_size = cli_npy_header(tensor, header);
    const uint64_t data_size = stator_tensor_size_bytes(tensor);
    char *bytes = malloc(header_size + data_size);
    ST_NEED(bytes != NULL);
    memcpy(bytes, header, header_size);
    if (data_size != 0) {
        memcpy(bytes + header_size, stator_tensor_data(tensor), data_size);
    }
    return add_bytes(archive, name, bytes, header_size + data_size);
}

/* Why a member of that name could not be added. */
static void say_refused(zip_t *archive, const char *name, char *errbuf)
{
    if (strlen(name) > NAME_BYTES_MAX) {
        (void)snprintf(errbuf, ERROR_SIZE,
                       "no archive holds an array of the name '%.60s...': it has %zu bytes, and at "
                       "most %u are held",
                       name, strlen(name), NAME_BYTES_MAX);
    } else if (zip_error_code_zip(zip_get_error(archive)) == ZIP_ER_INVAL) {
        (void)snprintf(errbuf, ERROR_SIZE,
                       "no archive holds an array of the name '%.200s': it has control "
                       "characters, or is no UTF-8",
                       name);
    } else {
        (void)snprintf(errbuf, ERROR_SIZE, "out of memory");
    }
}

/* The member of tensor i, unless a value that a model lists twice is there; 0: said why not. */
static bool add_tensor(zip_t *archive, const cli_tensors *tensors, uint32_t i, char *errbuf)
{
    char fallback[32];
    const char *name = name_of(tensors, i, fallback);
    const presence there = find_member(tensors, i);
    if (there != MEMBER_NONE) {
        (void)snprintf(errbuf, ERROR_SIZE, "two outputs would be '%.300s' in the archive", name);
        return there == MEMBER_SAME;
    }
    stator_tensor_retain(tensors->tensors[i]);
    stator_tensor *tensor = cli_to_numpy(tensors->ctx, tensors->tensors[i]);
    const bool ok = tensor != NULL && add_member(archive, name, tensor);
    stator_tensor_release(tensor);
    if (!ok) {
        say_refused(archive, name, errbuf);
    }
    return ok;
}

/* Writes all members into the open file. */
static bool write_archive(st_out_file *out, const cli_tensors *tensors, char *errbuf)
{
    static const char empty[22] = "PK\5\6"; /* the record that ends an archive, of no members */
    sink s = {.out = out};
    zip_error_init(&s.error);
    zip_source_t *source = zip_source_function_create(on_command, &s, NULL);
    zip_t *archive =
        source != NULL ? zip_open_from_source(source, ZIP_CREATE | ZIP_TRUNCATE, NULL) : NULL;
    if (archive == NULL) {
        zip_source_free(source);
        (void)snprintf(errbuf, ERROR_SIZE, "out of memory");
        return false;
    }
    bool ok = true;
    for (uint32_t i = 0; ok && i < tensors->count; i++) {
        ok = add_tensor(archive, tensors, i, errbuf);
    }
    if (ok && zip_close(archive) == 0) {
        zip_error_fini(&s.error);
        return tensors->count != 0 || fwrite(empty, 1, sizeof empty, out->file) == sizeof empty;
    }
    if (ok) {
        (void)snprintf(errbuf, ERROR_SIZE, "cannot write '%.300s': %.150s", out->path,
                       zip_strerror(archive));
    }
    zip_discard(archive);
    zip_error_fini(&s.error);
    return false;
}

/* The text of a failure; false. */
static bool say_diag(stator_diag *diag, char *errbuf)
{
    (void)snprintf(errbuf, ERROR_SIZE, "%s", st_diag_text(diag));
    st_diag_release(diag);
    return false;
}

static bool say_direct(const char *path, char *errbuf)
{
    (void)snprintf(errbuf, ERROR_SIZE,
                   "cannot write '%.300s': an archive is no stream, and that is no regular file",
                   path);
    return false;
}

bool cli_write_npz(const char *path, const cli_tensors *tensors, char *errbuf)
{
    st_out_file out;
    stator_diag *diag = NULL;
    ST_NEED(cli_check_npz(path, errbuf)); /* a pipe is not opened, which would wait */
    ST_FAIL_BY_IF(say_diag, st_out_open(path, &out, &diag) != STATOR_OK, diag, errbuf);
    if (!write_archive(&out, tensors, errbuf)) {
        (void)st_out_close(&out, STATOR_UNAVAILABLE, NULL);
        return false;
    }
    return st_out_close(&out, STATOR_OK, &diag) == STATOR_OK || say_diag(diag, errbuf);
}

bool cli_check_npz(const char *path, char *errbuf)
{
    bool is_direct = false;
    stator_diag *diag = NULL;
    ST_FAIL_BY_IF(say_diag, st_out_check(path, &is_direct, &diag) != STATOR_OK, diag, errbuf);
    return !is_direct || say_direct(path, errbuf);
}

bool cli_check_npz_name(const char *name, char *errbuf)
{
    zip_source_t *source = zip_source_buffer_create(NULL, 0, 0, NULL);
    zip_t *archive =
        source != NULL ? zip_open_from_source(source, ZIP_CREATE | ZIP_TRUNCATE, NULL) : NULL;
    if (archive == NULL) {
        zip_source_free(source);
        (void)snprintf(errbuf, ERROR_SIZE, "out of memory");
        return false;
    }
    const bool ok = add_bytes(archive, name, NULL, 0);
    if (!ok) {
        say_refused(archive, name, errbuf);
    }
    zip_discard(archive);
    return ok;
}

#else

bool cli_parse_npz(stator_ctx *ctx, const void *bytes, uint64_t size, cli_tensors *out,
                   char *errbuf)
{
    (void)ctx;
    (void)bytes;
    (void)size;
    (void)out;
    (void)snprintf(errbuf, ERROR_SIZE, "built without libzip");
    return false;
}

bool cli_write_npz(const char *path, const cli_tensors *tensors, char *errbuf)
{
    (void)tensors;
    return cli_check_npz(path, errbuf);
}

bool cli_check_npz(const char *path, char *errbuf)
{
    (void)snprintf(errbuf, ERROR_SIZE, "'%s': built without libzip", path);
    return false;
}

bool cli_check_npz_name(const char *name, char *errbuf)
{
    return cli_check_npz(name, errbuf);
}

#endif

bool cli_read_npz(stator_ctx *ctx, const char *path, cli_tensors *out, char *errbuf)
{
    void *bytes = NULL;
    uint64_t size = 0;
    ST_NEED(cli_map_file(path, &bytes, &size, errbuf));
    const bool ok = cli_parse_npz(ctx, bytes, size, out, errbuf);
    cli_unmap_file(bytes, size);
    return ok;
}
