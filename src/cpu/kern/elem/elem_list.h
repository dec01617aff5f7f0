/* Element by element: several ops as one loop, whose value stays in registers from one step to the
 * next. They give the same bits on every instruction set, and those of the ops one by one;
 * which bits a NaN has is not said.
 *
 * elem_steps: for each i from begin on to before end: v = 0; steps in their order do to v, and to
 *             element i of their array, what elem_step_list.h says. Arrays may be one memory if
 *             they begin at the same element: a step reads what an earlier one stored. Of fewer
 *             elements than a tile has, steps take the time of a tile. */
KERN(elem_steps, void, (int64_t begin, int64_t end, const mk_step *steps, int n_steps))
