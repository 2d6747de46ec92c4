/*
 * measure.c - run a program; tell when it first wrote, when it ended, and its most memory.
 *
 * usage: measure FILE PROGRAM [ARGUMENT …]
 *
 * What the program writes to stdout goes to FILE. Prints "first_ms wall_ms peak_kib": time from
 * just before fork to the first byte of stdout (-1: it wrote nothing), the same to its end, and
 * the maximum resident set of it and of the children it waited for. Exits as the program does.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: measure FILE PROGRAM [ARGUMENT …]\n");
        return 2;
    }
    FILE *kept = fopen(argv[1], "w");
    int ends[2];
    if (!kept || pipe(ends)) {
        perror(argv[1]);
        return 4;
    }
    const double begin = now_ms();
    const pid_t child = fork();
    if (child < 0) {
        perror("measure: fork");
        return 4;
    }
    if (!child) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execvp(argv[2], argv + 2);
        perror(argv[2]);
        _exit(127);
    }
    close(ends[1]);
    double first = -1;
    char bytes[4096];
    for (ssize_t n; (n = read(ends[0], bytes, sizeof bytes)) > 0;) {
        if (first < 0)
            first = now_ms() - begin;
        fwrite(bytes, 1, (size_t)n, kept);
    }
    int status;
    struct rusage used;
    if (wait4(child, &status, 0, &used) != child || fclose(kept)) {
        perror("measure");
        return 4;
    }
    printf("%.2f %.2f %ld\n", first, now_ms() - begin, used.ru_maxrss);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
