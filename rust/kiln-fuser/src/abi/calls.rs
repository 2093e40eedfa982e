// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of the plugin's table, for any type of fuser.
use super::built::Finished;
use crate::device::whole;
use crate::op::{host_function, list};
use crate::sys::*;
use crate::{Block, Decline, Device, Estimate, Fuser, Measured, Op};
use std::any::Any;
use std::mem::size_of;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr;

struct FuserBox<F> {
    fuser: F,
    host: *const kf_host, // outlives the fuser; its functions are re-entrant
}

struct BuilderBox<F: Fuser> {
    of: *const FuserBox<F>, // outlives its builders
    block: F::Block,
    closed: bool,
    taken: u32,
    ready: Option<Ready<F::Block>>,
}

/// The block as it was when it last was a program.
#[derive(Clone)]
struct Ready<B> {
    block: B,
    len: u32,
    launches: u32,
    costs: [Vec<kf_ins>; 5], // ns, read, written, flops, temp: what the answer points to
}

impl<B> Ready<B> {
    fn new(block: B, len: u32, e: &Estimate) -> Ready<B> {
        let costs = [&e.ns, &e.read, &e.written, &e.flops, &e.temp].map(|formula| formula.instructions());
        Ready { block, len, launches: e.launches, costs }
    }
}

// ---- what every call does -------------------------------------------------------------------------------------------

/// No panic leaves this library; `host` hears of it.
pub(super) unsafe fn caught(host: *const kf_host, run: impl FnOnce() -> kf_status) -> kf_status {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        // Even a report that cannot be made ends here.
        let told = catch_unwind(AssertUnwindSafe(|| {
            tell(host, KF_SEVERITY_PLUGIN_MISBEHAVING, KF_NONE, KF_CODE_INTERNAL, &panic_text(panic.as_ref()))
        }));
        std::mem::forget(told.err());
        std::mem::forget(panic); // whose drop might panic again
        KF_E_INTERNAL
    })
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| s.to_string());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("panicked: {}", text.unwrap_or_else(|| "no text".into()))
}

unsafe fn tell(host: *const kf_host, severity: u32, op_index: u32, code: u32, message: &str) {
    if let Some(report) = host_function!(host, report) {
        let message = kf_str { ptr: message.as_ptr().cast(), len: message.len() as u64 };
        report(host, &kf_diag { struct_size: size_of::<kf_diag>() as u32, severity, code, op_index, message });
    }
}

pub(super) unsafe fn declined(host: *const kf_host, op_index: u32, why: &Decline) {
    tell(host, KF_SEVERITY_INFO, op_index, why.0, &why.1);
}

/// KF_OUT: never past what the caller has.
pub(super) unsafe fn put<T>(to: *mut T, from: &T) -> kf_status {
    let n = (*to.cast::<u32>() as usize).min(size_of::<T>()).max(4);
    ptr::copy_nonoverlapping((from as *const T).cast::<u8>().add(4), to.cast::<u8>().add(4), n - 4);
    KF_OK
}

pub(super) fn boxed<T, U>(object: T) -> *mut U {
    Box::into_raw(Box::new(object)).cast()
}

/// Destroys what `boxed` gave away; NULL is fine.
pub(super) unsafe fn destroy<T>(object: *mut T) {
    if !object.is_null() {
        caught(ptr::null(), || {
            drop(Box::from_raw(object));
            KF_OK
        });
    }
}

// ---- plugin and fusers ----------------------------------------------------------------------------------------------

pub unsafe extern "C" fn init() -> kf_status {
    caught(ptr::null(), || {
        // A panic's message would go to standard error, which is the host's. The hook is this library's own: it has a
        // standard library for itself.
        std::panic::set_hook(Box::new(|_| {}));
        KF_OK
    })
}

pub unsafe extern "C" fn deinit() {}

pub unsafe extern "C" fn fuser_create<F: Fuser, const N: usize>(
    host: *const kf_host,
    index: u32,
    device: *const kf_device,
    out: *mut *mut kf_fuser,
) -> kf_status {
    *out = ptr::null_mut();
    if index as usize >= N {
        return KF_E_INVALID;
    }
    let facts = whole(device);
    caught(host, || match F::create(index, Device::new(&facts, host)) {
        Ok(fuser) => {
            *out = boxed(FuserBox { fuser, host });
            KF_OK
        }
        Err(why) => {
            declined(host, KF_NONE, &why);
            KF_DECLINED
        }
    })
}

pub unsafe extern "C" fn fuser_destroy<F: Fuser>(fuser: *mut kf_fuser) {
    destroy(fuser.cast::<FuserBox<F>>());
}

pub unsafe extern "C" fn fuser_measured<F: Fuser>(fuser: *const kf_fuser, measured: *const kf_measured) {
    let of = &*fuser.cast::<FuserBox<F>>();
    caught(of.host, || {
        of.fuser.measured(&Measured(&*measured, of.host));
        KF_OK
    });
}

// ---- builders -------------------------------------------------------------------------------------------------------

impl<F: Fuser> BuilderBox<F> {
    fn new(of: *const FuserBox<F>) -> BuilderBox<F> {
        BuilderBox { of, block: F::Block::default(), closed: false, taken: 0, ready: None }
    }

    /// Shows one operation to the block, and keeps the block where it is a program then.
    unsafe fn push(&mut self, op: Op) {
        let of = &*self.of;
        // A panic below leaves half an operation in the block: nothing is added to it any more.
        self.closed = true;
        match self.block.push(&of.fuser, op) {
            Ok(()) => {
                self.taken += 1;
                if let Some(estimate) = self.block.estimate(&of.fuser) {
                    self.ready = Some(Ready::new(self.block.clone(), self.taken, &estimate));
                }
                self.closed = false;
            }
            Err(why) => declined(of.host, op.position(), &why),
        }
    }

    unsafe fn answer(&self, out: *mut kf_state) -> kf_status {
        let mut state = kf_state {
            struct_size: size_of::<kf_state>() as u32,
            status: if self.closed { KF_CLOSED } else { KF_OPEN },
            ..kf_state::default()
        };
        if let Some(ready) = &self.ready {
            let [ns, read, written, flops, temp] =
                [0, 1, 2, 3, 4].map(|i| kf_expr { ins: ready.costs[i].as_ptr(), n: ready.costs[i].len() as u64 });
            state.ready = 1;
            state.len = ready.len;
            state.confidence = KF_CONFIDENCE_MODEL;
            state.launches = ready.launches;
            state.est_ns = ns;
            state.est_bytes_read = read;
            state.est_bytes_written = written;
            state.est_flops = flops;
            state.temp_bytes = temp;
        }
        put(out, &state)
    }
}

/// The builder behind the pointer, and the host of its fuser. Calls on one builder never overlap.
unsafe fn builder<'a, F: Fuser>(object: *mut kf_builder) -> (&'a mut BuilderBox<F>, *const kf_host) {
    let b = &mut *object.cast::<BuilderBox<F>>();
    let host = (*b.of).host;
    (b, host)
}

pub unsafe extern "C" fn builder_create<F: Fuser>(fuser: *const kf_fuser, out: *mut *mut kf_builder) -> kf_status {
    *out = ptr::null_mut();
    let of = fuser.cast::<FuserBox<F>>();
    caught((*of).host, || {
        *out = boxed(BuilderBox::new(of));
        KF_OK
    })
}

pub unsafe extern "C" fn builder_clone<F: Fuser>(from: *const kf_builder, out: *mut *mut kf_builder) -> kf_status {
    *out = ptr::null_mut();
    let from = &*from.cast::<BuilderBox<F>>();
    caught((*from.of).host, || {
        let (block, ready) = (from.block.clone(), from.ready.clone());
        *out = boxed(BuilderBox::<F> { block, ready, ..*from });
        KF_OK
    })
}

pub unsafe extern "C" fn builder_fuse<F: Fuser>(
    object: *mut kf_builder,
    block: *const kf_block,
    ops: *const *const kf_op,
    n: u64,
    out: *mut kf_state,
) -> kf_status {
    let (b, host) = builder::<F>(object);
    caught(host, || {
        for op in list(ops, n) {
            if b.closed {
                break;
            }
            b.push(Op::new(&**op, block));
        }
        b.answer(out)
    })
}

pub unsafe extern "C" fn builder_state<F: Fuser>(object: *const kf_builder, out: *mut kf_state) -> kf_status {
    (*object.cast::<BuilderBox<F>>()).answer(out)
}

pub unsafe extern "C" fn builder_reset<F: Fuser>(object: *mut kf_builder) -> kf_status {
    let (b, host) = builder::<F>(object);
    caught(host, || {
        *b = BuilderBox::new(b.of);
        KF_OK
    })
}

pub unsafe extern "C" fn builder_finish<F: Fuser>(object: *mut kf_builder, out: *mut *mut kf_opt) -> kf_status {
    *out = ptr::null_mut();
    let (b, host) = builder::<F>(object);
    caught(host, || {
        let ready = match &b.ready {
            Some(ready) => ready,
            None => return KF_E_INVALID,
        };
        let fuser = &(*b.of).fuser;
        *out = boxed(Finished::new(
            ready.block.finish(fuser),
            ready.block.variants(fuser),
            ready.block.variant_ns(fuser),
            ready.len,
        ));
        KF_OK
    })
}

pub unsafe extern "C" fn builder_destroy<F: Fuser>(object: *mut kf_builder) {
    destroy(object.cast::<BuilderBox<F>>());
}

// ---- finished blocks ------------------------------------------------------------------------------------------------

pub unsafe extern "C" fn opt_info(opt: *const kf_opt, out: *mut kf_opt_info) -> kf_status {
    let built = &*opt.cast::<Finished>();
    let info = kf_opt_info {
        struct_size: size_of::<kf_opt_info>() as u32,
        len: built.len,
        n_variants: built.programs.len() as u32,
        name: kf_str { ptr: built.name.as_ptr().cast(), len: built.name.len() as u64 },
        key: kf_blob { ptr: built.key.as_ptr().cast(), len: built.key.len() as u64 },
        variant_ns: if built.costs.is_empty() { ptr::null() } else { built.costs.as_ptr() },
        n_variant_ns: built.costs.len() as u64,
        ..kf_opt_info::default()
    };
    put(out, &info)
}

pub unsafe extern "C" fn opt_describe(opt: *const kf_opt, variant: u32, out: *mut kf_program) -> kf_status {
    let built = &*opt.cast::<Finished>();
    match built.programs.get(variant as usize) {
        Some(one) => put(out, &one.program),
        None => KF_E_INVALID,
    }
}

pub unsafe extern "C" fn opt_destroy(opt: *mut kf_opt) {
    destroy(opt.cast::<Finished>());
}
