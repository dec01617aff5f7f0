"""The structs, enums and functions of mica's headers, for ctypes.

Made by tools/make_python_layouts.py: do not edit."""
from ctypes import (CFUNCTYPE, POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_float,
                    c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p)
from typing import Any, Dict, Tuple

MICA_MAX_NDIM = 8
MICA_DTYPE_COUNT = 14
MICA_CUSTOM_NUMBERS = 8
MICA_CUSTOM_OPERANDS = 8
MICA_ENGINE_NAME = 32
MICA_MAX_SPATIAL = 3
MICA_VERSION_NUMBER = 100

# ---- enums: numbers by what their names have behind the common beginning ----

mica_status: Dict[str, int] = {
    "ok": 0,
    "einval": 1,
    "eshape": 2,
    "edtype": 3,
    "enomem": 4,
    "enoent": 5,
    "eio": 6,
    "eformat": 7,
    "eunsupported": 8,
    "econtext": 9,
    "ecancelled": 10,
    "edevice": 11,
    "einternal": 12,
    "ebusy": 13,
}
mica_op_support: Dict[str, int] = {
    "unknown": 0,
    "no_work": 1,
    "native": 2,
    "decomposed": 3,
    "fallback": 4,
}
mica_arithmetic: Dict[str, int] = {
    "default": 0,
    "exact": 1,
    "fast": 2,
}
mica_cache_type: Dict[str, int] = {
    "default": 0,
    "f32": 1,
    "f16": 2,
    "bf16": 3,
    "int8": 4,
}
mica_constraint_kind: Dict[str, int] = {
    "none": 0,
    "json_object": 1,
    "json_schema": 2,
    "regex": 3,
    "choice": 4,
    "grammar": 5,
    "gbnf": 6,
    "lark": 7,
}
mica_finish: Dict[str, int] = {
    "none": 0,
    "stop": 1,
    "length": 2,
    "cancelled": 3,
    "error": 4,
}
mica_dtype: Dict[str, int] = {
    "bool": 0,
    "u8": 1,
    "u16": 2,
    "u32": 3,
    "u64": 4,
    "i8": 5,
    "i16": 6,
    "i32": 7,
    "i64": 8,
    "f16": 9,
    "bf16": 10,
    "f32": 11,
    "c64": 12,
    "f64": 13,
}
mica_scatter_mode: Dict[str, int] = {
    "set": 0,
    "add": 1,
    "multiply": 2,
    "maximum": 3,
    "minimum": 4,
}
mica_quant_mode: Dict[str, int] = {
    "affine": 0,
    "mxfp4": 1,
    "mxfp8": 2,
    "nvfp4": 3,
}
mica_candidate_state: Dict[str, int] = {
    "unknown": 0,
    "estimated": 1,
    "timed": 2,
    "unmeasured": 3,
    "unable": 4,
}
mica_mode: Dict[str, int] = {
    "default": 0,
    "lazy": 1,
    "eager": 2,
    "compiled": 3,
}
mica_precision: Dict[str, int] = {
    "recorded": 0,
    "f32": 1,
    "bf16_products": 2,
}
mica_log_level: Dict[str, int] = {
    "note": 1,
    "info": 2,
    "debug": 3,
}
mica_channels: Dict[str, int] = {
    "first": 0,
    "last": 1,
}
mica_window_kind: Dict[str, int] = {
    "max": 0,
    "min": 1,
    "sum": 2,
    "prod": 3,
    "mean": 4,
}
mica_fft_norm: Dict[str, int] = {
    "backward": 0,
    "ortho": 1,
    "forward": 2,
    "none": 3,
}
mica_scale_mode: Dict[str, int] = {
    "batch": 0,
    "fixed": 1,
    "ema": 2,
}
mica_ste: Dict[str, int] = {
    "identity": 0,
    "clipped": 1,
    "tanh": 2,
    "hard_tanh": 3,
}
mica_weight_scheme: Dict[str, int] = {
    "int8": 0,
    "int4": 1,
    "e4m3": 2,
    "e5m2": 3,
    "nvfp4": 4,
    "q4_0": 5,
    "q8_0": 6,
    "q2_k": 7,
    "q3_k": 8,
    "q4_k": 9,
    "q5_k": 10,
    "q6_k": 11,
    "q8_k": 12,
}
mica_activation: Dict[str, int] = {
    "identity": 0,
    "relu": 1,
    "gelu": 2,
    "gelu_approx": 3,
    "silu": 4,
    "sigmoid": 5,
    "tanh": 6,
    "exp": 7,
    "log": 8,
    "sqrt": 9,
    "rsqrt": 10,
    "negative": 11,
    "abs": 12,
    "sin": 13,
    "cos": 14,
    "tan": 15,
    "arctan": 16,
    "round": 17,
}
mica_mask_kind: Dict[str, int] = {
    "none": 0,
    "causal": 1,
    "window": 2,
    "custom": 3,
    "bias": 4,
}
mica_pooling: Dict[str, int] = {
    "default": 0,
    "mean": 1,
    "last": 2,
}
mica_tune_kind: Dict[str, int] = {
    "lora": 0,
    "dora": 1,
    "full": 2,
}
mica_adapter_format: Dict[str, int] = {
    "mlx": 0,
    "peft": 1,
}
mica_tune_long: Dict[str, int] = {
    "cut": 0,
    "split": 1,
    "refuse": 2,
}
mica_tune_average: Dict[str, int] = {
    "tokens": 0,
    "steps": 1,
}
mica_tune_set: Dict[str, int] = {
    "train": 0,
    "valid": 1,
    "test": 2,
}
mica_tune_event: Dict[str, int] = {
    "plan": 0,
    "train": 1,
    "valid": 2,
    "test": 3,
    "saved": 4,
    "note": 5,
}


# ---- structs ----


class mica_device_options(Structure):
    struct_bytes: int
    threads: int
    memory_limit_bytes: int
    cache_limit_bytes: int


class mica_device_info(Structure):
    struct_bytes: int
    name: Any
    description: Any
    threads: int
    unified_memory: int
    memory_bytes: int
    architecture: Any
    max_array_bytes: int
    working_set_bytes: int


class mica_model_options(Structure):
    struct_bytes: int
    engine: Any
    device: Any
    device_name: Any
    threads: int
    context_length: int
    adapter: Any
    accelerator_layers: int
    arithmetic: int
    cache: int
    no_mmap: bool
    prefetch: bool
    mlock: bool
    mlx_lm: Any
    progress: Any
    progress_user: Any
    cancel: Any
    chat_template: Any
    group: Any
    tensor_parallel: int
    pipeline_parallel: int


class mica_model_info(Structure):
    struct_bytes: int
    path: Any
    engine: Any
    family: Any
    architecture: Any
    dtype: Any
    quantization: Any
    arithmetic: int
    parameters: int
    weight_bytes: int
    layers: int
    hidden_size: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    context_length: int
    sliding_window: int
    sliding_layers: int
    adapter: Any
    adapter_parameters: int
    note: Any
    bits: int
    group_size: int
    active_parameters: int
    active_bytes: int
    call_format: Any
    thought_mark: Any
    thinking_variable: Any
    experts: int
    experts_per_token: int
    expert_size: int


class mica_model_kernels(Structure):
    struct_bytes: int
    matrix: Any
    attention: bool
    arithmetic: int
    activations: Any
    one_row: Any
    many_rows: Any


class mica_session_options(Structure):
    struct_bytes: int
    prefill_chunk: int
    draft_model: Any


class mica_tool_call(Structure):
    name: Any
    arguments: Any
    id: Any


class mica_message(Structure):
    struct_bytes: int
    role: Any
    content: Any
    name: Any
    thoughts: Any
    tool_calls: Any
    tool_call_count: int
    tool_call_id: Any
    images: Any
    image_count: int


class mica_logit_bias(Structure):
    id: int
    bias: float


class mica_generate_options(Structure):
    struct_bytes: int
    max_tokens: int
    min_tokens: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    penalty_window: int
    logit_bias: Any
    logit_bias_count: int
    seed: int
    stop_ids: Any
    stop_count: int
    stop_strings: Any
    stop_string_count: int
    draft_tokens: int
    ignore_eos: bool
    logprobs: bool
    top_logprobs: int
    echo: bool
    truncate: bool
    continue_last: bool
    template_variables: Any
    tools: Any
    progress: Any
    progress_user: Any
    cancel: Any
    constraint: int
    constraint_text: Any


class mica_alternative(Structure):
    id: int
    logprob: float


class mica_token(Structure):
    id: int
    text: Any
    len: int
    prompt: bool
    logprob: float
    alternatives: Any
    alternative_count: int


class mica_metrics(Structure):
    struct_bytes: int
    prompt_tokens: int
    reused_tokens: int
    truncated_tokens: int
    forgotten_tokens: int
    generated_tokens: int
    drafted_tokens: int
    accepted_tokens: int
    prefill_seconds: float
    decode_seconds: float
    prefill_rate: float
    decode_rate: float
    active_bytes: int
    peak_bytes: int
    fallback_ops: int
    total_seconds: float


class mica_answer_options(Structure):
    struct_bytes: int
    tools: Any
    prompt: Any
    prompt_count: int


class mica_array(Structure):
    scope: Any
    node: int


class mica_text_options(Structure):
    struct_bytes: int
    edge: int
    digits: int


class mica_iter(Structure):
    value: Any
    index: int
    status: int
    next: int
    coords: Any
    element: int


class mica_while_options(Structure):
    struct_bytes: int
    max_rounds: int


class mica_scan_options(Structure):
    struct_bytes: int
    length: int
    reverse: bool
    checkpoints: int


class mica_dot_axes(Structure):
    a_batch: Any
    b_batch: Any
    n_batch: int
    a_contract: Any
    b_contract: Any
    n_contract: int


class mica_quant(Structure):
    mode: int
    bits: int
    group_size: int


class mica_rope_options(Structure):
    struct_bytes: int
    dims: int
    traditional: bool
    base: float
    scale: float


class mica_sdpa_options(Structure):
    struct_bytes: int
    scale: float
    causal: bool
    window: int
    keep: int
    softcap: float
    mask: Any
    offset: Any
    sinks: Any


class mica_random_state(Structure):
    key: Any


class mica_convert_options(Structure):
    struct_bytes: int
    adapter: Any
    quant: Any
    recipe: Any
    dtype: Any
    shard_bytes: int
    progress: Any
    progress_user: Any
    cancel: Any
    threads: int
    quantise: bool
    dequantise: bool
    calibration: Any
    target_bits: float


class mica_convert_result(Structure):
    struct_bytes: int
    parameters: int
    bytes: int
    quantised: int
    bits: float
    fused: int
    dequantised: int
    divergence: float


class mica_gguf_options(Structure):
    struct_bytes: int
    name: Any
    cache: Any
    progress: Any
    progress_user: Any
    threads: int
    cancel: Any


class mica_param(Structure):
    name: Any
    array: Any
    donate: bool


class mica_program_options(Structure):
    struct_bytes: int
    result_names: Any


class mica_port(Structure):
    struct_bytes: int
    name: Any
    dtype: int
    donate: bool
    ndim: int
    shape: Any
    symbols: Any


class mica_length(Structure):
    name: Any
    length: int


class mica_program_memory(Structure):
    struct_bytes: int
    peak_bytes: int
    result_bytes: int
    argument_bytes: int
    constant_bytes: int
    prepared_bytes: int


class mica_named_array(Structure):
    name: Any
    array: Any


class mica_program_file_options(Structure):
    struct_bytes: int
    constants: Any
    n_constants: int


class mica_compile_options(Structure):
    struct_bytes: int
    shapeless: bool
    max_programs: int


class mica_cost(Structure):
    struct_bytes: int
    bounded: bool
    seconds: float
    operations: float
    bytes: float
    steps: int
    cpu_ops: int


class mica_candidate(Structure):
    device: Any
    seconds: float
    state: int
    reason: Any


class mica_pick_options(Structure):
    struct_bytes: int
    args: Any


class mica_shape(Structure):
    dtype: int
    ndim: int
    shape: Any


class mica_custom_op(Structure):
    struct_bytes: int
    name: Any
    user: Any
    infer: Any
    run: Any
    vjp: Any


class mica_found_model(Structure):
    struct_bytes: int
    path: Any
    name: Any
    family: Any
    architecture: Any
    quantization: Any
    weight_bytes: int
    weight_files: int
    bits: int
    group_size: int


class mica_model_list(Structure):
    models: Any
    count: int


class mica_engine(Structure):
    struct_bytes: int
    name: Any
    description: Any
    user: Any
    preference: int
    available: Any
    takes: Any
    model_open: Any
    model_close: Any
    model_info: Any
    session_open: Any
    session_close: Any
    session_reset: Any
    answer_open: Any
    answer_next: Any
    answer_cancel: Any
    answer_metrics: Any
    answer_close: Any


class mica_mlx_lm_options(Structure):
    struct_bytes: int
    python: Any
    paths: Any
    start_seconds: float
    load_seconds: float
    silence_seconds: float


class mica_engine_info(Structure):
    struct_bytes: int
    name: Any
    description: Any
    preference: int
    users: int
    built_in: bool
    asked: bool
    available: bool
    reason: Any


class mica_op_precision(Structure):
    op: Any
    dtype: int


class mica_executable_options(Structure):
    struct_bytes: int
    slot_align: int
    mode: int
    no_fallback: int
    passes_off: Any
    max_plans: int
    max_plan_bytes: int
    precision: int
    unused: int
    op_precisions: Any
    n_op_precisions: int
    slots: Any
    n_slots: int


class mica_input(Structure):
    name: Any
    data: Any
    bytes: int
    dtype: int
    convert: bool
    array: Any


class mica_slot(Structure):
    name: Any
    dtype: int
    unused: int
    offset: int
    bytes: int


class mica_kv(Structure):
    k: Any
    v: Any
    mask: Any


class mica_kv_store(Structure):
    update: Any
    user: Any


class mica_forward_options(Structure):
    struct_bytes: int
    hidden: bool
    position: Any
    mask: Any
    at: Any
    store: Any


class mica_custom_gradient(Structure):
    struct_bytes: int
    fn: Any
    vjp: Any
    jvp: Any


class mica_group_options(Structure):
    struct_bytes: int
    backend: Any
    patience_s: float


class mica_pull_plan(Structure):
    struct_bytes: int
    name: Any
    commit: Any
    files: int
    bytes: int
    download_files: int
    download_bytes: int


class mica_pull_options(Structure):
    struct_bytes: int
    revision: Any
    include: Any
    include_count: int
    cache: Any
    endpoint: Any
    token: Any
    offline: bool
    connections: int
    stall_seconds: int
    confirm: Any
    confirm_user: Any
    progress: Any
    progress_user: Any
    cancel: Any
    notice: Any
    notice_user: Any


class mica_metadata(Structure):
    key: Any
    value: Any


class mica_conv_options(Structure):
    stride: Any
    padding_lo: Any
    padding_hi: Any
    kernel_dilation: Any
    input_dilation: Any
    groups: int
    flip: bool


class mica_conv_transpose_options(Structure):
    stride: Any
    padding: Any
    output_padding: Any
    dilation: Any
    groups: int


class mica_window_options(Structure):
    window: Any
    stride: Any
    dilation: Any
    base_dilation: Any
    padding_lo: Any
    padding_hi: Any
    exclude_padding: bool
    ceil: bool


class mica_pool_options(Structure):
    kernel: Any
    stride: Any
    padding_lo: Any
    padding_hi: Any
    dilation: Any
    exclude_padding: bool
    ceil: bool


class mica_selective_scan_options(Structure):
    struct_bytes: int
    delta_softplus: bool
    d: Any
    z: Any
    initial: Any


class mica_sample_options(Structure):
    struct_bytes: int
    temperature: Any
    top_k: Any
    top_p: Any
    min_p: Any


class mica_qmatmul_options(Structure):
    struct_bytes: int
    x_zero_point: int
    w_zero_point: int
    zero_point: int
    multiplier: Any


class mica_fake_quantize_options(Structure):
    struct_bytes: int
    bits: int
    mode: int
    ste: int
    decay: float
    wide: bool
    axis: Any
    scale: Any


class mica_weight(Structure):
    scheme: int
    codes: Any
    scale: Any
    zero_point: Any


class mica_linear_weights(Structure):
    weight: Any
    scales: Any
    biases: Any
    bias: Any
    quant: Any


class mica_masked_attention_options(Structure):
    struct_bytes: int
    kind: int
    scale: float
    softcap: float
    heads: int
    kv_heads: int
    window: int
    mask: Any


class mica_attention_weights(Structure):
    qkv: Any
    qkv_bias: Any
    out: Any
    out_bias: Any
    cos: Any
    sin: Any


class mica_layer_weights(Structure):
    attention: Any
    norm1: Any
    norm1_bias: Any
    up: Any
    up_bias: Any
    down: Any
    down_bias: Any
    norm2: Any
    norm2_bias: Any


class mica_onnx_dim(Structure):
    name: Any
    length: int


class mica_onnx_options(Structure):
    struct_bytes: int
    dims: Any
    n_dims: int
    inputs: Any
    n_inputs: int
    notes: Any


class mica_server_options(Structure):
    struct_bytes: int
    host: Any
    port: int
    insecure: bool
    downloads: bool
    vllm_metrics: bool
    certificate: Any
    certificate_key: Any
    api_keys: Any
    api_key_count: int
    origins: Any
    origin_count: int
    hosts: Any
    host_count: int
    max_body: int
    max_connections: int
    max_connections_per_host: int
    request_seconds: int
    comment_seconds: int
    log: Any
    log_user: Any
    kv_events: Any
    kv_events_replay: Any
    kv_events_topic: Any
    kv_events_seed: Any


class mica_serving_options(Structure):
    struct_bytes: int
    rows: int
    step_tokens: int
    queue: int
    cache_bytes: int
    max_seconds: float
    draft_tokens: int
    max_priority: int
    prefix_cache: Any
    notice: Any
    notice_user: Any
    max_tokens: int


class mica_loading_options(Structure):
    struct_bytes: int
    names: Any
    folders: Any
    count: int
    places: Any
    place_count: int
    adapter_names: Any
    adapter_folders: Any
    adapter_count: int
    model: Any
    serving: Any
    keep_alive_seconds: float
    max_models: int
    memory_bytes: int


class mica_ask_options(Structure):
    struct_bytes: int
    key: Any
    certificates: Any
    any_certificate: int
    silent_seconds: int


class mica_task_options(Structure):
    struct_bytes: int
    progress: Any
    progress_user: Any
    cancel: Any


class mica_classify_options(Structure):
    struct_bytes: int
    labels: Any
    label_count: int
    as_chat: bool
    logits: bool
    temperature: float
    top_k: int
    seed: int
    progress: Any
    progress_user: Any
    cancel: Any


class mica_classify_row(Structure):
    status: int
    error: Any
    token: int
    text: Any
    probability: float
    labels: Any
    label: int
    logits: Any
    prompt_tokens: int


class mica_classify_results(Structure):
    rows: Any
    count: int
    label_count: int
    vocab: int
    seconds: float


class mica_batch_item(Structure):
    prompt: Any
    messages: Any
    message_count: int
    options: Any


class mica_batch_row(Structure):
    status: int
    error: Any
    finish: int
    ids: Any
    logprobs: Any
    count: int
    text: Any
    len: int
    metrics: Any


class mica_batch_results(Structure):
    rows: Any
    count: int
    prompt_tokens: int
    generated_tokens: int
    seconds: float


class mica_batch_options(Structure):
    struct_bytes: int
    parallel: int
    token: Any
    done: Any
    user: Any
    cancel: Any


class mica_embed_options(Structure):
    struct_bytes: int
    pooling: int
    normalise: bool
    progress: Any
    progress_user: Any
    cancel: Any
    prompt_name: Any
    dimensions: int


class mica_embed_row(Structure):
    status: int
    error: Any
    vector: Any
    tokens: int


class mica_embed_results(Structure):
    rows: Any
    count: int
    width: int
    seconds: float


class mica_rerank_options(Structure):
    struct_bytes: int
    logits: bool
    instruction: Any
    cancel: Any


class mica_score_result(Structure):
    ids: Any
    logprobs: Any
    count: int
    total: float
    perplexity: float
    seconds: float


class mica_score_row(Structure):
    status: int
    error: Any
    score: Any


class mica_score_results(Structure):
    rows: Any
    count: int
    seconds: float


class mica_comparison(Structure):
    count: int
    same: int
    divergence: float
    max: float
    reference_logprob: float
    model_logprob: float


class mica_attention_layer(Structure):
    layer: int
    q: Any
    k: Any


class mica_attention(Structure):
    ids: Any
    tokens: int
    heads: int
    kv_heads: int
    head_dim: int
    layers: Any
    count: int


class mica_loss_options(Structure):
    struct_bytes: int
    beta: float


class mica_optimizer_options(Structure):
    struct_bytes: int
    name: Any
    learning_rate: float
    beta1: float
    beta2: float
    eps: float
    weight_decay: float
    bias_correction: bool
    nesterov: bool
    no_nesterov: bool
    relative_step: bool
    momentum: float


class mica_schedule(Structure):
    name: Any
    arguments: Any
    n_arguments: int
    warmup: int
    warmup_init: float


class mica_tuner_options(Structure):
    struct_bytes: int
    device: Any
    device_name: Any
    threads: int
    no_mmap: bool
    arithmetic: int
    chat_template: Any


class mica_lora_options(Structure):
    struct_bytes: int
    kind: int
    modules: Any
    n_modules: int
    layers: int
    rank: int
    scale: float
    alpha: float
    dropout: float
    bf16: bool
    seed: int
    memory_limit_bytes: int


class mica_parameter(Structure):
    struct_bytes: int
    name: Any
    value: Any


class mica_tune_example(Structure):
    struct_bytes: int
    line: Any
    len: int
    ids: Any
    count: int
    prompt: int


class mica_tune_report(Structure):
    struct_bytes: int
    event: int
    iteration: int
    iterations: int
    loss: float
    rate: float
    norm: float
    tokens_per_second: float
    iterations_per_second: float
    trained_tokens: int
    memory_bytes: int
    seconds_left: float
    text: Any


class mica_tune_options(Structure):
    struct_bytes: int
    data: Any
    adapter: Any
    format: int
    loss: Any
    loss_options: Any
    optimizer: Any
    schedule: Any
    batch_size: int
    iterations: int
    accumulate: int
    max_seq_length: int
    valid_batches: int
    test_batches: int
    report_every: int
    valid_every: int
    save_every: int
    valid_share: float
    clip_norm: float
    seed: int
    too_long: int
    mask_prompt: bool
    pack: bool
    checkpoint: bool
    skip_bad: bool
    resume: bool
    test: bool
    no_train: bool
    memory_limit_bytes: int
    log: Any
    tensorboard: Any
    watch: Any
    watch_user: Any
    cancel: Any
    average: int
    keep_existing: bool
    prompt_key: Any
    completion_key: Any
    messages_key: Any
    text_key: Any
    source: Any
    source_user: Any
    loss_fn: Any
    loss_user: Any
    group: Any


class mica_tune_result(Structure):
    struct_bytes: int
    iteration: int
    train_loss: float
    valid_loss: float
    test_loss: float
    trained_tokens: int
    peak_bytes: int
    seconds: float


# ---- functions that mica calls ----

mica_progress = CFUNCTYPE(None, c_void_p, c_uint64, c_uint64)
mica_release = CFUNCTYPE(None, c_void_p)
mica_compile_fn = CFUNCTYPE(c_int, c_void_p, c_void_p, POINTER(mica_array), c_size_t,
                            POINTER(mica_array), c_size_t)
mica_custom_op_infer_fn = CFUNCTYPE(c_int, c_void_p, POINTER(c_int64), c_int, POINTER(mica_shape),
                                    c_int, POINTER(mica_shape))
mica_custom_op_run_fn = CFUNCTYPE(c_int, c_void_p, POINTER(c_int64), c_int, POINTER(mica_shape),
                                  POINTER(c_void_p), c_int, POINTER(mica_shape), c_void_p)
mica_custom_op_vjp_fn = CFUNCTYPE(c_int, c_void_p, c_void_p, POINTER(c_int64), c_int,
                                  POINTER(mica_array), c_int, mica_array, mica_array,
                                  POINTER(mica_array))
mica_engine_available_fn = CFUNCTYPE(c_int, c_void_p, POINTER(mica_model_options))
mica_engine_takes_fn = CFUNCTYPE(c_bool, c_void_p, c_char_p)
mica_engine_model_open_fn = CFUNCTYPE(c_int, c_void_p, c_char_p, POINTER(mica_model_options),
                                      POINTER(c_void_p))
mica_engine_model_close_fn = CFUNCTYPE(None, c_void_p)
mica_engine_model_info_fn = CFUNCTYPE(POINTER(mica_model_info), c_void_p)
mica_engine_session_open_fn = CFUNCTYPE(c_int, c_void_p, POINTER(mica_session_options),
                                        POINTER(c_void_p))
mica_engine_session_close_fn = CFUNCTYPE(None, c_void_p)
mica_engine_session_reset_fn = CFUNCTYPE(None, c_void_p)
mica_engine_answer_open_fn = CFUNCTYPE(c_int, c_void_p, POINTER(c_int32), c_size_t,
                                       POINTER(mica_generate_options), POINTER(c_void_p))
mica_engine_answer_next_fn = CFUNCTYPE(c_int, c_void_p, POINTER(mica_token), POINTER(c_int))
mica_engine_answer_cancel_fn = CFUNCTYPE(None, c_void_p)
mica_engine_answer_metrics_fn = CFUNCTYPE(POINTER(mica_metrics), c_void_p)
mica_engine_answer_close_fn = CFUNCTYPE(None, c_void_p)
mica_kv_store_update_fn = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int64, mica_array, mica_array,
                                    POINTER(mica_kv))
mica_pull_confirm = CFUNCTYPE(c_bool, c_void_p, POINTER(mica_pull_plan))
mica_pull_options_notice_fn = CFUNCTYPE(None, c_void_p, c_char_p)
mica_log_hook = CFUNCTYPE(None, c_void_p, c_int, c_char_p)
mica_server_log = CFUNCTYPE(None, c_void_p, c_char_p)
mica_serving_options_notice_fn = CFUNCTYPE(None, c_void_p, c_char_p)
mica_batch_options_token_fn = CFUNCTYPE(c_bool, c_void_p, c_size_t, POINTER(mica_token))
mica_batch_options_done_fn = CFUNCTYPE(None, c_void_p, c_size_t, POINTER(mica_batch_row))
mica_tune_source = CFUNCTYPE(c_int, c_void_p, c_int, POINTER(mica_tune_example), POINTER(c_bool))
mica_tune_watch = CFUNCTYPE(None, c_void_p, POINTER(mica_tune_report))

# ---- members ----

mica_device_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("threads", c_int),
    ("memory_limit_bytes", c_uint64),
    ("cache_limit_bytes", c_uint64),
]
mica_device_info._fields_ = [
    ("struct_bytes", c_size_t),
    ("name", c_char_p),
    ("description", c_char_p),
    ("threads", c_int),
    ("unified_memory", c_int),
    ("memory_bytes", c_uint64),
    ("architecture", c_char_p),
    ("max_array_bytes", c_uint64),
    ("working_set_bytes", c_uint64),
]
mica_model_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("engine", c_char_p),
    ("device", c_void_p),
    ("device_name", c_char_p),
    ("threads", c_int),
    ("context_length", c_int64),
    ("adapter", c_char_p),
    ("accelerator_layers", c_int),
    ("arithmetic", c_int),
    ("cache", c_int),
    ("no_mmap", c_bool),
    ("prefetch", c_bool),
    ("mlock", c_bool),
    ("mlx_lm", c_void_p),
    ("progress", mica_progress),
    ("progress_user", c_void_p),
    ("cancel", c_void_p),
    ("chat_template", c_char_p),
    ("group", c_void_p),
    ("tensor_parallel", c_int),
    ("pipeline_parallel", c_int),
]
mica_model_info._fields_ = [
    ("struct_bytes", c_size_t),
    ("path", c_char_p),
    ("engine", c_char_p),
    ("family", c_char_p),
    ("architecture", c_char_p),
    ("dtype", c_char_p),
    ("quantization", c_char_p),
    ("arithmetic", c_int),
    ("parameters", c_uint64),
    ("weight_bytes", c_uint64),
    ("layers", c_int64),
    ("hidden_size", c_int64),
    ("heads", c_int64),
    ("kv_heads", c_int64),
    ("head_dim", c_int64),
    ("intermediate_size", c_int64),
    ("vocab_size", c_int64),
    ("context_length", c_int64),
    ("sliding_window", c_int64),
    ("sliding_layers", c_int64),
    ("adapter", c_char_p),
    ("adapter_parameters", c_uint64),
    ("note", c_char_p),
    ("bits", c_int),
    ("group_size", c_int),
    ("active_parameters", c_uint64),
    ("active_bytes", c_uint64),
    ("call_format", c_char_p),
    ("thought_mark", c_char_p),
    ("thinking_variable", c_char_p),
    ("experts", c_int64),
    ("experts_per_token", c_int64),
    ("expert_size", c_int64),
]
mica_model_kernels._fields_ = [
    ("struct_bytes", c_size_t),
    ("matrix", c_char_p),
    ("attention", c_bool),
    ("arithmetic", c_int),
    ("activations", c_char_p),
    ("one_row", c_char_p),
    ("many_rows", c_char_p),
]
mica_session_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("prefill_chunk", c_int64),
    ("draft_model", c_void_p),
]
mica_tool_call._fields_ = [
    ("name", c_char_p),
    ("arguments", c_char_p),
    ("id", c_char_p),
]
mica_message._fields_ = [
    ("struct_bytes", c_size_t),
    ("role", c_char_p),
    ("content", c_char_p),
    ("name", c_char_p),
    ("thoughts", c_char_p),
    ("tool_calls", POINTER(mica_tool_call)),
    ("tool_call_count", c_size_t),
    ("tool_call_id", c_char_p),
    ("images", POINTER(c_char_p)),
    ("image_count", c_size_t),
]
mica_logit_bias._fields_ = [
    ("id", c_int32),
    ("bias", c_float),
]
mica_generate_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("max_tokens", c_int64),
    ("min_tokens", c_int64),
    ("temperature", c_float),
    ("top_k", c_int),
    ("top_p", c_float),
    ("min_p", c_float),
    ("repetition_penalty", c_float),
    ("presence_penalty", c_float),
    ("frequency_penalty", c_float),
    ("penalty_window", c_int),
    ("logit_bias", POINTER(mica_logit_bias)),
    ("logit_bias_count", c_size_t),
    ("seed", c_uint64),
    ("stop_ids", POINTER(c_int32)),
    ("stop_count", c_size_t),
    ("stop_strings", POINTER(c_char_p)),
    ("stop_string_count", c_size_t),
    ("draft_tokens", c_int),
    ("ignore_eos", c_bool),
    ("logprobs", c_bool),
    ("top_logprobs", c_int),
    ("echo", c_bool),
    ("truncate", c_bool),
    ("continue_last", c_bool),
    ("template_variables", c_char_p),
    ("tools", c_char_p),
    ("progress", mica_progress),
    ("progress_user", c_void_p),
    ("cancel", c_void_p),
    ("constraint", c_int),
    ("constraint_text", c_char_p),
]
mica_alternative._fields_ = [
    ("id", c_int32),
    ("logprob", c_float),
]
mica_token._fields_ = [
    ("id", c_int32),
    ("text", c_char_p),
    ("len", c_size_t),
    ("prompt", c_bool),
    ("logprob", c_float),
    ("alternatives", POINTER(mica_alternative)),
    ("alternative_count", c_size_t),
]
mica_metrics._fields_ = [
    ("struct_bytes", c_size_t),
    ("prompt_tokens", c_int64),
    ("reused_tokens", c_int64),
    ("truncated_tokens", c_int64),
    ("forgotten_tokens", c_int64),
    ("generated_tokens", c_int64),
    ("drafted_tokens", c_int64),
    ("accepted_tokens", c_int64),
    ("prefill_seconds", c_double),
    ("decode_seconds", c_double),
    ("prefill_rate", c_double),
    ("decode_rate", c_double),
    ("active_bytes", c_uint64),
    ("peak_bytes", c_uint64),
    ("fallback_ops", c_uint64),
    ("total_seconds", c_double),
]
mica_answer_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("tools", c_char_p),
    ("prompt", POINTER(c_int32)),
    ("prompt_count", c_size_t),
]
mica_array._fields_ = [
    ("scope", c_void_p),
    ("node", c_uint32),
]
mica_text_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("edge", c_int64),
    ("digits", c_int64),
]
mica_iter._fields_ = [
    ("value", c_void_p),
    ("index", c_int64),
    ("status", c_int),
    ("next", c_int64),
    ("coords", c_int64 * 8),
    ("element", c_uint64),
]
mica_while_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("max_rounds", c_int64),
]
mica_scan_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("length", c_int64),
    ("reverse", c_bool),
    ("checkpoints", c_int64),
]
mica_dot_axes._fields_ = [
    ("a_batch", POINTER(c_int)),
    ("b_batch", POINTER(c_int)),
    ("n_batch", c_int64),
    ("a_contract", POINTER(c_int)),
    ("b_contract", POINTER(c_int)),
    ("n_contract", c_int64),
]
mica_quant._fields_ = [
    ("mode", c_int),
    ("bits", c_int),
    ("group_size", c_int),
]
mica_rope_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("dims", c_int),
    ("traditional", c_bool),
    ("base", c_float),
    ("scale", c_float),
]
mica_sdpa_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("scale", c_float),
    ("causal", c_bool),
    ("window", c_int64),
    ("keep", c_int64),
    ("softcap", c_float),
    ("mask", mica_array),
    ("offset", mica_array),
    ("sinks", mica_array),
]
mica_random_state._fields_ = [
    ("key", c_uint32 * 2),
]
mica_convert_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("adapter", c_char_p),
    ("quant", mica_quant),
    ("recipe", c_char_p),
    ("dtype", c_char_p),
    ("shard_bytes", c_uint64),
    ("progress", mica_progress),
    ("progress_user", c_void_p),
    ("cancel", c_void_p),
    ("threads", c_int),
    ("quantise", c_bool),
    ("dequantise", c_bool),
    ("calibration", c_char_p),
    ("target_bits", c_double),
]
mica_convert_result._fields_ = [
    ("struct_bytes", c_size_t),
    ("parameters", c_uint64),
    ("bytes", c_uint64),
    ("quantised", c_uint64),
    ("bits", c_double),
    ("fused", c_uint64),
    ("dequantised", c_uint64),
    ("divergence", c_double),
]
mica_gguf_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("name", c_char_p),
    ("cache", c_char_p),
    ("progress", mica_progress),
    ("progress_user", c_void_p),
    ("threads", c_int),
    ("cancel", c_void_p),
]
mica_param._fields_ = [
    ("name", c_char_p),
    ("array", mica_array),
    ("donate", c_bool),
]
mica_program_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("result_names", POINTER(c_char_p)),
]
mica_port._fields_ = [
    ("struct_bytes", c_size_t),
    ("name", c_char_p),
    ("dtype", c_int),
    ("donate", c_bool),
    ("ndim", c_int),
    ("shape", POINTER(c_int64)),
    ("symbols", POINTER(c_char_p)),
]
mica_length._fields_ = [
    ("name", c_char_p),
    ("length", c_int64),
]
mica_program_memory._fields_ = [
    ("struct_bytes", c_size_t),
    ("peak_bytes", c_uint64),
    ("result_bytes", c_uint64),
    ("argument_bytes", c_uint64),
    ("constant_bytes", c_uint64),
    ("prepared_bytes", c_uint64),
]
mica_named_array._fields_ = [
    ("name", c_char_p),
    ("array", mica_array),
]
mica_program_file_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("constants", POINTER(mica_named_array)),
    ("n_constants", c_size_t),
]
mica_compile_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("shapeless", c_bool),
    ("max_programs", c_size_t),
]
mica_cost._fields_ = [
    ("struct_bytes", c_size_t),
    ("bounded", c_bool),
    ("seconds", c_double),
    ("operations", c_double),
    ("bytes", c_double),
    ("steps", c_uint64),
    ("cpu_ops", c_uint64),
]
mica_candidate._fields_ = [
    ("device", c_void_p),
    ("seconds", c_double),
    ("state", c_int),
    ("reason", c_char * 116),
]
mica_pick_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("args", POINTER(mica_array)),
]
mica_shape._fields_ = [
    ("dtype", c_int),
    ("ndim", c_int),
    ("shape", c_int64 * 8),
]
mica_custom_op._fields_ = [
    ("struct_bytes", c_size_t),
    ("name", c_char_p),
    ("user", c_void_p),
    ("infer", mica_custom_op_infer_fn),
    ("run", mica_custom_op_run_fn),
    ("vjp", mica_custom_op_vjp_fn),
]
mica_found_model._fields_ = [
    ("struct_bytes", c_size_t),
    ("path", c_char_p),
    ("name", c_char_p),
    ("family", c_char_p),
    ("architecture", c_char_p),
    ("quantization", c_char_p),
    ("weight_bytes", c_uint64),
    ("weight_files", c_uint64),
    ("bits", c_int),
    ("group_size", c_int),
]
mica_model_list._fields_ = [
    ("models", POINTER(POINTER(mica_found_model))),
    ("count", c_size_t),
]
mica_engine._fields_ = [
    ("struct_bytes", c_size_t),
    ("name", c_char_p),
    ("description", c_char_p),
    ("user", c_void_p),
    ("preference", c_int64),
    ("available", mica_engine_available_fn),
    ("takes", mica_engine_takes_fn),
    ("model_open", mica_engine_model_open_fn),
    ("model_close", mica_engine_model_close_fn),
    ("model_info", mica_engine_model_info_fn),
    ("session_open", mica_engine_session_open_fn),
    ("session_close", mica_engine_session_close_fn),
    ("session_reset", mica_engine_session_reset_fn),
    ("answer_open", mica_engine_answer_open_fn),
    ("answer_next", mica_engine_answer_next_fn),
    ("answer_cancel", mica_engine_answer_cancel_fn),
    ("answer_metrics", mica_engine_answer_metrics_fn),
    ("answer_close", mica_engine_answer_close_fn),
]
mica_mlx_lm_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("python", c_char_p),
    ("paths", c_char_p),
    ("start_seconds", c_double),
    ("load_seconds", c_double),
    ("silence_seconds", c_double),
]
mica_engine_info._fields_ = [
    ("struct_bytes", c_size_t),
    ("name", c_char * 32),
    ("description", c_char * 128),
    ("preference", c_int64),
    ("users", c_int64),
    ("built_in", c_bool),
    ("asked", c_bool),
    ("available", c_bool),
    ("reason", c_char * 509),
]
mica_op_precision._fields_ = [
    ("op", c_char_p),
    ("dtype", c_int),
]
mica_executable_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("slot_align", c_size_t),
    ("mode", c_int),
    ("no_fallback", c_int),
    ("passes_off", c_char_p),
    ("max_plans", c_size_t),
    ("max_plan_bytes", c_size_t),
    ("precision", c_int),
    ("unused", c_int),
    ("op_precisions", POINTER(mica_op_precision)),
    ("n_op_precisions", c_size_t),
    ("slots", POINTER(c_char_p)),
    ("n_slots", c_size_t),
]
mica_input._fields_ = [
    ("name", c_char_p),
    ("data", c_void_p),
    ("bytes", c_size_t),
    ("dtype", c_int),
    ("convert", c_bool),
    ("array", mica_array),
]
mica_slot._fields_ = [
    ("name", c_char_p),
    ("dtype", c_int),
    ("unused", c_int),
    ("offset", c_size_t),
    ("bytes", c_size_t),
]
mica_kv._fields_ = [
    ("k", mica_array),
    ("v", mica_array),
    ("mask", mica_array),
]
mica_kv_store._fields_ = [
    ("update", mica_kv_store_update_fn),
    ("user", c_void_p),
]
mica_forward_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("hidden", c_bool),
    ("position", mica_array),
    ("mask", mica_array),
    ("at", mica_array),
    ("store", POINTER(mica_kv_store)),
]
mica_custom_gradient._fields_ = [
    ("struct_bytes", c_size_t),
    ("fn", mica_compile_fn),
    ("vjp", mica_compile_fn),
    ("jvp", mica_compile_fn),
]
mica_group_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("backend", c_char_p),
    ("patience_s", c_double),
]
mica_pull_plan._fields_ = [
    ("struct_bytes", c_size_t),
    ("name", c_char_p),
    ("commit", c_char_p),
    ("files", c_uint64),
    ("bytes", c_uint64),
    ("download_files", c_uint64),
    ("download_bytes", c_uint64),
]
mica_pull_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("revision", c_char_p),
    ("include", POINTER(c_char_p)),
    ("include_count", c_size_t),
    ("cache", c_char_p),
    ("endpoint", c_char_p),
    ("token", c_char_p),
    ("offline", c_bool),
    ("connections", c_int),
    ("stall_seconds", c_int),
    ("confirm", mica_pull_confirm),
    ("confirm_user", c_void_p),
    ("progress", mica_progress),
    ("progress_user", c_void_p),
    ("cancel", c_void_p),
    ("notice", mica_pull_options_notice_fn),
    ("notice_user", c_void_p),
]
mica_metadata._fields_ = [
    ("key", c_char_p),
    ("value", c_char_p),
]
mica_conv_options._fields_ = [
    ("stride", c_int64 * 3),
    ("padding_lo", c_int64 * 3),
    ("padding_hi", c_int64 * 3),
    ("kernel_dilation", c_int64 * 3),
    ("input_dilation", c_int64 * 3),
    ("groups", c_int64),
    ("flip", c_bool),
]
mica_conv_transpose_options._fields_ = [
    ("stride", c_int64 * 3),
    ("padding", c_int64 * 3),
    ("output_padding", c_int64 * 3),
    ("dilation", c_int64 * 3),
    ("groups", c_int64),
]
mica_window_options._fields_ = [
    ("window", c_int64 * 8),
    ("stride", c_int64 * 8),
    ("dilation", c_int64 * 8),
    ("base_dilation", c_int64 * 8),
    ("padding_lo", c_int64 * 8),
    ("padding_hi", c_int64 * 8),
    ("exclude_padding", c_bool),
    ("ceil", c_bool),
]
mica_pool_options._fields_ = [
    ("kernel", c_int64 * 3),
    ("stride", c_int64 * 3),
    ("padding_lo", c_int64 * 3),
    ("padding_hi", c_int64 * 3),
    ("dilation", c_int64 * 3),
    ("exclude_padding", c_bool),
    ("ceil", c_bool),
]
mica_selective_scan_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("delta_softplus", c_bool),
    ("d", mica_array),
    ("z", mica_array),
    ("initial", mica_array),
]
mica_sample_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("temperature", mica_array),
    ("top_k", mica_array),
    ("top_p", mica_array),
    ("min_p", mica_array),
]
mica_qmatmul_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("x_zero_point", c_int32),
    ("w_zero_point", c_int32),
    ("zero_point", c_int64),
    ("multiplier", mica_array),
]
mica_fake_quantize_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("bits", c_int),
    ("mode", c_int),
    ("ste", c_int),
    ("decay", c_float),
    ("wide", c_bool),
    ("axis", POINTER(c_int)),
    ("scale", mica_array),
]
mica_weight._fields_ = [
    ("scheme", c_int),
    ("codes", mica_array),
    ("scale", mica_array),
    ("zero_point", mica_array),
    ("global", mica_array),
]
mica_linear_weights._fields_ = [
    ("weight", mica_array),
    ("scales", mica_array),
    ("biases", mica_array),
    ("bias", mica_array),
    ("quant", mica_quant),
]
mica_masked_attention_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("kind", c_int),
    ("scale", c_float),
    ("softcap", c_float),
    ("heads", c_int),
    ("kv_heads", c_int64),
    ("window", c_int64),
    ("mask", mica_array),
]
mica_attention_weights._fields_ = [
    ("qkv", mica_array),
    ("qkv_bias", mica_array),
    ("out", mica_array),
    ("out_bias", mica_array),
    ("cos", mica_array),
    ("sin", mica_array),
]
mica_layer_weights._fields_ = [
    ("attention", mica_attention_weights),
    ("norm1", mica_array),
    ("norm1_bias", mica_array),
    ("up", mica_array),
    ("up_bias", mica_array),
    ("down", mica_array),
    ("down_bias", mica_array),
    ("norm2", mica_array),
    ("norm2_bias", mica_array),
]
mica_onnx_dim._fields_ = [
    ("name", c_char_p),
    ("length", c_int64),
]
mica_onnx_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("dims", POINTER(mica_onnx_dim)),
    ("n_dims", c_size_t),
    ("inputs", POINTER(mica_named_array)),
    ("n_inputs", c_size_t),
    ("notes", POINTER(c_void_p)),
]
mica_server_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("host", c_char_p),
    ("port", c_int),
    ("insecure", c_bool),
    ("downloads", c_bool),
    ("vllm_metrics", c_bool),
    ("certificate", c_char_p),
    ("certificate_key", c_char_p),
    ("api_keys", POINTER(c_char_p)),
    ("api_key_count", c_size_t),
    ("origins", POINTER(c_char_p)),
    ("origin_count", c_size_t),
    ("hosts", POINTER(c_char_p)),
    ("host_count", c_size_t),
    ("max_body", c_uint64),
    ("max_connections", c_int),
    ("max_connections_per_host", c_int),
    ("request_seconds", c_int),
    ("comment_seconds", c_int),
    ("log", mica_server_log),
    ("log_user", c_void_p),
    ("kv_events", c_char_p),
    ("kv_events_replay", c_char_p),
    ("kv_events_topic", c_char_p),
    ("kv_events_seed", c_char_p),
]
mica_serving_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("rows", c_int),
    ("step_tokens", c_int64),
    ("queue", c_size_t),
    ("cache_bytes", c_uint64),
    ("max_seconds", c_double),
    ("draft_tokens", c_int),
    ("max_priority", c_int),
    ("prefix_cache", c_char_p),
    ("notice", mica_serving_options_notice_fn),
    ("notice_user", c_void_p),
    ("max_tokens", c_int64),
]
mica_loading_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("names", POINTER(c_char_p)),
    ("folders", POINTER(c_char_p)),
    ("count", c_size_t),
    ("places", POINTER(c_char_p)),
    ("place_count", c_size_t),
    ("adapter_names", POINTER(c_char_p)),
    ("adapter_folders", POINTER(c_char_p)),
    ("adapter_count", c_size_t),
    ("model", POINTER(mica_model_options)),
    ("serving", POINTER(mica_serving_options)),
    ("keep_alive_seconds", c_double),
    ("max_models", c_int),
    ("memory_bytes", c_uint64),
]
mica_ask_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("key", c_char_p),
    ("certificates", c_char_p),
    ("any_certificate", c_int),
    ("silent_seconds", c_int),
]
mica_task_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("progress", mica_progress),
    ("progress_user", c_void_p),
    ("cancel", c_void_p),
]
mica_classify_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("labels", POINTER(c_char_p)),
    ("label_count", c_size_t),
    ("as_chat", c_bool),
    ("logits", c_bool),
    ("temperature", c_float),
    ("top_k", c_int),
    ("seed", c_uint64),
    ("progress", mica_progress),
    ("progress_user", c_void_p),
    ("cancel", c_void_p),
]
mica_classify_row._fields_ = [
    ("status", c_int),
    ("error", c_char_p),
    ("token", c_int32),
    ("text", c_char_p),
    ("probability", c_double),
    ("labels", POINTER(c_double)),
    ("label", c_size_t),
    ("logits", POINTER(c_float)),
    ("prompt_tokens", c_int64),
]
mica_classify_results._fields_ = [
    ("rows", POINTER(mica_classify_row)),
    ("count", c_size_t),
    ("label_count", c_size_t),
    ("vocab", c_size_t),
    ("seconds", c_double),
]
mica_batch_item._fields_ = [
    ("prompt", c_char_p),
    ("messages", POINTER(mica_message)),
    ("message_count", c_size_t),
    ("options", POINTER(mica_generate_options)),
]
mica_batch_row._fields_ = [
    ("status", c_int),
    ("error", c_char_p),
    ("finish", c_int),
    ("ids", POINTER(c_int32)),
    ("logprobs", POINTER(c_float)),
    ("count", c_size_t),
    ("text", c_char_p),
    ("len", c_size_t),
    ("metrics", POINTER(mica_metrics)),
]
mica_batch_results._fields_ = [
    ("rows", POINTER(mica_batch_row)),
    ("count", c_size_t),
    ("prompt_tokens", c_int64),
    ("generated_tokens", c_int64),
    ("seconds", c_double),
]
mica_batch_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("parallel", c_int),
    ("token", mica_batch_options_token_fn),
    ("done", mica_batch_options_done_fn),
    ("user", c_void_p),
    ("cancel", c_void_p),
]
mica_embed_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("pooling", c_int),
    ("normalise", c_bool),
    ("progress", mica_progress),
    ("progress_user", c_void_p),
    ("cancel", c_void_p),
    ("prompt_name", c_char_p),
    ("dimensions", c_int64),
]
mica_embed_row._fields_ = [
    ("status", c_int),
    ("error", c_char_p),
    ("vector", POINTER(c_float)),
    ("tokens", c_int64),
]
mica_embed_results._fields_ = [
    ("rows", POINTER(mica_embed_row)),
    ("count", c_size_t),
    ("width", c_size_t),
    ("seconds", c_double),
]
mica_rerank_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("logits", c_bool),
    ("instruction", c_char_p),
    ("cancel", c_void_p),
]
mica_score_result._fields_ = [
    ("ids", POINTER(c_int32)),
    ("logprobs", POINTER(c_float)),
    ("count", c_size_t),
    ("total", c_double),
    ("perplexity", c_double),
    ("seconds", c_double),
]
mica_score_row._fields_ = [
    ("status", c_int),
    ("error", c_char_p),
    ("score", POINTER(mica_score_result)),
]
mica_score_results._fields_ = [
    ("rows", POINTER(mica_score_row)),
    ("count", c_size_t),
    ("seconds", c_double),
]
mica_comparison._fields_ = [
    ("count", c_uint64),
    ("same", c_uint64),
    ("divergence", c_double),
    ("max", c_double),
    ("reference_logprob", c_double),
    ("model_logprob", c_double),
]
mica_attention_layer._fields_ = [
    ("layer", c_int64),
    ("q", POINTER(c_float)),
    ("k", POINTER(c_float)),
]
mica_attention._fields_ = [
    ("ids", POINTER(c_int32)),
    ("tokens", c_int64),
    ("heads", c_int64),
    ("kv_heads", c_int64),
    ("head_dim", c_int64),
    ("layers", POINTER(mica_attention_layer)),
    ("count", c_size_t),
]
mica_loss_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("beta", c_double),
]
mica_optimizer_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("name", c_char_p),
    ("learning_rate", c_double),
    ("beta1", c_double),
    ("beta2", c_double),
    ("eps", c_double),
    ("weight_decay", c_double),
    ("bias_correction", c_bool),
    ("nesterov", c_bool),
    ("no_nesterov", c_bool),
    ("relative_step", c_bool),
    ("momentum", c_double),
]
mica_schedule._fields_ = [
    ("name", c_char_p),
    ("arguments", c_double * 4),
    ("n_arguments", c_size_t),
    ("warmup", c_int64),
    ("warmup_init", c_double),
]
mica_tuner_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("device", c_void_p),
    ("device_name", c_char_p),
    ("threads", c_int),
    ("no_mmap", c_bool),
    ("arithmetic", c_int),
    ("chat_template", c_char_p),
]
mica_lora_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("kind", c_int),
    ("modules", POINTER(c_char_p)),
    ("n_modules", c_size_t),
    ("layers", c_int64),
    ("rank", c_int64),
    ("scale", c_float),
    ("alpha", c_float),
    ("dropout", c_float),
    ("bf16", c_bool),
    ("seed", c_uint64),
    ("memory_limit_bytes", c_uint64),
]
mica_parameter._fields_ = [
    ("struct_bytes", c_size_t),
    ("name", c_char_p),
    ("value", mica_array),
]
mica_tune_example._fields_ = [
    ("struct_bytes", c_size_t),
    ("line", c_char_p),
    ("len", c_size_t),
    ("ids", POINTER(c_int32)),
    ("count", c_size_t),
    ("prompt", c_size_t),
]
mica_tune_report._fields_ = [
    ("struct_bytes", c_size_t),
    ("event", c_int),
    ("iteration", c_int64),
    ("iterations", c_int64),
    ("loss", c_double),
    ("rate", c_double),
    ("norm", c_double),
    ("tokens_per_second", c_double),
    ("iterations_per_second", c_double),
    ("trained_tokens", c_uint64),
    ("memory_bytes", c_uint64),
    ("seconds_left", c_double),
    ("text", c_char_p),
]
mica_tune_options._fields_ = [
    ("struct_bytes", c_size_t),
    ("data", c_char_p),
    ("adapter", c_char_p),
    ("format", c_int),
    ("loss", c_char_p),
    ("loss_options", mica_loss_options),
    ("optimizer", POINTER(mica_optimizer_options)),
    ("schedule", POINTER(mica_schedule)),
    ("batch_size", c_int64),
    ("iterations", c_int64),
    ("accumulate", c_int64),
    ("max_seq_length", c_int64),
    ("valid_batches", c_int64),
    ("test_batches", c_int64),
    ("report_every", c_int64),
    ("valid_every", c_int64),
    ("save_every", c_int64),
    ("valid_share", c_double),
    ("clip_norm", c_double),
    ("seed", c_uint64),
    ("too_long", c_int),
    ("mask_prompt", c_bool),
    ("pack", c_bool),
    ("checkpoint", c_bool),
    ("skip_bad", c_bool),
    ("resume", c_bool),
    ("test", c_bool),
    ("no_train", c_bool),
    ("memory_limit_bytes", c_uint64),
    ("log", c_char_p),
    ("tensorboard", c_char_p),
    ("watch", mica_tune_watch),
    ("watch_user", c_void_p),
    ("cancel", c_void_p),
    ("average", c_int),
    ("keep_existing", c_bool),
    ("prompt_key", c_char_p),
    ("completion_key", c_char_p),
    ("messages_key", c_char_p),
    ("text_key", c_char_p),
    ("source", mica_tune_source),
    ("source_user", c_void_p),
    ("loss_fn", mica_compile_fn),
    ("loss_user", c_void_p),
    ("group", c_void_p),
]
mica_tune_result._fields_ = [
    ("struct_bytes", c_size_t),
    ("iteration", c_int64),
    ("train_loss", c_double),
    ("valid_loss", c_double),
    ("test_loss", c_double),
    ("trained_tokens", c_uint64),
    ("peak_bytes", c_uint64),
    ("seconds", c_double),
]

# ---- functions: what they return, and their parameters ----

FUNCTIONS: Dict[str, Tuple[Any, ...]] = {
    "mica_status_name": (c_char_p, c_int),
    "mica_last_error": (c_char_p,),
    "mica_error_text": (c_size_t, c_void_p, c_size_t),
    "mica_free": (None, c_void_p),
    "mica_device_open": (c_int, c_char_p, POINTER(mica_device_options), POINTER(c_void_p)),
    "mica_device_close": (None, POINTER(c_void_p)),
    "mica_device_available": (c_int, c_char_p),
    "mica_device_count": (c_size_t,),
    "mica_device_name": (c_char_p, c_size_t),
    "mica_device_get_info": (None, c_void_p, POINTER(mica_device_info)),
    "mica_op_count": (c_size_t,),
    "mica_op_name": (c_char_p, c_size_t),
    "mica_device_op_support": (c_int, c_void_p, c_size_t),
    "mica_device_fallback_ops": (c_uint64, c_void_p),
    "mica_device_active_bytes": (c_uint64, c_void_p),
    "mica_device_peak_bytes": (c_uint64, c_void_p),
    "mica_device_cached_bytes": (c_uint64, c_void_p),
    "mica_device_reset_peak": (None, c_void_p),
    "mica_device_clear_cache": (None, c_void_p),
    "mica_device_set_cache_limit": (c_uint64, c_void_p, c_uint64),
    "mica_device_set_memory_limit": (c_uint64, c_void_p, c_uint64),
    "mica_device_set_wired_limit": (c_uint64, c_void_p, c_uint64),
    "mica_tokenizer_open": (c_int, c_char_p, POINTER(c_void_p)),
    "mica_tokenizer_close": (None, POINTER(c_void_p)),
    "mica_tokenizer_encode": (c_int, c_void_p, c_char_p, c_size_t, c_bool,
                              POINTER(POINTER(c_int32)), POINTER(c_size_t)),
    "mica_tokenizer_encode_pair": (c_int, c_void_p, c_char_p, c_size_t, c_char_p, c_size_t,
                                   POINTER(POINTER(c_int32)), POINTER(POINTER(c_int32)),
                                   POINTER(c_size_t)),
    "mica_tokenizer_decode": (c_int, c_void_p, POINTER(c_int32), c_size_t, c_bool,
                              POINTER(c_void_p), POINTER(c_size_t)),
    "mica_tokenizer_vocab_size": (c_size_t, c_void_p),
    "mica_tokenizer_token": (c_char_p, c_void_p, c_int32, POINTER(c_size_t)),
    "mica_tokenizer_find": (c_int32, c_void_p, c_char_p, c_size_t),
    "mica_tokenizer_is_special": (c_bool, c_void_p, c_int32),
    "mica_tokenizer_bos": (c_int32, c_void_p),
    "mica_tokenizer_eos": (c_int32, c_void_p),
    "mica_tokenizer_pad": (c_int32, c_void_p),
    "mica_tokenizer_unk": (c_int32, c_void_p),
    "mica_decoder_stream_open": (c_int, c_void_p, c_bool, POINTER(c_void_p)),
    "mica_decoder_stream_push": (c_int, c_void_p, c_int32, POINTER(c_char_p), POINTER(c_size_t)),
    "mica_decoder_stream_flush": (c_int, c_void_p, POINTER(c_char_p), POINTER(c_size_t)),
    "mica_decoder_stream_close": (None, POINTER(c_void_p)),
    "mica_cancel_open": (c_int, POINTER(c_void_p)),
    "mica_cancel_set": (None, c_void_p),
    "mica_cancel_close": (None, POINTER(c_void_p)),
    "mica_model_open": (c_int, c_char_p, POINTER(mica_model_options), POINTER(c_void_p)),
    "mica_model_close": (None, POINTER(c_void_p)),
    "mica_model_get_info": (None, c_void_p, POINTER(mica_model_info)),
    "mica_model_get_kernels": (c_bool, c_void_p, c_size_t, POINTER(mica_model_kernels)),
    "mica_model_cache_bytes": (c_uint64, c_void_p, c_int64),
    "mica_model_tokenizer": (c_void_p, c_void_p),
    "mica_model_device": (c_void_p, c_void_p),
    "mica_session_open": (c_int, c_void_p, POINTER(mica_session_options), POINTER(c_void_p)),
    "mica_session_close": (None, POINTER(c_void_p)),
    "mica_session_reset": (None, c_void_p),
    "mica_session_fork": (c_int, c_void_p, POINTER(c_void_p)),
    "mica_session_save": (c_int, c_void_p, c_char_p),
    "mica_session_load": (c_int, c_void_p, c_char_p, POINTER(mica_session_options),
                          POINTER(c_void_p)),
    "mica_generate": (c_int, c_void_p, c_char_p, c_size_t, POINTER(mica_generate_options),
                      POINTER(c_void_p)),
    "mica_chat": (c_int, c_void_p, POINTER(mica_message), c_size_t, POINTER(mica_generate_options),
                  POINTER(c_void_p)),
    "mica_generate_ids": (c_int, c_void_p, POINTER(c_int32), c_size_t,
                          POINTER(mica_generate_options), POINTER(c_void_p)),
    "mica_model_render": (c_int, c_void_p, POINTER(mica_message), c_size_t,
                          POINTER(mica_generate_options), POINTER(c_void_p), POINTER(c_size_t),
                          POINTER(POINTER(c_int32)), POINTER(c_size_t)),
    "mica_stream_next": (c_bool, c_void_p, POINTER(mica_token)),
    "mica_finish_name": (c_char_p, c_int),
    "mica_stream_finish": (c_int, c_void_p),
    "mica_stream_status": (c_int, c_void_p),
    "mica_stream_cancel": (None, c_void_p),
    "mica_stream_metrics": (None, c_void_p, POINTER(mica_metrics)),
    "mica_stream_close": (None, POINTER(c_void_p)),
    "mica_answer_open": (c_int, c_void_p, POINTER(mica_answer_options), POINTER(c_void_p)),
    "mica_answer_close": (None, POINTER(c_void_p)),
    "mica_answer_push_token": (c_int, c_void_p, POINTER(mica_token)),
    "mica_answer_push": (c_int, c_void_p, c_char_p, c_size_t),
    "mica_answer_end": (c_int, c_void_p),
    "mica_answer_text": (c_char_p, c_void_p, POINTER(c_size_t)),
    "mica_answer_thoughts": (c_char_p, c_void_p, POINTER(c_size_t)),
    "mica_answer_call_count": (c_size_t, c_void_p),
    "mica_answer_get_call": (c_int, c_void_p, c_size_t, POINTER(mica_tool_call)),
    "mica_answer_get_message": (c_int, c_void_p, POINTER(mica_message)),
    "mica_dtype_name": (c_char_p, c_int),
    "mica_dtype_bytes": (c_size_t, c_int),
    "mica_dtype_is_float": (c_bool, c_int),
    "mica_dtype_is_signed": (c_bool, c_int),
    "mica_dtype_promote": (c_int, c_int, c_int),
    "mica_scope_open": (c_int, c_void_p, POINTER(c_void_p)),
    "mica_scope_close": (None, POINTER(c_void_p)),
    "mica_scope_status": (c_int, c_void_p),
    "mica_scope_device": (c_void_p, c_void_p),
    "mica_scope_clear_error": (None, c_void_p),
    "mica_scope_collect": (c_int, c_void_p, POINTER(mica_array), c_size_t),
    "mica_scope_set_cancel": (None, c_void_p, c_void_p),
    "mica_eval": (c_int, c_void_p, mica_array),
    "mica_eval_n": (c_int, c_void_p, POINTER(mica_array), c_size_t),
    "mica_eval_async": (c_int, c_void_p, POINTER(mica_array), c_size_t),
    "mica_wait": (c_int, c_void_p),
    "mica_materialize": (mica_array, c_void_p, mica_array),
    "mica_move": (mica_array, c_void_p, mica_array),
    "mica_array_release": (c_size_t, mica_array),
    "mica_detach": (mica_array, c_void_p, mica_array),
    "mica_to_device": (mica_array, c_void_p, mica_array),
    "mica_from_data": (mica_array, c_void_p, c_void_p, c_int, POINTER(c_int64), c_int),
    "mica_from_host": (mica_array, c_void_p, c_void_p, c_int, POINTER(c_int64), c_int,
                       mica_release, c_void_p),
    "mica_f32": (mica_array, c_void_p, c_float),
    "mica_i32": (mica_array, c_void_p, c_int32),
    "mica_scalar": (mica_array, c_void_p, c_double, c_int),
    "mica_valid": (c_bool, mica_array),
    "mica_array_dtype": (c_int, mica_array),
    "mica_array_ndim": (c_int, mica_array),
    "mica_array_dim": (c_int64, mica_array, c_int),
    "mica_array_shape": (POINTER(c_int64), mica_array),
    "mica_array_size": (c_int64, mica_array),
    "mica_array_bytes": (c_size_t, mica_array),
    "mica_array_is_contiguous": (c_bool, mica_array),
    "mica_read": (c_int, mica_array, c_void_p, c_size_t),
    "mica_array_host": (c_int, mica_array, POINTER(c_void_p)),
    "mica_item_f64": (c_int, mica_array, POINTER(c_double)),
    "mica_item_i64": (c_int, mica_array, POINTER(c_int64)),
    "mica_array_text": (c_int, mica_array, POINTER(mica_text_options), c_void_p, c_size_t,
                        POINTER(c_size_t)),
    "mica_next": (c_bool, mica_array, POINTER(mica_iter)),
    "mica_if": (c_int, c_void_p, mica_array, mica_compile_fn, mica_compile_fn, c_void_p,
                POINTER(mica_array), c_size_t, POINTER(mica_array), c_size_t),
    "mica_if_each": (c_int, c_void_p, mica_array, mica_compile_fn, mica_compile_fn, c_void_p,
                     POINTER(mica_array), c_size_t, POINTER(mica_array), c_size_t),
    "mica_while": (c_int, c_void_p, mica_compile_fn, mica_compile_fn, c_void_p,
                   POINTER(mica_array), c_size_t, POINTER(mica_while_options), POINTER(mica_array),
                   POINTER(mica_array)),
    "mica_scan": (c_int, c_void_p, mica_compile_fn, c_void_p, POINTER(mica_array), c_size_t,
                  POINTER(mica_array), c_size_t, POINTER(mica_scan_options), POINTER(mica_array),
                  POINTER(mica_array), c_size_t),
    "mica_zeros": (mica_array, c_void_p, POINTER(c_int64), c_int, c_int),
    "mica_ones": (mica_array, c_void_p, POINTER(c_int64), c_int, c_int),
    "mica_full": (mica_array, c_void_p, POINTER(c_int64), c_int, mica_array),
    "mica_arange": (mica_array, c_void_p, c_double, c_double, c_double, c_int),
    "mica_linspace": (mica_array, c_void_p, c_double, c_double, c_int64),
    "mica_eye": (mica_array, c_void_p, c_int64, c_int64, c_int64, c_int),
    "mica_abs": (mica_array, c_void_p, mica_array),
    "mica_negative": (mica_array, c_void_p, mica_array),
    "mica_square": (mica_array, c_void_p, mica_array),
    "mica_sign": (mica_array, c_void_p, mica_array),
    "mica_floor": (mica_array, c_void_p, mica_array),
    "mica_ceil": (mica_array, c_void_p, mica_array),
    "mica_round": (mica_array, c_void_p, mica_array),
    "mica_exp": (mica_array, c_void_p, mica_array),
    "mica_expm1": (mica_array, c_void_p, mica_array),
    "mica_log": (mica_array, c_void_p, mica_array),
    "mica_log2": (mica_array, c_void_p, mica_array),
    "mica_log10": (mica_array, c_void_p, mica_array),
    "mica_log1p": (mica_array, c_void_p, mica_array),
    "mica_sqrt": (mica_array, c_void_p, mica_array),
    "mica_rsqrt": (mica_array, c_void_p, mica_array),
    "mica_reciprocal": (mica_array, c_void_p, mica_array),
    "mica_sin": (mica_array, c_void_p, mica_array),
    "mica_cos": (mica_array, c_void_p, mica_array),
    "mica_tan": (mica_array, c_void_p, mica_array),
    "mica_sinh": (mica_array, c_void_p, mica_array),
    "mica_cosh": (mica_array, c_void_p, mica_array),
    "mica_tanh": (mica_array, c_void_p, mica_array),
    "mica_arcsin": (mica_array, c_void_p, mica_array),
    "mica_arccos": (mica_array, c_void_p, mica_array),
    "mica_arctan": (mica_array, c_void_p, mica_array),
    "mica_arcsinh": (mica_array, c_void_p, mica_array),
    "mica_arccosh": (mica_array, c_void_p, mica_array),
    "mica_arctanh": (mica_array, c_void_p, mica_array),
    "mica_erf": (mica_array, c_void_p, mica_array),
    "mica_erfinv": (mica_array, c_void_p, mica_array),
    "mica_sigmoid": (mica_array, c_void_p, mica_array),
    "mica_isnan": (mica_array, c_void_p, mica_array),
    "mica_isinf": (mica_array, c_void_p, mica_array),
    "mica_isfinite": (mica_array, c_void_p, mica_array),
    "mica_logical_not": (mica_array, c_void_p, mica_array),
    "mica_bitwise_invert": (mica_array, c_void_p, mica_array),
    "mica_degrees": (mica_array, c_void_p, mica_array),
    "mica_radians": (mica_array, c_void_p, mica_array),
    "mica_silu": (mica_array, c_void_p, mica_array),
    "mica_gelu": (mica_array, c_void_p, mica_array),
    "mica_gelu_approx": (mica_array, c_void_p, mica_array),
    "mica_relu": (mica_array, c_void_p, mica_array),
    "mica_astype": (mica_array, c_void_p, mica_array, c_int),
    "mica_view": (mica_array, c_void_p, mica_array, c_int),
    "mica_to_fp8": (mica_array, c_void_p, mica_array),
    "mica_from_fp8": (mica_array, c_void_p, mica_array, c_int),
    "mica_to_q8": (mica_array, c_void_p, mica_array),
    "mica_from_q8": (mica_array, c_void_p, mica_array, c_int64, c_int),
    "mica_q8_bytes": (c_int64, c_int64),
    "mica_add": (mica_array, c_void_p, mica_array, mica_array),
    "mica_subtract": (mica_array, c_void_p, mica_array, mica_array),
    "mica_multiply": (mica_array, c_void_p, mica_array, mica_array),
    "mica_divide": (mica_array, c_void_p, mica_array, mica_array),
    "mica_floor_divide": (mica_array, c_void_p, mica_array, mica_array),
    "mica_remainder": (mica_array, c_void_p, mica_array, mica_array),
    "mica_power": (mica_array, c_void_p, mica_array, mica_array),
    "mica_maximum": (mica_array, c_void_p, mica_array, mica_array),
    "mica_minimum": (mica_array, c_void_p, mica_array, mica_array),
    "mica_logaddexp": (mica_array, c_void_p, mica_array, mica_array),
    "mica_arctan2": (mica_array, c_void_p, mica_array, mica_array),
    "mica_equal": (mica_array, c_void_p, mica_array, mica_array),
    "mica_not_equal": (mica_array, c_void_p, mica_array, mica_array),
    "mica_less": (mica_array, c_void_p, mica_array, mica_array),
    "mica_less_equal": (mica_array, c_void_p, mica_array, mica_array),
    "mica_greater": (mica_array, c_void_p, mica_array, mica_array),
    "mica_greater_equal": (mica_array, c_void_p, mica_array, mica_array),
    "mica_logical_and": (mica_array, c_void_p, mica_array, mica_array),
    "mica_logical_or": (mica_array, c_void_p, mica_array, mica_array),
    "mica_bitwise_and": (mica_array, c_void_p, mica_array, mica_array),
    "mica_bitwise_or": (mica_array, c_void_p, mica_array, mica_array),
    "mica_bitwise_xor": (mica_array, c_void_p, mica_array, mica_array),
    "mica_left_shift": (mica_array, c_void_p, mica_array, mica_array),
    "mica_right_shift": (mica_array, c_void_p, mica_array, mica_array),
    "mica_where": (mica_array, c_void_p, mica_array, mica_array, mica_array),
    "mica_clip": (mica_array, c_void_p, mica_array, mica_array, mica_array),
    "mica_sum": (mica_array, c_void_p, mica_array, POINTER(c_int), c_int, c_bool),
    "mica_prod": (mica_array, c_void_p, mica_array, POINTER(c_int), c_int, c_bool),
    "mica_max": (mica_array, c_void_p, mica_array, POINTER(c_int), c_int, c_bool),
    "mica_min": (mica_array, c_void_p, mica_array, POINTER(c_int), c_int, c_bool),
    "mica_all": (mica_array, c_void_p, mica_array, POINTER(c_int), c_int, c_bool),
    "mica_any": (mica_array, c_void_p, mica_array, POINTER(c_int), c_int, c_bool),
    "mica_mean": (mica_array, c_void_p, mica_array, POINTER(c_int), c_int, c_bool),
    "mica_var": (mica_array, c_void_p, mica_array, POINTER(c_int), c_int, c_bool, c_int),
    "mica_std": (mica_array, c_void_p, mica_array, POINTER(c_int), c_int, c_bool, c_int),
    "mica_logsumexp": (mica_array, c_void_p, mica_array, POINTER(c_int), c_int, c_bool),
    "mica_argmax": (mica_array, c_void_p, mica_array, c_int, c_bool),
    "mica_argmin": (mica_array, c_void_p, mica_array, c_int, c_bool),
    "mica_cumsum": (mica_array, c_void_p, mica_array, c_int, c_bool, c_bool),
    "mica_cumprod": (mica_array, c_void_p, mica_array, c_int, c_bool, c_bool),
    "mica_cummax": (mica_array, c_void_p, mica_array, c_int, c_bool, c_bool),
    "mica_cummin": (mica_array, c_void_p, mica_array, c_int, c_bool, c_bool),
    "mica_logcumsumexp": (mica_array, c_void_p, mica_array, c_int, c_bool, c_bool),
    "mica_sort": (mica_array, c_void_p, mica_array, c_int),
    "mica_argsort": (mica_array, c_void_p, mica_array, c_int),
    "mica_partition": (mica_array, c_void_p, mica_array, c_int64, c_int),
    "mica_argpartition": (mica_array, c_void_p, mica_array, c_int64, c_int),
    "mica_topk": (mica_array, c_void_p, mica_array, c_int64, c_int),
    "mica_topk_indices": (mica_array, c_void_p, mica_array, c_int64, c_int, POINTER(mica_array)),
    "mica_softmax": (mica_array, c_void_p, mica_array, c_int),
    "mica_softmax_axes": (mica_array, c_void_p, mica_array, POINTER(c_int), c_int),
    "mica_median": (mica_array, c_void_p, mica_array, POINTER(c_int), c_int, c_bool),
    "mica_searchsorted": (mica_array, c_void_p, mica_array, mica_array, c_bool),
    "mica_reshape": (mica_array, c_void_p, mica_array, POINTER(c_int64), c_int),
    "mica_flatten": (mica_array, c_void_p, mica_array, c_int, c_int),
    "mica_unflatten": (mica_array, c_void_p, mica_array, c_int, POINTER(c_int64), c_int),
    "mica_squeeze": (mica_array, c_void_p, mica_array, c_int),
    "mica_expand_dims": (mica_array, c_void_p, mica_array, c_int),
    "mica_transpose": (mica_array, c_void_p, mica_array, POINTER(c_int)),
    "mica_swapaxes": (mica_array, c_void_p, mica_array, c_int, c_int),
    "mica_moveaxis": (mica_array, c_void_p, mica_array, c_int, c_int),
    "mica_broadcast_to": (mica_array, c_void_p, mica_array, POINTER(c_int64), c_int),
    "mica_slice": (mica_array, c_void_p, mica_array, POINTER(c_int64), POINTER(c_int64),
                   POINTER(c_int64)),
    "mica_slice_axis": (mica_array, c_void_p, mica_array, c_int, c_int64, c_int64),
    "mica_narrow": (mica_array, c_void_p, mica_array, c_int, c_int64, c_int64),
    "mica_slice_update": (mica_array, c_void_p, mica_array, mica_array, POINTER(c_int64),
                          POINTER(c_int64), POINTER(c_int64)),
    "mica_slice_update_at": (mica_array, c_void_p, mica_array, mica_array, mica_array, c_int),
    "mica_contiguous": (mica_array, c_void_p, mica_array),
    "mica_as_strided": (mica_array, c_void_p, mica_array, POINTER(c_int64), POINTER(c_int64),
                        c_int, c_int64),
    "mica_concatenate": (mica_array, c_void_p, POINTER(mica_array), c_int, c_int),
    "mica_stack": (mica_array, c_void_p, POINTER(mica_array), c_int, c_int),
    "mica_split": (c_int, c_void_p, mica_array, POINTER(c_int64), c_int, c_int,
                   POINTER(mica_array)),
    "mica_pad": (mica_array, c_void_p, mica_array, POINTER(c_int64), POINTER(c_int64), mica_array),
    "mica_pad_edge": (mica_array, c_void_p, mica_array, POINTER(c_int64), POINTER(c_int64)),
    "mica_repeat": (mica_array, c_void_p, mica_array, c_int64, c_int),
    "mica_tile": (mica_array, c_void_p, mica_array, POINTER(c_int64), c_int),
    "mica_roll": (mica_array, c_void_p, mica_array, c_int64, c_int),
    "mica_flip": (mica_array, c_void_p, mica_array, c_int),
    "mica_tril": (mica_array, c_void_p, mica_array, c_int64),
    "mica_triu": (mica_array, c_void_p, mica_array, c_int64),
    "mica_diag": (mica_array, c_void_p, mica_array, c_int64),
    "mica_diagonal": (mica_array, c_void_p, mica_array, c_int64, c_int, c_int),
    "mica_take": (mica_array, c_void_p, mica_array, mica_array, c_int),
    "mica_take_along_axis": (mica_array, c_void_p, mica_array, mica_array, c_int),
    "mica_put_along_axis": (mica_array, c_void_p, mica_array, mica_array, mica_array, c_int),
    "mica_gather": (mica_array, c_void_p, mica_array, POINTER(mica_array), c_int, POINTER(c_int),
                    POINTER(c_int64)),
    "mica_scatter": (mica_array, c_void_p, mica_array, POINTER(mica_array), c_int, POINTER(c_int),
                     mica_array, c_int),
    "mica_gather_nd": (mica_array, c_void_p, mica_array, mica_array, c_int),
    "mica_scatter_nd": (mica_array, c_void_p, mica_array, mica_array, mica_array, c_int),
    "mica_matmul": (mica_array, c_void_p, mica_array, mica_array),
    "mica_addmm": (mica_array, c_void_p, mica_array, mica_array, mica_array, c_float, c_float),
    "mica_outer": (mica_array, c_void_p, mica_array, mica_array),
    "mica_inner": (mica_array, c_void_p, mica_array, mica_array),
    "mica_tensordot": (mica_array, c_void_p, mica_array, mica_array, c_int),
    "mica_dot_general": (mica_array, c_void_p, mica_array, mica_array, POINTER(mica_dot_axes)),
    "mica_einsum": (mica_array, c_void_p, c_char_p, POINTER(mica_array), c_int),
    "mica_kron": (mica_array, c_void_p, mica_array, mica_array),
    "mica_solve": (mica_array, c_void_p, mica_array, mica_array),
    "mica_quantize": (c_int, c_void_p, mica_array, mica_quant, POINTER(mica_array),
                      POINTER(mica_array), POINTER(mica_array)),
    "mica_dequantize": (mica_array, c_void_p, mica_array, mica_array, mica_array, mica_quant,
                        c_int),
    "mica_quantized_matmul": (mica_array, c_void_p, mica_array, mica_array, mica_array, mica_array,
                              mica_quant, c_bool),
    "mica_gather_mm": (mica_array, c_void_p, mica_array, mica_array, mica_array, mica_array),
    "mica_gather_qmm": (mica_array, c_void_p, mica_array, mica_array, mica_array, mica_array,
                        mica_quant, c_bool, mica_array, mica_array),
    "mica_rms_norm": (mica_array, c_void_p, mica_array, mica_array, c_float),
    "mica_layer_norm": (mica_array, c_void_p, mica_array, mica_array, mica_array, c_float),
    "mica_rope": (mica_array, c_void_p, mica_array, mica_array, mica_array,
                  POINTER(mica_rope_options)),
    "mica_sdpa": (mica_array, c_void_p, mica_array, mica_array, mica_array,
                  POINTER(mica_sdpa_options)),
    "mica_kv_write": (mica_array, c_void_p, mica_array, mica_array, mica_array),
    "mica_paged_sdpa": (mica_array, c_void_p, mica_array, mica_array, mica_array, mica_array,
                        POINTER(mica_sdpa_options)),
    "mica_sdpa_lse": (mica_array, c_void_p, mica_array, mica_array, mica_array,
                      POINTER(mica_sdpa_options), POINTER(mica_array)),
    "mica_cross_entropy": (mica_array, c_void_p, mica_array, mica_array),
    "mica_random_key": (mica_array, c_void_p, c_uint64),
    "mica_random_split": (mica_array, c_void_p, mica_array, c_int64),
    "mica_random_seed": (mica_random_state, c_uint64),
    "mica_random_next": (mica_array, c_void_p, POINTER(mica_random_state)),
    "mica_random_bits": (mica_array, c_void_p, mica_array, POINTER(c_int64), c_int, c_int),
    "mica_random_uniform": (mica_array, c_void_p, mica_array, POINTER(c_int64), c_int, c_int,
                            c_double, c_double),
    "mica_random_normal": (mica_array, c_void_p, mica_array, POINTER(c_int64), c_int, c_int,
                           c_double, c_double),
    "mica_random_truncated_normal": (mica_array, c_void_p, mica_array, POINTER(c_int64), c_int,
                                     c_double, c_double),
    "mica_random_randint": (mica_array, c_void_p, mica_array, POINTER(c_int64), c_int, c_int64,
                            c_int64),
    "mica_random_bernoulli": (mica_array, c_void_p, mica_array, POINTER(c_int64), c_int, c_double),
    "mica_random_gumbel": (mica_array, c_void_p, mica_array, POINTER(c_int64), c_int, c_int),
    "mica_random_laplace": (mica_array, c_void_p, mica_array, POINTER(c_int64), c_int, c_int),
    "mica_random_permutation": (mica_array, c_void_p, mica_array, c_int64),
    "mica_random_categorical": (mica_array, c_void_p, mica_array, mica_array, c_int64),
    "mica_recipe_count": (c_size_t,),
    "mica_recipe_name": (c_char_p, c_size_t),
    "mica_convert": (c_int, c_char_p, c_char_p, POINTER(mica_convert_options),
                     POINTER(mica_convert_result)),
    "mica_gguf_folder": (c_int, c_char_p, POINTER(mica_gguf_options), POINTER(c_void_p)),
    "mica_program_param": (mica_array, c_void_p, c_int, POINTER(c_int64), c_int),
    "mica_program_dim": (c_int64, c_void_p, c_char_p),
    "mica_dim_add": (c_int64, c_int64, c_int64),
    "mica_dim_subtract": (c_int64, c_int64, c_int64),
    "mica_dim_multiply": (c_int64, c_int64, c_int64),
    "mica_dim_divide": (c_int64, c_int64, c_int64),
    "mica_program_build": (c_int, c_void_p, POINTER(mica_param), c_size_t, POINTER(mica_array),
                           c_size_t, POINTER(mica_program_options), POINTER(c_void_p)),
    "mica_program_close": (None, POINTER(c_void_p)),
    "mica_program_run": (c_int, c_void_p, c_void_p, POINTER(mica_array), POINTER(mica_array)),
    "mica_program_param_count": (c_size_t, c_void_p),
    "mica_program_result_count": (c_size_t, c_void_p),
    "mica_program_get_param": (c_int, c_void_p, c_size_t, POINTER(mica_port)),
    "mica_program_get_result": (c_int, c_void_p, c_size_t, POINTER(mica_port)),
    "mica_program_symbol_count": (c_size_t, c_void_p),
    "mica_program_symbol": (c_char_p, c_void_p, c_size_t),
    "mica_program_bind": (c_int, c_void_p, POINTER(mica_length), c_size_t, POINTER(c_void_p)),
    "mica_program_get_memory": (c_int, c_void_p, POINTER(mica_program_memory)),
    "mica_program_print": (c_int, c_void_p, POINTER(c_void_p)),
    "mica_program_diff": (c_int, c_void_p, c_void_p, POINTER(c_void_p)),
    "mica_program_verify": (c_int, c_void_p),
    "mica_program_save": (c_int, c_void_p, c_char_p, POINTER(mica_program_file_options)),
    "mica_program_load": (c_int, c_void_p, c_char_p, POINTER(mica_program_file_options),
                          POINTER(c_void_p)),
    "mica_program_encode": (c_int, c_void_p, POINTER(mica_program_file_options), POINTER(c_void_p),
                            POINTER(c_size_t)),
    "mica_program_decode": (c_int, c_void_p, c_void_p, c_size_t,
                            POINTER(mica_program_file_options), POINTER(c_void_p)),
    "mica_compile": (c_int, c_void_p, mica_compile_fn, c_void_p, POINTER(mica_compile_options),
                     POINTER(c_void_p)),
    "mica_function_call": (c_int, c_void_p, c_void_p, POINTER(mica_array), c_size_t,
                           POINTER(mica_array), c_size_t),
    "mica_function_traces": (c_uint64, c_void_p),
    "mica_function_close": (None, POINTER(c_void_p)),
    "mica_rate_count": (c_size_t,),
    "mica_rate_name": (c_char_p, c_size_t),
    "mica_rate_unit": (c_char_p, c_size_t),
    "mica_device_calibrate": (c_int, c_void_p, c_bool),
    "mica_device_rates_doubtful": (c_bool, c_void_p),
    "mica_device_rate": (c_double, c_void_p, c_size_t),
    "mica_program_get_cost": (c_int, c_void_p, c_void_p, POINTER(mica_cost)),
    "mica_program_to_device": (c_int, c_void_p, c_void_p, POINTER(c_void_p)),
    "mica_pick_device": (c_int, c_void_p, POINTER(mica_candidate), c_size_t,
                         POINTER(mica_pick_options), POINTER(c_size_t)),
    "mica_custom_register": (c_int, POINTER(mica_custom_op)),
    "mica_custom": (mica_array, c_void_p, c_char_p, POINTER(c_int64), c_int, POINTER(mica_array),
                    c_int),
    "mica_discover": (c_int, c_char_p, POINTER(POINTER(mica_model_list))),
    "mica_model_list_free": (None, POINTER(POINTER(mica_model_list))),
    "mica_array_to_dlpack": (c_int, mica_array, c_bool, c_bool, POINTER(c_void_p)),
    "mica_from_dlpack": (mica_array, c_void_p, c_void_p, c_bool),
    "mica_engine_fail": (c_int, c_int, c_char_p),
    "mica_engine_register": (c_int, POINTER(mica_engine)),
    "mica_engine_unregister": (c_int, c_char_p),
    "mica_engine_list": (c_bool, c_size_t, POINTER(mica_engine_info)),
    "mica_engine_get": (c_int, c_char_p, POINTER(mica_engine_info)),
    "mica_engine_default": (c_int, c_char_p, POINTER(mica_engine_info)),
    "mica_executable_open": (c_int, c_void_p, POINTER(mica_executable_options), POINTER(c_void_p)),
    "mica_executable_close": (None, POINTER(c_void_p)),
    "mica_executable_clone": (c_int, c_void_p, POINTER(c_void_p)),
    "mica_executable_precompile": (c_int, c_void_p, POINTER(mica_length), c_size_t),
    "mica_executable_set_extent": (c_int, c_void_p, c_char_p, c_int64),
    "mica_executable_set": (c_int, c_void_p, POINTER(mica_input)),
    "mica_executable_set_range": (c_int, c_void_p, c_char_p, c_size_t, c_void_p, c_size_t),
    "mica_executable_fill": (c_int, c_void_p, c_char_p, c_double),
    "mica_executable_unset": (c_int, c_void_p, c_char_p),
    "mica_executable_get": (c_int, c_void_p, c_char_p, c_void_p, POINTER(mica_array)),
    "mica_executable_feed": (c_int, c_void_p, c_char_p, c_char_p),
    "mica_executable_check": (c_int, c_void_p, POINTER(mica_input), c_size_t, POINTER(c_void_p)),
    "mica_executable_run": (c_int, c_void_p, POINTER(mica_input), c_size_t, c_void_p,
                            POINTER(mica_array)),
    "mica_executable_run_async": (c_int, c_void_p, POINTER(mica_input), c_size_t,
                                  POINTER(c_void_p)),
    "mica_ticket_wait": (c_int, POINTER(c_void_p), c_void_p, POINTER(mica_array)),
    "mica_ticket_ready": (c_bool, c_void_p),
    "mica_ticket_cancel": (None, c_void_p),
    "mica_executable_run_many": (c_int, c_void_p, POINTER(mica_input), c_size_t, c_size_t,
                                 c_void_p, POINTER(mica_array)),
    "mica_executable_slots": (c_int, c_void_p, POINTER(POINTER(mica_slot)), POINTER(c_size_t)),
    "mica_executable_arena": (c_void_p, c_void_p),
    "mica_executable_run_slots": (c_int, c_void_p, POINTER(c_void_p), c_size_t),
    "mica_executable_runs": (c_uint64, c_void_p),
    "mica_executable_compiles": (c_uint64, c_void_p),
    "mica_executable_report": (c_int, c_void_p, POINTER(c_void_p)),
    "mica_file_save": (c_int, c_char_p, c_void_p, c_size_t),
    "mica_model_forward": (mica_array, c_void_p, c_void_p, mica_array,
                           POINTER(mica_forward_options)),
    "mica_model_embed": (mica_array, c_void_p, c_void_p, mica_array),
    "mica_model_head": (mica_array, c_void_p, c_void_p, mica_array),
    "mica_session_feed": (c_int, c_void_p, c_void_p, POINTER(c_int32), c_size_t,
                          POINTER(mica_forward_options), POINTER(mica_array)),
    "mica_session_count": (c_int64, c_void_p),
    "mica_session_cut": (c_int, c_void_p, c_int64, POINTER(c_int64)),
    "mica_grad": (c_int, c_void_p, mica_array, mica_array, POINTER(mica_array), c_size_t,
                  POINTER(mica_array)),
    "mica_value_and_grad": (c_int, c_void_p, mica_compile_fn, c_void_p, POINTER(mica_array),
                            c_size_t, POINTER(c_size_t), c_size_t, POINTER(mica_array), c_size_t,
                            POINTER(mica_array)),
    "mica_vjp": (c_int, c_void_p, mica_compile_fn, c_void_p, POINTER(mica_array), c_size_t,
                 POINTER(mica_array), POINTER(mica_array), c_size_t, POINTER(mica_array)),
    "mica_jvp": (c_int, c_void_p, mica_compile_fn, c_void_p, POINTER(mica_array), c_size_t,
                 POINTER(mica_array), POINTER(mica_array), c_size_t, POINTER(mica_array)),
    "mica_checkpoint": (c_int, c_void_p, mica_compile_fn, c_void_p, POINTER(mica_array), c_size_t,
                        POINTER(mica_array), c_size_t),
    "mica_vmap": (c_int, c_void_p, mica_compile_fn, c_void_p, POINTER(mica_array), c_size_t,
                  POINTER(c_bool), POINTER(mica_array), c_size_t),
    "mica_stop_gradient": (mica_array, c_void_p, mica_array),
    "mica_custom_vjp": (c_int, c_void_p, POINTER(mica_custom_gradient), c_void_p,
                        POINTER(mica_array), c_size_t, POINTER(mica_array), c_size_t),
    "mica_group_is_started": (c_bool,),
    "mica_group_open": (c_int, POINTER(mica_group_options), POINTER(c_void_p)),
    "mica_group_split": (c_int, c_void_p, c_int, c_int, POINTER(c_void_p)),
    "mica_group_close": (None, POINTER(c_void_p)),
    "mica_group_abort": (None, c_void_p, c_int),
    "mica_group_rank": (c_int, c_void_p),
    "mica_group_size": (c_int, c_void_p),
    "mica_group_backend": (c_char_p, c_void_p),
    "mica_group_share": (c_int, c_void_p, c_void_p, c_size_t, c_int),
    "mica_group_agree": (c_int, c_void_p, c_char_p, c_char_p),
    "mica_all_reduce": (mica_array, c_void_p, c_void_p, mica_array, POINTER(mica_array)),
    "mica_all_gather": (mica_array, c_void_p, c_void_p, mica_array, c_int, POINTER(mica_array)),
    "mica_reduce_scatter": (mica_array, c_void_p, c_void_p, mica_array, c_int,
                            POINTER(mica_array)),
    "mica_broadcast": (mica_array, c_void_p, c_void_p, mica_array, c_int, POINTER(mica_array)),
    "mica_send": (mica_array, c_void_p, c_void_p, mica_array, c_int, POINTER(mica_array)),
    "mica_recv": (mica_array, c_void_p, c_void_p, mica_array, c_int, POINTER(mica_array)),
    "mica_pull": (c_int, c_char_p, POINTER(mica_pull_options), POINTER(c_void_p)),
    "mica_cache_remove": (c_int, c_char_p, c_char_p, POINTER(c_uint64)),
    "mica_cache_collect": (c_int, c_char_p, c_bool, POINTER(c_uint64)),
    "mica_array_file_open": (c_int, c_char_p, POINTER(c_void_p)),
    "mica_array_file_close": (None, POINTER(c_void_p)),
    "mica_array_file_count": (c_size_t, c_void_p),
    "mica_array_file_name": (c_char_p, c_void_p, c_size_t),
    "mica_array_file_find": (c_bool, c_void_p, c_char_p, POINTER(c_size_t)),
    "mica_array_file_shape": (c_bool, c_void_p, c_size_t, POINTER(c_int64), POINTER(c_int)),
    "mica_array_file_metadata": (c_bool, c_void_p, c_size_t, POINTER(mica_metadata)),
    "mica_array_file_load": (mica_array, c_void_p, c_size_t, c_void_p),
    "mica_save_safetensors": (c_int, c_char_p, POINTER(mica_named_array), c_size_t,
                              POINTER(mica_metadata), c_size_t),
    "mica_load_safetensors": (c_int, c_char_p, c_void_p, POINTER(POINTER(mica_named_array)),
                              POINTER(c_size_t)),
    "mica_save_npz": (c_int, c_char_p, POINTER(mica_named_array), c_size_t, c_bool),
    "mica_save_npy": (c_int, c_char_p, mica_array),
    "mica_load_npz": (c_int, c_char_p, c_void_p, POINTER(POINTER(mica_named_array)),
                      POINTER(c_size_t)),
    "mica_log_hook_set": (c_int, mica_log_hook, c_void_p),
    "mica_conv_general": (mica_array, c_void_p, mica_array, mica_array,
                          POINTER(mica_conv_options)),
    "mica_conv1d": (mica_array, c_void_p, mica_array, mica_array, c_int,
                    POINTER(mica_conv_options)),
    "mica_conv2d": (mica_array, c_void_p, mica_array, mica_array, c_int,
                    POINTER(mica_conv_options)),
    "mica_conv3d": (mica_array, c_void_p, mica_array, mica_array, c_int,
                    POINTER(mica_conv_options)),
    "mica_conv_transpose1d": (mica_array, c_void_p, mica_array, mica_array, c_int,
                              POINTER(mica_conv_transpose_options)),
    "mica_conv_transpose2d": (mica_array, c_void_p, mica_array, mica_array, c_int,
                              POINTER(mica_conv_transpose_options)),
    "mica_conv_transpose3d": (mica_array, c_void_p, mica_array, mica_array, c_int,
                              POINTER(mica_conv_transpose_options)),
    "mica_reduce_window": (mica_array, c_void_p, mica_array, c_int, POINTER(mica_window_options)),
    "mica_pool": (mica_array, c_void_p, mica_array, c_int, c_int, c_int,
                  POINTER(mica_pool_options)),
    "mica_conv_backward": (c_int, c_void_p, mica_array, mica_array, mica_array, c_int,
                           POINTER(mica_conv_options), POINTER(mica_array), POINTER(mica_array)),
    "mica_pool_backward": (mica_array, c_void_p, mica_array, mica_array, c_int, c_int, c_int,
                           POINTER(mica_pool_options)),
    "mica_complex": (mica_array, c_void_p, mica_array, mica_array),
    "mica_real": (mica_array, c_void_p, mica_array),
    "mica_imag": (mica_array, c_void_p, mica_array),
    "mica_conjugate": (mica_array, c_void_p, mica_array),
    "mica_fft": (mica_array, c_void_p, mica_array, c_int64, c_int, c_int),
    "mica_ifft": (mica_array, c_void_p, mica_array, c_int64, c_int, c_int),
    "mica_rfft": (mica_array, c_void_p, mica_array, c_int64, c_int, c_int),
    "mica_irfft": (mica_array, c_void_p, mica_array, c_int64, c_int, c_int),
    "mica_fft2": (mica_array, c_void_p, mica_array, POINTER(c_int64), POINTER(c_int), c_int),
    "mica_ifft2": (mica_array, c_void_p, mica_array, POINTER(c_int64), POINTER(c_int), c_int),
    "mica_rfft2": (mica_array, c_void_p, mica_array, POINTER(c_int64), POINTER(c_int), c_int),
    "mica_irfft2": (mica_array, c_void_p, mica_array, POINTER(c_int64), POINTER(c_int), c_int),
    "mica_fftn": (mica_array, c_void_p, mica_array, POINTER(c_int64), POINTER(c_int), c_int,
                  c_int),
    "mica_ifftn": (mica_array, c_void_p, mica_array, POINTER(c_int64), POINTER(c_int), c_int,
                   c_int),
    "mica_rfftn": (mica_array, c_void_p, mica_array, POINTER(c_int64), POINTER(c_int), c_int,
                   c_int),
    "mica_irfftn": (mica_array, c_void_p, mica_array, POINTER(c_int64), POINTER(c_int), c_int,
                    c_int),
    "mica_fftshift": (mica_array, c_void_p, mica_array, POINTER(c_int), c_int),
    "mica_ifftshift": (mica_array, c_void_p, mica_array, POINTER(c_int), c_int),
    "mica_fftfreq": (mica_array, c_void_p, c_int64),
    "mica_rfftfreq": (mica_array, c_void_p, c_int64),
    "mica_stft": (mica_array, c_void_p, mica_array, c_int64, c_int64, c_int),
    "mica_psd": (mica_array, c_void_p, mica_array, c_int64),
    "mica_fft_conv1d": (mica_array, c_void_p, mica_array, mica_array),
    "mica_elu": (mica_array, c_void_p, mica_array, c_float),
    "mica_leaky_relu": (mica_array, c_void_p, mica_array, c_float),
    "mica_relu2": (mica_array, c_void_p, mica_array),
    "mica_softplus": (mica_array, c_void_p, mica_array),
    "mica_log_sigmoid": (mica_array, c_void_p, mica_array),
    "mica_mish": (mica_array, c_void_p, mica_array),
    "mica_softsign": (mica_array, c_void_p, mica_array),
    "mica_gelu_fast_approx": (mica_array, c_void_p, mica_array),
    "mica_rms_norm_axis": (mica_array, c_void_p, mica_array, mica_array, c_int, c_float),
    "mica_layer_norm_axis": (mica_array, c_void_p, mica_array, mica_array, mica_array, c_int,
                             c_float),
    "mica_group_norm": (mica_array, c_void_p, mica_array, mica_array, mica_array, c_int64,
                        c_float),
    "mica_rope_tables": (mica_array, c_void_p, mica_array, mica_array, mica_array),
    "mica_axial_rope2d": (mica_array, c_void_p, mica_array, c_int64, c_int64,
                          POINTER(mica_rope_options)),
    "mica_resize_nearest2x": (mica_array, c_void_p, mica_array),
    "mica_selective_scan": (mica_array, c_void_p, mica_array, mica_array, mica_array, mica_array,
                            mica_array, POINTER(mica_selective_scan_options), POINTER(mica_array)),
    "mica_gated_delta": (mica_array, c_void_p, mica_array, mica_array, mica_array, mica_array,
                         mica_array, mica_array, POINTER(mica_array)),
    "mica_sample": (mica_array, c_void_p, mica_array, mica_array, POINTER(mica_sample_options)),
    "mica_quantize_int8": (mica_array, c_void_p, mica_array, mica_array, mica_array,
                           POINTER(c_int)),
    "mica_dequantize_int8": (mica_array, c_void_p, mica_array, mica_array, mica_array,
                             POINTER(c_int)),
    "mica_qmatmul": (mica_array, c_void_p, mica_array, mica_array, mica_array,
                     POINTER(mica_qmatmul_options)),
    "mica_qconv2d": (mica_array, c_void_p, mica_array, mica_array, mica_array,
                     POINTER(mica_conv_options), POINTER(mica_qmatmul_options)),
    "mica_fake_quantize": (mica_array, c_void_p, mica_array, POINTER(mica_fake_quantize_options),
                           POINTER(mica_array)),
    "mica_fake_quantize_lsq": (mica_array, c_void_p, mica_array, mica_array, c_int, POINTER(c_int),
                               c_float),
    "mica_weight_dequantize": (mica_array, c_void_p, POINTER(mica_weight)),
    "mica_dequant_matmul": (mica_array, c_void_p, mica_array, POINTER(mica_weight)),
    "mica_linear": (mica_array, c_void_p, mica_array, POINTER(mica_linear_weights)),
    "mica_embedding": (mica_array, c_void_p, mica_array, POINTER(mica_linear_weights)),
    "mica_activate": (mica_array, c_void_p, c_int, mica_array),
    "mica_masked_attention": (mica_array, c_void_p, mica_array, mica_array, mica_array,
                              POINTER(mica_masked_attention_options)),
    "mica_matmul_bias_act": (mica_array, c_void_p, mica_array, mica_array, mica_array, c_int),
    "mica_residual_layer_norm": (mica_array, c_void_p, mica_array, mica_array, mica_array,
                                 mica_array, mica_array, c_float),
    "mica_residual_rms_norm": (mica_array, c_void_p, mica_array, mica_array, mica_array,
                               mica_array, c_float),
    "mica_swiglu": (mica_array, c_void_p, mica_array, c_bool),
    "mica_lora_matmul": (mica_array, c_void_p, mica_array, mica_array, mica_array, mica_array,
                         c_float),
    "mica_attention_block": (mica_array, c_void_p, mica_array, POINTER(mica_attention_weights),
                             POINTER(mica_masked_attention_options)),
    "mica_transformer_layer": (mica_array, c_void_p, mica_array, POINTER(mica_layer_weights),
                               c_int, c_float, POINTER(mica_masked_attention_options)),
    "mica_softmax_cross_entropy": (mica_array, c_void_p, mica_array, mica_array, POINTER(c_int64)),
    "mica_relu_backward": (mica_array, c_void_p, mica_array, mica_array),
    "mica_activation_backward": (mica_array, c_void_p, c_int, mica_array, mica_array),
    "mica_fake_quantize_backward": (mica_array, c_void_p, mica_array, mica_array,
                                    POINTER(mica_fake_quantize_options)),
    "mica_fake_quantize_lsq_backward": (c_int, c_void_p, mica_array, mica_array, mica_array, c_int,
                                        POINTER(c_int), c_float, POINTER(mica_array),
                                        POINTER(mica_array)),
    "mica_cumsum_backward": (mica_array, c_void_p, mica_array, c_int, c_bool, c_bool),
    "mica_take_backward": (mica_array, c_void_p, mica_array, mica_array, mica_array, c_int),
    "mica_rope_tables_backward": (mica_array, c_void_p, mica_array, mica_array, mica_array),
    "mica_softmax_cross_entropy_backward": (mica_array, c_void_p, mica_array, mica_array,
                                            mica_array, POINTER(c_int64)),
    "mica_layer_norm_backward": (c_int, c_void_p, mica_array, mica_array, mica_array, c_float,
                                 POINTER(mica_array), POINTER(mica_array), POINTER(mica_array)),
    "mica_rms_norm_backward": (c_int, c_void_p, mica_array, mica_array, mica_array, c_float,
                               POINTER(mica_array), POINTER(mica_array)),
    "mica_group_norm_backward": (c_int, c_void_p, mica_array, mica_array, mica_array, c_int64,
                                 c_float, POINTER(mica_array), POINTER(mica_array),
                                 POINTER(mica_array)),
    "mica_masked_attention_backward": (c_int, c_void_p, mica_array, mica_array, mica_array,
                                       mica_array, POINTER(mica_masked_attention_options),
                                       POINTER(mica_array), POINTER(mica_array),
                                       POINTER(mica_array)),
    "mica_onnx_load": (c_int, c_void_p, c_char_p, POINTER(mica_onnx_options), POINTER(c_void_p)),
    "mica_onnx_decode": (c_int, c_void_p, c_void_p, c_size_t, POINTER(mica_onnx_options),
                         POINTER(c_void_p)),
    "mica_onnx_print": (c_int, c_void_p, c_char_p, POINTER(mica_onnx_options), POINTER(c_void_p)),
    "mica_onnx_op_count": (c_size_t,),
    "mica_onnx_op_name": (c_char_p, c_size_t),
    "mica_server_open": (c_int, POINTER(mica_server_options), POINTER(c_void_p)),
    "mica_server_add": (c_int, c_void_p, c_char_p, c_void_p, POINTER(mica_serving_options)),
    "mica_server_load": (c_int, c_void_p, POINTER(mica_loading_options)),
    "mica_server_follow": (c_int, POINTER(mica_loading_options)),
    "mica_server_address": (c_char_p, c_void_p),
    "mica_server_run": (c_int, c_void_p),
    "mica_server_stop": (None, c_void_p),
    "mica_server_under_way": (None, c_void_p, POINTER(c_int), POINTER(c_int)),
    "mica_server_close": (None, POINTER(c_void_p)),
    "mica_server_ask": (c_int, c_char_p, c_char_p, c_char_p, c_char_p, POINTER(mica_ask_options),
                        POINTER(c_int), POINTER(c_void_p)),
    "mica_classify": (c_int, c_void_p, POINTER(c_char_p), c_size_t, POINTER(mica_classify_options),
                      POINTER(POINTER(mica_classify_results))),
    "mica_classify_free": (None, POINTER(POINTER(mica_classify_results))),
    "mica_batch_generate": (c_int, c_void_p, POINTER(mica_batch_item), c_size_t,
                            POINTER(mica_batch_options), POINTER(POINTER(mica_batch_results))),
    "mica_batch_free": (None, POINTER(POINTER(mica_batch_results))),
    "mica_embed": (c_int, c_void_p, c_char_p, c_size_t, POINTER(mica_embed_options),
                   POINTER(POINTER(c_float)), POINTER(c_size_t)),
    "mica_embed_texts": (c_int, c_void_p, POINTER(c_char_p), c_size_t, POINTER(mica_embed_options),
                         POINTER(POINTER(mica_embed_results))),
    "mica_embed_texts_free": (None, POINTER(POINTER(mica_embed_results))),
    "mica_rerank": (c_int, c_void_p, c_char_p, POINTER(c_char_p), c_size_t,
                    POINTER(mica_rerank_options), POINTER(c_float)),
    "mica_score": (c_int, c_void_p, c_char_p, c_size_t, POINTER(mica_task_options),
                   POINTER(POINTER(mica_score_result))),
    "mica_score_ids": (c_int, c_void_p, POINTER(c_int32), c_size_t, POINTER(mica_task_options),
                       POINTER(POINTER(mica_score_result))),
    "mica_score_free": (None, POINTER(POINTER(mica_score_result))),
    "mica_score_texts": (c_int, c_void_p, POINTER(c_char_p), c_size_t, POINTER(mica_task_options),
                         POINTER(POINTER(mica_score_results))),
    "mica_score_texts_free": (None, POINTER(POINTER(mica_score_results))),
    "mica_compare_ids": (c_int, c_void_p, c_void_p, POINTER(c_int32), c_size_t,
                         POINTER(mica_task_options), POINTER(mica_comparison)),
    "mica_inspect_attention": (c_int, c_void_p, c_char_p, c_size_t, POINTER(c_int64), c_size_t,
                               POINTER(mica_task_options), POINTER(POINTER(mica_attention))),
    "mica_attention_free": (None, POINTER(POINTER(mica_attention))),
    "mica_loss_count": (c_size_t,),
    "mica_loss_name": (c_char_p, c_size_t, POINTER(c_char_p)),
    "mica_loss": (c_int, c_void_p, c_char_p, POINTER(mica_array), c_size_t,
                  POINTER(mica_loss_options), POINTER(mica_array)),
    "mica_optimizer_count": (c_size_t,),
    "mica_optimizer_name": (c_char_p, c_size_t, POINTER(c_char_p)),
    "mica_optimizer_open": (c_int, c_void_p, POINTER(mica_optimizer_options), POINTER(c_void_p)),
    "mica_optimizer_close": (None, POINTER(c_void_p)),
    "mica_optimizer_update": (c_int, c_void_p, c_void_p, POINTER(mica_array), POINTER(mica_array),
                              c_size_t, c_double, POINTER(mica_array)),
    "mica_optimizer_rate": (c_double, c_void_p),
    "mica_optimizer_steps": (c_int64, c_void_p),
    "mica_optimizer_reset": (None, c_void_p),
    "mica_schedule_rate": (c_int, POINTER(mica_schedule), c_int64, POINTER(c_double)),
    "mica_tuner_open": (c_int, c_char_p, POINTER(mica_tuner_options), POINTER(c_void_p)),
    "mica_tuner_close": (None, POINTER(c_void_p)),
    "mica_lora_apply": (c_int, c_void_p, POINTER(mica_lora_options)),
    "mica_tuner_parameter_count": (c_size_t, c_void_p),
    "mica_tuner_get_parameter": (c_int, c_void_p, c_size_t, POINTER(mica_parameter)),
    "mica_tuner_set_parameter": (c_int, c_void_p, c_size_t, POINTER(c_float), c_size_t),
    "mica_tuner_trained": (c_uint64, c_void_p),
    "mica_tuner_get_info": (None, c_void_p, POINTER(mica_model_info)),
    "mica_tuner_device": (c_void_p, c_void_p),
    "mica_tuner_tokenizer": (c_void_p, c_void_p),
    "mica_tuner_forward": (mica_array, c_void_p, c_void_p, POINTER(mica_array), mica_array,
                           POINTER(mica_forward_options)),
    "mica_tuner_save": (c_int, c_void_p, c_char_p, c_int),
    "mica_tuner_load": (c_int, c_void_p, c_char_p),
    "mica_tune": (c_int, c_void_p, POINTER(mica_tune_options), POINTER(mica_tune_result)),
    "mica_version": (c_char_p,),
    "mica_version_number": (c_int,),
    "mica_has": (c_bool, c_char_p),
    "mica_feature_name": (c_char_p, c_size_t),
}
