# Compiler flags as interface targets:
#   st_warnings         the warnings every target of the tree has
#   st_options          warnings, sanitizers, coverage, floating-point rules
#   st_plugin_options   what only modules with kernels add

add_library(st_warnings INTERFACE)
target_compile_options(st_warnings INTERFACE
  -Wall -Wextra -Wshadow -Wpointer-arith -Wwrite-strings -Wvla -Wundef
  $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes> $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>)
if(STATOR_WERROR)
  target_compile_options(st_warnings INTERFACE -Werror)
endif()

add_library(st_options INTERFACE)
target_link_libraries(st_options INTERFACE st_warnings)
# One result for one program text: no contraction that the source does not ask for.
target_compile_options(st_options INTERFACE -ffp-contract=off)

# Neither changes a result; without them sqrt and select loops do not vectorise.
add_library(st_plugin_options INTERFACE)
target_compile_options(st_plugin_options INTERFACE -fno-math-errno -fno-trapping-math)

set(ST_LINK_DEFS LINKER:-z,defs)
if(STATOR_SANITIZE)
  set(ST_SANITIZE_FLAGS -fsanitize=${STATOR_SANITIZE} -fno-omit-frame-pointer)
  if(STATOR_SANITIZE MATCHES "undefined")
    list(APPEND ST_SANITIZE_FLAGS -fno-sanitize-recover=undefined)
  endif()
  # On every target, the plugins' included: sanitizers work on a whole process.
  add_compile_options(${ST_SANITIZE_FLAGS})
  add_link_options(${ST_SANITIZE_FLAGS})
  if(CMAKE_C_COMPILER_ID MATCHES "Clang")
    set(ST_LINK_DEFS "") # clang resolves the sanitizer's symbols from the program
  endif()
endif()
if(STATOR_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "STATOR_FUZZ needs clang: configure with -DCMAKE_C_COMPILER=clang")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(STATOR_COVERAGE)
  add_compile_options(--coverage -fprofile-update=atomic)
  add_link_options(--coverage)
endif()
