/* What codegen/gpu has to know of CUDA. */
#ifndef STATOR_CUDA_CUDA_VENDOR_H
#define STATOR_CUDA_CUDA_VENDOR_H

#include "codegen/gpu/gpu_native.h"

extern const st_gpu_vendor cuda_vendor;

#endif
