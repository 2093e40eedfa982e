// SPDX-License-Identifier: MIT OR Apache-2.0
// An optimiser whose state the members of a group share out, as an object. What users give it, the
// package decides (kiln/train.py).

#include "kiln_train.h"
#include "py_kiln.h"

enum { MAX_SETS = 64, MAX_GRADIENTS = 4096 };

typedef struct sharded_object {
    PyObject ob_base;
    kiln_sharded *sharded;
    PyObject *group; ///< held, as are the sets: they outlive the optimiser
    PyObject *sets;
} sharded_object;

static PyTypeObject *sharded_type;

static kiln_sharded *sharded_of(PyObject *self)
{
    return ((sharded_object *)self)->sharded;
}

static void end_sharded(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    sharded_object *object = (sharded_object *)self;
    KILNI_PY_DO(kiln_sharded_destroy(object->sharded));
    Py_DECREF(object->sets);
    Py_DECREF(object->group);
    PyObject_Free(self);
    Py_DECREF(type);
}

/// Sets of a tuple of kiln._kiln.Params, borrowed from it. -1: failed.
static int sets_of(PyObject *tuple, kiln_params **out_sets, size_t *out_count)
{
    Py_ssize_t count = PyTuple_Size(tuple);
    if (count > MAX_SETS) {
        PyErr_Format(PyExc_ValueError, "at most %d sets are possible", MAX_SETS);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        out_sets[i] = kilni_py_params_of(PyTuple_GetItem(tuple, i));
        if (out_sets[i] == NULL) {
            return -1;
        }
    }
    *out_count = (size_t)count;
    return 0;
}

static PyObject *make_sharded(PyObject *module, PyObject *args)
{
    PyObject *group_object = NULL, *sets_tuple = NULL, *rule_dict = NULL, *schedule_dict = NULL;
    kiln_schedule schedule = KILN_SCHEDULE_INIT;
    kiln_optimiser_options rule = KILN_OPTIMISER_OPTIONS_INIT;
    kiln_sharded_options options = KILN_SHARDED_OPTIONS_INIT;
    kiln_params *sets[MAX_SETS];
    kiln_sharded *sharded = NULL;
    unsigned long long bucket_bytes = 0;
    size_t count = 0, members = 0;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO!OOK", &group_object, &PyTuple_Type, &sets_tuple, &rule_dict,
                          &schedule_dict, &bucket_bytes) ||
        sets_of(sets_tuple, sets, &count) < 0 ||
        kilni_py_optimiser_options(rule_dict, schedule_dict, &schedule, &rule) < 0) {
        return NULL;
    }
    kiln_collective *group = kilni_py_group_of(group_object, &members);
    if (group == NULL) {
        return NULL;
    }
    options.optimiser = &rule;
    options.bucket_bytes = bucket_bytes;
    KILNI_PY_CALL(status, &err, kiln_sharded_create(group, sets, count, &options, &sharded, &err));
    sharded_object *made =
        status == KILN_STATUS_OK ? PyObject_New(sharded_object, sharded_type) : NULL;
    if (made == NULL) {
        KILNI_PY_DO(kiln_sharded_destroy(sharded));
        return status == KILN_STATUS_OK ? NULL : kilni_py_raise(&err);
    }
    made->sharded = sharded;
    made->group = Py_NewRef(group_object);
    made->sets = Py_NewRef(sets_tuple);
    return (PyObject *)made;
}

/// A list with an array, or None, for each parameter of each set, set by set.
static PyObject *step_sharded(PyObject *self, PyObject *gradients)
{
    kiln_tensor *tensors[MAX_GRADIENTS];
    size_t count = 0;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    if (kilni_py_some_tensors(gradients, tensors, MAX_GRADIENTS, &count) < 0) {
        return NULL;
    }
    KILNI_PY_CALL_WITH(status, &err, tensors, count,
                       kiln_sharded_step(sharded_of(self), tensors, count, &err));
    return kilni_py_done(status, &err);
}

/// `(member, path)`, with `use` of the member's optimiser and the path.
static PyObject *use_file(PyObject *self, PyObject *args,
                          kiln_status (*use)(kiln_optimiser *part, const char *path,
                                             kiln_error *err))
{
    PyObject *bytes = NULL;
    unsigned long member = 0;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    if (!PyArg_ParseTuple(args, "kO&", &member, PyUnicode_FSConverter, &bytes)) {
        return NULL;
    }
    kiln_optimiser *part = kiln_sharded_optimiser(sharded_of(self), member);
    const char *path = PyBytes_AsString(bytes);
    KILNI_PY_CALL(status, &err, use(part, path, &err));
    Py_DECREF(bytes);
    return kilni_py_done(status, &err);
}

static kiln_status save_part(kiln_optimiser *part, const char *path, kiln_error *err)
{
    return kiln_optimiser_save(part, path, err);
}

static PyObject *sharded_save(PyObject *self, PyObject *args)
{
    return use_file(self, args, save_part);
}

static PyObject *sharded_load(PyObject *self, PyObject *args)
{
    return use_file(self, args, kiln_optimiser_load);
}

static PyObject *sharded_steps(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(
        kiln_optimiser_steps(kiln_sharded_optimiser(sharded_of(self), 0)));
}

static PyObject *sharded_rate(PyObject *self, void *unused)
{
    (void)unused;
    return PyFloat_FromDouble(kiln_optimiser_rate(kiln_sharded_optimiser(sharded_of(self), 0)));
}

static PyMethodDef sharded_methods[] = {
    {"step", step_sharded, METH_O, NULL},
    {"save", sharded_save, METH_VARARGS, NULL},
    {"load", sharded_load, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef sharded_properties[] = {
    {"steps", sharded_steps, NULL, NULL, NULL},
    {"rate", sharded_rate, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot sharded_slots[] = {{Py_tp_dealloc, (void *)end_sharded},
                                      {Py_tp_methods, sharded_methods},
                                      {Py_tp_getset, sharded_properties},
                                      {0, NULL}};

static PyType_Spec sharded_spec = {
    .name = "kiln._kiln.Sharded",
    .basicsize = sizeof(sharded_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = sharded_slots,
};

static PyMethodDef sharded_functions[] = {
    {"_sharded", make_sharded, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int kilni_py_sharded_init(PyObject *module)
{
    sharded_type = (PyTypeObject *)PyType_FromSpec(&sharded_spec);
    return sharded_type == NULL ? -1 : PyModule_AddFunctions(module, sharded_functions);
}
