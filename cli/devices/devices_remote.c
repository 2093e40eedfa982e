// SPDX-License-Identifier: MIT OR Apache-2.0
// The devices and models of a server, as text and as JSON. Decides how an address without a device
// is told from one with; asking is libkiln_remote's.

#include "devices_remote.h"

#include <stdio.h>
#include <string.h>

bool devices_is_server(const char *address)
{
    const char *host = strstr(address, "://");
    if (strcmp(address, "grpc:") == 0) {
        return true;
    }
    if (strncmp(address, "unix:", 5) == 0) {
        return strchr(address, '#') == NULL;
    }
    return host != NULL && strchr(host + 3, '/') == NULL;
}

#ifdef KILN_WITH_REMOTE

#include "remote_grpc.h"

typedef struct listing_api {
    kiln_status (*create)(kiln_context *context, const char *address,
                          kiln_rpc_listing **out_listing, kiln_error *err);
    void (*destroy)(kiln_rpc_listing *listing);
    const char *(*server)(const kiln_rpc_listing *listing);
    const kiln_rpc_listed_device *(*device)(const kiln_rpc_listing *listing, size_t index);
    const kiln_rpc_listed_model *(*model)(const kiln_rpc_listing *listing, size_t index);
} listing_api;

static kiln_status load_listing(listing_api *out_api, kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, cli_remote_function("kiln_rpc_listing_create", &out_api->create, err));
    KILN_TRY(out, status, cli_remote_function("kiln_rpc_listing_destroy", &out_api->destroy, err));
    KILN_TRY(out, status, cli_remote_function("kiln_rpc_listing_server", &out_api->server, err));
    KILN_TRY(out, status, cli_remote_function("kiln_rpc_listing_device", &out_api->device, err));
    KILN_TRY(out, status, cli_remote_function("kiln_rpc_listing_model", &out_api->model, err));
out:
    return status;
}

static void print_dtypes(const char *title, uint64_t mask)
{
    printf("  %-13s", title);
    for (int dtype = 1; dtype < KILN_DTYPE_LIMIT; dtype++) {
        if ((mask >> dtype & 1) != 0) {
            printf(" %s", kiln_dtype_name((kiln_dtype)dtype));
        }
    }
    printf("\n");
}

static void print_server(const listing_api *api, const kiln_rpc_listing *listing)
{
    char memory[32];
    const kiln_rpc_listed_device *device = NULL;
    const kiln_rpc_listed_model *model = NULL;
    printf("%s\n", api->server(listing));
    for (size_t i = 0; (device = api->device(listing, i)) != NULL; i++) {
        printf("%-12s %s\n", device->address, device->name);
        printf("  %-13s %s\n", "driver", device->driver);
        printf("  %-13s %s\n", "memory", cli_format_bytes(memory, (double)device->memory_bytes));
        print_dtypes("stores", device->storage_dtypes);
        print_dtypes("computes", device->arithmetic_dtypes);
        print_dtypes("accelerates", device->accelerated_dtypes);
    }
    for (size_t i = 0; (model = api->model(listing, i)) != NULL; i++) {
        printf("model %s", model->name);
        printf(model->version[0] != '\0' ? " %s: %s" : "%s: %s", model->version, model->state);
        printf(model->reason[0] != '\0' ? " (%s)\n" : "%s\n", model->reason);
    }
}

static json_t *dtypes_json(uint64_t mask)
{
    json_t *list = json_array();
    for (int dtype = 1; dtype < KILN_DTYPE_LIMIT; dtype++) {
        if ((mask >> dtype & 1) != 0) {
            json_array_append_new(list, json_string(kiln_dtype_name((kiln_dtype)dtype)));
        }
    }
    return list;
}

static void add_server(const listing_api *api, const kiln_rpc_listing *listing, json_t *list)
{
    const kiln_rpc_listed_device *device = NULL;
    const kiln_rpc_listed_model *model = NULL;
    for (size_t i = 0; (device = api->device(listing, i)) != NULL; i++) {
        json_array_append_new(list, json_pack("{s:o, s:o, s:o, s:I, s:o, s:o, s:o}", "address",
                                              cli_json_text(device->address), "name",
                                              cli_json_text(device->name), "driver",
                                              cli_json_text(device->driver), "memory_bytes",
                                              (json_int_t)device->memory_bytes, "stores",
                                              dtypes_json(device->storage_dtypes), "computes",
                                              dtypes_json(device->arithmetic_dtypes), "accelerates",
                                              dtypes_json(device->accelerated_dtypes)));
    }
    for (size_t i = 0; (model = api->model(listing, i)) != NULL; i++) {
        json_array_append_new(
            list, json_pack("{s:o, s:o, s:o, s:o}", "model", cli_json_text(model->name), "version",
                            cli_json_text(model->version), "state", cli_json_text(model->state),
                            "reason", cli_json_text(model->reason)));
    }
}

kiln_status devices_show_server(kiln_context *context, const char *address, json_t *list,
                                kiln_error *err)
{
    listing_api api;
    kiln_rpc_listing *listing = NULL;
    kiln_status status = load_listing(&api, err);
    if (status == KILN_STATUS_OK) {
        status = api.create(context, address, &listing, err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    if (list != NULL) {
        add_server(&api, listing, list);
    } else {
        print_server(&api, listing);
    }
    api.destroy(listing);
    return status;
}

#else

kiln_status devices_show_server(kiln_context *context, const char *address, json_t *list,
                                kiln_error *err)
{
    (void)context;
    (void)list;
    return kiln_fail(err, NOT_FOUND, "%s: built without gRPC", address);
}

#endif
