/* The floating-point control of the calling thread: rounding mode, flushing of subnormals and
 * trapped exceptions, as one number. Sticky exception flags are no part of it.
 *
 *   x86-64    31 x87 control word 16 15 MXCSR 6 0 0      (Intel SDM, volume 1, 8.1.5 and 10.2.3)
 *   aarch64   31 FPCR                             0      (Arm ARM, C5.2.8)
 *
 * Elsewhere it is always 0: a change is not noticed. */
#ifndef STATOR_BASE_FP_CONTROL_H
#define STATOR_BASE_FP_CONTROL_H

#include <stdint.h>

#define ST_MXCSR_CONTROL UINT32_C(0xffc0) /* behind the six sticky flags */

static inline uint32_t st_fp_control(void)
{
#if defined(__x86_64__)
    uint16_t x87 = 0;
    __asm__ volatile("fnstcw %0" : "=m"(x87));
    return (__builtin_ia32_stmxcsr() & ST_MXCSR_CONTROL) | (uint32_t)x87 << 16;
#elif defined(__aarch64__)
    uint64_t fpcr = 0;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    return (uint32_t)fpcr;
#else
    return 0;
#endif
}

static inline void st_fp_control_set(uint32_t control)
{
#if defined(__x86_64__)
    const uint16_t x87 = (uint16_t)(control >> 16);
    __asm__ volatile("fldcw %0" : : "m"(x87));
    __builtin_ia32_ldmxcsr((__builtin_ia32_stmxcsr() & ~ST_MXCSR_CONTROL) |
                           (control & ST_MXCSR_CONTROL));
#elif defined(__aarch64__)
    const uint64_t fpcr = control;
    __asm__ volatile("msr fpcr, %0" : : "r"(fpcr));
#else
    (void)control;
#endif
}

#endif
