# cuda.so links nothing of NVIDIA's: libcuda and NVRTC are opened when the backend is used.
include(StatorGpuPlugin)
st_gpu_prelude(cuda prelude_source) # NVRTC gets it as a string
st_gpu_plugin(cuda "${prelude_source}")
