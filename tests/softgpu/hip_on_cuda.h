/* HIP's libraries over NVIDIA's: how libamdhip64 and libhiprtc of our own find what they stand
 * on. */
#ifndef HIP_ON_CUDA_H
#define HIP_ON_CUDA_H

#define HIP_EXPORT __attribute__((visibility("default")))

/* The library under this one: the file that the variable names, else the one of that name in this
 * library's folder, which is the software device's. NULL: it cannot be opened, said on stderr. */
void *hip_under(const char *variable, const char *name);

#endif
