// SPDX-License-Identifier: MIT OR Apache-2.0
// Gradients of operators that plugins bring: another operator of the same plugin. Decides what that
// is given and what its results are.
#include "ir_custom.h"
#include "tape_internal.h"

static const kiln_custom_op *find_operator(const kiln_tape *tape, const char *name,
                                           const kiln_attr *attrs)
{
    const kiln_custom_op *op = NULL;
    return kiln_custom_find(tape->device, name, (uint32_t)attrs[1].v.i, &op, NULL) == KILN_STATUS_OK
               ? op
               : NULL;
}

const kiln_custom_op *kilni_tape_plugin_gradient(const kiln_tape *tape, kiln_op op,
                                                 const kiln_attr *attrs)
{
    const kiln_custom_op *own =
        op == KILN_OP_CUSTOM ? find_operator(tape, attrs[0].v.text, attrs) : NULL;
    return own != NULL && own->gradient != NULL ? find_operator(tape, own->gradient, attrs) : NULL;
}

static bool is_float(const kiln_tensor_desc *desc)
{
    return kiln_dtype_kind_of(desc->dtype) == KILN_KIND_FLOAT;
}

/// Inputs, outputs, gradients of outputs of floats; those that did not arrive are made, and are the
/// caller's in `out_made`.
static kiln_status gather_operands(const kiln_tape *tape, const tape_entry *entry,
                                   kiln_tensor *const *grads, kiln_tensor **out_inputs,
                                   size_t *out_count, kiln_tensor **out_made, kiln_error *err)
{
    const kiln_op_record *record = &entry->record;
    size_t n_kept = (size_t)record->n_inputs + record->n_outputs;
    kiln_status status = KILN_STATUS_OK;
    *out_count = 0;
    if (n_kept + record->n_outputs > KILN_MAX_INPUTS) {
        return kiln_fail(err, UNIMPLEMENTED, "%s: a gradient of more than %d operands",
                         record->attrs[0].v.text, KILN_MAX_INPUTS);
    }
    for (size_t i = 0; i < n_kept; i++) {
        out_inputs[(*out_count)++] = entry->kept[i];
    }
    for (unsigned i = 0; i < record->n_outputs && status == KILN_STATUS_OK; i++) {
        const kiln_tensor_desc *desc = &record->outputs[i];
        if (is_float(desc) && grads[i] == NULL) {
            status = kiln_full(tape->device, desc->dims, desc->rank, desc->dtype, kiln_f64(0),
                               &out_made[i], err);
        }
        if (is_float(desc)) {
            out_inputs[(*out_count)++] = grads[i] != NULL ? grads[i] : out_made[i];
        }
    }
    return status;
}

/// The results are gradients of the inputs of floats, in their order.
static kiln_status hand_out(const tape_entry *entry, const kiln_custom_op *gradient,
                            kiln_tensor **made, kiln_tensor **out_given, kiln_error *err)
{
    unsigned n = 0;
    for (size_t i = 0; i < entry->record.n_inputs; i++) {
        if (is_float(&entry->record.inputs[i]) && n < gradient->n_outputs) {
            out_given[i] = made[n];
            made[n++] = NULL;
        } else if (is_float(&entry->record.inputs[i])) {
            n = gradient->n_outputs + 1;
        }
    }
    return n == gradient->n_outputs
               ? KILN_STATUS_OK
               : kiln_fail(err, INVALID_ARGUMENT,
                           "%s gives %u gradients, not one for each input of floats",
                           gradient->name, gradient->n_outputs);
}

kiln_status kilni_tape_plugin_apply(const kiln_tape *tape, const tape_entry *entry,
                                    kiln_tensor *const *grads, kiln_tensor **out_given,
                                    kiln_error *err)
{
    const kiln_attr *own = entry->record.attrs;
    const kiln_custom_op *gradient = kilni_tape_plugin_gradient(tape, entry->record.op, own);
    const kiln_attr attrs[] = {kilni_attr_text(gradient->name), own[1], own[2]};
    kiln_tensor *inputs[KILN_MAX_INPUTS] = {NULL};
    kiln_tensor *zeros[KILN_MAX_OUTPUTS] = {NULL};
    kiln_tensor *made[KILN_MAX_OUTPUTS] = {NULL};
    size_t n_inputs = 0;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, gather_operands(tape, entry, grads, inputs, &n_inputs, zeros, err));
    KILN_TRY(out, status,
             kiln_record(tape->device, KILN_OP_CUSTOM, inputs, n_inputs, attrs, 3, made, err));
    KILN_TRY(out, status, hand_out(entry, gradient, made, out_given, err));
out:
    for (int i = 0; i < KILN_MAX_OUTPUTS; i++) {
        kiln_release(zeros[i]);
        kiln_release(made[i]);
    }
    return status;
}
