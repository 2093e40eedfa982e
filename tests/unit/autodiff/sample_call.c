// SPDX-License-Identifier: MIT OR Apache-2.0
// Sample calls for tests of gradients.
#include "sample_call.h"

#include "ir_reference.h"
#include "kiln_grad.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool sample_is_float(const kiln_tensor_desc *desc)
{
    return kiln_dtype_kind_of(desc->dtype) == KILN_KIND_FLOAT;
}

/// Rounds as the table of operators does.
void sample_store(kiln_dtype dtype, void *data, int64_t index, double value)
{
    const kiln_attr number = {.type = KILN_ATTR_F64, .count = 1, .v.f = value};
    size_t size = kiln_dtype_size(dtype);
    KILN_CHECK(kiln_number_store(&number, dtype, (char *)data + (size_t)index * size));
}

static double half(uint16_t bits)
{
    int exponent = bits >> 10 & 31;
    double mantissa = bits & 1023;
    double size = exponent == 31  ? (mantissa == 0 ? INFINITY : NAN)
                  : exponent == 0 ? ldexp(mantissa, -24)
                                  : ldexp(mantissa + 1024, exponent - 25);
    return (bits & 0x8000) != 0 ? -size : size;
}

double sample_load(kiln_dtype dtype, const void *data, int64_t index)
{
    uint16_t bits = 0;
    uint32_t wide = 0;
    float number = 0;
    switch (dtype) {
    case KILN_DTYPE_F64:
        return ((const double *)data)[index];
    case KILN_DTYPE_F32:
        return (double)((const float *)data)[index];
    case KILN_DTYPE_F16:
        memcpy(&bits, (const char *)data + 2 * index, 2);
        return half(bits);
    case KILN_DTYPE_BF16:
        memcpy(&bits, (const char *)data + 2 * index, 2);
        wide = (uint32_t)bits << 16;
        memcpy(&number, &wide, 4);
        return (double)number;
    default:
        return 0;
    }
}

double sample_weight(int64_t index, double result)
{
    double part = fmod((double)(index + 1) * 0.7548776662466927, 1);
    return isfinite(result) ? 0.25 + part : 0;
}

// ---- data ----

/// Where the numbers of an input are to lie: in [low, low + width).
static void domain_of(kiln_op op, unsigned input, double *out_low, double *out_width)
{
    *out_low = -1.5;
    *out_width = 3;
    switch (op) {
    case KILN_OP_LOG:
    case KILN_OP_SQRT:
    case KILN_OP_RSQRT:
    case KILN_OP_RECIP:
    case KILN_OP_POW_SCALAR:
        *out_low = 0.4;
        *out_width = 1.5;
        break;
    case KILN_OP_POW:
        *out_low = input == 0 ? 0.4 : -1.5;
        *out_width = input == 0 ? 1.5 : 3;
        break;
    case KILN_OP_DIV:
    case KILN_OP_REM:
    case KILN_OP_FMOD:
        *out_low = input == 1 ? 0.6 : -1.5;
        *out_width = input == 1 ? 1 : 3;
        break;
    case KILN_OP_LOG1P:
    case KILN_OP_ASIN:
    case KILN_OP_ACOS:
    case KILN_OP_ATANH:
    case KILN_OP_TAN:
        *out_low = -0.9;
        *out_width = 1.8;
        break;
    case KILN_OP_ACOSH:
        *out_low = 1.2;
        break;
    case KILN_OP_BATCH_NORM:
        *out_low = input == 4 ? 0.4 : -1.5;
        *out_width = input == 4 ? 1.5 : 3;
        break;
    default:
        break;
    }
}

static void make_smooth(const kiln_op_record *record, unsigned input, void *data, bool all)
{
    const kiln_tensor_desc *desc = &record->inputs[input];
    double low = 0;
    double width = 0;
    domain_of(record->op, input, &low, &width);
    for (int64_t i = 0; i < kiln_desc_count(desc); i++) {
        double now = sample_load(desc->dtype, data, i);
        if (!all && (now == 0 || (fabs(now) > 1e-3 && fabs(now) < 8))) {
            continue;
        }
        double part = fmod((double)(i + 1) * 0.6180339887498949 + (double)input * 0.357, 1);
        double value = low + width * part;
        sample_store(desc->dtype, data, i, fabs(value) < 0.02 ? value + 0.05 : value);
    }
}

static size_t bytes_of(const kiln_tensor_desc *desc)
{
    kiln_quant_layout layout;
    if (kiln_dtype_kind_of(desc->dtype) == KILN_KIND_QUANT && kiln_quant_layout_of(desc, &layout)) {
        return (size_t)kiln_desc_bytes(desc);
    }
    return (size_t)kiln_desc_bytes(desc);
}

sample_call sample_call_make(const kiln_op_record *record, const void *const *data, bool smooth)
{
    sample_call made = {.record = record};
    for (unsigned i = 0; i < record->n_inputs; i++) {
        size_t bytes = bytes_of(&record->inputs[i]);
        made.data[i] = calloc(1, bytes + 8);
        if (bytes > 0) {
            memcpy(made.data[i], data[i], bytes);
        }
        if (sample_is_float(&record->inputs[i])) {
            make_smooth(record, i, made.data[i], smooth);
        }
    }
    return made;
}

void sample_call_fini(sample_call *self)
{
    for (unsigned i = 0; i < self->record->n_inputs; i++) {
        free(self->data[i]);
    }
}

// ---- the reference ----

bool sample_call_evaluate(const sample_call *self, double *out_results[KILN_MAX_OUTPUTS])
{
    const kiln_op_record *record = self->record;
    kiln_view views[KILN_MAX_INPUTS + KILN_MAX_OUTPUTS];
    kiln_host_memory memory[KILN_MAX_INPUTS + KILN_MAX_OUTPUTS];
    unsigned n = record->n_inputs;
    for (unsigned i = 0; i < n; i++) {
        views[i] = kiln_view_dense(&record->inputs[i], NULL);
        memory[i] = (kiln_host_memory){self->data[i], bytes_of(&record->inputs[i])};
    }
    for (unsigned k = 0; k < record->n_outputs; k++) {
        size_t bytes = bytes_of(&record->outputs[k]);
        views[n + k] = kiln_view_dense(&record->outputs[k], NULL);
        memory[n + k] = (kiln_host_memory){calloc(1, bytes + 8), bytes};
    }
    bool ok = kiln_ir_reference_run(record, views, views + n, memory, NULL) == KILN_STATUS_OK;
    for (unsigned k = 0; k < record->n_outputs; k++) {
        int64_t count = kiln_desc_count(&record->outputs[k]);
        out_results[k] = calloc((size_t)count + 1, sizeof(double));
        for (int64_t i = 0; i < count; i++) {
            out_results[k][i] = sample_load(record->outputs[k].dtype, memory[n + k].data, i);
        }
        free(memory[n + k].data);
    }
    return ok;
}

void sample_results_free(double *results[KILN_MAX_OUTPUTS])
{
    for (unsigned k = 0; k < KILN_MAX_OUTPUTS; k++) {
        free(results[k]);
        results[k] = NULL;
    }
}

// ---- the tape ----

static kiln_status make_input(const sample_call *self, kiln_device *device, unsigned i,
                              kiln_tensor **out_tensor, kiln_error *err)
{
    const kiln_tensor_desc *desc = &self->record->inputs[i];
    if (desc->scheme != 0) {
        return kiln_tensor_create_quantised(device, desc->dtype, desc->scheme, desc->rank,
                                            desc->dims, self->data[i], out_tensor, err);
    }
    return kiln_tensor_create(device, desc->dtype, desc->rank, desc->dims, self->data[i],
                              out_tensor, err);
}

static kiln_status make_seed(const sample_call *self, kiln_device *device, unsigned output,
                             const double *results, kiln_tensor **out_tensor, kiln_error *err)
{
    const kiln_tensor_desc *desc = &self->record->outputs[output];
    int64_t count = kiln_desc_count(desc);
    char *data = calloc((size_t)count + 1, 8);
    for (int64_t i = 0; i < count; i++) {
        sample_store(desc->dtype, data, i, sample_weight(i, results[i]));
    }
    kiln_status status =
        kiln_tensor_create(device, desc->dtype, desc->rank, desc->dims, data, out_tensor, err);
    free(data);
    return status;
}

static kiln_status read_numbers(kiln_tensor *tensor, double **out_numbers, kiln_error *err)
{
    size_t count = (size_t)kiln_tensor_count(tensor);
    char *data = calloc(count + 1, 8);
    *out_numbers = calloc(count + 1, sizeof(double));
    kiln_status status = kiln_read(tensor, data, kiln_tensor_bytes(tensor), err);
    for (size_t i = 0; i < count; i++) {
        (*out_numbers)[i] = sample_load(kiln_tensor_dtype(tensor), data, (int64_t)i);
    }
    free(data);
    return status;
}

/// The call with its float inputs tracked.
typedef struct run {
    kiln_tape *tape;
    kiln_tensor *inputs[KILN_MAX_INPUTS];
    kiln_tensor *tracked[KILN_MAX_INPUTS]; ///< those of floats, borrowed
    unsigned place[KILN_MAX_INPUTS]; ///< of each in `inputs`
    size_t n_tracked;
    kiln_tensor *outputs[KILN_MAX_OUTPUTS];
    kiln_tensor *seed;
} run;

static kiln_status run_begin(run *self, const sample_call *call, kiln_device *device,
                             unsigned output, const double *results, kiln_error *err)
{
    const kiln_op_record *record = call->record;
    kiln_status status = KILN_STATUS_OK;
    memset(self, 0, sizeof(*self));
    KILN_TRY(out, status, kiln_tape_create(device, &self->tape, err));
    for (unsigned i = 0; i < record->n_inputs; i++) {
        KILN_TRY(out, status, make_input(call, device, i, &self->inputs[i], err));
        if (sample_is_float(&record->inputs[i])) {
            KILN_TRY(out, status, kiln_tape_track(self->tape, self->inputs[i], err));
            self->place[self->n_tracked] = i;
            self->tracked[self->n_tracked++] = self->inputs[i];
        }
    }
    KILN_TRY(out, status,
             kiln_record(device, record->op, self->inputs, record->n_inputs, record->attrs,
                         record->n_attrs, self->outputs, err));
    KILN_TRY(out, status, make_seed(call, device, output, results, &self->seed, err));
out:
    return status;
}

static void run_end(run *self)
{
    for (unsigned i = 0; i < KILN_MAX_INPUTS; i++) {
        kiln_release(self->inputs[i]);
    }
    for (unsigned i = 0; i < KILN_MAX_OUTPUTS; i++) {
        kiln_release(self->outputs[i]);
    }
    kiln_release(self->seed);
    kiln_tape_destroy(self->tape);
}

kiln_status sample_call_gradients(const sample_call *self, kiln_device *device, unsigned output,
                                  const double *results, double *out_gradients[KILN_MAX_INPUTS],
                                  kiln_error *err)
{
    run r;
    kiln_status status = run_begin(&r, self, device, output, results, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_backward(r.tape, r.outputs[output], r.seed, err);
    }
    for (size_t i = 0; i < r.n_tracked && status == KILN_STATUS_OK; i++) {
        kiln_tensor *gradient = NULL;
        status = kiln_gradient(r.tape, r.tracked[i], &gradient, err);
        if (status == KILN_STATUS_OK) {
            status = read_numbers(gradient, &out_gradients[r.place[i]], err);
        }
        kiln_release(gradient);
    }
    run_end(&r);
    return status;
}

/// sum(gradient * weights), added to `*sum`, which it takes and gives.
static kiln_status add_weighted(kiln_device *device, kiln_tensor *gradient, kiln_tensor **sum,
                                kiln_error *err)
{
    kiln_tensor *parts[4] = {NULL};
    int64_t count = kiln_tensor_count(gradient);
    double *weights = calloc((size_t)count + 1, sizeof(double));
    kiln_status status = KILN_STATUS_OK;
    for (int64_t i = 0; i < count; i++) {
        weights[i] = sample_weight(i + 7, 0);
    }
    KILN_TRY(out, status,
             kiln_tensor_create(device, KILN_DTYPE_F64, kiln_tensor_rank(gradient),
                                kiln_tensor_dims(gradient), weights, &parts[0], err));
    KILN_TRY(out, status, kiln_mul(gradient, parts[0], &parts[1], err));
    KILN_TRY(out, status, kiln_sum(parts[1], NULL, 0, false, &parts[2], err));
    if (*sum != NULL) {
        KILN_TRY(out, status, kiln_add(*sum, parts[2], &parts[3], err));
        kiln_release(*sum);
        *sum = parts[3];
        parts[3] = NULL;
    } else {
        *sum = parts[2];
        parts[2] = NULL;
    }
out:
    for (int i = 0; i < 4; i++) {
        kiln_release(parts[i]);
    }
    free(weights);
    return status;
}

kiln_status sample_call_seconds(const sample_call *self, kiln_device *device, unsigned output,
                                const double *results, double *out_sum,
                                double *out_seconds[KILN_MAX_INPUTS], kiln_error *err)
{
    run r;
    kiln_tensor *gradients[KILN_MAX_INPUTS] = {NULL};
    kiln_tensor *seconds[KILN_MAX_INPUTS] = {NULL};
    kiln_tensor *sum = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, run_begin(&r, self, device, output, results, err));
    KILN_TRY(
        out, status,
        kiln_gradients(r.tape, r.outputs[output], r.seed, r.tracked, r.n_tracked, gradients, err));
    for (size_t i = 0; i < r.n_tracked; i++) {
        KILN_TRY(out, status, add_weighted(device, gradients[i], &sum, err));
    }
    if (out_seconds != NULL && kiln_tape_tracks(r.tape, sum)) {
        KILN_TRY(out, status,
                 kiln_gradients(r.tape, sum, NULL, r.tracked, r.n_tracked, seconds, err));
    }
    for (size_t i = 0; i < r.n_tracked && out_seconds != NULL; i++) {
        unsigned at = r.place[i];
        if (seconds[i] != NULL) {
            KILN_TRY(out, status, read_numbers(seconds[i], &out_seconds[at], err));
        } else {
            size_t count = (size_t)kiln_tensor_count(r.tracked[i]);
            out_seconds[at] = calloc(count + 1, sizeof(double)); // linear: 0
        }
    }
    KILN_TRY(out, status, kiln_read(sum, out_sum, sizeof(*out_sum), err));
out:
    for (size_t i = 0; i < KILN_MAX_INPUTS; i++) {
        kiln_release(gradients[i]);
        kiln_release(seconds[i]);
    }
    kiln_release(sum);
    run_end(&r);
    return status;
}

void sample_gradients_free(double *gradients[KILN_MAX_INPUTS])
{
    for (unsigned i = 0; i < KILN_MAX_INPUTS; i++) {
        free(gradients[i]);
        gradients[i] = NULL;
    }
}
