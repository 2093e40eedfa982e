// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fuser ABI as kiln_fuser.h has it: plain structs, and its numbers, which build.rs takes from
//! the installed header. The test below compares every field with what `kiln plugin abi` prints.
#![allow(non_camel_case_types, dead_code)]

use std::os::raw::{c_char, c_void};

include!(concat!(env!("OUT_DIR"), "/numbers.rs"));

pub type kf_status = i32;

/// Objects of this library, by their addresses only.
pub enum kf_fuser {}
pub enum kf_builder {}
pub enum kf_opt {}

#[repr(C)]
#[derive(Clone, Copy)]
pub union kf_value {
    pub i: i64,
    pub f: f64,
    pub iv: *const i64,
    pub fv: *const f64,
    pub b: *const kf_blob,
}

pub type report_fn = unsafe extern "C" fn(*const kf_host, *const kf_diag);
pub type extension_fn = unsafe extern "C" fn(*const c_char) -> *const c_void;
pub type fuse_fn = unsafe extern "C" fn(
    *mut kf_builder,
    *const kf_block,
    *const *const kf_op,
    u64,
    *mut kf_state,
) -> kf_status;
pub type fuser_create_fn =
    unsafe extern "C" fn(*const kf_host, u32, *const kf_device, *mut *mut kf_fuser) -> kf_status;
pub type from_state_fn =
    unsafe extern "C" fn(*const kf_fuser, kf_blob, *mut *mut kf_opt) -> kf_status;

/// Defines the structs, all-zero defaults, and `layout()`: the lines of `kiln plugin abi`.
macro_rules! structs {
    ($($name:ident { $($field:ident: $type:ty,)* })*) => {
        $(
            #[repr(C)]
            #[derive(Clone, Copy)]
            pub struct $name { $(pub $field: $type,)* }
            impl Default for $name {
                fn default() -> Self {
                    // Integers, raw pointers and optional functions: zeros are a value of each.
                    unsafe { std::mem::zeroed() }
                }
            }
        )*
        #[cfg(test)]
        pub fn layout() -> Vec<(String, Vec<String>)> {
            fn size<T>(_: *const T) -> usize { std::mem::size_of::<T>() }
            let mut all = Vec::new();
            $({
                let one = $name::default();
                let start = std::ptr::addr_of!(one) as usize;
                all.push((
                    format!("{} size {} align {}", stringify!($name), std::mem::size_of::<$name>(),
                            std::mem::align_of::<$name>()),
                    vec![$({
                        let at = std::ptr::addr_of!(one.$field);
                        format!("  {} offset {} size {}", stringify!($field).trim_start_matches("r#"),
                                at as usize - start, size(at))
                    }),*],
                ));
            })*
            all
        }
    };
}

structs! {
    kf_str { ptr: *const u8, len: u64, }
    kf_blob { ptr: *const u8, len: u64, }
    kf_dim { value: i64, symbol: u32, flags: u32, }
    kf_attr { key: u32, r#type: u32, flags: u32, count: u32, v: kf_value, }
    kf_scalar { r#type: u32, reserved: u32, v: kf_value, }
    kf_ins { op: u16, arg: u16, sym: u32, imm: i64, }
    kf_expr { ins: *const kf_ins, n: u64, }
    kf_karg { kind: u32, access: u32, r#ref: u32, dtype: u32, axis: u32, group: u32, value: kf_expr, }
    kf_temp { bytes: kf_expr, align: u32, flags: u32, prepack: u32, reserved: u32, }
    kf_step { kind: u32, index: u32, }
    kf_diag { struct_size: u32, severity: u32, code: u32, op_index: u32, message: kf_str, }
    kf_host {
        struct_size: u32, abi_minor: u32, ctx: *mut c_void, name: kf_str, version: kf_str,
        report: Option<report_fn>,
        alloc: Option<unsafe extern "C" fn(*const kf_host, u64, u64) -> *mut c_void>,
        free: Option<unsafe extern "C" fn(*const kf_host, *mut c_void)>,
        cancelled: Option<unsafe extern "C" fn(*const kf_host) -> u32>,
        extension: Option<unsafe extern "C" fn(*const kf_host, *const c_char) -> *const c_void>,
    }
    kf_block {
        struct_size: u32, reserved: u32, ctx: *mut c_void,
        dim_value: Option<unsafe extern "C" fn(*const kf_block, u32, *mut i64) -> kf_status>,
        scalar_value: Option<unsafe extern "C" fn(*const kf_block, u32, *mut kf_scalar) -> kf_status>,
    }
    kf_tensor {
        struct_size: u32, id: u32, dtype: u32, scheme: u32, rank: u32, flags: u32, facts: u32,
        align_log2: u32, div_by: u32, reserved: u32, dims: *const kf_dim,
    }
    kf_op {
        struct_size: u32, kind: u32, version: u32, flags: u32, n_inputs: u32, n_outputs: u32,
        n_attrs: u32, position: u32, inputs: *const *const kf_tensor, outputs: *const *const kf_tensor,
        attrs: *const kf_attr,
    }
    kf_state {
        struct_size: u32, status: u32, ready: u32, len: u32, confidence: u32, launches: u32,
        est_ns: kf_expr, est_bytes_read: kf_expr, est_bytes_written: kf_expr, est_flops: kf_expr,
        temp_bytes: kf_expr,
    }
    kf_device {
        struct_size: u32, device_type: u32, code_shape: u32, vendor_id: u32, features: u64,
        dtype_storage: u64, dtype_arithmetic: u64, dtype_accelerated: u64, global_bytes: u64,
        max_alloc_bytes: u64, local_bytes: u64, max_group_size: u64, max_group_dim: [u64; 3],
        max_param_bytes: u64, compute_units: u32, subgroup_size: u32, vector_bytes: u32,
        mem_align_bytes: u32, cl_version: u32, cl_c_version: u32, cache_line_bytes: u32, opset: u32,
        cache_bytes: u64, mem_bytes_per_s: u64, flops_f32: u64, flops_f16: u64, flops_f64: u64,
        launch_ns: u64, name: kf_str, driver: kf_str, extensions: kf_str, fingerprint: kf_blob,
    }
    kf_source {
        struct_size: u32, format: u32, code: kf_blob, fingerprint: kf_blob, defines: *const kf_str,
        n_defines: u64, math_flags: u64, cl_c_version: u32, reserved: u32,
    }
    kf_launch {
        struct_size: u32, source: u32, dims: u32, n_args: u32, kernel: kf_str, global: [kf_expr; 3],
        local: [kf_expr; 3], args: *const kf_karg, flags: u32, reserved: u32,
    }
    kf_program {
        struct_size: u32, flags: u32, sources: *const *const kf_source, n_sources: u64,
        launches: *const *const kf_launch, n_launches: u64, temps: *const kf_temp, n_temps: u64,
        steps: *const kf_step, n_steps: u64, guard: kf_expr,
    }
    kf_opt_info { struct_size: u32, len: u32, n_variants: u32, reserved: u32, name: kf_str, key: kf_blob, }
    kf_plugin {
        struct_size: u32, abi_minor: u32, id: kf_str, version: kf_str, vendor: kf_str,
        fuser_ids: *const kf_str, n_fusers: u64,
        init: Option<unsafe extern "C" fn() -> kf_status>,
        deinit: Option<unsafe extern "C" fn()>,
        extension: Option<extension_fn>,
        fuser_create: Option<fuser_create_fn>,
        fuser_destroy: Option<unsafe extern "C" fn(*mut kf_fuser)>,
        builder_create: Option<unsafe extern "C" fn(*const kf_fuser, *mut *mut kf_builder) -> kf_status>,
        builder_clone: Option<unsafe extern "C" fn(*const kf_builder, *mut *mut kf_builder) -> kf_status>,
        builder_fuse: Option<fuse_fn>,
        builder_state: Option<unsafe extern "C" fn(*const kf_builder, *mut kf_state) -> kf_status>,
        builder_reset: Option<unsafe extern "C" fn(*mut kf_builder) -> kf_status>,
        builder_finish: Option<unsafe extern "C" fn(*mut kf_builder, *mut *mut kf_opt) -> kf_status>,
        builder_destroy: Option<unsafe extern "C" fn(*mut kf_builder)>,
        opt_info: Option<unsafe extern "C" fn(*const kf_opt, *mut kf_opt_info) -> kf_status>,
        opt_describe: Option<unsafe extern "C" fn(*const kf_opt, u32, *mut kf_program) -> kf_status>,
        opt_to_state: Option<unsafe extern "C" fn(*const kf_opt, *mut kf_blob) -> kf_status>,
        opt_from_state: Option<from_state_fn>,
        opt_destroy: Option<unsafe extern "C" fn(*mut kf_opt)>,
    }
    kf_manifest {
        struct_size: u32, abi_major: u32, abi_minor: u32, min_host_minor: u32, opset_max: u32,
        sanitizer: u32, cpu_features: u64, flags: u64, id: [u8; 64], version: [u8; 32], build: [u8; 32],
    }
    kf_note { namesz: u32, descsz: u32, r#type: u32, name: [u8; 4], desc: kf_manifest, }
}

#[cfg(test)]
mod tests {
    /// Our fields must be the first ones of the installed Kiln's: a later minor may have more.
    #[test]
    fn layout_is_the_installed_kilns() {
        let kiln = std::env::var("KILN").unwrap_or_else(|_| "kiln".into());
        let asked = std::process::Command::new(&kiln).args(["plugin", "abi"]).output();
        let answer = asked.unwrap_or_else(|e| panic!("{kiln} plugin abi: {e}; set KILN or PATH"));
        let text = String::from_utf8(answer.stdout).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let number = |line: &str| line.split(' ').nth(2).unwrap().parse::<usize>().unwrap();
        for (head, fields) in super::layout() {
            let name = head.split(' ').next().unwrap();
            let at = lines.iter().position(|l| l.split(' ').next() == Some(name));
            let at = at.unwrap_or_else(|| panic!("kiln knows no {name}"));
            assert!(number(lines[at]) >= number(&head), "{head}, kiln says {}", lines[at]);
            assert_eq!(&lines[at + 1..at + 1 + fields.len()], &fields[..], "{name}");
        }
    }
}
