// SPDX-License-Identifier: MIT OR Apache-2.0
// When a certificate begins and ends to be good: the one thing of X.509 that gRPC does not check of
// our own. Reads PEM (RFC 7468) and the few fields of DER that come before (RFC 5280).

#define _DEFAULT_SOURCE // timegm

#include "rpc_certificate.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct der_piece {
    const unsigned char *bytes;
    size_t length;
} der_piece;

enum {
    DER_SEQUENCE = 0x30,
    DER_INTEGER = 0x02,
    DER_VERSION = 0xa0,
    DER_UTC_TIME = 0x17,
    DER_TIME = 0x18
};

static int base64_value(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c != '\0' ? strchr(digits, c) : NULL;
    return at != NULL ? (int)(at - digits) : -1;
}

/// The first certificate of a PEM text; `*out_bytes` is to be freed, NULL when there is none.
static size_t decode_pem(const kiln_env *env, const char *text, unsigned char **out_bytes)
{
    static const char begin[] = "-----BEGIN CERTIFICATE-----";
    const char *at = strstr(text, begin);
    const char *end = at != NULL ? strstr(at + sizeof(begin) - 1, "-----END") : NULL;
    unsigned char *bytes = end != NULL ? kiln_alloc(env, (size_t)(end - at)) : NULL;
    size_t length = 0;
    uint32_t bits = 0;
    int held = 0;
    for (at = end != NULL ? at + sizeof(begin) - 1 : end; bytes != NULL && at < end; at++) {
        int value = base64_value(*at);
        if (value >= 0) {
            bits = bits << 6 | (uint32_t)value;
            held += 6;
        }
        if (held >= 8) {
            held -= 8;
            bytes[length++] = (unsigned char)(bits >> held);
        }
    }
    *out_bytes = bytes;
    return length;
}

/// Takes the next element; false at the end, or when it is damaged.
static bool take_element(der_piece *left, int *out_tag, der_piece *out_inside)
{
    if (left->length < 2) {
        return false;
    }
    size_t head = 2;
    size_t length = left->bytes[1];
    if (length > 128) {
        size_t digits = length - 128;
        length = 0;
        if (digits > 4 || left->length < 2 + digits) {
            return false;
        }
        for (; head < 2 + digits; head++) {
            length = length << 8 | left->bytes[head];
        }
    }
    if (length > left->length - head) {
        return false;
    }
    *out_tag = left->bytes[0];
    *out_inside = (der_piece){left->bytes + head, length};
    left->bytes += head + length;
    left->length -= head + length;
    return true;
}

/// YYMMDDhhmmssZ, or with a year of four digits; -1: it is none.
static int64_t read_time(int tag, der_piece text)
{
    char digits[16] = "";
    struct tm parts = {0};
    size_t begin = tag == DER_UTC_TIME ? 2 : 0;
    if ((tag != DER_UTC_TIME && tag != DER_TIME) || text.length + begin < 15 ||
        text.length + begin > sizeof(digits) - 1) {
        return -1;
    }
    memcpy(digits + begin, text.bytes, text.length);
    if (begin > 0) { // RFC 5280: from 50 on of the last century
        memcpy(digits, text.bytes[0] >= '5' ? "19" : "20", 2);
    }
    if (sscanf(digits, "%4d%2d%2d%2d%2d%2d", &parts.tm_year, &parts.tm_mon, &parts.tm_mday,
               &parts.tm_hour, &parts.tm_min, &parts.tm_sec) != 6) {
        return -1;
    }
    parts.tm_year -= 1900;
    parts.tm_mon -= 1;
    return (int64_t)timegm(&parts);
}

/// When the certificate begins and ends to be good; false: it is no such thing.
static bool find_validity(der_piece certificate, int64_t out_times[2])
{
    der_piece inside;
    der_piece part = {NULL, 0};
    int tag = 0;
    bool good = take_element(&certificate, &tag, &inside) && tag == DER_SEQUENCE &&
                take_element(&inside, &tag, &part) && tag == DER_SEQUENCE;
    inside = part;
    good = good && take_element(&inside, &tag, &part);
    if (good && tag == DER_VERSION) {
        good = take_element(&inside, &tag, &part);
    }
    // Behind the number: the signature's kind, the issuer, and then the times.
    good = good && tag == DER_INTEGER && take_element(&inside, &tag, &part) &&
           take_element(&inside, &tag, &part) && take_element(&inside, &tag, &part) &&
           tag == DER_SEQUENCE;
    inside = part;
    for (int i = 0; i < 2 && good; i++) {
        good = take_element(&inside, &tag, &part);
        out_times[i] = good ? read_time(tag, part) : -1;
        good = out_times[i] >= 0;
    }
    return good;
}

kiln_status kilni_rpc_certificate_check(const kiln_env *env, const char *pem, kiln_error *err)
{
    int64_t times[2] = {0, 0};
    unsigned char *bytes = NULL;
    size_t length = decode_pem(env, pem, &bytes);
    bool found = bytes != NULL && find_validity((der_piece){bytes, length}, times);
    int64_t now = (int64_t)time(NULL);
    char day[32] = "";
    kiln_free(env, bytes);
    if (!found || (now >= times[0] && now <= times[1])) {
        return KILN_STATUS_OK; // what is no certificate, gRPC refuses
    }
    const time_t bound = (time_t)(now < times[0] ? times[0] : times[1]);
    struct tm parts;
    (void)strftime(day, sizeof(day), "%Y-%m-%d %H:%M UTC", gmtime_r(&bound, &parts));
    return kiln_fail(err, FAILED_PRECONDITION, "the server's certificate %s %s",
                     now < times[0] ? "is not good before" : "has expired at", day);
}
