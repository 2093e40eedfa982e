// SPDX-License-Identifier: MIT OR Apache-2.0
// What capturing, specialisation and carrying all need of a graph and its tensors. Decides which
// tensors a graph takes, and that their values are there before it does.

#include "graph_parts.h"
#include "rt_dependency.h"
#include "rt_device.h"
#include "rt_execute.h"
#include "rt_streams.h"
#include "rt_tensor.h"

kilni_stream *kilni_graph_find_capture(kiln_device *device, uint64_t thread)
{
    for (kilni_stream *stream = device->streams.first; stream != NULL; stream = stream->next) {
        if (stream->capturing && stream->thread == thread) {
            return stream;
        }
    }
    return NULL;
}

void kilni_graph_release_all(kiln_device *device, kiln_tensor **tensors, size_t count)
{
    for (size_t i = 0; tensors != NULL && i < count; i++) {
        kiln_release(tensors[i]);
    }
    kiln_free(kilni_graph_env(device), tensors);
}

kiln_status kilni_graph_check_tensors(const kiln_device *device, kiln_tensor *const *tensors,
                                      size_t count, const char *what, kiln_error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (tensors[i] == NULL) {
            return kiln_fail(err, INVALID_ARGUMENT, "%s %zu is NULL", what, i);
        }
        if (tensors[i]->device != device) {
            return kiln_fail(err, FAILED_PRECONDITION, "%s %zu is on %s, the graph on %s", what, i,
                             tensors[i]->device->address, device->address);
        }
    }
    return KILN_STATUS_OK;
}

kiln_status kilni_graph_place_inputs(kiln_device *device, kiln_tensor *const *tensors, size_t count,
                                     kiln_error *err)
{
    kiln_status future_ended = kilni_await_futures(device, tensors, count, err);
    if (future_ended != KILN_STATUS_OK) {
        return future_ended;
    }
    for (size_t i = 0; i < count; i++) {
        kiln_tensor *tensor = tensors[i];
        if (tensor->captured) {
            return kiln_fail(err, FAILED_PRECONDITION,
                             "input %zu stands for a value of a captured graph", i);
        }
        kilni_stream *stream = kilni_stream_find(tensor->device, tensor->stream);
        if (!tensor->binding.bound && stream != NULL) {
            kiln_status status = kilni_stream_run(stream, /*drain=*/true, err);
            if (status != KILN_STATUS_OK) {
                return status;
            }
        }
        if (!tensor->binding.bound) {
            return kiln_fail(err, INTERNAL, "input %zu has no value", i);
        }
    }
    return KILN_STATUS_OK;
}

kiln_device *kilni_graph_device(const kiln_graph *graph)
{
    return graph->device;
}

const kiln_fuse_segment *kilni_graph_segment(const kiln_graph *graph)
{
    return graph->specialisations->segment;
}
