// SPDX-License-Identifier: MIT OR Apache-2.0
// The module: statuses as exceptions, the process's context, the parts put together. What can be
// written in Python is in the package beside it.

#include "py_kiln.h"

#include <stdio.h>
#include <string.h>

kilni_py_state kilni_py;

// ---- errors ----

/// Exceptions of Python that a status also is, so that `except ValueError` works as expected.
static PyObject *builtin_of(int status)
{
    switch (status) {
    case KILN_STATUS_INVALID_ARGUMENT:
        return PyExc_ValueError;
    case KILN_STATUS_RESOURCE_EXHAUSTED:
        return PyExc_MemoryError;
    case KILN_STATUS_UNIMPLEMENTED:
        return PyExc_NotImplementedError;
    case KILN_STATUS_NOT_FOUND:
        return PyExc_LookupError;
    default:
        return NULL;
    }
}

static const struct {
    int status;
    const char *id;
    const char *name;
    const char *help;
} statuses[] = {
#define KILN_STATUS(id, code, name, help) {code, #id, name, help},
#include "status.def"
#undef KILN_STATUS
};

enum { N_STATUSES = sizeof(statuses) / sizeof(statuses[0]) };
static PyObject *errors[N_STATUSES]; // [0] is kiln.Error itself

/// INVALID_ARGUMENT becomes kiln.InvalidArgumentError.
static void name_error(const char *id, char *out_name)
{
    bool upper = true;
    out_name += snprintf(out_name, 8, "kiln.");
    for (; *id != '\0'; id++) {
        if (*id == '_') {
            upper = true;
            continue;
        }
        *out_name++ = upper ? *id : (char)(*id - 'A' + 'a');
        upper = false;
    }
    memcpy(out_name, "Error", sizeof("Error"));
}

static int add_error(PyObject *module, size_t i)
{
    char name[64] = "kiln.Error";
    const char *help = "What Kiln reports. `status` is its number, `reason` its name.";
    PyObject *bases = PyExc_RuntimeError;
    if (i > 0) {
        PyObject *builtin = builtin_of(statuses[i].status);
        name_error(statuses[i].id, name);
        help = statuses[i].help;
        bases = builtin == NULL ? PyTuple_Pack(1, errors[0]) : PyTuple_Pack(2, errors[0], builtin);
    }
    PyObject *members = Py_BuildValue("{s:i,s:s}", "status", statuses[i].status, "reason",
                                      i > 0 ? statuses[i].name : "");
    errors[i] = PyErr_NewExceptionWithDoc(name, help, bases, members);
    Py_XDECREF(members);
    if (i > 0) {
        Py_XDECREF(bases);
    }
    return errors[i] == NULL ? -1
                             : PyModule_AddObjectRef(module, name + strlen("kiln."), errors[i]);
}

PyObject *kilni_py_raise(const kiln_error *err)
{
    for (size_t i = 0; i < N_STATUSES; i++) {
        if (statuses[i].status == err->code && i > 0) {
            PyErr_SetString(errors[i], err->message);
            return NULL;
        }
    }
    PyErr_SetString(errors[0], err->message);
    return NULL;
}

// ---- context ----

kiln_context *kilni_py_context(void)
{
    kiln_context *made = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    if (kilni_py.context != NULL && !kilni_py.forked) {
        return kilni_py.context;
    }
    KILNI_PY_CALL(status, &err, kiln_context_create(NULL, &made, &err));
    if (status != KILN_STATUS_OK) {
        kilni_py_raise(&err);
        return NULL;
    }
    if (kilni_py.context == NULL) {
        kilni_py.context = made;
        made = NULL;
    }
    kiln_context_destroy(made); // another thread was quicker
    return kilni_py.context;
}

static PyObject *set_option(PyObject *module, PyObject *args)
{
    const char *name = NULL, *value = NULL;
    kiln_error err = KILN_ERROR_INIT;
    (void)module;
    if (!PyArg_ParseTuple(args, "ss:set_option", &name, &value) || kilni_py_context() == NULL) {
        return NULL;
    }
    if (kiln_context_set(kilni_py.context, name, value, &err) != KILN_STATUS_OK) {
        return kilni_py_raise(&err);
    }
    Py_RETURN_NONE;
}

/// At exit: what is still queued is enqueued, and the context ends with the last array.
static PyObject *close_all(PyObject *module, PyObject *nothing)
{
    kiln_context *context = kilni_py.context;
    (void)module;
    (void)nothing;
    kilni_py_drain();
    Py_CLEAR(kilni_py.device);
    kilni_py.context = NULL;
    KILNI_PY_DO(kiln_context_destroy(context));
    Py_RETURN_NONE;
}

kiln_status kilni_py_fail_forked(kiln_error *err)
{
    return kiln_fail(err, FAILED_PRECONDITION,
                     "this process was forked from one that already used Kiln, and the threads of "
                     "its devices are not in it; start processes by multiprocessing's \"spawn\"");
}

/// Called in every forked process.
static PyObject *note_fork(PyObject *module, PyObject *nothing)
{
    (void)module;
    (void)nothing;
    kilni_py.forked = kilni_py.context != NULL;
    Py_RETURN_NONE;
}

static PyObject *set_convert(PyObject *module, PyObject *function)
{
    (void)module;
    KILNI_PY_SET(kilni_py.convert, Py_NewRef(function));
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"set_option", set_option, METH_VARARGS,
     "set_option(name, value, /)\n--\n\nSets an option of Kiln, as --set NAME=VALUE does for the "
     "command `kiln`.\nMost count for what is opened afterwards: set them before the first array."},
    {"_forked", note_fork, METH_NOARGS, NULL},
    {"_close", close_all, METH_NOARGS, NULL},
    {"_set_convert", set_convert, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "kiln._kiln",
    .m_size = -1,
    .m_methods = functions,
};

static int fill(PyObject *module)
{
    for (size_t i = 0; i < N_STATUSES; i++) {
        if (add_error(module, i) < 0) {
            return -1;
        }
    }
    if (kilni_py_dtype_init(module) < 0 || kilni_py_device_init(module) < 0 ||
        kilni_py_array_init(module) < 0 || kilni_py_memory_init(module) < 0 ||
        kilni_py_dlpack_init(module) < 0 || kilni_py_operator_init(module) < 0 ||
        kilni_py_graph_init(module) < 0 || kilni_py_model_init(module) < 0 ||
        kilni_py_grad_init(module) < 0 || kilni_py_train_init(module) < 0 ||
        kilni_py_stream_init(module) < 0 || kilni_py_collective_init(module) < 0 ||
        kilni_py_sharded_init(module) < 0) {
        return -1;
    }
    return PyModule_AddStringConstant(module, "__version__", kiln_version());
}

PyMODINIT_FUNC PyInit__kiln(void);
PyMODINIT_FUNC PyInit__kiln(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL && fill(module) < 0) {
        Py_CLEAR(module);
    }
    return module;
}
