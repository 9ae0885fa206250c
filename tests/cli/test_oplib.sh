#!/usr/bin/env bash
# Kernels of op libraries: eager calls them, every other backend runs the decomposition; the kernel
# is given what the node has; where it cannot run, the decomposition does. compare and bisect name
# an op whose two answers differ.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "BAD $1"; exit 1; }
plugins=$STATOR_BUILD/tests/plugins

run() { # status, words, arguments...
    local want=$1 words=$2 status=0
    shift 2
    "$STATOR" "$@" --plugin-dir "$plugins" >"$work/out" 2>&1 || status=$?
    [ "$status" = "$want" ] || fail "status $status, not $want, of $*: $(cat "$work/out")"
    grep -qF -- "$words" "$work/out" || fail "no '$words' from $*: $(cat "$work/out")"
}

cat >"$work/two.stir" <<'END'
stir 1
graph @main() {
  %1 = constant {value = f32[3] {1, 2, 3}}
  %2 = neg(%1)
  %3 = two_answers(%2) @"planted":Two in "two.onnx"
  %4 = neg(%3)
  return y: %4
}
END
run 0 'y: f32[3] -0 1 2' run "$work/two.stir" --backend eager
run 0 'y: f32[3] -1 -0 1' run "$work/two.stir" --backend aot_eager
run 1 'node planted' compare "$work/two.stir" --backends eager,aot_eager
run 0 '"kind":	"decomposition"' bisect "$work/two.stir" --bad aot_eager --json
grep -q '"rule":	"two_answers"' "$work/out" || fail "bisect names no two_answers: $(cat "$work/out")"

# What the kernel is given: x f16, y absent or f32, 6 elements, "four", 6, 1.5, 12.
cat >"$work/told.stir" <<'END'
stir 1
sym n in [1, 100]
graph @main(%x: f16[n, 2], %y: f32[n]) {
  %1 = told(%x) {numbers = [0.5, 1.0], sizes = [n, 4]}
  %2 = told(%x, %y) {text = "abc", list = [], numbers = [], sizes = []}
  return a: %1, b: %2
}
END
for backend in eager aot_eager; do
    run 0 'a: f64[8] 16 0 6 4 6 1.5 12 1' run "$work/told.stir" --backend "$backend" --dim n=3
    run 0 'b: f64[8] 16 32 6 3 0 0 1 1' run "$work/told.stir" --backend "$backend" --dim n=3
done

# A size that only a kernel of eager's own tells: the library's kernel is not asked.
cat >"$work/own.stir" <<'END'
stir 1
graph @main() {
  %1 = constant {value = f32[4] {0, 5, 0, 6}}
  %2 = own_size(%1)
  return y: %2
}
END
run 0 'y: i64[1,2] 1 3' run "$work/own.stir" --backend eager

cat >"$work/never.stir" <<'END'
stir 1
graph @main(%x: f32[N]) {
  %1 = never(%x) @"the/node":Never in "never.onnx"
  return y: %1
}
END
sed -i 's/^graph/sym N in [0, 9]\ngraph/' "$work/never.stir"
run 3 "never 'the/node' (Never): plugin 'answers', slot kernel failed with status 11 (OUT_OF_RANGE) and gave no reason" run "$work/never.stir" --backend eager --dim N=2
run 0 'y: f32[0]' run "$work/never.stir" --backend eager --dim N=0 # nothing to compute
