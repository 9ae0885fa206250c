# hip.so links nothing of AMD's: libamdhip64 is opened when the backend is used, hiprtc by the helper
# stator-hiprtc.
include(StatorGpuPlugin)
st_gpu_plugin(hip)

st_gpu_prelude(hip prelude_source) # hiprtc gets it as a string
add_executable(stator_hiprtc "${folder}/helper/stator_hiprtc.c" "${prelude_source}")
target_include_directories(stator_hiprtc PRIVATE "${PROJECT_SOURCE_DIR}" "${folder}")
target_link_libraries(stator_hiprtc PRIVATE st_codegen_gpu st_codegen st_base st_options
                      ${ST_SYSTEM_LIBS})
add_dependencies(stator_hiprtc st_gen_headers)
add_dependencies(st_hip_objects stator_hiprtc)
set_target_properties(stator_hiprtc PROPERTIES OUTPUT_NAME stator-hiprtc
  RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib/stator/libexec")
install(TARGETS stator_hiprtc RUNTIME DESTINATION "${CMAKE_INSTALL_LIBDIR}/stator/libexec")
