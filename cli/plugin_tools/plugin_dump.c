// SPDX-License-Identifier: MIT OR Apache-2.0
// `kiln plugin dump FILE`: what the fusers made of a stream or a model, all of it: sources with the
// compiler's options, launches with their formulas and values, arguments, temporaries, what waits
// for what, and the device's binaries on request.

#include "plugin_cli.h"
#include "plugin_job.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { KEY_BINARIES = 256, NO_SOURCE, FORMULA_TEXT = 1200 };

typedef struct dump_options {
    cli_device_options device;
    const char *path;
    const char *binaries;
    bool no_source;
} dump_options;

typedef struct dumper { ///< of one block
    const dump_options *options;
    const kiln_explanation *e;
    const kiln_explained_block *b;
    uint32_t index;
    bool failed; ///< a binary could not be written
    char file[4300]; ///< which
} dumper;

// ---- formulas ----

static const char *name_of_code(uint16_t code)
{
    switch (code) {
    case KILN_F_ADD:
        return "+";
    case KILN_F_SUB:
        return "-";
    case KILN_F_MUL:
        return "*";
    case KILN_F_EQ:
        return "==";
    case KILN_F_LT:
        return "<";
    case KILN_F_LE:
        return "<=";
    case KILN_F_AND:
        return "and";
    case KILN_F_OR:
        return "or";
    case KILN_F_MOD:
        return "mod";
    case KILN_F_FLOOR_DIV:
        return "floor_div";
    case KILN_F_CEIL_DIV:
        return "ceil_div";
    case KILN_F_ROUND_UP:
        return "round_up";
    case KILN_F_MIN:
        return "min";
    case KILN_F_MAX:
        return "max";
    default:
        return "select";
    }
}

/// Whether people write the operation between its operands.
static bool stands_between(uint16_t code)
{
    switch (code) {
    case KILN_F_FLOOR_DIV:
    case KILN_F_CEIL_DIV:
    case KILN_F_ROUND_UP:
    case KILN_F_MIN:
    case KILN_F_MAX:
    case KILN_F_SELECT:
        return false;
    default:
        return true;
    }
}

/// Position in the formula's postfix where the operand that ends at `end` begins.
static uint32_t begin_of(const kiln_formula *f, uint32_t end)
{
    uint32_t wanted = 1, at = end;
    for (; wanted > 0 && at > 0; at--) {
        uint16_t code = f->steps[at - 1].code;
        wanted += code == KILN_F_SELECT ? 3 : code >= KILN_F_ADD ? 2 : 0;
        wanted--;
    }
    return at;
}

static void put(char *out, const char *text)
{
    size_t length = strlen(out);
    snprintf(out + length, FORMULA_TEXT - length, "%s", text);
}

static void put_leaf(char *out, const kiln_formula_step *step)
{
    static const char *const facts[] = {"compute_units", "max_group", "local_bytes"};
    char text[32];
    if (step->code == KILN_F_IMM) {
        snprintf(text, sizeof(text), "%" PRId64, step->imm);
    } else if (step->code == KILN_F_SYM) {
        snprintf(text, sizeof(text), "s%u", step->sym);
    } else {
        snprintf(text, sizeof(text), "%s", step->arg < KILN_FACT_COUNT ? facts[step->arg] : "?");
    }
    put(out, text);
}

/// The part of the postfix that ends at `end`, as people write it.
static void put_infix(char *out, const kiln_formula *f, uint32_t end)
{
    const kiln_formula_step *step = &f->steps[end - 1];
    uint32_t ends[3] = {0}, n = step->code == KILN_F_SELECT ? 3 : 2;
    if (step->code < KILN_F_ADD) {
        put_leaf(out, step);
        return;
    }
    ends[n - 1] = end - 1;
    for (uint32_t i = n - 1; i > 0; i--) {
        ends[i - 1] = begin_of(f, ends[i]);
        if (ends[i - 1] == 0) {
            put(out, "?");
            return;
        }
    }
    const char *name = name_of_code(step->code);
    bool infix = stands_between(step->code);
    put(out, infix ? "" : name);
    put(out, "(");
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0) {
            put(out, infix ? " " : ", ");
            put(out, infix ? name : "");
            put(out, infix ? " " : "");
        }
        put_infix(out, f, ends[i]);
    }
    put(out, ")");
}

static bool value_of(const dumper *d, const kiln_formula *f, int64_t *out)
{
    return kiln_formula_eval(f, d->b->symbols, d->b->n_symbols, d->e->facts, KILN_FACT_COUNT, out,
                             NULL) == KILN_STATUS_OK;
}

/// "(s1 * s2) = 4096"; a plain number once.
static void print_formula(const dumper *d, const kiln_formula *f)
{
    char text[FORMULA_TEXT] = "";
    int64_t value = 0;
    put_infix(text, f, f->count);
    printf("%s", text);
    if (!value_of(d, f, &value)) {
        printf(" = has no value");
    } else if (f->count > 1 || f->steps[0].code != KILN_F_IMM) {
        printf(" = %" PRId64, value);
    }
}

// ---- sources ----

static void print_code(const kiln_program_source *source)
{
    const char *text = source->code;
    for (size_t at = 0; at < source->length;) {
        const char *end = memchr(text + at, '\n', source->length - at);
        size_t length = end == NULL ? source->length - at : (size_t)(end - text) - at;
        printf("      %.*s\n", (int)length, text + at);
        at += length + 1;
    }
}

static void write_binary(dumper *d, uint32_t source, const void *binary, size_t bytes)
{
    snprintf(d->file, sizeof(d->file), "%.4000s/block%u-source%u.bin", d->options->binaries,
             d->index, source);
    FILE *file = fopen(d->file, "wb");
    bool good = file != NULL && fwrite(binary, 1, bytes, file) == bytes;
    good = (file == NULL || fclose(file) == 0) && good;
    d->failed = d->failed || !good;
    printf("    binary: %zu bytes in %s\n", bytes, d->file);
}

static void print_source(uint32_t index, const char *options, const void *binary, size_t bytes,
                         void *user)
{
    dumper *d = user;
    const kiln_program_source *source = &d->b->program->sources[index];
    bool is_text = source->format == KILN_SOURCE_OPENCL_C;
    printf("  source %u: %s, %zu bytes; options: %s\n", index,
           is_text                               ? "OpenCL C"
           : source->format == KILN_SOURCE_SPIRV ? "SPIR-V"
                                                 : "binary",
           source->length, options);
    if (d->options->binaries != NULL) {
        write_binary(d, index, binary, bytes);
    }
    if (is_text && !d->options->no_source) {
        print_code(source);
    }
}

// ---- launches ----

/// Under the number that it has in the operations' text.
static void print_tensor(const dumper *d, uint32_t ref)
{
    uint32_t at = ref < d->b->n_tensors ? d->b->tensors[ref] : UINT32_MAX;
    if (at < d->e->n_tensors) {
        printf("%%%u: %s", at, d->e->tensors[at].text);
    } else {
        printf("tensor %u", ref);
    }
}

static void print_scalar(const dumper *d, uint32_t ref)
{
    const kiln_attr *value = ref < d->b->n_scalars ? &d->b->scalars[ref] : NULL;
    if (value == NULL || value->type == KILN_ATTR_NONE) {
        printf("scalar %u", ref);
    } else if (value->type == KILN_ATTR_F64) {
        printf("scalar %u = %.9g", ref, value->v.f);
    } else {
        printf("scalar %u = %" PRId64, ref, value->v.i);
    }
}

static void print_access(uint32_t access)
{
    printf("%s%s ", (access & KILN_ACCESS_READ) != 0 ? "reads" : "",
           (access & KILN_ACCESS_WRITE) == 0  ? ""
           : (access & KILN_ACCESS_READ) != 0 ? " and writes"
                                              : "writes");
}

static void print_arg(const dumper *d, uint32_t index, const kiln_program_arg *a)
{
    printf("    argument %-2u ", index);
    switch (a->kind) {
    case KILN_ARG_TENSOR:
        print_access(a->access);
        print_tensor(d, a->ref);
        break;
    case KILN_ARG_TEMP:
        print_access(a->access);
        printf("temporary %u", a->ref);
        break;
    case KILN_ARG_OFFSET:
        printf("%s, first element of ", kiln_dtype_name(a->dtype));
        print_tensor(d, a->ref);
        break;
    case KILN_ARG_STRIDE:
        printf("%s, stride of axis %u of ", kiln_dtype_name(a->dtype), a->axis);
        print_tensor(d, a->ref);
        break;
    case KILN_ARG_DIM:
        printf("%s, s%u = %" PRId64, kiln_dtype_name(a->dtype), a->ref,
               a->ref < d->b->n_symbols ? d->b->symbols[a->ref] : 0);
        break;
    case KILN_ARG_SCALAR:
        printf("%s, ", kiln_dtype_name(a->dtype));
        print_scalar(d, a->ref);
        break;
    case KILN_ARG_LOCAL:
        printf("local memory, bytes: ");
        print_formula(d, &a->value);
        break;
    case KILN_ARG_FORMULA:
        printf("%s, ", kiln_dtype_name(a->dtype));
        print_formula(d, &a->value);
        break;
    }
    printf("\n");
}

static void print_range(const dumper *d, const char *what, const kiln_formula *sizes, uint32_t n)
{
    printf("    %s ", what);
    for (uint32_t i = 0; i < n; i++) {
        printf("%s", i > 0 ? "; " : "");
        if (sizes[i].count > 0) {
            print_formula(d, &sizes[i]);
        } else {
            printf("as the driver likes");
        }
    }
    printf("\n");
}

static void print_launch(const dumper *d, uint32_t index)
{
    const kiln_program_launch *k = &d->b->program->launches[index];
    printf("  launch %u: %s of source %u\n", index, k->kernel, k->source);
    print_range(d, "work-items ", k->global, k->n_dims);
    print_range(d, "in groups of", k->local, k->n_dims);
    for (uint32_t i = 0; i < k->n_args; i++) {
        print_arg(d, i, &k->args[i]);
    }
}

// ---- order ----

/// Do two launches share memory that one of them writes?
static const kiln_program_arg *conflict(const kiln_program_launch *a, const kiln_program_launch *b)
{
    for (uint32_t i = 0; i < a->n_args; i++) {
        for (uint32_t k = 0; k < b->n_args; k++) {
            const kiln_program_arg *x = &a->args[i], *y = &b->args[k];
            bool memory = x->kind == KILN_ARG_TENSOR || x->kind == KILN_ARG_TEMP;
            if (memory && x->kind == y->kind && x->ref == y->ref &&
                ((x->access | y->access) & KILN_ACCESS_WRITE) != 0) {
                return y;
            }
        }
    }
    return NULL;
}

static void print_step(const dumper *d, uint32_t index)
{
    const kiln_program *p = d->b->program;
    const kiln_program_step *step = &p->steps[index];
    if (step->kind != KILN_STEP_LAUNCH) {
        printf("    step %u: operation %u, unfused\n", index,
               step->index < d->b->n_ops ? d->b->ops[step->index] : step->index);
        return;
    }
    printf("    step %u: launch %u", index, step->index);
    for (uint32_t i = 0; i < index; i++) {
        const kiln_program_arg *why =
            p->steps[i].kind == KILN_STEP_LAUNCH
                ? conflict(&p->launches[p->steps[i].index], &p->launches[step->index])
                : NULL;
        if (why != NULL) {
            printf(", after step %u (", i);
            if (why->kind == KILN_ARG_TEMP) {
                printf("temporary %u", why->ref);
            } else {
                print_tensor(d, why->ref);
            }
            printf(")");
        }
    }
    printf("\n");
}

static void print_temps(const dumper *d)
{
    for (uint32_t i = 0; i < d->b->program->n_temps; i++) {
        const kiln_program_temp *t = &d->b->program->temps[i];
        printf("  temporary %u: bytes ", i);
        print_formula(d, &t->bytes);
        printf(", aligned to %u", t->align);
        if ((t->flags & KILN_TEMP_PERSISTENT) != 0) {
            printf(", kept with the plan, filled once by launch %u", t->prepack_launch);
        }
        printf("\n");
    }
}

// ---- all of it ----

static void print_ops(const dumper *d)
{
    for (uint32_t i = 0; i < d->b->n_ops; i++) {
        printf("  [%u] %s\n", d->b->ops[i], d->e->ops[d->b->ops[i]].text);
    }
    printf("  extents:");
    for (uint32_t i = 0; i < d->b->n_symbols; i++) {
        printf(" s%u = %" PRId64, i, d->b->symbols[i]);
    }
    printf("\n");
}

static kiln_status dump_block(dumper *d, kiln_device *device, kiln_error *err)
{
    const kiln_program *p = d->b->program;
    char predicted[32], alone[32];
    printf("block %u: %u %s by %s, %s instead of %s predicted\n", d->index, d->b->n_ops,
           kiln_plural(d->b->n_ops, "operation", "operations and drops"), d->b->fuser,
           cli_format_ns(predicted, d->b->predicted_ns), cli_format_ns(alone, d->b->baseline_ns));
    print_ops(d);
    kiln_status status = kiln_program_parts(device, p, print_source, d, err);
    for (uint32_t i = 0; i < p->n_launches; i++) {
        print_launch(d, i);
    }
    print_temps(d);
    printf("  order\n");
    for (uint32_t i = 0; i < p->n_steps; i++) {
        print_step(d, i);
    }
    if (p->guard.count > 0) {
        printf("  only while ");
        print_formula(d, &p->guard);
        printf("\n");
    }
    if (d->failed && status == KILN_STATUS_OK) {
        status = kiln_fail(err, UNAVAILABLE, "%s cannot be written", d->file);
    }
    return status;
}

static void print_alone(const kiln_explanation *e)
{
    for (uint32_t i = 0; i < e->n_ops; i++) {
        if (e->ops[i].block == UINT32_MAX && e->ops[i].step != UINT32_MAX) {
            printf("unfused: [%u] %s\n", i, e->ops[i].text);
        }
    }
}

static kiln_status dump(const dump_options *options, plugin_job *job, kiln_error *err)
{
    kiln_graph *graph = NULL;
    kiln_explanation e = {0};
    kiln_status status = plugin_job_capture(job, &graph, err);
    if (status == KILN_STATUS_OK) {
        status = kiln_graph_explained(graph, &e, err);
    }
    if (status == KILN_STATUS_OK && options->binaries != NULL &&
        mkdir(options->binaries, 0777) != 0 && errno != EEXIST) {
        status =
            kiln_fail(err, NOT_FOUND, "%s cannot be made: %s", options->binaries, strerror(errno));
    }
    for (uint32_t i = 0; i < e.n_blocks && status == KILN_STATUS_OK; i++) {
        dumper d = {.options = options, .e = &e, .b = &e.blocks[i], .index = i};
        status = dump_block(&d, job->device, err);
    }
    if (status == KILN_STATUS_OK) {
        print_alone(&e);
    }
    kiln_graph_explained_fini(&e);
    kiln_graph_destroy(graph);
    return status;
}

static const struct argp_option dump_options_table[] = {
    {"binaries", KEY_BINARIES, "DIR", 0, "write the device's binary of each source into DIR", 0},
    {"no-source", NO_SOURCE, NULL, 0, "without the kernels' text", 0},
    {0},
};

static error_t parse_dump_option(int key, char *text, struct argp_state *state)
{
    dump_options *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->device;
        return 0;
    case KEY_BINARIES:
        options->binaries = text;
        return 0;
    case NO_SOURCE:
        options->no_source = true;
        return 0;
    default:
        return cli_parse_file(key, text, state, "which replayable FILE or model", &options->path);
    }
}

int plugin_dump(int argc, char **argv)
{
    static const struct argp_child children[] = {{&cli_device_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        dump_options_table,
        parse_dump_option,
        "FILE",
        "Shows what the fusers made of a replayable file or of a model (.onnx): sources with the "
        "compiler's options, launches with formulas and values, arguments, temporaries, order.",
        children,
        NULL,
        NULL};
    dump_options options = {.path = NULL};
    kiln_error err = KILN_ERROR_INIT;
    plugin_job job;
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    kiln_status status = plugin_job_open(&options.device, options.path, &job, &err);
    if (status == KILN_STATUS_OK) {
        status = cli_check_local(job.device, "plugin dump", &err);
    }
    status = status == KILN_STATUS_OK ? dump(&options, &job, &err) : status;
    plugin_job_close(&job);
    return status == KILN_STATUS_OK ? CLI_OK : cli_fail("plugin dump", &err);
}
