// SPDX-License-Identifier: MIT OR Apache-2.0
// What a plugin gets from the host: a place for its diagnostics, accounted memory, a place in the
// cache, and nothing else. Diagnostics go to the call in progress; outside of a call they go to the
// log. Texts of plugins are copied, cut and made printable.
#include <string.h>

#include "fuse_map.h"
#include "host_services.h"

enum { MAX_ALIGN = 4096, MAX_BLOCK_BYTES = 1 << 30 };

typedef struct block_head { ///< in front of each block that a plugin gets
    uint64_t bytes;
    void *base;
} block_head;

bool kilni_fuse_utf8_ok(const void *bytes, uint64_t length)
{
    const unsigned char *text = bytes;
    uint64_t i = 0;
    while (i < length) {
        unsigned char lead = text[i];
        uint32_t more = lead < 0x80 ? 0 : lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
        if ((lead >= 0x80 && lead < 0xC2) || lead > 0xF4 || more > length - i - 1) {
            return false;
        }
        uint32_t code = more == 0 ? lead : lead & (0x3Fu >> more);
        for (uint32_t k = 1; k <= more; k++) {
            if ((text[i + k] & 0xC0) != 0x80) {
                return false;
            }
            code = code << 6 | (text[i + k] & 0x3Fu);
        }
        bool too_long = (more == 2 && code < 0x800) || (more == 3 && code < 0x10000);
        if (too_long || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
            return false;
        }
        i += more + 1;
    }
    return true;
}

bool kilni_fuse_text_ok(kf_str text, uint64_t limit)
{
    if (text.len > limit || (text.len > 0 && text.ptr == NULL) ||
        !kilni_fuse_utf8_ok(text.ptr, text.len)) {
        return false;
    }
    for (uint64_t i = 0; i < text.len; i++) {
        if ((unsigned char)text.ptr[i] < 0x20 || text.ptr[i] == 0x7F) {
            return false;
        }
    }
    return true;
}

/// At most the whole characters that fit; control characters become spaces.
static void copy_text(char *out, size_t capacity, kf_str text)
{
    uint64_t length = text.ptr == NULL ? 0 : text.len;
    if (length >= capacity) {
        length = capacity - 1;
        while (length > 0 && ((unsigned char)text.ptr[length] & 0xC0) == 0x80) {
            length--;
        }
    }
    if (length > 0) {
        memcpy(out, text.ptr, length);
    }
    out[length] = 0;
    if (!kilni_fuse_utf8_ok(out, length)) {
        memcpy(out, "(text is not UTF-8)", sizeof "(text is not UTF-8)");
    }
    for (char *c = out; *c != 0; c++) {
        *c = (unsigned char)*c < 0x20 || *c == 0x7F ? ' ' : *c;
    }
}

static void report(const kf_host *abi, const kf_diag *diag)
{
    kilni_fuse_host *host = abi->ctx;
    if (diag == NULL || !KF_HAS(diag, kf_diag, message)) {
        return;
    }
    kilni_fuse_diag copy = {
        .severity = diag->severity, .code = diag->code, .op_index = diag->op_index};
    copy_text(copy.text, sizeof(copy.text), diag->message);
    pthread_mutex_lock(&host->lock);
    bool taken = host->sink != NULL;
    if (taken) {
        *host->sink = copy;
    }
    pthread_mutex_unlock(&host->lock);
    bool loud = diag->severity >= KF_SEVERITY_WARNING;
    if (!taken || loud) {
        kiln_log_write(host->env, loud ? KILN_LOG_WARN : KILN_LOG_DEBUG, KILNI_FUSE_MODULE,
                       "%s: %s", host->plugin_id, copy.text);
    }
}

static void *alloc_for_plugin(const kf_host *abi, uint64_t size, uint64_t align)
{
    kilni_fuse_host *host = abi->ctx;
    uint64_t step = align < sizeof(max_align_t) ? sizeof(max_align_t) : align;
    if (size > MAX_BLOCK_BYTES || step > MAX_ALIGN || (align & (align - 1)) != 0) {
        return NULL;
    }
    char *base = kiln_alloc(host->env, size + step + sizeof(block_head));
    if (base == NULL) {
        return NULL;
    }
    uintptr_t first = (uintptr_t)base + sizeof(block_head);
    char *place = base + (((first + step - 1) & ~(uintptr_t)(step - 1)) - (uintptr_t)base);
    block_head head = {.bytes = size, .base = base};
    memcpy(place - sizeof(head), &head, sizeof(head));
    pthread_mutex_lock(&host->lock);
    host->bytes_live += size;
    host->blocks_live++;
    pthread_mutex_unlock(&host->lock);
    return place;
}

static void free_for_plugin(const kf_host *abi, void *pointer)
{
    kilni_fuse_host *host = abi->ctx;
    if (pointer == NULL) {
        return;
    }
    block_head head;
    memcpy(&head, (char *)pointer - sizeof(head), sizeof(head));
    pthread_mutex_lock(&host->lock);
    host->bytes_live -= head.bytes;
    host->blocks_live--;
    pthread_mutex_unlock(&host->lock);
    kiln_free(host->env, head.base);
}

static uint32_t cancelled(const kf_host *abi)
{
    const kilni_fuse_host *host = abi->ctx;
    uint64_t late_ns = host->late_ns != NULL ? atomic_load(host->late_ns) : 0;
    return late_ns != 0 && kiln_time_ns() > late_ns;
}

// ---- a place in the cache ----

/// False for a key that is none.
static bool key_in_store(const kilni_fuse_host *host, kf_blob key, kiln_hash128 *out)
{
    if (key.ptr == NULL || key.len == 0 || key.len > KF_STORE_MAX_KEY) {
        return false;
    }
    const kiln_hash128 sums[2] = {host->store_key, kiln_hash_bytes(key.ptr, key.len)};
    *out = kiln_hash_bytes(sums, sizeof(sums));
    return true;
}

static kf_status get_from_store(const kf_host *abi, kf_blob key, void *out, uint64_t capacity,
                                uint64_t *out_length)
{
    const kilni_fuse_host *host = abi->ctx;
    kiln_hash128 place;
    kiln_blob found = {0};
    if (!key_in_store(host, key, &place) || out_length == NULL || (out == NULL && capacity > 0)) {
        return KF_E_INVALID;
    }
    kiln_status status = kiln_store_get(host->store, KILN_STORE_WINNERS, place, &found, NULL);
    if (status != KILN_STATUS_OK) {
        return status == KILN_STATUS_RESOURCE_EXHAUSTED ? KF_E_NOMEM : KF_DECLINED;
    }
    size_t fits = found.length < capacity ? found.length : (size_t)capacity;
    if (fits > 0) {
        memcpy(out, found.data, fits);
    }
    *out_length = found.length;
    kiln_free(host->env, found.data);
    return KF_OK;
}

static kf_status put_into_store(const kf_host *abi, kf_blob key, kf_blob value)
{
    const kilni_fuse_host *host = abi->ctx;
    kiln_hash128 place;
    if (!key_in_store(host, key, &place) || value.len > KF_STORE_MAX_VALUE ||
        (value.ptr == NULL && value.len > 0)) {
        return KF_E_INVALID;
    }
    return kiln_store_put(host->store, KILN_STORE_WINNERS, place, value.ptr, (size_t)value.len,
                          NULL) == KILN_STATUS_OK
               ? KF_OK
               : KF_DECLINED;
}

static const void *extension(const kf_host *abi, const char *id)
{
    static const kf_store store = {(uint32_t)sizeof(store), 0, get_from_store, put_into_store};
    const kilni_fuse_host *host = abi->ctx;
    return host->store != NULL && id != NULL && strcmp(id, KF_STORE_EXTENSION) == 0 ? &store : NULL;
}

void kilni_fuse_host_init(kilni_fuse_host *host, const kiln_env *env, const char *plugin_id)
{
    *host = (kilni_fuse_host){.env = env, .plugin_id = plugin_id};
    pthread_mutex_init(&host->lock, NULL);
    host->abi = (kf_host){.struct_size = (uint32_t)sizeof(kf_host),
                          .abi_minor = KF_ABI_MINOR,
                          .ctx = host,
                          .name = KF_STR_INIT("kiln"),
                          .version = KF_STR_INIT(KILN_VERSION_STRING),
                          .report = report,
                          .alloc = alloc_for_plugin,
                          .free = free_for_plugin,
                          .cancelled = cancelled,
                          .extension = extension};
}

void kilni_fuse_host_fini(kilni_fuse_host *host)
{
    if (host->blocks_live > 0) {
        kiln_log_write(host->env, KILN_LOG_WARN, KILNI_FUSE_MODULE, "%s leaves %llu %s in %llu %s",
                       host->plugin_id, (unsigned long long)host->bytes_live,
                       kiln_plural(host->bytes_live, "byte", "bytes"),
                       (unsigned long long)host->blocks_live,
                       kiln_plural(host->blocks_live, "block", "blocks"));
    }
    pthread_mutex_destroy(&host->lock);
}

void kilni_fuse_host_listen(kilni_fuse_host *host, kilni_fuse_diag *sink)
{
    pthread_mutex_lock(&host->lock);
    host->sink = sink;
    pthread_mutex_unlock(&host->lock);
}
