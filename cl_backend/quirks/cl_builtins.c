// SPDX-License-Identifier: MIT OR Apache-2.0
// PoCL 3.1 has clang read its opencl-c.h twice for each program: 900 KiB, 90 of the 100 ms that a
// small program takes. Here a text gets the declarations of the functions that it names, each with
// all of its overloads and attributes, so that calls mean what they mean with the header (a test
// compares the two). Which those are is read from the words of the text; what it puts together of
// parts (vload##n) is any function that continues a word by a number.

#include <string.h>

#include "cl_builtins.h"

// ---- what is declared ----

// For device code. Types are t##n: a scalar, or a vector of n.
static const char device_types[] =
    "#define KB_O __attribute__((overloadable))\n"
    "#define KB_C __attribute__((overloadable, const))\n"
    "#define KB_P __attribute__((overloadable, pure))\n"
    "#define KB_JJ(a, b) a##b\n"
    "#define KB_J(a, b) KB_JJ(a, b)\n"
    // the type of a mask for t##n, signed and unsigned
    "#define KB_S(t, n) KB_J(KB_S_##t, n)\n"
    "#define KB_U(t, n) KB_J(KB_U_##t, n)\n"
    "#define KB_S_char char\n#define KB_S_uchar char\n"
    "#define KB_S_short short\n#define KB_S_ushort short\n"
    "#define KB_S_int int\n#define KB_S_uint int\n"
    "#define KB_S_long long\n#define KB_S_ulong long\n"
    "#define KB_S_float int\n#define KB_S_double long\n"
    "#define KB_U_char uchar\n#define KB_U_uchar uchar\n"
    "#define KB_U_short ushort\n#define KB_U_ushort ushort\n"
    "#define KB_U_int uint\n#define KB_U_uint uint\n"
    "#define KB_U_long ulong\n#define KB_U_ulong ulong\n"
    "#define KB_U_float uint\n#define KB_U_double ulong\n"
    // M(f, t, n) for widths n, E(M, f, t) for types t
    "#define KB_WIDE(M, f, t) M(f, t, 2) M(f, t, 3) M(f, t, 4) M(f, t, 8) M(f, t, 16)\n"
    "#define KB_ALL(M, f, t) M(f, t, ) KB_WIDE(M, f, t)\n"
    "#define KB_GEO(M, f, t) M(f, t, ) M(f, t, 2) M(f, t, 3) M(f, t, 4)\n"
    "#define KB_34(M, f, t) M(f, t, 3) M(f, t, 4)\n"
    "#define KB_SIGNED(E, M, f) E(M, f, char) E(M, f, short) E(M, f, int) E(M, f, long)\n"
    "#define KB_INT(E, M, f) KB_SIGNED(E, M, f) E(M, f, uchar) E(M, f, ushort) E(M, f, uint) "
    "E(M, f, ulong)\n"
    "#ifdef cl_khr_fp64\n"
    "#define KB_IF64(x) x\n"
    "#else\n"
    "#define KB_IF64(x)\n"
    "#endif\n"
    "#define KB_FLOAT(E, M, f) E(M, f, float) KB_IF64(E(M, f, double))\n"
    "#define KB_ANYTYPE(E, M, f) KB_INT(E, M, f) KB_FLOAT(E, M, f)\n";

// One overload, or those of one type in all address spaces.
static const char device_overloads[] =
    "#define KB_1(f, t, n) t##n KB_C f(t##n);\n"
    "#define KB_2(f, t, n) t##n KB_C f(t##n, t##n);\n"
    "#define KB_3(f, t, n) t##n KB_C f(t##n, t##n, t##n);\n"
    "#define KB_2VS(f, t, n) t##n KB_C f(t##n, t);\n"
    "#define KB_2SV(f, t, n) t##n KB_C f(t, t##n);\n"
    "#define KB_3VSS(f, t, n) t##n KB_C f(t##n, t, t);\n"
    "#define KB_3VVS(f, t, n) t##n KB_C f(t##n, t##n, t);\n"
    "#define KB_3SSV(f, t, n) t##n KB_C f(t, t, t##n);\n"
    "#define KB_1INT(f, t, n) int##n KB_C f(t##n);\n"
    "#define KB_2INT(f, t, n) t##n KB_C f(t##n, int##n);\n"
    "#define KB_2SINT(f, t, n) t##n KB_C f(t##n, int);\n"
    "#define KB_1MASK(f, t, n) KB_S(t, n) KB_C f(t##n);\n"
    "#define KB_2MASK(f, t, n) KB_S(t, n) KB_C f(t##n, t##n);\n"
    "#define KB_1U(f, t, n) KB_U(t, n) KB_C f(t##n);\n"
    "#define KB_2U(f, t, n) KB_U(t, n) KB_C f(t##n, t##n);\n"
    "#define KB_OFU(f, t, n) t##n KB_C f(KB_U(t, n));\n"
    "#define KB_INTOF(f, t, n) int KB_C f(t##n);\n"
    "#define KB_1SCALAR(f, t, n) t KB_C f(t##n);\n"
    "#define KB_2SCALAR(f, t, n) t KB_C f(t##n, t##n);\n"
    "#define KB_3MASK(f, t, n) t##n KB_C f(t##n, t##n, KB_S(t, n)); "
    "t##n KB_C f(t##n, t##n, KB_U(t, n));\n"
    "#define KB_PTR(f, t, n) t##n KB_O f(t##n, __global t##n *); "
    "t##n KB_O f(t##n, __local t##n *); t##n KB_O f(t##n, __private t##n *);\n"
    "#define KB_IPTR(f, t, n) t##n KB_O f(t##n, __global int##n *); "
    "t##n KB_O f(t##n, __local int##n *); t##n KB_O f(t##n, __private int##n *);\n"
    "#define KB_2IPTR(f, t, n) t##n KB_O f(t##n, t##n, __global int##n *); "
    "t##n KB_O f(t##n, t##n, __local int##n *); t##n KB_O f(t##n, t##n, __private int##n *);\n"
    "#define KB_AHEAD(f, t, n) void KB_O f(const __global t##n *, size_t);\n"
    "#define KB_LD(f, t, n, a) t##n KB_P f(size_t, const a t *);\n"
    "#define KB_LDS(n, f, t) KB_LD(f, t, n, __constant) KB_LD(f, t, n, __global) "
    "KB_LD(f, t, n, __local) KB_LD(f, t, n, __private)\n"
    "#define KB_ST(f, t, n, a) void KB_O f(t##n, size_t, a t *);\n"
    "#define KB_STS(n, f, t) KB_ST(f, t, n, __global) KB_ST(f, t, n, __local) "
    "KB_ST(f, t, n, __private)\n"
    "#define KB_LDH(f, n, a) float##n KB_P f(size_t, const a half *);\n"
    "#define KB_STH(f, n, t) void KB_O f(t##n, size_t, __global half *); "
    "void KB_O f(t##n, size_t, __local half *); void KB_O f(t##n, size_t, __private half *);\n"
    "#define KB_AT0(f, t, a) t KB_O f(volatile a t *);\n"
    "#define KB_AT1(f, t, a) t KB_O f(volatile a t *, t);\n"
    "#define KB_AT2(f, t, a) t KB_O f(volatile a t *, t, t);\n"
    "#define KB_AT(M, f) M(f, int, __global) M(f, uint, __global) M(f, int, __local) "
    "M(f, uint, __local)\n";

// Whole functions, as cl_builtins.def names them.
static const char device_forms[] =
    "#define KB_UNARY(f, w) KB_FLOAT(KB_ALL, KB_1, f)\n"
    "#define KB_BINARY(f, w) KB_FLOAT(KB_ALL, KB_2, f)\n"
    "#define KB_TERNARY(f, w) KB_FLOAT(KB_ALL, KB_3, f)\n"
    "#define KB_FLOAT_UNARY(f, w) KB_ALL(KB_1, f, float)\n"
    "#define KB_FLOAT_BINARY(f, w) KB_ALL(KB_2, f, float)\n"
    "#define KB_COMPARE(f, w) int KB_C f(float, float); KB_IF64(int KB_C f(double, double);) "
    "KB_FLOAT(KB_WIDE, KB_2MASK, f)\n"
    "#define KB_TEST(f, w) int KB_C f(float); KB_IF64(int KB_C f(double);) "
    "KB_FLOAT(KB_WIDE, KB_1MASK, f)\n"
    "#define KB_POINTER(f, w) KB_FLOAT(KB_ALL, KB_PTR, f)\n"
    "#define KB_INT_POINTER(f, w) KB_FLOAT(KB_ALL, KB_IPTR, f)\n"
    "#define KB_REMQUO(f, w) KB_FLOAT(KB_ALL, KB_2IPTR, f)\n"
    "#define KB_FMAX(f, w) KB_FLOAT(KB_ALL, KB_2, f) KB_FLOAT(KB_WIDE, KB_2VS, f)\n"
    "#define KB_POWN(f, w) KB_FLOAT(KB_ALL, KB_2INT, f)\n"
    "#define KB_LDEXP(f, w) KB_FLOAT(KB_ALL, KB_2INT, f) KB_FLOAT(KB_WIDE, KB_2SINT, f)\n"
    "#define KB_ILOGB(f, w) KB_FLOAT(KB_ALL, KB_1INT, f)\n"
    "#define KB_NAN(f, w) KB_FLOAT(KB_ALL, KB_OFU, f)\n"
    "#define KB_SAT(f, w) KB_INT(KB_ALL, KB_2, f)\n"
    "#define KB_COUNT(f, w) KB_INT(KB_ALL, KB_1, f)\n"
    "#define KB_MAD(f, w) KB_INT(KB_ALL, KB_3, f)\n"
    "#define KB_ABS(f, w) KB_INT(KB_ALL, KB_1U, f)\n"
    "#define KB_ABS_DIFF(f, w) KB_INT(KB_ALL, KB_2U, f)\n"
    "#define KB_MAX(f, w) KB_ANYTYPE(KB_ALL, KB_2, f) KB_ANYTYPE(KB_WIDE, KB_2VS, f)\n"
    "#define KB_CLAMP(f, w) KB_ANYTYPE(KB_ALL, KB_3, f) KB_ANYTYPE(KB_WIDE, KB_3VSS, f)\n"
    "#define KB_MAD24(f, w) KB_ALL(KB_3, f, int) KB_ALL(KB_3, f, uint)\n"
    "#define KB_MUL24(f, w) KB_ALL(KB_2, f, int) KB_ALL(KB_2, f, uint)\n"
    "#define KB_MIX(f, w) KB_FLOAT(KB_ALL, KB_3, f) KB_FLOAT(KB_WIDE, KB_3VVS, f)\n"
    "#define KB_STEP(f, w) KB_FLOAT(KB_ALL, KB_2, f) KB_FLOAT(KB_WIDE, KB_2SV, f)\n"
    "#define KB_SMOOTHSTEP(f, w) KB_FLOAT(KB_ALL, KB_3, f) KB_FLOAT(KB_WIDE, KB_3SSV, f)\n"
    "#define KB_ANY(f, w) KB_SIGNED(KB_ALL, KB_INTOF, f)\n"
    "#define KB_DOT(f, w) KB_FLOAT(KB_GEO, KB_2SCALAR, f)\n"
    "#define KB_LENGTH(f, w) KB_FLOAT(KB_GEO, KB_1SCALAR, f)\n"
    "#define KB_NORMALIZE(f, w) KB_FLOAT(KB_GEO, KB_1, f)\n"
    "#define KB_FAST_DISTANCE(f, w) KB_GEO(KB_2SCALAR, f, float)\n"
    "#define KB_FAST_LENGTH(f, w) KB_GEO(KB_1SCALAR, f, float)\n"
    "#define KB_FAST_NORMALIZE(f, w) KB_GEO(KB_1, f, float)\n"
    "#define KB_CROSS(f, w) KB_FLOAT(KB_34, KB_2, f)\n"
    "#define KB_BITSELECT(f, w) KB_ANYTYPE(KB_ALL, KB_3, f)\n"
    "#define KB_SELECT(f, w) KB_ANYTYPE(KB_ALL, KB_3MASK, f)\n"
    "#define KB_PREFETCH(f, w) KB_ANYTYPE(KB_ALL, KB_AHEAD, f)\n"
    "#define KB_ITEM(f, w) size_t KB_C f(uint);\n"
    "#define KB_WORK_DIM(f, w) uint KB_C f(void);\n"
    "#define KB_FENCE(f, w) void KB_O f(cl_mem_fence_flags);\n"
    "#define KB_BARRIER(f, w) void __attribute__((overloadable, convergent)) "
    "f(cl_mem_fence_flags);\n"
    "#define KB_ATOMIC(f, w) KB_AT(KB_AT1, f)\n"
    "#define KB_ATOMIC_STEP(f, w) KB_AT(KB_AT0, f)\n"
    "#define KB_ATOMIC_CMPXCHG(f, w) KB_AT(KB_AT2, f)\n"
    "#define KB_ATOMIC_XCHG(f, w) KB_AT(KB_AT1, f) KB_AT1(f, float, __global) "
    "KB_AT1(f, float, __local)\n"
    "#define KB_LOAD(f, w) KB_ANYTYPE(KB_LDS, w, f)\n"
    "#define KB_STORE(f, w) KB_ANYTYPE(KB_STS, w, f)\n"
    "#define KB_LOAD_HALF(f, w) KB_LDH(f, w, __constant) KB_LDH(f, w, __global) "
    "KB_LDH(f, w, __local) KB_LDH(f, w, __private)\n"
    "#define KB_STORE_HALF(f, w) KB_STH(f, w, float) KB_IF64(KB_STH(f, w, double))\n"
    "#define KB_FROM(n, f, t) f(t##n);\n"
    "#define KB_CONVERT(t, n, how) KB_ANYTYPE(KB_FROM, n, t##n KB_C convert_##t##n##how)\n";

typedef struct builtin {
    const char *name;
    const char *declaration;
} builtin;

static const builtin builtins[] = {
#define KILN_BUILTIN(name, form, width) {#name, "KB_" #form "(" #name ", " #width ")\n"},
#include "cl_builtins.def"
#undef KILN_BUILTIN
};

enum { BUILTINS = sizeof(builtins) / sizeof(builtins[0]) };

/// How the names of functions begin that are known, but not declared here.
static const char *const others[] = {
    "amd_",        "arm_",     "async_",  "atom_",    "get_image_",  "get_max_sub_group",
    "get_num_sub", "get_sub_", "intel_",  "printf",   "read_image",  "shuffle",
    "sub_group_",  "upsample", "vloada_", "vstorea_", "wait_group_", "work_group_",
    "write_image"};

static const char *const types[] = {"float", "double", "char", "int",   "long",
                                    "short", "uchar",  "uint", "ulong", "ushort"};
static const char *const widths[] = {"", "2", "3", "4", "8", "16"};
static const char *const manners[] = {"",     "_rte",     "_rtn",     "_rtp",     "_rtz",
                                      "_sat", "_sat_rte", "_sat_rtn", "_sat_rtp", "_sat_rtz"};

enum { TYPES = 10, FLOATS = 2, WIDTHS = 6, MANNERS = 10, SATURATED = 5 };

bool kilni_cl_builtins_known(const char *driver, const char *extensions)
{
    // Where half is a type to compute with, functions have overloads for it.
    return strncmp(driver, "3.1", 3) == 0 && strstr(extensions, "cl_khr_fp16") == NULL;
}

// ---- what a text names ----

typedef struct names {
    bool declared[BUILTINS];
    bool converted[TYPES][WIDTHS][MANNERS];
    bool pasted; ///< the text puts words together
    bool open[TYPES]; ///< "convert_" and perhaps the type stand alone: more may be put to them
    bool manners[MANNERS]; ///< that stand alone
    bool unknown;
} names;

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool begins(const char *word, size_t length, const char *with)
{
    size_t count = strlen(with);
    return length >= count && memcmp(word, with, count) == 0;
}

/// The first function whose name is not before the word.
static size_t find_builtin(const char *word, size_t length)
{
    size_t low = 0;
    size_t high = BUILTINS;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (strncmp(builtins[middle].name, word, length) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/// Which of `texts` the word begins with, the longest of them; `count`: with none.
static size_t find_longest(const char *const *texts, size_t count, const char *word, size_t length)
{
    size_t best = count;
    for (size_t i = 0; i < count; i++) {
        if (begins(word, length, texts[i]) &&
            (best == count || strlen(texts[i]) > strlen(texts[best]))) {
            best = i;
        }
    }
    return best;
}

/// `word` is what comes after "convert_".
static void take_convert(names *found, const char *word, size_t length)
{
    size_t type = find_longest(types, TYPES, word, length);
    for (size_t i = 0; i < TYPES && length == 0; i++) {
        found->open[i] = true;
    }
    if (type == TYPES) {
        return;
    }
    word += strlen(types[type]);
    length -= strlen(types[type]);
    found->open[type] = found->open[type] || length == 0;
    size_t width = find_longest(widths, WIDTHS, word, length);
    word += strlen(widths[width]);
    length -= strlen(widths[width]);
    size_t manner = find_longest(manners, MANNERS, word, length);
    if (strlen(manners[manner]) == length && (type >= FLOATS || manner < SATURATED)) {
        found->converted[type][width][manner] = true;
    }
}

/// What stands alone, with any width and with how the text converts.
static void put_conversions_together(names *found)
{
    found->manners[0] = true;
    for (size_t i = 0; i < (size_t)TYPES * WIDTHS * MANNERS && found->pasted; i++) {
        size_t type = i / (WIDTHS * MANNERS);
        size_t manner = i % MANNERS;
        if (found->open[type] && found->manners[manner] && (type >= FLOATS || manner < SATURATED)) {
            found->converted[type][i / MANNERS % WIDTHS][manner] = true;
        }
    }
}

static void take_word(names *found, const char *word, size_t length)
{
    static const char convert[] = "convert_";
    size_t manner = find_longest(manners, MANNERS, word, length);
    found->manners[manner] = found->manners[manner] || strlen(manners[manner]) == length;
    for (size_t i = find_builtin(word, length);
         i < BUILTINS && strncmp(builtins[i].name, word, length) == 0; i++) {
        char next = builtins[i].name[length];
        found->declared[i] =
            found->declared[i] || next == '\0' || (found->pasted && is_digit(next));
    }
    if (begins(word, length, convert)) {
        take_convert(found, word + sizeof(convert) - 1, length - (sizeof(convert) - 1));
    }
    found->unknown =
        found->unknown || find_longest(others, sizeof(others) / sizeof(others[0]), word, length) <
                              sizeof(others) / sizeof(others[0]);
}

/// The first byte after a comment that begins at `at`; `at` itself where none does.
static const char *after_comment(const char *at, const char *end)
{
    if (end - at < 2 || at[0] != '/' || (at[1] != '/' && at[1] != '*')) {
        return at;
    }
    bool line = at[1] == '/';
    for (at += 2; at < end; at++) {
        if (line ? *at == '\n' : end - at > 1 && at[0] == '*' && at[1] == '/') {
            return at + (line ? 1 : 2);
        }
    }
    return end;
}

static void read_words(names *found, const char *text, size_t length)
{
    const char *end = text + length;
    for (const char *at = text; at < end;) {
        const char *from = at;
        at = after_comment(at, end);
        if (at != from) {
            continue;
        }
        while (at < end && (is_letter(*at) || is_digit(*at))) {
            at++;
        }
        if (at == from) {
            at++;
        } else if (is_letter(*from)) {
            take_word(found, from, (size_t)(at - from));
        }
    }
}

/// Whether it puts words together, comments aside: one too many costs little.
static bool pastes(const char *text, size_t length)
{
    for (size_t i = 1; i < length; i++) {
        if (text[i] == '#' && text[i - 1] == '#') {
            return true;
        }
    }
    return false;
}

bool kilni_cl_builtins_declare(const char *text, size_t length, const char *options,
                               kiln_string *out)
{
    names found = {.pasted = pastes(text, length)};
    if (strstr(options, "-cl-std=CL1.2") == NULL) {
        return false;
    }
    read_words(&found, text, length);
    read_words(&found, options, strlen(options));
    put_conversions_together(&found);
    if (found.unknown) {
        return false;
    }
    kiln_string_append(out, device_types, sizeof(device_types) - 1);
    kiln_string_append(out, device_overloads, sizeof(device_overloads) - 1);
    kiln_string_append(out, device_forms, sizeof(device_forms) - 1);
    for (size_t i = 0; i < BUILTINS; i++) {
        if (found.declared[i]) {
            kiln_string_append(out, builtins[i].declaration, strlen(builtins[i].declaration));
        }
    }
    for (size_t i = 0; i < (size_t)TYPES * WIDTHS * MANNERS; i++) {
        size_t type = i / (WIDTHS * MANNERS);
        size_t width = i / MANNERS % WIDTHS;
        size_t manner = i % MANNERS;
        if (found.converted[type][width][manner]) {
            kiln_string_printf(out, "KB_CONVERT(%s, %s, %s)\n", types[type], widths[width],
                               manners[manner]);
        }
    }
    kiln_string_append(out, "#line 1\n", sizeof("#line 1\n") - 1);
    return !out->failed;
}
