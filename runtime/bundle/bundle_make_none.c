// SPDX-License-Identifier: MIT OR Apache-2.0
// Making bundles in the minimal build, which runs them and makes none: it says so. Callers tell it
// as any other error.
#include "kiln_bundle.h"

static kiln_status makes_none(kiln_error *err)
{
    return kiln_fail(err, UNIMPLEMENTED, "this build makes no bundles (KILN_MINIMAL)");
}

kiln_status kiln_bundle_maker_create(const kiln_env *env, kiln_bundle_maker **out_maker,
                                     kiln_error *err)
{
    (void)env;
    if (out_maker != NULL) {
        *out_maker = NULL;
    }
    return makes_none(err);
}

void kiln_bundle_maker_destroy(kiln_bundle_maker *maker)
{
    (void)maker;
}

kiln_status kiln_bundle_maker_add(kiln_bundle_maker *maker, const kiln_bundle_work *work,
                                  kiln_error *err)
{
    (void)maker;
    (void)work;
    return makes_none(err);
}

kiln_status kiln_bundle_maker_merge(kiln_bundle_maker *maker, kiln_error *err)
{
    (void)maker;
    return makes_none(err);
}

kiln_status kiln_bundle_maker_write(kiln_bundle_maker *maker, const char *folder, kiln_error *err)
{
    (void)maker;
    (void)folder;
    return makes_none(err);
}
