/* .npz archives: zip files of .npy members, through libzip. */
#include "tools/cli/cli_npy.h"

#include <stdlib.h>
#include <string.h>

#define ERROR_SIZE 512u
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
    char name[256];
    (void)snprintf(name, sizeof name, "%.255s", st.name);
    const size_t len = strlen(name);
    if (len > 4 && strcmp(name + len - 4, ".npy") == 0) {
        name[len - 4] = '\0';
    }
    return cli_tensors_add(out, name, tensor);
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

#define MEMBER_BYTES 300u

static void member_name(const char *name, char out[MEMBER_BYTES])
{
    (void)snprintf(out, MEMBER_BYTES, "%.255s.npy", name);
}

static const char *name_of(const cli_tensors *tensors, uint32_t i, char fallback[32])
{
    (void)snprintf(fallback, 32, "arr_%u", i);
    return tensors->names[i] != NULL ? tensors->names[i] : fallback;
}

/* What the archive holds under the name of tensor i: nothing, its values, or others. */
typedef enum presence { MEMBER_NONE, MEMBER_SAME, MEMBER_OTHER } presence;

static presence find_member(zip_t *archive, const cli_tensors *tensors, uint32_t i)
{
    char names[2][32];
    char members[2][MEMBER_BYTES];
    member_name(name_of(tensors, i, names[0]), members[0]);
    if (zip_name_locate(archive, members[0], 0) < 0) {
        return MEMBER_NONE;
    }
    for (uint32_t k = 0; k < i; k++) {
        const uint64_t size = stator_tensor_size_bytes(tensors->tensors[i]);
        member_name(name_of(tensors, k, names[1]), members[1]);
        if (strcmp(members[0], members[1]) == 0) {
            return stator_tensor_size_bytes(tensors->tensors[k]) == size &&
                           (size == 0 ||
                            memcmp(stator_tensor_data(tensors->tensors[k]),
                                   stator_tensor_data(tensors->tensors[i]), (size_t)size) == 0)
                       ? MEMBER_SAME
                       : MEMBER_OTHER;
        }
    }
    return MEMBER_OTHER;
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
    zip_source_t *source = zip_source_buffer(archive, bytes, header_size + data_size, 1);
    if (source == NULL) {
        free(bytes);
        return false;
    }
    char member[MEMBER_BYTES];
    member_name(name, member);
    const zip_int64_t index = zip_file_add(archive, member, source, ZIP_FL_ENC_UTF_8);
    if (index < 0) {
        zip_source_free(source);
        return false;
    }
    return zip_set_file_compression(archive, (zip_uint64_t)index, ZIP_CM_STORE, 0) == 0;
}

/* The member of tensor i, unless a value that a model lists twice is there; 0: said why not. */
static bool add_tensor(zip_t *archive, const cli_tensors *tensors, uint32_t i, char *errbuf)
{
    char fallback[32];
    const char *name = name_of(tensors, i, fallback);
    const presence there = find_member(archive, tensors, i);
    if (there != MEMBER_NONE) {
        (void)snprintf(errbuf, ERROR_SIZE, "two outputs would be '%.300s' in the archive", name);
        return there == MEMBER_SAME;
    }
    stator_tensor_retain(tensors->tensors[i]);
    stator_tensor *tensor = cli_to_numpy(tensors->ctx, tensors->tensors[i]);
    const bool ok = tensor != NULL && add_member(archive, name, tensor);
    stator_tensor_release(tensor);
    if (!ok && zip_error_code_zip(zip_get_error(archive)) == ZIP_ER_INVAL) {
        (void)snprintf(
            errbuf, ERROR_SIZE,
            "no archive holds an output of the name '%.200s': it has control characters, "
            "or is no UTF-8",
            name);
    } else if (!ok) {
        (void)snprintf(errbuf, ERROR_SIZE, "out of memory");
    }
    return ok;
}

bool cli_write_npz(const char *path, const cli_tensors *tensors, char *errbuf)
{
    int code = 0;
    zip_error_t error;
    zip_t *archive = zip_open(path, ZIP_CREATE | ZIP_TRUNCATE, &code);
    zip_error_init_with_code(&error, code);
    bool ok = archive != NULL;
    for (uint32_t i = 0; ok && i < tensors->count; i++) {
        ok = add_tensor(archive, tensors, i, errbuf);
    }
    if (archive != NULL && !ok) {
        zip_discard(archive);
        zip_error_fini(&error);
        return false;
    }
    if (ok && zip_close(archive) == 0) {
        zip_error_fini(&error);
        return true;
    }
    const char *why = archive != NULL ? zip_strerror(archive) : zip_error_strerror(&error);
    (void)snprintf(errbuf, ERROR_SIZE, "cannot write '%.300s': %.150s", path, why);
    if (archive != NULL) {
        zip_discard(archive);
    }
    zip_error_fini(&error);
    return false;
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
    (void)snprintf(errbuf, ERROR_SIZE, "'%s': built without libzip", path);
    return false;
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
