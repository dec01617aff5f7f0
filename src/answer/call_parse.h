/* Reading calls of tools as models write them: as JSON, or as Python. Threads: any. */
#ifndef ANSWER_CALL_PARSE_H
#define ANSWER_CALL_PARSE_H

#include "answer/calls.h"
#include "answer/format.h"

/* Reads a text that is one or more calls of the tools, and nothing else; replaces what calls hold.
 * *good: whether it is. Arguments in JSON stay as they are written.
 *  errors  MICA_ENOMEM */
mica_status mc_calls_read(mc_call_body body, mc_str text, const mc_tools *tools, mc_calls *calls,
                          bool *good);

#endif
