/* A model with numbers in place of symbolic sizes; see stator/inspect.h. */
#include "core/host/function.h"
#include "ir/sizes/bind_sizes.h"
#include "ir/sizes/reinfer.h"
#include "ir/verify.h"
#include <stator/inspect.h>

stator_status st_model_reinfer(st_module **module, stator_diag **err)
{
    st_size_plan nothing;
    st_module *inferred = NULL;
    st_size_plan_init(&nothing, (*module)->mem);
    const stator_status status = st_reinfer(*module, &nothing, NULL, &inferred, NULL);
    st_size_plan_deinit(&nothing);
    if (status != STATOR_OK) {
        return status == STATOR_RESOURCE_EXHAUSTED ? st_fail_oom(err)
                                                   : st_verify((*module)->root, err);
    }
    st_module_destroy(*module);
    *module = inferred;
    return st_verify(inferred->root, err);
}

stator_status stator_x_model_with_sizes(const stator_model *model, uint32_t n,
                                        const char *const *names, const int64_t *values,
                                        stator_model **out_model)
{
    *out_model = NULL;
    stator_diag *diag = NULL;
    st_module *copy = NULL;
    stator_status status = st_model_copy(model, &copy, &diag);
    if (status == STATOR_OK) {
        status = st_bind_sizes(copy, n, names, values, &diag);
    }
    if (status == STATOR_OK) {
        status = st_model_reinfer(&copy, &diag);
    }
    return st_model_end_copy(model, copy, status, out_model, diag);
}
