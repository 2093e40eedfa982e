// SPDX-License-Identifier: MIT OR Apache-2.0
// The model: a transformer whose layers look back only (Radford and others, 2019), written forward;
// a tape finds the gradients.
#include "gpt.h"

#include <math.h>
#include <string.h>

// ---- parameters ----

static kiln_status add_matrix(kiln_params *params, const char *name, int64_t rows, int64_t columns,
                              double deviation, kiln_error *err)
{
    const int64_t dims[] = {rows, columns};
    kiln_init_options how = KILN_INIT_OPTIONS_INIT;
    how.kind = KILN_INIT_NORMAL;
    how.spread = deviation;
    return kiln_params_add(params, name, KILN_DTYPE_F32, 2, dims, &how, err);
}

static kiln_status add_vector(kiln_params *params, const char *name, int64_t length, double value,
                              kiln_error *err)
{
    kiln_init_options how = KILN_INIT_OPTIONS_INIT;
    how.center = value;
    return kiln_params_add(params, name, KILN_DTYPE_F32, 1, &length, &how, err);
}

/// The numbers of a layer's parameters from its first one on.
enum {
    NORM1_SCALE,
    NORM1_BIAS,
    LOOK, ///< queries, keys and values
    LOOK_BIAS,
    JOIN,
    JOIN_BIAS,
    NORM2_SCALE,
    NORM2_BIAS,
    WIDEN,
    WIDEN_BIAS,
    NARROW,
    NARROW_BIAS,
    LAYER_PARAMS
};
enum { TOKENS, PLACES, FIRST_LAYER }; // and behind the layers: norm, and the scores' matrix

static kiln_status add_layer(const gpt_shape *shape, int64_t layer, kiln_params *params,
                             kiln_error *err)
{
    static const char *const names[LAYER_PARAMS] = {
        "norm1.scale", "norm1.bias", "look.weight", "look.bias", "join.weight",   "join.bias",
        "norm2.scale", "norm2.bias", "wide.weight", "wide.bias", "narrow.weight", "narrow.bias"};
    const int64_t width = shape->width;
    const int64_t rows[LAYER_PARAMS] = {
        [LOOK] = width, [JOIN] = width, [WIDEN] = width, [NARROW] = 4 * width};
    const int64_t columns[LAYER_PARAMS] = {width, width, 3 * width, 3 * width, width, width,
                                           width, width, 4 * width, 4 * width, width, width};
    kiln_status status = KILN_STATUS_OK;
    for (int i = 0; i < LAYER_PARAMS && status == KILN_STATUS_OK; i++) {
        char name[48];
        bool ends = i == JOIN || i == NARROW; // what is added to the stream is smaller
        double deviation = ends ? 0.02 / sqrt(2.0 * (double)shape->layers) : 0.02;
        snprintf(name, sizeof(name), "layer%lld.%s", (long long)layer, names[i]);
        status = rows[i] > 0 ? add_matrix(params, name, rows[i], columns[i], deviation, err)
                             : add_vector(params, name, columns[i],
                                          i == NORM1_SCALE || i == NORM2_SCALE ? 1 : 0, err);
    }
    return status;
}

kiln_status gpt_add_params(const gpt_shape *shape, kiln_params *params, kiln_error *err)
{
    const int64_t width = shape->width;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, add_matrix(params, "tokens", shape->vocabulary, width, 0.02, err));
    KILN_TRY(out, status, add_matrix(params, "places", shape->context, width, 0.02, err));
    for (int64_t layer = 0; layer < shape->layers; layer++) {
        KILN_TRY(out, status, add_layer(shape, layer, params, err));
    }
    KILN_TRY(out, status, add_vector(params, "norm.scale", width, 1, err));
    KILN_TRY(out, status, add_vector(params, "norm.bias", width, 0, err));
    KILN_TRY(out, status, add_matrix(params, "scores", width, shape->vocabulary, 0.02, err));
out:
    return status;
}

// ---- forward ----

enum { MOST = 20 };

/// What is on the way; the operations before hold what they need.
typedef struct scratch {
    kiln_tensor *all[MOST];
    size_t count;
} scratch;

static kiln_tensor **take(scratch *self)
{
    return &self->all[self->count++];
}

static void scratch_fini(scratch *self)
{
    for (size_t i = 0; i < self->count; i++) {
        kiln_release(self->all[i]);
    }
}

/// Part `number` of [rows, context, 3 * width], by heads: [rows, heads, context, width / heads].
static kiln_status take_heads(const gpt_shape *shape, kiln_tensor *all, int64_t number,
                              kiln_tensor **out_part, kiln_error *err)
{
    const int64_t starts[] = {0, 0, number * shape->width};
    const int64_t ends[] = {INT64_MAX, INT64_MAX, (number + 1) * shape->width};
    const int64_t by_head[] = {-1, shape->context, shape->heads, shape->width / shape->heads};
    const int64_t axes[] = {0, 2, 1, 3};
    scratch t = {.count = 0};
    kiln_status status = KILN_STATUS_OK;
    kiln_tensor **part = take(&t);
    kiln_tensor **split = take(&t);
    KILN_TRY(out, status, kiln_slice(all, starts, 3, ends, 3, NULL, 0, part, err));
    KILN_TRY(out, status, kiln_reshape(*part, by_head, 4, split, err));
    KILN_TRY(out, status, kiln_permute(*split, axes, 4, out_part, err));
out:
    scratch_fini(&t);
    return status;
}

/// What each place learns from those before it.
static kiln_status look_back(const gpt_shape *shape, kiln_tensor *const *p, kiln_tensor *x,
                             kiln_tensor **out_sum, kiln_error *err)
{
    const int64_t axes[] = {0, 2, 1, 3};
    const int64_t joined[] = {-1, shape->context, shape->width};
    scratch t = {.count = 0};
    kiln_tensor *parts[3] = {NULL};
    kiln_status status = KILN_STATUS_OK;
    kiln_tensor **normed = take(&t);
    kiln_tensor **all = take(&t);
    kiln_tensor **seen = take(&t);
    kiln_tensor **turned = take(&t);
    kiln_tensor **rows = take(&t);
    kiln_tensor **made = take(&t);
    KILN_TRY(out, status, kiln_layer_norm(x, p[NORM1_SCALE], p[NORM1_BIAS], -1, 1e-5, normed, err));
    KILN_TRY(out, status, kiln_linear(*normed, p[LOOK], p[LOOK_BIAS], all, err));
    for (int i = 0; i < 3; i++) {
        KILN_TRY(out, status, take_heads(shape, *all, i, &parts[i], err));
    }
    KILN_TRY(out, status,
             kiln_attention(parts[0], parts[1], parts[2], NULL, NULL, /*scale=*/0, /*softcap=*/0,
                            /*causal=*/true, seen, err));
    KILN_TRY(out, status, kiln_permute(*seen, axes, 4, turned, err));
    KILN_TRY(out, status, kiln_reshape(*turned, joined, 3, rows, err));
    KILN_TRY(out, status, kiln_linear(*rows, p[JOIN], p[JOIN_BIAS], made, err));
    KILN_TRY(out, status, kiln_add(x, *made, out_sum, err));
out:
    for (int i = 0; i < 3; i++) {
        kiln_release(parts[i]);
    }
    scratch_fini(&t);
    return status;
}

/// What each place makes of what it has.
static kiln_status think(kiln_tensor *const *p, kiln_tensor *x, kiln_tensor **out_sum,
                         kiln_error *err)
{
    scratch t = {.count = 0};
    kiln_status status = KILN_STATUS_OK;
    kiln_tensor **normed = take(&t);
    kiln_tensor **wide = take(&t);
    kiln_tensor **bent = take(&t);
    kiln_tensor **made = take(&t);
    KILN_TRY(out, status, kiln_layer_norm(x, p[NORM2_SCALE], p[NORM2_BIAS], -1, 1e-5, normed, err));
    KILN_TRY(out, status, kiln_linear(*normed, p[WIDEN], p[WIDEN_BIAS], wide, err));
    KILN_TRY(out, status, kiln_gelu(*wide, /*approximate=*/true, bent, err));
    KILN_TRY(out, status, kiln_linear(*bent, p[NARROW], p[NARROW_BIAS], made, err));
    KILN_TRY(out, status, kiln_add(x, *made, out_sum, err));
out:
    scratch_fini(&t);
    return status;
}

static kiln_status layer(const gpt_shape *shape, const kiln_params *params, int64_t number,
                         kiln_tensor **x, kiln_error *err)
{
    kiln_tensor *p[LAYER_PARAMS];
    kiln_tensor *middle = NULL;
    kiln_tensor *after = NULL;
    for (size_t i = 0; i < LAYER_PARAMS; i++) {
        p[i] = kiln_params_tensor(params, FIRST_LAYER + (size_t)number * LAYER_PARAMS + i);
    }
    kiln_status status = look_back(shape, p, *x, &middle, err);
    if (status == KILN_STATUS_OK) {
        status = think(p, middle, &after, err);
    }
    kiln_release(middle);
    if (status == KILN_STATUS_OK) {
        kiln_release(*x);
        *x = after;
    }
    return status;
}

kiln_status gpt_forward(const gpt_shape *shape, const kiln_params *params, kiln_tensor *tokens,
                        kiln_tensor **out_scores, kiln_error *err)
{
    const size_t last = FIRST_LAYER + (size_t)shape->layers * LAYER_PARAMS;
    const int64_t flat[] = {-1, shape->width};
    scratch t = {.count = 0};
    kiln_tensor *x = NULL;
    kiln_status status = KILN_STATUS_OK;
    kiln_tensor **looked_up = take(&t);
    kiln_tensor **normed = take(&t);
    kiln_tensor **rows = take(&t);
    KILN_TRY(out, status,
             kiln_embedding(kiln_params_tensor(params, TOKENS), tokens, looked_up, err));
    KILN_TRY(out, status, kiln_add(*looked_up, kiln_params_tensor(params, PLACES), &x, err));
    for (int64_t i = 0; i < shape->layers; i++) {
        KILN_TRY(out, status, layer(shape, params, i, &x, err));
    }
    KILN_TRY(out, status,
             kiln_layer_norm(x, kiln_params_tensor(params, last),
                             kiln_params_tensor(params, last + 1), -1, 1e-5, normed, err));
    KILN_TRY(out, status, kiln_reshape(*normed, flat, 2, rows, err));
    KILN_TRY(
        out, status,
        kiln_matmul(*rows, kiln_params_tensor(params, last + 2), false, false, out_scores, err));
out:
    kiln_release(x);
    scratch_fini(&t);
    return status;
}

kiln_status gpt_loss(kiln_tensor *scores, kiln_tensor *targets, kiln_tensor **out_loss,
                     kiln_error *err)
{
    scratch t = {.count = 0};
    kiln_status status = KILN_STATUS_OK;
    kiln_tensor **logs = take(&t);
    kiln_tensor **chosen = take(&t);
    kiln_tensor **mean = take(&t);
    KILN_TRY(out, status, kiln_log_softmax(scores, /*axis=*/1, logs, err));
    KILN_TRY(out, status, kiln_gather(*logs, targets, /*axis=*/1, chosen, err));
    KILN_TRY(out, status, kiln_mean(*chosen, NULL, 0, /*keepdims=*/false, mean, err));
    KILN_TRY(out, status, kiln_neg(*mean, out_loss, err));
out:
    scratch_fini(&t);
    return status;
}
