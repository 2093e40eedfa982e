# SPDX-License-Identifier: MIT OR Apache-2.0
# Test programs on the harness of tests/support, and scripts that count as tests.

# One warm cache of compiled kernels for all tests of a build folder.
set(KILN_TEST_POCL_CACHE ${CMAKE_BINARY_DIR}/pocl-cache CACHE PATH "PoCL's kernel cache for tests")

# Tests keep no cache of Kiln's own but those that name a folder for it: what one does to plugins
# (strikes, measured winners) is nothing to the others, and PoCL compiles every kernel a second time
# for the binary that is stored, where its own cache keeps the first.
function(kiln_test_environment test)
    set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT
        "POCL_CACHE_DIR=${KILN_TEST_POCL_CACHE}"
        "KILN_CACHE_DIR=off"
        "KILN_PLUGIN_PATH=${CMAKE_BINARY_DIR}/lib/kiln/plugins"
        "KILN_PLUGIN_MODE=developer"
        "CUDA_CACHE_DISABLE=1")
endfunction()

function(kiln_test_timeout out usual long)
    if(NOT usual)
        set(usual 300)
    endif()
    if(long AND NOT "$ENV{KILN_TEST_LONG}" MATCHES "^0?$")
        set(usual ${long})
    endif()
    if(KILN_SANITIZE)
        math(EXPR usual "4 * ${usual}")
    endif()
    set(${out} ${usual} PARENT_SCOPE)
endfunction()

# Under ThreadSanitizer what gRPC does between its own threads is left out: tsan_grpc.supp says why. Whoever calls
# dlopen is the sanitizer there, and so it does not look where the program's own libraries are.
function(kiln_test_with_grpc test)
    if(KILN_SANITIZE STREQUAL "thread")
        set(supp ${CMAKE_SOURCE_DIR}/tests/support/tsan_grpc.supp)
        set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT
            TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=${supp}
            LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/lib)
    endif()
endfunction()

# The longest are begun first: a time-out counts as a cost. Under a sanitizer it is four times what is said, and where
# KILN_TEST_LONG is in CMake's environment, as `./dev` has it, it is LONG_TIMEOUT for a test that has one. Label `rest`: what takes minutes and finds little that
# the others do not; `./dev test` leaves it to `./dev test --rest`.
#
# kiln_test(NAME SOURCES ... DEPS <modules> [LIBS ...] [LABELS ...] [TIMEOUT seconds] [LONG_TIMEOUT seconds]
#           [ARGS ...] [OCLGRIND words...] [OCLGRIND_STRICT] [SHARED_CONTEXT])
#
# NAME is the path below tests/ (unit/ir/test_shape). The program is linked with the static modules named
# in DEPS and sees the private headers of every module. OCLGRIND registers a second run of the cases
# whose name contains one of the words, on oclgrind's device (labels oclgrind and rest); OCLGRIND_STRICT watches
# for uninitialised values too, which is slow and wants a device of its own for each call. SHARED_CONTEXT: the cases
# share one context of OpenCL (tests/support/context_layer.c), but not under a sanitizer, which looks for lost ones.
function(kiln_test name)
    cmake_parse_arguments(arg "OCLGRIND_STRICT;SHARED_CONTEXT" "TIMEOUT;LONG_TIMEOUT"
        "SOURCES;DEPS;LIBS;LABELS;ARGS;OCLGRIND" ${ARGN})
    if(NOT KILN_TESTS)
        return()
    endif()
    if(arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "kiln_test(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
    endif()
    kiln_test_timeout(arg_TIMEOUT "${arg_TIMEOUT}" "${arg_LONG_TIMEOUT}")
    string(MAKE_C_IDENTIFIER ${name} id)
    cmake_path(GET name FILENAME file)
    set(target test_exe_${id})
    add_executable(${target} ${arg_SOURCES})
    kiln_rooms(rooms ${arg_SOURCES})
    target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${rooms})
    list(TRANSFORM arg_DEPS PREPEND kiln_ OUTPUT_VARIABLE dep_targets)
    kiln_optimise(${target} O0)
    target_link_libraries(${target} PRIVATE kiln_options kiln_warnings kiln_test_support
        ${dep_targets} ${arg_LIBS} Threads::Threads ${CMAKE_DL_LIBS} m)
    get_property(modules GLOBAL PROPERTY KILN_MODULES)
    foreach(module IN LISTS modules)
        target_include_directories(${target} PRIVATE
            $<TARGET_PROPERTY:kiln_${module},INTERFACE_INCLUDE_DIRECTORIES>)
    endforeach()
    set_target_properties(${target} PROPERTIES OUTPUT_NAME ${file}
        RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/bin/${id})
    add_test(NAME ${name} COMMAND ${target} ${arg_ARGS})
    if(TARGET kiln_lock_order AND CMAKE_BUILD_TYPE STREQUAL "Debug") # who takes locks in two orders fails
        add_dependencies(${target} kiln_lock_order)
        set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT
            "LD_PRELOAD=${CMAKE_BINARY_DIR}/tests/bin/lock_order.so" "KILN_TEST_LOCK_ORDER=${CMAKE_BINARY_DIR}")
    endif()
    set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} COST ${arg_TIMEOUT} LABELS "${arg_LABELS}")
    kiln_test_environment(${name})
    if(arg_SHARED_CONTEXT AND TARGET kiln_context_layer AND NOT KILN_SANITIZE)
        add_dependencies(${target} kiln_context_layer)
        set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT
            "OPENCL_LAYERS=${CMAKE_BINARY_DIR}/tests/bin/context_layer.so")
    endif()
    set(strict)
    if(arg_OCLGRIND_STRICT)
        set(strict --strict)
    endif()
    if(arg_OCLGRIND AND NOT KILN_SANITIZE)
        kiln_script_test(oclgrind/${name} LABELS oclgrind rest TIMEOUT ${arg_TIMEOUT}
            COMMAND /usr/bin/python3 ${CMAKE_SOURCE_DIR}/tests/support/under_oclgrind.py
                ${strict} $<TARGET_FILE:${target}> ${arg_OCLGRIND})
    endif()
    get_property(plugins GLOBAL PROPERTY KILN_PLUGINS)
    if(plugins)
        add_dependencies(${target} ${plugins})
    endif()
endfunction()

# kiln_script_test(NAME COMMAND ... [LABELS ...] [TIMEOUT seconds] [LONG_TIMEOUT seconds])
#
# A script or a target that prints the harness's count line, or whose exit status counts as one test.
function(kiln_script_test name)
    cmake_parse_arguments(arg "" "TIMEOUT;LONG_TIMEOUT" "COMMAND;LABELS" ${ARGN})
    if(NOT KILN_TESTS)
        return()
    endif()
    kiln_test_timeout(arg_TIMEOUT "${arg_TIMEOUT}" "${arg_LONG_TIMEOUT}")
    add_test(NAME ${name} COMMAND ${arg_COMMAND})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} COST ${arg_TIMEOUT} LABELS "${arg_LABELS}")
    kiln_test_environment(${name})
endfunction()
