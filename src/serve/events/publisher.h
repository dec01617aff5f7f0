/* KV events: what the caches of models keep of prompts, published over ZeroMQ for routers that send
 * a prompt to the replica which has read its beginning already.
 *
 * The format is vLLM's. A message of the PUB socket has three frames: a topic, a number that counts
 * messages from 0 (8 bytes, the highest first), and in MessagePack an array
 *
 *     [seconds since 1970, [event, ...], 0]
 *
 * of events that are arrays, the first one without its last element where there is no adapter, as
 * of a vLLM that has none (some readers take no more elements than they know):
 *
 *     ["BlockStored", [hash], hash before or nil, [token, ...], tokens of a block, nil, "GPU",
 *      name of the adapter]
 *     ["BlockRemoved", [hash], "GPU"]
 *
 * Hashes are numbers of 64 bits: vLLM's, of its --prefix-caching-hash-algo sha256_cbor
 * (serve/events/block_name.h), for some readers look blocks up by these, and others make their own
 * of the tokens. An adapter's name is a key of its blocks, a salt one of a text's first block, and
 * a model's name one where the topic does not end with it, which others may have, too.
 *
 * A block goes before those in front of it, so all that was told of a text is there. A model that
 * is closed removes all of its blocks, in any order: AllBlocksCleared would be of others with its
 * topic, too.
 *
 * A reader that misses a number asks the ROUTER socket for the messages from it on, with that
 * number in 8 bytes behind an empty frame, as a REQ socket sends it. It gets those of the last
 * 10,000 that fit into 64 MiB, each as an empty frame, its number and the array, and at last the
 * number -1 and an empty frame.
 *
 * Events are collected while the thread of this publisher is busy, so a message has one or more. A
 * reader that is too slow loses messages; nobody waits for it. An event for which there is no
 * memory is lost, and a number with it.
 *
 * source  vLLM 0.15, vllm.distributed.kv_events: the documented structures, and the protocol of its
 *         example of a subscriber
 *
 * Threads: any; a source's events come one at a time. */
#ifndef SERVE_EVENTS_PUBLISHER_H
#define SERVE_EVENTS_PUBLISHER_H

#include "session/pool.h"

typedef struct mc_kv_publisher mc_kv_publisher;
typedef struct mc_kv_source mc_kv_source; /* the events of a model */

/* Strings are borrowed during the call. */
typedef struct mc_kv_publisher_options {
    /* An endpoint of ZeroMQ. As vLLM has it one with an asterisk or :: as its address listens, and
     * one of ipc, and others connect: "tcp://router:5557". With an @ before it any listens, with a
     * > it connects, as in CZMQ. */
    const char *endpoint;
    const char *replay; /* where requests for earlier messages come; NULL: nowhere. It listens */
    const char *topic;  /* "{model}" in it stands for the model's name; NULL: "" */
    const char *seed;   /* of hashes: vLLM's $PYTHONHASHSEED, llm-d's hashSeed; NULL: "" */
} mc_kv_publisher_options;

/* errors  MICA_EUNSUPPORTED there is no libzmq, or the build has none; MICA_EINVAL an endpoint is
 *         malformed; MICA_EIO it is in use; MICA_ENOMEM */
mica_status mc_kv_publisher_open(const mc_kv_publisher_options *options,
                                 mc_kv_publisher **publisher);
/* After all of its sources. Takes NULL inside. */
void mc_kv_publisher_close(mc_kv_publisher **publisher);

/* model, adapter  names; adapter NULL: none. Copied. errors  MICA_ENOMEM */
mica_status mc_kv_source_open(mc_kv_publisher *publisher, const char *model, const char *adapter,
                              mc_kv_source **source);
void mc_kv_source_close(mc_kv_source **source); /* takes NULL inside */

/* What a schedule calls (mc_schedule_options); the source must outlive it. NULL: nothing. */
mc_kv_events mc_kv_source_events(mc_kv_source *source);

#endif
