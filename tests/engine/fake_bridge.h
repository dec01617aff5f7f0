/* A bridge to nothing, for tests of the engine mlx_lm: a test that is started as Python would be
 * plays bridge.py. It answers with the prompt's own tokens, again and again, and fails as it is
 * told. */
#ifndef ENGINE_FAKE_BRIDGE_H
#define ENGINE_FAKE_BRIDGE_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the program was started as Python. */
bool fake_bridge_is(int argc, char **argv);

/* Plays the bridge; returns the program's exit status.
 *
 *  $FAKE_BRIDGE      what it does (fake_bridge.c lists it); not set: all is well
 *  $FAKE_BRIDGE_LOG  a file to which it adds each line that it reads */
int fake_bridge_run(int argc, char **argv);

#endif
