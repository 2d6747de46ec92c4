/*
 * cmd_chat.c - run -i: lines in, answers out.
 *
 * In a terminal there is a prompt, Ctrl-C cuts an answer (or drops the line), Ctrl-D leaves, and
 * what goes wrong is said and forgotten. Otherwise stdin's lines are the messages, stdout has the
 * answers, and the first failure ends it.
 */
#include "cmd_chat.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <unistd.h>

#include "json.h"

enum { LINE_MOST = 1 << 20 };

static int read_whole(int64_t *number, const char *option, const char *text, int64_t least,
                      int64_t most, sc_error *err) {
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < least || value > most)
        return sc_fail(err, SC_EUSAGE, "run: %s: \"%s\" is no whole number in %lld … %lld", option,
                       text, (long long)least, (long long)most);
    *number = value;
    return SC_OK;
}

/* The sampler knows each one's range. */
static int read_real(float *number, const char *option, const char *text, sc_error *err) {
    char *end;
    const float value = strtof(text, &end);
    if (end == text || *end)
        return sc_fail(err, SC_EUSAGE, "run: %s: \"%s\" is no number", option, text);
    *number = value;
    return SC_OK;
}

int sc_chat_options(sc_cli *cli, sc_error *err) {
    sc_talk_options *t = &cli->talk;
    int64_t top_k = 0, seed = 0, chunk = 0, threads = 0;
    const struct {
        const char *name;
        int64_t *whole, least, most;
        float *real;
        const char **text;
        bool *flag;
    } options[] = {
        { "--max-new-tokens", .whole = &t->max_new_tokens, 1, INT_MAX },
        { "--top-k", .whole = &top_k, 0, INT_MAX },
        { "--seed", .whole = &seed, 0, INT64_MAX },
        { "--prefill-chunk", .whole = &chunk, 1, INT_MAX },
        { "--threads", .whole = &threads, 1, 64 },
        { "--temperature", .real = &t->sampling.temperature },
        { "--top-p", .real = &t->sampling.top_p },
        { "--min-p", .real = &t->sampling.min_p },
        { "--repetition-penalty", .real = &t->sampling.repetition_penalty },
        { "--device", .text = &t->options.device },
        { "--check", .flag = &t->options.check },
        { "--no-graph", .flag = &t->options.no_graph },
    };
    enum { OPTIONS = sizeof options / sizeof *options };
    if (cli->system && !sc_json_utf8(cli->system, strlen(cli->system)))
        return sc_fail(err, SC_EUSAGE, "run: --system: is no UTF-8 text");
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
        int rc = SC_OK;
        if (options[which].text)
            *options[which].text = value;
        else if (options[which].real)
            rc = read_real(options[which].real, options[which].name, value, err);
        else
            rc = read_whole(options[which].whole, options[which].name, value, options[which].least,
                            options[which].most, err);
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

/* A command, or a message; false: the conversation ends. */
static bool obey(conversation *c, const char *line, int *rc, sc_error *err) {
    if (!strcmp(line, "/exit"))
        return false;
    if (!strcmp(line, "/help"))
        fputs(commands, stderr);
    else if (!strcmp(line, "/reset"))
        *rc = begin(c, err);
    else if (*line)
        *rc = exchange(c, line, err);
    return true;
}

/* A line as it was read. In a terminal a failure is said, and forgotten. */
static bool take_line(conversation *c, char *line, size_t bytes, int *rc, sc_error *err) {
    bool more = true;
    if (bytes > LINE_MOST)
        *rc = sc_fail(err, SC_EINPUT, "standard input: a line has more than %d bytes", LINE_MOST);
    else if (!sc_json_utf8(line, bytes))
        *rc = sc_fail(err, SC_EINPUT, "standard input: a line is no UTF-8 text");
    else {
        line[bytes] = 0;
        more = obey(c, line, rc, err);
    }
    if (*rc && c->terminal) {
        fprintf(stderr, "%s\n", err->message);
        *rc = SC_OK;
    }
    return more && !*rc;
}

/* The prompt, until there is input: stdin has no buffer that hides some. False: Ctrl-C. */
static bool wait_for_input(void) {
    fd_set input;
    sigset_t cut, before;
    FD_ZERO(&input);
    FD_SET(STDIN_FILENO, &input);
    sigemptyset(&cut);
    sigaddset(&cut, SIGINT);
    interrupted = 0;
    fputs("> ", stderr);
    sigprocmask(SIG_BLOCK, &cut, &before); /* let in by pselect alone, so none is missed */
    if (!interrupted)
        pselect(STDIN_FILENO + 1, &input, NULL, NULL, NULL, &before);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return !interrupted;
}

/* A line without its end, perhaps of LINE_MOST + 1 bytes: too long. False: there is none. */
static bool read_line(char line[LINE_MOST + 1], size_t *bytes) {
    int c = 0;
    *bytes = 0;
    while (*bytes <= LINE_MOST && (c = getc(stdin)) != EOF && c != '\n')
        line[(*bytes)++] = (char)c;
    if (*bytes && c == '\n' && line[*bytes - 1] == '\r')
        --*bytes;
    return c != EOF || (*bytes && !ferror(stdin));
}

static int converse(conversation *c, sc_error *err) {
    char *line = malloc(LINE_MOST + 1);
    size_t bytes;
    int rc = line ? SC_OK : sc_oom(err, "chatting");
    for (bool more = !rc; more;) {
        if (c->terminal && !wait_for_input())
            fputc('\n', stderr); /* and whatever was typed is gone */
        else if (read_line(line, &bytes))
            more = take_line(c, line, bytes, &rc, err);
        else
            more = false;
    }
    if (!rc && ferror(stdin))
        rc = sc_fail(err, SC_EENV, "standard input: %s", strerror(errno));
    free(line);
    return rc;
}

int sc_chat_run(const char *dir, const char *name, const sc_cli *cli, sc_pool *pool, FILE *out,
                sc_error *err) {
    conversation c = {
        .system = cli->system, .verbose = cli->verbose, .out = out, .terminal = isatty(STDIN_FILENO)
    };
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
    if (!rc && c.terminal) {
        const struct sigaction cut = { .sa_handler = interrupt, .sa_flags = SA_RESTART };
        sigaction(SIGINT, &cut, NULL);
        setvbuf(stdin, NULL, _IONBF, 0);
    }
    if (!rc)
        rc = converse(&c, err);
    if (!rc && c.terminal)
        fputc('\n', stderr);
    cJSON_Delete(c.messages);
    sc_talk_close(c.talk);
    return rc;
}
