// SPDX-License-Identifier: MIT OR Apache-2.0
// A call of any kind. Decides only whether it moves or computes with elements of a quantised
// tensor, or has to do with small floats, which is several operations, and that observers learn of
// the call as it was made.

#include "record_internal.h"

static kiln_status record_plain(kiln_device *handle, kilni_op_call *call, kiln_tensor **out_tensors,
                                kiln_error *err)
{
    if (kilni_moves_quantised(call)) {
        return kilni_record_moved(handle, call, out_tensors, err);
    }
    if (kilni_computes_quantised(call)) {
        return kilni_record_dequantised(handle, call, out_tensors, err);
    }
    return kilni_has_small(call) ? kilni_record_small(handle, call, out_tensors, err)
                                 : kilni_record_call(handle, call, out_tensors, err);
}

kiln_status kilni_record_any(kiln_device *handle, kilni_op_call *call, kiln_tensor **out_tensors,
                             kiln_error *err)
{
    const kiln_attr *attrs = call->attrs; // recording may put others in their place
    kiln_status status = record_plain(handle, call, out_tensors, err);
    if (status == KILN_STATUS_OK && kilni_is_marked(call)) {
        call->attrs = attrs;
        status = kilni_record_observed(call, out_tensors, err);
    }
    return status;
}
