// SPDX-License-Identifier: MIT OR Apache-2.0
// The kernel for a query of one row on devices of many small work-items. A work-group has 128 keys
// of one head, so that even one head keeps many of them busy. Work-items side by side read a key by
// 16 bytes each; what each of them sums of it meets in local memory, where the softmax of the part
// is taken, and likewise for the values. The work-group of a head that ends last joins what its
// parts have summed, in their order.
#include "attention_internal.h"

// PoCL refuses what it cannot unroll.
#define UNROLL "#ifndef POCL_DEVICE_ADDRESS_BITS\n#pragma unroll 16\n#endif\n"

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
                 "#define KEY_TURNS (DEEP < 16 ? DEEP : 16)\n"
                 "#define VALUE_TURNS (WIDE < 16 ? WIDE : 16)\n"
                 "#define RESULT (WIDTH + 2)\n"
                 "#define COLUMNS_EACH ((WIDTH + ITEMS - 1) / ITEMS)\n"
                 "#ifdef POCL_DEVICE_ADDRESS_BITS\n"
                 "#define SETTLE __atomic_thread_fence(__ATOMIC_SEQ_CST)\n"
                 "#else\n"
                 "#define SETTLE mem_fence(CLK_GLOBAL_MEM_FENCE)\n"
                 "#endif\n",
                 (unsigned)AT_PART_ITEMS, at_part_once(block), quads,
                 at_part_items(block, block->depth), at_part_items(block, block->width));
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
    kf_text_add(text, "static inline float most_of(__local const float *of) {\n"
                      "    float4 most = (float4)(-INFINITY);\n"
                      "    for (int t = 0; t < ITEMS; t += 4) {\n"
                      "        most = fmax(most, *(__local const float4 *)(of + t));\n"
                      "    }\n"
                      "    return fmax(fmax(most.x, most.z), fmax(most.y, most.w));\n"
                      "}\n");
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
    at_emit_query_operators(text, plan);
    kf_text_addf(text,
                 "        *(__local float4 *)(q + d) = select((float4)(0), v%u, (int4)(d, d + 1, d "
                 "+ 2, d + 3) < (int4)(DEPTH));\n"
                 "    }\n"
                 "    barrier(CLK_LOCAL_MEM_FENCE);\n",
                 block->query.value);
}

/// What each work-item has of its keys' scores, into sums[].
static void emit_part_products(kf_text *text, const at_plan *plan)
{
    const char *storage = kf_dtype_of(plan->block->element).storage;
    kf_text_addf(
        text,
        "    {\n"
        "        __global const %s *k = b%u + from * k_row;\n"
        "        const int piece = item %% DEEP * ONCE;\n"
        "        float4 query[QUADS];\n"
        "        for (int i = 0; i < QUADS; i++) {\n"
        "            query[i] = *(__local const float4 *)(q + piece + 4 * i);\n"
        "        }\n"
        "        for (int turn = 0; turn < DEEP; turn += KEY_TURNS) {\n"
        "            const int line = turn * (ITEMS / DEEP) + item / DEEP;\n"
        "            uint4 lines[KEY_TURNS];\n"
        "            read_lines(lines, KEY_TURNS, k, k_row, k_col, piece, DEPTH, line, ITEMS / "
        "DEEP, keys);\n" UNROLL "            for (int t = 0; t < KEY_TURNS; t++) {\n"
        "                float4 key[QUADS], x = (float4)(0);\n"
        "                floats_of(lines[t], key);\n"
        "                for (int i = 0; i < QUADS; i++) {\n"
        "                    x = fma(query[i], key[i], x);\n"
        "                }\n"
        "                sums[(line + t * (ITEMS / DEEP)) * (DEEP + 1) + item %% DEEP] = (x.x + "
        "x.z) + (x.y + x.w);\n"
        "            }\n"
        "        }\n"
        "        barrier(CLK_LOCAL_MEM_FENCE);\n"
        "    }\n",
        storage, plan->block->key.source);
}

/// The scores and what the operators make of them, into p[]; -infinity past the last key.
static void emit_part_scores(kf_text *text, const at_plan *plan)
{
    const at_block *block = plan->block;
    kf_text_addf(text,
                 "    float score = 0;\n"
                 "    for (int a = 0; a < DEEP; a++) {\n"
                 "        score += sums[item * (DEEP + 1) + a];\n"
                 "    }\n"
                 "    p[item] = score;\n"
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
    kf_text_add(text, "    const float top = most_of(p);\n"
                      "    const float base = top == -INFINITY ? 0 : top;\n"
                      "    barrier(CLK_LOCAL_MEM_FENCE);\n"
                      "    if (item < TILE / 4) {\n"
                      "        __local float4 *own = (__local float4 *)(p + 4 * item);\n"
                      "        *own = decay_float(*own - base);\n"
                      "    }\n"
                      "    barrier(CLK_LOCAL_MEM_FENCE);\n");
}

/// The part's sums of weighted values, into sums[0 .. WIDTH).
static void emit_part_values(kf_text *text, const at_plan *plan)
{
    const char *storage = kf_dtype_of(plan->block->element).storage;
    kf_text_addf(
        text,
        "    {\n"
        "        __global const %s *v = b%u + from * v_row;\n"
        "        const int piece = item %% WIDE * ONCE;\n"
        "        float4 o[QUADS];\n"
        "        for (int i = 0; i < QUADS; i++) {\n"
        "            o[i] = (float4)(0);\n"
        "        }\n"
        "        for (int turn = 0; turn < WIDE; turn += VALUE_TURNS) {\n"
        "            const int line = turn * (ITEMS / WIDE) + item / WIDE;\n"
        "            uint4 lines[VALUE_TURNS];\n"
        "            read_lines(lines, VALUE_TURNS, v, v_row, v_col, piece, WIDTH, line, ITEMS / "
        "WIDE, keys);\n" UNROLL "            for (int i = 0; i < VALUE_TURNS; i++) {\n"
        "                const int t = line + i * (ITEMS / WIDE);\n"
        "                float4 value[QUADS];\n"
        "                floats_of(lines[i], value);\n"
        "                for (int e = 0; e < QUADS; e++) {\n"
        "                    o[e] = fma((float4)(p[t]), t < keys ? value[e] : (float4)(0), o[e]);\n"
        "                }\n"
        "            }\n"
        "        }\n"
        "        for (int i = 0; i < QUADS; i++) {\n"
        "            *(__local float4 *)(sums + item / WIDE * WIDE * ONCE + piece + 4 * i) = "
        "o[i];\n"
        "        }\n"
        "        barrier(CLK_LOCAL_MEM_FENCE);\n"
        "    }\n",
        storage, plan->block->values.source);
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
                      "        own[WIDTH] = top;\n"
                      "        own[WIDTH + 1] = (all.x + all.z) + (all.y + all.w);\n"
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
                      "        high = fmax(high, of[i * RESULT + WIDTH]);\n"
                      "    }\n"
                      "    sums[item] = high;\n"
                      "    barrier(CLK_LOCAL_MEM_FENCE);\n"
                      "    high = most_of(sums);\n"
                      "    high = high == -INFINITY ? 0 : high;\n"
                      "    barrier(CLK_LOCAL_MEM_FENCE);\n");
}

/// What each part counts, into p[]; its share of all weights, into sums[].
static void emit_part_join(kf_text *text, const at_plan *plan)
{
    kf_text_add(
        text, "    float x[COLUMNS_EACH], total = 0;\n"
              "    for (int c = 0; c < COLUMNS_EACH; c++) {\n"
              "        x[c] = 0;\n"
              "    }\n"
              "    for (int first = 0; first < parts; first += ITEMS) {\n"
              "        const int there = min(parts - first, ITEMS);\n"
              "        if (item < there) {\n"
              "            __global const float *one = of + (first + item) * RESULT + WIDTH;\n"
              "            p[item] = decay_float((vec)(one[0] - high)).x;\n"
              "            sums[item] = one[1] * p[item];\n"
              "        }\n"
              "        barrier(CLK_LOCAL_MEM_FENCE);\n" UNROLL
              "        for (int i = 0; i < there; i++) {\n"
              "            total += sums[i];\n"
              "            for (int c = 0; c < COLUMNS_EACH; c++) {\n"
              "                x[c] = fma(of[(first + i) * RESULT + min(item + c * ITEMS, WIDTH - "
              "1)], p[i], x[c]);\n"
              "            }\n"
              "        }\n"
              "        barrier(CLK_LOCAL_MEM_FENCE);\n"
              "    }\n"
              "    for (int c = 0; c < COLUMNS_EACH; c++) {\n"
              "        if (item + c * ITEMS < WIDTH) {\n");
    kf_text_addf(text,
                 "            put_%s(out + batch * WIDTH + item + c * ITEMS, (vec)(x[c] / total), "
                 "1);\n"
                 "        }\n"
                 "    }\n",
                 kf_dtype_of(plan->block->element).name);
}

void at_emit_parts(kf_text *text, const at_plan *plan)
{
    kf_text_add(text,
                "    __local float q[DEEP * ONCE] __attribute__((aligned(16)));\n"
                "    __local float p[TILE] __attribute__((aligned(16)));\n"
                "    __local float sums[TILE * (DEEP + 1) > ITEMS * ONCE ? TILE * (DEEP + 1) : "
                "ITEMS * ONCE] __attribute__((aligned(16)));\n"
                "    const int item = get_local_id(0), part = get_group_id(0);\n"
                "    const int parts = get_num_groups(0), from = part * TILE;\n"
                "    const int keys = min(n - from, TILE);\n");
    emit_part_query(text, plan);
    emit_part_products(text, plan);
    emit_part_scores(text, plan);
    emit_part_weights(text);
    emit_part_values(text, plan);
    emit_part_result(text);
    emit_part_last(text);
    emit_part_join(text, plan);
}
