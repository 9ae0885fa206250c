#!/usr/bin/env bash
# Where no backend is named, one of higher rank that cannot be used is passed over with a warning,
# whether a probe has been there before or not; when it can be used again it is, and what the probe
# left is gone.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "BAD $1"; exit 1; }
has() { grep -qE -- "$2" "$1" || fail "no '$2' in: $(cat "$1")"; }
digits=$STATOR_SOURCE/examples/digits/digits.onnx
unset STATOR_LOGS
export STATOR_CACHE=0 STATOR_CACHE_DIR=$work/kept/deep

"$STATOR" backends --probe | grep -qE '^inductor-cpu +AVAILABLE' || {
    echo "inductor-cpu is not available here: nothing else is of higher rank"
    exit 0
}
lib=$(dirname "$("$STATOR" backends --json | tr ',' '\n' | sed -n 's/.*"path":[^"]*"\(.*cpu_llvm.so\)"/\1/p')")
mkdir -p "$work/lib/plugins"
chmod 755 "$work" "$work/lib" "$work/lib/plugins"
install -m 644 "$lib/cpu_llvm.so" "$work/lib/plugins/"

run() { # BACKEND WARNINGS [option...]: status 0 on that backend, so many warnings
    "$STATOR" run "$digits" --plugin-dir "$work/lib/plugins" --json "${@:3}" >"$work/out" 2>"$work/err" ||
        fail "status $?: $(cat "$work/err")"
    has "$work/out" "\"backend\":.\"$1\""
    [ "$(grep -c '^stator: warning: ' "$work/err")" = "$2" ] || fail "not $2 warnings: $(cat "$work/err")"
}
passed_over() {
    run eager 1
    has "$work/err" "passed over for 'eager': backend 'inductor-cpu' cannot be used \(NO_DEVICE\): .*no code generator.*; install"
}

# Without its code generator, before a probe and after one.
passed_over
has "$STATOR_CACHE_DIR/probes" 'inductor-cpu.*NO_DEVICE' # nobody named it: a child tried it
passed_over
"$STATOR" backends --probe --all --plugin-dir "$work/lib/plugins" >"$work/out" || fail "probe"
has "$work/out" '^inductor-cpu +NO_DEVICE'
has "$STATOR_CACHE_DIR/probes" 'inductor-cpu'
passed_over
"$STATOR" run "$digits" --plugin-dir "$work/lib/plugins" --backend inductor-cpu >"$work/out" 2>&1 && fail "named, and replaced"
has "$STATOR_CACHE_DIR/probes" 'inductor-cpu'

# It is back: used at once, and the file no longer refuses it.
mkdir "$work/lib/jit"
chmod 755 "$work/lib/jit"
install -m 644 "$lib"/../jit/*.so "$work/lib/jit/"
run inductor-cpu 0
! grep -q 'NO_DEVICE' "$STATOR_CACHE_DIR/probes" || fail "still remembered"
"$STATOR" backends --plugin-dir "$work/lib/plugins" | grep -qE '^inductor-cpu +AVAILABLE' || fail "still listed"

# A crash in a probe is not tried again by itself.
"$STATOR" backends --probe --plugin-dir "$work/lib/plugins" >/dev/null
mv "$work/lib/jit" "$work/lib/away"
"$STATOR" backends --probe --plugin-dir "$work/lib/plugins" >/dev/null
mv "$work/lib/away" "$work/lib/jit"
sed -i 's/NO_DEVICE/CRASHED_IN_PROBE/' "$STATOR_CACHE_DIR/probes"
run eager 1
has "$work/err" "CRASHED_IN_PROBE.*; 'stator backends --probe' looks again"
"$STATOR" backends --probe --plugin-dir "$work/lib/plugins" >/dev/null
run inductor-cpu 0
echo ok
