/* All groups of goldens: GROUP(name), in tests/op/golden_<name>.c. */
GROUP(unary)
GROUP(binary)
GROUP(reduce)
GROUP(random)
GROUP(promotion)
GROUP(index)
GROUP(matmul)
GROUP(fast)
GROUP(quant)
GROUP(parts)
GROUP(grad)
GROUP(gradients)
GROUP(contract)
GROUP(nn)
GROUP(control)
GROUP(layer)

#undef GROUP
