// SPDX-License-Identifier: MIT OR Apache-2.0
// Launches elementwise.cl: every elementwise operator, copies between any strides, and filling.
// Decides which instance of the kernel serves; exec_shape.c cuts the work, and the formulas are the
// kernel's.
#include <string.h>

#include "exec_internal.h"

typedef struct elementwise_operand {
    const kiln_view *view;
    kiln_dtype dtype; ///< as the kernel sees it
} elementwise_operand;

typedef struct elementwise { ///< one launch; operand 0 is the result
    const char *op;
    elementwise_operand operands[KILNI_EXEC_OPERANDS];
    uint32_t n_operands;
    uint64_t values[2];
    uint32_t value_bytes;
    uint32_t n_values;
    bool scalar; ///< operand b may be a scalar: `values[0]` if there is one
} elementwise;

static void define_elementwise(const kilni_exec *exec, const elementwise *e,
                               const kilni_exec_shape *shape, uint32_t vector,
                               kilni_exec_options *options)
{
    static const char *const types[KILNI_EXEC_OPERANDS] = {"O", "A", "B", "C"};
    kilni_exec_define_operator(options, "OP_", e->op);
    kilni_exec_define(options, "NIN", e->n_operands - 1);
    kilni_exec_define(options, "NVALUE", e->scalar ? 0 : e->n_values);
    for (uint32_t i = 0; i < e->n_operands; i++) {
        kilni_exec_define_dtype(options, types[i], e->operands[i].dtype);
    }
    if (e->scalar) {
        kilni_exec_define(options, "SCALAR", 1);
    }
    if (strcmp(e->op, "cast") == 0) {
        kilni_exec_define(options, "CAST", 1);
    }
    kilni_exec_define_shape(exec, options, shape, vector);
}

static kiln_status launch_elementwise(kilni_exec *exec, const elementwise *e)
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
    define_elementwise(exec, e, &s, vector, &options);
    kiln_status status =
        kilni_exec_kernel(exec, "elementwise.cl", "kiln_elementwise", &options, &args);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kilni_cl_push_bytes(&args, &s, sizeof(s));
    for (uint32_t i = 0; i < e->n_operands; i++) {
        kilni_cl_push_buffer(&args, e->operands[i].view->buffer);
    }
    if (e->scalar) {
        kilni_cl_push_i64(&args, e->n_values);
    }
    for (uint32_t i = 0; i < (e->scalar ? 1 : e->n_values); i++) {
        kilni_cl_push_bytes(&args, &e->values[i], e->value_bytes);
    }
    return kilni_exec_launch(exec, &args, s.items, 256);
}

static void add_operand(elementwise *e, const kiln_view *view, kiln_dtype dtype)
{
    e->operands[e->n_operands++] = (elementwise_operand){view, dtype};
}

static kiln_status add_value(kilni_exec *exec, elementwise *e, kiln_attr_key key, bool raw)
{
    return kilni_exec_number(exec, key, exec->inputs[0].dtype, raw, &e->values[e->n_values++],
                             &e->value_bytes);
}

/// Scalars that the operator takes: value, slope, or min and max.
static kiln_status add_values(kilni_exec *exec, elementwise *e, bool raw)
{
    static const kiln_attr_key keys[] = {KILN_KEY_VALUE, KILN_KEY_SLOPE, KILN_KEY_MIN,
                                         KILN_KEY_MAX};
    const kiln_op_signature *signature = kiln_op_info_of(exec->record->op)->signature;
    kiln_status status = KILN_STATUS_OK;
    for (size_t k = 0; status == KILN_STATUS_OK && k < sizeof(keys) / sizeof(keys[0]); k++) {
        for (unsigned i = 0; status == KILN_STATUS_OK && i < signature->n_attrs; i++) {
            if (signature->attrs[i].key == keys[k]) {
                status = add_value(exec, e, keys[k], raw);
            }
        }
    }
    return status;
}

/// The formula of an operator with a scalar is that of its twin with two operands.
static const char *twin_of(kiln_op op)
{
    switch (op) {
#define TWIN(scalar, name)                                                                         \
    case KILN_OP_##scalar:                                                                         \
        return name;
        TWIN(ADD_SCALAR, "add")
        TWIN(SUB_SCALAR, "sub")
        TWIN(MUL_SCALAR, "mul")
        TWIN(DIV_SCALAR, "div")
        TWIN(REM_SCALAR, "rem")
        TWIN(POW_SCALAR, "pow")
        TWIN(CLAMP_MIN, "maximum")
        TWIN(CLAMP_MAX, "minimum")
        TWIN(EQUAL_SCALAR, "equal")
        TWIN(NOT_EQUAL_SCALAR, "not_equal")
        TWIN(LESS_SCALAR, "less")
        TWIN(LESS_EQUAL_SCALAR, "less_equal")
        TWIN(GREATER_SCALAR, "greater")
        TWIN(GREATER_EQUAL_SCALAR, "greater_equal")
        TWIN(BITWISE_AND_SCALAR, "bitwise_and")
        TWIN(BITWISE_OR_SCALAR, "bitwise_or")
        TWIN(BITWISE_XOR_SCALAR, "bitwise_xor")
        TWIN(SHIFT_LEFT_SCALAR, "shift_left")
        TWIN(SHIFT_RIGHT_SCALAR, "shift_right")
#undef TWIN
    default:
        return NULL;
    }
}

/// Two operands of one dtype, or one and a scalar: the same kernel.
static kiln_status run_binary(kilni_exec *exec, const char *name)
{
    kiln_dtype dtype = exec->inputs[0].dtype;
    elementwise e = {.op = name, .scalar = true};
    kiln_status status = KILN_STATUS_OK;
    add_operand(&e, &exec->outputs[0], exec->outputs[0].dtype);
    add_operand(&e, &exec->inputs[0], dtype);
    e.value_bytes = (uint32_t)kiln_dtype_size(kilni_exec_compute(dtype));
    if (exec->record->n_inputs == 2) {
        add_operand(&e, &exec->inputs[1], dtype);
    } else {
        add_operand(&e, &exec->inputs[0], dtype);
        status = add_value(exec, &e, KILN_KEY_VALUE, false);
    }
    return status == KILN_STATUS_OK ? launch_elementwise(exec, &e) : status;
}

kiln_status kilni_exec_elementwise(kilni_exec *exec)
{
    kiln_op op = exec->record->op;
    elementwise e = {.op = kiln_op_info_of(op)->name};
    if (op == KILN_OP_CONTIGUOUS) {
        return kilni_exec_copy(exec, &exec->inputs[0], &exec->outputs[0]);
    }
    if (twin_of(op) != NULL) {
        return run_binary(exec, twin_of(op));
    }
    if (kiln_op_info_of(op)->signature == kiln_op_info_of(KILN_OP_ADD)->signature) {
        return run_binary(exec, e.op);
    }
    bool raw = op == KILN_OP_WHERE || op == KILN_OP_MASK_FILL;
    unsigned masks = kiln_op_info_of(op)->signature->mask_inputs;
    kiln_dtype result = exec->outputs[0].dtype;
    add_operand(&e, &exec->outputs[0], raw ? kilni_exec_raw(result) : result);
    for (unsigned i = 0; i < exec->record->n_inputs; i++) {
        kiln_dtype dtype = exec->inputs[i].dtype;
        bool as_is = !raw || (masks >> i & 1u) != 0;
        add_operand(&e, &exec->inputs[i], as_is ? dtype : kilni_exec_raw(dtype));
    }
    kiln_status status = add_values(exec, &e, raw);
    return status == KILN_STATUS_OK ? launch_elementwise(exec, &e) : status;
}

kiln_status kilni_exec_copy(kilni_exec *exec, const kiln_view *source, const kiln_view *target)
{
    kiln_dtype dtype = kilni_exec_raw(target->dtype);
    elementwise e = {.op = "contiguous"};
    kilni_exec_loops loops;
    kilni_exec_loops_init(&loops, target->dims, target->rank);
    kilni_exec_loops_add(&loops, target);
    kilni_exec_loops_add(&loops, source);
    kilni_exec_loops_merge(&loops, 0, NULL);
    if (kilni_exec_transposes(&loops)) {
        return kilni_exec_transpose(exec, &loops, dtype, source->buffer, target->buffer);
    }
    add_operand(&e, target, dtype);
    add_operand(&e, source, dtype);
    return launch_elementwise(exec, &e);
}

kiln_status kilni_exec_dense(kilni_exec *exec, const kiln_view *view, kiln_view *out_view)
{
    kiln_tensor_desc desc = {.dtype = view->dtype, .rank = (uint8_t)view->rank};
    if (kiln_view_is_contiguous(view)) {
        *out_view = *view;
        return KILN_STATUS_OK;
    }
    memcpy(desc.dims, view->dims, sizeof(desc.dims));
    kiln_view dense = kiln_view_dense(&desc, NULL);
    kiln_status status = kilni_exec_alloc(exec, kiln_desc_bytes(&desc), &dense.buffer);
    if (status == KILN_STATUS_OK) {
        status = kilni_exec_copy(exec, view, &dense);
    }
    *out_view = dense;
    return status;
}

kiln_status kilni_exec_dense_inputs(kilni_exec *exec, kiln_view *out_views)
{
    kiln_status status = KILN_STATUS_OK;
    for (unsigned i = 0; status == KILN_STATUS_OK && i < exec->record->n_inputs; i++) {
        status = kilni_exec_dense(exec, &exec->inputs[i], &out_views[i]);
    }
    return status;
}

kiln_status kilni_exec_cast(kilni_exec *exec, const kiln_view *source, const kiln_view *target)
{
    elementwise e = {.op = "cast"};
    add_operand(&e, target, target->dtype);
    add_operand(&e, source, source->dtype);
    return launch_elementwise(exec, &e);
}

kiln_status kilni_exec_fill(kilni_exec *exec, uint64_t value, const kiln_view *target)
{
    kiln_dtype dtype = kilni_exec_raw(target->dtype);
    elementwise e = {.op = "full", .values = {value}, .n_values = 1};
    e.value_bytes = (uint32_t)kiln_dtype_size(kilni_exec_compute(dtype));
    add_operand(&e, target, dtype);
    return launch_elementwise(exec, &e);
}
