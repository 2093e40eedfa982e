// SPDX-License-Identifier: MIT OR Apache-2.0
// The kernel for tensor cores of NVIDIA's compute capability 9.0, of 16-bit operands. A work-group
// of two teams has 128 rows of one head, 64 a team. Keys and values go through local memory, 128
// keys at a time, in turns of two tiles of keys and three of values; all work-items ask for them a
// tile ahead, and barriers count what has come and who has read it, so the teams need not keep
// step. Scores, weights and sums stay in registers, of f32: the scores of a tile are multiplied
// while the values of the tile before are, and their softmax is taken while that product runs.
//
// After NVIDIA's PTX manual, "Asynchronous Warpgroup Level Matrix Instructions" and "cp.async".
// Instructions of sm_90a are comments that begin `//@` until the host has made PTX of the text
// (KILN_PTX_TARGET).
//
// In local memory a matrix lies in blocks of 64 columns: lines of 128 bytes, in eights, whose
// 16-byte pieces are exchanged by their line's number. Of 16 rows by 8 columns of scores or sums,
// a work-item has two neighbours in one row and two eight rows below, as the weights have to lie
// for the second product.
#include "attention_internal.h"

/// Elements of a head in whole blocks.
static uint32_t whole_blocks(int32_t length)
{
    return ((uint32_t)length + 63) / 64 * 64;
}

/// The operator on the query is one factor, which the scores take instead: so the query is not
/// rounded again.
static uint32_t scales_scores(const at_block *block)
{
    const kf_chain_op *op = &block->chain.ops[0];
    return block->product == 1 && op->row != NULL && op->row->op == KF_OP_MUL_SCALAR;
}

/// The query goes into local memory as it is read.
static uint32_t reads_query(const at_block *block)
{
    return block->product == 0 || scales_scores(block);
}

// ---- functions ----

void at_emit_barriers(kf_text *text)
{
    kf_text_add(
        text,
        "#define WAIT(bar, parity) do { uint over; do { \\\n"
        "    asm volatile(\"{ .reg .pred P; mbarrier.try_wait.parity.shared.b64 P, [%1], %2; "
        "selp.u32 %0, 1, 0, P; }\" : \"=r\"(over) : \"r\"(bar), \"r\"(parity) : \"memory\"); \\\n"
        "    } while (!over); } while (0)\n"
        "#define ARRIVE(bar) asm volatile(\"mbarrier.arrive.shared.b64 _, [%0];\" :: \"r\"(bar) : "
        "\"memory\")\n");
}

void at_emit_tensor_functions(kf_text *text, const at_plan *plan)
{
    const at_block *block = plan->block;
    const char *name = kf_dtype_of(block->element).name;
    kf_text_addf(text,
                 "#define ITEMS %u\n"
                 "#define ROWS %u\n"
                 "#define DEEP %u\n"
                 "#define WIDE %u\n"
                 "#define QUERY_BYTES (ROWS * DEEP * 2)\n"
                 "#define KEY_BYTES (TILE * DEEP * 2)\n"
                 "#define VALUE_BYTES (TILE * WIDE * 2)\n"
                 "#define PACK(to, low, high) asm(\"cvt.rn.%sx2.f32 %%0, %%1, %%2;\" : \"=r\"(to) "
                 ": \"f\"(high), \"f\"(low))\n",
                 (unsigned)AT_TENSOR_ITEMS, (unsigned)AT_TENSOR_ROWS, whole_blocks(block->depth),
                 whole_blocks(block->width), name);
    kf_text_add(
        text,
        "#define LOG2E 1.44269504f\n"
        "#define PLACE(to, line, piece) ((to) + ((piece) >> 3) * (ROWS * 128) + (line) * 128 + "
        "((((piece) ^ (line)) & 7) << 4))\n"
        // start address, from one block of columns to the next, from eight lines to the next
        "#define LINES_AT(at) ((ulong)(((at) & 0x3ffffu) >> 4) | 1ul << 16 | 64ul << 32 | 1ul << "
        "62)\n"
        "#define COLUMNS_AT(at) ((ulong)(((at) & 0x3ffffu) >> 4) | (ulong)(TILE * 8) << 16 | 64ul "
        "<< 32 | 1ul << 62)\n");
    at_emit_barriers(text);
    kf_text_add(
        text,
        // barriers: a tile has come, of keys or values; all warps have read it; the query has come
        "#define BARS 11\n"
        "#define QUERY_IN (bars_at + 80)\n"
        "#define KEYS_IN(t) (bars_at + 8 * ((t) & 1))\n"
        "#define KEYS_OUT(t) (bars_at + 16 + 8 * ((t) & 1))\n"
        "#define VALUES_IN(t) (bars_at + 32 + 8 * ((t) % 3))\n"
        "#define VALUES_OUT(t) (bars_at + 56 + 8 * ((t) % 3))\n"
        "static inline float exp2_of(float x) {\n"
        "    float y;\n"
        "    asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : \"f\"(x));\n"
        "    return y;\n"
        "}\n"
        "static inline float four_max(float x) {\n"
        "    float y;\n"
        "    asm volatile(\"shfl.sync.bfly.b32 %0, %1, 1, 0x1f, 0xffffffff;\" : \"=f\"(y) : "
        "\"f\"(x));\n"
        "    x = fmax(x, y);\n"
        "    asm volatile(\"shfl.sync.bfly.b32 %0, %1, 2, 0x1f, 0xffffffff;\" : \"=f\"(y) : "
        "\"f\"(x));\n"
        "    return fmax(x, y);\n"
        "}\n"
        "static inline float four_sum(float x) {\n"
        "    float y;\n"
        "    asm volatile(\"shfl.sync.bfly.b32 %0, %1, 1, 0x1f, 0xffffffff;\" : \"=f\"(y) : "
        "\"f\"(x));\n"
        "    x += y;\n"
        "    asm volatile(\"shfl.sync.bfly.b32 %0, %1, 2, 0x1f, 0xffffffff;\" : \"=f\"(y) : "
        "\"f\"(x));\n"
        "    return x + y;\n"
        "}\n"
        // `left` lines of `length` elements at p, the others 0, to local memory at `to`; `pieces`
        // in a line
        "static inline void take(__local uchar *memory, uint to, __global const ushort *p, long "
        "row, long col, long left, int length, int pieces, int item, uint bar) {\n"
        "    const int piece = item % pieces, line = item / pieces, step = ITEMS / pieces;\n"
        "    const int count = clamp(length - 8 * piece, 0, 8), lines = (int)min(left, "
        "(long)TILE);\n"
        "    const uint place = PLACE(to, line, piece), at = (uint)(ulong)memory + place;\n"
        "    __global const ushort *from = p + line * row + 8 * piece * col;\n"
        "    if (col == 1 && (row & 7) == 0 && ((ulong)p & 15) == 0) {\n"
        "#pragma unroll\n"
        "        for (int i = 0; i < TILE / step; i++) {\n"
        "            const int bytes = line + i * step < lines ? 2 * count : 0;\n"
        "            asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16, %2;\" :: \"r\"(at + "
        "i * step * 128), \"l\"(from + i * step * row), \"r\"(bytes) : \"memory\");\n"
        "        }\n"
        "        asm volatile(\"cp.async.mbarrier.arrive.noinc.shared.b64 [%0];\" :: \"r\"(bar) : "
        "\"memory\");\n"
        "        return;\n"
        "    }\n"
        "    for (int i = 0; i < TILE / step; i++) {\n"
        "        const int there = line + i * step < lines ? count : 0;\n"
        "        __global const ushort *of = from + i * step * row;\n"
        "        uint x[4];\n"
        "#pragma unroll\n"
        "        for (int e = 0; e < 4; e++) {\n"
        "            x[e] = 2 * e < there ? of[2 * e * col] : 0;\n"
        "            x[e] |= 2 * e + 1 < there ? (uint)of[(2 * e + 1) * col] << 16 : 0;\n"
        "        }\n"
        "        *(__local uint4 *)(memory + place + i * step * 128) = (uint4)(x[0], x[1], x[2], "
        "x[3]);\n"
        "    }\n"
        "    asm volatile(\"fence.proxy.async.shared::cta;\" ::: \"memory\");\n"
        "    ARRIVE(bar);\n"
        "}\n");
}

// ---- products ----

static void emit_tensor_names(kf_text *text, uint32_t count, const char *before, const char *after)
{
    for (uint32_t i = 0; i < count; i++) {
        kf_text_addf(text, "%s%s%u%s", i == 0 ? "" : ", ", before, i, after);
    }
}

/// Asks for a product that runs on: 64 rows by `columns`, 16 terms. `operands`: of the left and
/// right one, and what to add to.
static void emit_tensor_wgmma(kf_text *text, const at_plan *plan, const char *sums,
                              uint32_t columns, uint32_t of_registers, const char *operands)
{
    const char *name = kf_dtype_of(plan->block->element).name;
    uint32_t n = columns / 2;
    kf_text_addf(text,
                 "            asm volatile(\"//@ { .reg .pred p; setp.ne.b32 p, %%%u, 0; "
                 "wgmma.mma_async.sync.aligned.m64n%uk16.f32.%s.%s {",
                 of_registers ? n + 5 : n + 2, columns, name, name);
    emit_tensor_names(text, n, "%", "");
    if (of_registers) {
        kf_text_addf(text, "}, {%%%u, %%%u, %%%u, %%%u}, %%%u, p, 1, 1, 1; }\" : ", n, n + 1, n + 2,
                     n + 3, n + 4);
    } else {
        kf_text_addf(text, "}, %%%u, %%%u, p, 1, 1, 0, 0; }\" : ", n, n + 1);
    }
    char before[16];
    snprintf(before, sizeof(before), "\"+f\"(%s[", sums);
    emit_tensor_names(text, n, before, "])");
    kf_text_addf(text, " : %s : \"memory\");\n", operands);
}

static void emit_tensor_commit(kf_text *text)
{
    kf_text_add(text, "            asm volatile(\"//@ wgmma.commit_group.sync.aligned;\" ::: "
                      "\"memory\");\n");
}

/// Products before the last `running` are done: of the registers that they read and write, nothing
/// moves across.
static void emit_tensor_wait(kf_text *text, uint32_t running, const char *sums, uint32_t count,
                             uint32_t weights)
{
    char before[16];
    snprintf(before, sizeof(before), "\"+f\"(%s[", sums);
    kf_text_addf(text,
                 "            asm volatile(\"//@ wgmma.wait_group.sync.aligned %u;\" : ", running);
    emit_tensor_names(text, count, before, "])");
    if (weights > 0) {
        kf_text_add(text, ", ");
        emit_tensor_names(text, weights, "\"+r\"(p[", "])");
    }
    kf_text_add(text, " :: \"memory\");\n");
}

static void emit_tensor_fence(kf_text *text)
{
    kf_text_add(text, "            asm volatile(\"//@ wgmma.fence.sync.aligned;\" ::: "
                      "\"memory\");\n");
}

/// s: the team's rows of the query times the keys of tile `j`.
static void emit_tensor_scores(kf_text *text, const at_plan *plan)
{
    uint32_t pieces = whole_blocks(plan->block->depth) / 16;
    kf_text_add(text, "            const uint key_at = base + QUERY_BYTES + (j & 1) * KEY_BYTES;\n"
                      "            const uint query_at = base + team * 8192;\n");
    for (uint32_t i = 0; i < pieces; i++) {
        char operands[160];
        snprintf(operands, sizeof(operands),
                 "\"l\"(LINES_AT(query_at + %u)), \"l\"(LINES_AT(key_at + %u)), \"r\"(%u)",
                 i / 4 * AT_TENSOR_ROWS * 128 + i % 4 * 32,
                 i / 4 * AT_TENSOR_KEYS * 128 + i % 4 * 32, i > 0);
        emit_tensor_wgmma(text, plan, "s", AT_TENSOR_KEYS, 0, operands);
    }
    emit_tensor_commit(text);
}

/// Adds to o the weights p times the values of tile `tile`.
static void emit_tensor_values(kf_text *text, const at_plan *plan, const char *tile)
{
    kf_text_addf(text,
                 "            const uint value_at = base + QUERY_BYTES + 2 * KEY_BYTES + (%s) %% 3 "
                 "* VALUE_BYTES;\n",
                 tile);
    for (uint32_t i = 0; i < AT_TENSOR_KEYS / 16; i++) {
        char operands[160];
        snprintf(operands, sizeof(operands),
                 "\"r\"(p[%u]), \"r\"(p[%u]), \"r\"(p[%u]), \"r\"(p[%u]), "
                 "\"l\"(COLUMNS_AT(value_at + %u)), \"r\"(1)",
                 4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3, i * 2048);
        emit_tensor_wgmma(text, plan, "o", whole_blocks(plan->block->width), 1, operands);
    }
    emit_tensor_commit(text);
}

// ---- tiles ----

/// The keys of tile `keys` and the values of tile `values`, either may be NULL, are there, and
/// tensor cores see them.
static void emit_tensor_arrived(kf_text *text, const char *keys, const char *values)
{
    if (keys != NULL) {
        kf_text_addf(text, "            WAIT(KEYS_IN(%s), ((%s) / 2 & 1));\n", keys, keys);
    }
    if (values != NULL) {
        kf_text_addf(text, "            WAIT(VALUES_IN(%s), ((%s) / 3 & 1));\n", values, values);
    }
    kf_text_add(text, "            asm volatile(\"fence.proxy.async.shared::cta;\" ::: "
                      "\"memory\");\n");
}

/// This warp has read a tile.
static void emit_tensor_left(kf_text *text, const char *bar, const char *tile)
{
    kf_text_addf(text,
                 "            if (lane == 0) {\n"
                 "                ARRIVE(%s(%s));\n"
                 "            }\n",
                 bar, tile);
}

/// Asks for the keys behind tile `j` and for its values.
static void emit_tensor_ask(kf_text *text, const at_plan *plan)
{
    const at_block *block = plan->block;
    kf_text_addf(
        text,
        "            if (j + 1 < tiles) {\n"
        "                WAIT(KEYS_OUT(j + 1), (((j + 1) / 2 & 1) ^ 1));\n"
        "                take(memory, QUERY_BYTES + ((j + 1) & 1) * KEY_BYTES, (__global const "
        "ushort *)b%u + (j + 1) * (long)TILE * k_row, k_row, k_col, n - (j + 1) * (long)TILE, "
        "DEPTH, DEEP / 8, item, KEYS_IN(j + 1));\n"
        "            }\n"
        "            WAIT(VALUES_OUT(j), ((j / 3 & 1) ^ 1));\n"
        "            take(memory, QUERY_BYTES + 2 * KEY_BYTES + j %% 3 * VALUE_BYTES, (__global "
        "const ushort *)b%u + j * (long)TILE * v_row, v_row, v_col, n - j * (long)TILE, WIDTH, "
        "WIDE / 8, item, VALUES_IN(j));\n",
        block->key.source, block->values.source);
}

/// The operators on the scores, where not all rows see all keys or there are other operators, and
/// -infinity past the last key. `unit`: what the others are still to be multiplied with.
static void emit_tensor_operators(kf_text *text, const at_plan *plan)
{
    const at_block *block = plan->block;
    char factor[32] = "1";
    if (scales_scores(block)) {
        snprintf(factor, sizeof(factor), "s%u.x", block->chain.ops[0].numbers[0]);
    }
    kf_text_addf(text,
                 "            const long from = j * (long)TILE;\n"
                 "            float unit = %s;\n"
                 "            if (j >= clear || from + TILE > n || !(unit > 0)) {\n"
                 "#pragma unroll\n"
                 "            for (int e = 0; e < TILE / 4; e++) {\n"
                 "                const int i = e / 2 * 4 + e %% 2 * 2;\n"
                 "                const long row = min(first + own + e %% 2 * 8, (long)m - 1);\n"
                 "                const long col = from + e / 2 * 8 + lane %% 4 * 2;\n"
                 "                const int count = (int)clamp(n - col, (long)0, (long)2);\n"
                 "                const vec v%u = (vec)(s[i], s[i + 1]) * unit;\n",
                 factor, block->scores);
    at_emit_scores(text, plan, "                ");
    kf_text_addf(text,
                 "                s[i] = count > 0 ? v%u.x : -INFINITY;\n"
                 "                s[i + 1] = count > 1 ? v%u.y : -INFINITY;\n"
                 "            }\n"
                 "            unit = 1;\n"
                 "            }\n",
                 block->last, block->last);
}

/// Weights, in s; `less`: what was summed before is worth of it.
static void emit_tensor_weights(kf_text *text, const at_plan *plan)
{
    const at_block *block = plan->block;
    uint32_t any = block->softmax > block->product + 1;
    kf_text_add(text, "            float top[2] = {-INFINITY, -INFINITY}, less[2], zero[2];\n"
                      "#pragma unroll\n"
                      "            for (int e = 0; e < TILE / 2; e++) {\n"
                      "                top[e / 2 % 2] = fmax(top[e / 2 % 2], s[e]);\n"
                      "            }\n"
                      "#pragma unroll\n"
                      "            for (int h = 0; h < 2; h++) {\n"
                      "                top[h] = fmax(four_max(top[h]) * unit, high[h]);\n"
                      "                zero[h] = top[h] == -INFINITY ? 0 : top[h];\n"
                      "                less[h] = exp2_of((high[h] - zero[h]) * LOG2E);\n"
                      "                sum[h] *= less[h];\n"
                      "                high[h] = top[h];\n"
                      "            }\n");
    // what operators make of scores may be as large as a float is
    kf_text_addf(text,
                 "#pragma unroll\n"
                 "            for (int e = 0; e < TILE / 2; e++) {\n"
                 "                s[e] = exp2_of(%s);\n"
                 "                sum[e / 2 %% 2] += s[e];\n"
                 "            }\n",
                 any && !plan->has_seen ? "(s[e] - zero[e / 2 % 2]) * LOG2E"
                                        : "fma(s[e], unit * LOG2E, -LOG2E * zero[e / 2 % 2])");
}

static void emit_tensor_pack(kf_text *text)
{
    kf_text_add(text, "#pragma unroll\n"
                      "            for (int e = 0; e < TILE / 4; e++) {\n"
                      "                PACK(p[e], s[2 * e], s[2 * e + 1]);\n"
                      "            }\n");
}

static void emit_tensor_first(kf_text *text, const at_plan *plan)
{
    kf_text_add(text, "        {\n            const int j = 0;\n");
    if (reads_query(plan->block)) {
        kf_text_add(text, "            WAIT(QUERY_IN, 0);\n");
    }
    emit_tensor_ask(text, plan);
    emit_tensor_arrived(text, "j", NULL);
    emit_tensor_fence(text);
    emit_tensor_scores(text, plan);
    emit_tensor_wait(text, 0, "s", AT_TENSOR_KEYS / 2, 0);
    emit_tensor_left(text, "KEYS_OUT", "j");
    emit_tensor_operators(text, plan);
    emit_tensor_weights(text, plan);
    emit_tensor_pack(text);
    kf_text_add(text, "        }\n");
}

static void emit_tensor_next(kf_text *text, const at_plan *plan)
{
    kf_text_add(text, "        for (int j = 1; j < tiles; j++) {\n");
    emit_tensor_ask(text, plan);
    emit_tensor_arrived(text, "j", "j - 1");
    emit_tensor_fence(text);
    emit_tensor_scores(text, plan);
    emit_tensor_values(text, plan, "j - 1");
    emit_tensor_wait(text, 1, "s", AT_TENSOR_KEYS / 2, 0);
    emit_tensor_left(text, "KEYS_OUT", "j");
    emit_tensor_operators(text, plan);
    emit_tensor_weights(text, plan);
    emit_tensor_wait(text, 0, "o", whole_blocks(plan->block->width) / 2, AT_TENSOR_KEYS / 4);
    emit_tensor_left(text, "VALUES_OUT", "j - 1");
    kf_text_add(text, "            if (less[0] != 1 || less[1] != 1) {\n"
                      "#pragma unroll\n"
                      "                for (int e = 0; e < WIDE / 2; e++) {\n"
                      "                    o[e] *= less[e / 2 % 2];\n"
                      "                }\n"
                      "            }\n");
    emit_tensor_pack(text);
    kf_text_add(text, "        }\n");
}

static void emit_tensor_last(kf_text *text, const at_plan *plan)
{
    kf_text_add(text, "        {\n");
    emit_tensor_arrived(text, NULL, "tiles - 1");
    emit_tensor_fence(text);
    emit_tensor_values(text, plan, "tiles - 1");
    emit_tensor_wait(text, 0, "o", whole_blocks(plan->block->width) / 2, AT_TENSOR_KEYS / 4);
    kf_text_add(text, "        }\n");
}

// ---- the query, the result ----

static void emit_tensor_query(kf_text *text, const at_plan *plan)
{
    const at_block *block = plan->block;
    const char *name = kf_dtype_of(block->element).name;
    uint32_t source = block->query.source;
    if (reads_query(block)) {
        kf_text_addf(text,
                     "    take(memory, 0, (__global const ushort *)b%u + first * q_row, q_row, "
                     "q_col, m - first, DEPTH, DEEP / 8, item, QUERY_IN);\n",
                     source);
        return;
    }
    kf_text_addf(
        text,
        "    for (int e = item; e < ROWS * DEEP / 2; e += ITEMS) {\n"
        "        const int r = e / (DEEP / 2), d = e %% (DEEP / 2) * 2;\n"
        "        __global const %s *of = b%u + min(first + r, (long)m - 1) * q_row;\n"
        "        const vec v%u = (vec)(one_%s(of + min(d, DEPTH - 1) * q_col), one_%s(of + "
        "min(d + 1, DEPTH - 1) * q_col));\n",
        kf_dtype_of(block->element).storage, source, block->query.loaded, name, name);
    at_emit_query_operators(text, plan);
    kf_text_addf(text,
                 "        *(__local ushort2 *)(memory + PLACE(0, r, d / 8) + d %% 8 * 2) = "
                 "bits_%s((vec)(d < DEPTH ? v%u.x : 0, d + 1 < DEPTH ? v%u.y : 0));\n"
                 "    }\n",
                 name, block->query.value, block->query.value);
    kf_text_add(text, "    asm volatile(\"fence.proxy.async.shared::cta;\" ::: \"memory\");\n"
                      "    barrier(CLK_LOCAL_MEM_FENCE);\n");
}

static void emit_tensor_result(kf_text *text)
{
    kf_text_add(text, "#pragma unroll\n"
                      "    for (int h = 0; h < 2; h++) {\n"
                      "        const float share = 1 / four_sum(sum[h]);\n"
                      "        const long row = first + own + 8 * h;\n"
                      "        __global ushort *to = (__global ushort *)out + (batch * m + row) * "
                      "WIDTH;\n"
                      "#pragma unroll\n"
                      "        for (int i = 0; i < WIDE / 8; i++) {\n"
                      "            const int at = 8 * i + lane % 4 * 2;\n"
                      "            uint pair;\n"
                      "            PACK(pair, o[4 * i + 2 * h] * share, o[4 * i + 2 * h + 1] * "
                      "share);\n"
                      "            if (WIDTH % 2 == 0 ? row < m && at < WIDTH : 0) {\n"
                      "                *(__global uint *)(to + at) = pair;\n"
                      "            } else if (row < m && at < WIDTH) {\n"
                      "                to[at] = (ushort)pair;\n"
                      "                if (at + 1 < WIDTH) {\n"
                      "                    to[at + 1] = (ushort)(pair >> 16);\n"
                      "                }\n"
                      "            }\n"
                      "        }\n"
                      "    }\n");
}

void at_emit_tensor(kf_text *text, const at_plan *plan)
{
    uint32_t any = plan->block->softmax > plan->block->product + 1;
    kf_text_addf(text,
                 "    __local uchar memory[QUERY_BYTES + 2 * KEY_BYTES + 3 * VALUE_BYTES] "
                 "__attribute__((aligned(1024)));\n"
                 "    const int item = get_local_id(0), team = item / 128, lane = item %% 32;\n"
                 "    const int own = item / 32 * 16 + lane / 4;\n"
                 "    __local ulong bars[BARS];\n"
                 "    const uint base = (uint)(ulong)memory, bars_at = (uint)(ulong)bars;\n"
                 "    const long first = (get_num_groups(0) - 1 - get_group_id(0)) * (long)ROWS;\n"
                 "    int tiles = (n + TILE - 1) / TILE, clear = %s;\n"
                 "    float s[TILE / 2], o[WIDE / 2], high[2] = {-INFINITY, -INFINITY}, sum[2] = "
                 "{0, 0};\n"
                 "    uint p[TILE / 4];\n"
                 "#pragma unroll\n"
                 "    for (int i = 0; i < WIDE / 2; i++) {\n"
                 "        o[i] = 0;\n"
                 "    }\n"
                 "#pragma unroll\n"
                 "    for (int i = 0; i < TILE / 2; i++) {\n"
                 "        s[i] = 0;\n"
                 "    }\n",
                 any ? "0" : "tiles");
    kf_text_add(text,
                "    if (item == 0) {\n"
                "        for (int i = 0; i < BARS; i++) {\n"
                "            asm volatile(\"mbarrier.init.shared.b64 [%0], %1;\" :: "
                "\"r\"(bars_at + 8 * i), \"r\"(i < 2 || (i >= 4 && i < 7) || i == 10 ? ITEMS : "
                "ITEMS / 32) : \"memory\");\n"
                "        }\n"
                "        asm volatile(\"fence.mbarrier_init.release.cluster;\" ::: "
                "\"memory\");\n"
                "    }\n"
                "    barrier(CLK_LOCAL_MEM_FENCE);\n");
    emit_tensor_query(text, plan);
    kf_text_addf(text,
                 "    take(memory, QUERY_BYTES, (__global const ushort *)b%u, k_row, k_col, n, "
                 "DEPTH, DEEP / 8, item, KEYS_IN(0));\n",
                 plan->block->key.source);
    if (plan->has_seen) {
        at_emit_seen(text, plan);
    }
    emit_tensor_first(text, plan);
    emit_tensor_next(text, plan);
    emit_tensor_last(text, plan);
    emit_tensor_result(text);
}
