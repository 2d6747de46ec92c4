/* error.c - see error.h. */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>

int sc_fail(sc_error *err, int code, const char *format, ...) {
    if (err) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->message, sizeof err->message, format, args);
        va_end(args);
        for (char *c = err->message; *c; c++) /* one line, whatever a name or a value holds */
            if ((unsigned char)*c < ' ' || *c == 0x7f)
                *c = '?';
        err->code = code;
    }
    return code;
}

int sc_exit_status(int code) {
    switch (code) {
    case SC_OK:
        return 0;
    case SC_ECHECK:
        return 1;
    case SC_EUSAGE:
    case SC_ESTATE:
        return 2;
    case SC_EENV:
        return 4;
    default:
        return 3;
    }
}
