// SPDX-License-Identifier: MIT OR Apache-2.0
//! The safe side of the ABI: a fuser is a type with the trait `Fuser`, its blocks one with `Block`;
//! this file keeps the rules of kiln_fuser.h around them (open and closed, len, clones, who owns
//! what) and turns panics into KF_E_INTERNAL.
use crate::formula::Formula;
use crate::kf_sys::*;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::{mem::size_of, ptr, slice};

/// Why an operation was not taken: a code and a sentence for `kiln explain`.
pub struct Decline(pub u32, pub String);

pub fn decline<T>(code: u32, why: impl Into<String>) -> Result<T, Decline> {
    Err(Decline(code, why.into()))
}

pub trait Fuser: Sized + Send + Sync + 'static {
    type Block: Block<Self>;
    /// How many fusers the plugin has; as many names go to `table`.
    const COUNT: u32;
    /// For the n-th of the plugin's fusers; `Err`: not for this device.
    fn create(index: u32, device: &kf_device) -> Result<Self, Decline>;
}

/// What was accepted so far; a clone is independent because nothing in it is shared.
pub trait Block<F>: Clone + Default + Send + 'static {
    /// Takes one operation, drops included, or says why not; then the block is closed.
    fn push(&mut self, fuser: &F, op: Op) -> Result<(), Decline>;
    /// What the operations taken so far would cost; `None`: they are no program yet.
    fn estimate(&self, fuser: &F) -> Option<Estimate>;
    /// Their program. Asked for only where `estimate` gave something.
    fn finish(&self, fuser: &F) -> Program;
}

#[derive(Default)]
pub struct Estimate {
    pub ns: Formula,
    pub read: Formula,
    pub written: Formula,
    pub flops: Formula,
    pub temp: Formula,
    pub launches: u32,
}

pub struct Program {
    pub name: String,
    pub source: String,
    pub launches: Vec<Launch>,
    pub temps: Vec<Formula>, // bytes
    pub flags: u32,
}

pub struct Launch {
    pub kernel: String,
    pub global: Formula,
    pub local: Option<Formula>,
    pub args: Vec<Arg>,
}

#[derive(Clone)]
pub enum Arg {
    Read(u32, u32),   // tensor, dtype
    Write(u32, u32),  // tensor, dtype
    Offset(u32),      // of a tensor, as long
    Scalar(u32, u32), // of the block, dtype
    Number(Formula),  // as long
    Temp(u32, u32),   // temporary, KF_ACCESS_*
}

// ---- what the host shows -----------------------------------------------------------------------

/// A list of the host's; an absent one is empty.
unsafe fn list<'a, T>(at: *const T, n: u64) -> &'a [T] {
    if at.is_null() || n == 0 { &[] } else { slice::from_raw_parts(at, n as usize) }
}

/// Is everything behind the struct as we know it zero?
unsafe fn tail_is_zero<T>(object: &T, struct_size: u32) -> bool {
    let (known, all) = (size_of::<T>(), struct_size as usize);
    all >= known // these structs are 1.0's, and no host shows less
        && slice::from_raw_parts((object as *const T).cast::<u8>().add(known), all - known)
            .iter()
            .all(|b| *b == 0)
}

/// An operation, alive during the call.
#[derive(Clone, Copy)]
pub struct Op<'a>(&'a kf_op);

#[derive(Clone, Copy)]
pub struct Tensor<'a>(&'a kf_tensor);

impl<'a> Op<'a> {
    pub fn kind(self) -> u32 {
        self.0.kind
    }
    pub fn inputs(self) -> Vec<Tensor<'a>> {
        unsafe { list(self.0.inputs, self.0.n_inputs.into()).iter().map(|t| Tensor(&**t)).collect() }
    }
    pub fn outputs(self) -> Vec<Tensor<'a>> {
        unsafe { list(self.0.outputs, self.0.n_outputs.into()).iter().map(|t| Tensor(&**t)).collect() }
    }
    /// Attributes that must be understood: those that are no hints.
    pub fn attrs(self) -> impl Iterator<Item = &'a kf_attr> {
        let all: &'a [kf_attr] = unsafe { list(self.0.attrs, self.0.n_attrs.into()) };
        all.iter().filter(|a| a.flags & KF_ATTR_FLAG_HINT == 0)
    }
    pub fn attr(self, key: u32) -> Option<&'a kf_attr> {
        self.attrs().find(|a| a.key == key)
    }
    /// kf_op_understood of kf_util.h: nothing here is newer than this plugin.
    pub fn understood(self, version: u32, keys: &[u32]) -> bool {
        let op = self.0;
        let nothing_behind = unsafe { tail_is_zero(op, op.struct_size) };
        nothing_behind
            && op.version <= version
            && op.flags & !KF_OP_KNOWN_FLAGS == 0
            && self.attrs().all(|a| a.flags == 0 && keys.contains(&a.key))
            && self.inputs().into_iter().chain(self.outputs()).all(Tensor::understood)
    }
}

impl<'a> Tensor<'a> {
    fn understood(self) -> bool {
        let t = self.0;
        let nothing_behind = unsafe { tail_is_zero(t, t.struct_size) };
        nothing_behind
            && t.flags & !KF_TENSOR_KNOWN_FLAGS == 0
            && t.scheme == 0
            && t.reserved == 0
            && t.rank <= KF_MAX_RANK
    }
    pub fn id(self) -> u32 {
        self.0.id
    }
    pub fn dtype(self) -> u32 {
        self.0.dtype
    }
    pub fn has(self, fact: u32) -> bool {
        self.0.facts & fact != 0
    }
    pub fn symbols(self) -> Vec<u32> {
        unsafe { list(self.0.dims, self.0.rank.into()).iter().map(|d| d.symbol).collect() }
    }
}

// ---- objects behind the ABI's pointers ---------------------------------------------------------

struct FuserBox<F> {
    fuser: F,
    host: *const kf_host, // outlives the fuser; its functions are re-entrant
}

struct BuilderBox<F: Fuser> {
    of: *const FuserBox<F>,
    block: F::Block,
    closed: bool,
    len: u32,
    shown: Option<Estimate>, // what the last answer points to
}

/// A finished block: the program, and the ABI's structs that point into it.
struct OptBox {
    len: u32,
    key: Vec<u8>,
    program: Program,
    described: kf_program,
    _args: Vec<Vec<kf_karg>>,
    _launches: Vec<kf_launch>,
    _launch_list: Vec<*const kf_launch>,
    _temps: Vec<kf_temp>,
    _steps: Vec<kf_step>,
    _source: Box<kf_source>,
    _source_list: Vec<*const kf_source>,
}

fn text(s: &str) -> kf_str {
    kf_str { ptr: s.as_ptr(), len: s.len() as u64 }
}

fn karg(arg: &Arg) -> kf_karg {
    let plain = kf_karg { dtype: KF_DTYPE_I64, ..Default::default() };
    match arg {
        Arg::Read(t, d) => {
            kf_karg { kind: KF_ARG_TENSOR, access: KF_ACCESS_READ, r#ref: *t, dtype: *d, ..plain }
        }
        Arg::Write(t, d) => {
            kf_karg { kind: KF_ARG_TENSOR, access: KF_ACCESS_WRITE, r#ref: *t, dtype: *d, ..plain }
        }
        Arg::Offset(t) => kf_karg { kind: KF_ARG_OFFSET, r#ref: *t, ..plain },
        Arg::Scalar(s, d) => kf_karg { kind: KF_ARG_SCALAR, r#ref: *s, dtype: *d, ..plain },
        Arg::Number(f) => kf_karg { kind: KF_ARG_VALUE, value: f.expr(), ..plain },
        Arg::Temp(t, access) => {
            kf_karg { kind: KF_ARG_TEMP, access: *access, r#ref: *t, dtype: 0, ..plain }
        }
    }
}

/// All that the program is, in bytes: equal keys are equal programs.
fn key_of(program: &Program) -> Vec<u8> {
    let mut key = program.source.clone().into_bytes();
    for launch in &program.launches {
        key.extend(launch.kernel.bytes());
        launch.global.describe(&mut key);
        launch.local.clone().unwrap_or_default().describe(&mut key);
        for arg in &launch.args {
            let a = karg(arg);
            for word in [a.kind, a.access, a.r#ref, a.dtype] {
                key.extend(word.to_le_bytes());
            }
            if let Arg::Number(f) = arg {
                f.describe(&mut key);
            }
        }
    }
    program.temps.iter().for_each(|t| t.describe(&mut key));
    key
}

impl OptBox {
    /// What the views point to are heap blocks, which stay where they are when the box is made.
    fn new(program: Program, len: u32) -> OptBox {
        let args: Vec<Vec<kf_karg>> =
            program.launches.iter().map(|l| l.args.iter().map(karg).collect()).collect();
        let launches: Vec<kf_launch> = program
            .launches
            .iter()
            .zip(&args)
            .map(|(l, args)| {
                let mut to = kf_launch { struct_size: size_of::<kf_launch>() as u32, ..Default::default() };
                to.dims = 1;
                to.kernel = text(&l.kernel);
                to.global[0] = l.global.expr();
                to.local[0] = l.local.as_ref().map_or(kf_expr::default(), Formula::expr);
                to.args = args.as_ptr();
                to.n_args = args.len() as u32;
                to
            })
            .collect();
        let temps: Vec<kf_temp> = program
            .temps
            .iter()
            .map(|t| kf_temp { bytes: t.expr(), prepack: KF_NONE, ..Default::default() })
            .collect();
        let steps: Vec<kf_step> =
            (0..launches.len() as u32).map(|index| kf_step { kind: KF_STEP_LAUNCH, index }).collect();
        let source = Box::new(kf_source {
            struct_size: size_of::<kf_source>() as u32,
            format: KF_FORMAT_OPENCL_C,
            code: kf_blob { ptr: program.source.as_ptr(), len: program.source.len() as u64 },
            cl_c_version: 120,
            ..Default::default()
        });
        let source_list = vec![&*source as *const kf_source];
        let launch_list: Vec<*const kf_launch> = launches.iter().map(|l| l as *const _).collect();
        let described = kf_program {
            struct_size: size_of::<kf_program>() as u32,
            flags: program.flags,
            sources: source_list.as_ptr(),
            n_sources: 1,
            launches: launch_list.as_ptr(),
            n_launches: launches.len() as u64,
            temps: temps.as_ptr(),
            n_temps: temps.len() as u64,
            steps: steps.as_ptr(),
            n_steps: steps.len() as u64,
            ..Default::default()
        };
        OptBox {
            len,
            key: key_of(&program),
            program,
            described,
            _args: args,
            _launches: launches,
            _launch_list: launch_list,
            _temps: temps,
            _steps: steps,
            _source: source,
            _source_list: source_list,
        }
    }
}

// ---- the functions of the table ----------------------------------------------------------------

/// No panic leaves this library.
fn caught(run: impl FnOnce() -> kf_status) -> kf_status {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or(KF_E_INTERNAL)
}

/// KF_OUT: never past what the caller has.
unsafe fn put<T>(to: *mut T, from: &T) -> kf_status {
    let room = *to.cast::<u32>() as usize;
    let n = room.min(size_of::<T>());
    ptr::copy_nonoverlapping((from as *const T).cast::<u8>().add(4), to.cast::<u8>().add(4), n.max(4) - 4);
    KF_OK
}

unsafe fn report(host: *const kf_host, op_index: u32, why: &Decline) {
    // KF_CAN: there and set.
    let end = ptr::addr_of!((*host).report).add(1) as usize - host as usize;
    if (*host).struct_size as usize >= end {
        if let Some(report) = (*host).report {
            let diag = kf_diag {
                struct_size: size_of::<kf_diag>() as u32,
                severity: KF_SEVERITY_INFO,
                code: why.0,
                op_index,
                message: text(&why.1),
            };
            report(host, &diag);
        }
    }
}

unsafe extern "C" fn init() -> kf_status {
    // A panic's message would go to standard error, which is the host's. The hook is this library's
    // own: it has a standard library for itself.
    caught(|| {
        std::panic::set_hook(Box::new(|_| {}));
        KF_OK
    })
}

unsafe extern "C" fn deinit() {}

unsafe extern "C" fn fuser_create<F: Fuser>(
    host: *const kf_host,
    index: u32,
    device: *const kf_device,
    out: *mut *mut kf_fuser,
) -> kf_status {
    *out = ptr::null_mut();
    if index >= F::COUNT {
        return KF_E_INVALID;
    }
    caught(|| match F::create(index, &*device) {
        Ok(fuser) => {
            *out = Box::into_raw(Box::new(FuserBox { fuser, host })).cast();
            KF_OK
        }
        Err(why) => {
            report(host, KF_NONE, &why);
            KF_DECLINED
        }
    })
}

/// Destroys what `into_raw` gave away; NULL is fine.
unsafe fn destroy<T>(object: *mut T) {
    if !object.is_null() {
        caught(|| {
            drop(Box::from_raw(object));
            KF_OK
        });
    }
}

unsafe extern "C" fn fuser_destroy<F: Fuser>(fuser: *mut kf_fuser) {
    destroy(fuser.cast::<FuserBox<F>>());
}

unsafe extern "C" fn builder_create<F: Fuser>(
    fuser: *const kf_fuser,
    out: *mut *mut kf_builder,
) -> kf_status {
    *out = ptr::null_mut();
    caught(|| {
        let (of, block) = (fuser.cast::<FuserBox<F>>(), F::Block::default());
        let builder = BuilderBox { of, block, closed: false, len: 0, shown: None };
        *out = Box::into_raw(Box::new(builder)).cast();
        KF_OK
    })
}

unsafe extern "C" fn builder_clone<F: Fuser>(
    builder: *const kf_builder,
    out: *mut *mut kf_builder,
) -> kf_status {
    *out = ptr::null_mut();
    caught(|| {
        let from = &*builder.cast::<BuilderBox<F>>();
        let to = BuilderBox { block: from.block.clone(), shown: None, ..*from };
        *out = Box::into_raw(Box::new(to)).cast();
        KF_OK
    })
}

unsafe fn answer<F: Fuser>(b: &mut BuilderBox<F>, out: *mut kf_state) -> kf_status {
    let mut state = kf_state {
        struct_size: size_of::<kf_state>() as u32,
        status: if b.closed { KF_CLOSED } else { KF_OPEN },
        ..Default::default()
    };
    b.shown = b.block.estimate(&(*b.of).fuser);
    if let Some(e) = &b.shown {
        state.ready = 1;
        state.len = b.len;
        state.confidence = KF_CONFIDENCE_MODEL;
        state.launches = e.launches;
        state.est_ns = e.ns.expr();
        state.est_bytes_read = e.read.expr();
        state.est_bytes_written = e.written.expr();
        state.est_flops = e.flops.expr();
        state.temp_bytes = e.temp.expr();
    }
    put(out, &state)
}

unsafe extern "C" fn builder_fuse<F: Fuser>(
    builder: *mut kf_builder,
    _block: *const kf_block,
    ops: *const *const kf_op,
    n: u64,
    out: *mut kf_state,
) -> kf_status {
    caught(|| {
        let b = &mut *builder.cast::<BuilderBox<F>>();
        for op in list(ops, n) {
            if b.closed {
                break;
            }
            match b.block.push(&(*b.of).fuser, Op(&**op)) {
                Ok(()) => b.len += 1,
                Err(why) => {
                    b.closed = true;
                    report((*b.of).host, (**op).position, &why);
                }
            }
        }
        answer(b, out)
    })
}

unsafe extern "C" fn builder_state<F: Fuser>(
    builder: *const kf_builder,
    out: *mut kf_state,
) -> kf_status {
    // Calls on one builder never overlap, so its room for estimates may be used here.
    caught(|| answer(&mut *(builder as *mut BuilderBox<F>), out))
}

unsafe extern "C" fn builder_reset<F: Fuser>(builder: *mut kf_builder) -> kf_status {
    caught(|| {
        let b = &mut *builder.cast::<BuilderBox<F>>();
        *b = BuilderBox { of: b.of, block: F::Block::default(), closed: false, len: 0, shown: None };
        KF_OK
    })
}

unsafe extern "C" fn builder_finish<F: Fuser>(
    builder: *mut kf_builder,
    out: *mut *mut kf_opt,
) -> kf_status {
    *out = ptr::null_mut();
    caught(|| {
        let b = &*builder.cast::<BuilderBox<F>>();
        let fuser = &(*b.of).fuser;
        if b.block.estimate(fuser).is_none() {
            return KF_E_INVALID;
        }
        *out = Box::into_raw(Box::new(OptBox::new(b.block.finish(fuser), b.len))).cast();
        KF_OK
    })
}

unsafe extern "C" fn builder_destroy<F: Fuser>(builder: *mut kf_builder) {
    destroy(builder.cast::<BuilderBox<F>>());
}

unsafe extern "C" fn opt_info(opt: *const kf_opt, out: *mut kf_opt_info) -> kf_status {
    caught(|| {
        let opt = &*opt.cast::<OptBox>();
        let info = kf_opt_info {
            struct_size: size_of::<kf_opt_info>() as u32,
            len: opt.len,
            n_variants: 1,
            name: text(&opt.program.name),
            key: kf_blob { ptr: opt.key.as_ptr(), len: opt.key.len() as u64 },
            ..Default::default()
        };
        put(out, &info)
    })
}

unsafe extern "C" fn opt_describe(opt: *const kf_opt, variant: u32, out: *mut kf_program) -> kf_status {
    caught(|| match variant {
        0 => put(out, &(*opt.cast::<OptBox>()).described),
        _ => KF_E_INVALID,
    })
}

unsafe extern "C" fn opt_destroy(opt: *mut kf_opt) {
    destroy(opt.cast::<OptBox>());
}

/// A table that may be a `static`: nothing in it changes, and its functions are re-entrant.
#[repr(transparent)]
pub struct Table(pub kf_plugin);
unsafe impl Sync for Table {}

#[repr(transparent)]
pub struct Strings<const N: usize>(pub [kf_str; N]);
unsafe impl<const N: usize> Sync for Strings<N> {}

pub const fn literal(s: &'static str) -> kf_str {
    kf_str { ptr: s.as_ptr(), len: s.len() as u64 }
}

pub const fn table<F: Fuser>(id: &'static str, version: &'static str, fusers: &'static [kf_str]) -> Table {
    assert!(fusers.len() == F::COUNT as usize);
    Table(kf_plugin {
        struct_size: size_of::<kf_plugin>() as u32,
        abi_minor: KF_ABI_MINOR,
        id: literal(id),
        version: literal(version),
        vendor: literal("Example"),
        fuser_ids: fusers.as_ptr(),
        n_fusers: fusers.len() as u64,
        init: Some(init),
        deinit: Some(deinit),
        extension: None,
        fuser_create: Some(fuser_create::<F>),
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
        opt_to_state: None,
        opt_from_state: None,
        opt_destroy: Some(opt_destroy),
    })
}

/// The manifest: kiln_fuser.h's KF_MANIFEST. Put it into a `#[used]` static of KF_NOTE_SECTION.
pub const fn note(id: &str, version: &str) -> kf_note {
    kf_note {
        namesz: 4,
        descsz: size_of::<kf_manifest>() as u32,
        r#type: KF_NOTE_TYPE,
        name: *b"KFU\0",
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
const fn padded<const N: usize>(s: &str) -> [u8; N] {
    let (mut to, from, mut i) = ([0; N], s.as_bytes(), 0);
    assert!(from.len() < N, "too long for its field");
    while i < from.len() {
        to[i] = from[i];
        i += 1;
    }
    to
}
