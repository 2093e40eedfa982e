// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_RPC_CERTIFICATE_H
#define KILN_RPC_CERTIFICATE_H

/// Certificates of our own, before gRPC gets them.

#include "base.h"

/// Whether the first certificate of a PEM text is good now. What is none is left to gRPC. Errors:
/// FAILED_PRECONDITION with the date.
kiln_status kilni_rpc_certificate_check(const kiln_env *env, const char *pem, kiln_error *err);

#endif
