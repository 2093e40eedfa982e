// SPDX-License-Identifier: MIT OR Apache-2.0
// Reference meaning of the views, as copies into dense memory. The geometry is view.c's; only a
// reshape that strides cannot express has a loop of its own.
#include "ir_view_apply.h"
#include "reference_internal.h"

static kiln_status copy_view(const kiln_op_record *call, const kiln_view *inputs,
                             const kiln_view *outputs, kiln_error *err)
{
    kiln_view source;
    if (!kiln_view_apply(call, &inputs[0], &source)) {
        return kiln_fail(err, INTERNAL, "%s: the view cannot be expressed", kilni_ir_op_name(call));
    }
    kilni_ref_copy(&source, &outputs[0]);
    return KILN_STATUS_OK;
}

#define REFERENCE(name)                                                                            \
    kiln_status kiln_ref_##name(const kiln_op_record *call, const kiln_view *inputs,               \
                                const kiln_view *outputs, kiln_error *err)                         \
    {                                                                                              \
        return copy_view(call, inputs, outputs, err);                                              \
    }

REFERENCE(expand)
REFERENCE(permute)
REFERENCE(slice)
REFERENCE(flip)
REFERENCE(unfold)
REFERENCE(diagonal)

#undef REFERENCE

kiln_status kiln_ref_reshape(const kiln_op_record *call, const kiln_view *inputs,
                             const kiln_view *outputs, kiln_error *err)
{
    kilni_ref_walk from;
    kilni_ref_walk to;
    (void)call;
    (void)err;
    kilni_ref_walk_init(&from, inputs[0].dims, inputs[0].rank);
    kilni_ref_walk_add(&from, &inputs[0]);
    kilni_ref_walk_init(&to, outputs[0].dims, outputs[0].rank);
    kilni_ref_walk_add(&to, &outputs[0]);
    for (; !from.done && !to.done; kilni_ref_walk_next(&from), kilni_ref_walk_next(&to)) {
        kilni_ref_store(&outputs[0], to.at[0], kilni_ref_load(&inputs[0], from.at[0]));
    }
    return KILN_STATUS_OK;
}
