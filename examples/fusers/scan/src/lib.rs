// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two fusers of prefix sums with what is done element by element before and behind them: `rows`
//! goes through each row once, `blocks` cuts long rows into blocks that are scanned at once.
mod formula;
mod kernel;
mod kf_sys;
mod plugin;
mod scan;

use kf_sys::*;
use plugin::{literal, note, table, Strings, Table};

const ID: &str = "org.example.scan";
const VERSION: &str = env!("CARGO_PKG_VERSION");

#[used]
#[link_section = ".note.kiln_fuser"] // KF_NOTE_SECTION
static NOTE: kf_note = note(ID, VERSION);

static FUSERS: Strings<2> = Strings([literal("rows"), literal("blocks")]);
static PLUGIN: Table = table::<scan::Scan>(ID, VERSION, &FUSERS.0);

/// The one exported symbol.
#[no_mangle]
pub extern "C" fn kf_plugin_query_v1(_host_abi_minor: u32) -> *const kf_plugin {
    &PLUGIN.0
}
