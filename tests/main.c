/*
 * main.c - runs every suite, each in a process of its own, as many at a time as there are
 * processors. What a suite prints comes whole when it ends; the last line counts all of them.
 *
 * The Makefile writes suites.h, one SUITE(name) per tests/check_name.c, which defines
 * `Suite *name_suite(void)`; a new file needs no line here. CK_RUN_SUITE=name runs that one alone,
 * in this process.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/once.h"

#define SUITE(name) Suite *name##_suite(void);
#include "suites.h"
#undef SUITE

typedef struct {
    const char *name;
    Suite *(*make)(void);
    pid_t process;
    FILE *said;
} suite;

typedef struct {
    int checks, failures, errors;
} outcome;

static suite suites[] = {
#define SUITE(word) { .name = #word, .make = word##_suite },
#include "suites.h"
#undef SUITE
};
enum { SUITES = sizeof suites / sizeof *suites };

/* Two suites take turns on a processor where a test's timeout means one: programs that a test
 * starts have threads. */
static const char patience[] = "4";

static outcome run(const suite *s) {
    SRunner *runner = srunner_create(s->make());
    srunner_run_all(runner, CK_NORMAL);
    outcome o = { .checks = srunner_ntests_run(runner) };
    TestResult **results = srunner_failures(runner);
    for (int i = 0; i < srunner_ntests_failed(runner); i++)
        *(tr_rtype(results[i]) == CK_FAILURE ? &o.failures : &o.errors) += 1;
    free(results);
    srunner_free(runner);
    return o;
}

/* In a child, which ends as a program does: a sanitizer looks for leaks then. */
static void start(suite *s, outcome *o) {
    fflush(NULL);
    s->said = tmpfile();
    s->process = s->said ? fork() : -1;
    if (s->process < 0) {
        perror(s->name);
        exit(EXIT_FAILURE);
    }
    if (s->process)
        return;
    if (dup2(fileno(s->said), STDOUT_FILENO) < 0 || dup2(fileno(s->said), STDERR_FILENO) < 0)
        exit(EXIT_FAILURE);
    *o = run(s);
    exit(o->failures || o->errors ? EXIT_FAILURE : EXIT_SUCCESS);
}

/* The next suite that ends: what it said, and an error more when it broke off. */
static void finish(outcome *outcomes) {
    int status, c, i = 0;
    const pid_t ended = wait(&status);
    while (i < SUITES && suites[i].process != ended)
        i++;
    if (i == SUITES)
        return;
    rewind(suites[i].said);
    while ((c = getc(suites[i].said)) != EOF)
        putchar(c);
    fclose(suites[i].said);
    outcome *o = &outcomes[i];
    if (status && !o->failures && !o->errors) {
        printf("%s: ended with status %#x\n", suites[i].name, (unsigned)status);
        o->errors++;
    }
    fflush(stdout);
}

int main(void) {
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    const char *chosen = getenv("CK_RUN_SUITE");
    outcome all = { 0 }, *outcomes = mmap(NULL, sizeof *outcomes * SUITES, PROT_READ | PROT_WRITE,
                                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (outcomes == MAP_FAILED)
        return EXIT_FAILURE;
    once_start();
    setenv("CK_TIMEOUT_MULTIPLIER", patience, 0);
    int running = 0;
    for (int i = 0; i < SUITES; i++) {
        if (chosen && !strcmp(chosen, suites[i].name)) {
            all = run(&suites[i]);
            return all.failures || all.errors ? EXIT_FAILURE : EXIT_SUCCESS;
        }
        if (chosen)
            continue;
        if (running == processors) {
            finish(outcomes);
            running--;
        }
        start(&suites[i], &outcomes[i]);
        running++;
    }
    for (; running; running--)
        finish(outcomes);
    for (int i = 0; i < SUITES; i++) {
        all.checks += outcomes[i].checks;
        all.failures += outcomes[i].failures;
        all.errors += outcomes[i].errors;
    }
    const int bad = all.failures + all.errors;
    printf("%d%%: Checks: %d, Failures: %d, Errors: %d\n",
           all.checks ? (all.checks - bad) * 100 / all.checks : 0, all.checks, all.failures,
           all.errors);
    return bad || !all.checks ? EXIT_FAILURE : EXIT_SUCCESS;
}
