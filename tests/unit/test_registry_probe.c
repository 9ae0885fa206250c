/* Probing in the helper process: crashes, early ends and refusals become states; a refusal is
 * remembered by build id and forgotten when a later probe is content. */
#define _GNU_SOURCE
#include "support_registry.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
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

TestSuite(registry_probe, .init = begin, .fini = end);

static void put(const char *name)
{
    char file[64];
    snprintf(file, sizeof file, "plugins/%s.so", name);
    test_put_mutant(&t, name, file);
}

/* A registry that knows the build's library folder, where the helper is. */
static void open_with_helper(uint32_t flags)
{
    char own[300];
    snprintf(own, sizeof own, "%s/plugins", t.folder);
    const char *const dirs[] = {own};
    const st_registry_options options = {.mem = &t.mem,
                                         .host = &t.host,
                                         .flags = flags,
                                         .plugin_dir_count = 1,
                                         .plugin_dirs = dirs,
                                         .lib_dir = ST_TEST_BUILD "/lib"};
    stator_diag *err = NULL;
    const stator_status status = st_registry_create(&options, &t.registry, &err);
    cr_assert_eq(status, STATOR_OK, "%s", st_diag_text(err));
}

static void reopen(void)
{
    st_registry_destroy(t.registry);
    open_with_helper(0);
}

static void probe(const char *name)
{
    stator_diag *err = NULL;
    (void)st_registry_count(t.registry);
    const stator_status status = st_registry_probe(t.registry, test_row(&t, name), &err);
    cr_assert_eq(status, STATOR_OK, "%s: %s", name, st_diag_text(err));
}

Test(registry_probe, usable_plugin_shows_its_devices)
{
    put("good");
    open_with_helper(0);
    probe("good");
    test_expect_state(&t, "good", "AVAILABLE", NULL);
    const stator_item_info info = test_info(&t, "good");
    cr_expect_eq(info.probed, 1);
    cr_assert_eq(info.device_count, 1);
    cr_expect_str_eq(info.devices[0].name, "toy device");
    cr_expect_str_eq(info.devices[0].arch, "toy-1");
    cr_expect_eq(info.devices[0].id, 3);
    cr_expect_eq(info.devices[0].memory_bytes, 1 << 20);
    cr_expect_not_null(strstr(test_marks(&t), "good shutdown"), "the child ends in order");
}

Test(registry_probe, bad_plugins_end_in_their_state_without_harm)
{
    static const struct {
        const char *name;
        const char *state;
        const char *in_reason;
    } rows[] = {
        {"probe_segfault", "CRASHED_IN_PROBE", NULL}, /* a signal, or a sanitizer's status */
        {"probe_exit", "CRASHED_IN_PROBE", "ended with status 7 before it could answer"},
        {"probe_no_device", "NO_DEVICE", "the toy device is switched off"},
        {"probe_missing", "MISSING_DEPENDENCY", "the toy device is switched off"},
        {"init_fails", "INIT_FAILED", "the licence server does not answer"},
        {"null_slot", "INVALID", "required slot 'compile'"},
        {"undefined", "INVALID", "undefined symbol"},
        {"size_plus_8", "INVALID", "struct_size"},
        {"device_unsized", "INVALID", "struct_size of the stator_device_info is 0"},
        {"thread_alive", "AVAILABLE", NULL},
    };
    const size_t n = sizeof rows / sizeof rows[0];
    put("good");
    for (size_t i = 0; i < n; i++) {
        put(rows[i].name);
    }
    open_with_helper(0);
    for (size_t i = 0; i < n; i++) {
        probe(rows[i].name);
        test_expect_state(&t, rows[i].name, rows[i].state, rows[i].in_reason);
        cr_expect_eq(test_info(&t, rows[i].name).probed, 1);
    }
    if (STATOR_SANITIZER[0] == '\0') {
        cr_expect_str_eq(test_info(&t, "probe_segfault").reason,
                         "signal 11 (SIGSEGV) ended the process that probed it");
    }
    test_expect_state(&t, "good", "AVAILABLE", NULL);
    cr_expect_eq(test_info(&t, "good").probed, 0);
}

Test(registry_probe, a_crash_is_remembered_and_not_loaded)
{
    put("probe_segfault");
    open_with_helper(0);
    probe("probe_segfault");
    reopen();
    (void)st_registry_count(t.registry);
    test_expect_state(&t, "probe_segfault", "CRASHED_IN_PROBE", "remembered from an earlier probe");
    cr_expect_eq(test_info(&t, "probe_segfault").probed, 1);
    cr_assert_eq(unlink(test_path(&t, "marks")), 0);
    test_expect_load(&t, "probe_segfault", "CRASHED_IN_PROBE", NULL);
    cr_expect_str_eq(test_marks(&t), "", "a plugin that crashed was loaded");
    cr_assert_eq(unlink(test_path(&t, "cache/stator/probes")), 0);
    reopen();
    (void)st_registry_count(t.registry);
    test_expect_state(&t, "probe_segfault", "AVAILABLE", NULL);
}

/* A device may come back: a remembered NO_DEVICE is shown, and asked again when it is used. */
Test(registry_probe, a_missing_device_is_asked_for_again_when_used)
{
    put("probe_no_device");
    open_with_helper(0);
    probe("probe_no_device");
    reopen();
    (void)st_registry_count(t.registry);
    test_expect_state(&t, "probe_no_device", "NO_DEVICE", "remembered");
    test_expect_load(&t, "probe_no_device", "NO_DEVICE", "the toy device is switched off");
    cr_expect_null(strstr(test_info(&t, "probe_no_device").reason, "remembered"));
}

Test(registry_probe, another_build_at_the_same_path_is_not_blamed)
{
    put("probe_exit");
    open_with_helper(0);
    probe("probe_exit");
    cr_assert_eq(unlink(test_path(&t, "plugins/probe_exit.so")), 0);
    test_put_mutant(&t, "good", "plugins/probe_exit.so");
    reopen();
    (void)st_registry_count(t.registry);
    test_expect_state(&t, "good", "AVAILABLE", NULL);
}

Test(registry_probe, damaged_probe_record_is_ignored)
{
    put("good");
    open_with_helper(0);
    (void)st_registry_count(t.registry);
    char line[4096];
    const stator_item_info info = test_info(&t, "good");
    snprintf(line, sizeof line, "\t\t\n%s\n%s\t%s\tgood\twrong stamp\tCRASHED_IN_PROBE\tr\th\n\xFF",
             info.build_id, info.build_id, info.path);
    cr_assert_eq(mkdir(test_path(&t, "cache"), 0755), 0);
    test_put_bytes(&t, "cache/stator/probes", line, strlen(line));
    reopen();
    (void)st_registry_count(t.registry);
    test_expect_state(&t, "good", "AVAILABLE", NULL);
    probe("good");
    test_expect_state(&t, "good", "AVAILABLE", NULL);
}

/* A listing shows the devices that an earlier probe found, until others are chosen. */
Test(registry_probe, devices_are_remembered)
{
    put("good");
    open_with_helper(0);
    probe("good");
    const uint32_t n = test_info(&t, "good").device_count;
    cr_assert_eq(n, 1);
    reopen();
    (void)st_registry_count(t.registry);
    cr_expect_eq(test_info(&t, "good").device_count, n);
    cr_expect_eq(setenv("CUDA_VISIBLE_DEVICES", "7", 1), 0);
    reopen();
    (void)st_registry_count(t.registry);
    test_expect_state(&t, "good", "AVAILABLE", NULL);
    cr_expect_eq(test_info(&t, "good").device_count, 0);
    cr_expect_eq(unsetenv("CUDA_VISIBLE_DEVICES"), 0);
}

Test(registry_probe, probe_keeps_states_of_listing)
{
    put("abi_0_8");
    open_with_helper(0);
    probe("abi_0_8");
    test_expect_state(&t, "abi_0_8", "ABI_TOO_OLD", NULL);
    cr_expect_eq(test_info(&t, "abi_0_8").probed, 0);
    cr_expect_str_eq(test_marks(&t), "");
}

Test(registry_probe, in_process_probe_needs_no_helper)
{
    put("probe_no_device");
    put("good");
    open_with_helper(STATOR_CTX_PROBE_HERE);
    probe("probe_no_device");
    test_expect_state(&t, "probe_no_device", "NO_DEVICE", "switched off");
    probe("good");
    cr_expect_eq(test_info(&t, "good").device_count, 1);
}

Test(registry_probe, missing_helper_is_an_error_without_a_verdict)
{
    put("good");
    test_open(&t, 0, 0, NULL);
    stator_diag *err = NULL;
    cr_expect_eq(st_registry_probe(t.registry, test_row(&t, "good"), &err), STATOR_NOT_FOUND);
    cr_expect_not_null(strstr(st_diag_text(err), "stator-probe"));
    st_diag_release(err);
    test_expect_state(&t, "good", "AVAILABLE", NULL);
}

Test(registry_probe, path_with_a_colon)
{
    test_put_mutant(&t, "good", "a:b/good.so");
    char own[300];
    snprintf(own, sizeof own, "%s/a:b", t.folder);
    const char *const dirs[] = {own};
    const st_registry_options options = {.mem = &t.mem,
                                         .host = &t.host,
                                         .plugin_dir_count = 1,
                                         .plugin_dirs = dirs,
                                         .lib_dir = ST_TEST_BUILD "/lib"};
    cr_assert_eq(st_registry_create(&options, &t.registry, NULL), STATOR_OK);
    probe("good");
    cr_expect_eq(test_info(&t, "good").device_count, 1);
}
