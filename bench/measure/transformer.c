// SPDX-License-Identifier: MIT OR Apache-2.0
// A transformer block, for what measures or checks whole plans.
#include "transformer.h"

#include <stdlib.h>

enum { B = 2, T = 48, D = 128, H = 4, F = 4 * D };

static kiln_status make_weight(kiln_device *device, uint64_t seed, size_t rank, const int64_t *dims,
                               float scale, kiln_tensor **out, kiln_error *err)
{
    size_t count = 1;
    for (size_t i = 0; i < rank; i++) {
        count *= (size_t)dims[i];
    }
    float *data = malloc(count * sizeof(*data));
    if (data == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for weights");
    }
    for (size_t i = 0; i < count; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        data[i] = ((float)(seed >> 40) / 16777216.0f - 0.5f) * scale;
    }
    kiln_status status = kiln_tensor_create(device, KILN_DTYPE_F32, rank, dims, data, out, err);
    free(data);
    return status;
}

kiln_status transformer_make(kiln_device *device, kiln_tensor *out_parts[TRANSFORMER_PARTS],
                             kiln_error *err)
{
    static const int64_t x[] = {B, T, D}, d[] = {D}, dd[] = {D, D}, df[] = {D, F}, fd[] = {F, D},
                         ff[] = {F};
    const struct {
        size_t rank;
        const int64_t *dims;
    } shapes[TRANSFORMER_PARTS] = {{3, x},  {1, d},  {1, d},  {1, d},  {1, d},  {2, dd}, {2, dd},
                                   {2, dd}, {2, dd}, {2, df}, {1, ff}, {2, fd}, {1, d}};
    kiln_status status = KILN_STATUS_OK;
    for (uint64_t i = 0; i < TRANSFORMER_PARTS; i++) {
        out_parts[i] = NULL;
    }
    for (uint64_t i = 0; i < TRANSFORMER_PARTS && status == KILN_STATUS_OK; i++) {
        status = make_weight(device, i + 1, shapes[i].rank, shapes[i].dims,
                             i == TRANSFORMER_X ? 2.0f : 0.2f, &out_parts[i], err);
    }
    return status;
}

/// Takes over `*x`: it is released, and `*x` is what `next` has become.
static void step(kiln_tensor **x, kiln_tensor *next)
{
    kiln_release(*x);
    *x = next;
}

/// x w, as B x H x T x D / H.
static kiln_status heads(kiln_tensor *x, kiln_tensor *w, kiln_tensor **out, kiln_error *err)
{
    const int64_t split[] = {B, T, H, D / H}, order[] = {0, 2, 1, 3};
    kiln_tensor *at = NULL, *next = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kiln_matmul(x, w, false, false, &at, err));
    KILN_TRY(out, status, kiln_reshape(at, split, 4, &next, err));
    step(&at, next);
    KILN_TRY(out, status, kiln_permute(at, order, 4, out, err));
out:
    kiln_release(at);
    return status;
}

/// softmax(q k^T / sqrt(D / H)).
static kiln_status weigh(kiln_tensor *x, kiln_tensor *const *parts, kiln_tensor **out,
                         kiln_error *err)
{
    kiln_tensor *q = NULL, *k = NULL, *at = NULL, *next = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, heads(x, parts[TRANSFORMER_WQ], &q, err));
    KILN_TRY(out, status, heads(x, parts[TRANSFORMER_WK], &k, err));
    KILN_TRY(out, status, kiln_matmul(q, k, false, true, &at, err));
    step(&q, NULL);
    step(&k, NULL);
    KILN_TRY(out, status, kiln_mul_scalar(at, kiln_f64(0.176776695), &next, err));
    step(&at, next);
    KILN_TRY(out, status, kiln_softmax(at, -1, out, err));
out:
    kiln_release(q);
    kiln_release(k);
    kiln_release(at);
    return status;
}

static kiln_status attend(kiln_tensor *x, kiln_tensor *const *parts, kiln_tensor **out,
                          kiln_error *err)
{
    const int64_t order[] = {0, 2, 1, 3}, joined[] = {B, T, D};
    kiln_tensor *at = NULL, *v = NULL, *next = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, weigh(x, parts, &at, err));
    KILN_TRY(out, status, heads(x, parts[TRANSFORMER_WV], &v, err));
    KILN_TRY(out, status, kiln_matmul(at, v, false, false, &next, err));
    step(&at, next);
    step(&v, NULL);
    KILN_TRY(out, status, kiln_permute(at, order, 4, &next, err));
    step(&at, next);
    KILN_TRY(out, status, kiln_reshape(at, joined, 3, &next, err));
    step(&at, next);
    KILN_TRY(out, status, kiln_matmul(at, parts[TRANSFORMER_WO], false, false, out, err));
out:
    kiln_release(at);
    kiln_release(v);
    return status;
}

/// gelu(norm(x) up + bias) down + bias.
static kiln_status feed(kiln_tensor *x, kiln_tensor *const *parts, kiln_tensor **out,
                        kiln_error *err)
{
    kiln_tensor *at = NULL, *next = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(
        out, status,
        kiln_layer_norm(x, parts[TRANSFORMER_NORM2], parts[TRANSFORMER_BIAS2], -1, 1e-5, &at, err));
    KILN_TRY(out, status, kiln_matmul(at, parts[TRANSFORMER_UP], false, false, &next, err));
    step(&at, next);
    KILN_TRY(out, status, kiln_add(at, parts[TRANSFORMER_UP_BIAS], &next, err));
    step(&at, next);
    KILN_TRY(out, status, kiln_gelu(at, false, &next, err));
    step(&at, next);
    KILN_TRY(out, status, kiln_matmul(at, parts[TRANSFORMER_DOWN], false, false, &next, err));
    step(&at, next);
    KILN_TRY(out, status, kiln_add(at, parts[TRANSFORMER_DOWN_BIAS], out, err));
out:
    kiln_release(at);
    return status;
}

kiln_status transformer_record(kiln_tensor *const *parts, kiln_tensor **out_result, kiln_error *err)
{
    kiln_tensor *at = NULL, *x = NULL, *next = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status,
             kiln_layer_norm(parts[TRANSFORMER_X], parts[TRANSFORMER_NORM1],
                             parts[TRANSFORMER_BIAS1], -1, 1e-5, &at, err));
    KILN_TRY(out, status, attend(at, parts, &next, err));
    step(&at, next);
    KILN_TRY(out, status, kiln_add(parts[TRANSFORMER_X], at, &x, err));
    step(&at, NULL);
    KILN_TRY(out, status, feed(x, parts, &at, err));
    KILN_TRY(out, status, kiln_add(x, at, out_result, err));
out:
    kiln_release(at);
    kiln_release(x);
    return status;
}
