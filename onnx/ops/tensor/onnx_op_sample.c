// SPDX-License-Identifier: MIT OR Apache-2.0
// GridSample and RoiAlign. Decides only names: which of our modes an old or a new one is, and what
// each version of the operators takes for granted. What is read between elements is ir's
// (reference_sample.c).
#include "onnx_import.h"

#include <string.h>

/// Version 20 says linear and cubic for any number of axes; before, bilinear and bicubic.
void kilni_onnx_op_grid_sample(kilni_onnx_call *call)
{
    const kilni_onnx_ref x = kilni_onnx_in(call, 0);
    const char *mode = kilni_onnx_attr_text(call, "mode", "linear");
    mode = strncmp(mode, "bi", 2) == 0 ? mode + 2 : mode;
    if (!kilni_onnx_ok(call)) {
        return;
    }
    const kilni_onnx_ref inputs[] = {x,
                                     kilni_onnx_cast(call, kilni_onnx_in(call, 1), x->desc.dtype)};
    const kiln_attr attrs[] = {
        kilni_attr_text(mode), kilni_attr_text(kilni_onnx_attr_text(call, "padding_mode", "zeros")),
        kilni_attr_bool(kilni_onnx_attr_int(call, "align_corners", 0) != 0), kilni_attr_f64(-0.75)};
    kilni_onnx_out(call, 0, kilni_onnx_emit(call, KILN_OP_GRID_SAMPLE, inputs, 2, attrs, 4));
}

void kilni_onnx_op_roi_align(kilni_onnx_call *call)
{
    const kilni_onnx_ref inputs[] = {kilni_onnx_in(call, 0), kilni_onnx_in(call, 1),
                                     kilni_onnx_in(call, 2)};
    const int64_t size[] = {kilni_onnx_attr_int(call, "output_height", 1),
                            kilni_onnx_attr_int(call, "output_width", 1)};
    const char *coordinates =
        kilni_onnx_attr_text(call, "coordinate_transformation_mode",
                             call->version < 16 ? "output_half_pixel" : "half_pixel");
    const kiln_attr attrs[] = {kilni_attr_ints(size, 2),
                               kilni_attr_text(kilni_onnx_attr_text(call, "mode", "avg")),
                               kilni_attr_text(coordinates),
                               kilni_attr_i64(kilni_onnx_attr_int(call, "sampling_ratio", 0)),
                               kilni_attr_f64(kilni_onnx_attr_float(call, "spatial_scale", 1))};
    kilni_onnx_out(call, 0, kilni_onnx_emit(call, KILN_OP_ROI_ALIGN, inputs, 3, attrs, 5));
}
