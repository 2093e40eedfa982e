// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_IR_H
#define KILN_IR_H

/// ir: what an operation is. The operator table, tensor descriptions, operation records, inference
/// of shapes and dtypes, verifier, text and wire forms, the reference evaluator; and what lies
/// between the one who decides and the one who computes: programs, plans and the backend interface.
/// Nothing here runs on a device or knows a fuser.
///
/// This is all of it. A program that records operations needs kiln.h alone; a backend needs
/// ir_backend.h.

#include "base.h"
#include "ir_attr.h"
#include "ir_backend.h"
#include "ir_custom.h"
#include "ir_device.h"
#include "ir_expand.h"
#include "ir_explain.h"
#include "ir_graph.h"
#include "ir_index_range.h"
#include "ir_judge.h"
#include "ir_op.h"
#include "ir_plan.h"
#include "ir_program.h"
#include "ir_quant.h"
#include "ir_reference.h"
#include "ir_replay.h"
#include "ir_resample.h"
#include "ir_tensor.h"
#include "ir_view.h"
#include "ir_view_apply.h"

#endif
