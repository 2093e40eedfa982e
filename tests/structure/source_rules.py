#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Rules that are read off the source text: licence lines, unique names, contracts, banned calls."""
import collections
import os
import re
import sys

import structure

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools"))
import compile_database  # noqa: E402

LICENSED = (".c", ".h", ".def", ".cl", ".inc", ".py", ".sh", ".cmake", ".proto", ".options", ".in",
            ".map", ".supp", ".yml", ".yaml", ".cpp", ".hpp", ".ld", ".rs", ".toml")
LICENSED_NAMES = {"CMakeLists.txt", "dev", "run", ".clang-format", ".clang-tidy", ".editorconfig",
                  "packages.txt", "Makefile", "mkfile"}
SPDX = "SPDX-License-Identifier: MIT OR Apache-2.0"
SPDX_LINE = re.compile(re.escape(SPDX) + r"( \*/| -->)?$", re.M)

# Call -> why; folders where it is allowed.
EVERYWHERE = ("sprintf", "vsprintf", "strcpy", "strcat", "strtok", "gets", "alloca", "atoi", "atol",
              "atof", "setjmp", "longjmp")
HEAP = ("malloc", "calloc", "realloc", "free", "strdup", "strndup", "aligned_alloc",
        "posix_memalign")
PRINTING = ("printf", "puts", "putchar", "perror", "vprintf", "abort", "exit", "_exit", "assert")
# What a header's head says of all its functions, and what then need not be said of one.
DEFAULTS = re.compile(r"Unless a function says otherwise|any thread may call", re.I)
NOTHING_SAID = ("Lifetime:", "Ownership:", "Thread: any", "Errors: none")
MOST_FILES = 25
# Folders that may hold more: why.
LONG_FOLDERS = {"docs/decisions": "a numbered list, one page for each decision"}
LIBRARY = tuple(m for m in structure.MODULES if m not in ("plugin_sdk", "plugins"))


def spdx(tree):
    bad = []
    for name in tree.files:
        base = os.path.basename(name)
        wanted = name.endswith(LICENSED) or base in LICENSED_NAMES
        if wanted and not SPDX_LINE.search("\n".join(tree.read(name).split("\n", 4)[:4])):
            bad.append(f"{name}: no line '{SPDX}' at the top")
    return bad


def unique_basenames(tree):
    seen = {}
    for name in tree.sources(".c", ".h", ".cpp", ".hpp", ".def", ".cl", ".inc", ".proto"):
        seen.setdefault(os.path.basename(name), []).append(name)
    return [f"{base} is the name of {' and '.join(names)}"
            for base, names in sorted(seen.items()) if len(names) > 1]


def contracts(tree):
    """The head of a public header says the defaults of thread, ownership and errors; each of its
    functions has a paragraph of its own directly above it, which does not repeat them."""
    bad = []
    for name in tree.public_headers():
        text = tree.read(name)
        says_defaults = DEFAULTS.search(head_of(text))
        for match in re.finditer(r"(?m)^(?:KILN_NODISCARD\s+)?KILN_API\b", text):
            function = re.search(r"(\w+)\s*\(", text[match.start():].replace("KILN_API", ""))
            where = (f"{name}:{structure.line_of(text, match.start())}: "
                     f"{function.group(1) if function else '?'}")
            if not says_defaults:
                bad.append(f"{where}: the head does not say who may call it")
            elif not text[:match.start()].rsplit("\n", 2)[-2].startswith("///"):
                bad.append(f"{where} has no paragraph directly above it")
            else:
                bad += [f"{where} says '{empty}', which is the default"
                        for empty in NOTHING_SAID if empty in above(text, match.start())]
    return bad


def head_of(text):
    """The first paragraphs of comment after the include guard."""
    match = re.search(r"(?m)(?:^///.*\n)+", text)
    return " ".join(match.group(0).replace("///", " ").split()) if match else ""


def above(text, place):
    """The comment lines of the paragraph that a declaration stands in."""
    start = text.rfind("\n\n", 0, place) + 2
    return "\n".join(line for line in text[start:place].split("\n")
                     if line.lstrip().startswith(("//", "/*", "*")))


def short_headers(tree):
    """One header per object: none longer than 400 lines, nine of ten at most 300."""
    lengths = {}
    for name in tree.sources(".h", ".hpp", top=structure.MODULES + ("cli", "bench", "tools", "examples")):
        text = tree.read(name)
        if "Written by tools/" not in text[:200]:
            lengths[os.path.basename(name)] = text.count("\n")
    bad = [f"{base} has {lines} lines, more than 400" for base, lines in sorted(lengths.items()) if lines > 400]
    ordered = sorted(lengths.values())
    if ordered and ordered[len(ordered) * 9 // 10] > 300:
        bad.append(f"one header in ten has more than {ordered[len(ordered) * 9 // 10]} lines, not 300")
    return bad


def short_folders(tree):
    """A folder is read at a glance: no more than 25 files lie directly in it."""
    held = collections.Counter(os.path.dirname(name) for name in tree.files)
    return [f"{folder} holds {count} files, more than {MOST_FILES}: give it rooms"
            for folder, count in sorted(held.items())
            if count > MOST_FILES and folder not in LONG_FOLDERS]


def room_pages(tree):
    """Each folder of sources has a README that says what its files decide."""
    rooms = {os.path.dirname(name) for name in tree.sources(".c", top=structure.MODULES + ("cli",))
             if "/template/" not in name}
    return [f"{room} has no README.md" for room in sorted(rooms) if f"{room}/README.md" not in tree.files]


def banned_calls(tree):
    bad = []
    for name in tree.sources(".c", ".h"):
        folder = name.split("/")[0]
        banned = list(EVERYWHERE)
        if folder in LIBRARY:
            banned += PRINTING
            if folder != "base":
                banned += HEAP
        text = structure.without_strings(structure.without_comments(tree.read(name)))
        pattern = re.compile(r"(?<![\w.>])(" + "|".join(banned) + r")\s*\(")
        for match in pattern.finditer(text):
            bad.append(f"{name}:{structure.line_of(text, match.start())}: {match.group(1)}()")
    return bad


def unfinished(tree):
    """Words that mark work left undone."""
    word = re.compile(r"\b(FIXME|XXX|HACK|TODO)\b(?!\(#\d+\))")
    bad = []
    for name in tree.sources(".c", ".h", ".cpp", ".hpp", ".def", ".cl", ".proto", ".sh"):
        text = tree.read(name)
        bad += [f"{name}:{structure.line_of(text, m.start())}: {m.group(1)}"
                for m in word.finditer(text)]
    return bad


def file_comments(tree):
    """Each .c of the library says in 3 to 8 lines what it decides."""
    bad = []
    for name in tree.sources(".c", top=structure.MODULES + ("cli",)):
        lines = tree.read(name).split("\n")
        count = 0
        for line in lines[1:]:
            if not line.startswith(("//", "/*", " *")):
                break
            count += 1
        if count < 2:
            bad.append(f"{name}: no comment below the licence line says what the file decides")
    return bad


BLOCK_COMMENT = re.compile(r"^[ ]*/\*( |\*|$)", re.M)


def one_dialect(tree):
    """Comments are `///` above declarations and `//` in code; `/*name=*/` says what an argument is."""
    bad = []
    for name in tree.sources(".c", ".h", top=structure.MODULES + ("cli", "bench", "tools")):
        text = tree.read(name)
        if "Written by tools/" not in text[:200] and BLOCK_COMMENT.search(text):
            line = text.count("\n", 0, BLOCK_COMMENT.search(text).start()) + 1
            bad.append(f"{name}:{line}: a comment by /* */")
    return bad


def orphans(tree):
    """Each .c is compiled, or named in the CMake file of its folder or of one above it."""
    bad = []
    compiled = compiled_files(tree)
    for name in tree.sources(".c", top=structure.MODULES + ("cli", "tests", "bench", "tools")):
        if "/template/" in name or "/consumer/" in name:
            continue
        if os.path.realpath(os.path.join(tree.root, name)) in compiled:
            continue
        word = re.compile(r"(?<![\w.])" + re.escape(os.path.basename(name)) + r"(?!\w)")
        folder = os.path.dirname(name)
        while folder and not named_in(tree, folder, word):
            folder = os.path.dirname(folder)
        if not folder:
            bad.append(f"{name} is in no CMakeLists.txt")
    return bad


def compiled_files(tree):
    build = tree.config.get("build_dir", "")
    if not os.path.exists(os.path.join(build, "compile_commands.json")):
        return set()
    return {os.path.realpath(entry["file"]) for entry in compile_database.entries(build)}


def named_in(tree, folder, word):
    path = os.path.join(folder, "CMakeLists.txt")
    return path in tree.files and word.search(tree.read(path))


def cmake_rules(tree):
    bad = []
    if tree.read("CMakeLists.txt").count("\n") > 120:
        bad.append("CMakeLists.txt is longer than 120 lines")
    for name in tree.files:
        if os.path.basename(name) == "CMakeLists.txt" and re.search(
                r"file\s*\(\s*GLOB", tree.read(name)):
            bad.append(f"{name}: sources are listed, never globbed")
    return bad


def merged(tree):
    """No file has marks of a merge that nobody finished."""
    mark = re.compile(r"(?m)^(?:<{7} |>{7} )")
    bad = []
    for name in tree.files:
        if name.endswith((".c", ".h", ".cpp", ".hpp", ".def", ".cl", ".py", ".md", ".txt", ".cmake", ".sh")):
            text = tree.read(name)
            bad += [f"{name}:{structure.line_of(text, m.start())}: mark of a merge"
                    for m in mark.finditer(text)]
    return bad


def formatted_text(tree):
    """Tabs, spaces at line ends, lines beyond 100 columns, a missing last newline."""
    bad = []
    for name in tree.sources(".c", ".h", ".hpp", ".def", ".proto"):
        text = tree.read(name)
        free = name.endswith((".def", ".proto")) or "Written by tools/" in text[:200]
        if not text.endswith("\n"):
            bad.append(f"{name}: no newline at the end")
        for number, line in enumerate(text.split("\n"), 1):
            if "\t" in line:
                bad.append(f"{name}:{number}: tab")
            if line.endswith(" "):
                bad.append(f"{name}:{number}: space at the end")
            if len(line) > 100 and not free and "http" not in line:
                bad.append(f"{name}:{number}: {len(line)} columns")
    return bad


def page_columns(tree):
    """Pages have at most 120 columns; rows of tables and single words may be longer."""
    bad = []
    for name in tree.files:
        if not name.endswith(".md") or "Written by tools/" in tree.read(name)[:200]:
            continue
        for number, line in enumerate(tree.read(name).split("\n"), 1):
            if len(line) > 120 and not line.lstrip().startswith("|") and " " in line.strip(" -*"):
                bad.append(f"{name}:{number}: {len(line)} columns")
    return bad


def page_paths(tree):
    """What a page links to, and each file and folder that it names by its path, is there."""
    bad = []
    named = re.compile(r"\]\(([^)#\s]+)|`((?:" + "|".join(structure.TOP + ("docs", "cmake")) + r")/[\w./-]*(?:\.\w+|/))`")
    for name in tree.files:
        text = without_programs(tree.read(name)) if name.endswith(".md") else ""
        for match in named.finditer(text):
            link = match.group(1)
            path = os.path.join(os.path.dirname(name), link) if link else match.group(2)
            if "://" not in path and not os.path.exists(os.path.join(tree.root, path)):
                bad.append(f"{name}:{structure.line_of(text, match.start())}: there is no {path}")
    return bad


def bad_inputs(tree):
    """The table of bad input has every fuzz target, and each test that it names is there."""
    page = read_if_there(tree, "SECURITY.md")
    targets = {name[len("tests/fuzz/"):-2] for name in tree.files if re.match(r"tests/fuzz/fuzz_\w+\.c$", name)}
    targets -= {"fuzz_file", "fuzz_checks", "fuzz_replay"}  # what all targets share
    bad = [f"SECURITY.md: {target} is in no row" for target in sorted(targets) if f"`{target}`" not in page]
    tests = {os.path.basename(name).rsplit(".", 1)[0] for name in tree.files if name.startswith("tests/")}
    for name in re.findall(r"`(?:unit|faults|collective|plugins)/(?:\w+/)*(\w+)`", page):
        if not tests & {name, f"test_{name}", f"{name}_faults"}:
            bad.append(f"SECURITY.md: there is no test {name}")
    return bad


def without_programs(text):
    """A page without its blocks of code, in which a lambda looks like a link; line numbers kept."""
    return re.sub(r"(?ms)^```.*?^```", lambda block: "\n" * block.group(0).count("\n"), text)


def environment_names(tree):
    """What programs and scripts read of the environment is an option, or base warns of it."""
    options = read_if_there(tree, "base/environment/config.def")
    known = set(re.findall(r'"(KILN_\w+)"', options + read_if_there(tree, "base/environment/unknown_names.c")))
    begins = tuple(name for name in known if name.endswith("_"))
    reads = re.compile(r'(?:getenv\("|environ(?:\.get\(|\[)"|\$\{?'
                       r"|\b(?:export|env) (?:KILN_\w+=\S* )*)(KILN_[A-Z_]+)")
    bad = []
    for name in tree.files:
        if name.endswith((".c", ".h", ".py", ".sh")) or name in ("dev", ".ci/run"):
            text = tree.read(name)
            bad += [f"{name}:{structure.line_of(text, m.start(1))}: {m.group(1)} is no option, and "
                    "base/environment/unknown_names.c does not know it" for m in reads.finditer(text)
                    if m.group(1) not in known and not m.group(1).startswith(begins)]
    return bad


def read_if_there(tree, name):
    return tree.read(name) if name in tree.files else ""


CHECKS = (merged, spdx, unique_basenames, contracts, short_headers, short_folders, room_pages, banned_calls, unfinished,
          file_comments, one_dialect, orphans, cmake_rules, formatted_text, page_columns, page_paths, bad_inputs,
          environment_names)


if __name__ == "__main__":
    source_tree = structure.load(sys.argv)
    structure.report("structure/source_rules", {c.__name__: c(source_tree) for c in CHECKS})
