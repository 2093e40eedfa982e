// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of an operator's row, for any type of operator, and the plugin's list of them.
use super::built::Built;
use super::calls::{boxed, caught, declined, destroy, put};
use super::table::name;
use crate::device::whole;
use crate::op::list;
use crate::operator::{Call, Memory, Output, Shape};
use crate::sys::*;
use crate::{Decline, Device, Op, Operator};
use std::mem::size_of;
use std::os::raw::{c_char, c_void};
use std::ptr;

/// Rows that may be a `static`: nothing in them changes, and their functions are pure.
pub struct Rows<const N: usize>(pub [kf_operator; N]);
unsafe impl<const N: usize> Sync for Rows<N> {}

pub struct Pointers<const N: usize>([*const kf_operator; N]);
unsafe impl<const N: usize> Sync for Pointers<N> {}

#[repr(transparent)]
pub struct Operators(kf_operators);
unsafe impl Sync for Operators {}

pub type Extension = Option<unsafe extern "C" fn(*const c_char) -> *const c_void>;

pub const fn row<O: Operator>() -> kf_operator {
    let has = O::KERNEL.is_some();
    kf_operator {
        struct_size: size_of::<kf_operator>() as u32,
        version: O::VERSION,
        name: name(O::NAME),
        doc: name(O::DOC),
        params: O::PARAMS.as_ptr().cast(),
        n_params: O::PARAMS.len() as u64,
        min_inputs: O::INPUTS.0,
        max_inputs: O::INPUTS.1,
        n_outputs: O::OUTPUTS,
        flags: 0,
        infer: Some(infer::<O>),
        reference: Some(reference::<O>),
        kernel_create: if has { Some(kernel_create::<O>) } else { None },
        kernel_describe: if has { Some(kernel_describe) } else { None },
        kernel_destroy: if has { Some(kernel_destroy) } else { None },
        gradient: name(O::GRADIENT),
    }
}

pub const fn pointers<const N: usize>(rows: &'static Rows<N>) -> Pointers<N> {
    let (mut to, mut i) = ([ptr::null(); N], 0);
    while i < N {
        to[i] = &rows.0[i] as *const kf_operator;
        i += 1;
    }
    Pointers(to)
}

pub const fn operators<const N: usize>(rows: &'static Pointers<N>) -> Operators {
    Operators(kf_operators {
        struct_size: size_of::<kf_operators>() as u32,
        reserved: 0,
        operators: rows.0.as_ptr(),
        n_operators: N as u64,
    })
}

/// What the plugin's `extension` gives for `id`, text with a zero at its end.
pub unsafe fn look_up(id: *const c_char, operators: &'static Operators) -> *const c_void {
    let known = std::ffi::CStr::from_ptr(id).to_bytes() == KF_EXT_OPERATORS.as_bytes();
    if known { (operators as *const Operators).cast() } else { ptr::null() }
}

/// KF_OK, or what was told the host.
unsafe fn answer(host: *const kf_host, run: impl FnOnce() -> Result<(), Decline>) -> kf_status {
    caught(host, || match run() {
        Ok(()) => KF_OK,
        Err(why) => {
            declined(host, KF_NONE, &why);
            KF_DECLINED
        }
    })
}

unsafe extern "C" fn infer<O: Operator>(
    call: *const kf_call,
    inputs: *const *const kf_shape,
    outputs: *const *mut kf_shape,
) -> kf_status {
    let call = &*call;
    answer(call.host, || {
        let shapes: Vec<Shape> = list(inputs, call.n_inputs.into()).iter().map(|s| {
            Shape { dtype: (**s).dtype, dims: (&(**s).dims)[..(**s).rank as usize].to_vec() }
        }).collect();
        let made = O::infer(&Call(call), &shapes)?;
        assert_eq!(made.len(), call.n_outputs as usize, "infer gives another number of outputs");
        for (to, shape) in list(outputs, call.n_outputs.into()).iter().zip(made) {
            let to = &mut **to;
            (to.dtype, to.rank) = (shape.dtype, shape.dims.len() as u32);
            to.dims[..shape.dims.len()].copy_from_slice(&shape.dims);
        }
        Ok(())
    })
}

unsafe extern "C" fn reference<O: Operator>(
    call: *const kf_call,
    inputs: *const *const kf_memory,
    outputs: *const *const kf_memory,
) -> kf_status {
    let call = &*call;
    answer(call.host, || {
        let of = |at, n: u32| list::<*const kf_memory>(at, n.into()).iter().map(|m| Memory(&**m));
        let inputs: Vec<Memory> = of(inputs, call.n_inputs).collect();
        let mut outputs: Vec<Output> = of(outputs, call.n_outputs).map(Output).collect();
        O::reference(&Call(call), &inputs, &mut outputs)
    })
}

unsafe extern "C" fn kernel_create<O: Operator>(
    host: *const kf_host,
    device: *const kf_device,
    block: *const kf_block,
    op: *const kf_op,
    out: *mut *mut kf_kernel,
) -> kf_status {
    *out = ptr::null_mut();
    let facts = whole(device);
    answer(host, || {
        let make = O::KERNEL.expect("the row has a kernel");
        *out = boxed(Built::new(make(Device::new(&facts, host), Op::new(&*op, block))?));
        Ok(())
    })
}

unsafe extern "C" fn kernel_describe(kernel: *const kf_kernel, out: *mut kf_program) -> kf_status {
    put(out, &(*kernel.cast::<Built>()).program)
}

unsafe extern "C" fn kernel_destroy(kernel: *mut kf_kernel) {
    destroy(kernel.cast::<Built>());
}
