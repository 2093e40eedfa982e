# SPDX-License-Identifier: MIT OR Apache-2.0
# Writes the template's files as bytes into OUTPUT: the table plugin_template. Run as a script by the build.
include(${CMAKE_CURRENT_LIST_DIR}/../../cmake/KilnBytes.cmake)
set(texts)
set(rows)
foreach(path IN LISTS FILES)
    cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${FOLDER} OUTPUT_VARIABLE name)
    string(MAKE_C_IDENTIFIER ${name} id)
    kiln_bytes(${path} "unsigned char" bytes)
    string(APPEND texts "static const unsigned char file_${id}[] = {${bytes}0};\n")
    string(APPEND rows "    {\"${name}\", file_${id}, sizeof(file_${id}) - 1},\n")
endforeach()
file(WRITE ${OUTPUT}
    "// Generated from plugin_sdk/template.\n"
    "#include \"plugin_cli.h\"\n\n${texts}\n"
    "const plugin_template_file plugin_template[] = {\n${rows}    {NULL, NULL, 0},\n};\n")
