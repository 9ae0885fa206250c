/* The option values that an item of a plugin receives in a context: given ones, those of the
 * environment where the context reads it, defaults. What the user should be told of them goes to
 * the channel "options". */
#ifndef STATOR_CONTEXT_ITEM_OPTIONS_H
#define STATOR_CONTEXT_ITEM_OPTIONS_H

#include "core/context/ctx.h"
#include "core/plugins/options.h"

stator_status st_item_options(stator_ctx *ctx, const stator_item *item,
                              const st_option_pairs *given, stator_options **out_options,
                              stator_diag **err);
/* The options of a pass, from what `given`, the values of a compile, has for it ("PASS:key"); NULL:
 * nothing was given. */
stator_status st_pass_options(stator_ctx *ctx, const stator_item *pass, const stator_options *given,
                              stator_options **out_options, stator_diag **err);

#endif
