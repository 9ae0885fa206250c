#!/usr/bin/env bash
# Compiles each public header alone as C11, C17 and C++17 (-pedantic, warnings are errors), each
# header of the installed SDK (core/base) as C11 and C++17, each internal header alone as C17, and a
# whole plugin as C11 and C++17. Structs that cross the border have no padding (-Wpadded).
# usage: check_headers.sh SOURCE BUILD      status 0 when all compile
set -u
source=$1
build=$2
cc=${CC:-cc}
cxx=${CXX:-c++}
bad=0
count=0
common="-fsyntax-only -Wall -Wextra -Werror -I$source/include -I$build/include"

check() { # compiler, language, standard and flags..., header
    local header=${*: -1}
    count=$((count + 1))
    if ! echo "#include \"$header\"" | "${@:1:$#-1}" $common -; then
        echo "BAD $header: ${*:1:$#-1}"
        bad=1
    fi
}

for header in "$source"/include/stator/*.h "$build"/include/stator/*.h; do
    check $cc -x c -std=c11 -pedantic -Wpadded "$header"
    check $cc -x c -std=c17 -pedantic "$header"
    if command -v "$cxx" >/dev/null; then
        check $cxx -x c++ -std=c++17 -pedantic "$header"
    fi
done
for header in "$source"/core/base/*.h; do
    check $cc -x c -std=c11 -pedantic "-I$source" "$header"
    if command -v "$cxx" >/dev/null; then
        check $cxx -x c++ -std=c++17 -pedantic "-I$source" "$header"
    fi
done

# A plugin's common part in both languages: heads of items, note, descriptor, query function.
plugin() { # compiler, language and standard
    count=$((count + 1))
    if ! "$@" -pedantic $common - <<'END'
#include <stator/plugin.h>
static stator_status run(void *self, const stator_graph *in, stator_builder *out,
                         stator_fuel_scope *fuel, uint32_t *out_result, stator_diag **err)
{
    (void)self, (void)in, (void)out, (void)fuel, (void)err;
    *out_result = STATOR_PASS_SAME;
    return STATOR_OK;
}
static stator_status run_with(void *self, const stator_graph *in, const stator_options *options,
                              stator_builder *out, stator_fuel_scope *fuel, uint32_t *out_result,
                              stator_diag **err)
{
    (void)options;
    return run(self, in, out, fuel, out_result, err);
}
static const stator_option_desc options[] = {{sizeof(stator_option_desc), STATOR_OPTION_BOOL, 0, 0,
                                              "on", "0", 0, 0, 0, 0, NULL, "", NULL}};
static const stator_pass one = {STATOR_ITEM(stator_pass, STATOR_KIND_PASS, "one", "A pass."),
                                STATOR_PHASE_JOINT, 0, NULL, NULL, run, NULL};
static const stator_pass two = {
    STATOR_ITEM_OPTIONS(stator_pass, STATOR_KIND_PASS, "two", "A pass.", options),
    STATOR_PHASE_JOINT, 0, NULL, NULL, NULL, run_with};
static const stator_item *const items[] = {&one.item, &two.item};
STATOR_PLUGIN("both", "1.0.0", "Stator tests", "[\"pass\"]", ",\"description\":\"two\"", items,
              stator_init_host, NULL);
END
    then
        echo "BAD a plugin: $*"
        bad=1
    fi
}
plugin $cc -x c -std=c11
command -v "$cxx" >/dev/null && plugin $cxx -x c++ -std=c++17

for header in $(cd "$source" && find core ir -name '*.h'); do
    check $cc -x c -std=c17 "-I$source" "$source/$header"
done
command -v "$cxx" >/dev/null || { echo "BAD no C++ compiler: C++17 was not checked"; bad=1; }
echo "headers: $count compiles"
exit $bad
