# cpu_llvm.so itself needs no LLVM. Its code generator, lib/stator/jit/cpu_llvm_jit.so, is built with
# the newest LLVM of 22 to 19 that llvm-config-NN finds; without one the backend is listed as
# unavailable with that reason.
list(FILTER sources EXCLUDE REGEX "/cpu-llvm/jit/")
set(ST_PLUGIN_LIBS st_codegen)

foreach(version IN ITEMS 22 21 20 19)
  find_program(ST_LLVM_CONFIG_${version} llvm-config-${version})
  mark_as_advanced(ST_LLVM_CONFIG_${version})
  if(ST_LLVM_CONFIG_${version})
    set(ST_LLVM_CONFIG "${ST_LLVM_CONFIG_${version}}")
    break()
  endif()
endforeach()

function(st_llvm_ask out what)
  execute_process(COMMAND "${ST_LLVM_CONFIG}" ${what} OUTPUT_VARIABLE answer
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(${out} "${answer}" PARENT_SCOPE)
endfunction()

set(ST_LLVM_LIB "")
if(ST_LLVM_CONFIG AND TARGET st_codegen)
  st_llvm_ask(llvm_version --version)
  st_llvm_ask(llvm_include --includedir)
  st_llvm_ask(llvm_libdir --libdir)
  string(REGEX MATCH "^[0-9]+" llvm_major "${llvm_version}")
  find_library(ST_LLVM_LIB_${llvm_major} NAMES LLVM-${llvm_major} HINTS "${llvm_libdir}"
               NO_DEFAULT_PATH)
  mark_as_advanced(ST_LLVM_LIB_${llvm_major})
  set(ST_LLVM_LIB "${ST_LLVM_LIB_${llvm_major}}")
endif()

if(ST_LLVM_LIB)
  file(GLOB jit_sources CONFIGURE_DEPENDS "${folder}/jit/*.c")
  add_library(cpu_llvm_jit MODULE ${jit_sources})
  target_include_directories(cpu_llvm_jit PRIVATE "${folder}/jit")
  target_include_directories(cpu_llvm_jit SYSTEM PRIVATE "${llvm_include}"
                             "/usr/include/llvm-c-${llvm_major}")
  target_link_libraries(cpu_llvm_jit PRIVATE st_codegen st_base st_options st_plugin_options
                        "${ST_LLVM_LIB}" ${ST_SYSTEM_LIBS})
  target_link_options(cpu_llvm_jit PRIVATE LINKER:--exclude-libs,ALL LINKER:--build-id
    "LINKER:--version-script=${folder}/jit/jit.map" ${ST_LINK_DEFS})
  set_target_properties(cpu_llvm_jit PROPERTIES PREFIX "" SUFFIX ".so"
    LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib/stator/jit"
    LINK_DEPENDS "${folder}/jit/jit.map")
  add_dependencies(cpu_llvm_jit st_gen_headers)
  install(TARGETS cpu_llvm_jit LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/stator/jit")
  set_property(GLOBAL APPEND PROPERTY ST_PLUGIN_TARGETS cpu_llvm_jit)
  message(STATUS "LLVM ${llvm_version} for inductor-cpu")
else()
  st_report_missing("llvm-22-dev (or llvm-19-dev)" "the backend inductor-cpu cannot compile")
endif()
