// SPDX-License-Identifier: MIT OR Apache-2.0
// Results whose length depends on contents: counted first, so that what is recorded has a shape.
// Decides that the count is the only thing that is waited for.
#include "rt_device.h"

#include <inttypes.h>

static kiln_status count_true(kiln_tensor *mask, int64_t *out_count, kiln_error *err)
{
    kiln_tensor *ones = NULL;
    kiln_tensor *total = NULL;
    kiln_status status = kiln_cast(mask, KILN_DTYPE_I64, &ones, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_sum(ones, NULL, 0, /*keepdims=*/false, &total, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_read(total, out_count, sizeof(*out_count), err);
    }
    int64_t most = kiln_tensor_count(mask);
    if (status == KILN_STATUS_OK && (*out_count < 0 || *out_count > most)) {
        status = kiln_fail(err, DATA_LOSS, "the device counts %" PRId64 " of %" PRId64 " elements",
                           *out_count, most);
    }
    kiln_release(total);
    kiln_release(ones);
    return status;
}

kiln_status kiln_nonzero(kiln_tensor *x, kiln_tensor **out_tensor, kiln_error *err)
{
    if (out_tensor == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_tensor must not be NULL");
    }
    kiln_tensor *mask = NULL;
    int64_t count = 0;
    *out_tensor = NULL;
    kiln_status status = kiln_cast(x, KILN_DTYPE_BOOL, &mask, err);
    if (status == KILN_STATUS_OK) {
        status = count_true(mask, &count, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kiln_argwhere(mask, count, out_tensor, err);
    }
    kiln_release(mask);
    return status == KILN_STATUS_OK
               ? status
               : kiln_error_context(err, "nonzero, whose length depends on contents");
}
