/* A cuBLASLt of another release for the tests of plugins/cuda: it has every function, and each of
 * them answers as cublasLtGetProperty does. FAKE_VERSION is its version, 990102 is 99.1.2. */
#include "plugins/cuda/cuda_cublaslt.h"

static cublaslt_status say_version(int32_t property, int *value)
{
    *value = property == CUBLASLT_PROPERTY_MAJOR   ? FAKE_VERSION / 10000
             : property == CUBLASLT_PROPERTY_MINOR ? FAKE_VERSION / 100 % 100
                                                   : FAKE_VERSION % 100;
    return CUBLASLT_STATUS_SUCCESS;
}

#define CUDA_FUNCTION(field, symbol, arguments)                                                    \
    __attribute__((visibility("default")))                                                         \
    cublaslt_status fake_##field(int32_t, int *) __asm__(symbol);                                  \
    cublaslt_status fake_##field(int32_t property, int *value)                                     \
    {                                                                                              \
        return say_version(property, value);                                                       \
    }
#include "plugins/cuda/cuda_cublaslt_functions.def"
