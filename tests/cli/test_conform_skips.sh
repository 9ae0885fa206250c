#!/usr/bin/env bash
# Skip lists of conform: --skip FILE, the list beside the plugin, and the reference's, which holds for
# every backend that fails the case; then batches. (Without the generated cases there is nothing to run.)
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "BAD $1"; exit 1; }
cases=$STATOR_SOURCE/build/cases/node
[ -d "$cases/test_abs" ] || { echo "no cases in $cases"; exit 0; }
mkdir -p "$work/cases" "$work/plugins"
chmod 755 "$work" "$work/plugins"
cp -rL "$cases/test_abs" "$work/cases/abs"
cp -rL "$cases/test_abs" "$work/cases/wrong"
cp -L "$cases/test_neg/test_data_set_0/"*.pb "$work/cases/wrong/test_data_set_0/"
cp -L "$cases/test_abs/test_data_set_0/input_0.pb" "$work/cases/wrong/test_data_set_0/input_0.pb"
conform() { # status, line, option...
    local want=$1 line=$2 status=0
    shift 2
    "$STATOR" conform "$@" --cases "$work/cases" --plugin-dir "$work/plugins" >"$work/out" 2>"$work/err" || status=$?
    [ "$status" = "$want" ] || fail "status $status, not $want, of $*: $(cat "$work/out" "$work/err")"
    grep -q -- "$line" "$work/out" "$work/err" || fail "no '$line' of $*: $(cat "$work/out" "$work/err")"
}
conform 1 '^1 passed, 1 failed, 0 skipped$' eager
echo 'wrong its outputs are those of another case' >"$work/list"
conform 0 '^1 passed, 0 failed, 1 skipped$' eager --skip "$work/list"
grep -q '^SKIP wrong: its outputs are those of another case' "$work/out" || fail "$(cat "$work/out")"
echo 'abs nothing is wrong with it' >"$work/more"
conform 1 'is on the skip list but passes' eager --skip "$work/list" --skip "$work/more"
conform 3 "the skip list '$work/none' cannot be read" eager --skip "$work/none"

# A backend that writes nothing does not pass for right where the expected values are what fresh memory
# holds: conform fills results with a pattern first, and so does a flag of the executable.
python3 - "$work/cases" <<'E'
import os, sys
zeros = b"\x08\x02\x08\x03\x10\x01\x4a\x18" + bytes(24)  # dims 2, 3; f32; raw data
folder = sys.argv[1] + "/zeros/test_data_set_0"
os.makedirs(folder)
for name in ("input_0", "output_0"):
    open(folder + "/" + name + ".pb", "wb").write(zeros)
E
PYTHONPATH=$STATOR_SOURCE/tests/tools PYTHONDONTWRITEBYTECODE=1 python3 - "$work/cases/zeros/model.onnx" <<'E'
import sys
import bad_models as b
x, y = b.value("x", [2, 3]), b.value("y", [2, 3])
open(sys.argv[1], "wb").write(b.model([b.node("Tanh", ["x"], ["y"])], [x], [y]))
E
mv "$work/cases" "$work/others"
mkdir "$work/cases"
mv "$work/others/zeros" "$work/cases/"
for plugin in over_unwritten over_filled; do install -m 644 "$STATOR_BUILD/tests/mutants/$plugin.so" "$work/plugins/"; done
conform 0 '^1 passed, 0 failed, 0 skipped$' eager
conform 1 '^FAIL zeros: .*nan' over_unwritten
conform 1 '^FAIL zeros: .*nan' over_filled
"$STATOR" run "$work/cases/zeros/model.onnx" --backend over_filled --plugin-dir "$work/plugins" --random 0 --save "$work/filled.npz"
python3 - "$work/filled.npz" <<'E' || fail "the flag of the executable filled nothing"
import struct, sys, zipfile
file = zipfile.ZipFile(sys.argv[1])
values = struct.unpack("6f", file.read(file.namelist()[0])[-24:])
sys.exit(not all(v != v for v in values))
E
rm -r "$work/cases" "$work/plugins/"*
mv "$work/others" "$work/cases"

# The list beside a plugin; the reference's list for a plugin that has none.
install -m 644 "$STATOR_BUILD/tests/mutants/over_no_bytes.so" "$work/plugins/"
conform 1 '^1 passed, 1 failed, 0 skipped$' over_no_bytes
cp "$work/list" "$work/plugins/over_no_bytes.skip"
conform 0 '^1 passed, 0 failed, 1 skipped$' over_no_bytes
rm "$work/plugins/over_no_bytes.skip"
rm -r "$work/cases/wrong"
mkdir "$work/cases/node"
cp -rL "$cases/test_dft_inverse_opset19" "$work/cases/node/"
conform 0 '^1 passed, 0 failed, 1 skipped$' eager
conform 0 '^1 passed, 0 failed, 1 skipped$' over_no_bytes

# --batch: a child runs several cases and ends at the first that fails, crashes or hangs; the others go
# to a new child, with the lines that a child a case gives.
cat >"$work/stop.c" <<'E'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>
int open(const char *path, int flags, ...)
{
    int (*next)(const char *, int, mode_t) = (int (*)(const char *, int, mode_t))dlsym(RTLD_NEXT, "open");
    va_list more;
    va_start(more, flags);
    const mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    if (strstr(path, "/crashes/model.onnx")) {
        raise(SIGKILL);
    }
    while (strstr(path, "/hangs/model.onnx")) {
        pause();
    }
    return next(path, flags, mode);
}
E
"${CC:-cc}" -shared -fPIC -o "$work/stop.so" "$work/stop.c"
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0"
rm -r "$work/cases"
mkdir "$work/cases"
for name in a b crashes d hangs f wrong z; do cp -rL "$cases/test_abs" "$work/cases/$name"; done
cp -L "$cases/test_neg/test_data_set_0/output_0.pb" "$work/cases/wrong/test_data_set_0/"
for batch in 1 2 8; do
    LD_PRELOAD=$work/stop.so conform 1 '^5 passed, 3 failed, 0 skipped$' eager --jobs 1 --timeout 1 --batch $batch
    grep -E '^(PASS|FAIL)' "$work/out" | sort >"$work/lines.$batch"
    cmp "$work/lines.1" "$work/lines.$batch" || fail "--batch $batch: $(diff "$work/lines.1" "$work/lines.$batch")"
done
grep -q '^FAIL crashes: crashed: Killed' "$work/lines.8" || fail "$(cat "$work/lines.8")"
grep -q '^FAIL hangs: no answer after 1 s' "$work/lines.8" || fail "$(cat "$work/lines.8")"
echo ok
