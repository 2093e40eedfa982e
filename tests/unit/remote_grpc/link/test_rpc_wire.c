// SPDX-License-Identifier: MIT OR Apache-2.0
// Protobuf field by field: what was written is read, and no damaged bytes are read past their end.

#include "harness.h"
#include "rpc_wire.h"

#include <string.h>

static kiln_env env_of_tests(void)
{
    return (kiln_env){.allocator = kiln_allocator_default()};
}

static void test_round_trip(void)
{
    kiln_env env = env_of_tests();
    kiln_string out, inner;
    kilni_wire_field field;
    char text[8];
    kiln_string_init(&out, &env);
    kiln_string_init(&inner, &env);
    kilni_wire_put_number(&out, 1, 300);
    kilni_wire_put_text(&out, 2, "");
    kilni_wire_put_text(&out, 3, "name");
    kilni_wire_put_text(&inner, 7, "x");
    kilni_wire_put_message(&out, 4, &inner);
    kilni_wire_piece left = {(const unsigned char *)out.text, out.length};
    KILN_CHECK(kilni_wire_take(&left, &field));
    KILN_CHECK(field.number == 1 && field.value == 300 && !field.is_bytes);
    KILN_CHECK(kilni_wire_take(&left, &field)); // an empty text is not written
    KILN_CHECK(field.number == 3 && kilni_wire_text(field.bytes, text, sizeof(text)));
    KILN_CHECK(strcmp(text, "name") == 0);
    KILN_CHECK(!kilni_wire_text(field.bytes, text, 4));
    KILN_CHECK(kilni_wire_take(&left, &field));
    KILN_CHECK(field.number == 4 && kilni_wire_get(field.bytes, 7).length == 1);
    KILN_CHECK(!kilni_wire_take(&left, &field) && left.length == 0);
    kiln_string_fini(&out);
}

static void test_fixed_numbers(void)
{
    static const unsigned char bytes[] = {0x0d, 1, 2, 0, 0, 0x11, 1, 0, 0, 0, 0, 0, 0, 2};
    kilni_wire_piece left = {bytes, sizeof(bytes)};
    kilni_wire_field field;
    KILN_CHECK(kilni_wire_take(&left, &field) && field.value == 513);
    KILN_CHECK(kilni_wire_take(&left, &field) && field.value == (UINT64_C(2) << 56 | 1));
}

/// Every cut and every changed byte: it ends, and what is damaged is left over.
static void test_damage_shows(void)
{
    static const unsigned char whole[] = {0x08, 0xac, 0x02, 0x1a, 0x04, 'n', 'a',
                                          'm',  'e',  0x0d, 1,    2,    3,   4};
    static const unsigned char long_length[] = {0x2a, 0xff, 0xff, 0xff, 0xff, 0x0f};
    kilni_wire_field field;
    kilni_wire_piece left = {long_length, sizeof(long_length)};
    KILN_CHECK(!kilni_wire_take(&left, &field) && left.length > 0);
    for (size_t length = 0; length < sizeof(whole); length++) {
        left = (kilni_wire_piece){whole, length};
        while (kilni_wire_take(&left, &field)) {
        }
        KILN_CHECK(left.length > 0 || length == 0 || length == 3 || length == 9);
    }
    for (size_t at = 0; at < sizeof(whole); at++) {
        for (int value = 0; value < 256; value++) {
            unsigned char changed[sizeof(whole)];
            memcpy(changed, whole, sizeof(whole));
            changed[at] = (unsigned char)value;
            left = (kilni_wire_piece){changed, sizeof(changed)};
            while (kilni_wire_take(&left, &field)) {
                KILN_CHECK(field.bytes.bytes + field.bytes.length <= changed + sizeof(changed));
            }
        }
    }
}

static void test_text_with_a_zero_is_none(void)
{
    static const unsigned char bytes[] = {'a', 0, 'b'};
    char text[8];
    KILN_CHECK(!kilni_wire_text((kilni_wire_piece){bytes, sizeof(bytes)}, text, sizeof(text)));
}

KILN_TEST_MAIN("unit/remote_grpc/wire", KILN_TEST(test_round_trip), KILN_TEST(test_fixed_numbers),
               KILN_TEST(test_damage_shows), KILN_TEST(test_text_with_a_zero_is_none))
