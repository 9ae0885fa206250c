#!/usr/bin/env bash
# Time of `stator backends` with 50 plugins installed: bench/list_plugins.sh [BUILD]. Copies eager.so under
# 50 names into a scratch folder; prints the median of 5 whole-process runs beside the bound of 50 ms, and
# how many of the plugins the process mapped (none: listing loads nothing).
set -euo pipefail
build=${1:-build/release}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for i in $(seq 50); do
    cp "$build/lib/stator/plugins-1/eager.so" "$scratch/plugin$i.so"
done
for _ in 1 2 3 4 5; do
    start=$(date +%s%N)
    "$build/bin/stator" backends --all --plugin-dir "$scratch" >/dev/null
    echo $((($(date +%s%N) - start) / 1000))
done | sort -n | awk 'NR == 3 { printf "listing 50 plugins: %.1f ms, median of 5 (bound 50)\n", $1 / 1000 }'
if command -v strace >/dev/null; then
    mapped=$(strace -f -e trace=mmap,openat "$build/bin/stator" backends --plugin-dir "$scratch" 2>&1 |
        grep -c 'PROT_EXEC.*plugin' || true)
    echo "plugins mapped executable while listing: $mapped"
fi
