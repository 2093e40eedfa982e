// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an author writes: a fuser, and the blocks that it gathers.
use crate::sys::{kf_host, kf_measured};
use crate::{Device, Formula, Op, Program, Store};

/// Why an operation, or a device, was not taken: a KF_CODE_ number and a sentence for `kiln explain`.
pub struct Decline(pub u32, pub String);

/// `return decline(KF_CODE_SHAPE, "only rows")` wherever a `Result` with [`Decline`] is due.
pub fn decline<T>(code: u32, why: impl Into<String>) -> Result<T, Decline> {
    Err(Decline(code, why.into()))
}

/// One fuser on one device: what its kernels and estimates depend on. Any thread looks at it.
pub trait Fuser: Sized + Send + Sync + 'static {
    type Block: Block<Self>;

    /// The fuser with this number in the plugin's list; `Err`: it is not for the device.
    fn create(index: u32, device: Device) -> Result<Self, Decline>;

    /// What the host measured of a program. It may change estimates, and nothing else.
    fn measured(&self, _what: &Measured) {}
}

/// Times of one of the fuser's programs on this device.
pub struct Measured<'a>(pub(crate) &'a kf_measured, pub(crate) *const kf_host);

impl<'a> Measured<'a> {
    /// 0 is what `finish` gave, the others are `variants`.
    pub fn variant(&self) -> u32 {
        self.0.variant
    }
    /// What all programs of the block are: equal for equal ones, in other processes as well.
    pub fn key(&self) -> &[u8] {
        unsafe { crate::op::list(self.0.key.ptr.cast(), self.0.key.len) }
    }
    /// Nanoseconds of the whole program.
    pub fn ns(&self) -> u64 {
        self.0.ns
    }
    /// Of the same operations one by one; `None`: not measured.
    pub fn unfused_ns(&self) -> Option<u64> {
        (self.0.unfused_ns != 0).then_some(self.0.unfused_ns)
    }
    /// Where to keep what was learned.
    pub fn store(&self) -> Option<Store<'a>> {
        unsafe { Store::of(self.1) }
    }
    /// Of the block's symbols, by their numbers.
    pub fn extents(&self) -> &[i64] {
        unsafe { crate::op::list(self.0.extents, self.0.n_extents) }
    }
}

/// The operations that were taken so far. A clone must be independent: share nothing that changes.
///
/// The same operations must get the same answers: use no time, no addresses and no counters.
pub trait Block<F>: Clone + Default + Send + 'static {
    /// Takes one operation, drops included, or says why not; then the block is closed and sees no more.
    fn push(&mut self, fuser: &F, op: Op) -> Result<(), Decline>;

    /// What the operations taken so far would cost as one program; `None`: they are none yet. A block that was ready
    /// and takes an operation with which it is not stays on offer as it was.
    fn estimate(&self, fuser: &F) -> Option<Estimate>;

    /// Their program. Asked for only where `estimate` gave something.
    fn finish(&self, fuser: &F) -> Program;

    /// Other programs that do the same work; `estimate` speaks of `finish`'s. The host measures which is the fastest.
    fn variants(&self, _fuser: &F) -> Vec<Program> {
        Vec::new()
    }

    /// Nanoseconds of each of `variants`, in their order, for a host that has yet to measure. No list, or an empty
    /// formula: not said.
    fn variant_ns(&self, _fuser: &F) -> Vec<Formula> {
        Vec::new()
    }
}

/// What a program would cost. Formulas that are left empty are not told; without `ns` the host makes its own estimate.
#[derive(Clone, Default)]
pub struct Estimate {
    /// Nanoseconds of the whole program, launches included.
    pub ns: Formula,
    /// Bytes read.
    pub read: Formula,
    /// Bytes written.
    pub written: Formula,
    pub flops: Formula,
    /// Bytes of the temporaries of one run.
    pub temp: Formula,
    pub launches: u32,
}
