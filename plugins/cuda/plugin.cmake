# cuda.so links nothing of NVIDIA's: libcuda and NVRTC are opened when the backend is used. The same
# objects make cuda_soft.so, the backend over the software device, in the build tree alone.
set(ST_PLUGIN_LIBS st_codegen_gpu st_codegen)

if(NOT EXISTS "${PROJECT_SOURCE_DIR}/codegen/gpu/gpu_emitter.c")
  set(ST_PLUGIN_SKIP "the runtime of GPUs is not there yet")
else()
  include(StatorGpuPrelude)
  st_gpu_prelude(cuda prelude_source) # NVRTC gets it as a string

  list(FILTER sources EXCLUDE REGEX "/cuda_plugin\\.c$")
  add_library(st_cuda_objects OBJECT ${sources} "${prelude_source}")
  target_include_directories(st_cuda_objects PRIVATE "${folder}")
  target_link_libraries(st_cuda_objects PRIVATE st_base st_options st_plugin_options)
  add_dependencies(st_cuda_objects st_gen_headers)
  set(sources "${folder}/cuda_plugin.c" $<TARGET_OBJECTS:st_cuda_objects>)

  stator_add_plugin(cuda_soft SOURCES ${sources}
                    LIBS st_base st_options st_plugin_options ${ST_SYSTEM_LIBS} ${ST_PLUGIN_LIBS}
                    OUTPUT_DIR "${PROJECT_BINARY_DIR}/lib/stator/plugins-soft")
  target_include_directories(cuda_soft PRIVATE "${folder}")
  target_compile_definitions(cuda_soft PRIVATE "CUDA_SOFT=\"../../../tests/softgpu\"")
  add_dependencies(cuda_soft st_gen_headers)
endif()
