// SPDX-License-Identifier: MIT OR Apache-2.0
// Reflection: which services there are, and the .proto files behind them, from the descriptor set
// that the build embeds. Reads and writes the few fields of descriptor.proto and reflection.proto
// by hand: they are length-delimited texts and messages, and none of the generated code would be
// smaller.

#include "rpc_services.h"
#include "rpc_wire.h"

#include <string.h>

enum { // descriptor.proto
    SET_FILE = 1,
    FILE_NAME = 1,
    FILE_PACKAGE = 2,
    FILE_DEPENDENCY = 3,
    FILE_MESSAGE = 4,
    FILE_ENUM = 5,
    FILE_SERVICE = 6,
    NAME = 1,
    SERVICE_METHOD = 2,
    MESSAGE_NESTED = 3,
    MESSAGE_ENUM = 4,
    // reflection.proto
    REQUEST_HOST = 1,
    REQUEST_FILE = 3,
    REQUEST_SYMBOL = 4,
    REQUEST_LIST = 7,
    REPLY_HOST = 1,
    REPLY_REQUEST = 2,
    REPLY_FILES = 4,
    REPLY_SERVICES = 6,
    REPLY_ERROR = 7,
    MAX_FILES = 32
};

typedef kilni_wire_piece piece;

/// The next field; numbers give an empty `out_value`.
static bool take_field(piece *from, uint32_t *out_number, piece *out_value)
{
    kilni_wire_field field;
    bool taken = kilni_wire_take(from, &field);
    *out_number = taken ? field.number : 0;
    *out_value = taken ? field.bytes : (piece){NULL, 0};
    return taken;
}

// ---- files and symbols ----

static size_t list_files(piece *out_files)
{
    piece set = {kilni_rpc_descriptors, kilni_rpc_descriptors_length};
    uint32_t number = 0;
    size_t count = 0;
    while (count < MAX_FILES && take_field(&set, &number, &out_files[count])) {
        count += number == SET_FILE;
    }
    return count;
}

/// Takes `name` and a dot off the front of `symbol`; true also when nothing is left.
static bool strip(piece *symbol, piece name)
{
    if (symbol->length < name.length || memcmp(symbol->bytes, name.bytes, name.length) != 0) {
        return false;
    }
    if (symbol->length == name.length) {
        symbol->length = 0;
        return true;
    }
    if (name.length > 0 && symbol->bytes[name.length] != '.') {
        return false;
    }
    symbol->bytes += name.length + (name.length > 0);
    symbol->length -= name.length + (name.length > 0);
    return true;
}

/// Whether `symbol` is the message `message`, or in it. At most the depth of the descriptors.
static bool in_message(piece message, piece symbol)
{
    uint32_t number = 0;
    piece value;
    if (!strip(&symbol, kilni_wire_get(message, NAME))) {
        return false;
    }
    if (symbol.length == 0) {
        return true;
    }
    while (take_field(&message, &number, &value)) {
        if ((number == MESSAGE_NESTED && in_message(value, symbol)) ||
            (number == MESSAGE_ENUM && kilni_wire_same(kilni_wire_get(value, NAME), symbol))) {
            return true;
        }
    }
    return false;
}

static bool in_service(piece service, piece symbol)
{
    uint32_t number = 0;
    piece value;
    if (!strip(&symbol, kilni_wire_get(service, NAME))) {
        return false;
    }
    while (symbol.length > 0 && take_field(&service, &number, &value)) {
        if (number == SERVICE_METHOD && kilni_wire_same(kilni_wire_get(value, NAME), symbol)) {
            return true;
        }
    }
    return symbol.length == 0;
}

static bool in_file(piece file, piece symbol)
{
    uint32_t number = 0;
    piece value;
    if (!strip(&symbol, kilni_wire_get(file, FILE_PACKAGE)) || symbol.length == 0) {
        return false;
    }
    while (take_field(&file, &number, &value)) {
        if ((number == FILE_MESSAGE && in_message(value, symbol)) ||
            (number == FILE_ENUM && kilni_wire_same(kilni_wire_get(value, NAME), symbol)) ||
            (number == FILE_SERVICE && in_service(value, symbol))) {
            return true;
        }
    }
    return false;
}

// ---- writing ----

static void put_error(kiln_string *out, kiln_status code, const char *text)
{
    kiln_string error;
    kiln_string_init(&error, out->env);
    kilni_wire_put_number(&error, 1, (uint64_t)code);
    kilni_wire_put(&error, 2, text, strlen(text));
    kilni_wire_put_message(out, REPLY_ERROR, &error);
}

/// A file and whatever it imports, each once.
static void put_files(kiln_string *out, const piece *files, size_t count, size_t start)
{
    bool wanted[MAX_FILES] = {false};
    bool more = true;
    kiln_string reply;
    kiln_string_init(&reply, out->env);
    wanted[start] = true;
    while (more) {
        more = false;
        for (size_t i = 0; i < count; i++) {
            piece file = files[i];
            uint32_t number = 0;
            piece name;
            while (wanted[i] && take_field(&file, &number, &name)) {
                for (size_t k = 0; number == FILE_DEPENDENCY && k < count; k++) {
                    bool is_it =
                        !wanted[k] && kilni_wire_same(kilni_wire_get(files[k], FILE_NAME), name);
                    wanted[k] = wanted[k] || is_it;
                    more = more || is_it;
                }
            }
        }
    }
    kilni_wire_put(&reply, 1, files[start].bytes, files[start].length);
    for (size_t i = 0; i < count; i++) {
        if (wanted[i] && i != start) {
            kilni_wire_put(&reply, 1, files[i].bytes, files[i].length);
        }
    }
    kilni_wire_put_message(out, REPLY_FILES, &reply);
}

static void put_services(kiln_string *out, const piece *files, size_t count)
{
    kiln_string reply;
    kiln_string_init(&reply, out->env);
    for (size_t i = 0; i < count; i++) {
        piece file = files[i];
        piece package = kilni_wire_get(file, FILE_PACKAGE);
        uint32_t number = 0;
        piece service;
        while (take_field(&file, &number, &service)) {
            kiln_string entry;
            kiln_string name;
            if (number != FILE_SERVICE) {
                continue;
            }
            piece own = kilni_wire_get(service, NAME);
            kiln_string_init(&entry, out->env);
            kiln_string_init(&name, out->env);
            kiln_string_printf(&name, "%.*s.%.*s", (int)package.length, (const char *)package.bytes,
                               (int)own.length, (const char *)own.bytes);
            kilni_wire_put(&entry, 1, name.text, name.length);
            kilni_wire_put(&reply, 1, entry.text, entry.length);
            reply.failed = reply.failed || entry.failed || name.failed;
            kiln_string_fini(&entry);
            kiln_string_fini(&name);
        }
    }
    kilni_wire_put_message(out, REPLY_SERVICES, &reply);
}

static void put_found(kiln_string *out, uint32_t kind, piece value)
{
    piece files[MAX_FILES + 1];
    size_t count = list_files(files);
    if (kind == REQUEST_LIST) {
        put_services(out, files, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if ((kind == REQUEST_FILE && kilni_wire_same(kilni_wire_get(files[i], FILE_NAME), value)) ||
            (kind == REQUEST_SYMBOL && in_file(files[i], value))) {
            put_files(out, files, count, i);
            return;
        }
    }
    if (kind == REQUEST_FILE || kind == REQUEST_SYMBOL) {
        put_error(out, KILN_STATUS_NOT_FOUND, "there is no such file or symbol");
    } else {
        put_error(out, KILN_STATUS_UNIMPLEMENTED, "there are no extensions");
    }
}

static kiln_status reply_to(const kiln_env *env, kilni_rpc_stream *stream, piece request,
                            kiln_error *err)
{
    kiln_string out;
    uint32_t kind = 0;
    piece left = request;
    piece value = {NULL, 0};
    piece wanted = {NULL, 0};
    uint32_t number = 0;
    while (take_field(&left, &number, &value)) {
        if (number > REQUEST_HOST) {
            kind = number;
            wanted = value;
        }
    }
    if (left.length > 0) {
        return kiln_fail(err, INVALID_ARGUMENT, "a damaged request");
    }
    piece host = kilni_wire_get(request, REQUEST_HOST);
    kiln_string_init(&out, env);
    kilni_wire_put(&out, REPLY_HOST, host.bytes, host.length);
    kilni_wire_put(&out, REPLY_REQUEST, request.bytes, request.length);
    put_found(&out, kind, wanted);
    kiln_status status = out.failed ? kiln_fail(err, RESOURCE_EXHAUSTED, "no memory for a reply")
                                    : kilni_rpc_send_bytes(stream, out.text, out.length, err);
    kiln_string_fini(&out);
    return status;
}

void kilni_rpc_serve_reflection(const kiln_env *env, kilni_rpc_stream *stream)
{
    enum { MOST_REQUEST = 4096, REQUEST_MS = 30000 }; // a call that is not used ends
    kiln_error err = KILN_ERROR_INIT;
    unsigned char request[MOST_REQUEST];
    kiln_status status = KILN_STATUS_OK;
    bool end = false;
    while (status == KILN_STATUS_OK && !end) {
        kilni_rpc_message message = {0};
        status = kilni_rpc_receive(stream, REQUEST_MS, &message, &end, &err);
        if (status == KILN_STATUS_OK && !end && message.length > sizeof(request)) {
            status = kiln_fail(&err, INVALID_ARGUMENT, "a request of %zu bytes", message.length);
        }
        if (status == KILN_STATUS_OK && !end) {
            kilni_rpc_message_copy(&message, 0, message.length, request);
            status = reply_to(env, stream, (piece){request, message.length}, &err);
        }
        kilni_rpc_message_free(&message);
    }
    kilni_rpc_stream_close(stream, status != KILN_STATUS_OK ? &err : NULL);
}
