/* Every model family: FAMILY(name). Its description is mc_family_<name>, in model/<name>.c; the
 * first whose description fits a folder reads it, so those that ask for more tensors come first.
 * Include this file with FAMILY defined; it is undefined at the end. */
FAMILY(gemma3)
FAMILY(gemma2)
FAMILY(qwen3)
FAMILY(qwen2)
FAMILY(llama)

#undef FAMILY
