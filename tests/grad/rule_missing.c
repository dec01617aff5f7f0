/* Does not link: the list of ops has one more here, without a row for its gradient (CMakeLists.txt
 * beside this file). */
#include "graph/gradient.h"

int main(void) {
    return mc_op_gradient_get(MC_OP_LEAF) == NULL;
}
