#include "heap.h"

void cli_heap_give_back(void) {}
