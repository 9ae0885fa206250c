/* External tensor data: a file below the model's own folder, named by the tensor.
 *
 * The location must be relative, without "..", and after links are followed the file must still lie
 * in the folder; offset and length are checked against the file and the tensor's shape. */
#define _GNU_SOURCE /* realpath */
#include "frontends/onnx/ox_facts.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct external {
    const char *location;
    uint64_t offset;
    uint64_t length;
    bool has_length;
} external;

static bool parse_u64(const char *text, uint64_t *out)
{
    char *end;
    ST_NEED(text[0] >= '0' && text[0] <= '9');
    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0';
}

static stator_status read_keys(ox_import *im, const Onnx__TensorProto *t, const char *what,
                               external *out)
{
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < t->n_external_data; i++) {
        const char *key = ox_text(t->external_data[i]->key);
        const char *value = ox_text(t->external_data[i]->value);
        bool is_good = true;
        if (strcmp(key, "location") == 0) {
            out->location = value;
        } else if (strcmp(key, "offset") == 0) {
            is_good = parse_u64(value, &out->offset);
        } else if (strcmp(key, "length") == 0) {
            is_good = out->has_length = parse_u64(value, &out->length);
        }
        OX_FAIL_IF(!is_good, im, STATOR_INVALID_ARGUMENT,
                   "%s '%s': %s of its external data is '%s', expected a number", what,
                   ox_text(t->name), key, value);
    }
    OX_FAIL_IF(out->location == NULL || out->location[0] == '\0', im, STATOR_INVALID_ARGUMENT,
               "%s '%s' is stored outside the file but names no location", what, ox_text(t->name));
    return STATOR_OK;
}

static bool has_dot_dot(const char *path)
{
    for (const char *p = path; p != NULL; p = strchr(p, '/')) {
        p += *p == '/';
        if (p[0] == '.' && p[1] == '.' && (p[2] == '/' || p[2] == '\0')) {
            return true;
        }
    }
    return false;
}

/* The file's real path into out[PATH_MAX] after every rule about places. */
static stator_status locate(ox_import *im, const Onnx__TensorProto *t, const char *what,
                            const char *location, char *out)
{
    char dir[PATH_MAX];
    const char *name = ox_text(t->name);
    OX_FAIL_IF(im->source->dir == NULL, im, STATOR_PERMISSION_DENIED,
               "%s '%s' lies in the file '%s', but a model given as bytes has no folder", what,
               name, location);
    OX_FAIL_IF(location[0] == '/' || has_dot_dot(location), im, STATOR_PERMISSION_DENIED,
               "%s '%s': the location '%s' must be a relative path without '..'", what, name,
               location);
    st_str path;
    st_str_init(&path, &im->mem);
    st_str_addf(&path, "%s/%s", im->source->dir, location);
    const bool is_ok = st_str_ok(&path);
    const char *real = is_ok ? realpath(path.data, out) : NULL;
    st_str_deinit(&path);
    OX_FAIL_IF(!is_ok, im, STATOR_RESOURCE_EXHAUSTED, "out of memory");
    OX_FAIL_IF(real == NULL, im, STATOR_NOT_FOUND,
               "%s '%s' needs the file '%s' beside the model, which is not there (%s)", what, name,
               location, strerror(errno));
    OX_FAIL_IF(realpath(im->source->dir, dir) == NULL, im, STATOR_NOT_FOUND,
               "the model's folder '%s' is gone", im->source->dir);
    const size_t n = strlen(dir);
    OX_FAIL_IF(strncmp(out, dir, n) != 0 || (out[n] != '/' && n != 1), im, STATOR_PERMISSION_DENIED,
               "%s '%s': '%s' is a link that leads out of the model's folder", what, name,
               location);
    return STATOR_OK;
}

stator_status ox_external_read(ox_import *im, const Onnx__TensorProto *t, const char *what,
                               uint64_t size_bytes, stator_blob **out_blob)
{
    external e;
    char path[PATH_MAX];
    struct stat info;
    uint64_t end;
    ST_TRY(read_keys(im, t, what, &e));
    ST_TRY(locate(im, t, what, e.location, path));
    OX_FAIL_IF(e.has_length && e.length != size_bytes, im, STATOR_DATA_LOSS,
               "%s '%s' has %llu bytes in '%s', its shape needs %llu", what, ox_text(t->name),
               (unsigned long long)e.length, e.location, (unsigned long long)size_bytes);
    OX_FAIL_IF(stat(path, &info) != 0 || !S_ISREG(info.st_mode), im, STATOR_NOT_FOUND,
               "%s '%s': '%s' is not a regular file", what, ox_text(t->name), e.location);
    OX_FAIL_IF(!st_add_u64(e.offset, size_bytes, &end) || end > (uint64_t)info.st_size, im,
               STATOR_DATA_LOSS, "%s '%s' needs %llu bytes at offset %llu of '%s', which has %llu",
               what, ox_text(t->name), (unsigned long long)size_bytes, (unsigned long long)e.offset,
               e.location, (unsigned long long)info.st_size);
    const stator_host *h = im->host;
    ox_tell_data(im, e.location, path);
    const stator_status status = h->cst->from_file(
        h->ctx, path, e.offset, size_bytes, (int32_t)(im->source->flags & STATOR_SOURCE_COPY),
        out_blob, &im->emit_diag);
    return ox_import_check(im, status, ox_text(t->name)) ? STATOR_OK : im->status;
}
