// SPDX-License-Identifier: MIT OR Apache-2.0
// Programs into neutral form: what a good one becomes, operations left to the host, packed weights,
// and thousands of damaged ones, each of which is refused or stays within the block.
#include <string.h>

#include "fuse_fixture.h"
#include "kf_util.h"

/* A program over relu(a + b) with the sum dropped, in plain arrays that a test can damage. */
typedef struct sample {
    fuse_fixture f;
    kilni_fuse_block_view view;
    kilni_fuse_asks asks;
    kiln_arena arena;
    int64_t values[8];
    kilni_fuse_translation input;
    kf_ins global[8];
    kf_ins bytes[4];
    kf_ins guard[4];
    kf_karg args[6];
    kf_source source;
    kf_launch launches[2];
    kf_temp temps[1];
    kf_step steps[3];
    kf_str defines[2];
    const kf_source *source_list[1];
    const kf_launch *launch_list[2];
    kf_program program;
    char code[64];
    char words[64];
} sample;

static void sample_program(sample *s)
{
    static const char text[] = "__kernel void k(void) {}";
    memcpy(s->code, text, sizeof(text));
    memcpy(s->words, "-cl-opt-disable -cl-nv-maxrregcount=32", 38);
    s->global[0] = (kf_ins){.op = KF_INS_SYM, .sym = 1};
    s->global[1] = (kf_ins){.op = KF_INS_IMM, .imm = 4};
    s->global[2] = (kf_ins){.op = KF_INS_CEIL_DIV};
    s->bytes[0] = (kf_ins){.op = KF_INS_IMM, .imm = 256};
    s->guard[0] = (kf_ins){.op = KF_INS_SYM, .sym = 1};
    s->guard[1] = (kf_ins){.op = KF_INS_IMM, .imm = 1 << 20};
    s->guard[2] = (kf_ins){.op = KF_INS_LE};
    s->args[0] = (kf_karg){.kind = KF_ARG_TENSOR, .access = KF_ACCESS_READ, .ref = 0};
    s->args[1] = (kf_karg){.kind = KF_ARG_TENSOR, .access = KF_ACCESS_READ, .ref = 1};
    s->args[2] = (kf_karg){.kind = KF_ARG_TENSOR, .access = KF_ACCESS_WRITE, .ref = 3};
    s->args[3] = (kf_karg){.kind = KF_ARG_DIM, .ref = 1, .dtype = KF_DTYPE_I32};
    s->args[4] = (kf_karg){.kind = KF_ARG_TEMP, .access = KF_ACCESS_READ, .ref = 0};
    s->args[5] = (kf_karg){.kind = KF_ARG_OFFSET, .ref = 0, .dtype = KF_DTYPE_I64};
    s->defines[0] = (kf_str)KF_STR_INIT("WIDTH=4");
    s->defines[1] = (kf_str)KF_STR_INIT("FAST");
    s->source = (kf_source){.struct_size = (uint32_t)sizeof(kf_source),
                            .format = KF_FORMAT_OPENCL_C,
                            .code = {s->code, sizeof(text) - 1},
                            .defines = s->defines,
                            .n_defines = 2,
                            .math_flags = KF_MATH_CONTRACT,
                            .cl_c_version = 120,
                            .options = {s->words, 38}};
    for (int i = 0; i < 2; i++) {
        s->launches[i] = (kf_launch){.struct_size = (uint32_t)sizeof(kf_launch),
                                     .dims = 1,
                                     .n_args = 6,
                                     .kernel = KF_STR_INIT("k"),
                                     .global = {{s->global, 3}},
                                     .args = s->args};
    }
    s->launches[1].args = &s->args[4];
    s->launches[1].n_args = 0;
    s->temps[0] = (kf_temp){.bytes = {s->bytes, 1}, .align = 64, .prepack = KF_NONE};
    s->steps[0] = (kf_step){KF_STEP_LAUNCH, 1};
    s->steps[1] = (kf_step){KF_STEP_LAUNCH, 0};
    s->source_list[0] = &s->source;
    s->launch_list[0] = &s->launches[0];
    s->launch_list[1] = &s->launches[1];
    s->program = (kf_program){.struct_size = (uint32_t)sizeof(kf_program),
                              .flags = KF_PROGRAM_DETERMINISTIC,
                              .sources = s->source_list,
                              .n_sources = 1,
                              .launches = s->launch_list,
                              .n_launches = 2,
                              .temps = s->temps,
                              .n_temps = 1,
                              .steps = s->steps,
                              .n_steps = 2,
                              .guard = {s->guard, 3}};
    // The other launch fills the temporary that the first reads.
    static kf_karg fill = {.kind = KF_ARG_TEMP, .access = KF_ACCESS_WRITE, .ref = 0};
    s->launches[1].args = &fill;
    s->launches[1].n_args = 1;
}

static bool sample_open(sample *s)
{
    memset(s, 0, sizeof(*s));
    if (!fixture_open(&s->f, NULL)) {
        return false;
    }
    kiln_tensor_desc a = fixture_vector(&s->f, 64);
    kiln_tensor_desc b = fixture_vector(&s->f, 64);
    kiln_tensor_desc c = fixture_op(&s->f, KILN_OP_ADD, &a, &b);
    (void)fixture_op(&s->f, KILN_OP_RELU, &c, NULL);
    fixture_drop(&s->f, &c);
    kilni_fuse_block_view_reset(&s->view, &s->f.stream->recorded[0]);
    for (uint32_t i = 0; i < 3; i++) {
        (void)kilni_fuse_block_view_extend(&s->view, i);
    }
    kiln_arena_init(&s->arena, &s->f.env);
    s->values[0] = 1;
    s->values[1] = 64;
    s->input = (kilni_fuse_translation){.view = &s->view,
                                        .len = 3,
                                        .device = &s->f.device,
                                        .facts = s->f.engine->facts,
                                        .values = s->values,
                                        .asks = &s->asks,
                                        .arena = &s->arena};
    sample_program(s);
    return true;
}

static void sample_close(sample *s)
{
    kiln_arena_fini(&s->arena);
    kilni_fuse_block_view_fini(&s->view, &s->f.env);
    fixture_close(&s->f);
}

static void check_status(sample *s, kiln_status status, const char *reason)
{
    kiln_program *program = NULL;
    kiln_error err = KILN_ERROR_INIT;
    KILN_CHECK_INT(kilni_fuse_translate(&s->input, &s->program, &program, &err), status);
    KILN_CHECK_INT(err.code, status);
    KILN_CHECK_CONTAINS(err.message, reason);
    KILN_CHECK(program == NULL);
    sample_program(s);
}

static void check_refused(sample *s, const char *reason)
{
    check_status(s, KILN_STATUS_INVALID_ARGUMENT, reason);
}

static void test_good_program(void)
{
    static sample s;
    kiln_program *p = NULL;
    kiln_error err = KILN_ERROR_INIT;
    if (sample_open(&s) && kilni_fuse_translate(&s.input, &s.program, &p, &err) == KILN_STATUS_OK) {
        KILN_CHECK_INT(p->flags, KILN_PROGRAM_DETERMINISTIC);
        KILN_CHECK_INT(p->n_launches, 2);
        KILN_CHECK_STR(p->sources[0].defines[0], "WIDTH=4");
        KILN_CHECK_INT(p->sources[0].math, KILN_MATH_CONTRACT);
        KILN_CHECK_STR(p->launches[0].kernel, "k");
        KILN_CHECK_INT(p->launches[0].args[5].kind, KILN_ARG_OFFSET);
        KILN_CHECK_INT(p->launches[0].args[5].dtype, KILN_DTYPE_I64);
        KILN_CHECK_INT(p->guard.count, 3);
        kiln_hash128 key = p->key;
        s.code[0] = ' '; // the copy does not change, the next program does
        KILN_CHECK(((const char *)p->sources[0].code)[0] == '_');
        KILN_CHECK_INT(kilni_fuse_translate(&s.input, &s.program, &p, &err), KILN_STATUS_OK);
        KILN_CHECK(p->key.low != key.low);
    } else {
        KILN_FAIL("%s", err.message);
    }
    sample_close(&s);
}

static void test_asked_extents_are_in_the_guard(void)
{
    static sample s;
    kiln_program *p = NULL;
    if (sample_open(&s)) {
        (void)kilni_fuse_asks_add(&s.asks, (kilni_fuse_ask){.ref = 1, .value = 64});
        KILN_CHECK_INT(kilni_fuse_translate(&s.input, &s.program, &p, NULL), KILN_STATUS_OK);
        int64_t holds = 0;
        int64_t other[2] = {1, 128};
        KILN_CHECK_INT(kiln_formula_eval(&p->guard, s.values, 2, NULL, 0, &holds, NULL), 0);
        KILN_CHECK_INT(holds, 1);
        KILN_CHECK_INT(kiln_formula_eval(&p->guard, other, 2, NULL, 0, &holds, NULL), 0);
        KILN_CHECK_INT(holds, 0);
    }
    sample_close(&s);
}

static void test_host_steps(void)
{
    static sample s;
    kiln_program *p = NULL;
    if (sample_open(&s)) {
        s.program.n_steps = 3;
        s.steps[0] = (kf_step){KF_STEP_HOST_OP, 0};
        s.steps[1] = (kf_step){KF_STEP_HOST_OP, 1};
        s.program.n_launches = 0;
        s.program.n_temps = 0;
        s.steps[2] = (kf_step){KF_STEP_HOST_OP, 2};
        check_refused(&s, "a step runs operation 2, which is a drop");
        s.program.n_launches = 0;
        s.program.n_temps = 0;
        s.program.n_steps = 1;
        s.steps[0] = (kf_step){KF_STEP_HOST_OP, 1};
        check_refused(&s, "a step runs operation 1 before its input 0 is written");
        s.program.n_launches = 0;
        s.program.n_temps = 0;
        s.steps[0] = (kf_step){KF_STEP_HOST_OP, 3};
        check_refused(&s, "step 0 has kind 2 and index 3");
        s.program.n_launches = 0;
        s.program.n_temps = 0;
        s.steps[0] = (kf_step){KF_STEP_HOST_OP, 0};
        s.steps[1] = (kf_step){KF_STEP_HOST_OP, 1};
        KILN_CHECK_INT(kilni_fuse_translate(&s.input, &s.program, &p, NULL), KILN_STATUS_OK);
    }
    sample_close(&s);
}

static void test_packed_weights(void)
{
    static sample s;
    kiln_program *p = NULL;
    if (sample_open(&s)) {
        s.temps[0].flags = KF_TEMP_PERSISTENT;
        s.temps[0].prepack = 1;
        s.program.n_steps = 1;
        s.steps[0] = (kf_step){KF_STEP_LAUNCH, 0};
        KILN_CHECK_INT(kilni_fuse_translate(&s.input, &s.program, &p, NULL), KILN_STATUS_OK);
        KILN_CHECK(p != NULL && p->temps[0].flags == KILN_TEMP_PERSISTENT);
        s.temps[0].prepack = 0; // reads what is no constant
        s.steps[0] = (kf_step){KF_STEP_LAUNCH, 1};
        check_refused(&s, "packs temporary 0 and touches more than constants");
    }
    sample_close(&s);
}

/* Another device takes more; more than the runtime passes on, no device. */
static void check_argument_limits(sample *s, const kf_karg *many, uint32_t count)
{
    kf_launch *launch = &s->launches[0];
    kf_device facts;
    kilni_fuse_device_facts(&s->f.device, &facts);
    KILN_CHECK_INT(facts.max_param_bytes, 1024); // it does not say
    s->f.device.max_parameter_bytes = 4352;
    kilni_fuse_device_facts(&s->f.device, &facts);
    KILN_CHECK_INT(facts.max_param_bytes, 4352);
    launch->args = many;
    launch->n_args = 545;
    check_refused(s, "launch 0: arguments of 4360 bytes, at most 4352");
    s->f.device.max_parameter_bytes = 1 << 20;
    launch->args = many;
    launch->n_args = count;
    check_refused(s, "program has 3073 arguments of one launch, at most 3072");
    s->f.device.max_parameter_bytes = 0;
}

static void test_limits(void)
{
    static sample s;
    if (sample_open(&s)) {
        s.launches[0].local[0] = (kf_expr){s.bytes, 1};
        check_refused(&s, "global size 16 is no multiple of local size 256");
        s.bytes[0].imm = 4096;
        s.launches[0].local[0] = (kf_expr){s.bytes, 1};
        check_refused(&s, "local size is 4096, not from 1 to 1024");
        s.f.device.max_work_items[0] = 64;
        s.bytes[0].imm = 4096;
        s.launches[0].local[0] = (kf_expr){s.bytes, 1};
        check_refused(&s, "local size is 4096, not from 1 to 64");
        s.f.device.max_work_items[0] = 0;
        s.args[5] = (kf_karg){.kind = KF_ARG_LOCAL, .value = {s.bytes, 1}};
        s.bytes[0].imm = 1 << 20;
        check_refused(&s, "local memory is 1048576, not from 1 to 32768");
        static kf_karg many[KILN_LAUNCH_ARGS_MAX + 1];
        for (size_t i = 0; i < sizeof(many) / sizeof(many[0]); i++) {
            many[i] = (kf_karg){.kind = KF_ARG_DIM, .ref = 1, .dtype = KF_DTYPE_I64};
        }
        s.launches[0].args = many;
        s.launches[0].n_args = 140;
        check_refused(&s, "launch 0: arguments of 1120 bytes, at most 1024");
        check_argument_limits(&s, many, sizeof(many) / sizeof(many[0]));
        s.values[1] = (int64_t)1 << 32;
        s.guard[1].imm = (int64_t)1 << 40;
        check_status(&s, KILN_STATUS_FAILED_PRECONDITION,
                     "argument 3 is 4294967296, which does not fit 32 bits");
        s.values[1] = 64;
        s.args[3].dtype = KF_DTYPE_F32;
        check_refused(&s, "argument 3: a number of f32; it takes i32 or i64");
        s.args[5] = (kf_karg){.kind = KF_ARG_STRIDE, .axis = 1, .dtype = KF_DTYPE_I32};
        check_refused(&s, "argument names axis 1 of tensor 0 of rank 1");
        s.launches[0].kernel = (kf_str){NULL, 3};
        check_refused(&s, "kernel name that is no name");
        s.defines[1] = (kf_str)KF_STR_INIT("A B");
        check_refused(&s, "define 1 is not NAME or NAME=VALUE");
        s.source.format = KF_FORMAT_BINARY;
        check_refused(&s, "source 0 is a binary for another device");
        s.source.format = KF_FORMAT_SPIRV;
        check_refused(&s, "source 0 is SPIR-V, which the device does not take");
        s.global[0].sym = 2;
        check_refused(&s, "formula names symbol 2 of 2");
        s.args[2].access = KF_ACCESS_READ_WRITE;
        check_refused(&s, "launch 0: reads tensor 3 before it is written");
    }
    sample_close(&s);
}

/* What the device is, and what its backend does not know, is what fusers are told. */
static void test_device_facts(void)
{
    static const uint64_t same[][2] = {
        {KILN_FEATURE_INT64_ATOMICS, KF_FEATURE_INT64_ATOMICS},
        {KILN_FEATURE_FLOAT_ATOMICS, KF_FEATURE_FLOAT_ATOMICS},
        {KILN_FEATURE_SUBGROUPS, KF_FEATURE_SUBGROUPS},
        {KILN_FEATURE_IMAGES, KF_FEATURE_IMAGES},
        {KILN_FEATURE_DENORMALS, KF_FEATURE_DENORMALS},
        {KILN_FEATURE_ROUNDED_DIVIDE_SQRT, KF_FEATURE_ROUNDED_DIVIDE_SQRT},
        {KILN_FEATURE_COMMAND_BUFFER, KF_FEATURE_COMMAND_BUFFER},
        {KILN_FEATURE_VNNI, KF_FEATURE_VNNI},
        {KILN_FEATURE_WGMMA, KF_FEATURE_WGMMA},
        {KILN_FEATURE_STRICT, KF_FEATURE_STRICT},
        {KILN_FEATURE_ROUND_TF32, KF_FEATURE_ROUND_TF32},
        {KILN_FEATURE_ROUND_BF16, KF_FEATURE_ROUND_BF16},
        {KILN_FEATURE_PREPARED, KF_FEATURE_PREPARED | KF_FEATURE_COMPILER},
    };
    kiln_device_info device = {.type = KILN_DEVICE_GPU, .cl_version = 300, .max_work_group = 1024};
    kf_device facts;
    kilni_fuse_device_facts(&device, &facts);
    KILN_CHECK_INT(facts.cl_c_version, 120);
    KILN_CHECK_INT(facts.max_group_dim[2], 1024);
    KILN_CHECK_INT(facts.dtype_accelerated, 0);
    KILN_CHECK_INT(facts.subgroup_size + facts.subgroup_sizes + facts.cache_line_bytes, 0);
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        device.features = (uint32_t)same[i][0];
        kilni_fuse_device_facts(&device, &facts);
        KILN_CHECK_INT(facts.features, same[i][1] | KF_FEATURE_LOCAL_MEMORY);
    }
    device =
        (kiln_device_info){.features = KILN_FEATURE_FP16,
                           .cl_version = 300,
                           .cl_c_version = 200,
                           .subgroup_size = 32,
                           .subgroup_sizes = 8 | 16 | 32,
                           .cache_line_bytes = 64,
                           .max_work_group = 512,
                           .max_work_items = {1024, 512, 64},
                           .flops_f32 = 4,
                           .flops_f16 = 8,
                           .flops_f64 = 2,
                           .accelerated_dtypes = 1ull << KILN_DTYPE_F16 | 1ull << KILN_DTYPE_F64};
    kilni_fuse_device_facts(&device, &facts);
    KILN_CHECK_INT(facts.cl_version, 300);
    KILN_CHECK_INT(facts.cl_c_version, 200);
    KILN_CHECK_INT(facts.max_group_dim[0], 512);
    KILN_CHECK_INT(facts.max_group_dim[1], 512);
    KILN_CHECK_INT(facts.max_group_dim[2], 64);
    KILN_CHECK_INT(facts.subgroup_size, 32);
    KILN_CHECK_INT(facts.subgroup_sizes, 8 | 16 | 32);
    KILN_CHECK_INT(facts.cache_line_bytes, 64);
    KILN_CHECK_INT(facts.flops_f16, 8);
    KILN_CHECK_INT(facts.flops_f64, 2);
    KILN_CHECK_INT(facts.dtype_accelerated, 1ull << KF_DTYPE_F16); // it has no f64
}

static void set_words(sample *s, const char *words)
{
    sample_program(s);
    s->source.options = (kf_str){words, strlen(words)};
}

/* Each of a vendor's; whatever reads files, changes arithmetic or has a field of its own is told.
 */
static void test_options_of_vendors(void)
{
    static const char *const taken[] = {"",
                                        "-cl-opt-disable",
                                        "-cl-nv-maxrregcount=32 -cl-nv-opt-level=2",
                                        "-cl-intel-256-GRF-per-thread",
                                        "-cl-qcom-accelerate-16-bit -cl-arm-non-uniform-work-group",
                                        "-O2 -mno-cumode -mwavefrontsize64"};
    static const struct {
        const char *words, *reason;
    } refused[] = {
        {"-cl-fast-relaxed-math", "'-cl-fast-relaxed-math': what arithmetic may do is in"},
        {"-cl-mad-enable", "what arithmetic may do is in `math_flags`"},
        {"-cl-opt-disable -DA=1", "'-DA=1': names are in `defines`"},
        {"-cl-std=CL2.0", "the version of OpenCL C is in `cl_c_version`"},
        {"-I/etc", "'-I/etc': it is none of a vendor's"},
        {"-include /etc/passwd", "'-include': it is none of a vendor's"},
        {"-save-temps", "it is none of a vendor's"},
        {"-cl-nv-", "it is none of a vendor's"},
        {"-cl-nv-x/../y", "it is none of a vendor's"},
        {"-cl-nv-a\"b", "it is none of a vendor's"},
        {"-O2x", "it is none of a vendor's"},
        {"-O2  -O1", "words are apart by one space"},
        {" -O2", "words are apart by one space"},
        {"-O2 ", "words are apart by one space"},
        {"-O2\n-I/etc", "source 0 has compiler options that are no text"},
    };
    static sample s;
    char many[1200];
    kiln_program *p = NULL;
    if (sample_open(&s)) {
        for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
            set_words(&s, taken[i]);
            KILN_CHECK_INT(kilni_fuse_translate(&s.input, &s.program, &p, NULL), KILN_STATUS_OK);
            const char *got = p->sources[0].vendor_options;
            KILN_CHECK_STR(got != NULL ? got : "", taken[i]);
        }
        for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
            set_words(&s, refused[i].words);
            check_refused(&s, refused[i].reason);
        }
        memset(many, 'a', sizeof(many));
        memcpy(many, "-cl-nv-", 7);
        many[sizeof(many) - 1] = '\0';
        set_words(&s, many);
        check_refused(&s, "compiler options of 1199 bytes, at most 1023");
        sample_program(&s);
        s.source.options = (kf_str){NULL, 4};
        check_refused(&s, "compiler options that are no text");
        sample_program(&s); // of 1.0: what lies behind it is not the source's
        s.source.struct_size = 88;
        s.source.options = (kf_str)KF_STR_INIT("-I/etc");
        KILN_CHECK_INT(kilni_fuse_translate(&s.input, &s.program, &p, NULL), KILN_STATUS_OK);
        KILN_CHECK(p->sources[0].vendor_options == NULL);
    }
    sample_close(&s);
}

/* Equal but for their options: programs with keys of their own. */
static void test_options_are_in_the_key(void)
{
    static sample s;
    kiln_program *plain = NULL, *other = NULL;
    if (sample_open(&s)) {
        set_words(&s, "");
        KILN_CHECK_INT(kilni_fuse_translate(&s.input, &s.program, &plain, NULL), KILN_STATUS_OK);
        set_words(&s, "-cl-opt-disable");
        KILN_CHECK_INT(kilni_fuse_translate(&s.input, &s.program, &other, NULL), KILN_STATUS_OK);
        KILN_CHECK(memcmp(&plain->key, &other->key, sizeof(plain->key)) != 0);
    }
    sample_close(&s);
}

static void damage(sample *s, uint64_t *random)
{
    struct {
        void *place;
        size_t bytes;
    } pieces[] = {
        {s->global, sizeof(s->global)},
        {s->bytes, sizeof(s->bytes)},
        {s->guard, sizeof(s->guard)},
        {s->steps, sizeof(s->steps)},
        {&s->temps[0].align, 12},
        {&s->args[0], 24},
        {&s->args[2], 24},
        {&s->args[3], 24},
        {&s->args[4], 24},
        {&s->launches[0].source, 8},
        {&s->source.math_flags, 8},
        {&s->source.format, 4},
        {&s->program.flags, 4},
        {&s->source.struct_size, 2},
        {s->code, 24},
        {s->words, 24},
    };
    for (int i = 0; i < 2; i++) {
        *random = *random * 6364136223846793005u + 1442695040888963407u;
        size_t piece = (*random >> 33) % (sizeof(pieces) / sizeof(pieces[0]));
        size_t at = (*random >> 40) % pieces[piece].bytes;
        unsigned char *byte = (unsigned char *)pieces[piece].place + at;
        *byte = (*random >> 60) < 8 ? (unsigned char)(*random >> 20 & 7)
                                    : (unsigned char)(*random >> 20);
    }
}

static void check_inside(const sample *s, const kiln_program *p)
{
    for (uint32_t i = 0; i < p->n_launches; i++) {
        KILN_CHECK(p->launches[i].source < p->n_sources);
        for (uint32_t k = 0; k < p->launches[i].n_args; k++) {
            const kiln_program_arg *arg = &p->launches[i].args[k];
            uint32_t limit = arg->kind == KILN_ARG_TENSOR   ? s->view.n_tensors
                             : arg->kind == KILN_ARG_TEMP   ? p->n_temps
                             : arg->kind == KILN_ARG_SCALAR ? 0
                                                            : 4;
            KILN_CHECK(arg->ref < limit || (arg->kind >= KILN_ARG_LOCAL && arg->ref == 0));
            bool writes = (arg->access & KILN_ACCESS_WRITE) != 0;
            KILN_CHECK(!writes || arg->kind == KILN_ARG_TEMP || arg->ref >= 2);
        }
    }
}

static void test_damaged_programs(void)
{
    static sample s;
    uint64_t random = 7;
    uint32_t refused = 0;
    if (sample_open(&s)) {
        for (int round = 0; round < 20000; round++) {
            kiln_program *p = NULL;
            kiln_arena_reset(&s.arena);
            sample_program(&s);
            damage(&s, &random);
            if (kilni_fuse_translate(&s.input, &s.program, &p, NULL) == KILN_STATUS_OK) {
                check_inside(&s, p);
            } else {
                refused++;
            }
        }
        KILN_CHECK(refused > 5000 && refused < 20000);
    }
    sample_close(&s);
}

KILN_TEST_MAIN("unit/fusion_host/translate", KILN_TEST(test_good_program),
               KILN_TEST(test_asked_extents_are_in_the_guard), KILN_TEST(test_host_steps),
               KILN_TEST(test_packed_weights), KILN_TEST(test_limits), KILN_TEST(test_device_facts),
               KILN_TEST(test_options_of_vendors), KILN_TEST(test_options_are_in_the_key),
               KILN_TEST(test_damaged_programs))
