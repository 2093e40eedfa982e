// SPDX-License-Identifier: MIT OR Apache-2.0
// Functions in Python that a tape calls: parts that are computed again, gradients in the caller's
// words. Decides how values and exceptions go through C; what the functions are is kiln/_grad.py's.

#include "kiln_grad.h"
#include "py_kiln.h"

enum { MAX_PART_INPUTS = 1024 };

/// An array that a part gets each time, however the handle changes meanwhile.
typedef struct part_input {
    kiln_tensor *tensor; ///< held
    uint64_t capture;
} part_input;

/// What a tape keeps of a function, until it needs it no more.
typedef struct callback {
    PyObject *function;
    size_t n_outputs; ///< of a custom gradient
    size_t n_inputs; ///< of it, or of a part
    part_input inputs[]; ///< of a part
} callback;

static callback *new_callback(PyObject *function, size_t n_inputs)
{
    callback *made = PyMem_Malloc(sizeof(*made) + n_inputs * sizeof(made->inputs[0]));
    if (made == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    *made = (callback){.function = Py_NewRef(function), .n_inputs = n_inputs};
    return made;
}

/// Called by a tape on its thread. An exception that is on its way stays.
static void drop_callback(callback *made, size_t n_held)
{
    PyObject *type = NULL, *value = NULL, *trace = NULL;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyErr_Fetch(&type, &value, &trace);
    Py_DECREF(made->function);
    for (size_t i = 0; i < n_held; i++) {
        KILNI_PY_DO(kiln_release(made->inputs[i].tensor));
    }
    PyMem_Free(made);
    PyErr_Restore(type, value, trace);
    PyGILState_Release(gil);
}

static void drop_part(void *user)
{
    drop_callback(user, ((callback *)user)->n_inputs);
}

static void drop_gradient(void *user)
{
    drop_callback(user, 0);
}

/// Of a call of a tape that failed: the exception of a function, or that of the status.
PyObject *kilni_py_raise_through(const kiln_error *err)
{
    return PyErr_Occurred() != NULL ? NULL : kilni_py_raise(err);
}

static kiln_status fail_raised(kiln_error *err)
{
    return kiln_fail(err, UNKNOWN, "a function that a tape called raised an exception");
}

/// Takes what a list of arrays and None has, each tensor held. -1: an exception is set.
static int hold_list(PyObject *list, size_t wanted, size_t most, kiln_tensor **out_tensors)
{
    Py_ssize_t count = PyList_Size(list);
    if (count < 0) {
        return -1;
    }
    if ((wanted != SIZE_MAX && (size_t)count != wanted) || (size_t)count > most) {
        PyErr_Format(PyExc_ValueError, "%zd arrays where there are to be %s%zu", count,
                     wanted != SIZE_MAX ? "" : "at most ", wanted != SIZE_MAX ? wanted : most);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *array = PyList_GetItem(list, i);
        if (array != Py_None && !kilni_py_is_array(array)) {
            PyErr_Format(PyExc_TypeError, "%R is no array", array);
            return -1;
        }
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *array = PyList_GetItem(list, i);
        out_tensors[i] = array != Py_None ? kiln_retain(kilni_py_tensor(array)) : NULL;
    }
    return 0;
}

/// Calls the function of `made` with a list, which it takes over, and holds what it gives.
static kiln_status call_function(const callback *made, PyObject *take_list, size_t wanted,
                                 size_t most, kiln_tensor **out_tensors, kiln_error *err)
{
    PyObject *given =
        take_list != NULL ? PyObject_CallFunctionObjArgs(made->function, take_list, NULL) : NULL;
    bool held = given != NULL && hold_list(given, wanted, most, out_tensors) == 0;
    Py_XDECREF(take_list);
    Py_XDECREF(given);
    return held ? KILN_STATUS_OK : fail_raised(err);
}

// ---- parts ----

static PyObject *inputs_of(const callback *part)
{
    PyObject *list = PyList_New((Py_ssize_t)part->n_inputs);
    for (size_t i = 0; list != NULL && i < part->n_inputs; i++) {
        PyObject *array = kilni_py_array_new(kiln_retain(part->inputs[i].tensor));
        if (array == NULL) {
            Py_CLEAR(list);
        } else {
            ((kilni_py_array *)array)->capture = part->inputs[i].capture;
            (void)PyList_SetItem(list, (Py_ssize_t)i, array);
        }
    }
    return list;
}

static kiln_status run_part(void *user, kiln_tensor *const *no_inputs, kiln_tensor **out_outputs,
                            kiln_error *err)
{
    const callback *part = user;
    (void)no_inputs;
    PyGILState_STATE gil = PyGILState_Ensure();
    kiln_status status =
        call_function(part, inputs_of(part), SIZE_MAX, KILN_MAX_OUTPUTS, out_outputs, err);
    PyGILState_Release(gil);
    return status;
}

PyObject *kilni_py_checkpoint(kiln_tape *tape, PyObject *args)
{
    PyObject *function = NULL, *arrays = NULL;
    kiln_tensor *tensors[MAX_PART_INPUTS], *made[KILN_MAX_OUTPUTS];
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    size_t count = 0;
    if (!PyArg_ParseTuple(args, "OO!", &function, &PyList_Type, &arrays) ||
        kilni_py_tensors(arrays, tensors, MAX_PART_INPUTS, &count) < 0) {
        return NULL;
    }
    callback *part = new_callback(function, count);
    if (part == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        const kilni_py_array *array = (kilni_py_array *)PyList_GetItem(arrays, (Py_ssize_t)i);
        part->inputs[i] = (part_input){kiln_retain(tensors[i]), array->capture};
    }
    // The part keeps its inputs itself, so there may be any number of them.
    KILNI_PY_CALL(status, &err,
                  kiln_tape_checkpoint(tape, run_part, drop_part, part, NULL, 0, made,
                                       KILN_MAX_OUTPUTS, &err));
    if (kilni_py.forked) {
        drop_part(part);
    }
    if (status != KILN_STATUS_OK) {
        return kilni_py_raise_through(&err);
    }
    for (count = 0; count < KILN_MAX_OUTPUTS && made[count] != NULL;) {
        count++;
    }
    return kilni_py_list_of(made, count);
}

// ---- gradients in the caller's words ----

static PyObject *gradients_of(const callback *custom, kiln_tensor *const *gradients)
{
    PyObject *list = PyList_New((Py_ssize_t)custom->n_outputs);
    for (size_t i = 0; list != NULL && i < custom->n_outputs; i++) {
        PyObject *array = gradients[i] != NULL ? kilni_py_array_new(kiln_retain(gradients[i]))
                                               : Py_NewRef(Py_None);
        if (array == NULL) {
            Py_CLEAR(list);
        } else {
            (void)PyList_SetItem(list, (Py_ssize_t)i, array);
        }
    }
    return list;
}

static kiln_status run_gradient(void *user, kiln_tensor *const *gradients,
                                kiln_tensor **out_gradients, kiln_error *err)
{
    const callback *custom = user;
    PyGILState_STATE gil = PyGILState_Ensure();
    kiln_status status = call_function(custom, gradients_of(custom, gradients), custom->n_inputs,
                                       KILN_MAX_INPUTS, out_gradients, err);
    PyGILState_Release(gil);
    return status;
}

PyObject *kilni_py_custom(kiln_tape *tape, PyObject *args)
{
    PyObject *from = NULL, *to = NULL, *function = NULL;
    kiln_tensor *inputs[KILN_MAX_INPUTS], *outputs[KILN_MAX_OUTPUTS];
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    size_t n_inputs = 0, n_outputs = 0;
    if (!PyArg_ParseTuple(args, "OOO", &from, &to, &function) ||
        kilni_py_tensors(from, inputs, KILN_MAX_INPUTS, &n_inputs) < 0 ||
        kilni_py_tensors(to, outputs, KILN_MAX_OUTPUTS, &n_outputs) < 0) {
        return NULL;
    }
    callback *custom = new_callback(function, 0);
    if (custom == NULL) {
        return NULL;
    }
    custom->n_inputs = n_inputs;
    custom->n_outputs = n_outputs;
    KILNI_PY_CALL(status, &err,
                  kiln_tape_custom(tape, inputs, n_inputs, outputs, n_outputs, run_gradient,
                                   drop_gradient, custom, &err));
    if (kilni_py.forked) {
        drop_gradient(custom);
    }
    return kilni_py_done(status, &err);
}
