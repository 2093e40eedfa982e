# SPDX-License-Identifier: MIT OR Apache-2.0
# For scripts that put files into the program.

# kiln_bytes(PATH TYPE OUT): the bytes of a file, each with a comma behind it, as elements of a C array of TYPE, which is
# `char` or `unsigned char`.
function(kiln_bytes path type out)
    file(READ ${path} hex HEX)
    if(type STREQUAL "char")
        string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${hex}")
    else()
        string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    endif()
    # 10 or 14 of them a line
    string(REGEX REPLACE "(......................................................................)" "\\1\n" bytes "${bytes}")
    set(${out} "${bytes}" PARENT_SCOPE)
endfunction()
