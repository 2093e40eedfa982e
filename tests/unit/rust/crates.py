# SPDX-License-Identifier: MIT OR Apache-2.0
"""The crates of rust/, offline and by Debian's Rust, the oldest that must do: their own tests, every struct where C has
it, the first program against an installed Kiln, and the version."""
import os
import re
import subprocess
import sys
import tempfile

BUILD, ROOT, LIBDIR, VERSION = sys.argv[1:5]
TOOLS = ("/usr/bin/cargo", "/usr/bin/rustc")
RUST = os.path.join(ROOT, "rust")
# As rust/CMakeLists.txt has them.
HEADERS = (("kiln_fuser.h", "kiln_fuser_ops.h", "kf_formula.h", "kf_operators.h"),
           ("kiln.h", "kiln_grad.h", "kiln_train.h"))


def run(command, **how):
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400, **how)
    assert done.returncode == 0, f"{' '.join(command)}: status {done.returncode}: {(done.stdout + done.stderr)[-3000:]}"
    return done.stdout


def layout(work, prefix):
    """A file with what C's compiler says of every struct."""
    path = os.path.join(work, "layout.txt")
    with open(path, "w", encoding="utf-8") as file:
        for number, headers in enumerate(HEADERS):
            source, program = os.path.join(work, f"layout{number}.c"), os.path.join(work, f"layout{number}")
            with open(source, "w", encoding="utf-8") as code:
                code.write(run([f"{ROOT}/tools/gen_rust.py", "layout", f"{prefix}/include", *headers]))
            run(["cc", "-std=c11", f"-I{prefix}/include", source, "-o", program])
            file.write(run([program]))
    return path


COMMENTED = """typedef enum kiln_kind {
    KILN_FIRST = 1, ///< of two
                    ///< lines
    KILN_LAST ///< without a comma
} kiln_kind;
typedef struct kiln_row {
    int count; ///< how many
               ///< there are
    /// In front.
    int next;
} kiln_row;
"""


def comments(work):
    """All lines of a comment behind a member or a number reach the crate."""
    folder = os.path.join(work, "commented")
    os.makedirs(os.path.join(folder, "kiln"))
    with open(os.path.join(folder, "kiln/row.h"), "w", encoding="utf-8") as file:
        file.write(COMMENTED)
    told = run([f"{ROOT}/tools/gen_rust.py", "rust", folder, "row.h"])
    for words in ("/// of two\n/// lines\npub const KILN_FIRST", "/// without a comma\npub const KILN_LAST",
                  "    /// how many\n    /// there are\n    pub count", "    /// In front.\n    pub next"):
        assert words in told, f"{words!r} is not in {told}"


def versions():
    for crate in ("kiln-sys", "kiln-fuser"):
        with open(os.path.join(RUST, crate, "Cargo.toml"), encoding="utf-8") as file:
            found = re.search(r'(?m)^version = "(.*)"$', file.read())
        assert found and found.group(1) == VERSION, f"{crate} has version {found and found.group(1)}, Kiln {VERSION}"


def all_of_it(work):
    prefix = os.path.join(work, "prefix")
    run(["cmake", "--install", BUILD, "--prefix", prefix])
    env = {k: v for k, v in os.environ.items() if not k.startswith(("KILN_", "CARGO", "RUST"))}
    env.update(PATH=f"/usr/bin:{env['PATH']}", CARGO_HOME=f"{work}/cargo", CARGO_TARGET_DIR=f"{work}/target",
               PKG_CONFIG_PATH=f"{prefix}/{LIBDIR}/pkgconfig", LD_LIBRARY_PATH=f"{prefix}/{LIBDIR}",
               KILN_CACHE_DIR=f"{work}/cache", KILN_LAYOUT=layout(work, prefix))
    words = ["--offline", "--locked", "--features", "kiln-sys/runtime"]
    told = run([TOOLS[0], "test", "--lib", "--tests", *words], cwd=RUST, env=env)
    for test in ("structs_lie_as_in_c", "panics_are_told_and_end_the_block"):
        assert f"{test} ... ok" in told, told[-3000:]
    told = run([TOOLS[0], "run", "--example", "first", "-p", "kiln-sys", *words], cwd=RUST, env=env)
    assert told == "0 0 3 6\n", told


def main():
    versions()
    with tempfile.TemporaryDirectory(prefix="kiln-rust-") as work:
        comments(work)
    missing = [path for path in TOOLS if not os.path.exists(path)]
    if missing:
        print(f"SKIP crates: {' and '.join(missing)} missing; install Debian's rustc and cargo")
        print("kiln-test: 2 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory(prefix="kiln-rust-") as work:
        all_of_it(work)
    print("kiln-test: 3 passed, 0 failed, 0 skipped")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except AssertionError as problem:
        print(f"FAIL {problem}\nkiln-test: 0 passed, 1 failed, 0 skipped")
        sys.exit(1)
