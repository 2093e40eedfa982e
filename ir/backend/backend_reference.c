// SPDX-License-Identifier: MIT OR Apache-2.0
// The backend "reference": every operator by its reference function, on host memory. Decides that
// views are checked against their buffers before an element is touched, and that a result which
// shares memory with an input is computed beside it first. Takes no programs. The judge in
// conformance tests; never fast.
#include <string.h>

#include "backend_host.h"

static kiln_status check_view(const char *name, const kiln_view *view, const kiln_tensor_desc *desc,
                              kiln_error *err)
{
    int64_t begin = 0;
    int64_t end = 0;
    bool same = view->dtype == desc->dtype && view->rank == desc->rank &&
                (view->rank == 0 ||
                 memcmp(view->dims, desc->dims, view->rank * sizeof(view->dims[0])) == 0);
    if (!same) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: a view differs from its description", name);
    }
    if (kiln_desc_count(desc) == 0) {
        return KILN_STATUS_OK;
    }
    kiln_view_extent(view, &begin, &end);
    if (view->buffer == NULL || begin < 0 || end > (int64_t)view->buffer->bytes) {
        return kiln_fail(err, OUT_OF_RANGE, "%s: a view leaves its buffer", name);
    }
    return KILN_STATUS_OK;
}

static kiln_status check_views(const kiln_op_record *record, const kiln_view *inputs,
                               const kiln_view *outputs, kiln_error *err)
{
    const char *name = kilni_ir_op_name(record);
    kiln_status status = KILN_STATUS_OK;
    for (unsigned i = 0; status == KILN_STATUS_OK && i < record->n_inputs; i++) {
        status = check_view(name, &inputs[i], &record->inputs[i], err);
    }
    for (unsigned i = 0; status == KILN_STATUS_OK && i < record->n_outputs; i++) {
        status = check_view(name, &outputs[i], &record->outputs[i], err);
    }
    return status;
}

/// slice_assign reads nothing of its first input where that is the output.
static bool stays(const kiln_op_record *record, unsigned input, const kiln_view *inputs,
                  const kiln_view *output)
{
    return record->op == KILN_OP_SLICE_ASSIGN && input < kiln_op_givers(record) &&
           inputs[input].offset_bytes == output->offset_bytes;
}

static bool shares_memory(const kiln_op_record *record, const kiln_view *inputs,
                          const kiln_view *output)
{
    for (unsigned i = 0; i < record->n_inputs; i++) {
        if (!stays(record, i, inputs, output) && inputs[i].buffer != NULL &&
            inputs[i].buffer == output->buffer) {
            return true;
        }
    }
    return false;
}

static kiln_status run_beside(kiln_backend *backend, const kiln_op_record *record,
                              const kiln_view *inputs, const kiln_view *outputs, kiln_error *err)
{
    int64_t bytes = kiln_desc_bytes(&record->outputs[0]);
    kiln_buffer *scratch = NULL;
    kiln_status status = kilni_host_alloc(backend, (size_t)bytes, &scratch, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kiln_view beside = kiln_view_dense(&record->outputs[0], scratch);
    status = kiln_op_info_of(record->op)->reference(record, inputs, &beside, err);
    if (status == KILN_STATUS_OK) {
        kilni_ref_copy(&beside, &outputs[0]);
    }
    kilni_host_free(backend, scratch);
    return status;
}

static kiln_status reference_execute(kiln_backend *backend, const kiln_op_record *record,
                                     const kiln_view *inputs, const kiln_view *outputs,
                                     kiln_error *err)
{
    const kiln_op_info *info = kiln_op_info_of(record->op);
    if (info == NULL) {
        return kiln_fail(err, UNIMPLEMENTED, "reference: %d is no operator", (int)record->op);
    }
    kiln_status status = check_views(record, inputs, outputs, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    ((kilni_host_backend *)backend)->stats.ops_executed++;
    if (record->n_outputs == 1 && shares_memory(record, inputs, &outputs[0])) {
        return run_beside(backend, record, inputs, outputs, err);
    }
    return info->reference(record, inputs, outputs, err);
}

static const kiln_backend_device_ops reference_device_ops = {
    .struct_size = sizeof(kiln_backend_device_ops),
    .close = kilni_host_close,
    .info = kilni_host_info,
    .dtype_usage = kilni_host_dtype_usage,
    .stats = kilni_host_stats,
    .execute = reference_execute,
    .execute_joined = kiln_backend_joins_none,
    .runs = kiln_backend_runs_all,
    .doubt_speeds = kiln_backend_no_doubt,
    .flush = kilni_host_flush,
    .sync = kilni_host_sync,
};

static const kiln_backend_memory_ops reference_memory_ops = {
    .struct_size = sizeof(kiln_backend_memory_ops),
    .alloc = kilni_host_alloc,
    .alloc_persistent = kilni_host_alloc,
    .free = kilni_host_free,
    .trim = kiln_backend_no_trim,
    .set_budget = kilni_host_set_budget,
    .reset_peaks = kilni_host_reset_peaks,
    .host_alloc = kiln_backend_host_alloc,
    .host_free = kiln_backend_host_free,
    .wrap_host = kilni_host_wrap,
    .alloc_from = kiln_backend_no_origin,
    .reside = kiln_backend_stays,
    .resides = kiln_backend_has_all,
    .map = kilni_host_map,
    .unmap = kiln_backend_no_unmap,
};

static const kiln_backend reference_tables = {
    .struct_size = sizeof(kiln_backend),
    .scheme = "reference",
    .device = &reference_device_ops,
    .memory = &reference_memory_ops,
    .transfer = &kilni_host_transfer_ops,
    .arena = &kilni_host_arena_ops,
    .trace = &kiln_backend_no_trace,
};

static const kiln_device_info reference_info = {
    .name = "reference evaluator",
    .vendor = "kiln",
    .platform = "host",
    .driver = KILN_VERSION_STRING,
    .extensions = "",
    .type = KILN_DEVICE_HOST,
    .features = KILN_FEATURE_FP16 | KILN_FEATURE_FP64 | KILN_FEATURE_UNIFIED_MEMORY,
    .compute_units = 1,
    .vector_bytes = 8,
    .memory_align = 128,
    .memory_bytes = UINT64_C(1) << 40,
    .max_alloc_bytes = UINT64_C(1) << 40,
    .max_work_group = 1,
    .bytes_per_s = 100000000,
    .flops_f32 = 100000000,
    .launch_ns = 100,
};

static kiln_status open_reference(const kiln_env *env, const char *address,
                                  kiln_backend **out_backend, kiln_error *err, void *user)
{
    (void)address;
    (void)user;
    return kilni_host_open(env, &reference_tables, &reference_info, out_backend, err);
}

static kiln_status reference_type(const kiln_env *env, size_t index, kiln_device_type *out_type,
                                  kiln_error *err, void *user)
{
    (void)env;
    (void)user;
    *out_type = KILN_DEVICE_HOST;
    return index == 0 ? KILN_STATUS_OK : kiln_fail(err, NOT_FOUND, "there is one reference device");
}

const kiln_backend_provider *kiln_ir_reference_provider(void)
{
    static const kiln_backend_provider provider = {
        .struct_size = sizeof(kiln_backend_provider),
        .interface = KILN_BACKEND_INTERFACE,
        .scheme = "reference",
        .open = open_reference,
        .type_of = reference_type,
    };
    return &provider;
}
