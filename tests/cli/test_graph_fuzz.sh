#!/usr/bin/env bash
# What graph_fuzz says when it cannot judge: options that are no pairs are refused, and a difference that noise
# cannot be asked about is a failure.
set -eu
fuzz=$STATOR_BUILD/tests/graph_fuzz
planted=$STATOR_BUILD/tests/planted/wrong_tanh
[ -e "$fuzz" ] && [ -e "$planted/wrong_tanh.so" ] || { echo "no graph_fuzz or no planted backend"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export STATOR_PLUGIN_PATH="$planted:$STATOR_BUILD/lib/stator/plugins-1"
fail() { echo "BAD $1"; cat "$work/out"; exit 1; }

# ---- options ----

refused() { # KEYS VALUES
    local status=0
    GF_KEY=$1 GF_VALUE=$2 "$fuzz" wrong_tanh 1 1 >"$work/out" 2>&1 || status=$?
    [ "$status" = 2 ] || fail "GF_KEY=$1 GF_VALUE=$2 ends with $status"
    grep -q 'as many keys as values' "$work/out" || fail "GF_KEY=$1 says nothing"
}
refused a,b 1
refused a 1,2
refused a ''
refused a,b,c,d,e,f 1,2,3,4,5,6
refused "$(printf 'a%.0s' $(seq 300))" 1

# ---- differences ----

# A wrong tanh behind $1 constants of many elements: the text with noise is longer than the text.
program() {
    local elements
    elements=$(printf '1.2345678, %.0s' $(seq 169))1
    printf '// graph seed=1 specials=0 A=1 B=0\nstir 1\nsym A in [1, inf]\nsym B in [0, inf]\n'
    printf 'graph @main(%%v0: f32[170]) {\n'
    for k in $(seq "$1"); do
        printf '  %%v%d = constant {value = f32[170] {%s}} : f32[170]\n' "$k" "$elements"
    done
    printf '  %%v%d = tanh(%%v0) : f32[170]\n' "$(($1 + 1))"
    for k in $(seq "$1"); do
        printf '  %%v%d = add(%%v%d, %%v%d) : f32[170]\n' "$(($1 + 1 + k))" "$(($1 + k))" "$k"
    done
    printf '  return o0: %%v%d\n}\n' "$((2 * $1 + 1))"
}
judged() { # WHAT CONSTANTS: the program fails, and this is why
    program "$2" >"$work/graph.stir"
    if "$fuzz" wrong_tanh replay "$work/graph.stir" >"$work/out" 2>&1; then
        fail "$2 constants: no failure"
    fi
    grep -q "$1" "$work/out" || fail "$2 constants: not '$1'"
}
judged 'noise moves it by' 2
judged 'noise cannot tell: the text is too long' 254
