/*
 * The core as a front end sees it (libflyt-client.so) against the real server and the software GPU: in process
 * (argument local), or a cricket-rpc-server on a unix socket or TCP (arguments unix, tcp, and its path). Each test in
 * a process of its own.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/core/kernels.h"
#include "tests/lib/dice.h"
#include "tests/lib/unit.h"
#include "program.h"

/* fill(address, count, value): one block of 32 threads; forever(); fault(): writes to address 16. */
const char program_code[] =
    KERNELS_BEGIN KERNEL_FILL
    ".visible .global .align 8 .b8 table[4096];\n"
    ".visible .entry forever() { L: bra L; }\n"
    ".visible .entry fault() { .reg .u64 %a; mov.u64 %a, 16; st.global.u32 [%a], 1; ret; }\n";

static core_stream stream_new(unsigned flags)
{
    core_stream s = 0;
    CHECK(core_stream_create(on(0), flags, 0, &s) == 0);
    return s;
}

/* ---- contexts ---- */

static void wait_for_it(void *flag, int status)
{
    while (!status && !atomic_load((_Atomic int *)flag))
        usleep(1000);
}

/* Two contexts of a device, beside its primary one, each with memory, code and streams of its own. */
static void body_contexts(void)
{
    static _Atomic int go;
    core_context *p = on(0), *c[2];
    core_variable *v;
    uint64_t a[2], table[2];
    uint32_t got[1000];
    size_t size;
    core_stream held;
    core_event event;
    for (int i = 0; i < 2; i++) {
        CHECK(core_context_create(0, 0, &c[i]) == 0 && core_memory_allocate(c[i], sizeof got, &a[i]) == 0);
        CHECK(fill(c[i], 0, a[i], 1000, 10 + (uint32_t)i) == 0);
        CHECK(core_variable_add(image, "table", 4096, false, &v) == 0 &&
              core_variable_address(c[i], v, &table[i], &size) == 0);
    }
    CHECK(a[0] != a[1] && table[0] != table[1]);
    for (int i = 0; i < 2; i++)
        CHECK(copy_out(c[i], 0, got, a[i], sizeof got, true) == 0 && got[999] == 10 + (uint32_t)i);
    /* The legacy stream waits for the blocking streams of its own context only; an event orders across contexts. */
    CHECK(core_stream_create(c[0], 0, 0, &held) == 0 && core_host_function(c[0], held, wait_for_it, &go, false) == 0);
    CHECK(fill(c[0], held, a[0], 1000, 20) == 0 && core_event_create(c[0], 2, &event) == 0 &&
          core_event_record(c[0], event, held, 0) == 0);
    CHECK(core_stream_query(c[0], 0) == 600 && core_context_synchronize(c[1]) == 0 && core_context_synchronize(p) == 0);
    CHECK(fill(c[1], 0, a[1], 10, 30) == 0 && core_stream_synchronize(c[1], 0) == 0 &&
          core_stream_query(c[0], 0) == 600);
    CHECK(core_stream_wait(c[1], 0, event, 0) == 0 && copy_on_device(c[1], 0, a[1], a[0], 400, false) == 0);
    CHECK(core_stream_query(c[1], 0) == 600);
    atomic_store(&go, 1);
    CHECK(copy_out(c[1], 0, got, a[1], sizeof got, true) == 0 && got[0] == 20 && got[99] == 20 && got[100] == 11);
    /* One ends, the others go on. */
    CHECK(core_context_destroy(c[0]) == 0 && core_context_check(c[0]) == 709 && core_event_query(event) == 400);
    CHECK(core_memory_free(a[0]) == 1 && fill(c[0], 0, a[0], 1, 1) == 709 && core_memory_free(a[1]) == 0);
    CHECK(core_context_create(0, 0, &c[0]) == 0 && core_memory_allocate(c[0], 4096, &a[0]) == 0);
    CHECK(fill(c[0], 0, a[0], 1000, 40) == 0 && copy_out(c[0], 0, got, a[0], 4000, true) == 0 &&
          got[999] == 40);
    CHECK(core_context_retain(p) == 0 && core_context_release(p) == 0 && core_context_check(p) == 0);
    CHECK(core_context_release(p) == 0 && core_context_check(p) == 709 && core_context_synchronize(c[0]) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(core_context_destroy(c[i]) == 0);
    CHECK(core_take_latched() == 0 && core_sticky() == 0 && fill(on(0), 0, allocate(on(0), 64), 16, 1) == 0 &&
          core_context_synchronize(on(0)) == 0);
}

/* ---- everything once ---- */

static void body_work(void)
{
    static uint32_t got[3000];
    uint64_t a = allocate(on(0), sizeof got), table;
    size_t size;
    CHECK(fill(on(0), 0, a, 3000, 0x1234) == 0 && copy_out(on(0), 0, got, a, sizeof got, true) == 0);
    for (int i = 0; i < 3000; i++)
        CHECK(got[i] == 0x1234);
    core_variable *v;
    CHECK(core_variable_add(image, "table", 4096, false, &v) == 0 &&
          core_variable_address(on(0), v, &table, &size) == 0 && size == 4096);
    CHECK(fill(on(0), 0, table, 1024, 77) == 0 && copy_on_device(on(0), 0, a, table, 4096, true) == 0);
    CHECK(copy_out(on(0), 0, got, a, 4096, true) == 0 && got[0] == 77 && got[1023] == 77);
    CHECK(core_memory_free(table) == 1 && core_memory_free(a) == 0);
    core_event e, f;
    float ms;
    core_stream s = stream_new(1);
    a = allocate(on(0), 4 * MIB);
    CHECK(core_event_create(on(0), 0, &e) == 0 && core_event_create(on(0), 0, &f) == 0);
    CHECK(core_event_record(on(0), e, s, 0) == 0 && fill(on(0), s, a, MIB, 5) == 0 &&
          core_event_record(on(0), f, s, 0) == 0);
    CHECK(core_event_synchronize(f) == 0 && core_event_elapsed(e, f, &ms) == 0 && ms >= 0 && core_event_query(e) == 0);
    CHECK(core_context_synchronize(on(0)) == 0 && core_take_latched() == 0);
    CHECK(core_context_reset(on(0)) == 0 && core_stream_query(on(0), s) == 400);
    a = allocate(on(0), 64);
    CHECK(fill(on(0), 0, a, 16, 9) == 0 && copy_out(on(0), 0, got, a, 64, true) == 0 && got[15] == 9);
}

/* ---- order ---- */

static atomic_bool go;

static void wait_for_go(void *user, int status)
{
    CHECK(status == 0);
    while (!go)
        usleep(500);
    if (user)
        memset(user, 9, 3 * MIB);
}

/* A function holds a stream with far more behind it than the server has staging memory for. What the function waits for
   comes through another stream. */
static void body_held(void)
{
    core_stream s = stream_new(1), t = stream_new(1);
    uint64_t a = allocate(on(0), 3 * MIB), b = allocate(on(0), 3 * MIB);
    uint8_t *source = malloc(3 * MIB), *back = malloc(3 * MIB);
    void *pinned;
    memset(source, 3, 3 * MIB);
    CHECK(core_host_allocate(3 * MIB, 0, &pinned) == 0);
    CHECK(core_host_function(on(0), s, wait_for_go, pinned, false) == 0);
    CHECK(copy_in(on(0), s, b, pinned, 3 * MIB, false) == 0);        /* takes what the function writes */
    for (int i = 0; i < 9; i++)
        CHECK(copy_in(on(0), s, a, source, 3 * MIB, false) == 0);
    CHECK(core_stream_query(on(0), s) == 600);
    uint64_t c = allocate(on(0), 3 * MIB);
    CHECK(copy_in(on(0), t, c, source, 3 * MIB, true) == 0 &&
          copy_out(on(0), t, back, c, 3 * MIB, true) == 0 && back[MIB] == 3);
    go = true;
    CHECK(core_stream_synchronize(on(0), s) == 0);
    CHECK(copy_out(on(0), s, back, b, 3 * MIB, true) == 0 && back[0] == 9 && back[3 * MIB - 1] == 9);
    CHECK(copy_out(on(0), s, back, a, 3 * MIB, true) == 0 && back[0] == 3 && back[3 * MIB - 1] == 3);
    free(source);
    free(back);
}

/* Copies from the device into pinned memory and on, without waiting, over many rounds and two streams. */
static void body_chain(void)
{
    enum { ROUNDS = 30, WORDS = 100000 };
    core_stream s = stream_new(1), t = stream_new(1);
    core_event e;
    uint64_t a = allocate(on(0), 4 * WORDS), b = allocate(on(0), 4 * WORDS);
    void *pinned[2];
    uint32_t *back = malloc(4 * WORDS);
    CHECK(core_event_create(on(0), 2, &e) == 0);
    CHECK(core_host_allocate(4 * WORDS, 0, &pinned[0]) == 0 && core_host_allocate(4 * WORDS, 0, &pinned[1]) == 0);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        CHECK(fill(on(0), s, a, WORDS, i) == 0);
        CHECK(copy_out(on(0), s, pinned[0], a, 4 * WORDS, false) == 0);
        CHECK(core_copy(on(0), s, pinned[1], pinned[0], 4 * WORDS, CORE_HOST_TO_HOST, false) == 0);
        CHECK(core_event_record(on(0), e, s, 0) == 0 && core_stream_wait(on(0), t, e, 0) == 0);
        CHECK(copy_in(on(0), t, b, pinned[1], 4 * WORDS, false) == 0);
        CHECK(core_event_record(on(0), e, t, 0) == 0 && core_stream_wait(on(0), s, e, 0) == 0);
        if (i % 7 && i != ROUNDS - 1)
            continue;
        CHECK(copy_out(on(0), t, back, b, 4 * WORDS, true) == 0);
        CHECK(back[0] == i && back[WORDS / 2] == i && back[WORDS - 1] == i);
        CHECK(core_host_free(pinned[0]) == 0 && core_host_allocate(4 * WORDS, 0, &pinned[0]) == 0);
    }
    CHECK(core_context_synchronize(on(0)) == 0 && core_take_latched() == 0);
    free(back);
}

static void *thread(void *argument)
{
    uint32_t mine = (uint32_t)(uintptr_t)argument, got[256];
    core_stream s = stream_new(1);
    for (uint32_t i = 0; i < 60; i++) {
        uint64_t a = allocate(on(0), 1024);
        CHECK(fill(on(0), i % 2 ? s : CORE_STREAM_PER_THREAD, a, 256, mine * 1000 + i) == 0);
        CHECK(copy_out(on(0), i % 2 ? s : CORE_STREAM_PER_THREAD, got, a, 1024, i % 3) == 0);
        for (int k = 0; k < 256; k++)
            CHECK(got[k] == mine * 1000 + i);
        CHECK(core_memory_free(a) == 0);
    }
    CHECK(core_stream_destroy(s) == 0);
    return NULL;
}

static void body_threads(void)
{
    pthread_t threads[6];
    CHECK(launch(on(0), 0, "fill", (void *[]){ &(uint64_t){ 0 }, &(uint32_t){ 0 }, &(uint32_t){ 0 } }) == 0);
    for (uintptr_t i = 0; i < 6; i++)
        pthread_create(&threads[i], NULL, thread, (void *)i);
    for (int i = 0; i < 6; i++)
        pthread_join(threads[i], NULL);
}

/* ---- random programs against a model ---- */

/* Device buffers, pinned buffers and pageable memory, four streams. Each buffer remembers the stream that used it
   last; who uses it next in another stream waits for an event of that one. So every program is sequential in what it
   means, and the model just does it, while the real thing runs asynchronously and hardly ever waits. */
enum { BUFFERS = 6, WORDS = 30000, STREAMS = 4, STEPS = 400 };

struct buffer { uint64_t device; uint32_t *pinned; uint32_t *model; int last; };

static struct {
    uint64_t      seed;
    core_stream   streams[STREAMS];
    core_event    event;
    struct buffer device[BUFFERS], pinned[BUFFERS];
    uint32_t     *pageable;
} world;

static uint32_t pick(uint32_t below) { return dice(&world.seed, below); }

static void use(struct buffer *b, int stream)
{
    if (b->last != stream && b->last >= 0) {
        CHECK(core_event_record(on(0), world.event, world.streams[b->last], 0) == 0);
        CHECK(core_stream_wait(on(0), world.streams[stream], world.event, 0) == 0);
    }
    b->last = stream;
}

struct add { uint32_t *words; uint32_t count, value; };

static void add_words(void *user, int status)
{
    struct add *a = user;
    CHECK(status == 0);
    for (uint32_t i = 0; i < a->count; i++)
        a->words[i] += a->value;
    free(a);
}

/* Makes what the program has done so far visible to this thread. */
static void settle(struct buffer *b)
{
    if (b->last < 0)
        return;
    switch (pick(3)) {
    case 0:
        CHECK(core_stream_synchronize(on(0), world.streams[b->last]) == 0);
        break;
    case 1:
        CHECK(core_event_record(on(0), world.event, world.streams[b->last], 0) == 0 &&
              core_event_synchronize(world.event) == 0);
        break;
    default:
        CHECK(core_event_record(on(0), world.event, world.streams[b->last], 0) == 0);
        for (int code_seen = 600; code_seen == 600; CHECK(code_seen == 0 || code_seen == 600))
            code_seen = core_event_query(world.event);
    }
    b->last = -1;
}

static void step(void)
{
    int stream = (int)pick(STREAMS);
    core_stream s = world.streams[stream];
    struct buffer *d = &world.device[pick(BUFFERS)], *e = &world.device[pick(BUFFERS)],
                  *h = &world.pinned[pick(BUFFERS)];
    uint32_t from = pick(WORDS), count = 1 + pick(WORDS - from), value = pick(1000000);
    switch (pick(9)) {
    case 0:
        use(d, stream);
        CHECK(fill(on(0), s, d->device + 4 * from, count, value) == 0);
        for (uint32_t i = 0; i < count; i++)
            d->model[from + i] = value;
        break;
    case 1: {                                                 /* memset */
        use(d, stream);
        struct core_box box = { d->device + 4 * from, 4 * count, 1 };
        CHECK(core_set(on(0), s, &box, &(struct core_extent){ 4 * count, 1, 1 }, value & 255, 1, false) == 0);
        memset(d->model + from, (int)(value & 255), 4 * count);
        break;
    }
    case 2:                                                   /* device to device */
        if (d == e)
            break;
        use(d, stream);
        use(e, stream);
        CHECK(copy_on_device(on(0), s, d->device + 4 * from, e->device + 4 * from, 4 * count, true) == 0);
        memcpy(d->model + from, e->model + from, 4 * count);
        break;
    case 3:                                                   /* device to pinned, later */
        use(d, stream);
        use(h, stream);
        CHECK(copy_out(on(0), s, h->pinned + from, d->device + 4 * from, 4 * count, false) == 0);
        memcpy(h->model + from, d->model + from, 4 * count);
        break;
    case 4:                                                   /* pinned to device, later or at once */
        use(d, stream);
        use(h, stream);
        CHECK(copy_in(on(0), s, d->device + 4 * from, h->pinned + from, 4 * count, value & 1) == 0);
        memcpy(d->model + from, h->model + from, 4 * count);
        break;
    case 5:                                                   /* pageable to device; the source is ours again */
        use(d, stream);
        for (uint32_t i = 0; i < count; i++)
            d->model[from + i] = world.pageable[i] = value + i;
        CHECK(copy_in(on(0), s, d->device + 4 * from, world.pageable, 4 * count, value & 1) == 0);
        memset(world.pageable, 0xAB, 4 * count);
        break;
    case 6: {                                                 /* a host function changes a pinned buffer */
        struct add *a = malloc(sizeof *a);
        use(h, stream);
        *a = (struct add){ h->pinned + from, count, value };
        CHECK(core_host_function(on(0), s, add_words, a, false) == 0);
        for (uint32_t i = 0; i < count; i++)
            h->model[from + i] += value;
        break;
    }
    case 7:                                                   /* device to pageable: compare */
        use(d, stream);
        CHECK(copy_out(on(0), s, world.pageable, d->device + 4 * from, 4 * count, value & 1) == 0);
        CHECK(memcmp(world.pageable, d->model + from, 4 * count) == 0);
        break;
    case 8:                                                   /* look at a pinned buffer */
        settle(h);
        CHECK(memcmp(h->pinned, h->model, 4 * WORDS) == 0);
        break;
    }
}

static void random_program(uint64_t seed)
{
    world.seed = seed;
    world.pageable = malloc(4 * WORDS);
    CHECK(core_event_create(on(0), 2, &world.event) == 0);
    for (int i = 0; i < STREAMS; i++)
        world.streams[i] = i ? stream_new(i != 1) : seed % 2 ? CORE_STREAM_LEGACY : CORE_STREAM_PER_THREAD;
    for (int i = 0; i < BUFFERS; i++) {
        world.device[i] = (struct buffer){ .device = allocate(on(0), 4 * WORDS), .model = calloc(WORDS, 4), .last = 2 };
        struct core_box box = { world.device[i].device, 4 * WORDS, 1 };
        CHECK(core_set(on(0), world.streams[2], &box, &(struct core_extent){ 4 * WORDS, 1, 1 }, 0, 1, false) == 0);
        void *pinned;
        CHECK(core_host_allocate(4 * WORDS, 0, &pinned) == 0);
        memset(pinned, 0, 4 * WORDS);
        world.pinned[i] = (struct buffer){ .pinned = pinned, .model = calloc(WORDS, 4), .last = -1 };
    }
    for (int i = 0; i < STEPS; i++)
        step();
    CHECK(core_context_synchronize(on(0)) == 0);
    for (int i = 0; i < BUFFERS; i++) {
        CHECK(memcmp(world.pinned[i].pinned, world.pinned[i].model, 4 * WORDS) == 0);
        CHECK(copy_out(on(0), 0, world.pageable, world.device[i].device, 4 * WORDS, true) == 0);
        CHECK(memcmp(world.pageable, world.device[i].model, 4 * WORDS) == 0);
        CHECK(core_memory_free(world.device[i].device) == 0 && core_host_free(world.pinned[i].pinned) == 0);
        free(world.device[i].model);
        free(world.pinned[i].model);
    }
    CHECK(core_take_latched() == 0);
    free(world.pageable);
    for (int i = 1; i < STREAMS; i++)
        CHECK(core_stream_destroy(world.streams[i]) == 0);
    CHECK(core_event_destroy(world.event) == 0);
}

static void body_random_programs(void)
{
    const char *seeds = getenv("FLYT_TEST_SEEDS");
    for (int i = 1; i <= (seeds ? atoi(seeds) : 8); i++) {
        if (seeds)
            fprintf(stderr, "# seed %d\n", i);
        random_program((uint64_t)i);
    }
}

/* ---- errors and ends ---- */

static void body_memory(void)
{
    size_t available, total;
    uint64_t all, more;
    CHECK(core_context_retain(core_context_primary(0)) == 0 && core_memory_info(on(0), &available, &total) == 0 &&
          available <= total);
    CHECK(core_memory_allocate(on(0), total + MIB, &all) == 2 && core_sticky() == 0);
    uint64_t kept = allocate(on(0), 1000);
    CHECK(core_memory_allocate(on(0), available / 2, &all) == 0 &&
          core_memory_allocate(on(0), available * 3 / 4, &more) == 2);
    CHECK(fill(on(0), 0, kept, 10, 1) == 0 && core_memory_free(all) == 0 &&
          core_memory_allocate(on(0), available * 3 / 4, &all) == 0);
    CHECK(core_context_synchronize(on(0)) == 0 && core_take_latched() == 0);
}

static void body_fault(void)
{
    uint64_t a = allocate(on(0), 64);
    core_stream s = stream_new(1);
    CHECK(launch(on(0), s, "fault", NULL) == 0);
    int code_seen = core_stream_synchronize(on(0), s);
    CHECK(code_seen == 700 || code_seen == 716);
    CHECK(core_sticky() == code_seen && core_context_synchronize(on(0)) == code_seen &&
          core_memory_free(a) == code_seen);
    CHECK(core_context_reset(on(0)) == 0 && fill(on(0), 0, a, 1, 1) == 709);
}

/* A kernel that does not end keeps neither this process from ending nor, afterwards, the server busy. */
static void body_forever(void)
{
    CHECK(launch(on(0), 0, "forever", NULL) == 0 && core_stream_query(on(0), 0) == 600);
}

static void body_forks(void)
{
    uint64_t a = allocate(on(0), 64);
    uint32_t got = 0;
    CHECK(fill(on(0), 0, a, 1, 5) == 0);
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        if (!child) {
            uint64_t b;
            exit(core_forked() && core_memory_allocate(on(0), 64, &b) == 3 && core_context_synchronize(on(0)) == 3 ? 0
                                                                                                                   : 1);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        CHECK(copy_out(on(0), 0, &got, a, 4, true) == 0 && got == 5);
    }
}

#define ISOLATED(name, limit) TEST(name) { assert_int_equal(isolated(body_##name, limit), 0); }
ISOLATED(work, 60)
ISOLATED(contexts, 60)
ISOLATED(held, 60)
ISOLATED(chain, 60)
ISOLATED(threads, 60)
ISOLATED(random_programs, 110)
ISOLATED(memory, 60)
ISOLATED(fault, 30)
ISOLATED(forever, 15)
ISOLATED(forks, 30)

/* In process, a server whose kernel does not end, or the copy of it in the child of a fork, keeps what it has. */
static bool in_process;
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return in_process;
}

/* ---- the server ---- */

static pid_t server;
static char socket_path[64];

static int server_start(const char *kind, const char *program)
{
    char listen[128];
    int ends[2];
    in_process = strcmp(kind, "local") == 0;
    if (in_process)
        return setenv("FLYT_SERVER", "local:software", 1);
    snprintf(socket_path, sizeof socket_path, "/tmp/flyt-test-served-%d.sock", (int)getpid());
    snprintf(listen, sizeof listen, strcmp(kind, "tcp") == 0 ? "tcp://127.0.0.1:0" : "unix://%s", socket_path);
    if (pipe(ends))
        return -1;
    server = fork();
    if (!server) {
        dup2(ends[1], 1);
        close(ends[0]);
        close(ends[1]);
        execl(program, program, "--listen", listen, "--gpu", "software", NULL);
        _exit(127);
    }
    close(ends[1]);
    FILE *said = fdopen(ends[0], "r");
    char line[256], uri[256];
    int found = said && fgets(line, sizeof line, said) && sscanf(line, "listening on %255s", uri) == 1;
    return found ? setenv("FLYT_SERVER", uri, 1) : -1;
}

int main(int argc, char **argv)
{
    if (argc < 2 || server_start(argv[1], argc > 2 ? argv[2] : "cricket-rpc-server")) {
        fprintf(stderr, "%s: cannot start the server; usage: %s local | unix SERVER | tcp SERVER\n", argv[0], argv[0]);
        return 1;
    }
    int failures = unit_run(NULL, NULL);
    if (server > 0) {
        kill(server, SIGTERM);
        waitpid(server, NULL, 0);
        unlink(socket_path);
        unlink(strncat(socket_path, ".lock", 6));
    }
    return failures;
}
