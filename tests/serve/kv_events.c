/* The publisher of KV events: MessagePack as Python's msgpack writes it, messages whose numbers
 * have no gaps and hold each source's events in order, with hashes of its own, whatever threads
 * tell of them; that events for which there is no memory leave a gap; and that readers cannot send
 * much. Real readers are in tests/serve/clients. */
#include "support/support.h"

#include "base/alloc.h"
#include "serve/events/block_name.h"
#include "serve/events/library.h"
#include "serve/events/msgpack.h"
#include "serve/events/publisher.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static void expect_bytes(mc_msgpack *w, const char *hex) {
    char text[200];
    assert_false(w->failed);
    assert_true(w->out.len * 2 < sizeof text);
    for (size_t i = 0; i < w->out.len; i++)
        snprintf(text + 2 * i, 3, "%02x", (unsigned char)w->out.data[i]);
    assert_string_equal(text, hex);
    mc_buffer_clear(&w->out);
}

/* msgpack.packb of Python's msgpack 1.2.4. */
static void bytes_are_msgpack(void **state) {
    static const struct {
        uint64_t value;
        const char *hex;
    } numbers[] = {{0, "00"},
                   {127, "7f"},
                   {128, "cc80"},
                   {255, "ccff"},
                   {256, "cd0100"},
                   {65535, "cdffff"},
                   {65536, "ce00010000"},
                   {UINT32_MAX, "ceffffffff"},
                   {UINT64_C(1) << 32, "cf0000000100000000"},
                   {UINT64_MAX, "cfffffffffffffffff"}};
    mc_msgpack w = {0};
    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        mc_msgpack_number(&w, numbers[i].value);
        expect_bytes(&w, numbers[i].hex);
    }
    mc_msgpack_nil(&w);
    expect_bytes(&w, "c0");
    mc_msgpack_real(&w, -1.5);
    expect_bytes(&w, "cbbff8000000000000");
    mc_msgpack_text(&w, "GPU");
    expect_bytes(&w, "a3475055");
    mc_msgpack_text(&w, NULL);
    expect_bytes(&w, "c0");
    mc_msgpack_text(&w, "0123456789012345678901234567890"); /* 31 */
    assert_int_equal((unsigned char)w.out.data[0], 0xbf);
    mc_buffer_clear(&w.out);
    mc_msgpack_text(&w, "01234567890123456789012345678901"); /* 32, which all readers take so */
    assert_memory_equal(w.out.data, "\xdb\0\0\0\x20", 5);
    mc_buffer_clear(&w.out);
    mc_msgpack_array(&w, 15);
    expect_bytes(&w, "9f");
    mc_msgpack_array(&w, 65536);
    expect_bytes(&w, "dd00010000");
    mc_buffer_deinit(&w.out);
}

enum { SOURCES = 3, EVENTS = 2000, BIG = 1 << 20 };

/* A publisher, and a reader of its messages. */
typedef struct world {
    mc_kv_publisher *publisher;
    void *context, *reader;
    char endpoint[100];
    uint64_t next; /* the number that comes next */
    char *data;    /* [BIG] of a message */
} world;

static void must(mica_status status) {
    if (status != MICA_OK) fail_msg("%s", mica_last_error());
}

/* Reads a message. returns its length, and how many numbers were left out before it */
static size_t read_message(world *w, char topic[64], uint64_t *gap) {
    unsigned char number[8];
    uint64_t own = 0;
    int len = mc_zmq.recv(w->reader, topic, 63, 0);
    assert_true(len >= 0 && len < 64);
    topic[len] = 0;
    assert_int_equal(mc_zmq.recv(w->reader, number, sizeof number, 0), 8);
    for (int i = 0; i < 8; i++)
        own = own << 8 | number[i];
    assert_true(own >= w->next);
    *gap = own - w->next;
    w->next = own + 1;
    len = mc_zmq.recv(w->reader, w->data, BIG, 0);
    assert_true(len > 10 && len <= BIG);
    assert_int_equal((unsigned char)w->data[0], 0x93);
    assert_int_equal((unsigned char)w->data[1], 0xcb);
    assert_int_equal(w->data[len - 1], 0);
    return (size_t)len;
}

/* Publishes until the reader has something, and then no more comes: its subscription has come. */
static void wait_for_subscription(world *w) {
    zmq_pollitem_t item = {.socket = w->reader, .events = ZMQ_POLLIN};
    mc_kv_source *source;
    char topic[64];
    uint64_t gap;
    must(mc_kv_source_open(w->publisher, "first", NULL, &source));
    const mc_kv_events events = mc_kv_source_events(source);
    for (int i = 0; i < 600 && !item.revents; i++) {
        events.removed(events.user, &(mc_kv_name){{1}});
        (void)mc_zmq.poll(&item, 1, 50);
    }
    mc_kv_source_close(&source);
    while (mc_zmq.poll(&item, 1, 200) > 0)
        (void)read_message(w, topic, &gap);
}

static void open_world(world *w, const char *topic) {
    size_t bytes = sizeof w->endpoint;
    const int limit = 0, wait_ms = 10000;
    *w = (world){.data = malloc(BIG)};
    assert_non_null(w->data);
    must(mc_zmq_load());
    w->context = mc_zmq.ctx_new();
    w->reader = mc_zmq.socket(w->context, ZMQ_SUB);
    assert_int_equal(mc_zmq.setsockopt(w->reader, ZMQ_SUBSCRIBE, "", 0), 0);
    assert_int_equal(mc_zmq.setsockopt(w->reader, ZMQ_RCVHWM, &limit, sizeof limit), 0);
    assert_int_equal(mc_zmq.setsockopt(w->reader, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms), 0);
    assert_int_equal(mc_zmq.bind(w->reader, "tcp://127.0.0.1:*"), 0);
    assert_int_equal(mc_zmq.getsockopt(w->reader, ZMQ_LAST_ENDPOINT, w->endpoint, &bytes), 0);
    must(mc_kv_publisher_open(&(mc_kv_publisher_options){.endpoint = w->endpoint, .topic = topic},
                              &w->publisher));
    wait_for_subscription(w);
}

static void close_world(world *w) {
    mc_kv_publisher_close(&w->publisher);
    mc_zmq.close(w->reader);
    mc_zmq.ctx_term(w->context);
    free(w->data);
}

/* A name whose number is of 8 bytes, and has another in its upper half. */
static mc_kv_name name_of(uint32_t number) {
    mc_kv_name name = {{0}};
    for (int i = 0; i < 4; i++)
        name.bytes[24 + i] = (uint8_t)(number >> (24 - 8 * i));
    return name;
}

/* A thread's work: names that count. */
static void *tell(void *user) {
    const mc_kv_events events = mc_kv_source_events(user);
    for (uint32_t i = 1; i <= EVENTS; i++)
        events.removed(events.user, (mc_kv_name[]){name_of(i)});
    return NULL;
}

static void events_keep_their_order(void **state) {
    static const char event[] = "\x93\xac"
                                "BlockRemoved\x91\xcf";
    (void)state;
    world w;
    mc_kv_source *sources[SOURCES];
    pthread_t threads[SOURCES];
    uint64_t seen[SOURCES] = {0}, gap, all = 0;
    open_world(&w, "kv@{model}@{model}");
    for (int i = 0; i < SOURCES; i++)
        must(mc_kv_source_open(w.publisher, (const char *[]){"a", "b", "c"}[i], NULL, &sources[i]));
    for (int i = 0; i < SOURCES; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, tell, sources[i]), 0);
    for (int i = 0; i < SOURCES; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < SOURCES; i++)
        mc_kv_source_close(&sources[i]); /* what it told is published all the same */
    while (all < (uint64_t)SOURCES * EVENTS) {
        char topic[64];
        size_t len = read_message(&w, topic, &gap), step = sizeof event - 1 + 8 + 4;
        assert_int_equal(gap, 0);
        int source = topic[3] - 'a';
        assert_true(strlen(topic) == 6 && topic[3] == topic[5] && source >= 0 && source < SOURCES);
        size_t at = (unsigned char)w.data[10] == 0xdd ? 15 : 11;
        for (; at + 1 < len; at += step) {
            uint64_t hash = 0;
            assert_memory_equal(w.data + at, event, sizeof event - 1);
            for (size_t i = 0; i < 8; i++)
                hash = hash << 8 | (unsigned char)w.data[at + sizeof event - 1 + i];
            assert_int_equal(hash >> 32, ++seen[source]);
            assert_memory_equal(w.data + at + step - 4, "\xa3GPU", 4);
            all++;
        }
    }
    close_world(&w);
}

/* Equal texts have other names under another seed, salt, adapter, or model of a topic that does not
 * end with its name: by twos. */
static void names_tell_texts_apart(void **state) {
    enum { KINDS = 6 };
    static const struct {
        const char *seed, *topic, *model, *adapter, *salt;
    } kinds[KINDS] = {
        {"", "kv@a@{model}", "one", NULL, ""},   {"1", "kv@a@{model}", "one", NULL, ""},
        {"", "kv@a@{model}", "one", "lora", ""}, {"", "kv@a@{model}", "one", NULL, "x"},
        {"", "kv@one@a", "one", NULL, ""},       {"", "kv@one@a", "two", NULL, ""}};
    static const int32_t ids[] = {1, 2, 3};
    (void)state;
    mc_kv_name first[KINDS], second[KINDS], same;
    for (int i = 0; i < KINDS; i++) {
        mc_kv_publisher_options options = {
            .endpoint = "tcp://127.0.0.1:9", .topic = kinds[i].topic, .seed = kinds[i].seed};
        mc_kv_publisher *publisher;
        mc_kv_source *source;
        must(mc_kv_publisher_open(&options, &publisher));
        must(mc_kv_source_open(publisher, kinds[i].model, kinds[i].adapter, &source));
        mc_kv_events events = mc_kv_source_events(source);
        mc_prefix_hash seed = mc_prefix_seed(kinds[i].salt);
        events.stored(events.user, seed, NULL, ids, 3, &first[i]);
        events.stored(events.user, seed, &first[i], ids, 3, &second[i]);
        mc_kv_source_close(&source);
        mc_kv_publisher_close(&publisher);
        for (int k = 0; k < i; k++) {
            assert_memory_not_equal(&first[k], &first[i], sizeof *first);
            assert_memory_not_equal(&second[k], &second[i], sizeof *second);
        }
    }
    /* The first is what a router makes of the tokens alone. */
    same = mc_block_name_of_seed("");
    same = mc_block_name(&same, ids, 3, NULL, 0);
    assert_memory_equal(&same, &first[0], sizeof same);
    same = mc_block_name(&same, ids, 3, NULL, 0);
    assert_memory_equal(&same, &second[0], sizeof same);
}

/* Whatever allocation fails, a message comes with a gap before it, or without. */
static void without_memory_numbers_are_left_out(void **state) {
    (void)state;
    world w;
    mc_kv_source *source;
    uint64_t gap, gaps = 0;
    open_world(&w, NULL);
    must(mc_kv_source_open(w.publisher, "a", "lora", &source));
    const mc_kv_events events = mc_kv_source_events(source);
    for (uint32_t n = 1; n < 12; n++) {
        const int32_t ids[] = {1, 200, 70000};
        mc_kv_name name;
        char topic[64];
        mc_alloc_fail_once(n);
        events.stored(events.user, mc_prefix_seed(""), NULL, ids, 3, &name);
        poll(NULL, 0, 50); /* the publisher's thread, too, has its allocations behind it */
        mc_alloc_fail_at(0);
        events.removed(events.user, &name);
        bool removed = false;
        while (!removed) {
            size_t len = read_message(&w, topic, &gap);
            gaps += gap;
            removed = memcmp(w.data + len - 5, "\xa3GPU", 4) == 0; /* the last is no adapter */
        }
    }
    assert_true(gaps > 3);
    mc_kv_source_close(&source);
    close_world(&w);
}

static void send_all(int fd, const char *data, size_t len) {
    assert_int_equal(send(fd, data, len, MSG_NOSIGNAL), len);
}

/* Who says that a frame of 1 GiB comes is disconnected, before memory is there for it. */
static void long_frames_are_refused(void **state) {
    static const char greeting[64] = "\xff\0\0\0\0\0\0\0\0\x7f\3\0NULL";
    static const char ready[] = "\4\x29\5READY\xbSocket-Type\0\0\0\6DEALER\x8Identity\0\0\0";
    static const char frame[9] = {2, 0, 0, 0, 0, 0x40, 0, 0, 0};
    (void)state;
    world w;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof at;
    mc_kv_publisher *publisher = NULL;
    const struct timeval patience = {.tv_sec = 20};
    char replay[64], got[256];
    ssize_t n;
    open_world(&w, NULL);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0); /* a port that is free */
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
    close(fd);
    snprintf(replay, sizeof replay, "tcp://127.0.0.1:%d", ntohs(at.sin_port));
    const mc_kv_publisher_options options = {.endpoint = w.endpoint, .replay = replay};
    must(mc_kv_publisher_open(&options, &publisher));
    fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    send_all(fd, greeting, sizeof greeting);
    send_all(fd, ready, sizeof ready);
    send_all(fd, frame, sizeof frame);
    do
        n = recv(fd, got, sizeof got, 0);
    while (n > 0);
    assert_true(n == 0 || errno == ECONNRESET);
    close(fd);
    mc_kv_publisher_close(&publisher);
    close_world(&w);
}

static void expect_refused(const char *endpoint, const char *replay, mica_status want) {
    mc_kv_publisher *publisher;
    const mc_kv_publisher_options options = {.endpoint = endpoint, .replay = replay};
    assert_int_equal(mc_kv_publisher_open(&options, &publisher), want);
    assert_null(publisher);
    assert_non_null(strstr(mica_last_error(), "KV events: cannot "));
}

static void wrong_endpoints_are_refused(void **state) {
    (void)state;
    world w;
    char taken[120];
    open_world(&w, NULL);
    snprintf(taken, sizeof taken, "@%s", w.endpoint);
    expect_refused(taken, NULL, MICA_EIO);
    expect_refused("tcp://127.0.0.1:9", w.endpoint, MICA_EIO);
    expect_refused("nonsense", NULL, MICA_EINVAL);
    expect_refused("carrier://pigeon", NULL, MICA_EINVAL);
    expect_refused("tcp://127.0.0.1:9", "", MICA_EINVAL);
    close_world(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_msgpack),
        cmocka_unit_test(events_keep_their_order),
        cmocka_unit_test(names_tell_texts_apart),
        cmocka_unit_test(without_memory_numbers_are_left_out),
        cmocka_unit_test(long_frames_are_refused),
        cmocka_unit_test(wrong_endpoints_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
