#!/usr/bin/env bash
# Checks what shared objects export: each plugin stator_plugin_query_v1 alone, libstator only
# stator_* under its version node, with the soname that the ABI promises.
# usage: check_exports.sh BUILD      status 0 when all hold
set -u
build=$1
bad=0
count=0

exports() { nm -D --defined-only "$1" | awk '$2 != "A" {print $3}' | sort -u; }

for so in "$build"/lib/stator/plugins-1/*.so; do
    [ -e "$so" ] || continue
    count=$((count + 1))
    # The sanitizers' own marks are not ours to hide.
    got=$(exports "$so" | grep -v -E '^__(asan|ubsan|odr_asan|tsan|gcov)' | tr '\n' ' ')
    if [ "$got" != "stator_plugin_query_v1 " ]; then
        echo "BAD $so exports '$got', expected stator_plugin_query_v1 alone"
        bad=1
    fi
    if readelf -d "$so" | grep -q 'NEEDED.*libstator'; then
        echo "BAD $so links libstator; a plugin reaches the host through its table"
        bad=1
    fi
done

lib=$build/lib/libstator.so.0
odd=$(exports "$lib" | grep -v -E '^(stator_[a-z0-9_]+@@STATOR_0\.9)$' |
      grep -v -E '^__(asan|ubsan|odr_asan|tsan|gcov)')
if [ -n "$odd" ]; then
    echo "BAD $lib exports more than stator_*@@STATOR_0.9:" $odd
    bad=1
fi
if ! readelf -d "$lib" | grep -q 'SONAME.*\[libstator\.so\.0\]'; then
    echo "BAD $lib: the soname is not libstator.so.0"
    bad=1
fi
echo "exports: $count plugins with one export each, $(exports "$lib" | wc -l) symbols of libstator"
[ "$count" -gt 0 ] || { echo "BAD no plugin in $build/lib/stator/plugins-1"; bad=1; }
exit $bad
