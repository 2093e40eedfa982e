#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes the pages a static site with search, by Debian's mkdocs-material: site.py ROOT OUT.

The pages keep their places: README.md is the first one, and what a page links to, such as a header or a folder's
README.md, goes along. A link that leads nowhere is an error."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

import yaml

ROOT, OUT = (os.path.abspath(path) for path in sys.argv[1:3])
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")
FENCE = re.compile(r"^(```\w+) \S+$", re.M)  # the name of a file behind the language, for who follows the page
NAV = [
    {"Kiln": "README.md"},
    {"Begin": [{"from C": "docs/c.md"}, {"from C++": "docs/cpp.md"}, {"from Python": "docs/python.md"},
               {"from Rust": "docs/fusers/rust.md"},
               {"on a GPU": "docs/gpu.md"}, {"without a compiler, on an FPGA": "docs/fpga.md"},
               {"on another machine": "docs/remote.md"}, {"write a fuser": "docs/fusers/writing-a-fuser.md"},
               {"write an operator": "docs/fusers/writing-an-operator.md"}, {"change Kiln": "CONTRIBUTING.md"}]},
    {"Decide": [{"why Kiln, and when not": "docs/why.md"}, {"measurements": "docs/benchmarks.md"},
                {"versions": "docs/versions.md"}, {"changes": "CHANGELOG.md"}, {"security": "SECURITY.md"}]},
    {"Mend": [{"what is wrong?": "docs/troubleshooting.md"}]},
]


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


def pages():
    """The pages and what they link to: name -> text, or None for a file that is no page. Problems too."""
    found, problems = {}, []
    names = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"]
    names += sorted(os.path.join(folder[len(ROOT) + 1:], name) for folder, _, files in os.walk(os.path.join(ROOT, "docs"))
                    for name in files if name.endswith(".md"))
    while names:
        name = names.pop(0)
        if name in found:
            continue
        if not name.endswith(".md"):
            found[name] = None
            continue
        text = read(name)
        for link, _ in LINK.findall(re.sub(r"(?ms)^```.*?^```$|`[^`]*`", "", text)):
            if "://" in link or link.startswith("mailto:"):
                continue
            target = os.path.normpath(os.path.join(os.path.dirname(name), link))
            path = os.path.join(ROOT, target)
            if os.path.isdir(path) and os.path.exists(os.path.join(path, "README.md")):
                text = text.replace(f"]({link})", f"]({os.path.join(link, 'README.md')})")
                names.append(os.path.join(target, "README.md"))
            elif os.path.isfile(path):
                names.append(target)
            elif os.path.isdir(path):
                text = re.sub(r"\[([^\]]*)\]\(" + re.escape(link) + r"\)", r"`\1`", text)  # a folder has no page
            else:
                problems.append(f"{name}: {link} is not there")
        found[name] = FENCE.sub(r"\1", text)
    return found, problems


def stage(folder, found):
    for name, text in found.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if text is None:
            shutil.copy(os.path.join(ROOT, name), path)
        else:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)


def navigation(found):
    """The chosen pages first; the other pages of docs/ and those of folders behind them."""
    named = str(NAV)
    rest = sorted(name for name, text in found.items() if text is not None and f"'{name}'" not in named)
    decisions = [name for name in rest if "/decisions/" in name]
    reference = [name for name in rest if name.startswith("docs/") and name not in decisions]
    folders = [name for name in rest if name not in decisions and name not in reference]
    return NAV + [{"Look up": reference}, {"Decisions": decisions},
                  {"Folders": [{os.path.dirname(name): name} for name in folders]}]


def main():
    found, problems = pages()
    if problems:
        print("\n".join(problems))
        return 1
    with tempfile.TemporaryDirectory(prefix="kiln-site-") as work:
        stage(os.path.join(work, "pages"), found)
        config = {"site_name": "Kiln", "docs_dir": "pages", "site_dir": OUT, "use_directory_urls": False,
                  "theme": {"name": "material", "font": False, "features": ["navigation.tabs"]}, "plugins": ["search"], "nav": navigation(found),
                  "markdown_extensions": ["tables", "fenced_code", "toc"]}
        with open(os.path.join(work, "mkdocs.yml"), "w", encoding="utf-8") as file:
            yaml.safe_dump(config, file, sort_keys=False)
        done = subprocess.run(["mkdocs", "build", "--clean", "--strict", "--quiet"], cwd=work, capture_output=True, text=True,
                              check=False)
    print(done.stdout + done.stderr, end="")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
