/* trace.h - the reference's traces of its caches, tests/reference/cache_traces/NAME.json. */
#ifndef SC_TEST_TRACE_H
#define SC_TEST_TRACE_H

#include <cjson/cJSON.h>

/* The caller deletes it. Fails the test. */
cJSON *trace_read(const char *name);

#endif
