# What the build looks for on the machine. Only OpenMP and threads are needed by the core; what is
# optional and missing is named at the end of the configure step with what it would bring.

if(STATOR_FUZZ)
  # A fuzzer runs on one thread, and clang brings no OpenMP headers by itself.
  add_library(OpenMP::OpenMP_C INTERFACE IMPORTED)
  target_compile_options(OpenMP::OpenMP_C INTERFACE -Wno-unknown-pragmas)
else()
  find_package(OpenMP REQUIRED COMPONENTS C)
endif()
find_package(Threads REQUIRED)
find_package(PkgConfig)

# Collects "what: why" for st_report_summary.
function(st_report_missing what why)
  set_property(GLOBAL APPEND PROPERTY ST_MISSING "${what}: ${why}")
endfunction()

function(st_report_summary)
  get_property(missing GLOBAL PROPERTY ST_MISSING)
  get_property(plugins GLOBAL PROPERTY ST_PLUGIN_TARGETS)
  list(JOIN plugins " " plugins)
  message(STATUS "Stator ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE}; plugins: ${plugins}")
  foreach(line IN LISTS missing)
    message(STATUS "Not built or reduced: ${line}")
  endforeach()
endfunction()

# st_find(<VAR> <pkg-config name> <header> <library> <Debian package> <what it brings>): makes the
# interface target st_dep_<VAR>; ST_HAVE_<VAR> is 1 or 0.
function(st_find var module header library package brings)
  set(found 0)
  add_library(st_dep_${var} INTERFACE)
  if(PkgConfig_FOUND)
    pkg_check_modules(ST_PC_${var} QUIET IMPORTED_TARGET ${module})
  endif()
  if(ST_PC_${var}_FOUND)
    target_link_libraries(st_dep_${var} INTERFACE PkgConfig::ST_PC_${var})
    set(found 1)
  else()
    find_path(ST_INC_${var} ${header})
    find_library(ST_LIB_${var} ${library})
    mark_as_advanced(ST_INC_${var} ST_LIB_${var})
    if(ST_INC_${var} AND ST_LIB_${var})
      target_include_directories(st_dep_${var} SYSTEM INTERFACE "${ST_INC_${var}}")
      target_link_libraries(st_dep_${var} INTERFACE "${ST_LIB_${var}}")
      set(found 1)
    endif()
  endif()
  if(NOT found)
    st_report_missing("${package}" "${brings}")
  endif()
  set(ST_HAVE_${var} ${found} PARENT_SCOPE)
endfunction()

st_find(PROTOBUFC libprotobuf-c protobuf-c/protobuf-c.h protobuf-c libprotobuf-c-dev
        "the onnx frontend and .pb inputs")
st_find(ZIP libzip zip.h zip libzip-dev ".npz files")
st_find(CJSON libcjson cjson/cJSON.h cjson libcjson-dev "case.json and --json")
st_find(PNG libpng png.h png libpng-dev "--image of stator run")
st_find(GVC libgvc graphviz/gvc.h gvc libgraphviz-dev "SVG from stator draw")
st_find(CRITERION criterion criterion/criterion.h criterion libcriterion-dev "the unit tests")

find_program(ST_PROTOC_C protoc-c)
if(NOT ST_PROTOC_C)
  st_report_missing(protobuf-c-compiler "the onnx frontend and .pb inputs")
endif()

# The tools' optional libraries in one target; ST_HAVE_<VAR> is defined as 1 or 0 for each.
add_library(st_tool_deps INTERFACE)
foreach(var IN ITEMS PROTOBUFC ZIP CJSON PNG GVC)
  target_compile_definitions(st_tool_deps INTERFACE ST_HAVE_${var}=${ST_HAVE_${var}})
  if(ST_HAVE_${var})
    target_link_libraries(st_tool_deps INTERFACE st_dep_${var})
  endif()
endforeach()

# st_protoc_sources(<out var> <name> <file.proto>...): C sources made by protoc-c, with their
# headers in <build>/proto/<name>.
function(st_protoc_sources out name)
  set(made "")
  foreach(proto IN LISTS ARGN)
    get_filename_component(stem "${proto}" NAME_WLE)
    get_filename_component(folder "${proto}" DIRECTORY)
    set(dir "${PROJECT_BINARY_DIR}/proto/${name}")
    file(MAKE_DIRECTORY "${dir}")
    add_custom_command(
      OUTPUT "${dir}/${stem}.pb-c.c" "${dir}/${stem}.pb-c.h"
      COMMAND "${ST_PROTOC_C}" "--c_out=${dir}" "-I${folder}" "${proto}"
      DEPENDS "${proto}"
      COMMENT "protoc-c ${stem}.proto")
    set_source_files_properties("${dir}/${stem}.pb-c.c" PROPERTIES COMPILE_OPTIONS "-w")
    list(APPEND made "${dir}/${stem}.pb-c.c" "${dir}/${stem}.pb-c.h")
  endforeach()
  set(${out} "${made}" PARENT_SCOPE)
endfunction()
