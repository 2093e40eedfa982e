// SPDX-License-Identifier: MIT OR Apache-2.0
// ONNX models on a device as objects: what goes in and out, and one recorded run. Captures and the
// shape of ONNX Runtime's interface are the package's (kiln/onnx.py).

#include "py_kiln.h"

#ifdef KILN_WITH_ONNX
#include "onnx.h"

typedef struct model_object {
    PyObject ob_base;
    kiln_onnx_model *model;
    kiln_onnx_session *session;
    PyObject *device; ///< held
} model_object;

static PyTypeObject *model_type;

static void dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    model_object *object = (model_object *)self;
    KILNI_PY_DO(kiln_onnx_session_destroy(object->session));
    KILNI_PY_DO(kiln_onnx_model_close(object->model));
    Py_XDECREF(object->device);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *load(PyObject *module, PyObject *args)
{
    PyObject *path = NULL, *place = NULL, *dtype = NULL, *owner = NULL;
    kiln_onnx_session_options options = KILN_ONNX_SESSION_OPTIONS_INIT;
    kiln_onnx_model *model = NULL;
    kiln_onnx_session *session = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    (void)module;
    if (!PyArg_ParseTuple(args, "O&OO", PyUnicode_FSConverter, &path, &place, &dtype)) {
        return NULL;
    }
    kiln_device *device = kilni_py_device_of(place, &owner);
    if (device != NULL && dtype != Py_None) {
        options.dtype = kilni_py_dtype_of(dtype, device);
        device = options.dtype != KILN_DTYPE_NONE ? device : NULL;
    }
    const char *file = device != NULL ? PyBytes_AsString(path) : NULL;
    if (file == NULL) {
        Py_XDECREF(owner);
        Py_DECREF(path);
        return NULL;
    }
    const kiln_env *env = kiln_context_env(kiln_device_context(device));
    KILNI_PY_CALL(status, &err, kiln_onnx_model_open(env, file, &model, &err));
    if (status == KILN_STATUS_OK) {
        KILNI_PY_CALL(status, &err,
                      kiln_onnx_session_create_with(model, &device, 1, &options, &session, &err));
    }
    Py_DECREF(path);
    model_object *made = NULL;
    if (status != KILN_STATUS_OK) {
        kilni_py_raise(&err);
    } else {
        made = PyObject_New(model_object, model_type);
    }
    if (made == NULL) {
        kiln_onnx_session_destroy(session);
        kiln_onnx_model_close(model);
        Py_DECREF(owner);
        return NULL;
    }
    made->model = model;
    made->session = session;
    made->device = owner;
    return (PyObject *)made;
}

// ---- what goes in and out ----

static PyObject *shape_of(const kiln_onnx_value_info *info)
{
    if (!info->has_shape) {
        return Py_NewRef(Py_None);
    }
    PyObject *shape = PyList_New(0);
    for (uint32_t i = 0; shape != NULL && i < info->rank; i++) {
        const kiln_onnx_dim *dim = &info->dims[i];
        PyObject *length = dim->length >= 0      ? PyLong_FromLongLong(dim->length)
                           : dim->symbol != NULL ? PyUnicode_FromString(dim->symbol)
                                                 : Py_NewRef(Py_None);
        if (length == NULL || PyList_Append(shape, length) < 0) {
            Py_CLEAR(shape);
        }
        Py_XDECREF(length);
    }
    return shape;
}

static PyObject *describe(const kiln_onnx_value_info *infos, size_t count)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < count; i++) {
        PyObject *dtype =
            infos[i].dtype != KILN_DTYPE_NONE ? kilni_py.dtypes[infos[i].dtype] : Py_None;
        PyObject *row =
            Py_BuildValue("(szNOO)", infos[i].name, infos[i].type_name, shape_of(&infos[i]), dtype,
                          infos[i].kind == KILN_ONNX_KIND_TENSOR ? Py_True : Py_False);
        if (row == NULL || PyList_Append(list, row) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(row);
    }
    return list;
}

static PyObject *get_inputs(PyObject *self, void *unused)
{
    size_t count = 0;
    (void)unused;
    const kiln_onnx_value_info *infos =
        kiln_onnx_model_inputs(((model_object *)self)->model, &count);
    return describe(infos, count);
}

static PyObject *get_outputs(PyObject *self, void *unused)
{
    size_t count = 0;
    (void)unused;
    const kiln_onnx_value_info *infos =
        kiln_onnx_model_outputs(((model_object *)self)->model, &count);
    return describe(infos, count);
}

static PyObject *get_device(PyObject *self, void *unused)
{
    (void)unused;
    return Py_NewRef(((model_object *)self)->device);
}

// ---- a run ----

enum { MAX_VALUES = 256 };

/// Names the inputs; with `buffers` each has its contents in host memory too. -1: failed.
static int fill_inputs(kiln_onnx_input *inputs, kiln_tensor **tensors, size_t count,
                       PyObject *names, PyObject *buffers, Py_buffer *views, size_t *n_views)
{
    for (size_t i = 0; i < count; i++) {
        PyObject *name = PyList_GetItem(names, (Py_ssize_t)i);
        const char *text = name != NULL ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
        if (text == NULL) {
            return -1;
        }
        inputs[i] = (kiln_onnx_input){.name = text, .tensor = tensors[i]};
        if (buffers != Py_None) {
            PyObject *buffer = PyList_GetItem(buffers, (Py_ssize_t)i);
            if (buffer == NULL || PyObject_GetBuffer(buffer, &views[i], PyBUF_SIMPLE) < 0) {
                return -1;
            }
            inputs[i].host = views[i].buf;
            (*n_views)++;
        }
    }
    return 0;
}

/// record(names, arrays, buffers or None): a list of the outputs.
static PyObject *record(PyObject *self, PyObject *args)
{
    model_object *object = (model_object *)self;
    PyObject *names = NULL, *arrays = NULL, *buffers = NULL, *result = NULL;
    kiln_onnx_input inputs[MAX_VALUES];
    kiln_tensor *tensors[MAX_VALUES], *made[MAX_VALUES] = {NULL};
    Py_buffer views[MAX_VALUES];
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    size_t count = 0, n_outputs = 0, n_views = 0;
    if (!PyArg_ParseTuple(args, "OOO", &names, &arrays, &buffers) ||
        kilni_py_tensors(arrays, tensors, MAX_VALUES, &count) < 0) {
        return NULL;
    }
    (void)kiln_onnx_model_outputs(object->model, &n_outputs);
    if (n_outputs > MAX_VALUES) {
        return PyErr_Format(PyExc_NotImplementedError, "a model with more than %d outputs",
                            MAX_VALUES);
    }
    if (fill_inputs(inputs, tensors, count, names, buffers, views, &n_views) == 0) {
        KILNI_PY_CALL_WITH(
            status, &err, tensors, count,
            kiln_onnx_session_run(object->session, inputs, count, made, n_outputs, &err));
        result =
            status == KILN_STATUS_OK ? kilni_py_list_of(made, n_outputs) : kilni_py_raise(&err);
    }
    for (size_t i = 0; i < n_views; i++) {
        PyBuffer_Release(&views[i]);
    }
    return result;
}

static PyMethodDef methods[] = {
    {"record", record, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"inputs", get_inputs, NULL, NULL, NULL},
    {"outputs", get_outputs, NULL, NULL, NULL},
    {"device", get_device, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, (void *)dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_doc, "An ONNX model on a device. One thread at a time uses it."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "kiln._kiln.Model",
    .basicsize = sizeof(model_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

static PyMethodDef functions[] = {
    {"_load_model", load, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int kilni_py_model_init(PyObject *module)
{
    model_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return model_type == NULL ? -1 : PyModule_AddFunctions(module, functions);
}

#else

int kilni_py_model_init(PyObject *module)
{
    (void)module;
    return 0;
}

#endif
