/* All model families: FAMILY(name). The family is described by mc_family_<name>, in model/<name>.c.
 * The first family that fits a folder reads it, so families that ask for more tensors come first.
 * Include this file with FAMILY defined; it is undefined at the end. */
FAMILY(nemotron_h)
FAMILY(granitemoehybrid)
FAMILY(lfm2_moe)
FAMILY(lfm3)
FAMILY(lfm2)
FAMILY(qwen3_next)
FAMILY(qwen3_5_moe)
FAMILY(qwen3_5)
FAMILY(gemma3)
FAMILY(gemma2)
FAMILY(gpt_oss)
FAMILY(qwen3_moe)
FAMILY(mixtral)
FAMILY(olmoe)
FAMILY(qwen3)
FAMILY(qwen2)
FAMILY(llama)
FAMILY(mistral)
FAMILY(smollm3)
FAMILY(olmo2)
FAMILY(olmo3)
FAMILY(granite_swa)
FAMILY(granite)
FAMILY(phi3)

#undef FAMILY
