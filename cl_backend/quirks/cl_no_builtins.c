// SPDX-License-Identifier: MIT OR Apache-2.0
// In the place of cl_builtins.c in a library that runs bundles only, which compiles a bundle's text
// as it is where there is no binary.

#include "cl_builtins.h"

bool kilni_cl_builtins_known(const char *driver, const char *extensions)
{
    (void)driver;
    (void)extensions;
    return false;
}

bool kilni_cl_builtins_declare(const char *text, size_t length, const char *options,
                               kiln_string *out)
{
    (void)text;
    (void)length;
    (void)options;
    (void)out;
    return false;
}
