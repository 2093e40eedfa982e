#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes the site of the pages: every page of docs/ is in it and in its search, every link within it leads somewhere, and
nothing is fetched from elsewhere."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from urllib.parse import unquote

import structure

SUITE = "structure/site_links"
REFERENCE = re.compile(r'(?:href|src)="([^"]*)"')


def made(config, out):
    done = subprocess.run(["/usr/bin/python3", os.path.join(config["source_dir"], "tools/site.py"), config["source_dir"], out],
                          capture_output=True, text=True, check=False, timeout=240)
    return [] if done.returncode == 0 else [f"status {done.returncode}", *(done.stdout + done.stderr).splitlines()[-20:]]


def html_pages(out):
    return [os.path.join(folder, name) for folder, _, names in os.walk(out) for name in names if name.endswith(".html")]


def dead_links(out):
    bad = []
    for page in html_pages(out):
        if os.path.basename(page) == "404.html":
            continue
        with open(page, encoding="utf-8") as file:
            text = file.read()
        for link in REFERENCE.findall(text):
            path = unquote(link.split("#")[0].split("?")[0])
            if path and "://" not in path and not path.startswith(("mailto:", "data:", "//")) and \
                    not os.path.exists(os.path.join(os.path.dirname(page), path)):
                bad.append(f"{os.path.relpath(page, out)}: {link}")
    return sorted(set(bad))


def from_elsewhere(out):
    bad = []
    for page in html_pages(out):
        with open(page, encoding="utf-8") as file:
            bad += [f"{os.path.relpath(page, out)}: {found}" for found in
                    re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="((?:https?:)?//[^"]*)"', file.read())]
    return bad


def in_search(config, out):
    with open(os.path.join(out, "search/search_index.json"), encoding="utf-8") as file:
        known = {entry["location"].split("#")[0] for entry in json.load(file)["docs"]}
    names = os.listdir(os.path.join(config["source_dir"], "docs"))
    wanted = ["index.html"] + [f"docs/{name[:-3]}.html" for name in names if name.endswith(".md")]
    return [f"{name} is not found by the search" for name in wanted if name not in known]


def rows(config, page):
    """The rows of a page's tables: cells by the first of them."""
    with open(os.path.join(config["source_dir"], "docs", page), encoding="utf-8") as file:
        cells = [[cell.strip().replace("**", "") for cell in line.strip("|\n").split("|")] for line in file if line[0] == "|"]
    return {row[0]: row[1:] for row in cells}


def figures(config):
    """What why.md says of speed is what benchmarks.md says."""
    said, measured = rows(config, "why.md"), rows(config, "benchmarks.md")
    shared = [name for name in said if name in measured and re.match(r"[0-9]", said[name][0])]
    bad = [f"{name}: {said[name]}, measured {measured[name]}" for name in shared
           if said[name] != measured[name][:len(said[name])]]
    return bad + ([] if len(shared) >= 5 else [f"only {len(shared)} rows are measurements"])


def main():
    config = structure.load(sys.argv).config
    theme = subprocess.run(["/usr/bin/python3", "-c", "import mkdocs, material"], capture_output=True, check=False)
    if theme.returncode or not shutil.which("mkdocs"):
        structure.report(SUITE, {"site": "no mkdocs-material"})
    with tempfile.TemporaryDirectory(prefix="kiln-site-") as out:
        cases = {"made": made(config, out)}
        if not cases["made"]:
            cases.update({"links": dead_links(out), "nothing from elsewhere": from_elsewhere(out), "search": in_search(config, out)})
        cases["figures"] = figures(config)
    structure.report(SUITE, cases)


if __name__ == "__main__":
    main()
