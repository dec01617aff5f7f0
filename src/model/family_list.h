/* Every model family: FAMILY(name). Its description is mc_family_<name>, in model/<name>.c; the
 * first whose description fits a folder reads it. Include this file with FAMILY defined; it is
 * undefined at the end. */
FAMILY(gemma3)

#undef FAMILY
