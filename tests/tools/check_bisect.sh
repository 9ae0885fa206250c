#!/usr/bin/env bash
# bisect on plugins with one planted mistake each: kind, pass, rule and node must be those of
# planted.expected, and the whole answer the same at 1 and 2 threads.
# usage: check_bisect.sh SOURCE BUILD [NAME]      status 0 when all hold
set -u
source=$1
build=$2
only=${3:-}
here=$source/tests/plugins/planted
planted=$build/tests/planted
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
count=0

complain() {
    echo "BAD $1"
    bad=1
}

# The value of one key of printed JSON; null is "-".
value_of() {
    sed -n "s/^[[:space:]]*\"$1\":[[:space:]]*//p" "$2" | head -n 1 |
        sed 's/,$//; s/^"//; s/"$//; s/^null$/-/; s/\\\//\//g'
}

model_path() {
    case $1 in
    digits) echo "$source/examples/digits/digits.onnx" ;;
    *) echo "$here/models/$1.stir" ;;
    esac
}

while read -r name backend model kind pass rule node; do
    case $name in "" | "#"*) continue ;; esac
    [ -n "$only" ] && [ "$only" != "$name" ] && continue
    [ "$backend" = same ] && backend=$name
    set -- bisect "$(model_path "$model")" --bad "$backend" --plugin-dir "$planted/$name" --json
    [ "$backend" = clean ] && set -- "$@" --plugin-dir "$planted/clean"
    [ "$name" = hangs ] && set -- "$@" --timeout 1
    for threads in 1 2; do
        "$STATOR" "$@" --threads $threads >"$work/$threads" 2>"$work/err"
        status=$?
        [ $status -eq 0 ] || complain "$name: status $status"
    done
    count=$((count + 1))
    cmp -s "$work/1" "$work/2" || complain "$name: answers differ at 1 and 2 threads"
    got="$(value_of kind "$work/1") $(value_of pass "$work/1") $(value_of rule "$work/1") $(value_of node "$work/1")"
    if [ "$got" != "$kind $pass $rule $node" ]; then
        complain "$name on $model: expected '$kind $pass $rule $node', got '$got'"
        cat "$work/1"
        echo "repeat: $STATOR $*"
    fi
    case $(value_of found "$work/1") in
    true) [ "$kind" != - ] || complain "$name: found something" ;;
    false) [ "$kind" = - ] || complain "$name: found nothing" ;;
    *) complain "$name: no answer" ;;
    esac
done <"$here/planted.expected"

# STATOR_FUEL at the named serial and one before it shows the same by hand.
if [ -z "$only" ]; then
    mixed=$here/models/mixed.stir
    "$STATOR" bisect "$mixed" --bad wrong_tanh --plugin-dir "$planted/wrong_tanh" --json >"$work/1"
    scope=$(value_of scope "$work/1")
    n=$(value_of n "$work/1")
    for fuel in "$n" $((n - 1)); do
        STATOR_FUEL=$scope:$fuel "$STATOR" compare "$mixed" --backends eager,wrong_tanh \
            --plugin-dir "$planted/wrong_tanh" >"$work/out"
        status=$?
        [ $status -eq $((fuel == n)) ] || complain "STATOR_FUEL=$scope:$fuel gives status $status"
    done
    "$STATOR" compare "$mixed" --backends eager,wrong_tanh --json \
        --plugin-dir "$planted/wrong_tanh" >"$work/1"
    [ "$(value_of node "$work/1")" = Tanh_1 ] || complain "compare names $(value_of node "$work/1")"

    # Failures of the command itself have status 3.
    "$STATOR" bisect "$mixed" --bad wrong_tan --plugin-dir "$planted/wrong_tanh" --json >"$work/1"
    [ $? -eq 3 ] && grep -q "did you mean 'wrong_tanh'" "$work/1" || complain "unknown backend"
    "$STATOR" bisect "$mixed" --bad eager --good crash_run --plugin-dir "$planted/crash_run" \
        --json >"$work/1" 2>/dev/null
    [ $? -eq 3 ] && grep -q '"CRASH"' "$work/1" || complain "a good backend that crashes"
    "$STATOR" bisect "$work/none.stir" --bad eager --json >"$work/1"
    [ $? -eq 3 ] || complain "no such model"
    "$STATOR" bisect "$mixed" 2>/dev/null
    [ $? -eq 2 ] || complain "no --bad"
fi
echo "$count planted places looked for"
[ $count -gt 0 ] || bad=1
exit $bad
