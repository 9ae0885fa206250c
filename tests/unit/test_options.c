/* Option schemas and values: types, ranges, suggestions, environment, namespaces. */
#define _GNU_SOURCE
#include "core/plugins/options.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static st_mem mem;

static void begin(void)
{
    st_mem_init(&mem, NULL, NULL, NULL, 0);
}
static void end(void)
{
    cr_expect_eq(mem.live_blocks, 0);
}

TestSuite(options, .init = begin, .fini = end);

#define ROW(key_, type_, ...)                                                                      \
    {                                                                                              \
        .struct_size = sizeof(stator_option_desc), .type = STATOR_OPTION_##type_, .key = (key_),   \
        __VA_ARGS__                                                                                \
    }

static const stator_option_desc schema[] = {
    ROW("fast", BOOL, .default_text = "no", .flags = STATOR_OPTION_AFFECTS_CODE),
    ROW("level", I64, .default_text = "2", .min_i64 = 0, .max_i64 = 3,
        .flags = STATOR_OPTION_AFFECTS_CODE),
    ROW("ratio", F64, .default_text = "0.5", .min_f64 = 0.0, .max_f64 = 1.0,
        .flags = STATOR_OPTION_AFFECTS_CODE),
    ROW("mode", ENUM, .default_text = "plain", .enum_values = "plain,tiled,blocked",
        .flags = STATOR_OPTION_AFFECTS_CODE),
    ROW("fuse", LIST, .enum_values = "add,mul,relu", .flags = STATOR_OPTION_AFFECTS_CODE),
    ROW("cache", BYTES, .default_text = "64M"),
    ROW("token", STR, .flags = STATOR_OPTION_SECRET),
    ROW("max-regs", I64),
    ROW("speed", I64, .renamed_to = "level"),
    ROW("old", BOOL, .flags = STATOR_OPTION_DEPRECATED),
};
enum { N_SCHEMA = sizeof schema / sizeof schema[0] };

static const stator_option_desc cuda_schema[] = {
    ROW("max_regs", I64, .min_i64 = 16, .max_i64 = 255)};

static const stator_option_desc pass_schema[] = {
    ROW("limit", I64, .default_text = "1", .min_i64 = 1, .max_i64 = 8),
    ROW("token", STR, .flags = STATOR_OPTION_SECRET), ROW("text", STR)};

static bool foreign(void *self, uint32_t kind, const char *name, st_option_schema *out)
{
    (void)self;
    if (kind == STATOR_KIND_PASS) {
        *out = (st_option_schema){.options = pass_schema, .count = 3};
        return strcmp(name, "cuda.pass") == 0 || strcmp(name, "toy.pass") == 0;
    }
    *out = (st_option_schema){.options = cuda_schema, .count = 1};
    if (strcmp(name, "absent") == 0) {
        *out = (st_option_schema){.is_names_only = 1, .names_only = "width,height"};
        return true;
    }
    return strcmp(name, "cuda") == 0 || strcmp(name, "toy_two") == 0;
}

static stator_options *make(uint32_t n, const char *const *keys, const char *const *values,
                            uint32_t use_env, stator_diag **err)
{
    stator_options *options = NULL;
    const st_options_request request = {.item = "toy",
                                        .schema = schema,
                                        .schema_count = N_SCHEMA,
                                        .count = n,
                                        .keys = keys,
                                        .values = values,
                                        .use_env = use_env,
                                        .foreign = foreign};
    (void)!st_options_create(&mem, &request, &options, err);
    return options;
}

static stator_options *make_one(const char *key, const char *value)
{
    stator_diag *err = NULL;
    stator_options *options = make(1, &key, &value, 0, &err);
    cr_assert_not_null(options, "%s=%s: %s", key, value, st_diag_text(err));
    return options;
}

static void refuse(const char *key, const char *value, const char *text)
{
    stator_diag *err = NULL;
    stator_options *options = make(1, &key, &value, 0, &err);
    cr_expect_null(options, "%s=%s was taken", key, value);
    cr_expect_str_eq(st_diag_text(err), text);
    st_diag_release(err);
    st_options_destroy(options);
}

Test(options, defaults)
{
    stator_options *o = make(0, NULL, NULL, 0, NULL);
    cr_expect_eq(st_opt_api.get_bool(o, "fast"), 0);
    cr_expect_eq(st_opt_api.get_i64(o, "level"), 2);
    cr_expect_eq(st_opt_api.get_f64(o, "ratio"), 0.5);
    cr_expect_str_eq(st_opt_api.get_str(o, "mode"), "plain");
    cr_expect_eq(st_opt_api.get_i64(o, "cache"), 64 << 20);
    cr_expect_str_eq(st_opt_api.get_str(o, "token"), "");
    cr_expect_eq(st_opt_api.get_i64(o, "nobody"), 0);
    cr_expect_eq(st_opt_api.get_i64(o, "mode"), 0, "another type gives zero");
    st_options_destroy(o);
}

Test(options, values_by_type)
{
    static const char *const yes[] = {"1", "true", "Yes", "ON"};
    for (int i = 0; i < 4; i++) {
        stator_options *o = make_one("fast", yes[i]);
        cr_expect_eq(st_opt_api.get_bool(o, "fast"), 1);
        st_options_destroy(o);
    }
    static const struct {
        const char *text;
        int64_t value;
    } sizes[] = {{"0", 0}, {"17", 17}, {"4k", 4096}, {"2MiB", 2 << 20}, {"3G", INT64_C(3) << 30}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        stator_options *o = make_one("cache", sizes[i].text);
        cr_expect_eq(st_opt_api.get_i64(o, "cache"), sizes[i].value, "%s", sizes[i].text);
        st_options_destroy(o);
    }
    stator_options *o = make_one("toy.max-regs", "0x10");
    cr_expect_eq(st_opt_api.get_i64(o, "max-regs"), 16);
    st_options_destroy(o);
}

Test(options, refusals_name_type_range_and_choices)
{
    refuse("fast", "maybe",
           "option 'fast' of 'toy' is 'maybe', expected yes or no (also true/false, "
           "on/off, 1/0)");
    refuse("level", "x", "option 'level' of 'toy' is 'x', expected a whole number");
    refuse("level", "", "option 'level' of 'toy' is '', expected a whole number");
    refuse("level", "4", "option 'level' of 'toy' is 4, outside its range [0, 3]");
    refuse("level", "99999999999999999999",
           "option 'level' of 'toy' is '99999999999999999999', expected a whole number");
    refuse("ratio", "1.5", "option 'ratio' of 'toy' is 1.5, outside its range [0, 1]");
    refuse("ratio", "nan", "option 'ratio' of 'toy' is nan, outside its range [0, 1]");
    refuse("ratio", "0,5", "option 'ratio' of 'toy' is '0,5', expected a number");
    refuse("mode", "tield",
           "option 'mode' of 'toy' is 'tield' (did you mean 'tiled'?), expected one "
           "of: plain,tiled,blocked");
    refuse("fuse", "add,sub", "option 'fuse' of 'toy' is 'sub', expected one of: add,mul,relu");
    refuse("cache", "-1",
           "option 'cache' of 'toy' is '-1', expected a size in bytes (suffix K, M or "
           "G)");
    refuse("cache", "9999999999G",
           "option 'cache' of 'toy' is '9999999999G', expected a size in "
           "bytes (suffix K, M or G)");
    refuse("levl", "1",
           "'toy' has no option 'levl' (did you mean 'level'?); its options: fast, "
           "level, ratio, mode, fuse, cache, token, max-regs, old");
}

Test(options, one_key_given_twice)
{
    static const char *const keys[] = {"level", "level"};
    static const char *const values[] = {"1", "2"};
    stator_diag *err = NULL;
    cr_expect_null(make(2, keys, values, 0, &err));
    cr_expect_str_eq(st_diag_text(err), "option 'level' of 'toy' is given twice");
    st_diag_release(err);
    static const char *const lists[] = {"fuse", "fuse"};
    static const char *const words[] = {"add", "relu"};
    stator_options *o = make(2, lists, words, 0, NULL);
    cr_assert_not_null(o);
    cr_expect_str_eq(st_opt_api.get_str(o, "fuse"), "add,relu", "a list grows");
    st_options_destroy(o);
}

Test(options, namespaces)
{
    stator_options *o = make_one("toy.level", "3");
    cr_expect_eq(st_opt_api.get_i64(o, "level"), 3);
    st_options_destroy(o);
    o = make_one("cuda.max_regs", "64");
    cr_expect_eq(st_opt_api.get_i64(o, "max_regs"), 0, "a foreign value is checked, not passed on");
    st_options_destroy(o);
    st_options_destroy(make_one("absent.width", "anything"));
    refuse("cuda.max_regs", "8", "option 'max_regs' of 'cuda' is 8, outside its range [16, 255]");
    refuse("cuda.max_rges", "64",
           "'cuda' has no option 'max_rges' (did you mean 'max_regs'?); its "
           "options: max_regs");
    refuse("absent.depth", "1", "'absent' has no option 'depth'; its options: width,height");
    refuse("nobody.x", "1",
           "option 'nobody.x' is for 'nobody', and there is no backend or frontend "
           "of that name");
}

Test(options, namespaced_options_wait_for_their_backend)
{
    static const char *const keys[] = {"cuda.max_regs", "level", "toy.fuse", "absent.width",
                                       "cuda.pass:limit"};
    static const char *const values[] = {"64", "2", "add", "7", "3"};
    stator_options *o = make(5, keys, values, 0, NULL);
    st_option_pairs pairs;
    cr_assert_not_null(o);
    cr_assert_eq(st_options_foreign(o, 0, "cuda", &pairs, NULL), STATOR_OK);
    cr_assert_eq(pairs.count, 3);
    cr_expect(strcmp(pairs.keys[0], "max_regs") == 0 && strcmp(pairs.values[0], "64") == 0);
    cr_expect(strcmp(pairs.keys[1], "absent.width") == 0 && strcmp(pairs.values[1], "7") == 0);
    cr_expect(strcmp(pairs.keys[2], "cuda.pass:limit") == 0 && strcmp(pairs.values[2], "3") == 0);
    st_option_pairs_deinit(&pairs);
    cr_assert_eq(st_options_foreign(o, STATOR_KIND_PASS, "cuda.pass", &pairs, NULL), STATOR_OK);
    cr_assert_eq(pairs.count, 3);
    cr_expect_str_eq(pairs.keys[0], "cuda.max_regs");
    cr_expect(strcmp(pairs.keys[2], "limit") == 0 && strcmp(pairs.values[2], "3") == 0);
    st_option_pairs_deinit(&pairs);
    cr_assert_eq(st_options_foreign(o, STATOR_KIND_PASS, "cuda", &pairs, NULL), STATOR_OK);
    cr_expect_str_eq(pairs.keys[0], "cuda.max_regs", "the pass 'cuda' is not the backend 'cuda'");
    st_option_pairs_deinit(&pairs);
    st_options_destroy(o);
    o = make_one("level", "1");
    cr_assert_eq(st_options_foreign(o, 0, "cuda", &pairs, NULL), STATOR_OK);
    cr_expect_eq(pairs.count, 0);
    st_option_pairs_deinit(&pairs);
    cr_assert_eq(st_options_foreign(NULL, 0, "cuda", &pairs, NULL), STATOR_OK);
    cr_expect_eq(pairs.count, 0);
    st_options_destroy(o);
}

Test(options, pass_options_are_prefixed_by_the_pass)
{
    refuse("cuda.pass:limit", "9", "option 'limit' of 'cuda.pass' is 9, outside its range [1, 8]");
    refuse("cuda.pass:limmit", "1",
           "'cuda.pass' has no option 'limmit' (did you mean 'limit'?); its options: limit, "
           "token, text");
    refuse("cuda.pas:limit", "1",
           "option 'cuda.pas:limit' is for 'cuda.pas', and there is no pass of that name");
    refuse(":limit", "1", "option ':limit' is for '', and there is no pass of that name");
    static const char *const keys[] = {"cuda.pass:limit", "cuda.pass:limit"};
    static const char *const values[] = {"1", "1"};
    stator_diag *err = NULL;
    cr_expect_null(make(2, keys, values, 0, &err));
    cr_expect_str_eq(st_diag_text(err), "option 'limit' of 'cuda.pass' is given twice");
    st_diag_release(err);
}

Test(options, every_pass_option_is_part_of_the_code_key)
{
    static const char *const keys[] = {"toy.pass:limit", "token", "text"};
    static const char *const values[] = {"3", "s3cret", "a limit=4\n\\s"};
    stator_options *options = NULL;
    const st_options_request request = {.item = "toy.pass",
                                        .kind = STATOR_KIND_PASS,
                                        .schema = pass_schema,
                                        .schema_count = 3,
                                        .count = 3,
                                        .keys = keys,
                                        .values = values,
                                        .foreign = foreign};
    st_str text;
    st_str_init(&text, &mem);
    cr_assert_eq(st_options_create(&mem, &request, &options, NULL), STATOR_OK);
    st_options_code_key(options, &text);
    cr_expect_str_eq(text.data, "limit=3\ntext=a\\slimit=4\\n\\\\s\n", "a value is one word");
    st_str_deinit(&text);
    st_options_destroy(options);
}

Test(options, environment)
{
    setenv("STATOR_OPT_TOY_LEVEL", "1", 1);
    setenv("STATOR_OPT_TOY_MAX_REGS", "40", 1);
    setenv("STATOR_OPT_TOY_TWO_LEVEL", "belongs to the item toy_two", 1);
    setenv("STATOR_OPT_TOY_PASS_LIMIT", "belongs to the pass toy.pass", 1);
    stator_diag *err = NULL;
    stator_options *o = make(0, NULL, NULL, 1, &err);
    cr_assert_not_null(o, "%s", st_diag_text(err));
    cr_expect_eq(st_opt_api.get_i64(o, "level"), 1);
    cr_expect_eq(st_opt_api.get_i64(o, "max-regs"), 40);
    st_options_destroy(o);
    const char *key = "level";
    const char *value = "3";
    o = make(1, &key, &value, 1, NULL);
    cr_expect_eq(st_opt_api.get_i64(o, "level"), 3, "what is given wins");
    st_options_destroy(o);
    o = make(0, NULL, NULL, 0, NULL);
    cr_expect_eq(st_opt_api.get_i64(o, "level"), 2, "the environment can be left out");
    st_options_destroy(o);
    setenv("STATOR_OPT_TOY_LEVVEL", "1", 1);
    cr_expect_null(make(0, NULL, NULL, 1, &err));
    cr_expect_not_null(strstr(st_diag_text(err),
                              "no option 'levvel' (from the environment) (did you "
                              "mean 'level'?)"),
                       "%s", st_diag_text(err));
    st_diag_release(err);
}

Test(options, renamed_and_deprecated_keys_warn)
{
    stator_options *o = make_one("speed", "1");
    cr_expect_eq(st_opt_api.get_i64(o, "level"), 1);
    cr_expect_str_eq(st_options_warnings(o), "option 'speed' of 'toy' is now called 'level'\n");
    st_options_destroy(o);
    o = make_one("old", "1");
    cr_expect_str_eq(st_options_warnings(o), "option 'old' of 'toy' is deprecated\n");
    st_options_destroy(o);
}

Test(options, code_key_holds_what_affects_code)
{
    static const char *const keys[] = {"fast", "ratio", "token"};
    static const char *const values[] = {"ON", "0.250", "s3cret"};
    stator_options *o = make(3, keys, values, 0, NULL);
    st_str text;
    st_str_init(&text, &mem);
    st_options_code_key(o, &text);
    cr_expect_str_eq(text.data, "fast=1\nlevel=2\nratio=0.25\nmode=plain\nfuse=\n");
    st_str_deinit(&text);
    st_options_destroy(o);
}

Test(options, schemas_are_checked)
{
    static const struct {
        stator_option_desc rows[2];
        const char *in_text;
    } bad[] = {
        {{ROW("a", I64), ROW("a", BOOL)}, "occurs twice"},
        {{ROW("", I64), ROW("b", BOOL)}, "no valid key"},
        {{ROW("A b", I64), ROW("b", BOOL)}, "no valid key"},
        {{ROW("a", ENUM), ROW("b", BOOL)}, "without values"},
        {{ROW("a", I64, .min_i64 = 3, .max_i64 = 1), ROW("b", BOOL)}, "empty range"},
        {{ROW("a", I64, .default_text = "x"), ROW("b", BOOL)}, "default 'x'"},
        {{ROW("a", I64, .renamed_to = "c"), ROW("b", BOOL)}, "renamed to 'c'"},
        {{ROW("a", I64, .renamed_to = "a"), ROW("b", BOOL)}, "renamed to 'a'"},
    };
    cr_expect_eq(st_options_check_schema(schema, N_SCHEMA, NULL), STATOR_OK);
    cr_expect_eq(st_options_check_schema(NULL, 0, NULL), STATOR_OK);
    cr_expect_neq(st_options_check_schema(NULL, 3, NULL), STATOR_OK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        stator_diag *err = NULL;
        cr_expect_eq(st_options_check_schema(bad[i].rows, 2, &err), STATOR_INVALID_ARGUMENT);
        cr_expect_not_null(strstr(st_diag_text(err), bad[i].in_text), "%zu: %s", i,
                           st_diag_text(err));
        st_diag_release(err);
    }
}

Test(options, every_allocation_may_fail)
{
    static const char *const keys[] = {"mode", "fuse", "speed"};
    static const char *const values[] = {"tiled", "add,mul", "1"};
    for (uint64_t n = 1; n < 100; n++) {
        stator_diag *err = NULL;
        mem.requests = 0;
        mem.fail_at = n;
        stator_options *o = make(3, keys, values, 0, &err);
        cr_expect(o != NULL || st_diag_code(err) == STATOR_RESOURCE_EXHAUSTED, "n = %d", (int)n);
        mem.fail_at = 0;
        st_diag_release(err);
        st_options_destroy(o);
    }
}
