// SPDX-License-Identifier: MIT OR Apache-2.0
// The text of the team that fills the ring. Packed operands come by bulk copies, which one
// work-item asks for and which count down a barrier. A left operand as it lies comes by pieces of
// 16 bytes (cp.async), a row of a tile for eight work-items; each of them tells the same barrier
// when its pieces have come (cp.async.mbarrier.arrive.noinc). Both make the same lines of 128
// bytes, whose pieces are exchanged by their line's number.
#include "nvidia_tensor.h"

static void emit_packed_copies(kf_text *text, const mm_plan *plan)
{
    uint32_t a = tensor_left_bytes(plan);
    uint32_t b = tensor_tile_bytes(plan, plan->columns);
    kf_text_addf(
        text,
        "    if (item == %u) {\n"
        "        __global const uchar *a = left + ((left_batch * tiles + tile) * steps + "
        "step0) * %u;\n"
        "        __global const uchar *b = right + ((right_batch * panels + panel) * steps "
        "+ step0) * %u;\n"
        "        uint stage = 0, parity = 1;\n"
        "        for (int s = step0; s < last; s++, a += %u, b += %u) {\n"
        "            const uint bar = full + 8 * stage, at = base + %u * stage;\n"
        "            WAIT(empty + 8 * stage, parity);\n"
        "            asm volatile(\"mbarrier.arrive.expect_tx.shared.b64 _, [%%0], %u;\" "
        ":: \"r\"(bar) : \"memory\");\n"
        "            COPY(at, a, %u, bar);\n"
        "            COPY(at + %u, b, %u, bar);\n"
        "            stage = stage == %u ? 0 : stage + 1;\n"
        "            parity ^= stage == 0;\n"
        "        }\n"
        "    }\n",
        tensor_teams(plan) * TENSOR_TEAM, a, b, a, b, tensor_stage_bytes(plan),
        tensor_stage_bytes(plan), a, a, b, tensor_stages(plan) - 1);
}

/// Fills a stage's part of the left operand, as it lies: a work-item has a piece of every sixteenth
/// row. What is past the end is 0. Pieces that are not aligned go through registers.
static void emit_pieces_as_they_lie(kf_text *text, const mm_plan *plan)
{
    uint32_t bytes = tensor_element_bytes(plan), rows = plan->rows / (TENSOR_TEAM / 8);
    kf_text_addf(
        text,
        "            if (aligned) {\n"
        "                #pragma unroll\n"
        "                for (int i = 0; i < %u; i++) {\n"
        "                    const long row = row0 + 16 * i;\n"
        "                    const int there = row < m ? count * %u : 0;\n"
        "                    asm volatile(\"cp.async.cg.shared.global [%%0], [%%1], 16, %%2;\" :: "
        "\"r\"(to + at + 2048 * i), \"l\"(lines + (there > 0 ? row * stride + place : 0)), "
        "\"r\"(there) : \"memory\");\n"
        "                }\n"
        "                asm volatile(\"cp.async.mbarrier.arrive.noinc.shared.b64 [%%0];\" :: "
        "\"r\"(bar) : \"memory\");\n"
        "            } else {\n",
        rows, bytes);
    kf_text_addf(
        text,
        "                #pragma unroll 1\n"
        "                for (int i = 0; i < %u; i++) {\n"
        "                    const long row = row0 + 16 * i;\n"
        "                    const int there = row < m ? count : 0;\n"
        "                    __local %s *piece = (__local %s *)(ring + (to - base) + at + "
        "2048 * i);\n"
        "                    #pragma unroll 1\n"
        "                    for (int e = 0; e < %u; e++) {\n"
        "                        piece[e] = e < there ? lines[row * stride + AT(term + e)] : "
        "0;\n"
        "                    }\n"
        "                }\n"
        "                ARRIVE(bar);\n"
        "            }\n",
        rows, bytes == 2 ? "ushort" : "float", bytes == 2 ? "ushort" : "float", 16 / bytes);
}

/// The team copies the left operand's rows by pieces of 16 bytes, which arrive by themselves, and
/// one of its work-items asks for the packed right operand's tiles.
static void emit_copies_as_they_lie(kf_text *text, const mm_plan *plan)
{
    uint32_t b = tensor_tile_bytes(plan, plan->columns), bytes = tensor_element_bytes(plan);
    uint32_t heads = plan->block->left.upper != 0;
    const char *type = bytes == 2 ? "ushort" : "float";
    kf_text_addf(text, "    if (team == %u) {\n", tensor_teams(plan));
    tensor_emit_registers(text, plan, TENSOR_REGISTERS, TENSOR_REGISTERS_COPY);
    kf_text_addf(
        text,
        "        __global const uchar *b = right + ((right_batch * panels + panel) * steps + "
        "step0) * %u;\n"
        "        __global const %s *lines = (__global const %s *)a;\n"
        "        const int own = item %% %u, piece_at = own %% 8;\n"
        "        const long row0 = (long)tile * %u + own / 8;\n"
        "        const uint to = base + own / 8 * 128 + ((piece_at ^ own / 8) & 7) * 16;\n"
        "        uint stage = 0, parity = 1;\n"
        "        const int terms = %u;\n"
        "        int term = step0 * terms + piece_at * %u;\n"
        "        long place = AT(term);\n"
        "%s"
        "        for (int s = step0; s < last; s++, b += %u) {\n",
        b, type, type, TENSOR_TEAM, plan->rows, plan->step, 16 / bytes,
        heads ? "        int inside = term % length;\n" : "", b);
    kf_text_addf(
        text,
        "            const uint bar = full + 8 * stage, at = %u * stage;\n"
        "            const int count = clamp(k - term, 0, %u);\n"
        "            WAIT(empty + 8 * stage, parity);\n"
        "            if (own == 0) {\n"
        "                asm volatile(\"mbarrier.arrive.expect_tx.shared.b64 _, [%%0], %u;\" :: "
        "\"r\"(bar) : \"memory\");\n"
        "                COPY(base + at + %u, b, %u, bar);\n"
        "            }\n",
        tensor_stage_bytes(plan), 16 / bytes, b, tensor_left_bytes(plan), b);
    emit_pieces_as_they_lie(text, plan);
    kf_text_addf(text,
                 "            stage = stage == %u ? 0 : stage + 1;\n"
                 "            parity ^= stage == 0;\n"
                 "            term += terms;\n"
                 "            place += terms;\n"
                 "%s"
                 "        }\n",
                 tensor_stages(plan) - 1,
                 !heads ? ""
                        : "            inside += terms;\n"
                          "            for (; inside >= length; inside -= length) {\n"
                          "                place += upper - length;\n"
                          "            }\n");
    tensor_emit_registers(text, plan, TENSOR_REGISTERS_COPY, TENSOR_REGISTERS);
    kf_text_add(text, "    }\n");
}

/// Of the left operand as it lies: the stride of its rows, AT(t): where term `t` of a row is, and
/// whether pieces are whole and aligned. The team goes from step to step without a division.
static void emit_strides(kf_text *text, const mm_plan *plan)
{
    const mm_operand *left = &plan->block->left;
    uint32_t bytes = tensor_element_bytes(plan);
    char row[32], upper[32], inner[32];
    mm_stride_name(plan, left->source, left->outer, row);
    mm_stride_name(plan, left->source, left->inner, inner);
    kf_text_addf(text,
                 "    const long stride = %s;\n"
                 "    int aligned = (((ulong)a | (ulong)stride * %u) & 15) == 0;\n",
                 plan->fold ? "k" : row, bytes);
    if (left->upper == 0) {
        kf_text_add(text, "#define AT(t) (t)\n");
        return;
    }
    mm_stride_name(plan, left->source, left->upper, upper);
    kf_text_addf(text,
                 "    const long upper = %s, inner = %s;\n"
                 "    const int length = e%u_%d;\n"
                 "    aligned &= inner == 1 && (length * %u | upper * %u) %% 16 == 0;\n"
                 "#define AT(t) ((t) / length * upper + (t) %% length * inner)\n",
                 upper, inner, left->source, left->inner, bytes, bytes);
}

void tensor_emit_copies(kf_text *text, const mm_plan *plan)
{
    if (plan->plain) {
        emit_strides(text, plan);
        emit_copies_as_they_lie(text, plan);
    } else {
        emit_packed_copies(text, plan);
    }
}
