// SPDX-License-Identifier: MIT OR Apache-2.0
// The smallest host of a fuser: shows it operations through the C ABI, evaluates its formulas, and
// runs its program with plain OpenCL. Nothing of Kiln takes part, so a test with it is a test of
// the plugin alone.
#ifndef KILN_TESTS_UNIT_PLUGINS_MINI_HOST_H
#define KILN_TESTS_UNIT_PLUGINS_MINI_HOST_H

#include <stdbool.h>

#include "kf_util.h"

enum {
    MINI_MAX_TENSORS = 4096,
    MINI_MAX_OPS = 6400,
    MINI_MAX_SYMBOLS = 64,
    MINI_MAX_SCALARS = 2048
};

typedef struct mini_tensor {
    kf_tensor view;
    kf_dim dims[KF_MAX_RANK];
    int64_t extents[KF_MAX_RANK];
    int64_t strides[KF_MAX_RANK]; // in elements
    int64_t offset; // in elements
    void *data; // the whole buffer; of a result: what was read back
    size_t bytes;
    int same_memory_as; // tensor whose buffer this result takes, or -1
} mini_tensor;

typedef struct mini_op {
    kf_op view;
    const kf_tensor *inputs[8];
    const kf_tensor *outputs[2];
    kf_attr attrs[4];
} mini_op;

typedef struct mini_host {
    kf_host host;
    kf_device device;
    const kf_plugin *plugin;
    kf_fuser *fuser;
    uint32_t last_code; // of the last diagnostic
    char last_text[256];
    mini_tensor tensors[MINI_MAX_TENSORS];
    uint32_t n_tensors;
    mini_op ops[MINI_MAX_OPS];
    uint32_t n_ops;
    int64_t symbols[MINI_MAX_SYMBOLS];
    uint32_t n_symbols;
    double scalars_f[MINI_MAX_SCALARS];
    int64_t scalars_i[MINI_MAX_SCALARS];
    bool scalars_are_float[MINI_MAX_SCALARS];
    uint32_t n_scalars;
    uint64_t values_asked; // questions for sizes or scalars
} mini_host;

/// Loads the plugin (a path below KILN_PLUGIN_PATH or absolute) and describes a device of one of
/// the two shapes. NULL, with the case failed, when it cannot. mini_fuser makes the fuser; device
/// facts may be changed before.
mini_host *mini_open(const char *plugin_file, uint32_t code_shape);
bool mini_fuser(mini_host *mini);
bool mini_fuser_at(mini_host *mini, uint32_t index); // of a plugin with several
void mini_close(mini_host *mini);
/// Forgets tensors, operations, symbols and scalars.
void mini_clear(mini_host *mini);

/// A dense tensor with its own memory; `id` of the result is its index. Results need no data.
uint32_t mini_tensor_add(mini_host *mini, uint32_t dtype, uint32_t rank, const int64_t *extents);
/// Gives a tensor other strides (in elements) and offset over a buffer of `elements`; not
/// contiguous then.
void mini_tensor_place(mini_host *mini, uint32_t id, const int64_t *strides, int64_t offset,
                       size_t elements);
int64_t mini_count(const mini_host *mini, uint32_t id);

/// Appends an operation; its attributes may be filled in afterwards (view.n_attrs, attrs).
mini_op *mini_op_add(mini_host *mini, uint32_t kind, const uint32_t *inputs, uint32_t n_inputs,
                     uint32_t output);
mini_op *mini_unary(mini_host *mini, uint32_t kind, uint32_t a, uint32_t output);
mini_op *mini_binary(mini_host *mini, uint32_t kind, uint32_t a, uint32_t b, uint32_t output);
void mini_drop(mini_host *mini, uint32_t tensor);
/// Adds a scalar attribute to an operation.
void mini_scalar(mini_host *mini, mini_op *op, uint32_t key, double value);
void mini_scalar_i64(mini_host *mini, mini_op *op, uint32_t key, int64_t value);
/// `kind` with a scalar, one input.
mini_op *mini_with_scalar(mini_host *mini, uint32_t kind, uint32_t a, double value,
                          uint32_t output);

/// Shows operations [from, to) one by one.
kf_state mini_fuse(mini_host *mini, kf_builder *builder, uint32_t from, uint32_t to);
/// The whole way: a builder, all operations, finish. NULL when the fuser would not.
kf_opt *mini_finish(mini_host *mini);

/// Value of a formula; false for what the ABI forbids.
bool mini_eval(const mini_host *mini, kf_expr expr, int64_t *out_value);

/// Is there an OpenCL device? Otherwise the case is marked as skipped. The first call opens it for
/// all cases of the program.
bool mini_has_opencl(void);
/// Whether that device takes programs for sm_90a.
bool mini_has_wgmma(void);
/// Whether the device that mini_has_opencl opened is a processor.
bool mini_is_processor(void);
/// Builds and runs the program, and reads every written tensor into its `data`. Checks guards after
/// each result. False, with the case failed, when something goes wrong. mini_run_ns gives the best
/// time of `repeat`.
bool mini_run(mini_host *mini, const kf_opt *opt);
bool mini_run_ns(mini_host *mini, const kf_opt *opt, uint32_t repeat, uint64_t *out_ns);

#endif
