// SPDX-License-Identifier: MIT OR Apache-2.0
// Which operations join a region: convolutions of images with constant weights, and what lies
// between them: batch norms, elementwise operators, pooling, means over an image. Everything but
// the number of images is asked for, so a plan belongs to one size of image.
#include "convolution_internal.h"

enum {
    MOST_TAPS = 16,
    MOST_PADDING = 64,
    SHARE_PERCENT = 60, ///< of the device's rate that convolutions reach
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

uint32_t cv_op_reads(const cv_op *op, uint32_t value)
{
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        if (op->inputs[i] == value) {
            return 1;
        }
    }
    return 0;
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

uint32_t cv_region_is_ready(const cv_region *region)
{
    return region->n_products > 0 && cv_region_results(region) > 0;
}

// ---- reading an operation ----

typedef struct reader { ///< of one operation
    cv_region *region;
    const cv_device *device;
    const kf_host *host;
    const kf_block *block;
    const kf_op *op;
    cv_op made;
    cv_value result;
} reader;

static uint32_t decline(const reader *r, uint32_t code, const char *why)
{
    return kf_decline(r->host, code, r->op->position, "%s", why);
}

static int32_t extent(const reader *r, const kf_dim *dim)
{
    int64_t value = 0;
    if ((dim->flags & KF_DIM_VALUE) != 0) {
        value = dim->value;
    } else if (r->block->dim_value(r->block, dim->symbol, &value) != KF_OK) {
        return 0;
    }
    return value > 0 && value < INT32_MAX / 4 ? (int32_t)value : 0;
}

static uint32_t find(const cv_region *region, uint32_t id)
{
    for (uint32_t i = region->n_values; i-- > 0;) {
        if (region->values[i].id == id) {
            return i;
        }
    }
    return CV_NONE;
}

/// The same batch as the region's, or the first.
static uint32_t read_image(const reader *r, const kf_tensor *t, cv_value *out)
{
    if (t->rank != 4 || t->dtype != KF_DTYPE_F32) {
        return 0;
    }
    *out = (cv_value){.id = t->id,
                      .batch = t->dims[0].symbol,
                      .channels = extent(r, &t->dims[1]),
                      .height = extent(r, &t->dims[2]),
                      .width = extent(r, &t->dims[3]),
                      .op = CV_NONE,
                      .is_image = 1};
    int64_t plane = (int64_t)(out->height + MOST_PADDING) * (out->width + MOST_PADDING);
    return out->channels > 0 && out->height > 0 && out->width > 0 &&
           plane * (out->channels + CV_LANES) < INT32_MAX &&
           (r->region->n_ops == 0 || out->batch == r->region->batch);
}

static uint32_t add_value(cv_region *region, const cv_value *value)
{
    region->n_outside += value->is_image && value->op == CV_NONE;
    region->values[region->n_values] = *value;
    return region->n_values++;
}

/// The image that input `index` is; CV_NONE: it is none that this region can read.
static uint32_t image_input(reader *r, uint32_t index)
{
    const kf_tensor *t = r->op->inputs[index];
    cv_value image;
    uint32_t known = find(r->region, t->id);
    if (known != CV_NONE) {
        return r->region->values[known].is_image ? known : CV_NONE;
    }
    return read_image(r, t, &image) && (t->facts & KF_FACT_CONTIGUOUS) != 0
               ? add_value(r->region, &image)
               : CV_NONE;
}

/// A constant from outside that lies dense.
static uint32_t constant_input(reader *r, uint32_t index)
{
    const kf_tensor *t = r->op->inputs[index];
    uint32_t wanted = KF_TENSOR_CONST | KF_TENSOR_EXTERNAL;
    uint32_t known = find(r->region, t->id);
    if ((t->flags & wanted) != wanted || t->dtype != KF_DTYPE_F32 ||
        (t->facts & KF_FACT_CONTIGUOUS) == 0) {
        return CV_NONE;
    }
    if (known != CV_NONE) {
        return r->region->values[known].is_image ? CV_NONE : known;
    }
    cv_value constant = {.id = t->id, .op = CV_NONE, .channels = 1, .height = 1, .width = 1};
    for (uint32_t i = 0; i < t->rank; i++) {
        constant.channels *= extent(r, &t->dims[i]);
    }
    return add_value(r->region, &constant);
}

/// A constant with a number for each channel of an image, or one for all.
static uint32_t vector_input(reader *r, uint32_t index, uint32_t axis_from_end, int32_t channels)
{
    const kf_tensor *t = r->op->inputs[index];
    for (uint32_t i = 0; i < t->rank; i++) {
        int32_t length = extent(r, &t->dims[i]);
        if (length != 1 && (t->rank - i != axis_from_end || length != channels)) {
            return CV_NONE;
        }
    }
    return constant_input(r, index);
}

/// Element `i` of a list; what is absent is `otherwise`, one number stands for all. -1: too large.
static int32_t list_at(const kf_op *op, uint32_t key, uint32_t i, int32_t otherwise)
{
    const kf_attr *attr = kf_op_attr(op, key);
    if (attr == NULL || (attr->type == KF_TYPE_I64S && attr->count == 0)) {
        return otherwise;
    }
    int64_t value = attr->type == KF_TYPE_I64S ? attr->v.iv[i < attr->count ? i : 0] : attr->v.i;
    return value >= 0 && value <= MOST_PADDING ? (int32_t)value : -1;
}

static uint32_t is_set(const kf_op *op, uint32_t key)
{
    const kf_attr *attr = kf_op_attr(op, key);
    return attr != NULL && attr->type == KF_TYPE_BOOL && attr->v.i != 0;
}

static uint32_t read_window(reader *r, const int32_t lengths[2])
{
    cv_window *w = &r->made.window;
    for (uint32_t i = 0; i < 2; i++) {
        int32_t stride = list_at(r->op, KF_ATTR_STRIDES, i, 1);
        int32_t dilation = list_at(r->op, KF_ATTR_DILATIONS, i, 1);
        int32_t begin = list_at(r->op, KF_ATTR_PADDING, i, 0);
        int32_t end = list_at(r->op, KF_ATTR_PADDING, i + 2, 0);
        if (lengths[i] < 1 || stride < 1 || dilation < 1 || begin < 0 || end < 0 ||
            lengths[i] > MOST_TAPS || (lengths[i] - 1) * dilation >= MOST_PADDING) {
            return 0;
        }
        w->lengths[i] = (uint8_t)lengths[i];
        w->strides[i] = (uint8_t)stride;
        w->dilations[i] = (uint8_t)dilation;
        w->begin[i] = (uint8_t)begin;
        w->end[i] = (uint8_t)end;
    }
    return 1;
}

// ---- what an operation costs ----

/// Of whole blocks: channels that fill the last one up are computed, written and read like others.
static uint64_t bytes_ps(const cv_region *region, const cv_device *device, uint32_t value)
{
    const cv_value *v = &region->values[value];
    uint64_t channels = ((uint64_t)v->channels + CV_LANES - 1) / CV_LANES * CV_LANES;
    uint64_t bytes = channels * (uint32_t)v->height * (uint32_t)v->width * 4;
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

static void add_cost(const reader *r)
{
    const cv_op *op = &r->made;
    cv_region *region = r->region;
    const cv_value *result = &region->values[op->result];
    uint64_t channels = ((uint64_t)result->channels + CV_LANES - 1) / CV_LANES * CV_LANES;
    uint64_t places = channels * (uint32_t)result->height * (uint32_t)result->width *
                      op->window.lengths[0] * op->window.lengths[1];
    region->n_passes += op->kind != CV_MAP && op->kind != CV_NORM;
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        if (!region->values[op->inputs[i]].is_image) {
            region->n_packs++;
            break;
        }
    }
    if (op->kind == CV_CONV) {
        uint64_t flops = 2 * places * (uint32_t)region->values[op->inputs[0]].channels;
        region->ps += flops * (uint64_t)r->device->cost.ps_per_kflop / 1024 * 100 / SHARE_PERCENT;
    } else if (op->kind == CV_DEPTHWISE || op->kind == CV_POOL || op->kind == CV_MEAN) {
        region->ps +=
            bytes_ps(region, r->device, op->inputs[0]) + bytes_ps(region, r->device, op->result);
    } else {
        uint64_t cost = op->kind == CV_MAP ? op->row->cost : 2; // most go with what is before them
        region->ps += bytes_ps(region, r->device, op->result) * (4 + cost) / 16;
    }
}

// ---- operations ----

static const uint32_t window_keys[] = {
    KF_ATTR_STRIDES,   KF_ATTR_PADDING, KF_ATTR_DILATIONS,   KF_ATTR_GROUPS,   KF_ATTR_KERNEL,
    KF_ATTR_CEIL_MODE, KF_ATTR_AXES,    KF_ATTR_INCLUDE_PAD, KF_ATTR_KEEPDIMS, KF_ATTR_EPSILON};

static uint32_t understood(const reader *r, const uint32_t *keys, uint32_t n_keys)
{
    return kf_op_understood(r->op, 1, keys, n_keys) && r->op->n_outputs == 1 &&
           r->op->n_inputs <= 5;
}

static uint32_t read_conv(reader *r)
{
    const kf_tensor *weight = r->op->inputs[1];
    const kf_attr *groups = kf_op_attr(r->op, KF_ATTR_GROUPS);
    int64_t n_groups = groups != NULL ? groups->v.i : 1;
    uint32_t x = image_input(r, 0), w = constant_input(r, 1);
    if (x == CV_NONE || w == CV_NONE || weight->rank != 4 || r->op->n_inputs > 3) {
        return decline(r, KF_CODE_SHAPE, "not two axes of f32 with constant, dense weights");
    }
    int32_t channels = r->region->values[x].channels;
    int32_t outputs = extent(r, &weight->dims[0]);
    int32_t lengths[2] = {extent(r, &weight->dims[2]), extent(r, &weight->dims[3])};
    uint32_t depthwise =
        n_groups > 1 && n_groups == channels && outputs == channels && weight->dims[1].symbol == 0;
    if ((n_groups != 1 && !depthwise) || !read_window(r, lengths)) {
        return decline(r, KF_CODE_SHAPE, "groups of several channels, or a large window");
    }
    r->made.kind = depthwise ? CV_DEPTHWISE : CV_CONV;
    r->made.inputs[0] = (uint16_t)x;
    r->made.inputs[1] = (uint16_t)w;
    r->made.n_inputs = 2;
    if (r->op->n_inputs == 3) {
        uint32_t bias = vector_input(r, 2, 1, outputs);
        if (bias == CV_NONE) {
            return decline(r, KF_CODE_SHAPE, "its bias is no constant");
        }
        r->made.inputs[r->made.n_inputs++] = (uint16_t)bias;
    }
    return 1;
}

static uint32_t read_pool(reader *r)
{
    int32_t lengths[2] = {list_at(r->op, KF_ATTR_KERNEL, 0, -1),
                          list_at(r->op, KF_ATTR_KERNEL, 1, -1)};
    uint32_t x = image_input(r, 0);
    if (x == CV_NONE || r->region->values[x].op == CV_NONE || !read_window(r, lengths)) {
        return decline(r, KF_CODE_SHAPE, "not two axes of what the region computes");
    }
    r->made.kind = CV_POOL;
    r->made.inputs[0] = (uint16_t)x;
    r->made.n_inputs = 1;
    r->made.is_max = r->op->kind == KF_OP_MAX_POOL;
    r->made.include_pad = (uint8_t)is_set(r->op, KF_ATTR_INCLUDE_PAD);
    return 1;
}

static uint32_t read_mean(reader *r)
{
    const kf_attr *axes = kf_op_attr(r->op, KF_ATTR_AXES);
    uint32_t x = image_input(r, 0), seen = 0;
    for (uint32_t i = 0; axes != NULL && i < axes->count && axes->type == KF_TYPE_I64S; i++) {
        seen |= 1u << ((axes->v.iv[i] + 4) & 3);
    }
    if (x == CV_NONE || r->region->values[x].op == CV_NONE || seen != 12 ||
        !is_set(r->op, KF_ATTR_KEEPDIMS)) {
        return decline(r, KF_CODE_SHAPE, "not of the whole image, or axes are dropped");
    }
    r->made.kind = CV_MEAN;
    r->made.inputs[0] = (uint16_t)x;
    r->made.n_inputs = 1;
    return 1;
}

static uint32_t read_number(const kf_attr *attr, cv_number *out)
{
    *out = (cv_number){.is_scalar = attr->type == KF_TYPE_SCALAR, .index = (uint32_t)attr->v.i};
    if (attr->type == KF_TYPE_F64) {
        out->value = attr->v.f;
    } else if (attr->type == KF_TYPE_I64 || attr->type == KF_TYPE_BOOL) {
        out->value = (double)attr->v.i;
    }
    return attr->type == KF_TYPE_SCALAR || attr->type == KF_TYPE_F64 || attr->type == KF_TYPE_I64 ||
           attr->type == KF_TYPE_BOOL;
}

static uint32_t read_norm(reader *r)
{
    const kf_attr *epsilon = kf_op_attr(r->op, KF_ATTR_EPSILON);
    uint32_t x = image_input(r, 0);
    if (x == CV_NONE || r->region->values[x].op == CV_NONE || r->op->n_inputs != 5) {
        return decline(r, KF_CODE_SHAPE, "not of what the region computes");
    }
    r->made.kind = CV_NORM;
    r->made.inputs[0] = (uint16_t)x;
    r->made.n_inputs = 5;
    r->made.numbers[0] = (cv_number){.value = 1e-5};
    for (uint32_t i = 1; i < 5; i++) {
        uint32_t vector = vector_input(r, i, 1, r->region->values[x].channels);
        if (vector == CV_NONE) {
            return decline(r, KF_CODE_SHAPE, "its numbers are no constants");
        }
        r->made.inputs[i] = (uint16_t)vector;
    }
    return epsilon == NULL || read_number(epsilon, &r->made.numbers[0]);
}

static uint32_t numbers_fit(reader *r, const kf_ew_row *row)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->op->n_attrs; i++) {
        if ((r->op->attrs[i].flags & KF_ATTR_FLAG_HINT) != 0) {
            continue;
        }
        if (count == 2 || !read_number(&r->op->attrs[i], &r->made.numbers[count++])) {
            return 0;
        }
    }
    if (count == 0 && row->op == KF_OP_LEAKY_RELU) {
        r->made.numbers[count++] = (cv_number){.value = 0.01};
    }
    return count == row->scalars;
}

/// Of the result's shape, or one place for all, or a constant for each channel.
static uint32_t map_input(reader *r, uint32_t index)
{
    const cv_value *result = &r->result;
    if (find(r->region, r->op->inputs[index]->id) == CV_NONE) {
        uint32_t vector = vector_input(r, index, 3, result->channels);
        if (vector != CV_NONE) {
            return vector;
        }
    }
    uint32_t image = image_input(r, index);
    if (image == CV_NONE) {
        // a constant that is known already
        return vector_input(r, index, 3, result->channels);
    }
    const cv_value *v = &r->region->values[image];
    return v->channels == result->channels &&
                   ((v->height == result->height && v->width == result->width) ||
                    (v->height == 1 && v->width == 1))
               ? image
               : CV_NONE;
}

/// Whether an operator is arithmetic or of an activation. What is dearer costs more than the passes
/// over memory that it saves, and runs no faster behind a convolution than alone.
static uint32_t is_cheap(const kf_ew_row *row)
{
    static const uint32_t activations[] = {KF_OP_EXP,     KF_OP_LOG,  KF_OP_ERF,  KF_OP_EXPM1,
                                           KF_OP_SIGMOID, KF_OP_TANH, KF_OP_LOG1P};
    uint32_t listed = 0;
    for (uint32_t i = 0; i < sizeof(activations) / sizeof(activations[0]); i++) {
        listed |= row->op == activations[i];
    }
    return listed || row->cost < 16;
}

static uint32_t read_map(reader *r)
{
    static const uint32_t keys[] = {KF_ATTR_VALUE, KF_ATTR_MIN, KF_ATTR_MAX, KF_ATTR_SLOPE};
    const kf_ew_row *row = kf_ew_row_of(r->op->kind);
    uint32_t follows = 0;
    if (row == NULL || row->result != KF_EW_SAME || row->text[0] == NULL ||
        row->inputs != r->op->n_inputs || row->inputs == 0) {
        return decline(r, KF_CODE_UNKNOWN_OP, "not an operator between convolutions");
    }
    if (!is_cheap(row)) {
        return decline(r, KF_CODE_COST, "it costs more than the passes over memory it saves");
    }
    if (!understood(r, keys, sizeof(keys) / sizeof(keys[0])) || !numbers_fit(r, row)) {
        return decline(r, KF_CODE_NOT_UNDERSTOOD, "a version, flag or attribute that is newer");
    }
    r->made.kind = CV_MAP;
    r->made.row = row;
    r->made.n_inputs = (uint8_t)row->inputs;
    for (uint32_t i = 0; i < row->inputs; i++) {
        uint32_t value = map_input(r, i);
        if (value == CV_NONE) {
            return decline(r, KF_CODE_SHAPE, "an operand is neither an image nor one per channel");
        }
        follows |= r->region->values[value].op != CV_NONE;
        r->made.inputs[i] = (uint16_t)value;
    }
    return follows || decline(r, KF_CODE_SHAPE, "it does not continue from a convolution");
}

static uint32_t read_op(reader *r)
{
    uint32_t kind = r->op->kind;
    if (kind == KF_OP_CONV || kind == KF_OP_BATCH_NORM || kind == KF_OP_MAX_POOL ||
        kind == KF_OP_AVG_POOL || kind == KF_OP_MEAN) {
        if (!understood(r, window_keys, sizeof(window_keys) / sizeof(window_keys[0]))) {
            return decline(r, KF_CODE_NOT_UNDERSTOOD, "a version, flag or attribute that is newer");
        }
        return kind == KF_OP_CONV         ? read_conv(r)
               : kind == KF_OP_BATCH_NORM ? read_norm(r)
               : kind == KF_OP_MEAN       ? read_mean(r)
                                          : read_pool(r);
    }
    return read_map(r);
}

static uint32_t push(reader *r)
{
    cv_region *region = r->region;
    const kf_op *op = r->op;
    if (op->kind == KF_OP_DROP) {
        uint32_t value = op->n_inputs == 1 ? find(region, op->inputs[0]->id) : CV_NONE;
        if (value != CV_NONE) {
            region->values[value].dropped = 1;
        }
        return 1;
    }
    if (region->n_products == 0 && op->kind != KF_OP_CONV) {
        return decline(r, KF_CODE_UNKNOWN_OP, "a region begins with a convolution");
    }
    uint32_t launches = 2 * region->n_ops + region->n_packs + region->n_outside;
    if (region->n_ops == CV_MAX_OPS || region->n_values + 8 > CV_MAX_VALUES ||
        launches + 16 > CV_MAX_STEPS) {
        return decline(r, KF_CODE_LIMIT, "the region is full");
    }
    if (op->n_outputs != 1 || !read_image(r, op->outputs[0], &r->result)) {
        return decline(r, KF_CODE_SHAPE, "its result is no image of f32 in the region's batch");
    }
    if (!read_op(r)) {
        return 0;
    }
    region->batch = r->result.batch;
    r->result.op = (uint16_t)region->n_ops;
    r->made.result = (uint16_t)add_value(region, &r->result);
    region->ops[region->n_ops++] = r->made;
    region->n_products += op->kind == KF_OP_CONV;
    add_cost(r);
    return 1;
}

static const char *shown_name(const cv_op *op)
{
    static const char *const names[] = {"", "conv", "depthwise", "pool", "mean", "", "batch_norm"};
    return op->kind == CV_MAP ? op->row->name : names[op->kind];
}

void cv_region_push(cv_region *region, const cv_device *device, const kf_host *host,
                    const kf_block *block, const kf_op *op)
{
    reader r = {.region = region, .device = device, .host = host, .block = block, .op = op};
    if (region->closed) {
        return;
    }
    if (!push(&r)) {
        region->closed = 1;
        return;
    }
    region->len++;
    if (op->kind != KF_OP_DROP) {
        if (region->n_shown < 8) {
            region->shown[region->n_shown] = shown_name(&r.made);
        }
        region->n_shown++;
    }
}
