// SPDX-License-Identifier: MIT OR Apache-2.0
// A user's program against the installed headers, valid C11 and C++17.
// It decides nothing: it calls what every installation must offer and checks the answers.
#include <kiln/base.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    if (strcmp(kiln_status_name(KILN_STATUS_OK), "ok") != 0) {
        fprintf(stderr, "the status names are wrong\n");
        return 1;
    }
    if (kiln_dtype_size(KILN_DTYPE_F32) != 4) {
        fprintf(stderr, "f32 has a wrong size\n");
        return 1;
    }
    return 0;
}
