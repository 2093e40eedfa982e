// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_SERVING_ROUTES_H
#define KILN_SERVING_ROUTES_H

/// What each path of the REST form answers, without a network.

#include "serving_repository.h"

typedef struct kilni_http_request {
    const char *method;
    const char *path;
    const char *body;
    size_t length;
    const char *json_length; ///< the header Inference-Header-Content-Length; NULL: none
    const char *caller; ///< who; NULL: anybody, who asks for health
    const kiln_models *models; ///< as the caller may use them; NULL: anybody's
    const kiln_serving_door *door;
} kilni_http_request;

typedef struct kilni_http_reply {
    unsigned code;
    kiln_status status;
    char model[KILN_MODEL_NAME]; ///< that was asked for, "": none
    char message[KILN_MODEL_REASON]; ///< of a failure
    const char *type;
    kiln_string body;
    size_t json_length; ///< where binary tensors begin; 0: there are none
} kilni_http_reply;

/// Answers. `*out_reply` is initialised and the caller's (kiln_string_fini of its body).
void kilni_http_answer(kiln_serving *serving, const kilni_http_request *request,
                       kilni_http_reply *out_reply);

/// A failure as the protocol tells it.
void kilni_http_refuse(kilni_http_reply *reply, kiln_status status, const char *text);

/// /metrics, in Prometheus' text form.
void kilni_http_metrics_put(kiln_string *out, kiln_serving *serving, const kiln_serving_door *door);

#endif
