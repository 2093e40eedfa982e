// SPDX-License-Identifier: MIT OR Apache-2.0
// Kiln on the machine: cache, fusers, devices; each device computes something whose result is
// known.

#include "doctor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

// ---- cache ----

void doctor_cache(doctor *d)
{
    static const char move[] = "set KILN_CACHE_DIR to a folder that can be written";
    char folder[4096], bytes[32], left[32];
    struct statvfs space;
    kiln_error err = KILN_ERROR_INIT;
    if (kiln_cache_dir(kiln_context_env(d->context), folder, sizeof(folder), &err) !=
        KILN_STATUS_OK) {
        doctor_tell(d, DOCTOR_SLOW, "cache", move,
                    "there is none, so each process compiles again: %s", err.message);
        return;
    }
    kiln_store *store = kiln_context_store(d->context);
    if (store == NULL || access(folder, W_OK) != 0) {
        doctor_tell(d, DOCTOR_SLOW, "cache", move,
                    "%s cannot be written, so each process compiles again", folder);
        return;
    }
    kiln_store_stat stat;
    if (kiln_store_stat_get(store, &stat, &err) != KILN_STATUS_OK) {
        doctor_tell(d, DOCTOR_SLOW, "cache", "`kiln cache clear`", "%s: %s", folder, err.message);
        return;
    }
    doctor_tell(d, DOCTOR_GOOD, "cache", NULL, "%s: %s, %llu programs, %llu plans", folder,
                cli_format_bytes(bytes, (double)stat.file_bytes),
                (unsigned long long)stat.entries[KILN_STORE_PROGRAMS],
                (unsigned long long)stat.entries[KILN_STORE_PLANS]);
    double free_bytes =
        statvfs(folder, &space) == 0 ? (double)space.f_bavail * (double)space.f_frsize : INFINITY;
    if (free_bytes < 64.0 * 1024 * 1024) {
        doctor_tell(d, DOCTOR_SLOW, "cache", "free some space, or move it by KILN_CACHE_DIR",
                    "its disk has %s left", cli_format_bytes(left, free_bytes));
    }
}

// ---- fusers ----

void doctor_plugins(doctor *d)
{
    unsigned taken = 0;
    kiln_error err = KILN_ERROR_INIT;
    for (size_t i = 0;; i++) {
        kiln_plugin_info info = KILN_PLUGIN_INFO_INIT;
        if (kiln_plugin_get(d->context, i, &info, &err) != KILN_STATUS_OK) {
            break;
        }
        if (strcmp(info.state, "taken") == 0) {
            taken++;
        } else {
            doctor_tell(d, DOCTOR_SLOW, "plugin", "`kiln plugin reset` when its cause is gone",
                        "%s %s: %s", info.state, info.path, info.reason);
        }
    }
    if (taken > 0) {
        doctor_tell(d, DOCTOR_GOOD, "plugin", NULL, "%u taken", taken);
    } else {
        doctor_tell(d, DOCTOR_SLOW, "plugin",
                    "see `kiln plugin list --why` and the option plugin-path",
                    "no fuser was found: every operation runs on its own");
    }
}

// ---- devices ----

enum { EXTENT = 512 };

typedef struct trial {
    double first_ns; ///< compiling among it
    double least_ns; ///< of later ones
    bool right;
} trial;

/// relu(a b - 1) where every element of a and b is 1: a product and a block behind it.
static kiln_status compute(kiln_device *device, kiln_tensor *ones, float *result, kiln_error *err)
{
    kiln_tensor *product = NULL, *less = NULL, *out_tensor = NULL;
    kiln_status status = KILN_STATUS_OK;
    KILN_TRY(out, status, kiln_matmul(ones, ones, false, false, &product, err));
    KILN_TRY(out, status, kiln_add_scalar(product, kiln_f64(-1), &less, err));
    KILN_TRY(out, status, kiln_relu(less, &out_tensor, err));
    KILN_TRY(out, status, kiln_read(out_tensor, result, sizeof(*result) * EXTENT * EXTENT, err));
    status = kiln_sync(device, err);
out:
    kiln_release(product);
    kiln_release(less);
    kiln_release(out_tensor);
    return status;
}

static kiln_status try_device(kiln_device *device, trial *out_trial, kiln_error *err)
{
    enum { TRIES = 5 };
    static const int64_t dims[] = {EXTENT, EXTENT};
    kiln_tensor *ones = NULL;
    kiln_status status = KILN_STATUS_OK;
    float *result = malloc(sizeof(*result) * EXTENT * EXTENT);
    *out_trial = (trial){.least_ns = INFINITY, .right = true};
    if (result == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a trial");
    }
    KILN_TRY(out, status, kiln_full(device, dims, 2, KILN_DTYPE_F32, kiln_f64(1), &ones, err));
    for (int i = 0; i < TRIES; i++) {
        uint64_t start = kiln_time_ns();
        KILN_TRY(out, status, compute(device, ones, result, err));
        double ns = (double)(kiln_time_ns() - start);
        out_trial->first_ns = i == 0 ? ns : out_trial->first_ns;
        out_trial->least_ns = fmin(ns, out_trial->least_ns);
    }
    for (size_t i = 0; i < (size_t)EXTENT * EXTENT; i++) {
        out_trial->right = out_trial->right && result[i] == (float)(EXTENT - 1);
    }
out:
    kiln_release(ones);
    free(result);
    return status;
}

static void tell_speeds(doctor *d, const char *address, const kiln_device_info *info)
{
    if (info->speeds_doubtful != 0) {
        doctor_tell(d, DOCTOR_SLOW, "device", "`kiln devices -v` on an idle machine measures again",
                    "%s: its speeds were measured while the machine was busy", address);
    } else if (info->bytes_per_s > 0) {
        doctor_tell(d, DOCTOR_GOOD, "device", NULL,
                    "%s: a copy moves %.1f GB/s, a launch takes %.1f us", address,
                    (double)info->bytes_per_s / 1e9, (double)info->launch_ns / 1e3);
    }
}

static void tell_trial(doctor *d, const char *address, const kiln_device_info *info, const trial *t)
{
    double flops = 2.0 * EXTENT * EXTENT * EXTENT / t->least_ns * 1e9;
    double share = info->flops_f32 > 0 ? flops / (double)info->flops_f32 : 1;
    char first[32];
    if (!t->right) {
        doctor_tell(d, DOCTOR_BROKEN, "device",
                    "update its driver; --no-fusion tells fusers from drivers",
                    "%s computes wrong results", address);
        return;
    }
    doctor_tell(d, DOCTOR_GOOD, "device", NULL,
                "%s computes: %.1f GFLOP/s in a product, first run %s", address, flops / 1e9,
                cli_format_ns(first, t->first_ns));
    if (share < 0.03) {
        doctor_tell(
            d, DOCTOR_SLOW, "device",
            "`kiln tune MODEL` chooses by measuring; CLBlast's own tuners know its kernels",
            "%s: a product reaches %.1f %% of what its clock allows: the kernels do not fit it, "
            "or the machine is busy",
            address, 100 * share);
    }
    if (t->first_ns > 10e9) {
        doctor_tell(d, DOCTOR_SLOW, "device", "`kiln cache prepare MODEL` compiles beforehand",
                    "%s: its compiler is slow", address);
    }
}

static void look_at_device(doctor *d, const char *address, const char *line)
{
    trial t;
    kiln_device *device = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = kiln_device_open(d->context, address, &device, &err);
    if (status != KILN_STATUS_OK) {
        doctor_tell(d, DOCTOR_BROKEN, "device", "update its driver, or leave the device out",
                    "%s: %s", address, err.message);
        return;
    }
    doctor_tell(d, DOCTOR_GOOD, "device", NULL, "%s: %s", address, line);
    status = try_device(device, &t, &err);
    tell_speeds(d, address, kiln_device_info_of(device));
    if (status == KILN_STATUS_OK) {
        tell_trial(d, address, kiln_device_info_of(device), &t);
    } else {
        doctor_tell(d, DOCTOR_BROKEN, "device", "update its driver, or leave the device out",
                    "%s does not compute: %s", address, err.message);
    }
    kiln_device_release(device);
}

void doctor_devices(doctor *d)
{
    char address[64], line[192];
    kiln_error err = KILN_ERROR_INIT;
    const char *chosen =
        d->options->device != NULL
            ? d->options->device
            : kiln_config_string(kiln_context_env(d->context)->config, KILN_OPTION_DEVICE);
    size_t count = 0;
    bool seen = chosen[0] == '\0';
    while (kiln_device_describe(d->context, count, address, line, &err) == KILN_STATUS_OK) {
        seen = seen || strcmp(chosen, address) == 0;
        look_at_device(d, address, line);
        count++;
    }
    if (count == 0) {
        doctor_tell(d, DOCTOR_BROKEN, "device",
                    "install an OpenCL driver; --device reference computes slowly without one",
                    "there is no OpenCL device");
    }
    if (!seen) {
        look_at_device(d, chosen, "the device that is configured");
    }
}
