/* Named cases of the symbolic engine (docs/sym.md): normal forms, proofs about shapes, limits,
 * text, evaluation, allocation failures. */
#include "support_sym.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static sym_world w;

static void begin(void)
{
    sym_world_init(&w);
}

static void end(void)
{
    sym_world_deinit(&w);
}

TestSuite(sym, .init = begin, .fini = end);

static void same(const char *a, const char *b)
{
    char x[1024];
    char y[1024];
    const uint32_t p = sym_world_parse(&w, a);
    const uint32_t q = sym_world_parse(&w, b);
    cr_assert_eq(p, q, "'%s' is '%s', '%s' is '%s'", a, sym_world_print(&w, p, x, sizeof x), b,
                 sym_world_print(&w, q, y, sizeof y));
}

static void prints(const char *text, const char *expected)
{
    char x[1024];
    const uint32_t p = sym_world_parse(&w, text);
    cr_assert_str_eq(sym_world_print(&w, p, x, sizeof x), expected);
}

static int eq(const char *a, const char *b)
{
    return st_sym_eq(&w.tab, sym_world_parse(&w, a), sym_world_parse(&w, b));
}

static int le(const char *a, const char *b)
{
    return st_sym_le(&w.tab, sym_world_parse(&w, a), sym_world_parse(&w, b));
}

static int lt(const char *a, const char *b)
{
    return st_sym_lt(&w.tab, sym_world_parse(&w, a), sym_world_parse(&w, b));
}

static void range(const char *text, int64_t lo, int64_t hi)
{
    int64_t a = 0;
    int64_t b = 0;
    st_sym_range(&w.tab, sym_world_parse(&w, text), &a, &b);
    cr_assert(a == lo && b == hi, "%s is in [%lld, %lld]", text, (long long)a, (long long)b);
}

static void positive(const char *names)
{
    for (; *names != '\0'; names++) {
        const char name[2] = {*names, '\0'};
        sym_world_symbol(&w, name, 1, INT64_MAX, 1);
    }
}

/* ---- normal forms ---- */

Test(sym, sums_are_sorted_and_merged)
{
    same("N + M + 2*N - 3", "3*N - 3 + M");
    same("N - N", "0");
    same("2*(N + 1) - 2*N", "2");
    prints("1 + M*2 - N", "-N + 2*M + 1"); /* by age of the symbols */
    prints("-N", "-N");
    prints("-5", "-5");
    prints("0*N", "0");
}

Test(sym, products_distribute_and_commute)
{
    same("(N + 1)*(M + 2)", "M*N + 2*N + M + 2");
    same("(N + M)*(N - M)", "N*N - M*M");
    same("A*B*C*D*E", "E*D*(C*B)*A");
    same("A*(B*(C*(D*E)))", "A*B*C*D*E");
    prints("A*B*3*C", "3*A*B*C");
}

Test(sym, division_takes_out_multiples)
{
    same("floordiv(4*A + 2*B + 5, 4)", "A + 1 + floordiv(B, 2)");
    same("floordiv(2*B + 1, 4)", "floordiv(B, 2)");
    same("floordiv(3*N, 2)", "N + floordiv(N, 2)");
    same("floordiv(-N, -2)", "floordiv(N, 2)");
    same("floordiv(N - 1, 2) + 1", "floordiv(N + 1, 2)");
    same("floordiv(12*N*S*64, 64)", "12*N*S");
    same("floordiv(N, 1)", "N");
    cr_assert_eq(st_sym_floordiv(&w.tab, sym_world_parse(&w, "N"), st_sym_int(&w.tab, 0)), 0);
    cr_assert_eq(st_sym_mod(&w.tab, sym_world_parse(&w, "N"), st_sym_int(&w.tab, 0)), 0);
}

/* (H - 1) / 2 + 1, rounded toward zero, goes through strided layers as one atom below its bound. */
Test(sym, division_goes_into_bounds)
{
    same("floordiv(max(N, 3) + 1, 2)", "max(floordiv(N + 1, 2), 2)");
    same("floordiv(min(N, 9) - 1, 4)", "min(floordiv(N - 1, 4), 2)");
    same("floordiv(max(floordiv(H + 3, 4), 1) + 1, 2)", "max(floordiv(H + 7, 8), 1)");
    same("floordiv(2*max(N, 3) + 5, 4)", "max(floordiv(N, 2), 1) + 1");
}

Test(sym, nested_divisions_flatten)
{
    same("floordiv(floordiv(N, 2), 3)", "floordiv(N, 6)");
    same("floordiv(floordiv(N - 1, 2) + 1, 2)", "floordiv(N + 1, 4)" /* odd at both levels */);
    same("floordiv(floordiv(N, 2) + M, 3)", "floordiv(N + 2*M, 6)");
    same("floordiv(floordiv(N, M), S)", "floordiv(N, M*S)");
    /* Five strided layers in a row stay one atom deep. */
    same("floordiv(floordiv(floordiv(floordiv(floordiv(H + 1, 2) + 1, 2) + 1, 2) + 1, 2) + 1, 2)",
         "floordiv(H + 31, 32)");
}

Test(sym, division_cancels_common_symbols)
{
    positive("NS");
    same("floordiv(N*S*768, N*S)", "768");
    same("floordiv(N*S*768, 768*N)", "S");
    same("floordiv(12*N*S*64, 64*N)", "12*S");
    same("floordiv(N*S, 2*N)", "floordiv(S, 2)");
    same("floordiv(N*S + 3*N, N)", "S + 3");
    same("floordiv(N*S + 3, N)", "S + floordiv(3, N)");
    same("floordiv(-N*S, -N)", "S");
    same("floordiv(0, N)", "0");
    same("floordiv(N, N)", "1");
}

Test(sym, division_of_a_sum_by_a_sum)
{
    sym_world_symbol(&w, "P", 0, INT64_MAX, 1);
    sym_world_symbol(&w, "T", 1, INT64_MAX, 1);
    same("floordiv((P + T)*64, P + T)", "64");
    same("floordiv((P + T)*64*N, N*64)", "P + T");
    same("floordiv(N*(P + T)*12*64, 768*(P + T))", "N");
    same("floordiv(64*P + 64*T + 1, P + T)", "64 + floordiv(1, P + T)");
    prints("floordiv(P, P + T)", "0"); /* T >= 1 */
}

Test(sym, mod_keeps_remainders)
{
    same("mod(4*A + 2*B + 5, 4)", "2*mod(B, 2) + 1");
    same("mod(6*N, 4)", "2*mod(N, 2)");
    same("mod(mod(N, 12), 4)", "mod(N, 4)");
    same("mod(-N, 4)", "mod(3*N, 4)");
    same("mod(N*S, N)", "0");
    same("mod(N*S, N*M)", "N*mod(S, M)");
    same("mod(N, 4) + 4*floordiv(N, 4)", "N");
    same("mod(N, -4)", "-mod(-N, 4)");
    cr_assert_eq(eq("N - 4*floordiv(N, 4)", "mod(N, 4)"), 1);
    cr_assert_eq(eq("N - M*floordiv(N, M)", "mod(N, M)"), 1);
    range("mod(N, 4)", 0, 3);
    range("N - 4*floordiv(N, 4)", 0, 3);
}

Test(sym, flat_index_divides_into_coordinates)
{ /* i*W + j with 0 <= j < W, as views compute it */
    sym_world_symbol(&w, "j", 0, 15, 1);
    same("floordiv(16*i + j, 16)", "i");
    same("mod(16*i + j, 16)", "j");
    same("floordiv(j, 16)", "0");
}

Test(sym, divisibility_is_used)
{
    sym_world_symbol(&w, "H", 32, 4096, 32);
    sym_world_symbol(&w, "W", 32, 4096, 32);
    same("32*floordiv(H, 32)", "H");
    same("mod(H, 32)", "0");
    same("mod(H + 3, 16)", "3");
    same("floordiv(H + 31, 32)", "floordiv(H, 32)");
    same("floordiv(floordiv(H, 8), 4)", "floordiv(H, 32)");
    same("4*floordiv(H, 32)", "floordiv(H, 8)");
    same("floordiv(H, 8) + 4*floordiv(H, 32)", "floordiv(H, 4)");
    same("floordiv(H*W, 1024)", "floordiv(H, 32)*floordiv(W, 32)");
    same("floordiv(H, 32)*N*32", "H*N");
    same("floordiv(H + W, 32)", "floordiv(H, 32) + floordiv(W, 32)");
    cr_assert_eq(st_sym_divisor(&w.tab, sym_world_parse(&w, "2*H + 16")), 16);
    cr_assert_eq(st_sym_divisor(&w.tab, sym_world_parse(&w, "floordiv(H, 8)")), 4);
    cr_assert_eq(st_sym_divisor(&w.tab, sym_world_parse(&w, "H*W")), 1024);
    cr_assert_eq(eq("2*N + 1", "2*M"), 0);
    cr_assert_eq(eq("H + 1", "W"), 0);
}

Test(sym, extrema_fold_when_the_order_is_known)
{
    positive("N");
    same("min(N, 0)", "0");
    same("max(N, 1)", "N");
    same("min(N + 1, N)", "N");
    same("max(N + M, M)", "N + M");
    same("min(N + 3, 5)", "3 + min(N, 2)");
    same("min(2*N, 2*M)", "2*min(N, M)");
    same("min(M, N)", "min(N, M)");
    same("min(min(N, M), M)", "min(N, M)");
    same("min(min(N, 512), 1)", "min(N, 1)");
    same("min(5, 3 + min(min(M, N), 7))", "3 + min(min(M, N), 2)");
    same("max(max(N, 3) + 1, 9)", "max(N, 8) + 1");
    same("max(max(M, N + 2), N + 3)", "max(M, N + 3)");
    same("max(min(N, M), N)", "N");
    prints("max(4, N)", "max(N, 4)");
    prints("max(4, N - 2)", "max(N, 6) - 2");
}

/* What else is in the table, and the way a polynomial came about, change nothing. */
Test(sym, equal_expressions_have_one_ref)
{
    static const char *const texts[] = {
        "max(mod(E, 6), mod(6, 6 - D))",
        "floordiv(28 - C, 2*E - C + 28)",
        "floordiv(mod(8 + A, 8*C + A + 8), 8)",
    };
    char x[256];
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t before = sym_world_parse(&w, texts[i]);
        st_sym_eq(&w.tab, sym_world_parse(&w, "mod(E, 6)"), sym_world_parse(&w, "mod(6, 6 - D)"));
        st_sym_floordiv(&w.tab, sym_world_parse(&w, "E"), st_sym_int(&w.tab, 6));
        cr_assert_eq(sym_world_parse(&w, texts[i]), before);
        sym_world_print(&w, before, x, sizeof x);
        cr_assert_eq(sym_world_parse(&w, x), before, "%s", x);
    }
}

/* ---- proof cases ---- */

/* Output of a convolution: floordiv(H + 2p - d*(k - 1) - 1, s) + 1. */
Test(sym, strided_convolution)
{
    positive("HW");
    same("floordiv(H + 2*1 - 2 - 1, 2) + 1", "floordiv(H + 1, 2)");
    same("floordiv(H + 2*3 - 6 - 1, 2) + 1", "floordiv(H + 1, 2)"); /* 7x7, pad 3 and 3x3, pad 1 */
    cr_assert_eq(eq("ceildiv(H, 2)", "floordiv(H - 1, 2) + 1"), 1);
    cr_assert_eq(eq("H - floordiv(H, 2)", "floordiv(H + 1, 2)"), 1);
    cr_assert_eq(le("1", "floordiv(H + 1, 2)"), 1);
    cr_assert_eq(le("floordiv(H + 1, 2)", "H"), 1);
    cr_assert_eq(lt("floordiv(H, 2)", "H"), 1);
    /* the last window lies inside: (out - 1)*s + k <= H + 2p */
    cr_assert_eq(le("(floordiv(H + 1, 2) - 1)*2 + 3", "H + 2"), 1);
    cr_assert_eq(le("(floordiv(H + 2, 3) - 1)*3 + 1", "H"), 1);
    /* rows * columns of the output, reshaped to one axis and back */
    same("floordiv(64*floordiv(H + 1, 2)*floordiv(W + 1, 2), 64*floordiv(W + 1, 2))",
         "floordiv(H + 1, 2)");
}

Test(sym, ceil_mode_pool)
{
    sym_world_symbol(&w, "H", 3, INT64_MAX, 1);
    same("ceildiv(H - 3, 2) + 1", "floordiv(H, 2)");
    same("floordiv(H - 3 + 2 - 1, 2) + 1", "floordiv(H, 2)");
    cr_assert_eq(eq("ceildiv(H - 3, 2)", "-floordiv(3 - H, 2)"), 1);
    /* the last window begins inside the input */
    cr_assert_eq(lt("(ceildiv(H - 3, 2) + 1 - 1)*2", "H"), 1);
    cr_assert_eq(le("floordiv(H - 3, 2) + 1", "ceildiv(H - 3, 2) + 1"), 1);
    cr_assert_eq(le("ceildiv(H - 3, 2)", "floordiv(H - 3, 2) + 1"), 1);
}

Test(sym, resize_by_scale)
{
    positive("H");
    same("floordiv(H*2, 1)", "2*H");
    same("floordiv(H*3, 2)", "H + floordiv(H, 2)");
    same("floordiv(2*floordiv(H*2, 1), 4)", "H"); /* up by two, down by two */
    cr_assert_eq(le("H", "floordiv(3*H, 2)"), 1);
    cr_assert_eq(le("floordiv(3*H, 2)", "2*H"), 1);
    cr_assert_eq(eq("2*floordiv(H, 2)", "H"), -1); /* not for odd H */
}

Test(sym, reshape_minus_one)
{
    positive("NSHW");
    same("floordiv(N*S*768, N*12*64)", "S");
    same("floordiv(N*S*768, 12*S*64)", "N");
    same("floordiv(N*3*H*W, 3*H*W)", "N");
    same("floordiv(N*12*S*64, 768)", "N*S");
    same("floordiv(N*S*768, N*S)", "768");
    same("floordiv(N*(S*768), 64) - 12*N*S", "0");
    cr_assert_eq(eq("floordiv(N*S*3, 2)*2", "3*N*S"), -1);
}

Test(sym, key_value_length)
{ /* concat of P cached and T new positions */
    sym_world_symbol(&w, "P", 0, 4096, 1);
    sym_world_symbol(&w, "T", 1, 4096, 1);
    cr_assert_eq(lt("P", "P + T"), 1);
    cr_assert_eq(le("T", "P + T"), 1);
    cr_assert_eq(eq("P + T", "P"), 0);
    cr_assert_eq(eq("P + T", "T"), -1);
    same("(P + T) - T", "P");
    same("floordiv(N*(P + T)*64, N*64)", "P + T");
    range("P + T", 1, 8192);
    cr_assert_eq(le("min(P + T, 4096)", "4096"), 1);
}

Test(sym, bounds_see_through_products_and_extrema)
{
    positive("NS");
    cr_assert_eq(le("N", "N*S"), 1);
    cr_assert_eq(le("N + S", "N*S + N"), 1);
    cr_assert_eq(lt("N*S", "N*S + 1"), 1);
    cr_assert_eq(le("min(N, S) + max(N, S)", "N + S"), 1);
    cr_assert_eq(le("mod(N, S)", "N"), 1);
    cr_assert_eq(lt("mod(N, S)", "S"), 1);
    cr_assert_eq(le("S*floordiv(N, S)", "N"), 1);
    cr_assert_eq(lt("N - S", "S*floordiv(N, S)"), 1);
    cr_assert_eq(lt("N", "S"), -1);
}

Test(sym, equal_bounds_make_an_equality)
{
    sym_world_symbol(&w, "K", 5, 5, 1);
    cr_assert_eq(eq("K", "5"), 1);
    cr_assert_eq(eq("K", "6"), 0);
    cr_assert_eq(lt("K", "6"), 1);
    cr_assert_eq(lt("6", "K"), 0);
}

/* ---- limits, overflow, bad refs ---- */

Test(sym, too_many_terms_are_refused)
{
    uint32_t sum = st_sym_int(&w.tab, 0);
    for (uint32_t i = 0; i < 17; i++) {
        char name[8];
        snprintf(name, sizeof name, "s%u", i);
        const uint32_t next = st_sym_add(&w.tab, sum, sym_world_symbol(&w, name, 0, 9, 1));
        cr_assert_eq(next != 0, i < 16, "term %u", i);
        sum = next != 0 ? next : sum;
    }
}

Test(sym, too_deep_is_refused)
{
    uint32_t s = sym_world_symbol(&w, "N", 0, INT64_MAX, 1);
    uint32_t depth = 0;
    for (; depth < 10; depth++) { /* products in between keep divisions from flattening */
        const uint32_t d = st_sym_floordiv(&w.tab, st_sym_add(&w.tab, s, st_sym_int(&w.tab, 1)),
                                           sym_world_symbol(&w, depth % 2 ? "A" : "B", 1, 9, 1));
        const uint32_t next = st_sym_add(&w.tab, st_sym_mul(&w.tab, st_sym_int(&w.tab, 2), d), s);
        if (d == 0 || next == 0) {
            break;
        }
        s = next;
    }
    cr_assert_eq(depth, ST_SYM_DEPTH_MAX);
}

Test(sym, overflow_gives_none)
{
    const uint32_t big = st_sym_int(&w.tab, INT64_MAX);
    const uint32_t one = st_sym_int(&w.tab, 1);
    const uint32_t n = sym_world_symbol(&w, "N", 0, INT64_MAX, 1);
    cr_assert_eq(st_sym_add(&w.tab, big, one), 0);
    cr_assert_eq(st_sym_mul(&w.tab, big, big), 0);
    cr_assert_eq(st_sym_mul(&w.tab, st_sym_mul(&w.tab, big, n), st_sym_int(&w.tab, 2)), 0);
    cr_assert_neq(st_sym_int(&w.tab, INT64_MIN), 0);
    cr_assert_eq(st_sym_floordiv(&w.tab, st_sym_int(&w.tab, INT64_MIN), st_sym_int(&w.tab, -1)), 0);
    prints("-9223372036854775808", "-9223372036854775808");
    prints("N - 9223372036854775808", "N - 9223372036854775808");
}

Test(sym, integers_are_ordered_whatever_their_difference)
{
    cr_expect_eq(le("0", "-9223372036854775808"), 0);
    cr_expect_eq(le("-9223372036854775808", "9223372036854775807"), 1);
    cr_expect_eq(lt("9223372036854775807", "-1"), 0);
    cr_expect_eq(lt("-9223372036854775808", "0"), 1);
    cr_expect_eq(eq("-9223372036854775808", "0"), 0);
}

Test(sym, window_counts)
{
    const uint32_t n = sym_world_symbol(&w, "N", 0, INT64_MAX, 1);
    st_sym_window window = {.size = n,
                            .low = st_sym_int(&w.tab, 1),
                            .high = st_sym_int(&w.tab, 2),
                            .taps = st_sym_int(&w.tab, 3),
                            .dilation = 2,
                            .stride = 2};
    cr_expect_eq(st_sym_window_reach(&w.tab, &window), st_sym_int(&w.tab, 5));
    cr_expect_eq(st_sym_window_count(&w.tab, &window), sym_world_parse(&w, "floordiv(N, 2)"));
    window.size = st_sym_int(&w.tab, 0); /* larger than what it moves over */
    cr_expect_eq(st_sym_window_count(&w.tab, &window), st_sym_int(&w.tab, 0));
    window.dilation = INT64_MAX;
    cr_expect_eq(st_sym_window_count(&w.tab, &window), 0);
    window.size = 0;
    cr_expect_eq(st_sym_window_count(&w.tab, &window), 0);
}

Test(sym, operation_on_none_gives_none)
{
    const uint32_t n = sym_world_symbol(&w, "N", 0, INT64_MAX, 1);
    for (uint32_t op = STATOR_SYM_ADD; op < STATOR_SYM_EQ; op++) {
        cr_assert_eq(st_sym_op(&w.tab, op, 0, n), 0, "0 op %u N", op);
        cr_assert_eq(st_sym_op(&w.tab, op, n, 0), 0, "N op %u 0", op);
        cr_assert_neq(st_sym_op(&w.tab, op, n, n), 0, "N op %u N", op);
    }
    cr_assert_eq(st_sym_op(&w.tab, STATOR_SYM_EQ, n, n), 0);
    cr_assert_eq(st_sym_eq(&w.tab, 0, n), -1);
    cr_assert_eq(st_sym_le(&w.tab, n, 0), -1);
}

/* ---- symbols ---- */

Test(sym, a_name_is_one_symbol)
{
    const uint32_t n = sym_world_symbol(&w, "N", 1, 8, 2);
    cr_assert_eq(sym_world_symbol(&w, "N", 0, 100, 1), n);
    range("N", 2, 8); /* 1 is no multiple of 2 */
    cr_assert_eq(w.tab.n_symbols, 1);
    const uint32_t a = st_sym_symbol(&w.tab, 0, 0, 9, 1, 1);
    const uint32_t b = st_sym_symbol(&w.tab, 0, 0, 9, 1, 1);
    cr_assert(a != 0 && b != 0 && a != b);
    cr_assert_eq(st_sym_symbol(&w.tab, 0, 3, 2, 1, 0), 0); /* empty range */
    cr_assert_neq(st_sym_as_symbol(&w.tab, a), 0);
    cr_assert_eq(st_sym_as_symbol(&w.tab, st_sym_add(&w.tab, a, b)), 0);
}

/* ---- text ---- */

Test(sym, text_round_trips)
{
    static const char *const texts[] = {
        "N",
        "2*N + floordiv(H, 2) + 1",
        "-N - 3*M",
        "max(N, M) - min(N, 3)",
        "A*B*C",
        "mod(N + 3, 7)",
        "floordiv(N, M)",
        "N*floordiv(H + 1, 2)",
        "N*N*N",
        "\"batch size\" + 1",
        "\"min\"*2",
        "floordiv(\"a\\\"b\\\\\", 3)",
        "x.y_2",
        "$3 + 1",
        "\"9a\"",
    };
    char x[256];
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const uint32_t p = sym_world_parse(&w, texts[i]);
        sym_world_print(&w, p, x, sizeof x);
        cr_assert_eq(sym_world_parse(&w, x), p, "'%s' prints as '%s'", texts[i], x);
    }
    prints("\"batch size\" + 1", "\"batch size\" + 1");
    prints("ceildiv(N, 4)", "floordiv(N + 3, 4)");
    prints(" ( ( N ) ) * -2", "-2*N");
}

Test(sym, unnamed_symbols_print_by_index)
{
    sym_world_symbol(&w, "N", 0, 9, 1);
    const uint32_t u = st_sym_symbol(&w.tab, 0, 0, 9, 1, 1);
    char x[64];
    cr_assert_str_eq(sym_world_print(&w, u, x, sizeof x), "$1");
    cr_assert_eq(sym_world_parse(&w, "$1"), u);
}

Test(sym, bad_text_is_refused)
{
    static const char *const texts[] = {
        "",
        "+",
        "N +",
        "2*",
        "floordiv(N)",
        "floordiv(N, 2",
        "floordiv N",
        "(N",
        "\"abc",
        "\"a\\",
        "99999999999999999999",
        "*N",
        "$",
        "min(,)",
        "floordiv(N, 0)",
        "\"\"",
        "--",
        "mod(N, 0)",
        ")",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        uint64_t used = 0;
        cr_assert_eq(sym_parse(&w.tab, texts[i], strlen(texts[i]), sym_world_intern, &w, &used), 0,
                     "'%s' was taken", texts[i]);
        cr_assert_leq(used, strlen(texts[i]));
    }
    char deep[4000];
    memset(deep, '(', sizeof deep);
    cr_assert_eq(sym_parse(&w.tab, deep, sizeof deep, sym_world_intern, &w, NULL), 0);
    memset(deep, '-', sizeof deep);
    cr_assert_eq(sym_parse(&w.tab, deep, sizeof deep, sym_world_intern, &w, NULL), 0);
}

Test(sym, parsing_stops_where_the_sum_ends)
{
    uint64_t used = 0;
    const char *text = "N + 1, 3]";
    const uint32_t p = sym_parse(&w.tab, text, strlen(text), sym_world_intern, &w, &used);
    cr_assert_eq(p, sym_world_parse(&w, "N + 1"));
    cr_assert_eq(used, 5);
}

/* ---- evaluation ---- */

Test(sym, evaluation_needs_every_symbol)
{
    const uint32_t s = sym_world_parse(&w, "floordiv(A, B) + C");
    const st_sym_cols cols = st_sym_columns(&w.tab);
    int64_t env[3] = {17, 5, 100};
    int64_t v = 0;
    st_symprog prog;
    cr_assert(st_sym_eval(&cols, s, env, &v));
    cr_assert_eq(v, 103);
    cr_assert(st_symprog_init(&prog, &w.mem, &cols, s));
    cr_assert(st_symprog_eval(&prog, env, &v));
    cr_assert_eq(v, 103);
    env[1] = 0; /* division by zero */
    cr_assert_not(st_sym_eval(&cols, s, env, &v));
    cr_assert_not(st_symprog_eval(&prog, env, &v));
    env[1] = INT64_MIN; /* unset */
    cr_assert_not(st_sym_eval(&cols, s, env, &v));
    cr_assert_not(st_symprog_eval(&prog, env, &v));
    env[1] = 1;
    env[0] = INT64_MAX; /* overflow */
    cr_assert_not(st_sym_eval(&cols, s, env, &v));
    cr_assert_not(st_symprog_eval(&prog, env, &v));
    st_symprog_deinit(&prog, &w.mem);
    cr_assert_not(st_sym_eval(&cols, 0, env, &v));
    cr_assert(st_symprog_init(&prog, &w.mem, &cols, st_sym_int(&w.tab, -7)));
    cr_assert(prog.is_const && prog.constant == -7 && prog.code == NULL);
    cr_assert(st_symprog_eval(&prog, NULL, &v));
    cr_assert_eq(v, -7);
}

/* ---- hints ---- */

static int64_t hint_of(const char *text)
{
    return st_sym_size_hint(&w.tab, sym_world_parse(&w, text));
}

Test(sym, hint_is_within_bounds_and_divisor)
{
    const int64_t sizes[3] = {8000, INT64_MIN, 500};
    const uint32_t a = sym_world_symbol(&w, "A", 2, 100000, 1);
    (void)sym_world_symbol(&w, "B", 2, 48, 1);           /* 64 is past it */
    (void)sym_world_symbol(&w, "C", 1, 300, 7);          /* and so is the hint: the last multiple */
    cr_expect_eq(hint_of("floordiv(A + 1, 64) - 1"), 0); /* 64, where nothing is known */
    st_symtab_set_hints(&w.tab, sizes, 3);
    cr_expect_eq(hint_of("floordiv(A + 1, 64) - 1"), 124);
    cr_expect_eq(hint_of("A*B"), 8000 * 48);
    cr_expect_eq(hint_of("C"), 294);
    cr_expect_eq(hint_of("17"), 17);
    st_sym_set_hint(&w.tab, a, 10);
    cr_expect_eq(hint_of("A"), 10);
    cr_expect_eq(hint_of("A*A*A*A*A"), 100000);
    st_sym_set_hint(&w.tab, a, 100000); /* past 64 bits: what is proved at least */
    cr_expect_eq(hint_of("A*A*A*A*A"), 32);
}

/* ---- allocation failures ---- */

/* Builds a few expressions; 1 when all went well. */
static int build(sym_world *x)
{
    static const char *const texts[] = {"floordiv(4*A + 2*B + 5, 8)*C", "min(A*B, C + 3)",
                                        "mod(A + B, C) - A*B*C", "floordiv(A*B*C, A)"};
    int ok = st_symtab_init(&x->tab, &x->mem);
    for (uint32_t i = 0; ok && i < 4; i++) {
        const uint64_t n = strlen(texts[i]);
        const uint32_t s = sym_parse(&x->tab, texts[i], n, sym_world_intern, x, NULL);
        const st_sym_cols cols = st_sym_columns(&x->tab);
        st_symprog prog = {0};
        st_str text;
        st_str_init(&text, &x->mem);
        st_sym_print(&x->tab, s, sym_world_name, x, &text);
        ok = s != 0 && st_str_ok(&text) && st_symprog_init(&prog, &x->mem, &cols, s);
        st_symprog_deinit(&prog, &x->mem);
        st_str_deinit(&text);
    }
    for (uint32_t i = 0; ok && i < 200; i++) { /* grows tables past their first chunks */
        ok = st_sym_int(&x->tab, i) != 0;
    }
    st_symtab_deinit(&x->tab);
    return ok;
}

Test(sym, every_allocation_may_fail)
{
    static sym_world x;
    for (uint64_t n = 1;; n++) {
        memset(&x, 0, sizeof x);
        x.n_names = 1;
        st_mem_init(&x.mem, NULL, NULL, NULL, 0);
        x.mem.fail_at = n;
        const int ok = build(&x);
        cr_assert_eq(x.mem.live_blocks, 0, "block left when request %llu failed",
                     (unsigned long long)n);
        cr_assert_eq(ok, x.mem.requests < n);
        if (ok) {
            cr_assert_gt(n, 10);
            break;
        }
    }
}

/* A failed operation leaves the table usable: the same call succeeds when memory is back. */
Test(sym, failed_operation_succeeds_when_memory_is_back)
{
    uint32_t a = sym_world_symbol(&w, "A", 0, INT64_MAX, 1);
    for (uint32_t i = 1; i < 300; i++) {
        const uint32_t k = st_sym_int(&w.tab, i);
        w.mem.fail_at = 1; /* every request fails from now on */
        const uint32_t failed = st_sym_floordiv(&w.tab, a, st_sym_int(&w.tab, i + 1));
        w.mem.fail_at = 0;
        const uint32_t again = st_sym_floordiv(&w.tab, a, st_sym_int(&w.tab, i + 1));
        cr_assert_neq(again, 0);
        cr_assert(failed == 0 || failed == again);
        cr_assert_eq(st_sym_int(&w.tab, i), k);
    }
}
