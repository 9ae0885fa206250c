"""Writes the .npy files of tests; tests/cli/*.sh run it with this folder in PYTHONPATH."""
import struct
import zipfile


def write(path, kind, shape, data):
    """data: the elements' bytes, of NumPy's type `kind`, in C order."""
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data)


def archive(path, **arrays):
    """An .npz of arrays, each as (kind, shape, data)."""
    with zipfile.ZipFile(path, "w") as z:
        for name, (kind, shape, data) in arrays.items():
            write("a.npy", kind, shape, data)
            z.write("a.npy", name + ".npy")


def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)
