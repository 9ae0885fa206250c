#!/usr/bin/env bash
# Compiles each public header alone as C11, C17 and C++17 (-pedantic, warnings are errors) and each
# internal header alone as C17. Structs that cross the border have no padding (-Wpadded).
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
for header in $(cd "$source" && find core ir -name '*.h'); do
    check $cc -x c -std=c17 "-I$source" "$source/$header"
done
command -v "$cxx" >/dev/null || { echo "BAD no C++ compiler: C++17 was not checked"; bad=1; }
echo "headers: $count compiles"
exit $bad
