// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_EXEC_H
#define KILNI_EXEC_H

/// Operators: on Kiln's own kernels, and matmul on the BLAS library.

#include "cl_opencl.h"

bool kilni_cl_has_kernel(kiln_op op);
/// kiln_device_info's op_launches, by kernels.def.
const uint8_t *kilni_cl_op_launches(void);
/// Whether the kernel that there is takes the call and beats the operator's decomposition.
bool kilni_cl_kernel_pays(const kilni_cl_backend *backend, const kiln_op_record *record);

/// Runs any operator with Kiln's own kernels, matmul of every dtype included. Errors: UNIMPLEMENTED
/// naming operator and dtype, and those of the kernels.
KILN_NODISCARD kiln_status kilni_cl_execute_own(kilni_cl_backend *backend,
                                                const kiln_op_record *record,
                                                const kiln_view *inputs, const kiln_view *outputs,
                                                kiln_error *err);

/// Runs any operator: products by the BLAS library where it takes them and is quicker, all else
/// with Kiln's own kernels. Errors: those of either.
KILN_NODISCARD kiln_status kilni_cl_execute(kilni_cl_backend *backend, const kiln_op_record *record,
                                            const kiln_view *inputs, const kiln_view *outputs,
                                            kiln_error *err);

/// As `execute_joined` of a backend: products of the same few rows by quantised weights on GPUs.
bool kilni_cl_execute_joined(kilni_cl_backend *backend, const kiln_joined_op *ops, uint32_t n_ops);

/// The matmul operator on the BLAS library. Sets `*out_done` false when it is not for BLAS.
KILN_NODISCARD kiln_status kilni_cl_blas_matmul(kilni_cl_backend *backend,
                                                const kiln_op_record *record,
                                                const kiln_view *inputs, const kiln_view *outputs,
                                                bool *out_done, kiln_error *err);

#endif
