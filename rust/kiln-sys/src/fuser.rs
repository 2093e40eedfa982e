// SPDX-License-Identifier: MIT OR Apache-2.0
// Written by tools/gen_rust.py from kiln_fuser.h, kiln_fuser_ops.h, kf_formula.h, kf_operators.h.
use std::os::raw::*;

#[repr(C)]
pub struct kf_builder {
    _private: [u8; 0],
}
#[repr(C)]
pub struct kf_fuser {
    _private: [u8; 0],
}
#[repr(C)]
pub struct kf_kernel {
    _private: [u8; 0],
}
#[repr(C)]
pub struct kf_opt {
    _private: [u8; 0],
}
pub const KF_ABI_MAJOR: u32 = 1;
pub const KF_ABI_MINOR: u32 = 1;
pub const KF_SDK_VERSION: &str = "1.1";
pub const KF_NONE: u32 = 4294967295;
pub const KF_OK: i32 = 0;
pub const KF_DECLINED: i32 = 1;
pub const KF_E_INVALID: i32 = -1;
pub const KF_E_UNSUPPORTED: i32 = -2;
pub const KF_E_NOMEM: i32 = -3;
pub const KF_E_VERSION: i32 = -4;
pub const KF_E_INTERNAL: i32 = -5;
pub const KF_E_CANCELLED: i32 = -6;
pub const KF_DEVICE_OTHER: u32 = 0;
pub const KF_DEVICE_CPU: u32 = 1;
pub const KF_DEVICE_GPU: u32 = 2;
pub const KF_DEVICE_ACCELERATOR: u32 = 3;
pub const KF_SHAPE_NDRANGE: u32 = 1;
pub const KF_SHAPE_BLOCK: u32 = 2;
pub const KF_FEATURE_FP16: u64 = 1;
pub const KF_FEATURE_FP64: u64 = 2;
pub const KF_FEATURE_INT64_ATOMICS: u64 = 4;
pub const KF_FEATURE_SUBGROUPS: u64 = 8;
pub const KF_FEATURE_SPIRV: u64 = 16;
pub const KF_FEATURE_COMPILER: u64 = 32;
pub const KF_FEATURE_IMAGES: u64 = 64;
pub const KF_FEATURE_UNIFIED_MEMORY: u64 = 128;
pub const KF_FEATURE_DENORMALS: u64 = 256;
pub const KF_FEATURE_LOCAL_MEMORY: u64 = 512;
pub const KF_FEATURE_COMMAND_BUFFER: u64 = 1024;
pub const KF_FEATURE_ROUNDED_DIVIDE_SQRT: u64 = 2048;
pub const KF_FEATURE_FLOAT_ATOMICS: u64 = 4096;
pub const KF_FEATURE_PREPARED: u64 = 8192;
pub const KF_FEATURE_SINGLE_WORK_ITEM: u64 = 16384;
pub const KF_FEATURE_VNNI: u64 = 32768;
pub const KF_FEATURE_WGMMA: u64 = 65536;
pub const KF_FEATURE_STRICT: u64 = 131072;
pub const KF_FEATURE_ROUND_TF32: u64 = 262144;
pub const KF_FEATURE_ROUND_BF16: u64 = 524288;
pub const KF_SEVERITY_DEBUG: u32 = 0;
pub const KF_SEVERITY_INFO: u32 = 1;
pub const KF_SEVERITY_WARNING: u32 = 2;
pub const KF_SEVERITY_ERROR: u32 = 3;
pub const KF_SEVERITY_PLUGIN_MISBEHAVING: u32 = 4;
pub const KF_SEVERITY_HOST_MISBEHAVING: u32 = 5;
pub const KF_CODE_UNKNOWN_OP: u32 = 65537;
pub const KF_CODE_NOT_UNDERSTOOD: u32 = 65538;
pub const KF_CODE_DTYPE: u32 = 65539;
pub const KF_CODE_SHAPE: u32 = 65540;
pub const KF_CODE_LAYOUT: u32 = 65541;
pub const KF_CODE_LIMIT: u32 = 65542;
pub const KF_CODE_HAZARD: u32 = 65543;
pub const KF_CODE_COST: u32 = 65544;
pub const KF_CODE_DEVICE: u32 = 65545;
pub const KF_CODE_DATA: u32 = 65546;
pub const KF_CODE_NOMEM: u32 = 65547;
pub const KF_CODE_INTERNAL: u32 = 65548;
pub const KF_STORE_EXTENSION: &str = "kiln.store/1";
pub const KF_STORE_MAX_KEY: u32 = 256;
pub const KF_STORE_MAX_VALUE: u32 = 65536;
pub const KF_MAX_RANK: u32 = 8;
pub const KF_DIM_VALUE: u32 = 1;
pub const KF_TENSOR_LAST_USE: u32 = 1;
pub const KF_TENSOR_UNINIT: u32 = 2;
pub const KF_TENSOR_CONST: u32 = 4;
pub const KF_TENSOR_EXTERNAL: u32 = 8;
pub const KF_TENSOR_ALIASED: u32 = 16;
pub const KF_TENSOR_KNOWN_FLAGS: u32 = 31;
pub const KF_FACT_CONTIGUOUS: u32 = 1;
pub const KF_FACT_ZERO_OFFSET: u32 = 2;
pub const KF_FACT_FITS_I32: u32 = 4;
pub const KF_FACT_TURNED: u32 = 8;
pub const KF_FACT_LINES: u32 = 16;
pub const KF_FACT_COLUMNS: u32 = 32;
pub const KF_TYPE_I64: u32 = 1;
pub const KF_TYPE_F64: u32 = 2;
pub const KF_TYPE_BOOL: u32 = 3;
pub const KF_TYPE_DTYPE: u32 = 4;
pub const KF_TYPE_I64S: u32 = 5;
pub const KF_TYPE_F64S: u32 = 6;
pub const KF_TYPE_STRING: u32 = 7;
pub const KF_TYPE_TENSOR: u32 = 8;
pub const KF_TYPE_SCALAR: u32 = 9;
pub const KF_ATTR_FLAG_HINT: u32 = 1;
pub const KF_OP_KNOWN_FLAGS: u32 = 0;
pub const KF_MAX_EXPR: u32 = 256;
pub const KF_MAX_STACK: u32 = 32;
pub const KF_INS_IMM: u32 = 1;
pub const KF_INS_SYM: u32 = 2;
pub const KF_INS_DEVICE: u32 = 3;
pub const KF_INS_ADD: u32 = 16;
pub const KF_INS_SUB: u32 = 17;
pub const KF_INS_MUL: u32 = 18;
pub const KF_INS_FLOOR_DIV: u32 = 19;
pub const KF_INS_CEIL_DIV: u32 = 20;
pub const KF_INS_ROUND_UP: u32 = 21;
pub const KF_INS_MIN: u32 = 22;
pub const KF_INS_MAX: u32 = 23;
pub const KF_INS_MOD: u32 = 24;
pub const KF_INS_EQ: u32 = 33;
pub const KF_INS_LT: u32 = 34;
pub const KF_INS_LE: u32 = 35;
pub const KF_INS_AND: u32 = 36;
pub const KF_INS_OR: u32 = 37;
pub const KF_INS_SELECT: u32 = 32;
pub const KF_DEVICE_FACT_COMPUTE_UNITS: u32 = 0;
pub const KF_DEVICE_FACT_MAX_GROUP_SIZE: u32 = 1;
pub const KF_DEVICE_FACT_LOCAL_BYTES: u32 = 2;
pub const KF_FORMAT_OPENCL_C: u32 = 1;
pub const KF_FORMAT_SPIRV: u32 = 2;
pub const KF_FORMAT_BINARY: u32 = 3;
pub const KF_MATH_CONTRACT: u64 = 1;
pub const KF_MATH_REASSOC: u64 = 2;
pub const KF_MATH_FTZ: u64 = 4;
pub const KF_MATH_APPROX: u64 = 8;
pub const KF_SOURCE_SIZE_FIRST: u32 = 72;
pub const KF_ARG_TENSOR: u32 = 1;
pub const KF_ARG_TEMP: u32 = 2;
pub const KF_ARG_OFFSET: u32 = 3;
pub const KF_ARG_STRIDE: u32 = 4;
pub const KF_ARG_DIM: u32 = 5;
pub const KF_ARG_SCALAR: u32 = 6;
pub const KF_ARG_VALUE: u32 = 7;
pub const KF_ARG_LOCAL: u32 = 8;
pub const KF_ACCESS_READ: u32 = 1;
pub const KF_ACCESS_WRITE: u32 = 2;
pub const KF_ACCESS_READ_WRITE: u32 = 3;
pub const KF_LAUNCH_SIZE_FIRST: u32 = 144;
pub const KF_TEMP_PERSISTENT: u32 = 1;
pub const KF_STEP_LAUNCH: u32 = 1;
pub const KF_STEP_HOST_OP: u32 = 2;
pub const KF_PROGRAM_DETERMINISTIC: u32 = 1;
pub const KF_PROGRAM_IN_PLACE_SAFE: u32 = 2;
pub const KF_OPEN: u32 = 0;
pub const KF_CLOSED: u32 = 1;
pub const KF_CONFIDENCE_GUESS: u32 = 0;
pub const KF_CONFIDENCE_MODEL: u32 = 1;
pub const KF_CONFIDENCE_MEASURED: u32 = 2;
pub const KF_PLUGIN_SIZE_V1_0: u32 = 208;
pub const KF_QUERY_SYMBOL: &str = "kf_plugin_query_v1";
pub const KF_NOTE_SECTION: &str = ".note.kiln_fuser";
pub const KF_NOTE_NAME: &str = "KFU";
pub const KF_NOTE_TYPE: u32 = 1;
pub const KF_SANITIZER_NONE: u32 = 0;
pub const KF_SANITIZER_ADDRESS: u32 = 1;
pub const KF_SANITIZER_THREAD: u32 = 2;
pub const KF_SANITIZER_MEMORY: u32 = 3;
pub const KF_CPU_X86_AVX: u64 = 1;
pub const KF_CPU_X86_AVX2: u64 = 2;
pub const KF_CPU_X86_AVX512F: u64 = 4;
pub const KF_CPU_ARM_SVE: u64 = 4294967296;
pub const KF_MANIFEST_USES_THREADS: u64 = 1;
pub const KF_MANIFEST_NEEDS_EXEC: u64 = 2;
pub const KF_MANIFEST_SIZE_V1_0: u32 = 168;
pub const KF_SANITIZER_HERE: u32 = 0;
pub const KF_OP_ABS: u32 = 1;
pub const KF_OP_NEG: u32 = 2;
pub const KF_OP_SIGN: u32 = 3;
pub const KF_OP_EXP: u32 = 4;
pub const KF_OP_EXPM1: u32 = 5;
pub const KF_OP_LOG: u32 = 6;
pub const KF_OP_LOG1P: u32 = 7;
pub const KF_OP_ERF: u32 = 8;
pub const KF_OP_SQRT: u32 = 9;
pub const KF_OP_RSQRT: u32 = 10;
pub const KF_OP_RECIP: u32 = 11;
pub const KF_OP_SIN: u32 = 12;
pub const KF_OP_COS: u32 = 13;
pub const KF_OP_TAN: u32 = 14;
pub const KF_OP_SINH: u32 = 15;
pub const KF_OP_COSH: u32 = 16;
pub const KF_OP_TANH: u32 = 17;
pub const KF_OP_ASIN: u32 = 18;
pub const KF_OP_ACOS: u32 = 19;
pub const KF_OP_ATAN: u32 = 20;
pub const KF_OP_ASINH: u32 = 21;
pub const KF_OP_ACOSH: u32 = 22;
pub const KF_OP_ATANH: u32 = 23;
pub const KF_OP_ROUND: u32 = 24;
pub const KF_OP_FLOOR: u32 = 25;
pub const KF_OP_CEIL: u32 = 26;
pub const KF_OP_TRUNC: u32 = 27;
pub const KF_OP_RELU: u32 = 28;
pub const KF_OP_SIGMOID: u32 = 29;
pub const KF_OP_IS_NAN: u32 = 30;
pub const KF_OP_IS_INF: u32 = 31;
pub const KF_OP_LOGICAL_NOT: u32 = 32;
pub const KF_OP_BITWISE_NOT: u32 = 33;
pub const KF_OP_ADD: u32 = 40;
pub const KF_OP_SUB: u32 = 41;
pub const KF_OP_MUL: u32 = 42;
pub const KF_OP_DIV: u32 = 43;
pub const KF_OP_REM: u32 = 44;
pub const KF_OP_FMOD: u32 = 45;
pub const KF_OP_POW: u32 = 46;
pub const KF_OP_MINIMUM: u32 = 47;
pub const KF_OP_MAXIMUM: u32 = 48;
pub const KF_OP_ATAN2: u32 = 49;
pub const KF_OP_HYPOT: u32 = 50;
pub const KF_OP_EQUAL: u32 = 51;
pub const KF_OP_NOT_EQUAL: u32 = 52;
pub const KF_OP_LESS: u32 = 53;
pub const KF_OP_LESS_EQUAL: u32 = 54;
pub const KF_OP_GREATER: u32 = 55;
pub const KF_OP_GREATER_EQUAL: u32 = 56;
pub const KF_OP_LOGICAL_AND: u32 = 57;
pub const KF_OP_LOGICAL_OR: u32 = 58;
pub const KF_OP_LOGICAL_XOR: u32 = 59;
pub const KF_OP_BITWISE_AND: u32 = 60;
pub const KF_OP_BITWISE_OR: u32 = 61;
pub const KF_OP_BITWISE_XOR: u32 = 62;
pub const KF_OP_SHIFT_LEFT: u32 = 63;
pub const KF_OP_SHIFT_RIGHT: u32 = 64;
pub const KF_OP_ADD_SCALAR: u32 = 70;
pub const KF_OP_SUB_SCALAR: u32 = 71;
pub const KF_OP_MUL_SCALAR: u32 = 72;
pub const KF_OP_DIV_SCALAR: u32 = 73;
pub const KF_OP_REM_SCALAR: u32 = 74;
pub const KF_OP_POW_SCALAR: u32 = 75;
pub const KF_OP_CLAMP_MIN: u32 = 76;
pub const KF_OP_CLAMP_MAX: u32 = 77;
pub const KF_OP_EQUAL_SCALAR: u32 = 78;
pub const KF_OP_NOT_EQUAL_SCALAR: u32 = 79;
pub const KF_OP_LESS_SCALAR: u32 = 80;
pub const KF_OP_LESS_EQUAL_SCALAR: u32 = 81;
pub const KF_OP_GREATER_SCALAR: u32 = 82;
pub const KF_OP_GREATER_EQUAL_SCALAR: u32 = 83;
pub const KF_OP_BITWISE_AND_SCALAR: u32 = 84;
pub const KF_OP_BITWISE_OR_SCALAR: u32 = 85;
pub const KF_OP_BITWISE_XOR_SCALAR: u32 = 86;
pub const KF_OP_SHIFT_LEFT_SCALAR: u32 = 87;
pub const KF_OP_SHIFT_RIGHT_SCALAR: u32 = 88;
pub const KF_OP_CLAMP: u32 = 100;
pub const KF_OP_LEAKY_RELU: u32 = 101;
pub const KF_OP_GELU: u32 = 106;
pub const KF_OP_WHERE: u32 = 102;
pub const KF_OP_MASK_FILL: u32 = 103;
pub const KF_OP_CAST: u32 = 104;
pub const KF_OP_ENCODE_SMALL: u32 = 89;
pub const KF_OP_DECODE_SMALL: u32 = 90;
pub const KF_OP_CONTIGUOUS: u32 = 105;
pub const KF_OP_PRELU: u32 = 107;
pub const KF_OP_HARD_SIGMOID: u32 = 108;
pub const KF_OP_LOG_SIGMOID: u32 = 109;
pub const KF_OP_RELU_BACKWARD: u32 = 110;
pub const KF_OP_GELU_BACKWARD: u32 = 111;
pub const KF_OP_SIGMOID_BACKWARD: u32 = 112;
pub const KF_OP_LOG_SIGMOID_BACKWARD: u32 = 113;
pub const KF_OP_SILU: u32 = 114;
pub const KF_OP_SOFTPLUS: u32 = 115;
pub const KF_OP_ELU: u32 = 116;
pub const KF_OP_MISH: u32 = 117;
pub const KF_OP_HARD_SWISH: u32 = 118;
pub const KF_OP_RESHAPE: u32 = 120;
pub const KF_OP_EXPAND: u32 = 121;
pub const KF_OP_PERMUTE: u32 = 122;
pub const KF_OP_SLICE: u32 = 123;
pub const KF_OP_FLIP: u32 = 124;
pub const KF_OP_UNFOLD: u32 = 126;
pub const KF_OP_DIAGONAL: u32 = 127;
pub const KF_OP_SUM: u32 = 140;
pub const KF_OP_MEAN: u32 = 141;
pub const KF_OP_PROD: u32 = 142;
pub const KF_OP_MAX: u32 = 143;
pub const KF_OP_MIN: u32 = 144;
pub const KF_OP_MAX_ABS: u32 = 145;
pub const KF_OP_ANY: u32 = 146;
pub const KF_OP_ALL: u32 = 147;
pub const KF_OP_ARGMAX: u32 = 150;
pub const KF_OP_ARGMIN: u32 = 151;
pub const KF_OP_MAX_WITH_INDICES: u32 = 288;
pub const KF_OP_MIN_WITH_INDICES: u32 = 289;
pub const KF_OP_MATMUL: u32 = 160;
pub const KF_OP_MATMUL_INTEGER: u32 = 311;
pub const KF_OP_CONV: u32 = 161;
pub const KF_OP_CONV_INTEGER: u32 = 308;
pub const KF_OP_CONV_TRANSPOSE: u32 = 164;
pub const KF_OP_CONV_X_BACKWARD: u32 = 167;
pub const KF_OP_CONV_WEIGHT_BACKWARD: u32 = 168;
pub const KF_OP_CONV_BIAS_BACKWARD: u32 = 169;
pub const KF_OP_CONV_TRANSPOSE_X_BACKWARD: u32 = 170;
pub const KF_OP_CONV_TRANSPOSE_WEIGHT_BACKWARD: u32 = 171;
pub const KF_OP_IM2COL: u32 = 304;
pub const KF_OP_COL2IM: u32 = 305;
pub const KF_OP_DEFORM_IM2COL: u32 = 309;
pub const KF_OP_DEFORM_IM2COL_BACKWARD: u32 = 310;
pub const KF_OP_DEFORM_CONV: u32 = 165;
pub const KF_OP_DEFORM_CONV_BACKWARD: u32 = 166;
pub const KF_OP_MAX_POOL: u32 = 162;
pub const KF_OP_AVG_POOL: u32 = 163;
pub const KF_OP_LP_POOL: u32 = 179;
pub const KF_OP_MAX_POOL_WITH_INDICES: u32 = 173;
pub const KF_OP_MAX_POOL_BACKWARD: u32 = 174;
pub const KF_OP_AVG_POOL_BACKWARD: u32 = 175;
pub const KF_OP_ADAPTIVE_AVG_POOL: u32 = 176;
pub const KF_OP_ADAPTIVE_MAX_POOL: u32 = 178;
pub const KF_OP_ADAPTIVE_AVG_POOL_BACKWARD: u32 = 177;
pub const KF_OP_MAX_UNPOOL: u32 = 300;
pub const KF_OP_INTERPOLATE: u32 = 301;
pub const KF_OP_INTERPOLATE_BACKWARD: u32 = 302;
pub const KF_OP_GRID_SAMPLE: u32 = 303;
pub const KF_OP_ROI_ALIGN: u32 = 306;
pub const KF_OP_SOFTMAX: u32 = 180;
pub const KF_OP_LOG_SOFTMAX: u32 = 181;
pub const KF_OP_BATCH_NORM: u32 = 182;
pub const KF_OP_SOFTMIN: u32 = 183;
pub const KF_OP_SOFTMAX_BACKWARD: u32 = 184;
pub const KF_OP_LOG_SOFTMAX_BACKWARD: u32 = 185;
pub const KF_OP_LAYER_NORM: u32 = 186;
pub const KF_OP_RMS_NORM: u32 = 187;
pub const KF_OP_GROUP_NORM: u32 = 188;
pub const KF_OP_INSTANCE_NORM: u32 = 189;
pub const KF_OP_LAYER_NORM_BACKWARD: u32 = 190;
pub const KF_OP_RMS_NORM_BACKWARD: u32 = 191;
pub const KF_OP_GROUP_NORM_BACKWARD: u32 = 192;
pub const KF_OP_INSTANCE_NORM_BACKWARD: u32 = 193;
pub const KF_OP_BATCH_NORM_TRAIN: u32 = 194;
pub const KF_OP_BATCH_NORM_BACKWARD: u32 = 195;
pub const KF_OP_GATHER: u32 = 200;
pub const KF_OP_SELECT: u32 = 201;
pub const KF_OP_GATHER_ND: u32 = 267;
pub const KF_OP_SCATTER: u32 = 268;
pub const KF_OP_SCATTER_ND: u32 = 269;
pub const KF_OP_SELECT_ASSIGN: u32 = 270;
pub const KF_OP_SLICE_ASSIGN: u32 = 271;
pub const KF_OP_EMBEDDING: u32 = 272;
pub const KF_OP_EMBEDDING_BACKWARD: u32 = 273;
pub const KF_OP_ONE_HOT: u32 = 265;
pub const KF_OP_REVERSE_SEQUENCE: u32 = 266;
pub const KF_OP_REPEAT: u32 = 260;
pub const KF_OP_ROLL: u32 = 261;
pub const KF_OP_TRIL: u32 = 262;
pub const KF_OP_TRIU: u32 = 263;
pub const KF_OP_EYE: u32 = 264;
pub const KF_OP_DEPTH_TO_SPACE: u32 = 291;
pub const KF_OP_SPACE_TO_DEPTH: u32 = 292;
pub const KF_OP_CUM_SUM: u32 = 280;
pub const KF_OP_CUM_PROD: u32 = 281;
pub const KF_OP_CUM_MAX: u32 = 282;
pub const KF_OP_CUM_MIN: u32 = 283;
pub const KF_OP_SORT: u32 = 284;
pub const KF_OP_ARGSORT: u32 = 285;
pub const KF_OP_SORT_WITH_INDICES: u32 = 286;
pub const KF_OP_TOP_K: u32 = 287;
pub const KF_OP_CROSS: u32 = 290;
pub const KF_OP_ARGWHERE: u32 = 460;
pub const KF_OP_NMS: u32 = 461;
pub const KF_OP_TREE_ENSEMBLE: u32 = 462;
pub const KF_OP_CONCAT: u32 = 220;
pub const KF_OP_PAD: u32 = 221;
pub const KF_OP_FULL: u32 = 222;
pub const KF_OP_ARANGE: u32 = 223;
pub const KF_OP_RANDOM_UNIFORM: u32 = 400;
pub const KF_OP_RANDOM_INT: u32 = 401;
pub const KF_OP_RANDOM_NORMAL: u32 = 402;
pub const KF_OP_RANDOM_BERNOULLI: u32 = 403;
pub const KF_OP_LINEAR: u32 = 340;
pub const KF_OP_LINEAR_X_BACKWARD: u32 = 341;
pub const KF_OP_LINEAR_WEIGHT_BACKWARD: u32 = 342;
pub const KF_OP_LINEAR_BIAS_BACKWARD: u32 = 343;
pub const KF_OP_ATTENTION: u32 = 344;
pub const KF_OP_EINSUM: u32 = 345;
pub const KF_OP_LSTM: u32 = 350;
pub const KF_OP_GRU: u32 = 351;
pub const KF_OP_RNN: u32 = 352;
pub const KF_OP_FFT: u32 = 355;
pub const KF_OP_RFFT: u32 = 356;
pub const KF_OP_IRFFT: u32 = 357;
pub const KF_OP_CTC_LOSS: u32 = 360;
pub const KF_OP_CTC_LOSS_BACKWARD: u32 = 361;
pub const KF_OP_DET: u32 = 362;
pub const KF_OP_RANDOM_PERMUTATION: u32 = 404;
pub const KF_OP_QUANTIZE: u32 = 410;
pub const KF_OP_DEQUANTIZE: u32 = 411;
pub const KF_OP_QUANTIZE_DYNAMIC: u32 = 412;
pub const KF_OP_QUANTIZED_SCALES: u32 = 413;
pub const KF_OP_MATMUL_QUANTIZED: u32 = 414;
pub const KF_OP_LINEAR_QUANTIZED: u32 = 415;
pub const KF_OP_ALL_REDUCE: u32 = 440;
pub const KF_OP_COLLECTIVE_SYNC: u32 = 441;
pub const KF_OP_CUSTOM: u32 = 470;
pub const KF_OP_DROP: u32 = 250;
pub const KF_OPSET_MAX: u32 = 470;
pub const KF_NAME_ABS: &str = "abs";
pub const KF_NAME_NEG: &str = "neg";
pub const KF_NAME_SIGN: &str = "sign";
pub const KF_NAME_EXP: &str = "exp";
pub const KF_NAME_EXPM1: &str = "expm1";
pub const KF_NAME_LOG: &str = "log";
pub const KF_NAME_LOG1P: &str = "log1p";
pub const KF_NAME_ERF: &str = "erf";
pub const KF_NAME_SQRT: &str = "sqrt";
pub const KF_NAME_RSQRT: &str = "rsqrt";
pub const KF_NAME_RECIP: &str = "recip";
pub const KF_NAME_SIN: &str = "sin";
pub const KF_NAME_COS: &str = "cos";
pub const KF_NAME_TAN: &str = "tan";
pub const KF_NAME_SINH: &str = "sinh";
pub const KF_NAME_COSH: &str = "cosh";
pub const KF_NAME_TANH: &str = "tanh";
pub const KF_NAME_ASIN: &str = "asin";
pub const KF_NAME_ACOS: &str = "acos";
pub const KF_NAME_ATAN: &str = "atan";
pub const KF_NAME_ASINH: &str = "asinh";
pub const KF_NAME_ACOSH: &str = "acosh";
pub const KF_NAME_ATANH: &str = "atanh";
pub const KF_NAME_ROUND: &str = "round";
pub const KF_NAME_FLOOR: &str = "floor";
pub const KF_NAME_CEIL: &str = "ceil";
pub const KF_NAME_TRUNC: &str = "trunc";
pub const KF_NAME_RELU: &str = "relu";
pub const KF_NAME_SIGMOID: &str = "sigmoid";
pub const KF_NAME_IS_NAN: &str = "is_nan";
pub const KF_NAME_IS_INF: &str = "is_inf";
pub const KF_NAME_LOGICAL_NOT: &str = "logical_not";
pub const KF_NAME_BITWISE_NOT: &str = "bitwise_not";
pub const KF_NAME_ADD: &str = "add";
pub const KF_NAME_SUB: &str = "sub";
pub const KF_NAME_MUL: &str = "mul";
pub const KF_NAME_DIV: &str = "div";
pub const KF_NAME_REM: &str = "rem";
pub const KF_NAME_FMOD: &str = "fmod";
pub const KF_NAME_POW: &str = "pow";
pub const KF_NAME_MINIMUM: &str = "minimum";
pub const KF_NAME_MAXIMUM: &str = "maximum";
pub const KF_NAME_ATAN2: &str = "atan2";
pub const KF_NAME_HYPOT: &str = "hypot";
pub const KF_NAME_EQUAL: &str = "equal";
pub const KF_NAME_NOT_EQUAL: &str = "not_equal";
pub const KF_NAME_LESS: &str = "less";
pub const KF_NAME_LESS_EQUAL: &str = "less_equal";
pub const KF_NAME_GREATER: &str = "greater";
pub const KF_NAME_GREATER_EQUAL: &str = "greater_equal";
pub const KF_NAME_LOGICAL_AND: &str = "logical_and";
pub const KF_NAME_LOGICAL_OR: &str = "logical_or";
pub const KF_NAME_LOGICAL_XOR: &str = "logical_xor";
pub const KF_NAME_BITWISE_AND: &str = "bitwise_and";
pub const KF_NAME_BITWISE_OR: &str = "bitwise_or";
pub const KF_NAME_BITWISE_XOR: &str = "bitwise_xor";
pub const KF_NAME_SHIFT_LEFT: &str = "shift_left";
pub const KF_NAME_SHIFT_RIGHT: &str = "shift_right";
pub const KF_NAME_ADD_SCALAR: &str = "add_scalar";
pub const KF_NAME_SUB_SCALAR: &str = "sub_scalar";
pub const KF_NAME_MUL_SCALAR: &str = "mul_scalar";
pub const KF_NAME_DIV_SCALAR: &str = "div_scalar";
pub const KF_NAME_REM_SCALAR: &str = "rem_scalar";
pub const KF_NAME_POW_SCALAR: &str = "pow_scalar";
pub const KF_NAME_CLAMP_MIN: &str = "clamp_min";
pub const KF_NAME_CLAMP_MAX: &str = "clamp_max";
pub const KF_NAME_EQUAL_SCALAR: &str = "equal_scalar";
pub const KF_NAME_NOT_EQUAL_SCALAR: &str = "not_equal_scalar";
pub const KF_NAME_LESS_SCALAR: &str = "less_scalar";
pub const KF_NAME_LESS_EQUAL_SCALAR: &str = "less_equal_scalar";
pub const KF_NAME_GREATER_SCALAR: &str = "greater_scalar";
pub const KF_NAME_GREATER_EQUAL_SCALAR: &str = "greater_equal_scalar";
pub const KF_NAME_BITWISE_AND_SCALAR: &str = "bitwise_and_scalar";
pub const KF_NAME_BITWISE_OR_SCALAR: &str = "bitwise_or_scalar";
pub const KF_NAME_BITWISE_XOR_SCALAR: &str = "bitwise_xor_scalar";
pub const KF_NAME_SHIFT_LEFT_SCALAR: &str = "shift_left_scalar";
pub const KF_NAME_SHIFT_RIGHT_SCALAR: &str = "shift_right_scalar";
pub const KF_NAME_CLAMP: &str = "clamp";
pub const KF_NAME_LEAKY_RELU: &str = "leaky_relu";
pub const KF_NAME_GELU: &str = "gelu";
pub const KF_NAME_WHERE: &str = "where";
pub const KF_NAME_MASK_FILL: &str = "mask_fill";
pub const KF_NAME_CAST: &str = "cast";
pub const KF_NAME_ENCODE_SMALL: &str = "encode_small";
pub const KF_NAME_DECODE_SMALL: &str = "decode_small";
pub const KF_NAME_CONTIGUOUS: &str = "contiguous";
pub const KF_NAME_PRELU: &str = "prelu";
pub const KF_NAME_HARD_SIGMOID: &str = "hard_sigmoid";
pub const KF_NAME_LOG_SIGMOID: &str = "log_sigmoid";
pub const KF_NAME_RELU_BACKWARD: &str = "relu_backward";
pub const KF_NAME_GELU_BACKWARD: &str = "gelu_backward";
pub const KF_NAME_SIGMOID_BACKWARD: &str = "sigmoid_backward";
pub const KF_NAME_LOG_SIGMOID_BACKWARD: &str = "log_sigmoid_backward";
pub const KF_NAME_SILU: &str = "silu";
pub const KF_NAME_SOFTPLUS: &str = "softplus";
pub const KF_NAME_ELU: &str = "elu";
pub const KF_NAME_MISH: &str = "mish";
pub const KF_NAME_HARD_SWISH: &str = "hard_swish";
pub const KF_NAME_RESHAPE: &str = "reshape";
pub const KF_NAME_EXPAND: &str = "expand";
pub const KF_NAME_PERMUTE: &str = "permute";
pub const KF_NAME_SLICE: &str = "slice";
pub const KF_NAME_FLIP: &str = "flip";
pub const KF_NAME_UNFOLD: &str = "unfold";
pub const KF_NAME_DIAGONAL: &str = "diagonal";
pub const KF_NAME_SUM: &str = "sum";
pub const KF_NAME_MEAN: &str = "mean";
pub const KF_NAME_PROD: &str = "prod";
pub const KF_NAME_MAX: &str = "max";
pub const KF_NAME_MIN: &str = "min";
pub const KF_NAME_MAX_ABS: &str = "max_abs";
pub const KF_NAME_ANY: &str = "any";
pub const KF_NAME_ALL: &str = "all";
pub const KF_NAME_ARGMAX: &str = "argmax";
pub const KF_NAME_ARGMIN: &str = "argmin";
pub const KF_NAME_MAX_WITH_INDICES: &str = "max_with_indices";
pub const KF_NAME_MIN_WITH_INDICES: &str = "min_with_indices";
pub const KF_NAME_MATMUL: &str = "matmul";
pub const KF_NAME_MATMUL_INTEGER: &str = "matmul_integer";
pub const KF_NAME_CONV: &str = "conv";
pub const KF_NAME_CONV_INTEGER: &str = "conv_integer";
pub const KF_NAME_CONV_TRANSPOSE: &str = "conv_transpose";
pub const KF_NAME_CONV_X_BACKWARD: &str = "conv_x_backward";
pub const KF_NAME_CONV_WEIGHT_BACKWARD: &str = "conv_weight_backward";
pub const KF_NAME_CONV_BIAS_BACKWARD: &str = "conv_bias_backward";
pub const KF_NAME_CONV_TRANSPOSE_X_BACKWARD: &str = "conv_transpose_x_backward";
pub const KF_NAME_CONV_TRANSPOSE_WEIGHT_BACKWARD: &str = "conv_transpose_weight_backward";
pub const KF_NAME_IM2COL: &str = "im2col";
pub const KF_NAME_COL2IM: &str = "col2im";
pub const KF_NAME_DEFORM_IM2COL: &str = "deform_im2col";
pub const KF_NAME_DEFORM_IM2COL_BACKWARD: &str = "deform_im2col_backward";
pub const KF_NAME_DEFORM_CONV: &str = "deform_conv";
pub const KF_NAME_DEFORM_CONV_BACKWARD: &str = "deform_conv_backward";
pub const KF_NAME_MAX_POOL: &str = "max_pool";
pub const KF_NAME_AVG_POOL: &str = "avg_pool";
pub const KF_NAME_LP_POOL: &str = "lp_pool";
pub const KF_NAME_MAX_POOL_WITH_INDICES: &str = "max_pool_with_indices";
pub const KF_NAME_MAX_POOL_BACKWARD: &str = "max_pool_backward";
pub const KF_NAME_AVG_POOL_BACKWARD: &str = "avg_pool_backward";
pub const KF_NAME_ADAPTIVE_AVG_POOL: &str = "adaptive_avg_pool";
pub const KF_NAME_ADAPTIVE_MAX_POOL: &str = "adaptive_max_pool";
pub const KF_NAME_ADAPTIVE_AVG_POOL_BACKWARD: &str = "adaptive_avg_pool_backward";
pub const KF_NAME_MAX_UNPOOL: &str = "max_unpool";
pub const KF_NAME_INTERPOLATE: &str = "interpolate";
pub const KF_NAME_INTERPOLATE_BACKWARD: &str = "interpolate_backward";
pub const KF_NAME_GRID_SAMPLE: &str = "grid_sample";
pub const KF_NAME_ROI_ALIGN: &str = "roi_align";
pub const KF_NAME_SOFTMAX: &str = "softmax";
pub const KF_NAME_LOG_SOFTMAX: &str = "log_softmax";
pub const KF_NAME_BATCH_NORM: &str = "batch_norm";
pub const KF_NAME_SOFTMIN: &str = "softmin";
pub const KF_NAME_SOFTMAX_BACKWARD: &str = "softmax_backward";
pub const KF_NAME_LOG_SOFTMAX_BACKWARD: &str = "log_softmax_backward";
pub const KF_NAME_LAYER_NORM: &str = "layer_norm";
pub const KF_NAME_RMS_NORM: &str = "rms_norm";
pub const KF_NAME_GROUP_NORM: &str = "group_norm";
pub const KF_NAME_INSTANCE_NORM: &str = "instance_norm";
pub const KF_NAME_LAYER_NORM_BACKWARD: &str = "layer_norm_backward";
pub const KF_NAME_RMS_NORM_BACKWARD: &str = "rms_norm_backward";
pub const KF_NAME_GROUP_NORM_BACKWARD: &str = "group_norm_backward";
pub const KF_NAME_INSTANCE_NORM_BACKWARD: &str = "instance_norm_backward";
pub const KF_NAME_BATCH_NORM_TRAIN: &str = "batch_norm_train";
pub const KF_NAME_BATCH_NORM_BACKWARD: &str = "batch_norm_backward";
pub const KF_NAME_GATHER: &str = "gather";
pub const KF_NAME_SELECT: &str = "select";
pub const KF_NAME_GATHER_ND: &str = "gather_nd";
pub const KF_NAME_SCATTER: &str = "scatter";
pub const KF_NAME_SCATTER_ND: &str = "scatter_nd";
pub const KF_NAME_SELECT_ASSIGN: &str = "select_assign";
pub const KF_NAME_SLICE_ASSIGN: &str = "slice_assign";
pub const KF_NAME_EMBEDDING: &str = "embedding";
pub const KF_NAME_EMBEDDING_BACKWARD: &str = "embedding_backward";
pub const KF_NAME_ONE_HOT: &str = "one_hot";
pub const KF_NAME_REVERSE_SEQUENCE: &str = "reverse_sequence";
pub const KF_NAME_REPEAT: &str = "repeat";
pub const KF_NAME_ROLL: &str = "roll";
pub const KF_NAME_TRIL: &str = "tril";
pub const KF_NAME_TRIU: &str = "triu";
pub const KF_NAME_EYE: &str = "eye";
pub const KF_NAME_DEPTH_TO_SPACE: &str = "depth_to_space";
pub const KF_NAME_SPACE_TO_DEPTH: &str = "space_to_depth";
pub const KF_NAME_CUM_SUM: &str = "cum_sum";
pub const KF_NAME_CUM_PROD: &str = "cum_prod";
pub const KF_NAME_CUM_MAX: &str = "cum_max";
pub const KF_NAME_CUM_MIN: &str = "cum_min";
pub const KF_NAME_SORT: &str = "sort";
pub const KF_NAME_ARGSORT: &str = "argsort";
pub const KF_NAME_SORT_WITH_INDICES: &str = "sort_with_indices";
pub const KF_NAME_TOP_K: &str = "top_k";
pub const KF_NAME_CROSS: &str = "cross";
pub const KF_NAME_ARGWHERE: &str = "argwhere";
pub const KF_NAME_NMS: &str = "nms";
pub const KF_NAME_TREE_ENSEMBLE: &str = "tree_ensemble";
pub const KF_NAME_CONCAT: &str = "concat";
pub const KF_NAME_PAD: &str = "pad";
pub const KF_NAME_FULL: &str = "full";
pub const KF_NAME_ARANGE: &str = "arange";
pub const KF_NAME_RANDOM_UNIFORM: &str = "random_uniform";
pub const KF_NAME_RANDOM_INT: &str = "random_int";
pub const KF_NAME_RANDOM_NORMAL: &str = "random_normal";
pub const KF_NAME_RANDOM_BERNOULLI: &str = "random_bernoulli";
pub const KF_NAME_LINEAR: &str = "linear";
pub const KF_NAME_LINEAR_X_BACKWARD: &str = "linear_x_backward";
pub const KF_NAME_LINEAR_WEIGHT_BACKWARD: &str = "linear_weight_backward";
pub const KF_NAME_LINEAR_BIAS_BACKWARD: &str = "linear_bias_backward";
pub const KF_NAME_ATTENTION: &str = "attention";
pub const KF_NAME_EINSUM: &str = "einsum";
pub const KF_NAME_LSTM: &str = "lstm";
pub const KF_NAME_GRU: &str = "gru";
pub const KF_NAME_RNN: &str = "rnn";
pub const KF_NAME_FFT: &str = "fft";
pub const KF_NAME_RFFT: &str = "rfft";
pub const KF_NAME_IRFFT: &str = "irfft";
pub const KF_NAME_CTC_LOSS: &str = "ctc_loss";
pub const KF_NAME_CTC_LOSS_BACKWARD: &str = "ctc_loss_backward";
pub const KF_NAME_DET: &str = "det";
pub const KF_NAME_RANDOM_PERMUTATION: &str = "random_permutation";
pub const KF_NAME_QUANTIZE: &str = "quantize";
pub const KF_NAME_DEQUANTIZE: &str = "dequantize";
pub const KF_NAME_QUANTIZE_DYNAMIC: &str = "quantize_dynamic";
pub const KF_NAME_QUANTIZED_SCALES: &str = "quantized_scales";
pub const KF_NAME_MATMUL_QUANTIZED: &str = "matmul_quantized";
pub const KF_NAME_LINEAR_QUANTIZED: &str = "linear_quantized";
pub const KF_NAME_ALL_REDUCE: &str = "all_reduce";
pub const KF_NAME_COLLECTIVE_SYNC: &str = "collective_sync";
pub const KF_NAME_CUSTOM: &str = "custom";
pub const KF_NAME_DROP: &str = "drop";
pub const KF_ATTR_AXIS: u32 = 1;
pub const KF_ATTR_AXES: u32 = 2;
pub const KF_ATTR_KEEPDIMS: u32 = 3;
pub const KF_ATTR_SHAPE: u32 = 4;
pub const KF_ATTR_DTYPE: u32 = 5;
pub const KF_ATTR_VALUE: u32 = 6;
pub const KF_ATTR_MIN: u32 = 7;
pub const KF_ATTR_MAX: u32 = 8;
pub const KF_ATTR_STARTS: u32 = 9;
pub const KF_ATTR_ENDS: u32 = 10;
pub const KF_ATTR_STEPS: u32 = 11;
pub const KF_ATTR_STRIDES: u32 = 12;
pub const KF_ATTR_PADDING: u32 = 13;
pub const KF_ATTR_DILATIONS: u32 = 14;
pub const KF_ATTR_GROUPS: u32 = 15;
pub const KF_ATTR_KERNEL: u32 = 16;
pub const KF_ATTR_CEIL_MODE: u32 = 17;
pub const KF_ATTR_INCLUDE_PAD: u32 = 18;
pub const KF_ATTR_EPSILON: u32 = 19;
pub const KF_ATTR_TRANSPOSE_A: u32 = 20;
pub const KF_ATTR_TRANSPOSE_B: u32 = 21;
pub const KF_ATTR_MODE: u32 = 22;
pub const KF_ATTR_START: u32 = 23;
pub const KF_ATTR_STEP: u32 = 24;
pub const KF_ATTR_SLOPE: u32 = 25;
pub const KF_ATTR_LAST: u32 = 26;
pub const KF_ATTR_COUNT: u32 = 27;
pub const KF_ATTR_APPROXIMATE: u32 = 28;
pub const KF_ATTR_SIZE: u32 = 30;
pub const KF_ATTR_STRIDE: u32 = 31;
pub const KF_ATTR_OFFSET: u32 = 32;
pub const KF_ATTR_REPEATS: u32 = 33;
pub const KF_ATTR_SHIFTS: u32 = 34;
pub const KF_ATTR_BATCH_AXIS: u32 = 35;
pub const KF_ATTR_BATCH_DIMS: u32 = 36;
pub const KF_ATTR_EXCLUSIVE: u32 = 37;
pub const KF_ATTR_REVERSE: u32 = 38;
pub const KF_ATTR_DESCENDING: u32 = 39;
pub const KF_ATTR_OUTPUT_PADDING: u32 = 40;
pub const KF_ATTR_OUTPUT_SIZE: u32 = 41;
pub const KF_ATTR_ALIGN_CORNERS: u32 = 42;
pub const KF_ATTR_PADDING_MODE: u32 = 43;
pub const KF_ATTR_CUBIC_A: u32 = 44;
pub const KF_ATTR_COORDINATES: u32 = 45;
pub const KF_ATTR_SCALES: u32 = 46;
pub const KF_ATTR_REGION: u32 = 47;
pub const KF_ATTR_OFFSET_GROUPS: u32 = 48;
pub const KF_ATTR_P: u32 = 49;
pub const KF_ATTR_ALPHA: u32 = 50;
pub const KF_ATTR_BETA: u32 = 51;
pub const KF_ATTR_MOMENTUM: u32 = 52;
pub const KF_ATTR_SCALE: u32 = 53;
pub const KF_ATTR_SOFTCAP: u32 = 54;
pub const KF_ATTR_CAUSAL: u32 = 55;
pub const KF_ATTR_DIRECTION: u32 = 56;
pub const KF_ATTR_ACTIVATIONS: u32 = 57;
pub const KF_ATTR_ALPHAS: u32 = 58;
pub const KF_ATTR_BETAS: u32 = 59;
pub const KF_ATTR_CLIP: u32 = 60;
pub const KF_ATTR_INPUT_FORGET: u32 = 61;
pub const KF_ATTR_RESET_AFTER: u32 = 62;
pub const KF_ATTR_INVERSE: u32 = 63;
pub const KF_ATTR_LENGTH: u32 = 64;
pub const KF_ATTR_EQUATION: u32 = 65;
pub const KF_ATTR_BLANK: u32 = 66;
pub const KF_ATTR_SEED: u32 = 70;
pub const KF_ATTR_STREAM: u32 = 71;
pub const KF_ATTR_POSITION: u32 = 72;
pub const KF_ATTR_MEAN: u32 = 73;
pub const KF_ATTR_DEVIATION: u32 = 74;
pub const KF_ATTR_PROBABILITY: u32 = 75;
pub const KF_ATTR_BLOCKS: u32 = 76;
pub const KF_ATTR_SCALE_DTYPE: u32 = 77;
pub const KF_ATTR_EXCLUDE_OUTSIDE: u32 = 80;
pub const KF_ATTR_ANTIALIAS: u32 = 81;
pub const KF_ATTR_SAMPLING_RATIO: u32 = 82;
pub const KF_ATTR_SPATIAL_SCALE: u32 = 83;
pub const KF_ATTR_REDUCTION: u32 = 90;
pub const KF_ATTR_GROUP: u32 = 91;
pub const KF_ATTR_MEMBER: u32 = 92;
pub const KF_ATTR_OVERLAP: u32 = 100;
pub const KF_ATTR_LEAST: u32 = 101;
pub const KF_ATTR_CENTER: u32 = 102;
pub const KF_ATTR_NAME: u32 = 110;
pub const KF_ATTR_VERSION: u32 = 111;
pub const KF_ATTR_ATTRIBUTES: u32 = 112;
pub const KF_DTYPE_BOOL: u32 = 1;
pub const KF_DTYPE_U8: u32 = 2;
pub const KF_DTYPE_U16: u32 = 3;
pub const KF_DTYPE_U32: u32 = 4;
pub const KF_DTYPE_U64: u32 = 5;
pub const KF_DTYPE_I8: u32 = 6;
pub const KF_DTYPE_I16: u32 = 7;
pub const KF_DTYPE_I32: u32 = 8;
pub const KF_DTYPE_I64: u32 = 9;
pub const KF_DTYPE_F16: u32 = 10;
pub const KF_DTYPE_BF16: u32 = 11;
pub const KF_DTYPE_F32: u32 = 12;
pub const KF_DTYPE_F64: u32 = 13;
pub const KF_DTYPE_Q8F: u32 = 14;
pub const KF_DTYPE_Q8S: u32 = 15;
pub const KF_DTYPE_Q4F: u32 = 16;
pub const KF_DTYPE_Q4S: u32 = 17;
pub const KF_DTYPE_Q2F: u32 = 18;
pub const KF_DTYPE_Q2S: u32 = 19;
pub const KF_DTYPE_F8E4M3FN: u32 = 20;
pub const KF_DTYPE_F8E4M3FNUZ: u32 = 21;
pub const KF_DTYPE_F8E5M2: u32 = 22;
pub const KF_DTYPE_F8E5M2FNUZ: u32 = 23;
pub const KF_DTYPE_F8E8M0: u32 = 24;
pub const KF_DTYPE_F4E2M1: u32 = 25;
pub const KF_UNKNOWN_BYTES_PER_S: u64 = 10000000000;
pub const KF_UNKNOWN_FLOPS_F32: u64 = 20000000000;
pub const KF_UNKNOWN_LAUNCH_NS: i32 = 5000;
pub const KF_EXT_OPERATORS: &str = "kiln.operators/1";
pub const KF_MAX_PARAMS: u32 = 16;
pub const KF_MAX_OPERATORS: u32 = 256;
pub const KF_MAX_OPERATOR_INPUTS: u32 = 64;
pub const KF_MAX_OPERATOR_OUTPUTS: u32 = 6;
pub const KF_PARAM_REQUIRED: u32 = 1;
pub const KF_OPERATOR_SIZE_V1: u32 = 112;
pub type kf_status = i32;
pub type kf_query_fn = Option<unsafe extern "C" fn(u32) -> *const kf_plugin>;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kf_str {
    pub ptr: *const c_char,
    pub len: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kf_blob {
    pub ptr: *const c_void,
    pub len: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kf_device {
    pub struct_size: u32,
    pub device_type: u32,
    pub code_shape: u32,
    pub vendor_id: u32,
    pub features: u64,
    pub dtype_storage: u64,
    pub dtype_arithmetic: u64,
    pub dtype_accelerated: u64,
    pub global_bytes: u64,
    pub max_alloc_bytes: u64,
    pub local_bytes: u64,
    pub max_group_size: u64,
    pub max_group_dim: [u64; 3],
    pub max_param_bytes: u64,
    pub compute_units: u32,
    pub subgroup_size: u32,
    pub vector_bytes: u32,
    pub mem_align_bytes: u32,
    pub cl_version: u32,
    pub cl_c_version: u32,
    pub cache_line_bytes: u32,
    pub opset: u32,
    pub cache_bytes: u64,
    pub mem_bytes_per_s: u64,
    pub flops_f32: u64,
    pub flops_f16: u64,
    pub flops_f64: u64,
    pub launch_ns: u64,
    pub name: kf_str,
    pub driver: kf_str,
    pub extensions: kf_str,
    pub fingerprint: kf_blob,
    pub subgroup_sizes: u32,
    pub reserved: u32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kf_diag {
    pub struct_size: u32,
    pub severity: u32,
    pub code: u32,
    pub op_index: u32,
    pub message: kf_str,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kf_host {
    pub struct_size: u32,
    pub abi_minor: u32,
    pub ctx: *mut c_void,
    pub name: kf_str,
    pub version: kf_str,
    pub report: Option<unsafe extern "C" fn(*const kf_host, *const kf_diag)>,
    pub alloc: Option<unsafe extern "C" fn(*const kf_host, u64, u64) -> *mut c_void>,
    pub free: Option<unsafe extern "C" fn(*const kf_host, *mut c_void)>,
    pub cancelled: Option<unsafe extern "C" fn(*const kf_host) -> u32>,
    pub extension: Option<unsafe extern "C" fn(*const kf_host, *const c_char) -> *const c_void>,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kf_store {
    pub struct_size: u32,
    pub reserved: u32,
    pub get: Option<unsafe extern "C" fn(*const kf_host, kf_blob, *mut c_void, u64, *mut u64) -> kf_status>,
    pub put: Option<unsafe extern "C" fn(*const kf_host, kf_blob, kf_blob) -> kf_status>,
}
/// An extent. Symbols are dense in the block, in order of first sight. Equal symbols are equal
/// extents and different symbols different ones, for every shape that the plan is used for. Symbol
/// 0 is the extent 1, so broadcasting is visible without values. An extent of zero never reaches a
/// fuser: the host answers such operations itself.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kf_dim {
    pub value: i64,
    pub symbol: u32,
    pub flags: u32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kf_tensor {
    pub struct_size: u32,
    pub id: u32,
    pub dtype: u32,
    pub scheme: u32,
    pub rank: u32,
    pub flags: u32,
    pub facts: u32,
    pub align_log2: u32,
    pub div_by: u32,
    pub reserved: u32,
    pub dims: *const kf_dim,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub union kf_attr_v {
    pub i: i64,
    pub f: f64,
    pub iv: *const i64,
    pub fv: *const f64,
    pub b: *const kf_blob,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kf_attr {
    pub key: u32,
    pub r#type: u32,
    pub flags: u32,
    pub count: u32,
    pub v: kf_attr_v,
}
/// One operation, alive during the call only. The stream contains KF_OP_DROP operations, with one
/// input and no output: that tensor is dead from here on. A tensor that the block defines and drops
/// is never written and never has a buffer unless a step names it. A drop costs nothing and is
/// accepted by every fuser: of a tensor that it does not know, it is the host's to carry out.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kf_op {
    pub struct_size: u32,
    pub kind: u32,
    pub version: u32,
    pub flags: u32,
    pub n_inputs: u32,
    pub n_outputs: u32,
    pub n_attrs: u32,
    pub position: u32,
    pub inputs: *const *const kf_tensor,
    pub outputs: *const *const kf_tensor,
    pub attrs: *const kf_attr,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub union kf_scalar_v {
    pub i: i64,
    pub f: f64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kf_scalar {
    pub r#type: u32,
    pub reserved: u32,
    pub v: kf_scalar_v,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kf_block {
    pub struct_size: u32,
    pub reserved: u32,
    pub ctx: *mut c_void,
    pub dim_value: Option<unsafe extern "C" fn(*const kf_block, u32, *mut i64) -> kf_status>,
    pub scalar_value: Option<unsafe extern "C" fn(*const kf_block, u32, *mut kf_scalar) -> kf_status>,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kf_ins {
    pub op: u16,
    pub arg: u16,
    pub sym: u32,
    pub imm: i64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kf_expr {
    pub ins: *const kf_ins,
    pub n: u64,
}
/// What a compiler made of a source for one device: clGetProgramInfo's, or an offline compiler's.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kf_binary {
    pub struct_size: u32,
    pub reserved: u32,
    pub device: kf_str,
    pub driver: kf_str,
    pub code: kf_blob,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kf_source {
    pub struct_size: u32,
    pub format: u32,
    pub code: kf_blob,
    pub fingerprint: kf_blob,
    pub defines: *const kf_str,
    pub n_defines: u64,
    pub math_flags: u64,
    pub cl_c_version: u32,
    pub reserved: u32,
    pub binaries: *const *const kf_binary,
    pub n_binaries: u64,
    pub options: kf_str,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kf_karg {
    pub kind: u32,
    pub access: u32,
    pub r#ref: u32,
    pub dtype: u32,
    pub axis: u32,
    pub group: u32,
    pub value: kf_expr,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kf_launch {
    pub struct_size: u32,
    pub source: u32,
    pub dims: u32,
    pub n_args: u32,
    pub kernel: kf_str,
    pub global: [kf_expr; 3],
    pub local: [kf_expr; 3],
    pub args: *const kf_karg,
    pub flags: u32,
    pub reserved: u32,
    pub single: *const kf_launch,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kf_temp {
    pub bytes: kf_expr,
    pub align: u32,
    pub flags: u32,
    pub prepack: u32,
    pub reserved: u32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kf_step {
    pub kind: u32,
    pub index: u32,
}
/// Steps run in order; each sees what the earlier ones wrote. After the last step, every tensor
/// that the covered operations define and do not drop has been written, by a launch or by a host
/// operation.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kf_program {
    pub struct_size: u32,
    pub flags: u32,
    pub sources: *const *const kf_source,
    pub n_sources: u64,
    pub launches: *const *const kf_launch,
    pub n_launches: u64,
    pub temps: *const kf_temp,
    pub n_temps: u64,
    pub steps: *const kf_step,
    pub n_steps: u64,
    pub guard: kf_expr,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kf_opt_info {
    pub struct_size: u32,
    pub len: u32,
    pub n_variants: u32,
    pub reserved: u32,
    pub name: kf_str,
    pub key: kf_blob,
    pub variant_ns: *const kf_expr,
    pub n_variant_ns: u64,
}
/// What the host measured of a program, on this device. Since 1.1.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kf_measured {
    pub struct_size: u32,
    pub variant: u32,
    pub key: kf_blob,
    pub ns: u64,
    pub unfused_ns: u64,
    pub extents: *const i64,
    pub n_extents: u64,
}
/// Estimates are formulas, because sizes are not visible: the host evaluates them for the extents
/// at hand, so one plan is scored rightly for every batch size. They cover the first `len`
/// operations as one program. `len` may be less than what was shown: a block that was ready and
/// took an operation whose input is still wanted should go on offering what it was. The pointers
/// are views that live until the next call on the same
/// builder. An absent est_ns means "no estimate": the host then takes its own roofline of the
/// program. One that divides by zero, overflows or is negative makes the block no candidate.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kf_state {
    pub struct_size: u32,
    pub status: u32,
    pub ready: u32,
    pub len: u32,
    pub confidence: u32,
    pub launches: u32,
    pub est_ns: kf_expr,
    pub est_bytes_read: kf_expr,
    pub est_bytes_written: kf_expr,
    pub est_flops: kf_expr,
    pub temp_bytes: kf_expr,
}
/// Lifecycle: query -> init -> fuser_create -> builder_create -> builder_fuse* -> builder_finish ->
/// opt_info, opt_describe -> destroys in any order that keeps parents last -> deinit. builder_fuse
/// after CLOSED is legal and changes nothing. fuse(a) then fuse(b) equals fuse([a, b]). A clone is
/// an independent copy. reset equals a fresh builder. finish needs `ready`, does not consume the
/// builder, and covers exactly kf_state.len operations. Destroy functions accept NULL. What opt_*
/// return as views lives until opt_destroy. Whoever creates destroys: no memory crosses.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kf_plugin {
    pub struct_size: u32,
    pub abi_minor: u32,
    pub id: kf_str,
    pub version: kf_str,
    pub vendor: kf_str,
    pub fuser_ids: *const kf_str,
    pub n_fusers: u64,
    pub init: Option<unsafe extern "C" fn() -> kf_status>,
    pub deinit: Option<unsafe extern "C" fn()>,
    pub extension: Option<unsafe extern "C" fn(*const c_char) -> *const c_void>,
    pub fuser_create: Option<unsafe extern "C" fn(*const kf_host, u32, *const kf_device, *mut *mut kf_fuser) -> kf_status>,
    pub fuser_destroy: Option<unsafe extern "C" fn(*mut kf_fuser)>,
    pub builder_create: Option<unsafe extern "C" fn(*const kf_fuser, *mut *mut kf_builder) -> kf_status>,
    pub builder_clone: Option<unsafe extern "C" fn(*const kf_builder, *mut *mut kf_builder) -> kf_status>,
    pub builder_fuse: Option<unsafe extern "C" fn(*mut kf_builder, *const kf_block, *const *const kf_op, u64, *mut kf_state) -> kf_status>,
    pub builder_state: Option<unsafe extern "C" fn(*const kf_builder, *mut kf_state) -> kf_status>,
    pub builder_reset: Option<unsafe extern "C" fn(*mut kf_builder) -> kf_status>,
    pub builder_finish: Option<unsafe extern "C" fn(*mut kf_builder, *mut *mut kf_opt) -> kf_status>,
    pub builder_destroy: Option<unsafe extern "C" fn(*mut kf_builder)>,
    pub opt_info: Option<unsafe extern "C" fn(*const kf_opt, *mut kf_opt_info) -> kf_status>,
    pub opt_describe: Option<unsafe extern "C" fn(*const kf_opt, u32, *mut kf_program) -> kf_status>,
    pub opt_to_state: Option<unsafe extern "C" fn(*const kf_opt, *mut kf_blob) -> kf_status>,
    pub opt_from_state: Option<unsafe extern "C" fn(*const kf_fuser, kf_blob, *mut *mut kf_opt) -> kf_status>,
    pub opt_destroy: Option<unsafe extern "C" fn(*mut kf_opt)>,
    pub fuser_measured: Option<unsafe extern "C" fn(*const kf_fuser, *const kf_measured)>,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kf_manifest {
    pub struct_size: u32,
    pub abi_major: u32,
    pub abi_minor: u32,
    pub min_host_minor: u32,
    pub opset_max: u32,
    pub sanitizer: u32,
    pub cpu_features: u64,
    pub flags: u64,
    pub id: [c_char; 64],
    pub version: [c_char; 32],
    pub build: [c_char; 32],
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kf_note {
    pub namesz: u32,
    pub descsz: u32,
    pub r#type: u32,
    pub name: [c_char; 4],
    pub desc: kf_manifest,
}
/// A formula under construction. Overflow of the array sets `failed`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kf_formula {
    pub n: u32,
    pub failed: u32,
    pub ins: [kf_ins; 256],
}
/// What a byte, a flop and a launch cost on a device, in units that keep formulas within int64.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kf_cost {
    pub ps_per_kib: i64,
    pub ps_per_kflop: i64,
    pub launch_ns: i64,
}
/// What a block costs. A formula left empty, or that overflowed, is absent from the answer.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kf_estimate {
    pub read: kf_formula,
    pub written: kf_formula,
    pub flops: kf_formula,
    pub temp: kf_formula,
    pub ns: kf_formula,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kf_param {
    pub name: kf_str,
    pub flags: u32,
    pub reserved: u32,
    pub fallback: kf_attr,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kf_shape {
    pub struct_size: u32,
    pub dtype: u32,
    pub rank: u32,
    pub reserved: u32,
    pub dims: [i64; 8],
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kf_memory {
    pub struct_size: u32,
    pub dtype: u32,
    pub rank: u32,
    pub reserved: u32,
    pub data: *mut c_void,
    pub dims: [i64; 8],
    pub strides: [i64; 8],
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kf_call {
    pub struct_size: u32,
    pub n_inputs: u32,
    pub n_outputs: u32,
    pub n_attrs: u32,
    pub attrs: *const kf_attr,
    pub host: *const kf_host,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kf_operator {
    pub struct_size: u32,
    pub version: u32,
    pub name: kf_str,
    pub doc: kf_str,
    pub params: *const kf_param,
    pub n_params: u64,
    pub min_inputs: u32,
    pub max_inputs: u32,
    pub n_outputs: u32,
    pub flags: u32,
    /// Shapes and dtypes: fills dtype, rank and dims of the outputs. KF_DECLINED: these inputs or
    /// attributes are not for it, and the reason went to `report`. Extents may be 0. [any]
    pub infer: Option<unsafe extern "C" fn(*const kf_call, *const *const kf_shape, *const *mut kf_shape) -> kf_status>,
    /// Evaluates on the host, with any strides. This is what the operator means: its kernel, and
    /// what fusers make of it, are judged by it. Outputs share no memory with inputs. [any]
    pub reference: Option<unsafe extern "C" fn(*const kf_call, *const *const kf_memory, *const *const kf_memory) -> kf_status>,
    /// Optional, all three: a program for one call, with the rules of a fuser's. Tensors of `op`
    /// are numbered 0, 1, ... : inputs in order of first sight, then outputs. KF_DECLINED: not for
    /// this device, dtype or layout; the host then evaluates the reference. [any]
    pub kernel_create: Option<unsafe extern "C" fn(*const kf_host, *const kf_device, *const kf_block, *const kf_op, *mut *mut kf_kernel) -> kf_status>,
    pub kernel_describe: Option<unsafe extern "C" fn(*const kf_kernel, *mut kf_program) -> kf_status>,
    pub kernel_destroy: Option<unsafe extern "C" fn(*mut kf_kernel)>,
    /// Optional: the name of the operator of this plugin, of the same version and parameters, that
    /// is this one's gradient. Its inputs are the inputs of the call, then its outputs, then the
    /// gradients of those outputs that are floats; its outputs are the gradients of those inputs
    /// that are floats, each like its input.
    pub gradient: kf_str,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kf_operators {
    pub struct_size: u32,
    pub reserved: u32,
    pub operators: *const *const kf_operator,
    pub n_operators: u64,
}

structs! {
    kf_str { ptr, len }
    kf_blob { ptr, len }
    kf_device { struct_size, device_type, code_shape, vendor_id, features, dtype_storage, dtype_arithmetic, dtype_accelerated, global_bytes, max_alloc_bytes, local_bytes, max_group_size, max_group_dim, max_param_bytes, compute_units, subgroup_size, vector_bytes, mem_align_bytes, cl_version, cl_c_version, cache_line_bytes, opset, cache_bytes, mem_bytes_per_s, flops_f32, flops_f16, flops_f64, launch_ns, name, driver, extensions, fingerprint, subgroup_sizes, reserved }
    kf_diag { struct_size, severity, code, op_index, message }
    kf_host { struct_size, abi_minor, ctx, name, version, report, alloc, free, cancelled, extension }
    kf_store { struct_size, reserved, get, put }
    kf_dim { value, symbol, flags }
    kf_tensor { struct_size, id, dtype, scheme, rank, flags, facts, align_log2, div_by, reserved, dims }
    kf_attr_v { i, f, iv, fv, b }
    kf_attr { key, r#type, flags, count, v }
    kf_op { struct_size, kind, version, flags, n_inputs, n_outputs, n_attrs, position, inputs, outputs, attrs }
    kf_scalar_v { i, f }
    kf_scalar { r#type, reserved, v }
    kf_block { struct_size, reserved, ctx, dim_value, scalar_value }
    kf_ins { op, arg, sym, imm }
    kf_expr { ins, n }
    kf_binary { struct_size, reserved, device, driver, code }
    kf_source { struct_size, format, code, fingerprint, defines, n_defines, math_flags, cl_c_version, reserved, binaries, n_binaries, options }
    kf_karg { kind, access, r#ref, dtype, axis, group, value }
    kf_launch { struct_size, source, dims, n_args, kernel, global, local, args, flags, reserved, single }
    kf_temp { bytes, align, flags, prepack, reserved }
    kf_step { kind, index }
    kf_program { struct_size, flags, sources, n_sources, launches, n_launches, temps, n_temps, steps, n_steps, guard }
    kf_opt_info { struct_size, len, n_variants, reserved, name, key, variant_ns, n_variant_ns }
    kf_measured { struct_size, variant, key, ns, unfused_ns, extents, n_extents }
    kf_state { struct_size, status, ready, len, confidence, launches, est_ns, est_bytes_read, est_bytes_written, est_flops, temp_bytes }
    kf_plugin { struct_size, abi_minor, id, version, vendor, fuser_ids, n_fusers, init, deinit, extension, fuser_create, fuser_destroy, builder_create, builder_clone, builder_fuse, builder_state, builder_reset, builder_finish, builder_destroy, opt_info, opt_describe, opt_to_state, opt_from_state, opt_destroy, fuser_measured }
    kf_manifest { struct_size, abi_major, abi_minor, min_host_minor, opset_max, sanitizer, cpu_features, flags, id, version, build }
    kf_note { namesz, descsz, r#type, name, desc }
    kf_formula { n, failed, ins }
    kf_cost { ps_per_kib, ps_per_kflop, launch_ns }
    kf_estimate { read, written, flops, temp, ns }
    kf_param { name, flags, reserved, fallback }
    kf_shape { struct_size, dtype, rank, reserved, dims }
    kf_memory { struct_size, dtype, rank, reserved, data, dims, strides }
    kf_call { struct_size, n_inputs, n_outputs, n_attrs, attrs, host }
    kf_operator { struct_size, version, name, doc, params, n_params, min_inputs, max_inputs, n_outputs, flags, infer, reference, kernel_create, kernel_describe, kernel_destroy, gradient }
    kf_operators { struct_size, reserved, operators, n_operators }
}

extern "C" {
    pub fn kf_plugin_query_v1(host_abi_minor: u32) -> *const kf_plugin;
}
