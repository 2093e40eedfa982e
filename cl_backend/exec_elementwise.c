// SPDX-License-Identifier: MIT OR Apache-2.0
// Launches elementwise.cl: every elementwise operator, copies between any strides, and filling. Decides which
// instance of the kernel serves; exec_shape.c cuts the work, and the formulas are the kernel's.
#include <string.h>

#include "exec_internal.h"

typedef struct operand {
    const kiln_view *view;
    kiln_dtype dtype; ///< as the kernel sees it
} operand;

typedef struct elementwise { ///< one launch; operand 0 is the result
    const char *op;
    operand operands[KILNI_EXEC_OPERANDS];
    uint32_t n_operands;
    uint64_t values[2];
    uint32_t value_bytes;
    uint32_t n_values;
} elementwise;

static void define_instance(const kilni_exec *exec, const elementwise *e, const kilni_exec_shape *s,
                            uint32_t vector, kilni_exec_options *options)
{
    static const char *const types[KILNI_EXEC_OPERANDS] = {"O", "A", "B", "C"};
    static const char *const modes[KILNI_EXEC_OPERANDS] = {"MO", "MA", "MB", "MC"};
    kilni_exec_define_text(options, "OP", e->op);
    kilni_exec_define(options, "NIN", e->n_operands - 1);
    kilni_exec_define(options, "NVALUE", e->n_values);
    kilni_exec_define(options, "V", vector);
    kilni_exec_define_shape(exec, options, s);
    for (uint32_t i = 0; i < e->n_operands; i++) {
        kilni_exec_define_dtype(options, types[i], e->operands[i].dtype);
        kilni_exec_define(options, modes[i], kilni_exec_shape_mode(s, i));
    }
    if (strcmp(e->op, "cast") == 0) {
        kilni_exec_define(options, "CAST", 1);
    }
    if (!kilni_exec_is_block(exec) && kilni_exec_shape_is_aligned(s, vector)) {
        kilni_exec_define(options, "ALIGNED", 1);
    }
}

static kiln_status launch(kilni_exec *exec, const elementwise *e)
{
    kilni_exec_shape s;
    kilni_exec_loops loops;
    kilni_exec_options options = {.length = 0};
    kilni_cl_args args;
    uint32_t vector = 16;
    for (uint32_t i = 0; i < e->n_operands; i++) {
        uint32_t fits = kilni_exec_vector(exec, e->operands[i].dtype);
        vector = fits < vector ? fits : vector;
    }
    const kiln_view *out = e->operands[0].view;
    kilni_exec_loops_init(&loops, out->dims, out->rank);
    for (uint32_t i = 0; i < e->n_operands; i++) {
        kilni_exec_loops_add(&loops, e->operands[i].view);
    }
    kilni_exec_shape_init(exec, &s, &loops, vector);
    define_instance(exec, e, &s, vector, &options);
    kiln_status st = kilni_exec_kernel(exec, "elementwise.cl", "kiln_elementwise", &options, &args);
    if (st != KILN_STATUS_OK) {
        return st;
    }
    kilni_cl_push_bytes(&args, &s, sizeof(s));
    for (uint32_t i = 0; i < e->n_operands; i++) {
        kilni_cl_push_buffer(&args, e->operands[i].view->buffer);
    }
    for (uint32_t i = 0; i < e->n_values; i++) {
        kilni_cl_push_bytes(&args, &e->values[i], e->value_bytes);
    }
    return kilni_exec_launch(exec, &args, s.items, 256);
}

static void add_operand(elementwise *e, const kiln_view *view, kiln_dtype dtype)
{
    e->operands[e->n_operands++] = (operand){view, dtype};
}

static kiln_status add_value(kilni_exec *exec, elementwise *e, kiln_attr_key key, bool raw)
{
    return kilni_exec_number(exec, key, exec->inputs[0].dtype, raw, &e->values[e->n_values++],
                             &e->value_bytes);
}

/* Scalars that the operator takes: value, slope, or min and max. */
static kiln_status add_values(kilni_exec *exec, elementwise *e, bool raw)
{
    static const kiln_attr_key keys[] = {KILN_KEY_VALUE, KILN_KEY_SLOPE, KILN_KEY_MIN, KILN_KEY_MAX};
    const kiln_op_signature *signature = kiln_op_info_of(exec->record->op)->signature;
    kiln_status st = KILN_STATUS_OK;
    for (size_t k = 0; st == KILN_STATUS_OK && k < sizeof(keys) / sizeof(keys[0]); k++) {
        for (unsigned i = 0; st == KILN_STATUS_OK && i < signature->n_attrs; i++) {
            if (signature->attrs[i].key == keys[k]) {
                st = add_value(exec, e, keys[k], raw);
            }
        }
    }
    return st;
}

kiln_status kilni_exec_elementwise(kilni_exec *exec)
{
    kiln_op op = exec->record->op;
    elementwise e = {.op = kiln_op_info_of(op)->name};
    bool raw = op == KILN_OP_WHERE || op == KILN_OP_MASK_FILL || op == KILN_OP_CONTIGUOUS;
    uint8_t masks = kiln_op_info_of(op)->signature->mask_inputs;
    kiln_dtype result = exec->outputs[0].dtype;
    add_operand(&e, &exec->outputs[0], raw ? kilni_exec_raw(result) : result);
    for (unsigned i = 0; i < exec->record->n_inputs; i++) {
        kiln_dtype dtype = exec->inputs[i].dtype;
        bool as_is = !raw || (masks >> i & 1u) != 0;
        add_operand(&e, &exec->inputs[i], as_is ? dtype : kilni_exec_raw(dtype));
    }
    kiln_status st = add_values(exec, &e, raw);
    return st == KILN_STATUS_OK ? launch(exec, &e) : st;
}

kiln_status kilni_exec_copy(kilni_exec *exec, const kiln_view *source, const kiln_view *target)
{
    kiln_dtype dtype = kilni_exec_raw(target->dtype);
    elementwise e = {.op = "contiguous"};
    add_operand(&e, target, dtype);
    add_operand(&e, source, dtype);
    return launch(exec, &e);
}

kiln_status kilni_exec_fill(kilni_exec *exec, uint64_t value, const kiln_view *target)
{
    kiln_dtype dtype = kilni_exec_raw(target->dtype);
    elementwise e = {.op = "full", .values = {value}, .n_values = 1};
    e.value_bytes = (uint32_t)kiln_dtype_size(kilni_exec_compute(dtype));
    add_operand(&e, target, dtype);
    return launch(exec, &e);
}
