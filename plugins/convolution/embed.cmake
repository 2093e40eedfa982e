# SPDX-License-Identifier: MIT OR Apache-2.0
# Writes FILES as C strings into OUTPUT: NAME.cl is the string NAME_text. Run as a script by the build.
set(content "// Generated from plugins/convolution/kernels.\n#include \"convolution_internal.h\"\n\n")
foreach(path IN LISTS FILES)
    cmake_path(GET path STEM name)
    file(READ ${path} hex HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    string(APPEND content "const char ${name}_text[] = {${bytes}0};\n")
endforeach()
file(WRITE ${OUTPUT} "${content}")
