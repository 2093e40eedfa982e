// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_ADDRESS_H
#define KILN_RPC_ADDRESS_H

/// What an address means.

#include "base.h"

typedef struct kilni_rpc_address {
    char scheme[8]; ///< "grpc", "grpcs" or "unix"
    char host[256]; ///< lower case, IPv6 without brackets; of unix: the path
    uint16_t port;
    uint32_t device;
    char target[288]; ///< HOST:PORT or unix:PATH
    char text[320]; ///< canonical, with the device
} kilni_rpc_address;

/// Parses "grpc://HOST[:PORT][/DEVICE]", "grpcs://..." and "unix:PATH[#DEVICE]". Errors:
/// INVALID_ARGUMENT.
kiln_status kilni_rpc_address_parse(const char *text, kilni_rpc_address *out_address,
                                    kiln_error *err);

/// Servers that stand for each other: one of them is dialled.
enum { KILNI_RPC_SERVERS = 16 };
typedef struct kilni_rpc_addresses {
    kilni_rpc_address each[KILNI_RPC_SERVERS]; ///< of one scheme and device
    uint32_t count;
    char text[2048]; ///< canonical: "grpc://A:3000,B:3000/0"
} kilni_rpc_addresses;

/// Parses an address, or one whose host is a list, "grpc://HOST[:PORT],HOST[:PORT][/DEVICE]".
/// Errors: INVALID_ARGUMENT.
kiln_status kilni_rpc_addresses_parse(const char *text, kilni_rpc_addresses *out_addresses,
                                      kiln_error *err);

/// The address, or when it is a scheme alone, such as "grpc:", what the option remote-address
/// names.
const char *kilni_rpc_address_or_default(const kiln_env *env, const char *address);
bool kilni_rpc_address_is_tls(const kilni_rpc_address *address);

#endif
