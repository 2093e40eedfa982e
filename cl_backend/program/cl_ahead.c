// SPDX-License-Identifier: MIT OR Apache-2.0
// Programs ahead of time. A process that is started again asks for the programs that it asked for
// the last time, in the same order; so a backend leaves a list of its first ones in the store, and
// a thread of the next one loads them while its caller still reads plans and fills buffers. While
// the driver itself is loaded, the thread opens the store and reads the entries.
//
// A list is found by the process's arguments, else by its executable. It is only a guess: the
// thread stays a few programs ahead of what is asked for, and stops at the first question that the
// list does not answer. What is given out passed the same checks as any entry of the store.

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base_wait.h"
#include "cl_ahead.h"
#include "cl_backend.h"
#include "cl_binary.h"
#include "cl_state.h"
#include "cl_touch.h"

enum {
    LIST_FORMAT = 1,
    LOOK_AHEAD = 16, ///< programs beyond those asked for
    TOUCH_TIMES = 100, ///< looks at the driver that is being loaded, at most
    TOUCH_NS = 200000, ///< between two of them
    TOUCH_BYTES = 256 << 10
};

typedef enum step {
    STEP_LISTED, ///< perhaps with its entry
    STEP_LOADING, ///< the thread is at it
    STEP_READY,
    STEP_OVER ///< given out, or not to be had
} step;

typedef struct ahead_program {
    kilni_cl_wish wish;
    kiln_blob entry;
    cl_program program;
    step step;
} ahead_program;

struct kilni_cl_ahead {
    const kiln_env *env;
    pthread_t thread;
    pthread_mutex_t lock; ///< all below but the folder and the keys
    pthread_cond_t changed;
    char folder[1024];
    kiln_hash128 keys[KILNI_CL_AHEAD_KEYS]; ///< of the list: by arguments, by executable
    bool hurry; ///< the driver is loaded
    size_t libraries; ///< before it was
    bool opened; ///< the store, or not: `status`
    bool listed; ///< the programs stand
    bool go; ///< context and device stand
    bool stop;
    bool joined;
    bool store_taken;
    kiln_status status;
    kiln_error error;
    kiln_store *store;
    cl_context context;
    cl_device_id device;
    kiln_hash128 wanted; ///< fingerprint of the device
    kiln_hash128 fingerprint; ///< of the device that the list is for
    kiln_blob list; ///< as it was read
    uint32_t n_programs;
    uint32_t n_asked;
    ahead_program programs[KILNI_CL_FIRST];
};

typedef struct list_head { ///< then for each program its key, the length of its options, these
    uint32_t magic;
    uint32_t format;
    kiln_hash128 fingerprint;
    uint64_t n_programs;
} list_head;

static const uint32_t list_magic = 0x5453434bu; // "KCST"

// ---- the list ----

void kilni_cl_ahead_keys(const char *address, kiln_hash128 out_keys[KILNI_CL_AHEAD_KEYS])
{
    char text[4096];
    static const char *const files[KILNI_CL_AHEAD_KEYS] = {"/proc/self/cmdline", "/proc/self/exe"};
    for (size_t i = 0; i < KILNI_CL_AHEAD_KEYS; i++) {
        int file = i == 0 ? open(files[i], O_RDONLY | O_CLOEXEC) : -1;
        ssize_t length = i == 0 ? (file >= 0 ? read(file, text, sizeof(text)) : -1)
                                : readlink(files[i], text, sizeof(text));
        if (file >= 0) {
            close(file);
        }
        struct {
            kiln_hash128 process;
            kiln_hash128 address;
            uint64_t kind;
        } parts;
        memset(&parts, 0, sizeof(parts));
        parts.process = kiln_hash_bytes(text, length > 0 ? (size_t)length : 0);
        parts.address = kiln_hash_bytes(address, strlen(address));
        parts.kind = i;
        out_keys[i] = kiln_hash_bytes(&parts, sizeof(parts));
    }
}

/// Takes the programs out of `ahead->list`; false where it is not whole.
static bool parse_list(kilni_cl_ahead *ahead)
{
    list_head head;
    const unsigned char *at = ahead->list.data;
    size_t left = ahead->list.length;
    if (left < sizeof(head)) {
        return false;
    }
    memcpy(&head, at, sizeof(head));
    at += sizeof(head);
    left -= sizeof(head);
    if (head.magic != list_magic || head.format != LIST_FORMAT ||
        head.n_programs > KILNI_CL_FIRST) {
        return false;
    }
    ahead->fingerprint = head.fingerprint;
    for (uint64_t i = 0; i < head.n_programs; i++) {
        kilni_cl_wish *wish = &ahead->programs[i].wish;
        uint32_t length = 0;
        if (left < sizeof(wish->key) + sizeof(length)) {
            return false;
        }
        memcpy(&wish->key, at, sizeof(wish->key));
        memcpy(&length, at + sizeof(wish->key), sizeof(length));
        at += sizeof(wish->key) + sizeof(length);
        left -= sizeof(wish->key) + sizeof(length);
        if (length > left || (wish->options = kiln_alloc(ahead->env, length + 1u)) == NULL) {
            return false;
        }
        memcpy(wish->options, at, length);
        at += length;
        left -= length;
        ahead->n_programs++;
    }
    return left == 0;
}

static bool write_list(const kilni_cl_backend *backend, kiln_blob *out_list)
{
    list_head head = {.magic = list_magic,
                      .format = LIST_FORMAT,
                      .fingerprint = backend->info.fingerprint,
                      .n_programs = backend->start.n_wishes};
    size_t length = sizeof(head);
    for (uint32_t i = 0; i < backend->start.n_wishes; i++) {
        length +=
            sizeof(kiln_hash128) + sizeof(uint32_t) + strlen(backend->start.wishes[i].options);
    }
    unsigned char *at = kiln_alloc(backend->env, length);
    *out_list = (kiln_blob){.data = at, .length = length};
    if (at == NULL) {
        return false;
    }
    memcpy(at, &head, sizeof(head));
    at += sizeof(head);
    for (uint32_t i = 0; i < backend->start.n_wishes; i++) {
        const kilni_cl_wish *wish = &backend->start.wishes[i];
        uint32_t bytes = (uint32_t)strlen(wish->options);
        memcpy(at, &wish->key, sizeof(wish->key));
        memcpy(at + sizeof(wish->key), &bytes, sizeof(bytes));
        memcpy(at + sizeof(wish->key) + sizeof(bytes), wish->options, bytes);
        at += sizeof(wish->key) + sizeof(bytes) + bytes;
    }
    return true;
}

// ---- the thread ----

static bool get(kilni_cl_ahead *ahead, kiln_store_table table, kiln_hash128 key, kiln_blob *out)
{
    return kiln_store_get(ahead->store, table, key, out, NULL) == KILN_STATUS_OK;
}

static void read_entry(kilni_cl_ahead *ahead, ahead_program *program)
{
    if (program->entry.data == NULL) {
        (void)get(ahead, KILN_STORE_PROGRAMS, program->wish.key, &program->entry);
    }
}

/// Whether there is a list, and it is whole.
static bool read_list(kilni_cl_ahead *ahead)
{
    bool found = false;
    for (size_t i = 0; i < KILNI_CL_AHEAD_KEYS && !found; i++) {
        found = get(ahead, KILN_STORE_STARTS, ahead->keys[i], &ahead->list);
    }
    return found && parse_list(ahead);
}

/// Helps the loader along for a moment.
static void touch_driver(kilni_cl_ahead *ahead)
{
    kilni_cl_touch touch = {.libraries = ahead->libraries, .least_bytes = TOUCH_BYTES};
    pthread_mutex_lock(&ahead->lock);
    for (int i = 0; i < TOUCH_TIMES && touch.bytes == 0 && !ahead->hurry; i++) {
        pthread_mutex_unlock(&ahead->lock);
        kilni_cl_touch_libraries(&touch);
        pthread_mutex_lock(&ahead->lock);
        if (!ahead->hurry) {
            (void)kiln_cond_wait_until(&ahead->changed, &ahead->lock, kiln_time_ns() + TOUCH_NS);
        }
    }
    pthread_mutex_unlock(&ahead->lock);
}

/// While the driver is loaded: the store, the list, the first entries.
static void open_and_read(kilni_cl_ahead *ahead)
{
    kiln_store *store = NULL;
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = kiln_store_open(ahead->env, ahead->folder, &store, &err);
    pthread_mutex_lock(&ahead->lock);
    ahead->store = store;
    ahead->status = status;
    ahead->error = err;
    ahead->opened = true;
    pthread_cond_broadcast(&ahead->changed);
    pthread_mutex_unlock(&ahead->lock);
    if (status != KILN_STATUS_OK || !read_list(ahead)) {
        ahead->n_programs = 0;
    }
    for (uint32_t i = 0; i < ahead->n_programs && i < LOOK_AHEAD; i++) {
        read_entry(ahead, &ahead->programs[i]);
    }
}

/// Under the lock, which it gives up meanwhile.
static void load_one(kilni_cl_ahead *ahead, ahead_program *program)
{
    kilni_cl_entry entry;
    cl_program made = NULL;
    program->step = STEP_LOADING;
    pthread_mutex_unlock(&ahead->lock);
    read_entry(ahead, program);
    if (program->entry.data != NULL && kilni_cl_entry_parse(&program->entry, &entry)) {
        made = kilni_cl_binary_load(ahead->context, ahead->device, &entry.binary,
                                    program->wish.options);
    }
    pthread_mutex_lock(&ahead->lock);
    program->program = made;
    program->step = made != NULL ? STEP_READY : STEP_OVER;
    pthread_cond_broadcast(&ahead->changed);
}

/// The next program to load, NULL when there is none that is near.
static ahead_program *next_near(kilni_cl_ahead *ahead)
{
    uint32_t end = ahead->stop ? 0 : ahead->n_asked + LOOK_AHEAD;
    for (uint32_t i = 0; i < ahead->n_programs && i < end; i++) {
        if (ahead->programs[i].step == STEP_LISTED) {
            return &ahead->programs[i];
        }
    }
    return NULL;
}

static void *run(void *user)
{
    kilni_cl_ahead *ahead = user;
    touch_driver(ahead);
    open_and_read(ahead);
    pthread_mutex_lock(&ahead->lock);
    ahead->listed = true;
    pthread_cond_broadcast(&ahead->changed);
    while (!ahead->go && !ahead->stop) {
        pthread_cond_wait(&ahead->changed, &ahead->lock);
    }
    ahead->stop = ahead->stop || !kiln_hash_same(ahead->fingerprint, ahead->wanted);
    while (!ahead->stop) {
        ahead_program *next = next_near(ahead);
        if (next != NULL) {
            load_one(ahead, next);
        } else if (ahead->n_programs > ahead->n_asked + LOOK_AHEAD) {
            pthread_cond_wait(&ahead->changed, &ahead->lock);
        } else {
            break;
        }
    }
    pthread_mutex_unlock(&ahead->lock);
    return NULL;
}

// ---- the backend's side ----

void kilni_cl_ahead_begin(kilni_cl_backend *backend, const char *address, const char *folder)
{
    kilni_cl_ahead *ahead = kiln_alloc(backend->env, sizeof(*ahead));
    if (ahead == NULL) {
        return;
    }
    ahead->env = backend->env;
    snprintf(ahead->folder, sizeof(ahead->folder), "%s", folder);
    kilni_cl_ahead_keys(address, ahead->keys);
    kilni_cl_touch now = {.least_bytes = SIZE_MAX};
    kilni_cl_touch_libraries(&now);
    ahead->libraries = now.libraries;
    pthread_mutex_init(&ahead->lock, NULL);
    kiln_cond_init(&ahead->changed);
    backend->start.ahead = ahead;
    ahead->joined = pthread_create(&ahead->thread, NULL, run, ahead) != 0;
    if (ahead->joined) {
        kilni_cl_ahead_close(backend);
    }
}

bool kilni_cl_ahead_store(kilni_cl_backend *backend, kiln_status *out_status, kiln_error *err)
{
    kilni_cl_ahead *ahead = backend->start.ahead;
    if (ahead == NULL) {
        return false;
    }
    pthread_mutex_lock(&ahead->lock);
    ahead->hurry = true;
    pthread_cond_broadcast(&ahead->changed);
    while (!ahead->opened) {
        pthread_cond_wait(&ahead->changed, &ahead->lock);
    }
    backend->store = ahead->store;
    ahead->store_taken = true;
    *out_status = ahead->status;
    *err = ahead->error;
    pthread_mutex_unlock(&ahead->lock);
    return true;
}

void kilni_cl_ahead_go(kilni_cl_backend *backend)
{
    kilni_cl_ahead *ahead = backend->start.ahead;
    if (ahead == NULL) {
        return;
    }
    pthread_mutex_lock(&ahead->lock);
    ahead->context = backend->context;
    ahead->device = backend->device;
    ahead->wanted = backend->info.fingerprint;
    ahead->go = true;
    pthread_cond_broadcast(&ahead->changed);
    pthread_mutex_unlock(&ahead->lock);
}

void kilni_cl_ahead_stop(kilni_cl_backend *backend)
{
    kilni_cl_ahead *ahead = backend->start.ahead;
    if (ahead == NULL || ahead->joined) {
        return;
    }
    pthread_mutex_lock(&ahead->lock);
    ahead->stop = true;
    ahead->hurry = true;
    pthread_cond_broadcast(&ahead->changed);
    pthread_mutex_unlock(&ahead->lock);
    pthread_join(ahead->thread, NULL);
    ahead->joined = true;
}

static ahead_program *find_locked(kilni_cl_ahead *ahead, kiln_hash128 key)
{
    while (!ahead->listed) {
        pthread_cond_wait(&ahead->changed, &ahead->lock);
    }
    for (uint32_t i = 0; i < ahead->n_programs; i++) {
        if (kiln_hash_same(ahead->programs[i].wish.key, key)) {
            return &ahead->programs[i];
        }
    }
    return NULL;
}

bool kilni_cl_ahead_take(kilni_cl_backend *backend, kiln_hash128 key, kiln_blob *out_entry,
                         cl_program *out_program)
{
    kilni_cl_ahead *ahead = backend->start.ahead;
    if (ahead == NULL) {
        return false;
    }
    pthread_mutex_lock(&ahead->lock);
    ahead_program *program = find_locked(ahead, key);
    while (program != NULL && program->step == STEP_LOADING) {
        ahead_program *next = next_near(ahead);
        if (next != NULL) { // better than to wait: it is wanted soon
            load_one(ahead, next);
        } else {
            pthread_cond_wait(&ahead->changed, &ahead->lock);
        }
    }
    bool found = program != NULL && program->entry.data != NULL;
    if (program == NULL) {
        ahead->stop = true;
    } else {
        *out_entry = program->entry;
        *out_program = program->program;
        program->entry = (kiln_blob){.data = NULL, .length = 0};
        program->program = NULL;
        program->step = STEP_OVER;
        ahead->n_asked++;
    }
    pthread_cond_broadcast(&ahead->changed);
    pthread_mutex_unlock(&ahead->lock);
    return found;
}

uint32_t kilni_cl_ahead_ready(kilni_cl_backend *backend)
{
    kilni_cl_ahead *ahead = backend->start.ahead;
    uint32_t count = 0;
    if (ahead != NULL) {
        pthread_mutex_lock(&ahead->lock);
        for (uint32_t i = 0; ahead->listed && i < ahead->n_programs; i++) {
            count += ahead->programs[i].step == STEP_READY;
        }
        pthread_mutex_unlock(&ahead->lock);
    }
    return count;
}

// ---- for the next process ----

void kilni_cl_ahead_wish(kilni_cl_backend *backend, kiln_hash128 key, const char *options)
{
    for (uint32_t i = 0; i < backend->start.n_wishes; i++) {
        if (kiln_hash_same(backend->start.wishes[i].key, key)) {
            return;
        }
    }
    char *copy =
        backend->start.n_wishes < KILNI_CL_FIRST ? kiln_strdup(backend->env, options) : NULL;
    if (copy != NULL) {
        backend->start.wishes[backend->start.n_wishes++] =
            (kilni_cl_wish){.key = key, .options = copy};
    }
}

/// Whether the list that was read begins with what was asked for.
static bool was_known(const kilni_cl_backend *backend)
{
    const kilni_cl_ahead *ahead = backend->start.ahead;
    bool known = backend->start.n_wishes <= ahead->n_programs &&
                 kiln_hash_same(ahead->fingerprint, backend->info.fingerprint);
    for (uint32_t i = 0; known && i < backend->start.n_wishes; i++) {
        known = kiln_hash_same(backend->start.wishes[i].key, ahead->programs[i].wish.key) &&
                strcmp(backend->start.wishes[i].options, ahead->programs[i].wish.options) == 0;
    }
    return known;
}

/// Who prepares the cache asks for programs that others want.
static bool only_prepares(const kilni_cl_backend *backend)
{
    const char *compiler = kiln_config_string(backend->env->config, KILN_OPTION_COMPILER);
    return backend->start.for_others || strcmp(compiler, "prepare") == 0 ||
           strcmp(compiler, "record") == 0;
}

void kiln_cl_prepare_for_others(kiln_backend *base)
{
    kilni_cl_backend_of(base)->start.for_others = true;
}

void kilni_cl_ahead_save(kilni_cl_backend *backend)
{
    kilni_cl_ahead *ahead = backend->start.ahead;
    kiln_blob list = {0};
    if (ahead == NULL || backend->store == NULL || backend->start.n_wishes == 0 ||
        only_prepares(backend) || was_known(backend)) {
        return;
    }
    kiln_error err = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_OK;
    bool written = write_list(backend, &list);
    for (size_t i = 0; i < KILNI_CL_AHEAD_KEYS && written && status == KILN_STATUS_OK; i++) {
        status = kiln_store_put(backend->store, KILN_STORE_STARTS, ahead->keys[i], list.data,
                                list.length, &err);
    }
    if (status != KILN_STATUS_OK) {
        kiln_log_write(backend->env, KILN_LOG_DEBUG, "cl_backend", "first programs not stored: %s",
                       err.message);
    }
    kiln_free(backend->env, list.data);
}

void kilni_cl_ahead_close(kilni_cl_backend *backend)
{
    kilni_cl_ahead *ahead = backend->start.ahead;
    for (uint32_t i = 0; i < backend->start.n_wishes; i++) {
        kiln_free(backend->env, backend->start.wishes[i].options);
    }
    backend->start.n_wishes = 0;
    backend->start.ahead = NULL;
    if (ahead == NULL) {
        return;
    }
    for (uint32_t i = 0; i < KILNI_CL_FIRST; i++) {
        ahead_program *program = &ahead->programs[i];
        if (program->program != NULL) {
            clReleaseProgram(program->program);
        }
        kiln_free(backend->env, program->entry.data);
        kiln_free(backend->env, program->wish.options);
    }
    if (!ahead->store_taken) {
        kiln_store_close(ahead->store);
    }
    kiln_free(backend->env, ahead->list.data);
    pthread_cond_destroy(&ahead->changed);
    pthread_mutex_destroy(&ahead->lock);
    kiln_free(backend->env, ahead);
}
