/* mica in C++17 and later: what is opened is closed by its owner, an error is an exception, and
 * answers, rows and lists are ranges.
 *
 *     mica::model model("models/default");
 *     mica::session session(model);
 *     for (const mica::token &token : session.chat("What is curl?")) std::cout << token.text;
 *
 * These are thin owners of the handles of C, and convert to them: all functions of C take them, as
 * in mica_model_cache_bytes(model, 4096). Their rules hold here, too: what may be used by which
 * thread (docs/embedding.md), and that handles may be closed in any order. Owners are moved, not
 * copied; one that was moved from holds nullptr, which functions of C answer with MICA_EINVAL. */
#ifndef MICA_HPP
#define MICA_HPP

#include <mica/mica.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace mica {

/* ---- errors ---- */

/** A call that failed: its status, and the thread's text of the error as what(). */
class error : public std::runtime_error {
public:
    /** What has just failed in this thread. */
    explicit error(mica_status failed) : std::runtime_error(mica_last_error()), status_(failed) {}
    /** What kind of error it is. */
    mica_status status() const noexcept { return status_; }

private:
    mica_status status_;
};

/** Throws an error unless status is MICA_OK. */
inline void check(mica_status status) {
    if (status != MICA_OK) throw error(status);
}

/* ---- owners ---- */

/** Closes or frees what it is given. */
struct closer {
    void operator()(mica_answer *p) const noexcept { mica_answer_close(&p); }
    void operator()(mica_array_file *p) const noexcept { mica_array_file_close(&p); }
    void operator()(mica_attention *p) const noexcept { mica_attention_free(&p); }
    void operator()(mica_batch_results *p) const noexcept { mica_batch_free(&p); }
    void operator()(mica_cancel *p) const noexcept { mica_cancel_close(&p); }
    void operator()(mica_classify_results *p) const noexcept { mica_classify_free(&p); }
    void operator()(mica_decoder_stream *p) const noexcept { mica_decoder_stream_close(&p); }
    void operator()(mica_device *p) const noexcept { mica_device_close(&p); }
    void operator()(mica_embed_results *p) const noexcept { mica_embed_texts_free(&p); }
    void operator()(mica_executable *p) const noexcept { mica_executable_close(&p); }
    void operator()(mica_function *p) const noexcept { mica_function_close(&p); }
    void operator()(mica_model *p) const noexcept { mica_model_close(&p); }
    void operator()(mica_model_list *p) const noexcept { mica_model_list_free(&p); }
    void operator()(mica_optimizer *p) const noexcept { mica_optimizer_close(&p); }
    void operator()(mica_program *p) const noexcept { mica_program_close(&p); }
    void operator()(mica_scope *p) const noexcept { mica_scope_close(&p); }
    void operator()(mica_score_result *p) const noexcept { mica_score_free(&p); }
    void operator()(mica_score_results *p) const noexcept { mica_score_texts_free(&p); }
    void operator()(mica_server *p) const noexcept { mica_server_close(&p); }
    void operator()(mica_session *p) const noexcept { mica_session_close(&p); }
    void operator()(mica_stream *p) const noexcept { mica_stream_close(&p); }
    void operator()(mica_tokenizer *p) const noexcept { mica_tokenizer_close(&p); }
    void operator()(mica_tuner *p) const noexcept { mica_tuner_close(&p); }
    void operator()(char *p) const noexcept { mica_free(p); }
    void operator()(float *p) const noexcept { mica_free(p); }
    void operator()(std::int32_t *p) const noexcept { mica_free(p); }
};

/** The owner of a handle of C. It converts to the handle, which stays the owner's. */
template <class T> class owned {
public:
    /** Owns nothing. */
    owned() = default;
    /** Takes the handle over; nullptr: owns nothing. */
    explicit owned(T *handle) noexcept : handle_(handle) {}
    /** The handle, or nullptr. */
    T *get() const noexcept { return handle_.get(); }
    /** A member of a struct that C shows. */
    T *operator->() const noexcept { return handle_.get(); }
    /** For functions of C. */
    operator T *() const noexcept { return handle_.get(); }

private:
    std::unique_ptr<T, closer> handle_;
};

/** What function(arguments..., &handle) opens, as in
 *  open<mica_program>(mica_program_load, path). Throws its error. */
template <class T, class Function, class... Arguments>
owned<T> open(Function function, Arguments... arguments) {
    T *handle = nullptr;
    check(function(arguments..., &handle));
    return owned<T>(handle);
}

/* ---- ranges ---- */

/** Elements side by side that somebody else owns: C++20's std::span for C++17. */
template <class T> struct view {
    T *first = nullptr;    /* the first of them */
    std::size_t count = 0; /* how many there are */
    /** The first element. */
    T *begin() const noexcept { return first; }
    /** Behind the last one. */
    T *end() const noexcept { return first + count; }
    /** The first element. */
    T *data() const noexcept { return first; }
    /** How many there are. */
    std::size_t size() const noexcept { return count; }
    /** Whether there are none. */
    bool empty() const noexcept { return count == 0; }
    /** Element i, which must be there. */
    T &operator[](std::size_t i) const noexcept { return first[i]; }
};

/** The rows of results of C (mica_batch_results, mica_embed_results ...), which must outlive it. */
template <class Results> auto rows(const owned<Results> &results) noexcept {
    using row = std::remove_pointer_t<decltype(results->rows)>;
    return results ? view<row>{results->rows, results->count} : view<row>{};
}

/** One token of an answer, until the stream's next one. */
struct token {
    std::int32_t id = -1;                      /* -1: held-back text at the end */
    std::string_view text;                     /* whole characters, or empty */
    float logprob = 0;                         /* where the options ask for it */
    bool prompt = false;                       /* of the prompt, which options.echo hands out */
    view<const mica_alternative> alternatives; /* likeliest first */
};

/** One answer while it is computed: a range of tokens, which is read once. An error, also
 *  MICA_ECANCELLED, is thrown by the step that finds it. */
class stream : public owned<mica_stream> {
public:
    using owned::owned;
    /** A stream that C has opened. */
    explicit stream(owned<mica_stream> opened) noexcept : owned(std::move(opened)) {}

    struct end_of_answer {};

    class iterator {
    public:
        using iterator_category = std::input_iterator_tag;
        using value_type = token;
        using difference_type = std::ptrdiff_t;
        using pointer = const token *;
        using reference = const token &;

        iterator() = default;
        explicit iterator(stream *of) : stream_(of) { step(); }
        const token &operator*() const noexcept { return token_; }
        const token *operator->() const noexcept { return &token_; }
        iterator &operator++() {
            step();
            return *this;
        }
        void operator++(int) { step(); }
        friend bool operator==(const iterator &a, end_of_answer) noexcept { return !a.stream_; }
        friend bool operator==(end_of_answer, const iterator &a) noexcept { return !a.stream_; }
        friend bool operator!=(const iterator &a, end_of_answer) noexcept { return a.stream_; }
        friend bool operator!=(end_of_answer, const iterator &a) noexcept { return a.stream_; }

    private:
        void step() {
            mica_token t;
            if (mica_stream_next(stream_->get(), &t)) {
                token_ = {t.id, {t.text, t.len}, t.logprob, t.prompt,
                          {t.alternatives, t.alternative_count}};
                return;
            }
            stream *ended = std::exchange(stream_, nullptr);
            check(mica_stream_status(ended->get()));
        }
        stream *stream_ = nullptr;
        token token_;
    };

    /** The next token: computes it. */
    iterator begin() { return iterator(this); }
    /** Where the answer ends. */
    end_of_answer end() const noexcept { return {}; }

    /** What is still to come of the answer. */
    std::string rest() {
        std::string text;
        for (const token &t : *this)
            text += t.text;
        return text;
    }
    /** Why it ended. */
    mica_finish finish() const noexcept { return mica_stream_finish(get()); }
    /** Ends the answer; from any thread, and from a signal handler. */
    void cancel() const noexcept { mica_stream_cancel(get()); }
    /** Counts and rates. */
    mica_metrics metrics() const noexcept {
        mica_metrics found{};
        found.struct_bytes = sizeof found;
        mica_stream_metrics(get(), &found);
        return found;
    }
};

/* ---- models ---- */

/** The models below a folder; nullptr: of the Hugging Face cache. A range of mica_found_model *. */
class model_list : public owned<mica_model_list> {
public:
    /** Looks for them. */
    explicit model_list(const char *folder = nullptr)
        : owned(open<mica_model_list>(mica_discover, folder)) {}
    /** The first model. */
    auto begin() const noexcept { return get()->models; }
    /** Behind the last one. */
    auto end() const noexcept { return get()->models + get()->count; }
    /** How many there are. */
    std::size_t size() const noexcept { return get()->count; }
};

/** Weights and a tokenizer; any number of threads may use it. */
class model : public owned<mica_model> {
public:
    /** Opens a folder or a GGUF file. */
    explicit model(const std::string &folder, const mica_model_options &options = {})
        : owned(open<mica_model>(mica_model_open, folder.c_str(), &options)) {}

    /** Its family, sizes and context length. */
    mica_model_info info() const noexcept {
        mica_model_info found{};
        found.struct_bytes = sizeof found;
        mica_model_get_info(get(), &found);
        return found;
    }
    /** The token ids of a text. */
    std::vector<std::int32_t> encode(std::string_view text, bool add_special = true) const {
        std::int32_t *ids = nullptr;
        std::size_t n = 0;
        check(mica_tokenizer_encode(mica_model_tokenizer(get()), text.data(), text.size(),
                                    add_special, &ids, &n));
        owned<std::int32_t> freed(ids);
        return std::vector<std::int32_t>(ids, ids + n);
    }
    /** The text of token ids. */
    std::string decode(const std::vector<std::int32_t> &ids, bool skip_special = true) const {
        char *text = nullptr;
        std::size_t len = 0;
        check(mica_tokenizer_decode(mica_model_tokenizer(get()), ids.data(), ids.size(),
                                    skip_special, &text, &len));
        owned<char> freed(text);
        return std::string(text, len);
    }
    /** The embedding of a text. */
    std::vector<float> embed(std::string_view text, const mica_embed_options &options = {}) const {
        float *vector = nullptr;
        std::size_t n = 0;
        check(mica_embed(get(), text.data(), text.size(), &options, &vector, &n));
        owned<float> freed(vector);
        return std::vector<float>(vector, vector + n);
    }
    /** Answers to raw prompts, computed together; rows() of them is a range. */
    owned<mica_batch_results> batch(const std::vector<std::string> &prompts,
                                    const mica_generate_options &each = {},
                                    const mica_batch_options &options = {}) const {
        std::vector<mica_batch_item> items;
        for (const std::string &prompt : prompts) {
            mica_batch_item item{};
            item.prompt = prompt.c_str();
            item.options = &each;
            items.push_back(item);
        }
        return open<mica_batch_results>(mica_batch_generate, get(), items.data(), items.size(),
                                        &options);
    }
};

/** One message of a conversation. */
struct message {
    std::string role;    /* "user", "assistant", "system" */
    std::string content; /* the text */
};

/** The caches and the history of one conversation; one thread at a time. */
class session : public owned<mica_session> {
public:
    /** Opens one without a history. */
    explicit session(const model &of, const mica_session_options &options = {})
        : owned(open<mica_session>(mica_session_open, of.get(), &options)) {}

    /** Answers a conversation in the model's chat format. */
    stream chat(const std::vector<message> &messages, const mica_generate_options &options = {}) {
        std::vector<mica_message> given;
        for (const message &m : messages) {
            mica_message one{};
            one.role = m.role.c_str();
            one.content = m.content.c_str();
            given.push_back(one);
        }
        return stream(open<mica_stream>(mica_chat, get(), given.data(), given.size(), &options));
    }
    /** Answers one question, without what was said before. */
    stream chat(const std::string &question, const mica_generate_options &options = {}) {
        return chat(std::vector<message>{{"user", question}}, options);
    }
    /** Continues a text, without a chat format. */
    stream generate(std::string_view prompt, const mica_generate_options &options = {}) {
        return stream(
            open<mica_stream>(mica_generate, get(), prompt.data(), prompt.size(), &options));
    }
    /** Continues token ids. */
    stream generate(const std::vector<std::int32_t> &ids,
                    const mica_generate_options &options = {}) {
        return stream(
            open<mica_stream>(mica_generate_ids, get(), ids.data(), ids.size(), &options));
    }
    /** Another session with the same history. */
    session fork() { return session(open<mica_session>(mica_session_fork, get())); }
    /** Writes the history to a file. */
    void save(const std::string &path) const { check(mica_session_save(get(), path.c_str())); }

private:
    explicit session(owned<mica_session> opened) noexcept : owned(std::move(opened)) {}
};

/* ---- arrays ---- */

/** The dtype of a C++ type. */
template <class T> struct dtype_of;
template <> struct dtype_of<bool> : std::integral_constant<mica_dtype, MICA_BOOL> {};
template <> struct dtype_of<std::uint8_t> : std::integral_constant<mica_dtype, MICA_U8> {};
template <> struct dtype_of<std::uint16_t> : std::integral_constant<mica_dtype, MICA_U16> {};
template <> struct dtype_of<std::uint32_t> : std::integral_constant<mica_dtype, MICA_U32> {};
template <> struct dtype_of<std::uint64_t> : std::integral_constant<mica_dtype, MICA_U64> {};
template <> struct dtype_of<std::int8_t> : std::integral_constant<mica_dtype, MICA_I8> {};
template <> struct dtype_of<std::int16_t> : std::integral_constant<mica_dtype, MICA_I16> {};
template <> struct dtype_of<std::int32_t> : std::integral_constant<mica_dtype, MICA_I32> {};
template <> struct dtype_of<std::int64_t> : std::integral_constant<mica_dtype, MICA_I64> {};
template <> struct dtype_of<float> : std::integral_constant<mica_dtype, MICA_F32> {};
template <> struct dtype_of<double> : std::integral_constant<mica_dtype, MICA_F64> {};

/** An array of a scope, as plain as mica_array, which it converts to and from: ops of C take it and
 *  give it. It is valid until its scope closes. Operators record into the left operand's scope. */
class array {
public:
    /** An array of C's, or none. */
    array(mica_array of = MICA_NONE) noexcept : of_(of) {}
    /** For functions of C. */
    operator mica_array() const noexcept { return of_; }

    /** The length of each axis. */
    view<const std::int64_t> shape() const noexcept {
        return {mica_array_shape(of_), static_cast<std::size_t>(mica_array_ndim(of_))};
    }
    /** The type of its elements. */
    mica_dtype dtype() const noexcept { return mica_array_dtype(of_); }
    /** All elements in row-major order as T, converted (mica_astype) where that is not the array's
     *  dtype. */
    template <class T> std::vector<T> values() const {
        static_assert(!std::is_same_v<T, bool>, "std::vector<bool> has no elements: read as u8");
        array x = *this;
        if (mica_valid(of_) && dtype() != dtype_of<T>::value)
            x = mica_astype(of_.scope, of_, dtype_of<T>::value);
        std::vector<T> read(static_cast<std::size_t>(mica_array_size(x)));
        check(mica_read(x, read.data(), read.size() * sizeof(T)));
        return read;
    }
    /** The value of a one-element array. */
    double item() const {
        double value = 0;
        check(mica_item_f64(of_, &value));
        return value;
    }

    /** Sum of elements; shapes broadcast. */
    friend array operator+(array a, array b) { return mica_add(a.of_.scope, a, b); }
    /** Difference of elements; shapes broadcast. */
    friend array operator-(array a, array b) { return mica_subtract(a.of_.scope, a, b); }
    /** Product of elements; shapes broadcast. */
    friend array operator*(array a, array b) { return mica_multiply(a.of_.scope, a, b); }
    /** Quotient of elements; shapes broadcast. */
    friend array operator/(array a, array b) { return mica_divide(a.of_.scope, a, b); }
    /** Each element's negative. */
    friend array operator-(array a) { return mica_negative(a.of_.scope, a); }

private:
    mica_array of_;
};

/** The owner of arrays; one thread at a time. */
class scope : public owned<mica_scope> {
public:
    /** Opens one on a device. */
    explicit scope(mica_device *device) : owned(open<mica_scope>(mica_scope_open, device)) {}

    /** An array from values in row-major order, copied. */
    template <class T>
    array from(const std::vector<T> &values, const std::vector<std::int64_t> &shape) {
        std::int64_t size = 1;
        for (std::int64_t n : shape)
            size *= n;
        if (size != static_cast<std::int64_t>(values.size()))
            throw std::invalid_argument("mica::scope::from: shape is of another number of values");
        return mica_from_data(get(), values.data(), dtype_of<T>::value, shape.data(),
                              static_cast<int>(shape.size()));
    }
    /** The same of one axis. */
    template <class T> array from(const std::vector<T> &values) {
        return from(values, {static_cast<std::int64_t>(values.size())});
    }
    /** A number, f32. */
    array scalar(float value) { return mica_f32(get(), value); }
    /** Computes arrays together; throws the first error of the scope. */
    void eval(std::initializer_list<array> xs) {
        std::vector<mica_array> given(xs.begin(), xs.end());
        check(mica_eval_n(get(), given.data(), given.size()));
    }
};

/** A device by its name; nullptr: the default one. */
class device : public owned<mica_device> {
public:
    /** Opens it. */
    explicit device(const char *name = nullptr, const mica_device_options &options = {})
        : owned(open<mica_device>(mica_device_open, name, &options)) {}
};

} // namespace mica

#endif
