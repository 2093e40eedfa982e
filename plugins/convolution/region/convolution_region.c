// SPDX-License-Identifier: MIT OR Apache-2.0
// The region: the operations that have joined, and what they cost. What an operation is to it, its
// form says.
#include "convolution_nhwc.h"

enum {
    LEAST_CHANNELS = 32,
    LEAST_TILES = 32, ///< to use each of its weights for
    MOST_SPREAD = 512, ///< terms of one sum
    TURN_COST = 5 ///< passes over memory that it takes to convert an image
};

void cv_region_init(cv_region *region)
{
    memset(region, 0, offsetof(cv_region, ops));
}

void cv_region_copy(cv_region *to, const cv_region *from)
{
    memcpy(to, from, offsetof(cv_region, ops));
    memcpy(to->ops, from->ops, from->n_ops * sizeof(*from->ops));
    memcpy(to->values, from->values, from->n_values * sizeof(*from->values));
}

uint32_t cv_is_product(cv_kind kind)
{
    return kind == CV_CONV || kind == CV_DEPTHWISE || kind == CV_GROUPED || kind == CV_TURNED;
}

uint32_t cv_op_spreads(const cv_region *region, const cv_op *op)
{
    int32_t inputs = region->values[op->inputs[0]].channels / op->groups;
    int32_t taps = op->window.lengths[0] * op->window.lengths[1];
    return inputs == region->values[op->result].channels / op->groups && CV_LANES % inputs == 0 &&
           inputs > 1 && inputs * taps <= MOST_SPREAD;
}

uint32_t cv_op_suits_winograd(const cv_region *region, const cv_op *op, const cv_device *device)
{
    const cv_window *w = &op->window;
    const cv_value *out = &region->values[op->result];
    uint32_t suits = op->kind == CV_CONV && op->groups == 1 && device->form->winograd &&
                     (out->channels + CV_LANES - 1) / CV_LANES % 2 == 0 &&
                     region->values[op->inputs[0]].channels >= LEAST_CHANNELS &&
                     (out->height + 1) / 2 * ((out->width + 1) / 2) >= LEAST_TILES;
    for (uint32_t i = 0; i < 2; i++) {
        suits &= w->lengths[i] == 3 && w->strides[i] == 1 && w->dilations[i] == 1;
    }
    return suits;
}

uint32_t cv_region_gives(const cv_region *region, uint32_t value)
{
    return region->values[value].op != CV_NONE && !region->values[value].dropped;
}

uint32_t cv_region_results(const cv_region *region)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < region->n_ops; i++) {
        count += cv_region_gives(region, region->ops[i].result);
    }
    return count;
}

/// Images of i32 stay inside.
static uint32_t gives_others(const cv_region *region)
{
    for (uint32_t i = 0; i < region->n_ops; i++) {
        uint32_t result = region->ops[i].result;
        const cv_value *v = &region->values[result];
        if (cv_region_gives(region, result) && v->is_image && v->dtype == KF_DTYPE_I32) {
            return 1;
        }
    }
    return 0;
}

uint32_t cv_region_is_ready(const cv_region *region)
{
    return region->n_products > 0 && cv_region_results(region) > 0 && !gives_others(region) &&
           cv_region_is_passed(region);
}

// ---- what an operation costs ----

/// Of whole blocks: channels that fill the last one up are computed, written and read like others.
static uint64_t bytes_ps(const cv_region *region, const cv_device *device, uint32_t value)
{
    const cv_value *v = &region->values[value];
    uint64_t channels = ((uint64_t)v->channels + CV_LANES - 1) / CV_LANES * CV_LANES;
    uint64_t bytes =
        channels * (uint32_t)v->height * (uint32_t)v->width * (uint32_t)cv_value_bytes(device, v);
    return bytes * (uint64_t)device->cost.ps_per_kib / 1024;
}

static uint32_t is_read(const cv_region *region, uint32_t value)
{
    uint32_t reads = 0;
    for (uint32_t i = 0; i < region->n_ops; i++) {
        reads |= cv_op_reads(&region->ops[i], value);
    }
    return reads;
}

uint64_t cv_region_ps(const cv_region *region, const cv_device *device)
{
    uint64_t ps = region->ps;
    for (uint32_t i = 0; i < region->n_values; i++) {
        const cv_value *v = &region->values[i];
        uint32_t outside = v->is_image && v->op == CV_NONE;
        if (outside || cv_region_gives(region, i)) {
            ps += TURN_COST * bytes_ps(region, device, i);
        }
        if (!outside && cv_region_gives(region, i) && is_read(region, i)) {
            ps += 3 * bytes_ps(region, device, i); // its launch ends there: written and read again
        }
    }
    return ps;
}

/// Multiplications for each result and element of the window: where groups do not fill blocks, a
/// block is computed for each group that it has channels of, or its image is spread.
static uint64_t products_each(const cv_region *region, const cv_op *op)
{
    uint32_t inputs = (uint32_t)(region->values[op->inputs[0]].channels / op->groups);
    uint32_t outputs = (uint32_t)(region->values[op->result].channels / op->groups);
    if (op->kind == CV_CONV || op->kind == CV_TURNED) {
        return inputs;
    }
    return cv_op_spreads(region, op) ? 2 * inputs : (uint64_t)inputs * (CV_LANES / outputs + 2);
}

/// Is the product one of bytes by bytes?
static uint32_t is_whole(const cv_reader *r)
{
    cv_scaled a, b;
    return cv_scaled_of(r->region, r->made.inputs[0], &a) &&
           cv_scaled_of(r->region, r->made.inputs[1], &b);
}

/// Products of bytes in the time of one of f32.
static uint64_t whole_rate(const cv_device *device)
{
    return (device->features & KF_FEATURE_VNNI) != 0 ? 4 : 1;
}

static void add_cost(const cv_reader *r)
{
    const cv_op *op = &r->made;
    cv_region *region = r->region;
    const cv_value *result = &region->values[op->result];
    uint64_t channels = ((uint64_t)result->channels + CV_LANES - 1) / CV_LANES * CV_LANES;
    const cv_value *tapped = op->kind == CV_TURNED ? &region->values[op->inputs[0]] : result;
    uint64_t places = channels * (uint32_t)tapped->height * (uint32_t)tapped->width *
                      op->window.lengths[0] * op->window.lengths[1];
    if (op->kind == CV_DERIVE || cv_op_scales(region, result->op)) {
        region->n_aside++; // done while packing, and by whom reads the result
        return;
    }
    region->n_passes += op->kind != CV_MAP && op->kind != CV_NORM;
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        if (!region->values[op->inputs[i]].is_image) {
            region->n_packs++;
            break;
        }
    }
    if (op->kind == CV_CONV || op->kind == CV_GROUPED || op->kind == CV_TURNED) {
        uint64_t flops = 2 * places * products_each(region, op);
        uint64_t rate = is_whole(r) ? whole_rate(r->device) : 1;
        if (!is_whole(r) && cv_op_suits_winograd(region, op, r->device)) {
            flops = flops * 2 / 3; // as measured: 36 products are 16, and there is more to add
        }
        uint64_t percent = r->device->form->percent[cv_nhwc_on_tensor(r->device)];
        region->ps +=
            flops * (uint64_t)r->device->cost.ps_per_kflop / 1024 * 100 / (percent * rate);
    } else if (op->kind == CV_CONCAT) {
        region->ps += 2 * bytes_ps(region, r->device, op->result);
    } else if (op->kind == CV_DEPTHWISE || op->kind == CV_POOL || op->kind == CV_MEAN) {
        region->ps +=
            bytes_ps(region, r->device, op->inputs[0]) + bytes_ps(region, r->device, op->result);
    } else {
        uint64_t cost = op->kind == CV_MAP ? op->row->cost : 2; // most go with what is before them
        region->ps += bytes_ps(region, r->device, op->result) * (4 + cost) / 16;
    }
}

static uint32_t add_op(cv_reader *r)
{
    cv_add_op(r);
    r->region->n_products += cv_is_product(r->made.kind);
    add_cost(r);
    return 1;
}

static uint32_t push(cv_reader *r)
{
    cv_region *region = r->region;
    const kf_op *op = r->op;
    if (op->kind == KF_OP_DROP) {
        uint32_t value = op->n_inputs == 1 ? cv_find(region, op->inputs[0]->id) : CV_NONE;
        if (value != CV_NONE) {
            region->values[value].dropped = 1;
        }
        return 1;
    }
    if (region->n_products == 0 && !r->device->form->leads(r)) {
        return cv_decline(r, KF_CODE_UNKNOWN_OP, "a region begins with a convolution");
    }
    uint32_t launches = 2 * (region->n_ops - region->n_aside) + region->n_packs + region->n_outside;
    if (region->n_ops == CV_MAX_OPS || region->n_values + 8 > CV_MAX_VALUES ||
        launches + 16 > CV_MAX_STEPS) {
        return cv_decline(r, KF_CODE_LIMIT, "the region is full");
    }
    return r->device->form->read(r) && (r->made.kind == 0 || add_op(r));
}

static const char *shown_name(const cv_op *op)
{
    static const char *const names[CV_TURNED + 1] = {
        [CV_CONV] = "conv",     [CV_DEPTHWISE] = "depthwise",  [CV_POOL] = "pool",
        [CV_MEAN] = "mean",     [CV_NORM] = "batch_norm",      [CV_GROUPED] = "grouped",
        [CV_CONCAT] = "concat", [CV_TURNED] = "conv_transpose"};
    return op->row != NULL ? op->row->name : names[op->kind];
}

void cv_region_push(cv_region *region, const cv_device *device, const kf_host *host,
                    const kf_block *block, const kf_op *op)
{
    cv_reader r = {.region = region, .device = device, .host = host, .block = block, .op = op};
    if (region->closed) {
        return;
    }
    if (!push(&r)) {
        region->closed = 1;
        return;
    }
    region->len++;
    if (r.made.kind != 0) {
        if (region->n_shown < 8) {
            region->shown[region->n_shown] = shown_name(&r.made);
        }
        region->n_shown++;
    }
}
