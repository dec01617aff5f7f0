/* mica.hpp: answers equal those by C, owners close, errors are thrown, ranges are ranges.
 *
 *     test_cpp_17 FOLDER      prints what failed; the exit status is 0 if nothing did */
#include <mica/mica.hpp>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <numeric>
#include <thread>

#if __cplusplus > 202002L
#include <ranges>
static_assert(std::ranges::input_range<mica::stream>);
static_assert(std::ranges::contiguous_range<mica::view<float>>);
static_assert(std::ranges::random_access_range<mica::model_list>);
#endif
static_assert(!std::is_copy_constructible_v<mica::model>);
static_assert(std::is_nothrow_move_constructible_v<mica::model>);
static_assert(std::is_nothrow_move_constructible_v<mica::stream>);

namespace {

int failed = 0;

void expect(bool holds, const char *what) {
    if (holds) return;
    std::cerr << what << '\n';
    failed++;
}

/* The status of the error that a call throws; MICA_OK if none. */
template <class Call> mica_status thrown(Call call) {
    try {
        call();
    } catch (const mica::error &error) {
        expect(*error.what() != 0, "an error without a text");
        return error.status();
    }
    return MICA_OK;
}

/* The same answer by the functions of C. */
std::string by_c(const mica_model *model, const char *question) {
    mica_session *session = nullptr;
    mica_stream *stream = nullptr;
    mica_message message{};
    message.role = "user";
    message.content = question;
    std::string text;
    mica_token token;
    if (mica_session_open(model, nullptr, &session) == MICA_OK &&
        mica_chat(session, &message, 1, nullptr, &stream) == MICA_OK)
        while (mica_stream_next(stream, &token))
            text.append(token.text, token.len);
    mica_stream_close(&stream);
    mica_session_close(&session);
    return text;
}

void test_answers(const mica::model &model) {
    mica::session session(model);
    std::string text;
    std::size_t tokens = 0;
    mica::stream answer = session.chat("What is curl?");
    for (const mica::token &token : answer) {
        text += token.text;
        tokens += token.id >= 0;
    }
    expect(text.size() > 40 && text == by_c(model, "What is curl?"), "the answer is that of C");
    expect(answer.finish() == MICA_FINISH_STOP, "it stopped");
    expect(answer.metrics().generated_tokens == static_cast<std::int64_t>(tokens), "its metrics");
    expect(answer.begin() == answer.end(), "an answer is read once");
    expect(session.chat({{"user", "What is curl?"}}).rest() == text, "as a conversation");
    mica_generate_options options{};
    options.max_tokens = 5;
    options.top_logprobs = 2;
    mica::stream five = session.generate(model.encode("The sea"), options);
    for (const mica::token &token : five)
        expect(token.alternatives.size() == 2 && token.alternatives[0].logprob <= 0,
               "alternatives");
    expect(five.finish() == MICA_FINISH_LENGTH, "five tokens");
    mica::session fork = session.fork();
    expect(fork.get() && fork.get() != session.get(), "a fork");
}

void test_owners(const std::string &folder) {
    mica::stream answer;
    {
        mica::model model(folder);
        mica::model moved = std::move(model);
        mica::session session(moved);
        answer = session.chat("What is curl?");
    } /* the stream keeps both */
    expect(answer.rest().size() > 40, "a stream whose session and model were closed");
    expect(thrown([] { mica::model("/nowhere"); }) == MICA_ENOENT, "no folder");
    mica::model model(folder);
    mica::session session(model);
    expect(thrown([&] { session.chat(std::vector<mica::message>{}); }) == MICA_EINVAL,
           "no messages");
    mica::stream cancelled = session.chat("What is curl?");
    std::thread([&] { cancelled.cancel(); }).join();
    expect(thrown([&] { cancelled.rest(); }) == MICA_ECANCELLED, "a cancelled answer");
    expect(cancelled.finish() == MICA_FINISH_CANCELLED, "its reason");
}

void test_tasks(const mica::model &model, const std::string &folder) {
    expect(model.decode(model.encode("What is curl?")) == "What is curl?", "there and back");
    expect(model.info().layers > 0, "information");
    mica_generate_options options{};
    options.max_tokens = 4;
    auto results = model.batch({"The sea is", "curl is"}, options);
    std::size_t answered = 0;
    for (const mica_batch_row &row : mica::rows(results))
        answered += row.status == MICA_OK && row.count == 4;
    expect(answered == 2, "a batch");
    expect(mica::rows(mica::owned<mica_batch_results>()).empty(), "no rows of nothing");
    std::vector<float> vector = model.embed("The sea");
    float length = std::inner_product(vector.begin(), vector.end(), vector.begin(), 0.0f);
    expect(vector.size() > 8 && std::isfinite(length), "an embedding");
    mica::model_list models((folder + "/..").c_str());
    expect(models.size() > 0 && std::all_of(models.begin(), models.end(),
                                            [](auto found) { return found->name != nullptr; }),
           "models of a folder");
}

void test_arrays() {
    mica::device device("cpu");
    mica::scope s(device);
    mica::array x = s.from<float>({1, 2, 3, 4}, {2, 2});
    mica::array y = -(x * s.scalar(2) + x) / s.scalar(3) - x;
    expect(y.values<float>() == std::vector<float>{-2, -4, -6, -8}, "operators");
    expect(y.values<std::int32_t>() == std::vector<std::int32_t>{-2, -4, -6, -8}, "as integers");
    mica::array product = mica_matmul(s, x, x); /* ops of C */
    s.eval({product, y});
    expect(product.values<float>() == std::vector<float>{7, 10, 15, 22}, "a product");
    expect(product.shape().size() == 2 && product.shape()[1] == 2, "a shape");
    expect(mica::array(mica_sum(s, x, nullptr, 0, false)).item() == 10, "a sum");
    bool refused = false;
    try {
        s.from<float>({1, 2}, {3});
    } catch (const std::invalid_argument &) {
        refused = true;
    }
    expect(refused, "a shape of another size");
    mica::scope other(device);
    mica::array wrong =
        mica_matmul(other, other.from<float>({1, 2, 3}, {1, 3}), other.from<float>({1, 2}, {2, 1}));
    expect(thrown([&] { wrong.values<float>(); }) == MICA_ESHAPE, "shapes that do not fit");
}

/* A hook of C++: a function that takes what belongs to it as user. */
void keep_line(void *user, mica_log_level level, const char *text) {
    if (level <= MICA_LOG_INFO) static_cast<std::vector<std::string> *>(user)->push_back(text);
}

void test_log(const std::string &folder) {
    std::vector<std::string> lines;
    mica::check(mica_log_hook_set(keep_line, &lines));
    { mica::model model(folder); }
    mica::check(mica_log_hook_set(nullptr, nullptr));
    const std::vector<std::string> wanted{"opened the device cpu",
                                          "opened the model " + folder + " with the engine native",
                                          "closed the model " + folder, "closed the device cpu"};
    expect(lines == wanted, "the lines about a model that is opened and closed");
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    try {
        mica::model model(argv[1]);
        test_answers(model);
        test_owners(argv[1]);
        test_tasks(model, argv[1]);
        test_arrays();
        test_log(argv[1]);
    } catch (const std::exception &error) {
        std::cerr << "thrown: " << error.what() << '\n';
        return 1;
    }
    return failed > 0;
}
