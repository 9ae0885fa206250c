/* max_unpool: zeros with the elements of x placed at flat positions; of equal positions the last
 * wins. Negative positions count from the end, as in scatter_elements. */
#include "plugins/eager/kernels/ek_move.h"

stator_status ek_max_unpool(const ek_call *c, stator_diag **err)
{
    const ek_tensor *x = &c->in[0];
    const ek_tensor *y = &c->out[0];
    const uint64_t size = ek_size(x->dtype);
    if (c->in[1].numel != x->numel) {
        return ek_fail(c, err, STATOR_INVALID_ARGUMENT, "%lld elements, but %lld indices",
                       (long long)x->numel, (long long)c->in[1].numel);
    }
    const char *from = ek_unpacked_in(c, 0);
    char *to = ek_unpacked_out(c);
    if (from == NULL || to == NULL) {
        return ek_oom(c, err);
    }
    memset(to, 0, (uint64_t)y->numel * size);
    for (int64_t i = 0; i < x->numel; i++) {
        const int64_t given = st_load_i64(c->in[1].dtype, c->in[1].data, i);
        const int64_t at = given < 0 ? given + y->numel : given;
        if (at < 0 || at >= y->numel) {
            return ek_fail(c, err, STATOR_OUT_OF_RANGE,
                           "index %lld of element %lld is outside a result of %lld elements",
                           (long long)given, (long long)i, (long long)y->numel);
        }
        memcpy(to + (uint64_t)at * size, from + (uint64_t)i * size, size);
    }
    ek_pack_out(c, to);
    return STATOR_OK;
}
