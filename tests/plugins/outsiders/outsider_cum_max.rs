// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cumulative maximum of |x| along the last axis in one kernel. Built outside of the tree by outsiders.py.
use kiln_fuser::sys::*;
use kiln_fuser::{decline, product, Block, Cost, Decline, Device, Estimate, Fuser, Launch, Op, Operand, Program};
use kiln_fuser::{Tensor, Value};

/// One work-item for each row; once an element is NaN, all behind it are.
const SOURCE: &str = "
__kernel void cum_max(__global const float *x, __global float *out, long length)
{
    long at = get_global_id(0) * length;
    float best = fabs(x[at]);
    for (long i = 0; i < length; i++) {
        float v = fabs(x[at + i]);
        best = v > best || isnan(v) ? v : best;
        out[at + i] = best;
    }
}
";

const SHORTEST: i64 = 64;

struct CumMax(Cost);

impl Fuser for CumMax {
    type Block = Rows;

    fn create(_index: u32, device: Device) -> Result<CumMax, Decline> {
        if !device.has(KF_FEATURE_COMPILER) {
            return decline(KF_CODE_DEVICE, "the device has no compiler");
        }
        Ok(CumMax(Cost::of(device)))
    }
}

#[derive(Clone, Default)]
struct Rows {
    input: Option<Operand>,
    size: Option<Operand>, // |x|
    dropped: bool,
    out: Option<Operand>,
}

fn plain(t: Tensor) -> bool {
    t.dtype() == KF_DTYPE_F32 && t.dense() && t.rank() > 0
}

impl Rows {
    fn accepts(&self, op: Op) -> Result<(), Decline> {
        let next = if self.size.is_none() { KF_OP_ABS } else { KF_OP_CUM_MAX };
        if self.out.is_some() || op.kind() != next {
            return decline(KF_CODE_UNKNOWN_OP, "not the next operation");
        }
        if !op.understood(1, &[KF_ATTR_AXIS, KF_ATTR_EXCLUSIVE, KF_ATTR_REVERSE]) {
            return decline(KF_CODE_NOT_UNDERSTOOD, "something newer than this fuser");
        }
        let (input, result) = (op.inputs()[0], op.outputs()[0]);
        if !plain(input) || !plain(result) {
            return decline(KF_CODE_LAYOUT, "only dense f32 tensors");
        }
        // Each row is a group of its own, which costs more than a few elements do.
        let row = result.symbols().last().and_then(|length| op.extent(*length));
        if row.map_or(true, |length| length < SHORTEST) {
            return decline(KF_CODE_SHAPE, "only rows that are worth a group");
        }
        let is = |key| op.attr(key).and_then(Value::as_bool).unwrap_or(false);
        let last = result.rank() as i64 - 1;
        match &self.size {
            None => Ok(()),
            Some(size) if size.id != input.id() => decline(KF_CODE_UNKNOWN_OP, "a maximum of something else"),
            Some(_) if is(KF_ATTR_EXCLUSIVE) || is(KF_ATTR_REVERSE) => decline(KF_CODE_UNKNOWN_OP, "from the beginning"),
            Some(_) => match op.attr(KF_ATTR_AXIS).and_then(Value::as_i64) {
                Some(axis) if axis == last || axis == -1 => Ok(()),
                _ => decline(KF_CODE_SHAPE, "only along the last axis"),
            },
        }
    }
}

impl Block<CumMax> for Rows {
    fn push(&mut self, _fuser: &CumMax, op: Op) -> Result<(), Decline> {
        if let Some(dead) = op.dropped() {
            self.dropped |= self.size.as_ref().map_or(false, |t| t.id == dead.id());
            return Ok(());
        }
        self.accepts(op)?;
        let result = Some(op.outputs()[0].keep());
        if self.size.is_none() {
            self.input = Some(op.inputs()[0].keep());
            self.size = result;
        } else {
            self.out = result;
        }
        Ok(())
    }

    fn estimate(&self, fuser: &CumMax) -> Option<Estimate> {
        let out = self.out.as_ref().filter(|_| self.dropped)?;
        let ns = fuser.0.roofline_ns(out.bytes() * 2, out.count() * 2, 1);
        Some(Estimate { ns, read: out.bytes(), written: out.bytes(), launches: 1, ..Estimate::default() })
    }

    fn finish(&self, _fuser: &CumMax) -> Program {
        let out = self.out.as_ref().expect("estimate was asked before");
        let (length, rows) = out.symbols.split_last().expect("no scalar was taken");
        let launch = Launch::new("cum_max", product(rows))
            .local(1)
            .read(self.input.as_ref().expect("an operation was taken"))
            .write(out)
            .number(product(&[*length]));
        Program::of("cum-max", SOURCE, launch)
    }
}

kiln_fuser::plugin! {
    id: "org.example.cum-max",
    vendor: "Example",
    fusers: ["cum-max"],
    made_by: CumMax,
}
