// SPDX-License-Identifier: MIT OR Apache-2.0
// Any bytes as a plan on disk, under a right checksum: a miss, or blocks of the recorded operations
// from which a plan can be built. The recorded program and the fuser are those of
// unit/fusion_host/test_plan_disk.
#include <string.h>

#include "fuse_fixture.h"
#include "fuzz_target.h"

enum { HEAD = 24, SUM = 8 }; ///< of an entry: what the sum does not cover, and where it stands

static fuse_fixture fixture;
static const kilni_fuse_recorded *recorded;

static void record_program(void)
{
    static const char *const plugins[] = {"chain", NULL};
    must(fixture_open(&fixture, plugins));
    kiln_tensor_desc a = fixture_vector(&fixture, 1000);
    a.align_log2 = 7;
    kiln_tensor_desc b = fixture_scalar_op(&fixture, KILN_OP_ADD_SCALAR, &a, 2.5);
    kiln_tensor_desc c = fixture_op(&fixture, KILN_OP_EXP, &b, NULL);
    fixture_drop(&fixture, &b);
    (void)fixture_op(&fixture, KILN_OP_ADD, &c, &a);
    fixture_drop(&fixture, &c);
    recorded = &fixture.stream->recorded[fixture.stream->active];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kilni_fuse_blocks blocks = {0};
    kilni_fuse_plan *plan = NULL;
    kiln_arena arena;
    if (recorded == NULL) {
        record_program();
    }
    char *entry = kiln_alloc(&fixture.env, size + 1);
    must(entry != NULL);
    if (size > 0) {
        memcpy(entry, data, size);
    }
    if (size >= HEAD) {
        kiln_hash128 sum = kiln_hash_bytes(entry + HEAD, size - HEAD);
        memcpy(entry + SUM, &sum, sizeof(sum));
    }
    kiln_arena_init(&arena, &fixture.env);
    if (kilni_fuse_disk_decode(fixture.engine, recorded, recorded->n_ops, entry, size, &arena,
                               &blocks)) {
        for (uint32_t i = 0; i < blocks.n_blocks; i++) {
            must(blocks.blocks[i].len >= 1 && blocks.blocks[i].len <= recorded->n_ops);
            must(blocks.blocks[i].ops[blocks.blocks[i].len - 1] < recorded->n_ops);
        }
        if (blocks.n_covered > 0 && kilni_fuse_plan_build(fixture.engine, recorded, &blocks, &arena,
                                                          &plan, NULL) == KILN_STATUS_OK) {
            kilni_fuse_plan_destroy(plan);
        }
    }
    kilni_fuse_blocks_fini(&blocks, &fixture.env);
    kiln_arena_fini(&arena);
    kiln_free(&fixture.env, entry);
    return 0;
}
