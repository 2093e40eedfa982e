// SPDX-License-Identifier: MIT OR Apache-2.0
// Sizes and texts of tensor descriptions, and the checked arithmetic below them. A size that
// exceeds int64 is an answer here (-1 or false); turning it into an error with the operator's name
// is left to callers.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tensor_internal.h"

bool kilni_ir_add(int64_t a, int64_t b, int64_t *out_sum)
{
    return !__builtin_add_overflow(a, b, out_sum);
}

bool kilni_ir_sub(int64_t a, int64_t b, int64_t *out_difference)
{
    return !__builtin_sub_overflow(a, b, out_difference);
}

bool kilni_ir_mul(int64_t a, int64_t b, int64_t *out_product)
{
    return !__builtin_mul_overflow(a, b, out_product);
}

int64_t kiln_desc_count(const kiln_tensor_desc *desc)
{
    int64_t count = 1;
    bool fits = true;
    bool empty = false;
    for (unsigned i = 0; i < desc->rank; i++) {
        if (desc->dims[i] < 0) {
            return -1;
        }
        empty = empty || desc->dims[i] == 0;
        fits = fits && kilni_ir_mul(count, desc->dims[i], &count);
    }
    if (empty) {
        return 0;
    }
    return fits ? count : -1;
}

bool kiln_desc_same_shape(const kiln_tensor_desc *a, const kiln_tensor_desc *b)
{
    return a->rank == b->rank &&
           (a->rank == 0 || memcmp(a->dims, b->dims, a->rank * sizeof(a->dims[0])) == 0);
}

const char *kilni_ir_dims_text(const int64_t *dims, uint32_t rank,
                               char out_text[KILNI_IR_SHAPE_TEXT])
{
    size_t used = 1;
    out_text[0] = '[';
    for (uint32_t i = 0; i < rank; i++) {
        char number[24];
        int length = snprintf(number, sizeof(number), "%s%" PRId64, i > 0 ? "," : "", dims[i]);
        if (used + (size_t)length + 4 > KILNI_IR_SHAPE_TEXT) {
            memcpy(out_text + used, "..", 2);
            used += 2;
            break;
        }
        memcpy(out_text + used, number, (size_t)length);
        used += (size_t)length;
    }
    out_text[used] = ']';
    out_text[used + 1] = '\0';
    return out_text;
}

const char *kilni_ir_desc_text(const kiln_tensor_desc *desc, char out_text[KILNI_IR_SHAPE_TEXT])
{
    uint32_t rank = desc->rank <= KILN_MAX_RANK ? desc->rank : KILN_MAX_RANK;
    return kilni_ir_dims_text(desc->dims, rank, out_text);
}
