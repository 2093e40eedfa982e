// SPDX-License-Identifier: MIT OR Apache-2.0
// Shapes of the operators that several devices take part in: as the input. Whether there is such a
// group is found out when the operation runs.
#include <string.h>

#include "shape_internal.h"

kiln_status kiln_shape_all_reduce(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                  kiln_error *err)
{
    static const char *const names[] = {"sum", "mean", "min", "max", "prod"};
    const kiln_attr *reduction = &call->attrs[0];
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strlen(names[i]) == reduction->count &&
            memcmp(names[i], reduction->v.text, reduction->count) == 0) {
            return kiln_shape_collective_sync(call, outputs, err);
        }
    }
    return kiln_fail(err, INVALID_ARGUMENT,
                     "%s: no reduction is named '%.*s'; there are sum, mean, min, max and prod",
                     kilni_ir_op_name(call), (int)(reduction->count < 32 ? reduction->count : 32),
                     reduction->v.text);
}

kiln_status kiln_shape_collective_sync(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                       kiln_error *err)
{
    (void)err;
    outputs[0].rank = call->inputs[0].rank;
    memcpy(outputs[0].dims, call->inputs[0].dims, sizeof(outputs[0].dims));
    return KILN_STATUS_OK;
}
