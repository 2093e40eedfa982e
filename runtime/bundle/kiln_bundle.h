// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_KILN_BUNDLE_H
#define KILN_KILN_BUNDLE_H

/// Bundles: what a model launches on a device, for given shapes, as a folder of sources, constants,
/// binaries and a list of steps. Running one needs no compiler where it has a binary for the
/// device, and no fuser, importer or cache anywhere. docs/fpga.md describes the folder.
///
/// Unless a function says otherwise: any thread may call it; its arguments are borrowed for the
/// call; texts that it gives are borrowed and live as long as the bundle; it can fail with
/// INVALID_ARGUMENT or RESOURCE_EXHAUSTED. NULL where a pointer is needed is INVALID_ARGUMENT; a
/// function without a status then does nothing and gives 0. Files are hostile until checked:
/// DATA_LOSS for one that is damaged, with its name.

#include "kiln_graph.h"
#include "kiln_tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- running ----

typedef struct kiln_bundle kiln_bundle; ///< a bundle on a device

typedef struct kiln_bundle_options {
    uint32_t struct_size;
    uint32_t no_compile; ///< 1: a program without a binary is an error, also where it could be made
    uint32_t no_binaries; ///< 1: every program is compiled, as before its binary is written
    uint32_t poison; ///< 1: memory for intermediate values is filled with ones first, for tests
} kiln_bundle_options;

#define KILN_BUNDLE_OPTIONS_INIT                                                                   \
    {                                                                                              \
        .struct_size = (uint32_t)sizeof(kiln_bundle_options)                                       \
    }

/// Opens a bundle on a device: checks its files, loads or compiles its programs, uploads its
/// constants. `options` may be NULL. The caller owns `*out_bundle` (kiln_bundle_close), which keeps
/// the device open. Errors: also NOT_FOUND for a folder without a bundle; UNIMPLEMENTED, naming
/// kernel and file, for a program that has no binary for this device and cannot be compiled there,
/// be it for a feature that the device lacks.
KILN_NODISCARD KILN_API kiln_status kiln_bundle_open(kiln_device *device, const char *folder,
                                                     const kiln_bundle_options *options,
                                                     kiln_bundle **out_bundle, kiln_error *err);

/// Gives up a bundle and its memory. Takes NULL.
KILN_API void kiln_bundle_close(kiln_bundle *bundle);

typedef struct kiln_bundle_value { ///< an input or output of a set of shapes
    const char *name;
    kiln_dtype dtype;
    uint32_t rank;
    int64_t dims[KILN_MAX_RANK];
} kiln_bundle_value;

typedef struct kiln_bundle_info {
    uint32_t struct_size;
    uint32_t n_shapes; ///< sets of shapes that it runs for
    uint32_t n_inputs;
    uint32_t n_outputs;
    uint32_t n_programs;
    uint32_t compiled; ///< of the programs: made from source, or found in the cache, by this open
    uint32_t loaded; ///< from a binary beside the sources
    uint32_t reprograms; ///< changes of program from launch to launch, in a run of the first set of
                         ///< shapes: what an FPGA pays with a bitstream for each
    uint64_t constant_bytes;
    uint64_t scratch_bytes;
} kiln_bundle_info;

/// Fills what the bundle is. Set `struct_size` before.
KILN_API void kiln_bundle_info_get(const kiln_bundle *bundle, kiln_bundle_info *out_info);

/// The same of a bundle in a folder, without a device: what its programs came from, and memory, are
/// 0. Errors: as of kiln_bundle_open for the folder's files.
KILN_NODISCARD KILN_API kiln_status kiln_bundle_info_read(const kiln_env *env, const char *folder,
                                                          kiln_bundle_info *out_info,
                                                          kiln_error *err);

/// Input `index`, of the set of shapes `shapes`; NULL past the last. Names are the same in all.
KILN_API const kiln_bundle_value *kiln_bundle_input(const kiln_bundle *bundle, uint32_t shapes,
                                                    uint32_t index);

/// The same for outputs.
KILN_API const kiln_bundle_value *kiln_bundle_output(const kiln_bundle *bundle, uint32_t shapes,
                                                     uint32_t index);

/// Enqueues a run on inputs in the bundle's order, and does not wait. The set of shapes is the one
/// that fits. The caller holds each out_tensors[i]. One thread at a time runs a bundle. Errors:
/// also INVALID_ARGUMENT naming the input that fits no set.
KILN_NODISCARD KILN_API kiln_status kiln_bundle_run(kiln_bundle *bundle, kiln_tensor *const *inputs,
                                                    size_t n_inputs, kiln_tensor **out_tensors,
                                                    size_t n_outputs, kiln_error *err);

// ---- binaries ----

/// Writes the binaries of the bundle's programs, as the device has them, into its folder, for
/// devices of this name and driver. Run it on every set of shapes before: PoCL compiles a kernel
/// for its local size when it is first launched. Errors: also UNAVAILABLE for files that cannot be
/// written and binaries that the driver does not give.
KILN_NODISCARD KILN_API kiln_status kiln_bundle_keep(kiln_bundle *bundle, kiln_error *err);

/// Copies binaries that other tools made into a bundle's folder, for devices of this name and, when
/// it is not empty, this driver. The name of each file up to its last dot is that of the source in
/// the bundle. Errors: also NOT_FOUND for a file that is of no source.
KILN_NODISCARD KILN_API kiln_status kiln_bundle_add(const kiln_env *env, const char *folder,
                                                    const char *device, const char *driver,
                                                    const char *const *files, size_t n_files,
                                                    kiln_error *err);

/// Hears of what a device would miss, in words.
typedef void (*kiln_bundle_miss_fn)(const char *text, void *user);

/// Checks all files of a bundle, and what a device as `facts` say has for it: sizes, features, and
/// a binary for each program, unless it compiles. `miss` hears of each thing that it lacks;
/// `*out_misses` is how many there are. `facts` NULL: files only. Errors: also of damaged files.
KILN_NODISCARD KILN_API kiln_status kiln_bundle_check(const kiln_env *env, const char *folder,
                                                      const kiln_device_info *facts,
                                                      kiln_bundle_miss_fn miss, void *user,
                                                      uint32_t *out_misses, kiln_error *err);

/// Writes facts of a device as JSON; the caller frees `*out_text` (kiln_text_free).
KILN_NODISCARD KILN_API kiln_status kiln_bundle_facts(kiln_device *device, char **out_text,
                                                      kiln_error *err);

/// Reads such a file into `out_facts`, whose texts live in `arena`. Errors: also NOT_FOUND.
KILN_NODISCARD KILN_API kiln_status kiln_bundle_facts_read(const kiln_env *env, const char *path,
                                                           kiln_arena *arena,
                                                           kiln_device_info *out_facts,
                                                           kiln_error *err);

// ---- making ----
//
// The order of the calls: create; add, once for each set of shapes; then those that are wanted of
// single, merge, order and banks, each at most once and in this order, because each works on what
// the ones before have left; write, for as many folders as wanted; destroy. Another order is
// FAILED_PRECONDITION.

typedef struct kiln_bundle_maker kiln_bundle_maker; ///< a bundle that is put together

/// Begins a bundle of what a device does that was opened with the option `compiler` as `record`.
/// The caller owns `*out_maker` (kiln_bundle_maker_destroy).
KILN_NODISCARD KILN_API kiln_status kiln_bundle_maker_create(const kiln_env *env,
                                                             kiln_bundle_maker **out_maker,
                                                             kiln_error *err);

/// Frees it. Takes NULL.
KILN_API void kiln_bundle_maker_destroy(kiln_bundle_maker *maker);

typedef struct kiln_bundle_work { ///< a graph, with what it is run on
    uint32_t struct_size;
    uint32_t n_inputs;
    uint32_t n_outputs;
    uint32_t reserved;
    kiln_graph *graph;
    kiln_device *device;
    kiln_tensor *const *inputs;
    kiln_tensor *const *others; ///< of the same shapes with other values: what it does must not
                                ///< depend on them
    const char *const *input_names;
    const char *const *output_names;
} kiln_bundle_work;

/// Runs a graph and takes what it enqueued as one more set of shapes. After a failure the maker is
/// of no more use. Errors: also UNIMPLEMENTED,
/// in words, for what a list of launches cannot say: values that the host reads, random numbers,
/// state that runs change, programs without source.
KILN_NODISCARD KILN_API kiln_status kiln_bundle_maker_add(kiln_bundle_maker *maker,
                                                          const kiln_bundle_work *work,
                                                          kiln_error *err);

/// Gives programs the form of loops in a single work-item, which FPGAs run best, where they have
/// one: those whose launches have groups of one work-item, as all have that are made for a
/// processor. The others, `*out_left` of them, stay as they are. `device` is one that they were
/// made on.
KILN_NODISCARD KILN_API kiln_status kiln_bundle_maker_single(kiln_bundle_maker *maker,
                                                             kiln_device *device,
                                                             uint32_t *out_left, kiln_error *err);

/// Makes one program of all that were taken so far, as bitstreams want it; of those with other
/// options than definitions in common, where these differ. A text that cannot be merged shows when
/// the bundle is compiled.
KILN_NODISCARD KILN_API kiln_status kiln_bundle_maker_merge(kiln_bundle_maker *maker,
                                                            kiln_error *err);

/// Orders the steps so that a run changes the program as seldom as a search finds, and gives the
/// same bits: steps that touch the same memory keep their order, and no more memory is needed.
/// Where no better order is found, the steps stay as they are. `*out_saved` is how many changes
/// fewer a run of the first set of shapes has.
KILN_NODISCARD KILN_API kiln_status kiln_bundle_maker_order(kiln_bundle_maker *maker,
                                                            kiln_device *device,
                                                            uint32_t *out_saved, kiln_error *err);

/// Places the buffers in `n_banks` (1 to 32) banks of a board's memory, so that kernels read and
/// write several at once: weights beside what is computed, most of all. Inputs and outputs lie in
/// bank 0. The bundle then has a file for v++ that connects each kernel's arguments, its Makefile
/// tells aoc not to interleave, and a run says the banks to the platforms of Xilinx and Intel, as
/// these have words for them; elsewhere they mean nothing. Errors: also UNIMPLEMENTED where the
/// device's driver does not tell the names of arguments.
KILN_NODISCARD KILN_API kiln_status kiln_bundle_maker_banks(kiln_bundle_maker *maker,
                                                            kiln_device *device, uint32_t n_banks,
                                                            kiln_error *err);

/// Writes the bundle into a folder that is empty or not there yet. Errors: also ALREADY_EXISTS,
/// UNAVAILABLE.
KILN_NODISCARD KILN_API kiln_status kiln_bundle_maker_write(kiln_bundle_maker *maker,
                                                            const char *folder, kiln_error *err);

#ifdef __cplusplus
}
#endif

#endif
