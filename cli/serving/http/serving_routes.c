// SPDX-License-Identifier: MIT OR Apache-2.0
// The REST form of the protocol: which path asks for what. Every answer comes from the same
// functions as over gRPC; failures keep their words and get HTTP's numbers.

#include "serving_routes.h"

#include "serving_json.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WORDS = 8 };

/// A request while it is answered.
typedef struct route_call {
    kiln_serving *serving;
    const kiln_models *models;
    const kilni_http_request *request;
    kilni_http_reply *reply;
    char words[MOST_WORDS][KILN_MODEL_NAME]; ///< of the path
    uint32_t n_words;
    const char *model;
    const char *version; ///< "" for none
} route_call;

// ---- failures ----

static unsigned http_code(kiln_status status)
{
    switch ((int)status) {
    case KILN_STATUS_OK:
        return 200;
    case KILN_STATUS_INVALID_ARGUMENT:
    case KILN_STATUS_FAILED_PRECONDITION:
    case KILN_STATUS_ALREADY_EXISTS:
    case KILN_STATUS_OUT_OF_RANGE:
        return 400;
    case KILN_STATUS_UNAUTHENTICATED:
        return 401;
    case KILN_STATUS_PERMISSION_DENIED:
        return 403;
    case KILN_STATUS_NOT_FOUND:
        return 404;
    case KILN_STATUS_UNIMPLEMENTED:
        return 501;
    case KILN_STATUS_UNAVAILABLE:
    case KILN_STATUS_RESOURCE_EXHAUSTED:
        return 503;
    case KILN_STATUS_DEADLINE_EXCEEDED:
        return 504;
    default:
        return 500;
    }
}

void kilni_http_refuse(kilni_http_reply *reply, kiln_status status, const char *text)
{
    const kiln_env *env = reply->body.env;
    kiln_string_fini(&reply->body);
    kiln_string_init(&reply->body, env);
    reply->code = http_code(status);
    reply->status = status;
    snprintf(reply->message, sizeof(reply->message), "%s", text);
    reply->json_length = 0;
    kiln_string_printf(&reply->body, "{\"error\":");
    kilni_json_text_put(&reply->body, text);
    kiln_string_append(&reply->body, "}", 1);
}

// ---- the server ----

static kiln_status route_live(route_call *call, kiln_error *err)
{
    (void)call;
    (void)err;
    return KILN_STATUS_OK;
}

static kiln_status route_ready(route_call *call, kiln_error *err)
{
    return call->models->ready(call->models->user)
               ? KILN_STATUS_OK
               : kiln_fail(err, UNAVAILABLE, "models are being loaded, or the server is going");
}

static kiln_status route_server(route_call *call, kiln_error *err)
{
    (void)err;
    kiln_string_printf(
        &call->reply->body,
        "{\"name\":\"kiln\",\"version\":\"%s\",\"extensions\":[\"binary_tensor_data\","
        "\"model_repository\",\"model_configuration\",\"statistics\","
        "\"system_shared_memory\",\"schedule_policy\",\"sequence\"]}",
        kiln_version());
    return KILN_STATUS_OK;
}

static kiln_status route_metrics(route_call *call, kiln_error *err)
{
    (void)err;
    call->reply->type = "text/plain; version=0.0.4";
    kilni_http_metrics_put(&call->reply->body, call->serving, call->request->door);
    return KILN_STATUS_OK;
}

// ---- models ----

typedef void (*info_put_fn)(kiln_string *out, const kiln_model_info *info);

static kiln_status tell_info(route_call *call, info_put_fn put, kiln_error *err)
{
    kiln_model_info *info = kiln_alloc(call->serving->env, sizeof(*info));
    if (info == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for an answer");
    }
    kiln_status status =
        call->models->describe(call->models->user, call->model, call->version, info, err);
    if (status == KILN_STATUS_OK && put != NULL) {
        put(&call->reply->body, info);
    }
    kiln_free(call->serving->env, info);
    return status;
}

static kiln_status route_model(route_call *call, kiln_error *err)
{
    return tell_info(call, kilni_json_metadata_put, err);
}

static kiln_status route_model_config(route_call *call, kiln_error *err)
{
    return tell_info(call, kilni_json_config_put, err);
}

static kiln_status route_model_ready(route_call *call, kiln_error *err)
{
    return tell_info(call, NULL, err);
}

/// Items of a list, with commas between.
typedef struct list_sink {
    kiln_string *out;
    bool more;
} list_sink;

static void put_comma(list_sink *list)
{
    if (list->more) {
        kiln_string_append(list->out, ",", 1);
    }
    list->more = true;
}

static void put_stats_item(const kiln_model_stats *stats, void *to)
{
    put_comma(to);
    kilni_json_stats_put(((list_sink *)to)->out, stats);
}

static kiln_status route_stats(route_call *call, kiln_error *err)
{
    list_sink list = {.out = &call->reply->body};
    kiln_string_printf(list.out, "{\"model_stats\":[");
    kiln_status status = call->models->statistics(call->models->user, call->model, call->version,
                                                  put_stats_item, &list, err);
    kiln_string_printf(list.out, "]}");
    return status;
}

// ---- inference ----

typedef struct http_run {
    kilni_json_infer infer;
    kiln_model_answer answer;
} http_run;

static kiln_status find_json_length(const route_call *call, size_t *out_length, kiln_error *err)
{
    const char *text = call->request->json_length;
    char *end = NULL;
    *out_length = call->request->length;
    if (text == NULL) {
        return KILN_STATUS_OK;
    }
    unsigned long long length = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || length > SIZE_MAX) {
        return kiln_fail(err, INVALID_ARGUMENT, "Inference-Header-Content-Length is no length");
    }
    *out_length = (size_t)length;
    return KILN_STATUS_OK;
}

static kiln_status route_infer(route_call *call, kiln_error *err)
{
    const kiln_env *env = call->serving->env;
    size_t json_length = 0;
    kiln_status status = KILN_STATUS_OK;
    http_run *run = kiln_alloc(env, sizeof(*run));
    if (run == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a request");
    }
    KILN_TRY(out, status, find_json_length(call, &json_length, err));
    KILN_TRY(out, status,
             kilni_json_infer_read(env, call->request->body, call->request->length, json_length,
                                   &run->infer, err));
    snprintf(run->infer.request.model, sizeof(run->infer.request.model), "%s", call->model);
    snprintf(run->infer.request.version, sizeof(run->infer.request.version), "%.*s",
             KILN_MODEL_VERSION - 1, call->version);
    run->infer.request.caller = call->request->caller;
    KILN_TRY(out, status,
             call->models->infer(call->models->user, &run->infer.request, &run->answer, err));
    status = kilni_json_answer_put(&call->reply->body, &run->infer, &run->answer,
                                   &call->reply->json_length, err);
    if (call->reply->json_length > 0) {
        call->reply->type = "application/octet-stream";
    }
out:
    call->models->answer_free(call->models->user, &run->answer);
    kilni_json_infer_fini(&run->infer);
    kiln_free(env, run);
    return status;
}

// ---- the repository ----

static json_t *load_body(const route_call *call)
{
    return call->request->length > 0
               ? json_loadb(call->request->body, call->request->length, 0, NULL)
               : NULL;
}

static void put_row_item(const kiln_model_row *row, void *to)
{
    kiln_string *out = ((list_sink *)to)->out;
    const struct {
        const char *key;
        const char *text;
    } parts[] = {{"version", row->version}, {"state", row->state}, {"reason", row->reason}};
    put_comma(to);
    kiln_string_printf(out, "{\"name\":");
    kilni_json_text_put(out, row->name);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (parts[i].text[0] != '\0') {
            kiln_string_printf(out, ",\"%s\":", parts[i].key);
            kilni_json_text_put(out, parts[i].text);
        }
    }
    kiln_string_append(out, "}", 1);
}

static kiln_status route_index(route_call *call, kiln_error *err)
{
    list_sink list = {.out = &call->reply->body};
    json_t *body = load_body(call);
    (void)err;
    kiln_string_append(list.out, "[", 1);
    call->models->index(call->models->user, json_is_true(json_object_get(body, "ready")),
                        put_row_item, &list);
    kiln_string_append(list.out, "]", 1);
    json_decref(body);
    return KILN_STATUS_OK;
}

static kiln_status route_load(route_call *call, kiln_error *err)
{
    json_t *body = load_body(call);
    bool with_parameters = json_object_size(json_object_get(body, "parameters")) > 0;
    json_decref(body);
    if (with_parameters) {
        return kiln_fail(err, UNIMPLEMENTED,
                         "models and their configuration come from the server's folder, not with "
                         "the request");
    }
    return call->models->load(call->models->user, call->model, err);
}

static kiln_status route_unload(route_call *call, kiln_error *err)
{
    return call->models->unload(call->models->user, call->model, err);
}

// ---- shared memory: `model` is the region's name ----

static void put_region_item(const kiln_model_region *region, void *to)
{
    kiln_string *out = ((list_sink *)to)->out;
    put_comma(to);
    kiln_string_printf(out, "{\"name\":");
    kilni_json_text_put(out, region->name);
    kiln_string_printf(out, ",\"key\":");
    kilni_json_text_put(out, region->key);
    kiln_string_printf(out, ",\"offset\":%" PRIu64 ",\"byte_size\":%" PRIu64 "}", region->offset,
                       region->bytes);
}

static kiln_status route_region_status(route_call *call, kiln_error *err)
{
    list_sink list = {.out = &call->reply->body};
    kiln_string_append(list.out, "[", 1);
    kiln_status status =
        call->models->region_list(call->models->user, call->model, put_region_item, &list, err);
    kiln_string_append(list.out, "]", 1);
    return status;
}

static kiln_status route_region_add(route_call *call, kiln_error *err)
{
    json_t *body = load_body(call);
    const char *key = json_string_value(json_object_get(body, "key"));
    json_int_t offset = json_integer_value(json_object_get(body, "offset"));
    json_int_t bytes = json_integer_value(json_object_get(body, "byte_size"));
    const kiln_model_region region = {call->model, key != NULL ? key : "", (uint64_t)offset,
                                      (uint64_t)bytes};
    kiln_status status = key != NULL && offset >= 0 && bytes > 0
                             ? call->models->region_add(call->models->user, &region, err)
                             : kiln_fail(err, INVALID_ARGUMENT,
                                         "a region has \"key\", \"offset\" and \"byte_size\"");
    json_decref(body);
    return status;
}

static kiln_status route_region_remove(route_call *call, kiln_error *err)
{
    return call->models->region_remove(call->models->user, call->model, err);
}

// ---- paths ----

/// `*` takes any word as the model's name, `#` one as its version.
static const struct {
    const char *method;
    const char *path;
    kiln_status (*answer)(route_call *call, kiln_error *err);
} route_table[] = {
    {"GET", "v2/health/live", route_live},
    {"GET", "v2/health/ready", route_ready},
    {"GET", "v2", route_server},
    {"GET", "metrics", route_metrics},
    {"GET", "v2/models/stats", route_stats},
    {"GET", "v2/models/*", route_model},
    {"GET", "v2/models/*/versions/#", route_model},
    {"GET", "v2/models/*/ready", route_model_ready},
    {"GET", "v2/models/*/versions/#/ready", route_model_ready},
    {"GET", "v2/models/*/config", route_model_config},
    {"GET", "v2/models/*/versions/#/config", route_model_config},
    {"GET", "v2/models/*/stats", route_stats},
    {"GET", "v2/models/*/versions/#/stats", route_stats},
    {"POST", "v2/models/*/infer", route_infer},
    {"POST", "v2/models/*/versions/#/infer", route_infer},
    {"POST", "v2/repository/index", route_index},
    {"POST", "v2/repository/models/*/load", route_load},
    {"POST", "v2/repository/models/*/unload", route_unload},
    {"GET", "v2/systemsharedmemory/status", route_region_status},
    {"GET", "v2/systemsharedmemory/region/*/status", route_region_status},
    {"POST", "v2/systemsharedmemory/region/*/register", route_region_add},
    {"POST", "v2/systemsharedmemory/region/*/unregister", route_region_remove},
    {"POST", "v2/systemsharedmemory/unregister", route_region_remove},
};

/// False for a path that no row can have.
static bool split_path(route_call *call)
{
    const char *at = call->request->path;
    while (*(at += strspn(at, "/")) != '\0') {
        size_t length = strcspn(at, "/");
        if (call->n_words == MOST_WORDS || length >= KILN_MODEL_NAME) {
            return false;
        }
        memcpy(call->words[call->n_words], at, length);
        call->words[call->n_words++][length] = '\0';
        at += length;
    }
    return call->n_words > 0;
}

static bool has_path(route_call *call, const char *path)
{
    uint32_t word = 0;
    call->model = call->version = "";
    for (const char *at = path; *at != '\0'; word++) {
        size_t length = strcspn(at, "/");
        if (word == call->n_words) {
            return false;
        }
        if (*at == '*') {
            call->model = call->words[word];
        } else if (*at == '#') {
            call->version = call->words[word];
        } else if (strlen(call->words[word]) != length ||
                   strncmp(call->words[word], at, length) != 0) {
            return false;
        }
        at += length;
        at += *at == '/';
    }
    return word == call->n_words;
}

static kiln_status find_route(route_call *call, kiln_error *err)
{
    bool known = false;
    bool good = split_path(call);
    for (size_t i = 0; good && i < sizeof(route_table) / sizeof(route_table[0]); i++) {
        if (has_path(call, route_table[i].path)) {
            known = true;
            if (strcmp(call->request->method, route_table[i].method) == 0) {
                return route_table[i].answer(call, err);
            }
        }
    }
    if (known) {
        call->reply->code = 405;
        return kiln_fail(err, INVALID_ARGUMENT, "%.16s is not what this path takes",
                         call->request->method);
    }
    return kiln_fail(err, NOT_FOUND, "there is nothing at %.120s", call->request->path);
}

void kilni_http_answer(kiln_serving *serving, const kilni_http_request *request,
                       kilni_http_reply *out_reply)
{
    route_call call = {.serving = serving,
                       .models =
                           request->models != NULL ? request->models : kiln_serving_models(serving),
                       .request = request,
                       .reply = out_reply};
    kiln_error err = KILN_ERROR_INIT;
    *out_reply = (kilni_http_reply){.code = 200, .type = "application/json"};
    kiln_string_init(&out_reply->body, serving->env);
    kiln_status status = find_route(&call, &err);
    if (status == KILN_STATUS_OK && out_reply->body.failed) {
        status = kiln_fail(&err, RESOURCE_EXHAUSTED, "no memory for an answer");
    }
    if (status != KILN_STATUS_OK) {
        unsigned code = out_reply->code;
        out_reply->type = "application/json";
        kilni_http_refuse(out_reply, status, err.message);
        out_reply->code = code != 200 ? code : out_reply->code;
    }
    if (call.model != NULL) {
        snprintf(out_reply->model, sizeof(out_reply->model), "%s", call.model);
    }
}
