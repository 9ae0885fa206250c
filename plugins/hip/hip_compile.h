/* hiprtc in a child process: a kernel's text becomes an image that HIP loads. No device is needed.
 *
 * Some releases of hiprtc abort on what they do not know, and all of them bring an LLVM into the
 * process that opens them; so the helper libexec/stator-hiprtc opens it, one process a program. */
#ifndef STATOR_HIP_HIP_COMPILE_H
#define STATOR_HIP_HIP_COMPILE_H

#include "codegen/gpu/gpu_driver.h"

/* As the members of st_gpu_vendor. `file` outlives the compiler. Any thread. */
void *hip_compiler_create(const char *file);
void hip_compiler_destroy(void *compiler);
stator_status hip_compiler_version(void *compiler, int *major, int *minor, stator_diag **err);

/* Appends the image of a program to `out`: a code object for the device's architecture, with its
 * width of a warp. UNAVAILABLE: hiprtc or the helper is missing; INTERNAL: the text does not
 * compile, with log and text, or the helper was ended by a signal; RESOURCE_EXHAUSTED. */
stator_status hip_compile(void *compiler, const st_gpu_device *device, const char *name,
                          const char *text, uint64_t text_bytes, st_str *out, stator_diag **err);

#endif
