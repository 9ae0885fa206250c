# hip.so links nothing of AMD's: libamdhip64 is opened when the backend is used, hiprtc by the helper
# stator-hiprtc. The same objects make hip_soft.so, the backend over the software device, in the
# build tree alone.
set(ST_PLUGIN_LIBS st_codegen_gpu st_codegen)

if(NOT EXISTS "${PROJECT_SOURCE_DIR}/codegen/gpu/gpu_emitter.c")
  set(ST_PLUGIN_SKIP "the runtime of GPUs is not there yet")
else()
  include(StatorGpuPrelude)
  st_gpu_prelude(hip prelude_source) # hiprtc gets it as a string
  add_executable(stator_hiprtc "${folder}/helper/stator_hiprtc.c" "${prelude_source}")
  target_include_directories(stator_hiprtc PRIVATE "${PROJECT_SOURCE_DIR}" "${folder}")
  target_link_libraries(stator_hiprtc PRIVATE st_codegen_gpu st_codegen st_base st_options
                        ${ST_SYSTEM_LIBS})
  add_dependencies(stator_hiprtc st_gen_headers)
  set_target_properties(stator_hiprtc PROPERTIES OUTPUT_NAME stator-hiprtc
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib/stator/libexec")
  install(TARGETS stator_hiprtc RUNTIME DESTINATION "${CMAKE_INSTALL_LIBDIR}/stator/libexec")

  list(FILTER sources EXCLUDE REGEX "/(hip_plugin|helper/.*)\\.c$")
  add_library(st_hip_objects OBJECT ${sources})
  target_include_directories(st_hip_objects PRIVATE "${folder}")
  target_link_libraries(st_hip_objects PRIVATE st_base st_options st_plugin_options)
  add_dependencies(st_hip_objects st_gen_headers stator_hiprtc)
  set(sources "${folder}/hip_plugin.c" $<TARGET_OBJECTS:st_hip_objects>)

  stator_add_plugin(hip_soft SOURCES ${sources}
                    LIBS st_base st_options st_plugin_options ${ST_SYSTEM_LIBS} ${ST_PLUGIN_LIBS}
                    OUTPUT_DIR "${PROJECT_BINARY_DIR}/lib/stator/plugins-soft")
  target_include_directories(hip_soft PRIVATE "${folder}")
  target_compile_definitions(hip_soft PRIVATE "HIP_SOFT=\"../../../tests/softgpu\"")
  add_dependencies(hip_soft st_gen_headers)
endif()
