/* Asks a model one question and prints the answer while it is computed, in C++17. Ctrl-C ends it.
 *
 *     chat FOLDER [QUESTION] */
#include <mica/mica.hpp>

#include <atomic>
#include <csignal>
#include <iostream>

namespace {

/* The stream that Ctrl-C cancels: a signal handler may, while it is open. */
std::atomic<mica_stream *> current{nullptr};

extern "C" void on_interrupt(int) {
    mica_stream_cancel(current); /* does nothing for NULL */
}

void ask(const char *folder, const char *question) {
    mica::model model(folder);
    mica::session session(model);
    mica::stream answer = session.chat(question);
    current = answer;
    for (const mica::token &token : answer)
        std::cout << token.text << std::flush;
    current = nullptr;
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
    } catch (const mica::error &error) {
        if (error.status() == MICA_ECANCELLED) return 130;
        std::cerr << mica_status_name(error.status()) << ": " << error.what() << '\n';
        return 1;
    }
    return 0;
}
