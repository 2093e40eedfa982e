// SPDX-License-Identifier: MIT OR Apache-2.0
// The kernel for a query of one row, as a decoder has it: a work-item has one head, whose keys and
// values it reads once. Vectors go along heads, and along keys in the softmax.
#include "attention_internal.h"

enum { AT_ONCE = 4 }; // keys, or vectors of values, that are summed side by side

/// Declares q[], the query and what the operators before the product make of it.
static void emit_row_query(kf_text *text, const at_plan *plan)
{
    const at_block *block = plan->block;
    kf_text_addf(text,
                 "    float q[(DEPTH + LANES - 1) / LANES * LANES];\n"
                 "    for (int d = 0; d < DEPTH; d += LANES) {\n"
                 "        float lanes[LANES];\n"
                 "        for (int i = 0; i < LANES; i++) {\n"
                 "            lanes[i] = b%u[min(d + i, DEPTH - 1) * q_col];\n"
                 "        }\n"
                 "        const vec v%u = vload%u(0, lanes);\n",
                 block->query.source, block->query.source, plan->width);
    at_emit_query_operators(text, plan);
    kf_text_addf(text, "        vstore%u(v%u, 0, q + d);\n    }\n", plan->width,
                 block->query.value);
}

/// The scores of a tile, in s[]: vectors along the head where it lies dense.
static void emit_products(kf_text *text, const at_plan *plan)
{
    kf_text_add(text, "        int t = 0;\n"
                      "        for (; k_col == 1 && t < keys; t += 4) {\n");
    for (uint32_t i = 0; i < AT_ONCE; i++) {
        kf_text_addf(text,
                     "            __global const float *k%u = k + min(t + %u, keys - 1) * k_row;\n"
                     "            vec x%u = (vec)(0);\n"
                     "            float r%u = 0;\n",
                     i, i, i, i);
    }
    kf_text_add(text, "            int d = 0;\n"
                      "            for (; d + LANES <= DEPTH; d += LANES) {\n");
    kf_text_addf(text, "                const vec a = vload%u(0, q + d);\n", plan->width);
    for (uint32_t i = 0; i < AT_ONCE; i++) {
        kf_text_addf(text, "                x%u = MULADD(a, load_f32(k%u + d), x%u);\n", i, i, i);
    }
    kf_text_add(text, "            }\n"
                      "            for (; d < DEPTH; d++) {\n");
    for (uint32_t i = 0; i < AT_ONCE; i++) {
        kf_text_addf(text, "                r%u = MULADD(q[d], k%u[d], r%u);\n", i, i, i);
    }
    kf_text_add(text, "            }\n");
    for (uint32_t i = 0; i < AT_ONCE; i++) {
        kf_text_addf(text, "            s[t + %u] = r%u + total(x%u);\n", i, i, i);
    }
    kf_text_add(text, "        }\n"
                      "        for (; t < keys; t++) {\n"
                      "            float x = 0;\n"
                      "            for (int d = 0; d < DEPTH; d++) {\n"
                      "                x = MULADD(q[d], k[t * k_row + d * k_col], x);\n"
                      "            }\n"
                      "            s[t] = x;\n"
                      "        }\n");
}

/// The operators on the scores; `top` becomes the maximum. Lanes past the last key are -infinity.
static void emit_operators(kf_text *text, const at_plan *plan)
{
    const at_block *block = plan->block;
    uint32_t w = plan->width;
    kf_text_addf(text,
                 "        vec best = (vec)(-INFINITY);\n"
                 "        for (int i = keys; i %% LANES != 0; i++) {\n"
                 "            s[i] = 0;\n"
                 "        }\n"
                 "        for (int e = 0; e < keys; e += LANES) {\n"
                 "            const long row = 0, col = from + e;\n"
                 "            const int count = min(keys - e, LANES);\n"
                 "            const vec v%u = vload%u(0, s + e);\n",
                 block->scores, w);
    at_emit_scores(text, plan, "            ");
    kf_text_addf(text,
                 "            float lanes[LANES];\n"
                 "            vstore%u(v%u, 0, lanes);\n"
                 "            for (int i = count; i < LANES; i++) {\n"
                 "                lanes[i] = -INFINITY;\n"
                 "            }\n"
                 "            const vec x = vload%u(0, lanes);\n"
                 "            vstore%u(x, 0, s + e);\n"
                 "            best = select(best, x, x > best);\n"
                 "        }\n"
                 "        float top = high;\n"
                 "        {\n"
                 "            float lanes[LANES];\n"
                 "            vstore%u(best, 0, lanes);\n"
                 "            for (int i = 0; i < LANES; i++) {\n"
                 "                top = lanes[i] > top ? lanes[i] : top;\n"
                 "            }\n"
                 "        }\n",
                 w, block->last, w, w, w);
}

/// Adds the weighted values of a tile to o[].
static void emit_values(kf_text *text, const at_plan *plan)
{
    kf_text_add(text, "        int c = 0;\n"
                      "        for (; v_col == 1 && c + 4 * LANES <= WIDTH; c += 4 * LANES) {\n");
    for (uint32_t i = 0; i < AT_ONCE; i++) {
        kf_text_addf(text, "            vec x%u = vload%u(%u, o + c);\n", i, plan->width, i);
    }
    kf_text_add(text, "            for (int i = 0; i < keys; i++) {\n"
                      "                const vec a = (vec)(s[i]);\n"
                      "                __global const float *p = v + i * v_row + c;\n");
    for (uint32_t i = 0; i < AT_ONCE; i++) {
        kf_text_addf(text, "                x%u = MULADD(a, load_f32(p + %u), x%u);\n", i,
                     i * plan->width, i);
    }
    kf_text_add(text, "            }\n");
    for (uint32_t i = 0; i < AT_ONCE; i++) {
        kf_text_addf(text, "            vstore%u(x%u, %u, o + c);\n", plan->width, i, i);
    }
    kf_text_addf(text,
                 "        }\n"
                 "        for (; v_col == 1 && c + LANES <= WIDTH; c += LANES) {\n"
                 "            vec x = vload%u(0, o + c);\n"
                 "            for (int i = 0; i < keys; i++) {\n"
                 "                x = MULADD((vec)(s[i]), load_f32(v + i * v_row + c), x);\n"
                 "            }\n"
                 "            vstore%u(x, 0, o + c);\n"
                 "        }\n"
                 "        for (; c < WIDTH; c++) {\n"
                 "            float x = o[c];\n"
                 "            for (int i = 0; i < keys; i++) {\n"
                 "                x = MULADD(s[i], v[i * v_row + c * v_col], x);\n"
                 "            }\n"
                 "            o[c] = x;\n"
                 "        }\n",
                 plan->width, plan->width);
}

void at_emit_row(kf_text *text, const at_plan *plan)
{
    uint32_t w = plan->width;
    emit_row_query(text, plan);
    kf_text_addf(text,
                 "    float o[WIDTH], s[TILE], high = -INFINITY;\n"
                 "    vec sum = (vec)(0);\n"
                 "    for (int c = 0; c < WIDTH; c++) {\n"
                 "        o[c] = 0;\n"
                 "    }\n"
                 "    for (int from = 0; from < n; from += TILE) {\n"
                 "        const int keys = min(n - from, TILE);\n"
                 "        __global const float *k = b%u + from * k_row, *v = b%u + from * v_row;\n",
                 plan->block->key.source, plan->block->values.source);
    emit_products(text, plan);
    emit_operators(text, plan);
    kf_text_addf(text,
                 "        const float base = top == -INFINITY ? 0 : top;\n"
                 "        const vec less = decay_float((vec)(high - base));\n"
                 "        sum *= less;\n"
                 "        for (int i = 0; i < WIDTH; i++) {\n"
                 "            o[i] *= less.s0;\n"
                 "        }\n"
                 "        for (int e = 0; e < keys; e += LANES) {\n"
                 "            const vec weight = decay_float(vload%u(0, s + e) - base);\n"
                 "            vstore%u(weight, 0, s + e);\n"
                 "            sum += weight;\n"
                 "        }\n"
                 "        high = top;\n",
                 w, w);
    emit_values(text, plan);
    kf_text_add(text, "    }\n"
                      "    const float all = total(sum);\n"
                      "    for (int i = 0; i < WIDTH; i++) {\n"
                      "        out[batch * WIDTH + i] = o[i] / all;\n"
                      "    }\n");
}
