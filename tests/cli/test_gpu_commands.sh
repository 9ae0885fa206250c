#!/usr/bin/env bash
# Each command that looks into a program, on a GPU backend over the software device as on any other:
# compare, bisect, explain, report, run --verify, and run --profile with times of the device. The
# backend is the argument: cuda_soft or hip_soft.
# shellcheck source=tests/cli/gpu_kit.sh
. "$STATOR_SOURCE/tests/cli/gpu_kit.sh"
cd "$work"
has() { grep -qE -- "$1" out || fail "no '$1' in: $(cat out)"; }

backend=$1
soft_backend "$backend"
export STATOR_CACHE=0

cat >m.stir <<'S'
stir 1
graph @m(%x: f32[64, 128], %w: f32[128, 32]) {
  %t = tanh(%x) @"Tanh_0":Tanh
  %y = matmul(%t, %w) @"MatMul_1":MatMul
  %z = softmax(%y) {axis = -1} @"Softmax_2":Softmax
  return z: %z
}
S
cat >loop.stir <<'S'
stir 1
graph @main(%s: f32[4, 8], %x: f32[5, 4, 8]) {
  %a, %b = scan(%s, %x) {carried = 1, scanned = 1, stacked = 1, axes = [0], reverse = [0],
      out_axes = [0], out_reverse = [0]}
    region @body(%s: f32[4, 8], %x: f32[4, 8]) {
      %1 = add(%s, %x)
      %2 = exp(%1)
      return %1, %2
    }
  %c = tanh(%b)
  return a: %a, c: %c
}
S
gpu() { "$STATOR" "$1" m.stir --backend "$backend" "${@:2}" >out 2>&1 </dev/null || fail "$*: $(cat out)"; }

"$STATOR" compare m.stir --backends "eager,$backend" --json >out 2>&1 || fail "compare: $(cat out)"
has '"ok":[[:space:]]*true'
"$STATOR" bisect m.stir --bad "$backend" >out 2>&1 || fail "bisect: $(cat out)"
has "$backend agrees with eager"

gpu explain
has "an input from where it lies to $backend:0"
has 'kernel +k0_tanh'
has '= .*Softmax_2|= .*z'
gpu report --output r.html
grep -q 'k0_tanh' r.html && grep -q "$backend" r.html || fail "the report lacks kernel or backend"

gpu run --random 1 --verify 2 --repeat 3
has "$backend: [0-9]+ nodes in 1 partition"

# A row for each kernel and call, and times that a clock beside the device's cannot exceed; products
# are calls of a library, or kernels.
profiled() { # library|kernels OPTION...
    gpu run --random 1 --repeat 3 --profile t.json --json "${@:2}"
    python3 - "$1" <<'P' || fail "profile ${*:2}: $(cat out)"
import json, sys
report, trace = json.load(open("out")), json.load(open("t.json"))
rows, events = report["profile"], trace["traceEvents"]
assert all(r["calls"] == 3 for r in rows), rows
assert any("tanh" in r["step"] for r in rows) and any("reduce_max" in r["step"] for r in rows), rows
assert any(r["step"].startswith("call gemm") for r in rows) == (sys.argv[1] == "library"), rows
assert {n for e in events for n in e["args"]["nodes"]} >= {"Tanh_0", "MatMul_1"}, events
assert all(e["dur"] > 0 for e in events), events
# Steps of one stream follow each other, and together take no longer than the calls.
ordered = sorted(events, key=lambda e: e["ts"])
assert all(a["ts"] + a["dur"] <= b["ts"] + 0.002 for a, b in zip(ordered, ordered[1:])), ordered
P
}
if [ "$backend" = cuda_soft ]; then
    profiled library --backend-option contractions=cublaslt
    profiled kernels --backend-option contractions=loops
else
    profiled kernels
fi
"$STATOR" run loop.stir --backend "$backend" --random 1 --profile t.json >out 2>&1 || fail "loop: $(cat out)"
has '^ +[0-9]+\.[0-9]{3} +[0-9.]+% +1 +.*scan'
has 'tanh'

# Only what ran is timed and counted: an input of the host is written by a copy, so that nothing is
# kept of it, and nothing put back.
cat >cache.stir <<'S'
stir 1
graph @main(%c: f32[4, 3], %u: f32[1, 3]) {
  %i = constant {value = i64[1, 3] {1, 1, 1}}
  %1 = scatter_elements(%c, %i, %u) {axis = 0, reduction = "none"}
  %2 = assign(%c, %1)
  return %u
}
S
"$STATOR" run cache.stir --backend "$backend" --random 1 --repeat 2 --profile t.json --json >out 2>&1 ||
    fail "cache: $(cat out)"
python3 - <<'P' || fail "profile of an update: $(cat out)"
import json
rows = {r["step"]: r["calls"] for r in json.load(open("out"))["profile"]}
assert rows == {"k0_scatter_elements_copy": 2, "k0_scatter_elements_update": 2}, rows
P
"$STATOR" explain cache.stir --backend "$backend" >out 2>&1 || fail "explain cache: $(cat out)"
has 'k0_scatter_elements_copy, not in place'
has 'k0_scatter_elements_restore, on failure'
has 'in 2 steps of a call that writes in place'

# A check that fails while it is profiled is told as ever.
failing_graph gather.stir
"$STATOR" run gather.stir --random 0 --backend "$backend" --profile t.json >out 2>&1 && fail "no error"
has 'gather: an index is outside its axis'
echo ok
