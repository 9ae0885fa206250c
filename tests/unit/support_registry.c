/* See support_registry.h. */
#define _GNU_SOURCE
#include "support_registry.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- a host table that is enough for plugins that do nothing ---- */

static stator_diag *diag_create(stator_status code, const char *text, uint64_t len)
{
    return st_diag_create(code, text, len);
}

static void diag_set_hint(stator_diag *diag, const char *hint)
{
    st_diag_set_hint(diag, "%s", hint);
}

static const stator_diag_api diag_api = {.struct_size = sizeof(stator_diag_api),
                                         .create = diag_create,
                                         .add_note = st_diag_note,
                                         .set_hint = diag_set_hint,
                                         .text = st_diag_text,
                                         .hint = st_diag_hint,
                                         .release = st_diag_release};

static void clear_environment(const test_registry *t)
{
    static const char *const names[] = {"STATOR_PLUGIN_PATH",   "STATOR_PLUGIN_FILES",
                                        "STATOR_PLUGIN_SELECT", "STATOR_PLUGIN_DISABLE",
                                        "STATOR_PLUGIN_ALLOW",  "LD_LIBRARY_PATH"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        unsetenv(names[i]);
    }
    setenv("HOME", t->folder, 1);
    setenv("XDG_DATA_HOME", test_path(t, "data"), 1);
    setenv("XDG_CACHE_HOME", test_path(t, "cache"), 1);
    setenv("STATOR_TEST_MARK", test_path(t, "marks"), 1);
}

void test_registry_begin(test_registry *t, uint16_t abi_major, uint16_t abi_minor)
{
    memset(t, 0, sizeof *t);
    st_mem_init(&t->mem, NULL, NULL, NULL, 0);
    t->host = (stator_host){.struct_size = sizeof t->host,
                            .abi_major = abi_major,
                            .abi_minor = abi_minor,
                            .diag = &diag_api};
    snprintf(t->folder, sizeof t->folder, "/tmp/stator-registry-XXXXXX");
    cr_assert_not_null(mkdtemp(t->folder));
    cr_assert_eq(chmod(t->folder, 0755), 0);
    cr_assert_eq(mkdir(test_path(t, "plugins"), 0755), 0);
    clear_environment(t);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

void test_registry_end(test_registry *t)
{
    st_registry_destroy(t->registry);
    t->registry = NULL;
    cr_expect_eq(t->mem.live_blocks, 0, "%llu blocks are left",
                 (unsigned long long)t->mem.live_blocks);
    nftw(t->folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

const char *test_path(const test_registry *t, const char *name)
{
    static char buffers[4][600];
    static int next = 0;
    char *buffer = buffers[next++ & 3];
    snprintf(buffer, sizeof buffers[0], "%s/%s", t->folder, name);
    return buffer;
}

void test_put_bytes(test_registry *t, const char *name, const void *bytes, uint64_t size)
{
    char path[600];
    snprintf(path, sizeof path, "%s", test_path(t, name));
    char *slash = strrchr(path, '/');
    *slash = '\0';
    (void)mkdir(path, 0755);
    *slash = '/';
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
    cr_assert_geq(fd, 0, "cannot write %s", path);
    cr_assert_eq(write(fd, bytes, (size_t)size), (ssize_t)size);
    cr_assert_eq(fchmod(fd, 0755), 0);
    close(fd);
}

void test_put_mutant(test_registry *t, const char *mutant, const char *name)
{
    char path[600];
    snprintf(path, sizeof path, TEST_MUTANTS "/%s.so", mutant);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    cr_assert_geq(fd, 0, "%s is not built (target st_mutants)", path);
    cr_assert_eq(fstat(fd, &st), 0);
    char *bytes = st_alloc(&t->mem, (uint64_t)st.st_size, 1);
    cr_assert_not_null(bytes);
    cr_assert_eq(read(fd, bytes, (size_t)st.st_size), (ssize_t)st.st_size);
    close(fd);
    test_put_bytes(t, name, bytes, (uint64_t)st.st_size);
    st_free(&t->mem, bytes);
}

void test_patch(test_registry *t, const char *name, int64_t offset, const void *bytes,
                uint64_t size)
{
    const int fd = open(test_path(t, name), O_RDWR | O_CLOEXEC);
    struct stat st;
    cr_assert_geq(fd, 0);
    cr_assert_eq(fstat(fd, &st), 0);
    const off_t at = (off_t)(offset < 0 ? st.st_size + offset : offset);
    cr_assert_eq(pwrite(fd, bytes, (size_t)size, at), (ssize_t)size);
    close(fd);
}

void test_patch_text(test_registry *t, const char *name, const char *from, const char *to)
{
    const int fd = open(test_path(t, name), O_RDONLY | O_CLOEXEC);
    struct stat st;
    cr_assert_geq(fd, 0);
    cr_assert_eq(fstat(fd, &st), 0);
    char *bytes = st_alloc(&t->mem, (uint64_t)st.st_size, 1);
    cr_assert_eq(read(fd, bytes, (size_t)st.st_size), (ssize_t)st.st_size);
    close(fd);
    const char *found = memmem(bytes, (size_t)st.st_size, from, strlen(from));
    cr_assert_not_null(found, "'%s' is not in %s", from, name);
    cr_assert_eq(strlen(from), strlen(to));
    test_patch(t, name, found - bytes, to, strlen(to));
    st_free(&t->mem, bytes);
}

void test_open(test_registry *t, uint32_t flags, uint32_t n, const char *const *dirs)
{
    char own[300];
    snprintf(own, sizeof own, "%s/plugins", t->folder);
    const char *const only[] = {own};
    const st_registry_options options = {.mem = &t->mem,
                                         .host = &t->host,
                                         .flags = flags,
                                         .plugin_dir_count = n > 0 ? n : 1,
                                         .plugin_dirs = n > 0 ? dirs : only};
    stator_diag *err = NULL;
    const stator_status status = st_registry_create(&options, &t->registry, &err);
    cr_assert_eq(status, STATOR_OK, "%s", st_diag_text(err));
    cr_assert_eq(st_registry_scan(t->registry, &err), STATOR_OK, "%s", st_diag_text(err));
}

const st_registry_item *test_row(test_registry *t, const char *name)
{
    const st_registry_item *item;
    for (uint32_t i = 0; (item = st_registry_at(t->registry, i)) != NULL; i++) {
        if (strcmp(st_registry_item_name(item), name) == 0) {
            return item;
        }
    }
    cr_assert_fail("there is no row '%s'", name);
    return NULL;
}

stator_item_info test_info(test_registry *t, const char *name)
{
    stator_item_info info = st_registry_info(t->registry, test_row(t, name));
    return info;
}

void test_expect_state(test_registry *t, const char *name, const char *state, const char *in_reason)
{
    const stator_item_info info = test_info(t, name);
    const int is_available = strcmp(info.state, "AVAILABLE") == 0;
    cr_expect_str_eq(info.state, state, "%s is %s (%s), expected %s", name, info.state,
                     info.reason != NULL ? info.reason : "no reason", state);
    cr_expect_eq(info.reason == NULL, is_available, "%s: reason %s", name, info.reason);
    cr_expect_eq(info.hint == NULL, is_available, "%s: hint %s", name, info.hint);
    if (in_reason != NULL && info.reason != NULL) {
        cr_expect_not_null(strstr(info.reason, in_reason), "%s: '%s' does not hold '%s'", name,
                           info.reason, in_reason);
    }
}

void test_expect_load(test_registry *t, const char *name, const char *state, const char *in_reason)
{
    const st_loaded *loaded = NULL;
    stator_diag *err = NULL;
    const stator_status status = st_registry_load(t->registry, test_row(t, name), &loaded, &err);
    const int is_ok = strcmp(state, "AVAILABLE") == 0;
    cr_expect_eq(status, is_ok ? STATOR_OK : STATOR_UNAVAILABLE, "%s: status %d, %s", name, status,
                 st_diag_text(err));
    cr_expect_eq(loaded != NULL, is_ok);
    if (!is_ok) {
        cr_expect_not_null(strstr(st_diag_text(err), state), "%s", st_diag_text(err));
        cr_expect_not_null(st_diag_hint(err));
    }
    st_diag_release(err);
    test_expect_state(t, name, state, in_reason);
}

const char *test_marks(const test_registry *t)
{
    static char text[4096];
    const int fd = open(test_path(t, "marks"), O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0) {
        close(fd);
    }
    text[n > 0 ? n : 0] = '\0';
    return text;
}
