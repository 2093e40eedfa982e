// SPDX-License-Identifier: MIT OR Apache-2.0
// The methods of inference.GRPCInferenceService: one request, one answer, but for the stream of
// ModelStreamInfer, whose failures travel in its answers. Decides nothing about models.

#include "kserve.h"

#include <kserve/inference.pb.h>
#include <stdio.h>
#include <string.h>

#define TAG(message, field) inference_##message##_##field##_tag

/// A call while it is answered.
typedef struct kserve_call {
    const kiln_env *env;
    const kiln_models *models;
    const char *caller;
    kilni_rpc_stream *stream;
    kilni_wire_piece request; ///< of the call, or of the stream for now
    kilni_kserve_room **room; ///< of the thread
    kiln_string answer;
    bool is_kept; ///< the stream has the answer already
} kserve_call;

// ---- messages in one piece ----

/// A message that arrived in several pieces is copied into one; `*out_copy` is to be freed.
static kiln_status join_pieces(const kiln_env *env, const kilni_rpc_message *message,
                               kilni_wire_piece *out_piece, void **out_copy, kiln_error *err)
{
    *out_copy = NULL;
    const void *bytes = kilni_rpc_message_peek(message, 0, message->length);
    if (bytes == NULL) {
        *out_copy = kiln_alloc(env, message->length);
        if (*out_copy == NULL) {
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a request of %zu bytes",
                             message->length);
        }
        kilni_rpc_message_copy(message, 0, message->length, *out_copy);
        bytes = *out_copy;
    }
    *out_piece = (kilni_wire_piece){bytes, message->length};
    return KILN_STATUS_OK;
}

/// `*out_bytes` is the call's.
static kiln_status take_answer(const kserve_call *call, const void **out_bytes, kiln_error *err)
{
    *out_bytes = call->answer.length > 0 ? call->answer.text : "";
    return call->answer.failed ? kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for an answer")
                               : KILN_STATUS_OK;
}

// ---- the server ----

static kiln_status answer_live(kserve_call *call, kiln_error *err)
{
    (void)err;
    kilni_wire_put_number(&call->answer, TAG(ServerLiveResponse, live), 1);
    return KILN_STATUS_OK;
}

static kiln_status answer_ready(kserve_call *call, kiln_error *err)
{
    (void)err;
    kilni_wire_put_number(&call->answer, TAG(ServerReadyResponse, ready),
                          call->models->ready(call->models->user));
    return KILN_STATUS_OK;
}

static kiln_status answer_metadata(kserve_call *call, kiln_error *err)
{
    static const char *const extensions[] = {"model_repository", "model_configuration",
                                             "statistics",       "system_shared_memory",
                                             "schedule_policy",  "sequence"};
    (void)err;
    kilni_wire_put_text(&call->answer, TAG(ServerMetadataResponse, name), "kiln");
    kilni_wire_put_text(&call->answer, TAG(ServerMetadataResponse, version), kiln_version());
    for (size_t i = 0; i < sizeof(extensions) / sizeof(extensions[0]); i++) {
        kilni_wire_put_text(&call->answer, TAG(ServerMetadataResponse, extensions), extensions[i]);
    }
    return KILN_STATUS_OK;
}

// ---- models ----

/// The texts of fields 1 and 2, as most requests have them.
static kiln_status read_names(const kserve_call *call, char out_first[KILN_MODEL_NAME],
                              char out_second[KILN_MODEL_NAME], kiln_error *err)
{
    kilni_wire_piece left = call->request;
    kilni_wire_field field;
    bool fits = true;
    out_first[0] = out_second[0] = '\0';
    while (kilni_wire_take(&left, &field)) {
        if (field.number == 1 || field.number == 2) {
            char *to = field.number == 1 ? out_first : out_second;
            fits = fits && kilni_wire_text(field.bytes, to, KILN_MODEL_NAME);
        }
    }
    if (left.length > 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "a damaged request");
    }
    return fits ? KILN_STATUS_OK
                : kiln_fail(err, INVALID_ARGUMENT, "a name is longer than %d bytes",
                            KILN_MODEL_NAME - 1);
}

typedef void (*put_info_fn)(kiln_string *out, const kiln_model_info *info);

static kiln_status answer_info(kserve_call *call, put_info_fn put, kiln_error *err)
{
    char name[KILN_MODEL_NAME], version[KILN_MODEL_NAME];
    kiln_status status = read_names(call, name, version, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    kiln_model_info *info = kiln_alloc(call->env, sizeof(*info));
    if (info == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for an answer");
    }
    status = call->models->describe(call->models->user, name, version, info, err);
    if (status == KILN_STATUS_OK) {
        put(&call->answer, info);
    }
    kiln_free(call->env, info);
    return status;
}

static kiln_status answer_model_metadata(kserve_call *call, kiln_error *err)
{
    return answer_info(call, kilni_kserve_metadata_put, err);
}

static kiln_status answer_config(kserve_call *call, kiln_error *err)
{
    return answer_info(call, kilni_kserve_config_put, err);
}

static void put_ready(kiln_string *out, const kiln_model_info *info)
{
    (void)info;
    kilni_wire_put_number(out, TAG(ModelReadyResponse, ready), 1);
}

/// A model that is not there is not ready, and that is no failure.
static kiln_status answer_model_ready(kserve_call *call, kiln_error *err)
{
    kiln_error why = KILN_ERROR_INIT;
    kiln_status status = answer_info(call, put_ready, &why);
    if (status != KILN_STATUS_OK && status != KILN_STATUS_NOT_FOUND &&
        status != KILN_STATUS_UNAVAILABLE) {
        *err = why;
        return status;
    }
    return KILN_STATUS_OK;
}

static void put_stats(const kiln_model_stats *stats, void *to)
{
    kilni_kserve_stats_put(to, stats);
}

static kiln_status answer_statistics(kserve_call *call, kiln_error *err)
{
    char name[KILN_MODEL_NAME], version[KILN_MODEL_NAME];
    kiln_status status = read_names(call, name, version, err);
    return status == KILN_STATUS_OK ? call->models->statistics(call->models->user, name, version,
                                                               put_stats, &call->answer, err)
                                    : status;
}

// ---- the repository ----

static void put_row(const kiln_model_row *row, void *to)
{
    kiln_string *out = to;
    kiln_string index;
    kiln_string_init(&index, out->env);
    kilni_wire_put_text(&index, TAG(RepositoryIndexResponse_ModelIndex, name), row->name);
    kilni_wire_put_text(&index, TAG(RepositoryIndexResponse_ModelIndex, version), row->version);
    kilni_wire_put_text(&index, TAG(RepositoryIndexResponse_ModelIndex, state), row->state);
    kilni_wire_put_text(&index, TAG(RepositoryIndexResponse_ModelIndex, reason), row->reason);
    kilni_wire_put_message(out, TAG(RepositoryIndexResponse, models), &index);
}

static kiln_status answer_index(kserve_call *call, kiln_error *err)
{
    kilni_wire_piece left = call->request;
    kilni_wire_field field;
    bool ready = false;
    (void)err;
    while (kilni_wire_take(&left, &field)) {
        ready = field.number == TAG(RepositoryIndexRequest, ready) ? field.value != 0 : ready;
    }
    call->models->index(call->models->user, ready, put_row, &call->answer);
    return KILN_STATUS_OK;
}

static kiln_status answer_load(kserve_call *call, kiln_error *err)
{
    char repository[KILN_MODEL_NAME], name[KILN_MODEL_NAME];
    kiln_status status = read_names(call, repository, name, err);
    if (status == KILN_STATUS_OK &&
        kilni_wire_get(call->request, TAG(RepositoryModelLoadRequest, parameters)).length > 0) {
        status = kiln_fail(err, UNIMPLEMENTED,
                           "models and their configuration come from the server's folder, not "
                           "with the request");
    }
    return status == KILN_STATUS_OK ? call->models->load(call->models->user, name, err) : status;
}

static kiln_status answer_unload(kserve_call *call, kiln_error *err)
{
    char repository[KILN_MODEL_NAME], name[KILN_MODEL_NAME];
    kiln_status status = read_names(call, repository, name, err);
    return status == KILN_STATUS_OK ? call->models->unload(call->models->user, name, err) : status;
}

// ---- shared memory ----

static void put_region(const kiln_model_region *region, void *to)
{
    enum { KEY = 1, VALUE = 2 };
    kiln_string *out = to;
    kiln_string entry;
    kiln_string row;
    kiln_string_init(&entry, out->env);
    kiln_string_init(&row, out->env);
    kilni_wire_put_text(&row, TAG(SystemSharedMemoryStatusResponse_RegionStatus, name),
                        region->name);
    kilni_wire_put_text(&row, TAG(SystemSharedMemoryStatusResponse_RegionStatus, key), region->key);
    kilni_wire_put_number(&row, TAG(SystemSharedMemoryStatusResponse_RegionStatus, offset),
                          region->offset);
    kilni_wire_put_number(&row, TAG(SystemSharedMemoryStatusResponse_RegionStatus, byte_size),
                          region->bytes);
    kilni_wire_put_text(&entry, KEY, region->name);
    kilni_wire_put_message(&entry, VALUE, &row);
    kilni_wire_put_message(out, TAG(SystemSharedMemoryStatusResponse, regions), &entry);
}

static kiln_status answer_region_status(kserve_call *call, kiln_error *err)
{
    char name[KILN_MODEL_NAME], nothing[KILN_MODEL_NAME];
    kiln_status status = read_names(call, name, nothing, err);
    return status == KILN_STATUS_OK
               ? call->models->region_list(call->models->user, name, put_region, &call->answer, err)
               : status;
}

static kiln_status answer_region_add(kserve_call *call, kiln_error *err)
{
    char name[KILN_MODEL_NAME], key[KILN_MODEL_NAME];
    kiln_model_region region = {.name = name, .key = key};
    kilni_wire_piece left = call->request;
    kilni_wire_field field;
    kiln_status status = read_names(call, name, key, err);
    while (kilni_wire_take(&left, &field)) {
        if (field.number == TAG(SystemSharedMemoryRegisterRequest, offset)) {
            region.offset = field.value;
        } else if (field.number == TAG(SystemSharedMemoryRegisterRequest, byte_size)) {
            region.bytes = field.value;
        }
    }
    return status == KILN_STATUS_OK ? call->models->region_add(call->models->user, &region, err)
                                    : status;
}

static kiln_status answer_region_remove(kserve_call *call, kiln_error *err)
{
    char name[KILN_MODEL_NAME], nothing[KILN_MODEL_NAME];
    kiln_status status = read_names(call, name, nothing, err);
    return status == KILN_STATUS_OK ? call->models->region_remove(call->models->user, name, err)
                                    : status;
}

// ---- inference ----

/// Too much for a thread's stack. Zeroed between requests, but for places and pieces of contents.
struct kilni_kserve_room {
    kilni_kserve_infer infer;
    kiln_model_answer answer;
    kilni_kserve_contents contents;
};

void kilni_kserve_room_free(const kiln_env *env, kilni_kserve_room *room)
{
    kiln_free(env, room);
}

/// NULL: there is no memory.
static kilni_kserve_room *find_room(const kserve_call *call)
{
    if (*call->room == NULL) {
        *call->room = kiln_alloc(call->env, sizeof(**call->room));
    }
    return *call->room;
}

/// `n_outputs`: of the answer that may have been written.
static void clear_room(kilni_kserve_room *room, uint32_t n_outputs)
{
    kiln_model_answer *answer = &room->answer;
    memset(answer->outputs, 0, n_outputs * sizeof(answer->outputs[0]));
    memset(answer->version, 0, sizeof(answer->version));
    answer->n_outputs = 0;
    answer->memory = NULL;
    room->contents.count = 0;
    kilni_kserve_infer_clear(&room->infer);
}

/// The call's text and the contents, each at its place, are the message.
static void keep_answer(kserve_call *call, const kilni_kserve_contents *contents)
{
    kilni_wire_piece pieces[2 * KILN_MODEL_TENSORS + 1];
    const unsigned char *text = (const unsigned char *)call->answer.text;
    size_t count = 0;
    size_t at = 0;
    for (uint32_t i = 0; i < contents->count; i++) {
        pieces[count++] = (kilni_wire_piece){text + at, contents->places[i] - at};
        pieces[count++] = contents->pieces[i];
        at = contents->places[i];
    }
    pieces[count++] = (kilni_wire_piece){text + at, call->answer.length - at};
    kilni_rpc_send_last(call->stream, pieces, count);
    call->is_kept = true;
}

/// `out` has the answer of a stream; NULL: it is the call's.
static kiln_status run_request(kserve_call *call, kiln_string *out, kiln_error *err)
{
    kilni_kserve_room *room = find_room(call);
    if (room == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a request");
    }
    kiln_status status = kilni_kserve_infer_read(call->env, call->request, &room->infer, err);
    room->infer.request.caller = call->caller;
    if (status == KILN_STATUS_OK) {
        status = call->models->infer(call->models->user, &room->infer.request, &room->answer, err);
    }
    uint32_t n_outputs = KILN_MODEL_TENSORS; // who failed may have written anywhere
    if (status == KILN_STATUS_OK) {
        n_outputs = room->answer.n_outputs;
        kilni_kserve_answer_put(out != NULL ? out : &call->answer, &room->infer, &room->answer,
                                out != NULL ? NULL : &room->contents);
        if (out == NULL && !call->answer.failed) {
            keep_answer(call, &room->contents);
        }
        call->models->answer_free(call->models->user, &room->answer);
    }
    clear_room(room, n_outputs);
    return status;
}

static kiln_status answer_infer(kserve_call *call, kiln_error *err)
{
    return run_request(call, NULL, err);
}

/// One answer of a stream: the result, or what went wrong.
static kiln_status answer_streamed(kserve_call *call, kiln_error *err)
{
    kiln_error why = KILN_ERROR_INIT;
    kiln_string response;
    kiln_string_init(&response, call->env);
    kiln_string_init(&call->answer, call->env);
    if (run_request(call, &response, &why) != KILN_STATUS_OK) {
        kilni_wire_put_text(&call->answer, TAG(ModelStreamInferResponse, error_message),
                            why.message);
    }
    kilni_wire_put_message(&call->answer, TAG(ModelStreamInferResponse, infer_response), &response);
    const void *bytes = NULL;
    kiln_status status = take_answer(call, &bytes, err);
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_send_bytes(call->stream, bytes, call->answer.length, err);
    }
    kiln_string_fini(&call->answer);
    return status;
}

static kiln_status serve_stream(kserve_call *call, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    bool end = false;
    while (status == KILN_STATUS_OK && !end) {
        kilni_rpc_message message = {0};
        void *copy = NULL;
        status = kilni_rpc_receive(call->stream, -1, &message, &end, err);
        if (status == KILN_STATUS_OK && !end) {
            status = join_pieces(call->env, &message, &call->request, &copy, err);
        }
        if (status == KILN_STATUS_OK && !end) {
            status = answer_streamed(call, err);
        }
        kiln_free(call->env, copy);
        kilni_rpc_message_free(&message);
    }
    return status;
}

// ---- calls ----

static const struct {
    const char *name;
    kiln_status (*answer)(kserve_call *call, kiln_error *err);
} method_table[] = {
    {"ModelInfer", answer_infer},
    {"ServerLive", answer_live},
    {"ServerReady", answer_ready},
    {"ServerMetadata", answer_metadata},
    {"ModelReady", answer_model_ready},
    {"ModelMetadata", answer_model_metadata},
    {"ModelConfig", answer_config},
    {"ModelStatistics", answer_statistics},
    {"RepositoryIndex", answer_index},
    {"RepositoryModelLoad", answer_load},
    {"RepositoryModelUnload", answer_unload},
    {"SystemSharedMemoryStatus", answer_region_status},
    {"SystemSharedMemoryRegister", answer_region_add},
    {"SystemSharedMemoryUnregister", answer_region_remove},
};

static kiln_status answer_method(kserve_call *call, const char *method, kiln_error *err)
{
    for (size_t i = 0; i < sizeof(method_table) / sizeof(method_table[0]); i++) {
        if (strcmp(method, method_table[i].name) == 0) {
            return method_table[i].answer(call, err);
        }
    }
    return kiln_fail(err, UNIMPLEMENTED, "there is no method %.60s; reflection lists them", method);
}

static kiln_status serve_one(kserve_call *call, const char *method, kiln_error *err)
{
    enum { REQUEST_MS = 60000 }; // a large one over a slow line
    kilni_rpc_message message = {0};
    void *copy = NULL;
    bool end = false;
    kiln_status status = kilni_rpc_receive(call->stream, REQUEST_MS, &message, &end, err);
    if (status == KILN_STATUS_OK && end) {
        status = kiln_fail(err, INVALID_ARGUMENT, "the call has no request");
    }
    if (status == KILN_STATUS_OK) {
        status = join_pieces(call->env, &message, &call->request, &copy, err);
    }
    kiln_string_init(&call->answer, call->env);
    if (status == KILN_STATUS_OK) {
        status = answer_method(call, method, err);
    }
    kiln_free(call->env, copy);
    kilni_rpc_message_free(&message);
    const void *bytes = NULL;
    if (status == KILN_STATUS_OK) {
        status = take_answer(call, &bytes, err);
    }
    if (status == KILN_STATUS_OK && !call->is_kept) {
        keep_answer(call, &(kilni_kserve_contents){.count = 0});
    }
    kiln_string_fini(&call->answer);
    return status;
}

void kilni_kserve_serve(const kiln_env *env, const kiln_models *models, const char *caller,
                        const char *method, kilni_rpc_stream *stream, kilni_kserve_room **room,
                        kiln_error *out_end)
{
    kserve_call call = {
        .env = env, .models = models, .caller = caller, .stream = stream, .room = room};
    kiln_status status = KILN_STATUS_OK;
    if (models == NULL) {
        status =
            kiln_fail(out_end, UNIMPLEMENTED,
                      "this server has devices and no models: it was started without --models");
    } else if (strcmp(method, "ModelStreamInfer") == 0) {
        status = serve_stream(&call, out_end);
    } else {
        status = serve_one(&call, method, out_end);
    }
    out_end->code = status == KILN_STATUS_OK ? 0 : out_end->code;
}

#undef TAG
