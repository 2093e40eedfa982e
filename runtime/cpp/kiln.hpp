// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_HPP
#define KILN_KILN_HPP

/// Kiln for C++17: handles, operators and exceptions over kiln.h, in headers alone.
///
/// A handle (Context, Device, Tensor, Graph) is a reference to an object of Kiln: a copy is one
/// more reference, and a handle that was moved from is undefined, as one that was never made. The
/// functions of the operator table come from kiln_ops.hpp, which the build writes.
///
/// Any thread may call these functions, with handles of its own; what kiln.h says of each object
/// holds here too. A call that fails throws kiln::Error with the text of the C record. With
/// KILN_NO_EXCEPTIONS defined, it gives an undefined handle or an empty value, and the first
/// failure of each thread is kept for kiln::take_error.

#include "kiln_device.hpp"
#include "kiln_error.hpp"
#include "kiln_graph.hpp"
#include "kiln_ops.hpp"
#include "kiln_tensor.hpp"

#endif
