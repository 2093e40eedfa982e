// SPDX-License-Identifier: MIT OR Apache-2.0
// The place where plugins lie, and what is recorded to see them at work.
#include "plugin_scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

const char plugin_scan_helper[] = KILN_TEST_BUILD_DIR "/lib/kiln/kiln-plugin-scan";

void place_set(place *p, const char *option, const char *value)
{
    KILN_CHECK_INT(kiln_config_set(p->env.config, option, value, KILN_ORIGIN_FLAG, NULL), 0);
}

void place_init(place *p)
{
    size_t length = 0;
    *p = (place){.env = {.allocator = kiln_allocator_default()}, .path = kiln_test_tmpdir()};
    char *bytes = kiln_test_read_file(fixture_plugin_path("evil_none"), &length);
    const char *file = kiln_test_path(p->path, "a.so");
    if (KILN_CHECK(bytes != NULL) && kiln_test_write_file(file, bytes, length)) {
        (void)chmod(file, 0644);
    }
    free(bytes);
    KILN_CHECK_INT(kiln_config_create(&p->env.allocator, NULL, false, &p->env.config, NULL), 0);
    place_set(p, "plugin-path", p->path);
    place_set(p, "plugin-mode", "developer");
}

const char *look(place *p)
{
    static char reason[1100];
    kiln_fuse_registry_options options = KILN_FUSE_REGISTRY_OPTIONS_INIT;
    kiln_fuse_registry_destroy(p->registry);
    KILN_CHECK_INT(kiln_fuse_registry_create(&p->env, &options, &p->registry, NULL), 0);
    const kiln_fuse_plugin_info *info = kiln_fuse_registry_plugin(p->registry, 0);
    snprintf(reason, sizeof(reason), "%s", info != NULL ? info->reason : "no plugin");
    return reason;
}

/* What is named is allowed by naming it, except where nothing or only signed files are. */
const char *add_by_name(place *p)
{
    static kiln_error err;
    kiln_fuse_registry_options options = KILN_FUSE_REGISTRY_OPTIONS_INIT;
    place_set(p, "plugin-path", "");
    err = (kiln_error)KILN_ERROR_INIT;
    kiln_fuse_registry_destroy(p->registry);
    KILN_CHECK_INT(kiln_fuse_registry_create(&p->env, &options, &p->registry, NULL), 0);
    kiln_status status = kiln_fuse_registry_add(p->registry, kiln_test_path(p->path, "a.so"), &err);
    place_set(p, "plugin-path", p->path);
    return status == KILN_STATUS_OK ? "taken" : err.message;
}

void place_fini(place *p)
{
    kiln_fuse_registry_destroy(p->registry);
    kiln_config_destroy(p->env.config);
}

void make_engine(fuse_fixture *f)
{
    kiln_error err = KILN_ERROR_INIT;
    kiln_fuse_engine_options options = KILN_FUSE_ENGINE_OPTIONS_INIT;
    KILN_CHECK_INT(kiln_fuse_engine_create(f->registry, &f->device, &options, &f->engine, &err),
                   KILN_STATUS_OK);
    KILN_CHECK_INT(kiln_fuse_stream_create(f->engine, false, &f->stream, &err), 0);
}

const kiln_fuse_segment *record_segment(fuse_fixture *f)
{
    kiln_tensor_desc x = fixture_vector(f, 100000);
    kiln_tensor_desc a = fixture_op(f, KILN_OP_NEG, &x, NULL);
    kiln_tensor_desc b = fixture_op(f, KILN_OP_RELU, &a, NULL);
    fixture_drop(f, &a);
    (void)fixture_op(f, KILN_OP_ABS, &b, NULL);
    fixture_drop(f, &b);
    return fixture_next(f, true);
}
