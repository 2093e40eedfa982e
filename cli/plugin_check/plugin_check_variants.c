// SPDX-License-Identifier: MIT OR Apache-2.0
// Level 3: other programs that do the same work (kf_opt_info.n_variants), and what the fuser claims
// of each since ABI 1.1. A host leaves out what is wrong here, and its author would not hear of it.

#include "plugin_check_rules.h"

#include <stdio.h>

static void try_variant(subject *t, const kf_opt *opt, const kf_opt_info *info, uint32_t i)
{
    char name[48];
    kf_program program = {.struct_size = (uint32_t)sizeof(program)};
    snprintf(name, sizeof(name), "variant_ns[%u]", i);
    check_step(t->c, "opt_describe of variant %u, seed %llu", i, (unsigned long long)t->seed);
    if (t->p->opt_describe(opt, i, &program) != KF_OK || program.n_steps == 0) {
        rules_wrong(t, "opt_describe does not describe each of n_variants");
    } else if (info->n_variant_ns > 0 && info->variant_ns[i].n > 0) {
        rules_estimate(t, name, info->variant_ns[i]);
    }
}

static void rule_variants(subject *t)
{
    kf_state state;
    kf_opt *opt = NULL;
    kf_opt_info info = {.struct_size = (uint32_t)sizeof(info)};
    kf_builder *builder = rules_shown(t, t->view, t->s.n_ops, &state);
    check_step(t->c, "builder_finish and opt_info, seed %llu", (unsigned long long)t->seed);
    if (t->p->builder_finish(builder, &opt) != KF_OK || opt == NULL ||
        t->p->opt_info(opt, &info) != KF_OK) {
        rules_wrong(t, "ready, but builder_finish or opt_info fails");
    } else if (info.n_variant_ns != 0 && info.n_variant_ns != info.n_variants) {
        rules_wrong(t, "n_variant_ns is neither 0 nor n_variants");
    } else if (info.n_variant_ns != 0 && info.variant_ns == NULL) {
        rules_wrong(t, "n_variant_ns is above 0, and variant_ns is NULL");
    } else {
        t->offers += info.n_variants > 1 ? 1 : 0;
        for (uint32_t i = 1; i < info.n_variants && i < RULES_MOST_VARIANTS && check_good(t->c);
             i++) {
            try_variant(t, opt, &info, i);
        }
    }
    t->p->opt_destroy(opt);
    t->p->builder_destroy(builder);
}

static void check_variants(check *c)
{
    rules_on_streams(c, rule_variants, /*random=*/false);
}

const check_row check_variant_rows[] = {
    {"variants", 3, check_variants, "each variant is described, and claims a time or nothing"},
    {NULL, 0, NULL, NULL},
};
