/* The binary form (docs/stirb.md): layout, mapped constants, hostile input, allocation failures. */
#define _GNU_SOURCE /* mkdtemp */
#include "core/base/blob.h"
#include "ir/binary_format.h"
#include "support_text.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static text_world w;

static void begin(void)
{
    text_world_init(&w);
}

static void end(void)
{
    text_world_deinit(&w);
}

TestSuite(binary, .init = begin, .fini = end);

static const char SAMPLE[] =
    "stir 1\n"
    "sym N in [1, 1024] multiple of 8 hint 16\n"
    "sym u unbacked in [0, 100]\n"
    "graph @main(\n"
    "  %x: f32[N, 4],\n"
    "  param %w: u8[70] = hash(\"00112233445566778899aabbccddeeff\", 70),\n"
    "  %nz: f32[100],\n"
    "  %p: bool[]\n"
    ") {\n"
    "  %5 = constant {value = f16[2] {1, nan}} : f16[2] @\"c\":Constant in \"m.onnx\"\n"
    "  %6 \"odd name\" = nonzero(%nz) : i64[1, u] @\"a\":A @\"b\":B @\"c\":Constant in \"m.onnx\"\n"
    "  %7 = reshape(%x) {shape = [4*N]} : f32[4*N] ^0\n"
    "  %8 = leaky_relu(%7) {alpha = 0.25} : f32[4*N] ^3\n"
    "  %9 = cond(%p, %x, %6) : f32[N, 4]\n"
    "    region @then(%1: f32[N, 4], %2: i64[1, u]) {\n"
    "      %3 = neg(%1) : f32[N, 4]\n"
    "      return %3\n"
    "    }\n"
    "    region @else(%1: f32[N, 4], %2: i64[1, u]) {\n"
    "      return %1\n"
    "    }\n"
    "  %10 = cast(%x) {dtype = bf16} : bf16[N, 4]\n"
    "  %11 = resize(%x) {sizes = [N, 8], scales = [1, 2], mode = \"linear\"} : f32[N, 8]\n"
    "  write %x = %9\n"
    "  return y: %9, %6, %8, %10, \"all of it\": %11, %5\n"
    "}\n";

/* The bytes of a graph given as text; free with st_str_deinit. */
static void to_binary(const char *text, st_str *out)
{
    text_graph g;
    stator_diag *err = NULL;
    st_str_init(out, &w.mem);
    cr_assert_eq(text_read(&w, text, strlen(text), NULL, NULL, &g, &err), STATOR_OK, "%s",
                 st_diag_text(err));
    cr_assert_eq(st_write_binary(g.graph, out, &err), STATOR_OK, "%s", st_diag_text(err));
    text_graph_free(&g);
}

Test(binary, read_back_prints_the_same_text)
{
    text_check(&w, SAMPLE, SAMPLE);
}

Test(binary, writing_is_deterministic)
{
    st_str a, b, c;
    text_graph g;
    stator_diag *err = NULL;
    to_binary(SAMPLE, &a);
    to_binary(SAMPLE, &b);
    cr_assert(a.len == b.len && memcmp(a.data, b.data, a.len) == 0);
    cr_assert_eq(text_read(&w, a.data, a.len, NULL, NULL, &g, &err), STATOR_OK);
    st_str_init(&c, &w.mem);
    cr_assert_eq(st_write_binary(g.graph, &c, &err), STATOR_OK);
    cr_assert_eq(a.len, c.len);
    text_graph_free(&g);
    st_str_deinit(&a);
    st_str_deinit(&b);
    st_str_deinit(&c);
}

static uint64_t u64_at(const st_str *s, uint64_t at)
{
    uint64_t value;
    memcpy(&value, s->data + at, sizeof value);
    return value;
}

static uint32_t u32_at(const st_str *s, uint64_t at)
{
    uint32_t value;
    memcpy(&value, s->data + at, sizeof value);
    return value;
}

Test(binary, layout_is_the_documented_one)
{
    st_str s;
    uint64_t last = 0;
    to_binary(SAMPLE, &s);
    cr_assert_eq(memcmp(s.data, "STIRB\0\0\1", 8), 0);
    cr_assert_eq(u32_at(&s, 8), 1);
    cr_assert_eq(u32_at(&s, 12), 8);
    cr_assert_eq(u64_at(&s, 16), s.len);
    for (uint32_t k = 0; k < 8; k++) {
        const uint64_t row = 32 + k * 24;
        cr_assert_eq(u32_at(&s, row), k + 1);
        cr_assert_eq(u64_at(&s, row + 8) % (k == 7 ? 64 : 8), 0);
        cr_assert_geq(u64_at(&s, row + 8), last);
        last = u64_at(&s, row + 8) + u64_at(&s, row + 16);
    }
    cr_assert_eq(last, s.len);
    st_str_deinit(&s);
}

/* With a path the constants are ranges of the file, without one they are copies. */
Test(binary, constants_are_mapped)
{
    char dir[] = "/tmp/stator-binary-XXXXXX", path[64];
    char text[4096];
    text_graph g;
    stator_diag *err = NULL;
    st_str s;
    uint64_t offset = 0;
    const void *data = NULL;
    size_t n = (size_t)snprintf(text, sizeof text, "stir 1 graph(param %%w: f32[200] = {0");
    for (int i = 1; i < 200; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, ", %d", i);
    }
    snprintf(text + n, sizeof text - n, "}, param %%v: i8[3] = {1, 2, 3}) { return %%w, %%v }");
    to_binary(text, &s);
    cr_assert_not_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/m.stirb", dir);
    FILE *file = fopen(path, "wb");
    cr_assert_not_null(file);
    cr_assert_eq(fwrite(s.data, 1, s.len, file), s.len);
    fclose(file);

    cr_assert_eq(text_read(&w, s.data, s.len, NULL, path, &g, &err), STATOR_OK, "%s",
                 st_diag_text(err));
    for (stator_ref value = 1; value <= 2; value++) {
        stator_blob *blob = st_graph_value_blob(g.graph, value);
        cr_assert_not_null(st_blob_file(blob, &offset));
        cr_assert_eq(offset % ST_STIRB_DATA_ALIGN, 0);
        cr_assert_eq(st_blob_get(blob, &data, &err), STATOR_OK);
        if (value == 1) {
            cr_assert_eq(((const float *)data)[199], 199.0f);
        }
    }
    text_graph_free(&g);
    cr_assert_eq(text_read(&w, s.data, s.len, NULL, NULL, &g, &err), STATOR_OK);
    cr_assert_null(st_blob_file(st_graph_value_blob(g.graph, 1), &offset));
    cr_assert_eq(st_blob_get(st_graph_value_blob(g.graph, 1), &data, &err), STATOR_OK);
    cr_assert_eq(((const float *)data)[199], 199.0f);
    text_graph_free(&g);
    st_str_deinit(&s);
}

/* ---- hostile input ---- */

static void refuses(const st_str *s, uint64_t at, uint32_t value, uint32_t size,
                    const char *message)
{
    text_graph g;
    stator_diag *err = NULL;
    char *bytes = st_alloc(&w.mem, s->len, 16);
    memcpy(bytes, s->data, s->len);
    memcpy(bytes + at, &value, size);
    cr_assert_neq(text_read(&w, bytes, s->len, NULL, NULL, &g, &err), STATOR_OK, "%s", message);
    cr_assert(strstr(st_diag_text(err), message), "'%s' is not in '%s'", message,
              st_diag_text(err));
    st_diag_release(err);
    st_free(&w.mem, bytes);
}

static uint64_t row_of(uint32_t section)
{
    return 32 + (uint64_t)(section - 1) * 24;
}

Test(binary, header_is_checked)
{
    st_str s;
    to_binary(SAMPLE, &s);
    refuses(&s, 8, 2, 4, "this file is of version 2, this program reads version 1");
    refuses(&s, 8, 0, 4, "version 0");
    refuses(&s, 12, 1000, 4, "the section table is too long");
    refuses(&s, 16, 12, 4, "the file says that it has 12 bytes");
    refuses(&s, row_of(1), 2, 4, "a section is there twice");
    refuses(&s, row_of(1), 99, 4, "section 1 is missing");
    refuses(&s, row_of(3) + 8, 3, 1, "not aligned");
    refuses(&s, row_of(3) + 12, 1, 4, "a section lies outside the file");
    refuses(&s, row_of(3) + 20, 1, 4, "a section lies outside the file");
    st_str_deinit(&s);
}

Test(binary, counts_and_references_are_checked)
{
    st_str s;
    to_binary(SAMPLE, &s);
    for (uint32_t id = ST_STIRB_STRINGS; id <= ST_STIRB_BLOBS; id++) {
        refuses(&s, u64_at(&s, row_of(id) + 8), 0xffffffffu, 4,
                "a count is larger than the bytes that are left");
    }
    const uint64_t graph = u64_at(&s, row_of(ST_STIRB_GRAPH) + 8);
    refuses(&s, graph, 1000, 4, "a reference names no entry before it");
    refuses(&s, graph + 4, 0x7fffffff, 4, "a count is larger");
    refuses(&s, graph + 12, 77, 4, "a reference names no entry before it"); /* type of input 1 */
    const uint64_t types = u64_at(&s, row_of(ST_STIRB_TYPES) + 8);
    refuses(&s, types + 4, 99, 4, "unknown dtype");
    refuses(&s, types + 8, 17, 4, "too many axes");
    const uint64_t blobs = u64_at(&s, row_of(ST_STIRB_BLOBS) + 8);
    refuses(&s, blobs + 4, 9, 4, "a constant is of an unknown kind");
    st_str_deinit(&s);
}

/* Every cut and 30,000 mutants: refused with a message, or stable in both forms. */
Test(binary, mutants_are_refused_or_stable)
{
    st_str s;
    uint64_t seed = 11;
    uint32_t accepted = 0;
    cr_log_info("seed %llu", (unsigned long long)seed);
    to_binary(SAMPLE, &s);
    char *bytes = st_alloc(&w.mem, s.len, 16);
    for (uint64_t n = 0; n < s.len; n++) {
        cr_assert_neq(text_check_stable(&w, s.data, n), STATOR_OK, "cut at %llu",
                      (unsigned long long)n);
    }
    for (uint32_t round = 0; round < 30000; round++) {
        memcpy(bytes, s.data, s.len);
        const uint32_t changes = 1 + (uint32_t)(text_random(&seed) % 3);
        for (uint32_t k = 0; k < changes; k++) {
            const uint64_t at = text_random(&seed) % s.len;
            const uint64_t r = text_random(&seed);
            const uint64_t next = (uint64_t)(unsigned char)bytes[at] + 1u;
            bytes[at] = (char)(r % 3 == 0 ? r >> 8 : r % 3 == 1 ? next : (r >> 8) % 8u);
        }
        accepted += text_check_stable(&w, bytes, s.len) == STATOR_OK;
    }
    cr_log_info("%u accepted", accepted);
    st_free(&w.mem, bytes);
    st_str_deinit(&s);
}

/* Many entries that name one range would be copied again and again: ranges may not overlap. */
Test(binary, constants_do_not_overlap)
{
    st_str s;
    to_binary(
        "stir 1 graph(param %a: u8[64] = {0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,"
        "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0},"
        " param %b: u8[1] = {7}) { return %a, %b }",
        &s);
    const uint64_t blobs = u64_at(&s, row_of(ST_STIRB_BLOBS) + 8);
    cr_assert_eq(u32_at(&s, blobs), 2);
    refuses(&s, blobs + 4 + 36 + 4, 0, 4, "overlaps another"); /* offset of the second */
    st_str_deinit(&s);
}

Test(binary, every_allocation_may_fail)
{
    st_str s, out;
    text_graph g;
    stator_diag *err = NULL;
    uint32_t failures = 0;
    to_binary(SAMPLE, &s);
    for (uint64_t k = 1;; k++) {
        st_str_init(&out, &w.mem);
        w.mem.fail_at = w.mem.requests + k;
        stator_status status = text_read(&w, s.data, s.len, NULL, NULL, &g, &err);
        if (status == STATOR_OK) {
            status = st_write_binary(g.graph, &out, &err);
        }
        w.mem.fail_at = 0;
        text_graph_free(&g);
        const int is_same =
            status == STATOR_OK && out.len == s.len && memcmp(out.data, s.data, s.len) == 0;
        st_str_deinit(&out);
        if (status == STATOR_OK) {
            cr_assert(is_same);
            break;
        }
        cr_assert_eq(st_diag_code(err), STATOR_RESOURCE_EXHAUSTED, "request %llu: %s",
                     (unsigned long long)k, st_diag_text(err));
        st_diag_release(err);
        err = NULL;
        failures++;
    }
    cr_assert_gt(failures, 30, "%u", failures);
    st_str_deinit(&s);
}
