// SPDX-License-Identifier: MIT OR Apache-2.0
// Reference meaning of einsum: for each element of the result the sum, over all letters that it has
// not, of the product of the inputs' elements. An axis of an input is a stride of its letter, so a
// letter that an input has twice runs along its diagonal.
#include "einsum_internal.h"
#include "reference_internal.h"

typedef struct odometer { ///< over some labels; moves one offset for each input
    uint32_t count;
    uint8_t labels[KILNI_EINSUM_LABELS];
    int64_t index[KILNI_EINSUM_LABELS];
} odometer;

typedef struct job {
    kilni_einsum e;
    const kiln_view *inputs;
    int64_t strides[KILN_MAX_INPUTS][KILNI_EINSUM_LABELS];
    int64_t at[KILN_MAX_INPUTS];
    odometer out;
    odometer rest;
} job;

static void move(job *j, uint8_t label, int64_t steps)
{
    for (uint32_t i = 0; i < j->e.n_inputs; i++) {
        j->at[i] += steps * j->strides[i][label];
    }
}

/// To the next place; false, and back at the first one, when there is none.
static bool next(job *j, odometer *o)
{
    for (uint32_t i = o->count; i-- > 0;) {
        uint8_t label = o->labels[i];
        if (++o->index[i] < j->e.length[label]) {
            move(j, label, 1);
            return true;
        }
        move(j, label, 1 - j->e.length[label]);
        o->index[i] = 0;
    }
    return false;
}

static bool is_empty(const job *j, const odometer *o)
{
    for (uint32_t i = 0; i < o->count; i++) {
        if (j->e.length[o->labels[i]] == 0) {
            return true;
        }
    }
    return false;
}

static kilni_ref_value product(const job *j, bool is_float)
{
    kilni_ref_value result = kilni_ref_load(&j->inputs[0], j->at[0]);
    for (uint32_t i = 1; i < j->e.n_inputs; i++) {
        kilni_ref_value factor = kilni_ref_load(&j->inputs[i], j->at[i]);
        if (is_float) {
            result.f *= factor.f;
        } else {
            result.u *= factor.u;
        }
    }
    return result;
}

static kilni_ref_value sum_of_products(job *j, bool is_float)
{
    kilni_ref_value sum = {.u = 0};
    if (is_empty(j, &j->rest)) {
        return is_float ? kilni_ref_of_float(0) : sum;
    }
    sum = is_float ? kilni_ref_of_float(0) : sum;
    do {
        kilni_ref_value term = product(j, is_float);
        if (is_float) {
            sum.f += term.f;
        } else {
            sum.u += term.u;
        }
    } while (next(j, &j->rest));
    return sum;
}

static void plan(job *j)
{
    uint64_t left = j->e.used;
    for (uint32_t i = 0; i < j->e.out_rank; i++) {
        j->out.labels[j->out.count++] = j->e.out_labels[i];
        left &= ~(UINT64_C(1) << j->e.out_labels[i]);
    }
    for (uint32_t i = 0; i < KILNI_EINSUM_LABELS; i++) {
        if ((left >> i & 1u) != 0) {
            j->rest.labels[j->rest.count++] = (uint8_t)i;
        }
    }
    for (uint32_t i = 0; i < j->e.n_inputs; i++) {
        for (uint32_t k = 0; k < j->inputs[i].rank; k++) {
            j->strides[i][j->e.labels[i][k]] +=
                j->inputs[i].dims[k] == 1 ? 0 : j->inputs[i].strides[k];
        }
    }
}

kiln_status kiln_ref_einsum(const kiln_op_record *call, const kiln_view *inputs,
                            const kiln_view *outputs, kiln_error *err)
{
    const kiln_env env = {.allocator = kiln_allocator_default()};
    bool is_float = kilni_ref_is_float(outputs[0].dtype);
    job *j = kiln_alloc(&env, sizeof(*j));
    if (j == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "einsum: no memory");
    }
    kiln_status status = kilni_ir_einsum_of(call, &j->e, err);
    if (status == KILN_STATUS_OK) {
        kilni_ref_walk walk;
        j->inputs = inputs;
        plan(j);
        kilni_ref_walk_init(&walk, outputs[0].dims, outputs[0].rank);
        kilni_ref_walk_add(&walk, &outputs[0]);
        for (; !walk.done; kilni_ref_walk_next(&walk), (void)next(j, &j->out)) {
            kilni_ref_store(&outputs[0], walk.at[0], sum_of_products(j, is_float));
        }
    }
    kiln_free(&env, j);
    return status;
}
