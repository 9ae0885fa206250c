/* Tensors in a file; see child_tensors.h. */
#define _GNU_SOURCE
#include "tools/child_tensors.h"

#include "core/base/diag.h"
#include "tools/child.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ALIGNMENT 64u

/* One tensor in the file: this head, then the data at the next multiple of ALIGNMENT. */
typedef struct head {
    uint64_t size_bytes;
    DLDataType dtype;
    int32_t rank;
    int64_t shape[STATOR_RANK_MAX];
} head;

static uint64_t round_up(uint64_t offset)
{
    return (offset + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

bool child_tensors_write(int fd, uint32_t n, stator_tensor *const *tensors)
{
    uint64_t offset = 0;
    for (uint32_t i = 0; i < n; i++) {
        const DLTensor *view = stator_tensor_view(tensors[i]);
        head h = {.size_bytes = stator_tensor_size_bytes(tensors[i]),
                  .dtype = view->dtype,
                  .rank = view->ndim};
        if (view->ndim > 0) {
            memcpy(h.shape, view->shape, (size_t)view->ndim * sizeof h.shape[0]);
        }
        const uint64_t data_at = round_up(offset + sizeof h);
        const uint64_t end = round_up(data_at + h.size_bytes);
        ST_NEED(child_write(fd, &h, sizeof h, offset) &&
                child_write(fd, stator_tensor_data(tensors[i]), h.size_bytes, data_at) &&
                ftruncate(fd, (off_t)end) == 0);
        offset = end;
    }
    return true;
}

/* Fills the views over the mapping; the child that wrote it is our own. */
static bool read_heads(child_tensors *t)
{
    uint64_t offset = 0;
    char *base = t->mapping;
    while (offset + sizeof(head) <= t->size) {
        head h;
        memcpy(&h, base + offset, sizeof h);
        DLTensor *tensors = realloc(t->tensors, (t->count + 1u) * sizeof *tensors);
        if (tensors != NULL) {
            t->tensors = tensors;
        }
        int64_t(*shapes)[STATOR_RANK_MAX] = realloc(t->shapes, (t->count + 1u) * sizeof *shapes);
        if (shapes != NULL) {
            t->shapes = shapes;
        }
        ST_NEED(tensors != NULL && shapes != NULL);
        const uint64_t data_at = round_up(offset + sizeof h);
        memcpy(shapes[t->count], h.shape, sizeof h.shape);
        tensors[t->count++] = (DLTensor){.data = base + data_at,
                                         .device = {.device_type = kDLCPU},
                                         .ndim = h.rank,
                                         .dtype = h.dtype};
        offset = round_up(data_at + h.size_bytes);
    }
    for (uint32_t i = 0; i < t->count; i++) {
        t->tensors[i].shape = t->shapes[i];
    }
    return true;
}

bool child_tensors_map(int fd, child_tensors *out)
{
    struct stat st;
    *out = (child_tensors){.count = 0};
    if (fstat(fd, &st) != 0) {
        return false;
    }
    out->size = (size_t)st.st_size;
    if (out->size == 0) {
        return true;
    }
    out->mapping = mmap(NULL, out->size, PROT_READ, MAP_SHARED, fd, 0);
    if (out->mapping == MAP_FAILED) {
        out->mapping = NULL;
        return false;
    }
    return read_heads(out);
}

void child_tensors_free(child_tensors *tensors)
{
    if (tensors->mapping != NULL) {
        (void)munmap(tensors->mapping, tensors->size);
    }
    free(tensors->tensors);
    free(tensors->shapes);
    *tensors = (child_tensors){.count = 0};
}
