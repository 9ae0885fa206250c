#!/usr/bin/env bash
# The commands of README.md and of other pages run as they are written, in a copy of examples/digits,
# and the README's C program compiles. Left out are lines that name a reader's own plugin or folder, and
# those that need what this machine lacks (LLVM, ONNX cases), which are listed.
. "$STATOR_SOURCE/tests/cli/sizes_kit.sh"
mkdir -p bin build/cases examples
cp -r "$STATOR_SOURCE/examples/digits" examples/digits
ln -s "$STATOR" bin/stator
export PATH="$work/bin:$PATH"
find -L "$STATOR_SOURCE/build/cases" -name 'test_a*' -prune 2>/dev/null | head -3 |
    while read -r folder; do cp -rL "$folder" build/cases/; done
pages="README.md docs/build.md examples/digits/README.md"

cd examples/digits
mkdir -p build # a folder of plugins that a reader has built
n=0
while IFS=: read -r page line; do
    case $line in
        *my_backend* | *' DIR'*) continue ;;
        *inductor-cpu* | 'stator build'*)
            [[ $backends = *inductor-cpu* ]] || { echo "left out, no LLVM: $line"; continue; } ;;
        *build/cases*)
            [ -n "$(ls ../../build/cases)" ] || { echo "left out, no cases: $line"; continue; } ;;
    esac
    status=0
    bash -c "$line" >out 2>&1 </dev/null || status=$?
    [ "$status" = 0 ] || fail "$page: status $status of: $line: $(tail -5 out)"
    n=$((n + 1))
done < <(cd "$STATOR_SOURCE" && grep -HE '^    stator [a-z]+( |$)' $pages | sed -E 's/:    /:/; s/ +# .*//'
         grep -oE '`[^`]*stator [^`]*digits.onnx[^`]*`' docs/life-of-a-model.md | tr -d '`' | sed 's/^/life-of-a-model.md:/')
[ "$n" -ge 15 ] || fail "only $n commands were found in $pages"

# The program: what stands between "## From C" and the prose behind it, in a function.
{
    echo '#include <stator/stator.h>'
    echo 'void program(void);'
    echo 'void program(void) {'
    sed -n '/^## From C/,/^Every call/p' "$STATOR_SOURCE/README.md" | grep '^    [^#]'
    echo '}'
} >program.c
cc -std=c11 -pedantic -Wall -Wextra -Werror -Wno-unused-result -fsyntax-only \
    -I"$STATOR_SOURCE/include" -I"$STATOR_BUILD/include" program.c || fail "the README's C program"
echo "$n commands of $pages and the README's C program"
