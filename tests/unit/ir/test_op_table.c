// SPDX-License-Identifier: MIT OR Apache-2.0
// The table's lookups agree with each other, and every row is complete.
#include <string.h>

#include "ir_support.h"

static void test_lookups_agree(void)
{
    for (unsigned i = 0; i < KILN_OP_COUNT; i++) {
        const kiln_op_info *info = kiln_op_info_of((kiln_op)i);
        KILN_CHECK_INT(kiln_op_from_name(info->name), i);
        KILN_CHECK_INT(kiln_op_from_wire(info->wire), i);
    }
    KILN_CHECK_INT(kiln_op_info_of(KILN_OP_ADD)->wire, 40);
    KILN_CHECK_STR(kiln_op_info_of(KILN_OP_MATMUL)->name, "matmul");
}

static void test_unknown(void)
{
    KILN_CHECK(kiln_op_info_of(KILN_OP_COUNT) == NULL);
    KILN_CHECK(kiln_op_info_of((kiln_op)-1) == NULL);
    KILN_CHECK_INT(kiln_op_from_name("ad"), KILN_OP_COUNT);
    KILN_CHECK_INT(kiln_op_from_name("addd"), KILN_OP_COUNT);
    KILN_CHECK_INT(kiln_op_from_name(""), KILN_OP_COUNT);
    KILN_CHECK_INT(kiln_op_from_name(NULL), KILN_OP_COUNT);
    KILN_CHECK_INT(kiln_op_from_wire(0), KILN_OP_COUNT);
    KILN_CHECK_INT(kiln_op_from_wire(39), KILN_OP_COUNT);
}

static void test_rows_are_complete(void)
{
    for (unsigned i = 0; i < KILN_OP_COUNT; i++) {
        const kiln_op_info *info = kiln_op_info_of((kiln_op)i);
        bool complete = info->shape != NULL && info->reference != NULL && info->signature != NULL &&
                        info->doc[0] != '\0';
        if (!complete) {
            KILN_FAIL("%s is not complete", info->name);
        }
        for (unsigned k = 0; k < info->signature->min_inputs; k++) {
            KILN_CHECK(info->signature->inputs[k] != NULL);
        }
        for (unsigned k = 0; k < info->signature->n_attrs; k++) {
            KILN_CHECK(kiln_attr_name(info->signature->attrs[k].key) != NULL);
        }
    }
}

static void test_attributes(void)
{
    for (int key = 1; key < KILN_KEY_LIMIT; key++) {
        const char *name = kiln_attr_name((kiln_attr_key)key);
        if (name != NULL) {
            KILN_CHECK_INT(kiln_attr_from_name(name), key);
            KILN_CHECK(kiln_attr_type_of((kiln_attr_key)key) != KILN_ATTR_NONE);
            KILN_CHECK(strlen(kiln_attr_doc((kiln_attr_key)key)) > 0);
        }
    }
    KILN_CHECK_INT(kiln_attr_from_name("axis"), KILN_KEY_AXIS);
    KILN_CHECK_INT(kiln_attr_type_of(KILN_KEY_VALUE), KILN_ATTR_NUMBER);
    KILN_CHECK_INT(kiln_attr_from_name("axiss"), KILN_KEY_NONE);
    KILN_CHECK(kiln_attr_name((kiln_attr_key)9999) == NULL);
    KILN_CHECK(kiln_attr_doc((kiln_attr_key)9999) == NULL);
}

KILN_TEST_MAIN("unit/ir/op_table", KILN_TEST(test_lookups_agree), KILN_TEST(test_unknown),
               KILN_TEST(test_rows_are_complete), KILN_TEST(test_attributes))
