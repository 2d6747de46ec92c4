/*
 * options.h - the words of a command line, read once for every command.
 */
#ifndef SC_CLI_OPTIONS_H
#define SC_CLI_OPTIONS_H

#include "export.h"
#include "talk.h"

typedef struct {
    const char *command;
    const char *model[2]; /* MODEL, DIR, … in order */
    int models;
    const char *output; /* -o */
    bool json;
    sc_export_options export;
    int rest; /* run, bench: words for the casting's program */
    const char **word;
    int rows; /* run: rows that -p and --token-ids give */
    bool given_batch;
    bool chat; /* run -i, and what it takes besides: */
    bool verbose;
    const char *system, *chat_template;
    sc_talk_options talk;
    const char *bench; /* bench: "P,D,R" */
    const char *html;  /* plan: the page's file */
    uint64_t memory;   /* plan: what has to fit, in bytes; 0: not asked */
} sc_cli;

/* SC_EUSAGE names the option and what it wants. Nothing is printed. */
int sc_cli_read(sc_cli *cli, sc_pool *pool, int argc, char **argv, sc_error *err);

/* The commands. Data goes to out, talk to stderr. */
int sc_cmd_inspect(const sc_cli *cli, sc_pool *pool, FILE *out, sc_error *err);
int sc_cmd_plan(const sc_cli *cli, sc_pool *pool, FILE *out, sc_error *err);
int sc_cmd_export(const sc_cli *cli, sc_pool *pool, FILE *out, sc_error *err);
int sc_cmd_pack(const sc_cli *cli, sc_pool *pool, FILE *out, sc_error *err);
int sc_cmd_run(const sc_cli *cli, sc_pool *pool, FILE *out, sc_error *err); /* bench too */
int sc_cmd_verify(const sc_cli *cli, sc_pool *pool, FILE *out, sc_error *err);
int sc_cmd_diff(const sc_cli *cli, sc_pool *pool, FILE *out, sc_error *err);

#endif
