// SPDX-License-Identifier: MIT OR Apache-2.0
// A device behind gRPC: a server and a client in one process, over loopback. The client uses the
// remote device like any other: it registers a tensor, records operations, reads the result, and
// compares it with the same work done locally.

#include <kiln/kiln.h>
#include <kiln/remote_grpc.h>

#include <stdio.h>
#include <string.h>

enum { ROWS = 64, COLUMNS = 48 };

static kiln_status compute(kiln_device *device, const float *a, const float *b, float *out_rows,
                           kiln_error *err)
{
    const int64_t dims_a[] = {ROWS, COLUMNS};
    const int64_t dims_b[] = {COLUMNS, ROWS};
    const int64_t last[] = {1};
    kiln_tensor *t[5] = {NULL};
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kiln_tensor_create(device, KILN_DTYPE_F32, 2, dims_a, a, &t[0], err));
    KILN_TRY(out, status, kiln_tensor_create(device, KILN_DTYPE_F32, 2, dims_b, b, &t[1], err));
    KILN_TRY(out, status, kiln_matmul(t[0], t[1], false, false, &t[2], err));
    KILN_TRY(out, status, kiln_relu(t[2], &t[3], err));
    KILN_TRY(out, status, kiln_sum(t[3], last, 1, false, &t[4], err));
    status = kiln_read(t[4], out_rows, sizeof(float) * ROWS, err);
out:
    for (size_t i = 0; i < 5; i++) {
        kiln_release(t[i]);
    }
    return status;
}

static void fill(float *values, size_t count, uint32_t state)
{
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        values[i] = (float)(state >> 24) / 256.0f - 0.5f;
    }
}

static kiln_status run(kiln_error *err)
{
    static float a[ROWS * COLUMNS];
    static float b[ROWS * COLUMNS];
    float here[ROWS];
    float there[ROWS];
    kiln_context *context = NULL;
    kiln_device *local = NULL;
    kiln_device *remote = NULL;
    kiln_rpc_server *server = NULL;
    kiln_status status = KILN_STATUS_OK;
    fill(a, ROWS * COLUMNS, 1);
    fill(b, ROWS * COLUMNS, 2);
    KILN_TRY(out, status, kiln_context_create(NULL, &context, err));
    KILN_TRY(out, status, kiln_device_open(context, NULL, &local, err));
    KILN_TRY(out, status, kiln_rpc_server_create(&local, 1, NULL, &server, err));
    KILN_TRY(out, status,
             kiln_device_open(context, kiln_rpc_server_address(server, 0), &remote, err));
    KILN_TRY(out, status, compute(local, a, b, here, err));
    uint64_t start = kiln_time_ns();
    KILN_TRY(out, status, compute(remote, a, b, there, err));
    double ms = (double)(kiln_time_ns() - start) / 1e6;
    if (memcmp(here, there, sizeof(here)) != 0) {
        status = kiln_fail(err, DATA_LOSS, "the remote result differs from the local one");
        goto out;
    }
    printf("remote: %s gives the same %d sums as %s, bit for bit, in %.1f ms\n",
           kiln_rpc_server_address(server, 0), ROWS, kiln_device_info_of(local)->name, ms);
out:
    kiln_device_release(remote);
    kiln_rpc_server_destroy(server);
    kiln_device_release(local);
    kiln_context_destroy(context);
    return status;
}

int main(void)
{
    kiln_error err = KILN_ERROR_INIT;
    if (run(&err) != KILN_STATUS_OK) {
        fprintf(stderr, "remote_demo: %s\n", err.message);
        return 1;
    }
    return 0;
}
