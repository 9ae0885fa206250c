/* Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC
 * 2011): four random words of a counter and a key, so that any element can be computed alone. */
#ifndef STATOR_BASE_PHILOX_H
#define STATOR_BASE_PHILOX_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline void st_philox_round(uint32_t x[4], uint32_t k0, uint32_t k1)
{
    const uint64_t p0 = (uint64_t)x[0] * 0xD2511F53u;
    const uint64_t p1 = (uint64_t)x[2] * 0xCD9E8D57u;
    const uint32_t y0 = (uint32_t)(p1 >> 32) ^ x[1] ^ k0;
    const uint32_t y2 = (uint32_t)(p0 >> 32) ^ x[3] ^ k1;
    x[1] = (uint32_t)p1;
    x[3] = (uint32_t)p0;
    x[0] = y0;
    x[2] = y2;
}

/* The counter is (block, 0). */
static inline void st_philox(uint64_t block, uint64_t key, uint32_t out[4])
{
    uint32_t k0 = (uint32_t)key;
    uint32_t k1 = (uint32_t)(key >> 32);
    out[0] = (uint32_t)block;
    out[1] = (uint32_t)(block >> 32);
    out[2] = out[3] = 0;
    for (int round = 0; round < 10; round++) {
        st_philox_round(out, k0, k1);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

#ifdef __cplusplus
}
#endif
#endif
