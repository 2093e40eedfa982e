// SPDX-License-Identifier: MIT OR Apache-2.0
// Parameters of CLBlast: as text, in the store, searched for.

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cl_backend.h"
#include "cl_blas.h"
#include "cl_blas_parameters.h"
#include "cl_blas_search.h"
#include "cl_fixture.h"

static bool open_with_store(cl_fixture *f, const char *folder)
{
    const cl_settings settings = {.cache = folder};
    return cl_fixture_open(f, &settings);
}

static kiln_status import_text(cl_fixture *f, const char *text, uint32_t *out_lines,
                               kiln_error *err)
{
    return kiln_cl_blas_import(f->base, text, strlen(text), out_lines, err);
}

// What is exported is imported again, by a backend that finds the same afterwards.
static void test_text(void)
{
    const char *folder = kiln_test_tmpdir();
    cl_fixture f;
    kiln_string text;
    kiln_error err = KILN_ERROR_INIT;
    uint32_t lines = 0;
    bool fresh = true;
    if (!open_with_store(&f, folder)) {
        return;
    }
    kilni_cl_blas_choice choice = kilni_cl_blas_shipped(f.backend, KILN_DTYPE_F32);
    const uint32_t large[KILNI_CL_BLAS_MOST] = {0, 1, 32, 2, 1, 1, 16, 1, 1, 8, 0, 0, 0, 0, 8, 4};
    memcpy(choice.values[KILNI_CL_BLAS_LARGE], large, sizeof(large));
    choice.given = 1u << KILNI_CL_BLAS_LARGE;
    KILN_CHECK_INT(kiln_cl_blas_searched(f.base, KILN_DTYPE_F32, &fresh), 0);
    KILN_CHECK(!fresh);
    kiln_string_init(&text, &f.env);
    kiln_string_printf(&text, "# a comment\n\n");
    kilni_cl_blas_print(f.backend, KILN_DTYPE_F32, &choice, &text);
    kiln_string_printf(&text, "another device | f32 | GemmRoutine | XGEMM_MIN_INDIRECT_SIZE=7\n");
    KILN_CHECK_INT(import_text(&f, text.text, &lines, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(lines, 1);
    kiln_string_fini(&text);
    cl_fixture_close(&f);

    KILN_CHECK(open_with_store(&f, folder));
    kilni_cl_blas_choice known = kilni_cl_blas_recall(f.backend, KILN_DTYPE_F32);
    KILN_CHECK_INT(known.given, 1u << KILNI_CL_BLAS_LARGE);
    KILN_CHECK(memcmp(known.values[KILNI_CL_BLAS_LARGE], large, sizeof(large)) == 0);
    KILN_CHECK(kiln_cl_blas_searched(f.base, KILN_DTYPE_F32, &fresh) > 0 && fresh);
    KILN_CHECK_INT(kilni_cl_blas_recall(f.backend, KILN_DTYPE_F64).given, 0);
    known.measured_s = 1; // of long ago
    KILN_CHECK_INT(kilni_cl_blas_remember(f.backend, KILN_DTYPE_F32, &known, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_cl_blas_searched(f.base, KILN_DTYPE_F32, &fresh), 1);
    KILN_CHECK(!fresh);
    kiln_string_init(&text, &f.env);
    KILN_CHECK_INT(kiln_cl_blas_export(f.base, &text, &err), KILN_STATUS_OK);
    KILN_CHECK_CONTAINS(text.text, "| f32 | Xgemm | GEMMK=0 KREG=1 KWG=32 KWI=2 MDIMA=1 MDIMC=1 "
                                   "MWG=16 NDIMB=1 NDIMC=1 NWG=8 SA=0 SB=0 STRM=0 STRN=0 VWM=8 "
                                   "VWN=4\n");
    kiln_string_fini(&text);
    cl_fixture_close(&f);
}

// A file is as hostile as any: what the kernels cannot have never reaches the library.
static void test_refused(void)
{
    static const struct {
        const char *format; ///< with the device's name
        const char *message;
    } rows[] = {
        {"%s", "line 1 is not: device | dtype"},
        {"%s | f32 | Xger | WGS1=8", "line 1 is not"},
        {"%s | f32 | GemmRoutine | ", "line 1 is not"},
        {"%s | f32 | GemmRoutine | XGEMM_MIN_INDIRECT_SIZE", "line 1 is not"},
        {"%s | f32 | GemmRoutine | XGEMM_MIN_INDIRECT_SIZE=", "line 1 is not"},
        {"%s | f32 | GemmRoutine | XGEMM_MIN_INDIRECT_SIZE=-1", "line 1 is not"},
        {"\n%s | f32 | GemmRoutine | XGEMM_MIN_INDIRECT_SIZE=2000000", "line 2 has parameters"},
        {"%s | f32 | GemmRoutine | XGEMM_MIN_INDIRECT_SIZE=1 XGEMM_MIN_INDIRECT_SIZE=2",
         "line 1 is not"},
        {"%s | f32 | XgemmDirect | KWID=3 MDIMAD=8 MDIMCD=8 NDIMBD=8 NDIMCD=8 PADA=1 PADB=1 VWMD=1 "
         "VWND=1 WGD=8",
         "parameters that XgemmDirect cannot have"},
        {"%s | f32 | XgemmDirect | KWID=0 MDIMAD=0 MDIMCD=0 NDIMBD=0 NDIMCD=0 PADA=1 PADB=1 VWMD=1 "
         "VWND=1 WGD=0",
         "parameters that XgemmDirect cannot have"},
    };
    cl_fixture f;
    if (!open_with_store(&f, kiln_test_tmpdir())) {
        return;
    }
    kiln_string own;
    kiln_string_init(&own, &f.env);
    const kilni_cl_blas_choice border = {.given = 1u << KILNI_CL_BLAS_BORDER};
    kilni_cl_blas_print(f.backend, KILN_DTYPE_F32, &border, &own);
    own.text[strstr(own.text, " | f32") - own.text] = '\0';
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[512];
        kiln_error err = KILN_ERROR_INIT;
        uint32_t lines = 0;
        (void)snprintf(text, sizeof(text), rows[i].format, own.text);
        KILN_CHECK_INT(import_text(&f, text, &lines, &err), KILN_STATUS_INVALID_ARGUMENT);
        KILN_CHECK_CONTAINS(err.message, rows[i].message);
    }
    KILN_CHECK_INT(kilni_cl_blas_recall(f.backend, KILN_DTYPE_F32).given, 0);
    kiln_string_fini(&own);
    cl_fixture_close(&f);
}

// Of an entry of the store, too, only what is sound is used.
static void test_damaged_entry(void)
{
    cl_fixture f;
    kiln_error err = KILN_ERROR_INIT;
    if (!open_with_store(&f, kiln_test_tmpdir())) {
        return;
    }
    kilni_cl_blas_choice bad = {
        .format = KILNI_CL_BLAS_FORMAT, .given = 7, .values = {[KILNI_CL_BLAS_BORDER] = {64}}};
    KILN_CHECK_INT(kilni_cl_blas_remember(f.backend, KILN_DTYPE_F32, &bad, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kilni_cl_blas_recall(f.backend, KILN_DTYPE_F32).given,
                   1u << KILNI_CL_BLAS_BORDER);
    bad.format++;
    KILN_CHECK_INT(kilni_cl_blas_remember(f.backend, KILN_DTYPE_F32, &bad, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kilni_cl_blas_recall(f.backend, KILN_DTYPE_F32).given, 0);
    cl_fixture_close(&f);
}

// The shipped table can be read, and a search begins with what ships.
static void test_shipped(void)
{
    cl_fixture f;
    if (!cl_fixture_open(&f, NULL)) {
        return;
    }
    for (int i = 0; i < 2; i++) {
        kiln_dtype dtype = i == 0 ? KILN_DTYPE_F32 : KILN_DTYPE_F64;
        kilni_cl_blas_choice choice = kilni_cl_blas_shipped(f.backend, dtype);
        if (f.backend->info.type == KILN_DEVICE_CPU) {
            KILN_CHECK((choice.given & 1u << KILNI_CL_BLAS_LARGE) != 0);
        }
        for (uint32_t cls = 0; cls < KILNI_CL_BLAS_CLASSES; cls++) {
            KILN_CHECK((choice.given & 1u << cls) == 0 ||
                       kilni_cl_blas_is_sound(f.backend, dtype, (kilni_cl_blas_class)cls,
                                              choice.values[cls]));
        }
    }
    KILN_CHECK(strstr(f.log, "shipped parameters") == NULL);
    cl_fixture_close(&f);
}

// What rounds otherwise is the same product; NaN and infinities, on either side, never are.
static void test_agreement(void)
{
    static const struct {
        double expected, result; ///< of the second element; the first is 1
        bool f32, f64;
    } rows[] = {{2, 2, true, true},
                {2, 2 + 1e-5, true, false},
                {2, 2 + 1e-3, false, false},
                {2, NAN, false, false},
                {2, INFINITY, false, false},
                {NAN, 2, false, false},
                {NAN, NAN, false, false},
                {INFINITY, 2, false, false},
                {-INFINITY, 2, false, false},
                {INFINITY, -INFINITY, false, false},
                {INFINITY, INFINITY, false, false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const double expected[] = {1, rows[i].expected}, wide[] = {1, rows[i].result};
        const float narrow[] = {1, (float)rows[i].result};
        if (!KILN_CHECK(kilni_cl_blas_agrees(KILN_DTYPE_F32, narrow, expected, 2) == rows[i].f32) ||
            !KILN_CHECK(kilni_cl_blas_agrees(KILN_DTYPE_F64, wide, expected, 2) == rows[i].f64)) {
            KILN_FAIL("row %zu", i);
        }
    }
}

static void count_calls(double done, void *user)
{
    KILN_CHECK(done >= 0 && done <= 1);
    ++*(uint32_t *)user;
}

// With hardly any time: what ships is timed, perhaps a little tried, and all of it kept.
static void test_search(void)
{
    const char *folder = kiln_test_tmpdir();
    cl_fixture f;
    kiln_cl_blas_report report;
    kiln_error err = KILN_ERROR_INIT;
    uint32_t calls = 0;
    bool fresh = false;
    if (!open_with_store(&f, folder)) {
        return;
    }
    KILN_CHECK_INT(
        kiln_cl_blas_search(f.base, KILN_DTYPE_F32, 2000000000, count_calls, &calls, &report, &err),
        KILN_STATUS_OK);
    KILN_CHECK(calls >= 2 && report.refused <= report.tried);
    KILN_CHECK(report.large_before > 0 && report.large_after >= report.large_before);
    KILN_CHECK(report.small_before > 0 && report.small_after >= report.small_before);
    KILN_CHECK(kiln_cl_blas_searched(f.base, KILN_DTYPE_F32, &fresh) == report.searched_s && fresh);
    cl_fixture_close(&f);

    KILN_CHECK(open_with_store(&f, folder));
    kilni_cl_blas_choice known = kilni_cl_blas_recall(f.backend, KILN_DTYPE_F32);
    KILN_CHECK((known.given & 1u << KILNI_CL_BLAS_BORDER) != 0);
    KILN_CHECK_INT(known.values[KILNI_CL_BLAS_BORDER][0], report.border);
    KILN_CHECK_INT(kiln_cl_blas_search(f.base, KILN_DTYPE_I32, 1, NULL, NULL, &report, &err),
                   KILN_STATUS_UNIMPLEMENTED);
    cl_fixture_close(&f);

    KILN_CHECK(cl_fixture_open(&f, NULL)); // without a store
    KILN_CHECK_INT(kiln_cl_blas_search(f.base, KILN_DTYPE_F32, 1, NULL, NULL, &report, &err),
                   KILN_STATUS_FAILED_PRECONDITION);
    KILN_CHECK_CONTAINS(err.message, "the cache is off");
    cl_fixture_close(&f);
}

KILN_TEST_MAIN("unit/cl_backend/blas_parameters", KILN_TEST(test_text), KILN_TEST(test_refused),
               KILN_TEST(test_damaged_entry), KILN_TEST(test_shipped), KILN_TEST(test_agreement),
               KILN_TEST(test_search))
