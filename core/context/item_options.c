/* Values of the options of backends, frontends and passes; see item_options.h. */
#include "core/context/item_options.h"

stator_status st_item_options(stator_ctx *ctx, const stator_item *item,
                              const st_option_pairs *given, stator_options **out_options,
                              stator_diag **err)
{
    const st_options_request request = {.item = item->name,
                                        .kind = item->kind == STATOR_KIND_PASS ? item->kind : 0,
                                        .schema = item->options,
                                        .schema_count = item->option_count,
                                        .count = given->count,
                                        .keys = given->keys,
                                        .values = given->values,
                                        .use_env = (ctx->flags & STATOR_CTX_NO_ENV) == 0,
                                        .foreign = st_registry_option_schema,
                                        .foreign_self = ctx->registry};
    ST_TRY(st_options_create(&ctx->mem, &request, out_options, err));
    const char *warnings = st_options_warnings(*out_options);
    if (warnings[0] != '\0') {
        st_log(ctx, "options", 1, "%s", warnings);
    }
    return STATOR_OK;
}

stator_status st_pass_options(stator_ctx *ctx, const stator_item *pass, const stator_options *given,
                              stator_options **out_options, stator_diag **err)
{
    st_option_pairs pairs;
    *out_options = NULL;
    ST_TRY(st_options_foreign(given, STATOR_KIND_PASS, pass->name, &pairs, err));
    const stator_status status = st_item_options(ctx, pass, &pairs, out_options, err);
    st_option_pairs_deinit(&pairs);
    return status;
}
