// SPDX-License-Identifier: MIT OR Apache-2.0
// What those who call show of who they are: tokens, certificates, addresses. Whether it is enough
// is decided elsewhere.

#include "rpc_grpc.h"
#include "rpc_listener.h"

#include <grpc/support/alloc.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/// One that is longer is cut; control characters would disturb the log.
static void copy_name(const char *text, size_t length, char out_name[KILNI_RPC_CALLER])
{
    length = length < KILNI_RPC_CALLER ? length : KILNI_RPC_CALLER - 1;
    for (size_t i = 0; i < length; i++) {
        out_name[i] = text[i];
        if ((unsigned char)text[i] <= ' ' || text[i] == 127) {
            out_name[i] = '_';
        }
    }
    out_name[length] = '\0';
}

/// `line` has blanks between a name, which may be missing, and the token.
static size_t token_of(const char *line, size_t length, char out_name[KILNI_RPC_CALLER])
{
    size_t begin = length;
    while (begin > 0 && line[begin - 1] != ' ' && line[begin - 1] != '\t') {
        begin--;
    }
    size_t name = strspn(line, " \t");
    size_t end = begin;
    while (end > name && (line[end - 1] == ' ' || line[end - 1] == '\t')) {
        end--;
    }
    if (end > name) {
        copy_name(line + name, end - name, out_name);
    } else {
        uint64_t hash = kiln_hash64(line + begin, length - begin, 0);
        snprintf(out_name, KILNI_RPC_CALLER, "token-%012" PRIx64, hash >> 16);
    }
    return begin;
}

/// Compares with every line, so that the time does not tell which one is near.
static bool is_line_of(const char *tokens, const char *given, size_t length,
                       char out_name[KILNI_RPC_CALLER])
{
    bool found = false;
    for (const char *line = tokens; *line != '\0';) {
        char name[KILNI_RPC_CALLER];
        size_t line_length = strcspn(line, "\r\n");
        size_t begin = token_of(line, line_length, name);
        if (line_length - begin == length && length > 0 &&
            kilni_rpc_same_secret(line + begin, given, length)) {
            memcpy(out_name, name, sizeof(name));
            found = true;
        }
        line += line_length;
        line += strspn(line, "\r\n");
    }
    return found;
}

bool kilni_rpc_is_token(const char *text, size_t length, const char *tokens,
                        char out_name[KILNI_RPC_CALLER])
{
    static const char scheme[] = "bearer "; // RFC 7235: its case does not count
    size_t head = sizeof(scheme) - 1;
    return length > head && strncasecmp(text, scheme, head) == 0 &&
           is_line_of(tokens, text + head, length - head, out_name);
}

bool kilni_rpc_is_authorized(const kilni_rpc_stream *stream, const char *tokens,
                             char out_name[KILNI_RPC_CALLER])
{
    bool found = false;
    for (size_t i = 0; i < stream->metadata.count; i++) {
        const grpc_metadata *each = &stream->metadata.metadata[i];
        if (grpc_slice_str_cmp(each->key, "authorization") == 0) {
            found = kilni_rpc_is_token((const char *)GRPC_SLICE_START_PTR(each->value),
                                       GRPC_SLICE_LENGTH(each->value), tokens, out_name) ||
                    found;
        }
    }
    return found;
}

bool kilni_rpc_certificate_name(const kilni_rpc_stream *stream, char out_name[KILNI_RPC_CALLER])
{
    grpc_auth_context *context = grpc_call_auth_context(stream->call);
    bool found = false;
    if (context != NULL && grpc_auth_context_peer_is_authenticated(context) != 0) {
        grpc_auth_property_iterator each =
            grpc_auth_context_find_properties_by_name(context, GRPC_X509_CN_PROPERTY_NAME);
        const grpc_auth_property *name = grpc_auth_property_iterator_next(&each);
        if (name == NULL || name->value_length == 0) {
            each = grpc_auth_context_peer_identity(context);
            name = grpc_auth_property_iterator_next(&each);
        }
        found = name != NULL && name->value_length > 0;
        if (found) {
            copy_name(name->value, name->value_length, out_name);
        }
    }
    grpc_auth_context_release(context);
    return found;
}

void kilni_rpc_header(const kilni_rpc_stream *stream, const char *key, char *out_text, size_t size)
{
    out_text[0] = '\0';
    for (size_t i = 0; i < stream->metadata.count; i++) {
        const grpc_metadata *each = &stream->metadata.metadata[i];
        size_t length = GRPC_SLICE_LENGTH(each->value);
        if (grpc_slice_str_cmp(each->key, key) == 0 && length < size) {
            memcpy(out_text, GRPC_SLICE_START_PTR(each->value), length);
            out_text[length] = '\0';
        }
    }
}

void kilni_rpc_peer(const kilni_rpc_stream *stream, char *out_text, size_t size)
{
    char *peer = grpc_call_get_peer(stream->call);
    snprintf(out_text, size, "%s", peer != NULL ? peer : "");
    gpr_free(peer);
}
