// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kf_expr.h: formulas of sizes, costs and guards. Part of kiln_fuser.h.
#ifndef KILN_PLUGIN_SDK_KF_EXPR_H
#define KILN_PLUGIN_SDK_KF_EXPR_H

#include "kf_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Formulas are postfix over a stack of int64 (at most KF_MAX_EXPR instructions, KF_MAX_STACK
/// deep), with checked arithmetic: overflow, division by zero, an unknown opcode, symbol or tensor
/// refuses the launch. Comparisons give 0 or 1.
#define KF_MAX_EXPR 256u
#define KF_MAX_STACK 32u

// leaves
#define KF_INS_IMM 1u // imm
#define KF_INS_SYM 2u // extent of symbol `sym`
#define KF_INS_DEVICE 3u // device fact `arg`: KF_DEVICE_FACT_*
// two operands: a b -> r
#define KF_INS_ADD 16u
#define KF_INS_SUB 17u
#define KF_INS_MUL 18u
#define KF_INS_FLOOR_DIV 19u // b > 0
#define KF_INS_CEIL_DIV 20u // b > 0
#define KF_INS_ROUND_UP 21u // a up to a multiple of b, b > 0
#define KF_INS_MIN 22u
#define KF_INS_MAX 23u
#define KF_INS_MOD 24u // a - floor(a / b) * b, b > 0
#define KF_INS_EQ 33u
#define KF_INS_LT 34u
#define KF_INS_LE 35u
#define KF_INS_AND 36u // logical
#define KF_INS_OR 37u // logical
// three operands: c a b -> c ? a : b
#define KF_INS_SELECT 32u

#define KF_DEVICE_FACT_COMPUTE_UNITS 0u
#define KF_DEVICE_FACT_MAX_GROUP_SIZE 1u
#define KF_DEVICE_FACT_LOCAL_BYTES 2u

typedef struct kf_ins { // frozen
    uint16_t op;
    uint16_t arg;
    uint32_t sym;
    int64_t imm;
} kf_ins;
KF_ASSERT(sizeof(kf_ins) == 16);

typedef struct kf_expr { // frozen; n == 0: absent
    const kf_ins *ins;
    uint64_t n;
} kf_expr;

#ifdef __cplusplus
}
#endif
#endif
