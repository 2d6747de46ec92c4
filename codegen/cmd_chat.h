/* cmd_chat.h - run -i: a conversation with a casting whose library is built. */
#ifndef SC_CMD_CHAT_H
#define SC_CMD_CHAT_H

#include "options.h"

/* dir holds the casting NAME. Answers go to out, all else to stderr. */
int sc_chat_run(const char *dir, const char *name, const sc_cli *cli, sc_pool *pool, FILE *out,
                sc_error *err);

/* cli->talk from the words for the casting's program. SC_EUSAGE: one that a chat does not have, or
 * a value that is none. */
int sc_chat_options(sc_cli *cli, sc_error *err);

#endif
