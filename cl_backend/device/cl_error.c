// SPDX-License-Identifier: MIT OR Apache-2.0
// Decides what an OpenCL error code means for a caller: its name, its status, and whether the
// device is lost. Who reports it and when is up to the other files.

#include <stdio.h>

#include "cl_error.h"
#include "cl_state.h"

typedef struct code_row {
    cl_int code;
    kiln_status status;
    const char *name;
} code_row;

static const code_row rows[] = {
#define ROW(code, status)                                                                          \
    {                                                                                              \
        code, KILN_STATUS_##status, #code                                                          \
    }
    ROW(CL_DEVICE_NOT_FOUND, NOT_FOUND),
    ROW(CL_DEVICE_NOT_AVAILABLE, DEVICE_LOST),
    ROW(CL_COMPILER_NOT_AVAILABLE, UNIMPLEMENTED),
    ROW(CL_MEM_OBJECT_ALLOCATION_FAILURE, RESOURCE_EXHAUSTED),
    ROW(CL_OUT_OF_RESOURCES, RESOURCE_EXHAUSTED),
    ROW(CL_OUT_OF_HOST_MEMORY, RESOURCE_EXHAUSTED),
    ROW(CL_PROFILING_INFO_NOT_AVAILABLE, UNIMPLEMENTED),
    ROW(CL_MEM_COPY_OVERLAP, INVALID_ARGUMENT),
    ROW(CL_BUILD_PROGRAM_FAILURE, BUILD_FAILED),
    ROW(CL_MAP_FAILURE, RESOURCE_EXHAUSTED),
    ROW(CL_MISALIGNED_SUB_BUFFER_OFFSET, INVALID_ARGUMENT),
    ROW(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, INTERNAL),
    ROW(CL_COMPILE_PROGRAM_FAILURE, BUILD_FAILED),
    ROW(CL_LINKER_NOT_AVAILABLE, UNIMPLEMENTED),
    ROW(CL_LINK_PROGRAM_FAILURE, BUILD_FAILED),
    ROW(CL_INVALID_VALUE, INTERNAL), // what a program asks for is checked before
    ROW(CL_INVALID_PLATFORM, INVALID_ARGUMENT),
    ROW(CL_INVALID_DEVICE, INVALID_ARGUMENT),
    ROW(CL_INVALID_CONTEXT, DEVICE_LOST),
    ROW(CL_INVALID_COMMAND_QUEUE, DEVICE_LOST),
    ROW(CL_INVALID_MEM_OBJECT, INVALID_ARGUMENT),
    ROW(CL_INVALID_BINARY, BUILD_FAILED),
    ROW(CL_INVALID_BUILD_OPTIONS, BUILD_FAILED),
    ROW(CL_INVALID_PROGRAM, INVALID_ARGUMENT),
    ROW(CL_INVALID_PROGRAM_EXECUTABLE, BUILD_FAILED),
    ROW(CL_INVALID_KERNEL_NAME, NOT_FOUND),
    ROW(CL_INVALID_KERNEL_DEFINITION, BUILD_FAILED),
    ROW(CL_INVALID_KERNEL, INVALID_ARGUMENT),
    ROW(CL_INVALID_ARG_INDEX, INVALID_ARGUMENT),
    ROW(CL_INVALID_ARG_VALUE, INVALID_ARGUMENT),
    ROW(CL_INVALID_ARG_SIZE, INVALID_ARGUMENT),
    ROW(CL_INVALID_KERNEL_ARGS, INVALID_ARGUMENT),
    ROW(CL_INVALID_WORK_DIMENSION, INVALID_ARGUMENT),
    ROW(CL_INVALID_WORK_GROUP_SIZE, INVALID_ARGUMENT),
    ROW(CL_INVALID_WORK_ITEM_SIZE, INVALID_ARGUMENT),
    ROW(CL_INVALID_GLOBAL_OFFSET, INVALID_ARGUMENT),
    ROW(CL_INVALID_EVENT_WAIT_LIST, INTERNAL),
    ROW(CL_INVALID_EVENT, INTERNAL),
    ROW(CL_INVALID_OPERATION, FAILED_PRECONDITION),
    ROW(CL_INVALID_BUFFER_SIZE, RESOURCE_EXHAUSTED),
    ROW(CL_INVALID_GLOBAL_WORK_SIZE, INVALID_ARGUMENT),
    ROW(CL_INVALID_PROPERTY, INVALID_ARGUMENT),
    ROW(CL_INVALID_COMPILER_OPTIONS, BUILD_FAILED),
    ROW(CL_INVALID_LINKER_OPTIONS, BUILD_FAILED),
#undef ROW
    {-1001, KILN_STATUS_NOT_FOUND, "CL_PLATFORM_NOT_FOUND_KHR"},
    {-9999, KILN_STATUS_DEVICE_LOST, "illegal access to a buffer"}, // NVIDIA's own
};

static const code_row *find_row(cl_int code)
{
    static const code_row unknown = {0, KILN_STATUS_INTERNAL, "unknown OpenCL error"};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].code == code) {
            return &rows[i];
        }
    }
    return &unknown;
}

const char *kilni_cl_code_name(cl_int code)
{
    return find_row(code)->name;
}

static kiln_status status_of(cl_int code)
{
    return find_row(code)->status;
}

bool kilni_cl_is_memory_code(cl_int code)
{
    return code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_HOST_MEMORY ||
           code == CL_OUT_OF_RESOURCES;
}

// A wait that ends without resources means that a kernel died: drivers say so after an illegal
// access.
static bool says_lost(cl_int code, bool waited)
{
    if (status_of(code) == KILN_STATUS_DEVICE_LOST) {
        return true;
    }
    return waited &&
           (code == CL_OUT_OF_RESOURCES || code == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
}

kiln_status kilni_cl_fail_at(kilni_cl_backend *backend, kiln_error *err, bool waited, cl_int code,
                             const char *file, int line, const char *format, ...)
{
    char text[192];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    bool lost = says_lost(code, waited);
    if (lost && backend != NULL) {
        backend->flight.lost = true;
        kiln_log_write(backend->env, KILN_LOG_ERROR, "cl_backend", "device lost: %s: %s (%d)", text,
                       kilni_cl_code_name(code), code);
    }
    return kiln_error_set(err, lost ? KILN_STATUS_DEVICE_LOST : status_of(code), file, line,
                          "%s: %s (%d)", text, kilni_cl_code_name(code), code);
}
