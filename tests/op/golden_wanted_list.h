/* Ops and dtypes that golden records need and mica lacks: WANTED(group, op, issue). op may be a
 * dtype; "*" is any group. Records that need one are skipped and counted. A record that needs
 * anything else fails. So does a row for an op that exists by now. */
WANTED("grad", "quantized_matmul_x", "the weights of the record")
WANTED("promotion", "an op of c64", "more ops on complex numbers")
WANTED("promotion", "an op of f64", "ops that compute in f64")

#undef WANTED
