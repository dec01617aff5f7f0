/* Names of blocks against Python's hashlib and cbor2 5.7, which vLLM makes them with. Readers who
 * make them of tokens are in tests/cluster. */
#include "serve/events/block_name.h"
#include "support/support.h"

#include <stdio.h>

static void expect(mc_kv_name name, const char *hex) {
    char text[2 * sizeof name.bytes + 1];
    for (size_t i = 0; i < sizeof name.bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", name.bytes[i]);
    assert_string_equal(text, hex);
}

static void names(void **state) {
    static const int32_t edges[] = {0, 23, 24, 255, 256, 65535, 65536, 151935};
    static const char *const keys[] = {"model", "pirate", "00000000000000000000000000000000"};
    (void)state;
    int32_t ids[300];
    for (int32_t i = 0; i < 300; i++)
        ids[i] = i;
    expect(mc_block_name_of_seed(""),
           "8d33f520a3c4cef80d2453aef81b612bfe1cb44c8b2025630ad38662763f13d3");
    mc_kv_name name = mc_block_name_of_seed("42");
    expect(name, "9fa6eb003f14425eb9c8e6baacfbcaab26257357b829c7bfa74ffcc4f31c1780");
    name = mc_block_name(&name, edges, 8, NULL, 0);
    expect(name, "af3089941a5efaf8b58afa851dd60d87601d252ca2754b1fdcc08ddb882604d0");
    assert_true(mc_block_name_number(&name) == UINT64_C(15906869857894139088));
    name = mc_block_name(&name, ids, 64, keys + 1, 1);
    expect(name, "e3ad7fd0fdbc4ec40f3e83700c20d27a6cea09bc1fa1a52dd888fe1c8b538b66");
    name = mc_block_name(&name, ids, 300, keys, 3);
    expect(name, "34ad0b7df2072ed569bde692ffd165fe8130b8f0bda424e2c825359221b45ac1");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
