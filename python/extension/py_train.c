// SPDX-License-Identifier: MIT OR Apache-2.0
// Sets of parameters and their optimisers as objects, and the options of both from Python's
// keywords. How they are spelled for users, the package decides (kiln/train.py).

#include "kiln_train.h"
#include "py_kiln.h"

#include <string.h>

enum { MAX_PARAMS = 1024 };

typedef struct params_object {
    PyObject ob_base;
    kiln_params *params;
    PyObject *device; ///< held
} params_object;

typedef struct optimiser_object {
    PyObject ob_base;
    kiln_optimiser *optimiser;
    PyObject *params; ///< held: the set outlives the optimiser
} optimiser_object;

static PyTypeObject *params_type;
static PyTypeObject *optimiser_type;

// ---- options by name ----

typedef enum field_kind { FIELD_DOUBLE, FIELD_U32, FIELD_U64, FIELD_I64 } field_kind;

typedef struct field {
    const char *name;
    field_kind kind;
    size_t offset;
} field;

#define FIELD(type, member, kind)                                                                  \
    {                                                                                              \
#member, kind, offsetof(type, member)                                                      \
    }

static const field init_fields[] = {
    FIELD(kiln_init_options, kind, FIELD_U32),
    FIELD(kiln_init_options, center, FIELD_DOUBLE),
    FIELD(kiln_init_options, spread, FIELD_DOUBLE),
    FIELD(kiln_init_options, gain, FIELD_DOUBLE),
    FIELD(kiln_init_options, fan_in, FIELD_I64),
    FIELD(kiln_init_options, fan_out, FIELD_I64),
    {NULL, FIELD_U32, 0},
};
static const field schedule_fields[] = {
    FIELD(kiln_schedule, kind, FIELD_U32),      FIELD(kiln_schedule, warmup, FIELD_U64),
    FIELD(kiln_schedule, steps, FIELD_U64),     FIELD(kiln_schedule, period, FIELD_U64),
    FIELD(kiln_schedule, factor, FIELD_DOUBLE), FIELD(kiln_schedule, least, FIELD_DOUBLE),
    FIELD(kiln_schedule, rise, FIELD_DOUBLE),   {NULL, FIELD_U32, 0},
};
static const field optimiser_fields[] = {
    FIELD(kiln_optimiser_options, rule, FIELD_U32),
    FIELD(kiln_optimiser_options, rate, FIELD_DOUBLE),
    FIELD(kiln_optimiser_options, momentum, FIELD_DOUBLE),
    FIELD(kiln_optimiser_options, nesterov, FIELD_U32),
    FIELD(kiln_optimiser_options, captured, FIELD_U32),
    FIELD(kiln_optimiser_options, beta1, FIELD_DOUBLE),
    FIELD(kiln_optimiser_options, beta2, FIELD_DOUBLE),
    FIELD(kiln_optimiser_options, epsilon, FIELD_DOUBLE),
    FIELD(kiln_optimiser_options, decay, FIELD_DOUBLE),
    FIELD(kiln_optimiser_options, clip, FIELD_DOUBLE),
    {NULL, FIELD_U32, 0},
};

static int set_field(const field *f, PyObject *value, unsigned char *options)
{
    double number = f->kind == FIELD_DOUBLE ? PyFloat_AsDouble(value) : 0;
    long long whole = f->kind != FIELD_DOUBLE ? PyLong_AsLongLong(value) : 0;
    if (PyErr_Occurred()) {
        return -1;
    }
    if ((f->kind == FIELD_U32 || f->kind == FIELD_U64) && (whole < 0 || whole > INT32_MAX)) {
        PyErr_Format(PyExc_ValueError, "%s is a count, not %R", f->name, value);
        return -1;
    }
    uint32_t small = (uint32_t)whole;
    switch (f->kind) {
    case FIELD_DOUBLE:
        memcpy(options + f->offset, &number, sizeof(number));
        break;
    case FIELD_U32:
        memcpy(options + f->offset, &small, sizeof(small));
        break;
    case FIELD_U64:
    case FIELD_I64:
        memcpy(options + f->offset, &whole, sizeof(whole));
        break;
    }
    return 0;
}

/// Fills members of a struct from a dict. -1: a name that it has not, or another value.
static int set_fields(const field *fields, PyObject *dict, void *options)
{
    PyObject *key = NULL, *value = NULL;
    Py_ssize_t at = 0;
    while (PyDict_Next(dict, &at, &key, &value)) {
        const field *f = fields;
        while (f->name != NULL && PyUnicode_CompareWithASCIIString(key, f->name) != 0) {
            f++;
        }
        if (f->name == NULL) {
            PyErr_Format(PyExc_TypeError, "there is no option %R", key);
            return -1;
        }
        if (set_field(f, value, options) < 0) {
            return -1;
        }
    }
    return 0;
}

int kilni_py_optimiser_options(PyObject *options, PyObject *schedule, kiln_schedule *out_schedule,
                               kiln_optimiser_options *out_options)
{
    if (set_fields(optimiser_fields, options, out_options) < 0 ||
        set_fields(schedule_fields, schedule, out_schedule) < 0) {
        return -1;
    }
    out_options->schedule = PyDict_Size(schedule) > 0 ? out_schedule : NULL;
    return 0;
}

// ---- sets of parameters ----

static kiln_params *params_of(PyObject *self)
{
    return ((params_object *)self)->params;
}

kiln_params *kilni_py_params_of(PyObject *object)
{
    if (Py_TYPE(object) != params_type) {
        PyErr_Format(PyExc_TypeError, "%R is no set of parameters", object);
        return NULL;
    }
    return params_of(object);
}

static void end_params(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    params_object *object = (params_object *)self;
    KILNI_PY_DO(kiln_params_destroy(object->params));
    Py_XDECREF(object->device);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *make_params(PyObject *module, PyObject *args)
{
    PyObject *place = NULL, *owner = NULL;
    unsigned long long seed = 0;
    kiln_params *params = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    (void)module;
    if (!PyArg_ParseTuple(args, "OK", &place, &seed)) {
        return NULL;
    }
    kiln_device *device = kilni_py_device_of(place, &owner);
    if (device == NULL) {
        return NULL;
    }
    KILNI_PY_CALL(status, &err, kiln_params_create(device, seed, &params, &err));
    params_object *made =
        status == KILN_STATUS_OK ? PyObject_New(params_object, params_type) : NULL;
    if (made == NULL) {
        kiln_params_destroy(params);
        Py_DECREF(owner);
        return status == KILN_STATUS_OK ? NULL : kilni_py_raise(&err);
    }
    made->params = params;
    made->device = owner;
    return (PyObject *)made;
}

static PyObject *add(PyObject *self, PyObject *args)
{
    PyObject *shape = NULL, *dtype_object = NULL, *options_dict = NULL;
    const char *name = NULL;
    int64_t dims[KILN_MAX_RANK];
    size_t rank = 0;
    kiln_init_options options = KILN_INIT_OPTIONS_INIT;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    kiln_device *device = ((kilni_py_device *)((params_object *)self)->device)->device;
    if (!PyArg_ParseTuple(args, "sOOO", &name, &shape, &dtype_object, &options_dict) ||
        kilni_py_ints(shape, "shape", dims, KILN_MAX_RANK, &rank) < 0 ||
        set_fields(init_fields, options_dict, &options) < 0) {
        return NULL;
    }
    kiln_dtype dtype = kilni_py_dtype_of(dtype_object, device);
    if (dtype == KILN_DTYPE_NONE) {
        return NULL;
    }
    KILNI_PY_CALL(status, &err,
                  kiln_params_add(params_of(self), name, dtype, rank, dims, &options, &err));
    return kilni_py_done(status, &err);
}

static PyObject *add_array(PyObject *self, PyObject *args)
{
    PyObject *array = NULL;
    const char *name = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    if (!PyArg_ParseTuple(args, "sO!", &name, kilni_py.array_type, &array)) {
        return NULL;
    }
    kiln_tensor *tensor = kilni_py_tensor(array);
    KILNI_PY_CALL_WITH(status, &err, &tensor, 1,
                       kiln_params_add_tensor(params_of(self), name, tensor, &err));
    return kilni_py_done(status, &err);
}

static PyObject *set_array(PyObject *self, PyObject *args)
{
    PyObject *array = NULL;
    unsigned long index = 0;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    if (!PyArg_ParseTuple(args, "kO!", &index, kilni_py.array_type, &array)) {
        return NULL;
    }
    kiln_tensor *tensor = kilni_py_tensor(array);
    KILNI_PY_CALL_WITH(status, &err, &tensor, 1,
                       kiln_params_set(params_of(self), index, tensor, &err));
    return kilni_py_done(status, &err);
}

static PyObject *names(PyObject *self, PyObject *nothing)
{
    PyObject *list = PyList_New(0);
    (void)nothing;
    for (size_t i = 0; list != NULL && i < kiln_params_count(params_of(self)); i++) {
        PyObject *name = PyUnicode_FromString(kiln_params_name(params_of(self), i));
        if (name == NULL || PyList_Append(list, name) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(name);
    }
    return list;
}

static PyObject *arrays(PyObject *self, PyObject *nothing)
{
    kiln_tensor *tensors[MAX_PARAMS];
    size_t count = kiln_params_count(params_of(self));
    (void)nothing;
    if (count > MAX_PARAMS) {
        return PyErr_Format(PyExc_ValueError, "%zu parameters, at most %d are possible", count,
                            MAX_PARAMS);
    }
    for (size_t i = 0; i < count; i++) {
        tensors[i] = kiln_retain(kiln_params_tensor(params_of(self), i));
    }
    return kilni_py_list_of(tensors, count);
}

/// Calls with the path of a str, bytes or os.PathLike.
#define WITH_PATH(path, call)                                                                      \
    do {                                                                                           \
        PyObject *bytes = NULL;                                                                    \
        kiln_error err = KILN_ERROR_INIT;                                                          \
        kiln_status status = KILN_STATUS_OK;                                                       \
        if (!PyUnicode_FSConverter(path, &bytes)) {                                                \
            return NULL;                                                                           \
        }                                                                                          \
        const char *file = PyBytes_AsString(bytes);                                                \
        KILNI_PY_CALL(status, &err, call);                                                         \
        Py_DECREF(bytes);                                                                          \
        return kilni_py_done(status, &err);                                                        \
    } while (0)

static PyObject *params_save(PyObject *self, PyObject *path)
{
    WITH_PATH(path, kiln_params_save(params_of(self), file, &err));
}

static PyObject *params_load(PyObject *self, PyObject *path)
{
    WITH_PATH(path, kiln_params_load(params_of(self), file, &err));
}

static PyObject *params_add_file(PyObject *self, PyObject *path)
{
    WITH_PATH(path, kiln_params_add_file(params_of(self), file, &err));
}

// ---- optimisers ----

static kiln_optimiser *optimiser_of(PyObject *self)
{
    return ((optimiser_object *)self)->optimiser;
}

static void end_optimiser(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    optimiser_object *object = (optimiser_object *)self;
    KILNI_PY_DO(kiln_optimiser_destroy(object->optimiser));
    Py_XDECREF(object->params);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *make_optimiser(PyObject *module, PyObject *args)
{
    PyObject *set = NULL, *options_dict = NULL, *schedule_dict = NULL;
    kiln_optimiser_options options = KILN_OPTIMISER_OPTIONS_INIT;
    kiln_schedule schedule = KILN_SCHEDULE_INIT;
    kiln_optimiser *optimiser = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!OO", params_type, &set, &options_dict, &schedule_dict) ||
        kilni_py_optimiser_options(options_dict, schedule_dict, &schedule, &options) < 0) {
        return NULL;
    }
    KILNI_PY_CALL(status, &err, kiln_optimiser_create(params_of(set), &options, &optimiser, &err));
    optimiser_object *made =
        status == KILN_STATUS_OK ? PyObject_New(optimiser_object, optimiser_type) : NULL;
    if (made == NULL) {
        kiln_optimiser_destroy(optimiser);
        return status == KILN_STATUS_OK ? NULL : kilni_py_raise(&err);
    }
    made->optimiser = optimiser;
    made->params = Py_NewRef(set);
    return (PyObject *)made;
}

int kilni_py_some_tensors(PyObject *list, kiln_tensor **out_tensors, size_t capacity,
                          size_t *out_count)
{
    Py_ssize_t count = PyList_Check(list) ? PyList_Size(list) : -1;
    if (count < 0 || (size_t)count > capacity) {
        PyErr_Format(PyExc_TypeError, "expected a list of up to %zu arrays", capacity);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *array = PyList_GetItem(list, i);
        if (array != Py_None && !kilni_py_is_array(array)) {
            PyErr_Format(PyExc_TypeError, "gradient %zd is %R, no array", i, array);
            return -1;
        }
        out_tensors[i] = array == Py_None ? NULL : kilni_py_tensor(array);
    }
    *out_count = (size_t)count;
    return 0;
}

/// A list with an array, or None, for each parameter.
static PyObject *step(PyObject *self, PyObject *gradients)
{
    kiln_tensor *tensors[MAX_PARAMS];
    size_t count = 0;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    if (kilni_py_some_tensors(gradients, tensors, MAX_PARAMS, &count) < 0) {
        return NULL;
    }
    KILNI_PY_CALL_WITH(status, &err, tensors, count,
                       kiln_optimiser_step(optimiser_of(self), tensors, count, &err));
    return kilni_py_done(status, &err);
}

static PyObject *optimiser_save(PyObject *self, PyObject *path)
{
    WITH_PATH(path, kiln_optimiser_save(optimiser_of(self), file, &err));
}

static PyObject *optimiser_load(PyObject *self, PyObject *path)
{
    WITH_PATH(path, kiln_optimiser_load(optimiser_of(self), file, &err));
}

static PyObject *get_steps(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(kiln_optimiser_steps(optimiser_of(self)));
}

static PyObject *get_rate(PyObject *self, void *unused)
{
    (void)unused;
    return PyFloat_FromDouble(kiln_optimiser_rate(optimiser_of(self)));
}

// ---- the types ----

static PyMethodDef params_methods[] = {
    {"add", add, METH_VARARGS, NULL},
    {"add_array", add_array, METH_VARARGS, NULL},
    {"set_array", set_array, METH_VARARGS, NULL},
    {"names", names, METH_NOARGS, NULL},
    {"arrays", arrays, METH_NOARGS, NULL},
    {"save", params_save, METH_O, NULL},
    {"load", params_load, METH_O, NULL},
    {"add_file", params_add_file, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot params_slots[] = {
    {Py_tp_dealloc, (void *)end_params}, {Py_tp_methods, params_methods}, {0, NULL}};

static PyType_Spec params_spec = {
    .name = "kiln._kiln.Params",
    .basicsize = sizeof(params_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = params_slots,
};

static PyMethodDef optimiser_methods[] = {
    {"step", step, METH_O, NULL},
    {"save", optimiser_save, METH_O, NULL},
    {"load", optimiser_load, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef optimiser_properties[] = {
    {"steps", get_steps, NULL, NULL, NULL},
    {"rate", get_rate, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot optimiser_slots[] = {{Py_tp_dealloc, (void *)end_optimiser},
                                        {Py_tp_methods, optimiser_methods},
                                        {Py_tp_getset, optimiser_properties},
                                        {0, NULL}};

static PyType_Spec optimiser_spec = {
    .name = "kiln._kiln.Optimiser",
    .basicsize = sizeof(optimiser_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = optimiser_slots,
};

static PyMethodDef functions[] = {
    {"_params", make_params, METH_VARARGS, NULL},
    {"_optimiser", make_optimiser, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int kilni_py_train_init(PyObject *module)
{
    params_type = (PyTypeObject *)PyType_FromSpec(&params_spec);
    optimiser_type = (PyTypeObject *)PyType_FromSpec(&optimiser_spec);
    return params_type == NULL || optimiser_type == NULL ? -1
                                                         : PyModule_AddFunctions(module, functions);
}
