// SPDX-License-Identifier: MIT OR Apache-2.0
//! Launch formulas (postfix, see kiln_fuser.h) by ordinary arithmetic: `sym(2) * 4 + 1`.
use crate::kf_sys::*;
use std::ops::{Add, Mul};

#[derive(Clone, Default)]
pub struct Formula(Vec<kf_ins>);

pub fn imm(value: i64) -> Formula {
    Formula(vec![kf_ins { op: KF_INS_IMM as u16, imm: value, ..Default::default() }])
}

pub fn device(fact: u32) -> Formula {
    Formula(vec![kf_ins { op: KF_INS_DEVICE as u16, arg: fact as u16, ..Default::default() }])
}

/// The product of extents; symbol 0 is the extent 1.
pub fn product(symbols: &[u32]) -> Formula {
    let factor = |s: &u32| Formula(vec![kf_ins { op: KF_INS_SYM as u16, sym: *s, ..Default::default() }]);
    symbols.iter().filter(|s| **s != 0).map(factor).reduce(|a, b| a * b).unwrap_or_else(|| imm(1))
}

impl Formula {
    fn with(mut self, other: Formula, op: u32) -> Formula {
        self.0.extend(other.0);
        self.0.push(kf_ins { op: op as u16, ..Default::default() });
        self
    }
    pub fn floor_div(self, by: Formula) -> Formula {
        self.with(by, KF_INS_FLOOR_DIV)
    }
    pub fn ceil_div(self, by: Formula) -> Formula {
        self.with(by, KF_INS_CEIL_DIV)
    }
    pub fn round_up(self, to: i64) -> Formula {
        self.with(imm(to), KF_INS_ROUND_UP)
    }
    pub fn max(self, other: Formula) -> Formula {
        self.with(other, KF_INS_MAX)
    }
    /// Does the host evaluate formulas of this length?
    pub fn fits(&self) -> bool {
        self.0.len() <= KF_MAX_EXPR as usize
    }
    /// A view; lives as long as the formula.
    pub fn expr(&self) -> kf_expr {
        kf_expr { ins: self.0.as_ptr(), n: self.0.len() as u64 }
    }
    /// For keys: what it is, instruction by instruction.
    pub fn describe(&self, out: &mut Vec<u8>) {
        out.extend((self.0.len() as u32).to_le_bytes());
        for i in &self.0 {
            out.extend(i.op.to_le_bytes());
            out.extend(i.arg.to_le_bytes());
            out.extend(i.sym.to_le_bytes());
            out.extend(i.imm.to_le_bytes());
        }
    }
}

impl Add for Formula {
    type Output = Formula;
    fn add(self, other: Formula) -> Formula {
        self.with(other, KF_INS_ADD)
    }
}

impl Mul for Formula {
    type Output = Formula;
    fn mul(self, other: Formula) -> Formula {
        self.with(other, KF_INS_MUL)
    }
}

impl Mul<i64> for Formula {
    type Output = Formula;
    fn mul(self, other: i64) -> Formula {
        self * imm(other)
    }
}
