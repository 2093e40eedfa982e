// SPDX-License-Identifier: MIT OR Apache-2.0
// A job of four members on devices, and gradients that are easy to check.
#ifndef KILN_TESTS_COLLECTIVE_GRADSYNC_SCENE_H
#define KILN_TESTS_COLLECTIVE_GRADSYNC_SCENE_H

#include "device_set.h"

enum { MEMBERS = 4, DEADLINE_MS = 300 };

extern const char *const gradsync_references[MEMBERS];

typedef struct scene {
    device_set set;
    kiln_gradsync *job;
} scene;

bool scene_open(scene *self, const char *const *addresses, const kiln_gradsync_options *options);
void scene_close(scene *self);

/// `count` elements of value, value + 1, ...
kiln_tensor *gradient(scene *self, uint32_t member, kiln_param_id id, int64_t count, float value);
kiln_status submit(scene *self, uint32_t member, kiln_param_id id, int64_t count, float value,
                   kiln_error *err);
/// What a member got is value, value + slope, ...
bool check_gradient(scene *self, uint32_t member, kiln_param_id id, int64_t count, float value,
                    float slope);

#endif
