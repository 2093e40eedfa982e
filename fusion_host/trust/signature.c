// SPDX-License-Identifier: MIT OR Apache-2.0
// Signatures of plugins: Ed25519 (RFC 8032) over a file's bytes, 64 bytes in FILE.sig beside it;
// secret keys as `openssl genpkey -algorithm ed25519` writes them (RFC 8410), so that either tool
// can be used. The arithmetic is libcrypto's, opened when the first signature is looked at: a
// process that wants none does not pay for it. Whose keys count is plugin_trust.c's.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "plugin_trust.h"

enum {
    SIGNATURE_BYTES = 64,
    KEY_BYTES = 32,
    PREFIX_BYTES = 16,
    DER_BYTES = PREFIX_BYTES + KEY_BYTES,
    ED25519 = 1087, ///< libcrypto's number, obj_mac.h
    MAX_KEY_FILE = 4096
};

/// RFC 8410, 7: version 0, the algorithm's identifier, an octet string in an octet string.
static const unsigned char der_prefix[PREFIX_BYTES] = {
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20};
static const char pem_begin[] = "-----BEGIN PRIVATE KEY-----";
static const char pem_end[] = "-----END PRIVATE KEY-----";

// ---- libcrypto ----

typedef struct crypto { ///< what evp.h and rand.h of OpenSSL 1.1.1 to 3 declare
    void *(*public_key)(int type, void *engine, const unsigned char *key, size_t length);
    void *(*private_key)(int type, void *engine, const unsigned char *key, size_t length);
    int (*raw_public)(const void *key, unsigned char *out, size_t *length);
    void (*key_free)(void *key);
    void *(*context)(void);
    void (*context_free)(void *context);
    int (*verify_init)(void *context, void **pctx, const void *type, void *engine, void *key);
    int (*verify)(void *context, const unsigned char *signature, size_t signature_length,
                  const unsigned char *bytes, size_t length);
    int (*sign_init)(void *context, void **pctx, const void *type, void *engine, void *key);
    int (*sign)(void *context, unsigned char *out, size_t *out_length, const unsigned char *bytes,
                size_t length);
    int (*random)(unsigned char *out, int count);
    kiln_dynlib *library;
} crypto;

/// ISO C has no conversion from an object's address to a function's; POSIX says that it is the
/// same.
static bool find(kiln_dynlib *library, const char *name, void *out_function)
{
    void *address = kiln_dynlib_symbol(library, name);
    memcpy(out_function, &address, sizeof(address));
    return address != NULL;
}

static kiln_status crypto_open(const kiln_env *env, crypto *out, kiln_error *err)
{
    static const char *const names[] = {"libcrypto.so.3", "libcrypto.so.1.1"};
    *out = (crypto){0};
    for (size_t i = 0; i < 2 && out->library == NULL; i++) {
        (void)!kiln_dynlib_open(env, names[i], /*keep=*/true, &out->library, NULL);
    }
    kiln_dynlib *l = out->library;
    if (l != NULL && find(l, "EVP_PKEY_new_raw_public_key", &out->public_key) &&
        find(l, "EVP_PKEY_new_raw_private_key", &out->private_key) &&
        find(l, "EVP_PKEY_get_raw_public_key", &out->raw_public) &&
        find(l, "EVP_PKEY_free", &out->key_free) && find(l, "EVP_MD_CTX_new", &out->context) &&
        find(l, "EVP_MD_CTX_free", &out->context_free) &&
        find(l, "EVP_DigestVerifyInit", &out->verify_init) &&
        find(l, "EVP_DigestVerify", &out->verify) &&
        find(l, "EVP_DigestSignInit", &out->sign_init) && find(l, "EVP_DigestSign", &out->sign) &&
        find(l, "RAND_bytes", &out->random)) {
        return KILN_STATUS_OK;
    }
    kiln_dynlib_close(out->library);
    out->library = NULL;
    return kiln_fail(err, UNIMPLEMENTED,
                     "signatures need OpenSSL's libcrypto (Debian: libssl3), which is not there");
}

static bool made_by(const crypto *c, const unsigned char *key, const unsigned char *signature,
                    const void *bytes, size_t length)
{
    void *public_key = c->public_key(ED25519, NULL, key, KEY_BYTES);
    void *context = c->context();
    bool good = public_key != NULL && context != NULL &&
                c->verify_init(context, NULL, NULL, NULL, public_key) == 1 &&
                c->verify(context, signature, SIGNATURE_BYTES, bytes, length) == 1;
    c->context_free(context);
    c->key_free(public_key);
    return good;
}

// ---- small files ----

/// At most `capacity` bytes; how many, or -1.
static ssize_t read_some(int fd, void *out, size_t capacity)
{
    size_t length = 0;
    while (length < capacity) {
        ssize_t got = read(fd, (char *)out + length, capacity - length);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return -1;
        }
        if (got == 0) {
            break;
        }
        length += (size_t)got;
    }
    return (ssize_t)length;
}

static kiln_status write_file(const char *path, int flags, mode_t mode, const void *bytes,
                              size_t length, kiln_error *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | flags, mode);
    if (fd < 0 && errno == EEXIST) {
        return kiln_fail(err, ALREADY_EXISTS, "%.180s is there: it stays as it is", path);
    }
    bool ok = fd >= 0 && write(fd, bytes, length) == (ssize_t)length;
    int why = errno;
    ok = fd >= 0 && close(fd) == 0 && ok;
    return ok ? KILN_STATUS_OK
              : kiln_fail(err, PERMISSION_DENIED, "%.160s: %s", path, strerror(why));
}

// ---- verifying ----

static kiln_status read_signature(const char *path, unsigned char *out, kiln_error *err)
{
    char name[4200];
    unsigned char bytes[SIGNATURE_BYTES + 1];
    int length = snprintf(name, sizeof(name), "%s.sig", path);
    int fd = length < (int)sizeof(name) ? open(name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)
                                        : -1;
    if (fd < 0) {
        return kiln_fail(err, PERMISSION_DENIED,
                         "it is not signed: there is no FILE.sig beside it (`kiln plugin sign`)");
    }
    ssize_t got = read_some(fd, bytes, sizeof(bytes));
    (void)close(fd);
    if (got < 0) {
        return kiln_fail(err, PERMISSION_DENIED, "its FILE.sig cannot be read");
    }
    if (got != SIGNATURE_BYTES) {
        return kiln_fail(err, PERMISSION_DENIED, "its signature has %s%d bytes, not 64",
                         got > SIGNATURE_BYTES ? "more than " : "",
                         got > SIGNATURE_BYTES ? SIGNATURE_BYTES : (int)got);
    }
    memcpy(out, bytes, SIGNATURE_BYTES);
    return KILN_STATUS_OK;
}

kiln_status kilni_fuse_check_signature(const kiln_env *env, const char *path, const void *bytes,
                                       size_t length, const unsigned char *keys, size_t count,
                                       kiln_error *err)
{
    unsigned char signature[SIGNATURE_BYTES];
    crypto c;
    kiln_status status = read_signature(path, signature, err);
    if (status == KILN_STATUS_OK) {
        status = crypto_open(env, &c, err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    bool good = false;
    for (size_t i = 0; i < count && !good; i++) {
        good = made_by(&c, keys + KEY_BYTES * i, signature, bytes, length);
    }
    kiln_dynlib_close(c.library);
    return good ? KILN_STATUS_OK
                : kiln_fail(err, PERMISSION_DENIED,
                            "its signature is not of these bytes by a key of plugin-keys");
}

// ---- secret keys ----

static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// 48 bytes are 64 characters, without padding.
static void encode(const unsigned char *der, char *out)
{
    for (size_t i = 0; i < DER_BYTES; i += 3) {
        uint32_t bits = (uint32_t)der[i] << 16 | (uint32_t)der[i + 1] << 8 | der[i + 2];
        for (unsigned k = 0; k < 4; k++) {
            *out++ = base64[bits >> (18 - 6 * k) & 63];
        }
    }
}

static bool decode(const char *text, unsigned char *out)
{
    for (size_t i = 0; i < DER_BYTES; i += 3) {
        uint32_t bits = 0;
        for (unsigned k = 0; k < 4; k++, text++) {
            const char *at = *text != 0 ? strchr(base64, *text) : NULL;
            if (at == NULL) {
                return false;
            }
            bits = bits << 6 | (uint32_t)(at - base64);
        }
        out[i] = (unsigned char)(bits >> 16);
        out[i + 1] = (unsigned char)(bits >> 8);
        out[i + 2] = (unsigned char)bits;
    }
    return true;
}

static bool parse_key(const char *text, unsigned char *out_key)
{
    unsigned char der[DER_BYTES];
    const char *at = strstr(text, pem_begin);
    if (at == NULL) {
        return false;
    }
    at += sizeof(pem_begin) - 1;
    at += strspn(at, "\r\n");
    bool good = decode(at, der) && memcmp(der, der_prefix, PREFIX_BYTES) == 0;
    if (good) {
        at += DER_BYTES / 3 * 4;
        at += strspn(at, "\r\n");
        good = strncmp(at, pem_end, sizeof(pem_end) - 1) == 0;
    }
    memcpy(out_key, der + PREFIX_BYTES, good ? KEY_BYTES : 0);
    return good;
}

static kiln_status read_key(const char *path, unsigned char *out_key, kiln_error *err)
{
    char text[MAX_KEY_FILE + 1];
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &info) != 0) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return kiln_fail(err, NOT_FOUND, "key %.160s: %s", path, strerror(errno));
    }
    ssize_t length = read_some(fd, text, MAX_KEY_FILE);
    (void)close(fd);
    if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        return kiln_fail(err, PERMISSION_DENIED,
                         "key %.160s can be read by others: it is no secret (chmod 600)", path);
    }
    text[length > 0 ? length : 0] = 0;
    return parse_key(text, out_key)
               ? KILN_STATUS_OK
               : kiln_fail(err, INVALID_ARGUMENT, "%.160s has no Ed25519 key in PEM", path);
}

kiln_status kiln_fuse_key_create(const kiln_env *env, const char *key_path, kiln_error *err)
{
    unsigned char der[DER_BYTES];
    char body[DER_BYTES / 3 * 4 + 1] = "", text[200];
    crypto c;
    kiln_status status = crypto_open(env, &c, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    memcpy(der, der_prefix, PREFIX_BYTES);
    bool random = c.random(der + PREFIX_BYTES, KEY_BYTES) == 1;
    kiln_dynlib_close(c.library);
    if (!random) {
        return kiln_fail(err, UNAVAILABLE, "there are no random numbers for a key");
    }
    encode(der, body);
    int length = snprintf(text, sizeof(text), "%s\n%s\n%s\n", pem_begin, body, pem_end);
    return write_file(key_path, O_EXCL, 0600, text, (size_t)length, err);
}

kiln_status kiln_fuse_key_public(const kiln_env *env, const char *key_path, char out_hex[65],
                                 kiln_error *err)
{
    unsigned char secret[KEY_BYTES], public_bytes[KEY_BYTES];
    size_t length = KEY_BYTES;
    crypto c;
    kiln_status status = read_key(key_path, secret, err);
    if (status == KILN_STATUS_OK) {
        status = crypto_open(env, &c, err);
    }
    if (status != KILN_STATUS_OK) {
        return status;
    }
    void *key = c.private_key(ED25519, NULL, secret, KEY_BYTES);
    bool good = key != NULL && c.raw_public(key, public_bytes, &length) == 1;
    c.key_free(key);
    kiln_dynlib_close(c.library);
    for (size_t i = 0; good && i < KEY_BYTES; i++) {
        snprintf(out_hex + 2 * i, 3, "%02x", public_bytes[i]);
    }
    return good ? KILN_STATUS_OK
                : kiln_fail(err, INTERNAL, "libcrypto takes no key of %.160s", key_path);
}

// ---- signing ----

static kiln_status sign_bytes(const crypto *c, const unsigned char *secret, const void *bytes,
                              size_t length, unsigned char *out, kiln_error *err)
{
    size_t out_length = SIGNATURE_BYTES;
    void *key = c->private_key(ED25519, NULL, secret, KEY_BYTES);
    void *context = c->context();
    bool good =
        key != NULL && context != NULL && c->sign_init(context, NULL, NULL, NULL, key) == 1 &&
        c->sign(context, out, &out_length, bytes, length) == 1 && out_length == SIGNATURE_BYTES;
    c->context_free(context);
    c->key_free(key);
    return good ? KILN_STATUS_OK : kiln_fail(err, INTERNAL, "libcrypto does not sign");
}

kiln_status kiln_fuse_sign(const kiln_env *env, const char *key_path, const char *path,
                           kiln_error *err)
{
    unsigned char secret[KEY_BYTES], signature[SIGNATURE_BYTES];
    char name[4200];
    char *bytes = NULL;
    size_t length = 0;
    crypto c = {0};
    kiln_status status = read_key(key_path, secret, err);
    KILN_TRY(out, status, status);
    KILN_TRY(out, status, kilni_fuse_read_plugin(env, path, &bytes, &length, err));
    KILN_TRY(out, status, crypto_open(env, &c, err));
    KILN_TRY(out, status, sign_bytes(&c, secret, bytes, length, signature, err));
    if (snprintf(name, sizeof(name), "%s.sig", path) >= (int)sizeof(name)) {
        status = kiln_fail(err, INVALID_ARGUMENT, "the path is too long");
        goto out;
    }
    status = write_file(name, O_TRUNC, 0644, signature, sizeof(signature), err);
out:
    kiln_dynlib_close(c.library);
    kiln_free(env, bytes);
    return status;
}
