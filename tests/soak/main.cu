// shows: soak: CUB, Thrust and libcu++ algorithms of random types, sizes and values give the host's result
//
// soak [SECONDS [SEED [RUN]]]: draws algorithms for so long (default 2 s), from a seed that is printed (default: the
// time). Each run has a number, from which with the seed all that it does follows: RUN repeats that one alone.
// FLYT_SOAK_ONLY=name leaves the others out.
#include "tests/soak/soak.h"

#include <chrono>
#include <csignal>
#include <ctime>
#include <unistd.h>

namespace soak
{

static algorithm *list;
static std::string current;
static int failures;

algorithm::algorithm(const char *name, void (*run)(dice &)) : name(name), run(run), next(list) { list = this; }

void now(const std::string &what, long long size) { current += " " + what + ", " + std::to_string(size); }

void wrong(const std::string &why)
{
    failures++;
    fprintf(stderr, "wrong: %s: %s\n", current.c_str(), why.c_str());
}

// A kernel that never ends is a wrong result too: which one?
enum { ENDLESS = 120 };
static void endless(int)
{
    static const char say[] = "wrong: a run that does not end: ";
    if (write(2, say, sizeof say - 1) < 0 || write(2, current.c_str(), current.size()) < 0 || write(2, "\n", 1) < 0)
        _exit(2);
    _exit(1);
}

// In the order of their names: the linker's order may differ between builds.
static std::vector<algorithm *> sorted()
{
    std::vector<algorithm *> all;
    const char *only = getenv("FLYT_SOAK_ONLY");
    for (algorithm *a = list; a; a = a->next)
        if (!only || strstr(a->name, only))
            all.push_back(a);
    std::sort(all.begin(), all.end(),
              [](const algorithm *a, const algorithm *b) { return strcmp(a->name, b->name) < 0; });
    return all;
}

}

int main(int argc, char **argv)
{
    using clock = std::chrono::steady_clock;
    double seconds = argc > 1 ? atof(argv[1]) : 2;
    unsigned long long seed = argc > 2 ? strtoull(argv[2], nullptr, 10) : (unsigned long long)time(nullptr);
    unsigned long long first = argc > 3 ? strtoull(argv[3], nullptr, 10) : 0, run = first;
    std::vector<soak::algorithm *> all = soak::sorted();
    if (all.empty()) {
        fprintf(stderr, "soak: no algorithm has that name\n");
        return 2;
    }
    signal(SIGALRM, soak::endless);
    printf("soak: seed %llu\n", seed);
    fflush(stdout);
    auto until = clock::now() + std::chrono::duration<double>(seconds);
    do {
        soak::dice d(seed * 1000003 + run);
        soak::algorithm *a = all[d.below((unsigned)all.size())];
        soak::current =
            a->name + std::string(" (repeat: soak 0 ") + std::to_string(seed) + " " + std::to_string(run) + "):";
        alarm(soak::ENDLESS);
        a->run(d);
        run++;
        if (check_failures || soak::failures >= 5) {
            fprintf(stderr, "after: %s\n", soak::current.c_str());
            break;
        }
    } while (clock::now() < until && argc <= 3);
    printf("soak: seed %llu: %llu runs of %zu algorithms, %d wrong\n", seed, run - first, all.size(),
           soak::failures + check_failures);
    return soak::failures || check_failures;
}
