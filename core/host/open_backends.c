/* Opening the backends of a function: the main one, the reference, those that take what main
 * leaves. See open_backends.h. */
#include "core/host/open_backends.h"

#include "core/context/devices.h"
#include "core/context/self_test.h"
#include "core/plugins/options.h"

#include <string.h>

enum { NAME_BYTES = 128 };

/* Does the backend have an option `mode`? */
static bool has_mode(const stator_ctx *ctx, const char *backend)
{
    st_option_schema schema = {.options = NULL};
    if (st_registry_option_schema(ctx->registry, 0, backend, &schema) != 1) {
        return false;
    }
    for (uint32_t i = 0; i < schema.count && schema.options != NULL; i++) {
        if (strcmp(schema.options[i].key, "mode") == 0) {
            return true;
        }
    }
    return false;
}

static bool is_named(uint32_t n, const char *const *keys, const char *key)
{
    for (uint32_t i = 0; i < n; i++) {
        if (keys[i] != NULL && strcmp(keys[i], key) == 0) {
            return true;
        }
    }
    return false;
}

/* Is it "BACKEND.key" or "PASS:key", which counts whichever backend compiles? */
static bool has_space(const char *key)
{
    return key != NULL && strpbrk(key, ".:") != NULL;
}

/* An instance with its memory, on a device whose self test has passed. */
static stator_status open_attached(stator_ctx *ctx, const char *name, uint32_t device,
                                   const st_option_pairs *given, stator_instance **out,
                                   stator_diag **err)
{
    ST_TRY(st_instance_open_on(ctx, name, device, given, out, err));
    stator_status status = st_device_attach(*out, err);
    ST_THEN(status, st_self_test_once(*out, err));
    if (status != STATOR_OK) {
        st_instance_close(*out);
        *out = NULL;
    }
    return status;
}

/* The number behind the colon of the device that the options name. */
static uint32_t device_of(const stator_compile_options *options)
{
    char name[NAME_BYTES];
    uint32_t number = 0;
    return options->device != NULL &&
                   st_device_parse(options->device, name, sizeof name, &number, NULL) == STATOR_OK
               ? number
               : 0;
}

/* The backend with the options that were given, and the mode when it has an option for it. One that
 * stands in for another has no use for keys without a name: they are the other's. */
static stator_status open_backend(stator_ctx *ctx, const char *name, bool stands_in,
                                  const stator_compile_options *options, stator_instance **out,
                                  stator_diag **err)
{
    ST_REQUIRE_LIST(options->option_keys, options->option_count, err);
    ST_REQUIRE_LIST(options->option_values, options->option_count, err);
    const uint64_t room = (uint64_t)options->option_count + 1u;
    const char **keys = st_calloc(&ctx->mem, 2u * room, sizeof *keys);
    ST_TRY_MEM(keys, err);
    const char **values = keys + room;
    uint32_t n = 0;
    for (uint32_t i = 0; i < options->option_count; i++) {
        if (!stands_in || has_space(options->option_keys[i])) {
            keys[n] = options->option_keys[i];
            values[n++] = options->option_values[i];
        }
    }
    if (options->mode != NULL && !is_named(n, keys, "mode") && has_mode(ctx, name)) {
        keys[n] = "mode";
        values[n++] = options->mode;
    }
    const st_option_pairs given = {.count = n, .keys = keys, .values = values};
    const stator_status status =
        open_attached(ctx, name, stands_in ? 0 : device_of(options), &given, out, err);
    st_free(&ctx->mem, (void *)(uintptr_t)keys);
    return status;
}

/* The backend of that name, or the one that the caller wants instead of one that is unavailable. */
static stator_status open_named(stator_ctx *ctx, const char *name,
                                const stator_compile_options *options, stator_instance **out,
                                stator_diag **err)
{
    stator_diag *diag = NULL;
    stator_status status = open_backend(ctx, name, false, options, out, &diag);
    if (status == STATOR_UNAVAILABLE && options->fallback != NULL) {
        st_log(ctx, "dispatch", 1, "backend '%s' replaced by '%s': %s", name, options->fallback,
               st_diag_text(diag));
        st_diag_release(diag);
        return open_backend(ctx, options->fallback, true, options, out, err);
    }
    return st_diag_give(status, diag, err);
}

static void say_passed_over(stator_ctx *ctx, const st_registry_item *next, const stator_diag *why)
{
    const char *hint = st_diag_hint(why);
    st_log(ctx, "dispatch", 1, "the default backend is passed over for '%s': %s%s%s",
           st_registry_item_name(next), st_diag_text(why), hint != NULL ? "; " : "",
           hint != NULL ? hint : "");
}

/* Nobody named a backend: the best that can be used; each better one is told. */
static stator_status open_default(stator_ctx *ctx, const stator_compile_options *options,
                                  stator_instance **out, stator_diag **err)
{
    st_registry *registry = ctx->registry;
    const st_registry_item *item = NULL;
    ST_TRY(st_registry_default_backend(registry, NULL, &item, err));
    for (;;) {
        stator_diag *why = NULL;
        const st_loaded *loaded = NULL;
        (void)st_registry_load_unnamed(registry, item, &loaded, NULL); /* told again when opened */
        const stator_status status =
            open_named(ctx, st_registry_item_name(item), options, out, &why);
        const bool is_last = status != STATOR_UNAVAILABLE ||
                             st_registry_default_backend(registry, item, &item, NULL) != STATOR_OK;
        if (is_last) {
            return st_diag_give(status, why, err);
        }
        say_passed_over(ctx, item, why);
        st_diag_release(why);
    }
}

/* Is the device called by another backend than the options name? */
static bool is_anothers(stator_ctx *ctx, const stator_compile_options *options, const char *device)
{
    const st_loaded *loaded = NULL;
    return options->backend != NULL && strcmp(device, "cpu") != 0 &&
           st_registry_get(ctx->registry, STATOR_KIND_BACKEND, options->backend, &loaded, NULL) ==
               STATOR_OK &&
           strcmp(loaded->as.backend->item.name, device) != 0;
}

/* The device that the options name is one of the backend's: without a backend it names that. */
static stator_status open_on_device(stator_ctx *ctx, const stator_compile_options *options,
                                    stator_instance **out, stator_diag **err)
{
    char name[NAME_BYTES];
    uint32_t number = 0;
    ST_TRY(st_device_parse(options->device, name, sizeof name, &number, err));
    const bool is_cpu = strcmp(name, "cpu") == 0;
    if (is_cpu && options->backend == NULL) {
        return open_default(ctx, options, out, err);
    }
    stator_compile_options own = *options; /* of another's device the number says nothing here */
    own.device = is_anothers(ctx, options, name) ? NULL : options->device;
    ST_TRY(open_named(ctx, options->backend != NULL ? options->backend : name, &own, out, err));
    const char *backend = (*out)->backend->item.name;
    const bool is_right =
        is_cpu ? (*out)->domain == NULL && number == 0 : strcmp(backend, name) == 0;
    if (!is_right) {
        const bool is_on_host = (*out)->domain == NULL;
        const stator_status status = st_fail(
            err, STATOR_INVALID_ARGUMENT,
            "device '%s' is none of the backend '%s', which works on %s; name the backend of the "
            "device, or leave one of both out",
            options->device, backend, is_on_host ? "cpu" : (*out)->domain->name);
        st_instance_close(*out);
        *out = NULL;
        return status;
    }
    return STATOR_OK;
}

stator_status st_open_main(stator_ctx *ctx, const stator_compile_options *options,
                           stator_instance **out, stator_diag **err)
{
    *out = NULL;
    if (options->device != NULL) {
        return open_on_device(ctx, options, out, err);
    }
    return options->backend != NULL ? open_named(ctx, options->backend, options, out, err)
                                    : open_default(ctx, options, out, err);
}

stator_instance *st_open_reference(const stator_instance *main)
{
    stator_ctx *ctx = main->ctx;
    stator_instance *instance = NULL;
    stator_diag *diag = NULL;
    if (st_instance_open_below(ctx, "eager", main->options, &instance, &diag) != STATOR_OK) {
        st_log(ctx, "dispatch", 2, "no reference backend: %s", st_diag_text(diag));
    }
    st_diag_release(diag);
    return instance;
}

static stator_status open_fallback(st_backends *b, const char *name, stator_diag **err)
{
    stator_instance *instance = NULL;
    if (strcmp(name, b->main->backend->item.name) == 0) {
        return STATOR_OK; /* main itself has refused these nodes */
    }
    ST_FAIL_IF(b->n_fallbacks == ST_FALLBACKS_MAX, err, STATOR_INVALID_ARGUMENT,
               "there are more than %d node fallbacks", (int)ST_FALLBACKS_MAX);
    if (b->reference != NULL && strcmp(name, b->reference->backend->item.name) == 0) {
        instance = b->reference;
    } else {
        ST_TRY(st_instance_open_below(b->main->ctx, name, b->main->options, &instance, err));
    }
    b->fallbacks[b->n_fallbacks++] = instance; /* closed with the others from here on */
    ST_TRY(st_device_attach(instance, err));
    return st_self_test_once(instance, err);
}

stator_status st_open_fallbacks(st_backends *b, const stator_compile_options *options,
                                stator_diag **err)
{
    const char *at = options->node_fallbacks;
    char name[NAME_BYTES];
    if ((options->flags & STATOR_COMPILE_STRICT) != 0) {
        return STATOR_OK;
    }
    if (at == NULL) {
        return b->reference != NULL ? open_fallback(b, "eager", err) : STATOR_OK;
    }
    while (*at != '\0') {
        const size_t n = strcspn(at, ",");
        ST_FAIL_IF(n == 0 || n >= sizeof name, err, STATOR_INVALID_ARGUMENT,
                   "the node fallbacks '%s' are not names of backends with a comma between",
                   options->node_fallbacks);
        memcpy(name, at, n);
        name[n] = '\0';
        ST_TRY(open_fallback(b, name, err));
        at += n + (at[n] == ',');
    }
    return STATOR_OK;
}

bool st_backends_use(const st_backends *b, const st_domain *domain)
{
    bool is_used = b->main->domain == domain;
    for (uint32_t i = 0; i < b->n_fallbacks; i++) {
        is_used |= b->fallbacks[i]->domain == domain;
    }
    return is_used;
}

void st_backends_close(st_backends *b)
{
    for (uint32_t i = 0; i < b->n_fallbacks; i++) {
        st_instance_close(b->fallbacks[i] != b->reference ? b->fallbacks[i] : NULL);
    }
    st_instance_close(b->main);
    st_instance_close(b->reference);
    *b = (st_backends){.main = NULL};
}
