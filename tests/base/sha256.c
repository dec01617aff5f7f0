/* SHA-256 against FIPS 180-4's examples and Python's hashlib, in pieces of any length. */
#include "base/sha256.h"
#include "support/support.h"

#include <stdio.h>
#include <string.h>

static void expect(mc_sha256 *sha, const char *hex) {
    uint8_t digest[MC_SHA256_BYTES];
    char text[2 * MC_SHA256_BYTES + 1];
    mc_sha256_end(sha, digest);
    for (int i = 0; i < MC_SHA256_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(text, hex);
}

static void examples(void **state) {
    (void)state;
    mc_sha256 sha;
    mc_sha256_begin(&sha);
    mc_sha256_add(&sha, "abc", 3);
    expect(&sha, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    mc_sha256_begin(&sha);
    for (int i = 0; i < 1000; i++) {
        char as[1000];
        memset(as, 'a', sizeof as);
        mc_sha256_add(&sha, as, sizeof as);
    }
    expect(&sha, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void pieces(void **state) {
    static const struct {
        size_t bytes;
        const char *hex;
    } rows[] = {{0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
                {1, "084fed08b978af4d7d196a7446a86b58009e636b611db16211b65a9aadff29c5"},
                {55, "e7313d333c272e639f790978283f9eb392e843d0f29b7016828bb1daa4aac70b"},
                {56, "4324d65f3c103567f5589c710bc08f8523f929a9272e3af36fc968e52abc6c27"},
                {57, "35df609437dcfea3279283ab79fd554e2bf78f8f7ae2de532d8ee300b09e8f73"},
                {63, "81c80242132f230c3bd41b3e63bbcff16107339549214a99614ff26664625055"},
                {64, "39e3d7b6b5d075d37d053ad89b24b41bef4f3c29760c84447cab3f3be1882241"},
                {65, "aacca6ff74fdbb296d165a45cecfa04e5127bc008770fbbdd48006f2d2fae95e"},
                {119, "9ce7368e4daf32341631b492e80359dc9f594b48453cd0dd5bf0b19279cc177e"},
                {120, "7836b787757e95e58b3ca5aec90b1b004e8deba1e50e9675af9cabf1a13a04b5"},
                {128, "d2742f1f4ac6bb7ca2b239ee18402ba8b3f9f8e652d2a72973c2b9ba11c08cf6"},
                {1000, "1e9bc38cbf860b9ec31918b065f9b52476c549a782e0e7990bed8ce3868d2371"}};
    (void)state;
    uint8_t bytes[1000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(7 * i + 3);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (size_t step = 1; step <= 130; step++) {
            mc_sha256 sha;
            mc_sha256_begin(&sha);
            for (size_t at = 0; at < rows[r].bytes; at += step)
                mc_sha256_add(&sha, bytes + at,
                              step < rows[r].bytes - at ? step : rows[r].bytes - at);
            expect(&sha, rows[r].hex);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples),
        cmocka_unit_test(pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
