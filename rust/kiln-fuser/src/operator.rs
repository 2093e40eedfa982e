// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operators of a plugin's own (kf_operators.h): what an author writes, and sees of a call.
use crate::op::{list, Value};
use crate::sys::*;
use crate::{Decline, Device, Op, Program};

/// One operator. All its functions are pure: the same arguments give the same answer, in any thread and process.
pub trait Operator: 'static {
    /// "domain::name".
    const NAME: &'static str;
    /// One line.
    const DOC: &'static str;
    /// Of the meaning: raise it when that changes.
    const VERSION: u32 = 1;
    const PARAMS: &'static [Param] = &[];
    /// How many at least and at most.
    const INPUTS: (u32, u32) = (1, 1);
    const OUTPUTS: u32 = 1;
    /// The program of one call; what it declines is computed by `reference`.
    const KERNEL: Option<Kernel> = None;
    /// Another operator of the plugin, of the same version and parameters; "": none.
    const GRADIENT: &'static str = "";

    /// Shapes and dtypes of the outputs. Extents may be 0.
    fn infer(call: &Call, inputs: &[Shape]) -> Result<Vec<Shape>, Decline>;

    /// What the operator means, on the host, with any strides.
    fn reference(call: &Call, inputs: &[Memory], outputs: &mut [Output]) -> Result<(), Decline>;
}

/// Tensors of the operation are numbered: inputs in order of first sight, then outputs.
pub type Kernel = fn(Device, Op) -> Result<Program, Decline>;

/// A parameter with what holds when it is left out.
#[repr(transparent)]
pub struct Param(kf_param);
unsafe impl Sync for Param {}

impl Param {
    pub const fn real(name: &'static str, fallback: f64) -> Param {
        Param::new(name, KF_TYPE_F64, 0, kf_attr_v { f: fallback })
    }
    pub const fn integer(name: &'static str, fallback: i64) -> Param {
        Param::new(name, KF_TYPE_I64, 0, kf_attr_v { i: fallback })
    }
    pub const fn truth(name: &'static str, fallback: bool) -> Param {
        Param::new(name, KF_TYPE_BOOL, 0, kf_attr_v { i: fallback as i64 })
    }
    /// Of any KF_TYPE_; it may not be left out.
    pub const fn required(name: &'static str, kind: u32) -> Param {
        Param::new(name, kind, KF_PARAM_REQUIRED, kf_attr_v { i: 0 })
    }
    const fn new(name: &'static str, kind: u32, flags: u32, v: kf_attr_v) -> Param {
        let name = kf_str { ptr: name.as_ptr().cast(), len: name.len() as u64 };
        Param(kf_param { name, flags, reserved: 0, fallback: kf_attr { key: 0, r#type: kind, flags: 0, count: 1, v } })
    }
}

/// The parameters of a call, all of them, in the order of `PARAMS`.
pub struct Call<'a>(pub(crate) &'a kf_call);

impl<'a> Call<'a> {
    pub fn param(&self, index: usize) -> Value<'a> {
        unsafe { Value::of(&list(self.0.attrs, self.0.n_attrs.into())[index]) }
    }
}

/// A tensor before it has memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// KF_DTYPE_*.
    pub dtype: u32,
    pub dims: Vec<i64>,
}

/// A type that elements of a KF_DTYPE_ have in memory.
///
/// # Safety
/// Any bytes of its size are a value, and `DTYPE` has such elements.
pub unsafe trait Element: Copy {
    const DTYPE: u32;
}

macro_rules! elements {
    ($($kind:ty = $dtype:expr),*) => {
        $(unsafe impl Element for $kind {
            const DTYPE: u32 = $dtype;
        })*
    };
}
elements!(f32 = KF_DTYPE_F32, f64 = KF_DTYPE_F64, i8 = KF_DTYPE_I8, i16 = KF_DTYPE_I16, i32 = KF_DTYPE_I32,
    i64 = KF_DTYPE_I64, u8 = KF_DTYPE_U8, u16 = KF_DTYPE_U16, u32 = KF_DTYPE_U32, u64 = KF_DTYPE_U64);

/// An input on the host.
pub struct Memory<'a>(pub(crate) &'a kf_memory);

impl Memory<'_> {
    /// KF_DTYPE_*.
    pub fn dtype(&self) -> u32 {
        self.0.dtype
    }
    pub fn dims(&self) -> &[i64] {
        &self.0.dims[..self.0.rank as usize]
    }
    /// How many elements.
    pub fn count(&self) -> i64 {
        self.dims().iter().product()
    }
    /// The element with this row-major number. Panics: there is none, or it is of another type.
    pub fn load<T: Element>(&self, index: i64) -> T {
        unsafe { *self.place::<T>(index) }
    }
    fn place<T: Element>(&self, mut index: i64) -> *mut T {
        assert_eq!(self.dtype(), T::DTYPE, "elements of another type");
        assert!(index >= 0 && index < self.count(), "element {} of {}", index, self.count());
        let mut at = 0;
        for axis in (0..self.dims().len()).rev() {
            at += index % self.0.dims[axis] * self.0.strides[axis];
            index /= self.0.dims[axis];
        }
        self.0.data.cast::<T>().wrapping_offset(at as isize)
    }
}

/// An output on the host; it shares no memory with inputs.
pub struct Output<'a>(pub(crate) Memory<'a>);

impl Output<'_> {
    /// KF_DTYPE_*.
    pub fn dtype(&self) -> u32 {
        self.0.dtype()
    }
    pub fn dims(&self) -> &[i64] {
        self.0.dims()
    }
    /// How many elements.
    pub fn count(&self) -> i64 {
        self.0.count()
    }
    /// Panics as [`Memory::load`] does.
    pub fn store<T: Element>(&mut self, index: i64, value: T) {
        unsafe { *self.0.place::<T>(index) = value }
    }
}
