# SPDX-License-Identifier: MIT OR Apache-2.0
# The libraries and programs of others: a library is the target need::NAME. What is missing is told all at once, by the
# names that distributions give it.
find_package(PkgConfig QUIET)

# kiln_missing(TEXT DEBIAN package FEDORA package [WITHOUT option])
function(kiln_missing text)
    cmake_parse_arguments(arg "" "WITHOUT;DEBIAN;FEDORA" "" ${ARGN})
    string(APPEND text ": ${arg_DEBIAN} in Debian and Ubuntu, ${arg_FEDORA} in Fedora")
    if(arg_WITHOUT)
        string(APPEND text "; or build without it: ${arg_WITHOUT}")
    endif()
    set_property(GLOBAL APPEND_STRING PROPERTY KILN_MISSING "  ${text}\n")
endfunction()

# kiln_find(OUT NAME): the folder of the header and the library that arg_HEADER and arg_LIBRARY of the caller name.
function(kiln_find out name)
    find_path(KILN_INCLUDE_${name} ${arg_HEADER} HINTS ${KILN_PC_${name}_INCLUDE_DIRS} PATH_SUFFIXES nanopb)
    set(parts ${KILN_INCLUDE_${name}})
    if(arg_LIBRARY)
        find_library(KILN_LIBRARY_${name} NAMES ${arg_LIBRARY} HINTS ${KILN_PC_${name}_LIBRARY_DIRS})
        list(APPEND parts ${KILN_LIBRARY_${name}})
    endif()
    set(${out} ${parts} PARENT_SCOPE)
endfunction()

# kiln_need(NAME HEADER file [LIBRARY names...] [PKG pkg-config's name] [OPTIONAL] DEBIAN .. FEDORA .. [WITHOUT ..])
#
# pkg-config is asked for folders where CMake finds nothing by itself: all that gRPC needs takes it seconds to read.
# Without LIBRARY the header is all there is. What is OPTIONAL and not found is no target.
function(kiln_need name)
    cmake_parse_arguments(arg "OPTIONAL" "HEADER;PKG" "LIBRARY" ${ARGN})
    kiln_find(parts ${name})
    if("${parts}" MATCHES "-NOTFOUND" AND arg_PKG AND PKG_CONFIG_FOUND)
        pkg_check_modules(KILN_PC_${name} QUIET ${arg_PKG})
        kiln_find(parts ${name})
    endif()
    if("${parts}" MATCHES "-NOTFOUND")
        if(NOT arg_OPTIONAL)
            kiln_missing("${name} (${arg_HEADER})" ${arg_UNPARSED_ARGUMENTS})
        endif()
        return()
    endif()
    add_library(need::${name} INTERFACE IMPORTED GLOBAL)
    target_include_directories(need::${name} INTERFACE ${KILN_INCLUDE_${name}})
    if(arg_LIBRARY)
        target_link_libraries(need::${name} INTERFACE ${KILN_LIBRARY_${name}})
    endif()
endfunction()

# kiln_need_program(VARIABLE NAME DEBIAN .. FEDORA .. [WITHOUT ..]): VARIABLE is its path.
function(kiln_need_program variable name)
    find_program(${variable} ${name})
    if(NOT ${variable})
        kiln_missing("the program ${name}" ${ARGN})
    endif()
endfunction()

# What this configuration needs. cmake_parse_arguments leaves DEBIAN, FEDORA and WITHOUT to kiln_missing.
kiln_need(xxhash HEADER xxhash.h PKG libxxhash DEBIAN libxxhash-dev FEDORA xxhash-devel)
kiln_need(nanopb HEADER pb_decode.h LIBRARY protobuf-nanopb DEBIAN libnanopb-dev FEDORA nanopb-devel)
kiln_need_program(KILN_PROTOC protoc DEBIAN protobuf-compiler FEDORA protobuf-compiler)
kiln_need_program(KILN_NANOPB_PLUGIN protoc-gen-nanopb DEBIAN nanopb FEDORA nanopb)
kiln_need(jansson HEADER jansson.h LIBRARY jansson PKG jansson DEBIAN libjansson-dev FEDORA jansson-devel)
if(KILN_STORE)
    kiln_need(sqlite3 HEADER sqlite3.h LIBRARY sqlite3 PKG sqlite3
        DEBIAN libsqlite3-dev FEDORA sqlite-devel WITHOUT -DKILN_STORE=OFF)
endif()
if(KILN_CL OR KILN_BENCH)
    kiln_need(OpenCL HEADER CL/cl.h LIBRARY OpenCL PKG OpenCL
        DEBIAN "ocl-icd-opencl-dev with opencl-c-headers" FEDORA "ocl-icd-devel with opencl-headers"
        WITHOUT "-DKILN_CL=OFF -DKILN_BENCH=OFF -DKILN_TESTS=OFF")
endif()
if(KILN_BENCH OR (KILN_CL AND KILN_BLAS))
    kiln_need(clblast HEADER clblast_c.h LIBRARY clblast PKG clblast
        DEBIAN libclblast-dev FEDORA clblast-devel WITHOUT "-DKILN_BLAS=OFF -DKILN_BENCH=OFF -DKILN_TESTS=OFF")
endif()
if(KILN_REMOTE)
    kiln_need(grpc HEADER grpc/grpc.h LIBRARY grpc PKG grpc DEBIAN libgrpc-dev FEDORA grpc-devel
        WITHOUT -DKILN_REMOTE=OFF)
    kiln_need(gpr HEADER grpc/support/log.h LIBRARY gpr PKG gpr DEBIAN libgrpc-dev FEDORA grpc-devel
        WITHOUT -DKILN_REMOTE=OFF)
    kiln_need(crypto HEADER openssl/evp.h LIBRARY crypto PKG libcrypto DEBIAN libssl-dev FEDORA openssl-devel
        WITHOUT -DKILN_REMOTE=OFF)
    find_path(KILN_GRPC_PROTO grpc/health/v1/health.proto PATHS /usr/share/grpc-proto NO_CMAKE_FIND_ROOT_PATH)
    if(NOT KILN_GRPC_PROTO)
        kiln_missing("grpc/health/v1/health.proto (-DKILN_GRPC_PROTO=FOLDER when it is elsewhere)"
            DEBIAN grpc-proto FEDORA "github.com/grpc/grpc-proto" WITHOUT -DKILN_REMOTE=OFF)
    endif()
endif()
# `kiln serve --models` answers HTTP with it; without it gRPC alone.
kiln_need(microhttpd HEADER microhttpd.h LIBRARY microhttpd PKG libmicrohttpd OPTIONAL)
# Inputs of `kiln run`: pictures, compressed arrays. Without them it says what it lacks.
kiln_need(JPEG HEADER turbojpeg.h LIBRARY turbojpeg PKG libturbojpeg OPTIONAL)
kiln_need(PNG HEADER png.h LIBRARY png PKG libpng OPTIONAL)
kiln_need(ZLIB HEADER zlib.h LIBRARY z PKG zlib OPTIONAL)
if(KILN_TESTS)
    kiln_need(cunit HEADER CUnit/Basic.h LIBRARY cunit PKG cunit DEBIAN libcunit1-dev FEDORA CUnit-devel
        WITHOUT -DKILN_TESTS=OFF)
endif()

get_property(kiln_missing GLOBAL PROPERTY KILN_MISSING)
if(kiln_missing)
    message(FATAL_ERROR "This is missing:\n${kiln_missing}On Debian 12 `./dev build` installs all of it.")
endif()
