/* The page that the server has at "/": web/dist/index.html, put into the library when mica is
 * built. It is one file and works without a network. Threads: any. */
#ifndef SERVE_PAGE_H
#define SERVE_PAGE_H

#include <stddef.h>

/* The page, text/html in UTF-8, [mc_page_bytes]: compressed by gzip, with a header of
 * MC_PAGE_HEAD bytes; plain in a build without zlib. */
enum { MC_PAGE_HEAD = 10, MC_PAGE_TAIL = 8 };
extern const unsigned char mc_page[];
extern const size_t mc_page_bytes;

/* The bytes that it unpacks to; 0: it is plain. */
extern const size_t mc_page_plain_bytes;

/* The ETags of the page and of the compressed page, quotes included. */
extern const char mc_page_etag[], mc_page_gzip_etag[];

/* The value of its Content-Security-Policy: only the page's own script and style, known by their
 * hashes, and requests to the server that it comes from. */
extern const char mc_page_policy[];

#endif
