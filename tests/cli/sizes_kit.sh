# shellcheck shell=bash
# What the tests of sizes share: to be sourced. A folder of their own, no cache, every backend that
# there is, and the status and the words of a command.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "BAD $1"; exit 1; }
export STATOR_CACHE=0
plugins=(--plugin-dir "$STATOR_BUILD/tests/plugins")
backends="eager loops"
"$STATOR" backends --probe | grep -q '^inductor-cpu  *AVAILABLE' && backends="$backends inductor-cpu"

# status, words, command...
expect() {
    local want=$1 words=$2 status=0
    shift 2
    "$@" >out 2>&1 || status=$?
    [ "$status" = "$want" ] || fail "status $status of $*: $(cat out)"
    grep -qF -- "$words" out || fail "no '$words' of $*: $(cat out)"
}
run() { "$STATOR" run "$@" "${plugins[@]}"; }
