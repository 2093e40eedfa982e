// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_ONNX_PLACE_H
#define KILN_ONNX_PLACE_H

// Where a value is: on the host, on a device, on another one; and in which types it is there.

#include "onnx_import.h"

/// The value on the device, uploaded when it is nowhere yet. Borrowed.
kiln_status kilni_onnx_to_device(kiln_device *device, kilni_onnx_ref value,
                                 kiln_tensor **out_tensor, kiln_error *err);

/// The same in another type of floats, which the value then has beside its own.
kiln_status kilni_onnx_to_device_as(kiln_device *device, kilni_onnx_ref value, kiln_dtype dtype,
                                    kiln_tensor **out_tensor, kiln_error *err);
/// The type that a value on the device is kept in, its own before it comes there.
kiln_dtype kilni_onnx_kept_in(const kilni_onnx_value *value);

/// Makes a computed constant on the device where its elements are integers at equal distances, as
/// places are: where lengths differ from run to run nothing is copied for them then.
kiln_status kilni_onnx_line_to_device(kiln_device *device, kilni_onnx_ref value, kiln_error *err);
/// After a run: of a constant that is one number there is no tensor, for in each run it becomes
/// part of what reads it. Takes NULL.
void kilni_onnx_rest(kilni_onnx_ref value);
/// What a value is on another device: itself with its tensor there, or of a constant one of the
/// same contents, which the first keeps. Borrowed. Errors: also those of kiln_to_device.
kiln_status kilni_onnx_value_on(const kiln_env *env, kiln_device *device, kilni_onnx_ref value,
                                kilni_onnx_ref *out_value, kiln_error *err);

#endif
