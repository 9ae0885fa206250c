#!/usr/bin/env bash
# Installs into a scratch folder, moves it, and builds and runs the examples of the installed copy: what
# a stranger has. Nothing of the source tree is used. Pages and lists of cases to skip are there too.
# usage: check_install.sh SOURCE BUILD      status 0 when all build and run
set -eu
source=$1
build=$2
scratch=$build/tests/install
flags="-std=c11 -pedantic -Wall -Wextra -Werror ${STATOR_TEST_CFLAGS:-}"

rm -rf "$scratch"
mkdir -p "$scratch/src"
cmake --install "$build" --prefix "$scratch/first" >/dev/null
mv "$scratch/first" "$scratch/prefix" # an installed tree may be moved
prefix=$scratch/prefix
doc=$(echo "$prefix"/share/doc/*)
for page in README.md LICENSE docs/abi.md docs/command.md docs/decisions examples/digits/digits.onnx; do
    [ -e "$doc/$page" ] || { echo "$page is not installed"; exit 1; }
done
(cd "$source" && git ls-files docs examples 2>/dev/null) | while read -r file; do
    [ -e "$doc/$file" ] || { echo "$file is not installed"; exit 1; }
done
for plugin in "$prefix"/lib/stator/plugins-1/*.so; do
    name=$(basename "$plugin" .so)
    list=$(find "$source/plugins" -name "$name.skip")
    [ -z "$list" ] || cmp -s "$list" "${plugin%.so}.skip" || { echo "$name.skip is not installed"; exit 1; }
done
cp -r "$doc"/examples/. "$scratch/src/" # an installed tree may be read-only
unset STATOR STATOR_PLUGIN_PATH

# The installed command finds its own plugins.
"$prefix/bin/stator" backends | tee "$scratch/backends.txt"
grep -q eager "$scratch/backends.txt"

# pkg-config: the digits score.
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
digits=$scratch/src/digits
cc $flags "$digits/score.c" $(pkg-config --cflags --libs stator) -Wl,-rpath,"$prefix/lib" \
    -o "$scratch/score"
"$scratch/score" "$digits/digits.onnx" "$digits/test_images.npy" "$digits/test_labels.npy" eager

# The SDK from C++: headers and archive.
if command -v "${CXX:-c++}" >/dev/null; then
    cat >"$scratch/sdk.cpp" <<'END'
#include "core/base/arena.h"
#include "core/base/convert.h"
#include "core/base/sym/sym.h"
int main()
{
    st_mem mem;
    st_arena arena;
    st_mem_init(&mem, nullptr, nullptr, nullptr, 0);
    st_arena_init(&arena, &mem);
    auto *x = static_cast<float *>(st_arena_zalloc(&arena, 4, sizeof(float)));
    st_store_f64(STATOR_F32, x, 3, 0.1);
    const bool ok = x[3] == 0.1f && x[0] == 0.0f;
    st_arena_deinit(&arena);
    return ok ? 0 : 1;
}
END
    "${CXX:-c++}" -std=c++17 -pedantic -Wall -Wextra -Werror ${STATOR_TEST_CFLAGS:-} \
        -I"$prefix/include" -I"$prefix/include/stator/sdk" "$scratch/sdk.cpp" \
        "$prefix/lib/libstator-sdk.a" -lgomp -lpthread -lm -o "$scratch/sdk"
    "$scratch/sdk"
fi

# CMake package: each example that has a CMakeLists.txt is built, and each check_*.sh runs.
build_example() { # DIR NAME
    cmake -S "$1" -B "$scratch/build-$2" -DCMAKE_PREFIX_PATH="$prefix" \
        -DCMAKE_NO_SYSTEM_FROM_IMPORTED=ON \
        -DCMAKE_C_FLAGS="$flags" -DCMAKE_BUILD_TYPE=Release &&
        cmake --build "$scratch/build-$2"
}
for dir in "$scratch"/src/*/; do
    name=$(basename "$dir")
    echo "-- $name"
    if [ -e "$dir/CMakeLists.txt" ]; then
        build_example "$dir" "$name" >"$scratch/$name.log" 2>&1 || { cat "$scratch/$name.log"; exit 1; }
    fi
    for check in "$dir"/check_*.sh; do
        [ -e "$check" ] || continue
        STATOR="$prefix/bin/stator" PREFIX="$prefix" BUILD="$scratch/build-$name" \
            DIGITS="$digits" bash "$check"
    done
done
echo "install: examples built and run from the moved tree"
