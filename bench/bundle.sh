#!/usr/bin/env bash
# Packs a build into a folder that runs where no package can be installed:
#
#   bench/bundle.sh BUILD DIR [--with inductor-cpu]      called by ./bootstrap bundle DIR
#
# BUILD was configured as ./bootstrap does it: its programs search for libraries below their own
# folder. DIR is made anew. In it:
#
#   bin/             stator, gpu_bench, graph_fuzz
#   lib/             libstator and all shared libraries that are needed, but for glibc's
#   lib/stator/      plugins, stator-probe, stator-hiprtc
#   lib/hip-on-cuda/ HIP and hiprtc over the CUDA driver and NVRTC, for the backend hip_soft
#   bench/           device.sh, gpu.py, the graphs that they time; all that a device run needs
#   lib/stator/plugins-soft, tests/softgpu   cuda_soft and the software device, for a comparison there
#   cases.tar.xz     the ONNX cases, which device.sh unpacks
#   models.tar.xz    the models of build/models without their weights
#   train.tar.xz     the networks of build/train, which are trained, without theirs
#   BUNDLE           what was packed from what
#
# The folder may be moved. It needs an x86-64 or aarch64 Linux like that of the build, and a glibc no
# older than it (BUNDLE says which). The last step runs it with an empty environment, and fails when
# a library comes from elsewhere.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$1
dir=$2
with=
[ "${3:-}" = --with ] && with=${4:-}

die() {
    printf 'bundle: %s\n' "$*" >&2
    exit 3
}

# What glibc brings: the only libraries that are taken from the machine.
is_glibc() {
    case ${1##*/} in
        ld-linux*.so.* | libc.so.6 | libm.so.6 | libmvec.so.1 | libdl.so.2 | libpthread.so.0 | \
            librt.so.1 | libresolv.so.2 | libutil.so.1 | linux-vdso.so.1) return 0 ;;
    esac
    return 1
}

# All files of the bundle that the dynamic linker reads, but for the software device's libraries, which
# need glibc and each other.
objects() {
    find "$dir" -path "$dir/tests" -prune -o -type f -print | while read -r file; do
        [ "$(head -c 4 "$file" | tail -c 3)" = ELF ] && echo "$file"
    done
}

needed_of() { readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }

# A library of the build machine by its soname, as the dynamic linker finds it; of BLAS libraries the
# one that the backend eager opens.
find_library() {
    local file
    for file in /usr/lib/*/openblas-openmp/"$1"; do
        [ -e "$file" ] && echo "$file" && return 0
    done
    file=$(ldconfig -p | sed -n "s|^[[:space:]]*$1 (.*) => ||p" | head -n 1)
    [ -n "$file" ] || die "the library $1 is not on this machine"
    echo "$file"
}

copy_library() {
    [ -e "$dir/lib/$1" ] || cp -L "$(find_library "$1")" "$dir/lib/$1"
}

# Until nothing new is needed.
copy_needed_libraries() {
    local before=-1 now=0 file name
    while [ "$before" != "$now" ]; do
        before=$now
        for file in $(objects); do
            for name in $(needed_of "$file"); do
                is_glibc "$name" || copy_library "$name"
            done
        done
        now=$(find "$dir/lib" | wc -l)
    done
}

copy_build() {
    local plugins="onnx text eager aot_eager cuda hip" name
    mkdir -p "$dir/bin" "$dir/lib/stator/plugins-1" "$dir/lib/stator/libexec" "$dir/bench"
    cp "$build/bin/stator" "$dir/bin/"
    [ ! -e "$build/bench/gpu_bench" ] || cp "$build/bench/gpu_bench" "$dir/bin/"
    cp "$build/lib/libstator.so.0" "$dir/lib/"
    cp "$build/lib/stator/libexec/stator-probe" "$dir/lib/stator/libexec/"
    [ ! -e "$build/lib/stator/libexec/stator-hiprtc" ] || cp "$build/lib/stator/libexec/stator-hiprtc" "$dir/lib/stator/libexec/"
    if [ "$with" = inductor-cpu ]; then
        plugins="$plugins cpu_llvm"
        cp -r "$build/lib/stator/jit" "$dir/lib/stator/"
        copy_library libsleef.so.3
    fi
    for name in $plugins; do
        cp "$build/lib/stator/plugins-1/$name".* "$dir/lib/stator/plugins-1/" 2>/dev/null ||
            missing="${missing:-} $name"
    done
    copy_hip_on_cuda
    copy_library libopenblas.so.0 # opened by name: no program needs it to start
}

# The objects of hip as hip_soft, which asks for no node of AMD's driver, and HIP over CUDA's.
copy_hip_on_cuda() {
    local from=build/release/tests/softgpu plugin=$build/lib/stator/plugins-soft/hip_soft
    if [ ! -e "$plugin.so" ] || [ ! -e $from/libhiprtc.so.6 ]; then
        missing="${missing:-} lib/hip-on-cuda(./bootstrap build makes it)"
        return 0
    fi
    mkdir -p "$dir/lib/stator/plugins-soft" "$dir/lib/hip-on-cuda"
    cp "$plugin".* "$dir/lib/stator/plugins-soft/"
    cp $from/libamdhip64.so.6 $from/libhiprtc.so.6 "$dir/lib/hip-on-cuda/"
}

copy_data() {
    local file
    for file in device.sh device_report.py device_models.py device_train.py device_losses.py device_graphs.py device_streams.py gpu.py gpu_torch.py gpu; do
        [ ! -e "bench/$file" ] || cp -r "bench/$file" "$dir/bench/"
    done
    cp tests/conformance/train_cases.py "$dir/bench/"
    if [ -e build/cases/.complete ] || [ -d build/cases/node ]; then
        tar -C build/cases -c $(ls build/cases) | xz -6 >"$dir/cases.tar.xz"
    else
        missing="${missing:-} cases.tar.xz(./bootstrap test makes build/cases)"
    fi
    # What the cases compute on the software device, when it was asked before:
    # STATOR_SOFT_DEVICE=1 build/release/bin/stator conform cuda_soft --cases build/cases --json
    [ ! -e build/soft.json ] || cp build/soft.json "$dir/soft.json"
    copy_packed models .complete models_pack.py "./bootstrap test --all"
    copy_packed train . train_pack.py tests/conformance/gen_train.py
}

# copy_packed <name> <mark> <program> <what makes the folder>: NAME.tar.xz, what PROGRAM leaves of build/NAME,
# packed once for each PROGRAM; MARK says that the folder is whole.
copy_packed() {
    local name=$1 python
    for python in build/venv-models/bin/python build/venv-bench/bin/python; do
        [ -e "build/$name.tar.xz" ] && [ ! "bench/$3" -nt "build/$name.tar.xz" ] && break
        [ -e "build/$name/$2" ] && [ -x $python ] || continue
        rm -rf "build/$name-packed"
        "$python" "bench/$3" "build/$name" "build/$name-packed" &&
            tar -C build -c "$name-packed" | xz -6 >"build/$name.part" && mv "build/$name.part" "build/$name.tar.xz"
    done
    if [ -e "build/$name.tar.xz" ]; then
        cp "build/$name.tar.xz" "$dir/"
    else
        missing="${missing:-} $name.tar.xz($4 makes build/$name)"
    fi
}

# The backend over the software device, and the program that makes random graphs.
copy_software_device() {
    local from=build/release
    if [ ! -e $from/lib/stator/plugins-soft/cuda_soft.so ] || [ ! -x $from/tests/graph_fuzz ]; then
        missing="${missing:-} cuda_soft(./bootstrap build makes the software device)"
        return 0
    fi
    mkdir -p "$dir/lib/stator/plugins-soft" "$dir/tests/softgpu"
    cp $from/tests/graph_fuzz "$dir/bin/"
    cp $from/lib/stator/plugins-soft/cuda_soft.* "$dir/lib/stator/plugins-soft/"
    cp $from/tests/softgpu/lib*.so* "$dir/tests/softgpu/"
}

# What the software device of build/release computes for the anchors: the device is to give these bits.
write_expected() {
    local graph line bench=build/release/bench/gpu_bench
    mkdir -p "$dir/bench/expected"
    if [ ! -e build/release/lib/stator/plugins-soft/cuda_soft.so ] || [ ! -x $bench ]; then
        missing="${missing:-} bench/expected(./bootstrap build makes the software device)"
        return 0
    fi
    for graph in bench/gpu/anchors/*.stir; do
        line=$(STATOR_SOFT_DEVICE=1 STATOR_OPT_CUDA_SOFT_CONTRACTIONS=loops $bench "$graph" --backend cuda_soft --calls 1 --rounds 1 --bits 1 | tail -n 1)
        [ -n "$line" ] || die "$graph does not run on the software device of build/release"
        echo "$(basename "$graph" .stir) $line"
    done >"$dir/bench/expected/anchors.txt"
}

# The newest version of glibc's symbols that an object of the bundle asks for.
glibc_of_bundle() {
    local file
    for file in $(objects); do readelf -V "$file"; done |
        grep -o 'GLIBC_2\.[0-9]*' | sort -uV | tail -n 1
}

write_facts() {
    {
        echo "commit    $(git rev-parse HEAD 2>/dev/null || echo unknown)$(
            git diff --quiet HEAD 2>/dev/null || echo ', changed since')"
        echo "compiler  $(cc --version | head -n 1)"
        echo "flags     $(sed -n 's/^CMAKE_C_FLAGS_RELEASE:[A-Z]*=//p' "$build/CMakeCache.txt")"
        echo "glibc     $(glibc_of_bundle) or newer, $(uname -m)"
        echo "left out  ${missing:-nothing}"
    } >"$dir/BUNDLE"
}

# Where each library came from when the command listed and probed its backends.
check_libraries() {
    local file name trace="$dir.trace"
    for file in $(objects); do
        for name in $(needed_of "$file"); do
            is_glibc "$name" || [ -e "$dir/lib/$name" ] || die "$file needs $name, which is not in the bundle"
        done
    done
    rm -f "$trace".* # of a run that ended early
    env -i LD_DEBUG=files LD_DEBUG_OUTPUT="$trace" "$dir/bin/stator" backends --probe >/dev/null ||
        die "the command does not run"
    cat "$trace".* | sed -n 's/.*calling init: //p' | sort -u | while read -r file; do
        is_glibc "$file" && continue
        case $(realpath "$file") in
            "$(realpath "$dir")"/*) ;;
            */libcuda.so* | */libnvrtc* | */libamdhip* | */libhiprtc*) ;; # the vendor's, of the machine
            *) die "the library $file was taken from the machine" ;;
        esac
    done || exit 3
    rm -f "$trace".*
}

[ -x "$build/bin/stator" ] || die "no build in $build"
rm -rf "$dir"
mkdir -p "$dir"
copy_build
copy_software_device
copy_needed_libraries
for file in $(objects); do
    strip --strip-unneeded "$file" 2>/dev/null || true
done
copy_data
write_expected
write_facts
check_libraries
tar -C "$(dirname "$dir")" -c "$(basename "$dir")" | gzip -6 >"$dir.tar.gz"

cat "$dir/BUNDLE"
(cd "$dir" && find . -type f -printf '%10s  %P\n' | sort -rn | head -n 40)
env -i "$dir/bin/stator" backends --all
printf '%s: %s MiB; packed, %s.tar.gz: %s MiB\n' "$dir" \
    "$(du -sm --apparent-size "$dir" | cut -f 1)" "$dir" "$(du -sm --apparent-size "$dir.tar.gz" | cut -f 1)"
