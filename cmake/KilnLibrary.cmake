# SPDX-License-Identifier: MIT OR Apache-2.0
# libkiln.so from the modules' objects, and libkiln_remote.so, which libkiln opens on demand.

# Collects objects and link libraries of the modules in ARGN into out_objects and out_libs.
function(kiln_collect out_objects out_libs)
    set(objects)
    set(libs)
    foreach(name IN LISTS ARGN)
        get_target_property(type kiln_${name} TYPE)
        if(type STREQUAL "STATIC_LIBRARY")
            list(APPEND objects $<TARGET_OBJECTS:kiln_${name}>)
        endif()
        get_target_property(module_libs kiln_${name} KILN_LIBS)
        if(module_libs)
            list(APPEND libs ${module_libs})
        endif()
    endforeach()
    list(REMOVE_DUPLICATES libs)
    set(${out_objects} ${objects} PARENT_SCOPE)
    set(${out_libs} ${libs} PARENT_SCOPE)
endfunction()

# Makes a shared library OUTPUT_NAME that exports kiln_* and has every symbol resolved.
function(kiln_shared target output_name)
    cmake_parse_arguments(arg "" "" "OBJECTS;LIBS" ${ARGN})
    add_library(${target} SHARED ${arg_OBJECTS})
    set(map ${CMAKE_SOURCE_DIR}/cmake/kiln.map)
    target_link_libraries(${target} PRIVATE ${arg_LIBS} Threads::Threads ${CMAKE_DL_LIBS} m)
    target_link_options(${target} PRIVATE -Wl,--version-script=${map} ${KILN_NO_UNDEFINED})
    set_target_properties(${target} PROPERTIES OUTPUT_NAME ${output_name} LINKER_LANGUAGE C
        VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} LINK_DEPENDS ${map})
endfunction()

# Makes the targets kiln_library (libkiln.so, alias kiln::kiln) and kiln_remote (libkiln_remote.so).
function(kiln_libraries)
    get_property(modules GLOBAL PROPERTY KILN_MODULES)
    set(inside)
    foreach(name IN ITEMS base ir cl_backend fusion_host collective runtime onnx)
        if(name IN_LIST modules)
            list(APPEND inside ${name})
        endif()
    endforeach()
    if(NOT inside)
        return()
    endif()
    kiln_collect(objects libs ${inside})
    kiln_shared(kiln_library kiln OBJECTS ${objects} LIBS ${libs})
    add_library(kiln::kiln ALIAS kiln_library)
    foreach(name IN LISTS inside)
        target_include_directories(kiln_library INTERFACE
            $<BUILD_INTERFACE:$<TARGET_PROPERTY:kiln_${name},INTERFACE_INCLUDE_DIRECTORIES>>)
    endforeach()
    target_include_directories(kiln_library INTERFACE
        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/kiln>
        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    if("remote_grpc" IN_LIST modules)
        kiln_collect(objects libs remote_grpc)
        kiln_shared(kiln_remote kiln_remote OBJECTS ${objects} LIBS kiln_library ${libs})
        set_target_properties(kiln_remote PROPERTIES INSTALL_RPATH "$ORIGIN")
    endif()
endfunction()
