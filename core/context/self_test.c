/* When a backend tests itself; see self_test.h.
 *
 * A device is tested once a context at most; what has passed is remembered on disk
 * (core/plugins/registry_self_test.c), so that a test costs once for each device, build of the
 * plugin, compiler and driver. */
#define _GNU_SOURCE
#include "core/context/self_test.h"

#include <string.h>
#include <time.h>

/* The backend has an option self_test, and it is off. */
static bool is_turned_off(const stator_instance *instance)
{
    const stator_item *item = &instance->backend->item;
    bool has_option = false;
    for (uint32_t i = 0; i < item->option_count; i++) {
        has_option |= strcmp(item->options[i].key, "self_test") == 0;
    }
    return has_option && st_opt_api.get_bool(instance->options, "self_test") == 0;
}

static stator_status run(const stator_instance *instance, stator_diag **err)
{
    st_plugin_call call;
    st_plugin_enter(&call, instance->loaded->callee, "self_test");
    return st_plugin_leave(&call, instance->backend->self_test(instance->inst, err), err);
}

/* The compat key is asked for here alone: it may open a compiler. */
static stator_status run_unless_known(stator_instance *instance, stator_diag **err)
{
    const st_registry *registry = instance->ctx->registry;
    const char *key = st_instance_compat_key(instance);
    if (st_registry_is_self_tested(registry, instance->loaded, key)) {
        return STATOR_OK;
    }
    ST_TRY(run(instance, err));
    st_registry_note_self_test(registry, instance->loaded, key);
    st_log(instance->ctx, "dispatch", 2, "the backend '%s' has tested itself on %s",
           instance->backend->item.name,
           instance->domain != NULL ? instance->domain->name : "the host");
    return STATOR_OK;
}

stator_status st_self_test_once(stator_instance *instance, stator_diag **err)
{
    _Atomic uint32_t *is_tested = instance->domain != NULL ? &instance->domain->is_tested : NULL;
    const bool is_known = is_tested != NULL && atomic_load(is_tested) != 0;
    if (instance->backend->self_test == NULL || is_known || is_turned_off(instance)) {
        return STATOR_OK;
    }
    ST_TRY(run_unless_known(instance, err));
    if (is_tested != NULL) {
        atomic_store(is_tested, 1);
    }
    return STATOR_OK;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

stator_status st_self_test_now(stator_instance *instance, uint64_t *out_ns, stator_diag **err)
{
    *out_ns = 0;
    ST_FAIL_IF(instance->backend->self_test == NULL, err, STATOR_UNIMPLEMENTED,
               "the backend '%s' has no self test", instance->backend->item.name);
    const uint64_t begin = now_ns();
    ST_TRY(run(instance, err));
    *out_ns = now_ns() - begin;
    st_registry_note_self_test(instance->ctx->registry, instance->loaded,
                               st_instance_compat_key(instance));
    return STATOR_OK;
}
