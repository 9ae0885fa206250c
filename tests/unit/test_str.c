/* Text buffers, shortest doubles, did-you-mean, globs, lists, checked sizes and dtype names. */
#include "core/base/check.h"
#include "core/base/diag.h"
#include "core/base/utf8.h"
#include "support_sym.h"

#include <criterion/criterion.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

Test(str, text_grows_and_take_returns_it)
{
    st_mem mem;
    st_str s;
    uint64_t len = 0;
    st_mem_init(&mem, NULL, NULL, NULL, 0);
    st_str_init(&s, &mem);
    for (uint32_t i = 0; i < 1000; i++) {
        st_str_addf(&s, "%u,", i);
    }
    st_str_add(&s, "end");
    st_str_addn(&s, "\0x", 2);
    cr_assert(st_str_ok(&s));
    char *text = st_str_take(&s, &len);
    cr_assert(s.data == NULL && s.len == 0);
    cr_assert_eq(len, 3890 + 3 + 2);
    cr_assert_eq(memcmp(text, "0,1,2,", 6), 0);
    cr_assert_eq(memcmp(text + len - 5, "end\0x", 6), 0);
    st_free(&mem, text);
    text = st_str_take(&s, &len); /* an empty one is "" */
    cr_assert(text != NULL && text[0] == '\0' && len == 0);
    st_free(&mem, text);
    cr_assert_eq(mem.live_blocks, 0);
}

Test(str, failed_append_keeps_failing)
{
    st_mem mem;
    for (uint64_t n = 1; n < 10; n++) {
        st_str s;
        st_mem_init(&mem, NULL, NULL, NULL, 0);
        mem.fail_at = n;
        st_str_init(&s, &mem);
        for (uint32_t i = 0; i < 300; i++) {
            st_str_addf(&s, "%s %d;", "some text", 12345);
            st_str_add(&s, "more");
        }
        const int ok = st_str_ok(&s);
        cr_assert_eq(ok, mem.requests < n);
        mem.fail_at = 0;
        st_str_add(&s, "after");
        cr_assert_eq(st_str_ok(&s), ok);
        char *text = st_str_take(&s, NULL);
        cr_assert_eq(text != NULL, ok);
        st_free(&mem, text);
        cr_assert_eq(mem.live_blocks, 0);
    }
}

static void formats(double v, const char *expected)
{
    char buf[32];
    cr_assert_str_eq(st_format_f64(v, buf), expected);
}

Test(str, doubles_are_shortest)
{
    formats(0.0, "0");
    formats(-0.0, "-0");
    formats(1.0, "1");
    formats(-100.0, "-100");
    formats(0.1, "0.1");
    formats(1.0 / 3.0, "0.3333333333333333");
    formats(1e-5, "1e-05");
    formats(1e100, "1e+100");
    formats(1.5e300, "1.5e+300");
    formats(5e-324, "5e-324");
    formats(2.2250738585072014e-308, "2.2250738585072014e-308");
    formats(1.7976931348623157e308, "1.7976931348623157e+308");
    formats(9007199254740993.0, "9007199254740992");
    formats(123456789012345.0, "123456789012345");
    formats((double)0.1f, "0.10000000149011612");
    formats((double)NAN, "nan");
    formats((double)INFINITY, "inf");
    formats(-(double)INFINITY, "-inf");
}

Test(str, doubles_round_trip)
{
    uint64_t random = test_seed(11);
    char buf[32];
    for (uint32_t i = 0; i < 20000; i++) {
        const uint64_t bits = test_random(&random);
        double v = 0;
        memcpy(&v, &bits, sizeof v);
        if (isfinite(v)) {
            cr_assert(strtod(st_format_f64(v, buf), NULL) == v, "%s", buf);
        }
    }
}

Test(str, doubles_have_a_point_in_every_locale)
{
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "nl_NL.UTF-8"};
    for (uint32_t i = 0; i < 4; i++) { /* where none is installed the C locale is checked */
        if (setlocale(LC_NUMERIC, names[i]) != NULL) {
            break;
        }
    }
    formats(2.5, "2.5");
    formats(-1.25e-7, "-1.25e-07");
    setlocale(LC_NUMERIC, "C");
}

Test(str, nearest_word)
{
    static const char *const words[] = {"eager", "aot_eager", "inductor-cpu", "cuda", "hip"};
    cr_assert_str_eq(st_nearest("eagr", words, 5), "eager");
    cr_assert_str_eq(st_nearest("EAGER", words, 5), "eager");
    cr_assert_str_eq(st_nearest("aot-eager", words, 5), "aot_eager");
    cr_assert_str_eq(st_nearest("inductor", words, 5), "inductor-cpu");
    cr_assert_str_eq(st_nearest("cdua", words, 5), "cuda"); /* two letters swapped */
    cr_assert_str_eq(st_nearest("hpi", words, 5), "hip");
    cr_assert_null(st_nearest("tensorflow", words, 5));
    cr_assert_null(st_nearest("", words, 5));
    cr_assert_null(st_nearest("eager", words, 0));
    char word[200];
    memset(word, 'x', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    cr_assert_null(st_nearest(word, words, 5));
}

Test(str, globs)
{
    cr_assert(st_glob("*", "") && st_glob("*", "abc") && st_glob("", ""));
    cr_assert(st_glob("a*c", "abbbc") && st_glob("a*b*c", "aXbYbZc") && st_glob("?b?", "abc"));
    cr_assert(st_glob("*.so", "x.so.so") && st_glob("**a**", "bab"));
    cr_assert_not(st_glob("", "a"));
    cr_assert_not(st_glob("a*c", "abcd"));
    cr_assert_not(st_glob("?", ""));
    cr_assert_not(st_glob("*.so", "x.so.1"));
}

Test(str, lists)
{
    cr_assert(st_list_has("a,bc, d ", "bc") && st_list_has("a,bc, d ", "d") &&
              st_list_has("a", "a"));
    cr_assert_not(st_list_has("a,bc", "b"));
    cr_assert_not(st_list_has("a,bc", ""));
    cr_assert_not(st_list_has("", "a"));
    cr_assert_not(st_list_has(NULL, "a"));
    cr_assert_not(st_list_has(",,", ","));
}

/* ---- check.h ---- */

Test(str, element_counts_are_checked)
{
    uint64_t n = 7;
    cr_assert(st_numel(NULL, 0, &n) && n == 1);
    cr_assert(st_numel((int64_t[]){3, 4, 5}, 3, &n) && n == 60);
    cr_assert(st_numel((int64_t[]){INT64_MAX, 0, INT64_MAX}, 3, &n) && n == 0);
    cr_assert_not(st_numel((int64_t[]){3, -1}, 2, &n));
    cr_assert_not(st_numel((int64_t[]){0, -1}, 2, &n));
    cr_assert_not(st_numel((int64_t[]){INT64_MAX, 2}, 2, &n));
    cr_assert_not(st_numel((int64_t[]){INT64_MAX, INT64_MAX}, 2, &n));
    cr_assert(st_numel((int64_t[]){INT64_C(1) << 31, INT64_C(1) << 31}, 2, &n));
}

Test(str, dtypes_have_names_and_sizes)
{
    uint64_t bytes = 0;
    for (uint32_t d = 1; d < STATOR_DTYPE_COUNT; d++) {
        const char *name = st_dtype_name(d);
        cr_assert_eq(st_dtype_parse(name, strlen(name)), d, "%s", name);
        cr_assert(st_dtype_bits(d) != 0 && st_dtype_class(d) != 0);
        cr_assert(st_dtype_bytes(d, 16, &bytes) && bytes == 2 * st_dtype_bits(d));
        cr_assert(st_dtype_bytes(d, 1, &bytes) && bytes == st_element_bytes(d));
    }
    cr_assert(st_dtype_bytes(STATOR_I4, 3, &bytes) && bytes == 2);
    cr_assert(st_dtype_bytes(STATOR_U4, UINT64_MAX, &bytes) && bytes == UINT64_C(1) << 63);
    cr_assert_not(st_dtype_bytes(STATOR_C128, UINT64_MAX / 8, &bytes));
    cr_assert_not(st_dtype_bytes(0, 1, &bytes));
    cr_assert_eq(st_element_bytes(0), 0);
    cr_assert_not(st_dtype_bytes(STATOR_DTYPE_COUNT, 1, &bytes));
    cr_assert_str_eq(st_dtype_name(99), "?");
    cr_assert_eq(st_dtype_parse("f3", 2), 0);
    cr_assert_eq(st_dtype_parse("f32x", 4), 0);
    cr_assert_eq(st_dtype_class(STATOR_BF16), STATOR_CLASS_FLOAT);
}

Test(str, floor_division)
{
    cr_assert(st_floordiv(7, 2) == 3 && st_floordiv(-7, 2) == -4 && st_floordiv(7, -2) == -4);
    cr_assert(st_floormod(7, 2) == 1 && st_floormod(-7, 2) == 1 && st_floormod(7, -2) == -1);
    for (int64_t a = -20; a <= 20; a++) {
        for (int64_t b = -5; b <= 5; b++) {
            if (b != 0) {
                cr_assert_eq(st_floordiv(a, b) * b + st_floormod(a, b), a);
            }
        }
    }
}

static void shown(const char *text, uint64_t n, enum st_lines lines, const char *want)
{
    st_mem mem;
    st_str s;
    st_mem_init(&mem, NULL, NULL, NULL, 0);
    st_str_init(&s, &mem);
    st_str_add_printable(&s, text, n, lines);
    cr_expect_str_eq(s.data, want);
    st_str_deinit(&s);
}

Test(str, printable_text)
{
    shown("a\x1b[31mb\x7f", 8, ST_LINES_NONE, "a\\x1b[31mb\\x7f");
    shown("na\xc3\xafve \xe2\x82\xac \xf0\x9f\x98\x80", 15, ST_LINES_NONE,
          "na\xc3\xafve \xe2\x82\xac \xf0\x9f\x98\x80");
    shown("\xc2\x9b"
          "31m",
          5, ST_LINES_ALL, "\\xc2\\x9b31m");           /* C1 */
    shown("\xff\xc0\x80\xed\xa0\x80", 6, ST_LINES_ALL, /* no UTF-8 */
          "\\xff\\xc0\\x80\\xed\\xa0\\x80");
    shown("cut \xe2\x82", 6, ST_LINES_NONE, "cut \\xe2\\x82");
    shown("a\0b", 3, ST_LINES_ALL, "a\\x00b");
    shown("a\nb\n  at c\t", 11, ST_LINES_NONE, "a\\x0ab\\x0a  at c\\x09");
    shown("a\nb\n  at c\t", 11, ST_LINES_INDENTED, "a\\x0ab\n  at c\\x09");
    shown("a\nb\n  at c\t", 11, ST_LINES_ALL, "a\nb\n  at c\t");
    shown("", 0, ST_LINES_NONE, "");
}

Test(str, a_cut_text_ends_with_a_character)
{
    cr_expect_eq(st_utf8_fit("abc", 5), 3);
    cr_expect_eq(st_utf8_fit("abc", 2), 2);
    cr_expect_eq(st_utf8_fit("a\xc3\xa9z", 2), 1);
    cr_expect_eq(st_utf8_fit("a\xc3\xa9z", 3), 3);
    cr_expect_eq(st_utf8_fit("\xf0\x9f\x98\x80", 3), 0);
    cr_expect_eq(st_utf8_fit("\xff\xff\xff", 2), 2); /* no characters at all */
    cr_expect_eq(st_utf8_fit("", 0), 0);
}

Test(str, errors_hold_printable_text)
{
    stator_diag *err = NULL;
    (void)st_fail(&err, STATOR_NOT_FOUND, "no '%s'", "x\x1b[2J\nstator: all is well\xff");
    cr_expect_str_eq(st_diag_text(err), "no 'x\\x1b[2J\\x0astator: all is well\\xff'");
    st_diag_note(err, "node\r", "file\n", 3, NULL);
    cr_expect_not_null(strstr(st_diag_text(err), "\n  at node\\x0d (file\\x0a:3)"));
    st_diag_set_hint(err, "%s", "\a");
    cr_expect_str_eq(st_diag_hint(err), "\\x07");
    st_diag_prefix(err, "%s", "\v");
    cr_expect_eq(strncmp(st_diag_text(err), "\\x0b: no", 8), 0);
    st_diag_release(err);
    err = st_diag_create(STATOR_INTERNAL, "\x1b", 1);
    cr_expect_str_eq(st_diag_text(err), "\\x1b");
    st_diag_release(err);
}
