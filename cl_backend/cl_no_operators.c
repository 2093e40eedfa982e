// SPDX-License-Identifier: MIT OR Apache-2.0
// In the place of ops/ in a library that runs bundles only: it has no operators and no device code
// of its own, and fills new tensors with zeros.

#include "cl_buffer.h"
#include "cl_error.h"
#include "cl_origin.h"
#include "cl_queue.h"
#include "cl_state.h"
#include "exec.h"

const uint8_t *kilni_cl_op_launches(void)
{
    return NULL;
}

bool kilni_cl_has_kernel(kiln_op op)
{
    (void)op;
    return false;
}

bool kilni_cl_kernel_pays(const kilni_cl_backend *backend, const kiln_op_record *record)
{
    (void)backend;
    (void)record;
    return false;
}

/// Nobody asks for anything but zeros (kiln_tensor_create).
static kiln_status fill_zeros(kilni_cl_backend *backend, const kiln_view *output, kiln_error *err)
{
    const unsigned char zero = 0;
    kilni_cl_buffer *buffer = kilni_cl_buffer_of(output->buffer);
    cl_int code = CL_SUCCESS;
    cl_mem mem = kilni_cl_mem_of(backend, buffer, &code);
    if (code == CL_SUCCESS) {
        code = clEnqueueFillBuffer(backend->queue, mem, &zero, sizeof(zero), 0, buffer->bytes, 0,
                                   NULL, NULL);
    }
    return code == CL_SUCCESS ? kilni_cl_queued(backend, err)
                              : kilni_cl_fail(backend, err, code, "zeros");
}

kiln_status kilni_cl_execute(kilni_cl_backend *backend, const kiln_op_record *record,
                             const kiln_view *inputs, const kiln_view *outputs, kiln_error *err)
{
    (void)inputs;
    return record->op == KILN_OP_FULL
               ? fill_zeros(backend, &outputs[0], err)
               : kiln_fail(err, UNIMPLEMENTED, "this library runs bundles and has no operators");
}

bool kilni_cl_execute_joined(kilni_cl_backend *backend, const kiln_joined_op *ops, uint32_t n_ops)
{
    (void)backend;
    (void)ops;
    (void)n_ops;
    return false;
}
