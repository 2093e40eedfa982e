// SPDX-License-Identifier: MIT OR Apache-2.0
// Keys and signatures by libcrypto. Keys live as long as the server: they say that two messages are
// of one process, not whose it is.

#include "rpc_signature.h"

#include <openssl/evp.h>

struct kilni_rpc_signer {
    const kiln_env *env;
    EVP_PKEY *key;
    unsigned char public_key[KILNI_RPC_PUBLIC_KEY];
};

static EVP_PKEY *make_key(void)
{
    EVP_PKEY *key = NULL;
    EVP_PKEY_CTX *maker = EVP_PKEY_CTX_new_id(EVP_PKEY_ED25519, NULL);
    if (maker != NULL && EVP_PKEY_keygen_init(maker) == 1) {
        (void)EVP_PKEY_keygen(maker, &key);
    }
    EVP_PKEY_CTX_free(maker);
    return key;
}

kiln_status kilni_rpc_signer_create(const kiln_env *env, kilni_rpc_signer **out_signer,
                                    kiln_error *err)
{
    size_t length = KILNI_RPC_PUBLIC_KEY;
    kilni_rpc_signer *signer = kiln_alloc(env, sizeof(*signer));
    if (signer == NULL) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a server's key");
    }
    signer->env = env;
    signer->key = make_key();
    if (signer->key == NULL ||
        EVP_PKEY_get_raw_public_key(signer->key, signer->public_key, &length) != 1) {
        kilni_rpc_signer_destroy(signer);
        return kiln_fail(err, RESOURCE_EXHAUSTED, "libcrypto makes no key of Ed25519");
    }
    *out_signer = signer;
    return KILN_STATUS_OK;
}

void kilni_rpc_signer_destroy(kilni_rpc_signer *signer)
{
    if (signer != NULL) {
        EVP_PKEY_free(signer->key);
        kiln_free(signer->env, signer);
    }
}

const unsigned char *kilni_rpc_public_key(const kilni_rpc_signer *signer)
{
    return signer->public_key;
}

kiln_status kilni_rpc_sign(const kilni_rpc_signer *signer, const void *text, size_t length,
                           unsigned char out_signature[KILNI_RPC_SIGNATURE], kiln_error *err)
{
    size_t size = KILNI_RPC_SIGNATURE;
    EVP_MD_CTX *pen = EVP_MD_CTX_new();
    bool done = pen != NULL && EVP_DigestSignInit(pen, NULL, NULL, NULL, signer->key) == 1 &&
                EVP_DigestSign(pen, out_signature, &size, text, length) == 1;
    EVP_MD_CTX_free(pen);
    return done ? KILN_STATUS_OK : kiln_fail(err, RESOURCE_EXHAUSTED, "libcrypto signs nothing");
}

bool kilni_rpc_is_signed(const unsigned char key[KILNI_RPC_PUBLIC_KEY], const void *text,
                         size_t length, const unsigned char signature[KILNI_RPC_SIGNATURE])
{
    EVP_PKEY *owner =
        EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, key, KILNI_RPC_PUBLIC_KEY);
    EVP_MD_CTX *lens = EVP_MD_CTX_new();
    bool good = owner != NULL && lens != NULL &&
                EVP_DigestVerifyInit(lens, NULL, NULL, NULL, owner) == 1 &&
                EVP_DigestVerify(lens, signature, KILNI_RPC_SIGNATURE, text, length) == 1;
    EVP_MD_CTX_free(lens);
    EVP_PKEY_free(owner);
    return good;
}
