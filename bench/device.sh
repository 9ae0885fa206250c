#!/usr/bin/env bash
# Everything that a GPU has to show, on the machine that has it, each part within minutes. Runs in
# the folder that ./bootstrap bundle made:
#
#   bench/device.sh [OUT] [PART...]
#
# OUT (./out) receives device.json, what each part printed as PART.txt, and summary.txt, which is
# printed at the end too. A part that fails or runs past its time stops no other. Parts:
#
#   facts       chip, driver, versions of torch and NVRTC
#   backends    stator backends --probe
#   self_test   stator backends cuda --self-test: each name of the prelude against the host
#   bits        the graphs of bench/gpu/anchors by generated kernels alone: 100 calls with equal
#               bits, which are those of the software device (bench/expected/anchors.txt)
#   products    the products among them by cuBLASLt: 100 calls with equal bits
#   conform     the ONNX cases on cuda; bits of each beside those of the software device, if the
#               bundle has them (soft.json)
#   graphs      500 random graphs by generated kernels, three calls each, bit by bit beside the
#               software device, which runs there too (it needs a C compiler)
#   models      the models of build/models with weights made there from seeds, beside eager
#   train       the networks of gen_train.py with weights made there: losses beside inductor-cpu's or
#               eager's, a step's time beside PyTorch's
#   streams     bench/device_streams.py: tensors of torch in and out on its streams, 0 copies, 0 waits
#   speed       bench/gpu.py: streaming rows and products beside torch
#   workloads   bench/gpu.py: models beside torch
#   memcheck racecheck synccheck    compute-sanitizer over the anchors
#   hip         the ONNX cases on the objects of the backend hip (docs/hip.md): HIP over the CUDA
#               driver, hiprtc over NVRTC
#   hip_models  the models on them. These two run where they are named alone: they take minutes of
#               their own
#
# STATOR_GPU_BACKEND (cuda) is what is measured, STATOR_CASES (cases) the folder of cases.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 3
out=${1:-out}
shift $(($# > 0))
want=" $* "
backend=${STATOR_GPU_BACKEND:-cuda}
cases=${STATOR_CASES:-cases}
mkdir -p "$out"
: >"$out/parts.txt"

# part <name> <seconds> <command...>
part() {
    local name=$1 seconds=$2 start=$SECONDS status=0
    shift 2
    if [ "$want" = "  " ]; then
        [ "${name#hip}" = "$name" ] || return 0
    else
        [ "${want#* "$name" }" != "$want" ] || return 0
    fi
    timeout -k 5 "$seconds" "$@" >"$out/$name.txt" 2>&1 || status=$?
    echo "$name $status $((SECONDS - start))" | tee -a "$out/parts.txt"
}

facts() {
    nvidia-smi --query-gpu=name,driver_version,memory.total,compute_cap,clocks.max.sm --format=csv,noheader
    python3 - <<'PY'
import json
facts = {}
try:
    import torch
    facts = {"torch": torch.__version__, "cuda": torch.version.cuda, "gpu": torch.cuda.get_device_name(0)}
except Exception as e:
    facts = {"torch": None, "why": repr(e)[:200]}
print(json.dumps(facts))
PY
    bin/stator doctor | grep -i -A 1 -E 'nvidia|cuda|nvrtc'
    sed -n 1,5p BUNDLE
}

# bits_of <contractions> <graph>...
bits_of() {
    local graph line status=0
    export "STATOR_OPT_${backend^^}_CONTRACTIONS=$1" # another backend's would be refused as cuda's
    shift
    for graph; do
        if line=$(timeout 40 bin/gpu_bench "$graph" --backend "$backend" --calls 1 --rounds 1 --bits 100 | tail -n 1) &&
            [ -n "$line" ]; then
            echo "$(basename "$graph" .stir) $line"
        else
            echo "$(basename "$graph" .stir) failed"
            status=1
        fi
    done
    return $status
}

bits() { bits_of loops bench/gpu/anchors/*.stir; }

products() { bits_of cublaslt bench/gpu/anchors/matmul_*.stir; }

conform_on() {
    [ -d "$cases" ] || { mkdir "$cases" && tar -C "$cases" -xf cases.tar.xz; } || return 3
    bin/stator conform "$1" --cases "$cases" --jobs "${STATOR_JOBS:-$(nproc)}" --batch 20 --timeout 60 --json
}

conform() { conform_on "$backend"; }

# The file of NVRTC: Python's package comes first, as it does for the backend cuda.
find_nvrtc() {
    python3 - <<'PY'
import glob
import sysconfig
folders = [sysconfig.get_path("purelib") + "/nvidia/*/lib", "/usr/local/cuda/lib64", "/usr/lib/*-linux-gnu"]
found = [f for n in (13, 12) for d in folders for f in glob.glob("%s/libnvrtc.so.%d" % (d, n))]
print(found[0] if found else "libnvrtc.so.13")
PY
}

# models_on <backend> <part>
models_on() { python3 bench/device_models.py "$out/$2.json" --backend "$1"; }

models() { models_on "$backend" models; }

train() {
    local beside=eager
    [ ! -e lib/stator/plugins-1/cpu_llvm.so ] || beside=inductor-cpu
    python3 bench/device_train.py "$out/train.json" --backend "$backend" --beside "$beside"
}

# Names the libraries of hip_soft: HIP over what $backend is measured on.
hip_on_cuda() {
    local folder=$PWD/lib/hip-on-cuda arch
    export STATOR_SOFT_DEVICE=1 # lists hip_soft, the objects of hip for machines without AMD's
    if [ "$backend" = cuda ]; then
        arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1)
        export STATOR_OPT_HIP_SOFT_DRIVER=$folder/libamdhip64.so.6 STATOR_HIP_ON_CUDA=libcuda.so.1
        export STATOR_OPT_HIP_SOFT_HIPRTC=$folder/libhiprtc.so.6 STATOR_HIP_ON_CUDA_ARCH=sm_${arch/./}
        STATOR_HIPRTC_ON_NVRTC=${STATOR_OPT_CUDA_NVRTC:-$(find_nvrtc)}
        export STATOR_HIPRTC_ON_NVRTC
    fi
}

hip() { hip_on_cuda && conform_on hip_soft; }

hip_models() { hip_on_cuda && models_on hip_soft hip_models; }

sanitize() {
    local graph status=0
    command -v compute-sanitizer || return 127
    export STATOR_OPT_CUDA_CONTRACTIONS=loops # kernels of our own are what is looked at
    for graph in bench/gpu/anchors/*.stir; do
        echo "== $graph"
        timeout 30 compute-sanitizer --tool "$1" --error-exitcode 9 bin/gpu_bench "$graph" \
            --backend "$backend" --calls 1 --rounds 1 2>&1 | tail -n 20
        [ "${PIPESTATUS[0]}" = 0 ] || status=1
    done
    return $status
}

export -f facts bits_of bits products conform_on conform find_nvrtc models_on models train hip_on_cuda hip hip_models sanitize
export backend cases out
part facts 30 bash -c facts
part backends 40 bin/stator backends --probe --all
part self_test 60 bin/stator backends "$backend" --self-test
part bits 50 bash -c bits
part products 20 bash -c products
part conform 170 bash -c conform
part graphs 150 python3 bench/device_graphs.py "$out/graphs.json" --backend "$backend"
part models 200 bash -c models
part train 300 bash -c train
part speed 200 python3 bench/gpu.py "$out/speed.json" streaming --backend "$backend"
# gpu_bench reads ONNX files there: the frontend finds its libraries in lib.
part workloads 400 env LD_LIBRARY_PATH="$PWD/lib" python3 bench/gpu.py "$out/workloads.json" models --backend "$backend"
part streams 60 python3 bench/device_streams.py "$out/streams.json" --backend "$backend"
for tool in memcheck racecheck synccheck; do
    part $tool 40 bash -c "sanitize $tool"
done
part hip 560 bash -c hip
part hip_models 560 bash -c hip_models
python3 bench/device_report.py "$out" . | tee "$out/summary.txt"
