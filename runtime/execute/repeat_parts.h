// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RUNTIME_REPEAT_PARTS_H
#define KILN_RUNTIME_REPEAT_PARTS_H

/// What noting and repeating runs (plan_repeat.c) and ending that (repeat_end.c) share.

#include "plan_internal.h"
#include "rt_device.h"
#include "rt_repeat.h"

typedef struct kilni_noted_launch {
    kilni_block_state *state;
    kiln_launch launch; ///< its arguments begin at number `first`
    uint32_t first;
} kilni_noted_launch;

typedef struct kilni_noted_arg {
    kiln_launch_arg value;
    bool stays; ///< a buffer that the next run has as well
} kilni_noted_arg;

typedef struct kilni_noted_op { ///< operands are arguments; views are those of its operands
    const kiln_op_record *record;
    uint32_t before; ///< launch that comes next
    uint32_t first; ///< of its arguments
    uint32_t first_view;
} kilni_noted_op;

typedef struct kilni_noted_place { ///< an argument whose buffer comes from outside
    uint32_t item; ///< launch, or operation, counted on
    uint32_t arg;
} kilni_noted_place;

struct kilni_repeat {
    kiln_device *device;
    kilni_repeat *next; ///< of the device's
    bool refused; ///< while it notes
    bool ready; ///< it can run
    kilni_noted_launch *launches;
    uint32_t n_launches;
    uint32_t capacity;
    kilni_noted_arg *args;
    uint32_t n_args;
    uint32_t args_capacity;
    kilni_noted_op *ops;
    uint32_t n_ops;
    uint32_t ops_capacity;
    kiln_view *views;
    uint32_t n_views;
    uint32_t views_capacity;
    kiln_prepared **prepared; ///< of each launch
    kiln_buffer **outside; ///< those that are set
    uint32_t n_outside;
    uint32_t *first_place; ///< per number, and one more
    kilni_noted_place *places;
    uint64_t gone; ///< of the backend, when it was prepared
    uint64_t unbound; ///< of the device's arena
    kilni_device_counts before; ///< while it notes
    kilni_device_counts each; ///< what one run adds
};

#endif
