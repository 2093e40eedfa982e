// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two fusers of prefix sums with what is done element by element before and behind them: `rows`
//! goes through each row once, `blocks` cuts long rows into blocks that are scanned at once.
mod kernel;
mod scan;

kiln_fuser::plugin! {
    id: "org.example.scan",
    vendor: "Example",
    fusers: ["rows", "blocks"],
    made_by: scan::Scan,
}
