# SPDX-License-Identifier: MIT OR Apache-2.0
# Debian packages, by `cpack -B packages` in the build folder: libkiln0, libkiln-dev, kiln-fusers, kiln-tools and, with the Python
# package, python3-kiln. Libraries of others come from dpkg-shlibdeps.
if(NOT TARGET kiln_library)
    return()
endif()
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME kiln)
set(CPACK_PACKAGE_VENDOR Kiln)
set(CPACK_PACKAGE_CONTACT "Kiln <kiln@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_HOMEPAGE "")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_BINARY_DIR}/lib)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY "=")
set(CPACK_COMPONENTS_ALL)

# kiln_package(COMPONENT NAME section SUMMARY [DEPENDS text] [RECOMMENDS text] [SUGGESTS text])
macro(kiln_package component name section summary)
    cmake_parse_arguments(arg "" "DEPENDS;RECOMMENDS;SUGGESTS" "" ${ARGN})
    list(APPEND CPACK_COMPONENTS_ALL ${component})
    string(TOUPPER ${component} upper)
    set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name})
    set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
    set(CPACK_DEBIAN_${upper}_DESCRIPTION "${summary}")
    install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name} RENAME copyright
        COMPONENT ${component} EXCLUDE_FROM_ALL)
    set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "${arg_DEPENDS}")
    set(CPACK_DEBIAN_${upper}_PACKAGE_RECOMMENDS "${arg_RECOMMENDS}")
    set(CPACK_DEBIAN_${upper}_PACKAGE_SUGGESTS "${arg_SUGGESTS}")
endmacro()
set(kiln_same "(= ${PROJECT_VERSION}-1)")
kiln_package(libraries libkiln0 libs "tensor runtime for OpenCL: libraries"
    RECOMMENDS "kiln-fusers ${kiln_same}, pocl-opencl-icd | opencl-icd")
kiln_package(fusers kiln-fusers libs "tensor runtime for OpenCL: the fusers that come with it"
    DEPENDS "libkiln0 ${kiln_same}")
kiln_package(tools kiln-tools utils "tensor runtime for OpenCL: the command kiln"
    DEPENDS "libkiln0 ${kiln_same}" RECOMMENDS "kiln-fusers ${kiln_same}")
kiln_package(development libkiln-dev libdevel "tensor runtime for OpenCL: headers, documents and examples"
    DEPENDS "libkiln0 ${kiln_same}" SUGGESTS "pkg-config, cmake, kiln-tools")
if(TARGET kiln_python)
    kiln_package(python3 python3-kiln python "tensor runtime for OpenCL: Python package"
        DEPENDS "libkiln0 ${kiln_same}, python3 (>= 3.11)" RECOMMENDS "kiln-fusers ${kiln_same}" SUGGESTS python3-numpy)
    # What Python keeps beside the files goes with them.
    set(CPACK_DEBIAN_PYTHON3_PACKAGE_CONTROL_EXTRA
        ${CMAKE_SOURCE_DIR}/cmake/python3-kiln/postinst ${CMAKE_SOURCE_DIR}/cmake/python3-kiln/prerm)
endif()
include(CPack)
