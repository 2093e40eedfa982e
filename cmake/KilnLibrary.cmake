# SPDX-License-Identifier: MIT OR Apache-2.0
# libkiln.so from the modules' objects, and what libkiln opens on demand: libkiln_remote.so and libkiln_mpi.so.

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

# Makes a shared library OUTPUT_NAME that exports kiln_*, or what kiln_minimal.map lists, and has every symbol resolved.
# Calls among its own functions go straight, though others may call them too.
function(kiln_shared target output_name)
    cmake_parse_arguments(arg "" "" "OBJECTS;LIBS" ${ARGN})
    add_library(${target} SHARED ${arg_OBJECTS})
    set(map ${CMAKE_SOURCE_DIR}/cmake/kiln.map)
    if(KILN_MINIMAL)
        set(map ${CMAKE_SOURCE_DIR}/cmake/kiln_minimal.map)
    endif()
    target_link_libraries(${target} PRIVATE ${arg_LIBS} Threads::Threads ${CMAKE_DL_LIBS} m)
    target_link_options(${target} PRIVATE -Wl,--version-script=${map}
        -Wl,-Bsymbolic-functions ${KILN_NO_UNDEFINED})
    set_target_properties(${target} PROPERTIES OUTPUT_NAME ${output_name} LINKER_LANGUAGE C
        VERSION ${PROJECT_VERSION} SOVERSION ${KILN_SOVERSION} LINK_DEPENDS ${map})
endfunction()

# Makes the targets kiln_library (libkiln.so, alias kiln::kiln), kiln_remote and kiln_mpi (libkiln_*.so).
function(kiln_libraries)
    get_property(modules GLOBAL PROPERTY KILN_MODULES)
    set(parts base ir cl_backend fusion_host collective runtime autodiff onnx)
    if(KILN_MINIMAL) # of the others only headers are seen
        set(parts base ir cl_backend runtime)
        set_target_properties(kiln_fusion_host kiln_collective PROPERTIES EXCLUDE_FROM_ALL ON)
    endif()
    set(inside)
    foreach(name IN LISTS parts)
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
        $<BUILD_INTERFACE:${KILN_BUILT_HEADERS}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    if(KILN_MPI)
        kiln_collect(objects libs coll_mpi)
        kiln_shared(kiln_mpi kiln_mpi OBJECTS ${objects} LIBS kiln_library ${libs})
        set_target_properties(kiln_mpi PROPERTIES INSTALL_RPATH "$ORIGIN")
    endif()
    if("remote_grpc" IN_LIST modules)
        kiln_collect(objects libs remote_grpc)
        kiln_shared(kiln_remote kiln_remote OBJECTS ${objects} LIBS kiln_library ${libs})
        set_target_properties(kiln_remote PROPERTIES INSTALL_RPATH "$ORIGIN")
        target_link_libraries(kiln_remote INTERFACE kiln_library)
        kiln_client_library()
    endif()
endfunction()

# Makes libkiln_client.so: Kiln with remote devices and ONNX models and without OpenCL. All but two files of the runtime
# are the same objects.
function(kiln_client_library)
    get_target_property(sources kiln_runtime KILN_CLIENT_SOURCES)
    get_target_property(folder kiln_runtime SOURCE_DIR)
    list(JOIN sources "|" others)
    string(REPLACE "." "[.]" others "/(${others}).")
    list(TRANSFORM sources PREPEND ${folder}/)
    add_library(kiln_runtime_client OBJECT ${sources})
    target_link_libraries(kiln_runtime_client PRIVATE kiln_options kiln_warnings)
    target_compile_definitions(kiln_runtime_client PRIVATE
        KILN_RUNTIME_REMOTE="libkiln_client.so.${KILN_SOVERSION}")
    foreach(name IN ITEMS base ir fusion_host collective runtime)
        target_include_directories(kiln_runtime_client PRIVATE
            $<TARGET_PROPERTY:kiln_${name},INTERFACE_INCLUDE_DIRECTORIES>)
    endforeach()
    set(inside base ir fusion_host collective remote_grpc)
    foreach(name IN ITEMS autodiff onnx)
        if(TARGET kiln_${name})
            list(APPEND inside ${name})
        endif()
    endforeach()
    kiln_collect(objects libs ${inside})
    get_target_property(runtime_libs kiln_runtime KILN_LIBS)
    kiln_shared(kiln_client kiln_client
        OBJECTS ${objects} $<FILTER:$<TARGET_OBJECTS:kiln_runtime>,EXCLUDE,${others}>
            $<TARGET_OBJECTS:kiln_runtime_client>
        LIBS ${libs} ${runtime_libs})
    target_include_directories(kiln_client INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endfunction()

# Adds `product`: what a user runs, without the tests.
function(kiln_product_target)
    add_custom_target(product)
    get_property(plugins GLOBAL PROPERTY KILN_SHIPPED_PLUGINS)
    foreach(target IN LISTS plugins ITEMS kiln_library kiln_remote kiln_client kiln_mpi kiln_ort kiln
            kiln_help kiln_cpp_headers kiln_python_package)
        if(TARGET ${target})
            add_dependencies(product ${target})
        endif()
    endforeach()
    set(targets)
    if(KILN_EXAMPLES)
        kiln_folder_targets(${CMAKE_SOURCE_DIR}/examples targets)
    endif()
    if(targets)
        add_dependencies(product ${targets})
    endif()
endfunction()

# Targets of a folder and the folders below it.
function(kiln_folder_targets folder out_targets)
    get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
    get_property(below DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
    foreach(sub IN LISTS below)
        kiln_folder_targets(${sub} more)
        list(APPEND targets ${more})
    endforeach()
    set(${out_targets} ${targets} PARENT_SCOPE)
endfunction()
