// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program of a block: kernels.cl with the block's computation in it, and the launches.
use crate::scan::{Chain, Number, Scan, Step};
use kiln_fuser::sys::*;
use kiln_fuser::tables::Elementwise;
use kiln_fuser::{imm, Arg, Formula, Launch, Program, Source, Temp};
use std::fmt::Write;

/// What an operator computes from elements of this type.
pub fn expression(row: &Elementwise, dtype: u32) -> Option<&'static str> {
    if dtype == KF_DTYPE_F32 { row.float } else { row.signed }
}

fn element(dtype: u32) -> (&'static str, &'static str) {
    if dtype == KF_DTYPE_F32 { ("float", "float") } else { ("int", "uint") }
}

/// A vector's name; one lane is no vector.
fn vector(element: &str, lanes: u32) -> String {
    if lanes == 1 { element.into() } else { format!("{element}{lanes}") }
}

/// Fills in a template of kf_elementwise.def; its head says what stands for what.
fn operation(chain: &Chain, fuser: &Scan, step: &Step, row: &Elementwise) -> String {
    let (mut out, lanes) = (String::new(), fuser.lanes);
    let mut from = expression(row, chain.dtype).unwrap_or("").chars();
    while let Some(c) = from.next() {
        match (c, if c == '$' { from.next() } else { None }) {
            ('$', Some(input @ 'a'..='c')) => {
                write!(out, "v{}", step.inputs[input as usize - 'a' as usize])
            }
            ('$', Some('s')) => write!(out, "s{}", step.number.unwrap_or(0)),
            ('$', Some(digit @ '0'..='1')) => write!(out, "(TV)({digit})"),
            ('$', Some('T')) => write!(out, "{}", vector(element(chain.dtype).0, lanes)),
            ('$', Some('U')) => write!(out, "{}", vector("uint", lanes)),
            ('$', Some('M')) => write!(out, "{}", vector("int", lanes)),
            ('$', Some('C')) => write!(out, "{}", element(chain.dtype).0),
            ('$', Some('W')) => write!(out, "32"),
            ('$', other) => panic!("a template with ${other:?}"),
            _ => write!(out, "{c}"),
        }
        .unwrap();
    }
    format!("const TV v{} = {out};\n", step.result)
}

// ---- text --------------------------------------------------------------------------------------

const FORM_LANES: u32 = 0;
const FORM_COLUMNS: u32 = 1;
const FORM_GROUP: u32 = 2;

fn form(chain: &Chain, fuser: &Scan) -> u32 {
    match (chain.innermost(), fuser.block_shape) {
        (false, _) => FORM_COLUMNS,
        (true, true) => FORM_LANES,
        (true, false) => FORM_GROUP,
    }
}

/// Elements of `x` moved up by `by` lanes, zeros below; or in the order `at` gives.
fn lanes_of(x: &str, lanes: u32, at: impl Fn(u32) -> Option<u32>) -> String {
    let one = |lane| at(lane).map_or("(S)(0)".into(), |from| format!("{x}.s{from:x}"));
    format!("(SV)({})", (0..lanes).map(one).collect::<Vec<String>>().join(", "))
}

fn head(chain: &Chain, fuser: &Scan) -> String {
    let ((t, s), lanes, form) = (element(chain.dtype), fuser.lanes, form(chain, fuser));
    let is_float = chain.dtype == KF_DTYPE_F32;
    let (tv, sv) = (vector(t, lanes), vector(s, lanes));
    let bits = |to: &str| if is_float { "(x)".to_string() } else { format!("as_{to}(x)") };
    let yes = u32::from;
    let mut h = format!(
        "#pragma OPENCL FP_CONTRACT OFF\n#define LANES {lanes}\n#define GROUP {}\n\
         #define FORM_LANES {FORM_LANES}\n#define FORM_COLUMNS {FORM_COLUMNS}\n#define FORM {form}\n\
         #define BLOCKS {}\n#define REVERSE {}\n#define EXCLUSIVE {}\n\
         typedef {t} T;\ntypedef {tv} TV;\ntypedef {s} S;\ntypedef {sv} SV;\n\
         #define TO_SUM(x) {}\n#define FROM_SUM(x) {}\n#define TO_SUM1(x) {}\n#define as_T(x) {}\n",
        fuser.group, yes(fuser.blocks), yes(chain.reverse), yes(chain.exclusive),
        bits(&sv), bits(&tv), bits(s), bits(t),
    );
    if lanes > 1 {
        writeln!(h, "#define VLOAD vload{lanes}\n#define VSTORE vstore{lanes}").unwrap();
        writeln!(h, "#define SVLOAD vload{lanes}\n#define SVSTORE vstore{lanes}").unwrap();
    }
    if form == FORM_LANES {
        let up = |by: u32| lanes_of("(x)", lanes, |lane| lane.checked_sub(by));
        let steps: Vec<String> = (0..lanes.trailing_zeros())
            .map(|k| up(1 << k).replace("(x)", "x"))
            .map(|moved| format!("x += {moved};"))
            .collect();
        writeln!(h, "#define WITHIN(x) {}\n#define EARLIER(x) {}", steps.join(" "), up(1)).unwrap();
        writeln!(h, "#define LAST(x) (x).s{:x}", lanes - 1).unwrap();
        let turned = format!(
            "static inline SV turn(SV x)\n{{\n    return {};\n}}\n#define IN_ORDER(x) turn(x)",
            lanes_of("x", lanes, |lane| Some(lanes - 1 - lane))
        );
        writeln!(h, "{}", if chain.reverse { &turned } else { "#define IN_ORDER(x) (x)" }).unwrap();
    }
    let size = if form == FORM_GROUP { "__attribute__((reqd_work_group_size(GROUP, 1, 1)))" } else { "" };
    writeln!(h, "#define GROUP_SIZE {size}").unwrap();
    h
}

fn literal(chain: &Chain, bits: u64) -> String {
    match chain.dtype {
        KF_DTYPE_F32 => format!("as_float(0x{:x}u)", (f64::from_bits(bits) as f32).to_bits()),
        _ => format!("(int)0x{:x}u", bits as u32),
    }
}

/// What a kernel declares, and computes before the sums, of the values that `needed` says.
struct Prologue {
    params: String,
    numbers: String,
    text: String,
}

fn prologue(chain: &Chain, fuser: &Scan, needed: &[bool]) -> Prologue {
    let (mut params, mut numbers, mut text) = (String::new(), String::new(), String::new());
    for (i, v) in chain.inputs().filter(|(i, _)| needed[*i]) {
        write!(params, "__global const T *p{i}, ").unwrap();
        let mut at = if v.whole { "at".to_string() } else { "0".into() };
        if v.offset {
            write!(params, "long o{i}, ").unwrap();
            write!(at, " + o{i}").unwrap();
        }
        // One element for all is read once, by every lane the same.
        match v.whole {
            true => writeln!(text, "const TV v{i} = load(p{i}, {at}, n);"),
            false => writeln!(numbers, "const TV v{i} = (TV)(p{i}[{at}]);"),
        }
        .unwrap();
    }
    for (i, n) in chain.numbers.iter().enumerate() {
        let value = match n {
            Number::Scalar(_) => {
                write!(params, "T a{i}, ").unwrap();
                format!("a{i}")
            }
            Number::Constant(bits) => literal(chain, *bits),
        };
        writeln!(numbers, "const TV s{i} = (TV)({value});").unwrap();
    }
    for step in chain.steps.iter().filter(|s| needed[s.result] && !chain.values[s.result].summed) {
        text.extend(step.row.map(|row| operation(chain, fuser, step, row)));
    }
    Prologue { params, numbers, text }
}

fn source(chain: &Chain, fuser: &Scan) -> String {
    let (mut outputs, mut behind, mut stores) = (String::new(), String::new(), String::new());
    let part = prologue(chain, fuser, &chain.summands());
    let all = prologue(chain, fuser, &vec![true; chain.values.len()]);
    let mut sum = String::new();
    for step in chain.steps.iter().filter(|s| chain.values[s.result].summed) {
        match step.row {
            None => sum = format!("v{}", step.result),
            Some(row) => behind += &operation(chain, fuser, step, row),
        }
    }
    for (i, _) in chain.outputs() {
        write!(outputs, "__global T *q{i}, ").unwrap();
        writeln!(stores, "store(q{i}, at, n, v{i});").unwrap();
    }
    let marks = [
        ("@summands", &part.params),
        ("@numbers_of_summands", &part.numbers),
        ("@before_sums", &part.text),
        ("@inputs", &all.params),
        ("@outputs", &outputs),
        ("@numbers", &all.numbers),
        ("@before_scan", &all.text),
        ("@behind_scan", &behind),
        ("@stores", &stores),
        ("@scanned", &format!("v{}", chain.scanned())),
        ("@sum", &sum),
    ];
    let kernels = include_str!("kernels.cl").to_string();
    head(chain, fuser) + &marks.iter().fold(kernels, |text, (mark, with)| text.replace(mark, with))
}

// ---- launches ----------------------------------------------------------------------------------

pub fn program(chain: &Chain, fuser: &Scan) -> Program {
    let [outer, length, inner] = chain.extents();
    let (block, blocks) = chain.cut(fuser);
    let group = form(chain, fuser) == FORM_GROUP;
    let operands = |needed: &[bool]| {
        let mut args = Vec::new();
        for (_, v) in chain.inputs().filter(|(i, _)| needed[*i]) {
            args.push(Arg::read(v.id, chain.dtype));
            args.extend(v.offset.then(|| Arg::Offset { id: v.id }));
        }
        args.extend(chain.numbers.iter().filter_map(|n| match n {
            Number::Scalar(index) => Some(Arg::Scalar { index: *index, dtype: chain.dtype }),
            Number::Constant(_) => None,
        }));
        args
    };
    let sizes: Vec<Arg> =
        [length, inner.clone(), block, blocks.clone()].into_iter().map(Arg::Number).collect();
    let pieces = chain.pieces(fuser) * if group { i64::from(fuser.group) } else { 1 };
    // On a CPU each piece of work is a work-group of its own: these are what drivers spread over the
    // cores, and left to themselves they make one group of a few pieces.
    let local = match (group, fuser.block_shape) {
        (true, _) => Some(imm(i64::from(fuser.group))),
        (false, true) => Some(imm(1)),
        (false, false) => None,
    };
    let launch = |kernel: &str, global: &Formula, local: &Option<Formula>, args: Vec<Arg>| Launch {
        local: local.iter().cloned().collect(),
        args,
        ..Launch::new(kernel, global.clone())
    };
    let sums = |access| vec![Arg::Temp { index: 0, access }];
    let results: Vec<Arg> = chain.outputs().map(|(_, v)| Arg::write(v.id, chain.dtype)).collect();
    let mut launches = Vec::new();
    if fuser.blocks {
        let first = [operands(&chain.summands()), sizes.clone(), sums(KF_ACCESS_WRITE)].concat();
        launches.push(launch("sums_of_blocks", &pieces, &local, first));
        let second = [sizes[1..2].to_vec(), sizes[3..].to_vec(), sums(KF_ACCESS_READ_WRITE)].concat();
        launches.push(launch("scan_of_sums", &(outer.clone() * inner.clone()), &None, second));
    }
    let third = if fuser.blocks { sums(KF_ACCESS_READ) } else { Vec::new() };
    launches.push(launch("scan", &pieces, &local, [operands(&vec![true; chain.values.len()]), results, sizes, third].concat()));
    let names: Vec<String> =
        chain.steps.iter().map(|s| s.row.map_or("cum_sum".into(), |r| r.name.into())).collect();
    Program {
        name: format!("{}({})", if fuser.blocks { "scan_blocks" } else { "scan" }, names.join(",")),
        sources: vec![Source::opencl(source(chain, fuser))],
        launches,
        temps: if fuser.blocks { vec![Temp { bytes: outer * blocks * inner * 4, ..Temp::default() }] } else { Vec::new() },
        flags: KF_PROGRAM_DETERMINISTIC | KF_PROGRAM_IN_PLACE_SAFE,
        ..Program::default()
    }
}
