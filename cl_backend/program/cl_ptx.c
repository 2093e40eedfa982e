// SPDX-License-Identifier: MIT OR Apache-2.0
// PTX made out for another target: where the options name it, how the text changes, and the way
// from and to the driver.

#include <string.h>

#include "cl_binary.h"
#include "cl_ptx.h"
#include "cl_state.h"

static const char ptx_option[] = "-DKILN_PTX_TARGET=";
static const char target_line[] = ".target ";
static const char hidden[] = "//@";

const char *kilni_cl_ptx_target(const char *options)
{
    const char *found = strstr(options, ptx_option);
    return found != NULL ? found + sizeof(ptx_option) - 1 : NULL;
}

/// Copies without the marks of hidden instructions.
static void open_comments(char *to, const char *from, const char *end)
{
    while (from < end) {
        if ((size_t)(end - from) >= sizeof(hidden) - 1 &&
            memcmp(from, hidden, sizeof(hidden) - 1) == 0) {
            from += sizeof(hidden) - 1;
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
}

char *kilni_cl_ptx_retarget(const kiln_env *env, const char *ptx, size_t length, const char *target)
{
    size_t name = strcspn(target, " ");
    char *text = kiln_alloc(env, length + 1);
    char *out = kiln_alloc(env, length + name + 1);
    char *made = NULL;
    if (text == NULL || out == NULL) {
        goto done;
    }
    memcpy(text, ptx, length);
    text[length] = '\0';
    const char *line = strstr(text, target_line);
    while (line != NULL && line != text && line[-1] != '\n') {
        line = strstr(line + 1, target_line);
    }
    if (line == NULL) {
        goto done;
    }
    size_t before = (size_t)(line - text) + sizeof(target_line) - 1;
    const char *rest = text + before + strcspn(text + before, ",\n");
    memcpy(out, text, before);
    memcpy(out + before, target, name);
    open_comments(out + before + name, rest, text + strlen(text));
    made = out;
    out = NULL;
done:
    kiln_free(env, text);
    kiln_free(env, out);
    return made;
}

cl_int kilni_cl_ptx_assemble(kilni_cl_backend *backend, const char *options, cl_program *program)
{
    kiln_blob ptx = {0};
    cl_int code = CL_INVALID_BINARY, refused = CL_SUCCESS;
    char *made = NULL;
    if (kilni_cl_binary_take(backend->env, *program, &ptx) == CL_SUCCESS) {
        made =
            kilni_cl_ptx_retarget(backend->env, ptx.data, ptx.length, kilni_cl_ptx_target(options));
    }
    if (made != NULL) {
        const unsigned char *bytes = (const unsigned char *)made;
        size_t size = strlen(made) + 1;
        cl_program other = clCreateProgramWithBinary(backend->context, 1, &backend->device, &size,
                                                     &bytes, &refused, &code);
        if (code == CL_SUCCESS) {
            clReleaseProgram(*program);
            *program = other;
            code = refused != CL_SUCCESS
                       ? refused
                       : clBuildProgram(other, 1, &backend->device, options, NULL, NULL);
        }
    }
    kiln_free(backend->env, ptx.data);
    kiln_free(backend->env, made);
    return code;
}
