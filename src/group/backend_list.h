/* The back ends of groups, in the order in which they are asked whether they have started this
 * process: GROUP(name) is mc_group_<name>. Include this file with GROUP defined; it is undefined at
 * the end. */
GROUP(mpi)
GROUP(tcp)
GROUP(self)
#undef GROUP
