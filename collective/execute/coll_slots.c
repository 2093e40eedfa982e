// SPDX-License-Identifier: MIT OR Apache-2.0
// Where the slots of a schedule lie in a rank's memory, in which pieces messages are cut, and the
// two steps that only the memory is asked for: reduce and copy. When each step runs is not known
// here.
#include "coll_execute.h"

kiln_dtype kilni_coll_wide(kiln_dtype dtype)
{
    bool is_half = dtype == KILN_DTYPE_F16 || dtype == KILN_DTYPE_BF16;
    return is_half ? KILN_DTYPE_F32 : dtype;
}

static kiln_status alloc_slot(const kilni_coll_run *run, kilni_coll_lot *lot, kiln_dtype dtype,
                              uint64_t elems, kiln_error *err)
{
    *lot = (kilni_coll_lot){.dtype = dtype};
    if (elems == 0) {
        return KILN_STATUS_OK;
    }
    size_t bytes = (size_t)elems * kiln_dtype_size(dtype);
    kiln_status status = run->memory->ops->alloc(run->memory, bytes, &lot->buffer, err);
    lot->is_ours = status == KILN_STATUS_OK;
    return status;
}

/// The output can be worked in when it has the dtype and the length of what is combined.
static bool works_in_output(const kilni_coll_run *run)
{
    const kiln_coll_call *call = run->call;
    return kilni_coll_wide(call->dtype) == call->dtype &&
           (call->kind == KILN_COLL_ALL_REDUCE ||
            (call->kind == KILN_COLL_REDUCE && run->rank == call->root));
}

kiln_status kilni_coll_slots_open(const kilni_coll_run *run, const kilni_coll_schedule *schedule,
                                  kilni_coll_lot *lots, kiln_error *err)
{
    const kiln_coll_call *call = run->call;
    kiln_dtype wide = kilni_coll_wide(call->dtype);
    const uint64_t *elems = schedule->slot_elems;
    kiln_status status = KILN_STATUS_OK;
    lots[SLOT_INPUT] = (kilni_coll_lot){call->input, call->input_offset, call->dtype, false};
    lots[SLOT_OUTPUT] = (kilni_coll_lot){call->output, call->output_offset, call->dtype, false};
    if (works_in_output(run)) {
        lots[SLOT_WORK] = lots[SLOT_OUTPUT];
    } else {
        KILN_TRY(out, status, alloc_slot(run, &lots[SLOT_WORK], wide, elems[SLOT_WORK], err));
    }
    KILN_TRY(out, status, alloc_slot(run, &lots[SLOT_SCRATCH], wide, elems[SLOT_SCRATCH], err));
    KILN_TRY(out, status, alloc_slot(run, &lots[SLOT_RAW], call->dtype, elems[SLOT_RAW], err));
out:
    return status;
}

void kilni_coll_slots_close(const kilni_coll_run *run, const kilni_coll_lot *lots)
{
    for (int i = 0; i < SLOT_COUNT; i++) {
        if (lots[i].is_ours) {
            run->memory->ops->free(run->memory, lots[i].buffer);
        }
    }
}

kiln_coll_area kilni_coll_area_of(const kilni_coll_lot *lots, kilni_coll_operand place,
                                  kilni_coll_range range)
{
    const kilni_coll_lot *lot = &lots[place.slot];
    uint64_t start = place.start + range.start;
    return (kiln_coll_area){.buffer = lot->buffer,
                            .offset = lot->offset + start * kiln_dtype_size(lot->dtype),
                            .dtype = lot->dtype,
                            .count = (size_t)range.count};
}

kilni_coll_range kilni_coll_piece(const kilni_coll_run *run, kiln_dtype dtype, uint64_t count,
                                  uint64_t index)
{
    uint64_t elems = run->chunk_bytes / kiln_dtype_size(dtype);
    elems = elems == 0 ? 1 : elems;
    uint64_t start = index > count / elems ? count : index * elems;
    return (kilni_coll_range){start, count - start < elems ? count - start : elems};
}

kiln_status kilni_coll_step_reduce(const kilni_coll_run *run, const kilni_coll_lot *lots,
                                   const kilni_coll_step *step, kilni_coll_range range,
                                   kiln_error *err)
{
    kiln_coll_area target = kilni_coll_area_of(lots, step->target, range);
    kiln_coll_area left = kilni_coll_area_of(lots, step->left, range);
    kiln_coll_area source = kilni_coll_area_of(lots, step->source, range);
    kiln_coll_op op = run->call->op;
    uint64_t begin_ns = kilni_coll_now(run);
    kiln_status status = run->memory->ops->reduce(run->memory, &target, &left, &source,
                                                  op == KILN_COLL_MEAN ? KILN_COLL_SUM : op, err);
    kilni_coll_spend(run, KILN_COLL_COMBINING, begin_ns);
    return status;
}

kiln_status kilni_coll_step_copy(const kilni_coll_run *run, const kilni_coll_lot *lots,
                                 const kilni_coll_step *step, kilni_coll_range range,
                                 kiln_error *err)
{
    const kiln_coll_memory_ops *ops = run->memory->ops;
    kiln_coll_area target = kilni_coll_area_of(lots, step->target, range);
    kiln_coll_area source = kilni_coll_area_of(lots, step->source, range);
    uint32_t divisor = step->divide ? run->divisor : 1;
    uint64_t begin_ns = kilni_coll_now(run);
    kiln_status status = KILN_STATUS_OK;
    if (target.dtype != source.dtype || divisor != 1) {
        status = ops->convert(run->memory, &target, &source, divisor, err);
    } else if (target.buffer != source.buffer || target.offset != source.offset) {
        status = ops->copy(run->memory, &target, &source, err);
    }
    kilni_coll_spend(run, KILN_COLL_COMBINING, begin_ns);
    return status;
}
