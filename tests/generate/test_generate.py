#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""test_generate.py KILN SOURCE: `kiln generate` on decoders made here, and the page about it followed.

The tokens are those of ONNX Runtime 1.32; where KILN_TEST_PYTHON names a Python that has it, it is asked again, and
PyTorch for a decoder that it exports."""
import json
import os
import re
import subprocess
import sys
import tempfile

KILN, SOURCE = sys.argv[1:3]
HERE = os.path.join(SOURCE, "tests", "generate")
PROMPT = "1,2,3,4,5"
TOKENS = [63, 9, 17, 9, 17, 91, 1, 25, 85, 18, 19, 65, 55, 65, 55, 65, 55, 65, 55, 65, 55, 16, 95, 65, 55, 90, 65, 55,
          69, 90, 58, 63] + [9, 17] * 16
VOCABULARY = 97


def run(*arguments, status=0):
    done = subprocess.run([KILN, "generate", *arguments], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == status, (arguments, done.returncode, done.stdout, done.stderr)
    return done.stdout if status == 0 else done.stderr


def generate(model, *arguments):
    return json.loads(run(model, "--prompt-ids", PROMPT, "--json", *arguments))


def ids(told):
    return [step["id"] for step in told["tokens"]]


def check_steps(form, told, tokens):
    assert ids(told) == tokens, (form, ids(told))
    assert not told["ended"]
    for place, step in enumerate(told["tokens"]):
        assert step["bytes_read"] == 4 * VOCABULARY, (form, place, step)
        if place >= 10:
            assert step["plans"] == 0, (form, place, step)
        if place > 0:
            assert step["bytes_uploaded"] == 8, (form, place, step)


def check_decoder(form, model):
    check_steps(form, generate(model, "--max-new", "64"), TOKENS)
    assert ids(generate(model, "--max-new", "40", "--eos", "91,18")) == TOKENS[:6]
    assert generate(model, "--max-new", "40", "--eos", "91,18")["ended"]


def ask(script, *arguments):
    """The tokens that a script of a peer prints; None, and a line, where there is no such peer."""
    python = os.environ.get("KILN_TEST_PYTHON", "")
    if python == "":
        print(f"SKIP {script}: KILN_TEST_PYTHON names no Python (./dev peers makes one)")
        return None
    asked = subprocess.run([python, "-W", "ignore", os.path.join(HERE, script), *arguments], capture_output=True,
                           text=True, timeout=600, check=False)
    if asked.returncode != 0 and "No module named" in asked.stderr:
        print(f"SKIP {script}: {asked.stderr.strip().splitlines()[-1]}")
        return None
    assert asked.returncode == 0, asked.stderr
    return [int(t) for t in asked.stdout.split(",")]


def check_runtime(model):
    tokens = ask("ort_tokens.py", model, "64", PROMPT)
    assert tokens in (None, TOKENS), tokens


def check_torch(folder):
    """A decoder that PyTorch exported: PyTorch's tokens, and nothing but tokens and logits is copied."""
    for exporter in ("script", "dynamo"):
        model = os.path.join(folder, f"{exporter}.onnx")
        tokens = ask("torch_decoder.py", exporter, model, "64", PROMPT)
        if tokens is not None:
            check_steps(exporter, generate(model, "--max-new", "64"), tokens)


def check_drawn(model):
    """A seed repeats; few candidates are the likeliest; another seed gives another text."""
    hot = ("--max-new", "24", "--temperature", "2")
    drawn = ids(generate(model, *hot, "--seed", "5"))
    assert drawn == ids(generate(model, *hot, "--seed", "5"))
    assert drawn != ids(generate(model, *hot, "--seed", "6"))
    assert ids(generate(model, *hot, "--top-k", "1")) == TOKENS[:24]
    assert ids(generate(model, *hot, "--top-p", "1e-9")) == TOKENS[:24]
    assert ids(generate(model, "--max-new", "24", "--temperature", "0.001")) == TOKENS[:24]
    narrow = [ids(generate(model, "--max-new", "1", "--temperature", "50", "--top-k", "3", "--seed", str(seed)))[0]
              for seed in range(24)]
    assert len(set(narrow)) == 3, narrow


def check_refusals(model):
    assert "--prompt-ids is missing" in run(model, status=2)
    assert "tokens from 0" in run(model, "--prompt-ids", "1,,2", status=2)
    assert "a number above 0, 1 at most" in run(model, "--prompt-ids", "1", "--top-p", "2", status=2)
    digits = os.path.join(SOURCE, "examples", "digits", "digits.onnx")
    assert "is none that is known: input_ids" in run(digits, "--prompt-ids", "1", status=1)


def check_page():
    """The commands of docs/generate.md one after the other in one shell; what follows each is what it prints first."""
    with open(os.path.join(SOURCE, "docs", "generate.md"), encoding="utf-8") as file:
        page = file.read()
    blocks = [re.sub("^    ", "", block, flags=re.M) for block in re.findall(r"(?:^    .*\n)+", page, re.M)]
    setup, tried = "", 0
    for block, said in zip(blocks, blocks[1:] + [""]):
        lines = block.splitlines()
        if not lines[-1].startswith("kiln generate"):
            continue
        script = setup + "\n".join(lines)
        done = subprocess.run(["bash", "-ec", f'kiln() {{ "{KILN}" "$@"; }}\n{script}'], cwd=SOURCE, timeout=600,
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0, (script, done.stderr)
        assert done.stdout.splitlines()[0].rstrip() == said.strip(), (script, done.stdout, said)
        setup += "\n".join(lines[:-1]) + "\n"
        tried += 1
    assert tried >= 4, tried


def main():
    with tempfile.TemporaryDirectory() as folder:
        models = {}
        for form in ("plain", "attention", "grouped"):
            models[form] = os.path.join(folder, f"{form}.onnx")
            subprocess.run([sys.executable, os.path.join(HERE, "make_decoder.py"), form, models[form]], check=True)
            check_decoder(form, models[form])
            check_runtime(models[form])
        check_torch(folder)
        check_drawn(models["attention"])
        check_refusals(models["attention"])
    check_page()
    print("as expected")


if __name__ == "__main__":
    main()
