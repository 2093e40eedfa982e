// SPDX-License-Identifier: MIT OR Apache-2.0
// Secrets from the system's randomness, files with texts in PEM, and the identity that the options
// remote-* name. What TLS makes of it is rpc_channel.c's and rpc_listener.c's.

#include "rpc_identity.h"

#include "rpc_protocol.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

// ---- secrets and files ----

kiln_status kilni_rpc_random(void *bytes, size_t length, kiln_error *err)
{
    char *to = bytes;
    while (length > 0) {
        ssize_t got = getrandom(to, length, 0);
        if (got < 0 && errno != EINTR) {
            return kiln_fail(err, UNAVAILABLE, "the system gives no random numbers: %s",
                             strerror(errno));
        }
        to += got > 0 ? got : 0;
        length -= got > 0 ? (size_t)got : 0;
    }
    return KILN_STATUS_OK;
}

kiln_status kilni_rpc_transfer_id(uint64_t *out_id, kiln_error *err)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static uint64_t next;
    kiln_status status = KILN_STATUS_OK;
    pthread_mutex_lock(&lock);
    if (next == 0) {
        status = kilni_rpc_random(&next, sizeof(next), err);
    }
    next++;
    next += next == 0;
    *out_id = next;
    pthread_mutex_unlock(&lock);
    return status;
}

bool kilni_rpc_same_secret(const void *a, const void *b, size_t length)
{
    const volatile unsigned char *left = a;
    const volatile unsigned char *right = b;
    unsigned char difference = 0;
    for (size_t i = 0; i < length; i++) {
        difference |= (unsigned char)(left[i] ^ right[i]);
    }
    return difference == 0;
}

kiln_status kilni_rpc_read_file(const kiln_env *env, const char *path, char **out_text,
                                kiln_error *err)
{
    enum { MOST = 1 << 20 };
    *out_text = NULL;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return kiln_fail(err, NOT_FOUND, "cannot read %.160s: %s", path, strerror(errno));
    }
    char *text = kiln_alloc(env, MOST + 1);
    size_t length = text != NULL ? fread(text, 1, MOST, file) : 0;
    bool failed = text == NULL || ferror(file) != 0 || length == MOST;
    (void)fclose(file);
    if (failed) {
        kiln_free(env, text);
        return text == NULL ? kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for %.160s", path)
                            : kiln_fail(err, INVALID_ARGUMENT,
                                        "%.160s cannot be read or is too large", path);
    }
    text[length] = '\0';
    *out_text = text;
    return KILN_STATUS_OK;
}

// ---- identity ----

static kiln_status load_option(const kiln_env *env, kiln_option option, char **out_text,
                               kiln_error *err)
{
    const char *path = env->config != NULL ? kiln_config_string(env->config, option) : NULL;
    if (path == NULL || path[0] == '\0') {
        return KILN_STATUS_OK;
    }
    return kilni_rpc_read_file(env, path, out_text, err);
}

kiln_status kilni_rpc_identity_load(const kiln_env *env, kilni_rpc_identity *out_identity,
                                    kiln_error *err)
{
    kilni_rpc_identity identity = {NULL, NULL, NULL, NULL};
    kiln_status status = load_option(env, KILN_OPTION_REMOTE_CA, &identity.authorities, err);
    if (status == KILN_STATUS_OK) {
        status = load_option(env, KILN_OPTION_REMOTE_CERT, &identity.certificate, err);
    }
    if (status == KILN_STATUS_OK) {
        status = load_option(env, KILN_OPTION_REMOTE_KEY, &identity.key, err);
    }
    if (status == KILN_STATUS_OK) {
        status = load_option(env, KILN_OPTION_REMOTE_TOKEN_FILE, &identity.token, err);
    }
    if (status == KILN_STATUS_OK && identity.token != NULL) {
        identity.token[strcspn(identity.token, "\r\n")] = '\0';
        if (identity.token[0] == '\0' || strlen(identity.token) > 400) {
            status =
                kiln_fail(err, INVALID_ARGUMENT, "remote-token-file: a token has 1 to 400 bytes");
        }
    }
    if (status == KILN_STATUS_OK && (identity.certificate == NULL) != (identity.key == NULL)) {
        status =
            kiln_fail(err, INVALID_ARGUMENT, "set both remote-cert and remote-key, or neither");
    }
    if (status != KILN_STATUS_OK) {
        kilni_rpc_identity_fini(env, &identity);
        return status;
    }
    *out_identity = identity;
    return KILN_STATUS_OK;
}

void kilni_rpc_identity_fini(const kiln_env *env, kilni_rpc_identity *identity)
{
    kiln_free(env, identity->authorities);
    kiln_free(env, identity->certificate);
    kiln_free(env, identity->key);
    kiln_free(env, identity->token);
    *identity = (kilni_rpc_identity){NULL, NULL, NULL, NULL};
}
