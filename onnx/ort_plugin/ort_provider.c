// SPDX-License-Identifier: MIT OR Apache-2.0
// The library as ONNX Runtime loads it: a factory that offers Kiln's devices, and a provider for
// each session. Decides that a device that ONNX Runtime does not know is offered beside the
// processor, and that the option `device` chooses another.
#include "ort_room.h"

#include <string.h>

typedef struct factory {
    ort_factory table; ///< first: ONNX Runtime has its address
    ort_calls calls;
    kiln_context *context;
    const ort_logger *logger; ///< of ONNX Runtime's environment
    char name[64]; ///< under which the library was registered
} factory;

typedef struct provider {
    ort_provider table; ///< first
    factory *made_by;
    kiln_device *device;
} provider;

KILN_API ort_status *CreateEpFactories(const char *name, const ort_base *base,
                                       const ort_logger *logger, ort_factory **factories,
                                       size_t room, size_t *out_count);
KILN_API ort_status *ReleaseEpFactory(ort_factory *factory);

// ---- providers ----

static const char *provider_name(const ort_provider *self)
{
    return ((const provider *)self)->made_by->name;
}

static ort_status *provider_capability(ort_provider *self, const ort_graph *graph,
                                       ort_support *support)
{
    provider *own = (provider *)self;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status =
        kilni_ort_capability(&own->made_by->calls, own->device, graph, support, &err);
    return kilni_ort_give(&own->made_by->calls, status, &err);
}

static void provider_release(ort_provider *self, ort_compute **computes, size_t count)
{
    (void)self;
    for (size_t i = 0; i < count; i++) {
        kilni_ort_program_destroy(computes[i]);
        computes[i] = NULL;
    }
}

static ort_status *provider_compile(ort_provider *self, const ort_graph **graphs,
                                    const ort_node **fused, size_t count,
                                    ort_compute **out_computes, ort_node **out_context_nodes)
{
    provider *own = (provider *)self;
    const ort_calls *calls = &own->made_by->calls;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    (void)out_context_nodes;
    for (size_t i = 0; status == KILN_STATUS_OK && i < count; i++) {
        status = kilni_ort_program_create(calls, own->device, graphs[i], fused[i], &out_computes[i],
                                          &err);
        if (status != KILN_STATUS_OK) {
            provider_release(self, out_computes, i);
        }
    }
    return kilni_ort_give(calls, status, &err);
}

/// The session's option `device` of this provider, or NULL.
static const char *chosen_device(const factory *f, const ort_session_options *options, char *text,
                                 size_t room)
{
    char key[96] = "ep.";
    size_t length = strlen(key);
    for (const char *at = f->name; *at != '\0'; at++) { // ONNX Runtime writes it in lower case
        key[length++] = (char)(*at >= 'A' && *at <= 'Z' ? *at - 'A' + 'a' : *at);
    }
    memcpy(key + length, ".device", sizeof(".device"));
    int known = 0;
    if (kilni_ort_take(&f->calls, f->calls.options_has(options, key, &known), NULL) !=
            KILN_STATUS_OK ||
        known == 0 ||
        kilni_ort_take(&f->calls, f->calls.options_entry(options, key, text, &room), NULL) !=
            KILN_STATUS_OK) {
        return NULL;
    }
    return text;
}

static ort_status *factory_create(ort_factory *self, const ort_hardware *const *hardware,
                                  const ort_pairs *const *facts, size_t count,
                                  const ort_session_options *options, const ort_logger *logger,
                                  ort_provider **out_provider)
{
    factory *f = (factory *)self;
    kiln_error err = KILN_ERROR_INIT;
    char address[128];
    kiln_device *device = NULL;
    (void)hardware;
    (void)facts;
    (void)count;
    (void)logger;
    kiln_status status = kiln_device_open(
        f->context, chosen_device(f, options, address, sizeof(address)), &device, &err);
    if (status != KILN_STATUS_OK) {
        return kilni_ort_give(&f->calls, status, &err);
    }
    provider *made = kiln_alloc(kiln_context_env(f->context), sizeof(*made));
    if (made == NULL) {
        kiln_device_release(device);
        return f->calls.status_create(KILNI_ORT_FAIL, "no memory for a provider");
    }
    made->table = (ort_provider){.version = KILNI_ORT_VERSION,
                                 .name = provider_name,
                                 .capability = provider_capability,
                                 .compile = provider_compile,
                                 .release_computes = provider_release};
    made->made_by = f;
    made->device = device;
    *out_provider = &made->table;
    return NULL;
}

static void factory_release(ort_factory *self, ort_provider *table)
{
    provider *made = (provider *)table;
    if (made != NULL) {
        kiln_device_release(made->device);
        kiln_free(kiln_context_env(((factory *)self)->context), made);
    }
}

// ---- the factory ----

static const char *factory_name(const ort_factory *self)
{
    return ((const factory *)self)->name;
}

static const char *factory_vendor(const ort_factory *self)
{
    (void)self;
    return "Kiln";
}

static uint32_t factory_vendor_id(const ort_factory *self)
{
    (void)self;
    return 0;
}

static const char *factory_version(const ort_factory *self)
{
    (void)self;
    return kiln_version();
}

static ort_status *factory_transfer(ort_factory *self, void **out_transfer)
{
    (void)self;
    *out_transfer = NULL; // tensors are in host memory
    return NULL;
}

static bool factory_is_stream_aware(const ort_factory *self)
{
    (void)self;
    return false;
}

/// What ONNX Runtime has that is most like the device: a GPU for a GPU, or the processor.
static const ort_hardware *match(const factory *f, const ort_hardware *const *hardware,
                                 size_t count, bool gpu)
{
    const ort_hardware *found = NULL;
    for (size_t i = 0; i < count; i++) {
        int type = f->calls.hardware_type(hardware[i]);
        if (gpu && type == KILNI_ORT_HARDWARE_GPU) {
            return hardware[i];
        }
        if (type == KILNI_ORT_HARDWARE_CPU && found == NULL) {
            found = hardware[i];
        }
    }
    return found;
}

static kiln_status offer(factory *f, const char *address, const char *line,
                         const ort_hardware *hardware, ort_device **out_device, kiln_error *err)
{
    ort_pairs *facts = NULL, *options = NULL;
    f->calls.pairs_create(&facts);
    f->calls.pairs_create(&options);
    f->calls.pairs_add(facts, "device", address);
    f->calls.pairs_add(facts, "description", line);
    f->calls.pairs_add(options, "device", address);
    kiln_status status = kilni_ort_take(
        &f->calls, f->calls.device_create(&f->table, hardware, facts, options, out_device), err);
    f->calls.pairs_release(options);
    f->calls.pairs_release(facts);
    return status;
}

static ort_status *factory_devices(ort_factory *self, const ort_hardware *const *hardware,
                                   size_t n_hardware, ort_device **out_devices, size_t room,
                                   size_t *out_count)
{
    factory *f = (factory *)self;
    kiln_error err = KILN_ERROR_INIT;
    char address[64], line[192];
    kiln_status status = KILN_STATUS_OK;
    *out_count = 0;
    for (size_t i = 0; status == KILN_STATUS_OK && *out_count < room; i++) {
        if (kiln_device_describe(f->context, i, address, line, NULL) != KILN_STATUS_OK) {
            break;
        }
        kiln_device *device = NULL;
        if (strncmp(address, "opencl:", 7) != 0 ||
            kiln_device_open(f->context, address, &device, NULL) != KILN_STATUS_OK) {
            continue;
        }
        bool gpu = kiln_device_info_of(device)->type == KILN_DEVICE_GPU;
        kiln_device_release(device);
        const ort_hardware *like = match(f, hardware, n_hardware, gpu);
        if (like != NULL) {
            status = offer(f, address, line, like, &out_devices[*out_count], &err);
            *out_count += status == KILN_STATUS_OK;
        }
    }
    return kilni_ort_give(&f->calls, status, &err);
}

// ---- the library ----

/// What Kiln says goes to ONNX Runtime's log.
static void pass_on(const kiln_log_record *record, void *user)
{
    const factory *f = user;
    enum { INFO = 1, WARNING = 2, ERROR = 3 };
    int level = record->level == KILN_LOG_ERROR  ? ERROR
                : record->level == KILN_LOG_WARN ? WARNING
                                                 : INFO;
    ort_status *status =
        f->calls.log_write(f->logger, level, record->message, "kiln", 0, record->module);
    if (status != NULL) {
        f->calls.status_release(status);
    }
}

static ort_status *too_old(const ort_base *base)
{
    ort_table oldest = base->table(1);
    ort_status *(*create)(int, const char *) = NULL;
    if (oldest != NULL) {
        create = (ort_status * (*)(int, const char *)) oldest[0];
    }
    return create == NULL ? NULL
                          : create(KILNI_ORT_NOT_IMPLEMENTED,
                                   "Kiln's provider needs ONNX Runtime 1.23 or newer");
}

static kiln_status open_factory(factory *f, kiln_error *err)
{
    kiln_context_options options = KILN_CONTEXT_OPTIONS_INIT;
    options.log = f->logger != NULL ? pass_on : NULL;
    options.log_user = f;
    f->table = (ort_factory){.version = KILNI_ORT_VERSION,
                             .name = factory_name,
                             .vendor = factory_vendor,
                             .devices = factory_devices,
                             .create = factory_create,
                             .release = factory_release,
                             .vendor_id = factory_vendor_id,
                             .own_version = factory_version,
                             .create_transfer = factory_transfer,
                             .is_stream_aware = factory_is_stream_aware};
    return kiln_context_create(&options, &f->context, err);
}

ort_status *CreateEpFactories(const char *name, const ort_base *base, const ort_logger *logger,
                              ort_factory **factories, size_t room, size_t *out_count)
{
    ort_calls calls;
    kiln_error err = KILN_ERROR_INIT;
    *out_count = 0;
    if (!kilni_ort_calls_find(base, &calls)) {
        return too_old(base);
    }
    const kiln_env env = {.allocator = kiln_allocator_default()};
    factory *f = room > 0 ? kiln_alloc(&env, sizeof(*f)) : NULL;
    if (f == NULL) {
        return calls.status_create(KILNI_ORT_FAIL, "no room for a factory");
    }
    f->calls = calls;
    f->logger = logger;
    strncpy(f->name, name, sizeof(f->name) - 1);
    kiln_status status = open_factory(f, &err);
    if (status != KILN_STATUS_OK) {
        kiln_free(&env, f);
        return kilni_ort_give(&calls, status, &err);
    }
    factories[0] = &f->table;
    *out_count = 1;
    return NULL;
}

ort_status *ReleaseEpFactory(ort_factory *table)
{
    factory *f = (factory *)table;
    const kiln_env env = {.allocator = kiln_allocator_default()};
    if (f != NULL) {
        kiln_context_destroy(f->context);
        kiln_free(&env, f);
    }
    return NULL;
}
