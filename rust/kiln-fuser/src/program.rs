// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program that a block becomes: sources, launches with arguments, temporaries, steps.
use crate::sys::*;
use crate::{Formula, Operand};

/// Steps run in order, and after the last one everything that the covered operations define and do not drop has been
/// written. Without `steps` the launches run in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Program {
    /// Short, for traces and `kiln explain`: "my-fuser(add,relu)".
    pub name: String,
    pub sources: Vec<Source>,
    pub launches: Vec<Launch>,
    pub temps: Vec<Temp>,
    pub steps: Vec<Step>,
    /// KF_PROGRAM_*.
    pub flags: u32,
    /// The program is taken while this is not 0; empty: always.
    pub guard: Formula,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    OpenClC(String),
    SpirV(Vec<u8>),
    /// For devices of this fingerprint.
    Binary { code: Vec<u8>, fingerprint: Vec<u8> },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    pub code: Code,
    /// "NAME" or "NAME=VALUE".
    pub defines: Vec<String>,
    /// KF_MATH_*; 0 is strict.
    pub math_flags: u64,
    /// The OpenCL C that it needs at least, 120 is 1.2.
    pub cl_c_version: u32,
    /// For the device's own compiler: `kf_source.options`. Of a host of 1.0 a source with options is refused.
    pub options: String,
    /// What a compiler made of it before, for devices without one.
    pub binaries: Vec<Binary>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Binary {
    pub device: String,
    /// Empty: any.
    pub driver: String,
    pub code: Vec<u8>,
}

/// One kernel that is started. `global` and `local` have one to three sizes; without `local` the driver chooses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Launch {
    /// Index of the program's source.
    pub source: u32,
    pub kernel: String,
    pub global: Vec<Formula>,
    pub local: Vec<Formula>,
    pub args: Vec<Arg>,
    /// The same work by one work-item, for FPGAs; it has neither sizes nor a `single`.
    pub single: Option<Box<Launch>>,
}

/// An argument of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Arg {
    /// The buffer of a tensor; KF_ACCESS_*. `group` is told by programs with KF_PROGRAM_IN_PLACE_SAFE.
    Tensor { id: u32, dtype: u32, access: u32, group: u32 },
    /// The buffer of a temporary; KF_ACCESS_*.
    Temp { index: u32, access: u32 },
    /// Of a tensor, in elements, as long.
    Offset { id: u32 },
    /// Of an axis of a tensor, in elements, as long.
    Stride { id: u32, axis: u32 },
    /// The extent of a symbol, as long.
    Extent { symbol: u32 },
    /// A number of the block, as an element of this dtype.
    Scalar { index: u32, dtype: u32 },
    /// As long.
    Number(Formula),
    /// Local memory, in bytes.
    Local(Formula),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Temp {
    pub bytes: Formula,
    /// Of its first byte; 0: the device's.
    pub align: u32,
    /// The launch that fills it once from constants; it then outlives the run, and the launch is in no step.
    pub prepack: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    Launch(u32),
    /// The host runs the operation at this position of the block by itself.
    HostOp(u32),
}

impl Source {
    /// Strict OpenCL C 1.2.
    pub fn opencl(code: impl Into<String>) -> Source {
        let code = Code::OpenClC(code.into());
        Source {
            code,
            defines: Vec::new(),
            math_flags: 0,
            cl_c_version: 120,
            options: String::new(),
            binaries: Vec::new(),
        }
    }
}

impl Launch {
    /// A kernel of source 0 over so many work-items in one dimension.
    pub fn new(kernel: impl Into<String>, work_items: impl Into<Formula>) -> Launch {
        Launch { kernel: kernel.into(), global: vec![work_items.into()], ..Launch::default() }
    }
    /// Work-items of a group.
    pub fn local(mut self, size: impl Into<Formula>) -> Launch {
        self.local.push(size.into());
        self
    }
    pub fn arg(mut self, arg: Arg) -> Launch {
        self.args.push(arg);
        self
    }
    pub fn read(self, t: &Operand) -> Launch {
        self.arg(Arg::read(t.id, t.dtype))
    }
    pub fn write(self, t: &Operand) -> Launch {
        self.arg(Arg::write(t.id, t.dtype))
    }
    pub fn number(self, value: impl Into<Formula>) -> Launch {
        self.arg(Arg::Number(value.into()))
    }
}

impl Arg {
    pub fn read(id: u32, dtype: u32) -> Arg {
        Arg::Tensor { id, dtype, access: KF_ACCESS_READ, group: 0 }
    }
    pub fn write(id: u32, dtype: u32) -> Arg {
        Arg::Tensor { id, dtype, access: KF_ACCESS_WRITE, group: 0 }
    }
}

impl Program {
    /// One source and one launch, without temporaries; the same inputs give the same bits.
    pub fn of(name: impl Into<String>, source: impl Into<String>, launch: Launch) -> Program {
        Program {
            name: name.into(),
            sources: vec![Source::opencl(source)],
            launches: vec![launch],
            flags: KF_PROGRAM_DETERMINISTIC,
            ..Program::default()
        }
    }
    /// The steps as they are run.
    pub(crate) fn all_steps(&self) -> Vec<Step> {
        if !self.steps.is_empty() {
            return self.steps.clone();
        }
        let packs = |index: &u32| self.temps.iter().any(|t| t.prepack == Some(*index));
        (0..self.launches.len() as u32).filter(|index| !packs(index)).map(Step::Launch).collect()
    }
}
