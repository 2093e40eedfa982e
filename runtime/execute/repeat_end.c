// SPDX-License-Identifier: MIT OR Apache-2.0
// The end of runs that repeat: with their owner, and when the program of a block or memory that a
// plan kept goes.

#include "repeat_parts.h"
#include "rt_context.h"

/// What it holds of the backend goes; the rest is its owner's.
static void end_it(kilni_repeat *repeat)
{
    kiln_backend *backend = repeat->device->backend;
    repeat->ready = false;
    repeat->refused = true;
    for (uint32_t l = 0; repeat->prepared != NULL && l < repeat->n_launches; l++) {
        backend->prepared->unprepare(backend, repeat->prepared[l]);
        repeat->prepared[l] = NULL;
    }
}

void kilni_repeat_free(kilni_repeat *repeat)
{
    if (repeat == NULL) {
        return;
    }
    const kiln_env *env = &repeat->device->context->env;
    kilni_repeat **link = &repeat->device->execution.repeats;
    end_it(repeat);
    while (*link != repeat) {
        link = &(*link)->next;
    }
    *link = repeat->next;
    kiln_free(env, repeat->launches);
    kiln_free(env, repeat->args);
    kiln_free(env, repeat->ops);
    kiln_free(env, repeat->views);
    kiln_free(env, (void *)repeat->prepared);
    kiln_free(env, (void *)repeat->outside);
    kiln_free(env, repeat->first_place);
    kiln_free(env, repeat->places);
    kiln_free(env, repeat);
}

void kilni_repeat_lose_block(kiln_device *device, const kilni_block_state *state)
{
    for (kilni_repeat *repeat = device->execution.repeats; repeat != NULL; repeat = repeat->next) {
        bool has = false;
        for (uint32_t l = 0; l < repeat->n_launches && !has; l++) {
            has = repeat->launches[l].state == state;
        }
        if (has) {
            end_it(repeat);
        }
    }
}

void kilni_repeat_lose_buffer(kiln_device *device, const kiln_buffer *buffer)
{
    for (kilni_repeat *repeat = device->execution.repeats; repeat != NULL; repeat = repeat->next) {
        bool has = false;
        for (uint32_t i = 0; i < repeat->n_args && !has; i++) {
            has = repeat->args[i].value.kind == KILN_VALUE_BUFFER &&
                  repeat->args[i].value.buffer == buffer;
        }
        if (has) {
            end_it(repeat);
        }
    }
}
