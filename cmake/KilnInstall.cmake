# SPDX-License-Identifier: MIT OR Apache-2.0
# What `cmake --install` puts where, by component: each is a Debian package of KilnPackages.cmake.
if(NOT TARGET kiln_library)
    return()
endif()
include(CMakePackageConfigHelpers)

# Headers, what finds them, and documents.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)

# <kiln/NAME> for programs of this tree, as they are installed.
get_property(kiln_headers GLOBAL PROPERTY KILN_PUBLIC_HEADERS)
file(MAKE_DIRECTORY ${KILN_BUILT_HEADERS}/kiln)
foreach(header IN LISTS kiln_headers)
    cmake_path(GET header FILENAME name)
    file(CREATE_LINK ${header} ${KILN_BUILT_HEADERS}/kiln/${name} SYMBOLIC)
endforeach()
install(FILES ${kiln_headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/kiln)

# kiln::kiln; remote_grpc.h links with kiln::remote, or with kiln::client where there is no OpenCL.
set_target_properties(kiln_library PROPERTIES EXPORT_NAME kiln)
foreach(name IN ITEMS library remote client)
    if(NOT TARGET kiln_${name})
        continue()
    endif()
    install(TARGETS kiln_${name} EXPORT kiln-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        COMPONENT libraries NAMELINK_COMPONENT development)
    if(NOT name STREQUAL "library")
        set_target_properties(kiln_${name} PROPERTIES EXPORT_NAME ${name})
    endif()
endforeach()
# libkiln opens it by its soname; nobody links with it.
if(TARGET kiln_mpi)
    install(TARGETS kiln_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT libraries NAMELINK_SKIP)
endif()
if(TARGET kiln)
    set_target_properties(kiln PROPERTIES
        INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR};$ORIGIN/../${CMAKE_INSTALL_LIBDIR}/kiln")
    install(TARGETS kiln RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
    if(TARGET kiln_remote)
        install(FILES ${CMAKE_SOURCE_DIR}/cmake/service/kiln.service ${CMAKE_SOURCE_DIR}/cmake/service/kiln.socket
            DESTINATION lib/systemd/system COMPONENT tools)
        install(FILES ${CMAKE_SOURCE_DIR}/cmake/service/Containerfile ${CMAKE_SOURCE_DIR}/cmake/service/kubernetes.yaml
            DESTINATION ${CMAKE_INSTALL_DATADIR}/kiln COMPONENT tools)
    endif()
endif()

# kiln_install_pc(NAMES...): pkg-config files.
function(kiln_install_pc)
    foreach(name IN LISTS ARGN)
        configure_file(${CMAKE_SOURCE_DIR}/cmake/${name}.pc.in ${CMAKE_BINARY_DIR}/${name}.pc @ONLY)
        install(FILES ${CMAKE_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
    endforeach()
endfunction()
kiln_install_pc(kiln kiln-fuser)
if(TARGET kiln_remote)
    kiln_install_pc(kiln-remote kiln-client)
    # A client in another language needs these alone.
    foreach(module IN ITEMS ir remote_grpc)
        install(DIRECTORY ${CMAKE_SOURCE_DIR}/${module}/proto
            DESTINATION ${CMAKE_INSTALL_DATADIR}/kiln FILES_MATCHING PATTERN *.proto)
    endforeach()
endif()

# kiln_install_package(NAME COMPATIBILITY how [ARCH_INDEPENDENT]): what find_package(NAME) reads. It is made below the
# build folder, where CMake does not look for packages by itself.
function(kiln_install_package name)
    set(folder ${CMAKE_INSTALL_LIBDIR}/cmake/${name})
    set(made ${CMAKE_BINARY_DIR}/package/${name})
    configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/${name}-config.cmake.in ${made}-config.cmake
        INSTALL_DESTINATION ${folder})
    write_basic_package_version_file(${made}-config-version.cmake ${ARGN})
    install(FILES ${made}-config.cmake ${made}-config-version.cmake DESTINATION ${folder})
endfunction()
set(kiln_compatibility SameMajorVersion)
if(PROJECT_VERSION_MAJOR EQUAL 0)
    set(kiln_compatibility SameMinorVersion)
endif()
install(EXPORT kiln-targets NAMESPACE kiln:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kiln)
kiln_install_package(kiln COMPATIBILITY ${kiln_compatibility})
# The fuser SDK is headers: a package of its own, so that a plugin never asks for libkiln.
kiln_install_package(kiln-fuser COMPATIBILITY SameMajorVersion ARCH_INDEPENDENT)

install(DIRECTORY ${CMAKE_SOURCE_DIR}/plugin_sdk/template DESTINATION ${CMAKE_INSTALL_DATADIR}/kiln)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DATADIR}/kiln
    PATTERN build EXCLUDE PATTERN target EXCLUDE PATTERN kilnv1 EXCLUDE PATTERN inference EXCLUDE
    PATTERN protoc-gen-go EXCLUDE PATTERN "make_*.py" EXCLUDE PATTERN train.py EXCLUDE
    PATTERN CMakeLists.txt EXCLUDE)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/examples/fusers DESTINATION ${CMAKE_INSTALL_DATADIR}/kiln/examples
    FILES_MATCHING PATTERN CMakeLists.txt)
# The paths between the pages stay as they are in the tree.
install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN *.md)
foreach(page IN ITEMS README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md plugin_sdk/README.md remote_grpc/README.md
        plugins/attention/README.md plugins/matmul/README.md plugins/nvidia_tensor/README.md tests/faults/README.md)
    cmake_path(GET page PARENT_PATH folder)
    install(FILES ${CMAKE_SOURCE_DIR}/${page} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder})
endforeach()
# What the pages say of examples, and examples of pages, is a folder away, too.
file(RELATIVE_PATH to_examples ${CMAKE_INSTALL_FULL_DOCDIR} ${CMAKE_INSTALL_FULL_DATADIR}/kiln/examples)
file(RELATIVE_PATH to_docs ${CMAKE_INSTALL_FULL_DATADIR}/kiln ${CMAKE_INSTALL_FULL_DOCDIR}/docs)
file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/links)
file(CREATE_LINK ${to_examples} ${CMAKE_CURRENT_BINARY_DIR}/links/examples SYMBOLIC)
file(CREATE_LINK ${to_docs} ${CMAKE_CURRENT_BINARY_DIR}/links/docs SYMBOLIC)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/links/examples DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/links/docs DESTINATION ${CMAKE_INSTALL_DATADIR}/kiln)
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/LICENSE-MIT ${CMAKE_SOURCE_DIR}/LICENSE-APACHE
    DESTINATION ${CMAKE_INSTALL_DOCDIR})

add_custom_target(uninstall
    COMMAND ${CMAKE_COMMAND} -DBUILD=${CMAKE_BINARY_DIR} -P ${CMAKE_SOURCE_DIR}/cmake/uninstall.cmake VERBATIM)
