// SPDX-License-Identifier: MIT OR Apache-2.0
// Sample calls of the normalisations, their derivatives, and those of softmax: short and long rows,
// one element, no elements, every way in which scale and bias may be given.
#include "samples_internal.h"

void kiln_samples_axis_backward(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    static const struct {
        kilni_sample_tensor x;
        int64_t axis;
    } cases[] = {
        {{.rank = 1, .dims = {1}}, 0},       {{.rank = 1, .dims = {10}}, -1},
        {{.rank = 2, .dims = {5, 300}}, 1},  {{.rank = 2, .dims = {37, 5}}, 0},
        {{.rank = 3, .dims = {2, 0, 3}}, 1}, {{.rank = 4, .dims = {2, 3, 4, 5}}, -3},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        kilni_sample_tensor inputs[2] = {cases[i].x, cases[i].x};
        kiln_attr axis = i == 1 ? kilni_attr_none() : kilni_attr_i64(cases[i].axis);
        inputs[0].fill = KILNI_FILL_POSITIVE;
        inputs[1].fill = KILNI_FILL_SMALL;
        kilni_sample_emit(sink, op, dtype, inputs, 2, &axis);
    }
}

// ---- normalisations ----

typedef struct norm_case {
    kilni_sample_tensor x;
    int64_t axis; ///< of layer_norm and rms_norm
    int64_t groups; ///< of group_norm
    uint16_t n_params; ///< 0 to 2
    bool full; ///< parameters of the largest shape, else of rank 0
} norm_case;

static const norm_case norm_cases[] = {
    {{.rank = 2, .dims = {4, 6}}, -1, 2, 2, true},
    {{.rank = 3, .dims = {3, 4, 301}}, -1, 2, 2, true},
    {{.rank = 2, .dims = {7, 1}}, 1, 1, 1, true},
    {{.rank = 4, .dims = {2, 6, 3, 5}}, -2, 2, 2, true},
    {{.rank = 4, .dims = {2, 6, 3, 5}}, 1, 6, 0, true},
    {{.rank = 3, .dims = {2, 4, 7}}, 0, 4, 2, false},
    {{.rank = 3, .dims = {5, 2, 16}}, 2, 1, 1, false},
    {{.rank = 3, .dims = {0, 2, 5}}, 2, 2, 2, true},
    {{.rank = 2, .dims = {70, 1100}}, -1, 10, 2, true},
};

static bool by_last_axes(kiln_op op)
{
    return op == KILN_OP_LAYER_NORM || op == KILN_OP_RMS_NORM ||
           op == KILN_OP_LAYER_NORM_BACKWARD || op == KILN_OP_RMS_NORM_BACKWARD;
}

static kilni_sample_tensor parameter_of(kiln_op op, const norm_case *c)
{
    kilni_sample_tensor result = {.fill = KILNI_FILL_POSITIVE};
    if (!c->full) {
        return result;
    }
    if (!by_last_axes(op)) {
        result.rank = 1;
        result.dims[0] = c->x.dims[1];
        return result;
    }
    int64_t first = c->axis < 0 ? c->axis + c->x.rank : c->axis;
    for (int64_t i = first; i < c->x.rank; i++) {
        result.dims[result.rank++] = c->x.dims[i];
    }
    return result;
}

static void emit_norm(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink, const norm_case *c,
                      kiln_attr epsilon)
{
    const kiln_op_signature *signature = kiln_op_info_of(op)->signature;
    bool backward = signature->outputs[1] != NULL && op != KILN_OP_BATCH_NORM_TRAIN;
    kilni_sample_tensor inputs[5];
    uint16_t count = 1;
    kiln_attr attrs[2] = {epsilon, kilni_attr_none()};
    inputs[0] = c->x;
    inputs[1] = c->x;
    count = backward ? 2 : 1;
    uint16_t n_params = op == KILN_OP_BATCH_NORM_TRAIN ? 4 : c->n_params;
    while (n_params > 0 && count < signature->max_inputs) {
        inputs[count++] = parameter_of(op, c);
        n_params--;
    }
    if (by_last_axes(op)) {
        attrs[0] = c->axis == -1 ? kilni_attr_none() : kilni_attr_i64(c->axis);
        attrs[1] = epsilon;
    } else if (signature->attrs[0].key == KILN_KEY_GROUPS) {
        attrs[0] = kilni_attr_i64(c->groups);
        attrs[1] = epsilon;
    } else if (op == KILN_OP_BATCH_NORM_TRAIN && c->groups > 1) {
        attrs[1] = kilni_attr_f64(0.75);
    }
    kilni_sample_emit(sink, op, dtype, inputs, count, attrs);
}

void kiln_samples_norm(kiln_op op, kiln_dtype dtype, kiln_sample_sink *sink)
{
    for (unsigned i = 0; i < sizeof(norm_cases) / sizeof(norm_cases[0]); i++) {
        norm_case c = norm_cases[i];
        c.x.fill = KILNI_FILL_SMALL;

        kiln_attr epsilon = i % 2 == 0 ? kilni_attr_none() : kilni_attr_f64(0.03125);
        emit_norm(op, dtype, sink, &c, epsilon);
    }
}
