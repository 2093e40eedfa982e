// SPDX-License-Identifier: MIT OR Apache-2.0
// Limits of the wire, as plain arithmetic: every number from a peer passes here before it is used
// as a size.

#include "rpc_limits.h"

#include <string.h>

kiln_status kilni_rpc_check_range(uint64_t offset, uint64_t length, uint64_t size, const char *what,
                                  kiln_error *err)
{
    if (offset > size || length > size - offset) {
        return kiln_fail(err, OUT_OF_RANGE, "%s of %llu bytes at %llu, the buffer has %llu", what,
                         (unsigned long long)length, (unsigned long long)offset,
                         (unsigned long long)size);
    }
    return KILN_STATUS_OK;
}

kiln_status kilni_rpc_check_bytes(const kilni_rpc_limits *limits, uint64_t held, uint64_t more,
                                  kiln_error *err)
{
    if (held > limits->max_bytes || more > limits->max_bytes - held) {
        return kiln_fail(err, RESOURCE_EXHAUSTED,
                         "the session holds %llu bytes and asks for %llu more; %llu are allowed",
                         (unsigned long long)held, (unsigned long long)more,
                         (unsigned long long)limits->max_bytes);
    }
    return KILN_STATUS_OK;
}

kiln_status kilni_rpc_check_buffers(const kilni_rpc_limits *limits, uint64_t held, kiln_error *err)
{
    if (held >= limits->max_buffers) {
        return kiln_fail(err, RESOURCE_EXHAUSTED,
                         "the session holds %llu buffers, the most allowed",
                         (unsigned long long)held);
    }
    return KILN_STATUS_OK;
}

/// Whether `address` is 127.x.y.z:PORT, in decimal numbers; "127.example.org:80" is a name.
static bool is_loopback_number(const char *address)
{
    for (int part = 0; part < 4; part++) {
        int number = 0;
        int digits = 0;
        for (; *address >= '0' && *address <= '9' && digits < 3; address++, digits++) {
            number = number * 10 + (*address - '0');
        }
        if (digits == 0 || number > 255 || (part == 0 && number != 127) ||
            *address != (part < 3 ? '.' : ':')) {
            return false;
        }
        address++;
    }
    return true;
}

bool kilni_rpc_is_loopback(const char *address)
{
    static const char *const local[] = {"unix:", "localhost:", "[::1]:"};
    for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++) {
        if (strncmp(address, local[i], strlen(local[i])) == 0) {
            return true;
        }
    }
    return is_loopback_number(address);
}
