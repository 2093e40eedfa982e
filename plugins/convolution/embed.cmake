# SPDX-License-Identifier: MIT OR Apache-2.0
# Writes FILES as C strings into OUTPUT: NAME.cl is the string NAME_text. Run as a script by the build.
include(${CMAKE_CURRENT_LIST_DIR}/../../cmake/KilnBytes.cmake)
set(content "// Generated from plugins/convolution/kernels.\n#include \"convolution_internal.h\"\n\n")
foreach(path IN LISTS FILES)
    cmake_path(GET path STEM name)
    kiln_bytes(${path} char bytes)
    string(APPEND content "const char ${name}_text[] = {${bytes}0};\n")
endforeach()
file(WRITE ${OUTPUT} "${content}")
