// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads an einsum's equation, as NumPy writes it: a letter for each axis, "..." for axes that
// broadcast, spaces ignored; without "->" the result has the broadcast axes and then, in
// alphabetical order, the letters that occur once.
#include "einsum_internal.h"

#include <string.h>

enum { N_LETTERS = 52 };

static int letter_of(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1;
}

static kiln_status refuse(const kiln_op_record *call, const char *why, kiln_error *err)
{
    return kiln_fail(err, INVALID_ARGUMENT, "einsum: \"%.80s\": %s",
                     kilni_ir_text(call, KILN_KEY_EQUATION), why);
}

/// One side of a comma or arrow: letters in order, where "..." stands among them (or past them
/// all), and whether it is there.
typedef struct term {
    uint8_t letters[KILN_MAX_RANK];
    uint32_t count;
    uint32_t dots_at;
    bool dots;
} term;

/// Reads up to a comma, an arrow or the end, and gives how far that is; -1 when it makes no sense.
static int read_term(const char *text, term *out_term)
{
    int at = 0;
    memset(out_term, 0, sizeof(*out_term));
    for (; text[at] != '\0' && text[at] != ',' && text[at] != '-'; at++) {
        if (text[at] == ' ') {
            continue;
        }
        if (strncmp(text + at, "...", 3) == 0 && !out_term->dots) {
            out_term->dots = true;
            out_term->dots_at = out_term->count;
            at += 2;
            continue;
        }
        if (letter_of(text[at]) < 0 || out_term->count == KILN_MAX_RANK) {
            return -1;
        }
        out_term->letters[out_term->count++] = (uint8_t)letter_of(text[at]);
    }
    return at;
}

/// Labels of an operand of `rank` axes; false when the term has another number of letters.
static bool label_axes(const term *t, uint32_t rank, uint8_t *out_labels)
{
    uint32_t hidden = rank - t->count;
    if (t->count > rank || (hidden > 0 && !t->dots)) {
        return false;
    }
    for (uint32_t i = 0; i < rank; i++) {
        bool before = i < t->dots_at || !t->dots;
        bool under = !before && i < t->dots_at + hidden;
        out_labels[i] = before  ? t->letters[i]
                        : under ? (uint8_t)(N_LETTERS + hidden - 1 - (i - t->dots_at))
                                : t->letters[i - hidden];
    }
    return true;
}

static kiln_status take_input(const kiln_op_record *call, unsigned index, const term *t,
                              uint32_t *times, kilni_einsum *e, kiln_error *err)
{
    const kiln_tensor_desc *input = &call->inputs[index];
    if (!label_axes(t, input->rank, e->labels[index])) {
        return refuse(call, "an input has another number of axes", err);
    }
    for (uint32_t i = 0; i < input->rank; i++) {
        uint8_t label = e->labels[index][i];
        bool seen = (e->used >> label & 1u) != 0;
        int64_t *length = &e->length[label];
        if (seen && *length != input->dims[i] && *length != 1 && input->dims[i] != 1) {
            return refuse(call, "one letter stands for different lengths", err);
        }
        for (uint32_t k = 0; k < i; k++) {
            if (e->labels[index][k] == label && input->dims[k] != input->dims[i]) {
                return refuse(call, "a diagonal needs equal lengths", err);
            }
        }
        *length = seen && input->dims[i] == 1 ? *length : input->dims[i];
        e->used |= UINT64_C(1) << label;
        times[label]++;
    }
    return KILN_STATUS_OK;
}

/// The result's axes when no arrow says them.
static bool implied_output(kilni_einsum *e, const uint32_t *times)
{
    for (uint32_t i = KILNI_EINSUM_LABELS; i-- > N_LETTERS;) {
        if (times[i] > 0) {
            e->out_labels[e->out_rank++] = (uint8_t)i;
        }
    }
    for (uint32_t i = 0; i < N_LETTERS; i++) {
        if (times[i] == 1) {
            if (e->out_rank == KILN_MAX_RANK) {
                return false;
            }
            e->out_labels[e->out_rank++] = (uint8_t)i;
        }
    }
    return true;
}

static kiln_status explicit_output(const kiln_op_record *call, const char *text, kilni_einsum *e,
                                   kiln_error *err)
{
    term t;
    uint32_t hidden = 0;
    uint64_t taken = 0;
    int length = read_term(text, &t);
    while ((e->used >> (N_LETTERS + hidden)) != 0) {
        hidden++;
    }
    hidden = t.dots ? hidden : 0;
    if (length < 0 || text[length] != '\0' || t.count + hidden > KILN_MAX_RANK ||
        !label_axes(&t, t.count + hidden, e->out_labels)) {
        return refuse(call, "the result's axes make no sense", err);
    }
    e->out_rank = t.count + hidden;
    for (uint32_t i = 0; i < e->out_rank; i++) {
        uint64_t bit = UINT64_C(1) << e->out_labels[i];
        if ((e->used & bit) == 0 || (taken & bit) != 0) {
            return refuse(call, "a letter of the result is in no input, or there twice", err);
        }
        taken |= bit;
    }
    return KILN_STATUS_OK;
}

kiln_status kilni_ir_einsum_of(const kiln_op_record *call, kilni_einsum *out_einsum,
                               kiln_error *err)
{
    const char *text = kilni_ir_text(call, KILN_KEY_EQUATION);
    uint32_t times[KILNI_EINSUM_LABELS] = {0};
    memset(out_einsum, 0, sizeof(*out_einsum));
    out_einsum->n_inputs = call->n_inputs;
    for (unsigned i = 0; i < call->n_inputs; i++) {
        term t;
        int length = read_term(text, &t);
        if (length < 0) {
            return refuse(call, "only letters, commas, one ... for each input, and -> are known",
                          err);
        }
        kiln_status status = take_input(call, i, &t, times, out_einsum, err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        text += length;
        if ((*text == ',') != (i + 1 < call->n_inputs)) {
            return refuse(call, "it has not as many terms as there are inputs", err);
        }
        text += *text == ',' ? 1 : 0;
    }
    if (*text == '\0') {
        return implied_output(out_einsum, times)
                   ? KILN_STATUS_OK
                   : refuse(call, "the result has too many axes", err);
    }
    return strncmp(text, "->", 2) == 0 ? explicit_output(call, text + 2, out_einsum, err)
                                       : refuse(call, "after the inputs stands -> or nothing", err);
}

kiln_status kiln_shape_einsum(const kiln_op_record *call, kiln_tensor_desc *outputs,
                              kiln_error *err)
{
    kilni_einsum e;
    kiln_status status = kilni_ir_einsum_of(call, &e, err);
    if (status == KILN_STATUS_OK) {
        outputs[0].rank = (uint8_t)e.out_rank;
        for (uint32_t i = 0; i < e.out_rank; i++) {
            outputs[0].dims[i] = e.length[e.out_labels[i]];
        }
    }
    return status;
}
