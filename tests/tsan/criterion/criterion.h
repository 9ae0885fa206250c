/* Stands in for Criterion in the tsan build, where Criterion's own main crashes before any test.
 *
 * The tests of one file run in order in one process; a failed assertion prints its place and ends
 * the program with status 1. Holds the names that the unit tests use, with their meaning in
 * Criterion; a missing one is a compile error. */
#ifndef STATOR_TESTS_CRITERION_H
#define STATOR_TESTS_CRITERION_H

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct st_test_options {
    void (*init)(void);
    void (*fini)(void);
    double timeout;
    int exit_code;
    int signal;
    int disabled;
    const char *description;
};

struct st_test_entry {
    const char *suite;
    const char *name;
    void (*run)(void);
    struct st_test_options options;
    struct st_test_entry *next;
};

static struct st_test_entry *st_test_first;
static struct st_test_options st_suite_options;

__attribute__((unused)) static void st_test_add(struct st_test_entry *entry)
{
    struct st_test_entry **at = &st_test_first;
    while (*at != NULL) {
        at = &(*at)->next;
    }
    *at = entry;
}

/* Tests that end by a status or a signal belong to the build with Criterion. */
#define Test(suite_, name_, ...)                                                                   \
    static void st_run_##suite_##_##name_(void);                                                   \
    static struct st_test_entry st_entry_##suite_##_##name_ = {                                    \
        #suite_, #name_, st_run_##suite_##_##name_, {__VA_ARGS__}, NULL};                          \
    __attribute__((constructor)) static void st_add_##suite_##_##name_(void)                       \
    {                                                                                              \
        st_test_add(&st_entry_##suite_##_##name_);                                                 \
    }                                                                                              \
    static void st_run_##suite_##_##name_(void)

#define TestSuite(suite_, ...)                                                                     \
    __attribute__((constructor)) static void st_suite_##suite_(void)                               \
    {                                                                                              \
        st_suite_options = (struct st_test_options){__VA_ARGS__};                                  \
    }                                                                                              \
    struct st_test_options

#define ST_CHECK(ok, text, ...)                                                                    \
    ((ok) ? (void)0                                                                                \
          : (fprintf(stderr, "%s:%d: %s ", __FILE__, __LINE__, text),                              \
             fprintf(stderr, " " __VA_ARGS__), fprintf(stderr, "\n"), exit(1)))

#define cr_assert(x, ...) ST_CHECK((x), #x, __VA_ARGS__)
#define cr_assert_not(x, ...) ST_CHECK(!(x), "not " #x, __VA_ARGS__)
#define cr_assert_fail(...) ST_CHECK(0, "fail", __VA_ARGS__)
#define cr_assert_eq(a, b, ...) ST_CHECK((a) == (b), #a " == " #b, __VA_ARGS__)
#define cr_assert_neq(a, b, ...) ST_CHECK((a) != (b), #a " != " #b, __VA_ARGS__)
#define cr_assert_lt(a, b, ...) ST_CHECK((a) < (b), #a " < " #b, __VA_ARGS__)
#define cr_assert_leq(a, b, ...) ST_CHECK((a) <= (b), #a " <= " #b, __VA_ARGS__)
#define cr_assert_gt(a, b, ...) ST_CHECK((a) > (b), #a " > " #b, __VA_ARGS__)
#define cr_assert_geq(a, b, ...) ST_CHECK((a) >= (b), #a " >= " #b, __VA_ARGS__)
#define cr_assert_null(a, ...) ST_CHECK((a) == NULL, #a " is NULL", __VA_ARGS__)
#define cr_assert_not_null(a, ...) ST_CHECK((a) != NULL, #a " is not NULL", __VA_ARGS__)
#define cr_assert_str_eq(a, b, ...) ST_CHECK(strcmp((a), (b)) == 0, #a " equals " #b, __VA_ARGS__)
#define cr_assert_str_neq(a, b, ...) ST_CHECK(strcmp((a), (b)) != 0, #a " differs", __VA_ARGS__)
#define cr_assert_arr_eq(a, b, n, ...)                                                             \
    ST_CHECK(memcmp((a), (b), (n)) == 0, #a " equals " #b, __VA_ARGS__)
#define cr_assert_float_eq(a, b, e, ...)                                                           \
    ST_CHECK(fabs((double)(a) - (double)(b)) <= (double)(e), #a " near " #b, __VA_ARGS__)
#define cr_expect cr_assert
#define cr_expect_not cr_assert_not
#define cr_expect_eq cr_assert_eq
#define cr_expect_neq cr_assert_neq
#define cr_expect_lt cr_assert_lt
#define cr_expect_leq cr_assert_leq
#define cr_expect_gt cr_assert_gt
#define cr_expect_geq cr_assert_geq
#define cr_expect_null cr_assert_null
#define cr_expect_not_null cr_assert_not_null
#define cr_expect_str_eq cr_assert_str_eq
#define cr_expect_arr_eq cr_assert_arr_eq
#define cr_expect_float_eq cr_assert_float_eq
#define cr_log_info(...) (fprintf(stderr, __VA_ARGS__), fprintf(stderr, "\n"))
#define cr_log_warn cr_log_info
#define cr_log_error cr_log_info
#define cr_skip_test(...) return

static void st_test_run(const struct st_test_entry *test)
{
    void (*init)(void) = test->options.init ? test->options.init : st_suite_options.init;
    void (*fini)(void) = test->options.fini ? test->options.fini : st_suite_options.fini;
    if (test->options.disabled || test->options.exit_code || test->options.signal) {
        printf("skip %s.%s: it ends its process\n", test->suite, test->name);
        return;
    }
    if (init != NULL) {
        init();
    }
    test->run();
    if (fini != NULL) {
        fini();
    }
    printf("ok %s.%s\n", test->suite, test->name);
}

/* Weak: a support file that includes this has one too, and no tests. */
__attribute__((weak)) int main(void)
{
    for (const struct st_test_entry *test = st_test_first; test != NULL; test = test->next) {
        st_test_run(test);
    }
    return st_test_first == NULL;
}

#endif
