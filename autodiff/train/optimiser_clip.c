// SPDX-License-Identifier: MIT OR Apache-2.0
// The norm of all gradients together, and by how much they are too long: one reduction for each
// gradient, in f32 whatever its dtype, then one of the sums. Nothing waits.
#include "optimiser_internal.h"

#include <string.h>

enum { AT_ONCE = KILN_MAX_INPUTS };

/// The sum of the squares of all elements, as a tensor of rank 1 with one element.
static kiln_status square_sum(kiln_tensor *gradient, kiln_dtype dtype, kiln_tensor **out_sum,
                              kiln_error *err)
{
    const int64_t one = 1;
    kiln_tensor *wide = NULL;
    kiln_tensor *square = NULL;
    kiln_tensor *sum = NULL;
    kiln_status status = KILN_STATUS_OK;
    if (kiln_tensor_dtype(gradient) == dtype) {
        wide = kiln_retain(gradient);
    } else {
        KILN_TRY(out, status, kiln_cast(gradient, dtype, &wide, err));
    }
    KILN_TRY(out, status, kiln_mul(wide, wide, &square, err));
    KILN_TRY(out, status, kiln_sum(square, NULL, 0, /*keepdims=*/false, &sum, err));
    KILN_TRY(out, status, kiln_reshape(sum, &one, 1, out_sum, err));
out:
    kiln_release(wide);
    kiln_release(square);
    kiln_release(sum);
    return status;
}

/// Puts one element in the place of many: what they are joined to. Takes them.
static kiln_status join_parts(kiln_tensor **parts, size_t count, kilni_join_fn joined,
                              kiln_tensor **out_tensor, kiln_error *err)
{
    const int64_t axis = 0;
    kiln_tensor *row = NULL;
    kiln_status status = kiln_concat(parts, count, 0, &row, err);
    if (status == KILN_STATUS_OK) {
        status = joined(row, &axis, 1, /*keepdims=*/true, out_tensor, err);
    }
    kiln_release(row);
    for (size_t i = 0; i < count; i++) {
        kiln_release(parts[i]);
        parts[i] = NULL;
    }
    return status;
}

kiln_status kilni_gradients_fold(kiln_tensor *const *gradients, size_t count, kiln_dtype dtype,
                                 kilni_part_of_fn part, kilni_join_fn joined,
                                 kiln_tensor **out_tensor, kiln_error *err)
{
    kiln_tensor *parts[AT_ONCE] = {NULL};
    size_t n_parts = 0;
    kiln_status status = KILN_STATUS_OK;
    *out_tensor = NULL;
    for (size_t i = 0; i < count; i++) {
        if (gradients[i] == NULL || kiln_tensor_count(gradients[i]) == 0) {
            continue;
        }
        if (n_parts == AT_ONCE) {
            kiln_tensor *whole = NULL;
            n_parts = 0;
            KILN_TRY(out, status, join_parts(parts, AT_ONCE, joined, &whole, err));
            parts[n_parts++] = whole;
        }
        KILN_TRY(out, status, part(gradients[i], dtype, &parts[n_parts], err));
        n_parts++;
    }
    if (n_parts > 0) {
        KILN_TRY(out, status, join_parts(parts, n_parts, joined, out_tensor, err));
    }
out:
    for (size_t i = 0; i < AT_ONCE; i++) {
        kiln_release(parts[i]);
    }
    return status;
}

kiln_status kilni_optimiser_clip_factor(kiln_device *device, kiln_tensor *total, double most,
                                        kiln_tensor **out_factor, kiln_error *err)
{
    kiln_tensor *t[5] = {NULL};
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kiln_reshape(total, NULL, 0, &t[0], err));
    KILN_TRY(out, status, kiln_sqrt(t[0], &t[1], err));
    KILN_TRY(out, status, kiln_add_scalar(t[1], kiln_f64(1e-6), &t[2], err));
    KILN_TRY(out, status,
             kiln_full(device, NULL, 0, kiln_tensor_dtype(total), kiln_f64(most), &t[3], err));
    KILN_TRY(out, status, kiln_div(t[3], t[2], &t[4], err));
    KILN_TRY(out, status, kiln_clamp_max(t[4], kiln_f64(1), out_factor, err));
out:
    for (int i = 0; i < 5; i++) {
        kiln_release(t[i]);
    }
    return status;
}

static kiln_dtype norm_dtype(kiln_tensor *const *gradients, size_t count)
{
    kiln_dtype dtype = KILN_DTYPE_F32;
    for (size_t i = 0; i < count; i++) {
        if (gradients[i] != NULL && kiln_tensor_dtype(gradients[i]) == KILN_DTYPE_F64) {
            dtype = KILN_DTYPE_F64;
        }
    }
    return dtype;
}

kiln_status kilni_optimiser_squares_record(kiln_tensor *const *gradients, size_t count,
                                           kiln_tensor **out_total, kiln_error *err)
{
    return kilni_gradients_fold(gradients, count, norm_dtype(gradients, count), square_sum,
                                kiln_sum, out_total, err);
}

kiln_status kilni_optimiser_clip_record(kiln_device *device, kiln_tensor *const *gradients,
                                        size_t count, double most, kiln_tensor **out_factor,
                                        kiln_error *err)
{
    kiln_tensor *total = NULL;
    kiln_status status = kilni_optimiser_squares_record(gradients, count, &total, err);
    if (status == KILN_STATUS_OK && total != NULL) {
        status = kilni_optimiser_clip_factor(device, total, most, out_factor, err);
    }
    kiln_release(total);
    return status;
}
