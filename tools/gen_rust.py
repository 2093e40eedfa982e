#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes Rust's raw declarations of Kiln's C headers, rust/kiln-sys/src/*.rs, or what proves their layout.

    gen_rust.py rust FOLDER HEADERS..      types, numbers and functions that the headers declare, as Rust
    gen_rust.py layout FOLDER HEADERS..    a C program that prints size and offsets of every struct
    gen_rust.py tables FOLDER              the rows of kf_elementwise.def and dtype.def

FOLDER is where the headers are installed, the folder above kiln/. The C compiler's preprocessor reads them, so tables
that become enumerations need no reader of their own; only what comes from FOLDER itself is declared. A declaration of
a form that this reader does not know is an error, not a gap."""
import os
import re
import subprocess
import sys

TOKEN = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\])*\"|\.\.\.|[A-Za-z_]\w*|\d\w*|\S", re.S)
PLAIN = {"void": "c_void", "char": "c_char", "bool": "bool", "_Bool": "bool", "float": "f32", "double": "f64",
         "int": "c_int", "unsigned": "c_uint", "unsigned int": "c_uint", "long": "c_long", "unsigned char": "c_uchar",
         "unsigned long": "c_ulong", "size_t": "usize", "ptrdiff_t": "isize", "intptr_t": "isize", "uintptr_t": "usize",
         **{f"{sign}int{bits}_t": f"{letter}{bits}" for bits in (8, 16, 32, 64) for sign, letter in (("", "i"), ("u", "u"))}}
KEYWORDS = {"as", "async", "const", "crate", "dyn", "else", "enum", "extern", "false", "fn", "for", "if", "impl", "in",
            "let", "loop", "match", "mod", "move", "mut", "pub", "ref", "return", "self", "static", "struct", "super",
            "trait", "true", "type", "union", "unsafe", "use", "where", "while", "box", "final", "macro", "override",
            "priv", "try", "typeof", "virtual", "yield", "abstract", "become", "do"}


def name_of(word):
    return f"r#{word}" if word in KEYWORDS else word


def number(text, known):
    """The value and Rust's type of a C constant; None: it is no plain number."""
    words = re.findall(r"0[xX][0-9A-Fa-f]+[uUlL]*|\d+[uUlL]*|[A-Za-z_]\w*|<<|>>|[-+|&()~*]", text)
    if not words or "".join(words) != re.sub(r"\s+", "", text):
        return None
    suffix, out = "", []
    for word in words:
        if word[0].isdigit():
            digits = word.rstrip("uUlL")
            suffix = max(suffix, word[len(digits):].lower(), key=len)
            out.append(str(int(digits, 0)))
        elif word[0].isalpha() or word[0] == "_":
            if word not in known:
                return None
            value, kind = known[word]
            suffix = max(suffix, {"u32": "u", "u64": "ull"}.get(kind, ""), key=len)
            out.append(str(value))
        else:
            out.append(word)
    value = eval("".join(out), {"__builtins__": {}})  # pylint: disable=eval-used  (digits and operators alone)
    kind = {"": "i32", "u": "u32", "ul": "u64", "ull": "u64", "l": "i64", "ll": "i64"}[suffix]
    return value, kind if kind != "i32" or -2**31 <= value < 2**31 else "i64"


class Headers:
    """What the headers declare, in their order: items are (kind, name, ...) with a doc comment."""

    def __init__(self, folder, headers):
        self.items, self.numbers, self.typedefs = [], {}, {}
        self.tokens, self.at, self.doc = [], 0, []
        text = "".join(f"#include <kiln/{name}>\n" for name in headers)
        out = subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-E", "-C", "-dD", f"-I{folder}", "-xc", "-"],
                             input=text, capture_output=True, text=True, check=True).stdout
        own, mine = os.path.realpath(folder), False
        kept = []
        for line in out.split("\n"):
            mark = re.match(r'# \d+ "(.*?)"', line)
            if mark:
                # The installed headers may be links to where they are kept.
                mine = mark.group(1).startswith((folder, own))
            elif mine and line.startswith("#define"):
                self.define(line)
                kept.append("//!")  # what stands above it is not about what comes next
            elif mine and not line.startswith("#"):
                kept.append(line)
        self.tokens = TOKEN.findall("\n".join(kept))
        while self.at < len(self.tokens):
            self.declaration()

    # ---- macros ----

    def define(self, line):
        match = re.match(r"#define (\w+)\s+(.*)$", line)
        if not match or match.group(1).endswith("_H"):
            return
        name, text = match.group(1), match.group(2).strip()
        found = number(text, self.numbers)
        if found:
            self.numbers[name] = found
            self.items.append(("number", name, found[1], found[0], []))
        elif re.fullmatch(r'"[^"\\]*"', text):
            self.items.append(("text", name, text, []))

    # ---- tokens ----

    def peek(self):
        while self.at < len(self.tokens) and self.tokens[self.at].startswith(("//", "/*")):
            word = self.tokens[self.at]
            if word == "//!":
                self.doc = []
            elif word.startswith("///<"):
                pass  # behind() takes it
            elif word.startswith("///"):
                self.doc.append(word[3:].strip())
            self.at += 1
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def about(self):
        """The comment in front of what comes next."""
        self.doc = []
        self.peek()
        return self.doc

    def behind(self):
        """The lines of `///<` that come next: they are about what stands before them."""
        lines = []
        while self.at < len(self.tokens) and self.tokens[self.at].startswith("///<"):
            lines.append(self.tokens[self.at][4:].strip())
            self.at += 1
        return lines

    def take(self, wanted=None):
        word = self.peek()
        if wanted is not None and word != wanted:
            raise SystemExit(f"gen_rust: {wanted!r} expected, not {word!r}, near "
                             f"{' '.join(self.tokens[max(0, self.at - 12):self.at + 6])}")
        self.at += 1
        return word

    def skip_group(self):
        """Past one (...), {...} or [...]."""
        depth = 0
        while True:
            word = self.take()
            depth += word in "({[" if len(word) == 1 else 0
            depth -= word in ")}]" if len(word) == 1 else 0
            if depth == 0:
                return

    def attributes(self):
        while self.peek() in ("__attribute__", "_Noreturn", "__extension__", "extern", "inline"):
            if self.take() == "__attribute__":
                self.skip_group()

    # ---- declarations ----

    def declaration(self):
        doc = self.about()
        self.attributes()
        word = self.peek()
        if word == "":
            return
        if word == ";":
            self.take()
        elif word == "_Static_assert":
            self.take()
            self.skip_group()
            self.take(";")
        elif word == "static":
            self.static()
        elif word == "typedef":
            self.take()
            self.typedef(doc)
        elif word in ("struct", "union", "enum"):
            self.base_type(doc)
            self.take(";")
        else:
            self.function(doc)

    def static(self):
        """A function that C writes into the caller has no symbol; a table in a header neither."""
        while self.peek() not in ("{", ";"):
            if self.take() == "(":
                self.at -= 1
                self.skip_group()
        if self.peek() == "{":
            self.skip_group()
        else:
            self.take(";")

    def typedef(self, doc):
        base = self.base_type(doc)
        name, kind = self.declarator(base)
        self.take(";")
        if kind != name:
            self.typedefs[name] = kind
            self.items.append(("alias", name, kind, doc))

    def function(self, doc):
        base = self.base_type([])
        name, kind = self.declarator(base)
        if not isinstance(kind, tuple):
            raise SystemExit(f"gen_rust: {name} is no function")
        self.attributes()
        self.take(";")
        if "va_list" not in str(kind):
            self.items.append(("function", name, kind[1], kind[2], doc))

    def base_type(self, doc):
        """Type specifiers in front of a declarator; a struct or enum that is defined here becomes an item."""
        words, const = [], False
        while True:
            self.attributes()
            word = self.peek()
            if word in ("const", "volatile"):
                const |= self.take() == "const"
            elif word in ("struct", "union", "enum") and not words:
                words = [self.tagged(doc)]
            elif not words and re.match(r"[A-Za-z_]", word) or words and f"{' '.join(words)} {word}" in PLAIN:
                words.append(self.take())
            elif words == ["unsigned"] and word in ("int", "long", "char"):
                words.append(self.take())
            else:
                break
        kind = " ".join(words)
        return ("const " if const else "") + PLAIN.get(kind, kind)

    def tagged(self, doc):
        what = self.take()
        tag = self.take() if re.match(r"[A-Za-z_]", self.peek()) else ""
        if self.peek() != "{":
            return tag
        if what == "enum":
            return self.enumeration(tag, doc)
        name = tag or self.pending
        self.fields(what, name, doc)
        return name

    pending = ""  # the name of a struct without a tag, from the field that it is the type of

    def fields(self, what, name, doc):
        self.take("{")
        fields, nameless = [], 0
        while True:
            about = self.about()
            if self.peek() == "}":
                break
            self.pending = f"{name}_{self.name_behind(self.at)}"
            base = self.base_type([])
            if self.peek() == ";":  # members of a union without a name
                nameless += 1
                fields.append((f"anonymous{nameless}", base, about))
            while self.peek() != ";":
                field, kind = self.declarator(base)
                fields.append((field, kind, about))
                if self.peek() == ",":
                    self.take()
            self.take(";")
            fields[-1][2].extend(self.behind())
        self.take("}")
        self.items.append((what, name, fields, doc))

    def name_behind(self, at):
        """The member that `struct { .. } NAME` is the type of; "" where it is none."""
        depth = 0
        while self.tokens[at] != ";" or depth:
            depth += self.tokens[at] == "{"
            depth -= self.tokens[at] == "}"
            at += 1
        word = self.tokens[at - 1]
        return word if re.match(r"[A-Za-z_]", word) else "anonymous"

    def enumeration(self, tag, doc):
        self.take("{")
        rows, value = [], -1
        while self.peek() != "}":
            about, name, text = self.about(), self.take(), ""
            about = about + self.behind()
            if self.peek() == "=":
                self.take()
                while self.tokens[self.at] not in (",", "}") and not self.tokens[self.at].startswith("/"):
                    text += self.take()
            about += self.behind()
            found = number(text, self.numbers) if text else (value + 1, "i32")
            if found is None:
                raise SystemExit(f"gen_rust: {name} = {text} is no number")
            value = found[0]
            self.numbers[name] = found
            if self.peek() == ",":
                self.take()
            rows.append((name, value, about + self.behind()))
        self.take("}")
        kind = "c_int" if any(v < 0 for _, v, _ in rows) or not tag else "c_uint"
        if tag:
            self.items.append(("alias", tag, kind, doc))
            self.typedefs[tag] = kind
        self.items += [("number", name, tag or kind, value, about) for name, value, about in rows]
        return tag or kind

    # ---- declarators: pointers, arrays, functions ----

    def declarator(self, base):
        """(name, type): a type is text as Rust has it, or ("fn", parameters, result)."""
        while self.peek() in ("*", "const", "restrict", "volatile"):
            word = self.take()
            if word == "*":
                base = pointer(base)
            elif word == "const":
                base = "const " + base
        if self.peek() == "(":  # (*name)(parameters)
            self.take()
            self.take("*")
            while self.peek() == "const":
                self.take()
            name = self.take() if self.peek() != ")" else ""
            self.take(")")
            return name, callback(self.parameters(), base)
        name = self.take() if re.match(r"[A-Za-z_]", self.peek()) else ""
        if self.peek() == "(":
            return name, ("fn", self.parameters(), base)
        counts = []
        while self.peek() == "[":
            self.take()
            text = ""
            while self.peek() != "]":
                text += self.take()
            self.take("]")
            counts.append(number(text, self.numbers)[0] if text else 0)
        for count in reversed(counts):
            base = f"{'const ' if base.startswith('const ') else ''}[{bare(base)}; {count}]"
        return name, base

    def parameters(self):
        self.take("(")
        found = []
        while self.peek() != ")":
            if self.peek() == "...":
                self.take()
                found.append(("...", "..."))
            else:
                name, kind = self.declarator(self.base_type([]))
                if isinstance(kind, tuple):
                    kind = callback(kind[1], kind[2])
                array = re.match(r"(const )?\[(.*); \d+\]$", kind)
                found.append((name, pointer((array.group(1) or "") + array.group(2)) if array else kind))
            if self.peek() == ",":
                self.take()
        self.take(")")
        return [] if [kind for _, kind in found] == ["c_void"] else found


def pointer(base):
    if base.startswith("const "):
        return "*const " + bare(base[6:])
    return "*mut " + bare(base)


def bare(kind):
    """What C calls const by value is nothing to a caller."""
    return kind.replace("const ", "", 1) if kind.startswith("const ") else kind


def signature(parameters, result):
    words = ["..." if name == "..." else f"{name_of(name)}: {bare(kind)}" if name else bare(kind)
             for name, kind in parameters]
    return f"({', '.join(words)})" + ("" if result == "c_void" else f" -> {bare(result)}")


def callback(parameters, result):
    return f"Option<unsafe extern \"C\" fn{signature([('', k) for _, k in parameters], result)}>"


# ---- Rust ----

def documented(doc, indent=""):
    return "".join(f"{indent}/// {line}".rstrip() + "\n" for line in doc)


def rust_number(item):
    _, name, kind, value, doc = item
    return f"{documented(doc)}pub const {name}: {kind} = {value};"


def rust_struct(item):
    what, name, fields, doc = item
    rows = "".join(f"{documented(about, '    ')}    pub {name_of(field)}: {bare(kind)},\n"
                   for field, kind, about in fields)
    return f"{documented(doc)}#[repr(C)]\n#[derive(Clone, Copy)]\npub {what} {name} {{\n{rows}}}"


def rust(headers):
    found = Headers(*headers)
    defined = {item[1] for item in found.items if item[0] in ("struct", "union", "alias")}
    text = str(found.items)
    used = set(re.findall(r"\b(kiln_\w+|kilni_\w+|kf_\w+)\b", re.sub(r"\('(?:function|number)', '\w+'", "", text)))
    used &= set(re.findall(r"\*(?:mut|const) (\w+)", text))
    print("// SPDX-License-Identifier: MIT OR Apache-2.0")
    print(f"// Written by tools/gen_rust.py from {', '.join(headers[1])}.")
    print("use std::os::raw::*;\n")
    for name in sorted(used - defined):
        print(f"#[repr(C)]\npub struct {name} {{\n    _private: [u8; 0],\n}}")
    for item in found.items:
        if item[0] == "number":
            print(rust_number(item))
        elif item[0] == "text":
            print(f"pub const {item[1]}: &str = {item[2]};")
        elif item[0] == "alias":
            kind = item[2] if isinstance(item[2], str) else callback(item[2][1], item[2][2])
            print(f"{documented(item[3])}pub type {item[1]} = {bare(kind)};")
    structs = [item for item in found.items if item[0] in ("struct", "union")]
    print("\n" + "\n".join(rust_struct(item) for item in structs))
    print("\nstructs! {")
    for _, name, fields, _ in structs:
        print(f"    {name} {{ {', '.join(name_of(field) for field, *_ in fields)} }}")
    print("}")
    functions = [item for item in found.items if item[0] == "function"]
    if functions:
        print("\nextern \"C\" {")
        for _, name, parameters, result, doc in functions:
            print(f"{documented(doc, '    ')}    pub fn {name}{signature(parameters, result)};")
        print("}")


# ---- C ----

def layout(headers):
    """Lines as `NAME size N align N`, then `  FIELD offset N size N`."""
    found = Headers(*headers)
    print("".join(f"#include <kiln/{name}>\n" for name in headers[1]) + "#include <stdio.h>\n\nint main(void)\n{")
    for what, name, fields, *_ in (item for item in found.items if item[0] in ("struct", "union")):
        if not re.search(r"\b" + name + r"\b", " ".join(found.tokens)):
            continue  # a type without a name in C: its struct's fields show it
        kind = name if name in found.typedefs or f"}} {name} ;" in " ".join(found.tokens) else f"{what} {name}"
        print(f'    printf("{name} size %zu align %zu\\n", sizeof({kind}), _Alignof({kind}));')
        for field, *_ in fields:
            if not field.startswith("anonymous"):
                print(f'    printf("  {field} offset %zu size %zu\\n", offsetof({kind}, {field}), '
                      f"sizeof((({kind} *)0)->{field}));")
    print("    return 0;\n}")


# ---- tables ----

def columns(row):
    """The arguments of a row, cut at the commas outside of strings."""
    return [cell.strip() for cell in re.findall(r'((?:"(?:\\.|[^"\\])*"|[^,"])+)', row)]


def rows_of(folder, table, macro, count):
    """The rows of a table of kiln/, each as its cells."""
    with open(os.path.join(folder, "kiln", table), encoding="utf-8") as file:
        rows = [columns(line.rstrip()[len(macro) + 1:-1]) for line in file if line.startswith(f"{macro}(")]
    if not rows or any(len(cells) != count for cells in rows):
        raise SystemExit(f"gen_rust: {table} has rows of another form than {count} cells")
    return rows


def tables(folder):
    print("// SPDX-License-Identifier: MIT OR Apache-2.0")
    print("// Written by tools/gen_rust.py from kf_elementwise.def and dtype.def.")
    print("use crate::tables::{Dtype, Elementwise};\nuse crate::fuser::*;\n\npub const ELEMENTWISE: &[Elementwise] = &[")
    for name, cost, inputs, scalars, result, *texts in rows_of(folder, "kf_elementwise.def", "EW", 9):
        told = ", ".join(f"{kind}: {'None' if text == '0' else f'Some({text})'}"
                         for kind, text in zip(("float", "signed", "unsigned", "boolean"), texts))
        print(f'    Elementwise {{ op: KF_OP_{name}, name: "{name.lower()}", cost: {cost}, inputs: {inputs}, '
              f"scalars: {scalars}, same: {str(result == 'SAME').lower()}, {told} }},")
    print("];\n\npub const DTYPES: &[Dtype] = &[")
    for name, text, _, bits, *_ in rows_of(folder, "dtype.def", "KILN_DTYPE", 6):
        print(f'    Dtype {{ dtype: KF_DTYPE_{name}, name: "{text}", bits: {bits} }},')
    print("];")


def main():
    if len(sys.argv) > 3 and sys.argv[1] in ("rust", "layout"):
        {"rust": rust, "layout": layout}[sys.argv[1]]((sys.argv[2], sys.argv[3:]))
    elif len(sys.argv) == 3 and sys.argv[1] == "tables":
        tables(sys.argv[2])
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
