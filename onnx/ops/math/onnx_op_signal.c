// SPDX-License-Identifier: MIT OR Apache-2.0
// ONNX's signal processing: DFT, STFT, windows, MelWeightMatrix. A complex tensor has its two parts
// along a last axis; ours are two tensors. Decides which transform a node means.
#include "onnx_import.h"

#include <math.h>

typedef struct signal { ///< parts without the last axis; imaginary NULL: zero
    kilni_onnx_ref real;
    kilni_onnx_ref imaginary;
} signal;

/// Element `index` of the last axis, without that axis.
static kilni_onnx_ref part_of(kilni_onnx_call *call, kilni_onnx_ref x, int64_t index)
{
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    uint32_t last = x->desc.rank - 1u;
    kilni_onnx_ref part = kilni_onnx_slice_axis(call, x, last, index, index + 1, 1);
    return kilni_onnx_reshape(call, part, x->desc.dims, last);
}

static signal split(kilni_onnx_call *call, kilni_onnx_ref x)
{
    if (!kilni_onnx_ok(call)) {
        return (signal){NULL, NULL};
    }
    int64_t parts = x->desc.rank < 2 ? 0 : x->desc.dims[x->desc.rank - 1];
    if (parts != 1 && parts != 2) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "the last axis holds 1 or 2 parts, not %lld",
                        (long long)parts);
    }
    return (signal){part_of(call, x, 0), parts == 2 ? part_of(call, x, 1) : NULL};
}

static kilni_onnx_ref with_last_axis(kilni_onnx_call *call, kilni_onnx_ref x)
{
    int64_t dims[KILN_MAX_RANK];
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    if (x->desc.rank == KILN_MAX_RANK) {
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "the result has more than %d axes", KILN_MAX_RANK);
        return NULL;
    }
    for (uint32_t i = 0; i < x->desc.rank; i++) {
        dims[i] = x->desc.dims[i];
    }
    dims[x->desc.rank] = 1;
    return kilni_onnx_reshape(call, x, dims, x->desc.rank + 1u);
}

static void out_complex(kilni_onnx_call *call, signal s)
{
    const kilni_onnx_ref parts[] = {with_last_axis(call, s.real),
                                    with_last_axis(call, s.imaginary)};
    kilni_onnx_out(call, 0, kilni_onnx_concat(call, parts, 2, -1));
}

static kilni_onnx_ref fitted(kilni_onnx_call *call, kilni_onnx_ref x, uint32_t axis, int64_t length)
{
    int64_t padding[2 * KILN_MAX_RANK] = {0};
    if (!kilni_onnx_ok(call) || x == NULL || x->desc.dims[axis] == length) {
        return x;
    }
    if (x->desc.dims[axis] > length) {
        return kilni_onnx_slice_axis(call, x, axis, 0, length, 1);
    }
    padding[x->desc.rank + axis] = length - x->desc.dims[axis];
    return kilni_onnx_pad(call, x, padding, "constant", kiln_f64(0));
}

/// The transform along the axis; `half`: only the first length / 2 + 1 elements.
static signal transform(kilni_onnx_call *call, signal s, uint32_t axis, bool inverse, bool half)
{
    const kiln_attr attrs[] = {kilni_attr_i64(axis), kilni_attr_bool(inverse)};
    const kilni_onnx_ref inputs[] = {s.real, s.imaginary};
    kilni_onnx_ref results[KILN_MAX_OUTPUTS] = {NULL};
    kilni_onnx_emit_many(call, KILN_OP_FFT, inputs, s.imaginary == NULL ? 1 : 2, attrs, 2, results);
    for (uint32_t i = 0; half && kilni_onnx_ok(call) && i < 2; i++) {
        int64_t bins = results[i]->desc.dims[axis] / 2 + 1;
        results[i] = kilni_onnx_slice_axis(call, results[i], axis, 0, bins, 1);
    }
    return (signal){results[0], results[1]};
}

/// A half spectrum back to a real signal.
static void out_real(kilni_onnx_call *call, signal s, uint32_t axis, int64_t length)
{
    const kiln_attr attrs[] = {kilni_attr_i64(axis), kilni_attr_i64(length)};
    const kilni_onnx_ref inputs[] = {s.real, s.imaginary};
    kilni_onnx_ref real = kilni_onnx_emit(call, KILN_OP_IRFFT, inputs, 2, attrs, 2);
    kilni_onnx_out(call, 0, with_last_axis(call, real));
}

static int64_t number_or(kilni_onnx_call *call, kilni_onnx_ref value, int64_t fallback)
{
    if (value == NULL || !kilni_onnx_ok(call)) {
        return fallback;
    }
    kilni_onnx_ints ints = kilni_onnx_value_ints(call, value);
    return ints.count > 0 ? ints.v[0] : fallback;
}

void kilni_onnx_op_dft(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    bool inverse = kilni_onnx_attr_int(call, "inverse", 0) != 0;
    bool half = kilni_onnx_attr_int(call, "onesided", 0) != 0;
    int64_t axis = call->version < 20 ? kilni_onnx_attr_int(call, "axis", 1)
                                      : number_or(call, kilni_onnx_opt(call, 2), -2);
    signal s = split(call, x);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    uint32_t along = kilni_onnx_axis(call, axis, x->desc.rank);
    if (along + 1u >= x->desc.rank) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "axis %lld is that of the parts", (long long)axis);
        return;
    }
    if (inverse && half) {
        int64_t length = number_or(call, kilni_onnx_opt(call, 1), 2 * (x->desc.dims[along] - 1));
        if (s.imaginary == NULL) {
            KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "half a spectrum needs two parts");
        }
        out_real(call, s, along, length);
        return;
    }
    int64_t length = number_or(call, kilni_onnx_opt(call, 1), x->desc.dims[along]);
    s.real = fitted(call, s.real, along, length);
    s.imaginary = fitted(call, s.imaginary, along, length);
    out_complex(call, transform(call, s, along, inverse, half));
}

/// Signal [batch, samples] as [batch, frames, length].
static kilni_onnx_ref frames_of(kilni_onnx_call *call, kilni_onnx_ref x, int64_t step,
                                int64_t length, int64_t frames)
{
    if (x == NULL || !kilni_onnx_ok(call)) {
        return NULL;
    }
    const int64_t count = frames * length;
    const int64_t dims[] = {x->desc.dims[0], frames, length};
    kilni_onnx_ref places = kilni_onnx_scratch(call, KILN_DTYPE_I64, 1, &count);
    for (int64_t i = 0; kilni_onnx_ok(call) && i < count; i++) {
        ((int64_t *)places->owned)[i] = i / length * step + i % length;
    }
    kilni_onnx_ref taken = kilni_onnx_indexed(call, KILN_OP_SELECT, x, places, 1);
    return kilni_onnx_reshape(call, taken, dims, 3);
}

void kilni_onnx_op_stft(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_ref window = kilni_onnx_opt(call, 2);
    int64_t step = number_or(call, kilni_onnx_in(call, 1), 1);
    bool half = kilni_onnx_attr_int(call, "onesided", 1) != 0;
    if (!kilni_onnx_ok(call)) {
        return;
    }
    int64_t samples = x->desc.rank == 3 ? x->desc.dims[1] : -1;
    int64_t usual = window != NULL && window->desc.rank == 1 ? window->desc.dims[0] : samples;
    int64_t length = number_or(call, kilni_onnx_opt(call, 3), usual);
    if (step < 1 || length < 1 || length > samples) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "frames of %lld every %lld in %lld samples",
                        (long long)length, (long long)step, (long long)samples);
        return;
    }
    int64_t frames = (samples - length) / step + 1;
    signal s = split(call, x);
    s.real = frames_of(call, s.real, step, length, frames);
    s.imaginary = frames_of(call, s.imaginary, step, length, frames);
    if (window != NULL) {
        s.real = kilni_onnx_binary(call, KILN_OP_MUL, s.real, window);
        s.imaginary =
            s.imaginary == NULL ? NULL : kilni_onnx_binary(call, KILN_OP_MUL, s.imaginary, window);
    }
    out_complex(call, transform(call, s, 2, false, half));
}

// ---- windows ----

/// a - b * cos(x) + c * cos(2 x), x once round the circle
static void cosine_window(kilni_onnx_call *call, double a, double b, double c)
{
    int64_t size = number_or(call, kilni_onnx_in(call, 0), 0);
    bool periodic = kilni_onnx_attr_int(call, "periodic", 1) != 0;
    kiln_dtype dtype = kilni_onnx_attr_dtype(call, "output_datatype", KILN_DTYPE_F32);
    kiln_dtype wide = dtype == KILN_DTYPE_F64 ? KILN_DTYPE_F64 : KILN_DTYPE_F32;
    int64_t round = periodic ? size : size - 1;
    double step = 6.283185307179586 / (double)(round > 0 ? round : 1);
    kilni_onnx_ref x = kilni_onnx_arange(call, wide, size, kiln_f64(0), kiln_f64(1));
    x = kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR, x, step);
    kilni_onnx_ref y = kilni_onnx_unary(call, KILN_OP_COS, x);
    y = kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR, y, -b);
    y = kilni_onnx_scalar(call, KILN_OP_ADD_SCALAR, y, a);
    if (c != 0) {
        kilni_onnx_ref twice = kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR, x, 2);
        twice = kilni_onnx_unary(call, KILN_OP_COS, twice);
        twice = kilni_onnx_scalar(call, KILN_OP_MUL_SCALAR, twice, c);
        y = kilni_onnx_binary(call, KILN_OP_ADD, y, twice);
    }
    kilni_onnx_out(call, 0, kilni_onnx_cast(call, y, dtype));
}

void kilni_onnx_op_hann_window(kilni_onnx_call *call)
{
    cosine_window(call, 0.5, 0.5, 0);
}

void kilni_onnx_op_hamming_window(kilni_onnx_call *call)
{
    cosine_window(call, 25.0 / 46, 21.0 / 46, 0);
}

void kilni_onnx_op_blackman_window(kilni_onnx_call *call)
{
    cosine_window(call, 0.42, 0.5, 0.08);
}

// ---- mel weights ----

enum { MAX_BINS = 1 << 16 };

typedef struct mel {
    int64_t bins;
    int64_t dft;
    int64_t rate;
    double low;
    double high;
} mel;

static double as_float(kilni_onnx_call *call, kilni_onnx_ref value)
{
    kiln_number number = kilni_onnx_value_number(call, value);
    return number.is_integer ? (double)number.v.i : number.v.f;
}

/// The spectrum's element in which the i-th edge of a triangle lies.
static int64_t edge(const mel *m, int64_t i)
{
    double low = 2595 * log10(1 + m->low / 700);
    double high = 2595 * log10(1 + m->high / 700);
    double at = (double)i * (high - low) / (double)(m->bins + 2) + low;
    double hertz = 700 * (pow(10, at / 2595) - 1);
    double place = floor((double)(m->dft + 1) * hertz / (double)m->rate);
    double last = (double)(m->dft / 2);
    return place > 0 ? (int64_t)(place < last ? place : last) : 0;
}

/// Triangles over the spectrum, from edge i through i + 1 to i + 2.
static void fill_mel(const mel *m, float *out)
{
    for (int64_t i = 0; i < m->bins; i++) {
        int64_t low = edge(m, i);
        int64_t centre = edge(m, i + 1);
        int64_t high = edge(m, i + 2);
        if (centre == low) {
            out[centre * m->bins + i] = 1;
        }
        for (int64_t k = low; centre > low && k <= centre; k++) {
            out[k * m->bins + i] = (float)((double)(k - low) / (double)(centre - low));
        }
        for (int64_t k = centre; k < high; k++) {
            out[k * m->bins + i] = (float)((double)(high - k) / (double)(high - centre));
        }
    }
}

void kilni_onnx_op_mel_weight_matrix(kilni_onnx_call *call)
{
    kiln_dtype dtype = kilni_onnx_attr_dtype(call, "output_datatype", KILN_DTYPE_F32);
    mel m = {.bins = number_or(call, kilni_onnx_in(call, 0), 0),
             .dft = number_or(call, kilni_onnx_in(call, 1), 0),
             .rate = number_or(call, kilni_onnx_in(call, 2), 0)};
    kilni_onnx_ref low = kilni_onnx_in(call, 3);
    kilni_onnx_ref high = kilni_onnx_in(call, 4);
    if (!kilni_onnx_ok(call)) {
        return;
    }
    m.low = as_float(call, low);
    m.high = as_float(call, high);
    if (m.bins < 1 || m.bins > MAX_BINS || m.dft < 1 || m.dft > MAX_BINS || m.rate < 1 ||
        !(m.low >= 0) || !(m.high >= m.low)) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "%lld bins of %lld at %lld hertz make no sense",
                        (long long)m.bins, (long long)m.dft, (long long)m.rate);
        return;
    }
    const int64_t dims[] = {m.dft / 2 + 1, m.bins};
    kilni_onnx_ref weights = kilni_onnx_scratch(call, KILN_DTYPE_F32, 2, dims);
    if (kilni_onnx_ok(call)) {
        fill_mel(&m, weights->owned);
    }
    kilni_onnx_out(call, 0, kilni_onnx_cast(call, weights, dtype));
}

void kilni_onnx_op_det(kilni_onnx_call *call)
{
    kilni_onnx_ref x = kilni_onnx_in(call, 0);
    kilni_onnx_out(call, 0, kilni_onnx_emit(call, KILN_OP_DET, &x, 1, NULL, 0));
}
