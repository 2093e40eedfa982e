// SPDX-License-Identifier: MIT OR Apache-2.0
// Programs that bring declarations of the built-in functions they call: what they compute, and
// which are left to the driver's header. Whether the declarations are the header's is
// compare.py's.

#include <stdio.h>
#include <string.h>

#include "cl_fixture.h"

// Functions of every kind, some of them named by the options or put together. `half` numbers that
// round and saturate, comparisons of vectors and atomics show a wrong overload in the bits.
static const char text[] =
    "#define CAT_(a, b) a##b\n"
    "#define CAT(a, b) CAT_(a, b)\n"
    "__kernel void many(__global float *x, __global double *d, __global int *n,\n"
    "                   __global uchar *out, __local float *part) {\n"
    "  uint i = get_global_id(0);\n"
    "  uint l = get_local_id(0);\n"
    "  float a = x[i];\n"
    "  part[l] = a;\n"
    "  barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  float8 v = CAT(vload, 8)(i % 4, x) + part[(l + 1) % get_local_size(0)];\n"
    "  int8 wide = CAT(convert_, CAT(int, 8))(v * 1e3f);\n"
    "  wide += CAT(CAT(convert_, int8), _rtz)(v * 7.7f);\n"
    "  wide -= CAT(CAT(convert_int, 8), _rtp)(v * 3.3f);\n"
    "  char8 narrow = convert_char8_sat_rte(v * 40.5f);\n"
    "  uint8 chosen = select(as_uint8(wide), convert_uint8(abs(wide)), isless(v, "
    "(float8)(0.5f)));\n"
    "  vstore8(chosen, 0, (__global uint *)(out + i * 64));\n"
    "  vstore8(narrow, 4, (__global char *)(out + i * 64));\n"
    "  vstore_half_rte(FUNCTION(a), 20, (__global half *)(out + i * 64));\n"
    "  vstore_half4_rtz(exp(v.lo), 6, (__global half *)(out + i * 64));\n"
    "  float whole;\n"
    "  float rest = modf(a * 3.25f, &whole);\n"
    "  d[i] = pow(fabs(d[i]), 1.5) + fma(a, whole, rest) + clamp(d[i], -1.0, 1.0) + hypot(a, "
    "2.0f);\n"
    "  x[32 + i] = fmax(dot(v.lo, v.hi), min(a, 3.0f)) + native_sqrt(fabs(a)) +\n"
    "              mad24(3, (int)i, 1);\n"
    "  atomic_add(&n[0], mul_hi((int)1 << 30, (int)i + 1) + popcount(i) + any(v > 0.0f));\n"
    "  atomic_max(&n[1], rotate((int)i, 3));\n"
    "}\n";

enum { ITEMS = 16 };

typedef struct outcome {
    float x[4 * ITEMS];
    double d[ITEMS];
    int32_t n[2];
    uint8_t out[64 * ITEMS];
} outcome;

static uint64_t programs_declared(const cl_fixture *f)
{
    kiln_cl_counters counters;
    kiln_cl_counters_get(f->base, &counters);
    return counters.programs_declared;
}

static kiln_built *build(cl_fixture *f, const char *source, const char *kernel)
{
    static const char *const defines[] = {"FUNCTION=tanh"};
    cl_program_text program;
    kiln_built *built = NULL;
    kiln_error err = KILN_ERROR_INIT;
    cl_program_text_init(&program, source, &kernel, 1);
    program.source.defines = defines;
    program.source.n_defines = 1;
    if (!KILN_CHECK_INT(f->base->program->build(f->base, &program.program, &built, &err),
                        KILN_STATUS_OK)) {
        KILN_FAIL("%s", err.message);
    }
    return built;
}

static void run(cl_fixture *f, const char *source, outcome *result)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_built *built = build(f, source, "many");
    memset(result, 0, sizeof(*result));
    for (int i = 0; i < 4 * ITEMS; i++) {
        result->x[i] = (float)(i - 30) * 0.37f;
        result->d[i % ITEMS] = (i - 5) * 1.21;
    }
    void *const data[] = {result->x, result->d, result->n, result->out};
    const size_t bytes[] = {sizeof(result->x), sizeof(result->d), sizeof(result->n),
                            sizeof(result->out)};
    kiln_launch_arg args[5] = {{.kind = KILN_VALUE_LOCAL, .bytes = ITEMS * sizeof(float)}};
    args[4] = args[0];
    for (int i = 0; i < 4; i++) {
        args[i] = (kiln_launch_arg){.kind = KILN_VALUE_BUFFER,
                                    .buffer = cl_fixture_buffer(f, bytes[i], data[i])};
    }
    kiln_launch launch = {
        .n_dims = 1, .global = {ITEMS, 1, 1}, .local = {4, 1, 1}, .args = args, .n_args = 5};
    if (built != NULL) {
        KILN_CHECK_INT(f->base->program->launch(f->base, built, &launch, &err), KILN_STATUS_OK);
    }
    for (int i = 0; i < 4; i++) {
        KILN_CHECK_INT(f->base->transfer->read(f->base, args[i].buffer, 0, data[i], bytes[i], &err),
                       KILN_STATUS_OK);
        f->base->memory->free(f->base, args[i].buffer);
    }
    f->base->program->free(f->base, built);
}

static void test_the_header_computes_the_same(void)
{
    char with_header[sizeof(text) + 32];
    cl_fixture f;
    outcome one;
    outcome other;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    snprintf(with_header, sizeof(with_header), "%s#define NEVER printf\n", text);
    bool declares = f.backend->compiler.declares;
    run(&f, text, &one);
    KILN_CHECK_INT(programs_declared(&f), declares);
    run(&f, with_header, &other);
    KILN_CHECK_INT(programs_declared(&f), declares);
    if (declares) {
        KILN_CHECK(memcmp(&one, &other, sizeof(one)) == 0);
        KILN_CHECK(one.n[0] != 0 && one.out[41] != 0);
    }
    cl_fixture_close(&f);
}

/// A name that cannot be seen in the text, and a text that calls what nobody has.
static void test_what_is_left_to_the_header(void)
{
    static const char hidden[] = "#define CAT(a, b) a##b\n"
                                 "__kernel void f(__global int4 *x, __global const float4 *y)\n"
                                 "{ x[0] = CAT(convert_int4_, rtn)(y[0]); }\n";
    static const char wrong[] = "__kernel void f(__global int *x) { x[0] = nobody(1); }\n";
    static const char *const kernel = "f";
    cl_fixture f;
    cl_program_text program;
    kiln_built *built = NULL;
    kiln_error err = KILN_ERROR_INIT;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    f.base->program->free(f.base, build(&f, hidden, kernel));
    KILN_CHECK_INT(programs_declared(&f), 0);
    cl_program_text_init(&program, wrong, &kernel, 1);
    KILN_CHECK_INT(f.base->program->build(f.base, &program.program, &built, &err),
                   KILN_STATUS_BUILD_FAILED);
    KILN_CHECK_CONTAINS(err.message, "nobody");
    cl_fixture_close(&f);
}

KILN_TEST_MAIN("unit/cl_backend/builtins", KILN_TEST(test_the_header_computes_the_same),
               KILN_TEST(test_what_is_left_to_the_header))
