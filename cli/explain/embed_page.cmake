# SPDX-License-Identifier: MIT OR Apache-2.0
# Writes PAGE as a C string into OUTPUT: explain_page. Run as a script by the build.
include(${CMAKE_CURRENT_LIST_DIR}/../../cmake/KilnBytes.cmake)
kiln_bytes(${PAGE} char bytes)
file(WRITE ${OUTPUT}
    "// Generated from explain_page.html.\n#include \"explain.h\"\n\n"
    "const char explain_page[] = {\n${bytes}0};\n")
