// SPDX-License-Identifier: MIT OR Apache-2.0
//! A plugin's table, called as the host calls it: panics, blocks that are no longer programs, clones, formulas.
use kiln_fuser::sys::*;
use kiln_fuser::{
    decline, imm, sym, Arg, Block, Decline, Device, Estimate, Formula, Fuser, Launch, Measured, Op, Program, Temp,
};
use std::os::raw::{c_char, c_void};
use std::sync::Mutex;
use std::ptr::{null, null_mut};

#[derive(Default)]
struct Counting(Mutex<Vec<(u32, Vec<u8>, u64, Option<u64>, Vec<i64>)>>);

/// Adds are taken, and every second one makes a program. A mul panics, anything else is declined.
#[derive(Clone, Default)]
struct Adds(u32);

impl Fuser for Counting {
    type Block = Adds;

    fn create(index: u32, device: Device) -> Result<Counting, Decline> {
        match index {
            0 => {
                let counting = Counting::default();
                if let Some(ns) = device.store().and_then(|store| store.get(b"slowest")) {
                    let ns = u64::from_le_bytes(ns.try_into().unwrap());
                    counting.0.lock().unwrap().push((0, Vec::new(), ns, None, Vec::new()));
                }
                Ok(counting)
            }
            _ => decline(KF_CODE_DEVICE, format!("not for {} units", device.compute_units)),
        }
    }
    fn measured(&self, what: &Measured) {
        let all = (what.variant(), what.key().to_vec(), what.ns(), what.unfused_ns(), what.extents().to_vec());
        self.0.lock().unwrap().push(all);
        if let Some(store) = what.store() {
            assert!(store.put(b"slowest", &what.ns().to_le_bytes()) && !store.put(b"", b"nothing"));
        }
        assert_ne!(what.ns(), 13, "an unlucky number");
    }
}

impl Block<Counting> for Adds {
    fn push(&mut self, _fuser: &Counting, op: Op) -> Result<(), Decline> {
        match op.kind() {
            KF_OP_ADD => self.0 += 1,
            KF_OP_MUL => panic!("{} adds and a mul", self.0),
            _ => return decline(KF_CODE_UNKNOWN_OP, "neither"),
        }
        Ok(())
    }
    fn estimate(&self, _fuser: &Counting) -> Option<Estimate> {
        (self.0 % 2 == 0).then(|| Estimate { ns: imm(self.0.into()), launches: 2, ..Estimate::default() })
    }
    fn finish(&self, _fuser: &Counting) -> Program {
        if self.0 == 4 {
            panic!("four");
        }
        let pack = Launch::new("pack", 1);
        let run = Launch::new("run", sym(3) * 2).local(8).arg(Arg::Stride { id: 7, axis: 1 }).number(sym(2) + 1);
        Program {
            temps: vec![Temp { bytes: imm(64), align: 16, prepack: Some(0) }],
            launches: vec![pack, run],
            ..Program::of("adds", "__kernel ...", Launch::default())
        }
    }
    fn variants(&self, _fuser: &Counting) -> Vec<Program> {
        vec![Program::of("wide", "__kernel wide ...", Launch::new("wide", sym(3)).local(16))]
    }
    fn variant_ns(&self, fuser: &Counting) -> Vec<Formula> {
        let slowest = fuser.0.lock().unwrap().iter().map(|one| one.2).max();
        slowest.map(|ns| imm(ns as i64)).into_iter().collect() // none before it was told
    }
}

kiln_fuser::plugin! {
    id: "org.example.counting",
    vendor: "Example",
    fusers: ["adds", "never"],
    made_by: Counting,
}

/// What the host was told last.
unsafe extern "C" fn report(host: *const kf_host, diag: *const kf_diag) {
    let text = std::slice::from_raw_parts((*diag).message.ptr.cast::<u8>(), (*diag).message.len as usize);
    let told = &mut *(*host).ctx.cast::<Vec<(u32, u32, String)>>();
    told.push(((*diag).severity, (*diag).op_index, String::from_utf8(text.to_vec()).unwrap()));
}

struct Host {
    told: Box<Vec<(u32, u32, String)>>,
    host: Box<kf_host>,
    device: kf_device,
}

fn host() -> Host {
    let mut told = Box::new(Vec::new());
    let ctx = (&mut *told as *mut Vec<_>).cast::<c_void>();
    let struct_size = std::mem::size_of::<kf_host>() as u32;
    let host = Box::new(kf_host { struct_size, ctx, report: Some(report), ..kf_host::default() });
    let device = kf_device { struct_size: 256, compute_units: 12, ..kf_device::default() };
    Host { told, host, device }
}

fn table() -> &'static kf_plugin {
    unsafe { &*kf_plugin_query_v1(0) }
}

unsafe fn open(h: &Host, index: u32) -> (kf_status, *mut kf_fuser, *mut kf_builder) {
    let (mut fuser, mut builder) = (null_mut(), null_mut());
    let status = table().fuser_create.unwrap()(&*h.host, index, &h.device, &mut fuser);
    if status == KF_OK {
        assert_eq!(table().builder_create.unwrap()(fuser, &mut builder), KF_OK);
    }
    (status, fuser, builder)
}

unsafe fn show(builder: *mut kf_builder, kinds: &[u32]) -> (kf_status, kf_state) {
    let ops: Vec<kf_op> = kinds.iter().map(|kind| kf_op { struct_size: 56, kind: *kind, ..kf_op::default() }).collect();
    let list: Vec<*const kf_op> = ops.iter().map(|op| op as *const kf_op).collect();
    let mut state = kf_state { struct_size: std::mem::size_of::<kf_state>() as u32, ..kf_state::default() };
    (table().builder_fuse.unwrap()(builder, null(), list.as_ptr(), list.len() as u64, &mut state), state)
}

#[test]
fn panics_are_told_and_end_the_block() {
    unsafe {
        let h = host();
        assert_eq!(table().init.unwrap()(), KF_OK);
        let (_, fuser, builder) = open(&h, 0);
        assert_eq!(show(builder, &[KF_OP_ADD, KF_OP_ADD, KF_OP_MUL]).0, KF_E_INTERNAL);
        let (severity, _, text) = h.told.last().unwrap();
        assert_eq!((*severity, text.as_str()), (KF_SEVERITY_PLUGIN_MISBEHAVING, "panicked: 2 adds and a mul"));
        let (status, state) = show(builder, &[KF_OP_ADD]);
        assert_eq!((status, state.status, state.ready, state.len), (KF_OK, KF_CLOSED, 1, 2));
        table().builder_destroy.unwrap()(builder);

        let (_, other, builder) = open(&h, 0);
        let mut opt = null_mut();
        assert_eq!(show(builder, &[KF_OP_ADD; 4]).1.len, 4);
        assert_eq!(table().builder_finish.unwrap()(builder, &mut opt), KF_E_INTERNAL);
        assert!(opt.is_null() && h.told.last().unwrap().2 == "panicked: four");
        table().builder_destroy.unwrap()(builder);
        table().fuser_destroy.unwrap()(other);
        table().fuser_destroy.unwrap()(fuser);
    }
}

#[test]
fn declines_are_told() {
    unsafe {
        let h = host();
        assert_eq!(open(&h, 1).0, KF_DECLINED);
        assert_eq!(h.told.last().unwrap().2, "not for 12 units");
        assert_eq!(open(&h, 2).0, KF_E_INVALID);
        let (_, fuser, builder) = open(&h, 0);
        let (status, state) = show(builder, &[KF_OP_ADD, KF_OP_EXP]);
        assert_eq!((status, state.status, state.ready), (KF_OK, KF_CLOSED, 0));
        assert_eq!((h.told.last().unwrap().0, h.told.last().unwrap().2.as_str()), (KF_SEVERITY_INFO, "neither"));
        table().builder_destroy.unwrap()(builder);
        table().fuser_destroy.unwrap()(fuser);
    }
}

#[test]
fn a_block_that_was_ready_stays_on_offer() {
    unsafe {
        let h = host();
        let (_, fuser, builder) = open(&h, 0);
        let state = show(builder, &[KF_OP_ADD; 3]).1;
        assert_eq!((state.status, state.ready, state.len, state.launches, state.est_ns.n), (KF_OPEN, 1, 2, 2, 1));
        assert_eq!((*state.est_ns.ins).imm, 2);

        let mut copy = null_mut();
        assert_eq!(table().builder_clone.unwrap()(builder, &mut copy), KF_OK);
        assert_eq!(show(copy, &[KF_OP_ADD]).1.len, 4);
        let mut state = kf_state { struct_size: 8, ..kf_state::default() }; // never past what the caller has
        assert_eq!(table().builder_state.unwrap()(builder, &mut state), KF_OK);
        assert_eq!((state.ready, state.len), (0, 0));
        let mut state = kf_state { struct_size: 12, ..kf_state::default() };
        assert_eq!(table().builder_state.unwrap()(builder, &mut state), KF_OK);
        assert_eq!((state.ready, state.len), (1, 0));
        assert_eq!(table().builder_reset.unwrap()(copy), KF_OK);
        assert_eq!(show(copy, &[KF_OP_ADD]).1.ready, 0);
        table().builder_destroy.unwrap()(copy);
        table().builder_destroy.unwrap()(builder);
        table().fuser_destroy.unwrap()(fuser);
    }
}

#[test]
fn a_program_is_described_as_it_was_made() {
    unsafe {
        let h = host();
        let (_, fuser, builder) = open(&h, 0);
        let mut opt = null_mut();
        assert_eq!(table().builder_finish.unwrap()(builder, &mut opt), KF_E_INVALID);
        show(builder, &[KF_OP_ADD; 2]);
        assert_eq!(table().builder_finish.unwrap()(builder, &mut opt), KF_OK);
        table().builder_destroy.unwrap()(builder); // the program outlives it

        let mut p = kf_program { struct_size: std::mem::size_of::<kf_program>() as u32, ..kf_program::default() };
        let mut info = kf_opt_info { struct_size: 48, ..kf_opt_info::default() };
        assert_eq!(table().opt_info.unwrap()(opt, &mut info), KF_OK);
        assert_eq!((info.len, info.n_variants), (2, 2));
        let key = String::from_utf8(std::slice::from_raw_parts(info.key.ptr.cast(), info.key.len as usize).to_vec());
        assert!(key.unwrap().contains("__kernel wide")); // the programs differ where only a variant does
        assert_eq!(table().opt_describe.unwrap()(opt, 2, &mut p), KF_E_INVALID);
        assert_eq!(table().opt_describe.unwrap()(opt, 1, &mut p), KF_OK);
        assert_eq!((p.n_launches, p.n_temps, (**p.launches).kernel.len), (1, 0, 4));
        assert_eq!(table().opt_describe.unwrap()(opt, 0, &mut p), KF_OK);
        assert_eq!((p.n_sources, p.n_launches, p.n_temps, p.n_steps), (1, 2, 1, 1));
        assert_eq!(((*p.steps).kind, (*p.steps).index), (KF_STEP_LAUNCH, 1)); // the first one packs
        assert_eq!(((*p.temps).prepack, (*p.temps).flags, (*p.temps).align), (0, KF_TEMP_PERSISTENT, 16));
        let run = &**p.launches.add(1);
        assert_eq!((run.dims, run.n_args, run.global[0].n, run.local[0].n), (1, 2, 3, 1));
        assert_eq!(((*run.args).kind, (*run.args).r#ref, (*run.args).axis), (KF_ARG_STRIDE, 7, 1));
        assert_eq!((*run.args.add(1)).value.n, 3);
        table().opt_destroy.unwrap()(opt);
        table().opt_destroy.unwrap()(null_mut());
        table().fuser_destroy.unwrap()(fuser);
    }
}

#[test]
fn measured_times_come_back_as_estimates() {
    unsafe {
        let h = host();
        let (_, fuser, builder) = open(&h, 0);
        show(builder, &[KF_OP_ADD; 2]);
        let info_size = std::mem::size_of::<kf_opt_info>() as u32;
        let info_now = || {
            let mut opt = null_mut();
            let mut info = kf_opt_info { struct_size: info_size, ..kf_opt_info::default() };
            assert_eq!(table().builder_finish.unwrap()(builder, &mut opt), KF_OK);
            assert_eq!(table().opt_info.unwrap()(opt, &mut info), KF_OK);
            (opt, info)
        };
        let (opt, info) = info_now();
        assert!(info.variant_ns.is_null() && info.n_variant_ns == 0);
        let extents = [1, 640];
        let mut told = kf_measured {
            struct_size: std::mem::size_of::<kf_measured>() as u32,
            variant: 1,
            key: info.key,
            ns: 5000,
            unfused_ns: 0,
            extents: extents.as_ptr(),
            n_extents: 2,
        };
        table().fuser_measured.unwrap()(fuser, &told);
        told.ns = 13; // a panic stays inside
        table().fuser_measured.unwrap()(fuser, &told);
        assert!(h.told.last().unwrap().2.contains("an unlucky number"));
        table().opt_destroy.unwrap()(opt);
        table().builder_destroy.unwrap()(builder);
        table().fuser_destroy.unwrap()(fuser);

        let (_, fuser, builder) = open(&h, 0);
        show(builder, &[KF_OP_ADD; 2]);
        told.ns = 5000;
        told.key = kf_blob { ptr: b"key".as_ptr().cast(), len: 3 };
        table().fuser_measured.unwrap()(fuser, &told);
        let mut opt = null_mut();
        let mut info = kf_opt_info { struct_size: info_size, ..kf_opt_info::default() };
        assert_eq!(table().builder_finish.unwrap()(builder, &mut opt), KF_OK);
        assert_eq!(table().opt_info.unwrap()(opt, &mut info), KF_OK);
        assert_eq!((info.n_variants, info.n_variant_ns, (*info.variant_ns).n), (2, 2, 0));
        assert_eq!((*(*info.variant_ns.add(1)).ins).imm, 5000);
        let mut short = kf_opt_info { struct_size: 48, ..kf_opt_info::default() }; // a host of 1.0
        assert_eq!(table().opt_info.unwrap()(opt, &mut short), KF_OK);
        assert!(short.n_variants == 2 && short.variant_ns.is_null() && short.n_variant_ns == 0);
        table().opt_destroy.unwrap()(opt);
        table().builder_destroy.unwrap()(builder);
        table().fuser_destroy.unwrap()(fuser);
    }
}

/// The host's store: one value.
static KEPT: Mutex<Vec<u8>> = Mutex::new(Vec::new());

unsafe extern "C" fn get(_: *const kf_host, key: kf_blob, out: *mut c_void, capacity: u64, length: *mut u64) -> kf_status {
    assert_eq!(std::slice::from_raw_parts(key.ptr.cast::<u8>(), key.len as usize), b"slowest");
    let kept = KEPT.lock().unwrap();
    *length = kept.len() as u64;
    std::ptr::copy_nonoverlapping(kept.as_ptr(), out.cast(), kept.len().min(capacity as usize));
    if kept.is_empty() { KF_DECLINED } else { KF_OK }
}

unsafe extern "C" fn put(_: *const kf_host, key: kf_blob, value: kf_blob) -> kf_status {
    if key.len == 0 {
        return KF_DECLINED;
    }
    *KEPT.lock().unwrap() = std::slice::from_raw_parts(value.ptr.cast::<u8>(), value.len as usize).to_vec();
    KF_OK
}

unsafe extern "C" fn extension(_: *const kf_host, id: *const c_char) -> *const c_void {
    static STORE: kf_store = kf_store { struct_size: 24, reserved: 0, get: Some(get), put: Some(put) };
    assert_eq!(std::ffi::CStr::from_ptr(id).to_str(), Ok(KF_STORE_EXTENSION));
    (&STORE as *const kf_store).cast()
}

#[test]
fn what_was_learned_is_kept_for_another_process() {
    unsafe {
        let mut h = host();
        h.host.extension = Some(extension);
        let (_, fuser, builder) = open(&h, 0);
        let mut told = kf_measured { struct_size: 72, ns: 7000, ..kf_measured::default() };
        table().fuser_measured.unwrap()(fuser, &told);
        table().builder_destroy.unwrap()(builder);
        table().fuser_destroy.unwrap()(fuser);
        h.host.struct_size = 80; // an older host has no extensions, and is not asked
        told.ns = 1;
        for (size, expected) in [(80, 0), (88, 1)] {
            h.host.struct_size = size;
            let (_, fuser, builder) = open(&h, 0);
            show(builder, &[KF_OP_ADD; 2]);
            let (mut opt, mut info) = (null_mut(), kf_opt_info { struct_size: 72, ..kf_opt_info::default() });
            assert_eq!(table().builder_finish.unwrap()(builder, &mut opt), KF_OK);
            assert_eq!(table().opt_info.unwrap()(opt, &mut info), KF_OK);
            assert_eq!(info.n_variant_ns > 0, expected > 0);
            table().opt_destroy.unwrap()(opt);
            table().builder_destroy.unwrap()(builder);
            table().fuser_destroy.unwrap()(fuser);
        }
    }
}

#[test]
fn formulas_are_arithmetic() {
    let f = (sym(0) + sym(2)).ceil_div(4).round_up(16).max(imm(1)) % 7;
    assert!(f.fits() && !f.is_empty() && Formula::default().is_empty());
    assert_eq!(sym(0), imm(1));
    assert_ne!(sym(1) - sym(2), sym(2) - sym(1));
}
