// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_REFERENCE_H
#define KILN_IR_REFERENCE_H

/// What an operation means, run on memory of the host.

#include "ir_op.h"
#include "ir_view.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Runs an operation's reference function on memory of the host: inputs, then outputs, each as
/// `bytes` long as it is, with the views' offsets from its start. For what a backend cannot run.
/// Ownership: borrowed. Lifetime: n/a. Thread: any. Errors: OUT_OF_RANGE for a view that leaves its
/// memory; those of the operator.
typedef struct kiln_host_memory {
    void *data;
    size_t bytes;
} kiln_host_memory;
KILN_NODISCARD KILN_API kiln_status kiln_ir_reference_run(const kiln_op_record *record,
                                                          const kiln_view *inputs,
                                                          const kiln_view *outputs,
                                                          const kiln_host_memory *memory,
                                                          kiln_error *err);

#ifdef __cplusplus
}
#endif

#endif
