# SPDX-License-Identifier: MIT OR Apache-2.0
"""How the command explains itself: help, guesses, manual pages, completion; all from the tables of options."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

from command import KILN, case, expect, expect_error, kiln, main


def commands(*program):
    """The words in the help of `kiln` or of a command that has some."""
    return re.findall(r"(?m)^  ([a-z-]+) ", kiln(*program, "--help").stdout)


@case
def help_in_every_way_that_people_ask():
    full = kiln("--help").stdout
    for ask in (["-h"], ["help"], ["-?"]):
        run = kiln(*ask)
        expect(run, 0)
        assert run.stdout == full, ask
    for command in commands():
        told = kiln(command, "--help").stdout
        for ask in (["help", command], [command, "-h"]):
            run = kiln(*ask)
            expect(run, 0)
            assert run.stdout == told, ask
    own = kiln("plugin", "list", "--help").stdout
    assert own.startswith("Usage: kiln plugin list"), own
    for ask in (["help", "plugin", "list"], ["plugin", "help", "list"], ["plugin", "list", "-h"]):
        assert kiln(*ask).stdout == own, ask
    assert kiln("run", "model.onnx", "-h").stdout == kiln("run", "--help").stdout
    expect_error(kiln("help", "rum"), 'did you mean "run"', code=2)


@case
def version_in_every_way():
    version = kiln("--version").stdout
    assert re.fullmatch(r"kiln \d+\.\d+\.\d+\n", version), version
    for ask in (["-V"], ["run", "--version"], ["run", "-V"], ["plugin", "-V"], ["plugin", "list", "-V"]):
        run = kiln(*ask)
        expect(run, 0)
        assert run.stdout == version, (ask, run.stdout)


@case
def wrong_words_are_guessed():
    expect_error(kiln("runn"), 'no command "runn"; did you mean "run"?', "there are run, benchmark", code=2)
    expect_error(kiln("xplain"), 'did you mean "explain"?', code=2)
    run = kiln("frobnicate")
    expect_error(run, "there are run, benchmark", code=2)
    assert "did you mean" not in run.stderr, run.stderr
    expect_error(kiln("plugin", "lsit"), 'did you mean "list"?', "there are allow", code=2)
    expect_error(kiln("ops", "rellu"), 'did you mean "relu"?')
    expect(kiln("bench", "elementwize"), 2, 'did you mean "elementwise"? there are ', stream="stderr")
    for words, guess in ((("run", "--inptu", "x"), "input"), (("plugin", "check", "--lvel=3", "x"), "level")):
        expect(kiln(*words), 2, f'did you mean "{guess}"?', "unrecognized option", stream="stderr")
    for words in (("run",), ("run", "--runs", "x"), ("run", "--wholly-other")):  # nothing that could have been meant
        run = kiln(*words)
        assert run.returncode == 2 and "did you mean" not in run.stderr, run
    expect_error(kiln("config", "--set", "tun=off"), 'did you mean "tune"?')
    for words, guess in ((("coll", "chek"), "check"), (("cache", "sat"), "stat"), (("cache", "prepar", "x"), "prepare")):
        expect(kiln(*words), 2, f'did you mean "{guess}"?', stream="stderr")
    expect_error(kiln("man", "rnu"), 'did you mean "run"? `kiln help` lists them')
    run = kiln("completion", "zhs")
    expect_error(run, 'did you mean "zsh"?', code=2)


@case
def a_page_for_every_command():
    with tempfile.TemporaryDirectory() as folder:
        expect(kiln("man", "--folder", folder), 0)
        pages = {os.path.basename(path)[:-2] for path in glob.glob(folder + "/*.1")}
        wanted = {"kiln"} | {f"kiln-{name}" for name in commands()}
        wanted |= {f"kiln-{above}-{name}" for above in ("plugin", "bundle") for name in commands(above)}
        assert pages == wanted, pages ^ wanted
        for path in glob.glob(folder + "/*.1"):
            with open(path, encoding="utf-8") as file:
                text = file.read()
            words = os.path.basename(path)[:-2].replace("check-onnx", "check_onnx").split("-")[1:]
            if words and words not in (["plugin"], ["bundle"]):
                words = [word.replace("_", "-") for word in words]
                for option in re.findall(r"(?m)^ +(?:-., )? *--([a-z-]+)", kiln(*words, "--help").stdout):
                    escaped = option.replace("-", "\\-")
                    assert f"\\fB\\-\\-{escaped}\\fR" in text, (path, option)
            if shutil.which("groff"):
                run = subprocess.run(["groff", "-man", "-Tascii", "-ww", path], capture_output=True, text=True, check=False)
                assert run.returncode == 0 and not run.stderr, (path, run.stderr)
    assert kiln("man", "run").stdout.startswith('.\\" Made by'), "one page goes to standard output"
    expect_error(kiln("man", "nothing"), "no command `kiln nothing`")
    run = kiln("man", "--folder", "/nowhere")
    expect(run, 1, "/nowhere", stream="stderr")


def complete_bash(script, *words):
    given = " ".join(f"'{word}'" for word in words)
    run = subprocess.run(["bash", "-c", f"source {script}; COMP_WORDS=({given}); COMP_CWORD={len(words) - 1}; _kiln; "
                          'printf "%s\\n" "${COMPREPLY[@]}"'], capture_output=True, text=True, check=False)
    assert run.returncode == 0 and not run.stderr, run
    return set(run.stdout.split())


def complete_zsh(script, *words):
    """With zsh's own helpers replaced by ones that print: what is offered before zsh filters it by the prefix."""
    given = " ".join(f"'{word}'" for word in words)
    run = subprocess.run(["zsh", "-fc", "_describe() { shift; [[ $1 == option ]] && shift; print -rl -- ${(P)1}; }; "
                          f"_files() {{ print FILES; }}; CURRENT={len(words)}; words=({given}); source {script}"],
                         capture_output=True, text=True, check=False)
    assert run.returncode == 0 and not run.stderr, run
    offered = {re.split(r"(?<!\\):", line)[0] for line in run.stdout.splitlines()}
    return {word for word in offered if word.startswith(words[-1]) or word == "FILES"}


def complete_fish(script, *words):
    run = subprocess.run(["fish", "-c", f"source {script}; complete -C '{' '.join(words)}'"], capture_output=True,
                         text=True, check=False, cwd="/proc/self/fdinfo")
    assert run.returncode == 0 and not run.stderr, run
    return {line.split("\t")[0] for line in run.stdout.splitlines()}


@case
def shells_complete():
    for shell, complete in (("bash", complete_bash), ("zsh", complete_zsh), ("fish", complete_fish)):
        if not shutil.which(shell):
            print(f"skipped: there is no {shell} here")
            continue
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "script")
            expect(kiln("completion", shell, "--output", script), 0)
            with open(script, encoding="utf-8") as file:
                assert kiln("completion", shell).stdout == file.read()
            assert complete(script, "kiln", "pl") == {"plugin"}, shell
            assert complete(script, "kiln", "plugin", "li") == {"list"}, shell
            assert {w.rstrip("=") for w in complete(script, "kiln", "run", "--ou")} == {"--output"}, shell
            assert {"--why"} <= complete(script, "kiln", "plugin", "list", "--w"), shell
            assert {"stat", "clear"} <= complete(script, "kiln", "cache", ""), shell
            assert complete(script, "kiln", "") >= set(commands()), shell
    expect_error(kiln("completion", "bash", "--output", "/nowhere/x"), "/nowhere/x")
    assert kiln("completion").returncode == 2


@case
def colours_are_for_terminals():
    import pty
    def told(**environment):
        screen, terminal = pty.openpty()
        process = subprocess.Popen([KILN, "ops", "nothing.at.all"], stderr=terminal, stdout=subprocess.DEVNULL,
                                   env={**{k: v for k, v in os.environ.items() if k != "NO_COLOR"}, "TERM": "xterm",
                                        **environment})
        process.wait(timeout=60)
        os.close(terminal)
        try:
            return os.read(screen, 4096).decode()
        finally:
            os.close(screen)
    assert "\033[31mkiln ops:" in told(), told()
    assert "\033" not in told(NO_COLOR="1") and "\033" not in told(TERM="dumb")
    assert "\033" not in kiln("ops", "nothing", TERM="xterm").stderr


if __name__ == "__main__":
    sys.exit(main("help"))
