// SPDX-License-Identifier: MIT OR Apache-2.0
// Finding MPI at run time. What differs between Open MPI and MPICH is in `kinds`: Open MPI's
// handles are addresses of its objects, MPICH's are numbers that its ABI fixes (mpich.org/abi).
#include "mpi_shim.h"

#include <stdlib.h>
#include <string.h>

typedef struct mpi_kind {
    const char *name;
    const char *file;
    const char *sign; ///< the environment of a process that its launcher started has this
    const char *world; ///< symbols, of Open MPI
    const char *byte;
    const char *errors_return;
    uintptr_t values[3]; ///< of MPICH
    uintptr_t status_ignore;
} mpi_kind;

static const mpi_kind kinds[] = {
    {.name = "Open MPI",
     .file = "libmpi.so.40",
     .sign = "OMPI_COMM_WORLD_SIZE",
     .world = "ompi_mpi_comm_world",
     .byte = "ompi_mpi_byte",
     .errors_return = "ompi_mpi_errors_return",
     .status_ignore = 0},
    {.name = "MPICH",
     .file = "libmpich.so.12",
     .sign = "PMI_SIZE",
     .values = {0x44000000, 0x4c00010d, 0x54000001},
     .status_ignore = 1},
};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/// The address of a function, of whatever type, into the member at `slot`.
static bool find(kiln_dynlib *library, const char *name, void *slot)
{
    void *address = kiln_dynlib_symbol(library, name);
    memcpy(slot, &address, sizeof(address));
    return address != NULL;
}

static bool find_handles(const mpi_kind *kind, kilni_mpi *mpi)
{
    const char *const names[] = {kind->world, kind->byte, kind->errors_return};
    uintptr_t *const slots[] = {&mpi->world, &mpi->byte, &mpi->errors_return};
    bool found = true;
    for (size_t i = 0; i < 3; i++) {
        *slots[i] = names[i] == NULL ? kind->values[i]
                                     : (uintptr_t)kiln_dynlib_symbol(mpi->library, names[i]);
        found = found && *slots[i] != 0;
    }
    const uintptr_t ignore = kind->status_ignore;
    memcpy(&mpi->status_ignore, &ignore, sizeof(mpi->status_ignore));
    return found;
}

static bool find_functions(kilni_mpi *mpi)
{
    const struct {
        const char *name;
        void *slot;
    } functions[] = {
        {"MPI_Init_thread", &mpi->init_thread},
        {"MPI_Initialized", &mpi->initialized},
        {"MPI_Query_thread", &mpi->query_thread},
        {"MPI_Finalize", &mpi->finalize},
        {"MPI_Comm_rank", &mpi->comm_rank},
        {"MPI_Comm_size", &mpi->comm_size},
        {"MPI_Comm_set_errhandler", &mpi->comm_set_errhandler},
        {"MPI_Isend", &mpi->isend},
        {"MPI_Irecv", &mpi->irecv},
        {"MPI_Recv", &mpi->recv},
        {"MPI_Iprobe", &mpi->iprobe},
        {"MPI_Test", &mpi->test},
    };
    bool found = true;
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        found = find(mpi->library, functions[i].name, functions[i].slot) && found;
    }
    return found;
}

static kiln_status load_kind(const kiln_env *env, const mpi_kind *kind, kilni_mpi *out_mpi,
                             kiln_error *err)
{
    kilni_mpi mpi = {.name = kind->name};
    kiln_status status = kiln_dynlib_open(env, kind->file, /*keep=*/true, &mpi.library, err);
    if (status != KILN_STATUS_OK) {
        return status;
    }
    bool found = find_handles(kind, &mpi) && find_functions(&mpi);
    kiln_dynlib_close(mpi.library); // it stays loaded
    mpi.library = NULL;
    if (!found) {
        return kiln_fail(err, FAILED_PRECONDITION, "%s is not the %s that Kiln knows", kind->file,
                         kind->name);
    }
    *out_mpi = mpi;
    return KILN_STATUS_OK;
}

kiln_status kilni_mpi_load(const kiln_env *env, kilni_mpi *out_mpi, kiln_error *err)
{
    kiln_error cause = KILN_ERROR_INIT;
    kiln_status status = KILN_STATUS_NOT_FOUND;
    for (size_t i = 0; i < KINDS; i++) {
        if (getenv(kinds[i].sign) == NULL) {
            continue;
        }
        status = load_kind(env, &kinds[i], out_mpi, err); // the launcher's own, and no other
        return status != KILN_STATUS_NOT_FOUND
                   ? status
                   : kiln_fail(err, UNAVAILABLE,
                               "this process was started by %s, whose library %s is not installed",
                               kinds[i].name, kinds[i].file);
    }
    for (size_t i = 0; i < KINDS && status == KILN_STATUS_NOT_FOUND; i++) {
        status = load_kind(env, &kinds[i], out_mpi, &cause);
    }
    if (status == KILN_STATUS_NOT_FOUND) {
        return kiln_fail(err, UNAVAILABLE,
                         "no MPI is installed; Debian has it in openmpi-bin and in mpich");
    }
    if (status != KILN_STATUS_OK && err != NULL) {
        *err = cause;
    }
    return status;
}
