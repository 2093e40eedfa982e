// SPDX-License-Identifier: MIT OR Apache-2.0
// make_binary SOURCE BINARY: compiles a file for the first OpenCL device and writes what the driver
// makes of it, as an offline compiler would. Prints the device's name and driver, a line each.
#include <stdio.h>
#include <stdlib.h>

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

static int fail(const char *what, cl_int code)
{
    fprintf(stderr, "make_binary: %s: %d\n", what, (int)code);
    return 1;
}

static cl_program compile(cl_context context, cl_device_id device, FILE *file, cl_int *out_code)
{
    static char text[1 << 16];
    const char *texts[] = {text};
    size_t length = fread(text, 1, sizeof(text), file);
    cl_program program = clCreateProgramWithSource(context, 1, texts, &length, out_code);
    if (*out_code == CL_SUCCESS) {
        *out_code = clBuildProgram(program, 1, &device, "-cl-std=CL1.2", NULL, NULL);
    }
    return program;
}

static cl_int write_binary(cl_program program, FILE *file)
{
    size_t length = 0;
    cl_int code = clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof(length), &length, NULL);
    unsigned char *bytes = malloc(length + 1);
    if (code == CL_SUCCESS && bytes != NULL) {
        code = clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof(bytes), &bytes, NULL);
    }
    if (code == CL_SUCCESS && (bytes == NULL || fwrite(bytes, 1, length, file) != length)) {
        code = CL_OUT_OF_HOST_MEMORY;
    }
    free(bytes);
    return code;
}

int main(int argc, char **argv)
{
    cl_platform_id platform;
    cl_device_id device;
    char text[1024];
    if (argc != 3) {
        return fail("say SOURCE BINARY", 0);
    }
    FILE *in = fopen(argv[1], "rb");
    FILE *out = fopen(argv[2], "wb");
    if (in == NULL || out == NULL) {
        return fail("cannot open the files", 0);
    }
    cl_int code = clGetPlatformIDs(1, &platform, NULL);
    if (code == CL_SUCCESS) {
        code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL);
    }
    if (code != CL_SUCCESS) {
        return fail("no device", code);
    }
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    cl_program program = code == CL_SUCCESS ? compile(context, device, in, &code) : NULL;
    if (code != CL_SUCCESS) {
        return fail("does not compile", code);
    }
    code = write_binary(program, out);
    if (code != CL_SUCCESS || fclose(out) != 0) {
        return fail("no binary", code);
    }
    clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof(text), text, NULL);
    puts(text);
    clGetDeviceInfo(device, CL_DRIVER_VERSION, sizeof(text), text, NULL);
    puts(text);
    fclose(in);
    clReleaseProgram(program);
    clReleaseContext(context);
    return 0;
}
