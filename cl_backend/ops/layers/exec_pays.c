// SPDX-License-Identifier: MIT OR Apache-2.0
// Which calls of operators with a decomposition are left to their kernels: where the kernel takes
// the call and beats what the operator stands for.
#include "cl_state.h"
#include "exec.h"
#include "recurrent.h"

enum { LONG_ROW = 1 << 16 };

/// Few long rows are better off as reductions over the whole device.
static bool norm_pays(const kilni_cl_backend *backend, const kiln_op_record *record)
{
    const kiln_tensor_desc *x = &record->inputs[0];
    int64_t axis = kiln_op_attr_i64(record, KILN_KEY_AXIS);
    int64_t count = 1;
    for (int64_t i = 0; i < (axis < 0 ? axis + x->rank : axis); i++) {
        count *= x->dims[i];
    }
    return count == 0 || 2 * count >= (int64_t)backend->info.compute_units ||
           kiln_desc_count(x) / count < LONG_ROW;
}

static bool usual_activations(const kilni_recurrent *r)
{
    for (uint32_t d = 0; d < r->directions; d++) {
        for (unsigned i = 0; i < r->n_activations; i++) {
            if (r->activations[d][i].kind != (i == 0 ? KILNI_SIGMOID : KILNI_TANH)) {
                return false;
            }
        }
    }
    return true;
}

/// Every other call is recorded step by step.
static bool recurrent_pays(const kilni_cl_backend *backend, const kiln_op_record *record)
{
    kilni_recurrent r;
    return !kiln_device_has_groups(&backend->info) && record->inputs[0].dtype == KILN_DTYPE_F32 &&
           kilni_ir_recurrent_of(record, &r, NULL) == KILN_STATUS_OK && usual_activations(&r) &&
           !(r.clip > 0) && !r.input_forget && r.peephole == 0 && r.lengths == 0;
}

bool kilni_cl_kernel_pays(const kilni_cl_backend *backend, const kiln_op_record *record)
{
    switch (record->op) {
    case KILN_OP_LAYER_NORM:
    case KILN_OP_RMS_NORM:
        return norm_pays(backend, record);
    case KILN_OP_LSTM:
    case KILN_OP_GRU:
        return recurrent_pays(backend, record);
    default:
        return true;
    }
}
