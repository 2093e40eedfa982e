// SPDX-License-Identifier: MIT OR Apache-2.0
// The first program of Kiln's README, from Rust: relu(x * 3), one fused kernel.
use kiln_sys::runtime::*;
use std::{ffi::CStr, mem::size_of_val, ptr::null_mut};

fn main() {
    let mut v = [-2.0f32, -1.0, 1.0, 2.0];
    let (mut device, mut x, mut t, mut y) = (null_mut(), null_mut(), null_mut(), null_mut());
    let mut err = kiln_error { struct_size: std::mem::size_of::<kiln_error>() as u32, ..Default::default() };
    let three = kiln_number { is_integer: false, v: kiln_number_v { f: 3.0 } };
    let failed = unsafe {
        kiln_open(std::ptr::null(), &mut device, &mut err) != KILN_STATUS_OK
            || kiln_tensor_create(device, KILN_DTYPE_F32, 1, [4].as_ptr(), v.as_ptr().cast(), &mut x, &mut err)
                != KILN_STATUS_OK
            || kiln_mul_scalar(x, three, &mut t, &mut err) != KILN_STATUS_OK
            || kiln_relu(t, &mut y, &mut err) != KILN_STATUS_OK
            || kiln_read(y, v.as_mut_ptr().cast(), size_of_val(&v), &mut err) != KILN_STATUS_OK
    };
    if failed {
        eprintln!("{}", unsafe { CStr::from_ptr(err.message.as_ptr()) }.to_string_lossy());
    } else {
        println!("{} {} {} {}", v[0], v[1], v[2], v[3]);
    }
    unsafe { kiln_close(device) };
    std::process::exit(failed.into());
}
