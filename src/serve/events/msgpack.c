#include "serve/events/msgpack.h"

#include <string.h>

/* A byte that says the kind, and the last `bytes` bytes of a number, the highest first. */
static void put(mc_msgpack *w, unsigned kind, uint64_t number, int bytes) {
    char text[9] = {(char)kind};
    for (int i = 1; i <= bytes; i++)
        text[i] = (char)(number >> (8 * (bytes - i)));
    w->failed = w->failed || !mc_buffer_add(&w->out, text, 1 + (size_t)bytes);
}

void mc_msgpack_nil(mc_msgpack *w) {
    put(w, 0xc0, 0, 0);
}

void mc_msgpack_number(mc_msgpack *w, uint64_t value) {
    if (value < 0x80)
        put(w, (unsigned)value, 0, 0);
    else if (value <= UINT8_MAX)
        put(w, 0xcc, value, 1);
    else if (value <= UINT16_MAX)
        put(w, 0xcd, value, 2);
    else if (value <= UINT32_MAX)
        put(w, 0xce, value, 4);
    else
        put(w, 0xcf, value, 8);
}

void mc_msgpack_real(mc_msgpack *w, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put(w, 0xcb, bits, 8);
}

void mc_msgpack_text(mc_msgpack *w, const char *text) {
    if (!text) {
        mc_msgpack_nil(w);
        return;
    }
    size_t len = strlen(text);
    if (len < 32)
        put(w, 0xa0 | (unsigned)len, 0, 0);
    else
        put(w, 0xdb, len, 4);
    w->failed = w->failed || !mc_buffer_add(&w->out, text, len);
}

void mc_msgpack_array(mc_msgpack *w, size_t count) {
    if (count < 16)
        put(w, 0x90 | (unsigned)count, 0, 0);
    else
        put(w, 0xdd, count, 4);
}
