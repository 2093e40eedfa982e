#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Calls the functions of installed headers with each of their pointers NULL, and with all of them.

The head of a header says one of two things: that NULL is refused, or that no pointer is NULL, which is for Kiln's own
modules and those who write backends. The program that calls the functions of the first kind is written from the
headers. No call may end its process, and one without an object that it is about does not succeed."""
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "structure"))
import structure  # noqa: E402

REFUSED = "NULL where a pointer is needed is INVALID_ARGUMENT"
NEVER = "No pointer is NULL unless a function takes it."
# Functions of the first kind whose status is another one when they are given nothing: why.
OTHER_STATUS = {
    "kiln_error_set": "gives the code that it was called with",
    "kiln_error_context": "gives the code of the record, and there is none",
    "kiln_gradsync_submit": "NULL is a job that was not started: FAILED_PRECONDITION, as its header says",
    "kiln_gradsync_accumulate": "the same",
    "kiln_gradsync_sync": "the same",
    "kiln_gradsync_finish": "the same",
}

# A pointer to one of these is the value of null_values.h with this name.
VALUES = {
    "kiln_context": "context", "kiln_device": "device", "kiln_tensor": "tensor", "kiln_stream": "stream",
    "kiln_event": "event", "kiln_request": "request", "kiln_handle": "handle", "kiln_mapping": "mapping",
    "kiln_graph": "graph", "kiln_config": "config", "kiln_store": "store", "kiln_dynlib": "library",
    "kiln_arena": "&arena", "kiln_string": "&string", "kiln_ir_graph": "ir_graph", "kiln_replay": "replay",
    "kiln_judge": "judge", "kiln_tape": "tape", "kiln_params": "params", "kiln_optimiser": "optimiser",
    "kiln_collective": "collective", "kiln_gradsync": "job", "kiln_coll_group": "group",
    "kiln_coll_member": "member", "kiln_coll_memory": "memory", "kiln_backend": "backend",
    "kiln_bundle": "bundle", "kiln_bundle_maker": "maker", "kiln_onnx_model": "model", "kiln_onnx_session": "session", "kiln_rpc_server": "server",
    "kiln_env": "&env", "kiln_allocator": "&env.allocator", "kiln_error": "&err", "kiln_op_record": "&record",
    "kiln_tensor_desc": "record.inputs", "kiln_view": "&view", "kiln_backend_provider": "kiln_ir_reference_provider()",
    "int64_t": "ones", "char": '"x"',
}
# Arrays of pointers that a function reads.
ARRAYS = {"kiln_tensor": "tensors", "kiln_device": "devices", "kiln_params": "param_sets"}
TAKEN = {"kiln_replay_create": "kiln_ir_graph *graph"}  # what a function owns from the call on
BY_VALUE = {"kiln_dtype": "KILN_DTYPE_F32"}


def headers(tree):
    """(path, head) of each installed header that exports a function."""
    for path in tree.config["public_headers"]:
        text = tree.read(path)
        if path.endswith(".h") and re.search(r"(?m)^(?:KILN_NODISCARD\s+)?KILN_API\b", text):
            comment = re.search(r"(?m)(?:^///.*\n)+", text)
            yield path, " ".join(comment.group(0).replace("///", " ").split()) if comment else ""


def unsaid(tree):
    return [f"{os.path.basename(path)}: the head says neither '{REFUSED}' nor '{NEVER}'"
            for path, head in headers(tree) if (REFUSED in head) == (NEVER in head)]


def declarations(tree):
    """(name, result, parameters, header) of each function that refuses NULL."""
    for header in [path for path, head in headers(tree) if REFUSED in head]:
        text = structure.without_comments(tree.read(header))
        text = re.sub(r"(?m)^\s*#(?:\\\n|.)*$", "", text)
        for match in re.finditer(r"\bKILN_API\b([^;{]*);", text):
            found = re.match(r"\s*(.*?)\b(kiln_\w+)\s*\((.*)\)[^)]*$", " ".join(match.group(1).split()))
            if found:
                found = trim_attributes(found)
                yield (*found, os.path.basename(header))


def trim_attributes(found):
    """Without KILN_COLD and KILN_PRINTF(m, n) behind the parameters."""
    result, name, rest = found.groups()
    depth = 0
    for place, letter in enumerate(rest):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth < 0:
            rest = rest[:place]
            break
    return name, result.strip(), split(rest)


def split(text):
    """Parameters at the commas of the outermost level."""
    parts, depth, part = [], 0, ""
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += letter
    return [p for p in parts + [part.strip()] if p not in ("void", "")]


def sized_structs(tree):
    """Structs whose first member is their size."""
    found = set()
    for header in tree.config["public_headers"]:
        text = structure.without_comments(tree.read(header))
        found |= set(re.findall(r"typedef struct (\w+) \{\s*uint32_t struct_size;", text))
    return found


def function_types(tree):
    found = set()
    for header in tree.config["public_headers"]:
        found |= set(re.findall(r"typedef [^;{]*?\(\*(\w+)\)\(", structure.without_comments(tree.read(header))))
    return found


class Parameter:
    def __init__(self, text, functions):
        self.text = text
        self.stars = text.count("*") + text.count("[")
        self.base = re.sub(r"\b(const|struct|enum)\b|\*", " ", re.sub(r"\w+(\[.*\])?$", "", text)).split()
        self.base = self.base[0] if self.base else text
        self.callback = "(*" in text or self.base in functions
        self.written = bool(re.search(r"\bout_\w+(\[.*\])?$", text)) and "const" not in text.split("*")[0]

    def is_pointer(self):
        return self.stars > 0 or self.callback

    def value(self, index, sized):
        """(statement before the call, expression)."""
        place = f"(void *)room[{index}]"
        if self.text == "...":
            return "", None
        if self.callback:
            return "", "(void *)stub"
        if not self.is_pointer():
            return "", BY_VALUE.get(self.base, f"({self.base}){{1}}")
        if self.base.startswith("_cl_"):
            return "", "NULL"  # the driver's: a made-up one would end the process in the driver
        if self.stars == 1 and not self.written and (self.base != "char" or "const" in self.text):
            if self.base in VALUES:
                return "", f"(void *){VALUES[self.base]}"
        if self.stars == 2 and not self.written and self.base in ARRAYS:
            return "", f"(void *){ARRAYS[self.base]}"
        if self.stars == 1 and self.base in sized:
            return f"*(uint32_t *)room[{index}] = sizeof({self.base});", place
        return "", place


def call(name, result, values, without):
    """C text of one call, the pointers in `without` NULL."""
    before = " ".join(v[0] for i, v in enumerate(values) if i not in without)
    arguments = ", ".join("NULL" if i in without else v[1] for i, v in enumerate(values) if v[1])
    text = f"{name}({arguments})"
    if result == "kiln_status":
        return f"{before} return (int){text};"
    return f"{before} (void){text}; return -1;"


def cases(tree):
    """(label, C text, whether all is NULL and the status must be INVALID_ARGUMENT) of each call."""
    functions, sized = function_types(tree), sized_structs(tree)
    for name, result, texts, header in declarations(tree):
        parameters = [Parameter(t, functions) for t in texts]
        values = [("", "fresh_graph()") if p.text == TAKEN.get(name) else p.value(i, sized)
                  for i, p in enumerate(parameters)]
        pointers = [i for i, p in enumerate(parameters) if p.is_pointer()]
        for wanted in [{i} for i in pointers] + ([set(pointers)] if len(pointers) > 1 else []):
            what = "all" if len(wanted) > 1 else texts[min(wanted)]
            yield f"{header}: {name}, {what}", call(name, result, values, wanted), len(wanted) == len(pointers) and name not in OTHER_STATUS


def program(listed):
    text = '#include "null_values.h"\n'
    for number, (_, body, _) in enumerate(listed):
        text += f"static int case_{number}(void) {{ {body} }}\n"
    text += "static const null_case cases[] = {\n"
    for number, (label, _, everything) in enumerate(listed):
        text += f'{{"{label}", case_{number}, {str(everything).lower()}}},\n'
    return text + ("};\nint main(int argc, char **argv)\n{\n    (void)argc;\n"
                   "    return run_cases(cases, sizeof(cases) / sizeof(cases[0]), argv);\n}\n")


def run(tree, listed, folder):
    source, built = os.path.join(folder, "calls.c"), os.path.join(folder, "calls")
    with open(source, "w") as file:
        file.write(program(listed))
    libraries = [tree.config["libkiln"], tree.config["libkiln_remote"]]
    build = tree.config["build_dir"]
    subprocess.run(["cc", "-std=gnu11", "-w", "-O0", "-I", HERE, "-I", os.path.join(build, "include"), source, "-o",
                    built, *libraries, f"-Wl,-rpath,{os.path.dirname(libraries[0])}", "-lpthread"], check=True)
    model = os.path.join(tree.root, "examples/digits/digits.onnx")
    done = subprocess.run([built, os.path.join(folder, "store"), model], capture_output=True, text=True, check=False,
                          cwd=folder, timeout=580)
    if done.returncode != 0:
        sys.exit(f"the program ends with {done.returncode}: {done.stderr}")
    return done.stdout.splitlines()


def main():
    tree = structure.load(sys.argv)
    listed = list(cases(tree))
    with tempfile.TemporaryDirectory() as folder:
        said = run(tree, listed, folder)
    bad = [line for line in said if line.startswith(("DIED", "STATUS"))]
    if f"CALLS {len(listed)}" not in said:
        bad.append("not all calls were made")
    if len(listed) < 2100:
        bad.append(f"only {len(listed)} calls were found in the headers")
    structure.report("faults/null_arguments", {"heads": unsaid(tree), f"calls ({len(listed)})": bad})


if __name__ == "__main__":
    main()
