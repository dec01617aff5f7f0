/* Calls of an mc_call_syntax, read while they are written: a name, and arguments in JSON, between
 * marks of their own, or as texts. Events are those of
 * answer/call_stream.h. Threads: as there. */
#ifndef ANSWER_CALL_MARKED_H
#define ANSWER_CALL_MARKED_H

#include "answer/call_stream.h"

/* Begins the arguments of a tool's call, whose name is read: mc_call_marked_next tells none. */
void mc_call_marked_begin(mc_call_stream *stream, const mc_tool *tool);

/* As mc_call_stream_next; never MC_CALL_WHOLE. What can be no call, whatever follows, breaks also
 * where the answer ends; what might have become one is cut. */
mica_status mc_call_marked_next(mc_call_stream *stream, mc_str text, bool ended,
                                mc_call_step *step);

#endif
