// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_CHECK_CASE_H
#define KILN_CHECK_CASE_H

/// One test case of ONNX (model.onnx with test_data_set_*/input_*.pb and output_*.pb): running it,
/// and comparing what comes out.

#include "cli.h"
#include "onnx.h"

enum { CHECK_MAX_HOST = 16, CHECK_NAME_ROOM = 64 };

typedef struct check_counts { ///< of all data sets of a case
    uint64_t kernels; ///< launched for it, products by a BLAS library counted as one
    uint64_t host_nodes; ///< nodes that the host computed, those of constants alone not counted
    char host_ops[CHECK_MAX_HOST][CHECK_NAME_ROOM]; ///< their operators, each once
    size_t n_host_ops;
} check_counts;

/// How far a float may be from the expected one, where a case is on no list: ONNX's own bounds.
#define CHECK_RELATIVE 1e-3
#define CHECK_ABSOLUTE 1e-7

typedef struct check_how {
    bool statistics; ///< outputs are compared by shape, dtype and moments, not by number
    double relative; ///< how far a float may be from the expected one: a part of it,
    double absolute; ///< and this much
    uint32_t again; ///< further runs in the same session, whose inputs are on the device only
} check_how;

/// Runs every data set of a case; a case without one is a failure. The counts are those of the
/// first run. `*out_counts` is the caller's. One thread at a time. Errors: UNIMPLEMENTED for what
/// Kiln has not; any other is the failure of the case.
kiln_status check_case_run(kiln_context *context, kiln_device *device, const char *folder,
                           check_how how, check_counts *out_counts, kiln_error *err);

/// Compares a tensor with what a case expects: dtype and lengths exactly, floats closely,
/// everything else by bits. `info` is the model's word about the output: bfloat16 is stored as
/// uint16 in some cases' files. One thread at a time. Errors: INTERNAL with the first difference.
kiln_status check_compare(const kiln_onnx_value_info *info, const kiln_onnx_tensor_info *expected,
                          kiln_tensor *actual, const check_how *how, kiln_error *err);
/// The same for strings: equal, or the same number written otherwise.
kiln_status check_compare_texts(const kiln_onnx_tensor_info *expected,
                                const kiln_onnx_value *actual, kiln_error *err);

#endif
