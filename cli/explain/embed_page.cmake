# SPDX-License-Identifier: MIT OR Apache-2.0
# Writes PAGE as a C string into OUTPUT: explain_page. Run as a script by the build.
file(READ ${PAGE} hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${hex}")
string(REGEX REPLACE "(....................................................................................)" "\\1\n" bytes "${bytes}")
file(WRITE ${OUTPUT}
    "// Generated from explain_page.html.\n#include \"explain.h\"\n\n"
    "const char explain_page[] = {\n${bytes}0};\n")
