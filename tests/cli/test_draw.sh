#!/usr/bin/env bash
# Pictures: the text form holds what the graph holds (kinds, types, folded parameters, regions as
# clusters), Graphviz draws it where it is built in, and what cannot be written is refused.
set -eu
digits=$STATOR_SOURCE/examples/digits/digits.onnx
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { echo "BAD $1"; exit 1; }
has() { grep -qF -- "$2" "$1" || fail "no '$2' in $1"; }
hasnt() { ! grep -qF -- "$2" "$1" || fail "'$2' in $1"; }

"$STATOR" draw "$digits" -o "$work/d.dot"
has "$work/d.dot" '<B>conv</B>'
has "$work/d.dot" '/0/0.0/Conv'
has "$work/d.dot" 'w: f32[24, 1, 3, 3]'
has "$work/d.dot" 'label=" f32[N, 24, 8, 8]"'
has "$work/d.dot" 'label="probabilities"'
hasnt "$work/d.dot" '0.13.weight'

"$STATOR" draw "$digits" -o "$work/d8.dot" --dim N=8
has "$work/d8.dot" 'label=" f32[8, 24, 8, 8]"'
"$STATOR" draw "$digits" -o "$work/after.dot" --after decompose --backend aot_eager
has "$work/after.dot" '<B>dot_general</B>'
hasnt "$work/after.dot" '<B>softmax</B>'

cat >"$work/r.stir" <<'END'
stir 1
graph @main(%p: bool[], %x: f32[4]) {
  %half = constant {value = f32[] {0.5}} : f32[]
  %r = cond(%p, %x) : f32[4] @"a <name> & \"more\"":If
    region @then(%a: f32[4]) {
      %b = neg(%a) : f32[4]
      return %b
    }
    region @else(%a: f32[4]) {
      return %a
    }
  %s = mul(%r, %half) : f32[4]
  return "odd <out>": %s
}
END
"$STATOR" draw "$work/r.stir" -o "$work/r.dot"
has "$work/r.dot" 'subgraph cluster_g1'
has "$work/r.dot" 'subgraph cluster_g2'
has "$work/r.dot" 'y: 0.5'
has "$work/r.dot" 'a &#60;name&#62; &#38; &#34;more&#34;'
hasnt "$work/r.dot" '<B>constant</B>'

status=0
"$STATOR" draw "$work/r.stir" -o "$work/r.svg" 2>"$work/err" || status=$?
if grep -q 'built without Graphviz' "$work/err"; then
    [ "$status" = 3 ] || fail "status $status without Graphviz"
else
    [ "$status" = 0 ] || fail "status $status: $(cat "$work/err")"
    has "$work/r.svg" '</svg>'
    has "$work/r.svg" '>cond<'
    [ ! -s "$work/err" ] || fail "Graphviz said: $(cat "$work/err")"
fi

expect() { # status, words, command...
    local want=$1 words=$2 status=0
    shift 2
    "$@" >"$work/out" 2>&1 || status=$?
    [ "$status" = "$want" ] || fail "status $status of $*: $(cat "$work/out")"
    has "$work/out" "$words"
}
# A link stays one, and leads to what is written.
ln -s linked.dot "$work/link.dot"
"$STATOR" draw "$digits" -o "$work/link.dot"
[ -L "$work/link.dot" ] && cmp "$work/linked.dot" "$work/d.dot" || fail "a link was written over"

expect 2 '-o FILE is missing' "$STATOR" draw "$digits"
expect 3 'ends in none of .svg' "$STATOR" draw "$digits" -o "$work/d.jpeg"
expect 3 'cannot write' "$STATOR" draw "$digits" -o "$work/none/d.dot"
expect 3 "no stage 'nothing'" "$STATOR" draw "$digits" -o "$work/d.dot" --after nothing
expect 3 "did you mean 'N'" "$STATOR" print "$digits" --dim n=8
expect 2 "--dim wants N=8, not 'N='" "$STATOR" print "$digits" --dim N=
expect 3 'no input has a symbolic size' "$STATOR" run "$digits" --dim M=8
expect 0 'f32[8, 10]' "$STATOR" print "$digits" --dim N=8
echo ok
