// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_DEVICE_OPS_H
#define KILN_IR_DEVICE_OPS_H

/// The device of a backend: what it is, and operations in its queue. Every backend has this table.
///
/// Unless a function says otherwise, the runtime calls it under the backend's lock, and only `sync`
/// waits. A failure of queued work is reported by the next read or `sync`. No pointer is NULL
/// unless a function takes it.

#include "ir_device.h"
#include "ir_op.h"
#include "ir_view.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_backend kiln_backend;

enum { KILN_MAX_JOINED = 8 }; ///< operations of one launch

typedef struct kiln_joined_op {
    const kiln_op_record *record;
    const kiln_view *inputs;
    const kiln_view *outputs;
} kiln_joined_op;

typedef struct kiln_backend_device_ops {
    uint32_t struct_size;
    /// Ends the device. All that it gave was given back; nobody calls it any more. Takes NULL.
    void (*close)(kiln_backend *backend);
    /// Facts that last as long as the device, but for its features: a device may lose its compiler.
    /// Any thread.
    const kiln_device_info *(*info)(kiln_backend *backend);
    uint32_t (*dtype_usage)(kiln_backend *backend, kiln_dtype dtype); ///< KILN_USAGE_*; any thread
    void (*stats)(kiln_backend *backend, kiln_backend_stats *out_stats);
    /// Queues one operation on views; outputs have memory, dense. Of class ELEMENTWISE an output
    /// may be an input of equal shape and dtype that is dense too, that of slice_assign its first
    /// input; others get memory of their own.
    kiln_status (*execute)(kiln_backend *backend, const kiln_op_record *record,
                           const kiln_view *inputs, const kiln_view *outputs, kiln_error *err);
    /// Whether `execute` runs this operation itself; a composite for which it does not is expanded.
    bool (*runs)(kiln_backend *backend, const kiln_op_record *record);
    /// The device begins what is queued, without being waited for.
    kiln_status (*flush)(kiln_backend *backend, kiln_error *err);
    /// Waits for all that is queued.
    kiln_status (*sync)(kiln_backend *backend, kiln_error *err);
    /// What was predicted by the measured speeds was wrong: a later process measures them again.
    void (*doubt_speeds)(kiln_backend *backend);
    /// Queues up to KILN_MAX_JOINED operations of one operator and one first input, none of which
    /// reads another's result, as one launch. False: nothing is queued; `execute` takes each.
    bool (*execute_joined)(kiln_backend *backend, const kiln_joined_op *ops, uint32_t n_ops);
} kiln_backend_device_ops;

/// Default of `runs`: every operation.
KILN_API bool kiln_backend_runs_all(kiln_backend *backend, const kiln_op_record *record);
/// Default of `doubt_speeds`, of a backend that measures none: nothing.
KILN_API void kiln_backend_no_doubt(kiln_backend *backend);
/// Default of `execute_joined`: none are.
KILN_API bool kiln_backend_joins_none(kiln_backend *backend, const kiln_joined_op *ops,
                                      uint32_t n_ops);

#ifdef __cplusplus
}
#endif

#endif
