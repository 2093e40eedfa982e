// SPDX-License-Identifier: MIT OR Apache-2.0
// The reference function of one operation on memory of the host, for what a backend cannot run.
// Checks that views stay inside their memory; what the operation means is the function's.
#include "ir_reference.h"
#include "reference_internal.h"

static kiln_status make_view(const kiln_op_record *record, const kiln_view *view,
                             const kiln_tensor_desc *desc, const kiln_host_memory *memory,
                             struct kiln_buffer *buffer, kiln_view *out_view, kiln_error *err)
{
    int64_t begin = 0;
    int64_t end = 0;
    *buffer = (struct kiln_buffer){.data = memory->data, .bytes = memory->bytes};
    *out_view = *view;
    out_view->buffer = buffer;
    if (kiln_desc_count(desc) == 0) {
        out_view->buffer = NULL;
        return KILN_STATUS_OK;
    }
    kiln_view_extent(out_view, &begin, &end);
    return begin >= 0 && end <= (int64_t)memory->bytes && memory->data != NULL
               ? KILN_STATUS_OK
               : kiln_fail(err, OUT_OF_RANGE, "%s: a view leaves its memory",
                           kilni_ir_op_name(record));
}

kiln_status kiln_ir_reference_run(const kiln_op_record *record, const kiln_view *inputs,
                                  const kiln_view *outputs, const kiln_host_memory *memory,
                                  kiln_error *err)
{
    struct kiln_buffer buffers[KILN_MAX_INPUTS + KILN_MAX_OUTPUTS];
    kiln_view views[KILN_MAX_INPUTS + KILN_MAX_OUTPUTS] = {{0}};
    unsigned n_inputs = record->n_inputs;
    for (unsigned i = 0; i < n_inputs + record->n_outputs; i++) {
        bool input = i < n_inputs;
        kiln_status status = make_view(record, input ? &inputs[i] : &outputs[i - n_inputs],
                                       input ? &record->inputs[i] : &record->outputs[i - n_inputs],
                                       &memory[i], &buffers[i], &views[i], err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    return kiln_op_info_of(record->op)->reference(record, views, views + n_inputs, err);
}
