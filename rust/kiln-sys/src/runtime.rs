// SPDX-License-Identifier: MIT OR Apache-2.0
// Written by tools/gen_rust.py from kiln.h, kiln_grad.h, kiln_train.h.
use std::os::raw::*;

#[repr(C)]
pub struct kiln_backend_provider {
    _private: [u8; 0],
}
#[repr(C)]
pub struct kiln_bundle {
    _private: [u8; 0],
}
#[repr(C)]
pub struct kiln_bundle_maker {
    _private: [u8; 0],
}
#[repr(C)]
pub struct kiln_coll_group_options {
    _private: [u8; 0],
}
#[repr(C)]
pub struct kiln_collective {
    _private: [u8; 0],
}
#[repr(C)]
pub struct kiln_config {
    _private: [u8; 0],
}
#[repr(C)]
pub struct kiln_context {
    _private: [u8; 0],
}
#[repr(C)]
pub struct kiln_device {
    _private: [u8; 0],
}
#[repr(C)]
pub struct kiln_dynlib {
    _private: [u8; 0],
}
#[repr(C)]
pub struct kiln_event {
    _private: [u8; 0],
}
#[repr(C)]
pub struct kiln_expander {
    _private: [u8; 0],
}
#[repr(C)]
pub struct kiln_gradsync {
    _private: [u8; 0],
}
#[repr(C)]
pub struct kiln_graph {
    _private: [u8; 0],
}
#[repr(C)]
pub struct kiln_handle {
    _private: [u8; 0],
}
#[repr(C)]
pub struct kiln_ir_graph {
    _private: [u8; 0],
}
#[repr(C)]
pub struct kiln_mapping {
    _private: [u8; 0],
}
#[repr(C)]
pub struct kiln_optimiser {
    _private: [u8; 0],
}
#[repr(C)]
pub struct kiln_params {
    _private: [u8; 0],
}
#[repr(C)]
pub struct kiln_replay {
    _private: [u8; 0],
}
#[repr(C)]
pub struct kiln_request {
    _private: [u8; 0],
}
#[repr(C)]
pub struct kiln_sharded {
    _private: [u8; 0],
}
#[repr(C)]
pub struct kiln_store {
    _private: [u8; 0],
}
#[repr(C)]
pub struct kiln_stream {
    _private: [u8; 0],
}
#[repr(C)]
pub struct kiln_tape {
    _private: [u8; 0],
}
#[repr(C)]
pub struct kiln_tensor {
    _private: [u8; 0],
}
#[repr(C)]
pub struct kiln_view {
    _private: [u8; 0],
}
pub const KILN_MAX_RANK: i32 = 8;
pub const KILN_MAX_INPUTS: i32 = 64;
pub const KILN_MAX_NAMED_INPUTS: i32 = 8;
pub const KILN_MAX_OUTPUTS: i32 = 6;
pub const KILN_MAX_ATTRS: i32 = 8;
/// Element types. Their numbers are permanent.
///
/// Unless a function says otherwise: any thread may call it; texts that it returns are in static
/// storage; it cannot fail. NULL where a pointer is needed is INVALID_ARGUMENT; a function without
/// a status then does nothing and gives 0.
pub type kiln_dtype = c_uint;
pub const KILN_DTYPE_NONE: kiln_dtype = 0;
pub const KILN_DTYPE_BOOL: kiln_dtype = 1;
pub const KILN_DTYPE_U8: kiln_dtype = 2;
pub const KILN_DTYPE_U16: kiln_dtype = 3;
pub const KILN_DTYPE_U32: kiln_dtype = 4;
pub const KILN_DTYPE_U64: kiln_dtype = 5;
pub const KILN_DTYPE_I8: kiln_dtype = 6;
pub const KILN_DTYPE_I16: kiln_dtype = 7;
pub const KILN_DTYPE_I32: kiln_dtype = 8;
pub const KILN_DTYPE_I64: kiln_dtype = 9;
pub const KILN_DTYPE_F16: kiln_dtype = 10;
pub const KILN_DTYPE_BF16: kiln_dtype = 11;
pub const KILN_DTYPE_F32: kiln_dtype = 12;
pub const KILN_DTYPE_F64: kiln_dtype = 13;
pub const KILN_DTYPE_Q8F: kiln_dtype = 14;
pub const KILN_DTYPE_Q8S: kiln_dtype = 15;
pub const KILN_DTYPE_Q4F: kiln_dtype = 16;
pub const KILN_DTYPE_Q4S: kiln_dtype = 17;
pub const KILN_DTYPE_Q2F: kiln_dtype = 18;
pub const KILN_DTYPE_Q2S: kiln_dtype = 19;
pub const KILN_DTYPE_F8E4M3FN: kiln_dtype = 20;
pub const KILN_DTYPE_F8E4M3FNUZ: kiln_dtype = 21;
pub const KILN_DTYPE_F8E5M2: kiln_dtype = 22;
pub const KILN_DTYPE_F8E5M2FNUZ: kiln_dtype = 23;
pub const KILN_DTYPE_F8E8M0: kiln_dtype = 24;
pub const KILN_DTYPE_F4E2M1: kiln_dtype = 25;
/// one above the largest number
pub const KILN_DTYPE_LIMIT: kiln_dtype = 26;
pub type kiln_dtype_kind = c_uint;
pub const KILN_KIND_NONE: kiln_dtype_kind = 0;
pub const KILN_KIND_BOOL: kiln_dtype_kind = 1;
pub const KILN_KIND_UINT: kiln_dtype_kind = 2;
pub const KILN_KIND_INT: kiln_dtype_kind = 4;
pub const KILN_KIND_FLOAT: kiln_dtype_kind = 8;
/// of no whole number of bytes
pub const KILN_KIND_QUANT: kiln_dtype_kind = 16;
/// floats of 8 bits and fewer: stored, cast and moved, not computed with
pub const KILN_KIND_SMALL: kiln_dtype_kind = 32;
/// What a call reports: a status, and the error record that the caller gives it to fill.
///
/// Unless a function says otherwise: any thread may call it; texts that it returns are in static
/// storage; it cannot fail. NULL where a pointer is needed is INVALID_ARGUMENT; a function without
/// a status then does nothing and gives 0.
pub type kiln_status = c_uint;
pub const KILN_STATUS_OK: kiln_status = 0;
pub const KILN_STATUS_CANCELLED: kiln_status = 1;
pub const KILN_STATUS_UNKNOWN: kiln_status = 2;
pub const KILN_STATUS_INVALID_ARGUMENT: kiln_status = 3;
pub const KILN_STATUS_DEADLINE_EXCEEDED: kiln_status = 4;
pub const KILN_STATUS_NOT_FOUND: kiln_status = 5;
pub const KILN_STATUS_ALREADY_EXISTS: kiln_status = 6;
pub const KILN_STATUS_PERMISSION_DENIED: kiln_status = 7;
pub const KILN_STATUS_RESOURCE_EXHAUSTED: kiln_status = 8;
pub const KILN_STATUS_FAILED_PRECONDITION: kiln_status = 9;
pub const KILN_STATUS_ABORTED: kiln_status = 10;
pub const KILN_STATUS_OUT_OF_RANGE: kiln_status = 11;
pub const KILN_STATUS_UNIMPLEMENTED: kiln_status = 12;
pub const KILN_STATUS_INTERNAL: kiln_status = 13;
pub const KILN_STATUS_UNAVAILABLE: kiln_status = 14;
pub const KILN_STATUS_DATA_LOSS: kiln_status = 15;
pub const KILN_STATUS_UNAUTHENTICATED: kiln_status = 16;
pub const KILN_STATUS_BUILD_FAILED: kiln_status = 64;
pub const KILN_STATUS_DEVICE_LOST: kiln_status = 65;
pub type kiln_log_level = c_uint;
pub const KILN_LOG_ERROR: kiln_log_level = 0;
pub const KILN_LOG_WARN: kiln_log_level = 1;
pub const KILN_LOG_INFO: kiln_log_level = 2;
pub const KILN_LOG_DEBUG: kiln_log_level = 3;
pub const KILN_LOG_TRACE: kiln_log_level = 4;
/// Receives what the library has to say, on any thread, possibly from several at once.
pub type kiln_log_fn = Option<unsafe extern "C" fn(*const kiln_log_record, *mut c_void)>;
pub type kiln_option = c_uint;
pub const KILN_OPTION_DEVICE: kiln_option = 0;
pub const KILN_OPTION_COMPILER: kiln_option = 1;
pub const KILN_OPTION_CACHE_DIR: kiln_option = 2;
pub const KILN_OPTION_CACHE_LIMIT: kiln_option = 3;
pub const KILN_OPTION_PLUGIN_PATH: kiln_option = 4;
pub const KILN_OPTION_PLUGINS: kiln_option = 5;
pub const KILN_OPTION_PLUGIN_MODE: kiln_option = 6;
pub const KILN_OPTION_PLUGIN_ALLOW: kiln_option = 7;
pub const KILN_OPTION_PLUGIN_KEYS: kiln_option = 8;
pub const KILN_OPTION_PLUGIN_FAILURES: kiln_option = 9;
pub const KILN_OPTION_LOG: kiln_option = 10;
pub const KILN_OPTION_MEMORY_BUDGET: kiln_option = 11;
pub const KILN_OPTION_DETERMINISTIC: kiln_option = 12;
pub const KILN_OPTION_PRECISION: kiln_option = 13;
pub const KILN_OPTION_FUSE_SLOWER: kiln_option = 14;
pub const KILN_OPTION_TUNE: kiln_option = 15;
pub const KILN_OPTION_TUNE_BUDGET: kiln_option = 16;
pub const KILN_OPTION_AWAKE: kiln_option = 17;
pub const KILN_OPTION_TRACE: kiln_option = 18;
pub const KILN_OPTION_RECORD: kiln_option = 19;
pub const KILN_OPTION_CHECK: kiln_option = 20;
pub const KILN_OPTION_WATCHDOG: kiln_option = 21;
pub const KILN_OPTION_KERNEL_DIR: kiln_option = 22;
pub const KILN_OPTION_REMOTE_ADDRESS: kiln_option = 23;
pub const KILN_OPTION_REMOTE_TIMEOUT: kiln_option = 24;
pub const KILN_OPTION_REMOTE_CA: kiln_option = 25;
pub const KILN_OPTION_REMOTE_CERT: kiln_option = 26;
pub const KILN_OPTION_REMOTE_KEY: kiln_option = 27;
pub const KILN_OPTION_REMOTE_TOKEN_FILE: kiln_option = 28;
pub const KILN_OPTION_REMOTE_MEMORY: kiln_option = 29;
pub const KILN_OPTION_WEIGHTS_LIMIT: kiln_option = 30;
pub const KILN_OPTION_MODEL_DTYPE: kiln_option = 31;
pub const KILN_OPTION_PLAN_LIMIT: kiln_option = 32;
pub const KILN_OPTION_PROGRAM_LIMIT: kiln_option = 33;
pub const KILN_OPTION_COUNT: kiln_option = 34;
pub type kiln_origin = c_uint;
pub const KILN_ORIGIN_DEFAULT: kiln_origin = 0;
pub const KILN_ORIGIN_FILE: kiln_origin = 1;
pub const KILN_ORIGIN_ENVIRONMENT: kiln_origin = 2;
pub const KILN_ORIGIN_FLAG: kiln_origin = 3;
/// Gives the next piece, which stays until the next call; its length is 0 at the end.
pub type kiln_hash_next_fn = Option<unsafe extern "C" fn(*mut c_void, *mut *const c_void) -> usize>;
pub const KILN_NPY_MAX_RANK: c_int = 8;
pub const KILN_NPZ_NAME_ROOM: c_int = 128;
pub type kiln_store_table = c_uint;
pub const KILN_STORE_PROGRAMS: kiln_store_table = 0;
pub const KILN_STORE_PLANS: kiln_store_table = 1;
pub const KILN_STORE_WINNERS: kiln_store_table = 2;
pub const KILN_STORE_DEVICES: kiln_store_table = 3;
/// what a process asked for first
pub const KILN_STORE_STARTS: kiln_store_table = 4;
/// of constants that servers may have, by their stamp
pub const KILN_STORE_DIGESTS: kiln_store_table = 5;
pub const KILN_STORE_TABLE_COUNT: kiln_store_table = 6;
/// it has memory now; without it the other facts are not known
pub const KILN_TENSOR_PLACED: c_int = 1;
/// dense, row-major
pub const KILN_TENSOR_CONTIGUOUS: c_int = 2;
/// never changes and outlives plans (weights)
pub const KILN_TENSOR_CONST: c_int = 4;
/// its first element is its buffer's first
pub const KILN_TENSOR_ZERO_OFFSET: c_int = 8;
/// a transposed matrix: dense once the last two axes are swapped
pub const KILN_TENSOR_TURNED: c_int = 16;
/// neither, but along its last axis elements lie side by side
pub const KILN_TENSOR_LINES: c_int = 32;
/// nothing of these, but along the axis before the last they do
pub const KILN_TENSOR_COLUMNS: c_int = 64;
/// What a device is, and what it has counted. Any thread may call what is here. No pointer is NULL
/// unless a function takes it.
pub type kiln_device_type = c_uint;
pub const KILN_DEVICE_CPU: kiln_device_type = 1;
pub const KILN_DEVICE_GPU: kiln_device_type = 2;
pub const KILN_DEVICE_ACCELERATOR: kiln_device_type = 3;
/// no device: reference and null backends
pub const KILN_DEVICE_HOST: kiln_device_type = 4;
pub const KILN_DEVICE_REMOTE: kiln_device_type = 5;
/// tensors of it may lie there; what is not computed in it is in f32
pub const KILN_USAGE_STORAGE: c_int = 1;
/// the device computes in it
pub const KILN_USAGE_ARITHMETIC: c_int = 2;
/// matrix products are a tuned library's, or of units made for it
pub const KILN_USAGE_ACCELERATED: c_int = 4;
pub const KILN_FEATURE_FP16: c_int = 1;
pub const KILN_FEATURE_FP64: c_int = 2;
pub const KILN_FEATURE_IL_SPIRV: c_int = 4;
pub const KILN_FEATURE_COMPILER: c_int = 8;
pub const KILN_FEATURE_UNIFIED_MEMORY: c_int = 16;
/// build and launch are there: fusers make sense
pub const KILN_FEATURE_PROGRAMS: c_int = 32;
/// runs operators of class VIEW itself and gets only dense views
pub const KILN_FEATURE_OWN_VIEWS: c_int = 64;
/// no compiler: takes source of which it has a binary
pub const KILN_FEATURE_PREPARED: c_int = 128;
/// a kernel runs best as one work-item: FPGA
pub const KILN_FEATURE_SINGLE_WORK_ITEM: c_int = 256;
pub const KILN_FEATURE_INT64_ATOMICS: c_int = 512;
pub const KILN_FEATURE_FLOAT_ATOMICS: c_int = 1024;
/// their built-in functions
pub const KILN_FEATURE_SUBGROUPS: c_int = 2048;
pub const KILN_FEATURE_IMAGES: c_int = 4096;
/// f32 denormals are kept
pub const KILN_FEATURE_DENORMALS: c_int = 8192;
/// of f32, where a program asks for it
pub const KILN_FEATURE_ROUNDED_DIVIDE_SQRT: c_int = 16384;
pub const KILN_FEATURE_COMMAND_BUFFER: c_int = 32768;
/// AVX-512 VNNI in inline assembly, whatever the compiler aims at
pub const KILN_FEATURE_VNNI: c_int = 65536;
/// NVIDIA's sm_90a: programs built with KILN_PTX_TARGET=sm_90a
pub const KILN_FEATURE_WGMMA: c_int = 131072;
/// products of f32 are wanted by multiply-adds of f32 alone
pub const KILN_FEATURE_STRICT: c_int = 262144;
/// their operands may be rounded to tf32
pub const KILN_FEATURE_ROUND_TF32: c_int = 524288;
/// and to bf16
pub const KILN_FEATURE_ROUND_BF16: c_int = 1048576;
/// with the kernels' source
pub const KILN_EXPLAIN_SOURCE: c_int = 1;
/// with the memory that the steps need
pub const KILN_EXPLAIN_MEMORY: c_int = 2;
/// Hears of what a device would miss, in words.
pub type kiln_bundle_miss_fn = Option<unsafe extern "C" fn(*const c_char, *mut c_void)>;
/// Attributes of operations: a closed set of types, no pointers to anything that lives. All
/// functions are pure: any thread may call them; texts are static. No pointer is NULL unless a
/// function takes it.
pub type kiln_attr_type = c_uint;
/// absent optional attribute
pub const KILN_ATTR_NONE: kiln_attr_type = 0;
pub const KILN_ATTR_I64: kiln_attr_type = 1;
pub const KILN_ATTR_F64: kiln_attr_type = 2;
pub const KILN_ATTR_BOOL: kiln_attr_type = 3;
pub const KILN_ATTR_DTYPE: kiln_attr_type = 4;
pub const KILN_ATTR_I64_LIST: kiln_attr_type = 5;
pub const KILN_ATTR_F64_LIST: kiln_attr_type = 6;
pub const KILN_ATTR_STRING: kiln_attr_type = 7;
pub const KILN_ATTR_TENSOR: kiln_attr_type = 8;
/// in a schema only: the value is I64 or F64
pub const KILN_ATTR_NUMBER: kiln_attr_type = 9;
pub type kiln_attr_key = c_uint;
pub const KILN_KEY_NONE: kiln_attr_key = 0;
pub const KILN_KEY_AXIS: kiln_attr_key = 1;
pub const KILN_KEY_AXES: kiln_attr_key = 2;
pub const KILN_KEY_KEEPDIMS: kiln_attr_key = 3;
pub const KILN_KEY_SHAPE: kiln_attr_key = 4;
pub const KILN_KEY_DTYPE: kiln_attr_key = 5;
pub const KILN_KEY_VALUE: kiln_attr_key = 6;
pub const KILN_KEY_MIN: kiln_attr_key = 7;
pub const KILN_KEY_MAX: kiln_attr_key = 8;
pub const KILN_KEY_STARTS: kiln_attr_key = 9;
pub const KILN_KEY_ENDS: kiln_attr_key = 10;
pub const KILN_KEY_STEPS: kiln_attr_key = 11;
pub const KILN_KEY_STRIDES: kiln_attr_key = 12;
pub const KILN_KEY_PADDING: kiln_attr_key = 13;
pub const KILN_KEY_DILATIONS: kiln_attr_key = 14;
pub const KILN_KEY_GROUPS: kiln_attr_key = 15;
pub const KILN_KEY_KERNEL: kiln_attr_key = 16;
pub const KILN_KEY_CEIL_MODE: kiln_attr_key = 17;
pub const KILN_KEY_INCLUDE_PAD: kiln_attr_key = 18;
pub const KILN_KEY_EPSILON: kiln_attr_key = 19;
pub const KILN_KEY_TRANSPOSE_A: kiln_attr_key = 20;
pub const KILN_KEY_TRANSPOSE_B: kiln_attr_key = 21;
pub const KILN_KEY_MODE: kiln_attr_key = 22;
pub const KILN_KEY_START: kiln_attr_key = 23;
pub const KILN_KEY_STEP: kiln_attr_key = 24;
pub const KILN_KEY_SLOPE: kiln_attr_key = 25;
pub const KILN_KEY_LAST: kiln_attr_key = 26;
pub const KILN_KEY_COUNT: kiln_attr_key = 27;
pub const KILN_KEY_APPROXIMATE: kiln_attr_key = 28;
pub const KILN_KEY_OUTPUT_PADDING: kiln_attr_key = 40;
pub const KILN_KEY_OUTPUT_SIZE: kiln_attr_key = 41;
pub const KILN_KEY_ALIGN_CORNERS: kiln_attr_key = 42;
pub const KILN_KEY_PADDING_MODE: kiln_attr_key = 43;
pub const KILN_KEY_CUBIC_A: kiln_attr_key = 44;
pub const KILN_KEY_COORDINATES: kiln_attr_key = 45;
pub const KILN_KEY_SCALES: kiln_attr_key = 46;
pub const KILN_KEY_REGION: kiln_attr_key = 47;
pub const KILN_KEY_OFFSET_GROUPS: kiln_attr_key = 48;
pub const KILN_KEY_P: kiln_attr_key = 49;
pub const KILN_KEY_EXCLUDE_OUTSIDE: kiln_attr_key = 80;
pub const KILN_KEY_ANTIALIAS: kiln_attr_key = 81;
pub const KILN_KEY_SAMPLING_RATIO: kiln_attr_key = 82;
pub const KILN_KEY_SPATIAL_SCALE: kiln_attr_key = 83;
pub const KILN_KEY_ALPHA: kiln_attr_key = 50;
pub const KILN_KEY_BETA: kiln_attr_key = 51;
pub const KILN_KEY_MOMENTUM: kiln_attr_key = 52;
pub const KILN_KEY_SCALE: kiln_attr_key = 53;
pub const KILN_KEY_SOFTCAP: kiln_attr_key = 54;
pub const KILN_KEY_CAUSAL: kiln_attr_key = 55;
pub const KILN_KEY_DIRECTION: kiln_attr_key = 56;
pub const KILN_KEY_ACTIVATIONS: kiln_attr_key = 57;
pub const KILN_KEY_ALPHAS: kiln_attr_key = 58;
pub const KILN_KEY_BETAS: kiln_attr_key = 59;
pub const KILN_KEY_CLIP: kiln_attr_key = 60;
pub const KILN_KEY_INPUT_FORGET: kiln_attr_key = 61;
pub const KILN_KEY_RESET_AFTER: kiln_attr_key = 62;
pub const KILN_KEY_INVERSE: kiln_attr_key = 63;
pub const KILN_KEY_LENGTH: kiln_attr_key = 64;
pub const KILN_KEY_EQUATION: kiln_attr_key = 65;
pub const KILN_KEY_BLANK: kiln_attr_key = 66;
pub const KILN_KEY_SEED: kiln_attr_key = 70;
pub const KILN_KEY_STREAM: kiln_attr_key = 71;
pub const KILN_KEY_POSITION: kiln_attr_key = 72;
pub const KILN_KEY_MEAN: kiln_attr_key = 73;
pub const KILN_KEY_DEVIATION: kiln_attr_key = 74;
pub const KILN_KEY_PROBABILITY: kiln_attr_key = 75;
pub const KILN_KEY_REDUCTION: kiln_attr_key = 90;
pub const KILN_KEY_GROUP: kiln_attr_key = 91;
pub const KILN_KEY_MEMBER: kiln_attr_key = 92;
pub const KILN_KEY_OVERLAP: kiln_attr_key = 100;
pub const KILN_KEY_LEAST: kiln_attr_key = 101;
pub const KILN_KEY_CENTER: kiln_attr_key = 102;
pub const KILN_KEY_SIZE: kiln_attr_key = 30;
pub const KILN_KEY_STRIDE: kiln_attr_key = 31;
pub const KILN_KEY_OFFSET: kiln_attr_key = 32;
pub const KILN_KEY_REPEATS: kiln_attr_key = 33;
pub const KILN_KEY_SHIFTS: kiln_attr_key = 34;
pub const KILN_KEY_BATCH_AXIS: kiln_attr_key = 35;
pub const KILN_KEY_BATCH_DIMS: kiln_attr_key = 36;
pub const KILN_KEY_EXCLUSIVE: kiln_attr_key = 37;
pub const KILN_KEY_REVERSE: kiln_attr_key = 38;
pub const KILN_KEY_DESCENDING: kiln_attr_key = 39;
pub const KILN_KEY_NAME: kiln_attr_key = 110;
pub const KILN_KEY_VERSION: kiln_attr_key = 111;
pub const KILN_KEY_ATTRIBUTES: kiln_attr_key = 112;
pub const KILN_KEY_BLOCKS: kiln_attr_key = 76;
pub const KILN_KEY_SCALE_DTYPE: kiln_attr_key = 77;
/// above every number
pub const KILN_KEY_LIMIT: kiln_attr_key = 256;
/// Dense numbers, in memory only. Permanent numbers: kiln_op_info.wire.
pub type kiln_op = c_uint;
pub const KILN_OP_ABS: kiln_op = 0;
pub const KILN_OP_NEG: kiln_op = 1;
pub const KILN_OP_SIGN: kiln_op = 2;
pub const KILN_OP_EXP: kiln_op = 3;
pub const KILN_OP_EXPM1: kiln_op = 4;
pub const KILN_OP_LOG: kiln_op = 5;
pub const KILN_OP_LOG1P: kiln_op = 6;
pub const KILN_OP_ERF: kiln_op = 7;
pub const KILN_OP_SQRT: kiln_op = 8;
pub const KILN_OP_RSQRT: kiln_op = 9;
pub const KILN_OP_RECIP: kiln_op = 10;
pub const KILN_OP_SIN: kiln_op = 11;
pub const KILN_OP_COS: kiln_op = 12;
pub const KILN_OP_TAN: kiln_op = 13;
pub const KILN_OP_SINH: kiln_op = 14;
pub const KILN_OP_COSH: kiln_op = 15;
pub const KILN_OP_TANH: kiln_op = 16;
pub const KILN_OP_ASIN: kiln_op = 17;
pub const KILN_OP_ACOS: kiln_op = 18;
pub const KILN_OP_ATAN: kiln_op = 19;
pub const KILN_OP_ASINH: kiln_op = 20;
pub const KILN_OP_ACOSH: kiln_op = 21;
pub const KILN_OP_ATANH: kiln_op = 22;
pub const KILN_OP_ROUND: kiln_op = 23;
pub const KILN_OP_FLOOR: kiln_op = 24;
pub const KILN_OP_CEIL: kiln_op = 25;
pub const KILN_OP_TRUNC: kiln_op = 26;
pub const KILN_OP_RELU: kiln_op = 27;
pub const KILN_OP_SIGMOID: kiln_op = 28;
pub const KILN_OP_IS_NAN: kiln_op = 29;
pub const KILN_OP_IS_INF: kiln_op = 30;
pub const KILN_OP_LOGICAL_NOT: kiln_op = 31;
pub const KILN_OP_BITWISE_NOT: kiln_op = 32;
pub const KILN_OP_ADD: kiln_op = 33;
pub const KILN_OP_SUB: kiln_op = 34;
pub const KILN_OP_MUL: kiln_op = 35;
pub const KILN_OP_DIV: kiln_op = 36;
pub const KILN_OP_REM: kiln_op = 37;
pub const KILN_OP_FMOD: kiln_op = 38;
pub const KILN_OP_POW: kiln_op = 39;
pub const KILN_OP_MINIMUM: kiln_op = 40;
pub const KILN_OP_MAXIMUM: kiln_op = 41;
pub const KILN_OP_ATAN2: kiln_op = 42;
pub const KILN_OP_HYPOT: kiln_op = 43;
pub const KILN_OP_EQUAL: kiln_op = 44;
pub const KILN_OP_NOT_EQUAL: kiln_op = 45;
pub const KILN_OP_LESS: kiln_op = 46;
pub const KILN_OP_LESS_EQUAL: kiln_op = 47;
pub const KILN_OP_GREATER: kiln_op = 48;
pub const KILN_OP_GREATER_EQUAL: kiln_op = 49;
pub const KILN_OP_LOGICAL_AND: kiln_op = 50;
pub const KILN_OP_LOGICAL_OR: kiln_op = 51;
pub const KILN_OP_LOGICAL_XOR: kiln_op = 52;
pub const KILN_OP_BITWISE_AND: kiln_op = 53;
pub const KILN_OP_BITWISE_OR: kiln_op = 54;
pub const KILN_OP_BITWISE_XOR: kiln_op = 55;
pub const KILN_OP_SHIFT_LEFT: kiln_op = 56;
pub const KILN_OP_SHIFT_RIGHT: kiln_op = 57;
pub const KILN_OP_ADD_SCALAR: kiln_op = 58;
pub const KILN_OP_SUB_SCALAR: kiln_op = 59;
pub const KILN_OP_MUL_SCALAR: kiln_op = 60;
pub const KILN_OP_DIV_SCALAR: kiln_op = 61;
pub const KILN_OP_REM_SCALAR: kiln_op = 62;
pub const KILN_OP_POW_SCALAR: kiln_op = 63;
pub const KILN_OP_CLAMP_MIN: kiln_op = 64;
pub const KILN_OP_CLAMP_MAX: kiln_op = 65;
pub const KILN_OP_EQUAL_SCALAR: kiln_op = 66;
pub const KILN_OP_NOT_EQUAL_SCALAR: kiln_op = 67;
pub const KILN_OP_LESS_SCALAR: kiln_op = 68;
pub const KILN_OP_LESS_EQUAL_SCALAR: kiln_op = 69;
pub const KILN_OP_GREATER_SCALAR: kiln_op = 70;
pub const KILN_OP_GREATER_EQUAL_SCALAR: kiln_op = 71;
pub const KILN_OP_BITWISE_AND_SCALAR: kiln_op = 72;
pub const KILN_OP_BITWISE_OR_SCALAR: kiln_op = 73;
pub const KILN_OP_BITWISE_XOR_SCALAR: kiln_op = 74;
pub const KILN_OP_SHIFT_LEFT_SCALAR: kiln_op = 75;
pub const KILN_OP_SHIFT_RIGHT_SCALAR: kiln_op = 76;
pub const KILN_OP_CLAMP: kiln_op = 77;
pub const KILN_OP_LEAKY_RELU: kiln_op = 78;
pub const KILN_OP_GELU: kiln_op = 79;
pub const KILN_OP_WHERE: kiln_op = 80;
pub const KILN_OP_MASK_FILL: kiln_op = 81;
pub const KILN_OP_CAST: kiln_op = 82;
pub const KILN_OP_ENCODE_SMALL: kiln_op = 83;
pub const KILN_OP_DECODE_SMALL: kiln_op = 84;
pub const KILN_OP_CONTIGUOUS: kiln_op = 85;
pub const KILN_OP_PRELU: kiln_op = 86;
pub const KILN_OP_HARD_SIGMOID: kiln_op = 87;
pub const KILN_OP_LOG_SIGMOID: kiln_op = 88;
pub const KILN_OP_RELU_BACKWARD: kiln_op = 89;
pub const KILN_OP_GELU_BACKWARD: kiln_op = 90;
pub const KILN_OP_SIGMOID_BACKWARD: kiln_op = 91;
pub const KILN_OP_LOG_SIGMOID_BACKWARD: kiln_op = 92;
pub const KILN_OP_SILU: kiln_op = 93;
pub const KILN_OP_SOFTPLUS: kiln_op = 94;
pub const KILN_OP_ELU: kiln_op = 95;
pub const KILN_OP_MISH: kiln_op = 96;
pub const KILN_OP_HARD_SWISH: kiln_op = 97;
pub const KILN_OP_RESHAPE: kiln_op = 98;
pub const KILN_OP_EXPAND: kiln_op = 99;
pub const KILN_OP_PERMUTE: kiln_op = 100;
pub const KILN_OP_SLICE: kiln_op = 101;
pub const KILN_OP_FLIP: kiln_op = 102;
pub const KILN_OP_UNFOLD: kiln_op = 103;
pub const KILN_OP_DIAGONAL: kiln_op = 104;
pub const KILN_OP_SUM: kiln_op = 105;
pub const KILN_OP_MEAN: kiln_op = 106;
pub const KILN_OP_PROD: kiln_op = 107;
pub const KILN_OP_MAX: kiln_op = 108;
pub const KILN_OP_MIN: kiln_op = 109;
pub const KILN_OP_MAX_ABS: kiln_op = 110;
pub const KILN_OP_ANY: kiln_op = 111;
pub const KILN_OP_ALL: kiln_op = 112;
pub const KILN_OP_ARGMAX: kiln_op = 113;
pub const KILN_OP_ARGMIN: kiln_op = 114;
pub const KILN_OP_MAX_WITH_INDICES: kiln_op = 115;
pub const KILN_OP_MIN_WITH_INDICES: kiln_op = 116;
pub const KILN_OP_MATMUL: kiln_op = 117;
pub const KILN_OP_MATMUL_INTEGER: kiln_op = 118;
pub const KILN_OP_CONV: kiln_op = 119;
pub const KILN_OP_CONV_INTEGER: kiln_op = 120;
pub const KILN_OP_CONV_TRANSPOSE: kiln_op = 121;
pub const KILN_OP_CONV_X_BACKWARD: kiln_op = 122;
pub const KILN_OP_CONV_WEIGHT_BACKWARD: kiln_op = 123;
pub const KILN_OP_CONV_BIAS_BACKWARD: kiln_op = 124;
pub const KILN_OP_CONV_TRANSPOSE_X_BACKWARD: kiln_op = 125;
pub const KILN_OP_CONV_TRANSPOSE_WEIGHT_BACKWARD: kiln_op = 126;
pub const KILN_OP_IM2COL: kiln_op = 127;
pub const KILN_OP_COL2IM: kiln_op = 128;
pub const KILN_OP_DEFORM_IM2COL: kiln_op = 129;
pub const KILN_OP_DEFORM_IM2COL_BACKWARD: kiln_op = 130;
pub const KILN_OP_DEFORM_CONV: kiln_op = 131;
pub const KILN_OP_DEFORM_CONV_BACKWARD: kiln_op = 132;
pub const KILN_OP_MAX_POOL: kiln_op = 133;
pub const KILN_OP_AVG_POOL: kiln_op = 134;
pub const KILN_OP_LP_POOL: kiln_op = 135;
pub const KILN_OP_MAX_POOL_WITH_INDICES: kiln_op = 136;
pub const KILN_OP_MAX_POOL_BACKWARD: kiln_op = 137;
pub const KILN_OP_AVG_POOL_BACKWARD: kiln_op = 138;
pub const KILN_OP_ADAPTIVE_AVG_POOL: kiln_op = 139;
pub const KILN_OP_ADAPTIVE_MAX_POOL: kiln_op = 140;
pub const KILN_OP_ADAPTIVE_AVG_POOL_BACKWARD: kiln_op = 141;
pub const KILN_OP_MAX_UNPOOL: kiln_op = 142;
pub const KILN_OP_INTERPOLATE: kiln_op = 143;
pub const KILN_OP_INTERPOLATE_BACKWARD: kiln_op = 144;
pub const KILN_OP_GRID_SAMPLE: kiln_op = 145;
pub const KILN_OP_ROI_ALIGN: kiln_op = 146;
pub const KILN_OP_SOFTMAX: kiln_op = 147;
pub const KILN_OP_LOG_SOFTMAX: kiln_op = 148;
pub const KILN_OP_BATCH_NORM: kiln_op = 149;
pub const KILN_OP_SOFTMIN: kiln_op = 150;
pub const KILN_OP_SOFTMAX_BACKWARD: kiln_op = 151;
pub const KILN_OP_LOG_SOFTMAX_BACKWARD: kiln_op = 152;
pub const KILN_OP_LAYER_NORM: kiln_op = 153;
pub const KILN_OP_RMS_NORM: kiln_op = 154;
pub const KILN_OP_GROUP_NORM: kiln_op = 155;
pub const KILN_OP_INSTANCE_NORM: kiln_op = 156;
pub const KILN_OP_LAYER_NORM_BACKWARD: kiln_op = 157;
pub const KILN_OP_RMS_NORM_BACKWARD: kiln_op = 158;
pub const KILN_OP_GROUP_NORM_BACKWARD: kiln_op = 159;
pub const KILN_OP_INSTANCE_NORM_BACKWARD: kiln_op = 160;
pub const KILN_OP_BATCH_NORM_TRAIN: kiln_op = 161;
pub const KILN_OP_BATCH_NORM_BACKWARD: kiln_op = 162;
pub const KILN_OP_GATHER: kiln_op = 163;
pub const KILN_OP_SELECT: kiln_op = 164;
pub const KILN_OP_GATHER_ND: kiln_op = 165;
pub const KILN_OP_SCATTER: kiln_op = 166;
pub const KILN_OP_SCATTER_ND: kiln_op = 167;
pub const KILN_OP_SELECT_ASSIGN: kiln_op = 168;
pub const KILN_OP_SLICE_ASSIGN: kiln_op = 169;
pub const KILN_OP_EMBEDDING: kiln_op = 170;
pub const KILN_OP_EMBEDDING_BACKWARD: kiln_op = 171;
pub const KILN_OP_ONE_HOT: kiln_op = 172;
pub const KILN_OP_REVERSE_SEQUENCE: kiln_op = 173;
pub const KILN_OP_REPEAT: kiln_op = 174;
pub const KILN_OP_ROLL: kiln_op = 175;
pub const KILN_OP_TRIL: kiln_op = 176;
pub const KILN_OP_TRIU: kiln_op = 177;
pub const KILN_OP_EYE: kiln_op = 178;
pub const KILN_OP_DEPTH_TO_SPACE: kiln_op = 179;
pub const KILN_OP_SPACE_TO_DEPTH: kiln_op = 180;
pub const KILN_OP_CUM_SUM: kiln_op = 181;
pub const KILN_OP_CUM_PROD: kiln_op = 182;
pub const KILN_OP_CUM_MAX: kiln_op = 183;
pub const KILN_OP_CUM_MIN: kiln_op = 184;
pub const KILN_OP_SORT: kiln_op = 185;
pub const KILN_OP_ARGSORT: kiln_op = 186;
pub const KILN_OP_SORT_WITH_INDICES: kiln_op = 187;
pub const KILN_OP_TOP_K: kiln_op = 188;
pub const KILN_OP_CROSS: kiln_op = 189;
pub const KILN_OP_ARGWHERE: kiln_op = 190;
pub const KILN_OP_NMS: kiln_op = 191;
pub const KILN_OP_TREE_ENSEMBLE: kiln_op = 192;
pub const KILN_OP_CONCAT: kiln_op = 193;
pub const KILN_OP_PAD: kiln_op = 194;
pub const KILN_OP_FULL: kiln_op = 195;
pub const KILN_OP_ARANGE: kiln_op = 196;
pub const KILN_OP_RANDOM_UNIFORM: kiln_op = 197;
pub const KILN_OP_RANDOM_INT: kiln_op = 198;
pub const KILN_OP_RANDOM_NORMAL: kiln_op = 199;
pub const KILN_OP_RANDOM_BERNOULLI: kiln_op = 200;
pub const KILN_OP_LINEAR: kiln_op = 201;
pub const KILN_OP_LINEAR_X_BACKWARD: kiln_op = 202;
pub const KILN_OP_LINEAR_WEIGHT_BACKWARD: kiln_op = 203;
pub const KILN_OP_LINEAR_BIAS_BACKWARD: kiln_op = 204;
pub const KILN_OP_ATTENTION: kiln_op = 205;
pub const KILN_OP_EINSUM: kiln_op = 206;
pub const KILN_OP_LSTM: kiln_op = 207;
pub const KILN_OP_GRU: kiln_op = 208;
pub const KILN_OP_RNN: kiln_op = 209;
pub const KILN_OP_FFT: kiln_op = 210;
pub const KILN_OP_RFFT: kiln_op = 211;
pub const KILN_OP_IRFFT: kiln_op = 212;
pub const KILN_OP_CTC_LOSS: kiln_op = 213;
pub const KILN_OP_CTC_LOSS_BACKWARD: kiln_op = 214;
pub const KILN_OP_DET: kiln_op = 215;
pub const KILN_OP_RANDOM_PERMUTATION: kiln_op = 216;
pub const KILN_OP_QUANTIZE: kiln_op = 217;
pub const KILN_OP_DEQUANTIZE: kiln_op = 218;
pub const KILN_OP_QUANTIZE_DYNAMIC: kiln_op = 219;
pub const KILN_OP_QUANTIZED_SCALES: kiln_op = 220;
pub const KILN_OP_MATMUL_QUANTIZED: kiln_op = 221;
pub const KILN_OP_LINEAR_QUANTIZED: kiln_op = 222;
pub const KILN_OP_ALL_REDUCE: kiln_op = 223;
pub const KILN_OP_COLLECTIVE_SYNC: kiln_op = 224;
pub const KILN_OP_CUSTOM: kiln_op = 225;
pub const KILN_OP_DROP: kiln_op = 226;
pub const KILN_OP_COUNT: kiln_op = 227;
pub type kiln_op_class = c_uint;
pub const KILN_CLASS_ELEMENTWISE: kiln_op_class = 1;
pub const KILN_CLASS_VIEW: kiln_op_class = 2;
pub const KILN_CLASS_REDUCE: kiln_op_class = 3;
pub const KILN_CLASS_CONTRACTION: kiln_op_class = 4;
pub const KILN_CLASS_GATHER: kiln_op_class = 5;
pub const KILN_CLASS_WINDOW: kiln_op_class = 6;
pub const KILN_CLASS_ROW: kiln_op_class = 7;
pub const KILN_CLASS_CREATION: kiln_op_class = 8;
pub const KILN_CLASS_CONTROL: kiln_op_class = 9;
pub const KILN_CLASS_COLLECTIVE: kiln_op_class = 10;
/// a plugin's: what it does is not in this table
pub const KILN_CLASS_CUSTOM: kiln_op_class = 11;
/// What an operator does where numbers of f32 may be kept in f16 or bf16: of a thread's products
/// (kiln_products_in), and of a model that is kept in such a type (`model-dtype`).
pub type kiln_op_precision = c_uint;
/// it stays in f32: reductions, statistics, losses, recurrent layers
pub const KILN_PRECISION_WIDE: kiln_op_precision = 0;
/// its operands become narrow, its sums are of f32
pub const KILN_PRECISION_PRODUCT: kiln_op_precision = 1;
/// it is computed in the type that its operands have; rows, whose
/// sums are of f32 all the same, too
pub const KILN_PRECISION_FOLLOWS: kiln_op_precision = 2;
/// Sets of kiln_dtype_kind that an operator takes. SIGNED: without unsigned and bool.
pub type kiln_accept = c_uint;
pub const KILN_ACCEPT_LOGIC: kiln_accept = 1;
pub const KILN_ACCEPT_INTEGER: kiln_accept = 6;
pub const KILN_ACCEPT_INTLOGIC: kiln_accept = 7;
pub const KILN_ACCEPT_FLOAT: kiln_accept = 8;
pub const KILN_ACCEPT_SIGNED: kiln_accept = 12;
pub const KILN_ACCEPT_NUMERIC: kiln_accept = 14;
pub const KILN_ACCEPT_QUANT: kiln_accept = 16;
pub const KILN_ACCEPT_ANY: kiln_accept = 15;
pub type kiln_result = c_uint;
/// dtype of the first data input
pub const KILN_RESULT_SAME: kiln_result = 1;
pub const KILN_RESULT_BOOL: kiln_result = 2;
/// i64
pub const KILN_RESULT_INDEX: kiln_result = 3;
/// attribute `dtype`
pub const KILN_RESULT_ATTR: kiln_result = 4;
pub const KILN_RESULT_NOTHING: kiln_result = 5;
/// the first as SAME, the others i64
pub const KILN_RESULT_SAME_INDEX: kiln_result = 6;
/// the shape function decides
pub const KILN_RESULT_RULE: kiln_result = 7;
pub type kiln_attr_role = c_uint;
/// part of a plan's identity, shown to fusers by value
pub const KILN_ROLE_IDENTITY: kiln_attr_role = 0;
/// a number that plans keep as a placeholder and kernels take as argument
pub const KILN_ROLE_SCALAR: kiln_attr_role = 1;
/// follows from shapes, or is only used by the host: not in plans
pub const KILN_ROLE_HOST: kiln_attr_role = 2;
pub type kiln_shape_fn = Option<unsafe extern "C" fn(*const kiln_op_record, *mut kiln_tensor_desc, *mut kiln_error) -> kiln_status>;
pub type kiln_reference_fn = Option<unsafe extern "C" fn(*const kiln_op_record, *const kiln_view, *const kiln_view, *mut kiln_error) -> kiln_status>;
pub type kiln_decompose_fn = Option<unsafe extern "C" fn(*mut kiln_expander)>;
pub const KILN_CUSTOM_MAX_PARAMS: c_int = 16;
pub const KILN_CUSTOM_MAX_TEXT: c_int = 4096;
pub const KILN_CUSTOM_MAX_NAME: c_int = 127;
/// The identity of a parameter, on all devices and in all processes: a number of the program's
/// choosing; 0 is none. Equal numbers are the same parameter; eight bytes, little-endian, on a
/// wire.
pub type kiln_param_id = u64;
pub type kiln_memory_home = c_uint;
/// at `offset_bytes`
pub const KILN_MEMORY_ARENA: kiln_memory_home = 1;
/// a buffer of its own, for it outlives the run
pub const KILN_MEMORY_RESULT: kiln_memory_home = 2;
/// at the beginning of a result's buffer, before that is written
pub const KILN_MEMORY_INSIDE: kiln_memory_home = 3;
/// a buffer of its own, given back when it dies
pub const KILN_MEMORY_POOL: kiln_memory_home = 4;
/// one that stays from run to run, and counts in no sum: packed constants
pub const KILN_MEMORY_KEPT: kiln_memory_home = 5;
pub type kiln_memory_kind = c_uint;
pub const KILN_MEMORY_TENSOR: kiln_memory_kind = 1;
/// of a fused program
pub const KILN_MEMORY_TEMPORARY: kiln_memory_kind = 2;
/// of an unfused operation: known after the first run
pub const KILN_MEMORY_SCRATCH: kiln_memory_kind = 3;
/// Kinds are told apart so that a value cannot come back as another.
pub type kiln_handle_kind = c_uint;
pub const KILN_HANDLE_FLOAT: kiln_handle_kind = 1;
pub const KILN_HANDLE_INT: kiln_handle_kind = 2;
pub const KILN_HANDLE_BOOL: kiln_handle_kind = 3;
pub const KILN_HANDLE_QUANTISED: kiln_handle_kind = 4;
/// Takes the gradient of `leaf`, a tensor given to kiln_tape_track; both are borrowed.
pub type kiln_leaf_fn = Option<unsafe extern "C" fn(*mut c_void, *mut kiln_tensor, *mut kiln_tensor, *mut kiln_error) -> kiln_status>;
/// A gradient in the caller's words: fills out_gradients[i] with the gradient for input i, which
/// the tape releases, or leaves NULL for 0. `gradients[i]` is that of output i; NULL: 0.
pub type kiln_gradient_fn = Option<unsafe extern "C" fn(*mut c_void, *const *mut kiln_tensor, *mut *mut kiln_tensor, *mut kiln_error) -> kiln_status>;
/// A part of a computation: from `inputs` to `out_outputs`, which the caller releases. It may leave
/// outputs NULL, the same ones each time.
pub type kiln_part_fn = Option<unsafe extern "C" fn(*mut c_void, *const *mut kiln_tensor, *mut *mut kiln_tensor, *mut kiln_error) -> kiln_status>;
pub type kiln_init = c_uint;
/// `center` everywhere
pub const KILN_INIT_CONSTANT: kiln_init = 0;
/// from center - spread to center + spread
pub const KILN_INIT_UNIFORM: kiln_init = 1;
/// around `center` with the deviation `spread`
pub const KILN_INIT_NORMAL: kiln_init = 2;
/// the same, drawn again beyond two deviations
pub const KILN_INIT_TRUNCATED_NORMAL: kiln_init = 3;
/// bound gain * sqrt(6 / (fan_in + fan_out))
pub const KILN_INIT_XAVIER_UNIFORM: kiln_init = 4;
/// deviation gain * sqrt(2 / (fan_in + fan_out))
pub const KILN_INIT_XAVIER_NORMAL: kiln_init = 5;
/// bound gain * sqrt(3 / fan_in)
pub const KILN_INIT_KAIMING_UNIFORM: kiln_init = 6;
/// deviation gain / sqrt(fan_in)
pub const KILN_INIT_KAIMING_NORMAL: kiln_init = 7;
/// gain times a matrix whose shorter side is orthonormal
pub const KILN_INIT_ORTHOGONAL: kiln_init = 8;
/// How a rate changes from step to step. Any thread may call the function below; it cannot fail.
/// NULL where a pointer is needed is INVALID_ARGUMENT; a function without a status then does
/// nothing and gives 0.
pub type kiln_schedule_kind = c_uint;
pub const KILN_SCHEDULE_CONSTANT: kiln_schedule_kind = 0;
/// straight down to `least` at step `steps`
pub const KILN_SCHEDULE_LINEAR: kiln_schedule_kind = 1;
/// half a cosine down to `least` at step `steps`
pub const KILN_SCHEDULE_COSINE: kiln_schedule_kind = 2;
/// times `factor` after each `period` steps
pub const KILN_SCHEDULE_STEP: kiln_schedule_kind = 3;
/// up from a 25th in `rise` of the steps, then down to `least`, by
/// half cosines (Smith and Topin, 2018)
pub const KILN_SCHEDULE_ONE_CYCLE: kiln_schedule_kind = 4;
pub type kiln_optimiser_rule = c_uint;
/// with momentum, if wanted as Nesterov's
pub const KILN_OPTIMISER_SGD: kiln_optimiser_rule = 0;
/// Kingma and Ba, 2015; `decay` joins the gradient
pub const KILN_OPTIMISER_ADAM: kiln_optimiser_rule = 1;
/// Loshchilov and Hutter, 2019; `decay` shrinks the parameter
pub const KILN_OPTIMISER_ADAMW: kiln_optimiser_rule = 2;
/// Chen and others, 2023; `decay` shrinks the parameter
pub const KILN_OPTIMISER_LION: kiln_optimiser_rule = 3;

/// What went wrong, owned by the caller: zero-initialised or KILN_ERROR_INIT, copyable, no
/// heap. `message` is one line of UTF-8 and always terminated.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_error {
    pub struct_size: u32,
    /// kiln_status
    pub code: i32,
    pub line: i32,
    pub reserved: u32,
    /// basename in static storage, or NULL
    pub file: *const c_char,
    pub message: [c_char; 232],
}
/// Memory for everything that Kiln allocates on the host. `alloc` returns NULL when there is none;
/// alignment is a power of two up to 4096. `free` takes NULL. Both may be called from any thread.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_allocator {
    pub alloc: Option<unsafe extern "C" fn(*mut c_void, usize, usize) -> *mut c_void>,
    pub free: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
    pub user: *mut c_void,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_log_record {
    pub struct_size: u32,
    pub level: kiln_log_level,
    /// folder name, such as "cl_backend"
    pub module: *const c_char,
    /// one line, valid during the call
    pub message: *const c_char,
}
/// What a context hands to every module: borrowed by all of them, alive longer than all of them.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_env {
    pub allocator: kiln_allocator,
    /// NULL: silence
    pub log: kiln_log_fn,
    pub log_user: *mut c_void,
    pub config: *mut kiln_config,
}
/// For Kiln's own modules: hashes.
///
/// Unless a function says otherwise: any thread may call it; it cannot fail. No pointer is NULL
/// unless a function takes it.
/// 128 bits of XXH3 (xxhash.com), for keys on disk.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_hash128 {
    pub low: u64,
    pub high: u64,
}
/// Memory that is freed as a whole, aligned to 16. A plain struct: zero it with init. One thread at
/// a time.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_arena {
    pub env: *const kiln_env,
    pub blocks: *mut c_void,
    pub used_bytes: usize,
}
/// A growing text, always terminated after the first append. Without memory `failed` is set and
/// stays set. One thread at a time.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_string {
    pub env: *const kiln_env,
    pub text: *mut c_char,
    pub length: usize,
    pub capacity: usize,
    pub failed: bool,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_npy {
    pub dtype: kiln_dtype,
    pub rank: usize,
    pub dims: [i64; 8],
    /// row-major, malloc
    pub data: *mut c_void,
    pub bytes: usize,
    /// of strings in a file: bytes of each
    pub width: usize,
    /// of strings, whose dtype is NONE: UTF-8, one block with `data` NULL
    pub texts: *mut *const c_char,
}
/// How many times as long one took as another, in pairs measured side by side: the median, and the
/// interval that holds the true one with 95 % certainty; fewer than six pairs give 0 to infinity.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_ratio {
    pub count: usize,
    /// 0: no pairs
    pub median: f64,
    pub low: f64,
    pub high: f64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_blob {
    pub data: *mut c_void,
    pub length: usize,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_store_stat {
    pub entries: [u64; 6],
    pub bytes: [u64; 6],
    pub file_bytes: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_tensor_desc {
    /// unique in the process, never 0, never used again
    pub id: u64,
    pub dtype: kiln_dtype,
    pub rank: u8,
    /// KILN_TENSOR_*
    pub flags: u8,
    /// of its first byte, when placed
    pub align_log2: u8,
    /// of u8: the small float dtype of the bits, for callers only; 0: u8
    pub small: u8,
    /// 0 beyond the rank
    pub dims: [i64; 8],
    /// of a quantised tensor (kiln_scheme_make); 0 otherwise
    pub scheme: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_tensor_const {
    pub desc: kiln_tensor_desc,
    pub data: *const c_void,
}
/// Where the parts of a quantised tensor lie, in bytes from its start.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_quant_layout {
    /// elements
    pub count: i64,
    /// u32 of packed values
    pub words: i64,
    /// number of them
    pub scales: i64,
    pub scales_at: i64,
    /// -1: none
    pub global_at: i64,
    /// all of it
    pub bytes: i64,
    /// along each axis
    pub blocks: [i64; 8],
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_device_info {
    pub name: *const c_char,
    pub vendor: *const c_char,
    pub platform: *const c_char,
    pub driver: *const c_char,
    pub extensions: *const c_char,
    pub r#type: kiln_device_type,
    pub vendor_id: u32,
    pub features: u32,
    pub compute_units: u32,
    /// preferred width of explicit vectors
    pub vector_bytes: u32,
    /// bytes at which a buffer starts at least
    pub memory_align: u32,
    /// 100 * major + 10 * minor; 0 when not OpenCL
    pub cl_version: u32,
    pub memory_bytes: u64,
    pub max_alloc_bytes: u64,
    pub local_bytes: u64,
    /// of the last level, a processor's share of it; 0: not known
    pub cache_bytes: u64,
    pub max_work_group: u64,
    /// a kernel's arguments together; 0: not known
    pub max_parameter_bytes: u64,
    /// measured copy, read plus written
    pub bytes_per_s: u64,
    /// estimate
    pub flops_f32: u64,
    /// measured cost of one more kernel in a queue
    pub launch_ns: u64,
    /// name, driver, platform version, extensions
    pub fingerprint: kiln_hash128,
    /// of a work-group along each dimension; 0: not known
    pub max_work_items: [u64; 3],
    /// estimate; 0: not known
    pub flops_f16: u64,
    /// likewise
    pub flops_f64: u64,
    /// bit KILN_DTYPE_x: computed faster than f32
    pub accelerated_dtypes: u64,
    /// newest OpenCL C that it takes; 0: not known
    pub cl_c_version: u32,
    /// 0: not known
    pub subgroup_size: u32,
    /// 0: not known
    pub cache_line_bytes: u32,
    /// 1: a later process measures speeds again
    pub speeds_doubtful: u32,
    /// of each kiln_op on dense operands, at least; NULL: one each
    pub op_launches: *const u8,
    /// bit n: a kernel may ask for subgroups of 1 << n work-items
    pub subgroup_sizes: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_backend_stats {
    /// calls of execute
    pub ops_executed: u64,
    pub kernels_launched: u64,
    /// matmuls that a BLAS library ran
    pub blas_calls: u64,
    /// from source
    pub programs_built: u64,
    /// from the cache
    pub programs_loaded: u64,
    /// in the compiler; loading from the cache is not among it
    pub build_ns: u64,
    /// held by tensors now
    pub bytes_used: u64,
    pub bytes_peak: u64,
    /// held by the pool, used or not
    pub bytes_pooled: u64,
    pub buffers_live: u64,
    pub bytes_pooled_peak: u64,
    /// what the device may hold; 0: no limit is known
    pub bytes_budget: u64,
    /// allocations that an idle buffer served
    pub pool_reuses: u64,
    /// that the driver holds now
    pub programs_live: u64,
    /// of them: those that nobody holds
    pub programs_idle: u64,
    /// of the host that they take, estimated
    pub program_bytes: u64,
    pub kernels_live: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_context_options {
    pub struct_size: u32,
    /// 1: options from the environment are not read
    pub ignore_environment: u32,
    /// file of options, or NULL
    pub config_path: *const c_char,
    /// NULL: the C library's
    pub allocator: *const kiln_allocator,
    /// NULL: silence
    pub log: kiln_log_fn,
    pub log_user: *mut c_void,
}
/// How a device is opened. Dtypes are those of what operations make where the call names none; 0:
/// f32 and i64. `plan_for` needs the option `compiler` as `record`, or the device `null`, which
/// runs nothing; NULL: plans are for the device itself.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_device_options {
    pub struct_size: u32,
    pub float_dtype: kiln_dtype,
    pub int_dtype: kiln_dtype,
    /// another one (kiln_bundle_facts_read)
    pub plan_for: *const kiln_device_info,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_device_stats {
    pub struct_size: u32,
    pub reserved: u32,
    /// operations, drops not counted
    pub ops_recorded: u64,
    /// fused blocks that ran
    pub blocks_fused: u64,
    /// operations in them
    pub ops_fused: u64,
    /// segments that fusers were asked about
    pub plans_searched: u64,
    /// segments whose plan was known
    pub plans_found: u64,
    pub tensors_live: u64,
    pub backend: kiln_backend_stats,
    /// of buffers that tensors hold, and the arena
    pub bytes_live: u64,
    /// kept for what dies inside plans
    pub bytes_arena: u64,
    /// of queued results that were not released
    pub bytes_pending: u64,
    /// values whose memory was assigned with their plan
    pub values_planned: u64,
    /// times that queued work was run for lack of memory
    pub early_runs: u64,
    /// index operands with values outside, found in checked mode
    pub indices_outside: u64,
    /// whose candidates have competed
    pub blocks_measured: u64,
    /// of backend.kernels_launched: those of tournaments
    pub kernels_measuring: u64,
    /// of backend.blas_calls: those of tournaments
    pub blas_measuring: u64,
    /// that tournaments took, compiling included
    pub measuring_ns: u64,
    /// of tensors made from memory; large constants of files not
    pub bytes_uploaded: u64,
    /// by the host
    pub bytes_read: u64,
    /// in memory now
    pub plans_kept: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_graph_info {
    pub struct_size: u32,
    pub reserved: u32,
    /// operations, drops not counted
    pub ops: u64,
    /// fused blocks, without those that failed
    pub blocks: u64,
    /// operations in them
    pub ops_fused: u64,
    /// what one run enqueues: launches and single operations
    pub steps: u64,
    /// fused blocks whose candidates were never measured for these shapes
    pub blocks_open: u64,
    /// run as single operations: a capture anew asks the next fuser
    pub blocks_failed: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_bundle_options {
    pub struct_size: u32,
    /// 1: a program without a binary is an error, also where it could be made
    pub no_compile: u32,
    /// 1: every program is compiled, as before its binary is written
    pub no_binaries: u32,
    /// 1: memory for intermediate values is filled with ones first, for tests
    pub poison: u32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_bundle_value {
    pub name: *const c_char,
    pub dtype: kiln_dtype,
    pub rank: u32,
    pub dims: [i64; 8],
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_bundle_info {
    pub struct_size: u32,
    /// sets of shapes that it runs for
    pub n_shapes: u32,
    pub n_inputs: u32,
    pub n_outputs: u32,
    pub n_programs: u32,
    /// of the programs: made from source, or found in the cache, by this open
    pub compiled: u32,
    /// from a binary beside the sources
    pub loaded: u32,
    /// changes of program from launch to launch, in a run of the first set of
    /// shapes: what an FPGA pays with a bitstream for each
    pub reprograms: u32,
    pub constant_bytes: u64,
    pub scratch_bytes: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_bundle_work {
    pub struct_size: u32,
    pub n_inputs: u32,
    pub n_outputs: u32,
    pub reserved: u32,
    pub graph: *mut kiln_graph,
    pub device: *mut kiln_device,
    pub inputs: *const *mut kiln_tensor,
    /// of the same shapes with other values: what it does must not
    /// depend on them
    pub others: *const *mut kiln_tensor,
    pub input_names: *const *const c_char,
    pub output_names: *const *const c_char,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub union kiln_attr_v {
    /// I64, BOOL, DTYPE
    pub i: i64,
    pub f: f64,
    pub ints: *const i64,
    pub floats: *const f64,
    /// terminated
    pub text: *const c_char,
    pub tensor: *const kiln_tensor_const,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_attr {
    pub r#type: kiln_attr_type,
    /// elements of a list, bytes of a string, 1 otherwise
    pub count: u32,
    pub v: kiln_attr_v,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_attr_spec {
    pub key: kiln_attr_key,
    pub role: kiln_attr_role,
    /// absent means `fallback`: number, truth, empty list, or `fallback_text`
    pub optional: bool,
    pub fallback: f64,
    pub fallback_text: *const c_char,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_op_signature {
    /// names in order; data inputs first, all of one
    /// dtype unless a bit below says otherwise
    pub inputs: [*const c_char; 8],
    /// names of the results of an operator with several
    pub outputs: [*const c_char; 6],
    pub min_inputs: u8,
    /// KILN_MAX_INPUTS: variadic, and inputs[0] names the list
    pub max_inputs: u8,
    /// bit i: input i is bool whatever the others are
    pub mask_inputs: u8,
    /// bit i: input i is i32 or i64 whatever the others are
    pub index_inputs: u8,
    /// bit i: the shape function checks the dtype of input i
    pub free_inputs: u8,
    /// bit i: input i may be quantised; all others are refused
    pub quant_inputs: u8,
    /// a rule that is not in this table checks inputs and says how many outputs
    pub foreign: bool,
    pub n_attrs: u8,
    pub attrs: [kiln_attr_spec; 8],
}
/// One recorded operation: a snapshot of its tensors and its attributes in the order of the schema.
/// All pointers are borrowed from the record's owner.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_op_record {
    pub op: kiln_op,
    pub n_inputs: u16,
    pub n_outputs: u8,
    pub n_attrs: u8,
    pub inputs: *const kiln_tensor_desc,
    pub outputs: *const kiln_tensor_desc,
    pub attrs: *const kiln_attr,
    /// of KILN_OP_CUSTOM: what it stands for; NULL: not
    /// looked up, so outputs are as somebody stated them
    pub custom: *const kiln_custom_op,
}
/// A row of the table.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_op_info {
    pub name: *const c_char,
    pub wire: u16,
    pub since: u16,
    pub cls: kiln_op_class,
    pub n_outputs: u8,
    pub accept: kiln_accept,
    pub result: kiln_result,
    pub signature: *const kiln_op_signature,
    pub shape: kiln_shape_fn,
    pub reference: kiln_reference_fn,
    /// of a composite, see kiln_ir_expand; else NULL
    pub decompose: kiln_decompose_fn,
    pub doc: *const c_char,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_custom_param {
    pub name: *const c_char,
    /// I64, F64, BOOL, DTYPE, I64_LIST, F64_LIST or STRING
    pub r#type: kiln_attr_type,
    pub required: bool,
    /// of the type, unless required
    pub fallback: kiln_attr,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_custom_attr {
    pub name: *const c_char,
    pub value: kiln_attr,
}
/// An operator that a plugin brings. `gradient`, of the same version and parameters, takes its
/// inputs, its outputs and the gradients of outputs of floats, and gives those of inputs of floats.
/// `values`: one for each parameter. `infer` gets a call whose
/// form and inputs are checked and fills the outputs' dtype, rank and dims; `reference` evaluates
/// on the host: `memory` holds the address of the first element of inputs, then of outputs; NULL
/// for a tensor without elements. Both are pure functions and may be called from any thread.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_custom_op {
    pub env: *const kiln_env,
    /// "domain::name"
    pub name: *const c_char,
    pub version: u32,
    /// at least 1
    pub min_inputs: u32,
    pub max_inputs: u32,
    pub n_outputs: u32,
    pub n_params: u32,
    pub params: *const kiln_custom_param,
    /// the operator that gives its gradients; NULL: none
    pub gradient: *const c_char,
    pub infer: Option<unsafe extern "C" fn(*const kiln_custom_op, *const kiln_op_record, *const kiln_attr, *mut kiln_tensor_desc, *mut kiln_error) -> kiln_status>,
    pub reference: Option<unsafe extern "C" fn(*const kiln_custom_op, *const kiln_op_record, *const kiln_attr, *const kiln_view, *const kiln_view, *const *mut c_void, *mut kiln_error) -> kiln_status>,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_custom_call {
    pub struct_size: u32,
    /// the newest that is not newer is taken; 0: the newest
    pub version: u32,
    /// "domain::name"
    pub name: *const c_char,
    pub inputs: *const *mut kiln_tensor,
    /// at least 1
    pub n_inputs: usize,
    /// by name, in any order; what is left out has its default
    pub attrs: *const kiln_custom_attr,
    pub n_attrs: usize,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_gradsync_options {
    pub struct_size: u32,
    /// 1: with the members of all processes (kiln_collective_create_mpi)
    pub over_mpi: u32,
    /// "sum" or "mean"; NULL: mean
    pub op: *const c_char,
    /// of each wait; 0: 30 seconds
    pub deadline_ns: u64,
    /// parameters below this travel together, up to this; 0: 1 MiB
    pub bucket_bytes: u64,
    /// algorithms for larger ones, as collective.h has it; NULL: the table's
    pub select: *const c_char,
}
/// How the values of a graph share memory.
///
/// Unless a function says otherwise: one thread at a time uses a graph; names are borrowed and live
/// as long as it. What is asked is known from the first run on: before it, and where the device's
/// memory is not planned (remote devices plan on the server), each function gives
/// FAILED_PRECONDITION. The caller sets `struct_size` before. NULL where a pointer is needed is
/// INVALID_ARGUMENT; a function without a status then does nothing and gives 0.
/// How the values of a graph share memory, for the shapes of its capture. What dies inside the
/// graph lies in the device's arena, one for all plans, or in a result that is not written yet; a
/// run asks the pool for its results alone. Inputs are not counted.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_graph_memory {
    pub struct_size: u32,
    pub steps: u32,
    /// what a run writes: results, intermediates, temporaries
    pub values: u32,
    /// of them without asking the pool
    pub values_planned: u32,
    /// of them in the memory of one that dies
    pub values_in_place: u32,
    pub reserved: u32,
    /// most that is alive at once: no assignment needs less
    pub bound_bytes: u64,
    /// what a run holds: arena and results
    pub peak_bytes: u64,
    pub arena_bytes: u64,
    pub result_bytes: u64,
    /// the sum of all: what it would be without sharing
    pub all_bytes: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_graph_memory_value {
    pub struct_size: u32,
    pub kind: kiln_memory_kind,
    pub home: kiln_memory_home,
    /// that writes it
    pub first_step: u32,
    /// that needs it; of a result the number of steps
    pub last_step: u32,
    /// 1: it takes over the memory of a value that dies in its first step
    pub in_place: u32,
    pub bytes: u64,
    /// ARENA
    pub offset_bytes: u64,
    /// its number in kiln_graph_explained; UINT32_MAX: of no tensor
    pub tensor: u32,
    pub reserved: u32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_graph_memory_step {
    pub struct_size: u32,
    /// the fused block that it belongs to; UINT32_MAX: none
    pub block: u32,
    /// operator, or kernel of a fused program
    pub name: *const c_char,
    /// of tensors that it makes
    pub written_bytes: u64,
    /// alive during it
    pub temporary_bytes: u64,
    /// alive during it, all together
    pub live_bytes: u64,
}
/// Memory of the caller's that holds a constant, dense and row-major, at any address, and stays as
/// it is until `release`. The functions come on any thread and must not call Kiln.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_constant_memory {
    pub struct_size: u32,
    pub bytes: *const c_void,
    /// These bytes were copied and are not read again soon, so that pages of a file may go; may be
    /// NULL.
    pub copied: Option<unsafe extern "C" fn(*mut c_void, usize, usize)>,
    /// called once, as that of kiln_tensor_wrap; may be NULL
    pub release: Option<unsafe extern "C" fn(*mut c_void)>,
    pub user: *mut c_void,
    /// Names these bytes beyond this process, so that a server that has them is found without
    /// reading them: of a file its device, number, size, times, and the place in it. Zeros:
    /// unknown.
    pub stamp: kiln_hash128,
    /// Writes `bytes` of the tensor's from `offset` on to `out`, whenever they are needed: of a
    /// constant that is made of the memory and does not lie in it, such as weights that are rounded
    /// on their way; NULL: it lies there.
    pub read: Option<unsafe extern "C" fn(*mut c_void, usize, usize, *mut c_void)>,
}
/// Plugins of a context: what was loaded, and why others were not.
///
/// Unless a function says otherwise: any thread may call it; its arguments are borrowed for the
/// call; it can fail with INVALID_ARGUMENT or RESOURCE_EXHAUSTED. NULL where a pointer is needed is
/// INVALID_ARGUMENT; a function without a status then does nothing and gives 0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_plugin_info {
    pub struct_size: u32,
    pub n_fusers: u32,
    pub path: *const c_char,
    pub id: *const c_char,
    pub version: *const c_char,
    pub vendor: *const c_char,
    /// "taken", "refused" or "off"
    pub state: *const c_char,
    /// one line: why
    pub reason: *const c_char,
    pub load_ns: u64,
    pub n_operators: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub union kiln_number_v {
    pub i: i64,
    pub f: f64,
}
/// Operations by number; kiln_ops.h has them by name.
///
/// Unless a function says otherwise: any thread may call it; its arguments are borrowed for the
/// call; the caller holds each tensor that it gives; operations of one thread on one device run in
/// the order of recording; it can fail with INVALID_ARGUMENT or RESOURCE_EXHAUSTED. NULL where a
/// pointer is needed is INVALID_ARGUMENT; a function without a status then does nothing and gives
/// 0.
/// A scalar operand: kiln_f64(0.5) or kiln_i64(3). It is converted to the dtype of the operation.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_number {
    pub is_integer: bool,
    pub v: kiln_number_v,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_conv_options {
    pub struct_size: u32,
    /// step of the window along each spatial axis
    pub strides: *const i64,
    pub n_strides: usize,
    /// elements added: all beginnings, then all ends
    pub padding: *const i64,
    pub n_padding: usize,
    /// distance of window elements along each spatial axis
    pub dilations: *const i64,
    pub n_dilations: usize,
    /// number of channel groups
    pub groups: i64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_conv_integer_options {
    pub struct_size: u32,
    /// step of the window along each spatial axis
    pub strides: *const i64,
    pub n_strides: usize,
    /// elements added: all beginnings, then all ends
    pub padding: *const i64,
    pub n_padding: usize,
    /// distance of window elements along each spatial axis
    pub dilations: *const i64,
    pub n_dilations: usize,
    /// number of channel groups
    pub groups: i64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_conv_transpose_options {
    pub struct_size: u32,
    /// step of the window along each spatial axis
    pub strides: *const i64,
    pub n_strides: usize,
    /// elements added: all beginnings, then all ends
    pub padding: *const i64,
    pub n_padding: usize,
    /// distance of window elements along each spatial axis
    pub dilations: *const i64,
    pub n_dilations: usize,
    /// number of channel groups
    pub groups: i64,
    /// elements appended to the result along each spatial axis
    pub output_padding: *const i64,
    pub n_output_padding: usize,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_conv_x_backward_options {
    pub struct_size: u32,
    /// lengths of the result
    pub shape: *const i64,
    pub n_shape: usize,
    /// step of the window along each spatial axis
    pub strides: *const i64,
    pub n_strides: usize,
    /// elements added: all beginnings, then all ends
    pub padding: *const i64,
    pub n_padding: usize,
    /// distance of window elements along each spatial axis
    pub dilations: *const i64,
    pub n_dilations: usize,
    /// number of channel groups
    pub groups: i64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_conv_weight_backward_options {
    pub struct_size: u32,
    /// lengths of the result
    pub shape: *const i64,
    pub n_shape: usize,
    /// step of the window along each spatial axis
    pub strides: *const i64,
    pub n_strides: usize,
    /// elements added: all beginnings, then all ends
    pub padding: *const i64,
    pub n_padding: usize,
    /// distance of window elements along each spatial axis
    pub dilations: *const i64,
    pub n_dilations: usize,
    /// number of channel groups
    pub groups: i64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_conv_transpose_x_backward_options {
    pub struct_size: u32,
    /// lengths of the result
    pub shape: *const i64,
    pub n_shape: usize,
    /// step of the window along each spatial axis
    pub strides: *const i64,
    pub n_strides: usize,
    /// elements added: all beginnings, then all ends
    pub padding: *const i64,
    pub n_padding: usize,
    /// distance of window elements along each spatial axis
    pub dilations: *const i64,
    pub n_dilations: usize,
    /// number of channel groups
    pub groups: i64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_conv_transpose_weight_backward_options {
    pub struct_size: u32,
    /// lengths of the result
    pub shape: *const i64,
    pub n_shape: usize,
    /// step of the window along each spatial axis
    pub strides: *const i64,
    pub n_strides: usize,
    /// elements added: all beginnings, then all ends
    pub padding: *const i64,
    pub n_padding: usize,
    /// distance of window elements along each spatial axis
    pub dilations: *const i64,
    pub n_dilations: usize,
    /// number of channel groups
    pub groups: i64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_im2col_options {
    pub struct_size: u32,
    /// window length along each spatial axis
    pub kernel: *const i64,
    pub n_kernel: usize,
    /// step of the window along each spatial axis
    pub strides: *const i64,
    pub n_strides: usize,
    /// elements added: all beginnings, then all ends
    pub padding: *const i64,
    pub n_padding: usize,
    /// distance of window elements along each spatial axis
    pub dilations: *const i64,
    pub n_dilations: usize,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_col2im_options {
    pub struct_size: u32,
    /// spatial lengths of the result
    pub output_size: *const i64,
    pub n_output_size: usize,
    /// window length along each spatial axis
    pub kernel: *const i64,
    pub n_kernel: usize,
    /// step of the window along each spatial axis
    pub strides: *const i64,
    pub n_strides: usize,
    /// elements added: all beginnings, then all ends
    pub padding: *const i64,
    pub n_padding: usize,
    /// distance of window elements along each spatial axis
    pub dilations: *const i64,
    pub n_dilations: usize,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_deform_im2col_options {
    pub struct_size: u32,
    /// window length along each spatial axis
    pub kernel: *const i64,
    pub n_kernel: usize,
    /// step of the window along each spatial axis
    pub strides: *const i64,
    pub n_strides: usize,
    /// elements added: all beginnings, then all ends
    pub padding: *const i64,
    pub n_padding: usize,
    /// distance of window elements along each spatial axis
    pub dilations: *const i64,
    pub n_dilations: usize,
    /// groups of channels that share offsets
    pub offset_groups: i64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_deform_im2col_backward_options {
    pub struct_size: u32,
    /// window length along each spatial axis
    pub kernel: *const i64,
    pub n_kernel: usize,
    /// step of the window along each spatial axis
    pub strides: *const i64,
    pub n_strides: usize,
    /// elements added: all beginnings, then all ends
    pub padding: *const i64,
    pub n_padding: usize,
    /// distance of window elements along each spatial axis
    pub dilations: *const i64,
    pub n_dilations: usize,
    /// groups of channels that share offsets
    pub offset_groups: i64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_deform_conv_options {
    pub struct_size: u32,
    /// step of the window along each spatial axis
    pub strides: *const i64,
    pub n_strides: usize,
    /// elements added: all beginnings, then all ends
    pub padding: *const i64,
    pub n_padding: usize,
    /// distance of window elements along each spatial axis
    pub dilations: *const i64,
    pub n_dilations: usize,
    /// number of channel groups
    pub groups: i64,
    /// groups of channels that share offsets
    pub offset_groups: i64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_deform_conv_backward_options {
    pub struct_size: u32,
    /// step of the window along each spatial axis
    pub strides: *const i64,
    pub n_strides: usize,
    /// elements added: all beginnings, then all ends
    pub padding: *const i64,
    pub n_padding: usize,
    /// distance of window elements along each spatial axis
    pub dilations: *const i64,
    pub n_dilations: usize,
    /// number of channel groups
    pub groups: i64,
    /// groups of channels that share offsets
    pub offset_groups: i64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_max_pool_options {
    pub struct_size: u32,
    /// window length along each spatial axis
    pub kernel: *const i64,
    pub n_kernel: usize,
    /// step of the window along each spatial axis
    pub strides: *const i64,
    pub n_strides: usize,
    /// elements added: all beginnings, then all ends
    pub padding: *const i64,
    pub n_padding: usize,
    /// distance of window elements along each spatial axis
    pub dilations: *const i64,
    pub n_dilations: usize,
    /// round the number of windows up; each must start inside input or left padding
    pub ceil_mode: bool,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_avg_pool_options {
    pub struct_size: u32,
    /// window length along each spatial axis
    pub kernel: *const i64,
    pub n_kernel: usize,
    /// step of the window along each spatial axis
    pub strides: *const i64,
    pub n_strides: usize,
    /// elements added: all beginnings, then all ends
    pub padding: *const i64,
    pub n_padding: usize,
    /// distance of window elements along each spatial axis
    pub dilations: *const i64,
    pub n_dilations: usize,
    /// round the number of windows up; each must start inside input or left padding
    pub ceil_mode: bool,
    /// divide by the window length with its padding
    pub include_pad: bool,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_lp_pool_options {
    pub struct_size: u32,
    /// window length along each spatial axis
    pub kernel: *const i64,
    pub n_kernel: usize,
    /// step of the window along each spatial axis
    pub strides: *const i64,
    pub n_strides: usize,
    /// elements added: all beginnings, then all ends
    pub padding: *const i64,
    pub n_padding: usize,
    /// distance of window elements along each spatial axis
    pub dilations: *const i64,
    pub n_dilations: usize,
    /// round the number of windows up; each must start inside input or left padding
    pub ceil_mode: bool,
    /// exponent of the norm
    pub p: f64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_max_pool_with_indices_options {
    pub struct_size: u32,
    /// window length along each spatial axis
    pub kernel: *const i64,
    pub n_kernel: usize,
    /// step of the window along each spatial axis
    pub strides: *const i64,
    pub n_strides: usize,
    /// elements added: all beginnings, then all ends
    pub padding: *const i64,
    pub n_padding: usize,
    /// distance of window elements along each spatial axis
    pub dilations: *const i64,
    pub n_dilations: usize,
    /// round the number of windows up; each must start inside input or left padding
    pub ceil_mode: bool,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_max_pool_backward_options {
    pub struct_size: u32,
    /// lengths of the result
    pub shape: *const i64,
    pub n_shape: usize,
    /// window length along each spatial axis
    pub kernel: *const i64,
    pub n_kernel: usize,
    /// step of the window along each spatial axis
    pub strides: *const i64,
    pub n_strides: usize,
    /// elements added: all beginnings, then all ends
    pub padding: *const i64,
    pub n_padding: usize,
    /// distance of window elements along each spatial axis
    pub dilations: *const i64,
    pub n_dilations: usize,
    /// round the number of windows up; each must start inside input or left padding
    pub ceil_mode: bool,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_avg_pool_backward_options {
    pub struct_size: u32,
    /// lengths of the result
    pub shape: *const i64,
    pub n_shape: usize,
    /// window length along each spatial axis
    pub kernel: *const i64,
    pub n_kernel: usize,
    /// step of the window along each spatial axis
    pub strides: *const i64,
    pub n_strides: usize,
    /// elements added: all beginnings, then all ends
    pub padding: *const i64,
    pub n_padding: usize,
    /// distance of window elements along each spatial axis
    pub dilations: *const i64,
    pub n_dilations: usize,
    /// round the number of windows up; each must start inside input or left padding
    pub ceil_mode: bool,
    /// divide by the window length with its padding
    pub include_pad: bool,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_interpolate_options {
    pub struct_size: u32,
    /// spatial lengths of the result
    pub output_size: *const i64,
    pub n_output_size: usize,
    /// named variant
    pub mode: *const c_char,
    /// where elements of the result lie in the input, by ONNX's names
    pub coordinates: *const c_char,
    /// lengths of the result by those of the input, of the last axes; 0 or absent: what they are
    pub scales: *const f64,
    pub n_scales: usize,
    /// of the last axes, all beginnings and all ends as parts of the input
    pub region: *const f64,
    pub n_region: usize,
    /// the free coefficient of the cubic filter
    pub cubic_a: f64,
    /// weights outside the input are 0 and the others scaled to 1
    pub exclude_outside: bool,
    /// filters as wide as the elements of the result
    pub antialias: bool,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_interpolate_backward_options {
    pub struct_size: u32,
    /// lengths of the result
    pub shape: *const i64,
    pub n_shape: usize,
    /// named variant
    pub mode: *const c_char,
    /// where elements of the result lie in the input, by ONNX's names
    pub coordinates: *const c_char,
    /// lengths of the result by those of the input, of the last axes; 0 or absent: what they are
    pub scales: *const f64,
    pub n_scales: usize,
    /// of the last axes, all beginnings and all ends as parts of the input
    pub region: *const f64,
    pub n_region: usize,
    /// the free coefficient of the cubic filter
    pub cubic_a: f64,
    /// weights outside the input are 0 and the others scaled to 1
    pub exclude_outside: bool,
    /// filters as wide as the elements of the result
    pub antialias: bool,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_lstm_options {
    pub struct_size: u32,
    /// forward, reverse or bidirectional
    pub direction: *const c_char,
    /// names with commas, for each direction; empty: the usual ones
    pub activations: *const c_char,
    /// alpha of each activation; empty: the usual ones
    pub alphas: *const f64,
    pub n_alphas: usize,
    /// beta of each activation; empty: the usual ones
    pub betas: *const f64,
    pub n_betas: usize,
    /// bound of what activations get; 0: none
    pub clip: f64,
    /// the forget gate is 1 - the input gate
    pub input_forget: bool,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_gru_options {
    pub struct_size: u32,
    /// forward, reverse or bidirectional
    pub direction: *const c_char,
    /// names with commas, for each direction; empty: the usual ones
    pub activations: *const c_char,
    /// alpha of each activation; empty: the usual ones
    pub alphas: *const f64,
    pub n_alphas: usize,
    /// beta of each activation; empty: the usual ones
    pub betas: *const f64,
    pub n_betas: usize,
    /// bound of what activations get; 0: none
    pub clip: f64,
    /// the reset gate acts after the matrix product
    pub reset_after: bool,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_rnn_options {
    pub struct_size: u32,
    /// forward, reverse or bidirectional
    pub direction: *const c_char,
    /// names with commas, for each direction; empty: the usual ones
    pub activations: *const c_char,
    /// alpha of each activation; empty: the usual ones
    pub alphas: *const f64,
    pub n_alphas: usize,
    /// beta of each activation; empty: the usual ones
    pub betas: *const f64,
    pub n_betas: usize,
    /// bound of what activations get; 0: none
    pub clip: f64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_init_options {
    pub struct_size: u32,
    pub kind: kiln_init,
    pub center: f64,
    /// 0: 1
    pub spread: f64,
    /// 0: 1; of Kaiming sqrt(2), which suits relu
    pub gain: f64,
    /// 0: axis 1 times the axes behind it, as a layer's weight (out, in, ..) has it
    pub fan_in: i64,
    /// 0: axis 0 times the axes behind axis 1
    pub fan_out: i64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_schedule {
    pub struct_size: u32,
    pub kind: kiln_schedule_kind,
    /// steps in which the rate first rises in a straight line; not of one-cycle
    pub warmup: u64,
    /// of the whole training, the warm-up included
    pub steps: u64,
    pub period: u64,
    /// 0: 0.1
    pub factor: f64,
    /// part of the full rate; 0 of one-cycle: 4e-6
    pub least: f64,
    /// 0: 0.3
    pub rise: f64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_optimiser_options {
    pub struct_size: u32,
    pub rule: kiln_optimiser_rule,
    /// 0: 0.001
    pub rate: f64,
    /// of SGD
    pub momentum: f64,
    /// of SGD: 1: the step looks ahead
    pub nesterov: u32,
    /// 1: the step becomes a graph at its first run, and runs in place
    pub captured: u32,
    /// 0: 0.9
    pub beta1: f64,
    /// 0: 0.999; of Lion 0.99
    pub beta2: f64,
    /// 0: 1e-8
    pub epsilon: f64,
    /// of weights
    pub decay: f64,
    /// gradients are scaled down to this norm of all of them together; 0: never
    pub clip: f64,
    /// copied; NULL: constant
    pub schedule: *const kiln_schedule,
    /// where scaling of the loss begins, such as 65536; 0: no scaling
    pub loss_scale: f64,
    /// good steps after which the scale doubles; 0: 2000
    pub scale_period: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_sharded_options {
    pub struct_size: u32,
    /// 1: after a step values may be on their way still, see kiln_sharded_step
    pub late: u32,
    /// parameters travel together until they have this; 0: a sixteenth of
    /// all, from 4 to 64 MiB
    pub bucket_bytes: u64,
    /// copied; NULL: the defaults
    pub optimiser: *const kiln_optimiser_options,
}

structs! {
    kiln_error { struct_size, code, line, reserved, file, message }
    kiln_allocator { alloc, free, user }
    kiln_log_record { struct_size, level, module, message }
    kiln_env { allocator, log, log_user, config }
    kiln_hash128 { low, high }
    kiln_arena { env, blocks, used_bytes }
    kiln_string { env, text, length, capacity, failed }
    kiln_npy { dtype, rank, dims, data, bytes, width, texts }
    kiln_ratio { count, median, low, high }
    kiln_blob { data, length }
    kiln_store_stat { entries, bytes, file_bytes }
    kiln_tensor_desc { id, dtype, rank, flags, align_log2, small, dims, scheme }
    kiln_tensor_const { desc, data }
    kiln_quant_layout { count, words, scales, scales_at, global_at, bytes, blocks }
    kiln_device_info { name, vendor, platform, driver, extensions, r#type, vendor_id, features, compute_units, vector_bytes, memory_align, cl_version, memory_bytes, max_alloc_bytes, local_bytes, cache_bytes, max_work_group, max_parameter_bytes, bytes_per_s, flops_f32, launch_ns, fingerprint, max_work_items, flops_f16, flops_f64, accelerated_dtypes, cl_c_version, subgroup_size, cache_line_bytes, speeds_doubtful, op_launches, subgroup_sizes }
    kiln_backend_stats { ops_executed, kernels_launched, blas_calls, programs_built, programs_loaded, build_ns, bytes_used, bytes_peak, bytes_pooled, buffers_live, bytes_pooled_peak, bytes_budget, pool_reuses, programs_live, programs_idle, program_bytes, kernels_live }
    kiln_context_options { struct_size, ignore_environment, config_path, allocator, log, log_user }
    kiln_device_options { struct_size, float_dtype, int_dtype, plan_for }
    kiln_device_stats { struct_size, reserved, ops_recorded, blocks_fused, ops_fused, plans_searched, plans_found, tensors_live, backend, bytes_live, bytes_arena, bytes_pending, values_planned, early_runs, indices_outside, blocks_measured, kernels_measuring, blas_measuring, measuring_ns, bytes_uploaded, bytes_read, plans_kept }
    kiln_graph_info { struct_size, reserved, ops, blocks, ops_fused, steps, blocks_open, blocks_failed }
    kiln_bundle_options { struct_size, no_compile, no_binaries, poison }
    kiln_bundle_value { name, dtype, rank, dims }
    kiln_bundle_info { struct_size, n_shapes, n_inputs, n_outputs, n_programs, compiled, loaded, reprograms, constant_bytes, scratch_bytes }
    kiln_bundle_work { struct_size, n_inputs, n_outputs, reserved, graph, device, inputs, others, input_names, output_names }
    kiln_attr_v { i, f, ints, floats, text, tensor }
    kiln_attr { r#type, count, v }
    kiln_attr_spec { key, role, optional, fallback, fallback_text }
    kiln_op_signature { inputs, outputs, min_inputs, max_inputs, mask_inputs, index_inputs, free_inputs, quant_inputs, foreign, n_attrs, attrs }
    kiln_op_record { op, n_inputs, n_outputs, n_attrs, inputs, outputs, attrs, custom }
    kiln_op_info { name, wire, since, cls, n_outputs, accept, result, signature, shape, reference, decompose, doc }
    kiln_custom_param { name, r#type, required, fallback }
    kiln_custom_attr { name, value }
    kiln_custom_op { env, name, version, min_inputs, max_inputs, n_outputs, n_params, params, gradient, infer, reference }
    kiln_custom_call { struct_size, version, name, inputs, n_inputs, attrs, n_attrs }
    kiln_gradsync_options { struct_size, over_mpi, op, deadline_ns, bucket_bytes, select }
    kiln_graph_memory { struct_size, steps, values, values_planned, values_in_place, reserved, bound_bytes, peak_bytes, arena_bytes, result_bytes, all_bytes }
    kiln_graph_memory_value { struct_size, kind, home, first_step, last_step, in_place, bytes, offset_bytes, tensor, reserved }
    kiln_graph_memory_step { struct_size, block, name, written_bytes, temporary_bytes, live_bytes }
    kiln_constant_memory { struct_size, bytes, copied, release, user, stamp, read }
    kiln_plugin_info { struct_size, n_fusers, path, id, version, vendor, state, reason, load_ns, n_operators }
    kiln_number_v { i, f }
    kiln_number { is_integer, v }
    kiln_conv_options { struct_size, strides, n_strides, padding, n_padding, dilations, n_dilations, groups }
    kiln_conv_integer_options { struct_size, strides, n_strides, padding, n_padding, dilations, n_dilations, groups }
    kiln_conv_transpose_options { struct_size, strides, n_strides, padding, n_padding, dilations, n_dilations, groups, output_padding, n_output_padding }
    kiln_conv_x_backward_options { struct_size, shape, n_shape, strides, n_strides, padding, n_padding, dilations, n_dilations, groups }
    kiln_conv_weight_backward_options { struct_size, shape, n_shape, strides, n_strides, padding, n_padding, dilations, n_dilations, groups }
    kiln_conv_transpose_x_backward_options { struct_size, shape, n_shape, strides, n_strides, padding, n_padding, dilations, n_dilations, groups }
    kiln_conv_transpose_weight_backward_options { struct_size, shape, n_shape, strides, n_strides, padding, n_padding, dilations, n_dilations, groups }
    kiln_im2col_options { struct_size, kernel, n_kernel, strides, n_strides, padding, n_padding, dilations, n_dilations }
    kiln_col2im_options { struct_size, output_size, n_output_size, kernel, n_kernel, strides, n_strides, padding, n_padding, dilations, n_dilations }
    kiln_deform_im2col_options { struct_size, kernel, n_kernel, strides, n_strides, padding, n_padding, dilations, n_dilations, offset_groups }
    kiln_deform_im2col_backward_options { struct_size, kernel, n_kernel, strides, n_strides, padding, n_padding, dilations, n_dilations, offset_groups }
    kiln_deform_conv_options { struct_size, strides, n_strides, padding, n_padding, dilations, n_dilations, groups, offset_groups }
    kiln_deform_conv_backward_options { struct_size, strides, n_strides, padding, n_padding, dilations, n_dilations, groups, offset_groups }
    kiln_max_pool_options { struct_size, kernel, n_kernel, strides, n_strides, padding, n_padding, dilations, n_dilations, ceil_mode }
    kiln_avg_pool_options { struct_size, kernel, n_kernel, strides, n_strides, padding, n_padding, dilations, n_dilations, ceil_mode, include_pad }
    kiln_lp_pool_options { struct_size, kernel, n_kernel, strides, n_strides, padding, n_padding, dilations, n_dilations, ceil_mode, p }
    kiln_max_pool_with_indices_options { struct_size, kernel, n_kernel, strides, n_strides, padding, n_padding, dilations, n_dilations, ceil_mode }
    kiln_max_pool_backward_options { struct_size, shape, n_shape, kernel, n_kernel, strides, n_strides, padding, n_padding, dilations, n_dilations, ceil_mode }
    kiln_avg_pool_backward_options { struct_size, shape, n_shape, kernel, n_kernel, strides, n_strides, padding, n_padding, dilations, n_dilations, ceil_mode, include_pad }
    kiln_interpolate_options { struct_size, output_size, n_output_size, mode, coordinates, scales, n_scales, region, n_region, cubic_a, exclude_outside, antialias }
    kiln_interpolate_backward_options { struct_size, shape, n_shape, mode, coordinates, scales, n_scales, region, n_region, cubic_a, exclude_outside, antialias }
    kiln_lstm_options { struct_size, direction, activations, alphas, n_alphas, betas, n_betas, clip, input_forget }
    kiln_gru_options { struct_size, direction, activations, alphas, n_alphas, betas, n_betas, clip, reset_after }
    kiln_rnn_options { struct_size, direction, activations, alphas, n_alphas, betas, n_betas, clip }
    kiln_init_options { struct_size, kind, center, spread, gain, fan_in, fan_out }
    kiln_schedule { struct_size, kind, warmup, steps, period, factor, least, rise }
    kiln_optimiser_options { struct_size, rule, rate, momentum, nesterov, captured, beta1, beta2, epsilon, decay, clip, schedule, loss_scale, scale_period }
    kiln_sharded_options { struct_size, late, bucket_bytes, optimiser }
}

extern "C" {
    /// Name of a dtype, "f32"; NULL for a number that is none.
    pub fn kiln_dtype_name(dtype: kiln_dtype) -> *const c_char;
    /// Bytes of one element; 0 for a quantised dtype and for a number that is none.
    pub fn kiln_dtype_size(dtype: kiln_dtype) -> usize;
    /// Kind of a dtype; KILN_KIND_NONE for a number that is none.
    pub fn kiln_dtype_kind_of(dtype: kiln_dtype) -> kiln_dtype_kind;
    /// The dtype of a name; KILN_DTYPE_NONE for a name that is none.
    pub fn kiln_dtype_from_name(name: *const c_char) -> kiln_dtype;
    /// The number that the 16 bits of an f16 stand for.
    pub fn kiln_f16_to_f32(bits: u16) -> f32;
    /// The f16 nearest to a number, ties to even; a NaN stays a NaN.
    pub fn kiln_f32_to_f16(value: f32) -> u16;
    /// The number that the 16 bits of a bf16 stand for.
    pub fn kiln_bf16_to_f32(bits: u16) -> f32;
    /// The bf16 nearest to a number, ties to even; a NaN stays a NaN.
    pub fn kiln_f32_to_bf16(value: f32) -> u16;
    /// The number that the bits of an element of a small float dtype stand for; 0 for other dtypes.
    pub fn kiln_small_to_f32(dtype: kiln_dtype, bits: u8) -> f32;
    /// The element of a small float dtype nearest to a number, ties to even; a power of two of f8e8m0:
    /// ties up. What is too large becomes infinity, or NaN where the dtype has none; in f4e2m1, which
    /// has neither, the largest, and NaN becomes 0. 0 for other dtypes.
    pub fn kiln_f64_to_small(dtype: kiln_dtype, value: f64) -> u8;
    /// Name of a status in lower case, "ok" for 0; "unknown" for a number that is none.
    pub fn kiln_status_name(status: kiln_status) -> *const c_char;
    /// Writes code, place and message into `err` (which may be NULL) and returns `code`. Call it
    /// through kiln_fail.
    pub fn kiln_error_set(err: *mut kiln_error, code: kiln_status, file: *const c_char, line: c_int, format: *const c_char, ...) -> kiln_status;
    /// Puts "text: " before the message that is in `err`; the cause stays. Returns err's code.
    /// `err` may be NULL.
    pub fn kiln_error_context(err: *mut kiln_error, format: *const c_char, ...) -> kiln_status;
    /// The C library's allocator.
    pub fn kiln_allocator_default() -> kiln_allocator;
    /// Makes a configuration: defaults, then the file `path` when not NULL (lines `name = value`, #
    /// comments), then the environment when `use_environment` (ignored under elevated privilege).
    /// `*out_config` is the caller's (kiln_config_destroy). Errors: also NOT_FOUND, for the file, and
    /// INVALID_ARGUMENT with the line.
    pub fn kiln_config_create(allocator: *const kiln_allocator, path: *const c_char, use_environment: bool, out_config: *mut *mut kiln_config, err: *mut kiln_error) -> kiln_status;
    /// Frees a configuration. Takes NULL.
    pub fn kiln_config_destroy(config: *mut kiln_config);
    /// Sets an option by name, as a flag does. An origin below the present one is ignored. The text is
    /// copied. Not while another thread reads the configuration. Errors: also NOT_FOUND and
    /// INVALID_ARGUMENT, with the names or values that there are.
    pub fn kiln_config_set(config: *mut kiln_config, name: *const c_char, value: *const c_char, origin: kiln_origin, err: *mut kiln_error) -> kiln_status;
    /// The value of an option as text. Of NULL: its default, as in the three functions below.
    pub fn kiln_config_string(config: *const kiln_config, option: kiln_option) -> *const c_char;
    /// The value of an option of type INT.
    pub fn kiln_config_int(config: *const kiln_config, option: kiln_option) -> i64;
    /// The value of an option of type BOOL.
    pub fn kiln_config_bool(config: *const kiln_config, option: kiln_option) -> bool;
    /// Where the value of an option came from.
    pub fn kiln_config_origin(config: *const kiln_config, option: kiln_option) -> kiln_origin;
    /// Name of an option, as flags and files have it.
    pub fn kiln_option_name(option: kiln_option) -> *const c_char;
    /// What an option does, in one line.
    pub fn kiln_option_help(option: kiln_option) -> *const c_char;
    /// The variable of the environment that sets an option.
    pub fn kiln_option_environment(option: kiln_option) -> *const c_char;
    /// 64 bits of XXH3 with a seed, for tables in memory.
    pub fn kiln_hash64(bytes: *const c_void, length: usize, seed: u64) -> u64;
    /// 128 bits of XXH3.
    pub fn kiln_hash_bytes(bytes: *const c_void, length: usize) -> kiln_hash128;
    /// The same hash of bytes that come in pieces.
    pub fn kiln_hash_pieces(next: kiln_hash_next_fn, user: *mut c_void) -> kiln_hash128;
    /// Writes a hash as 32 digits and a terminator.
    pub fn kiln_hash_hex(hash: kiln_hash128, out_hex: *mut c_char);
    /// For Kiln's own modules: messages to the program's log.
    ///
    /// Unless a function says otherwise: any thread may call it; it cannot fail. No pointer is NULL
    /// unless a function takes it.
    /// Says something to the log when the level of `module` lets it through.
    pub fn kiln_log_write(env: *const kiln_env, level: kiln_log_level, module: *const c_char, format: *const c_char, ...);
    /// Whether the level of `module` lets a message through.
    pub fn kiln_log_enabled(env: *const kiln_env, level: kiln_log_level, module: *const c_char) -> bool;
    /// Warns of variables of the environment that are named KILN_* and are no option. Not while another
    /// thread sets the environment.
    pub fn kiln_config_warn_environment(env: *const kiln_env);
    /// Warns of modules that the option `log` names and that say nothing.
    pub fn kiln_config_warn_log(env: *const kiln_env);
    /// For Kiln's own modules: memory of the host, from the environment's allocator.
    ///
    /// Unless a function says otherwise: any thread may call it; what it gives is the caller's and goes
    /// back through kiln_free with the same environment; it fails with NULL. No pointer is NULL unless
    /// a function takes it.
    /// Gives zeroed memory, aligned for any type.
    pub fn kiln_alloc(env: *const kiln_env, bytes: usize) -> *mut c_void;
    /// Gives zeroed memory of `count` elements; NULL also when their bytes exceed size_t.
    pub fn kiln_alloc_array(env: *const kiln_env, count: usize, bytes_each: usize) -> *mut c_void;
    /// Keeps the first min(old, new) bytes and zeroes the rest. `pointer` stays valid on failure.
    pub fn kiln_realloc(env: *const kiln_env, pointer: *mut c_void, old_bytes: usize, new_bytes: usize) -> *mut c_void;
    /// Copies a text.
    pub fn kiln_strdup(env: *const kiln_env, text: *const c_char) -> *mut c_char;
    /// Frees what a function above gave, with the same environment. Takes NULL.
    pub fn kiln_free(env: *const kiln_env, pointer: *mut c_void);
    /// Makes an empty arena.
    pub fn kiln_arena_init(arena: *mut kiln_arena, env: *const kiln_env);
    /// Gives zeroed bytes that live until reset or fini.
    pub fn kiln_arena_alloc(arena: *mut kiln_arena, bytes: usize) -> *mut c_void;
    /// Gives a copy that lives until reset or fini.
    pub fn kiln_arena_copy(arena: *mut kiln_arena, source: *const c_void, bytes: usize) -> *mut c_void;
    /// Takes back all that the arena gave and keeps its memory for what comes.
    pub fn kiln_arena_reset(arena: *mut kiln_arena);
    /// Frees all memory of the arena.
    pub fn kiln_arena_fini(arena: *mut kiln_arena);
    /// Makes an empty text.
    pub fn kiln_string_init(string: *mut kiln_string, env: *const kiln_env);
    /// Appends `length` bytes.
    pub fn kiln_string_append(string: *mut kiln_string, text: *const c_char, length: usize);
    /// Appends as printf prints.
    pub fn kiln_string_printf(string: *mut kiln_string, format: *const c_char, ...);
    /// Frees the text.
    pub fn kiln_string_fini(string: *mut kiln_string);
    /// Reads the whole of a .npy file; Fortran order is turned into row-major. `out_array->data` is the
    /// caller's (kiln_npy_free).
    pub fn kiln_npy_read(path: *const c_char, out_array: *mut kiln_npy, err: *mut kiln_error) -> kiln_status;
    /// Reads the array number `index` of a .npz file, in the order in which it was written. `out_name`
    /// is the caller's buffer for its name, without ".npy". Errors: also NOT_FOUND past the last array.
    pub fn kiln_npz_read(path: *const c_char, index: usize, out_name: *mut c_char, out_array: *mut kiln_npy, err: *mut kiln_error) -> kiln_status;
    /// Frees the data of an array.
    pub fn kiln_npy_free(array: *mut kiln_npy);
    /// Makes an array of strings, whose rank and dims are set, of copies. Errors: RESOURCE_EXHAUSTED.
    pub fn kiln_npy_set_texts(array: *mut kiln_npy, texts: *const *const c_char, err: *mut kiln_error) -> kiln_status;
    /// Number of elements.
    pub fn kiln_npy_count(array: *const kiln_npy) -> usize;
    /// The element `index` as a number; NaN of strings.
    pub fn kiln_npy_number(array: *const kiln_npy, index: usize) -> f64;
    /// Writes a .npy file, version 1.
    pub fn kiln_npy_write(path: *const c_char, array: *const kiln_npy, err: *mut kiln_error) -> kiln_status;
    /// Writes a .npz file of arrays that are no strings, uncompressed. A file of that name is replaced
    /// when the new one is whole.
    pub fn kiln_npz_write(path: *const c_char, names: *const *const c_char, arrays: *const kiln_npy, count: usize, err: *mut kiln_error) -> kiln_status;
    /// For Kiln's own modules: what repeated measurements say.
    ///
    /// Unless a function says otherwise: any thread may call it; it cannot fail. No pointer is NULL
    /// unless a function takes it.
    /// The sample that a share of `quantile` lies below (0.5: the median); 0 without samples. Sorts
    /// them.
    pub fn kiln_quantile(samples: *mut f64, count: usize, quantile: f64) -> f64;
    /// What `count` ratios of pairs say. Sorts them.
    pub fn kiln_ratio_of(ratios: *mut f64, count: usize) -> kiln_ratio;
    /// Opens `folder`/kiln.db, making both. `*out_store` is the caller's (kiln_store_close); `env` must
    /// outlive it. Errors: UNAVAILABLE when the file cannot be opened or is locked for long;
    /// UNIMPLEMENTED in the minimal build.
    pub fn kiln_store_open(env: *const kiln_env, folder: *const c_char, out_store: *mut *mut kiln_store, err: *mut kiln_error) -> kiln_status;
    /// Closes the store. Takes NULL.
    pub fn kiln_store_close(store: *mut kiln_store);
    /// Gives a copy of the value of a key, which goes back through kiln_free(env, out_value->data).
    /// Errors: also NOT_FOUND when there is none.
    pub fn kiln_store_get(store: *mut kiln_store, table: kiln_store_table, key: kiln_hash128, out_value: *mut kiln_blob, err: *mut kiln_error) -> kiln_status;
    /// Puts a copy of a value in place of what the key had.
    pub fn kiln_store_put(store: *mut kiln_store, table: kiln_store_table, key: kiln_hash128, value: *const c_void, length: usize, err: *mut kiln_error) -> kiln_status;
    /// Counts entries and bytes.
    pub fn kiln_store_stat_get(store: *mut kiln_store, out_stat: *mut kiln_store_stat, err: *mut kiln_error) -> kiln_status;
    /// Empties all tables.
    pub fn kiln_store_clear(store: *mut kiln_store, err: *mut kiln_error) -> kiln_status;
    /// For Kiln's own modules: threads, clocks, folders, shared objects.
    ///
    /// Unless a function says otherwise: any thread may call it; its arguments are borrowed for the
    /// call; it cannot fail. No pointer is NULL unless a function takes it.
    /// Number of the calling thread, from 1, never used again in this process.
    pub fn kiln_thread_id() -> u64;
    /// Monotonic clock in nanoseconds.
    pub fn kiln_time_ns() -> u64;
    /// A monotonic clock that costs a fifth of that one, is milliseconds behind, and is compared with
    /// itself only.
    pub fn kiln_time_rough_ns() -> u64;
    /// Nanoseconds that this process, all its threads together, has computed; without what keeps
    /// processors awake (kiln_awake_begin).
    pub fn kiln_processor_ns() -> u64;
    /// As memcpy; pieces of many MiB are copied by several threads, which end with the call.
    pub fn kiln_copy_wide(target: *mut c_void, source: *const c_void, bytes: usize);
    /// As memcpy, without a place in the processor's caches: a part of so much that its beginning would
    /// have left them anyway when somebody reads it.
    pub fn kiln_copy_past(target: *mut c_void, source: *const c_void, bytes: usize);
    /// Whether the processor has AVX-512 VNNI, products of 8-bit integers, and the system lets programs
    /// use it.
    pub fn kiln_processor_has_vnni() -> bool;
    /// For who has work done by this machine's processors through threads that are not his own: between
    /// open and close there are threads for what follows. Opens are counted. Where nothing is gained
    /// (one processor, a quota of processor time, Valgrind) there are none, and the answer is no.
    pub fn kiln_awake_open() -> bool;
    /// Ends what kiln_awake_open began; the last one waits until those threads have ended.
    pub fn kiln_awake_close();
    /// Between begin and end, and 0.1 ms longer, no processor sleeps: a thread that is woken runs at
    /// once. Other threads of the machine lose nothing. Begins are counted.
    pub fn kiln_awake_begin();
    /// Ends what kiln_awake_begin began.
    pub fn kiln_awake_end();
    /// No processor sleeps for the next 0.1 ms.
    pub fn kiln_awake_while();
    /// So many nanoseconds of a thread's processor time only kept a processor awake, too:
    /// kiln_processor_ns leaves them out.
    pub fn kiln_awake_spent(ns: u64);
    /// A step, some tens of nanoseconds long, of a loop that looks at memory until it changes.
    pub fn kiln_processor_pause();
    /// Writes the folder of the cache, as configured, into `out_path`. Errors: FAILED_PRECONDITION when
    /// the cache is off or there is no home.
    pub fn kiln_cache_dir(env: *const kiln_env, out_path: *mut c_char, capacity: usize, err: *mut kiln_error) -> kiln_status;
    /// Writes the folder of what a user lists for Kiln, `kiln` in XDG_CONFIG_HOME, into `out_path`; it
    /// need not be there. Errors: FAILED_PRECONDITION without a home, and in a process with elevated
    /// privileges.
    pub fn kiln_config_dir(out_path: *mut c_char, capacity: usize, err: *mut kiln_error) -> kiln_status;
    /// Opens a shared object, RTLD_NOW | RTLD_LOCAL; with `keep` (RTLD_NODELETE) its code stays for the
    /// process. `*out_library` is the caller's (kiln_dynlib_close). Errors: NOT_FOUND with the loader's
    /// text.
    pub fn kiln_dynlib_open(env: *const kiln_env, path: *const c_char, keep: bool, out_library: *mut *mut kiln_dynlib, err: *mut kiln_error) -> kiln_status;
    /// The address of a symbol, or NULL.
    pub fn kiln_dynlib_symbol(library: *mut kiln_dynlib, name: *const c_char) -> *mut c_void;
    /// Gives the shared object back to the loader. Takes NULL.
    pub fn kiln_dynlib_close(library: *mut kiln_dynlib);
    /// Number of elements; -1 when it exceeds int64.
    pub fn kiln_desc_count(desc: *const kiln_tensor_desc) -> i64;
    /// Bytes of all elements, dense; -1 when they exceed int64.
    pub fn kiln_desc_bytes(desc: *const kiln_tensor_desc) -> i64;
    /// Whether rank and lengths are equal.
    pub fn kiln_desc_same_shape(a: *const kiln_tensor_desc, b: *const kiln_tensor_desc) -> bool;
    /// Makes a scheme. The dtype of the scales is f32, f16 or bf16. The length of a block is a power of
    /// 2 up to 16384, or 0 for the whole axis; without blocks there is one scale for the tensor. Gives
    /// 0 when that is no scheme.
    pub fn kiln_scheme_make(scale: kiln_dtype, global: bool, blocks: *const i64, n_blocks: usize) -> u64;
    /// Dtype of a scheme's scales.
    pub fn kiln_scheme_scale(scheme: u64) -> kiln_dtype;
    /// Whether a scheme has a global scale.
    pub fn kiln_scheme_has_global(scheme: u64) -> bool;
    /// Length of a scheme's blocks along an axis; 0: the whole axis.
    pub fn kiln_scheme_block(scheme: u64, axis: usize) -> i64;
    /// Bits of a value of a quantised dtype; 0 for other dtypes.
    pub fn kiln_quant_bits(dtype: kiln_dtype) -> u32;
    /// Smallest value of a quantised dtype; 0 for other dtypes.
    pub fn kiln_quant_lowest(dtype: kiln_dtype) -> i32;
    /// Largest value of a quantised dtype; 0 for other dtypes.
    pub fn kiln_quant_highest(dtype: kiln_dtype) -> i32;
    /// Fills the layout of a quantised tensor. False for other dtypes, for an invalid scheme, and for
    /// sizes beyond int64.
    pub fn kiln_quant_layout_of(desc: *const kiln_tensor_desc, out_layout: *mut kiln_quant_layout) -> bool;
    /// Whether kernels for this device work in groups that share local memory, as on GPUs. Elsewhere a
    /// work-item computes a block by itself: on processors, and on devices whose groups or local memory
    /// are smaller than Kiln's kernels of groups take. False for NULL.
    pub fn kiln_device_has_groups(info: *const kiln_device_info) -> bool;
    /// Makes a context: reads the configuration and opens the cache. Devices and fusers are opened when
    /// they are first used. `options` may be NULL. The caller owns `*out_context`
    /// (kiln_context_destroy). Errors: also NOT_FOUND when the configuration names a file that is not
    /// there.
    pub fn kiln_context_create(options: *const kiln_context_options, out_context: *mut *mut kiln_context, err: *mut kiln_error) -> kiln_status;
    /// Gives up the caller's context. It ends with its last device. Takes NULL.
    pub fn kiln_context_destroy(context: *mut kiln_context);
    /// Says that the user ends the process, as Ctrl-C does. The next process then does not blame the
    /// plugin whose call is running now, unless its fuser has not returned for longer than planning may
    /// take. Safe in a signal handler, while no thread destroys the
    /// context.
    pub fn kiln_context_interrupted(context: *mut kiln_context);
    /// Sets an option by name, as a command-line flag does. Most options count for what is opened
    /// afterwards; `log` and `cache-limit` count at once. One thread at a time may set options, while
    /// others use the context. Errors: NOT_FOUND for an unknown name, INVALID_ARGUMENT.
    pub fn kiln_context_set(context: *mut kiln_context, name: *const c_char, value: *const c_char, err: *mut kiln_error) -> kiln_status;
    /// The environment with allocator, log and configuration, for kiln_config_string and its like.
    pub fn kiln_context_env(context: *const kiln_context) -> *const kiln_env;
    /// The cache on disk; NULL when it is off.
    pub fn kiln_context_store(context: *const kiln_context) -> *mut kiln_store;
    /// Adds a kind of backend. Call it before a device of its scheme is opened. Built in are opencl,
    /// reference and null. The provider must outlive the context. Errors: ALREADY_EXISTS,
    /// RESOURCE_EXHAUSTED.
    pub fn kiln_context_add_provider(context: *mut kiln_context, provider: *const kiln_backend_provider, err: *mut kiln_error) -> kiln_status;
    /// Frees a text that a call made for the caller, such as kiln_graph_explain. Takes NULL.
    pub fn kiln_text_free(context: *mut kiln_context, text: *mut c_char);
    /// Version of the library, such as "0.1.0". The text is static.
    pub fn kiln_version() -> *const c_char;
    /// Writes the address, such as "opencl:0", and a line about the device with this index, counted
    /// from 0 over all providers. Errors: NOT_FOUND past the last, UNAVAILABLE.
    pub fn kiln_device_describe(context: *mut kiln_context, index: usize, out_address: *mut c_char, out_line: *mut c_char, err: *mut kiln_error) -> kiln_status;
    /// Opens a device. NULL as address means the option `device`, or the first OpenCL device. The same
    /// address gives the same device. The caller holds `*out_device` (kiln_device_release); tensors
    /// keep it alive. Errors: NOT_FOUND, which says how many devices there are; UNAVAILABLE,
    /// INVALID_ARGUMENT.
    pub fn kiln_device_open(context: *mut kiln_context, address: *const c_char, out_device: *mut *mut kiln_device, err: *mut kiln_error) -> kiln_status;
    /// The short way: makes a context with the configuration of the environment and opens a device of
    /// it, as kiln_device_open does. `*out_device` is the caller's until kiln_close, which also ends
    /// the context and every tensor, so that nothing has to be released before. As calls return 0 when
    /// they succeed, `kiln_open(..) || kiln_add(..) || ..` stops at the first failure, which `err`
    /// tells. Errors: as kiln_context_create and kiln_device_open.
    pub fn kiln_open(address: *const c_char, out_device: *mut *mut kiln_device, err: *mut kiln_error) -> kiln_status;
    /// Ends what kiln_open began: all tensors of the device, whoever holds them, the device, the
    /// context. Graphs, models and requests of the device are destroyed before. Tensors may be released
    /// before with kiln_release; one that is needed no more is then never written to memory. Takes
    /// NULL.
    pub fn kiln_close(device: *mut kiln_device);
    /// Opens a device with default dtypes, which stay as long as it is open. `options` may be NULL.
    /// Errors: those of kiln_device_open; ALREADY_EXISTS when the device is open with other defaults
    /// or plans, FAILED_PRECONDITION for plans of another device without that option,
    /// UNIMPLEMENTED when it does not store them.
    pub fn kiln_device_open_with(context: *mut kiln_context, address: *const c_char, options: *const kiln_device_options, out_device: *mut *mut kiln_device, err: *mut kiln_error) -> kiln_status;
    /// Takes one more reference to the device and returns it. Takes NULL. Views of a device, such as
    /// its full-precision one, hold all of it.
    pub fn kiln_device_retain(device: *mut kiln_device) -> *mut kiln_device;
    /// Gives up one reference to the device. Takes NULL.
    pub fn kiln_device_release(device: *mut kiln_device);
    /// What the device is: names, sizes, features.
    pub fn kiln_device_info_of(device: *const kiln_device) -> *const kiln_device_info;
    /// The address by which the device was opened.
    pub fn kiln_device_address(device: *const kiln_device) -> *const c_char;
    /// The context that the device belongs to.
    pub fn kiln_device_context(device: *const kiln_device) -> *mut kiln_context;
    /// Kind of the backend, such as "opencl"; "fusion<opencl>" while operations are fused.
    pub fn kiln_device_name(device: *mut kiln_device) -> *const c_char;
    /// What the device can do with a dtype, as KILN_USAGE_* bits.
    pub fn kiln_device_dtype_usage(device: *mut kiln_device, dtype: kiln_dtype) -> u32;
    /// Whether the device both stores the dtype and computes in it.
    pub fn kiln_device_supports_dtype(device: *mut kiln_device, dtype: kiln_dtype) -> bool;
    /// Whether the device records operations for gradients. It never does.
    pub fn kiln_device_records_gradients(device: *const kiln_device) -> bool;
    /// The dtype of what is made on the device where the call leaves it open by KILN_DTYPE_NONE. `kind`
    /// is KILN_KIND_FLOAT, _INT, _UINT or _BOOL; other kinds give KILN_DTYPE_NONE. Functions that can
    /// make floats and integers make integers of a kiln_i64 only.
    pub fn kiln_device_default_dtype(device: *const kiln_device, kind: kiln_dtype_kind) -> kiln_dtype;
    /// The same device with f32 as its default float dtype. Streams, plans, memory and random numbers
    /// are shared, and tensors of both may be mixed. kiln_to_device between the two records a cast of
    /// tensors that have the default float dtype of the first. A device whose default is f32 gives
    /// itself. The caller holds `*out_device` (kiln_device_release).
    pub fn kiln_device_full_precision(device: *mut kiln_device, out_device: *mut *mut kiln_device, err: *mut kiln_error) -> kiln_status;
    /// How many devices of a type this machine has.
    pub fn kiln_device_count(context: *mut kiln_context, r#type: kiln_device_type, out_count: *mut usize, err: *mut kiln_error) -> kiln_status;
    /// Fills counters since the device was opened. Set `struct_size` before.
    pub fn kiln_device_stats_get(device: *mut kiln_device, out_stats: *mut kiln_device_stats);
    /// The same without waiting for threads that work on the device: while one does, the counters may
    /// be those of a few milliseconds before the segment that it runs.
    pub fn kiln_device_stats_peek(device: *mut kiln_device, out_stats: *mut kiln_device_stats);
    /// DEVICE_LOST, the first failure of queued work on the device, or OK. A lost device stays lost
    /// until it is opened again.
    pub fn kiln_device_status(device: *mut kiln_device, err: *mut kiln_error) -> kiln_status;
    /// Turns fusion off or on for what is recorded from now on. Results are the same. It is on at first
    /// where the device takes programs. Errors: those of running what is queued.
    pub fn kiln_device_set_fusion(device: *mut kiln_device, on: bool, err: *mut kiln_error) -> kiln_status;
    /// Enqueues what this thread has recorded on the device, and does not wait. Errors: those of
    /// planning.
    pub fn kiln_flush(device: *mut kiln_device, err: *mut kiln_error) -> kiln_status;
    /// Enqueues what all threads have recorded on the device, and waits for it. Errors: the first
    /// failure of queued work since the last sync, also when a read has reported it.
    pub fn kiln_sync(device: *mut kiln_device, err: *mut kiln_error) -> kiln_status;
    /// Gives unused pooled memory back to the device.
    pub fn kiln_device_trim(device: *mut kiln_device);
    /// Sets how many bytes the device may hold from now on, pool and arena included; 0: what it has.
    /// The option `memory-budget` sets it at first. Memory that is held already stays. The queues of
    /// collective calls may hold as much again for their temporaries. When queued results and held
    /// memory pass seven eighths of the budget, queued work runs early if that frees memory. An
    /// allocation that does not fit first takes idle memory back, then fails; the caller can release
    /// tensors and try again. Errors: UNIMPLEMENTED on remote devices, whose memory is the server's.
    pub fn kiln_device_set_memory_budget(device: *mut kiln_device, bytes: u64, err: *mut kiln_error) -> kiln_status;
    /// Sets the peaks in the device's statistics to what is held now.
    pub fn kiln_device_reset_peaks(device: *mut kiln_device);
    /// Makes a tensor with a copy of `data`, all of it, dense and row-major; NULL: zeros. Rank 0 is one
    /// element. Errors: also UNIMPLEMENTED when the device does not store the dtype.
    pub fn kiln_tensor_create(device: *mut kiln_device, dtype: kiln_dtype, rank: usize, dims: *const i64, data: *const c_void, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// Makes a tensor of the device's default float dtype from numbers, each rounded once. Errors: as
    /// kiln_tensor_create.
    pub fn kiln_tensor_of_floats(device: *mut kiln_device, rank: usize, dims: *const i64, numbers: *const f64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// Makes a tensor of the device's default integer dtype from numbers. Errors: as
    /// kiln_tensor_create; INVALID_ARGUMENT for a number that the dtype cannot hold.
    pub fn kiln_tensor_of_ints(device: *mut kiln_device, rank: usize, dims: *const i64, numbers: *const i64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// Makes a quantised tensor from its bytes, laid out as ir_quant.h says; kiln_quant_layout_of tells
    /// how many there are, and kiln_read gives them back. `data` may be NULL for a tensor without
    /// elements. kiln_quantize and kiln_quantize_dynamic make quantised tensors too. Errors: as
    /// kiln_tensor_create; INVALID_ARGUMENT for a scheme that does not fit.
    pub fn kiln_tensor_create_quantised(device: *mut kiln_device, dtype: kiln_dtype, scheme: u64, rank: usize, dims: *const i64, data: *const c_void, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// Marks a tensor as constant for as long as plans live, as weights are. Fusers may then prepare
    /// copies of it once.
    pub fn kiln_tensor_mark_constant(tensor: *mut kiln_tensor);
    /// Takes one more reference to the tensor and returns it. Takes NULL.
    pub fn kiln_retain(tensor: *mut kiln_tensor) -> *mut kiln_tensor;
    /// Gives up one reference to the tensor. The last release records that the tensor is not used any
    /// more, and the handle is not used after it, as a pointer is not after free: it may be another
    /// tensor already. While it is not, and its device is open, one more release is only logged. Takes
    /// NULL.
    pub fn kiln_release(tensor: *mut kiln_tensor);
    /// Dtype of the tensor.
    pub fn kiln_tensor_dtype(tensor: *const kiln_tensor) -> kiln_dtype;
    /// Number of axes.
    pub fn kiln_tensor_rank(tensor: *const kiln_tensor) -> usize;
    /// Length of each axis.
    pub fn kiln_tensor_dims(tensor: *const kiln_tensor) -> *const i64;
    /// Number of elements.
    pub fn kiln_tensor_count(tensor: *const kiln_tensor) -> i64;
    /// Bytes that kiln_read writes.
    pub fn kiln_tensor_bytes(tensor: *const kiln_tensor) -> usize;
    /// Scheme of a quantised tensor; 0 for others.
    pub fn kiln_tensor_scheme(tensor: *const kiln_tensor) -> u64;
    /// The device that the tensor was made with.
    pub fn kiln_tensor_device(tensor: *const kiln_tensor) -> *mut kiln_device;
    /// Copies the tensor to another device, of whatever platform. On the same device it takes one more
    /// reference to the tensor, or casts it (kiln_device_full_precision). It returns at once: the bytes
    /// travel in chunks behind the calls, and the first use of the copy waits for them. The tensor may
    /// be released before. Errors: as kiln_tensor_create. A failure on the way comes with the first use
    /// of the copy.
    pub fn kiln_to_device(tensor: *mut kiln_tensor, device: *mut kiln_device, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// Begins a capture on this thread. `inputs` are the tensors that later runs replace, each given
    /// once; other tensors from before become constants of the graph. Inside a capture it is an error
    /// to read an input or a captured value, or to run a graph. Errors: FAILED_PRECONDITION when this
    /// thread captures already.
    pub fn kiln_graph_begin(device: *mut kiln_device, inputs: *const *mut kiln_tensor, n_inputs: usize, err: *mut kiln_error) -> kiln_status;
    /// Says within a capture what `input`, one of begin's, becomes with each kiln_graph_advance:
    /// `next`, recorded in this capture, of the same shape and dtype. An optimiser carries parameters
    /// and moments so. `next` need not be an output too. Call it on the thread of begin. Errors:
    /// FAILED_PRECONDITION without begin; INVALID_ARGUMENT for a tensor that is no input, has a next
    /// value already, or has another shape.
    pub fn kiln_graph_carry(device: *mut kiln_device, input: *mut kiln_tensor, next: *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// Ends the capture on the thread of begin. `outputs` are the tensors that each run produces; the
    /// captured tensors themselves never get values. The caller owns `*out_graph` (kiln_graph_destroy).
    /// Errors: FAILED_PRECONDITION without begin, INVALID_ARGUMENT for an output that was not captured.
    pub fn kiln_graph_end(device: *mut kiln_device, outputs: *const *mut kiln_tensor, n_outputs: usize, out_graph: *mut *mut kiln_graph, err: *mut kiln_error) -> kiln_status;
    /// Says within a capture that what is recorded follows from the shapes of its inputs. The graph
    /// then refuses other shapes instead of computing something else. Importers call it. Nothing
    /// happens when this thread captures nothing.
    pub fn kiln_graph_fix_shapes(device: *mut kiln_device);
    /// Whether this thread captures a graph on the device.
    pub fn kiln_graph_is_capturing(device: *mut kiln_device) -> bool;
    /// Gives up the capture of this thread. Nothing happens when there is none.
    pub fn kiln_graph_cancel(device: *mut kiln_device);
    /// Frees the graph. Takes NULL.
    pub fn kiln_graph_destroy(graph: *mut kiln_graph);
    /// Runs the graph on other inputs of the same dtypes. For other shapes the graph is bound again
    /// first: slower once for each set of shapes, and an error when an attribute does not fit them. The
    /// caller holds each out_tensors[i]. A failure of queued work comes with the read.
    pub fn kiln_graph_run(graph: *mut kiln_graph, inputs: *const *mut kiln_tensor, n_inputs: usize, out_tensors: *mut *mut kiln_tensor, n_outputs: usize, err: *mut kiln_error) -> kiln_status;
    /// Runs the graph, and puts the next value of each carried input in its place in `tensors`. A value
    /// that nobody else holds, and that no queued operation mentions, is overwritten where it lies;
    /// others keep their value. On success the caller's reference to a carried input is replaced by one
    /// to its next value. The caller holds each out_tensors[i]. Errors: as kiln_graph_run.
    pub fn kiln_graph_advance(graph: *mut kiln_graph, tensors: *mut *mut kiln_tensor, n_tensors: usize, out_tensors: *mut *mut kiln_tensor, n_outputs: usize, err: *mut kiln_error) -> kiln_status;
    /// Fills what the graph became. Set `struct_size` before.
    pub fn kiln_graph_info_get(graph: *const kiln_graph, out_info: *mut kiln_graph_info);
    /// Writes what was decided for the graph and why: blocks, candidates, scores, winners, and why
    /// operations were left unfused. `flags` are KILN_EXPLAIN_* bits. The caller frees `*out_text` with
    /// kiln_text_free.
    pub fn kiln_graph_explain(graph: *mut kiln_graph, flags: u32, out_text: *mut *mut c_char, err: *mut kiln_error) -> kiln_status;
    /// Opens a bundle on a device: checks its files, loads or compiles its programs, uploads its
    /// constants. `options` may be NULL. The caller owns `*out_bundle` (kiln_bundle_close), which keeps
    /// the device open. Errors: also NOT_FOUND for a folder without a bundle; UNIMPLEMENTED, naming
    /// kernel and file, for a program that has no binary for this device and cannot be compiled there,
    /// be it for a feature that the device lacks.
    pub fn kiln_bundle_open(device: *mut kiln_device, folder: *const c_char, options: *const kiln_bundle_options, out_bundle: *mut *mut kiln_bundle, err: *mut kiln_error) -> kiln_status;
    /// Gives up a bundle and its memory. Takes NULL.
    pub fn kiln_bundle_close(bundle: *mut kiln_bundle);
    /// Fills what the bundle is. Set `struct_size` before.
    pub fn kiln_bundle_info_get(bundle: *const kiln_bundle, out_info: *mut kiln_bundle_info);
    /// The same of a bundle in a folder, without a device: what its programs came from, and memory, are
    /// 0. Errors: as of kiln_bundle_open for the folder's files.
    pub fn kiln_bundle_info_read(env: *const kiln_env, folder: *const c_char, out_info: *mut kiln_bundle_info, err: *mut kiln_error) -> kiln_status;
    /// Input `index`, of the set of shapes `shapes`; NULL past the last. Names are the same in all.
    pub fn kiln_bundle_input(bundle: *const kiln_bundle, shapes: u32, index: u32) -> *const kiln_bundle_value;
    /// The same for outputs.
    pub fn kiln_bundle_output(bundle: *const kiln_bundle, shapes: u32, index: u32) -> *const kiln_bundle_value;
    /// Enqueues a run on inputs in the bundle's order, and does not wait. The set of shapes is the one
    /// that fits. The caller holds each out_tensors[i]. One thread at a time runs a bundle. Errors:
    /// also INVALID_ARGUMENT naming the input that fits no set.
    pub fn kiln_bundle_run(bundle: *mut kiln_bundle, inputs: *const *mut kiln_tensor, n_inputs: usize, out_tensors: *mut *mut kiln_tensor, n_outputs: usize, err: *mut kiln_error) -> kiln_status;
    /// Writes the binaries of the bundle's programs, as the device has them, into its folder, for
    /// devices of this name and driver. Run it on every set of shapes before: PoCL compiles a kernel
    /// for its local size when it is first launched. Errors: also UNAVAILABLE for files that cannot be
    /// written and binaries that the driver does not give.
    pub fn kiln_bundle_keep(bundle: *mut kiln_bundle, err: *mut kiln_error) -> kiln_status;
    /// Copies binaries that other tools made into a bundle's folder, for devices of this name and, when
    /// it is not empty, this driver. The name of each file up to its last dot is that of the source in
    /// the bundle. Errors: also NOT_FOUND for a file that is of no source.
    pub fn kiln_bundle_add(env: *const kiln_env, folder: *const c_char, device: *const c_char, driver: *const c_char, files: *const *const c_char, n_files: usize, err: *mut kiln_error) -> kiln_status;
    /// Checks all files of a bundle, and what a device as `facts` say has for it: sizes, features, and
    /// a binary for each program, unless it compiles. `miss` hears of each thing that it lacks;
    /// `*out_misses` is how many there are. `facts` NULL: files only. Errors: also of damaged files.
    pub fn kiln_bundle_check(env: *const kiln_env, folder: *const c_char, facts: *const kiln_device_info, miss: kiln_bundle_miss_fn, user: *mut c_void, out_misses: *mut u32, err: *mut kiln_error) -> kiln_status;
    /// Writes facts of a device as JSON; the caller frees `*out_text` (kiln_text_free).
    pub fn kiln_bundle_facts(device: *mut kiln_device, out_text: *mut *mut c_char, err: *mut kiln_error) -> kiln_status;
    /// Reads such a file into `out_facts`, whose texts live in `arena`. Errors: also NOT_FOUND.
    pub fn kiln_bundle_facts_read(env: *const kiln_env, path: *const c_char, arena: *mut kiln_arena, out_facts: *mut kiln_device_info, err: *mut kiln_error) -> kiln_status;
    /// Begins a bundle of what a device does that was opened with the option `compiler` as `record`.
    /// The caller owns `*out_maker` (kiln_bundle_maker_destroy).
    pub fn kiln_bundle_maker_create(env: *const kiln_env, out_maker: *mut *mut kiln_bundle_maker, err: *mut kiln_error) -> kiln_status;
    /// Frees it. Takes NULL.
    pub fn kiln_bundle_maker_destroy(maker: *mut kiln_bundle_maker);
    /// Runs a graph and takes what it enqueued as one more set of shapes. After a failure the maker is
    /// of no more use. Errors: also UNIMPLEMENTED,
    /// in words, for what a list of launches cannot say: values that the host reads, random numbers,
    /// state that runs change, programs without source.
    pub fn kiln_bundle_maker_add(maker: *mut kiln_bundle_maker, work: *const kiln_bundle_work, err: *mut kiln_error) -> kiln_status;
    /// Gives programs the form of loops in a single work-item, which FPGAs run best, where they have
    /// one: those whose launches have groups of one work-item, as all have that are made for a
    /// processor. The others, `*out_left` of them, stay as they are. `device` is one that they were
    /// made on.
    pub fn kiln_bundle_maker_single(maker: *mut kiln_bundle_maker, device: *mut kiln_device, out_left: *mut u32, err: *mut kiln_error) -> kiln_status;
    /// Makes one program of all that were taken so far, as bitstreams want it; of those with other
    /// options than definitions in common, where these differ. A text that cannot be merged shows when
    /// the bundle is compiled.
    pub fn kiln_bundle_maker_merge(maker: *mut kiln_bundle_maker, err: *mut kiln_error) -> kiln_status;
    /// Orders the steps so that a run changes the program as seldom as a search finds, and gives the
    /// same bits: steps that touch the same memory keep their order, and no more memory is needed.
    /// Where no better order is found, the steps stay as they are. `*out_saved` is how many changes
    /// fewer a run of the first set of shapes has.
    pub fn kiln_bundle_maker_order(maker: *mut kiln_bundle_maker, device: *mut kiln_device, out_saved: *mut u32, err: *mut kiln_error) -> kiln_status;
    /// Places the buffers in `n_banks` (1 to 32) banks of a board's memory, so that kernels read and
    /// write several at once: weights beside what is computed, most of all. Inputs and outputs lie in
    /// bank 0. The bundle then has a file for v++ that connects each kernel's arguments, its Makefile
    /// tells aoc not to interleave, and a run says the banks to the platforms of Xilinx and Intel, as
    /// these have words for them; elsewhere they mean nothing. Errors: also UNIMPLEMENTED where the
    /// device's driver does not tell the names of arguments.
    pub fn kiln_bundle_maker_banks(maker: *mut kiln_bundle_maker, device: *mut kiln_device, n_banks: u32, err: *mut kiln_error) -> kiln_status;
    /// Writes the bundle into a folder that is empty or not there yet. Errors: also ALREADY_EXISTS,
    /// UNAVAILABLE.
    pub fn kiln_bundle_maker_write(maker: *mut kiln_bundle_maker, folder: *const c_char, err: *mut kiln_error) -> kiln_status;
    /// Makes a group of devices of one context, of whatever platforms, one rank each in the order
    /// given. `options` may be NULL; its `ranks` may be 0. collective.h says how a group fails, and
    /// offers groups whose ranks are not driven from one thread. The group holds its devices. The
    /// caller owns `*out_collective` (kiln_collective_destroy).
    pub fn kiln_collective_create(devices: *const *mut kiln_device, count: usize, options: *const kiln_coll_group_options, out_collective: *mut *mut kiln_collective, err: *mut kiln_error) -> kiln_status;
    /// Gives up a hold of the group; the last one frees it. It waits for calls that were started, at
    /// most until their deadline. A group over MPI waits until the other processes destroy theirs.
    /// Takes NULL.
    pub fn kiln_collective_destroy(collective: *mut kiln_collective);
    /// Makes a group over all processes that mpirun started, each of which calls this with its devices.
    /// Its ranks follow those of the processes before it. Collective calls take the tensors of this
    /// process's devices; roots are counted over all. All processes make and destroy their groups over
    /// MPI, and jobs over it (kiln_gradsync.h), in one order. Open MPI or MPICH is loaded here, and
    /// ended when the process exits. After a failure leave the process by _exit. Errors: also
    /// UNAVAILABLE without MPI, FAILED_PRECONDITION when others started it without threads,
    /// DEADLINE_EXCEEDED when a process did not come.
    pub fn kiln_collective_create_mpi(devices: *const *mut kiln_device, count: usize, options: *const kiln_coll_group_options, out_collective: *mut *mut kiln_collective, err: *mut kiln_error) -> kiln_status;
    /// Splits a group: ranks whose colours are equal make a group of their own, in the order of their
    /// keys, and of their ranks where keys are equal. colours[i] and keys[i] are those of the i-th rank
    /// of this process; a colour below 0 joins no group, `keys` may be NULL. out_parts[i] is the group
    /// of that rank, or NULL. Ranks of one colour get the same one, and each of them a hold of it
    /// (kiln_collective_destroy). A part takes the tensors of its own members, in the order of
    /// kiln_collective_member; it has its parent's deadline and choice of algorithms, fails by itself,
    /// and may outlive its parent. Over MPI all processes of the group split it at the same point of
    /// their calls, the call waits for them, and parts of one split are destroyed in the order of their
    /// colours. On failure all parts are NULL.
    pub fn kiln_collective_split(collective: *mut kiln_collective, colours: *const i32, keys: *const i32, out_parts: *mut *mut kiln_collective, err: *mut kiln_error) -> kiln_status;
    /// The device of the index-th rank of this process, in ascending order of ranks, which is borrowed;
    /// NULL past the last. `out_rank` gets its rank among all; it may be NULL.
    pub fn kiln_collective_member(collective: *const kiln_collective, index: usize, out_rank: *mut u32) -> *mut kiln_device;
    /// The first rank of this process.
    pub fn kiln_collective_rank(collective: *const kiln_collective) -> u32;
    /// How many ranks there are in all processes.
    pub fn kiln_collective_ranks(collective: *const kiln_collective) -> u32;
    /// The group's number among those of its context, never 0, for operations that name it, such as
    /// kiln_all_reduce of kiln_ops.h. Each member of such an operation may be recorded by a thread of
    /// its own; then all devices must get the parts of all groups in one order. A device that has
    /// resolved a result waits for it before it begins its next part. Parts that so wait for each
    /// other, also those of two ranks on one device, end at the deadline. Calls on a whole group begin
    /// all parts at once.
    pub fn kiln_collective_id(collective: *const kiln_collective) -> i64;
    /// Combines all inputs; every device gets the result. `op` is "sum", "mean", "min", "max" or
    /// "prod". The mean of integers is their wrapped sum divided towards zero.
    pub fn kiln_collective_all_reduce(collective: *mut kiln_collective, inputs: *const *mut kiln_tensor, op: *const c_char, out_tensors: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// Combines all inputs; device `root` gets the result, the others get NULL. `op` is as for
    /// all_reduce.
    pub fn kiln_collective_reduce(collective: *mut kiln_collective, inputs: *const *mut kiln_tensor, op: *const c_char, root: u32, out_tensors: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// Copies the input of `root` to every device. The other inputs give its shape.
    pub fn kiln_collective_broadcast(collective: *mut kiln_collective, inputs: *const *mut kiln_tensor, root: u32, out_tensors: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// Puts the inputs one after the other along axis 0; every device gets all of it.
    pub fn kiln_collective_all_gather(collective: *mut kiln_collective, inputs: *const *mut kiln_tensor, out_tensors: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// Combines all inputs; device i gets part i of the elements in row-major order, as a tensor of
    /// rank 1. The first count % devices parts have one element more. `op` is as for all_reduce.
    pub fn kiln_collective_reduce_scatter(collective: *mut kiln_collective, inputs: *const *mut kiln_tensor, op: *const c_char, out_tensors: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// Puts the inputs one after the other along axis 0; device `root` gets all of it, the others get
    /// NULL.
    pub fn kiln_collective_gather(collective: *mut kiln_collective, inputs: *const *mut kiln_tensor, root: u32, out_tensors: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// Cuts the input of `root` along axis 0 into as many equal parts as there are ranks; device i gets
    /// part i. The other inputs give its shape and are not read.
    pub fn kiln_collective_scatter(collective: *mut kiln_collective, inputs: *const *mut kiln_tensor, root: u32, out_tensors: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// Cuts every input along axis 0 into as many equal parts as there are ranks. Device i gets part i
    /// of all inputs, in the order of ranks along axis 0.
    pub fn kiln_collective_all_to_all(collective: *mut kiln_collective, inputs: *const *mut kiln_tensor, out_tensors: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// Sends a tensor of rank `from`, one of this process, to rank `to`, and returns at once. Only
    /// these two ranks take part: other ranks, also those of other processes, need not call. Both order
    /// it alike among their calls on the group. In one process a send ends when its receive has come,
    /// so that two ranks which send to each other, and receive after that, end at the deadline. A
    /// failure of the send is the group's.
    pub fn kiln_collective_send(collective: *mut kiln_collective, tensor: *mut kiln_tensor, from: u32, to: u32, err: *mut kiln_error) -> kiln_status;
    /// Receives on rank `to`, one of this process, what rank `from` sends. `like`, on its device, gives
    /// dtype and shape, which the sender's must be, and is not read. `*out_tensor` is a result like the
    /// others, to be resolved.
    pub fn kiln_collective_receive(collective: *mut kiln_collective, like: *mut kiln_tensor, from: u32, to: u32, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// Combines the tensors as all_reduce does, in their own memory where nobody else sees it. The
    /// tensors themselves become the results and must be resolved; nobody else may use them meanwhile.
    /// A tensor whose part was refused keeps its value. Errors: also FAILED_PRECONDITION in a capture.
    pub fn kiln_collective_all_reduce_in_place(collective: *mut kiln_collective, tensors: *const *mut kiln_tensor, op: *const c_char, err: *mut kiln_error) -> kiln_status;
    /// Returns when every rank of the group has come here and all calls before have ended.
    pub fn kiln_collective_barrier(collective: *mut kiln_collective, err: *mut kiln_error) -> kiln_status;
    /// Makes the result of a collective call a tensor like any other. Its device waits for the call
    /// before it does anything else; the calling thread does not, unless the device has no queue that
    /// can wait, such as the reference. A failure that is known is returned. One that comes later
    /// belongs to the tensor and to all that is computed from it: reading them gives it, and so does
    /// kiln_sync. All of it ends by the group's deadline. A tensor that needs no resolve is left as it
    /// is. In a capture, collective_sync of kiln_ops.h does the same as an operation. Errors: the
    /// failure of the call; FAILED_PRECONDITION in a capture.
    pub fn kiln_collective_resolve(tensor: *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// Whether the call that made the tensor is over; true for NULL.
    pub fn kiln_collective_ended(tensor: *const kiln_tensor) -> bool;
    /// Unsafe: takes the tensor for resolved, though its call may still write to it, or fail. For
    /// programs that order their work with the group's by other means.
    pub fn kiln_collective_assume_resolved(tensor: *mut kiln_tensor);
    /// Changes the choice of algorithms, such as "all_reduce:tree", for calls that start later. All
    /// processes do it at the same point. collective.h has the grammar.
    pub fn kiln_collective_select(collective: *mut kiln_collective, select: *const c_char, err: *mut kiln_error) -> kiln_status;
    /// OK, or the failure that ended the group, with the rank that caused it. `out_rank` may be NULL.
    pub fn kiln_collective_status(collective: *mut kiln_collective, out_rank: *mut i32, err: *mut kiln_error) -> kiln_status;
    /// Name of an attribute; NULL for a number that is none.
    pub fn kiln_attr_name(key: kiln_attr_key) -> *const c_char;
    /// Type of an attribute; KILN_ATTR_NONE for a number that is none.
    pub fn kiln_attr_type_of(key: kiln_attr_key) -> kiln_attr_type;
    /// One line about an attribute; NULL for a number that is none.
    pub fn kiln_attr_doc(key: kiln_attr_key) -> *const c_char;
    /// The attribute with this name; KILN_KEY_NONE for an unknown name.
    pub fn kiln_attr_from_name(name: *const c_char) -> kiln_attr_key;
    /// Writes a number (I64 or F64) as one element of `dtype`, of kiln_dtype_size bytes, as every
    /// operator with a scalar attribute takes it. Floats are rounded to the dtype. For integers and
    /// bool the number must be a value of the dtype; an infinity is its last one. False: nothing is
    /// written.
    pub fn kiln_number_store(number: *const kiln_attr, dtype: kiln_dtype, out_element: *mut c_void) -> bool;
    /// The table's row of an operator; NULL for a number that is none.
    pub fn kiln_op_info_of(op: kiln_op) -> *const kiln_op_info;
    /// What an operator does in reduced precision; WIDE for a number that is none.
    pub fn kiln_op_precision_of(op: kiln_op) -> kiln_op_precision;
    /// The operator with this name; KILN_OP_COUNT for an unknown name.
    pub fn kiln_op_from_name(name: *const c_char) -> kiln_op;
    /// The operator with this permanent number; KILN_OP_COUNT for an unknown number.
    pub fn kiln_op_from_wire(wire: u16) -> kiln_op;
    /// The attribute of a record by key. Its type is KILN_ATTR_NONE when the operator has no such
    /// attribute.
    pub fn kiln_op_attr(record: *const kiln_op_record, key: kiln_attr_key) -> *const kiln_attr;
    /// A number attribute of a record as i64. A float saturates; NaN gives 0.
    pub fn kiln_op_attr_i64(record: *const kiln_op_record, key: kiln_attr_key) -> i64;
    /// A number attribute of a record as f64.
    pub fn kiln_op_attr_f64(record: *const kiln_op_record, key: kiln_attr_key) -> f64;
    /// Checks inputs and attributes of `call` against the table, and fills dtype, rank and dims of its
    /// outputs (call->n_outputs of them; ids stay). Absent optional attributes must be present as
    /// KILN_ATTR_NONE. This is the verifier of one operation: every origin (API, file, network, fuser)
    /// passes here. Of a custom operation that was not looked up only the form is checked: its outputs
    /// are what `call` states. Errors: INVALID_ARGUMENT naming operator, shapes and values;
    /// OUT_OF_RANGE for sizes beyond int64.
    pub fn kiln_ir_infer(call: *const kiln_op_record, outputs: *mut kiln_tensor_desc, err: *mut kiln_error) -> kiln_status;
    /// Writes attributes that are given by name as canonical text. Absent ones get their default; an
    /// I64 is taken where an F64 is wanted. Errors: INVALID_ARGUMENT naming what is missing,
    /// superfluous, given twice or of another type; RESOURCE_EXHAUSTED.
    pub fn kiln_ir_custom_text(op: *const kiln_custom_op, attrs: *const kiln_custom_attr, n_attrs: usize, out_text: *mut kiln_string, err: *mut kiln_error) -> kiln_status;
    /// Reads canonical text. `*out_values` has one value for each parameter, in `arena`. Errors:
    /// INVALID_ARGUMENT for any other text, RESOURCE_EXHAUSTED.
    pub fn kiln_ir_custom_values(op: *const kiln_custom_op, text: *const c_char, arena: *mut kiln_arena, out_values: *mut *const kiln_attr, err: *mut kiln_error) -> kiln_status;
    /// Whether a record is of this operator and version.
    pub fn kiln_ir_custom_is(record: *const kiln_op_record, name: *const c_char, version: u32) -> bool;
    /// Records an operator that a plugin of the context brings. It runs by the kernel that the plugin
    /// describes, in a fuser's block, or by its reference on the host where there is no kernel for the
    /// device, dtypes or layout. On a remote device it runs there, and the server needs the plugin too.
    /// `device` may be NULL; everything is copied. The caller holds each of the `n_outputs` results.
    /// Errors: NOT_FOUND when no plugin brings the operator; INVALID_ARGUMENT for attributes, inputs or
    /// results that are not its own, with its reason; INTERNAL when the operator fails; those of
    /// kiln_record.
    pub fn kiln_custom(device: *mut kiln_device, call: *const kiln_custom_call, out_tensors: *mut *mut kiln_tensor, n_outputs: usize, err: *mut kiln_error) -> kiln_status;
    /// The operator that such a call would take: its parameters, how many inputs and outputs. `*out_op`
    /// is borrowed and lives as long as the device. Errors: NOT_FOUND.
    pub fn kiln_custom_find(device: *mut kiln_device, name: *const c_char, version: u32, out_op: *mut *const kiln_custom_op, err: *mut kiln_error) -> kiln_status;
    /// One of the operators that the context's plugins bring, counted from 0 over all of them.
    /// `*out_op` is borrowed and lives as long as the device. Errors: NOT_FOUND past the last.
    pub fn kiln_custom_get(device: *mut kiln_device, index: usize, out_op: *mut *const kiln_custom_op, err: *mut kiln_error) -> kiln_status;
    /// Checks that a custom operation from elsewhere is what the context's operator of its name and
    /// version makes of its inputs and attributes. Errors: NOT_FOUND, INVALID_ARGUMENT.
    pub fn kiln_custom_check(device: *mut kiln_device, record: *const kiln_op_record, err: *mut kiln_error) -> kiln_status;
    /// Looks up the custom operations of a graph among the operators of the device's context
    /// (kiln_ir_graph_look_up), so that a judge or another user of the reference functions can run it.
    /// The graph must not be run by reference after the device is gone. One thread at a time for a
    /// graph. Errors: NOT_FOUND, INVALID_ARGUMENT, with the operation.
    pub fn kiln_custom_look_up(device: *mut kiln_device, graph: *mut kiln_ir_graph, err: *mut kiln_error) -> kiln_status;
    /// Says that a tensor stands for a parameter, or is a gradient of it. The id belongs to the tensor
    /// and all references to it, and goes along with kiln_to_device; results of operations have none.
    pub fn kiln_tensor_set_param(tensor: *mut kiln_tensor, id: kiln_param_id);
    /// The parameter that the tensor stands for; 0: none.
    pub fn kiln_tensor_param(tensor: *const kiln_tensor) -> kiln_param_id;
    /// Whether the tensor stands for a parameter.
    pub fn kiln_tensor_is_distributed(tensor: *const kiln_tensor) -> bool;
    /// Starts a job. The same name again gives the open job when devices and options are equal; a job
    /// that was closed is replaced. Several jobs in a context do not know of each other. Over MPI all
    /// processes meet here, and all their members register the same parameters in the same order. The
    /// caller holds `*out_job` (kiln_gradsync_release). The job holds its devices until it is closed;
    /// kiln_context_destroy ends what is left. Errors: INVALID_ARGUMENT, ALREADY_EXISTS when it runs
    /// with other devices or options, RESOURCE_EXHAUSTED; over MPI also those of
    /// kiln_collective_create_mpi.
    pub fn kiln_gradsync_start(context: *mut kiln_context, name: *const c_char, devices: *const *mut kiln_device, count: usize, options: *const kiln_gradsync_options, out_job: *mut *mut kiln_gradsync, err: *mut kiln_error) -> kiln_status;
    /// Looks a job up, open or closed. The caller holds `*out_job`. Errors: NOT_FOUND,
    /// INVALID_ARGUMENT.
    pub fn kiln_gradsync_find(context: *mut kiln_context, name: *const c_char, out_job: *mut *mut kiln_gradsync, err: *mut kiln_error) -> kiln_status;
    /// Closes a job and cancels what is pending, in other processes too. It may be called again.
    /// Errors: NOT_FOUND, INVALID_ARGUMENT.
    pub fn kiln_gradsync_close(context: *mut kiln_context, name: *const c_char, err: *mut kiln_error) -> kiln_status;
    /// Closes a job, as kiln_gradsync_close, and removes its name. Errors: NOT_FOUND, INVALID_ARGUMENT.
    pub fn kiln_gradsync_remove(context: *mut kiln_context, name: *const c_char, err: *mut kiln_error) -> kiln_status;
    /// Takes one more reference to the job and returns it. Takes NULL.
    pub fn kiln_gradsync_retain(job: *mut kiln_gradsync) -> *mut kiln_gradsync;
    /// Gives up one reference to the job. The context has one until the job is removed or replaced.
    /// With the last one, and when the context is destroyed, calls that have begun come to their end,
    /// or to the job's deadline, so that members of other processes get their results; what has not
    /// begun is cancelled. Takes NULL.
    pub fn kiln_gradsync_release(job: *mut kiln_gradsync);
    /// Begins the member's next epoch and says which parameters it will submit, perhaps none. After
    /// kiln_gradsync_finish it waits for the next round.
    pub fn kiln_gradsync_register(job: *mut kiln_gradsync, member: u32, ids: *const kiln_param_id, count: usize, err: *mut kiln_error) -> kiln_status;
    /// Gives the member's gradient of a parameter. What was accumulated for the parameter is added.
    pub fn kiln_gradsync_submit(job: *mut kiln_gradsync, member: u32, gradient: *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// Adds to a gradient of this member and sends nothing.
    pub fn kiln_gradsync_accumulate(job: *mut kiln_gradsync, member: u32, gradient: *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// Says that the member has submitted all, and returns when the gradients of the others that it
    /// needs are there. Its device then waits for the reductions, as with kiln_collective_resolve;
    /// failures that come later belong to the gradients. Without a register before, it does nothing.
    pub fn kiln_gradsync_sync(job: *mut kiln_gradsync, member: u32, err: *mut kiln_error) -> kiln_status;
    /// Says that the member has no more batches in this round. Later epochs go on without it, until all
    /// have finished and a new round begins.
    pub fn kiln_gradsync_finish(job: *mut kiln_gradsync, member: u32, err: *mut kiln_error) -> kiln_status;
    /// Whether kiln_gradsync_sync would return without waiting for another member.
    pub fn kiln_gradsync_ready(job: *mut kiln_gradsync, member: u32) -> bool;
    /// The reduced gradient of a parameter, between sync and the member's next register. The caller
    /// holds `*out_gradient`. Errors: NOT_FOUND, FAILED_PRECONDITION, the failure of the job.
    pub fn kiln_gradsync_gradient(job: *mut kiln_gradsync, member: u32, id: kiln_param_id, out_gradient: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// Fills totals of the graph's memory.
    pub fn kiln_graph_memory_get(graph: *const kiln_graph, out_memory: *mut kiln_graph_memory, err: *mut kiln_error) -> kiln_status;
    /// Fills the value with this number. Values are numbered from 0 in the order in which they are
    /// written. Errors: also NOT_FOUND past the last.
    pub fn kiln_graph_memory_value_get(graph: *const kiln_graph, index: u32, out_value: *mut kiln_graph_memory_value, err: *mut kiln_error) -> kiln_status;
    /// Fills the step with this number, counted from 0. Errors: also NOT_FOUND past the last.
    pub fn kiln_graph_memory_step_get(graph: *const kiln_graph, index: u32, out_step: *mut kiln_graph_memory_step, err: *mut kiln_error) -> kiln_status;
    /// Memory of tensors: wrapped, staged, persistent, shared by handles.
    ///
    /// Unless a function says otherwise: any thread may call it; its arguments are borrowed for the
    /// call; it can fail with INVALID_ARGUMENT or RESOURCE_EXHAUSTED. NULL where a pointer is needed is
    /// INVALID_ARGUMENT; a function without a status then does nothing and gives 0.
    /// Makes a tensor in the caller's memory, dense and row-major. There is no copy when the device
    /// shares the host's memory and `memory` is aligned to its `memory_align`; otherwise the bytes are
    /// copied. Nothing is ever written to `memory`. `release` may be NULL. It is called once when the
    /// memory is not needed any more: at once after a copy, else after the last use on the device, on
    /// any thread; it must not call Kiln. On failure it is not called. The caller holds `*out_tensor`.
    /// Errors: as kiln_tensor_create.
    pub fn kiln_tensor_wrap(device: *mut kiln_device, dtype: kiln_dtype, rank: usize, dims: *const i64, memory: *mut c_void, release: Option<unsafe extern "C" fn(*mut c_void)>, user: *mut c_void, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// Makes a constant tensor (kiln_tensor_mark_constant) of the caller's memory. The device has a
    /// copy only while it needs one: from the first use until what was packed from it is used instead.
    /// It copies again when the tensor is used after all; reads take the bytes from the memory. A
    /// device that cannot do this copies them now. On failure `release` is not called. The caller holds
    /// `*out_tensor`. Errors: as kiln_tensor_create.
    pub fn kiln_tensor_wrap_constant(device: *mut kiln_device, dtype: kiln_dtype, rank: usize, dims: *const i64, memory: *const kiln_constant_memory, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// Allocates staging memory: kiln_tensor_create copies from it, and reads copy to it, at the speed
    /// of the link (pinned, where the device has memory of its own). The caller frees it with
    /// kiln_host_free on the same device, before the device is released. Errors: RESOURCE_EXHAUSTED,
    /// DEVICE_LOST.
    pub fn kiln_host_alloc(device: *mut kiln_device, bytes: usize, out_memory: *mut *mut c_void, err: *mut kiln_error) -> kiln_status;
    /// Frees memory of kiln_host_alloc. Takes NULL.
    pub fn kiln_host_free(device: *mut kiln_device, memory: *mut c_void);
    /// Gives what this thread creates and computes on the device until kiln_persistent_end memory of
    /// its exact size, which does not come from the pool and does not go back to it: for weights.
    /// Scopes may nest. What was recorded before is submitted. Errors: FAILED_PRECONDITION inside a
    /// capture; those of submitting.
    pub fn kiln_persistent_begin(device: *mut kiln_device, err: *mut kiln_error) -> kiln_status;
    /// Ends the innermost scope, on the thread that began it. What was recorded in it is submitted.
    /// Errors: FAILED_PRECONDITION without begin or inside a capture; those of submitting.
    pub fn kiln_persistent_end(device: *mut kiln_device, err: *mut kiln_error) -> kiln_status;
    /// The kind of handle for tensors of a dtype.
    pub fn kiln_handle_kind_of(dtype: kiln_dtype) -> kiln_handle_kind;
    /// Makes a handle: runs what the tensor needs and does not wait. The caller owns `*out_handle`
    /// (kiln_handle_release). Errors: INVALID_ARGUMENT for the wrong kind, RESOURCE_EXHAUSTED, the
    /// cause when the value failed.
    pub fn kiln_tensor_to_handle(tensor: *mut kiln_tensor, kind: kiln_handle_kind, out_handle: *mut *mut kiln_handle, err: *mut kiln_error) -> kiln_status;
    /// Makes a tensor that shares the handle's memory. The caller holds `*out_tensor`. Errors: as
    /// kiln_tensor_to_handle.
    pub fn kiln_tensor_from_handle(handle: *const kiln_handle, kind: kiln_handle_kind, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// Where the value lies. The view lives as long as the handle.
    pub fn kiln_handle_view(handle: *const kiln_handle) -> *const kiln_view;
    /// Gives up the handle. Takes NULL.
    pub fn kiln_handle_release(handle: *mut kiln_handle);
    /// Loads one more plugin by path. Call it before the first device is opened. A plugin that was
    /// taken stays; one that was refused is judged again; one with the same id from the plugin path is
    /// dropped. The code stays loaded for the process. Errors: the loader's, with its reason;
    /// FAILED_PRECONDITION after a device was opened.
    pub fn kiln_plugin_load(context: *mut kiln_context, path: *const c_char, err: *mut kiln_error) -> kiln_status;
    /// Forgets what the cache holds against the plugin with this id, or against all plugins when `id`
    /// is NULL: a failed scan, a process that ended in it, failures of its fusers. It counts for
    /// contexts that are made afterwards. Errors: FAILED_PRECONDITION when there is no cache.
    pub fn kiln_plugin_reset(context: *mut kiln_context, id: *const c_char, out_count: *mut u32, err: *mut kiln_error) -> kiln_status;
    /// What became of the file with this index, counted from 0 over all files that were looked at.
    /// Texts are borrowed and live as long as the context. Errors: NOT_FOUND past the last.
    pub fn kiln_plugin_get(context: *mut kiln_context, index: usize, out_info: *mut kiln_plugin_info, err: *mut kiln_error) -> kiln_status;
    /// Random numbers of a device.
    ///
    /// Unless a function says otherwise: any thread may call it; its arguments are borrowed for the
    /// call; it can fail with RESOURCE_EXHAUSTED, and with the errors of submitting what was recorded
    /// before. NULL where a pointer is needed is INVALID_ARGUMENT; a function without a status then
    /// does nothing and gives 0.
    /// Starts the device's random numbers anew: operations that are recorded from now on draw from
    /// `seed`; those before are submitted and keep their numbers. Equal seeds give equal numbers on
    /// every device, fused or not. Each thread draws from an RNG stream of its own; streams are
    /// numbered in the order in which threads draw first. Each operation is one draw, and each run of a
    /// graph draws anew. Before the first call the seed is 0. The seed is set even when submitting
    /// fails.
    pub fn kiln_seed(device: *mut kiln_device, seed: i64, err: *mut kiln_error) -> kiln_status;
    /// Lets the calling thread draw from RNG stream `number`, from its beginning, until the next
    /// kiln_seed. It serves threads whose numbers must not depend on which of them draws first.
    pub fn kiln_random_stream(device: *mut kiln_device, number: u32, err: *mut kiln_error) -> kiln_status;
    /// Reading values back, now or later.
    ///
    /// Unless a function says otherwise: any thread may call it; its arguments are borrowed for the
    /// call; it reports INVALID_ARGUMENT when `bytes` is not kiln_tensor_bytes, and the first cause
    /// when something that the tensor depends on failed. NULL where a pointer is needed is
    /// INVALID_ARGUMENT; a function without a status then does nothing and gives 0.
    /// Runs what the tensor needs, waits, and copies all of it, dense and row-major, to `out_data`.
    pub fn kiln_read(tensor: *mut kiln_tensor, out_data: *mut c_void, bytes: usize, err: *mut kiln_error) -> kiln_status;
    /// Reads several tensors, of one device or of several, with one wait for each device. On failure
    /// the contents of `out_data` are not known. Errors: the first.
    pub fn kiln_read_many(tensors: *const *mut kiln_tensor, out_data: *const *mut c_void, bytes: *const usize, count: usize, err: *mut kiln_error) -> kiln_status;
    /// Starts a read. The tensor may be released at once. `out_data` must live until the read was
    /// waited for or cancelled. The caller owns `*out_request` (kiln_request_destroy), which keeps the
    /// device open; one thread at a time may use it.
    pub fn kiln_read_async(tensor: *mut kiln_tensor, out_data: *mut c_void, bytes: usize, out_request: *mut *mut kiln_request, err: *mut kiln_error) -> kiln_status;
    /// Whether kiln_request_wait would return without waiting for the device; true for NULL.
    pub fn kiln_request_poll(request: *mut kiln_request) -> bool;
    /// Waits for the read and returns its result. It may be called any number of times. Errors: also
    /// CANCELLED after kiln_request_cancel.
    pub fn kiln_request_wait(request: *mut kiln_request, err: *mut kiln_error) -> kiln_status;
    /// Cancels the read: nothing is written to `out_data` after it returns.
    pub fn kiln_request_cancel(request: *mut kiln_request);
    /// Frees the request, and cancels it if nobody waited for it. Takes NULL.
    pub fn kiln_request_destroy(request: *mut kiln_request);
    /// Waits for a tensor's value and gives its address, dense and row-major: where it lies when the
    /// device shares the host's memory, otherwise in a copy. `*out_data` must not be written; it lives
    /// until kiln_mapping_release, also when the tensor is released before.
    pub fn kiln_tensor_map(tensor: *mut kiln_tensor, out_data: *mut *const c_void, out_mapping: *mut *mut kiln_mapping, err: *mut kiln_error) -> kiln_status;
    /// Ends a look at a tensor's value. Takes NULL.
    pub fn kiln_mapping_release(mapping: *mut kiln_mapping);
    /// Records any operator of the table; the functions of kiln_ops.h do this by name. `attrs` are in
    /// the order of the operator's schema, KILN_ATTR_NONE for an absent optional one; everything is
    /// copied. `device` may be NULL when there are inputs. For KILN_OP_CUSTOM (see kiln_custom)
    /// `out_tensors` has KILN_MAX_OUTPUTS places. Errors: INVALID_ARGUMENT with operator, shapes and
    /// values; FAILED_PRECONDITION for inputs of different devices; NOT_FOUND for a custom operator
    /// that no plugin brings.
    pub fn kiln_record(device: *mut kiln_device, op: kiln_op, inputs: *const *mut kiln_tensor, n_inputs: usize, attrs: *const kiln_attr, n_attrs: usize, out_tensors: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// Makes products of f32 that the calling thread records on the device from now on (matmul, linear,
    /// conv, conv_transpose, attention, einsum) compute in `dtype`, f16 or bf16: their operands are
    /// cast, their sums are of f32, and their results are cast to f32; F32: no more. All else stays in
    /// f32. A tape watches what is computed, so that gradients of such products compute in `dtype`,
    /// too. `out_before`, if not NULL, gets what was set before. Errors: also UNIMPLEMENTED for a
    /// device without the dtype.
    pub fn kiln_products_in(device: *mut kiln_device, dtype: kiln_dtype, out_before: *mut kiln_dtype, err: *mut kiln_error) -> kiln_status;
    /// Gives the bits of a tensor another name, without a copy: those of a small float dtype (f8e4m3fn
    /// and the others of dtype.def) as u8, those of u8 as a small float dtype. kiln_cast gives numbers.
    /// Errors: also INVALID_ARGUMENT for other dtypes.
    pub fn kiln_bits_as(x: *mut kiln_tensor, dtype: kiln_dtype, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// Records a replayable stream (ir_replay.h): its inputs, with the strides that they had, its
    /// operations and drops. out_tensors[i] is output i of its graph. Errors: INVALID_ARGUMENT for an
    /// input without data; those of kiln_tensor_create and kiln_record.
    pub fn kiln_replay_run(device: *mut kiln_device, replay: *const kiln_replay, out_tensors: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// Gives the indices of the elements that are not 0 as a tensor [count, rank] in row-major order,
    /// like NumPy's argwhere. The length of the result depends on contents, so the call counts on the
    /// device, waits for that one number, then records argwhere. Errors: those of kiln_record and
    /// kiln_read; FAILED_PRECONDITION while this thread captures.
    pub fn kiln_nonzero(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// Makes a stream. The caller holds `*out_stream` (kiln_stream_release).
    pub fn kiln_stream_create(device: *mut kiln_device, out_stream: *mut *mut kiln_stream, err: *mut kiln_error) -> kiln_status;
    /// Takes one more reference to the stream and returns it. Takes NULL.
    pub fn kiln_stream_retain(stream: *mut kiln_stream) -> *mut kiln_stream;
    /// Gives up one reference to the stream. What was recorded still runs. Takes NULL.
    pub fn kiln_stream_release(stream: *mut kiln_stream);
    /// Sends what the calling thread records on the device from now on to `stream`; NULL: to the
    /// thread's own stream, as after the stream's last release. An open capture goes on. Like
    /// torch.cuda.set_stream. Errors: also INVALID_ARGUMENT for a stream of another device.
    pub fn kiln_stream_set(device: *mut kiln_device, stream: *mut kiln_stream, err: *mut kiln_error) -> kiln_status;
    /// Says whether lengths differ from run to run in what the calling thread's stream records from now
    /// on, as those of a text that grows. With `on`, operations wait until a value is needed or
    /// kiln_flush is called, and are planned all at once; a plan that was made for other lengths
    /// serves, up to sixteen times as long or short. Otherwise other lengths are planned for anew now
    /// and then: when they pass a power of two, divide by 16, or are equal to another length of the
    /// program. Errors: FAILED_PRECONDITION while this thread captures.
    pub fn kiln_stream_vary_lengths(device: *mut kiln_device, on: bool, out_before: *mut bool, err: *mut kiln_error) -> kiln_status;
    /// Makes an event for what the calling thread's stream has recorded so far. The caller owns
    /// `*out_event` (kiln_event_destroy). Errors: FAILED_PRECONDITION while this thread captures; those
    /// of planning and of the device. Failures of operations stay with their results.
    pub fn kiln_event_record(device: *mut kiln_device, out_event: *mut *mut kiln_event, err: *mut kiln_error) -> kiln_status;
    /// Lets what this thread's stream on `device` records from now on run after the event. The host
    /// waits only when the event is of another device. Errors: as kiln_event_record.
    pub fn kiln_stream_wait(device: *mut kiln_device, event: *mut kiln_event, err: *mut kiln_error) -> kiln_status;
    /// Submits what the event stands for, and waits on the host until it has happened. Errors: as
    /// kiln_event_record.
    pub fn kiln_event_wait(event: *mut kiln_event, err: *mut kiln_error) -> kiln_status;
    /// Whether kiln_event_wait would return at once; true for NULL. Submits what it would wait for.
    pub fn kiln_event_poll(event: *mut kiln_event) -> bool;
    /// Frees the event and does not wait. Takes NULL.
    pub fn kiln_event_destroy(event: *mut kiln_event);
    /// Traces: what was recorded, planned and run, and when.
    ///
    /// Unless a function says otherwise: any thread may call it; its arguments are borrowed for the
    /// call; it can fail with INVALID_ARGUMENT or RESOURCE_EXHAUSTED. NULL where a pointer is needed is
    /// INVALID_ARGUMENT; a function without a status then does nothing and gives 0.
    /// Starts a trace: from now on the context notes what is recorded, planned, built and queued on its
    /// devices, and when they run it. Devices then use queues that measure; without a trace nothing is
    /// noted and nothing is paid. The option `trace` starts one with the first device and writes it
    /// when the context ends.
    pub fn kiln_trace_start(context: *mut kiln_context, err: *mut kiln_error) -> kiln_status;
    /// Waits for the devices and writes what was noted so far as JSON in Chrome's trace event format,
    /// for Perfetto and chrome://tracing. Errors: FAILED_PRECONDITION without a trace, UNAVAILABLE for
    /// the file, RESOURCE_EXHAUSTED.
    pub fn kiln_trace_write(context: *mut kiln_context, path: *const c_char, err: *mut kiln_error) -> kiln_status;
    /// Notes what the calling thread did since `start_ns` (kiln_time_ns), such as a request that it
    /// answered, with a text about it, such as the request's id; both are copied. Without a trace
    /// nothing happens. It cannot fail.
    pub fn kiln_trace_note(device: *mut kiln_device, name: *const c_char, detail: *const c_char, start_ns: u64);
    /// The operators of Kiln as functions. Each records one operation and gives a handle to its
    /// result at once; see kiln_record in kiln.h.
    ///
    /// Any thread may call these functions; operations of one thread on one device run in the
    /// order of recording. Inputs are borrowed, attributes copied; `*out_tensor` is the caller's
    /// reference (kiln_release) and keeps its device open. They can fail with INVALID_ARGUMENT,
    /// naming operator, shapes and values; RESOURCE_EXHAUSTED; FAILED_PRECONDITION for inputs of
    /// different devices. NULL where a pointer is needed is INVALID_ARGUMENT.
    /// absolute value; of the smallest integer: itself.
    pub fn kiln_abs(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// -x; integers wrap.
    pub fn kiln_neg(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// -1, 0 or 1; NaN stays NaN, a zero keeps its sign.
    pub fn kiln_sign(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// e raised to x.
    pub fn kiln_exp(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// exp(x) - 1, accurate near 0.
    pub fn kiln_expm1(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// natural logarithm.
    pub fn kiln_log(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// log(1 + x), accurate near 0.
    pub fn kiln_log1p(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// error function.
    pub fn kiln_erf(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// square root.
    pub fn kiln_sqrt(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// 1 / sqrt(x).
    pub fn kiln_rsqrt(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// 1 / x.
    pub fn kiln_recip(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// sine of x in radians.
    pub fn kiln_sin(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// cosine of x in radians.
    pub fn kiln_cos(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// tangent of x in radians.
    pub fn kiln_tan(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// hyperbolic sine.
    pub fn kiln_sinh(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// hyperbolic cosine.
    pub fn kiln_cosh(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// hyperbolic tangent.
    pub fn kiln_tanh(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// inverse sine.
    pub fn kiln_asin(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// inverse cosine.
    pub fn kiln_acos(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// inverse tangent.
    pub fn kiln_atan(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// inverse hyperbolic sine.
    pub fn kiln_asinh(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// inverse hyperbolic cosine.
    pub fn kiln_acosh(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// inverse hyperbolic tangent.
    pub fn kiln_atanh(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// nearest integer, halves to even.
    pub fn kiln_round(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// largest integer not above x.
    pub fn kiln_floor(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// smallest integer not below x.
    pub fn kiln_ceil(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// integer part of x.
    pub fn kiln_trunc(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// max(x, 0); NaN stays NaN.
    pub fn kiln_relu(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// 1 / (1 + exp(-x)).
    pub fn kiln_sigmoid(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// whether x is not a number.
    pub fn kiln_is_nan(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// whether x is an infinity.
    pub fn kiln_is_inf(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// not x.
    pub fn kiln_logical_not(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// all bits of x inverted.
    pub fn kiln_bitwise_not(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// a + b; integers wrap.
    pub fn kiln_add(a: *mut kiln_tensor, b: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// a - b; integers wrap.
    pub fn kiln_sub(a: *mut kiln_tensor, b: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// a * b; integers wrap.
    pub fn kiln_mul(a: *mut kiln_tensor, b: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// a / b; integers round to 0, x/0 = 0, smallest/-1 = smallest.
    pub fn kiln_div(a: *mut kiln_tensor, b: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// a - b * floor(a / b): the sign of b; integer x%0 = 0.
    pub fn kiln_rem(a: *mut kiln_tensor, b: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// a - b * trunc(a / b): the sign of a; integer x%0 = 0.
    pub fn kiln_fmod(a: *mut kiln_tensor, b: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// a raised to b; integers wrap, a negative exponent truncates the true value, 0 to it is 0.
    pub fn kiln_pow(a: *mut kiln_tensor, b: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// the smaller; NaN if either is NaN.
    pub fn kiln_minimum(a: *mut kiln_tensor, b: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// the larger; NaN if either is NaN.
    pub fn kiln_maximum(a: *mut kiln_tensor, b: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// angle of the point (b, a).
    pub fn kiln_atan2(a: *mut kiln_tensor, b: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// sqrt(a*a + b*b) without overflow.
    pub fn kiln_hypot(a: *mut kiln_tensor, b: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// a == b; NaN equals nothing.
    pub fn kiln_equal(a: *mut kiln_tensor, b: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// a != b.
    pub fn kiln_not_equal(a: *mut kiln_tensor, b: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// a < b.
    pub fn kiln_less(a: *mut kiln_tensor, b: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// a <= b.
    pub fn kiln_less_equal(a: *mut kiln_tensor, b: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// a > b.
    pub fn kiln_greater(a: *mut kiln_tensor, b: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// a >= b.
    pub fn kiln_greater_equal(a: *mut kiln_tensor, b: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// a and b.
    pub fn kiln_logical_and(a: *mut kiln_tensor, b: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// a or b.
    pub fn kiln_logical_or(a: *mut kiln_tensor, b: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// either a or b.
    pub fn kiln_logical_xor(a: *mut kiln_tensor, b: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// bits set in both.
    pub fn kiln_bitwise_and(a: *mut kiln_tensor, b: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// bits set in any.
    pub fn kiln_bitwise_or(a: *mut kiln_tensor, b: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// bits set in one.
    pub fn kiln_bitwise_xor(a: *mut kiln_tensor, b: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// a * 2^b; 0 when b is negative or the width or more.
    pub fn kiln_shift_left(a: *mut kiln_tensor, b: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// a shifted right, with the sign when signed; 0 when b is negative or the width or more.
    pub fn kiln_shift_right(a: *mut kiln_tensor, b: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x + value.
    /// `value`: scalar operand.
    pub fn kiln_add_scalar(x: *mut kiln_tensor, value: kiln_number, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x - value.
    /// `value`: scalar operand.
    pub fn kiln_sub_scalar(x: *mut kiln_tensor, value: kiln_number, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x * value.
    /// `value`: scalar operand.
    pub fn kiln_mul_scalar(x: *mut kiln_tensor, value: kiln_number, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x / value, as div.
    /// `value`: scalar operand.
    pub fn kiln_div_scalar(x: *mut kiln_tensor, value: kiln_number, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// as rem with value.
    /// `value`: scalar operand.
    pub fn kiln_rem_scalar(x: *mut kiln_tensor, value: kiln_number, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// as pow with value.
    /// `value`: scalar operand.
    pub fn kiln_pow_scalar(x: *mut kiln_tensor, value: kiln_number, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// max(x, value); NaN stays NaN.
    /// `value`: scalar operand.
    pub fn kiln_clamp_min(x: *mut kiln_tensor, value: kiln_number, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// min(x, value); NaN stays NaN.
    /// `value`: scalar operand.
    pub fn kiln_clamp_max(x: *mut kiln_tensor, value: kiln_number, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x == value.
    /// `value`: scalar operand.
    pub fn kiln_equal_scalar(x: *mut kiln_tensor, value: kiln_number, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x != value.
    /// `value`: scalar operand.
    pub fn kiln_not_equal_scalar(x: *mut kiln_tensor, value: kiln_number, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x < value.
    /// `value`: scalar operand.
    pub fn kiln_less_scalar(x: *mut kiln_tensor, value: kiln_number, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x <= value.
    /// `value`: scalar operand.
    pub fn kiln_less_equal_scalar(x: *mut kiln_tensor, value: kiln_number, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x > value.
    /// `value`: scalar operand.
    pub fn kiln_greater_scalar(x: *mut kiln_tensor, value: kiln_number, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x >= value.
    /// `value`: scalar operand.
    pub fn kiln_greater_equal_scalar(x: *mut kiln_tensor, value: kiln_number, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// as bitwise_and with value.
    /// `value`: scalar operand.
    pub fn kiln_bitwise_and_scalar(x: *mut kiln_tensor, value: kiln_number, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// as bitwise_or with value.
    /// `value`: scalar operand.
    pub fn kiln_bitwise_or_scalar(x: *mut kiln_tensor, value: kiln_number, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// as bitwise_xor with value.
    /// `value`: scalar operand.
    pub fn kiln_bitwise_xor_scalar(x: *mut kiln_tensor, value: kiln_number, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// as shift_left with value.
    /// `value`: scalar operand.
    pub fn kiln_shift_left_scalar(x: *mut kiln_tensor, value: kiln_number, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// as shift_right with value.
    /// `value`: scalar operand.
    pub fn kiln_shift_right_scalar(x: *mut kiln_tensor, value: kiln_number, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// min(max(x, min), max); NaN stays NaN.
    /// `min`: lower bound.
    /// `max`: upper bound.
    pub fn kiln_clamp(x: *mut kiln_tensor, min: kiln_number, max: kiln_number, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x where x >= 0, else slope * x.
    /// `slope`: factor for negative elements.
    pub fn kiln_leaky_relu(x: *mut kiln_tensor, slope: f64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x * P(X <= x) of the normal distribution; approximate: by tanh.
    /// `approximate`: use the cheaper formula.
    pub fn kiln_gelu(x: *mut kiln_tensor, approximate: bool, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// a where mask, else b; the mask is bool.
    pub fn kiln_where(a: *mut kiln_tensor, b: *mut kiln_tensor, mask: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// value where mask, else x; the mask is bool.
    /// `value`: scalar operand.
    pub fn kiln_mask_fill(x: *mut kiln_tensor, mask: *mut kiln_tensor, value: kiln_number, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x as dtype; float to integer saturates and truncates, NaN gives 0; integers wrap; bool is x != 0.
    /// `dtype`: element type of the result.
    pub fn kiln_cast(x: *mut kiln_tensor, dtype: kiln_dtype, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// the bits of x, as a number, in the small float dtype of number value (f8e4m3fn is 20): the nearest, as a cast to it.
    /// `value`: scalar operand.
    pub fn kiln_encode_small(x: *mut kiln_tensor, value: kiln_number, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// what bits x, an integer from 0 to 255, stand for in the small float dtype of number value.
    /// `value`: scalar operand.
    pub fn kiln_decode_small(x: *mut kiln_tensor, value: kiln_number, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// a copy of x with dense row-major layout.
    pub fn kiln_contiguous(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// slope * x where x < 0, else x.
    pub fn kiln_prelu(x: *mut kiln_tensor, slope: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// min(max(alpha * x + beta, 0), 1).
    /// `alpha`: first factor of the formula.
    /// `beta`: second factor of the formula.
    pub fn kiln_hard_sigmoid(x: *mut kiln_tensor, alpha: f64, beta: f64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// logarithm of sigmoid, computed without it.
    pub fn kiln_log_sigmoid(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// grad where output = relu(x) is above 0, else 0.
    pub fn kiln_relu_backward(output: *mut kiln_tensor, grad: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// grad * derivative of gelu at x.
    /// `approximate`: use the cheaper formula.
    pub fn kiln_gelu_backward(x: *mut kiln_tensor, grad: *mut kiln_tensor, approximate: bool, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// grad * output * (1 - output), output = sigmoid(x).
    pub fn kiln_sigmoid_backward(output: *mut kiln_tensor, grad: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// grad * sigmoid(-x).
    pub fn kiln_log_sigmoid_backward(x: *mut kiln_tensor, grad: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x * sigmoid(x), also called swish.
    pub fn kiln_silu(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// log(1 + exp(x)) without overflow.
    pub fn kiln_softplus(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x where x > 0, else alpha * (exp(x) - 1).
    /// `alpha`: first factor of the formula.
    pub fn kiln_elu(x: *mut kiln_tensor, alpha: f64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x * tanh(softplus(x)).
    pub fn kiln_mish(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x * min(max(x / 6 + 1 / 2, 0), 1).
    pub fn kiln_hard_swish(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x with other lengths, same elements in row-major order; one length may be -1.
    /// `shape`: lengths of the result.
    pub fn kiln_reshape(x: *mut kiln_tensor, shape: *const i64, n_shape: usize, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x broadcast to shape; -1 keeps a length.
    /// `shape`: lengths of the result.
    pub fn kiln_expand(x: *mut kiln_tensor, shape: *const i64, n_shape: usize, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// axis i of the result is axis axes[i] of x; empty: reversed.
    /// `axes`: axes; negative counts from the last; empty: all.
    pub fn kiln_permute(x: *mut kiln_tensor, axes: *const i64, n_axes: usize, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x[starts:ends:steps] as in Python, for every axis in order.
    /// `starts`: first index of each axis, clamped like Python's.
    /// `ends`: index after the last of each axis, clamped like Python's.
    /// `steps`: step of each axis, not 0; empty: 1.
    pub fn kiln_slice(x: *mut kiln_tensor, starts: *const i64, n_starts: usize, ends: *const i64, n_ends: usize, steps: *const i64, n_steps: usize, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x reversed along axes; empty: along all.
    /// `axes`: axes; negative counts from the last; empty: all.
    pub fn kiln_flip(x: *mut kiln_tensor, axes: *const i64, n_axes: usize, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// windows of x along axis; their elements run along a new last axis.
    /// `axis`: axis; negative counts from the last.
    /// `size`: length of a window or block.
    /// `stride`: distance between the beginnings of windows.
    pub fn kiln_unfold(x: *mut kiln_tensor, axis: i64, size: i64, stride: i64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// elements [.., i, i + offset] of x; the diagonal is the last axis.
    /// `offset`: which diagonal: 0 the main one, above 0 the upper ones.
    pub fn kiln_diagonal(x: *mut kiln_tensor, offset: i64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// sum; of nothing: 0.
    /// `axes`: axes; negative counts from the last; empty: all.
    /// `keepdims`: keep reduced axes with length 1.
    pub fn kiln_sum(x: *mut kiln_tensor, axes: *const i64, n_axes: usize, keepdims: bool, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// arithmetic mean; of nothing: NaN.
    /// `axes`: axes; negative counts from the last; empty: all.
    /// `keepdims`: keep reduced axes with length 1.
    pub fn kiln_mean(x: *mut kiln_tensor, axes: *const i64, n_axes: usize, keepdims: bool, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// product; of nothing: 1.
    /// `axes`: axes; negative counts from the last; empty: all.
    /// `keepdims`: keep reduced axes with length 1.
    pub fn kiln_prod(x: *mut kiln_tensor, axes: *const i64, n_axes: usize, keepdims: bool, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// largest; NaN if any is NaN; of nothing: the smallest value of the dtype, -inf for floats.
    /// `axes`: axes; negative counts from the last; empty: all.
    /// `keepdims`: keep reduced axes with length 1.
    pub fn kiln_max(x: *mut kiln_tensor, axes: *const i64, n_axes: usize, keepdims: bool, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// smallest; NaN if any is NaN; of nothing: the largest value of the dtype, inf for floats.
    /// `axes`: axes; negative counts from the last; empty: all.
    /// `keepdims`: keep reduced axes with length 1.
    pub fn kiln_min(x: *mut kiln_tensor, axes: *const i64, n_axes: usize, keepdims: bool, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// largest absolute value; NaN if any is NaN; of nothing: 0.
    /// `axes`: axes; negative counts from the last; empty: all.
    /// `keepdims`: keep reduced axes with length 1.
    pub fn kiln_max_abs(x: *mut kiln_tensor, axes: *const i64, n_axes: usize, keepdims: bool, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// whether any is true; of nothing: false.
    /// `axes`: axes; negative counts from the last; empty: all.
    /// `keepdims`: keep reduced axes with length 1.
    pub fn kiln_any(x: *mut kiln_tensor, axes: *const i64, n_axes: usize, keepdims: bool, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// whether all are true; of nothing: true.
    /// `axes`: axes; negative counts from the last; empty: all.
    /// `keepdims`: keep reduced axes with length 1.
    pub fn kiln_all(x: *mut kiln_tensor, axes: *const i64, n_axes: usize, keepdims: bool, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// index of the largest along axis; NaN counts as largest.
    /// `axis`: axis; negative counts from the last.
    /// `keepdims`: keep reduced axes with length 1.
    /// `last`: of equal elements take the last, not the first.
    pub fn kiln_argmax(x: *mut kiln_tensor, axis: i64, keepdims: bool, last: bool, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// index of the smallest along axis; NaN counts as smallest.
    /// `axis`: axis; negative counts from the last.
    /// `keepdims`: keep reduced axes with length 1.
    /// `last`: of equal elements take the last, not the first.
    pub fn kiln_argmin(x: *mut kiln_tensor, axis: i64, keepdims: bool, last: bool, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// largest along axis and its index, the first of equals; NaN counts as largest.
    /// `axis`: axis; negative counts from the last.
    /// `keepdims`: keep reduced axes with length 1.
    /// A result that is not wanted may be NULL.
    pub fn kiln_max_with_indices(x: *mut kiln_tensor, axis: i64, keepdims: bool, out_values: *mut *mut kiln_tensor, out_indices: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// smallest along axis and its index, the first of equals; NaN counts as smallest.
    /// `axis`: axis; negative counts from the last.
    /// `keepdims`: keep reduced axes with length 1.
    /// A result that is not wanted may be NULL.
    pub fn kiln_min_with_indices(x: *mut kiln_tensor, axis: i64, keepdims: bool, out_values: *mut *mut kiln_tensor, out_indices: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// matrix product over the last two axes, the others broadcast; rank 1 as in NumPy.
    /// `transpose_a`: swap the last two axes of a.
    /// `transpose_b`: swap the last two axes of b.
    pub fn kiln_matmul(a: *mut kiln_tensor, b: *mut kiln_tensor, transpose_a: bool, transpose_b: bool, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// matmul of (a - a_zero) with (b - b_zero), each i8 or u8, in i32; a_zero is one number or one for each row of a, b_zero one or one for each column of b.
    /// `transpose_a`: swap the last two axes of a.
    /// `transpose_b`: swap the last two axes of b.
    /// Inputs from `a_zero` on may be NULL.
    pub fn kiln_matmul_integer(a: *mut kiln_tensor, b: *mut kiln_tensor, a_zero: *mut kiln_tensor, b_zero: *mut kiln_tensor, transpose_a: bool, transpose_b: bool, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// cross-correlation of x [n,c,..] with weight [o,c/groups,..], plus bias [o].
    /// `options` may be NULL only when nothing in it is required.
    /// Inputs from `bias` on may be NULL.
    pub fn kiln_conv(x: *mut kiln_tensor, weight: *mut kiln_tensor, bias: *mut kiln_tensor, options: *const kiln_conv_options, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// conv of (x - x_zero) with (weight - weight_zero), each i8 or u8, in i32; x_zero is one number, weight_zero one or one for each of its o; padding is x_zero.
    /// `options` may be NULL only when nothing in it is required.
    /// Inputs from `x_zero` on may be NULL.
    pub fn kiln_conv_integer(x: *mut kiln_tensor, weight: *mut kiln_tensor, x_zero: *mut kiln_tensor, weight_zero: *mut kiln_tensor, options: *const kiln_conv_integer_options, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// what conv gives back to its x: x [n,c,..], weight [c,o/groups,..], plus bias [o]; padding is cut off, output_padding appended.
    /// `options` may be NULL only when nothing in it is required.
    /// Inputs from `bias` on may be NULL.
    pub fn kiln_conv_transpose(x: *mut kiln_tensor, weight: *mut kiln_tensor, bias: *mut kiln_tensor, options: *const kiln_conv_transpose_options, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// gradient of conv for its x, which has the shape.
    /// `options` may be NULL only when nothing in it is required.
    pub fn kiln_conv_x_backward(grad: *mut kiln_tensor, weight: *mut kiln_tensor, options: *const kiln_conv_x_backward_options, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// gradient of conv for its weight, which has the shape.
    /// `options` may be NULL only when nothing in it is required.
    pub fn kiln_conv_weight_backward(x: *mut kiln_tensor, grad: *mut kiln_tensor, options: *const kiln_conv_weight_backward_options, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// gradient of conv and conv_transpose for their bias: the sum over all axes but channels.
    pub fn kiln_conv_bias_backward(grad: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// gradient of conv_transpose for its x, which has the shape.
    /// `options` may be NULL only when nothing in it is required.
    pub fn kiln_conv_transpose_x_backward(grad: *mut kiln_tensor, weight: *mut kiln_tensor, options: *const kiln_conv_transpose_x_backward_options, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// gradient of conv_transpose for its weight, which has the shape.
    /// `options` may be NULL only when nothing in it is required.
    pub fn kiln_conv_transpose_weight_backward(x: *mut kiln_tensor, grad: *mut kiln_tensor, options: *const kiln_conv_transpose_weight_backward_options, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// the windows of x [n,c,..] as columns [n,c*kernel,windows]; 0 in the padding.
    /// `options` may be NULL only when nothing in it is required.
    pub fn kiln_im2col(x: *mut kiln_tensor, options: *const kiln_im2col_options, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// sums of columns [n,c*kernel,windows] at their places in [n,c,output_size]; what im2col gives back to its x.
    /// `options` may be NULL only when nothing in it is required.
    pub fn kiln_col2im(columns: *mut kiln_tensor, options: *const kiln_col2im_options, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// im2col of x [n,c,h,w] with each element read at its place plus offset [n,offset_groups*kernel*2,..], between elements, 0 outside, times mask [n,offset_groups*kernel,..] or one number.
    /// `options` may be NULL only when nothing in it is required.
    /// Inputs from `mask` on may be NULL.
    pub fn kiln_deform_im2col(x: *mut kiln_tensor, offset: *mut kiln_tensor, mask: *mut kiln_tensor, options: *const kiln_deform_im2col_options, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// gradients of deform_im2col for x, offset and mask.
    /// `options` may be NULL only when nothing in it is required.
    /// A result that is not wanted may be NULL.
    pub fn kiln_deform_im2col_backward(x: *mut kiln_tensor, offset: *mut kiln_tensor, mask: *mut kiln_tensor, grad: *mut kiln_tensor, options: *const kiln_deform_im2col_backward_options, out_x_grad: *mut *mut kiln_tensor, out_offset_grad: *mut *mut kiln_tensor, out_mask_grad: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// conv of two spatial axes over deform_im2col; without a mask but with a bias, the mask is one 1.
    /// `options` may be NULL only when nothing in it is required.
    /// Inputs from `mask` on may be NULL.
    pub fn kiln_deform_conv(x: *mut kiln_tensor, offset: *mut kiln_tensor, weight: *mut kiln_tensor, mask: *mut kiln_tensor, bias: *mut kiln_tensor, options: *const kiln_deform_conv_options, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// gradients of deform_conv for x, offset, weight, mask and bias.
    /// `options` may be NULL only when nothing in it is required.
    /// A result that is not wanted may be NULL.
    pub fn kiln_deform_conv_backward(x: *mut kiln_tensor, offset: *mut kiln_tensor, weight: *mut kiln_tensor, mask: *mut kiln_tensor, grad: *mut kiln_tensor, options: *const kiln_deform_conv_backward_options, out_x_grad: *mut *mut kiln_tensor, out_offset_grad: *mut *mut kiln_tensor, out_weight_grad: *mut *mut kiln_tensor, out_mask_grad: *mut *mut kiln_tensor, out_bias_grad: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// largest of each window of x [n,c,..]; padding never wins; NaN propagates.
    /// `options` may be NULL only when nothing in it is required.
    pub fn kiln_max_pool(x: *mut kiln_tensor, options: *const kiln_max_pool_options, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// mean of each window of x [n,c,..].
    /// `options` may be NULL only when nothing in it is required.
    pub fn kiln_avg_pool(x: *mut kiln_tensor, options: *const kiln_avg_pool_options, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// (sum of |x|^p)^(1/p) of each window of x [n,c,..].
    /// `options` may be NULL only when nothing in it is required.
    pub fn kiln_lp_pool(x: *mut kiln_tensor, options: *const kiln_lp_pool_options, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// max_pool, and the places in the plane of spatial axes: of equal elements the first, -1 in a window of padding alone.
    /// `options` may be NULL only when nothing in it is required.
    /// A result that is not wanted may be NULL.
    pub fn kiln_max_pool_with_indices(x: *mut kiln_tensor, options: *const kiln_max_pool_with_indices_options, out_values: *mut *mut kiln_tensor, out_indices: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// gradient of max_pool for its x, which has the shape; an index outside the window gives nothing.
    /// `options` may be NULL only when nothing in it is required.
    pub fn kiln_max_pool_backward(grad: *mut kiln_tensor, indices: *mut kiln_tensor, options: *const kiln_max_pool_backward_options, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// gradient of avg_pool for its x, which has the shape.
    /// `options` may be NULL only when nothing in it is required.
    pub fn kiln_avg_pool_backward(grad: *mut kiln_tensor, options: *const kiln_avg_pool_backward_options, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// means of x [n,c,..] over output_size windows, each from floor(i*in/out) to ceil((i+1)*in/out).
    /// `output_size`: spatial lengths of the result.
    pub fn kiln_adaptive_avg_pool(x: *mut kiln_tensor, output_size: *const i64, n_output_size: usize, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// the largest of each window of adaptive_avg_pool, and its place as max_pool_with_indices has it.
    /// `output_size`: spatial lengths of the result.
    /// A result that is not wanted may be NULL.
    pub fn kiln_adaptive_max_pool(x: *mut kiln_tensor, output_size: *const i64, n_output_size: usize, out_values: *mut *mut kiln_tensor, out_indices: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// gradient of adaptive_avg_pool for its x, which has the shape.
    /// `shape`: lengths of the result.
    pub fn kiln_adaptive_avg_pool_backward(grad: *mut kiln_tensor, shape: *const i64, n_shape: usize, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x at the places that indices say, of a plane of the shape, else 0; the last of several; an index outside is dropped.
    /// `shape`: lengths of the result.
    pub fn kiln_max_unpool(x: *mut kiln_tensor, indices: *mut kiln_tensor, shape: *const i64, n_shape: usize, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x with other lengths of its last axes; mode linear, cubic, lanczos3, nearest (halves down), nearest_up, nearest_floor, nearest_ceil.
    /// `options` may be NULL only when nothing in it is required.
    pub fn kiln_interpolate(x: *mut kiln_tensor, options: *const kiln_interpolate_options, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// gradient of interpolate for its x, which has the shape.
    /// `options` may be NULL only when nothing in it is required.
    pub fn kiln_interpolate_backward(grad: *mut kiln_tensor, options: *const kiln_interpolate_backward_options, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x [n,c,..] at points grid [n,..,axes], the last axis of x first, from -1 to 1; mode linear, nearest or cubic.
    /// `mode`: named variant.
    /// `padding_mode`: what is outside: zeros, border or reflection.
    /// `align_corners`: -1 and 1 are the middles of the outer elements, not their edges.
    /// `cubic_a`: the free coefficient of the cubic filter.
    pub fn kiln_grid_sample(x: *mut kiln_tensor, grid: *mut kiln_tensor, mode: *const c_char, padding_mode: *const c_char, align_corners: bool, cubic_a: f64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// means (mode avg) or largest weighted elements (max) of bins of boxes [r,4] (x1,y1,x2,y2) in x [n,c,h,w]; a batch index outside is clamped.
    /// `output_size`: spatial lengths of the result.
    /// `mode`: named variant.
    /// `coordinates`: where elements of the result lie in the input, by ONNX's names.
    /// `sampling_ratio`: samples along each axis of a bin; 0: as many as it has elements.
    /// `spatial_scale`: factor from coordinates of boxes to those of x.
    pub fn kiln_roi_align(x: *mut kiln_tensor, boxes: *mut kiln_tensor, batch_indices: *mut kiln_tensor, output_size: *const i64, n_output_size: usize, mode: *const c_char, coordinates: *const c_char, sampling_ratio: i64, spatial_scale: f64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// exp(x - max) / sum of it along axis.
    /// `axis`: axis; negative counts from the last.
    pub fn kiln_softmax(x: *mut kiln_tensor, axis: i64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// logarithm of softmax, computed without it.
    /// `axis`: axis; negative counts from the last.
    pub fn kiln_log_softmax(x: *mut kiln_tensor, axis: i64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// (x - mean) / sqrt(variance + epsilon) * scale + bias, each of length x.dims[1].
    /// `epsilon`: added to the variance.
    pub fn kiln_batch_norm(x: *mut kiln_tensor, scale: *mut kiln_tensor, bias: *mut kiln_tensor, mean: *mut kiln_tensor, variance: *mut kiln_tensor, epsilon: f64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// softmax of -x along axis.
    /// `axis`: axis; negative counts from the last.
    pub fn kiln_softmin(x: *mut kiln_tensor, axis: i64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// output * (grad - sum of grad * output along axis), output = softmax(x).
    /// `axis`: axis; negative counts from the last.
    pub fn kiln_softmax_backward(output: *mut kiln_tensor, grad: *mut kiln_tensor, axis: i64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// grad - exp(output) * sum of grad along axis, output = log_softmax(x).
    /// `axis`: axis; negative counts from the last.
    pub fn kiln_log_softmax_backward(output: *mut kiln_tensor, grad: *mut kiln_tensor, axis: i64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// (x - mean) / sqrt(variance + epsilon) * scale + bias, over the axes from axis on; scale and bias broadcast to them.
    /// `axis`: axis; negative counts from the last.
    /// `epsilon`: added to the variance.
    /// Inputs from `scale` on may be NULL.
    pub fn kiln_layer_norm(x: *mut kiln_tensor, scale: *mut kiln_tensor, bias: *mut kiln_tensor, axis: i64, epsilon: f64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x / sqrt(mean of x * x + epsilon) * scale, over the axes from axis on; scale broadcasts to them.
    /// `axis`: axis; negative counts from the last.
    /// `epsilon`: added to the variance.
    /// Inputs from `scale` on may be NULL.
    pub fn kiln_rms_norm(x: *mut kiln_tensor, scale: *mut kiln_tensor, axis: i64, epsilon: f64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// as layer_norm over each group of channels (axis 1) and the axes after; scale and bias for each channel.
    /// `groups`: number of channel groups.
    /// `epsilon`: added to the variance.
    /// Inputs from `scale` on may be NULL.
    pub fn kiln_group_norm(x: *mut kiln_tensor, scale: *mut kiln_tensor, bias: *mut kiln_tensor, groups: i64, epsilon: f64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// group_norm with a group for each channel.
    /// `epsilon`: added to the variance.
    /// Inputs from `scale` on may be NULL.
    pub fn kiln_instance_norm(x: *mut kiln_tensor, scale: *mut kiln_tensor, bias: *mut kiln_tensor, epsilon: f64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// derivatives of layer_norm by x, scale and bias; scale of rank 0 stands for the same everywhere.
    /// `axis`: axis; negative counts from the last.
    /// `epsilon`: added to the variance.
    /// Inputs from `scale` on may be NULL.
    /// A result that is not wanted may be NULL.
    pub fn kiln_layer_norm_backward(grad: *mut kiln_tensor, x: *mut kiln_tensor, scale: *mut kiln_tensor, axis: i64, epsilon: f64, out_x_grad: *mut *mut kiln_tensor, out_scale_grad: *mut *mut kiln_tensor, out_bias_grad: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// derivatives of rms_norm by x and scale.
    /// `axis`: axis; negative counts from the last.
    /// `epsilon`: added to the variance.
    /// Inputs from `scale` on may be NULL.
    /// A result that is not wanted may be NULL.
    pub fn kiln_rms_norm_backward(grad: *mut kiln_tensor, x: *mut kiln_tensor, scale: *mut kiln_tensor, axis: i64, epsilon: f64, out_x_grad: *mut *mut kiln_tensor, out_scale_grad: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// derivatives of group_norm by x, scale and bias.
    /// `groups`: number of channel groups.
    /// `epsilon`: added to the variance.
    /// Inputs from `scale` on may be NULL.
    /// A result that is not wanted may be NULL.
    pub fn kiln_group_norm_backward(grad: *mut kiln_tensor, x: *mut kiln_tensor, scale: *mut kiln_tensor, groups: i64, epsilon: f64, out_x_grad: *mut *mut kiln_tensor, out_scale_grad: *mut *mut kiln_tensor, out_bias_grad: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// derivatives of instance_norm by x, scale and bias.
    /// `epsilon`: added to the variance.
    /// Inputs from `scale` on may be NULL.
    /// A result that is not wanted may be NULL.
    pub fn kiln_instance_norm_backward(grad: *mut kiln_tensor, x: *mut kiln_tensor, scale: *mut kiln_tensor, epsilon: f64, out_x_grad: *mut *mut kiln_tensor, out_scale_grad: *mut *mut kiln_tensor, out_bias_grad: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// batch_norm with mean and variance of this x; and running * momentum + this * (1 - momentum) of both.
    /// `epsilon`: added to the variance.
    /// `momentum`: share of the old value in a running one.
    /// A result that is not wanted may be NULL.
    pub fn kiln_batch_norm_train(x: *mut kiln_tensor, scale: *mut kiln_tensor, bias: *mut kiln_tensor, mean: *mut kiln_tensor, variance: *mut kiln_tensor, epsilon: f64, momentum: f64, out_values: *mut *mut kiln_tensor, out_running_mean: *mut *mut kiln_tensor, out_running_variance: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// derivatives of batch_norm_train by x, scale and bias.
    /// `epsilon`: added to the variance.
    /// Inputs from `scale` on may be NULL.
    /// A result that is not wanted may be NULL.
    pub fn kiln_batch_norm_backward(grad: *mut kiln_tensor, x: *mut kiln_tensor, scale: *mut kiln_tensor, epsilon: f64, out_x_grad: *mut *mut kiln_tensor, out_scale_grad: *mut *mut kiln_tensor, out_bias_grad: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// out[i][j].. = x[..indices[i][j]..] along axis; indices (i32, i64) as long as x elsewhere or shorter.
    /// `axis`: axis; negative counts from the last.
    pub fn kiln_gather(x: *mut kiln_tensor, indices: *mut kiln_tensor, axis: i64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x at indices (i32, i64, rank 1) along axis.
    /// `axis`: axis; negative counts from the last.
    pub fn kiln_select(x: *mut kiln_tensor, indices: *mut kiln_tensor, axis: i64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x at the tuples that indices (i32, i64) hold along their last axis; batch_dims leading axes are shared.
    /// `batch_dims`: number of leading axes that inputs share.
    pub fn kiln_gather_nd(x: *mut kiln_tensor, indices: *mut kiln_tensor, batch_dims: i64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x with out[..indices[i][j]..] = values[i][j] along axis, or combined with it by mode, in order; an index outside is dropped.
    /// `axis`: axis; negative counts from the last.
    /// `mode`: named variant.
    pub fn kiln_scatter(x: *mut kiln_tensor, values: *mut kiln_tensor, indices: *mut kiln_tensor, axis: i64, mode: *const c_char, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x with parts at the tuples of indices replaced by values, or combined with them by mode, in order; a tuple outside is dropped.
    /// `mode`: named variant.
    pub fn kiln_scatter_nd(x: *mut kiln_tensor, values: *mut kiln_tensor, indices: *mut kiln_tensor, mode: *const c_char, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x with its parts at indices (rank 1) along axis replaced by values, or combined with them by mode, in order; an index outside is dropped.
    /// `axis`: axis; negative counts from the last.
    /// `mode`: named variant.
    pub fn kiln_select_assign(x: *mut kiln_tensor, values: *mut kiln_tensor, indices: *mut kiln_tensor, axis: i64, mode: *const c_char, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x with x[starts:ends:steps] replaced by value.
    /// `starts`: first index of each axis, clamped like Python's.
    /// `ends`: index after the last of each axis, clamped like Python's.
    /// `steps`: step of each axis, not 0; empty: 1.
    pub fn kiln_slice_assign(x: *mut kiln_tensor, value: *mut kiln_tensor, starts: *const i64, n_starts: usize, ends: *const i64, n_ends: usize, steps: *const i64, n_steps: usize, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// rows of weights [n,d] at indices of any shape.
    pub fn kiln_embedding(weights: *mut kiln_tensor, indices: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// count rows, each the sum of the rows of grad whose index names it, in order; an index outside is dropped.
    /// `count`: number of elements.
    pub fn kiln_embedding_backward(grad: *mut kiln_tensor, indices: *mut kiln_tensor, count: i64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// values[1] where the place along the new axis of length count is the index, else values[0]; an index outside hits nothing.
    /// `count`: number of elements.
    /// `axis`: axis; negative counts from the last.
    pub fn kiln_one_hot(values: *mut kiln_tensor, indices: *mut kiln_tensor, count: i64, axis: i64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// the first lengths[b] elements along axis reversed for each b along batch_axis; lengths are clamped.
    /// `axis`: axis; negative counts from the last.
    /// `batch_axis`: axis of independent parts; negative counts from the last.
    pub fn kiln_reverse_sequence(x: *mut kiln_tensor, lengths: *mut kiln_tensor, axis: i64, batch_axis: i64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x beside itself repeats[i] times along axis i (tile).
    /// `repeats`: how often along each axis.
    pub fn kiln_repeat(x: *mut kiln_tensor, repeats: *const i64, n_repeats: usize, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x moved by shifts[i] places along axes[i]; what leaves at the end comes in at the beginning.
    /// `shifts`: places to move along each of the axes.
    /// `axes`: axes; negative counts from the last; empty: all.
    pub fn kiln_roll(x: *mut kiln_tensor, shifts: *const i64, n_shifts: usize, axes: *const i64, n_axes: usize, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x with 0 above diagonal offset of its last two axes.
    /// `offset`: which diagonal: 0 the main one, above 0 the upper ones.
    pub fn kiln_tril(x: *mut kiln_tensor, offset: i64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x with 0 below diagonal offset of its last two axes.
    /// `offset`: which diagonal: 0 the main one, above 0 the upper ones.
    pub fn kiln_triu(x: *mut kiln_tensor, offset: i64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// a matrix of 0 with 1 on diagonal offset.
    /// `shape`: lengths of the result.
    /// `dtype`: element type of the result.
    /// `offset`: which diagonal: 0 the main one, above 0 the upper ones.
    pub fn kiln_eye(device: *mut kiln_device, shape: *const i64, n_shape: usize, dtype: kiln_dtype, offset: i64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x [n,c,h,w]: each size * size channels become a block of the plane; mode dcr: the place in the block is the outer part of the channel, crd: the inner.
    /// `size`: length of a window or block.
    /// `mode`: named variant.
    pub fn kiln_depth_to_space(x: *mut kiln_tensor, size: i64, mode: *const c_char, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x [n,c,h,w]: each block of size * size places becomes channels; the inverse of depth_to_space.
    /// `size`: length of a window or block.
    /// `mode`: named variant.
    pub fn kiln_space_to_depth(x: *mut kiln_tensor, size: i64, mode: *const c_char, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// sum of the elements up to each one; exclusive: without it; reverse: from it on.
    /// `axis`: axis; negative counts from the last.
    /// `exclusive`: without the element itself.
    /// `reverse`: from the end to the beginning.
    pub fn kiln_cum_sum(x: *mut kiln_tensor, axis: i64, exclusive: bool, reverse: bool, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// product of the elements up to each one; exclusive and reverse as cum_sum.
    /// `axis`: axis; negative counts from the last.
    /// `exclusive`: without the element itself.
    /// `reverse`: from the end to the beginning.
    pub fn kiln_cum_prod(x: *mut kiln_tensor, axis: i64, exclusive: bool, reverse: bool, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// largest of the elements up to each one, NaN once one is NaN; of none: as max.
    /// `axis`: axis; negative counts from the last.
    /// `exclusive`: without the element itself.
    /// `reverse`: from the end to the beginning.
    pub fn kiln_cum_max(x: *mut kiln_tensor, axis: i64, exclusive: bool, reverse: bool, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// smallest of the elements up to each one, NaN once one is NaN; of none: as min.
    /// `axis`: axis; negative counts from the last.
    /// `exclusive`: without the element itself.
    /// `reverse`: from the end to the beginning.
    pub fn kiln_cum_min(x: *mut kiln_tensor, axis: i64, exclusive: bool, reverse: bool, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x in order along axis; which of -0 and 0 comes first is left open.
    /// `axis`: axis; negative counts from the last.
    /// `descending`: from the largest down.
    pub fn kiln_sort(x: *mut kiln_tensor, axis: i64, descending: bool, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// indices that put x in order along axis; equals keep their order.
    /// `axis`: axis; negative counts from the last.
    /// `descending`: from the largest down.
    pub fn kiln_argsort(x: *mut kiln_tensor, axis: i64, descending: bool, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x in order along axis and where each element was; equals keep their order.
    /// `axis`: axis; negative counts from the last.
    /// `descending`: from the largest down.
    /// A result that is not wanted may be NULL.
    pub fn kiln_sort_with_indices(x: *mut kiln_tensor, axis: i64, descending: bool, out_values: *mut *mut kiln_tensor, out_indices: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// the count largest along axis from the largest down, or the smallest up, and their indices; of equals the first.
    /// `count`: number of elements.
    /// `axis`: axis; negative counts from the last.
    /// `descending`: from the largest down.
    /// A result that is not wanted may be NULL.
    pub fn kiln_top_k(x: *mut kiln_tensor, count: i64, axis: i64, descending: bool, out_values: *mut *mut kiln_tensor, out_indices: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// cross product along axis, of length 3 in both; the others broadcast.
    /// `axis`: axis; negative counts from the last.
    pub fn kiln_cross(a: *mut kiln_tensor, b: *mut kiln_tensor, axis: i64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// [count, rank]: indices of the first `count` true elements in row-major order; 0 beyond the last.
    /// `count`: number of elements.
    pub fn kiln_argwhere(mask: *mut kiln_tensor, count: i64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// [b, classes, min(count, n)]: boxes [b,n,4] (y1, x1, y2, x2) by falling score [b,classes,n] that none before covers; -1 beyond the last.
    /// `count`: number of elements.
    /// `overlap`: share of the union that the intersection of two boxes must exceed.
    /// `least`: scores must exceed it; absent: all but NaN and -inf do.
    /// `center`: boxes are middle x, middle y, width, height.
    pub fn kiln_nms(boxes: *mut kiln_tensor, scores: *mut kiln_tensor, count: i64, overlap: f64, least: f64, center: bool, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// [n, count]: what the leaves give that each row of x [n,columns] reaches from every root. Node i asks whether column features[i] / 2 is at most thresholds[i], NaN being so where features[i] is odd: then i + 1 is next, else others[i]. A leaf has -1 - (its weights) as features[i], and others[i] is the first of them: weights[k] goes to column targets[k]. mode sum, min or max, 0 of none; a way that leads back or out has no leaf.
    /// `count`: number of elements.
    /// `mode`: named variant.
    pub fn kiln_tree_ensemble(x: *mut kiln_tensor, thresholds: *mut kiln_tensor, weights: *mut kiln_tensor, features: *mut kiln_tensor, others: *mut kiln_tensor, roots: *mut kiln_tensor, targets: *mut kiln_tensor, count: i64, mode: *const c_char, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// inputs one after the other along axis.
    /// `axis`: axis; negative counts from the last.
    pub fn kiln_concat(inputs: *const *mut kiln_tensor, n_inputs: usize, axis: i64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x with elements added; mode constant, edge or reflect; negative padding removes.
    /// `padding`: elements added: all beginnings, then all ends.
    /// `mode`: named variant.
    /// `value`: scalar operand.
    pub fn kiln_pad(x: *mut kiln_tensor, padding: *const i64, n_padding: usize, mode: *const c_char, value: kiln_number, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// every element is value.
    /// `shape`: lengths of the result.
    /// `dtype`: element type of the result.
    /// `value`: scalar operand.
    pub fn kiln_full(device: *mut kiln_device, shape: *const i64, n_shape: usize, dtype: kiln_dtype, value: kiln_number, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// start + i * step for i in [0, count).
    /// `count`: number of elements.
    /// `dtype`: element type of the result.
    /// `start`: first value.
    /// `step`: difference of neighbours.
    pub fn kiln_arange(device: *mut kiln_device, count: i64, dtype: kiln_dtype, start: kiln_number, step: kiln_number, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// uniform numbers, min <= x < max.
    /// `shape`: lengths of the result.
    /// `dtype`: element type of the result.
    /// `min`: lower bound.
    /// `max`: upper bound.
    pub fn kiln_random_uniform(device: *mut kiln_device, shape: *const i64, n_shape: usize, dtype: kiln_dtype, min: kiln_number, max: kiln_number, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// uniform integers, min <= x <= max.
    /// `shape`: lengths of the result.
    /// `dtype`: element type of the result.
    /// `min`: lower bound.
    /// `max`: upper bound.
    pub fn kiln_random_int(device: *mut kiln_device, shape: *const i64, n_shape: usize, dtype: kiln_dtype, min: kiln_number, max: kiln_number, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// normally distributed numbers.
    /// `shape`: lengths of the result.
    /// `dtype`: element type of the result.
    /// `mean`: centre of the distribution.
    /// `deviation`: standard deviation, not negative.
    pub fn kiln_random_normal(device: *mut kiln_device, shape: *const i64, n_shape: usize, dtype: kiln_dtype, mean: f64, deviation: f64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// 1 with a probability, else 0.
    /// `shape`: lengths of the result.
    /// `dtype`: element type of the result.
    /// `probability`: chance of 1, from 0 to 1.
    pub fn kiln_random_bernoulli(device: *mut kiln_device, shape: *const i64, n_shape: usize, dtype: kiln_dtype, probability: f64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x [.., i] times weight [i, o], plus bias [o].
    /// Inputs from `bias` on may be NULL.
    pub fn kiln_linear(x: *mut kiln_tensor, weight: *mut kiln_tensor, bias: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// derivative of linear by x: grad [.., o] times weight [i, o] turned.
    pub fn kiln_linear_x_backward(grad: *mut kiln_tensor, weight: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// derivative of linear by weight: the sum of x [.., i] turned times grad [.., o].
    pub fn kiln_linear_weight_backward(x: *mut kiln_tensor, grad: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// derivative of linear by bias: the sum of grad [.., o] over all axes but the last.
    pub fn kiln_linear_bias_backward(grad: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// softmax of query [.., q, d] times key [.., k, d] turned and scaled, times value [.., k, v]; where mask (false of rank 0 where only bias is given) is true, a key is not seen; bias is added to the scores; who sees nothing gets NaN.
    /// `scale`: factor of the scores; 0: 1 / sqrt(length of a query).
    /// `softcap`: scores become softcap * tanh(scores / softcap); 0: as they are.
    /// `causal`: position i sees none after i.
    /// Inputs from `mask` on may be NULL.
    pub fn kiln_attention(query: *mut kiln_tensor, key: *mut kiln_tensor, value: *mut kiln_tensor, mask: *mut kiln_tensor, bias: *mut kiln_tensor, scale: f64, softcap: f64, causal: bool, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// sum of products over all letters that the result has not, as NumPy's einsum; a repeated letter runs along the diagonal.
    /// `equation`: letters of each input's axes, with commas, then -> and the result's.
    pub fn kiln_einsum(inputs: *const *mut kiln_tensor, n_inputs: usize, equation: *const c_char, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x [t, b, i], weight [d, 4h, i], recurrence [d, 4h, h], gates in the order input, output, forget, cell; bias [d, 8h] of x and then of the state; states [d, b, h]; peephole [d, 3h]: input, output, forget; an input to be skipped is 0 of rank 0; lengths [b] end sequences early, whose values are 0 then.
    /// `options` may be NULL only when nothing in it is required.
    /// Inputs from `bias` on may be NULL.
    /// A result that is not wanted may be NULL.
    pub fn kiln_lstm(x: *mut kiln_tensor, weight: *mut kiln_tensor, recurrence: *mut kiln_tensor, bias: *mut kiln_tensor, initial_h: *mut kiln_tensor, initial_c: *mut kiln_tensor, peephole: *mut kiln_tensor, lengths: *mut kiln_tensor, options: *const kiln_lstm_options, out_values: *mut *mut kiln_tensor, out_last_h: *mut *mut kiln_tensor, out_last_c: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// as lstm, gates in the order update, reset, hidden.
    /// `options` may be NULL only when nothing in it is required.
    /// Inputs from `bias` on may be NULL.
    /// A result that is not wanted may be NULL.
    pub fn kiln_gru(x: *mut kiln_tensor, weight: *mut kiln_tensor, recurrence: *mut kiln_tensor, bias: *mut kiln_tensor, initial_h: *mut kiln_tensor, lengths: *mut kiln_tensor, options: *const kiln_gru_options, out_values: *mut *mut kiln_tensor, out_last_h: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// as lstm with one gate, whose activation is the state.
    /// `options` may be NULL only when nothing in it is required.
    /// Inputs from `bias` on may be NULL.
    /// A result that is not wanted may be NULL.
    pub fn kiln_rnn(x: *mut kiln_tensor, weight: *mut kiln_tensor, recurrence: *mut kiln_tensor, bias: *mut kiln_tensor, initial_h: *mut kiln_tensor, lengths: *mut kiln_tensor, options: *const kiln_rnn_options, out_values: *mut *mut kiln_tensor, out_last_h: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// discrete Fourier transform along axis; imaginary absent: 0.
    /// `axis`: axis; negative counts from the last.
    /// `inverse`: the inverse transform, divided by the length.
    /// Inputs from `imaginary` on may be NULL.
    /// A result that is not wanted may be NULL.
    pub fn kiln_fft(real: *mut kiln_tensor, imaginary: *mut kiln_tensor, axis: i64, inverse: bool, out_real: *mut *mut kiln_tensor, out_imaginary: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// the first length / 2 + 1 elements of fft of a real signal, which is cut or filled with zeros to length.
    /// `axis`: axis; negative counts from the last.
    /// `length`: length of the signal; 0: what the input says.
    /// A result that is not wanted may be NULL.
    pub fn kiln_rfft(x: *mut kiln_tensor, axis: i64, length: i64, out_real: *mut *mut kiln_tensor, out_imaginary: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// the real signal of length elements, 2 * (n - 1) when not given, of which this is rfft.
    /// `axis`: axis; negative counts from the last.
    /// `length`: length of the signal; 0: what the input says.
    pub fn kiln_irfft(real: *mut kiln_tensor, imaginary: *mut kiln_tensor, axis: i64, length: i64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// connectionist temporal classification: -log of the probability of targets [b, s] under log_probs [t, b, classes]; infinite where no path gives them; lengths are clamped to t and s, labels to the classes.
    /// `blank`: class that stands for no label.
    pub fn kiln_ctc_loss(log_probs: *mut kiln_tensor, targets: *mut kiln_tensor, input_lengths: *mut kiln_tensor, target_lengths: *mut kiln_tensor, blank: i64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// derivative of ctc_loss by log_probs, each an input of its own; 0 where the loss is infinite.
    /// `blank`: class that stands for no label.
    pub fn kiln_ctc_loss_backward(log_probs: *mut kiln_tensor, grad: *mut kiln_tensor, targets: *mut kiln_tensor, input_lengths: *mut kiln_tensor, target_lengths: *mut kiln_tensor, blank: i64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// determinant of the square matrices in the last two axes; of no rows: 1.
    pub fn kiln_det(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// 0 to count - 1 in random order: the order of as many 64-bit numbers.
    /// `count`: number of elements.
    /// `dtype`: element type of the result.
    pub fn kiln_random_permutation(device: *mut kiln_device, count: i64, dtype: kiln_dtype, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x / scale of its block (/ global) to the nearest value of dtype, halves to even, outside clamped; NaN and x/0 are 0.
    /// `dtype`: element type of the result.
    /// `blocks`: length of a quantisation block along each axis: a power of 2, or 0 for all of it; empty: one scale.
    /// Inputs from `global` on may be NULL.
    pub fn kiln_quantize(x: *mut kiln_tensor, scales: *mut kiln_tensor, global: *mut kiln_tensor, dtype: kiln_dtype, blocks: *const i64, n_blocks: usize, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// values times the scale of their block (times global), rounded once to dtype.
    /// `dtype`: element type of the result.
    pub fn kiln_dequantize(x: *mut kiln_tensor, dtype: kiln_dtype, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// quantize with the scales 2 r / (highest - lowest), r of each block by mode: min_max (largest magnitude) or abs_mean.
    /// `dtype`: element type of the result.
    /// `blocks`: length of a quantisation block along each axis: a power of 2, or 0 for all of it; empty: one scale.
    /// `scale_dtype`: element type of the scales: f32, f16 or bf16.
    /// `mode`: named variant.
    pub fn kiln_quantize_dynamic(x: *mut kiln_tensor, dtype: kiln_dtype, blocks: *const i64, n_blocks: usize, scale_dtype: kiln_dtype, mode: *const c_char, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// the scales of the blocks of x, one axis of blocks for each axis.
    pub fn kiln_quantized_scales(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// matmul in dtype of operands of which any may be quantised.
    /// `dtype`: element type of the result.
    /// `transpose_a`: swap the last two axes of a.
    /// `transpose_b`: swap the last two axes of b.
    pub fn kiln_matmul_quantized(a: *mut kiln_tensor, b: *mut kiln_tensor, dtype: kiln_dtype, transpose_a: bool, transpose_b: bool, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// linear with a quantised weight [i, o].
    /// Inputs from `bias` on may be NULL.
    pub fn kiln_linear_quantized(x: *mut kiln_tensor, weight: *mut kiln_tensor, bias: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x of all members of a group combined; not to be used before collective_sync; of a group of one: x.
    /// `reduction`: how values are combined: sum, mean, min, max or prod.
    /// `group`: group of devices, by kiln_collective_id; 0: this device alone.
    /// `member`: which device of this process's part of the group, from 0.
    pub fn kiln_all_reduce(x: *mut kiln_tensor, reduction: *const c_char, group: i64, member: i64, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// x, the result of an all_reduce, which the device waits for.
    pub fn kiln_collective_sync(x: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// Makes a tape without tracked tensors.
    pub fn kiln_tape_create(device: *mut kiln_device, out_tape: *mut *mut kiln_tape, err: *mut kiln_error) -> kiln_status;
    /// Frees the tape with what it keeps. Tensors that it tracked stay, and are tracked no more. Takes
    /// NULL.
    pub fn kiln_tape_destroy(tape: *mut kiln_tape);
    /// Tracks a tensor: what is computed from it from now on is tracked, too, and backward gives it a
    /// gradient (kiln_gradient). It must be of floats. A result that is tracked already, because it was
    /// computed from tracked tensors, gets a gradient of its own and stays what it is.
    pub fn kiln_tape_track(tape: *mut kiln_tape, tensor: *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// Whether the tape tracks the tensor, as one that was given or one that was computed from them.
    pub fn kiln_tape_tracks(tape: *const kiln_tape, tensor: *const kiln_tensor) -> bool;
    /// Until kiln_tape_resume nothing is recorded on the tape: results are not tracked, and to other
    /// tapes of its thread its tensors are constants. The calls may be nested.
    pub fn kiln_tape_pause(tape: *mut kiln_tape);
    /// Ends what the last kiln_tape_pause began.
    pub fn kiln_tape_resume(tape: *mut kiln_tape);
    /// Gives the value of a tensor as one that no tape tracks: gradients stop there. It takes no copy.
    pub fn kiln_detach(tensor: *mut kiln_tensor, out_tensor: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// Goes backwards from `loss`, a tracked tensor, and adds to the gradients of all tensors given to
    /// kiln_tape_track. `seed` is the gradient of the loss and like it; NULL: 1, and the loss has one
    /// element. Contributions are added in the order of recording, the last first, so the bits are the
    /// same in every run. The tape forgets all operations and lets go of what it kept of them: what was
    /// computed before is constant from then on, but for tensors given to kiln_tape_track. When a
    /// gradient fails it forgets them, too. Errors: also UNIMPLEMENTED, naming the operator, where a
    /// gradient is not written; with kiln_tape_join those of the job, which is to be closed after any.
    pub fn kiln_backward(tape: *mut kiln_tape, loss: *mut kiln_tensor, seed: *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// From now on kiln_backward averages gradients with the other members of a job: each leaf that
    /// stands for a parameter (kiln_tensor_set_param, as those of kiln_params do) gives `job` its
    /// gradient when its last contribution has arrived, beside the rest of backward, and backward ends
    /// with kiln_gradsync_sync. kiln_gradient then gives what the job gave. Gradients that were found
    /// before without a job go along with the first that it gets. `job` NULL: no more. The tape holds
    /// the job; whoever calls for `member` otherwise does it between two backwards. Over MPI all
    /// members record the same operations, for this is what registers parameters in one order.
    pub fn kiln_tape_join(tape: *mut kiln_tape, job: *mut kiln_gradsync, member: u32, err: *mut kiln_error) -> kiln_status;
    /// From now on kiln_backward gives `take` the gradient of each leaf that stands for a parameter
    /// when its last contribution has arrived, beside the rest of backward, and forgets it:
    /// kiln_gradient gives zeros. Gradients that were found before go along. `take` records what it
    /// likes, which the tape does not watch; its failure is backward's. `take` NULL: no more. It takes
    /// the place of a job, and a job its.
    pub fn kiln_tape_hand(tape: *mut kiln_tape, take: kiln_leaf_fn, user: *mut c_void, err: *mut kiln_error) -> kiln_status;
    /// kiln_backward for several tapes of this thread, each with a loss of one element: those of
    /// several members of a job, which would wait for each other. Errors: as kiln_backward, and those
    /// of the job. After an error the job is to be closed.
    pub fn kiln_backward_all(tapes: *const *mut kiln_tape, losses: *const *mut kiln_tensor, n_tapes: usize, err: *mut kiln_error) -> kiln_status;
    /// Gives the sum of the gradients that backward found for a tensor given to kiln_tape_track; zeros
    /// when there was none.
    pub fn kiln_gradient(tape: *mut kiln_tape, tensor: *mut kiln_tensor, out_gradient: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// Gives the gradients of `loss` for tracked tensors, in `out_gradients`. The tape keeps all, and
    /// records how the gradients were computed: they are tracked, and have gradients themselves. What
    /// kiln_gradient gives stays as it was. A part that backward computes again may call it. For `seed`
    /// and errors see kiln_backward.
    pub fn kiln_gradients(tape: *mut kiln_tape, loss: *mut kiln_tensor, seed: *mut kiln_tensor, tensors: *const *mut kiln_tensor, n_tensors: usize, out_gradients: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// Says that `outputs` were computed from `inputs`, and that `backward` is their gradient. Compute
    /// them while the tape is paused. `drop_user`, if not NULL, is called with `user` when the tape
    /// needs it no more, also when this call fails.
    pub fn kiln_tape_custom(tape: *mut kiln_tape, inputs: *const *mut kiln_tensor, n_inputs: usize, outputs: *const *mut kiln_tensor, n_outputs: usize, backward: kiln_gradient_fn, drop_user: Option<unsafe extern "C" fn(*mut c_void)>, user: *mut c_void, err: *mut kiln_error) -> kiln_status;
    /// Computes a part without keeping what lies inside it: backward computes the part again and goes
    /// through that. `part` gets the same inputs both times and must do the same. It may use other
    /// tracked tensors, such as parameters; `inputs` and these are what has gradients. Parts may stand
    /// in parts. The tape is paused the first time: a part that takes gradients uses a tape of its own
    /// then, and kiln_gradients of this one the second time. `drop_user` as for kiln_tape_custom.
    /// Errors: also those of the part.
    pub fn kiln_tape_checkpoint(tape: *mut kiln_tape, part: kiln_part_fn, drop_user: Option<unsafe extern "C" fn(*mut c_void)>, user: *mut c_void, inputs: *const *mut kiln_tensor, n_inputs: usize, out_outputs: *mut *mut kiln_tensor, n_outputs: usize, err: *mut kiln_error) -> kiln_status;
    /// Lets the tape hold about `bytes` of what was computed, beside tensors given to kiln_tape_track;
    /// 0: all that its rules need. Beyond that it lets go of values that are cheap to have again, which
    /// backward then computes once more from what is held: results of elementwise operations, views and
    /// rows (softmax, norms), never those of products. Gradients have the same bits where such
    /// operations do, fused or not. What cannot be had again stays, also beyond `bytes`. Errors: also
    /// FAILED_PRECONDITION when the tape has operations.
    pub fn kiln_tape_set_budget(tape: *mut kiln_tape, bytes: u64, err: *mut kiln_error) -> kiln_status;
    /// With a budget: the bytes that the tape holds, beside tensors given to kiln_tape_track. A view
    /// counts as much as what it shows.
    pub fn kiln_tape_held_bytes(tape: *const kiln_tape) -> u64;
    /// Gives the gradient of a captured graph as a graph: its outputs are those of `graph`, then the
    /// gradients of output 0, which has one element, for the inputs numbered in `wanted`. `inputs` are
    /// tensors like those that it is to be run with, in these shapes; their contents do not matter. The
    /// caller owns `*out_graph`. Errors: also those of kiln_graph_begin, kiln_backward and
    /// kiln_graph_end.
    pub fn kiln_graph_gradient(graph: *mut kiln_graph, inputs: *const *mut kiln_tensor, n_inputs: usize, wanted: *const usize, n_wanted: usize, out_graph: *mut *mut kiln_graph, err: *mut kiln_error) -> kiln_status;
    /// Makes an empty set. A parameter's first values depend on `seed`, its name and its shape: not on
    /// the device, and not on what else is in the set. The caller owns `*out_params`
    /// (kiln_params_destroy).
    pub fn kiln_params_create(device: *mut kiln_device, seed: u64, out_params: *mut *mut kiln_params, err: *mut kiln_error) -> kiln_status;
    /// Frees the set and releases its tensors. Takes NULL.
    pub fn kiln_params_destroy(params: *mut kiln_params);
    /// Adds a parameter of initial values. `options` NULL: zeros. Errors: also ALREADY_EXISTS;
    /// UNIMPLEMENTED when the device does not store the dtype, or it is no float.
    pub fn kiln_params_add(params: *mut kiln_params, name: *const c_char, dtype: kiln_dtype, rank: usize, dims: *const i64, options: *const kiln_init_options, err: *mut kiln_error) -> kiln_status;
    /// Adds a parameter whose value is there; the set takes a reference. Errors: also ALREADY_EXISTS.
    pub fn kiln_params_add_tensor(params: *mut kiln_params, name: *const c_char, tensor: *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// How many parameters there are. They are numbered in the order in which they were added.
    pub fn kiln_params_count(params: *const kiln_params) -> usize;
    /// Name of a parameter; lives as long as the set.
    pub fn kiln_params_name(params: *const kiln_params, index: usize) -> *const c_char;
    /// The number of the parameter with this name; kiln_params_count when there is none.
    pub fn kiln_params_find(params: *const kiln_params, name: *const c_char) -> usize;
    /// The value of a parameter, until it is replaced. Its kiln_param_id (kiln_gradsync.h) follows from
    /// its name: the same on all devices and in all processes. NULL also when a value that comes late
    /// (kiln_sharded.h) finds no memory.
    pub fn kiln_params_tensor(params: *const kiln_params, index: usize) -> *mut kiln_tensor;
    /// Replaces the value of a parameter by one of the same shape and dtype; the set takes a reference.
    pub fn kiln_params_set(params: *mut kiln_params, index: usize, tensor: *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// Gives the parameters of all members of a group, in all processes, the values that the member
    /// `root` has. sets[i] is of the group's device i in this process; all have the same parameters in
    /// one order. On failure the parameters keep their values. Errors: also those of
    /// kiln_collective_broadcast.
    pub fn kiln_params_broadcast(group: *mut kiln_collective, sets: *const *mut kiln_params, n_sets: usize, root: u32, err: *mut kiln_error) -> kiln_status;
    /// The bytes of all parameters.
    pub fn kiln_params_bytes(params: *const kiln_params) -> usize;
    /// Writes all parameters to a file: NumPy's format when its name ends in .npz, else safetensors. A
    /// file of that name is replaced when the new one is whole. Errors: also UNAVAILABLE with the
    /// reason, UNIMPLEMENTED for a dtype that the format has not, and those of kiln_read.
    pub fn kiln_params_save(params: *const kiln_params, path: *const c_char, err: *mut kiln_error) -> kiln_status;
    /// Gives every parameter the value that a file has for its name; other tensors of the file are left
    /// alone. On failure the parameters keep their values. Errors: also NOT_FOUND for a file or name
    /// that is not there, INVALID_ARGUMENT for another shape or dtype, DATA_LOSS for a damaged file,
    /// UNIMPLEMENTED.
    pub fn kiln_params_load(params: *mut kiln_params, path: *const c_char, err: *mut kiln_error) -> kiln_status;
    /// Adds all tensors of a file as parameters. Errors: as kiln_params_load; ALREADY_EXISTS.
    pub fn kiln_params_add_file(params: *mut kiln_params, path: *const c_char, err: *mut kiln_error) -> kiln_status;
    /// The rate of a step, counted from 0, where `full` is the largest. Past the last step it stays.
    /// `schedule` may be NULL: constant.
    pub fn kiln_schedule_rate(schedule: *const kiln_schedule, full: f64, step: u64) -> f64;
    /// Makes an optimiser of all parameters that the set has now; it outlives the optimiser and gets no
    /// further ones. State begins with zeros. `options` may be NULL. The caller owns `*out_optimiser`
    /// (kiln_optimiser_destroy).
    pub fn kiln_optimiser_create(params: *mut kiln_params, options: *const kiln_optimiser_options, out_optimiser: *mut *mut kiln_optimiser, err: *mut kiln_error) -> kiln_status;
    /// Frees the optimiser and its state; the parameters stay. Takes NULL.
    pub fn kiln_optimiser_destroy(optimiser: *mut kiln_optimiser);
    /// Makes a step: gradients[i], on the set's device, is of parameter i. A parameter whose gradient
    /// is NULL stays as it is, and so does its state; a captured step needs all of them. Nothing waits.
    /// Wrong gradients change nothing; a step that fails on the way may have changed some parameters.
    /// With scaling of the loss the step divides by the scale. It waits until it knows whether all
    /// gradients are finite: if one is not, it changes nothing, halves the scale, and is no step.
    /// Members of a job, which have the same gradients, come to the same.
    pub fn kiln_optimiser_step(optimiser: *mut kiln_optimiser, gradients: *const *mut kiln_tensor, n_gradients: usize, err: *mut kiln_error) -> kiln_status;
    /// Multiplies the loss by the scale of options.loss_scale, so that gradients of f16 do not vanish:
    /// backward starts from the result. The caller holds `*out_loss`. Errors: also FAILED_PRECONDITION
    /// for an optimiser without scaling.
    pub fn kiln_optimiser_scale_loss(optimiser: *const kiln_optimiser, loss: *mut kiln_tensor, out_loss: *mut *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// What the next loss is multiplied by; 1 without scaling.
    pub fn kiln_optimiser_loss_scale(optimiser: *const kiln_optimiser) -> f64;
    /// How many steps were left out for gradients that were no finite numbers.
    pub fn kiln_optimiser_skipped(optimiser: *const kiln_optimiser) -> u64;
    /// How many steps were made.
    pub fn kiln_optimiser_steps(optimiser: *const kiln_optimiser) -> u64;
    /// The rate of the next step.
    pub fn kiln_optimiser_rate(optimiser: *const kiln_optimiser) -> f64;
    /// Writes parameters, state, the number of steps and the scale to one safetensors file; what loads
    /// it goes on bit for bit. A file of that name is replaced when the new one is whole: a process
    /// that is killed leaves the old one. Waits for the device. Errors: also those of kiln_params_save.
    pub fn kiln_optimiser_save(optimiser: *const kiln_optimiser, path: *const c_char, err: *mut kiln_error) -> kiln_status;
    /// Takes all that kiln_optimiser_save wrote, for a set of the same names, shapes and dtypes and the
    /// same rule. On failure nothing has changed. Errors: also those of kiln_params_load.
    pub fn kiln_optimiser_load(optimiser: *mut kiln_optimiser, path: *const c_char, err: *mut kiln_error) -> kiln_status;
    /// Makes one of all parameters that the sets have now. sets[i] is of the group's device i in this
    /// process (kiln_collective_member); all members, in all processes, have the same parameters in one
    /// order, and the same values (kiln_params_broadcast). Group and sets outlive it; the sets get no
    /// further parameters. `options` may be NULL. The caller owns `*out_sharded`
    /// (kiln_sharded_destroy).
    pub fn kiln_sharded_create(group: *mut kiln_collective, sets: *const *mut kiln_params, n_sets: usize, options: *const kiln_sharded_options, out_sharded: *mut *mut kiln_sharded, err: *mut kiln_error) -> kiln_status;
    /// Frees it and its state; the parameters stay, with the values of the last step. Takes NULL.
    pub fn kiln_sharded_destroy(sharded: *mut kiln_sharded);
    /// Gives the gradient that member `member` of this process has for a parameter, before the step
    /// that it is for. A row that is complete is averaged at once, beside what the devices do. The
    /// gradient is held until then. A failure that is not INVALID_ARGUMENT takes back all that was
    /// submitted.
    pub fn kiln_sharded_submit(sharded: *mut kiln_sharded, member: usize, parameter: usize, gradient: *mut kiln_tensor, err: *mut kiln_error) -> kiln_status;
    /// From now on kiln_backward on the tape submits the member's gradients (kiln_tape_hand). Each step
    /// has tapes of its own, since it gives the parameters new values. Those of several members go
    /// backwards on one thread (kiln_backward_all), while `sharded` exists.
    pub fn kiln_sharded_join(sharded: *mut kiln_sharded, member: usize, tape: *mut kiln_tape, err: *mut kiln_error) -> kiln_status;
    /// Makes a step on all members of this process; all processes make it at the same point of their
    /// calls on the group. gradients[i * parameters + p], on the device of set i, is what member i has
    /// for parameter p, as its backward pass gives it; NULL where it was submitted. `gradients` NULL
    /// and 0: all were. The mean over the members is taken here, so they are not to be averaged before.
    /// Wrong gradients change nothing; a step that fails on the way may have changed state, and the
    /// parameters of some members. With scaling of the loss it waits until it knows whether the
    /// gradients of all members are finite.
    ///
    /// With options.late it returns while the new values travel: kiln_params_tensor then makes the
    /// device wait for the row of the parameter that is asked for, behind what was recorded before. So
    /// who asks for the parameters of a layer when it comes to that layer computes meanwhile. Ask
    /// before a capture begins, not in it. A failure on the way is that of the values.
    pub fn kiln_sharded_step(sharded: *mut kiln_sharded, gradients: *const *mut kiln_tensor, n_gradients: usize, err: *mut kiln_error) -> kiln_status;
    /// The optimiser of member i of this process, to ask for its rate and number of steps, to scale its
    /// loss, and to save and load its part of the state (kiln_optimiser_save, a file for each member).
    /// Parameters are saved from their set: what loads both goes on bit for bit, in a group of as many
    /// members. Steps are made by kiln_sharded_step. NULL past the last. Lives as long as `sharded`.
    pub fn kiln_sharded_optimiser(sharded: *const kiln_sharded, member: usize) -> *mut kiln_optimiser;
}
