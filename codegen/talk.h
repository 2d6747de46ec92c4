/*
 * talk.h - a conversation with a casting: its library is opened in this process, its cache holds
 * what was said.
 *
 * Every answer begins with the whole conversation as token ids. Those that the cache holds already
 * stay; behind the first that differs (a template may leave thoughts out, text may become other ids
 * when it is read anew) the cache is cropped, or where a ring or a state cannot be, begun anew;
 * only the rest is fed. No BOS is added: the template writes it.
 *
 * Owner  the caller; close gives everything back.
 */
#ifndef SC_TALK_H
#define SC_TALK_H

#include <signal.h>

#include "../runtime/options.h"
#include "../runtime/sample.h"
#include "chat.h"

typedef struct sc_talk sc_talk;

typedef struct {
    sc_sampling sampling;
    sc_options options;
    int64_t max_new_tokens; /* of an answer; 0: as many as the cache has room for */
    int prefill_chunk;      /* tokens that are fed at once; 0: 512 */
} sc_talk_options;

/* What one answer took. */
typedef struct {
    int64_t kept;    /* tokens that the cache held already */
    int64_t fed;     /* tokens that were fed before the answer's first */
    int64_t written; /* tokens of the answer */
    bool full;       /* it was cut because the cache is full */
    bool stopped;    /* it was cut by *stop */
} sc_talk_taken;

/*
 * The casting NAME in the folder dir, its library built. SC_EINPUT: a casting of more than one row,
 * or without a tokenizer or a template; SC_EENV: the library cannot be opened, or what the
 * casting's open and create refuse.
 */
int sc_talk_open(sc_talk **talk, sc_pool *pool, const char *dir, const char *name,
                 const sc_chat *chat, const sc_talk_options *options, sc_error *err);
void sc_talk_close(sc_talk *talk); /* NULL is allowed */

/*
 * Writes the answer to messages to out as it comes, and hands it over: *answer is malloc'd. *stop
 * other than 0 ends it. SC_EFULL: the conversation does not fit the cache; SC_EINPUT: the template
 * refuses it. The conversation can go on after a failure.
 */
int sc_talk_answer(char **answer, sc_talk_taken *taken, sc_talk *talk, const cJSON *messages,
                   FILE *out, const volatile sig_atomic_t *stop, sc_error *err);

#endif
