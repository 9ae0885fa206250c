/* Growable contiguous array of any element type: st_vec(T) v; see st_vec_push. Elements move. */
#ifndef STATOR_BASE_VEC_H
#define STATOR_BASE_VEC_H

#include "core/base/alloc.h"

#ifdef __cplusplus
extern "C" {
#endif

#define st_vec(T)                                                                                  \
    struct {                                                                                       \
        T *data;                                                                                   \
        uint32_t count;                                                                            \
        uint32_t capacity;                                                                         \
    }
#define ST_VEC_INIT                                                                                \
    {                                                                                              \
        NULL, 0, 0                                                                                 \
    }

/* Makes room for one more and gives its address, NULL when out of memory. */
#define st_vec_push(mem, v)                                                                        \
    (st_vec_reserve_((mem), (void **)&(v)->data, &(v)->capacity, (v)->count + 1u,                  \
                     sizeof *(v)->data)                                                            \
         ? &(v)->data[(v)->count++]                                                                \
         : NULL)
/* Sets the count, new elements zeroed; 0 when out of memory. */
#define st_vec_resize(mem, v, n)                                                                   \
    st_vec_resize_((mem), (void **)&(v)->data, &(v)->count, &(v)->capacity, (n), sizeof *(v)->data)
#define st_vec_free(mem, v)                                                                        \
    (st_free((mem), (v)->data), (v)->data = NULL, (v)->count = 0, (v)->capacity = 0)

bool st_vec_reserve_(st_mem *mem, void **data, uint32_t *capacity, uint32_t need, uint64_t size);
bool st_vec_resize_(st_mem *mem, void **data, uint32_t *count, uint32_t *capacity, uint32_t n,
                    uint64_t size);

#ifdef __cplusplus
}
#endif
#endif
