/* Growth of contiguous arrays. The pointer is read and written through memcpy because the caller's
 * member has another pointer type. */
#include "core/base/vec.h"

#include "core/base/check.h"
#include <string.h>

bool st_vec_reserve_(st_mem *mem, void **data, uint32_t *capacity, uint32_t need, uint64_t size)
{
    if (need <= *capacity && need != 0) {
        return true;
    }
    if (need == 0) { /* one past UINT32_MAX wrapped to 0 */
        return false;
    }
    uint32_t grown = *capacity < 8u ? 8u : *capacity;
    while (grown < need) {
        grown = grown > UINT32_MAX / 2u ? UINT32_MAX : grown * 2u;
    }
    uint64_t bytes = 0;
    void *old = NULL;
    memcpy(&old, data, sizeof old);
    void *p = st_mul_u64(grown, size, &bytes) ? st_realloc(mem, old, bytes, 16) : NULL;
    if (p == NULL) {
        return false;
    }
    memcpy(data, &p, sizeof p);
    *capacity = grown;
    return true;
}

bool st_vec_resize_(st_mem *mem, void **data, uint32_t *count, uint32_t *capacity, uint32_t n,
                    uint64_t size)
{
    if (n > *count) {
        if (!st_vec_reserve_(mem, data, capacity, n, size)) {
            return false;
        }
        void *p = NULL;
        memcpy(&p, data, sizeof p);
        memset((char *)p + (uint64_t)*count * size, 0, (size_t)((n - *count) * size));
    }
    *count = n;
    return true;
}
