// SPDX-License-Identifier: MIT OR Apache-2.0
// Plans on disk: what a search chose, under a key of everything that it depended on. An entry holds
// the blocks, their programs and what was said about them; tensors, order and deaths follow from
// the recorded operations, as after a search. What is read is checked like a fuser's answer: a
// damaged, foreign or unsuitable entry is a miss.
#include <math.h>
#include <string.h>

#include "fuse_plan.h"
#include "translate.h"

enum {
    FORMAT = 10, ///< of key and entry, and of what the search finds
    MAX_COUNT = 4096, ///< of anything in an entry
    MAX_TEXT = 1 << 20
};

static const uint64_t magic = 0x314e414c504e4c4bull; // "KLNPLAN1"

// ---- keys ----

static void add_device(kiln_string *s, const kiln_device_info *device)
{
    const uint64_t numbers[] = {
        device->fingerprint.low,    device->fingerprint.high,  (uint64_t)device->type,
        device->features,           device->compute_units,     device->vector_bytes,
        device->memory_align,       device->local_bytes,       device->cache_bytes,
        device->max_work_group,     device->max_alloc_bytes,   kilni_fuse_param_bytes(device),
        device->max_work_items[0],  device->max_work_items[1], device->max_work_items[2],
        device->accelerated_dtypes, device->cl_c_version,      device->subgroup_size,
        device->cache_line_bytes,   device->subgroup_sizes};
    kilni_fuse_write_text(s, device->name);
    kilni_fuse_write_text(s, device->platform);
    kilni_fuse_write_text(s, device->driver);
    kilni_fuse_write_text(s, device->extensions);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        kilni_fuse_write_number(s, numbers[i]);
    }
}

static void add_operators(kiln_string *s, uint32_t opset)
{
    kilni_fuse_write_number(s, opset);
    for (int op = 0; op < KILN_OP_COUNT; op++) {
        const kiln_op_info *info = kiln_op_info_of((kiln_op)op);
        kilni_fuse_write_text(s, info->name);
        kilni_fuse_write_number(s, (uint64_t)info->wire << 32 | info->since);
    }
}

bool kilni_fuse_disk_init(kiln_fuse_engine *engine)
{
    kiln_string s;
    kiln_string_init(&s, engine->env);
    kilni_fuse_write_number(&s, FORMAT);
    add_device(&s, &engine->device);
    add_operators(&s, engine->disk_opset);
    kilni_fuse_write_number(&s, engine->max_segment);
    kilni_fuse_write_number(&s, engine->deterministic);
    kilni_fuse_write_number(&s, engine->fuse_slower);
    for (uint32_t i = 0; i < engine->n_fusers; i++) {
        const kilni_fuse_plugin *plugin = engine->fusers[i].plugin;
        kilni_fuse_write_text(&s, plugin->info.id);
        kilni_fuse_write_text(&s, plugin->info.version);
        kilni_fuse_write_text(&s, plugin->info.hash);
        kilni_fuse_write_text(&s, engine->fusers[i].id);
    }
    engine->disk_key = kiln_hash_bytes(s.text, s.length);
    bool ok = !s.failed;
    kiln_string_fini(&s);
    return ok;
}

static uint32_t word_count(const kilni_fuse_recorded *recorded, uint32_t n_ops)
{
    return recorded->marks[n_ops - 1].words_end;
}

/// Who is out: what is chosen without them is not for those who have them. 0: nobody.
static uint64_t fusers_out(const kiln_fuse_engine *engine)
{
    uint64_t out = 0;
    for (uint32_t i = 0; i < engine->n_fusers; i++) {
        if (!kilni_fuse_fuser_enabled(&engine->fusers[i])) {
            out = kiln_hash64(&i, sizeof(i), out);
        }
    }
    return out;
}

static kiln_hash128 key_of(const kiln_fuse_engine *engine, const kilni_fuse_recorded *recorded,
                           uint32_t n_ops, bool full, uint64_t size_class)
{
    kiln_hash128 words =
        kiln_hash_bytes(recorded->words, word_count(recorded, n_ops) * sizeof(uint32_t));
    const uint64_t all[] = {
        engine->disk_key.low, engine->disk_key.high, words.low, words.high, n_ops, full,
        size_class,           fusers_out(engine)};
    return kiln_hash_bytes(all, sizeof(all));
}

// ---- writing ----

static void add_score(kiln_string *s, const kilni_fuse_score *score)
{
    kiln_string_append(s, (const char *)&score->baseline_ns, sizeof(score->baseline_ns));
    kiln_string_append(s, (const char *)&score->claimed_ns, sizeof(score->claimed_ns));
    kiln_string_append(s, (const char *)&score->floor_ns, sizeof(score->floor_ns));
    kilni_fuse_write_number(s, score->launches);
    kilni_fuse_write_number(s, score->len);
    kilni_fuse_write_number(s, score->n_ops);
}

static void write_block(kiln_string *s, const kiln_fuse_engine *engine,
                        const kilni_fuse_block *block)
{
    kilni_fuse_write_text(s, engine->fusers[block->fuser].name);
    kilni_fuse_write_number(s, block->len);
    for (uint32_t i = 0; i < block->len; i++) {
        kilni_fuse_write_number(s, block->ops[i]);
    }
    add_score(s, &block->score);
    kilni_fuse_write_number(s, block->n_rivals);
    bool among = false;
    for (uint32_t i = 0; i < block->n_rivals; i++) {
        const kilni_fuse_rival *rival = &block->rivals[i];
        among = among || rival->program == block->program;
        kilni_fuse_write_text(s, engine->fusers[rival->fuser].name);
        kilni_fuse_write_number(s, rival->program == block->program);
        kilni_fuse_write_number(s, rival->variant);
        kilni_fuse_write_number(s, rival->key.len);
        kiln_string_append(s, rival->key.ptr, rival->key.len);
        kiln_string_append(s, (const char *)&rival->claimed_ns, sizeof(rival->claimed_ns));
        kiln_string_append(s, (const char *)&rival->predicted_ns, sizeof(rival->predicted_ns));
        kilni_fuse_write_program(s, rival->program);
    }
    if (!among) {
        kilni_fuse_write_program(s, block->program);
    }
}

static void add_verdict(kiln_string *s, const kiln_fuse_engine *engine,
                        const kilni_fuse_verdict *verdict)
{
    kilni_fuse_write_number(s, verdict->first_op);
    kilni_fuse_write_text(s, engine->fusers[verdict->fuser].name);
    kilni_fuse_write_number(s, (uint64_t)verdict->ready | (uint64_t)verdict->won << 1);
    kiln_string_append(s, (const char *)&verdict->measured_ns, sizeof(verdict->measured_ns));
    add_score(s, &verdict->score);
    kilni_fuse_write_text(s, verdict->name);
    kilni_fuse_write_text(s, verdict->reason);
}

static void add_entry(kiln_string *s, const kiln_fuse_engine *engine,
                      const kilni_fuse_recorded *recorded, uint32_t n_ops,
                      const kilni_fuse_blocks *blocks)
{
    kilni_fuse_write_number(s, word_count(recorded, n_ops));
    kiln_string_append(s, (const char *)recorded->words,
                       word_count(recorded, n_ops) * sizeof(uint32_t));
    kilni_fuse_write_number(s, blocks->n_covered);
    kilni_fuse_write_number(s, blocks->n_guards);
    for (uint32_t i = 0; i < blocks->n_guards; i++) {
        kilni_fuse_write_number(s, blocks->guards[i].scalar);
        kilni_fuse_write_number(s, (uint64_t)blocks->guards[i].value.type);
        kilni_fuse_write_number(s, (uint64_t)blocks->guards[i].value.v.i);
    }
    kilni_fuse_write_number(s, blocks->n_blocks);
    for (uint32_t i = 0; i < blocks->n_blocks; i++) {
        write_block(s, engine, &blocks->blocks[i]);
    }
    kilni_fuse_write_number(s, blocks->n_verdicts);
    for (uint32_t i = 0; i < blocks->n_verdicts; i++) {
        add_verdict(s, engine, &blocks->verdicts[i]);
    }
}

bool kilni_fuse_disk_encode(const kiln_fuse_engine *engine, const kilni_fuse_recorded *recorded,
                            uint32_t n_ops, const kilni_fuse_blocks *blocks, kiln_string *out)
{
    const size_t head = sizeof(magic) + sizeof(kiln_hash128);
    kiln_string_init(out, engine->env);
    kilni_fuse_write_number(out, magic);
    kilni_fuse_write_number(out, 0); // the sum's place
    kilni_fuse_write_number(out, 0);
    add_entry(out, engine, recorded, n_ops, blocks);
    if (!out->failed) {
        kiln_hash128 sum = kiln_hash_bytes(out->text + head, out->length - head);
        memcpy(out->text + sizeof(magic), &sum, sizeof(sum));
    }
    return !out->failed;
}

void kilni_fuse_disk_put(kiln_fuse_engine *engine, const kilni_fuse_recorded *recorded,
                         uint32_t n_ops, bool full, uint64_t size_class,
                         const kilni_fuse_blocks *blocks)
{
    kiln_string s;
    kiln_error err = KILN_ERROR_INIT;
    bool doubtful = engine->device.speeds_doubtful && !engine->deterministic;
    if (engine->store == NULL || blocks->lacking || doubtful) {
        return; // a later process may choose better
    }
    if (kilni_fuse_disk_encode(engine, recorded, n_ops, blocks, &s) &&
        kiln_store_put(engine->store, KILN_STORE_PLANS,
                       key_of(engine, recorded, n_ops, full, size_class), s.text, s.length,
                       &err) != KILN_STATUS_OK) {
        kiln_log_write(engine->env, KILN_LOG_DEBUG, KILNI_FUSE_MODULE, "plan not stored: %s",
                       err.message);
    }
    kiln_string_fini(&s);
}

// ---- reading ----

typedef struct reader {
    const unsigned char *bytes;
    size_t left;
    bool bad; ///< what was read is not what was written; everything gives 0 from then on
    kiln_arena *arena;
} reader;

static const void *take(reader *r, size_t length)
{
    if (r->bad || length > r->left) {
        r->bad = true;
        return NULL;
    }
    const void *at = r->bytes;
    r->bytes += length;
    r->left -= length;
    return at;
}

static uint64_t number(reader *r)
{
    uint64_t value = 0;
    const void *at = take(r, sizeof(value));
    if (at != NULL) {
        memcpy(&value, at, sizeof(value));
    }
    return value;
}

/// A number below `limit`.
static uint32_t below(reader *r, uint64_t limit)
{
    uint64_t value = number(r);
    r->bad = r->bad || value >= limit;
    return r->bad ? 0 : (uint32_t)value;
}

static double real(reader *r)
{
    double value = 0;
    const void *at = take(r, sizeof(value));
    if (at != NULL) {
        memcpy(&value, at, sizeof(value));
    }
    r->bad = r->bad || isnan(value);
    return r->bad ? 0 : value;
}

/// Cleared memory for `count` items; NULL, and the reader bad, when there is none.
static void *room(reader *r, uint64_t count, size_t each)
{
    void *place = r->bad ? NULL : kiln_arena_alloc(r->arena, (size_t)(count + 1) * each);
    r->bad = r->bad || place == NULL;
    if (place != NULL) {
        memset(place, 0, (size_t)(count + 1) * each);
    }
    return place;
}

static const void *bytes_of(reader *r, size_t *out_length)
{
    *out_length = below(r, MAX_TEXT);
    const void *from = take(r, *out_length);
    char *copy = room(r, *out_length, 1);
    if (copy == NULL || from == NULL) {
        r->bad = true;
        return "";
    }
    memcpy(copy, from, *out_length);
    return copy;
}

static const char *text(reader *r)
{
    size_t length = 0;
    const char *copy = bytes_of(r, &length);
    r->bad = r->bad || strlen(copy) != length;
    return copy;
}

static kiln_formula formula(reader *r)
{
    uint32_t count = below(r, MAX_COUNT);
    kiln_formula_step *steps = room(r, count, sizeof(*steps));
    for (uint32_t i = 0; i < count && !r->bad; i++) {
        steps[i].code = (uint16_t)below(r, UINT16_MAX);
        steps[i].arg = (uint16_t)below(r, UINT16_MAX);
        steps[i].sym = below(r, UINT32_MAX);
        steps[i].imm = (int64_t)number(r);
    }
    return (kiln_formula){steps, r->bad ? 0 : count};
}

static void read_source(reader *r, kiln_program_source *source)
{
    source->format = (kiln_source_format)below(r, KILN_SOURCE_BINARY + 1);
    source->code = bytes_of(r, &source->length);
    source->n_defines = below(r, MAX_COUNT);
    const char **defines = room(r, source->n_defines, sizeof(const char *));
    for (uint32_t i = 0; i < source->n_defines && !r->bad; i++) {
        defines[i] = text(r);
    }
    source->defines = defines;
    source->cl_c_version = below(r, UINT32_MAX);
    source->math = below(r, UINT32_MAX);
    const char *options = text(r);
    source->vendor_options = options[0] != '\0' ? options : NULL;
    r->bad = r->bad || kilni_fuse_check_options(options, 0, NULL) != KILN_STATUS_OK;
    source->fingerprint.low = number(r);
    source->fingerprint.high = number(r);
}

static void read_arg(reader *r, kiln_program_arg *arg)
{
    arg->kind = (kiln_arg_kind)below(r, KILN_ARG_FORMULA + 1);
    arg->access = below(r, 4);
    arg->ref = below(r, MAX_COUNT);
    arg->axis = below(r, KILN_MAX_RANK);
    arg->group = below(r, UINT32_MAX + 1ull);
    arg->dtype = (kiln_dtype)below(r, KILN_DTYPE_LIMIT);
    arg->value = formula(r);
    bool memory = arg->kind == KILN_ARG_TENSOR || arg->kind == KILN_ARG_TEMP;
    bool computed = arg->kind == KILN_ARG_FORMULA || arg->kind == KILN_ARG_LOCAL;
    r->bad =
        r->bad || arg->kind == 0 || (arg->access != 0 && !memory) || (arg->ref != 0 && computed);
}

static void read_launch(reader *r, const kiln_program *program, kiln_program_launch *launch)
{
    launch->source = below(r, program->n_sources);
    launch->kernel = text(r);
    launch->n_dims = below(r, 4);
    for (uint32_t i = 0; i < 3; i++) {
        launch->global[i] = formula(r);
        launch->local[i] = formula(r);
    }
    launch->n_args = below(r, MAX_COUNT);
    kiln_program_arg *args = room(r, launch->n_args, sizeof(*args));
    for (uint32_t i = 0; i < launch->n_args && !r->bad; i++) {
        read_arg(r, &args[i]);
    }
    launch->args = args;
    r->bad = r->bad || launch->n_dims == 0;
}

static void read_temps(reader *r, kiln_program *program)
{
    program->n_temps = below(r, MAX_COUNT);
    kiln_program_temp *temps = room(r, program->n_temps, sizeof(*temps));
    for (uint32_t i = 0; i < program->n_temps && !r->bad; i++) {
        temps[i].bytes = formula(r);
        temps[i].align = below(r, UINT32_MAX);
        temps[i].flags = below(r, KILN_TEMP_PERSISTENT + 1);
        temps[i].prepack_launch = below(r, (uint64_t)program->n_launches + 1);
    }
    program->temps = temps;
}

static kiln_program *read_program(reader *r, uint32_t len)
{
    kiln_program *program = room(r, 1, sizeof(*program));
    if (program == NULL) {
        return NULL;
    }
    program->flags = below(r, 4);
    program->n_sources = below(r, MAX_COUNT);
    kiln_program_source *sources = room(r, program->n_sources, sizeof(*sources));
    for (uint32_t i = 0; i < program->n_sources && !r->bad; i++) {
        read_source(r, &sources[i]);
    }
    program->sources = sources;
    program->n_launches = below(r, MAX_COUNT);
    kiln_program_launch *launches = room(r, program->n_launches, sizeof(*launches));
    for (uint32_t i = 0; i < program->n_launches && !r->bad; i++) {
        read_launch(r, program, &launches[i]);
    }
    program->launches = launches;
    read_temps(r, program);
    program->n_steps = below(r, MAX_COUNT);
    kiln_program_step *steps = room(r, program->n_steps, sizeof(*steps));
    for (uint32_t i = 0; i < program->n_steps && !r->bad; i++) {
        steps[i].kind = (kiln_step_kind)below(r, KILN_STEP_HOST_OP + 1);
        steps[i].index = below(r, steps[i].kind == KILN_STEP_LAUNCH ? program->n_launches : len);
        r->bad = r->bad || steps[i].kind < KILN_STEP_LAUNCH;
    }
    program->steps = steps;
    program->guard = formula(r);
    return r->bad ? NULL : program;
}

static void read_score(reader *r, kilni_fuse_score *score)
{
    score->baseline_ns = real(r);
    score->claimed_ns = real(r);
    score->floor_ns = real(r);
    score->launches = below(r, UINT32_MAX);
    score->len = below(r, UINT32_MAX);
    score->n_ops = below(r, UINT32_MAX);
    kilni_fuse_score_close(score);
}

static uint32_t fuser_named(const kiln_fuse_engine *engine, reader *r)
{
    const char *name = text(r);
    for (uint32_t i = 0; i < engine->n_fusers; i++) {
        if (strcmp(engine->fusers[i].name, name) == 0) {
            return i;
        }
    }
    r->bad = true;
    return 0;
}

// ---- checking ----

static bool arg_is_sound(const kiln_program *program, const kilni_fuse_block_view *view,
                         const kiln_program_arg *arg)
{
    const kilni_fuse_block_mark *end = &view->marks[view->n_ops - 1];
    switch (arg->kind) {
    case KILN_ARG_TENSOR:
    case KILN_ARG_OFFSET:
    case KILN_ARG_STRIDE:
        return arg->ref < end->n_tensors &&
               view->recorded->infos[view->tensors[arg->ref]].has_dims &&
               (arg->kind != KILN_ARG_STRIDE ||
                arg->axis < view->recorded->tensors[view->tensors[arg->ref]].rank);
    case KILN_ARG_TEMP:
        return arg->ref < program->n_temps;
    case KILN_ARG_DIM:
        return arg->ref < end->n_symbols;
    case KILN_ARG_SCALAR:
        return arg->ref < end->n_scalars;
    default:
        return arg->value.count > 0;
    }
}

static bool args_are_sound(const kiln_program *program, const kilni_fuse_block_view *view)
{
    for (uint32_t i = 0; i < program->n_launches; i++) {
        for (uint32_t k = 0; k < program->launches[i].n_args; k++) {
            if (!arg_is_sound(program, view, &program->launches[i].args[k])) {
                return false;
            }
        }
    }
    for (uint32_t i = 0; i < program->n_temps; i++) {
        if ((program->temps[i].flags & KILN_TEMP_PERSISTENT) != 0 &&
            program->temps[i].prepack_launch >= program->n_launches) {
            return false;
        }
    }
    return true;
}

/// The program against the block at hand, as after a fuser's answer.
static bool program_is_sound(kiln_fuse_engine *engine, const kilni_fuse_block_view *view,
                             kiln_program *program, kiln_arena *arena)
{
    uint32_t n_symbols = view->marks[view->n_ops - 1].n_symbols;
    int64_t *values = kiln_arena_alloc(arena, n_symbols * sizeof(*values));
    const kilni_fuse_asks asks = {.count = 0};
    bool failed = false;
    if (values == NULL || !args_are_sound(program, view)) {
        return false;
    }
    for (uint32_t i = 0; i < n_symbols; i++) {
        values[i] = kilni_fuse_block_symbol_value(view, i);
    }
    const kilni_fuse_translation input = {.view = view,
                                          .len = view->n_ops,
                                          .device = &engine->device,
                                          .facts = engine->facts,
                                          .values = values,
                                          .asks = &asks,
                                          .arena = arena};
    if (kilni_fuse_program_check(&input, program, NULL) != KILN_STATUS_OK) {
        return false;
    }
    program->key = kilni_fuse_program_key(engine->env, program, &failed);
    return !failed && kilni_fuse_program_failure(engine, program->key) == NULL &&
           kilni_fuse_admits(engine, program, NULL);
}

static bool see_ops(reader *r, const kilni_fuse_recorded *recorded, uint32_t n_covered, bool *taken,
                    uint32_t len, kilni_fuse_block_view *view)
{
    uint32_t next = 0;
    kilni_fuse_block_view_reset(view, recorded);
    for (uint32_t i = 0; i < len && !r->bad; i++) {
        uint32_t op = below(r, n_covered);
        r->bad = r->bad || op < next || taken[op] || recorded->marks[op].empty_extent ||
                 !kilni_fuse_block_view_extend(view, op);
        if (!r->bad) {
            taken[op] = true;
            next = op + 1;
        }
    }
    return !r->bad && len > 0;
}

/// The programs that may run the block; the chosen one becomes its own.
static bool read_rivals(reader *r, kiln_fuse_engine *engine, const kilni_fuse_block_view *view,
                        kilni_fuse_block *block)
{
    uint32_t count = below(r, KILNI_FUSE_MAX_CONTENDERS + 1);
    block->rivals = room(r, count, sizeof(*block->rivals));
    for (uint32_t i = 0; i < count && !r->bad; i++) {
        kilni_fuse_rival *rival = &block->rivals[block->n_rivals];
        rival->fuser = fuser_named(engine, r);
        bool chosen = below(r, 2) != 0;
        rival->variant = below(r, UINT32_MAX);
        size_t key_bytes = 0;
        rival->key.ptr = bytes_of(r, &key_bytes);
        rival->key.len = r->bad ? 0 : key_bytes;
        rival->claimed_ns = real(r);
        rival->predicted_ns = real(r);
        rival->program = read_program(r, block->len);
        bool usable = !r->bad && kilni_fuse_fuser_enabled(&engine->fusers[rival->fuser]) &&
                      program_is_sound(engine, view, rival->program, r->arena);
        if (chosen && usable) {
            block->program = rival->program;
        }
        r->bad = r->bad || (chosen && !usable);
        block->n_rivals += usable;
    }
    return !r->bad;
}

static void read_block(reader *r, kiln_fuse_engine *engine, const kilni_fuse_recorded *recorded,
                       uint32_t n_covered, bool *taken, kilni_fuse_block *block)
{
    kilni_fuse_block_view view = {0};
    block->fuser = fuser_named(engine, r);
    block->len = below(r, (uint64_t)n_covered + 1);
    bool ok = see_ops(r, recorded, n_covered, taken, block->len, &view);
    read_score(r, &block->score);
    ok = ok && read_rivals(r, engine, &view, block);
    if (ok && block->program == NULL) {
        block->program = read_program(r, block->len);
        ok = block->program != NULL && kilni_fuse_fuser_enabled(&engine->fusers[block->fuser]) &&
             program_is_sound(engine, &view, block->program, r->arena);
    }
    if (ok) {
        block->ops = kiln_arena_copy(r->arena, view.ops, block->len * sizeof(uint32_t));
        block->n_tensors = view.n_tensors;
        block->tensors = kiln_arena_copy(r->arena, view.tensors, view.n_tensors * sizeof(uint32_t));
        block->n_symbols = view.n_symbols;
        block->symbols = kiln_arena_copy(r->arena, view.symbols, view.n_symbols * sizeof(uint32_t));
        block->n_scalars = view.n_scalars;
        block->scalars = kiln_arena_copy(r->arena, view.scalars, view.n_scalars * sizeof(uint32_t));
        ok = block->ops != NULL && block->tensors != NULL && block->symbols != NULL &&
             block->scalars != NULL;
    }
    r->bad = r->bad || !ok;
    kilni_fuse_block_view_fini(&view, engine->env);
}

static void read_guards(reader *r, const kilni_fuse_recorded *recorded, kilni_fuse_blocks *blocks,
                        uint32_t n_guards)
{
    uint32_t n_scalars = r->bad ? 0 : recorded->marks[blocks->n_covered - 1].n_scalars;
    for (uint32_t i = 0; i < n_guards && !r->bad; i++) {
        kilni_fuse_scalar_guard *guard = &blocks->guards[i];
        guard->scalar = below(r, n_scalars);
        guard->value.type = (kiln_attr_type)below(r, KILN_ATTR_TENSOR + 1);
        guard->value.count = 1;
        guard->value.v.i = (int64_t)number(r);
        const kiln_attr *now = r->bad ? NULL : &recorded->scalars[guard->scalar];
        r->bad = r->bad || now->type != guard->value.type || now->v.i != guard->value.v.i;
    }
    blocks->n_guards = r->bad ? 0 : n_guards;
}

static void read_verdict(reader *r, const kiln_fuse_engine *engine, kilni_fuse_verdict *verdict)
{
    verdict->first_op = below(r, UINT32_MAX);
    verdict->fuser = fuser_named(engine, r);
    uint32_t bits = below(r, 4);
    verdict->ready = (bits & 1) != 0;
    verdict->won = (bits & 2) != 0;
    verdict->measured_ns = real(r);
    read_score(r, &verdict->score);
    verdict->name = text(r);
    verdict->reason = text(r);
}

static bool grow_all(const kiln_env *env, kilni_fuse_blocks *b, uint32_t n_guards,
                     uint32_t n_blocks)
{
    return kilni_fuse_grow(env, &b->guards, &b->guards_capacity, (uint64_t)n_guards + 1,
                           sizeof(*b->guards)) &&
           kilni_fuse_grow(env, &b->blocks, &b->blocks_capacity, (uint64_t)n_blocks + 1,
                           sizeof(*b->blocks));
}

static void read_blocks(reader *r, kiln_fuse_engine *engine, const kilni_fuse_recorded *recorded,
                        kilni_fuse_blocks *blocks)
{
    uint32_t n_guards = below(r, MAX_COUNT);
    r->bad = r->bad || !grow_all(engine->env, blocks, n_guards, 0);
    read_guards(r, recorded, blocks, n_guards);
    uint32_t n_blocks = below(r, (uint64_t)blocks->n_covered + 1);
    bool *taken = room(r, blocks->n_covered, sizeof(*taken));
    r->bad = r->bad || !grow_all(engine->env, blocks, n_guards, n_blocks);
    for (uint32_t i = 0; i < n_blocks && !r->bad; i++) {
        blocks->blocks[i] = (kilni_fuse_block){0};
        read_block(r, engine, recorded, blocks->n_covered, taken, &blocks->blocks[i]);
        blocks->n_blocks = i + 1;
    }
    uint32_t n_verdicts = below(r, 1u << 20);
    r->bad = r->bad || !kilni_fuse_grow(engine->env, &blocks->verdicts, &blocks->verdicts_capacity,
                                        (uint64_t)n_verdicts + 1, sizeof(*blocks->verdicts));
    for (uint32_t i = 0; i < n_verdicts && !r->bad; i++) {
        blocks->verdicts[i] = (kilni_fuse_verdict){0};
        read_verdict(r, engine, &blocks->verdicts[i]);
        blocks->n_verdicts = i + 1;
    }
}

bool kilni_fuse_disk_decode(kiln_fuse_engine *engine, const kilni_fuse_recorded *recorded,
                            uint32_t n_ops, const void *bytes, size_t length, kiln_arena *arena,
                            kilni_fuse_blocks *out_blocks)
{
    reader r = {.bytes = bytes, .left = length, .arena = arena};
    bool ours = number(&r) == magic;
    kiln_hash128 sum = {0};
    const void *at = take(&r, sizeof(sum));
    if (at == NULL || !ours) {
        return false;
    }
    memcpy(&sum, at, sizeof(sum));
    kiln_hash128 found = kiln_hash_bytes(r.bytes, r.left);
    if (found.low != sum.low || found.high != sum.high) {
        return false;
    }
    uint32_t n_words = below(&r, UINT32_MAX);
    size_t word_bytes = (size_t)n_words * sizeof(uint32_t);
    const void *words = take(&r, word_bytes);
    if (words == NULL || n_words != word_count(recorded, n_ops) ||
        memcmp(words, recorded->words, word_bytes) != 0) {
        return false;
    }
    out_blocks->n_covered = below(&r, (uint64_t)n_ops + 1);
    r.bad = r.bad || out_blocks->n_covered == 0;
    if (!r.bad) {
        read_blocks(&r, engine, recorded, out_blocks);
    }
    return !r.bad && r.left == 0;
}

bool kilni_fuse_disk_get(kiln_fuse_engine *engine, const kilni_fuse_recorded *recorded,
                         uint32_t n_ops, bool full, uint64_t size_class, kiln_arena *arena,
                         kilni_fuse_blocks *out_blocks)
{
    kiln_blob blob = {0};
    if (engine->store == NULL || kiln_store_get(engine->store, KILN_STORE_PLANS,
                                                key_of(engine, recorded, n_ops, full, size_class),
                                                &blob, NULL) != KILN_STATUS_OK) {
        return false;
    }
    bool found =
        kilni_fuse_disk_decode(engine, recorded, n_ops, blob.data, blob.length, arena, out_blocks);
    kiln_free(engine->env, blob.data);
    if (!found) {
        kilni_fuse_blocks_fini(out_blocks, engine->env);
        kiln_arena_reset(arena);
    }
    return found;
}
