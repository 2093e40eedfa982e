// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_BINDING_H
#define KILN_RUNTIME_BINDING_H

/// Memory that tensors share, and where in it each of them is (binding.c). All under the device's
/// lock.

#include "fusion_host.h"
#include "kiln.h"

/// The cause of a failure, shared by everything that depended on it. Counted under the device's
/// lock.
typedef struct kilni_fault {
    uint32_t refs;
    kiln_error error;
} kilni_fault;

/// A value that comes from elsewhere: another device, or a collective call. Shared by what gets it
/// and by what brings it.
typedef struct kilni_future kilni_future;

/// The futures that a value depends on, of which some may still be under way.
typedef struct kilni_dependencies kilni_dependencies;

/// A buffer shared by views. Counted under the device's lock.
typedef struct kilni_storage {
    uint32_t refs;
    uint32_t kept; ///< of these, those of temporaries made from it
    kiln_buffer *buffer;
    kilni_dependencies
        *dependencies; ///< of results of collective calls and what was computed from them; or NULL
    struct kilni_behind *behind; ///< the last step to its value (rt_dependency.h), or NULL
    bool foreign; ///< others may see it too: never written over
    bool comes_again; ///< its bytes can be had from the host again: it may leave the device
    uint8_t leaves; ///< how often it did, having been packed
    bool planned; ///< memory of a layout, which has this record too
    uint64_t bytes; ///< counted as live; 0: a part of a larger buffer, or another owner's
} kilni_storage;

/// Where a tensor's elements are, once it is bound; with a fault there are none.
typedef struct kilni_binding {
    bool bound;
    bool described; ///< the next two are known
    uint8_t flags; ///< of a record's tensor here: KILN_TENSOR_*
    uint8_t align_log2;
    kilni_storage *storage; ///< NULL for a tensor without elements
    kilni_fault *fault;
    kiln_view view;
} kilni_binding;

/// Failures of queued work. All under the device's lock.
typedef struct kilni_faults {
    kilni_fault *first;
    kilni_fault no_memory; ///< stands in when there is none for a fault's record
} kilni_faults;

kiln_status kilni_binding_alloc(kiln_device *device, const kiln_tensor_desc *desc,
                                kilni_binding *binding, kiln_error *err);
void kilni_binding_share(kilni_binding *binding, const kilni_binding *source,
                         const kiln_view *view);

/// A dense copy of the elements at `binding`, made on the device. Cleared by the caller, also on
/// failure.
kiln_status kilni_binding_dense(kiln_device *device, const kiln_tensor_desc *desc,
                                const kilni_binding *binding, kilni_binding *out_dense,
                                kiln_error *err);

/// For what is kept or judged: reads twice, and gives DATA_LOSS where a read delivered other bytes
/// than the device has. Waits.
kiln_status kilni_buffer_read_twice(kiln_device *device, kiln_buffer *buffer, size_t offset,
                                    void *out_data, size_t bytes, kiln_error *err);

/// The elements of a binding in row-major order, read twice; waits.
kiln_status kilni_binding_read(kiln_device *device, const kiln_tensor_desc *desc,
                               const kilni_binding *binding, void *out_data, kiln_error *err);

/// Finds out what a record says of the memory: KILN_TENSOR_* and the alignment.
void kilni_binding_describe(kilni_binding *binding);
void kilni_binding_fail(kiln_device *device, kilni_binding *binding, kilni_fault *fault);
void kilni_binding_clear(kiln_device *device, kilni_binding *binding);

/// For who uses the memory beside the device's own queue: it is on the device from now on, and
/// stays there.
kiln_status kilni_storage_settle(kiln_device *device, kilni_storage *storage, kiln_error *err);

/// Never NULL.
kilni_fault *kilni_fault_create(kiln_device *device, const kiln_error *cause);
void kilni_fault_release(kiln_device *device, kilni_fault *fault);

static inline kilni_dependencies *kilni_binding_dependencies(const kilni_binding *binding)
{
    return binding->storage != NULL ? binding->storage->dependencies : NULL;
}

#endif
