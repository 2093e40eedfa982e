// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_DEPENDENCY_H
#define KILN_RUNTIME_DEPENDENCY_H

/// What a value depends on (dependency.c) and who waits for it (future.c). All under the device's
/// lock but where a function says otherwise.

#include "rt_binding.h"

/// With two holds: the tensor's and the bringer's. NULL: no memory.
kilni_future *kilni_future_create(kiln_device *device);

/// Without the lock, as well: the bringer is done, and gives up its hold. Completes the user event
/// that the device's queue waits for. Who waits for a move needs `future_ended` besides.
void kilni_future_end(kilni_future *future, const kiln_error *result);
void kilni_future_release(kilni_future *future);

/// Waits, giving the lock up meanwhile, until the tensors of this device are here; a failed future
/// becomes the tensor's fault. To be called before anything of the device is looked at.
/// Errors: FAILED_PRECONDITION for the result of a collective call that was not resolved.
kiln_status kilni_await_futures(kiln_device *device, kiln_tensor *const *tensors, size_t count,
                                kiln_error *err);

/// Likewise, with a deadline on kiln_time_ns(), and DEADLINE_EXCEEDED.
kiln_status kilni_await_futures_until(kiln_device *device, kiln_tensor *const *tensors,
                                      size_t count, uint64_t deadline_ns, kiln_error *err);

/// Waits for the moves from and to the device that have begun by now, giving the lock up meanwhile.
void kilni_await_moves(kiln_device *device);

/// From now on the storage's value depends on what `more` (or NULL) stands for, or on `future`.
/// False: no memory.
bool kilni_dependencies_add(kilni_dependencies **dependencies, const kiln_env *env,
                            kilni_dependencies *more);
bool kilni_storage_await(kilni_storage *storage, const kiln_env *env, kilni_dependencies *more);
bool kilni_storage_expect(kilni_storage *storage, kilni_future *future);

/// Both without the lock, as well.
kilni_dependencies *kilni_dependencies_retain(kilni_dependencies *dependencies);
void kilni_dependencies_release(kilni_dependencies *dependencies);

/// The first failure among those that have ended. `out_open` (or NULL): some have not.
kiln_status kilni_dependencies_status(const kilni_dependencies *dependencies, bool *out_open,
                                      kiln_error *err);

/// The binding's fault, or the failure of what its value depends on, as far as it is known.
kiln_status kilni_binding_status(const kilni_binding *binding, kiln_error *err);

/// Makes what is done on the device from now on wait for what the binding's value depends on: by a
/// user event in its queue, or, on a device without (kilni_device_has_user_events), here and now,
/// with the lock given up meanwhile. What has to be done behind the wait is done.
kiln_status kilni_binding_await(kiln_device *device, const kilni_binding *binding, kiln_error *err);

/// The last step to the value of a storage, which has it until the device's own queue takes the
/// step, behind its first wait for the value. On devices with user events.
typedef struct kilni_behind {
    kiln_status (*run)(kiln_device *device, struct kilni_behind *self, kiln_error *err);
    void (*free)(kiln_device *device, struct kilni_behind *self);
} kilni_behind;

/// Frees the one before. NULL: there is none from now on.
void kilni_storage_set_behind(kiln_device *device, kilni_storage *storage,
                              kilni_behind *take_behind);

#endif
