#!/usr/bin/env bash
# Faults planted in kernels of cuda_soft, in their text or by the driver beneath: of each the software
# device names the kernel, or its results are wrong, and bisect names the node that the kernel computes.
# usage: check_planted_gpu.sh SOURCE BUILD [NAME]      status 0 when all hold
set -u
here=$1/tests/plugins/planted_gpu
planted=$2/tests/planted_gpu
only=${3:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
count=0
export STATOR_SOFT_DEVICE=1 STATOR_CACHE=0 STATOR_PLANT_LOG=$work/planted
export STATOR_OPT_CUDA_SOFT_NVRTC=$planted/libplanted_nvrtc.so STATOR_OPT_CUDA_SOFT_DRIVER=$planted/libplanted_cuda.so
model=$here/models/kernels.stir

complain() {
    echo "BAD $name: $1"
    cat "$work/run" "$work/bisect"
    bad=1
}
has() { grep -qE -- "$2" "$work/$1" || complain "no '$2' of $1"; }

# Without a fault the same libraries are those of the software device.
name=none
: >"$work/bisect"
"$STATOR" compare "$model" --backends eager,cuda_soft >"$work/run" 2>&1 || complain "a difference"
[ ! -e "$work/planted" ] || complain "a fault that nobody asked for"
"$STATOR" explain "$model" --backend cuda_soft >"$work/explain" 2>&1 || complain "explain"

while read -r name kernel node words; do
    case $name in "" | "#"*) continue ;; esac
    [ -n "$only" ] && [ "$only" != "$name" ] && continue
    export STATOR_PLANT=$name
    count=$((count + 1))
    rm -f "$work/planted"
    "$STATOR" compare "$model" --backends eager,cuda_soft >"$work/run" 2>&1 && complain "nobody noticed"
    "$STATOR" bisect "$model" --bad cuda_soft --json >"$work/bisect" 2>&1 || complain "bisect: status $?"
    has bisect '"found":[[:space:]]*true'
    has bisect '"kind":[[:space:]]*"kernel"'
    has bisect "\"node\":[[:space:]]*\"$node\""
    # Which kernel computes the node, and which one the device or the plant names.
    grep -A1 -E "^ .* kernel +k[0-9]+_$kernel\$" "$work/explain" | grep -qE "= .*$node" ||
        complain "kernel $kernel does not compute $node: $(cat "$work/explain")"
    case $words in
    -) ;;
    *)
        has run "kernel 'st_k[0-9]+_$kernel', block [0-9]+: thread [0-9]+ .*($words)"
        has bisect "\"message\":.*kernel 'st_k[0-9]+_$kernel', block [0-9]+: thread [0-9]+ .*($words)"
        ;;
    esac
    case $name in
    other_stream | stale_constant) ;;
    *) grep -qE "^st_k[0-9]+_$kernel\$" "$work/planted" || complain "the text has no such place" ;;
    esac
done <"$here/planted_gpu.expected"
echo "$count faults of kernels looked for"
[ $count -gt 0 ] || bad=1
exit $bad
