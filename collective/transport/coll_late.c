// SPDX-License-Identifier: MIT OR Apache-2.0
// Who is to blame when a wait was too long: the rank at the end of the chain of waits, or the one
// whose memory has not come back from a call.
#include "coll_hub_state.h"

/// What a call into a memory may take before it is what others wait for.
static const uint64_t moment_ns = 20000000u;

/// Marks whom the rank waits for. True when one is new.
static bool reach_on(const kiln_coll_hub *hub, const kilni_hub_end *end)
{
    bool grew = false;
    for (int i = 0; i < 2; i++) {
        uint32_t next = end->waits_for[i];
        if (next != UINT32_MAX && !hub->ends[next].is_reached) {
            hub->ends[next].is_reached = true;
            grew = true;
        }
    }
    return grew;
}

/// The rank among the reached ones that has been longest in a call into its memory; UINT32_MAX:
/// none for more than a moment.
static uint32_t find_held_up(const kiln_coll_hub *hub)
{
    uint64_t longest = moment_ns;
    uint32_t found = UINT32_MAX;
    for (uint32_t i = 0; i < hub->ranks; i++) {
        const kilni_hub_end *end = &hub->ends[i];
        uint64_t held_ns =
            end->is_reached && end->watch != NULL ? kilni_coll_watch_ns(end->watch) : 0;
        found = held_ns > longest ? i : found;
        longest = held_ns > longest ? held_ns : longest;
    }
    return found;
}

uint32_t kilni_coll_hub_find_late(const kiln_coll_hub *hub, uint32_t peer)
{
    for (uint32_t i = 0; i < hub->ranks; i++) {
        hub->ends[i].is_reached = i == peer;
    }
    for (bool grew = true; grew;) {
        grew = false;
        for (uint32_t i = 0; i < hub->ranks; i++) {
            const kilni_hub_end *end = &hub->ends[i];
            grew = (end->is_reached && reach_on(hub, end)) || grew;
        }
    }
    uint32_t held_up = find_held_up(hub);
    for (uint32_t i = 0; i < hub->ranks && held_up == UINT32_MAX; i++) {
        const kilni_hub_end *end = &hub->ends[i];
        if (end->is_reached && end->waits_for[0] == UINT32_MAX && end->waits_for[1] == UINT32_MAX) {
            return i;
        }
    }
    return held_up != UINT32_MAX ? held_up : peer;
}
