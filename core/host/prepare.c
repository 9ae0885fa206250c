/* stator_function_prepare: compiling ahead of the calls. A compile reads of an input what a call
 * brings but its data, so that views without data serve. */
#include "core/host/function.h"

static stator_status read_shapes(const stator_model *model, uint32_t n_in, const stator_shape *in,
                                 DLTensor *views, stator_diag **err)
{
    for (uint32_t i = 0; i < n_in; i++) {
        stator_port_info port = {.struct_size = sizeof port};
        ST_FAIL_IF(in[i].rank > STATOR_RANK_MAX || (in[i].rank != 0 && in[i].dims == NULL), err,
                   STATOR_INVALID_ARGUMENT, "input %u has %u axes%s", i, in[i].rank,
                   in[i].rank > STATOR_RANK_MAX ? ", more than a tensor may have"
                                                : " and no sizes");
        ST_FAIL_IF(in[i].reserved != 0, err, STATOR_INVALID_ARGUMENT,
                   "member 'reserved' of the stator_shape of input %u is %u; set it to 0", i,
                   in[i].reserved);
        for (uint32_t axis = 0; axis < in[i].rank; axis++) {
            ST_FAIL_IF(in[i].dims[axis] < 0, err, STATOR_INVALID_ARGUMENT,
                       "axis %u of input %u has size %lld", axis, i, (long long)in[i].dims[axis]);
        }
        ST_TRY(stator_model_input_info(model, i, &port));
        views[i] = (DLTensor){.device = {.device_type = kDLCPU},
                              .ndim = (int32_t)in[i].rank,
                              .dtype = st_dtype_to_dl(port.dtype),
                              .shape = (int64_t *)(uintptr_t)in[i].dims};
    }
    return STATOR_OK;
}

static stator_status check_model(const stator_model *model, uint32_t n_in, const stator_shape *in,
                                 stator_diag **err)
{
    const uint32_t wanted = stator_model_input_count(model);
    ST_FAIL_IF(n_in != wanted || (in == NULL && n_in != 0), err, STATOR_INVALID_ARGUMENT,
               "shapes of %u inputs given, the model has %u", in != NULL ? n_in : 0, wanted);
    return model->n_needed == 0 ? STATOR_OK
                                : st_fail(err, STATOR_NEED_VALUE,
                                          "the graph depends on the value of input '%s', which is "
                                          "known only at call time",
                                          model->needed[0]);
}

stator_status stator_function_prepare(stator_function *function, uint32_t n_in,
                                      const stator_shape *in)
{
    stator_ctx *ctx = st_function_ctx(function);
    const stator_model *model = st_function_model(function);
    stator_diag *diag = NULL;
    DLTensor *views = NULL;
    st_compiled *compiled = NULL;
    stator_status status = check_model(model, n_in, in, &diag);
    if (status == STATOR_OK) {
        views = st_calloc(&ctx->mem, n_in + UINT64_C(1), sizeof *views);
        status = views != NULL ? read_shapes(model, n_in, in, views, &diag) : st_fail_oom(&diag);
    }
    ST_THEN(status, st_function_prepare(function, n_in, views, &compiled, &diag));
    st_free(&ctx->mem, views);
    return st_ctx_fail(ctx, status, diag);
}
