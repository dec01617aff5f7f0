/* mica runs language models in the MLX / Hugging Face layout, in place: without a conversion.
 *
 * This header includes all others: models and generation (mica/model.h), reading
 * answers (mica/answer.h), batches, classification,
 * embeddings and scores (mica/tasks.h), passes of a model as ops (mica/forward.h), finding
 * models (mica/discover.h), downloading them (mica/hub.h), tokenizers (mica/tokenizer.h), lazy
 * arrays (mica/array.h, mica/ops.h, mica/nn.h, mica/signal.h), their gradients (mica/grad.h),
 * control flow (mica/control.h), ops of an application (mica/custom.h), groups of processes
 * (mica/group.h), fine-tuning (mica/tune.h), programs (mica/program.h, mica/executable.h), what
 * they cost (mica/cost.h), devices (mica/device.h), engines (mica/engine.h), saving files
 * (mica/file.h), files of arrays (mica/io.h), tensors of other programs (mica/dlpack.h), models in
 * other forms (mica/convert.h), ONNX (mica/onnx.h), serving models over HTTP (mica/serve.h), status
 * codes (mica/status.h), lines for a log (mica/log.h), the version and the optional parts
 * (mica/version.h). */
#ifndef MICA_H
#define MICA_H

#include <mica/answer.h>
#include <mica/array.h>
#include <mica/control.h>
#include <mica/convert.h>
#include <mica/cost.h>
#include <mica/custom.h>
#include <mica/device.h>
#include <mica/discover.h>
#include <mica/dlpack.h>
#include <mica/engine.h>
#include <mica/executable.h>
#include <mica/file.h>
#include <mica/forward.h>
#include <mica/grad.h>
#include <mica/group.h>
#include <mica/hub.h>
#include <mica/io.h>
#include <mica/log.h>
#include <mica/model.h>
#include <mica/nn.h>
#include <mica/onnx.h>
#include <mica/ops.h>
#include <mica/program.h>
#include <mica/serve.h>
#include <mica/signal.h>
#include <mica/status.h>
#include <mica/tasks.h>
#include <mica/tokenizer.h>
#include <mica/tune.h>
#include <mica/version.h>

#endif
