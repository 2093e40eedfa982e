// SPDX-License-Identifier: MIT OR Apache-2.0
// Parts of a store that values grow in. Decides how they are read and written: as views, by
// slice_assign.
#include "onnx_run.h"

typedef struct store_part { ///< of a store, from one length to another
    int64_t starts[KILN_MAX_RANK];
    int64_t ends[KILN_MAX_RANK];
    int64_t steps[KILN_MAX_RANK];
    uint32_t rank;
} store_part;

static store_part part_of(const kiln_tensor *store, uint32_t axis, int64_t start, int64_t end)
{
    store_part p = {.rank = (uint32_t)kiln_tensor_rank(store)};
    for (uint32_t i = 0; i < p.rank; i++) {
        p.starts[i] = i == axis ? start : 0;
        p.ends[i] = i == axis ? end : kiln_tensor_dims(store)[i];
        p.steps[i] = 1;
    }
    return p;
}

kiln_status kilni_onnx_growth_view(const kilni_onnx_growth *growth, int64_t length,
                                   kiln_tensor **out_tensor, kiln_error *err)
{
    const store_part p = part_of(growth->store, growth->axis, 0, length);
    return kiln_slice(growth->store, p.starts, p.rank, p.ends, p.rank, p.steps, p.rank, out_tensor,
                      err);
}

kiln_status kilni_onnx_growth_write(kilni_onnx_growth *growth, kiln_tensor *tensor, int64_t start,
                                    kiln_error *err)
{
    kiln_tensor *written = NULL;
    int64_t end = start + kiln_tensor_dims(tensor)[growth->axis];
    const store_part p = part_of(growth->store, growth->axis, start, end);
    kiln_status status = kiln_slice_assign(growth->store, tensor, p.starts, p.rank, p.ends, p.rank,
                                           p.steps, p.rank, &written, err);
    if (status == KILN_STATUS_OK) {
        kiln_release(growth->store);
        growth->store = written;
    }
    return status;
}
