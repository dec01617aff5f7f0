/* Writing MessagePack: the kinds of values that KV events have. A writer without memory has
 * `failed` set, and writes nothing more.
 *
 * source  msgpack.org, "MessagePack specification", 2021 */
#ifndef SERVE_EVENTS_MSGPACK_H
#define SERVE_EVENTS_MSGPACK_H

#include "base/buffer.h"

#include <stdint.h>

typedef struct mc_msgpack {
    mc_buffer out;
    bool failed;
} mc_msgpack;

void mc_msgpack_nil(mc_msgpack *w);
void mc_msgpack_number(mc_msgpack *w, uint64_t value);
void mc_msgpack_real(mc_msgpack *w, double value);
void mc_msgpack_text(mc_msgpack *w, const char *text); /* NULL: nil */
void mc_msgpack_array(mc_msgpack *w, size_t count);    /* of the `count` values that follow */

#endif
