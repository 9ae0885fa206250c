"""Cases of digamma, by mpmath (50 digits)."""
import os

import mpmath
import numpy as np
from case_writer import FLOATS, Case

EDGES = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -7.25, 1e-3, -1e-3, 20.0, -20.0, 88.0,
                  9.75, 10.25, 1.46163, -104.25, 1e30, -1e30, 1e-30, -1e-30, np.inf, -np.inf, np.nan])


def digamma(x):
    if np.isnan(x) or x == -np.inf:
        return np.nan
    if x == 0:
        return -np.copysign(np.inf, x)
    if x == np.inf:
        return np.inf
    if x < 0 and x == np.floor(x):
        return np.nan
    return float(mpmath.digamma(mpmath.mpf(float(x))))


mpmath.mp.dps = 50
rng = np.random.default_rng(23)
case = Case("digamma", 1.2e-7, 1e-9)
for dtype in FLOATS:
    x = np.concatenate([EDGES, rng.standard_normal(20) * 3]).astype(dtype)
    want = np.array([digamma(v) for v in x.astype(np.float64)])
    case.check([x], want.astype(dtype))
case.check([np.zeros((0, 3), np.float32)], np.zeros((0, 3), np.float32))
case.write(os.path.dirname(os.path.abspath(__file__)))
