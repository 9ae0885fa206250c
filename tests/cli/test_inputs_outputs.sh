#!/usr/bin/env bash
# What --save wrote, --expect and --inputs read back: dtypes that NumPy has not too (bf16 and f8 as
# bits, 4-bit numbers one to a byte), outputs without a name. Errors print as numbers, not as JSON.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "BAD $1"; exit 1; }
has() { grep -qF -- "$2" "$1" || fail "no '$2' in: $(cat "$1")"; }

cat >narrow.stir <<'END'
stir 1
graph @main(%x: f32[2, 3], %i: i64[5]) {
  %b = cast(%x) {dtype = bf16} : bf16[2, 3]
  %e = cast(%x) {dtype = f8e5m2} : f8e5m2[2, 3]
  %f = cast(%x) {dtype = f8e4m3fn} : f8e4m3fn[2, 3]
  %s = cast(%i) {dtype = i4} : i4[5]
  %u = cast(%i) {dtype = u4} : u4[5]
  %h = cast(%x) {dtype = f16} : f16[2, 3]
  return %b, e: %e, f: %f, %s, u: %u, h: %h
}
END
"$STATOR" run narrow.stir --backend eager --random 7 --save narrow.npz >saved
has saved 'eager: 6 nodes in 1 partition'
! grep -q 'partitions' saved || fail "one partition is many: $(cat saved)"
has saved 'output_0: bf16[2,3] '
has saved 'output_3: i4[5] '
"$STATOR" run narrow.stir --backend eager --random 7 --expect narrow.npz --rtol 0 --atol 0 >same ||
    fail "its own outputs differ: $(cat same)"
# Nothing of the day is in the file: time and date of the first member are 0 and 0x21, NumPy's 1980.
[ "$(od -An -tx2 -j10 -N4 narrow.npz | tr -d ' ')" = 00000021 ] || fail "a date: $(od -An -tx2 -j10 -N4 narrow.npz)"
[ "$(grep -c ' ok, max error 0 ' same)" = 6 ] || fail "not six outputs are the same: $(cat same)"
status=0
"$STATOR" run narrow.stir --backend eager --random 8 --expect narrow.npz >other || status=$?
[ "$status" = 1 ] || fail "status $status for other inputs"
has other 'output_0: bf16[2,3] WRONG in values, max error '

# Two outputs of one name are one value, or an error; names that an archive cannot hold are told.
expect3() { # words, command...
    local words=$1 status=0
    shift
    "$@" >said 2>&1 || status=$?
    [ "$status" = 3 ] || fail "status $status of $*: $(cat said)"
    has said "$words"
}
two() { # the second output
    printf 'stir 1\ngraph @m(%%x: f32[3]) {\n  %%a = relu(%%x)\n  %%b = neg(%%x)\n  return %s, %s\n}\n' "$1" "$2" >two.stir
}
two 'y: %a' 'y: %b'
expect3 "two outputs are named 'y'" "$STATOR" run two.stir --backend eager --save two.npz
two 'y: %a' 'y: %a'
"$STATOR" run two.stir --backend eager --save two.npz >said && "$STATOR" run two.stir --backend eager --expect two.npz >said ||
    fail "a value that is listed twice: $(cat said)"
two 'output_1: %a' '%b'
expect3 "two outputs would be 'output_1' in the archive" "$STATOR" run two.stir --backend eager --save two2.npz
two '"a\\x01b": %%a' '%%b'
sed -i 's/%%/%/g; s/\\\\x/\\x/' two.stir
expect3 "no archive holds an array of the name 'a\\x01b'" "$STATOR" run two.stir --backend eager --save two2.npz
[ ! -e two2.npz ] || fail "an archive in spite of a failure"

# The archive as inputs of a graph of those dtypes.
cat >back.stir <<'END'
stir 1
graph @main(%output_0: bf16[2, 3], %e: f8e5m2[2, 3], %f: f8e4m3fn[2, 3], %output_3: i4[5], %u: u4[5], %h: f16[2, 3]) {
  return output_0: %output_0, e: %e, f: %f, output_3: %output_3, u: %u, h: %h
}
END
"$STATOR" run back.stir --backend eager --inputs narrow.npz --expect narrow.npz --rtol 0 --atol 0 >back ||
    fail "read back it differs: $(cat back)"
[ "$(grep -c ' ok, max error 0 ' back)" = 6 ] || fail "not six came back: $(cat back)"

# NaN without quotes, for people; a string in JSON.
cat >log.stir <<'END'
stir 1
graph @main(%x: f32[4]) {
  %q = square(%x) : f32[4]
  %m = neg(%q) : f32[4]
  %y = sqrt(%m) : f32[4]
  return %y
}
END
cat >square.stir <<'END'
stir 1
graph @main(%x: f32[4]) {
  %y = square(%x) : f32[4]
  return %y
}
END
"$STATOR" run square.stir --backend eager --save square.npz >/dev/null
status=0
"$STATOR" run log.stir --backend eager --expect square.npz >nan || status=$?
[ "$status" = 1 ] || fail "status $status for NaN"
has nan 'output_0: f32[4] WRONG in values, max error nan '
"$STATOR" run log.stir --backend eager --expect square.npz --json >nan.json || true
has nan.json '"max_abs_err":	"nan"'
has nan.json '"name":	"output_0"'
# An infinity equals itself alone, under any tolerance; bf16's 2 ulp end before it. Whole numbers are
# compared as such.
pair() { # dtype got want: status of comparing the two constants
    printf 'stir 1\ngraph @main() {\n  %%y = constant {value = %s[1] {%s}} : %s[1]\n  return y: %%y\n}\n' \
        "$1" "$3" "$1" >want.stir
    sed "s/{$3}/{$2}/" want.stir >got.stir
    "$STATOR" run want.stir --backend eager --save pair.npz >/dev/null || fail "$1 $3 does not run"
    status=0
    "$STATOR" run got.stir --backend eager --expect pair.npz --rtol "${4:-0.5}" --atol "${5:-10}" >pair || status=$?
    echo "$status"
}
for row in '1 f32 1 inf' '1 f32 -inf inf' '1 f32 inf 1' '0 f32 inf inf' '0 f32 -inf -inf' '1 f32 nan 1' \
    '1 f32 1 nan' '0 f32 nan nan' '1 f64 nan inf' '1 bf16 3.3895314e+38 inf' '1 bf16 inf 3.3895314e+38' \
    '0 bf16 1 1.0078125' '0 f32 1 1.5' '1 i64 9007199254740993 9007199254740992 0 0' \
    '0 i64 9007199254740993 9007199254740992 0 1' '1 u64 18446744073709551615 1 0.5 10' \
    '0 u64 18446744073709551615 18446744073709551614 0 1' '0 i32 -3 -4'; do
    # shellcheck disable=SC2086
    set -- $row
    want=$1
    shift
    got=$(pair "$@") || fail "$*: $got"
    [ "$got" = "$want" ] || fail "status $got, not $want, of got and want $*: $(cat pair)"
done

# What the command line leaves open is relative to the magnitude of the tensor, as for compare: of
# results of about 1000 one may be off by 0.009, where a sum cancelled to nothing, not by 0.02.
chosen() { # status got
    printf 'stir 1\ngraph @main() {\n  %%y = constant {value = f32[4] {1000, -1000, 1000, %s}} : f32[4]\n  return y: %%y\n}\n' \
        "$2" >cancelled.stir
    status=0
    "$STATOR" run cancelled.stir --backend eager --expect chosen.npz >chosen.said || status=$?
    [ "$status" = "$1" ] || fail "status $status, not $1, of $2 for 0: $(cat chosen.said)"
}
printf 'stir 1\ngraph @main() {\n  %%y = constant {value = f32[4] {1000, -1000, 1000, 0}} : f32[4]\n  return y: %%y\n}\n' >zero.stir
"$STATOR" run zero.stir --backend eager --save chosen.npz >/dev/null
chosen 0 0.009
chosen 1 0.02
for command in run compare check bisect minify; do
    "$STATOR" "$command" --help >help.said
    has help.said 'typical magnitude'
done

# A folder of a test case is compared as conform does it: within what its case.json allows, unless
# the command line says other. The tensor is f32[2] {1, 2.01}.
printf 'stir 1\ngraph @main() {\n  %%y = constant {value = f32[2] {1, 2}}\n  return y: %%y\n}\n' >near.stir
mkdir -p near/test_data_set_0
printf '\010\002\020\001\112\010\000\000\200\077\327\243\000\100' >near/test_data_set_0/output_0.pb
near() { # status, option...
    status=0
    "$STATOR" run near.stir --backend eager --expect near/test_data_set_0 "${@:2}" >near.said || status=$?
    [ "$status" = "$1" ] || fail "status $status, not $1, of '${*:2}': $(cat near.said)"
}
near 1
near 0 --rtol 0.1
echo '{"rtol": 0.1}' >near/case.json
near 0
(cd near/test_data_set_0 && "$STATOR" run ../../near.stir --backend eager --expect . >/dev/null) || fail "from inside"
near 1 --rtol 0.001
echo '{"rtol": 0, "atol": 0.1}' >near/case.json
near 0
near 1 --atol 0.001

"$STATOR" compare square.stir --backends eager,aot_eager >compared
has compared 'output_0 '
echo ok
