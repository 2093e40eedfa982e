// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_TESTS_HTTP2_SCRIPT_H
#define KILN_TESTS_HTTP2_SCRIPT_H

/// Frames of HTTP/2 in any order, sent as bytes and not by gRPC's client. A script is short, so
/// that a change of a byte changes what is said and seldom whether it is a frame at all.
///
/// The first byte: bit 0, without the connection's greeting; bit 1, without SETTINGS; bit 2, the
/// connection is reset at the end rather than closed. Then steps, the kind modulo HTTP2_KINDS:
///
///     HTTP2_FRAME type flags stream length bytes...
///     HTTP2_CALL stream method           HEADERS that begin a call
///     HTTP2_SAY stream message           DATA with one of `said`, modulo their number
///     HTTP2_BYTES stream length bytes... DATA with these bytes as a message
///     HTTP2_HEAR                         what has come is read; waits a little for the first byte

#include "said.h"

enum { HTTP2_FRAME, HTTP2_CALL, HTTP2_SAY, HTTP2_BYTES, HTTP2_HEAR, HTTP2_KINDS };

/// Plays a script on a connection of its own to the socket file `path`. With `expected`, reads at
/// the end until these bytes have come, and gives whether they did within 20 s; otherwise whether
/// there was a connection.
bool http2_play(const char *path, const said *messages, const uint8_t *script, size_t size,
                const void *expected, size_t expected_length);

#endif
