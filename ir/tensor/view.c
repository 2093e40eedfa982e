// SPDX-License-Identifier: MIT OR Apache-2.0
// Geometry of tensors in memory: dense views and extents. What operators of class VIEW make of a
// view is view_apply.c's.
#include "ir_view.h"

kiln_view kiln_view_dense(const kiln_tensor_desc *desc, kiln_buffer *buffer)
{
    kiln_view view = {.buffer = buffer, .dtype = desc->dtype, .rank = desc->rank};
    int64_t stride = 1;
    for (uint32_t i = desc->rank; i-- > 0;) {
        view.dims[i] = desc->dims[i];
        view.strides[i] = stride;
        stride *= desc->dims[i] > 0 ? desc->dims[i] : 1;
    }
    return view;
}

static bool is_empty(const kiln_view *view)
{
    for (uint32_t i = 0; i < view->rank; i++) {
        if (view->dims[i] == 0) {
            return true;
        }
    }
    return false;
}

bool kiln_view_is_contiguous(const kiln_view *view)
{
    int64_t stride = 1;
    if (is_empty(view)) {
        return true;
    }
    for (uint32_t i = view->rank; i-- > 0;) {
        if (view->dims[i] != 1 && view->strides[i] != stride) {
            return false;
        }
        stride *= view->dims[i];
    }
    return true;
}

bool kiln_view_is_turned(const kiln_view *view)
{
    if (view->rank < 2 || kiln_view_is_contiguous(view)) {
        return false;
    }
    kiln_view back = *view;
    uint32_t last = view->rank - 1u;
    back.dims[last] = view->dims[last - 1];
    back.dims[last - 1] = view->dims[last];
    back.strides[last] = view->strides[last - 1];
    back.strides[last - 1] = view->strides[last];
    return kiln_view_is_contiguous(&back);
}

bool kiln_view_is_dense_along(const kiln_view *view, uint32_t from_end)
{
    return from_end <= view->rank && view->dims[view->rank - from_end] != 1 &&
           view->strides[view->rank - from_end] == 1;
}

void kiln_view_extent(const kiln_view *view, int64_t *out_begin, int64_t *out_end)
{
    int64_t size = (int64_t)kiln_dtype_size(view->dtype);
    *out_begin = view->offset_bytes;
    *out_end = view->offset_bytes;
    if (is_empty(view)) {
        return;
    }
    for (uint32_t i = 0; i < view->rank; i++) {
        int64_t reach = (view->dims[i] - 1) * view->strides[i] * size;
        *(reach < 0 ? out_begin : out_end) += reach;
    }
    *out_end += size;
}
