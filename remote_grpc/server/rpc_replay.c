// SPDX-License-Identifier: MIT OR Apache-2.0
// Which known graphs are replayed, and when. A capture is planned as a whole, which can take long
// where programs are compiled, so a graph is captured only after it was run several times, and
// anew, after as many, when its Runs keep other values.

#include "rpc_replay.h"

#include "rpc_pace.h"

#include <string.h>

enum { ALIKE = 16 };

/// Collective rows are others' too, custom ones are their plugin's; what is packed for a constant
/// belongs to its tensor, which is no input.
static bool takes_op(const kiln_op_record *op)
{
    bool takes = op->op != KILN_OP_CUSTOM && kiln_op_info_of(op->op)->cls != KILN_CLASS_COLLECTIVE;
    for (size_t i = 0; i < op->n_inputs && takes; i++) {
        takes = (op->inputs[i].flags & KILN_TENSOR_CONST) == 0;
    }
    return takes;
}

/// Gives false where the sum is beyond 64 bits.
static bool add(uint64_t *sum, uint64_t more)
{
    *sum += more;
    return *sum >= more;
}

void kilni_rpc_replay_init(kilni_rpc_replay *self, const kiln_ir_graph *graph)
{
    size_t n_inputs = 0;
    *self = (kilni_rpc_replay){0};
    (void)kiln_ir_graph_inputs(graph, &n_inputs);
    bool takes = kiln_ir_graph_op_count(graph) > 0 && n_inputs <= KILNI_RPC_BINDINGS;
    for (size_t i = 0; i < kiln_ir_graph_op_count(graph) && takes; i++) {
        const kiln_op_record *op = kiln_ir_graph_op(graph, i);
        takes = takes_op(op) && add(&self->work, kilni_rpc_pace_work(op));
        bool view = kiln_op_info_of(op->op)->cls == KILN_CLASS_VIEW;
        for (size_t k = 0; k < op->n_outputs && takes && !view; k++) {
            takes = add(&self->bytes, (uint64_t)kiln_desc_bytes(&op->outputs[k]));
        }
    }
    self->never = !takes;
}

void kilni_rpc_replay_fini(kilni_rpc_replay *self)
{
    kiln_graph_destroy(self->graph);
    self->graph = NULL;
}

bool kilni_rpc_is_freed(const kiln_v1_Run *run, uint64_t buffer)
{
    for (pb_size_t i = 0; i < run->frees_count; i++) {
        if (run->frees[i] == buffer) {
            return true;
        }
    }
    return false;
}

bool kilni_rpc_replay_next(kilni_rpc_replay *self, const kiln_v1_Run *run)
{
    uint32_t count = 0;
    bool same = true;
    if (self->never) {
        return false;
    }
    for (pb_size_t i = 0; i < run->outputs_count; i++) {
        if (!kilni_rpc_is_freed(run, run->outputs[i].buffer)) {
            same = same && count < self->n_kept && self->kept[count] == run->outputs[i].value;
            self->kept[count++] = run->outputs[i].value;
        }
    }
    same = same && count == self->n_kept;
    self->n_kept = count;
    if (!same) {
        kilni_rpc_replay_fini(self);
    }
    self->alike = same ? self->alike + (self->alike < ALIKE) : 1;
    return self->alike == ALIKE;
}
