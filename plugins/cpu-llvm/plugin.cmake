# cpu_llvm.so itself needs no LLVM. Its code generator, lib/stator/jit/cpu_llvm_jit.so, is built with
# the newest LLVM of 22 to 19 that llvm-config-NN finds; without one the backend is listed as
# unavailable with that reason.
list(FILTER sources EXCLUDE REGEX "/cpu-llvm/(jit|kernels|onednn)/")
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
  # The plugin looks for this file instead of opening it when a program may come from the cache.
  file(REAL_PATH "${ST_LLVM_LIB}" llvm_file)
  set_source_files_properties("${folder}/cpu_jit.c" "${folder}/cpu_compat.c" PROPERTIES COMPILE_DEFINITIONS
                              "CPU_LLVM_FILE=\"${llvm_file}\"")
  message(STATUS "LLVM ${llvm_version} for inductor-cpu")
else()
  st_report_missing("llvm-22-dev (or llvm-19-dev)" "the backend inductor-cpu cannot compile")
endif()

# Contractions by oneDNN are a shared object of their own too, lib/stator/jit/cpu_llvm_dnnl.so; without
# it they become loops.
find_path(ST_DNNL_INCLUDE oneapi/dnnl/dnnl_version.h)
find_library(ST_DNNL_LIB dnnl)
mark_as_advanced(ST_DNNL_INCLUDE ST_DNNL_LIB)
set(dnnl_major "")
if(ST_DNNL_LIB AND EXISTS "${ST_DNNL_INCLUDE}/oneapi/dnnl/dnnl_version.h")
  file(STRINGS "${ST_DNNL_INCLUDE}/oneapi/dnnl/dnnl_version.h" dnnl_major
       REGEX "#define DNNL_VERSION_MAJOR")
endif()
if(STATOR_FUZZ)
  # Built without OpenMP, which oneDNN shares with us.
elseif(dnnl_major MATCHES " 2$" AND TARGET st_codegen)
  file(GLOB dnnl_sources CONFIGURE_DEPENDS "${folder}/kernels/*.c" "${folder}/kernels/tiles/*.c"
       "${folder}/onednn/*.c")
  add_library(cpu_llvm_dnnl MODULE ${dnnl_sources})
  target_include_directories(cpu_llvm_dnnl SYSTEM PRIVATE "${ST_DNNL_INCLUDE}")
  target_link_libraries(cpu_llvm_dnnl PRIVATE st_codegen st_base st_options st_plugin_options
                        "${ST_DNNL_LIB}" ${ST_SYSTEM_LIBS})
  target_link_options(cpu_llvm_dnnl PRIVATE LINKER:--exclude-libs,ALL LINKER:--build-id
    "LINKER:--version-script=${folder}/onednn/dnnl.map" ${ST_LINK_DEFS})
  set_target_properties(cpu_llvm_dnnl PROPERTIES PREFIX "" SUFFIX ".so"
    LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib/stator/jit"
    LINK_DEPENDS "${folder}/onednn/dnnl.map")
  # The inner loops of these are nothing but products and sums.
  set_property(SOURCE "${folder}/kernels/dn_attention_512.c" "${folder}/kernels/dn_attention_256.c"
    "${folder}/kernels/dn_attention_128.c" "${folder}/kernels/dn_skinny_512.c"
    "${folder}/kernels/dn_skinny_256.c" "${folder}/kernels/dn_planes_512.c"
    "${folder}/kernels/dn_planes_256.c" "${folder}/kernels/dn_quant_512.c"
    "${folder}/kernels/dn_quant_256.c" "${folder}/kernels/dn_gradient_512.c"
    "${folder}/kernels/dn_gradient_256.c" APPEND PROPERTY COMPILE_OPTIONS -ffp-contract=fast)
  add_dependencies(cpu_llvm_dnnl st_gen_headers)
  install(TARGETS cpu_llvm_dnnl LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/stator/jit")
  set_property(GLOBAL APPEND PROPERTY ST_PLUGIN_TARGETS cpu_llvm_dnnl)
else()
  st_report_missing("libdnnl-dev (oneDNN 2.x)" "contractions of inductor-cpu become loops")
endif()
