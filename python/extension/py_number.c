// SPDX-License-Identifier: MIT OR Apache-2.0
// Python's operators on arrays: which operator of the table each is. Two arrays of one dtype are
// recorded at once; all else goes through py_operator.c.

#include "py_kiln.h"

#include <string.h>

/// Numbers and whatever has elements; None, lists and texts are no operands.
static bool is_operand(PyObject *object)
{
    return kilni_py_is_array(object) || PyFloat_Check(object) || PyLong_Check(object) ||
           (PyObject_CheckBuffer(object) && !PyBytes_Check(object));
}

static bool is_bool(PyObject *object)
{
    return kilni_py_is_array(object) ? kiln_tensor_dtype(kilni_py_tensor(object)) == KILN_DTYPE_BOOL
                                     : PyBool_Check(object);
}

static PyObject *record_two(kiln_op op, kiln_tensor *a, kiln_tensor *b)
{
    kiln_tensor *const inputs[] = {a, b};
    static const kiln_attr absent[KILN_MAX_ATTRS]; // NONE is 0
    kiln_tensor *made = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    size_t n_attrs = kiln_op_info_of(op)->signature->n_attrs;
    KILNI_PY_CALL_WITH(status, &err, inputs, 2,
                       kiln_record(NULL, op, inputs, 2, absent, n_attrs, &made, &err));
    return status == KILN_STATUS_OK ? kilni_py_array_new(made) : kilni_py_raise(&err);
}

static PyObject *two(kiln_op op, PyObject *a, PyObject *b)
{
    if (kilni_py_is_array(a) && kilni_py_is_array(b)) {
        kiln_dtype dtype = kiln_tensor_dtype(kilni_py_tensor(a));
        if (dtype == kiln_tensor_dtype(kilni_py_tensor(b)) &&
            ((unsigned)kiln_op_info_of(op)->accept & (unsigned)kiln_dtype_kind_of(dtype)) != 0) {
            return record_two(op, kilni_py_tensor(a), kilni_py_tensor(b));
        }
    } else if (!is_operand(a) || !is_operand(b)) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    PyObject *const inputs[] = {a, b};
    return kilni_py_operate(op, inputs, 2);
}

static PyObject *add(PyObject *a, PyObject *b)
{
    return two(KILN_OP_ADD, a, b);
}

static PyObject *subtract(PyObject *a, PyObject *b)
{
    return two(KILN_OP_SUB, a, b);
}

static PyObject *multiply(PyObject *a, PyObject *b)
{
    return two(KILN_OP_MUL, a, b);
}

static PyObject *modulo(PyObject *a, PyObject *b)
{
    return two(KILN_OP_REM, a, b);
}

static PyObject *shift_left(PyObject *a, PyObject *b)
{
    return two(KILN_OP_SHIFT_LEFT, a, b);
}

static PyObject *shift_right(PyObject *a, PyObject *b)
{
    return two(KILN_OP_SHIFT_RIGHT, a, b);
}

static PyObject *multiply_matrices(PyObject *a, PyObject *b)
{
    return PyLong_Check(a) || PyFloat_Check(a) || PyLong_Check(b) || PyFloat_Check(b)
               ? PyErr_Format(PyExc_TypeError, "@ multiplies arrays, not numbers")
               : two(KILN_OP_MATMUL, a, b);
}

static PyObject *raise_to(PyObject *a, PyObject *b, PyObject *modulus)
{
    if (modulus != Py_None) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    return two(KILN_OP_POW, a, b);
}

/// Integers as floats: x / y is a true division.
static PyObject *floating(PyObject *object, bool *out_made)
{
    *out_made = false;
    if (!kilni_py_is_array(object)) {
        return object;
    }
    kiln_tensor *tensor = kilni_py_tensor(object);
    kiln_dtype_kind kind = kiln_dtype_kind_of(kiln_tensor_dtype(tensor));
    if (kind == KILN_KIND_FLOAT || kind == KILN_KIND_QUANT) {
        return object;
    }
    kiln_dtype dtype = kiln_device_default_dtype(kiln_tensor_device(tensor), KILN_KIND_FLOAT);
    kiln_tensor *made = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    KILNI_PY_CALL_WITH(status, &err, &tensor, 1, kiln_cast(tensor, dtype, &made, &err));
    *out_made = status == KILN_STATUS_OK;
    return status == KILN_STATUS_OK ? kilni_py_array_new(made) : kilni_py_raise(&err);
}

/// Of two integers both are cast; beside a float the other follows it.
static bool both_integers(PyObject *a, PyObject *b)
{
    PyObject *const operands[] = {a, b};
    for (size_t i = 0; i < 2; i++) {
        if (PyFloat_Check(operands[i]) ||
            (kilni_py_is_array(operands[i]) && kiln_dtype_kind_of(kiln_tensor_dtype(kilni_py_tensor(
                                                   operands[i]))) == KILN_KIND_FLOAT)) {
            return false;
        }
    }
    return true;
}

static PyObject *divide(PyObject *a, PyObject *b)
{
    bool made_x = false, made_y = false;
    if (!is_operand(a) || !is_operand(b)) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    PyObject *x = kilni_py_is_array(a) || PyLong_Check(a) || PyFloat_Check(a)
                      ? Py_NewRef(a)
                      : kilni_py_as_array(a);
    PyObject *y = kilni_py_is_array(b) || PyLong_Check(b) || PyFloat_Check(b)
                      ? Py_NewRef(b)
                      : kilni_py_as_array(b);
    PyObject *result = NULL;
    if (x != NULL && y != NULL && both_integers(x, y)) {
        PyObject *fx = floating(x, &made_x);
        PyObject *fy = fx != NULL ? floating(y, &made_y) : NULL;
        result = fy != NULL ? two(KILN_OP_DIV, fx, fy) : NULL;
        if (made_x) {
            Py_DECREF(fx);
        }
        if (made_y) {
            Py_DECREF(fy);
        }
    } else if (x != NULL && y != NULL) {
        result = two(KILN_OP_DIV, x, y);
    }
    Py_XDECREF(x);
    Py_XDECREF(y);
    return result;
}

static PyObject *bitwise_and(PyObject *a, PyObject *b)
{
    return two(is_bool(a) && is_bool(b) ? KILN_OP_LOGICAL_AND : KILN_OP_BITWISE_AND, a, b);
}

static PyObject *bitwise_or(PyObject *a, PyObject *b)
{
    return two(is_bool(a) && is_bool(b) ? KILN_OP_LOGICAL_OR : KILN_OP_BITWISE_OR, a, b);
}

static PyObject *bitwise_xor(PyObject *a, PyObject *b)
{
    return two(is_bool(a) && is_bool(b) ? KILN_OP_LOGICAL_XOR : KILN_OP_BITWISE_XOR, a, b);
}

// ---- one operand ----

static PyObject *negative(PyObject *self)
{
    return kilni_py_operate(KILN_OP_NEG, &self, 1);
}

static PyObject *positive(PyObject *self)
{
    return Py_NewRef(self);
}

static PyObject *absolute(PyObject *self)
{
    return kilni_py_operate(KILN_OP_ABS, &self, 1);
}

static PyObject *invert(PyObject *self)
{
    return kilni_py_operate(is_bool(self) ? KILN_OP_LOGICAL_NOT : KILN_OP_BITWISE_NOT, &self, 1);
}

static int truth(PyObject *self)
{
    PyObject *item = kilni_py_array_item(self, NULL);
    int result = item != NULL ? PyObject_IsTrue(item) : -1;
    if (item == NULL && kiln_tensor_count(kilni_py_tensor(self)) != 1) {
        PyErr_SetString(PyExc_ValueError, "the truth of an array with several elements is not one "
                                          "bool; use kiln.any or kiln.all");
    }
    Py_XDECREF(item);
    return result;
}

static PyObject *to_int(PyObject *self)
{
    PyObject *item = kilni_py_array_item(self, NULL);
    PyObject *result = item != NULL ? PyNumber_Long(item) : NULL;
    Py_XDECREF(item);
    return result;
}

static PyObject *to_float(PyObject *self)
{
    PyObject *item = kilni_py_array_item(self, NULL);
    PyObject *result = item != NULL ? PyNumber_Float(item) : NULL;
    Py_XDECREF(item);
    return result;
}

static PyObject *to_index(PyObject *self)
{
    kiln_tensor *tensor = kilni_py_tensor(self);
    if (((unsigned)kiln_dtype_kind_of(kiln_tensor_dtype(tensor)) & KILN_ACCEPT_INTEGER) == 0 ||
        kiln_tensor_rank(tensor) != 0) {
        return PyErr_Format(PyExc_TypeError, "only an integer array of rank 0 is an index");
    }
    return kilni_py_array_item(self, NULL);
}

static PyObject *compare(PyObject *a, PyObject *b, int how)
{
    static const kiln_op ops[] = {
        [Py_LT] = KILN_OP_LESS,      [Py_LE] = KILN_OP_LESS_EQUAL, [Py_EQ] = KILN_OP_EQUAL,
        [Py_NE] = KILN_OP_NOT_EQUAL, [Py_GT] = KILN_OP_GREATER,    [Py_GE] = KILN_OP_GREATER_EQUAL,
    };
    return two(ops[how], a, b);
}

PyType_Slot kilni_py_number_slots[] = {
    {Py_nb_add, (void *)add},
    {Py_nb_subtract, (void *)subtract},
    {Py_nb_multiply, (void *)multiply},
    {Py_nb_remainder, (void *)modulo},
    {Py_nb_true_divide, (void *)divide},
    {Py_nb_power, (void *)raise_to},
    {Py_nb_matrix_multiply, (void *)multiply_matrices},
    {Py_nb_lshift, (void *)shift_left},
    {Py_nb_rshift, (void *)shift_right},
    {Py_nb_and, (void *)bitwise_and},
    {Py_nb_or, (void *)bitwise_or},
    {Py_nb_xor, (void *)bitwise_xor},
    {Py_nb_negative, (void *)negative},
    {Py_nb_positive, (void *)positive},
    {Py_nb_absolute, (void *)absolute},
    {Py_nb_invert, (void *)invert},
    {Py_nb_bool, (void *)truth},
    {Py_nb_int, (void *)to_int},
    {Py_nb_float, (void *)to_float},
    {Py_nb_index, (void *)to_index},
    {Py_tp_richcompare, (void *)compare},
    {Py_tp_hash, (void *)PyObject_HashNotImplemented},
    {0, NULL},
};
