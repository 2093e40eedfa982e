# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fusers of outsiders: `kiln plugin new` of an installed Kiln, its source replaced by the one here, built as the page
says, and checked at every level by a stream of its own: rotary positions in C++, pooling in C, a cumulative maximum in
Rust. Arguments: the files here to try."""
import os
import shutil
import subprocess
import sys
import tempfile

BUILD, LIBDIR = sys.argv[1:3]
CMAKE = ["cmake -B build -G Ninja", "cmake --build build"]
ROPE = """input %1: f32[512,1024]
input %2: f32[512,1024]
input %3: f32[512,1024]
%4: f32[512,512] = slice(%1: f32[512,1024], starts=[0,0], ends=[512,512], steps=[1,1])
%5: f32[512,512] = slice(%1: f32[512,1024], starts=[0,512], ends=[512,1024], steps=[1,1])
%6: f32[512,512] = neg(%5: f32[512,512])
%7: f32[512,1024] = concat(%6: f32[512,512], %4: f32[512,512], axis=1)
drop(%6: f32[512,512])
%8: f32[512,1024] = mul(%1: f32[512,1024], %2: f32[512,1024])
%9: f32[512,1024] = mul(%7: f32[512,1024], %3: f32[512,1024])
drop(%7: f32[512,1024])
%10: f32[512,1024] = add(%8: f32[512,1024], %9: f32[512,1024])
drop(%8: f32[512,1024])
drop(%9: f32[512,1024])
output %10
"""
POOL = """input %1: f32[4,32,65,66]
%2: f32[4,32,33,33] = max_pool(%1: f32[4,32,65,66], kernel=[3,2], strides=[2,2], padding=[1,0,1,0], dilations=[1,1], ceil_mode=false)
%3: f32[4,32,33,33] = relu(%2: f32[4,32,33,33])
drop(%2: f32[4,32,33,33])
output %3
"""
CUM_MAX = """input %1: f32[512,1024]
%2: f32[512,1024] = abs(%1: f32[512,1024])
%3: f32[512,1024] = cum_max(%2: f32[512,1024], axis=1, exclusive=false, reverse=false)
drop(%2: f32[512,1024])
output %3
"""
CARGO = ["cargo build --release --offline"]
FUSERS = {  # name, language, commands, library, stream
    "outsider_rope.cpp": ("rope", "cpp", CMAKE, "build/rope.so", ROPE),
    "outsider_pool.c": ("pool", "c", CMAKE, "build/pool.so", POOL),
    "outsider_cum_max.rs": ("cum-max", "rust", CARGO, "target/release/libcum_max.so", CUM_MAX),
}


def run(command, folder, env):
    done = subprocess.run(command, shell=True, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=1500)
    assert done.returncode == 0, f"{command}: status {done.returncode}: {(done.stdout + done.stderr)[-4000:]}"
    return done.stdout


def judge(path, work, env):
    name, lang, commands, library, stream = FUSERS[os.path.basename(path)]
    run(f"kiln plugin new {name} --lang {lang}", work, env)
    folder = os.path.join(work, name)
    shutil.copy(path, os.path.join(folder, os.path.basename(path).removeprefix("outsider_")))
    with open(os.path.join(folder, "own.replay"), "w", encoding="utf-8") as file:
        file.write(f"kiln replay 1\n{stream}end\n")
    for command in commands:
        run(command, folder, env)
    told = run(f"kiln plugin check --level 8 --timeout 300 --stream own.replay {library}", folder, env)
    assert " 0 failed" in told and "ok    8  honest" in told, told


def main():
    paths = sys.argv[3:]
    failed = skipped = 0
    with tempfile.TemporaryDirectory(prefix="kiln-outsiders-") as work:
        prefix = os.path.join(work, "prefix")
        subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix], check=True, capture_output=True)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("KILN_", "CARGO", "RUST"))}
        env.update(PATH=f"{prefix}/bin:/usr/bin:{env['PATH']}", CMAKE_PREFIX_PATH=prefix, CARGO_HOME=f"{work}/cargo",
                   PKG_CONFIG_PATH=f"{prefix}/{LIBDIR}/pkgconfig", KILN_CACHE_DIR=f"{work}/cache")
        for path in paths:
            if path.endswith(".rs") and not os.path.exists("/usr/bin/cargo"):
                print(f"SKIP {path}: /usr/bin/cargo missing")
                skipped += 1
                continue
            try:
                judge(path, work, env)
            except AssertionError as problem:
                failed += 1
                print(f"FAIL {path}: {problem}")
    print(f"kiln-test: {len(paths) - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
