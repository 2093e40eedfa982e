// SPDX-License-Identifier: MIT OR Apache-2.0
// Products of 8-bit integers in a kernel (kf_dot.h): all forms give the exact sum, the device's
// processor is asked for the fast one, and the kernel then has it.
#include <string.h>

#include "cl_fixture.h"
#include "kf_dot.h"

enum { VECTORS = 64, LANES = 16 };

static const char kernel_text[] =
    "__kernel void dots(__global const uint16 *a, __global const int16 *b, __global int16 *out)\n"
    "{\n"
    "    const size_t i = get_global_id(0);\n"
    "    out[i] = kf_dot4(kf_dot4((int16)(-5), a[i], b[i]), a[i], b[i]);\n"
    "}\n";

/// Extremes first, where something that saturates is seen.
static void fill(uint8_t *a, int8_t *b)
{
    uint32_t state = 7;
    for (uint32_t i = 0; i < VECTORS * LANES * 4; i++) {
        state = state * 1664525u + 1013904223u;
        a[i] = (uint8_t)(i < LANES * 8 ? 255 : state >> 24);
        b[i] = (int8_t)(i < LANES * 4   ? -128
                        : i < LANES * 8 ? 127
                                        : (int)(state >> 16 & 255) - 128);
    }
}

static void check_form(cl_fixture *f, const char *before, uint64_t features)
{
    static uint8_t a[VECTORS * LANES * 4];
    static int8_t b[VECTORS * LANES * 4];
    static int32_t out[VECTORS * LANES];
    const char *name = "dots";
    cl_program_text program;
    kiln_built *built = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kf_text text = {0};
    kf_text_add(&text, before);
    kf_dot_functions(&text, features);
    kf_text_add(&text, kernel_text);
    KILN_CHECK(!text.failed);
    fill(a, b);
    kiln_buffer *buffers[] = {cl_fixture_buffer(f, sizeof(a), a),
                              cl_fixture_buffer(f, sizeof(b), b),
                              cl_fixture_buffer(f, sizeof(out), NULL)};
    kiln_launch_arg args[3] = {{.kind = KILN_VALUE_BUFFER, .buffer = buffers[0]},
                               {.kind = KILN_VALUE_BUFFER, .buffer = buffers[1]},
                               {.kind = KILN_VALUE_BUFFER, .buffer = buffers[2]}};
    kiln_launch launch = {.n_dims = 1, .global = {VECTORS, 1, 1}, .args = args, .n_args = 3};
    cl_program_text_init(&program, text.ptr, &name, 1);
    KILN_CHECK_INT(f->base->program->build(f->base, &program.program, &built, &err),
                   KILN_STATUS_OK);
    if (built != NULL) {
        KILN_CHECK_INT(f->base->program->launch(f->base, built, &launch, &err), KILN_STATUS_OK);
        KILN_CHECK_INT(f->base->transfer->read(f->base, buffers[2], 0, out, sizeof(out), &err),
                       KILN_STATUS_OK);
        uint32_t wrong = 0;
        for (uint32_t i = 0; i < VECTORS * LANES; i++) {
            int32_t sum = -5;
            for (uint32_t k = 0; k < 4; k++) {
                sum += 2 * a[i * 4 + k] * b[i * 4 + k];
            }
            wrong += out[i] != sum;
        }
        KILN_CHECK_INT(wrong, 0);
    }
    f->base->program->free(f->base, built);
    for (uint32_t i = 0; i < 3; i++) {
        f->base->memory->free(f->base, buffers[i]);
    }
    kf_text_free(&text);
}

static void test_forms(void)
{
    cl_fixture f;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    uint32_t features = f.base->device->info(f.base)->features;
    check_form(&f, "", 0);
    check_form(&f, "#undef __AVX512BW__\n", 0);
    check_form(&f, "#undef __AVX512BW__\n#undef __AVX2__\n", 0);
    if ((features & KILN_FEATURE_VNNI) != 0) {
        check_form(&f, "", KF_FEATURE_VNNI);
        // Where it is said to be there, it is there: no other form would define this.
        check_form(&f, "#ifndef __AVX512F__\n#error the compiler has no vectors for it\n#endif\n",
                   KF_FEATURE_VNNI);
    }
    cl_fixture_close(&f);
}

static void test_who_is_asked(void)
{
    cl_fixture f;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    bool told = (f.base->device->info(f.base)->features & KILN_FEATURE_VNNI) != 0;
    bool may = f.backend->pocl && f.backend->info.vector_bytes >= 64 && kiln_processor_has_vnni();
    KILN_CHECK_INT(told, may);
    cl_fixture_close(&f);
}

KILN_TEST_MAIN("unit/cl_backend/dot", KILN_TEST(test_forms), KILN_TEST(test_who_is_asked))
