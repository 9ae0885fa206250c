/* Reading a NumPy file as a tensor; see npy.h. The header is a Python dictionary:
 * "{'descr': '<f4', 'fortran_order': False, 'shape': (540, 1, 8, 8), }". */
#include "npy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_MAX = 4096 };

/* Numbers between the parentheses behind 'shape'; their count, -1 where there are no such. */
static int32_t parse_shape(const char *text, int64_t shape[STATOR_RANK_MAX])
{
    const char *at = strstr(text, "'shape'");
    int32_t rank = 0;
    at = at != NULL ? strchr(at, '(') : NULL;
    while (at != NULL && *at != '\0' && *at != ')') {
        char *end = NULL;
        const int64_t size = strtoll(++at, &end, 10);
        if (end == at) {
            break; /* the comma that ends "(540,)" */
        }
        if (rank == (int32_t)STATOR_RANK_MAX || size < 1) {
            return -1;
        }
        shape[rank++] = size;
        at = end;
    }
    return at != NULL ? rank : -1;
}

static stator_tensor *read_tensor(stator_ctx *ctx, FILE *file)
{
    unsigned char head[10];
    char text[HEADER_MAX];
    int64_t shape[STATOR_RANK_MAX];
    stator_tensor *tensor = NULL;
    if (fread(head, 1, sizeof head, file) != sizeof head || memcmp(head, "\x93NUMPY\x01", 7) != 0) {
        return NULL;
    }
    const size_t length = head[8] | (size_t)head[9] << 8;
    if (length >= sizeof text || fread(text, 1, length, file) != length) {
        return NULL;
    }
    text[length] = '\0';
    const stator_dtype dtype = strstr(text, "'<f4'") != NULL   ? STATOR_F32
                               : strstr(text, "'<i8'") != NULL ? STATOR_I64
                                                               : 0;
    const int32_t rank = parse_shape(text, shape);
    if (dtype == 0 || rank < 0 || strstr(text, "True") != NULL ||
        stator_tensor_create(ctx, dtype, (uint32_t)rank, shape, &tensor) != STATOR_OK) {
        return NULL;
    }
    const uint64_t size = stator_tensor_size_bytes(tensor);
    if (fread(stator_tensor_data(tensor), 1, size, file) != size) {
        stator_tensor_release(tensor);
        return NULL;
    }
    return tensor;
}

stator_tensor *npy_load(stator_ctx *ctx, const char *dir, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.npy", dir, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return NULL;
    }
    stator_tensor *tensor = read_tensor(ctx, file);
    if (tensor == NULL) {
        fprintf(stderr, "%s: expected version 1, f32 or i64, C order\n", path);
    }
    fclose(file);
    return tensor;
}
