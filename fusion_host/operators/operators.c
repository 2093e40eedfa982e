// SPDX-License-Identifier: MIT OR Apache-2.0
// Operators that plugins bring: takes a plugin's table of them apart, checks every word of it, and
// keeps each as a kiln_custom_op whose rule and reference are the plugin's functions behind checks.
// One definition for name and version: a second plugin that brings the same is refused. Their
// kernels are operator_fuser.c's.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "host_services.h"
#include "kf_operators.h"
#include "plugin_operators.h"

enum { MAX_LIST = 256, MAX_DOC = 200, MAX_WORD = 63 };

typedef struct taking {
    kilni_fuse_plugin *plugin;
    const kiln_env *env;
    kiln_error *err;
} taking;

// ---- parameters ----

static char *keep_text(taking *t, kf_str text)
{
    char *copy = kiln_arena_alloc(&t->plugin->operator_memory, text.len + 1);
    if (copy != NULL && text.len > 0) {
        memcpy(copy, text.ptr, text.len);
    }
    return copy;
}

static bool is_word(kf_str text)
{
    bool ok = kilni_fuse_text_ok(text, MAX_WORD) && text.len > 0;
    for (uint64_t i = 0; ok && i < text.len; i++) {
        char c = text.ptr[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        ok = letter || (i > 0 && c >= '0' && c <= '9');
    }
    return ok;
}

static bool keep_list(taking *t, const kf_attr *from, kiln_attr *to)
{
    size_t size = from->type == KF_TYPE_I64S ? sizeof(int64_t) : sizeof(double);
    const void *values = from->type == KF_TYPE_I64S ? (const void *)from->v.iv : from->v.fv;
    if (from->count > MAX_LIST || (from->count > 0 && values == NULL)) {
        return false;
    }
    to->count = from->count;
    to->v.ints = NULL;
    if (from->count > 0) {
        void *copy = kiln_arena_copy(&t->plugin->operator_memory, values, from->count * size);
        if (from->type == KF_TYPE_I64S) {
            to->v.ints = copy;
        } else {
            to->v.floats = copy;
        }
        return copy != NULL;
    }
    return true;
}

/// The types have the same numbers on both sides.
static bool keep_value(taking *t, const kf_attr *from, kiln_attr *to)
{
    *to = (kiln_attr){.type = (kiln_attr_type)from->type, .count = 1};
    switch (from->type) {
    case KF_TYPE_F64:
        to->v.f = from->v.f;
        return true;
    case KF_TYPE_I64:
        to->v.i = from->v.i;
        return true;
    case KF_TYPE_BOOL:
        to->v.i = from->v.i;
        return from->v.i == 0 || from->v.i == 1;
    case KF_TYPE_DTYPE:
        to->v.i = from->v.i;
        return from->v.i > 0 && from->v.i < KILN_DTYPE_LIMIT &&
               kiln_dtype_name((kiln_dtype)from->v.i) != NULL;
    case KF_TYPE_I64S:
    case KF_TYPE_F64S:
        return keep_list(t, from, to);
    default: {
        kf_str text =
            from->v.b == NULL ? (kf_str){NULL, 0} : (kf_str){from->v.b->ptr, from->v.b->len};
        to->count = (uint32_t)text.len;
        to->v.text = kilni_fuse_text_ok(text, MAX_DOC) ? keep_text(t, text) : NULL;
        return to->v.text != NULL;
    }
    }
}

static kiln_status take_param(taking *t, const char *name, const kf_param *from,
                              kiln_custom_param *to)
{
    if (!is_word(from->name)) {
        return kiln_fail(t->err, INVALID_ARGUMENT, "operator %s: a parameter has no name", name);
    }
    to->name = keep_text(t, from->name);
    to->type = (kiln_attr_type)from->fallback.type;
    to->required = (from->flags & KF_PARAM_REQUIRED) != 0;
    if (to->name == NULL) {
        return kiln_fail(t->err, RESOURCE_EXHAUSTED, "no memory for an operator");
    }
    if (from->fallback.type < KF_TYPE_I64 || from->fallback.type > KF_TYPE_STRING) {
        return kiln_fail(t->err, INVALID_ARGUMENT, "operator %s: parameter %s has the type %u",
                         name, to->name, from->fallback.type);
    }
    if ((from->flags & ~KF_PARAM_REQUIRED) != 0 || from->reserved != 0 ||
        (!to->required && !keep_value(t, &from->fallback, &to->fallback))) {
        return kiln_fail(t->err, INVALID_ARGUMENT,
                         "operator %s: default or flags of parameter %s are malformed", name,
                         to->name);
    }
    return KILN_STATUS_OK;
}

static kiln_status take_params(taking *t, kilni_fuse_operator *op)
{
    const kf_operator *abi = &op->abi;
    kiln_custom_param *params =
        kiln_arena_alloc(&t->plugin->operator_memory, (KF_MAX_PARAMS + 1) * sizeof(*params));
    if (params == NULL) {
        return kiln_fail(t->err, RESOURCE_EXHAUSTED, "no memory for an operator");
    }
    op->def.params = params;
    for (uint32_t i = 0; i < abi->n_params; i++) {
        kiln_status status = take_param(t, op->def.name, &abi->params[i], &params[i]);
        for (uint32_t k = 0; k < i && status == KILN_STATUS_OK; k++) {
            if (strcmp(params[k].name, params[i].name) == 0) {
                status = kiln_fail(t->err, INVALID_ARGUMENT, "operator %s has parameter %s twice",
                                   op->def.name, params[i].name);
            }
        }
        if (status != KILN_STATUS_OK) {
            return status;
        }
        op->def.n_params = i + 1;
    }
    return KILN_STATUS_OK;
}

// ---- calls of the plugin ----

typedef struct abi_call { ///< a call as the plugin sees it
    kf_call call;
    kf_attr attrs[KILN_CUSTOM_MAX_PARAMS];
    kf_blob texts[KILN_CUSTOM_MAX_PARAMS];
    kilni_fuse_host host;
    kilni_fuse_diag diag;
} abi_call;

void kilni_fuse_operator_attrs(const kiln_custom_op *op, const kiln_attr *values, kf_attr *out,
                               kf_blob *texts)
{
    for (uint32_t i = 0; i < op->n_params; i++) {
        const kiln_attr *value = &values[i];
        out[i] = (kf_attr){.key = KF_PARAM_KEY(i),
                           .type = (uint32_t)value->type,
                           .count = value->type == KILN_ATTR_STRING ? 1 : value->count};
        switch (value->type) {
        case KILN_ATTR_F64:
            out[i].v.f = value->v.f;
            break;
        case KILN_ATTR_I64_LIST:
            out[i].v.iv = value->v.ints;
            break;
        case KILN_ATTR_F64_LIST:
            out[i].v.fv = value->v.floats;
            break;
        case KILN_ATTR_STRING:
            texts[i] = (kf_blob){value->v.text, value->count};
            out[i].v.b = &texts[i];
            break;
        default:
            out[i].v.i = value->v.i;
            break;
        }
    }
}

static void call_init(abi_call *c, const kilni_fuse_operator *op, const kiln_op_record *record,
                      const kiln_attr *values, kilni_fuse_call doing)
{
    c->diag = (kilni_fuse_diag){0};
    kilni_fuse_operator_attrs(&op->def, values, c->attrs, c->texts);
    kilni_fuse_host_init(&c->host, op->def.env, op->plugin->info.id);
    kilni_fuse_host_listen(&c->host, &c->diag);
    c->call = (kf_call){.struct_size = (uint32_t)sizeof(kf_call),
                        .n_inputs = record->n_inputs,
                        .n_outputs = record->n_outputs,
                        .n_attrs = op->def.n_params,
                        .attrs = c->attrs,
                        .host = &c->host.abi};
    kilni_fuse_crash_record_mark(op->plugin, op->plugin->operator_slot, doing);
}

/// The end of a call, and its answer as a status of ours.
static kiln_status call_fini(abi_call *c, const kilni_fuse_operator *op, kf_status answer,
                             kiln_error *err)
{
    const char *why = c->diag.text[0] != 0 ? c->diag.text : "no reason is given";
    kilni_fuse_crash_record_mark(op->plugin, op->plugin->operator_slot, KILNI_FUSE_CALL_NONE);
    kilni_fuse_host_fini(&c->host);
    switch (answer) {
    case KF_OK:
        return KILN_STATUS_OK;
    case KF_DECLINED:
    case KF_E_UNSUPPORTED:
        return kiln_fail(err, INVALID_ARGUMENT, "%s: %s", op->def.name, why);
    case KF_E_NOMEM:
        return kiln_fail(err, RESOURCE_EXHAUSTED, "%s: no memory", op->def.name);
    default:
        return kiln_fail(err, INTERNAL, "%s failed (%d): %s", op->def.name, answer, why);
    }
}

static kf_shape shape_of(const kiln_tensor_desc *desc)
{
    kf_shape shape = {
        .struct_size = (uint32_t)sizeof(shape), .dtype = (uint32_t)desc->dtype, .rank = desc->rank};
    memcpy(shape.dims, desc->dims, desc->rank * sizeof(shape.dims[0]));
    return shape;
}

static kiln_status take_shape(const kilni_fuse_operator *op, uint32_t index, const kf_shape *from,
                              kiln_tensor_desc *to, kiln_error *err)
{
    if (from->struct_size != sizeof(*from) || from->reserved != 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: output %u is of a newer form", op->def.name,
                         index);
    }
    if (from->rank > KILN_MAX_RANK) {
        return kiln_fail(err, INVALID_ARGUMENT, "%s: output %u has rank %u, the limit is %d",
                         op->def.name, index, from->rank, KILN_MAX_RANK);
    }
    to->dtype = from->dtype < KILN_DTYPE_LIMIT ? (kiln_dtype)from->dtype : KILN_DTYPE_NONE;
    to->rank = (uint8_t)from->rank;
    memcpy(to->dims, from->dims, from->rank * sizeof(to->dims[0]));
    return KILN_STATUS_OK;
}

static kiln_status infer(const kiln_custom_op *self, const kiln_op_record *record,
                         const kiln_attr *values, kiln_tensor_desc *outputs, kiln_error *err)
{
    const kilni_fuse_operator *op = (const kilni_fuse_operator *)self;
    kf_shape shapes[KILN_MAX_INPUTS + KILN_MAX_OUTPUTS] = {{0}};
    const kf_shape *inputs[KILN_MAX_INPUTS] = {NULL};
    kf_shape *results[KILN_MAX_OUTPUTS] = {NULL};
    abi_call c;
    for (uint32_t i = 0; i < record->n_inputs; i++) {
        shapes[i] = shape_of(&record->inputs[i]);
        inputs[i] = &shapes[i];
    }
    for (uint32_t i = 0; i < record->n_outputs; i++) {
        results[i] = &shapes[record->n_inputs + i];
        *results[i] = (kf_shape){.struct_size = (uint32_t)sizeof(kf_shape)};
    }
    call_init(&c, op, record, values, KILNI_FUSE_CALL_INFER);
    kf_status answer = op->abi.infer(&c.call, inputs, results);
    kiln_status status = call_fini(&c, op, answer, err);
    for (uint32_t i = 0; i < record->n_outputs && status == KILN_STATUS_OK; i++) {
        status = take_shape(op, i, results[i], &outputs[i], err);
    }
    return status;
}

static kf_memory memory_of(const kiln_view *view, void *data)
{
    kf_memory memory = {.struct_size = (uint32_t)sizeof(memory),
                        .dtype = (uint32_t)view->dtype,
                        .rank = view->rank,
                        .data = data};
    memcpy(memory.dims, view->dims, view->rank * sizeof(memory.dims[0]));
    memcpy(memory.strides, view->strides, view->rank * sizeof(memory.strides[0]));
    return memory;
}

static kiln_status reference(const kiln_custom_op *self, const kiln_op_record *record,
                             const kiln_attr *values, const kiln_view *inputs,
                             const kiln_view *outputs, void *const *memory, kiln_error *err)
{
    const kilni_fuse_operator *op = (const kilni_fuse_operator *)self;
    kf_memory all[KILN_MAX_INPUTS + KILN_MAX_OUTPUTS] = {{0}};
    const kf_memory *places[KILN_MAX_INPUTS + KILN_MAX_OUTPUTS] = {NULL};
    abi_call c;
    for (uint32_t i = 0; i < (uint32_t)record->n_inputs + record->n_outputs; i++) {
        bool input = i < record->n_inputs;
        all[i] = memory_of(input ? &inputs[i] : &outputs[i - record->n_inputs], memory[i]);
        places[i] = &all[i];
    }
    call_init(&c, op, record, values, KILNI_FUSE_CALL_REFERENCE);
    kf_status answer = op->abi.reference(&c.call, places, places + record->n_inputs);
    return call_fini(&c, op, answer, err);
}

// ---- one operator ----

static const char *fault_of(const kf_operator *abi)
{
    if (abi->version == 0) {
        return "has no version";
    }
    if (abi->min_inputs < 1 || abi->min_inputs > abi->max_inputs ||
        abi->max_inputs > KF_MAX_OPERATOR_INPUTS) {
        return "takes a number of inputs that there is not";
    }
    if (abi->n_outputs < 1 || abi->n_outputs > KF_MAX_OPERATOR_OUTPUTS) {
        return "gives a number of outputs that there is not";
    }
    if (abi->n_params > KF_MAX_PARAMS || (abi->n_params > 0 && abi->params == NULL)) {
        return "has too many parameters";
    }
    if (abi->infer == NULL || abi->reference == NULL) {
        return "lacks infer or reference";
    }
    bool kernel = abi->kernel_create != NULL;
    if ((abi->kernel_describe != NULL) != kernel || (abi->kernel_destroy != NULL) != kernel) {
        return "has a part of the kernel's functions";
    }
    return abi->flags != 0 ? "has an unknown flag" : NULL;
}

static kiln_status check_name(taking *t, const kf_operator *abi, char *name)
{
    kiln_tensor_desc none = {.dtype = KILN_DTYPE_BOOL};
    kiln_tensor_desc out = {0};
    kiln_attr attrs[3] = {{KILN_ATTR_STRING, (uint32_t)abi->name.len, {.text = name}},
                          {KILN_ATTR_I64, 1, {.i = abi->version}},
                          {KILN_ATTR_STRING, 0, {.text = ""}}};
    const kiln_op_record record = {.op = KILN_OP_CUSTOM,
                                   .n_inputs = 1,
                                   .n_outputs = 1,
                                   .n_attrs = 3,
                                   .inputs = &none,
                                   .outputs = &none,
                                   .attrs = attrs};
    return kiln_ir_infer(&record, &out, t->err); // the rule for names is the table's
}

static const kilni_fuse_operator *find(const kiln_fuse_registry *registry, const char *name,
                                       uint32_t version, bool exact)
{
    const kilni_fuse_operator *best = NULL;
    for (uint32_t i = 0; i < registry->n_plugins; i++) {
        const kilni_fuse_plugin *plugin = registry->plugins[i];
        for (uint32_t k = 0; plugin->info.state == KILN_FUSE_TAKEN && k < plugin->n_operators;
             k++) {
            const kilni_fuse_operator *op = &plugin->operators[k];
            bool fits =
                exact ? op->def.version == version : version == 0 || op->def.version <= version;
            if (fits && strcmp(op->def.name, name) == 0 &&
                (best == NULL || op->def.version > best->def.version)) {
                best = op;
            }
        }
    }
    return best;
}

static kiln_status check_new(taking *t, const kiln_fuse_registry *registry,
                             const kilni_fuse_operator *op)
{
    const kilni_fuse_operator *other = find(registry, op->def.name, op->def.version, true);
    for (uint32_t i = 0; i < t->plugin->n_operators && other == NULL; i++) {
        const kilni_fuse_operator *own = &t->plugin->operators[i];
        other = own->def.version == op->def.version && strcmp(own->def.name, op->def.name) == 0
                    ? own
                    : NULL;
    }
    return other == NULL
               ? KILN_STATUS_OK
               : kiln_fail(t->err, ALREADY_EXISTS, "operator %s, version %u, is brought by %.120s",
                           op->def.name, op->def.version, other->plugin->info.path);
}

static kiln_status take_gradient(taking *t, kilni_fuse_operator *op)
{
    kf_str text = op->abi.gradient;
    if (text.len == 0) {
        return KILN_STATUS_OK;
    }
    op->def.gradient = kilni_fuse_text_ok(text, KILN_CUSTOM_MAX_NAME) ? keep_text(t, text) : NULL;
    return op->def.gradient != NULL
               ? KILN_STATUS_OK
               : kiln_fail(t->err, INVALID_ARGUMENT, "operator %s: its gradient has no sound name",
                           op->def.name);
}

static bool same_params(const kiln_custom_op *a, const kiln_custom_op *b)
{
    bool same = a->n_params == b->n_params;
    for (uint32_t i = 0; same && i < a->n_params; i++) {
        same = strcmp(a->params[i].name, b->params[i].name) == 0 &&
               a->params[i].type == b->params[i].type;
    }
    return same;
}

/// An operator's gradient is one of the plugin's own that takes what it would be given.
static kiln_status check_gradient(const taking *t, const kiln_custom_op *op)
{
    const kiln_custom_op *found = NULL;
    for (uint32_t i = 0; op->gradient != NULL && i < t->plugin->n_operators; i++) {
        const kiln_custom_op *other = &t->plugin->operators[i].def;
        bool is = other->version == op->version && strcmp(other->name, op->gradient) == 0;
        found = is ? other : found;
    }
    if (op->gradient != NULL && found == NULL) {
        return kiln_fail(t->err, INVALID_ARGUMENT,
                         "operator %s: its gradient %.80s, version %u, is none of the plugin's",
                         op->name, op->gradient, op->version);
    }
    if (found != NULL &&
        (!same_params(op, found) || found->min_inputs > op->max_inputs + 2 * op->n_outputs)) {
        return kiln_fail(t->err, INVALID_ARGUMENT,
                         "operator %s: its gradient %s has other parameters, or takes more inputs "
                         "than it would get",
                         op->name, op->gradient);
    }
    return KILN_STATUS_OK;
}

static kiln_status take_operator(taking *t, const kiln_fuse_registry *registry,
                                 const kf_operator *from)
{
    kilni_fuse_operator *op = &t->plugin->operators[t->plugin->n_operators];
    if (from == NULL || from->struct_size < KF_OPERATOR_SIZE_V1 || from->struct_size > 4096) {
        return kiln_fail(t->err, INVALID_ARGUMENT, "operator %u has a struct size of %u",
                         t->plugin->n_operators, from == NULL ? 0 : from->struct_size);
    }
    memset(op, 0, sizeof(*op));
    memcpy(&op->abi, from,
           from->struct_size < sizeof(op->abi) ? from->struct_size : sizeof(op->abi));
    op->plugin = t->plugin;
    if (!kilni_fuse_text_ok(from->name, KILN_CUSTOM_MAX_NAME) ||
        !kilni_fuse_text_ok(from->doc, MAX_DOC)) {
        return kiln_fail(t->err, INVALID_ARGUMENT, "operator %u: name or doc is not UTF-8 text",
                         t->plugin->n_operators);
    }
    char *name = keep_text(t, from->name);
    if (name == NULL) {
        return kiln_fail(t->err, RESOURCE_EXHAUSTED, "no memory for an operator");
    }
    const char *fault = fault_of(&op->abi);
    if (fault != NULL) {
        return kiln_fail(t->err, INVALID_ARGUMENT, "operator %s %s", name, fault);
    }
    op->def = (kiln_custom_op){.env = t->env,
                               .name = name,
                               .version = from->version,
                               .min_inputs = from->min_inputs,
                               .max_inputs = from->max_inputs,
                               .n_outputs = from->n_outputs,
                               .infer = infer,
                               .reference = reference};
    kiln_status status = check_name(t, from, name);
    if (status == KILN_STATUS_OK) {
        status = check_new(t, registry, op);
    }
    if (status == KILN_STATUS_OK) {
        status = take_params(t, op);
    }
    if (status == KILN_STATUS_OK) {
        status = take_gradient(t, op);
    }
    t->plugin->n_operators += status == KILN_STATUS_OK;
    return status;
}

kiln_status kilni_fuse_operators_take(const kiln_fuse_registry *registry, kilni_fuse_plugin *plugin,
                                      kiln_error *err)
{
    taking t = {.plugin = plugin, .env = registry->env, .err = err};
    const kf_operators *list =
        plugin->table.extension != NULL ? plugin->table.extension(KF_EXT_OPERATORS) : NULL;
    kiln_arena_init(&plugin->operator_memory, registry->env);
    plugin->operator_slot = kilni_fuse_crash_record_slot(plugin->crash_record);
    if (list == NULL) {
        return KILN_STATUS_OK;
    }
    if (list->struct_size < sizeof(*list) || list->n_operators == 0 ||
        list->n_operators > KF_MAX_OPERATORS || list->operators == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "its list of operators is malformed");
    }
    plugin->operators =
        kiln_alloc_array(registry->env, list->n_operators, sizeof(*plugin->operators));
    if (plugin->operators == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for operators");
    }
    for (uint64_t i = 0; i < list->n_operators; i++) {
        kiln_status status = take_operator(&t, registry, list->operators[i]);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    for (uint32_t i = 0; i < plugin->n_operators; i++) {
        kiln_status status = check_gradient(&t, &plugin->operators[i].def);
        if (status != KILN_STATUS_OK) {
            return status;
        }
    }
    return kilni_fuse_operator_fuser(registry->env, plugin, err);
}

void kilni_fuse_operators_drop(const kiln_env *env, kilni_fuse_plugin *plugin)
{
    kilni_fuse_operator_fuser_drop(env, plugin);
    if (plugin->operator_memory.env != NULL) {
        kiln_arena_fini(&plugin->operator_memory);
    }
    kiln_free(env, plugin->operators);
}

// ---- looking up ----

kiln_status kiln_fuse_registry_operator(const kiln_fuse_registry *registry, const char *name,
                                        uint32_t version, bool exact, const kiln_custom_op **out_op,
                                        kiln_error *err)
{
    const kilni_fuse_operator *op = find(registry, name, version, exact);
    *out_op = op != NULL ? &op->def : NULL;
    if (op != NULL) {
        return KILN_STATUS_OK;
    }
    const kilni_fuse_operator *other = find(registry, name, 0, false);
    if (other != NULL) {
        return kiln_fail(err, NOT_FOUND,
                         "operator %.80s: version %u is not there, %.80s brings version %u", name,
                         version, other->plugin->info.id, other->def.version);
    }
    return kiln_fail(err, NOT_FOUND,
                     "no plugin brings operator %.80s: put one on the plugin path "
                     "(KILN_PLUGIN_PATH) or load it with --plugin; kiln plugin list --why",
                     name);
}

const kiln_custom_op *kiln_fuse_registry_operator_at(const kiln_fuse_registry *registry,
                                                     size_t index)
{
    for (size_t i = 0; i < registry->n_plugins; i++) {
        const kilni_fuse_plugin *plugin = registry->plugins[i];
        if (plugin->info.state == KILN_FUSE_TAKEN && index < plugin->n_operators) {
            return &plugin->operators[index].def;
        }
        index -= plugin->info.state == KILN_FUSE_TAKEN ? plugin->n_operators : 0;
    }
    return NULL;
}
