/* What the registry's tests share: a small host table, a temporary folder of the right mode, copies
 * and patches of test plugins, a registry over them. Failures end the test. */
#ifndef STATOR_TEST_SUPPORT_REGISTRY_H
#define STATOR_TEST_SUPPORT_REGISTRY_H

#include "core/plugins/registry.h"

#define TEST_MUTANTS ST_TEST_BUILD "/tests/mutants"

typedef struct test_registry {
    st_mem mem;
    stator_host host;
    char folder[256]; /* 0755, removed by test_registry_end */
    st_registry *registry;
} test_registry;

/* A host of this ABI over an empty folder, an environment without STATOR_ variables, HOME and the
 * XDG folders inside the temporary one. */
void test_registry_begin(test_registry *t, uint16_t abi_major, uint16_t abi_minor);
/* Destroys the registry, checks that no block is left, removes the folder. */
void test_registry_end(test_registry *t);
/* Copies <build>/tests/mutants/<mutant>.so to <folder>/<name> ("sub/x.so" makes the folder). */
void test_put_mutant(test_registry *t, const char *mutant, const char *name);
void test_put_bytes(test_registry *t, const char *name, const void *bytes, uint64_t size);
/* Overwrites bytes of a file in the folder; offset from the end when negative. */
void test_patch(test_registry *t, const char *name, int64_t offset, const void *bytes,
                uint64_t size);
/* Replaces the first occurrence of a text in the file by another of the same length. */
void test_patch_text(test_registry *t, const char *name, const char *from, const char *to);
/* <folder>/<name>, in a buffer that lives until the next call but three. */
const char *test_path(const test_registry *t, const char *name);

/* Creates the registry over `dirs` (of plugin-dir), or over the folder alone when n is 0. */
void test_open(test_registry *t, uint32_t flags, uint32_t n, const char *const *dirs);
/* The row of that name (found by its file for kind unknown); fails the test when there is none. */
const st_registry_item *test_row(test_registry *t, const char *name);
/* Its info. */
stator_item_info test_info(test_registry *t, const char *name);
/* State as listed; also checks that reason and hint are there exactly when it is not AVAILABLE. */
void test_expect_state(test_registry *t, const char *name, const char *state,
                       const char *in_reason);
/* Loads; OK or the state that it then has. */
void test_expect_load(test_registry *t, const char *name, const char *state, const char *in_reason);
/* What the mutants have done so far ("" nothing). */
const char *test_marks(const test_registry *t);

#endif
