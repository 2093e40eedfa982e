// SPDX-License-Identifier: MIT OR Apache-2.0
// The SDK's helpers: the check of what is understood, element types against the host's table, text,
// formulas and the roofline.
#include "base.h"
#include "harness.h"
#include "kf_util.h"

static void test_dtypes_agree_with_the_host(void)
{
    unsigned count = 0;
    for (int i = 1; i < KILN_DTYPE_LIMIT; i++) {
        kf_dtype dtype = kf_dtype_of((uint32_t)i);
        if (kiln_dtype_size((kiln_dtype)i) == 0 ||
            kiln_dtype_kind_of((kiln_dtype)i) == KILN_KIND_SMALL) { // fusers see their bytes
            continue;
        }
        count++;
        KILN_CHECK_INT(dtype.id, i);
        KILN_CHECK_INT(dtype.bytes, kiln_dtype_size((kiln_dtype)i));
        KILN_CHECK_STR(dtype.name, kiln_dtype_name((kiln_dtype)i));
        kiln_dtype_kind kind = kiln_dtype_kind_of((kiln_dtype)i);
        KILN_CHECK_INT(dtype.kind, kind == KILN_KIND_FLOAT  ? KF_KIND_FLOAT
                                   : kind == KILN_KIND_INT  ? KF_KIND_INT
                                   : kind == KILN_KIND_UINT ? KF_KIND_UINT
                                                            : KF_KIND_BOOL);
    }
    KILN_CHECK_INT(count, 13);
    KILN_CHECK_INT(kf_dtype_of(0).id, 0);
    KILN_CHECK_INT(kf_dtype_of(1000).id, 0);
    KILN_CHECK_INT(kf_vector_width(64, 4), 16);
    KILN_CHECK_INT(kf_vector_width(16, 8), 2);
    KILN_CHECK_INT(kf_vector_width(0, 4), 1);
}

typedef struct shown {
    kf_op op;
    uint64_t newer;
} shown;

static void test_understood(void)
{
    static const uint32_t keys[] = {KF_ATTR_AXIS, KF_ATTR_VALUE};
    kf_tensor tensor = {.struct_size = (uint32_t)sizeof(tensor), .dtype = KF_DTYPE_F32};
    const kf_tensor *tensors[] = {&tensor};
    kf_attr attrs[] = {{KF_ATTR_AXIS, KF_TYPE_I64, 0, 1, {0}},
                       {777, KF_TYPE_I64, KF_ATTR_FLAG_HINT, 1, {0}}};
    shown s = {{.struct_size = (uint32_t)sizeof(kf_op),
                .kind = KF_OP_SUM,
                .version = 1,
                .n_inputs = 1,
                .n_outputs = 1,
                .n_attrs = 2,
                .inputs = tensors,
                .outputs = tensors,
                .attrs = attrs},
               0};
    KILN_CHECK(kf_op_understood(&s.op, 1, keys, 2));
    KILN_CHECK(kf_op_attr(&s.op, KF_ATTR_AXIS) == &attrs[0]);
    KILN_CHECK(kf_op_attr(&s.op, KF_ATTR_SHAPE) == NULL);
    KILN_CHECK(!kf_op_understood(&s.op, 0, keys, 2));
    KILN_CHECK(!kf_op_understood(&s.op, 1, keys + 1, 1));
    attrs[1].flags = 0;
    KILN_CHECK(!kf_op_understood(&s.op, 1, keys, 2));
    s.op.n_attrs = 1;
    s.op.flags = 0x80000000u;
    KILN_CHECK(!kf_op_understood(&s.op, 1, keys, 2));
    s.op.flags = 0;
    s.op.struct_size = (uint32_t)sizeof(shown);
    KILN_CHECK(kf_op_understood(&s.op, 1, keys, 2));
    s.newer = 1ull << 63;
    KILN_CHECK(!kf_op_understood(&s.op, 1, keys, 2));
    s.newer = 0;
    s.op.struct_size = (uint32_t)sizeof(kf_op) - 8;
    KILN_CHECK(!kf_op_understood(&s.op, 1, keys, 2));
    s.op.struct_size = (uint32_t)sizeof(kf_op);
    tensor.flags = KF_TENSOR_KNOWN_FLAGS;
    tensor.facts = ~0u; // facts are promises, unknown ones are ignored
    KILN_CHECK(kf_op_understood(&s.op, 1, keys, 2));
    tensor.flags = KF_TENSOR_KNOWN_FLAGS + 1;
    KILN_CHECK(!kf_op_understood(&s.op, 1, keys, 2));
    tensor.flags = 0;
    tensor.scheme = 2;
    KILN_CHECK(!kf_op_understood(&s.op, 1, keys, 2));
    tensor.scheme = 0;
    tensor.rank = KF_MAX_RANK + 1;
    KILN_CHECK(!kf_op_understood(&s.op, 1, keys, 2));
}

static void test_text(void)
{
    kf_text text = {0};
    for (int i = 0; i < 1000; i++) {
        kf_text_addf(&text, "%d,", i);
    }
    kf_text_add(&text, "end");
    KILN_CHECK(!text.failed);
    KILN_CHECK_INT(text.len, strlen(text.ptr));
    KILN_CHECK_CONTAINS(text.ptr, "998,999,end");
    text.failed = 1;
    uint64_t before = text.len;
    kf_text_add(&text, "more");
    KILN_CHECK_INT(text.len, before);
    kf_text_free(&text);
    KILN_CHECK(text.ptr == NULL && text.len == 0);
}

static void test_formula_overflow_gives_no_formula(void)
{
    kf_formula f = {0};
    kf_formula_imm(&f, 1);
    for (uint32_t i = 0; i < KF_MAX_EXPR; i++) {
        kf_formula_sym(&f, 1);
        kf_formula_op(&f, KF_INS_MUL);
    }
    KILN_CHECK(f.failed);
    KILN_CHECK_INT(kf_formula_expr(&f).n, 0);
}

static void test_products_leave_ones_out(void)
{
    const uint32_t symbols[] = {0, 3, 0, 4};
    kf_formula f = {0};
    kf_formula_product(&f, symbols, 4);
    KILN_CHECK_INT(f.n, 3);
    KILN_CHECK_INT(f.ins[0].sym, 3);
    KILN_CHECK_INT(f.ins[1].sym, 4);
    KILN_CHECK_INT(f.ins[2].op, KF_INS_MUL);
    f.n = 0;
    kf_formula_product(&f, symbols, 1);
    KILN_CHECK_INT(f.n, 1);
    KILN_CHECK_INT(f.ins[0].op, KF_INS_IMM);
    KILN_CHECK_INT(f.ins[0].imm, 1);
}

static void test_cost_stays_within_64_bits(void)
{
    kf_device device = {.struct_size = (uint32_t)sizeof(device),
                        .mem_bytes_per_s = 4000000000000ull,
                        .flops_f32 = 60000000000000ull,
                        .launch_ns = 3000};
    kf_cost cost = kf_cost_of(&device);
    KILN_CHECK(cost.ps_per_kib >= 256 && cost.ps_per_kib <= 257);
    KILN_CHECK_INT(cost.launch_ns, 3000);
    device.mem_bytes_per_s = device.flops_f32 = device.launch_ns = 0; // unknown: a slow machine
    cost = kf_cost_of(&device);
    KILN_CHECK(cost.ps_per_kib > 100000 && cost.ps_per_kib < 110000);
    KILN_CHECK(INT64_MAX / cost.ps_per_kib > 1LL << 44); // 16 TiB moved by the slowest
}

KILN_TEST_MAIN("unit/plugin_sdk/kf_util", KILN_TEST(test_dtypes_agree_with_the_host),
               KILN_TEST(test_understood), KILN_TEST(test_text),
               KILN_TEST(test_formula_overflow_gives_no_formula),
               KILN_TEST(test_products_leave_ones_out), KILN_TEST(test_cost_stays_within_64_bits))
