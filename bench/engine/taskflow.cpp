// taskflow.cpp - the same work with Taskflow, if its header is there: KIND COUNT WORKERS; one JSON line, as engine.c.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <taskflow/taskflow.hpp>

static void build(tf::Taskflow &flow, const char *kind, long count)
{
    if (std::strcmp(kind, "diamonds") == 0) {
        for (long i = 0; i + 3 < count; i += 4) {
            auto a = flow.emplace([] {}), b = flow.emplace([] {}), c = flow.emplace([] {}), d = flow.emplace([] {});
            a.precede(b, c);
            d.succeed(b, c);
        }
        return;
    }
    tf::Task before;
    for (long i = 0; i < count; i++) {
        auto made = flow.emplace([] {});
        if (i && std::strcmp(kind, "chain") == 0)
            before.precede(made);
        before = made;
    }
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    long count = std::atol(argv[2]);
    tf::Executor executor(std::strtoul(argv[3], nullptr, 10));
    auto now = [] { return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count(); };
    double began = now(), built, ran;
    {
        tf::Taskflow flow;
        build(flow, argv[1], count);
        built = now();
        executor.run(flow).wait();
        ran = now();
    }
    double ended = now();
    std::printf("{\"build_ns\": %.2f, \"run_ns\": %.2f, \"total_ns\": %.2f, \"bytes\": 0}\n", (built - began) / count,
                (ran - built) / count, (ended - began) / count);
}
