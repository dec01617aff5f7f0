/* All engines. A row is ENGINE(name), with mc_engine_<name> in engine/<name>.c. If a caller names
 * no engine, the first that takes the folder opens it. Define ENGINE before including this file,
 * which undefines it. */
ENGINE(native)
ENGINE(mlx_lm)

#undef ENGINE
