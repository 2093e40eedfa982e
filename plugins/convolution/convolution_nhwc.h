// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_PLUGINS_CONVOLUTION_NHWC_H
#define KILN_PLUGINS_CONVOLUTION_NHWC_H

/// Regions of 16 bits on devices with work-groups: images with channels innermost.

#include "convolution_form.h"

extern const char cv_nhwc_text[];
extern const char cv_nhwc_pack_text[];
extern const char cv_nhwc_pass_text[];
extern const char cv_nhwc_product_text[];
extern const char cv_nhwc_turn_text[];

enum {
    CV_TILE_ROWS = 128, ///< places of a product's tile
    CV_STEP_TERMS = 64, ///< of the sum that a tile takes at once: 128 bytes
    CV_LINE_BYTES = 128,
    CV_WIDE_COLUMNS = 256, ///< filters of a product's largest tile
    CV_MOST_MASK = 31, ///< elements of a window that is read as it lies
    CV_PASS_ITEMS = 128, ///< of a work-group that multiplies nothing
    CV_LEAST_COUNT = 8 ///< images
};

/// May the operation join a region of 16 bits? Otherwise it is reported.
uint32_t cv_nhwc_takes(const cv_reader *r);
/// Where images lie.
void cv_nhwc_shape(cv_plan *plan);
/// Tiles and packs.
void cv_nhwc_cut(cv_plan *plan, const cv_device *device);
/// Places of an image.
int64_t cv_nhwc_places(const cv_value *value);
/// Terms of each sum of a product, as they lie.
int32_t cv_nhwc_terms(const cv_plan *plan, const cv_step *step);
/// Is the step's image read as a matrix, a line of terms for each place of the result?
uint32_t cv_nhwc_is_matrix(const cv_plan *plan, const cv_step *step);
/// Numbers of f32 that the packed weights take.
int64_t cv_nhwc_weights(const cv_plan *plan, const cv_step *step);
static inline uint32_t cv_nhwc_on_tensor(const cv_device *device)
{
    return (device->features & KF_FEATURE_WGMMA) != 0;
}
/// The part of a product's text that the number of columns decides.
void cv_nhwc_tensor_text(kf_text *text, uint32_t columns, const char *dtype);
/// What kernels begin with.
void cv_nhwc_begin(cv_kernel *k, const cv_plan *plan);
void cv_nhwc_begin_pack(cv_kernel *k, const cv_plan *plan, const cv_step *step);
void cv_nhwc_emit_step(cv_kernel *kernel, const cv_plan *plan, const cv_step *step);
void cv_nhwc_image_text(kf_text *text, const cv_plan *plan, const cv_step *step, uint32_t i,
                        uint32_t whole);

#endif
