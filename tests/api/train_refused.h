/* Training steps that are refused. */
#ifndef STATOR_TEST_TRAIN_REFUSED_H
#define STATOR_TEST_TRAIN_REFUSED_H

#include "api_check.h"

#include <stator/train.h>

/* stator_model_train_step gives the status and no step, and its error has the words. */
static inline void expect_refused(stator_ctx *ctx, const stator_model *model,
                                  const stator_train_options *options, stator_status code,
                                  const char *words)
{
    stator_model *step = (stator_model *)ctx;
    const stator_status status = stator_model_train_step(model, options, &step);
    if (status != code || step != NULL || strstr(stator_ctx_error_text(ctx), words) == NULL) {
        (void)fprintf(stderr, "%s, no '%s': %s\n", stator_status_name(status), words,
                      stator_ctx_error_text(ctx));
        CHECK(0);
    }
}

#endif
