/* Classes of block sizes, for pools that give a block to whoever asks for nearly as much: eight to
 * each power of two, multiples of 256 bytes. A block is at most an eighth, or 255 bytes, larger
 * than what was asked for. */
#ifndef STATOR_BASE_SIZE_CLASS_H
#define STATOR_BASE_SIZE_CLASS_H

#include <stdint.h>

#define ST_SIZE_CLASS_MIN 256u /* bytes of class 0, and what every size is a multiple of */
#define ST_SIZE_CLASSES 448u   /* more than any class of 2^62 bytes or less */

/* The class of the smallest size that holds `bytes`, 2^62 or less; *out_bytes is that size. */
static inline uint32_t st_size_class(uint64_t bytes, uint64_t *out_bytes)
{
    if (bytes <= ST_SIZE_CLASS_MIN) {
        *out_bytes = ST_SIZE_CLASS_MIN;
        return 0;
    }
    const uint32_t power = 63u - (uint32_t)__builtin_clzll(bytes - 1u); /* 2^power < bytes */
    const uint64_t base = UINT64_C(1) << power;
    const uint64_t step = base / 8u < ST_SIZE_CLASS_MIN ? ST_SIZE_CLASS_MIN : base / 8u;
    const uint64_t steps = (bytes - base + step - 1u) / step; /* 1 to 8 */
    *out_bytes = base + steps * step;
    return *out_bytes == 2u * base ? (power - 7u) * 8u : (power - 8u) * 8u + (uint32_t)steps;
}

#endif
