// SPDX-License-Identifier: MIT OR Apache-2.0
// Schemes of quantised tensors, where their parts lie, and so how many bytes any tensor has. A
// scheme is one number, so that descriptions stay small: bits 0 to 7 the dtype of the scales, bit 8
// the global scale, four bits for each axis from bit 32 on: 0 the whole axis, n a block of 2^(n -
// 1).
#include "ir_quant.h"
#include "tensor_internal.h"

enum { GLOBAL_BIT = 8, BLOCKS_SHIFT = 32, BLOCK_BITS = 4, LARGEST_LOG2 = 14 };

static uint64_t block_code(int64_t length)
{
    uint64_t code = 1;
    while (code <= LARGEST_LOG2 && (int64_t)1 << (code - 1) != length) {
        code++;
    }
    return (int64_t)1 << (code - 1) == length ? code : 0;
}

uint64_t kiln_scheme_make(kiln_dtype scale, bool global, const int64_t *blocks, size_t n_blocks)
{
    if ((scale != KILN_DTYPE_F32 && scale != KILN_DTYPE_F16 && scale != KILN_DTYPE_BF16) ||
        n_blocks > KILN_MAX_RANK) {
        return 0;
    }
    uint64_t scheme = (uint64_t)scale | (uint64_t)global << GLOBAL_BIT;
    for (size_t i = 0; i < n_blocks; i++) {
        uint64_t code = blocks[i] == 0 ? 0 : block_code(blocks[i]);
        if (blocks[i] != 0 && code == 0) {
            return 0;
        }
        scheme |= code << (BLOCKS_SHIFT + BLOCK_BITS * i);
    }
    return scheme;
}

kiln_dtype kiln_scheme_scale(uint64_t scheme)
{
    return (kiln_dtype)(scheme & 0xFFu);
}

bool kiln_scheme_has_global(uint64_t scheme)
{
    return (scheme >> GLOBAL_BIT & 1u) != 0;
}

int64_t kiln_scheme_block(uint64_t scheme, size_t axis)
{
    uint64_t code = scheme >> (BLOCKS_SHIFT + BLOCK_BITS * axis) & 15u;
    return code == 0 ? 0 : (int64_t)1 << (code - 1);
}

uint32_t kiln_quant_bits(kiln_dtype dtype)
{
    switch (dtype) {
    case KILN_DTYPE_Q8F:
    case KILN_DTYPE_Q8S:
        return 8;
    case KILN_DTYPE_Q4F:
    case KILN_DTYPE_Q4S:
        return 4;
    case KILN_DTYPE_Q2F:
    case KILN_DTYPE_Q2S:
        return 2;
    default:
        return 0;
    }
}

int32_t kiln_quant_highest(kiln_dtype dtype)
{
    uint32_t bits = kiln_quant_bits(dtype);
    return bits == 0 ? 0 : (int32_t)(1u << (bits - 1)) - 1;
}

int32_t kiln_quant_lowest(kiln_dtype dtype)
{
    bool full = dtype == KILN_DTYPE_Q8F || dtype == KILN_DTYPE_Q4F || dtype == KILN_DTYPE_Q2F;
    return -kiln_quant_highest(dtype) - (full ? 1 : 0);
}

/// What cannot be a scheme of this rank: an unknown scale, or bits that mean nothing.
static bool is_scheme(uint64_t scheme, uint32_t rank)
{
    int64_t blocks[KILN_MAX_RANK];
    for (uint32_t i = 0; i < KILN_MAX_RANK; i++) {
        blocks[i] = kiln_scheme_block(scheme, i);
        if (i >= rank && blocks[i] != 0) {
            return false;
        }
    }
    return scheme != 0 &&
           kiln_scheme_make(kiln_scheme_scale(scheme), kiln_scheme_has_global(scheme), blocks,
                            KILN_MAX_RANK) == scheme;
}

bool kiln_quant_layout_of(const kiln_tensor_desc *desc, kiln_quant_layout *out_layout)
{
    kiln_quant_layout l = {.scales = 1, .global_at = -1};
    uint32_t bits = kiln_quant_bits(desc->dtype);
    l.count = kiln_desc_count(desc);
    if (bits == 0 || l.count < 0 || desc->rank > KILN_MAX_RANK ||
        !is_scheme(desc->scheme, desc->rank)) {
        return false;
    }
    for (uint32_t i = 0; i < desc->rank; i++) {
        int64_t block = kiln_scheme_block(desc->scheme, i);
        l.blocks[i] = block == 0 ? 1 : desc->dims[i] / block + (desc->dims[i] % block != 0 ? 1 : 0);
        if (!kilni_ir_mul(l.scales, l.blocks[i], &l.scales)) {
            return false;
        }
    }
    int64_t per_word = 32 / (int64_t)bits;
    int64_t size = (int64_t)kiln_dtype_size(kiln_scheme_scale(desc->scheme));
    int64_t scale_bytes = 0;
    l.scales = l.count == 0 ? 0 : l.scales;
    l.words = l.count / per_word + (l.count % per_word != 0 ? 1 : 0);
    if (!kilni_ir_mul(l.words, 4, &l.scales_at) || !kilni_ir_mul(l.scales, size, &scale_bytes) ||
        !kilni_ir_add(l.scales_at, (scale_bytes + 3) / 4 * 4, &l.bytes)) {
        return false;
    }
    if (kiln_scheme_has_global(desc->scheme) && l.count > 0) {
        l.global_at = l.bytes;
        l.bytes += 4;
    }
    *out_layout = l;
    return true;
}

int64_t kiln_desc_bytes(const kiln_tensor_desc *desc)
{
    kiln_quant_layout layout;
    if (kiln_dtype_kind_of(desc->dtype) == KILN_KIND_QUANT) {
        return kiln_quant_layout_of(desc, &layout) ? layout.bytes : -1;
    }
    int64_t count = kiln_desc_count(desc);
    int64_t bytes = 0;
    if (count < 0 || !kilni_ir_mul(count, (int64_t)kiln_dtype_size(desc->dtype), &bytes)) {
        return -1;
    }
    return bytes;
}
