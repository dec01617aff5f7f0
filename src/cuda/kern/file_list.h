/* The files of kernels: FILE_ROW(name, SHARED) for kern/<name>.cu, which is an image of its own.
 * ALL_SHARED: its kernels may be started with all shared memory that a block can have, and name
 * none themselves; tools/check_kernels holds them to it. Include this file with FILE_ROW defined;
 * it is undefined at the end. */
FILE_ROW(elements, OWN_SHARED)
FILE_ROW(gated, OWN_SHARED)
FILE_ROW(move, OWN_SHARED)
FILE_ROW(rows, OWN_SHARED)
FILE_ROW(norms, OWN_SHARED)
FILE_ROW(heads, OWN_SHARED)
FILE_ROW(topk, OWN_SHARED)
FILE_ROW(delta, OWN_SHARED)
FILE_ROW(matmul, OWN_SHARED)
FILE_ROW(planes, ALL_SHARED)
FILE_ROW(gemv, ALL_SHARED)
FILE_ROW(tiles, ALL_SHARED)
FILE_ROW(gemm, ALL_SHARED)
FILE_ROW(attention, OWN_SHARED)
FILE_ROW(attention_row, ALL_SHARED)
FILE_ROW(attention_tiles, ALL_SHARED)
FILE_ROW(attention_back, ALL_SHARED)
#undef FILE_ROW
