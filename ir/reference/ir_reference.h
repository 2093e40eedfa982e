// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_REFERENCE_H
#define KILN_IR_REFERENCE_H

/// What an operation means, run on memory of the host. Any thread may call the function; it borrows
/// its arguments. No pointer is NULL unless a function takes it.

#include "ir_op.h"
#include "ir_view.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Memory of one tensor, as long as `bytes` says.
typedef struct kiln_host_memory {
    void *data;
    size_t bytes;
} kiln_host_memory;

/// Runs an operation's reference function, for what a backend cannot run. `memory` is of inputs,
/// then outputs; the views' offsets count from its start. Errors: OUT_OF_RANGE for a view that
/// leaves its memory; those of the operator.
KILN_NODISCARD KILN_API kiln_status kiln_ir_reference_run(const kiln_op_record *record,
                                                          const kiln_view *inputs,
                                                          const kiln_view *outputs,
                                                          const kiln_host_memory *memory,
                                                          kiln_error *err);

#ifdef __cplusplus
}
#endif

#endif
