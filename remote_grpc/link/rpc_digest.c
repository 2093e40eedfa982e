// SPDX-License-Identifier: MIT OR Apache-2.0
// Digests of bytes. Decides who computes them: libcrypto, which gRPC links anyway and which uses
// the processor's instructions for SHA-256.

#include "rpc_digest.h"

#include <openssl/evp.h>

kiln_status kilni_rpc_digest_of(const void *bytes, size_t length, kilni_rpc_digest *out_digest,
                                kiln_error *err)
{
    unsigned int size = sizeof(out_digest->bytes);
    if (EVP_Digest(bytes, length, out_digest->bytes, &size, EVP_sha256(), NULL) != 1) {
        return kiln_fail(err, RESOURCE_EXHAUSTED, "libcrypto gives no SHA-256 of %zu bytes",
                         length);
    }
    return KILN_STATUS_OK;
}
