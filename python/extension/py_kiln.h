// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILNI_PY_KILN_H
#define KILNI_PY_KILN_H

/// The extension `kiln._kiln`: what its files share. It is built with Python's stable interface, so
/// that one binary serves every CPython from 3.11 on.
///
/// The caller holds the GIL. A function that fails has set a Python exception; pointers are NULL
/// then, and statuses not OK. Whatever may take a device's lock, wait or compute is called through
/// KILNI_PY_CALL, KILNI_PY_CALL_WITH or KILNI_PY_DO, without the GIL: the lock's holder may itself
/// be waiting for the GIL. In a process that was forked they call nothing, for the threads of the
/// devices are not in it.

#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>
#include <structmember.h>

#include "kiln.h"

/// Assigns a status: of the call, or that of a forked process.
#define KILNI_PY_CALL(status, err, call)                                                           \
    do {                                                                                           \
        if (kilni_py.forked) {                                                                     \
            (status) = kilni_py_fail_forked(err);                                                  \
        } else {                                                                                   \
            PyThreadState *kilni_py_thread = PyEval_SaveThread();                                  \
            (status) = (call);                                                                     \
            PyEval_RestoreThread(kilni_py_thread);                                                 \
        }                                                                                          \
    } while (0)

/// The same with tensors of arrays, which are held meanwhile: another thread may put other values
/// behind the handles.
#define KILNI_PY_CALL_WITH(status, err, tensors, count, call)                                      \
    do {                                                                                           \
        if (kilni_py.forked) {                                                                     \
            (status) = kilni_py_fail_forked(err);                                                  \
        } else {                                                                                   \
            kilni_py_hold((tensors), (count));                                                     \
            PyThreadState *kilni_py_thread = PyEval_SaveThread();                                  \
            (status) = (call);                                                                     \
            kilni_py_unhold((tensors), (count));                                                   \
            PyEval_RestoreThread(kilni_py_thread);                                                 \
        }                                                                                          \
    } while (0)

/// A call without a status.
#define KILNI_PY_DO(call)                                                                          \
    do {                                                                                           \
        if (!kilni_py.forked) {                                                                    \
            PyThreadState *kilni_py_thread = PyEval_SaveThread();                                  \
            call;                                                                                  \
            PyEval_RestoreThread(kilni_py_thread);                                                 \
        }                                                                                          \
    } while (0)

/// Puts an object, whose reference it takes, in the place of another.
#define KILNI_PY_SET(place, take_object)                                                           \
    do {                                                                                           \
        PyObject *kilni_py_old = (place);                                                          \
        (place) = (take_object);                                                                   \
        Py_XDECREF(kilni_py_old);                                                                  \
    } while (0)

/// A handle to a value. Assigning to elements puts another value behind the handle.
typedef struct kilni_py_array {
    PyObject ob_base;
    kiln_tensor *tensor; ///< held
    uint64_t capture; ///< number of the capture that it was recorded in; 0: of none
    PyObject *weakrefs;
} kilni_py_array;

typedef struct kilni_py_device {
    PyObject ob_base;
    kiln_device *device; ///< held
} kilni_py_device;

/// Of the process: an interpreter imports the extension once.
typedef struct kilni_py_state {
    PyTypeObject *array_type;
    PyTypeObject *device_type;
    PyTypeObject *dtype_type;
    PyObject *dtypes[KILN_DTYPE_LIMIT]; ///< one object for each
    PyObject *convert; ///< Python's asarray, for operands that are not arrays
    kiln_context *context; ///< made with the first device
    PyObject *device; ///< where nothing else is said; NULL: not opened yet
    bool forked; ///< from a process that had the context
} kilni_py_state;

extern kilni_py_state kilni_py;

// ---- errors and context (py_module.c) ----

/// Raises the exception of a status. Gives NULL.
PyObject *kilni_py_raise(const kiln_error *err);

/// None, or the exception of a call that failed.
static inline PyObject *kilni_py_done(kiln_status status, const kiln_error *err)
{
    return status == KILN_STATUS_OK ? Py_NewRef(Py_None) : kilni_py_raise(err);
}

/// The status of every call in a forked process.
kiln_status kilni_py_fail_forked(kiln_error *err);

/// The process's context; makes it when there is none yet.
kiln_context *kilni_py_context(void);

// ---- dtypes (py_dtype.c) ----

/// Adds the type and the dtypes to the module. -1: failed.
int kilni_py_dtype_init(PyObject *module);

/// A dtype from a dtype, its name, a NumPy dtype or type, or float, int, bool. NONE: failed.
kiln_dtype kilni_py_dtype_of(PyObject *object, const kiln_device *device);

/// The array API's promotion of two dtypes. Of an integer and a float: the float. NONE where there
/// is no such dtype; no exception is set.
kiln_dtype kilni_py_promote(kiln_dtype a, kiln_dtype b);

/// Format of a dtype in the buffer protocol; NULL for bf16 and what has no elements of bytes.
const char *kilni_py_format(kiln_dtype dtype);

/// The dtype of a buffer's format and element size; NONE for a format that Kiln has not.
kiln_dtype kilni_py_dtype_of_format(const char *format, Py_ssize_t itemsize);

/// The name by the array API, such as "float32".
const char *kilni_py_dtype_name(kiln_dtype dtype);

// ---- devices (py_device.c) ----

int kilni_py_device_init(PyObject *module);

/// Takes over the reference to `device`.
PyObject *kilni_py_device_new(kiln_device *take_device);

/// The device of a Device, an address, or None for the default. Borrowed from an object that
/// `*out_owner` holds.
kiln_device *kilni_py_device_of(PyObject *object, PyObject **out_owner);

// ---- arrays (py_array.c, py_memory.c, py_dlpack.c, py_number.c) ----

int kilni_py_array_init(PyObject *module);

/// Takes over the reference to `tensor`, also when it fails.
PyObject *kilni_py_array_new(kiln_tensor *take_tensor);

static inline kiln_tensor *kilni_py_tensor(PyObject *array)
{
    return ((kilni_py_array *)array)->tensor;
}

static inline void kilni_py_hold(kiln_tensor *const *tensors, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)kiln_retain(tensors[i]);
    }
}

/// Called without the GIL.
static inline void kilni_py_unhold(kiln_tensor *const *tensors, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        kiln_release(tensors[i]);
    }
}

static inline bool kilni_py_is_array(PyObject *object)
{
    return Py_TYPE(object) == kilni_py.array_type;
}

/// Lengths from an int or a sequence of ints. -1: failed.
int kilni_py_ints(PyObject *object, const char *what, int64_t *out_values, size_t capacity,
                  size_t *out_count);

/// The only element of an array as a Python number.
PyObject *kilni_py_array_item(PyObject *self, PyObject *nothing);

/// Add functions that make arrays of memory to the module.
int kilni_py_memory_init(PyObject *module);
int kilni_py_dlpack_init(PyObject *module);

/// An array with a copy of `data`, dense.
PyObject *kilni_py_create(kiln_device *device, kiln_dtype dtype, size_t rank, const int64_t *dims,
                          const void *data);

int kilni_py_getbuffer(PyObject *self, Py_buffer *view, int flags);
void kilni_py_releasebuffer(PyObject *self, Py_buffer *view);

/// `_dlpack(versioned, copy, opencl)`: a capsule of the value, or of its memory object.
PyObject *kilni_py_dlpack(PyObject *self, PyObject *args);

/// Lets go of memory that devices do not need any more.
void kilni_py_drain(void);

extern PyType_Slot kilni_py_number_slots[]; ///< ends with {0, NULL}

// ---- memory objects of OpenCL (py_opencl.c) ----

/// The memory object that a tensor lies in, and where; its value is there. The caller holds the
/// tensor, and the object (kilni_py_unlend).
kiln_status kilni_py_lend(kiln_tensor *tensor, void **out_memory, uint64_t *out_offset,
                          kiln_error *err);
void kilni_py_unlend(void *memory);

/// What a memory object has from byte `offset` on, in memory that the caller frees, also after a
/// failure.
kiln_status kilni_py_read_opencl(kiln_device *device, void *memory, uint64_t offset,
                                 kiln_dtype dtype, size_t rank, const int64_t *dims,
                                 void **out_data, kiln_error *err);

// ---- operators (py_operator.c) ----

/// Adds `operators`, a dict with a function for each row of the operator table.
int kilni_py_operator_init(PyObject *module);

/// Records an operator on arrays and Python numbers, promoted and cast as the row wants them, with
/// all attributes absent. Gives the array.
PyObject *kilni_py_operate(kiln_op op, PyObject *const *inputs, size_t n_inputs);

/// The default device's array of a number, or what asarray makes of another object.
PyObject *kilni_py_as_array(PyObject *object);

// ---- functions that tapes call (py_callback.c) ----

struct kiln_tape;

/// `_checkpoint(function, arrays)`: the function, from a list of arrays to one, is computed now,
/// and again on the way back.
PyObject *kilni_py_checkpoint(struct kiln_tape *tape, PyObject *args);

/// `_custom(inputs, outputs, function)`: the function goes from gradients to gradients.
PyObject *kilni_py_custom(struct kiln_tape *tape, PyObject *args);

/// The exception of a function that a tape called, or else that of the status. Gives NULL.
PyObject *kilni_py_raise_through(const kiln_error *err);

// ---- groups, parameters and optimisers (py_collective.c, py_train.c) ----

struct kiln_params;
struct kiln_optimiser_options;
struct kiln_schedule;

/// What an object has, borrowed. NULL: an exception says that it has none.
kiln_collective *kilni_py_group_of(PyObject *object, size_t *out_members);
struct kiln_params *kilni_py_params_of(PyObject *object);

/// Fills options from dicts by the names of their members. -1: failed. `out_schedule` lives as long
/// as `out_options`.
int kilni_py_optimiser_options(PyObject *options, PyObject *schedule,
                               struct kiln_schedule *out_schedule,
                               struct kiln_optimiser_options *out_options);

/// Tensors of a list of arrays and None, borrowed. -1: failed.
int kilni_py_some_tensors(PyObject *list, kiln_tensor **out_tensors, size_t capacity,
                          size_t *out_count);

// ---- graphs and models (py_graph.c, py_model.c) ----

/// The capture that this thread is in; 0: none.
uint64_t kilni_py_capture(void);

int kilni_py_graph_init(PyObject *module);
int kilni_py_model_init(PyObject *module);
int kilni_py_grad_init(PyObject *module);
int kilni_py_train_init(PyObject *module);
int kilni_py_sharded_init(PyObject *module);
int kilni_py_stream_init(PyObject *module);
int kilni_py_collective_init(PyObject *module);

/// Tensors of a sequence of arrays, borrowed from it. -1: failed.
int kilni_py_tensors(PyObject *arrays, kiln_tensor **out_tensors, size_t capacity,
                     size_t *out_count);

/// A list that takes over the references to the tensors, also when it fails.
PyObject *kilni_py_list_of(kiln_tensor **take_tensors, size_t count);

#endif
