/* NumPy's .npy format, versions 1 to 3 (numpy.lib.format): reading, and the header for writing. The
 * header is a Python dict literal; only its three keys, in any order, are understood. Hostile
 * input: every length is checked against the file before use. */
#define _GNU_SOURCE
#include "tools/cli/cli_npy.h"

#include "core/base/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ERROR_SIZE 512u

typedef struct descr_row {
    const char *text; /* without the byte-order mark */
    stator_dtype dtype;
} descr_row;

static const descr_row descrs[] = {{"b1", STATOR_BOOL}, {"i1", STATOR_I8},   {"i2", STATOR_I16},
                                   {"i4", STATOR_I32},  {"i8", STATOR_I64},  {"u1", STATOR_U8},
                                   {"u2", STATOR_U16},  {"u4", STATOR_U32},  {"u8", STATOR_U64},
                                   {"f2", STATOR_F16},  {"f4", STATOR_F32},  {"f8", STATOR_F64},
                                   {"c8", STATOR_C64},  {"c16", STATOR_C128}};

typedef struct header {
    stator_dtype dtype;
    bool fortran;
    uint32_t rank;
    int64_t shape[STATOR_RANK_MAX];
    uint64_t data_begin;
} header;

static bool bad(char *errbuf, const char *text)
{
    (void)snprintf(errbuf, ERROR_SIZE, "not a readable .npy: %s", text);
    return false;
}

/* The text after "'key':", blanks skipped, or NULL. */
static const char *value_of(const char *dict, const char *key)
{
    char quoted[32];
    (void)snprintf(quoted, sizeof quoted, "'%s'", key);
    const char *at = strstr(dict, quoted);
    if (at == NULL) {
        return NULL;
    }
    at += strlen(quoted);
    at += strspn(at, " ");
    if (*at != ':') {
        return NULL;
    }
    at++;
    return at + strspn(at, " ");
}

static bool parse_descr(const char *at, header *out, char *errbuf)
{
    ST_FAIL_BY_IF(bad, at == NULL || *at != '\'' || at[1] == '\0', errbuf, "no descr");
    ST_FAIL_BY_IF(bad, at[1] == '>', errbuf, "big-endian data");
    const char *name = at + 1 + (strchr("<|=", at[1]) != NULL);
    for (size_t i = 0; i < sizeof descrs / sizeof descrs[0]; i++) {
        const size_t len = strlen(descrs[i].text);
        if (strncmp(name, descrs[i].text, len) == 0 && name[len] == '\'') {
            out->dtype = descrs[i].dtype;
            return true;
        }
    }
    return bad(errbuf, "an element type that Stator has not");
}

static bool parse_shape(const char *at, header *out, char *errbuf)
{
    if (at == NULL || *at++ != '(') {
        return bad(errbuf, "no shape");
    }
    for (;;) {
        at += strspn(at, " ,");
        if (*at == ')') {
            return true;
        }
        char *end = NULL;
        errno = 0;
        const long long size = strtoll(at, &end, 10);
        ST_FAIL_BY_IF(bad, end == at || errno != 0 || size < 0 || out->rank == STATOR_RANK_MAX,
                      errbuf, "a shape that is not a tuple of at most 16 sizes");
        out->shape[out->rank++] = size;
        at = end;
    }
}

static bool parse_header(const uint8_t *bytes, uint64_t size, header *out, char *errbuf)
{
    ST_FAIL_BY_IF(bad, size < 10 || memcmp(bytes, "\x93NUMPY", 6) != 0, errbuf,
                  "the magic is missing");
    const uint32_t wide = bytes[6] >= 2;
    ST_FAIL_BY_IF(bad, bytes[6] < 1 || bytes[6] > 3 || (wide && size < 12), errbuf,
                  "an unknown version");
    uint64_t length = (uint64_t)bytes[8] | (uint64_t)bytes[9] << 8;
    if (wide) {
        length |= (uint64_t)bytes[10] << 16 | (uint64_t)bytes[11] << 24;
    }
    const uint64_t begin = wide ? 12 : 10;
    ST_FAIL_BY_IF(bad, length > size - begin || length > 65536, errbuf, "the header is cut off");
    char *dict = calloc(1, length + 1u);
    ST_FAIL_BY_IF(bad, dict == NULL, errbuf, "out of memory");
    memcpy(dict, bytes + begin, length);
    *out = (header){.data_begin = begin + length};
    const char *order = value_of(dict, "fortran_order");
    out->fortran = order != NULL && strncmp(order, "True", 4) == 0;
    const bool ok = parse_descr(value_of(dict, "descr"), out, errbuf) &&
                    parse_shape(value_of(dict, "shape"), out, errbuf);
    free(dict);
    return ok;
}

/* Column-major data into row-major order. */
static void reorder(const header *h, const char *src, char *dst, uint64_t item, uint64_t count)
{
    int64_t index[STATOR_RANK_MAX] = {0};
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = 0;
        for (uint32_t axis = h->rank; axis-- > 0;) {
            at = at * (uint64_t)h->shape[axis] + (uint64_t)index[axis];
        }
        memcpy(dst + i * item, src + at * item, item);
        for (uint32_t axis = h->rank; axis-- > 0;) {
            if (++index[axis] < h->shape[axis]) {
                break;
            }
            index[axis] = 0;
        }
    }
}

bool cli_parse_npy(stator_ctx *ctx, const void *bytes, uint64_t size, stator_tensor **out_tensor,
                   char *errbuf)
{
    *out_tensor = NULL;
    header h;
    ST_NEED(parse_header(bytes, size, &h, errbuf));
    uint64_t count = 0;
    uint64_t data_bytes = 0;
    if (!st_numel(h.shape, h.rank, &count) || !st_dtype_bytes(h.dtype, count, &data_bytes) ||
        data_bytes > size - h.data_begin) {
        return bad(errbuf, "the data is cut off");
    }
    if (stator_tensor_create(ctx, h.dtype, h.rank, h.shape, out_tensor) != STATOR_OK) {
        (void)snprintf(errbuf, ERROR_SIZE, "%s", stator_ctx_error_text(ctx));
        return false;
    }
    const char *data = (const char *)bytes + h.data_begin;
    if (h.fortran && h.rank > 1) {
        reorder(&h, data, stator_tensor_data(*out_tensor), st_element_bytes(h.dtype), count);
    } else if (data_bytes != 0) {
        memcpy(stator_tensor_data(*out_tensor), data, data_bytes);
    }
    return true;
}

bool cli_map_file(const char *path, void **out_bytes, uint64_t *out_size, char *errbuf)
{
    *out_bytes = NULL;
    *out_size = 0;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is refused below */
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) {
        (void)snprintf(errbuf, ERROR_SIZE, "cannot be opened: %s", strerror(errno));
    } else if (!S_ISREG(st.st_mode)) {
        (void)snprintf(errbuf, ERROR_SIZE, "is not a regular file");
    } else if (st.st_size == 0) {
        (void)snprintf(errbuf, ERROR_SIZE, "is empty");
    } else {
        void *bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes != MAP_FAILED) {
            *out_bytes = bytes;
            *out_size = (uint64_t)st.st_size;
        } else {
            (void)snprintf(errbuf, ERROR_SIZE, "cannot be read: %s", strerror(errno));
        }
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return *out_bytes != NULL;
}

void cli_unmap_file(void *bytes, uint64_t size)
{
    if (bytes != NULL) {
        (void)munmap(bytes, size);
    }
}

bool cli_read_npy(stator_ctx *ctx, const char *path, stator_tensor **out_tensor, char *errbuf)
{
    void *bytes = NULL;
    uint64_t size = 0;
    *out_tensor = NULL;
    ST_NEED(cli_map_file(path, &bytes, &size, errbuf));
    const bool ok = cli_parse_npy(ctx, bytes, size, out_tensor, errbuf);
    cli_unmap_file(bytes, size);
    return ok;
}

uint32_t cli_npy_header(const stator_tensor *tensor, char out[512])
{
    const DLTensor *view = stator_tensor_view(tensor);
    const stator_dtype dtype = stator_tensor_dtype(tensor);
    const char *text = "u1";
    for (size_t i = 0; i < sizeof descrs / sizeof descrs[0]; i++) {
        if (descrs[i].dtype == dtype) {
            text = descrs[i].text;
        }
    }
    char shape[400] = "";
    size_t used = 0;
    for (int32_t axis = 0; axis < view->ndim; axis++) {
        used += (size_t)snprintf(shape + used, sizeof shape - used, "%lld, ",
                                 (long long)view->shape[axis]);
    }
    const char mark = st_dtype_bits(dtype) <= 8 ? '|' : '<';
    int length =
        snprintf(out + 10, 500, "{'descr': '%c%s', 'fortran_order': False, 'shape': (%s), }", mark,
                 text, shape);
    while ((10 + length + 1) % 64 != 0) {
        out[10 + length++] = ' ';
    }
    out[10 + length++] = '\n';
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (char)(length & 0xff);
    out[9] = (char)(length >> 8);
    return (uint32_t)(10 + length);
}
