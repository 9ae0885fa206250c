#!/usr/bin/env bash
# memory_cap: packed weights of a program stay under it, cold and from the cache, with few rows (a form of
# our own) and with many; what does not fit is read where it lies, and the answers stay right.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "BAD $1"; exit 1; }
"$STATOR" backends --probe | grep -q '^inductor-cpu  *AVAILABLE' || exit 0
export STATOR_CACHE=1 STATOR_CACHE_DIR=$work/cache STATOR_LOGS=cache
for m in 1 4 8 64; do
    python3 - $m >m.stir <<'END'
import sys
m, k = int(sys.argv[1]), 256
w = ", ".join(str((i * 37) % 19 - 9) for i in range(k * k))
v = ", ".join(str((i * 23) % 17 - 8) for i in range(k * k))
print("""stir 1
graph @m(%%x: f32[%d, %d]) {
  %%w = constant {value = f32[%d, %d] {%s}}
  %%v = constant {value = f32[%d, %d] {%s}}
  %%a = matmul(%%x, %%w)
  %%t = tanh(%%a)
  %%b = matmul(%%t, %%v)
  return b: %%b
}""" % (m, k, k, k, w, k, k, v))
END
    "$STATOR" run m.stir --backend eager --random 1 --save want.npz >/dev/null 2>&1
    whole=
    for cap in 0 1 300K 600K; do
        for from in kept hit; do
            "$STATOR" run m.stir --backend inductor-cpu --backend-option memory_cap=$cap --random 1 \
                --expect want.npz --rtol 1e-4 --atol 1e-3 --json >out 2>log || fail "m $m cap $cap: $(cat log out)"
            grep -q "\[cache\] $from " log || fail "m $m cap $cap is not $from: $(cat log)"
            packed=$(python3 -c 'import json; print(json.load(open("out"))["memory"]["packed_bytes"])')
            case $cap in
            0) whole=${whole:-$packed} ; [ "$packed" = "$whole" ] || fail "m $m: $packed and $whole" ;;
            1) [ "$packed" = 0 ] || fail "m $m: $packed bytes under a cap of 1, $from" ;;
            300K) [ "$packed" -le 307200 ] || fail "m $m: $packed bytes under a cap of 300K, $from" ;;
            600K) [ "$packed" -le 614400 ] || fail "m $m: $packed bytes under a cap of 600K, $from" ;;
            esac
        done
    done
    # Where weights are packed at all, one of the two fits under 300K.
    [ "$whole" = 0 ] || [ "$whole" -ge 524288 ] || fail "m $m: $whole bytes without a cap"
done
