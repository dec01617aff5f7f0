/* Every device: DEVICE(name). Its backend is mc_backend_<name>. The first is the default. */
DEVICE(cpu)
DEVICE(mlx)

#undef DEVICE
