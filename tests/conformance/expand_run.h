// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_TEST_EXPAND_RUN_H
#define KILN_TEST_EXPAND_RUN_H

/// Runs an operation on a bare backend as the runtime would: itself, or, of a composite that the
/// backend leaves to others, what it stands for.

#include "ir.h"

kiln_status execute_or_expand(const kiln_env *env, kiln_backend *backend,
                              const kiln_op_record *record, const kiln_view *inputs,
                              const kiln_view *outputs, kiln_error *err);

/// On this backend composites are expanded also where it runs them itself.
extern kiln_backend *expand_on;

#endif
