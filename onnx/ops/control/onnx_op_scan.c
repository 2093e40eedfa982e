// SPDX-License-Identifier: MIT OR Apache-2.0
// Scan: a graph over slices of its inputs, with states handed on and slices of outputs collected.
// Decides how version 8 (an axis of batches, lengths for each) is a row of runs of version 9's.
#include "onnx_run.h"

#include <string.h>

typedef struct scan {
    const kilni_onnx_plan *body;
    uint32_t first; ///< input of the node that is the first state
    uint32_t n_states;
    uint32_t n_inputs;
    uint32_t n_outputs; ///< collected
    kilni_onnx_ints input_axes;
    kilni_onnx_ints input_directions;
    kilni_onnx_ints output_axes;
    kilni_onnx_ints output_directions;
} scan;

static int64_t listed(const kilni_onnx_ints *ints, uint32_t i)
{
    return i < ints->count ? ints->v[i] : 0;
}

static void begin_scan(kilni_onnx_call *call, scan *s)
{
    int64_t count = kilni_onnx_attr_int(call, "num_scan_inputs", 0);
    uint32_t given = call->n_inputs > s->first ? call->n_inputs - s->first : 0;
    kilni_onnx_attr_ints(call, "scan_input_axes", &s->input_axes);
    kilni_onnx_attr_ints(call, call->version < 9 ? "directions" : "scan_input_directions",
                         &s->input_directions);
    kilni_onnx_attr_ints(call, "scan_output_axes", &s->output_axes);
    kilni_onnx_attr_ints(call, "scan_output_directions", &s->output_directions);
    s->body = kilni_onnx_body(call, "body", given);
    if (s->body == NULL) {
        return;
    }
    if (count < 1 || count > (int64_t)given || s->body->n_outputs < given - (uint32_t)count ||
        call->n_outputs > s->body->n_outputs) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT,
                        "%lld inputs to scan of %u, and a body that gives %u values",
                        (long long)count, given, s->body->n_outputs);
        return;
    }
    s->n_inputs = (uint32_t)count;
    s->n_states = given - s->n_inputs;
    s->n_outputs = s->body->n_outputs - s->n_states;
}

/// x[.., index, ..] without the axis
static kilni_onnx_ref at_index(kilni_onnx_call *call, kilni_onnx_ref x, uint32_t axis,
                               int64_t index)
{
    int64_t dims[KILN_MAX_RANK];
    uint32_t rank = 0;
    if (!kilni_onnx_ok(call)) {
        return NULL;
    }
    for (uint32_t i = 0; i < x->desc.rank; i++) {
        if (i != axis) {
            dims[rank++] = x->desc.dims[i];
        }
    }
    return kilni_onnx_reshape(call, kilni_onnx_slice_axis(call, x, axis, index, index + 1, 1), dims,
                              rank);
}

/// The length that all scanned inputs have.
static int64_t scan_length(kilni_onnx_call *call, const scan *s, const kilni_onnx_ref *sequences)
{
    int64_t length = 0;
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < s->n_inputs; i++) {
        uint32_t axis = kilni_onnx_axis(call, listed(&s->input_axes, i), sequences[i]->desc.rank);
        int64_t own = sequences[i]->desc.dims[axis];
        if (i > 0 && own != length) {
            KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "inputs of lengths %lld and %lld are scanned",
                            (long long)length, (long long)own);
        }
        length = own;
    }
    return length;
}

/// One round: states stay in place, replaced by the new ones.
static void scan_round(kilni_onnx_call *call, const scan *s, kilni_onnx_ref *states,
                       const kilni_onnx_ref *sequences, const int64_t place[2],
                       kilni_onnx_pile *piles)
{
    kilni_onnx_ref *inputs = kilni_onnx_refs(call, s->n_states + s->n_inputs);
    kilni_onnx_ref *outputs = kilni_onnx_refs(call, s->body->n_outputs);
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < s->n_states; i++) {
        inputs[i] = states[i];
    }
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < s->n_inputs; i++) {
        uint32_t axis = kilni_onnx_axis(call, listed(&s->input_axes, i), sequences[i]->desc.rank);
        int64_t index = listed(&s->input_directions, i) != 0 ? place[1] - 1 - place[0] : place[0];
        inputs[s->n_states + i] = at_index(call, sequences[i], axis, index);
    }
    kilni_onnx_run_body(call, s->body, inputs, outputs);
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < s->body->n_outputs; i++) {
        if (i < s->n_states) {
            kilni_onnx_release(&call->session->env, states[i]);
            states[i] = kilni_onnx_retain(outputs[i]);
        } else {
            kilni_onnx_pile_add(call, &piles[i - s->n_states], outputs[i]);
        }
    }
    kiln_free(&call->session->env, inputs);
    kilni_onnx_refs_free(call, outputs, s->body->n_outputs);
}

static void turn_around(kilni_onnx_pile *pile)
{
    for (uint32_t i = 0; i < pile->count / 2; i++) {
        kilni_onnx_ref swapped = pile->items[i];
        pile->items[i] = pile->items[pile->count - 1 - i];
        pile->items[pile->count - 1 - i] = swapped;
    }
}

/// All rounds; `stacks` are the call's temporaries.
static void scan_all(kilni_onnx_call *call, const scan *s, kilni_onnx_ref *states,
                     const kilni_onnx_ref *sequences, int64_t length, kilni_onnx_ref *stacks)
{
    kilni_onnx_pile *piles = kilni_onnx_piles(call, s->n_outputs);
    for (int64_t i = 0; kilni_onnx_ok(call) && i < length; i++) {
        const int64_t place[] = {i, length};
        scan_round(call, s, states, sequences, place, piles);
    }
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < s->n_outputs; i++) {
        if (listed(&s->output_directions, i) != 0) {
            turn_around(&piles[i]);
        }
        stacks[i] = kilni_onnx_pile_stack(
            call, &piles[i], &s->body->graph->outputs[s->n_states + i], listed(&s->output_axes, i));
    }
    kilni_onnx_piles_free(call, piles, s->n_outputs);
}

void kilni_onnx_op_scan(kilni_onnx_call *call)
{
    scan s = {.first = 0};
    begin_scan(call, &s);
    kilni_onnx_ref *states = kilni_onnx_refs(call, s.n_states);
    kilni_onnx_ref *sequences = kilni_onnx_refs(call, s.n_inputs);
    kilni_onnx_ref *stacks = kilni_onnx_refs(call, s.n_outputs);
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < s.n_states; i++) {
        states[i] = kilni_onnx_retain(kilni_onnx_in_any(call, i));
    }
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < s.n_inputs; i++) {
        sequences[i] = kilni_onnx_in(call, s.n_states + i);
    }
    if (kilni_onnx_ok(call)) {
        scan_all(call, &s, states, sequences, scan_length(call, &s, sequences), stacks);
    }
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < call->n_outputs; i++) {
        kilni_onnx_out(call, i, i < s.n_states ? states[i] : stacks[i - s.n_states]);
    }
    kilni_onnx_refs_free(call, states, s.n_states);
    kiln_free(&call->session->env, sequences);
    kiln_free(&call->session->env, stacks);
}

// ---- version 8 ----

/// What one member of the batch gives, with zeros up to `length` rounds.
static kilni_onnx_ref filled_up(kilni_onnx_call *call, kilni_onnx_ref x, int64_t length)
{
    int64_t padding[2 * KILN_MAX_RANK] = {0};
    if (!kilni_onnx_ok(call) || x->desc.dims[0] == length) {
        return x;
    }
    padding[x->desc.rank] = length - x->desc.dims[0];
    return kilni_onnx_pad(call, x, padding, "constant",
                          kilni_onnx_is_float(x) ? kiln_f64(0) : kiln_i64(0));
}

static void scan_member(kilni_onnx_call *call, const scan *s, int64_t member, int64_t length,
                        int64_t longest, kilni_onnx_pile *piles)
{
    kilni_onnx_ref *states = kilni_onnx_refs(call, s->n_states);
    kilni_onnx_ref *sequences = kilni_onnx_refs(call, s->n_inputs);
    kilni_onnx_ref *stacks = kilni_onnx_refs(call, s->n_outputs);
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < s->n_states; i++) {
        kilni_onnx_ref state = kilni_onnx_in(call, s->first + i);
        states[i] = kilni_onnx_retain(at_index(call, state, 0, member));
    }
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < s->n_inputs; i++) {
        kilni_onnx_ref input = kilni_onnx_in(call, s->first + s->n_states + i);
        sequences[i] = at_index(call, input, 0, member);
    }
    if (kilni_onnx_ok(call)) {
        scan_all(call, s, states, sequences, length, stacks);
    }
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < s->body->n_outputs; i++) {
        kilni_onnx_pile_add(call, &piles[i],
                            i < s->n_states ? states[i]
                                            : filled_up(call, stacks[i - s->n_states], longest));
    }
    kilni_onnx_refs_free(call, states, s->n_states);
    kiln_free(&call->session->env, sequences);
    kiln_free(&call->session->env, stacks);
}

/// Batch and longest length, from the scanned inputs, which have rank 2 and more.
static bool batch_of(kilni_onnx_call *call, const scan *s, int64_t out_sizes[2])
{
    for (uint32_t i = s->first; kilni_onnx_ok(call) && i < call->n_inputs; i++) {
        kilni_onnx_ref x = kilni_onnx_in(call, i);
        bool scanned = i >= s->first + s->n_states;
        uint32_t needed = scanned ? 2 : 1;
        if (x != NULL && x->desc.rank < needed) {
            KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "input %u of rank %u has no batches", i,
                            x->desc.rank);
        }
        bool same = x != NULL && (i == s->first || x->desc.dims[0] == out_sizes[0]);
        if (kilni_onnx_ok(call) && scanned && i > s->first + s->n_states) {
            same = same && x->desc.dims[1] == out_sizes[1];
        }
        if (!same) {
            KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "input %u has other batches or lengths", i);
            return false;
        }
        out_sizes[0] = x->desc.dims[0];
        out_sizes[1] = scanned ? x->desc.dims[1] : 0;
    }
    return kilni_onnx_ok(call);
}

void kilni_onnx_op_scan_batches(kilni_onnx_call *call)
{
    scan s = {.first = 1};
    int64_t sizes[2] = {0, 0};
    kilni_onnx_ints lengths = kilni_onnx_value_ints(call, kilni_onnx_opt(call, 0));
    begin_scan(call, &s);
    uint32_t n_piles = s.n_states + s.n_outputs;
    kilni_onnx_pile *piles = kilni_onnx_piles(call, n_piles);
    if (!kilni_onnx_ok(call) || !batch_of(call, &s, sizes)) {
        kilni_onnx_piles_free(call, piles, n_piles);
        return;
    }
    if (lengths.count > 0 && (int64_t)lengths.count != sizes[0]) {
        KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "%u lengths for %lld batches", lengths.count,
                        (long long)sizes[0]);
    }
    for (int64_t i = 0; kilni_onnx_ok(call) && i < sizes[0]; i++) {
        int64_t length = lengths.count > 0 ? lengths.v[i] : sizes[1];
        if (length < 0 || length > sizes[1]) {
            KILNI_ONNX_FAIL(call, INVALID_ARGUMENT, "length %lld of %lld", (long long)length,
                            (long long)sizes[1]);
        }
        scan_member(call, &s, i, length, sizes[1], piles);
    }
    for (uint32_t i = 0; kilni_onnx_ok(call) && i < call->n_outputs; i++) {
        kilni_onnx_out(call, i,
                       kilni_onnx_pile_stack(call, &piles[i], &s.body->graph->outputs[i], 0));
    }
    kilni_onnx_piles_free(call, piles, n_piles);
}
