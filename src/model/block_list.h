/* Kinds of blocks. BLOCK(name): mc_block_name is in model/block_name.c. */
BLOCK(attention)
BLOCK(gated)
BLOCK(short_conv)
BLOCK(delta_net)
BLOCK(experts)
BLOCK(mamba2)
BLOCK(layer_input)
BLOCK(scale)
