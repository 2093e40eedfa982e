// SPDX-License-Identifier: MIT OR Apache-2.0
//
// kf_dot.h: products of 8-bit integers in a kernel for processors, four to a lane and exact.
//   kf_dot_functions  the text of
//                         int16 kf_dot4(int16 sum, uint16 a, int16 b)
//                     which adds to each lane of `sum` the four products of the unsigned bytes of
//                     `a` with the signed bytes of `b`; nothing saturates. A dot product of signed
//                     by signed bytes: flip the first bit of each byte of one operand (128 is
//                     added), and take 128 times the sum of the other's bytes off.
// Where `features` has KF_FEATURE_VNNI it is one instruction, which the compiler may not know to be
// there (PoCL can be built for older processors than the one it runs on). Otherwise multiplications
// of pairs of 16 bits (AVX-512, AVX2), or plain C. What these do with an operand alone is done once
// where a loop that is unrolled uses the operand several times.
#ifndef KILN_PLUGIN_SDK_KF_DOT_H
#define KILN_PLUGIN_SDK_KF_DOT_H

#include "kf_util.h"

#ifdef __cplusplus
extern "C" {
#endif

/// `features`: of the device (KF_FEATURE_*).
static inline void kf_dot_functions(kf_text *text, uint64_t features)
{
    if ((features & KF_FEATURE_VNNI) != 0) {
        kf_text_add(text, "#define KF_DOT_VNNI\n");
    }
    kf_text_add(
        text,
        "#if defined(__AVX512VNNI__) && !defined(KF_DOT_VNNI)\n"
        "#define KF_DOT_VNNI\n"
        "#endif\n"
        "#if defined(KF_DOT_VNNI) && defined(__AVX512F__)\n"
        "static inline int16 kf_dot4(int16 sum, uint16 a, int16 b)\n"
        "{\n"
        "    __asm__(\"vpdpbusd %2, %1, %0\" : \"+v\"(sum) : \"v\"(a), \"v\"(b));\n"
        "    return sum;\n"
        "}\n"
        "#elif defined(__AVX512BW__) || defined(__AVX2__)\n"
        "typedef short kf_short32 __attribute__((ext_vector_type(32)));\n"
        "static inline int16 kf_pairs(kf_short32 a, kf_short32 b)\n"
        "{\n"
        "#ifdef __AVX512BW__\n"
        "    return __builtin_astype(__builtin_ia32_pmaddwd512(a, b), int16);\n"
        "#else\n"
        "    return (int16)(__builtin_astype(__builtin_ia32_pmaddwd256(a.lo, b.lo), int8),\n"
        "                   __builtin_astype(__builtin_ia32_pmaddwd256(a.hi, b.hi), int8));\n"
        "#endif\n"
        "}\n"
        "static inline int16 kf_dot4(int16 sum, uint16 a, int16 b)\n"
        "{\n"
        "    const kf_short32 even = __builtin_astype(a & 0x00ff00ffu, kf_short32);\n"
        "    const kf_short32 odd = __builtin_astype(a >> 8 & 0x00ff00ffu, kf_short32);\n"
        "    const kf_short32 both = __builtin_astype(b, kf_short32);\n"
        "    return sum + kf_pairs(even, both << 8 >> 8) + kf_pairs(odd, both >> 8);\n"
        "}\n"
        "#else\n"
        "static inline int16 kf_dot4(int16 sum, uint16 a, int16 b)\n"
        "{\n"
        "    return sum + as_int16(a & 255u) * (b << 24 >> 24) +\n"
        "           as_int16(a >> 8 & 255u) * (b << 16 >> 24) +\n"
        "           as_int16(a >> 16 & 255u) * (b << 8 >> 24) + as_int16(a >> 24) * (b >> 24);\n"
        "}\n"
        "#endif\n");
}

#ifdef __cplusplus
}
#endif
#endif
