/* The files of kernels: FILE_ROW(name) for kern/<name>.cu, which is an image of its own. Include
 * this file with FILE_ROW defined; it is undefined at the end. */
FILE_ROW(elements)
FILE_ROW(gated)
FILE_ROW(move)
FILE_ROW(rows)
FILE_ROW(norms)
FILE_ROW(heads)
FILE_ROW(topk)
FILE_ROW(matmul)
FILE_ROW(planes)
FILE_ROW(tiles)
FILE_ROW(gemm)
FILE_ROW(attention)
FILE_ROW(attention_row)
FILE_ROW(attention_tiles)
#undef FILE_ROW
