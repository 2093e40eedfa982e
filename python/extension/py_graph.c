// SPDX-License-Identifier: MIT OR Apache-2.0
// Captured graphs as objects. What a call is captured for, and how often, the package decides
// (kiln/_compile.py); lists of arrays and tensors are turned into each other here.

#include "py_kiln.h"

typedef struct graph_object {
    PyObject ob_base;
    kiln_graph *graph;
    size_t n_outputs;
} graph_object;

static PyTypeObject *graph_type;
static _Thread_local uint64_t current_capture;
static uint64_t last_capture; // guarded by the GIL

uint64_t kilni_py_capture(void)
{
    return current_capture;
}

int kilni_py_tensors(PyObject *arrays, kiln_tensor **out_tensors, size_t capacity,
                     size_t *out_count)
{
    Py_ssize_t count = PyList_Check(arrays) ? PyList_Size(arrays) : -1;
    if (count < 0 || (size_t)count > capacity) {
        PyErr_Format(PyExc_TypeError, "expected a list of up to %zu arrays", capacity);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *array = PyList_GetItem(arrays, i);
        if (!kilni_py_is_array(array)) {
            PyErr_Format(PyExc_TypeError, "%R is no array", array);
            return -1;
        }
        out_tensors[i] = kilni_py_tensor(array);
    }
    *out_count = (size_t)count;
    return 0;
}

PyObject *kilni_py_list_of(kiln_tensor **take_tensors, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; i < count; i++) {
        PyObject *array = list != NULL ? kilni_py_array_new(take_tensors[i]) : NULL;
        if (array == NULL) {
            if (list == NULL) {
                kiln_release(take_tensors[i]);
            }
            Py_CLEAR(list);
        } else {
            (void)PyList_SetItem(list, (Py_ssize_t)i, array);
        }
    }
    return list;
}

// ---- capture ----

enum { MAX_TENSORS = 1024 };

static PyObject *begin(PyObject *module, PyObject *args)
{
    PyObject *object = NULL, *inputs = NULL, *owner = NULL;
    kiln_tensor *tensors[MAX_TENSORS];
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    size_t count = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO", &object, &inputs) ||
        kilni_py_tensors(inputs, tensors, MAX_TENSORS, &count) < 0) {
        return NULL;
    }
    kiln_device *device = kilni_py_device_of(object, &owner);
    if (device == NULL) {
        return NULL;
    }
    KILNI_PY_CALL_WITH(status, &err, tensors, count,
                       kiln_graph_begin(device, tensors, count, &err));
    Py_DECREF(owner);
    if (status != KILN_STATUS_OK) {
        return kilni_py_raise(&err);
    }
    current_capture = ++last_capture;
    return PyLong_FromUnsignedLongLong(current_capture);
}

static PyObject *cancel(PyObject *module, PyObject *object)
{
    PyObject *owner = NULL;
    (void)module;
    kiln_device *device = kilni_py_device_of(object, &owner);
    if (device == NULL) {
        return NULL;
    }
    current_capture = 0;
    KILNI_PY_DO(kiln_graph_cancel(device));
    Py_DECREF(owner);
    Py_RETURN_NONE;
}

static PyObject *new_graph(kiln_graph *take_graph, size_t n_outputs)
{
    graph_object *made = PyObject_New(graph_object, graph_type);
    if (made == NULL) {
        kiln_graph_destroy(take_graph);
        return NULL;
    }
    made->graph = take_graph;
    made->n_outputs = n_outputs;
    return (PyObject *)made;
}

static PyObject *end(PyObject *module, PyObject *args)
{
    PyObject *object = NULL, *outputs = NULL, *owner = NULL;
    kiln_tensor *tensors[MAX_TENSORS];
    kiln_graph *graph = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    size_t count = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO", &object, &outputs) ||
        kilni_py_tensors(outputs, tensors, MAX_TENSORS, &count) < 0) {
        return NULL;
    }
    kiln_device *device = kilni_py_device_of(object, &owner);
    if (device == NULL) {
        return NULL;
    }
    KILNI_PY_CALL_WITH(status, &err, tensors, count,
                       kiln_graph_end(device, tensors, count, &graph, &err));
    Py_DECREF(owner);
    if (status != KILN_STATUS_OK) {
        return kilni_py_raise(&err);
    }
    current_capture = 0;
    return new_graph(graph, count);
}

// ---- the type ----

static void dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    kiln_graph *graph = ((graph_object *)self)->graph;
    PyObject_Free(self);
    Py_DECREF(type);
    KILNI_PY_DO(kiln_graph_destroy(graph));
}

static PyObject *run(PyObject *self, PyObject *inputs)
{
    graph_object *object = (graph_object *)self;
    kiln_tensor *tensors[MAX_TENSORS], *made[MAX_TENSORS];
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    size_t count = 0;
    if (kilni_py_tensors(inputs, tensors, MAX_TENSORS, &count) < 0) {
        return NULL;
    }
    KILNI_PY_CALL_WITH(
        status, &err, tensors, count,
        kiln_graph_run(object->graph, tensors, count, made, object->n_outputs, &err));
    return status == KILN_STATUS_OK ? kilni_py_list_of(made, object->n_outputs)
                                    : kilni_py_raise(&err);
}

static PyObject *explain(PyObject *self, PyObject *args)
{
    int source = 0;
    char *text = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    if (!PyArg_ParseTuple(args, "|p", &source)) {
        return NULL;
    }
    KILNI_PY_CALL(status, &err,
                  kiln_graph_explain(((graph_object *)self)->graph,
                                     source ? KILN_EXPLAIN_SOURCE : 0, &text, &err));
    if (status != KILN_STATUS_OK) {
        return kilni_py_raise(&err);
    }
    PyObject *made = PyUnicode_FromString(text);
    kiln_text_free(kilni_py.context, text);
    return made;
}

static PyObject *get_info(PyObject *self, void *unused)
{
    kiln_graph_info info = KILN_GRAPH_INFO_INIT;
    (void)unused;
    KILNI_PY_DO(kiln_graph_info_get(((graph_object *)self)->graph, &info));
    return Py_BuildValue("{s:K,s:K,s:K,s:K}", "ops", info.ops, "blocks", info.blocks, "ops_fused",
                         info.ops_fused, "steps", info.steps);
}

static PyMethodDef methods[] = {
    {"run", run, METH_O, NULL},
    {"explain", explain, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"info", get_info, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, (void *)dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_doc, "A captured graph. One thread at a time uses it."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "kiln._kiln.Graph",
    .basicsize = sizeof(graph_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

static PyObject *capturing(PyObject *module, PyObject *nothing)
{
    (void)module;
    (void)nothing;
    return PyBool_FromLong(current_capture != 0);
}

// ---- what a graph is looked up by ----

/// Device, dtype and lengths of each array, and which of them are one.
static PyObject *signature(PyObject *module, PyObject *arrays)
{
    kiln_tensor *tensors[MAX_TENSORS];
    int64_t facts[3 + KILN_MAX_RANK];
    size_t count = 0;
    (void)module;
    if (kilni_py_tensors(arrays, tensors, MAX_TENSORS, &count) < 0) {
        return NULL;
    }
    PyObject *key = PyTuple_New((Py_ssize_t)count);
    for (size_t i = 0; key != NULL && i < count; i++) {
        size_t rank = kiln_tensor_rank(tensors[i]), first = 0, n = 0;
        while (tensors[first] != tensors[i]) {
            first++;
        }
        facts[n++] = (int64_t)(uintptr_t)kiln_tensor_device(tensors[i]);
        facts[n++] = (int64_t)first;
        facts[n++] = (int64_t)kiln_tensor_dtype(tensors[i]);
        for (size_t axis = 0; axis < rank; axis++) {
            facts[n++] = kiln_tensor_dims(tensors[i])[axis];
        }
        PyObject *part = PyBytes_FromStringAndSize((char *)facts, (Py_ssize_t)(n * sizeof(*facts)));
        if (part == NULL || PyTuple_SetItem(key, (Py_ssize_t)i, part) < 0) {
            Py_CLEAR(key);
        }
    }
    return key;
}

static PyMethodDef functions[] = {
    {"_capturing", capturing, METH_NOARGS, NULL}, {"_signature", signature, METH_O, NULL},
    {"_graph_begin", begin, METH_VARARGS, NULL},  {"_graph_end", end, METH_VARARGS, NULL},
    {"_graph_cancel", cancel, METH_O, NULL},      {NULL, NULL, 0, NULL},
};

int kilni_py_graph_init(PyObject *module)
{
    graph_type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (graph_type == NULL || PyModule_AddObjectRef(module, "Graph", (PyObject *)graph_type) < 0) {
        return -1;
    }
    return PyModule_AddFunctions(module, functions);
}
