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
    if ((b > 0 && a > INT64_MAX - b) || (b < 0 && a < INT64_MIN - b)) {
        return false;
    }
    *out_sum = a + b;
    return true;
}

bool kilni_ir_sub(int64_t a, int64_t b, int64_t *out_difference)
{
    if ((b < 0 && a > INT64_MAX + b) || (b > 0 && a < INT64_MIN + b)) {
        return false;
    }
    *out_difference = a - b;
    return true;
}

static uint64_t magnitude(int64_t value)
{
    return value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
}

bool kilni_ir_mul(int64_t a, int64_t b, int64_t *out_product)
{
    uint64_t size_a = magnitude(a);
    uint64_t size_b = magnitude(b);
    bool negative = (a < 0) != (b < 0);
    uint64_t limit = (uint64_t)INT64_MAX + (negative ? 1 : 0);
    bool small = (size_a | size_b) >> 31 == 0; // the usual case needs no division
    if (!small && size_b != 0 && size_a > limit / size_b) {
        return false;
    }
    uint64_t product = size_a * size_b;
    *out_product = negative && product != 0 ? -(int64_t)(product - 1) - 1 : (int64_t)product;
    return true;
}

int64_t kiln_desc_count(const kiln_tensor_desc *desc)
{
    int64_t count = 1;
    bool empty = false;
    for (unsigned i = 0; i < desc->rank; i++) {
        if (desc->dims[i] < 0) {
            return -1;
        }
        empty = empty || desc->dims[i] == 0;
    }
    for (unsigned i = 0; i < desc->rank && !empty; i++) {
        if (!kilni_ir_mul(count, desc->dims[i], &count)) {
            return -1;
        }
    }
    return empty ? 0 : count;
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
