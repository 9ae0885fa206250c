/* Listing: each state with its reason and hint, ranks and shadows, names, all without running any
 * plugin code. */
#define _GNU_SOURCE
#include "support_registry.h"

#include "core/base/threads/threads.h"
#include <criterion/criterion.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static test_registry t;

static void begin(void)
{
    test_registry_begin(&t, 0, 9);
}
static void end(void)
{
    test_registry_end(&t);
}

TestSuite(registry, .init = begin, .fini = end);

Test(registry, good_plugin_is_available_and_not_loaded)
{
    test_put_mutant(&t, "good", "plugins/good.so");
    test_open(&t, 0, 0, NULL);
    test_expect_state(&t, "good", "AVAILABLE", NULL);
    const stator_item_info info = test_info(&t, "good");
    cr_expect_str_eq(info.kind, "backend");
    cr_expect_str_eq(info.version, "1.0.0");
    cr_expect_str_eq(info.abi, "0.9");
    cr_expect_str_eq(info.origin, "plugin-dir");
    cr_expect_str_eq(info.path, test_path(&t, "plugins/good.so"));
    cr_expect_not_null(info.build_id);
    cr_expect_eq(info.probed, 0);
    cr_expect_null(info.shadowed_by);
    cr_expect_str_eq(test_marks(&t), "", "listing ran plugin code");
}

Test(registry, files_that_are_no_plugin_are_bad_files)
{
    test_put_bytes(&t, "plugins/empty.so", "", 0);
    test_put_bytes(&t, "plugins/text.so", "this is not ELF", 15);
    test_put_bytes(&t, "plugins/magic.so", "\177ELF\2\1\1", 7);
    test_put_bytes(&t, "plugins/readme.txt", "no plugin by its name", 21);
    test_put_mutant(&t, "good", "plugins/cut.so");
    cr_assert_eq(truncate(test_path(&t, "plugins/cut.so"), 5000), 0);
    test_put_mutant(&t, "good", "plugins/note.so");
    test_patch_text(&t, "plugins/note.so", "{\"abi\"", "[\"abi\"");
    test_put_mutant(&t, "good", "plugins/plain.so");
    test_patch_text(&t, "plugins/plain.so", "Stator", "Rotats");
    cr_assert_eq(mkdir(test_path(&t, "plugins/folder.so"), 0755), 0);
    cr_assert_eq(mkfifo(test_path(&t, "plugins/fifo.so"), 0644), 0);
    test_open(&t, 0, 0, NULL);
    cr_expect_eq(st_registry_count(t.registry), 8);
    test_expect_state(&t, "empty", "BAD_FILE", "empty");
    test_expect_state(&t, "text", "BAD_FILE", "not an ELF");
    test_expect_state(&t, "magic", "BAD_FILE", "not an ELF");
    test_expect_state(&t, "cut", "BAD_FILE", "truncated");
    test_expect_state(&t, "note", "BAD_FILE", "JSON");
    test_expect_state(&t, "plain", "BAD_FILE", "without a Stator note");
    test_expect_state(&t, "folder", "BAD_FILE", "regular");
    test_expect_state(&t, "fifo", "BAD_FILE", "regular");
    const stator_item_info info = test_info(&t, "text");
    cr_expect_str_eq(info.kind, "unknown");
    cr_expect_null(info.version);
}

Test(registry, plugin_of_another_architecture_is_wrong_arch)
{
    const uint16_t riscv = EM_RISCV;
    const uint8_t class32 = ELFCLASS32;
    test_put_mutant(&t, "good", "plugins/riscv.so");
    test_patch(&t, "plugins/riscv.so", 18, &riscv, sizeof riscv);
    test_put_mutant(&t, "init_fails", "plugins/bits32.so");
    test_patch(&t, "plugins/bits32.so", EI_CLASS, &class32, 1);
    test_put_mutant(&t, "null_slot", "plugins/triple.so");
    test_patch_text(&t, "plugins/triple.so", "-linux-gnu", "-other-gnu");
    test_open(&t, 0, 0, NULL);
    test_expect_state(&t, "good", "WRONG_ARCH", "RISC-V");
    cr_expect_str_eq(test_info(&t, "good").version, "1.0.0");
    test_expect_state(&t, "null_slot", "WRONG_ARCH", "-other-gnu");
    test_expect_state(&t, "bits32", "WRONG_ARCH", "32-bit");
    cr_expect_str_eq(test_marks(&t), "");
}

Test(registry, abi_versions_before_1_0_match_exactly)
{
    static const char *const names[] = {"abi_0_8", "abi_0_10", "abi_1_0"};
    char file[64];
    for (int i = 0; i < 3; i++) {
        snprintf(file, sizeof file, "plugins/%s.so", names[i]);
        test_put_mutant(&t, names[i], file);
    }
    test_open(&t, 0, 0, NULL);
    test_expect_state(&t, "abi_0_8", "ABI_TOO_OLD", "built for plugin ABI 0.8, this host has 0.9");
    test_expect_state(&t, "abi_0_10", "ABI_TOO_NEW", "needs host ABI >= 0.10, this is 0.9");
    test_expect_state(&t, "abi_1_0", "ABI_TOO_NEW", "needs host ABI >= 1.0, this is 0.9");
}

Test(registry, abi_versions_from_1_0_on)
{
    static const char *const names[] = {"abi_0_8",         "abi_1_0",         "abi_1_1",
                                        "abi_1_2_needs_0", "abi_1_2_needs_2", "abi_2_0"};
    char file[64];
    for (int i = 0; i < 6; i++) {
        snprintf(file, sizeof file, "plugins/%s.so", names[i]);
        test_put_mutant(&t, names[i], file);
    }
    t.host.abi_major = 1;
    t.host.abi_minor = 1;
    test_open(&t, 0, 0, NULL);
    test_expect_state(&t, "abi_0_8", "ABI_TOO_OLD", NULL);
    test_expect_state(&t, "abi_1_0", "AVAILABLE", NULL);
    test_expect_state(&t, "abi_1_1", "AVAILABLE", NULL);
    test_expect_state(&t, "abi_1_2_needs_0", "AVAILABLE", NULL);
    test_expect_state(&t, "abi_1_2_needs_2", "ABI_TOO_NEW", "needs host ABI >= 1.2, this is 1.1");
    test_expect_state(&t, "abi_2_0", "ABI_TOO_NEW", NULL);
}

Test(registry, missing_libraries_and_devices)
{
    static const char *const names[] = {"missing_library", "needs_soname", "needs_device"};
    char file[64];
    for (int i = 0; i < 3; i++) {
        snprintf(file, sizeof file, "plugins/%s.so", names[i]);
        test_put_mutant(&t, names[i], file);
    }
    test_open(&t, 0, 0, NULL);
    test_expect_state(&t, "missing_library", "MISSING_DEPENDENCY", "libst_test_gone.so");
    test_expect_state(&t, "needs_soname", "MISSING_DEPENDENCY", "libstator_test_absent.so.9");
    test_expect_state(&t, "needs_device", "NO_DEVICE", "/dev/stator_test_absent");
}

/* One of the alternatives is enough. What a device needs is asked for when the device is there. */
Test(registry, alternatives_of_what_a_note_requires)
{
    test_put_mutant(&t, "needs_either_device", "plugins/needs_either_device.so");
    test_put_mutant(&t, "has_either", "plugins/has_either.so");
    test_open(&t, 0, 0, NULL);
    test_expect_state(&t, "needs_either_device", "NO_DEVICE",
                      "there is no /dev/stator_a or /dev/stator_b");
    test_expect_state(&t, "has_either", "AVAILABLE", NULL);
}

Test(registry, library_path_serves_missing_library)
{
    test_put_mutant(&t, "missing_library", "plugins/missing_library.so");
    setenv("LD_LIBRARY_PATH", TEST_MUTANTS "/gone", 1);
    test_open(&t, 0, 0, NULL);
    test_expect_state(&t, "missing_library", "AVAILABLE", NULL);
}

Test(registry, sanitizer_of_the_plugin_must_be_the_hosts)
{
    test_put_mutant(&t, "sanitized", "plugins/sanitized.so");
    test_open(&t, 0, 0, NULL);
    test_expect_state(&t, "sanitized", "INVALID", "built with the memory sanitizer");
}

Test(registry, select_and_disable)
{
    test_put_mutant(&t, "good", "plugins/good.so");
    test_put_mutant(&t, "several", "plugins/several.so");
    setenv("STATOR_PLUGIN_DISABLE", "nothing,g*d", 1);
    test_open(&t, 0, 0, NULL);
    test_expect_state(&t, "good", "DISABLED", "STATOR_PLUGIN_DISABLE");
    test_expect_state(&t, "one", "AVAILABLE", NULL);
    st_registry_destroy(t.registry);
    unsetenv("STATOR_PLUGIN_DISABLE");
    setenv("STATOR_PLUGIN_SELECT", "go?d", 1);
    test_open(&t, 0, 0, NULL);
    test_expect_state(&t, "good", "AVAILABLE", NULL);
    test_expect_state(&t, "one", "DISABLED", "STATOR_PLUGIN_SELECT");
    st_registry_destroy(t.registry);
    test_open(&t, STATOR_CTX_NO_ENV, 0, NULL);
    test_expect_state(&t, "one", "AVAILABLE", NULL);
}

static void put_allow_list(const char *digest)
{
    char line[200];
    snprintf(line, sizeof line, "# plugins we know\n%s  good.so\n", digest);
    test_put_bytes(&t, "lists/allow", line, strlen(line));
    setenv("STATOR_PLUGIN_ALLOW", test_path(&t, "lists/allow"), 1);
}

Test(registry, allow_list)
{
    char command[900];
    char digest[65] = "";
    test_put_mutant(&t, "good", "plugins/good.so");
    test_put_mutant(&t, "several", "plugins/several.so");
    snprintf(command, sizeof command, "sha256sum %s", test_path(&t, "plugins/good.so"));
    FILE *sum = popen(command, "r");
    cr_assert_not_null(sum);
    cr_assert_eq(fread(digest, 1, 64, sum), 64);
    pclose(sum);
    put_allow_list(digest);
    test_open(&t, 0, 0, NULL);
    test_expect_state(&t, "good", "AVAILABLE", NULL);
    test_expect_state(&t, "one", "UNTRUSTED_PATH", "is not in the allow-list");
    st_registry_destroy(t.registry);
    cr_assert_eq(chmod(test_path(&t, "lists/allow"), 0666), 0);
    test_open(&t, 0, 0, NULL);
    test_expect_state(&t, "good", "UNTRUSTED_PATH", "cannot be read or is writable by others");
    st_registry_destroy(t.registry);
    unsetenv("STATOR_PLUGIN_ALLOW");
    test_open(&t, 0, 0, NULL);
    test_expect_state(&t, "one", "AVAILABLE", NULL);
}

Test(registry, world_writable_paths)
{
    test_put_mutant(&t, "good", "open/good.so");
    test_put_mutant(&t, "several", "plugins/several.so");
    cr_assert_eq(chmod(test_path(&t, "open"), 0777), 0);
    cr_assert_eq(chmod(test_path(&t, "plugins/several.so"), 0666), 0);
    char dirs[2][300];
    snprintf(dirs[0], sizeof dirs[0], "%s/open", t.folder);
    snprintf(dirs[1], sizeof dirs[1], "%s/plugins", t.folder);
    const char *const list[] = {dirs[0], dirs[1]};
    test_open(&t, 0, 2, list);
    test_expect_state(&t, "good", "UNTRUSTED_PATH", "writable by every user");
    test_expect_state(&t, "two", "UNTRUSTED_PATH", "writable by every user");
    test_expect_load(&t, "good", "UNTRUSTED_PATH", NULL);
    cr_expect_str_eq(test_marks(&t), "");
}

Test(registry, symbolic_link_is_not_followed)
{
    test_put_mutant(&t, "good", "elsewhere/good.so");
    cr_assert_eq(symlink("../elsewhere/good.so", test_path(&t, "plugins/good.so")), 0);
    test_open(&t, 0, 0, NULL);
    test_expect_state(&t, "good", "UNTRUSTED_PATH", "symbolic link");
}

Test(registry, equal_names_at_one_rank_clash)
{
    test_put_mutant(&t, "good", "plugins/a.so");
    test_put_mutant(&t, "good", "plugins/b.so");
    test_put_mutant(&t, "several", "plugins/several.so");
    test_open(&t, 0, 0, NULL);
    cr_expect_eq(st_registry_count(t.registry), 6);
    for (uint32_t i = 0; i < 2; i++) {
        stator_item_info info = st_registry_info(t.registry, st_registry_at(t.registry, i));
        cr_expect_str_eq(info.state, "NAME_CLASH");
        cr_expect_not_null(strstr(info.reason, i == 0 ? "b.so" : "a.so"));
    }
    test_expect_state(&t, "one", "AVAILABLE", NULL);
}

Test(registry, broken_copy_neither_clashes_nor_shadows)
{
    const uint16_t riscv = EM_RISCV;
    test_put_mutant(&t, "good", "plugins/a.so");
    test_put_mutant(&t, "good", "plugins/b.so");
    test_patch(&t, "plugins/a.so", 18, &riscv, sizeof riscv);
    test_open(&t, 0, 0, NULL);
    const st_registry_item *item = NULL;
    stator_diag *err = NULL;
    cr_assert_eq(st_registry_find(t.registry, STATOR_KIND_BACKEND, "good", &item, &err), STATOR_OK);
    stator_item_info info = st_registry_info(t.registry, item);
    cr_expect_str_eq(info.state, "AVAILABLE");
    cr_expect_not_null(strstr(info.path, "b.so"));
}

/* Opens the registry as one whose libstator.so lies in <folder>/lib. */
static void open_with_own_folder(void)
{
    char lib[300];
    char extra[300];
    snprintf(lib, sizeof lib, "%s/lib", t.folder);
    snprintf(extra, sizeof extra, "%s/plugins", t.folder);
    const char *const dirs[] = {extra};
    const st_registry_options options = {
        .mem = &t.mem, .host = &t.host, .plugin_dir_count = 1, .plugin_dirs = dirs, .lib_dir = lib};
    cr_assert_eq(st_registry_create(&options, &t.registry, NULL), STATOR_OK);
    cr_assert_eq(st_registry_scan(t.registry, NULL), STATOR_OK);
}

/* Backends over the software device are found in a folder of their own, when they are wanted. */
Test(registry, soft_device_is_found_when_it_is_wanted)
{
    cr_assert_eq(mkdir(test_path(&t, "lib"), 0755), 0);
    cr_assert_eq(mkdir(test_path(&t, "lib/stator"), 0755), 0);
    test_put_mutant(&t, "good", "lib/stator/plugins-soft/good.so");
    unsetenv("STATOR_SOFT_DEVICE");
    open_with_own_folder();
    cr_expect_eq(st_registry_count(t.registry), 0);
    st_registry_destroy(t.registry);
    setenv("STATOR_SOFT_DEVICE", "1", 1);
    open_with_own_folder();
    cr_expect_eq(st_registry_count(t.registry), 1);
    test_expect_state(&t, "good", "AVAILABLE", NULL);
}

/* The tag reference makes the name of a backend beside libstator.so its own. */
Test(registry, name_of_the_reference_backend_is_reserved)
{
    cr_assert_eq(mkdir(test_path(&t, "lib"), 0755), 0);
    cr_assert_eq(mkdir(test_path(&t, "lib/stator"), 0755), 0);
    test_put_mutant(&t, "reference", "lib/stator/plugins-1/reference.so");
    test_put_mutant(&t, "reference", "plugins/other.so");
    open_with_own_folder();
    const st_registry_item *item = NULL;
    cr_expect_eq(st_registry_count(t.registry), 2);
    cr_assert_eq(st_registry_find(t.registry, STATOR_KIND_BACKEND, "reference", &item, NULL),
                 STATOR_OK);
    stator_item_info info = st_registry_info(t.registry, item);
    cr_expect_str_eq(info.origin, "libdir");
    cr_expect_str_eq(info.state, "AVAILABLE");
    info = st_registry_info(t.registry, st_registry_at(t.registry, 0));
    cr_expect_str_eq(info.origin, "plugin-dir");
    cr_expect_str_eq(info.state, "NAME_CLASH");
    cr_expect_not_null(strstr(info.reason, "lib/stator/plugins-1/reference.so"));
}

Test(registry, a_pass_named_like_one_of_stators_own_is_refused)
{
    test_put_mutant(&t, "cse", "plugins/cse.so");
    test_open(&t, 0, 0, NULL);
    test_expect_state(&t, "cse", "NAME_CLASH", "Stator has a pass 'cse' of its own");
}

Test(registry, higher_rank_shadows_lower)
{
    test_put_mutant(&t, "good", "plugins/good.so");
    test_put_mutant(&t, "good", "first/good.so");
    test_put_mutant(&t, "good", "files/named.so");
    test_put_mutant(&t, "good", "data/good.so");
    setenv("STATOR_PLUGIN_FILES", test_path(&t, "files/named.so"), 1);
    setenv("STATOR_PLUGIN_PATH", test_path(&t, "first"), 1);
    cr_assert_eq(mkdir(test_path(&t, "data/stator"), 0755), 0);
    test_put_mutant(&t, "good", "data/stator/good.so");
    cr_assert_eq(rename(test_path(&t, "data/stator"), test_path(&t, "data/plugins")), 0);
    cr_assert_eq(mkdir(test_path(&t, "data/stator"), 0755), 0);
    cr_assert_eq(rename(test_path(&t, "data/plugins"), test_path(&t, "data/stator/plugins")), 0);
    test_open(&t, 0, 0, NULL);
    static const char *const origins[] = {"files-env", "path-env", "plugin-dir", "user"};
    cr_expect_eq(st_registry_count(t.registry), 4);
    for (uint32_t i = 0; i < 4; i++) {
        const st_registry_item *item = st_registry_at(t.registry, i);
        stator_item_info info = st_registry_info(t.registry, item);
        cr_expect_str_eq(info.origin, origins[i]);
        cr_expect_str_eq(info.state, "AVAILABLE", "a shadowed item keeps its state");
        cr_expect_eq(st_registry_item_wins(t.registry, item), i == 0);
        if (i > 0) {
            cr_expect_str_eq(info.shadowed_by, test_path(&t, "files/named.so"));
        }
    }
}

Test(registry, a_folder_found_twice_is_listed_once)
{
    test_put_mutant(&t, "good", "plugins/good.so");
    setenv("STATOR_PLUGIN_PATH", test_path(&t, "plugins/../plugins"), 1);
    setenv("STATOR_PLUGIN_FILES", test_path(&t, "plugins/good.so"), 1);
    test_open(&t, 0, 0, NULL);
    cr_expect_eq(st_registry_count(t.registry), 1);
    cr_expect_str_eq(test_info(&t, "good").origin, "files-env");
}

Test(registry, named_paths_that_cannot_be_searched_are_shown)
{
    setenv("STATOR_PLUGIN_FILES", "relative/x.so:/nonexistent/y.so", 1);
    setenv("STATOR_PLUGIN_PATH", "/nonexistent/folder", 1);
    test_open(&t, 0, 0, NULL);
    test_expect_state(&t, "x", "UNTRUSTED_PATH", "relative");
    test_expect_state(&t, "y", "BAD_FILE", "does not exist");
    test_expect_state(&t, "folder", "BAD_FILE", "No such file");
}

Test(registry, several_items_in_one_file)
{
    test_put_mutant(&t, "several", "plugins/several.so");
    test_open(&t, 0, 0, NULL);
    cr_expect_eq(st_registry_count(t.registry), 4);
    cr_expect_str_eq(test_info(&t, "one").tags, "debug");
    cr_expect_eq(test_info(&t, "two").priority, -7);
    cr_expect_str_eq(test_info(&t, "several.first").kind, "pass");
    const st_registry_item *item = NULL;
    cr_assert_eq(st_registry_find(t.registry, STATOR_KIND_BACKEND, "uno", &item, NULL), STATOR_OK);
    cr_expect_str_eq(st_registry_item_name(item), "one");
}

Test(registry, unknown_names_get_suggestions_and_the_list)
{
    test_put_mutant(&t, "good", "plugins/good.so");
    test_put_mutant(&t, "abi_0_8", "plugins/old.so");
    test_open(&t, 0, 0, NULL);
    const st_registry_item *item = NULL;
    stator_diag *err = NULL;
    cr_expect_eq(st_registry_find(t.registry, STATOR_KIND_BACKEND, "goood", &item, &err),
                 STATOR_NOT_FOUND);
    cr_expect_str_eq(st_diag_text(err),
                     "there is no backend 'goood' (did you mean 'good'?); found: "
                     "good, abi_0_8 (ABI_TOO_OLD)");
    cr_expect_not_null(st_diag_hint(err));
    st_diag_release(err);
    err = NULL;
    cr_expect_eq(st_registry_find(t.registry, STATOR_KIND_FRONTEND, "onnx", &item, &err),
                 STATOR_NOT_FOUND);
    cr_expect_str_eq(st_diag_text(err),
                     "there is no frontend 'onnx'; no frontend was found at all");
    st_diag_release(err);
}

Test(registry, unavailable_backend_is_an_error_with_its_reason)
{
    test_put_mutant(&t, "needs_device", "plugins/needs_device.so");
    test_put_bytes(&t, "plugins/torn.so", "junk", 4);
    test_open(&t, 0, 0, NULL);
    const st_loaded *loaded = NULL;
    stator_diag *err = NULL;
    cr_expect_eq(st_registry_get(t.registry, STATOR_KIND_BACKEND, "needs_device", &loaded, &err),
                 STATOR_UNAVAILABLE);
    cr_expect_str_eq(st_diag_text(err), "backend 'needs_device' cannot be used (NO_DEVICE): "
                                        "/dev/stator_test_absent is not there");
    cr_expect_not_null(st_diag_hint(err));
    st_diag_release(err);
    err = NULL;
    cr_expect_eq(st_registry_get(t.registry, STATOR_KIND_BACKEND, "torn", &loaded, &err),
                 STATOR_UNAVAILABLE);
    cr_expect_not_null(strstr(st_diag_text(err), "BAD_FILE"));
    st_diag_release(err);
}

Test(registry, default_backend_has_no_debug_tag)
{
    test_put_mutant(&t, "several", "plugins/several.so");
    test_open(&t, 0, 0, NULL);
    const st_registry_item *item = NULL;
    cr_assert_eq(st_registry_default_backend(t.registry, NULL, &item, NULL), STATOR_OK);
    cr_expect_str_eq(st_registry_item_name(item), "two");
    cr_expect_eq(st_registry_default_backend(t.registry, item, &item, NULL), STATOR_NOT_FOUND);
    cr_expect_null(item);
}

Test(registry, no_plugins_flag_finds_nothing)
{
    test_put_mutant(&t, "good", "plugins/good.so");
    test_open(&t, STATOR_CTX_NO_PLUGINS, 0, NULL);
    cr_expect_eq(st_registry_count(t.registry), 0);
}

Test(registry, fifty_plugins_are_listed_in_50_ms)
{
    char file[64];
    for (int i = 0; i < 50; i++) {
        snprintf(file, sizeof file, "plugins/p%02d.so", i);
        test_put_mutant(&t, "good", file);
        char to[32];
        snprintf(to, sizeof to, "\"name\":\"go%02d\"", i);
        test_patch_text(&t, file, "\"name\":\"good\"", to);
    }
    const uint64_t start = st_now_ns();
    test_open(&t, 0, 0, NULL);
    const uint64_t ns = st_now_ns() - start;
    cr_expect_eq(st_registry_count(t.registry), 50);
    test_expect_state(&t, "go49", "AVAILABLE", NULL);
    cr_expect_str_eq(test_marks(&t), "");
    cr_log_info("50 plugins listed in %.2f ms", (double)ns / 1e6);
    cr_expect_lt(ns, UINT64_C(50000000) * (STATOR_SANITIZER[0] != '\0' ? 10 : 1));
}

Test(registry, allocation_failures_are_reported_and_leak_nothing)
{
    test_put_mutant(&t, "good", "plugins/good.so");
    test_put_mutant(&t, "several", "plugins/several.so");
    test_put_bytes(&t, "plugins/torn.so", "junk", 4);
    char own[300];
    snprintf(own, sizeof own, "%s/plugins", t.folder);
    const char *const dirs[] = {own};
    const st_registry_options options = {
        .mem = &t.mem, .host = &t.host, .plugin_dir_count = 1, .plugin_dirs = dirs};
    int ok = 0;
    for (uint64_t n = 1; n < 3000 && !ok; n++) {
        st_registry *registry = NULL;
        stator_diag *err = NULL;
        const st_loaded *loaded = NULL;
        t.mem.requests = 0;
        t.mem.fail_at = n;
        stator_status status = st_registry_create(&options, &registry, &err);
        if (status == STATOR_OK) {
            status = st_registry_scan(registry, &err);
        }
        if (status == STATOR_OK) {
            status = st_registry_get(registry, STATOR_KIND_BACKEND, "good", &loaded, &err);
        }
        ok = status == STATOR_OK && t.mem.requests < n;
        cr_expect(status == STATOR_OK || status == STATOR_RESOURCE_EXHAUSTED, "n = %llu: %d %s",
                  (unsigned long long)n, status, st_diag_text(err));
        st_diag_release(err);
        t.mem.fail_at = 0;
        st_registry_destroy(registry);
        cr_assert_eq(t.mem.live_blocks, 0, "n = %llu: %llu blocks left", (unsigned long long)n,
                     (unsigned long long)t.mem.live_blocks);
    }
    cr_expect(ok, "never got through");
}
