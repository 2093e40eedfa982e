// SPDX-License-Identifier: MIT OR Apache-2.0
// Devices as objects: opened by address, one of them the default.

#include "py_kiln.h"

PyObject *kilni_py_device_new(kiln_device *take_device)
{
    kilni_py_device *made = PyObject_New(kilni_py_device, kilni_py.device_type);
    if (made == NULL) {
        kiln_device_release(take_device);
        return NULL;
    }
    made->device = take_device;
    return (PyObject *)made;
}

static kiln_device *device_of(PyObject *self)
{
    return ((kilni_py_device *)self)->device;
}

static PyObject *open_device(const char *address)
{
    kiln_context *context = kilni_py_context();
    kiln_device *device = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    if (context == NULL) {
        return NULL;
    }
    KILNI_PY_CALL(status, &err, kiln_device_open(context, address, &device, &err));
    return status == KILN_STATUS_OK ? kilni_py_device_new(device) : kilni_py_raise(&err);
}

/// The default device, opened when it is first asked for.
static PyObject *default_device(void)
{
    if (kilni_py.device == NULL) {
        PyObject *opened = open_device(NULL);
        if (opened == NULL) {
            return NULL;
        }
        KILNI_PY_SET(kilni_py.device, opened); // another thread may have opened it meanwhile
    }
    return Py_NewRef(kilni_py.device);
}

/// A new reference to the device of a Device, an address or None.
static PyObject *as_device(PyObject *object)
{
    if (object == NULL || object == Py_None) {
        return default_device();
    }
    if (Py_TYPE(object) == kilni_py.device_type) {
        return Py_NewRef(object);
    }
    if (PyUnicode_Check(object)) {
        const char *address = PyUnicode_AsUTF8AndSize(object, NULL);
        return address != NULL ? open_device(address) : NULL;
    }
    return PyErr_Format(PyExc_TypeError,
                        "a device is a kiln.Device or an address such as \"opencl:0\", not %R",
                        object);
}

kiln_device *kilni_py_device_of(PyObject *object, PyObject **out_owner)
{
    *out_owner = as_device(object);
    return *out_owner != NULL ? device_of(*out_owner) : NULL;
}

static PyObject *device(PyObject *module, PyObject *args)
{
    PyObject *object = NULL;
    (void)module;
    return PyArg_ParseTuple(args, "|O:device", &object) ? as_device(object) : NULL;
}

static PyObject *set_default_device(PyObject *module, PyObject *object)
{
    (void)module;
    PyObject *opened = as_device(object);
    if (opened == NULL) {
        return NULL;
    }
    KILNI_PY_SET(kilni_py.device, opened);
    Py_RETURN_NONE;
}

static PyObject *describe_devices(PyObject *module, PyObject *nothing)
{
    PyObject *list = PyList_New(0);
    (void)module;
    (void)nothing;
    if (list == NULL || kilni_py_context() == NULL) {
        Py_XDECREF(list);
        return NULL;
    }
    for (size_t i = 0;; i++) {
        char address[64], line[192];
        kiln_error err = KILN_ERROR_INIT;
        kiln_status status = KILN_STATUS_OK;
        KILNI_PY_CALL(status, &err, kiln_device_describe(kilni_py.context, i, address, line, &err));
        if (status == KILN_STATUS_NOT_FOUND) {
            return list;
        }
        PyObject *row =
            status == KILN_STATUS_OK ? Py_BuildValue("(ss)", address, line) : kilni_py_raise(&err);
        if (row == NULL || PyList_Append(list, row) < 0) {
            Py_XDECREF(row);
            Py_DECREF(list);
            return NULL;
        }
        Py_DECREF(row);
    }
}

// ---- the type ----

static void dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    kiln_device *held = device_of(self);
    PyObject_Free(self);
    Py_DECREF(type);
    KILNI_PY_DO(kiln_device_release(held));
}

static PyObject *represent(PyObject *self)
{
    return PyUnicode_FromFormat("kiln.device('%s')", kiln_device_address(device_of(self)));
}

static PyObject *to_text(PyObject *self)
{
    return PyUnicode_FromString(kiln_device_address(device_of(self)));
}

static PyObject *compare(PyObject *self, PyObject *other, int how)
{
    if ((how != Py_EQ && how != Py_NE) || Py_TYPE(other) != kilni_py.device_type) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    return PyBool_FromLong((device_of(self) == device_of(other)) == (how == Py_EQ));
}

static Py_hash_t hash(PyObject *self)
{
    return (Py_hash_t)((uintptr_t)device_of(self) >> 4);
}

static PyObject *wait_for(PyObject *self, PyObject *nothing)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    (void)nothing;
    KILNI_PY_CALL(status, &err, kiln_sync(device_of(self), &err));
    kilni_py_drain();
    if (status != KILN_STATUS_OK) {
        return kilni_py_raise(&err);
    }
    Py_RETURN_NONE;
}

static PyObject *flush(PyObject *self, PyObject *nothing)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    (void)nothing;
    KILNI_PY_CALL(status, &err, kiln_flush(device_of(self), &err));
    if (status != KILN_STATUS_OK) {
        return kilni_py_raise(&err);
    }
    Py_RETURN_NONE;
}

static PyObject *seed(PyObject *self, PyObject *number)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    int64_t value = PyLong_AsLongLong(number);
    if (value == -1 && PyErr_Occurred()) {
        return NULL;
    }
    KILNI_PY_CALL(status, &err, kiln_seed(device_of(self), value, &err));
    if (status != KILN_STATUS_OK) {
        return kilni_py_raise(&err);
    }
    Py_RETURN_NONE;
}

static PyObject *set_fusion(PyObject *self, PyObject *on)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    int truth = PyObject_IsTrue(on);
    if (truth < 0) {
        return NULL;
    }
    KILNI_PY_CALL(status, &err, kiln_device_set_fusion(device_of(self), truth == 1, &err));
    if (status != KILN_STATUS_OK) {
        return kilni_py_raise(&err);
    }
    Py_RETURN_NONE;
}

static PyObject *supports(PyObject *self, PyObject *object)
{
    kiln_dtype dtype = kilni_py_dtype_of(object, device_of(self));
    return dtype == KILN_DTYPE_NONE
               ? NULL
               : PyBool_FromLong(kiln_device_supports_dtype(device_of(self), dtype));
}

static PyObject *trim(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    KILNI_PY_DO(kiln_device_trim(device_of(self)));
    Py_RETURN_NONE;
}

static PyObject *default_dtype(PyObject *self, PyObject *args)
{
    int floating = 0;
    if (!PyArg_ParseTuple(args, "p", &floating)) {
        return NULL;
    }
    kiln_dtype_kind kind = floating ? KILN_KIND_FLOAT : KILN_KIND_INT;
    return Py_NewRef(kilni_py.dtypes[kiln_device_default_dtype(device_of(self), kind)]);
}

static PyObject *get_address(PyObject *self, void *unused)
{
    (void)unused;
    return to_text(self);
}

static PyObject *get_name(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(kiln_device_info_of(device_of(self))->name);
}

static PyObject *get_stats(PyObject *self, void *unused)
{
    kiln_device_stats stats = KILN_DEVICE_STATS_INIT;
    (void)unused;
    KILNI_PY_DO(kiln_device_stats_get(device_of(self), &stats));
    return Py_BuildValue(
        "{s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K}", "ops_recorded", stats.ops_recorded,
        "ops_fused", stats.ops_fused, "blocks_fused", stats.blocks_fused, "plans_searched",
        stats.plans_searched, "plans_found", stats.plans_found, "tensors_live", stats.tensors_live,
        "bytes_live", stats.bytes_live, "bytes_arena", stats.bytes_arena, "bytes_used",
        stats.backend.bytes_used, "bytes_peak", stats.backend.bytes_peak, "bytes_pooled",
        stats.backend.bytes_pooled, "kernels_launched", stats.backend.kernels_launched);
}

static PyObject *reset_peaks(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    KILNI_PY_DO(kiln_device_reset_peaks(device_of(self)));
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"sync", wait_for, METH_NOARGS,
     "sync($self, /)\n--\n\nRuns what is queued on the device and waits for it."},
    {"flush", flush, METH_NOARGS,
     "flush($self, /)\n--\n\nEnqueues what this thread has recorded, and does not wait."},
    {"seed", seed, METH_O,
     "seed($self, number, /)\n--\n\nStarts the device's random numbers anew. Equal seeds give "
     "equal "
     "numbers on every device."},
    {"set_fusion", set_fusion, METH_O,
     "set_fusion($self, on, /)\n--\n\nTurns fusion off or on for what is recorded from now on."},
    {"supports", supports, METH_O,
     "supports($self, dtype, /)\n--\n\nWhether the device both stores the dtype and computes in "
     "it."},
    {"reset_peaks", reset_peaks, METH_NOARGS,
     "reset_peaks($self, /)\n--\n\nThe peaks in `stats` begin anew with what is held now."},
    {"trim", trim, METH_NOARGS,
     "trim($self, /)\n--\n\nGives unused pooled memory back to the device."},
    {"_default_dtype", default_dtype, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"address", get_address, NULL, "address by which it was opened, such as \"opencl:0\"", NULL},
    {"name", get_name, NULL, "what the driver calls it", NULL},
    {"stats", get_stats, NULL, "counters since it was opened, as a dict", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, (void *)dealloc},
    {Py_tp_repr, (void *)represent},
    {Py_tp_str, (void *)to_text},
    {Py_tp_richcompare, (void *)compare},
    {Py_tp_hash, (void *)hash},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_doc, "A device: where arrays live and operations run. kiln.device(address) opens one."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "kiln.Device",
    .basicsize = sizeof(kilni_py_device),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

static PyMethodDef functions[] = {
    {"device", device, METH_VARARGS,
     "device(address=None, /)\n--\n\nThe device with an address, such as \"opencl:0\", "
     "\"reference\" "
     "or\n\"grpc://127.0.0.1:3000\"; None: the default one. The same address gives the same "
     "device."},
    {"set_default_device", set_default_device, METH_O,
     "set_default_device(device, /)\n--\n\nWhere arrays are made from now on when nothing else is "
     "said."},
    {"_devices", describe_devices, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int kilni_py_device_init(PyObject *module)
{
    kilni_py.device_type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (kilni_py.device_type == NULL ||
        PyModule_AddObjectRef(module, "Device", (PyObject *)kilni_py.device_type) < 0) {
        return -1;
    }
    return PyModule_AddFunctions(module, functions);
}
