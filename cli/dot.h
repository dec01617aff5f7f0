/* Graphviz's dot, as a program of its own. */
#ifndef CLI_DOT_H
#define CLI_DOT_H

#include <stdbool.h>
#include <stdio.h>

/** Has dot read a graph from one file and write a picture to another. Both are open, and are read
 *  and written from where they stand.
 *
 *  kind     its option for the kind of picture: -Tsvg
 *  drawn    receives whether it ended well
 *  returns  an errno where it cannot be started, else 0 */
int cli_dot_run(const char *kind, FILE *from, FILE *picture, bool *drawn);

#endif
