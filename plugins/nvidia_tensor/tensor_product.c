// SPDX-License-Identifier: MIT OR Apache-2.0
// The text of the product. The last team of a work-group copies tiles of both operands into a ring
// in local memory, by bulk copies that count down a barrier; the other teams each multiply 64 rows
// by all columns of the tile with wgmma, whose sums stay in registers. At the end the sums go
// through the ring's memory, so that the epilogue reads and writes whole vectors.
//
// After NVIDIA's PTX manual, sections "Asynchronous Warpgroup Level Matrix Instructions",
// "cp.async.bulk" and "mbarrier". Instructions of sm_90a are comments that begin `//@` until the
// host has made PTX of the text (KILN_PTX_TARGET).
//
// Sums of f32 add three products of tf32: near by near, near by rest, rest by near. Tensor cores
// cut what they add, which is a drift over a long sum; so the sums of one step are added to the
// others by ordinary additions. Infinities times a rest of 0 are NaN: what is not finite is summed
// again, term by term.
//
// Where a sum is taken in parts, the work-group of a tile that ends last adds them up, in order.
#include "nvidia_tensor.h"

enum {
    RING_BYTES = 200704, // of local memory at most, for two work-groups at a time half of it
    RING_STAGES = 6,
    BAND = 8, // rows of tiles that are done together, so that their operands stay in the cache
    PIECE = 32, // bytes of a line that one wgmma takes
    WARP = 32 // work-items
};

static uint32_t stage_bytes(const mm_plan *plan)
{
    return tensor_left_bytes(plan) + tensor_tile_bytes(plan, plan->columns);
}

static uint32_t stages(const mm_plan *plan)
{
    uint32_t room = plan->rows > TENSOR_TEAM_ROWS ? RING_BYTES : RING_BYTES / 2;
    uint32_t most = room / stage_bytes(plan);
    return most < RING_STAGES ? most : RING_STAGES;
}

static uint32_t teams(const mm_plan *plan)
{
    return plan->rows / TENSOR_TEAM_ROWS;
}

/// A left operand of f32 as it lies: the teams split it in registers.
static uint32_t is_split(const mm_plan *plan)
{
    return plan->plain && plan->copies > 1;
}

/// Work-items of a team that say that they are done with a stage.
static uint32_t sayers(const mm_plan *plan)
{
    return is_split(plan) ? TENSOR_TEAM / WARP : 1;
}

static uint32_t registers(const mm_plan *plan)
{
    return plan->columns / 2;
}

// ---- the start ----

/// Where several products of the left operand are done: which one the work-group has a tile of.
static void emit_choice(kf_text *text, const mm_plan *plan)
{
    uint32_t products = mm_products(plan->block);
    if (products == 1) {
        return;
    }
    kf_text_add(text, "    const int product = get_group_id(1);\n"
                      "    right = ");
    for (uint32_t i = 1; i < products; i++) {
        kf_text_addf(text, "product == %u ? right%u : ", i, i);
    }
    kf_text_add(text, "right;\n");
    if (plan->split) {
        kf_text_add(text, "    partial += product * parts * batches * m * (long)n;\n"
                          "    counts += product * batches * tiles * panels;\n");
    }
}

static void emit_start(kf_text *text, const mm_plan *plan)
{
    uint32_t n = stages(plan);
    kf_text_addf(
        text,
        "    __local uchar ring[%u] __attribute__((aligned(1024)));\n"
        "    __local ulong bars[%u];\n"
        "    const int item = get_local_id(0), team = item / %u;\n"
        "    const uint base = (uint)(ulong)ring, full = (uint)(ulong)bars, empty = full + "
        "%u;\n"
        "    const int tiles = (m + %u) / %u, panels = (n + %u) / %u;\n"
        "    const int steps = (k + %u) / %u, step0 = from / %u;\n"
        "    const int last = (to_term + %u) / %u;\n",
        n * stage_bytes(plan), 2 * n, TENSOR_TEAM, 8 * n, plan->rows - 1, plan->rows,
        plan->columns - 1, plan->columns, plan->step - 1, plan->step, plan->step, plan->step - 1,
        plan->step);
    kf_text_addf(text,
                 "    const int id = get_group_id(0), band = id / (%u * panels) * %u;\n"
                 "    const int high = min(tiles - band, %u), in_band = id - band * panels;\n"
                 "    const int tile = band + in_band %% high, panel = in_band / high;\n",
                 BAND, BAND, BAND);
    emit_choice(text, plan);
    kf_text_addf(
        text,
        "    if (item == 0) {\n"
        "        for (int i = 0; i < %u; i++) {\n"
        "            asm volatile(\"mbarrier.init.shared.b64 [%%0], %u;\" :: \"r\"(full + 8 "
        "* i) : \"memory\");\n"
        "            asm volatile(\"mbarrier.init.shared.b64 [%%0], %u;\" :: \"r\"(empty + "
        "8 * i) : \"memory\");\n"
        "        }\n"
        "        asm volatile(\"fence.mbarrier_init.release.cluster;\" ::: \"memory\");\n"
        "        asm volatile(\"fence.proxy.async.shared::cta;\" ::: \"memory\");\n"
        "    }\n"
        "    barrier(CLK_LOCAL_MEM_FENCE);\n",
        n, plan->plain ? 1 + TENSOR_TEAM : 1, teams(plan) * sayers(plan));
}

/// WAIT(bar, parity): until the phase of that parity is over.
static void emit_macros(kf_text *text)
{
    kf_text_add(
        text, "#define WAIT(bar, parity) do { uint over; do { \\\n"
              "    asm volatile(\"{ .reg .pred P; mbarrier.try_wait.parity.shared.b64 P, [%1], "
              "%2; selp.u32 %0, 1, 0, P; }\" : \"=r\"(over) : \"r\"(bar), \"r\"(parity) : "
              "\"memory\"); \\\n"
              "    } while (!over); } while (0)\n"
              "#define COPY(to, from, bytes, bar) asm volatile(\"cp.async.bulk.shared::cluster."
              "global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\" :: \"r\"(to), "
              "\"l\"(from), \"r\"(bytes), \"r\"(bar) : \"memory\")\n"
              "#define ARRIVE(bar) asm volatile(\"mbarrier.arrive.shared.b64 _, [%0];\" :: "
              "\"r\"(bar) : \"memory\")\n"
              // start address, no leading offset, 1024 bytes from eight lines to the next, swizzle
              "#define TILE_AT(at) ((ulong)(((at) & 0x3ffffu) >> 4) | 1ul << 16 | 64ul << 32 | "
              "1ul << 62)\n"
              // a number and its rest, `far` bytes behind it
              "#define PACKED_AT(p, far) (*(__global const float *)(p) + *(__global const float "
              "*)((p) + (far)))\n");
}

// ---- the team that copies ----

static void emit_copies(kf_text *text, const mm_plan *plan)
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
        teams(plan) * TENSOR_TEAM, a, b, a, b, stage_bytes(plan), stage_bytes(plan), a, a, b,
        stages(plan) - 1);
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
        "\"r\"(to + at + 2048 * i), \"l\"(lines + (there > 0 ? row * stride + AT(term) : 0)), "
        "\"r\"(there) : \"memory\");\n"
        "                }\n"
        "                asm volatile(\"cp.async.mbarrier.arrive.noinc.shared.b64 [%%0];\" :: "
        "\"r\"(bar) : \"memory\");\n"
        "            } else {\n",
        rows, bytes);
    kf_text_addf(
        text,
        "                #pragma unroll\n"
        "                for (int i = 0; i < %u; i++) {\n"
        "                    const long row = row0 + 16 * i;\n"
        "                    const int there = row < m ? count : 0;\n"
        "                    __local %s *piece = (__local %s *)(ring + (to - base) + at + "
        "2048 * i);\n"
        "                    #pragma unroll\n"
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
    const char *type = bytes == 2 ? "ushort" : "float";
    kf_text_addf(
        text,
        "    if (team == %u) {\n"
        "        __global const uchar *b = right + ((right_batch * panels + panel) * steps + "
        "step0) * %u;\n"
        "        __global const %s *lines = (__global const %s *)a;\n"
        "        const int own = item %% %u, piece_at = own %% 8;\n"
        "        const long row0 = (long)tile * %u + own / 8;\n"
        "        const uint to = base + own / 8 * 128 + ((piece_at ^ own / 8) & 7) * 16;\n"
        "        uint stage = 0, parity = 1;\n"
        "        for (int s = step0; s < last; s++, b += %u) {\n",
        teams(plan), b, type, type, TENSOR_TEAM, plan->rows, b);
    kf_text_addf(
        text,
        "            const uint bar = full + 8 * stage, at = %u * stage;\n"
        "            const int term = s * %u + piece_at * %u, count = clamp(k - term, 0, %u);\n"
        "            WAIT(empty + 8 * stage, parity);\n"
        "            if (own == 0) {\n"
        "                asm volatile(\"mbarrier.arrive.expect_tx.shared.b64 _, [%%0], %u;\" :: "
        "\"r\"(bar) : \"memory\");\n"
        "                COPY(base + at + %u, b, %u, bar);\n"
        "            }\n",
        stage_bytes(plan), plan->step, 16 / bytes, 16 / bytes, b, tensor_left_bytes(plan), b);
    emit_pieces_as_they_lie(text, plan);
    kf_text_addf(text,
                 "            stage = stage == %u ? 0 : stage + 1;\n"
                 "            parity ^= stage == 0;\n"
                 "        }\n"
                 "    }\n",
                 stages(plan) - 1);
}

// ---- the teams that multiply ----

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
                 stage_bytes(plan), TENSOR_TEAM_ROWS * MM_LINE_BYTES, TENSOR_TEAM);
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

/// The products of a step whose left operand lies in the ring as it is.
static void emit_split_products(kf_text *text, const mm_plan *plan)
{
    uint32_t pieces = MM_LINE_BYTES / PIECE;
    for (uint32_t i = 0; i < pieces; i++) {
        emit_split(text, i);
    }
    kf_text_add(text, "            asm volatile(\"//@ wgmma.fence.sync.aligned;\" : ");
    for (uint32_t i = 0; i < 4 * pieces; i++) {
        kf_text_addf(text, "%s\"+r\"(N%u), \"+r\"(R%u)", i == 0 ? "" : ", ", i, i);
    }
    kf_text_add(text, " :: \"memory\");\n");
    for (uint32_t i = 0; i < 3 * pieces; i++) {
        uint32_t which = i / pieces;
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
    if (is_split(plan)) {
        emit_split_products(text, plan);
    } else {
        emit_packed_products(text, plan);
    }
    kf_text_add(text, "            asm volatile(\"//@ wgmma.commit_group.sync.aligned;\" ::: "
                      "\"memory\");\n");
    if (is_split(plan)) { // meanwhile
        kf_text_addf(text,
                     "            const uint next = stage == %u ? 0 : stage + 1;\n"
                     "            if (s + 1 < last) {\n"
                     "                LOAD(next, parity ^ (next == 0));\n"
                     "            }\n",
                     stages(plan) - 1);
    }
    emit_wait(text, plan, 0);
    kf_text_addf(text,
                 "            if (item %% %u == 0) {\n"
                 "                ARRIVE(empty + 8 * stage);\n"
                 "            }\n",
                 TENSOR_TEAM / sayers(plan));
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
    kf_text_add(text, "            asm volatile(\"//@ wgmma.commit_group.sync.aligned;\" ::: "
                      "\"memory\");\n");
    emit_wait(text, plan, 1);
    kf_text_addf(text,
                 "            if (s > step0 && item %% %u == 0) {\n"
                 "                ARRIVE(empty + 8 * (stage == 0 ? %u : stage - 1));\n"
                 "            }\n",
                 TENSOR_TEAM, stages(plan) - 1);
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
        teams(plan) * TENSOR_TEAM, TENSOR_TEAM_ROWS, TENSOR_TEAM, line);
    for (uint32_t i = 0; i < registers(plan); i += 4) {
        kf_text_addf(text,
                     "        *(__local float2 *)(own + %u) = (float2)(%s%u, %s%u);\n"
                     "        *(__local float2 *)(own + %u) = (float2)(%s%u, %s%u);\n",
                     2 * i, sum, i, sum, i + 1, 8 * line + 2 * i, sum, i + 2, sum, i + 3);
    }
}

static void emit_products(kf_text *text, const mm_plan *plan)
{
    uint32_t a = tensor_left_bytes(plan);
    kf_text_addf(text, "    if (team < %u) {\n        float ", teams(plan));
    emit_names(text, plan, "d", " = 0");
    if (plan->copies > 1) {
        kf_text_add(text, ";\n        float ");
        emit_names(text, plan, "s", " = 0");
    }
    kf_text_add(text, ";\n        uint stage = 0, parity = 0;\n");
    if (is_split(plan)) {
        emit_load(text, plan);
        kf_text_add(text, "        if (step0 < last) {\n            LOAD(0, 0);\n        }\n");
    }
    kf_text_addf(
        text,
        "        for (int s = step0; s < last; s++) {\n"
        "%s"
        "            const uint at = base + %u * stage + team * %u, bt = base + %u * stage "
        "+ %u;\n",
        is_split(plan) ? "" : "            WAIT(full + 8 * stage, parity);\n", stage_bytes(plan),
        TENSOR_TEAM_ROWS * MM_LINE_BYTES, stage_bytes(plan), a);
    if (plan->copies > 1) {
        emit_step_f32(text, plan);
    } else {
        emit_step_16(text, plan);
    }
    kf_text_addf(text,
                 "            stage = stage == %u ? 0 : stage + 1;\n"
                 "            parity ^= stage == 0;\n"
                 "        }\n",
                 stages(plan) - 1);
    if (plan->copies == 1) {
        emit_wait(text, plan, 0);
    }
    emit_settle(text, plan);
    kf_text_add(text, "    }\n    barrier(CLK_LOCAL_MEM_FENCE);\n");
}

// ---- the end ----

/// A sum of f32 that is no number is summed again from what was packed.
static void emit_again(kf_text *text, const mm_plan *plan)
{
    uint32_t a = tensor_left_bytes(plan);
    uint32_t b = tensor_tile_bytes(plan, plan->columns);
    char of_left[256] = "a[row * stride + AT(t)]";
    if (!plan->plain) {
        snprintf(of_left, sizeof(of_left),
                 "PACKED_AT(left + ((left_batch * tiles + tile) * steps + t / %u) * %u + r * 128 + "
                 "((q ^ r) & 7) * 16 + w, %u)",
                 plan->step, a, plan->rows * MM_LINE_BYTES);
    }
    kf_text_addf(text,
                 "        if (any(isfinite(sum) == 0)) {\n"
                 "            float again[%u];\n"
                 "            for (int e = 0; e < %u; e++) {\n"
                 "                const uint r = i / %u, c = i %% %u * %u + e;\n"
                 "                float total = 0;\n"
                 "                for (int t = from; t < to_term; t++) {\n"
                 "                    const uint q = t %% %u / 4, w = t %% 4 * 4;\n"
                 "                    const float of_left = %s;\n"
                 "                    __global const uchar *y = right + ((right_batch * panels + "
                 "panel) * steps + t / %u) * %u + c * 128 + ((q ^ c) & 7) * 16 + w;\n"
                 "                    total = fma(of_left, PACKED_AT(y, %u), total);\n"
                 "                }\n"
                 "                again[e] = total;\n"
                 "            }\n"
                 "            sum = vload%u(0, again);\n"
                 "        }\n",
                 plan->width, plan->width, plan->columns / plan->width, plan->columns / plan->width,
                 plan->width, plan->step, of_left, plan->step, b, plan->columns * MM_LINE_BYTES,
                 plan->width);
}

/// Begins a loop over the tile's vectors, at `row` and `col`, of which `count` elements are.
static void emit_vectors(kf_text *text, const mm_plan *plan)
{
    uint32_t vectors = plan->columns / plan->width;
    kf_text_addf(text,
                 "    for (int i = item; i < %u; i += %u) {\n"
                 "        const long row = (long)tile * %u + i / %u;\n"
                 "        const long col = (long)panel * %u + i %% %u * %u;\n"
                 "        if (row >= m || col >= n) {\n"
                 "            continue;\n"
                 "        }\n"
                 "        const int count = (int)min(n - col, (long)%u);\n",
                 plan->rows * vectors, plan->items, plan->rows, vectors, plan->columns, vectors,
                 plan->width, plan->width);
}

/// Behind the parts of a tile: whoever ends last adds them up, and leaves the count as it was.
static void emit_join(kf_text *text, const mm_plan *plan)
{
    uint32_t w = plan->width;
    kf_text_add(text,
                "    __local int is_last;\n"
                "    __global int *count_of = counts + (batch * tiles + tile) * panels + panel;\n"
                "    asm volatile(\"fence.acq_rel.gpu;\" ::: \"memory\");\n"
                "    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);\n"
                "    if (item == 0) {\n"
                "        is_last = atomic_inc(count_of) + 1 == parts;\n"
                "    }\n"
                "    barrier(CLK_LOCAL_MEM_FENCE);\n"
                "    if (!is_last) {\n"
                "        return;\n"
                "    }\n"
                "    asm volatile(\"fence.acq_rel.gpu;\" ::: \"memory\");\n"
                "    if (item == 0) {\n"
                "        *count_of = 0;\n"
                "    }\n"
                "    const long step = batches * m * (long)n;\n");
    emit_vectors(text, plan);
    kf_text_addf(text,
                 "        __global const float *of = partial + (batch * m + row) * n + col;\n"
                 "        float%u sum = 0;\n"
                 "        for (int p = 0; p < parts; p++, of += step) {\n"
                 "            sum += (float%u)(",
                 w, w);
    for (uint32_t i = 0; i < w; i++) {
        kf_text_addf(text, "%s%u < count ? of[%u] : 0", i == 0 ? "" : ", ", i, i);
    }
    kf_text_add(text, ");\n        }\n");
    mm_emit_finish(text, plan, MM_COMBINE, "        ");
    kf_text_add(text, "    }\n");
}

static void emit_end(kf_text *text, const mm_plan *plan)
{
    uint32_t vectors = plan->columns / plan->width;
    emit_vectors(text, plan);
    kf_text_addf(
        text,
        "        float%u sum = *(__local const float%u *)((__local float *)ring + i / %u * "
        "%u + i %% %u * %u);\n",
        plan->width, plan->width, vectors, plan->columns + plan->width, vectors, plan->width);
    if (plan->copies > 1) {
        emit_again(text, plan);
    }
    mm_emit_finish(text, plan, MM_PRODUCT, "        ");
    kf_text_add(text, "    }\n");
    if (plan->joined) {
        emit_join(text, plan);
    }
    kf_text_add(text, "}\n");
}

/// Of the left operand as it lies: the stride of its rows, AT(t): where term `t` of a row is, and
/// whether pieces are whole and aligned.
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
                 "    aligned &= inner == 1 && (e%u_%d * %u | upper * %u) %% 16 == 0;\n"
                 "#define AT(t) ((t) / e%u_%d * upper + (t) %% e%u_%d * inner)\n",
                 upper, inner, left->source, left->inner, bytes, bytes, left->source, left->inner,
                 left->source, left->inner);
}

void tensor_emit_product(kf_text *text, const mm_plan *plan)
{
    emit_macros(text);
    emit_start(text, plan);
    if (plan->plain) {
        emit_strides(text, plan);
    }
    if (plan->plain) {
        emit_copies_as_they_lie(text, plan);
    } else {
        emit_copies(text, plan);
    }
    emit_products(text, plan);
    emit_end(text, plan);
}
