// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formulas of sizes, costs and guards by ordinary arithmetic: `sym(2) * 4 + 1`. The host evaluates them for the
//! extents at hand, over i64; overflow and division by zero refuse the launch.
use crate::sys::*;
use std::ops::{Add, Mul, Rem, Sub};

/// Instructions in postfix order, as kf_expr.h has them. Empty: absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Formula(Vec<Ins>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Ins {
    op: u32,
    arg: u32,
    sym: u32,
    imm: i64,
}

/// A number.
pub fn imm(value: i64) -> Formula {
    Formula(vec![Ins { op: KF_INS_IMM, arg: 0, sym: 0, imm: value }])
}

/// The extent of a symbol; symbol 0 is the extent 1.
pub fn sym(symbol: u32) -> Formula {
    if symbol == 0 {
        return imm(1);
    }
    Formula(vec![Ins { op: KF_INS_SYM, arg: 0, sym: symbol, imm: 0 }])
}

/// The product of extents.
pub fn product(symbols: &[u32]) -> Formula {
    symbols.iter().filter(|s| **s != 0).map(|s| sym(*s)).reduce(|a, b| a * b).unwrap_or_else(|| imm(1))
}

/// 1 if both are not 0.
pub fn both(a: impl Into<Formula>, b: impl Into<Formula>) -> Formula {
    a.into().with(b, KF_INS_AND)
}

/// 1 if one of the two is not 0.
pub fn either(a: impl Into<Formula>, b: impl Into<Formula>) -> Formula {
    a.into().with(b, KF_INS_OR)
}

impl Formula {
    /// A fact of the device at hand: KF_DEVICE_FACT_*.
    pub fn device(fact: u32) -> Formula {
        Formula(vec![Ins { op: KF_INS_DEVICE, arg: fact, sym: 0, imm: 0 }])
    }
    fn with(mut self, other: impl Into<Formula>, op: u32) -> Formula {
        self.0.extend(other.into().0);
        self.0.push(Ins { op, arg: 0, sym: 0, imm: 0 });
        self
    }
    pub fn floor_div(self, by: impl Into<Formula>) -> Formula {
        self.with(by, KF_INS_FLOOR_DIV)
    }
    pub fn ceil_div(self, by: impl Into<Formula>) -> Formula {
        self.with(by, KF_INS_CEIL_DIV)
    }
    /// Up to a multiple.
    pub fn round_up(self, to: impl Into<Formula>) -> Formula {
        self.with(to, KF_INS_ROUND_UP)
    }
    pub fn min(self, other: impl Into<Formula>) -> Formula {
        self.with(other, KF_INS_MIN)
    }
    pub fn max(self, other: impl Into<Formula>) -> Formula {
        self.with(other, KF_INS_MAX)
    }
    /// 1 if equal, else 0; likewise the next two.
    pub fn equal(self, other: impl Into<Formula>) -> Formula {
        self.with(other, KF_INS_EQ)
    }
    pub fn less(self, other: impl Into<Formula>) -> Formula {
        self.with(other, KF_INS_LT)
    }
    pub fn less_equal(self, other: impl Into<Formula>) -> Formula {
        self.with(other, KF_INS_LE)
    }
    /// `yes` where this is not 0, else `no`.
    pub fn select(self, yes: impl Into<Formula>, no: impl Into<Formula>) -> Formula {
        let mut all = self;
        all.0.extend(yes.into().0);
        all.with(no, KF_INS_SELECT)
    }
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Does the host evaluate formulas of this length?
    pub fn fits(&self) -> bool {
        self.0.len() <= KF_MAX_EXPR as usize
    }
    /// The instructions as the interface has them.
    pub(crate) fn instructions(&self) -> Vec<kf_ins> {
        self.0.iter().map(|i| kf_ins { op: i.op as u16, arg: i.arg as u16, sym: i.sym, imm: i.imm }).collect()
    }
}

impl From<i64> for Formula {
    fn from(value: i64) -> Formula {
        imm(value)
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident $ins:ident,)*) => {$(
        impl<T: Into<Formula>> $trait<T> for Formula {
            type Output = Formula;

            fn $method(self, other: T) -> Formula {
                self.with(other, $ins)
            }
        }
    )*};
}

operators! {
    Add add KF_INS_ADD,
    Sub sub KF_INS_SUB,
    Mul mul KF_INS_MUL,
    Rem rem KF_INS_MOD,
}
