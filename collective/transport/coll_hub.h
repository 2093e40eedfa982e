// SPDX-License-Identifier: MIT OR Apache-2.0
#ifndef KILN_COLLECTIVE_COLL_HUB_H
#define KILN_COLLECTIVE_COLL_HUB_H

/// The hub, where the ranks of a process meet, as its group sees it. What a network sees of it is
/// in collective.h.

#include "coll_watch.h"
#include "collective.h"

/// The meeting point of all ranks; its ends are taken by the members of this process. It outlives
/// its ends. Errors: RESOURCE_EXHAUSTED.
kiln_status kilni_coll_hub_create(const kiln_env *env, uint32_t ranks, kiln_coll_hub **out_hub,
                                  kiln_error *err);
void kilni_coll_hub_destroy(kiln_coll_hub *hub);
/// A network will decide what the group's failure is.
void kilni_coll_hub_set_network(kiln_coll_hub *hub);
kiln_coll_transport *kilni_coll_hub_end(kiln_coll_hub *hub, uint32_t rank);
/// So that a rank that is held up by its memory is named, whoever times out first. NULL: no longer.
void kilni_coll_hub_set_watch(kiln_coll_hub *hub, uint32_t rank, const kilni_coll_watch *watch);

/// A line for what a rank asked, "all_reduce sum f32 of 12 with ring".
void kilni_coll_signature_text(const kiln_coll_signature *signature, char out_text[96]);

#endif
