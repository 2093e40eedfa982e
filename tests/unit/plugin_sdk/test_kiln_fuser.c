// SPDX-License-Identifier: MIT OR Apache-2.0
// The fuser ABI's layout: size, offset and alignment of every field against the committed list. A
// line of tests/golden/kf_layout_v1.txt never changes within major version 1; new fields only add
// lines at the end of structs that are not frozen. `test_kiln_fuser --print` writes the list.
#include <stdalign.h>
#include <stddef.h>

#include "harness.h"
#include "kf_util.h"

/// Each line of the golden list.
static void print_layout(kf_text *out)
{
#define KF_LAYOUT_STRUCT(type)                                                                     \
    kf_text_addf(out, #type " size %u align %u\n", (unsigned)sizeof(type), (unsigned)alignof(type));
#define KF_LAYOUT_FIELD(type, field)                                                               \
    kf_text_addf(out, "  %s offset %u size %u\n", #field, (unsigned)offsetof(type, field),         \
                 (unsigned)sizeof(((type *)0)->field));
#include "kf_layout.def"
#undef KF_LAYOUT_STRUCT
#undef KF_LAYOUT_FIELD
}

static void test_layout_is_the_committed_one(void)
{
    kf_text layout = {0};
    size_t bytes = 0;
    char *golden = kiln_test_read_file(KILN_SOURCE_DIR "/tests/golden/kf_layout_v1.txt", &bytes);
    print_layout(&layout);
    KILN_CHECK(!layout.failed);
    if (KILN_CHECK(golden != NULL) && strcmp(layout.ptr, golden) != 0) {
        const char *a = layout.ptr, *b = golden;
        size_t line = 1;
        while (*a != '\0' && *a == *b) {
            line += *a == '\n';
            a++;
            b++;
        }
        KILN_FAIL("kf_layout_v1.txt differs from line %zu on: the ABI may only grow", line);
    }
    free(golden);
    kf_text_free(&layout);
}

/// Counts the structs of a header of the ABI, and those of them that say how they may change.
static void look_at_structs(const char *name, int name_bytes, size_t *structs, size_t *marked)
{
    char path[512];
    size_t bytes = 0;
    snprintf(path, sizeof(path), KILN_SOURCE_DIR "/plugin_sdk/abi/%.*s", name_bytes, name);
    char *header = kiln_test_read_file(path, &bytes);
    if (header == NULL) {
        KILN_FAIL("%s cannot be read", path);
        return;
    }
    const char *at = header;
    while ((at = strstr(at, "struct kf_")) != NULL) {
        const char *end = strchr(at, '\n'), *brace = strchr(at, '{');
        if (end == NULL) {
            break;
        }
        if (brace != NULL && brace < end) {
            bool frozen = strstr(at, "// frozen") != NULL && strstr(at, "// frozen") < end;
            bool sized = strncmp(end + 1, "    uint32_t struct_size", 24) == 0;
            bool note = strncmp(at, "struct kf_note", 14) == 0; // ELF's own layout
            (*structs)++;
            *marked += frozen || sized || note;
            if (!frozen && !sized && !note) {
                KILN_FAIL("%.30s neither starts with struct_size nor is frozen", at);
            }
        }
        at = end;
    }
    free(header);
}

/// Every struct begins with its size, or is frozen and never grows: its header says which.
static void test_growing_structs_start_with_their_size(void)
{
    KILN_CHECK_INT(offsetof(kf_plugin, struct_size), 0);
    KILN_CHECK_INT(offsetof(kf_host, struct_size), 0);
    KILN_CHECK_INT(offsetof(kf_block, struct_size), 0);
    KILN_CHECK_INT(offsetof(kf_device, struct_size), 0);
    KILN_CHECK_INT(offsetof(kf_state, struct_size), 0);
    KILN_CHECK_INT(offsetof(kf_manifest, struct_size), 0);
    size_t bytes = 0, structs = 0, marked = 0;
    char *umbrella = kiln_test_read_file(KILN_SOURCE_DIR "/plugin_sdk/kiln_fuser.h", &bytes);
    if (umbrella == NULL) {
        KILN_FAIL("kiln_fuser.h cannot be read");
        return;
    }
    const char *at = umbrella;
    while ((at = strstr(at, "#include \"")) != NULL) {
        at += strlen("#include \"");
        look_at_structs(at, (int)strcspn(at, "\""), &structs, &marked);
    }
    KILN_CHECK(structs >= 20);
    KILN_CHECK_INT(structs, marked);
    free(umbrella);
}

static void test_out_structs_are_never_overrun(void)
{
    struct {
        kf_opt_info info;
        unsigned char after[64];
    } room;
    struct {
        kf_opt_info info;
        uint64_t newer[2];
    } newer;
    memset(&room, 0x11, sizeof(room));
    memset(&newer, 0x22, sizeof(newer));
    room.info.struct_size = (uint32_t)sizeof(room.info);
    KF_OUT(&room.info, &newer);
    KILN_CHECK_INT(room.info.struct_size, sizeof(room.info));
    KILN_CHECK_INT(room.info.len, 0x22222222);
    KILN_CHECK_INT(room.after[0], 0x11);
    KILN_CHECK(KF_HAS(&room.info, kf_opt_info, key));
    room.info.struct_size = (uint32_t)offsetof(kf_opt_info, key) + 1;
    KILN_CHECK(!KF_HAS(&room.info, kf_opt_info, key));
}

static const kiln_test_case cases[] = {
    KILN_TEST(test_layout_is_the_committed_one),
    KILN_TEST(test_growing_structs_start_with_their_size),
    KILN_TEST(test_out_structs_are_never_overrun),
};

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--print") == 0) {
        kf_text layout = {0};
        print_layout(&layout);
        fputs(layout.failed ? "" : layout.ptr, stdout);
        kf_text_free(&layout);
        return 0;
    }
    return kiln_test_run("unit/plugin_sdk/kiln_fuser", cases, sizeof(cases) / sizeof(cases[0]),
                         argc, argv);
}
