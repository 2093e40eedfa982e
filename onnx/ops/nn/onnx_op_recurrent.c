// SPDX-License-Identifier: MIT OR Apache-2.0
// ONNX's LSTM, GRU, RNN and Einsum. Decides how inputs that are left out are said to our operators,
// and where layout 1 moves the batch.
#include "onnx_import.h"

#include <string.h>

enum { MAX_INPUTS = 8, MAX_ACTIVATIONS = 6, MAX_TEXT = 160 };

/// Names with commas between them.
static kiln_attr joined_names(kilni_onnx_call *call, char out_text[MAX_TEXT])
{
    const kilni_onnx_attr *list = kilni_onnx_attr_find(call, "activations");
    size_t length = 0;
    if (list == NULL || list->count == 0) {
        return kilni_attr_none();
    }
    for (uint32_t i = 0; i < list->count; i++) {
        size_t more = strlen(list->texts[i]);
        if (length + more + 2 > MAX_TEXT) {
            KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "the names of activations are too long");
            return kilni_attr_none();
        }
        memcpy(out_text + length, list->texts[i], more);
        length += more;
        out_text[length++] = ',';
    }
    out_text[--length] = '\0';
    return (kiln_attr){.type = KILN_ATTR_STRING, .count = (uint32_t)length, .v.text = out_text};
}

static kiln_attr number_list(kilni_onnx_call *call, const char *name,
                             double out_numbers[MAX_ACTIVATIONS])
{
    const kilni_onnx_attr *list = kilni_onnx_attr_find(call, name);
    uint32_t count = list == NULL ? 0 : list->count;
    if (count > MAX_ACTIVATIONS) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "%u numbers in %s", count, name);
        count = 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        out_numbers[i] = (double)list->floats[i];
    }
    return kilni_attr_floats(out_numbers, count);
}

/// Axes 0 and 1 change places when the batch comes first.
static kilni_onnx_ref turned(kilni_onnx_call *call, kilni_onnx_ref x)
{
    static const int64_t axes[] = {1, 0, 2};
    bool batch_first = kilni_onnx_attr_int(call, "layout", 0) != 0;
    return x == NULL || !batch_first ? x : kilni_onnx_permute(call, x, axes, 3);
}

/// Our order: x, weight, recurrence, bias, states, peephole, lengths. What is left out before
/// something that is there becomes a zero of rank 0.
static uint32_t take_recurrent_inputs(kilni_onnx_call *call, bool lstm,
                                      kilni_onnx_ref out[MAX_INPUTS])
{
    kilni_onnx_ref all[MAX_INPUTS] = {turned(call, kilni_onnx_in(call, 0)), kilni_onnx_in(call, 1),
                                      kilni_onnx_in(call, 2), kilni_onnx_opt(call, 3),
                                      turned(call, kilni_onnx_opt(call, 5))};
    uint32_t last = lstm ? 7 : 5;
    uint32_t count = MAX_INPUTS;
    if (!kilni_onnx_ok(call)) {
        return 0;
    }
    if (lstm) {
        all[5] = turned(call, kilni_onnx_opt(call, 6));
        all[6] = kilni_onnx_opt(call, 7);
    }
    all[last] = kilni_onnx_opt(call, 4);
    while (count > 3 && all[count - 1] == NULL) {
        count--;
    }
    for (uint32_t i = 0; i < count; i++) {
        out[i] = all[i] != NULL ? all[i] : kilni_onnx_scratch(call, all[0]->desc.dtype, 0, NULL);
    }
    return count;
}

static void recurrent(kilni_onnx_call *call, kiln_op op, const char *flag)
{
    static const int64_t values_axes[] = {2, 0, 1, 3};
    char names[MAX_TEXT];
    double alphas[MAX_ACTIVATIONS];
    double betas[MAX_ACTIVATIONS];
    kilni_onnx_ref inputs[MAX_INPUTS];
    kilni_onnx_ref results[KILN_MAX_OUTPUTS] = {NULL};
    const kiln_attr attrs[] = {
        kilni_attr_text(kilni_onnx_attr_text(call, "direction", "forward")),
        joined_names(call, names),
        number_list(call, "activation_alpha", alphas),
        number_list(call, "activation_beta", betas),
        kilni_attr_f64(kilni_onnx_attr_float(call, "clip", 0)),
        kilni_attr_bool(flag != NULL && kilni_onnx_attr_int(call, flag, 0) != 0),
    };
    uint32_t count = take_recurrent_inputs(call, op == KILN_OP_LSTM, inputs);
    kilni_onnx_emit_many(call, op, inputs, count, attrs, flag != NULL ? 6 : 5, results);
    if (kilni_onnx_attr_int(call, "layout", 0) != 0) {
        results[0] = kilni_onnx_permute(call, results[0], values_axes, 4);
    }
    for (uint32_t i = 0; i < (op == KILN_OP_LSTM ? 3u : 2u); i++) {
        if (kilni_onnx_wants(call, i)) {
            kilni_onnx_out(call, i, i == 0 ? results[0] : turned(call, results[i]));
        }
    }
}

void kilni_onnx_op_lstm(kilni_onnx_call *call)
{
    recurrent(call, KILN_OP_LSTM, "input_forget");
}

void kilni_onnx_op_gru(kilni_onnx_call *call)
{
    recurrent(call, KILN_OP_GRU, "linear_before_reset");
}

void kilni_onnx_op_rnn(kilni_onnx_call *call)
{
    recurrent(call, KILN_OP_RNN, NULL);
}

void kilni_onnx_op_einsum(kilni_onnx_call *call)
{
    const kiln_attr equation = kilni_attr_text(kilni_onnx_attr_text(call, "equation", ""));
    kilni_onnx_ref inputs[KILN_MAX_INPUTS];
    if (call->n_inputs > KILN_MAX_INPUTS) {
        KILNI_ONNX_FAIL(call, UNIMPLEMENTED, "%u inputs, the limit is %d", call->n_inputs,
                        KILN_MAX_INPUTS);
        return;
    }
    for (uint32_t i = 0; i < call->n_inputs; i++) {
        inputs[i] = kilni_onnx_in(call, i);
    }
    kilni_onnx_out(call, 0,
                   kilni_onnx_emit(call, KILN_OP_EINSUM, inputs, call->n_inputs, &equation, 1));
}
