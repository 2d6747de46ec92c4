/* gpu_unit.c - see gpu_unit.h. */
#include "gpu_unit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static cJSON *failure(const char *reason) {
    cJSON *answer = cJSON_CreateObject();
    cJSON_AddNumberToObject(answer, "code", SC_ECHECK);
    cJSON_AddStringToObject(answer, "reason", reason);
    return answer;
}

static void answer_and_exit(gpu_unit_fn *unit, const void *what, const char *folder, int end) {
    sc_error err = { 0 };
    cJSON *answer = cJSON_CreateObject();
    const int rc = chdir(folder) ? sc_fail(&err, SC_EENV, "%s: %s", folder, strerror(errno))
                                 : unit(answer, what, &err);
    cJSON_AddNumberToObject(answer, "code", rc);
    if (rc)
        cJSON_AddStringToObject(answer, "reason", err.message);
    char *text = cJSON_PrintUnformatted(answer);
    FILE *out = fdopen(end, "w");
    const int bad = !text || !out || fputs(text, out) < 0 || fclose(out);
    _exit(bad ? EXIT_FAILURE : EXIT_SUCCESS); /* the driver's threads are not waited for */
}

/* All that comes through the pipe; the caller frees. */
static char *read_all(int end) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *from = fdopen(end, "r"), *to = open_memstream(&text, &bytes);
    for (int c; from && to && (c = getc(from)) != EOF;)
        putc(c, to);
    if (to)
        fclose(to);
    if (from)
        fclose(from);
    return text;
}

gpu_unit gpu_unit_start(gpu_unit_fn *unit, const void *what, const char *folder, unsigned seconds) {
    gpu_unit u = { .child = -1, .seconds = seconds };
    int ends[2];
    fflush(NULL);
    if (pipe(ends))
        return u;
    u.child = fork();
    u.end = ends[0];
    if (!u.child) {
        close(ends[0]);
        alarm(seconds);
        answer_and_exit(unit, what, folder, ends[1]);
    }
    close(ends[1]);
    if (u.child < 0)
        close(ends[0]);
    return u;
}

cJSON *gpu_unit_finish(const gpu_unit *u) {
    if (u->child < 0)
        return NULL;
    char *text = read_all(u->end);
    int status = 0;
    while (waitpid(u->child, &status, 0) < 0 && errno == EINTR)
        continue;
    cJSON *answer = text ? cJSON_Parse(text) : NULL;
    free(text);
    if (answer && WIFEXITED(status))
        return answer;
    cJSON_Delete(answer);
    char reason[96];
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        snprintf(reason, sizeof reason, "took longer than %u s", u->seconds);
    else if (WIFSIGNALED(status))
        snprintf(reason, sizeof reason, "ended by signal %d", WTERMSIG(status));
    else
        snprintf(reason, sizeof reason, "ended without an answer");
    return failure(reason);
}

cJSON *gpu_unit_run(gpu_unit_fn *unit, const void *what, const char *folder, unsigned seconds) {
    const gpu_unit u = gpu_unit_start(unit, what, folder, seconds);
    return gpu_unit_finish(&u);
}

int gpu_unit_code(const cJSON *answer) {
    const cJSON *code = cJSON_GetObjectItemCaseSensitive(answer, "code");
    return code ? code->valueint : SC_EENV;
}

const char *gpu_unit_reason(const cJSON *answer) {
    const cJSON *reason = cJSON_GetObjectItemCaseSensitive(answer, "reason");
    return !answer ? "no memory or no process" : cJSON_IsString(reason) ? reason->valuestring : "";
}
