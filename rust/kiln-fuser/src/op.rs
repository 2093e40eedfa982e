// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the host shows: operations, tensors and attributes, alive during the call.
use crate::sys::*;
use crate::{product, tables, Formula};
use std::{marker::PhantomData, mem::size_of, slice};

/// A list of the host's; an absent one is empty.
pub(crate) unsafe fn list<'a, T>(at: *const T, n: u64) -> &'a [T] {
    if at.is_null() || n == 0 {
        return &[];
    }
    slice::from_raw_parts(at, n as usize)
}

/// Is everything behind the struct as we know it zero?
unsafe fn tail_is_zero<T>(object: &T, struct_size: u32) -> bool {
    let (known, all) = (size_of::<T>(), struct_size as usize);
    all >= known // these structs are 1.0's, and no host shows less
        && slice::from_raw_parts((object as *const T).cast::<u8>().add(known), all - known).iter().all(|b| *b == 0)
}

/// An operation of the stream.
#[derive(Clone, Copy)]
pub struct Op<'a> {
    op: &'a kf_op,
    block: *const kf_block,
    call: PhantomData<&'a kf_block>,
}

impl<'a> Op<'a> {
    /// Both are the host's, for as long as `'a`.
    pub(crate) unsafe fn new(op: &'a kf_op, block: *const kf_block) -> Op<'a> {
        Op { op, block, call: PhantomData }
    }
    /// KF_OP_*.
    pub fn kind(self) -> u32 {
        self.op.kind
    }
    /// Its place in the block, drops counted.
    pub fn position(self) -> u32 {
        self.op.position
    }
    pub fn inputs(self) -> Vec<Tensor<'a>> {
        unsafe { list(self.op.inputs, self.op.n_inputs.into()).iter().map(|t| Tensor(&**t)).collect() }
    }
    pub fn outputs(self) -> Vec<Tensor<'a>> {
        unsafe { list(self.op.outputs, self.op.n_outputs.into()).iter().map(|t| Tensor(&**t)).collect() }
    }
    /// The tensor that KF_OP_DROP says is dead; `None`: the operation is no drop, or a newer kind of one.
    pub fn dropped(self) -> Option<Tensor<'a>> {
        if self.kind() != KF_OP_DROP || !self.understood(1, &[]) {
            return None;
        }
        self.inputs().first().copied()
    }
    /// Keys and values of attributes that must be understood: those that are no hints.
    pub fn attrs(self) -> impl Iterator<Item = (u32, Value<'a>)> {
        let all: &'a [kf_attr] = unsafe { list(self.op.attrs, self.op.n_attrs.into()) };
        all.iter().filter(|a| a.flags & KF_ATTR_FLAG_HINT == 0).map(|a| (a.key, unsafe { Value::of(a) }))
    }
    /// The attribute with this KF_ATTR_ key.
    pub fn attr(self, key: u32) -> Option<Value<'a>> {
        self.attrs().find(|(k, _)| *k == key).map(|(_, value)| value)
    }
    /// The parameter with this number of an operator that a plugin brings (KF_PARAM_KEY).
    pub fn param(self, index: u32) -> Option<Value<'a>> {
        self.attr(0x10000 + index)
    }
    /// Is nothing here newer than this plugin: neither the operator's version, nor an attribute outside of `keys`, a
    /// flag, a quantisation scheme? An operation that is not understood must be declined.
    pub fn understood(self, version: u32, keys: &[u32]) -> bool {
        let (op, attrs) = (self.op, unsafe { list(self.op.attrs, self.op.n_attrs.into()) });
        let known = |a: &kf_attr| a.flags & KF_ATTR_FLAG_HINT != 0 || a.flags == 0 && keys.contains(&a.key);
        (unsafe { tail_is_zero(op, op.struct_size) })
            && op.version <= version
            && op.flags & !KF_OP_KNOWN_FLAGS == 0
            && attrs.iter().all(known)
            && self.inputs().into_iter().chain(self.outputs()).all(Tensor::understood)
    }
    /// The extent of a symbol. Asking has a price: the plan then holds for this extent only.
    pub fn extent(self, symbol: u32) -> Option<i64> {
        let mut value = 0;
        let ask = unsafe { self.block.as_ref() }?.dim_value?;
        (unsafe { ask(self.block, symbol, &mut value) } == KF_OK).then(|| value)
    }
    /// The number behind [`Value::Scalar`]; the price is the same.
    pub fn scalar(self, index: u32) -> Option<Number> {
        let mut value = kf_scalar::default();
        let ask = unsafe { self.block.as_ref() }?.scalar_value?;
        if unsafe { ask(self.block, index, &mut value) } != KF_OK {
            return None;
        }
        unsafe {
            match value.r#type {
                KF_TYPE_I64 => Some(Number::I64(value.v.i)),
                KF_TYPE_F64 => Some(Number::F64(value.v.f)),
                KF_TYPE_BOOL => Some(Number::Bool(value.v.i != 0)),
                _ => None,
            }
        }
    }
}

/// The value of a scalar that was asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    I64(i64),
    F64(f64),
    Bool(bool),
}

/// The value of an attribute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    I64(i64),
    F64(f64),
    Bool(bool),
    Dtype(u32),
    I64s(&'a [i64]),
    F64s(&'a [f64]),
    Text(&'a [u8]),
    /// A constant tensor, which is not shown.
    Tensor,
    /// The number with this index in the block, which only the kernel knows: `Arg::Scalar`.
    Scalar(u32),
    /// Of a type that is newer than this plugin.
    Unknown,
}

impl<'a> Value<'a> {
    pub(crate) unsafe fn of(a: &'a kf_attr) -> Value<'a> {
        match a.r#type {
            KF_TYPE_I64 => Value::I64(a.v.i),
            KF_TYPE_F64 => Value::F64(a.v.f),
            KF_TYPE_BOOL => Value::Bool(a.v.i != 0),
            KF_TYPE_DTYPE => Value::Dtype(a.v.i as u32),
            KF_TYPE_I64S => Value::I64s(list(a.v.iv, a.count.into())),
            KF_TYPE_F64S => Value::F64s(list(a.v.fv, a.count.into())),
            KF_TYPE_STRING => a.v.b.as_ref().map_or(Value::Text(&[]), |b| Value::Text(list(b.ptr.cast(), b.len))),
            KF_TYPE_TENSOR => Value::Tensor,
            KF_TYPE_SCALAR => Value::Scalar(a.v.i as u32),
            _ => Value::Unknown,
        }
    }
    pub fn as_i64(self) -> Option<i64> {
        if let Value::I64(i) = self { Some(i) } else { None }
    }
    pub fn as_f64(self) -> Option<f64> {
        if let Value::F64(f) = self { Some(f) } else { None }
    }
    pub fn as_bool(self) -> Option<bool> {
        if let Value::Bool(b) = self { Some(b) } else { None }
    }
}

/// A tensor of an operation.
#[derive(Clone, Copy)]
pub struct Tensor<'a>(&'a kf_tensor);

impl<'a> Tensor<'a> {
    fn understood(self) -> bool {
        let t = self.0;
        (unsafe { tail_is_zero(t, t.struct_size) })
            && t.flags & !KF_TENSOR_KNOWN_FLAGS == 0
            && t.scheme == 0
            && t.reserved == 0
            && t.rank <= KF_MAX_RANK
    }
    /// Its number in the block, in order of first sight.
    pub fn id(self) -> u32 {
        self.0.id
    }
    /// KF_DTYPE_*.
    pub fn dtype(self) -> u32 {
        self.0.dtype
    }
    pub fn rank(self) -> usize {
        self.0.rank as usize
    }
    /// KF_TENSOR_*: its state at this point of the stream.
    pub fn flags(self) -> u32 {
        self.0.flags
    }
    /// Are all of these KF_FACT_ bits promised?
    pub fn has(self, facts: u32) -> bool {
        self.0.facts & facts == facts
    }
    /// Row-major without gaps, its first element the buffer's first.
    pub fn dense(self) -> bool {
        self.has(KF_FACT_CONTIGUOUS | KF_FACT_ZERO_OFFSET)
    }
    /// 1, 4 or 16, a divisor of the innermost extent.
    pub fn innermost_divisor(self) -> u32 {
        self.0.div_by
    }
    /// Extents as symbols: equal symbols are equal extents in every run, symbol 0 is 1.
    pub fn symbols(self) -> Vec<u32> {
        unsafe { list(self.0.dims, self.0.rank.into()).iter().map(|d| d.symbol).collect() }
    }
    /// A copy that outlives the call.
    pub fn keep(self) -> Operand {
        Operand { id: self.id(), dtype: self.dtype(), symbols: self.symbols() }
    }
}

/// A tensor of the block as its program needs it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Operand {
    pub id: u32,
    pub dtype: u32,
    pub symbols: Vec<u32>,
}

impl Operand {
    /// How many elements.
    pub fn count(&self) -> Formula {
        product(&self.symbols)
    }
    pub fn bytes(&self) -> Formula {
        self.count() * tables::dtype(self.dtype).map_or(0, |d| i64::from(d.bits / 8))
    }
}

/// The host's function, where it is there and set (KF_CAN).
macro_rules! host_function {
    ($host:expr, $name:ident) => {{
        let host = $host;
        let there = !host.is_null()
            && (*host).struct_size as usize >= std::ptr::addr_of!((*host).$name).add(1) as usize - host as usize;
        if there { (*host).$name } else { None }
    }};
}
pub(crate) use host_function;
