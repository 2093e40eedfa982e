// SPDX-License-Identifier: MIT OR Apache-2.0
// Takes the SDK's numbers and the meaning of its elementwise operators over into Rust, from the
// installed headers, so that nothing is copied by hand: OUT_DIR/numbers.rs and OUT_DIR/rows.rs.
// The headers are where KILN_FUSER_INCLUDE says, or where pkg-config finds kiln-fuser.
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, process::Command};

fn sdk() -> PathBuf {
    println!("cargo:rerun-if-env-changed=KILN_FUSER_INCLUDE");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    if let Some(folder) = env::var_os("KILN_FUSER_INCLUDE") {
        return folder.into();
    }
    let asked = Command::new("pkg-config").args(["--variable=includedir", "kiln-fuser"]).output();
    match asked {
        Ok(answer) if answer.status.success() => {
            Path::new(String::from_utf8_lossy(&answer.stdout).trim()).join("kiln")
        }
        _ => panic!("pkg-config does not know kiln-fuser: set PKG_CONFIG_PATH or KILN_FUSER_INCLUDE"),
    }
}

fn read(folder: &Path, name: &str) -> String {
    let path = folder.join(name);
    println!("cargo:rerun-if-changed={}", path.display());
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// `#define KF_NAME 12u`: the suffix of the C literal says the type. What is no number is left out.
fn numbers(header: &str, out: &mut String) {
    for line in header.lines() {
        let mut words = line.split_whitespace();
        let (name, first) = match (words.next(), words.next(), words.next()) {
            (Some("#define"), Some(name), Some(first)) => (name, first),
            _ => continue,
        };
        let rest: Vec<&str> = words.collect();
        let value = if first == "(1ull" && rest.len() >= 2 && rest[0] == "<<" {
            format!("u64 = 1 << {}", rest[1].trim_end_matches(')'))
        } else if let Some(digits) = first.strip_suffix("ull") {
            format!("u64 = {digits}")
        } else if let Some(digits) = first.strip_suffix('u') {
            format!("u32 = {digits}")
        } else {
            format!("i32 = {}", first.trim_matches(|c| c == '(' || c == ')'))
        };
        let literal = value.rsplit("= ").next().unwrap_or("");
        let digits = literal.trim_start_matches("1 << ").trim_start_matches('-').trim_start_matches("0x");
        let plain = name.starts_with("KF_") && !name.contains('(');
        if plain && !digits.is_empty() && digits.chars().all(|c| c.is_ascii_hexdigit()) {
            writeln!(out, "pub const {name}: {value};").unwrap();
        }
    }
}

/// The arguments of `EW(...)`, cut at the commas outside of string literals.
fn columns(row: &str) -> Vec<String> {
    let (mut columns, mut quoted) = (vec![String::new()], false);
    for c in row.chars() {
        quoted ^= c == '"';
        if c == ',' && !quoted {
            columns.push(String::new());
        } else {
            columns.last_mut().unwrap().push(c);
        }
    }
    columns.iter().map(|c| c.trim().to_string()).collect()
}

/// Rows of kf_elementwise.def: one on each line.
fn rows(table: &str, out: &mut String) {
    writeln!(out, "pub const ROWS: &[Row] = &[").unwrap();
    for line in table.lines() {
        let row = match line.strip_prefix("EW(").and_then(|r| r.trim_end().strip_suffix(')')) {
            Some(row) => row,
            None => continue,
        };
        let c = columns(row);
        assert!(c.len() == 9, "a row of another form: {line}");
        let text = |t: &String| {
            if t == "0" { "None".to_string() } else { format!("Some({t})") }
        };
        writeln!(
            out,
            "Row {{ op: kf_sys::KF_OP_{0}, name: \"{0}\", cost: {1}, inputs: {2}, scalars: {3}, same: {4}, \
             float: {5}, signed: {6} }},",
            c[0], c[1], c[2], c[3], c[4] == "SAME", text(&c[5]), text(&c[6])
        )
        .unwrap();
    }
    writeln!(out, "];").unwrap();
}

fn main() {
    let (folder, out) = (sdk(), PathBuf::from(env::var_os("OUT_DIR").unwrap()));
    let (mut all, mut table) = (String::new(), String::new());
    let abi = read(&folder, "kiln_fuser.h");
    numbers(&abi, &mut all);
    for part in abi.lines().filter_map(|line| line.strip_prefix("#include \"")?.strip_suffix('"')) {
        numbers(&read(&folder, part), &mut all);
    }
    numbers(&read(&folder, "kiln_fuser_ops.h"), &mut all);
    rows(&read(&folder, "kf_elementwise.def"), &mut table);
    fs::write(out.join("numbers.rs"), all).unwrap();
    // Rust's standard library has one constructor, for std::env::args. A fuser runs nothing before
    // it is asked, and asks for no arguments: the linker leaves it out.
    let script = out.join("no_constructors.ld");
    fs::write(&script, "SECTIONS { /DISCARD/ : { *(.init_array.00099) } } INSERT BEFORE .init_array;\n").unwrap();
    println!("cargo:rustc-cdylib-link-arg=-Wl,-T,{}", script.display());
    fs::write(out.join("rows.rs"), table).unwrap();
}
