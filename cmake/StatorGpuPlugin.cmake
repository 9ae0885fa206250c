# What the plugins of GPU vendors share: the preludes of kernels (codegen/gpu/prelude) as strings in
# a source file, and the plugin made twice, for the device and for the software device.

# st_gpu_prelude(<vendor> <out>): sets <out> to a C file that defines <vendor>_prelude, the text of
# gpu_prelude_<vendor>.h with what all devices share behind it.
function(st_gpu_prelude vendor out)
  set(all "")
  foreach(part IN ITEMS ${vendor} device polynomials math)
    set(file "${PROJECT_SOURCE_DIR}/codegen/gpu/prelude/gpu_prelude_${part}.h")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
    file(READ "${file}" bytes HEX)
    string(APPEND all "${bytes}")
  endforeach()
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${all}00")
  set(source "${PROJECT_BINARY_DIR}/gen/${vendor}_prelude.c")
  file(CONFIGURE OUTPUT "${source}" @ONLY
       CONTENT "extern const char @vendor@_prelude[];\nconst char @vendor@_prelude[] = {@bytes@};\n")
  set(${out} "${source}" PARENT_SCOPE)
endfunction()

# st_gpu_plugin(<vendor> [<source>...]): in a plugin.cmake. All sources of the folder but
# <vendor>_plugin.c and helper/, and those named, become objects st_<vendor>_objects; `sources` is
# then what the plugin is linked from. The same objects make <vendor>_soft.so, the backend over the
# software device (tests/softgpu), in the build tree alone.
macro(st_gpu_plugin vendor)
  string(TOUPPER ${vendor} vendor_upper)
  set(ST_PLUGIN_LIBS st_codegen_gpu st_codegen)
  list(FILTER sources EXCLUDE REGEX "/(${vendor}_plugin|helper/.*)\\.c$")
  add_library(st_${vendor}_objects OBJECT ${sources} ${ARGN})
  target_include_directories(st_${vendor}_objects PRIVATE "${folder}")
  target_link_libraries(st_${vendor}_objects PRIVATE st_base st_options st_plugin_options)
  add_dependencies(st_${vendor}_objects st_gen_headers)
  set(sources "${folder}/${vendor}_plugin.c" $<TARGET_OBJECTS:st_${vendor}_objects>)

  stator_add_plugin(${vendor}_soft SOURCES ${sources}
                    LIBS st_base st_options st_plugin_options ${ST_SYSTEM_LIBS} ${ST_PLUGIN_LIBS}
                    OUTPUT_DIR "${PROJECT_BINARY_DIR}/lib/stator/plugins-soft")
  target_include_directories(${vendor}_soft PRIVATE "${folder}")
  target_compile_definitions(${vendor}_soft PRIVATE
                             "${vendor_upper}_SOFT=\"../../../tests/softgpu\"")
  add_dependencies(${vendor}_soft st_gen_headers)
endmacro()
