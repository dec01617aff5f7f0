/* The optimisers: OPTIMIZER(name). Each is mc_optimizer_<name>, in a file of this folder. */
OPTIMIZER(adamw)
OPTIMIZER(adam)
OPTIMIZER(sgd)
OPTIMIZER(lion)
OPTIMIZER(adafactor)
OPTIMIZER(muon)
