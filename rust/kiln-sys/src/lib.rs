// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kiln's C headers as Rust sees them: types, numbers and functions, and nothing on top. `tools/gen_rust.py` writes
//! `fuser.rs`, `runtime.rs` and `rows.rs` from the headers; contracts are in their comments.
#![allow(non_camel_case_types)]
#![allow(clippy::all)]

/// For structs and unions: zeros are the value that begins with, and what the test of layouts compares.
macro_rules! structs {
    ($($name:ident { $($field:ident),* })*) => {
        $(impl Default for $name {
            fn default() -> Self {
                // Numbers, raw pointers and optional functions: zeros are a value of each.
                unsafe { std::mem::zeroed() }
            }
        })*
        #[cfg(test)]
        #[allow(unused_unsafe)]
        pub(crate) fn layout() -> Vec<String> {
            fn size<T>(_: *const T) -> usize {
                std::mem::size_of::<T>()
            }
            let mut all = Vec::new();
            $({
                let one = $name::default();
                let start = std::ptr::addr_of!(one) as usize;
                let (bytes, align) = (std::mem::size_of::<$name>(), std::mem::align_of::<$name>());
                all.push(format!("{} size {bytes} align {align}", stringify!($name)));
                $({
                    let at = unsafe { std::ptr::addr_of!(one.$field) };
                    let (name, offset) = (stringify!($field).trim_start_matches("r#"), at as usize - start);
                    all.push(format!("  {name} offset {offset} size {}", size(at)));
                })*
            })*
            all
        }
    };
}

#[rustfmt::skip]
pub mod fuser;
#[cfg(feature = "runtime")]
#[rustfmt::skip]
pub mod runtime;
#[rustfmt::skip]
mod rows;
pub mod tables;

#[cfg(test)]
mod tests {
    /// `layout` has what C says of a struct: the head, and each field in its order.
    fn has(layout: &[String], head: &str, fields: &[&str]) -> bool {
        let at = layout.iter().position(|line| line == head);
        at.map_or(false, |at| layout[at + 1..].iter().zip(fields).filter(|(a, b)| a == *b).count() == fields.len())
    }

    /// KILN_LAYOUT: a file with what the programs of `gen_rust.py layout` print.
    #[test]
    fn structs_lie_as_in_c() {
        let path = std::env::var("KILN_LAYOUT").expect("KILN_LAYOUT names the file with C's layout");
        let text = std::fs::read_to_string(path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let mut layout = crate::fuser::layout();
        #[cfg(feature = "runtime")]
        layout.extend(crate::runtime::layout());
        let heads: Vec<usize> = (0..lines.len()).filter(|i| !lines[*i].starts_with(' ')).collect();
        assert!(heads.len() > 20, "{} structs", heads.len());
        for (n, at) in heads.iter().enumerate() {
            let end = heads.get(n + 1).copied().unwrap_or(lines.len());
            assert!(has(&layout, lines[*at], &lines[at + 1..end]), "{} lies otherwise in Rust", lines[*at]);
        }
    }
}
