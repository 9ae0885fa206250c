/* Loading and probing the mutants: each ends in its own state, none takes the process or another
 * plugin with it. Also registered backends, threads, life-cycle. */
#define _GNU_SOURCE
#include "support_registry.h"

#include "core/plugins/options.h"
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
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

TestSuite(registry_load, .init = begin, .fini = end);

static void put(const char *name)
{
    char file[64];
    snprintf(file, sizeof file, "plugins/%s.so", name);
    test_put_mutant(&t, name, file);
}

Test(registry_load, plugin_is_initialised_and_shut_down)
{
    put("good");
    test_open(&t, 0, 0, NULL);
    test_expect_load(&t, "good", "AVAILABLE", NULL);
    const st_loaded *loaded = NULL;
    cr_assert_eq(st_registry_get(t.registry, STATOR_KIND_BACKEND, "good", &loaded, NULL),
                 STATOR_OK);
    cr_expect_str_eq(loaded->desc->name, "good");
    cr_expect_str_eq(loaded->version, "1.0.0");
    cr_expect_not_null(loaded->build_id);
    cr_expect_eq(loaded->self, (void *)&t.host, "init's self is passed on");
    cr_expect_eq(loaded->as.backend->item.option_count, 1);
    cr_expect_eq(test_info(&t, "good").option_count, 1);
    st_registry_destroy(t.registry);
    t.registry = NULL;
    cr_expect_str_eq(test_marks(&t),
                     "good loaded\ngood query\ngood init\ngood probe\ngood shutdown\n");
}

Test(registry_load, two_registries_share_the_object_and_not_its_state)
{
    put("good");
    test_open(&t, 0, 0, NULL);
    test_expect_load(&t, "good", "AVAILABLE", NULL);
    st_registry *first = t.registry;
    test_open(&t, 0, 0, NULL);
    test_expect_load(&t, "good", "AVAILABLE", NULL);
    st_registry_destroy(first);
    cr_expect_not_null(strstr(test_marks(&t), "good init\ngood probe\ngood shutdown\n"));
}

/* A pass built before `run_with` was appended to 0.9 is what it was; one that has it needs no
 * `run`. */
Test(registry_load, passes_with_and_without_run_with_load)
{
    static const char *const names[] = {"pass_old", "acme.pass", "pass_two_options"};
    for (int i = 0; i < 3; i++) {
        put(names[i]);
    }
    test_open(&t, 0, 0, NULL);
    for (int i = 0; i < 3; i++) {
        test_expect_load(&t, names[i], "AVAILABLE", NULL);
    }
    const st_loaded *loaded = NULL;
    cr_assert_eq(st_registry_get(t.registry, STATOR_KIND_PASS, "pass_old", &loaded, NULL),
                 STATOR_OK);
    cr_expect(loaded->as.pass->run != NULL && loaded->as.pass->run_with == NULL);
    st_option_schema schema;
    cr_assert_eq(
        st_registry_option_schema(t.registry, STATOR_KIND_PASS, "pass_two_options", &schema), 1);
    cr_expect_eq(schema.count, 2);
    cr_expect_eq(st_registry_option_schema(t.registry, STATOR_KIND_PASS, "pass_old", &schema), 1);
    cr_expect_eq(schema.count, 0, "nobody would receive them");
    cr_expect_eq(st_registry_option_schema(t.registry, STATOR_KIND_PASS, "cse", &schema), 1);
    cr_expect_eq(schema.count, 0);
    cr_expect_eq(st_registry_option_schema(t.registry, 0, "pass_old", &schema), 0);
}

/* A backend built before the slots of devices were appended to 0.9 has none of them. */
Test(registry_load, a_backend_without_the_appended_slots_loads)
{
    put("before_memory");
    test_open(&t, 0, 0, NULL);
    test_expect_load(&t, "before_memory", "AVAILABLE", NULL);
    const stator_backend *b = NULL;
    const st_loaded *loaded = NULL;
    cr_assert_eq(st_registry_get(t.registry, STATOR_KIND_BACKEND, "before_memory", &loaded, NULL),
                 STATOR_OK);
    b = loaded->as.backend;
    cr_expect(b->memory == NULL && b->event_wait == NULL && b->fill == NULL);
}

/* Everything that only loading tells, next to a plugin that stays usable. */
Test(registry_load, mutants_are_invalid_each_for_its_reason)
{
    static const struct {
        const char *name;
        const char *in_reason;
    } rows[] = {
        {"size_plus_8", "struct_size"},
        {"size_minus_8", "struct_size"},
        {"plugin_plus_8", "struct_size"},
        {"plugin_minus_8", "struct_size"},
        {"half_device", "of the slots 'memory' and 'synchronize' only one is set"},
        {"null_slot", "the required slot 'compile' is NULL"},
        {"many_items", "1000000 items"},
        {"bad_default", "the default '99' of option 'level'"},
        {"query_null", "returned NULL"},
        {"lying_name", "the note does not match"},
        {"lying_version", "it says version '1.0.0', the plugin says '2.0.0'"},
        {"lying_abi", "the plugin says ABI 3.9"},
        {"lying_tags", "it says tags 'stable', the plugin says 'debug'"},
        {"lying_options", "it lists the options 'speed'"},
        {"undefined", "undefined symbol: stator_test_defined_nowhere"},
        {"pass_escape", "its doc is not printable UTF-8: 'changes \\x1b[31m nothing'"},
        {"pass_no_receiver", "the slot 'run_with', which receives them, is NULL"},
        {"pass_no_rows", "3 options at"},
        {"pass_null_key", "option 1 has no valid key"},
        {"pass_same_key", "option 'limit' occurs twice"},
        {"pass_bad_default", "the default '9' of option 'limit' is not a whole number inside"},
        {"pass_stride", "option_stride has struct_size 24"},
        {"pass_no_run", "the required slot 'run' is NULL"},
        {"pass_stump", "struct_size"},
        {"pass_other_name", "it promises the pass 'pass_other_name', which the plugin does not"},
    };
    const size_t n = sizeof rows / sizeof rows[0];
    put("good");
    for (size_t i = 0; i < n; i++) {
        put(rows[i].name);
    }
    test_open(&t, 0, 0, NULL);
    for (size_t i = 0; i < n; i++) {
        test_expect_state(&t, rows[i].name, "AVAILABLE", NULL);
    }
    for (size_t i = 0; i < n; i++) {
        test_expect_load(&t, rows[i].name, "INVALID", rows[i].in_reason);
    }
    test_expect_load(&t, "good", "AVAILABLE", NULL);
    cr_expect_null(strstr(test_marks(&t), "size_plus_8 init"), "init of a refused plugin ran");
}

Test(registry_load, failing_init_and_missing_device)
{
    put("init_fails");
    put("probe_no_device");
    put("good");
    test_open(&t, 0, 0, NULL);
    test_expect_load(&t, "init_fails", "INIT_FAILED", "the licence server does not answer");
    test_expect_load(&t, "probe_no_device", "NO_DEVICE", "the toy device is switched off");
    cr_expect_str_eq(test_info(&t, "probe_no_device").hint, "switch it on");
    test_expect_load(&t, "good", "AVAILABLE", NULL);
    cr_expect_null(strstr(test_marks(&t), "init_fails shutdown"));
}

/* A host of 1.1 reads shorter structs of 1.0 and longer ones of 1.2, and nothing else. */
Test(registry_load, sizes_across_minor_versions)
{
    static const char *const names[] = {"abi_1_0", "abi_1_0_short", "abi_1_0_long",
                                        "abi_1_1", "abi_1_0_stump", "abi_1_2_needs_0"};
    t.host.abi_major = 1;
    t.host.abi_minor = 1;
    for (int i = 0; i < 6; i++) {
        put(names[i]);
    }
    test_open(&t, 0, 0, NULL);
    test_expect_load(&t, "abi_1_0", "AVAILABLE", NULL);
    test_expect_load(&t, "abi_1_1", "AVAILABLE", NULL);
    test_expect_load(&t, "abi_1_0_short", "AVAILABLE", NULL);
    test_expect_load(&t, "abi_1_2_needs_0", "AVAILABLE", NULL);
    test_expect_load(&t, "abi_1_0_long", "INVALID", "at most");
    test_expect_load(&t, "abi_1_0_stump", "INVALID", "struct_size");
    const st_loaded *loaded = NULL;
    cr_assert_eq(st_registry_get(t.registry, STATOR_KIND_BACKEND, "abi_1_0_short", &loaded, NULL),
                 STATOR_OK);
    cr_expect_null(loaded->as.backend->self_test, "a slot out of reach is NULL");
    cr_expect_eq(loaded->desc->struct_size, sizeof(stator_backend));
}

/* A host of 1.0 asks for exactly its own sizes from plugins of its own minor. */
Test(registry_load, sizes_at_the_same_minor_version)
{
    t.host.abi_major = 1;
    t.host.abi_minor = 0;
    put("abi_1_0");
    put("abi_1_0_short");
    put("abi_1_0_long");
    test_open(&t, 0, 0, NULL);
    test_expect_load(&t, "abi_1_0", "AVAILABLE", NULL);
    test_expect_load(&t, "abi_1_0_short", "INVALID", "struct_size");
    test_expect_load(&t, "abi_1_0_long", "INVALID", "struct_size");
}

Test(registry_load, file_replaced_after_listing_is_refused)
{
    put("good");
    test_open(&t, 0, 0, NULL);
    cr_assert_eq(unlink(test_path(&t, "plugins/good.so")), 0);
    test_put_mutant(&t, "thread_alive", "plugins/good.so");
    test_expect_load(&t, "good", "INVALID", "changed after it was listed");
    cr_expect_str_eq(test_marks(&t), "");
}

Test(registry_load, other_plugin_already_loaded_from_this_path)
{
    put("good");
    test_open(&t, 0, 0, NULL);
    test_expect_load(&t, "good", "AVAILABLE", NULL);
    st_registry *first = t.registry;
    cr_assert_eq(unlink(test_path(&t, "plugins/good.so")), 0);
    test_put_mutant(&t, "thread_alive", "plugins/good.so");
    test_open(&t, 0, 0, NULL);
    test_expect_load(&t, "thread_alive", "INVALID", "already loaded from this path");
    st_registry_destroy(first);
}

Test(registry_load, folder_opened_after_listing_is_refused)
{
    put("good");
    test_open(&t, 0, 0, NULL);
    cr_assert_eq(chmod(test_path(&t, "plugins"), 0777), 0);
    test_expect_load(&t, "good", "UNTRUSTED_PATH", "writable by every user");
    cr_expect_str_eq(test_marks(&t), "");
}

Test(registry_load, several_items_load_together)
{
    put("several");
    test_open(&t, 0, 0, NULL);
    test_expect_load(&t, "one", "AVAILABLE", NULL);
    test_expect_state(&t, "two", "NO_DEVICE", "UNAVAILABLE");
    test_expect_load(&t, "several.second", "AVAILABLE", NULL);
}

typedef struct seen {
    uint32_t count;
    char names[256];
} seen;

static stator_status note_pass(void *self, const st_loaded *loaded)
{
    seen *s = self;
    s->count++;
    strncat(s->names, loaded->as.pass->item.name, sizeof s->names - strlen(s->names) - 1);
    strncat(s->names, " ", sizeof s->names - strlen(s->names) - 1);
    return STATOR_OK;
}

Test(registry_load, each_visits_the_usable_items_of_a_kind)
{
    seen s = {0};
    put("several");
    put("good");
    test_open(&t, 0, 0, NULL);
    cr_assert_eq(st_registry_each(t.registry, STATOR_KIND_PASS, note_pass, &s, NULL), STATOR_OK);
    cr_expect_eq(s.count, 2);
    cr_expect_str_eq(s.names, "several.first several.second ");
}

/* The thread that init started runs on after shutdown: the code stays mapped. That a process ends
 * in order with it is test_registry_probe's to show. */
Test(registry_load, code_stays_mapped_for_a_thread_after_shutdown)
{
    put("thread_alive");
    test_open(&t, 0, 0, NULL);
    test_expect_load(&t, "thread_alive", "AVAILABLE", NULL);
    st_registry_destroy(t.registry);
    t.registry = NULL;
    usleep(5000);
}

/* ---- threads ---- */

static void *load_one(void *self)
{
    const st_loaded *loaded = NULL;
    (void)self;
    for (int i = 0; i < 4; i++) {
        (void)st_registry_get(t.registry, STATOR_KIND_BACKEND, i % 2 ? "good" : "null_slot",
                              &loaded, NULL);
        (void)st_registry_count(t.registry);
        (void)st_registry_info(t.registry, st_registry_at(t.registry, 0));
    }
    return (void *)(uintptr_t)loaded;
}

Test(registry_load, eight_threads_load_once)
{
    pthread_t threads[8];
    put("good");
    put("null_slot");
    test_open(&t, 0, 0, NULL);
    for (int i = 0; i < 8; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, load_one, NULL), 0);
    }
    void *loaded[8];
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], &loaded[i]);
        cr_expect_eq(loaded[i], loaded[0]);
    }
    cr_expect_not_null(loaded[0]);
    const char *marks = test_marks(&t);
    const char *first = strstr(marks, "good init");
    cr_assert_not_null(first);
    cr_expect_null(strstr(first + 1, "good init"), "init ran twice:\n%s", marks);
    test_expect_state(&t, "null_slot", "INVALID", NULL);
}

/* ---- backends of the application ---- */

static const st_loaded *good_backend(void)
{
    const st_loaded *loaded = NULL;
    cr_assert_eq(st_registry_get(t.registry, STATOR_KIND_BACKEND, "good", &loaded, NULL),
                 STATOR_OK);
    return loaded;
}

Test(registry_load, registered_backend_ranks_first)
{
    put("good");
    test_open(&t, 0, 0, NULL);
    const st_loaded *file = good_backend();
    stator_diag *err = NULL;
    int self = 0;
    cr_assert_eq(st_registry_add_static(t.registry, file->as.backend, &self, &err), STATOR_OK, "%s",
                 st_diag_text(err));
    const st_loaded *mine = good_backend();
    cr_expect_eq(mine->self, &self);
    stator_item_info info = st_registry_info(t.registry, mine->row);
    cr_expect_str_eq(info.origin, "api");
    cr_expect_null(info.path);
    info = st_registry_info(t.registry, file->row);
    cr_expect_str_eq(info.state, "AVAILABLE");
    cr_expect_str_eq(info.shadowed_by, "registered by the application");
    cr_expect_eq(st_registry_add_static(t.registry, file->as.backend, NULL, &err),
                 STATOR_ALREADY_EXISTS);
    st_diag_release(err);
}

Test(registry_load, registered_backend_is_validated)
{
    put("good");
    test_open(&t, 0, 0, NULL);
    stator_backend mine = *good_backend()->as.backend;
    stator_diag *err = NULL;
    mine.exe_run = NULL;
    cr_expect_eq(st_registry_add_static(t.registry, &mine, NULL, &err), STATOR_INVALID_ARGUMENT);
    cr_expect_str_eq(st_diag_text(err), "backend 'good': the required slot 'exe_run' is NULL");
    st_diag_release(err);
    err = NULL;
    mine = *good_backend()->as.backend;
    mine.item.abi_minor_built = 8;
    cr_expect_eq(st_registry_add_static(t.registry, &mine, NULL, &err), STATOR_INVALID_ARGUMENT);
    st_diag_release(err);
    cr_expect_eq(st_registry_add_static(t.registry, NULL, NULL, NULL), STATOR_INVALID_ARGUMENT);
}

Test(registry_load, registered_backend_is_probed_in_this_process)
{
    put("good");
    test_open(&t, 0, 0, NULL);
    int self = 0;
    cr_assert_eq(st_registry_add_static(t.registry, good_backend()->as.backend, &self, NULL),
                 STATOR_OK);
    const st_loaded *mine = good_backend();
    cr_assert_eq(st_registry_probe(t.registry, mine->row, NULL), STATOR_OK);
    stator_item_info info = st_registry_info(t.registry, mine->row);
    cr_expect_eq(info.probed, 1);
    cr_assert_eq(info.device_count, 1);
    cr_expect_str_eq(info.devices[0].name, "toy device");
    cr_expect_eq(info.devices[0].id, 3);
}

/* ---- namespaced options reach the schemas of other plugins ---- */

Test(registry_load, foreign_option_schemas)
{
    put("good");
    put("needs_device");
    test_open(&t, 0, 0, NULL);
    st_option_schema schema;
    cr_assert_eq(st_registry_option_schema(t.registry, 0, "good", &schema), 1);
    cr_expect_eq(schema.count, 1);
    cr_expect_eq(schema.is_names_only, 0);
    cr_assert_eq(st_registry_option_schema(t.registry, 0, "needs_device", &schema), 1);
    cr_expect_eq(schema.is_names_only, 1);
    cr_expect_eq(st_registry_option_schema(t.registry, 0, "nobody", &schema), 0);
}
