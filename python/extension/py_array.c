// SPDX-License-Identifier: MIT OR Apache-2.0
// The type Array: a handle to a tensor, what it is asked for, and its single element as a number.
// Its memory is py_memory.c's, its arithmetic py_number.c's; the package adds methods in Python.

#include "py_kiln.h"

#include <string.h>

PyObject *kilni_py_array_new(kiln_tensor *take_tensor)
{
    kilni_py_array *made = PyObject_New(kilni_py_array, kilni_py.array_type);
    if (made == NULL) {
        kiln_release(take_tensor);
        return NULL;
    }
    made->tensor = take_tensor;
    made->capture = kilni_py_capture();
    made->weakrefs = NULL;
    return (PyObject *)made;
}

static void dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    kiln_tensor *tensor = kilni_py_tensor(self);
    if (((kilni_py_array *)self)->weakrefs != NULL) {
        PyObject_ClearWeakRefs(self);
    }
    PyObject_Free(self);
    Py_DECREF(type);
    KILNI_PY_DO(kiln_release(tensor));
}

// ---- what it is ----

static PyObject *get_shape(PyObject *self, void *unused)
{
    kiln_tensor *tensor = kilni_py_tensor(self);
    size_t rank = kiln_tensor_rank(tensor);
    const int64_t *dims = kiln_tensor_dims(tensor);
    PyObject *shape = PyTuple_New((Py_ssize_t)rank);
    (void)unused;
    for (size_t i = 0; shape != NULL && i < rank; i++) {
        PyObject *length = PyLong_FromLongLong(dims[i]);
        if (length == NULL || PyTuple_SetItem(shape, (Py_ssize_t)i, length) < 0) {
            Py_CLEAR(shape);
        }
    }
    return shape;
}

static PyObject *get_ndim(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(kiln_tensor_rank(kilni_py_tensor(self)));
}

static PyObject *get_size(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLongLong(kiln_tensor_count(kilni_py_tensor(self)));
}

static PyObject *get_nbytes(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(kiln_tensor_bytes(kilni_py_tensor(self)));
}

static PyObject *get_dtype(PyObject *self, void *unused)
{
    (void)unused;
    return Py_NewRef(kilni_py.dtypes[kiln_tensor_dtype(kilni_py_tensor(self))]);
}

static PyObject *get_device(PyObject *self, void *unused)
{
    (void)unused;
    return kilni_py_device_new(kiln_device_retain(kiln_tensor_device(kilni_py_tensor(self))));
}

static PyObject *get_capture(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(((kilni_py_array *)self)->capture);
}

static PyObject *get_id(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromVoidPtr(kilni_py_tensor(self));
}

static Py_ssize_t length(PyObject *self)
{
    kiln_tensor *tensor = kilni_py_tensor(self);
    if (kiln_tensor_rank(tensor) == 0) {
        PyErr_SetString(PyExc_TypeError, "an array of rank 0 has no length");
        return -1;
    }
    return (Py_ssize_t)kiln_tensor_dims(tensor)[0];
}

// ---- its only element ----

typedef union element {
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    int8_t i8;
    int16_t i16;
    int32_t i32;
    int64_t i64;
    float f32;
    double f64;
} element;

static PyObject *number_of(const element *value, kiln_dtype dtype)
{
    switch (dtype) {
    case KILN_DTYPE_BOOL:
        return PyBool_FromLong(value->u8);
    case KILN_DTYPE_U8:
        return PyLong_FromLong(value->u8);
    case KILN_DTYPE_U16:
        return PyLong_FromLong(value->u16);
    case KILN_DTYPE_U32:
        return PyLong_FromUnsignedLong(value->u32);
    case KILN_DTYPE_U64:
        return PyLong_FromUnsignedLongLong(value->u64);
    case KILN_DTYPE_I8:
        return PyLong_FromLong(value->i8);
    case KILN_DTYPE_I16:
        return PyLong_FromLong(value->i16);
    case KILN_DTYPE_I32:
        return PyLong_FromLong(value->i32);
    case KILN_DTYPE_I64:
        return PyLong_FromLongLong(value->i64);
    case KILN_DTYPE_F16:
        return PyFloat_FromDouble((double)kiln_f16_to_f32(value->u16));
    case KILN_DTYPE_BF16:
        return PyFloat_FromDouble((double)kiln_bf16_to_f32(value->u16));
    case KILN_DTYPE_F32:
        return PyFloat_FromDouble((double)value->f32);
    case KILN_DTYPE_F64:
        return PyFloat_FromDouble(value->f64);
    default:
        if (kiln_dtype_kind_of(dtype) == KILN_KIND_SMALL) {
            return PyFloat_FromDouble((double)kiln_small_to_f32(dtype, value->u8));
        }
        return PyErr_Format(PyExc_TypeError, "an element of dtype %s is no number by itself",
                            kilni_py_dtype_name(dtype));
    }
}

PyObject *kilni_py_array_item(PyObject *self, PyObject *nothing)
{
    kiln_tensor *tensor = kilni_py_tensor(self);
    kiln_dtype dtype = kiln_tensor_dtype(tensor);
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    element value = {.u64 = 0};
    (void)nothing;
    if (kiln_tensor_count(tensor) != 1) {
        return PyErr_Format(PyExc_ValueError, "an array of %lld elements is no single number",
                            (long long)kiln_tensor_count(tensor));
    }
    size_t bytes = kiln_tensor_bytes(tensor);
    if (bytes > sizeof(value)) {
        return number_of(&value, dtype);
    }
    KILNI_PY_CALL_WITH(status, &err, &tensor, 1, kiln_read(tensor, &value, bytes, &err));
    return status == KILN_STATUS_OK ? number_of(&value, dtype) : kilni_py_raise(&err);
}

static PyObject *bits_as(PyObject *self, PyObject *object)
{
    kiln_tensor *tensor = kilni_py_tensor(self), *made = NULL;
    kiln_dtype dtype = kilni_py_dtype_of(object, NULL);
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    if (dtype == KILN_DTYPE_NONE) {
        return NULL;
    }
    KILNI_PY_CALL_WITH(status, &err, &tensor, 1, kiln_bits_as(tensor, dtype, &made, &err));
    return status == KILN_STATUS_OK ? kilni_py_array_new(made) : kilni_py_raise(&err);
}

static PyObject *to_device(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"device", "stream", NULL};
    PyObject *object = NULL, *stream = NULL, *owner = NULL;
    kiln_tensor *made = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|$O:to_device", names, &object, &stream)) {
        return NULL;
    }
    kiln_device *device = kilni_py_device_of(object, &owner);
    kiln_tensor *tensor = kilni_py_tensor(self);
    if (device == NULL) {
        return NULL;
    }
    KILNI_PY_CALL_WITH(status, &err, &tensor, 1, kiln_to_device(tensor, device, &made, &err));
    Py_DECREF(owner);
    return status == KILN_STATUS_OK ? kilni_py_array_new(made) : kilni_py_raise(&err);
}

/// Indices of what is not 0 as [count, rank]; waits for the count.
static PyObject *find_nonzero(PyObject *self, PyObject *nothing)
{
    kiln_tensor *tensor = kilni_py_tensor(self), *made = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    (void)nothing;
    KILNI_PY_CALL_WITH(status, &err, &tensor, 1, kiln_nonzero(tensor, &made, &err));
    return status == KILN_STATUS_OK ? kilni_py_array_new(made) : kilni_py_raise(&err);
}

/// Puts the value of another array of the same shape and dtype behind this handle.
static PyObject *replace(PyObject *self, PyObject *other)
{
    if (!kilni_py_is_array(other)) {
        return PyErr_Format(PyExc_TypeError, "expected an array");
    }
    kiln_tensor *old = kilni_py_tensor(self);
    ((kilni_py_array *)self)->tensor = kiln_retain(kilni_py_tensor(other));
    ((kilni_py_array *)self)->capture = ((kilni_py_array *)other)->capture;
    KILNI_PY_DO(kiln_release(old));
    Py_RETURN_NONE;
}

// ---- the type ----

static PyMethodDef methods[] = {
    {"item", kilni_py_array_item, METH_NOARGS,
     "item($self, /)\n--\n\nThe only element as a Python number. Waits for it."},
    {"to_device", (PyCFunction)(void (*)(void))to_device, METH_VARARGS | METH_KEYWORDS,
     "to_device($self, device, /, *, stream=None)\n--\n\nThe array on another device, of whatever "
     "platform. Returns at once."},
    {"_dlpack", kilni_py_dlpack, METH_VARARGS, NULL},
    {"bits_as", bits_as, METH_O,
     "bits_as(dtype, /)\n--\n\nThe same bits under another dtype, without a copy: uint8 and the "
     "floats "
     "of 8 bits\nand fewer. astype gives the same numbers."},
    {"_nonzero", find_nonzero, METH_NOARGS, NULL},
    {"_replace", replace, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"shape", get_shape, NULL, "length of each axis", NULL},
    {"ndim", get_ndim, NULL, "number of axes", NULL},
    {"size", get_size, NULL, "number of elements", NULL},
    {"nbytes", get_nbytes, NULL, "bytes of all elements", NULL},
    {"dtype", get_dtype, NULL, "element type", NULL},
    {"device", get_device, NULL, "device that the array is on", NULL},
    {"_capture", get_capture, NULL, NULL, NULL},
    {"_id", get_id, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(kilni_py_array, weakrefs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot own_slots[] = {
    {Py_tp_dealloc, (void *)dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_members, members},
    {Py_mp_length, (void *)length},
    {Py_bf_getbuffer, (void *)kilni_py_getbuffer},
    {Py_bf_releasebuffer, (void *)kilni_py_releasebuffer},
    {Py_tp_doc,
     "A value on a device. kiln.asarray makes one of other arrays and lists, operators and "
     "functions "
     "make others.\nThey are computed when somebody looks: numpy.asarray(x), float(x), print(x)."},
    {0, NULL},
};

int kilni_py_array_init(PyObject *module)
{
    PyType_Slot slots[96];
    size_t count = 0;
    for (const PyType_Slot *from = own_slots; from->slot != 0; from++) {
        slots[count++] = *from;
    }
    for (const PyType_Slot *from = kilni_py_number_slots; from->slot != 0; from++) {
        slots[count++] = *from;
    }
    slots[count] = (PyType_Slot){0, NULL};
    PyType_Spec spec = {
        .name = "kiln.Array",
        .basicsize = sizeof(kilni_py_array),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
        .slots = slots,
    };
    kilni_py.array_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return kilni_py.array_type == NULL
               ? -1
               : PyModule_AddObjectRef(module, "Array", (PyObject *)kilni_py.array_type);
}
