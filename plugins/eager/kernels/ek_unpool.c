/* max_unpool: zeros with the elements of x placed at flat positions; of equal positions the last
 * wins. Negative positions count from the end, as in scatter_elements. */
#include "plugins/eager/kernels/ek_move.h"

stator_status ek_max_unpool(const ek_call *c, stator_diag **err)
{
    const ek_tensor *x = &c->in[0];
    const ek_tensor *y = &c->out[0];
    ek_bytes_view view;
    EK_FAIL_IF(c->in[1].numel != x->numel, c, err, STATOR_INVALID_ARGUMENT,
               "%lld elements, but %lld indices", (long long)x->numel, (long long)c->in[1].numel);
    ST_TRY(ek_view_bytes(c, &view, err));
    memset(view.out, 0, (uint64_t)y->numel * view.size);
    for (int64_t i = 0; i < x->numel; i++) {
        const int64_t given = st_load_i64(c->in[1].dtype, c->in[1].data, i);
        const int64_t at = given < 0 ? given + y->numel : given;
        EK_FAIL_IF(at < 0 || at >= y->numel, c, err, STATOR_OUT_OF_RANGE,
                   "index %lld of element %lld is outside a result of %lld elements",
                   (long long)given, (long long)i, (long long)y->numel);
        ek_view_copy(&view, at, i, 1);
    }
    ek_pack_out(c, view.out);
    return STATOR_OK;
}
