/* Every engine: ENGINE(name). Its description is mc_engine_<name>, in engine/<name>.c. Where a
 * caller names none, the first that takes the folder opens it. Include this file with ENGINE
 * defined; it is undefined at the end. */
ENGINE(native)

#undef ENGINE
