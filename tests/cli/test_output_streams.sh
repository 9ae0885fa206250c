#!/usr/bin/env bash
# Where output goes: a full or closed stdout is a failure and never a silent half, no file is opened
# in the place of a closed stream, a reader that leaves early is no fault, JSON is UTF-8 whatever
# the names are; any HOME, locale, folder and file name will do.
set -eu
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
digits=$STATOR_SOURCE/examples/digits/digits.onnx
fail() { echo "BAD $1"; exit 1; }

for command in "print $digits" "run $digits" "backends --json" "ops" "passes" "doctor" "--help" "--version"; do
    status=0
    "$STATOR" $command >/dev/full 2>"$work/err" || status=$?
    [ "$status" = 3 ] || fail "status $status of $command on a full device"
    grep -q 'cannot write to stdout' "$work/err" || fail "no reason from $command: $(cat "$work/err")"
    status=0
    "$STATOR" $command >&- 2>"$work/err" || status=$?
    [ "$status" = 3 ] || fail "status $status of $command with stdout closed"
    grep -q 'cannot write to stdout: it is closed' "$work/err" || fail "$command: $(cat "$work/err")"
done

# A file that may not grow (as on a full disk): status 3, the reason with the file as it was named, the
# old file as it was, nothing beside it. What is written to a pipe is no file.
cat >"$work/wide.stir" <<'END'
stir 1
graph @m(%x: f32[300, 300]) {
  %y = relu(%x)
  return y: %y
}
END
mkdir "$work/full"
# shellcheck disable=SC2043
for command in "run $work/wide.stir --backend eager --save $work/full/o.npz" \
    "print $digits -o $work/full/o.stir" "draw $digits --after import -o $work/full/o.dot" \
    "build $digits -o $work/full/o.so" \
    "run $digits --backend eager --repeat 900 --profile $work/full/o.json"; do
    file=${command##* }
    case $command in
    build*) "$STATOR" backends | grep -qE '^inductor-cpu +AVAILABLE' || continue ;;
    esac
    echo old >"$file"
    status=0
    (ulimit -f 2 && exec "$STATOR" $command) >"$work/out" 2>"$work/err" || status=$?
    [ "$status" = 3 ] || fail "status $status of $command: $(cat "$work/out" "$work/err")"
    grep -q "cannot write '${file%.*}.*': .*File too large" "$work/err" || fail "$command: $(cat "$work/err")"
    [ "$(cat "$file")" = old ] || fail "$command destroyed the old file"
    rm "$file"
    [ -z "$(ls -A "$work/full")" ] || fail "$command left $(ls -A "$work/full")"
done
mkfifo "$work/pipe.dot"
cat "$work/pipe.dot" >"$work/drawn" &
"$STATOR" draw "$digits" -o "$work/pipe.dot" || fail "status $? of drawing into a pipe"
wait $!
[ -p "$work/pipe.dot" ] && grep -q '^digraph' "$work/drawn" || fail "a pipe was not written to"
"$STATOR" run "$digits" --backend eager --save "$work/a.npz" >/dev/null
"$STATOR" run "$digits" --backend eager --save "$work/b.npz" >&- 2>&- || true
"$STATOR" run "$digits" --backend eager --expect "$work/b.npz" >/dev/null ||
    fail "what was saved with stdout and stderr closed is no archive"
"$STATOR" print "$digits" -o "$work/c.stirb" >&- 2>&- <&- || fail "status $? with no stream open"
"$STATOR" run "$work/c.stirb" >/dev/null || fail "what was printed with no stream open does not load"
(set +e; "$STATOR" ops; echo "$?" >"$work/status") | head -n 1 >/dev/null
case $(cat "$work/status") in
0 | 141) ;; # all of it fitted into the pipe, or SIGPIPE
*) fail "status $(cat "$work/status") into head" ;;
esac

# Names that are no UTF-8, or hold blanks, quotes and signs of the shell.
odd=$work/$(printf 'a b "c" \xff $(d);.onnx')
cp "$digits" "$odd"
"$STATOR" run "$odd" --backend eager >/dev/null || fail "status $? for an odd name"
"$STATOR" run "$odd.gone" --json >"$work/json" || true
grep -q '"NOT_FOUND"' "$work/json" || fail "no error object: $(cat "$work/json")"
iconv -f UTF-8 -t UTF-8 "$work/json" >/dev/null || fail "the JSON is no UTF-8"
"$STATOR" print "$odd" -o "$work/-.stir"
(cd "$work" && "$STATOR" run ./-.stir >/dev/null && "$STATOR" run -- -.stir >/dev/null) ||
    fail "a name that begins with a dash"

# Surroundings: none at all, no HOME, another locale, a folder that cannot be written.
# What a sanitizer is told stays.
env -i ${ASAN_OPTIONS:+"ASAN_OPTIONS=$ASAN_OPTIONS"} "$STATOR" run "$digits" >/dev/null ||
    fail "status $? without environment"
HOME=/nonexistent "$STATOR" backends >/dev/null || fail "status $? without HOME"
for locale in tr_TR.UTF-8 de_DE.UTF-8 C; do
    LC_ALL=$locale LANG=$locale "$STATOR" run "$digits" --backend eager --expect "$work/a.npz" \
        --rtol 0.5 --json >"$work/json" 2>/dev/null || fail "status $? with LANG=$locale"
    grep -q '"ok":	true' "$work/json" || fail "LANG=$locale: $(cat "$work/json")"
done
mkdir "$work/fixed"
chmod 555 "$work/fixed"
(cd "$work/fixed" && "$STATOR" run "$digits" >/dev/null && "$STATOR" print "$digits" >/dev/null) ||
    fail "status $? in a folder that cannot be written"
echo ok
