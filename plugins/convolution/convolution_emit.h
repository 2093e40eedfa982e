// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_PLUGINS_CONVOLUTION_EMIT_H
#define KILN_PLUGINS_CONVOLUTION_EMIT_H

/// What the files that write kernels share: parameters and small texts.

#include "convolution_internal.h"

/// Begins and ends the list of parameters; the text before it is complete.
void cv_params_begin(cv_kernel *k);
void cv_params_end(cv_kernel *k);
void cv_param_add(cv_kernel *k, cv_param p, const char *declaration, const char *name);
void cv_param_int(cv_kernel *k, const char *name, int64_t number);
/// An image in a temporary. `top`, `left`: rows and columns before the image that the kernel's
/// first place is.
void cv_param_image(cv_kernel *k, const cv_plan *plan, uint32_t value, const char *name,
                    uint32_t access, uint32_t top, uint32_t left);
void cv_param_pack(cv_kernel *k, const cv_plan *plan, const cv_step *step, uint32_t access);
/// Scalars of operation `number`.
void cv_param_scalars(cv_kernel *k, const cv_op *op, uint32_t number);
void cv_text_define(kf_text *text, const char *name, int64_t value);
/// A number exactly as f32 has it.
void cv_text_float(char text[32], double value);
/// Names the kernel by its text, so that the same text is the same program in every model.
void cv_kernel_close(cv_kernel *k, const char *body, const char *role);

/// The parameters that `finish` hands on, and the function.
void cv_finish_params(cv_kernel *k, const cv_plan *plan, const cv_step *step);
void cv_finish_text(kf_text *text, const cv_plan *plan, const cv_step *step);

#endif
