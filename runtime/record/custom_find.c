// SPDX-License-Identifier: MIT OR Apache-2.0
// Operators of plugins, looked up in the context's: by the name and version of a record, or the
// newest of a name. What they mean is the plugin's business, how a record names one is ir's;
// running one on the host is custom_host.c's.

#include "rt_context.h"
#include "rt_device.h"
#include "rt_record.h"

/// No plugin is added while the context has a device.
static kiln_status find(kiln_device *device, const char *name, uint32_t version, bool exact,
                        const kiln_custom_op **out_op, kiln_error *err)
{
    const kiln_fuse_registry *registry = device->context->registry;
    if (registry == NULL) {
        return kiln_fail(err, INTERNAL, "a device without plugins");
    }
    return kiln_fuse_registry_operator(registry, name, version, exact, out_op, err);
}

kiln_status kilni_custom_find(kiln_device *device, const kiln_attr *attrs,
                              const kiln_custom_op **out_op, kiln_error *err)
{
    const kiln_attr *name = &attrs[0];
    const kiln_attr *version = &attrs[1];
    *out_op = NULL;
    if (name->type != KILN_ATTR_STRING || version->type != KILN_ATTR_I64 || version->v.i < 1 ||
        version->v.i > UINT32_MAX) {
        return kiln_fail(err, INVALID_ARGUMENT, "custom: name or version is malformed");
    }
    return find(device, name->v.text, (uint32_t)version->v.i, /*exact=*/true, out_op, err);
}

kiln_status kiln_custom_check(kiln_device *handle, const kiln_op_record *record, kiln_error *err)
{
    kiln_device *device = kilni_core(handle);
    kiln_tensor_desc inferred[KILN_MAX_OUTPUTS] = {{0}};
    if (device == NULL || record == NULL || record->op != KILN_OP_CUSTOM) {
        return kiln_fail(err, INVALID_ARGUMENT, "a custom operation of a device is wanted");
    }
    kiln_op_record call = *record;
    kiln_status status = kilni_custom_find(device, record->attrs, &call.custom, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_ir_infer(&call, inferred, err);
    }
    for (unsigned i = 0; status == KILN_STATUS_OK && i < record->n_outputs; i++) {
        const kiln_tensor_desc *stated = &record->outputs[i];
        if (stated->dtype != inferred[i].dtype || !kiln_desc_same_shape(stated, &inferred[i])) {
            status =
                kiln_fail(err, INVALID_ARGUMENT, "%s: output %u is not what the operation says",
                          call.custom->name, i);
        }
    }
    return status;
}

kiln_status kiln_custom_find(kiln_device *handle, const char *name, uint32_t version,
                             const kiln_custom_op **out_op, kiln_error *err)
{
    kiln_device *device = kilni_core(handle);
    if (out_op == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_op must not be NULL");
    }
    *out_op = NULL;
    return device == NULL || name == NULL
               ? kiln_fail(err, INVALID_ARGUMENT, "device and name must not be NULL")
               : find(device, name, version, /*exact=*/false, out_op, err);
}

static kiln_status find_exact(const char *name, uint32_t version, const kiln_custom_op **out_op,
                              void *user, kiln_error *err)
{
    return find(user, name, version, /*exact=*/true, out_op, err);
}

kiln_status kiln_custom_look_up(kiln_device *handle, kiln_ir_graph *graph, kiln_error *err)
{
    kiln_device *device = kilni_core(handle);
    return device == NULL || graph == NULL
               ? kiln_fail(err, INVALID_ARGUMENT, "device and graph must not be NULL")
               : kiln_ir_graph_look_up(graph, find_exact, device, err);
}

kiln_status kiln_custom_get(kiln_device *handle, size_t index, const kiln_custom_op **out_op,
                            kiln_error *err)
{
    kiln_device *device = kilni_core(handle);
    if (device == NULL || out_op == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "device and out_op must not be NULL");
    }
    *out_op = device->context->registry != NULL
                  ? kiln_fuse_registry_operator_at(device->context->registry, index)
                  : NULL;
    return *out_op != NULL
               ? KILN_STATUS_OK
               : kiln_fail(err, NOT_FOUND, "plugins bring %zu operators or fewer", index);
}
