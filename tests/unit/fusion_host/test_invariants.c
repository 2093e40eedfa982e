// SPDX-License-Identifier: MIT OR Apache-2.0
// Random programs through the whole of fusion_host, with an executor that only keeps books: every
// operation is done once and in an order that respects what it reads, every value that lives on
// exists, every dropped tensor dies exactly once and after its last use, and the same program takes
// the same plans again.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuse_fixture.h"

enum { MAX_TENSORS = 4096, TENSOR_ABSENT = 0, TENSOR_THERE = 1, TENSOR_DEAD = 2 };

typedef struct books {
    fuse_fixture *f;
    uint8_t state[MAX_TENSORS]; // by id
    uint64_t ops_done;
    uint64_t hash; // of all steps in order
    uint64_t first_id;
    bool broken;
} books;

static void break_books(books *b, const char *what, uint64_t id)
{
    if (!b->broken) {
        KILN_FAIL("%s: tensor %llu", what, (unsigned long long)id);
    }
    b->broken = true;
}

static uint64_t id_of(const void *token)
{
    return (uint64_t)(uintptr_t)token;
}

static void read_tensor(books *b, uint64_t id)
{
    if (b->state[id] != TENSOR_THERE) {
        break_books(b, b->state[id] == TENSOR_DEAD ? "read after death" : "read before written",
                    id);
    }
}

static void write_tensor(books *b, uint64_t id)
{
    if (b->state[id] != TENSOR_ABSENT) {
        break_books(b, "written twice", id);
    }
    b->state[id] = TENSOR_THERE;
}

static void do_op(books *b, const kiln_fuse_segment *s, uint32_t op)
{
    const kiln_op_record *record = &s->ops[op];
    for (uint32_t i = 0; record->op != KILN_OP_DROP && i < record->n_inputs; i++) {
        read_tensor(b, id_of(s->operands[op][i]));
    }
    for (uint32_t i = 0; i < record->n_outputs; i++) {
        write_tensor(b, id_of(s->operands[op][record->n_inputs + i]));
    }
}

static void do_launch(books *b, const kiln_fuse_segment *s, const kiln_plan_step *step)
{
    const kiln_plan_block *block = &s->plan->blocks[step->block];
    const kiln_program_launch *launch = &block->program->launches[step->index];
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < launch->n_args; i++) {
            const kiln_program_arg *arg = &launch->args[i];
            if (arg->kind != KILN_ARG_TENSOR) {
                continue;
            }
            uint64_t id = id_of(s->tokens[block->tensors[arg->ref]]);
            if (pass == 0 && (arg->access & KILN_ACCESS_READ) != 0) {
                read_tensor(b, id);
            } else if (pass == 1 && (arg->access & KILN_ACCESS_WRITE) != 0) {
                write_tensor(b, id);
            }
        }
    }
}

/* After the plan: what it defined and did not drop is there; what it dropped died. */
static void check_after(books *b, const kiln_fuse_segment *s)
{
    for (uint32_t op = 0; op < s->plan->n_ops; op++) {
        const kiln_op_record *record = &s->ops[op];
        if (record->op == KILN_OP_DROP && b->state[record->inputs[0].id] != TENSOR_DEAD) {
            break_books(b, "dropped and not dead", record->inputs[0].id);
        }
        for (uint32_t i = 0; i < record->n_outputs; i++) {
            if (b->state[record->outputs[i].id] == TENSOR_ABSENT) {
                break_books(b, "defined and never written", record->outputs[i].id);
            }
        }
        b->ops_done++;
    }
}

static void execute(books *b, const kiln_fuse_segment *s)
{
    for (uint32_t i = 0; i < s->plan->n_steps; i++) {
        const kiln_plan_step *step = &s->plan->steps[i];
        uint64_t words[4] = {step->kind, step->kind == KILN_STEP_LAUNCH ? step->block : 0,
                             step->index, step->n_dies};
        b->hash = kiln_hash64(words, sizeof(words), b->hash);
        if (step->kind == KILN_STEP_LAUNCH) {
            do_launch(b, s, step);
        } else {
            do_op(b, s, step->index);
        }
        for (uint32_t k = 0; k < step->n_dies; k++) {
            uint64_t id = id_of(s->tokens[step->dies[k]]);
            if (b->state[id] == TENSOR_DEAD) {
                break_books(b, "dies twice", id);
            }
            b->state[id] = TENSOR_DEAD;
        }
    }
    check_after(b, s);
}

static void run(books *b, bool drain)
{
    for (const kiln_fuse_segment *s = fixture_next(b->f, drain); s != NULL;
         s = fixture_next(b->f, drain)) {
        execute(b, s);
        fixture_done(b->f, s);
    }
}

// ---- random programs ----

static uint32_t draw(uint64_t *random, uint32_t below)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*random >> 33) % below;
}

typedef struct pool { ///< tensors that the program may use
    kiln_tensor_desc tensors[24];
    uint32_t count;
} pool;

static void add_input(books *b, pool *p, uint64_t *random)
{
    static const int64_t shapes[][2] = {{16, 16}, {16, 16}, {1, 16}, {16, 1}, {0, 16}};
    uint32_t shape = draw(random, 40) == 0 ? 4 : draw(random, 4);
    kiln_tensor_desc t = fixture_input(b->f, 2, shapes[shape]);
    b->state[t.id] = TENSOR_THERE;
    p->tensors[p->count++] = t;
}

static void drop_one(books *b, pool *p, uint64_t *random)
{
    uint32_t which = draw(random, p->count);
    fixture_drop(b->f, &p->tensors[which]);
    p->tensors[which] = p->tensors[--p->count];
}

static bool is_square(const kiln_tensor_desc *t)
{
    return t->dims[0] == 16 && t->dims[1] == 16;
}

static void random_op(books *b, pool *p, uint64_t *random)
{
    static const kiln_op unary[] = {KILN_OP_NEG, KILN_OP_EXP, KILN_OP_RELU, KILN_OP_ABS};
    static const kiln_op binary[] = {KILN_OP_ADD, KILN_OP_MUL, KILN_OP_SUB, KILN_OP_MAXIMUM};
    kiln_tensor_desc x = p->tensors[draw(random, p->count)];
    kiln_tensor_desc y = p->tensors[draw(random, p->count)];
    bool empty = x.dims[0] * x.dims[1] * y.dims[0] * y.dims[1] == 0;
    kiln_tensor_desc out;
    switch (draw(random, 8)) {
    case 0:
    case 1:
        out = fixture_op(b->f, unary[draw(random, 4)], &x, NULL);
        break;
    case 2:
        out = fixture_scalar_op(b->f, KILN_OP_ADD_SCALAR, &x, draw(random, 100));
        break;
    case 3:
        if (is_square(&x) && is_square(&y)) {
            out = fixture_op(b->f, KILN_OP_MATMUL, &x, &y);
            break;
        } // FALLTHROUGH
    case 4:
        out = fixture_op(b->f, KILN_OP_PERMUTE, &x, NULL);
        break;
    default:
        out = fixture_op(b->f, binary[draw(random, 4)], &x, empty ? &x : &y);
        break;
    }
    p->tensors[p->count++] = out;
}

static uint64_t random_program(books *b, uint64_t seed, uint32_t look)
{
    uint64_t random = seed;
    pool p = {.count = 0};
    uint64_t recorded = 0;
    b->hash = 0;
    add_input(b, &p, &random);
    for (int i = 0; i < 120; i++) {
        if (draw(&random, 10) == 0) {
            add_input(b, &p, &random);
        }
        random_op(b, &p, &random);
        recorded++;
        while (p.count > 20 || (p.count > 2 && draw(&random, 3) > 0)) {
            drop_one(b, &p, &random);
            recorded++;
        }
        if (look == 1 || (look == 2 && i % 7 == 0)) {
            run(b, false);
        }
        if (i == 60) {
            run(b, true);
        }
    }
    run(b, true);
    while (p.count > 0) {
        drop_one(b, &p, &random);
        recorded++;
    }
    run(b, true);
    return recorded;
}

static void many_programs(const char *const *plugins, uint32_t programs)
{
    static books b;
    for (uint32_t i = 0; i < programs; i++) {
        static fuse_fixture f;
        memset(&b, 0, sizeof(b));
        b.f = &f;
        if (!fixture_open(&f, plugins)) {
            return;
        }
        uint32_t look = i % 3;
        uint64_t recorded = random_program(&b, i + 1, look);
        uint64_t hash = b.hash;
        uint64_t searched = fixture_stats(&f).plans_searched;
        for (uint64_t id = 1; id < f.next_id; id++) {
            KILN_CHECK_INT(b.state[id], TENSOR_DEAD);
        }
        recorded += random_program(&b, i + 1, look); // once more: the same plans
        KILN_CHECK_INT(b.ops_done, recorded);
        KILN_CHECK(b.hash == hash);
        KILN_CHECK_INT(fixture_stats(&f).plans_searched, searched);
        KILN_CHECK_INT(fixture_stats(&f).strikes, 0);
        if (b.broken) {
            KILN_FAIL("program %u", i);
        }
        fixture_close(&f);
    }
}

static void test_without_fusers(void)
{
    many_programs(NULL, 60);
}

static void test_with_one_fuser(void)
{
    static const char *const plugins[] = {"chain", NULL};
    many_programs(plugins, 200);
}

static void test_with_several_fusers(void)
{
    static const char *const plugins[] = {"chain", "chain_short", "hostile_asks", "null", NULL};
    many_programs(plugins, 60);
}

static void test_with_shipped_fusers(void)
{
    static const char *const plugins[] = {"plugins/elementwise", NULL};
    many_programs(plugins, 60);
}

KILN_TEST_MAIN("unit/fusion_host/invariants", KILN_TEST(test_without_fusers),
               KILN_TEST(test_with_one_fuser), KILN_TEST(test_with_several_fusers),
               KILN_TEST(test_with_shipped_fusers))
