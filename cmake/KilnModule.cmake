# SPDX-License-Identifier: MIT OR Apache-2.0
# Modules, plugins and generated files. A module is a folder; its CMake file reads as its contents.

# kiln_add_folder(NAME [IF OPTION])
function(kiln_add_folder name)
    cmake_parse_arguments(arg "" "IF" "" ${ARGN})
    if(arg_IF AND NOT ${arg_IF})
        return()
    endif()
    add_subdirectory(${CMAKE_SOURCE_DIR}/${name} ${CMAKE_BINARY_DIR}/${name})
endfunction()

# kiln_rooms(OUT sources...): the folders below this one that sources lie in.
function(kiln_rooms out)
    set(rooms)
    foreach(source IN LISTS ARGN)
        cmake_path(GET source PARENT_PATH room)
        if(room AND NOT IS_ABSOLUTE ${source})
            list(APPEND rooms ${CMAKE_CURRENT_SOURCE_DIR}/${room})
        endif()
    endforeach()
    list(REMOVE_DUPLICATES rooms)
    set(${out} ${rooms} PARENT_SCOPE)
endfunction()

# kiln_compile(TARGET sources... [HOT <sub-rooms>]): how the sources of a target are compiled.
#
# With KILN_UNITY the files of a folder are compiled as one that includes them all: they share their headers. A file
# stays alone when the build makes it, when it defines a feature macro of the system's headers (configure again after
# the first one), or when it has compile definitions of its own or SKIP_UNITY_BUILD_INCLUSION.
# HOT names sub-rooms ("." for the folder itself): what lies in them is compiled with -O3, in a small library not.
function(kiln_compile target)
    cmake_parse_arguments(arg "" "" "HOT" ${ARGN})
    foreach(room IN LISTS arg_HOT)
        if(NOT EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${room})
            message(FATAL_ERROR "HOT names ${room}, which is no folder of ${CMAKE_CURRENT_SOURCE_DIR}")
        endif()
    endforeach()
    set_target_properties(${target} PROPERTIES UNITY_BUILD ${KILN_UNITY} UNITY_BUILD_MODE GROUP)
    foreach(source IN LISTS arg_UNPARSED_ARGUMENTS)
        cmake_path(GET source PARENT_PATH room)
        string(REPLACE "${CMAKE_CURRENT_BINARY_DIR}" "" room "${room}")
        string(MAKE_C_IDENTIFIER "in_${room}" group)
        set(compiled ${source})
        kiln_is_alone(alone ${source})
        if(KILN_UNITY AND NOT alone)
            set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
            set(compiled ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${target}.dir/Unity/unity_${group}_c.c)
        endif()
        if(NOT room)
            set(room .)
        endif()
        if(room IN_LIST arg_HOT AND NOT KILN_MINIMAL)
            set_source_files_properties(${compiled} PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-O3>)
        endif()
    endforeach()
endfunction()

# kiln_is_alone(OUT SOURCE): whether SOURCE cannot share a compilation with its neighbours.
function(kiln_is_alone out source)
    get_source_file_property(definitions ${source} COMPILE_DEFINITIONS)
    get_source_file_property(generated ${source} GENERATED)
    get_source_file_property(skipped ${source} SKIP_UNITY_BUILD_INCLUSION)
    set(macro)
    if(NOT generated)
        file(STRINGS ${source} macro LIMIT_COUNT 1 REGEX "^#define (_[A-Z]+_SOURCE|CL_TARGET_OPENCL_VERSION)")
    endif()
    set(${out} OFF PARENT_SCOPE)
    if(generated OR definitions OR skipped OR macro)
        set(${out} ON PARENT_SCOPE)
    endif()
endfunction()

# kiln_module(NAME SOURCES ... DEPS <modules> LIBS <link libraries> PUBLIC_HEADERS <installed files>
#             HOT <sub-rooms> ROOMS <sub-rooms>)
#
# Makes the static library kiln_NAME. Its own folder, the sub-rooms that its SOURCES and PUBLIC_HEADERS lie in
# and its build folder (for generated headers) are the include directories that a module naming it in DEPS sees;
# nothing is visible through a third module. Without SOURCES the module is headers only.
# HOT names the sub-rooms ("." for the folder itself) whose code runs for each operation or element: -O3.
# ROOMS names sub-rooms of which there are no SOURCES in this build, only headers.
function(kiln_module name)
    cmake_parse_arguments(arg "" "" "SOURCES;DEPS;LIBS;PUBLIC_HEADERS;HOT;ROOMS" ${ARGN})
    if(arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "kiln_module(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
    endif()
    set(target kiln_${name})
    if(arg_SOURCES)
        add_library(${target} STATIC ${arg_SOURCES})
        kiln_compile(${target} ${arg_SOURCES} HOT ${arg_HOT})
        set(scope PUBLIC)
        list(TRANSFORM arg_DEPS PREPEND kiln_ OUTPUT_VARIABLE dep_targets)
        target_link_libraries(${target} PRIVATE kiln_options kiln_warnings ${dep_targets} ${arg_LIBS})
    else()
        add_library(${target} INTERFACE)
        set(scope INTERFACE)
    endif()
    list(TRANSFORM arg_ROOMS APPEND /.)
    kiln_rooms(rooms ${arg_SOURCES} ${arg_PUBLIC_HEADERS} ${arg_ROOMS})
    target_include_directories(${target} ${scope}
        ${CMAKE_CURRENT_SOURCE_DIR} ${rooms} ${CMAKE_CURRENT_BINARY_DIR})
    set_target_properties(${target} PROPERTIES KILN_LIBS "${arg_LIBS}" KILN_DEPS "${arg_DEPS}")
    set_property(GLOBAL APPEND PROPERTY KILN_MODULES ${name})
    if(arg_PUBLIC_HEADERS)
        foreach(header IN LISTS arg_PUBLIC_HEADERS)
            cmake_path(ABSOLUTE_PATH header BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
            set_property(GLOBAL APPEND PROPERTY KILN_PUBLIC_HEADERS ${header})
        endforeach()
    endif()
endfunction()

# kiln_plugin(NAME SOURCES ... [TEST_ONLY])
#
# Makes lib/kiln/plugins/NAME.so, which sees the SDK's headers and nothing else of ours. A TEST_ONLY
# plugin goes to lib/kiln/test_plugins and is not installed.
function(kiln_plugin name)
    cmake_parse_arguments(arg "TEST_ONLY" "" "SOURCES" ${ARGN})
    if(arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "kiln_plugin(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
    endif()
    set(target kiln_plugin_${name})
    set(folder lib/kiln/plugins)
    if(arg_TEST_ONLY)
        set(folder lib/kiln/test_plugins)
    endif()
    add_library(${target} MODULE ${arg_SOURCES})
    kiln_compile(${target} ${arg_SOURCES})
    target_link_libraries(${target} PRIVATE kiln_options kiln_warnings)
    if(CMAKE_C_FLAGS MATCHES "-fprofile-arcs") # counters end with the process, and the loader refuses who ends it
        target_compile_options(${target} PRIVATE -fno-profile-arcs -fno-test-coverage)
    endif()
    # A fuser writes text once for each plan.
    kiln_optimise(${target} Os)
    target_include_directories(${target} PRIVATE
        $<TARGET_PROPERTY:kiln_plugin_sdk,INTERFACE_INCLUDE_DIRECTORIES>)
    target_link_options(${target} PRIVATE ${KILN_NO_UNDEFINED})
    set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME ${name}
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${folder})
    set_property(GLOBAL APPEND PROPERTY KILN_PLUGINS ${target})
    if(NOT arg_TEST_ONLY)
        install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/kiln/plugins
            COMPONENT fusers)
        set_property(GLOBAL APPEND PROPERTY KILN_SHIPPED_PLUGINS ${target})
    endif()
endfunction()

add_custom_target(generated COMMENT "Refreshing the committed generated files")

# kiln_generated(OUTPUT TOOL <executable target> ARGS ... [DEPENDS files] [COMMITTED path])
#
# Writes the standard output of TOOL to OUTPUT in the build folder. With COMMITTED (relative to the
# repository root) the file is also kept in the tree: `generated` refreshes it, and a test fails when it is stale.
function(kiln_generated output)
    cmake_parse_arguments(arg "" "TOOL;COMMITTED" "ARGS;DEPENDS" ${ARGN})
    cmake_path(ABSOLUTE_PATH output BASE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
    cmake_path(GET output PARENT_PATH folder)
    file(MAKE_DIRECTORY ${folder})
    add_custom_command(OUTPUT ${output}
        COMMAND ${arg_TOOL} ${arg_ARGS} > ${output}.new
        COMMAND ${CMAKE_COMMAND} -E rename ${output}.new ${output}
        DEPENDS ${arg_TOOL} ${arg_DEPENDS}
        VERBATIM)
    if(NOT arg_COMMITTED)
        return()
    endif()
    cmake_path(GET output FILENAME file)
    string(MAKE_C_IDENTIFIER "generated_${file}" target)
    add_custom_target(${target} ALL DEPENDS ${output})
    add_custom_target(${target}_commit
        COMMAND ${CMAKE_COMMAND} -E copy_if_different ${output} ${CMAKE_SOURCE_DIR}/${arg_COMMITTED}
        DEPENDS ${output})
    add_dependencies(generated ${target}_commit)
    if(KILN_TESTS)
        add_test(NAME golden/${file}
            COMMAND ${CMAKE_COMMAND} -E compare_files ${output} ${CMAKE_SOURCE_DIR}/${arg_COMMITTED})
        set_tests_properties(golden/${file} PROPERTIES LABELS structure TIMEOUT 60)
    endif()
endfunction()
