#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""ort_tokens.py MODEL COUNT ID,ID,..: the likeliest tokens by ONNX Runtime, and on standard error what a step took.

What layers keep stays where ONNX Runtime put it (IO binding)."""
import sys
import time

import numpy as np
import onnxruntime


def main():
    path, count, prompt = sys.argv[1], int(sys.argv[2]), [int(i) for i in sys.argv[3].split(",")]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    inputs = {i.name: i for i in session.get_inputs()}
    outputs = [o.name for o in session.get_outputs()]
    kept = {name: onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros([1, i.shape[1], 0, i.shape[3]], np.float32))
            for name, i in inputs.items() if name.startswith("past")}
    ids, done, tokens, walls, begin = prompt, 0, [], [], 0
    for step in range(count):
        begin = time.process_time() if step == 2 else begin
        total, start = done + len(ids), time.perf_counter()
        given = {"input_ids": np.array([ids], np.int64), "attention_mask": np.ones((1, total), np.int64),
                 "position_ids": np.arange(done, total, dtype=np.int64)[None]}
        binding = session.io_binding()
        for name in given.keys() & inputs.keys():
            binding.bind_cpu_input(name, given[name])
        for name, value in kept.items():
            binding.bind_ortvalue_input(name, value)
        for name in outputs:
            binding.bind_output(name, "cpu")
        session.run_with_iobinding(binding)
        made = dict(zip(outputs, binding.get_outputs()))
        kept = {name: made[name.replace("past_key_values", "present")] for name in kept}
        tokens.append(int(made["logits"].numpy()[0, -1].argmax()))
        walls.append(time.perf_counter() - start)
        ids, done = tokens[-1:], total
    print(",".join(str(t) for t in tokens))
    cpu = (time.process_time() - begin) / max(count - 2, 1)
    print(f"least {min(walls[2:]) * 1e3:.3f} ms, processor {cpu * 1e3:.3f} ms", file=sys.stderr)


if __name__ == "__main__":
    main()
