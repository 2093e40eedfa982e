// SPDX-License-Identifier: MIT OR Apache-2.0
// Checked mode looks at indices: kernels clamp or drop what lies outside, here it is said, with the
// operator, the place and the range, once for each place of a program. Results stay what they are.
// Decides when operands are read back, which costs a wait: at the first run of each operation of
// each plan, or at every run.

#include "rt_binding.h"
#include "rt_check.h"
#include "rt_check_state.h"
#include "rt_context.h"
#include "rt_device.h"
#include "rt_run.h"
#include "rt_tensor.h"

#include <inttypes.h>
#include <stdio.h>

enum { MOST_PLACES = 4096 }; ///< more are not told apart, and so not looked at

struct kilni_index_places {
    uint64_t keys[MOST_PLACES * 2];
    uint32_t count;
};

/// Not by its address: the next plan may lie where one was freed.
static uint64_t key_of(const kilni_run *run, uint32_t op, size_t input)
{
    kiln_plan *plan = run->segment->plan;
    plan->number = plan->number != 0 ? plan->number : ++run->device->check.last_plan;
    const uint64_t words[] = {plan->number, op, input};
    return kiln_hash64(words, sizeof(words), 0) | 1;
}

static uint32_t find_place(const kilni_index_places *places, uint64_t key)
{
    uint32_t at = (uint32_t)(key >> 32) % (MOST_PLACES * 2);
    while (places->keys[at] != 0 && places->keys[at] != key) {
        at = (at + 1) % (MOST_PLACES * 2);
    }
    return at;
}

/// Whether to look: not at a place that is known, nor at one that could not be remembered.
static bool is_new(kiln_device *device, uint64_t key)
{
    if (device->check.index_places == NULL) {
        device->check.index_places =
            kiln_alloc(&device->context->env, sizeof(*device->check.index_places));
    }
    kilni_index_places *places = device->check.index_places;
    return places != NULL && places->count < MOST_PLACES &&
           places->keys[find_place(places, key)] == 0;
}

static void remember(kilni_index_places *places, uint64_t key)
{
    places->keys[find_place(places, key)] = key;
    places->count++;
}

static int64_t value_at(const void *data, kiln_dtype dtype, int64_t i)
{
    return dtype == KILN_DTYPE_I32 ? ((const int32_t *)data)[i] : ((const int64_t *)data)[i];
}

/// The first value outside; how many there are.
static int64_t count_outside(const kiln_tensor_desc *desc, const void *data,
                             const kiln_index_range *range, int64_t *out_first)
{
    int64_t outside = 0;
    int64_t count = kiln_desc_count(desc);
    for (int64_t i = 0; i < count; i++) {
        int64_t value = value_at(data, desc->dtype, i);
        if (value < range->first[i % range->n] || value > range->last[i % range->n]) {
            *out_first = outside++ == 0 ? i : *out_first;
        }
    }
    return outside;
}

static void write_place(const kiln_tensor_desc *desc, int64_t i, char *out, size_t capacity)
{
    int64_t index[KILN_MAX_RANK];
    size_t at = 0;
    for (unsigned k = desc->rank; k-- > 0;) {
        index[k] = i % desc->dims[k];
        i /= desc->dims[k];
    }
    out[0] = '\0';
    for (unsigned k = 0; k < desc->rank && at < capacity; k++) {
        at += (size_t)snprintf(out + at, capacity - at, "%s%" PRId64, k > 0 ? "," : "", index[k]);
    }
}

static void report(const kilni_run *run, uint32_t op, size_t input, const void *data,
                   const kiln_index_range *range, int64_t first, int64_t outside)
{
    const kiln_op_record *record = &run->segment->ops[op];
    const kiln_op_info *info = kiln_op_info_of(record->op);
    const kiln_tensor_desc *desc = &record->inputs[input];
    char where[160], more[64] = "";
    write_place(desc, first, where, sizeof(where));
    if (outside > 1) {
        snprintf(more, sizeof(more), ", and %" PRId64 " more of %" PRId64, outside - 1,
                 kiln_desc_count(desc));
    }
    run->device->counts.indices_outside++;
    kiln_log_write(
        &run->device->context->env, KILN_LOG_WARN, "runtime",
        "%s (operation %u): %s[%s] is %" PRId64 ", outside %" PRId64 " to %" PRId64 "%s: %s",
        info->name, op, info->signature->inputs[input], where, value_at(data, desc->dtype, first),
        range->first[first % range->n], range->last[first % range->n], more, range->otherwise);
}

static kiln_status look(const kilni_run *run, uint32_t op, size_t input,
                        const kiln_index_range *range, uint64_t key, kiln_error *err)
{
    kiln_device *device = run->device;
    const kiln_env *env = &device->context->env;
    const kiln_tensor_desc *desc = &run->segment->ops[op].inputs[input];
    const kiln_tensor *tensor = run->segment->operands[op][input];
    size_t bytes = (size_t)kiln_desc_bytes(desc);
    void *data = kiln_alloc(env, bytes);
    if (data == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory to look at indices");
    }
    kiln_status status = kilni_binding_read(device, desc, run->bindings[tensor->slot], data, err);
    if (status == KILN_STATUS_OK) {
        int64_t first = 0;
        int64_t outside = count_outside(desc, data, range, &first);
        if (outside > 0 || device->check.mode == KILNI_CHECK_FIRST) {
            remember(device->check.index_places, key);
        }
        if (outside > 0) {
            report(run, op, input, data, range, first, outside);
        }
    }
    kiln_free(env, data);
    return status;
}

void kilni_check_indices(const kilni_run *run, uint32_t op)
{
    const kiln_op_record *record = &run->segment->ops[op];
    kiln_index_range range;
    kiln_error err = KILN_ERROR_INIT;
    for (size_t i = 0; i < record->n_inputs; i++) {
        uint64_t key = key_of(run, op, i);
        if (kiln_op_index_range(record, i, &range) && kiln_desc_count(&record->inputs[i]) > 0 &&
            is_new(run->device, key) && look(run, op, i, &range, key, &err) != KILN_STATUS_OK) {
            kiln_log_write(&run->device->context->env, KILN_LOG_WARN, "runtime",
                           "indices of %s are not checked: %s", kiln_op_info_of(record->op)->name,
                           err.message);
        }
    }
}
