"""Cases of dot_general, matmul and einsum. Expected: numpy.einsum over float64 or int64 copies, one path
(optimize=False). Run from anywhere."""
import os

import numpy as np
from case_writer import Case, FLOATS

OUT = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(20240614)
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def numbers(shape, dtype):
    if dtype in FLOATS:
        return rng.standard_normal(shape).astype(np.float32).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


def wide(x):
    return x.astype(np.float64 if x.dtype.kind not in "iu" else np.int64)


def narrow(y, dtype):
    return y.astype(dtype)  # integers wrap


case = Case("dot_general", rtol=1.2e-7, atol=1e-12)
for sx, sy, bx, by, cx, cy in [((3, 4), (4, 5), [], [], [1], [0]), ((4,), (4,), [], [], [0], [0]),
                               ((2, 3, 4), (4, 2, 5), [0], [1], [2], [0]), ((2, 3), (4,), [], [], [], []),
                               ((2, 3, 2, 4), (3, 4, 2, 2), [0, 2], [3, 2], [1, 3], [0, 1]),
                               ((3, 0), (0, 2), [], [], [-1], [-2]), ((2, 0, 3), (2, 3, 4), [0], [0], [2], [1]),
                               ((1, 130, 3), (1, 3, 260), [0], [0], [2], [1])]:
    for dtype in (FLOATS + [np.int8, np.int32, np.int64, np.uint8, np.uint64]) if len(sx) == 3 and sx[1] == 3 else [np.float32]:
        x, y = numbers(sx, dtype), numbers(sy, dtype)
        if x.size > 300:  # only integers and a few of them different: a small file
            x, y = np.sign(x), np.sign(y)
        nx, ny = len(sx), len(sy)
        lx = list(LETTERS[:nx])
        ly = list(LETTERS[nx:nx + ny])
        for a, b in zip(bx + cx, by + cy):
            ly[b] = lx[a]
        batch = [lx[a] for a in bx]
        rest = [c for a, c in enumerate(lx) if a not in [v % nx for v in bx + cx]]
        rest += [c for a, c in enumerate(ly) if a not in [v % ny for v in by + cy]]
        z = np.einsum(f"{''.join(lx)},{''.join(ly)}->{''.join(batch + rest)}", wide(x), wide(y))
        if z.size > 1000:
            keep = case.node("dot_general", [case.const(x), case.const(y)],
                             {"batch_x": bx, "batch_y": by, "contract_x": cx, "contract_y": cy})
            sums = case.node("reduce_sum", keep, {"axes": [0, 1]})
            case.expect(sums[0], narrow(z.sum((0, 1)), dtype))
            sums = case.node("reduce_sum", keep, {"axes": [0, 2]})
            case.expect(sums[0], narrow(z.sum((0, 2)), dtype))
            continue
        case.check([x, y], narrow(z, dtype), batch_x=bx, batch_y=by, contract_x=cx, contract_y=cy)
case.write(OUT)

case = Case("matmul", rtol=1.2e-7, atol=1e-12)
for sx, sy in [((3, 4), (4, 5)), ((4,), (4,)), ((4,), (2, 4, 3)), ((2, 3, 4), (4,)), ((2, 1, 3, 4), (5, 4, 2)),
               ((1, 2, 3), (4, 3, 1)), ((0, 3), (3, 2)), ((2, 0), (0, 3))]:
    for dtype in (FLOATS + [np.int32, np.uint64]) if sx == (3, 4) else [np.float32]:
        x, y = numbers(sx, dtype), numbers(sy, dtype)
        case.check([x, y], narrow(np.matmul(wide(x), wide(y)), dtype))
x = np.array([[np.inf, 1], [np.nan, 0]], np.float32)
case.check([x, np.eye(2, dtype=np.float32)], np.array([[np.inf, np.nan], [np.nan, np.nan]], np.float32))
case.write(OUT)

case = Case("einsum", rtol=1.2e-7, atol=1e-12)
for equation, *shapes in [
        ("ij,jk->ik", (2, 3), (3, 4)), ("ij->ji", (2, 3)), ("ii->i", (3, 3)), ("ii", (3, 3)), ("ij->", (2, 3)),
        ("...ii->...i", (2, 3, 3)), ("i,j", (2,), (3,)), ("bij,bjk->bik", (2, 2, 3), (2, 3, 2)),
        ("b...ij,jk->...kb", (2, 3, 2, 4), (4, 2)), ("bij,bjk,k->i", (2, 3, 4), (2, 4, 2), (2,)),
        ("ij,kl->", (2, 3), (4, 2)), ("i,i,i->", (5,), (5,), (5,)), ("iij,jkk->ik", (2, 2, 3), (3, 2, 2)),
        ("...,...", (2, 3), (3,)), ("...a,...a->...", (2, 1, 4), (3, 4)), ("Ab,bA", (2, 3), (3, 2)),
        ("Ba,aC", (2, 3), (3, 2)), (" i j , j k -> k i ", (2, 3), (3, 4)), ("ij,ij->ij", (2, 3), (1, 3)),
        ("ij,ik->i", (2, 3), (2, 4)), ("a,b,c,d->dbca", (2,), (3,), (2,), (2,)), ("ij,jk->ik", (2, 0), (0, 3)),
        ("ij->j", (0, 3)), ("->", ()), (",i->i", (), (3,)), ("abcd,cdef->abef", (2, 1, 2, 3), (2, 3, 1, 2))]:
    for dtype in (FLOATS + [np.int32, np.uint8]) if equation.startswith("bij") else [np.float32]:
        xs = [numbers(s, dtype) for s in shapes]
        y = np.einsum(equation, *[wide(x) for x in xs], optimize=False)
        case.check(xs, narrow(np.asarray(y), dtype), equation=equation)
case.write(OUT)
