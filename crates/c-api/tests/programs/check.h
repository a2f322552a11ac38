/* Checks of the test programs. The first that fails ends the program. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                \
    do {                                                                                \
        if (!(condition)) {                                                             \
            fprintf(stderr, "FAILED %s:%d: %s\n", __FILE__, __LINE__, #condition);      \
            exit(1);                                                                    \
        }                                                                               \
    } while (0)

#define CHECK_EQUAL(found, wanted)                                                      \
    do {                                                                                \
        long long found_ = (long long)(found), wanted_ = (long long)(wanted);           \
        if (found_ != wanted_) {                                                        \
            fprintf(stderr, "FAILED %s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, \
                    #found, found_, wanted_);                                           \
            exit(1);                                                                    \
        }                                                                               \
    } while (0)

#endif
