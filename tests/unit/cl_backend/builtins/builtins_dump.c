// SPDX-License-Identifier: MIT OR Apache-2.0
// builtins_dump OPTIONS: what declares the built-in functions that the text on standard input
// names, for compare.py. Exit status 1: the text is for the driver's header.

#include <stdio.h>

#include "cl_builtins.h"
#include "kiln_env.h"

int main(int argc, char **argv)
{
    static char text[1 << 20];
    const kiln_env env = {.allocator = kiln_allocator_default()};
    kiln_string declared;
    if (argc != 2) {
        return 2;
    }
    kiln_string_init(&declared, &env);
    size_t length = fread(text, 1, sizeof(text), stdin);
    bool known = kilni_cl_builtins_declare(text, length, argv[1], &declared);
    if (known) {
        fwrite(declared.text, 1, declared.length, stdout);
    }
    kiln_string_fini(&declared);
    return known ? 0 : 1;
}
