// SPDX-License-Identifier: MIT OR Apache-2.0
// What tests of plugins' fates share: a folder of plugins under a configuration, and an engine that
// is asked whether what was taken fuses.
#ifndef KILN_TESTS_UNIT_FUSION_HOST_PLUGIN_SCENE_H
#define KILN_TESTS_UNIT_FUSION_HOST_PLUGIN_SCENE_H

#include "fuse_fixture.h"

/// The build's program that scans a plugin in a process of its own.
extern const char plugin_scan_helper[];

typedef struct place { ///< a folder of plugins and a configuration
    kiln_env env;
    const char *path;
    kiln_fuse_registry *registry;
} place;

/// The folder has one plugin, a.so, and the mode is developer.
void place_init(place *p);
void place_set(place *p, const char *option, const char *value);
/// What a new registry says of the folder's plugin; valid until the next call.
const char *look(place *p);
/// What it says when the plugin is named instead; valid until the next call.
const char *add_by_name(place *p);
void place_fini(place *p);

/// An engine and a stream for the fixture's registry.
void make_engine(fuse_fixture *f);
/// The segment of abs(relu(neg(x))), everything between let go.
const kiln_fuse_segment *record_segment(fuse_fixture *f);

#endif
