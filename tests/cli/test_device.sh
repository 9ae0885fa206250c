#!/usr/bin/env bash
# A backend with memory of its own on the command line: --device, copies counted, explained with the
# node that forces each, and refused by --strict-copies; compiled programs come from the cache with
# their copies planned anew.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "BAD $1"; exit 1; }
cat >"$work/m.stir" <<'S'
stir 1
graph @main(%x: f32[2, 3]) {
  %a = exp(%x) @"Exp_0":Exp
  %b = sqrt(%a) @"Sqrt_1":Sqrt
  %c = add(%b, %a) @"Add_2":Add
  return c: %c
}
S
own=(--plugin-dir "$STATOR_BUILD/tests/device" --random 0)
stator() { # status, words on stdout or stderr, command, option...
    local want=$1 words=$2 command=$3 status=0
    shift 3
    "$STATOR" "$command" "$work/m.stir" "${own[@]}" "$@" >"$work/out" 2>&1 </dev/null || status=$?
    [ "$status" = "$want" ] || fail "status $status, not $want, of $*: $(cat "$work/out")"
    grep -qF -- "$words" "$work/out" || fail "no '$words' of $*: $(cat "$work/out")"
}
stator 0 'eager: 3 nodes' run --backend eager
want=$(grep '^c: ' "$work/out")
for device in sim:0 sim:1; do
    stator 0 'copies 4, 96 bytes, 2 waits a call' run --device "$device"
    [ "$(grep '^c: ' "$work/out")" = "$want" ] || fail "another result on $device"
done
stator 0 '"copies":' run --backend sim --json
stator 0 'copies 4, 96 bytes, 2 waits a call' run --backend sim --verify 1
stator 0 "Exp_0 from sim:1 to cpu for eager: sqrt 'Sqrt_1'" explain --device sim:1
stator 0 "Sqrt_1 from cpu to sim:1 for sim: add 'Add_2'" explain --device sim:1
stator 0 "an input from where it lies to sim:0 for sim: exp 'Exp_0'" explain --backend sim
stator 3 "the result of exp 'Exp_0' is copied from sim:0 to cpu for backend 'eager'" run \
    --backend sim --strict-copies
stator 0 'eager: 3 nodes' run --backend eager --strict-copies --device cpu
stator 3 'there are devices 0 and 1 alone' run --device sim:2
stator 3 "is none of the backend 'eager', which works on cpu" run --backend eager --device sim:0
stator 3 "has 'first' behind the colon; expected its number" run --device sim:first
stator 3 "has '-1' behind the colon" run --device sim:-1
stator 3 'there is no device sim:99999999999999999999: numbers of devices end at 65535' run --device sim:99999999999999999999
stator 3 'there is no device cpu:1: the host is cpu, and is one' run --device cpu:1
stator 3 "there is no device eager:7: backend 'eager' works on the host alone" run --device eager:7
stator 3 "there is no backend 'simm'" run --device simm:0
echo "device: copies counted, explained, refused"
