// SPDX-License-Identifier: MIT OR Apache-2.0
// Sample calls of linear layers, their derivatives and attention: every rank, nothing to sum, masks
// that broadcast, more keys than queries.
#include "samples_internal.h"

static const kilni_sample_tensor linear_xs[] = {
    {.rank = 1, .dims = {7}, .fill = KILNI_FILL_SMALL},
    {.rank = 2, .dims = {5, 33}, .fill = KILNI_FILL_SMALL},
    {.rank = 3, .dims = {2, 3, 16}, .fill = KILNI_FILL_SMALL},
    {.rank = 2, .dims = {0, 4}, .fill = KILNI_FILL_SMALL},
    {.rank = 2, .dims = {3, 0}, .fill = KILNI_FILL_SMALL},
    {.rank = 4, .dims = {2, 1, 3, 1}, .fill = KILNI_FILL_SMALL},
};
enum { N_XS = sizeof(linear_xs) / sizeof(linear_xs[0]) };

static kilni_sample_tensor with_last(kilni_sample_tensor x, int64_t last)
{
    x.dims[x.rank - 1] = last;
    return x;
}

void kiln_samples_linear(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    for (unsigned i = 0; i < N_XS; i++) {
        int64_t in = linear_xs[i].dims[linear_xs[i].rank - 1];
        int64_t out = 1 + 8 * (int64_t)i;
        const kilni_sample_tensor weight = {.rank = 2, .dims = {in, out}, .fill = KILNI_FILL_SMALL};
        const kilni_sample_tensor bias = {.rank = 1, .dims = {out}, .fill = KILNI_FILL_SMALL};
        const kilni_sample_tensor grad = with_last(linear_xs[i], out);
        const kilni_sample_tensor forward[] = {linear_xs[i], weight, bias};
        const kilni_sample_tensor by_x[] = {grad, weight};
        const kilni_sample_tensor by_weight[] = {linear_xs[i], grad};
        switch (op) {
        case KILN_OP_LINEAR:
            kilni_sample_emit(sink, op, dtype, forward, i % 3 == 2 ? 2 : 3, NULL);
            break;
        case KILN_OP_LINEAR_X_BACKWARD:
            kilni_sample_emit(sink, op, dtype, by_x, 2, NULL);
            break;
        case KILN_OP_LINEAR_WEIGHT_BACKWARD:
            kilni_sample_emit(sink, op, dtype, by_weight, 2, NULL);
            break;
        default:
            kilni_sample_emit(sink, op, dtype, &grad, 1, NULL);
            break;
        }
    }
}

typedef struct attention_case {
    int64_t batch[2];
    uint8_t n_batch;
    int64_t queries, keys, length, values;
    uint16_t n_inputs;
    double scale, softcap;
    bool causal;
} attention_case;

void kiln_samples_attention(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const attention_case cases[] = {
        {{0}, 0, 4, 4, 8, 8, 3, 0, 0, false},      {{2, 3}, 2, 5, 7, 4, 6, 3, 0, 0, true},
        {{2, 3}, 2, 5, 7, 4, 6, 4, 0.5, 0, false}, {{1, 2}, 2, 9, 9, 16, 1, 5, 0, 2, false},
        {{3}, 1, 1, 17, 3, 5, 5, 0, 30, true},     {{2}, 1, 0, 3, 2, 2, 3, 0, 0, false},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const attention_case *c = &cases[i];
        const int64_t last[5][2] = {{c->queries, c->length},
                                    {c->keys, c->length},
                                    {c->keys, c->values},
                                    {c->queries, c->keys},
                                    {i % 2 == 0 ? 1 : c->queries, c->keys}};
        const kiln_attr attrs[] = {
            c->scale == 0 ? kilni_attr_none() : kilni_attr_f64(c->scale),
            c->softcap == 0 ? kilni_attr_none() : kilni_attr_f64(c->softcap),
            kilni_attr_bool(c->causal),
        };
        kilni_sample_tensor inputs[5];
        for (unsigned k = 0; k < 5; k++) {
            inputs[k] =
                (kilni_sample_tensor){.rank = (uint8_t)(c->n_batch + 2u), .fill = KILNI_FILL_SMALL};
            for (unsigned b = 0; b < c->n_batch; b++) {
                inputs[k].dims[b] = c->batch[b];
            }
            inputs[k].dims[c->n_batch] = last[k][0];
            inputs[k].dims[c->n_batch + 1] = last[k][1];
        }
        inputs[3].dtype = KILN_DTYPE_BOOL;
        inputs[3].fill = KILNI_FILL_MASK;
        kilni_sample_emit(sink, op, dtype, inputs, c->n_inputs, attrs);
    }
}
