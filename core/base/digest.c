/* Hashes of byte strings: a fast 64-bit one for tables, a 128-bit one that names contents (equal
 * on every machine, so it may be stored), and SHA-256 (FIPS 180-4) for the plugin allow-list.
 *
 * The fast ones mix 8 bytes at a time by a 64x64 -> 128 bit multiply whose halves are folded, the
 * step of wyhash (Wang Yi, public domain). They are not safe against an adversary. */
#include "core/base/map.h"

#include <string.h>

__extension__ typedef unsigned __int128 u128;

static uint64_t fold(uint64_t a, uint64_t b)
{
    const u128 p = (u128)a * b;
    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

/* Up to 8 bytes, little-endian. */
static uint64_t load(const uint8_t *p, uint64_t n)
{
    uint64_t v = 0;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(&v, p, n < 8 ? (size_t)n : 8u);
#else
    for (uint64_t i = 0; i < n && i < 8; i++) {
        v |= (uint64_t)p[i] << (8u * i);
    }
#endif
    return v;
}

#define P0 UINT64_C(0xa0761d6478bd642f)
#define P1 UINT64_C(0xe7037ed1a0b428db)
#define P2 UINT64_C(0x8ebc6af09c88c6e3)
#define P3 UINT64_C(0x589965cc75374cc3)

uint64_t st_hash64(const void *data, uint64_t size, uint64_t seed)
{
    const uint8_t *p = data;
    uint64_t h = seed ^ P0;
    uint64_t left = size;
    while (left > 16) {
        h = fold(load(p, 8) ^ P1, load(p + 8, 8) ^ h);
        p += 16;
        left -= 16;
    }
    const uint64_t a = left > 0 ? load(p, left) : 0;
    const uint64_t b = left > 8 ? load(p + 8, left - 8) : 0;
    return fold(P1 ^ size, fold(a ^ P2, b ^ h ^ P3));
}

static void store_le(uint8_t *p, uint64_t v)
{
    for (uint32_t i = 0; i < 8; i++) {
        p[i] = (uint8_t)(v >> (8u * i));
    }
}

void st_hash128(const void *data, uint64_t size, uint8_t out[16])
{
    const uint8_t *p = data;
    uint64_t x = P0 ^ size;
    uint64_t y = P3 + size;
    uint64_t left = size;
    while (left > 16) {
        const uint64_t a = load(p, 8);
        const uint64_t b = load(p + 8, 8);
        x = fold(a ^ P1, b ^ x);
        y = fold(b ^ P2, a ^ y) + (y >> 32 | y << 32);
        p += 16;
        left -= 16;
    }
    const uint64_t a = left > 0 ? load(p, left) : 0;
    const uint64_t b = left > 8 ? load(p + 8, left - 8) : 0;
    x = fold(a ^ P1, b ^ x);
    y = fold(b ^ P2, a ^ y) + (y >> 32 | y << 32);
    store_le(out, fold(x ^ P2, y ^ P0) ^ x);
    store_le(out + 8, fold(y ^ P1, x ^ P3) ^ y);
}

static const uint32_t sha_k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotr(uint32_t x, uint32_t n)
{
    return x >> n | x << (32u - n);
}

static void sha_block(uint32_t state[8], const uint8_t block[64])
{
    uint32_t w[64];
    for (uint32_t i = 0; i < 16; i++) {
        const uint8_t *p = block + 4u * i;
        w[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    }
    for (uint32_t i = 16; i < 64; i++) {
        const uint32_t s0 = rotr(w[i - 15], 7) ^ rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
        const uint32_t s1 = rotr(w[i - 2], 17) ^ rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    uint32_t v[8];
    memcpy(v, state, sizeof v);
    for (uint32_t i = 0; i < 64; i++) {
        const uint32_t s1 = rotr(v[4], 6) ^ rotr(v[4], 11) ^ rotr(v[4], 25);
        const uint32_t ch = (v[4] & v[5]) ^ (~v[4] & v[6]);
        const uint32_t t1 = v[7] + s1 + ch + sha_k[i] + w[i];
        const uint32_t s0 = rotr(v[0], 2) ^ rotr(v[0], 13) ^ rotr(v[0], 22);
        const uint32_t t2 = s0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof v[0]);
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (uint32_t i = 0; i < 8; i++) {
        state[i] += v[i];
    }
}

void st_sha256(const void *data, uint64_t size, uint8_t out[32])
{
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const uint8_t *p = data;
    uint64_t left = size;
    for (; left >= 64; left -= 64, p += 64) {
        sha_block(state, p);
    }
    uint8_t tail[128] = {0};
    if (left != 0) {
        memcpy(tail, p, (size_t)left);
    }
    tail[left] = 0x80;
    const uint32_t tail_size = left < 56 ? 64 : 128;
    for (uint32_t i = 0; i < 8; i++) {
        tail[tail_size - 1u - i] = (uint8_t)((size << 3) >> (8u * i));
    }
    for (uint32_t at = 0; at < tail_size; at += 64) {
        sha_block(state, tail + at);
    }
    for (uint32_t i = 0; i < 32; i++) {
        out[i] = (uint8_t)(state[i / 4] >> (24u - 8u * (i % 4)));
    }
}
