// SPDX-License-Identifier: MIT OR Apache-2.0
fn main() {
    kiln_fuser::build_script();
}
