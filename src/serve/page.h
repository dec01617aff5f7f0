/* The page that the server has at "/": web/dist/index.html, put into the library when mica is
 * built. It is one file and works without a network. Threads: any. */
#ifndef SERVE_PAGE_H
#define SERVE_PAGE_H

#include <stddef.h>

/* The page, text/html in UTF-8, [mc_page_bytes]. */
extern const unsigned char mc_page[];
extern const size_t mc_page_bytes;

/* Its ETag, quotes included. */
extern const char mc_page_etag[];

/* The value of its Content-Security-Policy: only the page's own script and style, known by their
 * hashes, and requests to the server that it comes from. */
extern const char mc_page_policy[];

#endif
