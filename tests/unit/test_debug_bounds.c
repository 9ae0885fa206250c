/* inductor-cpu's option debug_bounds asks the host to fill results before each call, so that
 * elements that a kernel leaves out show; without the option it does not. */
#include "core/context/nested.h"

#include "core/host/model.h"

#include <criterion/criterion.h>
#include <string.h>

static stator_instance *open_with(stator_ctx *ctx, const char *value)
{
    const char *key = "debug_bounds";
    stator_instance *instance = NULL;
    stator_diag *err = NULL;
    (void)!st_instance_open(ctx, "inductor-cpu", 1, &key, &value, &instance, &err);
    st_diag_release(err);
    return instance;
}

/* The flags of an executable that the instance makes of the graph; ends the instance. */
static uint32_t flags_of(stator_instance *instance, const stator_graph *graph)
{
    stator_diag *err = NULL;
    void *exe = NULL;
    stator_exe_info info = {.struct_size = sizeof info};
    cr_assert_eq(st_instance_compile(instance, graph, NULL, &exe, &err), STATOR_OK, "%s",
                 st_diag_text(err));
    cr_assert_eq(st_instance_exe_info(instance, exe, &info), STATOR_OK);
    st_instance_exe_destroy(instance, exe);
    st_instance_close(instance);
    return info.flags;
}

Test(debug_bounds, option_sets_fill_outputs, .timeout = 60)
{
    static const char text[] =
        "stir 1\ngraph @main(%x: f32[4]) {\n  %y = neg(%x)\n  return y: %y\n}\n";
    const stator_load_options load = {.struct_size = sizeof load, .flags = 1};
    stator_ctx *ctx = NULL;
    stator_model *model = NULL;
    cr_assert_eq(stator_ctx_create(NULL, &ctx), STATOR_OK);
    stator_instance *bounds = open_with(ctx, "yes");
    if (bounds != NULL) { /* the backend is there */
        cr_assert_eq(stator_model_load_bytes(ctx, text, strlen(text), "m.stir", &load, &model),
                     STATOR_OK);
        const stator_graph *graph = stator_model_graph(model);
        cr_expect_neq(flags_of(bounds, graph) & STATOR_EXE_FILL_OUTPUTS, 0u);
        cr_expect_eq(flags_of(open_with(ctx, "no"), graph) & STATOR_EXE_FILL_OUTPUTS, 0u);
    }
    stator_model_destroy(model);
    stator_ctx_destroy(ctx);
}
