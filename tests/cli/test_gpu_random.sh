#!/usr/bin/env bash
# Random numbers on the software device: the bits of eager and of inductor-cpu, whatever the seed, where the
# stream begins, and how many are drawn; normal ones agree to 4 ulp.
# shellcheck source=tests/cli/gpu_kit.sh
. "$STATOR_SOURCE/tests/cli/gpu_kit.sh"
soft_device libcuda.so.1
needs lib/stator/plugins-soft/cuda_soft.so cuda_soft
others=(eager)
[ ! -e "$STATOR_BUILD/lib/stator/plugins-1/cpu_llvm.so" ] || others+=(inductor-cpu)

# agree GRAPH TOLERANCE WORDS: cuda_soft and the others.
agree() {
    local other
    for other in "${others[@]}"; do
        "$STATOR" compare "$1" --backends "$other,cuda_soft" --strict --rtol "$2" --atol "$2" >"$work/out" 2>&1 ||
            fail "$3, $other: $(cat "$work/out")"
    done
}

# draws SEED OFFSET SIZE DTYPE EPSILON: all draws of so many; EPSILON is that of the dtype. Zeros and ones of rng_uniform are what bernoulli
# and dropout make of it, the place among cumulated weights is multinomial's.
draws() {
    cat >"$work/draws.stir" <<END_STIR
stir 1
graph @main(%x: f32[$3]) {
  %s = constant {value = i64[] {$1}}
  %o = constant {value = i64[] {$2}}
  %b = rng_bits(%s, %o) {shape = [$3]}
  %u = rng_uniform(%s, %o) {shape = [$3], dtype = $4, low = -1.0, high = 2.0}
  %p = rng_uniform(%s, %o) {shape = [$3], dtype = f32, low = 0.0, high = 1.0}
  %q = constant {value = f32[1] {0.3}}
  %keep = lt(%p, %q)
  %z = sub(%x, %x)
  %d = select(%keep, %x, %z)
  %k = constant {value = f32[1] {7.0}}
  %m = mul(%p, %k)
  %c = cast(%m) {dtype = i64}
  return b: %b, u: %u, keep: %keep, d: %d, c: %c
}
END_STIR
    agree "$work/draws.stir" 0 "seed $1, offset $2, $3 of $4"
    cat >"$work/normal.stir" <<END_STIR
stir 1
graph @main() {
  %s = constant {value = i64[] {$1}}
  %o = constant {value = i64[] {$2}}
  %n = rng_normal(%s, %o) {shape = [$3], dtype = $4, mean = 0.0, scale = 1.0}
  return n: %n
}
END_STIR
    agree "$work/normal.stir" "$(python3 -c "print(4 * $5)")" "normal, seed $1, offset $2, $3 of $4"
}
draws 0 0 1 f32 "2**-23"
draws 12345678901234 3 7 f64 "2**-52"
draws -1 1099511627776 4099 f32 "2**-23"
draws 5 4294967295 1023 f16 "2**-10"
draws 7 9223372036854775807 258 bf16 "2**-7"
