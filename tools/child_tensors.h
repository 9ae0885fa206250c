/* Tensors that a child hands to its parent, in a file without a name. */
#ifndef STATOR_CHILD_TENSORS_H
#define STATOR_CHILD_TENSORS_H

#include <stator/stator.h>

/* As the parent has them, and every child that it makes afterwards: mapped, not copied. */
typedef struct child_tensors {
    DLTensor *tensors;
    int64_t (*shapes)[STATOR_RANK_MAX];
    uint32_t count;
    void *mapping;
    size_t size;
} child_tensors;

/* In the child: one behind the other. 0: errno says why not. */
bool child_tensors_write(int fd, uint32_t n, stator_tensor *const *tensors);
/* In the parent. 0: errno says why not. Free it in both cases. */
bool child_tensors_map(int fd, child_tensors *out);
void child_tensors_free(child_tensors *tensors);

#endif
