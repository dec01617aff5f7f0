/* Element by element: several ops as one loop, whose value stays in registers from one step to the
 * next. They give the same bits on every instruction set, and those of the ops one by one;
 * which bits a NaN has is not said.
 *
 * elem_steps: for each i from begin on to before end: v = 0; steps in their order do to v, and to
 *             element i of their array, what elem_step_list.h says. Arrays may be one memory if
 *             they begin at the same element: a step reads what an earlier one stored. Arrays of
 *             rows that repeat (mk_step.row) are stored by none. Of fewer elements than a tile has,
 *             steps take the time of a tile.
 *
 * elem_table: y[i] = table[x[i]] of bytes, for each i from 0 to before n. */
KERN(elem_steps, void, (int64_t begin, int64_t end, const mk_step *steps, int n_steps))
KERN(elem_table, void, (int64_t n, const uint8_t *x, const uint8_t table[256], uint8_t *y))
