// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_H
#define KILN_KILN_H

/// kiln: record tensor operations, run them fused on any OpenCL device.
///
/// A context holds configuration, fusers and devices; a device runs operations; a tensor is a
/// handle to a value on one device. Recording an operation returns at once with a handle to the
/// result; shapes and dtypes are checked there. Work is planned, fused and enqueued behind the
/// calls; only kiln_read and kiln_sync wait. kiln_release says that the caller is done with a
/// tensor: released early, an intermediate is never written to memory.
///
/// Every call returns a status and fills `err` when it is not NULL. All calls may come from any
/// thread, unless it says otherwise. The operators are in kiln_ops.h, generated from the operator
/// table.
///
/// Others include what they need besides: a backend's author ir_backend.h, a tool that shows what
/// was decided kiln_explained.h, and ir.h has all of ir.

#include "base.h"
#include "kiln_bundle.h"
#include "kiln_collective.h"
#include "kiln_context.h"
#include "kiln_custom.h"
#include "kiln_device.h"
#include "kiln_gradsync.h"
#include "kiln_graph.h"
#include "kiln_graph_memory.h"
#include "kiln_memory.h"
#include "kiln_plugin.h"
#include "kiln_random.h"
#include "kiln_read.h"
#include "kiln_record.h"
#include "kiln_stream.h"
#include "kiln_tensor.h"
#include "kiln_trace.h"

#include "kiln_ops.h" // last: it includes this file, so that either is enough

#endif
