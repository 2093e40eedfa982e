// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_CL_ELSEWHERE_H
#define KILNI_CL_ELSEWHERE_H

/// Planning for a device that is not here (kiln_cl_plan_for).

#include <stdbool.h>
#include <stdint.h>

typedef struct kilni_cl_elsewhere {
    bool is; ///< the description is another device's
    uint32_t hidden; ///< features of this device that the other lacks
} kilni_cl_elsewhere;

#endif
