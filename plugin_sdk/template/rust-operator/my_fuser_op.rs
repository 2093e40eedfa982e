// SPDX-License-Identifier: MIT OR Apache-2.0
//! The operator example::my_fuser: x where it is not below 0, slope * x elsewhere. What it means is `reference`; the
//! kernel has to give the same. The crate kiln-fuser keeps the rules of the plugin interface.
use kiln_fuser::sys::*;
use kiln_fuser::{decline, Call, Decline, Device, Kernel, Launch, Memory, Op, Operator, Output, Param, Program, Shape};

const SLOPE: usize = 0; // its number among PARAMS

const SOURCE: &str = "
__kernel void my_kernel(__global const float *x, __global float *y, long count, long each)
{
    long begin = get_global_id(0) * each;
    long end = min(begin + each, count);
    for (long i = begin; i < end; i++) {
        y[i] = x[i] < 0.0f ? SLOPE * x[i] : x[i];
    }
}
";

struct MyOperator;

impl Operator for MyOperator {
    const NAME: &'static str = "example::my_fuser";
    const DOC: &'static str = "x, and slope * x below 0";
    const PARAMS: &'static [Param] = &[Param::real("slope", 0.1)]; // 0.1 when it is left out
    const KERNEL: Option<Kernel> = Some(kernel);

    /// Shapes and dtypes of the outputs, from those of the inputs.
    fn infer(_call: &Call, inputs: &[Shape]) -> Result<Vec<Shape>, Decline> {
        if inputs[0].dtype != KF_DTYPE_F32 {
            return decline(KF_CODE_DTYPE, "takes f32");
        }
        Ok(vec![inputs[0].clone()])
    }

    /// On the host, with any strides.
    fn reference(call: &Call, inputs: &[Memory], outputs: &mut [Output]) -> Result<(), Decline> {
        let slope = call.param(SLOPE).as_f64().unwrap_or(0.0) as f32;
        for i in 0..outputs[0].count() {
            let v: f32 = inputs[0].load(i);
            outputs[0].store(i, if v < 0.0 { slope * v } else { v });
        }
        Ok(())
    }
}

/// The program of one call. What it is not for is computed by the reference.
fn kernel(device: Device, op: Op) -> Result<Program, Decline> {
    let (x, y) = (op.inputs()[0], op.outputs()[0].keep());
    if !x.dense() {
        return decline(KF_CODE_LAYOUT, "the kernel is for dense tensors");
    }
    let slope = op.param(SLOPE as u32).and_then(|value| value.as_f64()).unwrap_or(0.0) as f32;
    let each = if device.wants_blocks() { 16384 } else { 4 };
    let launch = Launch::new("my_kernel", y.count().ceil_div(each))
        .read(&x.keep())
        .write(&y)
        .number(y.count())
        .number(each);
    // The bits, because infinity has no name that all compilers know.
    let source = format!("#define SLOPE as_float({}u)\n{}", slope.to_bits(), SOURCE);
    Ok(Program::of("my-fuser", source, launch))
}

kiln_fuser::plugin! {
    id: "org.example.my-fuser",
    vendor: "Example",
    operators: [MyOperator],
}
