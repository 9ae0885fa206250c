# Install rules: headers, libstator, the SDK archives, the CMake package and the pkg-config file.
# Plugins and tools install themselves where they are made.
include(CMakePackageConfigHelpers)

set(st_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/Stator")

install(DIRECTORY include/stator DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
install(FILES "${ST_GENERATED_INCLUDE}/stator/ops.h"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/stator")
# The SDK: headers keep the path they are included by, "core/base/arena.h", below stator/sdk.
install(DIRECTORY core/base DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/stator/sdk/core"
        FILES_MATCHING PATTERN "*.h")
# The code generator, for backends that make code; its headers change with each release.
install(DIRECTORY codegen DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/stator/sdk"
        FILES_MATCHING PATTERN "*.h" PATTERN "*.def")

set(st_install_targets st_headers)
if(TARGET stator)
  list(APPEND st_install_targets stator)
endif()
install(TARGETS ${st_install_targets} EXPORT StatorTargets
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
if(st_core_base_objects)
  install(TARGETS st_base ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()
if(TARGET st_codegen)
  install(TARGETS st_codegen ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()
if(TARGET st_codegen_gpu)
  install(TARGETS st_codegen_gpu ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()
install(EXPORT StatorTargets NAMESPACE Stator:: DESTINATION "${st_package_dir}")

configure_package_config_file(cmake/StatorConfig.cmake.in
  "${PROJECT_BINARY_DIR}/StatorConfig.cmake" INSTALL_DESTINATION "${st_package_dir}"
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/StatorConfigVersion.cmake"
  VERSION "${PROJECT_VERSION}" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/StatorConfig.cmake"
  "${PROJECT_BINARY_DIR}/StatorConfigVersion.cmake" cmake/StatorPlugin.cmake
  cmake/stator_plugin.map DESTINATION "${st_package_dir}")

# The file finds its prefix from where it lies, so that the tree may be moved.
file(RELATIVE_PATH st_pc_up "/p/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/p")
string(REGEX REPLACE "/$" "" st_pc_up "${st_pc_up}")
configure_file(cmake/stator.pc.in "${PROJECT_BINARY_DIR}/stator.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/stator.pc"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
install(FILES LICENSE README.md CHANGELOG.md DESTINATION "${CMAKE_INSTALL_DOCDIR}" OPTIONAL)
# Links of README.md and of the pages lead where they do in the source. tools.install builds each
# example from this copy.
install(DIRECTORY docs examples DESTINATION "${CMAKE_INSTALL_DOCDIR}")
