/*
 * cmd_chat.c - run -i: lines in, answers out.
 *
 * In a terminal there is a prompt, Ctrl-C cuts an answer (or drops the line), Ctrl-D leaves, and what
 * goes wrong is said and forgotten. Otherwise stdin's lines are the messages, stdout has the answers,
 * and the first failure ends it.
 */
#include "cmd_chat.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A whole number of 0 or more, or a number that is not negative, into the one that is not NULL. */
static int read_value(const char *option, const char *text, int64_t *whole, float *real,
                      sc_error *err) {
    char *end;
    errno = 0;
    const long long integer = whole ? strtoll(text, &end, 10) : 0;
    const float number = whole ? 0 : strtof(text, &end);
    if (end == text || *end || errno || integer < 0 || (whole && integer > INT_MAX) ||
        !(number >= 0))
        return sc_fail(err, SC_EUSAGE, "%s: \"%s\" is no %s of 0 or more", option, text,
                       whole ? "whole number" : "number");
    if (whole)
        *whole = integer;
    else
        *real = number;
    return SC_OK;
}

int sc_chat_options(sc_cli *cli, sc_error *err) {
    sc_talk_options *t = &cli->talk;
    int64_t top_k = 0, seed = 0, chunk = 0, threads = 0;
    const struct {
        const char *name;
        int64_t *whole;
        float *real;
        const char **text;
        bool *flag;
    } options[] = {
        { "--max-new-tokens", .whole = &t->max_new_tokens },
        { "--top-k", .whole = &top_k },
        { "--seed", .whole = &seed },
        { "--prefill-chunk", .whole = &chunk },
        { "--threads", .whole = &threads },
        { "--temperature", .real = &t->sampling.temperature },
        { "--top-p", .real = &t->sampling.top_p },
        { "--min-p", .real = &t->sampling.min_p },
        { "--repetition-penalty", .real = &t->sampling.repetition_penalty },
        { "--device", .text = &t->options.device },
        { "--check", .flag = &t->options.check },
        { "--no-graph", .flag = &t->options.no_graph },
    };
    enum { OPTIONS = sizeof options / sizeof *options };
    for (int i = 0; i < cli->rest; i++) {
        int which = 0;
        while (which < OPTIONS && strcmp(options[which].name, cli->word[i]))
            which++;
        if (which == OPTIONS)
            return sc_fail(err, SC_EUSAGE, "run: %s: is not for a chat (-i)", cli->word[i]);
        if (options[which].flag) {
            *options[which].flag = true;
            continue;
        }
        const char *value = cli->word[++i];
        if (options[which].text) {
            *options[which].text = value;
            continue;
        }
        const int rc = read_value(options[which].name, value, options[which].whole,
                                  options[which].real, err);
        if (rc)
            return rc;
    }
    t->sampling.top_k = (int)top_k;
    t->sampling.seed = (uint64_t)seed;
    t->prefill_chunk = (int)chunk;
    t->options.threads = (int)threads;
    return SC_OK;
}

static volatile sig_atomic_t interrupted;

static void interrupt(int signal_number) {
    (void)signal_number;
    interrupted = 1;
}

typedef struct {
    sc_talk *talk;
    cJSON *messages;
    const char *system;
    bool terminal, verbose;
    FILE *out;
} conversation;

static int add_message(cJSON *messages, const char *role, const char *content, sc_error *err) {
    cJSON *message = cJSON_CreateObject();
    if (message && cJSON_AddStringToObject(message, "role", role) &&
        cJSON_AddStringToObject(message, "content", content) &&
        cJSON_AddItemToArray(messages, message))
        return SC_OK;
    cJSON_Delete(message);
    return sc_oom(err, "keeping the conversation");
}

static int begin(conversation *c, sc_error *err) {
    cJSON_Delete(c->messages);
    c->messages = cJSON_CreateArray();
    if (!c->messages)
        return sc_oom(err, "keeping the conversation");
    return c->system ? add_message(c->messages, "system", c->system, err) : SC_OK;
}

static void drop_last(conversation *c) {
    cJSON_DeleteItemFromArray(c->messages, cJSON_GetArraySize(c->messages) - 1);
}

static void report(const conversation *c, const sc_talk_taken *taken) {
    if (taken->full)
        fprintf(stderr, "[the answer is cut: the cache is full (/reset, or --max-cache-len)]\n");
    if (c->verbose)
        fprintf(stderr, "[%lld tokens kept, %lld fed, %lld written]\n", (long long)taken->kept,
                (long long)taken->fed, (long long)taken->written);
}

/* One message and its answer. What failed, or was cut before its first token, was not said. */
static int exchange(conversation *c, const char *line, sc_error *err) {
    char *answer = NULL;
    sc_talk_taken taken;
    int rc = add_message(c->messages, "user", line, err);
    if (rc)
        return rc;
    interrupted = 0;
    rc = sc_talk_answer(&answer, &taken, c->talk, c->messages, c->out, &interrupted, err);
    if (!rc) {
        fputc('\n', c->out);
        fflush(c->out);
        report(c, &taken);
    }
    if (!rc && taken.stopped && !taken.written)
        drop_last(c);
    else if (!rc)
        rc = add_message(c->messages, "assistant", answer, err);
    else
        drop_last(c);
    free(answer);
    return rc;
}

static const char commands[] = "/reset  begin anew (the system prompt stays)\n"
                               "/exit   leave (or Ctrl-D)\n"
                               "/help   this\n"
                               "Ctrl-C cuts an answer.\n";

/* Returns false when the line ends the conversation. */
static bool obey(conversation *c, const char *line, int *rc, sc_error *err) {
    *rc = SC_OK;
    if (!strcmp(line, "/exit"))
        return false;
    if (!strcmp(line, "/help"))
        fputs(commands, stderr);
    else if (!strcmp(line, "/reset"))
        *rc = begin(c, err);
    else if (*line)
        *rc = exchange(c, line, err);
    if (*rc && c->terminal) {
        fprintf(stderr, "%s\n", err->message);
        *rc = SC_OK;
    }
    return !*rc;
}

static int converse(conversation *c, sc_error *err) {
    char *line = NULL;
    size_t room = 0;
    int rc = SC_OK;
    for (bool more = true; more;) {
        if (c->terminal)
            fputs("> ", stderr);
        errno = 0;
        const ssize_t n = getline(&line, &room, stdin);
        if (n < 0 && errno == EINTR && c->terminal) { /* Ctrl-C drops the line */
            clearerr(stdin);
            fputc('\n', stderr);
            continue;
        }
        if (n < 0)
            break;
        line[strcspn(line, "\r\n")] = 0;
        more = obey(c, line, &rc, err);
    }
    if (!rc && ferror(stdin))
        rc = sc_fail(err, SC_EENV, "standard input: %s", strerror(errno));
    if (!rc && c->terminal)
        fputc('\n', stderr);
    free(line);
    return rc;
}

int sc_chat_run(const char *dir, const char *name, const sc_cli *cli, sc_pool *pool, FILE *out,
                sc_error *err) {
    conversation c = { .system = cli->system, .verbose = cli->verbose, .out = out,
                       .terminal = isatty(STDIN_FILENO) };
    sc_chat *chat = NULL;
    const char *path = sc_pool_printf(pool, "%s/%s.chat", dir, name);
    int rc = path ? SC_OK : sc_oom(err, "chatting");
    if (!rc && access(path, F_OK))
        rc = sc_fail(err, SC_EINPUT,
                     "%s: is missing (a model without a tokenizer, or a casting of an older "
                     "slipcast: export it again)",
                     path);
    if (!rc)
        rc = sc_chat_read(&chat, pool, path, err);
    if (!rc && cli->chat_template)
        rc = sc_chat_replace(chat, pool, cli->chat_template, err);
    if (!rc)
        rc = sc_talk_open(&c.talk, pool, dir, name, chat, &cli->talk, err);
    if (!rc)
        rc = begin(&c, err);
    struct sigaction cut = { .sa_handler = interrupt }, before; /* no SA_RESTART: it ends a read */
    if (!rc && !sigaction(SIGINT, &cut, &before)) {
        rc = converse(&c, err);
        sigaction(SIGINT, &before, NULL);
    }
    cJSON_Delete(c.messages);
    sc_talk_close(c.talk);
    return rc;
}
