#!/usr/bin/env bash
# A check in the region of a scan, a loop, a branch or a call that nobody reads is executed by every
# backend, as one outside of regions is: the first holds, the second fails.
. "$STATOR_SOURCE/tests/cli/sizes_kit.sh"

body() { # bound: a check that all of x is above it
    cat <<END
      %z = constant {value = f32[] {$1}}
      %l = gt(%x, %z)
      %k = check(%l) {message = "too small"}
      %g = constant {value = bool[] {true}}
      %t = add(%x, %x)
END
}
graph() { # file, nodes
    cat >"$1" <<END
stir 1
graph @main(%h: f32[2], %x: f32[3, 2]) {
$2
  %y = neg(%x)
  return y: %y
}
END
}
for bound in -100 100; do
    graph "outside$bound.stir" "$(body $bound)"
    graph "scan$bound.stir" "  %c, %s = scan(%h, %x) {carried = 1, scanned = 1, stacked = 1}
    region @step(%h: f32[2], %x: f32[2]) {
$(body $bound)
      %n = add(%h, %t)
      return %n, %t
    }"
    graph "while$bound.stir" "  %n = constant {value = i64[] {3}}
  %p = constant {value = bool[] {true}}
  %c = while(%n, %p, %x) {carried = 1}
    region @step(%i: i64[], %x: f32[3, 2]) {
$(body $bound)
      return %g, %t
    }"
    graph "cond$bound.stir" "  %a = reduce_sum(%x) {axes = [0, 1]}
  %b = constant {value = f32[] {-1000}}
  %p = gt(%a, %b)
  %c = cond(%p, %x)
    region @yes(%x: f32[3, 2]) {
$(body $bound)
      return %t
    }
    region @no(%x: f32[3, 2]) {
      return %x
    }"
    graph "call$bound.stir" "  %c = call(%x) {checkpoint = 1}
    region @part(%x: f32[3, 2]) {
$(body $bound)
      return %t
    }"
    graph "nested$bound.stir" "  %c = scan(%h, %x) {carried = 1, scanned = 1, stacked = 0}
    region @step(%h: f32[2], %x: f32[2]) {
      %d = call(%x) {checkpoint = 1}
        region @part(%x: f32[2]) {
$(body $bound)
          return %t
        }
      %e = add(%h, %x)
      return %e
    }"
done
for backend in aot_eager $backends; do
    for where in outside scan while cond call nested; do
        expect 0 'y: f32[3,2]' run "$where-100.stir" --random 0 --backend "$backend"
        expect 3 'check: too small' run "${where}100.stir" --random 0 --backend "$backend"
    done
done
# Two scans of which nobody reads anything become one that still checks.
graph two.stir "$(sed -n '3,/^    }/p' scan100.stir; sed -n '3,/^    }/p' scan-100.stir | sed 's/%c, %s/%c2, %s2/')"
# The gradient of a scan with a check: the check is one of the forward part.
for bound in -100 100; do
    sed '/%y = neg/d; s/return y: %y/%r = reduce_sum(%c) {axes = [0]}\n  return loss: %r/' "scan$bound.stir" >"used$bound.stir"
    "$STATOR" grad "used$bound.stir" --loss loss --wrt inputs -o "joint$bound.stir" >out 2>&1 || fail "no gradient: $(cat out)"
done
for backend in aot_eager $backends; do
    expect 3 'check: too small' run two.stir --random 0 --backend "$backend"
    expect 0 'grad_x: f32[3,2]' run joint-100.stir --random 0 --backend "$backend"
    expect 3 'check: too small' run joint100.stir --random 0 --backend "$backend"
done
echo "executed on: aot_eager $backends"
