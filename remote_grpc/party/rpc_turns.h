// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_TURNS_H
#define KILN_RPC_TURNS_H

/// Who uses a device now. Each party has a lane, however many sessions it has; lanes take turns by
/// deficit round robin over the time that they have held the device. A turn ends where a session
/// says so, between two operations.
///
/// Any thread may call these, but for create and destroy.

#include "base.h"

typedef struct kilni_rpc_turns kilni_rpc_turns;
typedef struct kilni_rpc_lane kilni_rpc_lane;

/// `flops` of the device say how much work a turn is at first. Errors: RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_turns_create(const kiln_env *env, uint64_t flops, kilni_rpc_turns **out_turns,
                                   kiln_error *err);
void kilni_rpc_turns_destroy(kilni_rpc_turns *turns);

/// The lane of a party, which stands until each who joined has left. A lane of weight 2 gets twice
/// the time of one of weight 1. Errors: RESOURCE_EXHAUSTED.
kiln_status kilni_rpc_lane_join(kilni_rpc_turns *turns, const void *party, uint32_t weight,
                                kilni_rpc_lane **out_lane, kiln_error *err);
void kilni_rpc_lane_leave(kilni_rpc_lane *lane);

/// Waits for the device. A thread has at most one turn.
void kilni_rpc_turn_take(kilni_rpc_lane *lane);
void kilni_rpc_turn_give(kilni_rpc_lane *lane);

/// How much work the holder of the turn launches before it waits for it, in floating-point
/// operations, about. It is less while several parties use the device.
uint64_t kilni_rpc_turn_budget(kilni_rpc_lane *lane);

/// The holder has waited for so much launched work, which took `ns`: later budgets are nearer to
/// the time that they should take.
void kilni_rpc_turn_passed(kilni_rpc_lane *lane, uint64_t work, uint64_t ns);

#endif
