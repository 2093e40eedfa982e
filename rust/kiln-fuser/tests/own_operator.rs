// SPDX-License-Identifier: MIT OR Apache-2.0
//! A plugin with an operator of its own and no fuser, called as the host calls it.
use kiln_fuser::sys::*;
use kiln_fuser::{decline, Call, Decline, Device, Kernel, Launch, Memory, Op, Operator, Output, Param, Program, Shape};
use std::os::raw::c_void;
use std::ptr::{null, null_mut};

/// Twice x, or `times` x; a reference over i32 panics, as it loads another type.
struct Times;

impl Operator for Times {
    const NAME: &'static str = "example::times";
    const DOC: &'static str = "x some times";
    const PARAMS: &'static [Param] = &[Param::real("times", 2.0), Param::required("axis", KF_TYPE_I64)];
    const KERNEL: Option<Kernel> = Some(kernel);
    const GRADIENT: &'static str = "example::times";

    fn infer(call: &Call, inputs: &[Shape]) -> Result<Vec<Shape>, Decline> {
        match call.param(1).as_i64() {
            Some(axis) if axis < inputs[0].dims.len() as i64 => Ok(vec![inputs[0].clone(); 1 + (axis < 0) as usize]),
            axis => decline(KF_CODE_SHAPE, format!("axis is {:?}", axis)),
        }
    }
    fn reference(call: &Call, inputs: &[Memory], outputs: &mut [Output]) -> Result<(), Decline> {
        let times = call.param(0).as_f64().unwrap() as f32;
        (0..outputs[0].count()).for_each(|i| outputs[0].store(i, times * inputs[0].load::<f32>(i)));
        Ok(())
    }
}

fn kernel(device: Device, op: Op) -> Result<Program, Decline> {
    match op.param(0).and_then(|value| value.as_f64()) {
        Some(times) => Ok(Program::of("times", format!("{} on {}", times, device.compute_units), Launch::new("k", 1))),
        None => decline(KF_CODE_DATA, "no number"),
    }
}

/// Neither kernel nor gradient.
struct Plain;

impl Operator for Plain {
    const NAME: &'static str = "example::plain";
    const DOC: &'static str = "";
    const VERSION: u32 = 3;
    const INPUTS: (u32, u32) = (1, 4);

    fn infer(_: &Call, inputs: &[Shape]) -> Result<Vec<Shape>, Decline> {
        Ok(vec![inputs[0].clone()])
    }
    fn reference(_: &Call, _: &[Memory], _: &mut [Output]) -> Result<(), Decline> {
        decline(KF_CODE_DATA, "never")
    }
}

kiln_fuser::plugin! {
    id: "org.example.times",
    vendor: "Example",
    operators: [Times, Plain],
}

unsafe fn operators() -> &'static [*const kf_operator] {
    let plugin = &*kf_plugin_query_v1(0);
    assert!(plugin.n_fusers == 0 && plugin.fuser_ids.is_null() && plugin.fuser_create.is_none());
    assert_eq!(plugin.init.unwrap()(), KF_OK);
    assert!(plugin.extension.unwrap()(b"kiln.operators/2\0".as_ptr().cast()).is_null());
    let list = &*plugin.extension.unwrap()(b"kiln.operators/1\0".as_ptr().cast()).cast::<kf_operators>();
    assert_eq!((list.struct_size, list.n_operators), (24, 2));
    std::slice::from_raw_parts(list.operators, 2)
}

fn text(s: kf_str) -> &'static str {
    std::str::from_utf8(unsafe { std::slice::from_raw_parts(s.ptr.cast(), s.len as usize) }).unwrap()
}

/// What the host was told last.
unsafe extern "C" fn report(host: *const kf_host, diag: *const kf_diag) {
    *(*host).ctx.cast::<String>() = text((*diag).message).to_string();
}

fn number(key: u32, f: f64) -> kf_attr {
    kf_attr { key, r#type: KF_TYPE_F64, flags: 0, count: 1, v: kf_attr_v { f } }
}

/// A call with times = 3 and this axis; what `run` is told of it, and what the host then was.
unsafe fn with_call(axis: i64, run: impl FnOnce(*const kf_call) -> kf_status) -> (kf_status, String) {
    let mut told = Box::new(String::new());
    let ctx = (&mut *told as *mut String).cast::<c_void>();
    let host = kf_host { struct_size: 88, ctx, report: Some(report), ..kf_host::default() };
    let axis = kf_attr { key: 0, r#type: KF_TYPE_I64, flags: 0, count: 1, v: kf_attr_v { i: axis } };
    let attrs = [number(0, 3.0), axis];
    let call = kf_call { struct_size: 32, n_inputs: 1, n_outputs: 1, n_attrs: 2, attrs: attrs.as_ptr(), host: &host };
    (run(&call), (*told).clone())
}

#[test]
fn the_table_says_what_the_type_says() {
    unsafe {
        let (times, plain) = (&*operators()[0], &*operators()[1]);
        assert_eq!((text(times.name), text(times.doc), text(times.gradient)), ("example::times", "x some times", "example::times"));
        assert_eq!((times.version, times.n_params, times.min_inputs, times.max_inputs, times.n_outputs), (1, 2, 1, 1, 1));
        let (first, second) = (&*times.params, &*times.params.add(1));
        assert_eq!((text(first.name), first.fallback.r#type, first.fallback.v.f, first.flags), ("times", KF_TYPE_F64, 2.0, 0));
        assert_eq!((text(second.name), second.flags), ("axis", KF_PARAM_REQUIRED));
        assert_eq!((plain.version, plain.max_inputs, plain.n_params, plain.gradient.len), (3, 4, 0, 0));
        assert!(plain.kernel_create.is_none() && plain.kernel_describe.is_none() && plain.kernel_destroy.is_none());
    }
}

#[test]
fn shapes_are_inferred_or_refused() {
    unsafe {
        let infer = (*operators()[0]).infer.unwrap();
        let mut dims = [0; 8];
        dims[..2].copy_from_slice(&[3, 5]);
        let input = kf_shape { struct_size: 80, dtype: KF_DTYPE_F32, rank: 2, reserved: 0, dims };
        let mut output = kf_shape { struct_size: 80, ..kf_shape::default() };
        let inputs = [&input as *const kf_shape];
        let outputs = [&mut output as *mut kf_shape];
        let (status, _) = with_call(1, |call| infer(call, inputs.as_ptr(), outputs.as_ptr()));
        assert_eq!((status, output.dtype, output.rank, output.dims), (KF_OK, KF_DTYPE_F32, 2, dims));
        let refused = with_call(2, |call| infer(call, inputs.as_ptr(), outputs.as_ptr()));
        assert_eq!(refused, (KF_DECLINED, "axis is Some(2)".to_string()));
        let (status, told) = with_call(-1, |call| infer(call, inputs.as_ptr(), outputs.as_ptr()));
        assert!(status == KF_E_INTERNAL && told.contains("another number of outputs"), "{}", told);
    }
}

#[test]
fn the_reference_walks_strides() {
    unsafe {
        let reference = (*operators()[0]).reference.unwrap();
        let (mut x, mut y) = ([1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [0.0f32; 6]);
        let of = |data: &mut [f32; 6], strides: [i64; 2]| {
            let mut m = kf_memory { struct_size: 152, dtype: KF_DTYPE_F32, rank: 2, ..kf_memory::default() };
            m.data = data.as_mut_ptr().cast();
            m.dims[..2].copy_from_slice(&[3, 2]);
            m.strides[..2].copy_from_slice(&strides);
            m
        };
        let (mut input, output) = (of(&mut x, [1, 3]), of(&mut y, [2, 1])); // the input is transposed
        let (status, _) =
            with_call(0, |call| reference(call, [&input as *const kf_memory].as_ptr(), [&output as *const kf_memory].as_ptr()));
        assert_eq!((status, y), (KF_OK, [3.0, 12.0, 6.0, 15.0, 9.0, 18.0]));
        input.dtype = KF_DTYPE_I32;
        let (status, told) =
            with_call(0, |call| reference(call, [&input as *const kf_memory].as_ptr(), [&output as *const kf_memory].as_ptr()));
        assert!(status == KF_E_INTERNAL && told.contains("of another type"), "{}", told);
    }
}

#[test]
fn the_kernel_is_described() {
    unsafe {
        let row = &*operators()[0];
        let device = kf_device { struct_size: 256, compute_units: 12, ..kf_device::default() };
        let attrs = [number(0x10000, 4.5)];
        let mut op = kf_op { struct_size: 56, kind: KF_OP_CUSTOM, n_attrs: 1, attrs: attrs.as_ptr(), ..kf_op::default() };
        let mut kernel = null_mut();
        let create = row.kernel_create.unwrap();
        assert_eq!(create(null(), &device, null(), &op, &mut kernel), KF_OK);
        let mut p = kf_program { struct_size: std::mem::size_of::<kf_program>() as u32, ..kf_program::default() };
        assert_eq!(row.kernel_describe.unwrap()(kernel, &mut p), KF_OK);
        let code = (**p.sources).code;
        assert_eq!((p.n_launches, text(kf_str { ptr: code.ptr.cast(), len: code.len })), (1, "4.5 on 12"));
        row.kernel_destroy.unwrap()(kernel);
        op.n_attrs = 0;
        assert_eq!(create(null(), &device, null(), &op, &mut kernel), KF_DECLINED);
        assert!(kernel.is_null());
    }
}
