// SPDX-License-Identifier: MIT OR Apache-2.0
//! The C side. Objects cross as pointers to boxes of this library; the host keeps the order of calls that kf_entry.h
//! promises, and that is all that the `unsafe` here relies on.
mod built;
mod calls;
pub mod operators;
pub mod table;
