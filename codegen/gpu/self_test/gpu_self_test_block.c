/* What the threads of two blocks compute together, as statements for the device and as functions
 * of the host. Each function is what its row of gpu_self_test.def says. */
#include "codegen/gpu/self_test/gpu_self_test.h"

#include <stdbool.h>
#include <string.h>

enum { THREADS = GPU_SELF_TEST_THREADS };

/* ---- numbers of threads and blocks ---- */

static uint64_t expect_thread(const gpu_self_test_place *p)
{
    return p->thread;
}

static uint64_t expect_block(const gpu_self_test_place *p)
{
    return p->block;
}

static uint64_t expect_blocks(const gpu_self_test_place *p)
{
    (void)p;
    return GPU_SELF_TEST_BLOCK_COUNT;
}

static uint64_t expect_warp(const gpu_self_test_place *p)
{
    return p->warp;
}

static uint64_t expect_lane(const gpu_self_test_place *p)
{
    return p->thread % p->warp;
}

/* ---- meeting ---- */

static uint64_t expect_shared(const gpu_self_test_place *p)
{
    return 3u * ((p->thread + 41u) % THREADS) + 1u +
           ((uint64_t)((p->thread + 97u) % THREADS) << 40);
}

static uint64_t expect_room(const gpu_self_test_place *p)
{
    return 7u * ((p->thread + 11u) % THREADS);
}

static uint64_t expect_barriers(const gpu_self_test_place *p)
{
    uint64_t r[THREADS];
    uint64_t before[THREADS];
    for (uint32_t t = 0; t < THREADS; t++) {
        r[t] = t;
    }
    for (uint32_t k = 0; k < 8; k++) {
        for (uint32_t t = 0; t < THREADS; t++) {
            before[t] = r[t];
        }
        for (uint32_t t = 0; t < THREADS; t++) {
            r[t] += 3u * before[(t + 64u * k + 33u) % THREADS];
        }
    }
    return r[p->thread];
}

static uint64_t expect_neighbours(const gpu_self_test_place *p)
{
    return 5u * (p->thread ^ 3u);
}

static uint64_t expect_shuffles_u32(const gpu_self_test_place *p)
{
    uint64_t r = 0;
    for (uint32_t k = 1; k < p->warp; k *= 2u) {
        r = 31u * r + (p->thread ^ k) * 2654435761u;
    }
    return r;
}

static uint64_t expect_shuffles_u64(const gpu_self_test_place *p)
{
    uint64_t r = 0;
    for (uint32_t k = 1; k < p->warp; k *= 2u) {
        r = 31u * r + (p->thread ^ k) * UINT64_C(0x9e3779b97f4a7c15);
    }
    return r;
}

static uint64_t expect_ballot(const gpu_self_test_place *p)
{
    const uint32_t first = p->thread / p->warp * p->warp;
    uint64_t lanes = 0;
    for (uint32_t t = first; t < first + p->warp; t++) {
        lanes |= (uint64_t)(t * t % 7u < 3u) << (t - first);
    }
    return lanes;
}

static uint64_t expect_lanes_counted(const gpu_self_test_place *p)
{
    uint64_t n = 0;
    for (uint64_t lanes = expect_ballot(p); lanes != 0; lanes &= lanes - 1u) {
        n++;
    }
    return n;
}

/* ---- atomics ---- */

static uint64_t expect_sums_u32(const gpu_self_test_place *p)
{
    uint32_t sum = 0;
    for (uint32_t t = p->thread % 3u; t < THREADS; t += 3u) {
        sum += 0x10000000u + t;
    }
    return (sum + ((uint64_t)p->thread << 32)) ^ (p->thread + 9u);
}

static uint64_t expect_sums_u64(const gpu_self_test_place *p)
{
    uint64_t sum = 0;
    for (uint32_t t = p->thread % 3u; t < THREADS; t += 3u) {
        sum += ((uint64_t)t << 40) + t;
    }
    return (sum + 3u * (uint64_t)p->thread) ^ (p->thread + (UINT64_C(1) << 60));
}

/* Sums of floats that are exact, so that any order gives them. */
static uint64_t expect_sums_f32(const gpu_self_test_place *p)
{
    float sum = 0;
    uint32_t bits = 0;
    for (uint32_t t = p->thread % 3u; t < THREADS; t += 3u) {
        sum += (float)t + 0.5f;
    }
    memcpy(&bits, &sum, sizeof bits);
    return bits;
}

static uint64_t expect_sums_f64(const gpu_self_test_place *p)
{
    double sum = 0;
    uint64_t bits = 0;
    for (uint32_t t = p->thread % 3u; t < THREADS; t += 3u) {
        sum += (double)t * 65536.0 + 0.25;
    }
    memcpy(&bits, &sum, sizeof bits);
    return bits;
}

static uint64_t expect_maxima(const gpu_self_test_place *p)
{
    uint32_t greatest = 0;
    for (uint32_t t = p->thread % 3u; t < THREADS; t += 3u) {
        greatest = t * 2654435761u > greatest ? t * 2654435761u : greatest;
    }
    return greatest;
}

/* ---- words at once ---- */

static uint64_t expect_loads(const gpu_self_test_place *p)
{
    return p->in[p->thread];
}

static uint64_t expect_loads_of_2(const gpu_self_test_place *p)
{
    const uint32_t *in = p->in + 2u * p->thread;
    return in[0] + 3u * (uint64_t)in[1];
}

static uint64_t expect_loads_of_4(const gpu_self_test_place *p)
{
    const uint32_t *in = p->in + 4u * p->thread;
    return in[0] + 3u * (uint64_t)in[1] + 5u * (uint64_t)in[2] + 7u * (uint64_t)in[3];
}

static uint64_t expect_fields_of_2(const gpu_self_test_place *p)
{
    return 8u + (uint64_t)p->in[2u * p->thread + 1u];
}

static uint64_t expect_fields_of_4(const gpu_self_test_place *p)
{
    return 16u + (uint64_t)p->in[4u * p->thread + 2u];
}

static uint64_t expect_stores(const gpu_self_test_place *p)
{
    return 11u * (THREADS - 1u - p->thread);
}

static uint64_t expect_stores_of_2(const gpu_self_test_place *p)
{
    return p->thread / 2u + 1000u * (p->thread % 2u);
}

static uint64_t expect_stores_of_4(const gpu_self_test_place *p)
{
    return p->thread / 4u + 1000u * (p->thread % 4u);
}

static uint64_t expect_unrolled(const gpu_self_test_place *p)
{
    uint64_t r = 0;
    for (uint32_t k = 0; k < 4u; k++) {
        r = 5u * r + (p->thread + k) % THREADS;
    }
    return r;
}

static uint64_t expect_status(const gpu_self_test_place *p)
{
    return 5u * p->thread;
}

/* ---- matrices ---- */

static float left(uint32_t row, uint32_t step, uint32_t warp)
{
    return (float)((7u * row + 3u * step + warp) % 13u) - 6.0f;
}

static float right(uint32_t step, uint32_t column, uint32_t warp)
{
    return (float)((5u * step + 11u * column + 2u * warp) % 9u) - 4.0f;
}

/* Four words of a lane as one. */
static uint64_t of_words(const uint32_t *words)
{
    return words[0] + 3u * (uint64_t)words[1] + 5u * (uint64_t)words[2] + 7u * (uint64_t)words[3];
}

/* The lane's four sums of so many products. */
static uint64_t sums_of(const gpu_self_test_place *p, uint32_t depth)
{
    const uint32_t lane = p->thread % p->warp;
    const uint32_t warp = p->thread / p->warp;
    uint32_t bits[4];
    for (uint32_t e = 0; e < 4u; e++) {
        float sum = (float)(1000u + p->thread + 300u * e);
        for (uint32_t step = 0; step < depth; step++) {
            sum += left(lane / 4u + e / 2u * 8u, step, warp) *
                   right(step, lane % 4u * 2u + e % 2u, warp);
        }
        memcpy(&bits[e], &sum, sizeof sum);
    }
    return of_words(bits);
}

static uint64_t expect_sums_of_16(const gpu_self_test_place *p)
{
    return sums_of(p, 16);
}

static uint64_t expect_sums_of_8(const gpu_self_test_place *p)
{
    return sums_of(p, 8);
}

/* A finite number to 10 bits of fraction, ties away from 0: each other one is a tie. */
static uint64_t expect_rounded(const gpu_self_test_place *p)
{
    const uint32_t bits = (p->in[p->thread] & 0xbfffffffu) | 0x20000000u;
    const uint32_t down = bits & ~0x1fffu;
    const uint32_t rest = p->thread % 2u == 0 ? bits & 0x1fffu : 0x1000u;
    return rest >= 0x1000u ? down + 0x2000u : down;
}

/* Half `at` of the row whose address lane `row` of the warp gives. */
static uint32_t half_of(const gpu_self_test_place *p, uint32_t row, uint32_t at)
{
    const uint32_t first = 4u * ((row + 5u * (p->thread / p->warp)) % 64u);
    return (first + at / 2u) * 2654435761u >> at % 2u * 16u & 0xffffu;
}

static uint64_t matrices_of(const gpu_self_test_place *p, bool is_across)
{
    const uint32_t slow = p->thread % p->warp / 4u;
    const uint32_t fast = p->thread % 4u * 2u;
    uint32_t words[4];
    for (uint32_t m = 0; m < 4u; m++) {
        uint32_t half[2];
        for (uint32_t e = 0; e < 2u; e++) {
            half[e] = is_across ? half_of(p, 8u * m + fast + e, slow)
                                : half_of(p, 8u * m + slow, fast + e);
        }
        words[m] = half[0] | half[1] << 16;
    }
    return of_words(words);
}

static uint64_t expect_matrices(const gpu_self_test_place *p)
{
    return matrices_of(p, false);
}

static uint64_t expect_matrices_across(const gpu_self_test_place *p)
{
    return matrices_of(p, true);
}

/* ---- copies ---- */

static uint64_t expect_copies(const gpu_self_test_place *p)
{
    return p->in[THREADS - 1u - p->thread];
}

static uint64_t expect_copies_turned(const gpu_self_test_place *p)
{
    return p->in[4u * (63u - p->thread / 4u) + p->thread % 4u];
}

static uint64_t expect_copies_in_turn(const gpu_self_test_place *p)
{
    return p->in[p->thread % 128u] + 3u * (uint64_t)p->in[512u + p->thread % 128u];
}

/* ---- the rows ---- */

const gpu_self_test_block_row gpu_self_test_block_rows[] = {
#define ST_SELF_TEST_BLOCK(name, statements, expected)                                             \
    {#name, GPU_SELF_TEST_BLOCKS, statements, expect_##expected},
#define ST_SELF_TEST_MATRICES(name, statements, expected)                                          \
    {#name, GPU_SELF_TEST_MATRICES, statements, expect_##expected},
#include "codegen/gpu/self_test/gpu_self_test.def"
};

const uint32_t gpu_self_test_block_row_count =
    sizeof gpu_self_test_block_rows / sizeof gpu_self_test_block_rows[0];
