// SPDX-License-Identifier: MIT OR Apache-2.0
// DLPack's capsules in and out, as version 1 of dlpack.h has them. How memory is wrapped, and who
// lets go of it, is py_memory.c's.

#include "py_memory.h"

#include <stdlib.h>
#include <string.h>

// ---- DLPack's structures (dlpack.h, version 1) ----

typedef struct dl_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed {
    dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *self);
} dl_managed;

typedef struct dl_versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct dl_versioned *self);
    uint64_t flags;
    dl_tensor tensor;
} dl_versioned;

enum { DL_CPU = 1, DL_OPENCL = 4, DL_READ_ONLY = 1, DL_COPIED = 2 };
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6 };

static bool dense(const dl_tensor *tensor)
{
    int64_t stride = 1;
    for (int32_t i = tensor->ndim; tensor->strides != NULL && i-- > 0;) {
        if (tensor->shape[i] != 1 && tensor->strides[i] != stride) {
            return false;
        }
        stride *= tensor->shape[i];
    }
    return true;
}

// ---- in, from DLPack ----

/// DLPack's codes of floats of 8 bits, since 1.1; of 4 bits it packs two into a byte.
static const struct {
    uint8_t code;
    kiln_dtype dtype;
} small_codes[] = {{10, KILN_DTYPE_F8E4M3FN},
                   {11, KILN_DTYPE_F8E4M3FNUZ},
                   {12, KILN_DTYPE_F8E5M2},
                   {13, KILN_DTYPE_F8E5M2FNUZ},
                   {14, KILN_DTYPE_F8E8M0}};
enum { SMALL_CODES = sizeof(small_codes) / sizeof(small_codes[0]) };

static kiln_dtype small_of_code(uint8_t code)
{
    for (size_t i = 0; i < SMALL_CODES; i++) {
        if (small_codes[i].code == code) {
            return small_codes[i].dtype;
        }
    }
    return KILN_DTYPE_NONE;
}

static int code_of_small(kiln_dtype dtype)
{
    for (size_t i = 0; i < SMALL_CODES; i++) {
        if (small_codes[i].dtype == dtype) {
            return small_codes[i].code;
        }
    }
    return -1;
}

static kiln_dtype dtype_of_dl(const dl_tensor *tensor)
{
    kiln_dtype_kind kind = KILN_KIND_NONE;
    if (tensor->lanes != 1) {
        return KILN_DTYPE_NONE;
    }
    switch (tensor->code) {
    case DL_INT:
        kind = KILN_KIND_INT;
        break;
    case DL_UINT:
        kind = KILN_KIND_UINT;
        break;
    case DL_FLOAT:
        kind = KILN_KIND_FLOAT;
        break;
    case DL_BFLOAT:
        return tensor->bits == 16 ? KILN_DTYPE_BF16 : KILN_DTYPE_NONE;
    case DL_BOOL:
        return tensor->bits == 8 ? KILN_DTYPE_BOOL : KILN_DTYPE_NONE;
    default:
        return tensor->bits == 8 ? small_of_code(tensor->code) : KILN_DTYPE_NONE;
    }
    for (int i = 1; i < KILN_DTYPE_LIMIT; i++) {
        if (i != KILN_DTYPE_BF16 && kiln_dtype_kind_of((kiln_dtype)i) == kind &&
            kiln_dtype_size((kiln_dtype)i) * 8 == tensor->bits) {
            return (kiln_dtype)i;
        }
    }
    return KILN_DTYPE_NONE;
}

/// Copies elements of `tensor` from `axis` on to `to`, dense; gives the end of what was written.
static char *pack(const dl_tensor *tensor, int32_t axis, const char *from, char *to, size_t size)
{
    if (axis == tensor->ndim) {
        memcpy(to, from, size);
        return to + size;
    }
    for (int64_t i = 0; i < tensor->shape[axis]; i++) {
        to = pack(tensor, axis + 1, from + i * tensor->strides[axis] * (int64_t)size, to, size);
    }
    return to;
}

static PyObject *copy_strided(kiln_device *device, kiln_dtype dtype, const dl_tensor *tensor)
{
    size_t size = kiln_dtype_size(dtype), bytes = size;
    for (int32_t i = 0; i < tensor->ndim; i++) {
        bytes *= (size_t)tensor->shape[i];
    }
    char *packed = malloc(bytes > 0 ? bytes : 1);
    if (packed == NULL) {
        return PyErr_NoMemory();
    }
    (void)pack(tensor, 0, (char *)tensor->data + tensor->byte_offset, packed, size);
    PyObject *made = kilni_py_create(device, dtype, (size_t)tensor->ndim, tensor->shape, packed);
    free(packed);
    return made;
}

/// By the host's memory: nothing says when the device needs a memory object no more.
static PyObject *copy_opencl(kiln_device *device, kiln_dtype dtype, const dl_tensor *tensor)
{
    void *data = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = kilni_py_read_opencl(device, tensor->data, tensor->byte_offset, dtype,
                                              (size_t)tensor->ndim, tensor->shape, &data, &err);
    PyObject *made = status == KILN_STATUS_OK
                         ? kilni_py_create(device, dtype, (size_t)tensor->ndim, tensor->shape, data)
                         : kilni_py_raise(&err);
    free(data);
    return made;
}

/// `how`: 0 copies, 1 shares where it can, 2 shares or fails, 3 makes a constant of dense memory.
static PyObject *of_dl(kiln_device *device, const dl_tensor *tensor, kilni_py_owner *take_owner,
                       int how)
{
    kiln_dtype dtype = dtype_of_dl(tensor);
    PyObject *made = NULL;
    if (dtype == KILN_DTYPE_NONE) {
        PyErr_Format(PyExc_BufferError,
                     "a DLPack tensor of code %d and %d bits has no dtype of Kiln", tensor->code,
                     tensor->bits);
    } else if (tensor->device_type != DL_CPU && tensor->device_type != DL_OPENCL) {
        PyErr_Format(PyExc_BufferError,
                     "a DLPack tensor of device type %d; Kiln takes the CPU's and OpenCL's",
                     tensor->device_type);
    } else if (tensor->ndim < 0 || tensor->ndim > KILN_MAX_RANK) {
        PyErr_Format(PyExc_BufferError, "a DLPack tensor of %d axes; Kiln has up to %d",
                     tensor->ndim, KILN_MAX_RANK);
    } else if (tensor->device_type == DL_OPENCL) {
        made = how == 2 || !dense(tensor) ? kilni_py_cannot_share()
                                          : copy_opencl(device, dtype, tensor);
    } else {
        char *memory = (char *)tensor->data + tensor->byte_offset;
        bool can = dense(tensor) && kilni_py_aligned(device, memory) && memory != NULL;
        if (how == 3 && dense(tensor) && memory != NULL) {
            return kilni_py_wrap_constant(device, dtype, (size_t)tensor->ndim, tensor->shape,
                                          memory, take_owner);
        }
        if (how > 0 && can) {
            return kilni_py_wrap(device, dtype, (size_t)tensor->ndim, tensor->shape, memory,
                                 take_owner);
        }
        made = how == 2 ? kilni_py_cannot_share()
               : dense(tensor)
                   ? kilni_py_create(device, dtype, (size_t)tensor->ndim, tensor->shape, memory)
                   : copy_strided(device, dtype, tensor);
    }
    kilni_py_let_go(take_owner);
    return made;
}

static void give_back_managed(void *given)
{
    dl_managed *managed = given;
    if (managed->deleter != NULL) {
        managed->deleter(managed);
    }
}

static void give_back_versioned(void *given)
{
    dl_versioned *versioned = given;
    if (versioned->deleter != NULL) {
        versioned->deleter(versioned);
    }
}

static PyObject *from_capsule(PyObject *module, PyObject *args)
{
    PyObject *capsule = NULL, *object = NULL, *owner_of_device = NULL, *made = NULL;
    int how = 1;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOi", &capsule, &object, &how)) {
        return NULL;
    }
    kilni_py_drain();
    bool versioned = PyCapsule_IsValid(capsule, "dltensor_versioned") == 1;
    const char *name = versioned ? "dltensor_versioned" : "dltensor";
    void *pointer = PyCapsule_GetPointer(capsule, name);
    kiln_device *device = pointer != NULL ? kilni_py_device_of(object, &owner_of_device) : NULL;
    kilni_py_owner *taken = device != NULL ? calloc(1, sizeof(*taken)) : NULL;
    if (device != NULL && taken == NULL) {
        PyErr_NoMemory();
    }
    if (taken != NULL && versioned && ((dl_versioned *)pointer)->major != 1) {
        free(taken);
        PyErr_SetString(PyExc_BufferError, "a DLPack tensor of another major version than 1");
    } else if (taken != NULL) {
        taken->given = pointer;
        taken->give_back = versioned ? give_back_versioned : give_back_managed;
        if (PyCapsule_SetName(capsule, versioned ? "used_dltensor_versioned" : "used_dltensor") ==
            0) {
            const dl_tensor *tensor =
                versioned ? &((dl_versioned *)pointer)->tensor : &((dl_managed *)pointer)->tensor;
            made = of_dl(device, tensor, taken, how);
        }
    }
    Py_XDECREF(owner_of_device);
    return made;
}

// ---- out, as DLPack ----

/// What a capsule's tensor needs. A consumer may delete it on any thread, without the GIL.
typedef struct exported {
    dl_managed managed;
    dl_versioned versioned;
    kiln_mapping *mapping; ///< of a view
    void *copy; ///< else
    void *lent; ///< a memory object of OpenCL, of `tensor`
    kiln_tensor *tensor;
    int64_t shape[KILN_MAX_RANK], strides[KILN_MAX_RANK];
} exported;

static void free_exported(exported *one)
{
    if (!kilni_py.forked) {
        kiln_mapping_release(one->mapping);
        if (one->lent != NULL) {
            kilni_py_unlend(one->lent);
        }
        kiln_release(one->tensor);
    }
    free(one->copy);
    free(one);
}

static void delete_managed(dl_managed *self)
{
    free_exported(self->context);
}

static void delete_versioned(dl_versioned *self)
{
    free_exported(self->context);
}

static void destroy_capsule(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor") == 1) {
        dl_managed *managed = PyCapsule_GetPointer(capsule, "dltensor");
        managed->deleter(managed);
    } else if (PyCapsule_IsValid(capsule, "dltensor_versioned") == 1) {
        dl_versioned *versioned = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        versioned->deleter(versioned);
    }
}

static int code_of(kiln_dtype dtype)
{
    switch (kiln_dtype_kind_of(dtype)) {
    case KILN_KIND_BOOL:
        return DL_BOOL;
    case KILN_KIND_UINT:
        return DL_UINT;
    case KILN_KIND_INT:
        return DL_INT;
    case KILN_KIND_FLOAT:
        return dtype == KILN_DTYPE_BF16 ? DL_BFLOAT : DL_FLOAT;
    default:
        return code_of_small(dtype);
    }
}

static dl_tensor describe(exported *one, kiln_tensor *tensor, void *data)
{
    size_t rank = kiln_tensor_rank(tensor);
    kiln_dtype dtype = kiln_tensor_dtype(tensor);
    int64_t stride = 1;
    for (size_t i = rank; i-- > 0;) {
        one->shape[i] = kiln_tensor_dims(tensor)[i];
        one->strides[i] = stride;
        stride *= one->shape[i];
    }
    return (dl_tensor){
        .data = data,
        .device_type = DL_CPU,
        .ndim = (int32_t)rank,
        .code = (uint8_t)code_of(dtype),
        .bits = (uint8_t)(kiln_dtype_size(dtype) * 8),
        .lanes = 1,
        .shape = one->shape,
        .strides = one->strides,
    };
}

static kiln_status export_value(exported *one, kiln_tensor *tensor, bool copied, void **out_data,
                                kiln_error *err)
{
    size_t bytes = kiln_tensor_bytes(tensor);
    const void *data = NULL;
    kiln_status status = KILN_STATUS_OK;
    if (!copied && bytes > 0) {
        status = kilni_py_map(tensor, &data, &one->mapping, err);
        *out_data = (void *)(uintptr_t)data;
        return status;
    }
    one->copy = malloc(bytes > 0 ? bytes : 1);
    *out_data = one->copy;
    if (one->copy == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %zu bytes", bytes);
    }
    KILNI_PY_CALL_WITH(status, err, &tensor, 1, kiln_read(tensor, one->copy, bytes, err));
    return status;
}

static kiln_status export_opencl(exported *one, kiln_tensor *tensor, uint64_t *out_offset,
                                 kiln_error *err)
{
    kiln_status status = kilni_py_lend(tensor, &one->lent, out_offset, err);
    one->tensor = status == KILN_STATUS_OK ? kiln_retain(tensor) : NULL;
    return status;
}

PyObject *kilni_py_dlpack(PyObject *self, PyObject *args)
{
    kiln_tensor *tensor = kilni_py_tensor(self);
    kiln_error err = KILN_ERROR_INIT;
    int versioned = 0, copied = 0, opencl = 0;
    void *data = NULL;
    uint64_t offset = 0;
    if (!PyArg_ParseTuple(args, "ppp", &versioned, &copied, &opencl)) {
        return NULL;
    }
    if (code_of(kiln_tensor_dtype(tensor)) < 0) {
        PyErr_SetString(PyExc_BufferError, "DLPack has no quantised tensors; dequantize it first");
        return NULL;
    }
    exported *one = calloc(1, sizeof(*one));
    if (one == NULL) {
        return PyErr_NoMemory();
    }
    if ((opencl ? export_opencl(one, tensor, &offset, &err)
                : export_value(one, tensor, copied == 1, &data, &err)) != KILN_STATUS_OK) {
        free_exported(one);
        return kilni_py_raise(&err);
    }
    one->managed = (dl_managed){describe(one, tensor, data), one, delete_managed};
    if (opencl) {
        one->managed.tensor.data = one->lent;
        one->managed.tensor.byte_offset = offset;
        one->managed.tensor.device_type = DL_OPENCL;
    }
    one->versioned = (dl_versioned){.major = 1,
                                    .context = one,
                                    .deleter = delete_versioned,
                                    .flags = copied && !opencl ? DL_COPIED : DL_READ_ONLY,
                                    .tensor = one->managed.tensor};
    PyObject *capsule = versioned
                            ? PyCapsule_New(&one->versioned, "dltensor_versioned", destroy_capsule)
                            : PyCapsule_New(&one->managed, "dltensor", destroy_capsule);
    if (capsule == NULL) {
        free_exported(one);
    }
    return capsule;
}

static PyMethodDef functions[] = {
    {"_from_capsule", from_capsule, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int kilni_py_dlpack_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
