/* The mock hub as a program, for transcripts and for other clients: prints its port, and serves
 * until standard input ends.
 *
 *     mock_hub ROOT */
#include "mock_hub.h"

#include <stdio.h>

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    mock_hub *hub = mock_hub_start(argv[1]);
    printf("%d\n", mock_hub_port(hub));
    fflush(stdout);
    while (getchar() != EOF) {}
    mock_hub_stop(hub);
    return 0;
}
