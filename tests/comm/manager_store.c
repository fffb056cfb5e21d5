/*
 * manager_store.c: a program that knows flyt_comm.h only, and uses the cluster manager's store. manager_store.py starts
 * it:
 *
 *   job RANK RANKS     ranks meet in the store, add all their numbers, and count themselves there
 *   set KEY VALUE      sets it, says so, and ends when its standard input does
 *   get KEY MS         says the value, or why not
 *   add KEY NUMBER     says the sum, and ends when its standard input does
 *   fill               sets values until the store has no room, and says how many and why
 *   wrong              what is refused
 */
#include "cpu/client/comm/flyt_comm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT = 60000 };

static flyt_store *store;

static int must(int status, const char *what)
{
    if (status == 0)
        return 0;
    printf("%s: %d: %s\n", what, status, flyt_comm_error());
    exit(1);
}

/* Until nobody wants it any more. */
static int stay(void)
{
    fflush(stdout);
    while (getchar() != EOF)
        ;
    flyt_store_destroy(store);
    return 0;
}

static int job(unsigned rank, unsigned ranks)
{
    const flyt_context_options options = { .rank = rank, .size = ranks, .interfaces = "lo" };
    flyt_store *own;
    flyt_context *context;
    int64_t sum = 0, number = rank + 1;
    must(flyt_store_prefix(store, "job/", &own), "prefix");
    must(flyt_context_create(&options, own, &context), "context");
    must(flyt_context_connect_full_mesh(context, LIMIT), "connecting");
    must(flyt_all_reduce(context, &number, &number, 1, FLYT_INT64, FLYT_SUM, LIMIT), "all-reduce");
    must(flyt_store_add(store, "count", 1, &sum), "counting");
    must(flyt_barrier(context, LIMIT), "barrier");
    must(flyt_store_add(store, "count", 0, &sum), "counting");
    printf("sum %lld count %lld\n", (long long)number, (long long)sum);
    must(flyt_barrier(context, LIMIT), "barrier");
    flyt_context_destroy(context);
    flyt_store_destroy(own);
    flyt_store_destroy(store);
    return 0;
}

static int get(const char *key, unsigned ms)
{
    char value[100];
    size_t size = 0;
    int status = flyt_store_get(store, key, value, sizeof value, &size, ms);
    if (status)
        printf("%d: %s\n", status, flyt_comm_error());
    else
        printf("%.*s\n", (int)size, value);
    flyt_store_destroy(store);
    return 0;
}

static int fill(void)
{
    char key[32];
    static char value[1024];
    int count = 0, status = 0;
    for (; status == 0 && count < 100000; count += status == 0) {
        snprintf(key, sizeof key, "fill-%d", count);
        status = flyt_store_set(store, key, value, count % 2 ? sizeof value : 1, LIMIT);
    }
    printf("%d values: %d: %s\n", count, status, flyt_comm_error());
    flyt_store_destroy(store);
    return 0;
}

static void refused(int status, int wanted, const char *what)
{
    if (status != wanted) {
        printf("%s: %d, not %d: %s\n", what, status, wanted, flyt_comm_error());
        exit(1);
    }
}

static int wrong(void)
{
    static char large[20000], key[201];
    int64_t sum;
    flyt_store *hash;
    memset(key, 'k', sizeof key - 1);
    must(flyt_store_set(store, key, "x", 1, LIMIT), "a long key");
    refused(flyt_store_set(store, "large", large, sizeof large, LIMIT), -EINVAL, "a large value");
    refused(flyt_store_set(store, "", "x", 1, LIMIT), -EINVAL, "no key");
    must(flyt_store_set(store, "word", "word", 4, LIMIT), "a word");
    refused(flyt_store_add(store, "word", 1, &sum), -EINVAL, "adding to a word");
    must(flyt_store_add(store, "most", INT64_MAX, &sum), "the largest number");
    refused(flyt_store_add(store, "most", 1, &sum), -EINVAL, "one more");
    must(flyt_store_hash(&hash), "a hash");
    refused(flyt_store_add(hash, "number", 1, &sum), -ENOTSUP, "a store that does not add");
    flyt_store_destroy(hash);
    puts("all refused");
    return stay();
}

int main(int argc, char **argv)
{
    int64_t sum;
    const char *what = argc > 1 ? argv[1] : "";
    int status = flyt_store_manager(&store);
    if (status) {
        printf("%d: %s\n", status, flyt_comm_error());
        return 0;
    }
    if (strcmp(what, "job") == 0)
        return job((unsigned)atoi(argv[2]), (unsigned)atoi(argv[3]));
    if (strcmp(what, "get") == 0)
        return get(argv[2], (unsigned)atoi(argv[3]));
    if (strcmp(what, "fill") == 0)
        return fill();
    if (strcmp(what, "wrong") == 0)
        return wrong();
    if (strcmp(what, "set") == 0) {
        must(flyt_store_set(store, argv[2], argv[3], strlen(argv[3]), LIMIT), "set");
        puts("set");
        return stay();
    }
    must(flyt_store_add(store, argv[2], atoll(argv[3]), &sum), "add");
    printf("%lld\n", (long long)sum);
    return stay();
}
