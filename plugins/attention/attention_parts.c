// SPDX-License-Identifier: MIT OR Apache-2.0
// The kernel for a query of one row on devices of many small work-items. A work-group has 64 keys
// of one head, so that even one head keeps many of them busy. Work-items side by side read a key by
// 16 bytes each; what each of them sums of it meets in local memory, where the softmax of the part
// is taken, and likewise for the values. Keys and values are asked for together, at the start, so
// that memory is never idle while the softmax is taken. The work-group of a head that ends last
// joins what its parts have summed, always in the same order.
#include "attention_internal.h"

// PoCL refuses what it cannot unroll.
#define UNROLL "#ifndef POCL_DEVICE_ADDRESS_BITS\n#pragma unroll 16\n#endif\n"

/// Work-items, a power of two, that have a vector of 4 columns of the result each.
static uint32_t quads_across(const at_block *block)
{
    uint32_t count = 1;
    while (count * 4 < (uint32_t)block->width) {
        count *= 2;
    }
    return count;
}

void at_emit_parts_functions(kf_text *text, const at_plan *plan)
{
    const at_block *block = plan->block;
    kf_dtype dtype = kf_dtype_of(block->element);
    const char *raw = dtype.bytes == 2 ? "ushort" : "uint";
    uint32_t small = dtype.bytes == 2, quads = at_part_once(block) / 4;
    kf_text_addf(text,
                 "#define ITEMS %u\n"
                 "#define ONCE %u\n"
                 "#define QUADS %u\n"
                 "#define DEEP %u\n"
                 "#define WIDE %u\n"
                 "#define ALL_TURNS(across) (TILE * (across) > ITEMS ? TILE * (across) / ITEMS : "
                 "1)\n"
                 "#define TURNS_OF(across) (ALL_TURNS(across) < 16 ? ALL_TURNS(across) : 16)\n"
                 "#define RESULT %d\n"
                 "#define ACROSS %u\n"
                 "#ifdef POCL_DEVICE_ADDRESS_BITS\n"
                 "#define SETTLE __atomic_thread_fence(__ATOMIC_SEQ_CST)\n"
                 "#else\n"
                 "#define SETTLE mem_fence(CLK_GLOBAL_MEM_FENCE)\n"
                 "#endif\n",
                 (unsigned)AT_PART_ITEMS, at_part_once(block), quads,
                 at_part_items(block, block->depth), at_part_items(block, block->width),
                 (int)at_part_result(block), quads_across(block));
    // 16 bytes of each of `count` lines, from element `first` on, 0 behind its end; lines past the
    // last are the last
    kf_text_addf(
        text,
        "static inline void read_lines(uint4 *to, int count, __global const %s *p, long row, long "
        "col, int first, int length, int line, int step, int lines) {\n"
        "    if (col == 1 && row %% ONCE == 0 && length %% ONCE == 0 && ((ulong)p & 15) == 0) "
        "{\n" UNROLL "        for (int i = 0; i < count; i++) {\n"
        "            to[i] = first < length ? *(__global const uint4 *)(p + min(line + i * step, "
        "lines - 1) * row + first) : (uint4)(0);\n"
        "        }\n"
        "        return;\n"
        "    }\n" UNROLL "    for (int i = 0; i < count; i++) {\n"
        "        __global const %s *of = (__global const %s *)p + min(line + i * step, lines - 1) "
        "* row;\n"
        "        %s x[ONCE];\n"
        "        for (int e = 0; e < ONCE; e++) {\n"
        "            x[e] = first + e < length ? of[(first + e) * col] : 0;\n"
        "        }\n"
        "        to[i] = as_uint4(vload%u(0, x));\n"
        "    }\n"
        "}\n",
        dtype.storage, raw, raw, raw, at_part_once(block));
    kf_text_add(text, "static inline void floats_of(uint4 x, float4 *to) {\n");
    if (small) {
        kf_text_addf(text,
                     "    to[0] = values_%s(as_ushort4(x.lo));\n"
                     "    to[1] = values_%s(as_ushort4(x.hi));\n}\n",
                     dtype.name, dtype.name);
    } else {
        kf_text_add(text, "    to[0] = as_float4(x);\n}\n");
    }
    kf_text_add(text, "static inline float most_of(__local const float *of, int count) {\n"
                      "    float4 most = (float4)(-INFINITY);\n"
                      "    for (int t = 0; t < count; t += 4) {\n"
                      "        most = fmax(most, *(__local const float4 *)(of + t));\n"
                      "    }\n"
                      "    return fmax(fmax(most.x, most.z), fmax(most.y, most.w));\n"
                      "}\n");
}

/// Asks for the first keys and values.
static void emit_part_reads(kf_text *text, const at_plan *plan)
{
    const char *storage = kf_dtype_of(plan->block->element).storage;
    kf_text_addf(
        text,
        "    __global const %s *k = b%u + from * k_row, *v = b%u + from * v_row;\n"
        "#define READ_KEYS(turn) read_lines(key_lines, TURNS_OF(DEEP), k, k_row, k_col, "
        "item %% DEEP * ONCE, DEPTH, (turn) * (ITEMS / DEEP) + item / DEEP, ITEMS / DEEP, "
        "keys)\n"
        "#define READ_VALUES(turn) read_lines(value_lines, TURNS_OF(WIDE), v, v_row, "
        "v_col, item %% WIDE * ONCE, WIDTH, (turn) * (ITEMS / WIDE) + item / WIDE, ITEMS / "
        "WIDE, keys)\n"
        "    uint4 key_lines[TURNS_OF(DEEP)], value_lines[TURNS_OF(WIDE)];\n"
        "    READ_KEYS(0);\n"
        "    READ_VALUES(0);\n",
        storage, plan->block->key.source, plan->block->values.source);
}

/// The query, in local memory as f32, and what the operators before the product make of it.
static void emit_part_query(kf_text *text, const at_plan *plan)
{
    const at_block *block = plan->block;
    const char *name = kf_dtype_of(block->element).name;
    kf_text_addf(text,
                 "    for (int d = 4 * item; d < DEEP * ONCE; d += 4 * ITEMS) {\n"
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
                 "    barrier(CLK_LOCAL_MEM_FENCE);\n",
                 block->query.value);
}

/// What each work-item has of its keys' scores, into sums[].
static void emit_part_products(kf_text *text)
{
    kf_text_add(
        text,
        "    {\n"
        "        const int piece = item % DEEP * ONCE;\n"
        "        float4 query[QUADS];\n"
        "        for (int i = 0; i < QUADS; i++) {\n"
        "            query[i] = *(__local const float4 *)(q + piece + 4 * i);\n"
        "        }\n"
        "        for (int turn = 0; turn < ALL_TURNS(DEEP); turn += TURNS_OF(DEEP)) {\n"
        "            const int line = turn * (ITEMS / DEEP) + item / DEEP;\n"
        "            if (turn > 0) {\n"
        "                READ_KEYS(turn);\n"
        "            }\n" UNROLL "            for (int t = 0; t < TURNS_OF(DEEP); t++) {\n"
        "                float4 key[QUADS], x = (float4)(0);\n"
        "                floats_of(key_lines[t], key);\n"
        "                for (int i = 0; i < QUADS; i++) {\n"
        "                    x = fma(query[i], key[i], x);\n"
        "                }\n"
        "                sums[(line + t * (ITEMS / DEEP)) * (DEEP + 1) + item % DEEP] = (x.x + "
        "x.z) + (x.y + x.w);\n"
        "            }\n"
        "        }\n"
        "        barrier(CLK_LOCAL_MEM_FENCE);\n"
        "    }\n");
}

/// The scores and what the operators make of them, into p[]; -infinity past the last key.
static void emit_part_scores(kf_text *text, const at_plan *plan)
{
    const at_block *block = plan->block;
    kf_text_addf(text,
                 "    if (item < TILE) {\n"
                 "        float score = 0;\n"
                 "        for (int a = 0; a < DEEP; a++) {\n"
                 "            score += sums[item * (DEEP + 1) + a];\n"
                 "        }\n"
                 "        p[item] = score;\n"
                 "    }\n"
                 "    barrier(CLK_LOCAL_MEM_FENCE);\n"
                 "    if (item < TILE / 4) {\n"
                 "        const long row = 0, col = from + 4 * item;\n"
                 "        const int count = clamp(keys - 4 * item, 0, 4);\n"
                 "        const vec v%u = *(__local const float4 *)(p + 4 * item);\n",
                 block->scores);
    at_emit_scores(text, plan, "        ");
    kf_text_addf(text,
                 "        *(__local float4 *)(p + 4 * item) = select((float4)(-INFINITY), v%u, "
                 "(int4)(0, 1, 2, 3) < (int4)(count));\n"
                 "    }\n"
                 "    barrier(CLK_LOCAL_MEM_FENCE);\n",
                 block->last);
}

/// The part's maximum `top`, weights in p[] and their sum `all`, the same in all work-items.
static void emit_part_weights(kf_text *text)
{
    kf_text_add(text, "    const float top = most_of(p, TILE);\n"
                      "    const float base = top == -INFINITY ? 0 : top;\n"
                      "    barrier(CLK_LOCAL_MEM_FENCE);\n"
                      "    if (item < TILE / 4) {\n"
                      "        __local float4 *own = (__local float4 *)(p + 4 * item);\n"
                      "        *own = decay_float(*own - base);\n"
                      "    }\n"
                      "    barrier(CLK_LOCAL_MEM_FENCE);\n");
}

/// The part's sums of weighted values, into sums[0 .. WIDTH).
static void emit_part_values(kf_text *text)
{
    kf_text_add(
        text, "    {\n"
              "        const int piece = item % WIDE * ONCE;\n"
              "        float4 o[QUADS];\n"
              "        for (int i = 0; i < QUADS; i++) {\n"
              "            o[i] = (float4)(0);\n"
              "        }\n"
              "        for (int turn = 0; turn < ALL_TURNS(WIDE); turn += TURNS_OF(WIDE)) {\n"
              "            const int line = turn * (ITEMS / WIDE) + item / WIDE;\n"
              "            if (turn > 0) {\n"
              "                READ_VALUES(turn);\n"
              "            }\n" UNROLL "            for (int i = 0; i < TURNS_OF(WIDE); i++) {\n"
              "                const int t = line + i * (ITEMS / WIDE);\n"
              "                float4 value[QUADS];\n"
              "                floats_of(value_lines[i], value);\n"
              "                for (int e = 0; e < QUADS; e++) {\n"
              "                    o[e] = fma((float4)(p[min(t, TILE - 1)]), t < keys ? value[e] : "
              "(float4)(0), o[e]);\n"
              "                }\n"
              "            }\n"
              "        }\n"
              "        for (int i = 0; i < QUADS; i++) {\n"
              "            *(__local float4 *)(sums + item / WIDE * WIDE * ONCE + piece + 4 * i) = "
              "o[i];\n"
              "        }\n"
              "        barrier(CLK_LOCAL_MEM_FENCE);\n"
              "    }\n");
}

/// What the part has: its sums, its maximum and the sum of its weights.
static void emit_part_result(kf_text *text)
{
    kf_text_add(text, "    __global float *own = partial + (batch * parts + part) * RESULT;\n"
                      "    for (int c = item; c < WIDTH; c += ITEMS) {\n"
                      "        float x = 0;\n"
                      "        for (int i = 0; i < ITEMS / WIDE; i++) {\n"
                      "            x += sums[i * WIDE * ONCE + c];\n"
                      "        }\n"
                      "        own[c] = x;\n"
                      "    }\n"
                      "    if (item == 0) {\n"
                      "        float4 all = (float4)(0);\n"
                      "        for (int t = 0; t < TILE; t += 4) {\n"
                      "            all += *(__local const float4 *)(p + t);\n"
                      "        }\n"
                      "        own[RESULT - 4] = top;\n"
                      "        own[RESULT - 3] = (all.x + all.z) + (all.y + all.w);\n"
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
                      "    }\n"
                      "    __global const float *of = partial + batch * parts * RESULT;\n"
                      "    float high = -INFINITY;\n"
                      "    for (int i = item; i < parts; i += ITEMS) {\n"
                      "        high = fmax(high, of[i * RESULT + RESULT - 4]);\n"
                      "    }\n"
                      "    sums[item] = high;\n"
                      "    barrier(CLK_LOCAL_MEM_FENCE);\n"
                      "    high = most_of(sums, ITEMS);\n"
                      "    high = high == -INFINITY ? 0 : high;\n"
                      "    barrier(CLK_LOCAL_MEM_FENCE);\n");
}

/// What each part counts, into p[]; its share of all weights, into sums[]. A work-item adds up 4
/// columns of every so many parts; what these have meets in sums[].
static void emit_part_join(kf_text *text, const at_plan *plan)
{
    kf_text_add(
        text, "    const int quad = item % ACROSS, turn = item / ACROSS;\n"
              "    float4 x = (float4)(0);\n"
              "    float total = 0;\n"
              "    for (int first = 0; first < parts; first += ITEMS) {\n"
              "        const int there = min(parts - first, ITEMS);\n"
              "        if (item < there) {\n"
              "            __global const float *one = of + (first + item) * RESULT + RESULT - 4;\n"
              "            p[item] = decay_float((vec)(one[0] - high)).x;\n"
              "            sums[item] = one[1] * p[item];\n"
              "        }\n"
              "        barrier(CLK_LOCAL_MEM_FENCE);\n"
              "        for (int i = 0; i < there; i++) {\n"
              "            total += sums[i];\n"
              "        }\n" UNROLL "        for (int i = turn; i < there; i += ITEMS / ACROSS) {\n"
              "            x = fma(*(__global const float4 *)(of + (first + i) * RESULT + 4 * "
              "min(quad, (WIDTH - 1) / 4)), (float4)(p[i]), x);\n"
              "        }\n"
              "        barrier(CLK_LOCAL_MEM_FENCE);\n"
              "    }\n"
              "    *(__local float4 *)(sums + 4 * item) = x;\n"
              "    barrier(CLK_LOCAL_MEM_FENCE);\n"
              "    for (int c = item; c < WIDTH; c += ITEMS) {\n"
              "        float y = 0;\n"
              "        for (int i = 0; i < ITEMS / ACROSS; i++) {\n"
              "            y += sums[i * 4 * ACROSS + c];\n"
              "        }\n");
    kf_text_addf(text,
                 "        put_%s(out + batch * WIDTH + c, (vec)(y / total), 1);\n"
                 "    }\n",
                 kf_dtype_of(plan->block->element).name);
}

void at_emit_parts(kf_text *text, const at_plan *plan)
{
    kf_text_add(text,
                "    __local float q[DEEP * ONCE] __attribute__((aligned(16)));\n"
                "    __local float p[ITEMS] __attribute__((aligned(16)));\n"
                "#define LINES (TILE > ITEMS / DEEP ? TILE : ITEMS / DEEP)\n"
                "    __local float sums[LINES * (DEEP + 1) > ITEMS * ONCE ? LINES * (DEEP + 1) : "
                "ITEMS * ONCE] __attribute__((aligned(16)));\n"
                "    const int item = get_local_id(0), part = get_group_id(0);\n"
                "    const int parts = get_num_groups(0), from = part * TILE;\n"
                "    const int keys = min(n - from, TILE);\n");
    emit_part_reads(text, plan);
    emit_part_query(text, plan);
    emit_part_products(text);
    emit_part_scores(text, plan);
    emit_part_weights(text);
    emit_part_values(text);
    emit_part_result(text);
    emit_part_last(text);
    emit_part_join(text, plan);
}
