/* The text form (docs/stir.md): exact round trips, elements of every dtype, error places, files,
 * hostile input, allocation failures. */
#define _GNU_SOURCE /* mkdtemp, symlink */
#include "core/base/blob.h"
#include "core/base/check.h"
#include "support_text.h"

#include <criterion/criterion.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static text_world w;

static void begin(void)
{
    text_world_init(&w);
}

static void end(void)
{
    text_world_deinit(&w);
}

TestSuite(text, .init = begin, .fini = end);

/* One of everything, as the printer writes it. */
static const char EVERYTHING[] =
    "stir 1\n"
    "sym N in [1, 1024] multiple of 8 hint 16\n"
    "sym \"batch size\" in [0, inf]\n"
    "sym u unbacked in [0, 100]\n"
    "sym H in [0, inf]\n"
    "sym W in [0, inf]\n"
    "graph @main(\n"
    "  %x: f32[N, 3, 8, 8],\n"
    "  param %w: f32[2, 2] = {1, -0, nan, 3},\n"
    "  %3 \"weird name\\x01\\\"\": i64[2*N + 1, \"batch size\"],\n"
    "  %h: f32[4, H, max(H, W), floordiv(H + W, 2)],\n"
    "  %nz: f32[4]\n"
    ") {\n"
    "  %6 = relu(%x) : f32[N, 3, 8, 8] @\"Relu_0\":Relu @\"a b\":\"odd kind\" in \"f.c\":12\n"
    "  %7 \"x\" = constant {value = f16[3] {0.1, 65504, 0x7e01}} : f16[3]\n"
    "  %8 = constant {value = i64[0, 4] {}} : i64[0, 4]\n"
    "  %9 = nonzero(%nz) : i64[1, u]\n"
    "  %10 = transpose(%9) {perm = [1, 0]} : i64[u, 1] ^0\n"
    "  %p = constant {value = bool[] {true}} : bool[]\n"
    "  %p.f = constant {value = f32[] {0.5}} : f32[]\n"
    "  %13 = cond(%p, %6, %10) : f32[N, 3, 8, 8] ^1 @\"If\":If\n"
    "    region @then(%1: f32[N, 3, 8, 8], %2: i64[u, 1]) {\n"
    "      %3 = neg(%1) : f32[N, 3, 8, 8] ^6\n"
    "      return %3\n"
    "    }\n"
    "    region (%1: f32[N, 3, 8, 8], %k: i64[u, 1]) {\n"
    "      return %1\n"
    "    }\n"
    "  %14 = clamp(%13, _, %p.f) : f32[N, 3, 8, 8]\n"
    "  %15, %16 = sort(%14) {descending = 1} : f32[N, 3, 8, 8], i64[N, 3, 8, 8]\n"
    "  %y.1 = layer_norm(%15) {eps = 9.999999747378752e-06} : f32[N, 3, 8, 8]\n"
    "  write %x = %13\n"
    "  return y: %13, \"all values\": %16, %y.1, %h\n"
    "}\n";

Test(text, everything_round_trips)
{
    text_check(&w, EVERYTHING, EVERYTHING);
}

Test(text, prints_exactly)
{
    static const char text[] = "stir 1\n"
                               "sym N in [1, 64]\n"
                               "graph @f(\n"
                               "  %x: f32[N, 4]\n"
                               ") {\n"
                               "  %2 = softmax(%x) : f32[N, 4] @\"sm\":Softmax\n"
                               "  return y: %2\n"
                               "}\n";
    text_check(&w, text, text);
    /* by hand: comments, other labels, no types, defaults written out */
    text_check(&w,
               "// by hand\nstir 1 sym N in [1,64] graph @f(%x: f32[N,2+2]) {\n"
               "%soft \"\" = softmax(%x) {axis=-1} @\"sm\":Softmax return y: %soft }",
               text);
}

Test(text, no_results_and_no_outputs)
{
    static const char text[] = "stir 1\n"
                               "graph (\n"
                               "  %x: f32[2]\n"
                               ") {\n"
                               "  %2 = neg(%x) : f32[2]\n"
                               "  write %x = %2\n"
                               "  return\n"
                               "}\n";
    text_check(&w, text, text);
}

/* ---- sizes ---- */

static void check_size(const char *written, const char *printed)
{
    char text[1024], expected[1024];
    snprintf(text, sizeof text,
             "stir 1 sym A in [1, 100] sym B in [1, 100] sym C in [1, 100]"
             " graph(%%a: f32[A, B, C], %%x: f32[%s]) { return %%x, %%a }",
             written);
    snprintf(expected, sizeof expected,
             "stir 1\nsym A in [1, 100]\nsym B in [1, 100]\nsym C in [1, 100]\n"
             "graph (\n  %%a: f32[A, B, C],\n  %%x: f32[%s]\n) {\n  return %%x, %%a\n}\n",
             printed);
    text_check(&w, text, expected);
}

Test(text, symbolic_sizes_parse_and_print)
{
    check_size("0", "0");
    check_size("2 + 3*4", "14");
    check_size("B + A", "A + B");
    check_size("1 + C - -2*A + 0*B", "2*A + C + 1");
    check_size("C*B*A", "A*B*C");
    check_size("2*(A + 1)*B", "2*B + 2*A*B");
    check_size("max(C, A)", "max(A, C)");
    check_size("floordiv(4*A + 2*B + 5, 4)", "A + floordiv(B, 2) + 1");
    check_size("mod(A, 8) + floordiv(B, 3)*C", "C*floordiv(B, 3) + mod(A, 8)");
    check_size("min(floordiv(C, 2), floordiv(A, 2)) + 7",
               "min(floordiv(A, 2), floordiv(C, 2)) + 7");
}

/* The same two sizes met in another order print the same. */
Test(text, order_of_terms_does_not_depend_on_history)
{
    static const char head[] = "stir 1 sym A in [1, 9] sym B in [1, 9] graph(";
    static const char *const inputs[2] = {
        "%x: f32[floordiv(A, 2)], %y: f32[floordiv(B, 2)], %z: f32[floordiv(A, 2) + floordiv(B, "
        "2)]",
        "%x: f32[1], %y: f32[1], %z: f32[floordiv(B, 2) + floordiv(A, 2)]"};
    const char *last[2];
    char *printed[2];
    for (int k = 0; k < 2; k++) {
        char text[512];
        text_graph g;
        uint64_t len = 0;
        stator_diag *err = NULL;
        snprintf(text, sizeof text, "%s%s) { return %%z }", head, inputs[k]);
        cr_assert_eq(text_read(&w, text, strlen(text), NULL, NULL, &g, &err), STATOR_OK, "%s",
                     st_diag_text(err));
        printed[k] = text_print(&w, g.graph, &len, &err);
        last[k] = strstr(printed[k], "%z: ");
        text_graph_free(&g);
    }
    cr_assert_str_eq(last[0], last[1]);
    st_free(&w.mem, printed[0]);
    st_free(&w.mem, printed[1]);
}

/* ---- elements ---- */

/* Every pattern of `bytes` bytes in [first, first + 64) through text and back, bit by bit. */
static void check_patterns(const char *dtype, uint32_t bytes, const void *patterns, uint32_t count)
{
    char head[128];
    text_graph g;
    stator_diag *err = NULL;
    const void *data = NULL;
    stator_ref type = 0, value = 0, dim = 0;
    stator_builder *b = NULL;
    stator_graph *graph = NULL;
    uint64_t len = 0;
    snprintf(head, sizeof head, "%s[%u]", dtype, count);
    cr_assert_eq(st_module_create(&w.mem, NULL, &w.ops, &g.module, &err), STATOR_OK);
    cr_assert_eq(st_builder_create(g.module, "main", &b, &err), STATOR_OK);
    dim = st_sym_int(&g.module->symtab, count);
    type = st_module_type(g.module, st_dtype_parse(dtype, strlen(dtype)), 1, &dim);
    cr_assert_eq(st_build_constant(b, type, patterns, (uint64_t)bytes * count, &value, &err),
                 STATOR_OK, "%s", st_diag_text(err));
    cr_assert_eq(st_build_output(b, "y", value, &err), STATOR_OK);
    cr_assert_eq(st_builder_finish(b, &graph, &err), STATOR_OK);
    char *text = text_print(&w, graph, &len, &err);
    cr_assert(strstr(text, head));
    text_graph_free(&g);
    cr_assert_eq(text_read(&w, text, len, NULL, NULL, &g, &err), STATOR_OK, "%s\n%s",
                 st_diag_text(err), text);
    cr_assert_eq(st_blob_get(st_graph_value_blob(g.graph, 1), &data, &err), STATOR_OK);
    cr_assert_eq(memcmp(data, patterns, (size_t)bytes * count), 0, "%s", text);
    text_graph_free(&g);
    st_free(&w.mem, text);
}

Test(text, every_pattern_of_small_floats)
{
    static const char *const narrow[] = {"f8e4m3fn", "f8e5m2", "i8", "u8", "bool"};
    static const char *const wide[] = {"f16", "bf16", "i16", "u16"};
    for (uint32_t first = 0; first < 256; first += 64) {
        uint8_t patterns[64];
        for (uint32_t i = 0; i < 64; i++) {
            patterns[i] = (uint8_t)(first + i);
        }
        for (uint32_t k = 0; k < 5; k++) {
            check_patterns(narrow[k], 1, patterns, 64);
        }
    }
    for (uint32_t first = 0; first < 65536; first += 64) {
        uint16_t patterns[64];
        for (uint32_t i = 0; i < 64; i++) {
            patterns[i] = (uint16_t)(first + i);
        }
        for (uint32_t k = 0; k < 2; k++) {
            check_patterns(wide[k], 2, patterns, 64);
        }
        if (first % 4096 == 0) {
            check_patterns(wide[2], 2, patterns, 64);
            check_patterns(wide[3], 2, patterns, 64);
        }
    }
}

Test(text, random_patterns_of_wide_dtypes)
{
    static const struct {
        const char *name;
        uint32_t bytes;
    } dtypes[] = {{"f32", 4}, {"f64", 8}, {"c64", 8}, {"c128", 16},
                  {"i32", 4}, {"u32", 4}, {"i64", 8}, {"u64", 8}};
    uint64_t seed = 20240501;
    cr_log_info("seed %llu", (unsigned long long)seed);
    for (uint32_t round = 0; round < 100; round++) {
        uint64_t patterns[128];
        for (uint32_t i = 0; i < 128; i++) {
            patterns[i] = text_random(&seed);
        }
        for (uint32_t k = 0; k < sizeof dtypes / sizeof dtypes[0]; k++) {
            check_patterns(dtypes[k].name, dtypes[k].bytes, patterns, 64);
        }
    }
}

Test(text, sub_byte_elements)
{
    static const char text[] = "stir 1\n"
                               "graph () {\n"
                               "  %1 = constant {value = i4[5] {-8, 7, 1, 0, -1}} : i4[5]\n"
                               "  %2 = constant {value = u4[3] {15, 0, 9}} : u4[3]\n"
                               "  return %1, %2\n"
                               "}\n";
    text_check(&w, text, text);
}

/* The decimal point of the text does not follow the program's locale. */
Test(text, locale_does_not_matter)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"};
    static const char text[] = "stir 1\n"
                               "graph () {\n"
                               "  %1 = constant {value = f32[2] {0.1, 1.5e-20}} : f32[2]\n"
                               "  return %1\n"
                               "}\n";
    int is_set = 0;
    for (uint32_t k = 0; k < 4 && !is_set; k++) {
        is_set = setlocale(LC_NUMERIC, names[k]) != NULL;
    }
    cr_log_info(is_set ? "with a decimal comma" : "no locale with a decimal comma is installed");
    text_check(&w, text, text);
    (void)setlocale(LC_NUMERIC, "C");
}

/* ---- errors ---- */

/* Does reading fail with a message that has this text (and this hint, when not NULL)? */
static void refuses_in(const char *dir, const char *text, const char *message, const char *hint)
{
    text_graph g;
    stator_diag *err = NULL;
    const stator_status status = text_read(&w, text, strlen(text), dir, NULL, &g, &err);
    cr_assert_neq(status, STATOR_OK, "was accepted: %s", text);
    cr_assert(strstr(st_diag_text(err), message), "'%s' is not in '%s'", message,
              st_diag_text(err));
    if (hint) {
        cr_assert_not_null(st_diag_hint(err), "no hint: %s", st_diag_text(err));
        cr_assert(strstr(st_diag_hint(err), hint), "'%s' is not in '%s'", hint, st_diag_hint(err));
    }
    st_diag_release(err);
}

static void refuses(const char *text, const char *message)
{
    refuses_in(NULL, text, message, NULL);
}

#define HEAD "stir 1\ngraph(%x: f32[2, 3]) {\n"

Test(text, syntax_errors_name_line_and_column)
{
    refuses("", "t.stir:1:1: expected 'stir', found the end of the text");
    refuses("hello", "t.stir:1:1: expected 'stir', found 'hello'");
    refuses("stir 2 graph() {}", "t.stir:1:6: this text is of version 2");
    refuses("stir 1\ngraph(%x f32[2])", "t.stir:2:10: expected ':', found 'f32'");
    refuses("stir 1 graph(%x: f33[2])", "1:18: expected a type such as f32[2, N], found 'f33'");
    refuses(HEAD "  %2 = neg(%x)\n  retrun %2\n}", "4:3: there is no op named 'retrun'");
    refuses(HEAD "  %2 = neg(%x)\n}", "4:1: expected an op, 'write' or 'return', found '}'");
    refuses(HEAD "  return %x\n} more", "4:3: expected the end of the text, found 'more'");
    refuses(HEAD "  return \"abc", "3:10: this string has no closing");
    refuses(HEAD "  return \"a\\qc\": %x }", "3:12: unknown escape");
    refuses(HEAD "  return \"\\x00\": %x }", "a string cannot hold the byte 00");
    refuses(HEAD "  return \"\xff\": %x }", "byte 0xff is not UTF-8");
    refuses(HEAD "  return \xc3\xa9: %x }", "3:10: unexpected byte 0xc3");
    refuses(HEAD "  %2 = sum(%x) {axis = 1.2.3}", "there is no op named 'sum'");
    refuses(HEAD "  %2 = softmax(%x) {axis = 1.2.3}", "3:28: malformed number");
    refuses(HEAD "  %2 = softmax(%x) {axis = 99999999999999999999}", "an integer is too large");
    refuses(HEAD "  %2 = softmax(%x) {axis = 1, axis = 1}", "3:31: the attribute 'axis' is given "
                                                            "twice");
}

Test(text, unknown_names_get_suggestions)
{
    refuses_in(NULL, HEAD "  %2 = reluu(%x)\n return %2 }", "3:8: there is no op named 'reluu'",
               "did you mean 'relu'?");
    refuses_in(NULL, HEAD "  %2 = softmax(%x) {axes = 1}\n return %2 }",
               "3:21: softmax has no attribute named 'axes'", "did you mean 'axis'?");
}

Test(text, values_and_types_are_checked)
{
    refuses(HEAD "  %2 = neg(%3)\n return %2 }", "3:12: no value of this graph is called %3 here");
    refuses(HEAD "  %x = neg(%x)\n return %x }", "3:3: this value is defined twice");
    refuses(HEAD "  %2 = neg(%x) : f32[2, 4]\n return %2 }",
            "3:8: result 0 of neg is f32[2, 3] by its operands and attributes, but f32[2, 4] is "
            "written");
    refuses(HEAD "  %2 = neg(%x) : f16[2, 3]\n return %2 }", "but f16[2, 3] is written");
    refuses(HEAD "  %2, %3 = neg(%x)\n return %2 }", "3:12: ");
    refuses(HEAD "  neg(%x)\n return %x }", "3:3: neg has 1 results, 0 are written");
    refuses(HEAD "  %2 = neg@2(%x)\n return %2 }", "op neg is written in version 2, here it has 1");
    refuses("stir 1 graph(%x: f32[-1]) { return %x }", "the size of axis 0 is negative");
    refuses("stir 1 graph(%x: f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]) { return %x }",
            "a type has at most 16 axes");
    refuses("stir 1 graph(%x: f32[9223372036854775807 + 1]) { return %x }", "leaves 64 bits");
    refuses("stir 1 graph(%x: f32[9223372036854775808]) { return %x }", "a size is too large");
    refuses("stir 1 sym N in [3, 2] graph(%x: f32[N]) { return %x }", "1:12: the range of 'N'");
    refuses("stir 1 sym N in [1, 2] sym N in [1, 2] graph(%x: f32[N]) { return %x }",
            "1:28: the size 'N' is declared twice");
    refuses(HEAD "  %p = constant {value = bool[] {true}}\n"
                 "  %2 = cond(%p, %x)\n"
                 "    region (%a: f32[2, 3]) { return %x }\n"
                 "    region (%a: f32[2, 3]) { return %a }\n return %2 }",
            "5:37: no value of this graph is called %x here; a region sees its own inputs only");
}

Test(text, constant_data_is_checked)
{
    refuses("stir 1 graph(param %x: f32[2] = {1}) { return %x }", "1 elements are given, the type "
                                                                  "has 2");
    refuses("stir 1 graph(param %x: f32[2] = {1, 2, 3}) { return %x }", "more elements are given");
    refuses("stir 1 graph(param %x: i8[1] = {128}) { return %x }", "128 does not fit i8");
    refuses("stir 1 graph(param %x: i8[1] = {-129}) { return %x }", "-129 does not fit i8");
    refuses("stir 1 graph(param %x: u8[1] = {-1}) { return %x }", "expected an integer, found '-'");
    refuses("stir 1 graph(param %x: f16[1] = {1e6}) { return %x }", "outside the range of f16");
    refuses("stir 1 graph(param %x: f16[1] = {0x12345}) { return %x }", "more than the 16 bits");
    refuses("stir 1 graph(param %x: f8e4m3fn[1] = {inf}) { return %x }",
            "a number of type f8e4m3fn");
    refuses("stir 1 graph(param %x: f32[N] = {1}) { return %x }", "plain integers");
    refuses("stir 1 graph(param %x: f32[1000000000, 1000000000, 1000000000] = {1}) { return %x }",
            "fit in memory");
    refuses("stir 1 graph(param %x: f32[4000000000000] = {1}) { return %x }",
            "the rest of the text fewer bytes");
    refuses("stir 1 graph(param %x: f32[2] = hash(\"00\", 8)) { return %x }",
            "needs 32 lower-case");
    refuses("stir 1 graph(param %x: f32[2] = hash(\"00112233445566778899aabbccddeeff\", 9)) "
            "{ return %x }",
            "hash(...) names 9 bytes, the type has 8");
}

/* A declared unbacked symbol stands for one count: it cannot be used for two. */
Test(text, unbacked_symbols_are_defined_once)
{
    refuses("stir 1 sym u unbacked in [0, 9] graph(%x: f32[9], %z: f32[9]) {\n"
            "  %1 = nonzero(%x) : i64[1, u]\n  %2 = nonzero(%z) : i64[1, u]\n return %1, %2 }",
            "3:8: nonzero defines the size 'u', which an earlier node defines already");
    refuses("stir 1 graph(%x: f32[9]) { %1 = nonzero(%x) : i64[1, N] return %1 }",
            "but i64[1, N] is written");
    refuses("stir 1 graph(%x: f32[9]) { %1 = nonzero(%x) : i64[1, 4] return %1 }",
            "but i64[1, 4] is written");
    static const char ok[] = "stir 1\n"
                             "sym u unbacked in [0, 9]\n"
                             "sym v unbacked in [0, 9]\n"
                             "graph (\n"
                             "  %x: f32[9],\n"
                             "  %z: f32[9]\n"
                             ") {\n"
                             "  %3 = nonzero(%x) : i64[1, u]\n"
                             "  %4 = nonzero(%z) : i64[1, v]\n"
                             "  %5 = concat(%3, %4) {axis = 1} : i64[1, u + v]\n"
                             "  return %5\n"
                             "}\n";
    text_check(&w, ok, ok);
}

Test(text, nesting_is_bounded)
{
    const size_t size = 1u << 20;
    char *text = st_alloc(&w.mem, size, 16);
    size_t n = (size_t)snprintf(text, size, "stir 1 graph(%%x: f32[");
    for (int i = 0; i < 100000; i++) {
        text[n++] = '(';
    }
    text[n] = '\0';
    refuses(text, "a size nested deeper than 64");
    n = (size_t)snprintf(text, size, "stir 1 graph(%%x: f32[]) {");
    for (int i = 0; i < 10000; i++) {
        n += (size_t)snprintf(text + n, size - n, " %%1 = call(%%x) region (%%x: f32[]) {");
    }
    refuses(text, "regions are nested deeper than 64");
    st_free(&w.mem, text);
}

/* ---- files and hashes ---- */

static void write_file(const char *dir, const char *name, const void *data, size_t size)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "wb");
    cr_assert_not_null(file);
    cr_assert_eq(fwrite(data, 1, size, file), size);
    fclose(file);
}

#define WITH_FILE(path, offset, bytes)                                                             \
    "stir 1 graph(param %x: f32[2] = file(\"" path "\", " offset ", " bytes ")) { return %x }"

Test(text, files_lie_below_the_folder)
{
    char dir[] = "/tmp/stator-text-XXXXXX", inner[64], link_path[96], sub[96];
    const float numbers[4] = {1.5f, -2, 3, 4};
    text_graph g;
    stator_diag *err = NULL;
    const void *data = NULL;
    cr_assert_not_null(mkdtemp(dir));
    snprintf(inner, sizeof inner, "%s/in", dir);
    snprintf(sub, sizeof sub, "%s/in/sub", dir);
    cr_assert(mkdir(inner, 0700) == 0 && mkdir(sub, 0700) == 0);
    write_file(dir, "outside.bin", numbers, sizeof numbers);
    write_file(sub, "w.bin", numbers, sizeof numbers);
    snprintf(link_path, sizeof link_path, "%s/in/out.bin", dir);
    cr_assert_eq(symlink("../outside.bin", link_path), 0);
    snprintf(link_path, sizeof link_path, "%s/in/same.bin", dir);
    cr_assert_eq(symlink("sub/w.bin", link_path), 0);

    static const char good[] = WITH_FILE("sub/w.bin", "4", "8");
    cr_assert_eq(text_read(&w, good, strlen(good), inner, NULL, &g, &err), STATOR_OK, "%s",
                 st_diag_text(err));
    cr_assert_eq(st_blob_get(st_graph_value_blob(g.graph, 1), &data, &err), STATOR_OK);
    cr_assert_eq(memcmp(data, &numbers[1], 8), 0);
    text_graph_free(&g);
    static const char linked[] = WITH_FILE("same.bin", "8", "8");
    cr_assert_eq(text_read(&w, linked, strlen(linked), inner, NULL, &g, &err), STATOR_OK, "%s",
                 st_diag_text(err));
    text_graph_free(&g);

    refuses_in(NULL, good, "refused: this text came without a folder", NULL);
    refuses_in(inner, WITH_FILE("../outside.bin", "0", "8"), "must not contain '..'", NULL);
    refuses_in(inner, WITH_FILE("sub/../sub/w.bin", "0", "8"), "must not contain '..'", NULL);
    refuses_in(inner, WITH_FILE("/etc/hostname", "0", "8"), "must be a relative path", NULL);
    refuses_in(inner, WITH_FILE("out.bin", "0", "8"), "leads out of the model's folder", NULL);
    refuses_in(inner, WITH_FILE("none.bin", "0", "8"), "does not exist", NULL);
    refuses_in(inner, WITH_FILE("sub", "0", "8"), "a folder", NULL);
    refuses_in(inner, WITH_FILE("sub/w.bin", "12", "8"), "which has 16", NULL);
    refuses_in(inner, WITH_FILE("sub/w.bin", "9223372036854775807", "8"), "which has 16", NULL);
    refuses_in(inner, WITH_FILE("sub/w.bin", "0", "4"), "file(...) names 4 bytes, the type has 8",
               NULL);
}

typedef struct placed {
    uint32_t count;
    uint64_t bytes;
} placed;

static stator_status place(void *self, stator_blob *blob, const char **out_path,
                           uint64_t *out_offset, stator_diag **err)
{
    placed *p = self;
    (void)err;
    *out_path = "m.blob";
    *out_offset = p->bytes;
    p->bytes += st_blob_size(blob);
    p->count++;
    return STATOR_OK;
}

/* 65 elements are not inline: a hash without a place, a file with one. The hash reads back. */
Test(text, constants_over_64_elements_print_a_hash_or_file)
{
    char text[1024];
    text_graph g;
    stator_diag *err = NULL;
    st_str out;
    placed p = {0, 0};
    const st_print_options options = {.place = place, .self = &p};
    size_t n = (size_t)snprintf(text, sizeof text, "stir 1 graph(param %%w: u8[65] = {0");
    for (int i = 1; i < 65; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, ", %d", i);
    }
    snprintf(text + n, sizeof text - n, "}) { return %%w }");
    cr_assert_eq(text_read(&w, text, strlen(text), NULL, NULL, &g, &err), STATOR_OK);
    st_str_init(&out, &w.mem);
    cr_assert_eq(st_print_graph(g.graph, &options, &out, &err), STATOR_OK);
    cr_assert(strstr(out.data, "param %w: u8[65] = file(\"m.blob\", 0, 65)\n"), "%s", out.data);
    cr_assert(p.count == 1 && p.bytes == 65);
    st_str_deinit(&out);
    char *hashed = text_print(&w, g.graph, NULL, &err);
    cr_assert(strstr(hashed, "param %w: u8[65] = hash(\""), "%s", hashed);
    text_graph_free(&g);
    text_check(&w, hashed, hashed);
    cr_assert_eq(text_read(&w, hashed, strlen(hashed), NULL, NULL, &g, &err), STATOR_OK);
    const void *data = NULL;
    cr_assert_eq(st_blob_get(st_graph_value_blob(g.graph, 1), &data, &err),
                 STATOR_FAILED_PRECONDITION);
    st_diag_release(err);
    text_graph_free(&g);
    st_free(&w.mem, hashed);
}

/* ---- hostile input and no memory ---- */

/* 20,000 mutants of a good text: each is refused with a message, or prints and parses again to the
 * same bytes in both forms. */
Test(text, mutants_are_refused_or_stable)
{
    char mutant[4200];
    const size_t len = sizeof EVERYTHING - 1;
    uint64_t seed = 7;
    uint32_t accepted = 0;
    cr_log_info("seed %llu", (unsigned long long)seed);
    static const char pool[] = "%(){}[],:=@^*+-\"\\0123456789.NxHufi_ \n";
    for (uint32_t round = 0; round < 20000; round++) {
        size_t n = len;
        memcpy(mutant, EVERYTHING, len + 1);
        const uint32_t changes = 1 + (uint32_t)(text_random(&seed) % 3);
        for (uint32_t k = 0; k < changes; k++) {
            const size_t at = text_random(&seed) % n;
            const char c = pool[text_random(&seed) % (sizeof pool - 1)];
            switch (text_random(&seed) % 4) {
            case 0:
                mutant[at] = c;
                break;
            case 1:
                memmove(mutant + at, mutant + at + 1, n - at);
                n--;
                break;
            case 2:
                memmove(mutant + at + 1, mutant + at, n - at + 1);
                mutant[at] = c;
                n++;
                break;
            default: {
                const size_t from = text_random(&seed) % n;
                mutant[at] = mutant[from];
            }
            }
        }
        accepted += text_check_stable(&w, mutant, n) == STATOR_OK;
    }
    cr_log_info("%u accepted", accepted);
    for (size_t n = 0; n + 2 < len; n++) {
        cr_assert_neq(text_check_stable(&w, EVERYTHING, n), STATOR_OK, "cut at %zu", n);
    }
}

/* Every request in turn, and all after it, fails: parse and print report it and leak nothing. */
Test(text, every_allocation_may_fail)
{
    const size_t len = sizeof EVERYTHING - 1;
    text_graph g;
    stator_diag *err = NULL;
    uint32_t failures = 0;
    for (uint64_t k = 1;; k++) {
        w.mem.fail_at = w.mem.requests + k;
        stator_status status = text_read(&w, EVERYTHING, len, NULL, NULL, &g, &err);
        char *printed = status == STATOR_OK ? text_print(&w, g.graph, NULL, &err) : NULL;
        w.mem.fail_at = 0;
        text_graph_free(&g);
        const int is_done = printed != NULL;
        st_free(&w.mem, printed);
        if (is_done) {
            break;
        }
        cr_assert_eq(st_diag_code(err), STATOR_RESOURCE_EXHAUSTED, "request %llu: %s",
                     (unsigned long long)k, st_diag_text(err));
        st_diag_release(err);
        err = NULL;
        failures++;
    }
    cr_assert_gt(failures, 100);
}
