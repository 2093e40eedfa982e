// SPDX-License-Identifier: MIT OR Apache-2.0
// Lays tensors out with offsets, gaps, reversed and repeated axes. Has its own loop over indices,
// so that a mistake in a backend's is not repeated here.
#include "layout.h"

#include <stdlib.h>
#include <string.h>

static void choose_strides(layout_kind kind, kiln_view *view)
{
    int64_t stride = kind == LAYOUT_PADDED ? 2 : 1;
    for (uint32_t i = 0; i < view->rank; i++) {
        uint32_t axis = kind == LAYOUT_FLIPPED ? i : view->rank - 1 - i;
        int64_t length = view->dims[axis] > 0 ? view->dims[axis] : 1;
        view->strides[axis] = stride;
        stride *= kind == LAYOUT_PADDED ? length + 1 : length;
    }
    for (uint32_t i = 0; i < view->rank; i++) {
        if (kind == LAYOUT_FLIPPED) {
            view->strides[i] = -view->strides[i];
        }
    }
}

static void repeat_an_axis(kiln_view *view)
{
    for (uint32_t i = 0; i < view->rank; i++) {
        if (view->dims[i] > 1) {
            view->strides[i] = 0;
            return;
        }
    }
}

static bool next_index(const kiln_view *view, int64_t *index)
{
    for (uint32_t i = view->rank; i-- > 0;) {
        if (++index[i] < view->dims[i]) {
            return true;
        }
        index[i] = 0;
    }
    return false;
}

static int64_t byte_of(const kiln_view *view, const int64_t *index)
{
    int64_t at = 0;
    for (uint32_t i = 0; i < view->rank; i++) {
        at += index[i] * view->strides[i];
    }
    return view->offset_bytes + at * (int64_t)kiln_dtype_size(view->dtype);
}

/* First the elements that have a place of their own, then what the view shows of them. */
static void place_elements(const kiln_view *view, const unsigned char *data, int64_t count,
                           unsigned char *memory, unsigned char *dense)
{
    size_t size = kiln_dtype_size(view->dtype);
    for (int pass = 0; pass < 2; pass++) {
        int64_t index[KILN_MAX_RANK] = {0};
        for (int64_t n = 0; n < count; n++) {
            bool first = true;
            for (uint32_t i = 0; i < view->rank; i++) {
                first = first && (view->strides[i] != 0 || index[i] == 0);
            }
            unsigned char *element = memory + byte_of(view, index);
            if (pass == 0 && first) {
                memcpy(element, data + (size_t)n * size, size);
            } else if (pass == 1) {
                memcpy(dense + (size_t)n * size, element, size);
            }
            next_index(view, index);
        }
    }
}

bool layout_make(layout_kind kind, const kiln_tensor_desc *desc, const void *data,
                 kiln_view *out_view, void **out_memory, size_t *out_bytes, void **out_dense)
{
    int64_t count = kiln_desc_count(desc);
    size_t size = kiln_dtype_size(desc->dtype);
    kiln_view view = kiln_view_dense(desc, NULL);
    if (kiln_dtype_kind_of(desc->dtype) == KILN_KIND_QUANT) { // always dense
        *out_bytes = (size_t)kiln_desc_bytes(desc);
        *out_memory = malloc(*out_bytes + 1);
        *out_dense = malloc(*out_bytes + 1);
        if (*out_memory == NULL || *out_dense == NULL) {
            free(*out_memory);
            free(*out_dense);
            return false;
        }
        memcpy(*out_memory, data, *out_bytes);
        memcpy(*out_dense, data, *out_bytes);
        *out_view = view;
        return true;
    }
    choose_strides(kind, &view);
    if (kind == LAYOUT_EXPANDED) {
        repeat_an_axis(&view);
    }
    int64_t begin = 0;
    int64_t end = 0;
    kiln_view_extent(&view, &begin, &end);
    view.offset_bytes = -begin + (kind == LAYOUT_DENSE ? 0 : 3 * (int64_t)size);
    *out_bytes = (size_t)(view.offset_bytes + end) + (kind == LAYOUT_DENSE ? 0 : size);
    *out_memory = malloc(*out_bytes > 0 ? *out_bytes : 1);
    *out_dense = malloc(count > 0 ? (size_t)count * size : 1);
    if (*out_memory == NULL || *out_dense == NULL) {
        free(*out_memory);
        free(*out_dense);
        return false;
    }
    memset(*out_memory, 1, *out_bytes);
    place_elements(&view, data, count, *out_memory, *out_dense);
    *out_view = view;
    return true;
}
