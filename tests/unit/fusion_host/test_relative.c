// SPDX-License-Identifier: MIT OR Apache-2.0
// The relative form: what makes two segments the same program and what does not, and how an
// operation looks to a fuser.
#include <string.h>

#include "fuse_fixture.h"
#include "kiln_fuser_ops.h"

typedef void (*program_fn)(fuse_fixture *f);

/* Do both programs take the same plan? */
static bool same_program(program_fn a, program_fn b)
{
    fuse_fixture f;
    bool same = false;
    if (fixture_open(&f, NULL)) {
        a(&f);
        (void)fixture_run(&f, true);
        b(&f);
        (void)fixture_run(&f, true);
        same = fixture_stats(&f).plans_searched == 1;
    }
    fixture_close(&f);
    return same;
}

static void vector_12(fuse_fixture *f)
{
    kiln_tensor_desc a = fixture_vector(f, 12);
    (void)fixture_scalar_op(f, KILN_OP_ADD_SCALAR, &a, 1.5);
}

static void vector_20_other_scalar(fuse_fixture *f)
{
    kiln_tensor_desc a = fixture_vector(f, 20);
    (void)fixture_scalar_op(f, KILN_OP_ADD_SCALAR, &a, -7);
}

static void vector_16(fuse_fixture *f)
{
    kiln_tensor_desc a = fixture_vector(f, 16);
    (void)fixture_scalar_op(f, KILN_OP_ADD_SCALAR, &a, 1.5);
}

static void vector_1(fuse_fixture *f)
{
    kiln_tensor_desc a = fixture_vector(f, 1);
    (void)fixture_scalar_op(f, KILN_OP_ADD_SCALAR, &a, 1.5);
}

static void integer_scalar(fuse_fixture *f)
{
    kiln_tensor_desc a = fixture_vector(f, 12);
    kiln_attr attr = {.type = KILN_ATTR_I64, .count = 1, .v = {.i = 2}};
    (void)fixture_record(f, KILN_OP_ADD_SCALAR, &a, 1, &attr, 1);
}

static void vector_f64(fuse_fixture *f)
{
    kiln_tensor_desc a = fixture_vector(f, 12);
    a.dtype = KILN_DTYPE_F64;
    (void)fixture_scalar_op(f, KILN_OP_ADD_SCALAR, &a, 1.5);
}

static void vector_strided(fuse_fixture *f)
{
    kiln_tensor_desc a = fixture_vector(f, 12);
    a.flags = KILN_TENSOR_PLACED;
    (void)fixture_scalar_op(f, KILN_OP_ADD_SCALAR, &a, 1.5);
}

static void vector_with_offset(fuse_fixture *f)
{
    kiln_tensor_desc a = fixture_vector(f, 12);
    a.flags = KILN_TENSOR_PLACED | KILN_TENSOR_CONTIGUOUS;
    (void)fixture_scalar_op(f, KILN_OP_ADD_SCALAR, &a, 1.5);
}

static void vector_misaligned(fuse_fixture *f)
{
    kiln_tensor_desc a = fixture_vector(f, 12);
    a.align_log2 = 3;
    (void)fixture_scalar_op(f, KILN_OP_ADD_SCALAR, &a, 1.5);
}

static void vector_more_misaligned(fuse_fixture *f)
{
    kiln_tensor_desc a = fixture_vector(f, 12);
    a.align_log2 = 2;
    (void)fixture_scalar_op(f, KILN_OP_ADD_SCALAR, &a, 1.5);
}

static void vector_const(fuse_fixture *f)
{
    kiln_tensor_desc a = fixture_vector(f, 12);
    a.flags |= KILN_TENSOR_CONST;
    (void)fixture_scalar_op(f, KILN_OP_ADD_SCALAR, &a, 1.5);
}

static void test_what_makes_a_program(void)
{
    KILN_CHECK(same_program(vector_12, vector_20_other_scalar));
    KILN_CHECK(same_program(vector_misaligned, vector_more_misaligned));
    KILN_CHECK(!same_program(vector_12, vector_16));
    KILN_CHECK(!same_program(vector_12, vector_1));
    KILN_CHECK(!same_program(vector_12, integer_scalar));
    KILN_CHECK(!same_program(vector_12, vector_f64));
    KILN_CHECK(!same_program(vector_12, vector_strided));
    KILN_CHECK(!same_program(vector_12, vector_with_offset));
    KILN_CHECK(!same_program(vector_12, vector_misaligned));
    KILN_CHECK(!same_program(vector_12, vector_const));
}

static void add_same(fuse_fixture *f)
{
    kiln_tensor_desc a = fixture_vector(f, 12);
    (void)fixture_op(f, KILN_OP_ADD, &a, &a);
}

static void add_two(fuse_fixture *f)
{
    kiln_tensor_desc a = fixture_vector(f, 12);
    kiln_tensor_desc b = fixture_vector(f, 12);
    (void)fixture_op(f, KILN_OP_ADD, &a, &b);
}

static void sub_two(fuse_fixture *f)
{
    kiln_tensor_desc a = fixture_vector(f, 12);
    kiln_tensor_desc b = fixture_vector(f, 12);
    (void)fixture_op(f, KILN_OP_SUB, &a, &b);
}

static void permute(fuse_fixture *f, int64_t first, int64_t second)
{
    const int64_t dims[] = {3, 5};
    const int64_t axes[] = {first, second};
    kiln_tensor_desc a = fixture_input(f, 2, dims);
    kiln_attr attr = {.type = KILN_ATTR_I64_LIST, .count = 2, .v = {.ints = axes}};
    (void)fixture_record(f, KILN_OP_PERMUTE, &a, 1, &attr, 1);
}

static void permute_10(fuse_fixture *f)
{
    permute(f, 1, 0);
}

static void permute_01(fuse_fixture *f)
{
    permute(f, 0, 1);
}

static void reshape(fuse_fixture *f, int64_t rows, int64_t columns)
{
    const int64_t shape[] = {rows, columns};
    kiln_tensor_desc a = fixture_vector(f, rows * columns);
    kiln_attr attr = {.type = KILN_ATTR_I64_LIST, .count = 2, .v = {.ints = shape}};
    (void)fixture_record(f, KILN_OP_RESHAPE, &a, 1, &attr, 1);
}

static void reshape_3_5(fuse_fixture *f)
{
    reshape(f, 3, 5);
}

static void reshape_7_11(fuse_fixture *f)
{
    reshape(f, 7, 11);
}

static void test_operands_and_attributes(void)
{
    KILN_CHECK(!same_program(add_same, add_two));
    KILN_CHECK(!same_program(add_two, sub_two));
    KILN_CHECK(!same_program(permute_10, permute_01)); // part of what the program is
    KILN_CHECK(same_program(reshape_3_5, reshape_7_11)); // follows from the shapes
}

// ---- facts ----

static const kilni_fuse_tensor_info *info_of(const fuse_fixture *f, const kiln_tensor_desc *t)
{
    const kilni_fuse_recorded *recorded = &f->stream->recorded[f->stream->active];
    uint32_t tensor = kilni_fuse_map_find(&recorded->tensor_map, t->id);
    return tensor == KILNI_FUSE_NONE ? NULL : &recorded->infos[tensor];
}

enum {
    DENSE = KILNI_FUSE_FACT_CONTIGUOUS | KILNI_FUSE_FACT_ZERO_OFFSET | KILNI_FUSE_FACT_FITS_I32,
    TURNED = KILNI_FUSE_FACT_TURNED | KILNI_FUSE_FACT_ZERO_OFFSET | KILNI_FUSE_FACT_FITS_I32
};

static void test_facts_of_results(void)
{
    fuse_fixture f;
    const int64_t shape[] = {3, 4};
    if (fixture_open(&f, NULL)) {
        kiln_tensor_desc a = fixture_vector(&f, 12);
        a.flags = KILN_TENSOR_PLACED; // strided
        kiln_attr attr = {.type = KILN_ATTR_I64_LIST, .count = 2, .v = {.ints = shape}};
        kiln_tensor_desc b = fixture_op(&f, KILN_OP_NEG, &a, NULL);
        kiln_tensor_desc c = fixture_record(&f, KILN_OP_RESHAPE, &b, 1, &attr, 1);
        kiln_tensor_desc d = fixture_op(&f, KILN_OP_PERMUTE, &c, NULL);
        kiln_tensor_desc e = fixture_record(&f, KILN_OP_RESHAPE, &a, 1, &attr, 1);
        kiln_tensor_desc g = fixture_op(&f, KILN_OP_EXP, &d, NULL);
        kiln_tensor_desc h = fixture_op(&f, KILN_OP_PERMUTE, &d, NULL); // turned back
        kiln_attr stays = {
            .type = KILN_ATTR_I64_LIST, .count = 2, .v = {.ints = (int64_t[]){0, 1}}};
        kiln_tensor_desc i = fixture_record(&f, KILN_OP_PERMUTE, &c, 1, &stays, 1);
        KILN_CHECK_INT(info_of(&f, &a)->facts, 0);
        KILN_CHECK_INT(info_of(&f, &b)->facts, DENSE | KILNI_FUSE_FACT_PRODUCED);
        KILN_CHECK_INT(info_of(&f, &b)->align_log2, 7);
        KILN_CHECK_INT(info_of(&f, &c)->facts, DENSE | KILNI_FUSE_FACT_PRODUCED);
        KILN_CHECK_INT(info_of(&f, &d)->facts, TURNED | KILNI_FUSE_FACT_PRODUCED);
        KILN_CHECK_INT(info_of(&f, &d)->align_log2, 7);
        KILN_CHECK_INT(info_of(&f, &h)->facts, KILNI_FUSE_FACT_LINES | KILNI_FUSE_FACT_PRODUCED);
        KILN_CHECK_INT(info_of(&f, &i)->facts, KILNI_FUSE_FACT_LINES | KILNI_FUSE_FACT_PRODUCED);
        KILN_CHECK_INT(info_of(&f, &e)->facts, KILNI_FUSE_FACT_PRODUCED);
        KILN_CHECK_INT(info_of(&f, &g)->facts, DENSE | KILNI_FUSE_FACT_PRODUCED);
    }
    fixture_close(&f);
}

static kiln_attr list(uint32_t count, const int64_t *ints)
{
    return (kiln_attr){.type = KILN_ATTR_I64_LIST, .count = count, .v = {.ints = ints}};
}

static kiln_tensor_desc view(fuse_fixture *f, kiln_op op, const kiln_tensor_desc *x,
                             const kiln_attr *attrs, uint8_t n_attrs)
{
    return fixture_record(f, op, x, 1, attrs, n_attrs);
}

/* Which axis of a view is dense, as heads of attention are cut out of one product. */
static void test_facts_of_views(void)
{
    enum { LINES = KILNI_FUSE_FACT_LINES, COLUMNS = KILNI_FUSE_FACT_COLUMNS };
    static const int64_t five[] = {2, 8, 3, 4, 16}, four[] = {2, 8, 4, 16}, heads[] = {0, 2, 1, 3},
                         turned[] = {0, 2, 3, 1}, first[] = {3, 0, 1, 2}, zero[] = {0, 0, 0, 0, 0},
                         ends[] = {2, 8, 1, 4, 16}, ones[] = {1, 1, 1, 1, 1},
                         twos[] = {1, 1, 1, 1, 2}, split[] = {2, 8, 4, 4, 4},
                         wide[] = {2, 2, 8, 4, 16};
    fuse_fixture f;
    if (fixture_open(&f, NULL)) {
        kiln_tensor_desc a = fixture_input(&f, 5, five);
        kiln_attr cut[] = {list(5, zero), list(5, ends), list(5, ones)};
        kiln_attr skip[] = {list(5, zero), list(5, ends), list(5, twos)};
        kiln_attr to[] = {list(4, four),  list(4, heads), list(4, turned),
                          list(4, first), list(5, split), list(5, wide)};
        kiln_tensor_desc dense = fixture_op(&f, KILN_OP_NEG, &a, NULL);
        kiln_tensor_desc sliced = view(&f, KILN_OP_SLICE, &dense, cut, 3);
        kiln_tensor_desc skipped = view(&f, KILN_OP_SLICE, &dense, skip, 3);
        kiln_tensor_desc shaped = view(&f, KILN_OP_RESHAPE, &sliced, &to[0], 1);
        kiln_tensor_desc by_head = view(&f, KILN_OP_PERMUTE, &shaped, &to[1], 1);
        kiln_tensor_desc across = view(&f, KILN_OP_PERMUTE, &shaped, &to[2], 1);
        kiln_tensor_desc last = view(&f, KILN_OP_PERMUTE, &shaped, &to[3], 1);
        kiln_tensor_desc parted = view(&f, KILN_OP_RESHAPE, &shaped, &to[4], 1);
        kiln_tensor_desc repeated = view(&f, KILN_OP_EXPAND, &shaped, &to[5], 1);
        kiln_tensor_desc again = fixture_op(&f, KILN_OP_NEG, &by_head, NULL);
        kiln_attr whole[] = {list(5, five), list(5, ends)};
        kiln_tensor_desc kept = view(&f, KILN_OP_EXPAND, &dense, &whole[0], 1);
        kiln_tensor_desc cut_down = view(&f, KILN_OP_EXPAND, &sliced, &whole[1], 1);
        const uint8_t made = KILNI_FUSE_FACT_PRODUCED;
        KILN_CHECK_INT(info_of(&f, &sliced)->facts, LINES | made);
        KILN_CHECK_INT(info_of(&f, &skipped)->facts, made);
        KILN_CHECK_INT(info_of(&f, &shaped)->facts, LINES | made);
        KILN_CHECK_INT(info_of(&f, &by_head)->facts, LINES | made);
        KILN_CHECK_INT(info_of(&f, &across)->facts, COLUMNS | made);
        KILN_CHECK_INT(info_of(&f, &last)->facts, made);
        KILN_CHECK_INT(info_of(&f, &parted)->facts, made);
        KILN_CHECK_INT(info_of(&f, &repeated)->facts, LINES | made);
        KILN_CHECK_INT(info_of(&f, &again)->facts, DENSE | made);
        KILN_CHECK_INT(info_of(&f, &kept)->facts, DENSE | made);
        KILN_CHECK_INT(info_of(&f, &cut_down)->facts, LINES | made);
    }
    fixture_close(&f);
}

static void test_facts_of_inputs(void)
{
    static const struct {
        uint8_t flags;
        uint8_t facts;
    } cases[] = {
        {0, 0},
        {KILN_TENSOR_PLACED, 0},
        {KILN_TENSOR_PLACED | KILN_TENSOR_TURNED, KILNI_FUSE_FACT_TURNED},
        {KILN_TENSOR_PLACED | KILN_TENSOR_TURNED | KILN_TENSOR_ZERO_OFFSET, TURNED},
        {KILN_TENSOR_PLACED | KILN_TENSOR_LINES, KILNI_FUSE_FACT_LINES},
        {KILN_TENSOR_PLACED | KILN_TENSOR_COLUMNS, KILNI_FUSE_FACT_COLUMNS},
        {KILN_TENSOR_LINES, 0}, // no memory yet
        {KILN_TENSOR_PLACED | KILN_TENSOR_CONTIGUOUS, KILNI_FUSE_FACT_CONTIGUOUS},
        {KILN_TENSOR_PLACED | KILN_TENSOR_CONTIGUOUS | KILN_TENSOR_ZERO_OFFSET, DENSE},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fuse_fixture f;
        if (fixture_open(&f, NULL)) {
            kiln_tensor_desc a = fixture_vector(&f, 12);
            a.flags = cases[i].flags;
            fixture_op(&f, KILN_OP_NEG, &a, NULL);
            KILN_CHECK_INT(info_of(&f, &a)->facts, cases[i].facts);
        }
        fixture_close(&f);
    }
}

/* What a segment leaves over was recorded before its inputs existed; by the time it runs they do.
 */
static void test_facts_are_carried_over(void)
{
    fuse_fixture f;
    if (fixture_open(&f, NULL)) {
        kiln_tensor_desc a = fixture_vector(&f, 12);
        kiln_tensor_desc b = fixture_op(&f, KILN_OP_NEG, &a, NULL);
        kiln_tensor_desc c = fixture_op(&f, KILN_OP_EXP, &b, NULL);
        KILN_CHECK_STR(fixture_run(&f, false), "neg;");
        KILN_CHECK_INT(info_of(&f, &b)->facts, DENSE);
        KILN_CHECK_INT(info_of(&f, &c)->facts, DENSE | KILNI_FUSE_FACT_PRODUCED);
        KILN_CHECK(info_of(&f, &a) == NULL);
    }
    fixture_close(&f);
}

static void test_large_tensors_do_not_fit_32_bits(void)
{
    fuse_fixture f;
    if (fixture_open(&f, NULL)) {
        kiln_tensor_desc a = fixture_vector(&f, ((int64_t)1 << 31) + 16);
        kiln_tensor_desc b = fixture_op(&f, KILN_OP_NEG, &a, NULL);
        KILN_CHECK_INT(info_of(&f, &a)->facts & KILNI_FUSE_FACT_FITS_I32, 0);
        KILN_CHECK_INT(info_of(&f, &b)->facts & KILNI_FUSE_FACT_FITS_I32, 0);
    }
    fixture_close(&f);
}

// ---- how an operation looks to a fuser ----

static void test_op_view(void)
{
    fuse_fixture f;
    const int64_t dims[] = {1, 6, 48};
    if (fixture_open(&f, NULL)) {
        kiln_tensor_desc other = fixture_vector(&f, 999);
        (void)fixture_scalar_op(&f, KILN_OP_MUL_SCALAR, &other, 3);
        kiln_tensor_desc a = fixture_input(&f, 3, dims);
        a.flags |= KILN_TENSOR_CONST;
        kiln_tensor_desc b = fixture_scalar_op(&f, KILN_OP_ADD_SCALAR, &a, 2.5);
        (void)fixture_op(&f, KILN_OP_SUB, &b, &a);
        kilni_fuse_block_view view = {0};
        kilni_fuse_op_view *storage = kilni_fuse_op_view_create(&f.env);
        kilni_fuse_block_view_reset(&view, &f.stream->recorded[f.stream->active]);
        KILN_CHECK(kilni_fuse_block_view_extend(&view, 1));
        KILN_CHECK(kilni_fuse_block_view_extend(&view, 2));
        const kilni_fuse_asks asks = {.items = {{.ref = 2, .value = 48}}, .count = 1};
        const kilni_fuse_asks none = {.count = 0};
        const kf_op *op = kilni_fuse_op_view_fill(storage, &view, 0, &asks);
        KILN_CHECK_INT(op->kind, KF_OP_ADD_SCALAR);
        KILN_CHECK_INT(op->n_attrs, 1);
        KILN_CHECK_INT(op->attrs[0].key, KF_ATTR_VALUE);
        KILN_CHECK_INT(op->attrs[0].type, KF_TYPE_SCALAR);
        KILN_CHECK_INT(op->attrs[0].count, KF_TYPE_F64);
        KILN_CHECK_INT(op->attrs[0].v.i, 0); // the block's first, the recorded segment's second
        const kf_tensor *t = op->inputs[0];
        KILN_CHECK_INT(t->id, 0);
        KILN_CHECK_INT(t->dtype, KF_DTYPE_F32);
        KILN_CHECK_INT(t->rank, 3);
        KILN_CHECK_INT(t->flags, KF_TENSOR_EXTERNAL | KF_TENSOR_CONST);
        KILN_CHECK_INT(t->facts, DENSE);
        KILN_CHECK_INT(t->align_log2, 7);
        KILN_CHECK_INT(t->div_by, 16);
        KILN_CHECK_INT(t->dims[0].symbol, 0);
        KILN_CHECK_INT(t->dims[0].value, 1);
        KILN_CHECK_INT(t->dims[1].symbol, 1);
        KILN_CHECK_INT(t->dims[1].flags, 0);
        KILN_CHECK_INT(t->dims[1].value, 0); // nobody has asked
        KILN_CHECK_INT(t->dims[2].flags, KF_DIM_VALUE);
        KILN_CHECK_INT(t->dims[2].value, 48);
        KILN_CHECK_INT(op->outputs[0]->flags, KF_TENSOR_UNINIT);
        op = kilni_fuse_op_view_fill(storage, &view, 1, &none);
        KILN_CHECK_INT(op->position, 1);
        KILN_CHECK_INT(op->inputs[0]->id, 1);
        KILN_CHECK_INT(op->inputs[0]->flags, 0);
        KILN_CHECK_INT(op->inputs[1]->id, 0);
        KILN_CHECK_INT(op->outputs[0]->id, 2);
        kilni_fuse_op_view_destroy(&f.env, storage);
        kilni_fuse_block_view_fini(&view, &f.env);
    }
    fixture_close(&f);
}

/* An absent attribute has its default; one that follows from shapes is not shown. */
static void test_attributes_shown(void)
{
    fuse_fixture f;
    if (fixture_open(&f, NULL)) {
        kiln_tensor_desc a = fixture_vector(&f, 12);
        (void)fixture_op(&f, KILN_OP_LEAKY_RELU, &a, NULL);
        const kiln_op_signature *signature = kiln_op_info_of(KILN_OP_ARGMAX)->signature;
        kiln_attr attrs[KILN_MAX_ATTRS] = {{.type = KILN_ATTR_NONE}};
        for (uint32_t i = 0; i < signature->n_attrs; i++) {
            bool axis = signature->attrs[i].key == KILN_KEY_AXIS;
            attrs[i] = (kiln_attr){.type = axis ? KILN_ATTR_I64 : KILN_ATTR_NONE, .count = 1};
        }
        (void)fixture_record(&f, KILN_OP_ARGMAX, &a, 1, attrs, signature->n_attrs);
        reshape(&f, 3, 4);
        const kilni_fuse_recorded *recorded = &f.stream->recorded[f.stream->active];
        KILN_CHECK_NEAR(recorded->scalars[0].v.f, 0.01, 1e-12);
        kilni_fuse_block_view view = {0};
        kilni_fuse_op_view *storage = kilni_fuse_op_view_create(&f.env);
        kilni_fuse_block_view_reset(&view, recorded);
        for (int i = 0; i < 3; i++) {
            KILN_CHECK(kilni_fuse_block_view_extend(&view, (uint32_t)i));
        }
        const kilni_fuse_asks none = {.count = 0};
        const kf_op *op = kilni_fuse_op_view_fill(storage, &view, 1, &none);
        bool has_last = false;
        for (uint32_t i = 0; i < op->n_attrs; i++) {
            has_last = has_last || (op->attrs[i].key == KF_ATTR_LAST &&
                                    op->attrs[i].type == KF_TYPE_BOOL && op->attrs[i].v.i == 0);
        }
        KILN_CHECK(has_last);
        op = kilni_fuse_op_view_fill(storage, &view, 2, &none);
        KILN_CHECK_INT(op->n_attrs, 0);
        kilni_fuse_op_view_destroy(&f.env, storage);
        kilni_fuse_block_view_fini(&view, &f.env);
    }
    fixture_close(&f);
}

KILN_TEST_MAIN("unit/fusion_host/relative", KILN_TEST(test_what_makes_a_program),
               KILN_TEST(test_operands_and_attributes), KILN_TEST(test_facts_of_results),
               KILN_TEST(test_facts_of_views), KILN_TEST(test_facts_of_inputs),
               KILN_TEST(test_facts_are_carried_over),
               KILN_TEST(test_large_tensors_do_not_fit_32_bits), KILN_TEST(test_op_view),
               KILN_TEST(test_attributes_shown))
