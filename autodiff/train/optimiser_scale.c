// SPDX-License-Identifier: MIT OR Apache-2.0
// Scaling of the loss (Micikevicius and others, 2018): by how much, and which steps are left out.
// The scale is a power of two times what it began with, so that dividing by it rounds nothing.
#include "optimiser_internal.h"

#include <math.h>

enum { PERIOD = 2000 };

/// Beyond these f32 itself overflows, or nothing is gained.
static const double largest = 0x1p100;
static const double least = 0x1p-100;

kiln_status kiln_optimiser_scale_loss(const kiln_optimiser *optimiser, kiln_tensor *loss,
                                      kiln_tensor **out_loss, kiln_error *err)
{
    if (optimiser == NULL || loss == NULL || out_loss == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "optimiser, loss and out_loss must not be NULL");
    }
    *out_loss = NULL;
    if (optimiser->scale == 0) {
        return kiln_fail(err, FAILED_PRECONDITION, "the optimiser was made without a loss_scale");
    }
    return kiln_mul_scalar(loss, kiln_f64(optimiser->scale), out_loss, err);
}

double kiln_optimiser_loss_scale(const kiln_optimiser *optimiser)
{
    if (optimiser == NULL) {
        return 0;
    }
    return optimiser->scale != 0 ? optimiser->scale : 1;
}

uint64_t kiln_optimiser_skipped(const kiln_optimiser *optimiser)
{
    return optimiser != NULL ? optimiser->skipped : 0;
}

// ---- are all finite? ----

/// The largest magnitude, as one element of rank 1; no number if one is none. That of f64 beyond
/// f32 becomes an infinity, and is refused as one.
static kiln_status magnitude(kiln_tensor *gradient, kiln_dtype dtype, kiln_tensor **out_most,
                             kiln_error *err)
{
    const int64_t one = 1;
    kiln_tensor *t[3] = {NULL};
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kiln_abs(gradient, &t[0], err));
    KILN_TRY(out, status, kiln_max(t[0], NULL, 0, /*keepdims=*/false, &t[1], err));
    KILN_TRY(out, status, kiln_cast(t[1], dtype, &t[2], err));
    KILN_TRY(out, status, kiln_reshape(t[2], &one, 1, out_most, err));
out:
    for (int i = 0; i < 3; i++) {
        kiln_release(t[i]);
    }
    return status;
}

kiln_status kilni_optimiser_check_finite(const kiln_optimiser *optimiser,
                                         kiln_tensor *const *gradients, bool *out_finite,
                                         kiln_error *err)
{
    kiln_tensor *most = NULL;
    float found = 0;
    kiln_status status = kilni_gradients_fold(gradients, optimiser->count, KILN_DTYPE_F32,
                                              magnitude, kiln_max, &most, err);
    if (status == KILN_STATUS_OK && most != NULL) {
        status = kiln_read(most, &found, sizeof(found), err);
    }
    kiln_release(most);
    *out_finite = isfinite(found);
    return status;
}

// ---- the step ----

kiln_status kilni_optimiser_unscale(const kiln_optimiser *optimiser, kiln_tensor *const *gradients,
                                    kiln_tensor **out_gradients, kiln_error *err)
{
    const kiln_number factor = kiln_f64(1 / optimiser->scale);
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < optimiser->count && status == KILN_STATUS_OK; i++) {
        if (gradients[i] != NULL) {
            status = kiln_mul_scalar(gradients[i], factor, &out_gradients[i], err);
        }
    }
    return status;
}

void kilni_optimiser_adapt_scale(kiln_optimiser *optimiser, bool finite)
{
    uint64_t period = optimiser->options.scale_period;
    optimiser->good_steps = finite ? optimiser->good_steps + 1 : 0;
    optimiser->skipped += !finite;
    if (!finite && optimiser->scale > least) {
        optimiser->scale /= 2;
    }
    if (optimiser->good_steps >= (period != 0 ? period : PERIOD)) {
        optimiser->good_steps = 0;
        optimiser->scale *= optimiser->scale < largest ? 2 : 1;
    }
}
