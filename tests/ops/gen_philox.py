"""Philox4x32-10 (Salmon et al., SC 2011), checked against a known answer of Random123."""
import numpy as np


def philox(counter, key):
    x = [counter & 0xFFFFFFFF, counter >> 32 & 0xFFFFFFFF, 0, 0]
    k = [key & 0xFFFFFFFF, key >> 32 & 0xFFFFFFFF]
    for _ in range(10):
        p0, p1 = x[0] * 0xD2511F53, x[2] * 0xCD9E8D57
        x = [(p1 >> 32) ^ x[1] ^ k[0], p1 & 0xFFFFFFFF, (p0 >> 32) ^ x[3] ^ k[1], p0 & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return x


# Known answer of Random123 (philox4x32 10, counter 0, key 0): 6627e8d5 e169c58d bc57ac4c 9b00dbd8
assert philox(0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def words(n, seed, offset):
    flat = [w for b in range((n + 3) // 4) for w in philox(b + offset & (2**64 - 1), seed & (2**64 - 1))]
    return np.array(flat[:n], np.uint32)
