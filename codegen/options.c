/* options.c - see options.h. */
#include "options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmd_chat.h"
#include "plan_memory.h"

static int read_number(int64_t *number, const char *option, const char *text, int64_t least,
                       sc_error *err) {
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < least)
        return sc_fail(err, SC_EUSAGE, "%s: \"%s\" is no %s", option, text,
                       least ? "positive whole number" : "whole number of 0 or more");
    *number = value;
    return SC_OK;
}

static int read_count(int64_t *count, const char *option, const char *text, sc_error *err) {
    return read_number(count, option, text, 1, err);
}

/* Options of the casting's program that take a value, and those that do not. */
static int run_option(const char *word) {
    static const char *const valued[] = { "-p",
                                          "--prompt",
                                          "--token-ids",
                                          "--max-new-tokens",
                                          "--temperature",
                                          "--top-k",
                                          "--top-p",
                                          "--min-p",
                                          "--repetition-penalty",
                                          "--seed",
                                          "--prefill-chunk",
                                          "--threads",
                                          "--offload-to",
                                          "--device",
                                          "--dump",
                                          "--session" };
    static const char *const bare[] = { "--ignore-eos", "--check", "--no-display-prompt",
                                        "--no-graph" };
    for (size_t i = 0; i < sizeof valued / sizeof *valued; i++)
        if (!strcmp(word, valued[i]))
            return 2;
    for (size_t i = 0; i < sizeof bare / sizeof *bare; i++)
        if (!strcmp(word, bare[i]))
            return 1;
    return 0;
}

static int count_rows(const char *token_ids) {
    int rows = 1;
    for (const char *c = token_ids; *c; c++)
        rows += *c == ';';
    return rows;
}

static int read_word(sc_cli *cli, const char *word, const char *value, int *taken, sc_error *err) {
    sc_export_options *e = &cli->export;
    const bool runs = !strcmp(cli->command, "run") || !strcmp(cli->command, "bench");
    const bool plans = !strcmp(cli->command, "plan");
    *taken = 1;
    if (!strcmp(word, "--json"))
        cli->json = true;
    else if (!strcmp(word, "--quiet"))
        e->quiet = true;
    else if (!strcmp(word, "--generic"))
        e->generic = true;
    else if (!strcmp(word, "--emit-only"))
        e->emit_only = true;
    else if (!strcmp(word, "--offloading"))
        e->offloading = true;
    else if (!strcmp(word, "--no-offload-only-non-sliding"))
        e->offload_sliding = true;
    else if (!strcmp(cli->command, "run") && !strcmp(word, "-i"))
        cli->chat = true;
    else if (!strcmp(cli->command, "run") && !strcmp(word, "--verbose"))
        cli->verbose = true;
    else if (word[0] != '-' || !word[1]) {
        if (cli->models == 2)
            return sc_fail(err, SC_EUSAGE,
                           "%s: one argument too many: \"%s\" (see slipcast --help)", cli->command,
                           word);
        cli->model[cli->models++] = word;
    } else if (runs && run_option(word) == 1)
        cli->word[cli->rest++] = word;
    else {
        if (!value)
            return sc_fail(err, SC_EUSAGE,
                           "%s: %s: is unknown or lacks its value (see slipcast --help)",
                           cli->command, word);
        *taken = 2;
        if (!strcmp(word, "-o") || !strcmp(word, "--output"))
            cli->output = value;
        else if (!strcmp(word, "--max-cache-len"))
            return read_count(&e->max_cache_len, word, value, err);
        else if (!strcmp(word, "--batch-size")) {
            cli->given_batch = true;
            return read_count(&e->batch_size, word, value, err);
        } else if (!strcmp(word, "--dtype"))
            e->dtype = value;
        else if (!strcmp(word, "--kv-dtype"))
            e->kv_dtype = value;
        else if (!strcmp(word, "--rewind"))
            return read_count(&e->rewind, word, value, err);
        else if (!strcmp(word, "--arch"))
            e->arch = value;
        else if (!strcmp(word, "--name"))
            e->name = value;
        else if (!strcmp(word, "--only")) {
            if (strcmp(value, "cache"))
                return sc_fail(err, SC_EUSAGE, "--only: \"%s\" is none of cache", value);
            e->only_cache = true;
        } else if (!strcmp(word, "--target")) {
            e->target = value;
        } else if (!strcmp(word, "--offload-weights"))
            return read_number(&e->offload_weights, word, value, 0, err);
        else if (plans && !strcmp(word, "--html")) {
            if (!*value || !strcmp(value, "-"))
                return sc_fail(err, SC_EUSAGE, "--html: \"%s\" is no file (name one)", value);
            cli->html = value;
        } else if (plans && !strcmp(word, "--memory"))
            return sc_memory_read(&cli->memory, word, value, err);
        else if (runs && !strcmp(word, "--system"))
            cli->system = value;
        else if (runs && !strcmp(word, "--chat-template"))
            cli->chat_template = value;
        else if (runs && !strcmp(word, "--bench"))
            cli->bench = value;
        else if (runs && run_option(word)) {
            if (!strcmp(word, "-p") || !strcmp(word, "--prompt"))
                cli->rows++;
            if (!strcmp(word, "--token-ids"))
                cli->rows = count_rows(value);
            cli->word[cli->rest++] = word;
            cli->word[cli->rest++] = value;
        } else
            return sc_fail(err, SC_EUSAGE, "%s: %s: is an unknown option (see slipcast --help)",
                           cli->command, word);
    }
    return SC_OK;
}

int sc_cli_read(sc_cli *cli, sc_pool *pool, int argc, char **argv, sc_error *err) {
    *cli = (sc_cli){ .command = argv[1],
                     .word = sc_pool_alloc(pool, (size_t)argc + 8, sizeof *cli->word) };
    if (!cli->word)
        return sc_oom(err, "reading options");
    for (int i = 2, taken = 0; i < argc; i += taken) {
        const int rc = read_word(cli, argv[i], i + 1 < argc ? argv[i + 1] : NULL, &taken, err);
        if (rc)
            return rc;
    }
    if (cli->export.only_cache && strcmp(cli->command, "plan") && strcmp(cli->command, "export"))
        return sc_fail(err, SC_EUSAGE, "%s: --only cache: there is no forward pass to %s",
                       cli->command, cli->command);
    if (!cli->chat && (cli->system || cli->chat_template || cli->verbose))
        return sc_fail(err, SC_EUSAGE,
                       "%s: --system, --chat-template, --verbose: are of a chat (-i)",
                       cli->command);
    if (!cli->models)
        return sc_fail(err, SC_EUSAGE,
                       "%s: which model? (an HF folder, its config.json or a GGUF file)",
                       cli->command);
    return cli->chat ? sc_chat_options(cli, err) : SC_OK;
}
