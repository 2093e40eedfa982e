# SPDX-License-Identifier: MIT OR Apache-2.0
# The language level, the warnings and the sanitizers that every target of Kiln is built with.
add_library(kiln_options INTERFACE)

find_package(Threads REQUIRED)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)

# -O1 is the level of code that runs once for a plan, a file or a command; what runs for each operation is
# named HOT (docs/decisions/0014-how-much-is-optimised.md).
string(REPLACE "-O3" "-O1" CMAKE_C_FLAGS_RELEASE "${CMAKE_C_FLAGS_RELEASE}")

if(KILN_MINIMAL)
    string(REPLACE "-O1" "-Os" CMAKE_C_FLAGS_RELEASE "${CMAKE_C_FLAGS_RELEASE}")
    add_compile_options(-fno-asynchronous-unwind-tables -ffunction-sections -fdata-sections)
    add_link_options(-Wl,--gc-sections)
    include(CheckLinkerFlag)
    check_linker_flag(C -Wl,-z,pack-relative-relocs KILN_PACKED_RELOCS)
    if(KILN_PACKED_RELOCS)
        add_link_options(-Wl,-z,pack-relative-relocs)
    endif()
endif()

# kiln_optimise(TARGET LEVEL): -LEVEL instead of -O1 in release builds.
function(kiln_optimise target level)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-${level}>)
endfunction()

target_compile_definitions(kiln_options INTERFACE
    _XOPEN_SOURCE=700
    KILN_VERSION_STRING="${PROJECT_VERSION}"
    KILN_SOVERSION="${KILN_SOVERSION}"
    $<$<BOOL:${KILN_CL}>:KILN_WITH_CL=1>
    $<$<BOOL:${KILN_ONNX}>:KILN_WITH_ONNX=1>
    $<$<BOOL:${KILN_REMOTE}>:KILN_WITH_REMOTE=1>
    $<$<NOT:$<BOOL:${KILN_MINIMAL}>>:KILN_WITH_OPERATORS=1>)
# Contraction changes results between compilers; the numeric table forbids it.
target_compile_options(kiln_options INTERFACE -ffp-contract=off)

set(KILN_WARNING_FLAGS -Wall -Wextra -Wpedantic -Wconversion -Wshadow
    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes> $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes> -Wvla)
add_library(kiln_warnings INTERFACE)
# Texts are cut to their buffers on purpose; gcc warns of it from the optimiser's view only. Clang warns where it cannot
# vectorise as asked, as under sanitizers.
target_compile_options(kiln_warnings INTERFACE ${KILN_WARNING_FLAGS}
    $<$<C_COMPILER_ID:GNU>:-Wno-format-truncation> $<$<C_COMPILER_ID:Clang>:-Wno-pass-failed>
    $<$<BOOL:${KILN_WERROR}>:-Werror>)

if(KILN_SANITIZE STREQUAL "address")
    set(kiln_sanitize_flags -fsanitize=address,undefined -fno-omit-frame-pointer
        -fno-sanitize-recover=undefined)
elseif(KILN_SANITIZE STREQUAL "thread")
    set(kiln_sanitize_flags -fsanitize=thread -fno-omit-frame-pointer)
elseif(KILN_SANITIZE STREQUAL "fuzzer") # clang's: as address, and what runs is told to libFuzzer
    set(kiln_sanitize_flags -fsanitize=fuzzer-no-link,address,undefined -fno-omit-frame-pointer
        -fno-sanitize-recover=undefined)
elseif(KILN_SANITIZE)
    message(FATAL_ERROR "KILN_SANITIZE is '${KILN_SANITIZE}': expected address, thread, fuzzer or nothing")
endif()
add_compile_options(${kiln_sanitize_flags})
add_link_options(${kiln_sanitize_flags})

# clang leaves the sanitizer runtime out of shared objects, so their symbols stay undefined there.
if(NOT (KILN_SANITIZE AND CMAKE_C_COMPILER_ID MATCHES "Clang"))
    set(KILN_NO_UNDEFINED -Wl,-z,defs)
endif()
