// SPDX-License-Identifier: MIT OR Apache-2.0
// Any bytes as a frame of the remote protocol: refused in words, or a frame that encodes again, and
// whose graph and data lie inside the message. Sequences of frames: fuzz_sequence.c.
#include "fuzz_target.h"
#include "ir.h"
#include "rpc_frame.h"

static void check_inside(const uint8_t *data, size_t size, const void *part, size_t length)
{
    const uint8_t *begin = part;
    must(length == 0 ||
         (begin >= data && begin <= data + size && length <= size - (size_t)(begin - data)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kiln_env env = {.allocator = kiln_allocator_default()};
    kiln_error err = KILN_ERROR_INIT;
    kilni_rpc_frame frame;
    kilni_rpc_parcel *parcel = NULL;
    if (kilni_rpc_frame_decode(data, size, &frame, &err) != KILN_STATUS_OK) {
        must(err.message[0] != '\0');
        return 0;
    }
    check_inside(data, size, frame.graph, frame.graph_length);
    check_inside(data, size, frame.data, frame.data_length);
    if (frame.graph_length > 0) {
        kiln_ir_graph *graph = NULL;
        (void)!kiln_ir_decode(&env, frame.graph, frame.graph_length, &graph, &err);
        kiln_ir_graph_destroy(graph);
    }
    must(kilni_rpc_frame_encode(&env, &frame, &parcel, &err) == KILN_STATUS_OK);
    kilni_rpc_parcel_free(&env, parcel);
    return 0;
}
