// SPDX-License-Identifier: MIT OR Apache-2.0
// What a merged text gives a name of its own: all that it declares, and nothing that it only uses.

#include <stdio.h>
#include <string.h>

#include "bundle_maker.h"
#include "harness.h"

static const struct {
    const char *text;
    const char *names[4]; ///< of its own
    const char *others[4]; ///< that stay
} cases[] = {
    {"typedef float16 __attribute__((aligned(4))) loose16;\n", {"loose16"}, {"float16", "aligned"}},
    {"typedef uint near_word __attribute__((aligned(1)));\n", {"near_word"}, {"uint", "aligned"}},
    {"typedef struct pair {\n    int first, second;\n} pair_type;\n",
     {"pair", "pair_type"},
     {"first", "second"}},
    {"typedef float4 vec, *pointer, vecs[2];\n", {"vec", "pointer", "vecs"}, {"float4"}},
    {"__constant float third = (float)M_PI_F / 3, half_of = M_E_F;\n",
     {"third", "half_of"},
     {"M_PI_F", "M_E_F"}},
    {"__constant float twice = 2 * M_PI_F;\n__constant int *nowhere = 0;\n",
     {"twice", "nowhere"},
     {"M_PI_F"}},
    {"__constant int table[2] = {INT_MAX, 1};\n", {"table"}, {"INT_MAX"}},
    {"static int f(int a, int b)\n{\n    return max(a, b);\n}\n", {"f"}, {"max", "a", "b"}},
    {"__constant float root = sqrt(2.0f);\n", {"root"}, {"sqrt"}},
    {"enum kind { ONE, TWO };\n", {"kind", "ONE", "TWO"}, {"enum"}},
    {"#define WIDE 4\ntypedef float wide[WIDE];\n", {"wide"}, {"WIDE"}},
};

static bool names(const char *text, const char *name)
{
    char line[128];
    (void)snprintf(line, sizeof(line), "#define %s %s__p0\n", name, name);
    return strstr(text, line) != NULL;
}

static void check_merged(const char *text, const char *const *own, const char *const *others)
{
    const kiln_env env = {.allocator = kiln_allocator_default()};
    const bundle_program program = {.text = text, .options = "-DGIVEN=1"};
    kiln_bundle_maker *maker = NULL;
    uint32_t index = 0;
    kiln_error err = KILN_ERROR_INIT;
    KILN_CHECK_INT(kiln_bundle_maker_create(&env, &maker, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kilni_bundle_program_add(maker, &program, "p", &index, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_bundle_maker_merge(maker, &err), KILN_STATUS_OK);
    KILN_CHECK_INT(maker->manifest.n_programs, 1);
    const char *merged = maker->manifest.programs[0].text;
    for (size_t i = 0; i < 4 && own[i] != NULL; i++) {
        if (!names(merged, own[i])) {
            KILN_FAIL("%s has no name of its own in: %s", own[i], merged);
        }
    }
    for (size_t i = 0; i < 4 && others[i] != NULL; i++) {
        if (names(merged, others[i])) {
            KILN_FAIL("%s is renamed in: %s", others[i], merged);
        }
    }
    KILN_CHECK(!names(merged, "GIVEN"));
    kiln_bundle_maker_destroy(maker);
}

static void test_declared_names(void)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        check_merged(cases[i].text, cases[i].names, cases[i].others);
    }
}

KILN_TEST_MAIN("unit/runtime/bundle_merge", KILN_TEST(test_declared_names))
