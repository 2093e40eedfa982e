// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_PLUGINS_CONVOLUTION_FORM_H
#define KILN_PLUGINS_CONVOLUTION_FORM_H

/// The two forms of a region, which is all that is asked where they differ.

#include "convolution_emit.h"

typedef struct cv_form {
    // ---- the device ----
    uint32_t least_items; ///< work-items that a work-group must be able to have
    uint32_t least_local; ///< bytes of local memory
    uint32_t percent[2]; ///< of the device's rate that convolutions reach; on tensor cores

    // ---- what joins ----
    uint32_t one_narrow; ///< all images have two axes and the same dtype, f16 or bf16
    /// May the region begin with the operation?
    uint32_t (*leads)(const cv_reader *r);
    /// What the operation is, as `made`, or nothing there when it has no step; 0: it is reported.
    uint32_t (*read)(cv_reader *r);

    // ---- memory ----
    uint32_t winograd; ///< windows of 3x3 may be computed in Winograd's form
    uint32_t gates; ///< convolutions of f32 may take in the gate before them
    uint32_t lanes; ///< channels of a place that a kernel computes with at once
    /// f16 and bf16 lie in images as such, and what is not written is f32. Otherwise images are
    /// f32, and each result is rounded.
    uint32_t keeps_narrow;
    /// Where images lie.
    void (*shape)(cv_plan *plan);
    /// Tiles and rows of all steps, and which have packs.
    void (*cut)(cv_plan *plan, const cv_device *device);
    /// Numbers of f32 that the step's packed weights take.
    int64_t (*weights)(const cv_plan *plan, const cv_step *step);

    // ---- text ----
    const char *floats; ///< type of the channels of a place
    const char *rint; ///< function that rounds them; NULL: as elementwise operators do
    const char *value; ///< function that reads any constant; NULL: by its dtype
    const char *weight; ///< number `i` of weights that are no bytes
    const char *pack_text; ///< the file of a pack's kernel
    /// Its defines, its first parameters and its work-items.
    void (*begin_pack)(cv_kernel *k, const cv_plan *plan, const cv_step *step);
    /// The launch of a step. Zero-initialise the kernel; free its text.
    void (*emit_step)(cv_kernel *k, const cv_plan *plan, const cv_step *step);
    /// Image `i` of the step at the place at hand, as m<i>; `whole`: it is as large as the result.
    void (*image_text)(kf_text *text, const cv_plan *plan, const cv_step *step, uint32_t i,
                       uint32_t whole);
} cv_form;

/// For processors: blocks of CV_LANES channels.
extern const cv_form cv_form_blocks;
/// For devices of many small work-items, of f16 and bf16: channels innermost.
extern const cv_form cv_form_nhwc;

// ---- functions of the first ----

void cv_blocks_shape(cv_plan *plan);
void cv_blocks_cut(cv_plan *plan, const cv_device *device);
int64_t cv_blocks_weights(const cv_plan *plan, const cv_step *step);
void cv_blocks_begin_pack(cv_kernel *k, const cv_plan *plan, const cv_step *step);
void cv_blocks_emit_step(cv_kernel *k, const cv_plan *plan, const cv_step *step);
void cv_blocks_image_text(kf_text *text, const cv_plan *plan, const cv_step *step, uint32_t i,
                          uint32_t whole);

#endif
