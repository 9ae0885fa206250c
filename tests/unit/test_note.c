/* The readers behind the listing, fed by hand: JSON, notes, ELF files, the linker's cache. All of
 * it is hostile input. */
#define _GNU_SOURCE
#include "core/base/str.h"
#include "core/plugins/elf_reader.h"
#include "core/plugins/ldcache.h"
#include "core/plugins/note.h"
#include "core/plugins/note_json.h"

#include <criterion/criterion.h>
#include <elf.h>
#include <fcntl.h>
#include <stator/plugin.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static st_mem mem;
static st_arena arena;

static void begin(void)
{
    st_mem_init(&mem, NULL, NULL, NULL, 0);
    st_arena_init(&arena, &mem);
}

static void end(void)
{
    st_arena_deinit(&arena);
    cr_expect_eq(mem.live_blocks, 0);
}

TestSuite(note, .init = begin, .fini = end);

/* ---- JSON ---- */

static st_json *json(const char *text)
{
    st_json *value = NULL;
    stator_diag *err = NULL;
    cr_assert_eq(st_json_parse(text, strlen(text), &arena, &value, &err), STATOR_OK, "%s: %s", text,
                 st_diag_text(err));
    return value;
}

static void json_fails(const char *text, uint64_t len, const char *in_text)
{
    st_json *value = NULL;
    stator_diag *err = NULL;
    cr_expect_eq(st_json_parse(text, len, &arena, &value, &err), STATOR_DATA_LOSS, "%s", text);
    cr_expect_not_null(strstr(st_diag_text(err), in_text), "%s: '%s'", text, st_diag_text(err));
    st_diag_release(err);
}

Test(note, json_values)
{
    const st_json *v = json(" {\"a\":[1,-2,9223372036854775807,-9223372036854775808,1e3,0.5],"
                            "\"b\":\"x\\u00e9\\ud83d\\ude00\\n\\\"\",\"c\":true,\"d\":null} ");
    const st_json *a = st_json_member(v, "a");
    cr_assert_eq(a->count, 6);
    cr_expect_eq(a->first->number, 1);
    cr_expect_eq(a->first->next->number, -2);
    cr_expect_eq(a->first->next->next->number, INT64_MAX);
    cr_expect_eq(a->first->next->next->next->number, INT64_MIN);
    cr_expect_eq(a->first->next->next->next->next->type, ST_JSON_FLOAT);
    cr_expect_str_eq(st_json_member(v, "b")->text, "x\xC3\xA9\xF0\x9F\x98\x80 \"");
    cr_expect_eq(st_json_member(v, "c")->number, 1);
    cr_expect_eq(st_json_member(v, "d")->type, ST_JSON_NULL);
    cr_expect_null(st_json_member(v, "e"));
    cr_expect_eq(json("99999999999999999999")->type, ST_JSON_FLOAT);
}

Test(note, wrong_json_is_refused)
{
    static const struct {
        const char *text;
        const char *in_text;
    } rows[] = {
        {"", "ends early"},
        {"{", "member name"},
        {"{\"a\":1,}", "member name"},
        {"{\"a\" 1}", "expected ':'"},
        {"{\"a\":1,\"a\":2}", "twice"},
        {"[1 2]", "','"},
        {"[1", "','"},
        {"\"abc", "no end"},
        {"\"a\\", "no end"},
        {"\"\\u12", "escape"},
        {"\"\\u0000\"", "control"},
        {"\"\\ud800x\"", "surrogate"},
        {"\"\\udc00\"", "surrogate"},
        {"\"a\tb\"", "control"},
        {"\"\xC0\x80\"", "UTF-8"},
        {"\"\xED\xA0\x80\"", "UTF-8"},
        {"\"\xF4\x90\x80\x80\"", "UTF-8"},
        {"\"\xE2\x82", "UTF-8"},
        {"01", "number"},
        {"-", "number"},
        {"1.", "number"},
        {"1e", "number"},
        {"nul", "expected a value"},
        {"1 1", "after the value"},
        {"[[[[[[[[[1]]]]]]]]]", "deeply"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        json_fails(rows[i].text, strlen(rows[i].text), rows[i].in_text);
    }
    json_fails("\"a\0b\"", 5, "control");
}

Test(note, json_with_too_many_values_is_refused)
{
    st_str text;
    st_str_init(&text, &mem);
    st_str_add(&text, "[0");
    for (int i = 0; i < 5000; i++) {
        st_str_add(&text, ",0");
    }
    st_str_add(&text, "]");
    json_fails(text.data, text.len, "too many");
    st_str_deinit(&text);
}

/* ---- notes ---- */

static st_note note(const char *text)
{
    st_note n;
    stator_diag *err = NULL;
    cr_assert_eq(st_note_parse(text, strlen(text), &arena, &n, &err), STATOR_OK, "%s: %s", text,
                 st_diag_text(err));
    return n;
}

#define HEAD "{\"abi\":\"0.9\",\"name\":\"toy\",\"version\":\"1.2\""

Test(note, every_member_is_read)
{
    const st_note n =
        note(HEAD ",\"kinds\":[\"backend\",\"frontend\"],\"triple\":\"t\",\"sanitizer\":"
                  "\"address\",\"min_host_minor\":4,\"requires\":[\"libcuda.so.1\","
                  "\"/dev/kfd\"],\"tags\":[\"gpu\",\"stable\"],\"priority\":-5,"
                  "\"options\":[\"a\",\"b\"],\"extensions\":[\"x\"],\"aliases\":[\"y\"],"
                  "\"description\":\"d\",\"unknown\":{\"x\":[1]}}");
    cr_expect_str_eq(n.name, "toy");
    cr_expect_str_eq(n.version, "1.2");
    cr_expect_eq(n.abi_major, 0);
    cr_expect_eq(n.abi_minor, 9);
    cr_expect_eq(n.min_host_minor, 4);
    cr_expect_str_eq(n.sanitizer, "address");
    cr_assert_eq(n.requires_count, 2);
    cr_expect_str_eq(n.requires_[1], "/dev/kfd");
    cr_assert_eq(n.item_count, 2);
    cr_expect_eq(n.items[1].kind, STATOR_KIND_FRONTEND);
    cr_expect_str_eq(n.items[0].tags, "gpu,stable");
    cr_expect_str_eq(n.items[1].extensions, "x");
    cr_expect_eq(n.items[0].option_count, 2);
    cr_expect_eq(n.items[0].priority, -5);
}

Test(note, smallest_note_has_defaults)
{
    const st_note n = note(HEAD ",\"kinds\":[\"oplib\"]}");
    cr_expect_eq(n.min_host_minor, 9);
    cr_expect_eq(n.has_min_host_minor, 0);
    cr_expect_null(n.triple);
    cr_expect_eq(n.items[0].kind, STATOR_KIND_OPLIB);
}

Test(note, broken_rules_are_named)
{
    static const struct {
        const char *text;
        const char *in_text;
    } rows[] = {
        {"[]", "not a JSON object"},
        {"{\"abi\":\"0.9\"}", "no 'name'"},
        {"{\"name\":\"a b\"}", "not made of letters"},
        {"{\"name\":\"../x\"}", "not made of letters"},
        {"{\"name\":7}", "not a string"},
        {"{\"name\":\"x\",\"abi\":\"0.9\"}", "no 'version'"},
        {"{\"name\":\"x\",\"version\":\"1\"}", "no 'abi'"},
        {"{\"name\":\"x\",\"version\":\"1\",\"abi\":\"9\"}", "major.minor"},
        {"{\"name\":\"x\",\"version\":\"1\",\"abi\":\"0.9.1\"}", "major.minor"},
        {"{\"name\":\"x\",\"version\":\"1\",\"abi\":\"0.99999\"}", "major.minor"},
        {"{\"name\":\"x\",\"version\":\"1\",\"abi\":\"-1.0\"}", "major.minor"},
        {HEAD "}", "no 'kinds'"},
        {HEAD ",\"kinds\":[]}", "no 'kinds'"},
        {HEAD ",\"kinds\":[\"backend\",\"backend\"]}", "twice"},
        {HEAD ",\"kinds\":[\"engine\"]}", "unknown kind 'engine'"},
        {HEAD ",\"kinds\":\"backend\"}", "not an array"},
        {HEAD ",\"kinds\":[\"pass\"],\"requires\":[\"a/b\"]}", "neither a soname"},
        {HEAD ",\"kinds\":[\"pass\"],\"requires\":[\"/dev/a|/b\"]}", "alternatives of one kind"},
        {HEAD ",\"kinds\":[\"pass\"],\"requires\":[\"/a|b.so\"]}", "alternatives of one kind"},
        {HEAD ",\"kinds\":[\"pass\"],\"requires\":[\"a.so|\"]}", "alternatives of one kind"},
        {HEAD ",\"kinds\":[\"pass\"],\"tags\":[\"a,b\"]}", "comma"},
        {HEAD ",\"kinds\":[\"pass\"],\"priority\":1.5}", "whole number"},
        {HEAD ",\"kinds\":[\"pass\"],\"min_host_minor\":-1}", "whole number"},
        {HEAD ",\"kinds\":[\"pass\"],\"items\":[]}", "1 to 256"},
        {HEAD ",\"kinds\":[\"pass\"],\"items\":[{\"kind\":\"pass\"}]}", "no 'name'"},
        {HEAD ",\"kinds\":[\"pass\"],\"items\":[{\"kind\":\"backend\",\"name\":\"x\"}]}",
         "kinds of its"},
        {HEAD ",\"kinds\":[\"backend\"],\"items\":[{\"kind\":\"backend\",\"name\":\"x.y\"}]}",
         "no valid name"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        st_note n;
        stator_diag *err = NULL;
        cr_expect_eq(st_note_parse(rows[i].text, strlen(rows[i].text), &arena, &n, &err),
                     STATOR_DATA_LOSS, "%s", rows[i].text);
        cr_expect_not_null(strstr(st_diag_text(err), rows[i].in_text), "%s: '%s'", rows[i].text,
                           st_diag_text(err));
        st_diag_release(err);
    }
}

/* ---- note segments ---- */

static uint64_t put_note(uint8_t *at, const char *owner, uint32_t type, const char *desc)
{
    const uint32_t sizes[3] = {(uint32_t)strlen(owner) + 1, (uint32_t)strlen(desc), type};
    memcpy(at, sizes, sizeof sizes);
    const uint64_t desc_at = sizeof sizes + ((sizes[0] + 3u) & ~3u);
    memset(at + sizeof sizes, 0, desc_at - sizeof sizes + sizes[1] + 3u);
    memcpy(at + sizeof sizes, owner, sizes[0]);
    memcpy(at + desc_at, desc, sizes[1]);
    return (desc_at + sizes[1] + 3u) & ~(uint64_t)3;
}

Test(note, segments_are_scanned_for_notes)
{
    uint8_t bytes[512];
    const uint8_t *text = NULL;
    const uint8_t *id = NULL;
    uint64_t text_len = 0;
    uint64_t id_len = 0;
    uint64_t n = put_note(bytes, "GNU", NT_GNU_BUILD_ID, "0123456789");
    n += put_note(bytes + n, "Other", 1, "x");
    n += put_note(bytes + n, "Stator", 2, "wrong type");
    n += put_note(bytes + n, "Stator", 1, "{}");
    cr_assert_eq(st_elf_scan_notes(bytes, n, 4, &text, &text_len, &id, &id_len), 1);
    cr_expect_eq(text_len, 2);
    cr_expect_eq(memcmp(text, "{}", 2), 0);
    cr_expect_eq(id_len, 10);
    cr_expect_eq(st_elf_scan_notes(bytes, n - 4, 4, &text, &text_len, &id, &id_len), -1);
    n += put_note(bytes + n, "Stator", 1, "{}");
    cr_expect_eq(st_elf_scan_notes(bytes, n, 4, &text, &text_len, &id, &id_len), 2);
    memset(bytes, 0xFF, 64);
    cr_expect_eq(st_elf_scan_notes(bytes, 64, 8, &text, &text_len, &id, &id_len), -1);
    cr_expect_eq(st_elf_scan_notes(bytes, 11, 4, &text, &text_len, &id, &id_len), 0);
}

/* ---- ELF files ---- */

static uint8_t *read_file(const char *path, uint64_t *out_size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    cr_assert_geq(fd, 0, "%s is not built", path);
    cr_assert_eq(fstat(fd, &st), 0);
    uint8_t *bytes = st_alloc(&mem, (uint64_t)st.st_size, 16);
    cr_assert_eq(read(fd, bytes, (size_t)st.st_size), (ssize_t)st.st_size);
    close(fd);
    *out_size = (uint64_t)st.st_size;
    return bytes;
}

#define GOOD ST_TEST_BUILD "/tests/mutants/good.so"

Test(note, elf_of_a_plugin)
{
    st_elf_source source = {.fd = -1};
    uint8_t *bytes = read_file(GOOD, &source.size);
    source.bytes = bytes;
    st_elf elf;
    cr_assert_eq(st_elf_read(&source, &arena, &elf, NULL), STATOR_OK);
    cr_expect_eq(elf.is_read, 1);
    cr_expect_eq(elf.machine, st_elf_host_machine());
    cr_assert_not_null(elf.note);
    cr_expect_not_null(memmem(elf.note, elf.note_len, "\"name\":\"good\"", 13));
    cr_expect_eq(strlen(elf.build_id), 40);
    int has_libc = 0;
    for (uint32_t i = 0; i < elf.needed_count; i++) {
        has_libc |= strcmp(elf.needed[i], "libc.so.6") == 0;
    }
    cr_expect(has_libc);
    st_free(&mem, bytes);
}

/* Every truncation, and every byte of the headers set to extreme values: an error or a result, no
 * read outside (the sanitizer build watches). */
Test(note, truncated_and_damaged_elf_is_harmless)
{
    st_elf_source source = {.fd = -1};
    uint8_t *bytes = read_file(GOOD, &source.size);
    const uint64_t size = source.size;
    uint8_t *copy = st_alloc(&mem, size, 16);
    st_elf elf;
    for (uint64_t n = 0; n < size; n += n < 2048 ? 1 : 509) {
        uint8_t *cut = st_alloc(&mem, n, 16); /* exact, so that a read past it is seen */
        memcpy(cut, bytes, n);
        source.bytes = cut;
        source.size = n;
        cr_expect_neq(st_elf_read(&source, &arena, &elf, NULL), STATOR_OK, "cut at %llu",
                      (unsigned long long)n);
        st_arena_reset(&arena);
        st_free(&mem, cut);
    }
    static const uint8_t values[] = {0x00, 0x01, 0x7F, 0x80, 0xFF};
    source.bytes = copy;
    source.size = size;
    for (uint64_t at = 16; at < 1024; at++) {
        for (size_t v = 0; v < sizeof values; v++) {
            memcpy(copy, bytes, size);
            copy[at] = values[v];
            (void)st_elf_read(&source, &arena, &elf, NULL);
            st_arena_reset(&arena);
        }
    }
    st_free(&mem, copy);
    st_free(&mem, bytes);
}

/* ---- libraries ---- */

Test(note, missing_libraries_are_named)
{
    st_ldcache *cache = NULL;
    st_missing missing;
    cr_assert_eq(st_ldcache_create(&mem, &cache, NULL), STATOR_OK);
    cr_assert_eq(st_ldcache_check_soname(cache, "libc.so.6", &missing, NULL), STATOR_OK);
    cr_expect_null(missing.soname);
    cr_assert_eq(st_ldcache_check_soname(cache, "libgcc_s.so.1", &missing, NULL), STATOR_OK);
    cr_expect_null(missing.soname);
    cr_assert_eq(st_ldcache_check_soname(cache, "libnobody.so.7", &missing, NULL), STATOR_OK);
    cr_expect_str_eq(missing.soname, "libnobody.so.7");
    cr_expect_null(missing.needed_by);
    st_ldcache_destroy(cache);
}

/* A plugin's library that is there but misses one of its own: the walk names both. */
Test(note, missing_library_of_a_library_is_named)
{
    st_elf_source source = {.fd = -1};
    uint8_t *bytes = read_file(ST_TEST_BUILD "/tests/mutants/missing_library.so", &source.size);
    source.bytes = bytes;
    st_elf elf;
    cr_assert_eq(st_elf_read(&source, &arena, &elf, NULL), STATOR_OK);
    const char *const needed[] = {"missing_library.so"};
    const st_elf outer = {.needed = needed, .needed_count = 1, .runpath = "/nowhere:$ORIGIN"};
    st_ldcache *cache = NULL;
    st_missing missing;
    cr_assert_eq(st_ldcache_create(&mem, &cache, NULL), STATOR_OK);
    cr_assert_eq(st_ldcache_check(cache, &outer, ST_TEST_BUILD "/tests/mutants", &missing, NULL),
                 STATOR_OK);
    cr_assert_not_null(missing.soname);
    cr_expect_str_eq(missing.soname, "libst_test_gone.so");
    cr_expect_str_eq(missing.needed_by, "missing_library.so");
    st_ldcache_destroy(cache);
    st_free(&mem, bytes);
}

Test(note, cache_file_of_this_machine_and_damaged_ones)
{
    uint64_t size = 0;
    uint8_t *bytes = read_file("/etc/ld.so.cache", &size);
    uint32_t at = 0;
    const char *path = st_ldcache_lookup(bytes, size, "libc.so.6", &at);
    cr_assert_not_null(path);
    cr_expect_not_null(strstr(path, "libc.so.6"));
    for (uint64_t n = 0; n < 4096 && n < size; n++) {
        uint8_t *cut = st_alloc(&mem, n, 16);
        memcpy(cut, bytes, n);
        at = 0;
        (void)st_ldcache_lookup(cut, n, "libc.so.6", &at);
        st_free(&mem, cut);
    }
    for (uint64_t i = 0; i < 4096 && i < size; i++) {
        const uint8_t kept = bytes[i];
        bytes[i] = 0xFF;
        at = 0;
        path = st_ldcache_lookup(bytes, size, "libm.so.6", &at);
        cr_expect(path == NULL || ((const uint8_t *)path >= bytes &&
                                   (const uint8_t *)path + strlen(path) < bytes + size));
        bytes[i] = kept;
    }
    st_free(&mem, bytes);
}
