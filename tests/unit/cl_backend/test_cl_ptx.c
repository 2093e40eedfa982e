// SPDX-License-Identifier: MIT OR Apache-2.0
// PTX made out for another target: where the options name it, what becomes of the text.
#include <string.h>

#include "cl_ptx.h"
#include "harness.h"

static kiln_env env;

static void check_text(const char *ptx, size_t length, const char *target, const char *expected)
{
    env.allocator = kiln_allocator_default();
    char *made = kilni_cl_ptx_retarget(&env, ptx, length, target);
    if (expected == NULL) {
        KILN_CHECK(made == NULL);
    } else if (KILN_CHECK(made != NULL)) {
        KILN_CHECK_STR(made, expected);
    }
    kiln_free(&env, made);
}

static void test_options(void)
{
    KILN_CHECK(kilni_cl_ptx_target("-cl-std=CL1.2 -DKILN=1") == NULL);
    const char *target = kilni_cl_ptx_target("-cl-std=CL1.2 -DKILN_PTX_TARGET=sm_90a -Werror");
    KILN_CHECK(target != NULL && strncmp(target, "sm_90a ", 7) == 0);
}

static void test_text(void)
{
    static const char ptx[] = "// .target of a comment\n.version 9.0\n.target sm_90, texmode\n"
                              "\t//@ wgmma.fence;\n\t// end\n\t//@ {a;}\n";
    static const char made[] = "// .target of a comment\n.version 9.0\n.target sm_90a, texmode\n"
                               "\t wgmma.fence;\n\t// end\n\t {a;}\n";
    check_text(ptx, sizeof(ptx), "sm_90a -Werror", made);
    check_text(ptx, sizeof(ptx) - 1, "sm_90a", made);
    check_text(".target sm_90\nret;", 18, "sm_90a", ".target sm_90a\nret;");
    check_text(".target sm_90", 13, "sm_9", ".target sm_9");
    check_text("no line\n", 8, "sm_90a", NULL);
    check_text("x .target sm_90\n", 16, "sm_90a", NULL);
    check_text("", 0, "sm_90a", NULL);
}

KILN_TEST_MAIN("unit/cl_backend/cl_ptx", KILN_TEST(test_options), KILN_TEST(test_text))
