// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory in and out, and buffers, without a copy where the device shares the host's memory;
// DLPack's capsules are py_dlpack.c's. A device lets go of wrapped memory on any thread and under
// its lock, where nobody may ask for the GIL; what it lets go of is put on a list, which the next
// call on a Python thread empties.

#include "py_memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

// ---- memory that a device wraps ----

static _Atomic(kilni_py_owner *) unneeded;

void kilni_py_let_go(kilni_py_owner *one)
{
    if (one->give_back != NULL) {
        one->give_back(one->given);
    }
    if (one->view.obj != NULL) {
        PyBuffer_Release(&one->view);
    }
    free(one);
}

void kilni_py_drain(void)
{
    kilni_py_owner *list = atomic_load_explicit(&unneeded, memory_order_relaxed) == NULL
                               ? NULL
                               : atomic_exchange(&unneeded, NULL);
    while (list != NULL) {
        kilni_py_owner *next = list->next;
        kilni_py_let_go(list);
        list = next;
    }
}

static int drain_soon(void *unused)
{
    (void)unused;
    kilni_py_drain();
    return 0;
}

/// Called by Kiln on any thread.
static void not_needed(void *user)
{
    kilni_py_owner *one = user;
    one->next = atomic_load(&unneeded);
    while (!atomic_compare_exchange_weak(&unneeded, &one->next, one)) {
    }
    if (Py_IsInitialized()) {
        (void)Py_AddPendingCall(drain_soon, NULL); // a full queue: a later call does it
    }
}

bool kilni_py_aligned(const kiln_device *device, const void *memory)
{
    uint32_t align = kiln_device_info_of(device)->memory_align;
    return align == 0 || (uintptr_t)memory % align == 0;
}

// ---- in, from a buffer ----

/// An array that is a constant to a capture that goes on, for nothing was recorded.
static PyObject *array_of(kiln_tensor *take_tensor)
{
    PyObject *array = kilni_py_array_new(take_tensor);
    if (array != NULL) {
        ((kilni_py_array *)array)->capture = 0;
    }
    return array;
}

PyObject *kilni_py_create(kiln_device *device, kiln_dtype dtype, size_t rank, const int64_t *dims,
                          const void *data)
{
    kiln_tensor *tensor = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    KILNI_PY_CALL(status, &err, kiln_tensor_create(device, dtype, rank, dims, data, &tensor, &err));
    return status == KILN_STATUS_OK ? array_of(tensor) : kilni_py_raise(&err);
}

PyObject *kilni_py_wrap(kiln_device *device, kiln_dtype dtype, size_t rank, const int64_t *dims,
                        void *memory, kilni_py_owner *take_owner)
{
    kiln_tensor *tensor = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    KILNI_PY_CALL(
        status, &err,
        kiln_tensor_wrap(device, dtype, rank, dims, memory, not_needed, take_owner, &tensor, &err));
    if (status != KILN_STATUS_OK) {
        kilni_py_let_go(take_owner);
        return kilni_py_raise(&err);
    }
    return array_of(tensor);
}

PyObject *kilni_py_wrap_constant(kiln_device *device, kiln_dtype dtype, size_t rank,
                                 const int64_t *dims, const void *bytes, kilni_py_owner *take_owner)
{
    kiln_tensor *made = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    kiln_constant_memory memory = KILN_CONSTANT_MEMORY_INIT;
    memory.bytes = bytes;
    memory.release = not_needed;
    memory.user = take_owner;
    KILNI_PY_CALL(status, &err,
                  kiln_tensor_wrap_constant(device, dtype, rank, dims, &memory, &made, &err));
    if (status != KILN_STATUS_OK) {
        kilni_py_let_go(take_owner);
        return kilni_py_raise(&err);
    }
    return array_of(made);
}

/// A strided buffer's elements in row-major order.
static PyObject *create_packed(kiln_device *device, kiln_dtype dtype, const int64_t *dims,
                               Py_buffer *view)
{
    PyObject *made = NULL;
    void *packed = malloc(view->len > 0 ? (size_t)view->len : 1);
    if (packed == NULL) {
        return PyErr_NoMemory();
    }
    if (PyBuffer_ToContiguous(packed, view, view->len, 'C') == 0) {
        made = kilni_py_create(device, dtype, (size_t)view->ndim, dims, packed);
    }
    free(packed);
    return made;
}

PyObject *kilni_py_cannot_share(void)
{
    PyErr_SetString(
        PyExc_ValueError,
        "the memory cannot be used without a copy: it is not dense, not aligned, or the "
        "device has memory of its own; leave copy=False out");
    return NULL;
}

static PyObject *of_view(kiln_device *device, Py_buffer *view, bool share)
{
    int64_t dims[KILN_MAX_RANK];
    kiln_dtype dtype = kilni_py_dtype_of_format(view->format, view->itemsize);
    if (dtype == KILN_DTYPE_NONE) {
        return PyErr_Format(PyExc_TypeError, "a buffer of format '%s' has no dtype of Kiln",
                            view->format);
    }
    if (view->ndim > KILN_MAX_RANK) {
        return PyErr_Format(PyExc_ValueError, "an array of %d axes; Kiln has up to %d", view->ndim,
                            KILN_MAX_RANK);
    }
    for (int i = 0; i < view->ndim; i++) {
        dims[i] = view->shape[i];
    }
    bool whole = PyBuffer_IsContiguous(view, 'C');
    if (!share) {
        return whole ? kilni_py_create(device, dtype, (size_t)view->ndim, dims, view->buf)
                     : create_packed(device, dtype, dims, view);
    }
    if (!whole || !kilni_py_aligned(device, view->buf)) {
        return kilni_py_cannot_share();
    }
    kilni_py_owner *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return PyErr_NoMemory();
    }
    made->view = *view;
    view->obj = NULL; // the owner's from now on
    return kilni_py_wrap(device, dtype, (size_t)made->view.ndim, dims, made->view.buf, made);
}

static PyObject *from_buffer(PyObject *module, PyObject *args)
{
    PyObject *source = NULL, *object = NULL, *owner_of_device = NULL;
    int share = 0;
    Py_buffer view;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOp", &source, &object, &share)) {
        return NULL;
    }
    kilni_py_drain();
    kiln_device *device = kilni_py_device_of(object, &owner_of_device);
    if (device == NULL) {
        return NULL;
    }
    PyObject *made = NULL;
    if (PyObject_GetBuffer(source, &view, PyBUF_FULL_RO) == 0) {
        made = of_view(device, &view, share == 1);
        PyBuffer_Release(&view);
    }
    Py_DECREF(owner_of_device);
    return made;
}

static PyObject *from_bytes(PyObject *module, PyObject *args)
{
    PyObject *type = NULL, *shape = NULL, *object = NULL, *owner_of_device = NULL, *made = NULL;
    Py_buffer view;
    int64_t dims[KILN_MAX_RANK];
    size_t rank = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*OOO", &view, &type, &shape, &object)) {
        return NULL;
    }
    kiln_device *device = kilni_py_device_of(object, &owner_of_device);
    if (device != NULL && kilni_py_ints(shape, "shape", dims, KILN_MAX_RANK, &rank) == 0) {
        kiln_dtype dtype = kilni_py_dtype_of(type, device);
        int64_t bytes = (int64_t)kiln_dtype_size(dtype);
        for (size_t i = 0; i < rank; i++) {
            bytes *= dims[i];
        }
        if (dtype != KILN_DTYPE_NONE && bytes != (int64_t)view.len) {
            PyErr_Format(PyExc_ValueError, "%zd bytes for an array of %lld", view.len,
                         (long long)bytes);
        } else if (dtype != KILN_DTYPE_NONE) {
            made = kilni_py_create(device, dtype, rank, dims, view.buf);
        }
    }
    Py_XDECREF(owner_of_device);
    PyBuffer_Release(&view);
    return made;
}

// ---- out, as a buffer ----

typedef struct look {
    kiln_mapping *mapping;
    Py_ssize_t shape[KILN_MAX_RANK], strides[KILN_MAX_RANK];
} look;

kiln_status kilni_py_map(kiln_tensor *tensor, const void **out_data, kiln_mapping **out_mapping,
                         kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    KILNI_PY_CALL_WITH(status, err, &tensor, 1,
                       kiln_tensor_map(tensor, out_data, out_mapping, err));
    return status;
}

static void fill_view(Py_buffer *view, look *made, kiln_tensor *tensor, int flags)
{
    size_t rank = kiln_tensor_rank(tensor);
    kiln_dtype dtype = kiln_tensor_dtype(tensor);
    Py_ssize_t stride = (Py_ssize_t)kiln_dtype_size(dtype);
    for (size_t i = rank; i-- > 0;) {
        made->shape[i] = (Py_ssize_t)kiln_tensor_dims(tensor)[i];
        made->strides[i] = stride;
        stride *= made->shape[i];
    }
    view->itemsize = (Py_ssize_t)kiln_dtype_size(dtype);
    view->len = (Py_ssize_t)kiln_tensor_bytes(tensor);
    view->readonly = 1;
    view->ndim = (int)rank;
    view->format = (flags & PyBUF_FORMAT) != 0 ? (char *)(uintptr_t)kilni_py_format(dtype) : NULL;
    view->shape = (flags & PyBUF_ND) != 0 ? made->shape : NULL;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? made->strides : NULL;
    view->suboffsets = NULL;
    view->internal = made;
}

int kilni_py_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
    static const char nothing[1] = {0};
    kiln_tensor *tensor = kilni_py_tensor(self);
    kiln_error err = KILN_ERROR_INIT;
    const void *data = NULL;
    view->obj = NULL;
    if (kilni_py_format(kiln_tensor_dtype(tensor)) == NULL) {
        PyErr_Format(PyExc_BufferError, "there are no buffers of dtype %s; cast to float32 first",
                     kilni_py_dtype_name(kiln_tensor_dtype(tensor)));
        return -1;
    }
    if ((flags & PyBUF_WRITABLE) != 0) {
        PyErr_SetString(PyExc_BufferError, "the memory of an array cannot be written");
        return -1;
    }
    look *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (kiln_tensor_count(tensor) > 0 &&
        kilni_py_map(tensor, &data, &made->mapping, &err) != KILN_STATUS_OK) {
        free(made);
        kilni_py_raise(&err);
        return -1;
    }
    view->buf = data != NULL ? (void *)(uintptr_t)data : (void *)(uintptr_t)nothing;
    fill_view(view, made, tensor, flags);
    view->obj = Py_NewRef(self);
    return 0;
}

void kilni_py_releasebuffer(PyObject *self, Py_buffer *view)
{
    look *made = view->internal;
    (void)self;
    KILNI_PY_DO(kiln_mapping_release(made->mapping));
    free(made);
}

static PyMethodDef functions[] = {
    {"_from_buffer", from_buffer, METH_VARARGS, NULL},
    {"_from_bytes", from_bytes, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int kilni_py_memory_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
