/* What codegen has to know of this machine. Caches that the system does not tell are taken as those
 * of a small desktop processor. */
#include "cpu_llvm.h"

#include "codegen/schedule/cpu/cpu_schedule.h"
#include "core/base/threads/threads.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define L1_DEFAULT ((uint64_t)32 << 10)
#define L2_DEFAULT ((uint64_t)512 << 10)
#define L3_DEFAULT ((uint64_t)8 << 20)
#define CACHES_MAX 8u

/* The first line of a file of the system's description of a cache; 0: there is none. */
static bool read_line(uint32_t index, const char *name, char *out, int size)
{
    char path[96];
    (void)snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%u/%s", index, name);
    FILE *file = fopen(path, "re");
    const bool is_read = file != NULL && fgets(out, size, file) != NULL;
    if (file != NULL) {
        (void)fclose(file);
    }
    return is_read;
}

/* Bytes of the cache that holds data at this level; 0: not known. sysconf counts the last level of
 * some processors once for each group of cores, so the kernel's description comes first. */
static uint64_t described_bytes(int level)
{
    char text[32];
    for (uint32_t i = 0; i < CACHES_MAX && read_line(i, "level", text, sizeof text); i++) {
        if (atoi(text) != level || !read_line(i, "type", text, sizeof text) || text[0] == 'I' ||
            !read_line(i, "size", text, sizeof text)) {
            continue;
        }
        char *unit = NULL;
        const unsigned long long n = strtoull(text, &unit, 10);
        return n << (*unit == 'K' ? 10 : *unit == 'M' ? 20 : 0);
    }
    return 0;
}

static uint64_t cache_bytes(int level, int name, uint64_t otherwise)
{
    const uint64_t described = described_bytes(level);
    const long bytes = described ? 0 : sysconf(name);
    return described ? described : bytes > 0 ? (uint64_t)bytes : otherwise;
}

static uint32_t widest_vector(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
        return 64;
    }
    return __builtin_cpu_supports("avx2") ? 32 : 16;
#else
    return 16;
#endif
}

/* Casts of narrow floats have instructions, with AVX-512 so has ldexp, and tables of 32 floats
 * where the code may use its widest registers; with AVX2 a register is a table of 8. */
static const uint8_t *spells_of(uint32_t widest, uint32_t vector_bytes)
{
    static const uint8_t least[ST_LOOP_CODE_COUNT] = {[ST_LOOP_cast] = ST_CAST_ALL};
    static const uint8_t usual[ST_LOOP_CODE_COUNT] = {
        [ST_LOOP_cast] = ST_CAST_ALL, [ST_LOOP_lookup] = ST_MATH_FEW};
    static const uint8_t more[ST_LOOP_CODE_COUNT] = {
        [ST_LOOP_cast] = ST_CAST_ALL, [ST_LOOP_ldexp] = 1};
    static const uint8_t most[ST_LOOP_CODE_COUNT] = {
        [ST_LOOP_cast] = ST_CAST_ALL, [ST_LOOP_ldexp] = 1, [ST_LOOP_lookup] = ST_MATH_ENTRIES};
    if (widest < 64) {
        return vector_bytes < 32 ? least : usual;
    }
    return vector_bytes < 64 ? more : most;
}

void cpu_target_set_vectors(uint32_t widest, uint32_t vector_bytes, st_target *out)
{
    /* Operands in memory have no alignment from AVX on. */
    out->flags = widest >= 32 ? ST_TARGET_GATHER | ST_TARGET_UNALIGNED : 0u;
    out->vector_bytes = vector_bytes && vector_bytes < widest ? vector_bytes : widest;
    out->spells = spells_of(widest, out->vector_bytes);
}

void cpu_target_of_host(const stator_host *host, uint32_t vector_bytes, st_target *out)
{
    *out = (st_target){.struct_size = sizeof *out,
                       .threads =
                           (uint32_t)(host ? host->thr->thread_count(host->ctx) : st_cpu_count()),
                       .l1_bytes = cache_bytes(1, _SC_LEVEL1_DCACHE_SIZE, L1_DEFAULT),
                       .l2_bytes = cache_bytes(2, _SC_LEVEL2_CACHE_SIZE, L2_DEFAULT),
                       .l3_bytes = cache_bytes(3, _SC_LEVEL3_CACHE_SIZE, L3_DEFAULT),
                       .schedule = st_cpu_schedule};
    cpu_target_set_vectors(widest_vector(), vector_bytes, out);
}
