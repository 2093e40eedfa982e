// SPDX-License-Identifier: MIT OR Apache-2.0
// With the feature `runtime`: links with the libkiln that pkg-config knows.
use std::{env, process::Command};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    if env::var_os("CARGO_FEATURE_RUNTIME").is_none() {
        return;
    }
    let asked = Command::new("pkg-config").args(["--libs", "kiln"]).output();
    let answer = match asked {
        Ok(answer) if answer.status.success() => String::from_utf8_lossy(&answer.stdout).into_owned(),
        _ => panic!("pkg-config does not know kiln: set PKG_CONFIG_PATH to PREFIX/lib/pkgconfig"),
    };
    for word in answer.split_whitespace() {
        if let Some(folder) = word.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={folder}");
        } else if let Some(name) = word.strip_prefix("-l") {
            println!("cargo:rustc-link-lib={name}");
        }
    }
}
