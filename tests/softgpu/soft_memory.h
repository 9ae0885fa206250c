/* Memory of the software device.
 *
 * An allocation lies between two pages that nobody may touch, its end at the last of them as nearly
 * as 256 bytes of alignment allow; what is left before and behind it holds a pattern, which is
 * looked at when it is freed. Its address, as the API gives it, is ST_SOFT_OFFSET above where it
 * lies, which is no address of the host. Fresh memory is all ones: NaN in each float, -1 in
 * integers. Freed memory keeps its place and may not be touched.
 *
 * Pinned memory is mapped twice: at the host's pointer, and ST_SOFT_OFFSET below it, where kernels
 * look for it. */
#ifndef STATOR_TESTS_SOFT_MEMORY_H
#define STATOR_TESTS_SOFT_MEMORY_H

#include <stdbool.h>

#include "soft_device.h"

/* A range of what a pointer of the API lies in. */
typedef struct soft_range {
    soft_device *device;
    CUdeviceptr start;
    uint64_t bytes;
    bool is_pinned;
} soft_range;

/* Where `bytes` at a device or pinned address lie for the host; NULL when they are not all in one
 * live allocation. */
void *soft_host_of(CUdeviceptr address, uint64_t bytes);
/* The live allocation that an address lies in; false when there is none. */
bool soft_find_range(CUdeviceptr address, soft_range *out);
/* What lies at a host address where a kernel faulted, as the end of a sentence. */
void soft_describe_address(uint64_t address, char *out, size_t bytes);
/* Gives back what a device's context still holds, and says so when it is told to. How many were
 * leaked: of a lost context nothing can be freed. */
unsigned soft_free_all(soft_device *device);

#endif
