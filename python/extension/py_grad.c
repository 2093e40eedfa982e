// SPDX-License-Identifier: MIT OR Apache-2.0
// Tapes as objects. A tape belongs to the thread that made it, which alone uses it; one that ends
// on another thread waits until its own makes or closes a tape. What a function's gradient is, the
// package decides (kiln/_grad.py).

#include "kiln_grad.h"
#include "py_kiln.h"

enum { MAX_LEAVES = 1024 };

typedef struct orphan {
    kiln_tape *tape;
    unsigned long thread;
    struct orphan *next;
} orphan;

typedef struct tape_object {
    PyObject ob_base;
    kiln_tape *tape; ///< NULL: closed
    orphan *place; ///< made with the tape, for one that ends on another thread
    unsigned long thread;
    unsigned busy; ///< calls that go on, in which functions in Python may run
} tape_object;

static PyTypeObject *tape_type;
static orphan *orphans; // guarded by the GIL
static _Thread_local unsigned open_tapes;

// ---- lives ----

/// Destroys what this thread left to other threads.
static void end_orphans(void)
{
    unsigned long thread = PyThread_get_thread_ident();
    for (orphan **link = &orphans; *link != NULL;) {
        orphan *found = *link;
        if (found->thread != thread) {
            link = &found->next;
            continue;
        }
        *link = found->next;
        open_tapes--;
        KILNI_PY_DO(kiln_tape_destroy(found->tape));
        PyMem_Free(found);
        link = &orphans; // others may have changed the list meanwhile
    }
}

static void end_tape(tape_object *object)
{
    kiln_tape *tape = object->tape;
    orphan *place = object->place;
    object->tape = NULL;
    object->place = NULL;
    if (tape == NULL) {
        return;
    }
    if (object->thread != PyThread_get_thread_ident()) {
        *place = (orphan){tape, object->thread, orphans};
        orphans = place;
        return;
    }
    PyMem_Free(place);
    open_tapes--;
    KILNI_PY_DO(kiln_tape_destroy(tape));
}

static void dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    end_tape((tape_object *)self);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *new_tape(kiln_tape *take_tape)
{
    orphan *place = PyMem_Malloc(sizeof(*place));
    tape_object *made = place != NULL ? PyObject_New(tape_object, tape_type) : NULL;
    if (made == NULL) {
        kiln_tape_destroy(take_tape);
        PyMem_Free(place);
        return PyErr_NoMemory();
    }
    made->tape = take_tape;
    made->place = place;
    made->thread = PyThread_get_thread_ident();
    made->busy = 0;
    open_tapes++;
    return (PyObject *)made;
}

static PyObject *create(PyObject *module, PyObject *object)
{
    PyObject *owner = NULL;
    kiln_tape *tape = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    (void)module;
    end_orphans();
    kiln_device *device = kilni_py_device_of(object, &owner);
    if (device == NULL) {
        return NULL;
    }
    KILNI_PY_CALL(status, &err, kiln_tape_create(device, &tape, &err));
    Py_DECREF(owner);
    return status == KILN_STATUS_OK ? new_tape(tape) : kilni_py_raise(&err);
}

/// The tape of an object that is open and of this thread; NULL: an exception is set.
static kiln_tape *tape_of(PyObject *self)
{
    const tape_object *object = (tape_object *)self;
    if (object->tape == NULL) {
        PyErr_SetString(PyExc_ValueError, "the tape is closed");
        return NULL;
    }
    if (object->thread != PyThread_get_thread_ident()) {
        PyErr_SetString(PyExc_RuntimeError, "a tape is used by the thread that made it");
        return NULL;
    }
    return object->tape;
}

/// As tape_of, for what must not happen while the tape calls a function.
static kiln_tape *idle_tape_of(PyObject *self)
{
    kiln_tape *tape = tape_of(self);
    if (tape != NULL && ((tape_object *)self)->busy > 0) {
        PyErr_SetString(PyExc_RuntimeError, "the tape is calling this very function");
        return NULL;
    }
    return tape;
}

static PyObject *close_tape(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    if (((tape_object *)self)->tape != NULL && ((tape_object *)self)->busy > 0) {
        return (PyObject *)idle_tape_of(self);
    }
    end_tape((tape_object *)self);
    end_orphans();
    Py_RETURN_NONE;
}

// ---- what a tape does ----

/// The tensor of an array, NULL of None. -1: it is neither.
static int optional_tensor(PyObject *object, kiln_tensor **out_tensor)
{
    *out_tensor = NULL;
    if (object == Py_None) {
        return 0;
    }
    if (!kilni_py_is_array(object)) {
        PyErr_Format(PyExc_TypeError, "%R is no array", object);
        return -1;
    }
    *out_tensor = kilni_py_tensor(object);
    return 0;
}

static PyObject *track(PyObject *self, PyObject *arrays)
{
    kiln_tensor *tensors[MAX_LEAVES];
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    size_t count = 0;
    kiln_tape *tape = tape_of(self);
    if (tape == NULL || kilni_py_tensors(arrays, tensors, MAX_LEAVES, &count) < 0) {
        return NULL;
    }
    for (size_t i = 0; i < count && status == KILN_STATUS_OK; i++) {
        KILNI_PY_CALL_WITH(status, &err, tensors + i, 1, kiln_tape_track(tape, tensors[i], &err));
    }
    if (status != KILN_STATUS_OK) {
        return kilni_py_raise(&err);
    }
    Py_RETURN_NONE;
}

static PyObject *tracks(PyObject *self, PyObject *array)
{
    kiln_tensor *tensor = NULL;
    kiln_tape *tape = tape_of(self);
    if (tape == NULL || optional_tensor(array, &tensor) < 0) {
        return NULL;
    }
    return PyBool_FromLong(kiln_tape_tracks(tape, tensor));
}

/// `loss` and `seed` of a call's arguments.
static int loss_of(PyObject *loss, PyObject *seed, kiln_tensor *out_tensors[2])
{
    return optional_tensor(loss, &out_tensors[0]) < 0 || optional_tensor(seed, &out_tensors[1]) < 0
               ? -1
               : 0;
}

static PyObject *backward(PyObject *self, PyObject *args)
{
    PyObject *loss = NULL, *seed = Py_None;
    kiln_tensor *tensors[2];
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    kiln_tape *tape = idle_tape_of(self);
    if (tape == NULL || !PyArg_ParseTuple(args, "O|O:backward", &loss, &seed) ||
        loss_of(loss, seed, tensors) < 0) {
        return NULL;
    }
    ((tape_object *)self)->busy++;
    KILNI_PY_CALL_WITH(status, &err, tensors, 2, kiln_backward(tape, tensors[0], tensors[1], &err));
    ((tape_object *)self)->busy--;
    if (status != KILN_STATUS_OK) {
        return kilni_py_raise_through(&err);
    }
    Py_RETURN_NONE;
}

static PyObject *gradient(PyObject *self, PyObject *array)
{
    kiln_tensor *tensor = NULL, *made = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    kiln_tape *tape = tape_of(self);
    if (tape == NULL || optional_tensor(array, &tensor) < 0) {
        return NULL;
    }
    KILNI_PY_CALL_WITH(status, &err, &tensor, 1, kiln_gradient(tape, tensor, &made, &err));
    return status == KILN_STATUS_OK ? kilni_py_array_new(made) : kilni_py_raise(&err);
}

static PyObject *gradients(PyObject *self, PyObject *args)
{
    PyObject *loss = NULL, *arrays = NULL, *seed = Py_None;
    kiln_tensor *tensors[MAX_LEAVES + 2], *made[MAX_LEAVES];
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    size_t count = 0;
    kiln_tape *tape = tape_of(self);
    if (tape == NULL || !PyArg_ParseTuple(args, "OO|O:gradients", &loss, &arrays, &seed) ||
        loss_of(loss, seed, tensors) < 0 ||
        kilni_py_tensors(arrays, tensors + 2, MAX_LEAVES, &count) < 0) {
        return NULL;
    }
    ((tape_object *)self)->busy++;
    KILNI_PY_CALL_WITH(
        status, &err, tensors, count + 2,
        kiln_gradients(tape, tensors[0], tensors[1], tensors + 2, count, made, &err));
    ((tape_object *)self)->busy--;
    return status == KILN_STATUS_OK ? kilni_py_list_of(made, count) : kilni_py_raise_through(&err);
}

static PyObject *pause_tape(PyObject *self, PyObject *on)
{
    kiln_tape *tape = tape_of(self);
    int truth = tape != NULL ? PyObject_IsTrue(on) : -1;
    if (truth < 0) {
        return NULL;
    }
    (truth == 1 ? kiln_tape_pause : kiln_tape_resume)(tape);
    Py_RETURN_NONE;
}

static PyObject *checkpoint(PyObject *self, PyObject *args)
{
    kiln_tape *tape = tape_of(self);
    if (tape == NULL) {
        return NULL;
    }
    ((tape_object *)self)->busy++;
    PyObject *made = kilni_py_checkpoint(tape, args);
    ((tape_object *)self)->busy--;
    return made;
}

static PyObject *custom(PyObject *self, PyObject *args)
{
    kiln_tape *tape = tape_of(self);
    return tape != NULL ? kilni_py_custom(tape, args) : NULL;
}

static PyObject *enter(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    return tape_of(self) != NULL ? Py_NewRef(self) : NULL;
}

static PyObject *leave(PyObject *self, PyObject *args)
{
    (void)args;
    return close_tape(self, NULL);
}

static PyMethodDef methods[] = {
    {"track", track, METH_O,
     "track($self, arrays, /)\n--\n\nTracks the arrays of a list: they get gradients, and so does "
     "what is computed from them."},
    {"tracks", tracks, METH_O,
     "tracks($self, array, /)\n--\n\nWhether the array is tracked, or computed from such arrays."},
    {"backward", backward, METH_VARARGS,
     "backward($self, loss, seed=None, /)\n--\n\nGoes back from the loss and adds to the "
     "gradients of what was given to track; then the tape\nforgets all operations. Without `seed` "
     "the loss has one element."},
    {"gradient", gradient, METH_O,
     "gradient($self, array, /)\n--\n\nWhat backward found for an array given to track; zeros when "
     "there was nothing."},
    {"gradients", gradients, METH_VARARGS,
     "gradients($self, loss, arrays, seed=None, /)\n--\n\nThe gradients of the loss for tracked "
     "arrays. The tape keeps all, and the gradients are\ntracked themselves."},
    {"_pause", pause_tape, METH_O, NULL},
    {"_checkpoint", checkpoint, METH_VARARGS, NULL},
    {"_custom", custom, METH_VARARGS, NULL},
    {"close", close_tape, METH_NOARGS,
     "close($self, /)\n--\n\nEnds the tape; nothing is tracked any more. `with` does it too."},
    {"__enter__", enter, METH_NOARGS, NULL},
    {"__exit__", leave, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, (void *)dealloc},
    {Py_tp_methods, methods},
    {Py_tp_doc, "Watches what its thread computes from tracked arrays, for gradients. kiln.tape() "
                "makes one."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "kiln.Tape",
    .basicsize = sizeof(tape_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

// ---- functions ----

static PyObject *taping(PyObject *module, PyObject *nothing)
{
    (void)module;
    (void)nothing;
    return PyBool_FromLong(open_tapes != 0);
}

static PyObject *detach(PyObject *module, PyObject *array)
{
    kiln_tensor *tensor = NULL, *made = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    (void)module;
    if (optional_tensor(array, &tensor) < 0) {
        return NULL;
    }
    KILNI_PY_CALL_WITH(status, &err, &tensor, 1, kiln_detach(tensor, &made, &err));
    return status == KILN_STATUS_OK ? kilni_py_array_new(made) : kilni_py_raise(&err);
}

static PyMethodDef functions[] = {
    {"_tape", create, METH_O, NULL},
    {"_taping", taping, METH_NOARGS, NULL},
    {"detach", detach, METH_O,
     "detach(array, /)\n--\n\nThe value as one that no tape tracks: gradients stop there. It takes "
     "no copy."},
    {NULL, NULL, 0, NULL},
};

int kilni_py_grad_init(PyObject *module)
{
    tape_type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (tape_type == NULL || PyModule_AddObjectRef(module, "Tape", (PyObject *)tape_type) < 0) {
        return -1;
    }
    return PyModule_AddFunctions(module, functions);
}
