# SPDX-License-Identifier: MIT OR Apache-2.0
# C code from .proto files, with nanopb.

# kiln_nanopb(NAME PROTOS files... [ROOT dir] [IMPORTS dirs...] [DEPS nanopb targets])
#
# Makes the static library NAME of the generated code; whoever links it sees the .pb.h files by
# their path below ROOT (default: the current folder). A .options file beside a .proto is used. IMPORTS
# are further roots for `import`; DEPS the targets that generated what is imported.
function(kiln_nanopb name)
    cmake_parse_arguments(arg "" "ROOT" "PROTOS;IMPORTS;DEPS" ${ARGN})
    list(APPEND arg_PROTOS ${arg_UNPARSED_ARGUMENTS})
    if(NOT arg_ROOT)
        set(arg_ROOT ${CMAKE_CURRENT_SOURCE_DIR})
    endif()
    cmake_path(ABSOLUTE_PATH arg_ROOT BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
    set(out ${CMAKE_CURRENT_BINARY_DIR}/${name})
    file(MAKE_DIRECTORY ${out})
    set(imports)
    foreach(dir IN LISTS arg_IMPORTS)
        cmake_path(ABSOLUTE_PATH dir BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
        list(APPEND imports -I${dir})
    endforeach()
    set(sources)
    foreach(proto IN LISTS arg_PROTOS)
        cmake_path(ABSOLUTE_PATH proto BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
        cmake_path(RELATIVE_PATH proto BASE_DIRECTORY ${arg_ROOT} OUTPUT_VARIABLE relative)
        string(REGEX REPLACE "\\.proto$" "" stem ${relative})
        string(REGEX REPLACE "\\.proto$" ".options" options ${proto})
        set(inputs ${proto})
        if(EXISTS ${options})
            list(APPEND inputs ${options})
        endif()
        cmake_path(GET options PARENT_PATH options_dir)
        # The generator is Debian's and needs Debian's python3, whatever comes first in PATH.
        add_custom_command(OUTPUT ${out}/${stem}.pb.c ${out}/${stem}.pb.h
            COMMAND ${CMAKE_COMMAND} -E env PATH=/usr/bin:/bin ${KILN_PROTOC}
                --plugin=protoc-gen-nanopb=${KILN_NANOPB_PLUGIN} -I${arg_ROOT} ${imports}
                "--nanopb_out=-q -I${options_dir}:${out}" ${relative}
            DEPENDS ${inputs} WORKING_DIRECTORY ${arg_ROOT} VERBATIM)
        list(APPEND sources ${out}/${stem}.pb.c)
    endforeach()
    add_library(${name} STATIC ${sources})
    target_include_directories(${name} SYSTEM PUBLIC ${out})
    target_link_libraries(${name} PRIVATE kiln_options PUBLIC ${arg_DEPS} need::nanopb)
endfunction()
