/*
 * bandwidth.c - how fast this machine reads a file of weights that is mapped as a casting maps it.
 *
 * usage: bandwidth FILE THREADS
 *
 * Maps FILE read-only and shared, hints that it will be needed, and sums it PASSES times after one
 * pass that takes the page faults. Each thread reads its own contiguous part. Prints the median
 * pass in GB/s (10^9 bytes). Decode reads every weight once per token, so no faster than this.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PASSES = 9, LANES = 32, MOST_THREADS = 64 };

typedef struct {
    const uint64_t *words;
    size_t count; /* a multiple of LANES */
    uint64_t sum;
    pthread_barrier_t *barrier;
} part;

/* LANES sums side by side, which the compiler keeps in registers. */
static uint64_t sum_of(const uint64_t *words, size_t count) {
    uint64_t lanes[LANES] = { 0 }, sum = 0;
    for (size_t i = 0; i < count; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++)
            lanes[lane] += words[i + lane];
    for (size_t lane = 0; lane < LANES; lane++)
        sum += lanes[lane];
    return sum;
}

/* Every pass lies between two barriers. */
static void *work(void *argument) {
    part *p = argument;
    for (int pass = 0; pass <= PASSES; pass++) {
        pthread_barrier_wait(p->barrier);
        p->sum += sum_of(p->words, p->count);
        pthread_barrier_wait(p->barrier);
    }
    return NULL;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    const int threads = argc == 3 ? atoi(argv[2]) : 0;
    if (threads < 1 || threads > MOST_THREADS) {
        fprintf(stderr, "usage: bandwidth FILE THREADS (1 … %d)\n", MOST_THREADS);
        return 2;
    }
    struct stat st;
    const int file = open(argv[1], O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &st)) {
        perror(argv[1]);
        return 3;
    }
    const size_t bytes = (size_t)st.st_size;
    const uint64_t *base = mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, 0);
    if (base == MAP_FAILED) {
        perror(argv[1]);
        return 4;
    }
    madvise((void *)(uintptr_t)base, bytes, MADV_WILLNEED);

    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, (unsigned)threads + 1);
    part parts[MOST_THREADS];
    pthread_t ids[MOST_THREADS];
    const size_t each = bytes / sizeof *base / LANES / (size_t)threads * LANES;
    for (int i = 0; i < threads; i++) {
        parts[i] = (part){ base + (size_t)i * each, each, 0, &barrier };
        if (pthread_create(&ids[i], NULL, work, &parts[i])) {
            perror("bandwidth");
            return 4;
        }
    }
    double seconds[PASSES];
    for (int pass = 0; pass <= PASSES; pass++) {
        const double begin = now();
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        if (pass)
            seconds[pass - 1] = now() - begin;
    }
    uint64_t sum = 0;
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        sum += parts[i].sum;
    }
    qsort(seconds, PASSES, sizeof *seconds, by_size);
    const double read = (double)(each * (size_t)threads * sizeof *base);
    printf("%.2f\n", read / seconds[PASSES / 2] * 1e-9);
    /* The sum is used, so that it is made. */
    fprintf(stderr, "bandwidth: sum %016llx\n", (unsigned long long)sum);
    return 0;
}
