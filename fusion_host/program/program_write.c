// SPDX-License-Identifier: MIT OR Apache-2.0
// A program as bytes: what lies on disk, and what its key is the sum of. Equal bytes, equal
// program. Reading is plan_disk.c's, which trusts none of it.
#include <string.h>

#include "translate.h"

void kilni_fuse_write_number(kiln_string *s, uint64_t value)
{
    kiln_string_append(s, (const char *)&value, sizeof(value));
}

void kilni_fuse_write_text(kiln_string *s, const char *text)
{
    size_t length = text == NULL ? 0 : strlen(text);
    kilni_fuse_write_number(s, length);
    kiln_string_append(s, text == NULL ? "" : text, length);
}

static void add_formula(kiln_string *s, const kiln_formula *formula)
{
    kilni_fuse_write_number(s, formula->count);
    for (uint32_t i = 0; i < formula->count; i++) {
        kilni_fuse_write_number(s, (uint64_t)formula->steps[i].code);
        kilni_fuse_write_number(s, formula->steps[i].arg);
        kilni_fuse_write_number(s, formula->steps[i].sym);
        kilni_fuse_write_number(s, (uint64_t)formula->steps[i].imm);
    }
}

static void add_source(kiln_string *s, const kiln_program_source *source)
{
    kilni_fuse_write_number(s, (uint64_t)source->format);
    kilni_fuse_write_number(s, source->length);
    kiln_string_append(s, source->code, source->length);
    kilni_fuse_write_number(s, source->n_defines);
    for (uint32_t i = 0; i < source->n_defines; i++) {
        kilni_fuse_write_text(s, source->defines[i]);
    }
    kilni_fuse_write_number(s, source->cl_c_version);
    kilni_fuse_write_number(s, source->math);
    kilni_fuse_write_text(s, source->vendor_options);
    kilni_fuse_write_number(s, source->fingerprint.low);
    kilni_fuse_write_number(s, source->fingerprint.high);
}

static void add_launch(kiln_string *s, const kiln_program_launch *launch)
{
    kilni_fuse_write_number(s, launch->source);
    kilni_fuse_write_text(s, launch->kernel);
    kilni_fuse_write_number(s, launch->n_dims);
    for (uint32_t i = 0; i < 3; i++) {
        add_formula(s, &launch->global[i]);
        add_formula(s, &launch->local[i]);
    }
    kilni_fuse_write_number(s, launch->n_args);
    for (uint32_t i = 0; i < launch->n_args; i++) {
        const kiln_program_arg *arg = &launch->args[i];
        kilni_fuse_write_number(s, (uint64_t)arg->kind);
        kilni_fuse_write_number(s, arg->access);
        kilni_fuse_write_number(s, arg->ref);
        kilni_fuse_write_number(s, arg->axis);
        kilni_fuse_write_number(s, arg->group);
        kilni_fuse_write_number(s, (uint64_t)arg->dtype);
        add_formula(s, &arg->value);
    }
}

void kilni_fuse_write_program(kiln_string *s, const kiln_program *program)
{
    kilni_fuse_write_number(s, program->flags);
    kilni_fuse_write_number(s, program->n_sources);
    for (uint32_t i = 0; i < program->n_sources; i++) {
        add_source(s, &program->sources[i]);
    }
    kilni_fuse_write_number(s, program->n_launches);
    for (uint32_t i = 0; i < program->n_launches; i++) {
        add_launch(s, &program->launches[i]);
    }
    kilni_fuse_write_number(s, program->n_temps);
    for (uint32_t i = 0; i < program->n_temps; i++) {
        add_formula(s, &program->temps[i].bytes);
        kilni_fuse_write_number(s, program->temps[i].align);
        kilni_fuse_write_number(s, program->temps[i].flags);
        kilni_fuse_write_number(s, program->temps[i].prepack_launch);
    }
    kilni_fuse_write_number(s, program->n_steps);
    for (uint32_t i = 0; i < program->n_steps; i++) {
        kilni_fuse_write_number(s, (uint64_t)program->steps[i].kind);
        kilni_fuse_write_number(s, program->steps[i].index);
    }
    add_formula(s, &program->guard);
}

kiln_hash128 kilni_fuse_program_key(const kiln_env *env, const kiln_program *program,
                                    bool *out_failed)
{
    kiln_string s;
    kiln_string_init(&s, env);
    kilni_fuse_write_program(&s, program);
    kiln_hash128 key = kiln_hash_bytes(s.text, s.length);
    *out_failed = s.failed;
    kiln_string_fini(&s);
    return key;
}
