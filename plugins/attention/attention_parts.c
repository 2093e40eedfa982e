// SPDX-License-Identifier: MIT OR Apache-2.0
// The kernel for a query of one row on devices of many small work-items. A work-group has some keys
// of one head, so that even one head keeps many of them busy. A team of its work-items reads a line
// by 16 bytes each: 4 keys and their values, on their way together, then the next 4 while these are
// added. Each team goes through its keys by itself, with a maximum of its own; what the teams have
// meets in local memory. The work-group of a head that ends last joins the parts, in their order.
#include "attention_internal.h"

// PoCL refuses what it cannot unroll.
#define UNROLL "#ifndef POCL_DEVICE_ADDRESS_BITS\n#pragma unroll 16\n#endif\n"

/// The sums of a team's work-items: where a team is part of a warp by its registers, otherwise
/// through local memory.
static void emit_team_sums(kf_text *text, const at_plan *plan)
{
    if ((plan->device->features & KF_FEATURE_WGMMA) != 0 && at_part_team(plan->block) <= 32) {
        kf_text_add(
            text,
            "static inline void sum_team(float *s, __local float *sums, __local float *scores, int "
            "team, int lane) {\n" UNROLL "    for (int mask = 1; mask < TEAM; mask *= 2) {\n" UNROLL
            "        for (int i = 0; i < EACH; i++) {\n"
            "            float other;\n"
            "            asm volatile(\"shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;\" : "
            "\"=f\"(other) : \"f\"(s[i]), \"r\"(mask));\n"
            "            s[i] += other;\n"
            "        }\n"
            "    }\n"
            "}\n");
        return;
    }
    kf_text_add(
        text, "static inline void sum_team(float *s, __local float *sums, __local float *scores, "
              "int team, int lane) {\n" UNROLL "    for (int i = 0; i < EACH; i++) {\n"
              "        sums[(team * EACH + i) * (TEAM + 1) + lane] = s[i];\n"
              "    }\n"
              "    barrier(CLK_LOCAL_MEM_FENCE);\n"
              "    for (int i = lane; i < EACH; i += TEAM) {\n"
              "        float x = 0;\n"
              "        for (int a = 0; a < TEAM; a++) {\n"
              "            x += sums[(team * EACH + i) * (TEAM + 1) + a];\n"
              "        }\n"
              "        scores[team * EACH + i] = x;\n"
              "    }\n"
              "    barrier(CLK_LOCAL_MEM_FENCE);\n" UNROLL "    for (int i = 0; i < EACH; i++) {\n"
              "        s[i] = scores[team * EACH + i];\n"
              "    }\n"
              "}\n");
}

void at_emit_parts_functions(kf_text *text, const at_plan *plan)
{
    const at_block *block = plan->block;
    kf_dtype dtype = kf_dtype_of(block->element);
    const char *raw = dtype.bytes == 2 ? "ushort" : "uint";
    uint32_t once = at_part_once(block), team = at_part_team(block);
    uint32_t items = at_part_items(plan->device);
    kf_text_addf(text,
                 "#define ITEMS %u\n"
                 "#define ONCE %u\n"
                 "#define TEAM %u\n"
                 "#define TEAMS %u\n"
                 "#define EACH %u\n"
                 "#define TURNS %u\n"
                 "#define SPAN (TEAM * ONCE)\n"
                 "#define SUMS (TEAMS * EACH * (TEAM + 1))\n"
                 "#define RESULT (WIDTH + 2)\n"
                 "#ifdef POCL_DEVICE_ADDRESS_BITS\n"
                 "#define SETTLE __atomic_thread_fence(__ATOMIC_SEQ_CST)\n"
                 "#else\n"
                 "#define SETTLE mem_fence(CLK_GLOBAL_MEM_FENCE)\n"
                 "#endif\n",
                 items, once, team, items / team, (unsigned)AT_PART_EACH, (unsigned)AT_PART_TURNS);
    // 16 bytes of each of a turn's lines, from element `first` on; 0 behind their end and behind
    // the last line
    kf_text_addf(
        text,
        "static inline void read_lines(uint4 *to, __global const %s *p, long row, long col, int "
        "first, int length, int line, int lines) {\n"
        "    if (col == 1 && row %% ONCE == 0 && length %% ONCE == 0 && ((ulong)p & 15) == 0) "
        "{\n" UNROLL "        for (int i = 0; i < EACH; i++) {\n"
        "            to[i] = first < length && line + i < lines ? *(__global const uint4 *)(p + "
        "(line + i) * row + first) : (uint4)(0);\n"
        "        }\n"
        "        return;\n"
        "    }\n" UNROLL "    for (int i = 0; i < EACH; i++) {\n"
        "        __global const %s *of = (__global const %s *)p + (line + i) * row;\n"
        "        %s x[ONCE];\n"
        "        for (int e = 0; e < ONCE; e++) {\n"
        "            x[e] = first + e < length && line + i < lines ? of[(first + e) * col] : 0;\n"
        "        }\n"
        "        to[i] = as_uint4(vload%u(0, x));\n"
        "    }\n"
        "}\n",
        dtype.storage, raw, raw, raw, once);
    kf_text_add(text, "static inline void floats_of(uint4 x, float4 *to) {\n");
    if (dtype.bytes == 2) {
        kf_text_addf(text,
                     "    to[0] = values_%s(as_ushort4(x.lo));\n"
                     "    to[1] = values_%s(as_ushort4(x.hi));\n}\n",
                     dtype.name, dtype.name);
    } else {
        kf_text_add(text, "    to[0] = as_float4(x);\n}\n");
    }
    emit_team_sums(text, plan);
}

/// The query, in local memory as f32, and what the operators before the product make of it.
static void emit_part_query(kf_text *text, const at_plan *plan)
{
    const at_block *block = plan->block;
    const char *name = kf_dtype_of(block->element).name;
    kf_text_addf(text,
                 "    for (int d = 4 * item; d < SPAN; d += 4 * ITEMS) {\n"
                 "        const vec v%u = part_%s(b%u + min(d, DEPTH - 1) * q_col, q_col, DEPTH - "
                 "d);\n",
                 block->query.loaded, name, block->query.source);
    for (uint32_t i = 0; i < block->product; i++) {
        kf_chain_op_text(text, &block->chain, &block->chain.ops[i], plan->width, "        ");
    }
    kf_text_addf(text,
                 "        *(__local float4 *)(q + d) = select((float4)(0), v%u, (int4)(d, d + 1, d "
                 "+ 2, d + 3) < (int4)(DEPTH));\n"
                 "    }\n"
                 "    barrier(CLK_LOCAL_MEM_FENCE);\n"
                 "    float4 query[ONCE / 4], o[ONCE / 4];\n"
                 "    for (int i = 0; i < ONCE / 4; i++) {\n"
                 "        query[i] = *(__local const float4 *)(q + piece + 4 * i);\n"
                 "        o[i] = (float4)(0);\n"
                 "    }\n",
                 block->query.value);
}

/// The scores of a turn's keys and what the operators make of them, into s[]; -infinity past the
/// last key. The next turn's keys are asked for.
static void emit_part_scores(kf_text *text, const at_plan *plan)
{
    const at_block *block = plan->block;
    kf_text_add(text, "        float s[EACH];\n" UNROLL "        for (int i = 0; i < EACH; i++) {\n"
                      "            float4 key[ONCE / 4], x = (float4)(0);\n"
                      "            floats_of(k[i], key);\n"
                      "            for (int e = 0; e < ONCE / 4; e++) {\n"
                      "                x = fma(query[e], key[e], x);\n"
                      "            }\n"
                      "            s[i] = (x.x + x.z) + (x.y + x.w);\n"
                      "        }\n"
                      "        if (turn + 1 < TURNS) {\n");
    kf_text_addf(text,
                 "            read_lines(k, b%u, k_row, k_col, piece, DEPTH, first + EACH, n);\n"
                 "        }\n"
                 "        sum_team(s, sums, scores, team, lane);\n"
                 "        float top = high;\n" UNROLL
                 "        for (int e = 0; e < EACH; e += 4) {\n"
                 "            const long row = 0, col = first + e;\n"
                 "            const int count = clamp(n - first - e, 0, 4);\n"
                 "            const vec v%u = (vec)(s[e], s[e + 1], s[e + 2], s[e + 3]);\n",
                 block->key.source, block->scores);
    at_emit_scores(text, plan, "            ");
    kf_text_addf(text,
                 "            const vec x = select((vec)(-INFINITY), v%u, (int4)(0, 1, 2, 3) < "
                 "(int4)(count));\n"
                 "            s[e] = x.x;\n"
                 "            s[e + 1] = x.y;\n"
                 "            s[e + 2] = x.z;\n"
                 "            s[e + 3] = x.w;\n"
                 "            top = fmax(top, fmax(fmax(x.x, x.z), fmax(x.y, x.w)));\n"
                 "        }\n",
                 block->last);
}

/// Weights; what was summed for a smaller maximum is scaled down, then the weighted values are
/// added. The next turn's values are asked for.
static void emit_part_values(kf_text *text, const at_plan *plan)
{
    kf_text_addf(
        text,
        "        const float base = top == -INFINITY ? 0 : top;\n"
        "        const float less = decay_float((vec)(high - base)).x;\n"
        "        high = top;\n"
        "        sum *= less;\n"
        "        for (int i = 0; i < ONCE / 4; i++) {\n"
        "            o[i] *= less;\n"
        "        }\n" UNROLL "        for (int e = 0; e < EACH; e += 4) {\n"
        "            const vec weight = decay_float((vec)(s[e], s[e + 1], s[e + 2], s[e + 3]) - "
        "base);\n"
        "            const float weights[4] = {weight.x, weight.y, weight.z, weight.w};\n"
        "            sum += (weight.x + weight.z) + (weight.y + weight.w);\n" UNROLL
        "            for (int t = 0; t < 4; t++) {\n"
        "                float4 value[ONCE / 4];\n"
        "                floats_of(v[e + t], value);\n"
        "                for (int i = 0; i < ONCE / 4; i++) {\n"
        "                    o[i] = fma((float4)(weights[t]), value[i], o[i]);\n"
        "                }\n"
        "            }\n"
        "        }\n"
        "        if (turn + 1 < TURNS) {\n"
        "            read_lines(v, b%u, v_row, v_col, piece, WIDTH, first + EACH, n);\n"
        "        }\n",
        plan->block->values.source);
}

/// What the part has: its sums, its maximum and the sum of its weights.
static void emit_part_result(kf_text *text)
{
    kf_text_add(text, "    barrier(CLK_LOCAL_MEM_FENCE);\n"
                      "    if (lane == 0) {\n"
                      "        tops[team] = high;\n"
                      "        shares[team] = sum;\n"
                      "    }\n"
                      "    for (int i = 0; i < ONCE / 4; i++) {\n"
                      "        *(__local float4 *)(sums + team * SPAN + piece + 4 * i) = o[i];\n"
                      "    }\n"
                      "    barrier(CLK_LOCAL_MEM_FENCE);\n"
                      "    __global float *own = partial + (batch * parts + part) * RESULT;\n"
                      "    high = -INFINITY;\n" UNROLL "    for (int t = 0; t < TEAMS; t++) {\n"
                      "        high = fmax(high, tops[t]);\n"
                      "    }\n"
                      "    const float most = high == -INFINITY ? 0 : high;\n"
                      "    for (int c = item; c < RESULT; c += ITEMS) {\n"
                      "        float x = 0;\n" UNROLL "        for (int t = 0; t < TEAMS; t++) {\n"
                      "            const float share = decay_float((vec)(tops[t] - most)).x;\n"
                      "            x = fma(c < WIDTH ? sums[t * SPAN + c] : shares[t], share, x);\n"
                      "        }\n"
                      "        own[c] = c == WIDTH ? high : x;\n"
                      "    }\n");
}

/// Whoever ends last of a head's parts joins them, and leaves the count as it was.
static void emit_part_last(kf_text *text)
{
    kf_text_add(text, "    __local int is_last;\n"
                      "    SETTLE;\n"
                      "    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);\n"
                      "    if (item == 0) {\n"
                      "        is_last = atomic_inc(counts + batch) + 1 == parts;\n"
                      "    }\n"
                      "    barrier(CLK_LOCAL_MEM_FENCE);\n"
                      "    if (!is_last) {\n"
                      "        return;\n"
                      "    }\n"
                      "    SETTLE;\n"
                      "    if (item == 0) {\n"
                      "        counts[batch] = 0;\n"
                      "    }\n");
}

/// 8 parts at a time are on their way together.
static void emit_part_join(kf_text *text, const at_plan *plan)
{
    kf_text_addf(
        text,
        "    __global const float *of = partial + batch * parts * RESULT;\n"
        "    for (int c = item; c < WIDTH; c += ITEMS) {\n"
        "        float x = 0, total = 0, so_far = -INFINITY;\n"
        "        for (int from = 0; from < parts; from += 8) {\n"
        "            float its_top[8], its_total[8], its[8];\n"
        "            float top = so_far;\n" UNROLL "            for (int i = 0; i < 8; i++) {\n"
        "                __global const float *one = of + min(from + i, parts - 1) * RESULT;\n"
        "                its[i] = one[c];\n"
        "                its_top[i] = one[WIDTH];\n"
        "                its_total[i] = one[WIDTH + 1];\n"
        "            }\n" UNROLL "            for (int i = 0; i < 8; i++) {\n"
        "                top = from + i < parts ? fmax(top, its_top[i]) : top;\n"
        "            }\n"
        "            const float base = top == -INFINITY ? 0 : top;\n"
        "            const float less = decay_float((vec)(so_far - base)).x;\n"
        "            x *= less;\n"
        "            total *= less;\n"
        "            so_far = top;\n" UNROLL "            for (int i = 0; i < 8; i++) {\n"
        "                const float share = decay_float((vec)(its_top[i] - base)).x;\n"
        "                x = from + i < parts ? fma(its[i], share, x) : x;\n"
        "                total = from + i < parts ? fma(its_total[i], share, total) : total;\n"
        "            }\n"
        "        }\n"
        "        put_%s(out + batch * WIDTH + c, (vec)(x / total), 1);\n"
        "    }\n",
        kf_dtype_of(plan->block->element).name);
}

void at_emit_parts(kf_text *text, const at_plan *plan)
{
    const at_block *block = plan->block;
    kf_text_addf(text,
                 "    __local float q[SPAN] __attribute__((aligned(16)));\n"
                 "    __local float sums[SUMS > ITEMS * ONCE ? SUMS : ITEMS * ONCE] "
                 "__attribute__((aligned(16)));\n"
                 "    __local float scores[TEAMS * EACH], tops[TEAMS], shares[TEAMS];\n"
                 "    const int item = get_local_id(0), team = item / TEAM, lane = item %% TEAM;\n"
                 "    const int part = get_group_id(0), parts = get_num_groups(0);\n"
                 "    const int piece = lane * ONCE;\n"
                 "    int first = part * TILE + team * (EACH * TURNS);\n"
                 "    float high = -INFINITY, sum = 0;\n"
                 "    uint4 k[EACH], v[EACH];\n"
                 "    read_lines(k, b%u, k_row, k_col, piece, DEPTH, first, n);\n"
                 "    read_lines(v, b%u, v_row, v_col, piece, WIDTH, first, n);\n",
                 block->key.source, block->values.source);
    emit_part_query(text, plan);
    kf_text_add(text, "    for (int turn = 0; turn < TURNS; turn++, first += EACH) {\n");
    emit_part_scores(text, plan);
    emit_part_values(text, plan);
    kf_text_add(text, "    }\n");
    emit_part_result(text);
    emit_part_last(text);
    emit_part_join(text, plan);
}
