// SPDX-License-Identifier: MIT OR Apache-2.0
// Operators as functions, all by one: it reads the operator's row of the table, so that a new row
// needs nothing here. Decides which dtype the inputs get; py_number.c has Python's operators.

#include "py_kiln.h"

#include <stdio.h>
#include <string.h>

enum { LIST_ROOM = 64, DEVICE_PLACE = KILN_MAX_NAMED_INPUTS + KILN_MAX_ATTRS, PLACES };

/// One call while it is put together.
typedef struct call {
    const kiln_op_info *info;
    kiln_op op;
    size_t n_inputs; ///< given, absent ones in between included
    PyObject *inputs[KILN_MAX_INPUTS]; ///< borrowed; NULL: absent
    PyObject *arrays[KILN_MAX_INPUTS]; ///< held
    kiln_device *device; ///< of the inputs, or of a creation
    PyObject *device_owner; ///< held
    kiln_attr attrs[KILN_MAX_ATTRS];
    union {
        int64_t ints[LIST_ROOM];
        double floats[LIST_ROOM];
    } lists[KILN_MAX_ATTRS];
} call;

static kiln_op scalar_forms[KILN_OP_COUNT]; ///< of `add` add_scalar; KILN_OP_COUNT: none

static bool is_variadic(const kiln_op_signature *signature)
{
    return signature->max_inputs == KILN_MAX_INPUTS;
}

static bool is_filled_in(kiln_attr_key key)
{
    return key == KILN_KEY_SEED || key == KILN_KEY_STREAM || key == KILN_KEY_POSITION;
}

static bool is_number(PyObject *object)
{
    return PyFloat_Check(object) || PyLong_Check(object); // bool is an int
}

/// Whether input `i` is one of those that share a dtype.
static bool is_data(const kiln_op_signature *signature, size_t i)
{
    unsigned others = (unsigned)signature->mask_inputs | signature->index_inputs |
                      signature->free_inputs | signature->quant_inputs;
    return is_variadic(signature) || (others >> i & 1u) == 0;
}

// ---- recording ----

static PyObject *results_of(kiln_tensor **made, size_t count)
{
    if (count == 1) {
        return kilni_py_array_new(made[0]);
    }
    PyObject *list = kilni_py_list_of(made, count);
    PyObject *tuple = list != NULL ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return tuple;
}

static PyObject *record(kiln_device *device, kiln_op op, kiln_tensor *const *inputs,
                        size_t n_inputs, const kiln_attr *attrs)
{
    const kiln_op_info *info = kiln_op_info_of(op);
    kiln_tensor *made[KILN_MAX_OUTPUTS] = {NULL};
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    KILNI_PY_CALL_WITH(
        status, &err, inputs, n_inputs,
        kiln_record(device, op, inputs, n_inputs, attrs, info->signature->n_attrs, made, &err));
    return status == KILN_STATUS_OK ? results_of(made, info->n_outputs) : kilni_py_raise(&err);
}

static PyObject *cast(PyObject *array, kiln_dtype dtype)
{
    kiln_tensor *tensor = kilni_py_tensor(array);
    const kiln_attr attr = {.type = KILN_ATTR_DTYPE, .count = 1, .v.i = (int64_t)dtype};
    if (kiln_tensor_dtype(tensor) == dtype) {
        return Py_NewRef(array);
    }
    return record(NULL, KILN_OP_CAST, &tensor, 1, &attr);
}

/// Whether a Python number is an integer above those of attributes, in the upper half of uint64.
static bool is_upper(PyObject *number, uint64_t *out_value)
{
    *out_value = PyLong_Check(number) ? PyLong_AsUnsignedLongLong(number) : 0;
    bool outside = PyErr_Occurred() != NULL; // below 0 or above all
    PyErr_Clear();
    return !outside && *out_value > INT64_MAX;
}

/// A number attribute of a Python number for data of `dtype`. -1: failed.
static int number_of(PyObject *object, kiln_dtype dtype, kiln_attr *out_attr)
{
    if (PyFloat_Check(object)) {
        *out_attr = (kiln_attr){.type = KILN_ATTR_F64, .count = 1, .v.f = PyFloat_AsDouble(object)};
        return 0;
    }
    *out_attr = (kiln_attr){.type = KILN_ATTR_I64, .count = 1, .v.i = PyLong_AsLongLong(object)};
    if (out_attr->v.i != -1 || !PyErr_Occurred()) {
        return 0;
    }
    PyErr_Clear();
    if (kiln_dtype_kind_of(dtype) == KILN_KIND_FLOAT) {
        *out_attr = (kiln_attr){.type = KILN_ATTR_F64, .count = 1, .v.f = PyLong_AsDouble(object)};
        return PyErr_Occurred() ? -1 : 0;
    }
    PyErr_Format(PyExc_OverflowError, "%R is not a value of %s", object,
                 kilni_py_dtype_name(dtype != KILN_DTYPE_NONE ? dtype : KILN_DTYPE_I64));
    return -1;
}

/// A value of rank 0.
static PyObject *scalar(kiln_device *device, PyObject *number, kiln_dtype dtype)
{
    kiln_attr attrs[3] = {{.type = KILN_ATTR_I64_LIST},
                          {.type = KILN_ATTR_DTYPE, .count = 1, .v.i = (int64_t)dtype}};
    static const int64_t no_dims[1] = {0};
    uint64_t value = 0;
    attrs[0].v.ints = no_dims;
    if (dtype == KILN_DTYPE_U64 && is_upper(number, &value)) {
        return kilni_py_create(device, dtype, 0, NULL, &value);
    }
    if (number_of(number, dtype, &attrs[2]) < 0) {
        return NULL;
    }
    return record(device, KILN_OP_FULL, NULL, 0, attrs);
}

PyObject *kilni_py_as_array(PyObject *object)
{
    if (kilni_py_is_array(object)) {
        return Py_NewRef(object);
    }
    return PyObject_CallFunctionObjArgs(kilni_py.convert, object, NULL);
}

// ---- dtypes of the inputs ----

/// What a Python number makes of a dtype, which is NONE when no array has been seen.
static kiln_dtype promote_number(kiln_dtype dtype, PyObject *number, const kiln_device *device)
{
    kiln_dtype_kind kind = kiln_dtype_kind_of(dtype);
    if (PyBool_Check(number)) {
        return dtype == KILN_DTYPE_NONE ? KILN_DTYPE_BOOL : dtype;
    }
    if (PyFloat_Check(number)) {
        return kind == KILN_KIND_FLOAT ? dtype : kiln_device_default_dtype(device, KILN_KIND_FLOAT);
    }
    return kind == KILN_KIND_NONE || kind == KILN_KIND_BOOL
               ? kiln_device_default_dtype(device, KILN_KIND_INT)
               : dtype;
}

/// The dtype in which the row takes data of `dtype`.
static kiln_dtype accepted(const call *self, kiln_dtype dtype)
{
    kiln_dtype_kind kind = kiln_dtype_kind_of(dtype);
    kiln_accept accept = self->info->accept;
    if (((unsigned)accept & (unsigned)kind) != 0 || kind == KILN_KIND_QUANT ||
        kind == KILN_KIND_SMALL) {
        return dtype; // of the last two recording says what is wrong
    }
    if (accept == KILN_ACCEPT_LOGIC) {
        return KILN_DTYPE_BOOL;
    }
    if (kind == KILN_KIND_BOOL && ((unsigned)accept & (unsigned)KILN_KIND_INT) != 0) {
        bool compares = self->info->result == KILN_RESULT_BOOL;
        return compares ? KILN_DTYPE_U8 : kiln_device_default_dtype(self->device, KILN_KIND_INT);
    }
    if (accept == KILN_ACCEPT_FLOAT) {
        return kiln_device_default_dtype(self->device, KILN_KIND_FLOAT);
    }
    return dtype; // recording says what is wrong
}

static PyObject *no_common(PyObject *a, kiln_dtype b)
{
    return PyErr_Format(PyExc_TypeError, "no dtype holds both %s and %s; cast one with astype",
                        kilni_py_dtype_name(kiln_tensor_dtype(kilni_py_tensor(a))),
                        kilni_py_dtype_name(b));
}

/// Makes arrays of all inputs but numbers, and finds the device. -1: failed.
static int take_arrays(call *self)
{
    for (size_t i = 0; i < self->n_inputs; i++) {
        PyObject *input = self->inputs[i];
        if (input == NULL || (is_number(input) && is_data(self->info->signature, i))) {
            continue;
        }
        self->arrays[i] = kilni_py_as_array(input);
        if (self->arrays[i] == NULL) {
            return -1;
        }
        if (!kilni_py_is_array(self->arrays[i])) {
            PyErr_Format(PyExc_TypeError, "%R is no array", input);
            return -1;
        }
        if (self->device == NULL) {
            self->device = kiln_tensor_device(kilni_py_tensor(self->arrays[i]));
        }
    }
    if (self->device == NULL) {
        self->device = kilni_py_device_of(Py_None, &self->device_owner);
    }
    return self->device != NULL ? 0 : -1;
}

/// The dtype that all data inputs get; NONE: failed, or there are none.
static kiln_dtype common_dtype(const call *self)
{
    kiln_dtype dtype = KILN_DTYPE_NONE;
    for (size_t i = 0; i < self->n_inputs; i++) {
        if (self->arrays[i] != NULL && is_data(self->info->signature, i)) {
            kiln_dtype own = kiln_tensor_dtype(kilni_py_tensor(self->arrays[i]));
            kiln_dtype both = dtype == KILN_DTYPE_NONE ? own : kilni_py_promote(dtype, own);
            if (both == KILN_DTYPE_NONE) {
                no_common(self->arrays[i], dtype);
                return KILN_DTYPE_NONE;
            }
            dtype = both;
        }
    }
    for (size_t i = 0; i < self->n_inputs; i++) {
        if (self->arrays[i] == NULL && self->inputs[i] != NULL) {
            dtype = promote_number(dtype, self->inputs[i], self->device);
        }
    }
    return dtype == KILN_DTYPE_NONE ? dtype : accepted(self, dtype);
}

static int replace(PyObject **place, PyObject *take_array)
{
    if (take_array == NULL) {
        return -1;
    }
    Py_XDECREF(*place);
    *place = take_array;
    return 0;
}

/// Stands for an input that is absent before one that is there.
static int stand_in(call *self, size_t i, kiln_dtype dtype)
{
    const kiln_op_signature *signature = self->info->signature;
    kiln_dtype own = (signature->mask_inputs >> i & 1u) != 0    ? KILN_DTYPE_BOOL
                     : (signature->index_inputs >> i & 1u) != 0 ? KILN_DTYPE_I64
                                                                : dtype;
    return replace(&self->arrays[i], scalar(self->device, Py_False, own));
}

static int cast_inputs(call *self, kiln_dtype dtype)
{
    const kiln_op_signature *signature = self->info->signature;
    for (size_t i = 0; i < self->n_inputs; i++) {
        PyObject *array = self->arrays[i];
        int failed = 0;
        if (self->inputs[i] == NULL) {
            failed = stand_in(self, i, dtype);
        } else if (is_data(signature, i)) {
            failed = replace(&self->arrays[i], array != NULL
                                                   ? cast(array, dtype)
                                                   : scalar(self->device, self->inputs[i], dtype));
        } else if ((signature->mask_inputs >> i & 1u) != 0) {
            failed = replace(&self->arrays[i], cast(array, KILN_DTYPE_BOOL));
        } else if ((signature->index_inputs >> i & 1u) != 0 &&
                   kiln_tensor_dtype(kilni_py_tensor(array)) != KILN_DTYPE_I32) {
            failed = replace(&self->arrays[i], cast(array, KILN_DTYPE_I64));
        }
        if (failed < 0) {
            return -1;
        }
    }
    return 0;
}

/// x + 2 and its like, without an array for the 2. NULL without an exception: not such a call.
static PyObject *record_scalar(const call *self, kiln_dtype dtype)
{
    kiln_attr attr;
    uint64_t value = 0;
    if (self->n_inputs != 2 || self->arrays[0] == NULL || self->arrays[1] != NULL ||
        scalar_forms[self->op] == KILN_OP_COUNT ||
        (dtype == KILN_DTYPE_U64 && is_upper(self->inputs[1], &value)) ||
        number_of(self->inputs[1], dtype, &attr) < 0) {
        return NULL;
    }
    PyObject *array = cast(self->arrays[0], dtype);
    if (array == NULL) {
        return NULL;
    }
    kiln_tensor *tensor = kilni_py_tensor(array);
    PyObject *made = record(NULL, scalar_forms[self->op], &tensor, 1, &attr);
    Py_DECREF(array);
    return made;
}

static PyObject *record_call(call *self)
{
    kiln_tensor *tensors[KILN_MAX_INPUTS];
    if (self->n_inputs > 0) {
        if (take_arrays(self) < 0) {
            return NULL;
        }
        kiln_dtype dtype = common_dtype(self);
        PyObject *made = dtype != KILN_DTYPE_NONE ? record_scalar(self, dtype) : NULL;
        if (made != NULL || PyErr_Occurred() || cast_inputs(self, dtype) < 0) {
            return made;
        }
    }
    for (size_t i = 0; i < self->n_inputs; i++) {
        tensors[i] = kilni_py_tensor(self->arrays[i]);
    }
    return record(self->n_inputs > 0 ? NULL : self->device, self->op, tensors, self->n_inputs,
                  self->attrs);
}

static void end(call *self)
{
    for (size_t i = 0; i < self->n_inputs; i++) {
        Py_XDECREF(self->arrays[i]);
    }
    Py_XDECREF(self->device_owner);
}

PyObject *kilni_py_operate(kiln_op op, PyObject *const *inputs, size_t n_inputs)
{
    call self;
    self.info = kiln_op_info_of(op);
    self.op = op;
    self.n_inputs = n_inputs;
    self.device = NULL;
    self.device_owner = NULL;
    for (size_t i = 0; i < n_inputs; i++) {
        self.inputs[i] = inputs[i];
        self.arrays[i] = NULL;
    }
    for (size_t i = 0; i < self.info->signature->n_attrs; i++) {
        self.attrs[i] = (kiln_attr){.type = KILN_ATTR_NONE};
    }
    PyObject *made = record_call(&self);
    end(&self);
    return made;
}

// ---- arguments ----

int kilni_py_ints(PyObject *object, const char *what, int64_t *out_values, size_t capacity,
                  size_t *out_count)
{
    if (PyIndex_Check(object)) {
        PyObject *number = PyNumber_Index(object);
        *out_values = number != NULL ? PyLong_AsLongLong(number) : -1;
        *out_count = 1;
        Py_XDECREF(number);
        return PyErr_Occurred() ? -1 : 0;
    }
    Py_ssize_t count = PySequence_Size(object);
    if (count < 0 || (size_t)count > capacity) {
        PyErr_Format(PyExc_TypeError, "%s is an int or a sequence of up to %zu, not %R", what,
                     capacity, object);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PySequence_GetItem(object, i);
        PyObject *number = item != NULL ? PyNumber_Index(item) : NULL;
        out_values[i] = number != NULL ? PyLong_AsLongLong(number) : -1;
        Py_XDECREF(item);
        Py_XDECREF(number);
        if (out_values[i] == -1 && PyErr_Occurred()) {
            return -1;
        }
    }
    *out_count = (size_t)count;
    return 0;
}

static int floats_of(PyObject *object, const char *what, double *out_values, size_t *out_count)
{
    Py_ssize_t count = PySequence_Size(object);
    if (count < 0 || count > LIST_ROOM) {
        PyErr_Format(PyExc_TypeError, "%s is a sequence of up to %d numbers, not %R", what,
                     LIST_ROOM, object);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PySequence_GetItem(object, i);
        out_values[i] = item != NULL ? PyFloat_AsDouble(item) : -1;
        Py_XDECREF(item);
        if (out_values[i] == -1 && PyErr_Occurred()) {
            return -1;
        }
    }
    *out_count = (size_t)count;
    return 0;
}

static int i64_of(PyObject *object, kiln_attr *attr)
{
    PyObject *number = PyNumber_Index(object);
    attr->v.i = number != NULL ? PyLong_AsLongLong(number) : -1;
    Py_XDECREF(number);
    return attr->v.i == -1 && PyErr_Occurred() ? -1 : 0;
}

/// Turns an argument into the attribute `i`. -1: failed.
static int attr_of(call *self, size_t i, PyObject *object)
{
    const kiln_attr_spec *spec = &self->info->signature->attrs[i];
    kiln_attr *attr = &self->attrs[i];
    const char *what = kiln_attr_name(spec->key);
    size_t count = 1;
    Py_ssize_t length = 0;
    int truth = 0;
    attr->type = kiln_attr_type_of(spec->key);
    switch (attr->type) {
    case KILN_ATTR_I64:
        if (i64_of(object, attr) < 0) {
            return -1;
        }
        break;
    case KILN_ATTR_F64:
        attr->v.f = PyFloat_AsDouble(object);
        if (attr->v.f == -1 && PyErr_Occurred()) {
            return -1;
        }
        break;
    case KILN_ATTR_BOOL:
        truth = PyObject_IsTrue(object);
        attr->v.i = truth;
        if (truth < 0) {
            return -1;
        }
        break;
    case KILN_ATTR_DTYPE:
        attr->v.i = (int64_t)kilni_py_dtype_of(object, self->device);
        if (attr->v.i == KILN_DTYPE_NONE) {
            return -1;
        }
        break;
    case KILN_ATTR_I64_LIST:
        attr->v.ints = self->lists[i].ints;
        if (kilni_py_ints(object, what, self->lists[i].ints, LIST_ROOM, &count) < 0) {
            return -1;
        }
        break;
    case KILN_ATTR_F64_LIST:
        attr->v.floats = self->lists[i].floats;
        if (floats_of(object, what, self->lists[i].floats, &count) < 0) {
            return -1;
        }
        break;
    case KILN_ATTR_STRING:
        attr->v.text = PyUnicode_AsUTF8AndSize(object, &length);
        count = (size_t)length;
        if (attr->v.text == NULL) {
            return -1;
        }
        break;
    default:
        if (!is_number(object)) {
            PyErr_Format(PyExc_TypeError, "%s of %s is an int or a float, not %R", what,
                         self->info->name, object);
            return -1;
        }
        return number_of(object, KILN_DTYPE_NONE, attr);
    }
    attr->count = (uint32_t)count;
    return 0;
}

/// Whether an argument is named so, or with an underscore behind it, as words of Python are.
static bool is_named(PyObject *name, const char *wanted)
{
    char with_underscore[64];
    snprintf(with_underscore, sizeof(with_underscore), "%s_", wanted);
    return PyUnicode_CompareWithASCIIString(name, wanted) == 0 ||
           PyUnicode_CompareWithASCIIString(name, with_underscore) == 0;
}

/// Places are inputs, then attributes, then the device; gives the place of a name, -1 for none.
static int place_of(const kiln_op_signature *signature, PyObject *name)
{
    size_t named = is_variadic(signature) ? 1 : signature->max_inputs;
    for (size_t i = 0; i < named; i++) {
        if (is_named(name, signature->inputs[i])) {
            return (int)i;
        }
    }
    for (size_t i = 0; i < signature->n_attrs; i++) {
        if (!is_filled_in(signature->attrs[i].key) &&
            is_named(name, kiln_attr_name(signature->attrs[i].key))) {
            return KILN_MAX_NAMED_INPUTS + (int)i;
        }
    }
    return named == 0 && is_named(name, "device") ? DEVICE_PLACE : -1;
}

/// Sorts arguments into `places`. -1: failed.
static int sort_arguments(const kiln_op_info *info, PyObject *const *args, Py_ssize_t n_args,
                          PyObject *names, PyObject **places)
{
    const kiln_op_signature *signature = info->signature;
    size_t named = is_variadic(signature) ? 1 : signature->max_inputs;
    size_t next = named > 0 ? 0 : KILN_MAX_NAMED_INPUTS;
    for (Py_ssize_t i = 0; i < n_args; i++) {
        next = next == named ? KILN_MAX_NAMED_INPUTS : next;
        while (next >= KILN_MAX_NAMED_INPUTS && next < DEVICE_PLACE &&
               next - KILN_MAX_NAMED_INPUTS < signature->n_attrs &&
               is_filled_in(signature->attrs[next - KILN_MAX_NAMED_INPUTS].key)) {
            next++;
        }
        if (next >= KILN_MAX_NAMED_INPUTS + (size_t)signature->n_attrs) {
            PyErr_Format(PyExc_TypeError, "%s takes fewer than %zd positional arguments",
                         info->name, n_args);
            return -1;
        }
        places[next++] = args[i] == Py_None ? NULL : args[i];
    }
    Py_ssize_t n_names = names != NULL ? PyTuple_Size(names) : 0;
    for (Py_ssize_t i = 0; i < n_names; i++) {
        PyObject *name = PyTuple_GetItem(names, i);
        int place = place_of(signature, name);
        if (place < 0 || places[place] != NULL) {
            PyErr_Format(PyExc_TypeError,
                         place < 0 ? "%s has no argument '%U'" : "%s got argument '%U' twice",
                         info->name, name);
            return -1;
        }
        places[place] = args[n_args + i] == Py_None ? NULL : args[n_args + i];
    }
    return 0;
}

static int missing(const kiln_op_info *info, const char *name)
{
    PyErr_Format(PyExc_TypeError, "%s needs '%s'", info->name, name);
    return -1;
}

/// Spreads the first argument of an operator with any number of inputs. `*out_list` is held.
static int spread_inputs(call *self, PyObject *sequence, PyObject **out_list)
{
    if (sequence == NULL) {
        return missing(self->info, self->info->signature->inputs[0]);
    }
    *out_list = PySequence_List(sequence);
    Py_ssize_t count = *out_list != NULL ? PyList_Size(*out_list) : -1;
    if (count > KILN_MAX_INPUTS) {
        PyErr_Format(PyExc_ValueError, "%s takes up to %d arrays", self->info->name,
                     KILN_MAX_INPUTS);
        count = -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        self->inputs[i] = PyList_GetItem(*out_list, i);
        self->arrays[i] = NULL;
    }
    self->n_inputs = count > 0 ? (size_t)count : 0;
    return count < 0 ? -1 : 0;
}

static int take_inputs(call *self, PyObject *const *places)
{
    const kiln_op_signature *signature = self->info->signature;
    for (size_t i = 0; i < signature->max_inputs; i++) {
        if (places[i] == NULL && i < signature->min_inputs) {
            return missing(self->info, signature->inputs[i]);
        }
        self->inputs[i] = places[i];
        self->arrays[i] = NULL;
        self->n_inputs = places[i] != NULL ? i + 1 : self->n_inputs;
    }
    return 0;
}

static int take_attrs(call *self, PyObject *const *places)
{
    const kiln_op_signature *signature = self->info->signature;
    for (size_t i = 0; i < signature->n_attrs; i++) {
        const kiln_attr_spec *spec = &signature->attrs[i];
        PyObject *object = places[KILN_MAX_NAMED_INPUTS + i];
        bool open = spec->optional || is_filled_in(spec->key) ||
                    (signature->max_inputs == 0 && spec->key == KILN_KEY_DTYPE);
        self->attrs[i] = (kiln_attr){.type = KILN_ATTR_NONE};
        if (object == NULL && !open) {
            return missing(self->info, kiln_attr_name(spec->key));
        }
        if (object != NULL && attr_of(self, i, object) < 0) {
            return -1;
        }
    }
    return 0;
}

static PyObject *call_operator(PyObject *number, PyObject *const *args, Py_ssize_t n_args,
                               PyObject *names)
{
    PyObject *places[PLACES] = {NULL};
    PyObject *list = NULL, *made = NULL;
    call self;
    self.op = (kiln_op)PyLong_AsLong(number);
    self.info = kiln_op_info_of(self.op);
    self.n_inputs = 0;
    self.device = NULL;
    self.device_owner = NULL;
    if (sort_arguments(self.info, args, n_args, names, places) < 0) {
        return NULL;
    }
    if (self.info->signature->max_inputs == 0) {
        self.device = kilni_py_device_of(places[DEVICE_PLACE], &self.device_owner);
        if (self.device == NULL) {
            return NULL;
        }
    }
    int failed = is_variadic(self.info->signature) ? spread_inputs(&self, places[0], &list)
                                                   : take_inputs(&self, places);
    if (failed == 0 && take_attrs(&self, places) == 0) {
        made = record_call(&self);
    }
    end(&self);
    Py_XDECREF(list);
    return made;
}

// ---- the functions ----

static struct {
    kiln_op op;
    PyMethodDef method;
} rows[] = {
#define KILN_PYTHON(id, name, doc)                                                                 \
    {KILN_OP_##id,                                                                                 \
     {name, (PyCFunction)(void (*)(void))call_operator, METH_FASTCALL | METH_KEYWORDS, doc}},
#include "kiln_python_ops.def"
#undef KILN_PYTHON
};

static void find_scalar_forms(void)
{
    for (int op = 0; op < KILN_OP_COUNT; op++) {
        const kiln_op_info *info = kiln_op_info_of((kiln_op)op);
        char name[64];
        snprintf(name, sizeof(name), "%s_scalar", info->name);
        scalar_forms[op] =
            info->signature->max_inputs == 2 ? kiln_op_from_name(name) : KILN_OP_COUNT;
    }
    scalar_forms[KILN_OP_MAXIMUM] = KILN_OP_CLAMP_MIN;
    scalar_forms[KILN_OP_MINIMUM] = KILN_OP_CLAMP_MAX;
}

int kilni_py_operator_init(PyObject *module)
{
    PyObject *functions = PyDict_New();
    int failed = functions == NULL ? -1 : 0;
    find_scalar_forms();
    for (size_t i = 0; failed == 0 && i < sizeof(rows) / sizeof(rows[0]); i++) {
        PyObject *number = PyLong_FromLong((long)rows[i].op);
        PyObject *name = PyUnicode_FromString("kiln.ops");
        PyObject *function =
            number != NULL ? PyCFunction_NewEx(&rows[i].method, number, name) : NULL;
        failed = function == NULL
                     ? -1
                     : PyDict_SetItemString(functions, rows[i].method.ml_name, function);
        Py_XDECREF(function);
        Py_XDECREF(name);
        Py_XDECREF(number);
    }
    failed = failed == 0 ? PyModule_AddObjectRef(module, "operators", functions) : failed;
    Py_XDECREF(functions);
    return failed;
}
