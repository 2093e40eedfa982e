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
/// Scalars of operation `number`, in its dtype; in groups in f32.
void cv_param_scalars(cv_kernel *k, const cv_plan *plan, const cv_op *op, uint32_t number);
/// How their parameters are declared: as memory has them.
const char *cv_scalar_type(const cv_plan *plan, const cv_op *op);
/// A number in f32 or i32 as the text of an expression; a scalar becomes the parameter `name`.
void cv_param_number(cv_kernel *k, const cv_number *number, uint32_t dtype, const char *name,
                     char text[64]);
/// The type of an element in memory: in the region's own, or in a dense tensor.
const char *cv_type_inside(const cv_plan *plan, const cv_value *value);
const char *cv_type_dense(const cv_value *value);
/// round_f16, values_f16 and others of kf_ew_memory.h for a narrow dtype; for others nothing.
void cv_narrow_functions(kf_text *text, uint32_t dtype);
void cv_text_define(kf_text *text, const char *name, int64_t value);
/// A number exactly as f32 has it.
void cv_text_float(char text[32], double value);
/// Names the kernel by its text, so that the same text is the same program in every model.
void cv_kernel_close(cv_kernel *k, const char *body, const char *role);

/// The parameters that `finish` hands on, and the function.
void cv_finish_params(cv_kernel *k, const cv_plan *plan, const cv_step *step);
void cv_finish_text(kf_text *text, const cv_plan *plan, const cv_step *step);
/// What is read, as the step computes with it: IN, IN16, LOAD_IN, and what it is made with.
void cv_load_params(cv_kernel *k, const cv_plan *plan, const cv_step *step);
void cv_load_text(kf_text *text, const cv_plan *plan, const cv_step *step);

#endif
