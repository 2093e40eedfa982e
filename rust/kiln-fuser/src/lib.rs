// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fusers for Kiln in safe Rust.
//!
//! A fuser is a type with the trait [`Fuser`]; what it gathers is a type with the trait [`Block`]. This crate keeps
//! the rules of the C interface around them: open and closed, how many operations are covered, clones, who owns what.
//! A panic ends the call with an internal error, which the host counts as a strike, and never leaves the library.
//!
//! `kiln plugin new NAME --lang rust` writes a project with a fuser that works; Kiln's `docs/fusers/rust.md` goes through it.
#[cfg(panic = "abort")]
compile_error!("a fuser must unwind: with panic = \"abort\" its panics would end the host");

mod abi;
mod block;
mod device;
mod formula;
mod op;
mod operator;
mod program;
mod store;

pub use block::{decline, Block, Decline, Estimate, Fuser, Measured};
pub use device::{Cost, Device};
pub use formula::{both, either, imm, product, sym, Formula};
pub use kiln_sys::{fuser as sys, tables};
pub use op::{Number, Op, Operand, Tensor, Value};
pub use operator::{Call, Element, Kernel, Memory, Operator, Output, Param, Shape};
pub use program::{Arg, Binary, Code, Launch, Program, Source, Step, Temp};
pub use store::Store;

#[doc(hidden)]
pub mod plugin {
    pub use crate::abi::operators::{look_up, operators, pointers, row, Extension, Operators, Pointers, Rows};
    pub use crate::abi::table::{name, note, table, table_of_operators, Names, Table};
}

/// Makes the library a plugin: its note, its table, and the one symbol that it exports. It brings fusers, operators or
/// both.
///
/// ```ignore
/// kiln_fuser::plugin! {
///     id: "org.example.my-fuser",
///     vendor: "Example",
///     fusers: ["my-fuser"], // their numbers are those that Fuser::create gets
///     made_by: MyFuser,
///     operators: [MyOperator], // types with the trait Operator
/// }
/// ```
#[macro_export]
macro_rules! plugin {
    (id: $id:expr, vendor: $vendor:expr, fusers: [$($name:expr),+ $(,)?], made_by: $made_by:ty
     $(, operators: [$($op:ty),+ $(,)?])? $(,)?) => {
        static KILN_NAMES: $crate::plugin::Names<{ [$($name),+].len() }> =
            $crate::plugin::Names([$($crate::plugin::name($name)),+]);
        $crate::plugin!(@operators $($($op),+)?);
        $crate::plugin!(@table $id, $crate::plugin::table::<$made_by, { [$($name),+].len() }>(
            $id, env!("CARGO_PKG_VERSION"), $vendor, &KILN_NAMES, KILN_EXTENSION));
    };
    (id: $id:expr, vendor: $vendor:expr, operators: [$($op:ty),+ $(,)?] $(,)?) => {
        $crate::plugin!(@operators $($op),+);
        $crate::plugin!(@table $id, $crate::plugin::table_of_operators(
            $id, env!("CARGO_PKG_VERSION"), $vendor, KILN_EXTENSION));
    };
    (@table $id:expr, $table:expr) => {
        #[used]
        #[link_section = ".note.kiln_fuser"] // KF_NOTE_SECTION
        static KILN_NOTE: $crate::sys::kf_note = $crate::plugin::note($id, env!("CARGO_PKG_VERSION"));
        static KILN_PLUGIN: $crate::plugin::Table = $table;

        #[no_mangle]
        pub extern "C" fn kf_plugin_query_v1(_host_abi_minor: u32) -> *const $crate::sys::kf_plugin {
            &KILN_PLUGIN.0
        }
    };
    (@operators) => {
        const KILN_EXTENSION: $crate::plugin::Extension = None;
    };
    (@operators $($op:ty),+) => {
        const KILN_COUNT: usize = [$(stringify!($op)),+].len();
        static KILN_ROWS: $crate::plugin::Rows<KILN_COUNT> = $crate::plugin::Rows([$($crate::plugin::row::<$op>()),+]);
        static KILN_POINTERS: $crate::plugin::Pointers<KILN_COUNT> = $crate::plugin::pointers(&KILN_ROWS);
        static KILN_OPERATORS: $crate::plugin::Operators = $crate::plugin::operators(&KILN_POINTERS);
        unsafe extern "C" fn kiln_extension(id: *const std::os::raw::c_char) -> *const std::os::raw::c_void {
            $crate::plugin::look_up(id, &KILN_OPERATORS)
        }
        const KILN_EXTENSION: $crate::plugin::Extension = Some(kiln_extension);
    };
}

/// All that a fuser's `build.rs` does. Rust's standard library has one constructor, for `std::env::args`. A fuser runs
/// nothing before it is asked, and asks for no arguments: the linker leaves it out.
pub fn build_script() {
    let script = std::path::Path::new(&std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("fuser.ld");
    std::fs::write(&script, "SECTIONS { /DISCARD/ : { *(.init_array.00099) } } INSERT BEFORE .init_array;\n")
        .expect("OUT_DIR can be written to");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-T,{}", script.display());
    println!("cargo:rerun-if-changed=build.rs");
}
