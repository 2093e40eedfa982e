// SPDX-License-Identifier: MIT OR Apache-2.0
//! A finished program as the structs of kf_program.h, and the memory that these point to.
use crate::sys::*;
use crate::{Arg, Code, Formula, Launch, Program, Source, Step, Temp};
use std::{any::Any, mem::size_of, ptr};

/// A finished block. Immutable once it is made, so any thread may look at it.
pub struct Finished {
    pub len: u32,
    pub name: String,
    /// Equal keys are equal programs: it says all that they are.
    pub key: Vec<u8>,
    /// The default, then its variants.
    pub programs: Vec<Built>,
    /// Nanoseconds of each, the first left open; none where they are not said of all variants.
    pub costs: Vec<kf_expr>,
    _kept: Kept,
}

impl Finished {
    pub fn new(first: Program, others: Vec<Program>, ns: Vec<Formula>, len: u32) -> Finished {
        let mut kept = Kept::default();
        let mut costs = Vec::new();
        if !ns.is_empty() && ns.len() == others.len() {
            costs.push(kf_expr::default());
            costs.extend(ns.iter().map(|one| kept.formula(one)));
        }
        let mut all = vec![first];
        all.extend(others);
        let key = all.iter().map(|one| format!("{one:?}")).collect::<String>().into_bytes();
        let name = all[0].name.clone();
        Finished { len, name, key, programs: all.into_iter().map(Built::new).collect(), costs, _kept: kept }
    }
}

pub struct Built {
    pub program: kf_program,
    _kept: Kept,
}

/// What the structs point to. Elements of a vector stay where they are when the vector moves.
#[derive(Default)]
struct Kept(Vec<Box<dyn Any>>);

impl Kept {
    fn list<T: 'static>(&mut self, list: Vec<T>) -> *const T {
        let at = if list.is_empty() { ptr::null() } else { list.as_ptr() };
        self.0.push(Box::new(list));
        at
    }
    /// An array of pointers to structs, as lists are whose structs may grow.
    fn pointers<T: 'static>(&mut self, list: Vec<T>) -> *const *const T {
        let n = list.len();
        let first = self.list(list);
        self.list((0..n).map(|i| first.wrapping_add(i)).collect())
    }
    fn blob(&mut self, bytes: &[u8]) -> kf_blob {
        kf_blob { len: bytes.len() as u64, ptr: self.list(bytes.to_vec()).cast() }
    }
    fn text(&mut self, text: &str) -> kf_str {
        let blob = self.blob(text.as_bytes());
        kf_str { ptr: blob.ptr.cast(), len: blob.len }
    }
    fn formula(&mut self, formula: &Formula) -> kf_expr {
        let ins = formula.instructions();
        kf_expr { n: ins.len() as u64, ins: self.list(ins) }
    }
    /// Up to three sizes.
    fn sizes(&mut self, sizes: &[Formula]) -> [kf_expr; 3] {
        let mut out = [kf_expr::default(); 3];
        for (to, size) in out.iter_mut().zip(sizes) {
            *to = self.formula(size);
        }
        out
    }

    fn source(&mut self, from: &Source) -> kf_source {
        let (format, code, fingerprint): (_, &[u8], &[u8]) = match &from.code {
            Code::OpenClC(text) => (KF_FORMAT_OPENCL_C, text.as_bytes(), &[]),
            Code::SpirV(words) => (KF_FORMAT_SPIRV, words, &[]),
            Code::Binary { code, fingerprint } => (KF_FORMAT_BINARY, code, fingerprint),
        };
        let defines: Vec<kf_str> = from.defines.iter().map(|text| self.text(text)).collect();
        let binaries: Vec<kf_binary> = from.binaries.iter().map(|b| kf_binary {
            struct_size: size_of::<kf_binary>() as u32,
            device: self.text(&b.device),
            driver: self.text(&b.driver),
            code: self.blob(&b.code),
            ..kf_binary::default()
        }).collect();
        kf_source {
            struct_size: size_of::<kf_source>() as u32,
            format,
            code: self.blob(code),
            fingerprint: self.blob(fingerprint),
            n_defines: defines.len() as u64,
            defines: self.list(defines),
            math_flags: from.math_flags,
            cl_c_version: from.cl_c_version,
            n_binaries: binaries.len() as u64,
            binaries: self.pointers(binaries),
            options: self.text(&from.options),
            ..kf_source::default()
        }
    }

    fn arg(&mut self, from: &Arg) -> kf_karg {
        let plain = kf_karg { dtype: KF_DTYPE_I64, ..kf_karg::default() };
        match from {
            Arg::Tensor { id, dtype, access, group } => kf_karg {
                kind: KF_ARG_TENSOR, r#ref: *id, dtype: *dtype, access: *access, group: *group, ..plain
            },
            Arg::Temp { index, access } => {
                kf_karg { kind: KF_ARG_TEMP, r#ref: *index, access: *access, dtype: 0, ..plain }
            }
            Arg::Offset { id } => kf_karg { kind: KF_ARG_OFFSET, r#ref: *id, ..plain },
            Arg::Stride { id, axis } => kf_karg { kind: KF_ARG_STRIDE, r#ref: *id, axis: *axis, ..plain },
            Arg::Extent { symbol } => kf_karg { kind: KF_ARG_DIM, r#ref: *symbol, ..plain },
            Arg::Scalar { index, dtype } => kf_karg { kind: KF_ARG_SCALAR, r#ref: *index, dtype: *dtype, ..plain },
            Arg::Number(value) => kf_karg { kind: KF_ARG_VALUE, value: self.formula(value), ..plain },
            Arg::Local(bytes) => kf_karg { kind: KF_ARG_LOCAL, value: self.formula(bytes), dtype: 0, ..plain },
        }
    }

    fn launch(&mut self, from: &Launch) -> kf_launch {
        let args: Vec<kf_karg> = from.args.iter().map(|a| self.arg(a)).collect();
        let single = from.single.as_ref().map(|one| self.launch(one));
        kf_launch {
            struct_size: size_of::<kf_launch>() as u32,
            source: from.source,
            dims: from.global.len() as u32,
            n_args: args.len() as u32,
            kernel: self.text(&from.kernel),
            global: self.sizes(&from.global),
            local: self.sizes(&from.local),
            args: self.list(args),
            single: self.list(single.into_iter().collect()),
            ..kf_launch::default()
        }
    }

    fn temp(&mut self, from: &Temp) -> kf_temp {
        kf_temp {
            bytes: self.formula(&from.bytes),
            align: from.align,
            flags: if from.prepack.is_some() { KF_TEMP_PERSISTENT } else { 0 },
            prepack: from.prepack.unwrap_or(KF_NONE),
            reserved: 0,
        }
    }
}

fn step(from: &Step) -> kf_step {
    match from {
        Step::Launch(index) => kf_step { kind: KF_STEP_LAUNCH, index: *index },
        Step::HostOp(index) => kf_step { kind: KF_STEP_HOST_OP, index: *index },
    }
}

impl Built {
    pub fn new(from: Program) -> Built {
        let mut kept = Kept::default();
        let sources: Vec<kf_source> = from.sources.iter().map(|s| kept.source(s)).collect();
        let launches: Vec<kf_launch> = from.launches.iter().map(|l| kept.launch(l)).collect();
        let temps: Vec<kf_temp> = from.temps.iter().map(|t| kept.temp(t)).collect();
        let steps: Vec<kf_step> = from.all_steps().iter().map(step).collect();
        let program = kf_program {
            struct_size: size_of::<kf_program>() as u32,
            flags: from.flags,
            n_sources: sources.len() as u64,
            sources: kept.pointers(sources),
            n_launches: launches.len() as u64,
            launches: kept.pointers(launches),
            n_temps: temps.len() as u64,
            temps: kept.list(temps),
            n_steps: steps.len() as u64,
            steps: kept.list(steps),
            guard: kept.formula(&from.guard),
        };
        Built { program, _kept: kept }
    }
}
