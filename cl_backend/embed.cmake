# SPDX-License-Identifier: MIT OR Apache-2.0
# Writes FILES as C strings into OUTPUT: the table kilni_cl_sources, with their places below ROOT. Run as a
# script by the build.
include(${CMAKE_CURRENT_LIST_DIR}/../cmake/KilnBytes.cmake)
set(texts)
set(rows)
foreach(path IN LISTS FILES)
    cmake_path(GET path FILENAME name)
    cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${ROOT} OUTPUT_VARIABLE place)
    if(place MATCHES "^\\.\\.")
        set(place ${name}) # the build made it
    endif()
    string(MAKE_C_IDENTIFIER ${name} id)
    kiln_bytes(${path} char bytes)
    string(APPEND texts "static const char text_${id}[] = {\n${bytes}0};\n")
    string(APPEND rows "    {\"${name}\", \"${place}\", text_${id}, sizeof(text_${id}) - 1},\n")
endforeach()
file(WRITE ${OUTPUT}
    "// Generated from the files of cl_backend/kernels.\n"
    "#include \"cl_kernel.h\"\n\n${texts}\n"
    "const kilni_cl_source kilni_cl_sources[] = {\n${rows}    {NULL, NULL, NULL, 0},\n};\n")
