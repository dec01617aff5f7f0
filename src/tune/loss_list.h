/* The losses: LOSS(name). Each is mc_loss_<name>, in a file of this folder. */
LOSS(cross_entropy)
LOSS(masked_cross_entropy)
LOSS(mse)
LOSS(dpo)
LOSS(orpo)
