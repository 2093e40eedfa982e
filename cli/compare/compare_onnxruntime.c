// SPDX-License-Identifier: MIT OR Apache-2.0
// The values of a model's nodes as ONNX Runtime has them. A script in an interpreter that has it
// makes every value an output, runs, and writes the arrays; they are exchanged by files.

#include "compare.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/// Arguments: model, folder. The folder has inputs.txt with a name a line and 0.npy and so on; it
/// gets outputs.txt with "operator name" a line and outputs.npz. Nothing is optimised, so that each
/// node is what the file says.
static const char script[] =
    "import os, sys\n"
    "import numpy as np, onnx, onnxruntime as ort\n"
    "path, folder = sys.argv[1:]\n"
    "model = onnx.load(path)\n"
    "given = {o.name for o in model.graph.output}\n"
    "made = [(n.op_type, o) for n in model.graph.node for o in n.output if o]\n"
    "model.graph.output.extend(onnx.ValueInfoProto(name=o) for _, o in made if o not in given)\n"
    "options = ort.SessionOptions()\n"
    "options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL\n"
    "options.log_severity_level = 4\n"
    "whole = os.path.join(os.path.dirname(os.path.abspath(path)), '')\n"
    "os.chdir(whole)\n"
    "try:\n"
    "    session = ort.InferenceSession(model.SerializeToString(), options, "
    "providers=['CPUExecutionProvider'])\n"
    "except ValueError:\n" // above 2 GiB
    "    large = os.path.join(folder, 'large.onnx')\n"
    "    onnx.save(model, large, save_as_external_data=True)\n"
    "    session = ort.InferenceSession(large, options, providers=['CPUExecutionProvider'])\n"
    "names = open(os.path.join(folder, 'inputs.txt')).read().split('\\n')[:-1]\n"
    "feed = {name: np.load(os.path.join(folder, f'{i}.npy')) for i, name in enumerate(names)}\n"
    "kinds = [(op, o) for op, o in made]\n"
    "results = session.run([o for _, o in kinds], feed)\n"
    "arrays, told = {}, []\n"
    "for (op, name), value in zip(kinds, results):\n"
    "    if isinstance(value, np.ndarray) and value.dtype.kind in 'biuf':\n"
    "        arrays[str(len(told))] = np.asarray(value, order='C')\n"
    "        told.append(f'{op} {name}\\n')\n"
    "np.savez(os.path.join(folder, 'outputs.npz'), **arrays)\n"
    "open(os.path.join(folder, 'outputs.txt'), 'w').writelines(told)\n";

static kiln_status write_inputs(const char *folder, const model_session *session, kiln_error *err)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/inputs.txt", folder);
    FILE *names = fopen(path, "w");
    kiln_status status = names != NULL
                             ? KILN_STATUS_OK
                             : kiln_fail(err, UNAVAILABLE, "%s: %s", path, strerror(errno));
    for (size_t i = 0; i < session->n_inputs && status == KILN_STATUS_OK; i++) {
        fprintf(names, "%s\n", session->inputs[i].name);
        snprintf(path, sizeof(path), "%s/%zu.npy", folder, i);
        status = kiln_npy_write(path, &session->arrays[i], err);
    }
    if (names != NULL && fclose(names) != 0 && status == KILN_STATUS_OK) {
        status = kiln_fail(err, UNAVAILABLE, "%s: %s", folder, strerror(errno));
    }
    return status;
}

/// The last line that the interpreter wrote: of a Python error, what it is.
static void last_line(const char *path, char *out_text, size_t room)
{
    char line[1024];
    FILE *file = fopen(path, "r");
    snprintf(out_text, room, "it said nothing");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] != '\0') {
            snprintf(out_text, room, "%s", line);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    cli_make_shown(out_text);
}

static kiln_status run_script(const char *python, const char *model, const char *folder,
                              kiln_error *err)
{
    char told[256], said[200];
    int result = 0;
    snprintf(told, sizeof(told), "%s/told", folder);
    pid_t child = fork();
    if (child < 0) {
        return kiln_fail(err, UNAVAILABLE, "no process: %s", strerror(errno));
    }
    if (child == 0) {
        int file = open(told, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (file >= 0) {
            (void)dup2(file, STDOUT_FILENO);
            (void)dup2(file, STDERR_FILENO);
        }
        (void)execlp(python, python, "-c", script, model, folder, (char *)NULL);
        dprintf(STDERR_FILENO, "%s: %s\n", python, strerror(errno));
        _exit(127);
    }
    if (waitpid(child, &result, 0) != child || result != 0) {
        last_line(told, said, sizeof(said));
        return kiln_fail(err, UNAVAILABLE, "ONNX Runtime by %.100s: %s", python, said);
    }
    return KILN_STATUS_OK;
}

static kiln_status read_outputs_of(const char *folder, compare_values *values, kiln_error *err)
{
    char path[256], name[KILN_NPZ_NAME_ROOM];
    char *line = NULL;
    size_t room = 0;
    kiln_status status = KILN_STATUS_OK;
    snprintf(path, sizeof(path), "%s/outputs.txt", folder);
    FILE *names = fopen(path, "r");
    if (names == NULL) {
        return kiln_fail(err, UNAVAILABLE, "%s: %s", path, strerror(errno));
    }
    snprintf(path, sizeof(path), "%s/outputs.npz", folder);
    for (size_t i = 0; status == KILN_STATUS_OK && getline(&line, &room, names) > 0; i++) {
        kiln_npy array = {0};
        line[strcspn(line, "\n")] = '\0';
        char *space = strchr(line, ' ');
        if (space == NULL) {
            continue;
        }
        *space = '\0';
        status =
            kiln_npz_read(path, i, name, &array, err); // in the order in which they were written
        if (status == KILN_STATUS_OK) {
            status = compare_add(values, space + 1, line, &array, err);
        }
    }
    free(line);
    fclose(names);
    return status;
}

static void remove_folder(const char *folder, size_t n_inputs)
{
    static const char *const files[] = {"inputs.txt", "outputs.txt", "outputs.npz", "told",
                                        "large.onnx"};
    char path[256];
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, files[i]);
        (void)unlink(path);
    }
    for (size_t i = 0; i < n_inputs; i++) {
        snprintf(path, sizeof(path), "%s/%zu.npy", folder, i);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}

kiln_status compare_run_onnxruntime(const char *python, const char *model,
                                    const model_session *session, compare_values *out_values,
                                    kiln_error *err)
{
    char folder[128];
    const char *top = getenv("TMPDIR");
    snprintf(folder, sizeof(folder), "%.80s/kiln-compare-XXXXXX", top != NULL ? top : "/tmp");
    if (mkdtemp(folder) == NULL) {
        return kiln_fail(err, UNAVAILABLE, "%s: %s", folder, strerror(errno));
    }
    kiln_status status = write_inputs(folder, session, err);
    if (status == KILN_STATUS_OK) {
        status = run_script(python, model, folder, err);
    }
    if (status == KILN_STATUS_OK) {
        status = read_outputs_of(folder, out_values, err);
    }
    remove_folder(folder, session->n_inputs);
    return status;
}
