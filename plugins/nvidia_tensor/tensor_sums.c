// SPDX-License-Identifier: MIT OR Apache-2.0
// The text of the teams that multiply, by wgmma, with sums in registers.
//
// Sums of f32 add three products of tf32: near by near, near by rest, rest by near. Tensor cores
// cut what they add, which is a drift over a long sum; so the sums of one step are added to the
// others by ordinary additions. Of a left operand as it lies a team splits its rows itself, while
// the step before is multiplied, and gives them to wgmma in registers.
#include "nvidia_tensor.h"

enum {
    PIECE = 32 // bytes of a line that one wgmma takes
};

static uint32_t registers(const mm_plan *plan)
{
    return plan->columns / 2;
}

void tensor_emit_registers(kf_text *text, const mm_plan *plan, uint32_t from, uint32_t to)
{
    if (tensor_is_uneven(plan)) {
        kf_text_addf(text, "        asm volatile(\"//@ setmaxnreg.%s.sync.aligned.u32 %u;\");\n",
                     to > from ? "inc" : "dec", to);
    }
}

static void emit_names(kf_text *text, const mm_plan *plan, const char *before, const char *after)
{
    for (uint32_t i = 0; i < registers(plan); i++) {
        kf_text_addf(text, "%s%s%u%s", i == 0 ? "" : ", ", before, i, after);
    }
}

/// One wgmma: the `piece`-th of a step, of copies `a` and `b`; `adds`: to what the sums are.
static void emit_wgmma(kf_text *text, const mm_plan *plan, const char *a, const char *b,
                       uint32_t piece, const char *adds)
{
    kf_dtype dtype = kf_dtype_of(plan->block->chain.values[plan->block->result].dtype);
    uint32_t two = tensor_element_bytes(plan) == 2;
    const char *type = !two ? "tf32" : dtype.bytes == 4 ? "bf16" : dtype.name;
    uint32_t sums = registers(plan), at = piece * PIECE / 16;
    kf_text_addf(text,
                 "            asm volatile(\"//@ { .reg .pred p; setp.ne.b32 p, %%%u, 0; "
                 "wgmma.mma_async.sync.aligned.m64n%uk%u.f32.%s.%s {",
                 sums + 2, plan->columns, PIECE / tensor_element_bytes(plan), type, type);
    emit_names(text, plan, "%", "");
    kf_text_addf(text, "}, %%%u, %%%u, p, 1, 1%s; }\" : ", sums, sums + 1, two ? ", 0, 0" : "");
    emit_names(text, plan, "\"+f\"(d", ")");
    kf_text_addf(text, " : \"l\"(%s + %u), \"l\"(%s + %u), \"r\"(%s) : \"memory\");\n", a, at, b,
                 at, adds);
}

/// LOAD(stage, parity): waits for a stage, and reads what a work-item has there of the left
/// operand's 64 rows: four numbers of each piece. Layout of the PTX manual, "Register Fragments for
/// wgmma.mma_async.m64nNk8".
static void emit_load(kf_text *text, const mm_plan *plan)
{
    kf_text_addf(text,
                 "#define LOAD(of, parity) do { WAIT(full + 8 * (of), parity); \\\n"
                 "    __local const uchar *rows = ring + %u * (of) + team * %u + (item %% %u / 32 "
                 "* 16 + turn) * 128 + item %% 4 * 4; \\\n",
                 tensor_stage_bytes(plan), TENSOR_TEAM_ROWS * MM_LINE_BYTES, TENSOR_TEAM);
    for (uint32_t i = 0; i < MM_LINE_BYTES / PIECE; i++) {
        kf_text_addf(
            text,
            "    x%u = (float4)(NUMBER((%u ^ turn) * 16), NUMBER((%u ^ turn) * 16 + 1024), "
            "NUMBER((%u ^ turn) * 16), NUMBER((%u ^ turn) * 16 + 1024)); \\\n",
            i, 2 * i, 2 * i, 2 * i + 1, 2 * i + 1);
    }
    kf_text_add(text, "    } while (0)\n"
                      "#define NUMBER(at) (*(__local const float *)(rows + (at)))\n"
                      "        const int turn = item % 32 / 4;\n"
                      "        float4 x0, x1, x2, x3;\n");
}

/// Splits the numbers of a piece: near N, cut off, and rest R, rounded. What is no number or
/// infinite stays so in N, and its sum is done again.
static void emit_split(kf_text *text, uint32_t piece)
{
    kf_text_addf(text,
                 "            const uint4 n%u = as_uint4(x%u) & 0xffffe000u;\n"
                 "            const uint4 r%u = (as_uint4(x%u - as_float4(n%u)) + 0x1000u) & "
                 "0xffffe000u;\n",
                 piece, piece, piece, piece, piece);
    for (uint32_t i = 0; i < 4; i++) {
        kf_text_addf(text, "            uint N%u = n%u.s%u, R%u = r%u.s%u;\n", 4 * piece + i, piece,
                     i, 4 * piece + i, piece, i);
    }
}

/// One wgmma whose left operand is in registers, N or R.
static void emit_wgmma_of_registers(kf_text *text, const mm_plan *plan, char a, const char *b,
                                    uint32_t piece, const char *adds)
{
    uint32_t sums = registers(plan);
    kf_text_addf(text,
                 "            asm volatile(\"//@ { .reg .pred p; setp.ne.b32 p, %%%u, 0; "
                 "wgmma.mma_async.sync.aligned.m64n%uk8.f32.tf32.tf32 {",
                 sums + 5, plan->columns);
    emit_names(text, plan, "%", "");
    kf_text_addf(text, "}, {%%%u, %%%u, %%%u, %%%u}, %%%u, p, 1, 1; }\" : ", sums, sums + 1,
                 sums + 2, sums + 3, sums + 4);
    emit_names(text, plan, "\"+f\"(d", ")");
    kf_text_add(text, " : ");
    for (uint32_t i = 4 * piece; i < 4 * piece + 4; i++) {
        kf_text_addf(text, "\"r\"(%c%u), ", a, i);
    }
    kf_text_addf(text, "\"l\"(%s + %u), \"r\"(%s) : \"memory\");\n", b, piece * PIECE / 16, adds);
}

/// Teams whose registers are uneven multiply in turns: one begins when the other has a third of its
/// step left, so that tensor cores have work while a team adds and splits.
static void emit_turn_begins(kf_text *text, const mm_plan *plan)
{
    if (tensor_is_uneven(plan)) {
        kf_text_addf(text,
                     "            if (team > 0 || s > step0) {\n"
                     "                asm volatile(\"bar.sync %%0, %u;\" :: \"r\"(2 + team) : "
                     "\"memory\");\n"
                     "            }\n",
                     2 * TENSOR_TEAM);
    }
}

static void emit_turn_ends(kf_text *text, const mm_plan *plan)
{
    if (tensor_is_uneven(plan)) {
        kf_text_addf(text,
                     "            asm volatile(\"//@ wgmma.wait_group.sync.aligned 1;\" ::: "
                     "\"memory\");\n"
                     "            if (team == 0 || s + 1 < last) {\n"
                     "                asm volatile(\"bar.arrive %%0, %u;\" :: \"r\"(3 - team) : "
                     "\"memory\");\n"
                     "            }\n",
                     2 * TENSOR_TEAM);
    }
}

static void emit_commit(kf_text *text)
{
    kf_text_add(text, "            asm volatile(\"//@ wgmma.commit_group.sync.aligned;\" ::: "
                      "\"memory\");\n");
}

/// The products of a step whose left operand lies in the ring as it is.
static void emit_split_products(kf_text *text, const mm_plan *plan)
{
    uint32_t pieces = MM_LINE_BYTES / PIECE;
    for (uint32_t i = 0; i < pieces; i++) {
        emit_split(text, i);
    }
    emit_turn_begins(text, plan);
    kf_text_add(text, "            asm volatile(\"//@ wgmma.fence.sync.aligned;\" : ");
    for (uint32_t i = 0; i < 4 * pieces; i++) {
        kf_text_addf(text, "%s\"+r\"(N%u), \"+r\"(R%u)", i == 0 ? "" : ", ", i, i);
    }
    kf_text_add(text, " :: \"memory\");\n");
    for (uint32_t i = 0; i < 3 * pieces; i++) {
        uint32_t which = i / pieces;
        if (i == 2 * pieces && tensor_is_uneven(plan)) {
            emit_commit(text);
        }
        emit_wgmma_of_registers(text, plan, which == 0 ? 'R' : 'N',
                                which == 1 ? "rest_b" : "near_b", i % pieces, i == 0 ? "0" : "1");
    }
}

static void emit_wait(kf_text *text, const mm_plan *plan, uint32_t left)
{
    kf_text_addf(text,
                 "            asm volatile(\"//@ wgmma.wait_group.sync.aligned %u;\" : ", left);
    emit_names(text, plan, "\"+f\"(d", ")");
    kf_text_add(text, " :: \"memory\");\n");
}

static void emit_packed_products(kf_text *text, const mm_plan *plan)
{
    uint32_t pieces = MM_LINE_BYTES / PIECE;
    kf_text_addf(text,
                 "            const ulong near_a = TILE_AT(at), rest_a = TILE_AT(at + %u);\n"
                 "            asm volatile(\"//@ wgmma.fence.sync.aligned;\" ::: \"memory\");\n",
                 plan->rows * MM_LINE_BYTES);
    for (uint32_t i = 0; i < 3 * pieces; i++) {
        uint32_t which = i / pieces;
        emit_wgmma(text, plan, which == 0 ? "rest_a" : "near_a", which == 1 ? "rest_b" : "near_b",
                   i % pieces, i == 0 ? "0" : "1");
    }
}

/// The step's products are all awaited, then added to the sums.
static void emit_step_f32(kf_text *text, const mm_plan *plan)
{
    kf_text_addf(text, "            const ulong near_b = TILE_AT(bt), rest_b = TILE_AT(bt + %u);\n",
                 plan->columns * MM_LINE_BYTES);
    if (tensor_is_split(plan)) {
        emit_split_products(text, plan);
    } else {
        emit_packed_products(text, plan);
    }
    emit_commit(text);
    if (tensor_is_split(plan)) { // meanwhile
        emit_turn_ends(text, plan);
        kf_text_addf(text,
                     "            const uint next = stage == %u ? 0 : stage + 1;\n"
                     "            if (s + 1 < last) {\n"
                     "                LOAD(next, parity ^ (next == 0));\n"
                     "            }\n",
                     tensor_stages(plan) - 1);
    }
    emit_wait(text, plan, 0);
    kf_text_addf(text,
                 "            if (item %% %u == 0) {\n"
                 "                ARRIVE(empty + 8 * stage);\n"
                 "            }\n",
                 TENSOR_TEAM / tensor_sayers(plan));
    for (uint32_t i = 0; i < registers(plan); i++) {
        kf_text_addf(text, "%ss%u += d%u;%s", i % 4 == 0 ? "            " : " ", i, i,
                     i % 4 == 3 ? "\n" : "");
    }
}

/// The products of a step run on while those of the next are asked for.
static void emit_step_16(kf_text *text, const mm_plan *plan)
{
    if (plan->plain) { // what work-items wrote is for the tensor cores to read
        kf_text_add(text, "            asm volatile(\"fence.proxy.async.shared::cta;\" ::: "
                          "\"memory\");\n");
    }
    kf_text_add(text,
                "            const ulong near_a = TILE_AT(at), near_b = TILE_AT(bt);\n"
                "            asm volatile(\"//@ wgmma.fence.sync.aligned;\" ::: \"memory\");\n");
    for (uint32_t i = 0; i < MM_LINE_BYTES / PIECE; i++) {
        emit_wgmma(text, plan, "near_a", "near_b", i, i == 0 ? "(int)(s > step0)" : "1");
    }
    emit_commit(text);
    emit_wait(text, plan, 1);
    kf_text_addf(text,
                 "            if (s > step0 && item %% %u == 0) {\n"
                 "                ARRIVE(empty + 8 * (stage == 0 ? %u : stage - 1));\n"
                 "            }\n",
                 TENSOR_TEAM, tensor_stages(plan) - 1);
}

/// The sums to local memory, a line of the tile behind the other. Of a team, four work-items have
/// a line in pairs of columns, and the eighth line behind it.
static void emit_settle(kf_text *text, const mm_plan *plan)
{
    uint32_t line = plan->columns + plan->width;
    const char *sum = plan->copies > 1 ? "s" : "d";
    kf_text_addf(
        text,
        "        asm volatile(\"bar.sync 1, %u;\" ::: \"memory\");\n"
        "        __local float *own = (__local float *)ring + (team * %u + item %% %u / 32 "
        "* 16 + item %% 32 / 4) * %u + item %% 4 * 2;\n",
        tensor_teams(plan) * TENSOR_TEAM, TENSOR_TEAM_ROWS, TENSOR_TEAM, line);
    for (uint32_t i = 0; i < registers(plan); i += 4) {
        kf_text_addf(text,
                     "        *(__local float2 *)(own + %u) = (float2)(%s%u, %s%u);\n"
                     "        *(__local float2 *)(own + %u) = (float2)(%s%u, %s%u);\n",
                     2 * i, sum, i, sum, i + 1, 8 * line + 2 * i, sum, i + 2, sum, i + 3);
    }
}

void tensor_emit_sums(kf_text *text, const mm_plan *plan)
{
    uint32_t a = tensor_left_bytes(plan);
    kf_text_addf(text, "    if (team < %u) {\n", tensor_teams(plan));
    tensor_emit_registers(text, plan, TENSOR_REGISTERS, TENSOR_REGISTERS_MULTIPLY);
    kf_text_add(text, "        float ");
    emit_names(text, plan, "d", " = 0");
    if (plan->copies > 1) {
        kf_text_add(text, ";\n        float ");
        emit_names(text, plan, "s", " = 0");
    }
    kf_text_add(text, ";\n        uint stage = 0, parity = 0;\n");
    if (tensor_is_split(plan)) {
        emit_load(text, plan);
        kf_text_add(text, "        if (step0 < last) {\n            LOAD(0, 0);\n        }\n");
    }
    kf_text_addf(
        text,
        "        for (int s = step0; s < last; s++) {\n"
        "%s"
        "            const uint at = base + %u * stage + team * %u, bt = base + %u * stage "
        "+ %u;\n",
        tensor_is_split(plan) ? "" : "            WAIT(full + 8 * stage, parity);\n",
        tensor_stage_bytes(plan), TENSOR_TEAM_ROWS * MM_LINE_BYTES, tensor_stage_bytes(plan), a);
    if (plan->copies > 1) {
        emit_step_f32(text, plan);
    } else {
        emit_step_16(text, plan);
    }
    kf_text_addf(text,
                 "            stage = stage == %u ? 0 : stage + 1;\n"
                 "            parity ^= stage == 0;\n"
                 "        }\n",
                 tensor_stages(plan) - 1);
    if (plan->copies == 1) {
        emit_wait(text, plan, 0);
    }
    emit_settle(text, plan);
    tensor_emit_registers(text, plan, TENSOR_REGISTERS_MULTIPLY, TENSOR_REGISTERS);
    kf_text_add(text, "    }\n    barrier(CLK_LOCAL_MEM_FENCE);\n");
}
