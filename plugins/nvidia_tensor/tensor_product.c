// SPDX-License-Identifier: MIT OR Apache-2.0
// The text of the product. The last team of a work-group copies tiles of both operands into a ring
// in local memory (tensor_copies.c); the other teams each multiply 64 rows by all columns of the
// tile (tensor_sums.c). At the end the sums go through the ring's memory, so that the epilogue
// reads and writes whole vectors.
//
// After NVIDIA's PTX manual, sections "Asynchronous Warpgroup Level Matrix Instructions",
// "cp.async.bulk" and "mbarrier". Instructions of sm_90a are comments that begin `//@` until the
// host has made PTX of the text (KILN_PTX_TARGET).
//
// Where a sum is taken in parts, the work-group of a tile that ends last adds them up, in order.
#include "nvidia_tensor.h"

enum {
    BAND = 8 // rows of tiles that are done together, so that their operands stay in the cache
};

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
    uint32_t n = tensor_stages(plan);
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
        n * tensor_stage_bytes(plan), 2 * n, TENSOR_TEAM, 8 * n, plan->rows - 1, plan->rows,
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
        n, plan->plain ? 1 + TENSOR_TEAM : 1, tensor_teams(plan) * tensor_sayers(plan));
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

// ---- the end ----

/// A sum of f32 that is no number is summed again: infinities times a rest of 0 are NaN.
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

void tensor_emit_product(kf_text *text, const mm_plan *plan)
{
    emit_macros(text);
    emit_start(text, plan);
    tensor_emit_copies(text, plan);
    tensor_emit_sums(text, plan);
    emit_end(text, plan);
}
