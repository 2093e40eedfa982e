// SPDX-License-Identifier: MIT OR Apache-2.0
// A server's options: copied, completed and checked. Decides where a server may listen: on this
// machine, or with TLS where it knows its clients, or where somebody has insisted.

#include "rpc_certificate.h"
#include "rpc_server.h"
#include "rpc_socket.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static kiln_status copy_text(const kiln_env *env, const char *text, char **out_copy,
                             kiln_error *err)
{
    *out_copy = text != NULL ? kiln_strdup(env, text) : NULL;
    return text == NULL || *out_copy != NULL
               ? KILN_STATUS_OK
               : kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a server's options");
}

static kiln_status read_optional(const kiln_env *env, const char *path, char **out_text,
                                 kiln_error *err)
{
    return path != NULL ? kilni_rpc_read_file(env, path, out_text, err) : KILN_STATUS_OK;
}

// ---- identities ----

static kiln_status check_files(const kiln_rpc_server_options *options, kiln_error *err)
{
    if ((options->tls_cert == NULL) != (options->tls_key == NULL)) {
        return kiln_fail(err, INVALID_ARGUMENT, "give a certificate with its key");
    }
    if (options->client_ca != NULL && options->tls_cert == NULL) {
        return kiln_fail(err, INVALID_ARGUMENT,
                         "clients show certificates only over TLS: give a certificate and its key");
    }
    return KILN_STATUS_OK;
}

/// What the files say.
typedef struct file_texts {
    kilni_rpc_identity identity;
    char *tokens;
    kilni_rpc_rule_table rules;
} file_texts;

static void free_texts(const kiln_env *env, file_texts *texts)
{
    kilni_rpc_identity_fini(env, &texts->identity);
    kiln_free(env, texts->tokens);
    texts->tokens = NULL;
    kilni_rpc_rules_fini(env, &texts->rules);
}

/// All files, or nothing of them.
static kiln_status read_files(const kiln_rpc_server *server, file_texts *out_texts, kiln_error *err)
{
    char *texts[KILNI_RPC_FILES] = {NULL};
    kiln_status status = KILN_STATUS_OK;
    for (size_t i = 0; i < KILNI_RPC_FILES && status == KILN_STATUS_OK; i++) {
        status = read_optional(server->env, server->files[i], &texts[i], err);
    }
    const char *tokens = texts[KILNI_RPC_FILE_TOKENS];
    if (status == KILN_STATUS_OK && tokens != NULL && strspn(tokens, "\r\n") == strlen(tokens)) {
        status = kiln_fail(err, INVALID_ARGUMENT, "%.160s has no token",
                           server->files[KILNI_RPC_FILE_TOKENS]);
    }
    *out_texts = (file_texts){
        .identity = {.certificate = texts[KILNI_RPC_FILE_CERTIFICATE],
                     .key = texts[KILNI_RPC_FILE_KEY],
                     .authorities = texts[KILNI_RPC_FILE_CLIENT_CA]},
        .tokens = texts[KILNI_RPC_FILE_TOKENS],
    };
    if (status == KILN_STATUS_OK && out_texts->identity.certificate != NULL) {
        status = kilni_rpc_certificate_check(server->env, out_texts->identity.certificate, err);
    }
    if (status == KILN_STATUS_OK && texts[KILNI_RPC_FILE_ACCESS] != NULL) {
        status = kilni_rpc_rules_parse(server->env, texts[KILNI_RPC_FILE_ACCESS], &out_texts->rules,
                                       err);
        if (status != KILN_STATUS_OK) {
            kiln_error_context(err, "%.120s", server->files[KILNI_RPC_FILE_ACCESS]);
        }
    }
    kiln_free(server->env, texts[KILNI_RPC_FILE_ACCESS]);
    if (status != KILN_STATUS_OK) {
        free_texts(server->env, out_texts);
    }
    return status;
}

/// Changes when one of the files does.
static uint64_t look_at_files(const kiln_rpc_server *server)
{
    uint64_t seen = 1;
    for (size_t i = 0; i < KILNI_RPC_FILES; i++) {
        struct stat now = {0};
        if (server->files[i] != NULL && stat(server->files[i], &now) == 0) {
            const int64_t facts[] = {(int64_t)now.st_ino, (int64_t)now.st_size, now.st_mtim.tv_sec,
                                     now.st_mtim.tv_nsec};
            seen = kiln_hash64(facts, sizeof(facts), seen);
        }
    }
    return seen;
}

/// Takes the texts' rules.
static void apply_rules(kiln_rpc_server *server, file_texts *texts)
{
    bool ruled = server->files[KILNI_RPC_FILE_ACCESS] != NULL;
    kilni_rpc_parties_rule(&server->parties, ruled ? &texts->rules : NULL);
    texts->rules = (kilni_rpc_rule_table){NULL, 0};
}

static kiln_status load_identity(kiln_rpc_server *server, const kiln_rpc_server_options *options,
                                 kiln_error *err)
{
    const char *const files[] = {options->tls_cert, options->tls_key, options->client_ca,
                                 options->token_file, options->access_file};
    kiln_status status = check_files(options, err);
    for (size_t i = 0; i < KILNI_RPC_FILES && status == KILN_STATUS_OK; i++) {
        status = copy_text(server->env, files[i], &server->files[i], err);
    }
    file_texts texts;
    server->files_seen = look_at_files(server);
    if (status == KILN_STATUS_OK) {
        status = read_files(server, &texts, err);
    }
    if (status == KILN_STATUS_OK) {
        server->identity = texts.identity;
        server->tokens = texts.tokens;
        apply_rules(server, &texts);
    }
    return status;
}

void kilni_rpc_server_renew(kiln_rpc_server *server)
{
    file_texts texts = {.tokens = NULL};
    kiln_error err = KILN_ERROR_INIT;
    uint64_t seen = look_at_files(server);
    if (seen == server->files_seen) {
        return;
    }
    server->files_seen = seen;
    kiln_status status = read_files(server, &texts, &err);
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_listener_renew(server->listener, &texts.identity, &err);
    }
    if (status == KILN_STATUS_RESOURCE_EXHAUSTED) {
        server->files_seen = 0; // there may be room at the next look
    }
    if (status == KILN_STATUS_OK) {
        pthread_mutex_lock(&server->lock);
        char *old = server->tokens;
        server->tokens = texts.tokens;
        texts.tokens = old;
        pthread_mutex_unlock(&server->lock);
        apply_rules(server, &texts);
        kiln_log_write(server->env, KILN_LOG_INFO, "remote",
                       "certificates, tokens and rules read again");
    } else {
        kiln_log_write(server->env, KILN_LOG_WARN, "remote",
                       "certificates, tokens and rules stay: %s", err.message);
    }
    free_texts(server->env, &texts);
}

/// Towards other servers: as the options say, and where they are silent as towards clients.
static kiln_status load_self(kiln_rpc_server *server, kiln_error *err)
{
    kilni_rpc_identity *self = &server->self;
    kiln_status status = kilni_rpc_identity_load(server->env, self, err);
    if (status == KILN_STATUS_OK && self->certificate == NULL) {
        status = copy_text(server->env, server->identity.certificate, &self->certificate, err);
        if (status == KILN_STATUS_OK) {
            status = copy_text(server->env, server->identity.key, &self->key, err);
        }
    }
    if (status == KILN_STATUS_OK && self->authorities == NULL) {
        status = copy_text(server->env, server->identity.authorities, &self->authorities, err);
    }
    return status;
}

// ---- addresses ----

static bool is_port(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return digits > 0 && digits <= 5 && text[digits] == '\0' &&
           strtoul(text, NULL, 10) <= UINT16_MAX;
}

static kiln_status check_listen(const kiln_rpc_server_options *options, const char *address,
                                kiln_error *err)
{
    bool is_unix = strncmp(address, "unix:", 5) == 0;
    const char *colon = strrchr(address, ':');
    if (colon == NULL || colon[1] == '\0' || strlen(address) > 200 ||
        (!is_unix && !is_port(colon + 1))) {
        return kiln_fail(err, INVALID_ARGUMENT, "\"%.100s\" is no HOST:PORT and no unix:PATH",
                         address);
    }
    bool known =
        options->tls_cert != NULL && (options->client_ca != NULL || options->token_file != NULL);
    if (!kilni_rpc_is_loopback(address) && !known && options->allow_public == 0) {
        return kiln_fail(
            err, PERMISSION_DENIED,
            "%s is beyond loopback: give a TLS certificate and key, and a client CA or "
            "a token file",
            address);
    }
    return KILN_STATUS_OK;
}

/// Sockets of others are this machine's own, or somebody has insisted.
static kiln_status copy_sockets(kiln_rpc_server *server, const kiln_rpc_server_options *options,
                                kiln_error *err)
{
    kiln_status status = KILN_STATUS_OK;
    for (uint32_t i = 0; i < options->n_listen_fds && status == KILN_STATUS_OK; i++) {
        char name[256] = "grpc://";
        char *address = name + strlen(name);
        status = kilni_rpc_socket_name(options->listen_fds[i], address, sizeof(name) - strlen(name),
                                       err);
        if (status == KILN_STATUS_OK && !kilni_rpc_is_loopback(address) &&
            options->allow_public == 0) {
            status = kiln_fail(err, PERMISSION_DENIED,
                               "%s is beyond loopback, and a socket that is handed over speaks no "
                               "TLS: give --listen instead",
                               address);
        }
        if (status == KILN_STATUS_OK) {
            server->fds[server->n_fds] = options->listen_fds[i];
            status = copy_text(server->env, strncmp(address, "unix:", 5) == 0 ? address : name,
                               &server->names[server->n_listen + server->n_fds++], err);
        }
    }
    return status;
}

static kiln_status copy_addresses(kiln_rpc_server *server, const kiln_rpc_server_options *options,
                                  kiln_error *err)
{
    static const char *const usual[] = {"127.0.0.1:0"};
    const char *const *listen = options->n_listen > 0 ? options->listen : usual;
    uint32_t count = options->n_listen > 0 ? options->n_listen : options->n_listen_fds == 0;
    kiln_status status = KILN_STATUS_OK;
    if (count > KILNI_RPC_ADDRESSES || options->n_listen_fds > KILNI_RPC_ADDRESSES - count ||
        options->n_fetch_peers > KILNI_RPC_PEERS) {
        return kiln_fail(err, INVALID_ARGUMENT, "at most %d addresses and %d peers",
                         KILNI_RPC_ADDRESSES, KILNI_RPC_PEERS);
    }
    for (uint32_t i = 0; i < count && status == KILN_STATUS_OK; i++) {
        status = check_listen(options, listen[i], err);
        if (status == KILN_STATUS_OK) {
            status = copy_text(server->env, listen[i], &server->listen[server->n_listen++], err);
        }
    }
    if (status == KILN_STATUS_OK) {
        status = copy_sockets(server, options, err);
    }
    for (uint32_t i = 0; i < options->n_fetch_peers && status == KILN_STATUS_OK; i++) {
        kilni_rpc_address parsed;
        status = kilni_rpc_address_parse(options->fetch_peers[i], &parsed, err);
        if (status == KILN_STATUS_OK) {
            status = copy_text(server->env, options->fetch_peers[i],
                               &server->allowed[server->peers.n_allowed++], err);
        }
    }
    if (status == KILN_STATUS_OK && options->advertise != NULL) {
        kilni_rpc_address parsed;
        status = kilni_rpc_address_parse(options->advertise, &parsed, err);
    }
    if (status == KILN_STATUS_OK) {
        status = copy_text(server->env, options->advertise, &server->advertise, err);
    }
    return status;
}

kiln_status kilni_rpc_server_name(kiln_rpc_server *server, const int *ports, kiln_error *err)
{
    const char *scheme = server->identity.certificate != NULL ? "grpcs" : "grpc";
    for (uint32_t i = 0; i < server->n_listen; i++) {
        char name[256];
        const char *address = server->listen[i];
        if (strncmp(address, "unix:", 5) == 0) {
            snprintf(name, sizeof(name), "%s", address);
        } else {
            snprintf(name, sizeof(name), "%s://%.*s:%d", scheme,
                     (int)(strrchr(address, ':') - address), address, ports[i]);
        }
        kiln_status status = copy_text(server->env, name, &server->names[i], err);
        if (status != KILN_STATUS_OK) {
            return status;
        }
        server->own[server->peers.n_own++] = server->names[i];
    }
    for (uint32_t i = server->n_listen; i < server->n_listen + server->n_fds; i++) {
        server->own[server->peers.n_own++] = server->names[i];
    }
    if (server->advertise != NULL) {
        server->own[server->peers.n_own++] = server->advertise;
    }
    return KILN_STATUS_OK;
}

// ---- places ----

/// How many calls of a kind run at a time.
enum { TRUSTED_CALLS = 64, MODEL_CALLS = 512, REFLECTIONS = 32, OPEN_CALLS = 32, WATCHES = 128 };
enum { NEW_CALLS = 1024 };

/// Where there are several identities, none gets more than half of the places.
uint32_t kilni_rpc_places(const kiln_rpc_server *server, kilni_rpc_kind kind, bool of_one)
{
    static const uint32_t most[KILNI_RPC_KINDS] = {
        [KILNI_RPC_KIND_TRUSTED] = TRUSTED_CALLS,  [KILNI_RPC_KIND_MODEL] = MODEL_CALLS,
        [KILNI_RPC_KIND_REFLECTION] = REFLECTIONS, [KILNI_RPC_KIND_OPEN] = OPEN_CALLS,
        [KILNI_RPC_KIND_WATCH] = WATCHES,          [KILNI_RPC_KIND_NEW] = NEW_CALLS};
    uint32_t all = kind == KILNI_RPC_KIND_SESSION ? server->max_sessions : most[kind];
    bool several = server->files[KILNI_RPC_FILE_TOKENS] != NULL ||
                   server->files[KILNI_RPC_FILE_CLIENT_CA] != NULL;
    return of_one && several ? (all + 1) / 2 : all;
}

// ---- all of them ----

static void set_limits(kiln_rpc_server *server, const kiln_rpc_server_options *options)
{
    kilni_rpc_limits *limits = &server->session.limits;
    uint64_t memory = UINT64_MAX;
    for (uint32_t i = 0; i < server->session.n_devices; i++) {
        uint64_t own = kiln_device_info_of(server->devices[i])->memory_bytes;
        memory = own < memory ? own : memory;
    }
    server->session.max_raw_bytes =
        options->max_raw_bytes > 0 ? options->max_raw_bytes : memory / 2;
    server->session.raw_bytes = &server->raw_bytes;
    server->session.operations = &server->operations;
    limits->max_bytes = options->max_bytes > 0 ? options->max_bytes : memory / 2;
    limits->max_buffers = options->max_buffers > 0 ? options->max_buffers : 65536;
    limits->max_graphs = options->max_graphs > 0 ? options->max_graphs : 1024;
    limits->max_data_bytes = KILNI_RPC_CHUNK;
    server->models = options->models;
    server->event = options->event;
    server->event_user = options->event_user;
    server->last = options->last != 0;
    server->max_request_bytes =
        options->max_request_bytes > 0 ? options->max_request_bytes : 64 << 20;
    server->max_sessions = options->max_sessions > 0 ? options->max_sessions : 64;
    server->session.resume_seconds = options->resume_seconds > 0 ? options->resume_seconds : 60;
}

/// A folder that cannot be had only costs uploads.
static void open_vault(kiln_rpc_server *server)
{
    const kiln_env *env = server->env;
    static const char below[] = "/weights";
    char folder[4096];
    kiln_error why = KILN_ERROR_INIT;
    int64_t limit =
        env->config != NULL ? kiln_config_int(env->config, KILN_OPTION_WEIGHTS_LIMIT) : 0;
    if (limit <= 0 ||
        kiln_cache_dir(env, folder, sizeof(folder) - sizeof(below), &why) != KILN_STATUS_OK) {
        return;
    }
    memcpy(folder + strlen(folder), below, sizeof(below));
    if (kilni_rpc_vault_open(env, folder, (uint64_t)limit, &server->session.vault, &why) !=
        KILN_STATUS_OK) {
        kiln_log_write(env, KILN_LOG_WARN, "remote", "weights are not kept: %s", why.message);
    }
}

kiln_status kilni_rpc_server_settings(kiln_rpc_server *server,
                                      const kiln_rpc_server_options *options, kiln_error *err)
{
    for (uint32_t i = 1; i < server->session.n_devices; i++) {
        if (kiln_device_context(server->devices[i]) != kiln_device_context(server->devices[0])) {
            return kiln_fail(err, INVALID_ARGUMENT, "a server's devices are of one context");
        }
    }
    set_limits(server, options);
    open_vault(server);
    kiln_status status =
        kilni_rpc_random(&server->session.instance, sizeof(server->session.instance), err);
    if (status == KILN_STATUS_OK) {
        status = copy_addresses(server, options, err);
    }
    if (status == KILN_STATUS_OK) {
        status = load_identity(server, options, err);
    }
    if (status == KILN_STATUS_OK) {
        status = load_self(server, err);
    }
    if (status == KILN_STATUS_OK) {
        status = kilni_rpc_signer_create(server->env, &server->signer, err);
    }
    server->peers.signer = server->signer;
    server->peers.allowed = (const char *const *)server->allowed;
    server->peers.own = server->own;
    server->peers.identity = &server->self;
    server->session.peers = &server->peers;
    server->session.advertise = server->advertise != NULL ? server->advertise : "";
    return status;
}

void kilni_rpc_server_settings_fini(kiln_rpc_server *server)
{
    for (size_t i = 0; i < KILNI_RPC_ADDRESSES; i++) {
        kiln_free(server->env, server->listen[i]);
        kiln_free(server->env, server->names[i]);
    }
    for (size_t i = 0; i < KILNI_RPC_PEERS; i++) {
        kiln_free(server->env, server->allowed[i]);
    }
    for (size_t i = 0; i < KILNI_RPC_FILES; i++) {
        kiln_free(server->env, server->files[i]);
    }
    kilni_rpc_signer_destroy(server->signer);
    kilni_rpc_vault_close(server->session.vault);
    kilni_rpc_identity_fini(server->env, &server->identity);
    kilni_rpc_identity_fini(server->env, &server->self);
    kiln_free(server->env, server->tokens);
    kiln_free(server->env, server->advertise);
}
