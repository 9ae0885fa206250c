#!/usr/bin/env bash
# The digits net as .stir with its .blob and as .stirb: both give the results of the ONNX file, print
# the same text again, and run from another folder. A cut .stirb and a changed .blob are refused.
set -eu
digits=$STATOR_SOURCE/examples/digits
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { echo "BAD $1"; exit 1; }
check() {
    "$STATOR" run "$1" --backend eager --input image="$digits/test_images.npy" \
        --expect "$digits/test_probabilities.npz" | grep -q '^probabilities: f32\[540,10\] ok' ||
        fail "$1 gives other results"
}

"$STATOR" print "$digits/digits.onnx" --output "$work/a.stir"
"$STATOR" print "$digits/digits.onnx" --output "$work/a.stirb"
[ -s "$work/a.blob" ] || fail "no a.blob beside a.stir"
check "$work/a.stir"
check "$work/a.stirb"

mkdir "$work/moved"
mv "$work/a.stir" "$work/a.blob" "$work/a.stirb" "$work/moved"
check "$work/moved/a.stir"
check "$work/moved/a.stirb"

# On stdout large constants are hashes: the same from all three, and they parse.
"$STATOR" print "$digits/digits.onnx" >"$work/onnx.txt"
"$STATOR" print "$work/moved/a.stir" >"$work/stir.txt"
"$STATOR" print "$work/moved/a.stirb" >"$work/stirb.txt"
cmp "$work/onnx.txt" "$work/stir.txt" || fail "the text of a.stir differs"
cmp "$work/onnx.txt" "$work/stirb.txt" || fail "the text of a.stirb differs"
cp "$work/onnx.txt" "$work/hashed.stir"
"$STATOR" print "$work/hashed.stir" | cmp - "$work/onnx.txt" || fail "hashes do not parse"
status=0
"$STATOR" run "$work/hashed.stir" --backend eager >"$work/out.txt" 2>&1 || status=$?
[ "$status" = 3 ] || fail "a model known by hashes ran: $(cat "$work/out.txt")"

# Written over itself a model stays whole: its constants are mapped from what is replaced. A blob
# that nothing was written to is somebody else's.
for form in stir stirb; do
    "$STATOR" print "$work/moved/a.$form" -o "$work/moved/a.$form" || fail "a.$form over itself"
    check "$work/moved/a.$form"
done
cp "$STATOR_SOURCE/CHANGELOG.md" "$work/small.blob"
printf 'stir 1\ngraph @main(%%x: f32[4]) {\n  %%y = neg(%%x) : f32[4]\n  return %%y\n}\n' >"$work/in.stir"
"$STATOR" print "$work/in.stir" -o "$work/small.stir"
cmp -s "$STATOR_SOURCE/CHANGELOG.md" "$work/small.blob" || fail "a blob that was not ours is gone"
! ls "$work"/*.part "$work"/moved/*.part 2>/dev/null || fail "parts are left over"

head -c 3000 "$work/moved/a.stirb" >"$work/cut.stirb"
status=0
"$STATOR" run "$work/cut.stirb" >"$work/out.txt" 2>&1 || status=$?
[ "$status" = 3 ] || fail "status $status for a cut file"
grep -q 'bytes' "$work/out.txt" || fail "no reason for a cut file: $(cat "$work/out.txt")"

head -c 100 "$work/moved/a.blob" >"$work/b.blob"
mv "$work/b.blob" "$work/moved/a.blob"
status=0
"$STATOR" run "$work/moved/a.stir" >"$work/out.txt" 2>&1 || status=$?
[ "$status" = 3 ] || fail "status $status for a blob that is too short"
grep -q 'a.blob' "$work/out.txt" || fail "no file named: $(cat "$work/out.txt")"
echo "written forms: same text, same results"
