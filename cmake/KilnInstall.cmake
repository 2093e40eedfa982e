# SPDX-License-Identifier: MIT OR Apache-2.0
# What `cmake --install` puts where: libkiln with its headers, pkg-config file and CMake package.
if(NOT TARGET kiln_library)
    return()
endif()
include(CMakePackageConfigHelpers)

set(kiln_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/kiln)
install(TARGETS kiln_library EXPORT kiln-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
set_target_properties(kiln_library PROPERTIES EXPORT_NAME kiln)
install(TARGETS kiln_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
# remote_grpc.h links with kiln::remote, or with kiln::client where there is no OpenCL.
foreach(name IN ITEMS remote client)
    if(TARGET kiln_${name})
        install(TARGETS kiln_${name} EXPORT kiln-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
        set_target_properties(kiln_${name} PROPERTIES EXPORT_NAME ${name})
        configure_file(${CMAKE_SOURCE_DIR}/cmake/kiln-${name}.pc.in
            ${CMAKE_BINARY_DIR}/kiln-${name}.pc @ONLY)
        install(FILES ${CMAKE_BINARY_DIR}/kiln-${name}.pc
            DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
    endif()
endforeach()
if(TARGET kiln_remote)
    # A client in another language needs these alone; the page says what they mean.
    foreach(module IN ITEMS ir remote_grpc)
        install(DIRECTORY ${CMAKE_SOURCE_DIR}/${module}/proto
            DESTINATION ${CMAKE_INSTALL_DATADIR}/kiln FILES_MATCHING PATTERN *.proto)
    endforeach()
    install(FILES ${CMAKE_SOURCE_DIR}/docs/wire.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs)
endif()
if(TARGET kiln)
    set_target_properties(kiln PROPERTIES
        INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR};$ORIGIN/../${CMAKE_INSTALL_LIBDIR}/kiln")
    install(TARGETS kiln RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

get_property(kiln_headers GLOBAL PROPERTY KILN_PUBLIC_HEADERS)
install(FILES ${kiln_headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/kiln)

set(kiln_compatibility SameMajorVersion)
if(PROJECT_VERSION_MAJOR EQUAL 0)
    set(kiln_compatibility SameMinorVersion)
endif()
# Below the build folder, where CMake does not look for packages by itself.
set(made ${CMAKE_BINARY_DIR}/package)
install(EXPORT kiln-targets NAMESPACE kiln:: DESTINATION ${kiln_package_dir})
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/kiln-config.cmake.in
    ${made}/kiln-config.cmake INSTALL_DESTINATION ${kiln_package_dir})
write_basic_package_version_file(${made}/kiln-config-version.cmake
    COMPATIBILITY ${kiln_compatibility})
install(FILES ${made}/kiln-config.cmake ${made}/kiln-config-version.cmake
    DESTINATION ${kiln_package_dir})

# The fuser SDK is headers: a package of its own, so that a plugin never asks for libkiln.
set(kiln_fuser_dir ${CMAKE_INSTALL_LIBDIR}/cmake/kiln-fuser)
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/kiln-fuser-config.cmake.in
    ${made}/kiln-fuser-config.cmake INSTALL_DESTINATION ${kiln_fuser_dir})
write_basic_package_version_file(${made}/kiln-fuser-config-version.cmake
    COMPATIBILITY SameMajorVersion ARCH_INDEPENDENT)
install(FILES ${made}/kiln-fuser-config.cmake
    ${made}/kiln-fuser-config-version.cmake DESTINATION ${kiln_fuser_dir})
configure_file(${CMAKE_SOURCE_DIR}/cmake/kiln-fuser.pc.in ${CMAKE_BINARY_DIR}/kiln-fuser.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/kiln-fuser.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/plugin_sdk/template
    DESTINATION ${CMAKE_INSTALL_DATADIR}/kiln)

configure_file(${CMAKE_SOURCE_DIR}/cmake/kiln.pc.in ${CMAKE_BINARY_DIR}/kiln.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/kiln.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/LICENSE-MIT
    ${CMAKE_SOURCE_DIR}/LICENSE-APACHE DESTINATION ${CMAKE_INSTALL_DOCDIR})
# What an author of plugins reads; the paths between these pages stay as they are in the tree.
install(FILES ${CMAKE_SOURCE_DIR}/docs/writing-a-fuser.md ${CMAKE_SOURCE_DIR}/docs/writing-an-operator.md
    ${CMAKE_SOURCE_DIR}/docs/fuser-abi.md
    ${CMAKE_SOURCE_DIR}/docs/plugin-safety.md ${CMAKE_SOURCE_DIR}/docs/explain.md
    ${CMAKE_SOURCE_DIR}/docs/replay.md ${CMAKE_SOURCE_DIR}/docs/ops.md
    DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs)
install(FILES ${CMAKE_SOURCE_DIR}/plugin_sdk/README.md
    DESTINATION ${CMAKE_INSTALL_DOCDIR}/plugin_sdk)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/examples/fusers
    DESTINATION ${CMAKE_INSTALL_DATADIR}/kiln/examples
    PATTERN build EXCLUDE PATTERN target EXCLUDE PATTERN make_models.py EXCLUDE)
