#!/usr/bin/env bash
# The compile cache: another process loads what one has compiled, with the same answers and without
# LLVM; a changed model, option or flag is a miss that says why; damaged entries, folders that cannot be
# used, full disks and writers that are killed cost a compile and nothing else.
set -eu
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
fail() { echo "BAD $1"; exit 1; }
has() { grep -qE -- "$2" "$1" || fail "no '$2' in: $(cat "$1")"; }
unset STATOR_CACHE STATOR_CACHE_SIZE XDG_CACHE_HOME
export STATOR_CACHE_DIR=$work/cache STATOR_LOGS=cache
digits=$STATOR_SOURCE/examples/digits/digits.onnx

"$STATOR" cache list --json | grep -q '"size_bytes":.0' || fail "a fresh folder is not empty"
"$STATOR" cache | grep -q "^0 entries, 0 bytes, in $work/cache/programs" || fail "the folder is not told"
[ ! -e "$work/cache" ] || fail "listing makes the folder"
"$STATOR" doctor | grep -qE "^ok +compile cache +$work/cache/programs" || fail "doctor"
"$STATOR" backends --probe | grep -qE '^inductor-cpu +AVAILABLE' || {
    echo "inductor-cpu is not available here: nothing is kept"
    exit 0
}

cat >"$work/points.stir" <<'END'
stir 1
graph @main(%x: f32[300, 7], %y: f32[7]) {
  %a = mul(%x, %y)
  %b = tanh(%a)
  %c = reduce_sum(%b) {axes = [1]}
  return b: %b, c: %c
}
END
cat >"$work/sizes.stir" <<'END'
stir 1
sym N in [1, 64]
graph @main(%x: f32[N, 16], %w: f32[16, 16]) {
  %a = matmul(%x, %w)
  %b = softmax(%a) {axis = -1}
  %c = concat(%b, %x) {axis = 0}
  return c: %c
}
END
cat >"$work/loop.stir" <<'END'
stir 1
graph @main(%n: i64[], %p: bool[], %x: f32[4], %h: f32[3], %s: f32[5, 3], %w: f32[]) {
  %r = while(%n, %p, %x) {carried = 1} : f32[4]
   region (%i: i64[], %y: f32[4]) { %t = constant {value = bool[] {true}} %z = sin(%y) %q = add(%z, %y) return %t, %q }
  %g, %k = scan(%h, %s, %w) {carried = 1, scanned = 1, stacked = 1} : f32[3], f32[5, 3]
   region (%a: f32[3], %b: f32[3], %c: f32[]) { %d = add(%a, %b) %e = mul(%d, %c) return %e, %d }
  %o = cond(%p, %g) : f32[3]
   region (%u: f32[3]) { %v = exp(%u) return %v }
   region (%u: f32[3]) { %v = neg(%u) return %v }
  return r: %r, g: %g, k: %k, o: %o
}
END

# A softmax in place, over a value that lies in the output behind another.
cat >"$work/in_output.stir" <<'END'
stir 1
graph @main(%x: f32[16, 16], %k: f32[16, 16], %wide: f32[16, 64]) {
  %a = matmul(%x, %k)
  %b = matmul(%a, %k)
  %p = softmax(%b) {axis = 1}
  %c = matmul(%p, %a)
  %v = matmul(%c, %wide)
  return out: %v
}
END

# Parts on eager before, behind and between those of inductor-cpu, one in a body of a loop; what nonzero
# gives is told by it alone.
cat >"$work/left.stir" <<'END'
stir 1
sym N in [1, 64]
graph @main(%x: f32[N, 16], %w: f32[16, 16], %s: f32[3, 4]) {
  %c = constant {value = f32[16] {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}}
  %m = matmul(%x, %w)
  %a = add(%m, %c)
  %z = nonzero(%a)
  %f = cast(%z) {dtype = f32}
  %t = tanh(%f)
  %q = reduce_sum(%t) {axes = [1]}
  %d = det(%w)
  %e = add(%q, %d)
  %g = scan(%s) {carried = 0, scanned = 1, stacked = 1} : f32[3, 2, 2]
   region (%u: f32[4]) { %v = reshape(%u) {shape = [2, 2]} %h = det(%v) %k = mul(%v, %h) return %k }
  return e: %e, m: %m, z: %z, g: %g
}
END

# Weights of f16 and of bytes, which are packed in another form; digits make small numbers of both.
# The bias is one number, of which the library makes a vector.
seq 1 9999 | head -c 20480 >"$work/narrow.bin"
cat >"$work/halves.stir" <<'END'
stir 1
graph @main(%x: f16[40, 160], %i: f16[2, 16, 9, 9], param %w: f16[160, 64] = file("narrow.bin", 0, 20480),
            param %k: f16[32, 16, 3, 3] = file("narrow.bin", 0, 9216)) {
  %a = matmul(%x, %w)
  %b = relu(%a)
  %h = constant {value = f16[32] {0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5}}
  %c = conv(%i, %k, %h) {strides = [1, 1], pads = [1, 1, 1, 1], dilations = [1, 1]}
  return b: %b, c: %c
}
END
cat >"$work/bytes.stir" <<'END'
stir 1
graph @main(%x: u8[40, 160], param %w: i8[160, 64] = file("narrow.bin", 0, 10240)) {
  %s = constant {value = f32[] {0.0078125}}
  %lo = constant {value = f32[] {0}}
  %hi = constant {value = f32[] {255}}
  %xi = cast(%x) {dtype = i32}
  %wi = cast(%w) {dtype = i32}
  %a = matmul(%xi, %wi)
  %f = cast(%a) {dtype = f32}
  %m = mul(%f, %s)
  %r = round(%m)
  %c = clamp(%r, %lo, %hi)
  %q = cast(%c) {dtype = u8}
  return q: %q
}
END
# Two products of one step read the same constant at different places.
cat >"$work/slices.stir" <<'END'
stir 1
sym N in [1, 64]
graph @main(%h: f32[N, 3], %x: f32[4, N, 3]) {
  %w = constant {value = f32[6, 3] {0.25, -1.5, -2.75, -2.75, 1, -2.75, -2, 3.75, 1.5, 3.25, -1.75, -1.75, 3.25, -2.25, -3, 1.5, -2.5, 3.5}}
  %y = scan(%h, %x, %w) {carried = 1, scanned = 1, stacked = 0}
    region @body(%a: f32[N, 3], %b: f32[N, 3], %c: f32[6, 3]) {
      %1 = slice(%c) {starts = [0, 0], sizes = [3, 3], steps = [1, 1]}
      %2 = slice(%c) {starts = [3, 0], sizes = [3, 3], steps = [1, 1]}
      %3 = einsum(%a, %1) {equation = "ij,mj->im"}
      %4 = add(%3, %b)
      %5 = tanh(%4)
      %6 = einsum(%5, %2) {equation = "ij,mj->im"}
      %7 = tanh(%6)
      return %7
    }
  return y: %y
}
END

# Bit for bit the same from the cache, and no libLLVM.
for model in "$work/points.stir" "$work/sizes.stir" "$work/loop.stir" "$work/in_output.stir" \
    "$work/left.stir" "$work/halves.stir" "$work/bytes.stir" "$work/slices.stir" "$digits"; do
    name=$(basename "$model")
    size=()
    case $name in sizes.stir | slices.stir | left.stir) size=(--dim N=5) ;; esac
    "$STATOR" run "$model" --random 3 "${size[@]}" --backend inductor-cpu --save "$work/$name.npz" \
        >"$work/out" 2>&1 || fail "$name: $(cat "$work/out")"
    has "$work/out" '^\[cache\] kept [0-9a-f]{32}'
    LD_DEBUG=files LD_DEBUG_OUTPUT=$work/$name.ld "$STATOR" run "$model" --random 3 "${size[@]}" \
        --backend inductor-cpu --expect "$work/$name.npz" --rtol 0 --atol 0 >"$work/out" 2>&1 ||
        fail "$name from the cache: $(cat "$work/out")"
    has "$work/out" '^\[cache\] hit [0-9a-f]{32}'
    ! grep -q libLLVM "$work/$name.ld"* || fail "$name: a hit opens libLLVM"
    "$STATOR" run "$model" --random 4 "${size[@]}" --backend inductor-cpu --save "$work/b.npz" 2>&1 |
        grep -q '\[cache\] hit' || fail "$name: other values are no hit"
    "$STATOR" run "$model" --random 4 "${size[@]}" --backend eager --expect "$work/b.npz" >/dev/null 2>&1 ||
        fail "$name: other values differ from eager"
done
"$STATOR" run "$work/sizes.stir" --random 3 --dim N=9 2>&1 | grep -q '\[cache\] hit' ||
    fail "a size of the same class is no hit"

# What is not the same is a miss, and the field is named.
miss() { # EXPECTED ARGUMENTS...
    local want=$1
    shift
    "$STATOR" cache why "$@" --random 3 >"$work/out" 2>/dev/null || fail "why: $(cat "$work/out")"
    has "$work/out" "^miss: .*$want"
}
"$STATOR" cache why "$work/points.stir" --random 3 2>/dev/null | grep -q '^hit: ' || fail "why of a hit"
miss 'options: .*tier=fast.*\(was .*tier=default' "$work/points.stir" --backend-option tier=fast
miss 'threads: 1 \(was' "$work/points.stir" --threads 1
miss 'executables cannot be kept' "$work/points.stir" --backend eager
miss 'flags: ' "$work/points.stir" --strict
sed 's/tanh/sinh/' "$work/points.stir" >"$work/points2.stir"
miss 'graph: ' "$work/points2.stir"
sed 's/%x/%z/g' "$work/points.stir" >"$work/points3.stir"
miss 'names: ' "$work/points3.stir"
sed 's/N in \[1, 64\]/N in [1, 32]/' "$work/sizes.stir" >"$work/sizes2.stir"
miss 'sizes: ' "$work/sizes2.stir" --dim N=5
STATOR_CACHE=0 miss 'switched off' "$work/points.stir"
STATOR_FUEL=3 miss 'fuel is limited' "$work/points.stir"

# With a fuel limit the cache is neither read nor written.
before=$("$STATOR" cache list --json)
STATOR_FUEL=3 "$STATOR" run "$work/points2.stir" --random 3 >"$work/out" 2>&1 || fail "with fuel"
! grep -qE '\] (kept|hit)' "$work/out" || fail "fuel and the cache: $(cat "$work/out")"
[ "$before" = "$("$STATOR" cache list --json)" ] || fail "fuel wrote to the cache"

# The listing.
"$STATOR" cache list --keys >"$work/out"
has "$work/out" '^[0-9a-f]{32} code +[0-9]+ '
has "$work/out" '^    machine: '
has "$work/out" '^[0-9]+ entries, [0-9]+ bytes, in '
status=0
"$STATOR" cache frobnicate >/dev/null 2>&1 || status=$?
[ "$status" = 2 ] || fail "status $status of an unknown action"

# Settings that cannot be used are told.
told() { # NAME=VALUE
    env "$1" XDG_CACHE_HOME="$work/other" "$STATOR" cache list >"$work/out" 2>"$work/err" || fail "status $? with $1"
    grep -q "^stator: warning: ${1%%=*}='${1#*=}' is not used: " "$work/err" || fail "$1: $(cat "$work/err")"
}
told STATOR_CACHE_DIR=relative/folder
for size in abc -5 1.5G 12Q 99999999999999999999 99999999999G; do
    told STATOR_CACHE_SIZE=$size
done
STATOR_CACHE_SIZE=1G "$STATOR" cache list 2>&1 >/dev/null | grep -q warning && fail "a warning of a right size"

# An option that an action has no use for is refused, not passed over.
for words in 'list --random 3' 'clear --backend eager' 'clear --keys' 'clear --dim N=3' \
    'list --strict' 'list --threads 1' 'clear --threads 1' "why $work/points.stir --keys"; do
    status=0
    "$STATOR" cache $words >"$work/out" 2>&1 || status=$?
    [ "$status" = 2 ] || fail "status $status of cache $words: $(cat "$work/out")"
done
"$STATOR" cache --help | grep -q -- '--backend' || fail "help of all actions"
"$STATOR" cache list --help | grep -q -- '--backend' && fail "help of list"

# Channels of compiling say why they are silent; output_code has the code made anew.
STATOR_LOGS=passes,dispatch,fusion,perf_hints,cache "$STATOR" run "$work/points.stir" --random 3 >"$work/out" 2>&1
for channel in passes dispatch fusion perf_hints; do
    has "$work/out" "^\\[$channel\\] the program came from the cache .*STATOR_CACHE=0"
done
[ "$(grep -c 'came from the cache' "$work/out")" = 4 ] || fail "lines of a hit: $(cat "$work/out")"
STATOR_LOGS=output_code "$STATOR" run "$work/points.stir" --random 3 2>&1 | grep -q '^\[output_code\]' ||
    fail "output_code of a kept program"
STATOR_CACHE=0 STATOR_LOGS=passes "$STATOR" run "$work/points.stir" --random 3 2>&1 |
    grep -q '^\[passes\] fold_lean: ' || fail "passes without the cache"

# How the libraries run is part of the key, as it is now.
"$STATOR" cache list --keys >"$work/out"
has "$work/out" '^    machine: .* generator [0-9.]+ llvm [0-9.]+ library '
if grep -q '^    machine: .*library .*onednn-' "$work/out"; then
    ONEDNN_MAX_CPU_ISA=SSE41 miss 'machine: .*onednn-.*\(was ' "$work/points.stir"
fi

# A damaged entry is compiled again and replaced; what was wrong is told.
damage() { # how file
    local size
    size=$(stat -c %s "$2")
    case $1 in
    cut) truncate -s $((size / 2)) "$2" ;;
    flip) printf 'XXXX' | dd of="$2" bs=1 seek=$((size / 2)) conv=notrunc status=none ;;
    garbage) head -c "$size" /dev/urandom >"$2" ;;
    esac
}
again() { # status 0 and the right answer
    "$STATOR" run "$digits" --random 3 --expect "$work/digits.onnx.npz" --rtol 1e-4 >"$work/out" 2>&1 ||
        fail "$how: $(cat "$work/out")"
}
for how in cut flip garbage; do
    for file in "$STATOR_CACHE_DIR"/programs/*.code "$STATOR_CACHE_DIR"/programs/*.data; do
        [ ! -e "$file" ] || damage "$how" "$file"
    done
    "$STATOR" cache list >"$work/said"
    [ "$how" = flip ] || has "$work/said" '^[0-9a-f]{32} code .*  damaged, removed when it is read$'
    again
    has "$work/out" '\[cache\] [0-9a-f]{32}\.code is damaged \(its size or its checksum is wrong\)'
    has "$work/out" '\[cache\] miss .*its entry was damaged'
    has "$work/out" '\[cache\] kept '
    "$STATOR" run "$digits" --random 3 2>&1 | grep -q '\[cache\] hit' || fail "$how: not replaced"
    for file in "$STATOR_CACHE_DIR"/programs/*.code; do
        damage "$how" "$file"
    done
    "$STATOR" cache why "$digits" --random 3 >"$work/said" 2>&1 || fail "why: $(cat "$work/said")"
    has "$work/said" '^miss: its entry was damaged'
    again
done

# The same for packed weights, which lie beside a program that is a hit all the same.
seq 1 99999 | head -c 262144 >"$work/wide.bin"
cat >"$work/wide.stir" <<'END'
stir 1
graph @main(%x: f32[64, 256], param %w: f32[256, 256] = file("wide.bin", 0, 262144)) {
  %a = matmul(%x, %w)
  return a: %a
}
END
"$STATOR" cache clear >/dev/null 2>&1
"$STATOR" run "$work/wide.stir" --random 3 --save "$work/wide.npz" >/dev/null 2>&1 || fail "wide"
for file in "$STATOR_CACHE_DIR"/programs/*.data; do
    [ ! -e "$file" ] || damage flip "$file"
done
"$STATOR" run "$work/wide.stir" --random 3 --expect "$work/wide.npz" >"$work/out" 2>&1 || fail "wide: $(cat "$work/out")"
if [ -e "$file" ]; then
    has "$work/out" '\[cache\] [0-9a-f]{32}\.data is damaged'
fi
"$STATOR" run "$work/wide.stir" --random 3 --expect "$work/wide.npz" 2>&1 | grep -q 'damaged' && fail "not mended"

# A program whose constants have gone is compiled again.
rm -f "$STATOR_CACHE_DIR"/programs/*.data
"$STATOR" run "$digits" --random 3 --expect "$work/digits.onnx.npz" --rtol 1e-4 >"$work/out" 2>&1 ||
    fail "without data: $(cat "$work/out")"

# Many processes on one empty folder.
"$STATOR" cache clear | grep -qE '^[0-9]+ entries removed' || fail "clear"
[ -z "$(ls "$STATOR_CACHE_DIR/programs")" ] || fail "clear leaves files"
for i in 1 2 3 4 5 6; do
    "$STATOR" run "$work/points.stir" --random 3 --expect "$work/points.stir.npz" --rtol 0 --atol 0 \
        >"$work/many.$i" 2>&1 || echo "$i" >>"$work/failed" &
done
wait
[ ! -e "$work/failed" ] || fail "many at once: $(cat "$work"/many.*)"
"$STATOR" run "$work/points.stir" --random 3 2>&1 | grep -q '\[cache\] hit' || fail "after many"

# Killed while it compiles and writes.
"$STATOR" cache clear >/dev/null
for delay in 0.01 0.03 0.05 0.07 0.09 0.12; do
    timeout -s KILL "$delay" "$STATOR" run "$digits" --random 3 >/dev/null 2>&1 || true
done
"$STATOR" run "$digits" --random 3 --expect "$work/digits.onnx.npz" --rtol 1e-4 >/dev/null 2>&1 ||
    fail "after killed writers"

# A disk that is full, a folder that cannot be written, one that others may write, none at all.
"$STATOR" cache clear >/dev/null
(
    ulimit -f 8
    export STATOR_CACHE_DIR=$work/full # the killed ones may have left something in the other
    "$STATOR" run "$digits" --random 3 >"$work/out" 2>&1 || fail "on a full disk: $(cat "$work/out")"
) || exit 1
has "$work/out" '\[cache\] not kept: '
! ls -A "$work/full/programs" | grep -q '^\.tmp' || fail "a full disk leaves files"
mkdir "$work/open" && mkdir -m 777 "$work/open/programs"
STATOR_CACHE_DIR=$work/open "$STATOR" run "$digits" --random 3 >"$work/out" 2>&1 || fail "others' folder"
status=0
STATOR_CACHE_DIR=$work/open "$STATOR" cache clear >"$work/said" 2>&1 || status=$?
[ "$status" = 3 ] || fail "status $status of clearing others' folder"
has "$work/said" 'nothing was removed: owner or mode'
env -u STATOR_CACHE_DIR HOME=. "$STATOR" cache list >"$work/said" 2>&1
has "$work/said" 'none of STATOR_CACHE_DIR, XDG_CACHE_HOME and HOME is an absolute path'
for word in 0 off no False; do
    STATOR_CACHE=$word "$STATOR" cache list 2>&1 | grep -q 'switched off' || fail "STATOR_CACHE=$word leaves it on"
done
for word in 1 on yes true; do
    STATOR_CACHE=$word "$STATOR" cache list >"$work/said" 2>&1
    ! grep -qE 'warning|switched off' "$work/said" || fail "STATOR_CACHE=$word: $(cat "$work/said")"
done
STATOR_CACHE=00 "$STATOR" cache list >"$work/said" 2>&1
has "$work/said" "warning: STATOR_CACHE='00' is not used"
has "$work/out" 'warning: compiled programs are not kept on disk: owner or mode'
STATOR_CACHE_DIR=/proc/none "$STATOR" run "$digits" --random 3 >"$work/out" 2>&1 || fail "no folder"
has "$work/out" 'warning: compiled programs are not kept on disk: '
env -u HOME -u STATOR_CACHE_DIR -u STATOR_LOGS "$STATOR" run "$digits" --random 3 >"$work/out" 2>&1 || fail "no environment"
! grep -q cache "$work/out" || fail "the cache is not silent: $(cat "$work/out")"
env -u STATOR_CACHE_DIR HOME="$work/home" "$STATOR" run "$digits" --random 3 >/dev/null 2>&1
ls "$work"/home/.cache/stator/programs/*.code >/dev/null || fail "not in the folder of HOME"

# The cap holds.
STATOR_CACHE_SIZE=40K STATOR_CACHE_DIR=$work/small "$STATOR" run "$digits" --random 3 >/dev/null 2>&1
STATOR_CACHE_SIZE=40K STATOR_CACHE_DIR=$work/small "$STATOR" run "$work/points.stir" --random 3 >/dev/null 2>&1
STATOR_CACHE_SIZE=1K STATOR_CACHE_DIR=$work/tiny "$STATOR" run "$work/points.stir" --random 3 >"$work/out" 2>&1
has "$work/out" '\[cache\] not kept: .* \(STATOR_CACHE_SIZE\)'
[ "$(du -sb "$work/small/programs" | cut -f1)" -le 49152 ] || fail "past the cap: $(ls -l "$work/small/programs")"
echo ok
