// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kiln's tables that are more than numbers: what the elementwise operators compute, as OpenCL C
//! (`kf_elementwise.def`, whose head says what stands for what in a text), and the element types (`dtype.def`).
pub use crate::rows::{DTYPES, ELEMENTWISE};

/// An elementwise operator. A text is `None` where the operator does not take that kind of element.
pub struct Elementwise {
    pub op: u32,
    pub name: &'static str,
    /// In additions, for estimates.
    pub cost: u32,
    pub inputs: u32,
    pub scalars: u32,
    /// The result has the element type of input 0.
    pub same: bool,
    pub float: Option<&'static str>,
    pub signed: Option<&'static str>,
    pub unsigned: Option<&'static str>,
    pub boolean: Option<&'static str>,
}

/// An element type.
pub struct Dtype {
    pub dtype: u32,
    pub name: &'static str,
    /// Of an element; 0: elements are no whole bytes.
    pub bits: u32,
}

/// The operator with this KF_OP_ number.
pub fn elementwise(op: u32) -> Option<&'static Elementwise> {
    ELEMENTWISE.iter().find(|row| row.op == op)
}

/// The element type with this KF_DTYPE_ number.
pub fn dtype(dtype: u32) -> Option<&'static Dtype> {
    DTYPES.iter().find(|row| row.dtype == dtype)
}
