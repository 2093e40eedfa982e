// SPDX-License-Identifier: MIT OR Apache-2.0
// The kernel for a query of one row where bulk copies go into local memory (NVIDIA's compute
// capability 9.0). A work-group has some hundred keys of one head, so that there is one for each
// unit. Chunks of 16 KiB, first the keys and then the values, are asked for as soon as there is
// room, and barriers in memory count what has come and who has read it: while scores become
// weights, values are on their way. The work-group of a head that ends last joins the parts.
//
// After NVIDIA's PTX manual, "cp.async.bulk" and "mbarrier". A line of a head is 8, 16 or 32 pieces
// of 16 bytes, a work-item has one piece of some lines.
#include "attention_internal.h"

enum { CHUNK_BYTES = 16384, SLOTS = 6 };

static uint32_t line_bytes(const at_block *block)
{
    return (uint32_t)block->depth * kf_dtype_of(block->element).bytes;
}

uint32_t at_streams(const at_block *block, const kf_chain_device *device)
{
    uint32_t line = line_bytes(block);
    return (device->features & KF_FEATURE_WGMMA) != 0 && device->compute_units != 0 &&
           block->depth == block->width && (line == 128 || line == 256 || line == 512);
}

uint32_t at_chunk(const at_block *block)
{
    return CHUNK_BYTES / line_bytes(block);
}

// ---- functions ----

static void emit_stream_numbers(kf_text *text, const at_block *block)
{
    const char *raw = kf_dtype_of(block->element).bytes == 2 ? "ushort" : "uint";
    kf_text_addf(text,
                 "#define ITEMS %u\n"
                 "#define WARPS (ITEMS / 32)\n"
                 "#define ONCE %u\n"
                 "#define QUADS (ONCE / 4)\n"
                 "#define DEEP %u // pieces of a line\n"
                 "#define LINE (DEEP * 16)\n"
                 "#define CHUNK_BYTES %u\n"
                 "#define CHUNK %u // lines\n"
                 "#define SLOTS %u\n"
                 "#define MOST %u\n"
                 "#define RESULT (WIDTH + 2)\n"
                 "#define OWN (CHUNK_BYTES / (ITEMS * 16))\n"
                 "typedef %s raw;\n",
                 (unsigned)AT_STREAM_ITEMS, at_part_once(block), line_bytes(block) / 16,
                 (unsigned)CHUNK_BYTES, at_chunk(block), (unsigned)SLOTS, (unsigned)AT_STREAM_KEYS,
                 raw);
}

static void emit_stream_floats(kf_text *text, const at_block *block)
{
    kf_text_add(text, "static inline void floats_of(uint4 x, float4 *to) {\n");
    if (block->element == KF_DTYPE_BF16) {
        kf_text_add(text, "    to[0] = as_float4((uint4)(x.x << 16, x.x & 0xffff0000u, x.y << 16, "
                          "x.y & 0xffff0000u));\n"
                          "    to[1] = as_float4((uint4)(x.z << 16, x.z & 0xffff0000u, x.w << 16, "
                          "x.w & 0xffff0000u));\n");
    } else if (block->element == KF_DTYPE_F16) {
        kf_text_add(text, "    to[0] = values_f16(as_ushort4(x.lo));\n"
                          "    to[1] = values_f16(as_ushort4(x.hi));\n");
    } else {
        kf_text_add(text, "    to[0] = as_float4(x);\n");
    }
    kf_text_add(text, "}\n");
}

/// e to the power of a difference to a maximum; of 16 bits as tensor cores have it.
static void emit_stream_decay(kf_text *text, const at_block *block)
{
    kf_text_add(text, "static inline float decays(float x) {\n");
    if (kf_dtype_of(block->element).bytes == 2) {
        kf_text_add(text, "    float y;\n"
                          "    asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : \"f\"(x * "
                          "1.44269504f));\n"
                          "    return y;\n}\n");
    } else {
        kf_text_add(text, "    return exp(x);\n}\n");
    }
}

/// What counts chunks: `full` has one when a chunk has come, `empty` one of each warp.
static void emit_stream_barriers(kf_text *text)
{
    at_emit_barriers(text);
    kf_text_add(
        text,
        "#define EXPECT(bar, bytes) asm volatile(\"mbarrier.arrive.expect_tx.shared.b64 _, [%0], "
        "%1;\" :: \"r\"(bar), \"r\"(bytes) : \"memory\")\n"
        "#define TOGETHER asm volatile(\"bar.warp.sync 0xffffffff;\" ::: \"memory\")\n"
        "#define FULL(c) (bars_at + 8 * ((c) % SLOTS))\n"
        "#define EMPTY(c) (bars_at + 8 * (SLOTS + (c) % SLOTS))\n"
        "#define TURN(c) ((c) / SLOTS & 1)\n"
        "static inline float other(float x, uint bit) {\n"
        "    float y;\n"
        "    asm volatile(\"shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;\" : \"=f\"(y) : "
        "\"f\"(x), \"r\"(bit));\n"
        "    return y;\n"
        "}\n"
        "static inline float latest(__global const float *p) {\n"
        "    float x;\n"
        "    asm volatile(\"ld.relaxed.gpu.global.f32 %0, [%1];\" : \"=f\"(x) : \"l\"(p) : "
        "\"memory\");\n"
        "    return x;\n"
        "}\n");
}

/// Adds a chunk's weighted values to the work-item's sums; of one that is not full, lines past the
/// last count as 0.
static void emit_stream_chunk(kf_text *text)
{
    kf_text_add(text,
                "static inline void add_chunk(const int full, int lines, __local const uchar *of, "
                "__local const float *s, int item, float4 *o, float *all) {\n"
                "#pragma unroll\n"
                "    for (int j = 0; j < OWN; j++) {\n"
                "        const int t = j * (ITEMS / DEEP) + item / DEEP;\n"
                "        const float weight = s[t];\n"
                "        float4 value[QUADS];\n"
                "        floats_of(*(__local const uint4 *)(of + (j * ITEMS + item) * 16), "
                "value);\n"
                "        *all += weight;\n"
                "        for (int e = 0; e < QUADS; e++) {\n"
                "            o[e] = fma((float4)(weight), full || t < lines ? value[e] : "
                "(float4)(0), o[e]);\n"
                "        }\n"
                "    }\n"
                "}\n");
}

/// Of `lines` lines at p: `ask` begins to copy them, by the first warp; `fetch`, by all, reads them
/// number by number.
static void emit_stream_copies(kf_text *text)
{
    kf_text_add(
        text,
        "static inline void copy(uint to, __global const raw *p, uint bytes, uint bar) {\n"
        "    asm volatile(\"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1], %2, [%3];\" :: \"r\"(to), \"l\"(p), \"r\"(bytes), \"r\"(bar) : "
        "\"memory\");\n"
        "}\n"
        "static inline void ask_lines(uint to, __global const raw *p, long row, int lines, uint "
        "bar, int lane) {\n"
        "    if (lane == 0) {\n"
        "        EXPECT(bar, lines * LINE);\n"
        "    }\n"
        "    TOGETHER;\n"
        "    for (int i = lane; i < lines; i += 32) {\n"
        "        copy(to + i * LINE, p + i * row, LINE, bar);\n"
        "    }\n"
        "}\n"
        "static inline void fetch(__local raw *to, __global const raw *p, long row, long col, int "
        "lines, uint bar, int item) {\n"
        "    barrier(CLK_LOCAL_MEM_FENCE);\n"
        "    for (int e = item; e < lines * DEPTH; e += ITEMS) {\n"
        "        to[e] = p[e / DEPTH * row + e % DEPTH * col];\n"
        "    }\n"
        "    asm volatile(\"fence.proxy.async.shared::cta;\" ::: \"memory\");\n"
        "    if (item == 0) {\n"
        "        ARRIVE(bar);\n"
        "    }\n"
        "    barrier(CLK_LOCAL_MEM_FENCE);\n"
        "}\n"
        "static inline int is_copied(__global const raw *p, long row, long col) {\n"
        "    return (col == 1) & (row % ONCE == 0) & (((ulong)p & 15) == 0);\n"
        "}\n");
}

void at_emit_stream_functions(kf_text *text, const at_plan *plan)
{
    emit_stream_numbers(text, plan->block);
    emit_stream_floats(text, plan->block);
    emit_stream_decay(text, plan->block);
    emit_stream_barriers(text);
    emit_stream_copies(text);
    emit_stream_chunk(text);
}

// ---- the kernel ----

/// Does each head's matrix begin at a buffer's beginning or behind the one before, line by line?
static uint32_t lies_whole(const at_block *block, const at_matrix *matrix)
{
    const kf_chain_value *v = &block->chain.values[matrix->source];
    return v->contiguous && v->zero_offset && matrix->row + 2 == v->rank &&
           matrix->column + 1 == v->rank;
}

/// Is it known without a look at strides and addresses that chunks are copied at once?
static uint32_t known_whole(const at_plan *plan)
{
    return lies_whole(plan->block, &plan->block->key) &&
           lies_whole(plan->block, &plan->block->values);
}

/// The part's keys, and the first chunks asked for. Chunks count on from keys to values; what is
/// not copied takes its place between barriers.
static void emit_stream_begin(kf_text *text, const at_plan *plan)
{
    kf_text_addf(
        text,
        "    __local uchar memory[SLOTS * CHUNK_BYTES] __attribute__((aligned(1024)));\n"
        "    __local float s[MOST] __attribute__((aligned(16)));\n"
        "    __local float sums[WARPS * (WIDTH + 4)] __attribute__((aligned(16)));\n"
        "    __local ulong bars[2 * SLOTS];\n"
        "    __local int is_last;\n"
        "    const int item = get_local_id(0), lane = item %% 32, warp = item / 32;\n"
        "    const int piece = item %% DEEP, part = get_group_id(0), parts = get_num_groups(0);\n"
        "    const int share = ((n - 1) / parts / CHUNK + 1) * CHUNK, from = part * share;\n"
        "    const int keys = clamp(n - from, 0, share), chunks = (keys + CHUNK - 1) / CHUNK;\n"
        "    const uint at = (uint)(ulong)memory, bars_at = (uint)(ulong)bars;\n"
        "    __global const raw *k = (__global const raw *)b%u + from * k_row;\n"
        "    __global const raw *v = (__global const raw *)b%u + from * v_row;\n"
        "    const int copies_k = is_copied(k, k_row, k_col), copies_v = is_copied(v, v_row, "
        "v_col);\n",
        plan->block->key.source, plan->block->values.source);
    kf_text_addf(text, "    const int whole = %s;\n",
                 known_whole(plan) ? "1"
                                   : "copies_k & copies_v & (k_row == DEPTH) & (v_row == DEPTH)");
    kf_text_add(
        text,
        "#define LINES(i) min(keys - (i) * CHUNK, CHUNK)\n"
        "#define ASK(c) do { \\\n"
        "    if (WHOLE) { \\\n"
        "        if (lane == 0) { \\\n"
        "            const int i = (c) < chunks ? (c) : (c) - chunks; \\\n"
        "            const uint bytes = LINES(i) * LINE; \\\n"
        "            EXPECT(FULL(c), bytes); \\\n"
        "            copy(at + (c) % SLOTS * CHUNK_BYTES, ((c) < chunks ? k : v) + i * CHUNK * "
        "DEPTH, bytes, FULL(c)); \\\n"
        "        } \\\n"
        "    } else if ((c) < chunks ? copies_k : copies_v) { \\\n"
        "        const int i = (c) < chunks ? (c) : (c) - chunks; \\\n"
        "        const long row = (c) < chunks ? k_row : v_row; \\\n"
        "        ask_lines(at + (c) % SLOTS * CHUNK_BYTES, ((c) < chunks ? k : v) + (long)i * "
        "CHUNK * row, row, LINES(i), FULL(c), lane); \\\n"
        "    } } while (0)\n"
        "#define NEXT(c) if (warp == 0 && (c) >= 0 && (c) + SLOTS < 2 * chunks) { \\\n"
        "    WAIT(EMPTY(c), TURN(c)); ASK((c) + SLOTS); }\n"
        "#define DONE(c) if ((c) + SLOTS < 2 * chunks) { TOGETHER; if (lane == 0) { "
        "ARRIVE(EMPTY(c)); } }\n"
        "    if (item == 0) {\n"
        "        for (int i = 0; i < SLOTS; i++) {\n"
        "            asm volatile(\"mbarrier.init.shared.b64 [%0], 1;\" :: \"r\"(FULL(i)) : "
        "\"memory\");\n"
        "            asm volatile(\"mbarrier.init.shared.b64 [%0], %1;\" :: \"r\"(EMPTY(i)), "
        "\"r\"(WARPS) : \"memory\");\n"
        "        }\n"
        "        asm volatile(\"fence.mbarrier_init.release.cluster;\" ::: \"memory\");\n"
        "        asm volatile(\"fence.proxy.async.shared::cta;\" ::: \"memory\");\n"
        "    }\n"
        "    if (warp == 0) {\n"
        "        TOGETHER;\n"
        "#define WHOLE whole\n"
        "#pragma unroll 1\n"
        "        for (int c = 0; c < SLOTS && c < 2 * chunks; c++) {\n"
        "            ASK(c);\n"
        "        }\n"
        "#undef WHOLE\n"
        "    }\n");
}

/// A loop for chunks that all are copied at once, and the same for others: what these need is not
/// in the way of those.
static void emit_stream_both(kf_text *text, const at_plan *plan, void (*loop)(kf_text *text))
{
    kf_text_add(text, "    if (whole) {\n#define WHOLE 1\n");
    loop(text);
    kf_text_add(text, "#undef WHOLE\n    }\n");
    if (!known_whole(plan)) {
        kf_text_add(text, "    if (!whole) {\n#define WHOLE 0\n");
        loop(text);
        kf_text_add(text, "#undef WHOLE\n    }\n");
    }
}

/// The work-item's piece of the query, and what the operators before the product make of it. Each
/// reads its own: through local memory the first keys would wait for it.
static void emit_stream_query(kf_text *text, const at_plan *plan)
{
    const at_block *block = plan->block;
    kf_text_addf(text,
                 "    float4 query[QUADS];\n"
                 "    if (is_copied((__global const raw *)b%u, 0, q_col)) {\n"
                 "        floats_of(*(__global const uint4 *)(b%u + piece * ONCE), query);\n"
                 "    } else {\n"
                 "        for (int i = 0; i < QUADS; i++) {\n"
                 "            query[i] = part_%s(b%u + (piece * ONCE + 4 * i) * q_col, "
                 "q_col, 4);\n"
                 "        }\n"
                 "    }\n"
                 "    for (int i = 0; i < QUADS; i++) {\n"
                 "        const vec v%u = query[i];\n",
                 block->query.source, block->query.source, kf_dtype_of(block->element).name,
                 block->query.source, block->query.loaded);
    at_emit_query_operators(text, plan);
    kf_text_addf(text,
                 "        query[i] = v%u;\n"
                 "    }\n"
                 "    barrier(CLK_LOCAL_MEM_FENCE);\n",
                 block->query.value);
}

/// The scores, into s[]. A warp has OWN times 512 bytes of a chunk; of the sums of its work-items
/// each exchange adds two and halves how many each has.
static void emit_stream_scores(kf_text *text)
{
    kf_text_add(
        text,
        "#pragma unroll 1\n"
        "    for (int c = 0; c < chunks; c++) {\n"
        "        __local const uchar *of = memory + c % SLOTS * CHUNK_BYTES + warp * OWN * 512 + "
        "lane * 16;\n"
        "        if (!WHOLE && !copies_k) {\n"
        "            fetch((__local raw *)(memory + c % SLOTS * CHUNK_BYTES), k + (long)c * CHUNK "
        "* "
        "k_row, k_row, k_col, LINES(c), FULL(c), item);\n"
        "        }\n"
        "        WAIT(FULL(c), TURN(c));\n"
        "        float x[OWN];\n"
        "#pragma unroll\n"
        "        for (int i = 0; i < OWN; i++) {\n"
        "            float4 key[QUADS], y = (float4)(0);\n"
        "            floats_of(*(__local const uint4 *)(of + i * 512), key);\n"
        "            for (int e = 0; e < QUADS; e++) {\n"
        "                y = fma(query[e], key[e], y);\n"
        "            }\n"
        "            x[i] = (y.x + y.z) + (y.y + y.w);\n"
        "        }\n"
        "        DONE(c)\n"
        "        const int high = lane & (DEEP / 2), low = lane & (DEEP / 4);\n"
        "#pragma unroll\n"
        "        for (int i = 0; i < OWN / 2; i++) {\n"
        "            x[i] = (high ? x[i + OWN / 2] : x[i]) + other(high ? x[i] : x[i + OWN / 2], "
        "DEEP / 2);\n"
        "        }\n"
        "        x[0] = (low ? x[1] : x[0]) + other(low ? x[0] : x[1], DEEP / 4);\n"
        "#pragma unroll\n"
        "        for (uint bit = DEEP / 8; bit > 0; bit /= 2) {\n"
        "            x[0] += other(x[0], bit);\n"
        "        }\n"
        "        if (lane % (DEEP / 4) == 0) {\n"
        "            s[c * CHUNK + (warp * OWN + (high ? 2 : 0) + (low ? 1 : 0)) * (32 / DEEP) + "
        "lane / DEEP] = x[0];\n"
        "        }\n"
        "        NEXT(c - 1)\n"
        "    }\n");
}

static void emit_stream_products(kf_text *text, const at_plan *plan)
{
    emit_stream_both(text, plan, emit_stream_scores);
    kf_text_add(text, "    barrier(CLK_LOCAL_MEM_FENCE);\n");
}

/// What the operators make of the scores, -infinity past the last key; their maximum `top`, and
/// weights in s[].
static void emit_stream_weights(kf_text *text, const at_plan *plan)
{
    const at_block *block = plan->block;
    kf_text_addf(text,
                 "    for (int e = 4 * item; e < chunks * CHUNK; e += 4 * ITEMS) {\n"
                 "        const long row = 0, col = from + e;\n"
                 "        const int count = clamp(keys - e, 0, 4);\n"
                 "        const vec v%u = *(__local const float4 *)(s + e);\n",
                 block->scores);
    at_emit_scores(text, plan, "        ");
    kf_text_addf(text,
                 "        *(__local float4 *)(s + e) = select((float4)(-INFINITY), v%u, (int4)(0, "
                 "1, 2, 3) < (int4)(count));\n"
                 "    }\n"
                 "    barrier(CLK_LOCAL_MEM_FENCE);\n"
                 "    float4 most = (float4)(-INFINITY);\n"
                 "    for (int e = 4 * lane; e < chunks * CHUNK; e += 128) {\n"
                 "        most = fmax(most, *(__local const float4 *)(s + e));\n"
                 "    }\n"
                 "    float top = fmax(fmax(most.x, most.z), fmax(most.y, most.w));\n"
                 "#pragma unroll\n"
                 "    for (uint bit = 16; bit > 0; bit /= 2) {\n"
                 "        top = fmax(top, other(top, bit));\n"
                 "    }\n"
                 "    const float base = top == -INFINITY ? 0 : top;\n"
                 "    barrier(CLK_LOCAL_MEM_FENCE);\n"
                 "    for (int e = 4 * item; e < chunks * CHUNK; e += 4 * ITEMS) {\n"
                 "        const float4 x = *(__local const float4 *)(s + e) - base;\n"
                 "        *(__local float4 *)(s + e) = (float4)(decays(x.x), decays(x.y), "
                 "decays(x.z), decays(x.w));\n"
                 "    }\n"
                 "    barrier(CLK_LOCAL_MEM_FENCE);\n",
                 block->last);
}

/// Each work-item's sums of its piece of weighted values in o[], and of the weights in `all`.
static void emit_stream_sums(kf_text *text)
{
    kf_text_add(
        text,
        "#pragma unroll 1\n"
        "    for (int i = 0; i < chunks; i++) {\n"
        "        const int c = chunks + i;\n"
        "        if (!WHOLE && !copies_v) {\n"
        "            fetch((__local raw *)(memory + c % SLOTS * CHUNK_BYTES), v + (long)i * CHUNK "
        "* "
        "v_row, v_row, v_col, LINES(i), FULL(c), item);\n"
        "        }\n"
        "        WAIT(FULL(c), TURN(c));\n"
        "        __local const uchar *of = memory + c % SLOTS * CHUNK_BYTES;\n"
        "        if (LINES(i) == CHUNK) {\n"
        "            add_chunk(1, CHUNK, of, s + i * CHUNK, item, o, &all);\n"
        "        } else {\n"
        "            add_chunk(0, LINES(i), of, s + i * CHUNK, item, o, &all);\n"
        "        }\n"
        "        DONE(c)\n"
        "        NEXT(c - 1)\n"
        "    }\n");
}

static void emit_stream_values(kf_text *text, const at_plan *plan)
{
    kf_text_add(text, "    float4 o[QUADS];\n"
                      "    float all = 0;\n"
                      "    for (int i = 0; i < QUADS; i++) {\n"
                      "        o[i] = (float4)(0);\n"
                      "    }\n");
    emit_stream_both(text, plan, emit_stream_sums);
}

/// What the part has: its sums, the sum of its weights and its maximum.
static void emit_stream_result(kf_text *text)
{
    kf_text_add(text, "#pragma unroll\n"
                      "    for (uint bit = DEEP; bit < 32; bit *= 2) {\n"
                      "        all += other(all, bit);\n"
                      "        for (int i = 0; i < QUADS; i++) {\n"
                      "            o[i] += (float4)(other(o[i].x, bit), other(o[i].y, bit), "
                      "other(o[i].z, bit), other(o[i].w, bit));\n"
                      "        }\n"
                      "    }\n"
                      "    if (lane < DEEP) {\n"
                      "        __local float *to = sums + warp * (WIDTH + 4);\n"
                      "        for (int i = 0; i < QUADS; i++) {\n"
                      "            *(__local float4 *)(to + piece * ONCE + 4 * i) = o[i];\n"
                      "        }\n"
                      "        if (lane == 0) {\n"
                      "            to[WIDTH] = all;\n"
                      "        }\n"
                      "    }\n"
                      "    barrier(CLK_LOCAL_MEM_FENCE);\n"
                      "    __global float *own = partial + (batch * parts + part) * RESULT;\n"
                      "    if (item <= WIDTH) {\n"
                      "        float x = 0;\n"
                      "        for (int i = 0; i < WARPS; i++) {\n"
                      "            x += sums[i * (WIDTH + 4) + item];\n"
                      "        }\n"
                      "        own[item] = x;\n"
                      "    }\n"
                      "    if (item == WIDTH + 1) {\n"
                      "        own[item] = top;\n"
                      "    }\n");
}

/// Whoever ends last of a head's parts joins them, eight at a time, and leaves the count as it was.
static void emit_stream_join(kf_text *text, const at_plan *plan)
{
    kf_text_add(
        text,
        "    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);\n"
        "    if (item == 0) {\n"
        "        int before;\n"
        "        asm volatile(\"atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;\" : \"=r\"(before) : "
        "\"l\"(counts + batch) : \"memory\");\n"
        "        is_last = before + 1 == parts;\n"
        "    }\n"
        "    barrier(CLK_LOCAL_MEM_FENCE);\n"
        "    if (!is_last) {\n"
        "        return;\n"
        "    }\n"
        "    if (item == 0) {\n"
        "        counts[batch] = 0;\n"
        "    }\n"
        "    __global const float *all_parts = partial + batch * parts * RESULT;\n"
        "    float x = 0, total = 0, so_far = -INFINITY;\n"
        "    for (int first = 0; first < parts && item < WIDTH; first += 8) {\n"
        "        float tops[8], alls[8], ones[8], now = so_far;\n"
        "#pragma unroll\n"
        "        for (int i = 0; i < 8; i++) {\n"
        "            __global const float *of = all_parts + min(first + i, parts - 1) * RESULT;\n"
        "            tops[i] = latest(of + WIDTH + 1);\n"
        "            alls[i] = latest(of + WIDTH);\n"
        "            ones[i] = latest(of + item);\n"
        "        }\n"
        "#pragma unroll\n"
        "        for (int i = 0; i < 8; i++) {\n"
        "            now = fmax(now, tops[i]);\n"
        "        }\n"
        "        const float ground = now == -INFINITY ? 0 : now;\n"
        "        const float less = decays(so_far - ground);\n"
        "        x *= less;\n"
        "        total *= less;\n"
        "        so_far = now;\n"
        "#pragma unroll\n"
        "        for (int i = 0; i < 8; i++) {\n"
        "            const float counted = first + i < parts ? decays(tops[i] - ground) : 0;\n"
        "            x = first + i < parts ? fma(counted, ones[i], x) : x;\n"
        "            total = first + i < parts ? fma(counted, alls[i], total) : total;\n"
        "        }\n"
        "    }\n"
        "    if (item < WIDTH) {\n");
    kf_text_addf(text, "        put_%s(out + batch * WIDTH + item, (vec)(x / total), 1);\n    }\n",
                 kf_dtype_of(plan->block->element).name);
}

void at_emit_stream(kf_text *text, const at_plan *plan)
{
    emit_stream_begin(text, plan);
    emit_stream_query(text, plan);
    emit_stream_products(text, plan);
    emit_stream_weights(text, plan);
    emit_stream_values(text, plan);
    emit_stream_result(text);
    emit_stream_join(text, plan);
}
