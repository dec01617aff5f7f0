/* Information about models, devices and answers as values. */
#ifndef SUPPORT_INFO_H
#define SUPPORT_INFO_H

#include <mica/mica.h>

static inline mica_model_info test_model_info(const mica_model *model) {
    mica_model_info info = {.struct_bytes = sizeof info};
    mica_model_get_info(model, &info);
    return info;
}

static inline mica_device_info test_device_info(const mica_device *device) {
    mica_device_info info = {.struct_bytes = sizeof info};
    mica_device_get_info(device, &info);
    return info;
}

static inline mica_metrics test_metrics(const mica_stream *stream) {
    mica_metrics metrics = {.struct_bytes = sizeof metrics};
    mica_stream_metrics(stream, &metrics);
    return metrics;
}

#endif
