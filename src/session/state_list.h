/* The kinds of states (session/state.h): STATE(name), mc_state_<name> in state_<name>.c. */
STATE(buffers)
STATE(blocks)
STATE(carried)
