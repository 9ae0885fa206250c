/* What codegen/gpu has to know of HIP. */
#ifndef STATOR_HIP_HIP_VENDOR_H
#define STATOR_HIP_HIP_VENDOR_H

#include "codegen/gpu/gpu_native.h"

extern const st_gpu_vendor hip_vendor;

#endif
