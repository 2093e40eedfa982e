// SPDX-License-Identifier: MIT OR Apache-2.0
//! A place in the host's cache for what a fuser was told by `measured` (kf_host.h).
use crate::op::host_function;
use crate::sys::*;
use std::marker::PhantomData;

/// Belongs to the plugin's file and the device. What is kept may be gone at any time, and may change estimates and
/// nothing else.
#[derive(Clone, Copy)]
pub struct Store<'a> {
    host: *const kf_host,
    table: *const kf_store,
    call: PhantomData<&'a kf_host>,
}

impl<'a> Store<'a> {
    /// `None`: the host has no cache, is older, or nothing measured may decide.
    pub(crate) unsafe fn of(host: *const kf_host) -> Option<Store<'a>> {
        let ask = host_function!(host, extension)?;
        let id = std::ffi::CString::new(KF_STORE_EXTENSION).ok()?;
        let table = ask(host, id.as_ptr()).cast::<kf_store>();
        (!table.is_null()).then(|| Store { host, table, call: PhantomData })
    }

    /// What is kept under a key of at most KF_STORE_MAX_KEY bytes.
    pub fn get(self, key: &[u8]) -> Option<Vec<u8>> {
        let mut value = vec![0u8; KF_STORE_MAX_VALUE as usize];
        let mut length = 0;
        let get = unsafe { (*self.table).get }?;
        let status = unsafe {
            get(self.host, blob(key), value.as_mut_ptr().cast(), value.len() as u64, &mut length)
        };
        value.truncate(length as usize);
        (status == KF_OK).then(|| value)
    }

    /// Replaces what is kept; false: it could not be, as a value above KF_STORE_MAX_VALUE bytes.
    pub fn put(self, key: &[u8], value: &[u8]) -> bool {
        unsafe { (*self.table).put.map_or(false, |put| put(self.host, blob(key), blob(value)) == KF_OK) }
    }
}

fn blob(bytes: &[u8]) -> kf_blob {
    kf_blob { ptr: bytes.as_ptr().cast(), len: bytes.len() as u64 }
}
