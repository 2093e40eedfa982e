// SPDX-License-Identifier: MIT OR Apache-2.0
// Groups of devices and jobs that average gradients, as objects. Results are resolved before they
// are given: their devices wait, the thread does not. What a member is, the package decides
// (kiln/collective.py).

#include "collective.h"
#include "py_kiln.h"

#include <string.h>

enum { MAX_MEMBERS = 64, MAX_PARAMS = 4096 };

typedef struct group_object {
    PyObject ob_base;
    kiln_collective *group;
    size_t members; ///< devices of this process
} group_object;

typedef struct job_object {
    PyObject ob_base;
    kiln_gradsync *job; ///< held
} job_object;

static PyTypeObject *group_type;
static PyTypeObject *job_type;

/// Devices of a list of kiln.Device, borrowed from it. -1: failed.
static int devices_of(PyObject *list, kiln_device **out_devices, size_t *out_count)
{
    Py_ssize_t count = PyList_Check(list) ? PyList_Size(list) : -1;
    if (count < 1 || count > MAX_MEMBERS) {
        PyErr_Format(PyExc_ValueError, "a group has 1 to %d devices", MAX_MEMBERS);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *device = PyList_GetItem(list, i);
        if (Py_TYPE(device) != kilni_py.device_type) {
            PyErr_Format(PyExc_TypeError, "%R is no kiln.Device", device);
            return -1;
        }
        out_devices[i] = ((kilni_py_device *)device)->device;
    }
    *out_count = (size_t)count;
    return 0;
}

/// Seconds as nanoseconds. -1: they are no time to wait.
static int deadline_of(double seconds, uint64_t *out_ns)
{
    if (!(seconds > 0 && seconds < 1e9)) {
        PyErr_SetString(PyExc_ValueError, "a deadline is a number of seconds above 0");
        return -1;
    }
    *out_ns = (uint64_t)(seconds * 1e9);
    return 0;
}

// ---- groups ----

static void end_group(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    kiln_collective *group = ((group_object *)self)->group;
    PyObject_Free(self);
    Py_DECREF(type);
    KILNI_PY_DO(kiln_collective_destroy(group));
}

static PyObject *new_group(kiln_collective *take_group)
{
    group_object *made = PyObject_New(group_object, group_type);
    if (made == NULL) {
        KILNI_PY_DO(kiln_collective_destroy(take_group));
        return NULL;
    }
    made->group = take_group;
    made->members = 0;
    while (kiln_collective_member(take_group, made->members, NULL) != NULL) {
        made->members++;
    }
    return (PyObject *)made;
}

static PyObject *make_group(PyObject *module, PyObject *args)
{
    PyObject *list = NULL;
    int over_mpi = 0;
    double deadline_s = 0;
    kiln_device *devices[MAX_MEMBERS];
    kiln_collective *group = NULL;
    kiln_coll_group_options options = KILN_COLL_GROUP_OPTIONS_INIT;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    size_t count = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "Opd", &list, &over_mpi, &deadline_s) ||
        deadline_of(deadline_s, &options.deadline_ns) < 0 ||
        devices_of(list, devices, &count) < 0) {
        return NULL;
    }
    KILNI_PY_CALL(status, &err,
                  (over_mpi ? kiln_collective_create_mpi
                            : kiln_collective_create)(devices, count, &options, &group, &err));
    return status == KILN_STATUS_OK ? new_group(group) : kilni_py_raise(&err);
}

kiln_collective *kilni_py_group_of(PyObject *object, size_t *out_members)
{
    if (Py_TYPE(object) != group_type) {
        PyErr_Format(PyExc_TypeError, "%R is no group of devices", object);
        return NULL;
    }
    *out_members = ((group_object *)object)->members;
    return ((group_object *)object)->group;
}

/// A list with an array for each tensor, None where there is none; all of them resolved.
static PyObject *resolved(kiln_tensor **take_tensors, size_t count)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < count && status == KILN_STATUS_OK; i++) {
        if (take_tensors[i] != NULL) {
            KILNI_PY_CALL(status, &err, kiln_collective_resolve(take_tensors[i], &err));
        }
    }
    if (status != KILN_STATUS_OK) {
        KILNI_PY_DO(kilni_py_unhold(take_tensors, count));
        return kilni_py_raise(&err);
    }
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; i < count; i++) {
        PyObject *array =
            take_tensors[i] != NULL ? kilni_py_array_new(take_tensors[i]) : Py_NewRef(Py_None);
        if (array == NULL || list == NULL) {
            Py_XDECREF(array);
            Py_CLEAR(list);
        } else {
            (void)PyList_SetItem(list, (Py_ssize_t)i, array);
        }
    }
    return list;
}

typedef struct group_call {
    const char *what; ///< a name of collective.h
    const char *op;
    unsigned root;
} group_call;

static kiln_status run_call(kiln_collective *group, const group_call *call,
                            kiln_tensor *const *inputs, kiln_tensor **made, kiln_error *err)
{
    if (strcmp(call->what, "all_reduce") == 0) {
        return kiln_collective_all_reduce(group, inputs, call->op, made, err);
    }
    if (strcmp(call->what, "reduce") == 0) {
        return kiln_collective_reduce(group, inputs, call->op, call->root, made, err);
    }
    if (strcmp(call->what, "broadcast") == 0) {
        return kiln_collective_broadcast(group, inputs, call->root, made, err);
    }
    if (strcmp(call->what, "all_gather") == 0) {
        return kiln_collective_all_gather(group, inputs, made, err);
    }
    if (strcmp(call->what, "reduce_scatter") == 0) {
        return kiln_collective_reduce_scatter(group, inputs, call->op, made, err);
    }
    if (strcmp(call->what, "gather") == 0) {
        return kiln_collective_gather(group, inputs, call->root, made, err);
    }
    if (strcmp(call->what, "scatter") == 0) {
        return kiln_collective_scatter(group, inputs, call->root, made, err);
    }
    if (strcmp(call->what, "all_to_all") == 0) {
        return kiln_collective_all_to_all(group, inputs, made, err);
    }
    return kiln_fail(err, INVALID_ARGUMENT, "there is no collective %s", call->what);
}

static PyObject *call_group(PyObject *self, PyObject *args)
{
    const group_object *object = (group_object *)self;
    PyObject *list = NULL;
    group_call call = {NULL, NULL, 0};
    kiln_tensor *inputs[MAX_MEMBERS], *made[MAX_MEMBERS] = {NULL};
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    size_t count = 0;
    if (!PyArg_ParseTuple(args, "sOsI", &call.what, &list, &call.op, &call.root) ||
        kilni_py_tensors(list, inputs, MAX_MEMBERS, &count) < 0) {
        return NULL;
    }
    if (count != object->members) {
        return PyErr_Format(PyExc_ValueError, "%zu arrays for a group of %zu devices", count,
                            object->members);
    }
    KILNI_PY_CALL_WITH(status, &err, inputs, count,
                       run_call(object->group, &call, inputs, made, &err));
    return status == KILN_STATUS_OK ? resolved(made, count) : kilni_py_raise(&err);
}

// ---- parts, and messages between two ----

/// As many numbers as the group has members here. -1: failed.
static int numbers_of(PyObject *list, const char *what, size_t members, int32_t *out_numbers)
{
    int64_t wide[MAX_MEMBERS];
    size_t count = 0;
    if (kilni_py_ints(list, what, wide, MAX_MEMBERS, &count) < 0) {
        return -1;
    }
    for (size_t i = 0; i < count; i++) {
        if (wide[i] != (int32_t)wide[i]) {
            PyErr_Format(PyExc_ValueError, "%s: a number beyond 32 bits", what);
            return -1;
        }
        out_numbers[i] = (int32_t)wide[i];
    }
    if (count != members) {
        PyErr_Format(PyExc_ValueError, "%zu %s for a group of %zu devices", count, what, members);
        return -1;
    }
    return 0;
}

/// A part, and for each device of it in this process which member of the group has it.
static PyObject *part_of(const kiln_collective *group, kiln_collective *take_part)
{
    kiln_device *device = NULL;
    PyObject *indices = PyList_New(0);
    for (size_t i = 0; (device = kiln_collective_member(take_part, i, NULL)) != NULL; i++) {
        size_t member = 0;
        while (kiln_collective_member(group, member, NULL) != device) {
            member++;
        }
        PyObject *index = PyLong_FromSize_t(member);
        if (index == NULL || indices == NULL || PyList_Append(indices, index) < 0) {
            Py_CLEAR(indices);
        }
        Py_XDECREF(index);
    }
    PyObject *made = new_group(take_part);
    PyObject *pair = made != NULL && indices != NULL ? PyTuple_Pack(2, made, indices) : NULL;
    Py_XDECREF(made);
    Py_XDECREF(indices);
    return pair;
}

/// For each member the tuple of its part and which members' devices it has, the same one for those
/// of one part; or None. Takes the parts over.
static PyObject *list_parts(kiln_collective *group, kiln_collective **take_parts, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; i < count; i++) {
        size_t first = 0;
        while (take_parts[first] != take_parts[i]) {
            first++;
        }
        PyObject *part = Py_NewRef(Py_None);
        if (take_parts[i] != NULL && first < i) { // a hold of what is listed
            KILNI_PY_DO(kiln_collective_destroy(take_parts[i]));
            Py_DECREF(part);
            part = list != NULL ? Py_NewRef(PyList_GetItem(list, (Py_ssize_t)first)) : NULL;
        } else if (take_parts[i] != NULL) {
            Py_DECREF(part);
            part = part_of(group, take_parts[i]);
        }
        if (part == NULL || list == NULL) {
            Py_XDECREF(part);
            Py_CLEAR(list);
        } else {
            (void)PyList_SetItem(list, (Py_ssize_t)i, part);
        }
    }
    return list;
}

static PyObject *split_group(PyObject *self, PyObject *args)
{
    const group_object *object = (group_object *)self;
    PyObject *colour_list = NULL, *key_list = NULL;
    int32_t colours[MAX_MEMBERS], keys[MAX_MEMBERS];
    kiln_collective *parts[MAX_MEMBERS];
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    if (!PyArg_ParseTuple(args, "OO", &colour_list, &key_list) ||
        numbers_of(colour_list, "colours", object->members, colours) < 0 ||
        (key_list != Py_None && numbers_of(key_list, "keys", object->members, keys) < 0)) {
        return NULL;
    }
    KILNI_PY_CALL(status, &err,
                  kiln_collective_split(object->group, colours, key_list != Py_None ? keys : NULL,
                                        parts, &err));
    return status == KILN_STATUS_OK ? list_parts(object->group, parts, object->members)
                                    : kilni_py_raise(&err);
}

static PyObject *send_array(PyObject *self, PyObject *args)
{
    PyObject *array = NULL;
    unsigned from = 0, to = 0;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    kiln_collective *group = ((group_object *)self)->group;
    if (!PyArg_ParseTuple(args, "O!II", kilni_py.array_type, &array, &from, &to)) {
        return NULL;
    }
    kiln_tensor *tensor = kilni_py_tensor(array);
    KILNI_PY_CALL_WITH(status, &err, &tensor, 1,
                       kiln_collective_send(group, tensor, from, to, &err));
    return kilni_py_done(status, &err);
}

static PyObject *receive_array(PyObject *self, PyObject *args)
{
    PyObject *like = NULL;
    unsigned from = 0, to = 0;
    kiln_tensor *made = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    kiln_collective *group = ((group_object *)self)->group;
    if (!PyArg_ParseTuple(args, "O!II", kilni_py.array_type, &like, &from, &to)) {
        return NULL;
    }
    kiln_tensor *tensor = kilni_py_tensor(like);
    KILNI_PY_CALL_WITH(status, &err, &tensor, 1,
                       kiln_collective_receive(group, tensor, from, to, &made, &err));
    if (status != KILN_STATUS_OK) {
        return kilni_py_raise(&err);
    }
    KILNI_PY_CALL(status, &err, kiln_collective_resolve(made, &err));
    if (status != KILN_STATUS_OK) {
        KILNI_PY_DO(kilni_py_unhold(&made, 1));
        return kilni_py_raise(&err);
    }
    return kilni_py_array_new(made);
}

/// Records an all-reduce of a member, or the wait for what it gives.
static PyObject *begin_reduce(PyObject *self, PyObject *args)
{
    PyObject *array = NULL;
    const char *op = NULL;
    unsigned member = 0;
    kiln_tensor *made = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    kiln_collective *group = ((group_object *)self)->group;
    if (!PyArg_ParseTuple(args, "O!sI", kilni_py.array_type, &array, &op, &member)) {
        return NULL;
    }
    kiln_tensor *tensor = kilni_py_tensor(array);
    KILNI_PY_CALL_WITH(status, &err, &tensor, 1,
                       kiln_all_reduce(tensor, op, kiln_collective_id(group), member, &made, &err));
    return status == KILN_STATUS_OK ? kilni_py_array_new(made) : kilni_py_raise(&err);
}

static PyObject *end_reduce(PyObject *self, PyObject *array)
{
    kiln_tensor *made = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    (void)self;
    if (!kilni_py_is_array(array)) {
        return PyErr_Format(PyExc_TypeError, "%R is no array", array);
    }
    kiln_tensor *tensor = kilni_py_tensor(array);
    KILNI_PY_CALL_WITH(status, &err, &tensor, 1, kiln_collective_sync(tensor, &made, &err));
    return status == KILN_STATUS_OK ? kilni_py_array_new(made) : kilni_py_raise(&err);
}

static PyObject *barrier(PyObject *self, PyObject *nothing)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    (void)nothing;
    KILNI_PY_CALL(status, &err, kiln_collective_barrier(((group_object *)self)->group, &err));
    return kilni_py_done(status, &err);
}

static PyObject *get_ranks(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(kiln_collective_ranks(((group_object *)self)->group));
}

static PyObject *get_rank(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(kiln_collective_rank(((group_object *)self)->group));
}

// ---- gradients that are averaged as they become ready ----

static void end_job(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    kiln_gradsync *job = ((job_object *)self)->job;
    PyObject_Free(self);
    Py_DECREF(type);
    KILNI_PY_DO(kiln_gradsync_release(job));
}

static PyObject *start_job(PyObject *module, PyObject *args)
{
    PyObject *list = NULL;
    const char *name = NULL;
    int over_mpi = 0;
    double deadline_s = 0;
    kiln_device *devices[MAX_MEMBERS];
    kiln_gradsync *job = NULL;
    kiln_gradsync_options options = KILN_GRADSYNC_OPTIONS_INIT;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    size_t count = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "sOspd", &name, &list, &options.op, &over_mpi, &deadline_s) ||
        deadline_of(deadline_s, &options.deadline_ns) < 0 ||
        devices_of(list, devices, &count) < 0) {
        return NULL;
    }
    options.over_mpi = over_mpi != 0;
    KILNI_PY_CALL(
        status, &err,
        kiln_gradsync_start(kilni_py.context, name, devices, count, &options, &job, &err));
    job_object *made = status == KILN_STATUS_OK ? PyObject_New(job_object, job_type) : NULL;
    if (made == NULL) {
        kiln_gradsync_release(job);
        return status == KILN_STATUS_OK ? NULL : kilni_py_raise(&err);
    }
    made->job = job;
    return (PyObject *)made;
}

static PyObject *remove_job(PyObject *module, PyObject *args)
{
    const char *name = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    (void)module;
    if (!PyArg_ParseTuple(args, "s", &name)) {
        return NULL;
    }
    KILNI_PY_CALL(status, &err, kiln_gradsync_remove(kilni_py.context, name, &err));
    return kilni_py_done(status, &err);
}

static PyObject *register_ids(PyObject *self, PyObject *args)
{
    PyObject *list = NULL;
    unsigned member = 0;
    kiln_param_id ids[MAX_PARAMS];
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    if (!PyArg_ParseTuple(args, "IO!", &member, &PyList_Type, &list)) {
        return NULL;
    }
    Py_ssize_t count = PyList_Size(list);
    if (count > MAX_PARAMS) {
        return PyErr_Format(PyExc_ValueError, "at most %d parameters are possible", MAX_PARAMS);
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        ids[i] = PyLong_AsUnsignedLongLong(PyList_GetItem(list, i));
        if (PyErr_Occurred()) {
            return NULL;
        }
    }
    KILNI_PY_CALL(
        status, &err,
        kiln_gradsync_register(((job_object *)self)->job, member, ids, (size_t)count, &err));
    return kilni_py_done(status, &err);
}

/// Submits, or with `add` accumulates, a gradient. Its tensor gets the parameter's number.
static PyObject *submit(PyObject *self, PyObject *args)
{
    PyObject *array = NULL;
    unsigned member = 0;
    unsigned long long id = 0;
    int add = 0;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    kiln_gradsync *job = ((job_object *)self)->job;
    if (!PyArg_ParseTuple(args, "IKO!p", &member, &id, kilni_py.array_type, &array, &add)) {
        return NULL;
    }
    kiln_tensor *tensor = kilni_py_tensor(array);
    kiln_tensor_set_param(tensor, id);
    KILNI_PY_CALL_WITH(
        status, &err, &tensor, 1,
        (add ? kiln_gradsync_accumulate : kiln_gradsync_submit)(job, member, tensor, &err));
    return kilni_py_done(status, &err);
}

static PyObject *sync_member(PyObject *self, PyObject *args)
{
    unsigned member = 0;
    int finish = 0;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    kiln_gradsync *job = ((job_object *)self)->job;
    if (!PyArg_ParseTuple(args, "Ip", &member, &finish)) {
        return NULL;
    }
    KILNI_PY_CALL(status, &err,
                  (finish ? kiln_gradsync_finish : kiln_gradsync_sync)(job, member, &err));
    return kilni_py_done(status, &err);
}

static PyObject *reduced(PyObject *self, PyObject *args)
{
    unsigned member = 0;
    unsigned long long id = 0;
    kiln_tensor *made = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    kiln_gradsync *job = ((job_object *)self)->job;
    if (!PyArg_ParseTuple(args, "IK", &member, &id)) {
        return NULL;
    }
    KILNI_PY_CALL(status, &err, kiln_gradsync_gradient(job, member, id, &made, &err));
    return status == KILN_STATUS_OK ? kilni_py_array_new(made) : kilni_py_raise(&err);
}

// ---- the types ----

static PyMethodDef group_methods[] = {
    {"call", call_group, METH_VARARGS, NULL},    {"split", split_group, METH_VARARGS, NULL},
    {"send", send_array, METH_VARARGS, NULL},    {"receive", receive_array, METH_VARARGS, NULL},
    {"begin", begin_reduce, METH_VARARGS, NULL}, {"end", end_reduce, METH_O, NULL},
    {"barrier", barrier, METH_NOARGS, NULL},     {NULL, NULL, 0, NULL},
};

static PyGetSetDef group_properties[] = {
    {"ranks", get_ranks, NULL, NULL, NULL},
    {"rank", get_rank, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot group_slots[] = {{Py_tp_dealloc, (void *)end_group},
                                    {Py_tp_methods, group_methods},
                                    {Py_tp_getset, group_properties},
                                    {0, NULL}};

static PyType_Spec group_spec = {
    .name = "kiln._kiln.Group",
    .basicsize = sizeof(group_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = group_slots,
};

static PyMethodDef job_methods[] = {
    {"register", register_ids, METH_VARARGS, NULL},
    {"submit", submit, METH_VARARGS, NULL},
    {"sync", sync_member, METH_VARARGS, NULL},
    {"gradient", reduced, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot job_slots[] = {
    {Py_tp_dealloc, (void *)end_job}, {Py_tp_methods, job_methods}, {0, NULL}};

static PyType_Spec job_spec = {
    .name = "kiln._kiln.GradSync",
    .basicsize = sizeof(job_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = job_slots,
};

static PyMethodDef functions[] = {
    {"_group", make_group, METH_VARARGS, NULL},
    {"_gradsync", start_job, METH_VARARGS, NULL},
    {"_gradsync_remove", remove_job, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int kilni_py_collective_init(PyObject *module)
{
    group_type = (PyTypeObject *)PyType_FromSpec(&group_spec);
    job_type = (PyTypeObject *)PyType_FromSpec(&job_spec);
    return group_type == NULL || job_type == NULL ? -1 : PyModule_AddFunctions(module, functions);
}
