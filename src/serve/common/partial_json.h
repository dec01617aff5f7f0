/* JSON that was cut off, made whole. Threads: any. */
#ifndef SERVE_COMMON_PARTIAL_JSON_H
#define SERVE_COMMON_PARTIAL_JSON_H

#include "base/buffer.h"
#include "base/str.h"

/* Adds the beginning of an object's text up to the last member or element that is complete, and the
 * brackets that are open there; "{}" where there is none. A text that is whole stays as it is.
 *
 *  text     the beginning of an object that JSON allows, up to 255 brackets deep.
 *  returns  false: no memory */
bool mc_partial_json_close(mc_str text, mc_buffer *out);

#endif
