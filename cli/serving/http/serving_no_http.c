// SPDX-License-Identifier: MIT OR Apache-2.0
// Stands in for the HTTP server where libmicrohttpd was not found by the build: models are then
// answered over gRPC alone.

#include "serving.h"

kiln_status kiln_serving_http_create(kiln_serving *serving,
                                     const kiln_serving_http_options *options,
                                     kiln_serving_http **out_http, kiln_error *err)
{
    (void)serving;
    (void)options;
    *out_http = NULL;
    return kiln_fail(err, UNIMPLEMENTED, "built without HTTP: libmicrohttpd was not there");
}

const char *kiln_serving_http_address(const kiln_serving_http *http)
{
    (void)http;
    return "";
}

void kiln_serving_http_destroy(kiln_serving_http *http)
{
    (void)http;
}
