// SPDX-License-Identifier: MIT OR Apache-2.0
// The machine without Kiln: processors, load, memory, variables of the environment, OpenCL drivers.
// Decides from which load and memory on a machine is called busy.

#include "doctor.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

void doctor_build(doctor *d)
{
    static const char parts[] = ""
#ifdef KILN_WITH_CL
                                ", OpenCL"
#endif
#ifdef KILN_WITH_ONNX
                                ", ONNX"
#endif
#ifdef KILN_WITH_REMOTE
                                ", remote devices"
#endif
#ifdef KILN_WITH_PNG
                                ", PNG"
#endif
#ifdef KILN_WITH_JPEG
                                ", JPEG"
#endif
#ifdef KILN_WITH_ZLIB
                                ", compressed .npz"
#endif
        ;
    doctor_tell(d, DOCTOR_GOOD, "kiln", NULL, "%s%s%s", kiln_version(),
                parts[0] != '\0' ? " with " : ", the smallest build",
                parts[0] != '\0' ? parts + 2 : "");
#ifndef KILN_WITH_CL
    doctor_tell(d, DOCTOR_BROKEN, "kiln", "build with -DKILN_CL=ON", "this build has no OpenCL");
#endif
}

static double load_of(void)
{
    double loads[1] = {0};
    return getloadavg(loads, 1) == 1 ? loads[0] : 0;
}

void doctor_machine(doctor *d)
{
    char memory[32];
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    double bytes = (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGE_SIZE);
    double load = load_of();
    doctor_tell(d, DOCTOR_GOOD, "machine", NULL, "%ld processors, %s of memory free", processors,
                cli_format_bytes(memory, bytes));
    if (load > 0.5 * (double)processors) {
        doctor_tell(d, DOCTOR_SLOW, "machine",
                    "end what else runs, or do not trust times, tuning and measured speeds",
                    "busy: %.1f programs want to run on %ld processors", load, processors);
    }
    if (bytes < 256.0 * 1024 * 1024) {
        doctor_tell(d, DOCTOR_SLOW, "machine", "end what takes the memory",
                    "little memory is free");
    }
}

// ---- environment ----

static const char *variable_at(size_t index, const void *unused)
{
    (void)unused;
    return index < KILN_OPTION_COUNT ? kiln_option_environment((kiln_option)index) : NULL;
}

/// Of Kiln, but not an option.
static bool is_known(const char *name)
{
    static const char *const others[] = {"KILN_RANK",         "KILN_JOBS",       "KILN_TEST_JOBS",
                                         "KILN_WERROR",       "KILN_NO_INSTALL", "KILN_TEST_LONG",
                                         "KILN_UPDATE_GOLDEN"};
    for (size_t i = 0; variable_at(i, NULL) != NULL; i++) {
        if (strcmp(variable_at(i, NULL), name) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (strcmp(others[i], name) == 0) {
            return true;
        }
    }
    return false;
}

void doctor_environment(doctor *d)
{
    for (char **at = environ; at != NULL && *at != NULL; at++) {
        char name[64], guess[CLI_GUESS_ROOM];
        size_t length = strcspn(*at, "=");
        if (strncmp(*at, "KILN_", 5) != 0 || length >= sizeof(name)) {
            continue;
        }
        snprintf(name, sizeof(name), "%.*s", (int)length, *at);
        if (is_known(name)) {
            doctor_tell(d, DOCTOR_GOOD, "environment", NULL, "%.200s", *at);
        } else {
            doctor_tell(d, DOCTOR_SLOW, "environment", "see `kiln config` for the names",
                        "%s is no option of Kiln, so it does nothing%s", name,
                        cli_guess(guess, name, variable_at, NULL));
        }
    }
}

// ---- drivers ----

static const char install_driver[] =
    "install one: on Debian pocl-opencl-icd for processors, nvidia-opencl-icd, intel-opencl-icd or "
    "mesa-opencl-icd for GPUs";

/// The library that a .icd file names, on its first line.
static void read_icd(const char *path, char *out_library, size_t room)
{
    FILE *file = fopen(path, "r");
    out_library[0] = '\0';
    if (file != NULL && fgets(out_library, (int)room, file) != NULL) {
        out_library[strcspn(out_library, "\r\n")] = '\0';
    }
    if (file != NULL) {
        fclose(file);
    }
}

static void look_at_icd(doctor *d, const char *folder, const char *name)
{
    char path[4096], library[1024];
    snprintf(path, sizeof(path), "%.2000s/%.250s", folder, name);
    read_icd(path, library, sizeof(library));
    void *handle = library[0] != '\0' ? dlopen(library, RTLD_LAZY | RTLD_LOCAL) : NULL;
    if (handle != NULL) { // stays: drivers have threads of their own
        doctor_tell(d, DOCTOR_GOOD, "driver", NULL, "%s: %s", path, library);
    } else {
        const char *why = library[0] != '\0' ? dlerror() : "it names no library";
        doctor_tell(d, DOCTOR_BROKEN, "driver", "install the driver again, or remove the file",
                    "%s: %s", path, why != NULL ? why : library);
    }
}

static bool ends_in_icd(const char *name)
{
    size_t length = strlen(name);
    return length > 4 && strcmp(name + length - 4, ".icd") == 0;
}

/// A GPU that the kernel knows, whether or not OpenCL does.
static void look_for_gpus(doctor *d, unsigned drivers)
{
    if (access("/dev/nvidia0", F_OK) == 0 && access("/dev/nvidia0", R_OK | W_OK) != 0) {
        doctor_tell(d, DOCTOR_SLOW, "driver", "add the user to the group that owns it",
                    "/dev/nvidia0 may not be opened: %s", strerror(errno));
    }
    if (access("/dev/dri/renderD128", F_OK) == 0 &&
        access("/dev/dri/renderD128", R_OK | W_OK) != 0) {
        doctor_tell(d, DOCTOR_SLOW, "driver", "add the user to the group render",
                    "/dev/dri/renderD128 may not be opened: %s", strerror(errno));
    }
    if (access("/dev/nvidia0", F_OK) == 0 && drivers == 0) {
        doctor_tell(d, DOCTOR_SLOW, "driver", "install nvidia-opencl-icd",
                    "an NVIDIA GPU without one");
    }
}

void doctor_drivers(doctor *d)
{
    const char *folder = getenv("OCL_ICD_VENDORS");
    folder = folder != NULL && folder[0] != '\0' ? folder : "/etc/OpenCL/vendors";
    unsigned count = 0;
    DIR *list = opendir(folder);
    for (const struct dirent *entry; list != NULL && (entry = readdir(list)) != NULL;) {
        if (ends_in_icd(entry->d_name)) {
            count++;
            look_at_icd(d, folder, entry->d_name);
        }
    }
    if (list != NULL) {
        closedir(list);
    }
    if (count == 0) {
        doctor_tell(d, DOCTOR_BROKEN, "driver", install_driver, "%s names no OpenCL driver",
                    folder);
    }
    look_for_gpus(d, count);
}
