// SPDX-License-Identifier: MIT OR Apache-2.0
// What an operation computes and moves, as far as its tensors say, and what a device reaches at
// best. Decides what counts as work.

#include "model_work.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct extents {
    uint32_t rank;
    double dims[KILN_MAX_RANK];
} extents;

/// Of a tensor's text, such as "f32[1,64,56,56]".
static extents extents_of(const kiln_explanation *e, uint32_t tensor)
{
    extents made = {0};
    const char *at = tensor < e->n_tensors ? strchr(e->tensors[tensor].text, '[') : NULL;
    while (at != NULL && *at != ']' && made.rank < KILN_MAX_RANK) {
        char *end = NULL;
        made.dims[made.rank] = (double)strtoll(at + 1, &end, 10);
        made.rank += end != at + 1;
        at = end != at + 1 ? end : NULL;
    }
    return made;
}

/// The extent so many axes before the end; 1 beyond the first.
static double from_end(const extents *x, uint32_t back)
{
    return back <= x->rank ? x->dims[x->rank - back] : 1;
}

static double elements_of(const extents *x)
{
    double count = 1;
    for (uint32_t i = 0; i < x->rank; i++) {
        count *= x->dims[i];
    }
    return count;
}

/// Multiplications and additions of a contraction; of others 0: they are bound by what they move.
static double flops_of(const kiln_explanation *e, const kiln_explained_op *op)
{
    if (op->n_inputs < 2 || op->n_outputs < 1) {
        return 0;
    }
    extents a = extents_of(e, op->inputs[0]), b = extents_of(e, op->inputs[1]);
    extents result = extents_of(e, op->outputs[0]);
    if (strcmp(op->name, "matmul") == 0 || strcmp(op->name, "matmul_integer") == 0 ||
        strcmp(op->name, "linear") == 0) {
        bool turned = a.rank > 1 && strstr(op->text, "transpose_a=true") != NULL;
        return 2 * elements_of(&result) * from_end(&a, turned ? 2 : 1);
    }
    if (strcmp(op->name, "conv") == 0 || strcmp(op->name, "conv_integer") == 0) {
        return b.dims[0] > 0 ? 2 * elements_of(&result) * elements_of(&b) / b.dims[0] : 0;
    }
    if (strcmp(op->name, "attention") == 0) {
        return 2 * from_end(&b, 2) * (elements_of(&a) + elements_of(&result));
    }
    if (op->n_inputs > 2 && (strcmp(op->name, "lstm") == 0 || strcmp(op->name, "gru") == 0 ||
                             strcmp(op->name, "rnn") == 0)) {
        extents recurrence = extents_of(e, op->inputs[2]);
        return 2 * a.dims[0] * from_end(&a, 2) * (elements_of(&b) + elements_of(&recurrence));
    }
    return 0;
}

static double bytes_of(const kiln_explanation *e, const uint32_t *tensors, uint32_t count)
{
    double bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool again = tensors[i] >= e->n_tensors;
        for (uint32_t k = 0; k < i && !again; k++) {
            again = tensors[k] == tensors[i];
        }
        bytes += again ? 0 : (double)e->tensors[tensors[i]].bytes;
    }
    return bytes;
}

/// What an operation alone reads and writes: of a table, no more than its result has.
static double moved_by(const kiln_explanation *e, const kiln_explained_op *op)
{
    double written = bytes_of(e, op->outputs, op->n_outputs);
    double read = bytes_of(e, op->inputs, op->n_inputs);
    bool indexed = strcmp(op->name, "select") == 0 || strcmp(op->name, "gather") == 0;
    if (indexed && op->n_inputs > 0) {
        double table = bytes_of(e, op->inputs, 1);
        read -= table > written ? table - written : 0;
    }
    return read + written;
}

model_work model_work_of_op(const kiln_explanation *e, const kiln_explained_op *op)
{
    return (model_work){.flops = flops_of(e, op), .bytes = moved_by(e, op)};
}

model_work model_work_of_block(const kiln_explanation *e, const kiln_explained_block *block)
{
    model_work work = {.bytes = bytes_of(e, block->tensors, block->n_tensors)};
    for (uint32_t i = 0; i < block->n_ops; i++) {
        work.flops += flops_of(e, &e->ops[block->ops[i]]);
    }
    return work;
}

// ---- peaks ----

static kiln_status run_product(kiln_device *device, kiln_tensor *a, kiln_tensor *b, double *out_ns,
                               kiln_error *err)
{
    kiln_tensor *product = NULL;
    uint64_t start = kiln_time_ns();
    kiln_status status = kiln_matmul(a, b, false, false, &product, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_sync(device, err);
    }
    *out_ns = (double)(kiln_time_ns() - start);
    kiln_release(product);
    return status;
}

/// Squares of so many elements a side, the best of a few.
static kiln_status time_products(kiln_device *device, int64_t extent, double *out_ns,
                                 kiln_error *err)
{
    enum { PRODUCTS = 4 };
    const int64_t dims[] = {extent, extent};
    kiln_tensor *a = NULL;
    kiln_status status = KILN_STATUS_OK;
    *out_ns = INFINITY;
    KILN_TRY(out, status, kiln_full(device, dims, 2, KILN_DTYPE_F32, kiln_f64(1e-3), &a, err));
    for (int i = 0; i < PRODUCTS; i++) {
        double ns = 0;
        KILN_TRY(out, status, run_product(device, a, a, &ns, err));
        *out_ns = fmin(*out_ns, ns);
    }
out:
    kiln_release(a);
    return status;
}

/// What the device computes when nothing hinders it. Products grow while they take little, for a
/// slow device has to do no more than it can.
kiln_status model_measure_peaks(kiln_device *device, model_peaks *out_peaks, kiln_error *err)
{
    enum { LEAST = 64, MOST = 1024 };
    const double enough_ns = 4e6;
    const kiln_device_info *info = kiln_device_info_of(device);
    double best = 0, ns = 0;
    kiln_status status = KILN_STATUS_OK;
    for (int64_t extent = LEAST; extent <= MOST && ns < enough_ns && status == KILN_STATUS_OK;
         extent *= 2) {
        status = time_products(device, extent, &ns, err);
        best = fmax(best, 2.0 * (double)(extent * extent * extent) / ns);
    }
    *out_peaks = (model_peaks){.flops_per_ns = best,
                               .bytes_per_ns = (double)info->bytes_per_s / 1e9,
                               .clock_flops_per_ns = (double)info->flops_f32 / 1e9};
    return status;
}
