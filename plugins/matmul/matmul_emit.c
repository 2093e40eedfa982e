// SPDX-License-Identifier: MIT OR Apache-2.0
// The kernels' text around the innermost loops: parameters, where an operand's batch begins, the
// packing of operands, the epilogue, the combining of a sum's parts.
//
// Packed operands, in the type of the sums: the right one as panels of `columns` columns, the left
// one as panels of `rows` rows, both term by term. What lies past the end of rows and columns is
// anything; past the end of the sum nothing is read.
#include "matmul_internal.h"

const char *mm_kernel_name(mm_role role)
{
    return role == MM_PACK_LEFT    ? "kiln_matmul_left"
           : role == MM_PACK_RIGHT ? "kiln_matmul_right"
           : role == MM_PACK_BOTH  ? "kiln_matmul_pack"
           : role == MM_PRODUCT    ? "kiln_matmul"
                                   : "kiln_matmul_combine";
}

// ---- parameters ----

static void declare(kf_text *text, const mm_plan *plan, const mm_param *p)
{
    static const char *const temps[] = {"left", "right", "partial"};
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
    case MM_PARAM_TEMP:
        kf_text_addf(text, "__global %s%s *%s", p->axis == KF_ACCESS_READ ? "const " : "",
                     plan->type, temps[p->index]);
        break;
    default:
        kf_text_addf(text, "int %s",
                     p->kind == MM_PARAM_M       ? "m"
                     : p->kind == MM_PARAM_N     ? "n"
                     : p->kind == MM_PARAM_K     ? "k"
                     : p->kind == MM_PARAM_DEPTH ? "depth"
                                                 : "parts");
        break;
    }
}

static void open_kernel(kf_text *text, const mm_plan *plan, const mm_kernel *kernel)
{
    uint32_t side = plan->form == MM_FORM_TILE && kernel->role == MM_PRODUCT ? 16 : 1;
    if (plan->device->block_shape || side > 1) {
        kf_text_addf(text, "__attribute__((reqd_work_group_size(%u, %u, 1)))\n", side, side);
    }
    kf_text_addf(text, "__kernel void %s(", mm_kernel_name(kernel->role));
    for (uint32_t i = 0; i < kernel->n_params; i++) {
        kf_text_add(text, i == 0 ? "" : ", ");
        declare(text, plan, &kernel->params[i]);
    }
    kf_text_add(text, ") {\n");
    kf_chain_numbers(text, &plan->block->chain, plan->width);
}

// ---- addresses ----

void mm_stride_name(const mm_plan *plan, uint32_t value, int axis, char name[32])
{
    const kf_chain_value *v = &plan->block->chain.values[value];
    if (axis < 0 || v->symbols[axis] == 0) {
        snprintf(name, 32, "0");
    } else if (mm_is_unit(plan->block, value, axis)) {
        snprintf(name, 32, "1");
    } else {
        snprintf(name, 32, "t%u_%u", (unsigned)value, (unsigned)axis);
    }
}

/// Declares the index i0, i1 ... of `batch` on each axis of the batch; `own`: only on those that
/// the operand has.
static void emit_indices(kf_text *text, const mm_plan *plan, const mm_operand *own)
{
    const kf_chain_value *result = &plan->block->chain.values[plan->block->result];
    kf_text_add(text, "    long rest = batch;\n");
    for (uint32_t i = plan->batch; i > 0; i--) {
        if (result->symbols[i - 1] == 0 ||
            (own != NULL && mm_batch_axis(plan->block, own, i - 1) < 0)) {
            continue;
        }
        kf_text_addf(text, "    const long i%u = rest %% d%u;\n    rest /= d%u;\n", i - 1, i - 1,
                     i - 1);
    }
}

/// Declares `name`: where the operand's part of this batch begins.
static void emit_base(kf_text *text, const mm_plan *plan, const mm_operand *operand,
                      const char *name)
{
    const kf_chain_value *v = &plan->block->chain.values[operand->source];
    kf_text_addf(text, "    __global const %s *%s = in%u", kf_dtype_of(v->dtype).storage, name,
                 operand->source);
    if (!v->zero_offset) {
        kf_text_addf(text, " + o%u", operand->source);
    }
    for (uint32_t i = 0; i < plan->batch; i++) {
        int axis = mm_batch_axis(plan->block, operand, i);
        if (axis >= 0) {
            char stride[32];
            mm_stride_name(plan, operand->source, axis, stride);
            kf_text_addf(text, " + i%u * %s", i, stride);
        }
    }
    kf_text_add(text, ";\n");
}

/// The number of a packed operand's batch, from i0, i1 ...
static void emit_own_batch(kf_text *text, const mm_plan *plan, const mm_operand *operand,
                           const char *name)
{
    kf_text_addf(text, "    long %s = 0;\n", name);
    for (uint32_t i = 0; i < plan->batch; i++) {
        if (mm_batch_axis(plan->block, operand, i) >= 0) {
            kf_text_addf(text, "    %s = %s * d%u + i%u;\n", name, name, i, i);
        }
    }
}

void mm_emit_load(kf_text *text, const mm_plan *plan, const mm_operand *operand, const char *stride,
                  const char *count, const char *indent)
{
    const kf_chain *chain = &plan->block->chain;
    kf_dtype dtype = kf_dtype_of(chain->values[operand->source].dtype);
    kf_text_addf(text, "%sconst %s%u v%u = ", indent, dtype.compute, plan->width, operand->source);
    if (stride != NULL) {
        kf_text_addf(text, "part_%s(p, %s, ", dtype.name, stride);
        if (count != NULL) {
            kf_text_addf(text, "%s);\n", count);
        } else {
            kf_text_addf(text, "%u);\n", plan->width);
        }
    } else if (count != NULL) {
        kf_text_addf(text, "%s >= %u ? load_%s(p) : part_%s(p, 1, %s);\n", count, plan->width,
                     dtype.name, dtype.name, count);
    } else {
        kf_text_addf(text, "load_%s(p);\n", dtype.name);
    }
    for (uint32_t i = 0; i < plan->block->product; i++) {
        if (mm_makes(plan->block, operand, i)) {
            kf_chain_op_text(text, chain, &chain->ops[i], plan->width, indent);
        }
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

/// Turns the vectors in `square`, one for each row, to `count` terms of all rows.
static void emit_turn(kf_text *text, const mm_plan *plan, const char *count)
{
    kf_text_addf(text,
                 "            for (int e = 0; e < %s; e++) {\n"
                 "                for (int i = 0; i < %u; i++) {\n"
                 "                    to[e * %u + i] = square[i * %u + e];\n"
                 "                }\n"
                 "            }\n",
                 count, plan->rows, plan->rows, plan->width);
}

/// The same for whole vectors, in squares of 4 or 2 terms and rows where they are multiples of
/// that.
static void emit_turn_whole(kf_text *text, const mm_plan *plan, const char *width)
{
    static const char *const parts = "xyzw";
    uint32_t side = plan->rows % 4 == 0 ? 4 : 2;
    if (plan->rows % side != 0) {
        emit_turn(text, plan, width);
        return;
    }
    for (uint32_t i = 0; i < plan->rows; i += side) {
        kf_text_addf(text, "            for (int e = 0; e < %u; e += %u) {\n", plan->width, side);
        for (uint32_t r = 0; r < side; r++) {
            kf_text_addf(text, "                const %s%u r%u = vload%u(0, square + %u + e);\n",
                         plan->type, side, r, side, (i + r) * plan->width);
        }
        for (uint32_t e = 0; e < side; e++) {
            kf_text_addf(text, "                vstore%u((%s%u)(", side, plan->type, side);
            for (uint32_t r = 0; r < side; r++) {
                kf_text_addf(text, "%sr%u.%c", r == 0 ? "" : ", ", r, parts[e]);
            }
            kf_text_addf(text, "), 0, to + (e + %u) * %u + %u);\n", e, plan->rows, i);
        }
        kf_text_add(text, "            }\n");
    }
}

void mm_emit_left_panel(kf_text *text, const mm_plan *plan)
{
    const mm_operand *left = &plan->block->left;
    char row[32], step[32], width[16];
    mm_stride_name(plan, left->source, left->outer, row);
    mm_stride_name(plan, left->source, left->inner, step);
    const char *stride = strcmp(step, "1") == 0 ? NULL : step;
    uint32_t w = plan->width;
    snprintf(width, sizeof(width), "%u", w);
    if (plan->fold) { // the rows of all batches lie one behind the other
        snprintf(row, sizeof(row), "(long)k");
    }
    const char *storage = kf_dtype_of(plan->block->chain.values[left->source].dtype).storage;
    kf_text_addf(text,
                 "    %s square[%u] __attribute__((aligned(64)));\n"
                 "    for (int t = first; t < last; t += %u, to += %u) {\n"
                 "        const int count = min(%u, last - t);\n"
                 "        if (count == %u && (tile + 1) * %u <= m) {\n"
                 "            __global const %s *line = a + tile * %u * %s + t * (long)%s;\n",
                 plan->type, plan->rows * w, w, plan->rows * w, w, w, plan->rows, storage,
                 plan->rows, row, step);
    for (uint32_t i = 0; i < plan->rows; i++, kf_text_add(text, "            }\n")) {
        kf_text_addf(text, "            {\n                __global const %s *p = line;\n",
                     storage);
        mm_emit_load(text, plan, left, stride, NULL, "                ");
        kf_text_addf(text,
                     "                PUT_OWN(v%u, square + %u);\n                line += %s;\n",
                     left->value, i * w, row);
    }
    emit_turn_whole(text, plan, width);
    kf_text_addf(text,
                 "            continue;\n"
                 "        }\n"
                 "        for (int i = 0; i < %u; i++) {\n"
                 "            const long row = min(tile * %u + i, (long)m - 1);\n"
                 "            __global const %s *p = a + row * %s + t * (long)%s;\n",
                 plan->rows, plan->rows, storage, row, step);
    mm_emit_load(text, plan, left, stride, "count", "            ");
    kf_text_addf(text,
                 "            PUT_OWN(v%u, square + i * %u);\n"
                 "        }\n"
                 "        {\n",
                 left->value, w);
    emit_turn(text, plan, "count");
    kf_text_add(text, "        }\n    }\n");
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
    emit_indices(text, plan, &plan->block->left);
    emit_base(text, plan, &plan->block->left, "a");
    kf_text_addf(text,
                 "    const long tile = group;\n"
                 "    __global %s *to = left + ((batch * groups + tile) * k + first) * %u;\n",
                 plan->type, plan->rows);
    mm_emit_left_panel(text, plan);
}

/// By vectors along the columns; `whole`: all of the panels' are there.
static void emit_pack_columns(kf_text *text, const mm_plan *plan, const char *column,
                              const char *step, uint32_t whole)
{
    const mm_operand *right = &plan->block->right;
    const char *storage = kf_dtype_of(plan->block->chain.values[right->source].dtype).storage;
    uint32_t w = plan->width;
    kf_text_addf(text,
                 "    for (int t = first; t < last; t++, to += %u) {\n"
                 "        __global const %s *line = b + t * (long)%s + panel * %u * %s;\n"
                 "        for (int j = 0; j < wide; j++, line += %u * (long)%s) {\n",
                 plan->columns, storage, step, plan->columns, column, plan->columns, column);
    for (uint32_t i = 0; i < plan->columns; i += w) {
        kf_text_addf(text,
                     "            {\n"
                     "                __global const %s *p = line + %u * (long)%s;\n",
                     storage, i, column);
        if (!whole) {
            kf_text_addf(text,
                         "                const int count = (int)clamp(n - (panel + j) * %u - %u, "
                         "(long)0, (long)%u);\n",
                         plan->columns, i, w);
        }
        mm_emit_load(text, plan, right, strcmp(column, "1") == 0 ? NULL : column,
                     whole ? NULL : "count", "                ");
        kf_text_addf(text, "                PUT(v%u, to + j * far + %u);\n            }\n",
                     right->value, i);
    }
    kf_text_add(text, "        }\n    }\n");
}

/// By vectors along the sum, which lies dense in memory: squares are turned in private memory.
static void emit_pack_turned(kf_text *text, const mm_plan *plan, const char *column)
{
    const mm_operand *right = &plan->block->right;
    uint32_t w = plan->width;
    kf_text_addf(text,
                 "    %s square[%u] __attribute__((aligned(64)));\n"
                 "    for (int j = 0; j < wide * %u; j += %u) {\n"
                 "        for (int t = first; t < last; t += %u) {\n"
                 "            const int count = min(%u, last - t);\n"
                 "            for (int e = 0; e < %u; e++) {\n"
                 "                const long col = min(panel * %u + j + e, (long)n - 1);\n"
                 "                __global const %s *p = b + col * %s + t;\n",
                 plan->type, w * w, plan->columns, w, w, w, w, plan->columns,
                 kf_dtype_of(plan->block->chain.values[right->source].dtype).storage, column);
    mm_emit_load(text, plan, right, NULL, "count", "                ");
    kf_text_addf(text,
                 "                PUT_OWN(v%u, square + e * %u);\n"
                 "            }\n"
                 "            for (int i = 0; i < count; i++) {\n"
                 "                for (int e = 0; e < %u; e++) {\n"
                 "                    to[j / %u * far + (t - first + i) * %u + j %% %u + e] = "
                 "square[e * %u + i];\n"
                 "                }\n"
                 "            }\n"
                 "        }\n"
                 "    }\n",
                 right->value, w, w, plan->columns, plan->columns, plan->columns, w);
}

void mm_emit_right_panels(kf_text *text, const mm_plan *plan)
{
    const mm_operand *right = &plan->block->right;
    char column[32], step[32];
    mm_stride_name(plan, right->source, right->outer, column);
    mm_stride_name(plan, right->source, right->inner, step);
    if (strcmp(column, "1") != 0 && strcmp(step, "1") == 0) {
        emit_pack_turned(text, plan, column);
    } else {
        kf_text_addf(text, "    if ((panel + wide) * %u <= n) {\n", plan->columns);
        emit_pack_columns(text, plan, column, step, 1);
        kf_text_add(text, "    } else {\n");
        emit_pack_columns(text, plan, column, step, 0);
        kf_text_add(text, "    }\n");
    }
}

static void emit_pack_right(kf_text *text, const mm_plan *plan)
{
    char groups[48];
    uint32_t columns = plan->columns * plan->across;
    snprintf(groups, sizeof(groups), "(n + %u) / %u", columns - 1, columns);
    emit_pack_place(text, groups, MM_RIGHT_TERMS);
    emit_indices(text, plan, &plan->block->right);
    emit_base(text, plan, &plan->block->right, "b");
    kf_text_addf(text,
                 "    const long panel = group * %u, panels = (n + %u) / %u, far = k * (long)%u;\n"
                 "    const int wide = (int)min(panels - panel, (long)%u);\n"
                 "    __global %s *to = right + ((batch * panels + panel) * k + first) * %u;\n",
                 plan->across, plan->columns - 1, plan->columns, plan->columns, plan->across,
                 plan->type, plan->columns);
    mm_emit_right_panels(text, plan);
}

static void emit_pack(kf_text *text, const mm_plan *plan, mm_role role)
{
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

static void emit_end_input(kf_text *text, const mm_plan *plan, uint32_t value, const char *indent)
{
    const mm_block *block = plan->block;
    const kf_chain_value *v = &block->chain.values[value];
    kf_dtype dtype = kf_dtype_of(v->dtype);
    char stride[32] = "1";
    kf_text_addf(text, "%s__global const %s *p%u = in%u", indent, dtype.storage, value, value);
    if (!v->zero_offset) {
        kf_text_addf(text, " + o%u", value);
    }
    if (mm_is_linear(block, value)) {
        kf_text_add(text, " + at;\n");
    } else {
        int column = mm_column_axis(block), own;
        for (int i = 0; i < (int)block->chain.values[block->result].rank; i++) {
            own = mm_result_axis(block, value, (uint32_t)i);
            mm_stride_name(plan, value, own, stride);
            if (own < 0) {
                continue;
            }
            if (i == column || i == mm_row_axis(block)) {
                kf_text_addf(text, " + %s * %s", i == column ? "col" : "row", stride);
            } else {
                kf_text_addf(text, " + i%d * %s", i, stride);
            }
        }
        kf_text_add(text, ";\n");
        own = column < 0 ? -1 : mm_result_axis(block, value, (uint32_t)column);
        mm_stride_name(plan, value, own, stride);
    }
    kf_text_addf(text, "%sconst %s%u v%u = ", indent, dtype.compute, plan->width, value);
    if (strcmp(stride, "0") == 0) {
        kf_text_addf(text, "(%s%u)(one_%s(p%u));\n", dtype.compute, plan->width, dtype.name, value);
    } else if (strcmp(stride, "1") == 0) {
        kf_text_addf(text, "count == %u ? load_%s(p%u) : part_%s(p%u, 1, count);\n", plan->width,
                     dtype.name, value, dtype.name, value);
    } else {
        kf_text_addf(text, "part_%s(p%u, %s, count);\n", dtype.name, value, stride);
    }
}

static void emit_part_store(kf_text *text, const mm_plan *plan, const char *indent)
{
    kf_text_addf(text,
                 "%s__global %s *to = partial + (part * batches + batch) * m * (long)n + row * n + "
                 "col;\n"
                 "%sif (count == %u) {\n"
                 "%s    vstore%u(sum, 0, to);\n"
                 "%s} else {\n"
                 "%s    %s e[%u];\n"
                 "%s    vstore%u(sum, 0, e);\n"
                 "%s    for (int i = 0; i < count; i++) {\n"
                 "%s        to[i] = e[i];\n"
                 "%s    }\n"
                 "%s}\n",
                 indent, plan->type, indent, plan->width, indent, plan->width, indent, indent,
                 plan->type, plan->width, indent, plan->width, indent, indent, indent, indent);
}

void mm_emit_finish(kf_text *text, const mm_plan *plan, mm_role role, const char *indent)
{
    const mm_block *block = plan->block;
    const kf_chain *chain = &block->chain;
    kf_dtype dtype = kf_dtype_of(chain->values[block->result].dtype);
    if (plan->split && role == MM_PRODUCT) {
        emit_part_store(text, plan, indent);
        return;
    }
    kf_text_addf(text, "%sconst long at = (batch * m + row) * n + col;\n", indent);
    kf_text_addf(text, "%sconst %s%u v%u = ", indent, plan->type, plan->width, block->result);
    kf_text_addf(text, dtype.bytes == 2 ? "round_%s(sum);\n" : "sum;\n", dtype.name);
    for (uint32_t i = 0; i < chain->n_values; i++) {
        if (mm_is_epilogue_input(block, i)) {
            emit_end_input(text, plan, i, indent);
        }
    }
    for (uint32_t i = block->product + 1; i < chain->n_ops; i++) {
        kf_chain_op_text(text, chain, &chain->ops[i], plan->width, indent);
    }
    for (uint32_t i = 0; i < chain->n_values; i++) {
        const char *name = kf_dtype_of(chain->values[i].dtype).name;
        if (kf_chain_is_output(&chain->values[i])) {
            kf_text_addf(text,
                         "%sif (count == %u) {\n%s    keep_%s(out%u + at, v%u, 0);\n"
                         "%s} else {\n%s    put_%s(out%u + at, v%u, count);\n%s}\n",
                         indent, plan->width, indent, name, i, i, indent, indent, name, i, i,
                         indent);
        }
    }
}

static void emit_combine(kf_text *text, const mm_plan *plan)
{
    kf_text_addf(text,
                 "    const long row = get_global_id(0), batch = get_global_id(2);\n"
                 "    const long batches = get_global_size(2), step = batches * m * (long)n;\n"
                 "    const long first = get_global_id(1) * (long)%u;\n"
                 "    const long last = min(first + %u, (long)n);\n",
                 plan->span, plan->span);
    emit_indices(text, plan, NULL);
    kf_text_addf(text,
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
    emit_indices(text, plan, NULL);
}

static void emit_product(kf_text *text, const mm_plan *plan)
{
    const mm_block *block = plan->block;
    if (plan->form == MM_FORM_TILE) {
        emit_place(text, plan, "(long)get_group_id(2)", "(long)get_num_groups(2)");
    } else {
        emit_place(text, plan, "(long)get_global_id(2)", "(long)get_global_size(2)");
    }
    if (plan->form == MM_FORM_PACKED) {
        emit_own_batch(text, plan, &block->left, "left_batch");
        emit_own_batch(text, plan, &block->right, "right_batch");
        mm_emit_packed_sums(text, plan);
        return;
    }
    emit_base(text, plan, &block->left, "a");
    emit_base(text, plan, &block->right, "b");
    if (plan->form == MM_FORM_DIRECT) {
        mm_emit_direct_sums(text, plan);
    } else if (plan->form == MM_FORM_ROW) {
        mm_emit_row_sums(text, plan);
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
    kf_chain_functions(text, &block->chain, plan->width, 1, read, written, 0);
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
    if (mm_has_panels(plan)) {
        kf_ew_ahead_macro(text);
        emit_put_macros(text, plan);
        mm_emit_tile_function(text, plan);
    }
}

void mm_emit(kf_text *text, const mm_plan *plan)
{
    emit_functions(text, plan);
    for (uint32_t i = 0; i < plan->n_kernels; i++) {
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
        }
    }
}
