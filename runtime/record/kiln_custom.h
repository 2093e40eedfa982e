// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_CUSTOM_H
#define KILN_KILN_CUSTOM_H

/// Operators that plugins of the context bring.
///
/// Unless a function says otherwise: any thread may call it; its arguments are borrowed for the
/// call; it can fail with INVALID_ARGUMENT or RESOURCE_EXHAUSTED. NULL where a pointer is needed is
/// INVALID_ARGUMENT; a function without a status then does nothing and gives 0.

#include "ir_custom.h"
#include "kiln_tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_custom_call {
    uint32_t struct_size;
    uint32_t version; ///< the newest that is not newer is taken; 0: the newest
    const char *name; ///< "domain::name"
    kiln_tensor *const *inputs;
    size_t n_inputs; ///< at least 1
    const kiln_custom_attr *attrs; ///< by name, in any order; what is left out has its default
    size_t n_attrs;
} kiln_custom_call;

#define KILN_CUSTOM_CALL_INIT                                                                      \
    {                                                                                              \
        .struct_size = (uint32_t)sizeof(kiln_custom_call)                                          \
    }

/// Records an operator that a plugin of the context brings. It runs by the kernel that the plugin
/// describes, in a fuser's block, or by its reference on the host where there is no kernel for the
/// device, dtypes or layout. On a remote device it runs there, and the server needs the plugin too.
/// `device` may be NULL; everything is copied. The caller holds each of the `n_outputs` results.
/// Errors: NOT_FOUND when no plugin brings the operator; INVALID_ARGUMENT for attributes, inputs or
/// results that are not its own, with its reason; INTERNAL when the operator fails; those of
/// kiln_record.
KILN_NODISCARD KILN_API kiln_status kiln_custom(kiln_device *device, const kiln_custom_call *call,
                                                kiln_tensor **out_tensors, size_t n_outputs,
                                                kiln_error *err);

/// The operator that such a call would take: its parameters, how many inputs and outputs. `*out_op`
/// is borrowed and lives as long as the device. Errors: NOT_FOUND.
KILN_NODISCARD KILN_API kiln_status kiln_custom_find(kiln_device *device, const char *name,
                                                     uint32_t version,
                                                     const kiln_custom_op **out_op,
                                                     kiln_error *err);

/// One of the operators that the context's plugins bring, counted from 0 over all of them.
/// `*out_op` is borrowed and lives as long as the device. Errors: NOT_FOUND past the last.
KILN_NODISCARD KILN_API kiln_status kiln_custom_get(kiln_device *device, size_t index,
                                                    const kiln_custom_op **out_op, kiln_error *err);

/// Checks that a custom operation from elsewhere is what the context's operator of its name and
/// version makes of its inputs and attributes. Errors: NOT_FOUND, INVALID_ARGUMENT.
KILN_NODISCARD KILN_API kiln_status kiln_custom_check(kiln_device *device,
                                                      const kiln_op_record *record,
                                                      kiln_error *err);

struct kiln_ir_graph; // ir_graph.h

/// Looks up the custom operations of a graph among the operators of the device's context
/// (kiln_ir_graph_look_up), so that a judge or another user of the reference functions can run it.
/// The graph must not be run by reference after the device is gone. One thread at a time for a
/// graph. Errors: NOT_FOUND, INVALID_ARGUMENT, with the operation.
KILN_NODISCARD KILN_API kiln_status kiln_custom_look_up(kiln_device *device,
                                                        struct kiln_ir_graph *graph,
                                                        kiln_error *err);

#ifdef __cplusplus
}
#endif

#endif
