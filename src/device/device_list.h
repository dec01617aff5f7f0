/* Every device: DEVICE(name). Its backend is mc_backend_<name>. The first is the default, and
 * complete. */
DEVICE(cpu)
DEVICE(mlx)
DEVICE(cuda)

#undef DEVICE
