// SPDX-License-Identifier: MIT OR Apache-2.0
// The text that packs operands. A work-group packs 64 lines of one step: 512 pieces of 16 bytes.
// An operand whose terms are neighbours in memory is read by vectors along the sum; of any other
// the step goes through local memory, read by vectors along the lines.
#include "nvidia_tensor.h"

void tensor_emit_pack_functions(kf_text *text, const mm_plan *plan)
{
    uint32_t is_f32 = kf_dtype_of(plan->block->chain.values[plan->block->result].dtype).bytes == 4;
    if (is_f32 && tensor_element_bytes(plan) == 2) { // to bf16, a NaN stays one
        kf_text_add(text, "static inline ushort4 bits_packed(float4 x) {\n"
                          "    const uint4 bits = as_uint4(x), cut = (bits >> 16) | 0x40u;\n"
                          "    const uint4 near = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;\n"
                          "    return convert_ushort4(select(near, cut, x != x) & 0xffffu);\n"
                          "}\n"
                          "static inline ushort packed_one(float x) {\n"
                          "    return bits_packed((float4)(x)).s0;\n"
                          "}\n");
    }
    if (tensor_element_bytes(plan) == 2) {
        return;
    }
    // Rounded to the nearest; never from a number to infinity; a NaN stays one.
    kf_text_add(text,
                "static inline float4 near_tf32(float4 x) {\n"
                "    const uint4 bits = as_uint4(x), cut = bits & 0xffffe000u;\n"
                "    const uint4 near = (bits + 0x1000u) & 0xffffe000u;\n"
                "    const uint4 much = (uint4)(0x7f800000u);\n"
                "    const uint4 kept = select(near, cut, (near & much) == much);\n"
                "    return as_float4(select(kept, (uint4)(0x7fc00000u), x != x));\n"
                "}\n"
                "static inline float4 rest_tf32(float4 x, float4 near) {\n"
                "    const uint4 much = (uint4)(0x7f800000u);\n"
                "    const float4 rest = select(x - near, (float4)(0), (as_uint4(near) & much) == "
                "much);\n"
                "    return near_tf32(rest);\n"
                "}\n");
}

static const mm_operand *operand_of(const mm_plan *plan, uint32_t left)
{
    return left ? &plan->block->left : &plan->block->right;
}

static uint32_t reads_along(const mm_plan *plan, const mm_operand *operand)
{
    return mm_is_unit(plan->block, operand->source, operand->inner);
}

static uint32_t is_two(const mm_plan *plan)
{
    return tensor_element_bytes(plan) == 2;
}

/// What makes 16 bits of a vector is bits_ and this.
static const char *packer(const mm_plan *plan)
{
    kf_dtype dtype = kf_dtype_of(plan->block->chain.values[plan->block->result].dtype);
    return dtype.bytes == 2 ? dtype.name : "packed";
}

/// Declares the work-group's lines, step and batch, where its operand begins and where it writes.
static void emit_place(kf_text *text, const mm_plan *plan, uint32_t left)
{
    const mm_operand *operand = operand_of(plan, left);
    uint32_t lines = left ? plan->rows : plan->columns, groups = lines / MM_PACK_LINES;
    kf_text_addf(text,
                 "    const long limit = %s, steps = (k + %u) / %u;\n"
                 "    const long blocks = (limit + %u) / %u * %u;\n",
                 left ? "m" : "n", plan->step - 1, plan->step, lines - 1, lines, groups);
    kf_text_add(text, reads_along(plan, operand)
                          ? "    const long step = group % steps, block = group / steps % blocks;\n"
                          : "    const long block = group % blocks, step = group / blocks % "
                            "steps;\n");
    kf_text_add(text, "    const long batch = group / blocks / steps;\n");
    mm_emit_indices(text, plan, operand);
    mm_emit_base(text, plan, operand, "from");
    kf_text_addf(text,
                 "    const long line0 = block * %u;\n"
                 "    const int term0 = (int)step * %u;\n"
                 "    __global uchar *to = %s + ((batch * (blocks / %u) + block / %u) * steps + "
                 "step) * %u + block %% %u * %u;\n",
                 MM_PACK_LINES, plan->step, left ? "left" : "right", groups, groups,
                 tensor_tile_bytes(plan, lines), groups, MM_PACK_LINES * MM_LINE_BYTES);
}

/// Declares `name`, what is there of a vector: lanes from `count` on are 0.
static void emit_lanes(kf_text *text, const mm_plan *plan, const char *name, const char *value,
                       const char *indent)
{
    kf_text_addf(text, "%sconst %s%u %s = (%s%u)(", indent, plan->type, plan->width, name,
                 plan->type, plan->width);
    for (uint32_t i = 0; i < plan->width; i++) {
        kf_text_addf(text, "%s%u < count ? %s.s%u : 0", i == 0 ? "" : ", ", i, value, i);
    }
    kf_text_add(text, ");\n");
}

/// Writes piece `c` of line `r` of the group, which is `p16` (16 bits) or `x` (4 bytes).
static void emit_piece(kf_text *text, const mm_plan *plan, uint32_t left)
{
    uint32_t lines = left ? plan->rows : plan->columns;
    kf_text_add(text,
                "        __global uchar *piece = to + r / 8 * 1024 + r % 8 * 128 + ((c ^ r) & "
                "7) * 16;\n");
    if (is_two(plan)) {
        kf_text_add(text, "        *(__global ushort8 *)piece = p16;\n");
        return;
    }
    kf_text_add(text, "        const float4 near = near_tf32(x);\n"
                      "        *(__global float4 *)piece = near;\n");
    if (plan->copies > 1) {
        kf_text_addf(text, "        *(__global float4 *)(piece + %u) = rest_tf32(x, near);\n",
                     lines * MM_LINE_BYTES);
    }
}

/// Terms are neighbours: a work-item reads and writes two pieces.
static void emit_along(kf_text *text, const mm_plan *plan, uint32_t left)
{
    const mm_operand *operand = operand_of(plan, left);
    uint32_t per_piece = 16 / tensor_element_bytes(plan), vectors = per_piece / plan->width;
    char stride[32], value[16];
    mm_stride_name(plan, operand->source, operand->outer, stride);
    if (plan->fold && left) {
        snprintf(stride, sizeof(stride), "(long)k");
    }
    snprintf(value, sizeof(value), "v%u", (unsigned)operand->value);
    kf_text_addf(text,
                 "    for (int u = item; u < %u; u += %u) {\n"
                 "        const int c = u %% 8, r = u / 8;\n"
                 "        const long line = line0 + r;\n"
                 "        const int term = term0 + c * %u;\n",
                 MM_PACK_LINES * 8, MM_PACK_ITEMS, per_piece);
    if (is_two(plan)) {
        kf_text_add(text, "        ushort8 p16;\n");
    } else {
        kf_text_addf(text, "        float4 x;\n");
    }
    for (uint32_t i = 0; i < vectors; i++) {
        kf_text_addf(text,
                     "        {\n"
                     "            const int count = line < limit ? max(k - term - %u, 0) : 0;\n"
                     "            __global const %s *p = from + (line < limit ? line : 0) * %s + "
                     "(count > 0 ? term + %u : 0);\n",
                     i * plan->width,
                     kf_dtype_of(plan->block->chain.values[operand->source].dtype).storage, stride,
                     i * plan->width);
        mm_emit_load(text, plan, operand, NULL, "count", "            ");
        emit_lanes(text, plan, "there", value, "            ");
        if (is_two(plan)) {
            kf_text_addf(text, "            p16.%s = bits_%s(there);\n", i == 0 ? "lo" : "hi",
                         packer(plan));
        } else {
            kf_text_add(text, "            x = there;\n");
        }
        kf_text_add(text, "        }\n");
    }
    emit_piece(text, plan, left);
    kf_text_add(text, "    }\n");
}

/// From the local tile, in which a line is a term, to pieces.
static void emit_pieces(kf_text *text, const mm_plan *plan, uint32_t left)
{
    uint32_t per_piece = 16 / tensor_element_bytes(plan);
    kf_text_addf(text,
                 "    barrier(CLK_LOCAL_MEM_FENCE);\n"
                 "    for (int u = item; u < %u; u += %u) {\n"
                 "        const int c = u %% 8, r = u / 8;\n"
                 "        __local const %s *own = tile + c * %u + r;\n"
                 "        const %s%u %s = (%s%u)(",
                 MM_PACK_LINES * 8, MM_PACK_ITEMS, is_two(plan) ? "ushort" : "float",
                 per_piece * (MM_PACK_LINES + TENSOR_LINE_PAD), is_two(plan) ? "ushort" : "float",
                 per_piece, is_two(plan) ? "p16" : "x", is_two(plan) ? "ushort" : "float",
                 per_piece);
    for (uint32_t i = 0; i < per_piece; i++) {
        kf_text_addf(text, "%sown[%u]", i == 0 ? "" : ", ", i * (MM_PACK_LINES + TENSOR_LINE_PAD));
    }
    kf_text_add(text, ");\n");
    emit_piece(text, plan, left);
    kf_text_add(text, "    }\n");
}

/// Lines are neighbours, or nothing is: the step goes through local memory.
static void emit_across(kf_text *text, const mm_plan *plan, uint32_t left)
{
    const mm_operand *operand = operand_of(plan, left);
    uint32_t w = plan->width;
    char outer[32], inner[32], value[16];
    mm_stride_name(plan, operand->source, operand->outer, outer);
    mm_stride_name(plan, operand->source, operand->inner, inner);
    snprintf(value, sizeof(value), "v%u", (unsigned)operand->value);
    kf_text_addf(
        text,
        "    for (int u = item; u < %u; u += %u) {\n"
        "        const int q = u / %u, i = u %% %u * %u, term = term0 + q;\n"
        "        const int count = term < k ? (int)clamp(limit - line0 - i, (long)0, "
        "(long)%u) : 0;\n"
        "        __global const %s *p = from + (count > 0 ? (line0 + i) * %s + term * "
        "(long)%s : 0);\n",
        plan->step * MM_PACK_LINES / w, MM_PACK_ITEMS, MM_PACK_LINES / w, MM_PACK_LINES / w, w, w,
        kf_dtype_of(plan->block->chain.values[operand->source].dtype).storage, outer, inner);
    mm_emit_load(text, plan, operand, strcmp(outer, "1") == 0 ? NULL : outer, "count", "        ");
    emit_lanes(text, plan, "there", value, "        ");
    if (is_two(plan)) {
        kf_text_addf(text, "        vstore%u(bits_%s(there), 0, tile + q * %u + i);\n", w,
                     packer(plan), MM_PACK_LINES + TENSOR_LINE_PAD);
    } else {
        kf_text_addf(text, "        vstore%u(there, 0, tile + q * %u + i);\n", w,
                     MM_PACK_LINES + TENSOR_LINE_PAD);
    }
    kf_text_add(text, "    }\n");
    emit_pieces(text, plan, left);
}

static void emit_side(kf_text *text, const mm_plan *plan, uint32_t left)
{
    emit_place(text, plan, left);
    if (!left && plan->block->window.is_there) {
        tensor_emit_image(text, plan);
        emit_pieces(text, plan, left);
    } else if (reads_along(plan, operand_of(plan, left))) {
        emit_along(text, plan, left);
    } else {
        emit_across(text, plan, left);
    }
}

/// Work-groups of the left operand, as a number.
static void emit_left_groups(kf_text *text, const mm_plan *plan)
{
    kf_text_addf(text, "    const long left_groups = (long)((m + %u) / %u * %u) * ((k + %u) / %u)",
                 plan->rows - 1, plan->rows, plan->rows / MM_PACK_LINES, plan->step - 1,
                 plan->step);
    for (uint32_t i = 0; i < plan->batch; i++) {
        if (mm_batch_axis(plan->block, &plan->block->left, i) >= 0) {
            kf_text_addf(text, " * d%u", i);
        }
    }
    kf_text_add(text, ";\n");
}

void tensor_emit_pack(kf_text *text, const mm_plan *plan, mm_role role)
{
    kf_text_addf(text,
                 "    __local %s tile[%u];\n"
                 "    const int item = get_local_id(0);\n"
                 "    long group = get_group_id(0);\n",
                 is_two(plan) ? "ushort" : "float", plan->step * (MM_PACK_LINES + TENSOR_LINE_PAD));
    if (role == MM_PACK_BOTH) {
        emit_left_groups(text, plan);
        kf_text_add(text, "    if (group < left_groups) {\n");
        emit_side(text, plan, 1);
        kf_text_add(text, "    } else {\n    group -= left_groups;\n");
        emit_side(text, plan, 0);
        kf_text_add(text, "    }\n}\n");
    } else {
        emit_side(text, plan, role == MM_PACK_LEFT);
        kf_text_add(text, "}\n");
    }
}
