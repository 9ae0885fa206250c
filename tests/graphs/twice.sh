#!/usr/bin/env bash
# twice.sh GRAPH_FUZZ ARGUMENTS: once with an empty compile cache, once with what the first run kept.
set -eu
fuzz=$1
shift
STATOR_CACHE_DIR=$(mktemp -d)
trap 'rm -rf "$STATOR_CACHE_DIR"' EXIT
export STATOR_CACHE_DIR STATOR_CACHE=1
"$fuzz" "$@"
kept=$(find "$STATOR_CACHE_DIR/programs" -type f | wc -l)
[ "$kept" -gt 50 ] || { echo "only $kept programs were kept"; exit 1; }
"$fuzz" "$@"
now=$(find "$STATOR_CACHE_DIR/programs" -type f | wc -l)
[ "$now" -eq "$kept" ] || { echo "$((now - kept)) programs were compiled again"; exit 1; }
