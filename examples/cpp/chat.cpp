/* Asks a model one question and prints the answer while it is computed, in C++17: what is opened is
 * closed by its owner's destructor, an error is an exception, and Ctrl-C ends the answer.
 *
 *     chat FOLDER [QUESTION] */
#include <mica/mica.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string_view>

namespace {

/* A call that failed, with the thread's text of its error. */
struct mica_error : std::runtime_error {
    explicit mica_error(mica_status failed)
        : std::runtime_error(mica_last_error()), status(failed) {}
    mica_status status;
};

void check(mica_status status) {
    if (status != MICA_OK) throw mica_error(status);
}

struct closer {
    void operator()(mica_model *model) const { mica_model_close(&model); }
    void operator()(mica_session *session) const { mica_session_close(&session); }
    void operator()(mica_stream *stream) const { mica_stream_close(&stream); }
};

template <class T> using owned = std::unique_ptr<T, closer>;

/* What open(arguments..., &handle) opens. */
template <class T, class Open, class... Arguments>
owned<T> opened(Open open, Arguments... arguments) {
    T *handle = nullptr;
    check(open(arguments..., &handle));
    return owned<T>(handle);
}

/* The stream that Ctrl-C cancels: mica_stream_cancel may be called from a signal handler while its
 * stream is open. */
std::atomic<mica_stream *> current{nullptr};
static_assert(decltype(current)::is_always_lock_free, "for a signal handler");

extern "C" void on_interrupt(int) {
    mica_stream_cancel(current); /* does nothing for NULL */
}

struct interruptible {
    explicit interruptible(const owned<mica_stream> &stream) { current = stream.get(); }
    ~interruptible() { current = nullptr; }
    interruptible(const interruptible &) = delete;
    interruptible &operator=(const interruptible &) = delete;
};

void ask(const char *folder, const char *question) {
    mica_message message{};
    message.role = "user";
    message.content = question;
    auto model = opened<mica_model>(mica_model_open, folder, nullptr);
    auto session = opened<mica_session>(mica_session_open, model.get(), nullptr);
    auto stream = opened<mica_stream>(mica_chat, session.get(), &message, std::size_t{1}, nullptr);
    interruptible until_the_end(stream);
    for (mica_token token; mica_stream_next(stream.get(), &token);)
        std::cout << std::string_view(token.text, token.len) << std::flush;
    check(mica_stream_status(stream.get()));
    std::cout << '\n';
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 2 && argc != 3) {
        std::cerr << "usage: chat FOLDER [QUESTION]\n";
        return 2;
    }
    std::signal(SIGINT, on_interrupt);
    try {
        ask(argv[1], argc == 3 ? argv[2] : "What is curl?");
    } catch (const mica_error &error) {
        if (error.status == MICA_ECANCELLED) return 130;
        std::cerr << mica_status_name(error.status) << ": " << error.what() << '\n';
        return 1;
    }
    return 0;
}
