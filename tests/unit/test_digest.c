/* Hashes. SHA-256 vectors are those of FIPS 180-4 and NIST's examples; the 128-bit content hash is
 * pinned because it is stored. */
#include "core/base/map.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static void sha_is(const void *data, uint64_t size, const char *hex)
{
    uint8_t out[32];
    char text[65];
    st_sha256(data, size, out);
    for (uint32_t i = 0; i < 32; i++) {
        snprintf(text + 2 * i, 3, "%02x", out[i]);
    }
    cr_assert_str_eq(text, hex);
}

Test(digest, sha256_vectors)
{
    static char million[1000000];
    memset(million, 'a', sizeof million);
    sha_is("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    sha_is("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    sha_is("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
           "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    sha_is(million, sizeof million,
           "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    sha_is(million, 55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
    sha_is(million, 64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
}

Test(digest, content_hash_is_pinned)
{
    uint8_t data[40];
    uint8_t out[16];
    char text[33];
    for (uint32_t i = 0; i < 40; i++) {
        data[i] = (uint8_t)(i * 7);
    }
    static const char *const expected[] = {
        "ec0e35b81ed2b2f3daf6db6082def91a", "1df0cd9ddcb9bbc29602ed30178e58a0",
        "7be38136c08b0c5244919f8420c89d6a", "9f5ec5155d57edffa93bdfff2abbe06b",
        "115483c343cf9dbf059fabdb9dbe2d77", "1b850ba7454efd3881f127c8d418b393",
    };
    static const uint64_t sizes[] = {0, 1, 8, 16, 17, 40};
    for (uint32_t k = 0; k < 6; k++) {
        st_hash128(data, sizes[k], out);
        for (uint32_t i = 0; i < 16; i++) {
            snprintf(text + 2 * i, 3, "%02x", out[i]);
        }
        cr_assert_str_eq(text, expected[k], "%u bytes", (unsigned)sizes[k]);
    }
}

/* Every single-bit change of a short text changes about half of each hash. */
Test(digest, hashes_spread)
{
    uint8_t data[67] = {0};
    for (uint32_t size = 1; size < sizeof data; size++) {
        uint8_t a[16];
        uint64_t flipped = 0;
        st_hash128(data, size, a);
        const uint64_t h = st_hash64(data, size, 1);
        for (uint32_t bit = 0; bit < 8 * size; bit++) {
            uint8_t b[16];
            data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
            st_hash128(data, size, b);
            flipped += (uint64_t)__builtin_popcountll(h ^ st_hash64(data, size, 1));
            data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
            uint32_t changed = 0;
            for (uint32_t i = 0; i < 16; i++) {
                changed += (uint32_t)__builtin_popcount((unsigned)(a[i] ^ b[i]));
            }
            cr_assert(changed >= 32 && changed <= 96, "size %u bit %u: %u of 128", size, bit,
                      changed);
        }
        const double mean = (double)flipped / (8.0 * size);
        cr_assert(mean > 26 && mean < 38, "size %u: %g of 64 bits", size, mean);
    }
    cr_assert_neq(st_hash64("ab", 2, 0), st_hash64("ab", 2, 1)); /* seeds */
    cr_assert_neq(st_hash64("a\0", 2, 0), st_hash64("a", 1, 0)); /* trailing zeros */
}
