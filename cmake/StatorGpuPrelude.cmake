# The preludes of kernels (codegen/gpu/prelude/gpu_prelude_*.h) as strings in a source file.

# st_gpu_prelude(<vendor> <out>): sets <out> to a C file that defines <vendor>_prelude, the text of
# gpu_prelude_<vendor>.h with gpu_prelude_device.h behind it.
function(st_gpu_prelude vendor out)
  set(all "")
  foreach(part IN ITEMS ${vendor} device)
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
