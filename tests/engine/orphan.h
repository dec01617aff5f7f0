/* A child of the engine mlx_lm whose parent dies. */
#ifndef ENGINE_ORPHAN_H
#define ENGINE_ORPHAN_H

/* In a process of its own, opens a model, begins an endless answer and dies without a word. Ends
 * the test with a failure unless the child ends, too. Returns the folder that was $TMPDIR, for
 * test_temp_dir_remove. */
char *orphan_make(const char *model);

#endif
