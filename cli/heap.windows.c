#include "heap.h"

void cli_heap_set_up(void) {}

void cli_heap_watch(const mica_server *server) {
    (void)server;
}

void cli_heap_unwatch(void) {}
