// SPDX-License-Identifier: MIT OR Apache-2.0
// The two kernels where work-groups share the work, as on GPUs. A work-group has QB queries of one
// head, turned, in local memory, and goes through the blocks of KB keys: each work-item takes the
// scores of 4 queries and twice 4 keys into registers and does the operations on them; four
// work-items share the softmax of a query; each adds the weighted values to 4 queries and 4 columns
// (and those 64 further on). Weights pass through local memory, results stay in registers.
#include "attention.h"

uint64_t items_bytes(const block *b, const shape *s)
{
    return ((uint64_t)s->queries * (b->head + s->keys + 11) + 1) * 4;
}

const char items_pack_body[] =
    "    __local int wrong[1];\n"
    "    const int item = get_local_id(0);\n"
    "    long first = get_group_id(0) * KB, place = batch * get_num_groups(0) + "
    "get_group_id(0);\n"
    "    int count = (int)min((long)KB, n_keys - first);\n"
    "    __global float *to = kp + place * (D * KB);\n"
    "    k += first * k_key;\n"
    "    v += first * v_key;\n"
    "    if (item == 0) {\n"
    "        wrong[0] = 0;\n"
    "    }\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    for (int i = item; i < D * KB; i += 128) {\n"
    "        int j = i % KB, d = i / KB;\n"
    "        to[i] = j < count ? k[j * k_key + d * k_inner] : 0.0f;\n"
    "    }\n"
    "    to = vp + place * (KB * PADDED);\n"
    "    for (int i = item; i < KB * PADDED; i += 128) {\n"
    "        int j = i / PADDED, d = i % PADDED;\n"
    "        float x = j < count && d < COLUMNS ? v[j * v_key + d * v_inner] : 0.0f;\n"
    "        to[i] = x;\n"
    "        if (!(fabs(x) <= FLT_MAX)) {\n"
    "            wrong[0] = 1;\n"
    "        }\n"
    "    }\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    if (item == 0) {\n"
    "        finite[place] = !wrong[0];\n"
    "    }\n"
    "}\n";

static const char memory_text[] =
    "    __local float qs[D * QB], w[QB * KB], m[QB], l[QB], kept[QB];\n"
    "    __local float tops[QB * 4], sums[QB * 4];\n"
    "    __local int seen[1];\n"
    "    const int item = get_local_id(0), tr = item / 16 * R, tc = item % 16;\n"
    "    const int mine = item / 4, lane = item % 4;\n"
    "    const long first = get_group_id(0) * QB, blocks = (n_keys + KB - 1) / KB;\n"
    "    int shift = 0;\n"
    "    while (shift < 100 && (n_keys >> shift) > 1) {\n"
    "        shift++;\n"
    "    }\n"
    "    const V down = (V)(ldexp(1.0f, -shift));\n";

/// The queries, turned, times their factor.
static void queries_text(kf_text *t, const block *b)
{
    kf_text_add(t, "    for (int i = item; i < QB * D; i += 128) {\n"
                   "        const int r = i / D, d = i % D;\n"
                   "        float x = first + r < n_queries ? q[(first + r) * q_row + d * q_inner] "
                   ": 0.0f;\n");
    if (b->factor != 0) {
        kf_text_addf(t, "        x *= s%u.s0;\n", b->factor - 1);
    }
    kf_text_add(t, "        qs[d * QB + r] = x;\n"
                   "    }\n"
                   "    if (lane == 0) {\n"
                   "        m[mine] = -INFINITY;\n"
                   "        l[mine] = 0.0f;\n"
                   "    }\n"
                   "    barrier(CLK_LOCAL_MEM_FENCE);\n");
}

static const char loop_text[] =
    "    for (long kb = 0; kb < blocks; kb++) {\n"
    "        __global const float *kt = kp + (batch * blocks + kb) * (D * KB);\n"
    "        __global const float *vt = vp + (batch * blocks + kb) * (KB * PADDED);\n"
    "        const int count = (int)min((long)KB, n_keys - kb * KB);\n";

/// Where masked scores become -inf last: leaves a block out whose scores are all masked.
static void skip_text(kf_text *t, const block *b)
{
    const kf_chain_op *last = masked_last(b);
    uint32_t mask;
    if (last == NULL) {
        return;
    }
    mask = last->inputs[1];
    kf_text_addf(
        t,
        "        if (finite[batch * blocks + kb] && s%u.s0 == -INFINITY) {\n"
        "            if (item == 0) {\n"
        "                seen[0] = 0;\n"
        "            }\n"
        "            barrier(CLK_LOCAL_MEM_FENCE);\n"
        "            for (int i = item; i < QB * KB; i += 128) {\n"
        "                const int r = i / KB, j = i %% KB;\n"
        "                if (first + r < n_queries && j < count &&\n"
        "                    p%u[(first + r) * p%u_row + (kb * KB + j) * p%u_key] == 0) {\n"
        "                    seen[0] = 1;\n"
        "                }\n"
        "            }\n"
        "            barrier(CLK_LOCAL_MEM_FENCE);\n"
        "            const int skip = !seen[0];\n"
        "            barrier(CLK_LOCAL_MEM_FENCE);\n"
        "            if (skip) {\n"
        "                continue;\n"
        "            }\n"
        "        }\n",
        last->numbers[0], mask, mask, mask);
}

/// The scores of 4 queries and of the keys of vectors tc and tc + 16.
static void product_text(kf_text *t)
{
    uint32_t r, n;
    kf_text_add(t, "        {\n");
    for (r = 0; r < 4; r++) {
        kf_text_addf(t, "            V x%u_0 = (V)(0.0f), x%u_1 = (V)(0.0f);\n", r, r);
    }
    kf_text_add(t, "            for (int d = 0; d < D; d++) {\n"
                   "                const V y = LOAD(0, qs + d * QB + tr);\n"
                   "                const V k0 = LOAD(tc, kt + d * KB);\n"
                   "                const V k1 = LOAD(tc + 16, kt + d * KB);\n");
    for (r = 0; r < 4; r++) {
        for (n = 0; n < 2; n++) {
            kf_text_addf(t, "                x%u_%u = fma((V)(y.s%u), k%u, x%u_%u);\n", r, n, r, n,
                         r, n);
        }
    }
    kf_text_add(t, "            }\n");
    for (r = 0; r < 4; r++) {
        kf_text_addf(t,
                     "            STORE(x%u_0, tc, w + (tr + %u) * KB);\n"
                     "            STORE(x%u_1, tc + 16, w + (tr + %u) * KB);\n",
                     r, r, r, r);
    }
    kf_text_add(t, "        }\n");
}

static const char cells_text[] =
    "        for (int r = 0; r < R; r++) {\n"
    "            const long row = min(first + tr + r, n_queries - 1);\n"
    "            for (int j = tc * W; j < KB; j += 64) {\n"
    "                    const long at = min(kb * KB + j, n_keys - 1);\n"
    "                    const int here = clamp(count - j, 0, W);\n"
    "                    __local float *cell = w + (tr + r) * KB + j;\n";

static const char softmax_text[] =
    "            }\n"
    "        }\n"
    "        barrier(CLK_LOCAL_MEM_FENCE);\n"
    "        {\n"
    "            __local float *from = w + mine * KB;\n"
    "            V x = LOAD(lane, from);\n"
    "            for (int j = lane + 4; j < NV; j += 4) {\n"
    "                x = fmax(x, LOAD(j, from));\n"
    "            }\n"
    "            tops[item] = largest(x);\n"
    "            barrier(CLK_LOCAL_MEM_FENCE);\n"
    "            const float most = fmax(m[mine], largest(LOAD(mine, tops)));\n"
    "            const float base = most == -INFINITY ? 0.0f : most;\n"
    "            const float keep = weight_of((V)(m[mine] - base)).x;\n"
    "            V sum = (V)(0.0f);\n"
    "            for (int j = lane; j < NV; j += 4) {\n"
    "                x = weight_of(LOAD(j, from) - base) * down;\n"
    "                STORE(x, j, from);\n"
    "                sum += x;\n"
    "            }\n"
    "            sums[item] = total(sum);\n"
    "            barrier(CLK_LOCAL_MEM_FENCE);\n"
    "            if (lane == 0) {\n"
    "                l[mine] = l[mine] * keep + total(LOAD(mine, sums));\n"
    "                m[mine] = most;\n"
    "                kept[mine] = keep;\n"
    "            }\n"
    "            barrier(CLK_LOCAL_MEM_FENCE);\n"
    "        }\n";

/// o<r>_<n>: results of query tr + r, columns of vector c<n>. Past the last vector it is the last.
static void results_text(kf_text *t, uint32_t vectors)
{
    uint32_t n, r;
    for (n = 0; n < vectors; n++) {
        kf_text_addf(t, "    const int c%u = min(tc + %u, PADDED / W - 1);\n", n, n * 16);
        for (r = 0; r < 4; r++) {
            kf_text_addf(t, "    V o%u_%u = (V)(0.0f);\n", r, n);
        }
    }
}

static void values_text(kf_text *t, uint32_t vectors)
{
    uint32_t n, r, k;
    for (n = 0; n < vectors; n++) {
        for (r = 0; r < 4; r++) {
            kf_text_addf(t, "        o%u_%u *= kept[tr + %u];\n", r, n, r);
        }
    }
    kf_text_add(t, "        for (int j = 0; j < KB; j += 4) {\n");
    for (r = 0; r < 4; r++) {
        kf_text_addf(t, "            const V x%u = LOAD(0, w + (tr + %u) * KB + j);\n", r, r);
    }
    for (k = 0; k < 4; k++) {
        for (n = 0; n < vectors; n++) {
            kf_text_addf(t, "            const V y%u_%u = LOAD(c%u, vt + (j + %u) * PADDED);\n", k,
                         n, n, k);
            for (r = 0; r < 4; r++) {
                kf_text_addf(t, "            o%u_%u = fma((V)(x%u.s%u), y%u_%u, o%u_%u);\n", r, n,
                             r, k, k, n, r, n);
            }
        }
    }
    kf_text_add(t, "        }\n"
                   "        barrier(CLK_LOCAL_MEM_FENCE);\n"
                   "    }\n");
}

static void end_text(kf_text *t, uint32_t vectors)
{
    uint32_t n, r;
    kf_text_add(t, "    out += (batch * n_queries + first + tr) * COLUMNS;\n");
    for (r = 0; r < 4; r++) {
        kf_text_addf(t, "    if (first + tr + %u < n_queries) {\n", r);
        for (n = 0; n < vectors; n++) {
            kf_text_addf(t,
                         "        if (tc + %u <= PADDED / W - 1) {\n"
                         "            float e[W];\n"
                         "            STORE(o%u_%u / l[tr + %u], 0, e);\n"
                         "            for (int i = 0; i < W && c%u * W + i < COLUMNS; i++) {\n"
                         "                out[%u * COLUMNS + c%u * W + i] = e[i];\n"
                         "            }\n"
                         "        }\n",
                         n * 16, r, n, r, n, r, n);
        }
        kf_text_add(t, "    }\n");
    }
    kf_text_add(t, "}\n");
}

void items_text(plan *p, const block *b, const shape *s)
{
    kf_text *t = &p->source_text;
    uint32_t vectors = (s->padded + 63) / 64;
    begin_text(p, b);
    kf_chain_numbers(t, &b->chain, s->width);
    kf_text_add(t, memory_text);
    results_text(t, vectors);
    queries_text(t, b);
    kf_text_add(t, loop_text);
    skip_text(t, b);
    product_text(t);
    kf_text_add(t, cells_text);
    cell_text(t, b, s);
    kf_text_add(t, softmax_text);
    values_text(t, vectors);
    end_text(t, vectors);
}
