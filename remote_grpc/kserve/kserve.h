// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KSERVE_H
#define KILN_KSERVE_H

/// inference.GRPCInferenceService: the calls of the Open Inference Protocol, answered by whatever
/// models the server was given.

#include "remote_models.h"
#include "rpc_stream.h"
#include "rpc_wire.h"

#define KILNI_KSERVE_SERVICE "/inference.GRPCInferenceService/"

/// What a thread needs for a request, from one request to the next: it is large, and malloc looks
/// through all that is free when so much comes back.
typedef struct kilni_kserve_room kilni_kserve_room;

/// Answers a call of `method`, without the service's name, by `caller`. `models` NULL: there are
/// none, and the call is refused. The stream stays open: `*out_end` is its status.
/// `*room` is the thread's; NULL at first, and freed by it when it ends.
void kilni_kserve_serve(const kiln_env *env, const kiln_models *models, const char *caller,
                        const char *method, kilni_rpc_stream *stream, kilni_kserve_room **room,
                        kiln_error *out_end);
void kilni_kserve_room_free(const kiln_env *env, kilni_kserve_room *room);

// ---- ModelInfer: kserve_infer.c ----

/// A request as it was read: its texts and raw data lie in the bytes it was read from.
typedef struct kilni_kserve_infer {
    kiln_model_request request;
    kilni_wire_piece id;
    kiln_arena arena; ///< typed contents as raw bytes
} kilni_kserve_infer;

/// Reads a ModelInferRequest. `*out_infer` was zeroed, or is one that was cleared, which each must
/// be, also after a failure. Errors: INVALID_ARGUMENT, UNIMPLEMENTED for BYTES, RESOURCE_EXHAUSTED.
kiln_status kilni_kserve_infer_read(const kiln_env *env, kilni_wire_piece message,
                                    kilni_kserve_infer *out_infer, kiln_error *err);
void kilni_kserve_infer_clear(kilni_kserve_infer *infer);

/// Raw contents of an answer, which stay where they lie, and where in its text each belongs.
typedef struct kilni_kserve_contents {
    size_t places[KILN_MODEL_TENSORS];
    kilni_wire_piece pieces[KILN_MODEL_TENSORS];
    uint32_t count;
} kilni_kserve_contents;

/// Writes a ModelInferResponse without its raw contents: `*out_contents`, which was zeroed, has
/// them as long as the answer is there. NULL: it is one of a stream. It has them itself then, and
/// says that nothing follows for this request.
void kilni_kserve_answer_put(kiln_string *out, const kilni_kserve_infer *infer,
                             const kiln_model_answer *answer, kilni_kserve_contents *out_contents);

// ---- descriptions: kserve_describe.c ----

void kilni_kserve_metadata_put(kiln_string *out, const kiln_model_info *info);
void kilni_kserve_config_put(kiln_string *out, const kiln_model_info *info);
void kilni_kserve_stats_put(kiln_string *out, const kiln_model_stats *stats);

#endif
