#include "fibers.h"

#include <windows.h>

namespace {

enum { STACK = 64 * 1024 };

void *fibers[MOST_FIBERS];
void *scheduler;

void CALLBACK begin(void *run) {
    reinterpret_cast<void (*)()>(run)();
}

} // namespace

void fiber_resume(int i, void (*run)()) {
    if (!IsThreadAFiber()) ConvertThreadToFiber(nullptr);
    scheduler = GetCurrentFiber();
    if (!fibers[i])
        fibers[i] = CreateFiberEx(STACK, STACK, 0, begin, reinterpret_cast<void *>(run));
    SwitchToFiber(fibers[i]);
}

void fiber_leave(int) {
    SwitchToFiber(scheduler);
}
