/* For builds without libzmq. */
#include "serve/events/publisher.h"

mica_status mc_kv_publisher_open(const mc_kv_publisher_options *options,
                                 mc_kv_publisher **publisher) {
    (void)options;
    *publisher = NULL;
    return mc_fail(MICA_EUNSUPPORTED, "KV events: mica was built without libzmq");
}

void mc_kv_publisher_close(mc_kv_publisher **publisher) {
    (void)publisher;
}

mica_status mc_kv_source_open(mc_kv_publisher *publisher, const char *model, const char *adapter,
                              mc_kv_source **source) {
    (void)publisher, (void)model, (void)adapter;
    *source = NULL;
    return MICA_OK;
}

void mc_kv_source_close(mc_kv_source **source) {
    (void)source;
}

mc_kv_events mc_kv_source_events(mc_kv_source *source) {
    (void)source;
    return (mc_kv_events){0};
}
