#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""What an author of fusers relies on: the headers compile alone in every language they promise,
those of the ABI without padding, and the templates against nothing but the installed headers."""
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
SDK = os.path.join(ROOT, "plugin_sdk")
INCLUDE = ["-I", sys.argv[1], "-I", SDK, "-I", os.path.join(SDK, "abi"), "-I", os.path.join(SDK, "parts")]
FLAGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wpadded", "-Werror", "-fsyntax-only"]
MATRIX = [(compiler, language, standard) for compiler in ("gcc", "clang-14")
          for language, standards in (("c", ("c99", "c11", "c17")),
                                      ("c++", ("c++11", "c++17", "c++20")))
          for standard in standards]
PROGRAM = """#include "{header}"
KF_MANIFEST("org.example.test", "1", 0, 1, 0, 0);
const kf_plugin *kf_plugin_query_v1(uint32_t minor) {{ (void)minor; return 0; }}
"""


def matrix(header, crosses_abi=True):
    """The combinations of compiler and language that refuse a plugin with this header."""
    bad = []
    flags = [flag for flag in FLAGS if crosses_abi or flag != "-Wpadded"]
    for compiler, language, standard in MATRIX:
        run = subprocess.run([compiler, f"-std={standard}", *flags, *INCLUDE, "-x", language, "-"],
                             input=PROGRAM.format(header=header), capture_output=True, text=True,
                             check=False)
        if run.returncode:
            bad.append(f"{compiler} {standard}: {run.stderr.splitlines()[:1]}")
    return bad


def wrapper():
    """The compilers and standards that refuse a C++ fuser on kiln_fuser.hpp; exceptions off, too."""
    bad = []
    source = os.path.join(SDK, "template/cpp/my_fuser.cpp")
    for compiler in ("g++", "clang++-14"):
        for flags in (["-std=c++17"], ["-std=c++20"]):
            run = subprocess.run([compiler, *flags, "-Wall", "-Wextra", "-Wpedantic", "-Wconversion",
                                  "-Wshadow", "-Werror", "-fsyntax-only", *INCLUDE, source],
                                 capture_output=True, text=True, check=False)
            if run.returncode:
                bad.append(f"{compiler} {flags}: {run.stderr.splitlines()[:2]}")
    return bad


FORMS = """#include "kiln_fuser.hpp"
int main()
{
    kiln::program p("x", 2), q("x", 2);
    const auto s = p.source("text");
    p.binary(s, "board", "", "bits");
    p.run(s, "wide").single(s, "task").value(kiln::expr(3));
    q.run(q.source("text"), "wide");
    const kiln::sealed_program forms(std::move(p)), plain(std::move(q));
    const kf_launch *launch = forms.view().launches[0], *other = plain.view().launches[0];
    const kf_source *source = forms.view().sources[0];
    if (forms.view().n_launches != 1 || launch->single == nullptr || launch->single->n_args != 1 ||
        launch->single->kernel.len != 4 || other->single != nullptr) {
        return 1;
    }
    if (source->n_binaries != 1 || source->binaries[0]->code.len != 4 || source->binaries[0]->device.len != 5) {
        return 2;
    }
    return forms.info().key.len > plain.info().key.len ? 0 : 3;
}
const kf_plugin *kf_plugin_query_v1(std::uint32_t) { return nullptr; }
"""


# What the host does with a finished block of two programs: FINISH makes `table` and `opt`.
VARIANTS = """
int main(void)
{
    kf_opt_info info = KF_ZERO;
    kf_program p = KF_ZERO;
    FINISH
    info.struct_size = (uint32_t)sizeof(info);
    p.struct_size = (uint32_t)sizeof(p);
    if (table->opt_info(opt, &info) != KF_OK || info.n_variants != 2 || info.len != 3) {
        return 1;
    }
    if (info.n_variant_ns != 2 || info.variant_ns[0].n != 0 || info.variant_ns[1].ins[0].imm != 70 || learned != 5) {
        return 4;
    }
    for (uint32_t i = 0; i < 2; i++) {
        if (table->opt_describe(opt, i, &p) != KF_OK || p.n_launches != i + 1) {
            return 2;
        }
    }
    if (table->opt_describe(opt, 2, &p) != KF_E_INVALID || p.n_launches != 2) {
        return 3;
    }
    table->opt_destroy(opt);
    return 0;
}
"""

VARIANTS_C = """#include "kf_util.h"
#define KF_PLUGIN_ID "org.example.test"
#define KF_PLUGIN_VERSION "1"
#define KF_PLUGIN_VENDOR "Example"
#define KF_PLUGIN_FUSERS KF_STR_INIT("two")
#define KF_PLUGIN_VARIANTS
#define KF_PLUGIN_MEASURED
static uint64_t learned;
struct kf_fuser { const kf_host *host; uint32_t index; };
struct kf_builder { const kf_fuser *fuser; };
struct kf_opt { kf_text name; };
static kf_status fuser_init(kf_fuser *f, const kf_device *d) { (void)f; (void)d; return KF_OK; }
static void fuser_learn(kf_fuser *f, const kf_measured *m) { (void)f; learned = m->ns; }
static void builder_init(kf_builder *b) { (void)b; }
static void builder_copy(kf_builder *to, const kf_builder *from) { (void)to; (void)from; }
static void builder_push(kf_builder *b, const kf_block *k, const kf_op *op) { (void)b; (void)k; (void)op; }
static uint32_t builder_is_closed(const kf_builder *b) { (void)b; return 0; }
static uint32_t builder_is_ready(const kf_builder *b) { (void)b; return 1; }
static void builder_estimate(kf_builder *b, kf_state *s) { (void)b; s->len = 3; }
static kf_status opt_init(kf_opt *o, const kf_builder *b) { (void)b; kf_text_add(&o->name, "two"); return KF_OK; }
static void opt_fini(kf_opt *o) { kf_text_free(&o->name); }
static void opt_facts(const kf_opt *o, kf_opt_info *out)
{
    static const kf_ins seventy[] = {{KF_INS_IMM, 0, 0, 70}};
    static const kf_expr ns[] = {{NULL, 0}, {seventy, 1}};
    kf_opt_info_fill(out, 3, &o->name, (const uint8_t *)"key", 3);
    kf_opt_info_variants(out, 2, ns);
}
static void opt_variant(const kf_opt *o, uint32_t variant, kf_program *out)
{
    kf_program view;
    (void)o;
    memset(&view, 0, sizeof(view));
    view.struct_size = (uint32_t)sizeof(view);
    view.n_launches = variant + 1;
    KF_OUT(out, &view);
}
#include "kf_plugin.h"
#define KF_ZERO {0}
#define FINISH const kf_plugin *table = kf_plugin_query_v1(0); kf_fuser *f; kf_builder *b; kf_opt *opt; \
    const kf_device device = {.struct_size = sizeof(device)}; \
    if (table->fuser_create(0, 0, &device, &f) != KF_OK || table->builder_create(f, &b) != KF_OK || \
        table->builder_finish(b, &opt) != KF_OK) { return 9; } \
    kf_measured told = KF_ZERO; told.ns = 5; table->fuser_measured(f, &told); \
    table->builder_destroy(b); table->fuser_destroy(f);
""" + VARIANTS

VARIANTS_CPP = """#include "kiln_fuser.hpp"
static std::uint64_t learned;
struct two : kiln::copyable_builder<two> {
    void fuse(const kiln::values &, const kf_op &) override {}
    kiln::answer state() const override { kiln::answer a; a.ready = true; a.len = 3; return a; }
    kiln::program finish() const override { return made(1); }
    std::vector<kiln::program> variants() const override
    {
        std::vector<kiln::program> all;
        all.push_back(made(2));
        return all;
    }
    std::vector<kiln::expr> variant_ns() const override { return {kiln::expr(70)}; }
    static kiln::program made(int launches)
    {
        kiln::program p("two", 3);
        const auto s = p.source("text");
        for (int i = 0; i < launches; i++) { p.run(s, "k"); }
        return p;
    }
};
struct maker : kiln::fuser {
    maker(const kf_host *, const kf_device &) {}
    std::unique_ptr<kiln::builder> start() const override { return std::make_unique<two>(); }
    void measured(const kf_measured &what) const override { learned = what.ns; }
};
KILN_PLUGIN("org.example.test", "1", "Example", kiln::fuser_named<maker>("two"))
#define KF_ZERO {}
#define FINISH const kf_plugin *table = kf_plugin_query_v1(0); kf_fuser *f; kf_builder *b; kf_opt *opt; \
    const kf_device device = {}; \
    if (table->fuser_create(nullptr, 0, &device, &f) != KF_OK || table->builder_create(f, &b) != KF_OK || \
        table->builder_finish(b, &opt) != KF_OK) { return 9; } \
    kf_measured told = KF_ZERO; told.ns = 5; table->fuser_measured(f, &told); \
    table->builder_destroy(b); table->fuser_destroy(f);
""" + VARIANTS


def runs(text, compiler, language, standard):
    """What is wrong with a program that looks at the helpers: its end, or that there is none."""
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "program")
        run = subprocess.run([compiler, f"-std={standard}", "-Wall", "-Wextra", "-Wconversion", "-Werror", *INCLUDE, "-x",
                              language, "-", "-o", program], input=text, capture_output=True, text=True, check=False)
        if run.returncode:
            return [run.stderr[:300]]
        code = subprocess.run([program], check=False).returncode
        return [f"ends with {code}"] if code else []


def template():
    """Builds the template as an author without CMake would, and looks at the library."""
    with tempfile.TemporaryDirectory() as folder:
        library = os.path.join(folder, "my_fuser.so")
        sources = [os.path.join(SDK, "template/c", name) for name in ("my_fuser.c", "abi.c")]
        run = subprocess.run(["gcc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror",
                              "-O2", "-fPIC", "-fvisibility=hidden", "-shared", "-Wl,-z,defs",
                              f"-Wl,--version-script={SDK}/kiln_fuser.map", *INCLUDE, *sources, "-o",
                              library], capture_output=True, text=True, check=False)
        if run.returncode:
            return [run.stderr[-300:]]
        names = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True,
                               text=True, check=True).stdout
        exported = re.findall(r" [A-Z] (\w+)", names)
        notes = subprocess.run(["readelf", "-n", library], capture_output=True, text=True,
                               check=True).stdout
    bad = [] if exported == ["kf_plugin_query_v1"] else [f"exports {exported}"]
    return bad if "KFU" in notes else bad + ["no manifest note"]


def main():
    results = {header: matrix(header) for header in ("kiln_fuser.h", "kf_util.h")}
    for header in ("kf_elementwise.h", "kf_chain.h", "kf_row_space.h", "kf_row_parts.h", "kf_rows.h",
                   "kf_plugin.h"):
        results[header] = matrix(header, crosses_abi=False)
    results["kiln_fuser.hpp"] = wrapper()
    results["forms in C++"] = runs(FORMS, "g++", "c++", "c++17")
    results["variants in C++"] = runs(VARIANTS_CPP, "g++", "c++", "c++17")
    results["variants in C"] = runs(VARIANTS_C, "gcc", "c", "c99")
    results["template"] = template()
    for name, bad in results.items():
        for text in bad:
            print(f"FAIL {name}: {text}")
    failed = sum(1 for bad in results.values() if bad)
    print(f"kiln-test: {len(results) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
