#include "tune/events.h"

#include <string.h>

/* CRC-32C, a bit at a time: records are small. */
static uint32_t checksum(const void *data, size_t n) {
    const unsigned char *bytes = data;
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? (crc >> 1) ^ UINT32_C(0x82f63b78) : crc >> 1;
    }
    crc = ~crc;
    return ((crc >> 15) | (crc << 17)) + UINT32_C(0xa282ead8); /* as records mask it */
}

/* ---- protocol buffers ---- */

static bool put_fixed(mc_buffer *out, uint64_t value, int bytes) {
    bool done = true;
    for (int i = 0; i < bytes && done; i++)
        done = mc_buffer_add_byte(out, (char)(value >> (8 * i) & 0xff));
    return done;
}

static bool put_varint(mc_buffer *out, uint64_t value) {
    bool done = true;
    for (; value > 0x7f && done; value >>= 7)
        done = mc_buffer_add_byte(out, (char)(value & 0x7f) | (char)0x80);
    return done && mc_buffer_add_byte(out, (char)value);
}

static bool put_bytes(mc_buffer *out, int field, const void *data, size_t n) {
    return put_varint(out, (uint64_t)field << 3 | 2) && put_varint(out, n) &&
           mc_buffer_add(out, data, n);
}

/* ---- events ---- */

/* wall_time (1, double) and step (2, int64, left out if it is 0) */
static bool put_event_head(mc_buffer *out, double seconds, int64_t step) {
    uint64_t bits;
    memcpy(&bits, &seconds, sizeof bits);
    bool done = mc_buffer_add_byte(out, 1 << 3 | 1) && put_fixed(out, bits, 8);
    if (step == 0) return done;
    return done && mc_buffer_add_byte(out, 2 << 3) && put_varint(out, (uint64_t)step);
}

/* A Summary.Value: tag (1) and simple_value (2, float). */
static bool put_value(mc_buffer *summary, const mc_scalar *x) {
    mc_buffer value = {0};
    float single = (float)x->value;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    bool done = put_bytes(&value, 1, x->tag, strlen(x->tag)) &&
                mc_buffer_add_byte(&value, 2 << 3 | 5) && put_fixed(&value, bits, 4) &&
                put_bytes(summary, 1, value.data, value.len);
    mc_buffer_deinit(&value);
    return done;
}

/* The length, its checksum, the data, their checksum. */
static bool put_record(mc_buffer *out, const mc_buffer *data) {
    size_t begin = out->len;
    return put_fixed(out, data->len, 8) && put_fixed(out, checksum(out->data + begin, 8), 4) &&
           mc_buffer_add(out, data->data, data->len) &&
           put_fixed(out, checksum(data->data, data->len), 4);
}

bool mc_events_put_version(mc_buffer *out, double seconds) {
    static const char version[] = "brain.Event:2";
    mc_buffer event = {0};
    bool done = put_event_head(&event, seconds, 0) &&
                put_bytes(&event, 3, version, sizeof version - 1) && put_record(out, &event);
    mc_buffer_deinit(&event);
    return done;
}

bool mc_events_put_scalars(mc_buffer *out, double seconds, int64_t step, const mc_scalar *scalars,
                           size_t n) {
    mc_buffer event = {0}, summary = {0};
    bool done = true;
    for (size_t i = 0; i < n && done; i++)
        done = put_value(&summary, &scalars[i]);
    done = done && put_event_head(&event, seconds, step) &&
           put_bytes(&event, 5, summary.data, summary.len) && put_record(out, &event);
    mc_buffer_deinit(&summary);
    mc_buffer_deinit(&event);
    return done;
}
