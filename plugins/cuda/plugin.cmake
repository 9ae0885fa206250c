# cuda.so links nothing of NVIDIA's: libcuda and NVRTC are opened when the backend is used.
set(ST_PLUGIN_SKIP "the text of its kernels is not printed yet")
