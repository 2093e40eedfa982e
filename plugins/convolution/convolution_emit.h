// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_PLUGINS_CONVOLUTION_EMIT_H
#define KILN_PLUGINS_CONVOLUTION_EMIT_H

/// What the files that write kernels share (convolution_emit.c, _finish.c, _params.c, _pack.c,
/// around kernels/*.cl): a kernel while it is written, its parameters, small texts.

#include "convolution_internal.h"

// The files of kernels/.
extern const char cv_common_text[];
extern const char cv_concat_text[];
extern const char cv_conv_text[];
extern const char cv_depthwise_text[];
extern const char cv_dot_text[];
extern const char cv_enter_text[];
extern const char cv_export_text[];
extern const char cv_grouped_text[];
extern const char cv_import_text[];
extern const char cv_leave_text[];
extern const char cv_map_text[];
extern const char cv_mean_text[];
extern const char cv_pack_text[];
extern const char cv_pool_text[];
extern const char cv_turned_text[];
extern const char cv_winograd_text[];

typedef enum cv_param_kind {
    CV_PARAM_TEMP, ///< `index`: slot, n_slots + pack, or behind these a chain's counts; `access`
    CV_PARAM_TENSOR, ///< `index`: value; `access`
    CV_PARAM_OFFSET, ///< of the tensor of value `index`
    CV_PARAM_INT, ///< `number`
    CV_PARAM_SCALAR, ///< `index` of the block; `number`: dtype
    CV_PARAM_BATCH ///< how many images
} cv_param_kind;

typedef struct cv_param {
    cv_param_kind kind;
    uint32_t index;
    uint32_t access; ///< KF_ACCESS_*
    int64_t number;
} cv_param;

enum { CV_MAX_PARAMS = 160 }; // CV_MAX_VECTORS of batch norms, and the kernel's own

/// A kernel's arguments and its text, which declares them in the same order.
typedef struct cv_kernel {
    kf_text text;
    kf_text defines; ///< of a pack, while it is written
    char name[32]; ///< by its text: equal kernels are one
    uint32_t n_params;
    uint32_t failed;
    uint32_t widens; ///< of a pack: 1 it has the functions for f16, 2 for bf16
    int64_t items; ///< for n = 1; with a work-group: of all images
    uint32_t group; ///< work-items of a work-group; 0: one
    uint32_t of_units; ///< `items` are of any number of images
    uint32_t on_tensor; ///< the text has instructions of tensor cores
    cv_param params[CV_MAX_PARAMS];
} cv_kernel;

/// The launch that makes the step's pack. Zero-initialise `kernel`; free its text.
void cv_emit_pack(cv_kernel *kernel, const cv_plan *plan, const cv_step *step);
/// Numbers in the pack of a step.
int64_t cv_pack_floats(const cv_plan *plan, const cv_step *step);

/// How many steps from `first` on are one launch; `kernels` are those of all steps.
uint32_t cv_chain_length(const cv_plan *plan, const cv_kernel *kernels, uint32_t first);
/// One launch of `n` parts. Zero-initialise `out`; free its text.
void cv_chain_join(cv_kernel *out, const cv_plan *plan, const cv_kernel *parts, uint32_t n);
/// The launch that fills the counts of all chains, in the temporary behind the packs.
void cv_chain_clear(cv_kernel *out, const cv_plan *plan);
int64_t cv_chain_count_bytes(const cv_plan *plan);

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
/// Scalars of operation `number`, in the dtype that it computes in.
void cv_param_scalars(cv_kernel *k, const cv_plan *plan, const cv_op *op, uint32_t number);
/// The type of a scalar of the dtype, in memory.
const char *cv_scalar_name(uint32_t dtype);
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
/// The same with another word than KERNEL for the name in the text.
void cv_kernel_name(cv_kernel *k, const char *macro, const char *body, const char *role);

/// The parameters that `finish` hands on, and the function.
void cv_finish_params(cv_kernel *k, const cv_plan *plan, const cv_step *step);
void cv_finish_text(kf_text *text, const cv_plan *plan, const cv_step *step);
/// What is read, as the step computes with it: IN, IN16, LOAD_IN, and what it is made with.
void cv_load_params(cv_kernel *k, const cv_plan *plan, const cv_step *step);
void cv_load_text(kf_text *text, const cv_plan *plan, const cv_step *step);

#endif
