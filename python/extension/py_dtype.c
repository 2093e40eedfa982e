// SPDX-License-Identifier: MIT OR Apache-2.0
// Element types as objects, one for each: names, formats of buffers, and which dtype two of them
// become together.

#include "py_kiln.h"

#include <string.h>

typedef struct dtype_object {
    PyObject ob_base;
    kiln_dtype dtype;
} dtype_object;

static const struct {
    const char *name; ///< the array API's, where it has one
    const char *format; ///< of the buffer protocol
} facts[KILN_DTYPE_LIMIT] = {
    [KILN_DTYPE_BOOL] = {"bool", "?"},
    [KILN_DTYPE_U8] = {"uint8", "B"},
    [KILN_DTYPE_U16] = {"uint16", "H"},
    [KILN_DTYPE_U32] = {"uint32", "I"},
    [KILN_DTYPE_U64] = {"uint64", "L"},
    [KILN_DTYPE_I8] = {"int8", "b"},
    [KILN_DTYPE_I16] = {"int16", "h"},
    [KILN_DTYPE_I32] = {"int32", "i"},
    [KILN_DTYPE_I64] = {"int64", "l"},
    [KILN_DTYPE_F16] = {"float16", "e"},
    [KILN_DTYPE_BF16] = {"bfloat16", NULL},
    [KILN_DTYPE_F32] = {"float32", "f"},
    [KILN_DTYPE_F64] = {"float64", "d"},
    // As ml_dtypes calls them.
    [KILN_DTYPE_F8E4M3FN] = {"float8_e4m3fn", NULL},
    [KILN_DTYPE_F8E4M3FNUZ] = {"float8_e4m3fnuz", NULL},
    [KILN_DTYPE_F8E5M2] = {"float8_e5m2", NULL},
    [KILN_DTYPE_F8E5M2FNUZ] = {"float8_e5m2fnuz", NULL},
    [KILN_DTYPE_F8E8M0] = {"float8_e8m0fnu", NULL},
    [KILN_DTYPE_F4E2M1] = {"float4_e2m1fn", NULL},
};
_Static_assert(sizeof(long) == sizeof(int64_t), "'l' is the format of 64-bit integers");

const char *kilni_py_dtype_name(kiln_dtype dtype)
{
    return facts[dtype].name != NULL ? facts[dtype].name : kiln_dtype_name(dtype);
}

const char *kilni_py_format(kiln_dtype dtype)
{
    return facts[dtype].format;
}

kiln_dtype kilni_py_dtype_of_format(const char *format, Py_ssize_t itemsize)
{
    kiln_dtype_kind kind = KILN_KIND_NONE;
    if (format == NULL) {
        return KILN_DTYPE_U8;
    }
    format += *format == '@' || *format == '=' || *format == '<' ? 1 : 0;
    if (format[0] == '\0' || format[1] != '\0') {
        return KILN_DTYPE_NONE;
    }
    if (*format == '?') {
        kind = KILN_KIND_BOOL;
    } else if (strchr("BHILQN", *format) != NULL) {
        kind = KILN_KIND_UINT;
    } else if (strchr("bhilqn", *format) != NULL) {
        kind = KILN_KIND_INT;
    } else if (strchr("efd", *format) != NULL) {
        kind = KILN_KIND_FLOAT;
    }
    for (int i = 1; i < KILN_DTYPE_LIMIT; i++) {
        if (facts[i].format != NULL && kiln_dtype_kind_of((kiln_dtype)i) == kind &&
            kiln_dtype_size((kiln_dtype)i) == (size_t)itemsize) {
            return (kiln_dtype)i;
        }
    }
    return KILN_DTYPE_NONE;
}

// ---- promotion ----

static kiln_dtype wider(kiln_dtype a, kiln_dtype b)
{
    return kiln_dtype_size(a) >= kiln_dtype_size(b) ? a : b;
}

/// Of a signed and an unsigned dtype: the smallest signed one that holds both.
static kiln_dtype signed_above(kiln_dtype with_sign, kiln_dtype without)
{
    static const kiln_dtype above[] = {[KILN_DTYPE_U8] = KILN_DTYPE_I16,
                                       [KILN_DTYPE_U16] = KILN_DTYPE_I32,
                                       [KILN_DTYPE_U32] = KILN_DTYPE_I64,
                                       [KILN_DTYPE_U64] = KILN_DTYPE_NONE};
    return above[without] == KILN_DTYPE_NONE ? KILN_DTYPE_NONE : wider(with_sign, above[without]);
}

kiln_dtype kilni_py_promote(kiln_dtype a, kiln_dtype b)
{
    kiln_dtype_kind x = kiln_dtype_kind_of(a), y = kiln_dtype_kind_of(b);
    if (a == b) {
        return a;
    }
    const unsigned apart = (unsigned)KILN_KIND_QUANT | (unsigned)KILN_KIND_SMALL;
    if ((((unsigned)x | (unsigned)y) & apart) != 0) {
        return KILN_DTYPE_NONE;
    }
    if (x == y) {
        bool halves = kiln_dtype_size(a) == kiln_dtype_size(b); // f16 and bf16
        return halves ? KILN_DTYPE_F32 : wider(a, b);
    }
    if (x == KILN_KIND_BOOL || y == KILN_KIND_FLOAT) {
        return b;
    }
    if (y == KILN_KIND_BOOL || x == KILN_KIND_FLOAT) {
        return a;
    }
    return x == KILN_KIND_INT ? signed_above(a, b) : signed_above(b, a);
}

static PyObject *promote_types(PyObject *module, PyObject *args)
{
    PyObject *a = NULL, *b = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!", kilni_py.dtype_type, &a, kilni_py.dtype_type, &b)) {
        return NULL;
    }
    kiln_dtype dtype = kilni_py_promote(((dtype_object *)a)->dtype, ((dtype_object *)b)->dtype);
    if (dtype == KILN_DTYPE_NONE) {
        return PyErr_Format(PyExc_TypeError, "no dtype holds both %S and %S", a, b);
    }
    return Py_NewRef(kilni_py.dtypes[dtype]);
}

// ---- from other objects ----

static kiln_dtype by_name(const char *name)
{
    for (int i = 1; i < KILN_DTYPE_LIMIT; i++) {
        if (strcmp(kilni_py_dtype_name((kiln_dtype)i), name) == 0) {
            return (kiln_dtype)i;
        }
    }
    return kiln_dtype_from_name(name);
}

/// The text of `attribute`, when the object has such a one.
static kiln_dtype by_attribute(PyObject *object, const char *attribute)
{
    PyObject *text = PyObject_GetAttrString(object, attribute);
    const char *name = text != NULL ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    kiln_dtype dtype = name != NULL ? by_name(name) : KILN_DTYPE_NONE;
    PyErr_Clear();
    Py_XDECREF(text);
    return dtype;
}

kiln_dtype kilni_py_dtype_of(PyObject *object, const kiln_device *device)
{
    kiln_dtype dtype = KILN_DTYPE_NONE;
    if (Py_TYPE(object) == kilni_py.dtype_type) {
        return ((dtype_object *)object)->dtype;
    }
    if (object == (PyObject *)&PyFloat_Type) {
        return device == NULL ? KILN_DTYPE_F32 : kiln_device_default_dtype(device, KILN_KIND_FLOAT);
    }
    if (object == (PyObject *)&PyLong_Type) {
        return device == NULL ? KILN_DTYPE_I64 : kiln_device_default_dtype(device, KILN_KIND_INT);
    }
    if (PyUnicode_Check(object)) {
        const char *name = PyUnicode_AsUTF8AndSize(object, NULL);
        dtype = name != NULL ? by_name(name) : KILN_DTYPE_NONE;
        PyErr_Clear();
    } else {
        dtype = by_attribute(object, "name"); // numpy.dtype("float32")
        dtype = dtype != KILN_DTYPE_NONE ? dtype : by_attribute(object, "__name__"); // its type
    }
    if (dtype == KILN_DTYPE_NONE) {
        PyErr_Format(PyExc_TypeError, "%R is no dtype of Kiln; kiln.float32 is one", object);
    }
    return dtype;
}

static PyObject *as_dtype(PyObject *module, PyObject *object)
{
    (void)module;
    kiln_dtype dtype = kilni_py_dtype_of(object, NULL);
    return dtype == KILN_DTYPE_NONE ? NULL : Py_NewRef(kilni_py.dtypes[dtype]);
}

// ---- the type ----

static void dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *to_text(PyObject *self)
{
    return PyUnicode_FromString(kilni_py_dtype_name(((dtype_object *)self)->dtype));
}

static PyObject *represent(PyObject *self)
{
    return PyUnicode_FromFormat("kiln.%s", kilni_py_dtype_name(((dtype_object *)self)->dtype));
}

/// Equal dtypes are one object; a name is equal to its dtype too.
static PyObject *compare(PyObject *self, PyObject *other, int how)
{
    bool equal = self == other;
    if (how != Py_EQ && how != Py_NE) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    if (!equal && Py_TYPE(other) != kilni_py.dtype_type) {
        kiln_dtype dtype = kilni_py_dtype_of(other, NULL);
        PyErr_Clear();
        equal = dtype == ((dtype_object *)self)->dtype;
    }
    return PyBool_FromLong(equal == (how == Py_EQ));
}

static Py_hash_t hash(PyObject *self)
{
    PyObject *name = to_text(self);
    Py_hash_t value = name == NULL ? -1 : PyObject_Hash(name);
    Py_XDECREF(name);
    return value;
}

static PyObject *get_itemsize(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(kiln_dtype_size(((dtype_object *)self)->dtype));
}

static PyObject *get_name(PyObject *self, void *unused)
{
    (void)unused;
    return to_text(self);
}

static PyObject *get_kind(PyObject *self, void *unused)
{
    (void)unused;
    switch (kiln_dtype_kind_of(((dtype_object *)self)->dtype)) {
    case KILN_KIND_BOOL:
        return PyUnicode_FromString("bool");
    case KILN_KIND_UINT:
        return PyUnicode_FromString("unsigned integer");
    case KILN_KIND_INT:
        return PyUnicode_FromString("signed integer");
    case KILN_KIND_FLOAT:
        return PyUnicode_FromString("real floating");
    case KILN_KIND_SMALL:
        return PyUnicode_FromString("small floating");
    default:
        return PyUnicode_FromString("quantised");
    }
}

static PyObject *reduce(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    return to_text(self); // pickled as the name of a global: kiln.float32
}

static PyGetSetDef properties[] = {
    {"name", get_name, NULL, "name, such as \"float32\"", NULL},
    {"itemsize", get_itemsize, NULL, "bytes of an element", NULL},
    {"kind", get_kind, NULL, "kind by the array API, such as \"real floating\"", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef methods[] = {
    {"__reduce__", reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, (void *)dealloc},
    {Py_tp_repr, (void *)represent},
    {Py_tp_str, (void *)to_text},
    {Py_tp_richcompare, (void *)compare},
    {Py_tp_hash, (void *)hash},
    {Py_tp_getset, properties},
    {Py_tp_methods, methods},
    {Py_tp_doc, "An element type. Equal to its name, so that x.dtype == \"float32\" works."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "kiln.DType",
    .basicsize = sizeof(dtype_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

static PyMethodDef functions[] = {
    {"_promote", promote_types, METH_VARARGS, NULL},
    {"dtype", as_dtype, METH_O,
     "dtype(object, /)\n--\n\nThe dtype of a name, a NumPy dtype or type, or float, int, bool."},
    {NULL, NULL, 0, NULL},
};

int kilni_py_dtype_init(PyObject *module)
{
    kilni_py.dtype_type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (kilni_py.dtype_type == NULL ||
        PyModule_AddObjectRef(module, "DType", (PyObject *)kilni_py.dtype_type) < 0) {
        return -1;
    }
    for (int i = 1; i < KILN_DTYPE_LIMIT; i++) {
        dtype_object *made = PyObject_New(dtype_object, kilni_py.dtype_type);
        if (made == NULL) {
            return -1;
        }
        made->dtype = (kiln_dtype)i;
        kilni_py.dtypes[i] = (PyObject *)made;
        if (PyModule_AddObjectRef(module, kilni_py_dtype_name(made->dtype), (PyObject *)made) < 0) {
            return -1;
        }
    }
    return PyModule_AddFunctions(module, functions);
}
