// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs a stream through the public API, on data made from a seed: external tensors of plain numbers
// with some infinities and NaN, index tensors within range.

#include "plugin_stream.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

size_t stream_bytes(const stream_tensor *t)
{
    size_t count = 1;
    for (uint32_t i = 0; i < t->rank; i++) {
        count *= (size_t)t->dims[i];
    }
    return count * kiln_dtype_size(t->dtype);
}

double stream_element(const stream_tensor *t, const unsigned char *bytes, int64_t index)
{
    size_t size = kiln_dtype_size(t->dtype);
    uint16_t half;
    float f;
    double d;
    int64_t i = 0;
    bytes += (size_t)index * size;
    switch (t->dtype) {
    case KILN_DTYPE_F64:
        memcpy(&d, bytes, sizeof(d));
        return d;
    case KILN_DTYPE_F32:
        memcpy(&f, bytes, sizeof(f));
        return f;
    case KILN_DTYPE_F16:
    case KILN_DTYPE_BF16:
        memcpy(&half, bytes, sizeof(half));
        return t->dtype == KILN_DTYPE_F16 ? kiln_f16_to_f32(half) : kiln_bf16_to_f32(half);
    default:
        memcpy(&i, bytes, size);
        if (kiln_dtype_kind_of(t->dtype) == KILN_KIND_INT && size < 8) {
            i = (int64_t)((uint64_t)i << (64 - 8 * size)) >> (64 - 8 * size);
        }
        return (double)i;
    }
}

static double unit_of(kiln_dtype dtype)
{
    return dtype == KILN_DTYPE_F64    ? 0x1p-50
           : dtype == KILN_DTYPE_F32  ? 0x1p-21
           : dtype == KILN_DTYPE_BF16 ? 0x1p-7
                                      : 0x1p-9;
}

static void fill(const stream_tensor *t, stream *chance, bool nudge, unsigned char *bytes)
{
    static const double specials[] = {0.0, -0.0, INFINITY, -INFINITY, NAN};
    size_t size = kiln_dtype_size(t->dtype), count = stream_bytes(t) / size;
    kiln_dtype_kind kind = kiln_dtype_kind_of(t->dtype);
    bool special = stream_chance(chance, 30);
    for (size_t i = 0; i < count; i++) {
        double x = (double)(int64_t)stream_below(chance, 4001) / 1000.0 - 2;
        uint64_t roll = stream_draw(chance);
        kiln_attr number = {.type = KILN_ATTR_F64, .count = 1};
        if (special && roll % 12 == 0) {
            x = specials[roll / 12 % 5];
        }
        number.v.f = nudge ? x * (1 + (roll % 3 == 0 ? -1 : 1) * unit_of(t->dtype)) : x;
        if (kind != KILN_KIND_FLOAT) {
            uint64_t top = t->top != 0 ? (uint64_t)t->top : t->dtype == KILN_DTYPE_BOOL ? 2 : 40;
            number.type = KILN_ATTR_I64;
            number.v.i = (int64_t)(roll % top);
            number.v.i -= t->top == 0 && kind == KILN_KIND_INT ? 20 : 0;
        }
        if (!kiln_number_store(&number, t->dtype, bytes + i * size)) {
            memset(bytes + i * size, 0, size);
        }
    }
}

/// How large the buffer's tensor is that the external one is a view of.
static void buffer_dims(const stream_tensor *t, int64_t *dims)
{
    memcpy(dims, t->dims, sizeof(t->dims));
    if (t->layout == STREAM_SWAPPED) {
        dims[t->rank - 1] = t->dims[t->rank - 2];
        dims[t->rank - 2] = t->dims[t->rank - 1];
    } else if (t->layout == STREAM_SHIFTED) {
        dims[0]++;
    } else if (t->layout == STREAM_PADDED) {
        dims[t->rank - 1] += 3;
    }
}

/// The external tensor as a view of its buffer's.
static kiln_status view_of(const stream_tensor *t, kiln_tensor *whole, kiln_tensor **out,
                           kiln_error *err)
{
    int64_t starts[KILN_MAX_RANK] = {0}, ends[KILN_MAX_RANK], axes[KILN_MAX_RANK];
    int64_t last = (int64_t)t->rank - 1;
    for (uint32_t i = 0; i < t->rank; i++) {
        axes[i] = i;
        ends[i] = t->dims[i];
    }
    switch (t->layout) {
    case STREAM_SWAPPED:
        axes[last] = last - 1;
        axes[last - 1] = last;
        return kiln_permute(whole, axes, t->rank, out, err);
    case STREAM_FLIPPED:
        return kiln_flip(whole, &last, 1, out, err);
    case STREAM_SHIFTED:
        starts[0] = 1;
        ends[0]++;
        break;
    default:
        starts[last] = 1;
        ends[last]++;
        break;
    }
    return kiln_slice(whole, starts, t->rank, ends, t->rank, NULL, 0, out, err);
}

static kiln_status make_external(const stream_tensor *t, kiln_device *device, uint64_t data_seed,
                                 bool nudge, kiln_tensor **out, kiln_error *err)
{
    stream_tensor whole = *t;
    stream chance = {.state = data_seed};
    kiln_tensor *tensor = NULL;
    buffer_dims(t, whole.dims);
    unsigned char *bytes = malloc(stream_bytes(&whole) + 1);
    if (bytes == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for an input");
    }
    fill(&whole, &chance, nudge, bytes);
    kiln_status status =
        kiln_tensor_create(device, t->dtype, t->rank, whole.dims, bytes, &tensor, err);
    free(bytes);
    if (status == KILN_STATUS_OK && t->layout != STREAM_DENSE) {
        status = view_of(t, tensor, out, err);
        kiln_release(tensor);
    } else {
        *out = tensor;
    }
    if (status == KILN_STATUS_OK && t->constant) {
        kiln_tensor_mark_constant(*out);
    }
    return status;
}

static kiln_status make_externals(const stream *s, kiln_device *device, uint64_t data_seed,
                                  bool nudge, kiln_tensor **tensors, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < s->n_tensors && status == KILN_STATUS_OK; i++) {
        if (s->tensors[i].external) {
            status = make_external(&s->tensors[i], device, data_seed + i, nudge, &tensors[i], err);
        }
    }
    return status == KILN_STATUS_OK ? kiln_sync(device, err) : status; // views are none of it
}

static kiln_status record(const stream_op *op, kiln_device *device, kiln_tensor **tensors,
                          kiln_error *err)
{
    kiln_tensor *in[KILN_MAX_NAMED_INPUTS];
    kiln_tensor *out[KILN_MAX_OUTPUTS] = {NULL};
    kiln_attr attrs[KILN_MAX_ATTRS];
    uint32_t n_attrs = kiln_op_info_of(op->op)->signature->n_attrs;
    if (op->op == KILN_OP_DROP) {
        kiln_release(tensors[op->inputs[0]]);
        tensors[op->inputs[0]] = NULL;
        return KILN_STATUS_OK;
    }
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        in[i] = tensors[op->inputs[i]];
    }
    for (uint32_t i = 0; i < n_attrs; i++) {
        attrs[i] = op->attrs[i];
        if (attrs[i].type == KILN_ATTR_I64_LIST) {
            attrs[i].v.ints = op->lists[i];
        }
    }
    kiln_status status = kiln_record(device, op->op, in, op->n_inputs, attrs, n_attrs, out, err);
    for (uint32_t i = 0; i < op->n_outputs; i++) {
        tensors[op->outputs[i]] = out[i];
    }
    return status;
}

static uint64_t recorded_on(kiln_device *device)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    kiln_device_stats_get(device, &stats);
    return stats.ops_recorded;
}

static kiln_status record_watched(const stream_op *op, kiln_device *device, kiln_tensor **tensors,
                                  bool *out_in_pieces, kiln_error *err)
{
    uint64_t before = recorded_on(device);
    kiln_status status = record(op, device, tensors, err);
    *out_in_pieces = status == KILN_STATUS_OK && kiln_op_info_of(op->op)->decompose != NULL &&
                     recorded_on(device) > before + 1;
    return status;
}

kiln_status stream_run(const stream *s, kiln_device *device, uint64_t data_seed, bool nudge,
                       stream_values *out, kiln_error *err)
{
    bool unused;
    kiln_tensor *tensors[STREAM_TENSORS] = {NULL};
    if (out != NULL) {
        memset(out, 0, sizeof(*out));
    }
    kiln_status status = make_externals(s, device, data_seed, nudge, tensors, err);
    for (uint32_t i = 0; i < s->n_ops && status == KILN_STATUS_OK; i++) {
        status = record_watched(&s->ops[i], device, tensors,
                                out != NULL ? &out->in_pieces[i] : &unused, err);
    }
    for (uint32_t i = 0; i < s->n_tensors && status == KILN_STATUS_OK && out != NULL; i++) {
        if (!s->tensors[i].external && tensors[i] != NULL) {
            size_t bytes = stream_bytes(&s->tensors[i]);
            out->bytes[i] = malloc(bytes + 1);
            status = out->bytes[i] == NULL
                         ? kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for results")
                         : kiln_read(tensors[i], out->bytes[i], bytes, err);
        }
    }
    for (uint32_t i = 0; i < s->n_tensors; i++) {
        kiln_release(tensors[i]);
    }
    return status;
}

kiln_status stream_time(const stream *s, kiln_device *device, uint64_t data_seed, uint32_t repeats,
                        stream_times *out, kiln_error *err)
{
    kiln_tensor *externals[STREAM_TENSORS] = {NULL};
    *out = (stream_times){UINT64_MAX, UINT64_MAX};
    kiln_status status = make_externals(s, device, data_seed, false, externals, err);
    uint64_t end = kiln_time_ns() + UINT64_C(1000000000); // long ones vary less
    for (uint32_t r = 0; r < repeats && status == KILN_STATUS_OK; r++) {
        if (r > 0 && kiln_time_ns() > end) {
            break;
        }
        kiln_tensor *tensors[STREAM_TENSORS];
        for (uint32_t i = 0; i < STREAM_TENSORS; i++) {
            tensors[i] = kiln_retain(externals[i]);
        }
        uint64_t begin = kiln_time_ns(), cpu_begin = kiln_processor_ns();
        for (uint32_t i = 0; i < s->n_ops && status == KILN_STATUS_OK; i++) {
            status = record(&s->ops[i], device, tensors, err);
        }
        status = status == KILN_STATUS_OK ? kiln_sync(device, err) : status;
        uint64_t wall = kiln_time_ns() - begin, cpu = kiln_processor_ns() - cpu_begin;
        out->wall_ns = wall < out->wall_ns ? wall : out->wall_ns;
        out->cpu_ns = cpu < out->cpu_ns ? cpu : out->cpu_ns;
        for (uint32_t i = 0; i < s->n_tensors; i++) {
            kiln_release(tensors[i]);
        }
    }
    for (uint32_t i = 0; i < s->n_tensors; i++) {
        kiln_release(externals[i]);
    }
    return status;
}

void stream_values_free(stream_values *values)
{
    for (uint32_t i = 0; i < STREAM_TENSORS; i++) {
        free(values->bytes[i]);
        values->bytes[i] = NULL;
    }
}
