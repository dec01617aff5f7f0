/* A tuner: an open model with what of it is trained. Threads: one at a time. */
#ifndef TUNE_TUNER_H
#define TUNE_TUNER_H

#include "text/chat/prompt.h"
#include "tune/trainable.h"

struct mica_tuner {
    mica_device *device;
    bool own_device;
    mc_lm *lm;
    mc_prompt prompt;
    char *path;
    bool applied; /* there are parameters */
    mc_trainable trainable;
};

/* MICA_EINVAL: there are no parameters yet. */
mica_status mc_tuner_check(const mica_tuner *tuner, const char *function);

/* Whether what is trained can be saved in a format. errors  MICA_EUNSUPPORTED, of the folder */
mica_status mc_tuner_check_format(const mica_tuner *tuner, const char *folder,
                                  mica_adapter_format format);

#endif
