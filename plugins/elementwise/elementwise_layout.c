// SPDX-License-Identifier: MIT OR Apache-2.0
// Decides the shape of the kernel before its text is written: vector width, index width, which axes
// of the iteration space merge, which values are read and written, and the order of the kernel's
// parameters.
//
// Measured on PoCL (2 cores, AVX-512), relu(a*b+1)*0.5-b over 64 MiB f32 arrays against a copy
// kernel in bytes per second: one element per work-item 0.34, float4 0.78, float8 0.22, a plain
// loop per work-item 1.03 but 0.64 in place (the compiler cannot rule out overlap), explicit
// float16 in a loop per work-item 1.07 and 0.99 in place, the same with stores that bypass the
// cache 1.3 to 1.5. On an H200: one element 0.81, float4 1.03, grid-stride loops 0.98. So: block
// shape, vectors as wide as the unit; item shape, four elements. GELU computes for as long as it
// waits: one float4 of a work-item 0.90 there, two that are asked for together 0.97, 1.00 in groups
// of 128.
#include "elementwise_internal.h"

int ew_value_axis(const ew_block *block, const kf_chain_value *value, uint32_t axis)
{
    uint32_t index = (uint32_t)(value - block->chain.values);
    if (ew_gather_of(block, index) != KF_NONE) {
        return ew_gather_axis(block, index, axis);
    }
    int shifted = (int)axis - (int)(block->chain.values[block->space].rank - value->rank);
    return shifted >= 0 && value->symbols[shifted] != 0 ? shifted : -1;
}

static void collect(ew_layout *layout, const ew_block *block)
{
    for (uint32_t i = 0; i < block->chain.n_values; i++) {
        const kf_chain_value *value = &block->chain.values[i];
        if (!value->computed) {
            layout->inputs[layout->n_inputs++] = (uint16_t)i;
        } else if (kf_chain_is_output(value)) {
            layout->outputs[layout->n_outputs++] = (uint16_t)i;
        } else {
            continue;
        }
        layout->wide = layout->wide || !value->fits_i32;
    }
}

/// Can `axis` join the group that ends at axis `last`, for every value that is read?
static uint32_t joins(const ew_layout *layout, const ew_block *block, uint32_t last, uint32_t axis)
{
    for (uint32_t i = 0; i < layout->n_inputs; i++) {
        const kf_chain_value *value = &block->chain.values[layout->inputs[i]];
        int before = ew_value_axis(block, value, last), now = ew_value_axis(block, value, axis);
        if ((before >= 0) != (now >= 0) || (now >= 0 && !value->contiguous)) {
            return 0;
        }
    }
    return 1;
}

static void merge_axes(ew_layout *layout, const ew_block *block)
{
    const kf_chain_value *space = &block->chain.values[block->space];
    int last = -1;
    for (uint32_t axis = 0; axis < space->rank; axis++) {
        if (space->symbols[axis] == 0) {
            continue;
        }
        if (last >= 0 && joins(layout, block, (uint32_t)last, axis)) {
            ew_group *group = &layout->groups[layout->n_groups - 1];
            group->n_axes = (uint8_t)(axis - group->first_axis + 1);
        } else {
            layout->groups[layout->n_groups].first_axis = (uint8_t)axis;
            layout->groups[layout->n_groups].n_axes = 1;
            layout->n_groups++;
        }
        last = (int)axis;
    }
}

ew_step ew_layout_step(const ew_layout *layout, const ew_block *block, const kf_chain_value *value,
                       uint32_t group)
{
    const ew_group *g = &layout->groups[group];
    for (uint32_t axis = g->first_axis; axis < (uint32_t)(g->first_axis + g->n_axes); axis++) {
        if (ew_value_axis(block, value, axis) >= 0) {
            return value->contiguous ? EW_STEP_DENSE : EW_STEP_STRIDED;
        }
    }
    return EW_STEP_REPEAT;
}

static uint32_t is_linear(const ew_layout *layout, const ew_block *block)
{
    if (layout->n_groups > 1 || block->n_gathers > 0) {
        return 0;
    }
    for (uint32_t i = 0; i < layout->n_inputs && layout->n_groups == 1; i++) {
        if (ew_layout_step(layout, block, &block->chain.values[layout->inputs[i]], 0) ==
            EW_STEP_STRIDED) {
            return 0;
        }
    }
    return 1;
}

static uint32_t choose_width(const ew_block *block, const kf_chain_device *device)
{
    uint32_t widest = 1;
    for (uint32_t i = 0; i < block->chain.n_values; i++) {
        uint32_t bytes = kf_dtype_of(block->chain.values[i].dtype).bytes;
        widest = bytes > widest ? bytes : widest;
    }
    if (!device->block_shape) {
        return widest <= 2 ? 8 : 4;
    }
    return kf_chain_width(device);
}

/// While one vector of a long chain is computed, another should be on its way.
static uint32_t takes_pairs(const ew_layout *layout, const ew_block *block,
                            const kf_chain_device *device)
{
    enum { LONG_COST = 16, FEW_INPUTS = 4 }; // such as one exp; more would not stay in registers
    return !device->block_shape && layout->linear && layout->n_groups == 1 && block->n_draws == 0 &&
           block->chain.flops >= LONG_COST && layout->n_inputs <= FEW_INPUTS;
}

/// From how many elements on a store should bypass the cache: when inputs and outputs together do
/// not fit.
static uint32_t stream_from(const ew_layout *layout, const ew_block *block,
                            const kf_chain_device *device)
{
    uint64_t bytes = 0, limit;
    if (!device->is_cpu || !layout->linear) {
        return 0;
    }
    for (uint32_t i = 0; i < layout->n_inputs; i++) {
        bytes += kf_dtype_of(block->chain.values[layout->inputs[i]].dtype).bytes;
    }
    for (uint32_t i = 0; i < layout->n_outputs; i++) {
        const kf_chain_value *value = &block->chain.values[layout->outputs[i]];
        uint32_t size = kf_dtype_of(value->dtype).bytes;
        if (device->mem_align < layout->width * size) { // results start their buffers
            return 0;
        }
        bytes += size;
    }
    limit = device->cache_bytes / (bytes == 0 ? 1 : bytes);
    return limit > 0x7fffffffu ? 0x7fffffffu : (uint32_t)limit;
}

void ew_layout_plan(ew_layout *layout, const ew_block *block, const kf_chain_device *device)
{
    memset(layout, 0, sizeof(*layout));
    collect(layout, block);
    merge_axes(layout, block);
    layout->linear = is_linear(layout, block);
    layout->width = choose_width(block, device);
    layout->stream = stream_from(layout, block, device);
    layout->pairs = takes_pairs(layout, block, device);
    layout->per_lane = !layout->linear && !device->block_shape &&
                       block->chain.values[block->space].div_by % layout->width != 0;
}

/// The n-th of the strides that the kernel is given: of inputs that are not dense, along axes that
/// they have.
static uint32_t stride_at(const ew_block *block, const ew_layout *layout, uint32_t n, ew_param *out)
{
    for (uint32_t i = 0; i < layout->n_inputs; i++) {
        const kf_chain_value *value = &block->chain.values[layout->inputs[i]];
        for (uint32_t g = 0; g < layout->n_groups && !value->contiguous; g++) {
            if (ew_layout_step(layout, block, value, g) == EW_STEP_STRIDED && n-- == 0) {
                out->kind = EW_PARAM_STRIDE;
                out->index = i;
                out->axis = g;
                return 1;
            }
        }
    }
    out->axis = n; // what is left to count
    return 0;
}

uint32_t ew_param_at(const ew_block *block, const ew_layout *layout, uint32_t n, ew_param *out)
{
    memset(out, 0, sizeof(*out));
    out->index = n;
    if (n < layout->n_inputs) {
        out->kind = EW_PARAM_INPUT;
        return 1;
    }
    n -= layout->n_inputs;
    out->index = n;
    if (n < layout->n_outputs) {
        out->kind = EW_PARAM_OUTPUT;
        return 1;
    }
    n -= layout->n_outputs;
    for (uint32_t i = 0; i < layout->n_inputs; i++) {
        if (!block->chain.values[layout->inputs[i]].zero_offset && n-- == 0) {
            out->kind = EW_PARAM_OFFSET;
            out->index = i;
            return 1;
        }
    }
    if (stride_at(block, layout, n, out)) {
        return 1;
    }
    n = out->axis;
    if (n < 2 * block->n_gathers) {
        out->kind = n % 2 == 0 ? EW_PARAM_LENGTH : EW_PARAM_PACE;
        out->index = n / 2;
        return 1;
    }
    n -= 2 * block->n_gathers;
    for (uint32_t i = 0; i < block->chain.n_numbers; i++) {
        if (block->chain.numbers[i].is_scalar && n-- == 0) {
            out->kind = EW_PARAM_SCALAR;
            out->index = i;
            return 1;
        }
    }
    for (uint32_t g = 1; g < layout->n_groups; g++) {
        if (n-- == 0) {
            out->kind = EW_PARAM_EXTENT;
            out->index = g;
            return 1;
        }
    }
    out->kind = n == 0 ? EW_PARAM_COUNT : EW_PARAM_CHUNK;
    return n <= 1;
}
