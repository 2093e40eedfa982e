// SPDX-License-Identifier: MIT OR Apache-2.0
// Addresses: what a text means, its canonical form, lists of servers, and the process's registry.
// The registry is the one mutable global of the library: a device's number has to mean the same
// everywhere in the process.

#include "rpc_address.h"

#include "remote_grpc.h"
#include "rpc_protocol.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

// ---- parsing ----

/// Decimal digits up to the end of the text, at most `most`.
static bool parse_number(const char *text, uint64_t most, uint64_t *out_value)
{
    uint64_t value = 0;
    if (*text == '\0') {
        return false;
    }
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9') {
            return false;
        }
        value = value * 10 + (uint64_t)(*text - '0');
        if (value > most) {
            return false;
        }
    }
    *out_value = value;
    return true;
}

static kiln_status bad(const char *text, const char *why, kiln_error *err)
{
    return kiln_fail(err, INVALID_ARGUMENT,
                     "\"%.100s\" is no address: %s; write grpc://HOST:PORT/DEVICE or unix:PATH",
                     text, why);
}

/// Lower case; numbers in the one form that the system prints them in.
static bool canonical_host(kilni_rpc_address *address, bool bracketed)
{
    unsigned char binary[16];
    if (bracketed) {
        return inet_pton(AF_INET6, address->host, binary) == 1 &&
               inet_ntop(AF_INET6, binary, address->host, sizeof(address->host)) != NULL;
    }
    for (char *c = address->host; *c != '\0'; c++) {
        if (!isalnum((unsigned char)*c) && *c != '-' && *c != '.' && *c != '_') {
            return false;
        }
        *c = (char)tolower((unsigned char)*c);
    }
    return address->host[0] != '\0';
}

/// The host in front of a colon, a slash or the end; `*out_rest` is what follows it.
static bool take_host(const char *text, kilni_rpc_address *address, const char **out_rest)
{
    bool bracketed = *text == '[';
    text += bracketed;
    size_t length = strcspn(text, bracketed ? "]" : ":/");
    if (length >= sizeof(address->host) || (bracketed && text[length] != ']')) {
        return false;
    }
    memcpy(address->host, text, length);
    address->host[length] = '\0';
    *out_rest = text + length + bracketed;
    return canonical_host(address, bracketed);
}

static kiln_status parse_network(const char *text, const char *rest, kilni_rpc_address *address,
                                 kiln_error *err)
{
    char port[8] = "";
    uint64_t number = KILNI_RPC_PORT;
    uint64_t device = 0;
    if (!take_host(rest, address, &rest)) {
        return bad(text, "the host is malformed", err);
    }
    if (*rest == ':') {
        size_t length = strcspn(++rest, "/");
        if (length >= sizeof(port)) {
            return bad(text, "the port is malformed", err);
        }
        memcpy(port, rest, length);
        rest += length;
        if (!parse_number(port, UINT16_MAX, &number) || number == 0) {
            return bad(text, "the port is malformed", err);
        }
    }
    if (*rest != '\0' && *rest != '/') {
        return bad(text, "something follows the host", err);
    }
    if (*rest == '/' && rest[1] != '\0' && !parse_number(rest + 1, 65535, &device)) {
        return bad(text, "the number of the device is malformed", err);
    }
    bool v6 = strchr(address->host, ':') != NULL;
    address->port = (uint16_t)number;
    address->device = (uint32_t)device;
    snprintf(address->target, sizeof(address->target), v6 ? "[%s]:%u" : "%s:%u", address->host,
             address->port);
    snprintf(address->text, sizeof(address->text), "%s://%s/%u", address->scheme, address->target,
             address->device);
    return KILN_STATUS_OK;
}

static kiln_status parse_unix(const char *text, const char *path, kilni_rpc_address *address,
                              kiln_error *err)
{
    const char *mark = strrchr(path, '#');
    uint64_t device = 0;
    size_t length = mark != NULL ? (size_t)(mark - path) : strlen(path);
    if (mark != NULL && !parse_number(mark + 1, 65535, &device)) {
        return bad(text, "the number of the device is malformed", err);
    }
    if (length == 0 || length > 107) {
        return bad(text, "a path has 1 to 107 bytes", err);
    }
    memcpy(address->host, path, length);
    address->host[length] = '\0';
    address->device = (uint32_t)device;
    snprintf(address->target, sizeof(address->target), "unix:%s", address->host);
    snprintf(address->text, sizeof(address->text), "unix:%s#%u", address->host, address->device);
    return KILN_STATUS_OK;
}

kiln_status kilni_rpc_address_parse(const char *text, kilni_rpc_address *out_address,
                                    kiln_error *err)
{
    static const char *const schemes[] = {"grpc", "grpcs"};
    memset(out_address, 0, sizeof(*out_address));
    if (text == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "address must not be NULL");
    }
    if (strncmp(text, "unix:", 5) == 0) {
        snprintf(out_address->scheme, sizeof(out_address->scheme), "unix");
        return parse_unix(text, text + 5, out_address, err);
    }
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        size_t length = strlen(schemes[i]);
        if (strncmp(text, schemes[i], length) == 0 && strncmp(text + length, "://", 3) == 0) {
            snprintf(out_address->scheme, sizeof(out_address->scheme), "%s", schemes[i]);
            return parse_network(text, text + length + 3, out_address, err);
        }
    }
    return bad(text, "the scheme is not known", err);
}

/// Adds the server of `length` bytes at `host`, as if it were alone: between `scheme`, with what
/// follows it, and the number of a device.
static kiln_status add_server(kilni_rpc_addresses *list, const char *text, size_t scheme,
                              const char *host, size_t length, const char *device, kiln_error *err)
{
    char one[sizeof(list->each[0].text)];
    if (list->count == KILNI_RPC_SERVERS) {
        return kiln_fail(err, INVALID_ARGUMENT, "\"%.100s\" names more than %d servers", text,
                         KILNI_RPC_SERVERS);
    }
    int written =
        snprintf(one, sizeof(one), "%.*s%.*s%s", (int)scheme, text, (int)length, host, device);
    if (written < 0 || (size_t)written >= sizeof(one)) {
        return bad(text, "a host is too long", err);
    }
    kiln_status status = kilni_rpc_address_parse(one, &list->each[list->count], err);
    list->count += status == KILN_STATUS_OK;
    return status;
}

static kiln_status write_servers(kilni_rpc_addresses *list, const char *text, kiln_error *err)
{
    const kilni_rpc_address *first = &list->each[0];
    size_t length = 0;
    for (uint32_t i = 0; i < list->count && length < sizeof(list->text); i++) {
        length += (size_t)snprintf(list->text + length, sizeof(list->text) - length, "%s%s%s",
                                   i == 0 ? first->scheme : "", i == 0 ? "://" : ",",
                                   list->each[i].target);
    }
    if (length < sizeof(list->text)) {
        length += (size_t)snprintf(list->text + length, sizeof(list->text) - length, "/%u",
                                   first->device);
    }
    return length < sizeof(list->text) ? KILN_STATUS_OK : bad(text, "the list is too long", err);
}

kiln_status kilni_rpc_addresses_parse(const char *text, kilni_rpc_addresses *out_addresses,
                                      kiln_error *err)
{
    const char *host = text != NULL ? strstr(text, "://") : NULL;
    kiln_status status = KILN_STATUS_OK;
    out_addresses->count = 0;
    if (host == NULL || strncmp(text, "unix:", 5) == 0 || strchr(host, ',') == NULL) {
        status = kilni_rpc_address_parse(text, &out_addresses->each[0], err);
        out_addresses->count = 1;
        snprintf(out_addresses->text, sizeof(out_addresses->text), "%s",
                 out_addresses->each[0].text);
        return status;
    }
    host += 3;
    size_t scheme = (size_t)(host - text);
    const char *device = host + strcspn(host, "/");
    for (bool more = true; more && status == KILN_STATUS_OK;) {
        size_t length = strcspn(host, ",/");
        status = add_server(out_addresses, text, scheme, host, length, device, err);
        more = host[length] == ',';
        host += length + 1;
    }
    return status == KILN_STATUS_OK ? write_servers(out_addresses, text, err) : status;
}

bool kilni_rpc_address_is_tls(const kilni_rpc_address *address)
{
    return strcmp(address->scheme, "grpcs") == 0;
}

/// "grpc:", or a scheme with nothing behind it.
static bool is_bare(const char *address)
{
    size_t length = strcspn(address, ":");
    return address[length] == '\0' || address[length + 1] == '\0';
}

const char *kilni_rpc_address_or_default(const kiln_env *env, const char *address)
{
    const char *option =
        env->config != NULL ? kiln_config_string(env->config, KILN_OPTION_REMOTE_ADDRESS) : NULL;
    if (!is_bare(address)) {
        return address;
    }
    return option != NULL && option[0] != '\0' ? option : "grpc://127.0.0.1:3000";
}

// ---- the registry ----

typedef struct registry {
    pthread_mutex_t lock;
    char **texts; ///< by id
    uint32_t *slots; ///< id + 1; 0: free
    uint32_t count;
    uint32_t capacity; ///< of `texts`; there are twice as many slots
} registry;

static registry addresses = {.lock = PTHREAD_MUTEX_INITIALIZER};

static kiln_env registry_env(void)
{
    return (kiln_env){.allocator = kiln_allocator_default()};
}

static uint32_t *find_slot(const char *text)
{
    uint32_t mask = 2 * addresses.capacity - 1;
    uint32_t at = (uint32_t)kiln_hash64(text, strlen(text), 0) & mask;
    while (addresses.slots[at] != 0 &&
           strcmp(addresses.texts[addresses.slots[at] - 1], text) != 0) {
        at = (at + 1) & mask;
    }
    return &addresses.slots[at];
}

static bool grow(const kiln_env *env)
{
    uint32_t capacity = addresses.capacity > 0 ? 2 * addresses.capacity : 64;
    if (addresses.count < addresses.capacity) {
        return true;
    }
    char **texts = kiln_alloc_array(env, capacity, sizeof(*texts));
    uint32_t *slots = kiln_alloc_array(env, 2 * (size_t)capacity, sizeof(*slots));
    if (capacity > UINT32_MAX / 4 || texts == NULL || slots == NULL) {
        kiln_free(env, texts);
        kiln_free(env, slots);
        return false;
    }
    if (addresses.count > 0) {
        memcpy(texts, addresses.texts, addresses.count * sizeof(*texts));
    }
    kiln_free(env, addresses.texts);
    kiln_free(env, addresses.slots);
    addresses.texts = texts;
    addresses.slots = slots;
    addresses.capacity = capacity;
    for (uint32_t i = 0; i < addresses.count; i++) {
        *find_slot(texts[i]) = i + 1;
    }
    return true;
}

/// Under the lock.
static kiln_status add_address(const char *text, uint32_t *out_id, kiln_error *err)
{
    kiln_env env = registry_env();
    uint32_t *slot = addresses.capacity > 0 ? find_slot(text) : NULL;
    if (slot == NULL || *slot == 0) {
        char *copy = grow(&env) ? kiln_strdup(&env, text) : NULL;
        if (copy == NULL) {
            return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for one more address");
        }
        slot = find_slot(text);
        addresses.texts[addresses.count++] = copy;
        *slot = addresses.count;
    }
    *out_id = *slot - 1;
    return KILN_STATUS_OK;
}

kiln_status kiln_rpc_address_id(const char *address, uint32_t *out_id, kiln_error *err)
{
    if (out_id == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_id must not be NULL");
    }
    kilni_rpc_addresses parsed = {.text = "grpc:"};
    *out_id = UINT32_MAX;
    bool is_default =
        address != NULL && (strcmp(address, "grpc") == 0 || strcmp(address, "grpc:") == 0);
    kiln_status status =
        is_default ? KILN_STATUS_OK : kilni_rpc_addresses_parse(address, &parsed, err);
    if (status == KILN_STATUS_OK) {
        pthread_mutex_lock(&addresses.lock);
        status = add_address(parsed.text, out_id, err);
        pthread_mutex_unlock(&addresses.lock);
    }
    return status;
}

const char *kiln_rpc_address_of(uint32_t id)
{
    pthread_mutex_lock(&addresses.lock);
    const char *text = id < addresses.count ? addresses.texts[id] : NULL;
    pthread_mutex_unlock(&addresses.lock);
    return text;
}

kiln_status kiln_rpc_device_id(const char *address, uint64_t *out_device_id, kiln_error *err)
{
    if (out_device_id == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_device_id must not be NULL");
    }
    uint32_t id = UINT32_MAX;
    kiln_status status = kiln_rpc_address_id(address, &id, err);
    *out_device_id = (uint64_t)KILN_DEVICE_REMOTE << 32 | id;
    return status;
}

kiln_status kiln_rpc_device_address(uint64_t device_id, const char **out_address, kiln_error *err)
{
    if (out_address == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT, "out_address must not be NULL");
    }
    uint64_t type = device_id >> 32;
    *out_address = NULL;
    if (type != KILN_DEVICE_REMOTE) {
        return kiln_fail(err, INVALID_ARGUMENT, "device type %llu is not remote (%d)",
                         (unsigned long long)type, KILN_DEVICE_REMOTE);
    }
    *out_address = kiln_rpc_address_of((uint32_t)device_id);
    if (*out_address == NULL) {
        return kiln_fail(err, NOT_FOUND, "no remote device has the number %u", (uint32_t)device_id);
    }
    return KILN_STATUS_OK;
}
