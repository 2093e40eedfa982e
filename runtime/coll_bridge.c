// SPDX-License-Identifier: MIT OR Apache-2.0
// Groups of devices and the collective calls that take tensors: what is checked, that every device
// has its earlier work before any is waited for, and that results come as tensors which are not
// there yet. How bytes reach a device is coll_memory.c's; how they travel and combine is
// collective/'s.

#include "coll_memory.h"

// ---- groups of devices
// ---------------------------------------------------------------------------

typedef struct collective_rank {
    kilni_device_memory memory;
    kiln_coll_member *member;
} collective_rank;

struct kiln_collective {
    kiln_context *context;
    kiln_coll_group *group;
    pthread_mutex_t lock; ///< one call starts at a time, on all ranks
    size_t count; ///< ranks of this process
    uint32_t first; ///< of these among all
    uint32_t total;
    collective_rank *ranks;
};

static kiln_status open_rank(kiln_collective *collective, uint32_t index, kiln_device *device,
                             kiln_error *err)
{
    collective_rank *rank = &collective->ranks[index];
    kiln_status status = kilni_device_memory_init(&rank->memory, device, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    return kiln_coll_member_create(collective->group, collective->first + index, &rank->memory.base,
                                   /*transport=*/NULL, &rank->member, err);
}

static kiln_status check_devices(kiln_device *const *devices, size_t count,
                                 const kiln_coll_group_options *options, kiln_error *err)
{
    if (options != NULL && options->ranks != 0 && options->ranks != count) {
        return kiln_fail(err, INVALID_ARGUMENT, "%zu devices for %u ranks", count, options->ranks);
    }
    for (size_t i = 0; i < count; i++) {
        if (devices[i] == NULL) {
            return kiln_fail(err, INVALID_ARGUMENT, "device %zu of the group is NULL", i);
        }
    }
    return KILN_STATUS_OK;
}

/// Makes the group and its members; takes the network over.
static kiln_status open_group(kiln_collective *collective, kiln_device *const *devices,
                              const kiln_coll_group_options *options, kiln_error *err)
{
    kiln_status status =
        kiln_coll_group_create(&collective->context->env, options, &collective->group, err);
    size_t count = collective->count;
    collective->total = options->ranks;
    collective->count = 0;
    for (size_t i = 0; i < count && status == KILN_STATUS_OK; i++) {
        collective->count = i + 1;
        status = open_rank(collective, (uint32_t)i, devices[i], err);
    }
    return status;
}

/// A collective without group and members.
static kiln_status create(kiln_device *const *devices, size_t count,
                          const kiln_coll_group_options *options, kiln_collective **out_collective,
                          kiln_error *err)
{
    if (devices == NULL || count == 0 || count > UINT32_MAX) {
        return kiln_fail(err, INVALID_ARGUMENT, "a group needs devices");
    }
    kiln_status status = check_devices(devices, count, options, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kiln_context *context = kilni_core(devices[0])->context;
    kiln_collective *collective = kiln_alloc(&context->env, sizeof(*collective));
    collective_rank *ranks = kiln_alloc_array(&context->env, count, sizeof(*ranks));
    if (collective == NULL || ranks == NULL) {
        kiln_free(&context->env, collective);
        kiln_free(&context->env, ranks);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a group of devices");
    }
    kilni_context_retain(context);
    collective->context = context;
    collective->ranks = ranks;
    collective->count = count;
    pthread_mutex_init(&collective->lock, NULL);
    *out_collective = collective;
    return KILN_STATUS_OK;
}

static kiln_coll_group_options settle(const kiln_coll_group_options *options)
{
    kiln_coll_group_options none = KILN_COLL_GROUP_OPTIONS_INIT;
    return options != NULL ? *options : none;
}

kiln_status kiln_collective_create(kiln_device *const *devices, size_t count,
                                   const kiln_coll_group_options *options,
                                   kiln_collective **out_collective, kiln_error *err)
{
    *out_collective = NULL;
    kiln_collective *collective = NULL;
    kiln_coll_group_options settled = settle(options);
    kiln_status status = create(devices, count, options, &collective, err);
    if (status == KILN_STATUS_OK) {
        settled.ranks = (uint32_t)count;
        status = open_group(collective, devices, &settled, err);
    }
    if (status != KILN_STATUS_OK) {
        kiln_collective_destroy(collective);
        return status;
    }
    *out_collective = collective;
    return KILN_STATUS_OK;
}

/// The network is in a library of its own, so that nothing needs MPI.
static kiln_status open_mpi(kiln_collective *collective, kiln_coll_group_options *options,
                            kiln_error *err)
{
    union {
        void *address;
        kiln_status (*open)(const kiln_env *env, uint32_t local_ranks, uint64_t deadline_ns,
                            kiln_coll_network **out_network, kiln_coll_place *out_place,
                            kiln_error *err);
    } found;
    kiln_coll_place place = {0};
    uint64_t deadline_ns = options->deadline_ns != 0 ? options->deadline_ns : 30000000000u;
    kiln_status status = kilni_library_symbol(collective->context, "libkiln_mpi.so.0",
                                              "kiln_coll_mpi_open", &found.address, err);
    if (status == KILN_STATUS_OK) {
        status = found.open(&collective->context->env, (uint32_t)collective->count, deadline_ns,
                            &options->network, &place, err);
    }
    if (status == KILN_STATUS_OK) {
        collective->first = place.first_rank;
        options->ranks = place.ranks;
        options->ranks_per_node = place.ranks_per_node;
    }
    return status;
}

kiln_status kiln_collective_create_mpi(kiln_device *const *devices, size_t count,
                                       const kiln_coll_group_options *options,
                                       kiln_collective **out_collective, kiln_error *err)
{
    *out_collective = NULL;
    kiln_collective *collective = NULL;
    kiln_coll_group_options settled = settle(options);
    kiln_status status = create(devices, count, options, &collective, err);
    if (status == KILN_STATUS_OK) {
        status = open_mpi(collective, &settled, err);
    }
    if (status == KILN_STATUS_OK) {
        status = open_group(collective, devices, &settled, err);
    }
    if (status != KILN_STATUS_OK) {
        kiln_collective_destroy(collective);
        return status;
    }
    *out_collective = collective;
    return KILN_STATUS_OK;
}

uint32_t kiln_collective_rank(const kiln_collective *collective)
{
    return collective->first;
}

uint32_t kiln_collective_ranks(const kiln_collective *collective)
{
    return collective->total;
}

void kiln_collective_destroy(kiln_collective *collective)
{
    if (collective == NULL) {
        return;
    }
    kiln_context *context = collective->context;
    bool opened = collective->group != NULL; // else no member was made
    for (size_t i = 0; i < collective->count && opened; i++) {
        kiln_coll_member_destroy(collective->ranks[i].member);
    }
    kiln_coll_group_destroy(collective->group);
    for (size_t i = 0; i < collective->count && opened; i++) {
        kilni_device_memory_fini(&collective->ranks[i].memory);
    }
    pthread_mutex_destroy(&collective->lock);
    kiln_free(&context->env, collective->ranks);
    kiln_free(&context->env, collective);
    kilni_context_release(context);
}

// ---- what a call is
// --------------------------------------------------------------------------------

/// One call on all ranks of this process.
typedef struct call_plan {
    kiln_collective *collective;
    kiln_coll_kind kind;
    kiln_coll_op op;
    uint32_t root;
    kiln_tensor *const *inputs; ///< one for each rank, all of one shape and dtype
    kiln_tensor **out_tensors; ///< one for each rank; those without a result stay NULL
} call_plan;

static kiln_status check_inputs(const call_plan *plan, kiln_error *err)
{
    const kiln_collective *collective = plan->collective;
    kiln_tensor *const *inputs = plan->inputs;
    for (size_t i = 0; i < collective->count; i++) {
        const kiln_tensor *tensor = inputs[i];
        if (tensor == NULL || tensor->device != collective->ranks[i].memory.device) {
            return kiln_fail(err, INVALID_ARGUMENT, "rank %zu: the tensor is not on device %s", i,
                             collective->ranks[i].memory.device->address);
        }
        if (tensor->desc.dtype != inputs[0]->desc.dtype ||
            !kiln_desc_same_shape(&tensor->desc, &inputs[0]->desc)) {
            return kiln_fail(err, INVALID_ARGUMENT,
                             "rank %zu: %s of %lld elements and another shape or dtype than rank 0",
                             i, kiln_dtype_name(tensor->desc.dtype),
                             (long long)kiln_desc_count(&tensor->desc));
        }
    }
    return KILN_STATUS_OK;
}

/// What `rank` of all gets. False when it gets nothing.
static bool describe_output(const call_plan *plan, uint32_t rank, kiln_tensor_desc *out_desc)
{
    const kiln_tensor_desc *input = &plan->inputs[0]->desc;
    int64_t ranks = (int64_t)plan->collective->total;
    int64_t count = kiln_desc_count(input);
    *out_desc = *input;
    switch (plan->kind) {
    case KILN_COLL_REDUCE:
        return rank == plan->root;
    case KILN_COLL_ALL_GATHER:
        out_desc->rank = input->rank == 0 ? 1 : input->rank;
        out_desc->dims[0] = input->rank == 0 ? ranks : input->dims[0] * ranks;
        return true;
    case KILN_COLL_REDUCE_SCATTER:
        out_desc->rank = 1;
        out_desc->dims[0] = count / ranks + (rank < count % ranks);
        return true;
    default:
        return true;
    }
}

/// Runs what the input needs, and keeps its elements dense.
static kiln_status lend_input(kiln_device *device, kilni_rank_call *call, kiln_tensor *input,
                              kiln_error *err)
{
    kiln_status status = kilni_await_arrivals(device, &input, 1, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_tensor_place(input, err);
    }
    if (status == KILN_STATUS_OK && kiln_view_is_contiguous(&input->place.view)) {
        kilni_place_share(&call->input, &input->place, &input->place.view);
    } else if (status == KILN_STATUS_OK) {
        status = kilni_place_dense(device, &input->desc, &input->place, &call->input, err);
    }
    return status;
}

/// A tensor that is placed and waits for its value.
static kiln_status make_output(kiln_device *device, kilni_rank_call *call,
                               const kiln_tensor_desc *desc, kiln_tensor **out_tensor,
                               kiln_error *err)
{
    kiln_tensor *tensor = kilni_tensor_new(device, desc);
    if (tensor == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a tensor's record");
    }
    *out_tensor = tensor;
    kiln_status status = kilni_place_alloc(device, &tensor->desc, &tensor->place, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    call->arrival = kilni_arrival_create(device, /*must_resolve=*/true);
    if (call->arrival == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a call");
    }
    tensor->arrival = call->arrival;
    kilni_place_share(&call->output, &tensor->place, &tensor->place.view);
    return KILN_STATUS_OK;
}

/// Makes the part of the rank-th device ready. Nothing waits but for inputs that are still on their
/// way.
static kiln_status prepare(const call_plan *plan, uint32_t rank, kilni_rank_call **out_call,
                           kiln_error *err)
{
    kiln_device *device = plan->collective->ranks[rank].memory.device;
    kilni_rank_call *call = kiln_alloc(&device->context->env, sizeof(*call));
    if (call == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a call");
    }
    *out_call = call;
    kiln_tensor_desc desc;
    pthread_mutex_lock(&device->lock);
    kiln_status status = lend_input(device, call, plan->inputs[rank], err);
    if (status == KILN_STATUS_OK && describe_output(plan, plan->collective->first + rank, &desc)) {
        status = make_output(device, call, &desc, &plan->out_tensors[rank], err);
    }
    if (status == KILN_STATUS_OK) {
        status = device->backend->ops->flush(device->backend, err);
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

static kiln_status start(const call_plan *plan, uint32_t rank, kilni_rank_call *prepared,
                         kiln_error *err)
{
    const kiln_tensor_desc *input = &plan->inputs[0]->desc;
    kiln_coll_call call = KILN_COLL_CALL_INIT;
    call.kind = plan->kind;
    call.op = plan->op;
    call.root = plan->root;
    call.dtype = input->dtype;
    call.count = (uint64_t)kiln_desc_count(input);
    call.tag = kiln_hash64(input->dims, input->rank * sizeof(input->dims[0]), input->rank);
    call.input = (kiln_coll_buffer *)prepared->input.view.buffer;
    call.input_offset = (uint64_t)prepared->input.view.offset_bytes;
    if (prepared->output.placed) {
        call.output = (kiln_coll_buffer *)prepared->output.view.buffer;
        call.output_offset = (uint64_t)prepared->output.view.offset_bytes;
    }
    call.event = prepared;
    return kiln_coll_start(plan->collective->ranks[rank].member, &call, NULL, err);
}

/// What was prepared and not started goes, with the cause.
static void drop_call(const call_plan *plan, size_t rank, kilni_rank_call *call,
                      const kiln_error *cause)
{
    kiln_device *device = plan->collective->ranks[rank].memory.device;
    if (call != NULL) {
        pthread_mutex_lock(&device->lock);
        kilni_rank_call_free(device, call, cause);
        pthread_mutex_unlock(&device->lock);
    }
}

static kiln_status run_locked(const call_plan *plan, kilni_rank_call **calls, kiln_error *err)
{
    const kiln_collective *collective = plan->collective;
    kiln_status status = kiln_coll_group_status(collective->group, NULL, err);
    // All devices get their work before any of them is waited for.
    for (uint32_t i = 0; i < collective->count && status == KILN_STATUS_OK; i++) {
        status = prepare(plan, i, &calls[i], err);
    }
    for (uint32_t i = 0; i < collective->count && status == KILN_STATUS_OK; i++) {
        status = start(plan, i, calls[i], err);
        if (status != KILN_STATUS_OK && i > 0) { // the others would wait for it to the deadline
            kiln_coll_member_abort(collective->ranks[i].member, err);
        }
        calls[i] = status == KILN_STATUS_OK ? NULL : calls[i]; // the event's now
    }
    return status;
}

static kiln_status run(call_plan *plan, kiln_error *err)
{
    kiln_collective *collective = plan->collective;
    kiln_error cause = KILN_ERROR_INIT;
    kilni_rank_call **calls =
        kiln_alloc_array(&collective->context->env, collective->count, sizeof(*calls));
    if (calls == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a call");
    }
    pthread_mutex_lock(&collective->lock);
    kiln_status status = run_locked(plan, calls, &cause);
    pthread_mutex_unlock(&collective->lock);
    for (size_t i = 0; i < collective->count && status != KILN_STATUS_OK; i++) {
        drop_call(plan, i, calls[i], &cause);
        kiln_release(plan->out_tensors[i]);
        plan->out_tensors[i] = NULL;
    }
    if (status != KILN_STATUS_OK && err != NULL) {
        *err = cause;
    }
    kiln_free(&collective->context->env, calls);
    return status;
}

// ---- the public calls
// ------------------------------------------------------------------------------

static kiln_status call_all(kiln_collective *collective, kiln_coll_kind kind, const char *op,
                            uint32_t root, kiln_tensor *const *inputs, kiln_tensor **out_tensors,
                            kiln_error *err)
{
    if (collective == NULL || inputs == NULL || out_tensors == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "collective, inputs and outputs must not be NULL");
    }
    for (size_t i = 0; i < collective->count; i++) {
        out_tensors[i] = NULL;
    }
    call_plan plan = {.collective = collective,
                      .kind = kind,
                      .op = op == NULL ? KILN_COLL_OP_COUNT : kiln_coll_op_from_name(op),
                      .root = root,
                      .inputs = inputs,
                      .out_tensors = out_tensors};
    if (plan.op == KILN_COLL_OP_COUNT) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "no reduction is named '%s'; there are sum, mean, min, max and prod",
                         op == NULL ? "" : op);
    }
    if (root >= collective->total) {
        return kiln_fail(err, INVALID_ARGUMENT, "root %u of a group of %u", root,
                         collective->total);
    }
    kiln_status status = check_inputs(&plan, err);
    return status == KILN_STATUS_OK ? run(&plan, err) : status;
}

kiln_status kiln_collective_all_reduce(kiln_collective *collective, kiln_tensor *const *inputs,
                                       const char *op, kiln_tensor **out_tensors, kiln_error *err)
{
    return call_all(collective, KILN_COLL_ALL_REDUCE, op, 0, inputs, out_tensors, err);
}

kiln_status kiln_collective_reduce(kiln_collective *collective, kiln_tensor *const *inputs,
                                   const char *op, uint32_t root, kiln_tensor **out_tensors,
                                   kiln_error *err)
{
    return call_all(collective, KILN_COLL_REDUCE, op, root, inputs, out_tensors, err);
}

kiln_status kiln_collective_broadcast(kiln_collective *collective, kiln_tensor *const *inputs,
                                      uint32_t root, kiln_tensor **out_tensors, kiln_error *err)
{
    return call_all(collective, KILN_COLL_BROADCAST, "sum", root, inputs, out_tensors, err);
}

kiln_status kiln_collective_all_gather(kiln_collective *collective, kiln_tensor *const *inputs,
                                       kiln_tensor **out_tensors, kiln_error *err)
{
    return call_all(collective, KILN_COLL_ALL_GATHER, "sum", 0, inputs, out_tensors, err);
}

kiln_status kiln_collective_reduce_scatter(kiln_collective *collective, kiln_tensor *const *inputs,
                                           const char *op, kiln_tensor **out_tensors,
                                           kiln_error *err)
{
    return call_all(collective, KILN_COLL_REDUCE_SCATTER, op, 0, inputs, out_tensors, err);
}

/// Starts the barrier on all ranks of this process; what was started is waited for.
static kiln_status barrier(kiln_collective *collective, kiln_coll_request **requests,
                           kiln_error *err)
{
    kiln_coll_call call = KILN_COLL_CALL_INIT;
    call.kind = KILN_COLL_BARRIER;
    kiln_status status = KILN_STATUS_OK;
    pthread_mutex_lock(&collective->lock);
    for (size_t i = 0; i < collective->count && status == KILN_STATUS_OK; i++) {
        kiln_error cause = KILN_ERROR_INIT;
        status = kiln_coll_start(collective->ranks[i].member, &call, &requests[i], &cause);
        if (status != KILN_STATUS_OK) {
            kiln_coll_member_abort(collective->ranks[i].member, &cause);
            if (err != NULL) {
                *err = cause;
            }
        }
    }
    pthread_mutex_unlock(&collective->lock);
    for (size_t i = 0; i < collective->count; i++) {
        kiln_error *first = status == KILN_STATUS_OK ? err : NULL;
        kiln_status ended = requests[i] != NULL ? kiln_coll_wait(requests[i], first) : status;
        status = status == KILN_STATUS_OK ? ended : status;
    }
    return status;
}

kiln_status kiln_collective_barrier(kiln_collective *collective, kiln_error *err)
{
    if (collective == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "collective must not be NULL");
    }
    kiln_coll_request **requests =
        kiln_alloc_array(&collective->context->env, collective->count, sizeof(*requests));
    if (requests == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a call");
    }
    kiln_status status = barrier(collective, requests, err);
    kiln_free(&collective->context->env, requests);
    return status;
}

kiln_status kiln_collective_select(kiln_collective *collective, const char *select, kiln_error *err)
{
    return kiln_coll_group_select(collective->group, select, err);
}

kiln_status kiln_collective_status(kiln_collective *collective, int32_t *out_rank, kiln_error *err)
{
    return kiln_coll_group_status(collective->group, out_rank, err);
}
