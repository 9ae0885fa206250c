#!/usr/bin/env bash
# stator run --profile: a table of steps whose times add up, JSON of the same rows and a trace with an
# event a step and call, on eager, aot_eager and a code generator, from the cache too.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "BAD $1"; exit 1; }
export STATOR_CACHE=0
cat >m.stir <<'END'
stir 1
graph @m(%x: f32[64, 128], %w: f32[128, 256]) {
  %t = tanh(%x)
  %y = matmul(%t, %w)
  %z = softmax(%y) {axis = -1}
  return z: %z
}
END
check() { # BACKEND CALLS WORDS...
    local backend=$1 calls=$2
    shift 2
    "$STATOR" run m.stir --backend "$backend" --random 1 --repeat "$calls" --profile trace.json >out 2>&1 ||
        fail "$backend: $(cat out)"
    grep -qE '^ +total ms +share +calls +step$' out || fail "no head: $(cat out)"
    grep -qE '^ +[0-9]+\.[0-9]{3}  in all$' out || fail "no sum: $(cat out)"
    for word in "$@"; do
        grep -qE "^ +[0-9]+\.[0-9]{3} +[0-9]+\.[0-9]% +$calls +.*$word" out || fail "$backend: no $word: $(cat out)"
    done
    "$STATOR" run m.stir --backend "$backend" --random 1 --repeat "$calls" --profile trace.json --json >out
    python3 - "$calls" "$@" <<'END' || fail "$backend: JSON: $(cat out)"
import json, sys
calls, words = int(sys.argv[1]), sys.argv[2:]
report, trace = json.load(open("out")), json.load(open("trace.json"))
rows, events = report["profile"], trace["traceEvents"]
assert rows and abs(sum(r["share"] for r in rows) - 1) < 1e-6, rows
assert [r["total_ms"] for r in rows] == sorted((r["total_ms"] for r in rows), reverse=True)
assert all(r["calls"] % calls == 0 for r in rows), rows
assert len(events) == sum(r["calls"] for r in rows)
args = [e["args"] for e in events if "args" in e] # all but what does nothing: constants, aliases
assert all({"nodes", "read_bytes", "written_bytes", "flops"} <= set(a) for a in args), args
named = {n for a in args for n in a["nodes"]}
assert named >= {"t", "y"}, named
flops = sum(a["flops"] for a in args) / calls
assert 2 * 64 * 128 * 256 <= flops <= 2.3 * 64 * 128 * 256, flops
assert all(e["ph"] == "X" and e["ts"] >= 0 and e["dur"] >= 0 and e["pid"] == 1 for e in events)
for r in rows:
    own = [e["dur"] for e in events if e["name"] == r["step"]]
    assert len(own) == r["calls"] and abs(sum(own) / 1e3 - r["total_ms"]) < 1e-3 * len(own), r
for w in words:
    assert any(w in r["step"] for r in rows), (w, rows)
END
}
check eager 3 tanh matmul softmax
check aot_eager 2 tanh
if "$STATOR" backends --probe | grep -q '^inductor-cpu  *AVAILABLE'; then
    check inductor-cpu 4 tanh
    export STATOR_CACHE=1 STATOR_CACHE_DIR=$work/cache
    "$STATOR" run m.stir --backend inductor-cpu --random 1 >/dev/null
    check inductor-cpu 2 tanh # compiled anew: what is kept does not know its nodes
    export STATOR_CACHE=0
fi

# Without the option nothing is said of steps; a file that cannot be written is status 3.
"$STATOR" run m.stir --backend eager --random 1 | grep -q 'in all' && fail "a table that nobody asked for"
status=0
"$STATOR" run m.stir --backend eager --random 1 --profile "$work/none/t.json" >out 2>&1 || status=$?
[ "$status" = 3 ] && grep -q "cannot write '$work/none/t.json'" out || fail "status $status: $(cat out)"

mkdir folder.json # said before anything runs
"$STATOR" run m.stir --backend eager --random 1 --profile folder.json >out 2>&1 && fail "a profile into a folder"
grep -q "cannot write 'folder.json': Is a directory" out && ! grep -q 'first call' out || fail "$(cat out)"

# No model is written over by a path in the wrong place.
cp m.stir same.stir
status=0
"$STATOR" run same.stir --backend eager --random 1 --profile same.stir >out 2>&1 || status=$?
[ "$status" = 3 ] && grep -q "'same.stir' does not end in .json" out && cmp -s m.stir same.stir ||
    fail "status $status: $(cat out)"
for path in full.json ''; do # a full disk, and no name at all
    ln -sf /dev/full full.json
    status=0
    "$STATOR" run m.stir --backend eager --random 1 --profile "$path" >out 2>&1 || status=$?
    [ "$status" = 3 ] || fail "status $status of '$path': $(cat out)"
done

# ---- names that are no UTF-8, more of them than fit a few ----

python3 - <<'END'
node = '  %%%d = tanh(%%%d) @"a\\xff\\xc3 %s %d":Tanh'
rows = "\n".join(node % (i + 1, i, "x" * (90 if i % 2 else 0), i) for i in range(1, 1500))
open("many.stir", "w").write("stir 1\ngraph @m(%%1: f32[2]) {\n%s\n  return y: %%1500\n}\n" % rows)
END
"$STATOR" run many.stir --backend eager --repeat 2 --profile t.json >out 2>&1 || fail "$(cat out)"
python3 - <<'END' || fail "the trace of many names"
import json
events = json.load(open("t.json", encoding="utf-8"))["traceEvents"]
assert len(events) == 2 * 1499, len(events)
assert all(e["name"].startswith("tanh a\ufffd\ufffd") and len(e["name"]) < 96 for e in events), events[:3]
END

# ---- names that hold control characters ----

python3 - "$STATOR_SOURCE/tests/tools" <<'END'
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import bad_models as b
evil = "y\x1b]0;title\x07\nPASS\x7f\u009b2J"
open("evil.onnx", "wb").write(b.model([b.node("Tanh", ["x"], [evil])], [b.value("x", [2])], [b.value(evil, [2])]))
open("bad.onnx", "wb").write(b.model([b.node("Tanh\x1b[2J", ["x"], ["y"])], [b.value("x", [2])], [b.value("y", [2])]))
END
for words in "run evil.onnx --backend eager --random 1 --profile t.json" "run bad.onnx --backend eager --random 1" \
    "compare evil.onnx --backends eager,aot_eager --random 1"; do
    "$STATOR" $words >out 2>&1 || true
    LC_ALL=C grep -qP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]' out && fail "control characters of $words: $(cat -v out)"
    grep -q '\\x1b' out || fail "no name in $words: $(cat out)"
    grep -q '^PASS' out && fail "a line of a name's own: $(cat out)"
done
exit 0
