// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_TRAIN_H
#define KILN_KILN_TRAIN_H

/// What training needs besides gradients: named parameters and files of them, rates that change
/// from step to step, optimisers, and optimisers whose state is shared out.

#include "kiln_optimiser.h"
#include "kiln_params.h"
#include "kiln_schedule.h"
#include "kiln_sharded.h"

#endif
