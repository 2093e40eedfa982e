// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_MODEL_WORK_H
#define KILN_MODEL_WORK_H

/// The work of operations and blocks, and the device's peaks: what makes a roofline.

#include "kiln_explained.h"
#include "model_run.h"

typedef struct model_work {
    double flops; ///< multiplications and additions of products; 0: it is bound by what it moves
    double bytes; ///< read and written
} model_work;

model_work model_work_of_op(const kiln_explanation *e, const kiln_explained_op *op);
model_work model_work_of_block(const kiln_explanation *e, const kiln_explained_block *block);

/// What the device reaches at best.
typedef struct model_peaks {
    double flops_per_ns; ///< of a large product of f32
    double bytes_per_ns; ///< of a copy, read plus written
    double clock_flops_per_ns; ///< as the device's clock and width say
} model_peaks;

/// Runs a few large products. Errors: of the device.
kiln_status model_measure_peaks(kiln_device *device, model_peaks *out_peaks, kiln_error *err);

#endif
