// SPDX-License-Identifier: MIT OR Apache-2.0
// The kernels as a whole: parameters, where an operand's batch begins, the kernels that pack
// operands, the product, the combining of a sum's parts. What they are put together from is in
// matmul_operand.c, matmul_finish.c and matmul_inner.c.
#include "matmul_bytes.h"

const char *mm_kernel_name(mm_role role)
{
    return role == MM_PACK_LEFT    ? "kiln_matmul_left"
           : role == MM_PACK_RIGHT ? "kiln_matmul_right"
           : role == MM_PACK_BOTH  ? "kiln_matmul_pack"
           : role == MM_PRODUCT    ? "kiln_matmul"
           : role == MM_CLEAR      ? "kiln_matmul_clear"
                                   : "kiln_matmul_combine";
}

// ---- parameters ----

static const char *packed_type(const mm_plan *plan, uint32_t temp)
{
    return plan->form == MM_FORM_TENSOR ? "uchar"
           : temp == MM_TEMP_LEFT       ? plan->type
                                        : mm_panel_type(plan);
}

static void declare(kf_text *text, const mm_plan *plan, const mm_param *p)
{
    static const char *const temps[MM_TEMPS] = {"left",   "right",  "partial", "counts",
                                                "right1", "right2", "right3"};
    const kf_chain *chain = &plan->block->chain;
    switch (p->kind) {
    case MM_PARAM_INPUT:
        kf_text_addf(text, "__global const %s *in%u",
                     kf_dtype_of(chain->values[p->index].dtype).storage, p->index);
        break;
    case MM_PARAM_OUTPUT:
        kf_text_addf(text, "__global %s *out%u", kf_dtype_of(chain->values[p->index].dtype).storage,
                     p->index);
        break;
    case MM_PARAM_OFFSET:
        kf_text_addf(text, "long o%u", p->index);
        break;
    case MM_PARAM_STRIDE:
        kf_text_addf(text, "long t%u_%u", p->index, p->axis);
        break;
    case MM_PARAM_SCALAR:
        kf_text_addf(text, "%s a%u", kf_chain_number_type(&chain->numbers[p->index]), p->index);
        break;
    case MM_PARAM_EXTENT:
        kf_text_addf(text, "long d%u", p->index);
        break;
    case MM_PARAM_DIM:
        kf_text_addf(text, "int e%u_%u", p->index, p->axis);
        break;
    case MM_PARAM_TEMP:
        kf_text_addf(text, "__global %s%s *%s", p->axis == KF_ACCESS_READ ? "const " : "",
                     p->index == MM_TEMP_COUNTS  ? "int"
                     : p->index == MM_TEMP_PARTS ? plan->type
                                                 : packed_type(plan, p->index),
                     temps[p->index]);
        break;
    default:
        kf_text_addf(text, "int %s",
                     p->kind == MM_PARAM_M       ? "m"
                     : p->kind == MM_PARAM_N     ? "n"
                     : p->kind == MM_PARAM_K     ? "k"
                     : p->kind == MM_PARAM_DEPTH ? "depth"
                     : p->kind == MM_PARAM_SIDE  ? "side"
                                                 : "parts");
        break;
    }
}

static void open_kernel(kf_text *text, const mm_plan *plan, const mm_kernel *kernel)
{
    uint32_t side = plan->form == MM_FORM_TILE && kernel->role == MM_PRODUCT ? 16 : 1;
    if (mm_is_few(plan) && kernel->role == MM_PRODUCT) {
        kf_text_addf(text, "__attribute__((reqd_work_group_size(%u, 1, 1)))\n", plan->items);
    } else if (plan->form == MM_FORM_TENSOR && kernel->role != MM_CLEAR) {
        kf_text_addf(text, "__attribute__((reqd_work_group_size(%u, 1, 1)))\n",
                     kernel->role == MM_PRODUCT ? plan->items : (uint32_t)MM_PACK_ITEMS);
    } else if (plan->device->block_shape || side > 1) {
        kf_text_addf(text, "__attribute__((reqd_work_group_size(%u, %u, 1)))\n", side, side);
    }
    kf_text_addf(text, "__kernel void %s(", mm_kernel_name(kernel->role));
    for (uint32_t i = 0; i < kernel->n_params; i++) {
        kf_text_add(text, i == 0 ? "" : ", ");
        declare(text, plan, &kernel->params[i]);
    }
    kf_text_add(text, ") {\n");
    if (kernel->role != MM_CLEAR) {
        kf_chain_numbers(text, &plan->block->chain, plan->width);
    }
}

// ---- packing ----

/// PUT(v, p), PUT_OWN(v, p): a vector into a panel or into private memory, as VSTORE_x does.
static void emit_put_macros(kf_text *text, const mm_plan *plan)
{
    const char *where = plan->form == MM_FORM_PACKED ? "__global " : "";
    kf_text_addf(text,
                 "#ifdef POCL_DEVICE_ADDRESS_BITS\n"
                 "typedef %s%u near_sum __attribute__((aligned(sizeof(%s))));\n"
                 "#define PUT(v, p) (*(%snear_sum *)(p) = (v))\n"
                 "#define PUT_OWN(v, p) (*(near_sum *)(p) = (v))\n"
                 "#else\n"
                 "#define PUT(v, p) vstore%u(v, 0, p)\n"
                 "#define PUT_OWN(v, p) vstore%u(v, 0, p)\n"
                 "#endif\n",
                 plan->type, plan->width, plan->type, where, plan->width, plan->width);
}

/// PUT_NARROW(v, p), PUT_ONE_AT(to, x) and GET_NARROW(j, p): numbers that the panels' type has,
/// into a panel and out of it as floats.
static void emit_narrow_macros(kf_text *text, const mm_plan *plan)
{
    uint32_t w = plan->width, lanes = plan->lanes;
    if (plan->narrow.id == KF_DTYPE_F16) {
        kf_text_addf(text,
                     "#define PUT_NARROW(v, p) vstore_half%u(v, 0, p)\n"
                     "#define PUT_ONE_AT(to, x) vstore_half(x, 0, &to)\n"
                     "#define GET_NARROW(j, p) vload_half%u(j, p)\n",
                     w, lanes);
    } else {
        kf_text_addf(
            text,
            "#define PUT_NARROW(v, p) vstore%u(convert_ushort%u(as_uint%u(v) >> 16), 0, p)\n"
            "#define PUT_ONE_AT(to, x) (to = (ushort)(as_uint(x) >> 16))\n"
            "#define GET_NARROW(j, p) as_float%u(convert_uint%u(vload%u(j, p)) << 16)\n",
            w, w, w, lanes, lanes, lanes);
    }
}

/// Declares, of a work-item's number `item` among those that pack this operand: its batch, the
/// `group` of rows or columns, and its terms.
static void emit_pack_place(kf_text *text, const char *groups, uint32_t terms)
{
    kf_text_addf(text,
                 "    const long groups = %s, steps = (k + %u) / %u;\n"
                 "    const long group = item %% groups, batch = item / groups / steps;\n"
                 "    const int first = (int)(item / groups %% steps) * %u;\n"
                 "    const int last = min(first + %u, k);\n",
                 groups, terms - 1, terms, terms, terms);
}

static void emit_pack_left(kf_text *text, const mm_plan *plan)
{
    char groups[48];
    snprintf(groups, sizeof(groups), "(m + %u) / %u", plan->rows - 1, plan->rows);
    emit_pack_place(text, groups, MM_LEFT_TERMS);
    mm_emit_indices(text, plan, &plan->block->left);
    mm_emit_base(text, plan, &plan->block->left, "a");
    kf_text_addf(text,
                 "    const long tile = group;\n"
                 "    __global %s *to = left + ((batch * groups + tile) * k + first) * %u;\n",
                 plan->type, plan->rows);
    mm_emit_left_panel(text, plan);
}

static void emit_pack_right(kf_text *text, const mm_plan *plan)
{
    char groups[48];
    uint32_t columns = plan->columns * plan->across;
    snprintf(groups, sizeof(groups), "(n + %u) / %u", columns - 1, columns);
    emit_pack_place(text, groups, MM_RIGHT_TERMS);
    mm_emit_indices(text, plan, &plan->block->right);
    mm_emit_base(text, plan, &plan->block->right, "b");
    kf_text_addf(text,
                 "    const long panel = group * %u, panels = (n + %u) / %u, far = k * (long)%u;\n"
                 "    const int wide = (int)min(panels - panel, (long)%u);\n"
                 "    __global %s *to = right + ((batch * panels + panel) * k + first) * %u;\n",
                 plan->across, plan->columns - 1, plan->columns, plan->columns, plan->across,
                 mm_panel_type(plan), plan->columns);
    mm_emit_right_panels(text, plan);
}

static void emit_pack(kf_text *text, const mm_plan *plan, mm_role role)
{
    if (plan->form == MM_FORM_TENSOR) {
        plan->tensor->pack(text, plan, role);
        return;
    }
    if (plan->form == MM_FORM_BYTES) {
        mm_bytes_emit_pack(text, plan);
        return;
    }
    kf_text_add(text, "    long item = get_global_id(0);\n");
    if (role == MM_PACK_BOTH) {
        kf_text_addf(text, "    const long left_items = (m + %u) / %u * (long)((k + %u) / %u)",
                     plan->rows - 1, plan->rows, MM_LEFT_TERMS - 1, MM_LEFT_TERMS);
        for (uint32_t i = 0; i < plan->batch; i++) {
            if (mm_batch_axis(plan->block, &plan->block->left, i) >= 0) {
                kf_text_addf(text, " * d%u", i);
            }
        }
        kf_text_add(text, ";\n    if (item >= left_items) {\n    item -= left_items;\n");
        emit_pack_right(text, plan);
        kf_text_add(text, "    return;\n    }\n");
    }
    if (role == MM_PACK_RIGHT) {
        emit_pack_right(text, plan);
    } else {
        emit_pack_left(text, plan);
    }
    kf_text_add(text, "}\n");
}

// ---- the end ----

/// Declares whether results are written past the caches; `batches`: how many there are.
static void emit_stream(kf_text *text, const mm_plan *plan, const char *batches)
{
    if (plan->stream != 0) {
        kf_text_addf(text,
                     "    const int stream = n %% %u == 0 && (ulong)m * (ulong)n * (ulong)(%s) >= "
                     "%uul;\n",
                     plan->columns, batches, plan->stream);
    }
}

/// Adds the parts of columns [first, last) of a row, in their order.
static void emit_join(kf_text *text, const mm_plan *plan)
{
    kf_text_addf(text,
                 "    const long step = batches * m * (long)n;\n"
                 "    for (long col = first; col < last; col += %u) {\n"
                 "        const int count = (int)min(n - col, (long)%u);\n"
                 "        __global const %s *from = partial + (batch * m + row) * n + col;\n"
                 "        %s%u sum = (%s%u)(0);\n"
                 "        for (int part = 0; part < parts; part++, from += step) {\n"
                 "            %s e[%u];\n"
                 "            for (int i = 0; i < %u; i++) {\n"
                 "                e[i] = i < count ? from[i] : 0;\n"
                 "            }\n"
                 "            sum += count == %u ? vload%u(0, from) : vload%u(0, e);\n"
                 "        }\n",
                 plan->width, plan->width, plan->type, plan->type, plan->width, plan->type,
                 plan->width, plan->type, plan->width, plan->width, plan->width, plan->width,
                 plan->width);
    mm_emit_finish(text, plan, MM_COMBINE, "        ");
    kf_text_add(text, "    }\n}\n");
}

static void emit_combine(kf_text *text, const mm_plan *plan)
{
    kf_text_addf(text,
                 "    const long row = get_global_id(1), batch = get_global_id(2);\n"
                 "    const long batches = get_global_size(2);\n"
                 "    const long first = get_global_id(0) * (long)%u;\n"
                 "    const long last = min(first + %u, (long)n);\n",
                 plan->span, plan->span);
    mm_emit_indices(text, plan, NULL);
    emit_stream(text, plan, "batches");
    emit_join(text, plan);
}

/// Behind a part of one row: whoever ends last of a strip's parts adds them up, and leaves the
/// count as it was. The count is no part of a result, so who that is does not matter.
static void emit_join_row(kf_text *text, const mm_plan *plan)
{
    kf_text_add(text, "    __global int *count_of = counts + batch * get_global_size(0) + id;\n"
                      "    SETTLE;\n"
                      "    if (atomic_inc(count_of) + 1 < parts) {\n"
                      "        return;\n"
                      "    }\n"
                      "    SETTLE;\n"
                      "    *count_of = 0;\n"
                      "    const long row = 0, first = begin, last = end;\n");
    emit_join(text, plan);
}

// ---- the product ----

/// Declares batch, and the part of the sum that is done here, from a work-item's last index.
static void emit_place(kf_text *text, const mm_plan *plan, const char *index, const char *size)
{
    if (plan->split) {
        kf_text_addf(text,
                     "    const long part = %s %% parts, batch = %s / parts;\n"
                     "    const long batches = %s / parts;\n"
                     "    const int from = (int)part * depth, to_term = min(k, from + depth);\n",
                     index, index, size);
    } else {
        kf_text_addf(text, "    const long batch = %s;\n    const int from = 0, to_term = k;\n",
                     index);
    }
    mm_emit_indices(text, plan, NULL);
}

static void emit_product(kf_text *text, const mm_plan *plan)
{
    const mm_block *block = plan->block;
    if (!plan->device->block_shape) {
        emit_place(text, plan, "(long)get_group_id(2)", "(long)get_num_groups(2)");
    } else {
        emit_place(text, plan, "(long)get_global_id(2)", "(long)get_global_size(2)");
    }
    if (plan->form == MM_FORM_BYTES) {
        mm_bytes_emit_product(text, plan);
        return;
    }
    if (!plan->split) { // parts are read again
        emit_stream(text, plan, "get_global_size(2)");
    }
    if (plan->form == MM_FORM_PACKED || plan->form == MM_FORM_TENSOR) {
        if (plan->plain) {
            mm_emit_base(text, plan, &block->left, "a");
        } else {
            mm_emit_own_batch(text, plan, &block->left, "left_batch");
        }
        mm_emit_own_batch(text, plan, &block->right, "right_batch");
        if (plan->tensor != NULL) {
            plan->tensor->product(text, plan);
        } else {
            mm_emit_packed_sums(text, plan);
        }
        return;
    }
    mm_emit_base(text, plan, &block->left, "a");
    mm_emit_base(text, plan, &block->right, "b");
    if (mm_is_few(plan)) {
        mm_emit_few(text, plan);
    } else if (plan->form == MM_FORM_DIRECT) {
        mm_emit_direct_sums(text, plan);
    } else if (plan->form == MM_FORM_ROW) {
        mm_emit_row_sums(text, plan);
        if (plan->joined) {
            emit_join_row(text, plan);
        } else {
            kf_text_add(text, "}\n");
        }
    } else if (plan->form == MM_FORM_DOT) {
        mm_emit_dot_sums(text, plan);
    } else {
        mm_emit_item_sums(text, plan);
    }
}

// ---- all of it ----

static void emit_functions(kf_text *text, const mm_plan *plan)
{
    const mm_block *block = plan->block;
    uint64_t read = 0, written = 0;
    for (uint32_t i = 0; i < block->chain.n_values; i++) {
        const kf_chain_value *v = &block->chain.values[i];
        read |= v->computed ? 0 : 1ull << v->dtype;
        written |= kf_chain_is_output(v) ? 1ull << v->dtype : 0;
    }
    kf_chain_functions(text, &block->chain, plan->width, 1, read, written, plan->stream != 0);
    if (plan->device->is_cpu) { // a library's fma, where there is no instruction, is no gain
        kf_text_add(text, "#if defined(FP_FAST_FMAF) || defined(__FMA__) || "
                          "defined(__ARM_FEATURE_FMA)\n"
                          "#define MULADD fma\n"
                          "#else\n"
                          "#define MULADD(a, b, c) ((a) * (b) + (c))\n"
                          "#endif\n");
    } else {
        kf_text_add(text, "#define MULADD fma\n");
    }
    if (plan->device->block_shape) {
        kf_ew_ahead_macro(text);
    }
    if (plan->joined) { // a fence of OpenCL 1.2 is for one work-group
        kf_text_add(text, "#ifdef POCL_DEVICE_ADDRESS_BITS\n"
                          "#define SETTLE __atomic_thread_fence(__ATOMIC_SEQ_CST)\n"
                          "#else\n"
                          "#define SETTLE mem_fence(CLK_GLOBAL_MEM_FENCE)\n"
                          "#endif\n");
    }
    if (mm_is_few(plan)) {
        mm_emit_few_functions(text, plan);
    } else if (plan->tensor != NULL) {
        plan->tensor->functions(text, plan);
    } else if (plan->form == MM_FORM_BYTES) {
        mm_bytes_emit_functions(text, plan);
    } else if (mm_has_panels(plan)) {
        emit_put_macros(text, plan);
        if (plan->narrow.storage != NULL) {
            emit_narrow_macros(text, plan);
        }
        mm_emit_tile_functions(text, plan);
    }
}

void mm_emit(kf_text *text, const mm_plan *plan)
{
    emit_functions(text, plan);
    for (uint32_t i = 0; i < plan->n_kernels; i++) {
        if (plan->kernels[i].product > 0) {
            continue;
        }
        open_kernel(text, plan, &plan->kernels[i]);
        switch (plan->kernels[i].role) {
        case MM_PACK_LEFT:
        case MM_PACK_RIGHT:
        case MM_PACK_BOTH:
            emit_pack(text, plan, plan->kernels[i].role);
            break;
        case MM_PRODUCT:
            emit_product(text, plan);
            break;
        case MM_COMBINE:
            emit_combine(text, plan);
            break;
        case MM_CLEAR:
            kf_text_add(text, "    counts[get_global_id(0)] = 0;\n}\n");
            break;
        }
    }
}
