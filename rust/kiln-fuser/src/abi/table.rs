// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plugin's table and its note, made by the compiler: nothing runs when the library is loaded.
use super::calls::*;
use super::operators::Extension;
use crate::sys::*;
use crate::Fuser;
use std::mem::size_of;
use std::os::raw::c_char;
use std::ptr;

/// A table that may be a `static`: nothing in it changes, and its functions are re-entrant.
#[repr(transparent)]
pub struct Table(pub kf_plugin);
unsafe impl Sync for Table {}

/// The names of a plugin's fusers.
#[repr(transparent)]
pub struct Names<const N: usize>(pub [kf_str; N]);
unsafe impl<const N: usize> Sync for Names<N> {}

pub const fn name(text: &'static str) -> kf_str {
    kf_str { ptr: text.as_ptr().cast(), len: text.len() as u64 }
}

pub const fn table<F: Fuser, const N: usize>(
    id: &'static str,
    version: &'static str,
    vendor: &'static str,
    fusers: &'static Names<N>,
    extension: Extension,
) -> Table {
    Table(kf_plugin {
        fuser_ids: fusers.0.as_ptr(),
        n_fusers: N as u64,
        fuser_create: Some(fuser_create::<F, N>),
        fuser_destroy: Some(fuser_destroy::<F>),
        builder_create: Some(builder_create::<F>),
        builder_clone: Some(builder_clone::<F>),
        builder_fuse: Some(builder_fuse::<F>),
        builder_state: Some(builder_state::<F>),
        builder_reset: Some(builder_reset::<F>),
        builder_finish: Some(builder_finish::<F>),
        builder_destroy: Some(builder_destroy::<F>),
        opt_info: Some(opt_info),
        opt_describe: Some(opt_describe),
        opt_destroy: Some(opt_destroy),
        fuser_measured: Some(fuser_measured::<F>),
        ..table_of_operators(id, version, vendor, extension).0
    })
}

/// Of a plugin that has operators alone.
pub const fn table_of_operators(
    id: &'static str,
    version: &'static str,
    vendor: &'static str,
    extension: Extension,
) -> Table {
    Table(kf_plugin {
        struct_size: size_of::<kf_plugin>() as u32,
        abi_minor: KF_ABI_MINOR,
        id: name(id),
        version: name(version),
        vendor: name(vendor),
        fuser_ids: ptr::null(),
        n_fusers: 0,
        init: Some(init),
        deinit: Some(deinit),
        extension,
        fuser_create: None,
        fuser_destroy: None,
        builder_create: None,
        builder_clone: None,
        builder_fuse: None,
        builder_state: None,
        builder_reset: None,
        builder_finish: None,
        builder_destroy: None,
        opt_info: None,
        opt_describe: None,
        opt_to_state: None,
        opt_from_state: None,
        opt_destroy: None,
        fuser_measured: None,
    })
}

/// The manifest: kf_manifest.h's, which the host reads before it loads the library.
pub const fn note(id: &str, version: &str) -> kf_note {
    kf_note {
        namesz: 4,
        descsz: size_of::<kf_manifest>() as u32,
        r#type: KF_NOTE_TYPE,
        name: padded(KF_NOTE_NAME),
        desc: kf_manifest {
            struct_size: size_of::<kf_manifest>() as u32,
            abi_major: KF_ABI_MAJOR,
            abi_minor: KF_ABI_MINOR,
            min_host_minor: 0,
            opset_max: KF_OPSET_MAX,
            sanitizer: KF_SANITIZER_NONE,
            cpu_features: 0,
            flags: 0,
            id: padded(id),
            version: padded(version),
            build: padded("rust"),
        },
    }
}

/// Characters and zeros; the last one stays a zero.
const fn padded<const N: usize>(text: &str) -> [c_char; N] {
    let (mut to, from, mut i) = ([0; N], text.as_bytes(), 0);
    assert!(from.len() < N, "too long for its field");
    while i < from.len() {
        to[i] = from[i] as c_char;
        i += 1;
    }
    to
}
