#include "tune/log.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/filemap.h"
#include "base/json_write.h"
#include "tune/folder.h"

#include <errno.h>
#include <string.h>
#include <time.h>

static const char *const event_names[] = {"plan", "train", "valid", "test", "saved", "note"};

/* ---- lines of JSON ---- */

static bool put_number(mc_buffer *out, const char *key, double value) {
    return mc_buffer_printf(out, ", \"%s\": ", key) && mc_json_put_number(out, value);
}

static bool put_report(mc_buffer *out, const mica_tune_report *r) {
    bool loss =
        r->event == MICA_TUNE_TRAIN || r->event == MICA_TUNE_VALID || r->event == MICA_TUNE_TEST;
    bool done = mc_buffer_printf(out, "{\"event\": \"%s\", \"iteration\": %lld",
                                 event_names[r->event], (long long)r->iteration);
    if (loss) done = done && put_number(out, "loss", r->loss);
    if (r->event == MICA_TUNE_TRAIN)
        done = done && put_number(out, "learning_rate", r->rate) &&
               put_number(out, "grad_norm", r->norm) &&
               put_number(out, "tokens_per_second", r->tokens_per_second) &&
               put_number(out, "iterations_per_second", r->iterations_per_second) &&
               put_number(out, "trained_tokens", (double)r->trained_tokens);
    if (r->memory_bytes) done = done && put_number(out, "memory_bytes", (double)r->memory_bytes);
    if (*r->text)
        done = done && mc_buffer_add_text(out, ", \"text\": ") && mc_json_put_text(out, r->text);
    return done && mc_buffer_add_text(out, "}\n");
}

/* ---- event files: records of protocol buffers with checksums. Source: TensorFlow's
 * record_writer.h, event.proto and summary.proto ---- */

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

/* wall_time (1, double) and step (2, int64) */
static bool put_event_head(mc_buffer *out, int64_t step) {
    double now = (double)time(NULL);
    uint64_t bits;
    memcpy(&bits, &now, sizeof bits);
    return mc_buffer_add_byte(out, 1 << 3 | 1) && put_fixed(out, bits, 8) &&
           mc_buffer_add_byte(out, 2 << 3) && put_varint(out, (uint64_t)step);
}

/* A Summary.Value: tag (1) and simple_value (2, float). */
static bool put_value(mc_buffer *summary, const char *tag, double number) {
    mc_buffer value = {0};
    float single = (float)number;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    bool done = put_bytes(&value, 1, tag, strlen(tag)) && mc_buffer_add_byte(&value, 2 << 3 | 5) &&
                put_fixed(&value, bits, 4) && put_bytes(summary, 1, value.data, value.len);
    mc_buffer_deinit(&value);
    return done;
}

static mica_status write_record(mc_log *log, const mc_buffer *data) {
    mc_buffer record = {0};
    bool done = put_fixed(&record, data->len, 8);
    done = done && put_fixed(&record, checksum(record.data, 8), 4) &&
           mc_buffer_add(&record, data->data, data->len) &&
           put_fixed(&record, checksum(data->data, data->len), 4);
    mica_status status = MICA_OK;
    if (!done)
        status = mc_fail_nomem("an event file");
    else if (fwrite(record.data, 1, record.len, log->events) != record.len ||
             fflush(log->events) != 0)
        status = mc_fail_errno(errno, "%s", log->events_path);
    mc_buffer_deinit(&record);
    return status;
}

static mica_status begin_events(mc_log *log) {
    static const char version[] = "brain.Event:2";
    mc_buffer event = {0};
    bool done = put_event_head(&event, 0) && put_bytes(&event, 3, version, sizeof version - 1);
    mica_status status = done ? write_record(log, &event) : mc_fail_nomem("an event file");
    mc_buffer_deinit(&event);
    return status;
}

static mica_status report_event(mc_log *log, const mica_tune_report *r) {
    static const char *const tags[] = {"", "loss/train", "loss/valid", "loss/test"};
    mc_buffer event = {0}, summary = {0};
    if (r->event < MICA_TUNE_TRAIN || r->event > MICA_TUNE_TEST) return MICA_OK;
    bool done = put_value(&summary, tags[r->event], r->loss);
    if (r->event == MICA_TUNE_TRAIN)
        done = done && put_value(&summary, "learning_rate", r->rate) &&
               put_value(&summary, "grad_norm", r->norm) &&
               put_value(&summary, "tokens_per_second", r->tokens_per_second);
    done = done && put_event_head(&event, r->iteration) &&
           put_bytes(&event, 5, summary.data, summary.len);
    mica_status status = done ? write_record(log, &event) : mc_fail_nomem("an event file");
    mc_buffer_deinit(&summary);
    mc_buffer_deinit(&event);
    return status;
}

/* ---- both ---- */

/* Several runs may begin within a second: a number tells them apart. */
static mica_status open_events(mc_log *log) {
    char name[96];
    MC_TRY(mc_folder_make(log->events_folder));
    for (int i = 0; i < 1000 && !log->events; i++) {
        snprintf(name, sizeof name, "events.out.tfevents.%010lld.mica.%d", (long long)time(NULL),
                 i);
        mc_free(log->events_path);
        log->events_path = mc_path_join(log->events_folder, name);
        if (!log->events_path) return mc_fail_nomem("an event file");
        log->events = fopen(log->events_path, "wbxe");
        if (!log->events && errno != EEXIST) break;
    }
    if (!log->events) return mc_fail_errno(errno, "%s", log->events_path);
    return begin_events(log);
}

mica_status mc_log_open(mc_log *log, const char *lines, const char *events) {
    *log = (mc_log){.lines_path = lines, .events_folder = events};
    if (lines) {
        log->lines = fopen(lines, "abe");
        if (!log->lines) return mc_fail_errno(errno, "%s", lines);
    }
    return events ? open_events(log) : MICA_OK;
}

mica_status mc_log_report(mc_log *log, const mica_tune_report *report) {
    if (log->lines) {
        mc_buffer line = {0};
        bool done = put_report(&line, report);
        bool written = done && fwrite(line.data, 1, line.len, log->lines) == line.len &&
                       fflush(log->lines) == 0;
        int error = errno;
        mc_buffer_deinit(&line);
        if (!done) return mc_fail_nomem("a log");
        if (!written) return mc_fail_errno(error, "%s", log->lines_path);
    }
    return log->events ? report_event(log, report) : MICA_OK;
}

void mc_log_close(mc_log *log) {
    if (log->lines) fclose(log->lines);
    if (log->events) fclose(log->events);
    mc_free(log->events_path);
    *log = (mc_log){0};
}
