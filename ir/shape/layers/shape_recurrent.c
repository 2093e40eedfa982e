// SPDX-License-Identifier: MIT OR Apache-2.0
// Shapes and attributes of lstm, gru and rnn: directions, names of activations with the numbers
// that they take, lengths that must meet.
#include "recurrent.h"
#include "shape_internal.h"

#include <inttypes.h>
#include <string.h>

static const struct {
    const char *name;
    bool takes_alpha;
    bool takes_beta;
    double alpha;
    double beta;
} known[KILNI_ACTIVATIONS] = {
    [KILNI_RELU] = {"relu", false, false, 0, 0},
    [KILNI_TANH] = {"tanh", false, false, 0, 0},
    [KILNI_SIGMOID] = {"sigmoid", false, false, 0, 0},
    [KILNI_AFFINE] = {"affine", true, true, 1, 0},
    [KILNI_LEAKY_RELU] = {"leakyrelu", true, false, 0.01, 0},
    [KILNI_THRESHOLDED_RELU] = {"thresholdedrelu", true, false, 1, 0},
    [KILNI_SCALED_TANH] = {"scaledtanh", true, true, 1, 1},
    [KILNI_HARD_SIGMOID] = {"hardsigmoid", true, true, 0.2, 0.5},
    [KILNI_ELU] = {"elu", true, false, 1, 0},
    [KILNI_SOFTSIGN] = {"softsign", false, false, 0, 0},
    [KILNI_SOFTPLUS] = {"softplus", false, false, 0, 0},
};

/// Whether text begins with a name, in any case, followed by a comma or the end.
static size_t name_length(const char *text, const char *name)
{
    size_t i = 0;
    for (; name[i] != '\0'; i++) {
        char c = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] - 'A' + 'a') : text[i];
        if (c != name[i]) {
            return 0;
        }
    }
    return text[i] == ',' || text[i] == '\0' ? i : 0;
}

static void usual_activations(kilni_recurrent *r)
{
    for (unsigned d = 0; d < 2; d++) {
        for (unsigned i = 0; i < r->n_activations; i++) {
            bool gate = i == 0 && r->gates > 1;
            r->activations[d][i].kind = gate ? KILNI_SIGMOID : KILNI_TANH;
        }
    }
}

/// The next number of a list for an activation that takes one.
static double number_of(const kiln_op_record *call, kiln_attr_key key, uint32_t *taken, bool takes,
                        double usual)
{
    const kiln_attr *list = kiln_op_attr(call, key);
    if (takes && list->type == KILN_ATTR_F64_LIST && *taken < list->count) {
        return list->v.floats[(*taken)++];
    }
    return usual;
}

static kiln_status read_activations(const kiln_op_record *call, kilni_recurrent *r, kiln_error *err)
{
    const char *text = kilni_ir_text(call, KILN_KEY_ACTIVATIONS);
    uint32_t taken[2] = {0, 0};
    usual_activations(r);
    for (unsigned i = 0; *text != '\0'; i++) {
        unsigned kind = 0;
        while (kind < KILNI_ACTIVATIONS && name_length(text, known[kind].name) == 0) {
            kind++;
        }
        if (kind == KILNI_ACTIVATIONS || i == r->n_activations * r->directions) {
            return kiln_fail(err, INVALID_ARGUMENT,
                             "%s: activations \"%.40s\" are unknown or too many",
                             kilni_ir_op_name(call), text);
        }
        r->activations[i / r->n_activations][i % r->n_activations] = (kilni_activation){
            .kind = (kilni_activation_kind)kind,
            .alpha = number_of(call, KILN_KEY_ALPHAS, &taken[0], known[kind].takes_alpha,
                               known[kind].alpha),
            .beta = number_of(call, KILN_KEY_BETAS, &taken[1], known[kind].takes_beta,
                              known[kind].beta),
        };
        text += strlen(known[kind].name);
        text += *text == ',' ? 1 : 0;
    }
    return KILN_STATUS_OK;
}

static kiln_status read_direction(const kiln_op_record *call, kilni_recurrent *r, kiln_error *err)
{
    const char *text = kilni_ir_text(call, KILN_KEY_DIRECTION);
    bool both = strcmp(text, "bidirectional") == 0;
    if (!both && strcmp(text, "forward") != 0 && strcmp(text, "reverse") != 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: direction \"%.40s\" is unknown",
                         kilni_ir_op_name(call), text);
    }
    r->directions = both ? 2 : 1;
    r->reverse[0] = strcmp(text, "reverse") == 0;
    r->reverse[1] = true;
    return KILN_STATUS_OK;
}

/// Input `index` has these lengths, or rank 0 when it may stand for the same everywhere.
static kiln_status check_input(const kiln_op_record *call, unsigned index, uint32_t rank,
                               const int64_t *dims, bool or_one, kiln_error *err)
{
    const kiln_tensor_desc *input = &call->inputs[index];
    char text[2][KILNI_IR_SHAPE_TEXT];
    if ((or_one && input->rank == 0) ||
        (input->rank == rank && memcmp(input->dims, dims, rank * sizeof(dims[0])) == 0)) {
        return KILN_STATUS_OK;
    }
    return kiln_fail(err, INVALID_ARGUMENT, "%s: %s has the shape %s, it needs %s",
                     kilni_ir_op_name(call), kiln_op_info_of(call->op)->signature->inputs[index],
                     kilni_ir_desc_text(input, text[0]), kilni_ir_dims_text(dims, rank, text[1]));
}

static kiln_status check_inputs(const kiln_op_record *call, const kilni_recurrent *r,
                                kiln_error *err)
{
    const int64_t d = r->directions;
    const int64_t rows = r->gates * r->hidden;
    const int64_t weight[] = {d, rows, r->inputs};
    const int64_t recurrence[] = {d, rows, r->hidden};
    const int64_t bias[] = {d, 2 * rows};
    const int64_t state[] = {d, r->batch, r->hidden};
    const int64_t peephole[] = {d, 3 * r->hidden};
    kiln_status status = check_input(call, 1, 3, weight, false, err);
    if (status == KILN_STATUS_OK) {
        status = check_input(call, 2, 3, recurrence, false, err);
    }
    if (status == KILN_STATUS_OK && r->bias != 0) {
        status = check_input(call, r->bias, 2, bias, true, err);
    }
    if (status == KILN_STATUS_OK && r->initial_h != 0) {
        status = check_input(call, r->initial_h, 3, state, true, err);
    }
    if (status == KILN_STATUS_OK && r->initial_c != 0) {
        status = check_input(call, r->initial_c, 3, state, true, err);
    }
    if (status == KILN_STATUS_OK && r->peephole != 0) {
        status = check_input(call, r->peephole, 2, peephole, true, err);
    }
    if (status == KILN_STATUS_OK && r->lengths != 0) {
        status = check_input(call, r->lengths, 1, &r->batch, false, err);
    }
    return status;
}

static unsigned given(const kiln_op_record *call, unsigned index)
{
    return index < call->n_inputs ? index : 0;
}

kiln_status kilni_ir_recurrent_of(const kiln_op_record *call, kilni_recurrent *out_recurrent,
                                  kiln_error *err)
{
    const kiln_tensor_desc *x = &call->inputs[0];
    const kiln_tensor_desc *recurrence = &call->inputs[2];
    bool lstm = call->op == KILN_OP_LSTM;
    kilni_recurrent r = {.gates = lstm ? 4 : call->op == KILN_OP_GRU ? 3 : 1};
    if (x->rank != 3 || recurrence->rank != 3) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: x and recurrence need rank 3, not %u and %u",
                         kilni_ir_op_name(call), x->rank, recurrence->rank);
    }
    r.n_activations = lstm ? 3 : r.gates == 3 ? 2 : 1;
    r.steps = x->dims[0];
    r.batch = x->dims[1];
    r.inputs = x->dims[2];
    r.hidden = recurrence->dims[2];
    r.clip = kiln_op_attr_f64(call, KILN_KEY_CLIP);
    r.input_forget = lstm && kiln_op_attr_i64(call, KILN_KEY_INPUT_FORGET) != 0;
    r.reset_after = r.gates == 3 && kiln_op_attr_i64(call, KILN_KEY_RESET_AFTER) != 0;
    r.bias = given(call, 3);
    r.initial_h = given(call, 4);
    r.initial_c = lstm ? given(call, 5) : 0;
    r.peephole = lstm ? given(call, 6) : 0;
    r.lengths = given(call, lstm ? 7 : 5);
    kiln_status status = read_direction(call, &r, err);
    if (status == KILN_STATUS_OK) {
        status = read_activations(call, &r, err);
    }
    *out_recurrent = r;
    return status == KILN_STATUS_OK ? check_inputs(call, &r, err) : status;
}

kiln_status kiln_shape_recurrent(const kiln_op_record *call, kiln_tensor_desc *outputs,
                                 kiln_error *err)
{
    kilni_recurrent r;
    kiln_status status = kilni_ir_recurrent_of(call, &r, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    const int64_t all[] = {r.steps, r.directions, r.batch, r.hidden};
    outputs[0].rank = 4;
    memcpy(outputs[0].dims, all, sizeof(all));
    for (unsigned i = 1; i < kiln_op_info_of(call->op)->n_outputs; i++) {
        outputs[i].rank = 3;
        memcpy(outputs[i].dims, all + 1, 3 * sizeof(all[0]));
    }
    return KILN_STATUS_OK;
}
