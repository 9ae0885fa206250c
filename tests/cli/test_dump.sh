#!/usr/bin/env bash
# STATOR_DUMP: a folder a compile, whose graphs run again with the same answers, with the kernels, their
# code and the plan under plain names; from the cache too; and what happens where nothing can be written.
set -eu
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
cd "$work"
fail() { echo "BAD $1"; exit 1; }
export STATOR_CACHE=0
unset STATOR_DUMP

python3 - <<'END'
rows = ", ".join(str((i * 37) % 101) for i in range(96))
open("m.stir", "w").write("""stir 1
graph @m(%%x: f32[5, 8]) {
  %%w = constant {value = f32[8, 12] {%s}}
  %%t = tanh(%%x)
  %%y = matmul(%%t, %%w)
  %%z = softmax(%%y) {axis = -1}
  return z: %%z
}
""" % rows)
END
"$STATOR" run m.stir --backend eager --random 3 --save want.npz >/dev/null

dump() { # BACKEND MORE...
    STATOR_DUMP=$work/d "$STATOR" run m.stir --random 3 --backend "$@" >out 2>&1 || fail "run: $(cat out)"
}
dump aot_eager
folder=d/001-m-aot_eager
for f in 00-import 01-functionalize passes.log; do
    ls $folder/$f* >/dev/null 2>&1 || fail "no $f: $(ls $folder)"
done
grep -qE '^decompose: [0-9]+ nodes, [0-9.]+ ms$' $folder/passes.log || fail "passes.log"
n=0
"$STATOR" run $folder/part-0-aot_eager.stir --backend eager --random 3 >/dev/null || fail "the part does not run"
for f in $folder/[0-9]*.stir; do
    "$STATOR" run "$f" --backend eager --random 3 --expect want.npz --rtol 1e-5 --atol 1e-6 >out 2>&1 ||
        fail "$f does not run: $(cat out)"
    n=$((n + 1))
done
[ "$n" -ge 8 ] || fail "only $n graphs"
ls $folder | grep -vE '^([0-9]{2}-[a-z_]+\.stir|part-0-[a-z_]+(\.stir)?|constants\.blob|[a-z_]+\.log)$' &&
    fail "other names"

# Names that are no file names stay inside; a second compile has a folder of its own.
sed 's|@m(|@"../../escape/x"(|' m.stir >evil.stir
if "$STATOR" run evil.stir --backend eager --random 3 >/dev/null 2>&1; then
    STATOR_DUMP=$work/d "$STATOR" run evil.stir --backend aot_eager --random 3 >/dev/null
    [ ! -e escape ] && [ ! -e ../escape ] || fail "a name left the folder"
fi
dump aot_eager
ls d | grep -q '^00[23]-m-aot_eager$' || fail "a second compile: $(ls d)"

# Where there is no folder to be made the compile says so.
printf x >file
for bad in "$work/file" "$work/none/deeper"; do
    status=0
    STATOR_DUMP=$bad "$STATOR" run m.stir --random 3 --backend eager >out 2>&1 || status=$?
    [ "$status" = 3 ] && grep -q "STATOR_DUMP: cannot make a folder in '$bad'" out ||
        fail "status $status of $bad: $(cat out)"
done

"$STATOR" backends --probe | grep -q '^inductor-cpu  *AVAILABLE' || exit 0
rm -rf d
dump inductor-cpu
part=d/001-m-inductor-cpu/part-0-inductor-cpu
for f in plan.txt module-0.ll module-0.s; do
    [ -s $part/$f ] || fail "no $f: $(ls $part)"
done
grep -qE '^0: ' $part/plan.txt || fail "the plan: $(cat $part/plan.txt)"
grep -q 'not joined' d/001-m-inductor-cpu/fusion.log || fail "no fusion log"
n=0
for f in $part/*.loop; do
    kernel=$(basename "$f" .loop)
    head -c 400 "$f" | grep -q "$kernel" || fail "$f has another kernel: $(head -2 "$f")"
    grep -qF "kernel $kernel" $part/plan.txt || fail "$kernel is not in the plan"
    cat $part/module-*.ll | grep -q "define.*$kernel" || fail "no LLVM IR of $kernel"
    cat $part/module-*.s | grep -qE "^$kernel\.[0-9]+:" || fail "no assembly of $kernel"
    n=$((n + 1))
done
[ "$n" -ge 1 ] || fail "no kernel: $(ls $part)"
if command -v cc >/dev/null; then
    cc -c -o k.o $part/module-0.s || fail "the assembly is none"
fi

# What would come from the cache is compiled, so that there is something to write.
export STATOR_CACHE=1 STATOR_CACHE_DIR=$work/cache
"$STATOR" run m.stir --random 3 --backend inductor-cpu >/dev/null
STATOR_LOGS=cache "$STATOR" run m.stir --random 3 --backend inductor-cpu 2>&1 | grep -q 'hit ' || fail "no hit"
dump inductor-cpu
[ -s d/002-m-inductor-cpu/part-0-inductor-cpu/plan.txt ] || fail "a kept program is not dumped"
