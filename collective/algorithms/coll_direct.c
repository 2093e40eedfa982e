// SPDX-License-Identifier: MIT OR Apache-2.0
// One message between two ranks, whole: the sender's input becomes the receiver's output. The root
// of the call is the other rank. That both want the same was agreed before.
#include "coll_algorithms.h"

void kilni_coll_send_direct(kilni_coll_schedule *schedule, const kilni_coll_shape *shape)
{
    kilni_coll_send(schedule, shape->root, SLOT_INPUT, (kilni_coll_range){0, shape->count});
    kilni_coll_fence(schedule);
}

void kilni_coll_receive_direct(kilni_coll_schedule *schedule, const kilni_coll_shape *shape)
{
    kilni_coll_receive(schedule, shape->root, SLOT_OUTPUT, (kilni_coll_range){0, shape->count});
}
