// SPDX-License-Identifier: MIT OR Apache-2.0
// Members of a group on local devices, each with an input whose sum over the members is easy to
// check.
#ifndef KILN_TESTS_COLLECTIVE_RECORDED_SCENE_H
#define KILN_TESTS_COLLECTIVE_RECORDED_SCENE_H

#include "device_set.h"

enum { MOST = 3, COUNT = 1003, ROUNDS = 20 };

typedef struct setting {
    uint32_t count;
    const char *addresses[MOST];
    const kiln_allocator *allocator; ///< NULL: the C library's
    bool apart; ///< OpenCL devices that are taken for such with memory of their own
    bool queued; ///< of their calls each step is a command
} setting;

extern const setting references; ///< three
extern const setting opencl; ///< two
extern const setting opencl_apart; ///< likewise
extern const setting opencl_queued; ///< likewise
extern const setting mixed; ///< one reference between two of OpenCL's

typedef struct scene {
    uint32_t count;
    device_set set;
    kiln_collective *group;
    kiln_tensor *inputs[MOST];
} scene;

/// False, with the case failed, when a device or the group is none; scene_fini is due all the same.
bool scene_init(scene *self, const setting *what, uint64_t deadline_ms);
void scene_fini(scene *self);

/// The input of a rank, and the sum over the ranks.
float value_at(uint32_t rank, int64_t i);
float sum_at(const scene *self, int64_t i);
/// Every element is factor * sum + offset.
bool holds(const scene *self, kiln_tensor *tensor, float factor, float offset);

/// Releases MOST tensors, NULL ones too, and forgets them.
void release_all(kiln_tensor **tensors);
/// A failure of calls that the device waited for is reported once.
void hear_failures(const scene *self);

#endif
