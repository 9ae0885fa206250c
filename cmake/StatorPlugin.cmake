# stator_add_plugin(<name> SOURCES <file>... [LIBS <lib>...] [OUTPUT_NAME <name>] [OUTPUT_DIR <dir>])
#
# Builds <name>.so, a Stator plugin: a module that links nothing of libstator, sees <stator/...>,
# exports stator_plugin_query_v1 alone and has no undefined symbol left. The same function serves
# Stator's own plugins and, through find_package(Stator), a stranger's.

set(STATOR_PLUGIN_MAP "${CMAKE_CURRENT_LIST_DIR}/stator_plugin.map")

function(stator_add_plugin name)
  cmake_parse_arguments(arg "" "OUTPUT_NAME;OUTPUT_DIR" "SOURCES;LIBS" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
    message(FATAL_ERROR "stator_add_plugin(${name}): expected SOURCES file..., [LIBS lib...], "
                        "[OUTPUT_NAME name], [OUTPUT_DIR dir]; got '${ARGN}'")
  endif()
  if(NOT arg_OUTPUT_NAME)
    set(arg_OUTPUT_NAME "${name}")
  endif()
  add_library(${name} MODULE ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE Stator::headers ${arg_LIBS})
  set(defs LINKER:-z,defs)
  get_target_property(own_options ${name} LINK_OPTIONS)
  if(CMAKE_C_COMPILER_ID MATCHES "Clang" AND "${own_options}" MATCHES "-fsanitize")
    set(defs "") # clang resolves the sanitizer's symbols from the program
  endif()
  target_link_options(${name} PRIVATE ${defs} LINKER:--exclude-libs,ALL LINKER:--build-id
                      "LINKER:--version-script=${STATOR_PLUGIN_MAP}")
  set_target_properties(${name} PROPERTIES PREFIX "" SUFFIX ".so" OUTPUT_NAME "${arg_OUTPUT_NAME}"
    C_VISIBILITY_PRESET hidden POSITION_INDEPENDENT_CODE ON LINK_DEPENDS "${STATOR_PLUGIN_MAP}")
  if(arg_OUTPUT_DIR)
    set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${arg_OUTPUT_DIR}")
  endif()
endfunction()
