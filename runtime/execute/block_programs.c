// SPDX-License-Identifier: MIT OR Apache-2.0
// Programs of blocks. A plan is small, and the driver's program of a block is not: so plans stay
// when their programs take too much memory, and who did not run for longest loses its own. Only
// what the cache has comes back without a compiler, so without a cache all stay. What is "long" is
// a number of runs, not a time: the same program gives up the same.

#include "plan_internal.h"
#include "rt_block_programs.h"
#include "rt_context.h"
#include "rt_device.h"
#include "rt_repeat.h"

enum { LATELY = 1024 }; ///< runs of blocks in which nobody loses a program

static void unlink_state(kilni_block_programs *all, kilni_block_state *state)
{
    *(state->newer != NULL ? &state->newer->older : &all->newest) = state->older;
    *(state->older != NULL ? &state->older->newer : &all->oldest) = state->newer;
    state->newer = NULL;
    state->older = NULL;
    state->listed = false;
}

void kilni_block_programs_use(kilni_block_state *state)
{
    kilni_block_programs *all = &state->device->execution.programs;
    state->ran_at = ++all->runs;
    all->built = all->built || !state->listed;
    if (all->newest == state) {
        return;
    }
    if (state->listed) {
        unlink_state(all, state);
    }
    state->listed = true;
    state->older = all->newest;
    *(all->newest != NULL ? &all->newest->newer : &all->oldest) = state;
    all->newest = state;
}

void kilni_block_programs_free(kilni_block_state *state)
{
    kiln_backend *backend = state->device->backend;
    if (state->listed) {
        unlink_state(&state->device->execution.programs, state);
    }
    kilni_repeat_lose_block(state->device, state);
    if (state->built != NULL) {
        backend->program->free(backend, state->built);
        state->built = NULL;
    }
}

static bool too_much(kiln_device *device)
{
    kiln_backend_stats stats = {0};
    device->backend->device->stats(device->backend, &stats);
    const kiln_config *config = device->context->env.config;
    return stats.program_bytes > (uint64_t)kiln_config_int(config, KILN_OPTION_PROGRAM_LIMIT);
}

void kilni_block_programs_relieve(kiln_device *device)
{
    kilni_block_programs *all = &device->execution.programs;
    if (!all->built) {
        return;
    }
    all->built = false;
    while (kiln_context_store(device->context) != NULL && all->oldest != NULL &&
           all->oldest->ran_at + LATELY < all->runs && too_much(device)) {
        kilni_block_programs_free(all->oldest);
        all->given_up++;
    }
}
