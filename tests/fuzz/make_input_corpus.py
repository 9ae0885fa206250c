#!/usr/bin/env python3
"""Writes the seeds of the fuzzers of input files (npy, npz, png, pb) into corpus/<subject>/, with the
standard library alone. usage: make_input_corpus.py [CORPUS_DIR]. Files that a fuzzer found stay."""
import io
import os
import struct
import sys
import zipfile
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))


# ---- npy (numpy.lib.format) ----

def npy(descr, shape, data, fortran=False, version=1, header=None):
    text = header or "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }" % (descr, fortran, shape)
    size = 2 if version == 1 else 4
    text += " " * (-(len(text) + 6 + 2 + size + 1) % 64) + "\n"
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text.encode() + data


def floats(n, code="f"):
    return struct.pack("<%d%s" % (n, code), *[i - 1.5 for i in range(n)])


NPY = {
    "f32": npy("<f4", "(2, 3)", floats(6)),
    "f64_fortran": npy("<f8", "(2, 3)", floats(6, "d"), fortran=True),
    "i64_scalar": npy("<i8", "()", struct.pack("<q", -7)),
    "bool": npy("|b1", "(3,)", b"\1\0\1"),
    "u16": npy("<u2", "(1, 2)", b"\x80\x3f\0\x40"),
    "c64": npy("<c8", "(2,)", floats(4)),
    "empty": npy("<f4", "(0, 3)", b""),
    "version2": npy("<f4", "(2,)", floats(2), version=2),
    "version3": npy("<f4", "(2,)", floats(2), version=3),
    "cut_data": npy("<f4", "(4, 4)", floats(3)),
    "cut_header": npy("<f4", "(2, 3)", b"")[:40],
    "huge": npy("<f8", "(4294967296, 4294967296)", b""),
    "huge_zero": npy("<f8", "(9223372036854775807, 9223372036854775807, 0)", b""),
    "big_endian": npy(">f4", "(2,)", floats(2)),
    "negative": npy("<f4", "(-2,)", floats(2)),
    "rank17": npy("<f4", "(" + "1, " * 17 + ")", floats(1)),
    "record": npy("", "", b"", header="{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }"),
    "no_keys": npy("", "", b"", header="{}"),
}


# ---- npz ----

def npz(members, method=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in members:
            info = zipfile.ZipInfo(name, (2024, 1, 1, 0, 0, 0))
            info.compress_type = method
            archive.writestr(info, data)
    return out.getvalue()


def patched(data, find, offset, new):
    at = data.rindex(find) + offset
    return data[:at] + new + data[at + len(new):]


def npz_files():
    two = [("x.npy", NPY["f32"]), ("folder/y.npy", NPY["i64_scalar"])]
    stored = npz(two)
    packed = npz(two, zipfile.ZIP_DEFLATED)
    yield "stored", stored
    yield "deflated", packed
    yield "no_members", npz([])
    yield "no_npy", npz([("x.txt", b"hello")])
    yield "twice", npz([("x.npy", NPY["f32"]), ("x", NPY["bool"])])
    yield "cut", stored[: len(stored) // 2]
    yield "cut_end", stored[:-10]
    yield "wrong_sum", stored.replace(floats(6), floats(5) + b"\1\2\3\4")
    # The central directory's uncompressed size (offset 24) and packed size (20) of the last member.
    yield "lying_size", patched(packed, b"PK\1\2", 24, struct.pack("<I", 0x7FFFFFFF))
    yield "lying_sizes", patched(packed, b"PK\1\2", 20, struct.pack("<II", 0x7FFFFFF0, 0x7FFFFFFF))
    yield "encrypted", patched(stored, b"PK\1\2", 8, struct.pack("<H", 1))


# ---- png ----

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, depth, colour, rows, interlace=0, more=b""):
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlace)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + more +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def row(*values):
    return bytes([0]) + bytes(values)


PALETTE = chunk(b"PLTE", bytes([255, 0, 0, 0, 255, 0]))
PNG = {
    "gray": png(2, 2, 8, 0, row(0, 128) + row(255, 7)),
    "gray1": png(9, 1, 1, 0, row(0xA5, 0x80)),
    "gray16": png(1, 1, 16, 0, row(1, 2)),
    "rgb": png(2, 1, 8, 2, row(1, 2, 3, 4, 5, 6)),
    "rgba": png(1, 2, 8, 6, row(1, 2, 3, 4) + row(5, 6, 7, 0)),
    "gray_alpha": png(1, 1, 8, 4, row(9, 100)),
    "palette": png(2, 1, 8, 3, row(0, 1), more=PALETTE),
    "palette_clear": png(2, 1, 8, 3, row(0, 1), more=PALETTE + chunk(b"tRNS", b"\0\x80")),
    "palette_outside": png(2, 1, 8, 3, row(0, 9), more=PALETTE),
    "filters": png(2, 5, 8, 0, b"".join(bytes([f, 3, 4]) for f in range(5))),
    "interlaced": png(2, 2, 8, 0, row(1) + row(2) + row(3, 4), interlace=1),
    "gamma": png(1, 1, 8, 2, row(1, 2, 3), more=chunk(b"gAMA", struct.pack(">I", 45455))),
    "short": png(4, 4, 8, 0, row(1, 2, 3, 4)),
    "huge": png(0x7FFFFFFF, 0x7FFFFFFF, 8, 2, row(1)),
    "large_claim": png(8000, 8000, 8, 2, row(1)),
    "no_size": png(0, 0, 8, 0, b""),
}
PNG["cut"] = PNG["rgb"][:-20]
PNG["wrong_sum"] = PNG["rgb"].replace(b"IDAT", b"IDAU")
PNG["magic_alone"] = PNG["rgb"][:8]


# ---- pb: TensorProto (onnx.proto) ----

def varint(value):
    value &= (1 << 64) - 1
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def data(field, value):
    return varint(field << 3 | 2) + varint(len(value)) + value


def packed(field, values):
    return data(field, b"".join(varint(v) for v in values))


def tensor(dims, dtype, rest=b""):
    return packed(1, dims) + number(2, dtype) + rest


PB = {
    "f32_raw": tensor([2, 3], 1, data(9, floats(6))),
    "f32_data": tensor([2], 1, data(4, floats(2))),
    "f64_data": tensor([2], 11, data(10, floats(2, "d"))),
    "f16_data": tensor([2], 10, packed(5, [0x3C00, 0xBC00])),
    "bf16_raw": tensor([2], 16, data(9, b"\x80\x3f\0\x40")),
    "i64_data": tensor([3], 7, packed(7, [1, -2, 3])),
    "i32_unpacked": number(1, 2) + number(2, 6) + number(5, 4) + number(5, 5),
    "u64_data": tensor([1], 13, packed(11, [1 << 63])),
    "u8_data": tensor([3], 2, packed(5, [1, 2, 255])),
    "bool_data": tensor([2], 9, packed(5, [1, 0])),
    "c64_data": tensor([1], 14, data(4, floats(2))),
    "i4_raw": tensor([3], 22, data(9, b"\x21\x0f")),
    "u4_data": tensor([3], 21, packed(5, [0x21, 3])),
    "f8_raw": tensor([2], 17, data(9, b"\x38\xb8")),
    "scalar": number(2, 1) + data(9, floats(1)) + data(8, b"name"),
    "empty_axis": tensor([0, 3], 1),
    "string": tensor([1], 8, data(6, b"text")),
    "short_raw": tensor([2, 3], 1, data(9, floats(5))),
    "no_data": tensor([1000000, 1000000], 1),
    "huge": tensor([1 << 62, 4], 1, data(9, floats(1))),
    "negative": tensor([-1], 1, data(9, floats(1))),
    "rank17": tensor([1] * 17, 1, data(9, floats(1))),
    "external": tensor([2], 1, data(13, data(1, b"location") + data(2, b"/etc/passwd")) + number(14, 1)),
    "wrong_type": tensor([1], 99, data(9, floats(1))),
    "cut": tensor([2, 3], 1, data(9, floats(6)))[:12],
    "no_message": b"\xff\xff\xff\xff",
}


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "corpus")
    for kind, files in (("npy", NPY), ("npz", dict(npz_files())), ("png", PNG), ("pb", PB)):
        os.makedirs(os.path.join(root, kind), exist_ok=True)
        for name, content in files.items():
            with open(os.path.join(root, kind, "%s.%s" % (name, kind)), "wb") as file:
                file.write(content)


main()
