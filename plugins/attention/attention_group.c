// SPDX-License-Identifier: MIT OR Apache-2.0
// The kernel for devices of many small work-items. A work-group has 32 rows of one head. It takes
// the keys a tile at a time through local memory: scores, operators on them, the maximum so far,
// weights, values, as attention_emit.c does; sums stay in registers. Of a tile of scores a
// work-item has some rows by 4 keys, of the result the same rows by vectors of 4 columns.
#include "attention_internal.h"

void at_emit_group_sizes(kf_text *text, const at_plan *plan)
{
    uint32_t across = plan->tile / AT_GROUP_KEYS, own = AT_GROUP_ROWS * across / AT_GROUP_ITEMS;
    kf_text_addf(text,
                 "#define ITEMS %u\n"
                 "#define ROWS %u\n"
                 "#define ACROSS %u\n"
                 "#define OWN %u\n"
                 "#define LINE %u\n"
                 "#define TURNS ((WIDTH + 4 * ACROSS - 1) / (4 * ACROSS))\n"
                 "#define SPAN (TURNS * 4 * ACROSS)\n"
                 "typedef float%u owned;\n"
                 "#define OWNED(f, to, step, x, y)",
                 (unsigned)AT_GROUP_ITEMS, (unsigned)AT_GROUP_ROWS, across, own,
                 plan->tile + AT_GROUP_PAD, own);
    for (uint32_t i = 0; i < own; i++) {
        kf_text_addf(text, " to[%u * (step)] = f((vec)(x.s%u), y, to[%u * (step)]);", i, i, i);
    }
    kf_text_add(text, "\n");
}

/// The group's rows of the query, turned, and what the operators before the product make of them.
static void emit_group_query(kf_text *text, const at_plan *plan)
{
    const at_block *block = plan->block;
    kf_text_addf(text,
                 "    for (int e = item; e < ROWS * ((DEPTH + 3) / 4); e += ITEMS) {\n"
                 "        const int r = e / ((DEPTH + 3) / 4), d = e %% ((DEPTH + 3) / 4) * 4;\n"
                 "        __global const float *p = b%u + min(first + r, (long)m - 1) * q_row;\n"
                 "        const vec v%u = (vec)(p[d * q_col], p[min(d + 1, DEPTH - 1) * q_col],\n"
                 "                              p[min(d + 2, DEPTH - 1) * q_col],\n"
                 "                              p[min(d + 3, DEPTH - 1) * q_col]);\n",
                 block->query.source, block->query.source);
    at_emit_query_operators(text, plan);
    kf_text_addf(text,
                 "        float lanes[4];\n"
                 "        vstore4(v%u, 0, lanes);\n"
                 "        for (int i = 0; i < 4 && d + i < DEPTH; i++) {\n"
                 "            q[(d + i) * ROWS + r] = lanes[i];\n"
                 "        }\n"
                 "    }\n",
                 block->query.value);
}

/// Reads a tile of keys, turned; what is past the last key is 0.
static void emit_group_keys(kf_text *text, const at_plan *plan)
{
    kf_text_addf(text,
                 "        __global const float *k = b%u + from * k_row;\n"
                 "        if (k_col == 1) {\n"
                 "            for (int e = item; e < DEPTH * TILE; e += ITEMS) {\n"
                 "                const int t = e / DEPTH, d = e %% DEPTH;\n"
                 "                kv[d * LINE + t] = t < keys ? k[t * k_row + d] : 0;\n"
                 "            }\n"
                 "        } else {\n"
                 "            for (int e = item; e < DEPTH * TILE; e += ITEMS) {\n"
                 "                const int t = e %% TILE, d = e / TILE;\n"
                 "                kv[d * LINE + t] = t < keys ? k[t * k_row + d * k_col] : 0;\n"
                 "            }\n"
                 "        }\n"
                 "        barrier(CLK_LOCAL_MEM_FENCE);\n",
                 plan->block->key.source);
}

/// The work-item's scores s[], what the operators make of them, and the largest of its rows so far.
static void emit_group_scores(kf_text *text, const at_plan *plan)
{
    const at_block *block = plan->block;
    kf_text_addf(text,
                 "        vec s[OWN];\n"
                 "#pragma unroll\n"
                 "        for (int i = 0; i < OWN; i++) {\n"
                 "            s[i] = (vec)(0);\n"
                 "        }\n"
                 "#pragma unroll 8\n"
                 "        for (int d = 0; d < DEPTH; d++) {\n"
                 "            const vec key = *(__local const vec *)(kv + d * LINE + 4 * across);\n"
                 "            const owned x = *(__local const owned *)(q + d * ROWS + own);\n"
                 "            OWNED(MULADD, s, 1, x, key)\n"
                 "        }\n"
                 "        const long col = from + 4 * across;\n"
                 "        const int count = clamp(keys - 4 * across, 0, 4);\n"
                 "#pragma unroll\n"
                 "        for (int i = 0; i < OWN; i++) {\n"
                 "            const long row = min(first + own + i, (long)m - 1);\n"
                 "            const vec v%u = s[i];\n",
                 block->scores);
    at_emit_scores(text, plan, "            ");
    kf_text_addf(text,
                 "            const vec x = select((vec)(-INFINITY), v%u, (int4)(0, 1, 2, 3) < "
                 "(int4)(count));\n"
                 "            float most = x.x > -INFINITY ? x.x : -INFINITY;\n"
                 "            most = x.y > most ? x.y : most;\n"
                 "            most = x.z > most ? x.z : most;\n"
                 "            most = x.w > most ? x.w : most;\n"
                 "            s[i] = x;\n"
                 "            row_of[(own + i) * ACROSS + across] = most;\n"
                 "        }\n"
                 "        barrier(CLK_LOCAL_MEM_FENCE);\n",
                 block->last);
}

/// Weights, into local memory; what was summed for a smaller maximum is scaled down.
static void emit_group_weights(kf_text *text)
{
    kf_text_add(text, "#pragma unroll\n"
                      "        for (int i = 0; i < OWN; i++) {\n"
                      "            float top = high[i];\n"
                      "            for (int a = 0; a < ACROSS; a++) {\n"
                      "                const float x = row_of[(own + i) * ACROSS + a];\n"
                      "                top = x > top ? x : top;\n"
                      "            }\n"
                      "            const float base = top == -INFINITY ? 0 : top;\n"
                      "            const float less = decay_float((vec)(high[i] - base)).x;\n"
                      "            const vec weight = decay_float(s[i] - base);\n"
                      "            sum[i] = sum[i] * less + ((weight.x + weight.z) + "
                      "(weight.y + weight.w));\n"
                      "            high[i] = top;\n"
                      "            __local float *to = p + 4 * across * ROWS + own + i;\n"
                      "            to[0] = weight.x;\n"
                      "            to[ROWS] = weight.y;\n"
                      "            to[2 * ROWS] = weight.z;\n"
                      "            to[3 * ROWS] = weight.w;\n"
                      "#pragma unroll\n"
                      "            for (int c = 0; c < TURNS; c++) {\n"
                      "                o[i * TURNS + c] *= less;\n"
                      "            }\n"
                      "        }\n");
}

/// Reads a tile of values and adds what the weights make of them.
static void emit_group_values(kf_text *text, const at_plan *plan)
{
    kf_text_addf(text,
                 "        __global const float *v = b%u + from * v_row;\n"
                 "        if (v_col == 1) {\n"
                 "            for (int e = item; e < SPAN * keys; e += ITEMS) {\n"
                 "                const int t = e / SPAN, c = e %% SPAN;\n"
                 "                kv[e] = c < WIDTH ? v[t * v_row + c] : 0;\n"
                 "            }\n"
                 "        } else {\n"
                 "            for (int e = item; e < SPAN * keys; e += ITEMS) {\n"
                 "                const int t = e %% keys, c = e / keys;\n"
                 "                kv[t * SPAN + c] = c < WIDTH ? v[t * v_row + c * v_col] : 0;\n"
                 "            }\n"
                 "        }\n"
                 "        barrier(CLK_LOCAL_MEM_FENCE);\n"
                 "        for (int t = 0; t < keys; t++) {\n"
                 "            const owned x = *(__local const owned *)(p + t * ROWS + own);\n"
                 "#pragma unroll\n"
                 "            for (int c = 0; c < TURNS; c++) {\n"
                 "                const vec value = *(__local const vec *)(kv + t * SPAN + 4 * "
                 "(across + c * ACROSS));\n"
                 "                OWNED(MULADD, (o + c), TURNS, x, value)\n"
                 "            }\n"
                 "        }\n"
                 "        barrier(CLK_LOCAL_MEM_FENCE);\n",
                 plan->block->values.source);
}

static void emit_group_result(kf_text *text)
{
    kf_text_add(text, "#pragma unroll\n"
                      "    for (int i = 0; i < OWN; i++) {\n"
                      "        row_of[(own + i) * ACROSS + across] = sum[i];\n"
                      "    }\n"
                      "    barrier(CLK_LOCAL_MEM_FENCE);\n"
                      "#pragma unroll\n"
                      "    for (int i = 0; i < OWN; i++) {\n"
                      "        float all = 0;\n"
                      "        for (int a = 0; a < ACROSS; a++) {\n"
                      "            all += row_of[(own + i) * ACROSS + a];\n"
                      "        }\n"
                      "        if (first + own + i >= m) {\n"
                      "            break;\n"
                      "        }\n"
                      "        __global float *to = out + (batch * m + first + own + i) * WIDTH;\n"
                      "#pragma unroll\n"
                      "        for (int c = 0; c < TURNS; c++) {\n"
                      "            const vec x = o[i * TURNS + c] / all;\n"
                      "            const int at = 4 * (across + c * ACROSS);\n"
                      "            if (at + 4 <= WIDTH) {\n"
                      "                vstore4(x, 0, to + at);\n"
                      "            } else {\n"
                      "                float lanes[4];\n"
                      "                vstore4(x, 0, lanes);\n"
                      "                for (int l = 0; l < 4 && at + l < WIDTH; l++) {\n"
                      "                    to[at + l] = lanes[l];\n"
                      "                }\n"
                      "            }\n"
                      "        }\n"
                      "    }\n");
}

void at_emit_group(kf_text *text, const at_plan *plan)
{
    kf_text_add(text, "    __local float q[DEPTH * ROWS] __attribute__((aligned(16)));\n"
                      "    __local float p[TILE * ROWS] __attribute__((aligned(16)));\n"
                      "    __local float kv[DEPTH * LINE > TILE * SPAN ? DEPTH * LINE : TILE * "
                      "SPAN] __attribute__((aligned(16)));\n"
                      "    __local float row_of[ROWS * ACROSS];\n"
                      "    const int item = get_local_id(0), across = item % ACROSS;\n"
                      "    const int own = item / ACROSS * OWN;\n"
                      "    const long first = get_group_id(0) * (long)ROWS;\n");
    emit_group_query(text, plan);
    kf_text_add(text, "    vec o[OWN * TURNS];\n"
                      "    float high[OWN], sum[OWN];\n"
                      "#pragma unroll\n"
                      "    for (int i = 0; i < OWN; i++) {\n"
                      "        high[i] = -INFINITY;\n"
                      "        sum[i] = 0;\n"
                      "#pragma unroll\n"
                      "        for (int c = 0; c < TURNS; c++) {\n"
                      "            o[i * TURNS + c] = (vec)(0);\n"
                      "        }\n"
                      "    }\n"
                      "    for (int from = 0; from < n; from += TILE) {\n"
                      "        const int keys = min(n - from, TILE);\n");
    emit_group_keys(text, plan);
    emit_group_scores(text, plan);
    emit_group_weights(text);
    emit_group_values(text, plan);
    kf_text_add(text, "    }\n");
    emit_group_result(text);
}
