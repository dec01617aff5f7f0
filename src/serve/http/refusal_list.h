/* Why a request is refused before libmicrohttpd reads it: REFUSAL(name, status, code, message).
 * Include this file with REFUSAL defined; it is undefined at the end. */
REFUSAL(LINE, 400, "invalid_request",
        "the first line is no request of HTTP: want METHOD TARGET HTTP/1.1")
REFUSAL(TLS, 400, "invalid_request", "this port speaks HTTP, and the client TLS: want http://")
REFUSAL(VERSION, 505, "invalid_version", "the server speaks HTTP/1.1 and HTTP/1.0")
REFUSAL(METHOD, 501, "invalid_method", "the method is longer than any")
REFUSAL(TARGET, 400, "invalid_target",
        "the request's target is no path, or has blanks or control characters")
REFUSAL(LONG_TARGET, 414, "target_too_long", "the request's target has more than 8 KiB")
REFUSAL(PARAMETERS, 414, "target_too_long", "the request's query has more than 64 parameters")
REFUSAL(LINE_END, 400, "invalid_header", "a line of the head does not end with CR LF")
REFUSAL(FOLDED, 400, "invalid_header", "a header goes on in the next line, which is obsolete")
REFUSAL(HEADER, 400, "invalid_header",
        "a header's name is no token, or its value has control characters")
REFUSAL(LONG_HEAD, 431, "head_too_large", "the head has more than 24 KiB, or more than 128 headers")
REFUSAL(NO_HOST, 400, "invalid_host", "the request has no Host header")
REFUSAL(HOSTS, 400, "invalid_host", "the request has more than one Host header")
REFUSAL(LENGTH, 400, "invalid_length", "the Content-Length is no number")
REFUSAL(LONG_BODY, 413, "body_too_large", "the body is larger than any")
REFUSAL(LENGTHS, 400, "invalid_length", "the request has more than one Content-Length")
REFUSAL(BOTH_LENGTHS, 400, "invalid_length",
        "the request has both Content-Length and Transfer-Encoding")
REFUSAL(ENCODING, 400, "invalid_encoding", "the Transfer-Encoding must be chunked, in HTTP/1.1")
REFUSAL(EXPECT, 417, "invalid_expect", "the Expect must be 100-continue")
REFUSAL(CHUNK, 400, "invalid_chunk",
        "a chunk of the body does not begin with its size, or is not as long")
REFUSAL(LONG_CHUNK_LINE, 400, "invalid_chunk", "the extensions of a chunk have more than 4 KiB")
REFUSAL(LONG_TRAILERS, 431, "head_too_large", "the headers behind the body have more than 4 KiB")
#undef REFUSAL
