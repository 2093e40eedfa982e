// SPDX-License-Identifier: MIT OR Apache-2.0
//! A fuser in Rust: relu(a + b) over dense f32 tensors of one shape. What it takes is `accepts`, the kernel `SOURCE`,
//! the program `finish`; the crate kiln-fuser keeps the rules of the plugin interface.
use kiln_fuser::sys::*;
use kiln_fuser::{decline, Block, Cost, Decline, Device, Estimate, Formula, Fuser, Launch, Op, Operand, Program, Tensor};

const SOURCE: &str = "
__kernel void my_kernel(__global const float *a, __global const float *b, __global float *out,
                        long count, long each)
{
    long begin = get_global_id(0) * each;
    long end = min(begin + each, count);
    for (long i = begin; i < end; i++) {
        float sum = a[i] + b[i];
        out[i] = sum < 0.0f ? 0.0f : sum; // NaN stays NaN
    }
}
";

/// The fuser on one device.
struct MyFuser {
    cost: Cost,
    each: i64, // elements of one work-item
}

impl Fuser for MyFuser {
    type Block = Sum;

    fn create(_index: u32, device: Device) -> Result<MyFuser, Decline> {
        if !device.has(KF_FEATURE_COMPILER) {
            return decline(KF_CODE_DEVICE, "the device has no compiler");
        }
        Ok(MyFuser { cost: Cost::of(device), each: if device.wants_blocks() { 16384 } else { 4 } })
    }
}

/// The operations of a block: an add, then a relu of its result.
#[derive(Clone, Default)]
struct Sum {
    inputs: Vec<Operand>, // a, b
    sum: Option<Operand>,
    sum_dropped: bool,
    out: Option<Operand>,
}

fn plain(t: Tensor) -> bool {
    t.dtype() == KF_DTYPE_F32 && t.dense()
}

impl Sum {
    fn accepts(&self, op: Op) -> Result<(), Decline> {
        let (inputs, result) = (op.inputs(), op.outputs()[0]);
        let next = if self.sum.is_none() { KF_OP_ADD } else { KF_OP_RELU };
        if self.out.is_some() || op.kind() != next {
            return decline(KF_CODE_UNKNOWN_OP, "not the next operation");
        }
        if !op.understood(1, &[]) {
            return decline(KF_CODE_NOT_UNDERSTOOD, "something newer than this fuser");
        }
        if self.sum.as_ref().map_or(false, |sum| sum.id != inputs[0].id()) {
            return decline(KF_CODE_UNKNOWN_OP, "a relu of something else");
        }
        if !plain(result) || inputs.iter().any(|t| !plain(*t) || t.symbols() != result.symbols()) {
            return decline(KF_CODE_LAYOUT, "only dense f32 tensors of one shape");
        }
        Ok(())
    }
}

impl Block<MyFuser> for Sum {
    fn push(&mut self, _fuser: &MyFuser, op: Op) -> Result<(), Decline> {
        if let Some(dead) = op.dropped() {
            self.sum_dropped |= self.sum.as_ref().map_or(false, |sum| sum.id == dead.id());
            return Ok(());
        }
        self.accepts(op)?;
        let result = Some(op.outputs()[0].keep());
        if self.sum.is_none() {
            self.inputs = op.inputs().into_iter().map(Tensor::keep).collect();
            self.sum = result;
        } else {
            self.out = result;
        }
        Ok(())
    }

    /// The sum is never written, so the block is a program once nobody needs it.
    fn estimate(&self, fuser: &MyFuser) -> Option<Estimate> {
        let out = self.out.as_ref().filter(|_| self.sum_dropped)?;
        let inputs = if self.inputs[0].id == self.inputs[1].id { 1 } else { 2 };
        let read: Formula = out.bytes() * inputs;
        let moved = read.clone() + out.bytes();
        let ns = fuser.cost.roofline_ns(moved, out.count() * 2, 1);
        Some(Estimate { ns, read, written: out.bytes(), launches: 1, ..Estimate::default() })
    }

    fn finish(&self, fuser: &MyFuser) -> Program {
        let out = self.out.as_ref().expect("estimate was asked before");
        let launch = Launch::new("my_kernel", out.count().ceil_div(fuser.each))
            .read(&self.inputs[0])
            .read(&self.inputs[1])
            .write(out)
            .number(out.count())
            .number(fuser.each);
        Program::of("my-fuser", SOURCE, launch)
    }
}

kiln_fuser::plugin! {
    id: "org.example.my-fuser",
    vendor: "Example",
    fusers: ["my-fuser"],
    made_by: MyFuser,
}
