// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which operations join: one cum_sum of f32 or i32, and operators that work element by element on
//! tensors of its shape, before and behind it. What that costs. The kernels: kernel.rs.
use crate::kernel;
use kiln_fuser::sys::*;
use kiln_fuser::tables::{self, Elementwise};
use kiln_fuser::{decline, imm, product, Block, Decline, Device, Estimate, Formula, Fuser, Op, Program, Tensor, Value as Attr};

const MAX_VALUES: usize = 24; // tensors and numbers of a block: arguments of a kernel are few

/// One of the two fusers on one device: what its kernels and estimates depend on.
pub struct Scan {
    pub blocks: bool,     // long rows in blocks, three launches; else one launch, a row at a time
    pub block_shape: bool, // a loop with vectors in each work-item (CPU); else many small work-items
    pub lanes: u32,
    pub group: u32,
    storage: u64,
    max_param_bytes: u64,
    ps_per_kib: i64,
    flop_ps: i64, // one operation on one element, on one compute unit
    link_ps: i64, // one element's part in the chain of sums, on one compute unit
    far_ps: i64,  // the same for a step from row to row of columns, which miss the cache
    tail_ps: i64, // the end of a row that is no whole vector
    launch_ns: i64,
}

impl Fuser for Scan {
    type Block = Chain;

    fn create(index: u32, device: Device) -> Result<Scan, Decline> {
        if !device.has(KF_FEATURE_COMPILER) {
            return decline(KF_CODE_DEVICE, "the device has no compiler");
        }
        if !device.stores(KF_DTYPE_F32) {
            return decline(KF_CODE_DEVICE, "the device has no f32");
        }
        let block_shape = device.wants_blocks();
        let units = i64::from(device.compute_units.max(1));
        let or = |value: u64, unknown: u64| if value == 0 { unknown } else { value };
        Ok(Scan {
            blocks: index == 1,
            block_shape,
            lanes: if !block_shape { 1 } else { (device.vector_bytes / 4).clamp(8, 16) },
            group: device.max_group_size.clamp(1, 256) as u32,
            storage: device.dtype_storage,
            max_param_bytes: or(device.max_param_bytes, 1024),
            ps_per_kib: (1_024_000_000_000_000 / or(device.mem_bytes_per_s, 10_000_000_000)) as i64 + 1,
            // Of the peak, chains of built-in functions reach a quarter: on two cores exp, log and
            // tanh took 27 to 44 ps for what the SDK counts as one addition, where the peak is 7.
            // No unit is taken to be slower than 200 ps: the rates of simulators say nothing.
            flop_ps: (4_000_000_000_000 * units / or(device.flops_f32, 10_000_000_000) as i64)
                .clamp(1, 200),
            link_ps: if block_shape { 500 } else { 300 },
            far_ps: if block_shape { 5_000 } else { 300 },
            tail_ps: if block_shape { 20_000 } else { 0 },
            launch_ns: or(device.launch_ns, 5000) as i64,
        })
    }
}

#[derive(Clone)]
pub struct Value {
    pub id: u32,
    pub computed: bool,
    pub dropped: bool,
    pub summed: bool, // behind the scan
    pub whole: bool,  // of the block's shape; else one element for all
    pub offset: bool, // does not begin where its buffer does
}

#[derive(Clone, PartialEq)]
pub enum Number {
    Scalar(u32),   // of the block
    Constant(u64), // bits of an f64 or an i64, as `f64` of the block says
}

#[derive(Clone)]
pub struct Step {
    pub row: Option<&'static Elementwise>, // None: the scan
    pub inputs: Vec<usize>,
    pub number: Option<usize>,
    pub result: usize,
}

/// The block: `values` are its tensors in order of first sight.
#[derive(Clone, Default)]
pub struct Chain {
    pub dtype: u32,
    pub symbols: Vec<u32>,
    pub values: Vec<Value>,
    pub numbers: Vec<Number>,
    pub steps: Vec<Step>,
    pub axis: Option<usize>, // set by the scan
    pub exclusive: bool,
    pub reverse: bool,
}

impl Chain {
    fn index(&self, id: u32) -> Option<usize> {
        self.values.iter().position(|v| v.id == id)
    }

    /// Can the tensor be an operand? One that is new must be dense, and of the shape or one element.
    fn check_input(&self, t: Tensor, symbols: &[u32], dtype: u32) -> Result<(), Decline> {
        if t.dtype() != dtype {
            return decline(KF_CODE_DTYPE, "operands of several element types");
        }
        if self.index(t.id()).is_some() {
            return Ok(()); // looked at when it was new
        }
        if !t.has(KF_FACT_CONTIGUOUS) {
            return decline(KF_CODE_LAYOUT, "an input is not dense");
        }
        let own = t.symbols();
        if own != symbols && own.iter().any(|s| *s != 0) {
            return decline(KF_CODE_SHAPE, "only operands of the result's shape, or of one element");
        }
        Ok(())
    }

    /// What every operation of a block must be: one result of the block's shape and element type.
    fn check(&self, fuser: &Scan, op: Op) -> Result<(), Decline> {
        let (inputs, outputs) = (op.inputs(), op.outputs());
        if outputs.len() != 1 {
            return decline(KF_CODE_NOT_UNDERSTOOD, "several results");
        }
        let result = outputs[0];
        let (dtype, symbols) = (result.dtype(), result.symbols());
        if dtype != KF_DTYPE_F32 && dtype != KF_DTYPE_I32 || fuser.storage >> dtype & 1 == 0 {
            return decline(KF_CODE_DTYPE, "only f32 and i32");
        }
        if !self.steps.is_empty() && (dtype != self.dtype || symbols != self.symbols) {
            return decline(KF_CODE_SHAPE, "of another shape or element type than the block");
        }
        let values = self.values.len() + self.numbers.len() + inputs.len() + 2;
        if values > MAX_VALUES || 16 * values as u64 + 64 > fuser.max_param_bytes {
            return decline(KF_CODE_LIMIT, "the block has as many tensors as a kernel takes");
        }
        if self.index(result.id()).is_some() {
            return decline(KF_CODE_HAZARD, "a result that the block knows already");
        }
        inputs.iter().try_for_each(|t| self.check_input(*t, &symbols, dtype))
    }

    fn read(&mut self, t: Tensor) -> usize {
        if let Some(known) = self.index(t.id()) {
            return known;
        }
        self.values.push(Value {
            id: t.id(),
            computed: false,
            dropped: false,
            summed: false,
            whole: t.symbols() == self.symbols,
            offset: !t.has(KF_FACT_ZERO_OFFSET),
        });
        self.values.len() - 1
    }

    fn record(&mut self, op: Op, row: Option<&'static Elementwise>, number: Option<usize>) {
        let result = op.outputs()[0];
        self.dtype = result.dtype();
        self.symbols = result.symbols();
        let inputs: Vec<usize> = op.inputs().into_iter().map(|t| self.read(t)).collect();
        let summed = row.is_none() || inputs.iter().any(|i| self.values[*i].summed);
        let (id, computed) = (result.id(), true);
        self.values.push(Value { id, computed, dropped: false, summed, whole: true, offset: false });
        self.steps.push(Step { row, inputs, number, result: self.values.len() - 1 });
    }

    fn push_scan(&mut self, fuser: &Scan, op: Op) -> Result<(), Decline> {
        if !op.understood(1, &[KF_ATTR_AXIS, KF_ATTR_EXCLUSIVE, KF_ATTR_REVERSE]) {
            return decline(KF_CODE_NOT_UNDERSTOOD, "cum_sum with something newer than this fuser");
        }
        if self.axis.is_some() {
            return decline(KF_CODE_LIMIT, "a second scan");
        }
        self.check(fuser, op)?;
        let rank = op.outputs()[0].symbols().len() as i64;
        let axis = op.attr(KF_ATTR_AXIS).and_then(Attr::as_i64).map(|a| if a < 0 { a + rank } else { a });
        let axis = match axis {
            Some(axis) if (0..rank).contains(&axis) => axis as usize,
            _ => return decline(KF_CODE_SHAPE, "no axis to sum along"),
        };
        if op.inputs().len() != 1 || op.inputs()[0].symbols() != op.outputs()[0].symbols() {
            return decline(KF_CODE_SHAPE, "a scan of something else than one whole tensor");
        }
        self.axis = Some(axis);
        self.exclusive = op.attr(KF_ATTR_EXCLUSIVE).and_then(Attr::as_bool).unwrap_or(false);
        self.reverse = op.attr(KF_ATTR_REVERSE).and_then(Attr::as_bool).unwrap_or(false);
        self.record(op, None, None);
        Ok(())
    }

    /// The operator's number attribute.
    fn number(&mut self, op: Op, dtype: u32) -> Result<Option<usize>, Decline> {
        let float = dtype == KF_DTYPE_F32;
        let number = match op.attr(KF_ATTR_VALUE) {
            None => return decline(KF_CODE_NOT_UNDERSTOOD, "an operator without its number"),
            Some(Attr::Scalar(index)) => Number::Scalar(index),
            Some(Attr::F64(f)) if float => Number::Constant(f.to_bits()),
            Some(Attr::I64(i)) if float => Number::Constant((i as f64).to_bits()),
            Some(Attr::I64(i)) => Number::Constant(i as u64),
            Some(_) => return decline(KF_CODE_NOT_UNDERSTOOD, "a number of another type"),
        };
        let known = self.numbers.iter().position(|n| *n == number);
        Ok(known.or_else(|| {
            self.numbers.push(number);
            Some(self.numbers.len() - 1)
        }))
    }

    fn push_elementwise(&mut self, fuser: &Scan, op: Op) -> Result<(), Decline> {
        let row = match tables::elementwise(op.kind()) {
            Some(row) => row,
            None => return decline(KF_CODE_UNKNOWN_OP, "neither elementwise nor cum_sum"),
        };
        if !op.understood(1, &[KF_ATTR_VALUE]) {
            return decline(KF_CODE_NOT_UNDERSTOOD, format!("{} with something newer", row.name));
        }
        self.check(fuser, op)?;
        let dtype = op.outputs()[0].dtype();
        // Helpers ("erf_$C(...)") are C text of kf_elementwise.h, which Rust cannot read.
        let text = kernel::expression(row, dtype).filter(|t| !t.contains("_$C"));
        if !row.same || text.is_none() || row.scalars > 1 || op.inputs().len() != row.inputs as usize {
            return decline(KF_CODE_UNKNOWN_OP, format!("{} is not done here", row.name));
        }
        if op.attrs().count() != row.scalars as usize {
            return decline(KF_CODE_NOT_UNDERSTOOD, format!("{} has other attributes", row.name));
        }
        let whole = |t: &Tensor| t.symbols() == op.outputs()[0].symbols();
        if !op.inputs().iter().any(whole) {
            return decline(KF_CODE_SHAPE, "no operand has the result's shape");
        }
        // Sums are added in another order than by the operator alone, so they differ a little.
        let jumps = [KF_OP_ROUND, KF_OP_FLOOR, KF_OP_CEIL, KF_OP_TRUNC, KF_OP_SIGN];
        let summed = |t: &Tensor| self.index(t.id()).map_or(false, |i| self.values[i].summed);
        if dtype == KF_DTYPE_F32 && jumps.contains(&row.op) && op.inputs().iter().any(summed) {
            return decline(KF_CODE_UNKNOWN_OP, format!("{} makes whole steps of little errors", row.name));
        }
        let number = if row.scalars == 1 { self.number(op, dtype)? } else { None };
        self.record(op, Some(row), number);
        Ok(())
    }

    fn push_drop(&mut self, op: Op) -> Result<(), Decline> {
        if !op.understood(1, &[]) {
            return decline(KF_CODE_NOT_UNDERSTOOD, "a newer kind of drop");
        }
        for t in op.inputs() {
            if let Some(known) = self.index(t.id()) {
                self.values[known].dropped = true;
            }
        }
        Ok(())
    }

    // ---- what the program needs ----------------------------------------------------------------

    /// Values that the kernels write, and those that they read.
    pub fn outputs(&self) -> impl Iterator<Item = (usize, &Value)> {
        self.values.iter().enumerate().filter(|(_, v)| v.computed && !v.dropped)
    }
    pub fn inputs(&self) -> impl Iterator<Item = (usize, &Value)> {
        self.values.iter().enumerate().filter(|(_, v)| !v.computed)
    }
    /// The value that is summed up.
    pub fn scanned(&self) -> usize {
        self.steps.iter().find(|s| s.row.is_none()).map_or(0, |s| s.inputs[0])
    }
    /// Which values lead to it: what phase 1 needs.
    pub fn summands(&self) -> Vec<bool> {
        let mut needed = vec![false; self.values.len()];
        needed[self.scanned()] = true;
        for step in self.steps.iter().rev().filter(|s| s.row.is_some()) {
            if needed[step.result] {
                step.inputs.iter().for_each(|i| needed[*i] = true);
            }
        }
        needed
    }
    /// Extents beside the scanned axis: before, along, behind.
    pub fn extents(&self) -> [Formula; 3] {
        let axis = self.axis.unwrap_or(0);
        let s = &self.symbols;
        [product(&s[..axis]), product(&s[axis..axis + 1]), product(&s[axis + 1..])]
    }
    /// Is the scanned axis the innermost that has any extent?
    pub fn innermost(&self) -> bool {
        self.axis.map_or(true, |axis| self.symbols[axis + 1..].iter().all(|s| *s == 0))
    }

    /// Elements of a block of a long row, and blocks of a row. Enough blocks in all rows together to
    /// keep every compute unit at work, and none so small that the launches cost more.
    pub fn cut(&self, fuser: &Scan) -> (Formula, Formula) {
        let [outer, length, inner] = self.extents();
        if !fuser.blocks {
            return (length, imm(1));
        }
        let (per_unit, least) = if fuser.block_shape { (4, 4096) } else { (16, 2048) };
        let least = if self.innermost() { least } else { 64 };
        let wanted = Formula::device(KF_DEVICE_FACT_COMPUTE_UNITS) * per_unit;
        let in_row = wanted.ceil_div(outer * inner.ceil_div(imm(i64::from(fuser.lanes))));
        let elements = length.clone().ceil_div(in_row).max(imm(least)).round_up(16);
        (elements.clone(), length.ceil_div(elements))
    }

    /// Pieces of work that can go on at once.
    pub fn pieces(&self, fuser: &Scan) -> Formula {
        let [outer, _, inner] = self.extents();
        outer * self.cut(fuser).1 * inner.ceil_div(imm(i64::from(fuser.lanes)))
    }
}

impl Block<Scan> for Chain {
    fn push(&mut self, fuser: &Scan, op: Op) -> Result<(), Decline> {
        match op.kind() {
            KF_OP_DROP => self.push_drop(op),
            KF_OP_CUM_SUM => self.push_scan(fuser, op),
            _ => self.push_elementwise(fuser, op),
        }
    }

    /// The larger of two times: that of the memory, for all bytes, and that of the work of the
    /// busiest compute unit. A row alone keeps one unit busy, however many there are.
    fn estimate(&self, fuser: &Scan) -> Option<Estimate> {
        self.axis?;
        let outputs = self.outputs().count() as i64;
        if outputs == 0 {
            return None;
        }
        let (needed, passes) = (self.summands(), if fuser.blocks { 2 } else { 1 });
        let twice = |i: usize| if fuser.blocks && needed[i] { 2 } else { 1 };
        let inputs: i64 = self.inputs().filter(|(_, v)| v.whole).map(|(i, _)| twice(i)).sum();
        let launches = if fuser.blocks { 3 } else { 1 };
        let [outer, length, inner] = self.extents();
        let elements = product(&self.symbols);
        let cost = |s: &Step| s.row.map_or(2, |r| i64::from(r.cost));
        let again = |s: &&Step| fuser.blocks && needed[s.result];
        let flops: i64 = self.steps.iter().map(cost).sum::<i64>()
            + self.steps.iter().filter(again).map(cost).sum::<i64>();
        let sums = outer * self.cut(fuser).1 * inner * 4;
        let (read, written) = (elements.clone() * (4 * inputs), elements.clone() * (4 * outputs));
        let memory = ((read.clone() + written.clone()) * fuser.ps_per_kib).floor_div(imm(1024));
        // In one piece: elements one after the other, `lanes` at a time where these are columns.
        let links = if fuser.blocks { self.cut(fuser).0 } else { length };
        let wide = if self.innermost() { 1 } else { i64::from(fuser.lanes) };
        let link_ps = if self.innermost() { fuser.link_ps } else { fuser.far_ps };
        let element_ps = fuser.flop_ps * flops * wide + link_ps * passes;
        let rounds = self.pieces(fuser).ceil_div(Formula::device(KF_DEVICE_FACT_COMPUTE_UNITS));
        let work = rounds * (links * element_ps + imm(fuser.tail_ps * passes));
        let e = Estimate {
            ns: memory.max(work).floor_div(imm(1000)) + imm(fuser.launch_ns * launches),
            read,
            written,
            flops: elements * flops,
            temp: if fuser.blocks { sums } else { Formula::default() },
            launches: launches as u32,
        };
        (e.ns.fits() && e.temp.fits()).then(|| e)
    }

    fn finish(&self, fuser: &Scan) -> Program {
        kernel::program(self, fuser)
    }
}
