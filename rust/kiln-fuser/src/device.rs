// SPDX-License-Identifier: MIT OR Apache-2.0
//! The facts of a device, and what they say of times.
use crate::sys::{self, kf_device, kf_host, kf_str};
use crate::{Formula, Store};
use std::mem::size_of;
use std::ops::Deref;

/// A device during [`crate::Fuser::create`]; its numbers are the fields of `kf_device`.
#[derive(Clone, Copy)]
pub struct Device<'a>(&'a kf_device, *const kf_host);

/// All facts that this crate knows; those that an older host does not tell are 0.
pub(crate) unsafe fn whole(given: *const kf_device) -> kf_device {
    let mut facts = kf_device::default();
    let known = size_of::<kf_device>();
    let told = std::ptr::addr_of!((*given).struct_size).read() as usize;
    std::ptr::copy_nonoverlapping(given.cast::<u8>(), std::ptr::addr_of_mut!(facts).cast::<u8>(), told.min(known));
    facts.struct_size = known as u32;
    facts
}

impl<'a> Device<'a> {
    /// The host is alive as long as the facts.
    pub(crate) unsafe fn new(facts: &'a kf_device, host: *const kf_host) -> Device<'a> {
        Device(facts, host)
    }
    /// What earlier processes kept.
    pub fn store(self) -> Option<Store<'a>> {
        unsafe { Store::of(self.1) }
    }
    pub fn name(self) -> &'a str {
        text(&self.0.name)
    }
    pub fn driver(self) -> &'a str {
        text(&self.0.driver)
    }
    /// Separated by one space.
    pub fn extensions(self) -> &'a str {
        text(&self.0.extensions)
    }
    /// Has it all of these KF_FEATURE_ bits?
    pub fn has(self, features: u64) -> bool {
        self.0.features & features == features
    }
    /// Can buffers of the KF_DTYPE_ be read and written?
    pub fn stores(self, dtype: u32) -> bool {
        self.0.dtype_storage >> dtype & 1 != 0
    }
    /// A loop in each work-item runs well (processors); else many small work-items do.
    pub fn wants_blocks(self) -> bool {
        self.0.code_shape == sys::KF_SHAPE_BLOCK
    }
}

impl Deref for Device<'_> {
    type Target = kf_device;

    fn deref(&self) -> &kf_device {
        self.0
    }
}

fn text(s: &kf_str) -> &str {
    if s.ptr.is_null() {
        return "";
    }
    // The host's, as long as the device.
    let bytes = unsafe { std::slice::from_raw_parts(s.ptr.cast::<u8>(), s.len as usize) };
    std::str::from_utf8(bytes).unwrap_or("")
}

/// What a byte and an operation cost on a device, as `kf_cost` of kf_formula.h.
#[derive(Clone, Copy)]
pub struct Cost {
    pub ps_per_kib: i64,
    pub ps_per_kflop: i64,
    pub launch_ns: i64,
}

impl Cost {
    /// What the device does not say is taken from a middling processor.
    pub fn of(device: Device) -> Cost {
        let or = |known: u64, unknown: u64| if known == 0 { unknown } else { known };
        Cost {
            ps_per_kib: (1_024_000_000_000_000 / or(device.mem_bytes_per_s, sys::KF_UNKNOWN_BYTES_PER_S)) as i64 + 1,
            ps_per_kflop: (1_024_000_000_000_000 / or(device.flops_f32, sys::KF_UNKNOWN_FLOPS_F32)) as i64 + 1,
            launch_ns: or(device.launch_ns, sys::KF_UNKNOWN_LAUNCH_NS as u64) as i64,
        }
    }

    /// Nanoseconds of a program that moves `bytes` and computes `flops`: the greater of both times, and its launches.
    pub fn roofline_ns(&self, bytes: Formula, flops: Formula, launches: u32) -> Formula {
        let moved = bytes * self.ps_per_kib;
        let ps = if flops.is_empty() { moved } else { moved.max(flops * self.ps_per_kflop) };
        ps.floor_div(1_024_000) + i64::from(launches) * self.launch_ns
    }
}
