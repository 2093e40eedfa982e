// SPDX-License-Identifier: MIT OR Apache-2.0
// Where Kiln is built without gradients, those of plugins cannot be checked: the check is there, is
// skipped, and says why.
#include "plugin_check.h"

static void check_no_gradients(check *c)
{
    check_skip(c, "this Kiln is built without gradients");
}

const check_row check_gradient_rows[] = {
    {"gradients", 4, check_no_gradients, "gradients of operators agree with their differences"},
    {NULL, 0, NULL, NULL},
};
