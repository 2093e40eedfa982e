// SPDX-License-Identifier: MIT OR Apache-2.0
// Streams, events and traces. Which stream a thread is in, the package keeps (kiln/_stream.py).

#include "py_kiln.h"

typedef struct stream_object {
    PyObject ob_base;
    kiln_stream *stream; ///< held
    PyObject *device; ///< held
} stream_object;

typedef struct event_object {
    PyObject ob_base;
    kiln_event *event;
    PyObject *device; ///< held
} event_object;

static PyTypeObject *stream_type;
static PyTypeObject *event_type;

static kiln_device *device_in(PyObject *object)
{
    return ((kilni_py_device *)object)->device;
}

// ---- streams ----

static void end_stream(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    stream_object *object = (stream_object *)self;
    KILNI_PY_DO(kiln_stream_release(object->stream));
    Py_DECREF(object->device);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *make_stream(PyObject *module, PyObject *device)
{
    kiln_stream *stream = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    (void)module;
    KILNI_PY_CALL(status, &err, kiln_stream_create(device_in(device), &stream, &err));
    stream_object *made =
        status == KILN_STATUS_OK ? PyObject_New(stream_object, stream_type) : NULL;
    if (made == NULL) {
        kiln_stream_release(stream);
        return status == KILN_STATUS_OK ? NULL : kilni_py_raise(&err);
    }
    made->stream = stream;
    made->device = Py_NewRef(device);
    return (PyObject *)made;
}

/// Sends what this thread records on a device to a stream, or with None to the thread's own.
static PyObject *set_stream(PyObject *module, PyObject *args)
{
    PyObject *device = NULL, *object = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O", kilni_py.device_type, &device, &object)) {
        return NULL;
    }
    kiln_stream *stream = object != Py_None ? ((stream_object *)object)->stream : NULL;
    KILNI_PY_CALL(status, &err, kiln_stream_set(device_in(device), stream, &err));
    return kilni_py_done(status, &err);
}

// ---- events ----

static void end_event(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    event_object *object = (event_object *)self;
    KILNI_PY_DO(kiln_event_destroy(object->event));
    Py_DECREF(object->device);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *record_event(PyObject *module, PyObject *device)
{
    kiln_event *event = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    (void)module;
    KILNI_PY_CALL(status, &err, kiln_event_record(device_in(device), &event, &err));
    event_object *made = status == KILN_STATUS_OK ? PyObject_New(event_object, event_type) : NULL;
    if (made == NULL) {
        kiln_event_destroy(event);
        return status == KILN_STATUS_OK ? NULL : kilni_py_raise(&err);
    }
    made->event = event;
    made->device = Py_NewRef(device);
    return (PyObject *)made;
}

static PyObject *wait_event(PyObject *self, PyObject *nothing)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    (void)nothing;
    KILNI_PY_CALL(status, &err, kiln_event_wait(((event_object *)self)->event, &err));
    return kilni_py_done(status, &err);
}

static PyObject *poll_event(PyObject *self, PyObject *nothing)
{
    bool happened = false;
    (void)nothing;
    KILNI_PY_DO(happened = kiln_event_poll(((event_object *)self)->event));
    return PyBool_FromLong(happened);
}

static PyObject *stream_wait(PyObject *module, PyObject *args)
{
    PyObject *device = NULL, *event = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!", kilni_py.device_type, &device, event_type, &event)) {
        return NULL;
    }
    KILNI_PY_CALL(status, &err,
                  kiln_stream_wait(device_in(device), ((event_object *)event)->event, &err));
    return kilni_py_done(status, &err);
}

// ---- traces ----

static PyObject *trace_start(PyObject *module, PyObject *nothing)
{
    kiln_context *context = kilni_py_context();
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    (void)module;
    (void)nothing;
    if (context == NULL) {
        return NULL;
    }
    KILNI_PY_CALL(status, &err, kiln_trace_start(context, &err));
    return kilni_py_done(status, &err);
}

static PyObject *trace_write(PyObject *module, PyObject *path)
{
    kiln_context *context = kilni_py_context();
    PyObject *bytes = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    (void)module;
    if (context == NULL || !PyUnicode_FSConverter(path, &bytes)) {
        return NULL;
    }
    const char *file = PyBytes_AsString(bytes);
    KILNI_PY_CALL(status, &err, kiln_trace_write(context, file, &err));
    Py_DECREF(bytes);
    return kilni_py_done(status, &err);
}

// ---- the types ----

static PyType_Slot stream_slots[] = {{Py_tp_dealloc, (void *)end_stream}, {0, NULL}};

static PyType_Spec stream_spec = {
    .name = "kiln._kiln.Stream",
    .basicsize = sizeof(stream_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = stream_slots,
};

static PyMethodDef event_methods[] = {
    {"wait", wait_event, METH_NOARGS,
     "wait($self, /)\n--\n\nReturns when what the event stands for has happened."},
    {"poll", poll_event, METH_NOARGS, "poll($self, /)\n--\n\nWhether wait would return at once."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot event_slots[] = {
    {Py_tp_dealloc, (void *)end_event},
    {Py_tp_methods, event_methods},
    {Py_tp_doc, "What a stream had recorded at some point. kiln.record_event() makes one."},
    {0, NULL},
};

static PyType_Spec event_spec = {
    .name = "kiln.Event",
    .basicsize = sizeof(event_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = event_slots,
};

static PyMethodDef functions[] = {
    {"_stream", make_stream, METH_O, NULL},
    {"_stream_set", set_stream, METH_VARARGS, NULL},
    {"_stream_wait", stream_wait, METH_VARARGS, NULL},
    {"_event_record", record_event, METH_O, NULL},
    {"_trace_start", trace_start, METH_NOARGS, NULL},
    {"_trace_write", trace_write, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

int kilni_py_stream_init(PyObject *module)
{
    stream_type = (PyTypeObject *)PyType_FromSpec(&stream_spec);
    event_type = (PyTypeObject *)PyType_FromSpec(&event_spec);
    if (stream_type == NULL || event_type == NULL ||
        PyModule_AddObjectRef(module, "Event", (PyObject *)event_type) < 0) {
        return -1;
    }
    return PyModule_AddFunctions(module, functions);
}
