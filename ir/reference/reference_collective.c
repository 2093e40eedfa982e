// SPDX-License-Identifier: MIT OR Apache-2.0
// What the operators of several devices mean on one: a group of one has its own value. Calls of
// larger groups are started where devices meet, in the runtime.
#include "reference_internal.h"

kiln_status kiln_ref_all_reduce(const kiln_op_record *call, const kiln_view *inputs,
                                const kiln_view *outputs, kiln_error *err)
{
    if (call->attrs[1].v.i != 0) {
        return kiln_fail(err, FAILED_PRECONDITION,
                         "all_reduce: group %lld is not known where this runs; 0 is the device "
                         "alone",
                         (long long)call->attrs[1].v.i);
    }
    kilni_ref_copy(&inputs[0], &outputs[0]);
    return KILN_STATUS_OK;
}

kiln_status kiln_ref_collective_sync(const kiln_op_record *call, const kiln_view *inputs,
                                     const kiln_view *outputs, kiln_error *err)
{
    (void)call;
    (void)err;
    kilni_ref_copy(&inputs[0], &outputs[0]);
    return KILN_STATUS_OK;
}
