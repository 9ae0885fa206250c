/* Gemm. MatMul, Einsum and Det are rows of map.def. */
#include "frontends/onnx/onnx.h"

static stator_ref transposed(ox_node *n, stator_ref x, const char *name)
{
    static const int64_t perm[2] = {1, 0};
    return ox_attr_int(n, name, 0) != 0 ? ox_transpose(n, x, perm) : x;
}

static stator_ref scaled(ox_node *n, stator_ref x, double factor)
{
    return factor == 1 ? x : ox_mul(n, x, ox_like(n, x, factor));
}

void ox_gemm(ox_node *n)
{
    ox_check_rank(n, ox_need(n, 0), 2, 2, "A");
    ox_check_rank(n, ox_need(n, 1), 2, 2, "B");
    const stator_ref a = transposed(n, ox_need(n, 0), "transA");
    const stator_ref b = transposed(n, ox_need(n, 1), "transB");
    const double alpha = ox_attr_float(n, "alpha", 1);
    const double beta = ox_attr_float(n, "beta", 1);
    stator_ref y = scaled(n, ox_matmul(n, a, b), alpha);
    if (ox_in(n, 2) != 0 && beta != 0) {
        y = ox_add(n, y, scaled(n, ox_in(n, 2), beta));
    }
    ox_out(n, 0, y);
}
