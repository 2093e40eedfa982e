// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kiln_fuser.h: the fuser ABI, major version 1. Header only, C99 and C++11, nothing to link.
//
// A fuser is a pure function of (operations, device facts). It watches a stream of tensor
// operations and *describes* OpenCL kernels that do the same work; the host compiles, verifies,
// times, caches, bundles and launches them. It never calls OpenCL, never sees a buffer, and never
// learns a size or a scalar unless it asks (kf_block), because every answer narrows the plan.
//
// Where the numbers come from:
//   the headers below     kinds, opcodes, flags, features of the ABI itself
//   kiln_fuser_ops.h      KF_OP_*, KF_ATTR_*, KF_DTYPE_*: generated from the host's tables
// Conventions:
//   fixed-width integers only; `struct_size` first; arrays of structs that may grow are arrays of
//   pointers; structs marked "frozen" never change within major 1; others grow at the end only.
//   Strings are pointer and length, UTF-8, not terminated. Zero means "default" or "absent".
//   Unknown tail of a vtable (kf_host, kf_block, kf_plugin): ignore. Unknown flag bit or non-zero
//   unknown tail of a description (op, tensor, program): refuse; kf_util.h has the check.
//   Threads: [main] once at start or shutdown; [any] re-entrant, any thread; [builder] calls on one
//   builder never overlap, different builders may run at once.
#ifndef KILN_PLUGIN_SDK_KILN_FUSER_H
#define KILN_PLUGIN_SDK_KILN_FUSER_H

#include "kf_base.h"
#include "kf_device.h"
#include "kf_entry.h"
#include "kf_expr.h"
#include "kf_host.h"
#include "kf_manifest.h"
#include "kf_op.h"
#include "kf_program.h"
#include "kf_state.h"

#endif
