#include "fibers.h"

#include <setjmp.h>
#include <stdlib.h>
#include <ucontext.h>

namespace {

enum { STACK = 64 * 1024 };

struct fiber {
    ucontext_t context;
    jmp_buf at;
    bool started;
};

fiber fibers[MOST_FIBERS];
jmp_buf scheduler;

/* A stack, on which the fiber begins. */
void start(fiber &f, void (*run)()) {
    f.started = true;
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = malloc(STACK);
    f.context.uc_stack.ss_size = STACK;
    makecontext(&f.context, run, 0);
    setcontext(&f.context);
}

} // namespace

void fiber_resume(int i, void (*run)()) {
    if (_setjmp(scheduler) != 0) return;
    if (fibers[i].started) _longjmp(fibers[i].at, 1);
    start(fibers[i], run);
}

void fiber_leave(int i) {
    if (_setjmp(fibers[i].at) == 0) _longjmp(scheduler, 1);
}
